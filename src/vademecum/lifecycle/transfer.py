"""From and to elsewhere: what other systems kept, CLIO's `ltm.json`, bundles and pages."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.errors import NotFound, UnknownName, VadeError
from vademecum.knowledge import bundle
from vademecum.knowledge import intake as taking
from vademecum.knowledge import lessons as learned
from vademecum.knowledge import ltm as ltm_json
from vademecum.knowledge import trust as trusting
from vademecum.lifecycle import passes, runner
from vademecum.store import Found, archive, files, names, runs, scopes
from vademecum.store.workspace import listing_order
from vademecum.transcripts import export
from vademecum.types import Finding, Origin, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.store import Workspace
    from vademecum.store import runs as running


class Transfer:
    """Imports and exports, as `Memory` offers them."""

    def __init__(self, workspace: Workspace) -> None:
        self._work = workspace

    def import_from(
        self,
        system: str,
        path: str | os.PathLike[str],
        *,
        scope: str | Scope | None = None,
        apply: bool = True,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> taking.ImportReport:
        """Take in what a system keeps at a path outside of memory: a folder, a file or an archive."""
        from vademecum.agents import memories

        memories.check_outside(path, self._work.home.path)
        project = self._work.caller.project
        here = memories.Importing(None if project is None else project.root, scope is not None)
        with files.reported(f"read {os.fspath(path)}"):
            pieces = memories.read(system, Path(path), here)
            return self.import_pieces(pieces, system=system, scope=scope, apply=apply, progress=progress)

    def import_pieces(
        self,
        pieces: Iterable[taking.Piece],
        *,
        system: str,
        scope: str | Scope | None = None,
        apply: bool = True,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> taking.ImportReport:
        """Take in what another system kept, as one run that `undo` brings back.

        Without `apply` it is only said what would come. Sessions are kept as transcripts, which no run has.
        """
        self._work.may_write()
        self._work.at_a_command_line("import files of this machine", "vade import")
        if scope is not None:
            scopes.place_for(self._work.caller, scopes.parse_scope(scope))
        with self._work.reported(f"import from {system}"):
            staged = runs.Staged(
                runs.Unlocked(self._work.home.path, self._work.home.lock_seconds),
                replace(self._work.caller, origin=Origin.IMPORT),
                self._work.now,
                self._work.announce,
                self._work.records.catalogue,
            )
            intake = taking.Intake(
                staged,
                system,
                scope=self._work.scope(scope),
                policy=self._work.settings.secrets.in_scope,
                largest=self._work.settings.limits.content_bytes,
            )
            mapped, skipped, sessions = taking.take_all(intake, pieces)
            over = tuple(self._over_cap(staged.edits()))
            run, told = self._written(staged.edits(), progress) if apply else ("", ())
            left = {each.path: each.why for each in told if not each.done}
            skipped += [taking.Skipped(path, why) for path, why in left.items()]
            mapped = [each for each in mapped if each.path not in left]
            for each in self._kept_sessions(sessions, apply=apply, progress=progress):
                if isinstance(each, taking.Mapped):
                    mapped.append(each)
                else:
                    skipped.append(each)
        return taking.ImportReport(system, apply, run, tuple(mapped), tuple(skipped), over)

    def _over_cap(self, edits: Sequence[running.Edit]) -> Iterator[taking.Over]:
        """The places that these edits bring above the count cap."""
        new = Counter(
            each.shelf.place for each in edits if each.kind == archive.RECORDS and each.before is None
        )
        for place, count in new.items():
            here = sum(isinstance(each, Found) for each in self._work.records.all([place]))
            if here + count > self._work.settings.decay.max_count:
                yield taking.Over(place, here + count, self._work.settings.decay.max_count)

    def _written(
        self, edits: Sequence[running.Edit], progress: Callable[[str, int, int], None] | None
    ) -> tuple[str, Sequence[running.Told]]:
        """Make the edits of an import as one run."""
        project = self._work.caller.project
        for shelf in {each.shelf.label: each.shelf for each in edits}.values():
            scopes.check_new_folder(shelf)
            if project is not None and shelf.place.id == project.id:
                scopes.remember_project(self._work.home, project, at=self._work.stamp())

        def proposals() -> Iterator[passes.Proposal]:
            for done, edit in enumerate(edits):
                if progress is not None:
                    progress("import", done, len(edits))
                yield passes.Proposal("import", edit.path, "it was imported", (edit,), edit.shelf.place)

        return runner.apply(self._work.records, proposals(), what="import")

    def _kept_sessions(
        self,
        found: Iterable[taking.TranscriptPiece],
        *,
        apply: bool,
        progress: Callable[[str, int, int], None] | None,
    ) -> Iterator[taking.Mapped | taking.Skipped]:
        """Keep the sessions among what was found, or say whether they are here."""
        from vademecum.agents import registry
        from vademecum.transcripts import importing

        for each in found:
            try:
                known = [*registry.find_transcripts_in(each.path, without=self._work.home.path)]
            except VadeError as error:
                yield taking.Skipped(each.source, str(error))
                continue
            if not apply:
                here = any(importing.is_kept(format, path, home=self._work.home) for format, path in known)
                yield taking.Mapped(each.source, "session", "", "same" if here else "new")
                continue
            for kept in importing.import_files(
                known, home=self._work.home, caller=self._work.caller, progress=progress, now=self._work.now
            ):
                if kept.outcome in ("failed", "empty"):
                    yield taking.Skipped(each.source, kept.why or "no message is in it")
                else:
                    path = f"transcripts/{kept.project}/{kept.session}.jsonl"
                    yield taking.Mapped(each.source, "session", path, kept.outcome, kept.added)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "okf",
        scope: str | Scope | None = None,
        redact: bool = False,
        force: bool = False,
    ) -> bundle.ExportedBundle:
        """Write what is in sight for others to read: as `okf`, `ltm` or `html`; always the same bytes.

        A secret is refused, or cut out with `redact`.
        """
        self._work.at_a_command_line("write files of this machine", "vade export")
        target = Path(path)
        self._work.outside(target)
        if self._work.settings.incognito:
            raise NotFound("this session is incognito: nothing is read", hint="leave incognito mode")
        with self._work.reported(f"write {target}"):
            if format == "ltm":
                return self._exported_ltm(target, scope=scope, redact=redact, force=force)
            if format not in ("okf", "html"):
                raise UnknownName(f"{names.shown(format)} is not a format", hint="they are okf, ltm and html")
            places = self._work.places(scope)
            seen, findings = runner.read_places(self._work.records, places)
            trusted = [each for each in seen if each.shelf.trusted]
            left = tuple((each.where, each.why) for each in findings)
            if format == "okf":
                leaves = [bundle.BundleLeaf(each.record, each.content) for each in trusted]
                made, kinds = bundle.make_bundle(leaves, redact=redact)
                bundle.write_bundle(target, made, force=force)
                return bundle.ExportedBundle(target, len(made), kinds, left)
            documents, _ = self._work.pinned(places)
            days = [each for each in self._work.journal.days(places) if not isinstance(each, Finding)]
            html, kinds = bundle.render_page(
                [each for each in documents if each.trusted],
                sorted((each.record for each in trusted), key=listing_order),
                days,
                redact=redact,
            )
            export.write(target, [html], force=force)
        return bundle.ExportedBundle(target, 1, kinds, left)

    def _exported_ltm(
        self, target: Path, *, scope: str | Scope | None, redact: bool, force: bool
    ) -> bundle.ExportedBundle:
        file = self.ltm(scope=scope or Scope.PROJECT)
        kinds: tuple[str, ...] = ()
        if redact:
            file, kinds = ltm_json.redact_file(file)
        ltm_json.check_secrets(file)
        export.write(target, [ltm_json.render(file)], force=force)
        return bundle.ExportedBundle(target, 1, kinds)

    def import_ltm(
        self, path: str | os.PathLike[str], *, scope: str | Scope = Scope.PROJECT
    ) -> ltm_json.LtmImport:
        """Keep what an `ltm.json` of CLIO holds; read again, it adds nothing twice."""
        self._work.may_write()
        self._work.at_a_command_line("import files of this machine", "vade knowledge import")
        place = scopes.place_for(self._work.caller, scopes.parse_scope(scope))
        with self._work.reported(f"import {os.fspath(path)}"):
            value = ltm_json.parse(Path(path).read_bytes())
            caller = replace(self._work.caller, origin=Origin.IMPORT)
            imports = replace(self._work.records, caller=caller)
            reader = ltm_json.LtmReader(
                imports,
                scopes.shelves(self._work.home, self._work.caller, place),
                gate=lambda text: self._work.gate(text, place.scope),
                largest=self._work.settings.limits.content_bytes,
            )
            return reader.read(value)

    def export_ltm(
        self, path: str | os.PathLike[str], *, scope: str | Scope = Scope.PROJECT, force: bool = False
    ) -> Path:
        """Write what was learned in a scope as an `ltm.json` that CLIO can read."""
        self._work.at_a_command_line("write files of this machine", "vade knowledge export")
        target = Path(path)
        self._work.outside(target)
        with self._work.reported(f"write {target}"):
            file = self.ltm(scope=scope)
            ltm_json.check_secrets(file)
            export.write(target, [ltm_json.render(file)], force=force)
        return target

    def ltm(self, *, scope: str | Scope = Scope.PROJECT) -> dict[str, Any]:
        """What was learned in a scope, in the shape of CLIO's `ltm.json`."""
        place = scopes.place_for(self._work.caller, scopes.parse_scope(scope))
        known = (trusting.Level.USER, trusting.Level.VERIFIED, trusting.Level.CONFIRMED)
        found = [each.record for each in self._work.everything([place]) if isinstance(each, Found)]
        lessons = [
            (lesson, trusting.judge_text(record, self._work.records).level in known)
            for record in sorted(found, key=lambda each: (each.created or "", each.num or 0, each.key))
            if record.trusted and (lesson := learned.read_lesson(record)) is not None
        ]
        return ltm_json.collect(lessons, ltm_json.rest_among(found))
