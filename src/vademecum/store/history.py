"""The history of a record or pinned document: every event once, in order, with its time and its actor.

A history belongs to a record's id, so a rename or a move keeps it. The audit has the time, kind and actor of
each event; the archive has the texts. Both name a text by its hash. An edit by hand has no line in the audit:
it is recognised where the text before a change is not the text after the last change.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed
from vademecum.named_tuple import NamedTuple
from vademecum.store import archive, audit, files
from vademecum.text import clock, document, filenames, frontmatter
from vademecum.text.document import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from vademecum.store.archive import ArchivedVersion
    from vademecum.store.home import Home, ScopeFolder
    from vademecum.types import Entry

BY_HAND = "by hand"
DELETED_BY_HAND = "deleted by hand"
ARRIVED = "arrived"
CONFLICT = "conflict"  # a text that lost to a save made meanwhile: it never was in the file
PURGE = "purge"
# Events with two lines in the audit, one for the new file and one for the old file.
_IN_TWO_LINES = frozenset({"rename", "move", "share", "unshare", "undo", "sync"})
_TOGETHER = 2  # seconds between the two lines of one event, where no run tells that they belong together
_MARK = 8  # characters of a hash by which the archive names a version


class HistoryEvent(NamedTuple):
    """One event of a history: when, what and by whom, and the texts before and after it where they are known.

    `by` is empty if nobody knows who made a change, such as one by hand. `version` is the id of the archived
    text from before the event; empty if that text was not archived, since the next text still contains it.
    """

    at: str
    what: str
    by: str = ""
    client: str = ""
    version: str = ""
    before: str | None = None
    after: str | None = None
    made: str = ""  # the time of an edit that arrived later, by a sync
    run: str = ""

    @property
    def writer(self) -> str:
        """The actor with the program, if one is known."""
        return f"{self.by} ({self.client})" if self.client else self.by


class HistorySubject(NamedTuple):
    """What a history is about: a record or document, its file, and the file's content and time of change."""

    scope_folder: ScopeFolder
    kind: str  # RECORDS or PINNED of `filenames`
    name: str
    record: str | None = None  # the record's id; None for a document, and for a record without an id
    content: bytes | None = None  # None for a file that is gone
    changed: datetime | None = None
    part: bool = False  # whether it is a part of a consolidation: then no file of its own was deleted
    lost: tuple[Entry, ...] = ()  # saved entries that an edit by hand has removed from the file


class OwnVersion(NamedTuple):
    """An archived version of a record, with the folder and the file name under which it was archived."""

    scope_folder: ScopeFolder
    name: str
    image: ArchivedVersion


@dataclass(slots=True)
class _Draft:
    """An event while the history is put together; hashes are None where there was no file."""

    at: str
    what: str
    by: str = ""
    client: str = ""
    run: str = ""
    seq: int = 0
    before_hash: str | None = None
    after_hash: str | None = None
    since: str = ""  # when the text before it was saved
    version: str = ""
    before: bytes | None = None
    after: bytes | None = None
    made: dict[str, Any] | None = None  # who made a text that arrived, and when
    derived: bool = False  # whether the text after the event was computed from a later text
    other: bool = False  # whether it is a purge that may have changed this file

    @property
    def has_texts(self) -> bool:
        return self.before_hash is not None or self.after_hash is not None


def read(
    home: Home, subject: HistorySubject, folders: Iterable[ScopeFolder] = ()
) -> tuple[list[HistoryEvent], list[ArchivedVersion]]:
    """Return the events of a record or document, oldest first, and the versions that belong to no event.

    Such a version was changed by hand before a purge. `folders` are the visible folders in which a record may
    have been under an earlier name.
    """
    lines, unnamed = _read_audit(home, subject.record)
    owned = _own_versions(home, subject, folders, lines)
    versions = [each.image for each in owned]
    marks = {each.mark for each in versions}
    if subject.content is not None:
        marks.add(files.digest(subject.content)[:_MARK])
    lines += [line for line in map(_parsed, unnamed) if line and _concerns(line, marks, lines)]
    lines.sort(key=_seq)
    drafts = _pair(_draft(line) for line in lines)
    drafts = _with_versions(home, drafts, versions)
    drafts = _with_changes_by_hand(home, drafts, subject, versions)
    _fill_texts(drafts, _contents(home, versions, subject), subject)
    used = {each.version.rpartition("-")[2] for each in drafts}
    return [_finished(each) for each in drafts], [each for each in versions if each.mark not in used]


def own_versions(
    home: Home, subject: HistorySubject, folders: Iterable[ScopeFolder] = ()
) -> list[OwnVersion]:
    """Return the archived versions of a record or document, oldest first."""
    return _own_versions(home, subject, folders, _read_audit(home, subject.record)[0])


def last_version(home: Home, record: str, folders: Iterable[ScopeFolder]) -> OwnVersion | None:
    """Return the last archived version of a record that is gone, whatever has its name now."""
    lines, _ = _read_audit(home, record)
    last = next((str(line["before"]) for line in reversed(lines) if line.get("before")), "")
    found = [
        OwnVersion(scope_folder, name, image)
        for scope_folder in (folders if last else ())
        for name in archive.names(home, scope_folder, filenames.RECORDS)
        for image in archive.images(home, scope_folder, filenames.RECORDS, name)
        if image.mark == last[:_MARK]
    ]
    return max(found, key=lambda each: each.image.at, default=None)


# ---------------------------------------------------------------- the audit


def _read_audit(home: Home, record: str | None) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Return the audit's lines about a record, and the unparsed lines that name no record."""
    named: list[dict[str, Any]] = []
    unnamed: list[bytes] = []
    wanted = b"" if record is None else f'"record":"{record}"'.encode()
    for raw in audit.raw_lines(home):
        if wanted and wanted in raw:
            line = _parsed(raw)
            named += [] if line is None else [line]
        elif b'"record":null' in raw:
            unnamed.append(raw)
    return named, unnamed


def _parsed(raw: bytes) -> dict[str, Any] | None:
    return next((line for _, line in audit.parsed([raw])), None)


def _concerns(line: dict[str, Any], marks: set[str], known: Sequence[dict[str, Any]]) -> bool:
    """Return whether a line that names no record is about a text with one of these marks, or a purge."""
    if line.get("op") == PURGE:
        return bool(known) and _is_old_purge(line)
    return any(str(line.get(each) or "")[:_MARK] in marks for each in ("before", "after"))


def _seq(line: dict[str, Any]) -> int:
    seq = line.get("seq")
    return seq if isinstance(seq, int) else 0


def _draft(line: dict[str, Any]) -> _Draft:
    return _Draft(
        str(line.get("at") or ""),
        str(line.get("op") or ""),
        str(line.get("actor") or ""),
        str(line.get("client") or ""),
        str(line.get("run") or ""),
        _seq(line),
        line.get("before") and str(line["before"]),
        line.get("after") and str(line["after"]),
        str(line.get("since") or ""),
        made=line["made"] if isinstance(line.get("made"), dict) else None,
        other=_is_old_purge(line),
    )


def _is_old_purge(line: dict[str, Any]) -> bool:
    """Return whether a line is of a purge that left no lines about the records that it changed."""
    return line.get("op") == PURGE and line.get("record") is None and not line.get("run")


def _pair(drafts: Iterable[_Draft]) -> list[_Draft]:
    """Return the events with the two lines of a rename or move as one event."""
    found: list[_Draft] = []
    for each in drafts:
        last = found[-1] if found else None
        if last is not None and _is_one_event(last, each):
            last.before_hash = last.before_hash or each.before_hash
            last.after_hash = last.after_hash or each.after_hash
            last.made = last.made or each.made
        elif not each.has_texts or each.before_hash != each.after_hash:  # else nothing was changed
            found.append(each)
    return found


def _is_one_event(one: _Draft, other: _Draft) -> bool:
    if one.what != other.what or one.what not in _IN_TWO_LINES or one.by != other.by or one.run != other.run:
        return False
    made = one if one.after_hash is not None else other
    gone = other if made is one else one
    if (
        made.before_hash is not None
        or gone.after_hash is not None
        or not (made.after_hash and gone.before_hash)
    ):
        return False
    times = clock.parse(one.at), clock.parse(other.at)
    if one.run:
        return True
    return None not in times and abs((times[1] - times[0]).total_seconds()) <= _TOGETHER  # type: ignore[operator]  # no time is None


# ---------------------------------------------------------------- the archive


def _own_versions(
    home: Home, subject: HistorySubject, folders: Iterable[ScopeFolder], lines: Sequence[dict[str, Any]]
) -> list[OwnVersion]:
    marks = {str(line[each])[:_MARK] for line in lines for each in ("before", "after") if line.get(each)}
    found: dict[tuple[str, ...], OwnVersion] = {}

    def look(scope_folder: ScopeFolder, name: str, owns: Callable[[ArchivedVersion], bool]) -> None:
        for image in archive.images(home, scope_folder, subject.kind, name):
            if image.parts not in found and owns(image):
                found[image.parts] = OwnVersion(scope_folder, name, image)

    def belongs(image: ArchivedVersion) -> bool:
        if subject.kind == filenames.PINNED or image.mark in marks:
            return True
        content = home.read(*image.parts)
        return content is not None and document.record_id(content) == subject.record

    look(subject.scope_folder, subject.name, belongs)
    if subject.kind == filenames.RECORDS and subject.record is not None:
        every = [*dict.fromkeys((subject.scope_folder, *folders))]
        names = dict.fromkeys((subject.name, *earlier_names(subject.content)))
        for scope_folder in every:
            for name in names:
                look(scope_folder, name, belongs)
        if any(line.get("op") in _IN_TWO_LINES for line in lines):
            missing = {str(line["before"])[:_MARK] for line in lines if line.get("before")}
            missing -= {each.image.mark for each in found.values()}
            for scope_folder in every if missing else ():
                for name in archive.names(home, scope_folder, subject.kind):
                    look(scope_folder, name, lambda image: image.mark in marks)
    return sorted(found.values(), key=lambda each: each.image.at)


def earlier_names(content: bytes | None) -> list[str]:
    """Return the names of the files in which a record's content was before it was renamed."""
    try:
        values = frontmatter.parse(decode(content or b"")).values
    except Malformed:
        return []
    aliases = values.get("aliases")
    return [f"{each}.md" for each in aliases if isinstance(each, str)] if isinstance(aliases, list) else []


def _contents(home: Home, versions: Iterable[ArchivedVersion], subject: HistorySubject) -> dict[str, bytes]:
    """Return the known texts by mark. A purge changes a version's text, and not its mark."""
    found = {}
    for each in versions:
        content = home.read(*each.parts)
        if content is not None:
            found[each.mark] = content
    if subject.content is not None:
        found[files.digest(subject.content)[:_MARK]] = subject.content
    return found


def _with_versions(home: Home, drafts: list[_Draft], versions: Sequence[ArchivedVersion]) -> list[_Draft]:
    """Set the archived version of each event, and add an event for each version without one.

    So versions from before the beginning of the audit are events too.
    """
    used: set[tuple[str, ...]] = set()
    for each in drafts:
        mark = (each.before_hash or "")[:_MARK]
        same = [image for image in versions if image.mark == mark and image.parts not in used]
        if mark and same:
            image = min(same, key=lambda image: abs(_seconds(image.time) - _seconds(each.at)))
            each.version = image.id
            used.add(image.parts)
    known = {(each.before_hash or "")[:_MARK] for each in drafts}
    for image in versions:
        if image.parts in used or image.mark in known or image.why == archive.HAND:
            continue
        own = _Draft(image.time, image.why, version=image.id)
        if image.why != CONFLICT:
            own.before_hash, own.before = image.mark, home.read(*image.parts)
        at = next((at for at, each in enumerate(drafts) if each.at > own.at), len(drafts))
        drafts.insert(at, own)
    for each in drafts:
        each.before = each.before or _read(home, versions, each.version)
    return drafts


def _read(home: Home, versions: Iterable[ArchivedVersion], id: str) -> bytes | None:
    return next((home.read(*image.parts) for image in versions if id and image.id == id), None)


def _seconds(stamp: str | None) -> float:
    moment = clock.parse(stamp)
    return 0.0 if moment is None else moment.timestamp()


# ---------------------------------------------------------------- changes by hand, and texts


def _with_changes_by_hand(
    home: Home, drafts: Sequence[_Draft], subject: HistorySubject, versions: Sequence[ArchivedVersion]
) -> list[_Draft]:
    """Return the events, with an event by hand wherever a text differs from that after the last change."""
    by_hand = [image for image in versions if image.why == archive.HAND]
    found: list[_Draft] = []
    last: _Draft | None = None  # the last line of the audit that names a text
    purge: _Draft | None = None  # a purge since then

    def add(now: str | None, at: str) -> None:
        left = None if last is None else last.after_hash
        if last is None or _same(left, now):
            return
        if purge is not None and left is not None and now is not None:
            made = _Draft(purge.at, PURGE, purge.by, purge.client)
        else:
            made = _Draft(at, DELETED_BY_HAND if now is None else BY_HAND)
        made.before_hash, made.after_hash = left, now
        same = (image for image in by_hand if _same(left, image.mark))
        kept = next(same, None) or next((image for image in by_hand if image.time >= last.at), None)
        if kept is not None and made.what == BY_HAND:
            by_hand.remove(kept)
            made.version, made.before = kept.id, home.read(*kept.parts)
        place = len(found)
        while made.at and place and found[place - 1].at > made.at:
            place -= 1
        found.insert(place, made)

    for each in drafts:
        if each.other:
            purge = each
            continue
        if each.has_texts and each.seq:
            if last is not None and last.after_hash is not None and each.before_hash is not None:
                fits = last.at <= each.since <= each.at
                add(each.before_hash, each.since if fits else each.at)
            last, purge = each, None
        found.append(each)
    if subject.content is not None:
        changed = "" if subject.changed is None else clock.stamp(subject.changed)
        add(files.digest(subject.content), max(changed, last.at if last is not None else ""))
    elif not subject.part:
        add(None, "")
    return found


def _same(one: str | None, other: str | None) -> bool:
    """Return whether two hashes, which may be cut to a mark, are of the same text."""
    return (one or "")[:_MARK] == (other or "")[:_MARK]


def _fill_texts(drafts: Sequence[_Draft], contents: dict[str, bytes], subject: HistorySubject) -> None:
    """Set the texts before and after each event where they are known.

    A text that only grew was not archived: it is computed from the next known text, without later entries.
    Neither was a text from before an edit by hand: it is computed from the text after the edit, with the
    entries that the edit removed.
    """
    later = subject.content
    for each in reversed(drafts):
        if each.after_hash is not None or (not each.seq and each.before_hash is not None):
            known = contents.get((each.after_hash or "")[:_MARK])
            each.derived = known is None
            each.after = known or (None if later is None else _as_of(later, each.at))
        if each.before is None and each.before_hash is not None:
            each.before = contents.get(each.before_hash[:_MARK])
        if each.before is None and each.what == BY_HAND and each.after is not None:
            each.before = _unedited(
                each.after, [entry for entry in subject.lost if _seconds(entry.time) <= _seconds(each.at)]
            )
        later = each.before or each.after or later
    earlier: bytes | None = None
    for each in drafts:
        if each.before is None and each.before_hash is not None:
            each.before = earlier
        earlier = each.after if each.has_texts else earlier


def _unedited(content: bytes, lost: Iterable[Entry]) -> bytes:
    """Return a text as it was before somebody edited it by hand, with the entries that the edit removed."""
    try:
        text = decode(content)
        for entry in lost:
            text = document.put_back(text, entry)
    except Malformed:
        return content
    return text.encode()


def _as_of(content: bytes, at: str) -> bytes:
    """Return a record's text without the entries and marks from after a moment."""
    try:
        text = decode(content)
        sections = document.parse(text).sections
    except Malformed:
        return content
    limit, whole = _seconds(at), text
    for section in reversed(sections):
        if section.time and _seconds(section.time) > limit:
            text = text[: section.start] + text[section.end :]
    if text != whole:
        text = text.rstrip() + frontmatter.line_ending(whole)
    return _SUPERSEDED.sub(lambda mark: "" if _seconds(mark[1]) > limit else mark[0], text).encode()


_SUPERSEDED = re.compile(r" \| superseded: (\S+)(?= [|-])")


def _finished(draft: _Draft) -> HistoryEvent:
    what, by, client, made = draft.what, draft.by, draft.client, ""
    if what == "sync":
        what, by, client = ARRIVED, "", ""
        was, now = _generated(draft.before), {} if draft.derived else _generated(draft.after)
        if draft.made is not None or (now and now != was):
            by, client, made = (str((draft.made or now).get(each) or "") for each in ("by", "client", "at"))
    before, after = (
        None if each is None else each.decode(errors="replace") for each in (draft.before, draft.after)
    )
    return HistoryEvent(draft.at, what, by, client, draft.version, before, after, made, draft.run)


def _generated(content: bytes | None) -> dict[str, Any]:
    with contextlib.suppress(Malformed):
        found = frontmatter.parse(decode(content or b"")).values.get("generated")
        return found if isinstance(found, dict) else {}
    return {}
