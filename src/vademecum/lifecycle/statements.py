"""A text as the statements it makes: sentences and list items, with their lines, and whether they hold now.

Whatever stands in code or in a quotation is nobody's statement. What speaks of the past, of a plan, of a
condition or of an example says nothing of how things are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.text import fences

if TYPE_CHECKING:
    from collections.abc import Iterator

_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}[ \t]")
_ASIDE = re.compile(r"[ \t]*(?:>|\||<!--|<)")
# A sentence ends at its mark, before white space and something that begins another.
_END = re.compile(r"(?<=[.!?;])[\"')\]]?\s+(?=[\"'(\[`*_]*[A-Z0-9`])")
_ABBREVIATED = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|approx|no|nr|Mr|Ms|Dr|St)\.$", re.IGNORECASE)

_PAST = r"""
    was | were | wasn't | weren't | had | hadn't | did | didn't | until | till | previously | formerly
    | earlier | used\ to | back\ then | at\ first | originally | initially | historically | once | ago
    | last\ (?:week|month|year) | yesterday | removed | deleted | dropped | renamed | replaced | superseded
    | obsolete | deprecated | legacy | moved | migrated | switched | changed | became | went | before | old
    | gone | (?:in|as\ of|since|by|on|from)\ (?:19|20)\d\d | today | so\ far | as\ of
"""
_OPEN = r"""
    if | unless | except | when | whenever | while | might | may | could | would | perhaps | maybe | probably
    | will | shall | going\ to | plan(?:s|ned)?\ to | todo | to\ do | wants?\ to | consider | proposal
    | propose[sd]? | someday | eventually | not\ yet | for\ example | for\ instance | e\.g | such\ as
    | example | suppose | imagine | create | add | generate[sd]? | scaffold | placeholder
"""
_NOT_PRESENT = re.compile(rf"(?ix) (?<![\w-]) (?: {_PAST} | {_OPEN} ) (?![\w-])")

_CODE = re.compile(r"`[^`]*`")
_ABBREVIATIONS = frozenset({"e.g", "i.e"})


class Statement(NamedTuple):
    """One sentence or list item."""

    text: str
    line: int  # counted from 0, from where its text begins

    @property
    def present(self) -> bool:
        """Whether it says how things are: not how they were, might be, or are to become."""
        if self.text.rstrip().endswith("?"):
            return False
        words = (_plain(word) for word in _CODE.sub("x", self.text).split(" "))
        return _NOT_PRESENT.search(" ".join(words)) is None


def _plain(word: str) -> str:
    """A word, unless it is a name: `old` in a path says nothing about time."""
    bare = word.strip(".,;:!?()[]\"'*")
    named = "/" in bare or "_" in bare or ("." in bare and bare.lower() not in _ABBREVIATIONS)
    return "x" if named else word


def split(text: str) -> list[Statement]:
    """The statements of a text, in their order."""
    found: list[Statement] = []
    for block, line in _blocks(fences.blank(text)):
        found += _sentences(block, line)
    return found


def _blocks(text: str) -> Iterator[tuple[str, int]]:
    """Paragraphs and list items, each with the line on which it begins."""
    lines: list[str] = []
    begun = 0
    for number, line in enumerate([*text.split("\n"), ""]):
        item = _ITEM.match(line)
        if not line.strip() or item or _HEADING.match(line) or _ASIDE.match(line):
            if lines:
                yield "\n".join(lines), begun
            lines = []
            if item:
                lines, begun = [line[item.end() :]], number
            continue
        if not lines and line.startswith(("    ", "\t")):
            continue  # code, by its indentation
        if not lines:
            begun = number
        lines.append(line)


def _sentences(block: str, line: int) -> Iterator[Statement]:
    at = 0
    for end in _END.finditer(block):
        if _ABBREVIATED.search(block, max(at, end.start() - 8), end.start()):
            continue
        yield from _statement(block[at : end.start()], line)
        line += block.count("\n", at, end.end())
        at = end.end()
    yield from _statement(block[at:], line)


def _statement(text: str, line: int) -> Iterator[Statement]:
    folded = " ".join(text.split())
    if folded:
        yield Statement(folded, line)
