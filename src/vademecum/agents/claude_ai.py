"""Claude.ai: the archive of its data export, or the unpacked folder.

Conversations are in `conversations.json`, a list of conversations with their messages in order; each becomes
a session. A message is read from its blocks, or from its `text` if it has none; attachments come with their
text. The fields of a conversation are stored in its first message.

Memory: `memories.json` (or `memories/*.json`) holds a text about the person and one for each project;
`projects.json` (or `projects/*.json`) holds instructions and documents. Each becomes a record.
"""

from __future__ import annotations

import hashlib
import json
from itertools import groupby
from typing import TYPE_CHECKING

from vademecum.agents.base import Agent
from vademecum.agents.memory_files import session_in, value_in
from vademecum.knowledge import Conversation, Skipped, TopicPiece
from vademecum.transcripts import META, Message, Opaque, Role, Text, ToolResult
from vademecum.transcripts.foreign import (
    SessionFacts,
    Unread,
    as_list,
    as_text,
    ignore_progress,
    mapping,
    moment,
    parts_of,
    text,
    without,
)
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.agents.memory_files import FileTree, Importing
    from vademecum.knowledge import Piece
    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.foreign import FileItem, OnBytes

_ROLES = {"human": Role.USER, "user": Role.USER, "assistant": Role.ASSISTANT}
_KNOWN = ("uuid", "text", "content", "sender", "created_at", "updated_at", "attachments", "files")
_FIELDS = ("uuid", "name", "created_at", "updated_at", "account", "chat_messages")
_MEMORY = ("conversations_memory", "project_memories", "account_uuid")
_PROJECT = tuple("uuid name prompt_template docs created_at updated_at creator".split())


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield every conversation as a session, and a record for each memory and project."""
    wanted = [name for name in tree.names() if name.endswith(".json")]
    project_names: dict[str, str] = {}
    found = [(name, *value_in(tree, name)) for name in wanted if _kind(name) or len(wanted) == 1]
    for _, value, _ in found:
        for each in _each(value):
            project_names[text(each.get("uuid"))] = text(each.get("name"))
    for name in wanted:
        if name not in [each[0] for each in found]:
            yield Skipped(name, "no conversations, memories or projects, only account data")
    for name, value, problems in found:
        yield from problems
        if not _each(value) and not problems:
            yield Skipped(name, "it is empty")
        for number, each in enumerate(_each(value)):
            yield from _pieces(tree, name, each, number, project_names)


def _kind(name: str) -> bool:
    *above, last = name.split("/")
    kinds = ("conversations", "memories", "projects")
    return last.startswith(kinds) or (bool(above) and above[-1] in kinds)


def _each(value: Json) -> list[dict[str, Json]]:
    return [mapping(each) for each in (value if isinstance(value, list) else [value] if value else [])]


def _pieces(
    tree: FileTree, name: str, raw: dict[str, Json], number: int, project_names: dict[str, str]
) -> Iterator[Piece]:
    if isinstance(raw.get("chat_messages"), list):
        yield _session(tree, name, raw)
    elif "conversations_memory" in raw or "project_memories" in raw:
        yield from _memory(name, raw, project_names, tree.changed(name))
    elif "docs" in raw or "prompt_template" in raw:
        yield from _project(name, raw)
    elif "mapping" in raw:
        yield Skipped(f"{name}#{number + 1}", "a conversation of ChatGPT: use `vade import chatgpt`")
    else:
        yield Skipped(f"{name}#{number + 1}", "not a conversation, memory or project")


# -------------------------------------------------------------------- conversations


def _session(tree: FileTree, name: str, raw: dict[str, Json]) -> Piece:
    own = text(raw.get("uuid"))
    own = own or hashlib.sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()[:32]

    def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
        return read_conversation(raw, own)

    title = " ".join(text(raw.get("name")).split()) or own
    return session_in(tree, name, f"{name}: {title[:80]}", Conversation("claude-ai", read))


def read_conversation(raw: dict[str, Json], own: str) -> Iterator[FileItem]:
    """Yield the messages of a conversation."""
    yield SessionFacts(own, text(raw.get("name")), created=moment(raw.get("created_at")))
    about = without(raw, _FIELDS)
    for each in as_list(raw.get("chat_messages")):
        if not isinstance(each, dict):
            yield Unread(0, "a message that is not an object")
            continue
        for message in _messages(each):
            yield message._replace(extra={**message.extra, "conversation": about}) if about else message
            about = {}


def _messages(raw: dict[str, Json]) -> Iterator[Message]:
    """Yield a message of a conversation, and its tool results as separate messages."""
    sender = text(raw.get("sender"))
    parts = tuple(_parts(raw))
    extra = without(raw, _KNOWN)
    if sender not in _ROLES:
        extra[META] = as_text(raw.get("sender")) or "no role"
    own = text(raw.get("uuid"))
    runs = groupby(parts, key=lambda part: isinstance(part, ToolResult))
    for number, (result, run) in enumerate(runs):
        role = Role.TOOL if result else _ROLES.get(sender, Role.SYSTEM)
        id = f"{own}:{number}" if number and own else own
        yield Message(role, tuple(run), id=id, time=moment(raw.get("created_at")), extra=extra)
        extra = {}


def _parts(raw: dict[str, Json]) -> Iterator[Part]:
    blocks = parts_of(raw.get("content"))
    words = text(raw.get("text"))
    yield from (part for part in blocks if not (isinstance(part, Text) and not part.text))
    if words and not any(isinstance(part, Text) and part.text for part in blocks):
        yield Text(words)
    for each in as_list(raw.get("attachments")):
        about = mapping(each)
        content = text(about.get("extracted_content"))
        rest = {"attachment": without(about, ("extracted_content",))}
        yield Text(content, rest) if content else Opaque(each)
    yield from (Opaque({"file": each}) for each in as_list(raw.get("files")))


# -------------------------------------------------------------------- memories


def _memory(name: str, raw: dict[str, Json], project_names: dict[str, str], when: str) -> Iterator[Piece]:
    memory_text = text(raw.get("conversations_memory"))
    rest = without(raw, _MEMORY)
    export_fields = {"export": rest} if rest else {}
    if memory_text.strip() or rest:
        yield TopicPiece(
            name,
            "claude-ai-memory",
            (Entry(memory_text, when or None),) if memory_text.strip() else (),
            Scope.GLOBAL,
            type=RecordType.USER,
            title="What Claude.ai remembers",
            fields=export_fields,
        )
    for project, words in mapping(raw.get("project_memories")).items():
        title = project_names.get(project) or project
        yield TopicPiece(
            f"{name}#{project}",
            f"claude-ai-{title}-memory",
            (Entry(as_text(words), when or None),),
            Scope.GLOBAL,
            named=False,
            title=f"What Claude.ai remembers of {title}",
        )


def _project(name: str, raw: dict[str, Json]) -> Iterator[Piece]:
    title, own = text(raw.get("name")), text(raw.get("uuid"))
    source = f"{name}#{own or title}"
    words = "\n\n".join(filter(None, (text(raw.get("description")), text(raw.get("prompt_template")))))
    rest = without(raw, (*_PROJECT, "description"))
    if words.strip():
        yield TopicPiece(
            source,
            f"claude-ai-{title or own}",
            (Entry(words, moment(raw.get("updated_at")) or moment(raw.get("created_at")) or None),),
            Scope.GLOBAL,
            named=False,
            type=RecordType.REFERENCE,
            title=title,
            created=moment(raw.get("created_at")),
            fields={"export": rest} if rest else {},
        )
    for each in as_list(raw.get("docs")):
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
    if not words.strip() and not as_list(raw.get("docs")):
        yield Skipped(source, "a project without instructions or documents")


AGENT = Agent("claude-ai", memories=memories)
