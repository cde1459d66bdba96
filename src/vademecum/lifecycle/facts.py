"""The exact things a text says, which no rewrite may lose: dates, numbers, identifiers, paths, code.

Pure text in, sets of words out; no model has a say in it.
"""

from __future__ import annotations

import re

from vademecum.text import fences, similarity

# In this order: what one pattern takes, the next ones do not see. A code span is a fact as a whole.
_PATTERNS = (
    re.compile(r"(?<!`)`([^`\n]{1,300})`(?!`)"),
    re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s<>()\[\]\"'`]+[^\s<>()\[\]\"'`.,;:!?]"),
    re.compile(r"(?<![\w@.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    re.compile(r"(?<![\w/.@+-])~?/?(?:[\w.@+-]+/)+[\w.@+-]*\w(?:#L\d+(?:-L?\d+)?|:\d+)?"),
    re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:?\d\d)?)?\b"),
    re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"),
    re.compile(r"(?<![\w])#\d+\b|\b[A-Z][A-Z0-9]+-\d+\b"),
    re.compile(r"\b(?!v\d)[A-Za-z]+-?\d[\w-]*\b"),
    re.compile(r"\bv?\d+(?:[.:,]\d+)*%?(?!\w)|\b\d\w*\b"),
    re.compile(r"\b[A-Za-z]\w*(?:_\w+)+\b|\b[a-z]+[0-9]*(?:[A-Z][a-z0-9]*)+\b|\b(?:[A-Z][a-z0-9]+){2,}\b"),
    re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b"),
    re.compile(r"\b[\w-]+\.(?:[a-z][a-z0-9]{0,4})\b(?<=[a-z0-9])"),
)
_LINK = re.compile(r"!?\[[^\]\n]{0,300}\]\([^)\n]{0,2000}\)|\[\[[^\]\n]{1,200}\]\]|<[a-z]+://[^>\s]+>")
_HTML = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]{0,40}(?:\s[^<>]{0,1000})?/?>|<!--(?:.{0,1000}?-->)?", re.DOTALL)
_HEADING = re.compile(r"(?m)^#{1,6}[ \t]+(.+?)[ \t#]*$")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_STEM = 5
_LETTERS_END = "\u0530"  # after Latin, Greek and Cyrillic: other scripts do not part their words


def facts(text: str) -> frozenset[str]:
    """Everything in a text that must be there letter by letter."""
    found: set[str] = set()
    for fence in fences.find(text):
        inner = text[fence.inner_start : fence.inner_end].split("\n")
        found.update(line.strip() for line in inner if line.strip())
    rest = fences.remove(text)
    for pattern in _PATTERNS:
        for match in pattern.finditer(rest):
            fact = match[pattern.groups and 1].strip().rstrip(".,;:")
            if fact:
                found.add(fact)
        rest = pattern.sub(" ", rest)
    return frozenset(found)


def says(text: str, fact: str) -> bool:
    """Whether a text has a fact, as a whole and not as a part of another: 8080 is not in 18080."""
    start = r"(?<!\w)" if fact[:1].isalnum() or fact[:1] == "_" else ""
    end = r"(?!\w)" if fact[-1:].isalnum() or fact[-1:] == "_" else ""
    more = r"(?![.:,]\d)" if fact[-1:].isdigit() else ""
    less = r"(?<!\d[.:,])" if fact[:1].isdigit() else ""
    return re.search(f"{less}{start}{re.escape(fact)}{end}{more}", text) is not None


def links(text: str) -> frozenset[str]:
    """The links and images of a text."""
    return frozenset(_LINK.findall(_without_code(text)))


def markup(text: str) -> frozenset[str]:
    """The HTML of a text, outside of code."""
    return frozenset(_HTML.findall(_without_code(text)))


def headings(text: str) -> frozenset[str]:
    """The headings of a text, outside of code."""
    return frozenset(match.strip().casefold() for match in _HEADING.findall(_without_code(text)))


def turned(before: str, after: str) -> frozenset[str]:
    """The facts of which one text says yes and the other only no: `use make` and `never use make`.

    Those that a text both affirms and denies are left out: which of the two holds is not to be seen here.
    """
    was, now = _moods(before), _moods(after)
    return frozenset(
        fact
        for fact, moods in now.items()
        if len(moods) == 1 and len(was.get(fact, ())) == 1 and moods != was[fact]
    )


def stems(text: str) -> frozenset[str]:
    """The beginnings of the longer words, which stay when a sentence is worded anew."""
    return frozenset(word[:_STEM].casefold() for word in _LONG_WORD.findall(text) if word[0] < _LETTERS_END)


def sentences(text: str) -> list[str]:
    """The sentences of a text, code aside."""
    return [each for each in _SENTENCE.split(fences.remove(text)) if each.strip()]


def _moods(text: str) -> dict[str, set[bool]]:
    """The facts of each sentence, and whether that sentence has a word of denial."""
    found: dict[str, set[bool]] = {}
    for sentence in sentences(text):
        words = re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)?", _without_code(sentence).lower())
        denied = any(similarity.is_negation(word.replace("'", "").replace("’", "")) for word in words)
        for fact in facts(sentence):
            found.setdefault(fact, set()).add(denied)
    return found


def _without_code(text: str) -> str:
    return re.sub(r"(?<!`)`[^`\n]{1,300}`(?!`)", " ", fences.remove(text))
