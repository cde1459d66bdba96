"""Text that memory made itself and that came back as if it were knowledge."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.lifecycle.lint.base import JOURNAL, PINNED, RECORD, line_of
from vademecum.text import fences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.lifecycle.lint.base import Material
    from vademecum.types import Finding

NAME = "generated_text"
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


def check(material: Material) -> Iterator[Finding]:
    """Our own words among the entries, the notes and the pinned documents."""
    for page in material.watch.each(material.pages, NAME):
        if page.kind not in (RECORD, JOURNAL, PINNED) or not _may_be(page.text):
            continue
        plain = fences.blank(page.text)
        for shape, what in _SHAPES:
            match = shape.search(plain)
            if match is not None:
                line, last = (
                    line_of(plain, match.start()),
                    line_of(plain, max(match.end() - 1, match.start())),
                )
                yield page.found(NAME, f"{what} is kept as if it were knowledge", line=line, last=last)


def _may_be(text: str) -> bool:
    return "-memory" in text or "<thread_summary" in text or "# Memory\n" in text or "## See " in text
