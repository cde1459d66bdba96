"""One topic, many entries: a model plans how they become one, and the program writes it, word for word.

The model groups statements by number, orders them, names headings, and says which repeat or supersede which.
It writes no sentence. A repetition counts only where two statements are the same by the one rule for that, a
supersession only where heal would mend it; whatever else is living stands in the article exactly once, which
is proved before anything is proposed. A person's statements stay a person's: each origin has its own article.
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
from vademecum.store import audit, document, frontmatter
from vademecum.store.document import decode
from vademecum.text import WORD, clock, normalise, secrets, similarity, statement
from vademecum.types import LEARNED, Entry, Finding, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.lifecycle.passes import RunOutcome, SeenRecord
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
    """Statements that belong together, by their numbers and in their order."""

    statements: list[int]
    heading: str = ""


@dataclass(frozen=True, slots=True)
class PlannedPair:
    """Two statements of which the first makes the second unnecessary, by their numbers."""

    stays: int
    goes: int


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What a model is asked for."""

    groups: list[PlannedGroup]
    repeats: list[PlannedPair] = field(default_factory=list)
    supersedes: list[PlannedPair] = field(default_factory=list)


class TopicUnit(NamedTuple):
    """A statement with those that say nothing without it: what is moved as a whole, word for word."""

    text: str
    entry: Entry
    headings: tuple[str, ...]
    parts: tuple[str, ...]  # the statements in it
    listed: bool
    start: int  # characters of the entry
    end: int

    def gap(self, before: TopicUnit) -> str | None:
        """What stood between the unit before it and this one, where they were one paragraph or list."""
        between = self.entry.text[before.end : self.start] if before.entry == self.entry else "x"
        if before.end <= self.start and not between.strip() and "\n\n" not in between:
            return between
        return "\n" if self.listed and before.listed else None

    @property
    def origin(self) -> Origin:
        """Whose words these are."""
        return self.entry.origin or Origin.USER


class Refusal(NamedTuple):
    """A record that was left as it is, and why."""

    path: str
    why: str
    asked: bool = True  # whether a model had a say in it


class Rewritten(NamedTuple):
    """What became of the topics that had something to merge."""

    outcome: RunOutcome
    refused: tuple[Refusal, ...] = ()
    model: str = ""


def is_due(seen: SeenRecord, *, named: bool = False) -> bool:
    """Whether a record has anything to merge; one that a person protects only when it is `named`."""
    return not _barred(seen) and (named or not seen.record.protected)


def rewrite_places(
    records: Records,
    places: Iterable[Place],
    model: Model,
    *,
    path: str | None = None,
    apply: bool,
    progress: Callable[[str, int, int], None] | None = None,
) -> Rewritten:
    """Topics with several entries, or the one at a path, merged: only told, or done.

    A refusal leaves a line in the audit, whether or not anything was to be written.
    """
    seen, findings = passes.read_places(records, places)
    if path is None:
        chosen = [each for each in seen if is_due(each)]
        findings = [*findings, *_too_long(seen)]
    else:
        chosen = [each for each in seen if each.record.path == path]

    with watched(progress):
        proposals, refused = rewrite_all(chosen, model, now=records.now)
    for each, refusal in refused:
        if refusal.asked:
            audit_refusal(records, each, NAME, strict=apply)
    outcome = passes.RunOutcome(tuple(proposals), findings=tuple(findings))
    if apply and proposals:
        run, told = passes.apply_proposals(records, proposals, what="compact")
        outcome = outcome._replace(run=run, told=told)
    return Rewritten(outcome, tuple(refusal for _, refusal in refused), model.name)


def audit_refusal(records: Records, seen: SeenRecord, what: str, *, strict: bool) -> None:
    """Leave a line that a model's answer was refused: of which record, and nothing of its content."""
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
    chosen: Sequence[SeenRecord], model: Model, *, now: Callable[[], datetime]
) -> tuple[list[Proposal], list[tuple[SeenRecord, Refusal]]]:
    """What a model makes of each of some records; once it cannot be asked at all, it is asked no more."""
    proposals: list[Proposal] = []
    refused: list[tuple[SeenRecord, Refusal]] = []
    silent = ""
    for seen in counted(chosen, "topics"):
        if silent:
            refused.append((seen, Refusal(seen.record.path, f"not asked: {silent}", asked=False)))
            continue
        try:
            found = _rewritten(seen, model, now=now())
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
    seen: SeenRecord, model: Model, *, now: datetime, limits: Limits | None = None
) -> Proposal | Refusal:
    """What a model makes of a record's entries, as a proposal; or why it was refused."""
    try:
        return _rewritten(seen, model, now=now, limits=limits)
    except ModelFailed as error:
        return Refusal(seen.record.path, str(error))


def _barred(seen: SeenRecord) -> str:
    """Why a record is none to be merged, in words; empty when it is one."""
    if not seen.shelf.trusted:
        return "its folder is not trusted"
    if seen.record.type in LEARNED:
        return f"a {seen.record.type} has its own structure, which an article would lose"
    entries = _covered(seen)
    if len(entries) < LEAST_ENTRIES:
        return "it has one entry only: there is nothing to merge"
    return _TOO_LONG if len(ask_about(split_units(entries)).encode()) > LONGEST else ""


def _too_long(seen: Iterable[SeenRecord]) -> Iterator[Finding]:
    """What would be merged, were it not too long for one question."""
    for each in seen:
        if not each.record.protected and _barred(each) == _TOO_LONG:
            yield Finding(NAME, each.record.path, _TOO_LONG)


def _rewritten(
    seen: SeenRecord, model: Model, *, now: datetime, limits: Limits | None = None
) -> Proposal | Refusal:
    barred = _barred(seen)
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
    gone = find_unneeded(seen, units, plan)
    articles = write_articles(units, plan, gone)
    if not is_proved(units, gone, articles):
        return Refusal(seen.record.path, "the entries cannot be merged without repeating a statement")
    made = f"{len(articles)}, one for each origin" if len(articles) > 1 else "one"
    why = f"{len(entries)} entries become {made}; they stay, marked superseded"
    edit = seen.revised(joined(seen, entries, articles, now, by=model.name))
    return Proposal(NAME, seen.record.path, why, (edit,), seen.record.place)


def split_units(entries: Sequence[Entry]) -> list[TopicUnit]:
    """What these entries say, in pieces that can be moved without changing what they mean."""
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
    """What is wrong with a plan, in the words that follow 'the model's plan'; empty when nothing is.

    One that is not to be `whole` may leave statements out.
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


def find_unneeded(seen: SeenRecord, units: Sequence[TopicUnit], plan: TopicPlan) -> set[int]:
    """The units, from 0, that need not stand in the article, whatever else the plan says of it."""
    gone: set[int] = set()
    held: set[int] = set()  # for what gave way to it: it cannot go itself
    for pair in plan.repeats:
        stays, goes = units[pair.stays - 1], units[pair.goes - 1]
        trusted = stays.origin.rank <= goes.origin.rank
        together = stays.headings == goes.headings
        if trusted and together and _may_go(pair, gone, held) and _says_same(stays, goes):
            gone.add(pair.goes - 1)
            held.add(pair.stays - 1)
    healed = [each for each in contradictions.find_clashes([seen]) if not contradictions.needs_person(each)]
    for pair in plan.supersedes:
        newer, older = units[pair.stays - 1], units[pair.goes - 1]
        mended = any(_is_of(each.older, older) and _is_of(each.newer, newer) for each in healed)
        if mended and len(older.parts) == 1 and _may_go(pair, gone, held):
            gone.add(pair.goes - 1)
            held.add(pair.stays - 1)
    return gone


def _may_go(pair: PlannedPair, gone: set[int], held: set[int]) -> bool:
    return pair.stays - 1 not in gone and pair.goes - 1 not in held


def _says_same(one: TopicUnit, other: TopicUnit) -> bool:
    return similarity.same(one.text, other.text) is not None


def _is_of(said: contradictions.SaidEntry, unit: TopicUnit) -> bool:
    """Whether a unit is what heal looked at."""
    same = normalise(said.text) in {normalise(each) for each in unit.parts}
    return same and (said.entry.time, said.entry.text) == (unit.entry.time, unit.entry.text)


def write_articles(units: Sequence[TopicUnit], plan: TopicPlan, gone: set[int]) -> dict[Origin, str]:
    """The text for each origin: its units as the plan has them, word for word."""
    origins = sorted({unit.origin for unit in units}, key=lambda origin: origin.rank)
    found = {origin: lay_out(_placed(units, plan, gone, origin)) for origin in origins}
    return {origin: text for origin, text in found.items() if text}


def lay_out(placed: Sequence[tuple[tuple[str, ...], TopicUnit]]) -> str:
    """Units, each with the headings it stands below, as one text.

    Those without any come first: below a heading of others they would speak of something else.
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


def _placed(
    units: Sequence[TopicUnit], plan: TopicPlan, gone: set[int], origin: Origin
) -> list[tuple[tuple[str, ...], TopicUnit]]:
    """The living units of an origin in their order, each with the headings it stands below."""
    rows: list[tuple[tuple[str, ...], TopicUnit]] = []
    for group in plan.groups:
        numbers = [each - 1 for each in group.statements if each - 1 not in gone]
        chosen = [units[each] for each in numbers if units[each].origin is origin]
        heading = choose_heading(group.heading, chosen)
        rows += [(unit.headings or ((heading,) if heading else ()), unit) for unit in chosen]
    return rows


def choose_heading(text: str, units: Sequence[TopicUnit]) -> str:
    """A heading that a model names, if it is a few words of what stands below it; else none."""
    words = [word.casefold()[:5] for word in WORD.findall(text)]
    said = {word.casefold()[:5] for unit in units for word in WORD.findall(unit.text)}
    plain = re.fullmatch(r"[\w -]{1,60}", text) and len(words) <= _HEADING_WORDS
    return " ".join(text.split()) if plain and words and said.issuperset(words) else ""


def is_proved(units: Sequence[TopicUnit], gone: set[int], articles: Mapping[Origin, str]) -> bool:
    """Whether each living statement stands once in the article of its origin, and nothing else does.

    What stood below headings must stand below the same, and what stood below none below at most one.
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


def _covered(seen: SeenRecord) -> list[Entry]:
    """The entries that hold, say something, and are not the only one of their origin."""
    living = [entry for entry in seen.record.entries if entry.live and entry.text.strip()]
    origins = Counter(entry.origin or Origin.USER for entry in living)
    return [entry for entry in living if origins[entry.origin or Origin.USER] >= LEAST_ENTRIES]


def joined(
    seen: SeenRecord, entries: Sequence[Entry], articles: Mapping[Origin, str], now: datetime, *, by: str
) -> str:
    """The file with the articles at its end and the entries they cover marked."""
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
    """The statements between marks; a line that looks like one is moved in, so that none can end early."""
    return "\n".join(
        f"STATEMENT {number} {unit.entry.time or 'undated'}\n" + unmarked(unit.text) + "\nEND"
        for number, unit in enumerate(units, 1)
    )


def unmarked(text: str) -> str:
    """A text in which no line is one of the marks of a question."""
    return _MARK.sub(r" \1", text)
