"""A person's yes is for one write exactly as it was shown, and is used once (S3)."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import ElicitResult

from allowing import allow
from mcp_door.talking import ERAS, call, home_of, in_process, over_stdio, read_record, refusal, talk
from vademecum.errors import Ambiguous, Conflict, NotFound, NotVisible, Refused, SecretFound, VadeError
from vademecum.interfaces.cli.app import run
from vademecum.interfaces.mcp import consent
from vademecum.interfaces.tools.declaration import Write
from vademecum.memory import Memory, connect
from vademecum.store import pending_writes
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "ghp_" + "R7xk2Qm9VbT4zLw8Yc3Nf6Hj1Ds5Gp0AeUiO"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def settings(folder: Path, text: str) -> None:
    home_of(folder).mkdir(mode=0o700, exist_ok=True)
    (home_of(folder) / "config.toml").write_text(text)


def agent(folder: Path, **more: Any) -> Memory:
    return connect(home=home_of(folder), cwd=folder, environ={}, **more)


def person(folder: Path) -> Memory:
    return connect(home=home_of(folder), cwd=folder, environ={}, origin=Origin.USER, actor="human:ada")


def propose(memory: Memory, text: str = "The port is 8080.", **more: Any) -> pending_writes.PendingRequest:
    arguments = {"text": text, "key": "port", "scope": "project", **more}
    return memory.requests.propose("store", arguments, scope=arguments["scope"], door="mcp")


# ---------------------------------------------------------------- the queue


@pytest.mark.parametrize("era", ERAS)
def test_a_write_waits_for_a_person_when_the_client_cannot_ask_one(folder: Path, era: str) -> None:
    settings(folder, "[approval]\nmcp = 'ask'\n")

    async def conversation() -> None:
        async with in_process(folder, era=era) as client:
            given = {"content": "The port is 8080.", "key": "port", "idempotency_key": "k"}
            made = await call(client, "memory_store", **given)
            assert made["outcome"] == "waiting"
            assert await call(client, "memory_store", **given) == made  # and waits once
            assert (await call(client, "memory_search", query="port"))["results"] == []

    talk(conversation)
    (waiting,) = person(folder).review.approvals()
    request, stored = person(folder).review.approve(waiting.id[:12])
    assert (request.origin, request.door, stored.key) == ("agent", "mcp", "port")
    assert "origin: agent" in read_record(folder, "port")  # a yes does not make it the person's own word
    assert person(folder).review.approvals() == []


def test_federated_memory_is_asked_about_and_a_door_can_be_shut(folder: Path) -> None:
    async def conversation() -> None:
        async with in_process(folder) as client:
            made = await call(client, "memory_store", content="For everyone.", scope="federated")
            assert made["outcome"] == "waiting"
            kept = await call(client, "memory_store", content="For me.", scope="global")
            assert kept["outcome"] == "created"
        settings(folder, "[approval]\nmcp = 'deny'\n")
        async with in_process(folder) as client:
            for name, given in (
                ("memory_store", {"content": "x"}),
                ("memory_note", {"content": "x"}),
                ("memory_store", {"type": "pattern", "content": "x"}),
                ("memory_forget", {"key": "x"}),
                ("save_memory", {"content": "x"}),
                ("memory_operations", {"operation": "prune_ltm"}),
            ):
                assert "disabled" in await refusal(client, name, given)
            assert (await call(client, "memory_search", query="me"))["results"]

    talk(conversation)


def test_the_list_of_things_to_do_needs_no_yes_and_a_shut_door_only_shows_it(folder: Path) -> None:
    async def conversation() -> None:
        settings(folder, "[approval]\nmcp = 'ask'\n")
        given = {"operation": "add", "title": "Find the bug", "idempotency_key": "a"}
        async with in_process(folder) as client:
            before = await call(client, "todo", **given)
            assert [each["title"] for each in before["items"]] == ["Find the bug"]
            assert len((await call(client, "todo", operation="add", title="Fix it"))["items"]) == 2
        settings(folder, "[approval]\nmcp = 'deny'\n")
        async with in_process(folder) as client:
            for more in (
                {"operation": "add", "title": "x"},
                {"operation": "add", "title": "x", "idempotency_key": "b"},
                {"operation": "write", "items": []},
                {"operation": "update", "id": 1, "status": "done"},
                {"operation": "done", "id": 1},
            ):
                assert "disabled" in await refusal(client, "todo", more)
            listed = await call(client, "todo")
            assert [each["status"] for each in listed["items"]] == ["pending", "pending"]
            assert await call(client, "todo", **given) == listed  # was made before: a retry says so
        settings(folder, "")
        async with in_process(folder) as client:  # what was refused may be tried again with its key
            made = await call(client, "todo", operation="add", title="x", idempotency_key="b")
            assert len(made["items"]) == 3

    talk(conversation)
    assert person(folder).review.approvals() == []


def test_every_kind_of_write_can_wait_and_be_made(folder: Path) -> None:
    agent(folder).store("It goes.", key="going")
    settings(folder, "[approval]\nmcp = 'ask'\n")

    async def conversation() -> None:
        async with in_process(folder) as client:
            for name, given in (
                ("memory_note", {"content": "Noted later."}),
                ("memory_store", {"type": "discovery", "content": "Learned later."}),
                ("memory_forget", {"key": "going"}),
                ("memory_store", {"content": "For now.", "scope": "session", "key": "now"}),
                ("memory_operations", {"operation": "prune_ltm"}),
            ):
                assert (await call(client, name, **given))["outcome"] == "waiting"

    talk(conversation)
    for each in person(folder).review.approvals():
        person(folder).review.approve(each.id)
    assert "Noted later." in agent(folder).notes_of_today().text
    assert [each.key for each in agent(folder).list(scope="project").records] == ["learned-later"]
    assert agent(folder, session="s1").show("now", scope="session").text == "For now."


def test_the_command_shows_what_hides_and_decides(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    home = ["--home", str(allow(home_of(folder)))]
    assert run(["review", "approve", *home]) == 0
    assert "nothing is pending" in capsys.readouterr().out
    one = propose(agent(folder), "Tea\u200b is \u202enice\x1b[31m.\nforged: line")
    two = propose(agent(folder), "Coffee is not.", key="coffee")
    assert run(["review", "approve", "list", *home]) == 0
    shown = capsys.readouterr().out
    assert "Tea⟨U+200B⟩ is ⟨U+202E⟩nice⟨U+001B⟩[31m." in shown
    assert "\n  forged: line" in shown
    assert run(["review", "approve", "yes", one.id[:12], *home]) == 0
    assert "was done, as agent" in capsys.readouterr().out
    assert run(["review", "approve", "yes", one.id[:12], *home]) == 1  # used up
    assert "no pending write" in capsys.readouterr().err
    assert run(["review", "approve", "no", two.id[:12], "--json", *home]) == 0
    assert json.loads(capsys.readouterr().out)["decided"][0]["decided"] == "no"
    assert run(["review", "approve", "yes", *home]) == 2
    propose(agent(folder), "Third.", key="third")
    assert run(["review", "approve", "yes", "--all", *home]) == 2  # not a terminal
    assert run(["review", "approve", "yes", "--all", "--yes", *home]) == 0
    keys = {each.key for each in agent(folder).list().records}
    assert keys == {"port", "third"}
    operations = [line["op"] for line in person(folder).audit.lines()]
    assert operations.count("approve") == 2
    assert operations.count("reject") == 1


def test_only_a_person_decides(folder: Path) -> None:
    waiting = propose(agent(folder))
    assert [each.why for each in person(folder).status().findings] == ["1 write is pending"]
    for memory in (agent(folder), agent(folder, origin=Origin.TOOL)):
        for decide in (memory.review.approve, memory.review.reject):
            with pytest.raises(NotVisible):
                decide(waiting.id)
        with pytest.raises(NotVisible):
            memory.review.approvals()


def mutated(content: bytes, choose: random.Random) -> bytes:
    """The same request, changed somewhere: a byte, a field, or the layout alone."""
    kind = choose.randrange(5)
    at = choose.randrange(len(content))
    if kind == 0:
        return content[:at] + bytes([content[at] ^ (1 << choose.randrange(8))]) + content[at + 1 :]
    if kind == 1:
        return content[:at] + bytes([choose.randrange(256)]) + content[at:]
    if kind == 2:
        return content[:at] + content[at + 1 :]
    request = pending_writes.parse(content)
    if kind == 3:
        change: dict[str, Any] = choose.choice(
            [
                {"scope": "federated"},
                {"origin": "user"},
                {"actor": "human:ada"},
                {"operation": "note"},
                {"agent": "other"},
                {"session": "other"},
                {"project": "other"},
                {"root": "/"},
                {"audience": "group"},
                {"door": "chat"},
                {"nonce": "0" * 16},
            ]
        )
        return pending_writes.render(replace(request, **change))
    arguments = {**request.arguments, "text": str(request.arguments["text"]) + choose.choice(" .\u200b\n")}
    return pending_writes.render(replace(request, arguments=arguments))


def test_a_request_that_was_changed_after_it_was_shown_is_refused_every_time(folder: Path) -> None:
    choose = random.Random(20261115)
    memory, refused, tried = person(folder), 0, 0
    where = home_of(folder) / "decisions" / "approvals"
    waiting = propose(agent(folder), "Deploy with the blue key, never the red one.")
    path = where / f"{waiting.id}.json"
    whole = path.read_bytes()
    while tried < 1000:
        changed = mutated(whole, choose)
        if changed == whole:
            continue
        tried += 1
        path.write_bytes(changed)
        try:
            memory.review.approve(waiting.id)
        except Conflict:
            refused += 1
    assert refused == 1000
    assert not memory.list(all=True).records
    assert memory.review.approvals()[0].trouble
    path.write_bytes(whole)  # as it was: it still waits, and a yes is for this one
    assert memory.review.approve(waiting.id)[1].key == "port"
    path.write_bytes(whole)  # put back after it was used: the same words again only confirm
    assert str(memory.review.approve(waiting.id)[1].outcome) == "confirmed"


def test_a_request_that_takes_the_place_of_another_has_another_id(folder: Path) -> None:
    one = propose(agent(folder), "Harmless.")
    where = home_of(folder) / "decisions" / "approvals"
    request = pending_writes.parse((where / f"{one.id}.json").read_bytes())
    evil = pending_writes.render(replace(request, arguments={**request.arguments, "text": "Evil."}))
    (where / f"{one.id}.json").unlink()
    (where / f"{pending_writes.digest(evil)}.json").write_bytes(evil)
    with pytest.raises(NotFound):
        person(folder).review.approve(one.id)


def test_what_would_be_forgotten_must_be_what_it_was(folder: Path) -> None:
    memory = agent(folder)
    memory.store("First.", key="topic")
    waiting = memory.requests.propose(
        "forget", {"name": "topic", "scope": "project"}, scope="project", door="mcp"
    )
    memory.store("Second.", key="topic")
    with pytest.raises(Conflict, match="changed"):
        person(folder).review.approve(waiting.id)
    assert len(memory.show("topic").entries) == 2
    assert person(folder).review.reject(waiting.id).id == waiting.id


def test_a_secret_does_not_wait_on_disk(folder: Path) -> None:
    propose(agent(folder), f"The token is {SECRET}.")
    with pytest.raises(SecretFound):
        propose(agent(folder), f"The token is {SECRET}.", scope="federated")
    files = [each for each in home_of(folder).rglob("*") if each.is_file()]
    assert not any(SECRET.encode() in each.read_bytes() for each in files)


def test_a_purged_text_does_not_wait_either(folder: Path) -> None:
    propose(agent(folder), "Zoë lives in Köln.")
    kept = propose(agent(folder), "Nothing of the kind.")
    found = person(folder).archive.purge_text("Zoë lives")
    assert [(each.count, each.gone) for each in found if "approvals" in each.where] == [(1, True)]
    assert [each.id for each in person(folder).review.approvals()] == [kept.id]


def test_the_queue_is_bounded_and_ids_are_not_guessed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_writes, "MOST", 30)
    found = [propose(agent(folder), f"Number {number}.") for number in range(30)]
    with pytest.raises(Refused, match="are already pending"):
        propose(agent(folder), "One more.")
    assert len({each.id for each in found}) == 30
    for word in ("", "a", "abc", "../x", "zzzz"):
        with pytest.raises((NotFound, Ambiguous)):
            person(folder).review.approve(word)
    with pytest.raises(VadeError):
        agent(folder).requests.propose("purge", {"name": "x"}, scope="project", door="mcp")


def test_a_project_that_has_become_another_is_not_written_to(folder: Path) -> None:
    waiting = propose(agent(folder))
    settings(folder, "project_id = 'another'\n")
    with pytest.raises(NotFound, match="any more"):
        person(folder).review.approve(waiting.id)
    assert not list(home_of(folder).glob("memory/**/records/*.md"))
    assert [each.id for each in person(folder).review.approvals()] == [waiting.id]


# ---------------------------------------------------------------- asking through the client


class Person:
    """Answers questions, and remembers them."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        return self.answers.pop(0)


YES = ElicitResult(action="accept", content={"save": True})


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_can_ask_its_person_does(folder: Path, era: str) -> None:
    settings(folder, "[approval]\nmcp = 'ask'\n")
    ada = Person(
        YES,
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={"save": False}),
    )

    async def conversation() -> None:
        async with over_stdio(folder, era=era, elicitation_callback=ada) as client:
            given = {"content": "The port\u200b is 8080.", "key": "port", "idempotency_key": "k"}
            made = await call(client, "memory_store", **given)
            assert made["outcome"] == "created"
            assert await call(client, "memory_store", **given) == made  # a retry asks nobody again
            for _ in range(3):
                assert "declined" in await refusal(client, "memory_note", {"content": "No."})

    talk(conversation)
    assert len(ada.asked) == 4
    assert "The port⟨U+200B⟩ is 8080." in ada.asked[0]
    assert person(folder).review.approvals() == []
    assert "No." not in agent(folder).notes_of_today().text


def test_an_answer_counts_for_the_question_it_was_given_to_and_once() -> None:
    questions = consent.Questions()
    asked = Write("store", {"text": "one"}, "project", dict)
    token = questions._ask(consent.fingerprint(asked))
    for other in (
        asked._replace(arguments={"text": "two"}),
        asked._replace(scope="federated"),
        asked._replace(operation="note"),
    ):
        with pytest.raises(Conflict, match="something else"):
            questions._use_question(questions._ask(consent.fingerprint(asked)), consent.fingerprint(other))
    questions._use_question(token, consent.fingerprint(asked))
    for used in (token, "", "made-up"):
        with pytest.raises(Conflict, match="no open question"):
            questions._use_question(used, consent.fingerprint(asked))


def test_questions_are_bounded() -> None:
    questions = consent.Questions()
    first = questions._ask("a")
    for _ in range(consent.MOST):
        questions._ask("a")
    with pytest.raises(Conflict):
        questions._use_question(first, "a")
