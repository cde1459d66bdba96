"""How a text joins a record: begins it, follows in it, replaces an entry, or confirms one that says the same.

Pure text in, text out, so that the same joining can be done again on top of a person's edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vademecum.store import document, frontmatter, numbers
from vademecum.store.texts import decode
from vademecum.types import Entry, Origin, Outcome, RecordType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.store.scopes import Caller
    from vademecum.types import Place

SIGNALS = ("preference", "correction", "decision", "context", "pattern")
_CONFIRMATIONS = 5


@dataclass(frozen=True, slots=True)
class Draft:
    """A text on its way into a record, with the labels it brings along."""

    text: str
    type: RecordType | None = None
    tags: tuple[str, ...] = ()
    mode: str = "append"
    confidence: float | None = None
    protected: bool | None = None


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
        supersede: str | None = None,
    ) -> None:
        self.caller, self.place, self.key = caller, place, key
        self.draft, self.entry, self.num, self.supersede = draft, entry, num, supersede
        self.id = numbers.new_id()
        self.outcome = Outcome.CREATED

    def __call__(self, content: bytes | None) -> bytes:
        """The file with this text in it."""
        if content is None:
            self.outcome = Outcome.CREATED
            return self._begin().encode()
        parsed = document.parse(decode(content))
        if says(parsed, self.draft.text):
            self.outcome = Outcome.CONFIRMED
            return frontmatter.edit(parsed.source, self._confirmation(parsed)).encode()
        text = self._superseding(parsed)
        text = document.append(text, self.entry)
        return frontmatter.edit(text, self._labels(parsed.front.values)).encode()

    def _begin(self) -> str:
        """A new file."""
        draft, at = self.draft, self.entry.time
        values = {
            "type": str(draft.type or RecordType.PROJECT),
            "id": self.id,
            "num": self.num,
            "key": self.key,
            "title": self.key.replace("-", " ").strip().capitalize(),
            "scope": str(self.place.scope),
            "scope_id": self.place.id or None,
            "tags": list(draft.tags) or None,
            "category": category(draft.tags),
            "source": self._source(),
            "created": at,
            "updated": at,
            "generated": {"by": self.caller.actor, "at": at},
            "confidence": draft.confidence,
            "protected": draft.protected or None,
        }
        return document.append(frontmatter.edit(f"# {self.key}\n\n", values), self.entry)

    def _superseding(self, parsed: document.Document) -> str:
        """The text with the entry that this one replaces marked so."""
        self.outcome = Outcome.APPENDED
        live = [index for index, section in enumerate(parsed.sections) if section.live]
        target = None
        if self.supersede is not None:
            self.outcome = Outcome.CONSOLIDATED
            alike = (index for index in live if parsed.text_of(parsed.sections[index]) == self.supersede)
            target = next(alike, None)
        elif self.draft.mode == "replace":
            self.outcome = Outcome.REPLACED
            target = live[-1] if live else None
        if target is None:
            return parsed.source
        return document.sign(parsed, target, superseded=self.entry.time)

    def _labels(self, values: Any) -> dict[str, Any]:
        """The frontmatter keys that a new entry changes."""
        draft = self.draft
        old = read_tags(values.get("tags"))
        tags = [*old, *(tag for tag in draft.tags if tag not in old)]
        changes: dict[str, Any] = {
            "updated": self.entry.time,
            "generated": {"by": self.caller.actor, "at": self.entry.time},
        }
        if tuple(tags) != old:
            changes |= {"tags": tags, "category": values.get("category") or category(tuple(tags))}
        if not values.get("type") or (draft.type is not None and str(draft.type) != values.get("type")):
            changes["type"] = str(draft.type or RecordType.PROJECT)
        if not values.get("id"):
            changes |= {"id": self.id, "key": self.key, "scope": str(self.place.scope)}
        if self.num is not None:
            changes["num"] = self.num
        if draft.confidence is not None:
            changes["confidence"] = draft.confidence
        if draft.protected:
            changes["protected"] = True
        return changes

    def _confirmation(self, parsed: document.Document) -> dict[str, Any]:
        """One confirmation per session, the newest five."""
        mine = {"by": self.caller.actor, "session": self.caller.session or "", "at": self.entry.time}
        listed = parsed.front.values.get("confirmed")
        earlier = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        others = [
            each for each in earlier if (each.get("by"), each.get("session")) != (mine["by"], mine["session"])
        ]
        changes: dict[str, Any] = {"confirmed": [*others, mine][-_CONFIRMATIONS:]}
        if not parsed.front.values.get("type"):
            changes["type"] = str(RecordType.PROJECT)
        return changes

    def _source(self) -> str | None:
        if category(self.draft.tags):
            return "detected"
        return "user-told" if self.caller.origin is Origin.USER else None


def says(parsed: document.Document, text: str) -> bool:
    """Whether a living entry already says exactly this."""
    wanted = document.normalised(text)
    # Most entries lack some word of it, and looking for one is much cheaper than folding the whole entry. A
    # word outside ASCII may be composed differently there, so it tells nothing.
    telling = max((word for word in wanted.split(" ") if word.isascii()), key=len, default="")
    if telling not in parsed.source:
        return False
    return any(
        telling in parsed.source[section.text_start : section.text_end]
        and section.live
        and document.normalised(parsed.text_of(section)) == wanted
        for section in parsed.sections
    )


def read_tags(value: object) -> tuple[str, ...]:
    """Tags, written as a list or as words between commas."""
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    cleaned = (str(tag).strip() for tag in listed if tag is not None)
    return tuple(dict.fromkeys(tag for tag in cleaned if tag))


def category(tags: Sequence[str]) -> str | None:
    """The first tag that names a signal."""
    return next((tag for tag in tags if tag in SIGNALS), None)
