"""Scopes: what one caller can see, and that no other caller's memory is within reach through any door."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import IncognitoWrite, NotFound, NotVisible, OutsideMemory, ScopeUnresolved, VadeError
from vademecum.memory import Memory, connect
from vademecum.store import scopes
from vademecum.types import Origin, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SCOPES = [str(scope) for scope in Scope]


def opened(base: Path, *, work: str = "work", **given: Any) -> Memory:
    (base / work).mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / work, **given)


def every_byte(home: Path) -> dict[str, bytes]:
    return (
        {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()} if home.exists() else {}
    )


# --- where things land --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
def test_each_scope_has_its_own_place(tmp_path: Path, scope: str) -> None:
    memory = opened(tmp_path, agent="robin", session="monday")
    stored = memory.store("text", key="note", scope=scope)
    project = memory.caller.project
    assert project is not None
    ids = {"session": "/monday", "project": f"/{project.id}", "agent": "/robin"}
    assert stored.path == f"memory/{scope}{ids.get(scope, '')}/records/note.md"
    assert (tmp_path / "home" / stored.path).is_file()
    assert memory.show("note", scope=scope).place == stored.place


def test_project_is_the_scope_when_none_is_named(tmp_path: Path) -> None:
    assert opened(tmp_path).store("text", key="note").place.scope is Scope.PROJECT


def test_a_scope_without_an_id_is_an_error_and_never_another_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VADE_SESSION", raising=False)
    memory = opened(tmp_path)
    with pytest.raises(ScopeUnresolved):
        memory.store("text", key="note", scope="session")
    with pytest.raises(ScopeUnresolved):
        memory.list(scope="session")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    nowhere = connect(home=tmp_path / "home")
    with pytest.raises(ScopeUnresolved):
        nowhere.store("text", key="note")
    assert every_byte(tmp_path / "home") == {}
    nowhere.store("text", key="note", scope="global")
    assert [record.key for record in nowhere.list().records] == ["note"]


def test_a_session_comes_from_the_environment_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADE_SESSION", "from-outside")
    assert opened(tmp_path).store("text", key="note", scope="session").place.id == "from-outside"


def test_records_are_listed_from_the_nearest_scope_to_the_farthest(tmp_path: Path) -> None:
    memory = opened(tmp_path, session="s")
    for scope in reversed(SCOPES):
        memory.store(f"text {scope}", key="note", scope=scope)
    assert [str(record.place.scope) for record in memory.list().records] == SCOPES
    assert memory.show("note").place.scope is Scope.SESSION


def test_a_repository_nobody_trusts_comes_last_and_first_when_somebody_does(tmp_path: Path) -> None:
    memory = opened(tmp_path, origin=Origin.USER)
    (tmp_path / "work" / ".vade" / "records").mkdir(parents=True)
    place = scopes.place_for(memory.caller, Scope.PROJECT)

    def shared() -> list[bool]:
        scope_folders = scopes.scope_folders(memory.home, memory.caller, place)
        assert scopes.folder_for_new(scope_folders).shared
        return [scope_folder.shared for scope_folder in scope_folders]

    assert shared()[-1]
    assert sum(shared()) == 1
    memory.projects.trust()
    assert shared()[0]
    assert sum(shared()) == 1


# --- who sees what ------------------------------------------------------------------------------------------

CALLERS: dict[str, dict[str, Any]] = {
    "me": {"work": "mine", "agent": "main", "session": "s1"},
    "another session": {"work": "mine", "agent": "main", "session": "s2"},
    "another agent": {"work": "mine", "agent": "other", "session": "s1"},
    "another project": {"work": "theirs", "agent": "main", "session": "s1"},
    "no session": {"work": "mine", "agent": "main", "session": None},
    "a group": {"work": "mine", "agent": "main", "session": "s1", "audience": "group"},
}
SEES: dict[str, set[str]] = {
    "me": {"session", "project", "agent", "global", "federated"},
    "another session": {"project", "agent", "global", "federated"},
    "another agent": {"session", "project", "global", "federated"},
    "another project": {"session", "agent", "global", "federated"},
    "no session": {"project", "agent", "global", "federated"},
    "a group": {"session", "project"},
}


def canary(scope: str) -> str:
    return f"CANARY-{scope}-4815"


@pytest.fixture
def filled(tmp_path: Path) -> dict[str, Any]:
    """One record in each scope of mine; by scope, how it can be asked for."""
    memory = opened(tmp_path, origin=Origin.USER, **CALLERS["me"])
    stored = {}
    for scope in SCOPES:
        stored[scope] = memory.store(canary(scope), key=f"{scope}-note", scope=scope)
    for scope in ("project", "agent", "global"):
        memory.note(canary(f"journal-{scope}"), scope=scope)
    memory.care.edited("MEMORY.md", "", canary("pinned-global"), scope="global")
    memory.care.edited("MEMORY.md", "", canary("pinned-agent"), scope="agent")
    memory.care.edited("context.md", "", canary("context-project"), scope="project")
    memory.care.edited("context.md", "", canary("context-global"), scope="global")
    memory.care.edited("profile.md", "", canary("pinned-profile"), scope="global")
    return stored


def reads(memory: Memory, home: Path, stored: dict[str, Any]) -> Iterator[Callable[[], object]]:
    """Every way to ask for something: by listing, key, number, id, path and link."""
    yield memory.list
    yield memory.status
    for scope in SCOPES:
        yield partial(memory.list, scope=scope)
        yield partial(memory.show, f"{scope}-note", scope=scope)
        for name in (
            f"{scope}-note",
            f"{scope}-note.md",
            stored[scope].num,
            str(stored[scope].num),
            stored[scope].id,
        ):
            yield partial(memory.show, name)
            yield partial(memory.get, name)
            yield partial(memory.archive.versions, name)
            yield partial(memory.archive.lost_entries, name)
            yield partial(memory.care.editable, str(name))
    for path in home.rglob("*"):
        if path.is_file():
            inner = str(path.relative_to(home))
            for spelled in (
                inner,
                str(path),
                f"./{inner}",
                inner.replace("memory/", "memory//"),
                f"x/../{inner}",
            ):
                yield partial(memory.get, spelled)
    for name in ("MEMORY.md", "context.md", "profile.md", "memory.MD"):
        yield partial(memory.get, name)
        yield partial(memory.care.editable, name)


def seen_by(memory: Memory, home: Path, stored: dict[str, Any]) -> set[str]:
    """Whose canaries some answer held."""
    found = set()
    every = [*SCOPES, *(f"journal-{scope}" for scope in ("project", "agent", "global"))]
    every += ["pinned-global", "pinned-agent", "pinned-profile", "context-project", "context-global"]
    for read in reads(memory, home, stored):
        try:
            answer = repr(read())
        except VadeError as error:
            answer = str(error)
        found |= {what for what in every if canary(what) in answer}
    return found


@pytest.mark.parametrize("who", CALLERS)
def test_a_caller_reads_what_is_theirs_and_nothing_else_through_any_door(
    tmp_path: Path, filled: dict[str, Any], who: str
) -> None:
    memory = opened(tmp_path, origin=Origin.USER, **CALLERS[who])
    expected = set(SEES[who])
    if who == "a group":
        expected |= {"context-project"}
    else:
        expected |= {"journal-global", "pinned-global", "pinned-profile", "context-global"}
        expected |= {"journal-project", "context-project"} if "project" in SEES[who] else set()
        expected |= {"journal-agent", "pinned-agent"} if "agent" in SEES[who] else set()
    assert seen_by(memory, tmp_path / "home", filled) == expected


@pytest.mark.parametrize("who", ["another session", "another agent", "another project", "a group"])
def test_what_cannot_be_seen_cannot_be_changed(tmp_path: Path, filled: dict[str, Any], who: str) -> None:
    memory = opened(tmp_path, origin=Origin.USER, **CALLERS[who])
    hidden = [scope for scope in SCOPES if scope not in SEES[who]]
    before = {
        path: content
        for path, content in every_byte(tmp_path / "home").items()
        if any(canary(scope).encode() in content for scope in hidden)
    }
    assert before
    for scope in hidden:
        stored = filled[scope]
        for name in (stored.key, stored.num, stored.id):
            for act in (memory.forget, memory.review.protect, memory.restore, memory.archive.purge):
                with pytest.raises(VadeError):
                    act(name)
    after = every_byte(tmp_path / "home")
    assert {path: after.get(path) for path in before} == before


def test_a_group_session_writes_only_to_its_session_and_project(tmp_path: Path) -> None:
    memory = opened(tmp_path, origin=Origin.USER, session="s", audience="group")
    for scope in ("agent", "global", "federated"):
        for act in (
            partial(memory.store, "text", key="note", scope=scope),
            partial(memory.list, scope=scope),
            partial(memory.show, "note", scope=scope),
            partial(memory.archive.clear, scope=scope),
            partial(memory.care.edited, "MEMORY.md", "", "text", scope=scope),
        ):
            with pytest.raises(VadeError):
                act()
    with pytest.raises(NotVisible):
        memory.list(all=True)
    with pytest.raises(NotVisible):
        memory.projects.list()
    assert every_byte(tmp_path / "home") == {}
    memory.store("text", key="note", scope="session")
    memory.store("text", key="note", scope="project")
    assert len(memory.list().records) == 2


def test_a_group_session_cannot_join_remove_or_search_what_is_private(tmp_path: Path) -> None:
    private = opened(tmp_path, work="other", origin=Origin.USER)
    private.store("CANARY-private", key="note")
    private.store("CANARY-global", key="note", scope="global")
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("text")
    private.sources.add(vault, name="vault")
    project = private.caller.project
    assert project is not None
    group = opened(tmp_path, session="s", audience="group")
    acts: tuple[Callable[[], object], ...] = (
        lambda: group.projects.alias(project.id),
        lambda: group.sources.remove("vault"),
        lambda: group.archive.purge_text("CANARY-global"),
        group.audit.lines,
    )
    for act in acts:
        with pytest.raises(VadeError):
            act()
    assert group.sources.list() == []
    assert private.show("note", scope="global").text == "CANARY-global"
    assert [source.name for source in private.sources.list()] == ["vault"]


def test_a_group_session_is_not_told_how_much_is_private(tmp_path: Path) -> None:
    private = opened(tmp_path, origin=Origin.USER)
    private.note("a private note")
    private.store("text", key="note", scope="global")
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("text")
    private.sources.add(vault, name="vault", scope="project")
    status = opened(tmp_path, session="s", audience="group").status()
    assert (status.notes, dict(status.records), status.sources) == (0, {}, ())


def test_all_shows_every_session_project_and_agent_to_a_private_caller(tmp_path: Path) -> None:
    for work, agent, session in itertools.product(("a", "b"), ("x", "y"), ("s", "t")):
        memory = opened(tmp_path, work=work, agent=agent, session=session)
        for scope in ("session", "project", "agent"):
            memory.store(f"{scope} {work} {agent} {session}", key="note", scope=scope)
    memory = opened(tmp_path, work="a", agent="x", origin=Origin.USER)
    places = [(str(record.place.scope), record.place.id) for record in memory.list(all=True).records]
    assert len(places) == len(set(places)) == 6


def test_a_source_of_one_place_is_not_seen_from_another(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("text")
    opened(tmp_path, agent="x", origin=Origin.USER).sources.add(vault, name="vault", scope="agent")
    assert [source.name for source in opened(tmp_path, agent="x").sources.list()] == ["vault"]
    assert opened(tmp_path, agent="y").sources.list() == []
    with pytest.raises(VadeError):
        opened(tmp_path, agent="y", origin=Origin.USER).sources.remove("vault")


# --- incognito ----------------------------------------------------------------------------------------------


def test_an_incognito_session_reads_nothing_and_writes_nothing(
    tmp_path: Path, filled: dict[str, Any]
) -> None:
    before = every_byte(tmp_path / "home")
    memory = opened(tmp_path, incognito=True, origin=Origin.USER, **CALLERS["me"])
    assert seen_by(memory, tmp_path / "home", filled) == set()
    assert memory.list().records == ()
    assert memory.list(all=True).records == ()
    assert memory.projects.list() == []
    assert list(memory.audit.lines()) == []
    assert memory.sources.list() == []
    assert memory.get("MEMORY.md").text == ""
    writes: list[Callable[[], object]] = [
        lambda: memory.store("text", key="note"),
        lambda: memory.note("text"),
        lambda: memory.forget("session-note"),
        lambda: memory.restore("session-note"),
        lambda: memory.archive.clear(scope="session"),
        lambda: memory.review.protect("session-note"),
        lambda: memory.archive.purge("session-note"),
        lambda: memory.archive.purge_text("CANARY"),
        lambda: memory.care.edited("MEMORY.md", "", "text"),
        memory.projects.init,
        memory.projects.trust,
        lambda: memory.projects.alias("other"),
        lambda: memory.sources.add(tmp_path),
        lambda: memory.sources.remove("vault"),
        memory.care.write_listing,
    ]
    for write in writes:
        with pytest.raises(IncognitoWrite):
            write()
    with pytest.raises(NotFound):
        memory.show("session-note")
    assert every_byte(tmp_path / "home") == before


def test_a_memory_that_is_only_looked_at_is_not_made(tmp_path: Path) -> None:
    memory = opened(tmp_path, session="s")
    assert memory.list().records == ()
    memory.status()
    memory.audit.verify()
    assert memory.sources.list() == []
    assert memory.projects.list() == []
    for name in ("nothing", "1"):
        with pytest.raises(NotFound):
            memory.get(name)
    for name in ("memory/global/records/nothing.md", "MEMORY.md"):
        assert memory.get(name).text == ""
    with pytest.raises(OutsideMemory):
        memory.get("audit/head")
    assert not (tmp_path / "home").exists()
