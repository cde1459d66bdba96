"""The log of a stream and the files of a place, on disk.

`log.jsonl` has the facts; each line is on disk before anything depends on it, and an incomplete last line
does not count. `state.json` says how many lines of the log the files show, and which files were being
written. `base.json` is a cache of the shown files; it counts as long as the log begins with the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import stat
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from vademecum.errors import Malformed, OutsideMemory
from vademecum.store import (
    archive,
    audit,
    decisions,
    files,
    history,
    hub_rules,
    in_folder,
    pending_writes,
    runs,
    view,
)
from vademecum.store import purge as purging
from vademecum.store import purge_origin as origins
from vademecum.sync import blocks
from vademecum.sync import facts as fact_rules
from vademecum.sync.projection import safe_path
from vademecum.sync.stream_window import (
    NO_DIGESTS,
    Logged,
    LogLines,
    Remembered,
    Tail,
    digest_text,
    render_line,
)
from vademecum.sync.workspace_key import covers, find_unsealed
from vademecum.text import clock, document, filenames, frontmatter, names, secrets
from vademecum.text.filenames import CONTEXT
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.store import Directory, Home, ScopeFolder
    from vademecum.sync.facts import FactId, SyncFact
    from vademecum.sync.projection import FileNotice
    from vademecum.sync.purge_facts import Removed
    from vademecum.sync.stream_sync import FileChange
    from vademecum.sync.workspace_key import StreamEnds
    from vademecum.types import Entry

LINES, STATE, BASE, ASIDE = "log.jsonl", "state.json", "base.json", ".aside"
SEALED = "sealed.json"  # the check of the key with which all own facts are sealed
FileTurn: TypeAlias = archive.FileTurn
_LARGEST = 1 << 31
_NAMED = b'{"replica"'
AT_ONCE = 128  # files replaced together; needs so many locks and three times as many open files
_VERSION = 1  # of the cache, and of the rules that make files from facts
_MEND = "fix it with any text editor"


class DiskLog:
    """The log of one stream, on disk in a folder of the home."""

    def __init__(self, folder: Directory, replica: str = "") -> None:
        self._folder, self._first = folder, replica
        self.replica = ""
        self._names: set[str] = set()  # replica names under which this home made facts
        self._lines = LogLines()
        self._cache: Remembered | None = None
        self._encode, self._digest = 0, hashlib.blake2b()  # size and digest of the log on disk
        self._load()

    def read(self) -> Sequence[Logged]:
        """Return all facts of the log in the order in which they arrived."""
        return self._lines

    def append(self, facts: Iterable[SyncFact], *, own: bool) -> None:
        """Append facts to the log, as `own` if this home made them; they are on disk when this returns."""
        listed = [(render_line(fact, own=own), fact) for fact in facts]
        if listed:
            self._write(b"\n".join([line for line, _ in listed]))
        for line, fact in listed:
            self._lines.add(line, Logged(fact, own))

    def last(self) -> int:
        """Return the number of the last fact that this replica made; 0 without facts."""
        fact = self.tail().last().get(self.replica)
        return fact.n if fact is not None else 0

    def of_kind(self, kind: str) -> list[Logged]:
        """Return the log's facts of one kind, without parsing facts of other kinds."""
        wanted = f'"kind":"{kind}"'.encode()
        return [self._lines[at] for at in self._lines.holding(wanted) if wanted in self._lines.fact(at)]

    def tail(self) -> Tail:
        """Return an index of the log's facts."""
        return Tail(self._lines, self._cache or Remembered())

    def remembered(self) -> Remembered | None:
        """Return the last sync's cache; None if there is no cache that fits the beginning of the log."""
        return self._cache

    def remember(self, cache: Remembered) -> None:
        """Save the cache that this sync leaves for the next sync."""
        known = {"version": _VERSION, "bytes": self._encode, "digest": self._digest.hexdigest()}
        content = json.dumps({**known, **cache.render()}, separators=(",", ":")).encode()
        self._folder.update(BASE, lambda _: content, largest=_LARGEST)
        self._cache = cache

    def applied(self) -> int:
        """Return the number of lines of the log that the files show."""
        return int(self._state().get("applied") or 0)

    def applying(self) -> Collection[str]:
        """Return the paths of the files that an interrupted sync was writing."""
        return [str(each) for each in self._state().get("applying") or []]

    def begin(self, paths: Iterable[str]) -> None:
        """Note on disk which files are about to be written."""
        self._save({"applied": self.applied(), "applying": sorted(paths)})

    def finish(self, applied: int, left: Collection[str] = ()) -> None:
        """Note on disk how many lines of the log the files show; the files in `left` do not show them yet."""
        self._save({"applied": applied, "applying": sorted(left)})

    def is_own(self, fact: SyncFact) -> bool:
        """Return whether this home made a fact, under its current or an earlier replica name."""
        return fact.replica in self._names

    def former(self) -> set[str]:
        """Return the earlier replica names of this home."""
        found = set(self._names)
        for name in self._folder.names():
            if name.endswith(ASIDE):
                for line in (self._folder.read(name, largest=_LARGEST) or b"").split(b"\n")[:-1]:
                    with contextlib.suppress(ValueError, KeyError, TypeError):
                        found |= {str(json.loads(line)["replica"])} if line.startswith(_NAMED) else set()
        return found - {self.replica}

    def aside(self) -> Iterator[SyncFact]:
        """Yield the facts of replaced logs, as far as they can be read."""
        for name in self._folder.names():
            if name.endswith(ASIDE):
                for line in (self._folder.read(name, largest=_LARGEST) or b"").split(b"\n")[:-1]:
                    with contextlib.suppress(ValueError, Malformed):
                        yield _parse_line(line)

    def blank(self, fact_ids: Collection[FactId]) -> None:
        """Delete the content of these facts from the log and from replaced logs."""
        self._rewrite([LINES, *(each for each in self._folder.names() if each.endswith(ASIDE))], fact_ids)

    def withdraw(self, fact_ids: Collection[FactId]) -> None:
        """Replace these facts, which nobody else has received, by empty facts."""
        self._rewrite([LINES], fact_ids, lambda fact: fact if fact.purged else fact_rules.withdraw(fact))

    def seal_own(
        self,
        key: bytes,
        check: str,
        ends: StreamEnds,
        send: Callable[[Sequence[SyncFact]], None] = lambda facts: None,
    ) -> None:
        """Seal own facts again that were sealed with another key, and `send` the new seals.

        `check` is that of the key. Facts that `ends` covers keep their seals. After a crash the next call
        sends the seals again.
        """
        state = hub_rules.load(self._folder.read(SEALED))
        if state.get("check") == check:
            return
        changed = find_unsealed(self.read(), key, ends)
        if changed or state.get("sending") == check:
            self._folder.update(SEALED, lambda _: json.dumps({"sending": check}).encode())
            self._rewrite([LINES], changed, lambda fact: changed[fact.id])
            send([each.fact for each in self.read() if each.own and not covers(ends, each.fact)])
        self._folder.update(SEALED, lambda _: json.dumps({"check": check}).encode())

    def _rewrite(
        self,
        files: Iterable[str],
        fact_ids: Collection[FactId],
        change: Callable[[SyncFact], SyncFact] = fact_rules.blank,
    ) -> None:
        for name in files:
            content = self._folder.read(name, largest=_LARGEST)
            if content is None:
                continue
            lines = (_change_line(line, fact_ids, change) for line in content.split(b"\n")[:-1])
            rest = b"".join(line + b"\n" for line in lines if line is not None)
            if rest != content:
                self._folder.update(name, partial(_return_rest, rest), largest=_LARGEST)
        self._folder.delete(BASE)
        self._folder.sweep()
        self._lines, self._encode, self._digest = LogLines(), 0, hashlib.blake2b()
        self._load()

    def renew(self) -> None:
        """Take a new replica name, after a copy or a later state of this home has used the current name."""
        self._start_replica(names.new_mark(16))

    def _start_replica(self, replica: str) -> None:
        self.replica = replica
        self._names.add(replica)
        self._write(json.dumps({"replica": replica}).encode())

    def begin_anew(self) -> None:
        """Set the log aside and begin an empty log under a new replica name.

        The next sync compares the files with others' facts to find the texts that are new.
        """
        moment = names.new_mark(8)
        content = self._folder.read(LINES, largest=_LARGEST)
        if content is not None:
            self._folder.create(f"log.{moment}{ASIDE}", content)
            self._folder.delete(LINES)
        self._save({"applied": 0, "applying": []})
        self._lines.clear()
        self._names.clear()
        self._cache, self._encode, self._digest = None, 0, hashlib.blake2b()
        self.renew()

    def _load(self) -> None:
        content = self._folder.read(LINES, largest=_LARGEST) or b""
        whole = content.rfind(b"\n") + 1  # an incomplete line has no line end
        if whole < len(content):
            self._folder.update(LINES, lambda current: (current or b"")[:whole], largest=_LARGEST)
        try:
            for line in content[:whole].split(b"\n")[:-1]:
                if line.startswith(_NAMED):
                    self.replica = str(json.loads(line)["replica"])
                    self._names.add(self.replica)
                else:
                    self._lines.add(line)
            self._cache = self._read_cache(memoryview(content)[:whole])
            self._lines.proven = self._cache.lines if self._cache else 0
            for _ in self._lines[self._cache.lines if self._cache else 0 :]:
                pass  # a line outside the cache may be no fact
        except (ValueError, KeyError, TypeError, Malformed):
            self.begin_anew()
            return
        self._add_to_digest(memoryview(content)[self._encode : whole])
        if not self.replica:
            self._start_replica(self._first or names.new_mark(16))

    def _read_cache(self, content: memoryview) -> Remembered | None:
        """Return the cache if this version wrote it and it matches the beginning of the log, else None."""
        try:
            given = json.loads(self._folder.read(BASE, largest=_LARGEST) or b"null")
            size, cache = int(given["bytes"]), Remembered.parse(given)
        except (ValueError, TypeError, KeyError):
            return None
        digest = hashlib.blake2b(content[:size])
        if given.get("version") != _VERSION or size > len(content) or digest.hexdigest() != given["digest"]:
            return None
        self._encode, self._digest = size, digest
        return cache

    def _add_to_digest(self, content: bytes | memoryview) -> None:
        self._encode += len(content)
        self._digest.update(content)

    def _write(self, line: bytes) -> None:
        self._folder.append_line(LINES, line)
        self._add_to_digest(line + b"\n")

    def _state(self) -> dict[str, Any]:
        try:
            given = json.loads(self._folder.read(STATE) or b"{}")
        except ValueError:
            return {}
        return given if isinstance(given, dict) else {}

    def _save(self, state: dict[str, Any]) -> None:
        self._folder.update(STATE, lambda _: json.dumps(state).encode() + b"\n")


def _parse_line(line: bytes) -> SyncFact:
    return fact_rules.parse(line[line.index(b'"fact": ') + 8 : -1])


def _change_line(
    line: bytes, fact_ids: Collection[FactId], change: Callable[[SyncFact], SyncFact]
) -> bytes | None:
    """Return a log's line, changed if its fact is among `fact_ids`; None for an unreadable line."""
    if b'"fact": ' not in line:
        return line
    try:
        fact, own = _parse_line(line), json.loads(line)["own"] is True
    except (ValueError, KeyError, TypeError, Malformed):
        return None
    return render_line(change(fact), own=own) if fact.id in fact_ids else line


def _return_rest(rest: bytes, _: bytes | None) -> bytes:
    return rest


@dataclass(slots=True)
class HomeFiles:
    """The synced files of a place: records, journals and pinned documents."""

    home: Home
    scope_folder: ScopeFolder
    actor: str
    now: Callable[[], datetime]
    aside: tuple[str, ...] = ()  # the folder for texts that a person decides about
    findings: list[Finding] = field(default_factory=list)
    _held: set[str] = field(default_factory=set)

    def stamps(self) -> dict[str, tuple[int, ...]]:
        """Return a stamp of each file by path: size, times and inode.

        The stamp is empty for a file that was changed just now or is no regular file. Findings and held files
        of an earlier call are forgotten.
        """
        self.findings.clear()
        self._held.clear()
        settled = time.time_ns() - view.RACY
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
        self, paths: Collection[str] | None = None, digests: Mapping[str, str] = NO_DIGESTS
    ) -> dict[str, str]:
        """Return the texts of files by path; leave out and report files that cannot be synced.

        If `paths` is None, read all files. A text whose digest is in `digests` is not checked again.
        """
        if paths is None:
            paths = self.stamps()
        found: dict[str, str] = {}
        for kind, folder, _ in self._folders():
            with folder:
                for path in sorted(paths):
                    above, _, name = path.rpartition("/")
                    text = self._text(folder, name, path, digests.get(path)) if above == kind else None
                    if text is not None:
                        found[path] = text
        return found

    def held(self) -> Collection[str]:
        """Return the paths of the files that are left out of this sync."""
        return self._held

    def write(self, changes: Sequence[FileChange]) -> set[str]:
        """Write files in groups; return the paths of those that a person has saved meanwhile.

        Files that nobody has locked are written first, then the others after waiting for their locks.
        """
        left: set[str] = set()
        kinds: dict[str, list[FileChange]] = {}
        for each in changes:
            kinds.setdefault(each.path.rpartition("/")[0], []).append(each)
        for kind, listed in kinds.items():
            for first in range(0, len(listed), AT_ONCE):
                part = {self._lock(kind, _name_of(each)): each for each in listed[first : first + AT_ONCE]}
                with self.home.locks(part) as held:
                    left |= self._replace(kind, [each for thing, each in part.items() if thing in held])
                for thing in [each for each in part if each not in held]:
                    with self.home.lock(thing):
                        left |= self._replace(kind, [part[thing]])
        return left

    def _replace(self, kind: str, changes: Sequence[FileChange]) -> set[str]:
        """Replace files of one folder while their locks are held; return the paths of files left as they are.

        The state of the log names these files, so that after a crash the next sync does not take a
        half-written file for an edit.
        """
        folder_name = kind or filenames.PINNED
        turns = {
            _name_of(each): FileTurn(
                _name_of(each), _encode(each.before), _encode(each.after), _reason_of(each), self.now()
            )
            for each in changes
        }
        left = archive.replace_all(
            self.home,
            self.scope_folder,
            folder_name,
            [*turns.values()],
            log=lambda made: self._log(folder_name, made),
        )
        self._log_kept(folder_name, [each for each in left if each.staged])
        return {f"{kind}/{each.name}" if kind else each.name for each in left}

    def archive(self, path: str, text: str) -> None:
        """Save a text that no file shows to the archive."""
        kind, _, name = path.rpartition("/")
        where = (kind or filenames.PINNED, name or "unnamed.md")
        archive.keep(self.home, self.scope_folder, *where, text.encode(), why="conflict", at=self.now())

    def archived_automatically(self, texts: Mapping[str, str]) -> set[str]:
        """Return the paths of those missing files that an automatic sweep archived with exactly this text."""
        moved = runs.archived_automatically(self.home, self.scope_folder)
        return {
            path
            for path, text in texts.items()
            if (path.rpartition("/")[0], path.rpartition("/")[2], files.digest(text.encode())) in moved
        }

    def keep_replaced(self, earlier: str, change: FileChange) -> None:
        """Archive the text that a sync wrote to a file if it was replaced since and nothing else kept it.

        A text that a command replaces is archived then, and an entry that was saved here is in the log of
        entries. So this concerns an arrived text that a person replaced in the file itself. `earlier` is the
        path of the file when the sync wrote it.
        """
        kind, _, name = change.path.rpartition("/")
        before, after = _encode(change.before) or b"", _encode(change.after)
        if kind == filenames.JOURNAL or (after is not None and before.rstrip() in after):
            return  # a journal has no history, and a text that only grew is still there
        at = self.home, self.scope_folder, kind or filenames.PINNED
        names = dict.fromkeys((name, earlier.rpartition("/")[2], *history.earlier_names(after)))
        images = [image for each in names for image in archive.images(*at, each)]
        if any(image.mark == files.digest(before)[:8] for image in images):
            return
        known = _texts_of(kind, after)
        known |= {mark for each in names for _, mark in archive.states(*at, each)}
        gone = _texts_of(kind, before) - known
        for image in images if gone else ():
            gone -= _texts_of(kind, self.home.read(*image.parts))
        if gone:
            archive.keep(*at, name, before, why=archive.HAND, at=self.now())

    def purge(self, removed: Removed) -> None:
        """Delete purged content from the files, the archive and everything derived from them."""
        home = self.home
        for path in removed.paths:
            kind, _, name = path.rpartition("/")
            if kind == filenames.RECORDS:
                with home.lock(self._lock(kind, name)):
                    purging.record(home, self.scope_folder, name)
        if self.scope_folder.team:  # a team's purge reaches only the team's files
            self._purge_team(removed)
        else:
            if removed.entries:
                origins.delete_entries(home, removed.entries)
                list(purging.notices_of(home, [each.text for each in removed.entries]))
            for text in removed.texts:
                list(pending_writes.purge(home, text))
                purging.text(home, None, text)
        purging.derived(home)
        pending_writes.clear_answers(home)
        audit.write(
            home, at=self.now(), actor=self.actor, operation="purge", scope=self.scope_folder.place.scope
        )

    def _purge_team(self, removed: Removed) -> None:
        """Delete purged content from a team's files and from their archived versions."""
        for kind, folder, listed in self._folders():
            for name in listed(folder):
                path = f"{kind}/{name}" if kind else name
                text = _decode(folder.read(name))
                rest = removed.clean(path, text) if text is not None else None
                with self.home.lock(self._lock(kind, name)):
                    if text is not None and rest is None:
                        folder.delete(name)
                    elif rest != text:
                        folder.update(name, partial(_return_rest, (rest or "").encode()))
        for kind in (filenames.RECORDS, filenames.JOURNAL, filenames.PINNED):
            for name in archive.names(self.home, self.scope_folder, kind):
                for image in archive.images(self.home, self.scope_folder, kind, name):
                    old = (self.home.read(*image.parts) or b"").decode(errors="replace")
                    new = removed.clean(name if kind == filenames.PINNED else f"{kind}/{name}", old)
                    with self.home.folder(*image.parts[:-1]) as versions:
                        if new is None:
                            versions.delete(image.parts[-1])
                        elif new != old:
                            versions.update(image.parts[-1], partial(_return_rest, new.encode()))

    def set_aside(self, name: str, path: str, text: str) -> None:
        """Save a text until a person decides whether to keep it."""
        values = {
            "place": str(self.scope_folder.place),
            "path": path,
            "at": clock.stamp(self.now()),
            "text": text,
        }
        with self.home.folder(*self.aside, create=True) as folder:
            folder.update(f"{name}.json", lambda _: json.dumps(values, indent=1).encode() + b"\n")

    def _log(self, kind: str, turns: Sequence[FileTurn]) -> None:
        """Write the audit of changed files, and log which archived entries the files do not have any more."""
        audit.write_all(
            self.home,
            at=self.now(),
            actor=self.actor,
            operation="sync",
            scope=self.scope_folder.place.scope,
            changes=[_audit_change(each) for each in turns],
        )
        if kind == filenames.PINNED:
            return
        logged = set(archive.kept_names(self.home, self.scope_folder, kind))
        known = [each for each in turns if each.name in logged]
        archive.log_all_removed(
            self.home, self.scope_folder, kind, [_find_taken_entries(each) for each in known if each.before]
        )

    def _log_kept(self, kind: str, turns: Sequence[FileTurn]) -> None:
        """Log that files kept their texts, because a person saved them at the last moment."""
        if turns:
            back = [FileTurn(each.name, each.after, each.before, each.why, each.at) for each in turns]
            self._log(kind, back)
        for each in turns if kind != filenames.PINNED else ():
            entries, record = _entries_of(each.before)
            archive.log_returned(self.home, self.scope_folder, kind, each.name, entries, record=record)

    def _lock(self, kind: str, name: str) -> str:
        if kind == filenames.RECORDS:
            return f"record {self.scope_folder.name_of(kind, name)} in {self.scope_folder.top}"
        if kind == filenames.JOURNAL:
            return f"journal {self.scope_folder.name_of(kind, name)}"
        return f"pinned {self.scope_folder.name_of(name)} in {self.scope_folder.top}"

    def _folders(self) -> Iterator[tuple[str, Directory, Callable[[Directory], list[str]]]]:
        for kind, listed in self._listed():
            folder = self.scope_folder.open(*((kind,) if kind else ()))
            if folder is not None:
                yield kind, folder, listed

    def _listed(self) -> Iterator[tuple[str, Callable[[Directory], list[str]]]]:
        yield filenames.RECORDS, in_folder
        shared = self.scope_folder.shared  # journals and other pinned documents are not shared
        if self.scope_folder.place.scope.rule.journal and not shared:
            yield (
                filenames.JOURNAL,
                lambda folder: [name for name in folder.names() if filenames.is_day(name)],
            )
        pinned = [
            name for name in self.scope_folder.place.scope.rule.documents if not shared or name == CONTEXT
        ]
        yield "", lambda folder: [name for name in pinned if folder.stat(name) is not None]

    def _text(self, folder: Directory, name: str, path: str, digest: str | None) -> str | None:
        try:
            content = folder.read(name)
            if content is None:
                return None
            text = document.decode(content)
            if digest is not None and digest_text(text) == digest:
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
        if len(text) > fact_rules.LARGEST_DOCUMENT:
            self.hold(path, f"it has more than {fact_rules.LARGEST_DOCUMENT:,} characters", _MEND)
            return None
        return text

    def keep_notices(self, found: Iterable[FileNotice]) -> None:
        """Save notices about files until a person has seen them in `vade review`."""
        place, folder, at = str(self.scope_folder.place), self.scope_folder.label, clock.stamp(self.now())
        for each in found:
            notice = decisions.SyncNotice(each.what, place, folder, each.path, each.text, at)
            decisions.keep_sync_notice(self.home, notice)

    def hold(self, path: str, why: str, mend: str = "") -> None:
        """Leave a file out of this sync, and report the reason (`why`) and the remedy (`mend`)."""
        self._held.add(path)
        where = self.scope_folder.name_of(path)
        self.findings.append(Finding("not synced", where, why, mend))


def _find_taken_entries(turn: FileTurn) -> archive.RemovedEntries:
    """Return the entries that a file had before a change and does not have any more."""
    old, record = _entries_of(turn.before)
    left = {(each.time, each.text) for each in _entries_of(turn.after)[0]}
    gone = [each for each in old if (each.time, each.text) not in left]
    return archive.RemovedEntries(turn.name, record, gone)


def _entries_of(content: bytes | None) -> tuple[Sequence[Entry], str | None]:
    """Return the entries of a document, and the id of its record or None."""
    parsed = document.parse(document.decode(content or b""))
    record = parsed.front.values.get("id")
    return parsed.entries, str(record) if record else None


def _texts_of(kind: str, content: bytes | None) -> set[str]:
    """Return a mark of each entry of a file, and of a pinned document as a whole."""
    if not content:
        return set()
    if not kind:
        return {files.digest(content)}
    with contextlib.suppress(Malformed):
        return {archive.fingerprint(each) for each in _entries_of(content)[0]}
    return set()


def _audit_change(turn: FileTurn) -> audit.AuditChange:
    """Return the change of a file for the audit, with the writer of the new text if it has another one."""
    before, after = _front(turn.before), _front(turn.after)
    record = after.get("id") or before.get("id")
    made = after.get("generated")
    new = isinstance(made, dict) and made != before.get("generated")
    return audit.AuditChange(
        None if record is None else str(record), turn.before, turn.after, made if new else None
    )


def _front(content: bytes | None) -> Mapping[str, Any]:
    try:
        return frontmatter.parse(document.decode(content or b"")).values
    except Malformed:
        return {}


def _name_of(change: FileChange) -> str:
    return change.path.rpartition("/")[2]


def _reason_of(change: FileChange) -> str:
    return "forget" if change.after is None else "sync"


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _decode(content: bytes | None) -> str | None:
    return None if content is None else document.decode(content)
