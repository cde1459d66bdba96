"""The commands about `profile.md`: what it says, and a draft of it from what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import common, confirmed
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_json import draft_json, profile_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.lifecycle.profile import Draft
    from vademecum.memory import Memory
    from vademecum.store.runs import Told

    Door = Callable[[], Memory]


@click.group(invoke_without_command=True)
@common
@click.pass_context
def profile(ctx: click.Context, as_json: bool, door: Door) -> None:
    """Look at profile.md, or draft it: alone it shows it, as `vade profile show` does."""
    if ctx.invoked_subcommand is None:
        show_profile(door(), as_json=as_json)


@profile.command("show")
@common
def show(as_json: bool, door: Door) -> None:
    """Show profile.md, how full it is, and what of it agents are told."""
    show_profile(door(), as_json=as_json)


@profile.command("build")
@click.option("--imported", is_flag=True, help="Count the sessions of other agents, too.")
@click.option("--llm", is_flag=True, help="Ask the model of the settings to add what it sees.")
@click.option("--model", metavar="NAME", help="Ask this model, as provider:name.")
@click.option("--apply", is_flag=True, help="Keep it, once you have seen it; without, it is only shown.")
@click.option("--yes", is_flag=True, help="Do not ask before it is kept.")
@common
def build(
    *,
    imported: bool,
    llm: bool,
    model: str | None,
    apply: bool,
    yes: bool,
    as_json: bool,
    door: Door,
) -> int:
    """Draft the observed style of profile.md from your own messages in this project's sessions."""
    if as_json and apply and not yes:
        raise click.UsageError("Pass --yes with --json and --apply, since nobody is asked then.")
    memory = door()
    draft = memory.profile_draft(model=model or llm, imported=imported)
    if not as_json:
        show_draft(draft)
    run, told = "", None
    if apply and draft.new:
        if not as_json:
            confirmed("Keep this in profile.md?", yes=yes)
        run, told = memory.profile_apply(draft)
    if as_json:
        output.as_json(draft_json(draft, run, told))
    else:
        show_kept(draft, run, told)
    return int(told is not None and not told.done)


def show_profile(memory: Memory, *, as_json: bool) -> None:
    """The profile as it stands, and what of it waits."""
    found = memory.profile()
    if as_json:
        output.as_json(profile_json(memory, found))
    elif found is None:
        output.line("there is no profile; `vade profile build` drafts one, `vade edit profile.md` begins one")
    else:
        output.line(found.text)
        output.line()
        over = "; what is beyond is cut" if found.over else ""
        output.line(f"{found.path} · {found.size} of {found.budget} characters{over}")
        waiting = sum(not memory.trust_of(each, trusted=found.trusted).injectable for each in found.sections)
        if waiting:
            told = output.plural(waiting, "section")
            output.line(f"{told} not told to agents before you say so: `vade verify profile.md`")


def show_draft(draft: Draft) -> None:
    """A draft, and what it comes from, for a person."""
    if draft.lines:
        said = output.plural(draft.messages, "message")
        by = f" and {draft.model}" if draft.model else ""
        output.line(f"from {said} in {output.plural(draft.sessions, 'session')}{by}:")
        output.line()
        output.line(draft.text)
        output.line()
    for note in draft.notes:
        output.line(note)


def show_kept(draft: Draft, run: str, told: Told | None) -> None:
    """What became of a draft."""
    if not draft.lines:
        output.line("nothing to keep")
    elif not draft.new:
        output.line("profile.md says this already")
    elif told is None:
        output.line("nothing was changed; `vade profile build --apply` keeps it")
    elif told.done:
        output.line(f"kept in {told.path}; `vade undo {run}` takes it back")
    else:
        output.line(f"left alone: {told.path}: {told.why}")


COMMANDS = {"profile": profile}
