"""`vade help` shows the help of a command, or the list of all commands."""

from __future__ import annotations

import click


@click.command("help")
@click.argument("words", metavar="[COMMAND|all]", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show help for a command, or `all` of them."""
    from vademecum.interfaces.cli.app import cli, format_all

    top = ctx.find_root()
    if words == ("all",):
        formatter = ctx.make_formatter()
        format_all(top, formatter)
        click.echo(formatter.getvalue().rstrip("\n"))
        return
    command: click.Command = cli
    here, rest = top, list(words)
    while rest and isinstance(command, click.Group):
        name, found, _ = command.resolve_command(here, rest)
        if found is None:
            break
        here = click.Context(found, info_name=name, parent=here)
        command, rest = found, rest[1:]
    click.echo(command.get_help(here))
