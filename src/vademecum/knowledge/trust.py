"""How far a text may be trusted: who said it, who confirmed it, and whether it may be put before an agent.

What a file claims of itself counts for nothing here. A person's word is a decision in the home, by the exact
text; which sessions said a thing is in the home's own log, written from who was calling and from nothing that
a call could say.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from vademecum.store import archive, decisions
from vademecum.text import similarity
from vademecum.text.words import is_same_text
from vademecum.types import Entry, Origin, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.store.records import Records

ENOUGH = 2  # sessions, each with its own eyes on the matter


class Level(StrEnum):
    """How far a text is trusted; listed from most to least."""

    USER = "user"  # a person's own words
    VERIFIED = "verified"  # a person vouched for exactly this text
    CONFIRMED = "confirmed"  # two sessions found the same
    UNVERIFIED = "unverified"  # one agent's word
    WAITING = "waiting"  # from a tool, an import or a stranger: not before a person has looked


class Trust(NamedTuple):
    """How far a text is trusted, how that is shown, whether it may be injected, and why."""

    level: Level
    badge: str
    injectable: bool
    why: str


class Waiting(NamedTuple):
    """A text that nobody has verified, and by what it is verified."""

    name: str  # what `vade verify` takes
    path: str
    text: str
    why: str


_WHENCE = {
    Origin.TOOL: "it came from a tool",
    Origin.IMPORT: "it was imported, or its origin is not known",
    Origin.EXTERNAL: "it was written outside of this memory",
}


def judge(
    origin: Origin, *, folder: bool, verified: Callable[[], bool], sessions: Callable[[], int]
) -> Trust:
    """Decide from where a text came; what costs a look into the home is asked only where it matters."""
    if origin is Origin.USER and folder:
        return Trust(Level.USER, "", True, "a person said it")
    if verified():
        return Trust(Level.VERIFIED, "", True, "a person verified exactly this text")
    if not folder:
        return Trust(Level.WAITING, "[waiting]", False, "nobody has trusted the folder it lies in")
    if origin is not Origin.AGENT:
        return Trust(Level.WAITING, "[waiting]", False, _WHENCE[origin])
    count = sessions()
    if count >= ENOUGH:
        return Trust(Level.CONFIRMED, "", True, f"{count} sessions found the same")
    return Trust(Level.UNVERIFIED, "[unverified]", True, "one agent said it, and nobody confirmed it")


def of(
    thing: Record | Entry, records: Records, *, record: Record | None = None, trusted: bool = True
) -> Trust:
    """How far a text is trusted: what a record says now, one of its entries, a note, or a pinned section.

    An entry of a record comes with its `record`; for one of a pinned document, `trusted` says whether its
    folder is.
    """
    if isinstance(thing, Record):
        record, thing = (
            thing,
            next(iter((thing.agreed or thing.entries)[-1:]), Entry("", origin=Origin.EXTERNAL)),
        )
    entry, owner = thing, record
    if owner is not None and owner.disputes(entry) and not decisions.verified(records.home, entry.text):
        return Trust(Level.WAITING, "[waiting]", False, "it contradicts what a person wrote")
    return judge(
        entry.origin or Origin.USER,
        folder=trusted if owner is None else owner.trusted,
        verified=lambda: decisions.verified(records.home, entry.text),
        sessions=lambda: 0 if owner is None else len(sessions(entry, owner, records)),
    )


def sessions(entry: Entry, record: Record, records: Records) -> set[str]:
    """The sessions that said what an entry says, in its words or in others that the record still has.

    Each wording is held against this one, not against the last: a statement that was turned into another in
    small steps has none of the confirmations it began with.
    """
    told = records.said(record)
    found: set[str] = set()
    for each in record.entries:
        by = told.get(archive.fingerprint(each), ())
        if set(by) <= found:
            continue
        if _one_statement(each.text, entry.text):
            found.update(by)
    return found


def _one_statement(one: str, other: str) -> bool:
    """Whether two wordings say the same; a doubt costs a badge, no more."""
    return is_same_text(one, other) or similarity.same(one, other) is not None
