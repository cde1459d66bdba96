"""Commands that show settings and their sources, and change them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from vademecum import config as settings
from vademecum.errors import ConfigError
from vademecum.interfaces.cli.options import common, confirm
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.output import discard_draft, edit_text
from vademecum.memory.settings_file import find_setting, write_file, write_setting

if TYPE_CHECKING:
    from vademecum.config import Setting, Shared
    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory


@click.group(invoke_without_command=True)
@common
@click.pass_context
def config(ctx: click.Context, as_json: bool, open_memory: OpenMemory) -> None:
    """Show or change settings.

    Without a subcommand, it shows every setting, its value and where the value comes from.
    """
    if ctx.invoked_subcommand is not None:
        return
    loaded = open_memory().workspace.loaded
    values = settings.flatten(loaded.settings)
    if as_json:
        shown = {name: {"value": value, "from": loaded.origins[name]} for name, value in values.items()}
        output.as_json(to_json.settings_json, settings=shown)
        return
    rows = [
        [name, settings.SETTINGS[name].render(value), loaded.origins[name]] for name, value in values.items()
    ]
    output.table(rows, ["setting", "value", "from"])
    for warning in loaded.warnings[: len(loaded.warnings) - len(loaded.problems)]:
        output.error(warning)  # opening memory printed the others
    if loaded.shared is not None:
        show_shared(loaded.shared)


def show_shared(shared: Shared) -> None:
    """Print what a repository's settings file sets, or would set, and which lines are ignored."""
    effect = "sets" if shared.trusted else "is not trusted and has no effect; it would set"
    output.line(f"\n{shared.path} {effect}:")
    for each in shared.wanted:
        output.line(f"  {each.name} = {each.value}")
    for problem in shared.problems:
        output.line(f"  ignored: {problem}")
    if not shared.wanted and not shared.problems:
        output.line("  nothing")


@config.command("get")
@click.argument("name", metavar="SETTING")
@common
def config_get(name: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Print the value of one setting."""
    loaded = open_memory().workspace.loaded
    each = find_setting(name)
    value = settings.flatten(loaded.settings)[each.name]
    told = {each.name: {"value": value, "from": loaded.origins[each.name]}}
    output.show(as_json, each.render(value), to_json.settings_json, settings=told)


@config.command("set")
@click.argument("name", metavar="SETTING")
@click.argument("value", metavar="[VALUE]", required=False)
@click.option("--unset", is_flag=True, help="Remove it, which restores the default.")
@click.option("--yes", is_flag=True, help="Confirm a model that reads your sessions.")
@common
def config_set(
    *, name: str, value: str | None, unset: bool, yes: bool, as_json: bool, open_memory: OpenMemory
) -> None:
    """Change a setting in your config.toml.

    Validates the value first. Comments and order of the file stay.
    """
    if (value is None) is not unset:
        raise click.UsageError("Give a VALUE, or --unset.")
    memory = open_memory()
    each = find_setting(name)
    memory.workspace.may_decide("change a setting", "vade config set")
    is_model = each.name == "capture.model"
    model = _confirm_model(memory, each, value, yes=yes) if is_model else ""
    write_setting(memory, each, value)
    if is_model:
        memory.heard.allow_model(model)
    loaded = settings.load(home=memory.home.path)
    now = settings.flatten(loaded.settings)[each.name]
    told = {each.name: {"value": now, "from": loaded.origins[each.name]}}
    output.show(as_json, f"{each.name} = {each.render(now)}", to_json.settings_json, settings=told)
    if os.environ.get(each.environment):
        output.error(f"{each.environment} is set and overrides the file")


def _confirm_model(memory: Memory, each: Setting, value: str | None, *, yes: bool) -> str:
    """Say which text a model will get, let the person confirm it, and return the model's name and address."""
    capture = memory.settings.capture.replace(**{each.name.rpartition(".")[2]: value})
    where = memory.heard.find_destination(memory.settings.replace(capture=capture))
    if where is not None:
        place = "It stays on this machine." if where.is_local else "It leaves this machine."
        output.error(
            "After each session of yours, what you and the agent wrote in it goes to"
            f" {where.name}, without tool results and without secrets that are recognized. {place}"
            f" At most {capture.model_tokens} tokens a day (capture.model_tokens)."
        )
        confirm("Do you want this?", yes=yes)
    return "" if where is None else where.name


@config.command("path")
@common
def config_path(as_json: bool, open_memory: OpenMemory) -> None:
    """Print the path of your config.toml."""
    path = open_memory().home.path / settings.FILE_NAME
    output.show(as_json, str(path), to_json.path_json, path=path)


@config.command("edit")
@common
def config_edit(as_json: bool, open_memory: OpenMemory) -> None:
    """Open your config.toml in your editor.

    Validates what you save. An invalid file is not applied, and your text is kept.
    """
    memory = open_memory()
    memory.workspace.may_decide("change settings", "vade config edit")
    path = memory.home.path / settings.FILE_NAME
    before = path.read_text("utf-8") if path.exists() else ""
    after, draft = edit_text(before, settings.FILE_NAME, quiet=as_json)
    if after is None or after == before:
        discard_draft(draft)
        output.show(as_json, "nothing changed", to_json.unchanged_json, path=str(path), changed=False)
        return
    problems = settings.check_text(path, after)
    if problems:
        raise ConfigError(f"{problems[0]}; your text is kept in {draft}", hint="fix it, and try again")
    write_file(memory, lambda now: _unchanged(now, before, after, str(draft)))
    discard_draft(draft)
    output.show(as_json, f"saved {path}", to_json.edited_json, path=str(path), changed=True, secrets=[])


def _unchanged(now: bytes | None, before: str, after: str, draft: str) -> bytes:
    if (now or b"").decode(errors="replace") != before:
        raise ConfigError(f"the file was changed meanwhile; your text is kept in {draft}", hint="try again")
    return after.encode()
