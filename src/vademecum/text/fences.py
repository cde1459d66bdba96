"""Find fenced code blocks in Markdown, for all code that must not take program text for prose.

As CommonMark has it: three or more backticks or tildes, indented by up to three spaces, or by more inside a
list item; closed by at least as many of the same with nothing behind them; an open fence runs to the end. One
difference: a line further left than its list item does not end a fence, nor does a fence end the list above
it, because people paste code like that. So a text has no other fences once its fences are blank.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST = 4  # spaces that make a line code by themselves
_OPENING = lazy_pattern(r"(`{3,})([^`]*)\Z|(~{3,})(.*)\Z")
_ITEM = lazy_pattern(r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)+")
_RUNS = lazy_pattern(r"^[ \t]*(`{3,})", re.MULTILINE)


class Fence(NamedTuple):
    """A fenced code block by its positions in a text: the whole without its last line end, and the inside."""

    start: int
    inner_start: int
    inner_end: int
    end: int
    info: str
    closed: bool


class _Line(NamedTuple):
    start: int
    end: int  # without the line feed
    bare: str
    indent: int


def find(text: str) -> list[Fence]:
    """Return the fenced code blocks of a text, in the order of the text."""
    if "```" not in text and "~~~" not in text:
        return []
    found: list[Fence] = []
    opened: tuple[_Line, str, str] | None = None
    listed, paused = False, True
    for line in _lines(text):
        if opened is not None:
            at, run, info = opened
            if _closes(line, run, at.indent):
                found.append(Fence(at.start, min(at.end + 1, line.start), line.start, line.end, info, True))
                opened = None
        elif not line.bare:
            paused = True
        else:
            item = _ITEM.match(line.bare)
            bare = line.bare[item.end() :] if item else line.bare
            match = _OPENING.match(bare)
            ended = paused and line.indent < 2 and match is None
            listed = item is not None or (listed and not ended)
            if match and (listed or line.indent < _DEEPEST):
                indent = line.indent + len(line.bare) - len(bare)
                opened = (
                    line._replace(indent=indent),
                    match[1] or match[3],
                    (match[2] or match[4] or "").strip(),
                )
            paused = False
    if opened is not None:
        at, _, info = opened
        found.append(Fence(at.start, min(at.end + 1, len(text)), len(text), len(text), info, False))
    return found


def opening(bare: str) -> str:
    """Return the backticks or tildes with which a line (without indentation) opens a fence; else empty."""
    match = _OPENING.match(bare)
    return (match[1] or match[3]) if match else ""


def is_closing(line: str, run: str, indent: int) -> bool:
    """Whether a line closes the fence that was opened with this run of marks at this indentation."""
    return run in line and _closes(_line(line, 0), run, indent)


def is_open(text: str) -> bool:
    """Whether a text ends inside a fence that is not closed."""
    found = find(text)
    return bool(found) and not found[-1].closed


def blank(text: str, *, unclosed: bool = True) -> str:
    """Return a text of the same length and lines with blanks in place of its fenced code.

    With `unclosed=False`, a block that is never closed stays.
    """
    parts: list[str] = []
    at = 0
    for fence in find(text):
        if fence.closed or unclosed:
            lines = text[fence.start : fence.end].split("\n")
            parts += [text[at : fence.start], "\n".join(" " * len(line) for line in lines)]
            at = fence.end
    return "".join([*parts, text[at:]])


def remove(text: str) -> str:
    """Return a text with one blank in place of each fenced code block."""
    parts: list[str] = []
    at = 0
    for fence in find(text):
        parts += [text[at : fence.start], " "]
        at = fence.end
    return "".join([*parts, text[at:]])


def wrap(text: str, info: str = "") -> str:
    """Return a text as a fenced code block whose fence is so long that nothing in the text closes it."""
    longest = max((len(each) for each in _RUNS.findall(text)), default=2)
    run = "`" * max(3, longest + 1)
    return f"{run}{info}\n{text}\n{run}"


def unwrap(text: str, info: str = "") -> str | None:
    """Return the inside of a text that is exactly one closed code block with this `info`; None for other
    texts.
    """
    for fence in find(text)[:1]:
        if (fence.start, fence.end, fence.info, fence.closed) == (0, len(text), info, True):
            return text[fence.inner_start : fence.inner_end].removesuffix("\n")
    return None


def _closes(line: _Line, run: str, indent: int) -> bool:
    return line.bare.startswith(run) and not line.bare.strip(run[0]) and line.indent < indent + _DEEPEST


def _lines(text: str) -> Iterator[_Line]:
    at = 0
    for line in text.split("\n"):
        yield _line(line, at)
        at += len(line) + 1


def _line(line: str, at: int) -> _Line:
    lead = line[: len(line) - len(line.lstrip(" \t"))]
    indent = len(lead.expandtabs(4)) if "\t" in lead else len(lead)
    return _Line(at, at + len(line), line.strip(" \t\r"), indent)
