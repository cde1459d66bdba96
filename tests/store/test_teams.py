"""A team's folder in a home: found where the place's own memory is, and written only when asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from http_door.in_process import made
from vademecum.errors import NotFound, UsageError
from vademecum.interfaces.cli.app import run
from vademecum.memory import Memory, connect
from vademecum.store import archive, scopes, teams
from vademecum.store.home import Home
from vademecum.types import Origin, Place, Scope

if TYPE_CHECKING:
    from pathlib import Path

WORKSPACE = "11111111-2222-3333-4444-555555555555"


def joined(base: Path, name: str = "ours", workspace: str = WORKSPACE, **more: object) -> None:
    folder = base / "home/hub" / workspace
    folder.mkdir(parents=True, exist_ok=True)
    told = {"url": "https://hub.example", "workspace": workspace, "name": name, "kind": "team"}
    own = {"member": "bert", "role": "writer", "replica": "aaaaaaaa"}
    (folder / "workspace.json").write_text(json.dumps({**told, **own, **more}))


def opened(base: Path) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    environ = {"VADE_PROJECT_ID": "api"}
    return connect(home=base / "home", cwd=base / "work", origin=Origin.USER, environ=environ)


def write(base: Path, key: str, text: str, origin: str, *, applied: int = 0) -> None:
    folder = base / "home/memory/hub" / WORKSPACE / "project/api/records"
    folder.mkdir(parents=True, exist_ok=True)
    said = f"## 2026-01-01T00:00:00Z\n{text}\n<!-- origin: {origin} | by: anna | id: aaaaaaaaaa -->\n"
    (folder / f"{key}.md").write_text(f"---\ntype: project\n---\n# {key}\n\n{said}")
    logs = base / "home/hub" / WORKSPACE / "logs/project%2Fapi"
    logs.mkdir(parents=True, exist_ok=True)
    if applied:
        (logs / "log.jsonl").write_text('{"replica": "aaaaaaaa"}\n')
        (logs / "state.json").write_text(json.dumps({"applied": applied, "applying": []}))


def test_a_teams_records_come_after_ones_own_and_private_ones_stay_apart(tmp_path: Path) -> None:
    joined(tmp_path)
    memory = opened(tmp_path)
    memory.store("Mine.", key="mine")
    stored = memory.store("For all.", key="shared", team="ours")
    assert stored.path == f"memory/hub/{WORKSPACE}/project/api/records/shared.md"
    assert (stored.team, memory.show("shared").team, memory.show("mine").team) == ("ours", "ours", "")
    assert [each.key for each in memory.list().records] == ["mine", "shared"]
    scope_folders = scopes.scope_folders(memory.home, memory.caller, Place(Scope.PROJECT, "api"))
    assert [each.team for each in scope_folders] == ["", "ours"]
    mode = (tmp_path / "home" / stored.path).stat().st_mode & 0o777
    assert mode == 0o600
    assert memory.store("Mine too.", key="shared").team == "ours"  # it is the record of that key
    with pytest.raises(NotFound, match="no team other"):
        memory.store("X.", key="x", team="other")
    with pytest.raises(UsageError, match="session memory is not shared"):
        memory.store("X.", key="x", team="ours", scope="session")


def test_a_text_that_resembles_a_teams_is_not_told_to_the_team(tmp_path: Path) -> None:
    joined(tmp_path)
    memory = opened(tmp_path)
    memory.store("Deploys happen on Fridays at noon.", key="deploys", team="ours")
    assert memory.store("Deploys happen on Fridays at noon!").team == ""
    joined(tmp_path, rules={"write": "team"})
    assert memory.store("A new thing altogether, for everybody.").team == "ours"
    assert memory.store("In global memory it is mine.", scope="global").team == ""


def test_what_a_file_claims_holds_only_where_a_log_has_shown_it(tmp_path: Path) -> None:
    joined(tmp_path)
    memory = opened(tmp_path)
    for origin in ("user", "agent", "member:anna"):
        write(tmp_path, origin.partition(":")[0], f"By {origin}.", origin)
    read = {each.key: str(each.entries[0].origin) for each in memory.list().records}
    assert read == {"user": "external", "agent": "external", "member": "member:anna"}
    write(tmp_path, "user", "By user.", "user", applied=3)
    read = {each.key: str(each.entries[0].origin) for each in memory.list().records}
    assert read == {"user": "user", "agent": "agent", "member": "member:anna"}
    block = memory.injection.block().text
    assert "By user." in block
    assert "By member" not in block


def test_searches_lists_and_pages_say_which_team_and_which_member(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    joined(tmp_path)
    write(tmp_path, "deploys", "Deploys happen on Fridays.", "member:anna", applied=1)
    opened(tmp_path)
    monkeypatch.setenv("VADE_PROJECT_ID", "api")
    monkeypatch.chdir(tmp_path / "work")
    for words in (["find", "deploys"], ["list"], ["show", "deploys"]):
        assert run([*words, "--home", str(tmp_path / "home")]) == 0
        assert "team:ours" in capsys.readouterr().out, words
    for words in (["find", "deploys"], ["show", "deploys"]):
        assert run([*words, "--home", str(tmp_path / "home")]) == 0
        assert "member:anna" in capsys.readouterr().out, words
    assert run(["check", "--home", str(tmp_path / "home")]) in (0, 1)
    capsys.readouterr()
    assert run(["add", "Another.", "--key", "more", "--team", "ours", "--home", str(tmp_path / "home")]) == 0
    assert "saved as more (#1, project, team:ours)" in capsys.readouterr().out


def test_two_teams_of_one_name_are_told_apart_by_their_ids_and_a_broken_one_is_left_out(
    tmp_path: Path,
) -> None:
    other, broken = WORKSPACE.replace("1", "2"), WORKSPACE.replace("1", "3")
    joined(tmp_path)
    joined(tmp_path, workspace=other)
    joined(tmp_path, "alone", workspace=WORKSPACE.replace("1", "4"), kind="personal")
    (tmp_path / "home/hub" / broken).mkdir()
    (tmp_path / "home/hub" / broken / "workspace.json").write_text("{")
    home = Home(tmp_path / "home")
    assert [each.workspace for each in teams.list_teams(home)] == [WORKSPACE, other]
    with pytest.raises(UsageError, match="2 teams are called ours"):
        teams.find_team(home, "ours")
    assert teams.find_team(home, other).workspace == other
    joined(tmp_path, "renamed", workspace=other)
    assert [each.name for each in teams.list_teams(home)] == ["ours", "renamed"]


def test_the_archive_of_a_teams_files_is_apart_and_purge_finds_them(tmp_path: Path) -> None:
    joined(tmp_path)
    memory = opened(tmp_path)
    memory.store("The old word is quicksilver.", key="word", team="ours")
    memory.forget("word")
    assert not memory.list().records
    assert memory.restore("word").team == "ours"
    [area] = (tmp_path / "home/archive/hub").iterdir()
    scope_folder = teams.team_folder(
        memory.home, teams.find_team(memory.home, "ours"), Place(Scope.PROJECT, "api")
    )
    assert archive.area(scope_folder) == ("hub", area.name)
    assert archive.scope_of(archive.area(scope_folder)) == "project"


def test_the_page_says_which_team_shares_a_record(tmp_path: Path) -> None:
    place = made(tmp_path)
    joined(tmp_path)
    with connect(home=place.home, cwd=place.folder, origin=Origin.USER) as memory:
        memory.store("Deploys happen on Fridays.", key="deploys", team="ours", scope="global")
        memory.store("Mine alone.", key="mine", scope="global")
    person = place.person()
    for path in ("/memories", "/records/deploys", "/search?q=deploys"):
        page = person.http.get(f"{person.door}{path}", headers=person.headers)
        assert page.status_code == 200, path
        assert "team:ours" in page.text, path
    assert "team:" not in person.http.get(f"{person.door}/records/mine", headers=person.headers).text
