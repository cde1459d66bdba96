"""The hub's commands as a person types them, each a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allowing import allow
from hub.hubs import Writer, ask
from vademecum.interfaces.cli import plugins
from vademecum.interfaces.cli.app import run
from vademecum_hub import hub_commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hub.databases import Server
    from hub.hubs import World

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def empty(postgres: Server) -> Any:
    name = postgres.database(template="template0")
    yield postgres.url(name)
    postgres.drop(name)


def vade(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> dict[str, Any]:
    code = run([*words, "--json", "--home", str(home)])
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == 0, told
    return told


def refused(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> dict[str, str]:
    """What a command that fails says."""
    assert run([*words, "--json", "--home", str(home)]) != 0
    told: dict[str, str] = json.loads(capsys.readouterr().out)["error"]
    return told


def start(home: Path, *words: str) -> tuple[subprocess.Popen[str], str]:
    """`vade hub serve` as a process, once it listens."""
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "vademecum",
            "hub",
            "serve",
            "--port",
            "0",
            "--json",
            "--home",
            str(home),
            *words,
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert server.stdout is not None
    lines = iter(server.stdout.readline, "")
    said = [next(lines)]
    while said[-1] != "}\n":
        said.append(next(lines))
    return server, json.loads("".join(said))["url"]


def test_a_hub_is_prepared_served_and_entered_with_the_code_of_its_first_workspace(
    empty: str, postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = vade(capsys, tmp_path, "hub", "migrate", "--database", empty)
    assert first["ran"]
    again = vade(capsys, tmp_path, "hub", "migrate", "--database", postgres.as_role(empty, "hub_migrate"))
    assert again["ran"] == []
    made = vade(
        capsys, tmp_path, "hub", "create", "ours", "--kind", "team", "--owner", "anna",
        "--database", postgres.as_role(empty, "hub_migrate"),
    )  # fmt: skip
    server, url = start(tmp_path, "--database", postgres.as_role(empty, "hub_app"))
    try:
        joined = ask(url, "POST", "/v1/join", body={"code": made["code"], "replica": "aaaaaaaa"}).json
        assert (joined["member"], joined["role"], joined["workspace"]) == ("anna", "owner", made["workspace"])
        assert ask(url, "GET", "/health").status == 200
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) in (0, -signal.SIGTERM)
        assert server.stdout is not None
        server.stdout.close()
    assert (tmp_path / "hub.key").stat().st_mode & 0o777 == 0o600


def test_what_is_wrong_with_a_database_is_one_sentence(
    empty: str, postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = "postgresql://hub_app:hunter2hunter2@127.0.0.1:1/none"
    for words in (("migrate",), ("serve",), ("create", "ours"), ("export",)):
        told = refused(capsys, tmp_path, "hub", *words, "--database", closed)
        assert "cannot be reached" in told["message"]
        assert "hunter2" not in json.dumps(told)
        told = refused(capsys, tmp_path, "hub", *words, "--database", "postgresql//me:hunter2hunter2@db/hub")
        assert told["message"] == "this is not the address of a database"
        assert "hunter2" not in json.dumps(told)
    told = refused(capsys, tmp_path, "hub", "serve", "--database", empty.replace("postgres@", "hub_nobody@"))
    assert "`vade hub migrate` makes" in told["hint"]
    told = refused(capsys, tmp_path, "hub", "serve", "--database", empty)
    assert "holds no hub" in told["message"]
    vade(capsys, tmp_path, "hub", "migrate", "--database", empty)
    told = refused(
        capsys, tmp_path, "hub", "create", "ours", "--database", postgres.as_role(empty, "hub_app")
    )
    assert "may not make or export workspaces" in told["message"]
    told = refused(capsys, tmp_path, "hub", "create", "x", "--owner", "An na", "--database", empty)
    assert "a member's name" in told["message"]


def test_without_its_package_the_hub_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plugins, "list_plugins", lambda *_: {})
    for words in (("migrate",), ("serve",), ("create", "ours"), ("export",), ("index",), ("demo",)):
        told = refused(capsys, tmp_path, "hub", *words)
        assert told["message"] == f"`vade hub {words[0]}` needs the package vademecum-hub"
        assert told["hint"] == "install it with `pip install 'vademecum[hub]'`"
    assert vade(capsys, tmp_path, "hub", "status")["workspaces"] == []
    listed = shown(capsys, tmp_path, "hub", "--help")
    assert "join" in listed
    assert "serve" not in listed.split("Commands:")[1]


def invited(world: World, kind: str = "team") -> str:
    """A code for the first member of a new workspace."""
    from vademecum_hub import administration

    made = administration.create_workspace(
        world.postgres.as_role(world.database, "hub_migrate"), world.keys, "ours", kind=kind, owner="anna"
    )
    return str(made["code"])


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("one", "two"):
        allow(tmp_path / name)
    return tmp_path / "one", tmp_path / "two"


def test_a_machine_that_joined_opens_the_page_with_a_link_that_works_once(
    world: World,
    homes: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links: list[str] = []

    def opened(link: str) -> bool:
        links.append(link)
        return True

    monkeypatch.setattr("webbrowser.open", opened)
    assert "no hub" in refused(capsys, homes[0], "hub", "open")["message"]
    vade(capsys, homes[0], "hub", "join", world.url, "--code", invited(world))
    told = vade(capsys, homes[0], "hub", "open")
    assert told["url"] == f"{world.url}/"
    assert "key=" not in str(told)
    (link,) = links
    assert link.startswith(f"{world.url}/enter?key=")
    for status in (200, 403):
        assert ask(world.url, "GET", link.removeprefix(world.url), Vade_Protocol="").status == status


def test_a_person_joins_invites_another_and_removes_them(
    world: World, homes: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = homes
    joined = vade(capsys, one, "hub", "join", world.url, "--code", invited(world))
    assert (joined["name"], joined["kind"], joined["member"], joined["key"]) == ("ours", "team", "anna", None)
    code = vade(capsys, one, "hub", "invite", "bert", "--role", "editor")["code"]
    assert vade(capsys, two, "hub", "join", world.url, "--code", code)["role"] == "editor"
    assert [each["name"] for each in vade(capsys, two, "hub", "members")["members"]] == ["anna", "bert"]
    state = vade(capsys, two, "hub", "status")["workspaces"]
    assert [(each["name"], each["member"], each["problem"]) for each in state] == [("ours", "bert", "")]
    assert "needs the role owner" in refused(capsys, two, "hub", "revoke", "anna")["message"]
    done = {"revoked": "bert", "also": [], "codes": 0, "schemaVersion": 1}
    assert vade(capsys, one, "hub", "revoke", "bert") == done
    assert "join again" in vade(capsys, two, "hub", "status")["workspaces"][0]["problem"]
    folder = two / "hub" / joined["workspace"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "token").stat().st_mode & 0o777 == 0o600


def test_the_key_of_a_personal_workspace_is_made_once_and_needed_on_the_next_machine(
    world: World, homes: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    from vademecum.store.home import Home
    from vademecum.sync import facts, membership

    one, two = homes
    joined = vade(capsys, one, "hub", "join", world.url, "--code", invited(world, "personal"))
    key = joined["key"]
    assert len(key.replace("-", "")) == 26
    here = membership.find_membership(Home(one))
    assert membership.key_of(Home(one), here) == key.replace("-", "").encode()
    writer = Writer(joined["replica"])
    sealed = facts.seal(writer.fact(), key.replace("-", "").encode())
    token = (one / "hub" / joined["workspace"] / "token").read_text().strip()
    assert world.push(writer, sealed, token=token).status == 200
    assert world.pull(token=token).lines[0]["fact"]["seal"] == sealed.seal
    code = vade(capsys, one, "hub", "invite")["code"]
    wrong = "0" * 26
    told = refused(capsys, two, "hub", "join", world.url, "--code", code, "--key", wrong)
    assert "not the key" in told["message"]
    code = vade(capsys, one, "hub", "invite")["code"]
    assert vade(capsys, two, "hub", "join", world.url, "--code", code, "--key", key.lower())["key"] is None
    everything = str(world.sql("SELECT * FROM hub.fact, hub.token, hub.workspace"))
    assert key.replace("-", "") not in everything


def test_a_backup_takes_neither_the_token_nor_the_keys(
    world: World, homes: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import tarfile

    one, _ = homes
    vade(capsys, one, "hub", "join", world.url, "--code", invited(world, "personal"))
    (one / "hub.key").write_text("x" * 64)
    vade(capsys, one, "backup", str(tmp_path / "kept.tar.gz"))
    with tarfile.open(tmp_path / "kept.tar.gz") as archive:
        names = {each.rsplit("/", 1)[-1] for each in archive.getnames()}
    assert "workspace.json" in names
    assert not names & {"token", "key", "hub.key"}


def test_an_agent_joins_no_hub_and_a_home_without_one_says_so(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(capsys, tmp_path / "three", "hub", "join", world.url, "--code", "x")
    assert "only a person can join a hub" in told["message"]
    assert vade(capsys, tmp_path / "three", "hub", "status")["workspaces"] == []
    assert "has joined no hub" in refused(capsys, tmp_path / "three", "hub", "members")["message"]


NO_HUB = [(404, b"not here"), (200, b"{}"), (200, b"[]"), (200, b"<html>"), (401, b"log in"), (500, b"")]


class Elsewhere(BaseHTTPRequestHandler):
    """A server that is no hub: it answers every request with the same."""

    said: tuple[int, bytes] = (200, b"")

    def do_GET(self) -> None:
        self.send_response(self.said[0])
        self.send_header("Content-Length", str(len(self.said[1])))
        self.end_headers()
        self.wfile.write(self.said[1])

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def elsewhere() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.full
def test_who_joins_at_a_wrong_address_is_told_to_check_it_and_not_to_sync_later(
    elsewhere: str, homes: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for address in ("http://127.0.0.1:1", elsewhere.replace("http:", "https:")):
        told = refused(capsys, homes[0], "hub", "join", address, "--code", "x")
        assert told["message"].startswith("the hub cannot be reached: ")
        assert told["hint"] == f"check the address {address}, and that a hub runs there"
    assert told["message"].endswith("what answers there does not speak TLS")


@pytest.mark.full(but=2)
@pytest.mark.parametrize(
    "how",
    [
        *(("--code", said) for said in NO_HUB),
        *(("--token", said) for said in NO_HUB),
    ],
)
def test_a_server_that_is_no_hub_is_told_from_one(
    elsewhere: str,
    how: tuple[str, tuple[int, bytes]],
    homes: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Elsewhere, "said", how[1])
    told = refused(capsys, homes[0], "hub", "join", elsewhere, how[0], "x")
    assert told["message"] == f"no hub answers at {elsewhere}"
    assert "check the address" in told["hint"]
    assert not list(homes[0].rglob("token"))


def test_what_a_hub_does_not_know_is_told_with_where_to_look_it_up(
    world: World, homes: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = homes
    told = refused(capsys, two, "hub", "join", world.url, "--token", "vade_" + "x" * 43)
    assert told["message"] == "the hub does not take this token"
    assert "`vade hub token add`" in told["hint"]
    vade(capsys, one, "hub", "join", world.url, "--code", invited(world))
    for name in ("zoe", "11111111-1111-1111-1111-111111111111"):
        told = refused(capsys, one, "hub", "revoke", name)
        assert told["message"] == f"this workspace has no member and no token {name}"
        assert told["hint"] == "`vade hub members` and `vade hub token list` list them"


def test_a_home_that_has_the_key_joins_again_without_being_asked_for_it(
    world: World, homes: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    vade(capsys, homes[0], "hub", "join", world.url, "--code", invited(world, "personal"))
    vade(capsys, homes[0], "add", "Deploys run on Fridays.", "--key", "deploys", "--scope", "global")
    vade(capsys, homes[0], "sync")
    code = vade(capsys, homes[0], "hub", "invite")["code"]
    again = vade(capsys, homes[0], "hub", "join", world.url, "--code", code)
    assert (again["name"], again["key"]) == ("ours", None)
    assert vade(capsys, homes[0], "sync")["places"][0]["sent"] == 0


@pytest.mark.full
def test_a_workspace_that_was_never_synced_is_not_said_to_have_been_sent(
    world: World, homes: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = homes
    key = vade(capsys, one, "hub", "join", world.url, "--code", invited(world, "personal"))["key"]
    assert "  never synced; `vade sync` syncs\n" in shown(capsys, one, "hub", "status")
    vade(capsys, one, "add", "Deploys run on Fridays.", "--key", "deploys", "--scope", "global")
    vade(capsys, one, "sync")
    assert ", everything was sent\n" in shown(capsys, one, "hub", "status")
    code = vade(capsys, one, "hub", "invite")["code"]
    refused(capsys, two, "hub", "join", world.url, "--code", code, "--key", "0" * 26)
    lacks = f"  its key is not here: `vade hub join {world.url}` asks for it\n"
    assert lacks in shown(capsys, two, "hub", "status")
    vade(capsys, two, "hub", "join", world.url, "--key", key)
    assert lacks not in shown(capsys, two, "hub", "status")


def shown(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> str:
    """What a command prints for a person."""
    assert run([*words, "--home", str(home)]) == 0
    return capsys.readouterr().out


def test_who_mistypes_whom_to_trust_is_asked_again_and_has_joined_anyway(
    world: World,
    homes: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = homes
    vade(capsys, one, "hub", "join", world.url, "--code", invited(world))
    codes = [
        vade(capsys, one, "hub", "invite", name, "--role", "editor")["code"] for name in ("bert", "cleo")
    ]
    told = refused(capsys, two, "hub", "join", world.url, "--code", codes[0], "--inject-from", "zoe")
    assert told["message"] == "you joined ours, and zoe is not an editor or owner of this workspace"
    answers = iter(["zoe", "anna, zoe", "anna"])
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(answers))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert run(["hub", "join", world.url, "--code", codes[1], "--home", str(two)]) == 0
    said = capsys.readouterr()
    assert "joined the team workspace ours as cleo (editor)" in said.out
    assert said.err.count("zoe is not an editor or owner of this workspace") == 2
    assert vade(capsys, two, "hub", "rules")["inject_from"] == ["anna"]


@pytest.fixture
def both(
    world: World, homes: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[Path, Path]:
    """A home that has a shared folder and has joined a personal workspace, and the folder."""
    (tmp_path / "carrier").mkdir()
    vade(capsys, homes[0], "add", "Deploys run on Fridays.", "--key", "deploys", "--scope", "global")
    vade(capsys, homes[0], "sync", "--folder", str(tmp_path / "carrier"))
    vade(capsys, homes[0], "hub", "join", world.url, "--code", invited(world, "personal"))
    return homes[0], tmp_path / "carrier"


def test_a_home_with_a_folder_and_a_hub_syncs_with_both_and_says_which_is_which(
    both: tuple[Path, Path], world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    home, carrier = both
    said = shown(capsys, home, "sync").splitlines()
    assert re.fullmatch(r"ours global: \d changes sent, 0 received", said[0])
    assert said[1:] == ["folder: nothing new"]
    vade(capsys, home, "add", "Coffee is in the kitchen.", "--key", "coffee", "--scope", "global")
    told = vade(capsys, home, "sync")
    assert (told["folder"], told["hub"]) == (str(carrier), told["hub"])
    assert [each["sent"] > 0 for each in told["places"] if each["place"] == "global"] == [True, True]
    assert shown(capsys, home, "sync").splitlines() == ["ours: nothing new", "folder: nothing new"]
    assert shown(capsys, home, "sync", "--workspace", "ours") == "ours: nothing new\n"
    carrier.rename(carrier.with_name("away"))
    vade(capsys, home, "add", "Tea is, too.", "--key", "tea", "--scope", "global")
    assert run(["sync", "--home", str(home)]) == 1
    printed = capsys.readouterr()
    assert re.fullmatch(r"ours global: \d changes sent, 0 received\n", printed.out)
    assert printed.err.startswith("vade: folder: ")
    assert printed.err.count("\n") == 1
    world.sql("UPDATE hub.token SET revoked_at = now()")
    assert run(["sync", "--home", str(home)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [each.split(":")[1] for each in printed.err.splitlines()] == [" ours", " folder"]
    assert "nothing is lost" in printed.err


@pytest.mark.full
def test_a_purge_says_of_each_place_that_it_reached_on_how_many_machines_and_of_no_other(
    both: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    home, _ = both
    shown(capsys, home, "sync")
    vade(capsys, home, "add", "The safe is open.", "--key", "safe", "--scope", "global")
    shown(capsys, home, "sync")
    assert purged(capsys, home, "safe") == [
        "folder: purged on 1 of 1 machine",
        "ours: purged on 1 of 1 machine",
    ]
    vade(capsys, home, "add", "Nobody else has this.", "--key", "unsent", "--scope", "global")
    assert purged(capsys, home, "unsent") == []


def purged(capsys: pytest.CaptureFixture[str], home: Path, key: str) -> list[str]:
    """What a purge says of other machines."""
    assert run(["purge", key, "--yes", "--home", str(home)]) == 0
    return [each.removeprefix("vade: ") for each in capsys.readouterr().err.splitlines()]


DEPLOY = ROOT / "docs" / "deploy"


@pytest.mark.parametrize("name", ["compose.yaml", "kubernetes.yaml"])
def test_the_sketches_of_a_deployment_are_yaml_and_start_the_hub_with_options_that_exist(name: str) -> None:
    text = (DEPLOY / name).read_text()
    documents = list(yaml.safe_load_all(text))
    assert all(isinstance(each, dict) for each in documents)
    command = re.search(r"vade (hub serve[^\"]*)\"", text)
    assert command is not None
    known = {option for each in hub_commands.serve.params for option in each.opts}
    assert {word for word in command[1].split() if word.startswith("--")} <= known
    assert "not run by our tests" in text
