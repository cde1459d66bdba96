"""Finding on the command line: a watch that ends when told to, a status and answers for scripts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.interfaces.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOAD = "import sys; from vademecum.interfaces.cli.app import run; run(sys.argv[1:]); print(*sys.modules)"


class Vade:
    """Runs `vade` in a project folder with a home of its own."""

    def __init__(self, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.base, self.home, self.capsys = base, base / "home", capsys
        self.code, self.err = 0, ""

    def __call__(self, *words: str) -> str:
        at = 2 if words[0] == "sources" else 1
        self.code = run([*words[:at], "--home", str(self.home), *words[at:]])
        captured = self.capsys.readouterr()
        self.err = captured.err
        return captured.out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def vade(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vade:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return Vade(tmp_path, capsys)


# --- vade index --watch -------------------------------------------------------------------------------------


@contextlib.contextmanager
def watching(vade: Vade, *more: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`vade index --watch` as a process of its own, and the file its lines go to."""
    log = vade.base / "watch.log"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("VADE_")}
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [sys.executable, "-m", "vademecum", "index", "--watch", "--home", str(vade.home), *more],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environ,
        ) as process,
    ):
        try:
            until(lambda: b"\n" in log.read_bytes(), "its first line")
            yield process, log
        finally:
            if process.poll() is None:
                process.kill()


def until(true: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < seconds, f"{what} did not come"
        time.sleep(0.05)


@pytest.mark.full(but=1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_watch_says_that_it_runs_takes_up_a_change_and_ends_well_when_told_to(
    vade: Vade, number: signal.Signals
) -> None:
    path = vade.home / vade.json("add", "The heron stands in the pond.", "--key", "heron")["path"]
    with watching(vade) as (process, log):
        assert log.read_text().splitlines() == ["1 of 1 file indexed (1 changed, 0 removed)"]
        path.write_text(path.read_text().replace("heron", "bittern"))
        until(lambda: log.read_text().count("\n") >= 2, "a line about the change")
        assert log.read_text().splitlines()[1] == "1 of 1 file indexed (1 changed, 0 removed)"
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(30) == 0
        assert "Traceback" not in log.read_text()
        assert len(log.read_text().splitlines()) == 2


@pytest.mark.full
def test_a_watch_takes_up_a_file_in_a_folder_that_came_after_it_began(vade: Vade) -> None:
    vade("add", "The heron stands in the pond.", "--key", "heron")
    with watching(vade) as (process, log):
        vade("add", "The bittern hides in the reeds.", "--key", "bittern", "--scope", "agent")
        until(lambda: log.read_text().count("\n") >= 2, "a line about the new folder")
        assert log.read_text().splitlines()[1] == "2 of 2 files indexed (1 changed, 0 removed)"
        process.terminate()
        assert process.wait(10) == 0


def test_a_watch_for_programs_prints_one_report_after_the_other(vade: Vade) -> None:
    vade("add", "The heron stands in the pond.", "--key", "heron")
    with watching(vade, "--json") as (process, log):
        first = json.loads(log.read_text())
        assert (first["files"], first["changed"]) == (1, 1)
        process.terminate()
        assert process.wait(10) == 0


@pytest.mark.parametrize("more", ["--rebuild", "--check"])
def test_a_watch_goes_with_nothing_that_ends(vade: Vade, more: str) -> None:
    assert vade("index", "--watch", more) == ""
    assert vade.code == 2
    assert "--watch" in vade.err
    assert not (vade.home / "index").exists()


# --- vade status --------------------------------------------------------------------------------------------


def test_the_status_says_what_is_new_changed_gone_and_failed_until_it_is_indexed(vade: Vade) -> None:
    vault = vade.base / "vault"
    vault.mkdir()
    for name in ("one", "two", "three"):
        (vault / f"{name}.md").write_text(f"# {name}\n\nThe heron {name} stands in the pond.\n")
    vade("sources", "add", str(vault))
    fresh = vade.json("status")["index"]
    assert (fresh["files"], fresh["indexed"], fresh["pending"], fresh["chunks"]) == (3, 0, 3, 0)
    assert "0 of 3 files (3 new)" in vade("status")
    assert not (vade.home / "index").exists()  # looking makes nothing

    assert "3 of 3 files indexed (3 changed, 0 removed)" in vade("index")
    done = vade.json("status")["index"]
    assert (done["files"], done["indexed"], done["pending"], done["stale"], done["gone"]) == (3, 3, 0, 0, 0)
    assert done["failed"] == []
    assert done["chunks"] == 3
    assert "3 of 3 files, 3 passages" in vade("status")

    (vault / "one.md").write_text("# one\n\nThe heron one has flown away.\n")
    (vault / "two.md").unlink()
    (vault / "four.md").write_text("# four\n\nThe stork came by.\n")
    (vault / "bad.md").write_bytes(b"\xff\xfe\xfd")
    for _ in range(2):  # looking changes nothing
        waiting = vade.json("status")["index"]
        assert (waiting["files"], waiting["indexed"]) == (4, 1)
        assert (waiting["pending"], waiting["stale"], waiting["gone"]) == (2, 1, 1)
    assert "1 of 4 files (2 new, 1 changed, 1 gone)" in vade("status")

    said = vade("index")
    assert "3 of 4 files indexed (2 changed, 1 removed)" in said
    assert f"not indexed: {vault}/bad.md" in said
    after = vade.json("status")["index"]
    assert (after["indexed"], after["pending"], after["stale"], after["gone"]) == (3, 0, 0, 0)
    assert [each["path"] for each in after["failed"]] == [str(vault / "bad.md")]
    assert "UTF-8" in after["failed"][0]["reason"]
    shown = vade("status")
    assert "3 of 4 files (1 failed)" in shown
    assert f"not indexed: {vault}/bad.md: " in shown

    (vault / "bad.md").write_text("Now it is text.\n")
    assert vade.json("status")["index"]["stale"] == 1
    report = vade.json("index")
    assert (report["files"], report["indexed"], report["changed"], report["failed"]) == (4, 4, 1, [])


def test_the_status_says_when_the_index_itself_is_of_no_use(vade: Vade) -> None:
    vade("add", "The heron stands in the pond.", "--key", "heron")
    # In a process of its own: one that still held the file would answer from its log.
    subprocess.run([sys.executable, "-m", "vademecum", "index", "--home", str(vade.home)], check=True)
    path = next((vade.home / "index").glob("*.db"))
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    path.write_bytes(b"no database at all" * 1_000)
    found = vade.json("status")["index"]
    assert found["trouble"]
    assert path.read_bytes().startswith(b"no database")  # looking mends nothing
    assert "1 of 1 file indexed" in vade("index")
    assert vade.json("status")["index"]["trouble"] is None


# --- vade search --------------------------------------------------------------------------------------------


@pytest.fixture
def birds(vade: Vade) -> Vade:
    vade("add", "The heron stands in the pond.", "--key", "heron", "--type", "discovery")
    vade("add", "The stork came by at noon.", "--key", "stork")
    vade("add", "--journal", "The owl was heard at night.")
    return vade


PASSAGE = {
    "path",
    "startLine",
    "endLine",
    "score",
    "relevance",
    "match",
    "snippet",
    "source",
    "scope",
    "key",
    "type",
    "num",
    "title",
    "time",
    "origin",
    "superseded",
}


@pytest.mark.parametrize("command", [["search"], ["search", "--records"]])
def test_the_json_of_an_answer_has_the_documented_shape(birds: Vade, command: list[str]) -> None:
    found = birds.json(*command, "heron")
    shape = {"results", "match", "hidden", "provider", "model", "mode", "coverage", "degraded", "notes"}
    assert set(found) == {"schemaVersion", *shape}
    assert (found["match"], found["hidden"]) == ("strong", 0)
    assert set(found["coverage"]) == {
        "files",
        "indexed",
        "pending",
        "failed",
        "vectorsPending",
        "read",
        "unread",
    }
    assert (found["mode"], found["provider"], found["degraded"]) == ("hybrid", "local", [])
    first = found["results"][0]
    assert set(first) == PASSAGE
    assert (first["key"], first["scope"], first["source"], first["num"]) == ("heron", "project", "memory", 1)
    assert first["snippet"] == "The heron stands in the pond."
    read = birds.json("show", first["path"], "--lines", f"{first['startLine']}-{first['endLine']}")
    assert first["snippet"] in read["text"]
    assert birds.json("search", "nothing of the kind xyzzy")["match"] == "weak"


def test_what_was_said_in_a_session_is_found_with_the_notes_and_can_be_read_by_its_path(birds: Vade) -> None:
    said = [("user", "Where is the heron?"), ("assistant", "In the barn.")]
    (birds.base / "talk.json").write_text(json.dumps([{"role": who, "content": text} for who, text in said]))
    assert birds.code == birds("sessions", "import", str(birds.base / "talk.json")).count("failed") == 0
    found = birds.json("search", "heron")
    assert [each["source"] for each in found["results"]].count("transcript") == 1
    assert found["results"][0]["source"] == "memory"
    assert found["coverage"]["sessions"] == 1
    (only,) = birds.json("search", "heron", "--source", "transcript")["results"]
    assert (only["snippet"], only["origin"], only["scope"]) == ("Where is the heron?", "tool", "project")
    assert f"{only['path']}#L2" in birds("search", "heron", "--source", "transcript", "--explain")
    read = birds.json("show", only["path"], "--lines", str(only["startLine"]))
    assert "Where is the heron?" in read["text"]
    assert "is not a file of this memory" in (birds("show", "transcripts/other/x.jsonl") or birds.err)


def test_explain_adds_the_numbers_for_programs_and_bars_for_people(birds: Vade) -> None:
    first = birds.json("search", "heron", "--explain")["results"][0]
    assert set(first) == PASSAGE | {"components", "arithmetic"}
    assert set(first["components"]) == {"vector", "narrow", "wide", "exact", "score"}
    assert {"cosine", "bm25Narrow", "bm25Wide", "score", "relevance"} <= set(first["arithmetic"])
    shown = birds("search", "heron", "--explain")
    bars = [line for line in shown.splitlines() if "█" in line]
    assert {line.split()[0] for line in bars} >= {"vector", "narrow", "wide", "score"}
    assert max(line.count("█") for line in bars) <= 24
    assert "bm25 narrow" in shown
    assert "hybrid, 3 of 3 files covered" in shown
    plain = birds("search", "heron")
    assert "█" not in plain
    assert "covered" not in plain


def test_a_search_names_path_and_lines_that_get_takes(birds: Vade) -> None:
    shown = birds("search", "owl", "--mode", "bm25")
    path, _, rest = shown.splitlines()[2].strip().partition("#L")
    assert "/journal/" in path
    assert "owl" in birds("show", path, "--lines", f"{rest.split('-')[0].split(' ')[0]}-")


@pytest.mark.parametrize(
    "words",
    [
        ("search", "heron", "--sort-by", "newest"),
        ("search", "heron", "--mode", "magic"),
        ("search", "heron", "--max-results", "0"),
        ("search", "heron", "--min-score", "2"),
        ("search", "heron", "--as-of", "yesterday-ish"),
        ("search", "heron", "--source", "bogus"),
        ("search", "--records", "heron", "--max-results", "0"),
        ("search", "-heron"),
        ("search", "--explain"),
    ],
)
def test_a_question_that_is_none_is_one_line_and_exit_2(birds: Vade, words: tuple[str, ...]) -> None:
    assert birds(*words) == ""
    assert birds.code in (1, 2)
    assert len(birds.err.strip().splitlines()) == 1
    assert "Traceback" not in birds.err


@pytest.mark.parametrize(
    "command",
    [
        ("search",),
        ("search", "--records"),
        ("sessions", "search"),
    ],
)
def test_a_question_needs_no_quotes_and_options_stand_anywhere(birds: Vade, command: tuple[str, ...]) -> None:
    said = [("user", "the heron stands in the pond")]
    (birds.base / "talk.json").write_text(json.dumps([{"role": who, "content": text} for who, text in said]))
    birds("sessions", "import", str(birds.base / "talk.json"))
    whole = json.loads(birds(*command, "--json", "where does the heron stand"))
    assert whole["results"]
    for words in (
        ("where", "does", "the", "heron", "stand"),
        ("where does", "the heron", "stand"),
        ("--", "where", "does", "the", "heron", "stand"),
    ):
        assert json.loads(birds(*command, "--json", *words)) == whole, words
    home = str(birds.home)
    assert run([*command, "where", "does", "--home", home, "the", "heron", "--json", "stand"]) == 0
    assert json.loads(birds.capsys.readouterr().out) == whole


def test_a_question_that_begins_with_a_dash_stands_after_two(birds: Vade) -> None:
    birds("search", "-heron")
    assert "Put `--` before words that begin with a dash" in birds.err
    run(["search", "--json", "--home", str(birds.home), "--", "-heron"])
    assert json.loads(birds.capsys.readouterr().out)["results"][0]["key"] == "heron"


def test_a_filter_that_is_none_is_told_on_standard_error_and_in_the_json(birds: Vade) -> None:
    assert "The heron stands" in birds("search", "type:bogus", "heron")
    assert "'type:bogus' is not a filter and was searched as words; the types are project, user" in birds.err
    note, *_ = birds.json("search", "heron after:lunch")["notes"]
    assert note.startswith("'after:lunch' is not a filter and was searched as words; a date is written as")


def test_an_unknown_source_is_an_error_that_names_the_choices(birds: Vade) -> None:
    vault = birds.base / "vault"
    vault.mkdir()
    (vault / "one.md").write_text("# one\n\nA heron of the vault.\n")
    birds("sources", "add", str(vault))
    birds("search", "heron", "--source", "bogus")
    assert birds.code == 2
    assert "'bogus' is not a source: the sources are memory, journal, pinned, transcript, vault" in birds.err
    for name in ("memory", "journal", "pinned", "transcript", "vault"):
        assert birds.json("search", "heron", "--source", name)["degraded"] == []
        assert birds.code == 0


def test_recall_takes_every_order_and_include_related(birds: Vade) -> None:
    for order in ("recency", "score", "usage"):
        found = birds.json("search", "--records", "--sort-by", order, "--include-related")
        assert {each["key"] for each in found["results"]} == {"heron", "stork"}
    assert len(birds.json("search", "--records", "--max-results", "1")["results"]) == 1


# --- what a cold search loads -------------------------------------------------------------------------------


def loaded_by(vade: Vade, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *words, "--home", str(vade.home)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "heron" in done.stdout
    return set(done.stdout.split("\n")[-2].split())


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("hybrid", ("search", "heron", "--mode", "bm25")),
        ("bm25", ("search", "heron", "--mode", "bm25")),
        ("hybrid", ("search", "--records", "--sort-by", "recency")),
    ],
)
def test_a_search_by_words_on_a_ready_index_loads_no_numbers(
    birds: Vade, before: str, words: tuple[str, ...]
) -> None:
    birds("search", "heron", "--mode", before)
    loaded = loaded_by(birds, *words)
    assert "vademecum.index.sqlite" in loaded
    assert not {"numpy", "onnxruntime", "tokenizers", "rich", "watchfiles", "urllib.request"} & loaded


def test_weak_matches_stand_under_their_own_line_behind_the_others(birds: Vade) -> None:
    found = birds("search", "heron")
    assert (
        found.index("heron.md")
        < found.index("weak matches (they may not answer this):")
        < found.index("stork.md")
    )
    assert found.count("weak matches") == 1
    assert "stork.md" not in birds("search", "heron", "--min-score", "0.9")
    assert "hidden by --min-score; 0 shows all" in birds.err
