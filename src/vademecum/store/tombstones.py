"""Tombstones: records that a text was purged and must not come back, with hashes instead of the text.

A mark is an HMAC of the normalised text under the home's key, so that even a short text cannot be guessed
from the files alone. `purges/` holds the key and a file for each purge made with `--prove`, or in progress.
Every interface that takes in texts asks here. A person may save a purged text again, which lifts its mark;
nobody else may.
"""

from __future__ import annotations

import hashlib
import json
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed, Refused
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.store import archive, people
from vademecum.text import document, filenames, normalise
from vademecum.text.document import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vademecum.store.home import Home
    from vademecum.store.scopes import Caller
    from vademecum.types import Entry

FOLDER = "purges"
KEY = "key"
RECEIPTS = "receipts"
MARK = "[purged]"
WHY = "the user purged this text"
_HINT = "leave it out; only the user can save it again, with `vade add` in a terminal"
_BEGINNING = 3  # characters by which a part is looked for
_ENDING = ".json"
_BULLET = lazy_pattern(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+")
_BLANK = lazy_pattern(r"\n[ \t]*\n")


class PartMark(NamedTuple):
    """The mark of a text that was purged everywhere: its length, and hashes of its beginning and whole."""

    chars: int
    begins: str
    mark: str


class Tombstone(NamedTuple):
    """The record of a purge: marks and ids, and until the purge is finished, what is left to delete."""

    id: str
    at: str
    by: str
    what: str
    entries: tuple[str, ...] = ()
    parts: tuple[PartMark, ...] = ()
    records: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    lifted: Mapping[str, str] = {}  # marks of what a person stored again, and when
    prove: bool = True  # whether it stays once it is done
    done: bool = True
    doomed: tuple[str, ...] = ()  # marks of the very entries that go
    files: tuple[str, ...] = ()  # what goes as a whole

    @property
    def standing(self) -> int:
        """The number of texts that the tombstone blocks."""
        marks = {*self.entries, *(each.mark for each in self.parts)}
        return len(marks - self.lifted.keys())


class Marks(NamedTuple):
    """The marks (hashes) of the texts whose purges left tombstones in a home."""

    key: bytes
    stones: tuple[Tombstone, ...]
    entries: Mapping[str, Tombstone]
    parts: Mapping[str, Tombstone]
    lengths: frozenset[int]
    begins: frozenset[str]

    @staticmethod
    def of(home: Home) -> Marks | None:
        """Return all marks of a home; None when no purge left any."""
        return load(home)

    def among(self, content: bytes, kind: str) -> Iterator[tuple[Entry, Tombstone]]:
        """Yield the entries of a file that were purged, each with the purge's tombstone."""
        for entry in read_entries(content, kind):
            found = self.find(entry.text)
            if found is not None:
                yield entry, found

    def find(self, text: str) -> Tombstone | None:
        """Return the tombstone of a text of which all, a paragraph, a line or a part was purged, or None."""
        if self.entries:
            for form in dict.fromkeys(_forms(text)):
                found = self.entries.get(mark_of(self.key, form))
                if found is not None:
                    return found
        return next((stone for stone, _ in self.within(text)), None)

    def within(self, text: str) -> Iterator[tuple[Tombstone, str]]:
        """Yield the normalised parts of a text that were purged everywhere, each with its tombstone."""
        if not self.parts:
            return
        whole = normalise(text)
        for at in self._starts(whole):
            for chars in self.lengths:
                found = self.parts.get(mark_of(self.key, whole[at : at + chars]))
                if found is not None:
                    yield found, whole[at : at + chars]

    def _starts(self, whole: str) -> Iterator[int]:
        """Yield the positions in a text at which a purged part may begin; most texts have none."""
        places = range(len(whole) - _BEGINNING + 1)
        grams = {whole[at : at + _BEGINNING] for at in places}
        telling = {each for each in grams if _begins(self.key, each) in self.begins}
        return (at for at in places if whole[at : at + _BEGINNING] in telling) if telling else iter(())

    def session(self, *ids: str) -> Tombstone | None:
        """Return the tombstone of the purge that deleted a session with any of these ids; else None."""
        wanted = {each for each in ids if each}
        return next((each for each in self.stones if wanted.intersection(each.sessions)), None)

    def clean(self, text: str) -> str:
        """Return the text with `[purged]` for each purged line, or for all of it if that is not enough."""
        if self.find(text) is None:
            return text
        result = "\n".join(MARK if self.find(line) else line for line in text.split("\n"))
        return MARK if self.find(result) else result


def load(home: Home) -> Marks | None:
    """Load all marks of a home; None when no purge left any."""
    try:
        with home.folder(FOLDER) as folder:
            seen = tuple(
                sorted(
                    (name, state.st_ino, state.st_size, state.st_mtime_ns)
                    for name, state in folder.scan(lambda name: name == KEY or name.endswith(_ENDING))
                )
            )
            known = _loaded.get(str(home.path))
            if known is not None and known[0] == seen:
                return known[1]
            key = _read_key(folder.read(KEY))
    except (FileNotFoundError, NotADirectoryError):
        return None
    made = collect(key, every(home)) if key else None
    _loaded[str(home.path)] = seen, made
    return made


_loaded: dict[
    str, tuple[object, Marks | None]
] = {}  # what was read of a home, while its files stay as they are


def collect(key: bytes, stones: Sequence[Tombstone]) -> Marks:
    """Collect the marks of these purges, except marks that were lifted and purges made without `prove`."""
    standing = [each for each in stones if each.prove]
    live = [(part, each) for each in standing for part in each.parts if part.mark not in each.lifted]
    parts = [*map(itemgetter(0), live)]
    return Marks(
        key,
        tuple(standing),
        {mark: each for each in standing for mark in each.entries if mark not in each.lifted},
        {part.mark: each for part, each in live},
        frozenset(map(attrgetter("chars"), parts)),
        frozenset(map(attrgetter("begins"), parts)),
    )


def find(home: Home, text: str) -> Tombstone | None:
    """Return the tombstone of the purge that deleted this text; None when there is none."""
    marks = load(home)
    return None if marks is None else marks.find(text)


def check(home: Home, caller: Caller, text: str) -> Tombstone | None:
    """Return the tombstone of a purged text, else None; raise an error if the caller may not save it."""
    found = find(home, text)
    if found is not None and people.is_bound(caller):
        raise refused(found)
    return found


def check_brought(
    home: Home,
    caller: Caller,
    before: bytes | None,
    after: bytes,
    *,
    kind: str = filenames.RECORDS,
    strict: bool,
) -> Tombstone | None:
    """Raise an error for a change that brings a purged text back; without `strict` a person may do so."""
    found = brought(home, before, after, kind=kind)
    if found is not None and (strict or people.is_bound(caller)):
        raise refused(found)
    return found


def brought(
    home: Home, before: bytes | None, after: bytes | None, *, kind: str = filenames.RECORDS
) -> Tombstone | None:
    """Return the tombstone of a text that a change brings back into a file; else None."""
    marks = load(home) if after is not None and after != before else None
    if marks is None or after is None:
        return None
    known = {normalise(each.text) for each in read_entries(before or b"", kind)}
    again = (stone for each, stone in marks.among(after, kind) if normalise(each.text) not in known)
    return next(again, None)


def refused(stone: Tombstone) -> Refused:
    """Return the error to raise when somebody saves a purged text."""
    return Refused(f"{WHY} on {stone.at[:10]}, so it is not saved again", hint=_HINT)


def read_entries(content: bytes, kind: str) -> Sequence[Entry]:
    """Return the entries or sections of a file; none when the file is unreadable."""
    try:
        text = decode(content)
        return document.blocks(text) if kind == filenames.PINNED else document.parse(text).entries
    except Malformed:
        return ()


# -------------------------------------------------------------------- writing


def lift(home: Home, text: str, *, at: str) -> None:
    """Lift the marks of a text that a person saved again, and the marks of its purged parts."""
    marks = load(home)
    if marks is None:
        return
    wanted = {mark_of(marks.key, form) for form in _forms(text)}
    wanted |= {mark_of(marks.key, piece) for _, piece in marks.within(text)}
    for stone in marks.stones:
        here = {*stone.entries, *(each.mark for each in stone.parts)} & wanted - stone.lifted.keys()
        if here:
            put(home, stone._replace(lifted={**stone.lifted, **dict.fromkeys(sorted(here), at)}))


def every(home: Home) -> list[Tombstone]:
    """Return all readable tombstones, of finished and of interrupted purges, oldest first."""
    found = []
    for name in home.names(FOLDER):
        if name.endswith(_ENDING) and not name.startswith("."):
            stone = _parse(name.removesuffix(_ENDING), home.read(FOLDER, name))
            if stone is not None:
                found.append(stone)
    return sorted(found, key=lambda each: each.id)


def damaged(home: Home) -> list[str]:
    """Return the paths of unreadable tombstones and a missing key; texts purged with them may come back."""
    names = [name for name in home.names(FOLDER) if name.endswith(_ENDING) and not name.startswith(".")]
    bad = [name for name in names if _parse(name.removesuffix(_ENDING), home.read(FOLDER, name)) is None]
    missing = bool(names) and not _read_key(home.read(FOLDER, KEY))
    return [f"{FOLDER}/{name}" for name in ([KEY] if missing else []) + bad]


def put(home: Home, stone: Tombstone) -> None:
    """Save a tombstone; it is on disk when this returns."""
    value: dict[str, Any] = {
        "at": stone.at,
        "by": stone.by,
        "what": stone.what,
        "entries": list(stone.entries),
        "parts": [each._asdict() for each in stone.parts],
        "records": list(stone.records),
        "sessions": list(stone.sessions),
        "lifted": dict(stone.lifted),
        "prove": stone.prove,
        "done": stone.done,
    }
    if not stone.done:
        value |= {"doomed": list(stone.doomed), "files": list(stone.files)}
    content = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n"
    with home.lock(FOLDER), home.folder(FOLDER, create=True) as folder:
        folder.update(f"{stone.id}{_ENDING}", lambda _: content)
        folder.sweep()  # an earlier one that could not be deleted: it may be long until the next is put


def drop(home: Home, stone: Tombstone) -> None:
    """Delete the tombstone of a finished purge that was made without `--prove`."""
    with home.lock(FOLDER), home.folder(FOLDER) as folder:
        folder.delete(f"{stone.id}{_ENDING}")


def make_key(home: Home) -> bytes:
    """Return the home's key for marks; create it when it is first needed."""
    with home.lock(FOLDER), home.folder(FOLDER, create=True) as folder:
        known = _read_key(folder.read(KEY))
        if known:
            return known
        made = new_key()
        folder.update(KEY, lambda _: made.hex().encode() + b"\n")
        return made


def new_key() -> bytes:
    """Return a new random key."""
    import secrets

    return secrets.token_bytes(32)


def mark_of(key: bytes, form: str) -> str:
    """Return the mark (HMAC) of a text that is already normalised."""
    return _mac(key, b"text\0", form)


def entry_mark(key: bytes, entry: Entry) -> str:
    """Return the mark of exactly this entry, made from its time and text."""
    return _mac(key, b"entry\0", archive.fingerprint(entry))


def part_of(key: bytes, text: str) -> PartMark:
    """Return the mark of a text that was purged everywhere."""
    form = normalise(text)
    return PartMark(len(form), _begins(key, form[:_BEGINNING]), mark_of(key, form))


def marks_of(key: bytes, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct marks of whole texts."""
    return tuple(sorted({mark_of(key, form) for each in texts if (form := normalise(each))}))


def _mac(key: bytes, kind: bytes, text: str) -> str:
    import hmac

    return hmac.digest(key, kind + text.encode(errors="surrogatepass"), hashlib.sha256().name).hex()


def _begins(key: bytes, gram: str) -> str:
    return _mac(key, b"begins\0", gram)[:8]


def _forms(text: str) -> Iterator[str]:
    """Yield the forms in which a text may come back: whole, each paragraph, each line or item."""
    yield normalise(text)
    if "\n" in text or _BULLET.match(text):
        for each in (*_BLANK.split(text), *(_BULLET.sub("", line) for line in text.split("\n"))):
            if form := normalise(each):
                yield form


def _read_key(content: bytes | None) -> bytes:
    try:
        key = bytes.fromhex((content or b"").decode("ascii").strip())
    except ValueError:
        return b""
    return key if len(key) >= 16 else b""


def _parse(id: str, content: bytes | None) -> Tombstone | None:
    """Return the tombstone from a file's content; None when it cannot be read."""
    try:
        value = json.loads(content or b"")
        return Tombstone(
            id,
            str(value["at"]),
            str(value["by"]),
            str(value["what"]),
            tuple(map(str, value.get("entries", ()))),
            tuple(
                PartMark(int(each["chars"]), str(each["begins"]), str(each["mark"]))
                for each in value.get("parts", ())
            ),
            tuple(map(str, value.get("records", ()))),
            tuple(map(str, value.get("sessions", ()))),
            {str(mark): str(at) for mark, at in value.get("lifted", {}).items()},
            prove=value.get("prove") is not False,
            done=value.get("done") is not False,
            doomed=tuple(map(str, value.get("doomed", ()))),
            files=tuple(map(str, value.get("files", ()))),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
