"""Turn the memory of another system, read as pieces, into edits of this memory.

The readers of other systems make the pieces; this module knows no system, and trusts no text of theirs. A
piece is recognised by its source and its text, so that it is imported once; an existing record gets new
entries and is never reworded. Every text is signed `import`.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, Untrusted, VadeError
from vademecum.fields import FIELDS, read_tags
from vademecum.knowledge import ltm
from vademecum.progress import counted_up
from vademecum.store import archive, pinned, scopes
from vademecum.store.merge import category
from vademecum.text import clock, document, fences, filenames, frontmatter, names, normalise
from vademecum.text import secrets as secret
from vademecum.text.document import accept_text, decode
from vademecum.text.filenames import key_of
from vademecum.types import Entry, Origin, Place, RecordType, Scope, SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.store import ScopeFolder, Staged

_SIGNED = f"<!-- origin: {Origin.IMPORT} -->"
_HEADING = re.compile(r"#{1,6} ")
_MOST_TAGS = 50
_LONGEST = 48 * 1024  # characters about sources; frontmatter longer than 64 KiB could not be read
# Frontmatter that only this memory can say of its own records.
_OURS = tuple(field.name for field in FIELDS if not field.imported or field.personal)
_DECIDED = ("protected", "verified", "confirmed")


# -------------------------------------------------------------------- pieces


@dataclass(frozen=True, slots=True)
class TopicPiece:
    """A topic of another system with all its entries; it becomes a record."""

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
    """The notes of one day in another system; they become entries of the journal."""

    source: str
    day: str
    entries: tuple[Entry, ...]
    scope: Scope
    slug: str = ""


class SectionPiece(NamedTuple):
    """A document that another system always shows its agent; it becomes sections of a pinned document."""

    source: str
    document: str
    text: str
    scope: Scope
    front: str = ""  # its frontmatter as it stands, kept beside where it came from


class LessonsPiece(NamedTuple):
    """The content of an `ltm.json` file; its entries become lessons."""

    source: str
    content: bytes
    scope: Scope


class Conversation(NamedTuple):
    """One of several sessions in a file: its format, and a function that reads it from the file."""

    name: str
    read: Callable[..., Iterator[Any]]


class TranscriptPiece(NamedTuple):
    """A session file, or one session of a file with several; it becomes a transcript."""

    source: str
    path: Path
    conversation: Conversation | None = None


class Skipped(NamedTuple):
    """The source of a piece that was not imported, and the reason."""

    source: str
    why: str


class Mapped(NamedTuple):
    """The result of importing a piece: where it went, and whether it was `new`, `grown` or `same`."""

    source: str
    kind: str  # record, journal, pinned or session
    path: str
    outcome: str
    added: int = 0  # entries, sections or messages
    secrets: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()  # a person's decisions in the other system, which do not hold here


Piece = TopicPiece | NotesPiece | SectionPiece | LessonsPiece | TranscriptPiece | Skipped


class Over(NamedTuple):
    """A place that an import fills beyond its limit of records."""

    place: Place
    records: int
    limit: int

    @property
    def enough(self) -> int:
        """The limit to suggest: a fifth above the number of records, rounded up to the next hundred."""
        return -(-self.records * 12 // 1000) * 100


class ImportReport(NamedTuple):
    """The result of an import, or of a dry run."""

    system: str
    applied: bool
    run: str
    mapped: tuple[Mapped, ...]
    skipped: tuple[Skipped, ...]
    over: tuple[Over, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many items were imported, by kind; how many existed already; and how many were skipped."""
        found = Counter(each.kind for each in self.mapped if each.outcome != "same")
        known = sum(each.outcome == "same" for each in self.mapped)
        return {**dict(sorted(found.items())), "same": known, "skipped": len(self.skipped)}


class ImportedPieces(NamedTuple):
    """The results for all pieces; sessions are returned unimported, for the transcript importer."""

    mapped: list[Mapped]
    skipped: list[Skipped]
    sessions: list[TranscriptPiece]


class _ReadyTopic(NamedTuple):
    """A topic to be saved: its entries and tags without secrets, and the kinds of secrets found."""

    piece: TopicPiece
    entries: Sequence[Entry]
    tags: tuple[str, ...]
    kinds: set[str]


class _CannotImport(Exception):
    """Raised when a piece cannot be imported, with the reason."""


# -------------------------------------------------------------------- taking them in


def _decisions_in(piece: TopicPiece) -> tuple[str, ...]:
    """Return the names of a topic's fields by which somebody decided in the other system."""
    given: Mapping[str, Any] = {}
    with contextlib.suppress(Malformed):
        given = frontmatter.parse(piece.front).values if piece.front else {}
    return tuple(each for each in _DECIDED if given.get(each) or (each == "protected" and piece.protected))


def _is_kept(generated: object) -> bool:
    """Whether an imported record keeps the name of its writer: a program's is kept, a person's is not."""
    by = generated.get("by") if isinstance(generated, dict) else None
    return isinstance(by, str) and not by.startswith("human:")


def take_all(intake: Intake, pieces: Iterable[Piece]) -> ImportedPieces:
    """Import every piece except sessions; when one piece fails, continue with the others."""
    mapped: list[Mapped] = []
    skipped: list[Skipped] = []
    sessions: list[TranscriptPiece] = []
    for piece in counted_up(pieces, "texts"):
        if isinstance(piece, Skipped):
            skipped.append(piece)
        elif isinstance(piece, TranscriptPiece):
            sessions.append(piece)
        else:
            for imported_keys in intake.take(piece):
                if isinstance(imported_keys, Skipped):
                    skipped.append(imported_keys)
                else:
                    mapped.append(imported_keys)
    return ImportedPieces(mapped, skipped, sessions)


class Intake:
    """Imports the pieces of one system one after the other, and collects the edits in `staged`."""

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
        self._homes: dict[Place, dict[tuple[str, str], tuple[ScopeFolder, str]]] = {}
        self._ids: dict[Place, set[str]] = {}

    def take(
        self, piece: TopicPiece | NotesPiece | SectionPiece | LessonsPiece
    ) -> Iterator[Mapped | Skipped]:
        """Import one piece, and yield its results."""
        try:
            if isinstance(piece, TopicPiece):
                yield from self._topic(piece)
            elif isinstance(piece, NotesPiece):
                yield from self._notes(piece)
            elif isinstance(piece, SectionPiece):
                yield from self._section(piece)
            else:
                yield from self._lessons(piece)
        except (_CannotImport, VadeError) as error:
            yield Skipped(piece.source, str(error))

    # ---------------------------------------------------------------- topics

    def _topic(self, piece: TopicPiece) -> Iterator[Mapped | Skipped]:
        place = self._place(piece.scope, piece.scope_id)
        scope_folders = self._scope_folders(place)
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
                raise _CannotImport("it contains no text")
            return
        tags = self._tags(piece.tags, place.scope)
        key = names.slug(piece.key)
        for word in (piece.key, key):  # before a slug hides it, and after one brought it out
            names.without_secret(word, "its key")
        mark = self._mark(piece)
        ready = _ReadyTopic(piece, entries, tags, kinds)
        scope_folder, name = self._find_file(ready, place, scope_folders, key)
        if not scope_folder.trusted:
            raise Untrusted("the project's .vade folder came with the repository and is not trusted yet")
        current = self.staged.content(scope_folder, filenames.RECORDS, name)
        if current is None:
            after, added, outcome = self._begin(ready, scope_folder, name), len(entries), "new"
        else:
            after, added = self._grow(ready, scope_folder, name, current)
            outcome = "grown" if added else "same"
        self.staged.put(scope_folder, filenames.RECORDS, name, after)
        self._homes[place][mark] = scope_folder, name
        path = scope_folder.name_of(filenames.RECORDS, name)
        yield Mapped(piece.source, "record", path, outcome, added, tuple(sorted(kinds)), _decisions_in(piece))

    def _find_file(
        self, ready: _ReadyTopic, place: Place, scope_folders: Sequence[ScopeFolder], key: str
    ) -> tuple[ScopeFolder, str]:
        """Return the file for a topic: the file of an earlier import, the file with its key, or
        a new file.
        """
        known, mark = self._known(place, scope_folders), self._mark(ready.piece)
        if mark in known:
            return known[mark]
        if names.is_id(ready.piece.id) and ("", ready.piece.id) in known:  # one of ours, back again
            return known["", ready.piece.id]
        for number in range(1, 10_000):
            scope_folder, name = self.staged.located(
                scope_folders, key if number == 1 else names.numbered(key, number)
            )
            content = self.staged.content(scope_folder, filenames.RECORDS, name)
            if content is None:
                return scope_folder, name
            there = Counter(normalise(each.text) for each in _entries(content))
            same = all(normalise(each.text) in there for each in ready.entries)
            if ready.piece.named or same:
                return scope_folder, name
        raise _CannotImport(f"there are too many records called {key}")

    def _known(
        self, place: Place, scope_folders: Sequence[ScopeFolder]
    ) -> dict[tuple[str, str], tuple[ScopeFolder, str]]:
        """Return the files of a place's records by their sources and ids; untrusted folders are left out."""
        if place not in self._homes:
            found: dict[tuple[str, str], tuple[ScopeFolder, str]] = {}
            ids_in_use: set[str] = set()
            for scope_folder in scope_folders:
                for name in self.staged.names_on(scope_folder) if scope_folder.trusted else ():
                    try:
                        content = self.staged.content(scope_folder, filenames.RECORDS, name) or b""
                        values = frontmatter.parse(decode(content)).values
                    except (VadeError, OSError):
                        continue  # told by the listing
                    ids_in_use.add(str(values.get("id")))
                    found.setdefault(("", str(values.get("id"))), (scope_folder, name))
                    for each in _sources(values):
                        mark = str(each.get("resource")), str(each.get("id") or "")
                        found.setdefault(mark, (scope_folder, name))
            self._homes[place], self._ids[place] = found, ids_in_use
        return self._homes[place]

    def _begin(self, ready: _ReadyTopic, scope_folder: ScopeFolder, name: str) -> bytes:
        """Return the content of a new record: its frontmatter, then its entries, the oldest first."""
        piece, entries, tags, kinds = ready
        front = self._front(piece, scope_folder.place.scope, kinds)
        given = frontmatter.parse(front).values
        times = sorted(each.time for each in entries if each.time)
        own = str(given.get("id") or "")
        title = names.title(key_of(name), piece.key if names.is_key(piece.key) else names.slug(piece.key))
        fresh = names.is_id(own) and own not in self._ids[scope_folder.place]
        made = given.get("generated")
        values: dict[str, Any] = {
            "type": str(given.get("type") or piece.type),
            "id": own if fresh else names.new_id(),
            "key": key_of(name),
            "title": given.get("title") or self._line(piece.title, scope_folder.place.scope, kinds) or title,
            "scope": str(scope_folder.place.scope),
            "scope_id": scope_folder.place.id or None,
            "tags": list(tags) or None,
            "category": given.get("category") or piece.category or category(tuple(tags)),
            "source": self.source,
            "sources": [*_sources(given), self._origin(piece)],
            "created": clock_or(given.get("created"), piece.created) or (times[0] if times else self.at),
            "updated": clock_or(given.get("updated")) or (times[-1] if times else self.at),
            "imported": self.at,
            "generated": made if _is_kept(made) else {**self.staged.caller.provenance, "at": self.at},
            "confidence": piece.confidence if given.get("confidence") is None else given["confidence"],
            **piece.fields,
        }
        # The other system's writer, verification and protection decide nothing here: they become claims.
        claims = {each: given[each] for each in _DECIDED if given.get(each)}
        if piece.protected:
            claims["protected"] = True
        if made and not _is_kept(made):
            claims["generated"] = made
        claims |= {each: given[each] for each in ("scope",) if given.get(each, "project") not in list(Scope)}
        claims |= piece.fields.get("claims", {})
        if claims:
            values["claims"] = claims
        self._ids[scope_folder.place].add(values["id"])
        gone = {each: None for each in (*_OURS, *piece.without) if each in given and each not in values}
        changes = {each: value for each, value in values.items() if given.get(each) != value}
        if read_tags(given.get("tags")) == tuple(tags):
            changes.pop("tags", None)  # written as it was written
        text = frontmatter.edit(front, {**gone, **changes})
        text += f"# {self._line(piece.heading, scope_folder.place.scope, kinds) or key_of(name)}\n\n"
        for each in _sort_entries(entries):
            text = document.append(text, each) if each.time else f"{text}{_render_undated(each)}"
        return text.encode()

    def _front(self, piece: TopicPiece | SectionPiece, scope: Scope, kinds: set[str]) -> str:
        """Return a piece's frontmatter without secrets; an empty block when the piece has none."""
        if not piece.front:
            return "---\n---\n"
        front, found = secret.gate(piece.front, self.policy(scope))
        kinds.update(found)
        try:
            frontmatter.parse(front)
        except Malformed as error:
            raise _CannotImport(f"its frontmatter cannot be read without its secrets: {error}") from error
        return front

    def _grow(
        self, ready: _ReadyTopic, scope_folder: ScopeFolder, name: str, current: bytes
    ) -> tuple[bytes, int]:
        """Return a record with the entries added that it lacked, and how many were added.

        An entry that somebody removed or reworded since an earlier import is not added again.
        """
        piece, entries, tags, _ = ready
        text = decode(current)
        parsed = document.parse(text)
        values = parsed.front.values
        # What somebody took out or worded anew since it came does not come again.
        at = self.staged.home, scope_folder, filenames.RECORDS, name
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
        if tuple(joined) != old and not self.staged.barred(current, None):  # else its labels are a person's
            changes["tags"] = joined
        if "verified" in values:
            changes["verified"] = None  # it was said of another text
        return frontmatter.edit(text, changes).encode(), len(new)

    def _mark(self, piece: TopicPiece) -> tuple[str, str]:
        origin = self._origin(piece)
        return str(origin["resource"]), str(origin.get("id", ""))

    def _origin(self, piece: TopicPiece) -> dict[str, str]:
        """Return the source of a topic as a `sources` entry of the Open Knowledge Format."""
        imported_keys = {"resource": self._resource(piece.source)}
        return {**imported_keys, "id": _clean_name(piece.id)} if piece.id else imported_keys

    def _resource(self, source: str) -> str:
        return _clean_name(f"{self.system}:{source}")

    # ---------------------------------------------------------------- notes and pinned documents

    def _notes(self, piece: NotesPiece) -> Iterator[Mapped | Skipped]:
        place = self._place(piece.scope, "")
        if place.scope not in scopes.WITH_JOURNAL:
            raise _CannotImport(f"{place.scope} memory has no journal")
        slug = f"-{names.slug(piece.slug)}" if piece.slug else ""
        name = f"{piece.day}{slug}.md"
        if not filenames.is_day(name) or clock.parse(piece.day) is None:
            raise _CannotImport(f"{names.shown(piece.day)} is not a date")
        names.without_secret(name, "its name")
        scope_folder = next(
            each
            for each in scopes.scope_folders(self.staged.home, self.staged.caller, place)
            if not each.shared
        )
        kinds: set[str] = set()
        entries = []
        for each in piece.entries:
            try:
                entries.append(self._entry(each, place.scope, kinds, local=True))
            except VadeError as error:
                yield Skipped(piece.source, str(error))
        current = self.staged.content(scope_folder, filenames.JOURNAL, name)
        text = f"# {piece.day}\n\n" if current is None else decode(current)
        there = document.parse(text).entries
        gone = archive.missing(self.staged.home, scope_folder, filenames.JOURNAL, name, there, record=None)
        new = [*_missing(entries, [*there, *gone])]
        for each in new:
            text = document.insert(text, each)
        if new:
            self.staged.put(scope_folder, filenames.JOURNAL, name, text.encode())
        elif not entries:
            if not piece.entries:
                raise _CannotImport("it contains no text")
            return
        outcome = "same" if not new else "new" if current is None else "grown"
        path = scope_folder.name_of(filenames.JOURNAL, name)
        yield Mapped(piece.source, "journal", path, outcome, len(new), tuple(sorted(kinds)))

    def _section(self, piece: SectionPiece) -> Iterator[Mapped | Skipped]:
        place = self._pinned_place(piece)
        scope_folders = [
            each
            for each in self._scope_folders(place)
            if not each.shared or (piece.document == filenames.CONTEXT and each.trusted)
        ]
        scope_folder = next(
            (each for each in scope_folders if self.staged.content(each, filenames.PINNED, piece.document)),
            scopes.folder_for_new(scope_folders),
        )
        given = accept_text(piece.text, largest=self.largest)
        clean, found = secret.gate(given, self.policy(place.scope))
        kinds = set(found)
        front = frontmatter.parse(self._front(piece, place.scope, kinds)).values
        parts = [*_parts(clean, names.shown(piece.source)[1:-1])]
        current = self.staged.content(scope_folder, filenames.PINNED, piece.document)
        text = decode(current) if current is not None else frontmatter.edit("", {"version": pinned.VERSION})
        resource = self._resource(piece.source)
        listed = _sources(frontmatter.parse(text).values)
        mine = next((each for each in listed if each.get("resource") == resource), {"resource": resource})
        seen = [str(each) for each in mine.get("seen") or ()]
        known = Counter(normalise(each.text) for each in document.blocks(text))
        wanted = [each for each in parts if _digest(each) not in seen]
        new = [each for each in wanted if not _count_known(known, each)]
        for each in new:
            self.staged.check_purged(each)
        if new:
            for each in new:
                gap = "" if text.endswith(("\n\n", "---\n")) else "\n" if text.endswith("\n") else "\n\n"
                text += f"{gap}{_without_signatures(each)}\n{_SIGNED}\n"
            marks = dict.fromkeys([*seen, *(_digest(each) for each in parts)])
            others = [each for each in listed if each.get("resource") != resource]
            about = {"front": dict(front)} if front else {}
            imported_keys = [*others, {"resource": resource, "seen": list(marks), **about}]
            if len(frontmatter.render(imported_keys)) > _LONGEST:  # then they are known by their texts alone
                imported_keys = [{"resource": each.get("resource")} for each in imported_keys]
            text = frontmatter.edit(text, {"updated": self.at, "sources": imported_keys})
            if not _all_signed(text, current):
                raise _CannotImport("its sections cannot be distinguished from your own")
            self.staged.put(scope_folder, filenames.PINNED, piece.document, text.encode())
        outcome = "same" if not new else "new" if current is None else "grown"
        path = scope_folder.name_of(piece.document)
        yield Mapped(piece.source, "pinned", path, outcome, len(new), tuple(sorted(kinds)))

    def _pinned_place(self, piece: SectionPiece) -> Place:
        """Return the place for a pinned document: the wanted scope if it can have one, or else global."""
        wanted = self.scope or piece.scope
        if not wanted.rule.documents:
            raise _CannotImport(f"{wanted} memory has no pinned documents")
        keeps = piece.document in wanted.rule.documents
        return scopes.place_for(self.staged.caller, wanted if keeps else Scope.GLOBAL)

    # ---------------------------------------------------------------- what was learned

    def _lessons(self, piece: LessonsPiece) -> Iterator[Mapped | Skipped]:
        place = self._place(piece.scope, "")
        scope_folders = self._scope_folders(place)
        value = ltm.parse(piece.content)
        gate = ltm.gate(self.policy(place.scope))
        earlier = {each.path for each in self.staged.edits()}
        done = ltm.LtmReader(self.staged, scope_folders, gate=gate, largest=self.largest).read(value)
        found = done.secrets
        imported_keys = {*done.added, *done.updated}
        for edit in self.staged.edits():  # what the file held beside its entries has a record of its own
            if edit.path not in earlier and key_of(edit.name) not in imported_keys:
                outcome = "new" if edit.before is None else "grown"
                yield Mapped(piece.source, "record", edit.path, outcome, 1, found)
        for outcome, keys in (("new", done.added), ("grown", done.updated)):
            for key in keys:
                scope_folder, name = self.staged.located(scope_folders, key)
                path = scope_folder.name_of(filenames.RECORDS, name)
                yield Mapped(piece.source, "record", path, outcome, int(outcome == "new"), found)
        if done.known:
            yield from [Mapped(piece.source, "record", str(place), "same")] * done.known
        for finding in done.findings:
            yield Skipped(f"{piece.source} {finding.where}", f"{finding.what}: {finding.why}")

    # ---------------------------------------------------------------- parts

    def _place(self, scope: Scope, owner: str) -> Place:
        """Return the place for a piece: in the scope that the user wants, or else in the piece's own scope.

        In its own scope, a piece of another session goes to that session; one of another project or agent is
        an error.
        """
        caller = self.staged.caller
        if self.scope is not None:
            return scopes.place_for(caller, self.scope)
        if scope is Scope.SESSION and owner:
            return Place(scope, names.check_id(owner, "a session"))
        place = scopes.place_for(caller, scope)
        if scope is Scope.AGENT and owner not in ("", place.id):
            raise _CannotImport(f"it belongs to the agent {owner}: import it with `--agent {owner}`")
        if scope is Scope.PROJECT and owner and caller.project is not None:
            own = (place.id, *caller.project.earlier, *scopes.aliases(self.staged.home, place.id))
            if owner not in own:
                raise _CannotImport(
                    f"it belongs to the project {owner}: import it in that project's folder, or with --scope"
                )
        return place

    def _scope_folders(self, place: Place) -> list[ScopeFolder]:
        return scopes.scope_folders(self.staged.home, self.staged.caller, place)

    def _entry(self, entry: Entry, scope: Scope, kinds: set[str], *, local: bool = False) -> Entry:
        """Return an entry as it is saved: signed `import`, and its secrets handled by the policy.

        The kinds of secrets are added to `kinds`. With `local`, the time stays as written; else it becomes
        UTC.
        """
        text, found = secret.gate(accept_text(entry.text, largest=self.largest), self.policy(scope))
        kinds.update(found)
        self.staged.check_purged(text)
        time = entry.time if local else clock_or(entry.time)
        superseded = clock_or(entry.superseded) or None
        return Entry(text, time or None, Origin.IMPORT, superseded, cites=entry.cites, stale=entry.stale)

    def _tags(self, given: Iterable[str], scope: Scope) -> tuple[str, ...]:
        """Return the given tags that are valid here; a tag that is a secret or much too long is left out."""
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
    """Return the first of these values that is a time, as a UTC stamp in seconds; empty when
    none is a time.
    """
    for each in stamps:
        moment = clock.parse(each) if isinstance(each, str) else None
        if moment is not None:
            return clock.stamp(moment)
    return ""


def _missing(entries: Iterable[Entry], there: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries whose text no entry of `there` has; two equal entries need two equal ones there."""
    known = Counter(normalise(each.text) for each in there)
    for each in entries:
        if not _count_known(known, each.text):
            yield each


def _count_known(known: Counter[str], text: str) -> bool:
    normal_text = normalise(text)
    if known[normal_text]:
        known[normal_text] -= 1
        return True
    return False


def _sort_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries in order of time, undated entries first: after a heading they would belong to it."""

    def when(entry: Entry) -> float:
        moment = clock.parse(entry.time)
        return float("-inf") if moment is None else moment.timestamp()

    return sorted(entries, key=when)


def _render_undated(entry: Entry) -> str:
    """Return the text of an undated entry as it stands in a file: no heading, and a signature at the end."""
    more = f" | superseded: {entry.superseded}" if entry.superseded else ""
    return f"{document.escape(entry.text)}\n<!-- origin: {Origin.IMPORT}{more} -->\n\n"


def _parts(text: str, source: str) -> Iterator[str]:
    """Split a document into sections, each under a heading of its own, so that each section can be signed.

    A pinned document is split at every line that looks like a heading; such a line inside a code block gets a
    space before it, or a signature would have to stand in the middle of the code.
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


def _all_signed(text: str, before: bytes | None) -> bool:
    """Whether every section that an import added is signed; an unsigned one would pass for the
    user's words.
    """
    own = Counter(each.text for each in document.blocks(decode(before or b"")) if each.origin is None)
    return not Counter(each.text for each in document.blocks(text) if each.origin is None) - own


def _without_signatures(text: str) -> str:
    """Return a text in which every line that looks like a signature is escaped with a backslash."""
    lines = text.split("\n")
    return "\n".join(line if _HEADING.match(line) else document.escape(line) for line in lines)


def _clean_name(name: str) -> str:
    """Return a name with secrets redacted, even where the policy lets texts keep them."""
    return secret.gate(name, SecretPolicy.REDACT)[0]


def is_section_from(sources: object, text: str, matches: Callable[[str], bool]) -> bool:
    """Whether a section of a pinned document was imported from a matching file, by its `sources`.

    Where a document came from too many files to save a hash for each, all of its files have to match.
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
