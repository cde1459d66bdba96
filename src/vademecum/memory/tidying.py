"""Tidying up: what is old, said twice, wrong or too much, and the way back from each run."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from vademecum import config
from vademecum.errors import VadeError
from vademecum.lazy import LazyModule
from vademecum.memory.base import _split
from vademecum.memory.searching import Searching
from vademecum.store import clock, decisions, notices, scopes
from vademecum.store.records import Found
from vademecum.types import Audience, Finding, Origin, Outcome, Place, Scope, Stored, Swept

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    from vademecum.index.sync import SyncReport
    from vademecum.knowledge import graph
    from vademecum.lifecycle import heal as healing
    from vademecum.lifecycle import heal as heals
    from vademecum.lifecycle import runner
    from vademecum.lifecycle import sweep as sweeping
    from vademecum.lifecycle.lint import material as materials
    from vademecum.lifecycle.lint import runner as linting
    from vademecum.llm.base import Model
    from vademecum.store import listing, sources
    from vademecum.store import runs as running
else:
    graph = LazyModule("vademecum.knowledge.graph")
    runner = LazyModule("vademecum.lifecycle.runner")
    running = LazyModule("vademecum.store.runs")
    heals = LazyModule("vademecum.lifecycle.heal")
    sweeping = LazyModule("vademecum.lifecycle.sweep")
    healing = LazyModule("vademecum.lifecycle.heal")
    materials = LazyModule("vademecum.lifecycle.lint.material")
    linting = LazyModule("vademecum.lifecycle.lint.runner")
    listing = LazyModule("vademecum.store.listing")
    sources = LazyModule("vademecum.store.sources")


class Tidying(Searching):
    """Tidying up, as a part of `Memory`."""

    def watch(self, stop: threading.Event) -> Iterator[tuple[str, SyncReport]]:
        """Keep the index up to date until told to stop, giving each report and what it was made for."""
        self._may_write()
        self.sweep_if_due()
        with self._reported("watch"):
            yield from self.searcher.watch(stop)

    def sweep(
        self, *, apply: bool = False, scope: str | Scope | None = None, large: bool = False
    ) -> runner.RunOutcome:
        """What is old, expired, said twice or too much, and with `apply` put it away; `undo` brings it back.

        A run that would put away much is only told, unless `large` says that this is meant.
        """
        self._not_in_group("tidy up")
        if apply:
            self._may_write()
        elif self.settings.incognito:
            return runner.RunOutcome(())
        with self._reported("sweep"):
            return sweeping.sweep_asked(
                self.records, self._sweepable(scope), self.settings, apply=apply, large=large
            )

    def sweep_if_due(self) -> runner.RunOutcome | None:
        """Put away what is old or too much, once a day, when `sweep = auto`; None when it is not due."""
        private = self.caller.audience is Audience.PRIVATE
        if self.settings.sweep is not config.Sweeping.AUTO or self.settings.incognito or not private:
            return None
        name = self._sweep_name
        if not sweeping.is_due(self._state.moment(name), now=self.now()):
            return None
        self._state.happened(name, self.now())
        try:
            with self._reported("sweep"):
                # Nobody asked for it but the user's own setting, whoever happens to be at work here.
                records = replace(self.records, caller=replace(self.caller, approved=True))
                outcome = sweeping.sweep_unasked(records, self._sweepable(None, unasked=True), self.settings)
        except VadeError as error:  # nobody asked for it, so nobody's work ends with it
            return runner.RunOutcome((), findings=(Finding("sweep", str(self.home.path), str(error)),))
        self._state.happened(f"held {name}", self.now() if outcome.large else None)
        moved = self._moved_by(outcome)
        if moved is not None:
            with contextlib.suppress(OSError, VadeError):  # `status` tells of the run all the same
                notices.remember(self.home, moved)
        return outcome

    def _moved_by(self, outcome: runner.RunOutcome) -> Swept | None:
        root = str(self._root or "")
        return sweeping.count_swept(outcome, at=self._stamp(), where=root)

    def notices(self) -> Sequence[Swept]:
        """What memory moved by itself, more than ten records at once, and no person has seen yet."""
        if self.settings.incognito or self.caller.audience is Audience.GROUP:
            return []
        return notices.every(self.home)

    def saw_notices(self) -> None:
        """Note that a person has seen them; what an agent was told is still to be told to one."""
        if self.caller.origin is Origin.USER and not self.readonly:
            with contextlib.suppress(OSError, VadeError):
                for each in self.notices():
                    notices.drop(self.home, each.run)

    def lint(
        self,
        *,
        scope: str | Scope | None = None,
        seconds: float = 30.0,
        model: str | Model | bool | None = None,
    ) -> Sequence[Finding]:
        """What is wrong with what is in sight, the worst first; changes nothing, and ends in so many seconds.

        With a `model`, or True for the one of the settings, it is asked about contradictions as well.
        """
        self._not_in_group("look for what is wrong")
        if self.settings.incognito:
            return []
        asked = self._language_model(None if model is True else model) if model else None
        places = self._places(scope, all=False)
        watch = materials.Stopwatch(seconds)
        with self._reported("look for what is wrong"):
            attached = sources.visible(self.home, self.caller)
            material = materials.read_material(self.records, places, attached, root=self._root, watch=watch)
            gone = self._rows_gone() if scope is None else 0
            found = linting.run_lint(
                material,
                linting.LintContext(
                    documents=_split(self.documents.all(places))[0],
                    max_count=self.settings.decay.max_count,
                    uses=self._use_counts,
                    rejected=graph.rejections(self.home),
                    verified=lambda entry: decisions.verified(self.home, entry.text),
                    rows_gone=gone,
                    index_path=f"index/{self.settings.agent}.db",
                    model=asked,
                    home=self.home,
                ),
            )
        return [*found, *(self._settings_findings() if scope is None else ())]

    def heal(
        self, *, scope: str | Scope | None = None, apply: bool = False, aggressive: bool = False
    ) -> runner.RunOutcome:
        """What lint finds and takes no person to mend, and with `apply` mend it; `undo` brings it back.

        Removes no text. With `aggressive`, counters that look driven up begin anew.
        """
        self._not_in_group("mend anything")
        if apply:
            self._may_write()
        elif self.settings.incognito:
            return runner.RunOutcome(())
        around = healing.HealContext(
            uses=self._use_counts,
            forget_uses=self._state.forget_uses,
            rows_gone=lambda: self._rows_gone() if scope is None else 0,
            sync=self.index,
            index_path=f"index/{self.settings.agent}.db",
            verified=lambda entry: decisions.verified(self.home, entry.text),
        )
        with self._reported("mend"):
            return healing.heal(
                self.records,
                self._places(scope, all=False),
                around,
                root=self._root,
                apply=apply,
                aggressive=aggressive,
            )

    def _use_counts(self, items: Sequence[str]) -> dict[str, int]:
        return {item: use.count for item, use in self._state.uses(items).items()}

    def _rows_gone(self) -> int:
        """How many rows of the index name files that are gone; none where there is no index."""
        made = (self.home.path / "index" / f"{self.settings.agent}.db").exists()
        return self.searcher.survey().gone if made else 0

    def split(self, name: str | int, *, scope: str | Scope | None = None) -> runner.RunOutcome:
        """Take back the newest merge of a record: both statements stand again, each in its own record."""
        self._not_in_group("split a record")
        self._may_write()
        found = self._find(name, scope, only=True)
        with self._reported(f"split {found.record.key}"):
            return heals.split_last(self.records, found)

    def runs(self) -> Sequence[running.Brief]:
        """The runs that changed something in sight, newest first."""
        self._not_in_group("look at runs")
        return [] if self.settings.incognito else running.of(self.home, self.caller)

    def undo(self, run: str | None = None) -> tuple[str, Sequence[running.Told]]:
        """Bring back, byte for byte, what a run changed, the newest unless named; says what it could not."""
        self._not_in_group("undo a run")
        self._may_write()
        with self._reported("undo"):
            undone, told = running.undo(self.home, self.caller, run, now=self.now, announce=self._announce)
            notices.drop(self.home, undone)
            if all(each.done for each in told):
                decisions.drop_distinct(self.home, undone)
            return undone, told

    @property
    def _sweep_name(self) -> str:
        project = self.caller.project
        return f"sweep {project.id if project else '-'} {self.settings.agent}"

    def _sweepable(self, scope: str | Scope | None, *, unasked: bool = False) -> Sequence[Place]:
        """The places in sight, and sessions that are over: nobody else will ever tidy up after those."""
        wanted = self._scope(scope)
        sessions = wanted in (None, Scope.SESSION) and (unasked or self.caller.origin is Origin.USER)
        without = wanted is Scope.SESSION and sessions and not self.caller.session
        places = [] if without else [*self._places(scope, all=False)]
        if sessions:
            found = self.home.names("memory", str(Scope.SESSION))
            places += [Place(Scope.SESSION, name) for name in found if name[:1] != "."]
        return [*dict.fromkeys(places)]

    def _sweep_after(self, stored: Stored) -> Swept | None:
        """Tidy up when a scope has grown beyond its cap; below it this costs one look at a folder."""
        if stored.outcome is not Outcome.CREATED or not stored.path.startswith("memory/"):
            return None
        with contextlib.suppress(OSError):  # the text is kept, whatever becomes of this
            if len(self.home.names(*stored.path.split("/")[:-1])) > self.settings.decay.max_count:
                outcome = self.sweep_if_due()
                return None if outcome is None else self._moved_by(outcome)
        return None

    def _swept(self) -> Iterator[Finding]:
        """What memory tidied up by itself lately, or would have and left to a person."""
        if self.caller.audience is Audience.GROUP or not self.home.names("archive", "runs"):
            return
        newest = next((run for run in self.runs() if run.what == sweeping.BY_ITSELF), None)
        at = clock.parse(newest.at) if newest else None
        unseen = {each.run: each for each in self.notices()}
        recent = at is not None and abs((self.now() - at).days) < 7
        if newest and recent and not newest.undone and newest.run not in unseen:
            why = f"{newest.edits} files changed by a sweep on {newest.at[:10]}, as `sweep = auto` says"
            yield Finding("swept", f"archive/runs/{newest.run}.jsonl", why, f"vade undo {newest.run}", "info")
        for each in unseen.values():
            where = f"archive/runs/{each.run}.jsonl"
            yield Finding("swept", where, each.message, f"vade undo {each.run}")

    def _held(self) -> Iterator[Finding]:
        """That a sweep by itself would have put away much, and so did nothing."""
        if self.caller.audience is Audience.PRIVATE and self._state.moment(f"held {self._sweep_name}"):
            why = "a sweep by itself would put away much, and so did nothing"
            yield Finding("sweep", str(self.home.path), why, "vade sweep", "info")

    def write_listing(self, *, scope: str | Scope | None = None) -> Sequence[str]:
        """Write `index.md` beside the records of each place in sight."""
        self._may_write()
        written = []
        with self._reported("write index.md"):
            for place in self._places(scope, all=False):
                for shelf in scopes.shelves(self.home, self.caller, place):
                    records = [each.record for each in self.records.on(shelf) if isinstance(each, Found)]
                    if not records or not shelf.trusted:
                        continue
                    also = graph.see_also(records, rejected=graph.rejections(self.home))
                    path = listing.write(shelf, records, also)
                    if path:
                        written.append(path)
        return written
