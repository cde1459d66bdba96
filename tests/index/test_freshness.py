"""A warm memory looks at nothing for nothing, and still sees every change before its next answer."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from vademecum.index import freshness
from vademecum.index.base import IndexedFolder
from vademecum.memory import Memory, connect
from vademecum.store import folders as watching
from vademecum.store.files import DiskFolder
from vademecum.store.folders import NOTHING, Watch
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vademecum.index.embed.base import Vectors
    from vademecum.search.base import Answer

pytestmark = pytest.mark.disk  # not in memory: it is about what a file system does

LOOP = """
import json, sys, traceback
from pathlib import Path
from vademecum.memory import connect
from vademecum.types import Origin
for line in sys.stdin:
    base, work, agent, code = json.loads(line)
    with connect(home=f"{base}/home", cwd=f"{base}/{work}", agent=agent, origin=Origin.USER) as memory:
        try:
            exec(code, {"memory": memory, "base": Path(base)})
            print(json.dumps("done"), flush=True)
        except Exception:
            print(json.dumps(traceback.format_exc()), flush=True)
"""


class Other:
    """Another process that uses the same home."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, base: Path, code: str, *, work: str = "work", agent: str = "main") -> None:
        """Run a line there with `memory` and `base`, and wait until it is done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(base), work, agent, code]) + "\n")
        self._process.stdin.flush()
        assert json.loads(self._process.stdout.readline()) == "done"


@pytest.fixture(scope="module")
def other() -> Iterator[Other]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("VADE_")}
    with subprocess.Popen(
        [sys.executable, "-c", LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
    ) as process:
        yield Other(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)


def opened(base: Path, *, work: str = "work", environ: dict[str, str] | None = None, **given: Any) -> Memory:
    (base / work).mkdir(exist_ok=True)
    given = {"home": base / "home", "origin": Origin.USER, **given}
    return connect(cwd=base / work, environ={"VADE_EMBEDDER": "local", **(environ or {})}, **given)


def warm(base: Path, **given: Any) -> Memory:
    """A memory with a record, a note and an attached folder, that has answered before."""
    memory = opened(base, **given)
    memory.store("The heron stands in the pond.", key="heron")
    memory.note("The stork came by at noon.")
    vault = base / "vault"
    (vault / "below").mkdir(parents=True)
    (vault / "owl.md").write_text("# Owl\n\nThe owl sleeps by day.\n")
    (vault / "below" / "kite.md").write_text("# Kite\n\nThe kite hovers over the field.\n")
    memory.sources.add(vault)
    for _ in range(3):
        memory.search("heron")
    assert memory.care.searcher.watching == sys.platform.startswith("linux")
    return memory


def where(memory: Memory, word: str, mode: str = "bm25") -> list[str]:
    found = memory.search(word, mode=mode, max_results=50)
    assert found.degraded == ()
    return sorted(Path(each.path).name for each in found.results)


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often folders were listed."""
    counted: Counter[str] = Counter()
    scandir, states = os.scandir, IndexedFolder.states

    def counting_scandir(*given: Any) -> Any:
        counted["scandir"] += 1
        return scandir(*given)

    def counting_states(stack: IndexedFolder) -> Any:
        counted["states"] += 1
        return states(stack)

    monkeypatch.setattr(os, "scandir", counting_scandir)
    monkeypatch.setattr(IndexedFolder, "states", counting_states)
    return counted


@pytest.fixture
def without_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_calls", lambda: None)


needs_events = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has inotify")


# --- looking at nothing -------------------------------------------------------------------------------------


@needs_events
def test_a_search_where_nothing_changed_lists_no_folder(tmp_path: Path, walks: Counter[str]) -> None:
    memory = warm(tmp_path)
    assert walks["states"]
    walks.clear()
    for mode in ("hybrid", "bm25", "vector", "metadata"):
        assert memory.search("heron", mode=mode).coverage.files == 4
    assert walks == {}
    memory.close()


@needs_events
def test_a_changed_file_is_taken_up_without_listing_its_folder(tmp_path: Path, walks: Counter[str]) -> None:
    memory = warm(tmp_path)
    walks.clear()
    (tmp_path / "vault" / "owl.md").write_text("# Owl\n\nThe owl hunts a mouse.\n")
    assert where(memory, "mouse") == ["owl.md"]
    assert walks == {}
    memory.store("The wren hides in the hedge.", key="wren")
    walks.clear()
    assert where(memory, "wren") == ["wren.md"]
    assert walks == {}
    memory.close()


# --- every kind of change -----------------------------------------------------------------------------------


def hand_edit(base: Path, other: Other) -> None:
    with (base / "vault" / "owl.md").open("a") as file:
        file.write("\nThe bittern booms.\n")


def edit_of_a_record(base: Path, other: Other) -> None:
    path = next((base / "home" / "memory" / "project").rglob("records/heron.md"))
    with path.open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write(text.replace("heron stands", "bittern too "))


def new_file(base: Path, other: Other) -> None:
    (base / "vault" / "bittern.md").write_text("The bittern booms.\n")


def new_folder(base: Path, other: Other) -> None:
    (base / "vault" / "deep" / "down").mkdir(parents=True)
    (base / "vault" / "deep" / "down" / "bittern.md").write_text("The bittern booms.\n")


def store(base: Path, other: Other) -> None:
    other(base, "memory.store('The bittern booms.', key='bittern')")


def store_and_search(base: Path, other: Other) -> None:
    other(base, "memory.search('x'); memory.store('The bittern booms.', key='bittern'); memory.search('x')")


def first_of_a_scope(base: Path, other: Other) -> None:
    other(base, "memory.store('The bittern booms.', key='bittern', scope='global')")


def note(base: Path, other: Other) -> None:
    other(base, "memory.note('The bittern booms.')")


def pinned(base: Path, other: Other) -> None:
    other(base, "memory.care.edited('MEMORY.md', '', '# Memory\\n\\nThe bittern booms.\\n')")


def new_source(base: Path, other: Other) -> None:
    (base / "more").mkdir()
    (base / "more" / "bittern.md").write_text("The bittern booms.\n")
    other(base, "memory.sources.add(base / 'more')")


def new_alias(base: Path, other: Other) -> None:
    (base / "old").mkdir()
    said = "memory.store('The bittern booms.', key='bittern')"
    other(base, f"{said}; (base / 'id').write_text(memory.caller.project.id)", work="old")
    other(base, "memory.projects.alias((base / 'id').read_text())")


def new_repository_folder(base: Path, other: Other) -> None:
    other(base, "memory.projects.init(); memory.store('The bittern booms.', key='bittern')")


def cloned_folder(base: Path, other: Other) -> None:
    folder = base / "work" / ".vade" / "records"
    folder.mkdir(parents=True)
    (folder / "bittern.md").write_text("# Bittern\n\nThe bittern booms.\n")


CHANGES = [
    hand_edit,
    edit_of_a_record,
    new_file,
    new_folder,
    store,
    store_and_search,
    first_of_a_scope,
    note,
    pinned,
    new_source,
    new_alias,
    new_repository_folder,
    cloned_folder,
]


@pytest.mark.full(but=5)
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: str(each.__name__))
def test_every_kind_of_change_is_in_the_next_answer(
    tmp_path: Path, other: Other, change: Callable[[Path, Other], None]
) -> None:
    memory = warm(tmp_path)
    assert where(memory, "bittern") == []
    change(tmp_path, other)
    assert len(where(memory, "bittern")) == 1
    assert len(where(memory, "bittern", "hybrid")) == 1
    memory.close()


@pytest.mark.full(but=4)
@pytest.mark.usefixtures("without_watch")
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: str(each.__name__))
def test_every_kind_of_change_is_in_the_next_answer_where_the_system_tells_nothing(
    tmp_path: Path, other: Other, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path, Other], None]
) -> None:
    monkeypatch.setattr(freshness, "CHEAP", 60.0)  # on a busy machine a comparison may take its time
    memory = opened(tmp_path)
    memory.store("The heron stands in the pond.", key="heron")
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "owl.md").write_text("# Owl\n\nThe owl sleeps by day.\n")
    memory.sources.add(tmp_path / "vault")
    for _ in range(2):
        assert where(memory, "bittern") == []
    assert not memory.care.searcher.watching
    change(tmp_path, other)
    assert len(where(memory, "bittern")) == 1
    memory.close()


@needs_events
@pytest.mark.parametrize("change", [hand_edit, new_file, store], ids=lambda each: str(each.__name__))
def test_a_change_right_after_the_first_answer_is_seen_however_dear_it_is_to_compare(
    tmp_path: Path, other: Other, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path, Other], None]
) -> None:
    warm(tmp_path).close()
    monkeypatch.setattr(freshness, "CHEAP", 0.0)  # a store of some thousand files
    monkeypatch.setattr(freshness, "SHARE", 10_000)
    memory = opened(tmp_path)
    assert where(memory, "bittern") == []
    change(tmp_path, other)
    assert len(where(memory, "bittern")) == 1
    memory.close()


def test_what_is_gone_is_in_no_answer(tmp_path: Path, other: Other) -> None:
    memory = warm(tmp_path)
    (tmp_path / "vault" / "owl.md").unlink()
    assert where(memory, "owl") == []
    other(tmp_path, "memory.forget('heron')")
    assert where(memory, "heron") == []
    shutil.rmtree(tmp_path / "vault" / "below")
    assert where(memory, "kite") == []
    (tmp_path / "vault" / "owl.md").write_text("The owl is back.\n")
    assert where(memory, "owl") == ["owl.md"]
    other(tmp_path, "memory.sources.remove('vault')")
    assert where(memory, "owl") == []
    memory.close()


def test_trust_given_and_taken_by_another_process_is_seen(tmp_path: Path, other: Other) -> None:
    memory = warm(tmp_path)
    cloned_folder(tmp_path, other)
    assert where(memory, "bittern") == ["bittern.md"]
    other(tmp_path, "memory.projects.trust()")
    assert where(memory, "bittern") == ["bittern.md"]
    (tmp_path / "work" / ".vade" / "records" / "grebe.md").write_text("# Grebe\n\nThe grebe dives.\n")
    assert where(memory, "grebe") == ["grebe.md"]
    other(tmp_path, "memory.projects.trust(on=False)")
    assert where(memory, "grebe") == ["grebe.md"]
    shutil.rmtree(tmp_path / "work" / ".vade")
    assert where(memory, "grebe") == where(memory, "bittern") == []
    memory.close()


@needs_events
def test_a_folder_deleted_and_made_again_is_followed_from_then_on(tmp_path: Path) -> None:
    memory = warm(tmp_path)
    below = tmp_path / "vault" / "below"
    for number in range(3):
        shutil.rmtree(below)
        below.mkdir()
        memory.search("x")
        (below / f"bittern-{number}.md").write_text("The bittern booms.\n")
        assert where(memory, "bittern") == [f"bittern-{number}.md"]
    memory.close()


@needs_events
def test_beside_a_source_of_very_many_folders_the_first_record_of_a_scope_is_seen(
    tmp_path: Path, other: Other
) -> None:
    memory = warm(tmp_path)
    for number in range(80):
        folder = tmp_path / "vault" / f"folder-{number}"
        folder.mkdir()
        (folder / "note.md").write_text(f"The note of {number}.\n")
    for _ in range(2):
        assert where(memory, "bittern") == []
    first_of_a_scope(tmp_path, other)
    assert where(memory, "bittern") == ["bittern.md"]
    memory.close()


def test_what_another_process_attaches_while_everything_is_compared_is_in_the_next_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = warm(tmp_path)
    cover, vault = Watch.cover, tmp_path / "vault"

    def between(watch: Watch, folders: Any) -> None:
        """What happens after the folders were listed, and before they are watched."""
        if not (vault / "deep").exists():
            (vault / "deep").mkdir()
            (vault / "deep" / "bittern.md").write_text("The bittern booms.\n")
        cover(watch, folders)

    monkeypatch.setattr(Watch, "cover", between)
    memory.care.index()
    assert where(memory, "bittern") == ["bittern.md"]
    memory.close()


# --- from time to time, everything --------------------------------------------------------------------------


def test_what_no_event_told_is_found_by_the_comparison_from_time_to_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walks: Counter[str]
) -> None:
    memory = warm(tmp_path)
    monkeypatch.setattr(Watch, "look", lambda _: NOTHING)
    monkeypatch.setattr(Watch, "working", True, raising=False)
    clock = [time.monotonic()]
    monkeypatch.setattr(freshness, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    memory.care.index()
    hand_edit(tmp_path, None)  # type: ignore[arg-type]  # it needs no other process
    walks.clear()
    clock[0] += freshness.RECONCILE - 1
    assert where(memory, "bittern") == []
    assert walks == {}
    clock[0] += 2
    assert where(memory, "bittern") == ["owl.md"]
    walks.clear()
    assert where(memory, "bittern") == ["owl.md"]
    assert walks == {}
    memory.close()


def test_a_question_that_looks_at_everything_opens_the_home_once_for_all_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = warm(tmp_path)
    for scope in ("global", "project", "agent"):
        memory.store("The stork stands in the pond.", key=f"stork-{scope}", scope=scope)
    opened: list[str] = []
    real = DiskFolder.at

    def counting(path: Path | str, **given: Any) -> DiskFolder:
        caller = sys._getframe(1)
        opened.append(f"{Path(caller.f_code.co_filename).stem}.{caller.f_code.co_name}")
        return real(path, **given)

    monkeypatch.setattr(DiskFolder, "at", counting)
    memory.care.searcher.sync()
    assert opened.count("view.open") == 1
    assert opened.count("home.open") == 0
    opened.clear()
    memory.care.searcher.update(seconds=5)
    if memory.care.searcher.watching:
        assert opened == []
    memory.close()


# --- what an answer says of itself --------------------------------------------------------------------------


def test_files_that_are_still_to_be_read_are_not_forgotten_by_a_write(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    vault = tmp_path / "vault"
    vault.mkdir()
    for number in range(30):
        (vault / f"note-{number}.md").write_text(f"# Note {number}\n\nThe bittern booms {number} times.\n")
    memory.store("The stork came by.", key="stork")
    memory.search("stork")
    memory.sources.add(vault)
    for _ in range(3):
        report = memory.care.searcher.update(seconds=0.0)
        assert report.pending == 30
    memory.store("The heron stands in the pond.", key="heron")
    report = memory.care.searcher.update(seconds=0.0)
    held = memory.care.searcher._file.open()._value("select count(*) from files")
    assert report.files == 32
    assert report.indexed == held
    assert report.pending == 32 - held
    assert memory.search("bittern", max_results=50).coverage.pending == 0
    assert len(where(memory, "bittern")) == 30
    memory.close()


def test_the_coverage_counts_what_others_have_taken_in_or_out(tmp_path: Path, other: Other) -> None:
    memory = warm(tmp_path)
    assert memory.search("x").coverage.files == 4
    store_and_search(tmp_path, other)
    covered = memory.search("x").coverage
    assert (covered.files, covered.indexed) == (5, 5)
    other(tmp_path, "memory.search('x'); memory.forget('bittern'); memory.search('x')")
    covered = memory.search("x").coverage
    assert (covered.files, covered.indexed) == (4, 4)
    memory.close()


def test_vectors_left_out_by_keyword_searches_are_made_for_the_first_question_that_needs_them(
    tmp_path: Path,
) -> None:
    memory = opened(tmp_path)
    memory.store("The heron stands in the pond.", key="heron")
    for _ in range(3):
        assert where(memory, "heron", "bm25") == ["heron.md"]
    answer = memory.search("heron", mode="hybrid")
    assert (answer.mode, answer.degraded) == ("hybrid", ())
    memory.store("The bittern booms.", key="bittern")
    memory.search("bittern", mode="bm25")
    answer = memory.search("a bird that booms", mode="vector", min_score=0.0)
    assert answer.results[0].key == "bittern"
    memory.close()


# --- two clones of one project ------------------------------------------------------------------------------


def clone(base: Path, name: str, says: str) -> None:
    (base / name / ".git").mkdir(parents=True)
    (base / name / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (base / name / ".git" / "config").write_text(
        '[remote "origin"]\n\turl = https://example.org/pond/api.git\n'
    )
    records = base / name / ".vade" / "records"
    records.mkdir(parents=True)
    (records / "bird.md").write_text(f"# Bird\n\nThe {says} lives here, as in every clone.\n")


@pytest.mark.parametrize("mode", ["bm25", "hybrid"])
def test_two_clones_of_a_project_never_see_or_remove_each_others_rows(tmp_path: Path, mode: str) -> None:
    clone(tmp_path, "one", "heron")
    clone(tmp_path, "two", "stork")
    one, two = opened(tmp_path, work="one"), opened(tmp_path, work="two")
    assert one.caller.project is not None
    assert two.caller.project is not None
    assert one.caller.project.id == two.caller.project.id
    two.store("The owl lives here too, in every clone.", key="owl", scope="global")

    def said(memory: Memory) -> str:
        found = memory.search("which bird lives here, in every clone?", mode=mode, min_score=0.0)
        assert found.degraded == ()
        return " ".join(each.snippet for each in found.results)

    for number in range(4):
        assert "heron" in said(one)
        assert "stork" not in said(one)
        assert "stork" in said(two)
        assert "heron" not in said(two)
        assert "owl" in said(one)
        assert "owl" in said(two)
        (tmp_path / "one" / ".vade" / "records" / f"{number}.md").write_text(
            f"# More\n\nThe heron, {number}.\n"
        )
        one.care.index()
        two.care.index()
    rows = two.care.searcher._file.open()._ask("select count(*) from files where root != ''")[0]
    assert rows == (6,)
    again = opened(tmp_path, work="two")
    assert "heron" not in said(again)
    again.care.index(check=True)
    assert "heron" in said(one)
    (tmp_path / "two" / ".vade" / "records" / "bird.md").unlink()
    assert "stork" not in said(two)
    assert "heron" in said(one)
    for each in (one, two, again):
        each.close()


# --- a group on the agent's index ---------------------------------------------------------------------------


def test_a_group_gets_nothing_private_from_the_agents_index_and_takes_nothing_out_of_it(
    tmp_path: Path, other: Other
) -> None:
    private = warm(tmp_path, session="monday")
    private.store("The bittern is open to all.", key="open")
    private.store("The bittern of the session.", key="session", scope="session")
    secrets: dict[str, Callable[[], object]] = {
        "agent": lambda: private.store("The bittern is secret, agent.", key="agent", scope="agent"),
        "global": lambda: private.store("The bittern is secret, global.", key="global", scope="global"),
        "note": lambda: private.note("The bittern is secret, note."),
        "pinned": lambda: private.care.edited(
            "MEMORY.md", "", "# Memory\n\nThe bittern is secret, pinned.\n"
        ),
        "profile": lambda: private.care.edited(
            "profile.md", "", "# Ada\n\nThe bittern is secret, profile.\n"
        ),
        "source": lambda: (tmp_path / "vault" / "b.md").write_text("The bittern is secret, source.\n"),
    }
    for tell in secrets.values():
        tell()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "project.md").write_text("The bittern is secret, in the project's own source.\n")
    private.sources.add(tmp_path / "more", scope="project")
    held = len(private.search("bittern", max_results=50, mode="bm25", min_score=0.0).results)
    assert held == 3 + len(secrets)
    group = opened(tmp_path, audience="group", session="monday")
    for _ in range(3):
        for mode in ("bm25", "hybrid", "vector", "metadata"):
            for asked in ("bittern", "bittern secret", "path:vault bittern", ""):
                answer = group.search(asked, mode=mode, min_score=0.0, max_results=50)
                assert {each.key for each in answer.results} <= {"open", "session", "heron"}
                assert "secret" not in " ".join(each.snippet for each in answer.results)
        assert {each.key for each in group.search("bittern").results} == {"open", "session"}
        hand_edit(tmp_path, other)
    assert group.search("bittern", sources=["vault", "journal", "pinned"], min_score=0.0).results == ()
    rows = group.care.searcher._file.open()._value("select count(*) from files where source != 'memory'")
    assert rows == 7  # the journal, two documents and four files of the sources
    assert len(private.search("bittern", max_results=50, mode="bm25", min_score=0.0).results) == held + 1
    for each in (private, group):
        each.close()


def test_a_group_is_not_told_the_names_of_private_files_that_cannot_be_read(tmp_path: Path) -> None:
    private = warm(tmp_path)
    (tmp_path / "vault" / "divorce-papers.md").write_bytes(b"\xff\xfe\xfd")
    assert any("divorce" in said for said in private.search("heron").degraded)
    group = opened(tmp_path, audience="group")
    for _ in range(3):
        answer = group.search("heron")
        assert [each.key for each in answer.results] == ["heron"]
        assert not any("divorce" in said or "vault" in said for said in answer.degraded)
    for each in (private, group):
        each.close()


# --- others who write the index -----------------------------------------------------------------------------


class Hashing:
    """An embedder with vectors of its own length, the same for the same words."""

    provider, cached, mean = "openai", False, None

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.model = self.identity = f"hashing-{dimension}"

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                digest = hashlib.sha256(word.strip(".,").encode()).digest()
                row[int.from_bytes(digest[:4], "big") % self.dimension] += 1
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.where(lengths, lengths, 1), np.float32)


def test_two_who_use_different_embedders_on_one_index_both_get_answers(tmp_path: Path) -> None:
    one, two = warm(tmp_path), opened(tmp_path)
    two.care.searcher.embedder = Hashing(64)
    for number in range(3):
        for memory in (one, two):
            answer = memory.search("the heron in the pond")
            assert answer.results[0].key == "heron"
            assert answer.mode == "hybrid", (number, answer.degraded)
    for memory in (one, two):
        memory.close()


def test_a_keyword_search_does_not_hide_that_another_embedder_took_over_the_index(tmp_path: Path) -> None:
    one, two = warm(tmp_path), opened(tmp_path)
    two.care.searcher.embedder = Hashing(64)
    assert two.search("heron").mode == "hybrid"
    assert one.search("heron", mode="bm25").results
    answer = one.search("heron", mode="hybrid")
    assert answer.mode == "hybrid", answer.degraded
    for memory in (one, two):
        memory.close()


def test_a_rebuild_by_another_process_leaves_the_warm_one_with_the_right_vectors(
    tmp_path: Path, other: Other
) -> None:
    memory = opened(tmp_path)
    texts = {
        "zebra": "The zebra is an animal with stripes.",
        "yacht": "The sailing boat lies in the harbour.",
        "apple": "The fruit tree blossoms in spring.",
        "bread": "The baker sells loaves and rolls.",
    }
    for key, text in texts.items():
        memory.store(text, key=key)
        memory.search(text)
    asked = {"zebra": "striped animals", "yacht": "a boat in a harbour", "apple": "fruit", "bread": "bakery"}

    def first() -> dict[str, Any]:
        found = {key: memory.search(text, mode="vector", min_score=0.0) for key, text in asked.items()}
        return {key: answer.results[0].key for key, answer in found.items()}

    assert first() == {key: key for key in asked}
    other(tmp_path, "memory.care.index(rebuild=True)")
    assert first() == {key: key for key in asked}
    memory.close()


def test_an_index_deleted_under_a_warm_memory_is_no_error_and_later_changes_are_seen(
    tmp_path: Path, other: Other
) -> None:
    memory = warm(tmp_path)
    shutil.rmtree(tmp_path / "home" / "index")
    assert memory.search("heron").results[0].key == "heron"
    store_and_search(tmp_path, other)
    assert memory.search("bittern").results[0].key == "bittern"
    memory.close()


# --- an append ----------------------------------------------------------------------------------------------


class Clock:
    """A clock that stands in 2026 and goes a minute further with each look."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 3, 2, 8, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.moment += timedelta(seconds=20)
        return self.moment


def chunks_of(memory: Memory, path: str) -> list[int]:
    index = memory.care.searcher._file.open()
    rows = index._ask(
        "select c.id from chunks c join files f on f.id = c.file where f.path = ? order by c.ord", (path,)
    )
    return [row[0] for row in rows]


def shape(answer: Answer) -> list[tuple[str, int, int, float]]:
    return [(each.path, each.start, each.end, each.score) for each in answer.results]


@pytest.mark.full
def test_a_note_added_to_a_long_journal_leaves_the_chunks_before_it_in_place(tmp_path: Path) -> None:
    memory = opened(tmp_path, now=Clock())
    path = memory.note("The first note of the day.").path
    file = tmp_path / "home" / path
    file.write_text(
        file.read_text()
        + "".join(
            f"\n## 2026-03-02T09:{number:02}:00Z\nThe heron {number} came. {'It waits in the reeds. ' * 40}\n"
            for number in range(40)
        )
    )
    memory.search("heron")
    before = chunks_of(memory, path)
    assert len(before) > 20
    for number in range(3):
        memory.note(f"The bittern {number} booms.")
        after = chunks_of(memory, path)
        assert len(set(before) - set(after)) <= 1
        assert after[: len(before) - 1] == before[:-1]
        before = after
    questions = ["bittern", "heron 7", "what waits in the reeds?", "the first note"]
    answers = [memory.search(each, min_score=0.0) for each in questions]
    memory.care.index(rebuild=True)
    for question, before_it in zip(questions, answers, strict=True):
        assert close_to(memory.search(question, min_score=0.0), before_it), question
    memory.close()


# --- whatever is done, the answers are those of a rebuild ---------------------------------------------------

BIRDS = "heron stork owl bittern kite".split()
KEYS = "one two three".split()
FILES = "vault/a.md vault/b.md vault/below/c.md".split()
QUESTIONS = ["heron in the reeds", "which stork?", "bittern", "owl kite"]

sentences = st.builds(
    "The {} and the {} stand in the {}.".format,
    st.sampled_from(BIRDS),
    st.sampled_from(BIRDS),
    st.sampled_from(["pond", "reeds", "field"]),
)
texts = st.one_of(
    sentences,
    st.lists(sentences, min_size=2, max_size=4).map(lambda all_: "\n\n".join(each * 12 for each in all_)),
)
steps = st.one_of(
    st.tuples(st.just("store"), st.sampled_from(KEYS), sentences),
    st.tuples(st.just("replace"), st.sampled_from(KEYS), sentences),
    st.tuples(st.just("forget"), st.sampled_from(KEYS), st.just("")),
    st.tuples(st.just("note"), st.just(""), sentences),
    st.tuples(st.just("write"), st.sampled_from(FILES), texts),
    st.tuples(st.just("append"), st.sampled_from(FILES), sentences),
    st.tuples(st.just("delete"), st.sampled_from(FILES), st.just("")),
    st.tuples(st.just("edit"), st.sampled_from(KEYS), st.sampled_from(BIRDS)),
)


def do(memory: Memory, base: Path, step: tuple[str, str, str]) -> None:
    what, name, text = step
    kept = {record.key: record for record in memory.list().records}
    if what in ("store", "replace"):
        memory.store(text, key=name, mode="replace" if what == "replace" else "append")
    elif what == "note":
        memory.note(text)
    elif what == "forget" and name in kept:
        memory.forget(name)
    elif what == "edit" and name in kept:
        path = base / "home" / kept[name].path
        path.write_text(path.read_text().replace(" stand in", f" stand with the {text} in"))
    elif what == "write":
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text(f"# Notes\n\n{text}\n")
    elif what == "append" and (base / name).exists():
        with (base / name).open("a") as file:
            file.write(f"\n## More\n\n{text}\n")
    elif what == "delete" and name != FILES[0]:
        (base / name).unlink(missing_ok=True)


def rebuilt(memory: Memory, base: Path) -> Memory:
    """The same files in another home, with an index made from nothing."""
    copy = base / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(base / "home", copy, ignore=shutil.ignore_patterns("index", "locks", "state.db*"))
    environ = {"VADE_EMBEDDER": str(memory.settings.embedder)}
    made = opened(base, now=memory.workspace.now, home=copy, environ=environ)
    made.care.index(rebuild=True)
    return made


def close_to(one: Answer, other: Answer) -> bool:
    """The same lines, with the same numbers but for the last digits."""
    if [row[:3] for row in shape(one)] != [row[:3] for row in shape(other)]:
        return False
    pairs = zip(one.results, other.results, strict=True)
    return all(abs(mine.score - theirs.score) < 0.001 for mine, theirs in pairs)


@pytest.mark.full
@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # a few steps are short enough to read, and a rebuild is dear
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(steps, min_size=3, max_size=7))
def test_after_every_step_a_warm_memory_answers_as_a_rebuilt_one(taken: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        base = Path(made)
        (base / "vault").mkdir()
        (base / FILES[0]).write_text("# Notes\n\nThe heron stands in the reeds.\n")
        memory = opened(
            base, now=Clock(), environ={"VADE_EMBEDDER": "static"}
        )  # reading waits for `vade index`
        memory.sources.add(base / "vault")
        for number, step in enumerate(taken):
            do(memory, base, step)
            with rebuilt(memory, base) as fresh_one:
                for question in QUESTIONS[number % 2 :: 2]:
                    for mode in ("bm25", "hybrid"):
                        given: dict[str, Any] = {
                            "query": question,
                            "mode": mode,
                            "min_score": 0.0,
                            "max_results": 20,
                        }
                        mine, theirs = memory.search(**given), fresh_one.search(**given)
                        assert mine.coverage[:4] == theirs.coverage[:4]
                        assert mine.degraded == theirs.degraded == ()
                        assert close_to(mine, theirs), (step, question, mode, shape(mine), shape(theirs))
        memory.close()
