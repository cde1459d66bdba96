"""The calls that `Memory` had before its nouns answer as their new places do, and warn once each."""

from __future__ import annotations

import inspect
import warnings
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest

from vademecum import Memory, Origin, connect, stand_ins
from vademecum.memory.old_names import OLD_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# All public names that `Memory` had as a chain of classes.
BEFORE = """
add_source alias answered applied approvals approve audit_lines clear close compact context
context_trial current_session decide documents editable edited elsewhere end_session export_graph
export_ltm export_memory export_session forget forgotten get graph heal import_ltm import_memory
import_sessions import_transcript index init inject journal knowledge knowledge_stats learn lint
list lost_entries ltm may_decide moved_here new_session note notes_of_today notices once open
perform profile profile_apply profile_draft projects promote propose propose_edges protect
prune_knowledge purge purge_text recall reject reject_edge related remind remove_source
rename_session restore review runs saw_notices search searcher selected session session_get
session_messages session_search sessions settings show sources split status store suggest sweep
sweep_if_due todo transcripts trim_session trust trust_of undo verifiable verify verify_audit
versions waiting watch write_listing write_provider_file
""".split()
NOUNS_CALLED = {
    "graph": "read",
    "knowledge": "list",
    "projects": "list",
    "review": "inbox",
    "sessions": "list",
    "sources": "list",
}
KEPT = set(BEFORE) - set(OLD_NAMES) - set(NOUNS_CALLED)


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    monkeypatch.setattr(stand_ins, "_WARNED", set())
    with connect(home=tmp_path / "home", project=tmp_path, origin=Origin.USER, terminal=True) as opened:
        yield opened


def at(memory: Memory, path: str) -> Any:
    return reduce(getattr, path.split("."), memory)


def test_all_names_of_before_are_known() -> None:
    assert len(BEFORE) == 105
    assert {name for name in dir(Memory) if name[0] != "_"} >= KEPT


@pytest.mark.parametrize("name", sorted(set(BEFORE) & set(OLD_NAMES)))
def test_an_old_name_is_the_new_one_and_warns(memory: Memory, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"`Memory\.{name}` is `Memory\.{OLD_NAMES[name]}` now"):
        old = getattr(memory, name)
    new = at(memory, OLD_NAMES[name])
    assert old == new
    assert inspect.ismethod(new) is callable(old) or not inspect.ismethod(old)


@pytest.mark.parametrize("name", sorted(set(OLD_NAMES) - set(BEFORE)))
def test_what_was_set_on_the_object_is_in_its_workspace(memory: Memory, name: str) -> None:
    with pytest.warns(DeprecationWarning, match="workspace"):
        assert getattr(memory, name) == at(memory, OLD_NAMES[name])


@pytest.mark.parametrize(("noun", "method"), NOUNS_CALLED.items())
def test_a_noun_that_was_a_call_can_be_called(memory: Memory, noun: str, method: str) -> None:
    memory.store("Deploys happen on Fridays at noon.", key="deploys")
    memory.sessions.new()
    with pytest.warns(
        DeprecationWarning, match=rf"`Memory\.{noun}\(\)` is `Memory\.{noun}\.{method}\(\)` now"
    ):
        old = getattr(memory, noun)()
    assert old == getattr(getattr(memory, noun), method)()


def test_an_old_call_does_what_it_did(memory: Memory) -> None:
    with pytest.warns(DeprecationWarning, match="knowledge.learn"):
        learned = memory.learn("discovery", fact="CSV is read in chunks.")  # type: ignore[attr-defined]
    assert [each.lesson.record.key for each in memory.knowledge.list()] == [learned.key]


def test_a_name_warns_once_however_often_it_is_used(memory: Memory) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            memory.lint()  # type: ignore[attr-defined]
            memory.sessions()  # type: ignore[operator]
    assert [str(each.message).split()[0] for each in told] == ["`Memory.lint`", "`Memory.sessions()`"]
    assert {each.filename for each in told} == {__file__}


def test_a_name_that_never_was_is_an_attribute_error(memory: Memory) -> None:
    with pytest.raises(AttributeError, match="'Memory' object has no attribute 'sweeps'"):
        _ = memory.sweeps  # type: ignore[attr-defined]


def test_memory_itself_has_few_names() -> None:
    assert len([name for name in dir(Memory) if name[0] != "_"]) <= 30


def test_memory_is_a_plain_class() -> None:
    assert Memory.__mro__ == (Memory, object)
