"""What an index has for a word that it does not hold: other endings, parts, slips of the keyboard.

Knows terms, their order and their number; whoever has the list gives ranges of it, never the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from vademecum.index.languages import COMPOUNDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FEW_CHUNKS = 3_000  # up to which all terms with the same first letter are looked at
MOST_TERMS = 5_000  # of a range
MOST_ALIKE = 12  # terms that may take the place of a word: some may be out of sight

# A long word is kept a second time from its end, behind a letter that no text has: so it is found in a range
# by its last part, as by its first.
_BACKWARDS = "\ue000"
_LONG = 7  # letters of a word that may be made of several
_SHORTEST = 4  # letters of a word that something is looked for in the place of
_LONGEST = 64  # and of the longest one: more is no word, and would take long
_PART = 4  # letters of a part
_TWO_SLIPS = 8  # letters from which on two slips are forgiven
_RARER = 0.9  # nearness of the stem in a language that few passages are in,
_BEGUN = 0.75  # of a longer word that begins with it,
_ENDED = 0.7  # or ends with it
_ENDING = 0.65  # of one with another ending
_SLIP = (0.85, 0.45)  # of one at one letter's distance, at two letters', in a word of eight or more
_MADE_OF = 0.5  # of a part of it
_APART = 0.7  # of the best nearness: what is further away says nothing beside it
_JOINTS = ("", "s", "n", "t", "e", "en", "es", "er", "et")  # what stands between two parts, or at the end
_MOST_CHANGED = 3  # letters of an ending
_LAST = "\U0010ffff"


class Vocabulary(Protocol):
    """Looks up terms: all in some ranges, and those of a list that are there, each with its number."""

    def __call__(self, ranges: Sequence[tuple[str, str]], terms: Sequence[str] = (), /) -> dict[str, int]:
        """The terms from each first to before each last, and of the others those that are held."""
        ...


def endings(terms: Iterable[str], language: str) -> Iterator[str]:
    """What to keep beside the terms of a text, so that a long word is found by how it ends."""
    compounds = language in COMPOUNDING
    for term in dict.fromkeys(terms):
        least = _SHORTEST if language == "he" else _LONG  # where "the" and "and" are written before a word
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
    """The terms that may stand for a word, the nearest first, each with its nearness and its number.

    `forms` are the stems of the word in the usual languages, `others` those that are held in rarer ones.
    Numbers stand for themselves alone, and what holds a digit is no slip of the keyboard.
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
    # Only words of some languages, and codes, are kept from their end.
    backs = [_BACKWARDS + (form + joint)[::-1] for joint in (_JOINTS if compounds else _JOINTS[:coded])]
    for term, seen in vocabulary([(back, back + _LAST) for back in backs]).items():
        whole = term[:0:-1]
        yield whole, seen, _ENDED * _likeness(form, whole)
    for term, seen in vocabulary((), _parts(form, compounds=compounds)).items():
        yield term, seen, _MADE_OF * _likeness(term, form)
    if not coded:
        allowed, begun, letters = _allowed(form), form[:_SHORTEST], {*form}
        for term, seen in vocabulary(_around(form, thorough=thorough)).items():
            # Most of a range is something else, which a look at length and letters tells.
            away = len(term) - len(form)
            if term.startswith(begun) or (
                -allowed <= away <= allowed and len(letters.symmetric_difference(term)) <= 2 * allowed
            ):
                yield term, seen, _nearness(form, term)


def _nearness(form: str, term: str) -> float:
    """How near a term comes by other letters in it or another ending; 0 when it is another word."""
    if abs(len(term) - len(form)) > _MOST_CHANGED or len(term) < _SHORTEST or not term.isalpha():
        return 0.0
    allowed = _allowed(form)
    away = _slips(form, term, allowed)
    if 0 < away <= allowed:
        return _SLIP[away - 1] * min(1.0, 0.6 + 0.05 * len(form))
    return _ENDING * _likeness(form, term) if _differs_in_ending(form, term) else 0.0


def _allowed(form: str) -> int:
    """How many slips are forgiven."""
    return 2 if len(form) >= _TWO_SLIPS else 1 if len(form) > _SHORTEST else 0


def _around(form: str, *, thorough: bool) -> list[tuple[str, str]]:
    """The ranges in which a word lies that was meant: a slip may be in its first letters."""
    if thorough:
        begun = dict.fromkeys((form[0], form[1]))
    else:
        swapped = form[1] + form[0] + form[2], form[0] + form[2] + form[1]
        begun = dict.fromkeys((form[:3], *swapped, form[1:4], form[0] + form[2:4]))
    return [(begin, begin + _LAST) for begin in begun]


def _differs_in_ending(one: str, other: str) -> bool:
    """Whether two words begin alike and end in a few other letters."""
    same = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        same += 1
    return same >= _SHORTEST and 2 * same >= len(other) and max(len(one), len(other)) - same <= _MOST_CHANGED


def _slips(one: str, other: str, most: int) -> int:
    """How many letters were left out, put in, exchanged or swapped, as far as that is of interest.

    A library that is quicker takes longer to load than all that there is to compare.
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
    """The beginnings and ends of a word that may be words of their own."""
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
    """How much of a word another is."""
    return 0.5 + 0.5 * len(short) / len(long)


def _is_code(term: str) -> bool:
    """Whether a term has letters and digits."""
    return not term.isalpha() and not term.isdigit() and not term.startswith("emoji")
