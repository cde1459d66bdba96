"""An installation that was killed, or failed, leaves nothing behind once the next one is done."""

from __future__ import annotations

import os
import random
import signal
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import tiers
from faults.syscalls import Call, Tap
from vademecum.interfaces.cli.app import run
from vademecum.store import folders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts the calls of Linux")

SHARE = tiers.few(3, 16)  # points of each agent
WRITTEN = {
    "claude-code": {
        ".claude/settings.json": '{\n\t// mine\n\t"theme": "dark"\n}\n',
        ".claude/CLAUDE.md": "# Mine\n",
        ".claude.json": '{"numStartups": 3}',
    },
    "codex": {".codex/config.toml": 'model = "o3"  # the best\n'},
    "opencode": {".config/opencode/opencode.json": '{"model": "x/y"}'},
    "copilot": {".copilot/mcp-config.json": '{"mcpServers": {}}'},
    "amp": {".config/amp/settings.json": '{"amp.showCosts": false}'},
}


class Person:
    """A person's home folder with an agent's files in it."""

    def __init__(self, top: Path, agent: str) -> None:
        self.top, self.agent = top, agent
        for name, text in WRITTEN[agent].items():
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.before = self.files()

    def files(self) -> dict[str, bytes | None]:
        """Everything but the memory itself, folders too."""
        return {
            str(path.relative_to(self.top)): path.read_bytes() if path.is_file() else None
            for path in self.top.rglob("*")
            if ".vade" not in path.parts
        }

    def leftovers(self) -> list[str]:
        """What killed writers left, of the person's and in the memory."""
        return [str(path) for path in self.top.rglob(".vade-*")]

    def kept(self) -> int:
        return len(list((self.top / ".vade" / "backups").iterdir()))


def ends_at(point: int, how: Callable[[], Any]) -> Callable[[Call], Any]:
    left = point

    def around(call: Call) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            how()
        return call.run()

    return around


def in_a_child(words: list[str], around: Callable[[Call], Any], top: Path) -> int:
    """Run a command in a child of its own, and say how it ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # xdist has threads; the child never meets them
        child = os.fork()
    if child == 0:
        code = 99
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            folders._cleared.clear()  # as a fresh process, which looks once for what dead ones left
            with Tap(around, root=os.fspath(top)):
                code = run(words)
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Person]:
    def made(name: str, agent: str) -> Person:
        top = tmp_path / name
        (top / "project" / ".git").mkdir(parents=True)
        monkeypatch.setenv("HOME", str(top))
        monkeypatch.chdir(top / "project")
        return Person(top, agent)

    return made


def calls_of(words: list[str], top: Path) -> int:
    with Tap(root=os.fspath(top)) as tap:
        assert run(words) == 0
    return len(tap.trace)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.full(but=1)
@pytest.mark.scaled
@pytest.mark.parametrize("how", [kill, fail])
@pytest.mark.parametrize("agent", WRITTEN)
def test_what_was_left_at_any_point_is_gone_after_the_next_one(
    home: Callable[[str, str], Person], agent: str, how: Callable[[], Any]
) -> None:
    words = ["install", agent]
    whole = home("whole", agent)
    count = calls_of(words, whole.top)
    expected, backups = whole.files(), whole.kept()
    ended = set()
    for number in sorted(random.Random(17).sample(range(count), min(SHARE, count))):
        person = home(f"at-{number}", agent)
        ended.add(in_a_child(words, ends_at(number, how), person.top) == 0)
        assert in_a_child(words, lambda call: call.run(), person.top) == 0
        assert person.leftovers() == [], number
        assert person.files() == {
            name: text and text.replace(b"/whole/", f"/at-{number}/".encode())
            for name, text in expected.items()
        }
        assert person.kept() == backups, number
        assert in_a_child(["uninstall", agent], lambda call: call.run(), person.top) == 0
        assert person.files() == person.before, number
        assert person.leftovers() == []
    assert False in ended, "none was interrupted"


def test_what_was_left_beside_files_that_are_whole_goes_too(home: Callable[[str, str], Person]) -> None:
    person = home("one", "claude-code")
    assert run(["install", "claude-code"]) == 0
    for folder in (".claude", ".vade/backups", ".vade/installs"):
        (person.top / folder / ".vade-999999-0-abcd-settings.json.tmp").write_text("half")
    folders._cleared.clear()
    assert run(["install", "claude-code"]) == 0
    assert person.leftovers() == []
