"""A person gets in by a link that works once, shown to nobody but them; a program by a token."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from allowing import allow
from cases import every_case
from http_door.serving import HANG, served
from vade_command import VADE
from vademecum.interfaces.http.access import Gate, Visitor, cookie_line, split_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from http_door.serving import Browser, Served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("access") / "project") as made:
        yield made


@pytest.fixture(scope="module")
def browser(server: Served) -> Browser:
    return server.enter()


def test_a_link_works_once(browser: Browser, server: Served) -> None:
    assert browser.read("/status").status == 200
    again = server.ask(server.link, Accept="text/html")
    assert again.status == 403
    assert "set-cookie" not in again.headers


@pytest.mark.full
def test_a_browser_that_only_looks_ahead_does_not_use_the_link_up(tmp_path: Path) -> None:
    with served(tmp_path / "project") as server:
        assert server.ask(server.link, Sec_Purpose="prefetch").status == 403
        assert server.enter().read("/status").status == 200


def test_the_cookie_is_for_its_door_alone_and_for_no_script() -> None:
    gate = Gate()
    session = gate.enter(gate.make_link())
    assert session
    line = cookie_line(session)
    assert line.endswith(f"; Path={session.url_prefix}; HttpOnly; SameSite=Strict")
    assert split_prefix(f"{session.url_prefix}/status") == (session.url_prefix, "/status")
    assert gate.session_of(session.url_prefix, [line.partition(";")[0]]) == session
    assert gate.session_of(session.url_prefix, [f"vade-session=wrong; {line.partition(';')[0]}"]) == session
    assert gate.session_of(session.url_prefix, ["vade-session=wrong"]) is None
    assert gate.session_of("/~other", [line.partition(";")[0]]) is None
    gate.leave(session)
    assert gate.session_of(session.url_prefix, [line.partition(";")[0]]) is None


def test_every_entry_is_a_session_of_its_own() -> None:
    gate = Gate()
    one, other = gate.enter(gate.make_link()), gate.enter(gate.make_link())
    assert one
    assert other
    assert len({one.url_prefix, other.url_prefix, one.cookie, other.cookie, one.secret, other.secret}) == 6


def test_the_same_page_is_data_with_json_behind_its_address(browser: Browser) -> None:
    page, data = browser.read("/status"), browser.read("/status.json")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert data.json["home"] in page.text


def test_without_door_or_cookie_nothing_is_shown(browser: Browser, server: Served) -> None:
    home = str(server.home)
    for path, headers in (
        ("/status", {"Cookie": browser.cookie}),  # what another server of this machine could have learned
        ("/status.json", {"Cookie": browser.cookie}),
        (f"{browser.door}/status", {}),
        (f"{browser.door}/status.json", {}),
        (f"{browser.door}/status", {"Cookie": "vade-session=guess"}),
        ("/status.json", {"Cookie": browser.cookie, "Vade-Page": browser.secret}),
        (f"{browser.door}/status", {"Cookie": browser.cookie, "Sec-Fetch-Site": "same-site"}),
        (f"{browser.door}/status", {"Cookie": browser.cookie, "Sec-Fetch-Site": "cross-site"}),
    ):
        got = server.ask(path, Accept="text/html", **headers)
        assert got.status == 401, (path, headers)
        assert home not in got.text
        assert browser.secret not in got.text


def test_no_script_or_style_of_a_page_stands_in_it(browser: Browser) -> None:
    got = browser.read("/status")
    assert "unsafe-inline" not in got.headers["content-security-policy"]
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["x-frame-options"] == "DENY"
    assert "<style" not in got.text
    assert "<script>" not in got.text


def test_files_of_ours_are_kept_by_their_hash_and_have_the_right_type(server: Served) -> None:
    script = server.ask("/static/base.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["cache-control"] == "no-cache"
    tag = script.headers["etag"]
    assert server.ask("/static/base.js", If_None_Match=tag).status == 304
    kept = server.ask(f"/static/base.js?v={tag.strip(chr(34))}")
    assert "immutable" in kept.headers["cache-control"]
    for wrong in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/"):
        assert server.ask(wrong).status == 404


def started(folder: Path, *options: str, **environ: str) -> tuple[subprocess.Popen[str], str]:
    """`vade serve` in a pipe, and the first of what it says."""
    folder.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [VADE, "--home", str(folder.parent / "home"), "serve", "--port", "0", *options],
        cwd=folder,
        env={"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    return process, said


@pytest.mark.full
def test_no_link_is_written_to_a_pipe(tmp_path: Path) -> None:
    process, said = started(tmp_path / "project")
    process.terminate()
    rest, _ = process.communicate(timeout=HANG)
    assert "listening on http://127.0.0.1:" in said
    assert "enter" not in said + rest


@pytest.mark.full
def test_an_agent_that_opens_a_browser_of_its_own_gets_no_link(tmp_path: Path) -> None:
    caught = tmp_path / "caught"
    catcher = tmp_path / "catcher"
    catcher.write_text(f'#!/bin/sh\necho "$1" > {caught}\n')
    catcher.chmod(0o755)
    for number, environ in enumerate(({}, {"CLAUDECODE": "1"})):
        process, _ = started(tmp_path / str(number), "--open", BROWSER=str(catcher), **environ)
        assert process.stdout is not None
        second = process.stdout.readline()  # that no browser could be opened, or why there is no page
        process.terminate()
        process.communicate(timeout=HANG)
        assert "enter" not in second
        assert not caught.exists()


def vade(home: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [VADE, "--home", str(home), *words], capture_output=True, text=True, check=False, cwd=home.parent
    )
    return done.returncode, done.stdout


def test_a_token_opens_what_its_scope_says_until_it_is_revoked(server: Served) -> None:
    allow(server.home)
    code, token = vade(server.home, "token", "add", "reader", "--scope", "read", "--expires", "1h")
    assert code == 0
    token = token.strip()
    assert not [path for path in server.home.rglob("*.json*") if token in path.read_text("utf-8", "replace")]
    held = {"Authorization": f"Bearer {token}"}
    assert server.ask("/status.json", **held).status == 200
    assert server.ask("/status", Accept="text/html", **held).status == 403
    assert server.ask("/mcp", method="POST", body={}, **held).status == 403
    assert server.ask("/status.json", Authorization=f"Bearer {token}x").status == 401
    assert json.loads(vade(server.home, "token", "list", "--json")[1])["tokens"][0]["name"] == "reader"
    assert vade(server.home, "token", "revoke", "reader")[0] == 0
    assert server.ask("/status.json", **held).status == 401


def test_an_agent_makes_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(tmp_path / "home")
    monkeypatch.setenv("CLAUDECODE", "1")
    assert vade(tmp_path / "home", "token", "add", "mine", "--scope", "write")[0] == 1


@every_case(
    ("scopes", "may"),
    [
        ({"read"}, {"read"}),
        ({"write"}, {"read", "write"}),
        ({"review"}, {"read", "review"}),
        ({"mcp"}, set()),
    ],
)
def test_who_writes_or_reviews_reads_as_well(scopes: set[str], may: set[str]) -> None:
    visitor = Visitor("token", "t", frozenset(scopes))
    assert {each for each in ("read", "write", "review") if visitor.may(each)} == may


def test_mcp_answers_on_the_same_port_to_its_own_token_and_to_one_that_writes(server: Served) -> None:
    allow(server.home)
    greeting = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"},
        },
    }
    writer = vade(server.home, "token", "add", "writer", "--scope", "write")[1].strip()
    own = (server.home / "mcp-token").read_text().strip()
    headers = {"Accept": "application/json, text/event-stream"}
    for token in (writer, own):
        got = server.ask("/mcp", method="POST", body=greeting, Authorization=f"Bearer {token}", **headers)
        assert got.status == 200, got.text
        assert "protocolVersion" in got.text
    assert server.ask("/mcp", method="POST", body=greeting, **headers).status == 401
    assert server.ask("/api/v1/records", Authorization=f"Bearer {own}").status == 403  # it opens /mcp alone


@pytest.mark.full
def test_a_problem_inside_of_a_session_keeps_the_menu(browser: Browser) -> None:
    got = browser.read("/no-such-page")
    assert got.status == 404
    assert f'href="{browser.door}/memories"' in got.text
