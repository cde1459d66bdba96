"""Consolidations: records that hold what several old ones said, each part whole under a heading of its own.

The entries of a part stand as they stood, with their times and origins, signed with the key they came from.
`aliases` lists the keys, so that each still answers; `parts` keeps the labels that a part had. What earlier
versions consolidated, a line for each record, has neither, and is read as the one entry that it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.store import clock, document, frontmatter, names
from vademecum.store.merge import read_tags
from vademecum.types import Entry, Origin, RecordType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from vademecum.types import Place, Record

SOURCE = "auto_decay"
TAGS = ("_consolidated", "_auto_decay")


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
    return record.source == SOURCE


def parts(record: Record) -> dict[str, Part]:
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
    for part in parts(record).values():
        if name in (part.key, part.id) or (part.num is not None and name == str(part.num)):
            return part.key
    return ""


def narrowed(record: Record, key: str) -> Record:
    """One part of a consolidation, with the names and labels it had; its path is where it stands now."""
    part = parts(record)[key]
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
    return [narrowed(record, key) for key in parts(record)] or [record]


def render(
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
        "title": title(len(listed)),
        "scope": str(place.scope),
        "scope_id": place.id or None,
        "tags": list(TAGS),
        "source": SOURCE,
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


def title(count: int) -> str:
    """What a consolidation of so many records is called."""
    return f"Consolidated {count} old {'memory' if count == 1 else 'memories'}"


def without(text: str, key: str) -> str | None:
    """A consolidation without one of its parts; None when nothing else is in it."""
    left = document.without_part(text, key)
    values = frontmatter.parse(text).values
    listed = [each for each in _list(values.get("parts")) if each.get("key") != key]
    aliases = values.get("aliases")
    names = [each for each in aliases if each != key] if isinstance(aliases, list) else []
    if not listed and not document.parse(left).entries:
        return None
    return _listing(frontmatter.edit(left, {"title": title(len(listed))}), names, listed)


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
