"""Markdown as HTML that can do nothing: no script, no style, no picture from elsewhere, nothing invisible."""

from __future__ import annotations

import functools
import html
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from vademecum.text import spelled, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST = 256 << 10  # characters that are rendered; what is longer is shown as it stands
LONGEST_LINE = 20_000
_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code"),
    *("em", "strong", "s", "del", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES: Mapping[str, set[str]] = {"a": {"href", "title"}, "code": {"class"}, "ol": {"start"}}


def render(text: str) -> Markup:
    """A text as HTML, with what cannot be seen written out; what is too long is shown as plain text."""
    shown = spelled(text)
    if len(shown) > LONGEST or any(len(line) > LONGEST_LINE for line in shown.splitlines()):
        return Markup("<pre>{}</pre>").format(escape(shown))
    made = nh3.clean(
        _parser().render(shown),
        tags=_TAGS,
        attributes={name: set(each) for name, each in _ATTRIBUTES.items()},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        strip_comments=True,
    )
    return Markup(made)  # it was cleaned just now


def link_records(made: Markup, related: Sequence[Mapping[str, Any]]) -> Markup:
    """Rendered text whose `[[key]]` lead to the records they name; in code they stay as they are."""
    known = {str(each["key"]): each for each in related}

    def link(found: re.Match[str]) -> str:
        target = known.get(html.unescape(found[1] or "").strip())
        if target is None:
            return found[0]
        where = f"{quote(target['key'])}?scope={quote(target['scope'])}"
        return str(Markup('<a href="{}">{}</a>').format(where, target["key"]))

    return Markup(re.sub(r"(?s)<code.*?</code>|\[\[([^\[\]<>|]+)\]\]", link, str(made)))  # only links are new


def show(value: object) -> object:
    """What a template puts in a page: no text in it hides or turns round what it says."""
    return visible(value) if type(value) is str else value


def spell(text: str) -> Markup:
    """A text exactly as it is, with what cannot be seen written out and set off."""
    pieces = re.split(r"(⟨U\+[0-9A-F]{4,6}⟩)", spelled(text))
    shown = [
        Markup('<span class="unseen">{}</span>').format(each) if at % 2 else escape(each)
        for at, each in enumerate(pieces)
    ]
    return Markup("").join(shown)


@functools.cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
