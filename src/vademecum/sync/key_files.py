"""The files of a home about the key of a shared folder or a personal workspace, in its folder below `hub/`.

`key` has the key, `key.json` the last record of the key that this home has seen, and `key.next` the key of an
unfinished rotation. Backups contain neither `key` nor `key.next`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed
from vademecum.sync.workspace_key import KeyRecord, parse_record

if TYPE_CHECKING:
    from vademecum.store import Directory

KEY, RECORD, NEXT = "key", "key.json", "key.next"


class OwnKey(NamedTuple):
    """The key that a home has, and its record; an empty key if there is none."""

    key: str
    record: KeyRecord | None = None


def read_own_key(folder: Directory) -> OwnKey:
    """Return the key of a home, with its record unless the record is missing or of another key."""
    key = (folder.read(KEY) or b"").decode("ascii", "replace").strip()
    try:
        record = parse_record(json.loads(folder.read(RECORD) or b"null"))
    except (ValueError, Malformed):
        return OwnKey(key)
    return OwnKey(key, record if key and record.fits(key) else None)


def save_key(folder: Directory, key: str, record: KeyRecord | None = None) -> None:
    """Save a key and its record."""
    folder.update(KEY, lambda _: key.encode() + b"\n")
    if record is not None:
        folder.update(RECORD, lambda _: json.dumps(record.render()).encode() + b"\n")


def stage_key(folder: Directory, key: str, record: KeyRecord) -> None:
    """Save the key of a rotation before the record is published, so that a crash cannot lose the key."""
    content = json.dumps({"key": key, "record": record.render()}).encode() + b"\n"
    folder.update(NEXT, lambda _: content)


def settle_staged(folder: Directory, published: KeyRecord | None) -> bool:
    """Take the key of an unfinished rotation if its record was published, else forget it.

    A key that was not published has sealed nothing. Return whether the key was taken.
    """
    content, taken = folder.read(NEXT), False
    if content is None:
        return False
    try:
        given = json.loads(content)
        record = parse_record(given["record"])
        if published is not None and record.check == published.check:
            save_key(folder, str(given["key"]), record)
            taken = True
    except (ValueError, TypeError, KeyError, Malformed):
        pass
    folder.delete(NEXT)
    return taken
