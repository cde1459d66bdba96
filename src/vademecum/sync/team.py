"""A team's files: every entry is signed by what the hub says of its author, whatever it says of itself.

`stamps.jsonl` beside a stream's log holds the hub's word on each fact. On this machine a text of one's own
keeps its origin, another member's is `member:NAME`, and one without the hub's word that was not made here is
`external`. What a file's last lines say is never sent on as somebody else's word: an edit is its editor's.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed
from vademecum.store import document, frontmatter, pinned
from vademecum.sync import blocks
from vademecum.sync.facts import Dot
from vademecum.sync.project import Signing
from vademecum.types import Origin, parse_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from vademecum.store import Directory
    from vademecum.sync.facts import SyncFact
    from vademecum.sync.project import ShownBlock
    from vademecum.types import Place

STAMPS = "stamps.jsonl"
SHARED_DOCUMENTS = frozenset({pinned.CONTEXT})  # of the pinned ones
_LARGEST = 1 << 30
_TITLE = "# t\n\n"
_KEPT = ("contradicts", "cites", "of")  # parts of a last line that belong to the text
_SHOWN = (*blocks.MARKS, *_KEPT)


class FactStamp(NamedTuple):
    """What the hub said of a fact: who added it, in which role, when, and the proof that it said so."""

    author: str
    role: str
    at: str
    mac: str
    epoch: int = 0
    seq: int = 0
    num: int | None = None

    def is_of(self, author: str, since: datetime) -> bool:
        """Whether a member added it at that moment or later."""
        return self.author == author and datetime.fromisoformat(self.at) >= since


def read_stamps(folder: Directory) -> dict[Dot, FactStamp]:
    """The newest stamp of each fact of a stream, from the folder of its log."""
    return {
        dot: FactStamp(**{name: given[name] for name in FactStamp._fields if name in given})
        for dot, given in read_stamp_lines(folder).items()
        if all(isinstance(given.get(name), str) for name in ("author", "role", "at", "mac"))
    }


def read_stamp_lines(folder: Directory) -> dict[Dot, dict[str, Any]]:
    """The newest stamp of each fact as the hub sent it; a line that a crash cut off was never there."""
    found: dict[Dot, dict[str, Any]] = {}
    for line in (folder.read(STAMPS, largest=_LARGEST) or b"").splitlines():
        try:
            stamp = json.loads(line)
            replica, n = stamp.pop("dot").rsplit(":", 1)
            found[Dot(replica, int(n))] = stamp
        except (ValueError, KeyError, AttributeError, TypeError):
            continue
    return found


def claimed_origin(told: str) -> Origin:
    """The origin that a person's or a program's own text may claim; everything else was written elsewhere."""
    origin = parse_origin(told)
    return origin if origin == told and not origin.is_member else Origin.EXTERNAL


@dataclass(frozen=True)
class TeamSigning(Signing):
    """How the files of a team look on the machine of one of its members."""

    exact = False
    me: str
    documents: Collection[str]  # pinned documents that the place shares
    stamps: Callable[[], Mapping[Dot, FactStamp]]
    is_mine: Callable[[SyncFact], bool]  # whether a fact was made here

    @property
    def rules(self) -> str:
        """What the files depend on beside the facts: another member, or stamps that are lost."""
        return f"team {self.me} {bool(self.stamps())}"

    def keeps(self, path: str) -> bool:
        """Whether a team has such a file: records, and the one pinned document that is shared."""
        return path.startswith(f"{blocks.RECORDS}/") or path in self.documents

    def origin(self, fact: SyncFact) -> Origin:
        """Whose text a fact is, by the hub's word; without one it is ours only if it was made here."""
        stamp = self.stamps().get(fact.dot)
        if stamp is None:
            return claimed_origin(fact.origin) if self.is_mine(fact) else Origin.EXTERNAL
        if stamp.author != self.me:
            named = parse_origin(f"member:{stamp.author}")
            return named if named.is_member and stamp.author != Origin.EXTERNAL else Origin.EXTERNAL
        claimed = claimed_origin(fact.origin)
        return max(claimed, Origin.AGENT, key=_rank) if stamp.role == Origin.AGENT else claimed

    def shown(self, raw: str, facts: Sequence[SyncFact], mark: str) -> str:
        """A block that is one entry and no more, signed with origin, author and id."""
        origin = min((self.origin(fact) for fact in facts), key=_rank)
        by = origin.partition(":")[2] if origin.is_member else self.me
        told = blocks.parts(raw)
        parts = [f"origin: {origin}", *(f"{name}: {_one(told[name])}" for name in _SHOWN if told.get(name))]
        parts += [] if origin is Origin.EXTERNAL else [f"by: {by}"]
        return f"{_bare(raw)}\n<!-- {' | '.join([*parts, f'id: {mark}'])} -->"

    def content(self, raw: str) -> str:
        """A block without its signature and marks: changing those makes nobody its author."""
        told = blocks.parts(raw)
        return "\0".join([_bare(raw), *(f"{name}: {_one(told[name])}" for name in _KEPT if told.get(name))])

    def said(self, raw: str) -> tuple[str, str]:
        """A block as a fact keeps it; one that still bears another's name was not written by hand alone."""
        told = blocks.parts(raw)
        claimed = str(claimed_origin(told["origin"])) if "origin" in told else str(Origin.USER)
        return blocks.sign(raw, origin=claimed, by="") if told else raw, claimed

    def canvas(self, front: str, head: str) -> tuple[str, str]:
        """A frontmatter and a title, and nothing that could be taken for an entry."""
        return (front, head) if _is_canvas(front, head) else ("", "")

    def lay(
        self,
        path: str,
        front: str,
        head: str,
        found: Sequence[ShownBlock],
        *,
        gaps: Mapping[int | str, str],
        eol: str,
    ) -> str:
        """The file, without whatever of it would make its entries others than these."""
        raws = [each.raw for each in found]
        tries: tuple[tuple[str, str, Mapping[int | str, str], str], ...]
        tries = ((front, head, gaps, eol), (front, "", {}, blocks.LF), ("", "", {}, blocks.LF))
        for above, below, spaces, ends in tries:
            text = blocks.lay(above, below, raws, spaces, ends)
            try:
                if [block.raw for block in blocks.cut(text, path).blocks] == raws:
                    return text
            except Malformed:
                continue
        return ""


def make_signing(
    place: Place, me: str, folder: Directory, is_mine: Callable[[SyncFact], bool]
) -> TeamSigning:
    """The signing of one stream; the hub's words are read again when there are new ones."""
    known: dict[str, Any] = {}

    def stamps() -> Mapping[Dot, FactStamp]:
        state = folder.stat(STAMPS)
        if known.get("size") != (state and state.st_size):
            known.update(size=state and state.st_size, stamps=read_stamps(folder))
        return known.get("stamps") or {}

    shared = SHARED_DOCUMENTS & set(place.scope.rule.documents)
    return TeamSigning(me, shared, stamps, is_mine)


@functools.lru_cache(maxsize=1024)
def _is_canvas(front: str, head: str) -> bool:
    try:
        return frontmatter.parse(front).body == len(front) and not document.parse(front + head).sections
    except Malformed:
        return False


@functools.lru_cache(maxsize=4096)
def _bare(raw: str) -> str:
    """A block without its last line, as one entry: lines that would begin or sign another are escaped."""
    text = blocks.unsigned(raw)
    if _is_one(text):
        return text
    heading, newline, below = text.partition("\n")
    if blocks.instant_of(text):
        return f"{heading}{newline}{document.escape(below)}".rstrip()
    return document.escape(text).rstrip()


def _is_one(text: str) -> bool:
    """Whether a text between others is one entry, all of it."""
    try:
        found = document.parse(f"{_TITLE}{text}\n<!-- origin: user -->\n")
    except Malformed:
        return False
    return len(found.sections) == 1 and found.sections[0].start == len(_TITLE)


def _one(value: str) -> str:
    """A value that cannot end its part, the signature or the line."""
    return " ".join(value.replace("|", "/").replace("-->", "->").split())


def _rank(origin: Origin) -> int:
    return origin.rank
