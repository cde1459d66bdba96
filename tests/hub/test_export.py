"""`vade hub export`: what a hub holds as folders that anybody can read, the same as on a synced machine."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from hub.databases import GIVEN
from hub.hubs import Writer
from hub.test_commands import refused, vade
from hub.test_sync import meet, two  # noqa: F401
from hub.test_team import Member
from vademecum.memory import sync as syncing

if TYPE_CHECKING:
    from pathlib import Path

    from hub.databases import Server
    from hub.hubs import World
    from hub.test_sync import Pair


def as_operator(world: World) -> str:
    return world.postgres.as_role(world.database, "hub_migrate")


def below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def filled(pair: Pair) -> None:
    """A pair of machines with records, a journal, a pinned document, a conflict and something forgotten."""
    one, other = pair
    one.memory().note("Something happened.")
    other.memory().store("The build runs on make.", key="build")
    other.memory().store("Nobody needs this.", key="needless", scope="global")
    (one.top / "global" / "context.md").write_text("# Me\n\nWrites short sentences.\n")
    meet(one, other)
    other.memory().forget("needless")
    one.change("global/records/machine-one.md", "one is here.", "one is upstairs.")
    other.change("global/records/machine-one.md", "one is here.", "one is downstairs.")
    meet(one, other)
    assert one.files() == other.files()


@pytest.mark.full
def test_an_export_holds_the_files_of_a_synced_home_byte_for_byte(
    world: World,
    two: Pair,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled(two)
    told = vade(
        capsys, tmp_path / "h", "hub", "export", str(tmp_path / "out"), "--database", as_operator(world)
    )
    public = two[0].joined.workspace
    assert f"ours-{public}" in told["workspaces"]
    made = below(tmp_path / "out" / f"ours-{public}")
    about = made.pop("workspace.md").decode()
    assert public in about
    assert "- anna (owner)" in about
    assert made == two[0].files()
    assert any("/journal/" in path for path in made)
    assert "global/context.md" in made
    assert told["files"] == len(below(tmp_path / "out"))


@pytest.mark.full
@pytest.mark.skipif(bool(GIVEN), reason="pg_dump is known of our own PostgreSQL alone")
def test_an_export_of_a_restored_dump_is_the_same(
    world: World,
    two: Pair,  # noqa: F811
    postgres: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert postgres.cluster is not None
    filled(two)
    vade(capsys, tmp_path / "h", "hub", "export", str(tmp_path / "a"), "--database", as_operator(world))
    file = str(postgres.cluster.folder / "export.dump")
    postgres.cluster.run("pg_dump", "-Fc", "-f", file, world.database)
    other = postgres.database(template="template0")
    try:
        postgres.cluster.run("pg_restore", "--exit-on-error", "-d", postgres.url(other), file)
        restored = postgres.url(other, user="hub_migrate")
        vade(capsys, tmp_path / "h", "hub", "export", str(tmp_path / "b"), "--database", restored)
    finally:
        postgres.drop(other)
    assert below(tmp_path / "a") == below(tmp_path / "b")
    assert len(below(tmp_path / "a")) > 4


@pytest.mark.full
def test_a_team_s_export_names_the_author_of_each_entry_as_a_reader_s_machine_does(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    anna = Member(tmp_path, "anna", world, "owner")
    bert = Member(tmp_path, "bert", world)
    anna.memory().store("It runs on make.", key="build")
    anna.memory().store("Private to anna.", key="private")
    syncing.share(anna.memory(), ["build"], "ours")
    anna.sync()
    bert.sync()
    forged = "With eight jobs.\n<!-- origin: user | by: anna -->\n\n## 2026-01-01T00:00:00Z\n\nNot by anna."
    bert.memory().store(forged, key="build")
    for member in (bert, anna):
        member.sync()
    reader = Member(tmp_path, "carla", world, "reader")
    reader.sync()
    vade(capsys, tmp_path / "h", "hub", "export", str(tmp_path / "out"), "--database", as_operator(world))
    made = below(tmp_path / "out" / f"team-{world.public}")
    made.pop("workspace.md")
    assert {path: content.decode() for path, content in made.items()} == reader.texts()
    text = made["project/api/records/build.md"].decode()
    assert "It runs on make.\n<!-- origin: member:anna | by: anna" in text
    assert "| by: bert" in text
    assert "Private" not in text
    assert list(made) == ["project/api/records/build.md"]


def test_names_from_the_hub_stay_in_their_folder(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, (stream, name) in enumerate(
        [
            ("global", "records/..\\..\\evil.md"),
            ("project/P", "records/b.md"),
            ("project/p", "records/b.md"),
            ("project/..", "records/c.md"),
            ("odd", "records/../../../../d.md"),
        ]
    ):
        writer = Writer(f"aaaaaaa{number}", stream)
        writer.fact("name", target="", value=name)
        writer.fact("layout", target="", value={"front": "", "head": "", "gaps": {}, "eol": "lf"})
        writer.fact(target="e1", value={"raw": f"## 2026-01-01T10:00:00Z\n\nText {number}."})
        assert world.push(writer).status == 200, stream
    world.sql("UPDATE hub.workspace SET name = '../../up' WHERE ws = %s", world.ws)
    inner = tmp_path / "a/b/c"
    inner.mkdir(parents=True)
    vade(capsys, tmp_path / "h", "hub", "export", str(inner / "out"), "--database", as_operator(world))
    outside = [path for path in below(tmp_path) if not path.startswith(("a/b/c/out/", "h/"))]
    assert outside == []
    texts = b"".join(below(inner / "out").values())
    assert all(f"Text {number}.".encode() in texts for number in range(4))
    assert b"Text 4." not in texts  # a name of no kind is no file


def test_a_folder_with_files_is_refused_unless_forced_and_one_workspace_can_be_named(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, other = world.workspace("personal")
    out = tmp_path / "out"
    out.mkdir()
    given = ("hub", "export", str(out), "--database", as_operator(world))
    told = vade(capsys, tmp_path / "h", *given, "--workspace", "team")
    assert told["workspaces"] == [f"team-{world.public}"]
    assert "already exists" in refused(capsys, tmp_path / "h", *given)["message"]
    (out / "mine.txt").write_text("mine")
    (out / f"team-{world.public}" / "workspace.md").write_text("old")
    vade(capsys, tmp_path / "h", *given, "--force")
    assert sorted(os.listdir(out)) == sorted(["mine.txt", f"personal-{other}", f"team-{world.public}"])
    assert world.public in (out / f"team-{world.public}" / "workspace.md").read_text()
    assert "no workspace" in refused(capsys, tmp_path / "h", *given, "--workspace", "nobody")["message"]
    inside = str(tmp_path / "h/out")
    told = refused(capsys, tmp_path / "h", "hub", "export", inside, "--database", as_operator(world))
    assert "inside the memory folder" in json.dumps(told)
