"""What users and models read is plain English: nothing of `banned_words.toml`, misspelled or cut."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cases import every_case
from vademecum.interfaces.cli.app import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "vademecum"
TABLE = tomllib.loads((ROOT / "tests" / "banned_words.toml").read_text())
BANNED: dict[str, str] = TABLE["banned"]
DATA = tuple(TABLE["code"]["data"])
_FOUND = {
    pattern: re.compile(r"(?<![\w-])(?:" + pattern.replace(" ", r"\s+") + r")(?![\w-])", re.IGNORECASE)
    for pattern in BANNED
}
_TEXTS = {".txt", ".md", ".html", ".js"}
# Lists that texts are compared with; no person reads them.
_LISTS = {
    "english.txt",
    "secret_rules.txt",
    "signal_phrases.txt",
    "importance_phrases.txt",
    "software.txt",
    "synonyms.txt",
    "vocab.txt",
}


def in_python(source: str) -> Iterator[tuple[int, str]]:
    """Every text in a module that can reach a user: its strings, and docstrings that click shows."""
    tree = ast.parse(source)
    quiet: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and not _is_command(node):
                quiet.add(first.value)
        if isinstance(node, ast.JoinedStr):
            quiet |= {each for each in ast.walk(node) if isinstance(each, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            said = "".join(
                str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values
            )
            yield node.lineno, said
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in quiet:
            yield node.lineno, node.value


def _is_command(node: ast.AST) -> bool:
    """Whether click shows the docstring of a function."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(re.search(r"\.(command|group)\b", ast.unparse(each)) for each in decorators)


def in_page(text: str) -> str:
    """A page without what it quotes (blocks of code, names in code, addresses), each line where it was."""
    fenced = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
    text = fenced.sub(lambda block: "\n" * block[0].count("\n"), text)
    text = re.sub(r"`(?:[^`\s]+|[\w.]+\([^`]*\))`", "`…`", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def in_template(text: str) -> str:
    """What a page of the server shows: its text and what attributes say, each line where it was."""
    text = re.sub(r"\{#.*?#\}", _lines_of, text, flags=re.DOTALL)
    text = re.sub(r"\{[%{].*?[%}]\}", _strings_of, text, flags=re.DOTALL)
    said = r'\b(?:title|placeholder|alt|aria-label)="([^"]*)"'
    return re.sub(r"<[^>]*>", lambda tag: " ".join(re.findall(said, tag[0])) + _lines_of(tag), text)


def in_script(text: str) -> str:
    """The strings of a script that have more than a word, each line where it was."""
    text = re.sub(r"(?m)(?:^|[ \t])//.*$", "", text)
    found = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`")
    parts = [(text.count("\n", 0, each.start()), each[0]) for each in found.finditer(text)]
    lines = [""] * (text.count("\n") + 1)
    for line, said in parts:
        lines[line] += f" {re.sub(r'[$][{][^}]*[}]', '', said)}" if " " in said.strip() else ""
    return "\n".join(lines)


def _strings_of(match: re.Match[str]) -> str:
    """The strings of more than a word in an expression of a template, such as a heading given to a macro."""
    said = [each for each in re.findall(r'"([^"]*)"', match[0]) if " " in each.strip() and "<" not in each]
    return ". ".join(said) + _lines_of(match)


def _lines_of(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n") or " "


_READERS = {".html": in_template, ".js": in_script}


@functools.cache
def texts() -> tuple[tuple[str, int, str], ...]:
    """All text that users and models read: its file, its line, and what it says."""
    found = []
    hub = SOURCE.with_name("vademecum_hub")
    for path in sorted([*SOURCE.rglob("*"), *hub.rglob("*")]):
        name = path.relative_to(SOURCE if path.is_relative_to(SOURCE) else hub.parent).as_posix()
        if path.suffix == ".py" and not name.startswith(DATA):
            # One word is a name of something; texts have more.
            found += [(name, line, said) for line, said in in_python(path.read_text()) if " " in said.strip()]
        elif path.suffix in _TEXTS and path.name not in _LISTS and path.parent.name != "time_words":
            found.append((name, 1, _READERS.get(path.suffix, str)(path.read_text())))
    for path in [*pages(), *sorted((ROOT / "examples").glob("*.py"))]:
        said = in_page(path.read_text()) if path.suffix == ".md" else path.read_text()
        found.append((path.relative_to(ROOT).as_posix(), 1, said))
    return tuple(found)


def pages() -> list[Path]:
    """Every page of the documentation."""
    top = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "AGENTS")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def banned_in(where: str, line: int, said: str) -> list[str]:
    """What a text says that it should not, each with its place and what to write instead."""
    return [
        f"{where}:{line + said[: match.start()].count(chr(10))}: {match[0]!r}: write {BANNED[pattern]}"
        for pattern, found in _FOUND.items()
        for match in found.finditer(said)
        if match[0] not in TABLE["values"].get(where, ())
    ]


def test_no_text_for_users_has_a_banned_word() -> None:
    found = [each for text in texts() for each in banned_in(*text)]
    assert not found, "\n".join(found)


def test_all_kinds_of_text_are_looked_through() -> None:
    where = {name for name, _, _ in texts()}
    assert len(where) > 200
    assert {"README.md", "docs/decisions.md", "errors.py", "interfaces/cli/write.py"} <= where
    assert {"interfaces/tools/texts/memory_store.md", "interfaces/chat/prompts/system.txt"} <= where
    said = {each for _, _, each in texts()}
    assert any(
        each.startswith("Permanently delete a record, text or session.") for each in said
    )  # a docstring
    assert "Where to save it." in said  # an option
    assert "run `vade list` to see what is here" in said  # a hint


@every_case(
    "planted",
    [
        'def write():\n    raise NotFound(f"{key} is no longer in sight")',
        'def write():\n    raise NotFound("x", hint="mend it with any editor")',
        '@sources.command("add")\n@common\ndef add():\n    """Put away what is old."""',
        '@click.option("--off", help="Take your word back.")\ndef verify(): ...',
    ],
)
def test_a_planted_word_is_found_in_messages_hints_help_and_options(planted: str) -> None:
    assert any(banned_in("planted.py", line, said) for line, said in in_python(planted))


def test_a_planted_word_is_found_in_a_page_even_across_a_line() -> None:
    page = "# Page\n\nRecords that are in\nsight."
    assert banned_in("page.md", 1, in_page(page)) == ["page.md:3: 'in\\nsight': write visible"]


def test_a_planted_word_is_found_in_a_template_and_a_script() -> None:
    shown = '<p title="Mend it">{{ door }}\n<b>in sight</b></p>{% call empty("x", "It waits for you") %}'
    assert len(banned_in("x.html", 1, in_template(shown))) == 3
    script = '// in sight\nconst door = "door"\ntoast(`Put ${key} away`)\nsay("It waits for you.")'
    assert [each[:7] for each in banned_in("x.js", 1, in_script(script))] == ["x.js:3:", "x.js:4:"]


def test_names_comments_docstrings_and_quoted_code_are_not_texts() -> None:
    quiet = 'def mend(door):\n    """Mend the shelf."""\n    # in sight\n    return shelf["mend"]'
    assert not [each for line, said in in_python(quiet) if " " in said for each in banned_in("x", line, said)]
    assert not banned_in("page.md", 1, in_page('A finding has `mend`.\n```json\n{"mend": "…"}\n```\n'))


def test_every_banned_word_is_found_by_its_own_pattern() -> None:
    assert len(BANNED) > 60
    assert all(instead.strip() for instead in BANNED.values())
    for said in (
        "Mended",
        "vouches for",
        "put it away",
        "kept as",
        "takes it back",
        "is no file",
        "stands in",
    ):
        assert banned_in("x", 1, said), said


def misspelled(tmp_path: Path, written: dict[str, str]) -> str:
    """What codespell says of these texts."""
    for name, said in written.items():
        (tmp_path / f"{name.replace('/', '.')}.txt").write_text(said, "utf-8")
    ignored = ",".join(TABLE["spelling"]["ignored"])
    call = [sys.executable, "-m", "codespell_lib", "--ignore-words-list", ignored, str(tmp_path)]
    return subprocess.run(call, capture_output=True, text=True, check=False).stdout


def test_nothing_that_users_read_is_misspelled(tmp_path: Path) -> None:
    written: dict[str, str] = {}
    for name, _, said in texts():
        written[name] = f"{written.get(name, '')}{said}\n"
    assert misspelled(tmp_path, written) == ""


def test_a_planted_misspelling_is_found(tmp_path: Path) -> None:
    assert "recieve ==> receive" in misspelled(tmp_path, {"docs/page.md": "You recieve it."})


def commands(group: click.Command = cli, name: str = "vade") -> Iterator[tuple[str, click.Command]]:
    """Every command and every command below one."""
    if isinstance(group, click.Group):
        context = click.Context(group)
        for each in group.list_commands(context):
            command = group.get_command(context, each)
            assert command is not None
            yield f"{name} {each}", command
            yield from commands(command, f"{name} {each}")


def test_the_glossary_has_at_most_40_terms_each_once() -> None:
    page = (ROOT / "docs" / "words.md").read_text()
    terms = re.findall(r"^\| \*\*(.+?)\*\* \|", page, flags=re.MULTILINE)
    assert 15 <= len(terms) <= 40
    assert len(set(terms)) == len(terms)


def test_no_summary_of_a_command_or_subcommand_is_cut_at_sixty_columns() -> None:
    found = dict(commands())
    assert len(found) > 80
    for name, command in found.items():
        whole = " ".join((command.help or "").split("\n\n")[0].split())
        assert whole, name
        assert command.get_short_help_str(60) == whole, name
        assert len(whole) <= 60, name
