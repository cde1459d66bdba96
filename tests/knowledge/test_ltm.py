"""`ltm.json`: an imported file is exported with the same JSON values."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.errors import Collision, Malformed, NotVisible, OutsideMemory, SecretFound, StorageFailed
from vademecum.knowledge import ltm
from vademecum.knowledge.trust import Level
from vademecum.memory import Memory, connect
from vademecum.text import frontmatter
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)

# As CLIO writes it, with what later versions of it add, and with a few things that nobody promised.
SAMPLE: dict[str, Any] = {
    "metadata": {"created": 1770723348, "last_updated": 1770723643, "version": "1.0", "host": "laptop"},
    "patterns": {
        "discoveries": [
            {"fact": "Config uses YAML", "confidence": 0.9, "verified": True, "timestamp": 1770723348},
            {
                "fact": "Config uses YAML",
                "confidence": 0.9,
                "verified": True,
                "timestamp": 1770723348,
                "updated": 1770723400,
            },
            {
                "fact": "Trailing space ",
                "confidence": "0.75",
                "verified": 0,
                "timestamp": 1770723348.25,
                "tier": "unverified",
                "corroborations": [{"agent": "unknown", "session": "unknown"}],
                "search_count": 3,
            },
            {"fact": "A bare one"},
            {"fact": "Über Größe: 🌍\n\n**Error:** not a label here", "timestamp": "2026-02-10T11:35:48Z"},
        ],
        "problem_solutions": [
            {
                "error": "streaming fails with 400",
                "solution": "raise the budget\nto 20",
                "solved_count": 4,
                "examples": ["lib/API.pm", "lib/API.pm", "t/01.t"],
                "timestamp": 1770723643,
            },
            {"error": "no solution yet"},
            "not an object",
            None,
        ],
        "code_patterns": [
            {
                "pattern": "Write atomically",
                "confidence": 1,
                "examples": [],
                "timestamp": 1770723643,
                "updated": 1,
            },
        ],
        "workflows": [
            {
                "sequence": ["read", "1. think\n   twice", "write"],
                "count": 12,
                "success_rate": 0.8333333333333334,
            },
            {"sequence": ["a", 7], "count": -1},
        ],
        "failures": [
            {
                "what": "deleted the wrong branch",
                "impact": "",
                "prevention": "ask",
                "occurrences": 2,
                "nested": {"a": [1.0, {}]},
            },
        ],
        "context_rules": {
            "lib/": ["no prints", "no prints", {"odd": 1}],
            "t/": [],
            "": ["everywhere"],
            "x": "not a list",
        },
        "shapes_of_tomorrow": [{"k": "v"}],
    },
    "schema": 3,
}


def opened(base: Path, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True, parents=True)
    usual: dict[str, Any] = {"origin": Origin.USER, "actor": "human:ada", "now": lambda: NOW}
    return connect(home=base / "home", cwd=base / "work", **usual | given)


def written(base: Path, value: object, name: str = "ltm.json") -> Path:
    base.mkdir(exist_ok=True, parents=True)
    path = base / name
    path.write_text(json.dumps(value))
    return path


def canonical(value: object) -> str:
    """JSON in which 1, 1.0 and true are three things, and the order of keys is none."""
    return json.dumps(value, sort_keys=True)


def sorted_lists(file: dict[str, Any]) -> str:
    """The file with its lists sorted, because a value that is no entry is exported behind the entries."""

    def ordered(listed: Any) -> Any:
        return sorted(listed, key=canonical) if isinstance(listed, list) else listed

    patterns = {
        name: {path: ordered(rules) for path, rules in listed.items()}
        if name == ltm.RULES and isinstance(listed, dict)
        else ordered(listed)
        for name, listed in file["patterns"].items()
    }
    return canonical({**file, "patterns": patterns})


def lessons(memory: Memory) -> list[str]:
    """Everything a lesson is, apart from how far it is trusted."""
    return sorted(
        canonical(
            [
                each.lesson.type,
                each.lesson.fields,
                each.lesson.confidence,
                each.lesson.examples,
                each.lesson.applied,
                each.lesson.times,
                each.lesson.first,
                each.lesson.last,
                each.lesson.record.tags,
            ]
        )
        for each in memory.knowledge.list()
    )


def test_a_file_that_is_read_comes_out_as_it_went_in(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.transfer.import_ltm(written(tmp_path, SAMPLE))
    assert sorted_lists(memory.transfer.ltm()) == sorted_lists(SAMPLE)
    out = memory.transfer.export_ltm(tmp_path / "out.json")
    assert sorted_lists(json.loads(out.read_text())) == sorted_lists(SAMPLE)


def test_a_file_without_odd_values_keeps_the_order_of_its_lists(tmp_path: Path) -> None:
    file = copy.deepcopy(SAMPLE)
    del file["patterns"]["problem_solutions"][1:]
    del file["patterns"]["workflows"][1]
    del file["patterns"]["context_rules"]["lib/"][2]
    memory = opened(tmp_path)
    assert memory.transfer.import_ltm(written(tmp_path, file)).findings == []
    assert canonical(memory.transfer.ltm()) == canonical(file)


def test_an_import_becomes_records_that_wait_for_a_person(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    done = memory.transfer.import_ltm(written(tmp_path, SAMPLE))
    found = {each.lesson.record.key: each for each in memory.knowledge.list()}
    assert set(done.added) == set(found)
    assert {each.trust.level for each in found.values()} == {Level.WAITING}
    solution = found["streaming-fails-with-400"].lesson
    assert solution.fields == {"error": "streaming fails with 400", "solution": "raise the budget\nto 20"}
    assert (solution.applied, solution.examples) == (4, ("lib/API.pm", "t/01.t"))
    assert solution.first == "2026-02-10T11:40:43Z"
    assert solution.record.source == "import:clio"
    assert all(
        entry.origin is Origin.IMPORT for each in found.values() for entry in each.lesson.record.entries
    )
    workflow = next(each.lesson for each in found.values() if each.lesson.type == "workflow")
    assert (workflow.times, workflow.fields["sequence"][1]) == (12, "1. think\n   twice")
    assert {each.where for each in done.findings} == {
        "problem_solutions[1]",
        "problem_solutions[2]",
        "problem_solutions[3]",
        "workflows[1]",
        "context_rules['lib/'][2]",
    }


def test_reading_again_adds_nothing_twice(tmp_path: Path) -> None:
    memory, path = opened(tmp_path), written(tmp_path, SAMPLE)
    first = memory.transfer.import_ltm(path)
    files = {each: each.read_bytes() for each in (tmp_path / "home" / "memory").rglob("*.md")}
    later = opened(tmp_path, now=lambda: datetime(2027, 1, 1, tzinfo=UTC))
    again = later.transfer.import_ltm(path)
    assert (again.added, again.updated, again.known) == ([], [], len(first.added))
    after = {each: each.read_bytes() for each in (tmp_path / "home" / "memory").rglob("*.md")}
    assert set(after) == set(files)
    assert sorted_lists(memory.transfer.ltm()) == sorted_lists(SAMPLE)


def test_a_file_that_has_grown_updates_what_it_changed(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.transfer.import_ltm(written(tmp_path, SAMPLE))
    grown = copy.deepcopy(SAMPLE)
    grown["patterns"]["problem_solutions"][0]["solved_count"] = 9
    grown["patterns"]["problem_solutions"][0]["examples"].append("new.t")
    grown["patterns"]["discoveries"].append({"fact": "A new one", "timestamp": 1770800000})
    grown["metadata"]["last_updated"] = 1770800000
    done = memory.transfer.import_ltm(written(tmp_path, grown))
    assert (done.added, done.updated) == (["a-new-one"], ["streaming-fails-with-400"])
    assert sorted_lists(memory.transfer.ltm()) == sorted_lists(grown)


def test_what_is_learned_here_joins_the_file_and_the_rest_of_it_stays(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.transfer.import_ltm(written(tmp_path, SAMPLE))
    later = opened(tmp_path, now=lambda: datetime(2026, 11, 20, tzinfo=UTC))
    later.knowledge.applied("streaming-fails-with-400")
    later.knowledge.learn("discovery", fact="Learned here", confidence=0.6)
    later.knowledge.learn("rule", path="lib/", rule="Learned here too")
    file = later.transfer.ltm()
    assert file["patterns"]["problem_solutions"][0]["solved_count"] == 5
    assert file["patterns"]["problem_solutions"][0]["examples"] == ["lib/API.pm", "lib/API.pm", "t/01.t"]
    assert file["patterns"]["discoveries"][:5] == SAMPLE["patterns"]["discoveries"]
    assert file["patterns"]["discoveries"][5]["fact"] == "Learned here"
    assert file["patterns"]["context_rules"]["lib/"] == [
        "no prints",
        "no prints",
        "Learned here too",
        {"odd": 1},
    ]
    assert file["metadata"]["last_updated"] == int(datetime(2026, 11, 20, tzinfo=UTC).timestamp())
    assert (file["schema"], file["metadata"]["host"]) == (3, "laptop")
    again = opened(tmp_path / "other")
    again.transfer.import_ltm(written(tmp_path, file))
    assert sorted_lists(again.transfer.ltm()) == sorted_lists(file)
    assert len(lessons(again)) == len(lessons(later))


def test_a_reworded_import_is_known_by_its_old_words(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    file = {"patterns": {"discoveries": [{"fact": "The deploy script waits for the database migrations"}]}}
    memory.transfer.import_ltm(written(tmp_path, file))
    memory.knowledge.learn("discovery", fact="The deploy scripts wait for the database migrations")
    assert memory.transfer.import_ltm(written(tmp_path, file)).added == []
    assert memory.transfer.ltm()["patterns"]["discoveries"][0]["fact"].startswith("The deploy scripts wait")


def test_what_was_learned_here_survives_the_way_there_and_back(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.knowledge.learn("discovery", fact="one", confidence=0.35, examples=["a", "b"], tags=["x", "y"])
    memory.knowledge.learn("discovery", fact="one")
    memory.knowledge.learn("solution", error="e", solution="s", confidence=0.4)
    memory.knowledge.applied("e")
    memory.knowledge.learn("pattern", pattern="p")
    memory.knowledge.applied("p")
    memory.knowledge.learn("workflow", sequence=["a", "b\n\nc"], success_rate=0.5, confidence=0.2)
    memory.knowledge.learn("failure", what="w", prevention="p")
    memory.knowledge.learn("failure", what="w", prevention="p")
    file = memory.transfer.export_ltm(tmp_path / "ltm.json")
    other = opened(tmp_path / "other", now=lambda: datetime(2027, 1, 1, tzinfo=UTC))
    other.transfer.import_ltm(file)
    assert lessons(other) == lessons(memory)
    assert canonical(other.transfer.ltm()) == canonical(memory.transfer.ltm())


def test_a_rule_is_exported_as_its_words_alone(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.knowledge.learn("rule", path="src/", rule="r", confidence=0.9, examples=["q"])
    memory.knowledge.learn("rule", rule="everywhere")
    file = memory.transfer.ltm()
    assert file["patterns"]["context_rules"] == {"src/": ["r"], "": ["everywhere"]}
    other = opened(tmp_path / "other")
    other.transfer.import_ltm(written(tmp_path, file))
    assert canonical(other.transfer.ltm()) == canonical(file)


def test_an_empty_memory_gives_a_whole_and_empty_file(tmp_path: Path) -> None:
    file = opened(tmp_path).transfer.ltm()
    assert set(file["patterns"]) == set(ltm.CATEGORIES)
    assert file["patterns"]["context_rules"] == {}
    assert file["metadata"]["version"] == "1.0"


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=12),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
TEXT = st.one_of(
    st.text(max_size=20), st.sampled_from(["same", "same ", "1. x", "**Error:** e\n**Solution:** s", " \n"])
)
STAMP = st.one_of(st.integers(0, 2_000_000_000), JSON)
COMMON = {
    "confidence": st.one_of(st.floats(0, 1), JSON),
    "timestamp": STAMP,
    "updated": STAMP,
    "tags": JSON,
    "examples": st.one_of(st.lists(TEXT, max_size=3), JSON),
    "tier": JSON,
    "applied": JSON,
    "count": JSON,
    "verified": JSON,
    "solved_count": st.one_of(st.integers(0, 9), JSON),
    "occurrences": JSON,
    "success_rate": st.one_of(st.floats(0, 1), JSON),
}


def entries(**needed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    whole = st.fixed_dictionaries(needed, optional=COMMON)
    return st.lists(st.one_of(whole, whole, JSON), max_size=3)


FILES = st.fixed_dictionaries(
    {
        "patterns": st.fixed_dictionaries(
            {},
            optional={
                "discoveries": entries(fact=TEXT),
                "problem_solutions": entries(error=TEXT, solution=TEXT),
                "code_patterns": entries(pattern=TEXT),
                "workflows": entries(sequence=st.lists(TEXT, max_size=3)),
                "failures": entries(what=TEXT, impact=TEXT, prevention=st.one_of(TEXT, JSON)),
                "context_rules": st.one_of(
                    st.dictionaries(
                        TEXT, st.one_of(st.lists(st.one_of(TEXT, JSON), max_size=3), JSON), max_size=3
                    ),
                    JSON,
                ),
                "other": JSON,
            },
        ),
    },
    optional={
        "metadata": st.one_of(
            st.fixed_dictionaries({"created": STAMP, "last_updated": STAMP, "version": JSON}), JSON
        ),
        "more": JSON,
    },
)


def check_any_file(base: Path, file: dict[str, Any]) -> None:
    memory = opened(base)
    memory.transfer.import_ltm(written(base, file))
    assert sorted_lists(memory.transfer.ltm()) == sorted_lists(file)
    again = memory.transfer.import_ltm(base / "ltm.json")
    assert (again.added, again.updated) == ([], [])
    assert sorted_lists(memory.transfer.ltm()) == sorted_lists(file)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(FILES)
def test_any_file_comes_out_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, file: dict[str, Any]
) -> None:
    check_any_file(tmp_path_factory.mktemp("case"), file)


@pytest.mark.soak
@settings(max_examples=1500, deadline=None)
@given(FILES)
def test_many_files_come_out_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, file: dict[str, Any]
) -> None:
    check_any_file(tmp_path_factory.mktemp("case"), file)


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"\xff\xfe",
        b'{"patterns": []}',
        b"{}",
        b'{"metadata": {"version": "1.0"}}',
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_ltm_json_is_refused_and_nothing_is_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ltm.json"
    path.write_bytes(content)
    memory = opened(tmp_path)
    with pytest.raises(Malformed):
        memory.transfer.import_ltm(path)
    assert not memory.list().records
    assert path.read_bytes() == content


def test_a_file_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed):
        opened(tmp_path).transfer.import_ltm(tmp_path / "nowhere.json")


def test_only_a_person_reads_and_writes_files_of_the_machine(tmp_path: Path) -> None:
    agent = opened(tmp_path, origin=Origin.AGENT)
    with pytest.raises(NotVisible):
        agent.transfer.import_ltm(written(tmp_path, SAMPLE))
    with pytest.raises(NotVisible):
        agent.transfer.export_ltm(tmp_path / "out.json")


def test_an_export_writes_over_nothing_and_not_into_memory(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    there = written(tmp_path, {"mine": 1})
    with pytest.raises(Collision):
        memory.transfer.export_ltm(there)
    assert json.loads(there.read_text()) == {"mine": 1}
    memory.transfer.export_ltm(there, force=True)
    assert "patterns" in json.loads(there.read_text())
    with pytest.raises(OutsideMemory):
        memory.transfer.export_ltm(tmp_path / "home" / "ltm.json")


def test_no_secret_comes_in_or_goes_out(tmp_path: Path) -> None:
    secret = "AKIA" + "IOSFODNN7EXAMPLQ"
    file = {
        "patterns": {"discoveries": [{"fact": f"the key is {secret}", "note": secret}, {"fact": "harmless"}]},
        "extra": secret,
    }
    memory = opened(tmp_path)
    assert memory.transfer.import_ltm(written(tmp_path, file)).secrets
    kept = b"".join(each.read_bytes() for each in (tmp_path / "home").rglob("*") if each.is_file())
    assert secret.encode() not in kept
    refused = memory.transfer.import_ltm(written(tmp_path, {"patterns": file["patterns"]}), scope="federated")
    assert refused.added == ["harmless"]
    assert [each.what for each in refused.findings] == ["refused"]

    (tmp_path / "home" / "config.toml").write_text('[secrets]\npolicy = "warn"\n')
    loose = opened(tmp_path)
    loose.knowledge.learn("discovery", fact=f"another key: {secret}")
    with pytest.raises(SecretFound):
        loose.transfer.export_ltm(tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_what_a_hand_has_spoiled_beside_a_record_is_left_out(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.transfer.import_ltm(written(tmp_path, {"patterns": {"discoveries": [{"fact": "one", "odd": 1}]}}))
    for path in (tmp_path / "home" / "memory").rglob("*.md"):
        spoiled = frontmatter.edit(path.read_text(), {"ltm": '{"has": ['})
        path.write_text(spoiled.replace("```json", "```"))
    assert [each["fact"] for each in memory.transfer.ltm()["patterns"]["discoveries"]] == ["one"]
