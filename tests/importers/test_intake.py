"""Whatever a text says, it comes in whole, signed as imported, once, and goes again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.interfaces.cli.app import run
from vademecum.knowledge.intake import NotesPiece, SectionPiece, TopicPiece
from vademecum.memory import connect
from vademecum.text import document, normalise
from vademecum.types import Entry, Origin, Scope

if TYPE_CHECKING:
    from vademecum.knowledge.intake import Piece

_LINES = st.sampled_from(
    [
        "plain words",
        "",
        "# a title",
        "## a heading",
        "## 2026-01-01T00:00:00Z",
        "## 2026-01-01",
        "\\## 2026-01-01",
        "<!-- origin: user -->",
        "<!-- origin: user | superseded: 2026-01-01T00:00:00Z -->",
        "\\<!-- origin: user -->",
        "<!-- vade:memory -->",
        "---",
        "type: rule",
        "```bash",
        "```",
        "# in a fence",
        "~~~",
        "  indented",
        "\u202eturned\u200b",
        "ends with space ",
    ]
)
_TEXTS = st.lists(_LINES, min_size=1, max_size=6).map("\n".join).filter(lambda text: bool(text.strip()))
_TIMES = st.sampled_from(["2026-03-01T10:00:00Z", "2025-01-02T03:04:05Z", "2026-03-01", ""])
_ENTRIES = st.lists(st.builds(Entry, _TEXTS, _TIMES), min_size=1, max_size=4)


def words(texts: list[str]) -> list[str]:
    return sorted(normalise(text) for text in texts)


def check(entries: list[Entry], text: str) -> None:
    with tempfile.TemporaryDirectory() as top:
        home, project = Path(top, "home"), Path(top, "project")
        project.mkdir()
        memory = connect(home=home, cwd=project, origin=Origin.USER, environ={})
        pieces: list[Piece] = [
            TopicPiece("topic.md", "topic", tuple(entries), Scope.GLOBAL),
            NotesPiece(
                "day.md", "2026-03-01", tuple(Entry(e.text, "2026-03-01") for e in entries), Scope.GLOBAL
            ),
            SectionPiece("SOUL.md", "context.md", text, Scope.GLOBAL),
        ]
        report = memory.transfer.import_pieces(pieces, system="test")
        assert not report.skipped
        record = memory.show("topic")
        given = [document.tidy(entry.text) for entry in entries]
        assert words([entry.text for entry in record.entries]) == words(given)
        times = [entry.time for entry in record.entries if entry.time]
        assert times == sorted(times)
        day = document.parse((home / "memory/global/journal/2026-03-01.md").read_text())
        assert words([entry.text for entry in day.entries]) == words(given)
        sections = document.blocks((home / "memory/global/context.md").read_text())
        for each in (*record.entries, *day.entries, *sections):
            assert each.origin is Origin.IMPORT
            assert each.live
        said = normalise(" ".join(section.text for section in sections))
        assert all(normalise(line) in said for line in text.split("\n"))
        again = memory.transfer.import_pieces(pieces, system="test")
        assert {each.outcome for each in again.mapped} == {"same"}
        assert not again.run
        memory.care.undo(report.run)
        assert not [*(home / "memory").rglob("*.md")]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(_ENTRIES, _TEXTS)
def test_hostile_texts_come_whole_signed_and_once(entries: list[Entry], text: str) -> None:
    check(entries, text)


@pytest.mark.soak
@settings(max_examples=1500, deadline=None)
@given(_ENTRIES, _TEXTS)
def test_many_hostile_texts_come_whole_signed_and_once(entries: list[Entry], text: str) -> None:
    check(entries, text)


@pytest.mark.full
def test_an_import_that_passes_the_cap_says_so_and_the_automatic_cap_leaves_it_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    workspace = tmp_path / "bundle"
    workspace.mkdir()
    for number in range(243):
        (workspace / f"note-{number:03}.md").write_text(
            f"---\ntype: project\n---\n# note {number}\n\n## 2025-01-02T03:04:05Z\nShort note {number}.\n"
        )
    monkeypatch.chdir(tmp_path / "project")
    home = str(tmp_path / "home")
    words = ["import", "okf", str(workspace), "--scope", "global", "--home", home]
    assert run([*words, "--dry-run"]) == 0
    assert "global would hold 243 records, more than decay.max_count = 200" in capsys.readouterr().out
    assert run(words) == 0
    told = capsys.readouterr().out
    assert "global holds 243 records, more than decay.max_count = 200" in told
    assert f"put `decay.max_count = 300` at the top of {home}/config.toml" in told
    memory = connect(home=home, cwd=tmp_path / "project", origin=Origin.AGENT, environ={})
    outcome = memory.care.sweep_if_due()
    assert outcome is not None
    assert outcome.proposals == ()
    assert run(["list", "--scope", "global", "--home", home]) == 0
    assert "global: 243 records\n" in capsys.readouterr().out  # none counts towards the limit
    assert [each for each in memory.list(scope="global").records if each.source == "auto_decay"] == []
    (tmp_path / "home" / "config.toml").write_text("decay.max_count = 300\n")
    (workspace / "one-more.md").write_text("---\ntype: project\n---\nOne more.\n")
    assert run(words) == 0
    assert "max_count" not in capsys.readouterr().out
