"""One bad file among ninety-nine good ones: the good ones are found, and the answer says what was left out.

Where a limit of the system is needed, the scene plays in a process of its own; this file, run as a script, is
that process.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from vademecum.index.base import IndexedFolder
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.search.base import Answer

GOOD = 99
BIRDS = "heron stork crane egret ibis".split()
FRONT = "---\nid: 01K0000000000000000000000{number}\nnum: 900\n{more}---\n# Bad\n\n"
ENTRY = "## 2026-11-15T08:00:00Z\nThe heron is bad.\n<!-- origin: user -->\n"


def opened(base: Path) -> Memory:
    return connect(
        home=base / "home",
        cwd=base / "work",
        environ={"VADE_EMBEDDER": "local", "VADE_PROJECT_ID": "pond"},
        origin=Origin.USER,
    )


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of the good notes are records, half are files of a folder to attach."""
    base = tmp_path_factory.mktemp("good")
    (base / "work").mkdir()
    (base / "vault").mkdir()
    memory = opened(base)
    for number in range(GOOD):
        text = f"The {BIRDS[number % 5]} g{number}d stands in the pond."
        if number % 2:
            memory.store(text, key=f"good-{number}")
        else:
            (base / "vault" / f"good-{number}.md").write_text(f"# Note {number}\n\n{text}\n")
    memory.care.index()
    memory.care.searcher.close()
    return base


def filled(base: Path, good: Path) -> Memory:
    """A memory of its own with all the good notes in it."""
    shutil.copytree(good, base, dirs_exist_ok=True)
    memory = opened(base)
    memory.sources.add(base / "vault", name="vault")
    return memory


def records(base: Path) -> Path:
    found: Path = next((base / "home" / "memory" / "project").glob("*/records"))
    return found


def good_ones(answer: Answer) -> set[str]:
    return {part for each in answer.results for part in each.snippet.split() if part[0] + part[-1] == "gd"}


def all_good(memory: Memory, *, mode: str = "bm25") -> Answer:
    """Ask for every good note, and check that each is there."""
    answer = memory.search("stands pond", mode=mode, max_results=1000, min_score=0.0)
    assert good_ones(answer) == {f"g{number}d" for number in range(GOOD)}
    return answer


def told(answer: Answer, name: str, why: str) -> bool:
    return any(name in line and why.lower() in line.lower() for line in answer.degraded)


# --- files that cannot be taken in --------------------------------------------------------------------------

BYTES: dict[str, tuple[bytes, str]] = {
    "all NULs": (bytes(100_000), "NUL"),
    "one NUL": (b"The heron \0 is bad.\n", "NUL"),
    "UTF-16 with a mark": ("The heron is bad.\n".encode("utf-16"), "UTF-8"),
    "UTF-16 without a mark": ("The heron is bad.\n".encode("utf-16-le"), "NUL"),
    "latin-1": ("Der Königsreiher ist böse.\n".encode("latin-1"), "UTF-8"),
    "invalid UTF-8": (b"The heron \xc3\x28 \xed\xa0\x80 \xf8 is bad.\n", "UTF-8"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "UTF-8"),
}


@pytest.mark.parametrize("where", ["records", "vault"])
@pytest.mark.parametrize("kind", BYTES)
def test_a_file_that_is_no_text_is_told_of_and_the_others_are_found(
    tmp_path: Path, good: Path, kind: str, where: str
) -> None:
    content, why = BYTES[kind]
    memory = filled(tmp_path, good)
    folder = records(tmp_path) if where == "records" else tmp_path / "vault"
    (folder / "bad.md").write_bytes(content)
    for each in (memory, opened(tmp_path), opened(tmp_path)):  # taken in, known, and known to a newcomer
        answer = all_good(each)
        assert told(answer, "bad.md", why) or told(answer, "bad.md", "text"), answer.degraded
        assert answer.coverage.failed == 1
        assert answer.coverage.indexed == answer.coverage.files - 1


# --- files that are odd, and taken in or told of ------------------------------------------------------------

BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
)
TEXTS: dict[str, str] = {
    "a line of 5 MB": "heron " + "x" * 5_000_000 + "\n",
    "a line of 5 MB in words": "The heron is bad. " * 280_000 + "\n",
    "a YAML bomb": FRONT.format(number=1, more=BOMB) + ENTRY,
    "deep YAML": FRONT.format(number=2, more="deep: " + "[" * 20_000 + "]" * 20_000 + "\n") + ENTRY,
    "YAML without an end": "---\nkey: value\n" + "The heron is bad.\n" * 10,
    "a number of 5,000 digits": FRONT.format(number=3, more="big: " + "9" * 5_000 + "\n") + ENTRY,
    "a date that is none": FRONT.format(number=4, more="created: 0000-00-00\nupdated: 2025-13-45\n") + ENTRY,
    "half a surrogate pair": FRONT.format(number=5, more='title: "\\ud800"\ntags: ["\\udfff"]\n') + ENTRY,
    "fields of other types": FRONT.format(
        number=6, more="tags: {a: [b]}\ntype: [1]\ntitle: 7\nupdated: [2]\ncreated: {x: y}\nkey: true\n"
    )
    + ENTRY,
    "a number too large for SQLite": "---\nnum: 999999999999999999\nbig: 99999999999999999999\n---\n" + ENTRY,
    "a time beyond the calendar": "# Bad\n\n## 9999-12-31T23:59:59-23:59\nThe heron is bad.\n",
    "a time before the calendar": "# Bad\n\n## 0001-01-01T00:00:00+23:59\nThe heron is bad.\n",
    "an end beyond the calendar": "# Bad\n\n## 2026-11-15T08:00:00Z\nThe heron is bad.\n"
    "<!-- origin: user | superseded: 9999-12-31T23:59:59-23:59 -->\n",
    "deep lists": "".join(f"{'  ' * depth}- heron\n" for depth in range(2_000)),
    "deep quotes": ">" * 100_000 + " heron\n",
    "10,000 headings": "# heron\n" * 10_000,
    "200,000 blank lines": "\n" * 200_000,
    "open fences": "```\n" * 50_001,
    "many entries": "# Bad\n\n" + ENTRY * 1_000,
    "marks without a base": "\u0301" * 200_000,
    "only a mark": "\ufeff",
    "nothing": "",
    "one line ending": "\n",
    "carriage returns": "The heron is bad.\r" * 10_000,
}


HEAVY = ("a line of 5 MB", "a line of 5 MB in words", "10,000 headings", "many entries", "deep lists")


@pytest.mark.full(but=("a YAML bomb-records", "deep YAML-vault", "YAML without an end-records"))
@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (kind, where)
        for kind in TEXTS
        for where in ("records", "vault")
        if where == "vault" or kind not in HEAVY
    ],
)
def test_an_odd_text_is_found_or_told_of_and_the_others_are_found(
    tmp_path: Path, good: Path, kind: str, where: str
) -> None:
    memory = filled(tmp_path, good)
    folder = records(tmp_path) if where == "records" else tmp_path / "vault"
    (folder / "bad.md").write_text(TEXTS[kind])
    begun = time.process_time()
    memory.care.index()
    assert time.process_time() - begun < 30  # what backtracks takes for ever
    answer = all_good(memory)
    covered = answer.coverage
    assert covered.pending == 0
    assert covered.failed == 0 or told(answer, "bad.md", ""), answer.degraded
    assert covered.indexed == covered.files - covered.failed
    assert all_good(opened(tmp_path), mode="hybrid").coverage == covered
    memory.search("heron bad", max_results=50)


# --- things that are no files -------------------------------------------------------------------------------


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()
    (path / "inner.md").write_text("The finch is inside.\n")


def link_out(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def link_to_nothing(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere.md"))


def link_up(path: Path) -> None:
    path.symlink_to(path.parent.parent)


@pytest.mark.parametrize("where", ["records", "vault"])
@pytest.mark.parametrize("place", [pipe, folder, link_out, link_to_itself, link_to_nothing, link_up])
def test_what_is_no_file_is_not_read_and_the_others_are_found(
    tmp_path: Path, good: Path, place: Callable[[Path], None], where: str
) -> None:
    memory = filled(tmp_path, good)
    top = records(tmp_path) if where == "records" else tmp_path / "vault"
    place(top / "bad.md")
    for each in (memory, opened(tmp_path)):
        answer = all_good(each)
        assert not any("root:" in passage.snippet for passage in answer.results)
        assert each.search("nologin", min_score=0.0, mode="bm25").results == ()
        if where == "records":  # in one's own memory a thing that is skipped is a thing to tell of
            assert told(answer, "bad.md", ""), answer.degraded


def test_a_hard_limit_on_the_system_keeps_no_one_from_the_good_files(tmp_path: Path, good: Path) -> None:
    """A loop of folders, by a link in an attached folder, ends."""
    memory = filled(tmp_path, good)
    deep = tmp_path / "vault"
    for _ in range(60):
        deep = deep / "below"
        deep.mkdir()
    (deep / "loop").symlink_to(tmp_path / "vault", target_is_directory=True)
    (deep / "deep.md").write_text("The finch lives deep down.\n")
    all_good(memory)
    assert memory.search("finch").results


# --- things that change meanwhile ---------------------------------------------------------------------------


@pytest.mark.full
def test_a_file_that_changes_while_it_is_read_is_found_as_it_is_at_the_end(
    tmp_path: Path, good: Path
) -> None:
    memory = filled(tmp_path, good)
    path = tmp_path / "vault" / "busy.md"
    script = (
        "import sys, itertools\n"
        "for n in itertools.count():\n"
        "    open(sys.argv[1], 'w').write(f'The finch {n} hops. ' * (n % 400 + 1))\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)])
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            all_good(memory)
    finally:
        writer.kill()
        writer.wait()
    path.write_text("The finch rests at last.\n")
    answer = memory.search("finch rests at last")
    assert answer.results[0].snippet == "The finch rests at last."
    assert answer.degraded == ()


@pytest.mark.parametrize("broken", ["the folder", "a folder in it", "a file"])
def test_an_error_of_the_disk_takes_nothing_out_of_the_index(
    tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    error = OSError(errno.EIO, "Input/output error")
    below = tmp_path / "vault" / "below"
    memory = filled(tmp_path, good)
    below.mkdir()
    (below / "finch.md").write_text("The finch hops.\n")
    all_good(memory)
    (tmp_path / "vault" / "good-0.md").write_text("The heron g0d stands in the pond, as always.\n")
    fails = {"the folder": str(tmp_path / "vault"), "a folder in it": str(below), "a file": "good-0.md"}
    states, load, walk = IndexedFolder.states, IndexedFolder._load, os.walk

    def broken_states(self: IndexedFolder) -> Any:
        if broken == "the folder" and self.path == fails[broken]:
            raise error
        return states(self)

    def broken_load(self: IndexedFolder, name: str) -> bytes | None:
        if name == fails[broken]:
            raise error
        return load(self, name)

    def broken_walk(top: str, **given: Any) -> Any:
        for folder, names, files in walk(top, **given):
            if broken == "a folder in it" and folder == fails[broken]:
                given["onerror"](OSError(errno.EIO, error.strerror, folder))
            else:
                yield folder, names, files

    with monkeypatch.context() as failing:
        failing.setattr(IndexedFolder, "states", broken_states)
        failing.setattr(IndexedFolder, "_load", broken_load)
        failing.setattr(os, "walk", broken_walk)
        for memory in (opened(tmp_path), opened(tmp_path)):
            answer = all_good(memory)
            assert told(answer, "vault" if broken != "a file" else "good-0.md", "Input/output error")
            assert answer.coverage.failed == 1
            assert memory.search("finch hops").results[0].snippet == "The finch hops."
    answer = all_good(opened(tmp_path))
    assert answer.degraded == ()
    assert any("as always" in each.snippet for each in answer.results)


@pytest.mark.parametrize("round_", range(3))
def test_a_folder_deleted_under_the_search_takes_nothing_else_with_it(
    tmp_path: Path, good: Path, round_: int
) -> None:
    memory = filled(tmp_path, good)
    more = tmp_path / "more"
    more.mkdir()
    for number in range(300):
        (more / f"{number}.md").write_text(f"The finch {number} hops.\n")
    memory.sources.add(more, name="more")

    def vanish() -> None:
        time.sleep(0.01 * (1 + 2 * round_))
        shutil.rmtree(more)

    thread = threading.Thread(target=vanish)
    thread.start()
    all_good(memory)
    thread.join()
    answer = all_good(memory)
    assert told(answer, "more", "is gone"), answer.degraded
    assert not [each for each in memory.search("finch").results if "finch" in each.snippet]


def test_a_project_whose_records_are_deleted_under_a_search_answers_from_the_rest(
    tmp_path: Path, good: Path
) -> None:
    memory = filled(tmp_path, good)
    all_good(memory)
    shutil.rmtree(records(tmp_path))
    answer = memory.search("stands pond", mode="bm25", max_results=1000, min_score=0.0)
    assert good_ones(answer) == {f"g{number}d" for number in range(0, GOOD, 2)}


def test_an_index_of_a_newer_version_is_set_aside_and_made_anew(tmp_path: Path, good: Path) -> None:
    memory = filled(tmp_path, good)
    memory.care.index()
    path = memory.care.searcher.path
    memory.care.searcher.close()
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("pragma user_version = 99")
    before = path.read_bytes()
    again = opened(tmp_path)
    answer = all_good(again)
    assert told(answer, "newer version", "")
    assert path.with_name(f"{path.name}.aside").read_bytes() == before
    assert again.care.index().coverage == 1.0
    assert not again.search("stands pond").degraded


# --- limits of memory and permission, in a process of its own -----------------------------------------------


def play(scene: str, base: Path) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, __file__, scene, str(base)], capture_output=True, text=True, timeout=900, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def searched(base: Path) -> dict[str, Any]:
    """Index and search here; says what was found, what was told, and the most memory that took."""
    memory = opened(base)
    begun = time.monotonic()
    memory.care.index()
    answer = memory.search("stands pond", mode="bm25", max_results=1000, min_score=0.0)
    most = _peak()
    return {
        "good": sorted(good_ones(answer)),
        "told": list(answer.degraded),
        "failed": answer.coverage.failed,
        "most": most,
        "seconds": time.monotonic() - begun,
    }


def _peak() -> int:
    """The most memory this process has had; what getrusage says includes whoever started it."""
    try:
        lines = Path("/proc/self/status").read_text().split("\n")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def searched_as_nobody(base: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as other:  # nobody may not read the library: all of it comes first
        (Path(other) / "work").mkdir()
        memory = opened(Path(other))
        memory.store("The heron stands in the pond.")
        memory.care.index(check=True)
        memory.search("heron")
        memory.care.searcher.close()
    os.setgid(65534)
    os.setuid(65534)
    return searched(base)


def large(path: Path, megabytes: int) -> None:
    """A file of plausible Markdown."""
    part = "".join(f"## Part {n}\n\nThe finch {n} hops over the fence and sings.\n\n" for n in range(19_000))
    with path.open("w") as file:
        for _ in range(megabytes):
            file.write(part[: 1 << 20])


@pytest.mark.full
@pytest.mark.parametrize(
    ("megabytes", "most"), [(8, 1 << 29), pytest.param(200, 1 << 30, marks=pytest.mark.soak)]
)
def test_a_very_large_file_costs_bounded_memory_and_the_others_are_found(
    tmp_path: Path, good: Path, capsys: pytest.CaptureFixture[str], megabytes: int, most: int
) -> None:
    filled(tmp_path, good).care.searcher.close()
    large(tmp_path / "vault" / "bad.md", megabytes)
    found = play("searched", tmp_path)
    with capsys.disabled():
        print(f"\n{megabytes} MB: {found['most'] >> 20} MB of memory, {found['seconds']:.0f} s")
    assert set(found["good"]) == {f"g{number}d" for number in range(GOOD)}
    assert found["failed"] == 0 or any("bad.md" in line for line in found["told"])
    assert found["most"] < most


@pytest.mark.full(but=2)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("where", ["vault file", "vault folder", "record", "records folder"])
def test_what_may_not_be_read_is_told_of_and_the_others_are_found(good: Path, where: str) -> None:
    base = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    base.chmod(0o755)
    try:
        filled(base, good).care.searcher.close()
        (base / "vault" / "closed").mkdir()
        (base / "vault" / "closed" / "bad.md").write_text("The heron is bad.\n")
        target = {
            "vault file": base / "vault" / "closed" / "bad.md",
            "vault folder": base / "vault" / "closed",
            "record": records(base) / "bad.md",
            "records folder": records(base),
        }[where]
        if where == "record":
            target.write_text("The heron is bad.\n")
        for path in (base, *base.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
        os.chown(target, 0, 0)
        target.chmod(0)
        found = play("searched_as_nobody", base)
    finally:
        shutil.rmtree(base)
    step = 2 if where == "records folder" else 1
    assert set(found["good"]) == {f"g{number}d" for number in range(0, GOOD, step)}
    assert any(target.name in line for line in found["told"]), found["told"]


if __name__ == "__main__":
    scene = {"searched": searched, "searched_as_nobody": searched_as_nobody}[sys.argv[1]]
    print(json.dumps(scene(Path(sys.argv[2]))))


def test_a_record_of_a_million_lines_is_told_and_left_out_and_the_others_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vademecum.index import corpus

    assert corpus.MOST_LINES <= 250_000
    monkeypatch.setattr(corpus, "MOST_LINES", 1_000)  # a million lines take as long to write as to index
    memory = connect(home=tmp_path / "home", cwd=tmp_path, environ={})
    memory.store("The kiln is hot.", key="kiln")
    path = tmp_path / "home" / memory.store("Long.", key="long").path
    path.write_text(path.read_text().replace("Long.", "A line.\n" * 1_001))
    answer = memory.search("kiln")
    assert [each.path.rpartition("/")[2] for each in answer.results] == ["kiln.md"]
    assert "lines; at most 1,000 of one file are indexed" in str(memory.care.index().findings)
