"""Learning: what was found out, how far it is trusted, and what of a message is worth keeping."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed, NotFound, OutsideMemory
from vademecum.lazy import LazyModule
from vademecum.memory.base import _split
from vademecum.memory.tidying import Tidying
from vademecum.store import decisions, files, labels, names, reviews, scopes, texts
from vademecum.store.records import Found, Listed, key_of
from vademecum.types import Finding, Origin, Record, Scope, Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.knowledge import lessons as learned
    from vademecum.knowledge import ltm as ltm_json
    from vademecum.knowledge import signals as signalling
    from vademecum.knowledge import trust
    from vademecum.knowledge import trust as trusting
    from vademecum.lifecycle import passes, runner
    from vademecum.lifecycle.passes import Proposal
    from vademecum.store import pinned
    from vademecum.transcripts import export
    from vademecum.types import Entry, Place, RecordType
else:
    trust = LazyModule("vademecum.knowledge.trust")
    learned = LazyModule("vademecum.knowledge.lessons")
    ltm_json = LazyModule("vademecum.knowledge.ltm")
    passes = LazyModule("vademecum.lifecycle.passes")
    trusting = LazyModule("vademecum.knowledge.trust")
    signalling = LazyModule("vademecum.knowledge.signals")
    runner = LazyModule("vademecum.lifecycle.runner")
    export = LazyModule("vademecum.transcripts.export")
    pinned = LazyModule("vademecum.store.pinned")


class Learning(Tidying):
    """Learning, as a part of `Memory`."""

    def suggest(self, text: str | bytes) -> signalling.SignalReading:
        """What of a user's message is worth keeping, or why nothing is; proposes, and writes nothing."""
        if not text.strip():
            return signalling.read_signals("")
        return signalling.read_signals(
            texts.accept(text, largest=4 * len(text))
        )  # any size: only its ends are read

    def learn(
        self,
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
        self._may_write()
        scope, kind = scopes.parse_scope(scope), learned.parse_type(str(type))
        lesson = learned.draft(
            kind,
            fields,
            confidence=confidence,
            examples=examples,
            tags=labels.tags(tags, self.settings.secrets.in_scope(scope)),
            gate=lambda text: self._gate(text, scope),
            largest=self.settings.limits.content_bytes,
        )
        known = learned.find_known(
            kind,
            lesson.fields,
            origin=self.caller.origin,
            threshold=self.settings.dedup.threshold,
            distinct=lambda text: decisions.are_distinct(self.home, lesson.draft.text, text),
        )
        trouble = len(self.index_trouble)
        with self._reported("keep this"):
            likely = learned.may_hold(lesson.draft.text)
            stored = self.records.learn(lesson.draft, scope=scope, likely=likely, known=known)
            swept = self._sweep_after(stored)
        indexed = bool(self.listeners) and len(self.index_trouble) == trouble
        return stored._replace(secrets=lesson.secrets, indexed=indexed, swept=swept)

    def applied(self, name: str | int, *, scope: str | Scope | None = None) -> Record:
        """Count that a solution, or another lesson, was of use."""
        self._may_write()
        found = self._find(name, scope, only=True)
        learned.parse_type(found.record.type)
        with self._reported(f"count the use of {found.record.key}"):
            return self.records.revise(
                self.records.standing_alone(found),
                lambda values: {"applied": learned.read_count(values, "applied") + 1},
                operation="applied",
            )

    def knowledge(
        self, *, type: str | RecordType | None = None, scope: str | Scope | None = None
    ) -> Sequence[trust.RankedLesson]:
        """What was learned, in the order in which it is told, with how far each is trusted."""
        wanted = None if type is None else learned.parse_type(str(type))
        lessons = []
        with self._reported("read what was learned"):
            for each in self._everything(self._places(scope, all=False)):
                lesson = learned.read_lesson(each.record) if isinstance(each, Found) else None
                if lesson is not None and wanted in (None, lesson.type):
                    lessons.append((lesson, trusting.judge_text(lesson.record, self.records)))
        return trust.rank_lessons(
            lessons, now=self.now(), half_life_days=self.settings.knowledge.half_life_days
        )

    def knowledge_stats(self, *, scope: str | Scope | None = None) -> trust.LessonStats:
        """How much was learned: counts, ages, sizes and confidence, per scope and type."""
        return trust.count_lessons(self.knowledge(scope=scope), now=self.now())

    def prune_knowledge(
        self,
        *,
        max_age_days: float | None = None,
        min_confidence: float | None = None,
        scope: str | Scope | None = None,
        apply: bool = False,
        large: bool = False,
    ) -> runner.RunOutcome:
        """What was learned and is too old or too doubtful, and with `apply` put it away; `undo` returns it.

        A run that would put away much is only told, unless `large` says that this is meant.
        """
        self._not_in_group("tidy up")
        own = self.settings.knowledge
        chosen = passes.PruningPass(
            own.max_age_days if max_age_days is None else max_age_days,
            own.min_confidence if min_confidence is None else min_confidence,
            own.half_life_days,
            lambda record: any(decisions.verified(self.home, each.text) for each in record.live),
        )
        if self.settings.incognito:
            return runner.RunOutcome(())
        with self._reported("prune what was learned"):
            outcome = runner.propose(self.records, self._places(scope, all=False), [chosen])
            if not apply or not outcome.proposals or (outcome.large and not large):
                return outcome
            self._may_write()
            run, told = runner.apply(self.records, outcome.proposals, what="knowledge prune")
            held = [
                each
                for each in outcome.proposals
                if any(runner.is_barred(self.records, e) for e in each.edits)
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
            ids.append(self._wait_for_a_person("archive", {"records": asked}, scope=place.scope).id)
        return ids[0]

    def trust_of(
        self, thing: Record | Entry, *, record: Record | None = None, trusted: bool = True
    ) -> trusting.Trust:
        """How far a record, an entry of a `record`, a note or a section of a pinned document is trusted."""
        with self._reported("read the decisions"):
            return trusting.judge_text(thing, self.records, record=record, trusted=trusted)

    def waiting(self, *, scope: str | Scope | None = None) -> Sequence[trusting.Unverified]:
        """The texts that agents are not told until a person has verified them."""
        return [each for each, _ in self._unverified(scope)]

    def _unverified(self, scope: str | Scope | None) -> list[tuple[trusting.Unverified, Found | None]]:
        """The texts that wait for a person, each with its record if it is one's."""
        self._not_in_group("see what waits for a person")
        if self.settings.incognito:
            return []
        places = self._places(scope, all=False)
        with self._reported("read the memory"):
            found: list[tuple[trusting.Unverified, Found | None]] = []
            for each in self._doubtful(places):
                record = each.record
                texts = self._waiting(record.key, record.path, record.entries, record=record)
                found += [(text, each) for text in texts]
            return [*found, *((text, None) for text in self._waiting_beside(places))]

    def _doubtful(self, places: Iterable[Place]) -> Iterator[Found]:
        """The records of which something waits for a person, unless one has verified it."""
        for each in self.records.listed(places, trusting.DOUBTS):
            if isinstance(each, Listed):
                with contextlib.suppress(NotFound, Malformed, OutsideMemory):  # gone or spoiled since
                    yield self.records.load(each.shelf, each.name)

    def _waiting_beside(self, places: Sequence[Place]) -> Iterator[trusting.Unverified]:
        """The texts of pinned documents and journals that wait for a person."""
        for document in self.documents.all(places):
            if not isinstance(document, Finding):
                yield from self._waiting(
                    document.path, document.path, document.sections, trusted=document.trusted
                )
        for day in self.journal.days(places):
            if not isinstance(day, Finding):
                yield from self._waiting(day.path, day.path, day.entries)

    def _waiting(
        self, name: str, path: str, entries: Iterable[Entry], **about: Any
    ) -> Iterator[trusting.Unverified]:
        for entry in entries:
            told = trusting.judge_text(entry, self.records, **about)
            if entry.live and entry.text.strip() and not told.injectable:
                yield trusting.Unverified(name, path, entry.text, told.why)

    def _waiting_marks(self) -> Iterator[str]:
        """Of every text in sight that waits for a person, the mark of their no."""
        places = self._places(None, all=False)
        verified = decisions.verdicts(self.home)
        for each in self.records.listed(places, trusting.DOUBTS):
            if isinstance(each, Listed):
                yield from (mark for decision, mark in each.fact if not verified(decision))
        for text in self._waiting_beside(places):
            yield reviews.mark("text", text.path, text.text)

    def verify(
        self, name: str | int, *, scope: str | Scope | None = None, on: bool = True
    ) -> Sequence[Entry]:
        """A person's word that what a record, a pinned document or a journal file says is true, as it stands.

        Returns what it was given for. A text that is edited afterwards is another text.
        """
        self._may_write()
        self.may_decide("verify a memory", "vade verify")
        with self._reported(f"verify {name}"):
            found, entries = self._verifiable(str(name), scope)
            for entry in entries:
                if on:
                    decisions.verify(self.home, entry.text, at=self._stamp(), by=self.caller.actor)
                else:
                    decisions.unverify(self.home, entry.text)
            if found is not None and found.shelf.trusted:
                shown = {"by": self.caller.actor, "at": self._stamp()} if on else None
                self.records.change_fields(found, {"verified": shown}, operation="verify")
            self._audit(
                "verify" if on else "unverify",
                scope=None if found is None else found.record.place.scope,
                record=None if found is None else found.record.id,
            )
        return entries

    def verifiable(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[Entry]:
        """What `verify` would be given for, by the name of a record, a pinned document or a journal file."""
        with self._reported(f"read {name}"):
            return self._verifiable(str(name), scope)[1]

    def import_ltm(
        self, path: str | os.PathLike[str], *, scope: str | Scope = Scope.PROJECT
    ) -> ltm_json.LtmImport:
        """Keep what an `ltm.json` of CLIO holds; read again, it adds nothing twice."""
        self._may_write()
        self._at_a_command_line("import files of this machine", "vade knowledge import")
        place = scopes.place_for(self.caller, scopes.parse_scope(scope))
        with self._reported(f"import {os.fspath(path)}"):
            value = ltm_json.parse(Path(path).read_bytes())
            imports = replace(self.records, caller=replace(self.caller, origin=Origin.IMPORT))
            reader = ltm_json.LtmReader(
                imports,
                scopes.shelves(self.home, self.caller, place),
                gate=lambda text: self._gate(text, place.scope),
                largest=self.settings.limits.content_bytes,
            )
            return reader.read(value)

    def export_ltm(
        self, path: str | os.PathLike[str], *, scope: str | Scope = Scope.PROJECT, force: bool = False
    ) -> Path:
        """Write what was learned in a scope as an `ltm.json` that CLIO can read."""
        self._at_a_command_line("write files of this machine", "vade knowledge export")
        target = Path(path)
        self._outside(target)
        with self._reported(f"write {target}"):
            file = self.ltm(scope=scope)
            ltm_json.check_secrets(file)
            export.write(target, [ltm_json.render(file)], force=force)
        return target

    def ltm(self, *, scope: str | Scope = Scope.PROJECT) -> dict[str, Any]:
        """What was learned in a scope, in the shape of CLIO's `ltm.json`."""
        place = scopes.place_for(self.caller, scopes.parse_scope(scope))
        known = (trusting.Level.USER, trusting.Level.VERIFIED, trusting.Level.CONFIRMED)
        found = [each.record for each in self._everything([place]) if isinstance(each, Found)]
        lessons = [
            (lesson, trusting.judge_text(record, self.records).level in known)
            for record in sorted(found, key=lambda each: (each.created or "", each.num or 0, each.key))
            if record.trusted and (lesson := learned.read_lesson(record)) is not None
        ]
        return ltm_json.collect(lessons, ltm_json.rest_among(found))

    def _verifiable(self, name: str, scope: str | Scope | None) -> tuple[Found | None, Sequence[Entry]]:
        """The entries of what a name stands for, and its record if it is one."""
        document = pinned.is_name(name)
        if document or "/" in name:
            places = self._places(scope, all=False)
            documents, _ = _split(self.documents.all(places))
            for each in documents:
                if each.path == name or (document and each.name.lower() == name.lower()):
                    return None, each.sections
            for day in self.journal.days(places):
                if not isinstance(day, Finding) and day.path == name:
                    return None, day.entries
            if document:
                raise NotFound(f"{names.shown(name)} is not a pinned document in sight")
        found = self._find(name, scope, only=True)
        return found, found.record.live
