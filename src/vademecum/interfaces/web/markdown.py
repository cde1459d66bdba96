"""Texts of memory on a page: safe HTML from Markdown, and passages with the query's words marked.

The HTML has no script, no style, no external picture, and nothing invisible.
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

LONGEST = 256 << 10  # characters that are rendered; a longer text is shown unformatted
LONGEST_LINE = 20_000
LONGEST_ROW = 1_000  # in a list, where only the beginning of a text is shown
_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code"),
    *("em", "strong", "s", "del", "a", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES: Mapping[str, set[str]] = {"a": {"href", "title"}, "code": {"class"}, "ol": {"start"}}


def render(text: str) -> Markup:
    """Return a text as HTML, with invisible characters spelled out; a very long text is shown as
    plain text.
    """
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
    return Markup(made)  # cleaned above


def plain(line: str) -> str:
    """Return a Markdown line as plain text, without emphasis, code marks and links, unless it is long."""
    if len(line) > LONGEST_ROW:
        return line
    made = _parser().parseInline(line)[0].children or []
    return "".join(" " if each.type.endswith("break") else each.content for each in made)


def link_records(made: Markup, related: Sequence[Mapping[str, Any]]) -> Markup:
    """Link each `[[key]]` in rendered text to the record it names; text in code stays unchanged."""
    known = {str(each["key"]): each for each in related}

    def link(found: re.Match[str]) -> str:
        target = known.get(html.unescape(found[1] or "").strip())
        if target is None:
            return found[0]
        where = f"{quote(target['key'])}?scope={quote(target['scope'])}"
        return str(Markup('<a href="{}">{}</a>').format(where, target["key"]))

    return Markup(
        re.sub(r"(?s)<code.*?</code>|\[\[([^\[\]<>|]+)\]\]", link, str(made))
    )  # only links are added


def show(value: object) -> object:
    """Return a template's value without characters that hide or reverse text."""
    return visible(value) if type(value) is str else value


def spell(text: str) -> Markup:
    """Return a text with invisible characters spelled out and highlighted."""
    pieces = re.split(r"(⟨U\+[0-9A-F]{4,6}⟩)", spelled(text))
    shown = [
        Markup('<span class="unseen">{}</span>').format(each) if at % 2 else escape(each)
        for at, each in enumerate(pieces)
    ]
    return Markup("").join(shown)


@functools.cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


# ------------------------------------------------------------------------------- search results

_LINES = 12  # of one result
_FILTER = re.compile(r'(?<!\S)(scope|type|tag|after|before|path):("[^"]*"|\S+)', re.IGNORECASE)
_MATCHES = {
    "strong": "Strong matches",
    "likely": "Likely matches",
    "weak": "Weak matches: they may not answer the question",
}
# Words that are in every text: marking them would hide the others.
_PLAIN = frozenset(
    "a an and are as at be but by can did do does for from had has have how i if in is it its me my of on"
    " or our that the their there they this to was we were what when where which who why will with you"
    " your".split()
)
# Names of the parts of a score; the rest is added or subtracted for word order, time and age.
_PARTS = {
    "vector": "meaning",
    "narrow": "words here",
    "wide": "words of its record",
    "exact": "exact name",
    "read": "reading",
}


def group_passages(answer: Mapping[str, Any], query: str) -> list[dict[str, Any]]:
    """Group the results by how likely they match, strongest first; without a question, they are one group."""
    if answer["mode"] == "metadata":
        rows = [_result(each, query) for each in answer["results"]]
        return [{"match": "listed", "title": "Records", "results": rows}] if rows else []
    found = []
    for match, title in _MATCHES.items():
        rows = [_result(each, query) for each in answer["results"] if each["match"] == match]
        if rows:
            found.append({"match": match, "title": title, "results": rows})
    return found


def _result(passage: Mapping[str, Any], query: str) -> dict[str, Any]:
    """Return a result with its lines, the query's words marked in them, and the parts of its score."""
    fields = {name: value for name, value in passage.items() if name not in ("arithmetic", "snippet")}
    return {**fields, "lines": mark_lines(str(passage["snippet"]), query), "parts": parts_of(passage)}


def parts_of(passage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a score as shares of a bar, and the amount added or subtracted afterwards."""
    parts = {
        _PARTS.get(name, name): value for name, value in passage["components"].items() if name != "score"
    }
    total = float(passage["components"].get("score") or passage["score"])
    known = sum(value for value in parts.values() if value > 0)
    whole = max(known, total, 1.0)
    bar = [
        {"name": name, "value": f"{value:.2f}", "share": 100 * value / whole}
        for name, value in parts.items()
        if value > 0.0005
    ]
    rest = total - sum(parts.values())
    return {"bar": bar, "score": f"{total:.2f}", "rest": f"{rest:+.2f}" if abs(rest) >= 0.005 else ""}


def mark_lines(text: str, query: str) -> list[dict[str, Any]]:
    """Return up to 12 lines, each cut into pieces that match the query or do not.

    They are the lines with the query's words and the lines beside them; without such words, the first lines.
    """
    query_words = dict.fromkeys(each.lower() for each in WORD.findall(_FILTER.sub(" ", query)))
    words = [each for each in query_words if len(each) > 1]
    wanted = [each for each in words if each not in _PLAIN] or words
    lines = [[*_pieces(line, wanted)] for line in text.split("\n")]
    # A text found by its meaning may hold none of the words; then its beginning is shown.
    hits = {at for at, line in enumerate(lines) if any(hit for _, hit in line)}
    near = [at for at in range(len(lines)) if not hits or not hits.isdisjoint((at - 1, at, at + 1))][:_LINES]
    marked: list[dict[str, Any]] = []
    for place, at in enumerate(near):
        skipped = at - (near[place - 1] if place else -1) > 1
        hit = at in hits or not hits
        pieces = [{"text": piece, "hit": each} for piece, each in lines[at]]
        marked.append({"pieces": pieces, "hit": hit, "skipped": skipped})
    return marked


def _pieces(line: str, wanted: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield a line in pieces: words that match the query in any ending, and the text between them."""
    at = 0
    for match in WORD.finditer(line):
        if _is_query_word(match[0].lower(), wanted):
            if match.start() > at:
                yield line[at : match.start()], False
            yield match[0], True
            at = match.end()
    if at < len(line):
        yield line[at:], False


def _is_query_word(word: str, wanted: Sequence[str]) -> bool:
    return any(
        word == each or (len(each) > 3 and word.startswith(each[: max(4, len(each) - 2)])) for each in wanted
    )


def find_filters(query: str) -> list[dict[str, str]]:
    """Return the filters of a query, each with the encoded query that lacks this filter."""
    return [
        {
            "text": match[0],
            "without": urlencode({"q": " ".join((query[: match.start()] + query[match.end() :]).split())}),
        }
        for match in _FILTER.finditer(query)
    ]
