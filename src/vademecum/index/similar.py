"""Terms that can replace a word which the index lacks: other inflections, parts, typing errors.

This module knows terms, their order and their frequency. Its caller looks up ranges of the sorted terms,
never all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from vademecum.index.languages import COMPOUNDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FEW_CHUNKS = 3_000  # up to this size all terms with the same first letter are compared
MOST_TERMS = 5_000  # terms of a range
MOST_ALIKE = 12  # terms that may replace a word; the caller may not see some of them

# A long word is stored a second time in reverse, behind a letter that no text has: so a range finds it
# by its last part as well as by its first.
_BACKWARDS = "\ue000"
_LONG = 7  # letters of a word that may be a compound
_SHORTEST = 4  # letters of the shortest word that is replaced
_LONGEST = 64  # letters of the longest one: more is no word and takes long
_PART = 4  # letters of a part
_TWO_SLIPS = 8  # letters from which on two slips are forgiven
_RARER = 0.9  # nearness of a stem in a language of few passages,
_BEGUN = 0.75  # of a longer word that begins with the word,
_ENDED = 0.7  # or ends with it
_ENDING = 0.65  # of a word with another ending
_SLIP = (0.85, 0.45)  # of a word with one slip, or with two slips in eight letters or more
_MADE_OF = 0.5  # of a part of the word
_APART = 0.7  # of the best nearness: terms that are less near are left out
_JOINTS = ("", "s", "n", "t", "e", "en", "es", "er", "et")  # letters between two parts, or at the end
_MOST_CHANGED = 3  # letters of an ending that differ
_LAST = "\U0010ffff"


class Vocabulary(Protocol):
    """A function that looks up terms of the index and returns how many chunks contain each."""

    def __call__(self, ranges: Sequence[tuple[str, str]], terms: Sequence[str] = (), /) -> dict[str, int]:
        """Return how many chunks contain each term in the ranges, and each of `terms`.

        A range excludes its end. Terms that the index lacks are left out.
        """
        ...


def endings(terms: Iterable[str], language: str) -> Iterator[str]:
    """Yield the reversed forms of long words, which are stored to find words by their ending.

    Only words of a language with compound words, and codes of letters and digits, are reversed.
    """
    compounds = language in COMPOUNDING
    least = _SHORTEST if language == "he" else _LONG  # Hebrew writes "the" and "and" before a word
    # Most terms of most texts are plain words, so the cheapest test comes first.
    likely = terms if compounds else [term for term in terms if not term.isalpha()]
    for term in dict.fromkeys(likely):
        if len(term) >= least and ((compounds and term.isalpha()) or _is_code(term)):
            yield _BACKWARDS + term[::-1]


def terms_like(
    forms: Sequence[str],
    others: dict[str, int],
    vocabulary: Vocabulary,
    *,
    compounds: bool,
    thorough: bool,
) -> list[tuple[str, float, int]]:
    """Return the terms that can replace a word, the nearest first, each with nearness and frequency.

    `forms` are the word's stems in the usual languages, `others` its stored stems in rarer languages. With
    `compounds`, shorter parts of compound words count too; with `thorough`, more terms are checked for typing
    errors. A number has no similar terms, and a word with a digit is never taken for a typing error.
    """
    longest = max(forms, key=len, default="")
    near = {term: _RARER * _likeness(term, longest) for term in others}
    often: dict[str, int] = dict(others)
    for form in forms:
        if not _SHORTEST <= len(form) <= _LONGEST or form.isdigit():
            continue
        for term, seen, nearness in _candidates(form, vocabulary, compounds=compounds, thorough=thorough):
            if nearness:
                near[term] = max(nearness, near.get(term, 0.0))
                often[term] = seen
    ordered = sorted(near, key=lambda term: (-near[term], -often[term], term))
    best = near[ordered[0]] if ordered else 0.0
    return [(term, near[term], often[term]) for term in ordered[:MOST_ALIKE] if near[term] >= _APART * best]


def _candidates(
    form: str, vocabulary: Vocabulary, *, compounds: bool, thorough: bool
) -> Iterator[tuple[str, int, float]]:
    for term, seen in vocabulary([(form, form + _LAST)]).items():
        yield term, seen, _BEGUN * _likeness(form, term)
    coded = any(map(str.isdigit, form))
    # Only words of some languages, and codes, are stored in reverse.
    backs = [_BACKWARDS + (form + joint)[::-1] for joint in (_JOINTS if compounds else _JOINTS[:coded])]
    for term, seen in vocabulary([(back, back + _LAST) for back in backs]).items():
        whole = term[:0:-1]
        yield whole, seen, _ENDED * _likeness(form, whole)
    for term, seen in vocabulary((), _parts(form, compounds=compounds)).items():
        yield term, seen, _MADE_OF * _likeness(term, form)
    if not coded:
        allowed, begun, letters = _allowed(form), form[:_SHORTEST], {*form}
        for term, seen in vocabulary(_ranges(form, thorough=thorough)).items():
            # Length and letters already exclude most of a range.
            away = len(term) - len(form)
            if term.startswith(begun) or (
                -allowed <= away <= allowed and len(letters.symmetric_difference(term)) <= 2 * allowed
            ):
                yield term, seen, _nearness(form, term)


def _nearness(form: str, term: str) -> float:
    """Return how near a term is to a word as its misspelling or another inflection; 0 if it is neither."""
    if abs(len(term) - len(form)) > _MOST_CHANGED or len(term) < _SHORTEST or not term.isalpha():
        return 0.0
    allowed = _allowed(form)
    away = _slips(form, term, allowed)
    if 0 < away <= allowed:
        return _SLIP[away - 1] * min(1.0, 0.6 + 0.05 * len(form))
    return _ENDING * _likeness(form, term) if _differs_in_ending(form, term) else 0.0


def _allowed(form: str) -> int:
    """Return how many typing errors are forgiven in a word of this length."""
    return 2 if len(form) >= _TWO_SLIPS else 1 if len(form) > _SHORTEST else 0


def _ranges(form: str, *, thorough: bool) -> list[tuple[str, str]]:
    """Return the ranges of terms that may contain the intended word, even if its beginning is mistyped.

    With `thorough`, the ranges are wider.
    """
    if thorough:
        begun = dict.fromkeys((form[0], form[1]))
    else:
        swapped = form[1] + form[0] + form[2], form[0] + form[2] + form[1]
        begun = dict.fromkeys((form[:3], *swapped, form[1:4], form[0] + form[2:4]))
    return [(begin, begin + _LAST) for begin in begun]


def _differs_in_ending(one: str, other: str) -> bool:
    """Return whether two words begin alike and differ only in a few last letters."""
    same = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        same += 1
    return same >= _SHORTEST and 2 * same >= len(other) and max(len(one), len(other)) - same <= _MOST_CHANGED


def _slips(one: str, other: str, most: int) -> int:
    """Return how many letters were left out, added, replaced or swapped; more than `most` if there are more.

    Loading a faster library would take longer than all these comparisons.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        last, before, row = before, row, [at]
        for to, wanted in enumerate(other, 1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != wanted))
            if last and to > 1 and letter == other[to - 2] and one[at - 2] == wanted:
                cost = min(cost, last[to - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]


def _parts(form: str, *, compounds: bool) -> list[str]:
    """Return the beginnings and ends of a word that may be words themselves, such as parts of a compound.

    With `compounds`, short parts of a long word are returned too.
    """
    least = _PART if compounds else max(_PART, len(form) * 2 // 3)
    found: dict[str, None] = {}
    for length in range(len(form) - 1, least - 1, -1):
        found[form[-length:]] = None
        for joint in _JOINTS:
            begin = form[:length].removesuffix(joint)
            if len(begin) >= least:
                found[begin] = None
    return list(found)


def _likeness(short: str, long: str) -> float:
    """Return how alike two words are, from 0.5 to 1: the share of the long word that the short one covers."""
    return 0.5 + 0.5 * len(short) / len(long)


def _is_code(term: str) -> bool:
    """Return whether a term contains both letters and digits, as a product code does."""
    return not term.isalpha() and not term.isdigit() and not term.startswith("emoji")
