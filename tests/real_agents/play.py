"""The session that every agent plays: store, many questions to memory, a prompt that memory answers, resume.

A scenario names how its agent is started, gone on with and ended; what must hold is the same for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from real_agents.model_server import Call
from vademecum.transcripts import ASIDE, Role, is_aside, is_own_call

if TYPE_CHECKING:
    from real_agents.model_server import ModelServer, Script
    from real_agents.world import World
    from vademecum.transcripts import Message

ZEBRA = "The zebra dashboard is at grafana.internal/zebra"
TEAL = "The harbour crane is painted teal"
REMEMBER = "Please remember that the harbour crane is painted teal, and look up the release train"
ASK = "Where is the zebra dashboard, and what colour is the harbour crane?"
AGAIN = "Once more: which colour has the harbour crane, and when does the release train leave?"
QUESTIONS = 16

SCRIPT: Script = {
    REMEMBER: [
        Call("memory_store", {"content": TEAL, "key": "harbour-crane"}),
        *(
            Call(
                "session_search" if number % 3 == 2 else "memory_search",
                {"query": f"release train harbour crane {number}"},
            )
            for number in range(QUESTIONS)
        ),
        "It is kept: teal. Nobody has said when the release train leaves.",
    ],
    ASK: [Call("memory_search", {"query": "harbour crane colour"}), "At grafana.internal/zebra; teal."],
    AGAIN: [Call("memory_recall", {"query": "harbour crane"}), "Teal, and nobody knows."],
}


def prepared(world: World) -> None:
    """A memory with a record that only a prompt brings back, among so many that the block has no room."""
    memory = world.memory()
    memory.store(ZEBRA, key="zebra")


def check_tools(server: ModelServer, *, first: bool = True) -> None:
    """Our tools were there, in the first request where the agent does not hide tools from its model."""
    talk = server.conversation
    assert talk, "the agent never asked the model"
    assert not [each.answer for each in talk if str(each.answer).startswith("NO SUCH TOOL")]
    if first:
        assert talk[0].offers("memory_store")
        assert talk[0].offers("session_search")


def check_told(server: ModelServer) -> None:
    """The instruction and the block for the session stand in the requests."""
    first = server.conversation[0].text
    assert "## Memory" in first
    assert "Notes from earlier sessions" in first
    assert "grafana.internal/zebra" in first


def check_hooks(world: World, events: set[str]) -> None:
    """Each hook that the agent has was called, ended well and wrote nothing to standard error."""
    calls = world.hooks()
    assert {each.event for each in calls} >= events
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
    said = [each.text.strip().strip('"') for each in thread if each.role is Role.USER and not is_aside(each)]
    assert [each for each in said if each] == list(prompts)
    assert all(each.parts for each in thread), "an empty message"
    results = [part.id for each in thread for part in each.results]
    assert len(results) == len(set(results)), "a result twice"
    calls = [part for each in thread for part in each.calls if is_own_call(part)]
    assert len(calls) >= QUESTIONS + 1
    for log in sorted((world.home / "transcripts").rglob("*.jsonl")):
        content = log.read_text("utf-8")
        assert "Notes from earlier sessions" not in content.replace(ASIDE, ""), "the block is in the copy"
        assert '"unread":' not in content or '"unread":0' in content, "lines that were not read"


def check_found(world: World) -> None:
    """What the person said comes first, and nothing that memory was asked or answered is found."""
    memory = world.memory()
    found = memory.sessions.search("harbour crane release train", max_results=10).hits
    assert found
    assert found[0].role == "user", found[0]
    assert not [each for each in found if '"results"' in each.preview or "memory_search" in each.preview]
    own = memory.sessions.search("harbour crane release train", max_results=10, own=True).hits
    assert [each for each in own if "memory_search" in each.preview or "results" in each.preview]
