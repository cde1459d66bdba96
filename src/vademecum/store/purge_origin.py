"""Purge of entries by origin (session, source, writer) everywhere at once, with a receipt and later checks.

First `provenance` decides which entries to delete. Then an order is written to `purges/`, with hashes
instead of texts. Then the entries are deleted file by file, each file in one step. If the process is killed,
the purge is finished from the order, even if the files that told the origin are already gone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, StorageFailed
from vademecum.store import archive, audit, decisions, files, merge, provenance, purge, tombstones
from vademecum.store.files import DiskFolder
from vademecum.store.purge import Purge, Purged
from vademecum.text import clock, document, filenames, frontmatter
from vademecum.text.document import decode
from vademecum.types import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from vademecum.store.home import Home
    from vademecum.store.tombstones import Tombstone
    from vademecum.store.workspace import Workspace
    from vademecum.types import Scope

_TRIES = 10


# -------------------------------------------------------------------- deleting


def preview(home: Home, shared: Path | None, found: provenance.PurgePlan) -> list[Purged]:
    """Return what a purge would delete, and what it would leave and report."""
    marks = {archive.fingerprint(each) for each in found.entries}

    def doomed(entry: Entry) -> bool:
        return archive.fingerprint(entry) in marks

    order = tombstones.Tombstone("", "", "", "", sessions=found.sessions, files=found.files)
    return [*_delete(home, shared, order, doomed, only=found.where, dry=True), *found.told]


def carry_out(
    home: Home, shared: Path | None, order: Tombstone, *, only: Collection[str] | None = None
) -> list[Purged]:
    """Delete everything that an order names; with `only`, change no other Markdown files than these.

    A killed deletion can be repeated: entries that are already deleted are skipped.
    """
    doomed = functools.partial(_is_doomed, tombstones.make_key(home), frozenset(order.doomed))
    return _delete(home, shared, order, doomed, only=only, dry=False)


def delete_entries(home: Home, entries: Iterable[Entry]) -> list[Purged]:
    """Delete exactly these entries everywhere in a home."""
    marks = {archive.fingerprint(each) for each in entries}
    order = tombstones.Tombstone("", "", "", "")
    return _delete(home, None, order, lambda entry: archive.fingerprint(entry) in marks, only=None, dry=False)


def _delete(
    home: Home,
    shared: Path | None,
    order: Tombstone,
    doomed: Callable[[Entry], bool],
    *,
    only: Collection[str] | None,
    dry: bool,
) -> list[Purged]:
    if not dry:
        _sweep(home, shared)
    found: list[Purged] = []
    touched: set[tuple[Path, tuple[str, ...]]] = set()
    for file in provenance.markdown(home, shared):
        if only is not None and file.where not in only:
            continue
        count = _from_markdown(home, file, doomed, order.sessions, dry=dry)
        if count:
            found.append(Purged(file.where, count))
            touched.add((file.top, file.parts[:-1]))
    for top, parts in sorted(touched) if not dry else ():
        _tidy_folder(top, parts)
    logs = {
        "/".join(parts): _from_log(home, parts, doomed, order.sessions, dry=dry)
        for parts in provenance.kept_logs(home)
    }
    found += [Purged(where, count) for where, count in logs.items() if count]
    found += [
        Purged(where, 1) for where in order.files if _delete_file(home, tuple(where.split("/")), dry=dry)
    ]
    return found


def _sweep(home: Home, shared: Path | None) -> None:
    """Remove leftovers of killed writers everywhere, since they may hold purged text."""
    purge.sweep_below(home.path, "memory", "archive", "decisions", tombstones.FOLDER)
    if shared is not None:
        purge.sweep_below(shared.parent, shared.name)


def _is_doomed(key: bytes, marks: Collection[str], entry: Entry) -> bool:
    return tombstones.entry_mark(key, entry) in marks


def _from_markdown(
    home: Home,
    file: provenance.StoredFile,
    doomed: Callable[[Entry], bool],
    sessions: Collection[str],
    *,
    dry: bool,
) -> int:
    """Delete the `doomed` entries from a file under the lock of its writers; return the number of entries.

    Confirmations by one of the `sessions` are removed as well. A `dry` run changes nothing.
    """
    without = functools.partial(strip, kind=file.kind, doomed=doomed, sessions=sessions)
    content = provenance.read_file(file)
    gone = [each for each in tombstones.read_entries(content, file.kind) if doomed(each)]
    if dry or without(content) == content:
        return len(gone)
    for each in gone:
        decisions.unverify(home, each.text)
    with (
        home.lock(purge.lock_of(home, file.top, file.parts)),
        DiskFolder.at(file.top) as top,
        top.enter(*file.parts[:-1]) as folder,
    ):
        folder.sweep()
        if file.archived:
            _replace_image(folder, file.parts[-1], without)
        else:
            _replace_file(folder, file.parts[-1], without)
        # What a writer cannot delete of its own it leaves to the next one; here it holds what must be gone.
        folder.sweep()
        folder.sync()
    return len(gone)


def _replace_file(folder: DiskFolder, name: str, without: Callable[[bytes], bytes | None]) -> None:
    """Rewrite a file without the entries; delete the file when nothing is left."""
    for _ in range(_TRIES):
        content = folder.read(name)
        if content is None or without(content) == content:
            return
        if without(content) is None:
            with contextlib.suppress(_Changed):
                folder.remove(name, functools.partial(_check_same, content))
        else:
            folder.update(name, lambda now: without(now or b"") or now or b"")
    raise StorageFailed(f"{folder.path}/{name} keeps changing; purge again when nothing writes to it")


class _Changed(Exception):
    """An error: the file was saved meanwhile."""


def _check_same(expected: bytes, content: bytes) -> None:
    if content != expected:
        raise _Changed


def _replace_image(folder: DiskFolder, name: str, without: Callable[[bytes], bytes | None]) -> None:
    """Write an archived version without the entries under a new name, then delete the original version.

    The name has to change because it contains a hash of the content.
    """
    content = folder.read(name)
    if content is None:
        return
    after = without(content)
    if after is not None:
        pieces = name.removesuffix(".md").split("-")
        fresh = "-".join((*pieces[:-1], f"{files.digest(after)[:8]}.md"))
        with contextlib.suppress(FileExistsError):
            folder.create(fresh, after)
        if fresh == name:
            return
    folder.delete(name)


def strip(
    content: bytes, *, kind: str, doomed: Callable[[Entry], bool], sessions: Collection[str] = ()
) -> bytes | None:
    """Return a file's content without the `doomed` entries; None when no entry is left.

    An entry superseded only by a deleted entry is valid again, and confirmations by one of the `sessions` are
    removed. All else stays byte for byte, and so does a malformed file.
    """
    try:
        text = decode(content)
        if kind == filenames.PINNED:
            return _without_sections(text, doomed)
        return _without_entries(text, doomed, sessions)
    except Malformed:
        return content


def _without_sections(text: str, doomed: Callable[[Entry], bool]) -> bytes | None:
    blocks = document.blocks(text)
    gone = [index for index, each in enumerate(blocks) if doomed(each)]
    if not gone:
        return text.encode()
    if len(gone) == len(blocks):
        return None
    lines = text.split("\n")
    for index in reversed(gone):
        last = blocks[index + 1].start - 1 if index + 1 < len(blocks) else len(lines)
        lines[blocks[index].start - 1 : last] = [""] if last == len(lines) else []
    return "\n".join(lines).encode()


def _without_entries(text: str, doomed: Callable[[Entry], bool], sessions: Collection[str]) -> bytes | None:
    parsed = document.parse(text)
    pairs = [*zip(parsed.entries, parsed.sections, strict=True)]
    gone = [each for each, _ in pairs if doomed(each)]
    left = [each for each, _ in pairs if not doomed(each)]
    if gone and not left:
        return None
    for entry, section in reversed(pairs):
        text = _cut(text, section) if doomed(entry) else text
    text = _lifted(text, {each.time for each in gone} - {each.time for each in left} - {None})
    shorter: str | None = text
    for part in {each.part for each in gone} - {each.part for each in left} - {None}:
        shorter = None if shorter is None else merge.without_part(shorter, str(part))
    if shorter is None:
        return None
    changes = _labels(parsed.front.values, gone, left, sessions)
    return (frontmatter.edit(shorter, changes) if changes else shorter).encode()


def _cut(text: str, section: document.Section) -> str:
    """Return the text without an entry and the blank line before it."""
    rest = text[section.end :]
    left = text[: section.start] + rest
    if not rest and left.endswith(("\n\n", "\n\r\n")):
        return left[: -2 if left.endswith("\r\n") else -1]
    return left


def _lifted(text: str, times: Collection[str | None]) -> str:
    """Return the text without the marks that refer to entries of these times.

    Such a mark says that its entry is superseded by the other entry, or contradicts it.
    """
    for index, each in enumerate(document.parse(text).entries):
        if each.superseded is not None and each.superseded in times:
            text = document.sign(document.parse(text), index, superseded="")
        if each.contradicts is not None and each.contradicts in times:
            text = document.sign(document.parse(text), index, contradicts="")
    return text


def _labels(
    values: Mapping[str, Any], gone: Sequence[Entry], left: Sequence[Entry], sessions: Collection[str]
) -> dict[str, Any]:
    """Return the frontmatter fields to change in a record from which entries were deleted."""
    changes = _unconfirmed(values.get("confirmed"), sessions)
    moments = _moments(left)
    times = {clock.stamp(each) for each in _moments(gone)} - {clock.stamp(each) for each in moments}
    for name, edge in (("created", moments[:1]), ("updated", moments[-1:])):
        if values.get(name) in times:
            changes[name] = clock.stamp(edge[0]) if edge else None
    generated = values.get("generated")
    if isinstance(generated, dict) and generated.get("at") in times:
        changes["generated"] = None
    return changes


def _moments(entries: Iterable[Entry]) -> list[datetime]:
    return sorted(moment for each in entries if (moment := clock.parse(each.time)) is not None)


def _unconfirmed(listed: object, sessions: Collection[str]) -> dict[str, Any]:
    """Return the field of confirmations without those of some sessions; empty when nothing changes."""
    confirmations = listed if isinstance(listed, list) else []
    others = [
        each for each in confirmations if not (isinstance(each, dict) and each.get("session") in sessions)
    ]
    return {} if len(others) == len(confirmations) else {"confirmed": others or None}


def _from_log(
    home: Home,
    parts: tuple[str, ...],
    doomed: Callable[[Entry], bool],
    sessions: Collection[str],
    *,
    dry: bool,
) -> int:
    """Delete the `doomed` entries from a log of acknowledged entries; return the number of entries.

    A `dry` run deletes none.
    """
    lines = [*home.lines(*parts)]
    read = [each for raw in lines if (each := provenance.kept_entry(raw)) is not None]
    gone = [each for each in read if doomed(each)]
    times = {each.time for each in gone} - {each.time for each in read if not doomed(each)}
    way = functools.partial(_rewritten_line, doomed=doomed, times=times, sessions=sessions)
    after = [line for raw in lines if (line := way(raw)) is not None]
    if dry or after == lines:
        return len(gone)
    for entry in gone:
        decisions.unverify(home, entry.text)
    with home.lock(purge.lock_of(home, home.path, parts)), home.disk(*parts[:-1]) as folder:
        if after:
            purge.rewrite_log(folder, parts[-1], way)
        else:
            folder.delete(parts[-1])
    return len(gone)


def _rewritten_line(
    raw: bytes, *, doomed: Callable[[Entry], bool], times: Collection[str | None], sessions: Collection[str]
) -> bytes | None:
    entry = provenance.kept_entry(raw)
    return None if entry is not None and doomed(entry) else _kept_line(raw, times, sessions)


def _kept_line(raw: bytes, times: Collection[str | None], sessions: Collection[str]) -> bytes:
    """Return a log line without references to deleted entries and sessions."""
    try:
        line = json.loads(raw)
        known = dict(line)
    except (ValueError, TypeError):
        return raw
    if line.get("superseded") in {*times} - {None}:
        del line["superseded"]
    if isinstance(line.get("said"), list):
        line["said"] = [each for each in line["said"] if _session_of(each) not in sessions]
    if line == known:
        return raw
    return json.dumps(line, ensure_ascii=False).encode() + raw[len(raw.rstrip(b"\n")) :]


def _session_of(value: object) -> str:
    return str(value).partition(":")[2]


def _delete_file(home: Home, parts: tuple[str, ...], *, dry: bool) -> bool:
    """Delete a whole transcript or request, unless `dry` is true; return whether the file existed."""
    try:
        with home.disk(*parts[:-1]) as folder:
            if folder.stat(parts[-1]) is None:
                return False
            if not dry:
                lock = (
                    f"{'/'.join(parts).removesuffix('.json')}"
                    if parts[:2] == provenance.REQUESTS
                    else purge.lock_of(home, home.path, parts)
                )
                with home.lock(lock):
                    folder.sweep()
                    folder.delete(parts[-1])
    except FileNotFoundError:
        return False
    return True


def _tidy_folder(top: Path, parts: tuple[str, ...]) -> None:
    """Delete the listing of a changed folder; in the archive, delete the folder itself if it is empty."""
    with contextlib.suppress(FileNotFoundError), DiskFolder.at(top) as folder:
        with folder.enter(*parts) as inner:
            left = inner.names()
            if parts[-1] == filenames.RECORDS and filenames.LISTING in left:
                inner.delete(filenames.LISTING)
        if parts[0] == "archive" and not left:
            with folder.enter(*parts[:-1]) as above:
                above.remove_folder(parts[-1])


# -------------------------------------------------------------------- what came back, and what lies elsewhere


class Returned(NamedTuple):
    """Purged text that is in a file again: whole entries, and lines or parts of other entries."""

    entries: tuple[Entry, ...]
    parts: tuple[str, ...]
    found: tuple[Purged, ...]


def returned(home: Home, shared: Path | None, *, only: Tombstone | None = None) -> Returned:
    """Return the purged texts that files contain again, after a backup or another program restored them.

    With `only`, look for the texts of one purge instead of all.
    """
    marks = tombstones.load(home)
    if marks is not None and only is not None:
        marks = tombstones.collect(marks.key, [only])
    entries: dict[str, Entry] = {}
    parts: dict[str, None] = {}
    found: list[Purged] = []
    for file in provenance.markdown(home, shared) if marks is not None else ():
        count = 0
        for entry in tombstones.read_entries(provenance.read_file(file), file.kind):
            inner = [piece for _, piece in marks.within(entry.text)] if marks is not None else []
            if inner:
                parts |= dict.fromkeys(inner)
            elif marks is not None and marks.find(entry.text) is not None:
                entries[archive.fingerprint(entry)] = entry
            else:
                continue
            count += 1
        if count:
            found.append(Purged(file.where, count))
    for path, line in provenance.kept_lines(home) if marks is not None else ():
        entry = Entry(line["text"], line["time"])
        if marks is not None and not any(marks.within(entry.text)) and marks.find(entry.text) is not None:
            entries[archive.fingerprint(entry)] = entry
            found.append(Purged("/".join(path), 1))
    return Returned(tuple(entries.values()), tuple(parts), tuple(found))


def elsewhere(root: Path, entries: Iterable[Entry]) -> list[Purged]:
    """Return files with the entries in another project's `.vade/`, to be purged from that project."""
    marks = {archive.fingerprint(each) for each in entries}
    found = []
    for file in (
        provenance.below(root, ".vade", functools.partial(provenance.shared_file, ("repository", "")))
        if marks
        else ()
    ):
        in_file = tombstones.read_entries(provenance.read_file(file), file.kind)
        count = sum(archive.fingerprint(each) in marks for each in in_file)
        if count:
            why = f"of another project; run it in {root}"
            found.append(Purged(str(root / file.where), count, gone=False, why=why, reachable=False))
    return found


# -------------------------------------------------------------------- the receipt


class Proof:
    """A purge in progress: its tombstone (a record of hashes) and, if requested, its receipt."""

    def __init__(
        self, work: Workspace, what: str, shared: Path | None, found: Iterable[Purged], *, prove: bool
    ) -> None:
        self._work, self._shared = work, shared
        moment = work.now()
        at = clock.stamp(moment)
        id = decisions.new_sitting_id(moment, at)
        self.stone = tombstones.Tombstone(id, at, work.caller.actor, what, prove=prove)
        self._before = {each.where: self._digest(each.where) for each in found if each.gone} if prove else {}

    def put(self, *, texts: Iterable[str] = (), records: Sequence[str] = (), part: str = "") -> None:
        """Save the tombstone with the marks of what will be deleted; without `prove`, save nothing."""
        if not self.stone.prove:
            return
        key = tombstones.make_key(self._work.home)
        self.stone = self.stone._replace(
            entries=tombstones.marks_of(key, texts),
            parts=(tombstones.part_of(key, part),) if part else (),
            records=tuple(records),
            done=False,
        )
        tombstones.put(self._work.home, self.stone)

    def finished(
        self, found: Sequence[Purged], *, scope: Scope | None = None, record: str | None = None
    ) -> Purge:
        """End a purge: write the audit line and, if requested, the receipt; return the purge's result."""
        work, stone = self._work, self.stone
        log = functools.partial(
            audit.write,
            work.home,
            at=work.now(),
            actor=work.caller.actor,
            client=work.caller.client,
            operation="purge",
            run=stone.id,
            scope=scope,
            record=record,
        )
        if not stone.done:
            self._settle()
        self._audit_records(found)
        if not stone.prove:
            log()
            return Purge(tuple(found))
        receipt = self._receipt(found)
        body = json.dumps(receipt, sort_keys=True, separators=(",", ":")).encode()
        log(after=body)
        mark = files.digest(body)
        receipt["audit"] = [each for each in audit.lines(work.home) if each.get("after") == mark]
        content = json.dumps(receipt, ensure_ascii=False, indent=1).encode() + b"\n"
        parts = tombstones.FOLDER, tombstones.RECEIPTS
        with work.home.lock(tombstones.FOLDER), work.home.folder(*parts, create=True) as folder:
            folder.update(f"{stone.id}.json", lambda _: content)
        return Purge(tuple(found), receipt=receipt)

    def _audit_records(self, found: Sequence[Purged]) -> None:
        """Write an audit line about each record from which the purge deleted something, for its history."""
        work, tops = self._work, {"memory": self._work.home.path, "archive": self._work.home.path}
        if self._shared is not None:
            tops[self._shared.name] = self._shared.parent
        left: dict[str, bytes | None] = {}  # the text of each record now, if it has one
        for each in found:
            first, *below = each.where.split("/")
            if each.gone and first in tops and filenames.RECORDS in below and each.where.endswith(".md"):
                with contextlib.suppress(OSError):
                    content = (tops[first] / each.where).read_bytes()
                    id = document.record_id(content)
                    if id is not None:
                        left[id] = left.get(id) if first == "archive" else content
        changes = [audit.AuditChange(id, None, content) for id, content in left.items()]
        audit.write_all(
            work.home, at=work.now(), actor=work.caller.actor, operation="purge", scope=None, changes=changes
        )

    def _receipt(self, found: Iterable[Purged]) -> dict[str, Any]:
        """Return the receipt: each place with its count and hashes of its file, but without any text."""
        places = [
            {
                "where": self._receipt_path(each.where),
                "count": each.count,
                "gone": each.gone,
                "why": each.why,
                "before": self._before.get(each.where),
                "after": self._digest(each.where) if each.gone else None,
            }
            for each in found
        ]
        stone = self.stone
        return {
            "id": stone.id,
            "at": stone.at,
            "by": stone.by,
            "what": stone.what,
            "places": places,
            "texts": stone.standing,
            "records": list(stone.records),
            "sessions": list(stone.sessions),
            "tombstone": f"{tombstones.FOLDER}/{stone.id}.json",
        }

    def _receipt_path(self, where: str) -> str:
        """Return a path as the receipt shows it, without the name of a purged record."""
        parts = where.split("/")
        at = parts.index(filenames.RECORDS) + 1 if filenames.RECORDS in parts else len(parts)
        if at >= len(parts):
            return where
        name = parts[at].removesuffix(".jsonl")
        area = [each for each in parts[:at] if each not in ("memory", "archive", archive.KEPT, "_")]
        if name.endswith(".md") and self._digest("/".join(("memory", *area, name))) is None:
            key = tombstones.make_key(self._work.home)
            parts[at] = f"[purged]-{tombstones.mark_of(key, name)[:8]}{parts[at][len(name) - 3 :]}"
        return "/".join(parts)

    def _settle(self) -> None:
        """End a purge: keep the tombstone if a proof was requested, else delete the tombstone."""
        self.stone = self.stone._replace(done=True)
        if self.stone.prove:
            tombstones.put(self._work.home, self.stone)
        else:
            tombstones.drop(self._work.home, self.stone)

    def _digest(self, where: str) -> str | None:
        """Return a file's hash; None when the file is missing or outside of memory."""
        shared = self._shared
        own = shared is not None and where.startswith(f"{shared.name}/")
        path = (shared.parent if own and shared is not None else self._work.home.path) / where
        try:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return None
