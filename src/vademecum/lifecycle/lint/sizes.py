"""What has grown too large: pinned documents that will be cut, scopes above their cap."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vademecum.lifecycle.cap import countable
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vademecum.lifecycle.lint.base import Material
    from vademecum.store.pinned import Pinned
    from vademecum.types import Place

PINNED, SCOPE = "oversize_pinned", "over_budget"


def check(material: Material, *, documents: Iterable[Pinned], max_count: int) -> Iterator[Finding]:
    """Documents above their budget, and scopes above the count cap."""
    for each in documents:
        if each.over:
            why = f"{each.size:,} of {each.budget:,}: shorten it, injection cuts what is too long"
            mend = f"vade edit {each.name} --scope {each.place.scope}"
            yield Finding(PINNED, each.path, why, mend, place=each.place)
    counts: Counter[Place] = Counter(each.record.place for each in material.seen if countable(each))
    folders = {each.record.place: each.record.path.rpartition("/")[0] for each in material.seen}
    for place, count in counts.items():
        if count > max_count:
            why = f"{count:,} notes in {place} count, more than decay.max_count = {max_count:,}"
            mend = f"vade sweep --scope {place.scope} --apply"
            yield Finding(SCOPE, folders[place], why, mend, place=place)
