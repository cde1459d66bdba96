"""Sign the entries in a team's files with the authors that the hub knows.

`stamps.jsonl` beside a stream's log has the hub's stamp of each fact. An own text keeps its origin, another
member's text has the origin `member:NAME`, and a text without a stamp that was not made here is `external`. A
signature that somebody types into a file is never sent as another member's: the author of an edit is its
editor.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed
from vademecum.sync import blocks
from vademecum.sync.facts import FactId
from vademecum.sync.projection import Signing
from vademecum.text import document, filenames, frontmatter
from vademecum.types import Origin, parse_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from vademecum.store import Directory
    from vademecum.sync.facts import SyncFact
    from vademecum.sync.projection import ShownBlock
    from vademecum.types import Place

STAMPS = "stamps.jsonl"
SHARED_DOCUMENTS = frozenset({filenames.CONTEXT})  # the pinned documents that a team shares
_LARGEST = 1 << 30
_TITLE = "# t\n\n"
_CONTENT_FIELDS = ("contradicts", "cites", "of")  # parts of a signature that belong to the text
_SIGNATURE_FIELDS = (*blocks.MARKS, *_CONTENT_FIELDS)


class FactStamp(NamedTuple):
    """The hub's stamp of a fact: its author, the author's role, the time, and a MAC as proof."""

    author: str
    role: str
    at: str
    mac: str
    epoch: int = 0
    seq: int = 0
    num: int | None = None

    def is_of(self, author: str, since: datetime) -> bool:
        """Return whether this member added the fact, at or after this time."""
        return self.author == author and datetime.fromisoformat(self.at) >= since


def read_stamps(folder: Directory) -> dict[FactId, FactStamp]:
    """Return the newest stamp of each fact of a stream, read from the folder of its log."""
    return {
        fact_id: FactStamp(**{name: given[name] for name in FactStamp._fields if name in given})
        for fact_id, given in read_stamp_lines(folder).items()
        if all(isinstance(given.get(name), str) for name in ("author", "role", "at", "mac"))
    }


def read_stamp_lines(folder: Directory) -> dict[FactId, dict[str, Any]]:
    """Return the newest stamp of each fact as the hub sent it; skip incomplete lines."""
    found: dict[FactId, dict[str, Any]] = {}
    for line in (folder.read(STAMPS, largest=_LARGEST) or b"").splitlines():
        try:
            stamp = json.loads(line)
            replica, n = stamp.pop("dot").rsplit(":", 1)
            found[FactId(replica, int(n))] = stamp
        except (ValueError, KeyError, AttributeError, TypeError):
            continue
    return found


def claimed_origin(text: str) -> Origin:
    """Return the origin that a signature claims if an own text may have it, else `external`."""
    origin = parse_origin(text)
    return origin if origin == text and not origin.is_member else Origin.EXTERNAL


@dataclass(frozen=True)
class TeamSigning(Signing):
    """The rules for signatures in a team's files on the machine of a member."""

    exact = False
    me: str
    documents: Collection[str]  # the shared pinned documents of the place
    stamps: Callable[[], Mapping[FactId, FactStamp]]
    is_mine: Callable[[SyncFact], bool]  # whether this home made a fact

    @property
    def rules(self) -> str:
        """The signing rules as text, which a cache must match: the member, and whether any stamp exists."""
        return f"team {self.me} {bool(self.stamps())}"

    def has_file(self, path: str) -> bool:
        """Return whether a team shares this file, a record or a shared pinned document."""
        return path.startswith(f"{blocks.RECORDS}/") or path in self.documents

    def origin(self, fact: SyncFact) -> Origin:
        """Return the origin of a fact according to its stamp.

        Without a stamp, a fact made here keeps the origin that it claims, if it may have it; any other fact
        is `external`.
        """
        stamp = self.stamps().get(fact.id)
        if stamp is None:
            return claimed_origin(fact.origin) if self.is_mine(fact) else Origin.EXTERNAL
        if stamp.author != self.me:
            named = parse_origin(f"member:{stamp.author}")
            return named if named.is_member and stamp.author != Origin.EXTERNAL else Origin.EXTERNAL
        claimed = claimed_origin(fact.origin)
        return max(claimed, Origin.AGENT, key=_rank_of) if stamp.role == Origin.AGENT else claimed

    def sign_block(self, raw: str, facts: Sequence[SyncFact], mark: str) -> str:
        """Return a block as a single entry, signed with origin, author and the id `mark`.

        Of the origins of `facts`, which all have this text, the one with the lowest rank counts.
        """
        origin = min((self.origin(fact) for fact in facts), key=_rank_of)
        by = origin.partition(":")[2] if origin.is_member else self.me
        signature = blocks.parts(raw)
        parts = [
            f"origin: {origin}",
            *(
                f"{name}: {_escape_value(signature[name])}"
                for name in _SIGNATURE_FIELDS
                if signature.get(name)
            ),
        ]
        parts += [] if origin is Origin.EXTERNAL else [f"by: {by}"]
        return f"{_single_entry(raw)}\n<!-- {' | '.join([*parts, f'id: {mark}'])} -->"

    def content(self, raw: str) -> str:
        """Return those parts of a block whose change counts as an edit: its text and some signed fields."""
        signature = blocks.parts(raw)
        return "\0".join(
            [
                _single_entry(raw),
                *(
                    f"{name}: {_escape_value(signature[name])}"
                    for name in _CONTENT_FIELDS
                    if signature.get(name)
                ),
            ]
        )

    def read_block(self, raw: str) -> tuple[str, str]:
        """Return a file's block in the form in which a fact stores it, and the origin that it claims.

        An origin that belongs to another member becomes `external`.
        """
        signature = blocks.parts(raw)
        claimed = str(claimed_origin(signature["origin"])) if "origin" in signature else str(Origin.USER)
        return blocks.sign(raw, origin=claimed, by="") if signature else raw, claimed

    def clean_layout(self, front: str, head: str) -> tuple[str, str]:
        """Return frontmatter and head, or two empty texts if they could be read as an entry."""
        return (front, head) if _is_canvas(front, head) else ("", "")

    def render_file(
        self,
        path: str,
        front: str,
        head: str,
        found: Sequence[ShownBlock],
        *,
        gaps: Mapping[int | str, str],
        eol: str,
    ) -> str:
        """Return the text of a file; leave out typed layout where it would change the entries."""
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
    """Return the signing rules for a team's stream; they always use the newest stamps."""
    known: dict[str, Any] = {}

    def stamps() -> Mapping[FactId, FactStamp]:
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
def _single_entry(raw: str) -> str:
    """Return a block without its signature, with lines escaped that would begin or sign another entry."""
    text = blocks.unsigned(raw)
    if _is_single_entry(text):
        return text
    heading, newline, below = text.partition("\n")
    if blocks.instant_of(text):
        return f"{heading}{newline}{document.escape(below)}".rstrip()
    return document.escape(text).rstrip()


def _is_single_entry(text: str) -> bool:
    """Return whether a text would be read as exactly one entry."""
    try:
        found = document.parse(f"{_TITLE}{text}\n<!-- origin: user -->\n")
    except Malformed:
        return False
    return len(found.sections) == 1 and found.sections[0].start == len(_TITLE)


def _escape_value(value: str) -> str:
    """Return a value without characters that would end its part of the signature."""
    return " ".join(value.replace("|", "/").replace("-->", "->").split())


def _rank_of(origin: Origin) -> int:
    return origin.rank
