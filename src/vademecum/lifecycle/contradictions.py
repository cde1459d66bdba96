"""Find two current entries of one place that cannot both be true, and propose the fix.

`text.conflict` decides which claims exclude each other; this module compares the claims of all records of a
place with each other, and with its pinned documents and newer journal days. A claim whose words do not name
its subject ("the port is 80") is compared within one record only. A model may be asked for an opinion, which
is shown to a person and changes nothing else.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import EmbedderFailed, ModelFailed
from vademecum.index.embed.local import near_words
from vademecum.knowledge import split_entries
from vademecum.lifecycle import journal_statements
from vademecum.lifecycle.lint_rules import ERROR, WARNING
from vademecum.lifecycle.passes import Proposal
from vademecum.llm.base import Limits, read_prompt
from vademecum.store import is_consolidation, may_supersede
from vademecum.text import (
    WORD,
    clock,
    conflict,
    document,
    meaning,
    secrets,
    split_sentences,
    statement,
    synonyms,
)
from vademecum.text.document import decode
from vademecum.text.filenames import JOURNAL, PINNED
from vademecum.text.statement import SENTENCE
from vademecum.text.vocabulary import stem
from vademecum.types import Entry, Finding, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.lifecycle.lint_rules import Material
    from vademecum.lifecycle.passes import RecordFile
    from vademecum.llm.base import Model
    from vademecum.store import Edit
    from vademecum.text.conflict import Assertion
    from vademecum.text.meaning import Reading
    from vademecum.text.vocabulary import Quantity

CONTRADICTION = "contradiction"
MOST_CLASHES = 200  # the newest pairs of one run
_OPINION_SECONDS = 10.0  # for the opinion of a model about one pair
_OPINIONS_SECONDS = 60.0  # for all opinions of one run
_CROWD = 40  # claims about one thing that are held against each other, the newest
_MOST_NEAR = 512  # topics that differ in one word, whose words are held against each other
_NEAR = 0.45  # of two words' vectors, from which on they may stand for the same
_COLUMN = 3  # values of one field in one record, from which on it is a list and no change of mind
_QUOTED = 100
_PAGES = {PINNED: "a pinned document", JOURNAL: "the journal"}
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


class EntryStatement(NamedTuple):
    """A statement in a record, pinned document or journal day, and the entry that contains the statement."""

    seen: RecordFile
    entry: Entry
    text: str
    line: int  # of the file, from 1
    share: float  # how much of its entry it is
    headings: tuple[str, ...] = ()
    follows: bool = False  # whether it is empty without the one before it

    @property
    def page_kind(self) -> str:
        """`pinned` or `journal` for a statement outside of records; empty for a statement of a record."""
        return self.seen.record.type if self.seen.record.type in _PAGES else ""

    @property
    def where(self) -> str:
        """The path and line of the statement."""
        return f"{self.seen.record.path}#L{self.line}"

    @property
    def quoted(self) -> str:
        """The statement, shortened and without secrets."""
        text = secrets.redact(self.text, secrets.find(self.text))
        return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"


class Clash(NamedTuple):
    """Two statements that cannot both be true, the older first, and the name of the rule that says so.

    A statement of a pinned document or the journal is always second, whatever its age.
    """

    older: EntryStatement
    newer: EntryStatement
    rule: str
    certain: bool = True  # whether nothing but the order and the trust of the two is left to ask

    @property
    def why(self) -> str:
        """The contradiction in one sentence."""
        when = f" of {self.newer.entry.time[:10]}" if self.newer.entry.time else ""
        return f"“{self.older.quoted}” and “{self.newer.quoted}”{when} in {self.newer.where}: {self.rule}"


class _StatedClaim(NamedTuple):
    """A claim (a topic and its value), and the statement in which it was found."""

    claim: Assertion
    stated_entry: EntryStatement


# -------------------------------------------------------------------- finding


def find_clashes(seen: Iterable[RecordFile], other_pages: Iterable[RecordFile] = ()) -> list[Clash]:
    """Return pairs of statements that contradict each other, the newest first; two entries give one pair.

    Statements of pinned documents and journal days (`other_pages`) are compared with records, not with each
    other.
    """
    found: dict[tuple[object, ...], Clash] = {}
    for bucket in _group_claims([*seen, *other_pages]):
        for clash in _pairs(bucket):
            both = tuple(sorted((_entry_key(clash.older), _entry_key(clash.newer))))
            known = found.get(both)
            if known is None or (clash.certain and not known.certain):
                found[both] = clash
    order = sorted(found.values(), key=lambda clash: (clash.older.where, clash.newer.where))
    return sorted(order, key=lambda clash: clash.newer.entry.time or "", reverse=True)


def _group_claims(seen: Sequence[RecordFile]) -> Iterator[list[_StatedClaim]]:
    """Yield groups of claims about one topic with differing values; equal words or synonyms name a topic."""
    buckets: dict[tuple[object, ...], list[_StatedClaim]] = {}
    plain_claims: dict[tuple[object, ...], dict[frozenset[str], list[_StatedClaim]]] = {}
    for each in seen:
        if is_consolidation(each.record):
            continue  # it repeats what others said
        stated_entry = [*_read_statements(each)]
        for stated in _without_columns(stated_entry):
            buckets.setdefault((each.record.place, stated.claim.key), []).append(stated)
        for stated in _find_claims(stated_entry, conflict.plain_claims):
            *kind, _, terms = stated.claim.key
            topics = plain_claims.setdefault((each.record.place, *kind, terms), {})
            topics.setdefault(stated.claim.topic, []).append(stated)
    for bucket in itertools.chain(buckets.values(), *map(_by_meaning, plain_claims.values())):
        if len(bucket) > 1 and any(each.claim.value != bucket[0].claim.value for each in bucket):
            yield bucket


def _find_claims(
    stated_entry: Iterable[EntryStatement], claimed: Callable[[Reading], Iterator[Assertion]]
) -> list[_StatedClaim]:
    return [_StatedClaim(claim, each) for each in stated_entry for claim in claimed(meaning.read(each.text))]


def _by_meaning(topics: dict[frozenset[str], list[_StatedClaim]]) -> Iterator[list[_StatedClaim]]:
    """Yield the claims of each topic, and then the claims of two topics that mean the same in other words."""
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
        texts = {word: _spell_word(word, topics[topic][-1]) for word, topic in [*group.items()][-_MOST_NEAR:]}
        for one, other in _find_near_words(texts) if len(texts) > 1 else ():
            if not synonyms.are_never_same(one, other):
                yield topics[group[one]] + topics[group[other]]


def _find_near_words(texts: dict[str, str]) -> list[tuple[str, str]]:
    """Return the pairs of words with a similar meaning, judged by their word vectors."""
    try:
        return near_words(texts, least=_NEAR)
    except EmbedderFailed:
        return []  # search tells that the shipped vectors cannot be read; the list goes on without them


def _spell_word(word: str, stated: _StatedClaim) -> str:
    """Return a word as the statement spells it, given the stem of the word."""
    return next((each for each in WORD.findall(stated.stated_entry.text.lower()) if stem(each) == word), word)


def _without_columns(stated_entry: Iterable[EntryStatement]) -> list[_StatedClaim]:
    """Return the claims of statements; a field with many different values is taken for a table
    and left out.
    """
    stated = _find_claims(stated_entry, conflict.claims)
    values: dict[tuple[object, ...], set[Quantity]] = {}
    for each in stated:
        if each.claim.field:
            values.setdefault(each.claim.key, set()).add(each.claim.value)
    return [each for each in stated if len(values.get(each.claim.key, ())) < _COLUMN]


def _pairs(bucket: Sequence[_StatedClaim]) -> Iterator[Clash]:
    """Yield the pairs of statements in a group whose claims exclude each other."""
    values: dict[tuple[object, ...], set[object]] = {}
    for each in bucket:
        values.setdefault(_entry_key(each.stated_entry), set()).add(each.claim.value)
    # An entry that gives two values itself speaks of two things.
    sure = [each for each in bucket if len(values[_entry_key(each.stated_entry)]) == 1]
    sure = sorted(sure, key=lambda each: _age(each.stated_entry))[-_CROWD:]
    for at, one in enumerate(sure):
        for other in sure[at + 1 :]:
            if conflict.excludes(one.claim.value, other.claim.value) and _is_comparable(one, other):
                first, second = sorted(
                    (one.stated_entry, other.stated_entry),
                    key=lambda stated_entry: (bool(stated_entry.page_kind), _age(stated_entry)),
                )
                certain = one.claim.certain and other.claim.certain and not second.page_kind
                yield Clash(first, second, one.claim.rule, certain)


def _is_comparable(one: _StatedClaim, other: _StatedClaim) -> bool:
    """Whether two claims whose words are equal are also about the same thing."""
    if one.stated_entry.page_kind or other.stated_entry.page_kind:
        return _is_comparable_page(
            *sorted((one, other), key=lambda stated: bool(stated.stated_entry.page_kind))
        )
    specific = _stands_alone(one) and _stands_alone(other)
    if one.stated_entry.seen.record.path == other.stated_entry.seen.record.path:
        same_part = specific or one.stated_entry.headings == other.stated_entry.headings
        return same_part and _entry_key(one.stated_entry) != _entry_key(other.stated_entry)
    return specific


def _is_comparable_page(stated: _StatedClaim, page: _StatedClaim) -> bool:
    """Whether a record's claim may be compared with the claim of a pinned document or of a
    later journal day.
    """
    if stated.stated_entry.page_kind or not (_stands_alone(stated) and _stands_alone(page)):
        return False
    if page.stated_entry.page_kind == JOURNAL and _age(page.stated_entry)[0] <= _age(stated.stated_entry)[0]:
        return False  # it tells what was so then
    known = meaning.read(stated.stated_entry.text).everything
    headings = ({stem(word.casefold()) for word in WORD.findall(name)} for name in page.stated_entry.headings)
    return not any(_restricts(words) and not words <= known for words in headings)


def _restricts(heading: set[str]) -> bool:
    """Whether a heading limits the text below to one case or to another time, or denies that text."""
    return bool(heading & _RESTRICTING or (len(heading) > 1 and heading & _THINGS))


def _stands_alone(stated: _StatedClaim) -> bool:
    return stated.claim.specific and not stated.stated_entry.follows


def _entry_key(stated_entry: EntryStatement) -> tuple[str, int]:
    return stated_entry.seen.record.path, stated_entry.entry.start


def _age(stated_entry: EntryStatement) -> tuple[float, str, int]:
    moment = clock.parse(stated_entry.entry.time)
    return moment.timestamp() if moment else 0.0, stated_entry.seen.record.path, stated_entry.entry.start


def _read_statements(seen: RecordFile) -> Iterator[EntryStatement]:
    if seen.record.type == JOURNAL:
        yield from _read_journal_day(seen)
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
            yield EntryStatement(
                seen, entry, text, each.line, 1 / counts[entry.start], each.headings, each.follows
            )


def _read_journal_day(seen: RecordFile) -> Iterator[EntryStatement]:
    """Yield the statements that somebody wrote in a journal day; generated text is left out."""
    record = seen.record
    for each in journal_statements.split_day(
        decode(seen.content), place=record.place, path=record.path, day=seen.name[:10]
    ):
        if len(each.text) <= meaning.LONGEST and not (each.whole and len(split_sentences(each.text)) > 1):
            entry = Entry(each.text, each.time, each.origin, start=each.start, end=each.end)
            refers = statement.refers(each.text)
            yield EntryStatement(seen, entry, each.text, each.start, 1.0, follows=refers)


# -------------------------------------------------------------------- mending


@dataclass(frozen=True, slots=True)
class Contradictions:
    """The pass that marks the older of two contradicting entries superseded, unless a person must decide."""

    verified: Callable[[Entry], bool] = lambda entry: False
    name: str = CONTRADICTION

    def propose(self, seen: Sequence[RecordFile], *, now: datetime) -> Iterator[Proposal]:
        """Yield edits that mark an entry superseded when a newer, no less trusted entry contradicts it."""
        marks: dict[str, dict[int, Clash]] = {}
        files: dict[str, RecordFile] = {}
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
    """Return the edit that marks the older of two contradicting statements superseded by the newer statement.

    If the newer statement is not in a record, its text is also added to the record of the older statement, so
    that the record is not left without a text.
    """
    seen = clash.older.seen
    parsed = document.parse(decode(seen.content))
    index = next(n for n, entry in enumerate(seen.record.entries) if entry.start == clash.older.entry.start)
    signed = parsed.sections[index].signed is not None
    origin = None if signed else clash.older.entry.origin
    text = document.sign(parsed, index, origin=origin, superseded=clash.newer.entry.time or at)
    if clash.newer.page_kind:
        text = document.append(text, Entry(clash.newer.text, at, clash.newer.entry.origin or Origin.USER))
    return seen.revised(text)


def needs_person(clash: Clash, verified: Callable[[Entry], bool] = lambda entry: False) -> str:
    """Return the reason why a person must decide this contradiction; an empty text when no person must."""
    older, newer = clash.older, clash.newer
    if newer.page_kind:
        return f"the other one is in {_PAGES[newer.page_kind]}"
    if not (older.seen.scope_folder.trusted and newer.seen.scope_folder.trusted):
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
    """The answer of a model: whether two statements contradict each other, and why."""

    contradicts: bool
    why: str = ""


def check_contradictions(
    material: Material, *, verified: Callable[[Entry], bool], model: Model | None = None
) -> Iterator[Finding]:
    """Yield a finding for each contradiction; a given `model` is asked about them for a minute at most."""
    left = _OPINIONS_SECONDS
    for clash in find_clashes(material.watch.each(material.seen, CONTRADICTION), material.other_pages):
        record = clash.older.seen.record
        scope = f"--scope {record.place.scope}"
        reason = needs_person(clash, verified)
        mend = f"vade edit {record.key} {scope}" if reason else f"vade tidy --only heal {scope} --apply"
        mend = mend if clash.certain else "vade review --kind contradiction"
        why = f"{clash.why} ({reason})" if reason else clash.why
        severity = ERROR if clash.certain else WARNING
        if model is not None and left > 0:
            begun = time.monotonic()
            opinion, agrees = _describe_opinion(clash, model, seconds=min(_OPINION_SECONDS, left))
            why = f"{why}; {opinion}"
            severity = ERROR if clash.certain and agrees else WARNING  # a model may confirm, never decide
            left -= time.monotonic() - begun
        yield Finding(CONTRADICTION, clash.older.where, why, mend, severity, record.place)


def _describe_opinion(clash: Clash, model: Model, *, seconds: float) -> tuple[str, bool]:
    """Return a model's opinion in words, and whether it agrees; a model that fails counts as agreeing."""
    try:
        agrees = ask_opinion(clash, model, limits=Limits(seconds=seconds))
    except ModelFailed as error:
        return f"{model.name} could not judge: {error}", True
    return f"{model.name} {'agrees' if agrees else 'sees no contradiction'}", agrees


def ask_opinion(clash: Clash, model: Model, *, limits: Limits | None = None) -> bool:
    """Return whether a model sees the contradiction too; raise ModelFailed when it gives no verdict."""
    message = "\n".join(
        f"STATEMENT {when or 'undated'}\n{secrets.redact(text, secrets.find(text))}\nEND"
        for when, text in (
            (clash.older.entry.time, clash.older.text),
            (clash.newer.entry.time, clash.newer.text),
        )
    )
    return model.typed(
        message, Verdict, system=read_prompt(__package__, "contradiction"), limits=limits
    ).value.contradicts
