"""Memory on its way out: a bundle in the Open Knowledge Format, always the same bytes, and one web page."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Collision, Malformed, SecretFound
from vademecum.store import frontmatter, names, secrets
from vademecum.store.outgoing import clean_text
from vademecum.store.validate import decode
from vademecum.transcripts.export import escaped, page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from vademecum.store import Pinned
    from vademecum.store.journal import Day
    from vademecum.types import Entry, Record


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
    for record, content in ordered:
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
            hint="cut it out with `--redact`, or take it out of memory first",
        )
    return (secrets.redact(text, found) if found else text), kinds


def write_bundle(path: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write a bundle as an archive, when its name says so, or as a folder."""
    if path.name.endswith((".tar.gz", ".tgz")):
        _write_archive(path, files, force=force)
    else:
        _write_folder(path, files, force=force)


def _write_archive(path: Path, files: Mapping[str, str], *, force: bool) -> None:
    if path.exists() and not force:
        raise Collision(f"{path} is there already", hint="choose another name, or pass --force")
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
    staged = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(raw.getvalue())
        os.replace(staged, path)
    finally:
        staged.unlink(missing_ok=True)


def _write_folder(path: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Make the folder aside and put it in place whole; into one that has files, only if told to."""
    full = path.is_dir() and any(path.iterdir())
    if (full or (path.exists() and not path.is_dir())) and not force:
        raise Collision(f"{path} is there already", hint="choose another name, or pass --force")
    staged = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        for name, text in files.items():
            target = staged / name
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(text.encode())
        if not full:
            if path.is_dir():
                path.rmdir()
            os.replace(staged, path)
            return
        for name in files:  # what else lies there is not ours to take away
            (path / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.replace(staged / name, path / name)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


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
        *(part for each in records for part in writer.record(each)),
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
