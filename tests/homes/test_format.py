"""The number of a home's format: written with the first thing that is kept, and what a newer one allows."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from hooks.calls import World, wait_until
from mcp_door.talking import call, home_of, in_process, refusal, talk
from vademecum.errors import Malformed, NewerFormat, StorageFailed
from vademecum.interfaces.cli.app import run
from vademecum.memory import connect
from vademecum.store.folders import Folder
from vademecum.store.home import FORMAT
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vademecum.memory import Memory


def opened(base: Path, origin: Origin = Origin.USER) -> Memory:
    (base / "project").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "project", origin=origin, session="s", environ={})


def newer(base: Path) -> Memory:
    """A home with a few things in it that a newer version has taken over."""
    memory = opened(base)
    memory.store("Use pytest.", key="testing")
    memory.note("A note.")
    (base / "home/format").write_text(f"{FORMAT + 1}\n")
    return opened(base)


def truth(home: Path) -> dict[str, str]:
    """Every file that is not derived, by its hash."""
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(home.rglob("*"))
        if path.is_file() and path.relative_to(home).parts[0] not in ("index", "locks", "hooks", "hooks.log")
        if not path.name.startswith("state.db")
    }


def test_the_first_thing_that_is_kept_writes_the_number_of_the_format(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    assert memory.list().records == ()
    assert not (tmp_path / "home/format").exists()
    memory.store("Use pytest.", key="testing")
    assert (tmp_path / "home/format").read_text() == f"{FORMAT}\n"


def test_a_home_that_says_no_number_is_of_the_first_format_and_gets_it_with_the_next_write(
    tmp_path: Path,
) -> None:
    memory = opened(tmp_path)
    memory.store("Use pytest.", key="testing")
    (tmp_path / "home/format").unlink()
    assert opened(tmp_path).home.format == 1
    assert opened(tmp_path).status().findings == ()
    opened(tmp_path).note("A note.")
    assert (tmp_path / "home/format").read_text() == f"{FORMAT}\n"


def test_a_home_of_an_earlier_format_is_read_as_it_is_and_raised_with_the_next_write(tmp_path: Path) -> None:
    opened(tmp_path).store("Use pytest.", key="testing")
    (tmp_path / "home/format").write_text("1\n")
    before = truth(tmp_path / "home")
    assert opened(tmp_path).show("testing").text == "Use pytest."
    assert truth(tmp_path / "home") == before
    opened(tmp_path).note("A note.")
    assert (tmp_path / "home/format").read_text() == f"{FORMAT}\n"
    changed = {name for name, mark in truth(tmp_path / "home").items() if before.get(name, mark) != mark}
    assert not [name for name in changed if name.startswith("memory/")]


WRITES: dict[str, Callable[[Memory], object]] = {
    "store": lambda memory: memory.store("Use tox.", key="tox"),
    "append": lambda memory: memory.store("Use tox.", key="testing"),
    "note": lambda memory: memory.note("Another note."),
    "learn": lambda memory: memory.knowledge.learn("discovery", fact="The cache is warm"),
    "forget": lambda memory: memory.forget("testing"),
    "protect": lambda memory: memory.review.protect("testing"),
    "verify": lambda memory: memory.review.verify("testing"),
    "clear": lambda memory: memory.archive.clear(scope="project"),
    "sweep": lambda memory: memory.care.sweep(apply=True),
    "heal": lambda memory: memory.care.heal(apply=True),
    "undo": lambda memory: memory.care.undo(),
    "init": lambda memory: memory.projects.init(),
    "purge": lambda memory: memory.archive.purge("testing"),
    "edit": lambda memory: memory.care.edited("MEMORY.md", "", "# Me\n"),
    "session": lambda memory: memory.sessions.new(name="one"),
    "propose": lambda memory: memory.requests.propose("note", {"text": "x"}, scope="project", door="mcp"),
    "provider file": lambda memory: memory.injection.write_file("claude-code"),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_newer_format_is_refused_for_writing_with_the_way_on(tmp_path: Path, name: str) -> None:
    memory = newer(tmp_path)
    before = truth(tmp_path / "home")
    with pytest.raises(NewerFormat, match=rf"newer vade \(format {FORMAT + 1}") as refused:
        WRITES[name](memory)
    assert "upgrade" in refused.value.hint
    assert truth(tmp_path / "home") == before
    assert not (tmp_path / "project/CLAUDE.md").exists()


def test_a_newer_format_is_read(tmp_path: Path) -> None:
    memory = newer(tmp_path)
    before = truth(tmp_path / "home")
    assert memory.show("testing").text == "Use pytest."
    assert memory.search("pytest").results[0].key == "testing"
    assert memory.recall("pytest").results[0].key == "testing"
    assert "Use pytest." in memory.injection.block().text
    assert memory.get("testing").text
    assert memory.care.lint() is not None
    assert memory.care.sweep().proposals == ()
    assert memory.care.sweep_if_due() is not None  # tried, refused, and nobody's work ends with it
    [told] = [each for each in memory.status().findings if each.what == "format"]
    assert told.severity == "error"
    assert truth(tmp_path / "home") == before


@pytest.mark.parametrize("content", [b"two\n", b"-1", b"0", b"1.5", b"\xff\xfe", b"9" * 40])
def test_a_number_that_is_none_is_told_and_nothing_is_written(tmp_path: Path, content: bytes) -> None:
    opened(tmp_path).store("Use pytest.", key="testing")
    (tmp_path / "home/format").write_bytes(content)
    memory = opened(tmp_path)
    assert memory.show("testing").text == "Use pytest."
    assert "format" in [each.what for each in memory.status().findings]
    with pytest.raises(Malformed, match="does not contain a number"):
        memory.store("Use tox.", key="tox")
    assert (tmp_path / "home/format").read_bytes() == content


def test_a_number_behind_a_link_or_in_a_folder_is_told(tmp_path: Path) -> None:
    opened(tmp_path).store("Use pytest.", key="testing")
    path = tmp_path / "home/format"
    path.unlink()
    path.mkdir()
    with pytest.raises(Malformed, match="cannot be read"):
        opened(tmp_path).note("A note.")
    path.rmdir()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Malformed, match="cannot be read"):
        opened(tmp_path).note("A note.")
    assert [each.what for each in opened(tmp_path).status().findings] == ["format"]


def test_a_disk_that_fails_is_told_as_one_and_not_as_a_wrong_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).store("Use pytest.", key="testing")
    real = Folder.open

    def failing(self: Folder, name: str, flags: int, mode: int = 0o600) -> int:
        if name == "format":
            raise OSError(5, "Input/output error")
        return real(self, name, flags, mode)

    monkeypatch.setattr(Folder, "open", failing)
    with pytest.raises(StorageFailed, match=r"cannot read .*format: Input/output error"):
        opened(tmp_path).note("A note.")
    assert [each.what for each in opened(tmp_path).status().findings] == ["format"]


def test_the_command_line_says_it_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    newer(tmp_path)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    assert run(["add", "Use tox."]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"newer vade (format {FORMAT + 1}" in said
    assert "uv tool upgrade vademecum" in said
    assert run(["list"]) == 0
    assert "testing" in capsys.readouterr().out
    assert run(["doctor"]) == 1
    assert "newer vade" in capsys.readouterr().out


def test_an_agent_is_told_and_can_still_search(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    connect(home=home_of(folder), cwd=folder, origin=Origin.USER).store("Use pytest.", key="testing")
    (home_of(folder) / "format").write_text(f"{FORMAT + 1}\n")

    async def conversation() -> None:
        async with in_process(folder) as client:
            assert "newer vade" in await refusal(client, "memory_store", {"content": "Use tox."})
            assert "newer vade" in await refusal(client, "memory_note", {"content": "Use tox."})
            found = await call(client, "memory_search", query="pytest")
            assert found["results"]

    talk(conversation)


def test_hooks_answer_and_what_they_would_keep_is_refused_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World.at(tmp_path)
    monkeypatch.setenv("HOME", str(world.person))
    world.memory().store("Use pytest.", key="testing")
    (world.home / "format").write_text(f"{FORMAT + 1}\n")
    before = truth(world.home)
    assert "Use pytest." in world.call("claude-code", "session-start", {"session_id": "s"}).context
    said = world.call(
        "claude-code", "stop", {"session_id": "one", "transcript_path": str(world.transcript())}
    )
    assert (said.code, said.out) == (0, b"")
    wait_until(world.failures)
    assert "this memory folder was written by a newer version" in world.failures()[-1]
    assert truth(world.home) == before
