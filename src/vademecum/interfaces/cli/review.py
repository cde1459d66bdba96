"""Commands for deciding about pending changes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import VadeError
from vademecum.interfaces.cli.options import common, complete_keys, confirm, read_key, scope_option
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.safe import clean_text, find_secrets, mark_secrets
from vademecum.interfaces.present.to_text import show_pending
from vademecum.text import spelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory
    from vademecum.memory.review import Inbox, PendingItem
    from vademecum.memory.values import Unverified

_SHOWN = 24  # lines of a text that are shown; the pager shows the rest
_KEYS = {
    "y": "yes",
    "n": "no",
    "e": "edit",
    "s": "skip",
    "a": "yes to all of this kind",
    "h": "yes to all heard in this session",
    "m": "more",
    "b": "keep both",
    "q": "quit",
}
_VERSION_KEYS = {**_KEYS, "y": "keep the second", "n": "keep the first", "a": "keep the second of all"}
_KIND_NAMES = "write folder text contradiction version notice held conflict promotion signal lesson".split()

_TWO_VERSIONS = ("contradiction", "version", "conflict")


@click.group(invoke_without_command=True)
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(_KIND_NAMES), help="Only this kind; repeatable."
)
@scope_option("Only this scope.")
@click.option("--declined", is_flag=True, help="Items you rejected, to decide again.")
@common
@click.pass_context
def review(
    ctx: click.Context,
    kinds: tuple[str, ...],
    scope: str | None,
    *,
    declined: bool,
    as_json: bool,
    open_memory: OpenMemory,
) -> None:
    """Decide about pending changes.

    Keys: y yes, n no, e edit, s skip, a yes to all of this kind, h yes to all that was heard in this session,
    m more of a long text, b keep both versions, q quit. Only keys that fit the item are offered.

    Agents' writes, an untrusted .vade folder, unverified texts, contradictions, entries with two versions
    after a sync (y keeps the second, n the first), texts that a purge on another machine has left
    open, conflict copies of a sync tool, and proposals to save. `--json`, or a pipe, only lists them.
    """
    from vademecum.memory.opening import has_terminal

    if ctx.invoked_subcommand is not None:
        return
    memory = open_memory()
    inbox = memory.review.inbox(kinds, scope=scope, declined=declined)
    if as_json:
        output.as_json(to_json.inbox_json, inbox)
        return
    show_counts(inbox)
    if not inbox.items:
        return
    if not has_terminal():
        for item in inbox.items:
            show_item(item)
        output.line("\nrun `vade review` in a terminal to decide")
        return
    memory.workspace.may_decide("decide about pending changes", "vade review")
    ReviewScreen(memory, inbox.items, kinds, scope).run()


def show_counts(inbox: Inbox) -> None:
    """Print the number of pending items by kind."""
    from vademecum.memory.review import KINDS

    for kind, count in inbox.counts.items():
        output.line(f"{count:>6,}  {KINDS[kind]}")
    for message in inbox.refused:
        output.line(f"not sent: {message}")
    if not inbox.items:
        output.line("nothing is pending")
    for note in inbox.notes:
        output.error(note)


def show_item(item: PendingItem) -> None:
    """Print an item in one line; an item with two versions of a text is printed whole."""
    if item.kind not in _TWO_VERSIONS:
        output.line(f"{item.kind}: {item.name}: {first_line(item.text or item.why)}")
        return
    output.line(f"{item.kind}: {item.name}: {item.why}")
    for line in item.text.split("\n"):
        output.line(f"  │ {line}")


def first_line(text: str) -> str:
    """Return the beginning of a text, for a list."""
    from vademecum.interfaces.present.to_text import shorten

    return shorten(text, 100)


class ReviewScreen:
    """The review of one person at a terminal; each decision takes effect at once."""

    def __init__(
        self, memory: Memory, items: Sequence[PendingItem], kinds: Sequence[str], scope: str | None
    ) -> None:
        self.memory, self.kinds, self.scope = memory, kinds, scope
        self.items = list(items)
        self.id: str | None = None
        self.counts = {"yes": 0, "no": 0, "skipped": 0, "left": 0}

    def run(self) -> None:
        """Ask about each item, until all are decided or the person quits."""
        at = 0
        kind = ""
        several = len({item.kind for item in self.items}) > 1  # the count of a single kind was just printed
        while at < len(self.items):
            item = self.items[at]
            if item.kind != kind:
                kind = item.kind
                if several:
                    self._show_kind(kind)
            self._show(item, at)
            key = self._read_key(item, at)
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
                at += self._approve_rest(item, at)
            elif key == "h":
                same = self._of_session(item, at)
                self.items[at:] = [*same, *(each for each in self.items[at:] if each not in same)]
                at += self._decide(same, at, yes=True)
            else:
                at += self._decide([item], at, yes=key != "n", keep="both" if key == "b" else None)
        self._show_summary()

    def _show_kind(self, kind: str) -> None:
        from vademecum.memory.review import KINDS

        count = sum(item.kind == kind for item in self.items)
        output.line(f"\n── {KINDS[kind]} ({count:,})")

    def _show(self, item: PendingItem, at: int) -> None:
        path = item.path if item.path != item.name and item.path not in item.why else ""
        place = " · ".join(each for each in (item.scope, path) if each)
        output.line(f"\n[{at + 1:,}/{len(self.items):,}] {item.name}{f' · {place}' if place else ''}")
        output.line(f"  {item.why}")
        lines = spelled(mark_secrets(item.text, find_secrets(item.text))).split("\n")
        with output.show_secrets():
            for line in lines[:_SHOWN]:
                output.line(f"  │ {line}")
        if len(lines) > _SHOWN:
            output.line(f"  … {len(lines) - _SHOWN:,} more lines; m shows all")

    def _read_key(self, item: PendingItem, at: int) -> str:
        left_out = {"" if _is_editable(item) else "e", "" if item.text.count("\n") >= _SHOWN else "m"}
        left_out |= {"" if item.kind == "version" else "b"}
        left_out |= {"" if len(self._of_session(item, at)) > 1 else "h"}
        names = _VERSION_KEYS if item.kind == "version" else _KEYS
        offered = [key for key in names if key not in left_out]
        click.echo(f"{' · '.join(f'{key} {names[key]}' for key in offered)} ? ", nl=False)
        key = read_key(offered)
        click.echo(names[key])
        return key

    def _of_session(self, item: PendingItem, at: int) -> list[PendingItem]:
        """Return the remaining statements and lessons of the session in which an item was heard."""
        from vademecum.memory.review import HEARD_KINDS

        if item.kind not in HEARD_KINDS:
            return []
        return [each for each in self.items[at:] if each.kind in HEARD_KINDS and each.path == item.path]

    def _approve_rest(self, item: PendingItem, at: int) -> int:
        """Approve all remaining items of a kind, as they were when the review began."""
        rest = [each for each in self.items[at:] if each.kind == item.kind]
        what = output.plural(len(rest), item.kind)
        click.echo(f"Approve the remaining {what}? y/n ", nl=False)
        if click.getchar().lower() != "y":
            click.echo("no")
            return 0
        click.echo("yes")
        return self._decide(rest, at, yes=True)

    def _decide(self, items: Sequence[PendingItem], at: int, *, yes: bool, keep: str | None = None) -> int:
        """Decide about items, print the result, and return how many are done; changed items come back."""
        with output.progress() as step:
            self.id, decided = self.memory.review.decide(
                items, yes=yes, keep=keep, sitting=self.id, progress=step
            )
        done = [each for each in decided if each.done]
        left = [each for each in decided if not each.done]
        self.counts["yes" if yes else "no"] += len(done)
        if len(items) > 1:
            output.line(f"{output.plural(len(done), items[0].kind)} done")
        for each in done:
            if each.back != f"vade undo {self.id}" and len(items) == 1:
                output.line(f"done; `{each.back}` reverts it")
        for each in left:
            output.line(f"not done: {each.item.name} {each.why}")
        fresh = self._find_changed(left) if left else []
        self.counts["left"] += len(left) - len(fresh)
        self.items[at : at + len(items)] = [*(each.item for each in done), *fresh]
        return len(done)

    def _find_changed(self, left: Sequence[Any]) -> list[PendingItem]:
        """Return the items that replaced those which changed during the review."""
        paths = {each.item.path for each in left if each.item.path}
        known = {item.id for item in self.items}
        kinds = sorted({each.item.kind for each in left})
        found = self.memory.review.inbox(kinds, scope=self.scope).items
        return [each for each in found if each.path in paths and each.id not in known]

    def _edit(self, item: PendingItem, at: int) -> None:
        """Open an item in the person's editor, and show it again."""
        from vademecum.interfaces.present.output import discard_draft, edit_text

        name, scope = _editor_name(item), item.scope or None
        try:
            path, before = self.memory.care.editable(name, scope=scope)
            after, draft = edit_text(before, os.path.basename(path), quiet=False)
            if after is not None and after != before:
                self.memory.care.edited(name, before, after, scope=scope)
            discard_draft(draft)
        except VadeError as error:
            output.error(f"{error}: {error.hint}")
            return
        known = {each.id for each in self.items if each is not item}
        now = self.memory.review.inbox([item.kind], scope=self.scope).items
        again = [each for each in now if each.path == item.path and each.id not in known]
        self.items[at : at + 1] = again
        if not again:
            output.line("none of them is pending any more")

    def _show_summary(self) -> None:
        counts = [f"{count:,} {name}" for name, count in self.counts.items() if count]
        back = (
            f"; `vade undo {self.id}` reverts your decisions"
            if self.id and (self.counts["yes"] or self.counts["no"])
            else ""
        )
        output.line(f"\n{', '.join(counts) or 'nothing decided'}{back}")


def _is_editable(item: PendingItem) -> bool:
    return item.kind in ("contradiction", "conflict", "version") or (
        item.kind == "text" and (item.about is not None or not _is_journal(item.path))
    )


def _is_journal(path: str) -> bool:
    return "/journal/" in path


def _editor_name(item: PendingItem) -> str:
    """Return the name that `vade edit` takes: of the record, or of the pinned document."""
    return item.name if "/" not in item.name else item.name.rpartition("/")[2]


@review.group(invoke_without_command=True)
@common
@click.pass_context
def approve(ctx: click.Context, as_json: bool, open_memory: OpenMemory) -> None:
    """Approve or reject writes that agents asked for."""
    if ctx.invoked_subcommand is None:
        show_pending(open_memory().review.approvals(), as_json=as_json)


@approve.command("list")
@common
def list_(as_json: bool, open_memory: OpenMemory) -> None:
    """List pending writes in full."""
    show_pending(open_memory().review.approvals(), as_json=as_json)


@approve.command("yes")
@click.argument("ids", metavar="ID…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All pending items.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@common
def yes_(ids: tuple[str, ...], everything: bool, yes: bool, as_json: bool, open_memory: OpenMemory) -> None:
    """Approve writes, exactly as shown."""
    memory = open_memory()
    chosen = _choose_ids(memory, ids, everything=everything, yes=yes, question="Write all of them?")
    done = []
    for id in chosen:
        request, _ = memory.review.approve(id)
        done.append({"id": id, "operation": request.operation, "scope": request.scope, "decided": "yes"})
        if not as_json:
            output.line(f"{id[:12]}: {request.operation} was done, as {request.whose}")
    if as_json:
        output.as_json(to_json.decided_json, decided=done)


@approve.command("no")
@click.argument("ids", metavar="ID…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All pending items.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@common
def no_(ids: tuple[str, ...], everything: bool, yes: bool, as_json: bool, open_memory: OpenMemory) -> None:
    """Reject writes; they are never made."""
    memory = open_memory()
    chosen = _choose_ids(memory, ids, everything=everything, yes=yes, question="Reject all of them?")
    for id in chosen:
        refused = memory.review.reject(id)
        if not as_json:
            output.line(f"{refused.short}: rejected")
    if as_json:
        output.as_json(to_json.decided_json, decided=[{"id": id, "decided": "no"} for id in chosen])


def _choose_ids(
    memory: Memory, ids: tuple[str, ...], *, everything: bool, yes: bool, question: str
) -> Sequence[str]:
    """Return the given ids, or with `everything` all ids that were pending when the question was asked."""
    if bool(ids) is everything:
        raise click.UsageError("give the ids, or --all")
    if not everything:
        return ids
    waiting = memory.review.approvals()
    if waiting:
        show_pending(waiting, as_json=False) if not yes else None
        confirm(question, yes=yes)
    return [each.id for each in waiting]


@review.command()
@click.argument("names", metavar="[KEY|NUM|DOCUMENT|JOURNAL|GLOB]...", nargs=-1, shell_complete=complete_keys)
@scope_option("The scope.")
@click.option("--run", metavar="RUN", help="Everything from this run, such as an import.")
@click.option("--source", metavar="SOURCE", help="Everything from this system, such as openclaw.")
@click.option("--all", "everything", is_flag=True, help="All pending items.")
@click.option("--off", is_flag=True, help="Remove the verification.")
@click.option("--list", "listed", is_flag=True, help="List unverified texts.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@common
def verify(
    names: tuple[str, ...],
    scope: str | None,
    *,
    run: str | None,
    source: str | None,
    everything: bool,
    off: bool,
    listed: bool,
    yes: bool,
    as_json: bool,
    open_memory: OpenMemory,
) -> None:
    """Verify records, documents or journals.

    Agents then see them, whatever their origin. Editing a text removes its verification.
    `vade review` shows each text and asks.
    """
    many = everything or run is not None or source is not None or any(_is_glob(each) for each in names)
    if listed and (names or many or off):
        raise click.UsageError("--list takes no other arguments.")
    if not listed and not names and not many:
        raise click.UsageError(
            "Name what to verify, or pass --run, --source or --all; --list shows what is pending."
        )
    if off and many:
        raise click.UsageError("--off requires names; `vade undo` reverts a verification of several texts.")
    memory = open_memory()
    if listed:
        _show_unverified(list(memory.review.waiting(scope=scope)), as_json=as_json)
        return
    if many:
        _verify_many(
            memory, names, scope, run=run, source=source, everything=everything, yes=yes, as_json=as_json
        )
        return
    done = []
    for name in names:
        memory.review.verifiable(name, scope=scope)  # check every name before the first decision
    for name in names:
        entries = memory.review.verify(name, scope=scope, on=not off)
        done.append({"key": name, "verified": not off, "texts": [entry.text for entry in entries]})
        if not as_json:
            output.line(
                f"{name}: {output.plural(len(entries), 'text')} {'no longer ' if off else ''}verified"
            )
            for each in entries:
                output.line("\n".join(f"  {line}" for line in each.text.split("\n")))
    if as_json:
        output.as_json(to_json.verified_json, verified=done)


def _is_glob(name: str) -> bool:
    return any(each in name for each in "*?[")


def _verify_many(
    memory: Memory, names: tuple[str, ...], scope: str | None, *, yes: bool, as_json: bool, **given: Any
) -> None:
    """Verify all pending texts that match, after a question with their number."""
    items = memory.review.selected(names, scope=scope, **given)
    if not items:
        output.show(as_json, "nothing is pending", to_json.verified_many_json, verified=[], left=[], run=None)
        return
    confirm(f"Verify {output.plural(len(items), 'text')} without reviewing each one?", yes=yes)
    with output.progress() as step:
        sitting, decided = memory.review.decide(items, yes=True, progress=step)
    done = [each for each in decided if each.done]
    left = [each for each in decided if not each.done]
    if as_json:
        output.as_json(to_json.verified_many_json, verified=done, left=left, run=sitting)
        return
    output.line(f"{output.plural(len(done), 'text')} verified; `vade undo {sitting}` reverts it")
    for each in left:
        output.line(f"left: {each.item.path}: {each.why}")


def _show_unverified(waiting: list[Unverified], *, as_json: bool) -> None:
    if as_json:
        output.as_json(to_json.unverified_json, waiting=waiting)
        return
    for each in waiting:
        first = next(iter(clean_text(each.text).strip().split("\n")), "")
        output.line(f"{each.name}: {first[:120]}")
        output.line(f"  {each.why}; {each.path}")
    count = output.plural(len(waiting), "text")
    output.line(f"{count} for `vade review` or `vade review verify`" if waiting else "nothing is pending")


@review.command()
@click.option("--off", is_flag=True, help="Remove the trust.")
@common
def trust(off: bool, as_json: bool, open_memory: OpenMemory) -> None:
    """Trust this project's .vade/ folder.

    It came with the repository, so read it first.
    """
    memory = open_memory()
    root, shared = memory.projects.trust(on=not off), memory.workspace.loaded.shared
    if as_json:
        settings = None if shared is None else {each.name: each.value for each in shared.wanted}
        output.as_json(to_json.trusted_json, root=root, trusted=not off, settings=settings)
        return
    output.line(f"{root / '.vade'} is {'no longer ' if off else ''}trusted")
    if shared is not None and not off:
        for each in shared.wanted:
            output.line(f"  its config.toml sets {each.name} = {each.value}")
        for problem in shared.problems:
            output.line(f"  ignored: {problem}")
