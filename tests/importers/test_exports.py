"""What a person's data exports hold: conversations become sessions, memories become records for review."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from importers import samples
from vademecum.agents import chatgpt, claude_ai
from vademecum.transcripts import LEFT, META, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult
from vademecum.transcripts.foreign import SessionFacts

if TYPE_CHECKING:
    from pathlib import Path

    from importers.worlds import Vade

BOTH = {"chatgpt": samples.chatgpt, "claude-ai": samples.claude_ai}


def zipped(top: Path, to: Path) -> Path:
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(top.rglob("*.json")):
            packed.write(path, path.relative_to(top))
    return to


def reasons(report: dict[str, Any]) -> dict[str, str]:
    return {each["source"]: each["why"] for each in report["skipped"]}


def spoken(found: list[Any]) -> list[Message]:
    return [each for each in found if isinstance(each, Message)]


@pytest.mark.parametrize("system", BOTH)
def test_an_archive_gives_what_its_folder_gives_and_the_sessions_are_found(
    system: str, vade: Vade, tmp_path: Path
) -> None:
    top = BOTH[system](tmp_path / "export")
    folder = vade.json("import", system, top, "--dry-run")
    packed = vade.json("import", system, zipped(top, tmp_path / "export.zip"))
    assert [(each["source"], each["kind"]) for each in packed["mapped"]] == [
        (each["source"], each["kind"]) for each in folder["mapped"]
    ]
    again = vade.json("import", system, top)
    assert {each["outcome"] for each in again["mapped"]} == {"same"}
    named = {each["name"] for each in vade.json("sessions", "list")["sessions"]}
    assert ("Which dog" if system == "chatgpt" else "Tides") in named


@pytest.mark.parametrize("system", BOTH)
def test_a_torn_export_gives_what_stands_before_the_tear_and_says_so(
    system: str, vade: Vade, tmp_path: Path
) -> None:
    top = BOTH[system](tmp_path / "export")
    path = top / ("conversations-000.json" if system == "chatgpt" else "conversations.json")
    first = json.dumps(json.loads(path.read_text())[0])
    path.write_text(f"[{first}, {first[:200]}")
    report = vade.json("import", system, top)
    assert "malformed" in reasons(report)[path.name]
    assert "everything before it was read" in reasons(report)[path.name]
    assert any(each["kind"] == "session" for each in report["mapped"])


@pytest.mark.parametrize("system", BOTH)
def test_the_export_of_the_other_is_named(system: str, vade: Vade, tmp_path: Path) -> None:
    other = next(each for each in BOTH if each != system)
    why = reasons(vade.json("import", system, BOTH[other](tmp_path / "export")))
    assert any(f"vade import {other}" in each for each in why.values()), why


def test_an_archive_that_leads_out_or_unpacks_to_too_much_is_one_line(vade: Vade, tmp_path: Path) -> None:
    out = tmp_path / "out.zip"
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("../conversations.json", "[]")
    assert "outside of itself" in vade.fails("import", "chatgpt", out)
    bomb = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed,
        packed.open(zipfile.ZipInfo("conversations.json"), "w", force_zip64=True) as file,
    ):
        for _ in range(300):
            file.write(b" " * 1024 * 1024)
    assert "unpacks to more than the limit" in vade.fails("import", "chatgpt", bomb)
    cut = tmp_path / "cut.zip"
    cut.write_bytes(zipped(samples.chatgpt(tmp_path / "export"), tmp_path / "whole.zip").read_bytes()[:400])
    assert "not an archive that can be read" in vade.fails("import", "chatgpt", cut)


@pytest.mark.parametrize("system", BOTH)
def test_a_conversation_in_which_nobody_says_anything_is_left(
    system: str, vade: Vade, tmp_path: Path
) -> None:
    empty = {
        "chatgpt": {"id": "e", "title": "Empty", "mapping": {"r": samples.gpt("r", None, None)}},
        "claude-ai": {"uuid": "e", "name": "Empty", "chat_messages": []},
    }
    top = samples.write(tmp_path / "export", {"conversations.json": json.dumps([empty[system]])})
    dry, done = vade.json("import", system, top, "--dry-run"), vade.json("import", system, top)
    assert dry["counts"] == done["counts"]
    assert reasons(done)["conversations.json: Empty"] == "it contains no messages"


@pytest.mark.full
def test_an_export_larger_than_a_note_may_be_is_read(vade: Vade, tmp_path: Path) -> None:
    said = samples.gpt_said("user", "filler " * 1_500_000 + "the needle", 1770000000.0)
    nodes = [samples.gpt("r", None, None, "u"), samples.gpt("u", "r", said)]
    big = {"id": "big", "title": "Big", "current_node": "u", "mapping": {each["id"]: each for each in nodes}}
    top = samples.write(tmp_path / "export", {"conversations.json": json.dumps([big])})
    report = vade.json("import", "chatgpt", zipped(top, tmp_path / "big.zip"))
    assert report["counts"] == {"session": 1, "same": 0, "skipped": 0}


# -------------------------------------------------------------------- ChatGPT


def test_every_message_of_chatgpt_is_read_by_its_kind_and_other_branches_are_flagged() -> None:
    found = [*chatgpt.read_conversation(samples.gpt_conversation(), "c-1")]
    assert found[0] == SessionFacts("c-1", "Which dog", created="2026-02-02T02:40:00Z", model="gpt-x")
    by = {each.id: each for each in spoken(found)}
    assert [*by] == ["ctx", "mem", "u1", "a0", "th", "call", "res", "a1", "bio", "done"]
    assert [each for each in by if LEFT in by[each].extra] == ["a0"]
    assert [each for each in by if META in by[each].extra] == ["ctx", "mem"]
    assert [type(part) for part in by["u1"].parts] == [Opaque, Text]
    assert by["th"].parts == (Thinking("Dogs\nLooks small."),)
    call, answer = by["call"].parts[0], by["res"].parts[0]
    assert isinstance(call, ToolCall)
    assert isinstance(answer, ToolResult)
    assert (call.id, call.name, call.arguments) == ("call", "browser", "search('breed')")
    assert (answer.id, answer.name, answer.text) == ("call", "browser", "a terrier")
    assert (by["a1"].role, by["a1"].text, by["a1"].model) == (Role.ASSISTANT, "It is a terrier.", "gpt-x")
    assert by["ctx"].extra["conversation"] == {
        "update_time": 1770000009.0,
        "default_model_slug": "gpt-x",
        "gizmo_id": "g-1",
    }


def test_messages_that_are_each_others_parents_and_those_of_no_kind_are_read() -> None:
    nodes = {
        "a": samples.gpt("a", "b", samples.gpt_said("user", "one", 1.0), "b"),
        "b": samples.gpt("b", "a", samples.gpt_said("tool", {"content_type": "new", "x": 1}, 2.0), "a"),
        "c": {"message": 5, "parent": 3, "children": "d"},
        "d": 4,
    }
    found = [*chatgpt.read_conversation({"mapping": nodes, "current_node": 9}, "x")]
    assert [each.id for each in spoken(found)] == ["a", "b"]
    assert "Opaque" in str(spoken(found)[1].parts)


def test_what_chatgpt_remembered_and_was_told_are_records_for_review(vade: Vade, tmp_path: Path) -> None:
    vade("import", "chatgpt", samples.chatgpt(tmp_path / "export"))
    assert vade.entries("chatgpt-memory") == [
        ("2026-01-02T00:00:00Z", "Has a dog called Pixel.", "import"),
        ("2026-02-02T02:40:07Z", "Owns a terrier.", "import"),
        ("2026-02-03T00:00:00Z", "Prefers trains.", "import"),
    ]
    assert [text for _, text, _ in vade.entries("chatgpt-custom-instructions")] == [
        "I live in Zurich.",
        "Answer briefly.",
    ]
    assert vade.json("show", "chatgpt-memory")["scope"] == "global"


# -------------------------------------------------------------------- Claude.ai


def test_every_block_of_claude_ai_is_read_and_results_stand_apart(tmp_path: Path) -> None:
    top = samples.claude_ai(tmp_path / "export")
    conversation = json.loads((top / "conversations.json").read_text())[0]
    found = [*claude_ai.read_conversation(conversation, "k-1")]
    assert found[0] == SessionFacts("k-1", "Tides", created="2026-03-01T10:00:00Z")
    asked, thought, result, answer = spoken(found)
    assert [type(part) for part in asked.parts] == [Text, Text, Opaque]
    assert asked.text == "When is the tide?\nSail at 9"
    assert asked.extra["conversation"] == {"summary": "About tides."}
    assert [type(part) for part in thought.parts] == [Thinking, ToolCall]
    assert (result.role, result.results[0].text) == (Role.TOOL, "high at nine")
    assert (answer.role, answer.text) == (Role.ASSISTANT, "High tide is at nine.")


def test_memories_and_projects_of_claude_ai_are_records_for_review(vade: Vade, tmp_path: Path) -> None:
    vade("import", "claude-ai", samples.claude_ai(tmp_path / "export"))
    assert "Ada builds compilers." in vade.entries("claude-ai-memory")[0][1]
    assert vade.entries("claude-ai-boat-memory")[0][1] == "The boat lies in Kiel."
    assert vade.entries("claude-ai-boat")[0][1] == "All about the boat.\n\nAnswer as a sailor."
    assert vade.entries("claude-ai-boat-rig-md")[0][1:] == ("Two masts.", "import")
