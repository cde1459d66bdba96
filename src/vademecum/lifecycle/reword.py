"""Rewording: a model suggests other words for a record, and a person decides about each statement.

The program pairs each old statement with the new statement that means the same, or else has the most words in
common. A statement is kept, reworded, dropped or invented, and no change is written that a person did not
accept.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import ModelFailed, Refused
from vademecum.lifecycle import rewrite
from vademecum.lifecycle.passes import Proposal
from vademecum.lifecycle.rewrite import Refusal, TopicUnit
from vademecum.llm.base import Limits, read_prompt
from vademecum.text import WORD, conflict, document, normalise, secrets, similarity
from vademecum.text.vocabulary import stem
from vademecum.types import LEARNED, Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.lifecycle.passes import RecordFile
    from vademecum.llm.base import Model

NAME = "reword"
KEPT, REWORDED, DROPPED, INVENTED = "kept", "reworded", "dropped", "invented"
_ALIKE = 0.4  # share of their words that two statements have in common that may be one, reworded
_PART = 0.6  # share of a statement's words that stand in one that took it up
_MUCH, _MORE = 2, 400  # times as long as what it rewords, and characters on top, is too much


@dataclass(frozen=True, slots=True)
class RewordedText:
    """The answer of a model: other words for the statements that it was given."""

    text: str


class RewordRow(NamedTuple):
    """Some old statements, the new statements that replace them, and a warning for the person who decides."""

    kind: str
    old: tuple[TopicUnit, ...]
    new: tuple[TopicUnit, ...] = ()
    warning: str = ""

    @property
    def origin(self) -> Origin:
        """The origin of the statements, which a rewording does not change."""
        return (*self.old, *self.new)[0].origin

    @property
    def before(self) -> str:
        """The old statements, each below its headings."""
        return _format_units(self.old)

    @property
    def after(self) -> str:
        """The new statements, each below its headings."""
        return _format_units(self.new)

    @property
    def shown(self) -> str:
        """The old and new words line by line, marked with `-` and `+`."""
        lines = [f"- {line}" for line in self.before.split("\n")] if self.old else []
        return "\n".join([*lines, *(f"+ {line}" for line in self.after.split("\n") if self.new)])


class Rewording(NamedTuple):
    """A model's suggestion for one record, or the reason why there is no suggestion."""

    seen: RecordFile
    texts: Mapping[Origin, str] = {}
    rows: tuple[RewordRow, ...] = ()
    model: str = ""
    refused: Refusal | None = None

    @property
    def open(self) -> list[int]:
        """The numbers of the rows, from 0, that a person has to decide about."""
        return [at for at, row in enumerate(self.rows) if row.kind != KEPT]

    @property
    def changes(self) -> str:
        """The difference, statement by statement, as lines of text."""
        return show_rows(self.rows)


def suggest_rewording(
    seen: RecordFile, model: Model, *, limits: Limits | None = None, largest: int
) -> Rewording:
    """Ask a model to reword a record, the text of each origin in a question of its own.

    A new text of more than `largest` bytes is refused.
    """
    barred = _find_obstacle(seen)
    if barred:
        return _refuse(seen, barred, asked=False)
    texts: dict[Origin, str] = {}
    for origin, entries in _by_origin(seen).items():
        units = rewrite.split_units(entries)
        prompt = "\n".join(f"STATEMENT\n{rewrite.remove_marks(unit.text)}\nEND" for unit in units)
        limit = limits or Limits(output=min(len(prompt) + 1024, rewrite.LONGEST_ANSWER))
        try:
            answer = model.typed(prompt, RewordedText, system=read_prompt(__package__, NAME), limits=limit)
        except ModelFailed as error:
            return _refuse(seen, str(error), model=model.name)
        texts[origin] = answer.value.text
    return pair_texts(seen, texts, model=model.name, largest=largest)


def pair_texts(
    seen: RecordFile, texts: Mapping[Origin, str], *, model: str, largest: int = 1 << 20
) -> Rewording:
    """Return the rewording of a record, given the new text for each origin.

    It is refused if a text is invalid, has more than `largest` bytes or drops most of the statements.
    """
    rows: list[RewordRow] = []
    for origin, entries in _by_origin(seen).items():
        if origin not in texts:
            continue
        wrong = _find_text_problem(entries, texts[origin], largest)
        if wrong:
            return _refuse(seen, f"the model's text {wrong}", model=model)
        found = pair_units(rewrite.split_units(entries), _new_units(entries, texts[origin], origin))
        lost, every = sum(len(row.old) for row in found if row.kind == DROPPED), _count(found)
        if lost * 2 > every:
            return _refuse(seen, f"the model's text leaves out {lost} of {every} statements", model=model)
        rows += found
    return Rewording(seen, texts, tuple(rows), model)


def accept_rows(rewording: Rewording, accepted: Collection[int], *, now: datetime) -> Proposal:
    """Return the proposal that writes the accepted rows to the record; the other statements
    stay as they are.
    """
    seen = rewording.seen
    chosen = {at for at in rewording.open if at in accepted}
    origins = {rewording.rows[at].origin for at in chosen}
    if not chosen:
        raise Refused("no rewording was accepted; nothing was changed")
    pieces = [unit for unit in _choose_texts(rewording.rows, chosen) if unit.origin in origins]
    articles = {each: _article(pieces, each) for each in sorted(origins, key=lambda origin: origin.rank)}
    covered = [entry for each, entries in _by_origin(seen).items() if each in origins for entry in entries]
    text = rewrite.append_articles(seen, covered, articles, now, by=rewording.model)
    stands = [entry.text for entry in document.parse(text).entries[-len(articles) :]]
    if not rewrite.is_proved(pieces, set(), articles) or stands != [*articles.values()]:
        raise Refused(
            "these statements cannot be merged without repeating one; nothing was changed",
            hint=f"edit it with `vade edit {seen.record.key}`",
        )
    why = f"{len(chosen)} of {len(rewording.open)} changes accepted; the old entries stay, marked superseded"
    return Proposal(NAME, seen.record.path, why, (seen.revised(text),), seen.record.place)


def show_rows(rows: Sequence[RewordRow]) -> str:
    """Return the rows as lines of text that show the difference, statement by statement."""
    lines: list[str] = []
    for row in rows:
        if row.kind == KEPT:
            lines += [f"  {line}" for line in row.before.split("\n")]
        else:
            lines += [row.shown, f"  ({row.kind}{f'; {row.warning}' if row.warning else ''})"]
    return "\n".join(lines)


def _find_obstacle(seen: RecordFile) -> str:
    """Return why a record cannot be reworded; empty when it can."""
    if not seen.scope_folder.trusted:
        return "its folder is not trusted"
    if seen.record.type in LEARNED:
        return f"a {seen.record.type} has its own structure, which a rewording would lose"
    old_texts = [entry.text for entries in _by_origin(seen).values() for entry in entries]
    if not old_texts:
        return "it is empty"
    if len("\n".join(old_texts).encode()) > rewrite.LONGEST:
        return f"its entries are longer than {rewrite.LONGEST // 1024} KiB together"
    if any(secrets.find(text) for text in old_texts):
        return "it contains a secret, which is never sent to a model"
    return ""


def _by_origin(seen: RecordFile) -> dict[Origin, list[Entry]]:
    """Return a record's entries with text that are not superseded, grouped by their origin."""
    found: dict[Origin, list[Entry]] = {}
    for entry in seen.record.entries:
        if entry.live and entry.text.strip():
            found.setdefault(entry.origin or Origin.USER, []).append(entry)
    return found


def _refuse(seen: RecordFile, why: str, *, asked: bool = True, model: str = "") -> Rewording:
    return Rewording(seen, model=model, refused=Refusal(seen.record.path, why, asked))


def _find_text_problem(entries: Sequence[Entry], text: str, largest: int) -> str:
    """Return a problem of a model's text, to be put after the words "the model's text"; empty without one."""
    before = sum(len(entry.text) for entry in entries)
    if not text.strip():
        return "is empty"
    if len(text) > before * _MUCH + _MORE or len(text.encode(errors="replace")) > largest:
        return "is much longer than what it rewords"
    known = set("\n\t").union(*(entry.text for entry in entries))
    if not "".join(set(text) - known).isprintable():
        return "contains invisible characters"
    if secrets.find(text):
        return "holds a secret"
    return ""


def _new_units(entries: Sequence[Entry], text: str, origin: Origin) -> list[TopicUnit]:
    """Return the statements of a new text; a heading that is not in the old entries becomes a statement."""
    known = {name for unit in rewrite.split_units(entries) for name in unit.headings}
    return [
        unit._replace(headings=tuple(name for name in unit.headings if name in known))
        for unit in rewrite.split_units([Entry(text.strip(), None, origin)])
    ]


# -------------------------------------------------------------------- pairing


def pair_units(old: Sequence[TopicUnit], new: Sequence[TopicUnit]) -> list[RewordRow]:
    """Return the rows for old and new statements, in the new order; a dropped statement stays
    where it was.
    """
    pairing = _Pairing(old, new)
    pairing.pair_same()
    pairing.pair_similar()
    pairing.pair_parts()
    return [*pairing.rows()]


class _Pairing:
    """Pairs the statements of an old text with those of a new text that replace them."""

    def __init__(self, old: Sequence[TopicUnit], new: Sequence[TopicUnit]) -> None:
        self.old, self.new = old, new
        self.words_old, self.words_new = [[_words(unit) for unit in each] for each in (old, new)]
        self.left = set(range(len(old)))
        self.takes: dict[int, list[int]] = {}  # the old ones that each new one takes up
        self.same: set[int] = set()  # new ones that say what an old one says
        self.joined: dict[int, int] = {}  # a new one that is a part of what another took up

    def pair_same(self) -> None:
        """Pair the statements that say the same in both texts, first those with equal words."""
        for says_same in (_is_kept, _is_same):
            for at in sorted(self._open()):
                found = (each for each in sorted(self.left) if says_same(self.old[each], self.new[at]))
                match = next(found, None)
                if match is not None:
                    self._pair(at, match)
                    self.same.add(at)

    def pair_similar(self) -> None:
        """Pair each old statement with at most one new statement, by the most words in common."""
        scored = [
            (_dice(self.words_old[each], self.words_new[at]), at, each)
            for at in self._open()
            for each in self.left
        ]
        for score, at, each in sorted(scored, key=lambda row: (-row[0], *row[1:])):
            if score >= _ALIKE and each in self.left and at not in self.takes:
                self._pair(at, each)

    def pair_parts(self) -> None:
        """Add the old statements that a new one joins, and the new ones into which an old one was split."""
        for each in sorted(self.left):
            share, at = _best((_inside(self.words_old[each], self.words_new[n]), n) for n in self._open())
            if share >= _PART:
                self._pair(at, each)
        for at in sorted(self._open() - self.takes.keys()):
            others = [(n, each) for n in self.takes.keys() - self.same for each in self.takes[n]]
            share, other = _best((_inside(self.words_new[at], self.words_old[each]), n) for n, each in others)
            if share >= _PART:
                self.joined[at] = other

    def rows(self) -> Iterator[RewordRow]:
        """Yield the rows in the new order; a dropped statement follows the statement that stood before it."""
        behind: dict[int, list[int]] = {}
        chosen = {each: at for at, group in self.takes.items() for each in group}
        for each in sorted(self.left):
            before = next((chosen[n] for n in range(each - 1, -1, -1) if n in chosen), -1)
            behind.setdefault(before, []).append(each)
        for at in range(-1, len(self.new)):
            if at >= 0 and at not in self.joined:
                yield self._row(at)
            yield from (RewordRow(DROPPED, (self.old[each],)) for each in behind.get(at, ()))

    def _open(self) -> set[int]:
        return set(range(len(self.new))) - self.same

    def _pair(self, at: int, each: int) -> None:
        self.takes.setdefault(at, []).append(each)
        self.left.discard(each)

    def _row(self, at: int) -> RewordRow:
        mine = tuple(self.old[each] for each in sorted(self.takes.get(at, ())))
        theirs = (self.new[at], *(self.new[each] for each, to in self.joined.items() if to == at))
        if not mine:
            return RewordRow(INVENTED, (), theirs, "no entry says it")
        if at not in self.same:
            return RewordRow(REWORDED, mine, theirs, _find_warning(mine, theirs))
        same = _is_kept(mine[0], theirs[0])
        return RewordRow(KEPT, mine, theirs) if same else RewordRow(REWORDED, mine, theirs, "says the same")


def _best(scored: Iterable[tuple[float, int]]) -> tuple[float, int]:
    """Return the (share, number) with the highest share; of equal shares the lowest number."""
    return max(scored, key=lambda row: (row[0], -row[1]), default=(0.0, 0))


def _is_kept(old: TopicUnit, new: TopicUnit) -> bool:
    return old.headings == new.headings and normalise(_unit_text(old)) == normalise(_unit_text(new))


def _is_same(old: TopicUnit, new: TopicUnit) -> bool:
    return old.headings == new.headings and similarity.same(_unit_text(old), _unit_text(new)) is not None


def _dice(one: Collection[str], other: Collection[str]) -> float:
    return 2 * len({*one} & {*other}) / max(len(one) + len(other), 1)


def _inside(part: Collection[str], whole: Collection[str]) -> float:
    return len({*part} & {*whole}) / len(part) if part else 0.0


def _words(unit: TopicUnit) -> frozenset[str]:
    return frozenset(stem(word.casefold()) for word in WORD.findall(_unit_text(unit)))


def _unit_text(unit: TopicUnit) -> str:
    return " ".join(unit.parts)


def _find_warning(old: Sequence[TopicUnit], new: Sequence[TopicUnit]) -> str:
    """Return a warning about contradictions between old and new statements and about changed words."""
    parts = [[part for unit in units for part in unit.parts] for units in (old, new)]
    rules = (conflict.contradiction(*pair) for pair in itertools.product(*parts))
    rule = next(filter(None, rules), "")
    mine, theirs = (_plain_words(each) for each in parts)
    gone = [mine[base] for base in mine if base not in theirs]
    came = [theirs[base] for base in theirs if base not in mine]
    if not rule and any(similarity.is_negation(word.casefold()) for word in (*gone, *came)):
        rule = conflict.DENIED
    notes = (("contradicts it: ", [rule]), ("without ", gone), ("new: ", came))
    return "; ".join(f"{label}{', '.join(words)}" for label, words in notes if any(words))


def _plain_words(parts: Sequence[str]) -> dict[str, str]:
    """Return the words of statements as a mapping of stems to words."""
    return {stem(word.casefold()): word for word in WORD.findall(" ".join(parts))}


def _choose_texts(rows: Sequence[RewordRow], chosen: Collection[int]) -> Iterator[TopicUnit]:
    """Yield the statements of the version to be saved: the new words of accepted rows, the old words
    elsewhere.
    """
    for at, row in enumerate(rows):
        yield from row.new if at in chosen and row.kind != KEPT else row.old


def _article(pieces: Sequence[TopicUnit], origin: Origin) -> str:
    return rewrite.lay_out([(unit.headings, unit) for unit in pieces if unit.origin is origin])


def _format_units(units: Sequence[TopicUnit]) -> str:
    return "\n".join(" › ".join((*unit.headings, unit.text)) for unit in units)


def _count(rows: Sequence[RewordRow]) -> int:
    return sum(len(row.old) for row in rows)
