"""CAO: a wiki of topics, `<container>/wiki/<scope>/[<id>/]<key>.md`.

A topic's header is a comment, and its entries stand under their times. The scopes are the same as ours;
topics of another project or agent keep their owner. Listings and CAO's database are generated from the topics
and not read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.agents.base import Agent
from vademecum.agents.memory_files import stamp_of, word_list
from vademecum.errors import Malformed
from vademecum.knowledge import Skipped, TopicPiece
from vademecum.text import document
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memory_files import FileTree, Importing, TextFile
    from vademecum.knowledge import Piece

_HEADER = re.compile(r"^<!--[ \t]*(id:[^\n]*?)-->[ \t]*\n?", re.MULTILINE)
_RECORDED_AT = re.compile(r"\A_Originally recorded: ([^_\n]+)_[ \t]*(?:\n+|\Z)")
# Up to the next heading, because later entries stand below this section.
_ALSO = re.compile(r"^## See Also[ \t]*\n((?:(?!#).*(?:\n|\Z))*?)(?=#|\Z)", re.MULTILINE)
_LINK = re.compile(r"\[([A-Za-z0-9-]{1,60}+)\]")
_KNOWN = ("id", "scope", "type", "tags")


class _TopicOwner(NamedTuple):
    scope: Scope
    owner: str
    source: str  # relative to the scope, so that it does not depend on where the wiki is


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield a record for every topic in CAO's wiki."""
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
    header_fields = _fields(header[1] if header else "")
    where = _where(tree, file.name, header_fields.get("scope", ""))
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
    kind = header_fields.get("type", "")
    related = [{"key": each, "rel": "relates_to"} for each in _LINK.findall(also[1])] if also else []
    claims = {each: value for each, value in header_fields.items() if each not in _KNOWN and value}
    if kind and kind not in list(RecordType):
        claims = {"type": kind, **claims}
    return TopicPiece(
        where.source,
        stem,
        tuple(_entry(each, file.changed) for each in parsed.entries),
        where.scope,
        where.owner,
        id=header_fields.get("id", ""),
        type=kind if kind in list(RecordType) else RecordType.PROJECT,
        tags=tuple(each for each in word_list(header_fields.get("tags", "")) if each),
        fields={**({"related": related} if related else {}), **({"claims": claims} if claims else {})},
    )


def _entry(entry: Entry, changed: str) -> Entry:
    """Return an entry with its time; for an entry that was added late, the time that its text names."""
    recorded = _RECORDED_AT.match(entry.text)
    when = stamp_of(recorded[1].strip()) if recorded else ""
    text = entry.text[recorded.end() :] if recorded and when else entry.text
    return Entry(text, when or entry.time or changed)


def _where(tree: FileTree, name: str, header_scope: str) -> _TopicOwner | None:
    """Return the scope and owner of a topic, by its path; without a wiki folder, by its header.

    Return None if the scope is unknown.
    """
    parts, depth = tree.full_path(name)
    at = max((index for index, part in enumerate(parts) if part == "wiki"), default=None)
    inside = parts[at + 1 :] if at is not None else []
    scope = inside[0] if inside and inside[0] in list(Scope) else header_scope
    if scope not in list(Scope):
        return None
    source = "/".join(inside) if inside and inside[0] in list(Scope) else f"{scope}/{parts[-1]}"
    owner = ""
    if scope in (Scope.SESSION, Scope.AGENT) and len(inside) > 2:
        owner = inside[1]
    elif scope == Scope.PROJECT and at is not None and at - 1 >= depth:
        owner = parts[at - 1]  # unless the user named that project's folder itself
    return _TopicOwner(Scope(scope), owner, source)


def _fields(header: str) -> dict[str, str]:
    pairs = (part.split(":", 1) for part in header.split("|") if ":" in part)
    return {name.strip(): value.strip() for name, value in pairs}


AGENT = Agent("cao", memories=memories)
