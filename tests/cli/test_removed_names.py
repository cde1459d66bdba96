"""Commands and options of earlier releases: each row names the words that do the same now.

The old words give an error that names the new command, and the new words are understood.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click
import pytest

from vade_command import Vade
from vademecum.config import REMOVED_SETTINGS
from vademecum.errors import UnknownName
from vademecum.interfaces.chat import commands as chat_commands
from vademecum.interfaces.cli.app import COMMANDS, HINTS, REMOVED_OPTIONS, cli

if TYPE_CHECKING:
    from pathlib import Path

# old words => new words
TABLE = """
store TEXT => add TEXT
store - => add -
store TEXT --key K => add TEXT --key K
store TEXT --key K --slug => add TEXT --key K --slug
store TEXT --scope global => add TEXT --scope global
store TEXT --type user => add TEXT --type user
store TEXT --type discovery --key K => add TEXT --type discovery --key K
store TEXT --tag A --tag B => add TEXT --tag A --tag B
store TEXT --key K --mode replace => add TEXT --key K --mode replace
store TEXT --confidence 0.5 => add TEXT --confidence 0.5
store TEXT --protected => add TEXT --protected
store TEXT --team T => add TEXT --team T
note => today --journal
note --scope global => today --journal --scope global
note TEXT => add --journal TEXT
note - => add --journal -
note TEXT --scope agent => add --journal TEXT --scope agent
learn discovery TEXT => add --type discovery TEXT
learn pattern - => add --type pattern -
learn solution --error E --solution S => add --type solution --error E --solution S
learn workflow --step A --step B => add --type workflow --step A --step B
learn workflow --step A --success-rate 0.5 => add --type workflow --step A --success-rate 0.5
learn failure TEXT --impact I --prevention P => add --type failure TEXT --impact I --prevention P
learn rule TEXT --path src/ => add --type rule TEXT --path src/
learn pattern TEXT --example a.py => add --type pattern TEXT --example a.py
learn discovery TEXT --confidence 0.5 --tag A => add --type discovery TEXT --confidence 0.5 --tag A
learn discovery TEXT --scope global => add --type discovery TEXT --scope global
recall => search --records --full
recall QUERY => search --records --full QUERY
recall QUERY --scope global => search --records QUERY --scope global
recall QUERY --type user => search --records QUERY --type user
recall QUERY --limit 5 => search --records QUERY --max-results 5
recall QUERY --mode bm25 => search --records QUERY --mode bm25
recall QUERY --sort-by usage => search --records QUERY --sort-by usage
recall QUERY --include-related => search --records QUERY --include-related
recall QUERY --as-of 2026-01-01 => search --records QUERY --as-of 2026-01-01
recall QUERY --now 2026-01-01 => search --records QUERY --now 2026-01-01
get memory/a.md => show memory/a.md
get KEY => show KEY --lines 1-
get KEY --from 3 => show KEY --lines 3-
get KEY --from 3 --lines 2 => show KEY --lines 3+2
clear --scope project => forget --all --scope project
clear --scope project --include-protected --yes => forget --all --scope project --include-protected --yes
lint => check
lint --scope global --format github => check --scope global --format github
lint --seconds 5 --model a:b => check --seconds 5 --model a:b
lint --llm => check --llm
heal => tidy --only heal
heal --scope global --apply => tidy --only heal --scope global --apply
heal --aggressive => tidy --only heal --aggressive
sweep --scope global --apply --yes => tidy --only sweep --scope global --apply --yes
promote --scope global --apply => tidy --only promote --scope global --apply
compact --scope global --apply --model a:b => tidy --only compact --scope global --apply --model a:b
compact --key K => tidy --only compact --key K
compact --key K --reword => tidy --only compact --key K --reword
approve => review approve
approve list => review approve list
approve yes ID => review approve yes ID
approve yes --all --yes => review approve yes --all --yes
approve no ID => review approve no ID
approve no --all --yes => review approve no --all --yes
verify KEY --scope global => review verify KEY --scope global
verify KEY --off => review verify KEY --off
verify --run R --yes => review verify --run R --yes
verify --source S --yes => review verify --source S --yes
verify --all --yes => review verify --all --yes
verify --list => review verify --list
trust => review trust
trust --off => review trust --off
"""
ROWS = [tuple(line.split(" => ")) for line in TABLE.strip().splitlines()]


@pytest.fixture
def vade(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vade:
    monkeypatch.chdir(tmp_path)
    return Vade(tmp_path / "home", capsys)


def parsed(words: list[str]) -> list[str]:
    """The names of the commands that these words call; words that are not understood raise."""
    command: click.Command = cli
    context = click.Context(cli, info_name="vade")
    names = []
    while isinstance(command, click.Group) and words:
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found
        context = command.make_context(name, list(words), parent=context, resilient_parsing=False)
        names.append(str(name))
        if isinstance(command, click.Group):
            words = [*context._protected_args, *context.args]
    return names


def test_every_command_and_option_of_an_earlier_release_has_its_new_words() -> None:
    for _, new in ROWS:
        words = shlex.split(new)
        assert parsed(words)[0] == words[0], new


def test_a_removed_command_is_an_error_that_names_the_new_one(vade: Vade) -> None:
    new_words: dict[str, set[str]] = {}
    for old, new in ROWS:
        new_words.setdefault(old.split()[0], set()).add(new.split()[0])
    assert not new_words.keys() & COMMANDS.keys()
    for old, expected in new_words.items():
        vade(old)
        assert (vade.code, vade.err.count("\n")) == (2, 1), old
        named = set(re.findall(r"`vade (\w+)", vade.err)) - {"vade"}
        assert named >= expected, (old, vade.err)


def test_a_removed_option_is_an_error_that_says_what_its_command_does_now(vade: Vade) -> None:
    assert REMOVED_OPTIONS
    for (command, option), instead in REMOVED_OPTIONS.items():
        name, _, inner = command.partition(" ")
        words = parsed(shlex.split(command))
        assert words == [name, *inner.split()], command
        vade(*words, option)
        assert (vade.code, vade.err.count("\n")) == (2, 1), option
        assert instead in vade.err, (option, vade.err)
        assert "Did you mean" not in vade.err, vade.err
        for named in re.findall(r"`vade ([a-z]+)", instead):
            assert named in COMMANDS, instead


def test_an_option_that_never_existed_still_gets_the_nearest_name(vade: Vade) -> None:
    vade("profile", "build", "--hom", "x")
    assert vade.code == 2
    assert "--home" in vade.err


def test_every_hint_names_commands_that_exist() -> None:
    for word, hint in HINTS.items():
        assert word not in COMMANDS
        for words in re.findall(r"`vade ([a-z]+)", hint):
            assert words in COMMANDS, (word, words)


def test_a_removed_setting_that_is_asked_for_is_an_error_that_names_what_does_it_now(vade: Vade) -> None:
    assert REMOVED_SETTINGS
    for name, instead in REMOVED_SETTINGS.items():
        for words in (("get", name), ("set", name, "2")):
            vade("config", *words)
            assert (vade.code, vade.err.count("\n")) == (1, 1), words
            assert f"the setting {name} was removed: {instead}" in vade.err, vade.err


def test_a_command_names_each_variable_of_a_removed_setting_and_runs(
    vade: Vade, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, instead in REMOVED_SETTINGS.items():
        variable = f"VADE_{name.replace('.', '_').upper()}"
        with monkeypatch.context() as patched:
            patched.setenv(variable, "2")
            vade("list")
        assert vade.code == 0
        assert f"vade: warning: {variable}: the setting {name} was removed: {instead}" in vade.err
    vade("list")
    assert vade.err == ""


def test_every_removed_chat_command_names_the_new_one() -> None:
    for old, new in chat_commands.REPLACED.items():
        assert old not in chat_commands.all_commands()
        assert new.split()[0] in chat_commands.all_commands()
        with pytest.raises(UnknownName) as refused:
            chat_commands.find_command(old)
        assert refused.value.hint == f"did you mean /{new}?"
