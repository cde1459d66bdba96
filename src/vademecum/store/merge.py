"""Ways to join a text to one record: begin it, append, replace an entry, or confirm an equal entry.

All functions take and return text, so that the same change can be repeated on top of a person's edit.

A consolidation is a record that holds several old records, each whole under a heading of its own. The
entries of such a part keep their times and origins and are signed with the old record's key. The field
`aliases` lists the old keys, which still find the part; `parts` keeps the old records' fields.
A consolidation without these fields is read as a single entry.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vademecum.fields import read_tags
from vademecum.named_tuple import NamedTuple
from vademecum.text import clock, document, frontmatter, names, normalise
from vademecum.text.document import decode
from vademecum.types import UNDATED, Entry, Origin, Outcome, RecordType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vademecum.store.scopes import Caller
    from vademecum.types import Place, Record

    Verified = Callable[[str], bool]
    from collections.abc import Iterable
    from datetime import datetime

SIGNALS = ("preference", "rule", "correction", "decision", "fact", "context", "pattern")
_CONFIRMATIONS = 5


class Draft(NamedTuple):
    """A text to be saved in a record, with the fields to be saved with it."""

    text: str
    type: RecordType | None = None
    tags: tuple[str, ...] = ()
    mode: str = "append"
    fields: Mapping[str, Any] = MappingProxyType({})  # values of other fields, by the name of their key
    protected: bool | None = None
    name: str = ""  # the words its key is made from, when not its own first ones
    wanted: str = ""  # the key that those make, which may be taken
    labels: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None  # its own, joined to a record's
    cites: str | None = None  # fingerprints of the code it cites
    team: str = ""  # the workspace of the team that it is for, if it is for one
    title: str = ""  # of a new record; without one, its key as words


class Known(NamedTuple):
    """The record and the entry that already hold a lesson.

    `stays` is true if the entry keeps its wording: it says more than the new text or is more trusted.
    """

    record: Record
    entry: Entry
    stays: bool


class Joining:
    """The change that adds one text to one file; it can be applied repeatedly, and keeps its last result."""

    def __init__(
        self,
        draft: Draft,
        entry: Entry,
        *,
        caller: Caller,
        place: Place,
        key: str,
        num: int | None,
        id: str,
        supersede: str | None = None,
        verified: Verified | None = None,
    ) -> None:
        self.caller, self.place, self.key = caller, place, key
        self.draft, self.entry, self.num, self.supersede = draft, entry, num, supersede
        self.id = id
        self.outcome = Outcome.CREATED
        self.said: Entry | None = None  # the living entry that this text confirmed
        self.superseded: tuple[Entry, ...] = ()  # the entries whose place it has taken
        self.verified = verified  # None when the caller need not mind what a person wrote or verified
        self.beside: Entry | None = None  # a person's entry whose place it would have taken
        self._needs_person = False

    def __call__(self, content: bytes | None) -> bytes:
        """Return the file's content with the text added or confirmed; None stands for a missing file."""
        self.said, self.superseded, self.beside = None, (), None
        if content is None:
            self.outcome = Outcome.CREATED
            return self._begin().encode()
        parsed = document.parse(decode(content))
        self._needs_person = self._belongs_to_person(parsed)
        index = saying(parsed, self.draft.text)
        if index is not None and (not self._replaces_last or index == _living(parsed)[-1]):
            text = self._confirm(parsed, index)
            self._wait_for_decision(parsed, index)
            return text.encode()
        text = self._supersede(parsed)
        mark = None if self.beside is None else self.beside.time or UNDATED
        text = document.append(text, replace(self.entry, contradicts=mark))
        return frontmatter.edit(text, self._changes(parsed.front.values)).encode()

    @property
    def _replaces_last(self) -> bool:
        return self.draft.mode == "replace" and self.supersede is None

    def _belongs_to_person(self, parsed: document.Document) -> bool:
        """Return whether the record's fields belong to a person, so that the caller must not change them."""
        if self.verified is None:
            return False
        if is_guarded(parsed.front.values):
            return True
        return any(is_persons(each, self.verified) for each in parsed.entries)

    def _may_take(self, parsed: document.Document, entry: Entry) -> bool:
        """Return whether this text may supersede the given entry."""
        if self.verified is None:
            return True
        return not is_guarded(parsed.front.values) and not is_persons(entry, self.verified)

    @property
    def _protector(self) -> str | None:
        """Return the value of `protected_by`: None for a person, else `agent` (prevents only archiving)."""
        return None if self.caller.decides else str(Origin.AGENT)

    def _begin(self) -> str:
        """Render a new record."""
        draft, at = self.draft, self.entry.time
        values: dict[str, Any] = {
            "type": str(draft.type or RecordType.PROJECT),
            "id": self.id,
            "num": self.num,
            "key": self.key,
            "title": draft.title or names.title(self.key, draft.wanted),
            "scope": str(self.place.scope),
            "scope_id": self.place.id or None,
            "tags": list(draft.tags) or None,
            "category": category(draft.tags),
            "source": self._source(),
            "created": at,
            "updated": at,
            "generated": {**self.caller.provenance, "at": at},
            "confidence": None,  # its place in the file
            **draft.fields,
            "protected": draft.protected or None,
            "protected_by": self._protector if draft.protected else None,
        }
        if draft.labels is not None:
            values |= {"confirmed": self._confirmations({}), **draft.labels({})}
        return document.append(frontmatter.edit(f"# {self.key}\n\n", values), self.entry)

    def _supersede(self, parsed: document.Document) -> str:
        """Return the file's text with the entries to be replaced marked as superseded.

        Set `outcome`, `superseded` and, if a person must decide, `beside`.
        """
        self.outcome = Outcome.REPLACED if self._replaces_last else Outcome.APPENDED
        if self.entry.superseded is not None:  # kept, and the wording that stands there stays
            self.outcome = Outcome.CONSOLIDATED
            return parsed.source
        live = _living(parsed)
        targets: list[int] = []
        if self.supersede is not None:
            alike = (index for index in live if parsed.text_of(parsed.sections[index]) == self.supersede)
            targets = [index for index in [next(alike, None)] if index is not None]
            self.outcome = Outcome.CONSOLIDATED if targets else Outcome.APPENDED
        elif self._replaces_last and live:
            # A text that only stands beside another goes together with that one.
            targets = [*_contradicted(parsed, live[-1]), live[-1]]
        entries = parsed.entries
        refusals = [index for index in targets if not self._may_take(parsed, entries[index])]
        if refusals:
            # What says the same in other words only stands beside; a replacement waits for a person.
            self.outcome = Outcome.APPENDED if self.supersede is not None else Outcome.WAITING
            self.beside = None if self.supersede is not None else entries[refusals[0]]
            targets = [index for index in targets if index not in refusals]
        self.superseded = tuple(replace(entries[index], superseded=self.entry.time) for index in targets)
        text = parsed.source
        for index in targets:
            text = document.sign(document.parse(text), index, superseded=self.entry.time)
        return text

    def _wait_for_decision(self, parsed: document.Document, position: int) -> None:
        """Set the outcome to waiting if the confirmed text still waits to replace a person's entry."""
        for index in _contradicted(parsed, position) if self._replaces_last else ():
            if not self._may_take(parsed, parsed.entries[index]):
                self.outcome, self.beside = Outcome.WAITING, parsed.entries[index]

    def _changes(self, values: Any) -> dict[str, Any]:
        """Return the frontmatter fields that a new entry changes."""
        changes: dict[str, Any] = {
            "updated": self.entry.time,
            "generated": {**self.caller.provenance, "at": self.entry.time},
        }
        if self.draft.labels is not None:
            changes["confirmed"] = self._confirmations(values)
        changes |= self._labels(values)
        if self.entry.live and "verified" in values:
            changes["verified"] = None  # it was said of another text
        if not values.get("id"):
            changes |= {"id": self.id, "key": self.key, "scope": str(self.place.scope)}
        if self.num is not None:
            changes["num"] = self.num
        return changes

    def _labels(self, values: Any) -> dict[str, Any]:
        """Return the draft's fields that differ from the record's; for a person's record, only counters."""
        draft = self.draft
        if self._needs_person:
            return self._counted(values)
        old = read_tags(values.get("tags"))
        tags = [*old, *(tag for tag in draft.tags if tag not in old)]
        changes: dict[str, Any] = {}
        if tuple(tags) != old:
            changes |= {"tags": tags, "category": values.get("category") or category(tuple(tags))}
        if not values.get("type") or (draft.type is not None and str(draft.type) != values.get("type")):
            changes["type"] = str(draft.type or RecordType.PROJECT)
        changes |= {name: value for name, value in draft.fields.items() if values.get(name) != value}
        if draft.protected and (values.get("protected") is not True or self._protector is None):
            changes |= {"protected": True, "protected_by": self._protector}
        return changes if draft.labels is None else changes | draft.labels(values)

    def _counted(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that a less trusted text may change in a person's record: counters only."""
        labels = {} if self.draft.labels is None else self.draft.labels(values)
        known = values.get("confidence")
        surer = labels.get("confidence")
        if isinstance(surer, int | float) and isinstance(known, int | float) and surer < known:
            surer = None
        counted = {"learned": labels.get("learned"), "confidence": surer}
        return {name: value for name, value in counted.items() if value is not None}

    @property
    def _session(self) -> str:
        return self.caller.conversation or self.caller.session or ""

    def _confirmations(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the five newest confirmations, one per actor and session, the caller's own as the last."""
        mine = {"by": self.caller.actor, "session": self._session, "at": self.entry.time}
        listed = values.get("confirmed")
        earlier = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        others = [
            each for each in earlier if (each.get("by"), each.get("session")) != (mine["by"], mine["session"])
        ]
        return [*others, mine][-_CONFIRMATIONS:]

    def _confirm(self, parsed: document.Document, index: int) -> str:
        """Return the file's text with the caller's confirmation and the changed fields."""
        self.outcome = Outcome.CONFIRMED
        entries = parsed.entries
        self.said = entries[index]
        at = self.said.time
        self.superseded = tuple(each for each in entries if at is not None and each.superseded == at)
        values = parsed.front.values
        changes = {"confirmed": self._confirmations(values), **self._labels(values)}
        return frontmatter.edit(parsed.source, changes)

    def _source(self) -> str | None:
        if category(self.draft.tags):
            return "detected"
        return "user-told" if self.caller.origin is Origin.USER else None


def is_guarded(values: Mapping[str, Any]) -> bool:
    """Return whether a person protected the record; a protection by an agent gives False."""
    return values.get("protected") is True and values.get("protected_by") != str(Origin.AGENT)


def is_persons(entry: Entry, verified: Verified) -> bool:
    """Return whether an entry still holds, and a person wrote it or verified exactly its text."""
    return entry.live and ((entry.origin or Origin.USER) is Origin.USER or verified(entry.text))


def may_supersede(record: Record, entry: Entry, *, origin: Origin) -> bool:
    """Return whether a text of this origin may supersede a similar entry without a person's decision.

    It may not if the record is protected or the entry is more trusted than the text.
    """
    return not record.protected and origin.rank <= (entry.origin or Origin.USER).rank


def saying(parsed: document.Document, text: str) -> int | None:
    """Return the index of the last entry that still holds and has exactly this text, else None."""
    wanted = normalise(text)
    # Most entries lack some word of it, and looking for one is much cheaper than folding the whole entry. A
    # word outside ASCII may be composed differently there, so it tells nothing.
    telling = max((word for word in wanted.split(" ") if word.isascii()), key=len, default="")
    if any(word.isascii() and word not in parsed.source for word in wanted.split(" ")):
        return None
    for index, section in reversed([*enumerate(parsed.sections)]):
        if (
            telling in parsed.source[section.text_start : section.text_end]
            and section.live
            and normalise(parsed.text_of(section)) == wanted
        ):
            return index
    return None


def _contradicted(parsed: document.Document, index: int) -> list[int]:
    """Return the index of the valid entry that the given entry contradicts, in a list; empty when none."""
    entries = parsed.entries
    mark = entries[index].contradicts
    before = [each for each in _living(parsed) if each < index and (entries[each].time or UNDATED) == mark]
    return before[-1:] if mark else []


def _living(parsed: document.Document) -> list[int]:
    return [index for index, section in enumerate(parsed.sections) if section.live]


def category(tags: Sequence[str]) -> str | None:
    """Return the first tag that names a signal, else None."""
    return next((tag for tag in tags if tag in SIGNALS), None)


CONSOLIDATED = "auto_decay"
CONSOLIDATED_TAGS = ("_consolidated", "_auto_decay")


class Part(NamedTuple):
    """A former record inside a consolidation: its keys, its fields, and the time of its last entry."""

    key: str
    said: str
    type: str = RecordType.PROJECT
    num: int | None = None
    id: str | None = None
    tags: tuple[str, ...] = ()
    title: str = ""  # where it is more than the key in other letters

    def as_fields(self) -> dict[str, Any]:
        """Return the part as it is written in the frontmatter."""
        fields: dict[str, Any] = {"key": self.key, "num": self.num, "id": self.id, "type": self.type}
        fields |= {"said": self.said, "tags": list(self.tags), "title": self.title}
        return {name: value for name, value in fields.items() if value not in (None, "", [])}


def is_consolidation(record: Record) -> bool:
    """Return whether a record is a consolidation of other records."""
    return record.source == CONSOLIDATED


def parts_of(record: Record) -> dict[str, Part]:
    """Return the parts of a consolidation by key; empty for any other record."""
    listed = record.fields.get("parts") if is_consolidation(record) else None
    found = {}
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and each.get("key"):
            num, kind = each.get("num"), str(each.get("type") or RecordType.PROJECT)
            own = str(each["id"]) if each.get("id") else None
            part = Part(
                str(each["key"]),
                str(each.get("said") or ""),
                kind,
                num if type(num) is int else None,
                own,
                read_tags(each.get("tags")),
                str(each.get("title") or ""),
            )
            found[part.key] = part
    return found


def find_part_key(record: Record, name: str) -> str:
    """Return the key of the part with this key, number or id; empty when there is none."""
    for part in parts_of(record).values():
        if name in (part.key, part.id) or (part.num is not None and name == str(part.num)):
            return part.key
    return ""


def narrowed(record: Record, key: str) -> Record:
    """Return one part of a consolidation as a record with the consolidation's path."""
    part = parts_of(record)[key]
    own = tuple(each for each in record.entries if each.part == key)
    return replace(
        record,
        key=part.key,
        id=part.id,
        num=part.num,
        type=part.type,
        title=part.title or default_title(part.key),
        tags=part.tags,
        created=min((each.time for each in own if each.time), default=part.said),
        updated=part.said,
        source=None,
        entries=own,
        fields={"confirmed": [{"at": part.said}]},
    )


def spread(record: Record) -> list[Record]:
    """Return the parts of a consolidation as records; for any other record, only itself."""
    return [narrowed(record, key) for key in parts_of(record)] or [record]


def render_consolidation(
    key: str, members: Sequence[tuple[Part, Record]], *, place: Place, actor: str, now: datetime
) -> str:
    """Return the text of a consolidation of some records, each whole, the most recent one last."""
    listed = sorted(members, key=lambda each: (each[0].said, each[0].key))
    at = clock.stamp(now)
    begun = [record.created or entry.time for _, record in listed for entry in record.entries[:1]]
    values = {
        "type": str(RecordType.PROJECT),
        "id": names.new_id(),
        "key": key,
        "title": consolidation_title(len(listed)),
        "scope": str(place.scope),
        "scope_id": place.id or None,
        "tags": list(CONSOLIDATED_TAGS),
        "source": CONSOLIDATED,
        "created": min((each for each in begun if each), default=at),
        "updated": max((part.said for part, _ in listed), default=at),
        "generated": {"by": actor, "at": at},
    }
    aliases = [part.key for part, _ in listed]
    text = frontmatter.edit(f"# {key}\n\n", values)
    text = _listing(text, aliases, [part.as_fields() for part, _ in listed])
    for part, record in listed:
        for entry in record.entries:
            text = document.append(text, entry_of_part(entry, part))
    return text


def entry_of_part(entry: Entry, part: Part) -> Entry:
    """Return an entry as written into a consolidation; without a valid time, it gets that of its part."""
    time = entry.time if clock.parse(entry.time) else part.said
    return replace(entry, time=time, origin=entry.origin or Origin.USER, part=part.key)


def default_title(key: str) -> str:
    """Return the default title of a record, made from its key."""
    return key.replace("-", " ").strip().capitalize()


def consolidation_title(count: int) -> str:
    """Return the title of a consolidation of this many records."""
    return f"Consolidated {count} old {'memory' if count == 1 else 'memories'}"


def without_part(text: str, key: str) -> str | None:
    """Return a consolidation's text without one part; None when no other content is left."""
    left = document.without_part(text, key)
    values = frontmatter.parse(text).values
    listed = [each for each in _list(values.get("parts")) if each.get("key") != key]
    aliases = values.get("aliases")
    names = [each for each in aliases if each != key] if isinstance(aliases, list) else []
    if not listed and not document.parse(left).entries:
        return None
    return _listing(frontmatter.edit(left, {"title": consolidation_title(len(listed))}), names, listed)


def render_part(record: Record) -> str:
    """Return a part's text as a separate record, with the fields that the consolidation keeps."""
    values = {
        "type": record.type,
        "id": record.id or names.new_id(),
        "num": record.num,
        "key": record.key,
        "title": record.title,
        "scope": str(record.place.scope),
        "scope_id": record.place.id or None,
        "tags": list(record.tags) or None,
        "created": record.created,
        "updated": record.updated,
    }
    text = frontmatter.edit(f"# {record.key}\n\n", values)
    for entry in record.entries:
        text = document.append(text, replace(entry, part=None))
    return text


def _listing(text: str, aliases: Sequence[object], parts: Sequence[dict[str, Any]]) -> str:
    """Write the fields `aliases` and `parts` into a consolidation's frontmatter, one line for each part."""
    bare = frontmatter.edit(text, {"aliases": None, "parts": None})
    newline = frontmatter.line_ending(bare)
    lines: list[str] = []
    for name, values in (("aliases", aliases), ("parts", parts)):
        if values:
            lines += [f"{name}:", *(f"  - {frontmatter.render(each)}" for each in values)]
    closing = bare.rindex("---", 0, frontmatter.parse(bare).body)
    return bare[:closing] + "".join(f"{line}{newline}" for line in lines) + bare[closing:]


def _list(value: object) -> Iterable[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
