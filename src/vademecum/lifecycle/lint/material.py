"""What lint looks at: everything in sight, read once, and which texts are known to hold no secret."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import time
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from vademecum.errors import Malformed, OutsideMemory, VadeError
from vademecum.lifecycle.passes import SeenRecord
from vademecum.store import archive, listing, scopes, sources
from vademecum.store.journal import is_day
from vademecum.store.pinned import CONTEXT
from vademecum.store.records import is_record, key_of
from vademecum.types import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.store import Directory, Home, Records, Shelf
    from vademecum.types import Place, Record


T = TypeVar("T")

SECONDS = 30.0
RECORD, JOURNAL, PINNED, SOURCE = "record", "journal", "pinned", "source"
ERROR, WARNING, INFO = "error", "warning", "info"
INCOMPLETE = "lint_incomplete"


class Page(NamedTuple):
    """One readable file, of whatever kind."""

    path: str  # as shown
    kind: str
    place: Place
    name: str  # of the file
    text: str
    file: str  # where it lies on disk
    top: str = ""  # of the source it belongs to
    ours: bool = True  # whether it may be changed through us

    @property
    def mend(self) -> str:
        """The command that opens it."""
        if self.kind == RECORD and self.ours:
            return f"vade edit {key_of(self.name)} --scope {self.place.scope}"
        if self.kind == PINNED and self.ours:
            return f"vade edit {self.name} --scope {self.place.scope}"
        return edit_command(self.file)

    def found(
        self, what: str, why: str, *, line: int = 1, last: int = 0, severity: str = WARNING, mend: str = ""
    ) -> Finding:
        """Something about these lines of it."""
        where = cite(self.path, line, last)
        return Finding(what, where, why, mend or self.mend, severity, self.place)


class Stopwatch:
    """How long all checks together may look, and what they did not get to."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.until = time.monotonic() + seconds
        self.left_out: dict[str, int] = {}

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self.until - time.monotonic())

    def each(self, things: Sequence[T], what: str) -> Iterator[T]:
        """Some things one by one, until the time is over."""
        for number, thing in enumerate(things):
            if time.monotonic() > self.until:
                self.left_out[what] = len(things) - number
                return
            yield thing


@dataclass(frozen=True)
class Material:
    """All that was read, once, for every check."""

    seen: tuple[SeenRecord, ...] = ()
    pages: tuple[Page, ...] = ()
    unreadable: tuple[Finding, ...] = ()
    listings: tuple[Page, ...] = ()  # the `index.md` of each folder of records
    shelves: Mapping[str, Shelf] = field(default_factory=dict)  # of each listing, by its path
    root: Path | None = None  # of the project
    project: Place | None = None  # whose records speak of that root
    watch: Stopwatch = field(default_factory=Stopwatch)

    @cached_property
    def page_of(self) -> dict[str, Page]:
        """The page of each path."""
        return {page.path: page for page in self.pages}

    @property
    def records(self) -> list[Record]:
        """What was read, as records."""
        return [each.record for each in self.seen]


def cite(path: str, line: int, last: int = 0) -> str:
    """Lines of a file as everything in memory names them."""
    return f"{path}#L{line}-L{last}" if last > line else f"{path}#L{line}"


def edit_command(file: str) -> str:
    """The command for a file that no command of ours changes."""
    return f"$EDITOR {shlex.quote(file)}"


def line_number(text: str, position: int) -> int:
    """The line of a position, counted from 1."""
    return text.count("\n", 0, position) + 1


def counter_name(seen: SeenRecord) -> str:
    """What the counters know a record by."""
    path = seen.shelf.name_of(archive.RECORDS, seen.name)
    return f"{seen.shelf.top}/{path}" if seen.shelf.shared else path


# ------------------------------------------------------------ reading


def read_material(
    records: Records,
    places: Sequence[Place],
    attached: Iterable[sources.Source] = (),
    *,
    root: Path | None = None,
    watch: Stopwatch | None = None,
) -> Material:
    """All files of these places, and of the sources attached to them."""
    reader = _Reader(records, watch or Stopwatch())
    for place in places:
        for shelf in scopes.shelves(records.home, records.caller, place):
            reader.shelf(shelf)
    for source in attached:
        if source.place in places:
            reader.source(source)
    project = next((place for place in places if place.scope is Scope.PROJECT), None)
    return Material(
        tuple(reader.seen),
        tuple(reader.pages),
        tuple(reader.unreadable),
        tuple(reader.listings),
        reader.shelves,
        root,
        project,
        reader.watch,
    )


class _Reader:
    """Collects while it reads."""

    def __init__(self, records: Records, watch: Stopwatch) -> None:
        self.records, self.watch = records, watch
        self.seen: list[SeenRecord] = []
        self.pages: list[Page] = []
        self.unreadable: list[Finding] = []
        self.listings: list[Page] = []
        self.shelves: dict[str, Shelf] = {}

    def shelf(self, shelf: Shelf) -> None:
        """Records, journals and pinned documents of a shelf."""
        for below in ((archive.RECORDS,), (archive.JOURNAL,), ()):
            if shelf.shared and below == (archive.JOURNAL,):
                continue
            try:
                folder = shelf.open(*below)
            except (OutsideMemory, NotADirectoryError) as error:
                file = str(shelf.top.joinpath(*shelf.parts, *below))
                self._broken("malformed", shelf.name_of(*below), str(error), file, shelf.place)
                continue
            if folder is not None:
                with folder:
                    self._on(shelf, below, folder)

    def _on(self, shelf: Shelf, below: tuple[str, ...], folder: Directory) -> None:
        here = folder.names()
        if below == (archive.RECORDS,):
            kind, names = RECORD, [name for name in here if is_record(name)]
        elif below:
            kind, names = JOURNAL, [name for name in here if is_day(name)]
        else:
            own = shelf.place.scope.rule.documents
            kind = PINNED
            names = [name for name in here if name in own and (not shelf.shared or name == CONTEXT)]
        for name in self.watch.each(names, f"{kind}s of {shelf.place}"):
            path = shelf.name_of(*below, name)
            file = str(shelf.top.joinpath(*shelf.parts, *below, name))
            page = self._page(folder, name, Page(path, kind, shelf.place, name, "", file, ours=shelf.trusted))
            if page is not None and kind == RECORD:
                self._record(shelf, page)
        if kind == RECORD and listing.NAME in here:
            path = shelf.name_of(*below, listing.NAME)
            file = str(shelf.top.joinpath(*shelf.parts, *below, listing.NAME))
            content = self._content(folder, listing.NAME, path, file, shelf.place)
            if content is not None:
                text = content.decode(errors="replace")
                self.shelves[path] = shelf
                self.listings.append(Page(path, RECORD, shelf.place, listing.NAME, text, file))

    def _record(self, shelf: Shelf, page: Page) -> None:
        content = page.text.encode()
        try:
            self.seen.append(
                SeenRecord(self.records.parse(shelf, page.name, content), shelf, page.name, content)
            )
        except Malformed as error:
            self.unreadable.append(page.found("malformed", str(error), severity=ERROR))

    def source(self, source: sources.Source) -> None:
        """The Markdown of an attached folder; its front matter is its own business."""
        if source.problem:
            mend = f"vade sources remove {source.name}"
            why = f"the source {source.name} {source.problem}"
            self.unreadable.append(Finding("orphan", str(source.path), why, mend, ERROR, source.place))
            return
        closed: list[OSError] = []
        folders = list(source.folders(closed.append))
        for top, below, wanted in self.watch.each(folders, f"folders of {source.name}"):
            path = os.path.join(top, *below)
            try:
                with sources.entered(top, below) as folder:
                    for name in filter(wanted, folder.names()):
                        file = os.path.join(path, name)
                        page = Page(file, SOURCE, source.place, name, "", file, top=top, ours=False)
                        self._page(folder, name, page)
            except (OutsideMemory, OSError) as error:
                self._broken("malformed", path, str(error), path, source.place)
        for each in closed:
            where = str(each.filename or source.path)
            self._broken("malformed", where, each.strerror or str(each), where, source.place)

    def _page(self, folder: Directory, name: str, page: Page) -> Page | None:
        content = self._content(folder, name, page.path, page.file, page.place, plain=page.kind == SOURCE)
        if content is None:
            return None
        bad = content.find(b"\0")
        why = "holds NUL bytes"
        if bad < 0:
            try:
                page = page._replace(text=content.decode())
                self.pages.append(page)
                return page
            except UnicodeDecodeError as error:
                bad, why = error.start, f"is not UTF-8 at byte {error.start}"
        line = content.count(b"\n", 0, bad) + 1
        mend = edit_command(page.file)
        self.unreadable.append(Finding("encoding", cite(page.path, line), why, mend, ERROR, page.place))
        return None

    def _content(
        self, folder: Directory, name: str, path: str, file: str, place: Place, *, plain: bool = False
    ) -> bytes | None:
        try:
            return folder.read(name)
        except (Malformed, OutsideMemory, OSError) as error:
            # In a source, links, pipes and folders with such a name are nobody's concern.
            if not (plain and (os.path.islink(file) or not os.path.isfile(file))):
                self._broken("malformed", path, str(error), file, place)
            return None

    def _broken(self, what: str, where: str, why: str, file: str, place: Place) -> None:
        self.unreadable.append(Finding(what, where, why, edit_command(file), ERROR, place))


# ------------------------------------------------------------ texts known to hold no secret

CLEAN_FILE = "clean"
MOST = 100_000
_SIZE = 16


class CleanTexts:
    """What is known to be clean; without a home it remembers nothing."""

    def __init__(self, home: Home | None = None) -> None:
        self._home = home
        self._known = _parse(_read(home)) if home is not None else set()
        self._used: set[bytes] = set()

    def __contains__(self, text: str) -> bool:
        mark = _mark(text)
        found = mark in self._known
        if found:
            self._used.add(mark)
        return found

    def add(self, text: str) -> None:
        """Remember a text in which nothing was found."""
        self._used.add(_mark(text))

    def save(self) -> None:
        """Keep it for the next time, where that can be done."""
        if self._home is None or self._used <= self._known:
            return
        with (
            contextlib.suppress(VadeError, OSError),
            self._home.folder("index", create=True) as folder,
        ):
            folder.update(CLEAN_FILE, lambda before: _render(self._used, _parse(before)))


def _read(home: Home) -> bytes | None:
    try:
        return home.read("index", CLEAN_FILE)
    except (VadeError, OSError):
        return None


def _parse(content: bytes | None) -> set[bytes]:
    """The marks of a file that was made by the same rules; a torn one says nothing."""
    body = (content or b"").removeprefix(_rules())
    if content is None or len(body) == len(content) or len(body) % _SIZE:
        return set()
    return {body[at : at + _SIZE] for at in range(0, len(body), _SIZE)}


def _render(used: set[bytes], before: set[bytes]) -> bytes:
    """What was used now, and as much of the rest as there is room for."""
    rest = sorted(before - used)[: max(0, MOST - len(used))]
    return _rules() + b"".join([*sorted(used)[:MOST], *rest])


def _mark(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:_SIZE]


@cache
def _rules() -> bytes:
    """The rules that are in force: their very text, so that no change of them is overlooked."""
    return hashlib.sha256(resources.files("vademecum.store").joinpath("secrets.py").read_bytes()).digest()
