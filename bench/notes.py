"""Made-up notes with the word frequencies of English, and questions about them; one seed, one text.

Knows words only; knows nothing of files, indexes or who searches.
"""

from __future__ import annotations

import functools
import random
import re
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vademecum.index.embed.local import SHIPPED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

SHORTEST, LONGEST = 10, 36  # words, before a name, a day, a code or a path joins them
BLOCK = 10_000  # notes drawn at once: a million of them never stand in memory together
TOPICS, TOPIC_WORDS, TOPIC_SHARE = 300, 40, 0.25
TELLING = 100  # words more frequent than this rank tell nothing about a note
TICKETS = 50  # one note in so many has a ticket, and no other note has the same

_COMPOSED = 6_000
_PREFIXES = "re un over under mis pre out inter".split()
_SUFFIXES = ["", "s", "ness", "able", "wise"]
_PROJECT = """deploy staging rollback cache index queue worker schema migration endpoint token backup replica
    latency timeout retry webhook invoice ledger refund tenant login session cookie header payload parser
    crawler thumbnail scheduler cron shard partition snapshot restore encryption certificate gateway proxy
    container image registry pipeline runner artifact changelog release hotfix branch merge review lint
    coverage fixture mock benchmark profiler dashboard alert pager runbook incident postmortem quota billing
    upload download stream buffer cursor transaction deadlock vacuum checkpoint vector prompt""".split()
_FIRST = """Ada Mina Jonas Priya Tomas Leila Omar Greta Hugo Ines Kenji Lucia Marek Nadia Oskar Paula Quentin
    Rosa Samir Tessa Ulrich Vera Wanda Xavier Yusuf Zora""".split()
_LAST = """Okafor Lindqvist Moreau Tanaka Petrov Silva Novak Haddad Berger Costa Duval Eriksen Fischer Gallo
    Horvat Ibarra Jansen Kowalski Larsen Mbeki Nowak Ortega Pereira Quist Rossi""".split()
_ABOUT_A_NOTE = (
    "What did we decide about the {0} and the {1} when the {2} was {3} with {4}?",
    "Do you remember which {0} had to do with {1}, {2} and the {3}?",
    "Where did I write that the {0} is for {1} and not for the {2} or {3}?",
    "Who said something about {0} {1} before the {2} came to {3}?",
)
_OPEN = (
    "How do we usually handle the {0} of the {1} before a {2}?",
    "What was the reason for the {0} in the {1}?",
    "Is there anything about {0}, {1} and {2} that we should know?",
    "What did {name} say about the {0} after the {1}?",
)
_ABOUT_A_TICKET = ("What happened with {0} in the end?", "Which change was made for {0}?")
_PLAIN = re.compile(r"[a-z]{2,}")


class Question(NamedTuple):
    """What is asked, and the one note that answers, where there is one."""

    text: str
    note: int | None


class _Language(NamedTuple):
    words: NDArray[Any]
    ranks: dict[str, int]
    cumulated: NDArray[np.float64]
    topics: NDArray[np.int64]


def notes(count: int, *, seed: int) -> Iterator[str]:
    """So many notes of one line each; fewer of them are the beginning of more."""
    for start in range(0, count, BLOCK):
        yield from _block(start, seed)[: count - start]


def subjects(count: int, queries: int, *, seed: int) -> list[int | None]:
    """Of each question the note it is about; two in five are about none."""
    chance = random.Random(f"subjects {seed}")
    tickets = range(TICKETS - 1, count, TICKETS)
    found: list[int | None] = []
    for number in range(queries):
        kind = number % 5
        if kind == 4 and tickets:
            found.append(chance.choice(tickets))
        else:
            found.append(chance.randrange(count) if kind in (0, 2) else None)
    return found


def questions(about: Sequence[int | None], told: Mapping[int, str], *, seed: int) -> list[Question]:
    """A question for each subject, in whole sentences as people ask."""
    chance = random.Random(f"questions {seed}")
    return [Question(_draw_question(chance, None if note is None else told[note]), note) for note in about]


def _draw_question(chance: random.Random, note: str | None) -> str:
    language = _language()
    if note is None:
        topic = language.words[language.topics[chance.randrange(TOPICS)]].tolist()
        return chance.choice(_OPEN).format(*chance.sample(topic, 3), name=chance.choice(_FIRST))
    ticket = re.search(r"VX-\d+", note)
    if ticket:
        return chance.choice(_ABOUT_A_TICKET).format(ticket[0])
    plain = dict.fromkeys(_PLAIN.findall(note.lower()))
    telling = [word for word in plain if language.ranks.get(word, 0) >= TELLING]
    chance.shuffle(telling)
    return chance.choice(_ABOUT_A_NOTE).format(*(telling + list(plain))[:5])


# ---------------------------------------------------------------- how a note is made


@functools.cache
def _language() -> _Language:
    """Some 28,000 words, the frequent ones first, with how often each is said.

    The vocabulary of the model in the package is a list of English words by frequency; words made from them
    stand for all that no list has. Zipf's law then says how often: "the" is one word in twenty, and half of
    the vocabulary is met less than once in 300,000 words.
    """
    lines = (SHIPPED / "vocab.txt").read_text(encoding="utf-8").split("\n")
    known = [word for word in lines if _PLAIN.fullmatch(word)]
    chance = random.Random("words")
    made = (
        chance.choice(_PREFIXES) + chance.choice(known[1000:8000]) + chance.choice(_SUFFIXES)
        for _ in range(_COMPOSED)
    )
    words = list(dict.fromkeys([*known, *_PROJECT, *made]))
    shares = np.cumsum(1 / (np.arange(len(words)) + 2.0))
    ranks = {word: rank for rank, word in enumerate(words)}
    return _Language(np.array(words, object), ranks, shares / shares[-1], _topics(ranks))


def _topics(ranks: Mapping[str, int]) -> NDArray[np.int64]:
    """What notes are about: each topic has words of its own, so that a note has neighbours in meaning."""
    rng = np.random.default_rng(0)
    project = np.array([ranks[word] for word in _PROJECT])
    own = np.exp(rng.uniform(np.log(150), np.log(15_000), (TOPICS, TOPIC_WORDS - 6))).astype(np.int64)
    return np.hstack([own, rng.choice(project, (TOPICS, 6))])


@functools.lru_cache(maxsize=1)
def _block(start: int, seed: int) -> list[str]:
    language = _language()
    rng = np.random.default_rng((seed, start))
    chance = random.Random(f"notes {seed} {start}")
    lengths = rng.integers(SHORTEST, LONGEST + 1, BLOCK)
    total = int(lengths.sum())
    numbers = np.searchsorted(language.cumulated, rng.random(total))
    topics = np.repeat(rng.integers(0, TOPICS, BLOCK), lengths)
    on_topic = language.topics[topics, rng.integers(0, TOPIC_WORDS, total)]
    words = language.words[np.where(rng.random(total) < TOPIC_SHARE, on_topic, numbers)].tolist()
    ends = np.cumsum(lengths).tolist()
    return [
        _note(chance, start + number, words[end - length : end])
        for number, (end, length) in enumerate(zip(ends, lengths.tolist(), strict=True))
    ]


def _note(chance: random.Random, number: int, words: list[str]) -> str:
    """Words as sentences, with what real notes have among them."""
    for share, make in ((0.3, _name), (0.25, _day), (0.15, _code), (0.12, _path)):
        if chance.random() < share:
            words.insert(chance.randrange(1, len(words)), make(chance))
    if number % TICKETS == TICKETS - 1:
        words.insert(chance.randrange(1, len(words)), f"VX-{number}")
    sentences = []
    while words:
        length = chance.randrange(7, 16)
        sentence, words = words[:length], words[length:]
        sentence[0] = sentence[0][:1].upper() + sentence[0][1:]
        sentences.append(" ".join(sentence) + ".")
    return " ".join(sentences)


def _name(chance: random.Random) -> str:
    return f"{chance.choice(_FIRST)} {chance.choice(_LAST)}"


def _day(chance: random.Random) -> str:
    return f"on {date(2019, 1, 1) + timedelta(days=chance.randrange(2500)):%d %B %Y}"


def _code(chance: random.Random) -> str:
    return f"E{chance.randrange(1000, 10_000)}"


def _path(chance: random.Random) -> str:
    return f"src/{chance.choice(_PROJECT)}/{chance.choice(_PROJECT)}.py"
