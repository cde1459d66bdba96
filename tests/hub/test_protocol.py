"""The protocol over a real socket: streams, pull, push, and every way in which a push can be wrong."""

from __future__ import annotations

import gzip
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from hub.hubs import Answer, Writer
from vademecum.sync import facts
from vademecum_hub import limits
from vademecum_hub.authorization import chain_after

if TYPE_CHECKING:
    from hub.hubs import World

OTHER = "99999999-2222-3333-4444-555555555555"


def pushed(world: World, writer: Writer, *made: Any, **more: Any) -> dict[str, Any]:
    answer = world.push(writer, *made, **more)
    assert answer.status == 200, answer.body
    told: dict[str, Any] = answer.json
    return told


def test_what_was_pushed_is_pulled_as_it_was_with_the_author_from_the_token(world: World) -> None:
    writer = Writer("aaaaaaaa")
    first = writer.fact()
    writer.fact(based_on=(first.id,), value={"raw": "Another text."})
    told = pushed(world, writer)
    assert [each["seq"] for each in told["stamps"]] == [1, 2]
    lines = world.pull().lines
    assert [facts.parse(json.dumps(each["fact"])) for each in lines] == writer.made
    assert [each["stamp"] for each in lines] == told["stamps"]
    assert {(each["stamp"]["author"], each["stamp"]["role"]) for each in lines} == {("anna", "owner")}
    chain = bytes(32)
    for fact, each in zip(writer.made, lines, strict=True):
        chain = chain_after(chain, fact.hash)
        assert each["stamp"]["chain"] == chain.hex()
    assert told["chain"] == chain.hex()


def test_a_pull_goes_on_after_any_line(world: World) -> None:
    writer = Writer("aaaaaaaa")
    for n in range(7):
        writer.fact(target=f"e{n}")
    pushed(world, writer)
    read: list[dict[str, Any]] = []
    while True:
        last = read[-1]["stamp"] if read else {"seq": 0, "chain": ""}
        lines = world.pull(epoch=1, after=last["seq"], chain=last["chain"], limit=3).lines
        if not lines:
            break
        read += lines
    assert [each["fact"]["n"] for each in read] == list(range(1, 8))


def test_nothing_new_is_one_request_that_says_so(world: World) -> None:
    pushed(world, writer := Writer("aaaaaaaa"), writer.fact())
    first = world.ask("GET", "/v1/streams")
    assert [(each["stream"], each["head"]) for each in first.json["streams"]] == [("global", 1)]
    again = world.ask("GET", "/v1/streams", If_None_Match=first.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    pushed(world, writer, writer.fact(target="e2"))
    assert world.ask("GET", "/v1/streams", If_None_Match=first.headers["ETag"]).status == 200


def test_a_stream_of_a_project_has_its_name_with_a_slash(world: World) -> None:
    pushed(world, writer := Writer("aaaaaaaa", "project/0123abcd"), writer.fact())
    assert len(world.pull("project/0123abcd").lines) == 1
    assert world.pull("global").status == 404


def test_a_push_whose_answer_was_lost_is_acknowledged_again_with_the_same_stamps(world: World) -> None:
    writer = Writer("aaaaaaaa")
    writer.fact()
    writer.fact(target="e2")
    first = pushed(world, writer)
    assert pushed(world, writer)["stamps"] == first["stamps"]
    third = writer.fact(target="e3")
    assert [each["seq"] for each in pushed(world, writer)["stamps"]] == [1, 2, 3]  # part known, part new
    assert pushed(world, writer, third)["head"] == 3
    assert len(world.pull().lines) == 3


def test_two_who_push_the_same_facts_at_once_add_them_once(world: World) -> None:
    writer = Writer("aaaaaaaa")
    for n in range(50):
        writer.fact(target=f"e{n}")
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(world.push(writer))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each.status for each in answers] == [200] * 4
    assert len({each.body for each in answers}) == 1
    assert [each["fact"]["n"] for each in world.pull().lines] == list(range(1, 51))


def test_facts_after_a_gap_are_refused_and_the_answer_says_where_to_begin(world: World) -> None:
    writer = Writer("aaaaaaaa")
    writer.fact()
    writer.fact(target="e2")
    third = writer.fact(target="e3")
    answer = world.push(writer, third)
    assert (answer.status, answer.code) == (409, "gap")
    assert answer.json["error"]["first"] == 1
    assert world.ask("GET", "/v1/streams").json["streams"] == []


@pytest.mark.parametrize("how", ["another fact", "another past"])
def test_a_copied_or_rolled_back_home_is_told_that_it_forked(how: str, world: World) -> None:
    writer, clone = Writer("aaaaaaaa"), Writer("aaaaaaaa")
    writer.fact()
    clone.fact(value={"raw": "Something else."})
    pushed(world, writer)
    if how == "another past":
        clone.fact(target="e2")
    answer = world.push(clone, *clone.made[-1:])
    assert (answer.status, answer.code) == (409, "forked")
    assert len(world.pull().lines) == 1


def test_a_lamport_number_far_ahead_is_refused_so_that_nobody_wins_for_ever(world: World) -> None:
    writer = Writer("aaaaaaaa")
    answer = world.push(writer, writer.fact(lamport=10**9))
    assert (answer.status, answer.code) == (409, "lamport")
    other = Writer("bbbbbbbb")
    other.fact()
    other.fact(target="e2")
    pushed(world, other)
    third = Writer("cccccccc")
    pushed(world, third, third.fact(lamport=3, target="e3"))


@pytest.mark.full(but=2)
@pytest.mark.parametrize(
    ("based_on", "code"),
    [("unknown", "unknown"), ("another register", "malformed"), ("another document", "malformed")],
)
def test_what_a_fact_replaces_must_be_there_and_about_the_same(
    based_on: str, code: str, world: World
) -> None:
    writer = Writer("aaaaaaaa")
    first = writer.fact()
    pushed(world, writer)
    fact_ids = {"unknown": (facts.FactId("zzzzzzzz", 4),)}.get(based_on, (first.id,))
    given: dict[str, Any] = {"another register": {"target": "e9"}, "another document": {"doc": OTHER}}.get(
        based_on, {}
    )
    answer = world.push(writer, writer.fact(based_on=fact_ids, **given))
    assert (answer.status, answer.code) == (422, code)
    assert len(world.pull().lines) == 1


def test_a_push_is_whole_or_not_at_all(world: World) -> None:
    writer = Writer("aaaaaaaa")
    writer.fact()
    writer.fact(target="e2")
    writer.fact(based_on=(facts.FactId("zzzzzzzz", 4),))
    assert world.push(writer).status == 422
    assert world.ask("GET", "/v1/streams").json["streams"] == []
    assert world.sql("SELECT count(*) FROM hub.fact") == [(0,)]


# ------------------------------------------------------------------------------- numbers


def test_a_record_gets_the_number_it_claims_when_that_is_free_and_else_the_next_one(world: World) -> None:
    one, two = Writer("aaaaaaaa"), Writer("bbbbbbbb", "project/x")
    told = pushed(world, one, one.fact("num", target="", value=7))
    assert told["stamps"][0]["num"] == 7
    told = pushed(world, two, two.fact("num", target="", value=7, doc=OTHER))
    assert told["stamps"][0]["num"] == 8
    again = pushed(world, two, two.fact("num", target="", value=9, doc=OTHER))
    assert again["stamps"][0]["num"] == 8  # given once


# ------------------------------------------------------------------------------- purge


def test_a_purge_takes_the_content_of_facts_away_for_good_and_machines_acknowledge_it(world: World) -> None:
    bert = world.member("bert", "writer", replica="bbbbbbbb")
    writer = Writer("aaaaaaaa")
    first = writer.fact(value={"raw": "A text with quicksilver in it."})
    second = writer.fact(based_on=(first.id,), value={"raw": 'A text with "quicksilver" still.'})
    writer.fact(target="e2")
    pushed(world, writer)
    found = world.ask("POST", "/v1/streams/global/purge", body={"text": "quicksilver"}).json["dots"]
    assert found == [str(first.id), str(second.id)]
    order = writer.fact("purge", doc="", target="", value={"dots": found})
    seq = pushed(world, writer, order)["head"]

    lines = [facts.parse(json.dumps(each["fact"])) for each in world.pull().lines]
    assert [fact.value for fact in lines[:2]] == [None, None]
    assert [fact.hash for fact in lines] == [fact.hash for fact in writer.made]  # the chain still holds
    assert b"quicksilver" not in world.pull().body
    dumped = world.sql("SELECT string_agg(fact::text, ' ') FROM hub.fact")[0][0]
    assert b"quicksilver".hex() not in dumped
    assert "quicksilver" not in dumped
    assert world.ask("POST", "/v1/streams/global/purge", body={"text": "quicksilver"}).json["dots"] == []

    told = world.ask("GET", "/v1/streams/global/purge").json["purges"]
    assert [(each["seq"], each["author"], each["acknowledged"], each["machines"]) for each in told] == [
        (seq, "anna", 0, 1)
    ]
    done = {"seq": seq, "replica": "bbbbbbbb"}
    assert world.ask("POST", "/v1/streams/global/purge/ack", bert, done).status == 200
    assert world.ask("POST", "/v1/streams/global/purge/ack", bert, done).status == 200
    assert world.ask("GET", "/v1/streams/global/purge").json["purges"][0]["acknowledged"] == 1
    assert world.ask("POST", "/v1/streams/global/purge/ack", bert, {**done, "seq": 1}).status == 404


def test_an_edit_over_a_purged_text_is_refused_and_its_empty_dot_is_taken(world: World) -> None:
    writer, late = Writer("aaaaaaaa"), Writer("bbbbbbbb")
    first = writer.fact()
    pushed(world, writer)
    edit = late.fact(based_on=(first.id,), lamport=2, value={"raw": "An edit made offline."})
    pushed(world, writer, writer.fact("purge", doc="", target="", value={"dots": [str(first.id)]}))
    answer = world.push(late, edit)
    assert (answer.status, answer.code, answer.json["error"]["n"]) == (410, "purged", 1)
    pushed(world, late, facts.blank(edit))
    assert b"offline" not in world.pull().body


# ------------------------------------------------------------------------------- rewind


def rewind(world: World) -> tuple[Writer, list[dict[str, Any]]]:
    """A hub that forgot its last two facts, as a restored backup does, and what a client has of before."""
    bert = world.member("bert", "writer")
    writer = Writer("aaaaaaaa")
    for n in range(4):
        writer.fact(target=f"e{n}")
    pushed(world, writer, token=bert)
    lines = world.pull().lines
    world.sql("DELETE FROM hub.fact WHERE seq > 2")
    world.sql(
        "UPDATE hub.stream SET head = 2, chain = (SELECT chain FROM hub.fact WHERE seq = 2), max_lam = 2"
    )
    return writer, lines


def test_what_was_purged_stays_purged_when_a_machine_sends_it_again_after_a_restore(world: World) -> None:
    bert, anna = Writer("bbbbbbbb"), Writer("aaaaaaaa")
    bert.fact(value={"raw": "The vault opens with heron."})
    pushed(world, bert)
    stamps = [each["stamp"] for each in world.pull().lines]
    anna.fact("purge", doc="", target="", value={"dots": ["bbbbbbbb:1"]}, lamport=2)
    world.sql("DELETE FROM hub.fact")  # a backup from before all of it
    world.sql("UPDATE hub.stream SET head = 0, chain = %s, max_lam = 1", bytes(32))
    pushed(world, anna)
    pushed(world, bert, stamps=stamps)  # by a machine that has not heard of the purge
    kept = world.sql("SELECT value, purged_at IS NOT NULL FROM hub.fact WHERE replica = 'bbbbbbbb'")
    assert kept == [(None, True)]


def test_a_restored_database_is_noticed_by_a_pull_and_a_push_and_gets_back_what_it_lost(world: World) -> None:
    writer, lines = rewind(world)
    last = lines[-1]["stamp"]
    answer = world.pull(epoch=1, after=4, chain=last["chain"])
    assert (answer.status, answer.code) == (409, "rewound")
    told = world.ask("POST", "/v1/streams/global/epoch", body=lines[-1])
    assert told.json == {"epoch": 2}
    assert world.ask("POST", "/v1/streams/global/epoch", body=lines[-1]).json == {"epoch": 2}  # once
    assert world.push(writer, token=world.anna).code == "rewound"  # epoch 1 is over
    # Anna's machine sends what Bert's machine made, with the stamps: the author stays Bert.
    stamps = [each["stamp"] for each in lines]
    again = pushed(world, writer, epoch=2, stamps=stamps)
    assert [(each["seq"], each["author"]) for each in again["stamps"]] == [(n, "bert") for n in range(1, 5)]
    assert [each["stamp"]["at"] for each in world.pull(epoch=2).lines] == [each["at"] for each in stamps]


def test_a_stamp_without_a_valid_mac_proves_neither_a_past_nor_an_author(world: World) -> None:
    writer, lines = rewind(world)
    forged = {**lines[-1], "stamp": {**lines[-1]["stamp"], "author": "anna"}}
    assert world.ask("POST", "/v1/streams/global/epoch", body=forged).json == {"epoch": 1}
    stamps = [{**each["stamp"], "author": "anna"} for each in lines]
    carl = world.member("carl", "writer")
    answer = world.push(writer, token=carl, stamps=stamps)
    assert (answer.status, answer.code) == (409, "forked")  # Bert's machine is not Carl's
    other = Writer("cccccccc")
    told = pushed(world, other, other.fact(lamport=3, target="e7"), token=carl, stamps=[stamps[0]])
    assert told["stamps"][0]["author"] == "external"


def test_a_chain_that_differs_at_the_same_head_is_a_rewind_too(world: World) -> None:
    pushed(world, writer := Writer("aaaaaaaa"), writer.fact())
    assert world.pull(epoch=1, after=1, chain="0" * 64).code == "rewound"
    assert world.pull(epoch=2, after=0).code == "rewound"


# ------------------------------------------------------------------------------- lease


def test_one_machine_at_a_time_cares_for_a_stream(world: World) -> None:
    path = "/v1/streams/global/lease"
    assert world.ask("POST", path, body={"replica": "aaaaaaaa", "seconds": 60}).status == 200
    assert world.ask("POST", path, body={"replica": "aaaaaaaa", "seconds": 60}).status == 200
    answer = world.ask("POST", path, body={"replica": "bbbbbbbb", "seconds": 60})
    assert (answer.status, answer.code) == (409, "leased")
    world.sql("UPDATE hub.lease SET until = now() - interval '1 second'")
    assert world.ask("POST", path, body={"replica": "bbbbbbbb", "seconds": 60}).json["holder"] == "bbbbbbbb"


# ------------------------------------------------------------------------------- versions and limits


THIS = "vade on this machine"


@pytest.mark.full(but=2)
@pytest.mark.parametrize(("spoken", "old"), [("2", "the hub"), ("0", THIS), ("", THIS), ("x", THIS)])
def test_another_version_of_the_protocol_is_told_which_side_is_old(
    spoken: str, old: str, world: World
) -> None:
    answer = world.ask("GET", "/v1/streams", Vade_Protocol=spoken)
    assert answer.status == 426
    assert f"upgrade {old}" in answer.json["error"]["message"]


def test_a_body_is_measured_before_it_is_read_and_after_it_is_unzipped(world: World) -> None:
    path = "/v1/streams/global/facts"
    too_large = b"x" * (limits.LARGEST_BODY + 1)
    assert world.ask("POST", path, body=too_large).status == 413
    bomb = gzip.compress(too_large)
    assert len(bomb) < 10_000
    assert world.ask("POST", path, body=bomb, Content_Encoding="gzip").status == 413
    assert world.ask("POST", path, body=b"no gzip", Content_Encoding="gzip").status == 400
    assert world.ask("POST", path, body=b"x", Content_Encoding="br").status == 415
    writer = Writer("aaaaaaaa")
    writer.fact()
    answer = world.ask("POST", path, body=gzip.compress(writer.body()), Content_Encoding="gzip")
    assert answer.status == 200


@pytest.mark.full
def test_more_than_a_thousand_facts_are_sent_in_parts(world: World) -> None:
    writer = Writer("aaaaaaaa")
    for n in range(1_001):
        writer.fact(target=f"e{n}", value={"raw": ""})
    assert world.push(writer).status == 413
    pushed(world, writer, *writer.made[:1_000])
    pushed(world, writer, *writer.made[1_000:])
    assert len(world.pull().lines) == 1_000


@pytest.mark.full(but=3)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"epoch": 1}',
        b'{"epoch": true, "replica": "aaaaaaaa"}',
        b'{"epoch": 1, "replica": "aaaaaaaa"}\n{}',
        b'{"epoch": 1, "replica": "aaaaaaaa"}\nno fact',
        b'{"epoch": 1, "replica": "aaaaaaaa", "stamps": [1]}\n',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_push_is_told_so_and_never_an_error_of_the_server(body: bytes, world: World) -> None:
    assert world.ask("POST", "/v1/streams/global/facts", body=body).status == 422


def test_a_fact_of_another_stream_or_with_a_character_that_postgresql_lacks_is_refused(world: World) -> None:
    writer = Writer("aaaaaaaa", "project/x")
    writer.fact()
    assert world.ask("POST", "/v1/streams/global/facts", body=writer.body()).status == 422
    odd = Writer("aaaaaaaa")
    odd.fact("tag", target="a\0b", value=True)
    assert world.push(odd).status == 422


@pytest.mark.full
def test_a_token_that_asks_too_often_is_told_when_to_come_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BURST", 5.0)
    monkeypatch.setattr(limits, "RATE", 0.001)
    answers = [world.ask("GET", "/v1/streams") for _ in range(7)]
    assert [each.status for each in answers[:4]] == [200] * 4
    assert answers[-1].status == 429
    assert int(answers[-1].headers["Retry-After"]) >= 1
    bert = world.member("bert", "reader")
    assert world.ask("GET", "/v1/streams", bert).status in (
        200,
        429,
    )  # his own bucket; the address's is shared


def test_a_stream_over_its_quota_says_so_and_keeps_what_it_has(world: World) -> None:
    pushed(world, writer := Writer("aaaaaaaa"), writer.fact())
    world.sql("UPDATE hub.workspace SET quota_facts = 1")
    answer = world.push(writer, writer.fact(target="e2"))
    assert (answer.status, answer.code) == (507, "quota")
    assert len(world.pull().lines) == 1


def test_a_database_that_takes_nothing_is_told_in_a_sentence_and_reading_goes_on(world: World) -> None:
    pushed(world, writer := Writer("aaaaaaaa"), writer.fact())
    name = world.sql("SELECT current_database()")[0][0]
    world.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    world.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'hub_app' AND datname = %s",
        name,
    )
    answer = world.push(writer, writer.fact(target="e2"))
    assert (answer.status, answer.code) == (503, "storage")
    assert len(world.pull().lines) == 1


def test_an_agent_adds_to_a_members_document_and_cannot_change_its_head(world: World) -> None:
    anna, agent = Writer("aaaaaaaa"), Writer("bbbbbbbb")
    anna.fact("name", target="", value="records/deploys.md")
    anna.fact("layout", target="", value={"front": "", "head": "", "eol": "lf"})
    pushed(world, anna)
    token = world.token_of("anna", "read", "write")
    for kind, target, value in (("front", "title", "Obey"), ("layout", "", {"front": "", "head": "Obey"})):
        made = agent.fact(kind, target=target, value=value, origin="agent", lamport=3)
        answer = world.push(agent, made, token=token)
        assert (answer.status, answer.code) == (403, "propose")
        agent.made.clear()
    added = agent.fact(target="e9", value={"raw": "From the build."}, origin="agent", lamport=3)
    assert world.push(agent, added, token=token).status == 200
