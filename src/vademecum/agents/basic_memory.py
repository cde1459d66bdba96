"""basic-memory: a folder of Markdown notes with frontmatter, observations and relations.

A note becomes a record with its text unchanged. `- [category] text #tag (context)` is an observation, whose
tags become tags of the record; `- type [[Target]] (context)` is a relation, which becomes an edge and keeps
its type. Links name a note by its title, its permalink or its file name: all three lead to its record.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vademecum.agents.base import Agent
from vademecum.agents.memory_files import key_of, split_frontmatter, split_title, stamp_of, text_of, word_list
from vademecum.knowledge import Skipped, TopicPiece
from vademecum.text import fences, names
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memory_files import FileTree, FrontmatterFile, Importing, TextFile
    from vademecum.knowledge import Piece

# Task boxes and link texts stand in brackets too and must not match.
_OBSERVATION = re.compile(r"^[ \t]*[-*] \[([^\[\]()\n]{2,60}|[^\W\d_xX])\][ \t]+(?=\S)(.+)$", re.MULTILINE)
_RELATION = re.compile(
    r"^[ \t]*[-*] (?:(?P<type>[^\[\]\n]{1,80}?)[ \t]+)?\[\[(?P<target>[^\]|#\n]{1,200})[^\]\n]{0,200}\]\]"
    r"(?:[ \t]+\((?P<context>[^()\n]{1,500})\))?[ \t]*$",
    re.MULTILINE,
)
_TAG = re.compile(r"(?<![\w#])#([^\W\d][\w/-]{0,60})")
_RELATIONS = ("supersedes", "contradicts")  # relations that our graph distinguishes
_DATES = ("modified", "updated_at", "updated", "created_at", "created", "date")


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield a record for every note in basic-memory's folder."""
    wanted = [name for name in tree.names() if name.endswith((".md", ".markdown"))]
    for file in map(tree.read, wanted):
        yield file if isinstance(file, Skipped) else _note(file)


def _note(file: TextFile) -> Piece:
    part = split_frontmatter(file)
    if isinstance(part, Skipped):
        return part
    heading, body = split_title(part.body)
    body = body if body.strip() else part.body
    if not body.strip():
        return Skipped(file.name, "it contains no text")
    values, plain = part.values, fences.blank(body)
    observations = [match.groups() for match in _OBSERVATION.finditer(plain)]
    inline = [tag for _, text in observations for tag in _TAG.findall(text)]
    when = [stamp for each in _DATES if (stamp := stamp_of(values.get(each)))]
    return TopicPiece(
        file.name,
        key_of(file.name.removesuffix(".markdown")),
        (Entry(body, max(when, default=file.changed)),),
        Scope.PROJECT,
        named=False,
        type=text_of(values.get("type")) or RecordType.REFERENCE,
        title=text_of(values.get("title")) or heading,
        heading=heading,
        tags=tuple(dict.fromkeys([*word_list(values.get("tags")), *inline])),
        created=min(when, default=""),
        front=part.front,
        fields={
            **_aliases(file, part, heading),
            **_related(plain),
            **(
                {"observed": list(dict.fromkeys(category for category, _ in observations))}
                if observations
                else {}
            ),
        },
    )


def _aliases(file: TextFile, part: FrontmatterFile, heading: str) -> dict[str, Any]:
    """Return the aliases of a note's record: the other names by which links name the note."""
    own = names.slug(key_of(file.name.removesuffix(".markdown")))
    raw = word_list(part.values.get("aliases"))
    last = text_of(part.values.get("permalink")).rpartition("/")[2]
    called = [text_of(part.values.get("title")) or heading, last, *raw]
    found = dict.fromkeys(names.slug(each) for each in called if each.strip())
    found.pop(own, None)
    return {"aliases": list(found)} if found else {}


def _related(plain: str) -> dict[str, Any]:
    """Return the relations of a note as edges to other records, with their original types."""
    found = []
    for match in _RELATION.finditer(plain):
        relation = match["type"] or "relates_to"
        rel = relation if relation in _RELATIONS else "relates_to"
        more = {"type": relation, "context": match["context"]}
        details = {name: each for name, each in more.items() if each and each != rel}
        target = match["target"].strip().rpartition("/")[2]
        found.append({"key": names.slug(target), "rel": rel, **details})
    return {"related": found} if found else {}


AGENT = Agent("basic-memory", memories=memories)
