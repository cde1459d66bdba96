"""Memory: whose decision a thing is, what an edit may change, and what is told of trouble."""

from __future__ import annotations

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import (
    IndexFailed,
    InvalidText,
    NotFound,
    NotVisible,
    ScopeUnresolved,
    SecretFound,
    UnknownName,
    UsageError,
    VadeError,
)
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.types import Change

TOKEN = "sk-ant-api03-" + "a8f3k2j9x7q1m4z6b5" * 2


def opened(base: Path, *, work: str = "work", **given: Any) -> Memory:
    (base / work).mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / work, **{"origin": Origin.USER, **given})


# --- decisions that are a person's --------------------------------------------------------------------------


@pytest.mark.parametrize("caller", [{"origin": Origin.AGENT}, {"audience": "group", "session": "s"}])
def test_what_only_a_person_may_decide_is_closed_to_agents_and_groups(
    tmp_path: Path, caller: dict[str, Any]
) -> None:
    person = opened(tmp_path)
    person.store("text to keep", key="kept")
    opened(tmp_path, work="other").store("of another project", key="theirs")
    other = next(each.id for each in person.projects.list() if each.id not in str(person.caller.project))
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/a.md").write_text("text")
    memory = opened(tmp_path, **caller)
    acts: list[tuple[str, Callable[[], object]]] = [
        ("vade init", memory.projects.init),
        ("vade review trust", memory.projects.trust),
        ("vade review trust", lambda: memory.projects.trust(on=False)),
        ("vade project alias", lambda: memory.projects.alias(other)),
        ("vade sources add", lambda: memory.sources.add(tmp_path / "vault")),
        ("vade sources add", lambda: memory.sources.add(tmp_path / "vault", inject=True, scope="project")),
        ("vade sources remove", lambda: memory.sources.remove("vault")),
        ("vade purge", lambda: memory.archive.purge("kept")),
        ("vade purge", lambda: memory.archive.purge_text("text to keep")),
    ]
    for command, act in acts:
        with pytest.raises(NotVisible) as refused:
            act()
        assert f"`{command}" in refused.value.hint or "group" in str(refused.value)
    assert person.show("kept").text == "text to keep"
    assert not (tmp_path / "work/.vade").exists()
    assert person.sources.list() == []
    assert person.status().aliases == ()


def test_a_group_cannot_write_to_a_journal_that_it_cannot_read(tmp_path: Path) -> None:
    with pytest.raises(NotVisible):
        opened(tmp_path, audience="group", session="s").note("from the group")
    assert opened(tmp_path).status().notes == 0


# --- editing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda text: "", InvalidText),
        (lambda text: text.replace("first words", ""), InvalidText),
        (lambda text: text.replace("first", "fi\0rst"), InvalidText),
        (lambda text: text.replace("first", "fi\ud800rst"), InvalidText),
        (lambda text: text.replace("first", "x" * (1024 * 1024)), InvalidText),
        (lambda text: text.replace("type: project", "type: nonsense"), UnknownName),
        (lambda text: text.replace("num: 1", "num: 7"), UsageError),
        (lambda text: text.replace("key: topic", "key: other"), UsageError),
        (lambda text: text.replace("\nid: ", "\nid: 0"), UsageError),
        (lambda text: text.replace("\nid: ", "\nolder-id: "), UsageError),
    ],
)
def test_an_edit_that_breaks_a_record_is_refused_and_changes_nothing(
    tmp_path: Path, change: Callable[[str], str], error: type[VadeError]
) -> None:
    memory = opened(tmp_path)
    path = memory.home.path / memory.store("first words", key="topic").path
    _, before = memory.care.editable("topic")
    assert change(before) != before
    with pytest.raises(error):
        memory.care.edited("topic", before, change(before))
    assert path.read_text() == before


def test_a_type_nobody_knows_may_stay_and_a_broken_file_can_be_mended(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    path = memory.home.path / memory.store("first words", key="topic").path
    path.write_text(path.read_text().replace("type: project", "type: musing"))
    _, before = memory.care.editable("topic")
    assert memory.care.edited("topic", before, before.replace("first", "second")).secrets == ()
    assert (memory.show("topic").type, memory.show("topic").text) == ("musing", "second words")
    whole = path.read_text()
    path.write_text(whole.replace("type: musing", "type: ["))
    _, before = memory.care.editable("topic")
    memory.care.edited("topic", before, whole)
    assert memory.show("topic").text == "second words"


def test_an_edit_tells_which_secrets_it_held(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("first words", key="topic")
    _, before = memory.care.editable("topic")
    assert memory.care.edited("topic", before, before.replace("first", TOKEN)).secrets
    assert TOKEN not in memory.show("topic").text
    assert memory.care.edited("MEMORY.md", "", f"# Keys\n{TOKEN}\n").secrets
    assert memory.care.edited("profile.md", "", "# Me\nno secret\n").secrets == ()


@pytest.mark.parametrize("policy", ["warn", "redact", "refuse"])
@pytest.mark.parametrize("slug", [False, True])
def test_a_key_that_holds_a_secret_is_refused_whatever_the_policy(
    tmp_path: Path, policy: str, slug: bool
) -> None:
    memory = opened(tmp_path, environ={"VADE_SECRETS_POLICY": policy})
    with pytest.raises(SecretFound):
        memory.store("text", key=TOKEN, slug=slug)
    assert memory.list().records == ()


# --- trouble ------------------------------------------------------------------------------------------------


def test_a_listener_in_trouble_does_not_undo_what_is_on_disk(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    assert memory.store("nobody listens", key="one").indexed is False
    heard: list[Change] = []
    memory.workspace.listeners.append(heard.append)
    assert memory.store("somebody listens", key="two").indexed is True
    assert [change.path.rpartition("/")[2] for change in heard] == ["two.md"]

    def broken(change: Change) -> None:
        raise IndexFailed("the index is torn")

    memory.workspace.listeners.append(broken)
    assert memory.store("kept all the same", key="three").indexed is False
    assert memory.show("three").text == "kept all the same"
    memory.note("a note too")
    assert len(memory.workspace.index_trouble) == 2
    assert "the index is torn" in memory.workspace.index_trouble[0]
    memory.workspace.listeners.remove(broken)
    assert memory.store("well again", key="four").indexed is True


@pytest.mark.parametrize("kind", ["records", "journal", "pinned"])
def test_a_conflict_file_is_told_wherever_it_lies(tmp_path: Path, kind: str) -> None:
    memory = opened(tmp_path)
    memory.store("text", key="note")
    memory.note("text")
    memory.care.edited("context.md", "", "text", scope="project")
    assert memory.caller.project is not None
    folder = memory.home.path / "memory/project" / memory.caller.project.id
    name = "note.conflict-20261115T101010-0123456789abcdef.md"
    (folder / name if kind == "pinned" else folder / kind / name).write_text("a person's text")
    told = [each for each in memory.status().findings if each.what == "conflict"]
    assert [(each.where.rpartition("/")[2], each.severity) for each in told] == [(name, "warning")]
    assert ("vade merge --apply" if kind == "records" else "delete the copy") in told[0].mend
    group = opened(tmp_path, audience="group", session="s").status()
    assert len([each for each in group.findings if each.what == "conflict"]) == (kind != "journal")


# --- opening ------------------------------------------------------------------------------------------------


def with_remote(root: Path, url: str) -> None:
    (root / ".git").mkdir(parents=True, exist_ok=True)
    (root / ".git/config").write_text(f'[remote "origin"]\n url = {url}\n')


@pytest.mark.parametrize(
    "caller", [{"origin": Origin.TOOL}, {"audience": "group", "session": "s"}, {"incognito": True}]
)
def test_opening_writes_nothing_for_tools_groups_and_incognito(
    tmp_path: Path, caller: dict[str, Any]
) -> None:
    opened(tmp_path).store("from before", key="before")
    with_remote(tmp_path / "work", "https://host.test/a/one")
    before = sorted((tmp_path / "home").rglob("*"))
    opened(tmp_path, **caller)
    assert sorted((tmp_path / "home").rglob("*")) == before
    opened(tmp_path)
    assert sorted((tmp_path / "home").rglob("*")) != before


# --- bringing back ------------------------------------------------------------------------------------------


def test_restoring_a_name_that_is_taken_again_offers_the_record_that_had_it(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("the old text", key="topic")
    memory.forget("topic")
    memory.store("the new text", key="topic")
    with pytest.raises(NotFound, match="an earlier record of that name") as refused:
        memory.restore("topic")
    offered = re.search(r"`vade restore (\S+)`", refused.value.hint)
    assert offered is not None
    memory.restore(offered[1])
    assert memory.show("topic").text == "the old text"
    with pytest.raises(NotFound, match="an earlier record of that name") as refused:
        memory.restore("topic")  # the new one was only put away
    offered = re.search(r"`vade restore (\S+)`", refused.value.hint)
    assert offered is not None
    memory.restore(offered[1])
    assert memory.show("topic").text == "the new text"


def test_of_several_records_that_had_a_name_the_newest_is_offered(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    for number in range(3):
        memory.store(f"text {number}", key="topic")
        memory.forget("topic")
    memory.store("the new text", key="topic")
    with pytest.raises(NotFound, match="3 earlier records") as refused:
        memory.restore("topic")
    memory.restore(refused.value.hint.split("`")[1].split()[-1])
    assert memory.show("topic").text == "text 2"


def test_a_scope_that_was_cleared_comes_back_with_one_undo(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    for key in ("one", "two", "three"):
        memory.store(f"about {key}", key=key)
    memory.store("stays", key="kept", protected=True)
    before = {each.key: (memory.home.path / each.path).read_bytes() for each in memory.list().records}
    assert {each.key for each in memory.archive.clear(scope="project")} == {"one", "two", "three"}
    assert [each.key for each in memory.list().records] == ["kept"]
    [run] = memory.care.runs()
    assert (run.what, run.edits) == ("clear", 3)
    memory.restore("two")  # one alone comes back as well
    memory.forget("two")
    assert all(each.done for each in memory.care.undo(run.run)[1])
    after = {each.key: (memory.home.path / each.path).read_bytes() for each in memory.list().records}
    assert after == before


def test_clearing_nothing_leaves_no_run(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    assert memory.archive.clear(scope="project") == []
    assert memory.care.runs() == []


def test_a_project_that_is_named_does_not_depend_on_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "elsewhere"):
        (tmp_path / name / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    named = Memory.open(tmp_path / "home", project="one")  # as it stands here; later it is not asked again
    other = Memory.open(tmp_path / "home", project=tmp_path / "two")
    none = Memory.open(tmp_path / "home", project=False)
    for folder in ("elsewhere", "two", "one"):
        monkeypatch.chdir(tmp_path / folder)
        named.store(f"One, from {folder}.", key="one")
        other.store(f"Two, from {folder}.", key="two")
        assert [each.key for each in named.list()] == ["one"]
        assert [each.key for each in other.list()] == ["two"]
        assert none.caller.project is None
        with pytest.raises(ScopeUnresolved):
            none.store("Of no project.")
    assert named.caller.project is not None
    assert named.caller.project.root == tmp_path / "one"
    assert [entry.text for entry in named.show("one").entries] == [
        f"One, from {each}." for each in ("elsewhere", "two", "one")
    ]


def test_many_people_are_served_in_one_process_each_from_a_home_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "of-nobody"))
    moving = threading.Event()
    names = [f"person-{number}" for number in range(6)]

    def wander() -> None:
        while not moving.is_set():
            for folder in (tmp_path, Path("/")):
                os.chdir(folder)

    def serve(name: str) -> list[str]:
        with Memory.open(tmp_path / "homes" / name, project=False, session=f"of-{name}") as memory:
            for number in range(5):
                memory.store(f"{name} says {number}.", key=f"said-{number}", scope="global")
            found = memory.search(f"what does {name} say?", scope="global")
            assert all(name in each.snippet for each in found)
            return [each.text for each in memory.list()]

    here = os.getcwd()
    wanderer = threading.Thread(target=wander)
    wanderer.start()
    try:
        with ThreadPoolExecutor(len(names)) as pool:
            served = dict(zip(names, pool.map(serve, names), strict=True))
    finally:
        moving.set()
        wanderer.join()
        os.chdir(here)
    for name, texts in served.items():
        assert sorted(texts) == [f"{name} says {number}." for number in range(5)]
    assert not (tmp_path / "of-nobody").exists()


def test_an_answer_and_a_listing_are_sequences_of_what_they_hold(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "home", project=tmp_path) as memory:
        assert not memory.list()
        assert not memory.search("when do we deploy?")
        memory.store("Deploys happen on Fridays at noon.", key="deploys")
        answer, listing = memory.search("when do we deploy?"), memory.list()
        assert len(answer) == len(answer.results) == 1
        assert answer[0] is answer.results[0]
        assert [*answer] == [*answer.results]
        assert len(listing) == 1
        assert listing[-1].key == "deploys"
        assert [*listing] == [*listing.records]
        assert bool(answer)
        assert bool(listing)


def test_memory_is_a_plain_class_with_few_names() -> None:
    assert Memory.__mro__ == (Memory, object)
    assert len([name for name in dir(Memory) if name[0] != "_"]) <= 32
