"""Writer and checker of the audit: one line for each change, chained by hashes.

A line says when, who, what and to which record, never the text or the key. A changed or missing line breaks
the chain. The file `head` names the newest line: when the end of the log is cut off, the log is behind the
head, and since the next line continues from the head, the gap stays visible. The head is written after its
line, so after a crash the log may be one line ahead of the head, which is no alarm.

Days that the user no longer keeps are deleted from the beginning: the file `start` says where the chain
continues, and a line in the rest says that days were cut. A missing beginning without that line is an alarm.

A file outside of the audit's folder notes that there is an audit. So a deletion of the whole folder is
noticed, and the first line of the new chain tells of it.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.store import files
from vademecum.store.home import AUDIT_STARTED as STARTED
from vademecum.text import clock
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.store.backend import Directory
    from vademecum.store.home import Home
    from vademecum.store.workspace import Workspace
    from vademecum.types import Scope

HEAD = "head"
START = "start"
CUT = "cut"
LOST = "lost"
_HEAD_SIZE = 128
_TAIL = 16 * 1024  # several times the longest line
_GENESIS = "0" * 64
_DAY = lazy_pattern(r"\d{4}-\d\d-\d\d\.jsonl")
NUMBERS = "last-number"
_NOTHING = {"scope": None, "record": None, "num": None, "before": None, "after": None}
_UUID = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Report(NamedTuple):
    """The result of `verify`: the number of lines, and the problems."""

    lines: int
    problems: tuple[Finding, ...]


class AuditChange(NamedTuple):
    """A change of one file: its record, if it is one, the content before and after, and who made the text.

    `made` is the field `generated` of a text that somebody wrote on another machine.
    """

    record: str | None
    before: bytes | None = None
    after: bytes | None = None
    made: Mapping[str, Any] | None = None


def write(
    home: Home,
    *,
    at: datetime,
    actor: str,
    operation: str,
    client: str = "",
    run: str = "",
    scope: Scope | None = None,
    record: str | None = None,
    num: int | None = None,
    since: datetime | None = None,
    before: bytes | None = None,
    after: bytes | None = None,
) -> None:
    """Append a line for one change and update the head.

    `run` is the run to which the change belongs; `since` is the time at which the text before it was saved.
    """
    line: dict[str, Any] = {
        "at": clock.stamp(at),
        "actor": actor,
        **({"client": client} if client else {}),
        "op": operation,
        **({"run": run} if run else {}),
        "scope": None if scope is None else str(scope),
        "record": _named(record),
        "num": num,
        **({"since": clock.stamp(since)} if since is not None else {}),
    }
    _write(home, at, [{**line, **_digests(before, after)}])


def write_all(
    home: Home,
    *,
    at: datetime,
    actor: str,
    operation: str,
    scope: Scope | None,
    changes: Iterable[AuditChange],
) -> None:
    """Append a line for each of many changes to the audit with a single sync, and update the head."""
    fields = {"at": clock.stamp(at), "actor": actor, "op": operation}
    line = {**fields, "scope": None if scope is None else str(scope)}
    lines: list[dict[str, Any]] = [
        {
            **line,
            "record": _named(each.record),
            "num": None,
            **({"made": dict(each.made)} if each.made else {}),
            **_digests(each.before, each.after),
        }
        for each in changes
    ]
    if lines:
        _write(home, at, lines)


def _named(record: str | None) -> str | None:
    """Return a record's id, but no id of a person's own making, which may say what the record is about."""
    return record if record is not None and _UUID.fullmatch(record) else None


def _digests(before: bytes | None, after: bytes | None) -> dict[str, str | None]:
    return {
        "before": None if before is None else files.digest(before),
        "after": None if after is None else files.digest(after),
    }


def _write(home: Home, at: datetime, lines: list[dict[str, Any]]) -> None:
    with home.lock("audit"), home.folder("audit", create=True) as folder:
        logs = _logs(folder)
        head = _parse_head(folder.read(HEAD))
        lost = False
        if head is None and not logs:  # before the first line, so that a missing head is always an alarm
            lost = home.read(STARTED) is not None
            head = 0, _GENESIS
            folder.update(HEAD, lambda _: _head_block(0, _GENESIS))
        _note_start(home, at, lost=lost)
        if lost:
            lines = [{**lines[0], "op": LOST, **_NOTHING}, *lines]
        _append(folder, lines, head, day=f"{at:%Y-%m-%d}")


def _append(
    folder: Directory, lines: Iterable[dict[str, Any]], head: tuple[int, str] | None, *, day: str
) -> None:
    """Append lines to the day's log, or to a newer one if there is any; update the head unless it is None."""
    seq, last = _last(folder, head)
    rendered = []
    for each in lines:
        seq += 1
        line = {"seq": seq, **each, "prev": last}
        line["hash"] = last = _hash(line)
        rendered.append(json.dumps(line, separators=(",", ":")).encode())
    # A day's file never goes back in time, even if the clock does: the chain follows the file names.
    name = max([f"{day}.jsonl", *_logs(folder)[-1:]])
    folder.append_line(name, b"\n".join(rendered))
    if head is not None:  # a lost one stays lost: a new one would vouch for whatever is there now
        folder.overwrite(HEAD, _head_block(seq, last))


def _note_start(home: Home, at: datetime, *, lost: bool) -> None:
    """Note outside of the audit's folder that an audit exists or, with `lost`, that it was found deleted."""
    with home.folder() as top:
        if lost or top.stat(STARTED) is None:
            line = f"{LOST if lost else 'begun'} {clock.stamp(at)}\n".encode()
            top.update(STARTED, lambda now: (now or b"") + line)


def missing(home: Home) -> Finding | None:
    """Return a finding if the whole audit was deleted, now or earlier; else None."""
    here = bool(_log_names(home)) or home.read("audit", HEAD) is not None
    words = (home.read(STARTED) or b"").decode(errors="replace").split()
    # Without that file too: a first write that was cut off has given one number at most.
    if not here and (words or numbers_given(home) > 1):
        why = "the audit log is missing: earlier changes are no longer recorded"
        return Finding("audit", "audit", why, "restore it from a backup if you have one", "error")
    if LOST in words:
        when = words[len(words) - words[::-1].index(LOST)][:10]
        why = f"the audit log was deleted before {when}; earlier changes are no longer recorded"
        return Finding("audit", "audit", why, f"delete {STARTED} in the home once you know why", "warning")
    return None


def numbers_given(home: Home) -> int:
    """Return how many numbers were ever given to records of this home."""
    content = (home.read(NUMBERS) or b"").strip()
    return int(content) if content.isdigit() and len(content) < 10 else 0


def lines(home: Home) -> Iterator[dict[str, Any]]:
    """Yield all readable lines of the audit, oldest first."""
    for name in _log_names(home):
        for _, line in parsed(home.lines("audit", name)):
            if line is not None:
                yield line


def raw_lines(home: Home) -> Iterator[bytes]:
    """Yield all lines of the audit without parsing them, oldest first."""
    for name in _log_names(home):
        yield from home.lines("audit", name)


_RECORD = lazy_pattern(rb'"record":"([^"]+)"')
_AFTER = lazy_pattern(rb'"after":"([0-9a-f]{64})"')
_known: dict[str, tuple[bytes | None, frozenset[bytes], frozenset[bytes]]] = {}  # by home: head, ids, hashes


def is_changed_by_hand(home: Home, record: str, content: bytes) -> bool:
    """Return whether a text was made by hand: the audit names the record, but not this text of it."""
    head, at = home.read("audit", HEAD), str(home.path)
    known = _known.get(at)
    if known is None or head is None or known[0] != head:
        ids: set[bytes] = set()
        hashes: set[bytes] = set()
        for raw in raw_lines(home):
            ids.update(_RECORD.findall(raw))
            hashes.update(_AFTER.findall(raw))
        known = head, frozenset(ids), frozenset(hashes)
        _known.clear()  # another thread may do so at any time
        _known[at] = known
    _, named, seen = known
    return record.encode() in named and files.digest(content).encode() not in seen


def days_before(home: Home, before: datetime) -> list[str]:
    """Return the names of the daily logs from before a moment, without the newest log of all."""
    day = clock.stamp(before)[:10]
    return [name for name in _log_names(home)[:-1] if _DAY.fullmatch(name) and name[:10] < day]


def cut(home: Home, before: datetime, *, at: datetime, actor: str) -> list[str]:
    """Delete the daily logs from before a moment, and return their names; the rest still verifies.

    The newest log of all is never deleted.
    """
    with home.lock("audit"):
        gone = days_before(home, before)
        end = _parse_head(home.read("audit", START)) or (0, _GENESIS)
        for name in gone:
            for _, line in parsed(home.lines("audit", name)):
                if line is not None and _number(line.get("seq"), 0) > end[0]:
                    end = _number(line.get("seq"), 0), str(line.get("hash"))
    if not gone:
        return []
    # The line first: until `start` says otherwise, the whole chain is looked at. Then the days, oldest first.
    write(home, at=at, actor=actor, operation=CUT, before=_vouched(*end))
    with home.lock("audit"), home.folder("audit") as folder:
        folder.update(START, lambda _: _head_block(*end))
        for name in gone:
            folder.delete(name)
    return gone


def verify(home: Home) -> Report:
    """Check the chain of hashes from the first line to the last, and compare the last line with the head."""
    gone = missing(home)
    problems: list[Finding] = [gone._replace(severity="error")] if gone else []
    start = _parse_head(home.read("audit", START))
    seq, last = start or (0, _GENESIS)
    seen: dict[int, str] = {} if start is None else {start[0]: start[1]}
    vouched = start is None
    for name in _log_names(home):
        for number, line in parsed(home.lines("audit", name)):
            if line is None:
                continue  # a stump of a crash, or a line made unreadable: then the next one breaks the chain
            if start is not None:
                if seq == start[0] and 0 < _number(line.get("seq"), 0) <= start[0]:
                    continue  # cut off already, and the killed cutter has not come to delete it
                digest = files.digest(_vouched(*start))
                vouched = vouched or (line.get("op") == CUT and line.get("before") == digest)
            where = f"audit/{name}#L{number}"
            problem = _problem(line, seq, last)
            if line.get("op") == LOST and not gone:
                problem = problem or "the audit before this line was deleted"
            if problem:
                problems.append(Finding("audit", where, problem, severity="error"))
            seq, last = _number(line.get("seq"), seq + 1), str(line.get("hash"))
            seen[seq] = last
    if not vouched:
        why = "the beginning of the chain was cut off without a record"
        problems.append(Finding("audit", f"audit/{START}", why, severity="error"))
    problems.extend(_against_head(home, seq, seen))
    return Report(len(seen) - (start is not None), tuple(problems))


def _vouched(seq: int, last: str) -> bytes:
    """Return number and hash of the last deleted line as bytes; the line about the cut has their digest."""
    return f"{seq} {last}".encode()


def _problem(line: dict[str, Any], seq: int, last: str) -> str:
    if line.get("hash") != _hash(line):
        return "this line was changed"
    if line.get("seq") != seq + 1:
        return f"line {seq + 1} of the chain is missing here"
    return "" if line.get("prev") == last else "the line before this one was changed or replaced"


def _against_head(home: Home, seq: int, seen: dict[int, str]) -> Iterator[Finding]:
    head = _parse_head(home.read("audit", HEAD))
    if head is None:
        if seen:
            yield Finding("audit", f"audit/{HEAD}", "the head of the chain is missing", severity="error")
        return
    if head[0] > seq:
        why = f"the chain ends at line {seq}, but {head[0]} were written: its end was cut off"
        yield Finding("audit", f"audit/{HEAD}", why, severity="error")
    elif seen.get(head[0], _GENESIS if head[0] == 0 else None) != head[1]:
        yield Finding("audit", f"audit/{HEAD}", f"line {head[0]} is not the one written", severity="error")


def _last(folder: Directory, head: tuple[int, str] | None) -> tuple[int, str]:
    """Return number and hash of the line that the next line continues: the newest log's last, or the head.

    If the head is ahead of the log, or its hash is not that of its line in the log, the next line continues
    the head, so that `verify` finds the break. A head behind the log is normal after a crash.
    """
    seq, last = 0, _GENESIS
    tail: list[dict[str, Any]] = []
    for name in reversed(_logs(folder)):
        tail = [line for line in _tail(folder, name) if line is not None]
        if tail:
            seq, last = _number(tail[-1].get("seq"), 0), str(tail[-1].get("hash"))
            break
    if head is None:
        return seq, last
    # A head further back than the tail is what a power cut leaves, which may take moves of the head back.
    replaced = any(line.get("seq") == head[0] and line.get("hash") != head[1] for line in tail)
    return (max(seq, head[0]), head[1]) if replaced or head[0] > seq else (seq, last)


def _tail(folder: Directory, name: str) -> list[dict[str, Any] | None]:
    """Return the last lines of a log, with None for an unreadable line.

    At least one of them is readable, unless the whole log is unreadable.
    """
    with folder.reader(name) as log:
        size, length = log.seek(0, os.SEEK_END), _TAIL
        while True:
            log.seek(max(0, size - length))
            found = [line for _, line in parsed(log.read(length).split(b"\n"))]
            if any(found) or length >= size:
                return found
            length *= 8


def parsed(raw_lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the lines of an audit file with their numbers, and None for an unreadable line."""
    for number, raw in enumerate(raw_lines, 1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
        except ValueError:
            line = None
        yield number, line if isinstance(line, dict) and "seq" in line else None


def _log_names(home: Home) -> list[str]:
    return [name for name in home.names("audit") if name.endswith(".jsonl")]


def _logs(folder: Directory) -> list[str]:
    return [name for name in folder.names() if name.endswith(".jsonl")]


def _hash(line: dict[str, Any]) -> str:
    inner = {key: value for key, value in line.items() if key != "hash"}
    return hashlib.sha256(json.dumps(inner, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _head_block(seq: int, last: str) -> bytes:
    return json.dumps({"seq": seq, "hash": last}).encode().ljust(_HEAD_SIZE - 1) + b"\n"


def _parse_head(content: bytes | None) -> tuple[int, str] | None:
    try:
        head = json.loads(content or b"null")
        return (int(head["seq"]), str(head["hash"])) if head else None
    except (ValueError, KeyError, TypeError):
        return None


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


class AuditLog:
    """The audit, as `Memory` offers it."""

    def __init__(self, workspace: Workspace) -> None:
        self._work = workspace

    def lines(self) -> Sequence[dict[str, Any]]:
        """Return the lines of the audit, oldest first."""
        self._work.not_in_group("read the audit")
        return [] if self._work.settings.incognito else list(lines(self._work.home))

    def days(self) -> Mapping[str, int]:
        """Return the number of changes on each day, by date; the lines are counted without being parsed."""
        self._work.not_in_group("read the audit")
        home = self._work.home
        names = [] if self._work.settings.incognito else _log_names(home)
        return {
            name[:10]: sum(1 for _ in home.lines("audit", name)) for name in names if _DAY.fullmatch(name)
        }

    def day(self, date: str) -> Sequence[dict[str, Any]]:
        """Return the audit's lines of one day, oldest first."""
        self._work.not_in_group("read the audit")
        home, name = self._work.home, f"{date}.jsonl"
        if self._work.settings.incognito or not _DAY.fullmatch(name) or name not in _log_names(home):
            return []
        return [line for _, line in parsed(home.lines("audit", name)) if line is not None]

    def verify(self) -> Report:
        """Check the audit for edited lines, deleted lines and a cut-off end."""
        return Report(0, ()) if self._work.settings.incognito else verify(self._work.home)
