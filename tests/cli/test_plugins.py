"""Commands that other packages add to `vade`, and packages whose commands cannot be loaded."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from vademecum.interfaces.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    AddPackage = Callable[..., None]

HELLO = """
import click

@click.command()
@click.argument("name")
def hello(name):
    "Greet somebody."
    click.echo(f"hello {name}")
"""


@pytest.fixture
def add_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AddPackage]:
    """Put a package with a module and entry points where Python finds installed packages."""
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    added: list[str] = []

    def add(name: str, code: str, **commands: str) -> None:
        (site / f"{name}.py").write_text(code)
        information = site / f"{name}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{words.replace('_', '.')} = {name}:{place}\n" for words, place in commands.items()]
        (information / "entry_points.txt").write_text("[vademecum.commands]\n" + "".join(lines))
        added.append(name)

    yield add
    for name in added:
        sys.modules.pop(name, None)


def test_another_package_adds_a_command_and_one_below_the_hub(
    add_package: AddPackage, capsys: pytest.CaptureFixture[str]
) -> None:
    add_package("vade_hello", HELLO, hello="hello", hub_greet="hello")
    assert run(["hello", "Ada"]) == 0
    assert run(["hub", "greet", "Bert"]) == 0
    assert capsys.readouterr().out == "hello Ada\nhello Bert\n"
    assert run(["help", "all"]) == 0
    assert "From other packages:\n  hello  Greet somebody.\n" in capsys.readouterr().out
    assert run(["help", "hello"]) == 0
    assert "Usage: vade hello [OPTIONS] NAME" in capsys.readouterr().out
    assert run(["hub", "--help"]) == 0
    assert "greet    Greet somebody." in capsys.readouterr().out
    assert run(["helo", "Ada"]) == 2
    assert "Did you mean `vade hello`?" in capsys.readouterr().err


def test_a_command_of_the_core_is_not_replaced(
    add_package: AddPackage, capsys: pytest.CaptureFixture[str]
) -> None:
    add_package("vade_hello", HELLO, list="hello", hub_status="hello")
    assert run(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == []
    assert run(["hub", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workspaces"] == []
    assert run(["help", "all"]) == 0
    assert "Greet somebody." not in capsys.readouterr().out


BROKEN = {
    "a module that is missing": ("import no_such_module\n", "ModuleNotFoundError: No module named"),
    "an error in the module": ("1 / 0\n", "ZeroDivisionError: division by zero"),
    "a module that ends the program": ("raise SystemExit(3)\n", "SystemExit: 3"),
    "a name that is missing": ("", "AttributeError: module 'vade_broken' has no attribute 'hello'"),
    "an object that is no command": ("hello = 3\n", "vade_broken:hello is not a click command"),
}


@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_a_package_whose_command_cannot_be_loaded_is_named_and_breaks_nothing_else(
    kind: str, add_package: AddPackage, capsys: pytest.CaptureFixture[str]
) -> None:
    code, reason = BROKEN[kind]
    add_package("vade_broken", code, broken="hello", hub_broken="hello")
    add_package("vade_hello", HELLO, hello="hello", hub_greet="hello")
    line = "vade: the package vade_broken cannot add the command `{}`: " + reason
    hint = "update or uninstall that package"

    assert run(["broken"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(line.format("broken"))
    assert error.endswith(f": {hint}\n")
    assert run(["hub", "broken", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["hint"] == hint

    for words in (["help", "all"], ["hub", "--help"]):
        assert run(words) == 0
        shown = capsys.readouterr()
        assert "Greet somebody." in shown.out
        assert "broken" not in shown.out
        assert shown.err.startswith(line.format("broken" if words[0] == "help" else "hub broken"))
        assert shown.err.count("\n") == 1
    for words in (["--help"], ["list"], ["hub", "status"], ["hello", "Ada"]):
        assert run(words) == 0
        assert capsys.readouterr().err == ""
