"""What the pages say is so: every command, option and call is there, and the examples run."""

from __future__ import annotations

import functools
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cases import every_case
from vademecum import errors
from vademecum.interfaces.cli.app import COMMANDS, SECTIONS, cli
from vademecum.memory import Memory
from vademecum.types import Origin, RecordType, Scope

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
COMMON = {"--json", "--home", "--agent", "--session", "--audience", "--incognito"}


def commands() -> dict[str, click.Command]:
    """Every command with its full name, `vade sources add` included."""
    context = click.Context(cli)
    found: dict[str, click.Command] = {}
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        found[f"vade {name}"] = command
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                inner_command = command.get_command(context, inner)
                assert inner_command is not None
                found[f"vade {name} {inner}"] = inner_command
    return found


def pages() -> list[Path]:
    """Every page that people read, those in folders below `docs/` included."""
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def section(page: str, command: str) -> str:
    """The part of the page about one command, up to the next heading."""
    parts = re.split(r"^#{2,4} ", page, flags=re.MULTILINE)
    return next((part for part in parts if re.match(rf"`{command}[` ]", part)), "")


@every_case("name", sorted(commands()))
def test_every_command_and_option_is_documented(name: str) -> None:
    page = (DOCS / "cli.md").read_text()
    part = section(page, name)
    assert part, f"docs/cli.md says nothing of `{name}`"
    for param in commands()[name].params:
        if isinstance(param, click.Option) and not COMMON & set(param.opts):
            assert param.opts[0] in part, f"{name} {param.opts[0]} is not documented"


def test_no_page_speaks_of_a_command_that_does_not_exist() -> None:
    known = set(commands()) | {"vade"}
    for page in pages():
        for words in re.findall(r"vade ([a-z]+)", page.read_text()):
            assert f"vade {words}" in known, f"{page.name} speaks of vade {words}"


def test_every_hint_and_message_names_commands_that_exist() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        for words in re.findall(r"`vade ([a-z]+)", path.read_text()):
            assert words in COMMANDS, f"{path.name} speaks of vade {words}"


def test_the_help_page_lists_every_command_once() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(COMMANDS)


def test_no_summary_is_cut_or_wider_than_sixty_columns() -> None:
    for name, (_, summary) in COMMANDS.items():
        assert len(summary) <= 60, name
        assert not summary.endswith("..."), name


def test_the_page_about_commands_is_made_from_them() -> None:
    from tools import cli_page

    page = (DOCS / "cli.md").read_text()
    assert page == cli_page.made(page), "run `python -m tools.cli_page`"


def test_the_table_of_settings_is_made_from_them() -> None:
    from tools import cli_page

    page = (DOCS / "settings.md").read_text()
    assert page == cli_page.settings_made(page), "run `python -m tools.cli_page`"
    row = next(line for line in page.splitlines(keepends=True) if line.startswith("| `search.rerank` |"))
    assert cli_page.settings_made(page.replace(row, "| `old` | `1` | `X` | no | Gone. |\n")) == page


def test_the_help_page_says_of_each_command_what_the_command_says_of_itself() -> None:
    context = click.Context(cli)
    for name, (_, summary) in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str(80) == summary, name


def test_every_error_has_a_hint_and_a_place_in_the_tree() -> None:
    tree = errors.__doc__ or ""
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.VadeError):
            assert kind.hint
            assert name in tree


# What the nouns do for each other and for interfaces, and no program needs.
QUIET = set(
    """care.held care.moved_if_due care.share_index care.swept archive.put_away projects.earlier requests.seen
    heard.accept heard.add heard.decline heard.hear heard.hear_recent heard.note_nudge heard.reopen
    heard.settle_nudges heard.settle_saved heard.skip heard.unsaved review.to_review
    sessions.newest_logs""".split()
)


def nouns() -> dict[str, type]:
    """What stands behind `Memory`, and the class of each."""
    memory = Memory.open("nowhere", project=False)
    properties = [name for name, each in vars(Memory).items() if isinstance(each, functools.cached_property)]
    return {name: type(getattr(memory, name)) for name in properties if not name.startswith("_")}


def public_calls() -> set[str]:
    """Every verb of `Memory`, and every call of each noun behind it, as `noun.call`."""
    owners = {"": Memory, **{f"{name}.": kind for name, kind in nouns().items()}}
    return {
        f"{owner}{name}"
        for owner, kind in owners.items()
        for name, each in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_the_check_of_public_calls_sees_a_planted_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(self: object) -> None: ...

    monkeypatch.setattr(Memory, "planted", planted, raising=False)
    monkeypatch.setattr(nouns()["care"], "planted", planted, raising=False)
    assert {"planted", "care.planted"} <= undocumented()


def undocumented() -> set[str]:
    """Calls that the page does not show."""
    page = (DOCS / "python.md").read_text()
    return {call for call in public_calls() - QUIET if f"`{call}(" not in page}


def test_every_public_call_is_documented() -> None:
    calls = public_calls()
    assert len(calls) > 90
    assert {"store", "care.sweep", "sessions.search", "transfer.export"} <= calls
    assert calls >= QUIET
    assert not undocumented()
    assert "Memory.open(" in (DOCS / "python.md").read_text()


def test_every_call_that_the_page_names_is_there() -> None:
    page = (DOCS / "python.md").read_text()
    named = set(re.findall(rf"`((?:{'|'.join(nouns())})\.\w+)\(", page))
    assert len(named) > 80
    assert named <= public_calls()


def test_every_scope_type_and_origin_is_explained() -> None:
    page = (DOCS / "scopes.md").read_text()
    for word in (*Scope, *RecordType, *Origin):
        assert f"`{word}`" in page


def test_links_between_pages_lead_somewhere() -> None:
    for page in pages():
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.full(but=2)
@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/context.md"])
def test_the_python_examples_run(page: str, tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL))
    assert code
    environment = {**os.environ, "VADE_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_the_terminal_session_in_the_readme_is_what_happens(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    session = next(
        each for each in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL) if "$ vade" in each
    )
    git = ["git", "-c", "init.defaultBranch=main", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "remote", "add", "origin", "git@github.com:acme/api.git"], check=True)
    environment = {
        **os.environ,
        "VADE_HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for block in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, expected = block.partition("\n")
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert timeless(done.stdout) == timeless(expected)


def test_every_page_is_reached_from_the_readme() -> None:
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)", (ROOT / "README.md").read_text()))
    assert {f"docs/{page.name}" for page in DOCS.glob("*.md")} <= linked


def test_every_page_is_reached_by_links_from_the_readme() -> None:
    reached, ahead = set[Path](), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        linked = re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text())
        ahead += {(page.parent / target).resolve() for target in linked} - reached - {*ahead}
    assert {*DOCS.rglob("*.md")} <= reached


def test_every_page_passes_the_spelling_check() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *map(str, pages())],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_the_pictures_are_what_the_commands_print(tmp_path: Path) -> None:
    from tools import picture

    for name, session in picture.SESSIONS.items():
        (tmp_path / name).mkdir()
        drawn = (DOCS / "pictures" / f"{name}.svg").read_text()
        made = picture.draw(picture.play(session, tmp_path / name), name)
        assert picture.undated(made) == picture.undated(drawn), "run `python -m tools.picture`"


def test_the_drawings_are_made_by_their_script_and_no_text_leaves_its_box() -> None:
    from tools import drawing

    for name, each in drawing.DRAWINGS.items():
        assert (DOCS / "pictures" / f"{name}.svg").read_text() == drawing.draw(each), (
            "run `python -m tools.drawing`"
        )
        for box in each.boxes:
            assert box.x + box.width <= each.width
            assert box.y + box.height <= each.height
            assert 24 + drawing.LINE * len(box.lines) < box.height, box.title
            for text in (box.title, *box.lines):
                assert 12 + 7.2 * len(text) <= box.width, text


def test_every_picture_is_made_by_a_script_is_shown_on_a_page_and_fetches_nothing() -> None:
    from tools import drawing, picture

    made = {f"{name}.svg" for name in (*picture.SESSIONS, *drawing.DRAWINGS)}
    assert {path.name for path in (DOCS / "pictures").glob("*.svg")} == made
    shown = {
        Path(each).name
        for page in pages()
        for each in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text())
    }
    assert made <= shown
    for name in made:
        drawn = (DOCS / "pictures" / name).read_text()
        assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
        assert "url(" not in drawn.replace("url(#", "")


def test_the_badges_of_the_readme_need_no_server_and_say_what_the_project_says() -> None:
    from tools import drawing

    text = (ROOT / "README.md").read_text()
    shown = dict(re.findall(r"\[!\[([^\]]+)\]\(docs/pictures/badges/(\w+)\.svg\)\]\(", text))
    assert set(shown.values()) == set(drawing.badges())
    for said, name in shown.items():
        made = drawing.badges()[name]
        assert (DOCS / "pictures" / "badges" / f"{name}.svg").read_text() == made, (
            "run `python -m tools.drawing`"
        )
        title = re.search("<title>(.*): (.*)</title>", made)
        assert title is not None
        assert title[1].lower() in said.lower()
        assert title[2] in said or name == "changelog"


def test_the_readme_shows_and_links_what_is_in_the_repository() -> None:
    """It reads the same without a network: no picture and no link needs one."""
    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(targets) > 40
    for target in targets:
        assert (ROOT / target.partition("#")[0]).exists(), target
    assert "<img" not in text


def timeless(text: str) -> str:
    """A text without its times and the ids made from them."""
    shorter = re.sub(r"\d{8}T\d{12}Z-[0-9a-f]{8}", "VERSION", text)
    shorter = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", shorter)
    return re.sub(r"superseded \d{4}-\d\d-\d\d\b", "superseded DAY", shorter).strip()


def published() -> list[Path]:
    """Every file that is under version control, or in the unpacked archive when there is none."""
    if (ROOT / ".git").exists():
        done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
        found = [ROOT / name for name in done.stdout.splitlines()]
    else:
        made = {
            ".venv",
            "__pycache__",
            ".mypy_cache",
            ".ruff_cache",
            ".pytest_cache",
            ".hypothesis",
            "dist",
            "site",
        }
        found = [path for path in ROOT.rglob("*") if not made & set(path.relative_to(ROOT).parts)]
    return [path for path in found if path.is_file() and path.suffix not in (".png", ".npy")]


def test_the_project_speaks_of_itself_alone() -> None:
    """No machine's paths and no registry's addresses are in what is published."""
    for path in published():
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"(^|[\s\"'=(])/(work|root|farm)/", text), f"{path} names a machine's path"
    pins = (ROOT / "requirements.txt").read_text()
    assert "://" not in pins
    assert "--index" not in pins
    for line in re.findall(r"^[a-z0-9].*$", pins, flags=re.MULTILINE | re.IGNORECASE):
        assert "==" in line
    assert pins.count("--hash=") >= pins.count("==")
