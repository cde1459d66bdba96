"""Replace the words of a topic by the plainest of their synonyms, as `synonyms.txt` lists them.

Works on word stems. Related words that no group lists are found by their word vectors elsewhere; pairs that
are related but never the same ("frontend", "backend") are listed here.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

from vademecum.text.vocabulary import stem

# What says that something happens or is so, and nothing about what: dropped where anything else is left.
_WEAK = frozenset(
    stem(word)
    for word in """after within for per at on in run begin take need get have happen do go up until by can may
    time live be receive give we you they our his her their use nach um binnen auf bei von mit aus pro man
    wird werden hat haben besteht dauert wir there every each always fine ok okay necessary allow permit
    hold name user employee employees nutzer benutzer""".split()
) | {"tim", "tak", "liv", "giv"}
# Of a duration: how long something is kept is when it is deleted.
_LASTING = frozenset({"retain", "delete", "expire"})
_LONG = 5  # letters of a word that may have such an ending
_ENDINGS = ("ern", "en", "er", "es", "n", "e", "s")  # of German


class NameKind(NamedTuple):
    """The kind of a named thing (such as database), and words that only repeat the kind beside
    such a name.
    """

    line: int  # of the list: two names exclude each other if they stand in one
    name: str
    about: frozenset[str]


class _Lists(NamedTuple):
    """The groups, kinds and pairs that `synonyms.txt` lists, by their words."""

    words: dict[str, str]  # a stem, and the plainest of its group
    phrases: tuple[tuple[frozenset[str], str], ...]  # the longest first
    kinds: dict[str, NameKind]  # of a name
    apart: tuple[frozenset[str], ...]


@functools.cache
def _lists() -> _Lists:
    lines = Path(__file__).with_name("synonyms.txt").read_text("utf-8").splitlines()
    listed = [(at, line) for at, line in enumerate(lines) if not line.startswith("#")]
    words, phrases = _groups([line for _, line in listed if " > " not in line and not line.startswith("! ")])
    kinds: dict[str, NameKind] = {}
    for at, line in listed:
        if " > " in line:
            kinds |= _kinds(at, line, words)
    apart = (_names(line.removeprefix("! ")) for _, line in listed if line.startswith("! "))
    apart_stems = tuple(frozenset(words.get(stem(name), stem(name)) for name in names) for names in apart)
    return _Lists(words, phrases, kinds, apart_stems)


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",")]


def _groups(lines: list[str]) -> tuple[dict[str, str], tuple[tuple[frozenset[str], str], ...]]:
    """Return the plainest synonym of each word and of each phrase; a word in two groups belongs
    to the first.
    """
    words: dict[str, str] = {}
    phrases: dict[frozenset[str], str] = {}
    for names in map(_names, lines):
        for form in (each for name in names for each in (name, name + "s")):
            stems = frozenset(map(stem, form.split()))
            if len(stems) > 1:
                phrases.setdefault(stems, names[0])
            else:
                words.setdefault(next(iter(stems)), names[0])
    return words, tuple(sorted(phrases.items(), key=lambda pair: (-len(pair[0]), pair[1])))


def _kinds(at: int, line: str, words: dict[str, str]) -> dict[str, NameKind]:
    """Return the kind of each name in a line "kind (words that repeat the kind) > names"."""
    kind, _, listed = line.partition(" > ")
    name, _, about = kind.rstrip(")").partition(" (")
    kind_words = frozenset(words.get(stem(word), stem(word)) for word in about.split(", "))
    made = NameKind(at, name, kind_words | {name} | frozenset(map(stem, name.split())))
    return {stem(each): made for each in _names(listed)}


@functools.lru_cache(maxsize=8_192)
def plain(topic: frozenset[str], *, lasting: bool = False) -> frozenset[str]:
    """Return the stems of a topic with synonyms replaced; with `lasting`, retention and deletion are one
    word.
    """
    lists = _lists()
    left, found = topic, set[str]()
    for phrase, name in lists.phrases:
        if phrase <= left:
            left -= phrase
            found.add(name)
    found |= {_plainest(word, lists.words) for word in left}
    if lasting and found & _LASTING:
        found = (found - _LASTING) | {"retain"}
    return frozenset(word for word in found if word not in _WEAK and stem(word) not in _WEAK) or frozenset(
        found
    )


def _plainest(word: str, words: dict[str, str]) -> str:
    """Return the plainest synonym of a word, which may have a German ending; without synonyms, the word
    itself.
    """
    short = (word.removesuffix(ending) for ending in _ENDINGS if len(word) > _LONG and word.endswith(ending))
    return next((words[each] for each in (word, *short) if each in words), word)


def general(topic: frozenset[str]) -> frozenset[str]:
    """Return a topic in which each name is replaced by the name of its kind: "database" for Postgres."""
    kinds = _lists().kinds
    return frozenset(kinds[word].name if word in kinds else word for word in topic)


def kind_of(name: str) -> NameKind | None:
    """Return the kind of a named thing, such as database for Postgres; None for an unknown name."""
    return _lists().kinds.get(stem(name))


def are_never_same(one: str, other: str) -> bool:
    """Whether two related words are listed as never the same."""
    return any(one in group and other in group for group in _lists().apart)
