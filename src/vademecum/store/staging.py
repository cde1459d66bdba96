"""Records as they would be: every write is laid beside the files, and becomes one edit a file.

Nothing here touches the disk. Who has many things to write that belong together writes them to this, looks
at the edits, and makes them as one run; an edit whose file somebody changed meanwhile is left out there.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vademecum.errors import Collision, Malformed, OutsideMemory
from vademecum.store import archive, clock, frontmatter, names, people
from vademecum.store.home import Home
from vademecum.store.merge import Joining
from vademecum.store.records import Found, Records, is_record, key_of
from vademecum.store.runs import Edit
from vademecum.store.validate import decode
from vademecum.types import Entry, Record, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.store.home import Shelf
    from vademecum.store.merge import Draft

    _File = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Unlocked(Home):
    """A home that is only looked at: what is planned for it is checked again under the locks of the run."""

    @contextlib.contextmanager
    def lock(self, thing: str, *, derived: bool = False) -> Iterator[None]:
        """Hold nothing."""
        yield


@dataclass(frozen=True, slots=True)
class Staged(Records):
    """The records in reach, and what was written over them so far."""

    _edits: dict[_File, Edit] = field(default_factory=dict)

    def edits(self) -> list[Edit]:
        """What has to be done, in the order in which it was begun."""
        return [each for each in self._edits.values() if each.before != each.after]

    def content(self, shelf: Shelf, kind: str, name: str) -> bytes | None:
        """A file as it would be by now."""
        staged = self._edits.get(_file(shelf, kind, name))
        return staged.after if staged is not None else _on_disk(shelf, kind, name)

    def put(self, shelf: Shelf, kind: str, name: str, after: bytes) -> None:
        """Let a file hold this."""
        at = _file(shelf, kind, name)
        staged = self._edits.get(at)
        before = staged.before if staged is not None else _on_disk(shelf, kind, name)
        self._edits[at] = Edit(shelf, kind, name, before, after)

    def names_on(self, shelf: Shelf) -> list[str]:
        """The files of records on a shelf, with those that are still to come."""
        folder = shelf.open(archive.RECORDS)
        found: set[str] = set()
        if folder is not None:
            with folder:
                found = set(folder.names())
        found |= {each.name for each in self._edits.values() if each.shelf == shelf and _is_of(each)}
        return sorted(filter(is_record, found))

    def barred(self, before: bytes, after: bytes | None) -> str:
        """What of a person's a change to a record would take away, and the caller may not."""
        return people.barred(self.home, self.caller, before, after)

    def located(self, shelves: Sequence[Shelf], key: str) -> tuple[Shelf, str]:
        """The shelf and file of a key; where there is none, those it would have."""
        return self._locate(shelves, key)

    def free_name(self, shelves: Sequence[Shelf], wanted: str) -> tuple[Shelf, str]:
        """The first name made of a key that nobody has, and the shelf for it."""
        for number in range(1, 10_000):
            shelf, name = self._locate(shelves, wanted if number == 1 else names.numbered(wanted, number))
            if self.content(shelf, archive.RECORDS, name) is None:
                return shelf, name
        raise Collision(f"there are too many records called {wanted}", hint="forget some of them")

    # ---------------------------------------------------------------- as records do it

    def typed(
        self, shelves: Iterable[Shelf], *types: str, likely: Callable[[bytes], bool] = bool
    ) -> Iterator[Found]:
        """The records of these types on the shelves that may be written."""
        for shelf in shelves:
            for name in self.names_on(shelf) if shelf.trusted else ():
                with contextlib.suppress(Malformed, OutsideMemory, OSError):
                    content = self.content(shelf, archive.RECORDS, name)
                    if content is None or not likely(content):
                        continue
                    if self._labelled(shelf, name, content).type in types:
                        yield Found(self.parse(shelf, name, content), shelf, name)

    def begin(self, shelves: Sequence[Shelf], draft: Draft) -> Stored:
        """Keep a text in a new record, under the first free key made from its words."""
        wanted = names.auto_key(draft.name or draft.text)
        shelf, name = self.free_name(shelves, wanted)
        return self._stage(shelf, name, replace(draft, wanted=wanted))

    def join(self, found: Found, draft: Draft) -> Stored:
        """Keep a text in this very record."""
        return self._stage(found.shelf, found.name, draft)

    def revise(
        self, found: Found, change: Callable[[Mapping[str, Any]], dict[str, Any]], *, operation: str
    ) -> Record:
        """Set frontmatter keys to what follows from those that are there now."""
        text = decode(self.content(found.shelf, archive.RECORDS, found.name) or b"")
        after = frontmatter.edit(text, change(frontmatter.parse(text).values)).encode()
        self.put(found.shelf, archive.RECORDS, found.name, after)
        return self.parse(found.shelf, found.name, after)

    def _stage(self, shelf: Shelf, name: str, draft: Draft) -> Stored:
        self._check_writable(shelf)
        current = self.content(shelf, archive.RECORDS, name)
        # A text that brings the time at which it was first said is dated with it.
        told = draft.labels({}) if draft.labels is not None and current is None else {}
        first = clock.parse(told.get("created"))
        entry = Entry(draft.text, clock.stamp(first or self.now()), self.caller.origin)
        join = Joining(
            draft,
            entry,
            caller=self.caller,
            place=shelf.place,
            key=key_of(name),
            num=None,  # given when it is written, since numbers are given once
            id=names.new_id(),
            verified=self._verified if people.is_bound(self.caller) else None,
        )
        after = join(current)
        self.put(shelf, archive.RECORDS, name, after)
        record = self._labelled(shelf, name, after)
        return Stored(join.outcome, record.key, record.num, record.id, shelf.place, record.path)


def _on_disk(shelf: Shelf, kind: str, name: str) -> bytes | None:
    folder = shelf.open(*(() if kind == archive.PINNED else (kind,)))
    if folder is None:
        return None
    with folder:
        return folder.read(name)


def _file(shelf: Shelf, kind: str, name: str) -> _File:
    return str(shelf.top), shelf.label, kind, name


def _is_of(edit: Edit) -> bool:
    return edit.kind == archive.RECORDS and edit.after is not None
