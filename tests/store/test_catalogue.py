"""The catalogue answers as the files do, whatever happens to either of them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tiers
from vademecum.errors import VadeError
from vademecum.inject.build import Builder
from vademecum.interfaces.hooks.deadline import Channel, Job
from vademecum.interfaces.hooks.work import run
from vademecum.memory import Memory, connect
from vademecum.store import catalogue, files, view
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.disk  # not in memory: it is about what a file system does

SOON = 0.03  # seconds after which a change has another stamp than the one before
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
KEYS = ("alpha", "beta", "gamma", "delta")


@pytest.fixture(autouse=True)
def _kept_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep facts about any number of files, as soon as the clock can tell two changes apart."""
    monkeypatch.setattr(catalogue, "FEW", 0)
    monkeypatch.setattr(view, "RACY", int(SOON * 0.7e9))


def opened(base: Path, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(
        home=base / "home", cwd=base / "work", **{"origin": Origin.USER, "actor": "human:me", **given}
    )


def records_of(base: Path) -> Path:
    return next(base.glob("home/memory/project/*/records"))


def kept(base: Path) -> list[Path]:
    return sorted(base.glob(f"home/index/{catalogue.PREFIX}*"))


def answers(memory: Memory) -> dict[str, Any]:
    """All that the catalogue has a part in."""
    found: dict[str, Any] = {}
    listing = memory.list()
    found["list"] = listing.records, listing.findings, dict(listing.counted)
    for kind, tag in ((None, None), ("project", None), (None, "plan")):
        pages = [memory.list(type=kind, tag=tag, limit=5, offset=at) for at in range(0, 40, 5)]
        whole = memory.list(type=kind, tag=tag)
        assert tuple(record for page in pages for record in page.records) == whole.records
        assert {page.total for page in pages} == {len(whole.records)}
        assert pages[0].findings == whole.findings
        assert pages[0].counted == whole.counted
    names = [*KEYS, "old-name", "nothing", *range(1, 12), *(each.id or "-" for each in listing.records)]
    for name in names:
        try:
            found[f"show {name}"] = memory.show(name)
            found[f"related {name}"] = memory.graph.related(name)
        except VadeError as error:
            found[f"show {name}"] = type(error), str(error)
    status = memory.status()
    found["status"] = status.records, status.findings
    found["inject"] = memory.injection.block()
    found["group"] = memory.injection.block(audience="group")
    found["waiting"] = memory.review.waiting()
    found["forgotten"] = memory.archive.forgotten()
    return found


def without_catalogue(base: Path) -> dict[str, Any]:
    """The same from the files alone."""
    for path in kept(base):
        path.unlink()
    memory = opened(base)
    memory.workspace.records.catalogue._keep = False
    return answers(memory)


def check(base: Path, memory: Memory) -> None:
    """Whoever asks is told what the files say: who asked before, and who asks for the first time."""
    time.sleep(SOON)
    mine = answers(memory)
    theirs = answers(opened(base))
    truth = without_catalogue(base)
    assert mine == truth
    assert theirs == truth


def fill(memory: Memory) -> None:
    for number, key in enumerate(KEYS):
        text = f"The {key} of the plan is number {number}, see [[{KEYS[number - 1]}]] and [[old-name]]."
        memory.store(text, key=key, tags=["plan", key])
    opened_as_tool = connect(home=memory.home.path, cwd=memory.caller.project.root, origin=Origin.TOOL)  # type: ignore[union-attr]
    opened_as_tool.store("A tool has found the epsilon.", key="epsilon")
    memory.knowledge.learn("solution", error="It breaks at noon.", solution="Wind the clock.")


# -------------------------------------------------------------------- edits by hand


def edit_in_place(folder: Path) -> None:
    """Put another text of the same length into a file, and give it the time it had."""
    path = min(folder.glob("*.md"))
    before = path.stat()
    text = path.read_text()
    with path.open("r+") as file:
        file.write(text.replace("number", "nombre"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def rename(folder: Path) -> None:
    path = max(folder.glob("*.md"))
    path.rename(path.with_name("renamed.md"))


def add_alias(folder: Path) -> None:
    path = min(folder.glob("*.md"))
    path.write_text(path.read_text().replace("---\n", "---\naliases: [old-name]\n", 1))


def spoil(folder: Path) -> None:
    min(folder.glob("*.md")).write_bytes(b"---\ntags: [\n---\n\xff\n")


def link(folder: Path) -> None:
    (folder / "linked.md").unlink(missing_ok=True)
    (folder / "linked.md").symlink_to(max(folder.glob("*.md")))


def write_by_hand(folder: Path) -> None:
    (folder / "By Hand.md").write_text("# By hand\n\nThe zeta is written by hand.\n")


def copy(folder: Path) -> None:
    """Another file with the number and id of the first."""
    (folder / "copied.md").write_bytes(min(folder.glob("*.md")).read_bytes())


def remove(folder: Path) -> None:
    max(folder.glob("*.md")).unlink()


def consolidated(folder: Path) -> None:
    """One record that holds what two did."""
    (folder / "held.md").write_text(
        "---\ntype: project\nkey: held\nsource: auto_decay\naliases: [one, old-name]\n"
        "parts: [{key: one, num: 8, said: 2026-01-01T00:00:00Z},"
        " {key: old-name, num: 9, said: 2026-01-02T00:00:00Z}]\n"
        "updated: 2026-01-02T00:00:00Z\n---\n# held\n\n"
        "## 2026-01-01T00:00:00Z\nThe first.\n<!-- origin: user | of: one -->\n\n"
        "## 2026-01-02T00:00:00Z\nThe second.\n<!-- origin: tool | of: old-name -->\n"
    )


BY_HAND: list[Callable[[Path], None]] = [
    edit_in_place,
    rename,
    add_alias,
    spoil,
    link,
    write_by_hand,
    copy,
    remove,
    consolidated,
]


@pytest.mark.full(but=1)
@pytest.mark.parametrize("edit", BY_HAND, ids=lambda each: each.__name__)
def test_an_edit_by_hand_is_seen_at_once(tmp_path: Path, edit: Callable[[Path], None]) -> None:
    memory = opened(tmp_path)
    fill(memory)
    check(tmp_path, memory)
    edit(records_of(tmp_path))
    assert answers(memory) == answers(opened(tmp_path)) == without_catalogue(tmp_path)
    check(tmp_path, memory)


def test_a_file_saved_twice_within_one_tick_of_the_clock_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "RACY", 1_000_000_000)
    memory = opened(tmp_path)
    memory.store("The answer is 41.", key="alpha")
    path = records_of(tmp_path) / "alpha.md"
    assert memory.injection.block().text.count("is 41") == 1
    before = path.stat()
    with path.open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write(text.replace("41", "42"))
    read = view._read_stamps
    same = view.stamp_of(before)  # as a coarse clock would have it
    monkeypatch.setattr(view, "_read_stamps", lambda *given: {**read(*given), "alpha.md": same})
    assert "is 42" in memory.injection.block().text


def take(step: Any, base: Path, memory: Memory) -> None:
    """One step: an edit by hand, a store, or a record forgotten."""
    if not isinstance(step, int):
        step(records_of(base))
    elif step < 3:
        memory.store(f"The count of step {step} is {step * 7}.", key=KEYS[step])
    elif step < 5:
        memory.store(f"Something quite different happens in step number {step}.")
    else:
        memory.forget(memory.list(scope="project").records[step - 5].key)


@pytest.mark.scaled
@settings(
    max_examples=tiers.few(3, 8),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # each takes a second: shrinking would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.one_of(st.sampled_from(BY_HAND), st.integers(0, 7)), min_size=2, max_size=5))
def test_answers_are_those_of_the_files_after_any_edits(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        memory = opened(base)
        fill(memory)
        answers(memory)
        for step in steps:
            with contextlib.suppress(
                VadeError, ValueError, IndexError
            ):  # nothing is left to edit, or it is spoiled
                take(step, base, memory)
        check(base, memory)


# -------------------------------------------------------------------- damage


def damaged(content: bytes) -> Iterator[bytes]:
    """The bytes of a catalogue, spoiled in many ways."""
    yield b""
    yield content[: len(content) // 2]
    yield content[:-1]
    yield content + b"\0\0\0"
    yield content.replace(b"vade catalogue 1", b"vade catalogue 0")
    yield content.replace(b" 1\n", b" 9\n", 1)
    for at in range(0, len(content), max(1, len(content) // 25)):
        yield content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :]


@pytest.mark.full
def test_a_damaged_catalogue_is_made_anew_and_nobody_notices(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    fill(memory)
    time.sleep(SOON)
    truth = answers(memory)
    whole = {path: path.read_bytes() for path in kept(tmp_path)}
    assert whole
    for path, content in whole.items():
        for spoiled in damaged(content):
            path.write_bytes(spoiled)
            fresh = opened(tmp_path)
            assert fresh.injection.block() == truth["inject"]
            assert fresh.show("alpha") == truth["show alpha"]
    assert answers(opened(tmp_path)) == truth
    again = answers(opened(tmp_path))
    assert again == truth


def test_rows_behind_a_torn_one_are_written_anew(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    fill(memory)
    time.sleep(SOON)
    answers(memory)
    for path in kept(tmp_path):
        path.write_bytes(path.read_bytes()[:-5])
    torn = {path.name: path.read_bytes() for path in kept(tmp_path)}
    answers(opened(tmp_path))
    for path in kept(tmp_path):
        assert path.read_bytes() != torn[path.name]
    reads = counted_reads(opened(tmp_path))
    assert reads == 0


def counted_reads(memory: Memory) -> int:
    """How many records a listing of labels reads."""
    real, read = files.read, Counter[str]()

    def counting(folder: Any, name: str, **given: Any) -> bytes | None:
        read[name] += name.endswith(".md")
        return real(folder, name, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "read", counting)
        with pytest.raises(VadeError):
            memory.show("4711")
    return read.total()


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    fill(memory)
    time.sleep(SOON)
    for path in kept(tmp_path):
        path.unlink()
    assert counted_reads(opened(tmp_path)) == 6
    assert counted_reads(opened(tmp_path)) == 0
    memory.store("The alpha is another now.", key="alpha", mode="replace")
    time.sleep(SOON)
    assert counted_reads(opened(tmp_path)) == 1
    assert counted_reads(opened(tmp_path)) == 0


WIDE = st.integers(-(2**63), 2**63 - 1) | st.integers(2**63, 2**128)  # wide inodes


@given(
    st.dictionaries(
        st.text(st.characters(exclude_characters="\0/", exclude_categories=())),
        st.tuples(
            st.lists(WIDE, max_size=9).map(tuple),
            st.lists(st.text() | st.integers() | st.binary()).map(tuple),
        ),
    )
)
def test_rows_are_read_as_they_were_written(rows: dict[str, Any]) -> None:
    framed = catalogue._framed(rows)
    assert catalogue._unframed(memoryview(framed)[catalogue._FRAME.size :]) == rows


@pytest.mark.parametrize("key", [None, "omega"])
def test_a_text_is_stored_with_one_look_at_its_folder(
    key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(tmp_path)
    fill(memory)
    time.sleep(SOON)
    real, looks = view._read_stamps, Counter[str]()

    def counting(folder: Any, wanted: Any) -> Any:
        looks[folder.path] += 1
        return real(folder, wanted)

    monkeypatch.setattr(view, "_read_stamps", counting)
    memory.store("Omega is made of something else.", key=key)
    assert looks == {str(records_of(tmp_path)): 1}


# -------------------------------------------------------------------- where it cannot or must not be kept


def test_a_full_disk_costs_the_catalogue_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = opened(tmp_path)
    fill(memory)
    time.sleep(SOON)
    truth = without_catalogue(tmp_path)

    def full(fd: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        assert answers(opened(tmp_path)) == truth
    assert kept(tmp_path) == []
    assert answers(opened(tmp_path)) == truth
    assert kept(tmp_path)


def test_a_home_without_room_for_an_index_still_answers(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    fill(memory)
    time.sleep(SOON)
    shutil.rmtree(tmp_path / "home" / "index", ignore_errors=True)
    (tmp_path / "home" / "index").write_text("not a folder")
    found = opened(tmp_path)
    assert found.show("alpha").key == "alpha"
    assert "alpha" in found.injection.block().text


def test_an_incognito_session_and_one_that_finds_little_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(opened(tmp_path))
    time.sleep(SOON)
    for path in kept(tmp_path):
        path.unlink()
    opened(tmp_path, incognito=True).injection.block()
    opened(tmp_path, incognito=True).status()
    assert kept(tmp_path) == []
    monkeypatch.setattr(catalogue, "FEW", 150)
    answers(opened(tmp_path))
    assert kept(tmp_path) == []


def test_the_catalogue_holds_no_text_and_is_purged_with_the_rest(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    fill(memory)
    path = records_of(tmp_path) / "alpha.md"
    path.write_text(path.read_text() + f"\n## 2026-01-01T00:00:00Z\nThe token is {SECRET}.\n")
    time.sleep(SOON)
    answers(memory)
    held = b"".join(each.read_bytes() for each in kept(tmp_path))
    assert b"alpha.md" in held
    assert SECRET.encode() not in held
    assert b"of the plan" not in held
    memory.home.folder().close()
    memory.archive._forget_derived()
    assert kept(tmp_path) == []


def test_the_block_is_made_once_and_again_when_anything_of_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(tmp_path)
    fill(memory)
    made = Counter[str]()
    real = Builder._make_record_sections

    def counting(self: Builder, *given: Any) -> Any:
        made["block"] += 1
        return real(self, *given)

    monkeypatch.setattr(Builder, "_make_record_sections", counting)
    time.sleep(SOON)
    first = opened(tmp_path).injection.block()
    assert opened(tmp_path).injection.block() == opened(tmp_path).injection.block() == first
    assert made["block"] == 1
    memory.review.verify("epsilon")
    time.sleep(SOON)
    assert "A tool has found the epsilon" in opened(tmp_path).injection.block().text
    edit_in_place(records_of(tmp_path))
    assert "nombre" in opened(tmp_path).injection.block().text
    agent = connect(home=memory.home.path, cwd=tmp_path / "work", origin=Origin.AGENT, session="s1")
    agent.store("An agent has found the theta of all.", key="theta")
    time.sleep(SOON)
    assert "theta [unverified]" in opened(tmp_path).injection.block().text
    again = connect(home=memory.home.path, cwd=tmp_path / "work", origin=Origin.AGENT, session="s2")
    again.store("An agent has found the theta of all.", key="theta")
    assert "theta [unverified]" not in opened(tmp_path).injection.block().text


def test_a_hook_has_the_block_of_the_next_one_ready(tmp_path: Path) -> None:
    fill(opened(tmp_path))
    time.sleep(SOON)
    for path in kept(tmp_path):
        path.unlink()
    given = json.dumps({"cwd": str(tmp_path / "work"), "session_id": "s1"}).encode()
    run(Job("claude-code", "session-start", given, str(tmp_path / "home")), Channel())
    assert [path for path in kept(tmp_path) if path.name.endswith("-block")]


def test_vade_index_makes_the_catalogue(tmp_path: Path) -> None:
    fill(opened(tmp_path))
    for path in kept(tmp_path):
        path.unlink()
    time.sleep(SOON)
    opened(tmp_path).care.index()
    assert counted_reads(opened(tmp_path)) == 0


def test_a_killed_writer_leaves_nothing_for_long(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    fill(memory)
    (tmp_path / "home" / "index").mkdir(exist_ok=True)
    left = tmp_path / "home" / "index" / f"{catalogue.PREFIX}abc-labels.1-2.new"
    left.write_bytes(b"half")
    time.sleep(SOON)
    answers(opened(tmp_path))
    assert left.exists()  # it may be somebody's who is still at it
    os.utime(left, (0, 0))
    for path in kept(tmp_path):
        if path != left:
            path.unlink()
    answers(opened(tmp_path))
    assert not left.exists()


# -------------------------------------------------------------------- several at once

_BUSY = """
import sys
from vademecum.memory import connect
from vademecum.store import catalogue, view
from vademecum.types import Origin
catalogue.FEW, view.RACY = 0, 20_000_000
home, work, mine = sys.argv[1:]
for at in range(6):
    memory = connect(home=home, cwd=work, origin=Origin.USER, actor="human:me")
    memory.store(f"Process {mine} says the number {at} aloud.", key=f"key-{mine}-{at}")
    memory.injection.block()
    assert memory.show(f"key-{mine}-{at}").key == f"key-{mine}-{at}"
    memory.status()
"""


@pytest.mark.full
def test_several_processes_may_write_it_at_once(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    fill(memory)
    command = [sys.executable, "-c", _BUSY, str(tmp_path / "home"), str(tmp_path / "work")]
    running = [subprocess.Popen([*command, str(number)]) for number in range(3)]
    assert [each.wait() for each in running] == [0, 0, 0]
    assert len(memory.list(scope="project").records) == 6 + 18
    check(tmp_path, memory)
