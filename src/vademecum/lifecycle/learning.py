"""Lessons and the user's profile, as `Memory.knowledge` offers them: saved, ranked and pruned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.errors import Malformed
from vademecum.fields import check_values
from vademecum.knowledge import lesson_figures
from vademecum.knowledge import lessons as learned
from vademecum.knowledge import trust as trust_rules
from vademecum.store import Found, decisions, files, scopes
from vademecum.text import document
from vademecum.text.filenames import key_of
from vademecum.types import Finding, Outcome, Record, Scope, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vademecum.knowledge import LessonStats, SignalReading
    from vademecum.lifecycle import passes
    from vademecum.lifecycle.passes import Proposal
    from vademecum.lifecycle.profile import Preference, ProfileDraft
    from vademecum.search import Finder
    from vademecum.store import EditResult, Pinned, Workspace
    from vademecum.types import RecordType, Swept


class Learning:
    """The lessons of a memory and the user's profile, as `Memory.knowledge` offers them."""

    def __init__(
        self, workspace: Workspace, finder: Finder, sweep_after: Callable[[Stored], Swept | None]
    ) -> None:
        self._work = workspace
        self._finder = finder
        self._sweep_after = sweep_after

    def suggest(self, text: str | bytes, *, before: str = "") -> SignalReading:
        """Return the statements of a user's message that are worth saving, or why none is; write nothing.

        `before` is the end of what the agent said before the message.
        """
        from vademecum.knowledge import judge

        if not text.strip():
            return judge.read_signals("")
        # a text of any size: only its ends are read
        return judge.read_signals(document.accept_text(text, largest=4 * len(text)), before)

    def learn(
        self,
        /,
        type: str | RecordType,
        *,
        scope: str | Scope = Scope.PROJECT,
        confidence: float | None = None,
        examples: Iterable[str] = (),
        tags: Iterable[str] = (),
        record_fields: Mapping[str, object] | None = None,
        count_use: bool = False,
        **fields: object,
    ) -> Stored:
        """Save a lesson; a lesson that is known already is confirmed, and usually gets the newer wording.

        A known wording stays if it says more or is more trusted. `fields` are those of the type: `fact`;
        `error`, `solution`; `pattern`; `sequence`, `success_rate`; `what`, `impact`, `prevention`; `path`,
        `rule`. `record_fields` are those that any record may have. With `count_use`, also count that a known
        lesson has helped once more.
        """
        self._work.may_write()
        scope, kind = scopes.parse_scope(scope), learned.parse_type(str(type))
        own = check_values({"confidence": confidence, **(record_fields or {})})
        lesson = learned.draft(
            kind,
            fields,
            confidence=own.pop("confidence", None),
            examples=examples,
            tags=document.clean_tags(tags, self._work.settings.secrets.in_scope(scope)),
            gate=lambda text: self._work.gate(text, scope),
            largest=self._work.settings.limits.content_bytes,
        )
        known = learned.find_known(
            kind,
            lesson.fields,
            origin=self._work.caller.origin,
            threshold=self._work.settings.dedup.threshold,
            distinct=lambda text: decisions.are_distinct(self._work.home, lesson.draft.text, text),
        )
        trouble = len(self._work.index_trouble)
        with self._work.reported("save this"):
            likely = learned.may_hold(lesson.draft.text)
            draft = lesson.draft._replace(fields=own)
            stored = self._work.records.learn(draft, scope=scope, likely=likely, known=known)
            if count_use and stored.outcome not in (Outcome.CREATED, Outcome.WAITING):
                self.applied(stored.id or stored.key, scope=scope)
            swept = self._sweep_after(stored)
        indexed = bool(self._work.listeners) and len(self._work.index_trouble) == trouble
        return stored._replace(secrets=lesson.secrets, indexed=indexed, swept=swept)

    def applied(self, name: str | int, *, scope: str | Scope | None = None) -> Record:
        """Count that a lesson has helped once more, and return its record."""
        self._work.may_write()
        found = self._work.find(name, scope, only=True)
        learned.parse_type(found.record.type)
        with self._work.reported(f"count the use of {found.record.key}"):
            return self._work.records.revise(
                self._work.records.as_own_record(found),
                lambda values: {"applied": learned.read_count(values, "applied") + 1},
                operation="applied",
            )

    def list(
        self, *, type: str | RecordType | None = None, scope: str | Scope | None = None
    ) -> Sequence[trust_rules.RankedLesson]:
        """Return the lessons in the order in which agents see them, each with its trust."""
        wanted = None if type is None else learned.parse_type(str(type))
        lessons = []
        with self._work.reported("read lessons"):
            for each in self._work.everything(self._work.places(scope)):
                lesson = learned.read_lesson(each.record) if isinstance(each, Found) else None
                if lesson is not None and wanted in (None, lesson.type):
                    lessons.append((lesson, trust_rules.judge_text(lesson.record, self._work.records)))
        return trust_rules.rank_lessons(
            lessons, now=self._work.now(), half_life_days=self._work.settings.knowledge.half_life_days
        )

    def stats(self, *, scope: str | Scope | None = None) -> LessonStats:
        """Return counts, ages, sizes and confidence of lessons, per scope and type."""
        return lesson_figures.count_lessons(self.list(scope=scope), now=self._work.now())

    def prune(
        self,
        *,
        max_age_days: float | None = None,
        min_confidence: float | None = None,
        scope: str | Scope | None = None,
        apply: bool = False,
        large: bool = False,
    ) -> passes.RunOutcome:
        """Propose to archive lessons that are too old or too doubtful; `apply` archives them.

        A run that would archive much is only proposed, unless `large` is set. When an agent would archive a
        lesson of a person's, a request for approval is saved instead. `undo` restores the lessons.
        """
        from vademecum.lifecycle import passes

        self._work.not_in_group("tidy up")
        own = self._work.settings.knowledge
        chosen = passes.PruningPass(
            own.max_age_days if max_age_days is None else max_age_days,
            own.min_confidence if min_confidence is None else min_confidence,
            own.half_life_days,
            lambda record: any(decisions.verified(self._work.home, each.text) for each in record.live),
        )
        if self._work.settings.incognito:
            return passes.RunOutcome(())
        with self._work.reported("prune lessons"):
            outcome = passes.propose(self._work.records, self._work.places(scope), [chosen])
            if not apply or not outcome.proposals or (outcome.large and not large):
                return outcome
            self._work.may_write()
            run, results = passes.apply_proposals(
                self._work.records, outcome.proposals, what="knowledge prune"
            )
            waiting_for_person = [
                each
                for each in outcome.proposals
                if any(passes.needs_a_person(self._work.records, e) for e in each.edits)
            ]
            waiting = self._prune_later(waiting_for_person)
        return outcome._replace(run=run, results=results, waiting=len(waiting_for_person), approval=waiting)

    def _prune_later(self, waiting_for_person: Sequence[Proposal]) -> str:
        """Save requests, one for each place, that ask a person whether their lessons may be archived.

        Return the id of the first request; an empty text when there is none.
        """
        if not waiting_for_person:
            return ""
        edits = [edit for proposal in waiting_for_person for edit in proposal.edits]
        places = dict.fromkeys(edit.scope_folder.place for edit in edits)
        ids = []
        for place in places:
            records = [
                {"name": key_of(edit.name), "seen": files.digest(edit.before or b"")}
                for edit in edits
                if edit.scope_folder.place == place
            ]
            ids.append(self._work.wait_for_a_person("archive", {"records": records}, scope=place.scope).id)
        return ids[0]

    def profile(self) -> Pinned | None:
        """Return `profile.md` with its size, its budget and the origin of each section; None without one."""
        from vademecum.text import filenames

        self._work.not_in_group("read the profile")
        if self._work.settings.incognito:
            return None
        place = scopes.place_for(self._work.caller, Scope.GLOBAL)
        with self._work.reported("read the profile"):
            for each in self._work.documents.all([place]):
                if isinstance(each, Finding) and each.where.endswith(filenames.PROFILE):
                    raise Malformed(each.why)
                if not isinstance(each, Finding) and each.name == filenames.PROFILE:
                    return each
        return None

    def draft_profile(self) -> ProfileDraft:
        """Draft a section of `profile.md` from records that state what the user prefers; write nothing."""
        from vademecum.lifecycle import profile as profiling

        self._work.not_in_group("draft a profile")
        if self._work.settings.incognito:
            return profiling.ProfileDraft(notes=("this session is incognito: nothing is read",))
        with self._work.reported("draft a profile"):
            preferences, notes = self._preferences()
            budget = self._work.settings.inject.profile_chars
            return profiling.draft_profile(self._work.documents, preferences, notes, budget=budget)

    def keep_profile(self, draft: ProfileDraft) -> tuple[str, EditResult]:
        """Save a draft under a heading of its own in `profile.md`; `undo` reverts the run.

        Returns the name of the run and the result of its edit. A draft that an agent saves is not used until
        a person verifies it, and each of its lines must be a preference from a record.
        """
        from vademecum.lifecycle import profile as profiling

        self._work.not_in_group("keep a profile")
        self._work.may_write()
        with self._work.reported("save the profile"):
            return profiling.save_draft(self._work.documents, draft, self._preferences()[0])

    def _preferences(self) -> tuple[Sequence[Preference], Sequence[str]]:
        from vademecum.lifecycle import profile as profiling

        places = [place for place in self._work.places(None) if place.scope in profiling.SOURCES]
        return profiling.find_preferences(self._work.everything(places), self._work.records)
