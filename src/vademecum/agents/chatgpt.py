"""ChatGPT: the archive that its data export mails, or the folder it was unpacked to.

Conversations: `conversations.json`, or `conversations-000.json` and on. Each is a tree of messages, of which
`current_node` ends the branch that was last shown; all are read, those of other branches flagged (`left`).
Each becomes a session. A message to a tool is a call; code, thoughts, quotes and results are read by their
`content_type`, and what is not known is carried as it is. What a person does not see there is flagged
(`meta`). The fields of a conversation stand in its first message. Left out: messages that say nothing.

Memory: an export has no file of memories. What the model was told of them (`model_editable_context`), what it
wrote to them (the tool `bio`), and the custom instructions become records, each version at its time.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.agents.base import Agent
from vademecum.agents.memories import session_in, value_in
from vademecum.knowledge.intake import Conversation, Skipped, TopicPiece
from vademecum.transcripts import LEFT, META, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult
from vademecum.transcripts.reading import (
    SessionFacts,
    Unread,
    listed,
    mapping,
    moment,
    part_of,
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

_CONVERSATIONS = re.compile(r"conversations(-\d+)?\.json")
_ROLES = {each.value: each for each in (Role.USER, Role.ASSISTANT, Role.SYSTEM, Role.TOOL)}
_KNOWN = ("id", "author", "create_time", "content", "recipient", "weight", "status", "end_turn")
_CONTEXTS = ("user_editable_context", "model_editable_context")
_FIELDS = ("title", "create_time", "mapping", "current_node", "conversation_id", "id")
_NUMBER = re.compile(r"^[ \t]*\d{1,5}\. ", re.MULTILINE)
_DAY = re.compile(r"\[(\d{4}-\d\d-\d\d)\]\.?[ ]?")


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every conversation, and what they tell of the memory behind them."""
    kept = _Memory({}, {})
    wanted = [name for name in tree.names() if name.endswith(".json")]
    for name in wanted:
        if len(wanted) > 1 and not _CONVERSATIONS.fullmatch(name.rpartition("/")[2]):
            yield Skipped(name, "no conversations, only account data")
            continue
        value, problems = value_in(tree, name)
        yield from problems
        for number, each in enumerate(listed(value)):
            conversation = mapping(each)
            if isinstance(conversation.get("mapping"), dict):
                kept.look(conversation)
                yield _session(tree, name, conversation)
            else:
                yield Skipped(f"{name}#{number + 1}", _other(conversation))
        if not isinstance(value, list) and not problems:
            yield Skipped(name, "not a list of conversations")
    yield from kept.pieces()


def _other(conversation: dict[str, Json]) -> str:
    if "chat_messages" in conversation:
        return "a conversation of Claude.ai: use `vade import claude-ai`"
    return "malformed: a conversation has a `mapping` of messages"


def _session(tree: FileTree, name: str, conversation: dict[str, Json]) -> Piece:
    told = text(conversation.get("conversation_id")) or text(conversation.get("id"))
    own = told or hashlib.sha256(json.dumps(conversation, sort_keys=True).encode()).hexdigest()[:32]

    def read(path: Path, seen: Seen = unseen) -> Iterator[Found]:
        return read_conversation(conversation, own)

    title = " ".join(text(conversation.get("title")).split()) or own
    return session_in(tree, name, f"{name}: {title[:80]}", Conversation("chatgpt", read))


# -------------------------------------------------------------------- conversations


def read_conversation(conversation: dict[str, Json], own: str) -> Iterator[Found]:
    """Everything that was said in a conversation."""
    nodes = {name: mapping(node) for name, node in mapping(conversation.get("mapping")).items()}
    model = text(conversation.get("default_model_slug"))
    created = moment(conversation.get("create_time"))
    yield SessionFacts(own, text(conversation.get("title")), created=created, model=model)
    shown = _shown(nodes, text(conversation.get("current_node")))
    about = without(conversation, _FIELDS)
    for name in _in_order(nodes):
        given = nodes[name].get("message")
        if given is None:
            continue
        if not isinstance(given, dict):
            yield Unread(0, "a message that is not an object")
            continue
        message = _message(given, _call_above(nodes, name))
        if message.parts:
            extra = {**message.extra, **({} if name in shown else {LEFT: True})}
            yield message._replace(extra={**extra, "conversation": about} if about else extra)
            about = {}


def _in_order(nodes: dict[str, dict[str, Json]]) -> list[str]:
    """All nodes, each behind its parent, and branches in the order they were made."""
    tops = [name for name, node in nodes.items() if text(node.get("parent")) not in nodes]
    found: dict[str, None] = {}
    waiting = [*reversed([*tops, *nodes])]  # the second time for those that are each other's parents
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in found:
            found[name] = None
            waiting += [text(each) for each in reversed(listed(nodes[name].get("children")))]
    return [*found]


def _shown(nodes: dict[str, dict[str, Json]], last: str) -> set[str]:
    """The branch that was last shown; all of it when nothing says which that is."""
    found: set[str] = set()
    while last in nodes and last not in found:
        found.add(last)
        last = text(nodes[last].get("parent"))
    return found or {*nodes}


def _call_above(nodes: dict[str, dict[str, Json]], name: str) -> str:
    """The message that a tool's answer answers: the nearest one above that is none of a tool's."""
    seen: set[str] = set()
    while (name := text(nodes[name].get("parent"))) in nodes and name not in seen:
        seen.add(name)
        message = mapping(nodes[name].get("message"))
        if mapping(message.get("author")).get("role") != "tool":
            return text(message.get("id")) or name
    return ""


def _message(given: dict[str, Json], call: str) -> Message:
    author, content = mapping(given.get("author")), mapping(given.get("content"))
    role = _ROLES.get(text(author.get("role")), Role.SYSTEM)
    about = mapping(given.get("metadata"))
    parts = tuple(_parts(content))
    to = text(given.get("recipient"))
    if role is Role.TOOL and parts:
        words = [
            part if isinstance(part, Text | Opaque) else Text(getattr(part, "text", "")) for part in parts
        ]
        parts = (ToolResult(call, tuple(words), text(author.get("name"))),)
    elif role is Role.ASSISTANT and to not in ("", "all") and parts:
        said = "\n".join(part.text for part in parts if isinstance(part, Text))
        parts = (ToolCall(text(given.get("id")), to, said, without(content, ("parts", "text"))),)
    extra = without(given, _KNOWN)
    kind = text(content.get("content_type"))
    if kind in _CONTEXTS or about.get("is_visually_hidden_from_conversation") is True:
        extra[META] = kind if kind in _CONTEXTS else "hidden"
    if text(author.get("role")) not in _ROLES:
        extra[META] = written(author.get("role")) or "no role"
    return Message(
        role,
        parts,
        id=text(given.get("id")),
        time=moment(given.get("create_time")),
        model=text(about.get("model_slug")),
        extra=extra,
    )


def _parts(content: dict[str, Json]) -> Iterator[Part]:
    """The parts of a message, by the kind of its content."""
    kind = text(content.get("content_type"))
    if kind == "thoughts":
        for each in listed(content.get("thoughts")):
            thought = [text(mapping(each).get(name)) for name in ("summary", "content")]
            yield Thinking("\n".join(filter(None, thought)))
    elif kind == "reasoning_recap":
        yield Thinking(text(content.get("content")))
    elif kind in _CONTEXTS:
        named = ("user_profile", "user_instructions", "model_set_context")
        yield from (Text(said) for name in named if (said := text(content.get(name))))
    elif isinstance(content.get("parts"), list):
        for each in listed(content["parts"]):
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


# -------------------------------------------------------------------- what it remembers


class _Memory(NamedTuple):
    """What the conversations tell of the memory behind them, each thing once, with its time."""

    remembered: dict[str, str]
    instructed: dict[str, str]

    def look(self, conversation: dict[str, Json]) -> None:
        """Note what one conversation tells."""
        for node in mapping(conversation.get("mapping")).values():
            message = mapping(mapping(node).get("message"))
            content = mapping(message.get("content"))
            when = moment(message.get("create_time")) or moment(conversation.get("create_time"))
            kind = text(content.get("content_type"))
            if kind == "model_editable_context":
                whole = text(content.get("model_set_context"))
                for item in _NUMBER.split(whole)[1:] or [whole]:
                    day = _DAY.match(item)
                    _earliest(self.remembered, item[day.end() :] if day else item, day[1] if day else when)
            elif kind == "user_editable_context":
                for name in ("user_profile", "user_instructions"):
                    _earliest(self.instructed, text(content.get(name)), when)
            elif message.get("recipient") == "bio":
                said = "\n".join(part.text for part in _parts(content) if isinstance(part, Text))
                _earliest(self.remembered, said, when)

    def pieces(self) -> Iterator[Piece]:
        """A record of what it remembers, and one of the instructions it was given."""
        found = (("memory", self.remembered), ("custom-instructions", self.instructed))
        for name, said in found:
            entries = tuple(Entry(words, when or None) for words, when in said.items())
            if entries:
                key = f"chatgpt-{name}"
                yield TopicPiece(
                    name, key, entries, Scope.GLOBAL, type=RecordType.USER, title=f"ChatGPT {name}"
                )


def _earliest(found: dict[str, str], said: str, when: str) -> None:
    words = said.strip()
    if words:
        found[words] = min(filter(None, (found.get(words), when)), default="")


AGENT = Agent("chatgpt", memories=memories)
