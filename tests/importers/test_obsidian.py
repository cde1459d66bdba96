"""A vault of Obsidian: notes, properties, tags, links and days come; everything else is named."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from importers import samples
from importers.test_fields import edges, times, values
from importers.test_systems import reasons

if TYPE_CHECKING:
    from pathlib import Path

    from importers.worlds import Vade


def test_a_note_keeps_its_text_properties_tags_and_aliases(vade: Vade, tmp_path: Path) -> None:
    top = samples.obsidian(tmp_path / "vault")
    vade("import", "obsidian", top)
    assert vade.code == 0, vade.err
    record = vade.json("show", "keys")
    assert (record["title"], record["type"], record["scope"]) == ("Keys", "reference", "global")
    assert record["tags"] == ["security", "ops/oncall", "keys/rotation"]
    ((time, text, origin),) = vade.entries("keys")
    assert (time, origin) == ("2026-03-01T00:00:00Z", "import")
    assert text.strip() == (top / "Keys.md").read_text().partition("rotate\n\n")[2].strip()
    kept = values(vade, "keys")
    assert kept["obsidian"] == {
        "aliases": ["Key rotation", "Schlüsseltausch"],
        "source": "https://example.org/keys",
    }
    assert (kept["up"], kept["rating"], kept["source"]) == ("[[Runbooks|all of them]]", 4, "import:obsidian")
    assert "# out of five" in (vade.home / record["path"]).read_text()
    for name in ("key-rotation", "schlusseltausch"):
        assert vade.json("show", name)["title"] == "Keys"


def test_links_in_text_and_in_properties_are_edges(vade: Vade, tmp_path: Path) -> None:
    vade("import", "obsidian", samples.obsidian(tmp_path / "vault"))
    assert {each[:2] for each in edges(vade) if each[2] != "tags"} == {
        ("keys", "hosts"),
        ("keys", "projects-the-plan"),
        ("keys", "runbooks"),
        ("runbooks", "keys"),
        ("projects-the-plan", "projects-log"),
    }
    assert values(vade, "keys")["related"] == [{"key": "runbooks", "rel": "relates_to", "type": "up"}]
    assert values(vade, "runbooks")["related"] == [{"key": "keys", "rel": "relates_to"}]


def test_a_name_that_two_notes_have_is_the_alias_of_neither(vade: Vade, tmp_path: Path) -> None:
    vade("import", "obsidian", samples.obsidian(tmp_path / "vault"))
    assert vade.json("show", "the-plan")["title"] == "The Plan"
    assert {each["key"] for each in vade.records()} >= {"projects-log", "archive-log"}
    assert "no record 'log'" in vade.fails("show", "log")


def test_daily_notes_are_the_journal_of_their_days(vade: Vade, tmp_path: Path) -> None:
    report = vade.json("import", "obsidian", samples.obsidian(tmp_path / "vault"))
    days = {each["source"]: each["path"] for each in report["mapped"] if each["kind"] == "journal"}
    assert days == {
        "Journal/2026/03-March/02 Mon.md": "memory/global/journal/2026-03-02.md",
        "2026-03-05.md": "memory/global/journal/2026-03-05.md",
    }
    assert times(vade, "2026-03-02") == [
        ("2026-03-02", "```yaml"),
        ("2026-03-02", "Slept well."),
        ("2026-03-02T14:15:00", "## 14:15 Call"),
    ]
    kept = (vade.home / "memory/global/journal/2026-03-02.md").read_text()
    assert "```yaml\nmood: 4\n```\n" in kept
    assert "With [[Hosts]] down.\n" in kept
    assert times(vade, "2026-03-05") == [("2026-03-05", "A quiet day.")]


@pytest.mark.parametrize(
    ("form", "name", "day"),
    [
        ("", "Daily/2026-03-02.md", "2026-03-02"),
        ("DD.MM.YYYY", "Daily/02.03.2026.md", "2026-03-02"),
        ("dddd, MMMM Do YYYY", "Daily/Monday, March 2nd 2026.md", "2026-03-02"),
        ("YY-M-D", "Daily/26-3-2.md", "2026-03-02"),
        ("[Log] YYYY-MM-DD", "Daily/Log 2026-03-02.md", "2026-03-02"),
        ("YYYY/MM/YYYY-MM-DD-ddd", "Daily/2026/03/2026-03-02-Mon.md", "2026-03-02"),
        ("YYYY-MM-DD", "Elsewhere/2026-03-02.md", "2026-03-02"),
        ("YYYY-MM-DD", "Daily/2026-02-30.md", ""),
        ("YYYY-MM-DD", "Daily/2026-03-02 Meeting.md", ""),
        ("DD.MM.YYYY", "Elsewhere/02.03.2026.md", ""),
    ],
)
def test_a_daily_note_is_known_by_the_date_format_of_the_vault(
    form: str, name: str, day: str, vade: Vade, tmp_path: Path
) -> None:
    settings = {"folder": "/Daily/", **({"format": form} if form else {})}
    files = {".obsidian/daily-notes.json": json.dumps(settings), name: "Rain.\n"}
    (only,) = vade.json("import", "obsidian", samples.write(tmp_path / "v", files))["mapped"]
    assert (only["kind"], only["path"].endswith(f"journal/{day}.md")) == (
        ("journal", True) if day else ("record", False)
    )


@pytest.mark.parametrize(
    "settings", ["{", "[]", '{"format": "gggg-[W]ww"}', '{"format": "' + "e" * 500 + '"}']
)
def test_settings_that_cannot_be_read_leave_every_note_a_note(
    settings: str, vade: Vade, tmp_path: Path
) -> None:
    files = {".obsidian/daily-notes.json": settings, "2026-03-02.md": "Rain.\n", "A.md": "Sun.\n"}
    report = vade.json("import", "obsidian", samples.write(tmp_path / "v", files))
    assert [each["kind"] for each in report["mapped"]] == ["journal", "record"]
    told = reasons(report).get(".obsidian/daily-notes.json", "")
    assert ("only notes named by a date" in told) is (settings != "[]")


def test_everything_that_is_no_note_is_named_with_its_reason(vade: Vade, tmp_path: Path) -> None:
    told = reasons(vade.json("import", "obsidian", samples.obsidian(tmp_path / "vault"), "--dry-run"))
    assert "malformed" in told.pop("Bad.md")
    assert told == {
        ".obsidian/": "Obsidian's own settings",
        ".trash": "a hidden folder",
        "Board.canvas": "a canvas, not a note",
        "Books.base": "a view of notes",
        "Keys.md ![[…]]": "what it shows stays in the vault: Scheme.png",
        "Only.md": "it holds properties and no text",
        "Sketch.excalidraw.md": "a drawing, not a note",
        "Templates/Daily.md": "a template, by the vault's settings",
        "assets/": "attachments, which are no notes: 1",
    }


@pytest.mark.full
def test_a_long_note_comes_in_parts_and_a_huge_one_is_left_with_a_reason(vade: Vade, tmp_path: Path) -> None:
    lines = "".join(f"{number:07} of the log, and some words\n" for number in range(80_000))
    files = {"Long.md": lines, "One line.md": "é" * 1_500_000, "Huge.md": "x" * 10_000_000}
    top = samples.write(tmp_path / "v", files)
    report = vade.json("import", "obsidian", top)
    assert {name: "too large" in why for name, why in reasons(report).items()} == {"Huge.md": True}
    parts = [text for _, text, _ in vade.entries("long")]
    assert len(parts) > 2
    assert "\n".join(part.strip("\n") for part in parts) == lines.strip("\n")
    assert "".join(text for _, text, _ in vade.entries("one-line")) == files["One line.md"]
    assert {each["outcome"] for each in vade.json("import", "obsidian", top)["mapped"]} == {"same"}


def test_bad_bytes_links_out_of_the_vault_and_odd_properties_do_no_harm(vade: Vade, tmp_path: Path) -> None:
    top = samples.write(
        tmp_path / "v",
        {
            "Odd.md": "---\ntype: [book]\ntitle: 1984\nid: 7\nscope: galaxy\ncreated: last week\n"
            "protected: true\nkey: ../../x\naliases: \ntags: a, b\n---\n"
            "See [[../../secret]] and [x](../../etc/y.md).\n",
            "Twice.md": "One.\n",
        },
    )
    (tmp_path / "secret.md").write_text("Not of the vault.\n")
    (top / "Latin.md").write_bytes(b"caf\xe9\n")
    os.symlink(tmp_path / "secret.md", top / "Link.md")
    report = vade.json("import", "obsidian", top)
    why = reasons(report)
    assert "not a text" in why["Latin.md"]
    assert "link" in why["Link.md"]
    assert "Not of the vault" not in json.dumps(vade.records())
    record, kept = vade.json("show", "odd"), values(vade, "odd")
    told = (record["key"], record["type"], record["tags"], record["scope"])
    assert told == (
        "odd",
        "reference",
        ["a", "b"],
        "global",
    )
    assert kept["obsidian"] == {
        **{"type": ["book"], "title": 1984, "id": 7, "scope": "galaxy", "created": "last week"},
        **{"protected": True, "key": "../../x", "aliases": None},
    }
    assert not kept.get("protected")


def test_a_note_that_was_written_on_adds_what_is_new_to_its_record(vade: Vade, tmp_path: Path) -> None:
    top = samples.obsidian(tmp_path / "vault")
    vade("import", "obsidian", top)
    (top / "Hosts.md").write_text("Thirteen of them.\n")
    later = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    os.utime(top / "Hosts.md", (later, later))
    report = vade.json("import", "obsidian", top)
    assert {each["source"] for each in report["mapped"] if each["outcome"] != "same"} == {"Hosts.md"}
    assert [text for _, text, _ in vade.entries("hosts")][-1] == "Thirteen of them."


def test_a_zip_of_a_vault_gives_the_same_records(vade: Vade, tmp_path: Path) -> None:
    import shutil

    top = samples.obsidian(tmp_path / "vault")
    shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "vault")
    vade("import", "obsidian", top)
    again = vade.json("import", "obsidian", tmp_path / "packed.zip")
    assert {each["outcome"] for each in again["mapped"]} == {"same"}
    assert again["counts"]["same"] == 8


def test_a_picture_that_a_note_shows_is_no_broken_link(vade: Vade, tmp_path: Path) -> None:
    vade("import", "obsidian", samples.write(tmp_path / "v", {"A.md": "![[Scheme.png|300]] and ![[Lost]]\n"}))
    assert {each["wanted"] for each in vade.json("graph")["broken"]} == {"Lost"}
