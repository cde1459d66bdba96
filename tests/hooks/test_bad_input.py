"""Whatever comes in, an agent gets 0, an answer or nothing, and its owner finds out why."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from hooks.calls import World, wait_until
from vademecum.errors import NotFound, NotVisible, OutsideMemory
from vademecum.store import hook_log

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"{",
        b"[1, 2]",
        b"null",
        b"\xff\xfe\x00",
        b"[" * 5000,
        b'{"prompt": 7, "cwd": [], "session_id": {}}',
    ],
    ids=["nothing", "cut off", "a list", "null", "no text", "deep", "wrong types"],
)
@pytest.mark.parametrize("event", ["session-start", "user-prompt", "pre-compact"])
def test_any_input_is_survived(world: World, event: str, given: bytes) -> None:
    world.home.mkdir()
    said = world.call("claude-code", event, given)
    assert (said.code, said.out) == (0, b"")


def test_what_cannot_be_read_is_in_the_log_and_in_the_status(world: World) -> None:
    world.memory().store("something", key="something")
    world.call("claude-code", "user-prompt", b'{"prompt": "my secret plans')
    (line,) = wait_until(world.failures)
    assert line.split("\t")[1:] == ["claude-code", "user-prompt", "standard input is not JSON"]
    (told,) = [each for each in world.memory().status().findings if each.what == "hook"]
    assert "1 of 1 hooks" in told.why
    assert "claude-code user-prompt at" in told.why
    assert told.severity == "error"
    assert "standard input is not JSON" in told.why


@pytest.mark.parametrize(
    ("agent", "event"), [("claude-code", "tea-time"), ("emacs", "stop"), ("cursor", "stop")]
)
def test_a_hook_nobody_knows_is_survived_and_written_down(world: World, agent: str, event: str) -> None:
    world.home.mkdir()
    assert world.call(agent, event, {}).code == 0
    assert wait_until(world.failures)[0].split("\t")[1:3] == [agent, event]


def test_a_home_that_is_not_there_is_not_made(world: World) -> None:
    for event in ("session-start", "user-prompt"):
        assert world.call("claude-code", event, {"session_id": "s", "prompt": "what of it?"}).out == b""
    assert not world.home.exists()


@pytest.mark.full(but=1)
@pytest.mark.parametrize("what", ["nothing", "empty", "a file", "no variable"])
def test_a_home_folder_without_a_configuration_is_survived(world: World, tmp_path: Path, what: str) -> None:
    """The agent's folder and the memory are both below HOME, and neither is there."""
    person = tmp_path / "somebody"
    if what == "empty":
        person.mkdir()
    elif what == "a file":
        person.write_text("no folder")
    environ = {"HOME": "" if what == "no variable" else str(person), "VADE_HOME": ""}
    gone = {"session_id": "s", "prompt": "what of it?", "transcript_path": str(person / "gone.jsonl")}
    for event in ("session-start", "user-prompt", "pre-compact", "stop", "session-end"):
        for agent in ("claude-code", "gemini"):
            said = world.call(agent, event, gone, **environ)
            assert (said.code, said.err) == (0, b""), (agent, event)
            assert said.out == b"" or what == "no variable"  # which is the home of whoever runs this
    if what == "a file":
        assert person.read_text() == "no folder"
    else:
        assert not list(person.rglob("memory"))


def test_a_memory_without_a_configuration_is_told_and_kept_with_the_defaults(world: World) -> None:
    world.memory().store("Use pytest.", key="testing")
    assert not (world.home / "config.toml").exists()
    path = str(world.transcript())
    given = {"session_id": "s", "transcript_path": path}
    assert "Use pytest." in world.call("claude-code", "session-start", given, VADE_HOME="").context
    world.call("claude-code", "stop", given, VADE_HOME="")
    assert "parse.py" in wait_until(world.logs)[0].read_text()
    assert not (world.home / "config.toml").exists()


def test_a_home_that_is_a_file_is_survived(world: World) -> None:
    world.home.write_text("no folder")
    for event in ("session-start", "stop", "pre-compact"):
        assert world.call("claude-code", event, {"transcript_path": str(world.transcript())}).code == 0
    assert world.home.read_text() == "no folder"


@pytest.mark.parametrize(
    "text", ["[limits\n", "future_option = 1\n", "[limits]\nhook_start = 'soon'\n", "\0"]
)
def test_with_a_mistake_in_the_settings_hooks_answer_and_the_log_says_so(world: World, text: str) -> None:
    world.memory().store("Use pytest.", key="testing")
    (world.home / "config.toml").write_text(text)
    assert "Use pytest." in world.call("claude-code", "session-start", {}).context
    assert "config.toml has an error" in wait_until(world.failures)[0]


@pytest.mark.parametrize(
    "text", ["[limits\n", "embedder = 'x'\n", "incognito = true\n", "agent = 'x'\n", "\0"]
)
def test_a_strangers_settings_do_not_keep_a_hook_from_answering(world: World, text: str) -> None:
    world.memory().store("Use pytest.", key="testing", scope="global")
    (world.project / ".vade").mkdir()
    (world.project / ".vade/config.toml").write_text(text)
    assert "Use pytest." in world.call("claude-code", "session-start", {}).context
    assert world.failures() == []


def test_a_folder_that_is_gone_is_survived(world: World) -> None:
    world.memory().store("everywhere", key="everywhere", scope="global")
    said = world.call("claude-code", "session-start", {"cwd": str(world.project / "gone")})
    assert "everywhere" in said.context


# -------------------------------------------------------------------- transcripts


def test_a_transcript_outside_of_the_agents_folder_is_refused(world: World, tmp_path: Path) -> None:
    world.home.mkdir()
    inside = world.transcript()
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(inside.read_bytes())
    link = inside.parent / "link.jsonl"
    link.symlink_to(outside)
    folder = inside.parent / "folder"
    folder.symlink_to(tmp_path)
    dots = inside.parent / ".." / ".." / ".." / ".." / "outside.jsonl"
    for path in (
        outside,
        link,
        folder / "outside.jsonl",
        dots,
        "relative.jsonl",
        "/etc/passwd",
        inside.parent,
    ):
        done = len(world.failures())
        world.call("claude-code", "stop", {"transcript_path": str(path)})
        wait_until(lambda done=done: len(world.failures()) > done)
        assert "OutsideMemory" in world.failures()[-1]
    assert not world.logs()
    with pytest.raises(OutsideMemory):
        world.memory().sessions.import_transcript(outside, agent="claude-code")


def test_another_agents_transcript_is_refused(world: World) -> None:
    path = world.transcript()
    with pytest.raises(OutsideMemory):
        world.memory().sessions.import_transcript(path, agent="codex")


def test_a_pipe_in_the_agents_folder_is_not_waited_for(world: World) -> None:
    pipe = world.transcript().parent / "pipe.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(OutsideMemory):
        world.memory().sessions.import_transcript(pipe, agent="claude-code")
    with pytest.raises(NotFound):
        world.memory().sessions.import_transcript(pipe.parent / "gone.jsonl", agent="claude-code")


def test_a_folder_that_a_variable_has_moved_is_the_agents_own(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    path = world.transcript()
    (world.person / ".claude").rename(moved)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(moved))
    done = world.memory().sessions.import_transcript(
        moved / path.relative_to(world.person / ".claude"), agent="claude-code"
    )
    assert done.outcome == "new"


def test_a_group_cannot_import_a_transcript(world: World) -> None:
    with pytest.raises(NotVisible):
        world.memory(audience="group").sessions.import_transcript(world.transcript(), agent="claude-code")


# -------------------------------------------------------------------- the log


def test_the_log_stays_small_and_holds_nobodys_words(tmp_path: Path) -> None:
    for number in range(4000):
        hook_log.write(tmp_path, agent="a\nb\x1b[31m", event="stop", why=f"why {number}\tand so on")
    sizes = [(tmp_path / name).stat().st_size for name in (hook_log.NAME, hook_log.OLDER)]
    assert max(sizes) <= hook_log.LARGEST + 300
    last = hook_log.last(tmp_path)
    assert last is not None
    assert (last.agent, last.why) == ("ab31m", "why 3999and so on")
    assert b"\x1b" not in (tmp_path / hook_log.NAME).read_bytes()


def test_a_log_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    home = tmp_path / "home"
    home.mkdir()
    (home / hook_log.NAME).symlink_to(target)
    hook_log.write(home, agent="a", event="stop", why="why")
    assert target.read_text() == "mine"


def test_no_escape_leaves_through_a_hook(world: World) -> None:
    world.memory().store("The colour is \x1b[31mred\x1b[0m\x1b]0;title\x07 and \x9b1m so on", key="colour")
    for agent, event in (("claude-code", "session-start"), ("kiro", "user-prompt")):
        said = world.call(agent, event, {"session_id": agent, "prompt": "What is the colour of it?"})
        text = (
            said.out.decode()
            if agent == "kiro"
            else json.loads(said.out)["hookSpecificOutput"]["additionalContext"]
        )
        assert "red" in text
        assert not {"\x1b", "\x9b", "\x07"} & set(text)
        assert b"\x1b" not in said.out


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such pipe")
def test_a_reader_that_has_gone_is_no_failure(world: World) -> None:
    import subprocess

    world.memory().store("something", key="something")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "vademecum", "hook", "claude-code", "session-start"],
        input=b"{}",
        stdout=write,
        env={**os.environ, "VADE_HOME": str(world.home)},
        cwd=world.project,
        check=False,
    )
    os.close(write)
    assert done.returncode == 0
