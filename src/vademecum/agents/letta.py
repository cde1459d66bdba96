"""Letta: an agent in a file (`.af`), which is JSON, of today's shape or the first one.

Memory: each block of core memory becomes a record, and so does the system prompt; what else a block says
stands under `letta`. Messages become a session for each agent. Tools, files and sources are left.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from vademecum.agents.base import Agent
from vademecum.agents.memories import session_in, value_in
from vademecum.knowledge.intake import Conversation, Skipped, TopicPiece
from vademecum.transcripts.reading import (
    SessionFacts,
    Unread,
    chat_message,
    listed,
    mapping,
    moment,
    text,
    unseen,
    without,
)
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.agents.memories import FileTree, Importing
    from vademecum.knowledge.intake import Piece
    from vademecum.transcripts import Json
    from vademecum.transcripts.reading import Found, Seen

_BLOCK = ("label", "value", "created_at", "updated_at")
_LEFT = ("tools", "files", "sources", "mcp_servers", "groups", "skills")


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every agent in every file."""
    for name in tree.names():
        if not name.endswith((".af", ".json")):
            continue
        value, problems = value_in(tree, name)
        yield from problems
        file = mapping(value)
        agents = [mapping(each) for each in listed(file.get("agents"))]
        if "core_memory" in file:  # the first shape: the file is the agent
            agents = [file]
        if not agents and not problems:
            yield Skipped(name, "it contains no Letta agent")
        blocks = {text(mapping(each).get("id")): mapping(each) for each in listed(file.get("blocks"))}
        for agent in agents:
            yield from _agent(tree, name, agent, blocks)
        for part in _LEFT:
            if count := len(listed(file.get(part))):
                yield Skipped(f"{name}#{part}", f"{count} left: no memory")


def _agent(
    tree: FileTree, name: str, agent: dict[str, Json], blocks: dict[str, dict[str, Json]]
) -> Iterator[Piece]:
    called, when = text(agent.get("name")) or "agent", tree.changed(name)
    own = [blocks[each] for each in map(text, listed(agent.get("block_ids"))) if each in blocks]
    own += [mapping(each) for part in ("core_memory", "memory_blocks") for each in listed(agent.get(part))]
    for block in own:
        label = text(block.get("label")) or "block"
        said = text(block.get("value"))
        rest = without(block, _BLOCK)
        yield TopicPiece(
            f"{name}#{called}/{label}",
            f"letta-{called}-{label}",
            (Entry(said, moment(block.get("updated_at")) or when or None),) if said.strip() else (),
            Scope.GLOBAL,
            named=False,
            type=RecordType.USER if label == "human" else RecordType.REFERENCE,
            title=f"{called}: {label}",
            created=moment(block.get("created_at")),
            fields={"letta": rest} if rest else {},
        )
    system = text(agent.get("system"))
    if system.strip():
        key, entry = f"letta-{called}-system", Entry(system, moment(agent.get("created_at")) or when or None)
        yield TopicPiece(
            f"{name}#{called}/system", key, (entry,), Scope.GLOBAL, named=False, type=RecordType.REFERENCE
        )
    if listed(agent.get("messages")):
        yield _session(tree, name, agent, called)


def _session(tree: FileTree, name: str, agent: dict[str, Json], called: str) -> Piece:
    # Ids in a file are numbers from nought on, so an agent is known by how its messages begin.
    begins = [called, listed(agent.get("messages"))[0]]
    own = hashlib.sha256(json.dumps(begins, sort_keys=True).encode()).hexdigest()[:32]

    def read(path: Path, seen: Seen = unseen) -> Iterator[Found]:
        return read_agent(agent, own)

    return session_in(tree, name, f"{name}#{called}", Conversation("letta", read))


def read_agent(agent: dict[str, Json], own: str) -> Iterator[Found]:
    """Everything that an agent was told and said."""
    said = listed(agent.get("messages"))
    model = text(mapping(agent.get("llm_config")).get("model"))
    created = moment(agent.get("created_at")) or moment(mapping(said[0] if said else None).get("created_at"))
    yield SessionFacts(own, text(agent.get("name")), created=created, model=model)
    for each in said:
        if not isinstance(each, dict):
            yield Unread(0, "a message that is not an object")
            continue
        content = each.get("content")
        blocks = [_block(block) for block in content] if isinstance(content, list) else content
        message = chat_message({**each, "content": blocks or each.get("text")})
        if message.parts:
            yield message


def _block(block: Json) -> Json:
    """A block of a message in the words that are read here."""
    given = mapping(block)
    kind = given.get("type")
    if kind == "reasoning":
        return {"type": "thinking", "thinking": given.get("reasoning"), "signature": given.get("signature")}
    if kind == "tool_call":
        return {**given, "type": "tool_use"}
    if kind == "tool_return":
        return {**given, "type": "tool_result", "tool_use_id": given.get("tool_call_id")}
    return block


AGENT = Agent("letta", memories=memories, keeps=(".af",))
