"""The session that every agent plays: store, search, a prompt that memory answers, compaction, resume, end.

A scenario names how its agent is started, gone on with, compacted and ended; what must hold is the same for
all.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from real_agents.model_server import SUMMARY, Call
from vademecum.interfaces.tools.sets import TOOL_SETS
from vademecum.transcripts import ASIDE, Role, is_aside, is_memory_call
from vademecum.transcripts.events import Checkpoint, Summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from real_agents.model_server import ModelServer, Script, Step, Turn
    from real_agents.world import World
    from vademecum.transcripts import Message

ZEBRA = "The zebra dashboard is at grafana.internal/zebra"
OSPREY = "The osprey runbook lies in docs/osprey.md"
TEAL = "The harbour crane is painted teal"
REMEMBER = "Please remember that the harbour crane is painted teal, and look up the release train"
ASK = "Where is the zebra dashboard, and what colour is the harbour crane?"
AGAIN = "Once more: which colour has the harbour crane, and when does the release train leave?"
LAST = "Teal, and nobody knows."
FOLLOW = "Please read on in the session before this one, and say what it was about"
QUESTIONS = 16

_POINTER = re.compile(r'session_get (\{"session": "[^"]+", "place": \d+, "lines": \d+\})')


def recommended_call(turns: Sequence[Turn]) -> Step:
    """The call that the block of a session start names for the last session, exactly as it stands there."""
    found = _POINTER.search("\n".join(each.text for each in turns))
    return Call("session_get", json.loads(found[1])) if found else "NO CALL WAS RECOMMENDED"


SCRIPT: Script = {
    REMEMBER: [
        Call("memory_store", {"content": TEAL, "key": "harbour-crane"}),
        *(
            Call(
                "memory_search",
                {
                    "query": f"release train harbour crane {number}",
                    **({"sources": ["transcript"]} if number % 3 == 2 else {}),
                },
            )
            for number in range(QUESTIONS)
        ),
        "It is kept: teal. Nobody has said when the release train leaves.",
    ],
    ASK: [Call("memory_search", {"query": "harbour crane colour"}), "At grafana.internal/zebra; teal."],
    AGAIN: [Call("memory_search", {"query": "harbour crane"}), LAST],
    FOLLOW: [recommended_call, "It was about the harbour crane, which is teal."],
}


def prepared(world: World) -> None:
    """A memory with a record that only a prompt brings back, behind so many that the block has no room."""
    memory = world.memory()
    memory.store(ZEBRA, key="zebra")
    for number in range(memory.settings.inject.max_per_scope):
        memory.store(f"Service {number} is written in Dialect{number}", key=f"service-{number}")
    memory.store(OSPREY, key="osprey")


def check_tools(server: ModelServer, *, hidden: bool = False) -> None:
    """Our tools were in the very first request; of those that an agent hides, their names."""
    talk = server.conversation
    assert talk, "the agent never asked the model"
    assert not [each.answer for each in talk if str(each.answer).startswith("NO SUCH TOOL")]
    for name in (each.name for each in TOOL_SETS["core"]):
        assert f"{server.prefix}{name}" in talk[0].text if hidden else talk[0].offers(name), name


def check_told(server: ModelServer) -> None:
    """The instruction and the block for the session stand in the first request, what has no room does not."""
    first = server.conversation[0].text
    assert "## Memory" in first
    assert "Notes from earlier sessions" in first
    assert OSPREY in first
    assert ZEBRA not in first


def check_prompted(world: World, server: ModelServer) -> None:
    """What answers the second prompt came with it, before anybody looked it up."""
    (hook,) = [each for each in world.hooks("user-prompt") if ZEBRA in each.out]
    assert ASK in hook.given["prompt"]
    prompted_request = next(each for each in server.conversation if each.prompted == ASK)
    assert [
        each
        for each in prompted_request.turns
        if ZEBRA in each.text and not each.results and each.role != "tool"
    ]


def check_compacted(world: World, server: ModelServer) -> None:
    """The agent went on with a summary, and what it left behind is summed up in our copy."""
    requests = server.requests
    summary_place = next(at for at, each in enumerate(requests) if each.answer == SUMMARY)
    after = [each for each in requests[summary_place:] if each.prompted == AGAIN]
    assert after
    assert SUMMARY in after[0].said, "the summary stands in place of the history"
    assert "release train harbour crane 3" not in after[0].text, "and the history is gone"
    memory = world.memory()
    (session,) = [each for each in memory.sessions.list() if each.messages]
    events = list(memory.sessions.open(session.id).events())
    (summed,) = [each for each in events if isinstance(each, Summary)]
    assert [each for each in events if isinstance(each, Checkpoint)]
    assert "harbour crane" in summed.text
    assert "memory_search" not in summed.text, "our own traffic is summed up"


def check_hooks(world: World, events: set[str]) -> None:
    """Each hook that the agent has was called, ended well and wrote nothing to standard error."""
    calls = world.hooks()
    assert {each.event for each in calls} >= events, {each.event for each in calls}
    assert [each for each in calls if each.code or each.err] == []
    assert not (world.home / "hooks.log").exists()


def check_kept(world: World) -> None:
    """What the model stored is a record of the project, said by an agent."""
    (found,) = [each for each in world.memory().list() if each.key == "harbour-crane"]
    assert TEAL in found.text
    assert str(found.place.scope) == "project"


def thread_of(world: World) -> list[Message]:
    """The one session that was copied, whole."""
    memory = world.memory()
    (session,) = [each for each in memory.sessions.list() if each.messages]
    return list(memory.sessions.messages(session.id))


def check_copy(world: World, *prompts: str, named: bool = True) -> None:
    """The copy has what the person said, once, and in its order; calls once; memory's own block nowhere."""
    memory = world.memory()
    (session,) = [each for each in memory.sessions.list() if each.messages]
    assert session.name
    # Some agents have their model find a title.
    assert not named or prompts[0].startswith(session.name.rstrip("…")[:40]), session.name
    thread = thread_of(world)
    user_texts = [
        each.text.strip().strip('"') for each in thread if each.role is Role.USER and not is_aside(each)
    ]
    assert [each for each in user_texts if each] == list(prompts), user_texts
    assert all(each.parts for each in thread), "an empty message"
    results = [part.id for each in thread for part in each.results]
    assert len(results) == len(set(results)), "a result twice"
    calls = [part for each in thread for part in each.calls if is_memory_call(part)]
    assert len(calls) >= QUESTIONS + 1
    for log in sorted((world.home / "transcripts").rglob("*.jsonl")):
        content = log.read_text("utf-8")
        assert "Notes from earlier sessions" not in content.replace(ASIDE, ""), "the block is in the copy"
        events = [json.loads(line) for line in content.splitlines()]
        assert not any(each.get("import", {}).get("unread") for each in events), "lines that were not read"


def check_read_on(server: ModelServer) -> None:
    """A new session was told which call reads the last one, made it, and got what was said there."""
    asked = [each for each in server.conversation if each.prompted == FOLLOW]
    assert asked, "the new session never asked the model"
    assert not [each.answer for each in asked if str(each.answer).startswith(("NO CALL", "NO SUCH TOOL"))]
    read = asked[-1].text
    assert "exceeds maximum" not in read
    for said in (REMEMBER, ASK, "nobody knows"):
        assert said in read, said


def check_found(world: World) -> None:
    """What the person said comes first, and nothing that memory was asked or answered is found."""
    memory = world.memory()
    found = memory.sessions.search("harbour crane release train", max_results=10).hits
    assert found
    assert found[0].role == "user", found[0]
    assert not [each for each in found if '"results"' in each.preview or "memory_search" in each.preview]
    own = memory.sessions.search("harbour crane release train", max_results=10, own=True).hits
    assert [each for each in own if "memory_search" in each.preview or "results" in each.preview]
