"""Which words there are in English: only what is no word can be a slip of the hand.

`english.txt` holds the whole words of the shipped model's vocabulary, and `software.txt` words of the trade
that it lacks. What stands here may not know the index, so it has a list of its own.
"""

from __future__ import annotations

import functools
from pathlib import Path

_FILES = ("english.txt", "software.txt")
_SHORTEST = 3
_PART = 4  # letters of half a compound; the lists hold too many names and scraps of three
_PREFIXES = """anti auto bi co counter de dis down em en ex extra hyper hypo il im in inter intra ir macro
    mega micro mid mini mis mono multi nano non off on out over poly post pre pro pseudo re semi sub super
    sur tele trans tri ultra un under up""".split()
_SUFFIXES = """able al ally ance ant ary ate ation ed ee eer en ence ent er ers es est ful hood ian ible ic
    ical ify ing ion ise ish ism ist ity ive ization ize less like ly ment ness or ors ous s ship sion some
    tion ty ward wards ware wise y""".split()


@functools.cache
def _lines() -> bytes:
    """All words, a line each: finding a few in it is quicker than making a set of all."""
    folder = Path(__file__).parent
    return b"\n" + b"\n".join((folder / name).read_bytes() for name in _FILES) + b"\n"


@functools.lru_cache(maxsize=16_384)
def is_listed(word: str) -> bool:
    """Whether a word, in small letters, stands in the lists."""
    return word.isalpha() and word.isascii() and f"\n{word}\n".encode() in _lines()


@functools.lru_cache(maxsize=16_384)
def is_word(word: str) -> bool:
    """Whether a word is listed, or made from listed words: "unlink", "linter", "lockfile"."""
    if is_listed(word):
        return True
    if any(word.startswith(each) and _is_stem(word[len(each) :]) for each in _PREFIXES):
        return True
    if any(word.endswith(each) and _is_stem(word[: -len(each)]) for each in _SUFFIXES):
        return True
    cuts = range(_PART, len(word) - _PART + 1)
    return any(is_listed(word[:at]) and is_listed(word[at:]) for at in cuts)


def _is_stem(rest: str) -> bool:
    """Whether what is left of a word without its prefix or suffix is one, as it is or a little changed."""
    if len(rest) < _SHORTEST:
        return False
    doubled = rest[:-1] if rest[-1] == rest[-2] else ""
    return any(map(is_listed, filter(None, (rest, f"{rest}e", f"{rest[:-1]}y", doubled))))
