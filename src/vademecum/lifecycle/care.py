"""Care: what is old, duplicate, wrong or surplus, the index, and the way back from each run."""

from __future__ import annotations

import contextlib
import fnmatch
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vademecum import config
from vademecum.errors import IndexFailed, NotFound, UsageError, VadeError
from vademecum.store import Found, archive, decisions, document, files, hub_rules, scopes
from vademecum.store.records import LABELS, LOST
from vademecum.text import clock
from vademecum.text.names import shown
from vademecum.types import Audience, Finding, Origin, Place, Scope, Swept

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from vademecum.index.sync import Survey, SyncReport
    from vademecum.knowledge.finder import Finder
    from vademecum.lifecycle import passes
    from vademecum.lifecycle.promote import Promoted
    from vademecum.lifecycle.reword import Rewording
    from vademecum.lifecycle.rewrite import Rewritten
    from vademecum.llm.base import Model
    from vademecum.search.base import Query
    from vademecum.search.searcher import Searcher
    from vademecum.store import SecondCopy, Workspace
    from vademecum.store import runs as running
    from vademecum.store.arrange import Arranged
    from vademecum.store.requests import Waiting
    from vademecum.types import Record


REVIEW = "review"  # what a sitting is called among the runs
_UNWRITTEN = "free disk space or grant write access, and run it again; until then searches scan the files"


class Care:
    """What keeps memory in order: sweep, lint, heal, promote, compact, index, and the way back from each."""

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
        """Bring the index of notes and that of sessions up to date, or make or compare them anew.

        Then what is curated is read, for questions in other words; `read` names what else, of `sources` and
        `sessions`, and `read_all` means both.
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

    def read_when_idle(self, idle: Callable[[], bool], stop: threading.Event) -> None:
        """Have what is curated read in the background while `idle` says so, until told to stop."""
        from vademecum.search.reading import read_in_background

        if not self._work.settings.incognito:
            read_in_background(lambda most: self._finder.searcher.read(most=most), idle, stop)

    def _fill_catalogue(self) -> None:
        """Have ready what commands ask of every record, so that none of them has to read all."""
        from vademecum.knowledge import graph, trust
        from vademecum.lifecycle import passes

        records = self._work.records
        # What cannot be read now is told by whoever asks for it.
        with contextlib.suppress(OSError), records.catalogue.one_look():
            for fact in (LABELS, LOST, trust.DOUBTS, graph.ENDS, passes.LISTED):
                for _ in records.known(scopes.visible(self._work.caller), fact):
                    pass

    def watch(self, stop: threading.Event) -> Iterator[tuple[str, SyncReport]]:
        """Keep the index up to date until told to stop, giving each report and what it was made for."""
        self._work.may_write()
        self.sweep_if_due()
        with self._work.reported("watch"):
            yield from self._finder.searcher.watch(stop)

    def sweep(
        self, *, apply: bool = False, scope: str | Scope | None = None, large: bool = False
    ) -> passes.RunOutcome:
        """What is old, expired, said twice or too much, and with `apply` put it away; `undo` brings it back.

        A run that would put away much is only told, unless `large` says that this is meant.
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
        """Put away what is old or too much, once a day, when `sweep = auto`; None when it is not due."""
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
                # Nobody asked for it but the user's own setting, whoever happens to be at work here.
                records = replace(self._work.records, caller=self._work.caller._replace(approved=True))
                outcome = sweeping.sweep_unasked(records, places, self._work.settings)
        except VadeError as error:  # nobody asked for it, so nobody's work ends with it
            return passes.RunOutcome((), findings=(Finding("sweep", str(self._work.home.path), str(error)),))
        self._work.state.happened(f"held {name}", self._work.now() if outcome.large else None)
        moved = self._moved_by(outcome)
        if moved is not None:
            with contextlib.suppress(OSError, VadeError):  # `status` tells of the run all the same
                decisions.keep_notice(self._work.home, moved)
        return outcome

    def due_for_sweep(self) -> list[Place]:
        """The places in which a sweep that nobody asks for is due; none when it is not, or not wanted."""
        from vademecum.lifecycle import sweep as sweeping

        private = self._work.caller.audience is Audience.PRIVATE
        wanted = self._work.settings.sweep is config.Sweeping.AUTO and not self._work.settings.incognito
        if not wanted or not private:
            return []
        if not sweeping.is_due(self._work.state.moment(self._sweep_name), now=self._work.now()):
            return []
        return [*self._sweepable(None, unasked=True)]

    def _moved_by(self, outcome: passes.RunOutcome) -> Swept | None:
        from vademecum.lifecycle import sweep as sweeping

        root = str(self._work.root or "")
        return sweeping.count_swept(outcome, at=self._work.stamp(), where=root)

    def notices(self) -> Sequence[Swept]:
        """What memory moved by itself, more than ten records at once, and no person has seen yet."""
        if self._work.settings.incognito or self._work.caller.audience is Audience.GROUP:
            return []
        return decisions.unseen_notices(self._work.home)

    def saw_notices(self) -> None:
        """Note that a person has seen them; what an agent was told is still to be told to one."""
        if self._work.caller.origin is Origin.USER and not self._work.readonly:
            with contextlib.suppress(OSError, VadeError):
                for each in self.notices():
                    decisions.drop_notice(self._work.home, each.run)

    @property
    def searcher(self) -> Searcher:
        """The index of this agent's notes and what answers from it."""
        return self._finder.searcher

    def share_index(self, other: Care) -> None:
        """Answer from the index of the same memory as another caller has it: to have one loaded is enough."""
        self._finder.searcher = other.searcher

    def survey(self) -> Survey:
        """What the indexes cover now."""
        return self._finder.survey()

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
        from vademecum.knowledge import graph
        from vademecum.lifecycle import lint as linting
        from vademecum.lifecycle.lint_rules import Stopwatch, read_material
        from vademecum.store import sources

        self._work.not_in_group("find problems")
        if self._work.settings.incognito:
            return []
        asked = self._work.language_model(None if model is True else model) if model else None
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
                    model=asked,
                    home=self._work.home,
                ),
            )
        hidden = self._work.hidden(places)
        return [*found, *hidden, *(self._work.settings_findings() if scope is None else ())]

    def heal(
        self, *, scope: str | Scope | None = None, apply: bool = False, aggressive: bool = False
    ) -> passes.RunOutcome:
        """What lint finds and takes no person to mend, and with `apply` mend it; `undo` brings it back.

        Removes no text. With `aggressive`, counters that look driven up begin anew.
        """
        from vademecum.lifecycle import heal as healing
        from vademecum.lifecycle import passes

        self._work.not_in_group("fix anything")
        if apply:
            self._work.may_write()
        elif self._work.settings.incognito:
            return passes.RunOutcome(())
        around = healing.HealContext(
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
                around,
                root=self._work.root,
                apply=apply,
                aggressive=aggressive,
            )

    def _use_counts(self, items: Sequence[str]) -> dict[str, int]:
        return {item: use.count for item, use in self._work.state.uses(items).items()}

    def _rows_gone(self) -> int:
        """How many rows of the index name files that are gone; none where there is no index."""
        made = (self._work.home.path / "index" / f"{self._work.settings.agent}.db").exists()
        return self._finder.searcher.survey().gone if made else 0

    def merge(
        self, name: str | int | None = None, *, scope: str | Scope | None = None, apply: bool = False
    ) -> passes.RunOutcome:
        """What merging conflict copies of sync tools would bring, all or of one record; `apply` merges.

        Every entry of all versions stays, and each version goes to the archive; `undo` brings them back.
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
        """Those that are meant by the name of a file, of its copy or of a record."""
        same = [
            each
            for each in found
            if name.lower() in (each.path.lower(), each.name.lower(), each.original.lower())
        ]
        if not same:
            record = self._work.find(name, scope).record
            same = [each for each in found if each.shelf.name_of(*each.below, each.original) == record.path]
        return same

    def split(self, name: str | int, *, scope: str | Scope | None = None) -> passes.RunOutcome:
        """Take back the newest merge of a record: both statements stand again, each in its own record."""
        from vademecum.lifecycle import heal as healing

        self._work.not_in_group("split a record")
        self._work.may_write()
        found = self._work.find(name, scope, only=True)
        with self._work.reported(f"split {found.record.key}"):
            return healing.split_last(self._work.records, found)

    def runs(self) -> Sequence[running.Brief]:
        """The runs and reviews that changed something in sight, newest first."""
        from vademecum.store import decisions
        from vademecum.store import runs as running

        self._work.not_in_group("look at runs")
        if self._work.settings.incognito:
            return []
        found = [*running.of(self._work.home, self._work.caller)]
        if self._work.caller.audience is Audience.PRIVATE:
            with self._work.reported("list the reviews"):
                found += [
                    running.Brief(each.id, REVIEW, each.at, len(each.done), each.undone)
                    for each in decisions.sittings(self._work.home)
                ]
        return sorted(found, key=lambda each: each.run, reverse=True)

    def undo(
        self, run: str | None = None, *, progress: Callable[[str, int, int], None] | None = None
    ) -> tuple[str, Sequence[running.Told]]:
        """Bring back what a run or a review changed, the newest unless named; says what it could not."""
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
                    if not each.undone and not each.tried and each.run not in inside
                ),
                None,
            )
        if run not in sittings:
            return self._undone(run, progress)
        self._work.may_write()
        self._work.may_decide("undo a decision", f"vade undo {run}")
        sitting = sittings[run]
        if sitting.undone:
            return run, []
        with self._work.reported("undo"):
            told = [told for line in reversed(sitting.done) for told in self._taken_back(line)]
            decisions.put_sitting(self._work.home, sitting._replace(undone=True))
            self._work.audit("undo review")
        return run, told

    def _undone(
        self, run: str | None = None, progress: Callable[[str, int, int], None] | None = None
    ) -> tuple[str, Sequence[running.Told]]:
        """Bring back, byte for byte, what a run changed, the newest unless named."""
        from vademecum.store import runs as running

        self._work.not_in_group("undo a run")
        self._work.may_write()
        with self._work.reported("undo"):
            undone, told = running.undo(
                self._work.home,
                self._work.caller,
                run,
                now=self._work.now,
                announce=self._work.announce,
                progress=progress,
            )
            decisions.drop_notice(self._work.home, undone)
            if all(each.done for each in told):
                decisions.drop_distinct(self._work.home, undone)
            return undone, told

    def _taken_back(self, line: dict[str, Any]) -> Iterator[running.Told]:
        """Take one decision back."""
        from vademecum.store import decisions, requests
        from vademecum.store import runs as running
        from vademecum.store.projects import Projects

        what, path = str(line.get("what")), str(line.get("path") or "")
        if what == "declined":
            yield running.Told(
                path, decisions.undecline(self._work.home, str(line["id"])), "it was already undone"
            )
        elif what == "verified":
            yield self._unverified_again(line, path)
        elif what == "trusted":
            Projects(self._work).trust(on=False)
            yield running.Told(path, True)
        elif what == "rejected":
            requests.put_back(self._work.home, str(line["request"]).encode())
            yield running.Told(path, True)
        elif what == "noticed":
            decisions.keep_sync_notice(self._work.home, decisions.SyncNotice(**line["notice"]))
            yield running.Told(path, True)
        elif what == "held":
            yield running.Told(path, *self._held_again(line, path))
        elif what == "run":
            try:
                yield from self._undone(str(line["run"]))[1]
            except NotFound as error:
                yield running.Told(path, False, str(error))
        else:
            yield running.Told(path, False, f"undo it with `{line.get('back')}`")

    def _held_again(self, line: dict[str, Any], path: str) -> tuple[bool, str]:
        """Have a text wait again that a sync holds; what it was saved as goes to the archive."""
        found = self._record_at(path) if line.get("saved") else None
        if found is not None and len(found.record.entries) > 1:
            return False, "it was changed since then"
        if not decisions.reopen_held(self._work.home, str(line["workspace"]), str(line["id"])):
            return False, "it was deleted permanently"
        if found is not None:
            self._work.records.forget(found)
        return True, ""

    def _unverified_again(self, line: dict[str, Any], path: str) -> running.Told:
        from vademecum.store import runs as running

        dropped = decisions.unverify_name(self._work.home, str(line["text"]))
        found = self._record_at(path)
        if found is not None and found.shelf.trusted and found.record.fields.get("verified"):
            self._work.records.change_fields(found, {"verified": None}, operation="verify")
        self._work.audit("unverify", scope=None if found is None else found.record.place.scope)
        return running.Told(path, dropped, "" if dropped else "it was already undone")

    def _record_at(self, path: str) -> Found | None:
        """The record in the file at a path; None when that is none."""
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
    ) -> Rewritten:
        """What a language model makes of topics with several entries, or of the one named.

        What it writes is held against the entries without a model; with `apply` it is appended and the
        entries it covers are marked superseded. A protected record is left alone unless it is named.
        """
        from vademecum.lifecycle import passes
        from vademecum.lifecycle import rewrite as rewriting

        self._work.not_in_group("tidy up")
        chosen = self._work.language_model(model)
        if apply:
            self._work.may_write()
        elif self._work.settings.incognito:
            return rewriting.Rewritten(passes.RunOutcome(()))
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
        """Other words that a model suggests for a record, statement by statement; nothing is written.

        `accept_rewording` writes what a person accepts of it; `leave_rewording` lets it wait for one.
        """
        from vademecum.lifecycle import passes, reword, rewrite
        from vademecum.store import reading

        self._work.not_in_group("tidy up")
        found = self._work.find(name, scope, only=True)
        chosen = self._work.language_model(model)
        with self._work.reported("reword"):
            content = reading.from_shelf(found.shelf, archive.RECORDS, found.name) or b""
            record = self._work.records.parse(found.shelf, found.name, content)
            seen = passes.SeenRecord(record, found.shelf, found.name, content)
            made = reword.suggest_rewording(seen, chosen, largest=self._work.settings.limits.content_bytes)
            if made.refused is not None and made.refused.asked and not self._work.readonly:
                rewrite.audit_refusal(self._work.records, seen, reword.NAME, strict=False)
        return made

    def accept_rewording(
        self, rewording: Rewording, rows: Collection[int] | None = None
    ) -> passes.RunOutcome:
        """Write what a person accepts of a rewording: these rows, from 0, or all; the rest stays as it is."""
        from vademecum.lifecycle import passes, reword

        self._work.may_write()
        self._work.may_decide(
            "accept a rewording", f"vade compact --reword --key {rewording.seen.record.key}"
        )
        with self._work.reported("reword"):
            accepted = rewording.open if rows is None else rows
            proposal = reword.accept_rows(rewording, accepted, now=self._work.now())
            run, told = passes.apply_proposals(self._work.records, [proposal], what=reword.NAME)
            return passes.RunOutcome((proposal,), run=run, told=told)

    def leave_rewording(self, rewording: Rewording) -> Waiting:
        """Let a rewording wait in `vade review` until a person has looked at it."""
        from vademecum.lifecycle import reword

        self._work.may_write()
        record = rewording.seen.record
        asked = {
            "name": record.key,
            "diff": reword.show_rows(rewording.rows),
            "texts": {str(origin): text for origin, text in rewording.texts.items()},
            "model": rewording.model,
        }
        seen = files.digest(rewording.seen.content)
        return self._work.wait_for_a_person(reword.NAME, asked, scope=record.place.scope, seen=seen)

    def promote(
        self,
        *,
        scope: str | Scope | None = None,
        apply: bool = False,
        only: Collection[str] | None = None,
    ) -> Promoted:
        """What journals repeat, or sessions recalled repeatedly; with `apply` it becomes curated memory.

        Each is a record, or a line of `MEMORY.md`, with the lines it came from; `undo` takes a run back. With
        `only`, what says exactly these texts.
        """
        from vademecum.lifecycle import passes
        from vademecum.lifecycle import promote as promoting

        self._work.not_in_group("read a journal")
        if apply:
            self._work.may_write()
        elif self._work.settings.incognito:
            return promoting.Promoted(passes.RunOutcome(()))
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
        """The path and text of a record or pinned document, for an editor."""
        from vademecum.store import reading

        self._work.may_write()
        with self._work.reported(f"read {name}"):
            if name.lower().endswith(".md"):
                shelf, file, content = self._work.documents.find(name, scope=self._work.scope(scope))
                return shelf.name_of(file), "" if content is None else document.decode(content)
            found = self._work.mendable(name, scope)
            content = reading.from_shelf(found.shelf, archive.RECORDS, found.name)
            return found.record.path, document.decode(content or b"")

    def edited(
        self, name: str, before: str, after: str, *, scope: str | Scope | None = None
    ) -> tuple[str, ...]:
        """Put an edited text in place of the one that was handed out; returns the kinds of secrets in it."""
        from vademecum.store import document

        self._work.may_write()
        largest = self._work.settings.limits.content_bytes
        with self._work.reported(f"write {name}"):
            if name.lower().endswith(".md"):
                shelf, file, _ = self._work.documents.find(name, scope=self._work.scope(scope))
                kept, secret = self._work.gate(
                    document.check_document(after, largest=largest), shelf.place.scope
                )
                self._work.documents.write(shelf, file, kept, seen=before.encode() if before else None)
                return secret
            found = self._work.mendable(name, scope)
            whole = document.check_document(after, largest=files.LARGEST)
            kept, secret = self._work.gate(whole, found.shelf.place.scope)
            record = self._work.records.parse(found.shelf, found.name, kept.encode())
            if found.shelf.trusted:  # one that is not cannot be edited at all, which is told first
                document.check_record(before, record, largest=largest)
            self._work.records.replace_text(found, before.encode(), kept, operation="edit")
            return secret

    def select(
        self, names: Sequence[str | int] = (), *, match: str | None = None, scope: str | Scope | None = None
    ) -> Sequence[Record]:
        """The records that are named or that a filter matches, such as `tag:old before:2026-01`."""
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
        """Add tags to records and remove others, as one run that `undo` takes back."""
        from vademecum.store import arrange

        self._work.may_write()
        chosen = self._selected(names, match, scope)
        with self._work.reported("change tags"):
            return arrange.tag(self._work, chosen, add=add, remove=remove)

    def rename(self, name: str | int, new: str, *, scope: str | Scope | None = None) -> Arranged:
        """Give a record another key, as a run; the earlier key still finds it."""
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
        """Move records to another scope, as one run that `undo` takes back."""
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

    def _sweepable(self, scope: str | Scope | None, *, unasked: bool = False) -> Sequence[Place]:
        """The places in sight, and sessions that are over: nobody else will ever tidy up after those."""
        wanted = self._work.scope(scope)
        sessions = wanted in (None, Scope.SESSION) and (unasked or self._work.caller.origin is Origin.USER)
        without = wanted is Scope.SESSION and sessions and not self._work.caller.session
        places = [] if without else [*self._work.places(scope)]
        if sessions:
            found = self._work.home.names("memory", str(Scope.SESSION))
            places += [Place(Scope.SESSION, name) for name in found if name[:1] != "."]
        return [*dict.fromkeys(places)]

    def moved_if_due(self) -> Swept | None:
        """What a sweep moved that was due, as whoever set it off is told."""
        outcome = self.sweep_if_due()
        return None if outcome is None else self._moved_by(outcome)

    def swept(self) -> Iterator[Finding]:
        """What memory tidied up by itself lately, or would have and left to a person."""
        from vademecum.lifecycle import sweep as sweeping

        if self._work.caller.audience is Audience.GROUP or not self._work.home.names("archive", "runs"):
            return
        newest = next((run for run in self.runs() if run.what == sweeping.BY_ITSELF), None)
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
        """That a sweep by itself would have put away much, and so did nothing."""
        if self._work.caller.audience is Audience.PRIVATE and self._work.state.moment(
            f"held {self._sweep_name}"
        ):
            why = "the automatic sweep would archive many records, so it did nothing"
            yield Finding("sweep", str(self._work.home.path), why, "vade sweep", "info")

    def write_listing(self, *, scope: str | Scope | None = None) -> Sequence[str]:
        """Write `index.md` beside the records of each place in sight."""
        from vademecum.knowledge import graph
        from vademecum.store import listing

        self._work.may_write()
        written = []
        with self._work.reported("write index.md"):
            for place in self._work.places(scope):
                for shelf in scopes.shelves(self._work.home, self._work.caller, place):
                    records = [
                        each.record for each in self._work.records.on(shelf) if isinstance(each, Found)
                    ]
                    if not records or not shelf.trusted:
                        continue
                    also = graph.see_also(records, rejected=graph.rejections(self._work.home))
                    path = listing.write_listing(shelf, records, also)
                    if path:
                        written.append(path)
        return written


_WORDS = "scope:, type:, tag:, after:, before:, path:, and * or ? in a key"


def select(work: Workspace, wanted: Iterable[str], *, match: str | None, scope: Scope | None) -> list[Found]:
    """The records that are named, or that a filter matches: `tag:old type:project deploy-*`."""
    chosen = [work.find(name, scope, only=True) for name in wanted]
    if match is not None:
        asked = _filter(match)
        places = work.places(asked.scope or scope)
        every = (each for each in work.everything(places) if not isinstance(each, Finding))
        chosen += [each for each in every if each.shelf.trusted and _fits(each.record, asked)]
    return [*{(each.shelf, each.name): each for each in chosen}.values()]


def _filter(match: str) -> Query:
    """What a filter asks for; one that is none, or matches everything, is refused."""
    from vademecum.search import base

    asked = base.parse(match)
    keys = asked.text.split()
    if not keys and asked == base.Query(""):
        raise UsageError(f"the filter {shown(match)} matches everything", hint=f"use {_WORDS}")
    wrong = [*asked.notes, *(f"{shown(key)} is not a filter" for key in keys if not set("*?[") & set(key))]
    if wrong:
        raise UsageError(wrong[0], hint=f"use {_WORDS}")
    return asked


def _fits(record: Record, asked: Query) -> bool:
    changed = record.updated or record.created or ""
    keys = asked.text.split()
    wanted = (
        asked.type in (None, record.type),
        {*asked.tags} <= {*record.tags},
        (asked.after or "") <= changed,
        asked.before is None or changed < asked.before,
        (asked.path or "") in record.path,
        not keys or any(fnmatch.fnmatchcase(record.key, key) for key in keys),
    )
    return all(wanted)
