"""Records that share a number or an id, such as the copies that sync programs leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.lifecycle.lint.base import WARNING
from vademecum.store import copies
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.lifecycle.base import Seen
    from vademecum.lifecycle.lint.base import Material

NAME = "copy"


def check(material: Material) -> Iterator[Finding]:
    """Each record whose number or id is another one's."""
    places = {each.record.path: each.record.place for each in material.seen}
    labels = [_label(each) for each in material.seen if each.shelf.trusted]
    for copy in copies.copies(labels):
        same = [f"number #{copy.label.num}"] * copy.num + ["id"] * copy.id
        why = f"has the {' and the '.join(same)} of {copy.keeper.path}; the next write gives it its own"
        mend = f"compare both; `vade forget {copy.label.path}` archives this one"
        yield Finding(NAME, copy.label.path, why, mend, WARNING, places[copy.label.path])


def _label(seen: Seen) -> copies.Label:
    record = seen.record
    key = str(record.fields.get("key") or "")
    return copies.Label(record.path, seen.name, record.num, record.id, record.created or "", key)
