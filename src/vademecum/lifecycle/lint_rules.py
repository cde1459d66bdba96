"""The rules of lint, one after the other: each looks at the material and hands back findings.

The material is everything in sight, read once, and which texts are known to hold no secret.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import shlex
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import unquote

from vademecum.errors import Malformed, OutsideMemory, VadeError
from vademecum.knowledge import citations
from vademecum.knowledge.citations import Standing
from vademecum.knowledge.graph import LINK, WIKI, import_paths, without_code
from vademecum.knowledge.statements import first_line
from vademecum.lifecycle.passes import SeenRecord, beside_record, is_beside, is_countable
from vademecum.progress import counted
from vademecum.store import Marks, archive, document, listing, scopes, short_numbers, sources
from vademecum.store.document import decode
from vademecum.store.records import in_folder, key_of
from vademecum.text import fences, may_cite, names, secrets
from vademecum.types import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.knowledge.graph import Graph
    from vademecum.store import Directory, Home, Pinned, Records, Shelf
    from vademecum.types import Entry, Place, Record

# ------------------------------------------------------------ what is looked at

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
        for number, thing in enumerate(counted(things, what.replace("_", " "))):
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
    beside: tuple[SeenRecord, ...] = ()  # pinned documents and days of the journal

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
    return f"{seen.shelf.top}/{path}" if seen.shelf.outside else path


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
        tuple(reader.beside),
    )


class _Reader:
    """Collects while it reads."""

    def __init__(self, records: Records, watch: Stopwatch) -> None:
        self.records, self.watch = records, watch
        self.seen: list[SeenRecord] = []
        self.beside: list[SeenRecord] = []
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
            kind, names = RECORD, in_folder(folder)
        else:
            kind = JOURNAL if below else PINNED
            names = [name for name in here if is_beside(shelf, name, kind)]
        for name in self.watch.each(names, f"{kind}s of {shelf.place}"):
            path = shelf.name_of(*below, name)
            file = str(shelf.top.joinpath(*shelf.parts, *below, name))
            page = self._page(folder, name, Page(path, kind, shelf.place, name, "", file, ours=shelf.trusted))
            if page is not None and kind == RECORD:
                self._record(shelf, page)
            elif page is not None:
                self.beside.append(beside_record(shelf, name, path, page.text.encode(), kind=kind))
        if kind == RECORD and listing.LISTING in here:
            path = shelf.name_of(*below, listing.LISTING)
            file = str(shelf.top.joinpath(*shelf.parts, *below, listing.LISTING))
            content = self._content(folder, listing.LISTING, path, file, shelf.place)
            if content is not None:
                text = content.decode(errors="replace")
                self.shelves[path] = shelf
                self.listings.append(Page(path, RECORD, shelf.place, listing.LISTING, text, file))

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
    parts = map(resources.files("vademecum.text").joinpath, ("secrets.py", "secret_rules.txt"))
    return hashlib.sha256(b"".join(each.read_bytes() for each in parts)).digest()


# ------------------------------------------------------------ copies: records that share a number or an id

COPIES = "copy"


def check_copies(material: Material) -> Iterator[Finding]:
    """Each record or entry whose number or id is that of another one."""
    places = {each.record.path: each.record.place for each in material.seen}
    labels = [_label(each) for each in material.seen if each.shelf.trusted]
    for copy in short_numbers.find_copies(labels):
        same = [f"number #{copy.label.num}"] * copy.num + ["id"] * copy.id
        why = f"has the {' and the '.join(same)} of {copy.keeper.path}; the next write assigns its own"
        mend = f"compare both; `vade forget {copy.label.path}` archives this one"
        yield Finding(COPIES, copy.label.path, why, mend, WARNING, places[copy.label.path])
    for each in (*material.seen, *material.beside):
        record = each.record
        for first, second in document.shared_ids(record.entries):
            why = f"has the id of the entry in line {first.start}: one is a copy of the other"
            where = cite(record.path, second.start, second.end)
            mend = "take one of the two away, or the `id` out of its last line"
            yield Finding(COPIES, where, why, mend, WARNING, record.place)


def _label(seen: SeenRecord) -> short_numbers.Label:
    record = seen.record
    key = str(record.fields.get("key") or "")
    return short_numbers.Label(record.path, seen.name, record.num, record.id, record.created or "", key)


# ------------------------------------------------------------ density: a record too many refer to

DENSITY = "graph_density"
MOST_LINKS = 5


def check_density(graph: Graph) -> Iterator[Finding]:
    """Records that more than a few others name; shared tags do not count."""
    sources: dict[str, set[str]] = {}
    for edge in graph.edges:
        if edge.origin != "tags" and not edge.rejected and edge.source != edge.target:
            sources.setdefault(edge.target, set()).add(edge.source)
    for record in graph.records:
        count = len(sources.get(record.path, ()))
        if count > MOST_LINKS:
            why = f"{count} records refer to it, more than {MOST_LINKS}: it may hold several topics"
            mend = f"vade edit {record.key} --scope {record.place.scope}"
            yield Finding(DENSITY, record.path, why, mend, place=record.place)


# ------------------------------------------------------------ generated: our own words come back as knowledge

GENERATED = "generated_text"
# On a line of its own, so that a sentence about them is none.
_LISTING = r"(?m)^# Memory\n\n## [A-Z][a-z]+\n\n\* \[[^\n]*\]\([^)\n]+\.md\) - "
_SEE_ALSO = (
    r"(?m)^## See [Aa]lso[ \t]*\n+(?:[ \t]*[-*] \[[^\]\n]+\]\([^)\n]+\.md\)[^\n]*\n?)+"
    r"(?=\s*(?:\Z|^##? |^<!--))"
)
_SHAPES = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (r"(?m)^[ \t]*<(?:vade|cao)-memory(?:\s[^>\n]*)?>[ \t]*$", "an injected memory block"),
        (r"(?m)^[ \t]*<thread_summary(?:\s[^>\n]*)?>", "the summary of a thread"),
        (r"(?m)^<!-- (?:vade|cao)-memory:begin", "the memory section of an agent's file"),
        (_LISTING, "an index.md listing"),
        (_SEE_ALSO, "a generated See Also section"),
    )
)


def check_generated(material: Material) -> Iterator[Finding]:
    """Our own words among the entries, the notes and the pinned documents."""
    for page in material.watch.each(material.pages, GENERATED):
        if page.kind not in (RECORD, JOURNAL, PINNED) or not _may_be(page.text):
            continue
        plain = fences.blank(page.text)
        for shape, what in _SHAPES:
            match = shape.search(plain)
            if match is not None:
                line, last = (
                    line_number(plain, match.start()),
                    line_number(plain, max(match.end() - 1, match.start())),
                )
                yield page.found(GENERATED, f"{what} is saved as if it were a memory", line=line, last=last)


def _may_be(text: str) -> bool:
    return "-memory" in text or "<thread_summary" in text or "# Memory\n" in text or "## See " in text


# ------------------------------------------------------------ leaks: secrets, never told by what they say

LEAK = "secret"


def check_leaks(material: Material, clean: CleanTexts) -> Iterator[Finding]:
    """Whatever looks like a secret, in whatever file."""
    for page in material.watch.each(material.pages, LEAK):
        if page.text in clean:
            continue
        found = secrets.find(page.text)
        if not found:
            clean.add(page.text)
        for secret in found:
            line, last = line_number(page.text, secret.start), line_number(page.text, secret.end - 1)
            why = f"looks like a secret ({secret.kind}); `vade purge` also removes it from the archive"
            theirs = page.kind == SOURCE
            if theirs:
                why = f"looks like a secret ({secret.kind}) in an attached file"
            yield page.found(LEAK, why, line=line, last=last, severity=WARNING if theirs else ERROR)


# ------------------------------------------------------------ purged texts that a copy of files brought back

PURGED = "purged"


def check_purged(material: Material, home: Home | None) -> Iterator[Finding]:
    """What a person purged and what stands in a file again, past every door."""
    marks = None if home is None else Marks.of(home)
    if marks is None:
        return
    for page in material.watch.each(material.pages, PURGED):
        if page.kind == SOURCE:
            continue
        kind = archive.PINNED if page.kind == PINNED else archive.RECORDS
        for entry, stone in marks.among(page.text.encode(), kind):
            why = f"you purged this text on {stone.at[:10]}, and it reappeared"
            lines = {"line": entry.start, "last": entry.end}
            yield page.found(PURGED, why, **lines, severity=ERROR, mend="vade purge --finish")


# ------------------------------------------------------------ links: what names a file that is gone

ORPHAN = "orphan"
MOST_OF_A_PAGE = 100
_NAMED = re.compile(r"[\w][\w .,'&()/-]*")  # `[[ -f x ]]` is no link
_LISTED = re.compile(r"(?m)^\* \[(?:[^\]\\\n]|\\.)*\]\(([^)\s]+)\) - ")


def check_links(
    material: Material, graph: Graph, *, rows_gone: int = 0, index: str = ""
) -> Iterator[Finding]:
    """Whatever names a file that is not there."""
    yield from _listings(material)
    yield from _related(material, graph)
    stems = _stems(material)
    sources: dict[str, set[str]] = {}
    for page in material.pages:
        if page.kind == SOURCE:
            sources.setdefault(page.top, set()).add(_stem(page.name))
    for page in material.watch.each(material.pages, ORPHAN):
        broken = (
            _in_source(page, sources[page.top]) if page.kind == SOURCE else _in_memory(page, stems, material)
        )
        yield from itertools.islice(broken, MOST_OF_A_PAGE)
    if rows_gone:
        rows = "a row names a file that is" if rows_gone == 1 else f"{rows_gone:,} rows name files that are"
        yield Finding(ORPHAN, index, f"{rows} missing", "vade index")


def find_dangling(page: Page) -> list[tuple[int, str]]:
    """The lines of a listing whose file is gone, with its name."""
    folder = os.path.dirname(page.file)
    return [
        (line_number(page.text, match.start()), match[1])
        for match in _LISTED.finditer(page.text)
        if not os.path.lexists(os.path.join(folder, os.path.basename(unquote(match[1]))))
    ]


def _stems(material: Material) -> set[str]:
    """What a link in memory may name; what was imported together says it as its files were named there."""
    own = {_stem(page.name) for page in material.pages if page.kind != SOURCE}
    return own | {_stem(path) for record in material.records for _, path in import_paths(record)}


def _listings(material: Material) -> Iterator[Finding]:
    for page in material.listings:
        for line, name in find_dangling(page):
            mend = f"vade list --write-index --scope {page.place.scope}"
            yield page.found(ORPHAN, f"the listing names {name}, which is missing", line=line, mend=mend)


def _related(material: Material, graph: Graph) -> Iterator[Finding]:
    """Edges in the frontmatter; those in texts are looked at with all other links."""
    for broken in graph.broken:
        page = material.page_of.get(broken.source)
        if page is None or broken.line != 1:
            continue
        lines = page.text.split("\n")
        first = next((at for at, line in enumerate(lines) if line.startswith("related:")), None)
        if first is not None:
            named = (at for at, line in enumerate(lines[first:], first) if broken.wanted in line)
            line = next(named, first) + 1
            yield page.found(ORPHAN, f"related to {broken.wanted}, which does not exist", line=line)


def _in_memory(page: Page, stems: set[str], material: Material) -> Iterator[Finding]:
    """Links in our own files lead to records, days and documents, by name."""
    text = page.text
    if "](" not in text and "[[" not in text:
        return
    plain = without_code(text)
    for match in LINK.finditer(plain):
        target = unquote(match[1]).partition("#")[0]
        folder, _, name = target.rpartition("/")
        if not name.endswith(".md") or "://" in target or target.startswith(("/", "~")):
            continue
        # `docs/setup.md` is a file of the project, whose standing is told elsewhere.
        if folder not in ("", ".") and not folder.startswith(".."):
            continue
        in_project = material.root is not None and os.path.lexists(os.path.join(material.root, target))
        if _stem(name) not in stems and not in_project and not _beside(page, target):
            yield page.found(
                ORPHAN, f"links to {target}, which does not exist", line=line_number(plain, match.start())
            )
    for match in WIKI.finditer(plain):
        target = match[1].strip()
        if _NAMED.fullmatch(target) and _stem(target) not in stems and names.slug(target) not in stems:
            why = f"links to [[{target}]], which does not exist"
            yield page.found(ORPHAN, why, line=line_number(plain, match.start()))


def _in_source(page: Page, stems: set[str]) -> Iterator[Finding]:
    """Links in an attached folder lead from file to file; a name in double brackets to any note of it."""
    text = page.text
    wiki, link = "[[" in text, ".md" in text and "](" in text
    if not wiki and not link:
        return
    plain = without_code(text)
    for match in LINK.finditer(plain) if link else ():
        target = unquote(match[1]).partition("#")[0]
        if not target.endswith((".md", ".markdown")) or "://" in target or target.startswith(("/", "~")):
            continue
        if not _beside(page, target) and not os.path.lexists(os.path.join(page.top, target)):
            yield page.found(
                ORPHAN, f"links to {target}, which does not exist", line=line_number(plain, match.start())
            )
    for match in WIKI.finditer(plain) if wiki else ():
        target = match[1].strip()
        ending = os.path.splitext(target)[1]
        if not _NAMED.fullmatch(target) or (ending and ending not in (".md", ".markdown")):
            continue
        if _stem(target) not in stems and not os.path.lexists(os.path.join(page.top, target)):
            why = f"links to [[{target}]], which does not exist"
            yield page.found(ORPHAN, why, line=line_number(plain, match.start()))


def _beside(page: Page, target: str) -> bool:
    return os.path.lexists(os.path.join(os.path.dirname(page.file), target))


def _stem(name: str) -> str:
    last = name.rpartition("/")[2].strip()
    for ending in (".md", ".markdown"):
        last = last.removesuffix(ending)
    return last.casefold()


# ------------------------------------------------------------ sizes: documents and scopes grown too large

PINNED_SIZE, SCOPE_SIZE = "oversize_pinned", "over_budget"


def check_sizes(material: Material, *, documents: Iterable[Pinned], max_count: int) -> Iterator[Finding]:
    """Documents above their budget, and scopes above the count cap."""
    for each in documents:
        if each.over:
            why = f"{each.size:,} of {each.budget:,}: shorten it, injection cuts what is too long"
            mend = f"vade edit {each.name} --scope {each.place.scope}"
            yield Finding(PINNED_SIZE, each.path, why, mend, place=each.place)
    counts: Counter[Place] = Counter(each.record.place for each in material.seen if is_countable(each))
    folders = {each.record.place: each.record.path.rpartition("/")[0] for each in material.seen}
    for place, count in counts.items():
        if count > max_count:
            why = f"{count:,} notes in {place}, more than decay.max_count = {max_count:,}"
            mend = f"vade sweep --scope {place.scope} --apply"
            yield Finding(SCOPE_SIZE, folders[place], why, mend, place=place)


# ------------------------------------------------------------ stale: claims about the project's code

STALE = "stale_claim"


class StaleClaim(NamedTuple):
    """One claim of an entry that does not stand as it was made."""

    seen: SeenRecord
    number: int  # of the entry, from 0
    checked: citations.CheckedClaim
    line: int

    @property
    def entry(self) -> Entry:
        """The entry that makes it."""
        return self.seen.record.entries[self.number]

    @property
    def marked(self) -> bool:
        """Whether the entry says so itself."""
        return describe_claim(self.checked) in (self.entry.stale or "")


def check_stale(material: Material) -> Iterator[Finding]:
    """Claims of the project's records, held against its tree."""
    found, whole = find_stale(material)
    for each in found:
        record, standing = each.seen.record, each.checked.standing
        severity = ERROR if standing is Standing.GONE and each.checked.claim.kind != "symbol" else WARNING
        why = each.checked.why
        if each.marked:
            severity, why = INFO, f"{why}; the entry is marked so"
        mend = f"vade edit {record.key} --scope {record.place.scope}"
        if not each.marked and is_markable(each):
            mend = f"vade heal --scope {record.place.scope} --apply"
        yield Finding(STALE, cite(record.path, each.line), why, mend, severity, record.place)
    if not whole:
        material.watch.left_out.setdefault("files of the project", 0)


def is_markable(each: StaleClaim) -> bool:
    """Whether heal marks it: what moved is only told, for it is still there."""
    return each.seen.shelf.trusted and each.checked.standing in (Standing.GONE, Standing.CHANGED)


def find_stale(material: Material) -> tuple[list[StaleClaim], bool]:
    """All that does not stand, and whether the whole tree was looked at."""
    if material.root is None or material.project is None:
        return [], True
    tree = citations.ProjectTree(material.root, seconds=material.watch.left)
    made: list[tuple[SeenRecord, int, int, citations.Claim]] = []
    own = [each for each in material.seen if each.record.place == material.project]
    for seen in material.watch.each(own, STALE):
        made += _claims(seen, tree)
    here = citations.look_up([claim for *_, claim in made], tree)
    found = []
    for seen, index, line, claim in material.watch.each(made, STALE):
        checked = citations.check_claim(claim, tree, here)
        if checked is not None and checked.standing is not Standing.VERIFIED:
            found.append(StaleClaim(seen, index, checked, line))
    return found, tree.whole


def _claims(
    seen: SeenRecord, tree: citations.ProjectTree
) -> Iterator[tuple[SeenRecord, int, int, citations.Claim]]:
    lines: Sequence[str] = ()
    for index, entry in enumerate(seen.record.entries):
        if not entry.live or not may_cite(entry.text):
            continue
        marks = citations.parse_marks(entry.cites or "")
        for stated in citations.find_stated(entry.text, tree=tree, marks=marks):
            lines = lines or decode(seen.content).split("\n")
            yield seen, index, min(first_line(lines, entry) + stated.line, entry.end), stated.claim


def describe_claim(checked: citations.CheckedClaim) -> str:
    """A claim and how it stands, as a mark has it."""
    return f"{checked.claim.cited} {checked.standing}"


# ------------------------------------------------------------ usage: a counter driven up

POISON = "poison_frequency"
LEAST_RECORDS, LEAST_USES, TIMES, SHORT = 20, 50, 5, 200
MEND = "vade heal --apply --aggressive"


def check_usage(material: Material, *, uses: Callable[[list[str]], dict[str, int]]) -> Iterator[Finding]:
    """Records whose counter looks driven up."""
    for seen, count, usual in find_poisoned(material.seen, uses):
        others = f"95 of 100 records of {seen.record.place} were at most {usual:,} times"
        why = f"it is short and was shown {count:,} times, where {others}"
        mend = f"{MEND} --scope {seen.record.place.scope}"
        yield Finding(POISON, seen.record.path, why, mend, ERROR, seen.record.place)


def find_poisoned(
    seen: Sequence[SeenRecord], uses: Callable[[list[str]], dict[str, int]]
) -> Iterator[tuple[SeenRecord, int, int]]:
    """The records in question, how often each was shown, and what is usual there."""
    places: dict[Place, list[SeenRecord]] = {}
    for each in seen:
        places.setdefault(each.record.place, []).append(each)
    for here in places.values():
        if len(here) < LEAST_RECORDS:
            continue
        known = uses([counter_name(each) for each in here])
        counts = [known.get(counter_name(each), 0) for each in here]
        usual = sorted(counts)[-(-95 * len(counts) // 100) - 1]
        for each, count in zip(here, counts, strict=True):
            if count > TIMES * usual and count > LEAST_USES and len(each.record.text) < SHORT:
                yield each, count, usual
