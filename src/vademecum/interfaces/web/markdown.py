"""Texts of memory on a page: Markdown as HTML that can do nothing, passages with what was asked for marked.

No script, no style, no picture from elsewhere, nothing invisible.
"""

from __future__ import annotations

import functools
import html
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from vademecum.text import WORD, spelled, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LONGEST = 256 << 10  # characters that are rendered; what is longer is shown as it stands
LONGEST_LINE = 20_000
LONGEST_ROW = 1_000  # of a list, where only the beginning of a text is shown
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


def plain(line: str) -> str:
    """A short line of Markdown as it reads, without the marks of emphasis, code and links."""
    if len(line) > LONGEST_ROW:
        return line
    made = _parser().parseInline(line)[0].children or []
    return "".join(" " if each.type.endswith("break") else each.content for each in made)


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


# ------------------------------------------------------------------------------- results of a search

_LINES = 12  # of one result
_FILTER = re.compile(r'(?<!\S)(scope|type|tag|after|before|path):("[^"]*"|\S+)', re.IGNORECASE)
_MATCHES = {
    "strong": "Strong matches",
    "likely": "Likely matches",
    "weak": "Weak matches: they may not answer the question",
}
# Words of a question that are in every text: to mark them would hide the others.
_PLAIN = frozenset(
    "a an and are as at be but by can did do does for from had has have how i if in is it its me my of on"
    " or our that the their there they this to was we were what when where which who why will with you"
    " your".split()
)
# What each part of a score is called; the rest of it is what the order of words, time and age add or take.
_PARTS = {
    "vector": "meaning",
    "narrow": "words here",
    "wide": "words of its record",
    "exact": "exact name",
    "read": "reading",
}


def group_passages(told: Mapping[str, Any], asked: str) -> list[dict[str, Any]]:
    """The results of an answer by how likely they answer, the surest first; what only lists is one group."""
    if told["mode"] == "metadata":
        rows = [_result(each, asked) for each in told["results"]]
        return [{"match": "listed", "title": "Records", "results": rows}] if rows else []
    found = []
    for match, title in _MATCHES.items():
        rows = [_result(each, asked) for each in told["results"] if each["match"] == match]
        if rows:
            found.append({"match": match, "title": title, "results": rows})
    return found


def _result(told: Mapping[str, Any], asked: str) -> dict[str, Any]:
    """A result with its lines, what is asked for marked in them, and its score in parts."""
    shown = {name: value for name, value in told.items() if name not in ("arithmetic", "snippet")}
    return {**shown, "lines": mark_lines(str(told["snippet"]), asked), "parts": parts_of(told)}


def parts_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a score is the sum of, as shares of a bar, and what was added or taken after that."""
    parts = {_PARTS.get(name, name): value for name, value in told["components"].items() if name != "score"}
    total = float(told["components"].get("score") or told["score"])
    known = sum(value for value in parts.values() if value > 0)
    whole = max(known, total, 1.0)
    bar = [
        {"name": name, "value": f"{value:.2f}", "share": 100 * value / whole}
        for name, value in parts.items()
        if value > 0.0005
    ]
    rest = total - sum(parts.values())
    return {"bar": bar, "score": f"{total:.2f}", "rest": f"{rest:+.2f}" if abs(rest) >= 0.005 else ""}


def mark_lines(text: str, asked: str) -> list[dict[str, Any]]:
    """The lines of a text around those that hold what was asked for, each cut into pieces, hit or not."""
    said = dict.fromkeys(each.lower() for each in WORD.findall(_FILTER.sub(" ", asked)))
    words = [each for each in said if len(each) > 1]
    wanted = [each for each in words if each not in _PLAIN] or words
    lines = [[*_pieces(line, wanted)] for line in text.split("\n")]
    # A text found by its meaning may hold none of the words: then it is shown from its beginning.
    hits = {at for at, line in enumerate(lines) if any(hit for _, hit in line)}
    near = [at for at in range(len(lines)) if not hits or not hits.isdisjoint((at - 1, at, at + 1))][:_LINES]
    shown: list[dict[str, Any]] = []
    for place, at in enumerate(near):
        skipped = at - (near[place - 1] if place else -1) > 1
        hit = at in hits or not hits
        pieces = [{"text": piece, "hit": each} for piece, each in lines[at]]
        shown.append({"pieces": pieces, "hit": hit, "skipped": skipped})
    return shown


def _pieces(line: str, wanted: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """A line in pieces: words that are asked for, in any of their endings, and what stands between."""
    at = 0
    for match in WORD.finditer(line):
        if _is_asked(match[0].lower(), wanted):
            if match.start() > at:
                yield line[at : match.start()], False
            yield match[0], True
            at = match.end()
    if at < len(line):
        yield line[at:], False


def _is_asked(word: str, wanted: Sequence[str]) -> bool:
    return any(
        word == each or (len(each) > 3 and word.startswith(each[: max(4, len(each) - 2)])) for each in wanted
    )


def find_filters(asked: str) -> list[dict[str, str]]:
    """The filters of a question, each with the question without it."""
    return [
        {
            "text": match[0],
            "without": urlencode({"q": " ".join((asked[: match.start()] + asked[match.end() :]).split())}),
        }
        for match in _FILTER.finditer(asked)
    ]
