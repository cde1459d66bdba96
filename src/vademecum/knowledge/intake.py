"""What another system kept, on its way into memory: pieces in, edits out.

Knows nothing of the other systems: their readers make pieces of what they find, and all of it is taken as
somebody's claim. A piece is recognised by where it came from and by its text, so that the same one is kept
once; what stands in memory already is added to and never worded anew. Every text is signed `import`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, Untrusted, VadeError
from vademecum.knowledge import ltm
from vademecum.store import archive, document, frontmatter, journal, pinned, scopes
from vademecum.store.document import accept_text, decode
from vademecum.store.merge import category, read_tags
from vademecum.store.records import key_of
from vademecum.text import clock, fences, names, normalise
from vademecum.text import secrets as secret
from vademecum.types import Entry, Origin, Place, RecordType, Scope, SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.store import Shelf
    from vademecum.store.runs import Staged

_SIGNED = f"<!-- origin: {Origin.IMPORT} -->"
_HEADING = re.compile(r"#{1,6} ")
_MOST_TAGS = 50
_LONGEST = 48 * 1024  # characters about sources; frontmatter longer than 64 KiB could not be read
# Frontmatter that only this memory can say of its own records.
_OURS = ("num", "scope", "scope_id", "verified", "confirmed")


# -------------------------------------------------------------------- pieces


@dataclass(frozen=True, slots=True)
class TopicPiece:
    """A topic with all its entries, to become a record."""

    source: str  # where it was found, below the folder of that system
    key: str
    entries: tuple[Entry, ...]
    scope: Scope
    scope_id: str = ""  # whose it was there; empty: whoever imports it
    id: str = ""  # its name there, where it has one
    named: bool = True  # the key names the topic; else it was made from a file's name, and may mean two
    type: str = RecordType.PROJECT
    title: str = ""
    heading: str = ""  # the line above its text, where it is not the key
    tags: tuple[str, ...] = ()
    category: str = ""
    confidence: float | None = None
    protected: bool = False
    created: str = ""
    front: str = ""  # its frontmatter as it stands, of which unknown keys are kept byte for byte
    without: tuple[str, ...] = ()  # keys of that frontmatter which became something else
    fields: Mapping[str, Any] = field(default_factory=dict)  # keys beside these


class NotesPiece(NamedTuple):
    """Notes of one day, to become entries of the journal."""

    source: str
    day: str
    entries: tuple[Entry, ...]
    scope: Scope
    slug: str = ""


class SectionPiece(NamedTuple):
    """A document that was always in context, to become sections of a pinned one."""

    source: str
    document: str
    text: str
    scope: Scope
    front: str = ""  # its frontmatter as it stands, kept beside where it came from


class LessonsPiece(NamedTuple):
    """The content of an `ltm.json`."""

    source: str
    content: bytes
    scope: Scope


class Conversation(NamedTuple):
    """One of many sessions in a file: its format, and a function that reads it alone, given that file."""

    name: str
    read: Callable[..., Iterator[Any]]


class TranscriptPiece(NamedTuple):
    """A file of a session, or one session of a file that has many, to become a transcript."""

    source: str
    path: Path
    conversation: Conversation | None = None


class Skipped(NamedTuple):
    """Something that is not taken, and why."""

    source: str
    why: str


class Mapped(NamedTuple):
    """What became, or would become, of a piece: `new`, `grown` or `same`."""

    source: str
    kind: str  # record, journal, pinned or session
    path: str
    outcome: str
    added: int = 0  # entries, sections or messages
    secrets: tuple[str, ...] = ()


Piece = TopicPiece | NotesPiece | SectionPiece | LessonsPiece | TranscriptPiece | Skipped


class Over(NamedTuple):
    """A place that an import brings above the number of records it is meant to hold."""

    place: Place
    records: int
    limit: int

    @property
    def enough(self) -> int:
        """A limit that leaves room: the next hundred above a fifth more."""
        return -(-self.records * 12 // 1000) * 100


class ImportReport(NamedTuple):
    """What an import did, or would do."""

    system: str
    applied: bool
    run: str
    mapped: tuple[Mapped, ...]
    skipped: tuple[Skipped, ...]
    over: tuple[Over, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many things came, by kind, how many were here already, and how many were left."""
        found = Counter(each.kind for each in self.mapped if each.outcome != "same")
        known = sum(each.outcome == "same" for each in self.mapped)
        return {**dict(sorted(found.items())), "same": known, "skipped": len(self.skipped)}


class Taken(NamedTuple):
    """What became of all pieces; sessions are kept by those who know transcripts."""

    mapped: list[Mapped]
    skipped: list[Skipped]
    sessions: list[TranscriptPiece]


class _Ready(NamedTuple):
    """A topic as it will be kept: its entries and tags without secrets, and the kinds that were found."""

    piece: TopicPiece
    entries: Sequence[Entry]
    tags: tuple[str, ...]
    kinds: set[str]


class _Left(Exception):
    """A piece that is not taken, and why."""


# -------------------------------------------------------------------- taking them in


def take_all(intake: Intake, pieces: Iterable[Piece]) -> Taken:
    """Lay every piece where it belongs; trouble with one does not stop the others."""
    mapped: list[Mapped] = []
    skipped: list[Skipped] = []
    sessions: list[TranscriptPiece] = []
    for piece in pieces:
        if isinstance(piece, Skipped):
            skipped.append(piece)
        elif isinstance(piece, TranscriptPiece):
            sessions.append(piece)
        else:
            for told in intake.take(piece):
                if isinstance(told, Skipped):
                    skipped.append(told)
                else:
                    mapped.append(told)
    return Taken(mapped, skipped, sessions)


class Intake:
    """Takes pieces of one system, one after the other; what it makes of them lies in `staged`."""

    def __init__(
        self,
        staged: Staged,
        system: str,
        *,
        scope: Scope | None,
        policy: Callable[[Scope], SecretPolicy],
        largest: int,
    ) -> None:
        self.staged, self.system, self.scope = staged, system, scope
        self.policy, self.largest = policy, largest
        self.source = f"import:{system}"
        self.at = clock.stamp(staged.now())
        self._homes: dict[Place, dict[tuple[str, str], tuple[Shelf, str]]] = {}
        self._ids: dict[Place, set[str]] = {}

    def take(
        self, piece: TopicPiece | NotesPiece | SectionPiece | LessonsPiece
    ) -> Iterator[Mapped | Skipped]:
        """Lay a piece where it belongs, and say what became of it."""
        try:
            if isinstance(piece, TopicPiece):
                yield from self._topic(piece)
            elif isinstance(piece, NotesPiece):
                yield from self._notes(piece)
            elif isinstance(piece, SectionPiece):
                yield from self._section(piece)
            else:
                yield from self._lessons(piece)
        except (_Left, VadeError) as error:
            yield Skipped(piece.source, str(error))

    # ---------------------------------------------------------------- topics

    def _topic(self, piece: TopicPiece) -> Iterator[Mapped | Skipped]:
        place = self._place(piece.scope, piece.scope_id)
        shelves = self._shelves(place)
        kinds: set[str] = set()
        entries: list[Entry] = []
        for each in piece.entries:
            try:
                entries.append(self._entry(each, place.scope, kinds))
            except VadeError as error:
                at = f"{piece.source} ({each.time})" if each.time else piece.source
                yield Skipped(at, str(error))
        if not entries:
            if not piece.entries:
                raise _Left("it contains no text")
            return
        tags = self._tags(piece.tags, place.scope)
        key = names.slug(piece.key)
        for word in (piece.key, key):  # before a slug hides it, and after one brought it out
            names.without_secret(word, "its key")
        mark = self._mark(piece)
        ready = _Ready(piece, entries, tags, kinds)
        shelf, name = self._home_of(ready, place, shelves, key)
        if not shelf.trusted:
            raise Untrusted("the project's .vade folder came with the repository and is not trusted yet")
        current = self.staged.content(shelf, archive.RECORDS, name)
        if current is None:
            after, added, outcome = self._begin(ready, shelf, name), len(entries), "new"
        else:
            after, added = self._grow(ready, shelf, name, current)
            outcome = "grown" if added else "same"
        self.staged.put(shelf, archive.RECORDS, name, after)
        self._homes[place][mark] = shelf, name
        path = shelf.name_of(archive.RECORDS, name)
        yield Mapped(piece.source, "record", path, outcome, added, tuple(sorted(kinds)))

    def _home_of(self, ready: _Ready, place: Place, shelves: Sequence[Shelf], key: str) -> tuple[Shelf, str]:
        """The file of a topic: the one it was imported to, the one of its key, or a free one."""
        known, mark = self._known(place, shelves), self._mark(ready.piece)
        if mark in known:
            return known[mark]
        if names.is_id(ready.piece.id) and ("", ready.piece.id) in known:  # one of ours, back again
            return known["", ready.piece.id]
        for number in range(1, 10_000):
            shelf, name = self.staged.located(shelves, key if number == 1 else names.numbered(key, number))
            content = self.staged.content(shelf, archive.RECORDS, name)
            if content is None:
                return shelf, name
            there = Counter(normalise(each.text) for each in _entries(content))
            same = all(normalise(each.text) in there for each in ready.entries)
            if ready.piece.named or same:
                return shelf, name
        raise _Left(f"there are too many records called {key}")

    def _known(self, place: Place, shelves: Sequence[Shelf]) -> dict[tuple[str, str], tuple[Shelf, str]]:
        """The records of a place that came by an import, by where they came from."""
        if place not in self._homes:
            found: dict[tuple[str, str], tuple[Shelf, str]] = {}
            taken: set[str] = set()
            for shelf in shelves:
                for name in self.staged.names_on(shelf) if shelf.trusted else ():
                    try:
                        content = self.staged.content(shelf, archive.RECORDS, name) or b""
                        values = frontmatter.parse(decode(content)).values
                    except (VadeError, OSError):
                        continue  # told by the listing
                    taken.add(str(values.get("id")))
                    found.setdefault(("", str(values.get("id"))), (shelf, name))
                    for each in _sources(values):
                        mark = str(each.get("resource")), str(each.get("id") or "")
                        found.setdefault(mark, (shelf, name))
            self._homes[place], self._ids[place] = found, taken
        return self._homes[place]

    def _begin(self, ready: _Ready, shelf: Shelf, name: str) -> bytes:
        """A new record: its labels as far as they are known, then its entries, the oldest first."""
        piece, entries, tags, kinds = ready
        front = self._front(piece, shelf.place.scope, kinds)
        given = frontmatter.parse(front).values
        times = sorted(each.time for each in entries if each.time)
        own = str(given.get("id") or "")
        title = names.title(key_of(name), piece.key if names.is_key(piece.key) else names.slug(piece.key))
        fresh = names.is_id(own) and own not in self._ids[shelf.place]
        values: dict[str, Any] = {
            "type": str(given.get("type") or piece.type),
            "id": own if fresh else names.new_id(),
            "key": key_of(name),
            "title": given.get("title") or self._line(piece.title, shelf.place.scope, kinds) or title,
            "scope": str(shelf.place.scope),
            "scope_id": shelf.place.id or None,
            "tags": list(tags) or None,
            "category": given.get("category") or piece.category or category(tuple(tags)),
            "source": self.source,
            "sources": [*_sources(given), self._origin(piece)],
            "created": clock_or(given.get("created"), piece.created) or (times[0] if times else self.at),
            "updated": clock_or(given.get("updated")) or (times[-1] if times else self.at),
            "imported": self.at,
            "generated": given.get("generated") or {**self.staged.caller.provenance, "at": self.at},
            "confidence": piece.confidence if given.get("confidence") is None else given["confidence"],
            "protected": piece.protected or given.get("protected") is True or None,
            **piece.fields,
        }
        # Who vouched for it there, and where that was, is no word of anybody's here.
        claims = {each: given[each] for each in ("verified", "confirmed") if each in given}
        claims |= {each: given[each] for each in ("scope",) if given.get(each, "project") not in list(Scope)}
        claims |= piece.fields.get("claims", {})
        if claims:
            values["claims"] = claims
        self._ids[shelf.place].add(values["id"])
        gone = {each: None for each in (*_OURS, *piece.without) if each in given and each not in values}
        changes = {each: value for each, value in values.items() if given.get(each) != value}
        if read_tags(given.get("tags")) == tuple(tags):
            changes.pop("tags", None)  # written as it was written
        text = frontmatter.edit(front, {**gone, **changes})
        text += f"# {self._line(piece.heading, shelf.place.scope, kinds) or key_of(name)}\n\n"
        for each in _in_order(entries):
            text = document.append(text, each) if each.time else f"{text}{_undated(each)}"
        return text.encode()

    def _front(self, piece: TopicPiece | SectionPiece, scope: Scope, kinds: set[str]) -> str:
        """The frontmatter of a piece without secrets; an empty block when it has none."""
        if not piece.front:
            return "---\n---\n"
        front, found = secret.gate(piece.front, self.policy(scope))
        kinds.update(found)
        try:
            frontmatter.parse(front)
        except Malformed as error:
            raise _Left(f"its frontmatter cannot be read without its secrets: {error}") from error
        return front

    def _grow(self, ready: _Ready, shelf: Shelf, name: str, current: bytes) -> tuple[bytes, int]:
        """A record with the entries that it does not have yet, each where its time belongs."""
        piece, entries, tags, _ = ready
        text = decode(current)
        parsed = document.parse(text)
        values = parsed.front.values
        # What somebody took out or worded anew since it came does not come again.
        at = self.staged.home, shelf, archive.RECORDS, name
        missing = archive.missing(*at, parsed.entries, record=_text(values.get("id")))
        new = [*_missing(entries, [*parsed.entries, *missing])]
        for each in new:
            text = document.insert(text, each if each.time else replace(each, time=self.at))
        if not new:
            return current, 0
        latest = max([*(each.time for each in new if each.time), str(values.get("updated") or "")])
        changes: dict[str, Any] = {"updated": latest or self.at, "imported": self.at}
        origin, listed = self._origin(piece), _sources(values)
        if not any(_same(each, origin) for each in listed):
            changes["sources"] = [*listed, origin]
        old = read_tags(values.get("tags"))
        joined = [*old, *(each for each in tags if each not in old)]
        if not self.staged.barred(current, None):  # else its labels are a person's
            if tuple(joined) != old:
                changes["tags"] = joined
            if piece.protected:
                changes["protected"] = True
        if "verified" in values:
            changes["verified"] = None  # it was said of another text
        return frontmatter.edit(text, changes).encode(), len(new)

    def _mark(self, piece: TopicPiece) -> tuple[str, str]:
        origin = self._origin(piece)
        return str(origin["resource"]), str(origin.get("id", ""))

    def _origin(self, piece: TopicPiece) -> dict[str, str]:
        """Where a topic came from, in the words of the Open Knowledge Format."""
        told = {"resource": self._resource(piece.source)}
        return {**told, "id": _bare(piece.id)} if piece.id else told

    def _resource(self, source: str) -> str:
        return _bare(f"{self.system}:{source}")

    # ---------------------------------------------------------------- notes and pinned documents

    def _notes(self, piece: NotesPiece) -> Iterator[Mapped | Skipped]:
        place = self._place(piece.scope, "")
        if place.scope not in scopes.WITH_JOURNAL:
            raise _Left(f"{place.scope} memory has no journal")
        slug = f"-{names.slug(piece.slug)}" if piece.slug else ""
        name = f"{piece.day}{slug}.md"
        if not journal.is_day(name) or clock.parse(piece.day) is None:
            raise _Left(f"{names.shown(piece.day)} is not a date")
        names.without_secret(name, "its name")
        shelf = next(
            each for each in scopes.shelves(self.staged.home, self.staged.caller, place) if not each.shared
        )
        kinds: set[str] = set()
        entries = []
        for each in piece.entries:
            try:
                entries.append(self._entry(each, place.scope, kinds, local=True))
            except VadeError as error:
                yield Skipped(piece.source, str(error))
        current = self.staged.content(shelf, archive.JOURNAL, name)
        text = f"# {piece.day}\n\n" if current is None else decode(current)
        there = document.parse(text).entries
        gone = archive.missing(self.staged.home, shelf, archive.JOURNAL, name, there, record=None)
        new = [*_missing(entries, [*there, *gone])]
        for each in new:
            text = document.insert(text, each)
        if new:
            self.staged.put(shelf, archive.JOURNAL, name, text.encode())
        elif not entries:
            if not piece.entries:
                raise _Left("it contains no text")
            return
        outcome = "same" if not new else "new" if current is None else "grown"
        path = shelf.name_of(archive.JOURNAL, name)
        yield Mapped(piece.source, "journal", path, outcome, len(new), tuple(sorted(kinds)))

    def _section(self, piece: SectionPiece) -> Iterator[Mapped | Skipped]:
        place = self._pinned_place(piece)
        shelves = [
            each
            for each in self._shelves(place)
            if not each.shared or (piece.document == pinned.CONTEXT and each.trusted)
        ]
        shelf = next(
            (each for each in shelves if self.staged.content(each, archive.PINNED, piece.document)),
            scopes.shelf_for_new(shelves),
        )
        given = accept_text(piece.text, largest=self.largest)
        clean, found = secret.gate(given, self.policy(place.scope))
        kinds = set(found)
        front = frontmatter.parse(self._front(piece, place.scope, kinds)).values
        parts = [*_parts(clean, names.shown(piece.source)[1:-1])]
        current = self.staged.content(shelf, archive.PINNED, piece.document)
        text = decode(current) if current is not None else frontmatter.edit("", {"version": pinned.VERSION})
        resource = self._resource(piece.source)
        listed = _sources(frontmatter.parse(text).values)
        mine = next((each for each in listed if each.get("resource") == resource), {"resource": resource})
        seen = [str(each) for each in mine.get("seen") or ()]
        known = Counter(normalise(each.text) for each in document.blocks(text))
        wanted = [each for each in parts if _digest(each) not in seen]
        new = [each for each in wanted if not _counted(known, each)]
        for each in new:
            self.staged.check_purged(each)
        if new:
            for each in new:
                gap = "" if text.endswith(("\n\n", "---\n")) else "\n" if text.endswith("\n") else "\n\n"
                text += f"{gap}{_claimless(each)}\n{_SIGNED}\n"
            marks = dict.fromkeys([*seen, *(_digest(each) for each in parts)])
            others = [each for each in listed if each.get("resource") != resource]
            about = {"front": dict(front)} if front else {}
            told = [*others, {"resource": resource, "seen": list(marks), **about}]
            if len(frontmatter.render(told)) > _LONGEST:  # then they are known by their texts alone
                told = [{"resource": each.get("resource")} for each in told]
            text = frontmatter.edit(text, {"updated": self.at, "sources": told})
            if not _signed(text, current):
                raise _Left("its sections cannot be distinguished from your own")
            self.staged.put(shelf, archive.PINNED, piece.document, text.encode())
        outcome = "same" if not new else "new" if current is None else "grown"
        path = shelf.name_of(piece.document)
        yield Mapped(piece.source, "pinned", path, outcome, len(new), tuple(sorted(kinds)))

    def _pinned_place(self, piece: SectionPiece) -> Place:
        """Where a pinned document is kept: in the scope that was asked for if it has such, or global."""
        wanted = self.scope or piece.scope
        if not wanted.rule.documents:
            raise _Left(f"{wanted} memory has no pinned documents")
        keeps = piece.document in wanted.rule.documents
        return scopes.place_for(self.staged.caller, wanted if keeps else Scope.GLOBAL)

    # ---------------------------------------------------------------- what was learned

    def _lessons(self, piece: LessonsPiece) -> Iterator[Mapped | Skipped]:
        place = self._place(piece.scope, "")
        shelves = self._shelves(place)
        value = ltm.parse(piece.content)
        gate = ltm.gate(self.policy(place.scope))
        earlier = {each.path for each in self.staged.edits()}
        done = ltm.LtmReader(self.staged, shelves, gate=gate, largest=self.largest).read(value)
        found = done.secrets
        told = {*done.added, *done.updated}
        for edit in self.staged.edits():  # what the file held beside its entries has a record of its own
            if edit.path not in earlier and key_of(edit.name) not in told:
                outcome = "new" if edit.before is None else "grown"
                yield Mapped(piece.source, "record", edit.path, outcome, 1, found)
        for outcome, keys in (("new", done.added), ("grown", done.updated)):
            for key in keys:
                shelf, name = self.staged.located(shelves, key)
                path = shelf.name_of(archive.RECORDS, name)
                yield Mapped(piece.source, "record", path, outcome, int(outcome == "new"), found)
        if done.known:
            yield from [Mapped(piece.source, "record", str(place), "same")] * done.known
        for finding in done.findings:
            yield Skipped(f"{piece.source} {finding.where}", f"{finding.what}: {finding.why}")

    # ---------------------------------------------------------------- parts

    def _place(self, scope: Scope, owner: str) -> Place:
        """Where a thing of that scope goes; what belongs to another project or agent stays there."""
        caller = self.staged.caller
        if self.scope is not None:
            return scopes.place_for(caller, self.scope)
        if scope is Scope.SESSION and owner:
            return Place(scope, names.check_id(owner, "a session"))
        place = scopes.place_for(caller, scope)
        if scope is Scope.AGENT and owner not in ("", place.id):
            raise _Left(f"it belongs to the agent {owner}: import it with `--agent {owner}`")
        if scope is Scope.PROJECT and owner and caller.project is not None:
            own = (place.id, *caller.project.earlier, *scopes.aliases(self.staged.home, place.id))
            if owner not in own:
                raise _Left(
                    f"it belongs to the project {owner}: import it in that project's folder, or with --scope"
                )
        return place

    def _shelves(self, place: Place) -> list[Shelf]:
        return scopes.shelves(self.staged.home, self.staged.caller, place)

    def _entry(self, entry: Entry, scope: Scope, kinds: set[str], *, local: bool = False) -> Entry:
        """An entry as it will be kept: with its own time, without secrets, and signed as what it is."""
        text, found = secret.gate(accept_text(entry.text, largest=self.largest), self.policy(scope))
        kinds.update(found)
        self.staged.check_purged(text)
        time = entry.time if local else clock_or(entry.time)
        superseded = clock_or(entry.superseded) or None
        return Entry(text, time or None, Origin.IMPORT, superseded, cites=entry.cites, stale=entry.stale)

    def _tags(self, given: Iterable[str], scope: Scope) -> tuple[str, ...]:
        """The tags that can be tags here; one that is a secret, or a page long, is none."""
        found: list[str] = []
        for each in given:
            for part in each.split(","):
                try:
                    found += document.clean_tags([part], self.policy(scope))
                except VadeError:
                    continue
        return tuple(dict.fromkeys(found))[:_MOST_TAGS]

    def _line(self, text: str, scope: Scope, kinds: set[str]) -> str:
        clean, found = secret.gate(" ".join(text.split())[:200], self.policy(scope))
        kinds.update(found)
        return clean


def clock_or(*stamps: object) -> str:
    """The first of these that is a time, in UTC to the second; empty when none is."""
    for each in stamps:
        moment = clock.parse(each) if isinstance(each, str) else None
        if moment is not None:
            return clock.stamp(moment)
    return ""


def _missing(entries: Iterable[Entry], there: Iterable[Entry]) -> Iterator[Entry]:
    """The entries that are not there; one that was said twice must be there twice."""
    known = Counter(normalise(each.text) for each in there)
    for each in entries:
        if not _counted(known, each.text):
            yield each


def _counted(known: Counter[str], text: str) -> bool:
    said = normalise(text)
    if known[said]:
        known[said] -= 1
        return True
    return False


def _in_order(entries: Sequence[Entry]) -> list[Entry]:
    """Undated ones first, since a heading would take them in; then by time, else as they stood."""

    def when(entry: Entry) -> float:
        moment = clock.parse(entry.time)
        return float("-inf") if moment is None else moment.timestamp()

    return sorted(entries, key=when)


def _undated(entry: Entry) -> str:
    """An entry without a heading; its signature ends it."""
    more = f" | superseded: {entry.superseded}" if entry.superseded else ""
    return f"{document.escape(entry.text)}\n<!-- origin: {Origin.IMPORT}{more} -->\n\n"


def _parts(text: str, source: str) -> Iterator[str]:
    """The sections of a document, each under a heading of its own, so that each can be signed.

    A pinned document is cut at every line that looks like a heading; one inside a code block gets a space
    before it, or a signature would have to stand in the middle of the code.
    """
    blocks: list[list[str]] = [[]]
    for line, plain in zip(text.split("\n"), fences.blank(text).split("\n"), strict=True):
        if _HEADING.match(plain):
            blocks.append([])
        coded = _HEADING.match(line) and not _HEADING.match(plain)
        blocks[-1].append(f" {line}" if coded else line)
    for block in blocks:
        inner = "\n".join(block).strip("\n")
        if inner.strip():
            yield inner if _HEADING.match(inner) else f"## {source.removesuffix('.md')}\n{inner}"


def _signed(text: str, before: bytes | None) -> bool:
    """Whether every section that was not there is signed: without, it would be the user's own word."""
    own = Counter(each.text for each in document.blocks(decode(before or b"")) if each.origin is None)
    return not Counter(each.text for each in document.blocks(text) if each.origin is None) - own


def _claimless(text: str) -> str:
    """A text in which no line signs anything, and none loses a backslash when it is read."""
    lines = text.split("\n")
    return "\n".join(line if _HEADING.match(line) else document.escape(line) for line in lines)


def _bare(name: str) -> str:
    """A name without secrets, whatever the policy for texts."""
    return secret.gate(name, SecretPolicy.REDACT)[0]


def is_section_from(sources: object, text: str, matches: Callable[[str], bool]) -> bool:
    """Whether a section of a pinned document was imported from a file that matches, by its `sources`.

    Where a document had too many to keep the marks of each, all of its files have to match.
    """
    listed = _sources({"sources": sources})
    marked = any(each.get("seen") for each in listed)
    mark = _digest(text)
    own = [each for each in listed if not marked or mark in map(str, each.get("seen") or ())]
    found = [matches(str(each.get("resource"))) for each in own]
    return any(found) if marked else bool(found) and all(found)


def _sources(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = values.get("sources")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(str(one.get(each) or "") == str(other.get(each) or "") for each in ("resource", "id"))


def _entries(content: bytes) -> tuple[Entry, ...]:
    try:
        return document.parse(decode(content)).entries
    except Malformed:
        return ()


def _digest(text: str) -> str:
    return hashlib.sha256(normalise(text).encode()).hexdigest()[:12]


def _text(value: object) -> str | None:
    return None if value is None else str(value)
