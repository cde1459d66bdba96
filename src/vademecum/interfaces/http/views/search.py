"""Search: what answers a question, why it ranks where it does, and what was searched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vademecum.interfaces.http.pages import Ask, PageView
from vademecum.interfaces.present.to_json import answer_json
from vademecum.text import WORD
from vademecum.types import LEARNED, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vademecum import Answer
    from vademecum.memory import Memory

MOST = 20  # results, unless more are asked for
_LONGEST = 2000  # characters of a question
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


def data(ask: Ask) -> dict[str, Any]:
    """What answers `?q=`; filters stand in the question, as in `vade search`."""
    asked = ask.query.get("q", "")[:_LONGEST]
    limit = ask.query.get("limit", "")
    most = min(int(limit), 100) if limit.isdecimal() and int(limit) else MOST
    shown: dict[str, Any] = {"q": asked, "filters": _filters(asked), "groups": [], "answer": None}
    shown["suggested"] = [] if shown["filters"] else _suggested(ask.memory, asked)
    if not asked.strip():
        return shown
    answer = ask.memory.search(asked, explain=True, max_results=most, max_weak=-1)
    shown["answer"] = {**answer_json(answer, explain=True), "results": []}
    shown["groups"] = _groups(answer, asked)
    shown["more"] = urlencode({"q": asked, "limit": min(most * 2, 100)}) if len(answer) >= most < 100 else ""
    return shown


def _groups(answer: Answer, asked: str) -> list[dict[str, Any]]:
    """The results by how likely they answer, the surest first; what only lists is one group."""
    told = answer_json(answer, explain=True)["results"]
    if answer.mode == "metadata":
        rows = [_result(each, asked) for each in told]
        return [{"match": "listed", "title": "Records", "results": rows}] if rows else []
    found = []
    for match, title in _MATCHES.items():
        rows = [_result(each, asked) for each in told if each["match"] == match]
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
    words = [each.lower() for each in WORD.findall(_FILTER.sub(" ", asked)) if len(each) > 1]
    wanted = [each for each in words if each not in _PLAIN] or words
    lines = [[*_pieces(line, wanted)] for line in text.split("\n")]
    # A text found by its meaning may hold none of the words: then it is shown from its beginning.
    hits = [at for at, line in enumerate(lines) if any(hit for _, hit in line)]
    near = [at for at in range(len(lines)) if not hits or any(abs(at - hit) <= 1 for hit in hits)][:_LINES]
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


def _filters(asked: str) -> list[dict[str, str]]:
    """The filters of a question, each with the question without it."""
    return [
        {
            "text": match[0],
            "without": urlencode({"q": " ".join((asked[: match.start()] + asked[match.end() :]).split())}),
        }
        for match in _FILTER.finditer(asked)
    ]


def _suggested(memory: Memory, asked: str) -> list[dict[str, str]]:
    """Filters that one could add to a question."""
    learned = next(iter(LEARNED))
    words = [f"scope:{Scope.GLOBAL}", f"type:{RecordType.USER}", f"type:{learned}"]
    if memory.caller.project is not None:
        words.insert(0, f"scope:{Scope.PROJECT}")
    return [{"text": each, "query": urlencode({"q": f"{asked} {each}".strip()})} for each in words]


VIEW = PageView("/search", "Search", data, "search.html", icon="search", key="f")
