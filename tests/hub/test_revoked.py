"""What ends with a token that is revoked: everything that was made with it, and nothing else."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from allowing import allow
from hub.pages import browse
from hub.test_commands import invited, refused, vade
from vademecum.interfaces.cli.app import run
from vademecum_hub import members
from vademecum_hub.authorization import authenticate
from vademecum_hub.migrate import migrate, read_migrations

if TYPE_CHECKING:
    from pathlib import Path

    from hub.databases import Server
    from hub.hubs import World


def number_of(world: World, token: str) -> str:
    (row,) = world.sql("SELECT token::text FROM hub.token WHERE hash = %s", world.keys.hash_token(token))
    return str(row[0])


def made_with(world: World, token: str, *scopes: str) -> str:
    given = {"scopes": list(scopes) or ["read", "write", "person"], "label": "made"}
    answer = world.ask("POST", "/v1/tokens", token, given)
    assert answer.status == 200, answer.body
    return str(answer.json["token"])


def code_of(world: World, token: str, name: str = "", role: str = "owner") -> str:
    asked = {"name": name, "role": role} if name else {}
    return str(world.ask("POST", "/v1/invites", token, asked).json["code"])


def joined(world: World, code: str, replica: str) -> str:
    answer = world.ask("POST", "/v1/join", "", {"code": code, "replica": replica})
    assert answer.status == 200, answer.body
    return str(answer.json["token"])


def valid(world: World, *tokens: str) -> list[bool]:
    return [world.ask("GET", "/v1/me", token).status == 200 for token in tokens]


def test_everything_that_was_made_with_a_stolen_token_ends_with_it(world: World) -> None:
    stolen = world.token_of("anna")
    agent, person = made_with(world, stolen, "read", "write"), made_with(world, stolen)
    machine = joined(world, code_of(world, person), "eeeeeeee")  # a token made with one that was made with it
    eve = joined(world, code_of(world, machine, "eve"), "ffffffff")  # a member whom it let in
    her_agent = made_with(world, eve, "read")
    codes = [code_of(world, eve, "mallory"), code_of(world, machine)]
    other = made_with(world, world.anna)
    ended = [agent, person, machine, eve, her_agent]
    assert valid(world, stolen, *ended, other) == [True] * 7
    answer = world.ask("DELETE", f"/v1/tokens/{number_of(world, stolen)}").json
    assert {each["id"] for each in answer["also"]} == {number_of(world, each) for each in ended}
    assert {(each["member"], each["label"]) for each in answer["also"]} == {
        ("anna", "made"), ("anna", ""), ("eve", ""), ("eve", "made"),
    }  # fmt: skip
    assert answer["codes"] == 2
    assert valid(world, stolen, *ended) == [False] * 6
    assert valid(world, world.anna, other) == [True, True]
    for code in codes:
        assert world.ask("POST", "/v1/join", "", {"code": code, "replica": "gggggggg"}).status == 404
    line = world.ask("GET", "/v1/audit").json["lines"][-1]
    assert (line["did"], sorted(line["also"])) == ("revoked", sorted(each["id"] for each in answer["also"]))


def test_whoever_revokes_with_a_token_that_was_made_with_the_stolen_one_is_not_shut_out(world: World) -> None:
    lost = world.token_of("anna")
    desk = joined(world, code_of(world, lost), "eeeeeeee")
    tablet = joined(world, code_of(world, lost), "ffffffff")
    desks_agent = made_with(world, desk, "read")
    answer = world.ask("DELETE", f"/v1/tokens/{number_of(world, lost)}", desk).json
    assert [each["id"] for each in answer["also"]] == [number_of(world, tablet)]
    assert valid(world, lost, desk, tablet, desks_agent) == [False, True, False, True]


def test_one_token_alone_can_be_revoked_and_what_was_made_with_it_later(world: World) -> None:
    old = world.token_of("anna")
    desk = joined(world, code_of(world, old), "eeeeeeee")
    agent = made_with(world, desk, "read")
    waiting = code_of(world, old)
    number = number_of(world, old)
    answer = world.ask("DELETE", f"/v1/tokens/{number}", body={"only": True}).json
    assert (answer["also"], answer["codes"]) == ([], 1)
    assert valid(world, old, desk, agent) == [False, True, True]
    assert world.ask("POST", "/v1/join", "", {"code": waiting, "replica": "gggggggg"}).status == 404
    # Through a token that was revoked by itself before, too.
    assert world.ask("DELETE", f"/v1/tokens/{number_of(world, desk)}", body={"only": True}).status == 200
    answer = world.ask("DELETE", f"/v1/tokens/{number}").json
    assert [each["id"] for each in answer["also"]] == [number_of(world, agent)]
    assert valid(world, agent) == [False]
    assert world.ask("DELETE", f"/v1/tokens/{number}").status == 404  # nothing is left of it


def test_who_is_no_owner_ends_their_own_tokens_and_no_members(world: World) -> None:
    olga = world.member("olga", "owner")
    bert = joined(world, code_of(world, olga, "bert", "writer"), "eeeeeeee")
    berts_agent = made_with(world, bert, "read")
    hers = made_with(world, olga)
    assert world.ask("POST", "/v1/members/olga", body={"role": "writer"}).status == 200
    answer = world.ask("DELETE", f"/v1/tokens/{number_of(world, olga)}", olga).json
    assert [each["id"] for each in answer["also"]] == [number_of(world, hers)]
    assert valid(world, olga, hers, bert, berts_agent) == [False, False, True, True]


def test_the_list_and_the_page_say_what_would_end(world: World) -> None:
    stolen = world.token_of("anna")
    agent = made_with(world, stolen, "read")
    eve = joined(world, code_of(world, stolen, "eve"), "ffffffff")
    listed = {each["id"]: each for each in world.ask("GET", "/v1/tokens").json["tokens"]}
    assert sorted(listed[number_of(world, stolen)]["made"]) == sorted(
        number_of(world, each) for each in (agent, eve)
    )
    assert listed[number_of(world, agent)]["made_with"] == number_of(world, stolen)
    first = listed[number_of(world, world.anna)]
    assert (first["made"], first["made_with"]) == ([], None)
    page = browse(world)
    assert "and 2 made with it" in page.get("/members").body.decode()
    answer = page.post("/revoke", {"id": number_of(world, stolen)})
    assert {each["member"] for each in answer.json["also"]} == {"anna", "eve"}
    assert valid(world, stolen, agent, eve) == [False] * 3


@pytest.mark.full
@pytest.mark.parametrize("what", ["token", "code", "join"])
def test_what_is_made_at_the_moment_of_the_revocation_ends_as_well(what: str, world: World) -> None:
    stolen = world.token_of("anna")
    code = code_of(world, stolen)
    done: list[int] = []

    def revoke() -> None:
        done.append(world.ask("DELETE", f"/v1/tokens/{number_of(world, stolen)}").status)

    with psycopg.connect(world.postgres.as_role(world.database, "hub_app")) as connection:
        made: dict[str, Any]
        if what == "join":
            found = members.count_attempt(connection, code)
            assert found is not None
            made = members.join(connection, world.keys, *found, {"code": code, "replica": "eeeeeeee"})
        else:
            caller = authenticate(connection, world.keys, f"Bearer {stolen}")
            asked = {"scopes": ["read", "person"]}
            made = (
                members.add_token(connection, caller, world.keys, asked)
                if what == "token"
                else members.invite(connection, caller, world.keys, {})
            )
        thread = threading.Thread(target=revoke)
        thread.start()
        thread.join(1)  # it waits for who came first
        connection.commit()
    thread.join(30)
    assert done == [200]
    if what == "code":
        answer = world.ask("POST", "/v1/join", "", {"code": made["code"], "replica": "eeeeeeee"})
        assert answer.status == 404
    else:
        assert valid(world, made["token"]) == [False]


def test_tokens_and_codes_of_an_earlier_schema_were_made_with_none_that_is_known(postgres: Server) -> None:
    name = postgres.database(template="template0")
    try:
        with psycopg.connect(postgres.url(name)) as connection:
            migrate(connection, read_migrations()[:3])
            for row in (
                "INSERT INTO hub.workspace (ws, public, name, kind)"
                " VALUES (1, gen_random_uuid(), 'w', 'team')",
                "INSERT INTO hub.member VALUES (1, gen_random_uuid(), 'anna', 'owner')",
                "INSERT INTO hub.token (ws, token, member, hash, scopes, expires)"
                " SELECT 1, gen_random_uuid(), member, '\\x00', '{read}', now() FROM hub.member",
                "INSERT INTO hub.invite (ws, invite, hash, scopes, expires)"
                " VALUES (1, 'ABCDEF', '\\x00', '{read}', now())",
            ):
                connection.execute(row)
            migrate(connection)
            for table in ("token", "invite"):
                assert connection.execute(f"SELECT made_with FROM hub.{table}").fetchall() == [(None,)]
    finally:
        postgres.drop(name)


def test_the_command_says_what_ended_and_asks_before_on_a_terminal(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for home in (one, two):
        allow(home)
    vade(capsys, one, "hub", "join", world.url, "--code", invited(world))
    person = vade(capsys, one, "hub", "token", "add", "--scopes", "read,write,person", "--label", "spare")
    vade(capsys, two, "hub", "join", world.url, "--token", person["token"])
    agent = vade(capsys, two, "hub", "token", "add", "--label", "robot")
    asked: list[str] = []

    def confirm(question: str, **_: Any) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr("click.confirm", confirm)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert run(["hub", "revoke", person["id"], "--home", str(one)]) == 0
    assert asked == ["This also ends 1 token made with it (robot, anna). Revoke them all?"]
    assert [each["label"] for each in vade(capsys, one, "hub", "token", "list")["tokens"]][1:] == [
        "spare",
        "robot",
    ]
    assert run(["hub", "revoke", person["id"], "--yes", "--home", str(one)]) == 0
    said = capsys.readouterr().out
    assert said == f"revoked {person['id']} and 1 token made with it\n  {agent['id']}  anna         robot\n"
    assert "join again" in vade(capsys, two, "hub", "status")["workspaces"][0]["problem"]
    made = vade(capsys, one, "hub", "token", "add")
    done = vade(capsys, one, "hub", "revoke", made["id"], "--only")
    assert (done["revoked"], done["also"], done["codes"]) == (made["id"], [], 0)
    assert "--only" in refused(capsys, one, "hub", "revoke", "bert", "--only")["message"]
