"""The command by which a person goes through all that waits for them, in one sitting."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import VadeError
from vademecum.interfaces.cli.options import common, scope_option
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_json import inbox_json
from vademecum.store import people, secrets
from vademecum.text.visible import spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.memory import Memory
    from vademecum.memory.reviewing import Inbox, Item

    Door = Callable[[], Memory]

_SHOWN = 24  # lines of a text before the pager has the rest
_KEYS = {
    "y": "yes",
    "n": "no",
    "e": "edit",
    "s": "skip",
    "a": "yes to all of this kind",
    "m": "more",
    "q": "quit",
}
_KIND_NAMES = ("write", "folder", "text", "contradiction", "conflict", "promotion", "signal")


@click.command()
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(_KIND_NAMES), help="Only this kind; may be repeated."
)
@scope_option("Only this scope.")
@click.option("--declined", is_flag=True, help="What you said no to, to decide again.")
@common
def review(kinds: tuple[str, ...], scope: str | None, *, declined: bool, as_json: bool, door: Door) -> None:
    """Go through everything that waits for you: y yes, n no, e edit, s skip, a all of this kind, q quit.

    Agents' writes, an untrusted .vade folder, unverified texts, contradictions, conflict copies of a sync
    tool, and proposals to save. `--json`, or a pipe, only lists them.
    """
    memory = door()
    inbox = memory.review(kinds, scope=scope, declined=declined)
    if as_json:
        output.as_json(inbox_json(inbox))
        return
    show_counts(inbox)
    if not inbox.items:
        return
    if not people.has_terminal():
        for each in inbox.items:
            output.line(f"{each.kind}: {each.name}: {first_line(each.text)}")
        output.line("\nrun `vade review` in a terminal to decide")
        return
    memory.may_decide("decide about what waits", "vade review")
    Sitting(memory, inbox.items, kinds, scope).run()


def show_counts(inbox: Inbox) -> None:
    """How much waits, by kind."""
    from vademecum.memory.reviewing import KINDS

    for kind, count in inbox.counts.items():
        output.line(f"{count:>6,}  {KINDS[kind]}")
    if not inbox.items:
        output.line("nothing waits for you")
    for note in inbox.notes:
        output.error(note)


def first_line(text: str) -> str:
    """The beginning of a text, for a list."""
    from vademecum.interfaces.present.to_text import short

    return short(text, 100)


class Sitting:
    """One person going through the inbox; what they decide is done at once."""

    def __init__(
        self, memory: Memory, items: Sequence[Item], kinds: Sequence[str], scope: str | None
    ) -> None:
        self.memory, self.kinds, self.scope = memory, kinds, scope
        self.items = list(items)
        self.id: str | None = None
        self.counts = {"yes": 0, "no": 0, "skipped": 0, "left": 0}

    def run(self) -> None:
        """Ask about one after the other, until all are decided about or the person has had enough."""
        at = 0
        kind = ""
        while at < len(self.items):
            item = self.items[at]
            if item.kind != kind:
                kind = item.kind
                self._heading(kind)
            self._show(item, at)
            key = self._key(item)
            if key == "q":
                break
            if key == "m":
                click.echo_via_pager(output.plain(item.text) + "\n")
            elif key == "s":
                self.counts["skipped"] += 1
                at += 1
            elif key == "e":
                self._edit(item, at)
            elif key == "a":
                at += self._all(item, at)
            else:
                at += self._decide([item], at, yes=key == "y")
        self._ending()

    def _heading(self, kind: str) -> None:
        from vademecum.memory.reviewing import KINDS

        count = sum(each.kind == kind for each in self.items)
        output.line(f"\n── {KINDS[kind]} ({count:,})")

    def _show(self, item: Item, at: int) -> None:
        place = " · ".join(each for each in (item.scope, item.path if item.path != item.name else "") if each)
        output.line(f"\n[{at + 1:,}/{len(self.items):,}] {item.name}{f' · {place}' if place else ''}")
        output.line(f"  {item.why}")
        lines = spelled(secrets.mark(item.text, secrets.find(item.text))).split("\n")
        with output.revealed():
            for line in lines[:_SHOWN]:
                output.line(f"  │ {line}")
        if len(lines) > _SHOWN:
            output.line(f"  … {len(lines) - _SHOWN:,} more lines; m shows all")

    def _key(self, item: Item) -> str:
        left_out = {"" if _editable(item) else "e", "" if item.text.count("\n") >= _SHOWN else "m"}
        offered = [key for key in _KEYS if key not in left_out]
        click.echo(f"{' · '.join(f'{key} {_KEYS[key]}' for key in offered)} ? ", nl=False)
        while True:
            try:
                key = click.getchar().lower()
            except (EOFError, KeyboardInterrupt):
                key = "q"
            key = {"\x03": "q", "\x04": "q", "\x1b": "q", "": "q"}.get(key, key)
            if key in offered:
                click.echo(_KEYS[key])
                return key

    def _all(self, item: Item, at: int) -> int:
        """Say yes to all that is left of a kind, as they were read when the review began."""
        rest = [each for each in self.items[at:] if each.kind == item.kind]
        what = output.plural(len(rest), item.kind)
        click.echo(f"Yes to the remaining {what}? y/n ", nl=False)
        if click.getchar().lower() != "y":
            click.echo("no")
            return 0
        click.echo("yes")
        return self._decide(rest, at, yes=True)

    def _decide(self, items: Sequence[Item], at: int, *, yes: bool) -> int:
        """Decide, say what became of it, and return how many are done; what changed is shown again."""
        with output.progress() as step:
            self.id, decided = self.memory.decide(items, yes=yes, sitting=self.id, progress=step)
        done = [each for each in decided if each.done]
        left = [each for each in decided if not each.done]
        self.counts["yes" if yes else "no"] += len(done)
        if len(items) > 1:
            output.line(f"{output.plural(len(done), items[0].kind)} done")
        for each in done:
            if each.back != f"vade undo {self.id}" and len(items) == 1:
                output.line(f"done; `{each.back}` takes it back")
        for each in left:
            output.line(f"not done: {each.item.name} {each.why}")
        fresh = self._fresh(left) if left else []
        self.counts["left"] += len(left) - len(fresh)
        self.items[at : at + len(items)] = [*(each.item for each in done), *fresh]
        return len(done)

    def _fresh(self, left: Sequence[Any]) -> list[Item]:
        """What stands now in the place of what changed while it was looked at."""
        paths = {each.item.path for each in left if each.item.path}
        known = {each.id for each in self.items}
        kinds = sorted({each.item.kind for each in left})
        found = self.memory.review(kinds, scope=self.scope).items
        return [each for each in found if each.path in paths and each.id not in known]

    def _edit(self, item: Item, at: int) -> None:
        """Open what an item is about in the person's editor, and show it again as it is then."""
        from vademecum.interfaces.present.editor import discard, from_editor

        name, scope = _target(item), item.scope or None
        try:
            path, before = self.memory.editable(name, scope=scope)
            after, draft = from_editor(before, os.path.basename(path), quiet=False)
            if after is not None and after != before:
                self.memory.edited(name, before, after, scope=scope)
            discard(draft)
        except VadeError as error:
            output.error(f"{error}: {error.hint}")
            return
        known = {each.id for each in self.items if each is not item}
        now = self.memory.review([item.kind], scope=self.scope).items
        again = [each for each in now if each.path == item.path and each.id not in known]
        self.items[at : at + 1] = again
        if not again:
            output.line("nothing of it waits any more")

    def _ending(self) -> None:
        said = [f"{count:,} {name}" for name, count in self.counts.items() if count]
        back = (
            f"; `vade undo {self.id}` takes back what you decided"
            if self.id and (self.counts["yes"] or self.counts["no"])
            else ""
        )
        output.line(f"\n{', '.join(said) or 'nothing decided'}{back}")


def _editable(item: Item) -> bool:
    return item.kind in ("contradiction", "conflict") or (
        item.kind == "text" and (item.about is not None or not _is_journal(item.path))
    )


def _is_journal(path: str) -> bool:
    return "/journal/" in path


def _target(item: Item) -> str:
    """What an editor is opened for: the record, or the pinned document by its name."""
    return item.name if "/" not in item.name else item.name.rpartition("/")[2]


COMMANDS = {"review": review}
