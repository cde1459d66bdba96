"""The rules of lint, one after the other: each looks at the material and hands back findings."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from vademecum.knowledge import citations
from vademecum.knowledge.citations import Standing
from vademecum.knowledge.graph import LINK, WIKI, without_code
from vademecum.lifecycle import statements
from vademecum.lifecycle.contradictions import first_line
from vademecum.lifecycle.lint.material import (
    ERROR,
    INFO,
    JOURNAL,
    PINNED,
    RECORD,
    SOURCE,
    WARNING,
    cite,
    counter_name,
    line_number,
)
from vademecum.lifecycle.passes import is_countable
from vademecum.store import names, secrets, short_numbers
from vademecum.store.validate import decode
from vademecum.text import fences
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.knowledge.graph import Graph
    from vademecum.lifecycle.lint.material import CleanTexts, Material, Page
    from vademecum.lifecycle.passes import SeenRecord
    from vademecum.store import Pinned
    from vademecum.types import Entry, Place


# ------------------------------------------------------------ copies: records that share a number or an id

COPIES = "copy"


def check_copies(material: Material) -> Iterator[Finding]:
    """Each record whose number or id is another one's."""
    places = {each.record.path: each.record.place for each in material.seen}
    labels = [_label(each) for each in material.seen if each.shelf.trusted]
    for copy in short_numbers.find_copies(labels):
        same = [f"number #{copy.label.num}"] * copy.num + ["id"] * copy.id
        why = f"has the {' and the '.join(same)} of {copy.keeper.path}; the next write gives it its own"
        mend = f"compare both; `vade forget {copy.label.path}` archives this one"
        yield Finding(COPIES, copy.label.path, why, mend, WARNING, places[copy.label.path])


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
                yield page.found(GENERATED, f"{what} is kept as if it were knowledge", line=line, last=last)


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
            why = f"looks like a secret ({secret.kind}); `vade purge` also takes it out of the archive"
            theirs = page.kind == SOURCE
            if theirs:
                why = f"looks like a secret ({secret.kind}) in an attached file"
            yield page.found(LEAK, why, line=line, last=last, severity=WARNING if theirs else ERROR)


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
    stems = {_stem(page.name) for page in material.pages if page.kind != SOURCE}
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
        yield Finding(ORPHAN, index, f"{rows} gone", "vade index")


def find_dangling(page: Page) -> list[tuple[int, str]]:
    """The lines of a listing whose file is gone, with its name."""
    folder = os.path.dirname(page.file)
    return [
        (line_number(page.text, match.start()), match[1])
        for match in _LISTED.finditer(page.text)
        if not os.path.lexists(os.path.join(folder, os.path.basename(unquote(match[1]))))
    ]


def _listings(material: Material) -> Iterator[Finding]:
    for page in material.listings:
        for line, name in find_dangling(page):
            mend = f"vade list --write-index --scope {page.place.scope}"
            yield page.found(ORPHAN, f"the listing names {name}, which is gone", line=line, mend=mend)


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
            yield page.found(ORPHAN, f"related to {broken.wanted}, which is not there", line=line)


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
                ORPHAN, f"links to {target}, which is not there", line=line_number(plain, match.start())
            )
    for match in WIKI.finditer(plain):
        target = match[1].strip()
        if _NAMED.fullmatch(target) and _stem(target) not in stems and names.slug(target) not in stems:
            why = f"links to [[{target}]], which is not there"
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
                ORPHAN, f"links to {target}, which is not there", line=line_number(plain, match.start())
            )
    for match in WIKI.finditer(plain) if wiki else ():
        target = match[1].strip()
        ending = os.path.splitext(target)[1]
        if not _NAMED.fullmatch(target) or (ending and ending not in (".md", ".markdown")):
            continue
        if _stem(target) not in stems and not os.path.lexists(os.path.join(page.top, target)):
            why = f"links to [[{target}]], which is not there"
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
            why = f"{count:,} notes in {place} count, more than decay.max_count = {max_count:,}"
            mend = f"vade sweep --scope {place.scope} --apply"
            yield Finding(SCOPE_SIZE, folders[place], why, mend, place=place)


# ------------------------------------------------------------ stale: claims about the project's code

STALE = "stale_claim"
MOST_SYMBOLS = 2000  # looked for in one run
_OTHER = re.compile(
    r"(?i)\b(?:instead of|rather than|not in|no|never|without|missing|absent|output|generates?)\b"
)


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


def find_stale(material: Material, *, symbols: bool = True) -> tuple[list[StaleClaim], bool]:
    """All that does not stand, and whether the whole tree was looked at."""
    if material.root is None or material.project is None:
        return [], True
    tree = citations.ProjectTree(material.root, seconds=material.watch.left)
    made: list[tuple[SeenRecord, int, int, citations.Claim]] = []
    own = [each for each in material.seen if each.record.place == material.project]
    for seen in material.watch.each(own, STALE):
        made += _claims(seen, tree)
    named = citations.names_wanted(claim for *_, claim in made) if symbols else set()
    here = tree.holding(sorted(named)[:MOST_SYMBOLS])
    found = []
    for seen, index, line, claim in made:
        marks = citations.parse_marks(seen.record.entries[index].cites or "")
        if claim.kind == "symbol":
            checked = citations.check_symbols([claim], here) if symbols and tree.whole else []
        else:
            checked = citations.check_claims([claim], tree, marks=marks, symbols=False)
        found += [
            StaleClaim(seen, index, each, line) for each in checked if each.standing is not Standing.VERIFIED
        ]
    return found, tree.whole


def _claims(
    seen: SeenRecord, tree: citations.ProjectTree
) -> Iterator[tuple[SeenRecord, int, int, citations.Claim]]:
    lines: Sequence[str] = ()
    for index, entry in enumerate(seen.record.entries):
        if not entry.live or not ("/" in entry.text or "`" in entry.text or "." in entry.text):
            continue
        for said in statements.split_statements(entry.text):
            if not said.present or _OTHER.search(said.text):
                continue
            for claim in citations.find_claims(said.text, tree=tree):
                lines = lines or decode(seen.content).split("\n")
                yield seen, index, min(first_line(lines, entry) + said.line, entry.end), claim


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
