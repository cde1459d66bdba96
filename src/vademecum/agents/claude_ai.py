"""Claude.ai: the archive that its data export mails, or the folder it was unpacked to.

Conversations: `conversations.json`, a list of conversations with their messages in order, each of which
becomes a session. A message is read from its blocks, or from its `text` where it has none; what was attached
comes with its text. The fields of a conversation stand in its first message.

Memory: `memories.json` (or `memories/*.json`) has a text about the person and one for each project;
`projects.json` (or `projects/*.json`) has instructions and documents. Each becomes a record.
"""

from __future__ import annotations

import hashlib
import json
from itertools import groupby
from typing import TYPE_CHECKING

from vademecum.agents.base import Agent
from vademecum.agents.memories import session_in, value_in
from vademecum.knowledge.intake import Conversation, Skipped, TopicPiece
from vademecum.transcripts import META, Message, Opaque, Role, Text, ToolResult
from vademecum.transcripts.reading import (
    SessionFacts,
    Unread,
    listed,
    mapping,
    moment,
    parts_of,
    text,
    unseen,
    without,
    written,
)
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.agents.memories import FileTree, Importing
    from vademecum.knowledge.intake import Piece
    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.reading import Found, Seen

_ROLES = {"human": Role.USER, "user": Role.USER, "assistant": Role.ASSISTANT}
_KNOWN = ("uuid", "text", "content", "sender", "created_at", "updated_at", "attachments", "files")
_FIELDS = ("uuid", "name", "created_at", "updated_at", "account", "chat_messages")
_MEMORY = ("conversations_memory", "project_memories", "account_uuid")
_PROJECT = tuple("uuid name prompt_template docs created_at updated_at creator".split())


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every conversation, memory and project."""
    wanted = [name for name in tree.names() if name.endswith(".json")]
    called: dict[str, str] = {}
    found = [(name, *value_in(tree, name)) for name in wanted if _kind(name) or len(wanted) == 1]
    for _, value, _ in found:
        for each in _each(value):
            called[text(each.get("uuid"))] = text(each.get("name"))
    for name in wanted:
        if name not in [each[0] for each in found]:
            yield Skipped(name, "no conversations, memories or projects, only account data")
    for name, value, problems in found:
        yield from problems
        if not _each(value) and not problems:
            yield Skipped(name, "it is empty")
        for number, each in enumerate(_each(value)):
            yield from _pieces(tree, name, each, number, called)


def _kind(name: str) -> bool:
    *above, last = name.split("/")
    kinds = ("conversations", "memories", "projects")
    return last.startswith(kinds) or (bool(above) and above[-1] in kinds)


def _each(value: Json) -> list[dict[str, Json]]:
    return [mapping(each) for each in (value if isinstance(value, list) else [value] if value else [])]


def _pieces(
    tree: FileTree, name: str, given: dict[str, Json], number: int, called: dict[str, str]
) -> Iterator[Piece]:
    if isinstance(given.get("chat_messages"), list):
        yield _session(tree, name, given)
    elif "conversations_memory" in given or "project_memories" in given:
        yield from _memory(name, given, called, tree.changed(name))
    elif "docs" in given or "prompt_template" in given:
        yield from _project(name, given)
    elif "mapping" in given:
        yield Skipped(f"{name}#{number + 1}", "a conversation of ChatGPT: use `vade import chatgpt`")
    else:
        yield Skipped(f"{name}#{number + 1}", "not a conversation, memory or project")


# -------------------------------------------------------------------- conversations


def _session(tree: FileTree, name: str, given: dict[str, Json]) -> Piece:
    own = text(given.get("uuid"))
    own = own or hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:32]

    def read(path: Path, seen: Seen = unseen) -> Iterator[Found]:
        return read_conversation(given, own)

    title = " ".join(text(given.get("name")).split()) or own
    return session_in(tree, name, f"{name}: {title[:80]}", Conversation("claude-ai", read))


def read_conversation(given: dict[str, Json], own: str) -> Iterator[Found]:
    """Everything that was said in a conversation."""
    yield SessionFacts(own, text(given.get("name")), created=moment(given.get("created_at")))
    about = without(given, _FIELDS)
    for each in listed(given.get("chat_messages")):
        if not isinstance(each, dict):
            yield Unread(0, "a message that is not an object")
            continue
        for message in _messages(each):
            yield message._replace(extra={**message.extra, "conversation": about}) if about else message
            about = {}


def _messages(given: dict[str, Json]) -> Iterator[Message]:
    """A message, with the results of its tools as messages of their own."""
    sender = text(given.get("sender"))
    parts = tuple(_parts(given))
    extra = without(given, _KNOWN)
    if sender not in _ROLES:
        extra[META] = written(given.get("sender")) or "no role"
    own = text(given.get("uuid"))
    runs = groupby(parts, key=lambda part: isinstance(part, ToolResult))
    for number, (result, run) in enumerate(runs):
        role = Role.TOOL if result else _ROLES.get(sender, Role.SYSTEM)
        id = f"{own}:{number}" if number and own else own
        yield Message(role, tuple(run), id=id, time=moment(given.get("created_at")), extra=extra)
        extra = {}


def _parts(given: dict[str, Json]) -> Iterator[Part]:
    blocks = parts_of(given.get("content"))
    words = text(given.get("text"))
    yield from (part for part in blocks if not (isinstance(part, Text) and not part.text))
    if words and not any(isinstance(part, Text) and part.text for part in blocks):
        yield Text(words)
    for each in listed(given.get("attachments")):
        about = mapping(each)
        content = text(about.get("extracted_content"))
        rest = {"attachment": without(about, ("extracted_content",))}
        yield Text(content, rest) if content else Opaque(each)
    yield from (Opaque({"file": each}) for each in listed(given.get("files")))


# -------------------------------------------------------------------- what it remembers


def _memory(name: str, given: dict[str, Json], called: dict[str, str], when: str) -> Iterator[Piece]:
    said = text(given.get("conversations_memory"))
    rest = without(given, _MEMORY)
    beside = {"export": rest} if rest else {}
    if said.strip() or rest:
        yield TopicPiece(
            name,
            "claude-ai-memory",
            (Entry(said, when or None),) if said.strip() else (),
            Scope.GLOBAL,
            type=RecordType.USER,
            title="What Claude.ai remembers",
            fields=beside,
        )
    for project, words in mapping(given.get("project_memories")).items():
        title = called.get(project) or project
        yield TopicPiece(
            f"{name}#{project}",
            f"claude-ai-{title}-memory",
            (Entry(written(words), when or None),),
            Scope.GLOBAL,
            named=False,
            title=f"What Claude.ai remembers of {title}",
        )


def _project(name: str, given: dict[str, Json]) -> Iterator[Piece]:
    title, own = text(given.get("name")), text(given.get("uuid"))
    source = f"{name}#{own or title}"
    words = "\n\n".join(filter(None, (text(given.get("description")), text(given.get("prompt_template")))))
    rest = without(given, (*_PROJECT, "description"))
    if words.strip():
        yield TopicPiece(
            source,
            f"claude-ai-{title or own}",
            (Entry(words, moment(given.get("updated_at")) or moment(given.get("created_at")) or None),),
            Scope.GLOBAL,
            named=False,
            type=RecordType.REFERENCE,
            title=title,
            created=moment(given.get("created_at")),
            fields={"export": rest} if rest else {},
        )
    for each in listed(given.get("docs")):
        document = mapping(each)
        file = text(document.get("filename")) or text(document.get("uuid"))
        yield TopicPiece(
            f"{source}/{file}",
            f"claude-ai-{title or own}-{file}",
            (Entry(text(document.get("content")), moment(document.get("created_at")) or None),),
            Scope.GLOBAL,
            named=False,
            type=RecordType.REFERENCE,
            title=file,
        )
    if not words.strip() and not listed(given.get("docs")):
        yield Skipped(source, "a project without instructions or documents")


AGENT = Agent("claude-ai", memories=memories)
