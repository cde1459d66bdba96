"""Bad input: a clear page or problem, and nothing lost."""

from __future__ import annotations

import http.client
import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from allowing import allow
from http_door import in_process
from http_door.serving import HANG, served
from test_read_only import read_only
from vade_command import VADE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from http_door.in_process import Client, Place
    from http_door.serving import Served


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return in_process.made(tmp_path)


@pytest.fixture
def page(place: Place) -> Client:
    return place.person()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("bad") / "project") as made:
        yield made


def is_problem(got: object) -> bool:
    headers = getattr(got, "headers", {})
    return str(headers["content-type"]) == "application/problem+json"


def test_a_text_of_a_megabyte_is_kept_whole_and_a_larger_one_refused(page: Client) -> None:
    text = "word " * (1 << 18)
    whole = page("POST", "/records", {"text": text[: 1 << 20], "key": "megabyte"})
    assert whole.status_code == 201, whole.text
    assert text[: 1 << 20].strip() in page("GET", "/records/megabyte/text").json()["text"]
    got = page("POST", "/records", {"text": text, "key": "large"})
    assert got.status_code == 400
    assert is_problem(got)
    assert got.json()["kind"] == "InvalidText"
    assert page("GET", "/records/large").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe{",
        b'{"text": "\xc3\x28"}',
        b'{"text": "\\ud800", "key": "half"}',
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"text": 1}',
        b'{"text": "a", "unknown": 1}',
        b"[" * 20_000,
        b'{"text": "a\\u0000b", "key": "nul"}',
    ],
)
def test_a_body_that_is_not_what_it_should_be_is_told_so(body: bytes, place: Place, page: Client) -> None:
    headers = {**page.headers, "Content-Type": "application/json"}
    got = page.http.post(f"{page.door}/api/v1/records", content=body, headers=headers)
    assert got.status_code in (400, 422), got.text
    assert is_problem(got)
    assert not [*place.home.glob("memory/project/*/records/*.md")]


def test_more_than_a_request_may_have_is_refused(server: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG)
    connection.putrequest("POST", "/api/v1/records")
    connection.putheader("Content-Length", str(5 << 20))
    connection.endheaders()
    got = connection.getresponse()
    assert got.status == 413
    assert json.loads(got.read())["status"] == 413
    connection.close()


def test_a_home_of_a_newer_format_is_read_and_not_written(place: Place, page: Client) -> None:
    page("POST", "/records", {"text": "Use ruff.", "key": "lint"})
    (place.home / "format").write_text("999\n")
    assert page("GET", "/records/lint").status_code == 200
    got = page("POST", "/records", {"text": "More.", "key": "more"})
    assert got.status_code == 403
    assert got.json()["kind"] == "NewerFormat"
    assert "upgrade" in got.json()["hint"]


def test_a_home_that_goes_read_only_is_read_and_says_so(place: Place, page: Client) -> None:
    page("POST", "/records", {"text": "Use ruff.", "key": "lint"})
    tag = page("GET", "/records/lint").headers["etag"]
    with read_only(place.home):
        assert page("GET", "/records/lint").status_code == 200
        assert page("GET", "/search?q=ruff").status_code == 200
        for got in (
            page("POST", "/records", {"text": "More.", "key": "more"}),
            page("DELETE", "/records/lint", If_Match=tag),
        ):
            assert got.status_code == 507, got.text
            assert got.json()["hint"]
    assert page("GET", "/records/lint").status_code == 200
    assert page("POST", "/records", {"text": "More.", "key": "more"}).status_code == 201


def test_a_disk_that_refuses_is_told_and_reading_goes_on(place: Place, page: Client) -> None:
    page("POST", "/records", {"text": "Use ruff.", "key": "lint"})
    journal = next(place.home.glob("memory/project/*")) / "journal"
    journal.write_text("in the way")  # also for root: no folder can be made here
    got = page("POST", "/journal", {"text": "A note."})
    assert got.status_code in (403, 422, 507), got.text
    assert is_problem(got)
    assert page("GET", "/records/lint").status_code == 200


@pytest.mark.full
def test_a_port_in_use_is_told_with_what_to_try(server: Served, tmp_path: Path) -> None:
    done = subprocess.run(
        [VADE, "--home", str(tmp_path / "home"), "serve", "--port", str(server.port)],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert done.returncode == 1
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_token_revoked_in_mid_use_is_refused_at_once(place: Place, page: Client) -> None:
    from vademecum.memory import connect, tokens
    from vademecum.types import Origin

    client = place.client("write")
    assert client("POST", "/records", {"text": "One.", "key": "one"}).status_code == 201
    visitor = place.site.find_token(client.headers["Authorization"].removeprefix("Bearer "))
    assert visitor is not None
    assert place.site.is_let_in(visitor)
    with connect(home=place.home, cwd=place.folder, origin=Origin.USER, actor="human:ada") as memory:
        tokens.revoke(memory, visitor.name)
    assert not place.site.is_let_in(visitor)
    got = client("POST", "/records", {"text": "Two.", "key": "two"})
    assert got.status_code == 401
    assert "Bearer" in got.headers["www-authenticate"]
    assert page("GET", "/records/one").status_code == 200
    assert page("GET", "/records/two").status_code == 404


def test_a_token_ends_by_itself(place: Place) -> None:
    token = place.token("read", name="short")
    (path,) = place.home.glob("decisions/tokens/*.json")
    kept = json.loads(path.read_text())
    path.write_text(json.dumps({**kept, "expires": "2020-01-01T00:00:00Z"}))
    assert place.site.find_token(token) is None
    path.write_text(json.dumps({**kept, "expires": "soon"}))
    assert place.site.find_token(token) is None
    path.write_text("{")
    assert place.site.find_token(token) is None


def test_a_page_reads_without_a_script(server: Served) -> None:
    browser = server.enter()
    got = browser.read("/status")
    assert str(server.home) in got.text  # the data stand in the page itself
    missing = browser.read("/no-such-page")
    assert missing.status == 404
    assert missing.headers["content-type"].startswith("text/html")


def test_what_changes_on_disk_is_told_to_who_listens(server: Served) -> None:
    def vade(*words: str) -> str:
        told = [VADE, "--home", str(server.home), *words]
        return subprocess.run(told, cwd=server.folder, capture_output=True, text=True, check=True).stdout

    vade("add", "Something new.", "--key", "first")
    allow(server.home)
    token = vade("token", "add", "ear").strip()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG)
    connection.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {token}"})
    stream = connection.getresponse()
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.readline() == b"retry: 1000\n"
    vade("add", "More.", "--key", "second")
    told: list[dict[str, str]] = []
    while not any(each.get("key") == "second" for each in told):
        line = stream.readline()
        assert line, "the stream ended"
        told += [json.loads(line[6:])] if line.startswith(b"data: ") else []
    assert told[-1]["kind"] == "record"
    connection.close()
