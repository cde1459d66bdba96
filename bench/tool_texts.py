"""How well the texts of the MCP tools tell them apart: the right one ranked first for prompts of our own.

The prompts (`sets/tools.jsonl`) were written before anything was run, and are split by a hash of the id: who
mends words looks at one half, and of the other only totals are ever printed. A tool's text is its name, its
description and the names of its arguments, as offered now and as before tools were merged
(`sets/tools_before.json`). A prompt is right before with any of the tools that became one. No model chooses
here: the texts are ranked by words and by the shipped vectors.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.small_sets import FOLDER, HELD, TUNE, half
from vademecum.index.embed.base import common_direction, likeness
from vademecum.index.embed.select import shipped, shipped_reader
from vademecum.interfaces.mcp.protocol import OFFER
from vademecum.text.vocabulary import stem

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    Rows = list[dict[str, object]]
    Texts = Mapping[str, str]  # of each tool, by its name
    Scores = Mapping[str, float]
    Ranker = Callable[[Texts, Sequence[str]], list[Scores]]

BEFORE = FOLDER / "tools_before.json"
# What became of the tools before: one now does what several did, and there is no to-do list any more.
MERGED = {
    "memory_recall": "memory_search",
    "session_search": "memory_search",
    "memory_learn": "memory_store",
    "todo": "",
}
_SATURATION, _BY_LENGTH = 1.2, 0.75  # as FTS5 has them


class Prompt(NamedTuple):
    """What a person types, and the tools that are right for it: often one, sometimes none."""

    id: str
    prompt: str
    tools: tuple[str, ...]


def read_prompts() -> list[Prompt]:
    """The whole set, in its order."""
    lines = (FOLDER / "tools.jsonl").read_text("utf-8").splitlines()
    return [Prompt(row["id"], row["prompt"], tuple(row["tools"])) for row in map(json.loads, lines)]


def read_texts(path: Path, *, explained: bool = False, joined: bool = False) -> dict[str, str]:
    """What an offer says of each tool, with what it says of the arguments if that is wanted too.

    With `joined`, as it is where a workspace of a hub was joined.
    """
    offer = json.loads(path.read_text("utf-8"))
    for name, more in offer.get("joined", {}).items() if joined else ():
        offer["tools"][name]["inputSchema"]["properties"] |= {
            arg: each["schema"] for arg, each in more.items()
        }
    return {name: _text(offer["tools"][name], explained=explained) for name in offer["families"]["core"]}


def _text(tool: dict[str, Any], *, explained: bool) -> str:
    properties = tool["inputSchema"]["properties"]
    words = [each.get("description", "") for each in properties.values()] if explained else []
    return "\n".join([tool["name"], tool["description"], " ".join(properties), *filter(None, words)])


def by_words(texts: Texts, prompts: Sequence[str]) -> list[Scores]:
    """BM25 of each tool for each prompt."""
    counts = {name: Counter(_stems(text)) for name, text in texts.items()}
    sizes = {name: sum(each.values()) for name, each in counts.items()}
    mean = sum(sizes.values()) / len(sizes)
    having = Counter(word for each in counts.values() for word in each)
    rare = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in having.items()}

    def score(name: str, words: set[str]) -> float:
        least = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * sizes[name] / mean)
        found = {word: counts[name][word] for word in sorted(words) if word in counts[name]}
        return sum(rare[word] * n * (_SATURATION + 1) / (n + least) for word, n in found.items())

    return [{name: score(name, set(_stems(prompt))) for name in texts} for prompt in prompts]


def _stems(text: str) -> list[str]:
    return [stem(word) for word in re.findall(r"[^\W_]+", text.lower())]


def by_static(texts: Texts, prompts: Sequence[str]) -> list[Scores]:
    """The likeness of the shipped static vectors."""
    model = shipped()
    mean, rows = common_direction(model), model.embed([*texts.values()])
    vectors = model.embed(prompts, query=True)
    return [dict(zip(texts, likeness(rows, one, mean=mean).tolist(), strict=True)) for one in vectors]


def by_reading(texts: Texts, prompts: Sequence[str]) -> list[Scores]:
    """The cosine of the shipped model that reads, of the part of a text that is nearest."""
    model = shipped_reader()
    parts = [(name, part) for name, text in texts.items() for part in model.cut(text)]
    near = model.embed(prompts, query=True) @ model.embed([part for _, part in parts]).T
    return [
        {
            name: max(float(value) for value, (own, _) in zip(row, parts, strict=True) if own == name)
            for name in texts
        }
        for row in near
    ]


def merge(scores: Scores) -> Scores:
    """The scores of the tools of today: of several that became one, the best; none for one that is gone."""
    best: dict[str, float] = {}
    for name, score in scores.items():
        if own := MERGED.get(name, name):
            best[own] = max(score, best.get(own, score))
    return best


RANKERS: dict[str, Ranker] = {"BM25": by_words, "static": by_static, "reading": by_reading}


def place(scores: Scores, right: Sequence[str]) -> int:
    """Where the best of the right tools stands, from 1; one that scores as much as it stands before it."""
    best = max(scores[name] for name in right)
    return 1 + sum(score >= best for name, score in scores.items() if name not in right)


def told_from_none(fitting: Sequence[float], others: Sequence[float]) -> float:
    """How often a prompt that a tool fits scores higher than one that none fits; a tie counts half."""
    won = sum((one > other) + (one == other) / 2 for one in fitting for other in others)
    return won / (len(fitting) * len(others))


class Ranked(NamedTuple):
    """A prompt, and how the tools scored for it."""

    prompt: Prompt
    scores: Scores


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--before", type=Path, default=BEFORE, help="the offer to compare with")
    parser.add_argument("--joined", action="store_true", help="as offered where a hub was joined")
    parser.add_argument("--explained", action="store_true", help="with what is said of each argument")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Rank by every means for both offers: totals of both halves, and by tool the half to tune on."""
    prompts = read_prompts()
    offers = {"now": Path(OFFER), "before": chosen.before}
    found: dict[tuple[str, str], list[Ranked]] = {}
    for way, rank in RANKERS.items():
        for offer, path in offers.items():
            texts = read_texts(path, explained=chosen.explained, joined=chosen.joined)
            scores = [merge(each) for each in rank(texts, [each.prompt for each in prompts])]
            found[way, offer] = [Ranked(*each) for each in zip(prompts, scores, strict=True)]
    return {
        "tools told apart by their texts": _totals(found),
        "first and first two by tool, of the half to tune on": _by_tool(found),
    }


def count(ranked: Sequence[Ranked]) -> dict[str, object]:
    """How often a right tool stands first or among the first two, and how prompts for none stand apart."""
    places = [place(each.scores, each.prompt.tools) for each in ranked if each.prompt.tools]
    tops: dict[bool, list[float]] = {True: [], False: []}
    for each in ranked:
        tops[bool(each.prompt.tools)].append(max(each.scores.values()))
    return {
        "prompts": len(places),
        "first": round(sum(at == 1 for at in places) / len(places), 3),
        "first two": round(sum(at <= 2 for at in places) / len(places), 3),
        "for none": len(tops[False]),
        "told from none": round(told_from_none(tops[True], tops[False]), 3),
    }


def _totals(found: Mapping[tuple[str, str], list[Ranked]]) -> Rows:
    rows: Rows = []
    for part in (TUNE, HELD):
        for (way, offer), ranked in found.items():
            own = [each for each in ranked if half(each.prompt.id) == part]
            rows.append({"half": part, "by": way, "texts": offer, **count(own)})
    return rows


def _by_tool(found: Mapping[tuple[str, str], list[Ranked]]) -> Rows:
    rows: Rows = []
    for tool in read_texts(Path(OFFER)):
        row: dict[str, object] = {"tool": tool}
        for (way, offer), ranked in found.items():
            own = [each for each in ranked if each.prompt.tools == (tool,) and half(each.prompt.id) == TUNE]
            places = [place(each.scores, each.prompt.tools) for each in own]
            row["prompts"] = len(places)
            row[f"{way} {offer}"] = f"{places.count(1)} {places.count(1) + places.count(2)}"
        rows.append(row)
    return rows
