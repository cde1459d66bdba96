"""The API: every noun of memory, versions on every write, both of them told when one is stale."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from http_door import in_process
from vademecum.memory import Memory, connect
from vademecum.transcripts import Message, Role, Text
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from http_door.in_process import Client, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return in_process.made(tmp_path)


@pytest.fixture
def page(place: Place) -> Client:
    return place.person()


@pytest.fixture
def program(place: Place) -> Client:
    return place.client("write")


def test_what_a_page_saves_is_a_persons_word_and_what_a_token_saves_an_agents(
    page: Client, program: Client
) -> None:
    assert page("POST", "/records", {"text": "Use ruff.", "key": "lint"}).status_code == 201
    assert program("POST", "/records", {"text": "Tests need make.", "key": "build"}).status_code == 201
    assert page("GET", "/records/lint").json()["entries"][0]["origin"] == "user"
    assert page("GET", "/records/build").json()["entries"][0]["origin"] == "agent"


def test_an_edit_needs_the_version_that_it_changes(page: Client) -> None:
    page("POST", "/records", {"text": "Use ruff.", "key": "lint"})
    seen = page("GET", "/records/lint/text")
    text, tag = seen.json()["text"], seen.headers["etag"]
    assert page("GET", "/records/lint").headers["etag"] == tag
    edited = text.replace("ruff", "ruff and mypy")
    assert page("PUT", "/records/lint/text", {"text": edited}).status_code == 428
    done = page("PUT", "/records/lint/text", {"text": edited}, If_Match=tag)
    assert done.status_code == 200, done.text
    assert done.headers["etag"] != tag
    stale = page("PUT", "/records/lint/text", {"text": text}, If_Match=tag)
    assert stale.status_code == 409
    assert stale.json()["current"] == {"text": done.json()["text"], "etag": done.headers["etag"]}
    assert stale.json()["yours"] == text
    assert "mypy" in page("GET", "/records/lint/text").json()["text"]


def test_a_record_edited_on_disk_meanwhile_is_not_overwritten(page: Client, place: Place) -> None:
    page("POST", "/records", {"text": "Use ruff.", "key": "lint"})
    seen = page("GET", "/records/lint/text")
    (path,) = place.home.glob("memory/project/*/records/lint.md")
    path.write_text(path.read_text().replace("ruff", "flake8"))
    edited = seen.json()["text"].replace("ruff", "pylint")
    for method, path_, body in (
        ("PUT", "/records/lint/text", {"text": edited}),
        ("DELETE", "/records/lint", None),
        ("POST", "/records/lint/tags", {"add": ["x"]}),
        ("POST", "/records/lint/rename", {"key": "other"}),
        ("POST", "/records/lint/move", {"scope": "global"}),
        ("POST", "/records/lint/protect", {"on": True}),
        ("POST", "/records/lint/verify", {"on": True}),
    ):
        assert page(method, path_, body).status_code == 428
        got = page(method, path_, body, If_Match=seen.headers["etag"])
        assert got.status_code == 409, got.text
        assert "flake8" in got.json()["current"]["text"]
    assert "flake8" in path.read_text()


def test_what_was_read_once_is_not_sent_again(page: Client) -> None:
    page("POST", "/records", {"text": "Use ruff.", "key": "lint"})
    tag = page("GET", "/records/lint").headers["etag"]
    assert page("GET", "/records/lint", If_None_Match=tag).status_code == 304
    page("POST", "/records/lint/entries", {"text": "And mypy."})
    assert page("GET", "/records/lint", If_None_Match=tag).status_code == 200


def test_a_forgotten_record_comes_back_and_so_does_an_earlier_version(page: Client) -> None:
    page("POST", "/records", {"text": "Use ruff.", "key": "lint"})
    tag = page("GET", "/records/lint").headers["etag"]
    assert page("DELETE", "/records/lint").status_code == 428
    assert page("DELETE", "/records/lint", If_Match=tag).status_code == 200
    assert page("GET", "/records/lint").status_code == 404
    assert page("GET", "/archive").json()["forgotten"][0]["key"] == "lint"
    assert page("POST", "/records/lint/restore", {}).status_code == 200
    seen = page("GET", "/records/lint/text")
    page(
        "PUT",
        "/records/lint/text",
        {"text": seen.json()["text"].replace("ruff", "black")},
        If_Match=seen.headers["etag"],
    )
    versions = page("GET", "/records/lint/versions").json()["versions"]
    assert versions[-1]["id"] == ""
    earlier = next(each["id"] for each in versions if each["id"] and "ruff" in each["text"])
    assert page("POST", "/records/lint/restore", {"version": earlier}).status_code == 428
    now = page("GET", "/records/lint").headers["etag"]
    assert page("POST", "/records/lint/restore", {"version": earlier}, If_Match=now).status_code == 200
    assert "ruff" in page("GET", "/records/lint/text").json()["text"]


def test_a_list_is_read_page_by_page_to_its_end(page: Client) -> None:
    for number in range(7):
        page("POST", "/records", {"text": f"Fact number {number} stands alone.", "key": f"fact-{number}"})
    seen: list[str] = []
    cursor = ""
    while True:
        got = page("GET", f"/records?limit=3{cursor}").json()
        seen += [each["key"] for each in got["records"]]
        assert got["total"] == 7
        if got["next"] is None:
            break
        cursor = f"&cursor={got['next']}"
    assert sorted(seen) == [f"fact-{number}" for number in range(7)]
    assert page("GET", "/records?cursor=nonsense").status_code == 400


def test_a_retried_call_happens_once(page: Client) -> None:
    first = page("POST", "/journal", {"text": "Once."}, Idempotency_Key="k-1")
    again = page("POST", "/journal", {"text": "Once."}, Idempotency_Key="k-1")
    assert first.json() == again.json()
    assert len(page("GET", "/journal").json()["days"][0]["entries"]) == 1
    assert page("POST", "/journal", {"text": "Another."}, Idempotency_Key="k-1").status_code in (400, 409)


def test_many_records_change_as_one_run_that_is_undone(page: Client) -> None:
    for name in ("one", "two"):
        page("POST", "/records", {"text": f"The {name} text.", "key": name})
    shown = page("POST", "/bulk", {"action": "forget", "keys": ["one", "two"], "dry_run": True}).json()
    assert {each["key"] for each in shown["records"]} == {"one", "two"}
    assert page("GET", "/records").json()["total"] == 2
    done = page("POST", "/bulk", {"action": "forget", "keys": ["one", "two"]}).json()
    assert page("GET", "/records").json()["total"] == 0
    assert page("POST", f"/runs/{done['run']}/undo").status_code == 200
    assert page("GET", "/records").json()["total"] == 2


def test_a_pinned_document_is_written_with_its_version(page: Client) -> None:
    empty = page("GET", "/pinned/MEMORY.md/text?scope=global")
    assert empty.status_code == 200, empty.text
    tag = empty.headers["etag"]
    written = page(
        "PUT", "/pinned/MEMORY.md/text?scope=global", {"text": "# Memory\n\nBe brief.\n"}, If_Match=tag
    )
    assert written.status_code == 200, written.text
    assert page("PUT", "/pinned/MEMORY.md/text?scope=global", {"text": "x"}, If_Match=tag).status_code == 409
    assert "Be brief." in page("GET", "/pinned").json()["documents"][0]["text"]


def test_an_earlier_version_of_a_pinned_document_comes_back_and_no_other_file_does(page: Client) -> None:
    at = "/pinned/MEMORY.md/text?scope=global"
    for text in ("# One\n", "# Two\n"):
        assert page("PUT", at, {"text": text}, If_Match=page("GET", at).headers["etag"]).status_code == 200
    first = page("GET", "/pinned/MEMORY.md/versions?scope=global").json()["versions"][0]
    back = "/pinned/MEMORY.md/restore?scope=global"
    assert page("POST", back, {"version": first["id"]}).status_code == 428
    assert page("POST", back, {"version": first["id"]}, If_Match='"stale"').status_code == 409
    now = page("GET", at).headers["etag"]
    page("POST", "/records", {"text": "Use ruff.", "key": "lint"})
    tag = page("GET", "/records/lint").headers["etag"]
    assert page("DELETE", "/records/lint", If_Match=tag).status_code == 200
    other = page("GET", "/archive").json()["forgotten"][0]
    assert page("POST", back, {"version": other["key"]}, If_Match=now).status_code == 404
    assert page("POST", back, {"version": first["id"]}, If_Match=now).status_code == 200
    assert "# One" in page("GET", at).json()["text"]
    assert page("GET", "/records/lint").status_code == 404


def test_a_session_is_exported_whole_and_a_secret_stays_here(page: Client, place: Place) -> None:
    from vademecum.memory import connect
    from vademecum.transcripts import Message, Role, Text
    from vademecum.transcripts.events import MessageEvent

    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with connect(home=place.home, cwd=place.folder, environ={}) as memory:
        log = memory.sessions.new(id="s1", name="Deploys")
        log.append(MessageEvent(Message(Role.USER, (Text(f"When do we deploy? {secret}"),))))
    for kind in ("html", "md", "jsonl"):
        found = page("GET", f"/sessions/s1/export?kind={kind}").json()
        assert found["name"] == f"s1.{kind}"
        assert "When do we deploy?" in found["text"]
        assert secret not in found["text"]
    assert page("GET", "/sessions/s1/export?kind=exe").status_code == 422
    assert page("GET", "/sessions/none/export").status_code == 404


def test_a_token_that_reviews_decides_in_the_name_of_who_made_it(
    place: Place, program: Client, page: Client
) -> None:
    page("POST", "/records", {"text": "Deploy on Fridays.", "key": "deploy"})
    tag = program("GET", "/records/deploy").headers["etag"]
    waits = program("DELETE", "/records/deploy", If_Match=tag)
    assert waits.status_code == 202
    assert waits.json()["outcome"] == "waiting"
    assert program("GET", "/review").status_code == 403
    reviewer = place.client("review")
    (item,) = [each for each in reviewer("GET", "/review").json()["items"] if each["kind"] == "write"]
    done = reviewer("POST", "/review", {"ids": [item["id"]], "yes": True})
    assert done.json()["decided"][0]["done"], done.text
    assert page("GET", "/records/deploy").status_code == 404
    assert any("token:t-review" in each["actor"] for each in page("GET", "/audit").json()["lines"])


def test_an_agent_gets_no_secret_and_cannot_edit_around_one(
    place: Place, page: Client, program: Client
) -> None:
    page("POST", "/records", {"text": "The key lies in the vault.", "key": "vault"})
    (path,) = place.home.glob("memory/project/*/records/vault.md")
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"  # made up
    path.write_text(path.read_text().replace("the vault", f"the vault {secret}"))
    mine, theirs = page("GET", "/records/vault/text"), program("GET", "/records/vault/text")
    assert secret in mine.json()["text"]
    assert secret not in theirs.text
    assert theirs.json()["editable"] is False
    tag = theirs.headers["etag"]
    assert (
        program("PUT", "/records/vault/text", {"text": theirs.json()["text"]}, If_Match=tag).status_code
        == 403
    )
    assert secret in path.read_text()


def test_search_says_why(page: Client) -> None:
    page("POST", "/records", {"text": "Deploys run on Fridays.", "key": "deploys"})
    found = page("GET", "/search?q=when do deploys run&explain=true").json()
    assert found["results"][0]["key"] == "deploys"
    assert found["results"][0]["arithmetic"]
    assert page("GET", "/search").status_code == 422


def test_a_problem_has_the_hint_of_the_command_line(page: Client) -> None:
    got = page("GET", "/records/nothing-here")
    assert got.status_code == 404
    assert got.headers["content-type"] == "application/problem+json"
    assert got.json()["kind"] == "NotFound"
    assert "vade list" in got.json()["hint"]


def test_runs_are_proposed_applied_and_undone(page: Client) -> None:
    page("POST", "/records", {"text": "Deploys run on Fridays.", "key": "deploys"})
    for what in ("sweep", "heal", "promote", "merge"):
        proposed = page("POST", "/runs", {"what": what})
        assert proposed.status_code == 200, proposed.text
        assert proposed.json()["applied"] is False
    assert page("GET", "/runs").status_code == 200
    assert page("POST", "/runs/nothing/undo").status_code == 404


def test_a_run_applies_what_was_shown_and_nothing_that_came_since(place: Place, page: Client) -> None:
    def of_long_ago(key: str) -> None:
        with connect(home=place.home, cwd=place.folder, origin=Origin.USER, actor="human:ada") as memory:
            work = memory.workspace
            then = work.now() - timedelta(days=900)
            Memory(work.home, work.caller, work.loaded, now=lambda: then).store(
                f"The {key} server is called osprey-{key}.", key=key, type="project"
            )

    def keys() -> set[str]:
        return {each["key"] for each in page("GET", "/records").json()["records"]}

    of_long_ago("build")
    shown = page("POST", "/runs", {"what": "sweep"})
    tag = shown.headers["etag"]
    assert len(shown.json()["proposals"]) == 1
    assert page("POST", "/runs", {"what": "sweep", "apply": True}).status_code == 428
    of_long_ago("deploy")
    stale = page("POST", "/runs", {"what": "sweep", "apply": True}, If_Match=tag)
    assert stale.status_code == 409
    assert len(stale.json()["current"]["proposals"]) == 2
    assert keys() == {"build", "deploy"}
    now = stale.json()["current"]["etag"]
    done = page("POST", "/runs", {"what": "sweep", "apply": True, "large": True}, If_Match=now)
    assert done.json()["applied"] is True
    assert keys() == set()


def test_the_list_of_sessions_reads_the_logs_of_its_page_alone(place: Place, page: Client) -> None:
    with connect(home=place.home, cwd=place.folder) as memory:
        for number in range(5):
            log = memory.sessions.new(id=f"s{number}", name=f"talk {number}")
            memory.sessions.record(log, [Message(Role.USER, (Text(f"word {number}"),))])
    found: list[str] = []
    cursor = ""
    for left in (3, 1, 0):
        got = page("GET", f"/sessions?limit=2{cursor}").json()
        assert got["total"] == 5
        found += [each["id"] for each in got["sessions"]]
        cursor = f"&cursor={got['next']}"
        assert (got["next"] is None) == (left == 0)
    assert sorted(found) == [f"s{number}" for number in range(5)]


def test_a_call_below_the_path_of_a_project_is_of_that_project_alone(place: Place) -> None:
    other = place.folder.parent / "other"
    (other / ".git").mkdir(parents=True, exist_ok=True)
    with connect(home=place.home, cwd=other, origin=Origin.USER, actor="human:ada") as memory:
        memory.store("Of the other one.", key="whose")
        assert memory.caller.project
        id = memory.caller.project.id
    page = place.person()
    own = page.door
    page.door = f"{own}/@{id}"
    assert page("GET", "/status").json()["project"]["id"] == id
    assert page("POST", "/journal", {"text": "Noted there."}).status_code == 201
    assert page("GET", "/records/whose").status_code == 200
    assert place.person()("GET", "/records/whose").status_code == 404
    assert page("GET", f"/records/whose?project={id}").status_code == 200
    assert page("POST", "/journal?project=another", {"text": "Nowhere."}).status_code == 400
    for unknown in ("", "nowhere", "%2e%2e", f"{id}x", f"{id}%20"):
        page.door = f"{own}/@{unknown}"
        assert page("POST", "/journal", {"text": "Nowhere."}).status_code == 404, unknown
    assert place.person()("POST", "/journal?project=", {"text": "Nowhere."}).status_code == 422
    told = [each.read_text() for each in place.home.glob("memory/project/*/journal/*.md")]
    assert not any("Nowhere" in each for each in told)
    assert sum("Noted there." in each for each in told) == 1
    (noted,) = place.home.glob(f"memory/project/{id}/journal/*.md")
    assert "Noted there." in noted.read_text()


def test_a_folder_that_holds_another_project_now_is_not_written_for_the_one_before(place: Place) -> None:
    other = place.folder.parent / "moved"
    (other / ".git").mkdir(parents=True)
    with connect(home=place.home, cwd=other, origin=Origin.USER, actor="human:ada") as memory:
        memory.store("Of the one before.", key="before")
        assert memory.caller.project
        id = memory.caller.project.id
    (other / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.com/a/new-one.git\n')
    answer = place.person()("POST", f"/journal?project={id}", {"text": "Misplaced."})
    assert answer.status_code == 404
    assert "holds another one" in answer.json()["detail"]
    assert not [*place.home.glob(f"memory/project/{id}/journal/*.md")]


def test_a_person_changes_settings_but_chooses_no_model_that_reads_sessions(
    place: Place, page: Client
) -> None:
    changed = page("PUT", "/settings/capture.tell", {"value": "false"}).json()
    assert changed["settings"]["capture.tell"]["value"] is False
    assert "tell = false" in (place.home / "config.toml").read_text("utf-8")
    assert (
        page("PUT", "/settings/capture.tell", {"value": None}).json()["settings"]["capture.tell"]["value"]
        is True
    )
    model = page("PUT", "/settings/capture.model", {"value": "ollama:llama3"})
    assert (model.status_code, "vade config set capture.model" in model.text) == (403, True)
    token = place.client("write", "review")("PUT", "/settings/capture.tell", {"value": "false"})
    assert token.status_code == 403
