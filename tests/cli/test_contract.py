"""The JSON of commands is a contract: an object with a version, one casing in each, schemas that hold."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import jsonschema
import pytest

from allowing import allow
from cases import every_case
from json_contract import closed, validator
from vademecum.interfaces.cli.app import cli, run
from vademecum.interfaces.present.shape import VERSION
from vademecum.interfaces.present.to_json import OUTPUTS, brief_json

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent.parent
SCHEMAS = ROOT / "docs" / "schemas"
# What agents know from elsewhere, and so is camelCase whole.
CAMEL = {"answer", "coverage", "explained_answer", "explained_passage", "lines", "passage"}
# These have no JSON: one talks, one answers an agent in the agent's own words, one only groups.
WITHOUT = {"chat", "hook", "context", "help", "hub"}


def schema_of(command: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SCHEMAS / f"{command.replace(' ', '-')}.json").read_text())
    return loaded


def commands(group: click.Group, path: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield f"{path}{name}"
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")


def test_every_command_says_in_which_shape_it_answers() -> None:
    assert set(commands(cli)) - WITHOUT == OUTPUTS.keys() - {"vade", "error"}


def test_the_schemas_in_the_docs_are_those_of_the_declarations() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "schemas.py"))
    assert tool["stale"]() == [], "run `python tools/schemas.py`"


def test_a_schema_that_was_changed_by_hand_is_noticed(tmp_path: Path) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "schemas.py"))
    for name, text in tool["schemas"]().items():
        (tmp_path / name).write_text(text)
    assert tool["stale"](tmp_path) == []
    (tmp_path / "list.json").write_text("{}")
    (tmp_path / "extra.json").write_text("{}")
    (tmp_path / "show.json").unlink()
    assert tool["stale"](tmp_path) == ["extra.json", "list.json", "show.json"]


@every_case("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_a_schema_is_one_and_its_objects_have_one_casing_each(path: Path) -> None:
    schema = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    shapes = schema["components"]["schemas"] if "openapi" in schema else schema["$defs"]
    for name, told in shapes.items():
        pattern = r"[a-z]+[a-zA-Z0-9]*" if name in CAMEL else r"[a-z0-9_]+"
        named = told.get("properties", {}) if "openapi" in schema else told["properties"]
        for each in named:
            assert re.fullmatch(pattern, each), f"{name}.{each} in {path.name}"
        assert name not in CAMEL or not any("_" in each for each in named)


def test_a_field_that_is_missing_or_of_another_type_fails_its_schema() -> None:
    whole = {"key": "k", "num": 1, "id": None, "scope": "project", "path": "memory/k.md"}
    validator(brief_json).validate(whole)
    for wrong in ({**whole, "num": "1"}, {**whole, "scope": None}, {**whole, "more": 1}, {"key": "k"}):
        with pytest.raises(jsonschema.ValidationError):
            validator(brief_json).validate(wrong)


def test_a_name_that_a_shape_does_not_have_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="record_brief has no title"):
        brief_json(key="k", num=1, id=None, scope="project", path="p", title="no")


# --- what is really printed ---------------------------------------------------------------------------------

SCRIPT = """
|vade
add|Use pytest.|--key|tests|--tag|testing
add|Use pytest with xdist.|--key|tests|--mode|replace
add|Postgres listens on 5433; see [[tests]].|--key|database|--scope|global
add|--journal|The freeze is on Friday.
today|--journal
add|--type|discovery|The build needs make.
add|--type|rule|Never push to main.|--path|src/
add|--type|workflow|--step|build|--step|ship|--success-rate|0.5
suggest|I always prefer tabs over spaces.
knowledge
knowledge list|--type|rule
knowledge applied|the-build-needs-make
knowledge stats
knowledge prune|--max-age-days|1
knowledge export|LTM
knowledge import|LTM
add|Deploys run on Fridays.|--key|deploys
add|--journal|Ann is back.
add|--type|discovery|Tests need a network.
today
log|tests
diff|tests
tag|deploys|--add|ops
rename|deploys|shipping
move|shipping|--scope|global
open|shipping
forget|--match|tag:ops|--yes
backup|BACKUP
backup|BACKUP|--verify
check
tidy
config get|sweep
config path
list
list|--write-index
show|tests
show|tests|--lines|1-
search|pytest
search|pytest|--explain
search|--records|postgres
search
index
index|--check
graph
graph|--out|GRAPH.json
graph|--reject|tests|database
status
config
audit
audit verify
project list
projects
sources add|VAULT
sources list
sources
sources remove|vault
review verify|tests
review verify|tests|database
review verify|--list
review verify|--all|--yes
review
review approve
review approve list
review verify|--list
profile
profile show
profile build
protect|tests
protect|tests|--off
tidy|--only|heal
tidy|--only|sweep
tidy|--only|promote
merge
split|tests
sessions
sessions list
sessions search|anything
inject
inject|--write|codex
install|--list
install|codex|--dry-run
uninstall|codex|--dry-run
forget|database|--yes
list|--forgotten
restore|database
forget|--all|--scope|global|--yes
undo|--list
undo
export|okf|BUNDLE
import|okf|BUNDLE
purge|tests|--yes
review trust|--off
project
init
token add|ci|--expires|1h
token list
token
token revoke|ci
completion|bash
doctor
demo
"""


def printed(home: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    run([*words, "--json", "--home", str(home)])
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project, vault = tmp_path / "project", tmp_path / "VAULT"
    for folder in (project / ".git", vault):
        folder.mkdir(parents=True)
    (vault / "page.md").write_text("# A page\n\nA line.\n")
    allow(tmp_path / "home")
    monkeypatch.chdir(project)
    monkeypatch.setenv("EDITOR", "true")
    return tmp_path


def lines_of(base: Path) -> Iterator[tuple[str, list[str]]]:
    for line in SCRIPT.strip().split("\n"):
        command, *words = line.split("|")
        words = [
            str(base / each) if each.split(".")[0].isupper() and len(each) > 2 else each for each in words
        ]
        yield (words[0], []) if not command else (command, [*command.split(), *words])


def test_every_answer_is_an_object_with_a_version_that_its_schema_describes(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = {"error"}
    for command, words in lines_of(world):
        made = printed(world / "home", words, capsys)
        assert isinstance(made, dict), command
        assert made["schemaVersion"] == VERSION, command
        assert ("error" in made) == (command == "split"), made  # nothing was merged there
        jsonschema.Draft202012Validator(schema_of("error" if "error" in made else command)).validate(made)
        seen.add(command)
    assert OUTPUTS.keys() - seen == LEFT


# What the script above does not reach; the tests of these commands hold them against their shapes.
LEFT = {
    "sessions distill",
    "sync",
    "sync status",
    "sync held",
    "sync key",
    "sync key paper",
    "sync key rotate",
    "sync key set",
    "sync off",
    "hub create",
    "hub demo",
    "hub export",
    "hub invite",
    "hub join",
    "hub members",
    "hub open",
    "hub revoke",
    "hub rules",
    "hub share",
    "hub unshare",
    "hub leave",
    "hub undo",
    "hub token",
    "hub token add",
    "hub token list",
    "hub status",
    "hub migrate",
    "hub index",
    "hub serve",
    "config edit",
    "config set",
    "review approve no",
    "review approve yes",
    "context inspect",
    "edit",
    "mcp",
    "project alias",
    "sessions export",
    "sessions get",
    "sessions import",
    "sessions rename",
    "sessions show",
    "sessions trim",
    "serve",
}


def test_an_error_has_a_version_too_and_one_that_waits_says_so(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["show", "nothing"], ["add"], ["no-such-command"]):
        made = printed(world / "home", words, capsys)
        jsonschema.Draft202012Validator(closed(schema_of("error")) | {"allOf": []}).validate(made)
        jsonschema.Draft202012Validator(schema_of("error")).validate(made)
        assert made["error"]["message"]
