"""The Open Knowledge Format: a folder or an archive of Markdown files with frontmatter, ours or anybody's.

A file is a record with every key it has; the entries in one of ours keep their times. Listings are made
anew, and a `log.md` becomes notes of its days.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from vademecum.agents.base import Agent
from vademecum.agents.memories import TextFile, fronted, key_of, stamp_of, text_of, titled, words_of
from vademecum.errors import Malformed
from vademecum.knowledge.intake import NotesPiece, Skipped, TopicPiece
from vademecum.store import document
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memories import FileTree, Fronted, Importing
    from vademecum.knowledge.intake import Piece

_DAY = re.compile(r"^## (\d{4}-\d\d-\d\d)(?![\d-])[^\n]*$", re.MULTILINE)
_LISTED = re.compile(r"#.*|[-*+] .*\]\(.*")


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every record, and the log."""
    wanted = [name for name in tree.names() if name.endswith((".md", ".markdown"))]
    for file in map(tree.read, wanted):
        last = file.name.rpartition("/")[2] if isinstance(file, TextFile) else ""
        if isinstance(file, Skipped):
            yield file
        elif last in ("index.md", "index.markdown"):
            yield from _listing(file)
        elif last == "log.md":
            yield from _days(file)
        else:
            yield _topic(file)


def _listing(file: TextFile) -> Iterator[Piece]:
    """Nothing of a listing, which is made anew; but what somebody says in it beside is a record."""
    part = fronted(file)
    lines = [] if isinstance(part, Skipped) else [line.strip() for line in part.body.split("\n")]
    if isinstance(part, Skipped) or any(line and not _LISTED.match(line) for line in lines):
        topic = _topic(file)
        key = f"{file.name.rpartition('/')[0]} bundle index".strip().replace("/", " ")
        yield replace(topic, key=key) if isinstance(topic, TopicPiece) else topic  # `index` is taken


def _topic(file: TextFile) -> Piece:
    part = fronted(file)
    if isinstance(part, Skipped):
        return part
    try:
        parsed = document.parse(file.text)
    except Malformed as error:
        return Skipped(file.name, f"malformed: {error}")
    values = part.values
    scope, owner = _where(part)
    entries = parsed.entries
    if not any(each.time for each in entries):
        entries = tuple(Entry(each.text, _when(part) or None) for each in entries)
    own = text_of(values.get("key"))
    return TopicPiece(
        file.name,
        own or key_of(file.name),
        entries,
        scope,
        owner,
        id=text_of(values.get("id")),
        named=False,
        type=text_of(values.get("type")) or RecordType.PROJECT,
        title=text_of(values.get("title")) or parsed.title or "",
        heading=parsed.title or "",
        tags=words_of(values.get("tags")),
        created=_when(part),
        front=part.front,
    )


def _where(part: Fronted) -> tuple[Scope, str]:
    """Where a record was kept; one of a project goes to the project it is imported in."""
    told = text_of(part.values.get("scope"))
    scope = Scope(told) if told in list(Scope) else Scope.PROJECT
    owner = text_of(part.values.get("scope_id"))
    return scope, owner if scope in (Scope.AGENT, Scope.SESSION) else ""


def _when(part: Fronted) -> str:
    """When it was made, as this version of the format says it, or the first."""
    made = part.values.get("generated")
    at = made.get("at") if isinstance(made, dict) else None
    return stamp_of(at) or stamp_of(part.values.get("timestamp"))


def _days(file: TextFile) -> Iterator[Piece]:
    cuts = [*_DAY.finditer(file.text)]
    above = file.text[: cuts[0].start()] if cuts else file.text
    if titled(above)[1].strip():
        yield _topic(file._replace(text=above))
    for match, end in zip(cuts, [*(each.start() for each in cuts[1:]), len(file.text)], strict=True):
        bare = match[0].rstrip() == f"## {match[1]}"
        text = file.text[match.end() if bare else match.start() : end]
        if text.strip():
            yield NotesPiece(file.name, match[1], (Entry(text, match[1]),), Scope.PROJECT)


AGENT = Agent("okf", memories=memories)
