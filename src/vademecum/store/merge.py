"""How texts join in one record: a text begins it, follows in it, replaces an entry, or confirms what it says.

Pure text in, text out, so that the same joining can be done again on top of a person's edit.

A consolidation is a record that holds what several old ones said, each part whole under a heading of its own.
The entries of a part stand as they stood, with their times and origins, signed with the key they came from.
`aliases` lists the keys, so that each still answers; `parts` keeps the labels that a part had. What earlier
versions consolidated, a line for each record, has neither, and is read as the one entry that it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.store import document, frontmatter
from vademecum.store.document import decode
from vademecum.text import clock, names, normalise
from vademecum.types import UNDATED, Entry, Origin, Outcome, RecordType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vademecum.store.scopes import Caller
    from vademecum.types import Place, Record

    Verified = Callable[[str], bool]
    from collections.abc import Iterable
    from datetime import datetime

SIGNALS = ("preference", "correction", "decision", "context", "pattern")
_CONFIRMATIONS = 5


class Draft(NamedTuple):
    """A text on its way into a record, with the labels it brings along."""

    text: str
    type: RecordType | None = None
    tags: tuple[str, ...] = ()
    mode: str = "append"
    confidence: float | None = None
    protected: bool | None = None
    name: str = ""  # the words its key is made from, when not its own first ones
    wanted: str = ""  # the key that those make, which may be taken
    labels: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None  # its own, joined to a record's
    cites: str | None = None  # fingerprints of the code it cites
    team: str = ""  # the workspace of the team that it is for, if it is for one


class Known(NamedTuple):
    """The record that already teaches a lesson, and the entry that does.

    It `stays` as it is worded when it says more than the new text, or came from someone trusted more.
    """

    record: Record
    entry: Entry
    stays: bool


class Joining:
    """How one text joins one file: a function of the file's content that remembers what it did."""

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
        self._held = False

    def __call__(self, content: bytes | None) -> bytes:
        """The file with this text in it."""
        self.said, self.superseded, self.beside = None, (), None
        if content is None:
            self.outcome = Outcome.CREATED
            return self._begin().encode()
        parsed = document.parse(decode(content))
        self._held = self._is_a_persons(parsed)
        said = saying(parsed, self.draft.text)
        if said is not None and (not self._replaces_last or said == _living(parsed)[-1]):
            text = self._confirm(parsed, said)
            self._stands_beside(parsed, said)
            return text.encode()
        text = self._superseding(parsed)
        mark = None if self.beside is None else self.beside.time or UNDATED
        text = document.append(text, replace(self.entry, contradicts=mark))
        return frontmatter.edit(text, self._changes(parsed.front.values)).encode()

    @property
    def _replaces_last(self) -> bool:
        return self.draft.mode == "replace" and self.supersede is None

    def _is_a_persons(self, parsed: document.Document) -> bool:
        """Whether the record's labels are not the caller's to change."""
        if self.verified is None:
            return False
        if is_guarded(parsed.front.values):
            return True
        return any(is_persons(each, self.verified) for each in parsed.entries)

    def _may_take(self, parsed: document.Document, entry: Entry) -> bool:
        """Whether this text may take the place of an entry."""
        if self.verified is None:
            return True
        return not is_guarded(parsed.front.values) and not is_persons(entry, self.verified)

    @property
    def _protector(self) -> str | None:
        """Who protects a record, where it is not a person: then it is kept from age and number alone."""
        return None if self.caller.origin is Origin.USER else str(Origin.AGENT)

    def _begin(self) -> str:
        """A new file."""
        draft, at = self.draft, self.entry.time
        values: dict[str, Any] = {
            "type": str(draft.type or RecordType.PROJECT),
            "id": self.id,
            "num": self.num,
            "key": self.key,
            "title": names.title(self.key, self.draft.wanted),
            "scope": str(self.place.scope),
            "scope_id": self.place.id or None,
            "tags": list(draft.tags) or None,
            "category": category(draft.tags),
            "source": self._source(),
            "created": at,
            "updated": at,
            "generated": {**self.caller.provenance, "at": at},
            "confidence": draft.confidence,
            "protected": draft.protected or None,
            "protected_by": self._protector if draft.protected else None,
        }
        if draft.labels is not None:
            values |= {"confirmed": self._confirmations({}), **draft.labels({})}
        return document.append(frontmatter.edit(f"# {self.key}\n\n", values), self.entry)

    def _superseding(self, parsed: document.Document) -> str:
        """The text with the entry that this one replaces marked so."""
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
        held = [index for index in targets if not self._may_take(parsed, entries[index])]
        if held:
            # What says the same in other words only stands beside; a replacement waits for a person.
            self.outcome = Outcome.APPENDED if self.supersede is not None else Outcome.WAITING
            self.beside = None if self.supersede is not None else entries[held[0]]
            targets = [index for index in targets if index not in held]
        self.superseded = tuple(replace(entries[index], superseded=self.entry.time) for index in targets)
        text = parsed.source
        for index in targets:
            text = document.sign(document.parse(text), index, superseded=self.entry.time)
        return text

    def _stands_beside(self, parsed: document.Document, said: int) -> None:
        """A replacement that is asked for again still waits."""
        for index in _contradicted(parsed, said) if self._replaces_last else ():
            if not self._may_take(parsed, parsed.entries[index]):
                self.outcome, self.beside = Outcome.WAITING, parsed.entries[index]

    def _changes(self, values: Any) -> dict[str, Any]:
        """The frontmatter keys that a new entry changes."""
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
        """The labels that the text brings along, where they differ."""
        draft = self.draft
        if self._held:
            return self._counted(values)
        old = read_tags(values.get("tags"))
        tags = [*old, *(tag for tag in draft.tags if tag not in old)]
        changes: dict[str, Any] = {}
        if tuple(tags) != old:
            changes |= {"tags": tags, "category": values.get("category") or category(tuple(tags))}
        if not values.get("type") or (draft.type is not None and str(draft.type) != values.get("type")):
            changes["type"] = str(draft.type or RecordType.PROJECT)
        if draft.confidence is not None:
            changes["confidence"] = draft.confidence
        if draft.protected and (values.get("protected") is not True or self._protector is None):
            changes |= {"protected": True, "protected_by": self._protector}
        return changes if draft.labels is None else changes | draft.labels(values)

    def _counted(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What a text of lower trust may add to a person's record: that it was learned once more."""
        told = {} if self.draft.labels is None else self.draft.labels(values)
        known = values.get("confidence")
        surer = told.get("confidence")
        if isinstance(surer, int | float) and isinstance(known, int | float) and surer < known:
            surer = None
        counted = {"learned": told.get("learned"), "confidence": surer}
        return {name: value for name, value in counted.items() if value is not None}

    @property
    def _session(self) -> str:
        return self.caller.conversation or self.caller.session or ""

    def _confirmations(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """One confirmation per session, the newest five."""
        mine = {"by": self.caller.actor, "session": self._session, "at": self.entry.time}
        listed = values.get("confirmed")
        earlier = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        others = [
            each for each in earlier if (each.get("by"), each.get("session")) != (mine["by"], mine["session"])
        ]
        return [*others, mine][-_CONFIRMATIONS:]

    def _confirm(self, parsed: document.Document, said: int) -> str:
        """The text with this confirmation, and the labels."""
        self.outcome = Outcome.CONFIRMED
        entries = parsed.entries
        self.said = entries[said]
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
    """Whether a person protected a record, and not a program its own text."""
    return values.get("protected") is True and values.get("protected_by") != str(Origin.AGENT)


def is_persons(entry: Entry, verified: Verified) -> bool:
    """Whether a living entry is a person's: they wrote it, or verified exactly this text."""
    return entry.live and ((entry.origin or Origin.USER) is Origin.USER or verified(entry.text))


def may_supersede(record: Record, entry: Entry, *, origin: Origin) -> bool:
    """Whether a text may, unasked, take the place of one it resembles: none protected or more trusted."""
    return not record.protected and origin.rank <= (entry.origin or Origin.USER).rank


def saying(parsed: document.Document, text: str) -> int | None:
    """The last living entry that already says exactly this."""
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
    """The living entry that another one only stands beside."""
    entries = parsed.entries
    mark = entries[index].contradicts
    before = [each for each in _living(parsed) if each < index and (entries[each].time or UNDATED) == mark]
    return before[-1:] if mark else []


def _living(parsed: document.Document) -> list[int]:
    return [index for index, section in enumerate(parsed.sections) if section.live]


def read_tags(value: object) -> tuple[str, ...]:
    """Tags, written as a list or as words between commas."""
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    cleaned = (str(tag).strip() for tag in listed if tag is not None)
    return tuple(dict.fromkeys(tag for tag in cleaned if tag))


def category(tags: Sequence[str]) -> str | None:
    """The first tag that names a signal."""
    return next((tag for tag in tags if tag in SIGNALS), None)


CONSOLIDATED = "auto_decay"
CONSOLIDATED_TAGS = ("_consolidated", "_auto_decay")


class Part(NamedTuple):
    """A record among those that were consolidated: its names and labels, and when it was last said."""

    key: str
    said: str
    type: str = RecordType.PROJECT
    num: int | None = None
    id: str | None = None
    tags: tuple[str, ...] = ()
    title: str = ""  # where it is more than the key in other letters

    def as_fields(self) -> dict[str, Any]:
        """As it stands in the frontmatter."""
        told: dict[str, Any] = {"key": self.key, "num": self.num, "id": self.id, "type": self.type}
        told |= {"said": self.said, "tags": list(self.tags), "title": self.title}
        return {name: value for name, value in told.items() if value not in (None, "", [])}


def is_consolidation(record: Record) -> bool:
    """Whether a record holds what others said."""
    return record.source == CONSOLIDATED


def parts_of(record: Record) -> dict[str, Part]:
    """The records that one holds, by key; none for what an earlier version consolidated."""
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


def part_named(record: Record, name: str) -> str:
    """The key of the part that answers to a key, number or id; empty when none does."""
    for part in parts_of(record).values():
        if name in (part.key, part.id) or (part.num is not None and name == str(part.num)):
            return part.key
    return ""


def narrowed(record: Record, key: str) -> Record:
    """One part of a consolidation, with the names and labels it had; its path is where it stands now."""
    part = parts_of(record)[key]
    own = tuple(each for each in record.entries if each.part == key)
    return replace(
        record,
        key=part.key,
        id=part.id,
        num=part.num,
        type=part.type,
        title=part.title or usual_title(part.key),
        tags=part.tags,
        created=min((each.time for each in own if each.time), default=part.said),
        updated=part.said,
        source=None,
        entries=own,
        fields={"confirmed": [{"at": part.said}]},
    )


def spread(record: Record) -> list[Record]:
    """A record as the topics it has: one, or of a consolidation each part."""
    return [narrowed(record, key) for key in parts_of(record)] or [record]


def render_consolidation(
    key: str, members: Sequence[tuple[Part, Record]], *, place: Place, actor: str, now: datetime
) -> str:
    """The file that holds some records: whole, the one that was said last at the end."""
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
            text = document.append(text, held(entry, part))
    return text


def held(entry: Entry, part: Part) -> Entry:
    """An entry as it stands in a consolidation; one without a time is as old as its record."""
    time = entry.time if clock.parse(entry.time) else part.said
    return replace(entry, time=time, origin=entry.origin or Origin.USER, part=part.key)


def usual_title(key: str) -> str:
    """The title of a record that nobody gave one."""
    return key.replace("-", " ").strip().capitalize()


def consolidation_title(count: int) -> str:
    """What a consolidation of so many records is called."""
    return f"Consolidated {count} old {'memory' if count == 1 else 'memories'}"


def without_part(text: str, key: str) -> str | None:
    """A consolidation without one of its parts; None when nothing else is in it."""
    left = document.without_part(text, key)
    values = frontmatter.parse(text).values
    listed = [each for each in _list(values.get("parts")) if each.get("key") != key]
    aliases = values.get("aliases")
    names = [each for each in aliases if each != key] if isinstance(aliases, list) else []
    if not listed and not document.parse(left).entries:
        return None
    return _listing(frontmatter.edit(left, {"title": consolidation_title(len(listed))}), names, listed)


def revived(record: Record) -> str:
    """The file of a part as a record of its own again, from what the consolidation knows of it."""
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
    """A consolidation with these keys and parts in its frontmatter, one a line: people read it too."""
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
