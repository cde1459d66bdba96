"""ChatGPT: the archive of its data export, or the unpacked folder.

Conversations are in `conversations.json`, or `conversations-000.json` and so on. Each is a tree of messages,
in which `current_node` ends the branch that was shown last; all messages are read, and those of other
branches are flagged (`left`). Each conversation becomes a session. A message to a tool becomes a call; code,
reasoning, quotes and results are read by their `content_type`, and unknown content is kept opaque. Messages
hidden from the person are flagged (`meta`). The fields of a conversation are stored in its first message.
Empty messages are left out.

Memory: an export has no file of memories. The memories shown to the model (`model_editable_context`), the
memories it wrote (the tool `bio`), and the custom instructions become records, each version with its time.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.agents.base import Agent
from vademecum.agents.memory_files import session_in, value_in
from vademecum.knowledge import Conversation, Skipped, TopicPiece
from vademecum.transcripts import LEFT, META, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult
from vademecum.transcripts.foreign import (
    SessionFacts,
    Unread,
    as_list,
    as_text,
    ignore_progress,
    mapping,
    moment,
    part_of,
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

_CONVERSATIONS = re.compile(r"conversations(-\d+)?\.json")
_ROLES = {each.value: each for each in (Role.USER, Role.ASSISTANT, Role.SYSTEM, Role.TOOL)}
_KNOWN = ("id", "author", "create_time", "content", "recipient", "weight", "status", "end_turn")
_CONTEXTS = ("user_editable_context", "model_editable_context")
_FIELDS = ("title", "create_time", "mapping", "current_node", "conversation_id", "id")
_NUMBER = re.compile(r"^[ \t]*\d{1,5}\. ", re.MULTILINE)
_DAY = re.compile(r"\[(\d{4}-\d\d-\d\d)\]\.?[ ]?")


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield every conversation of the export as a session, and records of the memories found in them."""
    memory = _Memory({}, {})
    wanted = [name for name in tree.names() if name.endswith(".json")]
    for name in wanted:
        if len(wanted) > 1 and not _CONVERSATIONS.fullmatch(name.rpartition("/")[2]):
            yield Skipped(name, "no conversations, only account data")
            continue
        value, problems = value_in(tree, name)
        yield from problems
        for number, each in enumerate(as_list(value)):
            conversation = mapping(each)
            if isinstance(conversation.get("mapping"), dict):
                memory.add(conversation)
                yield _session(tree, name, conversation)
            else:
                yield Skipped(f"{name}#{number + 1}", _other(conversation))
        if not isinstance(value, list) and not problems:
            yield Skipped(name, "not a list of conversations")
    yield from memory.pieces()


def _other(conversation: dict[str, Json]) -> str:
    if "chat_messages" in conversation:
        return "a conversation of Claude.ai: use `vade import claude-ai`"
    return "malformed: a conversation has a `mapping` of messages"


def _session(tree: FileTree, name: str, conversation: dict[str, Json]) -> Piece:
    given_id = text(conversation.get("conversation_id")) or text(conversation.get("id"))
    own = given_id or hashlib.sha256(json.dumps(conversation, sort_keys=True).encode()).hexdigest()[:32]

    def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
        return read_conversation(conversation, own)

    title = " ".join(text(conversation.get("title")).split()) or own
    return session_in(tree, name, f"{name}: {title[:80]}", Conversation("chatgpt", read))


# -------------------------------------------------------------------- conversations


def read_conversation(conversation: dict[str, Json], own: str) -> Iterator[FileItem]:
    """Yield the messages of a conversation."""
    nodes = {name: mapping(node) for name, node in mapping(conversation.get("mapping")).items()}
    model = text(conversation.get("default_model_slug"))
    created = moment(conversation.get("create_time"))
    yield SessionFacts(own, text(conversation.get("title")), created=created, model=model)
    last_branch = _last_branch(nodes, text(conversation.get("current_node")))
    about = without(conversation, _FIELDS)
    for name in _nodes_in_order(nodes):
        raw = nodes[name].get("message")
        if raw is None:
            continue
        if not isinstance(raw, dict):
            yield Unread(0, "a message that is not an object")
            continue
        message = _message(raw, _call_above(nodes, name))
        if message.parts:
            extra = {**message.extra, **({} if name in last_branch else {LEFT: True})}
            yield message._replace(extra={**extra, "conversation": about} if about else extra)
            about = {}


def _nodes_in_order(nodes: dict[str, dict[str, Json]]) -> list[str]:
    """Return all nodes, each after its parent; branches come in the order in which they were made."""
    tops = [name for name, node in nodes.items() if text(node.get("parent")) not in nodes]
    found: dict[str, None] = {}
    pending = [*reversed([*tops, *nodes])]  # the second copy is for nodes that are each other's parents
    while pending:
        name = pending.pop()
        if name in nodes and name not in found:
            found[name] = None
            pending += [text(each) for each in reversed(as_list(nodes[name].get("children")))]
    return [*found]


def _last_branch(nodes: dict[str, dict[str, Json]], last: str) -> set[str]:
    """Return the branch that was shown last; all nodes if that is unknown."""
    found: set[str] = set()
    while last in nodes and last not in found:
        found.add(last)
        last = text(nodes[last].get("parent"))
    return found or {*nodes}


def _call_above(nodes: dict[str, dict[str, Json]], name: str) -> str:
    """Return the id of the nearest message above a tool's result that is not itself a tool's."""
    visited: set[str] = set()
    while (name := text(nodes[name].get("parent"))) in nodes and name not in visited:
        visited.add(name)
        message = mapping(nodes[name].get("message"))
        if mapping(message.get("author")).get("role") != "tool":
            return text(message.get("id")) or name
    return ""


def _message(raw: dict[str, Json], call: str) -> Message:
    author, content = mapping(raw.get("author")), mapping(raw.get("content"))
    role = _ROLES.get(text(author.get("role")), Role.SYSTEM)
    about = mapping(raw.get("metadata"))
    parts = tuple(_parts(content))
    to = text(raw.get("recipient"))
    if role is Role.TOOL and parts:
        words = [
            part if isinstance(part, Text | Opaque) else Text(getattr(part, "text", "")) for part in parts
        ]
        parts = (ToolResult(call, tuple(words), text(author.get("name"))),)
    elif role is Role.ASSISTANT and to not in ("", "all") and parts:
        arguments = "\n".join(part.text for part in parts if isinstance(part, Text))
        parts = (ToolCall(text(raw.get("id")), to, arguments, without(content, ("parts", "text"))),)
    extra = without(raw, _KNOWN)
    kind = text(content.get("content_type"))
    if kind in _CONTEXTS or about.get("is_visually_hidden_from_conversation") is True:
        extra[META] = kind if kind in _CONTEXTS else "hidden"
    if text(author.get("role")) not in _ROLES:
        extra[META] = as_text(author.get("role")) or "no role"
    return Message(
        role,
        parts,
        id=text(raw.get("id")),
        time=moment(raw.get("create_time")),
        model=text(about.get("model_slug")),
        extra=extra,
    )


def _parts(content: dict[str, Json]) -> Iterator[Part]:
    """Yield the parts of a message, by its content type."""
    kind = text(content.get("content_type"))
    if kind == "thoughts":
        for each in as_list(content.get("thoughts")):
            thought = [text(mapping(each).get(name)) for name in ("summary", "content")]
            yield Thinking("\n".join(filter(None, thought)))
    elif kind == "reasoning_recap":
        yield Thinking(text(content.get("content")))
    elif kind in _CONTEXTS:
        named = ("user_profile", "user_instructions", "model_set_context")
        yield from (Text(field) for name in named if (field := text(content.get(name))))
    elif isinstance(content.get("parts"), list):
        for each in as_list(content["parts"]):
            if not isinstance(each, str):
                words = text(mapping(each).get("text"))
                yield Text(words, without(mapping(each), ("text",))) if words else Opaque(each)
            elif each:
                yield part_of(each)
    else:
        words = text(content.get("text")) or text(content.get("result"))
        rest = without(content, ("content_type", "text", "result"))
        if words:
            yield Text(words, rest)
        elif rest:
            yield Opaque(content)


# -------------------------------------------------------------------- memories


class _Memory(NamedTuple):
    """The memories and instructions found in conversations, each text once, with its time."""

    memory_times: dict[str, str]
    instructions: dict[str, str]

    def add(self, conversation: dict[str, Json]) -> None:
        """Add the memories found in one conversation."""
        for node in mapping(conversation.get("mapping")).values():
            message = mapping(mapping(node).get("message"))
            content = mapping(message.get("content"))
            when = moment(message.get("create_time")) or moment(conversation.get("create_time"))
            kind = text(content.get("content_type"))
            if kind == "model_editable_context":
                whole = text(content.get("model_set_context"))
                for item in _NUMBER.split(whole)[1:] or [whole]:
                    day = _DAY.match(item)
                    _earliest(self.memory_times, item[day.end() :] if day else item, day[1] if day else when)
            elif kind == "user_editable_context":
                for name in ("user_profile", "user_instructions"):
                    _earliest(self.instructions, text(content.get(name)), when)
            elif message.get("recipient") == "bio":
                memory_text = "\n".join(part.text for part in _parts(content) if isinstance(part, Text))
                _earliest(self.memory_times, memory_text, when)

    def pieces(self) -> Iterator[Piece]:
        """Yield a record of the memories, and one of the custom instructions."""
        found = (("memory", self.memory_times), ("custom-instructions", self.instructions))
        for name, times_by_text in found:
            entries = tuple(Entry(words, when or None) for words, when in times_by_text.items())
            if entries:
                key = f"chatgpt-{name}"
                yield TopicPiece(
                    name, key, entries, Scope.GLOBAL, type=RecordType.USER, title=f"ChatGPT {name}"
                )


def _earliest(times_by_text: dict[str, str], memory_text: str, when: str) -> None:
    words = memory_text.strip()
    if words:
        times_by_text[words] = min(filter(None, (times_by_text.get(words), when)), default="")


AGENT = Agent("chatgpt", memories=memories)
