"""How things hang together, and what is made of them: edges, merged topics, promotion, the profile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.errors import Malformed, NotFound, UsageError
from vademecum.lazy import LazyModule
from vademecum.memory.conversing import Conversing
from vademecum.store import scopes
from vademecum.types import Finding, Record, Scope

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterator, Sequence

    from vademecum.knowledge import graph as graphs
    from vademecum.lifecycle import profile as profiling
    from vademecum.lifecycle import promote as promoting
    from vademecum.lifecycle import relate as linking
    from vademecum.lifecycle import rewrite as rewriting
    from vademecum.lifecycle import runner
    from vademecum.llm.base import Model
    from vademecum.store import pinned
    from vademecum.store import runs as running
    from vademecum.store.pinned import Pinned
    from vademecum.transcripts import export
    from vademecum.transcripts.log import Log
else:
    graphs = LazyModule("vademecum.knowledge.graph")
    linking = LazyModule("vademecum.lifecycle.relate")
    profiling = LazyModule("vademecum.lifecycle.profile")
    promoting = LazyModule("vademecum.lifecycle.promote")
    rewriting = LazyModule("vademecum.lifecycle.rewrite")
    runner = LazyModule("vademecum.lifecycle.runner")
    running = LazyModule("vademecum.store.runs")
    export = LazyModule("vademecum.transcripts.export")
    pinned = LazyModule("vademecum.store.pinned")


class Relating(Conversing):
    """How things hang together, and what is made of them, as a part of `Memory`."""

    def graph(self, *, scope: str | Scope | None = None, rejected: bool = False) -> graphs.Graph:
        """The records in sight, the edges between them, and links that lead nowhere.

        With `rejected`, also the edges that a person has rejected.
        """
        if self.settings.incognito:
            return graphs.Graph((), (), ())
        with self._reported("read the records"):
            found = self._sight.graph(self._places(scope, all=False))
        return found if rejected else found.standing()

    def related(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[graphs.Related]:
        """What a record is joined to, the surest first: its `See Also`."""
        record = self.show(name, scope=scope)
        with self._reported("read the records"):
            found = graphs.graph_around(self.records, scopes.visible(self.caller), record.path)
        return graphs.find_related(found, [record.path], each=20, most=20)

    def reject_edge(
        self, one: str | int, other: str | int, *, scope: str | Scope | None = None, on: bool = True
    ) -> tuple[Record, Record]:
        """A person's word that two records have nothing to do with each other, or take that back.

        It holds for every edge between them, also for those that are found later.
        """
        self._may_write()
        self._only_a_person("reject an edge", "vade graph --reject")
        first, second = (self._find(name, scope, only=True).record for name in (one, other))
        if first.path == second.path:
            raise UsageError(f"{first.key} is one record, and an edge has two")
        with self._reported("keep the decision"):
            if on:
                ends = graphs.identity(first), graphs.identity(second)
                graphs.reject(self.home, *ends, at=self._stamp(), by=self.caller.actor)
            elif not graphs.accept(self.home, first, second):
                raise NotFound(f"nobody has rejected an edge between {first.key} and {second.key}")
            self._audit("reject edge" if on else "accept edge", scope=first.place.scope, record=first.id)
        return first, second

    def propose_edges(
        self, *, scope: str | Scope | None = None, model: str | Model | None = None, apply: bool = False
    ) -> linking.ProposedEdges:
        """The edges that a language model sees between records of one place; with `apply` they are written.

        What it names is held against what is there; `undo` takes a run back.
        """
        self._not_in_group("tidy up")
        chosen = self._language_model(model)
        if apply:
            self._may_write()
        elif self.settings.incognito:
            return linking.ProposedEdges(runner.RunOutcome(()))
        with self._reported("look for edges"):
            return linking.relate_places(self.records, self._places(scope, all=False), chosen, apply=apply)

    def export_graph(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "graphml",
        scope: str | Scope | None = None,
        rejected: bool = False,
        force: bool = False,
    ) -> Path:
        """Write the graph to a new file as `graphml`, `mermaid` or `json`."""
        self._at_a_command_line("write files of this machine", "vade graph --out")
        target = Path(path)
        self._outside(target)
        content = graphs.render_graph(self.graph(scope=scope, rejected=rejected), format)
        with self._reported(f"write {target}"):
            export.write(target, [content], force=force)
        return target

    def compact(
        self,
        name: str | int | None = None,
        *,
        scope: str | Scope | None = None,
        model: str | Model | None = None,
        apply: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> rewriting.Rewritten:
        """What a language model makes of topics with several entries, or of the one named.

        What it writes is held against the entries without a model; with `apply` it is appended and the
        entries it covers are marked superseded. A protected record is left alone unless it is named.
        """
        self._not_in_group("tidy up")
        chosen = self._language_model(model)
        if apply:
            self._may_write()
        elif self.settings.incognito:
            return rewriting.Rewritten(runner.RunOutcome(()))
        record = None if name is None else self._find(name, scope, only=True).record
        places = self._places(scope, all=False) if record is None else [record.place]
        with self._reported("compact"):
            return rewriting.rewrite_places(
                self.records,
                places,
                chosen,
                path=None if record is None else record.path,
                apply=apply,
                progress=progress,
            )

    def promote(
        self,
        *,
        scope: str | Scope | None = None,
        apply: bool = False,
        only: Collection[str] | None = None,
    ) -> promoting.Promoted:
        """What journals repeat, or sessions recalled repeatedly; with `apply` it becomes curated memory.

        Each is a record, or a line of `MEMORY.md`, with the lines it came from; `undo` takes a run back. With
        `only`, what says exactly these texts.
        """
        self._not_in_group("read a journal")
        if apply:
            self._may_write()
        elif self.settings.incognito:
            return promoting.Promoted(runner.RunOutcome(()))
        if scope is None:
            visible = scopes.visible(self.caller)
            places = [place for place in visible if place.scope in scopes.WITH_JOURNAL]
        else:
            places = [scopes.journal_place(self.caller, scopes.parse_scope(scope))]
        with self._reported("promote"):
            return promoting.promote_places(
                self.records,
                self.journal,
                self.documents,
                self._newest_logs(promoting.SESSIONS),
                places=places,
                visible=scopes.visible(self.caller),
                threshold=self.settings.dedup.threshold,
                apply=apply,
                only=only,
            )

    def profile(self) -> Pinned | None:
        """The `profile.md` there is, with its size, its budget and whose each section is."""
        self._not_in_group("read the profile")
        if self.settings.incognito:
            return None
        place = scopes.place_for(self.caller, Scope.GLOBAL)
        with self._reported("read the profile"):
            for each in self.documents.all([place]):
                if isinstance(each, Finding) and each.where.endswith(pinned.PROFILE):
                    raise Malformed(each.why)
                if not isinstance(each, Finding) and each.name == pinned.PROFILE:
                    return each
        return None

    def profile_draft(
        self, *, model: str | Model | bool | None = None, imported: bool = False
    ) -> profiling.ProfileDraft:
        """What `profile.md` could say of how the user writes, from this project's sessions; writes nothing.

        With a `model`, or True for the one of the settings, it adds what it sees, checked. Sessions of other
        agents count only if `imported`.
        """
        self._not_in_group("draft a profile")
        if self.settings.incognito:
            return profiling.ProfileDraft(notes=("this session is incognito: nothing is read",))
        asked = self._language_model(None if model is True else model) if model else None
        with self._reported("draft a profile"):
            logs = self._newest_logs(profiling.SESSIONS)
            told = profiling.read_messages(self.home, logs, imported=imported, zone=self.now().tzinfo)
            budget = self.settings.inject.profile_chars
            return profiling.draft_profile(self.documents, told, budget=budget, model=asked)

    def profile_apply(self, draft: profiling.ProfileDraft) -> tuple[str, running.Told]:
        """Keep a draft that was shown under its own heading of `profile.md`; `undo` takes the run back.

        Returns the run and what became of it. Kept by an agent it waits for `verify`.
        """
        self._not_in_group("keep a profile")
        self._may_write()
        with self._reported("keep the profile"):
            return profiling.keep_draft(self.documents, draft)

    def _newest_logs(self, most: int) -> Iterator[Log]:
        """The logs of the newest sessions of this project and agent."""
        if self.caller.project is not None and self.home.names("transcripts"):
            for each in [each for each in self.sessions() if not each.trouble][:most]:
                yield self.session(each.id)
