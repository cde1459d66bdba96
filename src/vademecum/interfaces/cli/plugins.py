"""Commands that other packages add to `vade`.

A package adds a command with an entry point of the group `vademecum.commands`. The entry point's name is what
a person types after `vade`, with a dot between two words (`hello`, `hub.serve`), and its object is a
`click.Command`. A command of this package has precedence over an added one with the same name.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import click

from vademecum.errors import VadeError
from vademecum.interfaces.present import output

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "vademecum.commands"


def list_plugins(group_name: str = "") -> dict[str, EntryPoint]:
    """The commands added to the command line or to one of its groups, by name; nothing is imported yet."""
    from importlib.metadata import entry_points  # slow to import, and most commands need no list

    found: dict[str, EntryPoint] = {}
    for entry_point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=_order):
        parent, _, name = entry_point.name.rpartition(".")
        if parent == group_name:
            found.setdefault(name, entry_point)
    return found


def _order(entry_point: EntryPoint) -> tuple[str, str]:
    return entry_point.name, _package_of(entry_point)


def _package_of(entry_point: EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist else entry_point.module


@functools.cache
def load_command(entry_point: EntryPoint) -> click.Command:
    """Import an added command; a package that fails to give one is named in the error."""
    try:
        command = entry_point.load()
    except (Exception, SystemExit) as error:  # the code of others may raise anything when it is imported
        raise _cannot_load(entry_point, f"{type(error).__name__}: {error}") from error
    if not isinstance(command, click.Command):
        raise _cannot_load(entry_point, f"{entry_point.value} is not a click command")
    return command


def _cannot_load(entry_point: EntryPoint, reason: str) -> VadeError:
    words = entry_point.name.replace(".", " ")
    return VadeError(
        f"the package {_package_of(entry_point)} cannot add the command `{words}`: {reason}",
        hint="update or uninstall that package",
    )


class PluginGroup(click.Group):
    """A group to which other packages can add commands."""

    plugin_parent = (
        ""  # the words of the group in the names of entry points; the command line itself has none
    )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The group's own commands, then those added by other packages, without the ones that cannot load."""
        own = self.list_own_commands(ctx)
        return [*own, *(name for name in self.load_plugins(ctx) if name not in own)]

    def list_own_commands(self, ctx: click.Context) -> list[str]:
        """The commands that are not added by other packages."""
        return super().list_commands(ctx)

    def load_plugins(self, ctx: click.Context) -> dict[str, click.Command]:
        """Import every added command; print one line for each that cannot be imported."""
        commands = {}
        for name, entry_point in list_plugins(self.plugin_parent).items():
            try:
                commands[name] = load_command(entry_point)
            except VadeError as error:
                if not ctx.resilient_parsing:  # a shell that completes words shows no messages
                    output.error(f"{error}: {error.hint}")
        return commands

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of the group, else the added one of this name."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        entry_point = list_plugins(self.plugin_parent).get(cmd_name)
        return None if entry_point is None else load_command(entry_point)
