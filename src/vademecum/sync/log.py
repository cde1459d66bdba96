"""A home's side of a sync, on disk: the log of one stream, and the files of one place.

`log.jsonl` has the facts, each written and synced before anything depends on it; a line that a crash cut off
was never there. `state.json` says how much of it the files show, and which files were being written.
`base.json` is a cache of what they show; it counts as long as the log begins with the bytes it was made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import stat
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from vademecum.errors import Malformed, OutsideMemory
from vademecum.store import archive, audit, catalogue, decisions, document, journal, records, requests
from vademecum.store import purge as purging
from vademecum.store import purge_origin as origins
from vademecum.store.pinned import CONTEXT
from vademecum.sync import blocks
from vademecum.sync import facts as fact_rules
from vademecum.sync.project import safe_path
from vademecum.sync.window import NO_DIGESTS, Logged, LogLines, Remembered, Tail, digest_text, render_line
from vademecum.text import clock, names, secrets
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.store import Directory, Home, Shelf
    from vademecum.sync.facts import Dot, SyncFact
    from vademecum.sync.place import FileChange
    from vademecum.sync.project import FileNotice
    from vademecum.sync.purges import Removed
    from vademecum.types import Entry

LINES, STATE, BASE, ASIDE = "log.jsonl", "state.json", "base.json", ".aside"
FileTurn: TypeAlias = archive.FileTurn
_LARGEST = 1 << 31
_NAMED = b'{"replica"'
AT_ONCE = 128  # files that are replaced together: so many locks, and thrice as many files, are held open
_VERSION = 1  # of what is remembered, and of how facts are shown
_MEND = "fix it with any text editor"


class DiskLog:
    """The log of one stream in a folder of the home."""

    def __init__(self, folder: Directory, replica: str = "") -> None:
        self._folder, self._first = folder, replica
        self.replica = ""
        self._names: set[str] = set()  # under which facts were made here
        self._lines = LogLines()
        self._kept: Remembered | None = None
        self._bytes, self._digest = 0, hashlib.blake2b()  # of the log as it is on disk
        self._load()

    def read(self) -> Sequence[Logged]:
        """All of it, in the order in which it came."""
        return self._lines

    def append(self, facts: Iterable[SyncFact], *, own: bool) -> None:
        """Add facts; they are on disk when this returns."""
        listed = [(render_line(fact, own=own), fact) for fact in facts]
        if listed:
            self._write(b"\n".join([line for line, _ in listed]))
        for line, fact in listed:
            self._lines.add(line, Logged(fact, own))

    def last(self) -> int:
        """How many facts of this replica it has."""
        fact = self.tail().last().get(self.replica)
        return fact.n if fact is not None else 0

    def of_kind(self, kind: str) -> list[Logged]:
        """The facts of one kind, without reading all others."""
        wanted = f'"kind":"{kind}"'.encode()
        return [self._lines[at] for at in self._lines.holding(wanted) if wanted in self._lines.fact(at)]

    def tail(self) -> Tail:
        """What it says as a whole."""
        return Tail(self._lines, self._kept or Remembered())

    def remembered(self) -> Remembered | None:
        """What the last sync left, if the log still begins with what it was made from."""
        return self._kept

    def remember(self, kept: Remembered) -> None:
        """Leave something for the next sync; it may be lost."""
        known = {"version": _VERSION, "bytes": self._bytes, "digest": self._digest.hexdigest()}
        content = json.dumps({**known, **kept.render()}, separators=(",", ":")).encode()
        self._folder.update(BASE, lambda _: content, largest=_LARGEST)
        self._kept = kept

    def applied(self) -> int:
        """How many lines the files show."""
        return int(self._state().get("applied") or 0)

    def applying(self) -> Collection[str]:
        """The paths that were being written."""
        return [str(each) for each in self._state().get("applying") or []]

    def begin(self, paths: Iterable[str]) -> None:
        """Write down which files are about to be written."""
        self._save({"applied": self.applied(), "applying": sorted(paths)})

    def finish(self, applied: int, left: Collection[str] = ()) -> None:
        """The files show so many lines, but for those that are `left`."""
        self._save({"applied": applied, "applying": sorted(left)})

    def is_own(self, fact: SyncFact) -> bool:
        """Whether a fact was made here: under the name of today, or an earlier one."""
        return fact.replica in self._names

    def former(self) -> set[str]:
        """The names under which this home made facts before, and no longer does."""
        found = set(self._names)
        for name in self._folder.names():
            if name.endswith(ASIDE):
                for line in (self._folder.read(name, largest=_LARGEST) or b"").split(b"\n")[:-1]:
                    with contextlib.suppress(ValueError, KeyError, TypeError):
                        found |= {str(json.loads(line)["replica"])} if line.startswith(_NAMED) else set()
        return found - {self.replica}

    def aside(self) -> Iterator[SyncFact]:
        """The facts of logs that were put aside, as far as they can be read."""
        for name in self._folder.names():
            if name.endswith(ASIDE):
                for line in (self._folder.read(name, largest=_LARGEST) or b"").split(b"\n")[:-1]:
                    with contextlib.suppress(ValueError, Malformed):
                        yield _fact_in(line)

    def blank(self, dots: Collection[Dot]) -> None:
        """Take the content of these facts away for good, from the log and from those that were put aside."""
        self._rewrite([LINES, *(each for each in self._folder.names() if each.endswith(ASIDE))], dots)

    def withdraw(self, dots: Collection[Dot]) -> None:
        """Let go of facts that nobody else has: what is left of each says nothing and keeps its place."""
        self._rewrite([LINES], dots, fact_rules.withdraw)

    def _rewrite(
        self,
        files: Iterable[str],
        dots: Collection[Dot],
        change: Callable[[SyncFact], SyncFact] = fact_rules.blank,
    ) -> None:
        for name in files:
            content = self._folder.read(name, largest=_LARGEST)
            if content is None:
                continue
            lines = (_changed(line, dots, change) for line in content.split(b"\n")[:-1])
            rest = b"".join(line + b"\n" for line in lines if line is not None)
            if rest != content:
                self._folder.update(name, partial(_instead, rest), largest=_LARGEST)
        self._folder.delete(BASE)
        self._folder.sweep()
        self._lines, self._bytes, self._digest = LogLines(), 0, hashlib.blake2b()
        self._load()

    def renew(self) -> None:
        """Go on as another replica: a copy or a later state of this home has used the name."""
        self._go_on_as(names.new_mark(16))

    def _go_on_as(self, replica: str) -> None:
        self.replica = replica
        self._names.add(replica)
        self._write(json.dumps({"replica": replica}).encode())

    def begin_anew(self) -> None:
        """Put the log aside; what others know decides from now on what is new here."""
        moment = names.new_mark(8)
        content = self._folder.read(LINES, largest=_LARGEST)
        if content is not None:
            self._folder.create(f"log.{moment}{ASIDE}", content)
            self._folder.delete(LINES)
        self._save({"applied": 0, "applying": []})
        self._lines.clear()
        self._names.clear()
        self._kept, self._bytes, self._digest = None, 0, hashlib.blake2b()
        self.renew()

    def _load(self) -> None:
        content = self._folder.read(LINES, largest=_LARGEST) or b""
        whole = content.rfind(b"\n") + 1  # what a crash cut off has no line end
        if whole < len(content):
            self._folder.update(LINES, lambda current: (current or b"")[:whole], largest=_LARGEST)
        try:
            for line in content[:whole].split(b"\n")[:-1]:
                if line.startswith(_NAMED):
                    self.replica = str(json.loads(line)["replica"])
                    self._names.add(self.replica)
                else:
                    self._lines.add(line)
            self._kept = self._proven(memoryview(content)[:whole])
            self._lines.proven = self._kept.lines if self._kept else 0
            for _ in self._lines[self._kept.lines if self._kept else 0 :]:
                pass  # what was never read may be no fact
        except (ValueError, KeyError, TypeError, Malformed):
            self.begin_anew()
            return
        self._count(memoryview(content)[self._bytes : whole])
        if not self.replica:
            self._go_on_as(self._first or names.new_mark(16))

    def _proven(self, content: memoryview) -> Remembered | None:
        """What is remembered, if it is of this version and of the bytes that the log begins with."""
        try:
            given = json.loads(self._folder.read(BASE, largest=_LARGEST) or b"null")
            size, kept = int(given["bytes"]), Remembered.parse(given)
        except (ValueError, TypeError, KeyError):
            return None
        digest = hashlib.blake2b(content[:size])
        if given.get("version") != _VERSION or size > len(content) or digest.hexdigest() != given["digest"]:
            return None
        self._bytes, self._digest = size, digest
        return kept

    def _count(self, content: bytes | memoryview) -> None:
        self._bytes += len(content)
        self._digest.update(content)

    def _write(self, line: bytes) -> None:
        self._folder.append_line(LINES, line)
        self._count(line + b"\n")

    def _state(self) -> dict[str, Any]:
        try:
            given = json.loads(self._folder.read(STATE) or b"{}")
        except ValueError:
            return {}
        return given if isinstance(given, dict) else {}

    def _save(self, state: dict[str, Any]) -> None:
        self._folder.update(STATE, lambda _: json.dumps(state).encode() + b"\n")


def _fact_in(line: bytes) -> SyncFact:
    return fact_rules.parse(line[line.index(b'"fact": ') + 8 : -1])


def _changed(line: bytes, dots: Collection[Dot], change: Callable[[SyncFact], SyncFact]) -> bytes | None:
    """A line of a log without its content, if that must go; None for one of which nobody knows what it is."""
    if b'"fact": ' not in line:
        return line
    try:
        fact, own = _fact_in(line), json.loads(line)["own"] is True
    except (ValueError, KeyError, TypeError, Malformed):
        return None
    return render_line(change(fact), own=own) if fact.dot in dots and not fact.purged else line


def _instead(rest: bytes, _: bytes | None) -> bytes:
    return rest


@dataclass(slots=True)
class HomeFiles:
    """The records, journals and pinned documents of one place of a home."""

    home: Home
    shelf: Shelf
    actor: str
    now: Callable[[], datetime]
    aside: tuple[str, ...] = ()  # the folder for texts that a person must decide on
    findings: list[Finding] = field(default_factory=list)
    _held: set[str] = field(default_factory=set)

    def stamps(self) -> dict[str, tuple[int, ...]]:
        """What changes with each file; nothing for one that is too young to tell two changes of it apart."""
        self.findings.clear()
        self._held.clear()
        settled = time.time_ns() - catalogue.RACY
        found: dict[str, tuple[int, ...]] = {}
        for kind, folder, listed in self._folders():
            with folder:
                for name, state in folder.scan(set(listed(folder)).__contains__):
                    known = (
                        stat.S_ISREG(state.st_mode) and max(state.st_mtime_ns, state.st_ctime_ns) < settled
                    )
                    mark = (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
                    found[f"{kind}/{name}" if kind else name] = mark if known else ()
        return found

    def read(
        self, paths: Collection[str] | None = None, shown: Mapping[str, str] = NO_DIGESTS
    ) -> dict[str, str]:
        """The text of each file that is synced, or of some; the others are told and held."""
        if paths is None:
            paths = self.stamps()
        found: dict[str, str] = {}
        for kind, folder, _ in self._folders():
            with folder:
                for path in sorted(paths):
                    above, _, name = path.rpartition("/")
                    text = self._text(folder, name, path, shown.get(path)) if above == kind else None
                    if text is not None:
                        found[path] = text
        return found

    def held(self) -> Collection[str]:
        """What is there and not synced now."""
        return self._held

    def write(self, changes: Sequence[FileChange]) -> set[str]:
        """Put texts in place of others, many at a time; returned are those that somebody saved meanwhile.

        Whatever is free of locks goes together; who holds one is waited for when the rest is done.
        """
        left: set[str] = set()
        kinds: dict[str, list[FileChange]] = {}
        for each in changes:
            kinds.setdefault(each.path.rpartition("/")[0], []).append(each)
        for kind, listed in kinds.items():
            for first in range(0, len(listed), AT_ONCE):
                part = {self._lock(kind, _last(each)): each for each in listed[first : first + AT_ONCE]}
                with self.home.locks(part) as held:
                    left |= self._replace(kind, [each for thing, each in part.items() if thing in held])
                for thing in [each for each in part if each not in held]:
                    with self.home.lock(thing):
                        left |= self._replace(kind, [part[thing]])
        return left

    def _replace(self, kind: str, changes: Sequence[FileChange]) -> set[str]:
        """Replace files of one folder whose locks are held; the log of the stream says which ones.

        So whatever a crash leaves of it, the next sync takes none of it for somebody's edit, and goes on.
        """
        shown = kind or archive.PINNED
        turns = {
            _last(each): FileTurn(
                _last(each), _bytes(each.before), _bytes(each.after), _why(each), self.now()
            )
            for each in changes
        }
        left = archive.replace_all(
            self.home, self.shelf, shown, [*turns.values()], log=lambda made: self._log(shown, made)
        )
        self._log_kept(shown, [each for each in left if each.staged])
        return {f"{kind}/{each.name}" if kind else each.name for each in left}

    def archive(self, path: str, text: str) -> None:
        """Keep a text that is not shown."""
        kind, _, name = path.rpartition("/")
        where = (kind or archive.PINNED, name or "unnamed.md")
        archive.keep(self.home, self.shelf, *where, text.encode(), why="conflict", at=self.now())

    def purge(self, removed: Removed) -> None:
        """Delete for good, here and in everything that was made from the files or kept of them."""
        home = self.home
        for path in removed.paths:
            kind, _, name = path.rpartition("/")
            if kind == archive.RECORDS:
                with home.lock(self._lock(kind, name)):
                    purging.record(home, self.shelf, name)
        if self.shelf.team:  # others may purge what is the team's, and nothing else of this home
            self._purge_team(removed)
        else:
            if removed.entries:
                origins.delete_entries(home, removed.entries)
            for text in removed.texts:
                list(requests.purge(home, text))
                purging.text(home, None, text)
        purging.derived(home)
        requests.clear_answers(home)
        audit.write(home, at=self.now(), actor=self.actor, operation="purge", scope=self.shelf.place.scope)

    def _purge_team(self, removed: Removed) -> None:
        """Take it from the team's files and from what the archive has of them."""
        for kind, folder, listed in self._folders():
            for name in listed(folder):
                path = f"{kind}/{name}" if kind else name
                text = _decoded(folder.read(name))
                rest = removed.clean(path, text) if text is not None else None
                with self.home.lock(self._lock(kind, name)):
                    if text is not None and rest is None:
                        folder.delete(name)
                    elif rest != text:
                        folder.update(name, partial(_instead, (rest or "").encode()))
        for kind in (archive.RECORDS, archive.JOURNAL, archive.PINNED):
            for name in archive.names(self.home, self.shelf, kind):
                for image in archive.images(self.home, self.shelf, kind, name):
                    old = (self.home.read(*image.parts) or b"").decode(errors="replace")
                    new = removed.clean(name if kind == archive.PINNED else f"{kind}/{name}", old)
                    with self.home.folder(*image.parts[:-1]) as versions:
                        if new is None:
                            versions.delete(image.parts[-1])
                        elif new != old:
                            versions.update(image.parts[-1], partial(_instead, new.encode()))

    def set_aside(self, name: str, path: str, text: str) -> None:
        """Keep a text for a person, who decides whether it stays."""
        told = {"place": str(self.shelf.place), "path": path, "at": clock.stamp(self.now()), "text": text}
        with self.home.folder(*self.aside, create=True) as folder:
            folder.update(f"{name}.json", lambda _: json.dumps(told, indent=1).encode() + b"\n")

    def _log(self, kind: str, turns: Sequence[FileTurn]) -> None:
        """Say in the audit what changes, and in the logs of kept entries what is taken out or comes back."""
        audit.write_all(
            self.home,
            at=self.now(),
            actor=self.actor,
            operation="sync",
            scope=self.shelf.place.scope,
            changes=[(each.before, each.after) for each in turns],
        )
        if kind == archive.PINNED:
            return
        logged = set(archive.kept_names(self.home, self.shelf, kind))
        known = [each for each in turns if each.name in logged]
        archive.log_all_taken(self.home, self.shelf, kind, [_taken(each) for each in known if each.before])

    def _log_kept(self, kind: str, turns: Sequence[FileTurn]) -> None:
        """Say of files that somebody saved at the last moment that they hold what they held."""
        if turns:
            self._log(kind, [replace(each, before=each.after, after=each.before) for each in turns])
        for each in turns if kind != archive.PINNED else ():
            entries, record = _entries_of(each.before)
            archive.log_returned(self.home, self.shelf, kind, each.name, entries, record=record)

    def _lock(self, kind: str, name: str) -> str:
        if kind == archive.RECORDS:
            return f"record {self.shelf.name_of(kind, name)} in {self.shelf.top}"
        if kind == archive.JOURNAL:
            return f"journal {self.shelf.name_of(kind, name)}"
        return f"pinned {self.shelf.name_of(name)} in {self.shelf.top}"

    def _folders(self) -> Iterator[tuple[str, Directory, Callable[[Directory], list[str]]]]:
        for kind, listed in self._listed():
            folder = self.shelf.open(*((kind,) if kind else ()))
            if folder is not None:
                yield kind, folder, listed

    def _listed(self) -> Iterator[tuple[str, Callable[[Directory], list[str]]]]:
        yield archive.RECORDS, records.in_folder
        shared = self.shelf.shared  # as in a repository, journals and what else is pinned are one's own
        if self.shelf.place.scope.rule.journal and not shared:
            yield archive.JOURNAL, lambda folder: [name for name in folder.names() if journal.is_day(name)]
        pinned = [name for name in self.shelf.place.scope.rule.documents if not shared or name == CONTEXT]
        yield "", lambda folder: [name for name in pinned if folder.stat(name) is not None]

    def _text(self, folder: Directory, name: str, path: str, shown: str | None) -> str | None:
        try:
            content = folder.read(name)
            if content is None:
                return None
            text = document.decode(content)
            if shown is not None and digest_text(text) == shown:
                return text
            blocks.cut(text, path)
        except (Malformed, OutsideMemory, OSError) as error:
            self.hold(path, str(error), _MEND)
            return None
        if safe_path(path) != path:
            self.hold(path, "its name cannot be used on every system", "rename it")
            return None
        if secrets.find(text):
            self.hold(path, "it holds what looks like a secret, which stays on this machine", _MEND)
            return None
        if len(text) > fact_rules.LARGEST_VALUE:
            self.hold(path, "it is too large", _MEND)
            return None
        return text

    def keep_notices(self, found: Iterable[FileNotice]) -> None:
        """Keep what is to be told of these files until a person has seen it in `vade review`."""
        place, folder, at = str(self.shelf.place), self.shelf.label, clock.stamp(self.now())
        for each in found:
            notice = decisions.SyncNotice(each.what, place, folder, each.path, each.text, at)
            decisions.keep_sync_notice(self.home, notice)

    def hold(self, path: str, why: str, mend: str = "") -> None:
        """Leave a file alone in this sync, and tell why, and what can be done here about it."""
        self._held.add(path)
        where = self.shelf.name_of(path)
        self.findings.append(Finding("not synced", where, why, mend))


def _taken(turn: FileTurn) -> archive.TakenEntries:
    """The entries that a file no longer holds."""
    old, record = _entries_of(turn.before)
    left = {(each.time, each.text) for each in _entries_of(turn.after)[0]}
    gone = [each for each in old if (each.time, each.text) not in left]
    return archive.TakenEntries(turn.name, record, gone)


def _entries_of(content: bytes | None) -> tuple[Sequence[Entry], str | None]:
    """The entries of a document, and the id of its record."""
    parsed = document.parse(document.decode(content or b""))
    record = parsed.front.values.get("id")
    return parsed.entries, str(record) if record else None


def _last(change: FileChange) -> str:
    return change.path.rpartition("/")[2]


def _why(change: FileChange) -> str:
    return "forget" if change.after is None else "sync"


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _decoded(content: bytes | None) -> str | None:
    return None if content is None else document.decode(content)
