"""What of a person's a change would take away: entries they wrote or verified, and their records' labels.

Bytes in, a reason out. Whoever changes a file for somebody trusted less than a person asks here first; text
that stands beside a person's takes nothing away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed, PersonsText
from vademecum.store import archive, decisions, document
from vademecum.store.joining import is_guarded, is_persons, read_tags
from vademecum.store.texts import decode
from vademecum.text.words import normalise
from vademecum.types import Entry, Origin, RecordType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.store.home import Home
    from vademecum.store.joining import Verified
    from vademecum.store.scopes import Caller

WHY = "a person wrote or verified this, and only a person changes it"
_LABELS = ("title", "key", "scope", "status", "stale_after")


def bound(caller: Caller) -> bool:
    """Whether a caller has to leave a person's words as they are."""
    return caller.origin is not Origin.USER and not caller.approved


def taken(before: bytes, after: bytes | None, *, kind: str, verified: Verified) -> str:
    """What of a person's is in a file before a change and not after it; empty when nothing is."""
    try:
        values, entries = _read(before, kind)
    except Malformed:
        return "a file that cannot be read"  # whose it is nobody can say
    guarded = is_guarded(values)
    own = [each for each in entries if each.live and (guarded or is_persons(each, verified))]
    if not own and not guarded:
        return ""
    if after is None:
        return "the whole record"
    try:
        changed, left = _read(after, kind)
    except Malformed:
        return "the whole record"
    standing = {(normalise(each.text), each.origin or Origin.USER) for each in left if each.live}
    if any((normalise(each.text), each.origin or Origin.USER) not in standing for each in own):
        return "an entry"
    return _relabelled(values, changed)


def check(
    home: Home, caller: Caller, before: bytes | None, after: bytes | None, *, kind: str = archive.RECORDS
) -> None:
    """Refuse a change that takes something of a person's away, unless a person makes it."""
    gone = barred(home, caller, before, after, kind=kind)
    if gone:
        raise PersonsText(f"{WHY} ({gone})")


def barred(
    home: Home, caller: Caller, before: bytes | None, after: bytes | None, *, kind: str = archive.RECORDS
) -> str:
    """What a caller may not take away with this change; empty when it may be made."""
    if before is None or before == after or not bound(caller):
        return ""
    return taken(before, after, kind=kind, verified=lambda text: decisions.verified(home, text))


def _read(content: bytes, kind: str) -> tuple[Mapping[str, Any], Sequence[Entry]]:
    text = decode(content)
    if kind == archive.PINNED:
        return {}, document.blocks(text)
    parsed = document.parse(text)
    return parsed.front.values, parsed.entries


def _relabelled(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Which label of a person's record a change would set to something else."""
    default = str(RecordType.PROJECT)
    if str(before.get("type") or default) != str(after.get("type") or default):
        return "its type"
    if read_tags(before.get("tags")) != read_tags(after.get("tags")):
        return "its tags"
    if (before.get("protected") is True) != (after.get("protected") is True):
        return "its protection"
    for name in _LABELS:
        if before.get(name) not in (None, after.get(name)):
            return f"its {name.replace('_', ' ')}"
    return ""
