"""The checks of lint: each function takes the material and yields findings.

The material is the content of all visible files, read once, and the hashes of texts known to hold no secret.
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
from vademecum.fields import find_invalid
from vademecum.knowledge import Standing, citations, first_line
from vademecum.knowledge.graph import LINK, WIKI, import_paths, without_code
from vademecum.lifecycle.passes import RecordFile, is_countable, is_page, page_as_record
from vademecum.progress import counted
from vademecum.store import Marks, in_folder, scopes, short_numbers, sources
from vademecum.text import document, fences, filenames, may_cite, names, secrets
from vademecum.text.document import decode
from vademecum.text.filenames import key_of
from vademecum.types import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.knowledge import Graph
    from vademecum.store import Directory, Home, Pinned, Records, ScopeFolder
    from vademecum.types import Entry, Place, Record

# ------------------------------------------------------------ what is looked at

T = TypeVar("T")

SECONDS = 30.0
RECORD, JOURNAL, PINNED, SOURCE = "record", "journal", "pinned", "source"
ERROR, WARNING, INFO = "error", "warning", "info"
INCOMPLETE = "lint_incomplete"


class Page(NamedTuple):
    """A file of any kind that could be read, with its place and its text."""

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
        """The shell command that opens the file for editing."""
        if self.kind == RECORD and self.ours:
            return f"vade edit {key_of(self.name)} --scope {self.place.scope}"
        if self.kind == PINNED and self.ours:
            return f"vade edit {self.name} --scope {self.place.scope}"
        return edit_command(self.file)

    def found(
        self, what: str, why: str, *, line: int = 1, last: int = 0, severity: str = WARNING, mend: str = ""
    ) -> Finding:
        """Return a finding about lines of this file."""
        where = cite(self.path, line, last)
        return Finding(what, where, why, mend or self.mend, severity, self.place)


class Stopwatch:
    """A time limit for all checks together, and a count of the files that they had no time for."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.until = time.monotonic() + seconds
        self.left_out: dict[str, int] = {}

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self.until - time.monotonic())

    def each(self, things: Sequence[T], what: str) -> Iterator[T]:
        """Yield the elements of a sequence until the time is over; count the elements left out
        under `what`.
        """
        for number, thing in enumerate(counted(things, what.replace("_", " "))):
            if time.monotonic() > self.until:
                self.left_out[what] = len(things) - number
                return
            yield thing


@dataclass(frozen=True)
class Material:
    """All files that were read for the checks, parsed."""

    seen: tuple[RecordFile, ...] = ()
    pages: tuple[Page, ...] = ()
    unreadable: tuple[Finding, ...] = ()
    listings: tuple[Page, ...] = ()  # the `index.md` of each folder of records
    scope_folders: Mapping[str, ScopeFolder] = field(default_factory=dict)  # of each listing, by its path
    root: Path | None = None  # of the project
    project: Place | None = None  # whose records speak of that root
    watch: Stopwatch = field(default_factory=Stopwatch)
    other_pages: tuple[RecordFile, ...] = ()  # pinned documents and days of the journal

    @cached_property
    def page_of(self) -> dict[str, Page]:
        """The pages of any kind by their paths."""
        return {page.path: page for page in self.pages}

    @property
    def records(self) -> list[Record]:
        """The records among the files that were read."""
        return [each.record for each in self.seen]


def cite(path: str, line: int, last: int = 0) -> str:
    """Return lines of a file as a citation: `path#L1-L2`."""
    return f"{path}#L{line}-L{last}" if last > line else f"{path}#L{line}"


def edit_command(file: str) -> str:
    """Return the shell command that opens a file outside of memory in an editor."""
    return f"$EDITOR {shlex.quote(file)}"


def line_number(text: str, position: int) -> int:
    """Return the number of the line that holds a position of a text, counted from 1."""
    return text.count("\n", 0, position) + 1


def counter_name(seen: RecordFile) -> str:
    """Return the name by which the usage counters count how often a record was shown."""
    path = seen.scope_folder.name_of(filenames.RECORDS, seen.name)
    return f"{seen.scope_folder.top}/{path}" if seen.scope_folder.outside else path


# ------------------------------------------------------------ reading


def read_material(
    records: Records,
    places: Sequence[Place],
    attached: Iterable[sources.Source] = (),
    *,
    root: Path | None = None,
    watch: Stopwatch | None = None,
) -> Material:
    """Read the files of these places, and of the `attached` sources in them, for the checks.

    `root` is the folder of the project. Reading stops when the time of `watch` is over.
    """
    reader = _Reader(records, watch or Stopwatch())
    for place in places:
        for scope_folder in scopes.scope_folders(records.home, records.caller, place):
            reader.scope_folder(scope_folder)
    for source in attached:
        if source.place in places:
            reader.source(source)
    project = next((place for place in places if place.scope is Scope.PROJECT), None)
    return Material(
        tuple(reader.seen),
        tuple(reader.pages),
        tuple(reader.unreadable),
        tuple(reader.listings),
        reader.scope_folders,
        root,
        project,
        reader.watch,
        tuple(reader.other_pages),
    )


class _Reader:
    """Reads the files of places and sources, and collects them as material."""

    def __init__(self, records: Records, watch: Stopwatch) -> None:
        self.records, self.watch = records, watch
        self.seen: list[RecordFile] = []
        self.other_pages: list[RecordFile] = []
        self.pages: list[Page] = []
        self.unreadable: list[Finding] = []
        self.listings: list[Page] = []
        self.scope_folders: dict[str, ScopeFolder] = {}

    def scope_folder(self, scope_folder: ScopeFolder) -> None:
        """Read the records and pinned documents of a folder, and its journal unless the folder is shared."""
        for below in ((filenames.RECORDS,), (filenames.JOURNAL,), ()):
            if scope_folder.shared and below == (filenames.JOURNAL,):
                continue
            try:
                folder = scope_folder.open(*below)
            except (OutsideMemory, NotADirectoryError) as error:
                file = str(scope_folder.top.joinpath(*scope_folder.parts, *below))
                self._broken("malformed", scope_folder.name_of(*below), str(error), file, scope_folder.place)
                continue
            if folder is not None:
                with folder:
                    self._read_scope_folder(scope_folder, below, folder)

    def _read_scope_folder(
        self, scope_folder: ScopeFolder, below: tuple[str, ...], folder: Directory
    ) -> None:
        here = folder.names()
        if below == (filenames.RECORDS,):
            kind, names = RECORD, in_folder(folder)
        else:
            kind = JOURNAL if below else PINNED
            names = [name for name in here if is_page(scope_folder, name, kind)]
        for name in self.watch.each(names, f"{kind}s of {scope_folder.place}"):
            path = scope_folder.name_of(*below, name)
            file = str(scope_folder.top.joinpath(*scope_folder.parts, *below, name))
            page = self._page(
                folder, name, Page(path, kind, scope_folder.place, name, "", file, ours=scope_folder.trusted)
            )
            if page is not None and kind == RECORD:
                self._record(scope_folder, page)
            elif page is not None:
                self.other_pages.append(
                    page_as_record(scope_folder, name, path, page.text.encode(), kind=kind)
                )
        if kind == RECORD and filenames.LISTING in here:
            path = scope_folder.name_of(*below, filenames.LISTING)
            file = str(scope_folder.top.joinpath(*scope_folder.parts, *below, filenames.LISTING))
            content = self._content(folder, filenames.LISTING, path, file, scope_folder.place)
            if content is not None:
                text = content.decode(errors="replace")
                self.scope_folders[path] = scope_folder
                self.listings.append(Page(path, RECORD, scope_folder.place, filenames.LISTING, text, file))

    def _record(self, scope_folder: ScopeFolder, page: Page) -> None:
        content = page.text.encode()
        try:
            self.seen.append(
                RecordFile(
                    self.records.parse(scope_folder, page.name, content), scope_folder, page.name, content
                )
            )
        except Malformed as error:
            self.unreadable.append(page.found("malformed", str(error), severity=ERROR))

    def source(self, source: sources.Source) -> None:
        """Read the Markdown of an attached folder; its frontmatter is not checked."""
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
    """The hashes of texts known to hold no secret, kept in the home; without a home none are known."""

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
        """Remember the hash of a text in which no secret was found."""
        self._used.add(_mark(text))

    def save(self) -> None:
        """Save the hashes for the next run, if the disk allows it."""
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
    """Return the hashes in the saved list; none if the list is damaged or was made under other
    secret rules.
    """
    body = (content or b"").removeprefix(_rules())
    if content is None or len(body) == len(content) or len(body) % _SIZE:
        return set()
    return {body[at : at + _SIZE] for at in range(0, len(body), _SIZE)}


def _render(used: set[bytes], before: set[bytes]) -> bytes:
    """Return the content of the list: the hashes used in this run, and as many earlier hashes as fit."""
    rest = sorted(before - used)[: max(0, MOST - len(used))]
    return _rules() + b"".join([*sorted(used)[:MOST], *rest])


def _mark(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:_SIZE]


@cache
def _rules() -> bytes:
    """Return a hash of the secret rules in force, so that a list made under other rules is recognised."""
    parts = map(resources.files("vademecum.text").joinpath, ("secrets.py", "secret_rules.txt"))
    return hashlib.sha256(b"".join(each.read_bytes() for each in parts)).digest()


# ------------------------------------------------------------ copies: records that share a number or an id

COPIES = "copy"


def check_copies(material: Material) -> Iterator[Finding]:
    """Yield findings on records and entries that share their number or id with another record or entry."""
    places = {each.record.path: each.record.place for each in material.seen}
    labels = [_label(each) for each in material.seen if each.scope_folder.trusted]
    for copy in short_numbers.find_copies(labels):
        same = [f"number #{copy.label.num}"] * copy.num + ["id"] * copy.id
        why = f"has the {' and the '.join(same)} of {copy.keeper.path}; the next write assigns its own"
        mend = f"compare both; `vade forget {copy.label.path}` archives this one"
        yield Finding(COPIES, copy.label.path, why, mend, WARNING, places[copy.label.path])
    for each in (*material.seen, *material.other_pages):
        record = each.record
        for first, second in document.shared_ids(record.entries):
            why = f"has the id of the entry in line {first.start}: one is a copy of the other"
            where = cite(record.path, second.start, second.end)
            mend = "take one of the two away, or the `id` out of its last line"
            yield Finding(COPIES, where, why, mend, WARNING, record.place)


def _label(seen: RecordFile) -> short_numbers.Label:
    record = seen.record
    key = str(record.fields.get("key") or "")
    return short_numbers.Label(record.path, seen.name, record.num, record.id, record.created or "", key)


# ------------------------------------------------------------ density: a record too many refer to

DENSITY = "graph_density"
MOST_LINKS = 5


def check_density(graph: Graph) -> Iterator[Finding]:
    """Yield findings on records that many others link to; shared tags are no links."""
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
    """Yield findings on text made by Vademecum itself that stands among entries, notes and
    pinned documents.
    """
    for page in material.watch.each(material.pages, GENERATED):
        if page.kind not in (RECORD, JOURNAL, PINNED) or not _may_be_generated(page.text):
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


def _may_be_generated(text: str) -> bool:
    return "-memory" in text or "<thread_summary" in text or "# Memory\n" in text or "## See " in text


# ------------------------------------------------------------ fields: values that have no effect

FIELD = "field"


def check_fields(material: Material) -> Iterator[Finding]:
    """Yield findings on frontmatter values that are invalid and therefore ignored."""
    for seen in material.watch.each(material.seen, FIELD):
        page = material.page_of.get(seen.record.path)
        if page is None:
            continue
        for name, why in find_invalid(seen.record.fields):
            lines = enumerate(page.text.split("\n"), 1)
            line = next((number for number, text in lines if text.startswith(f"{name}:")), 1)
            yield page.found(FIELD, why, line=line)


# ------------------------------------------------------------ leaks: secrets, never told by what they say

LEAK = "secret"


def check_leaks(material: Material, clean: CleanTexts) -> Iterator[Finding]:
    """Yield findings on text that looks like a secret, in any file.

    A text in `clean` is not searched; a text in which no secret is found is added to `clean`.
    """
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
    """Yield findings on purged texts that have reappeared in a file of memory."""
    marks = None if home is None else Marks.of(home)
    if marks is None:
        return
    for page in material.watch.each(material.pages, PURGED):
        if page.kind == SOURCE:
            continue
        kind = filenames.PINNED if page.kind == PINNED else filenames.RECORDS
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
    """Yield findings on links, listings and index rows that refer to missing files.

    `rows_gone` is the number of such rows, and `index` the path of the index.
    """
    yield from _listings(material)
    yield from _check_edges(material, graph)
    stems = _link_names(material)
    sources: dict[str, set[str]] = {}
    for page in material.pages:
        if page.kind == SOURCE:
            sources.setdefault(page.top, set()).add(_stem(page.name))
    for page in material.watch.each(material.pages, ORPHAN):
        broken = (
            _check_source_links(page, sources[page.top])
            if page.kind == SOURCE
            else _check_memory_links(page, stems, material)
        )
        yield from itertools.islice(broken, MOST_OF_A_PAGE)
    if rows_gone:
        rows = "a row names a file that is" if rows_gone == 1 else f"{rows_gone:,} rows name files that are"
        yield Finding(ORPHAN, index, f"{rows} missing", "vade index")


def find_dangling(page: Page) -> list[tuple[int, str]]:
    """Return the lines of a listing that name missing files, each as its number and the file's name."""
    folder = os.path.dirname(page.file)
    return [
        (line_number(page.text, match.start()), match[1])
        for match in _LISTED.finditer(page.text)
        if not os.path.lexists(os.path.join(folder, os.path.basename(unquote(match[1]))))
    ]


def _link_names(material: Material) -> set[str]:
    """Return all names by which a link in memory may refer to a file, including those of imported records."""
    own = {_stem(page.name) for page in material.pages if page.kind != SOURCE}
    return own | {_stem(path) for record in material.records for _, path in import_paths(record)}


def _listings(material: Material) -> Iterator[Finding]:
    for page in material.listings:
        for line, name in find_dangling(page):
            mend = f"vade list --write-index --scope {page.place.scope}"
            yield page.found(ORPHAN, f"the listing names {name}, which is missing", line=line, mend=mend)


def _check_edges(material: Material, graph: Graph) -> Iterator[Finding]:
    """Yield findings on relations in frontmatter that name a missing record."""
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


def _check_memory_links(page: Page, stems: set[str], material: Material) -> Iterator[Finding]:
    """Yield findings on links in a memory file to missing records, journal days or documents."""
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
        if _stem(name) not in stems and not in_project and not _sibling_path(page, target):
            yield page.found(
                ORPHAN, f"links to {target}, which does not exist", line=line_number(plain, match.start())
            )
    for match in WIKI.finditer(plain):
        target = match[1].strip()
        if _NAMED.fullmatch(target) and _stem(target) not in stems and names.slug(target) not in stems:
            why = f"links to [[{target}]], which does not exist"
            yield page.found(ORPHAN, why, line=line_number(plain, match.start()))


def _check_source_links(page: Page, stems: set[str]) -> Iterator[Finding]:
    """Yield findings on links in an attached file to missing files, or to missing `[[notes]]`."""
    text = page.text
    wiki, link = "[[" in text, ".md" in text and "](" in text
    if not wiki and not link:
        return
    plain = without_code(text)
    for match in LINK.finditer(plain) if link else ():
        target = unquote(match[1]).partition("#")[0]
        if not target.endswith((".md", ".markdown")) or "://" in target or target.startswith(("/", "~")):
            continue
        if not _sibling_path(page, target) and not os.path.lexists(os.path.join(page.top, target)):
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


def _sibling_path(page: Page, target: str) -> bool:
    return os.path.lexists(os.path.join(os.path.dirname(page.file), target))


def _stem(name: str) -> str:
    last = name.rpartition("/")[2].strip()
    for ending in (".md", ".markdown"):
        last = last.removesuffix(ending)
    return last.casefold()


# ------------------------------------------------------------ sizes: documents and scopes grown too large

PINNED_SIZE, SCOPE_SIZE = "oversize_pinned", "over_budget"


def check_sizes(material: Material, *, documents: Iterable[Pinned], max_count: int) -> Iterator[Finding]:
    """Yield findings on documents above their size budget, and on scopes with too many records."""
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
            mend = f"vade tidy --only sweep --scope {place.scope} --apply"
            yield Finding(SCOPE_SIZE, folders[place], why, mend, place=place)


# ------------------------------------------------------------ stale: claims about the project's code

STALE = "stale_claim"


class StaleClaim(NamedTuple):
    """An entry's claim about the project's code that no longer holds."""

    seen: RecordFile
    number: int  # of the entry, from 0
    checked: citations.CheckedClaim
    line: int

    @property
    def entry(self) -> Entry:
        """The entry that makes the claim."""
        return self.seen.record.entries[self.number]

    @property
    def marked(self) -> bool:
        """Whether the entry is marked as stale already."""
        return describe_claim(self.checked) in (self.entry.stale or "")


def check_stale(material: Material) -> Iterator[Finding]:
    """Yield findings on claims about the project's code that its files no longer support."""
    found, whole = find_stale(material)
    for each in found:
        record, standing = each.seen.record, each.checked.standing
        severity = ERROR if standing is Standing.GONE and each.checked.claim.kind != "symbol" else WARNING
        why = each.checked.why
        if each.marked:
            severity, why = INFO, f"{why}; the entry is marked so"
        mend = f"vade edit {record.key} --scope {record.place.scope}"
        if not each.marked and is_markable(each):
            mend = f"vade tidy --only heal --scope {record.place.scope} --apply"
        yield Finding(STALE, cite(record.path, each.line), why, mend, severity, record.place)
    if not whole:
        material.watch.left_out.setdefault("files of the project", 0)


def is_markable(each: StaleClaim) -> bool:
    """Whether heal marks the entry of this stale claim; a claim about moved code is only reported."""
    return each.seen.scope_folder.trusted and each.checked.standing in (Standing.GONE, Standing.CHANGED)


def find_stale(material: Material) -> tuple[list[StaleClaim], bool]:
    """Return the stale claims, and whether all files of the project were searched."""
    if material.root is None or material.project is None:
        return [], True
    tree = citations.ProjectTree(material.root, seconds=material.watch.left)
    made: list[tuple[RecordFile, int, int, citations.Claim]] = []
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
    seen: RecordFile, tree: citations.ProjectTree
) -> Iterator[tuple[RecordFile, int, int, citations.Claim]]:
    lines: Sequence[str] = ()
    for index, entry in enumerate(seen.record.entries):
        if not entry.live or not may_cite(entry.text):
            continue
        marks = citations.parse_marks(entry.cites or "")
        for stated in citations.find_stated(entry.text, tree=tree, marks=marks):
            lines = lines or decode(seen.content).split("\n")
            yield seen, index, min(first_line(lines, entry) + stated.line, entry.end), stated.claim


def describe_claim(checked: citations.CheckedClaim) -> str:
    """Return a stale claim and its state in the words that the stale mark of an entry uses."""
    return f"{checked.claim.cited} {checked.standing}"


# ------------------------------------------------------------ usage: a counter driven up

POISON = "poison_frequency"
LEAST_RECORDS, LEAST_USES, TIMES, SHORT = 20, 50, 5, 200
MEND = "vade tidy --only heal --apply --aggressive"


def check_usage(material: Material, *, uses: Callable[[list[str]], dict[str, int]]) -> Iterator[Finding]:
    """Yield findings on records whose usage counter looks artificially raised."""
    for seen, count, usual in find_poisoned(material.seen, uses):
        others = f"95 of 100 records of {seen.record.place} were at most {usual:,} times"
        why = f"it is short and was shown {count:,} times, where {others}"
        mend = f"{MEND} --scope {seen.record.place.scope}"
        yield Finding(POISON, seen.record.path, why, mend, ERROR, seen.record.place)


def find_poisoned(
    seen: Sequence[RecordFile], uses: Callable[[list[str]], dict[str, int]]
) -> Iterator[tuple[RecordFile, int, int]]:
    """Yield the records whose usage counter looks artificially raised, with its value and the usual value."""
    places: dict[Place, list[RecordFile]] = {}
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
