"""Tell the words that a person typed from code, quotations, program output and pasted text.

Works on lines and on shapes of text. `judge.py` finds pasted prose, which has no marks, by its words.
"""

from __future__ import annotations

import re

from vademecum.lazy import lazy_pattern
from vademecum.text import fences

_WIDEST = 8_000  # characters at either end of a message: people write before a paste and after it
_OWN = ("vade-memory", "compacted_history", "thread_summary", "system-reminder")
# Lines that programs print: levels, stack frames, places in files, times, prompts, hunks, tables, JSON.
_PRINTED = re.compile(
    r"""^\s*(?:
        >|\#\s|\|
        |(?:[A-Z][\w.]*(?:Error|Exception|Warning)|Traceback|Caused\ by|Expected|Actual
            |Received|fatal|FATAL|panic|npm|yarn|error|warning|
            ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|CRITICAL|NOTICE|E|W)\b[:\[ (].{0,2000}$
        |at\ [\w.$<>/]+\s?\(.*$
        |File\ ".*$
        |[\w./\\-]+:\d+(?::\d+)?[:\s].*$
        |[\w./-]+:\ (?:Permission|No\ such|command\ not|cannot|not\ found).*$
        |\[?\d{4}-\d\d-\d\d[T ]\d\d:.*$
        |\[?\d\d:\d\d:\d\d.*$
        |[+-]\s?\d+\s.*$
        |(?:@@|diff\ |index\ [0-9a-f]{6}|---\ a/|\+\+\+\ b/).*$
        |[$%❯➜]\ \S.*$
        |[{}\[\]();,]+\s*$
        |"[\w-]+"\s*:.*$
        |[\w-]+:\ [\w.]+(?:\ [\w.]+)?$
    )""",
    re.VERBOSE,
)


# Phrases of planted instructions, which pasted texts use to speak to an agent.
_PLANTED = lazy_pattern(
    r"\b(?:ignore (?:all|any|earlier|previous|the)\b|(?:earlier|previous|system) (?:instructions|prompt)"
    r"|the user (?:wants|likes|prefers))|^[ \t]*system:",
    re.IGNORECASE | re.MULTILINE,
)


def is_planted(text: str) -> bool:
    """Whether a text holds a phrase of planted instructions, such as "ignore all earlier rules"."""
    return _PLANTED.search(text) is not None


def own_words(text: str) -> str:
    """Return a message with blanks in place of code, quoted lines, logs and generated text.

    The message keeps its length; the middle of a very long one is blank too.
    """
    text = _without_middle(text)
    for name in _OWN:
        text = _without_block(text, f"<{name}", f"</{name}>")
    text = fences.blank(text)
    lines = [" " * len(line) if _PRINTED.match(line) else line for line in text.split("\n")]
    return "\n".join(lines)


def _without_middle(text: str) -> str:
    """Return a long text with blanks between its two ends; a fence that is open there stays open."""
    if len(text) <= 2 * _WIDEST:
        return text
    middle = text[_WIDEST:-_WIDEST]
    mark = "```" if middle.count("```") % 2 else ""
    return f"{text[:_WIDEST]}\n{mark}{' ' * (len(middle) - 2 - len(mark))}\n{text[-_WIDEST:]}"


def _without_block(text: str, opening: str, closing: str) -> str:
    parts: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0:
        end = text.find(closing, start)
        end = len(text) if end < 0 else end + len(closing)
        parts += [text[at:start], blank(text[start:end])]
        at = end
    return "".join([*parts, text[at:]]) if parts else text


def blank(text: str) -> str:
    """Return a text in which all characters but the line ends are blanks."""
    return "\n".join(" " * len(line) for line in text.split("\n"))
