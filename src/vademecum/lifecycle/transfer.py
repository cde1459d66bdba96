"""From and to elsewhere: what other systems kept, CLIO's `ltm.json`, bundles and pages.

A bundle is in the Open Knowledge Format, always the same bytes.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import shutil
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Collision, Malformed, NotFound, SecretFound, UnknownName, VadeError
from vademecum.knowledge import intake as taking
from vademecum.knowledge import lessons as learned
from vademecum.knowledge import ltm as ltm_json
from vademecum.knowledge import trust as trusting
from vademecum.lifecycle import passes
from vademecum.progress import counted, watched
from vademecum.store import Found, archive, files, frontmatter, runs, scopes
from vademecum.store.document import decode
from vademecum.store.workspace import listing_order
from vademecum.text import names, secrets
from vademecum.text.outgoing import clean_text
from vademecum.transcripts import export
from vademecum.transcripts.export import escaped, page
from vademecum.types import Finding, Origin, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.knowledge.finder import Finder
    from vademecum.store import Pinned, Workspace
    from vademecum.store import runs as running
    from vademecum.store.backup import Backup
    from vademecum.store.journal import Day
    from vademecum.types import Entry, Record


class Transfer:
    """Imports and exports, as `Memory` offers them."""

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
                self._work.caller._replace(origin=Origin.IMPORT),
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
            run, told = self._written(staged.edits(), system, progress) if apply else ("", ())
            left = {each.path: each.why for each in told if not each.done}
            skipped += [taking.Skipped(path, why) for path, why in left.items()]
            mapped = [each for each in mapped if each.path not in left]
            for each in self._kept_sessions(sessions, apply=apply, progress=progress):
                if isinstance(each, taking.Mapped):
                    mapped.append(each)
                else:
                    skipped.append(each)
        report = taking.ImportReport(system, apply, run, tuple(mapped), tuple(skipped), over)
        self._index(report, progress)
        return report

    def _index(self, report: taking.ImportReport, progress: Callable[[str, int, int], None] | None) -> None:
        """Have the first search answer from all that came; trouble with that is told by the next one."""
        if not report.applied or all(each.outcome == "same" for each in report.mapped):
            return
        try:
            self._find().index(rebuild=False, check=False, progress=progress)
        except (VadeError, OSError) as error:
            self._work.index_trouble.append(str(error))

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
        self, edits: Sequence[running.Edit], system: str, progress: Callable[[str, int, int], None] | None
    ) -> tuple[str, Sequence[running.Told]]:
        """Make the edits of an import as one run."""
        project = self._work.caller.project
        for shelf in {each.shelf.label: each.shelf for each in edits}.values():
            scopes.check_new_folder(shelf)
            if project is not None and shelf.place.id == project.id:
                scopes.remember_project(self._work.home, project, at=self._work.stamp())

        proposals = [
            passes.Proposal("import", edit.path, "it was imported", (edit,), edit.shelf.place)
            for edit in edits
        ]
        with watched(progress):
            return passes.apply_proposals(self._work.records, proposals, what=f"import {system}")

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
                found_in = registry.find_transcripts_in(each.path, without=self._work.home.path)
                known: Sequence[tuple[importing.Readable, Path]] = (
                    [(each.conversation, each.path)] if each.conversation else [*found_in]
                )
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
                if kept.outcome in ("failed", "empty", "purged"):
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
    ) -> ExportedBundle:
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
            seen, findings = passes.read_places(self._work.records, places)
            trusted = [each for each in seen if each.shelf.trusted]
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

    def _exported_ltm(
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
        """Keep what an `ltm.json` of CLIO holds; read again, it adds nothing twice."""
        self._work.may_write()
        self._work.at_a_command_line("import files of this machine", "vade knowledge import")
        place = scopes.place_for(self._work.caller, scopes.parse_scope(scope))
        with self._work.reported(f"import {os.fspath(path)}"):
            value = ltm_json.parse(Path(path).read_bytes())
            caller = self._work.caller._replace(origin=Origin.IMPORT)
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

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Backup:
        """Write all memory to one file, without what can be made anew."""
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
        """Compare every file in a backup with the list that was written with it."""
        from vademecum.store import backup

        target = Path(path).expanduser()
        with self._work.reported(f"read {target}"):
            return backup.verify(target, progress=progress)

    def restore_backup(
        self, path: str | os.PathLike[str], *, progress: Callable[[str, int, int], None] | None = None
    ) -> Backup:
        """Write what a backup holds to this home, which must be empty."""
        from vademecum.store import backup

        self._work.only_a_person("restore a backup", "vade backup --restore")
        target = Path(path).expanduser()
        with self._work.reported(f"restore {target}"):
            return backup.unpack(target, self._work.home, progress=progress)

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


# ------------------------------------------------------------ bundles and pages

VERSION = "0.2"
_LONGEST = 120


class BundleLeaf(NamedTuple):
    """A record and the bytes of its file."""

    record: Record
    content: bytes


class ExportedBundle(NamedTuple):
    """What was written: where, how many files, which secrets were cut out, and what was left and why."""

    path: Path
    files: int
    secrets: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()


def make_bundle(leaves: Iterable[BundleLeaf], *, redact: bool) -> tuple[dict[str, str], tuple[str, ...]]:
    """The files of a bundle by their paths, and the kinds of secrets that were cut out of them."""
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
        path = _free(files, record)
        clean_outgoing(path, "the name of a file", redact=False)
        files[path], texts[path] = clean, clean
        listed.append((path, record))
    index, found = clean_outgoing(_index(listed), "index.md", redact=True)
    return {"index.md": index, **files}, tuple(sorted(kinds | set(found) if redact else kinds))


def clean_outgoing(text: str, where: str, *, redact: bool) -> tuple[str, tuple[str, ...]]:
    """A text as it may leave: without secrets, or not at all."""
    found = secrets.find(text)
    kinds = tuple(sorted({each.kind for each in found}))
    if found and not redact:
        raise SecretFound(
            f"{where} holds what looks like a secret: {', '.join(kinds)}",
            hint="redact it with `--redact`, or remove it from memory first",
        )
    return (secrets.redact(text, found) if found else text), kinds


def write_bundle(path: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write a bundle as an archive, when its name says so, or as a folder."""
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
    staged = _staged(path)
    try:
        with open(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(raw.getvalue())
        os.replace(staged, path)
    finally:
        staged.unlink(missing_ok=True)


def write_folder(path: Path, files: Iterable[tuple[str, str]], *, force: bool) -> int:
    """Make the folder aside and put it in place whole; into one that has files, only if told to.

    Takes the files one at a time, each a path and its text, and returns how many there were.
    """
    full = path.is_dir() and any(path.iterdir())
    if (full or (path.exists() and not path.is_dir())) and not force:
        raise Collision(f"{path} already exists", hint="choose another name, or pass --force")
    staged, count = _staged(path), 0
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


def _staged(path: Path) -> Path:
    """Where an export is made before it is put in place; what killed ones left there is removed."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        pid = left.name.split(".")[-2]
        if pid.isdecimal() and not files.is_running(int(pid)):
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def _free(files: Mapping[str, str], record: Record) -> str:
    """A path for a record: its scope, and whose it is, as folders; its key as the name."""
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
    """One short line without secrets and without anything that Markdown would act upon."""
    line = " ".join(clean_text(text).split())
    short = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    return "".join(f"\\{each}" if each in "[]()<>*_`\\" else each for each in short)


def render_page(
    documents: Iterable[Pinned], records: Iterable[Record], days: Iterable[Day], *, redact: bool
) -> tuple[str, tuple[str, ...]]:
    """The page, and the kinds of secrets that were cut out of it."""
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
            said = " · ".join(filter(None, (each.time, str(each.origin) if each.origin else "")))
            text = self._text(each.text, where)
            if each.live:
                yield f"<h2>{escaped(said)}</h2>\n<pre>{text}</pre>\n"
            else:
                yield f"<details><summary>{escaped(said)} · superseded</summary><pre>{text}</pre></details>\n"

    def _article(self, kind: str, heading: str, where: str) -> str:
        return f'<article class="{kind}"><h2>{self._text(heading, where)}</h2>\n'

    def _text(self, text: str, where: str) -> str:
        clean, found = clean_outgoing(text, where, redact=self.redact)
        self.kinds.update(found)
        return escaped(clean)
