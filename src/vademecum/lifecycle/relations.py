"""Read the graph of records, save a person's rejections of edges, and let a model propose edges.

A model can only name keys of existing records. An accepted edge is written into the frontmatter of the record
that it starts from, with the model's name, where a person can see and remove it; a rejected edge is not
proposed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import ModelFailed, ModelUnauthorised, NotFound, OverBudget, UsageError
from vademecum.knowledge import Relation
from vademecum.knowledge import graph as graphs
from vademecum.lifecycle import passes
from vademecum.lifecycle.passes import Proposal, last_renewed
from vademecum.llm.base import read_prompt
from vademecum.store import scopes
from vademecum.text import frontmatter, outgoing, secrets
from vademecum.text.document import decode
from vademecum.types import SecretPolicy

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.lifecycle.passes import RecordFile, RunOutcome
    from vademecum.llm.base import Model
    from vademecum.search import Finder
    from vademecum.store import Edit, Records, Workspace
    from vademecum.types import Place, Record, Scope


class Relations:
    """The operations on the graph of visible records that `Memory` offers."""

    def __init__(self, workspace: Workspace, finder: Finder) -> None:
        self._work = workspace
        self._finder = finder

    def read(self, *, scope: str | Scope | None = None, rejected: bool = False) -> graphs.Graph:
        """Return the graph of visible records: the edges between them, and links to records that do not
        exist.

        With `rejected`, also the edges that a person has rejected.
        """
        if self._work.settings.incognito:
            return graphs.Graph((), (), ())
        with self._work.reported("read the records"):
            found = self._finder.sight.graph(self._work.places(scope))
        return found if rejected else found.standing()

    def related(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[graphs.Related]:
        """Return at most 20 records that a record is related to, the highest weight first."""
        record = outgoing.clean_record(self._work.find(name, scope).record)
        with self._work.reported("read the records"):
            found = graphs.graph_of_record(self._work.records, scopes.visible(self._work.caller), record.path)
        return graphs.find_related(found, [record.path], each=20, most=20)

    def reject(
        self, one: str | int, other: str | int, *, scope: str | Scope | None = None, on: bool = True
    ) -> tuple[Record, Record]:
        """Save a person's decision that two records are not related, or with `on=False` revert the decision.

        It holds for every edge between the two records, also for later ones.
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
        """Let a language model propose edges between records of one place; `apply` writes them to the
        records.

        The program checks that the named records exist; `undo` reverts a run.
        """
        from vademecum.llm.providers import require_model

        self._work.not_in_group("tidy up")
        chosen = require_model(model, self._work.settings.model, self._work.settings.llm)
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
        """Write the graph to a file as `graphml`, `mermaid` or `json`; `force` replaces an existing file.

        With `rejected`, also the edges that a person has rejected.
        """
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
    """The key of a related record and the kind of relation, as the model names them."""

    key: str
    relation: str = str(Relation.RELATES_TO)


@dataclass(frozen=True, slots=True)
class RecordLinks:
    """The relations of one record."""

    key: str
    related: list[NamedRelation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RelateAnswer:
    """The answer of a model: the relations that it sees between records."""

    records: list[RecordLinks] = field(default_factory=list)


class ProposedEdges(NamedTuple):
    """The edges that a model proposes, and the reasons why other edges were refused."""

    outcome: RunOutcome
    refused: tuple[str, ...] = ()
    model: str = ""


def relate_places(records: Records, places: Iterable[Place], model: Model, *, apply: bool) -> ProposedEdges:
    """Ask a model for edges between the records of each place; propose them, or write them with `apply`."""
    seen, findings = passes.read_places(records, places)
    proposals, refused = propose(seen, model, rejected=graphs.rejections(records.home))
    outcome = passes.RunOutcome(tuple(proposals), findings=tuple(findings))
    if apply and proposals:
        run, results = passes.apply_proposals(records, proposals, what=NAME)
        outcome = outcome._replace(run=run, results=results)
    return ProposedEdges(outcome, tuple(refused), model.name)


def propose(
    seen: Iterable[RecordFile], model: Model, *, rejected: Callable[[str, str], bool]
) -> tuple[list[Proposal], list[str]]:
    """Return the edges that a model proposes between records of one place, and why others were refused."""
    places: dict[Place, list[RecordFile]] = {}
    for each in seen:
        places.setdefault(each.record.place, []).append(each)
    proposals: list[Proposal] = []
    refused: list[str] = []
    for place, here in places.items():
        newest = sorted(here, key=_age, reverse=True)[:CANDIDATES]
        try:
            for some in _split_portions([each for each in newest if each.scope_folder.trusted]):
                found, wrong = _ask_model(some, newest, model, rejected=rejected)
                proposals += found
                refused += [f"{place}: {each}" for each in wrong]
        except (ModelUnauthorised, OverBudget) as error:
            refused.append(f"{place}: {error}")
            break
    return proposals, refused


def _ask_model(
    some: Sequence[RecordFile],
    newest: Sequence[RecordFile],
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
    standing = _related_pairs(newest)
    proposals, wrong = [], []
    relations_by_key: dict[str, list[NamedRelation]] = {}
    for links in answer.records:
        relations_by_key.setdefault(links.key, []).extend(links.related)
    for key, related in relations_by_key.items():
        source = next((each for each in some if each.record.key == key), None)
        if source is None:
            wrong.append(f"{key[:60]!r} is not one of the requested records")
            continue
        new: dict[str, dict[str, Any]] = {}
        for named in related:
            why = _find_problem(source, named, known, standing, rejected=rejected)
            if why:
                wrong.append(f"{key}: {why}")
            elif why is not None and len(new) < MOST:
                new[named.key] = {"key": named.key, "rel": named.relation, "by": model.name}
                standing.add(frozenset((source.record.path, known[named.key].record.path)))
        if new and (edit := _add_edges(source, [*new.values()])) is not None:
            results = ", ".join(f"{each['rel']} {each['key']}" for each in new.values())
            proposals.append(Proposal(NAME, source.record.path, results, (edit,), source.record.place))
    return proposals, wrong


def _find_problem(
    source: RecordFile,
    named: NamedRelation,
    known: dict[str, RecordFile],
    standing: set[frozenset[str]],
    *,
    rejected: Callable[[str, str], bool],
) -> str | None:
    """Return why an edge is refused; empty when it may be proposed, None when it exists or was rejected
    already.
    """
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


def _related_pairs(newest: Sequence[RecordFile]) -> set[frozenset[str]]:
    """Return the pairs of records that links or frontmatter already relate, as pairs of paths."""
    found = graphs.build_graph([each.record for each in newest], by_tags=False)
    return {frozenset((edge.source, edge.target)) for edge in found.edges}


def _add_edges(source: RecordFile, new: Sequence[dict[str, Any]]) -> Edit | None:
    """Return the edit that adds edges to a record's `related`; None when that value is not a list."""
    given = source.record.fields.get("related")
    if given is not None and not isinstance(given, list):
        return None
    fields: dict[str, Any] = {"related": [*(given or ()), *new]}
    if not source.record.fields.get("type"):
        fields["type"] = source.record.type
    return source.revised(frontmatter.edit(decode(source.content), fields))


def _split_portions(seen: Sequence[RecordFile]) -> Iterator[Sequence[RecordFile]]:
    return (seen[at : at + ASKED] for at in range(0, len(seen), ASKED))


def _line(seen: RecordFile) -> str:
    """Return a record on one line of a question to the model, without secrets."""
    text, _ = secrets.gate(seen.record.text, SecretPolicy.REDACT)
    return " ".join(text.split())[:_LINE]


def _age(seen: RecordFile) -> tuple[float, str]:
    at = last_renewed(seen.record)
    return 0.0 if at is None else at.timestamp(), seen.record.path
