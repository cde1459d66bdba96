"""The page over the hub: who gets in, what each role may do, and that an edit is a fact like any other."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from hub.hubs import KEYS, Writer, ask
from hub.pages import STREAM, Browser, Machine, browse, entry, link_of
from made_up_secrets import SEED
from made_up_secrets import secrets as made_up_secrets
from vademecum.store.decisions import exactly
from vademecum_hub.authorization import enter
from vademecum_hub.page import activity_views, browser_sessions
from vademecum_hub.page.routes import ACTIONS, VIEWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hub.databases import Server
    from hub.hubs import Answer, World

PATH, IDEA = "records/deploy.md", "An agent's idea."
MONDAYS = entry("Deploy on Mondays.", "aaaa1111")
BERT = entry("Ask Bert first.", "bbbb2222", time="2026-11-02T10:00:00Z")


@pytest.fixture
def anna(world: World) -> Machine:
    """The owner's machine, which has sent one record."""
    made = Machine(world, "aaaaaaaa", world.anna)
    assert made.write(PATH, f"{MONDAYS}\n{BERT}").status == 200
    return made


def disagree(world: World, anna: Machine) -> None:
    """Two machines edit one entry without having seen each other."""
    other = Machine(world, "cccccccc", world.anna)
    text = other.pull()[PATH]
    anna.pull()
    assert anna.write(PATH, text.replace("Mondays", "Tuesdays")).status == 200
    assert other.write(PATH, text.replace("Mondays", "Fridays")).status == 200


# ------------------------------------------------------------------------------- who gets in


def test_a_link_lets_one_browser_in_once_and_what_is_wrong_with_it_is_not_told(world: World) -> None:
    link = link_of(world)
    assert ask(world.url, "GET", link, Vade_Protocol="").status == 200
    again = ask(world.url, "GET", link, Vade_Protocol="")
    late = link_of(world)
    world.sql("UPDATE hub.page_session SET made_at = now() - interval '11 minutes' WHERE opened_at IS NULL")
    forged = link[:-1] + ("0" if link[-1] != "0" else "1")
    bodies = {
        ask(world.url, "GET", each, Vade_Protocol="").body
        for each in (link, late, forged, "/enter?key=x", "/enter?key=1.2.%00", "/enter")
    }
    assert bodies == {again.body}
    assert again.status == 403


def test_a_browser_that_only_looks_ahead_does_not_use_up_the_link(world: World) -> None:
    link = link_of(world)
    assert ask(world.url, "GET", link, Vade_Protocol="", Sec_Purpose="prefetch").status == 403
    assert ask(world.url, "GET", link, Vade_Protocol="").status == 200


def test_the_cookie_is_for_this_browser_this_path_and_no_script(world: World) -> None:
    answer = ask(world.url, "GET", link_of(world), Vade_Protocol="")
    line = answer.headers["set-cookie"]
    assert re.search(r"Path=/~[0-9a-f]{32}; Max-Age=43200; HttpOnly; SameSite=Strict$", line)
    session = browser_sessions.HubSession(1, "a" * 32)
    assert browser_sessions.make_cookie_header(session, KEYS, secure=True).endswith("; Secure")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


def test_an_agent_gets_no_link(world: World) -> None:
    answer = world.ask("POST", "/v1/page", world.token_of("anna", "read", "write"), {})
    assert (answer.status, answer.code) == (403, "propose")


def test_the_database_holds_nothing_that_opens_the_page(world: World) -> None:
    page = browse(world)
    dumped = str(world.sql("SELECT string_agg(s::text, ' ') FROM hub.page_session s"))
    for part in (page.secret, page.cookie.rpartition(".")[2]):
        assert part not in dumped


def revoke(world: World, _: Browser) -> None:
    number = world.ask("GET", "/v1/tokens").json["tokens"][0]["id"]
    assert world.ask("DELETE", f"/v1/tokens/{number}").status == 200


ENDS: dict[str, Callable[[World, Browser], Any]] = {
    "its token is revoked": revoke,
    "its member is removed": lambda world, _: world.sql("UPDATE hub.member SET removed_at = now()"),
    "its token expires": lambda world, _: world.sql("UPDATE hub.token SET expires = now()"),
    "twelve hours are over": lambda world, _: world.sql(
        "UPDATE hub.page_session SET opened_at = now() - interval '12 hours'"
    ),
    "its person leaves": lambda _, page: page.post("/leave", {}),
}


@pytest.mark.full(but=2)
@pytest.mark.parametrize("why", sorted(ENDS))
def test_a_session_ends_at_once_when(why: str, world: World) -> None:
    page = browse(world)
    assert page.get("/members").status == 200
    ENDS[why](world, page)
    assert page.get("/members").status == 401
    assert page.post("/leave", {}).status == 401


def test_a_cookie_opens_its_own_door_alone_and_no_cookie_opens_none(world: World) -> None:
    one, two = browse(world), browse(world)
    crossed = Browser(world, one.door, two.cookie)
    bare = Browser(world, one.door, "")
    forged = Browser(world, one.door, one.cookie[:-2] + "xx")
    nowhere = Browser(world, "/~" + "0" * 32, one.cookie)
    answers = [each.get("/activity", accept="*/*") for each in (crossed, bare, forged, nowhere)]
    assert {each.status for each in answers} == {401}
    assert len({each.body for each in answers}) == 1


# ------------------------------------------------------------------------------- other sites


def test_a_change_needs_the_pages_secret_and_comes_from_the_page(world: World, anna: Machine) -> None:
    page = browse(world)
    shown = page.document(PATH)
    body = {"stream": STREAM, "doc": shown["doc"], "entry": "", "text": "Planted."}
    port = world.url.rpartition(":")[2]
    for headers in (
        {"Vade_Page": ""},
        {"Vade_Page": "0" * 64},
        {"Vade_Page": browse(world).secret},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{int(port) + 1}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Host": f"evil.example:{port}"},
        {"Content_Type": "text/plain"},
    ):
        answer = page.post("/entries", body, **headers)
        assert answer.status in (401, 403, 415, 421), headers
    assert world.sql("SELECT count(*) FROM hub.fact WHERE door = 'page'") == [(0,)]
    right = {"Origin": world.url, "Sec_Fetch_Site": "same-origin"}
    assert page.post("/entries", body, **right).status == 200
    assert page.get("/activity").status == 200
    assert (
        ask(world.url, "GET", f"{page.door}/activity", Cookie=page.cookie, Sec_Fetch_Site="cross-site").status
        == 401
    )
    assert (
        ask(world.url, "GET", f"{page.door}/activity", Cookie=page.cookie, Host="evil.example").status == 421
    )


# ------------------------------------------------------------------------------- rights

ROLES = ["reader", "writer", "editor", "owner"]
NEEDS = {
    "edit": "writer",
    "add": "writer",
    "remove": "writer",
    "verify": "editor",
    "settle": "editor",
    "rule": "owner",
}


def attempt(page: Browser, what: str) -> Answer:
    shown = page.document(PATH)
    if what == "rule":
        return page.post("/rules", {"two_person": True})
    if what == "settle":
        each = page.json("/review")["conflicts"][0]
        keep = {name: each[name] for name in ("stream", "doc", "entry", "was")}
        return page.post("/conflicts", {**keep, "keep": each["versions"][0]["id"]})
    number = next(at for at, each in enumerate(shown["entries"]) if "Bert" in each["text"])
    given: dict[str, tuple[str, dict[str, Any]]] = {
        "edit": ("/entries", {"text": "Ask Carl first."}),
        "add": ("/entries", {"entry": "", "text": "More."}),
        "remove": ("/entries", {"text": ""}),
        "verify": ("/vouches", {"yes": True}),
    }
    return page.change(given[what][0], shown, number, **given[what][1])


@pytest.mark.full(but=1)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("what", sorted(NEEDS))
def test_who_may_do_what_on_the_page(what: str, role: str, world: World, anna: Machine) -> None:
    disagree(world, anna)
    page = browse(world, world.member("bert", role))
    before = world.sql("SELECT sum(head) FROM hub.stream")
    answer = attempt(page, what)
    allowed = ROLES.index(role) >= ROLES.index(NEEDS[what])
    assert answer.status == (200 if allowed else 403), answer.body
    if not allowed:
        assert world.sql("SELECT sum(head) FROM hub.stream") == before
    for view in VIEWS:
        assert page.get(view.path, stream=STREAM, doc=page.document(PATH)["doc"]).status == 200


def test_a_token_that_may_only_read_opens_a_page_that_only_reads(world: World, anna: Machine) -> None:
    page = browse(world, world.token_of("anna", "read", "person"))
    for what in NEEDS:
        if what != "settle":
            assert attempt(page, what).status == 403, what
    assert (
        "data-edit" not in page.get("/document", stream=STREAM, doc=page.document(PATH)["doc"]).body.decode()
    )


@pytest.mark.full
def test_owners_see_all_tokens_and_the_log_and_others_their_own(world: World) -> None:
    bert = world.member("bert", "editor", replica="bbbbbbbb")
    mine, his = browse(world).json("/members"), browse(world, bert).json("/members")
    assert {each["member"] for each in mine["tokens"]} == {"anna", "bert"}
    assert {each["member"] for each in his["tokens"]} == {"bert"}
    assert mine["log"]["whole"]
    assert his["log"] is None
    assert [each["seen"] != "" for each in his["tokens"]] == [True]
    number = mine["tokens"][0]["id"]
    assert browse(world, bert).post("/revoke", {"id": number}).status == 404
    assert browse(world).post("/revoke", {"id": his["tokens"][0]["id"]}).status == 200
    assert world.ask("GET", "/v1/me", bert).status == 401


def test_a_protected_document_is_edited_by_editors_alone(world: World, anna: Machine) -> None:
    anna.pull()
    assert anna.write(PATH, f"---\nprotected: true\n---\n{anna.pull()[PATH]}").status == 200
    assert attempt(browse(world, world.member("bert", "writer")), "edit").status == 403
    assert attempt(browse(world, world.member("carl", "editor")), "edit").status == 200


# ------------------------------------------------------------------------------- edits are facts


def test_an_edit_on_the_page_is_in_the_files_of_a_machine_that_pulls(world: World, anna: Machine) -> None:
    page = browse(world)
    shown = page.document(PATH)
    assert [each["text"] for each in shown["entries"]] == ["Deploy on Mondays.", "Ask Bert first."]
    assert page.change("/entries", shown, 0, text="Deploy on Tuesdays.").status == 200
    assert page.change("/entries", shown, 0, entry="", text="A third.").status == 200
    assert page.change("/entries", page.document(PATH), 1, text="").status == 200
    text = anna.pull()[PATH]
    assert "Tuesdays" in text
    assert "Mondays" not in text
    assert "Bert" not in text
    assert text.count("<!-- origin: user | id: aaaa1111 -->") == 1
    assert "A third." in text
    assert anna.write(PATH, text.replace("Tuesdays", "Wednesdays")).status == 200
    assert "Wednesdays" in page.document(PATH)["entries"][0]["text"]
    made = world.sql(
        "SELECT DISTINCT author, role, door, token IS NOT NULL FROM hub.fact WHERE replica LIKE 'web%%'"
    )
    assert made == [("anna", "owner", "page", True)]


@pytest.mark.full
def test_two_edits_and_two_members_go_on_from_each_other(world: World, anna: Machine) -> None:
    pages = [browse(world), browse(world, world.member("bert", "writer"))]
    for turn in range(6):
        page = pages[turn % 2]
        assert page.change("/entries", page.document(PATH), 0, text=f"Turn {turn}.").status == 200
    last = pages[0].document(PATH)["entries"][0]
    assert (last["text"], last["author"], last["door"]) == ("Turn 5.", "bert", "page")
    lines = world.pull(STREAM, epoch=1).lines
    assert [each["stamp"]["seq"] for each in lines] == list(range(1, len(lines) + 1))


def test_what_was_changed_meanwhile_is_not_overwritten(world: World, anna: Machine) -> None:
    page = browse(world)
    shown = page.document(PATH)
    anna.pull()
    assert anna.write(PATH, anna.pull()[PATH].replace("Mondays", "Tuesdays")).status == 200
    answer = page.change("/entries", shown, 0, text="Deploy never.")
    assert (answer.status, answer.json["kind"]) == (409, "changed")
    assert page.change("/entries", shown, 1, text="Ask Carl first.").status == 200
    assert page.document(PATH)["entries"][0]["text"] == "Deploy on Tuesdays."


def test_what_would_open_or_sign_an_entry_stays_a_text(world: World, anna: Machine) -> None:
    page = browse(world)
    text = "Before.\n## 2020-01-01T00:00:00Z\nInside.\n<!-- origin: agent | id: zzzz -->"
    assert page.change("/entries", page.document(PATH), 0, text=text).status == 200
    shown = page.document(PATH)["entries"]
    assert [each["text"] for each in shown] == [text, "Ask Bert first."]
    assert shown[0]["origin"] == "user"


def test_a_secret_is_refused_by_its_kind_and_nothing_is_kept(world: World, anna: Machine) -> None:
    page = browse(world)
    sample = made_up_secrets(random.Random(SEED))[0]
    before = world.sql("SELECT sum(head) FROM hub.stream")
    answer = page.change("/entries", page.document(PATH), 0, text=f"The token is {sample.text}")
    assert (answer.status, answer.json["kind"]) == (422, "secret")
    assert answer.json["kinds"]
    assert not any(piece.encode() in answer.body for piece in sample.pieces)
    assert world.sql("SELECT sum(head) FROM hub.stream") == before


def test_a_place_that_is_full_takes_no_edit(world: World, anna: Machine) -> None:
    world.sql("UPDATE hub.workspace SET quota_facts = 1")
    assert browse(world).change("/entries", browse(world).document(PATH), 0, text="More.").status == 507


def test_in_a_personal_workspace_the_page_only_reads_and_says_so(world: World) -> None:
    ws, _ = world.workspace("personal")
    own = world.member("anna", "owner", ws=ws)
    assert Machine(world, "aaaaaaaa", own).write(PATH, MONDAYS).status == 200
    page = browse(world, own)
    answer = page.change("/entries", page.document(PATH), 0, text="Deploy never.")
    assert (answer.status, answer.json["detail"].split(":")[0]) == (403, "this is a personal workspace")
    told = page.get("/document", stream=STREAM, doc=page.document(PATH)["doc"]).body.decode()
    assert "sealed with a key that the hub does not have" in told
    assert "data-edit" not in told


@pytest.mark.full
def test_a_body_that_is_no_change_is_refused(world: World, anna: Machine) -> None:
    page = browse(world)
    shown = page.document(PATH)
    for path in ACTIONS:
        if path == "/leave":
            continue
        wrong: list[dict[str, Any]] = [{"stream": 1}, {"stream": STREAM, "doc": ["x"]}, {"id": {}}]
        for body in (*wrong, {"two_person": "yes"}):
            answer = page.post(path, {**body, "entry": 5})
            assert answer.status in (404, 422), (path, body, answer.body)
    for text in ("x" * 200_001, "nul \0 byte"):
        assert page.change("/entries", shown, 0, text=text).status == 422
    assert page.change("/entries", shown, 0, doc="nowhere", text="x").status == 404


# ------------------------------------------------------------------------------- conflicts and verification


@pytest.mark.full(but=1)
@pytest.mark.parametrize("keep", ["first", "second", "both", "edit"])
def test_a_conflict_is_settled_by_keeping_one_both_or_a_new_text(
    keep: str, world: World, anna: Machine
) -> None:
    disagree(world, anna)
    page = browse(world)
    (told,) = page.json("/review")["conflicts"]
    texts = [each["text"] for each in told["versions"]]
    assert sorted(texts) == ["Deploy on Fridays.", "Deploy on Tuesdays."]
    body = {name: str(told[name]) for name in ("stream", "doc", "entry", "was")}
    ids = [each["id"] for each in told["versions"]]
    given: dict[str, dict[str, str]] = {
        "first": {"keep": ids[0]},
        "second": {"keep": ids[1]},
        "both": {"keep": "all"},
        "edit": {"text": "Deploy daily."},
    }
    body |= given[keep]
    assert page.post("/conflicts", {**body, "was": "another"}).status == 409
    answer = page.post("/conflicts", body)
    assert answer.status == 200, answer.body
    left = [each["text"] for each in page.document(PATH)["entries"] if "Bert" not in each["text"]]
    wanted = {"first": texts[:1], "second": texts[1:], "both": texts, "edit": ["Deploy daily."]}[keep]
    assert sorted(left) == sorted(wanted)
    assert page.json("/review")["conflicts"] == []
    assert world.sql("SELECT count(*) FROM hub.conflict") == [(0,)]
    anna.pull()
    assert "contradicts" not in anna.pull()[PATH]
    assert page.post("/conflicts", body).status == 409


def test_a_text_is_verified_by_its_exact_words_and_the_word_can_be_withdrawn(
    world: World, anna: Machine
) -> None:
    page = browse(world)
    assert not page.document(PATH)["entries"][0]["given"]
    assert page.change("/vouches", page.document(PATH), 0).status == 200
    first = page.document(PATH)["entries"][0]
    assert (first["given"], first["verified"]) == (True, ["anna"])
    assert [each["text"] for each in page.json("/review")["pending"]] == ["Ask Bert first."]
    assert page.change("/vouches", page.document(PATH), 0, yes=False).status == 200
    assert not page.document(PATH)["entries"][0]["given"]
    assert page.change("/vouches", page.document(PATH), 0).status == 200
    assert page.change("/entries", page.document(PATH), 0, text="Deploy on Sundays.").status == 200
    assert not page.document(PATH)["entries"][0]["given"]


def test_with_the_two_person_rule_who_wrote_a_text_cannot_verify_it(world: World, anna: Machine) -> None:
    mine, his = browse(world), browse(world, world.member("bert", "editor"))
    assert mine.change("/vouches", mine.document(PATH), 1).status == 200
    assert his.post("/rules", {"two_person": True}).status == 403
    assert mine.post("/rules", {"two_person": True}).status == 200
    early = mine.document(PATH)["entries"][1]
    assert (early["verified"], early["counted"], early["people"], early["given"]) == (["anna"], [], 1, False)
    refused = mine.change("/vouches", mine.document(PATH), 0)
    assert (refused.status, refused.json["kind"]) == (403, "two-person")
    assert (
        "1 of 2 people" in mine.get("/document", stream=STREAM, doc=mine.document(PATH)["doc"]).body.decode()
    )
    assert his.change("/vouches", his.document(PATH), 0).status == 200
    first = mine.document(PATH)["entries"][0]
    assert (first["counted"], first["people"], first["given"]) == (["bert"], 2, True)
    assert mine.post("/rules", {"two_person": False}).status == 200
    assert mine.document(PATH)["entries"][1]["given"]
    assert [each["did"] for each in mine.json("/members")["log"]["lines"][:2]] == ["rule", "rule"]


def test_the_two_person_rule_holds_for_what_an_agent_wrote_and_for_what_machines_send(world: World) -> None:
    assert browse(world).post("/rules", {"two_person": True}).status == 200
    agent = Machine(world, "bbbbbbbb", world.token_of("anna", "read", "write"), agent=True)
    assert agent.write(PATH, entry(IDEA, "cccc3333", origin="agent"), door="mcp").status == 200
    page = browse(world)
    shown = page.document(PATH)
    assert page.change("/vouches", shown, 0).status == 403
    said = world.pull(STREAM, epoch=1).lines
    put = next(each["fact"] for each in said if each["fact"]["kind"] == "put")
    writer = Writer("dddddddd", STREAM)
    vouch = writer.fact(
        "vouch", doc=put["doc"], target=f"{exactly(IDEA)} anna", value=True, lamport=len(said) + 1
    )
    for stamps in (None, [said[0]["stamp"]], [{"author": "bert"}]):
        head: dict[str, Any] = {} if stamps is None else {"stamps": stamps}
        answer = world.push(writer, vouch, **head)
        assert (answer.status, answer.code) == (403, "two-person")
    bert = browse(world, world.member("bert", "editor"))
    assert bert.change("/vouches", bert.document(PATH), 0).status == 200


# ------------------------------------------------------------------------------- what was done


def test_activity_says_who_did_what_through_what(world: World, anna: Machine) -> None:
    agent = Machine(world, "bbbbbbbb", world.token_of("anna", "read", "write"), agent=True)
    assert agent.write("records/idea.md", entry(IDEA, "cccc3333", origin="agent"), door="mcp").status == 200
    page = browse(world)
    assert page.change("/entries", page.document(PATH), 0, text="Deploy on Tuesdays.").status == 200
    assert page.change("/vouches", page.document(PATH), 1).status == 200
    assert page.change("/entries", page.document(PATH), 1, text="").status == 200
    lines = page.json("/activity")["lines"]
    told = [(each["did"], each["path"], each["agent"], each["door"]) for each in lines]
    assert told == [
        ("removed", PATH, False, "page"),
        ("verified", PATH, False, "page"),
        ("edited", PATH, False, "page"),
        ("added", "records/idea.md", True, "mcp"),
        ("added", PATH, False, "cli"),
    ]
    assert lines[2]["text"] == "Deploy on Tuesdays."
    assert [each["path"] for each in page.json("/activity", who="agents")["lines"]] == ["records/idea.md"]
    assert {each["agent"] for each in page.json("/activity", who="people")["lines"]} == {False}
    assert page.json("/activity", who="nobody")["lines"] == []
    assert len(page.json("/activity", stream=STREAM)["lines"]) == 5
    assert page.json("/activity", stream="global")["lines"] == []


@pytest.mark.full(but=2)
@pytest.mark.parametrize(
    ("door", "agent", "told"),
    [("file", False, ""), ("cli", False, ""), ("file", True, ""), ("mcp", True, "through mcp")],
)
def test_the_page_says_through_what_only_where_that_tells_something(
    world: World, door: str, *, agent: bool, told: str
) -> None:
    machine = Machine(world, "aaaaaaaa", world.token_of("anna", "read", "write"), agent=agent)
    if not agent:
        machine = Machine(world, "aaaaaaaa", world.anna)
    said = entry(IDEA, "cccc3333", origin="agent" if agent else "user")
    assert machine.write("records/idea.md", said, door=door).status == 200
    page = browse(world)
    for shown in (page.get("/activity"), page.get("/document", **where(page))):
        html = shown.body.decode()
        assert ("through " in html.partition("<main")[2].replace("wrote through", "")) is bool(told)
        assert told in html
    assert page.change("/entries", page.document("records/idea.md"), 0, text="Better.").status == 200
    assert "on this page" in page.get("/activity").body.decode()


def where(page: Any) -> dict[str, str]:
    """The address of the one document."""
    (told,) = page.json("/documents", stream=STREAM)["documents"]
    return {"stream": STREAM, "doc": told["doc"]}


def test_activity_counts_the_machines_that_have_carried_out_a_purge(world: World, anna: Machine) -> None:
    for name, replica in (("bert", "bbbbbbbb"), ("carl", "cccccccc")):
        world.member(name, "writer", replica=replica)
    fact_ids = world.ask("POST", f"/v1/streams/{STREAM}/purge", body={"text": "Mondays"}).json["dots"]
    writer = Writer("eeeeeeee", STREAM)
    writer.fact(
        "purge",
        doc="",
        target="",
        value={"dots": fact_ids},
        lamport=len(world.pull(STREAM, epoch=1).lines) + 1,
    )
    assert world.push(writer).status == 200
    seq = len(world.pull(STREAM, epoch=1).lines)
    bert = world.token_of("bert")
    assert (
        world.ask("POST", f"/v1/streams/{STREAM}/purge/ack", bert, {"seq": seq, "replica": "bbbbbbbb"}).status
        == 200
    )
    page = browse(world)
    line = page.json("/activity")["lines"][0]
    assert (line["did"], line["acknowledged"], line["machines"]) == ("purged", 1, 2)
    assert "1 of 2 machines" in page.get("/members").body.decode()
    assert "Mondays" not in "".join(page.get(each).body.decode() for each in ("/activity", "/review"))


def test_older_activity_is_reached_page_by_page_and_nothing_is_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity_views, "LINES", 4)
    monkeypatch.setattr(activity_views, "SCANNED", 30)
    machines = [Machine(world, f"aaaaaaa{at}", world.anna, f"project/p{at}") for at in range(2)]
    for turn in range(12):
        assert (
            machines[turn % 2].write(f"records/r{turn}.md", entry(f"Turn {turn}.", f"turn{turn:04}")).status
            == 200
        )
    page = browse(world)
    for query in ({}, {"who": "anna"}):
        seen, before = [], ""
        while True:
            told = page.json("/activity", before=before, **query)
            seen += [each["text"] for each in told["lines"]]
            before = told["older"]
            if not before:
                break
        assert [each for each in seen if each] == [f"Turn {turn}." for turn in range(11, -1, -1)]
    assert page.get("/activity.json", before="yesterday").status == 422


@pytest.mark.full
def test_no_list_of_the_page_reads_every_fact(
    world: World, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (
        "INSERT INTO hub.stream (ws, stream, scope, place, chain, head) VALUES (%s, %s, 'x', 'y', '', 20000)"
    )
    world.sql(made, world.ws, "global")
    world.sql(
        "INSERT INTO hub.fact SELECT %s, 'global', n, 'aaaaaaaa', n, '\\x', '\\x', '\\x', n,"
        " 'n-' || md5((n / 10)::text), CASE n %% 10 WHEN 0 THEN 'name' ELSE 'put' END,"
        " CASE n %% 10 WHEN 0 THEN '' ELSE 'e' || n END, '{}', '{}', convert_to(CASE n %% 10 WHEN 0 THEN"
        " '\"records/x' || n || '.md\"' ELSE '{\"raw\": \"A text.\"}' END, 'UTF8'), 'user', 'cli', '', null,"
        " 'anna', 'owner', null, now() - (20000 - n) * interval '1 second', '\\x', null, 1"
        " FROM generate_series(1, 20000) n",
        world.ws,
    )
    world.sql("ANALYZE hub.fact")
    page, asked, execute = browse(world), dict[str, Any](), psycopg.Cursor.execute

    def record(self: Any, query: Any, params: Any = None, **more: Any) -> Any:
        asked.setdefault(str(query), params)
        return execute(self, query, params, **more)

    monkeypatch.setattr(psycopg.Cursor, "execute", record)
    doc = page.json("/documents", stream="global")["documents"][0]["doc"]
    for view in VIEWS:
        assert page.get(view.path, stream="global", doc=doc).status == 200
    assert page.get("/activity").status == 200
    monkeypatch.undo()
    questions = {query: given for query, given in asked.items() if "FROM hub.fact" in query}
    assert len(questions) >= 6
    with psycopg.connect(postgres.as_role(world.database, "hub_app")) as connection:
        enter(connection, world.ws)
        for query, given in questions.items():
            plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {query}", given))
            assert "Seq Scan on fact" not in plan, f"{query}\n{plan}"


# ------------------------------------------------------------------------------- search


def test_search_on_the_page_finds_what_the_protocol_finds_and_says_whose_entry_it_is(world: World) -> None:
    bert = world.member("bert", "editor")
    anna, his = Machine(world, "aaaaaaaa", world.anna), Machine(world, "bbbbbbbb", bert)
    anna.write(PATH, entry("Deploy on Mondays, after the standup.", "aaaa1111"))
    text = his.pull()[PATH]
    late = entry("The rollback script is kept beside the pipeline.", "bbbb2222", time="2026-11-09T10:00:00Z")
    assert his.write(PATH, f"{text}\n{late}").status == 200
    assert his.write("MEMORY.md", "# Rules\n\nNobody deploys alone.\n").status == 200
    page, question = browse(world), "where is the rollback script"
    told = page.json("/search", q=question)
    found = world.ask("POST", "/v1/search", None, {"query": question, "max_results": 20}).json["results"]
    rows = [each for group in told["groups"] for each in group["results"]]
    assert [each["path"] for each in found] == [each["path"] for each in rows[: len(found)]]
    first = rows[0]
    assert (first["stream"], first["file"], first["entry"]["author"]) == (STREAM, PATH, "bert")
    assert "rollback" in first["entry"]["text"]
    assert first["doc"] == page.document(PATH)["doc"]
    assert told["answer"]["coverage"]["files"] == 2
    told = page.json("/search", q="who deploys alone")
    assert told["groups"][0]["results"][0]["file"] == "MEMORY.md"
    assert page.json("/search", q="  ")["groups"] == []


def test_search_on_the_page_sees_one_workspace_and_only_who_was_let_in(world: World, anna: Machine) -> None:
    ws, _ = world.workspace("team")
    eve = world.member("eve", "owner", ws=ws)
    assert browse(world).json("/search", q="deploy on Mondays")["groups"]
    other = browse(world, eve).json("/search", q="deploy on Mondays")
    assert (other["groups"], other["answer"]["coverage"]["files"]) == ([], 0)
    assert ask(world.url, "GET", "/~nobody/search?q=deploy", Vade_Protocol="").status == 401


# ------------------------------------------------------------------------------- others, and hostile texts


def test_another_workspaces_documents_and_absent_ones_answer_alike(world: World, anna: Machine) -> None:
    ws, _ = world.workspace("team")
    eve = browse(world, world.member("eve", "owner", ws=ws))
    doc = browse(world).document(PATH)["doc"]
    for path in ("/document.json", "/document"):
        one, two = (eve.get(path, stream=STREAM, doc=each) for each in (doc, "n-" + "0" * 32))
        assert (one.status, one.body) == (two.status, two.body)
        assert one.status == 404
    assert eve.json("/activity")["lines"] == []
    assert eve.json("/documents", stream=STREAM)["documents"] == []
    assert eve.json("/members")["members"][0]["name"] == "eve"
    body = {"stream": STREAM, "doc": doc, "entry": "", "text": "Planted."}
    one, two = (eve.post("/entries", {**body, "stream": each}) for each in (STREAM, "project/none"))
    assert (one.status, one.body) == (two.status, two.body)
    assert one.status == 404
    assert world.sql("SELECT DISTINCT ws FROM hub.stream") == [(world.ws,)]


HOSTILE = (
    "<script>window.hit=1</script><img src=x onerror=window.hit=1> [x](javascript:window.hit=1)"
    " {{12345*6789}} \u202egnp"
)


def test_hostile_texts_and_names_are_shown_and_do_nothing(world: World) -> None:
    machine = Machine(world, "aaaaaaaa", world.anna, "project/x")
    text = f"---\ntitle: \"{HOSTILE}\"\ntags: ['<b onclick=x>']\n---\n" + entry(HOSTILE, "aaaa1111")
    other = Machine(world, "bbbbbbbb", world.anna, "project/x")
    assert other.write("records/<img src=x onerror=y>.md", text).status == 200
    machine.pull()
    assert (
        Machine(world, "cccccccc", world.anna, "project/x").write(PATH, text, door="<script>").status == 422
    )
    assert machine.write("records/plain.md", text).status == 200
    world.sql("UPDATE hub.workspace SET name = '<script>window.hit=1</script>'")
    world.sql("UPDATE hub.token SET label = '<script>window.hit=1</script>'")
    page = browse(world)
    doc = page.document("records/plain.md", "project/x")["doc"]
    for view in VIEWS:
        asked = {"q": "window hit"} if view.path == "/search" else {}
        told = page.get(view.path, stream="project/x", doc=doc, **asked).body.decode()
        assert "window.hit=1</script>" not in told.replace("&lt;/script&gt;", ""), view.path
        assert "<img src=x" not in told
        assert 'href="javascript:' not in told
        assert "\u202e" not in told
        assert "83810205" not in told  # worked out
        assert not re.search(r"<script(?![^>]*src=)", told)


# ----------------------------------------------------------------------------- a database that takes no more


def test_a_read_only_database_still_shows_the_page(world: World, anna: Machine) -> None:
    disagree(world, anna)
    page = browse(world)
    (told,) = page.json("/review")["conflicts"]
    keep = {name: told[name] for name in ("stream", "doc", "entry", "was")}
    assert page.post("/conflicts", {**keep, "keep": "all"}).status == 200
    for connection in list(world.app.state.hub.pool._pool):
        connection.execute("SET default_transaction_read_only = on")
    for view in VIEWS[:4]:
        assert page.get(view.path).status == 200, view.path
    assert page.change("/entries", page.document(PATH), 0, text="More.").status == 503


def test_the_page_is_not_in_the_way_of_the_protocol(world: World) -> None:
    assert ask(world.url, "GET", "/", Accept="text/html", Vade_Protocol="").status == 401
    assert b"vade hub open" in ask(world.url, "GET", "/", Vade_Protocol="").body
    style = ask(world.url, "GET", "/static/style.css", Vade_Protocol="")
    assert (style.status, style.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert ask(world.url, "GET", "/static/../server.py", Vade_Protocol="").status == 404
    assert json.loads(world.ask("GET", "/v1/me").body)["member"] == "anna"
