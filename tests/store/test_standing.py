"""What a person wrote or verified stands, whatever an agent asks for, through whichever interface."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_door.talking import call, home_of, in_process, talk
from vademecum.adapters.base import as_agent
from vademecum.errors import Conflict, NotFound, PendingReview, Refused, VadeError
from vademecum.interfaces.cli.app import run
from vademecum.memory import Memory, connect
from vademecum.types import Origin, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

THEIRS, ITS = "Run the tests with pytest.", "Run the tests with unittest."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def person(folder: Path) -> Memory:
    return connect(home=home_of(folder), cwd=folder, origin=Origin.USER, actor="human:ada")


def agent(folder: Path, origin: Origin = Origin.AGENT) -> Memory:
    return connect(home=home_of(folder), cwd=folder, origin=origin)


def living(memory: Memory, key: str) -> list[tuple[str, str]]:
    return [(entry.text, str(entry.origin)) for entry in memory.show(key).live]


# ---------------------------------------------------------------- what an agent asks for


@pytest.mark.parametrize("protected", [True, False])
def test_a_replacement_stands_beside_and_waits_and_a_persons_yes_makes_it(
    folder: Path, protected: bool
) -> None:
    me = person(folder)
    me.store(THEIRS, key="testing", type="feedback", tags=["tests"], protected=protected or None)
    kept = agent(folder).store(ITS, key="testing", mode="replace", type="project", tags=["unit"])
    assert kept.outcome is Outcome.WAITING
    record = me.show("testing")
    assert living(me, "testing") == [(THEIRS, "user"), (ITS, "agent")]
    assert record.entries[1].contradicts == record.entries[0].time
    assert (record.type, record.tags, record.protected) == ("feedback", ("tests",), protected)
    [waiting] = me.review.approvals()
    assert waiting.id == kept.approval
    assert any(each.what == "approval" for each in me.status().findings)
    me.review.approve(kept.approval[:12])
    assert living(me, "testing") == [(ITS, "agent")]
    assert me.show("testing").entries[1].contradicts is None
    acts = [line["actor"] for line in me.audit.lines() if line["op"] in ("replaced", "approve")]
    assert acts == ["human:ada", "human:ada"]
    with pytest.raises(NotFound):
        me.review.approve(kept.approval[:12])


def test_the_same_replacement_asked_for_again_is_one_request_and_another_takes_the_agents_own_place(
    folder: Path,
) -> None:
    me, it = person(folder), agent(folder)
    me.store(THEIRS, key="testing")
    first = it.store(ITS, key="testing", mode="replace")
    again = it.store(ITS, key="testing", mode="replace")
    assert (again.outcome, again.approval) == (Outcome.WAITING, first.approval)
    other = it.store("Run the tests with nose.", key="testing", mode="replace")
    assert other.outcome is Outcome.WAITING
    assert living(me, "testing") == [(THEIRS, "user"), ("Run the tests with nose.", "agent")]
    with pytest.raises(Conflict, match="changed after"):
        me.review.approve(first.approval)
    me.review.reject(first.approval)
    me.review.approve(other.approval)
    assert living(me, "testing") == [("Run the tests with nose.", "agent")]


def test_a_person_who_replaces_takes_what_stood_beside_along(folder: Path) -> None:
    me = person(folder)
    me.store(THEIRS, key="testing")
    agent(folder).store(ITS, key="testing", mode="replace")
    assert me.store("Run make test.", key="testing", mode="replace").outcome is Outcome.REPLACED
    assert living(me, "testing") == [("Run make test.", "user")]


def test_an_agents_own_text_is_its_own_until_a_person_verifies_it(folder: Path) -> None:
    it = agent(folder)
    it.store("Port 80.", key="port")
    assert it.store("Port 81.", key="port", mode="replace").outcome is Outcome.REPLACED
    person(folder).review.verify("port")
    assert it.store("Port 82.", key="port", mode="replace").outcome is Outcome.WAITING
    with pytest.raises(PendingReview):
        it.forget("port")
    assert living(it, "port")[0] == ("Port 81.", "agent")


def test_forgetting_waits_for_a_person_and_is_bound_to_what_was_there(folder: Path) -> None:
    me, it = person(folder), agent(folder)
    me.store(THEIRS, key="testing")
    with pytest.raises(PendingReview, match="pending review") as told:
        it.forget("testing")
    assert living(me, "testing") == [(THEIRS, "user")]
    me.store("And quickly.", key="testing")
    with pytest.raises(Conflict):
        me.review.approve(told.value.approval)
    me.review.reject(told.value.approval)
    with pytest.raises(PendingReview) as told:
        it.forget("testing")
    me.review.approve(told.value.approval)
    with pytest.raises(NotFound):
        me.show("testing")


def test_clearing_and_pruning_wait_for_what_is_a_persons(folder: Path) -> None:
    me, it = person(folder), agent(folder)
    me.knowledge.learn("discovery", fact="The cache lies in /var.")
    it.knowledge.learn("discovery", fact="Builds take nine minutes.")
    outcome = it.knowledge.prune(max_age_days=0, min_confidence=1.0, apply=True, large=True)
    assert (sum(each.done for each in outcome.results), outcome.waiting) == (1, 1)
    assert [each.text for each in me.list().records] == ["The cache lies in /var."]
    with pytest.raises(PendingReview):
        it.archive.clear(scope="project")
    assert len(me.list().records) == 1
    me.review.approve(outcome.approval)
    assert me.list().records == ()


def test_an_agent_may_not_edit_restore_or_undo_over_what_a_person_wrote(folder: Path) -> None:
    me, it = person(folder), agent(folder)
    me.store("Old.", key="topic")
    me.store("New.", key="topic", mode="replace")
    [image] = me.archive.versions("topic")
    _, text = it.care.editable("topic")
    with pytest.raises(Refused, match="only the user can change it"):
        it.care.edited("topic", text, text.replace("New.", "Newer."))
    with pytest.raises(Refused, match="only the user can change it"):
        it.care.edited("topic", text, text.replace("type: project", "type: rule"))
    with pytest.raises(Refused, match="only the user can change it"):
        it.restore(image.id)
    assert living(me, "topic") == [("New.", "user")]
    me.care.edited("context.md", "", "## Rules\nNo force pushes.\n", scope="project")
    _, pinned = it.care.editable("context.md", scope="project")
    with pytest.raises(Refused, match="only the user can change it"):
        it.care.edited("context.md", pinned, "## Rules\nPush as you like.\n", scope="project")
    it.care.edited("context.md", pinned, f"{pinned}\n## More\nUse trunk.\n", scope="project")


def test_what_a_program_protects_of_its_own_it_may_change_and_what_a_person_protects_it_may_not(
    folder: Path,
) -> None:
    it = agent(folder)
    it.store("State 1.", key="state", protected=True)
    assert it.store("State 2.", key="state", mode="replace").outcome is Outcome.REPLACED
    person(folder).review.protect("state")
    assert it.store("State 3.", key="state", mode="replace").outcome is Outcome.WAITING
    with pytest.raises(PendingReview):
        it.forget("state")


def test_through_the_mcp_tools_with_defaults_nothing_of_a_persons_goes(folder: Path) -> None:
    me = person(folder)
    me.store("Never squash merges.", key="merging", type="feedback")
    me.store("Use pytest.", key="testing", protected=True)
    me.knowledge.learn("discovery", fact="The cache lies in /var.")

    async def conversation() -> None:
        async with in_process(folder) as client:
            told = await call(client, "memory_store", content="Squash.", key="merging", replace=True)
            assert told["outcome"] == "waiting"
            assert "vade review approve" in told["message"]
            told = await call(
                client, "memory_operations", operation="store", key="testing", content="Use nose."
            )
            assert told["outcome"] == "waiting"
            told = await call(client, "memory_forget", key="testing")
            assert (told["outcome"], bool(told["approval"])) == ("waiting", True)
            told = await call(client, "memory_operations", operation="delete", key="merging")
            assert told["outcome"] == "waiting"
            told = await call(
                client, "memory_operations", operation="prune_ltm", max_age_days=0, min_confidence=1.0
            )
            assert (told["outcome"], told["waiting"]) == ("waiting", 1)

    talk(conversation)
    assert living(me, "merging")[0] == ("Never squash merges.", "user")
    assert me.show("merging").type == "feedback"
    assert living(me, "testing")[0] == ("Use pytest.", "user")
    assert [each.lesson.record.text for each in me.knowledge.list()] == ["The cache lies in /var."]
    assert len(me.review.approvals()) == 5


def test_a_command_that_an_agent_runs_waits_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    me = person(folder)
    me.store(THEIRS, key="testing", type="feedback")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("VADE_HOME", str(home_of(folder)))
    monkeypatch.setenv("CLAUDECODE", "1")
    assert run(["forget", "testing", "--yes"]) == 1
    assert "pending review" in capsys.readouterr().err
    assert run(["forget", "testing", "--yes", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["outcome"] == "waiting"
    assert run(["add", ITS, "--key", "testing", "--mode", "replace", "--type", "project", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["outcome"], len(told["approval"])) == ("waiting", 64)
    assert living(me, "testing")[0] == (THEIRS, "user")
    assert me.show("testing").type == "feedback"


def test_a_replacement_that_waits_is_told_to_nobody_and_the_persons_words_are_the_answer(
    folder: Path,
) -> None:
    me, it = person(folder), agent(folder)
    me.store(THEIRS, key="testing")
    kept = it.store(ITS, key="testing", mode="replace")
    assert me.show("testing").text == THEIRS
    block = it.injection.block().text
    assert THEIRS in block
    assert ITS not in block
    assert [(each.text, each.why) for each in me.review.waiting()] == [(ITS, "it contradicts what you wrote")]
    me.review.approve(kept.approval)
    block = it.injection.block().text
    assert ITS in block
    assert THEIRS not in block


# ---------------------------------------------------------------- any sequence, through any interface


@dataclass
class World:
    """A home with records of a person, and ways by which an agent reaches it."""

    folder: Path
    told: list[str] = field(default_factory=list)

    def through(self, door: str, origin: Origin) -> Memory:
        if door == "adapter":
            return as_agent(person(self.folder))
        if door == "command line":
            return connect(
                home=home_of(self.folder),
                cwd=self.folder,
                origin=Origin.USER,
                terminal=True,
                environ={"CLAUDECODE": "1"},
            )
        return agent(self.folder, origin)


def _edit(memory: Memory, key: str, text: str) -> None:
    _, before = memory.care.editable(key)
    memory.care.edited(key, before, before.replace("says", "said"))


OPERATIONS: dict[str, Callable[[Memory, str, str], Any]] = {
    "append": lambda memory, key, text: memory.store(text, key=key, type="reference", tags=["x"]),
    "unsure": lambda memory, key, text: memory.store(text, key=key, confidence=0.1),
    "replace": lambda memory, key, text: memory.store(text, key=key, mode="replace", type="rule"),
    "confirm": lambda memory, key, _: memory.store(f"What {key} says.", key=key, type="rule", tags=["z"]),
    "keyless": lambda memory, key, _: memory.store(f"What  {key}  says!", type="reference"),
    "learn": lambda memory, key, _: memory.knowledge.learn("discovery", fact=f"What {key} says.", tags=["l"]),
    "forget": lambda memory, key, _: memory.forget(key),
    "clear": lambda memory, *_: memory.archive.clear(scope="project"),
    "prune": lambda memory, *_: memory.knowledge.prune(
        max_age_days=0, min_confidence=1.0, apply=True, large=True
    ),
    "sweep": lambda memory, *_: memory.care.sweep(apply=True, large=True),
    "heal": lambda memory, *_: memory.care.heal(apply=True, aggressive=True),
    "promote": lambda memory, *_: memory.care.promote(apply=True),
    "undo": lambda memory, *_: memory.care.undo(),
    "edit": _edit,
    "restore": lambda memory, key, _: memory.restore(memory.archive.versions(key)[0].id),
    "verify": lambda memory, key, _: memory.review.verify(key),
    "protect": lambda memory, key, _: memory.review.protect(key, on=False),
    "purge": lambda memory, key, _: memory.archive.purge(key),
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["tool", "adapter", "command line"]),
        st.sampled_from([Origin.AGENT, Origin.TOOL, Origin.IMPORT]),
        st.sampled_from([*OPERATIONS]),
        st.sampled_from(["plain", "guarded", "verified", "lesson"]),
        st.sampled_from(["One thing.", "Another thing.", "Something else."]),
    ),
    max_size=8,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, approve=st.integers(0, 3))
def test_after_any_steps_of_agents_all_that_is_a_persons_lives_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], approve: int
) -> None:
    folder = tmp_path_factory.mktemp("world") / "project"
    folder.mkdir()
    me, world = person(folder), World(folder)
    me.store("What plain says.", key="plain", type="feedback", tags=["a"], confidence=0.9)
    me.store("What guarded says.", key="guarded", protected=True)
    agent(folder).store("What verified says.", key="verified", tags=["v"])
    me.review.verify("verified")
    lesson = me.knowledge.learn("discovery", fact="What lesson says.", tags=["k"], confidence=0.4).key
    mine = {each.key: each for each in me.list().records}
    for door, origin, operation, key, text in steps:
        try:
            with world.through(door, origin) as memory:
                OPERATIONS[operation](memory, lesson if key == "lesson" else key, text)
        except (VadeError, IndexError) as error:  # a record without versions has none to restore
            world.told.append(f"{operation}: {error}")
    now = {each.key: each for each in me.list().records}
    for key, before in mine.items():
        assert key in now, (key, world.told)
        after = now[key]
        assert {(e.text, e.origin) for e in before.live} <= {(e.text, e.origin) for e in after.live}
        assert (after.type, after.tags, after.title, after.protected, after.place) == (
            *(before.type, before.tags, before.title, before.protected),
            before.place,
        )
        assert (after.confidence or 0) >= (before.confidence or 0)
    _approve_some(me, approve)


def _approve_some(me: Memory, count: int) -> None:
    """Each approval is used once, whatever the others changed meanwhile; nothing is done without one."""
    for waiting in me.review.approvals()[:count]:
        assert waiting.request is not None
        try:
            me.review.approve(waiting.id)
        except (Conflict, NotFound):
            me.review.reject(waiting.id)
        else:
            with pytest.raises(NotFound):
                me.review.approve(waiting.id)
    assert len({each.id for each in me.review.approvals()}) == len(me.review.approvals())
