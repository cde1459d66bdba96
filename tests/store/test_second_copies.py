"""Second copies that sync tools leave: recognised, out of sight, told of, merged without loss."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from bench import copies as labelled
from hypothesis import given
from hypothesis import strategies as st

from mcp_door.talking import call, home_of, in_process
from vademecum.errors import Malformed
from vademecum.interfaces.cli.app import run
from vademecum.memory import Memory, connect
from vademecum.store import copies
from vademecum.text import document, frontmatter
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SYNCED = (
    "ver.sync-conflict-20261115-101500-ABCDEFG.md",
    "ver (conflicted copy 2026-11-15).md",
    "ver 2.md",
    "VER.md",
)


def opened(base: Path, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", **{"origin": Origin.USER, "environ": {}, **given})


def copied(memory: Memory, key: str, *names: str) -> Path:
    """Copy a record's file beside itself, as sync programs do, with another text in it."""
    path = memory.home.path / memory.show(key).path
    for number, name in enumerate(names):
        (path.parent / name).write_text(path.read_text().replace("Version", f"Copy {number} of version"))
    return path.parent


def stand(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = opened(tmp_path)
    memory.store("Something else.", key="else")
    memory.store("Version three is out.", key="ver")
    copied(memory, "ver", *SYNCED)
    return memory


# ------------------------------------------------------------ out of sight, and told of


def test_second_copies_are_in_no_listing_no_search_and_no_block(memory: Memory) -> None:
    assert [each.key for each in memory.list().records] == ["else", "ver"]
    assert [each.key for each in memory.list(limit=9).records] == ["else", "ver"]
    assert "Copy" not in memory.injection.block().text
    found = memory.search("version three copy")
    assert [each.path.rpartition("/")[2] for each in found.results if "ersion" in each.snippet] == ["ver.md"]
    assert "Copy" not in "".join(each.snippet for each in memory.recall("version three").results)
    assert memory.care.survey().files == 2


def test_every_door_says_what_is_hidden(memory: Memory) -> None:
    for findings in (memory.list().findings, memory.list(limit=1).findings, memory.status().findings):
        assert {each.where.rpartition("/")[2] for each in findings if each.what == "copy"} == set(SYNCED)
    found = [each for each in memory.care.lint() if each.what == "copy"]
    assert {each.where.rpartition("/")[2] for each in found} == set(SYNCED)
    assert {each.mend for each in found} == {"vade merge --apply"}
    said = "4 second copies are hidden"
    assert any(each.startswith(said) for each in memory.search("version").degraded)
    assert any(each.startswith(said) for each in memory.injection.block().warnings)


def test_the_tools_of_agents_do_not_return_second_copies_and_say_so(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    memory = connect(home=home_of(tmp_path / "work"), cwd=tmp_path / "work", origin=Origin.USER, environ={})
    memory.store("Version three is out.", key="ver")
    copied(memory, "ver", *SYNCED)

    async def asked() -> list[dict[str, Any]]:
        async with in_process(tmp_path / "work") as client:
            return [
                await call(client, "memory_search", query="version three copy"),
                await call(client, "memory_recall", query="version three copy"),
                await call(client, "memory_recall"),
            ]

    for answer in asyncio.run(asked()):
        assert "Copy" not in json.dumps(answer)
        assert any("4 second copies are hidden" in each for each in answer["degraded"])


def test_a_number_and_an_id_that_copies_share_name_the_record_itself(memory: Memory) -> None:
    original = memory.show("ver")
    for name in (2, "#2", original.id):
        assert memory.show(str(name)).path == original.path
    memory.forget(2)
    assert not (memory.home.path / original.path).exists()


def test_a_second_copy_can_be_looked_at_and_archived_by_its_path(memory: Memory) -> None:
    path = memory.show("ver").path.replace("ver.md", "ver 2.md")
    assert memory.show(path).text == "Copy 2 of version three is out."
    memory.forget(path)
    assert len(memory.list().findings) == 3


def test_a_write_gives_second_copies_no_names_of_their_own(memory: Memory) -> None:
    folder = (memory.home.path / memory.show("ver").path).parent
    before = stand(folder)
    stored = memory.store("A new one.", key="new")
    after = stand(folder)
    assert stored.num == 3
    assert {name: after[name] for name in SYNCED} == {name: before[name] for name in SYNCED}


def test_a_copy_whose_file_is_gone_is_no_second_copy(memory: Memory) -> None:
    folder = (memory.home.path / memory.show("ver").path).parent
    for name in ("ver.md", "VER.md", "ver (conflicted copy 2026-11-15).md", "ver 2.md"):
        (folder / name).unlink()
    assert {each.text for each in memory.list().records} == {
        "Something else.",
        "Copy 0 of version three is out.",
    }


def test_a_copy_that_comes_while_the_index_is_open_stays_out_of_it(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Version three is out.", key="ver")
    assert len(memory.search("version three").results) == 1
    copied(memory, "ver", "ver 2.md")
    found = memory.search("version three")
    assert [each.path.rpartition("/")[2] for each in found.results] == ["ver.md"]
    assert any("1 second copy is hidden" in each for each in found.degraded)


# ------------------------------------------------------------ merging


def test_one_command_merges_all_archives_each_version_and_can_be_undone(memory: Memory) -> None:
    folder = (memory.home.path / memory.show("ver").path).parent
    before = stand(folder)
    told = memory.care.merge()
    assert len(told.proposals) == 1
    assert not told.run
    assert stand(folder) == before
    done = memory.care.merge(apply=True)
    assert sorted(stand(folder)) == ["else.md", "ver.md"]
    texts = {entry.text for entry in memory.show("ver").entries}
    assert texts == {"Version three is out.", *(f"Copy {n} of version three is out." for n in range(4))}
    archived = {each.read_bytes() for each in (memory.home.path / "archive").rglob("*.md") if each.is_file()}
    assert {before[name] for name in ("ver.md", *SYNCED)} <= archived
    assert memory.care.lint() == []
    assert memory.audit.verify().problems == ()
    assert memory.care.merge(apply=True).proposals == ()
    memory.care.undo(done.run)
    assert stand(folder) == before


def test_one_record_alone_can_be_merged_by_its_key_or_number(memory: Memory) -> None:
    copied(memory, "else", "else 2.md")
    assert len(memory.care.merge().proposals) == 2
    assert len(memory.care.merge("ver").proposals) == 1
    assert len(memory.care.merge(2).proposals) == 1
    (proposal,) = memory.care.merge("else 2.md", apply=True).proposals
    assert proposal.where.endswith("else.md")
    assert len(memory.care.merge().proposals) == 1


def test_a_superseded_mark_of_one_machine_stays(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Version three is out.", key="ver")
    folder = (memory.home.path / memory.show("ver").path).parent
    old = (folder / "ver.md").read_bytes()
    memory.store("Version four is out.", key="ver", mode="replace")
    (folder / "ver 2.md").write_bytes(old)
    memory.care.merge(apply=True)
    assert [each.text for each in memory.show("ver").live] == ["Version four is out."]
    assert [each.text for each in memory.show("ver").entries] == [
        "Version three is out.",
        "Version four is out.",
    ]


def test_records_begun_apart_on_two_machines_become_one_under_the_older_names(tmp_path: Path) -> None:
    one, other = opened(tmp_path), None
    (tmp_path / "b").mkdir()
    other = connect(
        home=tmp_path / "b" / "home", cwd=tmp_path / "work", origin=Origin.USER, environ={}, now=_earlier
    )
    one.store("Said here.", key="ver", tags=["here"])
    other.store("Said there.", key="ver", tags=["there"])
    source = other.home.path / other.show("ver").path
    folder = (one.home.path / one.show("ver").path).parent
    (folder / "ver.sync-conflict-20261115-101500-ABCDEFG.md").write_bytes(source.read_bytes())
    one.care.merge(apply=True)
    merged = one.show("ver")
    assert merged.id == other.show("ver").id
    assert [each.text for each in merged.entries] == ["Said there.", "Said here."]
    assert set(merged.tags) == {"here", "there"}


def _earlier() -> datetime:
    return datetime.now(UTC) - timedelta(days=400)


def test_days_of_the_journal_and_pinned_documents_are_merged_too(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    noted = memory.note("Here at noon.")
    day = memory.home.path / noted.path
    there = day.read_text().replace("Here at noon", "There at noon")
    day.with_name(f"{day.stem}.sync-conflict-20261115-101500-ABCDEFG.md").write_text(there)
    pinned = memory.home.path / "memory/global/MEMORY.md"
    pinned.parent.mkdir(parents=True, exist_ok=True)
    pinned.write_text("# Rules\n\n- Both.\n- Here.\n\n## Tools\n\nUse make.\n")
    pinned.with_name("MEMORY 2.md").write_text("# Rules\n\n- Both.\n- There.\n\n## Ports\n\n8080.\n")
    assert {each.what for each in memory.status().findings} == {"copy"}
    memory.care.merge(apply=True)
    assert sorted(each.name for each in day.parent.iterdir()) == [day.name]
    assert {"Here at noon.", "There at noon."} == {
        entry.text for entry in document.parse(day.read_text()).entries
    }
    lines = pinned.read_text().splitlines()
    assert [each for each in lines if each] == [
        *("# Rules", "- Both.", "- Here.", "- There."),
        *("## Ports", "8080.", "## Tools", "Use make."),
    ]
    assert not pinned.with_name("MEMORY 2.md").exists()
    memory.care.undo()
    assert pinned.with_name("MEMORY 2.md").read_text().startswith("# Rules")
    assert "There" not in pinned.read_text()


def test_a_copy_that_cannot_be_read_is_left_alone_and_told(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Version three is out.", key="ver")
    folder = copied(memory, "ver")
    (folder / "ver (conflicted copy 2026-11-15).md").write_bytes(b"\xff\xfe broken")
    outcome = memory.care.merge(apply=True)
    assert outcome.proposals == ()
    assert "not UTF-8" in outcome.findings[0].why
    assert (folder / "ver (conflicted copy 2026-11-15).md").exists()


def test_in_a_repository_a_copy_makes_nobodys_word_a_persons(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.projects.init()
    memory = opened(tmp_path)
    memory.store("Version three is out.", key="ver")
    folder = tmp_path / "work/.vade/records"
    text = (folder / "ver.md").read_text().replace("Version three", "Trust me")
    (folder / "ver.sync-conflict-20261115-101500-ABCDEFG.md").write_text(text)
    memory.care.merge(apply=True)
    assert {each.text: each.origin for each in memory.show("ver").entries} == {
        "Version three is out.": Origin.USER,
        "Trust me is out.": Origin.EXTERNAL,
    }


def test_the_command_says_what_it_would_do_and_how_to_take_it_back(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    assert run(["merge"]) == 0
    assert "4 texts to add" in capsys.readouterr().out
    assert run(["merge", "--apply"]) == 0
    assert "`vade undo " in capsys.readouterr().out
    assert run(["merge"]) == 0
    assert capsys.readouterr().out == "nothing to do\n"


# ------------------------------------------------------------ what holds of every merge

_TEXTS = (
    st.text(alphabet="ab \n#-", min_size=1, max_size=12).map(document.tidy).filter(lambda each: each.strip())
)
_STAMPS = st.integers(0, 6).map(lambda each: f"2026-11-15T10:0{each}:00Z")
_ENTRIES = st.builds(
    Entry,
    text=_TEXTS,
    time=_STAMPS,
    origin=st.sampled_from([Origin.USER, Origin.AGENT, Origin.TOOL]),
    superseded=st.none() | _STAMPS,
)


@st.composite
def versions(draw: Any) -> bytes:
    """A record as some machine has it: any entries in any order, as clocks that jump leave them."""
    values = {
        "type": "project",
        "id": draw(st.sampled_from(["one", "two"])),
        "num": draw(st.integers(1, 3)),
        "created": draw(_STAMPS),
        "updated": draw(_STAMPS),
        "tags": draw(st.lists(st.sampled_from(["x", "y", "z"]), unique=True, max_size=2)) or None,
        "protected": draw(st.sampled_from([None, True])),
    }
    text = frontmatter.edit("# ver\n\n", values)
    undated = draw(st.none() | _TEXTS.filter(lambda each: not each.startswith("#")))
    if undated:
        text += document.escape(undated) + "\n"
    for entry in draw(st.lists(_ENTRIES, max_size=5, unique_by=lambda each: (each.time, each.text))):
        text = document.append(text, entry)
    return text.encode()


def marks(content: bytes) -> list[tuple[str | None, str]]:
    return [(entry.time, entry.text) for entry in document.parse(content.decode()).entries]


def in_order(part: Sequence[object], whole: Sequence[object]) -> bool:
    rest = iter(whole)
    return all(each in rest for each in part)


@given(versions(), versions())
def test_a_merge_does_not_depend_on_which_machine_makes_it(one: bytes, other: bytes) -> None:
    assert copies.merge([one, other]) == copies.merge([other, one])


@given(versions(), versions())
def test_merging_again_changes_nothing(one: bytes, other: bytes) -> None:
    merged = copies.merge([one, other])
    assert copies.merge([merged]) == merged
    assert copies.merge([merged, one]) == copies.merge([merged, other, one]) == merged


@given(st.lists(versions(), min_size=1, max_size=4))
def test_no_entry_is_lost_and_none_is_invented(some: list[bytes]) -> None:
    merged = marks(copies.merge(some))
    assert set(merged) == {mark for each in some for mark in marks(each)}
    assert len(merged) == len(set(merged)) or len(some) == 1


@given(versions(), versions())
def test_what_any_version_superseded_is_superseded_and_no_origin_rises(one: bytes, other: bytes) -> None:
    trust = list(Origin)
    before: dict[Any, list[Entry]] = {}
    for each in (one, other):
        for entry in document.parse(each.decode()).entries:
            before.setdefault((entry.time, entry.text), []).append(entry)
    for entry in document.parse(copies.merge([one, other]).decode()).entries:
        earlier = before[entry.time, entry.text]
        assert entry.live == all(each.live for each in earlier)
        lowest = max((each.origin or Origin.USER for each in earlier), key=trust.index)
        assert (entry.origin or Origin.USER) is lowest


@given(versions(), versions())
def test_no_entry_passes_one_before_it_unless_the_machines_disagree(one: bytes, other: bytes) -> None:
    merged = marks(copies.merge([one, other]))
    mine, theirs = marks(one), marks(other)
    common = [each for each in mine if each in theirs]
    if common == [each for each in theirs if each in mine]:
        assert in_order(mine, merged)
        assert in_order(theirs, merged)


def test_a_clock_that_is_ahead_changes_no_order_within_a_machine() -> None:
    ahead = [Entry("A first", "2026-11-15T18:00:00Z"), Entry("A then", "2026-11-15T09:00:00Z")]
    right = [Entry("B first", "2026-11-15T10:00:00Z"), Entry("B then", "2026-11-15T11:00:00Z")]
    files = []
    for entries in (ahead, right):
        text = "---\nid: one\n---\n# ver\n\n"
        for entry in entries:
            text = document.append(text, entry)
        files.append(text.encode())
    merged = [text for _, text in marks(copies.merge(files))]
    assert merged == [text for _, text in marks(copies.merge(files[::-1]))]
    assert merged == ["B first", "B then", "A first", "A then"]


_LINES = st.lists(st.sampled_from(["# A", "## B", "- one", "- two", "- three", "", "Words."]), max_size=8)


@given(_LINES, _LINES)
def test_of_pinned_documents_every_line_stays(one: list[str], other: list[str]) -> None:
    files = ["\n".join(each).encode() for each in (one, other)]
    merged = copies.merge_pinned(files)
    assert merged == copies.merge_pinned(files[::-1])
    there = [line for line in merged.decode().splitlines() if line]
    assert {line for line in (*one, *other) if line} <= set(there)
    again = copies.merge_pinned([merged, *files]).decode().splitlines()
    assert [line for line in again if line] == there


def test_versions_whose_entries_cannot_be_told_apart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one = document.append("# ver\n\n", Entry("One", "2026-11-15T10:00:00Z")).encode()
    other = document.append("# ver\n\n", Entry("Two", "2026-11-15T10:00:00Z")).encode()
    monkeypatch.setattr(copies, "_body", lambda pieces, before: "")
    with pytest.raises(Malformed, match="compare both"):
        copies.merge([one, other])


# ------------------------------------------------------------ names


def test_the_names_of_tools_are_recognised_and_those_of_people_are_not() -> None:
    for half in labelled.HALVES:
        counted = labelled.count(half)
        assert counted.precision == 1.0
        assert counted.recall >= 0.95


@pytest.mark.parametrize("name", ["2026-11-15 2.md", "2026-11-15 (conflicted copy).md", "2026-11-15 (1).md"])
def test_a_day_is_recognised_by_its_name_alone(name: str) -> None:
    found = copies.find_named([name, "2026-11-15.md"], lambda each: each == "2026-11-15.md")
    assert found == {name: "2026-11-15.md"}


def test_a_copy_of_a_copy_is_a_copy_of_the_record() -> None:
    names = ["ver.md", "ver 2.md", "ver 2 (conflicted copy 2026-11-15).md"]
    assert copies.find(names, lambda name: "same") == dict.fromkeys(names[1:], "ver.md")


def test_a_version_behind_the_ending_is_a_copy_too() -> None:
    names = ["ver.md", "ver.md~HEAD", "ver.md.conflict1", "ver.md~", "ver.md.orig"]
    assert copies.find(names, lambda name: None) == dict.fromkeys(names[1:3], "ver.md")
