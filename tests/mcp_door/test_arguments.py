"""What an agent may pass to a tool, also as other systems spell it, and how short the answer is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import NotFound, UsageError, VadeError
from vademecum.interfaces.present.tool_json import TRANSCRIPT
from vademecum.interfaces.tools.declaration import Read
from vademecum.interfaces.tools.sets import TOOL_SETS
from vademecum.memory import connect
from vademecum.text.fit import json_size
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts.events import Checkpoint, MessageEvent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.memory import Memory

NOTES = {
    "deploys": "Deploys go out on Tuesdays after the release train has left. Never deploy on Fridays, because"
    " nobody is on call over the weekend, and the rollback takes an hour.",
    "staging-database": "The staging database is called falcon and is reset every night at 02:00 UTC by the"
    " nightly job. Whoever needs data for longer asks Ines for a copy of it.",
    "package-manager": "This project uses pnpm, not npm, and the lockfile is committed. The build on the"
    " server fails when somebody adds a package-lock.json beside it.",
    "testing-framework": "Tests run with pytest and two workers. The integration tests need docker and the"
    " billing sandbox, and are left out unless the marker is named.",
    "feature-flags": "Feature flags live in LaunchDarkly under the project web-shop. A flag that is on for"
    " everybody for a month is removed from the code by its author.",
    "errors": "Errors are reported to Sentry with the release as a tag. The on-call engineer looks at new"
    " ones every morning and files an issue for each.",
    "billing-database": "Billing uses Postgres, never MySQL, because of the JSON columns. Migrations are"
    " written by hand and reviewed by two people before the deploy.",
}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    (tmp_path / "project").mkdir()
    with connect(home=tmp_path / "home", cwd=tmp_path / "project", session="s1", environ={}) as opened:
        yield opened


def ask(memory: Memory, tool: str, family: str = "core", /, **given: Any) -> dict[str, Any]:
    """The answer of a tool of a family."""
    plan = {each.name: each for each in TOOL_SETS[family]}[tool].planned(given)
    if isinstance(plan, Read):
        return dict(plan.do(memory))
    return dict(plan.render(memory.requests.perform(plan.operation, plan.arguments)))


def test_the_envelope_of_a_usual_answer_is_at_most_one_and_a_half_times_its_text(memory: Memory) -> None:
    for key, text in NOTES.items():
        memory.store(text, key=key)
    for query in ("when do deploys go out", "which database does billing use", "how are the tests run"):
        answer = ask(memory, "memory_search", query=query)
        assert len(answer["results"]) == 6
        size = sum(len(each["snippet"]) for each in answer["results"])
        assert json_size(answer) - size <= 1.5 * size, query


def test_an_answer_about_nothing_says_so_in_one_line(memory: Memory) -> None:
    assert ask(memory, "memory_search")["message"] == "Nothing found in memory."
    for key, text in NOTES.items():
        memory.store(text, key=key)
    nothing = ask(memory, "memory_search", query="zyzzyva", mode="bm25")
    assert nothing["results"] == []
    assert nothing["message"] == "Nothing found about this in memory."
    assert json_size(nothing) < 300
    weak = ask(memory, "memory_search", query="the weather on mars")
    assert {each["match"] for each in weak["results"]} <= {"weak"}
    assert not [each for each in weak.get("notes", ()) if "only weak" in each], "the message says it"
    assert weak["message"].startswith("Nothing answers this well" if weak["results"] else "Nothing found")


def test_without_a_query_the_newest_come_by_filters_and_sessions_when_they_are_named(memory: Memory) -> None:
    memory.store("Use pnpm.", key="pnpm", type="feedback")
    memory.store("Answers are short.", key="short", scope="global", type="user")
    memory.store("The port is 8377.", key="port")
    memory.note("Moved sessions to Redis.")
    log = memory.sessions.new(id="earlier")
    log.append(MessageEvent(Message(Role.USER, (Text("Where is the lighthouse?"),))))

    def found(**given: Any) -> list[str]:
        return [each["snippet"] for each in ask(memory, "memory_search", **given)["results"]]

    assert {*found()} == {"Use pnpm.", "Answers are short.", "The port is 8377.", "Moved sessions to Redis."}
    assert found(type="feedback") == ["Use pnpm."]
    assert found(scope="global") == ["Answers are short."]
    assert found(sources=["journal"]) == ["Moved sessions to Redis."]
    assert found(sources=[TRANSCRIPT]) == ["Where is the lighthouse?"]
    assert len(found(limit=2)) == 2
    assert "Where is the lighthouse?" in found(query="lighthouse")
    assert not {"match"} & ask(memory, "memory_search").keys()


# What agents of other systems pass, and the call of ours that it is.
SPELLED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("memory_search", {"query": "port", "maxResults": 1}, {"query": "port", "limit": 1}),
    ("memory_search", {"query": "port", "max_results": 1}, {"query": "port", "limit": 1}),
    ("memory_search", {"query": "port", "search_mode": "bm25"}, {"query": "port", "mode": "bm25"}),
    ("memory_search", {"memory_type": "user"}, {"type": "user"}),
    ("memory_search", {"query": "port", "sort_by": "usage"}, {"query": "port", "sort": "usage"}),
    ("memory_search", {"query": "port", "minScore": 0.3}, {"query": "port", "min_score": 0.3}),
    ("memory_get", {"path": "port", "from": 3, "lines": 2}, {"key": "port", "place": 3, "lines": 2}),
    ("memory_get", {"path": "port", "startLine": 3}, {"key": "port", "place": 3}),
    ("session_get", {"session_id": "earlier", "line": 2}, {"session": "earlier", "place": 2}),
]


def test_the_spellings_of_other_systems_are_understood_and_not_offered(memory: Memory) -> None:
    memory.store("The port is 8377.", key="port", type="user")
    log = memory.sessions.new(id="earlier")
    log.append(MessageEvent(Message(Role.USER, (Text("Which port?"),))))
    tools = {each.name: each for each in TOOL_SETS["core"]}
    for name, theirs, ours in SPELLED:
        assert ask(memory, name, **theirs) == ask(memory, name, **ours), (name, theirs)
        offered = tools[name].parameters["properties"].keys()
        assert not ({*theirs} - {*ours} - {"path"}) & offered, (name, theirs)


def test_the_same_argument_twice_is_refused_unless_both_say_the_same(memory: Memory) -> None:
    ask(memory, "memory_search", query="x", limit=2, maxResults=2)
    with pytest.raises(UsageError, match="are the same argument"):
        ask(memory, "memory_search", query="x", limit=2, maxResults=3)


def test_scopes_that_an_agent_cannot_choose_rightly_are_understood_and_not_offered(memory: Memory) -> None:
    offered = json.dumps([each.offered for each in TOOL_SETS["core"]])
    assert '"agent"' not in offered
    assert "federated" not in offered
    for scope in ("agent", "federated"):
        made = ask(memory, "memory_store", content=f"Of the {scope}.", key=scope, scope=scope)
        assert made["scope"] == scope
        found = ask(memory, "memory_search", query=f"Of the {scope}", scope=scope)
        assert found["results"][0]["scope"] == scope
        path = found["results"][0]["path"]
        assert ask(memory, "memory_forget", key=path)["scope"] == scope


def test_a_key_may_be_the_path_of_a_result_wherever_a_key_is_asked_for(memory: Memory) -> None:
    memory.store("Answers are short.", key="short", scope="global")
    (hit,) = ask(memory, "memory_search", query="short answers")["results"]
    assert "8377" not in ask(memory, "memory_get", path=hit["path"])["text"]
    made = ask(memory, "memory_store", content="Answers are two lines.", key=hit["path"], replace=True)
    assert (made["key"], made["scope"]) == ("short", "global")
    assert [each.text for each in memory.show("short").live] == ["Answers are two lines."]
    gone = ask(memory, "memory_forget", key=hit["path"])
    assert (gone["key"], gone["scope"]) == ("short", "global")


# -------------------------------------------------------------------- lessons, one type each


def lesson(memory: Memory, **given: Any) -> dict[str, Any]:
    """The fields of the lesson that a call saved."""
    made = ask(memory, "memory_store", **given)
    (ranked,) = [each for each in memory.knowledge.list() if each.lesson.record.key == made["key"]]
    return {"type": str(ranked.lesson.type), "examples": [*ranked.lesson.examples], **ranked.lesson.fields}


def test_a_discovery_is_a_fact(memory: Memory) -> None:
    found = lesson(memory, type="discovery", content="Dates are UTC.", examples=["a.py"], confidence=0.9)
    assert found == {"type": "discovery", "examples": ["a.py"], "fact": "Dates are UTC."}


def test_a_solution_is_an_error_and_what_fixed_it(memory: Memory) -> None:
    wanted = {"type": "solution", "examples": [], "error": "Port in use", "solution": "Stop the old one."}
    assert lesson(memory, type="solution", error="Port in use", content="Stop the old one.") == wanted
    assert lesson(memory, error="Port in use", solution="Stop the old one.") == wanted


def test_a_pattern_is_a_convention(memory: Memory) -> None:
    found = lesson(memory, type="pattern", content="Names are nouns.", tags="style")
    assert found == {"type": "pattern", "examples": [], "pattern": "Names are nouns."}


def test_a_workflow_is_a_list_of_steps(memory: Memory) -> None:
    found = lesson(memory, content="To release", steps=["Run make test", "Tag it"])
    assert found["sequence"] == ["To release: Run make test", "Tag it"]
    found = lesson(memory, type="workflow", content="Stop it\nStart it", success_rate=0.5)
    assert (found["sequence"], found["success_rate"]) == (["Stop it", "Start it"], 0.5)


def test_a_failure_has_an_impact_and_a_prevention(memory: Memory) -> None:
    given = {"impact": "The site was down.", "prevention": "Deploy on Tuesdays."}
    found = lesson(memory, content="Deployed on a Friday.", **given)
    assert found == {"type": "failure", "examples": [], "what": "Deployed on a Friday.", **given}


def test_a_rule_belongs_to_the_files_at_a_path(memory: Memory) -> None:
    found = lesson(memory, type="rule", content="No print.", path="src/core")
    assert found == {"type": "rule", "examples": [], "rule": "No print.", "path": "src/core"}


def test_an_agent_counts_that_a_lesson_was_applied_and_the_block_says_how_often(memory: Memory) -> None:
    fix = {"error": "save fails with permission denied", "solution": "own the state folder"}
    key = ask(memory, "memory_operations", "clio", operation="add_solution", **fix)["key"]
    counted = ask(memory, "memory_store", content="", key=key, applied=True)
    assert (counted["outcome"], counted["key"], counted["applied"]) == ("applied", key, 1)
    assert ask(memory, "memory_operations", "clio", operation="mark_applied", key=key)["applied"] == 2
    again = ask(memory, "memory_operations", "clio", operation="add_solution", **fix)
    assert (again["outcome"], again["key"]) == ("confirmed", key)
    assert "applied 3 times" in memory.injection.block().text
    memory.store("The office is in Basel.", key="office")
    with pytest.raises(VadeError):
        ask(memory, "memory_store", content="", key="office", applied=True)
    for given in ({"content": ""}, {"content": "more", "key": key}):
        with pytest.raises(UsageError):
            ask(memory, "memory_store", applied=True, **given)


def test_the_newest_checkpoint_is_retrieved_by_its_name_in_clio(memory: Memory) -> None:
    def retrieve() -> dict[str, Any]:
        return ask(memory, "memory_operations", "clio", operation="retrieve", key="session_progress")

    with pytest.raises(NotFound):
        retrieve()
    items = ({"id": 1, "title": "write the test", "status": "pending"},)
    memory.sessions.new(id="earlier").append(
        Checkpoint(task="Mend the reader", todo=items, tools=("bash ls",))
    )
    found = retrieve()
    assert found["key"] == "session_progress"
    assert found["content"] == (
        "Current task: Mend the reader\n\nTodo list:\n[ ] 1. write the test\n\nNewest tool calls:\n- bash ls"
    )


def test_a_lesson_that_is_known_is_confirmed(memory: Memory) -> None:
    for outcome in ("created", "confirmed"):
        assert ask(memory, "memory_store", type="discovery", content="Dates are UTC.")["outcome"] == outcome
