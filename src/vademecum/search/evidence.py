"""What an answer shows of each conversation: the hits, what stands around them, and what else the user said.

The hits of one conversation are one result. Texts are cut so that all of an answer fits into a number of
characters, of which the first results get more. Knows texts and numbers, and no index or files.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from vademecum.config import RESULTS
from vademecum.index.base import MEMORY
from vademecum.index.words import PERSON
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.text import WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vademecum.search.base import Passage

LONGEST_HIT = 700  # characters of one hit
SHORTEST_HIT = 160  # characters that a hit has however little room is left
TURN = 200  # characters of another turn of the conversation
SHORTEST_TURN = 60
NEAR = 1  # turns before and after a hit that are shown whoever said them
MOST_TURNS = 12  # other turns of one conversation
_DISTANT = 2  # how much farther away a turn counts that the user did not say

_STEEP = 0.8  # how fast the room of a result falls with its place
_APART = 0.08  # the share of words that may differ between a text and its repetition
_DECISIVE = frozenset(
    "not no never none nothing nobody without cannot nicht kein keine nie ne pas non sin".split()
)
_ROLES = ("user:", "assistant:")
_SENTENCE = lazy_pattern(r"(?:[^.!?…。！？\n]+|[.!?…](?=\S))+[.!?…。！？]*\s*|\s+|[\s\S]")
_MARKS = 4  # characters of the signs before and after a text that was cut
_QUESTION = lazy_pattern(r"[?？][\"')\]]*\s*$")


class TurnBeside(NamedTuple):
    """A turn of a conversation: its line in the file, who said it, when, and its text."""

    line: int
    role: str
    time: str
    text: str


class OtherTurn(NamedTuple):
    """A turn that may be shown beside the hits; `read` returns its text, or '' where it is gone.

    Reading opens a log, and most of these turns find no room in an answer.
    """

    line: int
    role: str
    time: str
    read: Callable[[], str]


class FoundConversation(NamedTuple):
    """A conversation that has hits: where it is, when it was, and turns of it beside the hits."""

    group: int
    path: str
    title: str
    time: str
    turns: tuple[TurnBeside, ...]


def gather(
    results: Sequence[Passage],
    turns: Mapping[str, Sequence[OtherTurn]],
    words: Sequence[str],
    *,
    chars: int,
) -> tuple[tuple[Passage, ...], tuple[FoundConversation, ...]]:
    """Return the results with their texts cut to fit, and each conversation that has a result.

    `turns` has, by the path of a file, the turns that are no results, in order; `words` are those of the
    question; `chars` is the length of all texts together. If `chars` is 0, nothing is cut.
    """
    groups: dict[str, list[int]] = {}
    for at, each in enumerate(results):
        groups.setdefault(each.path if each.role else f"{at}", []).append(at)
    made = list(results)
    conversations: list[FoundConversation] = []
    shares = _shares(len(groups), chars)
    left = 0.0
    for (path, places), share in zip(groups.items(), shares, strict=True):
        left += share
        hits = [made[at] for at in places]
        most = max(SHORTEST_HIT, min(LONGEST_HIT, int(left * 0.7 / len(hits))))
        for at, hit in zip(places, hits, strict=True):
            text = cut(hit.snippet, words, most) if chars else hit.snippet
            left -= len(text)
            made[at] = hit._replace(snippet=text)
        if not hits[0].role:
            continue
        number = len(conversations) + 1
        for at in places:
            made[at] = made[at]._replace(group=number)
        shown, used = _fitting(turns.get(path, ()), hits, left if chars else float("inf"))
        left -= used
        conversations.append(FoundConversation(number, path, hits[0].title, hits[0].time or "", shown))
    return tuple(made), tuple(conversations)


def room(chars: int, places: int) -> int:
    """Return the characters of an answer: `chars` for each usual place, and half for each further place."""
    return chars * min(places, RESULTS) + chars * max(0, places - RESULTS) // 2


def _shares(count: int, chars: int) -> list[float]:
    """Return how many characters each result gets; the first gets most."""
    weights = [1 / (1 + at) ** _STEEP for at in range(count)]
    return [chars * weight / sum(weights) for weight in weights]


def _fitting(
    turns: Iterable[OtherTurn], hits: Sequence[Passage], room: float
) -> tuple[tuple[TurnBeside, ...], float]:
    """Return the turns nearest to the hits that fit into the room, in file order, and the characters used."""
    lines = [hit.start for hit in hits]

    def distance(numbered: tuple[int, OtherTurn]) -> int:
        turn = numbered[1]
        return min(abs(turn.line - line) for line in lines) + (0 if turn.role in PERSON else _DISTANT)

    chosen: dict[int, TurnBeside] = {}
    used = 0.0
    for at, turn in sorted(enumerate(turns), key=distance):
        size = min(TURN, room - used)
        if size < SHORTEST_TURN or len(chosen) >= MOST_TURNS:
            break
        text = turn.read()
        if not text:
            continue
        short = text if room == float("inf") else shortened(text, int(size))
        used += len(short)
        chosen[at] = TurnBeside(turn.line, turn.role, turn.time, short)
    return tuple(chosen[at] for at in sorted(chosen)), used


def repetitions(texts: Iterable[tuple[str, str]]) -> set[int]:
    """Return the places of texts, each with its source, that repeat a text before them.

    A repetition has the same words or nearly so. Records never count: each has a topic of its own.
    """
    found: set[int] = set()
    seen: dict[str, list[frozenset[str]]] = {}  # by each of their longest words
    for at, (source, text) in enumerate(texts):
        _, colon, said = text.partition(": ") if text[:20].lower().startswith(_ROLES) else ("", "", text)
        words = frozenset(WORD.findall((said if colon else text).lower()))
        # Two texts that differ in fewer words than these have one of them in common.
        count = int(_APART * len(words) / (1 - _APART)) + 1
        longest = sorted(sorted(words), key=len)[-count:]
        others = itertools.chain.from_iterable(seen.get(word, ()) for word in longest)
        if source != MEMORY and any(_repeats(words, other) for other in others):
            found.add(at)
        else:
            for word in longest:
                seen.setdefault(word, []).append(words)
    return found


def _repeats(words: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether two texts have the same words, except for a few without numbers and negations."""
    if words == other:
        return bool(words)
    if abs(len(words) - len(other)) > _APART * max(len(words), len(other)):
        return False  # most texts, without comparing their words
    apart = words ^ other
    if len(apart) > _APART * len(words | other):
        return False
    return not any(word in _DECISIVE or any(map(str.isdigit, word)) for word in apart)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, with the spaces behind each; joined they are the text."""
    return _SENTENCE.findall(text) if text else []


def cut(text: str, words: Sequence[str], size: int, *, whole: bool = False) -> str:
    """Return a part of a text, of at most `size` characters, with as many of the words as possible.

    The part begins with a sentence that has such a word, because an answer often follows the words that ask
    for it. With `whole`, the words match only as they are; else words that begin alike match too.
    """
    if len(text) <= size:
        return text
    room = size - _MARKS
    # A word counts more than another word that only begins like it.
    marks = [*words, *(() if whole else (word[: max(4, len(word) - 3)] for word in words))]
    parts = sentences(text)
    lowered = [part.lower() for part in parts]
    everything = "".join(lowered)
    numbered = [(number, mark) for number, mark in enumerate(marks) if mark in everything]
    held = [{number for number, mark in numbered if mark in part} for part in lowered]
    first = end = best = 0
    for start in [at for at, numbers in enumerate(held) if numbers]:
        length, seen, stop = 0, set[int](), start
        while stop < len(parts) and (length + len(parts[stop].rstrip()) <= room or stop == start):
            length += len(parts[stop])
            seen |= held[stop]
            stop += 1
        if len(seen) > best:
            first, end, best = start, stop, len(seen)
    shown = "".join(parts[first:end]) if best else text
    if len(shown.strip()) > room:
        shown = _around(shown, marks, room)
    shown = shown.strip()
    before = "" if text.lstrip().startswith(shown) else "… "
    return f"{before}{shown}{'' if text.rstrip().endswith(shown) else ' …'}"


def shortened(text: str, size: int) -> str:
    """Return a text in at most `size` characters.

    Statements are kept before questions, and whole sentences before parts of one.
    """
    flat = " ".join(text.split())
    if len(flat) <= size:
        return flat
    parts = sentences(flat)
    states = [at for at, part in enumerate(parts) if not _QUESTION.search(part)]
    kept: list[int] = []
    room = size - 2
    for at in [*states, *(at for at in range(len(parts)) if at not in states)]:
        if len(parts[at]) <= room:
            kept.append(at)
            room -= len(parts[at])
    if not kept:
        return _head(parts[states[0]] if states else flat, size)
    kept.sort()
    shown = "".join(parts[at] for at in kept).strip()
    return f"{'… ' if kept[0] else ''}{shown}{' …' if kept[-1] < len(parts) - 1 else ''}"


def _around(text: str, marks: Sequence[str], size: int) -> str:
    """Return `size` characters of a text around the first of these marks that it has, cut between words."""
    low = text.lower()
    at, length = next(((low.find(mark), len(mark)) for mark in marks if mark in low), (0, 0))
    start = max(0, at - size // 3)
    start = start and max(start, text.find(" ", start, at) + 1)
    end = start + size
    if end < len(text):
        end = max(text.rfind(" ", at + length, end), 0) or end
    return text[start:end]


def _head(text: str, size: int) -> str:
    """Return the beginning of a text in at most `size` characters, cut between words where possible."""
    if len(text) <= size:
        return text.strip()
    end = text.rfind(" ", size // 2, size - 2)
    return f"{text[: end if end > 0 else size - 2].strip()} …"
