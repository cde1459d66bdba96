"""Near-duplicates: two records of one folder and type that say the same, worded a little differently.

The same is said when the words are the same but for the order of clauses, case, a typing error or a filler.
A number, a name, a negation, a sign, a piece of code or any other word that only one of them has makes it
another statement: likeness of letters alone would take "port 80" for "port 81", and Alice for Alicia.

Each record is compared only with those that share rare words with it, so the time grows with the number of
records and not with its square.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed
from vademecum.lifecycle.base import Proposal, renewed
from vademecum.store import alike, clock, document, frontmatter
from vademecum.store.consolidation import is_consolidation
from vademecum.store.texts import decode
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.lifecycle.base import Seen
    from vademecum.store.home import Shelf
    from vademecum.store.runs import Edit
    from vademecum.types import Record

MEANT = 0.97  # how alike two vectors are of texts that mean the same

_LONGEST = 20_000  # characters; a longer text is a document and only its own copy is the same
_RARE = 4  # words by which a text is looked up
_CROWD = 24  # texts that share a key; more of them share too common a word
_OFTENER = 8  # times that a word is written right for each time it is mistyped, when it is so more than once
_NEIGHBOURS = 6  # how far two texts of a crowd may lie apart in the order of their words

_FILLER = re.compile(
    r"\b(?:(?:please )?(?:note|remember|be aware|keep in mind|bear in mind)(?: here)?(?: that|:)?|"
    r"as (?:a|one more) (?:reminder|note)|by the way|for the record|for your information|"
    r"it (?:is|should be) (?:worth noting|noted|important to note)(?: that)?|just so you know|"
    r"as far as i know|as mentioned(?: before| earlier| above)?|btw|fyi|reminder|please|basically|actually|"
    r"really|indeed|simply|of course|also)\b[,:]?",
    re.IGNORECASE,
)
_ARTICLES = frozenset({"a", "an", "the", "that"})
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
# Letters and digits with what joins them into one name: 1.5, pre-commit, src/a.py, a_b, user@host.
_WORD = re.compile(r"[^\W_]+(?:[._/:@'’-]+[^\W_]+|_+[^\W_]*)*|_\w+")
# Whatever is no letter, no space and no mark that only sets words apart: <, %, C#, a tick, a question.
_SIGN = re.compile(r"[^\w\s.,;:!'\"’“”‘«»()\[\]{}/*–—…`-]|(?<!\w)-(?=\d)|!(?==)")
_CLAUSE = re.compile(r"[.;,:!?\n()]+(?:\s|\Z)|\s[-–—]\s")
_JOINED = re.compile(r"[._/:@\d]")
_NO_COUNTS: Counter[str] = Counter()
_TRUST = list(Origin)


class Said(NamedTuple):
    """One statement, taken apart for comparing."""

    text: str  # without fillers
    plain: str  # its words alone
    clauses: tuple[tuple[str, ...], ...]
    words: frozenset[str]
    exact: tuple[tuple[str, ...], ...]  # what must be the same to the letter: numbers, signs, code, negations
    names: frozenset[str]  # words that are written as names, or made like identifiers


class Match(NamedTuple):
    """That one record says nothing that another does not say as well, and how alike they are."""

    likeness: float
    by: str = "the same"


def take_apart(text: str) -> Said:
    """A statement as its words, clause by clause."""
    code = tuple(sorted(_CODE.findall(text)))
    prose = _FILLER.sub(" ", _CODE.sub(" ", text))
    clauses = []
    names: set[str] = set()
    for clause in _CLAUSE.split(prose):
        found = _WORD.findall(clause or "")
        names |= {_fold(word) for number, word in enumerate(found) if _is_name(word, first=number == 0)}
        words = tuple(word for word in map(_fold, found) if word not in _ARTICLES)
        if words:
            clauses.append(words)
    every = [word for words in clauses for word in words]
    numbers = tuple(sorted(word for word in every if any(letter.isdigit() for letter in word)))
    refused = tuple(sorted(word for word in every if alike.is_negation(word)))
    exact = (code, numbers, refused, tuple(sorted(_SIGN.findall(prose))))
    text = " ".join(_FILLER.sub(" ", text).split())
    return Said(text, " ".join(every), tuple(clauses), frozenset(every), exact, frozenset(names))


def same(one: Said, other: Said, *, threshold: float, count: Counter[str]) -> float | None:
    """How alike two statements are, out of 100; None when they do not say the same.

    `count` says how often words stand in the store: a common one is no typing error of another common one.
    """
    if one.exact != other.exact:
        return None
    if not one.words or not other.words:
        return 100.0 if document.same(one.text, other.text) else None
    typos = _typos(one, other, count)
    if typos is None or not _same_order(one.clauses, _corrected(other.clauses, typos)):
        return None
    return alike.likeness(one.plain, other.plain, threshold=threshold)


@dataclass(frozen=True, slots=True)
class Duplicates:
    """The pass, with how alike two texts are that count as one.

    `similar` compares two texts by what they mean, where vectors are at hand: from 0 to 1, or None.
    """

    threshold: float = 85
    similar: Callable[[str, str], float | None] | None = None
    name: str = "duplicates"

    def propose(self, seen: Sequence[Seen], *, now: datetime) -> Iterator[Proposal]:
        """Keep one of each pair: the more trusted, then the older; the other goes to the archive whole."""
        groups: dict[tuple[Shelf, str], list[Seen]] = {}
        for each in seen:
            if each.shelf.trusted and each.record.live and not is_consolidation(each.record):
                groups.setdefault((each.shelf, each.record.type), []).append(each)
        for here in groups.values():
            if len(here) > 1:
                yield from self._among(sorted(here, key=_precedence))

    def _among(self, here: Sequence[Seen]) -> Iterator[Proposal]:
        known = [[take_apart(entry.text) for entry in each.record.live] for each in here]
        left = [*range(len(here))]
        never: set[tuple[int, int]] = set()
        merged: dict[int, list[tuple[int, Match]]] = {}
        while True:
            found = self._round(here, known, left, never)
            if not found:
                break
            gone = {other for others in found.values() for other, _ in others}
            for keeper, others in found.items():
                merged.setdefault(keeper, []).extend(others)
            # Which words are rare depends on what is there: only a round that finds nothing is the last.
            left = [number for number in left if number not in gone]
        retired = {other for others in merged.values() for other, _ in others}
        for keeper, others in sorted(merged.items()):
            if keeper not in retired:
                yield from self._merge(here, keeper, [*_with_followers(keeper, merged)] or others)

    def _round(
        self,
        here: Sequence[Seen],
        known: Sequence[Sequence[Said]],
        left: Sequence[int],
        never: set[tuple[int, int]],
    ) -> dict[int, list[tuple[int, Match]]]:
        """Who stays for whom, among those that are left; `never` gathers the pairs that no round can join."""
        every = [(number, said) for number in left for said in known[number]]
        lookup = _Lookup(every, by_meaning=self.similar is not None)
        trust = {number: _trust(here[number].record) for number in left}
        found: dict[int, list[tuple[int, Match]]] = {}
        gone: set[int] = set()
        for keeper, other in sorted(lookup.pairs()):
            if keeper in gone or other in gone or here[other].record.protected:
                continue
            if trust[other] < trust[keeper]:
                continue  # a protected text must not push out one that is more trusted
            if (keeper, other) in never:
                continue
            # Without counts every slip is believed: who is not the same then will not be in any round.
            match = self._says_no_more(known[other], known[keeper], _NO_COUNTS)
            if match is None:
                never.add((keeper, other))
                continue
            match = self._says_no_more(known[other], known[keeper], lookup.counts)
            if match is not None:
                gone.add(other)
                found.setdefault(keeper, []).append((other, match))
        return found

    def _says_no_more(self, said: Sequence[Said], kept: Sequence[Said], count: Counter[str]) -> Match | None:
        """Whether all that one record says stands in the other as well, and how alike the least of it is."""
        least = Match(100.0)
        for each in said:
            best: Match | None = None
            for other in kept:
                match = self._compare(each, other, count)
                if match is not None and (best is None or match.likeness > best.likeness):
                    best = match
            if best is None:
                return None
            least = min(least, best)
        return least

    def _compare(self, one: Said, other: Said, count: Counter[str]) -> Match | None:
        if max(len(one.text), len(other.text)) > _LONGEST:
            return Match(100.0) if document.same(one.text, other.text) else None
        found = same(one, other, threshold=self.threshold, count=count)
        if found is not None:
            return Match(found)
        if self.similar is None or one.exact != other.exact or one.names != other.names:
            return None
        meant = self.similar(one.text, other.text)
        return Match(100 * meant, "the same in meaning") if meant is not None and meant >= MEANT else None

    def _merge(
        self, here: Sequence[Seen], keeper: int, others: Sequence[tuple[int, Match]]
    ) -> Iterator[Proposal]:
        kept = here[keeper]
        lost = [here[number] for number, _ in others]
        revised = _united(kept, lost)
        told = (f"{here[number].record.key} is {match.likeness:.0f} % {match.by}" for number, match in others)
        why = f"{', '.join(told)} as {kept.record.key}, which stays"
        edits = (*([revised] if revised else []), *(each.retired() for each in lost))
        yield Proposal(self.name, lost[0].record.path, why, edits, kept.record.place)


def _with_followers(keeper: int, merged: dict[int, list[tuple[int, Match]]]) -> Iterator[tuple[int, Match]]:
    """All that end with a keeper: its own, and those of what it took in a later round."""
    for other, match in merged.get(keeper, ()):
        yield other, match
        yield from _with_followers(other, merged)


def _united(kept: Seen, lost: Iterable[Seen]) -> Edit | None:
    """The record that stays, with the tags of the others and as fresh as the freshest; None when it is so."""
    record = kept.record
    tags = [*dict.fromkeys([*record.tags, *(tag for each in lost for tag in each.record.tags)])]
    changes: dict[str, object] = {} if tags == [*record.tags] else {"tags": tags}
    moments = [moment for each in (kept, *lost) if (moment := renewed(each.record)) is not None]
    # Else what was said again yesterday would leave with the old record tomorrow.
    if moments and max(moments) != renewed(record):
        changes["updated"] = clock.stamp(max(moments))
    if not changes:
        return None
    if not record.fields.get("type"):
        changes["type"] = record.type
    try:
        return kept.revised(frontmatter.edit(decode(kept.content), changes))
    except Malformed:
        return None


def _precedence(seen: Seen) -> tuple[bool, int, bool, str, str]:
    """Who stays: the protected, the more trusted, the verified, the older, the one with the first key."""
    record = seen.record
    return (
        not record.protected,
        _trust(record),
        not record.fields.get("verified"),
        record.created or "~",
        record.key,
    )


def _trust(record: Record) -> int:
    """How little the least trusted living entry is trusted."""
    return max((_TRUST.index(entry.origin or Origin.USER) for entry in record.live), default=0)


# -------------------------------------------------------------------- finding candidates


@dataclass(slots=True)
class _Lookup:
    """Statements by their rare words."""

    said: list[tuple[int, Said]]
    by_meaning: bool = False
    counts: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = Counter(word for _, said in self.said for word in said.words)

    def pairs(self) -> set[tuple[int, int]]:
        """The pairs worth comparing, the record that would stay first."""
        found: set[tuple[int, int]] = set()
        crowd: Iterable[int] = range(len(self.said))
        signs = [self._sign(said) for _, said in self.said]
        # Part of every key: where numbers, negations or how many words there are differ, nothing is the same.
        keys = [(said.exact, 0 if self.by_meaning else len(said.words)) for _, said in self.said]
        for length in (1, 2, 3):
            groups: dict[tuple[object, ...], list[int]] = {}
            for number in crowd:
                exact = keys[number]
                for words in itertools.combinations(signs[number], min(length, len(signs[number]) or 1)):
                    groups.setdefault((exact, *words), []).append(number)
                if not signs[number]:
                    groups.setdefault((exact,), []).append(number)
            crowded: set[int] = set()
            for group in groups.values():
                if len(group) <= _CROWD:
                    found.update(self._pairs(group))
                elif length < 3:
                    crowded.update(group)
                else:
                    found.update(self._near(group))
            crowd = sorted(crowded)
        return found

    def _sign(self, said: Said) -> tuple[str, ...]:
        """The rarest words of a statement that some other has as well: a slip of the hand has none."""
        shared = [word for word in said.words if self.counts[word] > 1]
        return tuple(sorted(sorted(shared, key=lambda word: (self.counts[word], word))[:_RARE]))

    def _pairs(self, group: Sequence[int]) -> Iterator[tuple[int, int]]:
        for one, other in itertools.combinations(group, 2):
            first, second = self.said[one][0], self.said[other][0]
            if first != second:
                yield (first, second) if first < second else (second, first)

    def _near(self, group: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Neighbours in the order of their words, where too many share too much to compare all."""
        ordered = sorted(group, key=lambda number: (sorted(self.said[number][1].words), number))
        for step in range(1, _NEIGHBOURS + 1):
            for pair in zip(ordered, ordered[step:], strict=False):
                yield from self._pairs(pair)


# -------------------------------------------------------------------- comparing


def _fold(word: str) -> str:
    return word.replace("'", "").replace("’", "").casefold()


def _is_name(word: str, *, first: bool) -> bool:
    """Whether a word is written as a name: capital inside a clause, or made like an identifier."""
    if word.isalpha() and (word.islower() or (first and word[1:].islower())):
        return False
    return bool(_JOINED.search(word)) or (not first and word[:1].isupper()) or not word[1:].islower()


def _typos(one: Said, other: Said, count: Counter[str]) -> dict[str, str] | None:
    """Which words of the other are which of one, mistyped; None when some word is simply another."""
    mine, theirs = sorted(one.words - other.words), sorted(other.words - one.words)
    if len(mine) != len(theirs) or len(mine) > max(2, len(one.words) // 5):
        return {} if not mine and not theirs else None
    fixed: dict[str, str] = {}
    for word in mine:
        match = next((each for each in theirs if _mistyped(word, each, one, other, count)), None)
        if match is None:
            return None
        theirs.remove(match)
        fixed[match] = word
    return fixed


def _mistyped(word: str, other: str, one: Said, two: Said, count: Counter[str]) -> bool:
    rarer, oftener = sorted((count[word], count[other]))
    if (rarer > 1 and rarer * _OFTENER > oftener) or (word in one.names and other in two.names):
        return False
    return not _JOINED.search(word + other) and alike.is_slip(word, other)


def _corrected(clauses: tuple[tuple[str, ...], ...], typos: dict[str, str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(typos.get(word, word) for word in clause) for clause in clauses)


def _same_order(one: tuple[tuple[str, ...], ...], other: tuple[tuple[str, ...], ...]) -> bool:
    """Whether clauses are the same in some order, or the whole is the same turned round at one place.

    "A calls B" is not "B calls A": inside a clause the order stays, but for a part moved to its front.
    """
    if sorted(one) == sorted(other):
        return True
    mine = [word for clause in one for word in clause]
    theirs = [word for clause in other for word in clause]
    if len(mine) != len(theirs):
        return False
    return any(mine[at:] + mine[:at] == theirs for at in range(len(mine)) if mine[at] == theirs[0])
