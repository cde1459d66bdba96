"""Who may do what: tokens, roles, agents, codes to join with, and that no workspace sees another."""

from __future__ import annotations

import json
import logging
import random
import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from cases import every_case
from hub.hubs import KEYS, Writer, listening
from hub.pages import STREAM, Machine, browse, entry
from hub.test_events import bearer
from hub.test_events import stream as open_events
from made_up_secrets import SEED
from made_up_secrets import secrets as made_up_secrets
from vademecum.errors import ConfigError, UsageError
from vademecum_hub import listen
from vademecum_hub.authorization import derive_keys, read_keys
from vademecum_hub.listen import BehindProxy, Listening, check_listening

if TYPE_CHECKING:
    from pathlib import Path

    from hub.databases import Server
    from hub.hubs import World


# ------------------------------------------------------------------------------- tokens


@pytest.mark.full
def test_a_request_without_a_valid_token_gets_one_answer_whatever_is_wrong(world: World) -> None:
    bert, carl, dora = (world.member(name, "writer") for name in ("bert", "carl", "dora"))
    number = world.sql(
        "SELECT token FROM hub.token t JOIN hub.member m USING (ws, member) WHERE name = 'bert'"
    )
    world.sql("UPDATE hub.token SET revoked_at = now() WHERE token = %s", number[0][0])
    world.sql("UPDATE hub.member SET removed_at = now() WHERE name = 'carl'")
    hashed = KEYS.hash_token(dora)
    world.sql("UPDATE hub.token SET expires = now() WHERE hash = %s", hashed)
    answers = [world.ask("GET", "/v1/streams", each) for each in (bert, carl, dora, "vade_unknown", "x", "")]
    assert {each.status for each in answers} == {401}
    assert len({each.body for each in answers}) == 1


def test_a_token_is_revoked_from_the_next_request_on(world: World) -> None:
    bert = world.member("bert", "writer")
    assert world.ask("GET", "/v1/streams", bert).status == 200
    listed = world.ask("GET", "/v1/tokens").json["tokens"]
    number = next(each["id"] for each in listed if each["member"] == "bert")
    assert world.ask("DELETE", f"/v1/tokens/{number}").status == 200
    assert world.ask("GET", "/v1/streams", bert).status == 401
    assert world.ask("DELETE", f"/v1/tokens/{number}").status == 404


def test_a_removed_member_is_out_at_once_and_what_they_wrote_stays(world: World) -> None:
    bert = world.member("bert", "writer")
    writer = Writer("aaaaaaaa")
    writer.fact()
    assert world.push(writer, token=bert).status == 200
    assert world.ask("POST", "/v1/members/bert", body={"role": None}).status == 200
    assert world.ask("GET", "/v1/streams", bert).status == 401
    assert [each["stamp"]["author"] for each in world.pull().lines] == ["bert"]
    assert [each["name"] for each in world.ask("GET", "/v1/members").json["members"]] == ["anna"]


def test_the_database_holds_no_token_and_no_code(world: World) -> None:
    made = world.ask("POST", "/v1/tokens", body={"scopes": ["read"]}).json["token"]
    code = world.ask("POST", "/v1/invites", body={"name": "bert"}).json["code"]
    for table in ("token", "invite", "admin_log"):
        dumped = str(world.sql(f"SELECT string_agg(t::text, ' ') FROM hub.{table} t"))
        assert made not in dumped
        assert world.anna not in dumped
        assert code.replace("-", "")[6:] not in dumped.upper()
    assert world.sql("SELECT DISTINCT length(hash) FROM hub.token") == [(32,)]


def test_a_token_gives_no_more_than_the_one_it_was_made_with_and_lasts_ninety_days(world: World) -> None:
    made = world.ask("POST", "/v1/tokens", body={"scopes": ["read", "write"]}).json
    assert world.sql("SELECT DISTINCT date_part('day', expires - created_at) FROM hub.token") == [(90.0,)]
    assert world.ask("POST", "/v1/tokens", made["token"], {"scopes": ["read"]}).code == "propose"
    reading = world.token_of("anna", "read", "person")
    assert world.ask("POST", "/v1/tokens", reading, {"scopes": ["read", "write"]}).status == 403
    for wrong in ([], ["admin"], "read", None, [1]):
        assert world.ask("POST", "/v1/tokens", body={"scopes": wrong}).status == 422


def test_with_another_key_of_the_hub_no_token_is_valid(world: World, postgres: Server) -> None:
    from hub.hubs import ask

    with listening(postgres.as_role(world.database, "hub_app"), derive_keys(b"x" * 32)) as (url, _):
        assert ask(url, "GET", "/v1/streams", world.anna).status == 401


# ------------------------------------------------------------------------------- roles


def test_a_reader_reads_and_a_token_without_write_does_not_write(world: World) -> None:
    writer = Writer("aaaaaaaa")
    writer.fact()
    assert world.push(writer).status == 200
    rita = world.member("rita", "reader")
    assert len(world.pull(token=rita).lines) == 1
    other = Writer("bbbbbbbb")
    other.fact(lamport=2, target="e2")
    assert world.push(other, token=rita).status == 403
    assert world.push(other, token=world.token_of("anna", "read")).status == 403
    assert world.pull(token=world.token_of("anna", "write")).status == 403


RIGHTS = [
    ("protected", {"target": "", "value": True}, "editor"),
    ("vouch", {"target": f"{'0' * 64} NAME", "value": True}, "editor"),
    ("purge", {"doc": "", "target": "", "value": {"dots": []}}, "owner"),
]


@pytest.mark.full(but=2)
@pytest.mark.parametrize(("kind", "given", "needed"), RIGHTS)
@pytest.mark.parametrize("role", ["writer", "editor", "owner"])
def test_a_fact_needs_the_role_of_its_kind(
    kind: str, given: dict[str, Any], needed: str, role: str, world: World
) -> None:
    token = world.member("bert", role)
    writer = Writer("aaaaaaaa")
    target = given["target"].replace("NAME", "bert")
    writer.fact(kind, **(given | {"target": target}))
    allowed = ["writer", "editor", "owner"].index(role) >= ["writer", "editor", "owner"].index(needed)
    assert world.push(writer, token=token).status == (200 if allowed else 403)


def test_nobody_vouches_in_the_name_of_another(world: World) -> None:
    writer = Writer("aaaaaaaa")
    writer.fact("vouch", target=f"{'0' * 64} bert", value=True)
    assert world.push(writer).status == 403


def test_a_protected_document_is_changed_by_editors_alone_until_it_is_no_longer(world: World) -> None:
    bert = world.member("bert", "writer")
    writer, his = Writer("aaaaaaaa"), Writer("bbbbbbbb")
    text, guard = writer.fact(), writer.fact("protected", target="", value=True)
    assert world.push(writer).status == 200
    edit = his.fact(based_on=(text.id,), lamport=3)
    assert world.push(his, edit, token=bert).status == 403
    writer.fact("protected", target="", value=False, based_on=(guard.id,))
    assert world.push(writer).status == 200
    assert world.push(his, edit, token=bert).status == 200


AGENT = ("read", "write")


def test_an_agent_adds_and_changes_its_own_and_may_only_propose_the_rest(world: World) -> None:
    agent = world.token_of("anna", *AGENT)
    person, machine = Writer("aaaaaaaa"), Writer("bbbbbbbb")
    text = person.fact()
    assert world.push(person).status == 200
    own = machine.fact(target="e2", origin="agent", lamport=2)
    assert world.push(machine, own, token=agent).status == 200
    edit = machine.fact(target="e2", origin="agent", based_on=(own.id,))
    assert world.push(machine, edit, token=agent).status == 200
    assert [each["stamp"]["role"] for each in world.pull().lines] == ["owner", "agent", "agent"]
    for kind, given in (
        ("put", {"based_on": (text.id,), "origin": "agent"}),
        ("drop", {"based_on": (text.id,), "removes": (text.id,), "origin": "agent", "value": None}),
        ("put", {"target": "e3", "origin": "user"}),
        ("vouch", {"target": f"{'0' * 64} anna", "value": True, "origin": "agent"}),
        ("protected", {"target": "", "value": True, "origin": "agent"}),
        ("purge", {"doc": "", "target": "", "value": {"dots": []}, "origin": "agent"}),
    ):
        fresh = Writer("bbbbbbbb", made=list(machine.made))
        answer = world.push(fresh, fresh.fact(kind, **given), token=agent)
        assert (answer.status, answer.code) == (403, "propose"), kind
    assert len(world.pull().lines) == 3


def test_an_agent_cannot_pass_its_facts_off_as_relayed_ones(world: World) -> None:
    person = Writer("aaaaaaaa")
    text = person.fact()
    assert world.push(person).status == 200
    agent, machine = world.token_of("anna", *AGENT), Writer("bbbbbbbb")
    stamp = world.pull().lines[0]["stamp"]
    drop = machine.fact("drop", based_on=(text.id,), removes=(text.id,), value=None, lamport=2, origin="user")
    for given in (stamp, {"author": "anna"}, {}):
        assert world.push(machine, drop, token=agent, stamps=[given]).code == "propose"


def test_an_agent_invites_nobody_and_manages_nothing(world: World) -> None:
    agent = world.token_of("anna", *AGENT)
    for method, path, body in (
        ("POST", "/v1/invites", {}),
        ("POST", "/v1/invites", {"name": "eve"}),
        ("POST", "/v1/members/anna", {"role": "reader"}),
        ("GET", "/v1/tokens", None),
        ("POST", "/v1/tokens", {"scopes": ["read"]}),
        ("GET", "/v1/audit", None),
        ("POST", "/v1/streams/global/purge", {"text": "x"}),
    ):
        assert world.ask(method, path, agent, body).status == 403, path


def test_the_last_owner_stays(world: World) -> None:
    for role in (None, "reader"):
        assert world.ask("POST", "/v1/members/anna", body={"role": role}).status == 403
    world.member("bert", "owner")
    assert world.ask("POST", "/v1/members/anna", body={"role": "reader"}).status == 200
    assert world.ask("POST", "/v1/members/bert", body={"role": "reader"}).status == 403


# ------------------------------------------------------------------------------- joining


def test_another_machine_joins_with_a_code_that_works_once(world: World) -> None:
    code = world.ask("POST", "/v1/invites", body={}).json
    assert code["minutes"] == 10
    typed = code["code"].lower().replace("-", " ").replace("0", "o").replace("1", "l")
    joined = world.ask("POST", "/v1/join", "", {"code": typed, "replica": "bbbbbbbb", "label": "laptop"})
    assert joined.status == 200, joined.body
    assert (joined.json["member"], joined.json["role"], joined.json["workspace"]) == (
        "anna",
        "owner",
        world.public,
    )
    assert world.ask("GET", "/v1/me", joined.json["token"]).json["member"] == "anna"
    again = world.ask("POST", "/v1/join", "", {"code": typed, "replica": "cccccccc"})
    assert (again.status, again.code) == (404, "code")


def test_a_new_member_joins_with_the_role_they_were_invited_as(world: World) -> None:
    code = world.ask("POST", "/v1/invites", body={"name": "bert", "role": "editor"}).json["code"]
    joined = world.ask("POST", "/v1/join", "", {"code": code, "replica": "bbbbbbbb"}).json
    assert (joined["member"], joined["role"]) == ("bert", "editor")
    assert world.ask("POST", "/v1/invites", body={"name": "bert"}).status == 409
    assert world.ask("POST", "/v1/invites", body={"name": "../x"}).status == 422
    assert world.ask("POST", "/v1/invites", joined["token"], {"name": "eve"}).status == 403


def test_a_code_ends_after_five_tries_or_when_its_time_is_up_and_the_answer_is_the_same(world: World) -> None:
    bodies = set()
    code = world.ask("POST", "/v1/invites", body={}).json["code"]
    for _ in range(5):
        wrong = world.ask("POST", "/v1/join", "", {"code": code[:7] + "00000000", "replica": "bbbbbbbb"})
        bodies.add(wrong.body)
    right = world.ask("POST", "/v1/join", "", {"code": code, "replica": "bbbbbbbb"})
    late = world.ask("POST", "/v1/invites", body={}).json["code"]
    world.sql("UPDATE hub.invite SET expires = now()")
    for each in (late, "ZZZZZZ-00000000", "", "🦉"):
        bodies.add(world.ask("POST", "/v1/join", "", {"code": each, "replica": "bbbbbbbb"}).body)
    assert bodies == {right.body}
    assert right.status == 404


def test_a_personal_workspace_has_one_member(world: World) -> None:
    ws, _ = world.workspace("personal")
    own = world.member("anna", "owner", ws=ws)
    assert world.ask("POST", "/v1/invites", own, {"name": "bert"}).status == 403
    assert world.ask("POST", "/v1/invites", own, {}).status == 200


def test_who_let_whom_in_is_logged_and_a_changed_line_is_noticed(world: World) -> None:
    code = world.ask("POST", "/v1/invites", body={"name": "bert"}).json["code"]
    world.ask("POST", "/v1/join", "", {"code": code, "replica": "bbbbbbbb"})
    world.ask("POST", "/v1/members/bert", body={"role": None})
    log = world.ask("GET", "/v1/audit").json
    assert [(each["by"], each["did"]) for each in log["lines"]] == [
        ("anna", "invited"),
        ("bert", "joined"),
        ("anna", "removed"),
    ]
    assert log["whole"]
    world.sql("""UPDATE hub.admin_log SET line = line || '{"by": "eve"}' WHERE seq = 2""")
    assert not world.ask("GET", "/v1/audit").json["whole"]


# ------------------------------------------------------------------------------- other workspaces


def test_what_is_absent_and_what_is_foreign_answer_alike(world: World) -> None:
    ws, _ = world.workspace("team")
    eve = world.member("eve", "owner", ws=ws)
    writer = Writer("aaaaaaaa")
    writer.fact()
    assert world.push(writer).status == 200
    number = world.ask("GET", "/v1/tokens").json["tokens"][0]["id"]
    assert world.ask("GET", "/v1/streams", eve).json["streams"] == []
    for method, foreign, absent, body in (
        ("GET", "/v1/streams/global/facts", "/v1/streams/nowhere/facts", None),
        ("POST", "/v1/members/anna", "/v1/members/nobody", {"role": "reader"}),
        ("DELETE", f"/v1/tokens/{number}", f"/v1/tokens/{number[::-1]}", None),
        (
            "POST",
            "/v1/streams/global/purge/ack",
            "/v1/streams/nowhere/purge/ack",
            {"seq": 1, "replica": "aaaaaaaa"},
        ),
    ):
        one, two = (world.ask(method, path, eve, body) for path in (foreign, absent))
        assert (one.status, one.body) == (two.status, two.body), foreign
        assert one.status == 404
    assert world.ask("POST", "/v1/streams/global/purge", eve, {"text": "A text."}).json == {"dots": []}
    # The same dot in her own stream is hers: what another workspace holds is neither told nor in the way.
    mine = Writer("aaaaaaaa")
    mine.fact(value={"raw": "Something else."})
    assert world.push(mine, token=eve).status == 200
    assert world.ask("GET", "/v1/streams", world.anna).json["streams"][0]["head"] == 1


def whole_day(world: World) -> None:
    """Every route of the server, used as it is meant."""
    writer = Writer("aaaaaaaa")
    first = writer.fact()
    writer.fact(based_on=(first.id,))
    writer.fact("num", target="", value=1)
    writer.fact("protected", target="", value=True)
    writer.fact("purge", doc="", target="", value={"dots": [str(first.id)]})
    assert world.push(writer).status == 200
    assert world.push(writer).status == 200
    lines = world.pull().lines
    for method, path, body in (
        ("GET", "/v1/streams", None),
        ("GET", f"/v1/streams/global/facts?epoch=1&after=1&chain={lines[0]['stamp']['chain']}", None),
        ("GET", "/v1/me", None),
        ("GET", "/v1/members", None),
        ("GET", "/v1/tokens", None),
        ("POST", "/v1/tokens", {"scopes": ["read"]}),
        ("GET", "/v1/audit", None),
        ("POST", "/v1/streams/global/purge", {"text": "A text."}),
        ("GET", "/v1/streams/global/purge", None),
        ("POST", "/v1/streams/global/purge/ack", {"seq": 5, "replica": "aaaaaaaa"}),
        ("POST", "/v1/streams/global/epoch", lines[-1]),
        ("POST", "/v1/streams/global/lease", {"replica": "aaaaaaaa"}),
        ("POST", "/v1/invites", {}),
    ):
        assert world.ask(method, path, body=body).status == 200, path
    code = world.ask("POST", "/v1/invites", body={"name": "bert"}).json["code"]
    assert world.ask("POST", "/v1/join", "", {"code": code, "replica": "bbbbbbbb"}).status == 200
    assert world.ask("POST", "/v1/members/bert", body={"role": "reader"}).status == 200
    number = next(
        each["id"] for each in world.ask("GET", "/v1/tokens").json["tokens"] if each["member"] == "bert"
    )
    assert world.ask("DELETE", f"/v1/tokens/{number}").status == 200
    whole_page(world)


def whole_page(world: World) -> None:
    """Every page and every change that the hub's page makes."""
    one, two = (Machine(world, f"{each * 8}", world.anna) for each in "cd")
    assert one.write("records/a.md", entry("A text.", "aaaa1111")).status == 200
    text = two.pull()["records/a.md"]
    for machine, word in ((one, "one"), (two, "two")):
        assert machine.write("records/a.md", text.replace("A text", word)).status == 200
    page = browse(world)
    assert page.post("/rules", {"two_person": True}).status == 200
    (told,) = page.json("/review")["conflicts"]
    keep = {name: told[name] for name in ("stream", "doc", "entry", "was")}
    assert page.post("/conflicts", {**keep, "keep": told["entry"]}).status == 200
    assert page.json("/review")["conflicts"] == []
    shown = page.document("records/a.md")
    assert page.change("/entries", shown, 0, text="Another.").status == 200
    assert page.change("/vouches", page.document("records/a.md"), 0).status == 403
    for path in ("/activity", "/members"):
        assert page.get(path).status == 200
    assert page.get("/activity", stream=STREAM).status == 200
    with open_events(world, **bearer(world.anna)):
        pass
    assert page.post("/leave", {}).status == 200


def test_every_query_of_the_server_run_as_another_workspace_gets_nothing(
    world: World, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    execute, executemany = psycopg.Cursor.execute, psycopg.Cursor.executemany

    def record(self: Any, query: Any, params: Any = None, **more: Any) -> Any:
        if self.connection.info.user == "hub_app":
            asked.setdefault(str(query), params)
        return execute(self, query, params, **more)

    def record_many(self: Any, query: Any, params: Any, **more: Any) -> Any:
        given = list(params)
        asked.setdefault(str(query), given[0])
        return executemany(self, query, given, **more)

    monkeypatch.setattr(psycopg.Cursor, "execute", record)
    monkeypatch.setattr(psycopg.Cursor, "executemany", record_many)
    whole_day(world)
    monkeypatch.undo()
    touching = {
        query: given for query, given in asked.items() if re.search(r"(FROM|INTO|UPDATE|JOIN) hub\.", query)
    }
    assert len(touching) > 70
    other, _ = world.workspace("team")
    with psycopg.connect(postgres.as_role(world.database, "hub_app"), autocommit=True) as connection:
        for query, given in touching.items():
            if re.search(r"hub\.(authenticate|find_invite)\(", query):
                continue  # the two that look across: by a token's hash, or a code
            assert nothing(connection, other, query, given), query


def nothing(connection: psycopg.Connection[Any], ws: int, query: str, given: Any) -> bool:
    """Whether a query that names workspace 1 sees and changes nothing as another one."""
    connection.execute("BEGIN")
    try:
        connection.execute("SELECT set_config('hub.ws', %s, true)", (str(ws),))
        done = connection.execute(query, given)
        rows = done.fetchall() if done.description else []
        counted = [row for row in rows if any(value not in (0, None) for value in row)]  # sums of nothing
        return not counted and (bool(done.description) or done.rowcount == 0)
    except psycopg.errors.InsufficientPrivilege as error:
        return "row-level security" in str(error)
    finally:
        connection.execute("ROLLBACK")


# ------------------------------------------------------------------------------- secrets and logs


def test_a_secret_is_refused_by_its_kind_and_never_by_its_value(world: World) -> None:
    sample = made_up_secrets(random.Random(SEED))[0]
    writer = Writer("aaaaaaaa")
    writer.fact(value={"raw": f"The token is {sample.text}"})
    answer = world.push(writer)
    assert (answer.status, answer.code, answer.json["error"]["n"]) == (422, "secret", 1)
    assert answer.json["error"]["kinds"]
    assert not any(piece.encode() in answer.body for piece in sample.pieces)
    assert world.sql("SELECT count(*) FROM hub.fact") == [(0,)]


def test_the_log_names_routes_and_numbers_and_nobody_s_words(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        writer = Writer("aaaaaaaa", "project/quicksilver")
        writer.fact(value={"raw": "A text with mercury."})
        assert world.push(writer).status == 200
        world.ask("GET", "/v1/streams/project/quicksilver/facts?after=mercury")
        world.ask("POST", "/v1/members/quicksilver", body={"role": "reader"})
        world.ask("GET", "/quicksilver")
    hub = [each.getMessage() for each in caplog.records if each.name == "vademecum.hub"]
    assert re.match(r"POST /v1/streams/\{stream:path\}/facts 200 \d+ms", hub[0])
    assert len(hub) == 4
    everything = "\n".join(each.getMessage() for each in caplog.records)
    assert "quicksilver" not in everything
    assert "mercury" not in everything
    assert world.anna not in everything


# ------------------------------------------------------------------------------- serving


@every_case("host", ["0.0.0.0", "192.0.2.7", "::", "hub.example"])
def test_nothing_is_served_through_a_network_in_the_clear(host: str) -> None:
    with pytest.raises(UsageError, match="nothing would be encrypted"):
        check_listening(Listening(host))
    check_listening(Listening(host, certificate="a.pem"))
    check_listening(Listening(host, proxies=("10.0.0.7",)))
    with pytest.raises(UsageError, match="not the address of a proxy"):
        check_listening(Listening(host, proxies=("proxy",)))


@every_case("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_on_loopback_plain_http_is_served(host: str) -> None:
    check_listening(Listening(host))


@every_case(
    ("peer", "proto", "status"),
    [
        ("10.0.0.7", "https", 200),
        ("10.0.0.8", "https", 403),
        ("10.0.0.7", "http", 403),
        ("10.0.0.7", "", 403),
    ],
)
def test_behind_a_proxy_only_what_came_through_it_over_tls_is_answered(
    peer: str, proto: str, status: int
) -> None:
    import asyncio

    seen: list[Any] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["client"][0])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            seen.append(message["status"])

    headers = [(b"x-forwarded-for", b"6.6.6.6, 203.0.113.9"), (b"x-forwarded-proto", proto.encode())]
    scope = {"type": "http", "client": (peer, 1), "headers": headers, "method": "GET", "path": "/"}

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    asyncio.run(BehindProxy(inner, ("10.0.0.7/32",))(scope, receive, send))
    assert seen[-1] == status
    assert status != 200 or seen[0] == "203.0.113.9"


def test_the_hub_does_not_serve_with_a_login_that_sees_every_workspace(
    database: str, postgres: Server
) -> None:
    for url in (database, postgres.as_role(database, "hub_migrate")):
        with pytest.raises(ConfigError, match="could see every workspace"):
            listen.open_pool(url)


def test_a_key_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "hub.key"
    with pytest.raises(ConfigError, match="cannot be read"):
        read_keys(path, make=False)
    made = read_keys(path, make=True)
    assert read_keys(path, make=True) == made
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="can be read by others"):
        read_keys(path, make=True)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(ConfigError, match="holds no key"):
        read_keys(path, make=False)


def test_json_of_an_error_has_a_code_and_a_sentence(world: World) -> None:
    told = json.loads(world.ask("GET", "/v1/streams", "").body)
    assert set(told["error"]) == {"code", "message"}
