"""Import from other systems, export bundles, pages and CLIO's `ltm.json`, and back up memory.

A bundle is in the Open Knowledge Format, and the same memory gives the same bytes.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import shutil
import tarfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Collision, Malformed, NotFound, SecretFound, UnknownName, VadeError
from vademecum.knowledge import ImportReport, Piece, Skipped, TranscriptPiece, intake
from vademecum.knowledge import lessons as learned
from vademecum.knowledge import ltm as ltm_json
from vademecum.knowledge import trust as trusting
from vademecum.lifecycle import passes
from vademecum.progress import counted, watched
from vademecum.store import Found, Staged, files, listing_order, reported, runs, scopes
from vademecum.text import filenames, frontmatter, names, secrets
from vademecum.text.document import decode
from vademecum.text.outgoing import clean_text
from vademecum.transcripts import export
from vademecum.transcripts.export import escape, page
from vademecum.types import Finding, Origin, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.search import Finder
    from vademecum.store import Backup, Day, Edit, EditResult, Pinned, Workspace
    from vademecum.types import Entry, Record


class Transfer:
    """Imports, exports and backups, reached as `Memory.transfer`."""

    def __init__(self, workspace: Workspace, find: Callable[[], Finder]) -> None:
        self._work, self._find = workspace, find

    def import_from(
        self,
        system: str,
        path: str | os.PathLike[str],
        *,
        scope: str | Scope | None = None,
        apply: bool = True,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> ImportReport:
        """Import the memory of another system from a folder, a file or an archive.

        Without `apply` nothing is written.
        """
        from vademecum.agents import memory_files

        memory_files.check_outside(path, self._work.home.path)
        project = self._work.caller.project
        here = memory_files.Importing(None if project is None else project.root, scope is not None)
        with reported(f"read {os.fspath(path)}"):
            pieces = memory_files.read(system, Path(path), here)
            return self.import_pieces(pieces, system=system, scope=scope, apply=apply, progress=progress)

    def import_pieces(
        self,
        pieces: Iterable[Piece],
        *,
        system: str,
        scope: str | Scope | None = None,
        apply: bool = True,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> ImportReport:
        """Import pieces read from another system as one run, which `undo` reverts.

        Without `apply` nothing is written. Sessions become transcripts, which belong to no run.
        """
        self._work.may_write()
        self._work.at_a_command_line("import files of this machine", "vade import")
        if scope is not None:
            scopes.place_for(self._work.caller, scopes.parse_scope(scope))
        with self._work.reported(f"import from {system}"):
            staged = Staged(
                runs.Unlocked(self._work.home.path, self._work.home.lock_seconds),
                self._work.caller._replace(origin=Origin.IMPORT),
                self._work.now,
                self._work.announce,
                self._work.records.catalogue,
            )
            importer = intake.Intake(
                staged,
                system,
                scope=self._work.scope(scope),
                policy=self._work.settings.secrets.in_scope,
                largest=self._work.settings.limits.content_bytes,
            )
            mapped, skipped, sessions = intake.take_all(importer, pieces)
            too_large = tuple(self._over_cap(staged.edits()))
            run, results = self._apply_edits(staged.edits(), system, progress) if apply else ("", ())
            left = {each.path: each.why for each in results if not each.done}
            skipped += [Skipped(path, why) for path, why in left.items()]
            mapped = [each for each in mapped if each.path not in left]
            for each in self._import_sessions(sessions, apply=apply, progress=progress):
                if isinstance(each, intake.Mapped):
                    mapped.append(each)
                else:
                    skipped.append(each)
        report = ImportReport(system, apply, run, tuple(mapped), tuple(skipped), too_large)
        self._index(report, progress)
        return report

    def _index(self, report: ImportReport, progress: Callable[[str, int, int], None] | None) -> None:
        """Update the search index after an import; if that fails, let the next search report it."""
        if not report.applied or all(each.outcome == "same" for each in report.mapped):
            return
        try:
            self._find().index(rebuild=False, check=False, progress=progress)
        except (VadeError, OSError) as error:
            self._work.index_trouble.append(str(error))

    def _over_cap(self, edits: Sequence[Edit]) -> Iterator[intake.Over]:
        """Yield the places that would hold more records than their limit after these edits."""
        new = Counter(
            each.scope_folder.place
            for each in edits
            if each.kind == filenames.RECORDS and each.before is None
        )
        for place, count in new.items():
            here = sum(isinstance(each, Found) for each in self._work.records.all([place]))
            if here + count > self._work.settings.decay.max_count:
                yield intake.Over(place, here + count, self._work.settings.decay.max_count)

    def _apply_edits(
        self, edits: Sequence[Edit], system: str, progress: Callable[[str, int, int], None] | None
    ) -> tuple[str, Sequence[EditResult]]:
        """Make the edits of an import as one run."""
        project = self._work.caller.project
        for scope_folder in {each.scope_folder.label: each.scope_folder for each in edits}.values():
            scopes.check_new_folder(scope_folder)
            if project is not None and scope_folder.place.id == project.id:
                scopes.remember_project(self._work.home, project, at=self._work.stamp())

        proposals = [
            passes.Proposal("import", edit.path, "it was imported", (edit,), edit.scope_folder.place)
            for edit in edits
        ]
        with watched(progress):
            return passes.apply_proposals(self._work.records, proposals, what=f"import {system}")

    def _import_sessions(
        self,
        found: Iterable[TranscriptPiece],
        *,
        apply: bool,
        progress: Callable[[str, int, int], None] | None,
    ) -> Iterator[intake.Mapped | Skipped]:
        """Yield the result for each session: imported, skipped, or known already.

        Without `apply`, no session is imported, and the results only tell new from known ones.
        """
        from vademecum.agents import registry
        from vademecum.transcripts import importing

        for each in found:
            try:
                found_in = registry.find_transcripts_in(each.path, without=self._work.home.path)
                known: Sequence[tuple[importing.TranscriptReader, Path]] = (
                    [(each.conversation, each.path)] if each.conversation else [*found_in]
                )
            except VadeError as error:
                yield Skipped(each.source, str(error))
                continue
            if not apply:
                here = any(
                    importing.is_imported(format, path, home=self._work.home) for format, path in known
                )
                yield intake.Mapped(each.source, "session", "", "same" if here else "new")
                continue
            for session_import in importing.import_files(
                known, home=self._work.home, caller=self._work.caller, progress=progress, now=self._work.now
            ):
                if session_import.outcome in ("failed", "empty", "purged"):
                    yield Skipped(each.source, session_import.why or "no message is in it")
                else:
                    path = f"transcripts/{session_import.project}/{session_import.session}.jsonl"
                    yield intake.Mapped(
                        each.source, "session", path, session_import.outcome, session_import.added
                    )

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "okf",
        scope: str | Scope | None = None,
        redact: bool = False,
        force: bool = False,
    ) -> ExportedBundle:
        """Export visible memory in the format `okf`, `ltm` or `html`; the same memory gives the same bytes.

        A text that contains a secret stops the export, unless `redact` is set: then the secret is redacted.
        `force` replaces existing files.
        """
        self._work.at_a_command_line("write files of this machine", "vade export")
        target = Path(path)
        self._work.outside(target)
        if self._work.settings.incognito:
            raise NotFound("this session is incognito: nothing is read", hint="leave incognito mode")
        with self._work.reported(f"write {target}"):
            if format == "ltm":
                return self._export_ltm_file(target, scope=scope, redact=redact, force=force)
            if format not in ("okf", "html"):
                raise UnknownName(f"{names.shown(format)} is not a format", hint="they are okf, ltm and html")
            places = self._work.places(scope)
            seen, findings = passes.read_places(self._work.records, places)
            trusted = [each for each in seen if each.scope_folder.trusted]
            left = tuple((each.where, each.why) for each in findings)
            if format == "okf":
                leaves = [BundleLeaf(each.record, each.content) for each in trusted]
                made, kinds = make_bundle(leaves, redact=redact)
                write_bundle(target, made, force=force)
                return ExportedBundle(target, len(made), kinds, left)
            documents, _ = self._work.pinned(places)
            days = [each for each in self._work.journal.days(places) if not isinstance(each, Finding)]
            html, kinds = render_page(
                [each for each in documents if each.trusted],
                sorted((each.record for each in trusted), key=listing_order),
                days,
                redact=redact,
            )
            export.write(target, [html], force=force)
        return ExportedBundle(target, 1, kinds, left)

    def _export_ltm_file(
        self, target: Path, *, scope: str | Scope | None, redact: bool, force: bool
    ) -> ExportedBundle:
        file = self.ltm(scope=scope or Scope.PROJECT)
        kinds: tuple[str, ...] = ()
        if redact:
            file, kinds = ltm_json.redact_file(file)
        ltm_json.check_secrets(file)
        export.write(target, [ltm_json.render(file)], force=force)
        return ExportedBundle(target, 1, kinds)

    def import_ltm(
        self, path: str | os.PathLike[str], *, scope: str | Scope = Scope.PROJECT
    ) -> ltm_json.LtmImport:
        """Import an `ltm.json` of CLIO; importing it again adds no duplicates."""
        self._work.may_write()
        self._work.at_a_command_line("import files of this machine", "vade knowledge import")
        place = scopes.place_for(self._work.caller, scopes.parse_scope(scope))
        with self._work.reported(f"import {os.fspath(path)}"):
            value = ltm_json.parse(Path(path).read_bytes())
            caller = self._work.caller._replace(origin=Origin.IMPORT)
            imports = self._work.records.for_caller(caller)
            reader = ltm_json.LtmReader(
                imports,
                scopes.scope_folders(self._work.home, self._work.caller, place),
                gate=lambda text: self._work.gate(text, place.scope),
                largest=self._work.settings.limits.content_bytes,
            )
            return reader.read(value)

    def export_ltm(
        self, path: str | os.PathLike[str], *, scope: str | Scope = Scope.PROJECT, force: bool = False
    ) -> Path:
        """Export the lessons of a scope as an `ltm.json` for CLIO; `force` replaces an existing file."""
        self._work.at_a_command_line("write files of this machine", "vade knowledge export")
        target = Path(path)
        self._work.outside(target)
        with self._work.reported(f"write {target}"):
            file = self.ltm(scope=scope)
            ltm_json.check_secrets(file)
            export.write(target, [ltm_json.render(file)], force=force)
        return target

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Backup:
        """Write all memory, except what can be rebuilt, to one file; `force` replaces an existing file."""
        from vademecum.store import backup

        self._work.only_a_person("back up all memory", "vade backup")
        target = Path(path).expanduser()
        with self._work.reported(f"write {target}"):
            return backup.write(
                self._work.home, target, at=self._work.stamp(), force=force, progress=progress
            )

    def verify_backup(
        self, path: str | os.PathLike[str], *, progress: Callable[[str, int, int], None] | None = None
    ) -> Backup:
        """Compare every file in a backup with the backup's own list."""
        from vademecum.store import backup

        target = Path(path).expanduser()
        with self._work.reported(f"read {target}"):
            return backup.verify(target, progress=progress)

    def restore_backup(
        self, path: str | os.PathLike[str], *, progress: Callable[[str, int, int], None] | None = None
    ) -> Backup:
        """Restore a backup into this home, which must be empty."""
        from vademecum.store import backup

        self._work.only_a_person("restore a backup", "vade backup --restore")
        target = Path(path).expanduser()
        with self._work.reported(f"restore {target}"):
            return backup.unpack(target, self._work.home, progress=progress)

    def ltm(self, *, scope: str | Scope = Scope.PROJECT) -> dict[str, Any]:
        """Return the lessons of a scope as the data of CLIO's `ltm.json`."""
        place = scopes.place_for(self._work.caller, scopes.parse_scope(scope))
        known = (trusting.Level.USER, trusting.Level.VERIFIED, trusting.Level.CONFIRMED)
        found = [each.record for each in self._work.everything([place]) if isinstance(each, Found)]
        lessons = [
            (lesson, trusting.judge_text(record, self._work.records).level in known)
            for record in sorted(found, key=lambda each: (each.created or "", each.num or 0, each.key))
            if record.trusted and (lesson := learned.read_lesson(record)) is not None
        ]
        return ltm_json.collect(lessons, ltm_json.rest_among(found))


# ------------------------------------------------------------ bundles and pages

VERSION = "0.2"
_LONGEST = 120


class BundleLeaf(NamedTuple):
    """A record to be exported, and the bytes of its file."""

    record: Record
    content: bytes


class ExportedBundle(NamedTuple):
    """The path of an export, its number of files, the redacted secrets, and the files left out
    with reasons.
    """

    path: Path
    files: int
    secrets: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()


def make_bundle(leaves: Iterable[BundleLeaf], *, redact: bool) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the files of a bundle, path to text, and the kinds of secrets redacted from them.

    Without `redact`, a secret raises SecretFound.
    """
    files: dict[str, str] = {}
    listed: list[tuple[str, Record]] = []
    texts: dict[str, str] = {}
    kinds: set[str] = set()
    ordered = sorted(leaves, key=lambda each: (str(each.record.place), each.record.key, each.record.path))
    for record, content in counted(ordered, "export"):
        text = decode(content)
        given = frontmatter.parse(text).values
        # What a hand-made file does not say of itself, and would not be known elsewhere.
        own = {
            "type": record.type,
            "key": record.key,
            "scope": str(record.place.scope),
            "scope_id": record.place.id or None,
        }
        missing = {each: value for each, value in own.items() if not given.get(each) and value}
        text = frontmatter.edit(text, missing) if missing else text
        clean, found = clean_outgoing(text, record.path, redact=redact)
        kinds.update(found)
        try:
            frontmatter.parse(clean)
        except Malformed as error:
            raise SecretFound(f"{record.path} cannot be read without its secrets") from error
        path = _unused_path(files, record)
        clean_outgoing(path, "the name of a file", redact=False)
        files[path], texts[path] = clean, clean
        listed.append((path, record))
    index, found = clean_outgoing(_index(listed), "index.md", redact=True)
    return {"index.md": index, **files}, tuple(sorted(kinds | set(found) if redact else kinds))


def clean_outgoing(text: str, where: str, *, redact: bool) -> tuple[str, tuple[str, ...]]:
    """Return a text with its secrets redacted, and their kinds; without `redact`, a secret is an error."""
    found = secrets.find(text)
    kinds = tuple(sorted({each.kind for each in found}))
    if found and not redact:
        raise SecretFound(
            f"{where} holds what looks like a secret: {', '.join(kinds)}",
            hint="redact it with `--redact`, or remove it from memory first",
        )
    return (secrets.redact(text, found) if found else text), kinds


def write_bundle(path: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write a bundle as an archive if the path has an archive's ending, or else as a folder.

    Existing files are replaced only with `force`.
    """
    if path.name.endswith((".tar.gz", ".tgz")):
        _write_archive(path, files, force=force)
    else:
        write_folder(path, counted([*files.items()], "writing"), force=force)


def _write_archive(path: Path, files: Mapping[str, str], *, force: bool) -> None:
    if path.exists() and not force:
        raise Collision(f"{path} already exists", hint="choose another name, or pass --force")
    raw = io.BytesIO()
    # No time, owner or name of this machine goes in: the same memory gives the same bytes.
    with (
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            content = files[name].encode()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    staged = _staging_path(path)
    try:
        with open(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(raw.getvalue())
        os.replace(staged, path)
    finally:
        staged.unlink(missing_ok=True)


def write_folder(path: Path, files: Iterable[tuple[str, str]], *, force: bool) -> int:
    """Write files into a temporary folder and move it into place; replace existing files only with `force`.

    Takes the files one at a time, each a path and its text, and returns how many there were.
    """
    full = path.is_dir() and any(path.iterdir())
    if (full or (path.exists() and not path.is_dir())) and not force:
        raise Collision(f"{path} already exists", hint="choose another name, or pass --force")
    staged, count = _staging_path(path), 0
    try:
        for name, text in files:
            count += 1
            target = staged / name
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(text.encode())
        if not full:
            staged.mkdir(mode=0o700, exist_ok=True)
            if path.is_dir():
                path.rmdir()
            os.replace(staged, path)
            return count
        made = [each for each in sorted(staged.rglob("*")) if not each.is_dir()]
        for each in made:  # what else lies there is not ours to take away
            target = path / each.relative_to(staged)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.replace(each, target)
        return count
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _staging_path(path: Path) -> Path:
    """Return a path for an unfinished export, and remove unfinished exports that a killed process left."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        pid = left.name.split(".")[-2]
        if pid.isdecimal() and not files.is_running(int(pid)):
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def _unused_path(files: Mapping[str, str], record: Record) -> str:
    """Return a path in the bundle for a record: scope and owner as folders, its key as the name."""
    place = record.place
    folder = f"{place.scope}/{place.id}" if place.id else str(place.scope)
    name, number = record.key, 1
    while f"{folder}/{name}.md" in files:  # the repository and the home may have the same key
        number += 1
        name = names.numbered(record.key, number)
    return f"{folder}/{name}.md"


def _index(listed: Iterable[tuple[str, Record]]) -> str:
    lines = ["---", f'okf_version: "{VERSION}"', "---", "# Memory"]
    heading = ""
    for path, record in listed:
        if str(record.place) != heading:
            heading = str(record.place)
            lines += ["", f"## {heading}", ""]
        lines.append(f"* [{_plain(record.title)}]({path}) - {_plain(record.text)}")
    return "\n".join([*lines, ""])


def _plain(text: str) -> str:
    """Return a text as one short line, without secrets and with its Markdown escaped."""
    line = " ".join(clean_text(text).split())
    short = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    return "".join(f"\\{each}" if each in "[]()<>*_`\\" else each for each in short)


def render_page(
    documents: Iterable[Pinned], records: Iterable[Record], days: Iterable[Day], *, redact: bool
) -> tuple[str, tuple[str, ...]]:
    """Return one HTML page with these texts, and the kinds of secrets redacted from them.

    Without `redact`, a secret raises SecretFound.
    """
    writer = _Writer(redact)
    body = [
        *(part for each in documents for part in writer.document(each)),
        *(part for each in counted([*records], "export") for part in writer.record(each)),
        *(part for each in days for part in writer.day(each)),
    ]
    return "".join(page("Memory", body, what="this memory")), tuple(sorted(writer.kinds))


class _Writer:
    def __init__(self, redact: bool) -> None:
        self.redact, self.kinds = redact, set[str]()

    def document(self, document: Pinned) -> Iterator[str]:
        yield self._article("assistant", f"{document.place} · {document.name}", document.path)
        yield f"<pre>{self._text(document.text, document.path)}</pre>\n</article>\n"

    def record(self, record: Record) -> Iterator[str]:
        about = [record.key, f"#{record.num}" if record.num else "", record.type, *record.tags]
        yield self._article(
            "user", " · ".join(each for each in [str(record.place), *about] if each), record.path
        )
        yield from self._entries(record.entries, record.path)
        yield "</article>\n"

    def day(self, day: Day) -> Iterator[str]:
        name = day.path.rpartition("/")[2].removesuffix(".md")
        yield self._article("other", f"{day.place} · journal · {name}", day.path)
        yield from self._entries(day.entries, day.path)
        yield "</article>\n"

    def _entries(self, entries: Iterable[Entry], where: str) -> Iterator[str]:
        for each in entries:
            line = " · ".join(filter(None, (each.time, str(each.origin) if each.origin else "")))
            text = self._text(each.text, where)
            if each.live:
                yield f"<h2>{escape(line)}</h2>\n<pre>{text}</pre>\n"
            else:
                yield f"<details><summary>{escape(line)} · superseded</summary><pre>{text}</pre></details>\n"

    def _article(self, kind: str, heading: str, where: str) -> str:
        return f'<article class="{kind}"><h2>{self._text(heading, where)}</h2>\n'

    def _text(self, text: str, where: str) -> str:
        clean, found = clean_outgoing(text, where, redact=self.redact)
        self.kinds.update(found)
        return escape(clean)
