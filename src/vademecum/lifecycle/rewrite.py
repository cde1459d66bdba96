"""Merge the entries of a topic: a model plans an article, and the program fills it with their own words.

The model groups statements by number, orders them, names headings, and says which repeat or supersede others.
It writes no sentence. A repetition counts only where two statements are the same by the rule of `similarity`,
a supersession only where heal would make it; every other current statement stands in the article exactly
once, and the program proves that before it proposes anything. Each origin has an article of its own.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import ModelFailed, ModelUnauthorised, OverBudget, VadeError
from vademecum.lifecycle import contradictions, passes
from vademecum.lifecycle.passes import Proposal
from vademecum.llm.base import Limits, read_prompt
from vademecum.progress import counted, watched
from vademecum.store import audit, decisions
from vademecum.text import WORD, clock, document, frontmatter, normalise, secrets, similarity, statement
from vademecum.text.document import decode
from vademecum.types import LEARNED, Entry, Finding, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.lifecycle.passes import RecordFile, RunOutcome
    from vademecum.llm.base import Model
    from vademecum.store import Records
    from vademecum.text.statement import Statement
    from vademecum.types import Place

NAME = "rewrite"
LEAST_ENTRIES = 2
LONGEST = 32 * 1024  # bytes of entries that one call is given
_TOO_LONG = f"its entries are longer than {LONGEST // 1024} KiB together"
LONGEST_ANSWER = 8192  # tokens, which every model in use can give
_HEADING_WORDS = 3
_MARK = re.compile(r"(?m)^(STATEMENT\b|END[ \t]*$)")


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """The numbers of statements that belong together, in the wanted order, and a heading for them."""

    statements: list[int]
    heading: str = ""


@dataclass(frozen=True, slots=True)
class PlannedPair:
    """Two statements, by their numbers, of which the first makes the second unnecessary."""

    stays: int
    goes: int


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The answer of a model: groups of statements, and which statements make others unnecessary."""

    groups: list[PlannedGroup]
    repeats: list[PlannedPair] = field(default_factory=list)
    supersedes: list[PlannedPair] = field(default_factory=list)


class TopicUnit(NamedTuple):
    """A statement with the statements that depend on it, which move together word for word."""

    text: str
    entry: Entry
    headings: tuple[str, ...]
    parts: tuple[str, ...]  # the statements in it
    listed: bool
    start: int  # characters of the entry
    end: int

    def gap(self, before: TopicUnit) -> str | None:
        """Return the white space between the unit `before` and this one in a paragraph or list; else None."""
        between = self.entry.text[before.end : self.start] if before.entry == self.entry else "x"
        if before.end <= self.start and not between.strip() and "\n\n" not in between:
            return between
        return "\n" if self.listed and before.listed else None

    @property
    def origin(self) -> Origin:
        """The origin of the unit's entry; the user where it has none."""
        return self.entry.origin or Origin.USER


class Refusal(NamedTuple):
    """A record that was left as it is, and the reason."""

    path: str
    why: str
    asked: bool = True  # whether a model had a say in it


class RewriteOutcome(NamedTuple):
    """The outcome of a run, the records that were left as they are, and the name of the model."""

    outcome: RunOutcome
    refused: tuple[Refusal, ...] = ()
    model: str = ""


def is_due(seen: RecordFile, *, named: bool = False) -> bool:
    """Whether a record has several entries to merge; a protected record is due only when it is `named`."""
    return not _find_obstacle(seen) and (named or not seen.record.protected)


def rewrite_places(
    records: Records,
    places: Iterable[Place],
    model: Model,
    *,
    path: str | None = None,
    apply: bool,
    progress: Callable[[str, int, int], None] | None = None,
) -> RewriteOutcome:
    """Propose to merge the entries of each record with several, or of the record at `path`; `apply` merges.

    A refused answer leaves a line in the audit log, also without `apply`.
    """
    seen, findings = passes.read_places(records, places)
    if path is None:
        chosen = [each for each in seen if is_due(each)]
        findings = [*findings, *_too_long(seen)]
    else:
        chosen = [each for each in seen if each.record.path == path]

    with watched(progress):
        proposals, refused = rewrite_all(
            chosen,
            model,
            now=records.now,
            verified=lambda entry: decisions.verified(records.home, entry.text),
        )
    for each, refusal in refused:
        if refusal.asked:
            audit_refusal(records, each, NAME, strict=apply)
    outcome = passes.RunOutcome(tuple(proposals), findings=tuple(findings))
    if apply and proposals:
        run, edit_results = passes.apply_proposals(records, proposals, what="compact")
        outcome = outcome._replace(run=run, results=edit_results)
    return RewriteOutcome(outcome, tuple(refusal for _, refusal in refused), model.name)


def audit_refusal(records: Records, seen: RecordFile, what: str, *, strict: bool) -> None:
    """Add an audit line that a model's answer about a record was refused; the line has none of the text.

    Without `strict`, a line that cannot be written is no error.
    """
    # A look at what would be done is worth its answer also where nothing can be written.
    with contextlib.suppress(*(() if strict else (VadeError, OSError))):
        audit.write(
            records.home,
            at=records.now(),
            actor=records.caller.actor,
            operation=f"{what} refused",
            scope=seen.record.place.scope,
            record=seen.record.id,
            num=seen.record.num,
            before=seen.content,
            after=seen.content,
        )


def rewrite_all(
    chosen: Sequence[RecordFile],
    model: Model,
    *,
    now: Callable[[], datetime],
    verified: Callable[[Entry], bool] = lambda entry: False,
) -> tuple[list[Proposal], list[tuple[RecordFile, Refusal]]]:
    """Return proposals that merge the entries of records, and the records refused, with reasons.

    After a missing key or a spent budget, the model is not asked about the other records.
    """
    proposals: list[Proposal] = []
    refused: list[tuple[RecordFile, Refusal]] = []
    silent = ""
    for seen in counted(chosen, "topics"):
        if silent:
            refused.append((seen, Refusal(seen.record.path, f"not asked: {silent}", asked=False)))
            continue
        try:
            found = _plan_and_write(seen, model, now=now(), verified=verified)
        except (ModelUnauthorised, OverBudget) as error:
            silent = str(error)
            found = Refusal(seen.record.path, silent)
        except ModelFailed as error:
            found = Refusal(seen.record.path, str(error))
        if isinstance(found, Refusal):
            refused.append((seen, found))
        else:
            proposals.append(found)
    return proposals, refused


def rewrite(
    seen: RecordFile, model: Model, *, now: datetime, limits: Limits | None = None
) -> Proposal | Refusal:
    """Return the proposal that merges a record's entries, or the refusal with its reason."""
    try:
        return _plan_and_write(seen, model, now=now, limits=limits)
    except ModelFailed as error:
        return Refusal(seen.record.path, str(error))


def _find_obstacle(seen: RecordFile) -> str:
    """Return why a record cannot be merged; empty when it can."""
    if not seen.scope_folder.trusted:
        return "its folder is not trusted"
    if seen.record.type in LEARNED:
        return f"a {seen.record.type} has its own structure, which an article would lose"
    entries = _covered(seen)
    if len(entries) < LEAST_ENTRIES:
        return "it has one entry only: there is nothing to merge"
    return _TOO_LONG if len(ask_about(split_units(entries)).encode()) > LONGEST else ""


def _too_long(seen: Iterable[RecordFile]) -> Iterator[Finding]:
    """Yield a finding for each topic that is too long for one question to a model."""
    for each in seen:
        if not each.record.protected and _find_obstacle(each) == _TOO_LONG:
            yield Finding(NAME, each.record.path, _TOO_LONG)


def _plan_and_write(
    seen: RecordFile,
    model: Model,
    *,
    now: datetime,
    limits: Limits | None = None,
    verified: Callable[[Entry], bool] = lambda entry: False,
) -> Proposal | Refusal:
    barred = _find_obstacle(seen)
    if barred:
        return Refusal(seen.record.path, barred, asked=False)
    entries = _covered(seen)
    if any(secrets.find(entry.text) for entry in entries):
        return Refusal(seen.record.path, "it contains a secret, which is never sent to a model", asked=False)
    units = split_units(entries)
    limits = limits or Limits(output=min(len(units) * 24 + 1024, LONGEST_ANSWER))
    system = read_prompt(__package__, "rewrite")
    plan = model.typed(ask_about(units), TopicPlan, system=system, limits=limits).value
    wrong = find_problem(units, plan)
    if wrong:
        return Refusal(seen.record.path, f"the model's plan {wrong}")
    gone = find_unneeded(seen, units, plan, verified)
    articles = write_articles(units, plan, gone)
    if not is_proved(units, gone, articles):
        return Refusal(seen.record.path, "the entries cannot be merged without repeating a statement")
    made = f"{len(articles)}, one for each origin" if len(articles) > 1 else "one"
    why = f"{len(entries)} entries become {made}; they stay, marked superseded"
    edit = seen.revised(append_articles(seen, entries, articles, now, by=model.name))
    return Proposal(NAME, seen.record.path, why, (edit,), seen.record.place)


def split_units(entries: Sequence[Entry]) -> list[TopicUnit]:
    """Split entries into units: runs of statements that depend on each other and must move together."""
    found: list[TopicUnit] = []
    for entry in entries:
        pieces: list[list[Statement]] = []
        for each in statement.split(entry.text):
            below = pieces and pieces[-1][-1].headings == each.headings
            if each.follows and below:
                pieces[-1].append(each)
            else:
                pieces.append([each])
        for piece in pieces:
            first, start, end = piece[0], piece[0].start - len(piece[0].marker), piece[-1].end
            parts = tuple(each.text for each in piece)
            text = entry.text[start:end]
            found.append(TopicUnit(text, entry, first.headings, parts, bool(first.marker), start, end))
    return found


def find_problem(units: Sequence[TopicUnit], plan: TopicPlan, *, whole: bool = True) -> str:
    """Return a problem of a model's plan, to be put after the words "the model's plan"; empty without one.

    A plan that need not be `whole` may leave statements out.
    """
    placed = Counter(number for group in plan.groups for number in group.statements)
    pairs = [*plan.repeats, *plan.supersedes]
    known = range(1, len(units) + 1)
    named = {*placed, *(number for pair in pairs for number in (pair.stays, pair.goes))}
    if not named.issubset(known):
        return "names a statement that does not exist"
    if placed.total() > len(placed):
        return "places a statement twice"
    missing = set(known) - set(placed)
    if whole and missing:
        return f"leaves out {len(missing)} of {len(units)} statements"
    if any(pair.stays == pair.goes for pair in pairs):
        return "has a statement superseded by itself"
    return ""


def find_unneeded(
    seen: RecordFile,
    units: Sequence[TopicUnit],
    plan: TopicPlan,
    verified: Callable[[Entry], bool] = lambda entry: False,
) -> set[int]:
    """Return the numbers, from 0, of the units that another unit makes unnecessary in the article.

    `verified` tells whether a person verified an entry: a unit of such an entry gives way only to a unit of
    another verified entry.
    """
    gone: set[int] = set()
    needed: set[int] = set()  # for what gave way to it: it cannot go itself
    for pair in plan.repeats:
        stays, goes = units[pair.stays - 1], units[pair.goes - 1]
        trusted = stays.origin.rank <= goes.origin.rank and (
            verified(stays.entry) or not verified(goes.entry)
        )
        together = stays.headings == goes.headings
        if trusted and together and _may_go(pair, gone, needed) and _says_same(stays, goes):
            gone.add(pair.goes - 1)
            needed.add(pair.stays - 1)
    clashes = contradictions.find_clashes([seen])
    healed = [each for each in clashes if not contradictions.needs_person(each, verified)]
    for pair in plan.supersedes:
        newer, older = units[pair.stays - 1], units[pair.goes - 1]
        mended = any(
            _is_statement_of(each.older, older) and _is_statement_of(each.newer, newer) for each in healed
        )
        if mended and len(older.parts) == 1 and _may_go(pair, gone, needed):
            gone.add(pair.goes - 1)
            needed.add(pair.stays - 1)
    return gone


def _may_go(pair: PlannedPair, gone: set[int], needed: set[int]) -> bool:
    return pair.stays - 1 not in gone and pair.goes - 1 not in needed


def _says_same(one: TopicUnit, other: TopicUnit) -> bool:
    return similarity.same(one.text, other.text) is not None


def _is_statement_of(stated: contradictions.EntryStatement, unit: TopicUnit) -> bool:
    """Whether a unit contains the statement that takes part in a contradiction."""
    same = normalise(stated.text) in {normalise(each) for each in unit.parts}
    return same and (stated.entry.time, stated.entry.text) == (unit.entry.time, unit.entry.text)


def write_articles(units: Sequence[TopicUnit], plan: TopicPlan, gone: set[int]) -> dict[Origin, str]:
    """Return an article for each origin: its units in the order of the plan, word for word."""
    origins = sorted({unit.origin for unit in units}, key=lambda origin: origin.rank)
    found = {origin: lay_out(_place_units(units, plan, gone, origin)) for origin in origins}
    return {origin: text for origin, text in found.items() if text}


def lay_out(placed: Sequence[tuple[tuple[str, ...], TopicUnit]]) -> str:
    """Return units, each with its headings, as one text.

    Units without headings come first: below a heading of others they would mean something else.
    """
    order: dict[tuple[str, ...], int] = {(): 0}
    for path, _ in placed:
        order.setdefault(path, len(order))
    pieces: list[str] = []
    above: tuple[str, ...] = ()
    before: TopicUnit | None = None
    for path, unit in sorted(placed, key=lambda row: order[row[0]]):
        if path != above:
            known = len(above) if path[: len(above)] == above else 0
            pieces += [f"{'#' * (3 + at)} {path[at]}" for at in range(known, len(path))]
            above, before = path, None
        gap = None if before is None else unit.gap(before)
        if gap is None:
            pieces.append(unit.text)
        else:
            pieces[-1] += gap + unit.text
        before = unit
    return "\n\n".join(pieces)


def _place_units(
    units: Sequence[TopicUnit], plan: TopicPlan, gone: set[int], origin: Origin
) -> list[tuple[tuple[str, ...], TopicUnit]]:
    """Return the needed units of an origin in the order of the plan, each with its headings."""
    rows: list[tuple[tuple[str, ...], TopicUnit]] = []
    for group in plan.groups:
        numbers = [each - 1 for each in group.statements if each - 1 not in gone]
        chosen = [units[each] for each in numbers if units[each].origin is origin]
        heading = choose_heading(group.heading, chosen)
        rows += [(unit.headings or ((heading,) if heading else ()), unit) for unit in chosen]
    return rows


def choose_heading(text: str, units: Sequence[TopicUnit]) -> str:
    """Return a model's heading if all its words are in the text below it; else an empty text."""
    words = [word.casefold()[:5] for word in WORD.findall(text)]
    stated = {word.casefold()[:5] for unit in units for word in WORD.findall(unit.text)}
    plain = re.fullmatch(r"[\w -]{1,60}", text) and len(words) <= _HEADING_WORDS
    return " ".join(text.split()) if plain and words and stated.issuperset(words) else ""


def is_proved(units: Sequence[TopicUnit], gone: set[int], articles: Mapping[Origin, str]) -> bool:
    """Whether the articles hold each needed statement exactly once under its origin, and nothing else.

    A statement must keep its headings; one that had none may stand below one heading at most.
    """
    living = [unit for at, unit in enumerate(units) if at not in gone]
    own = {unit.headings for unit in living}
    wanted = Counter((unit.origin, part, unit.headings) for unit in living for part in unit.parts)
    found = Counter(
        (origin, each.text, each.headings if each.headings in own or len(each.headings) > 1 else ())
        for origin, article in articles.items()
        for each in statement.split(article)
    )
    return found == wanted


def _covered(seen: RecordFile) -> list[Entry]:
    """Return the current entries of a record that can be merged: their origin has several of them."""
    living = [entry for entry in seen.record.entries if entry.live and entry.text.strip()]
    origins = Counter(entry.origin or Origin.USER for entry in living)
    return [entry for entry in living if origins[entry.origin or Origin.USER] >= LEAST_ENTRIES]


def append_articles(
    seen: RecordFile, entries: Sequence[Entry], articles: Mapping[Origin, str], now: datetime, *, by: str
) -> str:
    """Return the record's text with the articles at its end and the merged entries marked superseded."""
    at = clock.stamp(now)
    text = decode(seen.content)
    covered = {(entry.time, entry.text) for entry in entries}
    for index, entry in enumerate(document.parse(text).entries):
        if entry.live and (entry.time, entry.text) in covered:
            text = document.sign(document.parse(text), index, superseded=at)
    for origin, article in articles.items():
        cites = [each.cites for each in entries if each.cites and (each.origin or Origin.USER) is origin]
        text = document.append(text, Entry(article, at, origin, cites=", ".join(cites) or None))
    fields: dict[str, Any] = {"updated": at, "generated": {"by": f"model:{by}", "at": at}}
    if not seen.record.fields.get("type"):
        fields["type"] = seen.record.type
    return frontmatter.edit(text, fields)


def ask_about(units: Sequence[TopicUnit]) -> str:
    """Return the question to the model: numbered statements between marker lines that no statement can
    imitate.
    """
    return "\n".join(
        f"STATEMENT {number} {unit.entry.time or 'undated'}\n" + remove_marks(unit.text) + "\nEND"
        for number, unit in enumerate(units, 1)
    )


def remove_marks(text: str) -> str:
    """Return a text in which no line looks like a marker line of the question."""
    return _MARK.sub(r" \1", text)
