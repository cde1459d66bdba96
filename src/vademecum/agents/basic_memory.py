"""basic-memory: a folder of Markdown notes with frontmatter, observations and relations.

A note is a record with its text as it stands. `- [category] text #tag (context)` is an observation, whose
tags are the record's too; `- type [[Target]] (context)` is a relation, which becomes an edge and keeps its
type. Others link to a note by its title, its permalink or the name of its file: all three lead to its record.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vademecum.agents.base import Agent
from vademecum.agents.memories import fronted, key_of, stamp_of, text_of, titled, words_of
from vademecum.knowledge.intake import Skipped, TopicPiece
from vademecum.text import fences, names
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memories import FileTree, Fronted, Importing, TextFile
    from vademecum.knowledge.intake import Piece

# A box of a task, and the text of a link, stand in brackets as well.
_OBSERVATION = re.compile(r"^[ \t]*[-*] \[([^\[\]()\n]{2,60}|[^\W\d_xX])\][ \t]+(?=\S)(.+)$", re.MULTILINE)
_RELATION = re.compile(
    r"^[ \t]*[-*] (?:(?P<type>[^\[\]\n]{1,80}?)[ \t]+)?\[\[(?P<target>[^\]|#\n]{1,200})[^\]\n]{0,200}\]\]"
    r"(?:[ \t]+\((?P<context>[^()\n]{1,500})\))?[ \t]*$",
    re.MULTILINE,
)
_TAG = re.compile(r"(?<![\w#])#([^\W\d][\w/-]{0,60})")
_RELATIONS = ("supersedes", "contradicts")  # those that a graph here tells apart
_DATES = ("modified", "updated_at", "updated", "created_at", "created", "date")


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every note."""
    wanted = [name for name in tree.names() if name.endswith((".md", ".markdown"))]
    for file in map(tree.read, wanted):
        yield file if isinstance(file, Skipped) else _note(file)


def _note(file: TextFile) -> Piece:
    part = fronted(file)
    if isinstance(part, Skipped):
        return part
    heading, body = titled(part.body)
    body = body if body.strip() else part.body
    if not body.strip():
        return Skipped(file.name, "it contains no text")
    values, plain = part.values, fences.blank(body)
    said = [match.groups() for match in _OBSERVATION.finditer(plain)]
    inline = [tag for _, text in said for tag in _TAG.findall(text)]
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
        tags=tuple(dict.fromkeys([*words_of(values.get("tags")), *inline])),
        created=min(when, default=""),
        front=part.front,
        fields={
            **_aliases(file, part, heading),
            **_related(plain),
            **({"observed": list(dict.fromkeys(category for category, _ in said))} if said else {}),
        },
    )


def _aliases(file: TextFile, part: Fronted, heading: str) -> dict[str, Any]:
    """The other names that a note is linked by."""
    own = names.slug(key_of(file.name.removesuffix(".markdown")))
    given = words_of(part.values.get("aliases"))
    last = text_of(part.values.get("permalink")).rpartition("/")[2]
    called = [text_of(part.values.get("title")) or heading, last, *given]
    found = dict.fromkeys(names.slug(each) for each in called if each.strip())
    found.pop(own, None)
    return {"aliases": list(found)} if found else {}


def _related(plain: str) -> dict[str, Any]:
    """The relations of a note, in its own words too."""
    found = []
    for match in _RELATION.finditer(plain):
        said = match["type"] or "relates_to"
        rel = said if said in _RELATIONS else "relates_to"
        more = {"type": said, "context": match["context"]}
        told = {name: each for name, each in more.items() if each and each != rel}
        target = match["target"].strip().rpartition("/")[2]
        found.append({"key": names.slug(target), "rel": rel, **told})
    return {"related": found} if found else {}


AGENT = Agent("basic-memory", memories=memories)
