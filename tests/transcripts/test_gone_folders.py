"""Sessions of folders that no longer exist: which project they join, and which stay apart."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from vademecum.errors import NotFound, NotVisible
from vademecum.interfaces.cli.app import run
from vademecum.memory import Memory, connect
from vademecum.transcripts import JoinedFolders
from vademecum.types import Origin

REMOTE = "git@github.com:acme/api.git"
PROJECT = "github-com-acme-api"


class World:
    """A person with a repository at `code/api`, transcripts in `logs`, and a home."""

    def __init__(self, base: Path) -> None:
        self.base, self.logs, self.count = base, base / "logs", 0
        self.api = self.repository("code/api", REMOTE)

    def repository(self, name: str, remote: str) -> Path:
        git = self.base / name / ".git"
        git.mkdir(parents=True)
        (git / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
        return git.parent

    def memory(self, **more: Any) -> Memory:
        return connect(home=self.base / "home", cwd=self.api, origin=Origin.USER, **more)

    def session(
        self, folder: str | Path, *, branch: str = "main", printed: str = "", said: str = "", **state: Any
    ) -> None:
        """Write a session of Claude Code that ran in a folder."""
        self.count += 1
        about = {"sessionId": f"s-{self.count}", "cwd": str(folder), "gitBranch": branch}
        texts: list[Any] = [f"Please look at the marmalade of {Path(folder).name}. {said}"]
        if printed:
            text = f"origin\t{printed} (fetch)\norigin\t{printed} (push)"
            texts.append([{"type": "tool_result", "tool_use_id": "t", "content": text}])
        lines = [
            {**about, "type": "user", "uuid": f"u{at}", "message": {"role": "user", "content": content}}
            for at, content in enumerate(texts)
        ]
        if state:
            lines.append({"type": "worktree-state", "sessionId": f"s-{self.count}", "worktreeSession": state})
        self.write(lines)

    def codex(self, folder: str, remote: str) -> None:
        self.count += 1
        git = {"branch": "main", "repository_url": remote}
        meta = {"id": f"c-{self.count}", "timestamp": "2026-11-15T08:00:00.000Z", "cwd": folder, "git": git}
        text = [{"type": "input_text", "text": "What is marmalade?"}]
        item = {"type": "message", "role": "user", "content": text}
        time = meta["timestamp"]
        self.write(
            [
                {"timestamp": time, "type": "session_meta", "payload": meta},
                {"timestamp": time, "type": "response_item", "payload": item},
            ]
        )

    def write(self, lines: list[dict[str, Any]]) -> None:
        self.logs.mkdir(exist_ok=True)
        path = self.logs / f"rollout-{self.count}.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in lines))

    def take(self, project: str = "", **more: Any) -> JoinedFolders:
        sessions = self.memory(**more).sessions
        return sessions.join_folders([*sessions.import_all(self.logs)], project=project)

    def seen(self) -> int:
        return len(self.memory().sessions.list())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("HOME", str(tmp_path))
    world = World(tmp_path)
    monkeypatch.chdir(world.api)
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    return world


def projects(done: JoinedFolders) -> dict[str, str]:
    return {each.folder: each.project for each in done.joined}


def test_sessions_join_the_repository_that_their_transcripts_show(world: World) -> None:
    world.session("/mnt/other/api", said="github.com/acme/api/pull/3 of gitlab.com/fork/api")  # its name
    world.session("/mnt/trees/api/.claude/worktrees/fix")
    world.session("/mnt/worktrees/api/login")
    world.session("/mnt/api-worktrees/cache", printed="https://github.com/acme/api")
    world.session("/mnt/other/api/packages/web")  # below a folder that is joined
    world.session("/mnt/scratch/x1", originalCwd=str(world.api), worktreePath="/mnt/scratch/x1")
    world.codex("/mnt/scratch/x2", "https://token@github.com/acme/api.git")
    done = world.take()
    assert set(projects(done).values()) == {PROJECT}
    assert len(done.joined) == 7
    assert not done.left
    assert "token" not in str(done)
    assert world.seen() == 7
    assert len(world.memory().sessions.search("marmalade", max_results=20).hits) == 7
    assert world.take() == JoinedFolders()  # once


def test_sessions_of_a_remote_join_each_other_before_their_repository_is_here(world: World) -> None:
    world.codex("/mnt/one", "https://github.com/acme/lib")
    world.codex("/mnt/two", "git@github.com:acme/lib.git")
    assert set(projects(world.take()).values()) == {"github-com-acme-lib"}


@pytest.mark.parametrize(
    ("folder", "more"),
    [
        ("/mnt/other/billing", {}),  # another name
        ("/mnt/other/api", {"branch": ""}),  # no repository
        ("/mnt/other/api", {"branch": "HEAD"}),
        ("/mnt/other/api", {"printed": "git@github.com:stranger/api.git"}),  # another remote
        ("/mnt/other/api", {"said": "See https://github.com/stranger/api/pull/3."}),
        ("/mnt/other/notes", {"printed": REMOTE}),  # a question about another folder
        ("/mnt/other/notes", {"originalCwd": "/mnt/nowhere"}),
    ],
)
def test_a_doubtful_folder_stays_apart(world: World, folder: str, more: dict[str, Any]) -> None:
    world.session(folder, **more)
    done = world.take()
    assert ([each.folder for each in done.left], done.joined, done.run) == ([folder], [], "")
    assert world.seen() == 0


def test_a_name_that_two_repositories_have_decides_nothing(world: World) -> None:
    world.session(world.repository("old/api", "git@github.com:stranger/api.git"))
    world.session("/mnt/other/api")
    assert [each.folder for each in world.take().left] == ["/mnt/other/api"]


def test_a_folder_that_exists_is_never_joined(world: World) -> None:
    folder = world.base / "elsewhere" / "api"
    folder.mkdir(parents=True)
    world.session(folder)
    assert world.take(str(world.api)) == JoinedFolders()
    shutil.rmtree(folder)
    assert projects(world.take()) == {os.path.realpath(folder): PROJECT}


def test_a_deleted_clone_joins_the_project_that_its_memory_was_saved_for(world: World) -> None:
    clone = world.repository("clones/second", REMOTE)
    connect(home=world.base / "home", cwd=clone, origin=Origin.USER).store("Marmalade is orange.")
    shutil.rmtree(clone)
    world.session(clone, branch="")
    (joined,) = world.take().joined
    assert (joined.project, joined.why) == (PROJECT, "memory was saved for it")


def test_the_memory_of_a_folder_is_joined_by_a_person_only(world: World) -> None:
    folder = world.base / "elsewhere" / "api"
    folder.mkdir(parents=True)
    connect(home=world.base / "home", cwd=folder, origin=Origin.USER).store("Marmalade is orange.")
    shutil.rmtree(folder)
    world.session(folder)
    assert [each.folder for each in world.take().left] == [str(folder)]
    assert projects(world.take(str(world.api))) == {str(folder): PROJECT}


def test_undo_separates_them_and_a_later_import_does_not_join_them_again(world: World) -> None:
    world.session("/mnt/other/api")
    done = world.take()
    assert world.seen() == 1
    (brief,) = world.memory().care.runs()
    assert (brief.run, brief.what, brief.edits) == (done.run, "join", 1)
    run_id, results = world.memory(terminal=True).care.undo()
    assert (run_id, [each.done for each in results]) == (done.run, [True])
    assert world.seen() == 0
    assert [each.folder for each in world.take().left] == ["/mnt/other/api"]
    assert projects(world.take("api")) == {"/mnt/other/api": PROJECT}  # a person may change their mind
    assert world.seen() == 1


def test_the_rest_joins_the_project_that_a_person_names(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.session("/mnt/notes")
    world.session("/mnt/notes")
    world.session("/mnt/drafts", branch="")
    assert run(["sessions", "import", str(world.logs)]) == 0
    out = capsys.readouterr().out
    assert "3 sessions of 2 folders that are gone joined no project: --project NAME" in out
    assert run(["sessions", "import", str(world.logs), "--project", "nobody"]) == 1
    assert "no project" in capsys.readouterr().err
    assert run(["sessions", "import", str(world.logs), "--project", str(world.api), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {(each["folder"], each["sessions"], each["project"]) for each in found["joined"]} == {
        ("/mnt/notes", 2, PROJECT),
        ("/mnt/drafts", 1, PROJECT),
    }
    assert (found["left"], len(found["imported"]), world.seen()) == ([], 3, 3)
    assert found["run"]


def test_at_a_terminal_the_import_asks_once(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answers = iter(["", str(world.api)])

    def prompt(question: str, **_: Any) -> str:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", prompt)
    world.session("/mnt/notes")
    for count in (1, 1):  # nothing new comes the second time
        assert run(["sessions", "import", str(world.logs)]) == 0
        assert (len(asked), world.seen()) == (count, 0)
    world.session("/mnt/notes")
    assert run(["sessions", "import", str(world.logs)]) == 0
    assert (len(asked), world.seen()) == (2, 2)
    assert "joined /mnt/notes (2 sessions) to github-com-acme-api: you chose it" in capsys.readouterr().out


def test_an_agent_names_no_project(world: World) -> None:
    world.session("/mnt/notes")
    memory = connect(home=world.base / "home", cwd=world.api, origin=Origin.AGENT)
    with pytest.raises(NotVisible):
        memory.sessions.join_folders([], project="api")
    with pytest.raises(NotFound, match="no project"):
        world.memory().projects.find("nobody")
