"""What memory was asked and what it answered is no conversation: held against sessions of the real agents.

The fixtures were recorded by `make agents` (`tests/real_agents/record.py`): a session of each agent, resumed
and compacted, in which its model asks memory many times.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cases import every_case
from hooks.calls import World, wait_until
from vademecum.agents.registry import find as find_agent
from vademecum.context.summary import summarize
from vademecum.interfaces.tools.sets import TOOL_SETS
from vademecum.memory import connect
from vademecum.transcripts import (
    ASIDE,
    Message,
    Opaque,
    OpenMemoryCalls,
    Role,
    Text,
    ToolCall,
    ToolResult,
    is_aside,
    is_memory_call,
    is_memory_tool,
    replace_memory_blocks,
    without_memory_calls,
)
from vademecum.transcripts.events import Summary
from vademecum.transcripts.importing import without_injected_blocks
from vademecum.types import Origin

if TYPE_CHECKING:
    from vademecum.memory import Memory

FIXTURES = Path(__file__).parents[1] / "fixtures" / "agents"
HOOKED = ("claude-code", "codex", "gemini", "qwen-code")  # which take an answer in one shape
FORMATS = {
    "opencode": "opencode",
    "goose": "goose",
    "copilot": "copilot",
    **{"claude-code": "claude-code", "codex": "codex", "gemini": "gemini-cli", "qwen-code": "qwen-code"},
}
PLACES = {
    "claude-code": ".claude/projects/-home-ada-project/one.jsonl",
    "opencode": ".local/share/opencode/vade/one.json",
    "goose": ".local/share/goose/vade/one.json",
    "codex": ".codex/sessions/2026/11/16/rollout-one.jsonl",
    "copilot": ".copilot/session-state/one/events.jsonl",
    "gemini": ".gemini/tmp/project/chats/session-one.jsonl",
    "qwen-code": ".qwen/projects/-home-ada-project/chats/one.jsonl",
}
PROMPTS = [
    "Please remember that the harbour crane is painted teal, and look up the release train",
    "Where is the zebra dashboard, and what colour is the harbour crane?",
    "Once more: which colour has the harbour crane, and when does the release train leave?",
]
BLOCK = "<vade-memory>\nNotes from earlier sessions.\n- [project] zebra: striped\n</vade-memory>"
ESCAPED = BLOCK.replace("<", "&lt;").replace(">", "&gt;")


def placed(person: Path, agent: str, *, name: str = "", lines: int | None = None) -> Path:
    """The recorded transcript where its agent keeps them; of a session that goes on, its first lines."""
    path = person / PLACES[agent].replace("one", name or "one")
    path.parent.mkdir(parents=True, exist_ok=True)
    content = (FIXTURES / agent / "transcript.jsonl").read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(content[:lines]), "utf-8")
    return path


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    return connect(
        home=tmp_path / "person" / ".vade", cwd=tmp_path / "project", origin=Origin.USER, actor="human:ada"
    )


def thread(memory: Memory, tmp_path: Path, agent: str, **given: Any) -> list[Message]:
    path = placed(tmp_path / "person", agent, **given)
    done = memory.sessions.import_transcript(path, agent=FORMATS[agent])
    assert (done.outcome, done.unread) == ("new", 0)
    return list(memory.sessions.messages(done.session, all=True))


@pytest.mark.parametrize("agent", FORMATS)
def test_a_recorded_session_is_copied_whole_and_once(memory: Memory, tmp_path: Path, agent: str) -> None:
    found = thread(memory, tmp_path, agent)
    said = [each.text.strip('"') for each in found if each.role is Role.USER and not is_aside(each)]
    assert said == PROMPTS
    assert all(each.parts for each in found)
    results = [part.id for each in found for part in each.results]
    assert len(results) == len(set(results))
    calls = [part.id for each in found for part in each.calls]
    assert len(calls) == len(set(calls))
    assert set(results) <= set(calls)
    (session,) = memory.sessions.list(all=True)
    named = "Notes of a talk" if agent in ("opencode", "goose") else PROMPTS[0]  # whose model finds a title
    assert named.startswith(session.name.removesuffix("…"))


@pytest.mark.parametrize("agent", FORMATS)
def test_the_injected_block_stands_nowhere_in_a_copy(memory: Memory, tmp_path: Path, agent: str) -> None:
    told = (FIXTURES / agent / "transcript.jsonl").read_text("utf-8")
    thread(memory, tmp_path, agent)
    (log,) = (tmp_path / "person" / ".vade" / "transcripts").rglob("*.jsonl")
    copy = log.read_text("utf-8")
    openings = ("Notes from earlier sessions", "From memory, about this prompt")
    assert not [each for each in openings if each in copy]
    # Of Copilot's prompts only the text that a person typed is read.
    assert (ASIDE in copy) is (agent != "copilot" and any(each in told for each in openings))


def test_of_fifty_own_calls_none_is_among_the_first_ten_and_a_person_is_first(
    memory: Memory, tmp_path: Path
) -> None:
    calls = 0
    for agent, form in FORMATS.items():
        path = placed(tmp_path / "person", agent)
        done = memory.sessions.import_transcript(path, agent=form)
        messages = memory.sessions.messages(done.session, all=True)
        calls += sum(is_memory_call(part) for each in messages for part in each.calls)
    assert calls >= 50
    for ranking in ("relevance", "keywords"):
        found = memory.sessions.search(
            "harbour crane release train", max_results=10, ranking=ranking, all=True
        ).hits
        assert found
        assert found[0].role == "user"
        assert [each for each in found if each.role == "tool" or "memory_" in each.preview] == []
    own = memory.sessions.search("harbour crane release train", max_results=10, own=True, all=True).hits
    assert any(each.role == "tool" or "memory_" in each.preview for each in own)


def test_an_index_cut_between_a_call_and_its_result_knows_the_result(memory: Memory, tmp_path: Path) -> None:
    """The second look begins behind the call: what it waits for is kept with the place."""
    whole = (FIXTURES / "claude-code" / "transcript.jsonl").read_text("utf-8").splitlines()
    at = next(
        n for n, each in enumerate(whole, 1) if '"tool_use"' in each and "mcp__vade__memory_store" in each
    )
    path = placed(tmp_path / "person", "claude-code", lines=at)
    memory.sessions.import_transcript(path, agent="claude-code")
    memory.sessions.search("harbour crane", all=True)
    placed(tmp_path / "person", "claude-code")
    memory.sessions.import_transcript(path, agent="claude-code")
    found = memory.sessions.search(
        "harbour crane painted teal created outcome", max_results=20, all=True
    ).hits
    assert [each for each in found if each.role == "tool"] == []


def test_results_of_others_beside_ours_are_found(memory: Memory) -> None:
    log = memory.sessions.new()
    call = Message(
        Role.ASSISTANT,
        (ToolCall("a", "mcp__vade__memory_search", '{"query": "quokka"}'), ToolCall("b", "Bash", "{}")),
    )
    answers = Message(
        Role.TOOL,
        (
            ToolResult("a", (Text("quokka remembered as a marsupial"),)),
            ToolResult("b", (Text("quokka.py was changed by the build"),)),
        ),
    )
    memory.sessions.record(log, [Message(Role.USER, (Text("Look into the quokka file"),)), call, answers])
    (hit,) = [each for each in memory.sessions.search("quokka").hits if each.role == "tool"]
    assert "quokka.py" in hit.preview
    assert "marsupial" not in hit.preview


@every_case(
    ("name", "ours"),
    [
        ("mcp__vade__memory_store", True),
        ("mcp_vade_session_search", True),
        ("vade_todo", True),
        ("vade-memory_store", True),
        ("memory_search", True),
        ("recall_memory", True),
        ("list_memories", True),
        ("mcp__vade__save_memory", True),
        ("save_memory", False),  # Gemini CLI has one of its own
        ("todo", False),
        ("mcp__other__memory_search", False),
        ("evade_tax", False),
        ("Bash", False),
        ("", False),
    ],
)
def test_tools_of_ours_are_known_under_every_agents_name_for_them(name: str, ours: bool) -> None:
    assert is_memory_tool(name) is ours


def test_every_tool_with_a_name_of_its_own_is_known_without_a_prefix() -> None:
    """Names that other programs use too, such as `todo`, are known by their prefix alone."""
    every = {tool.name for tools in TOOL_SETS.values() for tool in tools}
    assert len(every) > 12
    assert {name for name in every if not is_memory_tool(name)} == {"todo", "save_memory"}
    assert all(is_memory_tool(f"mcp__vade__{name}") for name in every)


def test_calls_through_a_dispatcher_or_a_namespace_are_ours_too() -> None:
    assert is_memory_call(ToolCall("1", "tool_call", '{"name": "mcp__vade__memory_get", "arguments": {}}'))
    assert is_memory_call(ToolCall("1", "ToolSearch", '{"query": "select:mcp__vade__memory_get"}'))
    assert is_memory_call(ToolCall("1", "todo", "{}", {"namespace": "mcp__vade"}))
    assert not is_memory_call(ToolCall("1", "tool_call", '{"name": "edit", "arguments": {"text": "vade_x"}}'))
    assert not is_memory_call(ToolCall("1", "tool_call", "vade_ {"))


def test_what_memory_was_asked_is_not_summed_up() -> None:
    said = [
        Message(Role.USER, (Text("Please move the parser to the new tokenizer"),)),
        Message(
            Role.ASSISTANT, (ToolCall("a", "vade_memory_store", '{"path": "x.md", "content": "commit"}'),)
        ),
        Message(Role.TOOL, (ToolResult("a", (Text("[main abcdef1] remembered\n 1 file changed"),)),)),
        Message(Role.ASSISTANT, (ToolCall("b", "edit", '{"path": "src/parser.py"}'),)),
        Message(Role.TOOL, (ToolResult("b", (Text("ok"),)),)),
    ]
    made = summarize(said)
    assert (made.commits, made.files) == ((), ("src/parser.py",))


def test_only_what_is_ours_leaves_a_message() -> None:
    own, other = ToolCall("a", "vade_todo", "{}"), ToolCall("b", "edit", "{}")
    message = Message(Role.ASSISTANT, (Text("Both"), own, other))
    assert without_memory_calls(message).parts == (Text("Both"), other)
    plain = Message(Role.ASSISTANT, (Text("Both"), other))
    assert without_memory_calls(plain) is plain


def test_calls_that_never_got_a_result_are_forgotten_one_day() -> None:
    calls = OpenMemoryCalls()
    for number in range(OpenMemoryCalls.MOST + 10):
        calls.without(Message(Role.ASSISTANT, (ToolCall(str(number), "vade_todo", "{}"),)))
    assert len(calls.open) == OpenMemoryCalls.MOST
    assert calls.open[0] == "10"


@every_case(
    "block",
    [BLOCK, ESCAPED, ESCAPED.replace("&", "&amp;"), json.dumps(BLOCK).replace("<", "\\u003c")[1:-1]],
)
def test_the_block_is_known_however_it_was_escaped(block: str) -> None:
    assert replace_memory_blocks(f"before {block} after") == "before  after"
    assert replace_memory_blocks(f"before {block[: len(block) // 2]}") == "before "


def test_words_about_the_block_stay() -> None:
    said = "What stands in `<vade-memory>` is data, and </vade-memory> closes it"
    assert replace_memory_blocks("See `<vade-memory>` in the docs") == "See `<vade-memory>` in the docs"
    assert "closes it" in replace_memory_blocks(said)


@pytest.mark.full
def test_many_marks_without_an_end_take_no_longer_than_one_look_each() -> None:
    assert replace_memory_blocks("<vade-memory> " * 20_000) == "<vade-memory> " * 20_000


def test_the_block_is_found_in_whatever_a_message_carries() -> None:
    message = Message(
        Role.USER,
        (
            Opaque({"stdout": json.dumps({"additionalContext": BLOCK})}),
            ToolResult("1", (Text(ESCAPED),), extra={"raw": [BLOCK]}),
            ToolCall("2", "x", json.dumps({"text": BLOCK})),
        ),
        extra={"hook_context": [ESCAPED]},
    )
    cleaned = without_injected_blocks(message)
    assert "striped" not in repr(cleaned)
    assert repr(cleaned).count(ASIDE) == 5
    plain = Message(Role.USER, (Text("nothing of ours"),), extra={"a": [1, {"b": ()}]})
    assert without_injected_blocks(plain) is plain


# -------------------------------------------------------------------- several files, and bad ones


def test_a_second_file_of_a_session_takes_nothing_away(memory: Memory, tmp_path: Path) -> None:
    """Gemini begins another file under the same id when a session is resumed, and leaves it nearly empty."""
    before = thread(memory, tmp_path, "gemini")
    second = placed(tmp_path / "person", "gemini", name="two", lines=2)
    for _ in range(2):
        done = memory.sessions.import_transcript(second, agent="gemini-cli")
        assert list(memory.sessions.messages(done.session, all=True)) == before
    again = memory.sessions.import_transcript(tmp_path / "person" / PLACES["gemini"], agent="gemini-cli")
    assert list(memory.sessions.messages(again.session, all=True)) == before


@pytest.mark.parametrize("agent", FORMATS)
def test_a_transcript_cut_anywhere_is_read_and_grows_to_the_whole(
    memory: Memory, tmp_path: Path, agent: str
) -> None:
    path = placed(tmp_path / "person", agent)
    whole = path.read_bytes()
    for cut in (len(whole) // 3, len(whole) * 2 // 3 + 7):
        path.write_bytes(whole[:cut])
        memory.sessions.import_transcript(path, agent=FORMATS[agent])
    path.write_bytes(whole)
    done = memory.sessions.import_transcript(path, agent=FORMATS[agent])
    said = [
        each.text.strip('"')
        for each in memory.sessions.messages(done.session, all=True)
        if each.role is Role.USER and not is_aside(each)
    ]
    assert said == PROMPTS


# -------------------------------------------------------------------- hooks, by what agents really said


def recorded(agent: str, event: str) -> list[dict[str, Any]]:
    lines = (FIXTURES / agent / "hooks.jsonl").read_text("utf-8").splitlines()
    return [call["in"] for call in map(json.loads, lines) if call["event"] == event]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.at(tmp_path)


@pytest.mark.parametrize("agent", HOOKED)
def test_a_recorded_prompt_brings_back_what_answers_it(world: World, agent: str) -> None:
    world.memory().store("The zebra dashboard is at grafana.internal/zebra", key="zebra")
    (given,) = [each for each in recorded(agent, "user-prompt") if PROMPTS[1] in each["prompt"]]
    prompt = given["prompt"].replace(PROMPTS[1], "Where is the zebra dashboard?")
    given = {**given, "cwd": str(world.project), "session_id": "new", "prompt": prompt}
    assert "grafana.internal/zebra" in world.call(agent, "user-prompt", given).context


@pytest.mark.full(but=1)
@pytest.mark.parametrize("agent", FORMATS)
def test_fields_of_a_later_version_are_passed_over(world: World, agent: str) -> None:
    world.memory().store("The zebra dashboard is at grafana.internal/zebra", key="zebra")
    later = {"hook_api": {"version": 99}, "source": ["new"], "model": {"id": None}, "permissions": [[]]}
    path = placed(world.person, agent)
    future = '{"type": "hologram", "kind": "hologram", "payload": {"rays": [1, 2]}, "uuid": "u-1"}\n'
    if path.suffix == ".jsonl":
        lines = path.read_text("utf-8").splitlines(keepends=True)
        path.write_text("".join([*lines[:3], future, *lines[3:], future]), "utf-8")
    known = find_agent(agent)
    assert known is not None
    assert known.hooks is not None
    for event in known.hooks.moments:
        given = {**recorded(agent, event)[0], **later} if recorded(agent, event) else later
        given |= {"cwd": str(world.project), "session_id": "new", "transcript_path": str(path)}
        said = world.call(agent, event, given)
        assert (said.code, said.err) == (0, b""), event
        if event == "session-start":
            assert b"grafana.internal/zebra" in said.out
    wait_until(lambda: world.logs() and b'"kind":"ended"' in world.logs()[0].read_bytes())
    spoken = [each for each in copied(world) if each.role is Role.USER and not is_aside(each)]
    assert [each.text.strip('"') for each in spoken] == PROMPTS
    said = world.call(agent, "a-moment-of-2031", {"prompt": {"parts": []}})
    assert (said.code, said.out, said.err) == (0, b"", b"")


def copied(world: World) -> list[Message]:
    memory = world.memory()
    (session,) = memory.sessions.list(all=True)
    return list(memory.sessions.messages(session.id, all=True))


@pytest.mark.full(but=2)
@pytest.mark.parametrize("agent", FORMATS)
def test_hooks_over_a_transcript_cut_in_the_middle_lose_nothing(world: World, agent: str) -> None:
    path = placed(world.person, agent)
    whole = path.read_bytes()
    given = {"session_id": "new", "transcript_path": str(path), "cwd": str(world.project)}
    middle = "stop" if agent == "goose" else "pre-compact"  # goose has no such hook
    for event, cut in (("stop", len(whole) // 2), (middle, len(whole) * 3 // 4), ("stop", len(whole))):
        path.write_bytes(whole[:cut])
        said = world.call(agent, event, given)
        assert (said.code, said.out, said.err) == (0, b"", b"")
        # The child goes on by itself; the next hook finds it done, or waits for its lock.
    wait_until(lambda: world.logs() and "nobody knows" in world.logs()[0].read_text("utf-8"))
    found = copied(world)
    assert [
        each.text.strip('"') for each in found if each.role is Role.USER and not is_aside(each)
    ] == PROMPTS
    results = [part.id for each in found for part in each.results]
    assert len(results) == len(set(results)) >= 17
    assert world.failures() == []


@pytest.mark.full
def test_two_agents_with_one_session_id_are_each_told_and_each_kept(world: World) -> None:
    memory = world.memory()
    memory.store("The zebra dashboard is at grafana.internal/zebra", key="zebra")
    pair = ("claude-code", "codex")
    one = {"session_id": "one-id", "cwd": str(world.project), "source": "startup"}
    assert all("grafana" in world.call(agent, "session-start", one).context for agent in pair)
    again = {**one, "source": "resume"}
    assert [world.call(agent, "session-start", again).context for agent in pair] == ["", ""]
    gemini = world.call("gemini", "session-start", again).context
    assert "grafana" in gemini, "it was told to the others, and not to this one"
    memory.store("The osprey runbook lies in docs/osprey.md", key="osprey")
    asked = {**one, "prompt": "Where is the osprey runbook?"}
    assert all("docs/osprey.md" in world.call(agent, "user-prompt", asked).context for agent in pair)
    for agent in pair:
        text = placed(world.person, agent).read_text("utf-8")
        own = json.loads(text.splitlines()[0])
        id = own.get("sessionId") or own["payload"]["id"]
        path = placed(world.person, agent)
        path.write_text(text.replace(id, "one-id"), "utf-8")
        said = world.call(agent, "stop", {**one, "transcript_path": str(path)})
        assert (said.code, said.err) == (0, b"")
    wait_until(lambda: len(world.logs()) == 2)
    wait_until(lambda: all("nobody knows" in each.read_text("utf-8") for each in world.logs()))
    assert len({each.id for each in world.memory().sessions.list(all=True)}) == 2
    world.call("claude-code", "session-end", one)
    wait_until(lambda: len(list((world.home / "hooks" / "open").iterdir())) == 2)
    left = [json.loads(each.read_bytes()) for each in (world.home / "hooks" / "open").iterdir()]
    assert sorted(each["agent"] for each in left) == ["codex", "gemini"]


def test_gemini_calls_before_every_request_and_is_summed_up_once_it_compressed(world: World) -> None:
    lines = (FIXTURES / "gemini" / "transcript.jsonl").read_text("utf-8").splitlines()
    compressed = next(
        n for n, each in enumerate(lines) if "Got it. Thanks for the additional context!" in each
    )
    path = placed(world.person, "gemini", lines=compressed)
    given = {**recorded("gemini", "pre-compact")[0], "transcript_path": str(path), "cwd": str(world.project)}

    def summaries() -> int:
        memory = world.memory()
        logs = [memory.sessions.open(each.id, all=True) for each in memory.sessions.list(all=True)]
        return sum(isinstance(event, Summary) for log in logs for event in log.events())

    for _ in range(3):
        world.call("gemini", "pre-compact", given)
    wait_until(world.logs)
    assert summaries() == 0
    placed(world.person, "gemini")
    world.call("gemini", "pre-compact", given)
    wait_until(lambda: summaries() == 1)
    world.call("gemini", "pre-compact", given)
    assert summaries() == 1
