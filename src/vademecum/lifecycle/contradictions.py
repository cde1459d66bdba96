"""Contradictions: two living entries of one place that cannot both be true, and what fixes them.

What excludes what is decided by `text.conflict` alone; here statements are brought together across all
records of a place, and records are held against its pinned documents and the newer days of its journal. A
claim whose words do not tell what it is about ("the port is 80") is held only against records about the same.
A model may be asked what it thinks of a pair; it finds nothing, and decides nothing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import EmbedderFailed
from vademecum.index.embed.local import near_words
from vademecum.knowledge.statements import split_entries
from vademecum.lifecycle import statements
from vademecum.lifecycle.passes import Proposal
from vademecum.llm.base import read_prompt
from vademecum.store import document
from vademecum.store.archive import JOURNAL, PINNED
from vademecum.store.document import decode
from vademecum.store.merge import is_consolidation, may_supersede
from vademecum.text import WORD, clock, conflict, meaning, secrets, split_sentences, statement, synonyms
from vademecum.text.statement import SENTENCE
from vademecum.text.vocabulary import stem
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.lifecycle.passes import SeenRecord
    from vademecum.llm.base import Limits, Model
    from vademecum.store import Edit
    from vademecum.text.conflict import Assertion
    from vademecum.text.meaning import Reading
    from vademecum.text.vocabulary import Quantity

CONTRADICTION = "contradiction"
MOST_CLASHES = 200  # the newest pairs of one run
_CROWD = 40  # claims about one thing that are held against each other, the newest
_MOST_NEAR = 512  # topics that differ in one word, whose words are held against each other
_NEAR = 0.45  # of two words' vectors, from which on they may stand for the same
_COLUMN = 3  # values of one field in one record, from which on it is a list and no change of mind
_QUOTED = 100
_BESIDE = {PINNED: "a pinned document", JOURNAL: "the journal"}
# Words of a heading below which a page speaks of one system, of another time, or of what is not so.
_RESTRICTING = frozenset(
    stem(word)
    for word in """staging production prod preview canary sandbox demo local test tests testing dev
    development experiment trial legacy old former history historic past archive archived deprecated retired
    plan planned plans idea ideas future roadmap proposal draft option options alternative alternatives
    question questions todo example examples competitor testsystem abnahme produktion entwicklung geplant
    pläne ideen früher verlauf archiv veraltet vorschlag entwurf
    beispiel beispiele fragen offen""".split()
)
_THINGS = frozenset(  # of which a heading of more words names one
    stem(word)
    for word in """service app application system host server client customer module vendor kunde dienst
    anwendung""".split()
)


class SaidEntry(NamedTuple):
    """One statement, and the entry that makes it."""

    seen: SeenRecord
    entry: Entry
    text: str
    line: int  # of the file, from 1
    share: float  # how much of its entry it is
    headings: tuple[str, ...] = ()
    follows: bool = False  # whether it is empty without the one before it

    @property
    def beside(self) -> str:
        """What it stands in when that is no record: `pinned` or `journal`."""
        return self.seen.record.type if self.seen.record.type in _BESIDE else ""

    @property
    def where(self) -> str:
        """The line as shown."""
        return f"{self.seen.record.path}#L{self.line}"

    @property
    def quoted(self) -> str:
        """What it says, short and without secrets."""
        text = secrets.redact(self.text, secrets.find(self.text))
        return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"


class Clash(NamedTuple):
    """Two statements that cannot both be true, the older one first, and the rule that says so."""

    older: SaidEntry
    newer: SaidEntry
    rule: str
    certain: bool = True  # whether nothing but the order and the trust of the two is left to ask

    @property
    def why(self) -> str:
        """One sentence for a person."""
        when = f" of {self.newer.entry.time[:10]}" if self.newer.entry.time else ""
        return f"“{self.older.quoted}” and “{self.newer.quoted}”{when} in {self.newer.where}: {self.rule}"


class _Held(NamedTuple):
    """A claim, and who makes it."""

    claim: Assertion
    said: SaidEntry


# -------------------------------------------------------------------- finding


def find_clashes(seen: Iterable[SeenRecord], beside: Iterable[SeenRecord] = ()) -> list[Clash]:
    """All pairs of living entries of one place that contradict each other, the newest first.

    What stands `beside` the records, pages and days, is held against them and not against each other.
    """
    found: dict[tuple[object, ...], Clash] = {}
    for bucket in _gathered([*seen, *beside]):
        for clash in _pairs(bucket):
            both = tuple(sorted((_entry_key(clash.older), _entry_key(clash.newer))))
            known = found.get(both)
            if known is None or (clash.certain and not known.certain):
                found[both] = clash
    order = sorted(found.values(), key=lambda clash: (clash.older.where, clash.newer.where))
    return sorted(order, key=lambda clash: clash.newer.entry.time or "", reverse=True)


def _gathered(seen: Sequence[SeenRecord]) -> Iterator[list[_Held]]:
    """What is claimed of one topic in more than one way: first by its words, then by what they mean."""
    buckets: dict[tuple[object, ...], list[_Held]] = {}
    reworded: dict[tuple[object, ...], dict[frozenset[str], list[_Held]]] = {}
    for each in seen:
        if is_consolidation(each.record):
            continue  # it repeats what others said
        said = [*_said(each)]
        for held in _without_columns(said):
            buckets.setdefault((each.record.place, held.claim.key), []).append(held)
        for held in _held(said, conflict.reworded):
            *kind, _, terms = held.claim.key
            topics = reworded.setdefault((each.record.place, *kind, terms), {})
            topics.setdefault(held.claim.topic, []).append(held)
    for bucket in itertools.chain(buckets.values(), *map(_by_meaning, reworded.values())):
        if len(bucket) > 1 and any(each.claim.value != bucket[0].claim.value for each in bucket):
            yield bucket


def _held(said: Iterable[SaidEntry], claimed: Callable[[Reading], Iterator[Assertion]]) -> list[_Held]:
    return [_Held(claim, each) for each in said for claim in claimed(meaning.read(each.text))]


def _by_meaning(topics: dict[frozenset[str], list[_Held]]) -> Iterator[list[_Held]]:
    """What is claimed of topics that are one in other words, of one kind and on the same terms."""
    yield from topics.values()
    groups: dict[frozenset[str], dict[str, frozenset[str]]] = {}
    for topic, claimed in topics.items():
        kind = synonyms.general(topic)
        if kind != topic and kind in topics:
            yield topics[kind] + claimed
        for word in topic:
            if word.isalpha():
                groups.setdefault(topic - {word}, {})[word] = topic
    for group in groups.values():
        spoken = {word: _spoken(word, topics[topic][-1]) for word, topic in [*group.items()][-_MOST_NEAR:]}
        for one, other in _near(spoken) if len(spoken) > 1 else ():
            if not synonyms.are_apart(one, other):
                yield topics[group[one]] + topics[group[other]]


def _near(spoken: dict[str, str]) -> list[tuple[str, str]]:
    try:
        return near_words(spoken, least=_NEAR)
    except EmbedderFailed:
        return []  # search tells that the shipped vectors cannot be read; the list goes on without them


def _spoken(word: str, held: _Held) -> str:
    """A stem as it was written."""
    return next((each for each in WORD.findall(held.said.text.lower()) if stem(each) == word), word)


def _without_columns(said: Iterable[SaidEntry]) -> list[_Held]:
    """What a record claims, but for fields with so many values that they are of as many things."""
    held = _held(said, conflict.claims)
    values: dict[tuple[object, ...], set[Quantity]] = {}
    for each in held:
        if each.claim.field:
            values.setdefault(each.claim.key, set()).add(each.claim.value)
    return [each for each in held if len(values.get(each.claim.key, ())) < _COLUMN]


def _pairs(bucket: Sequence[_Held]) -> Iterator[Clash]:
    values: dict[tuple[object, ...], set[object]] = {}
    for each in bucket:
        values.setdefault(_entry_key(each.said), set()).add(each.claim.value)
    # An entry that gives two values itself speaks of two things.
    sure = [each for each in bucket if len(values[_entry_key(each.said)]) == 1]
    sure = sorted(sure, key=lambda each: _age(each.said))[-_CROWD:]
    for at, one in enumerate(sure):
        for other in sure[at + 1 :]:
            if conflict.excludes(one.claim.value, other.claim.value) and _is_comparable(one, other):
                first, second = sorted(
                    (one.said, other.said), key=lambda said: (bool(said.beside), _age(said))
                )
                certain = one.claim.certain and other.claim.certain and not second.beside
                yield Clash(first, second, one.claim.rule, certain)


def _is_comparable(one: _Held, other: _Held) -> bool:
    """Whether two claims with the same words are about the same."""
    if one.said.beside or other.said.beside:
        return _is_beside(*sorted((one, other), key=lambda held: bool(held.said.beside)))
    specific = _stands_alone(one) and _stands_alone(other)
    if one.said.seen.record.path == other.said.seen.record.path:
        same_part = specific or one.said.headings == other.said.headings
        return same_part and _entry_key(one.said) != _entry_key(other.said)
    if specific:
        return True
    return _shares_topic(one.said, other.said)


def _shares_topic(one: SaidEntry, other: SaidEntry) -> bool:
    tags = {tag for tag in one.seen.record.tags if not tag.startswith("_")}
    return bool(tags & set(other.seen.record.tags) or _topic(one) & _topic(other))


def _is_beside(held: _Held, page: _Held) -> bool:
    """Whether a record is to be held against a page: all is told by the words, and a day is a later one."""
    if held.said.beside or not (_stands_alone(held) and _stands_alone(page)):
        return False
    if page.said.beside == JOURNAL and _age(page.said)[0] <= _age(held.said)[0]:
        return False  # it tells what was so then
    known = meaning.read(held.said.text).everything
    headings = ({stem(word.casefold()) for word in WORD.findall(name)} for name in page.said.headings)
    return not any(_restricts(words) and not words <= known for words in headings)


def _restricts(heading: set[str]) -> bool:
    """Whether what stands below a heading holds for one thing, another time, or not at all."""
    return bool(heading & _RESTRICTING or (len(heading) > 1 and heading & _THINGS))


def _stands_alone(held: _Held) -> bool:
    return held.claim.specific and not held.said.follows


def _topic(said: SaidEntry) -> set[str]:
    return {stem(word) for word in said.seen.record.key.split("-") if len(word) > 3} - conflict.GENERIC


def _entry_key(said: SaidEntry) -> tuple[str, int]:
    return said.seen.record.path, said.entry.start


def _age(said: SaidEntry) -> tuple[float, str, int]:
    moment = clock.parse(said.entry.time)
    return moment.timestamp() if moment else 0.0, said.seen.record.path, said.entry.start


def _said(seen: SeenRecord) -> Iterator[SaidEntry]:
    if seen.record.type == JOURNAL:
        yield from _noted(seen)
        return
    living = seen.record.live
    if not living:
        return
    found = [*split_entries(decode(seen.content), living, path=seen.record.path)]
    counts: dict[int, int] = {}
    for entry, _ in found:
        counts[entry.start] = counts.get(entry.start, 0) + 1
    for entry, each in found:
        if each.kind == SENTENCE and len(each.text) <= meaning.LONGEST:
            text = " ".join(each.text.split())
            yield SaidEntry(
                seen, entry, text, each.line, 1 / counts[entry.start], each.headings, each.follows
            )


def _noted(seen: SeenRecord) -> Iterator[SaidEntry]:
    """What a day of a journal says in somebody's own words, and nothing that was made of them."""
    record = seen.record
    for each in statements.split_day(
        decode(seen.content), place=record.place, path=record.path, day=seen.name[:10]
    ):
        if len(each.text) <= meaning.LONGEST and not (each.whole and len(split_sentences(each.text)) > 1):
            entry = Entry(each.text, each.time, each.origin, start=each.start, end=each.end)
            refers = statement.refers(each.text)
            yield SaidEntry(seen, entry, each.text, each.start, 1.0, follows=refers)


# -------------------------------------------------------------------- mending


@dataclass(frozen=True, slots=True)
class Contradictions:
    """The pass: the older entry is marked superseded by the newer, where that needs no person."""

    verified: Callable[[Entry], bool] = lambda entry: False
    name: str = CONTRADICTION

    def propose(self, seen: Sequence[SeenRecord], *, now: datetime) -> Iterator[Proposal]:
        """Mark what a newer entry, trusted no less, says otherwise; both texts stay."""
        marks: dict[str, dict[int, Clash]] = {}
        files: dict[str, SeenRecord] = {}
        for clash in find_clashes(seen)[:MOST_CLASHES]:
            if needs_person(clash, self.verified):
                continue
            path = clash.older.seen.record.path
            files[path] = clash.older.seen
            chosen = marks.setdefault(path, {})
            known = chosen.get(clash.older.entry.start)
            if known is None or _age(clash.newer) < _age(known.newer):
                chosen[clash.older.entry.start] = clash
        for path, chosen in sorted(marks.items()):
            text = decode(files[path].content)
            for index, entry in enumerate(files[path].record.entries):
                mark = chosen.get(entry.start)
                if mark is not None:
                    parsed = document.parse(text)
                    signed = parsed.sections[index].signed is not None
                    text = document.sign(
                        parsed,
                        index,
                        origin=None if signed else entry.origin,
                        superseded=mark.newer.entry.time,
                    )
            first = min(chosen.values(), key=lambda clash: clash.older.line)
            more = f"; and {len(chosen) - 1} more" if len(chosen) > 1 else ""
            why = (
                f"“{first.older.quoted}” is superseded by “{first.newer.quoted}” in {first.newer.where}{more}"
            )
            place = files[path].record.place
            yield Proposal(self.name, first.older.where, why, (files[path].revised(text),), place)


def settle_clash(clash: Clash, *, at: str) -> Edit:
    """The edit by which a person lets the newer statement hold: the older entry is marked superseded.

    What stands in no record is added to this one, so that it goes on to say something.
    """
    seen = clash.older.seen
    parsed = document.parse(decode(seen.content))
    index = next(n for n, entry in enumerate(seen.record.entries) if entry.start == clash.older.entry.start)
    signed = parsed.sections[index].signed is not None
    origin = None if signed else clash.older.entry.origin
    text = document.sign(parsed, index, origin=origin, superseded=clash.newer.entry.time or at)
    if clash.newer.beside:
        text = document.append(text, Entry(clash.newer.text, at, clash.newer.entry.origin or Origin.USER))
    return seen.revised(text)


def needs_person(clash: Clash, verified: Callable[[Entry], bool] = lambda entry: False) -> str:
    """Why this contradiction is left to a person; empty when it is not."""
    older, newer = clash.older, clash.newer
    if newer.beside:
        return f"the other one is in {_BESIDE[newer.beside]}"
    if not (older.seen.shelf.trusted and newer.seen.shelf.trusted):
        return "its folder is not trusted"
    # In one record entries follow each other; across records only the time tells.
    together = older.seen.record.path == newer.seen.record.path
    same_time = _age(older)[0] == _age(newer)[0] and not together
    if older.entry.time is None or newer.entry.time is None or same_time:
        return "it is unclear which one is newer"
    if verified(older.entry) and not verified(newer.entry):
        return "you verified the older one"
    if not may_supersede(older.seen.record, older.entry, origin=newer.entry.origin or Origin.USER):
        return "the older one is more trusted, or protected"
    if older.share < 0.5:
        return "the older entry says much more"
    return "" if clash.certain else "they may be about two things"


# -------------------------------------------------------------------- a second opinion


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a model is asked for."""

    contradicts: bool
    why: str = ""


def ask_opinion(clash: Clash, model: Model, *, limits: Limits | None = None) -> bool:
    """Whether a model sees the contradiction too; raises a ModelFailed when it gives no verdict."""
    shown = "\n".join(
        f"STATEMENT {when or 'undated'}\n{secrets.redact(text, secrets.find(text))}\nEND"
        for when, text in (
            (clash.older.entry.time, clash.older.text),
            (clash.newer.entry.time, clash.newer.text),
        )
    )
    return model.typed(
        shown, Verdict, system=read_prompt(__package__, "contradiction"), limits=limits
    ).value.contradicts
