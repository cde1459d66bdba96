"""The Open Knowledge Format: a folder or an archive of Markdown files with frontmatter, from any program.

A file becomes a record with all its keys; entries in a file of ours keep their times. Listings are generated
and not read, and a `log.md` becomes notes of its days.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from vademecum.agents.base import Agent
from vademecum.agents.memory_files import (
    TextFile,
    key_of,
    split_frontmatter,
    split_title,
    stamp_of,
    text_of,
    word_list,
)
from vademecum.errors import Malformed
from vademecum.knowledge import NotesPiece, Skipped, TopicPiece
from vademecum.text import document
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memory_files import FileTree, FrontmatterFile, Importing
    from vademecum.knowledge import Piece

_DAY = re.compile(r"^## (\d{4}-\d\d-\d\d)(?![\d-])[^\n]*$", re.MULTILINE)
_LISTING_LINE = re.compile(r"#.*|[-*+] .*\]\(.*")


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield every record of the folder, and the notes in `log.md`."""
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
    """Yield text from a listing file as a record; nothing for a plain listing, which is generated."""
    part = split_frontmatter(file)
    lines = [] if isinstance(part, Skipped) else [line.strip() for line in part.body.split("\n")]
    if isinstance(part, Skipped) or any(line and not _LISTING_LINE.match(line) for line in lines):
        topic = _topic(file)
        key = f"{file.name.rpartition('/')[0]} bundle index".strip().replace("/", " ")
        yield replace(topic, key=key) if isinstance(topic, TopicPiece) else topic  # `index` is taken


def _topic(file: TextFile) -> Piece:
    part = split_frontmatter(file)
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
        tags=word_list(values.get("tags")),
        created=_when(part),
        front=part.front,
    )


def _where(part: FrontmatterFile) -> tuple[Scope, str]:
    """Return scope and owner of a record; a project's record goes to the project of the import."""
    scope_name = text_of(part.values.get("scope"))
    scope = Scope(scope_name) if scope_name in list(Scope) else Scope.PROJECT
    owner = text_of(part.values.get("scope_id"))
    return scope, owner if scope in (Scope.AGENT, Scope.SESSION) else ""


def _when(part: FrontmatterFile) -> str:
    """Return when a file was made, from the field of the format's present or first version."""
    made = part.values.get("generated")
    at = made.get("at") if isinstance(made, dict) else None
    return stamp_of(at) or stamp_of(part.values.get("timestamp"))


def _days(file: TextFile) -> Iterator[Piece]:
    cuts = [*_DAY.finditer(file.text)]
    above = file.text[: cuts[0].start()] if cuts else file.text
    if split_title(above)[1].strip():
        yield _topic(file._replace(text=above))
    for match, end in zip(cuts, [*(each.start() for each in cuts[1:]), len(file.text)], strict=True):
        bare = match[0].rstrip() == f"## {match[1]}"
        text = file.text[match.end() if bare else match.start() : end]
        if text.strip():
            yield NotesPiece(file.name, match[1], (Entry(text, match[1]),), Scope.PROJECT)


AGENT = Agent("okf", memories=memories)
