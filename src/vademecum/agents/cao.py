"""CAO: a wiki of topics, `<container>/wiki/<scope>/[<id>/]<key>.md`.

The header of a topic is a comment, its entries stand under their times. The scopes are ours: what belonged to
another project or agent is left for them. Listings and their database are made from the topics and not read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.agents.base import Agent
from vademecum.agents.memories import stamp_of, words_of
from vademecum.errors import Malformed
from vademecum.knowledge.intake import Skipped, TopicPiece
from vademecum.store import document
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memories import FileTree, Importing, TextFile
    from vademecum.knowledge.intake import Piece

_HEADER = re.compile(r"^<!--[ \t]*(id:[^\n]*?)-->[ \t]*\n?", re.MULTILINE)
_RECORDED = re.compile(r"\A_Originally recorded: ([^_\n]+)_[ \t]*(?:\n+|\Z)")
# Up to the next heading: entries that came later stand below it.
_ALSO = re.compile(r"^## See Also[ \t]*\n((?:(?!#).*(?:\n|\Z))*?)(?=#|\Z)", re.MULTILINE)
_LINK = re.compile(r"\[([A-Za-z0-9-]{1,60}+)\]")
_KNOWN = ("id", "scope", "type", "tags")


class _Where(NamedTuple):
    scope: Scope
    owner: str
    source: str  # from the scope on, which is the same wherever the wiki lies


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every topic."""
    topics = []
    for name in tree.names():
        last = name.rpartition("/")[2]
        if last == "index.md":
            yield Skipped(name, "a generated listing")
        elif last.endswith(".md"):
            topics.append(name)
    for file in map(tree.read, topics):
        yield file if isinstance(file, Skipped) else _topic(tree, file)


def _topic(tree: FileTree, file: TextFile) -> Piece:
    header = _HEADER.search(file.text)
    told = _fields(header[1] if header else "")
    where = _where(tree, file.name, told.get("scope", ""))
    if where is None:
        return Skipped(file.name, "neither its folder nor its header names a scope")
    text = file.text if header is None else file.text[: header.start()] + file.text[header.end() :]
    also = _ALSO.search(text)
    bare = also is not None and all(_LINK.search(line) for line in also[1].split("\n") if line.strip())
    try:
        parsed = document.parse(text[: also.start()] + text[also.end() :] if also and bare else text)
    except Malformed as error:
        return Skipped(file.name, f"malformed: {error}")
    stem = file.name.rpartition("/")[2].removesuffix(".md")
    kind = told.get("type", "")
    related = [{"key": each, "rel": "relates_to"} for each in _LINK.findall(also[1])] if also else []
    claims = {each: value for each, value in told.items() if each not in _KNOWN and value}
    if kind and kind not in list(RecordType):
        claims = {"type": kind, **claims}
    return TopicPiece(
        where.source,
        stem,
        tuple(_entry(each, file.changed) for each in parsed.entries),
        where.scope,
        where.owner,
        id=told.get("id", ""),
        type=kind if kind in list(RecordType) else RecordType.PROJECT,
        tags=tuple(each for each in words_of(told.get("tags", "")) if each),
        fields={**({"related": related} if related else {}), **({"claims": claims} if claims else {})},
    )


def _entry(entry: Entry, changed: str) -> Entry:
    """An entry under its time; one that came late into the wiki says when it was really recorded."""
    recorded = _RECORDED.match(entry.text)
    when = stamp_of(recorded[1].strip()) if recorded else ""
    text = entry.text[recorded.end() :] if recorded and when else entry.text
    return Entry(text, when or entry.time or changed)


def _where(tree: FileTree, name: str, told: str) -> _Where | None:
    """Whose topic a file is, by its path; without a wiki around it, by its header."""
    parts, given = tree.whole(name)
    at = max((index for index, part in enumerate(parts) if part == "wiki"), default=None)
    inside = parts[at + 1 :] if at is not None else []
    scope = inside[0] if inside and inside[0] in list(Scope) else told
    if scope not in list(Scope):
        return None
    source = "/".join(inside) if inside and inside[0] in list(Scope) else f"{scope}/{parts[-1]}"
    owner = ""
    if scope in (Scope.SESSION, Scope.AGENT) and len(inside) > 2:
        owner = inside[1]
    elif scope == Scope.PROJECT and at is not None and at - 1 >= given:
        owner = parts[at - 1]  # unless the user named that very project's folder
    return _Where(Scope(scope), owner, source)


def _fields(header: str) -> dict[str, str]:
    pairs = (part.split(":", 1) for part in header.split("|") if ":" in part)
    return {name.strip(): value.strip() for name, value in pairs}


AGENT = Agent("cao", memories=memories)
