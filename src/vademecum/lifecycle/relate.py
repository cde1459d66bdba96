"""Edges that a model proposes: keys of records that are there, letter by letter, and nothing else of it.

They are written into the frontmatter of the record that names the other, with the model's name, where a
person can see them and take them out; what a person rejected once is not proposed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import ModelFailed, ModelUnauthorised, OverBudget
from vademecum.knowledge import edges
from vademecum.knowledge.edges import Relation
from vademecum.lifecycle import runner
from vademecum.lifecycle.base import Proposal, renewed
from vademecum.store import frontmatter, secrets
from vademecum.store.texts import decode
from vademecum.types import SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.lifecycle.base import Seen
    from vademecum.lifecycle.runner import Outcome
    from vademecum.llm.base import Model
    from vademecum.store.records import Records
    from vademecum.store.runs import Edit
    from vademecum.types import Place

NAME = "relate"
CANDIDATES = 200  # the newest records of a place
ASKED = 25  # records of one question
MOST = 3  # edges of one record
_LINE = 160  # characters of a record in the list


@dataclass(frozen=True, slots=True)
class Named:
    """One record that another is related to."""

    key: str
    relation: str = str(Relation.RELATES_TO)


@dataclass(frozen=True, slots=True)
class Links:
    """What one record is related to."""

    key: str
    related: list[Named] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model is asked for."""

    records: list[Links] = field(default_factory=list)


class Proposed(NamedTuple):
    """The edges that a model proposes, and what was not taken from it."""

    outcome: Outcome
    refused: tuple[str, ...] = ()
    model: str = ""


def asked(records: Records, places: Iterable[Place], model: Model, *, apply: bool) -> Proposed:
    """The edges that a model sees between the records of each place: only told, or written."""
    seen, findings = runner.look(records, places)
    proposals, refused = propose(seen, model, rejected=edges.rejections(records.home))
    outcome = runner.Outcome(tuple(proposals), findings=tuple(findings))
    if apply and proposals:
        run, told = runner.apply(records, proposals, what=NAME)
        outcome = outcome._replace(run=run, told=told)
    return Proposed(outcome, tuple(refused), model.name)


def propose(
    seen: Iterable[Seen], model: Model, *, rejected: Callable[[str, str], bool]
) -> tuple[list[Proposal], list[str]]:
    """The edges that a model sees between records of one place, and why others were refused."""
    places: dict[Place, list[Seen]] = {}
    for each in seen:
        places.setdefault(each.record.place, []).append(each)
    proposals: list[Proposal] = []
    refused: list[str] = []
    for place, here in places.items():
        newest = sorted(here, key=_age, reverse=True)[:CANDIDATES]
        try:
            for some in _portions([each for each in newest if each.shelf.trusted]):
                found, wrong = _asked(some, newest, model, rejected=rejected)
                proposals += found
                refused += [f"{place}: {each}" for each in wrong]
        except (ModelUnauthorised, OverBudget) as error:
            refused.append(f"{place}: {error}")
            break
    return proposals, refused


def _asked(
    some: Sequence[Seen], newest: Sequence[Seen], model: Model, *, rejected: Callable[[str, str], bool]
) -> tuple[list[Proposal], list[str]]:
    if len(newest) < 2:
        return [], []
    keys = "\n".join(each.record.key for each in some)
    listed = "\n".join(f"{each.record.key}: {_line(each)}" for each in newest)
    try:
        answer = model.typed(f"RECORDS\n{listed}\n\nASKED\n{keys}", Answer, system=_prompt()).value
    except (ModelUnauthorised, OverBudget):
        raise
    except ModelFailed as error:
        return [], [str(error)]
    known = {each.record.key: each for each in reversed(newest)}
    standing = _standing(newest)
    proposals, wrong = [], []
    said: dict[str, list[Named]] = {}
    for links in answer.records:
        said.setdefault(links.key, []).extend(links.related)
    for key, related in said.items():
        source = next((each for each in some if each.record.key == key), None)
        if source is None:
            wrong.append(f"{key[:60]!r} is no record that was asked about")
            continue
        new: dict[str, dict[str, Any]] = {}
        for named in related:
            why = _problem(source, named, known, standing, rejected=rejected)
            if why:
                wrong.append(f"{key}: {why}")
            elif why is not None and len(new) < MOST:
                new[named.key] = {"key": named.key, "rel": named.relation, "by": model.name}
                standing.add(frozenset((source.record.path, known[named.key].record.path)))
        if new and (edit := _edit(source, [*new.values()])) is not None:
            told = ", ".join(f"{each['rel']} {each['key']}" for each in new.values())
            proposals.append(Proposal(NAME, source.record.path, told, (edit,), source.record.place))
    return proposals, wrong


def _problem(
    source: Seen,
    named: Named,
    known: dict[str, Seen],
    standing: set[frozenset[str]],
    *,
    rejected: Callable[[str, str], bool],
) -> str | None:
    """Why an edge is refused; empty when it may be proposed, None when there is nothing new in it."""
    other = known.get(named.key)
    if other is None:
        return f"{named.key[:60]!r} is no record here"
    if other.record.path == source.record.path:
        return "a record is not related to itself"
    if named.relation not in set(Relation):
        return f"{named.relation[:60]!r} is no relation"
    if edges.is_rejected(source.record, other.record, rejected):
        return None
    return None if frozenset((source.record.path, other.record.path)) in standing else ""


def _standing(newest: Sequence[Seen]) -> set[frozenset[str]]:
    """The pairs that are joined already by what their files say."""
    found = edges.graph([each.record for each in newest], by_tags=False)
    return {frozenset((edge.source, edge.target)) for edge in found.edges}


def _edit(source: Seen, new: Sequence[dict[str, Any]]) -> Edit | None:
    """The record with these edges added; None when its own list is none that can be added to."""
    given = source.record.fields.get("related")
    if given is not None and not isinstance(given, list):
        return None
    fields: dict[str, Any] = {"related": [*(given or ()), *new]}
    if not source.record.fields.get("type"):
        fields["type"] = source.record.type
    return source.revised(frontmatter.edit(decode(source.content), fields))


def _portions(seen: Sequence[Seen]) -> Iterator[Sequence[Seen]]:
    return (seen[at : at + ASKED] for at in range(0, len(seen), ASKED))


def _line(seen: Seen) -> str:
    """A record on one line, without what no model may see."""
    text, _ = secrets.gate(seen.record.text, SecretPolicy.REDACT)
    return " ".join(text.split())[:_LINE]


def _age(seen: Seen) -> tuple[float, str]:
    at = renewed(seen.record)
    return 0.0 if at is None else at.timestamp(), seen.record.path


@cache
def _prompt() -> str:
    folder = resources.files(__package__).joinpath("prompts")
    return folder.joinpath("relate.txt").read_text(encoding="utf-8").strip()
