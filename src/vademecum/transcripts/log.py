"""The log of one session: lines are added at its end, and nothing but a purge ever changes one.

Knows lines and events; knows nothing of what follows from them. Writers take turns by a lock that dies with
its holder, so that numbers are dense and a line that did not fit on the disk can be taken back. Readers take
no lock: they see whole lines, and say where a line is torn.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, cast

from vademecum.errors import InvalidText, OutsideMemory
from vademecum.store import files
from vademecum.text import clock, names, outgoing
from vademecum.transcripts import events as kinds
from vademecum.transcripts.events import LARGEST, Event, Torn, Usage, name_of, read_thread, start_of, usage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from vademecum.store import Home
    from vademecum.transcripts import Json

FOLDER = "transcripts"
ENDING = ".jsonl"

_BLOCK = 64 * 1024
_HEAD = re.compile(rb'\{"seq":\d+,"kind":"([a-z_]+)"(?:,"time":"([0-9TZ:.+-]+)")?')


class Raw(NamedTuple):
    """A line before it is read; kind and time are what its beginning says, and empty when it does not."""

    content: bytes  # without the rest of a line that is too long
    number: int  # 1-based; 0 where the lines before it were not counted
    start: int
    end: int  # behind its line end
    ended: bool = True  # whether the line end is there; without it a writer may still be at work
    kind: str = ""
    time: str = ""

    def read(self) -> Event | Torn:
        """The event on this line."""
        size = self.end - self.start
        if len(self.content) < size:
            return Torn(f"longer than {LARGEST:,} bytes", size)
        return kinds.parse(self.content.removesuffix(b"\n"))


class Line(NamedTuple):
    """An event, and where it stands."""

    event: Event | Torn
    number: int
    start: int
    end: int


class _Draft(NamedTuple):
    """An event that is ready to be written, but for its number."""

    kind: str
    fields: dict[str, Json]
    line: bytes


class Pen(Protocol):
    """What a log is written with, while it is held."""

    def end(self) -> int:
        """Where the log ends now."""

    def write(self, line: bytes, *, sync: bool) -> int:
        """Add a line; returns where the log ends then."""


class Paper(Protocol):
    """What a log is written on."""

    @property
    def path(self) -> str:
        """How it is shown and asked for; empty when nobody else can read it."""

    def held(self) -> AbstractContextManager[Pen]:
        """Hold it among all writers."""

    def opened(self) -> BinaryIO | None:
        """Open it for reading; None when there is nothing yet."""


class Log:
    """The events of one session."""

    def __init__(self, session: str, paper: Paper, *, now: Callable[[], datetime] = clock.now) -> None:
        self.session = session
        self._paper = paper
        self._now = now
        self._last = (0, 0)  # where the log ended after our own last line, and that line's number

    @property
    def path(self) -> str:
        """The file, relative to the home; empty for a log that is kept in memory only."""
        return self._paper.path

    # ---------------------------------------------------------------- writing

    def append(self, event: Event, *, sync: bool = False) -> Event:
        """Add an event, and return it as it is kept: numbered, timed, and with secrets replaced.

        With `sync` it and all before it survive a power cut; without, they survive the end of this process.
        """
        return self.append_all([event], sync=sync)[0]

    def append_all(self, events: Sequence[Event], *, sync: bool = False) -> list[Event]:
        """Add events under one lock, one write each, and return them as they are kept. Synced at the end."""
        drafts = [self._drafted(event) for event in events]
        seqs = self._write(drafts, sync=sync) if drafts else []
        return [_as_kept(*each) for each in zip(events, drafts, seqs, strict=True)]

    def extend(self, events: Iterable[Event], *, sync: bool = False) -> int:
        """Add however many events under one lock, each as it comes; returns how many. Synced at the end."""
        return len(self._write(events, sync=sync))

    def _write(self, events: Iterable[Event | _Draft], *, sync: bool) -> list[int]:
        seqs: list[int] = []
        with files.reported(f"write the transcript {self.path}"), self._paper.held() as pen:
            waiting = None
            for event in events:
                if waiting is not None:
                    seqs.append(self._add(pen, waiting, sync=False))
                waiting = self._drafted(event) if isinstance(event, Event) else event
            if waiting is not None:
                seqs.append(self._add(pen, waiting, sync=sync))
        return seqs

    def _drafted(self, event: Event) -> _Draft:
        """An event with its time and id and without secrets: all that needs no lock."""
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
            fields, line = _cleaned_line(given)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidText(f"a {event.kind} event cannot be written as JSON: {error}") from error
        return _Draft(event.kind, fields, line)

    def _add(self, pen: Pen, draft: _Draft, *, sync: bool) -> int:
        end = pen.end()
        seq = (self._last[1] if self._last[0] == end else self._last_number()) + 1
        line = b'{"seq":%d,%b' % (seq, draft.line[1:])
        if len(line) > LARGEST:
            raise InvalidText(
                f"a {draft.kind} event is {len(line):,} bytes long; at most {LARGEST:,} are kept in one line"
            )
        self._last = pen.write(line, sync=sync), seq
        return seq

    def _last_number(self) -> int:
        """The number of the last event that can be read."""
        count = 1
        while True:
            found = self.tail(count)
            number = max((line.event.seq for line in found if isinstance(line.event, Event)), default=0)
            if number or len(found) < count:
                return number
            count *= 8

    # ---------------------------------------------------------------- reading

    def thread(self) -> list[kinds.Said]:
        """All that was said and not taken back, whatever has left the window since; without secrets."""
        return [cast("kinds.Said", clean_event(each)) for each in read_thread(self.events())]

    def take_back(self, said: Iterable[kinds.Said], *, sync: bool = False) -> None:
        """Take messages out of the thread; the log keeps them, and that they were taken back."""
        gone = tuple(each.id or f"#{each.seq}" for each in said)
        if gone:
            self.append(kinds.Trimmed(ids=gone, why=kinds.TAKEN_BACK), sync=sync)

    def title(self) -> str:
        """What the session is called; empty while it has no name."""
        return name_of(self.events())

    def begun(self) -> str:
        """When the session began; empty when nothing says."""
        found = start_of(self.events())
        return found.created if found else ""

    def usage(self) -> Usage:
        """What the session has used up."""
        return usage_of(self.events())

    def copy_in_memory(self) -> Log:
        """The same log, line by line, where what is added to it leaves nothing behind."""
        paper = InMemory()
        with paper.held() as pen:
            for raw in self.raw():
                pen.write(raw.content.removesuffix(b"\n"), sync=False)
        return Log(self.session, paper)

    def events(self) -> Iterator[Event | Torn]:
        """All events in order, one at a time however long the log is."""
        for line in self.lines():
            yield line.event

    def lines(self, start: int = 0, number: int = 1) -> Iterator[Line]:
        """All events with their places, from an offset on; `number` is that of the line there."""
        for raw in self.raw(start, number):
            yield Line(raw.read(), raw.number, raw.start, raw.end)

    def follow(self, start: int = 0, number: int = 1) -> Iterator[Line]:
        """What was added since an offset: whole lines only, and never waits; go on from `end`."""
        for raw in self.raw(start, number):
            if raw.ended:
                yield Line(raw.read(), raw.number, raw.start, raw.end)

    def tail(self, count: int) -> list[Line]:
        """The last lines, without reading all; their numbers are 0, since nobody counted."""
        wanted = count
        while True:
            with files.reported(f"read the transcript {self.path}"):
                start = self._start_of_last(wanted)
            found = [line._replace(number=0) for line in self.lines(start)]
            if len(found) >= count or start == 0:
                return found[len(found) - min(count, len(found)) :]
            wanted *= 2  # blank lines among them

    def raw(self, start: int = 0, number: int = 1) -> Iterator[Raw]:
        """All lines that are not blank, unread, so that who wants a few kinds need not read the others."""
        with files.reported(f"read the transcript {self.path}"):
            file = self._paper.opened()
            if file is None:
                return
            with file:
                file.seek(start)
                yield from _raw(file, start, number)

    def size(self) -> int:
        """How many bytes it has."""
        with files.reported(f"read the transcript {self.path}"):
            file = self._paper.opened()
            if file is None:
                return 0
            with file:
                return file.seek(0, 2)

    def _start_of_last(self, count: int) -> int:
        """Where the last so many lines begin; at most a block is held in memory."""
        file = self._paper.opened()
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


def _as_kept(event: Event, draft: _Draft, seq: int) -> Event:
    event = replace(event, seq=seq, time=draft.fields["time"], id=draft.fields["id"])
    kept = {**draft.fields, "seq": seq}
    return event if kept == kinds.to_json(event) else kinds.from_json(kept)


def _raw(file: BinaryIO, start: int, number: int) -> Iterator[Raw]:
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
        if not ended:  # the end as we saw it: what is written behind it by now belongs to this line
            return
        start, number = end, number + 1


# -------------------------------------------------------------------- where it is kept


class OnDisk:
    """A log in the home: `transcripts/<project>/<session>.jsonl`, its owner's alone, reached by no link."""

    def __init__(self, home: Home, project: str, session: str) -> None:
        self._home = home
        self._folder = (FOLDER, names.check_id(project, "a project"))
        self._name = f"{names.check_id(session, 'a session')}{ENDING}"

    @property
    def path(self) -> str:
        """Relative to the home."""
        return "/".join((*self._folder, self._name))

    @contextlib.contextmanager
    def held(self) -> Iterator[Pen]:
        """Hold the lock that a purge of this file takes too."""
        with (
            self._home.lock(f"transcript {self.path}"),
            self._home.folder(*self._folder, create=True) as folder,
        ):
            pen = folder.pen(self._name)
            try:
                yield pen
            finally:
                pen.close()

    def opened(self) -> BinaryIO | None:
        """Open the file for reading."""
        try:
            with self._home.folder(*self._folder) as folder:
                return folder.reader(self._name)
        except FileNotFoundError:
            return None
        except NotADirectoryError as error:
            raise OutsideMemory(f"{'/'.join(self._folder)} is not a folder") from error


class InMemory:
    """A log that leaves nothing behind."""

    path = ""

    def __init__(self) -> None:
        self._content = bytearray()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def held(self) -> Iterator[Pen]:
        """Hold it among the threads of this process."""
        with self._lock:
            yield self

    def opened(self) -> BinaryIO | None:
        """What was written so far."""
        return io.BytesIO(bytes(self._content))

    def end(self) -> int:
        """Where the log ends now."""
        return len(self._content)

    def write(self, line: bytes, *, sync: bool) -> int:
        """Add a line."""
        self._content += line + b"\n"
        return len(self._content)


# -------------------------------------------------------------------- secrets


def clean_event(event: Event) -> Event:
    """An event as it may leave; a line that was written by hand may hold anything."""
    fields = kinds.to_json(event)
    kept = outgoing.clean_value(fields)
    return event if kept == fields else kinds.from_json(kept)


def _cleaned_line(given: dict[str, Json]) -> tuple[dict[str, Json], bytes]:
    """An object without secrets, and as a line; raises for what is no JSON."""
    text = outgoing.dumped(given)
    clues = outgoing.clues_of(text)
    fields = outgoing.clean_within(given, clues) if any(clues) else given
    if text and fields == given:
        with contextlib.suppress(UnicodeEncodeError):
            return fields, text.encode()
    return fields, kinds.encode(fields)
