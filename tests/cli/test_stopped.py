"""Long work shows how far it is on a terminal, and a person may stop it: nothing is half done after that."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import pexpect
import pytest
from bench import notes

if TYPE_CHECKING:
    from pathlib import Path

MANY = 500
PATIENT = 240.0
# What a bar shows: what is done, how many of how many, how many a second, and the time that is left.
BAR = re.compile(r"(\w[\w ]*?) +[━╸╺ ]+ +\d[\d,]*/\d+ +(?:[\d,]+/s)? +(?:\d:\d\d:\d\d|-:--:--)")


class Place(NamedTuple):
    """A home, a bundle of notes to import, and transcripts."""

    top: Path

    def words(self, *words: str) -> list[str]:
        return ["-m", "vademecum", *words]

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("VADE_")}
        home = {"VADE_HOME": str(self.top / "home"), "HOME": str(self.top), "COLUMNS": "100"}
        return kept | home | {"TERM": "xterm", "VADE_EMBEDDING_PROVIDER": "none"}

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, *self.words(*words)],
            cwd=self.top / "work",
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def stop(self, at: str, *words: str) -> str:
        """Run on a terminal, and press Ctrl-C once a bar of that name is there; what was seen."""
        seen = io.StringIO()
        child = pexpect.spawn(
            sys.executable,
            self.words(*words),
            cwd=str(self.top / "work"),
            env=self.environ,
            encoding="utf-8",
            dimensions=(40, 100),
            timeout=PATIENT,
        )
        child.logfile_read = seen
        child.expect(rf"{at} [^\n]*?[1-9]\d*/\d+")
        child.sendintr()
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 130, seen.getvalue()
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.getvalue())

    def clean(self) -> None:
        """Nothing is broken, and nothing of the stopped command lies around."""
        found = json.loads(self.run("check", "--json"))
        assert found["errors"] == 0, found
        left = [str(each) for each in (self.top / "home").rglob("*") if each.suffix in (".tmp", ".part")]
        assert left == []
        assert not [*self.top.glob(".*.part")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notes, each said twice, and a home that has them."""
    top = tmp_path_factory.mktemp("stopped")
    (top / "work").mkdir()
    bundle = top / "bundle"
    bundle.mkdir()
    talk = notes.notes(10_000_000, seed=5)
    for number in range(MANY):
        said = f"Number {number}: {next(talk)}"
        for name, text in (("a", said), ("b", f"{said}!")):
            content = f"---\ntype: project\n---\n# note {number} {name}\n\n{text}\n"
            (bundle / f"note-{number:04}-{name}.md").write_text(content, encoding="utf-8")
    return top


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Place:
    shutil.copytree(made, tmp_path / "top")
    return Place(tmp_path / "top")


@pytest.mark.full
def test_an_import_that_a_person_stops_says_what_is_done_and_goes_on_when_run_again(place: Place) -> None:
    words = ("import", "okf", str(place.top / "bundle"), "--scope", "global")
    seen = place.stop("import", *words)
    assert BAR.search(seen), seen
    told = re.search(
        r"vade: stopped at import okf, ([\d,]+) of 1,000: what was imported stays, and `vade undo`", seen
    )
    assert told, seen
    place.clean()
    there = len(json.loads(place.run("list", "--scope", "global", "--limit", "5000", "--json"))["records"])
    assert int(told[1].replace(",", "")) <= there <= int(told[1].replace(",", "")) + 1
    again = json.loads(place.run(*words, "--json"))
    assert again["counts"]["record"] == 2 * MANY - there
    assert again["counts"]["same"] == there
    place.clean()
    # Both runs can be undone, the newest first.
    for _ in range(2):
        place.run("undo")
    assert json.loads(place.run("list", "--scope", "global", "--json"))["records"] == []


@pytest.mark.full
def test_a_pipe_shows_no_bar_and_a_stopped_command_still_says_one_sentence(place: Place) -> None:
    words = place.words("import", "okf", str(place.top / "bundle"), "--scope", "global")
    records = place.top / "home" / "memory" / "global" / "records"
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=place.top / "work",
        env=place.environ,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None and not (records.is_dir() and len([*records.iterdir()]) > 20):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 130
    assert re.fullmatch(r"\n?vade: stopped at import okf, [\d,]+ of 1,000: [^\n]+\n", said)
    place.clean()


def filled(place: Place) -> None:
    place.run("import", "okf", str(place.top / "bundle"), "--scope", "global")


@pytest.mark.soak
def test_an_index_that_a_person_stops_is_finished_by_the_next(place: Place) -> None:
    filled(place)
    shutil.rmtree(place.top / "home" / "index")
    seen = place.stop(r"(?:files|index\w*|words|vectors)", "index")
    assert "what was indexed and read stays" in seen
    place.clean()
    assert json.loads(place.run("index", "--json"))["files"] == 2 * MANY


@pytest.mark.soak
def test_an_undo_that_a_person_stops_is_finished_by_the_same_undo(place: Place) -> None:
    filled(place)
    (run,) = [each["run"] for each in json.loads(place.run("undo", "--list", "--json"))["runs"]]
    assert "what was restored stays" in place.stop("undo", "undo", run)
    place.clean()
    place.run("undo", run)
    assert json.loads(place.run("list", "--scope", "global", "--json"))["records"] == []


@pytest.mark.soak
@pytest.mark.parametrize(
    ("at", "words", "said"),
    [
        (r"(?:records|reading|contradiction|\w+)", ("check",), "nothing was changed"),
        (r"(?:reading|comparing)", ("tidy", "--only", "sweep"), "nothing was changed"),
        (r"(?:reading|export|writing)", ("export", "okf", "../out"), "nothing was written"),
        ("backup", ("backup", "../out.tar.gz"), "no backup was written"),
    ],
)
def test_what_only_reads_or_writes_elsewhere_leaves_nothing_when_stopped(
    place: Place, at: str, words: tuple[str, ...], said: str
) -> None:
    filled(place)
    before = {each: each.read_bytes() for each in (place.top / "home" / "memory").rglob("*.md")}
    assert said in place.stop(at, *words)
    assert not [*place.top.glob("out*")]
    assert {each: each.read_bytes() for each in (place.top / "home" / "memory").rglob("*.md")} == before
    place.clean()
    place.run(*words)


@pytest.mark.soak
def test_a_tidy_that_a_person_stops_is_finished_by_the_next_and_each_can_be_undone(place: Place) -> None:
    filled(place)
    before = {each: each.read_bytes() for each in (place.top / "home" / "memory").rglob("*.md")}
    seen = place.stop("sweep", "tidy", "--only", "sweep", "--apply", "--yes")
    assert "what was changed stays, and `vade undo` reverts it" in seen
    place.clean()
    place.run("tidy", "--only", "sweep", "--apply", "--yes")
    assert len([*(place.top / "home" / "memory").rglob("*.md")]) <= len(before) - MANY
    for _ in range(2):
        place.run("undo")
    assert {each: each.read_bytes() for each in (place.top / "home" / "memory").rglob("*.md")} == before
