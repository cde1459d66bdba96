"""Git activity: what is new in a real repository, and that no repository can make it run anything."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from vademecum.context import host
from vademecum.context.host import GitActivity

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
NAME = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}
MADE = {**NAME, "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        env={**os.environ, **MADE},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits, one changed file and a new one."""
    folder = tmp_path / "project"
    folder.mkdir()
    run(folder, "-c", "init.defaultBranch=main", "init", "-q")
    for number, words in enumerate(("Begin", "Add the second file")):
        (folder / f"file{number}.txt").write_text(f"text {number}\n")
        run(folder, "add", ".")
        run(folder, "commit", "-qm", words)
    (folder / "file0.txt").write_text("changed\n")
    (folder / "neu und ü.txt").write_text("new\n")
    return folder


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_newest_commits_the_branch_and_what_is_changed_are_told(repository: Path) -> None:
    found = host.read_git(repository)
    assert found is not None
    assert found.branch == "main"
    assert [line.split(" ", 1)[1] for line in found.commits] == ["Add the second file", "Begin"]
    assert found.commits[0].split(" ")[0] == run(repository, "rev-parse", "--short", "HEAD").strip()
    assert found.changes == (" M file0.txt", "?? neu und ü.txt")


def test_a_folder_below_the_repository_and_one_without_a_commit_are_told_of_too(
    repository: Path, tmp_path: Path
) -> None:
    (repository / "src").mkdir()
    assert host.read_git(repository / "src") == host.read_git(repository)
    (tmp_path / "new").mkdir()
    run(tmp_path / "new", "-c", "init.defaultBranch=trunk", "init", "-q")
    assert host.read_git(tmp_path / "new") == GitActivity("trunk")


def test_outside_a_repository_git_is_not_even_run(tmp_path: Path) -> None:
    script(tmp_path / "git", f"touch {tmp_path / 'ran'}")
    (tmp_path / "plain").mkdir()
    assert host.read_git(tmp_path / "plain", environ={"PATH": str(tmp_path)}) is None
    assert not (tmp_path / "ran").exists()


def test_without_git_there_is_no_activity(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.read_git(repository) is None


def test_a_git_that_hangs_or_fails_is_left(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    script(tmp_path / "git", "exec sleep 60")
    assert host.read_git(repository, seconds=0.3) is None
    script(tmp_path / "git", "echo nonsense; exit 128")
    assert host.read_git(repository) is None


def test_another_repository_that_the_environment_names_is_not_meant(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run(other, "init", "-q")
    expected = host.read_git(repository)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert host.read_git(repository) == expected


def test_an_answer_without_end_is_cut_at_a_whole_entry(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        (repository / f"new{number:02}.txt").write_text("new\n")
    monkeypatch.setattr(host, "_MOST_BYTES", 1000)
    found = host.read_git(repository)
    assert found is not None
    assert 0 < len(found.changes) < 90
    whole = {" M file0.txt", "?? neu und ü.txt", *(f"?? new{number:02}.txt" for number in range(100))}
    assert set(found.changes) <= whole


def test_a_repository_cannot_make_it_run_anything(repository: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    evil = script(tmp_path / "evil", f'echo "$0 $@" >> {ran}; cat')
    settings = {
        "core.fsmonitor": str(evil),
        "core.pager": str(evil),
        "pager.log": str(evil),
        "pager.status": str(evil),
        "core.hooksPath": str(tmp_path / "hooks"),
        "gpg.program": str(evil),
        "log.showSignature": "true",
        "filter.evil.clean": str(evil),
        "filter.evil.process": "",
        "filter.evil.required": "true",
        "filter.Odd Name.clean": str(evil),
        "diff.evil.textconv": str(evil),
        "diff.external": str(evil),
        "core.sshCommand": str(evil),
        "remote.origin.url": f"ext::{evil}",
        "remote.origin.promisor": "true",
        "core.untrackedCache": "true",
    }
    for name, value in settings.items():
        run(repository, "-c", "core.fsmonitor=false", "config", name, value)
    (tmp_path / "hooks").mkdir()
    for hook in ("post-index-change", "post-checkout", "fsmonitor-watchman"):
        script(tmp_path / "hooks" / hook, f"echo {hook} >> {ran}")
    (repository / ".git/info/attributes").write_text("file0.txt filter=evil\n* diff=evil\n")
    (repository / ".gitattributes").write_text('file1.txt filter="Odd Name"\n')
    (repository / "file0.txt").write_text("text 1\n")  # as long as before: only its content tells
    os.utime(repository / "file1.txt", (1, 1))
    found = host.read_git(repository)
    assert not ran.exists(), ran.read_text()
    assert found is not None
    assert " M file0.txt" in found.changes
    assert found.commits
    # The control: git alone runs them.
    subprocess.run(["git", "-C", str(repository), "status"], capture_output=True, check=False)
    assert ran.exists()


def test_a_filter_that_cannot_be_switched_off_costs_the_list_of_changes(
    repository: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    evil = script(tmp_path / "evil", f"echo ran >> {ran}; cat")
    with (repository / ".git/config").open("a") as file:
        file.write(f'[filter "a=b"]\n\tclean = {evil}\n')
    (repository / ".gitattributes").write_text("* filter=a=b\n")
    (repository / "file0.txt").write_text("text 1\n")
    found = host.read_git(repository)
    assert not ran.exists()
    assert found is not None
    assert found.changes == ()
    assert len(found.commits) == 2


def test_more_filters_than_can_be_listed_run_none(repository: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    script(tmp_path / "evil", f"echo clean >> {ran}; cat")
    names = "".join(f'[filter "{number:05d}{"x" * 60}"]\n\tclean = cat\n' for number in range(4000))
    with (repository / ".git/config").open("a") as config:
        config.write(f'{names}[filter "z"]\n\tclean = {tmp_path / "evil"}\n')
    (repository / ".gitattributes").write_text("file0.txt filter=z\n")
    (repository / "file0.txt").write_text("text 1\n")
    found = host.read_git(repository)
    assert found is not None
    assert found.commits
    assert found.changes == ()
    assert not ran.exists(), "a filter whose name was cut off was run"
