"""Identity: one project for all its clones, worktrees and spellings, and never a secret in its name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cases import every_case
from vademecum.errors import NotFound, UsageError, VadeError
from vademecum.memory import Memory, connect
from vademecum.store import scopes
from vademecum.text import names
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

# --- remotes ------------------------------------------------------------------------------------------------

SPELLINGS = (
    "https://github.com/acme/api",
    "https://github.com/acme/api.git",
    "https://github.com/acme/api/",
    "https://github.com/acme/api.git/",
    "HTTPS://GitHub.com/Acme/API.git",
    "http://github.com/acme/api",
    "https://user@github.com/acme/api.git",
    "https://user:hunter2token@github.com/acme/api.git",
    "https://hunter2token@github.com/acme/api.git",
    "https://oauth2:hunter2token@github.com:443/acme/api",
    "https://user:p@ss:hunter2token@github.com/acme/api",
    "https://github.com/acme/api.git?token=hunter2token",
    "https://github.com/acme/api#hunter2token",
    "ssh://git@github.com/acme/api.git",
    "ssh://git@github.com:2222/acme/api.git",
    "ssh://github.com:22/acme/api",
    "git@github.com:acme/api.git",
    "git@github.com:acme/api",
    "git@github.com:/acme/api.git",
    "github.com:acme/api.git",
    "user:hunter2token@github.com:acme/api.git",
    "git://github.com/acme/api.git",
    "git+ssh://git@github.com/acme/api.git",
    "  https://github.com/acme/api.git  ",
)


@every_case("url", SPELLINGS)
def test_every_spelling_of_a_remote_is_one_project(url: str) -> None:
    assert scopes.normalise_remote(url) == "github-com-acme-api"


def test_the_three_spellings_of_the_issue_are_one_project() -> None:
    urls = ("ssh://git@host:2222/a/b.git", "git@host:a/b", "https://user:token@host/a/b.git")
    assert {scopes.normalise_remote(url) for url in urls} == {"host-a-b"}


def test_projects_whose_words_only_look_alike_are_different() -> None:
    urls = [
        "https://github.com/acme/api-core",
        "https://github.com/acme-api/core",
        "https://github.com/acme/api/core",
        "https://github.com/acme/api.core",
        "https://github.com/acme/api_core",
        "https://github.com/acmeapi/core",
        "https://github.com/acme/apicore",
        "https://gitlab.com/acme/api-core",
        "https://github.com/~acme/api/core",
        "git@github.com-acme:api/core",
        "https://github.com/" + "a" * 120 + "/x",
        "https://github.com/" + "a" * 120 + "/y",
        "https://github.com/acme/日本",
        "https://github.com/acme/中国",
    ]
    ids = [scopes.normalise_remote(url) for url in urls]
    assert len(set(ids)) == len(urls)


@every_case(
    "url",
    [
        "https://user:s3cr3t@host/a/b",
        "https://s3cr3t@host/a/b",
        "https://s3cr3t:x-oauth-basic@host/a/b",
        "https://user:s3cr3t@host:8443/a/b.git",
        "https://user:a@s3cr3t@host/a/b",
        "https://user:a:s3cr3t@host/a/b",
        "https://user:a/s3cr3t@host/a/b",
        "https://user:s3cr3t/a@host/a/b",
        "https://host/a/b?private_token=s3cr3t",
        "https://host/a/b#s3cr3t",
        "ssh://user:s3cr3t@host/a/b",
        "user:s3cr3t@host:a/b",
        "git+https://user:s3cr3t@host/a/b",
        "https://user:%73s3cr3t@[::1]:8080/a/b",
    ],
)
def test_no_token_is_ever_in_an_id(url: str) -> None:
    assert "s3cr3t" not in scopes.normalise_remote(url)


urls = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["", "https://", "ssh://", "git+ssh://", "file://", "x://"]),
    st.sampled_from(["", "user@", "u:s3cr3t@", "s3cr3t@"]),
    st.sampled_from(["host", "github.com", "[::1]", "localhost:8080", "h:22", ""]),
    st.sampled_from(["", "/", ":", ":/"]),
    st.text(max_size=30),
)


@given(urls | st.text())
@settings(max_examples=500, deadline=None)
@example("../upstream.git")
@example("C:\\repos\\api")
@example("::::")
@example("@")
@example("")
def test_any_remote_makes_an_id_that_can_name_a_folder_or_none(url: str) -> None:
    found = scopes.normalise_remote(url)
    assert found == scopes.normalise_remote(url)
    assert found == "" or names.check_id(found, "a project") == found
    assert len(found) <= 120


# --- real repositories --------------------------------------------------------------------------------------


def git(where: Path, *words: str) -> str:
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always", *words]
    ran = subprocess.run(command, cwd=where, env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def repository(path: Path, remote: str | None = None) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    (path / "file").write_text("x")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    if remote:
        git(path, "remote", "add", "origin", remote)
    return path


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[Path], Memory]:
    return lambda cwd: connect(home=tmp_path / "home", cwd=cwd, origin=Origin.USER)


def keys(memory: Memory) -> list[str]:
    return sorted(record.key for record in memory.list(scope="project").records)


def test_two_clones_share_a_project(tmp_path: Path, opened: Callable[[Path], Memory]) -> None:
    one = repository(tmp_path / "one", "git@github.com:acme/api.git")
    other = repository(tmp_path / "elsewhere" / "two", "https://u:t0ken@github.com/acme/api")
    (one / "deep" / "er").mkdir(parents=True)
    opened(one / "deep" / "er").store("known in both", key="shared")
    assert keys(opened(other)) == ["shared"]
    everything = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert b"t0ken" not in everything
    assert not list((tmp_path / "home").rglob("*t0ken*"))


def test_real_clones_of_a_local_repository_share_a_project(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    upstream = repository(tmp_path / "upstream")
    git(tmp_path, "clone", "-q", str(upstream), "one")
    git(tmp_path, "clone", "-q", str(upstream), "two")
    opened(tmp_path / "one").store("known in both", key="shared")
    assert keys(opened(tmp_path / "two")) == ["shared"]
    assert keys(opened(upstream)) == []


def test_relative_remotes_of_different_folders_are_different_projects(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    one = repository(tmp_path / "a" / "work", "../upstream.git")
    other = repository(tmp_path / "b" / "work", "../upstream.git")
    beside = repository(tmp_path / "a" / "second", "../upstream.git")
    opened(one).store("private to a", key="private")
    assert keys(opened(other)) == []
    assert keys(opened(beside)) == ["private"]


def test_a_worktree_shares_with_its_main_with_and_without_a_remote(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    for name, remote in (("with", "git@host:acme/api.git"), ("without", None)):
        main = repository(tmp_path / name / "main", remote)
        git(main, "worktree", "add", "-q", "-b", "side", str(tmp_path / name / "tree"))
        opened(tmp_path / name / "tree").store("from the worktree", key=f"tree-{name}")
        opened(main).store("from the main one", key=f"main-{name}")
        assert keys(opened(main)) == [f"main-{name}", f"tree-{name}"]
        assert keys(opened(tmp_path / name / "tree")) == [f"main-{name}", f"tree-{name}"]


def test_a_submodule_is_a_project_of_its_own(tmp_path: Path, opened: Callable[[Path], Memory]) -> None:
    library = repository(tmp_path / "library")
    outer = repository(tmp_path / "outer", "git@host:acme/outer.git")
    git(outer, "submodule", "add", "-q", str(library), "lib")
    opened(outer).store("of the outer one", key="outer")
    opened(outer / "lib").store("of the library", key="inner")
    assert keys(opened(outer)) == ["outer"]
    assert keys(opened(outer / "lib")) == ["inner"]
    git(outer / "lib", "remote", "set-url", "origin", "git@host:acme/library.git")
    clone = repository(tmp_path / "clone", "https://host/acme/library")
    inner = opened(outer / "lib")
    inner.store("again", key="again")
    assert keys(opened(clone)) == ["again"]
    (told,) = [each.mend for each in inner.status().findings if each.what == "project"]
    inner.projects.alias(told.rpartition(" ")[2])
    assert keys(opened(clone)) == ["again", "inner"]


def test_a_nested_repository_is_a_project_of_its_own(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    outer = repository(tmp_path / "outer")
    inner = repository(outer / "vendor" / "inner")
    (inner / "src").mkdir()
    opened(inner / "src").store("inner", key="inner")
    opened(outer / "vendor").store("outer", key="outer")
    assert (keys(opened(inner)), keys(opened(outer))) == (["inner"], ["outer"])


def test_memory_from_before_a_remote_was_added_is_reached_after(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    first = repository(tmp_path / "first")
    opened(first).store("from before", key="before")
    opened(first).note("a note from before")
    git(first, "remote", "add", "origin", "git@github.com:acme/api.git")
    assert keys(opened(first)) == ["before"]
    assert opened(first).status().notes == 1
    opened(first).store("from after", key="after")
    clone = repository(tmp_path / "clone", "https://github.com/acme/api.git")
    assert keys(opened(clone)) == ["after", "before"]
    assert opened(clone).status().notes == 1
    opened(clone).store("more", key="before")
    assert len(opened(first).show("before").entries) == 2


def test_a_moved_folder_is_joined_by_hand(tmp_path: Path, opened: Callable[[Path], Memory]) -> None:
    old = repository(tmp_path / "old")
    opened(old).store("from the old place", key="kept")
    project = opened(old).caller.project
    assert project is not None
    old.rename(tmp_path / "new")
    moved = opened(tmp_path / "new")
    assert keys(moved) == []
    moved.projects.alias(project.id)
    assert keys(opened(tmp_path / "new")) == ["kept"]
    with pytest.raises(NotFound):
        moved.projects.alias("no-such-project")
    assert moved.caller.project is not None
    with pytest.raises(UsageError):
        moved.projects.alias(moved.caller.project.id)


def test_aliases_in_a_circle_end(tmp_path: Path, opened: Callable[[Path], Memory]) -> None:
    one, other = repository(tmp_path / "one"), repository(tmp_path / "other")
    opened(one).store("one", key="one")
    opened(other).store("other", key="other")
    ids = [opened(root).caller.project for root in (one, other)]
    assert ids[0] is not None
    assert ids[1] is not None
    opened(one).projects.alias(ids[1].id)
    opened(other).projects.alias(ids[0].id)
    assert keys(opened(one)) == keys(opened(other)) == ["one", "other"]


def test_the_home_is_never_taken_for_a_projects_folder(tmp_path: Path) -> None:
    home = tmp_path / "user"
    work = home / "work"
    work.mkdir(parents=True)
    memory = connect(home=home / ".vade", cwd=work)
    memory.store("text", key="note", scope="global")
    for cwd in (work, home):
        again = connect(home=home / ".vade", cwd=cwd, origin=Origin.USER)
        assert again.caller.project is not None
        assert again.caller.project.root == cwd
        assert again.store("project text", key="mine").path.startswith("memory/project/")
        assert again.status().trusted is None
    with pytest.raises(VadeError):
        connect(home=home / ".vade", cwd=home, origin=Origin.USER).projects.init()
    linked = tmp_path / "linked"
    linked.symlink_to(home)
    through = connect(home=home / ".vade", cwd=linked)
    assert through.caller.project is not None
    assert through.caller.project.root == home


def test_an_override_comes_from_the_user_and_never_from_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "repo", "git@host:acme/api.git")
    (root / ".vade").mkdir()
    (root / ".vade" / "config.toml").write_text('project_id = "victim"\n')
    project = connect(home=tmp_path / "home", cwd=root).caller.project
    assert project is not None
    assert project.id == "host-acme-api"
    (root / ".vade" / "config.toml").unlink()
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.toml").write_text('project_id = "chosen"\n')
    configured = connect(home=tmp_path / "home", cwd=root).caller.project
    assert configured is not None
    assert configured.id == "chosen"
    monkeypatch.setenv("VADE_PROJECT_ID", "from-the-environment")
    named = connect(home=tmp_path / "home", cwd=root).caller.project
    assert named is not None
    assert (named.id, named.overridden) == ("from-the-environment", True)
    monkeypatch.setenv("VADE_PROJECT_ID", "../outside")
    with pytest.raises(VadeError):
        connect(home=tmp_path / "home", cwd=root)


def test_an_override_that_ends_leaves_no_alias(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "repo")
    monkeypatch.setenv("VADE_PROJECT_ID", "for-a-moment")
    connect(home=tmp_path / "home", cwd=root).store("text", key="elsewhere")
    monkeypatch.delenv("VADE_PROJECT_ID")
    connect(home=tmp_path / "home", cwd=root).store("text", key="here")
    assert keys(connect(home=tmp_path / "home", cwd=root)) == ["here"]


def test_an_override_joins_nothing_by_itself(
    tmp_path: Path, opened: Callable[[Path], Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = repository(tmp_path / "one"), repository(tmp_path / "other")
    opened(one).store("private to one", key="private")
    monkeypatch.setenv("VADE_PROJECT_ID", "scratch")
    opened(one).store("for all", key="scratched")
    assert keys(opened(other)) == ["scratched"]
    monkeypatch.delenv("VADE_PROJECT_ID")
    assert keys(opened(one)) == ["private"]


def test_a_path_that_holds_another_repository_does_not_hand_over_the_earlier_ones_memory(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    workspace = repository(tmp_path / "workspace", "git@host:client/one.git")
    opened(workspace).store("a secret of client one", key="one")
    git(workspace, "remote", "set-url", "origin", "git@host:client/two.git")
    for _ in range(2):  # before the first write under the new id, and after it
        (told,) = [each for each in opened(workspace).status().findings if each.what == "project"]
        assert "project id changed from host-client-one" in told.why
        assert told.mend == "vade project alias host-client-one"
        opened(workspace).store("two", key="two")
        assert keys(opened(workspace)) == ["two"]
    clone = repository(tmp_path / "clone", "git@host:client/two.git")
    assert keys(opened(clone)) == ["two"]
    assert opened(clone).status().findings == ()
    opened(workspace).projects.alias("host-client-one")
    assert keys(opened(workspace)) == ["one", "two"]
    assert opened(workspace).status().findings == ()


def test_a_group_is_not_told_which_project_was_here_before(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    workspace = repository(tmp_path / "workspace", "git@host:client/one.git")
    opened(workspace).store("a secret of client one", key="one")
    git(workspace, "remote", "set-url", "origin", "git@host:client/two.git")
    group = connect(home=tmp_path / "home", cwd=workspace, audience="group", session="s")
    assert group.status().findings == ()


def test_the_usual_home_is_no_repositorys_folder_when_memory_lies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    (user / ".vade/memory").mkdir(parents=True)
    (user / "notes").mkdir()
    monkeypatch.setenv("HOME", str(user))
    for cwd in (user / "notes", user):
        memory = connect(home=tmp_path / "home", cwd=cwd, origin=Origin.USER)
        assert memory.caller.project is not None
        assert memory.caller.project.root == cwd
        assert memory.store("text", key="note").path.startswith("memory/project/")
    with pytest.raises(UsageError):
        connect(home=tmp_path / "home", cwd=user, origin=Origin.USER).projects.init()


def test_a_folder_without_git_is_a_project_by_its_path(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        opened(tmp_path / name).store(name, key=name)
    assert keys(opened(tmp_path / "one")) == ["one"]
    (tmp_path / "link").symlink_to(tmp_path / "one")
    assert keys(opened(tmp_path / "link")) == ["one"]


# --- git's own files, as strangers may write them -----------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "url"),
    [
        ('[remote "origin"]\n\turl = git@host:a/b\n', "git@host:a/b"),
        ('[remote "origin"]\r\n\turl = git@host:a/b\r\n', "git@host:a/b"),
        (
            '[remote "upstream"]\n\turl = git@host:x/y\n[remote "origin"]\n\turl = git@host:a/b\n',
            "git@host:a/b",
        ),
        ('[remote "origin"]\n\tpushurl = git@host:x/y\n\turl = git@host:a/b\n', "git@host:a/b"),
        ('[remote "origin"]\n\turl = "git@host:a/b"\n', "git@host:a/b"),
        ('[remote "origin"]\n\turl = git@host:a/b # mine\n', "git@host:a/b"),
        ('[Remote "origin"]\n\tURL=git@host:a/b\n', "git@host:a/b"),
        ('[remote "origin"] url = git@host:a/b\n', "git@host:a/b"),
        ('# [remote "origin"]\n# url = git@host:a/b\n', None),
        ('[remote "Origin"]\n\turl = git@host:a/b\n', None),
        ("", None),
    ],
)
def test_the_remote_is_read_as_git_reads_it(tmp_path: Path, config: str, url: str | None) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(config.encode())
    assert scopes.origin_remote(tmp_path) == url


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["", "gitdir: ", "gitdir: ../"]))
@settings(max_examples=200, deadline=None)
@example("a\0b", "gitdir: ")
@example("x" * 5_000, "gitdir: ")
def test_any_git_file_gives_a_project(
    tmp_path_factory: pytest.TempPathFactory, text: str, start: str
) -> None:
    root = tmp_path_factory.mktemp("strange")
    (root / ".git").write_text(start + text)
    project = scopes.find_project(root, home=root / "home")
    assert project.root == Path(os.path.realpath(root))
    assert names.check_id(project.id, "a project")


def test_a_git_file_that_is_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".git")
    assert scopes.find_project(tmp_path, home=tmp_path / "home").root == Path(os.path.realpath(tmp_path))


# --- what git itself makes of a remote ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "url", "id"),
    [
        ('[url "https://github.com/"]\n\tinsteadOf = gh:\n', "gh:acme/api.git", "github-com-acme-api"),
        ('[url "git@github.com:"]\n\tinsteadof = "gh:"\n', "gh:acme/api", "github-com-acme-api"),
        (
            '[url "https://a.org/"]\n\tinsteadOf = x:\n'
            '[url "https://github.com/acme/"]\n\tinsteadOf = x:ac\n',
            "x:acapi",
            "github-com-acme-api",
        ),
        ('[url "https://evil.org/"]\n\tpushInsteadOf = https://github.com/\n', SPELLINGS[0], None),
        ('[url "https://mirror.org/"]\n\tinsteadOf = https://gitlab.com/\n', SPELLINGS[0], None),
        ('[url "broken\n\tinsteadOf = gh:\n', SPELLINGS[0], None),
    ],
)
@pytest.mark.parametrize("where", ["user", "xdg", "repository", "included", "named"])
def test_a_remote_is_the_one_that_git_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, where: str, config: str, url: str, id: str | None
) -> None:
    root = repository(tmp_path / "repo", url)
    user = Path(os.path.expanduser("~"))
    if where == "repository":
        with (root / ".git/config").open("a") as file:
            file.write(config)
    elif where == "included":
        (user / ".gitconfig").write_text('[include]\n\tpath = "more.inc"\n')
        (user / "more.inc").write_text(config)
    else:
        path = {"user": user / ".gitconfig", "xdg": user / ".config/git/config", "named": tmp_path / "named"}[
            where
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(config)
        if where == "named":
            monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(path))
    found = scopes.find_project(root, home=tmp_path / "home")
    assert found.id == (id or scopes.normalise_remote(url))
    said = subprocess.run(
        ["git", "-C", str(root), "ls-remote", "--get-url", "origin"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(user)},
    )
    if said.returncode == 0 and "broken" not in config:
        assert scopes.normalise_remote(said.stdout) == found.id


def test_files_of_git_that_include_one_another_end(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", "gh:acme/api")
    path = Path(os.path.expanduser("~")) / ".gitconfig"
    path.write_text('[include]\n\tpath = .gitconfig\n[url "https://github.com/"]\n\tinsteadOf = gh:\n')
    assert scopes.find_project(root, home=tmp_path / "home").id == "github-com-acme-api"


def test_memory_kept_under_the_remote_as_it_is_written_is_reached_and_joined(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    root = repository(tmp_path / "repo", "gh:acme/api")
    before = opened(root)
    before.store("Kept under the other id.", key="old")
    before.note("Noted under the other id.")
    assert before.caller.project is not None
    assert before.caller.project.id == "gh-acme-api"
    (Path(os.path.expanduser("~")) / ".gitconfig").write_text(
        '[url "https://github.com/"]\n\tinsteadOf = gh:\n'
    )
    after = opened(root)
    assert after.caller.project is not None
    assert after.caller.project.id == "github-com-acme-api"
    assert after.show("old").text == "Kept under the other id."
    assert after.status().aliases == ("gh-acme-api",)
    assert after.status().notes == 1
    other = repository(tmp_path / "other", "https://github.com/acme/api")
    assert opened(other).show("old").text == "Kept under the other id."


# --- folders without git ------------------------------------------------------------------------------------


def test_a_folder_without_git_is_found_from_its_subfolders(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    (tmp_path / "notes/deep/deeper").mkdir(parents=True)
    opened(tmp_path / "notes").store("Found from below.", key="found")
    below = opened(tmp_path / "notes/deep/deeper")
    assert below.show("found").text == "Found from below."
    assert below.caller.project is not None
    assert below.caller.project.root == tmp_path / "notes"
    below.store("Written from below.", key="below")
    assert opened(tmp_path / "notes").show("below").text == "Written from below."


def test_the_nearest_known_folder_counts_and_a_repository_between_ends_the_search(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    (tmp_path / "notes/deep/deeper").mkdir(parents=True)
    opened(tmp_path / "notes/deep").note("A note makes a folder known as well.")
    opened(tmp_path / "notes").store("Of the outer one.", key="outer")
    inner = opened(tmp_path / "notes/deep/deeper").caller.project
    assert inner is not None
    assert inner.root == tmp_path / "notes/deep"
    root = repository(tmp_path / "notes/repo", "https://github.com/acme/api")
    (root / "src").mkdir()
    with pytest.raises(NotFound):
        opened(root / "src").show("outer")


def test_what_was_kept_in_the_users_own_folder_is_not_every_folders_memory(
    tmp_path: Path, opened: Callable[[Path], Memory]
) -> None:
    user = Path(os.path.expanduser("~"))
    (user / "letters").mkdir()
    opened(user).store("At home.", key="at-home")
    assert opened(user).show("at-home").text == "At home."
    with pytest.raises(NotFound):
        opened(user / "letters").show("at-home")
