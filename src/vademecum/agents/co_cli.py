"""co-cli: numbered files with frontmatter below `knowledge/memories/`, and a `context.md` above them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.agents.base import Agent
from vademecum.agents.memories import fronted, stamp_of, text_of, words_of
from vademecum.knowledge.intake import SectionPiece, Skipped, TopicPiece
from vademecum.store import pinned
from vademecum.store.merge import SIGNALS
from vademecum.text import names as keys
from vademecum.types import Entry, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memories import FileTree, Fronted, Importing, TextFile
    from vademecum.knowledge.intake import Piece

_MEMORY = re.compile(r"(\d+)-(.+)\.md")
_LATER = re.compile(r"(.+)-[0-9a-f]{8}\.md")  # once a memory had a UUID, its name ended with the first of it
# What becomes a label of ours under another name, or is said by the record itself.
_MAPPED = tuple("id decay_protected source related created_at updated_at".split())


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every memory, and the context."""
    for name in tree.names():
        parts, _ = tree.whole(name)
        if not name.endswith(".md"):
            continue
        if parts[-1] == "context.md" and ("/" not in name or parts[-2] == "knowledge"):
            yield _context(tree, name, parts)
        elif parts[-2:-1] == ["memories"] or ("/" not in name and _MEMORY.fullmatch(parts[-1])):
            file = tree.read(name)
            yield file if isinstance(file, Skipped) else _memory(file, parts)


def _context(tree: FileTree, name: str, parts: list[str]) -> Piece:
    file = tree.read(name)
    part = file if isinstance(file, Skipped) else fronted(file)
    if isinstance(part, Skipped):
        return part
    everywhere = "co-cli" in parts and ".co-cli" not in parts
    scope = Scope.GLOBAL if everywhere else Scope.PROJECT
    return SectionPiece("context.md", pinned.CONTEXT, part.body, scope, part.front)


def _memory(file: TextFile, parts: list[str]) -> Piece:
    part = fronted(file)
    if isinstance(part, Skipped):
        return part
    values = part.values
    created = stamp_of(values.get("created")) or stamp_of(values.get("created_at"))
    said = stamp_of(values.get("updated")) or stamp_of(values.get("updated_at")) or created or file.changed
    tags = words_of(values.get("tags"))
    category = _category(part, tags)
    told = text_of(values.get("source"))  # who said it there: a claim here
    return TopicPiece(
        f"memories/{parts[-1]}",
        _slug(parts[-1]),
        (Entry(part.body, said),),
        Scope.PROJECT,
        id=text_of(values.get("id")),
        named=False,
        tags=tags,
        category=category,
        protected=values.get("decay_protected") is True,
        created=created,
        front=part.front,
        without=(*_MAPPED, *(("auto_category",) if category == values.get("auto_category") else ())),
        fields={**_related(values.get("related")), **({"claims": {"source": told}} if told else {})},
    )


def _slug(name: str) -> str:
    """What a file's name says of its memory, without the number or the id that makes it unique."""
    numbered, later = _MEMORY.fullmatch(name), _LATER.fullmatch(name)
    return numbered[2] if numbered else later[1] if later else name.removesuffix(".md")


def _category(part: Fronted, tags: tuple[str, ...]) -> str:
    told = text_of(part.values.get("auto_category"))
    return told if told in SIGNALS else next((each for each in tags if each in SIGNALS), "")


def _related(value: object) -> dict[str, object]:
    """What a memory names as related: by slug there, by key here."""
    wanted = [_slug(f"{each.removesuffix('.md')}.md") for each in words_of(value) if each]
    links = [{"key": keys.slug(each), "rel": "relates_to"} for each in wanted]
    return {"related": links} if links else {}


AGENT = Agent("co-cli", memories=memories)
