"""co-cli: numbered files with frontmatter below `knowledge/memories/`, and a `context.md` above them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.agents.base import Agent
from vademecum.agents.memory_files import split_frontmatter, stamp_of, text_of, word_list
from vademecum.knowledge import SectionPiece, Skipped, TopicPiece
from vademecum.store.merge import SIGNALS
from vademecum.text import filenames
from vademecum.text import names as keys
from vademecum.types import Entry, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memory_files import FileTree, FrontmatterFile, Importing, TextFile
    from vademecum.knowledge import Piece

_MEMORY = re.compile(r"(\d+)-(.+)\.md")
_OLD_MEMORY = re.compile(
    r"(.+)-[0-9a-f]{8}\.md"
)  # file names of older memories ended with the start of a UUID
# Fields that get another name here, or that the record itself holds.
_MAPPED = tuple("id decay_protected source related created_at updated_at".split())


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield a record for every memory, and `context.md`."""
    for name in tree.names():
        parts, _ = tree.full_path(name)
        if not name.endswith(".md"):
            continue
        if parts[-1] == "context.md" and ("/" not in name or parts[-2] == "knowledge"):
            yield _context(tree, name, parts)
        elif parts[-2:-1] == ["memories"] or ("/" not in name and _MEMORY.fullmatch(parts[-1])):
            file = tree.read(name)
            yield file if isinstance(file, Skipped) else _memory(file, parts)


def _context(tree: FileTree, name: str, parts: list[str]) -> Piece:
    file = tree.read(name)
    part = file if isinstance(file, Skipped) else split_frontmatter(file)
    if isinstance(part, Skipped):
        return part
    everywhere = "co-cli" in parts and ".co-cli" not in parts
    scope = Scope.GLOBAL if everywhere else Scope.PROJECT
    return SectionPiece("context.md", filenames.CONTEXT, part.body, scope, part.front)


def _memory(file: TextFile, parts: list[str]) -> Piece:
    part = split_frontmatter(file)
    if isinstance(part, Skipped):
        return part
    values = part.values
    created = stamp_of(values.get("created")) or stamp_of(values.get("created_at"))
    time = stamp_of(values.get("updated")) or stamp_of(values.get("updated_at")) or created or file.changed
    tags = word_list(values.get("tags"))
    category = _category(part, tags)
    source = text_of(values.get("source"))  # who said it there; here it is only a claim
    return TopicPiece(
        f"memories/{parts[-1]}",
        _slug(parts[-1]),
        (Entry(part.body, time),),
        Scope.PROJECT,
        id=text_of(values.get("id")),
        named=False,
        tags=tags,
        category=category,
        protected=values.get("decay_protected") is True,
        created=created,
        front=part.front,
        without=(*_MAPPED, *(("auto_category",) if category == values.get("auto_category") else ())),
        fields={**_related(values.get("related")), **({"claims": {"source": source}} if source else {})},
    )


def _slug(name: str) -> str:
    """Return a memory's name from its file name, without the number or the id that makes it unique."""
    numbered, old_style = _MEMORY.fullmatch(name), _OLD_MEMORY.fullmatch(name)
    return numbered[2] if numbered else old_style[1] if old_style else name.removesuffix(".md")


def _category(part: FrontmatterFile, tags: tuple[str, ...]) -> str:
    category = text_of(part.values.get("auto_category"))
    return category if category in SIGNALS else next((each for each in tags if each in SIGNALS), "")


def _related(value: object) -> dict[str, object]:
    """Return a memory's relations, by the keys of the related records instead of co-cli's slugs."""
    wanted = [_slug(f"{each.removesuffix('.md')}.md") for each in word_list(value) if each]
    links = [{"key": keys.slug(each), "rel": "relates_to"} for each in wanted]
    return {"related": links} if links else {}


AGENT = Agent("co-cli", memories=memories)
