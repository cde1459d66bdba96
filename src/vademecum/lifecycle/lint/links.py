"""Orphans: links, edges, listings and index rows whose file is gone. A file made by hand is never one."""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from vademecum.knowledge.edges import LINK, WIKI, without_code
from vademecum.lifecycle.lint.base import SOURCE, line_of
from vademecum.store import names
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.knowledge.edges import Graph
    from vademecum.lifecycle.lint.base import Material, Page

NAME = "orphan"
MOST_OF_A_PAGE = 100
_NAMED = re.compile(r"[\w][\w .,'&()/-]*")  # `[[ -f x ]]` is no link
_LISTED = re.compile(r"(?m)^\* \[(?:[^\]\\\n]|\\.)*\]\(([^)\s]+)\) - ")


def check(material: Material, graph: Graph, *, rows_gone: int = 0, index: str = "") -> Iterator[Finding]:
    """Whatever names a file that is not there."""
    yield from _listings(material)
    yield from _related(material, graph)
    stems = {_stem(page.name) for page in material.pages if page.kind != SOURCE}
    sources: dict[str, set[str]] = {}
    for page in material.pages:
        if page.kind == SOURCE:
            sources.setdefault(page.top, set()).add(_stem(page.name))
    for page in material.watch.each(material.pages, NAME):
        broken = (
            _in_source(page, sources[page.top]) if page.kind == SOURCE else _in_memory(page, stems, material)
        )
        yield from itertools.islice(broken, MOST_OF_A_PAGE)
    if rows_gone:
        rows = "a row names a file that is" if rows_gone == 1 else f"{rows_gone:,} rows name files that are"
        yield Finding(NAME, index, f"{rows} gone", "vade index")


def dangling(page: Page) -> list[tuple[int, str]]:
    """The lines of a listing whose file is gone, with its name."""
    folder = os.path.dirname(page.file)
    return [
        (line_of(page.text, match.start()), match[1])
        for match in _LISTED.finditer(page.text)
        if not os.path.lexists(os.path.join(folder, os.path.basename(unquote(match[1]))))
    ]


def _listings(material: Material) -> Iterator[Finding]:
    for page in material.listings:
        for line, name in dangling(page):
            mend = f"vade list --write-index --scope {page.place.scope}"
            yield page.found(NAME, f"the listing names {name}, which is gone", line=line, mend=mend)


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
            yield page.found(NAME, f"related to {broken.wanted}, which is not there", line=line)


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
                NAME, f"links to {target}, which is not there", line=line_of(plain, match.start())
            )
    for match in WIKI.finditer(plain):
        target = match[1].strip()
        if _NAMED.fullmatch(target) and _stem(target) not in stems and names.slug(target) not in stems:
            why = f"links to [[{target}]], which is not there"
            yield page.found(NAME, why, line=line_of(plain, match.start()))


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
                NAME, f"links to {target}, which is not there", line=line_of(plain, match.start())
            )
    for match in WIKI.finditer(plain) if wiki else ():
        target = match[1].strip()
        ending = os.path.splitext(target)[1]
        if not _NAMED.fullmatch(target) or (ending and ending not in (".md", ".markdown")):
            continue
        if _stem(target) not in stems and not os.path.lexists(os.path.join(page.top, target)):
            why = f"links to [[{target}]], which is not there"
            yield page.found(NAME, why, line=line_of(plain, match.start()))


def _beside(page: Page, target: str) -> bool:
    return os.path.lexists(os.path.join(os.path.dirname(page.file), target))


def _stem(name: str) -> str:
    last = name.rpartition("/")[2].strip()
    for ending in (".md", ".markdown"):
        last = last.removesuffix(ending)
    return last.casefold()
