"""Store what was heard in sessions: statements of a user's that are no records.

Each session has a list, `heard/PROJECT/SESSION.jsonl` in the home. The first line says whose session it is;
each later line is a statement, or what became of one. The list stays on this machine: nothing syncs the
folder, and no record, pinned document or instruction file is made from it until a person accepts a statement.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from vademecum.errors import OutsideMemory
from vademecum.named_tuple import NamedTuple
from vademecum.text import clock, normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.store.home import Home

FOLDER = "heard"
ENDING = ".jsonl"
MOST = 200  # statements of one session
LONGEST = 1_000  # characters of a statement
_SAME = 80.0  # out of 100: how similar two statements are that say the same
RUN = "heard-"  # the beginning of the name by which `vade undo` takes a session's statements back
HEARD = "heard"  # what such a run is called among the runs
JUDGE = "judge"  # who finds a statement, unless the statement names another finder
MODEL = "model "  # the beginning of the name of a language model that proposed a statement
_SESSION, _STATEMENT, _OUTCOME = "session", "statement", "outcome"
_READ, _REVERTED, _DISTILLED = "read", "reverted", "distilled"

SAVED, REWORDED, IGNORED = "saved", "reworded", "ignored"  # what came of a nudge
ACCEPTED, DECLINED = "accepted", "declined"  # by a person
CONTRADICTED = "contradicted"  # by what was said later; a person still decides
UNDECIDED = ("", IGNORED)
SETTLED = (SAVED, REWORDED, ACCEPTED)  # memory has it, and nothing is left to decide


class HeardSession(NamedTuple):
    """The session in which statements are heard."""

    project: str
    session: str  # the id of its log
    own_id: str = ""  # the agent's id for it
    format: str = ""  # the agent's transcripts
    path: str = ""  # of the agent's transcript
    agent: str = ""  # whose memory it is
    audience: str = ""


class HeardStatement(NamedTuple):
    """A statement that was heard in a session, and what became of it."""

    id: str
    text: str
    kind: str  # such as rule or preference
    at: str  # when it was said
    project: str = ""
    session: str = ""
    place: str = ""  # the id of the message in the session's log
    why: str = ""
    confidence: float = 0.0
    found_by: str = JUDGE
    evidence: tuple[str, ...] = ()  # lines of the session that it stands on
    fields: tuple[tuple[str, str], ...] = ()  # of a lesson: the fields of its type, which `kind` names
    agent: str = ""  # whose memory it is
    program: str = ""  # the agent's program
    nudged: str = ""  # when the agent was told
    outcome: str = ""  # of the nudge, or of a person's review
    settled: str = ""  # when the outcome was known
    record: str = ""  # the path of the record that was made from it
    listed: str = ""  # when it was added to the list

    @property
    def log(self) -> str:
        """The path of the session's log, relative to the home."""
        return f"transcripts/{self.project}/{self.session}.jsonl"


class ReadProgress(NamedTuple):
    """How far a session's log was read for statements."""

    messages: int = 0  # the user's messages that were read
    size: int = 0  # of the log in bytes when it was last read for statements
    lessons: int = 0  # of the log in bytes when it was last read for lessons


class Distilled(NamedTuple):
    """How many statements a language model proposed of a session, and how many were added or refused."""

    at: str = ""
    model: str = ""
    messages: int = 0  # how many messages of the session a model has read
    proposed: int = 0
    added: int = 0  # proposals that are new in the session's list
    tokens: int = 0
    problem: str = ""  # why the model was not asked, or gave no answer
    refused: Mapping[str, int] = {}  # the number of proposals by reason; the mapping is never changed


def statement_id(text: str) -> str:
    """Return the id of a statement; upper case and spaces make no difference."""
    return hashlib.sha256(normalise(text).casefold().encode(errors="replace")).hexdigest()[:16]


def says_same(one: str, other: str) -> bool:
    """Whether two statements say the same, worded a little differently."""
    first, second = (normalise(each).casefold().rstrip(".!") for each in (one, other))
    if first == second:
        return True
    from vademecum.text import similarity

    return similarity.same(one, other, threshold=_SAME) is not None


def add(home: Home, session: HeardSession, statements: Iterable[HeardStatement]) -> int:
    """Add statements to a session's list; return how many it did not have yet.

    A listed statement keeps its fields; its empty fields are filled from the new one. Nothing is written for
    a session marked by `take_back`, and no statement is added to a list that has `MOST`.
    """
    with home.lock(_lock_name(session.project, session.session)):
        if is_taken_back(home, session.project, session.session):
            return 0
        known = {each.id: each for each in read_session(home, session.project, session.session)}
        lines: list[dict[str, Any]] = []
        added = 0
        for each in statements:
            earlier = known.get(each.id)
            merged = each if earlier is None else _merge(earlier, each)
            if merged == earlier or (earlier is None and len(known) >= MOST):
                continue
            added += earlier is None
            known[each.id] = merged
            lines.append(_statement_line(merged))
        if lines:
            begun = any(
                line.get("kind") == _SESSION for line in _lines(home, session.project, session.session)
            )
            first = [] if begun else [_header_line(session)]
            _append(home, session.project, session.session, [*first, *lines])
    return added


def settle(home: Home, statement: HeardStatement, outcome: str, *, at: str, record: str = "") -> None:
    """Add a statement's outcome to the list of its session, if that list exists."""
    line = {"kind": _OUTCOME, "id": statement.id, "outcome": outcome, "at": at, "record": record}
    with home.lock(_lock_name(statement.project, statement.session)):
        if statement.session + ENDING in home.names(FOLDER, statement.project):
            _append(home, statement.project, statement.session, [line])


def read_session(home: Home, project: str, session: str) -> tuple[HeardStatement, ...]:
    """Return the statements of a session, in the order in which they were heard."""
    header: Mapping[str, Any] = {}
    found: dict[str, HeardStatement] = {}
    for line in _lines(home, project, session):
        kind = line.get("kind")
        if kind == _SESSION:
            header = line
        elif kind == _STATEMENT:
            statement = _parse(line, project, session, header)
            if statement is not None:
                found[statement.id] = statement
        elif kind == _OUTCOME and str(line.get("id")) in found:
            earlier = found[str(line["id"])]
            outcome, at, record = (str(line.get(name) or "") for name in ("outcome", "at", "record"))
            found[earlier.id] = earlier._replace(outcome=outcome, settled=at, record=record)
    return tuple(found.values())


def note_read(home: Home, session: HeardSession, progress: ReadProgress) -> None:
    """Save how far a session's log was read, so that nothing in it is read twice."""
    with home.lock(_lock_name(session.project, session.session)):
        begun = any(line.get("kind") == _SESSION for line in _lines(home, session.project, session.session))
        line = {"kind": _READ, **progress._asdict()}
        _append(home, session.project, session.session, [line] if begun else [_header_line(session), line])


def read_progress(home: Home, project: str, session: str) -> ReadProgress:
    """Return how far a session's log was read."""
    found = ReadProgress()
    for line in _lines(home, project, session):
        if line.get("kind") == _READ:
            numbers = (line.get(name) for name in found._asdict())
            found = ReadProgress(*(each if isinstance(each, int) else 0 for each in numbers))
    return found


def note_distilled(home: Home, session: HeardSession, result: Distilled) -> None:
    """Note what a model proposed of a session, and how many of its messages the model has read."""
    with home.lock(_lock_name(session.project, session.session)):
        if not is_taken_back(home, session.project, session.session):
            begun = any(
                line.get("kind") == _SESSION for line in _lines(home, session.project, session.session)
            )
            line = {"kind": _DISTILLED, **result._asdict()}
            _append(
                home, session.project, session.session, [line] if begun else [_header_line(session), line]
            )


def read_distilled(home: Home, project: str, session: str) -> Distilled | None:
    """Return the last result of a model for a session, or None if no model was asked."""
    found: Distilled | None = None
    for line in _lines(home, project, session):
        if line.get("kind") == _DISTILLED:
            with contextlib.suppress(TypeError, ValueError):
                at, model, problem = (str(line.get(name) or "") for name in ("at", "model", "problem"))
                messages, proposed, added, tokens = (
                    int(line.get(name) or 0) for name in ("messages", "proposed", "added", "tokens")
                )
                refused = {str(name): int(count) for name, count in dict(line.get("refused") or {}).items()}
                found = Distilled(at, model, messages, proposed, added, tokens, problem, refused)
    return found


def take_back(home: Home, project: str, session: str) -> int:
    """Delete a session's statements, and mark its list so that none is added later; return their number."""
    with home.lock(_lock_name(project, session)):
        statements = read_session(home, project, session)
        _keep_only(home, project, session, {"kind": _REVERTED, "at": clock.stamp(clock.now())})
    return len(statements)


def is_taken_back(home: Home, project: str, session: str) -> bool:
    """Whether a person took back what was heard in a session."""
    return any(line.get("kind") == _REVERTED for line in _lines(home, project, session))


def read_projects(home: Home, projects: Iterable[str]) -> Iterator[HeardStatement]:
    """Yield the statements of all sessions of these projects."""
    for project in dict.fromkeys(projects):
        for session in sessions(home, project):
            yield from read_session(home, project, session)


def sessions(home: Home, project: str) -> Sequence[str]:
    """Return the ids of a project's sessions that have a list, with or without statements."""
    return [
        name.removesuffix(ENDING)
        for name in home.names(FOLDER, project)
        if name.endswith(ENDING) and not name.startswith(".")
    ]


def forget_faded(home: Home, project: str, *, days: int, now: datetime) -> None:
    """Delete the statements of each session of a project whose statements are all older than `days`.

    The mark of how far the session was read stays, so that its messages are not heard again.
    """
    for session in sessions(home, project):
        with home.lock(_lock_name(project, session)):
            statements = read_session(home, project, session)
            if statements and all(is_faded(each, days=days, now=now) for each in statements):
                progress = read_progress(home, project, session)
                _keep_only(home, project, session, {"kind": _READ, **progress._asdict()})


def is_faded(statement: HeardStatement, *, days: int, now: datetime) -> bool:
    """Whether a statement was listed or nudged more than `days` ago; then it is not shown, and is deleted."""
    stamps = (statement.listed or statement.at, statement.nudged)
    latest = max(filter(None, map(clock.parse, stamps)), default=None)
    return latest is None or now - latest > timedelta(days=days)


# -------------------------------------------------------------------- outcomes of proposals

_COUNTS = "outcomes.json"
_MOST_COUNTED = 40.0  # outcomes; beyond, older ones count less


class ProposalCounts(NamedTuple):
    """How many nudges and pending statements were saved, and how many were ignored or declined.

    Recent outcomes count fully, older ones less.
    """

    taken: float = 0.0
    ignored: float = 0.0


def read_counts(home: Home) -> ProposalCounts:
    """Return the outcomes of earlier proposals."""
    try:
        found = json.loads(home.read(FOLDER, _COUNTS) or b"{}")
        return ProposalCounts(float(found.get("taken", 0)), float(found.get("ignored", 0)))
    except (ValueError, TypeError, AttributeError, OutsideMemory):
        return ProposalCounts()


def count_outcomes(home: Home, *, taken: int, ignored: int) -> None:
    """Add outcomes of proposals to the saved counts; above a limit, all counts are scaled down.

    A negative number removes outcomes that a person has undone.
    """
    if not (taken or ignored):
        return
    with home.lock(f"{FOLDER}/{_COUNTS}"), home.folder(FOLDER, create=True) as folder:
        known = read_counts(home)
        new = max(0.0, known.taken + taken), max(0.0, known.ignored + ignored)
        fraction = min(1.0, _MOST_COUNTED / max(1.0, sum(new)))
        content = json.dumps({"taken": new[0] * fraction, "ignored": new[1] * fraction}).encode()
        folder.update(_COUNTS, lambda _: content)


def describe_bar(counts: ProposalCounts) -> str:
    """Return a sentence about a moved threshold; empty while the threshold is near its first value."""
    shift = shift_bar(counts)
    if abs(shift) < _SMALLEST_SHIFT:
        return ""
    fewer = "fewer" if shift > 0 else "more"
    return (
        f"You get {fewer} proposals than at first: lately {counts.taken:.0f} were saved,"
        f" and {counts.ignored:.0f} ignored or declined."
    )


_SMALLEST_SHIFT = 0.05  # that is reported
# Outcomes that are assumed before any proposal has one.
_TAKEN, _IGNORED = 4.2, 1.8
_STEEPNESS, _LOWEST, _HIGHEST = 2.0, -0.4, 1.2


def shift_bar(counts: ProposalCounts) -> float:
    """Return how far to move the judge's threshold: up if many proposals were ignored, else down."""
    taken, ignored = _TAKEN + counts.taken, _IGNORED + counts.ignored
    expected = _TAKEN / (_TAKEN + _IGNORED)
    return max(_LOWEST, min(_HIGHEST, _STEEPNESS * (expected - taken / (taken + ignored))))


# -------------------------------------------------------------------- lines


def _lock_name(project: str, session: str) -> str:
    return f"{FOLDER} {FOLDER}/{project}/{session}{ENDING}"  # as `purge` names it


def _header_line(session: HeardSession) -> dict[str, Any]:
    # In the form of a transcript's first line, so that a purge finds both by the same fields.
    return {
        "kind": _SESSION,
        "agent": session.agent,
        "audience": session.audience,
        "created": clock.stamp(clock.now()),
        "import": {"format": session.format, "id": session.own_id, "path": session.path},
    }


def _statement_line(statement: HeardStatement) -> dict[str, Any]:
    fields = {name: value for name, value in statement._asdict().items() if value not in ("", (), 0.0)}
    for name in ("project", "session", "agent", "program"):
        fields.pop(name, None)
    if statement.fields:
        fields["fields"] = dict(statement.fields)
    fields["signal"] = fields.pop("kind", "")
    return {"kind": _STATEMENT, **fields}


def _parse(
    line: Mapping[str, Any], project: str, session: str, header: Mapping[str, Any]
) -> HeardStatement | None:
    """Return the statement on a line; None for a line that has none."""
    text = line.get("text")
    if not isinstance(text, str) or not text.strip():
        return None
    about = header.get("import")
    confidence, evidence, fields = (line.get(name) for name in ("confidence", "evidence", "fields"))
    words = {
        name: str(line.get(name) or "")
        for name in ("at", "place", "why", "nudged", "outcome", "settled", "record", "listed")
    }
    return HeardStatement(
        id=statement_id(text),
        text=text[:LONGEST],
        kind=str(line.get("signal") or ""),
        project=project,
        session=session,
        confidence=float(confidence) if isinstance(confidence, int | float) else 0.0,
        found_by=str(line.get("found_by") or JUDGE),
        evidence=tuple(map(str, evidence)) if isinstance(evidence, list) else (),
        fields=tuple((name, str(value)) for name, value in fields.items())
        if isinstance(fields, dict)
        else (),
        agent=str(header.get("agent") or ""),
        program=str(about.get("format") or "") if isinstance(about, dict) else "",
        **words,
    )


def _merge(earlier: HeardStatement, later: HeardStatement) -> HeardStatement:
    """Return the earlier statement with its empty fields filled from the later one."""
    known = later._asdict()
    missing = {name: known[name] for name, value in earlier._asdict().items() if not value and known[name]}
    return earlier._replace(**missing)


def _lines(home: Home, project: str, session: str) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(OutsideMemory):
        for raw in home.lines(FOLDER, project, session + ENDING):
            try:
                line = json.loads(raw)
            except (ValueError, RecursionError):
                continue  # a line that was cut short
            if isinstance(line, dict):
                yield line


def _append(home: Home, project: str, session: str, lines: Iterable[Mapping[str, Any]]) -> None:
    content = "\n".join(json.dumps(each, ensure_ascii=False) for each in lines)
    with home.folder(FOLDER, project, create=True) as folder:
        folder.append_line(session + ENDING, content.encode(errors="replace"))


def _keep_only(home: Home, project: str, session: str, line: Mapping[str, Any]) -> None:
    """Delete all lines of a session's list except the first, which names the session, and add a line."""
    header = [each for each in _lines(home, project, session) if each.get("kind") == _SESSION]
    content = "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in (*header[:1], line)).encode()
    with home.folder(FOLDER, project) as folder:
        folder.update(session + ENDING, lambda _: content)
