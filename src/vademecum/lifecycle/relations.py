"""Relations: how records hang together, what a person says of it, and the edges that a model proposes.

A model proposes keys of records that are there, letter by letter, and nothing else of it. They are written
into the frontmatter of the record that names the other, with the model's name, where a person can see them
and take them out; what a person rejected once is not proposed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import ModelFailed, ModelUnauthorised, NotFound, OverBudget, UsageError
from vademecum.knowledge import graph as graphs
from vademecum.knowledge.graph import Relation
from vademecum.lifecycle import passes
from vademecum.lifecycle.passes import Proposal, last_renewed
from vademecum.llm.base import read_prompt
from vademecum.stand_ins import renamed
from vademecum.store import frontmatter, scopes
from vademecum.store.document import decode
from vademecum.text import outgoing, secrets
from vademecum.types import SecretPolicy

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.knowledge.finder import Finder
    from vademecum.lifecycle.passes import RunOutcome, SeenRecord
    from vademecum.llm.base import Model
    from vademecum.store import Edit, Records, Workspace
    from vademecum.types import Place, Record, Scope


class Relations:
    """The graph of what is in sight, as `Memory` offers it."""

    def __init__(self, workspace: Workspace, finder: Finder) -> None:
        self._work = workspace
        self._finder = finder

    def read(self, *, scope: str | Scope | None = None, rejected: bool = False) -> graphs.Graph:
        """The records in sight, the edges between them, and links that lead nowhere.

        With `rejected`, also the edges that a person has rejected.
        """
        if self._work.settings.incognito:
            return graphs.Graph((), (), ())
        with self._work.reported("read the records"):
            found = self._finder.sight.graph(self._work.places(scope))
        return found if rejected else found.standing()

    if not TYPE_CHECKING:
        __call__ = renamed("graph()", "graph.read()", read)

    def related(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[graphs.Related]:
        """What a record is joined to, the surest first: its `See Also`."""
        record = outgoing.clean_record(self._work.find(name, scope).record)
        with self._work.reported("read the records"):
            found = graphs.graph_around(self._work.records, scopes.visible(self._work.caller), record.path)
        return graphs.find_related(found, [record.path], each=20, most=20)

    def reject(
        self, one: str | int, other: str | int, *, scope: str | Scope | None = None, on: bool = True
    ) -> tuple[Record, Record]:
        """A person's word that two records have nothing to do with each other, or take that back.

        It holds for every edge between them, also for those that are found later.
        """
        self._work.may_write()
        self._work.only_a_person("reject an edge", "vade graph --reject")
        first, second = (self._work.find(name, scope, only=True).record for name in (one, other))
        if first.path == second.path:
            raise UsageError(f"{first.key} is the same record twice")
        with self._work.reported("save the decision"):
            if on:
                ends = graphs.identity(first), graphs.identity(second)
                graphs.reject(self._work.home, *ends, at=self._work.stamp(), by=self._work.caller.actor)
            elif not graphs.accept(self._work.home, first, second):
                raise NotFound(f"no rejected edge between {first.key} and {second.key}")
            self._work.audit("reject edge" if on else "accept edge", scope=first.place.scope, record=first.id)
        return first, second

    def propose(
        self, *, scope: str | Scope | None = None, model: str | Model | None = None, apply: bool = False
    ) -> ProposedEdges:
        """The edges that a language model sees between records of one place; with `apply` they are written.

        What it names is held against what is there; `undo` takes a run back.
        """
        self._work.not_in_group("tidy up")
        chosen = self._work.language_model(model)
        if apply:
            self._work.may_write()
        elif self._work.settings.incognito:
            return ProposedEdges(passes.RunOutcome(()))
        with self._work.reported("look for edges"):
            return relate_places(self._work.records, self._work.places(scope), chosen, apply=apply)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "graphml",
        scope: str | Scope | None = None,
        rejected: bool = False,
        force: bool = False,
    ) -> Path:
        """Write the graph to a new file as `graphml`, `mermaid` or `json`."""
        from vademecum.transcripts import export

        self._work.at_a_command_line("write files of this machine", "vade graph --out")
        target = Path(path)
        self._work.outside(target)
        content = self.read(scope=scope, rejected=rejected).render(format)
        with self._work.reported(f"write {target}"):
            export.write(target, [content], force=force)
        return target


# ------------------------------------------------------------ edges that a model proposes

NAME = "relate"
CANDIDATES = 200  # the newest records of a place
ASKED = 25  # records of one question
MOST = 3  # edges of one record
_LINE = 160  # characters of a record in the list


@dataclass(frozen=True, slots=True)
class NamedRelation:
    """One record that another is related to."""

    key: str
    relation: str = str(Relation.RELATES_TO)


@dataclass(frozen=True, slots=True)
class RecordLinks:
    """What one record is related to."""

    key: str
    related: list[NamedRelation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RelateAnswer:
    """What a model is asked for."""

    records: list[RecordLinks] = field(default_factory=list)


class ProposedEdges(NamedTuple):
    """The edges that a model proposes, and what was not taken from it."""

    outcome: RunOutcome
    refused: tuple[str, ...] = ()
    model: str = ""


def relate_places(records: Records, places: Iterable[Place], model: Model, *, apply: bool) -> ProposedEdges:
    """The edges that a model sees between the records of each place: only told, or written."""
    seen, findings = passes.read_places(records, places)
    proposals, refused = propose(seen, model, rejected=graphs.rejections(records.home))
    outcome = passes.RunOutcome(tuple(proposals), findings=tuple(findings))
    if apply and proposals:
        run, told = passes.apply_proposals(records, proposals, what=NAME)
        outcome = outcome._replace(run=run, told=told)
    return ProposedEdges(outcome, tuple(refused), model.name)


def propose(
    seen: Iterable[SeenRecord], model: Model, *, rejected: Callable[[str, str], bool]
) -> tuple[list[Proposal], list[str]]:
    """The edges that a model sees between records of one place, and why others were refused."""
    places: dict[Place, list[SeenRecord]] = {}
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
    some: Sequence[SeenRecord],
    newest: Sequence[SeenRecord],
    model: Model,
    *,
    rejected: Callable[[str, str], bool],
) -> tuple[list[Proposal], list[str]]:
    if len(newest) < 2:
        return [], []
    keys = "\n".join(each.record.key for each in some)
    listed = "\n".join(f"{each.record.key}: {_line(each)}" for each in newest)
    try:
        answer = model.typed(
            f"RECORDS\n{listed}\n\nASKED\n{keys}", RelateAnswer, system=read_prompt(__package__, "relate")
        ).value
    except (ModelUnauthorised, OverBudget):
        raise
    except ModelFailed as error:
        return [], [str(error)]
    known = {each.record.key: each for each in reversed(newest)}
    standing = _standing(newest)
    proposals, wrong = [], []
    said: dict[str, list[NamedRelation]] = {}
    for links in answer.records:
        said.setdefault(links.key, []).extend(links.related)
    for key, related in said.items():
        source = next((each for each in some if each.record.key == key), None)
        if source is None:
            wrong.append(f"{key[:60]!r} is not one of the requested records")
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
    source: SeenRecord,
    named: NamedRelation,
    known: dict[str, SeenRecord],
    standing: set[frozenset[str]],
    *,
    rejected: Callable[[str, str], bool],
) -> str | None:
    """Why an edge is refused; empty when it may be proposed, None when there is nothing new in it."""
    other = known.get(named.key)
    if other is None:
        return f"{named.key[:60]!r} is not a record here"
    if other.record.path == source.record.path:
        return "a record is not related to itself"
    if named.relation not in set(Relation):
        return f"{named.relation[:60]!r} is not a relation"
    if graphs.is_rejected(source.record, other.record, rejected):
        return None
    return None if frozenset((source.record.path, other.record.path)) in standing else ""


def _standing(newest: Sequence[SeenRecord]) -> set[frozenset[str]]:
    """The pairs that are joined already by what their files say."""
    found = graphs.build_graph([each.record for each in newest], by_tags=False)
    return {frozenset((edge.source, edge.target)) for edge in found.edges}


def _edit(source: SeenRecord, new: Sequence[dict[str, Any]]) -> Edit | None:
    """The record with these edges added; None when its own list is none that can be added to."""
    given = source.record.fields.get("related")
    if given is not None and not isinstance(given, list):
        return None
    fields: dict[str, Any] = {"related": [*(given or ()), *new]}
    if not source.record.fields.get("type"):
        fields["type"] = source.record.type
    return source.revised(frontmatter.edit(decode(source.content), fields))


def _portions(seen: Sequence[SeenRecord]) -> Iterator[Sequence[SeenRecord]]:
    return (seen[at : at + ASKED] for at in range(0, len(seen), ASKED))


def _line(seen: SeenRecord) -> str:
    """A record on one line, without what no model may see."""
    text, _ = secrets.gate(seen.record.text, SecretPolicy.REDACT)
    return " ".join(text.split())[:_LINE]


def _age(seen: SeenRecord) -> tuple[float, str]:
    at = last_renewed(seen.record)
    return 0.0 if at is None else at.timestamp(), seen.record.path
