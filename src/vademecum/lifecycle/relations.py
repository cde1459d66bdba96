"""How records hang together: the graph, what a person says of it, and the edges that a model proposes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.errors import NotFound, UsageError
from vademecum.knowledge import graph as graphs
from vademecum.stand_ins import renamed
from vademecum.store import outgoing, scopes

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from vademecum.knowledge.finder import Finder
    from vademecum.lifecycle.relate import ProposedEdges
    from vademecum.llm.base import Model
    from vademecum.store import Workspace
    from vademecum.types import Record, Scope


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
            raise UsageError(f"{first.key} is one record, and an edge has two")
        with self._work.reported("keep the decision"):
            if on:
                ends = graphs.identity(first), graphs.identity(second)
                graphs.reject(self._work.home, *ends, at=self._work.stamp(), by=self._work.caller.actor)
            elif not graphs.accept(self._work.home, first, second):
                raise NotFound(f"nobody has rejected an edge between {first.key} and {second.key}")
            self._work.audit("reject edge" if on else "accept edge", scope=first.place.scope, record=first.id)
        return first, second

    def propose(
        self, *, scope: str | Scope | None = None, model: str | Model | None = None, apply: bool = False
    ) -> ProposedEdges:
        """The edges that a language model sees between records of one place; with `apply` they are written.

        What it names is held against what is there; `undo` takes a run back.
        """
        from vademecum.lifecycle import relate as linking
        from vademecum.lifecycle import runner

        self._work.not_in_group("tidy up")
        chosen = self._work.language_model(model)
        if apply:
            self._work.may_write()
        elif self._work.settings.incognito:
            return linking.ProposedEdges(runner.RunOutcome(()))
        with self._work.reported("look for edges"):
            return linking.relate_places(self._work.records, self._work.places(scope), chosen, apply=apply)

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
        content = graphs.render_graph(self.read(scope=scope, rejected=rejected), format)
        with self._work.reported(f"write {target}"):
            export.write(target, [content], force=force)
        return target
