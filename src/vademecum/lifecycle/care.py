"""Care: sweep, lint, heal, promote and compact memory, keep its index, and undo each run."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
from typing import TYPE_CHECKING, Any

from vademecum import config
from vademecum.errors import IndexFailed, NotFound, UsageError, VadeError
from vademecum.store import (
    Brief,
    EditResult,
    Found,
    decisions,
    files,
    hub_rules,
    people,
    request_view,
    scopes,
)
from vademecum.store.heard import HEARD, RUN
from vademecum.store.records import LABELS, LOST
from vademecum.text import clock, document, filenames
from vademecum.text.names import shown
from vademecum.types import Audience, Edited, Finding, Origin, Place, Scope, Swept

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from vademecum.index import Survey, SyncReport
    from vademecum.lifecycle import passes
    from vademecum.lifecycle.heard_list import HeardList
    from vademecum.lifecycle.promote import PromotionOutcome
    from vademecum.lifecycle.reword import Rewording
    from vademecum.lifecycle.rewrite import RewriteOutcome
    from vademecum.llm.base import Model
    from vademecum.search import Finder, Query, Searcher
    from vademecum.store import Arranged, PendingRequest, SecondCopy, Workspace
    from vademecum.types import Record


_UNWRITTEN = "free disk space or grant write access, and run it again; until then searches scan the files"


class Care:
    """The maintenance operations on a memory (index, sweep, lint, heal, undo and more), reached as
    `Memory.care`.
    """

    def __init__(self, workspace: Workspace, finder: Callable[[], Finder]) -> None:
        self._work = workspace
        self._find = finder  # made when it is needed: every command looks for notices

    @property
    def _finder(self) -> Finder:
        return self._find()

    def index(
        self,
        *,
        rebuild: bool = False,
        check: bool = False,
        read: Collection[str] = (),
        read_all: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> SyncReport:
        """Update the indexes of notes and sessions; `rebuild` makes them again, `check` compares contents.

        The reader model then reads curated records; `read` names further texts to read (`sources`,
        `sessions`), and `read_all` means both.
        """
        self._work.may_write()
        more = self._finder.to_read(read, everything=read_all)
        with self._work.reported("index"):
            report = self._finder.index(rebuild=rebuild, check=check, progress=progress)
            if not report.unwritten:
                self._finder.read(report, more=more, progress=progress)
            if report.unwritten:
                raise IndexFailed(f"nothing was indexed: {report.unwritten}", hint=_UNWRITTEN)
            self._fill_catalogue()
        return report

    def _language_model(self, model: str | Model | None) -> Model:
        """Return the model that a call passes or names, or else the model of the settings."""
        from vademecum.llm.providers import require_model

        settings = self._work.settings
        return require_model(model, settings.model, settings.llm)

    def _fill_catalogue(self) -> None:
        """Fill the catalogue (a cache of facts about each record), so that commands need not
        read every file.
        """
        from vademecum.knowledge import graph, trust
        from vademecum.lifecycle import passes

        records = self._work.records
        # What cannot be read now is told by whoever asks for it.
        with contextlib.suppress(OSError), request_view():
            for fact in (LABELS, LOST, trust.DOUBTS, graph.ENDS, passes.LISTED):
                for _ in records.known(scopes.visible(self._work.caller), fact):
                    pass

    def watch(self, stop: threading.Event) -> Iterator[tuple[str, SyncReport]]:
        """Sweep if a sweep is due, then keep the index up to date until `stop` is set.

        Yields each report with the change that caused it.
        """
        self._work.may_write()
        self.sweep_if_due()
        with self._work.reported("watch"):
            yield from self._finder.searcher.watch(stop)

    def sweep(
        self, *, apply: bool = False, scope: str | Scope | None = None, large: bool = False
    ) -> passes.RunOutcome:
        """Propose to archive old, expired, duplicate and surplus records; with `apply`, archive them.

        A run that would archive much is only proposed, unless `large` is set. `undo` restores the records. A
        run that is applied also deletes archived versions and audit files older than the settings allow;
        these cannot be restored.
        """
        from vademecum.lifecycle import passes
        from vademecum.lifecycle import sweep as sweeping

        self._work.not_in_group("tidy up")
        if apply:
            self._work.may_write()
        elif self._work.settings.incognito:
            return passes.RunOutcome(())
        with self._work.reported("sweep"):
            return sweeping.sweep_asked(
                self._work.records, self._sweepable(scope), self._work.settings, apply=apply, large=large
            )

    def sweep_if_due(self) -> passes.RunOutcome | None:
        """Run the automatic sweep of `sweep = auto` if it is due; return None when it is not.

        It archives old and surplus records, but nothing when it would archive too many.
        """
        from vademecum.lifecycle import passes
        from vademecum.lifecycle import sweep as sweeping

        due, now = self.due_for_sweep(), self._work.now()
        places = [each for each in due if hub_rules.may_care(self._work.home, each, now=now)]
        # Where another machine cares, or none could be asked, it stays due; the rest is done once a day.
        name = self._sweep_name if len(places) == len(due) else f"{self._sweep_name} here"
        if not places or not sweeping.is_due(self._work.state.moment(name), now=now):
            return None
        self._work.state.happened(name, now)
        try:
            with self._work.reported("sweep"):
                # The user's setting asks for this sweep, and not the present caller.
                records = self._work.records.for_caller(
                    self._work.caller._replace(approved=True, actor=sweeping.ACTOR)
                )
                outcome = sweeping.sweep_unasked(records, places, self._work.settings, self._work.state)
        except VadeError as error:  # nobody asked for it, so nobody's work ends with it
            return passes.RunOutcome((), findings=(Finding("sweep", str(self._work.home.path), str(error)),))
        self._work.state.happened(f"held {name}", self._work.now() if outcome.large else None)
        moved = self._moved_by(outcome)
        if moved is not None:
            with contextlib.suppress(OSError, VadeError):  # `status` tells of the run all the same
                decisions.keep_notice(self._work.home, moved)
        return outcome

    def due_for_sweep(self) -> list[Place]:
        """Return the places in which an automatic sweep is due."""
        from vademecum.lifecycle import sweep as sweeping

        private = self._work.caller.audience is Audience.PRIVATE
        wanted = self._work.settings.sweep is config.Sweeping.AUTO and not self._work.settings.incognito
        if not wanted or not private:
            return []
        if not sweeping.is_due(self._work.state.moment(self._sweep_name), now=self._work.now()):
            return []
        return [*self._sweepable(None, automatic=True)]

    def _moved_by(self, outcome: passes.RunOutcome) -> Swept | None:
        from vademecum.lifecycle import sweep as sweeping

        root = str(self._work.root or "")
        return sweeping.count_swept(outcome, at=self._work.stamp(), where=root)

    def notices(self) -> Sequence[Swept]:
        """Return the automatic sweeps that moved more than ten records and that no person has seen yet."""
        return self._work.notices()

    def saw_notices(self) -> None:
        """Delete the notices of automatic sweeps if the caller is a person and may write."""
        if self._work.caller.origin is Origin.USER and not self._work.readonly:
            with contextlib.suppress(OSError, VadeError):
                for each in self.notices():
                    decisions.drop_notice(self._work.home, each.run)

    @property
    def searcher(self) -> Searcher:
        """The searcher over this agent's index of notes."""
        return self._finder.searcher

    def share_index(self, other: Care) -> None:
        """Use the searcher of `other`, for the same memory, so that its index is loaded only once."""
        self._finder.searcher = other.searcher

    def survey(self) -> Survey:
        """Return a summary of the records and sessions that the indexes cover now."""
        return self._finder.survey()

    def lint(
        self,
        *,
        scope: str | Scope | None = None,
        seconds: float = 30.0,
        model: str | Model | bool | None = None,
    ) -> Sequence[Finding]:
        """Return the problems of visible memory: those that checks find, the worst first, then unread files.

        Checks that need more than `seconds` are reported as incomplete. Without a `scope`, problems of the
        settings follow. With `model` (True for the configured one), a model gives a second opinion on
        contradictions.
        """
        from vademecum.knowledge import graph
        from vademecum.lifecycle import lint as linting
        from vademecum.lifecycle.lint_rules import Stopwatch, read_material
        from vademecum.store import sources

        self._work.not_in_group("find problems")
        if self._work.settings.incognito:
            return []
        language_model = self._language_model(None if model is True else model) if model else None
        places = self._work.places(scope)
        watch = Stopwatch(seconds)
        with self._work.reported("find problems"):
            attached = sources.visible(self._work.home, self._work.caller)
            material = read_material(self._work.records, places, attached, root=self._work.root, watch=watch)
            gone = self._rows_gone() if scope is None else 0
            found = linting.run_lint(
                material,
                linting.LintContext(
                    documents=self._work.pinned(places)[0],
                    max_count=self._work.settings.decay.max_count,
                    uses=self._use_counts,
                    rejected=graph.rejections(self._work.home),
                    verified=lambda entry: decisions.verified(self._work.home, entry.text),
                    rows_gone=gone,
                    index_path=f"index/{self._work.settings.agent}.db",
                    model=language_model,
                    home=self._work.home,
                ),
            )
        hidden = self._work.hidden(places)
        return [*found, *hidden, *(self._work.settings_findings() if scope is None else ())]

    def heal(
        self, *, scope: str | Scope | None = None, apply: bool = False, aggressive: bool = False
    ) -> passes.RunOutcome:
        """Propose fixes for the problems that need no person; `apply` makes them.

        `undo` reverts the fixes of records, and no fix removes a text. With `aggressive`, usage counters that
        look artificially raised are reset.
        """
        from vademecum.lifecycle import heal as healing
        from vademecum.lifecycle import passes

        self._work.not_in_group("fix anything")
        if apply:
            self._work.may_write()
        elif self._work.settings.incognito:
            return passes.RunOutcome(())
        context = healing.HealContext(
            uses=self._use_counts,
            forget_uses=self._work.state.forget_uses,
            rows_gone=lambda: self._rows_gone() if scope is None else 0,
            sync=self.index,
            index_path=f"index/{self._work.settings.agent}.db",
            verified=lambda entry: decisions.verified(self._work.home, entry.text),
        )
        with self._work.reported("fix problems"):
            return healing.heal(
                self._work.records,
                self._work.places(scope),
                context,
                root=self._work.root,
                apply=apply,
                aggressive=aggressive,
            )

    def _use_counts(self, items: Sequence[str]) -> dict[str, int]:
        return {item: use.count for item, use in self._work.state.uses(items).items()}

    def _rows_gone(self) -> int:
        """Return how many rows of the search index belong to deleted files; 0 when there is no index."""
        made = (self._work.home.path / "index" / f"{self._work.settings.agent}.db").exists()
        return self._finder.searcher.survey().gone if made else 0

    def merge(
        self, name: str | int | None = None, *, scope: str | Scope | None = None, apply: bool = False
    ) -> passes.RunOutcome:
        """Propose to merge conflict copies that sync tools left, all or those of `name`; `apply` merges.

        Every entry of all versions stays, and each version goes to the archive; `undo` restores the files.
        """
        from vademecum.lifecycle import copies, passes

        self._work.not_in_group("merge copies")
        if apply:
            self._work.may_write()
        elif self._work.settings.incognito:
            return passes.RunOutcome(())
        with self._work.reported("merge"):
            every = self._work.copies(self._work.places(scope))
            found = every if name is None else self._copies_of(str(name), scope, every)
            return copies.merge_copies(self._work.records, found, apply=apply)

    def _copies_of(
        self, name: str, scope: str | Scope | None, found: Sequence[SecondCopy]
    ) -> Sequence[SecondCopy]:
        """Return the copies in `found` that a name means: that of a copy, its original or a record."""
        same = [
            each
            for each in found
            if name.lower() in (each.path.lower(), each.name.lower(), each.original.lower())
        ]
        if not same:
            record = self._work.find(name, scope).record
            same = [
                each for each in found if each.scope_folder.name_of(*each.below, each.original) == record.path
            ]
        return same

    def split(self, name: str | int, *, scope: str | Scope | None = None) -> passes.RunOutcome:
        """Undo the newest merge of a record: the older statement stays, the newer gets its own record."""
        from vademecum.lifecycle import heal as healing

        self._work.not_in_group("split a record")
        self._work.may_write()
        found = self._work.find(name, scope, only=True)
        with self._work.reported(f"split {found.record.key}"):
            return healing.split_last(self._work.records, found)

    def runs(self) -> Sequence[Brief]:
        """Return the runs that changed files the caller sees, the newest first.

        A private caller also gets reviews, and sessions in which statements were heard.
        """
        from vademecum.store import decisions
        from vademecum.store import runs as running

        self._work.not_in_group("look at runs")
        if self._work.settings.incognito:
            return []
        found = [*running.of(self._work.home, self._work.caller)]
        if self._work.caller.audience is Audience.PRIVATE:
            with self._work.reported("list the reviews"):
                found += [
                    Brief(each.id, each.what, each.at, len(each.done), each.undone)
                    for each in decisions.sittings(self._work.home)
                ]
                found += self._heard.sessions()
        return sorted(found, key=lambda each: (each.at, each.run), reverse=True)

    @functools.cached_property
    def _heard(self) -> HeardList:
        from vademecum.lifecycle.heard_list import HeardList

        return HeardList(self._work, self._find)

    def undo(
        self, run: str | None = None, *, progress: Callable[[str, int, int], None] | None = None
    ) -> tuple[str, Sequence[EditResult]]:
        """Revert a run, a review or what was heard in a session; return its name and the result of each edit.

        Without `run`, this is the newest run or review that is not undone yet.
        """
        from vademecum.store import decisions

        with self._work.reported("undo"):
            sittings = {each.id: each for each in decisions.sittings(self._work.home)}
        if run is None and sittings:
            # What a review did by runs is taken back with the review.
            inside = {line.get("run") for each in sittings.values() for line in each.done}
            run = next(
                (
                    each.run
                    for each in self.runs()
                    if not (each.undone or each.tried or each.what == HEARD) and each.run not in inside
                ),
                None,
            )
        if run is not None and run.startswith(RUN):
            with self._work.reported("undo"):
                return run, [EditResult(run, True)] * self._heard.take_back(run)
        if run not in sittings:
            return self._undo_run(run, progress)
        self._work.may_write()
        sitting = sittings[run]
        # A join of folders needs no terminal, and so its undo needs none either.
        allowed = self._work.may_decide if sitting.what == decisions.REVIEW else self._work.only_a_person
        allowed("undo a decision", f"vade undo {run}")
        if sitting.undone:
            return run, []
        with self._work.reported("undo"):
            results = [results for line in reversed(sitting.done) for results in self._revert_decision(line)]
            decisions.put_sitting(self._work.home, sitting._replace(undone=True))
            self._work.audit(f"undo {sitting.what}")
        return run, results

    def _undo_run(
        self, run: str | None = None, progress: Callable[[str, int, int], None] | None = None
    ) -> tuple[str, Sequence[EditResult]]:
        """Revert the edits of a run (by default the newest); return the run's name and the results.

        A file that changed since the run stays as it is, and its result says so.
        """
        from vademecum.store import runs as running

        self._work.not_in_group("undo a run")
        self._work.may_write()
        with self._work.reported("undo"):
            undone, results = running.undo(
                self._work.home,
                self._work.caller,
                run,
                now=self._work.now,
                announce=self._work.announce,
                progress=progress,
            )
            decisions.drop_notice(self._work.home, undone)
            if all(each.done for each in results):
                decisions.drop_distinct(self._work.home, undone)
            return undone, results

    def _revert_decision(self, line: dict[str, Any]) -> Iterator[EditResult]:
        """Revert one decision of a review, given as its log line, and yield the results."""
        from vademecum.store import Projects, decisions, pending_writes

        what, path = str(line.get("what")), str(line.get("path") or "")
        if what == "declined":
            undone = decisions.undecline(self._work.home, str(line["id"]))
            if line.get("statement"):
                self._heard.reopen(str(line["statement"]))
            yield EditResult(path, undone, "" if undone else "it was already undone")
        elif what == "verified":
            yield self._unverify(line, path)
        elif what == "trusted":
            Projects(self._work).trust(on=False)
            yield EditResult(path, True)
        elif what == "rejected":
            pending_writes.put_back(self._work.home, str(line["request"]).encode())
            yield EditResult(path, True)
        elif what == "noticed":
            decisions.keep_sync_notice(self._work.home, decisions.SyncNotice(**line["notice"]))
            yield EditResult(path, True)
        elif what == "joined":
            yield self._separate(line, path)
        elif what == "held":
            yield EditResult(path, *self._hold_again(line, path))
        elif what == "run":
            try:
                yield from self._undo_run(str(line["run"]))[1]
            except NotFound as error:
                yield EditResult(path, False, str(error))
        else:
            yield EditResult(path, False, f"undo it with `{line.get('back')}`")

    def _separate(self, line: dict[str, Any], path: str) -> EditResult:
        """Separate a folder's memory from the project it was joined to, and save that they stay separate."""
        id, project = str(line["id"]), str(line["project"])
        done = scopes.drop_alias(self._work.home, id, project)
        if done:
            decisions.decline(
                self._work.home,
                decisions.mark_of("joined", id, project),
                kind="joined",
                at=self._work.stamp(),
                by=self._work.caller.actor,
            )
        return EditResult(path, done, "" if done else "it was changed since then")

    def _hold_again(self, line: dict[str, Any], path: str) -> tuple[bool, str]:
        """Put a text from a sync back into review, and archive the record that the review made of the text.

        Returns whether that was done, and if not, why.
        """
        found = self._record_at(path) if line.get("saved") else None
        if found is not None and len(found.record.entries) > 1:
            return False, "it was changed since then"
        if not decisions.reopen_held(self._work.home, str(line["workspace"]), str(line["id"])):
            return False, "it was deleted permanently"
        if found is not None:
            self._work.records.forget(found)
        return True, ""

    def _unverify(self, line: dict[str, Any], path: str) -> EditResult:

        dropped = decisions.unverify_name(self._work.home, str(line["text"]))
        found = self._record_at(path)
        if found is not None and found.scope_folder.trusted and found.record.fields.get("verified"):
            self._work.records.change_fields(found, {"verified": None}, operation="verify")
        self._work.audit("unverify", scope=None if found is None else found.record.place.scope)
        return EditResult(path, dropped, "" if dropped else "it was already undone")

    def _record_at(self, path: str) -> Found | None:
        """Return the record in the file at a path; None when that file is not a record."""
        try:
            found = self._work.find(path.rpartition("/")[2].removesuffix(".md"), None)
        except VadeError:
            return None
        return found if found.record.path == path else None

    def compact(
        self,
        name: str | int | None = None,
        *,
        scope: str | Scope | None = None,
        model: str | Model | None = None,
        apply: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> RewriteOutcome:
        """Let a language model plan articles that merge the entries of each record, or of the record `name`.

        The program fills an article with the entries' own words. `apply` appends it to the record and marks
        the merged entries superseded. A protected record is skipped unless it is named.
        """
        from vademecum.lifecycle import passes
        from vademecum.lifecycle import rewrite as rewriting

        self._work.not_in_group("tidy up")
        chosen = self._language_model(model)
        if apply:
            self._work.may_write()
        elif self._work.settings.incognito:
            return rewriting.RewriteOutcome(passes.RunOutcome(()))
        record = None if name is None else self._work.find(name, scope, only=True).record
        places = self._work.places(scope) if record is None else [record.place]
        with self._work.reported("compact"):
            return rewriting.rewrite_places(
                self._work.records,
                places,
                chosen,
                path=None if record is None else record.path,
                apply=apply,
                progress=progress,
            )

    def reword(
        self, name: str | int, *, scope: str | Scope | None = None, model: str | Model | None = None
    ) -> Rewording:
        """Return a model's rewording of a record, statement by statement; the record is not changed.

        `accept_rewording` writes the rows that a person accepts; `leave_rewording` saves the rewording for
        review.
        """
        from vademecum.lifecycle import passes, reword, rewrite

        self._work.not_in_group("tidy up")
        found = self._work.find(name, scope, only=True)
        chosen = self._language_model(model)
        with self._work.reported("reword"):
            content = found.scope_folder.read(filenames.RECORDS, found.name) or b""
            record = self._work.records.parse(found.scope_folder, found.name, content)
            seen = passes.RecordFile(record, found.scope_folder, found.name, content)
            made = reword.suggest_rewording(seen, chosen, largest=self._work.settings.limits.content_bytes)
            if made.refused is not None and made.refused.asked and not self._work.readonly:
                rewrite.audit_refusal(self._work.records, seen, reword.NAME, strict=False)
        return made

    def accept_rewording(
        self, rewording: Rewording, rows: Collection[int] | None = None
    ) -> passes.RunOutcome:
        """Write the accepted rows of a rewording (numbers from 0; None for all rows); other
        statements stay.
        """
        from vademecum.lifecycle import passes, reword

        self._work.may_write()
        self._work.may_decide(
            "accept a rewording", f"vade tidy --only compact --reword --key {rewording.seen.record.key}"
        )
        with self._work.reported("reword"):
            accepted = rewording.open if rows is None else rows
            proposal = reword.accept_rows(rewording, accepted, now=self._work.now())
            run, results = passes.apply_proposals(self._work.records, [proposal], what=reword.NAME)
            return passes.RunOutcome((proposal,), run=run, results=results)

    def leave_rewording(self, rewording: Rewording) -> PendingRequest:
        """Save a rewording as a request that waits for a person in `vade review`."""
        from vademecum.lifecycle import reword

        self._work.may_write()
        record = rewording.seen.record
        arguments = {
            "name": record.key,
            "diff": reword.show_rows(rewording.rows),
            "texts": {str(origin): text for origin, text in rewording.texts.items()},
            "model": rewording.model,
        }
        seen = files.digest(rewording.seen.content)
        return self._work.wait_for_a_person(reword.NAME, arguments, scope=record.place.scope, seen=seen)

    def promote(
        self,
        *,
        scope: str | Scope | None = None,
        apply: bool = False,
        only: Collection[str] | None = None,
    ) -> PromotionOutcome:
        """Propose records for statements that journals repeat or that sessions look up; `apply` saves them.

        Each statement becomes a record, or a line of `MEMORY.md`, that cites the lines it came from; `undo`
        reverts a run. With `only`, just the statements with exactly these texts.
        """
        from vademecum.lifecycle import passes
        from vademecum.lifecycle import promote as promoting

        self._work.not_in_group("read a journal")
        if apply:
            self._work.may_write()
        elif self._work.settings.incognito:
            return promoting.PromotionOutcome(passes.RunOutcome(()))
        if scope is None:
            visible = scopes.visible(self._work.caller)
            places = [place for place in visible if place.scope in scopes.WITH_JOURNAL]
        else:
            places = [scopes.journal_place(self._work.caller, scopes.parse_scope(scope))]
        with self._work.reported("promote"):
            return promoting.promote_places(
                self._work.records,
                self._work.journal,
                self._work.documents,
                self._finder.newest_logs(promoting.SESSIONS),
                places=places,
                visible=scopes.visible(self._work.caller),
                threshold=self._work.settings.dedup.threshold,
                apply=apply,
                only=only,
            )

    def editable(self, name: str, *, scope: str | Scope | None = None) -> tuple[str, str]:
        """Return the path and the text of a record or pinned document, to be opened in an editor."""

        self._work.may_write()
        with self._work.reported(f"read {name}"):
            if name.lower().endswith(".md"):
                scope_folder, file, content = self._work.documents.find(name, scope=self._work.scope(scope))
                return scope_folder.name_of(file), "" if content is None else document.decode(content)
            found = self._work.mendable(name, scope)
            content = found.scope_folder.read(filenames.RECORDS, found.name)
            return found.record.path, document.decode(content or b"")

    def edited(self, name: str, before: str, after: str, *, scope: str | Scope | None = None) -> Edited:
        """Save the text `after`, an edit of the text `before`.

        Unless the caller is a person who decides, fields such as `protected` keep the values of `before`.
        """
        from vademecum.text import document

        self._work.may_write()
        largest = self._work.settings.limits.content_bytes
        with self._work.reported(f"write {name}"):
            if name.lower().endswith(".md"):
                scope_folder, file, _ = self._work.documents.find(name, scope=self._work.scope(scope))
                cleaned, secret = self._work.gate(
                    document.check_document(after, largest=largest), scope_folder.place.scope
                )
                self._work.documents.write(
                    scope_folder, file, cleaned, seen=before.encode() if before else None
                )
                return Edited(secret)
            found = self._work.mendable(name, scope)
            whole = document.check_document(after, largest=files.LARGEST)
            cleaned, secret = self._work.gate(whole, found.scope_folder.place.scope)
            cleaned, dropped = people.without_claims(self._work.caller, before.encode(), cleaned)
            record = self._work.records.parse(found.scope_folder, found.name, cleaned.encode())
            if found.scope_folder.trusted:  # one that is not cannot be edited at all, which is told first
                document.check_record(before, record, largest=largest)
            self._work.records.replace_text(found, before.encode(), cleaned, operation="edit")
            return Edited(secret, dropped)

    def select(
        self, names: Sequence[str | int] = (), *, match: str | None = None, scope: str | Scope | None = None
    ) -> Sequence[Record]:
        """Return the records with these names, and those that match a filter: `tag:old before:2026-01`."""
        return [each.record for each in self._selected(names, match, scope)]

    def tag(
        self,
        names: Sequence[str | int] = (),
        *,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
        match: str | None = None,
        scope: str | Scope | None = None,
    ) -> Arranged:
        """Add and remove tags of the records that `select` finds, in one run, which `undo` reverts."""
        from vademecum.store import arrange

        self._work.may_write()
        chosen = self._selected(names, match, scope)
        with self._work.reported("change tags"):
            return arrange.tag(self._work, chosen, add=add, remove=remove)

    def rename(self, name: str | int, new: str, *, scope: str | Scope | None = None) -> Arranged:
        """Give a record another key in one run; the earlier key continues to find the record."""
        from vademecum.store import arrange

        self._work.may_write()
        found = self._work.find(name, scope, only=True)
        with self._work.reported(f"rename {found.record.key}"):
            return arrange.rename(self._work, found, new)

    def move(
        self,
        names: Sequence[str | int] = (),
        *,
        to: str | Scope,
        match: str | None = None,
        scope: str | Scope | None = None,
    ) -> Arranged:
        """Move the records that `select` finds to another scope in one run, which `undo` reverts."""
        from vademecum.store import arrange

        self._work.may_write()
        chosen = self._selected(names, match, scope)
        with self._work.reported(f"move to {to}"):
            return arrange.move(self._work, chosen, scopes.parse_scope(to))

    def _selected(
        self, names: Sequence[str | int], match: str | None, scope: str | Scope | None
    ) -> list[Found]:
        with self._work.reported("read the memory"):
            return select(self._work, map(str, names), match=match, scope=self._work.scope(scope))

    @property
    def _sweep_name(self) -> str:
        project = self._work.caller.project
        return f"sweep {project.id if project else '-'} {self._work.settings.agent}"

    def _sweepable(self, scope: str | Scope | None, *, automatic: bool = False) -> Sequence[Place]:
        """Return the places to sweep: those of a scope, or all that are visible.

        All sessions are added for a person and for an `automatic` sweep, unless a scope other than session is
        wanted.
        """
        wanted = self._work.scope(scope)
        sessions = wanted in (None, Scope.SESSION) and (automatic or self._work.caller.origin is Origin.USER)
        without = wanted is Scope.SESSION and sessions and not self._work.caller.session
        places = [] if without else [*self._work.places(scope)]
        if sessions:
            found = self._work.home.names("memory", str(Scope.SESSION))
            places += [Place(Scope.SESSION, name) for name in found if name[:1] != "."]
        return [*dict.fromkeys(places)]

    def moved_if_due(self) -> Swept | None:
        """Run an automatic sweep if one is due, and return a report of the records moved, or None."""
        outcome = self.sweep_if_due()
        return None if outcome is None else self._moved_by(outcome)

    def swept(self) -> Iterator[Finding]:
        """Yield findings about the newest automatic sweep, if it ran last week, and about unseen sweeps."""
        from vademecum.store import runs as running

        if self._work.caller.audience is Audience.GROUP or not self._work.home.names("archive", "runs"):
            return
        newest = next((run for run in self.runs() if run.what == running.BY_ITSELF), None)
        at = clock.parse(newest.at) if newest else None
        unseen = {each.run: each for each in self.notices()}
        recent = at is not None and abs((self._work.now() - at).days) < 7
        if newest and recent and not newest.undone and newest.run not in unseen:
            why = f"{newest.edits} files changed by a sweep on {newest.at[:10]}, because of `sweep = auto`"
            yield Finding("swept", f"archive/runs/{newest.run}.jsonl", why, f"vade undo {newest.run}", "info")
        for each in unseen.values():
            where = f"archive/runs/{each.run}.jsonl"
            yield Finding("swept", where, each.message, f"vade undo {each.run}")

    def held(self) -> Iterator[Finding]:
        """Yield a finding if the last automatic sweep did nothing because it would have archived too many
        records.
        """
        if self._work.caller.audience is Audience.PRIVATE and self._work.state.moment(
            f"held {self._sweep_name}"
        ):
            why = "the automatic sweep would archive many records, so it did nothing"
            yield Finding("sweep", str(self._work.home.path), why, "vade tidy --only sweep", "info")

    def write_listing(self, *, scope: str | Scope | None = None) -> Sequence[str]:
        """Write the listing `index.md` into each trusted folder with records, and return the paths."""
        from vademecum.knowledge import graph
        from vademecum.store import listing

        self._work.may_write()
        written = []
        with self._work.reported("write index.md"):
            for place in self._work.places(scope):
                for scope_folder in scopes.scope_folders(self._work.home, self._work.caller, place):
                    records = [
                        each.record for each in self._work.records.on(scope_folder) if isinstance(each, Found)
                    ]
                    if not records or not scope_folder.trusted:
                        continue
                    also = graph.see_also(records, rejected=graph.rejections(self._work.home))
                    path = listing.write_listing(scope_folder, records, also)
                    if path:
                        written.append(path)
        return written


_WORDS = "scope:, type:, tag:, after:, before:, path:, and * or ? in a key"


def select(work: Workspace, wanted: Iterable[str], *, match: str | None, scope: Scope | None) -> list[Found]:
    """Return the records with these names, and those that match a filter such as `tag:old deploy-*`."""
    chosen = [work.find(name, scope, only=True) for name in wanted]
    if match is not None:
        query = _filter(match)
        places = work.places(query.scope or scope)
        every = (each for each in work.everything(places) if not isinstance(each, Finding))
        chosen += [each for each in every if each.scope_folder.trusted and _fits(each.record, query)]
    return [*{(each.scope_folder, each.name): each for each in chosen}.values()]


def _filter(match: str) -> Query:
    """Parse a record filter; raise an error when it is invalid or would match every record."""
    from vademecum.search import Query, base

    query = base.parse(match)
    keys = query.text.split()
    if not keys and query == Query(""):
        raise UsageError(f"the filter {shown(match)} matches everything", hint=f"use {_WORDS}")
    wrong = [*query.notes, *(f"{shown(key)} is not a filter" for key in keys if not set("*?[") & set(key))]
    if wrong:
        raise UsageError(wrong[0], hint=f"use {_WORDS}")
    return query


def _fits(record: Record, query: Query) -> bool:
    changed = record.updated or record.created or ""
    keys = query.text.split()
    wanted = (
        query.type in (None, record.type),
        {*query.tags} <= {*record.tags},
        (query.after or "") <= changed,
        query.before is None or changed < query.before,
        (query.path or "") in record.path,
        not keys or any(fnmatch.fnmatchcase(record.key, key) for key in keys),
    )
    return all(wanted)
