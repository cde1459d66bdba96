"""mem0, Letta and the rules of editors: every field and version comes, and what may not come is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from importers import samples
from importers.test_fields import values
from importers.test_systems import reasons
from vademecum.agents import letta
from vademecum.transcripts import Message, Text, Thinking, ToolCall
from vademecum.transcripts.foreign import SessionFacts

if TYPE_CHECKING:
    from pathlib import Path

    from importers.worlds import Vade


# -------------------------------------------------------------------- mem0


def test_a_memory_of_mem0_keeps_what_it_was_before_its_categories_and_all_fields(
    vade: Vade, tmp_path: Path
) -> None:
    vade("import", "mem0", samples.mem0(tmp_path / "theirs"))
    record = vade.json("show", "drinks-tea-not-coffee")
    assert [(each["time"], each["text"], each["superseded"]) for each in record["entries"]] == [
        ("2026-01-02T18:00:00Z", "Drinks coffee", "2026-02-03T10:00:00Z"),
        ("2026-02-03T10:00:00Z", "Drinks tea, not coffee", None),
    ]
    assert (record["tags"], record["created"]) == (["food", "preferences"], "2026-01-02T18:00:00Z")
    kept = values(vade, "drinks-tea-not-coffee")
    assert kept["mem0"] == {
        "hash": "h1",
        "metadata": {"room": "kitchen"},
        "user_id": "ada",
        "actor_id": "ada",
        "role": "user",
    }
    assert vade.entries("lives-in-kiel")[0][1] == "Lives in Kiel"
    assert vade.entries("mem0-relations")[0][1] == "- ada owns pixel"


def test_the_storage_of_qdrant_is_refused_and_what_was_deleted_stays_out(vade: Vade, tmp_path: Path) -> None:
    top = samples.mem0(tmp_path / "theirs")
    why = reasons(vade.json("import", "mem0", top))
    assert "pickles" in why["qdrant/collection/mem0/storage.sqlite"]
    assert why["history.db#m-4"] == "it was deleted there on 2026-02-03T10:00:00Z"
    assert "no memories" in why["config.json"]
    assert "`memory`" in why["export.json#3"]
    storage = top / "qdrant/collection/mem0/storage.sqlite"
    assert "pickles" in reasons(vade.json("import", "mem0", storage))["storage.sqlite"]


def test_a_torn_history_or_export_of_mem0_is_named_and_the_rest_comes(vade: Vade, tmp_path: Path) -> None:
    top = samples.mem0(tmp_path / "theirs")
    (top / "history.db").write_bytes((top / "history.db").read_bytes()[:3000])
    (top / "other.db").write_bytes(b"no database at all")
    (top / "export.json").write_text((top / "export.json").read_text()[:300])
    report = vade.json("import", "mem0", top)
    why = reasons(report)
    assert "cannot be read" in why["history.db"]
    assert "cannot be read" in why["other.db"]
    assert "malformed" in why["export.json"]
    assert [each["kind"] for each in report["mapped"]] == ["record"]


@pytest.mark.full
def test_a_text_of_fifty_megabytes_is_left_with_a_reason(vade: Vade, tmp_path: Path) -> None:
    given = [{"id": "big", "memory": "x" * 50_000_000}, {"id": "small", "memory": "A small one"}]
    report = vade.json("import", "mem0", samples.write(tmp_path / "m", {"a.json": json.dumps(given)}))
    assert report["counts"] == {"record": 1, "same": 0, "skipped": 1}
    assert "at most" in reasons(report)["memory/big"]


# -------------------------------------------------------------------- Letta


def test_blocks_of_letta_are_records_and_its_messages_a_session(vade: Vade, tmp_path: Path) -> None:
    top = samples.letta(tmp_path / "theirs")
    report = vade.json("import", "letta", top)
    assert vade.entries("letta-sam-human")[0][1:] == ("Name: Ada", "import")
    assert vade.json("show", "letta-sam-human")["type"] == "user"
    assert values(vade, "letta-sam-persona")["letta"] == {
        "id": "block-1",
        "limit": 20000,
        "read_only": True,
    }
    assert vade.entries("letta-sam-system")[0][1] == "You are Sam."
    assert vade.entries("letta-old-human")[0][1] == "Bob"
    assert [each["name"] for each in vade.json("sessions", "list")["sessions"]] == ["sam"]
    why = reasons(report)
    assert why["sam.af#tools"] == "1 left: no memory"
    assert why["odd.json"] == "it contains no Letta agent"


def test_every_message_of_letta_is_read(tmp_path: Path) -> None:
    agent = json.loads((samples.letta(tmp_path / "theirs") / "sam.af").read_text())["agents"][0]
    facts, *said = letta.read_agent(agent, "x")
    assert facts == SessionFacts("x", "sam", model="gpt-x")
    found = [each for each in said if isinstance(each, Message)]
    assert [each.id for each in found] == ["message-0", "message-1", "message-2", "message-3"]
    assert [type(part) for part in found[2].parts] == [Thinking, Text, ToolCall]
    assert found[2].extra == {"otid": "o-1"}
    assert found[3].results[0].text == "ok"
    assert found[1].time == "2026-03-01T10:00:00Z"


def test_a_torn_file_of_letta_is_named(vade: Vade, tmp_path: Path) -> None:
    top = samples.letta(tmp_path / "theirs")
    (top / "sam.af").write_text((top / "sam.af").read_text()[:500])
    assert "malformed" in reasons(vade.json("import", "letta", top))["sam.af"]


# -------------------------------------------------------------------- Cursor and Windsurf


def test_a_rule_of_cursor_for_some_files_keeps_its_globs_though_they_are_no_yaml(
    vade: Vade, tmp_path: Path
) -> None:
    report = vade.json("import", "cursor", samples.cursor(tmp_path / "theirs"))
    rules = {each["path_prefix"]: each for each in vade.json("knowledge", "list")["lessons"]}
    assert set(rules) == {"*.ts, *.tsx", "web/**"}
    context = next(each["path"] for each in report["mapped"] if each["source"] == ".cursorrules")
    text = (vade.home / context).read_text()
    assert "Write tests first." in text
    assert "British spelling" in text
    assert "inline styles" not in text
    kept = next(each["path"] for each in report["mapped"] if each["source"] == ".cursor/rules/ts.mdc")
    assert "TypeScript: how we write it" in (vade.home / kept).read_text()
    assert reasons(report) == {".cursor/rules/vade.mdc": "it was written by vade"}


def test_rules_of_windsurf_come_by_their_trigger(vade: Vade, tmp_path: Path) -> None:
    top = samples.windsurf(tmp_path / "theirs")
    report = vade.json("import", "windsurf", top)
    kinds = {each["source"]: each["kind"] for each in report["mapped"]}
    assert kinds == {
        ".windsurfrules": "pinned",
        ".windsurf/rules/always.md": "pinned",
        ".windsurf/rules/py.md": "record",
        ".windsurf/rules/deploy.md": "record",
    }
    assert [each["path_prefix"] for each in vade.json("knowledge", "list")["lessons"]] == ["**/*.py"]


def test_one_file_of_rules_may_be_named_alone(vade: Vade, tmp_path: Path) -> None:
    top = samples.cursor(tmp_path / "theirs")
    assert vade.json("import", "cursor", top / ".cursorrules", "--dry-run")["counts"]["pinned"] == 1
    assert vade.json("import", "cursor", top / ".cursor/rules/ts.mdc", "--dry-run")["counts"]["record"] == 1
