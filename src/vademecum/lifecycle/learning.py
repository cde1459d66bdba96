"""What was learned, how it is ranked and pruned, and the profile of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.errors import Malformed
from vademecum.knowledge import lessons as learned
from vademecum.knowledge import trust as trusting
from vademecum.stand_ins import renamed
from vademecum.store import Found, decisions, document, files, scopes
from vademecum.store.records import key_of
from vademecum.types import Finding, Record, Scope, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.knowledge.finder import Finder
    from vademecum.knowledge.signals import SignalReading
    from vademecum.knowledge.trust import LessonStats
    from vademecum.lifecycle import passes
    from vademecum.lifecycle.passes import Proposal
    from vademecum.lifecycle.profile import ProfileDraft, Spoken
    from vademecum.llm.base import Model
    from vademecum.store import Pinned, Workspace
    from vademecum.store import runs as running
    from vademecum.types import RecordType, Swept


class Learning:
    """What was learned, as `Memory` offers it."""

    def __init__(
        self, workspace: Workspace, finder: Finder, sweep_after: Callable[[Stored], Swept | None]
    ) -> None:
        self._work = workspace
        self._finder = finder
        self._sweep_after = sweep_after

    def suggest(self, text: str | bytes) -> SignalReading:
        """What of a user's message is worth keeping, or why nothing is; proposes, and writes nothing."""
        from vademecum.knowledge import signals as signalling

        if not text.strip():
            return signalling.read_signals("")
        return signalling.read_signals(
            document.accept_text(text, largest=4 * len(text))
        )  # any size: only its ends are read

    def learn(
        self,
        /,
        type: str | RecordType,
        *,
        scope: str | Scope = Scope.PROJECT,
        confidence: float | None = None,
        examples: Iterable[str] = (),
        tags: Iterable[str] = (),
        **fields: object,
    ) -> Stored:
        """Keep something learned; what is known already is confirmed, and the newer wording stands.

        The fields are those of the type: `fact`; `error`, `solution`; `pattern`; `sequence`, `success_rate`;
        `what`, `impact`, `prevention`; `path`, `rule`.
        """
        self._work.may_write()
        scope, kind = scopes.parse_scope(scope), learned.parse_type(str(type))
        lesson = learned.draft(
            kind,
            fields,
            confidence=confidence,
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
            stored = self._work.records.learn(lesson.draft, scope=scope, likely=likely, known=known)
            swept = self._sweep_after(stored)
        indexed = bool(self._work.listeners) and len(self._work.index_trouble) == trouble
        return stored._replace(secrets=lesson.secrets, indexed=indexed, swept=swept)

    def applied(self, name: str | int, *, scope: str | Scope | None = None) -> Record:
        """Count that a solution, or another lesson, was of use."""
        self._work.may_write()
        found = self._work.find(name, scope, only=True)
        learned.parse_type(found.record.type)
        with self._work.reported(f"count the use of {found.record.key}"):
            return self._work.records.revise(
                self._work.records.standing_alone(found),
                lambda values: {"applied": learned.read_count(values, "applied") + 1},
                operation="applied",
            )

    def list(
        self, *, type: str | RecordType | None = None, scope: str | Scope | None = None
    ) -> Sequence[trusting.RankedLesson]:
        """What was learned, in the order in which it is told, with how far each is trusted."""
        wanted = None if type is None else learned.parse_type(str(type))
        lessons = []
        with self._work.reported("read lessons"):
            for each in self._work.everything(self._work.places(scope)):
                lesson = learned.read_lesson(each.record) if isinstance(each, Found) else None
                if lesson is not None and wanted in (None, lesson.type):
                    lessons.append((lesson, trusting.judge_text(lesson.record, self._work.records)))
        return trusting.rank_lessons(
            lessons, now=self._work.now(), half_life_days=self._work.settings.knowledge.half_life_days
        )

    if not TYPE_CHECKING:
        __call__ = renamed("knowledge()", "knowledge.list()", list)

    def stats(self, *, scope: str | Scope | None = None) -> LessonStats:
        """How much was learned: counts, ages, sizes and confidence, per scope and type."""
        return trusting.count_lessons(self.list(scope=scope), now=self._work.now())

    def prune(
        self,
        *,
        max_age_days: float | None = None,
        min_confidence: float | None = None,
        scope: str | Scope | None = None,
        apply: bool = False,
        large: bool = False,
    ) -> passes.RunOutcome:
        """What was learned and is too old or too doubtful, and with `apply` put it away; `undo` returns it.

        A run that would put away much is only told, unless `large` says that this is meant.
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
            run, told = passes.apply_proposals(self._work.records, outcome.proposals, what="knowledge prune")
            held = [
                each
                for each in outcome.proposals
                if any(passes.is_barred(self._work.records, e) for e in each.edits)
            ]
            waiting = self._prune_later(held)
        return outcome._replace(run=run, told=told, waiting=len(held), approval=waiting)

    def _prune_later(self, held: Sequence[Proposal]) -> str:
        """Ask a person whether lessons of theirs may go to the archive, as they are now."""
        if not held:
            return ""
        edits = [edit for proposal in held for edit in proposal.edits]
        places = dict.fromkeys(edit.shelf.place for edit in edits)
        ids = []
        for place in places:
            asked = [
                {"name": key_of(edit.name), "seen": files.digest(edit.before or b"")}
                for edit in edits
                if edit.shelf.place == place
            ]
            ids.append(self._work.wait_for_a_person("archive", {"records": asked}, scope=place.scope).id)
        return ids[0]

    def profile(self) -> Pinned | None:
        """The `profile.md` there is, with its size, its budget and whose each section is."""
        from vademecum.store import pinned

        self._work.not_in_group("read the profile")
        if self._work.settings.incognito:
            return None
        place = scopes.place_for(self._work.caller, Scope.GLOBAL)
        with self._work.reported("read the profile"):
            for each in self._work.documents.all([place]):
                if isinstance(each, Finding) and each.where.endswith(pinned.PROFILE):
                    raise Malformed(each.why)
                if not isinstance(each, Finding) and each.name == pinned.PROFILE:
                    return each
        return None

    def draft_profile(
        self, *, model: str | Model | bool | None = None, imported: bool = False
    ) -> ProfileDraft:
        """What `profile.md` could say of how the user writes, from this project's sessions; writes nothing.

        With a `model`, or True for the one of the settings, it quotes what it chose. Sessions of other
        agents count only if `imported`.
        """
        from vademecum.lifecycle import profile as profiling

        self._work.not_in_group("draft a profile")
        if self._work.settings.incognito:
            return profiling.ProfileDraft(notes=("this session is incognito: nothing is read",))
        asked = self._work.language_model(None if model is True else model) if model else None
        with self._work.reported("draft a profile"):
            logs = self._finder.newest_logs(profiling.SESSIONS)
            told = profiling.read_messages(
                self._work.home, logs, imported=imported, zone=self._work.now().tzinfo
            )
            budget = self._work.settings.inject.profile_chars
            return profiling.draft_profile(self._work.documents, told, budget=budget, model=asked)

    def keep_profile(self, draft: ProfileDraft) -> tuple[str, running.Told]:
        """Keep a draft that was shown under its own heading of `profile.md`; `undo` takes the run back.

        Returns the run and what became of it. Kept by an agent it waits for `verify`, and must be what the
        messages show: nothing is kept of a draft that says more, or two opposite things.
        """
        from vademecum.lifecycle import profile as profiling

        self._work.not_in_group("keep a profile")
        self._work.may_write()
        with self._work.reported("save the profile"):
            return profiling.keep_draft(self._work.documents, draft, heard=self._heard)

    def _heard(self) -> Iterator[Sequence[Spoken]]:
        """What a person said in this project's sessions, without and with those of other agents."""
        from vademecum.lifecycle import profile as profiling

        for imported in (False, True):
            logs = self._finder.newest_logs(profiling.SESSIONS)
            zone = self._work.now().tzinfo
            yield profiling.read_messages(self._work.home, logs, imported=imported, zone=zone).messages
