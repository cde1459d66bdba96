"""Find the turns of a conversation that an answer shows beside its hits, in an index of notes or sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.index import words
from vademecum.search.evidence import MOST_TURNS, NEAR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.index import ChunkRow, Filter, Index

_SAID = tuple(sorted(words.PERSON))
_LONG = 400  # passages from which on a conversation is long: only what the user said is looked at


def turns_around(index: Index, visible: Filter, path: str, lines: Sequence[int]) -> list[ChunkRow]:
    """Return turns of a file in order: the user's turns nearest to `lines`, and the turns next to them.

    Of a turn that was cut into several rows, only the first row is returned; turns at the lines themselves
    are left out.
    """
    own = visible._replace(items=(path,))
    ids = list(index.match((), own, _LONG))
    if len(ids) == _LONG:
        ids = list(index.match((), own._replace(speakers=_SAID), None))
    rows = sorted(index.rows(ids, own).values(), key=lambda row: row.order)
    firsts = {row.start: row for row in reversed(rows) if row.speech.speaker}
    turns = list(firsts.values())[::-1]
    places = [at for at, row in enumerate(turns) if row.start in lines]

    def distance(at: int) -> int:
        return min((abs(at - place) for place in places), default=0)

    others = [at for at in range(len(turns)) if turns[at].start not in lines]
    wanted = [at for at in others if turns[at].speech.speaker in words.PERSON or distance(at) <= NEAR]
    wanted = sorted(wanted, key=distance)[: 2 * MOST_TURNS]
    return [turns[at] for at in sorted(wanted)]
