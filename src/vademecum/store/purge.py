"""Permanent deletion: of texts and records that a person purges, and of data older than the settings allow.

Only this module deletes without an archived version. A purge deletes from files, archive and every second
copy, and reports each place. The audit gets a line that something was purged, and never holds the text. A
text is removed from people's writing, but not from times, signatures, labels and decisions, which give a
file its meaning: there it is reported. Old data (archived versions, logs of runs, audit days) is deleted
only where `archive_days` or `audit_days` is set.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed, OutsideMemory, StorageFailed, UsageError
from vademecum.fields import FIELDS
from vademecum.store import archive, audit, decisions, files, heard, hook_sessions, merge
from vademecum.store.files import DiskFolder
from vademecum.store.folders import try_lock
from vademecum.store.home import ScopeFolder
from vademecum.text import clock, document, filenames, frontmatter, names, normalise
from vademecum.text.document import decode
from vademecum.text.filenames import is_record
from vademecum.types import MEMBER_NAME, Origin, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from vademecum.store.history import OwnVersion
    from vademecum.store.home import Home

MARK = "[purged]"
SHORTEST = 3
_TRIES = 10
_BLOCK = 1 << 20  # bytes of lines that are written at once

# Keys whose values mean something to the program; the values of all others are words of a person.
_LABELS = {field.name for field in FIELDS if not field.words} | {"version", "superseded"}
# What an event of a transcript is known and found by, and what of it has no marks of ours inside.
_MARKS = {"seq", "kind", "time", "id", "ids", "covers", "first_kept", "how", "role", "type"} | {
    "created",
    "agent",
    "audience",
    "project",
}
_FREE = {"extra", "value"}
_TIME = r"\d{4}-\d\d-\d\d[0-9T:.Z+ -]*"
_SIGNED = (
    rf"origin: (?:{'|'.join(Origin)}|member:{MEMBER_NAME})"
    rf"(?: \| (?:superseded: {_TIME}|(?:id: [0-9a-z]{{1,32}}|by: {MEMBER_NAME})(?= )))*"
)
# What the parser acts upon, each with the line ending that makes it a line of its own.
_STRUCTURE = re.compile(
    rf"^## {_TIME}\r?(?:\n|\Z)|^#{{1,6}} +|(?:\r?\n|^)<!-- {_SIGNED}(?: -->[ \t]*\r?(?:\n|\Z))?", re.M
)


@dataclass(frozen=True, slots=True)
class _Replaced:
    """A content without the purged text, and how many occurrences were removed and how many left."""

    content: bytes
    count: int
    left: int = 0


# Folders of decisions that repeat texts, for a person to read or to undo, and the fields with these texts.
_WITH_TEXTS = (("decisions", decisions.SYNC_NOTICES), ("decisions", decisions.REVIEWS))
_TEXT_FIELDS = {
    "text",
    "old",
    "new",
    "before",
    "after",
    "texts",
    "answer",
    "shown",
    "given",
    "arguments",
    "request",
}
_STATE = ("state.db", "state.db-wal", "state.db-shm", "state.db-journal")


@dataclass(frozen=True, slots=True)
class Purged:
    """A place where a purge found the text: how often, and whether it was deleted or why not."""

    where: str
    count: int
    gone: bool = True
    why: str = ""
    reachable: bool = True  # false for files of others, such as attached sources and other projects


@dataclass(frozen=True, slots=True)
class Purge:
    """The result of a purge: all places where it found something."""

    found: tuple[Purged, ...]
    dry: bool = False
    receipt: Mapping[str, Any] | None = None

    @property
    def remains(self) -> tuple[Purged, ...]:
        """The places that this purge reaches and that still have the text, without the files of others."""
        return tuple(each for each in self.found if not each.gone and each.reachable)

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Purged]:
        return iter(self.found)

    def __getitem__(self, at: int) -> Purged:
        return self.found[at]


def record(home: Home, scope_folder: ScopeFolder, name: str, *, dry: bool = False) -> list[Purged]:
    """Delete a record with its versions, conflict copies and logs; the caller holds the record's lock.

    Statements that repeat its texts are deleted, and consolidations lose it. A `dry` run deletes nothing, and
    returns what a real run would delete.
    """
    found: list[Purged] = []
    stem = name.removesuffix(".md")

    def meant(each: str) -> bool:
        return each == name or (each.endswith(".md") and each.startswith(f"{stem}.conflict-"))

    texts = texts_of(home, scope_folder, name)
    found += _from_heard(home, texts, dry=dry)
    found += notices_of(home, texts, dry=dry)
    found += _from_consolidations(home, scope_folder, stem, dry=dry)
    # The record goes last: as long as it is there, a purge that was cut short can be called again.
    for each in filter(meant, archive.names(home, scope_folder, filenames.RECORDS)):
        found += _versions(home, scope_folder, each, dry=dry)
    parts = ("archive", "kept", *archive.area(scope_folder), filenames.RECORDS)
    for each in home.names(*parts):
        if meant(each.removesuffix(".jsonl")):
            if not dry:
                with home.folder(*parts) as logs:
                    logs.delete(each)
            found.append(Purged("/".join((*parts, each)), 1))
    folder = scope_folder.open(filenames.RECORDS)
    if folder is not None:
        with folder:
            if not dry:
                folder.sweep()
            for each in folder.names():
                if meant(each) or each == filenames.LISTING:  # a listing repeats what records say
                    if not dry:
                        folder.delete(each)
                    if each != filenames.LISTING:
                        found.append(Purged(scope_folder.name_of(filenames.RECORDS, each), 1))
    return found


def earlier(home: Home, versions: Iterable[OwnVersion], record: str, *, dry: bool = False) -> list[Purged]:
    """Delete a record's versions and logged entries under the names and in the scopes that it had before.

    A `dry` run deletes nothing, and returns what a real run would delete.
    """
    found: list[Purged] = []
    places: dict[tuple[ScopeFolder, str], None] = {}
    for scope_folder, name, image in versions:
        places[scope_folder, name] = None
        found += _from_heard(home, _texts_in(home.read(*image.parts)), dry=dry)
        if not dry:
            with home.folder(*image.parts[:-1]) as folder:
                folder.delete(image.parts[-1])
        found.append(Purged(image.path, 1))

    def without(line: bytes) -> _Replaced:
        try:
            own = json.loads(line).get("record") == record
        except (ValueError, AttributeError):
            own = False
        return _Replaced(b"" if own else line, int(own))

    for scope_folder, name in places:
        parts = ("archive", "kept", *archive.area(scope_folder), filenames.RECORDS, f"{name}.jsonl")
        gone = _replace(home, home.path, parts, without, dry=dry) if home.read(*parts) else None
        if gone is not None and gone.count:
            found.append(Purged("/".join(parts), gone.count))
    return found


def texts_of_versions(home: Home, versions: Iterable[OwnVersion]) -> list[str]:
    """Return the texts in archived versions; skip unreadable ones."""
    return [text for each in versions for text in _texts_in(home.read(*each.image.parts))]


def _texts_in(content: bytes | None) -> list[str]:
    try:
        return [entry.text for entry in document.parse(decode(content or b"")).entries]
    except Malformed:
        return []


def texts_of(home: Home, scope_folder: ScopeFolder, name: str) -> list[str]:
    """Return the texts of a record: in its file, archived versions and log; skip unreadable versions."""
    found = [entry.text for _, entry in archive.kept(home, scope_folder, filenames.RECORDS, name)]
    contents = [
        home.read(*each.parts) for each in archive.images(home, scope_folder, filenames.RECORDS, name)
    ]
    folder = scope_folder.open(filenames.RECORDS)
    if folder is not None:
        with folder:
            contents.append(folder.read(name))
    for content in contents:
        found += _texts_in(content)
    return found


def _from_consolidations(home: Home, scope_folder: ScopeFolder, key: str, *, dry: bool) -> Iterator[Purged]:
    """Remove a record from the archived versions and logs of consolidations; yield each of these places.

    A `dry` run removes nothing.
    """
    signed = f"of: {key}".encode()
    for name in archive.names(home, scope_folder, filenames.RECORDS):
        for image in archive.images(home, scope_folder, filenames.RECORDS, name):
            content = home.read(*image.parts) or b""
            if signed not in content:
                continue
            try:
                text = merge.without_part(decode(content), key)
            except Malformed:
                continue
            if text is not None and text.encode() == content:
                continue
            if dry:
                yield Purged(image.path, 1)
                continue
            with home.folder(*image.parts[:-1]) as folder:
                if text is None:
                    folder.delete(image.parts[-1])
                else:
                    folder.update(image.parts[-1], functools.partial(_instead, text.encode()))
            yield Purged(image.path, 1)

    def without(line: bytes) -> _Replaced:
        try:
            mine = json.loads(line).get("of") == key if b'"of"' in line else False
        except (ValueError, AttributeError):
            mine = False
        return _Replaced(b"" if mine else line, int(mine))

    parts = ("archive", "kept", *archive.area(scope_folder), filenames.RECORDS)
    for name in home.names(*parts):
        if name.endswith(".jsonl"):
            gone = _replace(home, home.path, (*parts, name), without, dry=dry)
            if gone.count:
                yield Purged("/".join((*parts, name)), gone.count)


def _instead(rest: bytes, _: bytes | None) -> bytes:
    """Return the given new content, whatever the file's content is."""
    return rest


def _versions(home: Home, scope_folder: ScopeFolder, name: str, *, dry: bool) -> Iterator[Purged]:
    if dry:
        yield from (
            Purged(each.path, 1) for each in archive.images(home, scope_folder, filenames.RECORDS, name)
        )
        return
    with home.disk("archive", *archive.area(scope_folder), filenames.RECORDS) as parent:
        with parent.enter(name) as versions:
            versions.sweep()
            for image in archive.images(home, scope_folder, filenames.RECORDS, name):
                versions.delete(image.parts[-1])
                yield Purged(image.path, 1)
        parent.remove_folder(name)


def text(home: Home, shared: Path | None, wanted: str, *, dry: bool = False) -> list[Purged]:
    """Replace a text by `[purged]` in the home and in the `shared` `.vade/`; return each place with the text.

    Places that must not change, such as the audit and the keys of records, are only reported. A `dry` run
    changes nothing.
    """
    if not is_long_enough(wanted):
        raise UsageError(
            f"{names.shown(wanted)} is too short to be purged",
            hint=f"pass at least {SHORTEST} characters, ideally the whole text",
        )
    if dry:
        found = [*_everywhere(home, shared, wanted, dry=True), *_from_heard(home, [wanted], dry=True)]
        return [*found, *_named_after(home, wanted)]
    first = [each for each in _everywhere(home, shared, wanted) if each.gone]
    first += _from_heard(home, [wanted], dry=False)
    # A writer may have brought it back behind us: the second look finds what was written during the first.
    return [*first, *_everywhere(home, shared, wanted), *_named_after(home, wanted)]


def _everywhere(home: Home, shared: Path | None, wanted: str, *, dry: bool = False) -> Iterator[Purged]:
    yield from _below(home, home.path, (), wanted, dry=dry)
    if shared is not None:  # the repository's folder may be a link out of it; the home is the user's own
        yield from _below(home, shared.parent, (shared.name,), wanted, dry=dry)


def is_long_enough(wanted: str) -> bool:
    """Return whether a text is long enough to be purged, and is not a part of the mark `[purged]`."""
    return len(wanted.strip()) >= SHORTEST and wanted not in MARK


def finder(wanted: str) -> Callable[[str], tuple[int, int] | None]:
    """Return a function that finds the wanted text in a given text, in every escaped form."""
    forms = _forms(wanted)

    def find(text: str) -> tuple[int, int] | None:
        found = forms.search(text)
        return found.span() if found else None

    return find


def without_text(content: bytes, wanted: str) -> bytes:
    """Return the content of a Markdown file in which a text is replaced by `[purged]`."""
    return _in_markdown(content, _forms(wanted)).content


def is_label(key: str) -> bool:
    """Return whether programs use the values of a frontmatter key, so that no text is removed there."""
    return key in _LABELS


def elsewhere(root: Path, wanted: str) -> list[Purged]:
    """Return the files with the text in another project's `.vade/`, to be purged from that project."""
    found = []
    for path in sorted((root / ".vade").rglob("*.md")):
        count = occurrences(path, wanted) if path.is_file() and not path.is_symlink() else 0
        if count:
            found.append(
                Purged(
                    str(path), count, gone=False, why=f"of another project; run it in {root}", reachable=False
                )
            )
    return found


def derived(home: Home) -> None:
    """Delete the derived files: every agent's index, the counters, the caches and late answers of hooks."""
    hook_sessions.forget_late(home.path)
    for name in home.names("index"):
        if name.endswith(".db"):  # one that is being made anew is waited for
            with home.lock(f"index {name.removesuffix('.db')}"):
                pass
    for folder, names_ in ((("index",), home.names("index")), ((), _STATE)):
        try:
            with home.disk(*folder) as opened:
                for name in names_:
                    opened.unlink(name)
        except FileNotFoundError:
            continue


def occurrences(path: Path, wanted: str) -> int:
    """Return how often a text occurs in a file; 0 if the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").count(wanted)
    except OSError:
        return 0


def _named_after(home: Home, wanted: str) -> Iterator[Purged]:
    """Yield the records whose key was made from the text; such keys are reported but not changed."""
    words = names.slug(wanted)
    for path, _, found in os.walk(home.path / "memory", onerror=raise_unless_gone):
        for name in found:
            if is_record(name) and words in name:
                where = os.path.relpath(os.path.join(path, name), home.path).replace(os.sep, "/")
                yield Purged(where, 1, gone=False, why="its name contains this text; purge the record itself")


def _below(home: Home, top: Path, start: tuple[str, ...], wanted: str, *, dry: bool) -> Iterator[Purged]:
    forms = _forms(wanted)
    for path, below, inside in os.walk(top.joinpath(*start), onerror=raise_unless_gone):
        inner = os.path.relpath(path, top).split(os.sep)
        parts = () if inner == ["."] else tuple(inner)
        # Locks name a process and go with it; what is synced is purged by facts (`sync.purges`).
        below[:] = sorted(name for name in below if parts or name not in ("locks", "hub"))
        if not dry:
            _sweep(top, parts)
        counts = 0
        for name in sorted(inside):
            way = _way((*parts, name))
            if way is None:
                continue
            found = _replace(home, top, (*parts, name), functools.partial(way, forms=forms), dry=dry)
            counts += found.count
            where = "/".join((*parts, name))
            if found.count:
                yield Purged(where, found.count)
            if found.left:
                yield Purged(where, found.left, gone=False, why=_why(parts))
        if counts and not dry and filenames.LISTING in inside:  # it may repeat a part of the text
            with DiskFolder.at(top) as folder, folder.enter(*parts) as records:
                records.delete(filenames.LISTING)


def sweep_below(top: Path, *starts: str) -> None:
    """Remove the leftovers of killed writers in these folders and below."""
    for start in starts:
        for path, below, _ in os.walk(top / start, onerror=raise_unless_gone):
            below.sort()
            _sweep(top, tuple(os.path.relpath(path, top).split(os.sep)))


def _sweep(top: Path, parts: tuple[str, ...]) -> None:
    """Remove the leftovers of killed writers in one folder, unless the folder is outside of memory."""
    with contextlib.suppress(OutsideMemory), DiskFolder.at(top) as folder, folder.enter(*parts) as inner:
        inner.sweep()


def _way(parts: tuple[str, ...]) -> Callable[..., _Replaced] | None:
    """Return the function that removes or counts a text in a file or log line; None for other files."""
    ending = os.path.splitext(parts[-1])[1]
    if ending == ".md" and parts[0] not in ("decisions", "audit"):
        return _in_markdown
    if parts == ("chat-history",):
        return _in_markdown
    if ending == ".json" and parts[:2] in _WITH_TEXTS:
        return _in_decision
    if ending == ".jsonl" and parts[:2] == ("archive", "kept"):
        return _in_line
    if ending == ".jsonl" and parts[0] == "transcripts":
        return _in_event
    if parts[0] == heard.FOLDER:  # `_from_heard`
        return None
    return _only_counted if ending in (".md", ".json", ".jsonl", ".toml") else None


def _why(parts: tuple[str, ...]) -> str:
    """Return the reason why a text was left in a file."""
    if parts[:1] == ("decisions",):
        return "it is part of a decision; undo that instead"
    if parts[:1] == ("audit",):
        return "the audit is never rewritten"
    return "it is part of the file's structure"


def raise_unless_gone(error: OSError) -> None:
    """Raise the error of a folder that cannot be read, unless the folder is gone."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _replace(
    home: Home, top: Path, parts: tuple[str, ...], way: Callable[[bytes], _Replaced], *, dry: bool
) -> _Replaced:
    """Change a file by `way`, which removes a text, under the lock of the file's writers; return the counts.

    A `dry` run only counts. Links, pipes and devices stay as they are.
    """
    name = parts[-1]
    try:
        with DiskFolder.at(top) as folder, folder.enter(*parts[:-1]) as inner:
            # A log grows for ever, and what it holds must be reached all the same: line by line.
            log = name.endswith(".jsonl")
            found = _look_through(inner, name, way) if log else way(inner.read(name) or b"")
            if found.count and not dry:
                with home.lock(lock_of(home, top, parts)):
                    if log:
                        found = _rewrite(inner, name, way)
                    else:
                        inner.update(name, lambda now: way(now or b"").content)
    except OutsideMemory:  # a link, pipe or device: what it leads to is not ours
        return _Replaced(b"", 0)
    return found


def _look_through(
    folder: DiskFolder,
    name: str,
    way: Callable[[bytes], _Replaced],
    write: Callable[[bytes], object] | None = None,
) -> _Replaced:
    """Apply `way` to each line of a log; return the counts, and pass the results to `write` if given."""
    count = left = size = 0
    waiting: list[bytes] = []
    with contextlib.suppress(FileNotFoundError), folder.reader(name) as log:
        for raw in log:
            body = raw.removesuffix(b"\n")
            found = way(body)
            count, left = count + found.count, left + found.left
            if write is not None:
                waiting += (found.content, raw[len(body) :])
                size += len(found.content)
                if size > _BLOCK:
                    write(b"".join(waiting))
                    waiting, size = [], 0
    if write is not None and waiting:
        write(b"".join(waiting))
    return _Replaced(b"", count, left)


def _rewrite(folder: DiskFolder, name: str, way: Callable[[bytes], _Replaced]) -> _Replaced:
    """Replace each line of a log by the result of `way`; return the counts.

    If somebody writes to the log meanwhile, begin again, a few times.
    """
    for _ in range(_TRIES):
        before = folder.stat(name)
        if before is None:
            break
        copy = f"{files.PREFIX}{os.getpid()}-{os.urandom(8).hex()}{files.TEMP}"
        fd = folder.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IMODE(before.st_mode))
        try:
            try:
                try_lock(fd)  # so that no sweeper takes it for a dead one's
                found = _look_through(folder, name, way, functools.partial(files.write_all, fd))
                os.fsync(fd)
            finally:
                os.close(fd)
            if _mark(folder.stat(name)) == _mark(before):  # else somebody wrote without the lock
                folder.rename(copy, name)
                folder.sync()
                return found
            folder.unlink(copy)
        except BaseException:
            with contextlib.suppress(OSError):
                folder.unlink(copy)
            raise
    else:
        raise StorageFailed(f"{folder.path}/{name} keeps changing; purge again when nothing writes to it")
    return _Replaced(b"", 0)


def rewrite_log(folder: DiskFolder, name: str, way: Callable[[bytes], bytes | None]) -> None:
    """Rewrite a log: `way` returns the new content of each line, or None to delete the line."""

    def line(body: bytes) -> _Replaced:
        return _Replaced(way(body) or b"", 0)

    _rewrite(folder, name, line)


def _mark(state: os.stat_result | None) -> object:
    return state and (state.st_ino, state.st_size, state.st_mtime_ns)


def lock_of(home: Home, top: Path, parts: tuple[str, ...]) -> str:
    """Return the name of the lock for a file; a record and its archived copies share a lock."""
    if parts[0] == "transcripts":
        return f"transcript {'/'.join(parts)}"
    if parts[0] == heard.FOLDER:
        return f"{heard.FOLDER} {'/'.join(parts)}"
    if parts[0] != "archive":
        kind = parts[-2] if parts[-2:-1] in ((filenames.RECORDS,), (filenames.JOURNAL,)) else filenames.PINNED
        return _lock(kind, parts, top)
    below = parts[2:] if parts[1] == "kept" else parts[1:]
    if len(below) < 4:
        return f"purge {top}"
    scope, place, kind, name = below[:4]
    folders: tuple[str, ...] = ("memory", scope) if place == "_" else ("memory", scope, place)
    if scope == "repository":
        folders, top = (".vade",), _repositories(home).get(place, top)
    inner = () if kind == filenames.PINNED else (kind,)
    return _lock(kind, (*folders, *inner, name.removesuffix(".jsonl")), top)


def _lock(kind: str, parts: tuple[str, ...], top: Path) -> str:
    path = "/".join(parts)
    if kind == filenames.JOURNAL:
        return f"journal {path}"
    return f"{'record' if kind == filenames.RECORDS else 'pinned'} {path} in {top}"


def _repositories(home: Home) -> dict[str, Path]:
    """Return the folders of trusted repositories, by their names in the archive."""
    nowhere = Place(Scope.PROJECT, "")
    tops = (Path(str(decision.get("path"))) for _, decision in decisions.every(home, "trusted"))
    return {archive.area(ScopeFolder(nowhere, top, (".vade",), ".vade", shared=True))[1]: top for top in tops}


def repository_area(top: Path) -> tuple[str, ...]:
    """Return the path parts in the archive that belong to a repository."""
    return archive.area(ScopeFolder(Place(Scope.PROJECT, ""), top, (".vade",), ".vade", shared=True))


def _forms(wanted: str) -> re.Pattern[str]:
    """Return a pattern for a text in every form: either line ending, escaped, inside of JSON."""
    plain = {wanted, document.escape(wanted)}
    forms = plain | {form.replace("\n", "\r\n") for form in plain}
    for _ in range(3):  # what a tool is given is JSON inside of a line of JSON, and may hold JSON itself
        forms |= {
            json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in forms for ascii_only in (False, True)
        }
    # What all begin with is written once: `re` would look for it itself, in time quadratic in its length.
    least, most = min(forms), max(forms)
    same = next(
        (at for at, (one, other) in enumerate(zip(least, most, strict=False)) if one != other), len(least)
    )
    rest = (form[same:] for form in sorted(forms, key=len, reverse=True))
    return re.compile(f"{re.escape(least[:same])}(?:{'|'.join(map(re.escape, rest))})")


def _from_heard(home: Home, texts: Iterable[str], *, dry: bool) -> Iterator[Purged]:
    """Delete heard statements that contain one of these texts or are part of one; yield the changed files.

    A `dry` run deletes none.
    """
    wanted = [form for each in texts if len(form := normalise(each).casefold()) >= SHORTEST]

    def without(line: bytes) -> _Replaced:
        try:
            statement = json.loads(line)
            said = [statement.get("text"), *(statement.get("evidence") or ())]
        except (ValueError, AttributeError, TypeError, RecursionError):
            return _Replaced(line, 0)
        forms = [normalise(each).casefold() for each in said if isinstance(each, str)]
        gone = any(form and (form in each or each in form) for form in forms for each in wanted)
        return _Replaced(b"" if gone else line, int(gone))

    for project in home.names(heard.FOLDER) if wanted else ():
        for session in heard.sessions(home, project):
            parts = (heard.FOLDER, project, session + heard.ENDING)
            found = _replace(home, home.path, parts, without, dry=dry)
            if found.count:
                yield Purged("/".join(parts), found.count)


def notices_of(home: Home, texts: Iterable[str], *, dry: bool = False) -> Iterator[Purged]:
    """Delete the notices of a sync that repeat one of these texts, and remove the texts from saved reviews.

    Yield the changed files; a `dry` run changes no file.
    """
    listed = [each for each in texts if is_long_enough(normalise(each))]
    wanted = {normalise(each) for each in listed}
    for notice in decisions.sync_notices(home) if wanted else ():
        shown = normalise(notice.text)
        if any(each in shown for each in wanted):
            if not dry:
                decisions.drop_sync_notice(home, notice)
            yield Purged(f"decisions/{decisions.SYNC_NOTICES}/{decisions.notice_file(notice)}", 1)
    for name in home.names("decisions", decisions.REVIEWS) if wanted else ():
        parts = ("decisions", decisions.REVIEWS, name)
        count = 0
        for each in listed:
            way = functools.partial(_in_decision, forms=_forms(each))
            count += _replace(home, home.path, parts, way, dry=dry).count
        if count:
            yield Purged("/".join(parts), count)


def remaining(home: Home, shared: Path | None, wanted: str) -> Iterator[Purged]:
    """Yield every file of the home and of the project's `.vade/` (`shared`) whose bytes contain a text."""
    forms = _forms(wanted)
    raw = re.compile(forms.pattern.encode(errors="surrogatepass"))
    longest = 16 * len(wanted.encode(errors="surrogatepass")) + 64  # of any form of it
    for top in (home.path, *(() if shared is None else (shared,))):
        base = home.path if top == home.path else top.parent
        for path, below, inside in os.walk(top, onerror=raise_unless_gone):
            below.sort()
            for name in sorted(inside):
                count = _count_in_bytes(os.path.join(path, name), raw, longest)
                if count:
                    where = os.path.relpath(os.path.join(path, name), base).replace(os.sep, "/")
                    yield Purged(where, count, gone=False, why="it is still in the bytes of this file")


def _count_in_bytes(path: str, raw: re.Pattern[bytes], longest: int) -> int:
    """Return how often a pattern occurs in a regular file, which is read in blocks that overlap."""
    count, rest = 0, b""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return 0
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                text, end = rest + block, 0
                for match in raw.finditer(text):
                    count, end = count + 1, match.end()
                rest = text[max(end, len(text) - longest) :]
    except FileNotFoundError:
        pass
    return count


def _in_markdown(content: bytes, forms: re.Pattern[str]) -> _Replaced:
    """Remove a text from a Markdown file's titles, tags and entries; in a malformed file, from all bytes."""
    try:
        text = decode(content)
        front = frontmatter.parse(text)
    except Malformed:
        # Latin-1 keeps every byte as it is, UTF-8 or not.
        bytewise = re.compile(forms.pattern.encode().decode("latin-1"))
        torn, count = bytewise.subn(MARK, content.decode("latin-1"))
        return _Replaced(torn.encode("latin-1"), count)
    body, count, left = _in_body(text[front.body :], forms)
    head, labels = text[: front.body], {}
    for key, value in front.values.items():
        cleaned, hits = (value, 0) if key in _LABELS else _cleaned(value, forms)
        if hits:
            labels[key], count = cleaned, count + hits
    if labels:
        head = frontmatter.edit(head, labels)
    left += len(forms.findall(head))
    return _Replaced((head + body).encode(), count, left)


def _in_body(body: str, forms: re.Pattern[str]) -> tuple[str, int, int]:
    """Return the body without a text, and the counts removed and left; headings and signatures stay."""
    fixed = [match.span() for match in _STRUCTURE.finditer(body)]
    pieces, done, count, left = [], 0, 0, 0
    for match in forms.finditer(body):
        gaps = list(_gaps(match.start(), match.end(), fixed))
        gaps = [(start, end) for start, end in gaps if body[start:end].strip()]
        for start, end in gaps:
            pieces += [body[done:start], MARK]
            done = end
        count, left = count + bool(gaps), left + (not gaps)
    return "".join((*pieces, body[done:])), count, left


def _gaps(start: int, end: int, fixed: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range that lie outside of all `fixed` ranges."""
    for first, last in fixed:
        if last > start and first < end:
            if first > start:
                yield start, first
            start = last
    if start < end:
        yield start, end


def _in_line(raw: bytes, forms: re.Pattern[str]) -> _Replaced:
    try:
        line = json.loads(raw)
        line["text"], hits = _cleaned(line["text"], forms)
    except (ValueError, KeyError, TypeError):
        return _in_markdown(raw, forms)
    return _Replaced(json.dumps(line, ensure_ascii=False).encode() if hits else raw, hits)


def _in_event(raw: bytes, forms: re.Pattern[str]) -> _Replaced:
    """Replace a text in the strings of an event, except in kinds, ids and times, so that replays work."""
    if not forms.search(raw.decode(errors="replace")):  # it would stand there as it is, or escaped
        return _Replaced(raw, 0)
    try:
        event, hits = _strip(json.loads(raw), forms)
        left = sum(len(forms.findall(each)) for each in _strings(event))
    except (ValueError, RecursionError):
        return _in_markdown(raw, forms)
    if not hits:
        return _Replaced(raw, 0, left)
    line = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    if not line.isascii() and re.search("[\ud800-\udfff]", line):  # which only an escape can hold
        line = json.dumps(event, separators=(",", ":"))
    return _Replaced(line.encode(), hits, left)


def _in_decision(content: bytes, forms: re.Pattern[str]) -> _Replaced:
    """Replace a text where a decision repeats texts; in names, paths and times it stays, and is counted."""
    try:
        decision, hits = _strip_texts(json.loads(content), forms)
    except (ValueError, RecursionError):
        return _in_markdown(content, forms)
    left = sum(len(forms.findall(each)) for each in _strings(decision))
    if not hits:
        return _Replaced(content, 0, left)
    return _Replaced(json.dumps(decision, ensure_ascii=False).encode(), hits, left)


def _strip_texts(value: Any, forms: re.Pattern[str]) -> tuple[Any, int]:
    if isinstance(value, list):
        items = [_strip_texts(each, forms) for each in value]
        return [each for each, _ in items], sum(hits for _, hits in items)
    if not isinstance(value, dict):
        return value, 0
    pairs = {
        key: (_cleaned if key in _TEXT_FIELDS else _strip_texts)(each, forms) for key, each in value.items()
    }
    return {key: each for key, (each, _) in pairs.items()}, sum(hits for _, hits in pairs.values())


def _strings(value: Any) -> Iterator[str]:
    """Yield every string in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value:
            yield from _strings(each)
        for each in value.values() if isinstance(value, dict) else ():
            yield from _strings(each)


def _strip(value: Any, forms: re.Pattern[str]) -> tuple[Any, int]:
    """Return an event without a text, and the number of removals; keys and ids stay."""
    if isinstance(value, list):
        items = [_strip(each, forms) for each in value]
        return [each for each, _ in items], sum(hits for _, hits in items)
    if not isinstance(value, dict):
        return _cleaned(value, forms)
    pairs = {
        key: (each, 0) if key in _MARKS else _cleaned(each, forms) if key in _FREE else _strip(each, forms)
        for key, each in value.items()
    }
    return {key: each for key, (each, _) in pairs.items()}, sum(hits for _, hits in pairs.values())


def _only_counted(content: bytes, forms: re.Pattern[str]) -> _Replaced:
    return _Replaced(content, 0, len(forms.findall(content.decode(errors="replace"))))


def _cleaned(value: Any, forms: re.Pattern[str]) -> tuple[Any, int]:
    """Return a value in which a text is replaced by `[purged]`, and the number of replacements."""
    if isinstance(value, str):
        return forms.subn(MARK, value)
    if isinstance(value, list):
        items = [_cleaned(each, forms) for each in value]
        return [each for each, _ in items], sum(hits for _, hits in items)
    if isinstance(value, dict):
        pairs = {key: _cleaned(each, forms) for key, each in value.items()}
        return {key: each for key, (each, _) in pairs.items()}, sum(hits for _, hits in pairs.values())
    return value, 0


_LOGS = (archive.KEPT, "runs")


def old_versions(home: Home, *, before: datetime) -> Iterator[tuple[str, ...]]:
    """Yield the paths, as parts, of archived versions and run logs from before a moment."""
    limit = clock.stamp(before).replace("-", "").replace(":", "")[:-1]
    for area in _areas(home):
        for kind in home.names("archive", *area):
            for name in home.names("archive", *area, kind):
                parts = ("archive", *area, kind, name)
                for version in home.names(*parts):
                    if version.endswith(".md") and version[: len(limit)] < limit:
                        yield (*parts, version)
    for log in home.names("archive", "runs"):
        if log.endswith(".jsonl") and log[: len(limit)] < limit:
            yield "archive", "runs", log


def delete_version(home: Home, parts: tuple[str, ...]) -> None:
    """Delete an archived version; with the last version of a deleted record, also the log of its entries."""
    with contextlib.suppress(FileNotFoundError), home.folder(*parts[:-1]) as folder:
        folder.delete(parts[-1])
    if parts[1] in _LOGS or parts[3] != filenames.RECORDS or home.names(*parts[:-1]):
        return
    scope_folder, name = _scope_folder(home, parts[1], parts[2]), parts[4]
    if scope_folder is None:
        return
    with home.lock(f"record {scope_folder.name_of(filenames.RECORDS, name)} in {scope_folder.top}"):
        records = scope_folder.open(filenames.RECORDS)
        here = False
        if records is not None:
            with records:
                here = records.stat(name) is not None
        if not here and not home.names(*parts[:-1]):
            log_parts = ("archive", archive.KEPT, *archive.area(scope_folder), filenames.RECORDS)
            with contextlib.suppress(FileNotFoundError), home.folder(*log_parts) as folder:
                folder.delete(f"{name}.jsonl")


def old_days(home: Home, *, before: datetime) -> list[str]:
    """Return the audit's days from before a moment, except the newest day, which always stays."""
    return audit.days_before(home, before)


def _areas(home: Home) -> Iterator[tuple[str, str]]:
    for scope in home.names("archive"):
        if scope not in _LOGS and not scope.startswith("."):
            for place in home.names("archive", scope):
                yield scope, place


def _scope_folder(home: Home, scope: str, place: str) -> ScopeFolder | None:
    """Return the folder whose versions lie in this part of the archive; None when unknown."""
    if scope in list(Scope):
        return home.scope_folder(Place(Scope(scope), "" if place == "_" else place))
    for _, decision in decisions.every(home, "trusted"):
        top = Path(str(decision.get("path")))
        scope_folder = ScopeFolder(Place(Scope.PROJECT, ""), top, (".vade",), ".vade", shared=True)
        if archive.area(scope_folder) == (scope, place):
            return scope_folder
    return None
