"""Find links and HTML in Markdown, outside of code."""

from __future__ import annotations

import re

from vademecum.text import fences

_LINK = re.compile(r"!?\[[^\]\n]{0,300}\]\([^)\n]{0,2000}\)|\[\[[^\]\n]{1,200}\]\]|<[a-z]+://[^>\s]+>")
_HTML = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]{0,40}(?:\s[^<>]{0,1000})?/?>|<!--(?:.{0,1000}?-->)?", re.DOTALL)


def find_links(text: str) -> frozenset[str]:
    """Return the links and images in a Markdown text as they are written there, except in code."""
    return frozenset(_LINK.findall(_without_code(text)))


def find_markup(text: str) -> frozenset[str]:
    """Return the HTML tags and comments in a Markdown text as they are written there, except in code."""
    return frozenset(_HTML.findall(_without_code(text)))


def _without_code(text: str) -> str:
    return re.sub(r"(?<!`)`[^`\n]{1,300}`(?!`)", " ", fences.remove(text))
