"""Letta: agents in a file (`.af`), which is JSON, in today's format or the first one.

Memory: each block of core memory and the system prompt become a record; other fields of a block are stored
under `letta`. The messages of an agent become a session. Tools, files and sources are left out.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from vademecum.agents.base import Agent
from vademecum.agents.memory_files import session_in, value_in
from vademecum.knowledge import Conversation, Skipped, TopicPiece
from vademecum.transcripts.foreign import (
    SessionFacts,
    Unread,
    as_list,
    chat_message,
    ignore_progress,
    mapping,
    moment,
    text,
    without,
)
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.agents.memory_files import FileTree, Importing
    from vademecum.knowledge import Piece
    from vademecum.transcripts import Json
    from vademecum.transcripts.foreign import FileItem, OnBytes

_BLOCK = ("label", "value", "created_at", "updated_at")
_SKIPPED_PARTS = ("tools", "files", "sources", "mcp_servers", "groups", "skills")


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield the memory blocks and messages of every agent in every file."""
    for name in tree.names():
        if not name.endswith((".af", ".json")):
            continue
        value, problems = value_in(tree, name)
        yield from problems
        file = mapping(value)
        agents = [mapping(each) for each in as_list(file.get("agents"))]
        if "core_memory" in file:  # the first format: the file is one agent
            agents = [file]
        if not agents and not problems:
            yield Skipped(name, "it contains no Letta agent")
        blocks = {text(mapping(each).get("id")): mapping(each) for each in as_list(file.get("blocks"))}
        for agent in agents:
            yield from _agent(tree, name, agent, blocks)
        for part in _SKIPPED_PARTS:
            if count := len(as_list(file.get(part))):
                yield Skipped(f"{name}#{part}", f"{count} left: no memory")


def _agent(
    tree: FileTree, name: str, agent: dict[str, Json], blocks: dict[str, dict[str, Json]]
) -> Iterator[Piece]:
    agent_name, when = text(agent.get("name")) or "agent", tree.changed(name)
    own = [blocks[each] for each in map(text, as_list(agent.get("block_ids"))) if each in blocks]
    own += [mapping(each) for part in ("core_memory", "memory_blocks") for each in as_list(agent.get(part))]
    for block in own:
        label = text(block.get("label")) or "block"
        value = text(block.get("value"))
        rest = without(block, _BLOCK)
        yield TopicPiece(
            f"{name}#{agent_name}/{label}",
            f"letta-{agent_name}-{label}",
            (Entry(value, moment(block.get("updated_at")) or when or None),) if value.strip() else (),
            Scope.GLOBAL,
            named=False,
            type=RecordType.USER if label == "human" else RecordType.REFERENCE,
            title=f"{agent_name}: {label}",
            created=moment(block.get("created_at")),
            fields={"letta": rest} if rest else {},
        )
    system = text(agent.get("system"))
    if system.strip():
        key, entry = (
            f"letta-{agent_name}-system",
            Entry(system, moment(agent.get("created_at")) or when or None),
        )
        yield TopicPiece(
            f"{name}#{agent_name}/system", key, (entry,), Scope.GLOBAL, named=False, type=RecordType.REFERENCE
        )
    if as_list(agent.get("messages")):
        yield _session(tree, name, agent, agent_name)


def _session(tree: FileTree, name: str, agent: dict[str, Json], agent_name: str) -> Piece:
    # Ids in a file are numbers from zero, so an agent is identified by its first message.
    begins = [agent_name, as_list(agent.get("messages"))[0]]
    own = hashlib.sha256(json.dumps(begins, sort_keys=True).encode()).hexdigest()[:32]

    def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
        return read_agent(agent, own)

    return session_in(tree, name, f"{name}#{agent_name}", Conversation("letta", read))


def read_agent(agent: dict[str, Json], own: str) -> Iterator[FileItem]:
    """Yield the messages of an agent."""
    messages = as_list(agent.get("messages"))
    model = text(mapping(agent.get("llm_config")).get("model"))
    created = moment(agent.get("created_at")) or moment(
        mapping(messages[0] if messages else None).get("created_at")
    )
    yield SessionFacts(own, text(agent.get("name")), created=created, model=model)
    for each in messages:
        if not isinstance(each, dict):
            yield Unread(0, "a message that is not an object")
            continue
        content = each.get("content")
        blocks = [_block(block) for block in content] if isinstance(content, list) else content
        message = chat_message({**each, "content": blocks or each.get("text")})
        if message.parts:
            yield message


def _block(block: Json) -> Json:
    """Return a block of a message in Anthropic's format."""
    raw = mapping(block)
    kind = raw.get("type")
    if kind == "reasoning":
        return {"type": "thinking", "thinking": raw.get("reasoning"), "signature": raw.get("signature")}
    if kind == "tool_call":
        return {**raw, "type": "tool_use"}
    if kind == "tool_return":
        return {**raw, "type": "tool_result", "tool_use_id": raw.get("tool_call_id")}
    return block


AGENT = Agent("letta", memories=memories, keeps=(".af",))
