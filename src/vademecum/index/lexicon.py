"""How common a word of English is, from the order of the shipped model's vocabulary; no numbers needed."""

from __future__ import annotations

import functools
import unicodedata
from pathlib import Path

VOCABULARY = Path(__file__).parent / "embed" / "model" / "vocab.txt"
# A BERT vocabulary has its whole words in the order of how often they were met, "the" first.
COMMONEST, RAREST = 1996, 30_000


@functools.cache
def _lines() -> bytes:
    """All words, a line each: looking a few up in it is quicker than making a dictionary of all."""
    try:
        return b"\n" + VOCABULARY.read_bytes() + b"\n"
    except OSError:  # the embedder says that it is gone; words are found without knowing which are rare
        return b"\n"


@functools.lru_cache(maxsize=65_536)
def rank(word: str) -> int:
    """A word's place among all words, the commonest first; a word of several pieces is a rare one."""
    if not word.isascii():
        decomposed = unicodedata.normalize("NFD", word)
        word = "".join(each for each in decomposed if unicodedata.category(each) != "Mn")
    lines, wanted = _lines(), f"\n{word}\n".encode(errors="ignore")
    at = lines.find(wanted)
    return RAREST if at < 0 or not word else max(1, lines.count(b"\n", 0, at) - COMMONEST + 1)
