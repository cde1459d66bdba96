"""The log of one session: events are appended, and only a purge ever changes a line.

This module knows lines and events, and not their meaning. Writers take turns by a lock that ends with its
holder's process, so that numbers have no gaps and a line that did not fit on the disk can be removed again.
Readers take no lock: they see whole lines, and report damaged lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, cast

from vademecum.errors import InvalidText, OutsideMemory
from vademecum.lazy import lazy_pattern
from vademecum.store import reported
from vademecum.text import clock, names, outgoing
from vademecum.transcripts import events as kinds
from vademecum.transcripts.events import (
    LARGEST,
    Event,
    TornLine,
    Usage,
    name_of,
    read_thread,
    start_of,
    usage_of,
)
from vademecum.transcripts.paths import ENDING, FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from vademecum.store import Home
    from vademecum.transcripts.messages import Json


_BLOCK = 64 * 1024
_HEAD = lazy_pattern(rb'\{"seq":\d+,"kind":"([a-z_]+)"(?:,"time":"([0-9TZ:.+-]+)")?')


class Raw(NamedTuple):
    """A line that is not parsed yet; `kind` and `time` are read from its beginning, and empty if not found
    there.
    """

    content: bytes  # the beginning only, if the line is too long
    number: int  # 1-based; 0 where the lines before it were not counted
    start: int
    end: int  # offset behind the line end
    ended: bool = True  # whether the line end is there; without it a writer may still be writing
    kind: str = ""
    time: str = ""

    def read(self) -> Event | TornLine:
        """Return the event on this line."""
        size = self.end - self.start
        if len(self.content) < size:
            return TornLine(f"longer than {LARGEST:,} bytes", size)
        return kinds.parse(self.content.removesuffix(b"\n"))


class Line(NamedTuple):
    """An event, or a damaged line, and its position in the log."""

    event: Event | TornLine
    number: int
    start: int
    end: int


class _Draft(NamedTuple):
    """An event that is ready to be written except that its number is still missing."""

    kind: str
    fields: dict[str, Json]
    line: bytes


class LogWriter(Protocol):
    """Writes to a log while its lock is held."""

    def end(self) -> int:
        """Return the offset at which the log ends."""

    def write(self, line: bytes, *, sync: bool) -> int:
        """Append a line; return the offset at which the log then ends."""


class LogStorage(Protocol):
    """The place that holds a log's lines."""

    @property
    def path(self) -> str:
        """The path shown to users; empty when no other process can read the log."""

    def lock(self) -> AbstractContextManager[LogWriter]:
        """Lock the log against all other writers."""

    def open(self) -> BinaryIO | None:
        """Open the log for reading; None when it does not exist yet."""


class Log:
    """The events of one session."""

    def __init__(self, session: str, storage: LogStorage, *, now: Callable[[], datetime] = clock.now) -> None:
        self.session = session
        self._storage = storage
        self._now = now
        # the offset at which the log ended after our own last line, and the number of that line
        self._last = (0, 0)

    @property
    def path(self) -> str:
        """The file, relative to the home; empty for a log that is kept in memory only."""
        return self._storage.path

    # ---------------------------------------------------------------- writing

    def append(self, event: Event, *, sync: bool = False) -> Event:
        """Append an event, and return it as stored: with number, time and id, and with secrets replaced.

        With `sync`, this event and all before it survive a power cut; without, they survive the end of this
        process.
        """
        return self.append_all([event], sync=sync)[0]

    def append_all(self, events: Sequence[Event], *, sync: bool = False) -> list[Event]:
        """Append events under one lock, with one write each, and return them as stored.

        With `sync`, all of them survive a power cut.
        """
        drafts = [self._draft(event) for event in events]
        seqs = self._write(drafts, sync=sync) if drafts else []
        return [_stored_event(*each) for each in zip(events, drafts, seqs, strict=True)]

    def extend(self, events: Iterable[Event], *, sync: bool = False) -> int:
        """Append any number of events under one lock, each as it comes; return how many.

        With `sync`, all of them survive a power cut.
        """
        return len(self._write(events, sync=sync))

    def _write(self, events: Iterable[Event | _Draft], *, sync: bool) -> list[int]:
        seqs: list[int] = []
        with reported(f"write the transcript {self.path}"), self._storage.lock() as writer:
            pending = None
            for event in events:
                if pending is not None:
                    seqs.append(self._add(writer, pending, sync=False))
                pending = self._draft(event) if isinstance(event, Event) else event
            if pending is not None:
                seqs.append(self._add(writer, pending, sync=sync))
        return seqs

    def _draft(self, event: Event) -> _Draft:
        """Return an event with time and id and without secrets, ready to be written except for its number."""
        try:
            given = kinds.to_json(event)
            if not (event.time and event.id):
                envelope = {
                    "seq": 0,
                    "kind": given["kind"],
                    "time": event.time or clock.stamp(self._now()),
                    "id": event.id or names.new_id(),
                }
                given = {**envelope, **given, **envelope}
            del given["seq"]
            fields, line = _clean_line(given)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidText(f"a {event.kind} event cannot be written as JSON: {error}") from error
        return _Draft(event.kind, fields, line)

    def _add(self, writer: LogWriter, draft: _Draft, *, sync: bool) -> int:
        end = writer.end()
        seq = (self._last[1] if self._last[0] == end else self._last_number()) + 1
        line = b'{"seq":%d,%b' % (seq, draft.line[1:])
        if len(line) > LARGEST:
            raise InvalidText(
                f"a {draft.kind} event is {len(line):,} bytes long; at most {LARGEST:,} are kept in one line"
            )
        self._last = writer.write(line, sync=sync), seq
        return seq

    def _last_number(self) -> int:
        """Return the number of the last event that can be read."""
        count = 1
        while True:
            found = self.tail(count)
            number = max((line.event.seq for line in found if isinstance(line.event, Event)), default=0)
            if number or len(found) < count:
                return number
            count *= 8

    # ---------------------------------------------------------------- reading

    def thread(self) -> list[kinds.MessageEvent]:
        """Return every message that was not taken back, including those that left the window, without
        secrets.
        """
        return [cast("kinds.MessageEvent", clean_event(each)) for each in read_thread(self.events())]

    def take_back(self, messages: Iterable[kinds.MessageEvent], *, sync: bool = False) -> None:
        """Take messages out of the thread; the log keeps them and records that they were taken back."""
        gone = tuple(each.id or f"#{each.seq}" for each in messages)
        if gone:
            self.append(kinds.Trimmed(ids=gone, why=kinds.TAKEN_BACK), sync=sync)

    def title(self) -> str:
        """Return the session's name; empty while it has none."""
        return name_of(self.events())

    def created(self) -> str:
        """Return the time at which the session began; empty when unknown."""
        found = start_of(self.events())
        return found.created if found else ""

    def usage(self) -> Usage:
        """Return the tokens and cost of the session."""
        return usage_of(self.events())

    def copy_in_memory(self) -> Log:
        """Return a copy of the log that is in memory only: events appended to it are not written to disk."""
        storage = MemoryLog()
        with storage.lock() as writer:
            for raw in self.raw():
                writer.write(raw.content.removesuffix(b"\n"), sync=False)
        return Log(self.session, storage)

    def events(self) -> Iterator[Event | TornLine]:
        """Yield all events in order, one at a time, however long the log is."""
        for line in self.lines():
            yield line.event

    def lines(self, start: int = 0, number: int = 1) -> Iterator[Line]:
        """Yield all events with their positions, from an offset on; `number` is the number of
        the line there.
        """
        for raw in self.raw(start, number):
            yield Line(raw.read(), raw.number, raw.start, raw.end)

    def follow(self, start: int = 0, number: int = 1) -> Iterator[Line]:
        """Yield the complete lines from an offset on, without waiting for more.

        `number` is that of the first line. To continue later, start at the `end` of the last line.
        """
        for raw in self.raw(start, number):
            if raw.ended:
                yield Line(raw.read(), raw.number, raw.start, raw.end)

    def tail(self, count: int) -> list[Line]:
        """Return the last `count` lines without reading the whole log; their `number` is 0 (not counted)."""
        wanted = count
        while True:
            with reported(f"read the transcript {self.path}"):
                start = self._start_of_last(wanted)
            found = [line._replace(number=0) for line in self.lines(start)]
            if len(found) >= count or start == 0:
                return found[len(found) - min(count, len(found)) :]
            wanted *= 2  # some of these lines were blank

    def raw(self, start: int = 0, number: int = 1) -> Iterator[Raw]:
        """Yield the lines from an offset on unparsed, without blank lines.

        `number` is that of the first line. A caller who wants a few kinds of events parses only those.
        """
        with reported(f"read the transcript {self.path}"):
            file = self._storage.open()
            if file is None:
                return
            with file:
                file.seek(start)
                yield from _read_raw_lines(file, start, number)

    def size(self) -> int:
        """Return the size of the log in bytes."""
        with reported(f"read the transcript {self.path}"):
            file = self._storage.open()
            if file is None:
                return 0
            with file:
                return file.seek(0, 2)

    def _start_of_last(self, count: int) -> int:
        """Return the offset of the last `count` lines, with at most one block in memory."""
        file = self._storage.open()
        if file is None or count < 1:
            return 0
        with file:
            at = size = file.seek(0, os.SEEK_END)
            while at > 0:
                begin = max(0, at - _BLOCK)
                file.seek(begin)
                block = file.read(at - begin)
                if at == size and block.endswith(b"\n"):
                    block = block[:-1]
                position = len(block)
                while (position := block.rfind(b"\n", 0, position)) >= 0:
                    count -= 1
                    if count == 0:
                        return begin + position + 1
                at = begin
        return 0


def _stored_event(event: Event, draft: _Draft, seq: int) -> Event:
    event = replace(event, seq=seq, time=draft.fields["time"], id=draft.fields["id"])
    fields = {**draft.fields, "seq": seq}
    return event if fields == kinds.to_json(event) else kinds.from_json(fields)


def _read_raw_lines(file: BinaryIO, start: int, number: int) -> Iterator[Raw]:
    while content := file.readline(LARGEST + 1):
        end, ended = start + len(content), content.endswith(b"\n")
        if not ended and len(content) > LARGEST:
            content = content[:_BLOCK]
            while not ended and (rest := file.readline(_BLOCK)):
                end, ended = end + len(rest), rest.endswith(b"\n")
        if not content.isspace():
            head = _HEAD.match(content)
            kind, time = head.groups(b"") if head else (b"", b"")
            yield Raw(content, number, start, end, ended, kind.decode(), time.decode())
        if not ended:  # the end as read here: bytes appended meanwhile belong to this line
            return
        start, number = end, number + 1


# -------------------------------------------------------------------- storage


class LogFile:
    """A log in the home, `transcripts/<project>/<session>.jsonl`: readable by its owner only, never behind a
    link.
    """

    def __init__(self, home: Home, project: str, session: str) -> None:
        self._home = home
        self._folder = (FOLDER, names.check_id(project, "a project"))
        self._name = f"{names.check_id(session, 'a session')}{ENDING}"

    @property
    def path(self) -> str:
        """The path relative to the home."""
        return "/".join((*self._folder, self._name))

    @contextlib.contextmanager
    def lock(self) -> Iterator[LogWriter]:
        """Lock the log against all other writers, and against a purge of the file."""
        with (
            self._home.lock(f"transcript {self.path}"),
            self._home.folder(*self._folder, create=True) as folder,
        ):
            writer = folder.pen(self._name)
            try:
                yield writer
            finally:
                writer.close()

    def open(self) -> BinaryIO | None:
        """Open the file for reading; None when it does not exist."""
        try:
            with self._home.folder(*self._folder) as folder:
                return folder.reader(self._name)
        except FileNotFoundError:
            return None
        except NotADirectoryError as error:
            raise OutsideMemory(f"{'/'.join(self._folder)} is not a folder") from error


class MemoryLog:
    """A log in memory that leaves nothing on disk."""

    path = ""

    def __init__(self) -> None:
        self._content = bytearray()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lock(self) -> Iterator[LogWriter]:
        """Lock the log against the other threads of this process."""
        with self._lock:
            yield self

    def open(self) -> BinaryIO | None:
        """Open the content written so far."""
        return io.BytesIO(bytes(self._content))

    def end(self) -> int:
        """Return the offset at which the log ends."""
        return len(self._content)

    def write(self, line: bytes, *, sync: bool) -> int:
        """Append a line."""
        self._content += line + b"\n"
        return len(self._content)


# -------------------------------------------------------------------- secrets


def clean_event(event: Event) -> Event:
    """Return an event with secrets redacted; a line that was written by hand may contain secrets."""
    fields = kinds.to_json(event)
    cleaned = outgoing.clean_value(fields)
    return event if cleaned == fields else kinds.from_json(cleaned)


def _clean_line(value: dict[str, Json]) -> tuple[dict[str, Json], bytes]:
    """Return an object with its secrets redacted, and its line; raise for values that JSON does not have."""
    text = outgoing.dumped(value)
    clues = outgoing.clues_of(text)
    fields = outgoing.clean_within(value, clues) if any(clues) else value
    if text and fields == value:
        with contextlib.suppress(UnicodeEncodeError):
            return fields, text.encode()
    return fields, kinds.encode(fields)
