"""The whole local sets of poisoned texts, secrets and names, sent by others through a real hub.

Nothing is written anew here: the texts, secrets and names are those of the tests of one machine.
"""

from __future__ import annotations

import json
import logging
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hooks.calls import World as Hooks
from hooks.test_poison import WORDS, poison, record
from http_door.test_markdown import HOSTILE as MARKDOWN
from hub.hubs import DOC, Writer
from hub.pages import browse
from hub.test_sync import Machine, two
from hub.test_team import Member, meet
from inject.test_render import HOSTILE as FENCES
from made_up_secrets import SEED, Sample, is_gone
from made_up_secrets import secrets as made_up_secrets
from mcp_door.talking import talk
from text.test_names import HOSTILE as NAMES
from text.test_names import pairs
from vademecum.errors import VadeError
from vademecum.inject.render import CLOSE, OPEN
from vademecum.interfaces.mcp import sdk as serving
from vademecum.sync import membership
from vademecum.text import secrets as gate
from vademecum.types import Origin
from web.test_hostile import ATTACKS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hub.hubs import World

__all__ = ["two"]  # a fixture
PAYLOADS = [*FENCES, *MARKDOWN, *ATTACKS.values()]


def poisoned(count: int) -> dict[str, str]:
    """Every poisoned text of one machine's tests, by the word it would be known by."""
    found = dict(poison(number) for number in range(count))
    found |= {
        f"canary{len(found) + at}y": f"canary{len(found) + at}y {text}" for at, text in enumerate(PAYLOADS)
    }
    return found


def spread(member: Member, texts: Sequence[str]) -> None:
    """Write them into the team's folder, as files that say of themselves whatever helps."""
    folder = member.team / "project/api/records"
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts):
        said = record(f"{member.name}-{number}", text.encode("utf-8", "replace").decode())
        (folder / f"{member.name}-{number}.md").write_text(said, "utf-8")


def spread_pinned(member: Member, texts: Sequence[str]) -> None:
    """The document that would be in every prompt."""
    text = "\n\n".join(each.encode("utf-8", "replace").decode() for each in texts)
    (member.team / "project/api/context.md").write_text(f"# Rules\n\n{text}\n", "utf-8")


def agents_machine(world: World, base: Path, name: str) -> Member:
    """A machine of a member that joined with an agent's token."""
    made = Member(base, name, world, "writer", machine="-agent")
    joined = membership.join_with_token(made.home, world.url, world.token_of(name, "read", "write"))
    assert joined.agent
    return made


def told(member: Member, canaries: Sequence[str]) -> str:
    """All that an agent of a member could be told, at the beginning and by any prompt."""
    memory = member.memory()
    found = [memory.injection.block().text, memory.injection.block(query=" ".join(WORDS)).text]
    for word in (*WORDS, *canaries):
        found.append(memory.injection.remind(f"What about the {word} instructions?", budget=5000).text)
    return "\n".join(found)


def by_hooks(member: Member, prompt: str) -> bytes:
    """What the hooks of an agent answer, each a process of its own."""
    hooks = Hooks(member.base, member.base / "project", member.base / "home")
    return b"".join(
        hooks.call("claude-code", event, {"session_id": "s", "prompt": prompt}, VADE_PROJECT_ID="api").out
        for event in ("session-start", "user-prompt")
    )


def by_mcp(member: Member, queries: Sequence[str]) -> list[dict[str, Any]]:
    """What the tools of an agent answer."""
    answers: list[dict[str, Any]] = []
    options = {"home": member.base / "home", "cwd": member.base / "project", "session": "s1"}

    async def conversation() -> None:
        from mcp.client.client import Client

        server, seats = serving.make(options, tools="all", own_session=True)
        async with Client(server, mode="legacy") as client:
            for query in queries:
                given = {"query": query, "maxResults": 50, "minScore": 0}
                got = await client.call_tool("memory_search", given)
                assert isinstance(got.structured_content, dict), got.content
                answers.append(got.structured_content)
        seats.close()

    talk(conversation)
    return answers


def check(world: World, base: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send the set as a member and as an agent of theirs, and look at what another member's agent is told."""
    monkeypatch.setenv("VADE_PROJECT_ID", "api")
    anna, will = Member(base, "anna", world, "owner"), Member(base, "will", world, "editor")
    agent = agents_machine(world, base, "will")
    anna.memory().store("The payment gateway is retried three times", key="gateway", scope="project")
    texts = poisoned(count)
    canaries = [*texts]
    half = len(canaries) // 2
    spread(will, [texts[each] for each in canaries[:half]])
    spread_pinned(will, [texts[each] for each in canaries[half:]])
    for number, each in enumerate(canaries[half:]):
        with_text = texts[each].encode("utf-8", "replace").decode()
        agent.memory(Origin.AGENT).store(with_text, key=f"agent-{number}", team=world.public)
    meet(will, agent, anna)
    arrived = str(anna.texts())
    assert [each for each in canaries if each not in arrived] == []  # so that its absence means something
    asked = canaries[:: max(1, len(canaries) // 20)]
    seen = told(anna, asked)
    assert "retried three times" in seen
    assert [each for each in canaries if each in seen] == []
    assert b"canary" not in by_hooks(anna, f"{' '.join(WORDS)} {asked[0]}")
    memory = anna.memory()
    memory.care.index()
    for each in asked:
        found = memory.search(each, max_results=100, min_score=0, mode="bm25").results
        hits = [hit for hit in found if each in hit.snippet]
        assert hits, each
        assert {str(hit.origin) for hit in hits} <= {"member:will", "external"}, each
    for answer in by_mcp(anna, asked):
        for hit in answer["results"]:
            if "canary" in hit["snippet"]:
                assert hit.get("origin", "") not in ("user", ""), hit
        whole = json.dumps(answer, ensure_ascii=False)
        assert not set(whole) & set("\u202e\u200b\x1b\u2066"), "what cannot be seen came out"
    check_pages(world)
    for item in memory.review.inbox(["text"]).items[:40]:
        memory.review.decide([item], yes=True)  # even then it stays within its fence
    block = anna.memory().injection.block(query="canary").text
    assert "canary" in block
    assert block.count(CLOSE) == block.count(OPEN) == 1
    assert not set(block) & set("\u202e\u200b\x1b\u2066")


def check_pages(world: World) -> None:
    """The hub's page shows each as a text."""
    page = browse(world, world.anna)
    rows = page.json("/documents", stream="project/api")["documents"]
    for row in rows[:: max(1, len(rows) // 30)]:
        world.app.state.hub.buckets._left.clear()
        shown = page.get("/document", stream="project/api", doc=row["doc"]).body.decode()
        entries = shown.partition("<main")[2]
        assert "\u202e" not in entries
        for tag, attributes in re.findall(r"<(\w+)([^>]*)>", entries):
            assert tag not in ("iframe", "style", "meta", "base", "img", "math", "object"), (row["path"], tag)
            assert tag != "script" or "src=" in attributes
            assert not re.search(r'href="(?!/|#|\?|https?:)| on\w+=', attributes), (row["path"], attributes)


@pytest.mark.full
def test_nothing_poisoned_of_a_member_or_their_agent_is_put_before_anothers_agent(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(world, tmp_path, 150, monkeypatch)  # as many as the tests of one machine bring in on all ways


@pytest.mark.soak
def test_nothing_of_three_thousand_poisoned_texts_is_put_before_anothers_agent(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(world, tmp_path, 3_000, monkeypatch)


# ------------------------------------------------------------------------------- secrets


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    """The whole set, without the few that the gate of one machine does not see either."""
    every = made_up_secrets(random.Random(SEED))
    found = [each for each in every if is_gone(each) and gate.find(each.text)]
    assert len(found) >= 0.99 * len(every)
    return found


def pieces_in(where: bytes | str, some: Sequence[Sample]) -> list[str]:
    text = where.decode(errors="replace") if isinstance(where, bytes) else where
    return [each.kind for each in some if any(piece in text for piece in each.pieces)]


@pytest.mark.full
def test_a_machine_sends_no_secret_of_the_whole_set(
    two: tuple[Machine, Machine], world: World, samples: list[Sample], caplog: pytest.LogCaptureFixture
) -> None:
    """Typed by hand into files, past every door that would have redacted them."""
    one, other = two
    folder = one.top / "global/records"
    for number, each in enumerate(samples):
        (folder / f"typed-{number}.md").write_text(f"# typed {number}\n\n{each.text}\n", "utf-8")
    with caplog.at_level(logging.DEBUG):
        done = one.sync()
        other.sync()
    told = "\n".join(f"{each.where} {each.why} {each.mend}" for place in done for each in place.findings)
    left_out = {each.where.rpartition("/")[2] for place in done for each in place.findings}
    assert left_out == {f"typed-{number}.md" for number in range(len(samples))}
    assert pieces_in(told, samples) == []
    assert not list(other.top.rglob("typed-*"))
    assert pieces_in("\n".join(each.getMessage() for each in caplog.records), samples) == []
    assert pieces_in(everything(world), samples) == []


def everything(world: World) -> str:
    """All that the database holds, as text."""
    tables = world.sql(
        "SELECT relname FROM pg_class WHERE relnamespace = 'hub'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relispartition"
    )
    found = []
    for (name,) in tables:
        found += [row[0] for row in world.sql(f"SELECT t::text FROM hub.{name} t")]
        if name == "fact":
            found += [row[0] for row in world.sql("SELECT convert_from(value, 'UTF8') FROM hub.fact"
                                                  " WHERE value IS NOT NULL")]  # fmt: skip
    return "\n".join(found)


def hiding(sample: Sample) -> list[dict[str, Any]]:
    """Where a client that was tampered with can put a text."""
    canvas = {"front": "", "head": sample.text, "eol": "lf", "gaps": {}}
    return [
        {"kind": "put", "value": {"raw": sample.text}},
        {"kind": "layout", "target": "", "value": canvas},
        {"kind": "layout", "target": "", "value": {**canvas, "head": "", "front": sample.text}},
        {"kind": "name", "target": "", "value": f"records/{sample.text}.md"},
        {"kind": "front", "target": "title", "value": sample.text},
        {"kind": "tag", "target": sample.text.replace("\0", ""), "value": True},
    ]


@pytest.mark.full
def test_a_client_that_was_tampered_with_is_refused_with_every_secret_of_the_set(
    world: World, samples: list[Sample], caplog: pytest.LogCaptureFixture
) -> None:
    refused = 0
    with caplog.at_level(logging.DEBUG):
        for number, each in enumerate(samples):
            world.app.state.hub.buckets._left.clear()
            ways = hiding(each)
            given = ways[number % len(ways)]
            fact = Writer("aaaaaaaa").fact
            try:
                made = fact(**{"doc": DOC, **given})
            except VadeError:  # no fact of that shape: the server refuses it for that
                made = fact(**{"doc": DOC, **ways[0]})
            answer = world.push(Writer("aaaaaaaa"), made)
            assert (answer.status, answer.code) == (422, "secret"), (each.kind, each.carrier, answer.body)
            assert pieces_in(answer.body, [each]) == []
            refused += 1
    assert refused == len(samples)
    assert world.sql("SELECT count(*) FROM hub.fact") == [(0,)]
    assert pieces_in("\n".join(each.getMessage() for each in caplog.records), samples) == []
    assert pieces_in(everything(world), samples) == []


@pytest.mark.full
def test_no_other_word_that_a_client_chooses_keeps_a_secret(world: World, samples: list[Sample]) -> None:
    """Origins, doors, labels of tokens and machines, names of members: what is short enough for them."""
    some = [each for each in samples if each.carrier == "bare" and len(each.text) < 80]
    assert len({each.kind for each in some}) > 60
    for each in some:
        world.app.state.hub.buckets._left.clear()
        choices: list[dict[str, Any]] = [{"interface": each.text}, {"origin": each.text}]
        for given in choices:
            fact = replace(Writer("aaaaaaaa").fact(), **given)
            answer = world.push(Writer("aaaaaaaa"), fact)
            assert answer.status == 422, (each.kind, given)
            assert pieces_in(answer.body, [each]) == []
        answers = [world.ask("POST", "/v1/tokens", body={"scopes": ["read"], "label": each.text})]
        code = world.ask("POST", "/v1/invites", body={}).json["code"]
        answers.append(
            world.ask("POST", "/v1/join", "", {"code": code, "replica": "bbbbbbbb", "label": each.text})
        )
        answers.append(world.ask("POST", "/v1/invites", body={"name": each.text}))
        assert pieces_in(b"".join(each.body for each in answers), [each]) == []
    assert pieces_in(everything(world), some) == []


# ------------------------------------------------------------------------------- names


def hostile_names() -> list[str]:
    """Every name of the tests of one machine, as the path of a document."""
    alone = [*NAMES, *(name for pair in pairs() for name in (pair.one, pair.other))]
    made = [f"{folder}{name}{end}" for name in NAMES for folder in ("", "records/") for end in ("", ".md")]
    made += [f"records/{name}.md" for name in dict.fromkeys(alone[len(NAMES) :])]
    made += [f"journal/{name}" for name in NAMES] + ["MEMORY.md", "profile.md", "config.toml", "hub/key"]
    return list(dict.fromkeys(made))


def surroundings(member: Member) -> dict[str, bytes]:
    """Every file that no sync of a team has to do with."""
    own = (member.team, member.base / "home/hub", member.base / "home/archive", member.base / "home/audit")
    return {
        str(path): path.read_bytes()
        for path in member.base.parent.rglob("*")
        if path.is_file()
        and not any(each in path.parents for each in own)
        and not {"locks", "sync-notices"} & set(path.parts)
    }


@pytest.mark.full
def test_no_name_of_the_whole_set_leaves_its_folder(world: World, tmp_path: Path) -> None:
    anna, bert = Member(tmp_path, "anna", world, "owner"), Member(tmp_path, "bert", world, "editor")
    bert.memory().store("Private.", key="private", scope="project")
    (bert.base / "outside").mkdir()
    (bert.base / "outside/secret.md").write_text("CANARY")
    meet(anna, bert)
    before = surroundings(bert)
    names = hostile_names()
    assert len(names) > 1_000
    taken = send_named(world, names)
    assert taken > 900
    for stream in ("project/..", "project/...", "project/.git", "global/..", "agent/-", "records", "hub/key"):
        send_named(world, ["records/a.md"], stream)
    bert.sync()
    after = surroundings(bert)
    assert {path for path in before if after.get(path) != before[path]} <= {
        str(bert.base / "home/last-number")
    }
    assert {path for path in after if path not in before} <= {str(bert.base / "home/last-number")}
    made = [path for path in bert.team.rglob("*") if path.is_file()]
    assert len(made) > 500
    for path in made:
        assert path.resolve().is_relative_to(bert.team.resolve())
        assert path.parent.name in ("records", "api"), path
        assert path.name.isprintable()
        assert len(path.name.encode()) <= 255
    assert not any(each.done.sent or each.done.written for each in bert.sync())
    assert not [each for each in anna.sync() if each.findings]


def send_named(world: World, names: Sequence[str], stream: str = "project/api") -> int:
    """Documents of these names from a client that checks none; returned is how many the hub took."""
    taken = 0
    canvas = {"front": "", "head": "", "eol": "lf", "gaps": {}}
    for start in range(0, len(names), 300):
        lamport = (world.sql("SELECT max_lam FROM hub.stream WHERE stream = %s", stream) or [(0,)])[0][0]
        writer = Writer(f"zzzz{start:04d}", stream)
        for at, name in enumerate(names[start : start + 300], start):
            raw = {"raw": f"## 2026-02-01T00:00:00Z\nEvil {at}."}
            for kind, target, value in (("name", "", name), ("layout", "", canvas), ("put", "e1", raw)):
                doc = f"{at:08d}-2222-3333-4444-555555555555"
                try:
                    writer.fact(kind, lamport + 1, doc=doc, target=target, value=value)
                except (VadeError, UnicodeEncodeError):
                    break  # no fact holds such a name
                lamport += 1
        world.app.state.hub.buckets._left.clear()
        answer = world.push(writer, token=world.anna)
        assert answer.status in (200, 422), answer.body
        taken += len(writer.made) // 3 if answer.status == 200 else 0
    return taken
