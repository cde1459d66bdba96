"""Promote statements that the journal repeats, or that several sessions looked up, to curated memory.

A statement counts once a day, or once a session in the note of a session. Generated text never counts:
summaries, injected memory, and the assistant's words in a session's note. The newest wording is taken, word
for word, with the trust of the least trusted of its sources.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, OutsideMemory, VadeError
from vademecum.knowledge import DeclineReason, SignalKind, signals, split_file
from vademecum.lifecycle import journal_statements, passes
from vademecum.lifecycle.journal_statements import split_known
from vademecum.lifecycle.passes import Proposal
from vademecum.store import Documents, Edit, lookup, scopes
from vademecum.store import pinned as pinning
from vademecum.text import (
    WORD,
    clock,
    conflict,
    document,
    filenames,
    frontmatter,
    names,
    normalise,
    secrets,
    similarity,
)
from vademecum.text.document import decode
from vademecum.transcripts import MessageEvent
from vademecum.types import Entry, Finding, Origin, RecordType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.lifecycle.journal_statements import JournalStatement
    from vademecum.lifecycle.passes import RecordFile, RunOutcome
    from vademecum.store import Journal, Records, ScopeFolder
    from vademecum.transcripts import Log, Message
    from vademecum.types import Place

NAME = "promote"
SEVERAL = 2  # days or sessions
SESSIONS = 200  # the newest, whose calls of memory are looked at
FORM = 4  # texts that differ in their numbers alone
SHORT = 200  # characters of what may be pinned
SOURCES = 10  # places that a record names, the newest
_RARE = 4  # words by which a statement is looked up
_CROWD = 200  # statements that share a word; more of them share too common a word

_TOOL = re.compile(r"(?:^|_)memory_(?:search|recall|get)\Z")
_OF_THE_USER = re.compile(
    r"^(?:the )?user (prefer|like|want|need|use|hate|love|dislike|work|live)s\b", re.IGNORECASE
)
# Labels behind labels, or something that is still going on: what programs write into a log.
_PRINTED = re.compile(r"^(?:\W{0,4}[\w -]{1,40}\W{0,4}:\s+){2,}|(?:\.\.\.|…)$")
_LABEL = re.compile(
    r"^\W*(?!(?:note|remember|important|rule|tip|hint|decision|preference|convention|warning)\b)"
    r"[\w -]{2,40}\W?:\s",
    re.IGNORECASE,
)
# Something that was done, at the beginning or the end of what is said.
_REPORT = re.compile(
    r"^\W*(?:\w{2,}ed|ran|met|went|did|got|made|wrote|sent|built|found|saw|began|session|\w{3,}ing)\b"
    r"|\b(?:completed|updated|done|started|finished|passed|failed|fixed|green)[.!]*(?=\s|$)",
    re.IGNORECASE,
)


class Promotion(NamedTuple):
    """A statement that is to become a record or a line of `MEMORY.md`, with its sources and the reason."""

    text: str
    place: Place
    path: str  # the file it goes to
    sources: tuple[str, ...]
    origin: Origin
    why: str


class PromotionOutcome(NamedTuple):
    """The promotions of a run, their results, and notes on files and statements left out."""

    outcome: RunOutcome
    promotions: tuple[Promotion, ...] = ()
    notes: tuple[str, ...] = ()


class Pin(NamedTuple):
    """A `MEMORY.md` file, and how many more characters it may hold."""

    scope_folder: ScopeFolder
    content: bytes | None
    left: int


class Target(NamedTuple):
    """The folder for the new records of a place, and its `MEMORY.md` if it has one."""

    place: Place
    scope_folder: ScopeFolder
    names_in_use: set[str]  # file names that are in use there
    pin: Pin | None = None


def promote_places(
    records: Records,
    journal: Journal,
    documents: Documents,
    logs: Iterable[Log],
    *,
    places: Sequence[Place],
    visible: Sequence[Place],
    threshold: float,
    apply: bool,
    only: Collection[str] | None = None,
) -> PromotionOutcome:
    """Propose to promote statements that journals repeat or that sessions looked up; `apply` saves them.

    Statements that memory contains already are left out. With `only`, just the statements with exactly these
    texts.
    """
    found_statements, findings = journal_statements.read_journals(journal, places)
    seen, more = passes.read_places(records, visible)
    groups = find_repeated(found_statements, threshold=threshold)
    again, asking = find_recalled(found_statements, logs)
    known = [*_read_known(records, documents, seen, visible)]
    new = drop_known([*groups, *again], known, threshold=threshold)
    if only is not None:
        new = [each for each in new if each.members[0].text in only]
    targets = {
        place: make_target(
            place,
            seen,
            scopes.scope_folders(records.home, records.caller, place),
            find_pin(documents, place),
        )
        for place in places
    }
    new, opposed = drop_opposed(new, targets)
    proposals, promotions = propose(new, targets, now=records.now(), actor=records.caller.actor)
    outcome = passes.RunOutcome(tuple(proposals), findings=(*findings, *more))
    if apply and proposals:
        run, edit_results = passes.apply_proposals(records, proposals, what=NAME)
        outcome = outcome._replace(run=run, results=edit_results)
    silent = "no session used memory tools, so recalls are unknown"
    return PromotionOutcome(outcome, tuple(promotions), (*opposed, *(() if asking else (silent,))))


def _read_known(
    records: Records, documents: Documents, seen: Iterable[RecordFile], visible: Sequence[Place]
) -> Iterator[str]:
    """Yield the texts of curated memory, also superseded and forgotten ones, which are not promoted again."""
    for each in seen:
        yield from (entry.text for entry in each.record.entries)
    for document_ in documents.all(visible):
        if not isinstance(document_, Finding):
            yield document_.text
    for version in lookup.gone_records(records, visible):
        content = records.home.read(*version.image.parts) if version.image.why == "forget" else None
        if content is not None:
            try:
                yield from (entry.text for entry in document.parse(decode(content)).entries)
            except Malformed:
                continue


# -------------------------------------------------------------------- what was said again


class StatementGroup(NamedTuple):
    """Statements that say the same in several wordings, the newest first."""

    members: tuple[JournalStatement, ...]
    why: str


def find_repeated(found_statements: Sequence[JournalStatement], *, threshold: float) -> list[StatementGroup]:
    """Return the lasting statements of at least two days or sessions, whole lines before parts of lines."""
    chosen: list[StatementGroup] = []
    covered: set[str] = set()
    forms = _find_templates(found_statements)
    for whole in (True, False):
        # A line that is one sentence may be what a sentence of a longer one says again.
        some = [each for each in found_statements if (each.whole if whole else each.source not in covered)]
        for group in _group_same(some, threshold=threshold):
            days, sessions = count_occasions(group)
            enough = days + sessions >= SEVERAL and open_numbers(group[0].text) not in forms
            if enough and is_lasting(group[0].text, whole=whole):
                covered.update(each.source for each in group)
                chosen.append(StatementGroup(tuple(group), _why(days, sessions)))
    return chosen


def _find_templates(found_statements: Iterable[JournalStatement]) -> set[str]:
    """Return the texts that recur with differing numbers, each number replaced: output that a program filled
    in.
    """
    found: dict[str, set[str]] = {}
    for each in found_statements:
        if any(char.isdigit() for char in each.text):
            found.setdefault(open_numbers(each.text), set()).add(normalise(each.text))
    return {each for each, texts in found.items() if len(texts) >= FORM}


def open_numbers(text: str) -> str:
    """Return a text in which each number is replaced by the placeholder `#`."""
    return re.sub(r"\d+(?:[.,:]\d+)*", "#", normalise(text).casefold())


def is_lasting(text: str, *, whole: bool = True) -> bool:
    """Whether a statement is worth keeping, and not only a report of the day, a question or a guess.

    A whole line that somebody wrote twice is kept unless it looks like a report; a sentence out of a longer
    line must also sound like a preference, a decision or a fact.
    """
    if _PRINTED.search(text):
        return False
    found = signals.read_cues(_in_first_person(text))
    if found.signals:
        return True
    plain = found.declined in (DeclineReason.CHAT, DeclineReason.REQUEST)
    return whole and plain and not _REPORT.search(text) and not _LABEL.search(text)


def _in_first_person(text: str) -> str:
    """Return an agent's note about its user in the user's words: "The user prefers" becomes "I prefer"."""
    return _OF_THE_USER.sub(lambda match: f"I {match[1].lower()}", text)


def count_occasions(group: Iterable[JournalStatement]) -> tuple[int, int]:
    """Return on how many days a statement was noted, and in how many sessions on other days."""
    days = {each.day for each in group if not each.session}
    return len(days), len({each.session for each in group if each.session and each.day not in days})


def _why(days: int, sessions: int) -> str:
    counts = ((days, "noted on", "day"), (sessions, "said in", "session"))
    parts = [f"{how} {count} {thing}{'s' if count > 1 else ''}" for count, how, thing in counts if count]
    return " and ".join(parts)


def _group_same(
    found_statements: Sequence[JournalStatement], *, threshold: float
) -> list[list[JournalStatement]]:
    """Return groups of statements that say the same, each group with its newest wording first."""
    index = _Index([each.text for each in found_statements], threshold=threshold)
    groups: dict[int, list[JournalStatement]] = {}
    head: dict[int, int] = {}
    for at in reversed(range(len(found_statements))):
        near = (
            other
            for other in index.near(at)
            if other in groups and found_statements[other].place == found_statements[at].place
        )
        head[at] = next(near, at)
        groups.setdefault(head[at], []).append(found_statements[at])
    return [*groups.values()]


class _Index:
    """An index of texts by their rarest words, so that each text is compared with few others."""

    def __init__(self, texts: Sequence[str], *, threshold: float) -> None:
        self._texts = texts
        self._threshold = threshold
        self._words = [[word.casefold() for word in WORD.findall(text)] for text in texts]
        self._count = Counter(word for words in self._words for word in set(words))
        self._by: dict[str, list[int]] = {}
        for at, text in enumerate(texts):
            for key in self._keys(at, text):
                self._by.setdefault(key, []).append(at)

    def near(self, at: int) -> Iterator[int]:
        """Yield the numbers of other texts that say the same as the text with this number, the last first."""
        looked = {at}
        for key in self._keys(at, self._texts[at]):
            crowd = self._by.get(key, ())
            for other in reversed(crowd[-_CROWD:]):
                if other not in looked:
                    looked.add(other)
                    if is_same(self._texts[at], self._texts[other], threshold=self._threshold):
                        yield other

    def _keys(self, at: int, text: str) -> list[str]:
        rare = sorted({word for word in self._words[at] if self._count[word] > 1}, key=self._order)
        return [*rare[:_RARE], f"={normalise(text).casefold()}"]

    def _order(self, word: str) -> tuple[int, str]:
        return self._count[word], word


def is_same(one: str, other: str, *, threshold: float) -> bool:
    """Whether two statements say the same, worded a little differently."""
    return similarity.same(one, other, threshold=threshold) is not None


def drop_known(
    groups: Sequence[StatementGroup], known: Iterable[str], *, threshold: float
) -> list[StatementGroup]:
    """Return the groups that say nothing already in memory (`known`) and nothing that an
    earlier group says.
    """
    parts = [piece for text in known for piece in split_known(text)]
    words = "\n".join(normalise(part).casefold() for part in parts)
    texts = [group.members[0].text for group in groups]
    index = _Index([*texts, *parts], threshold=threshold)
    new: list[int] = []
    for at, group in enumerate(groups):
        known_already = any(other >= len(texts) or other in new for other in index.near(at))
        if not known_already and not any(_plain(member.text) in words for member in group.members):
            new.append(at)
    return [groups[at] for at in new]


def drop_opposed(
    groups: Sequence[StatementGroup], targets: Mapping[Place, Target]
) -> tuple[list[StatementGroup], list[str]]:
    """Return the groups that neither another group nor `MEMORY.md` contradicts, with notes on the others."""
    denied: dict[int, str] = {}
    for place in dict.fromkeys(group.members[0].place for group in groups):
        own = [at for at, group in enumerate(groups) if group.members[0].place == place]
        pin = targets[place].pin if place in targets else None
        pinned = "" if pin is None or pin.content is None else decode(pin.content)
        texts = [groups[at].members[0].text for at in own]
        texts += [each.text for each in split_file(pinned, pinned=True)]
        for at, other in conflict.find_opposed(texts).items():
            if at < len(own):
                both = texts[at], texts[other]
                statement, against = (secrets.redact(text, secrets.find(text)) for text in both)
                denied[own[at]] = f"left out “{statement}”: “{against}” says the opposite"
    left = [group for at, group in enumerate(groups) if at not in denied]
    return left, [denied[at] for at in sorted(denied)]


def _plain(text: str) -> str:
    return normalise(text).casefold().rstrip(".!")


# -------------------------------------------------------------------- what was recalled


def find_recalled(
    found_statements: Sequence[JournalStatement], logs: Iterable[Log]
) -> tuple[list[StatementGroup], int]:
    """Return journal lines that memory tools returned in several sessions.

    Also return the number of sessions in which memory tools returned anything.
    """
    by_path: dict[str, list[JournalStatement]] = {}
    for each in found_statements:
        if each.whole:
            by_path.setdefault(each.path, []).append(each)
    sessions: dict[str, set[str]] = {}
    asking = 0
    for log in logs:
        found = {*_find_returned_passages(log)}
        asking += bool(found)
        for path, start, end in found:
            hit = [each for each in by_path.get(path, ()) if each.start <= end and start <= each.end]
            if len(hit) == 1:  # of a passage with several statements nobody knows which one was wanted
                sessions.setdefault(hit[0].source, set()).add(log.session)
    by_source = {each.source: each for each in found_statements if each.whole}
    return [
        StatementGroup((by_source[source],), f"recalled in {len(found)} sessions")
        for source, found in sessions.items()
        if len(found) >= SEVERAL
    ], asking


def _find_returned_passages(log: Log) -> Iterator[tuple[str, int, int]]:
    """Yield the path and lines of each passage that a memory tool returned in a session."""
    called: set[str] = set()
    try:
        for raw in log.raw():
            if raw.kind not in ("", MessageEvent.kind):
                continue
            # Most lines are neither a call nor a result, and are not worth reading.
            if b"memory_" not in raw.content and b"startLine" not in raw.content:
                continue
            event = raw.read()
            if isinstance(event, MessageEvent):
                yield from _passages(event.message, called)
    except VadeError:
        return  # a log that cannot be read tells nothing


def _passages(message: Message, called: set[str]) -> Iterator[tuple[str, int, int]]:
    called.update(call.id for call in message.calls if _TOOL.search(call.name))
    for result in message.results:
        if result.error or not (result.id in called or _TOOL.search(result.name)):
            continue
        try:
            answer = json.loads(result.text)
        except ValueError:
            continue
        listed = answer.get("results", [answer]) if isinstance(answer, dict) else None
        for each in listed if isinstance(listed, list) else ():
            place = _lines(each)
            if place is not None:
                yield place


def _lines(passage: object) -> tuple[str, int, int] | None:
    if not isinstance(passage, dict):
        return None
    path, start, end = (passage.get(name) for name in ("path", "startLine", "endLine"))
    return (path, start, end) if isinstance(path, str) and type(start) is type(end) is int else None


# -------------------------------------------------------------------- where it goes


def propose(
    groups: Iterable[StatementGroup], targets: Mapping[Place, Target], *, now: datetime, actor: str
) -> tuple[list[Proposal], list[Promotion]]:
    """Return proposals for a record of each statement, or for a line of `MEMORY.md` if it is a short
    preference.
    """
    proposals: list[Proposal] = []
    promotions: list[Promotion] = []
    pins: dict[Place, list[Promotion]] = {}
    for group in groups:
        newest = group.members[0]
        target = targets.get(newest.place)
        if target is None or secrets.find(newest.text):
            continue
        origin = max((each.origin for each in group.members), key=lambda origin: origin.rank)
        sources = tuple(dict.fromkeys(each.source for each in group.members))[:SOURCES]
        kind = _kind(newest.text)
        here = pins.setdefault(newest.place, [])
        if target.pin is not None and _pinnable(newest.text, kind, origin):
            path = target.pin.scope_folder.name_of(filenames.MEMORY)
            made = Promotion(newest.text, newest.place, path, sources, origin, group.why)
            if len(_sections([*here, made], now=now)) <= target.pin.left:
                here.append(made)
                promotions.append(made)
                continue
        edit = _record(target, newest.text, kind, sources, origin, now=now, actor=actor)
        promotions.append(Promotion(newest.text, newest.place, edit.path, sources, origin, group.why))
        proposals.append(Proposal(NAME, edit.path, group.why, (edit,), newest.place))
    for place, some in pins.items():
        pin = targets[place].pin
        if some and pin is not None:
            edit = _append_pins(pin, some, now=now)
            proposals.append(Proposal(NAME, edit.path, f"{len(some)} repeated statements", (edit,), place))
    return proposals, promotions


def make_target(
    place: Place, seen: Iterable[RecordFile], scope_folders: Sequence[ScopeFolder], pin: Pin | None
) -> Target:
    """Return the folder and the `MEMORY.md` that promotions of a place go to; untrusted folders
    are avoided.
    """
    first = scopes.folder_for_new(scope_folders)
    scope_folder = first if first.trusted else next(each for each in scope_folders if not each.shared)
    names_in_use = {names.folded(each.name) for each in seen if each.record.place == place}
    return Target(place, scope_folder, names_in_use, pin)


def _kind(text: str) -> SignalKind | None:
    found = signals.read_cues(_in_first_person(text)).signals
    return found[0].kind if found else None


def _pinnable(text: str, kind: SignalKind | None, origin: Origin) -> bool:
    """Whether a text may go into `MEMORY.md`: short, a preference, and not from a tool."""
    own = origin in (Origin.USER, Origin.AGENT)
    return own and kind in (SignalKind.PREFERENCE, SignalKind.CORRECTION) and len(text) <= SHORT


def _record(
    target: Target,
    text: str,
    kind: SignalKind | None,
    sources: Sequence[str],
    origin: Origin,
    *,
    now: datetime,
    actor: str,
) -> Edit:
    at = clock.stamp(now)
    key, number = names.key_from(text), 1
    while names.folded(f"{key}.md") in target.names_in_use:
        number += 1
        key = names.numbered(names.key_from(text), number)
    target.names_in_use.add(names.folded(f"{key}.md"))
    own = kind in (SignalKind.PREFERENCE, SignalKind.CORRECTION)
    values: dict[str, Any] = {
        "type": str(RecordType.FEEDBACK if own else RecordType.PROJECT),
        "id": names.new_id(),
        "key": key,
        "title": " ".join(text.split()[:8]),
        "scope": str(target.place.scope),
        "scope_id": target.place.id or None,
        "category": None if kind is None else str(kind),
        "source": "detected",
        "sources": list(sources),
        "created": at,
        "updated": at,
        "generated": {"by": actor, "at": at},
    }
    whole = document.append(frontmatter.edit(f"# {key}\n\n", values), Entry(text, at, origin))
    return Edit(target.scope_folder, filenames.RECORDS, f"{key}.md", None, whole.encode())


def _append_pins(pin: Pin, made: Sequence[Promotion], *, now: datetime) -> Edit:
    """Return the edit that appends promoted lines to `MEMORY.md`; its present text stays as it is."""
    text = "" if pin.content is None else decode(pin.content)
    given = frontmatter.parse(text).values.get("sources")
    sources = [*(given if isinstance(given, list) else ()), *(each for one in made for each in one.sources)]
    newline = frontmatter.line_ending(text)
    if text and not text.endswith("\n"):
        text += newline
    text += (newline if text else "") + _sections(made, now=now).replace("\n", newline)
    fields = {
        "version": pinning.VERSION,
        "updated": clock.stamp(now),
        "sources": list(dict.fromkeys(sources)),
    }
    whole = frontmatter.edit(text, fields).encode()
    return Edit(pin.scope_folder, filenames.PINNED, filenames.MEMORY, pin.content, whole)


def _sections(made: Sequence[Promotion], *, now: datetime) -> str:
    """Return the lines to append, one section for each origin, since a section has a single signature."""
    parts = []
    for origin in dict.fromkeys(one.origin for one in made):
        lines = "\n".join(f"- {one.text}" for one in made if one.origin is origin)
        parts.append(f"## From the journal, {clock.stamp(now)[:10]}\n{lines}\n<!-- origin: {origin} -->\n")
    return "\n".join(parts)


def find_pin(documents: Documents, place: Place) -> Pin | None:
    """Return the `MEMORY.md` of a place; None if the place cannot have one or the file cannot be read."""
    if filenames.MEMORY not in place.scope.rule.documents:
        return None
    try:
        scope_folder, _, content = documents.find(filenames.MEMORY, scope=place.scope)
        text = "" if content is None else decode(content)
        body = text[frontmatter.parse(text).body :]
    except (Malformed, OutsideMemory):
        return None  # told as a finding by others; until it is mended, what is new becomes records
    return Pin(scope_folder, content, documents.budgets.memory_chars - len(body) - 1)
