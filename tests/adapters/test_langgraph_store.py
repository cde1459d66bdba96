"""LangGraph's store over records, held against the library's own in memory."""

from __future__ import annotations

import asyncio
import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from vademecum.adapters.langgraph_store import RecordStore, parse, record_key, render, tag_of
from vademecum.errors import Malformed, ScopeUnresolved
from vademecum.text import document, is_same_text
from vademecum.types import Entry, Origin, Place, Record, Scope

from .worlds import opened, origins

if TYPE_CHECKING:
    from pathlib import Path

ADA = ("users", "ada")
BOB = ("users", "bob")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(opened(tmp_path))


def as_record(text: str) -> Record:
    return Record("k", Place(Scope.GLOBAL), "p", "project", "K", (Entry(text),))


@given(
    namespace=st.lists(st.text(), max_size=3),
    key=st.text(),
    value=st.dictionaries(st.text(), JSON, max_size=4),
)
def test_an_item_comes_back_from_its_text_as_it_was(
    namespace: list[str], key: str, value: dict[str, Any]
) -> None:
    kept = parse(as_record(document.tidy(render(namespace, key, value))))
    assert (list(kept.namespace), kept.key, kept.value) == (namespace, key, value)


@given(one=st.text(), other=st.text())
def test_values_that_differ_are_never_taken_for_the_same_text(one: str, other: str) -> None:
    texts = [render(("a",), "k", {"text": each}) for each in (one, other)]
    assert is_same_text(*texts) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("a b", "a  b"), ("a", "a "), ("a\u00a0b", "a b"), ("é", "e\u0301"), ("\u2028", " "), ("\ud800", "")],
)
def test_a_value_that_differs_in_white_space_alone_is_put(store: RecordStore, one: str, other: str) -> None:
    store.put(ADA, "k", {"text": one})
    store.put(ADA, "k", {"text": other})
    item = store.get(ADA, "k")
    assert item is not None
    assert item.value == {"text": other}


def test_what_is_put_is_there_for_another_process_and_for_a_person(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    RecordStore(memory).put(ADA, "prefs", {"theme": "dark", "size": 3})
    item = RecordStore(opened(tmp_path)).get(ADA, "prefs")
    assert item is not None
    assert (item.value, item.key, item.namespace) == ({"theme": "dark", "size": 3}, "prefs", ADA)
    assert item.created_at.tzinfo is not None
    record = memory.show(record_key(ADA, "prefs"))
    assert record.key.startswith("users-ada-prefs-")
    assert record.protected, "no age and no cap may end what a program relies on"
    assert '"theme": "dark"' in record.text


def test_a_value_that_is_put_again_supersedes_and_the_old_one_stays_readable(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    store = RecordStore(memory)
    for theme in ("dark", "light", "dark"):
        store.put(ADA, "prefs", {"theme": theme})
    record = memory.show(record_key(ADA, "prefs"))
    assert [json.loads(entry.text[8:-4])["value"]["theme"] for entry in record.entries] == [
        "dark",
        "light",
        "dark",
    ]
    assert len(record.live) == 1


def test_what_is_deleted_goes_to_the_archive_and_can_be_restored(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    store = RecordStore(memory)
    store.put(ADA, "prefs", {"theme": "dark"})
    store.delete(ADA, "prefs")
    store.delete(ADA, "prefs")
    assert store.get(ADA, "prefs") is None
    assert store.list_namespaces() == []
    memory.restore(record_key(ADA, "prefs"))
    item = store.get(ADA, "prefs")
    assert item is not None
    assert item.value == {"theme": "dark"}


def test_what_is_put_is_an_agents_word_whoever_opened_the_memory(tmp_path: Path) -> None:
    memory = opened(tmp_path, origin=Origin.USER)
    RecordStore(memory).put(ADA, "prefs", {"theme": "dark"})
    assert origins(memory) == {"agent"}


def test_a_question_finds_items_by_their_words_and_only_below_the_prefix(store: RecordStore) -> None:
    store.put(ADA, "a", {"text": "She drinks strong coffee every morning."})
    store.put(BOB, "b", {"text": "He plays chess on Sundays."})
    store.put(("other",), "c", {"text": "Coffee is roasted in Trieste."})
    found = store.search(("users",), query="strong coffee in the morning", limit=1)
    assert [(item.namespace, item.key) for item in found] == [(ADA, "a")]
    assert found[0].score is not None
    assert found[0].score > 0.5
    everywhere = store.search((), query="coffee")
    assert {item.key for item in everywhere[:2]} == {"a", "c"}
    assert store.search(BOB, query="coffee", filter={"text": "She"}) == []


def test_a_bar_keeps_what_is_unrelated_out(tmp_path: Path) -> None:
    store = RecordStore(opened(tmp_path), min_score=0.35)
    store.put(ADA, "a", {"text": "She drinks strong coffee every morning."})
    assert [item.key for item in store.search((), query="strong coffee")] == ["a"]
    assert store.search((), query="quantum chromodynamics") == []


def test_an_item_is_not_found_by_what_it_said_before(tmp_path: Path) -> None:
    store = RecordStore(opened(tmp_path), min_score=0.35)
    store.put(ADA, "a", {"text": "The lighthouse keeper drinks tea."})
    store.put(ADA, "a", {"text": "Invoices are paid on Mondays."})
    assert store.search(ADA, query="lighthouse keeper") == []
    assert [item.key for item in store.search(ADA, query="When are invoices paid?")] == ["a"]


def test_an_item_that_is_not_to_be_indexed_is_found_by_get_and_by_filter_alone(store: RecordStore) -> None:
    store.put(ADA, "a", {"text": "strong coffee"}, index=False)
    store.put(ADA, "b", {"text": "strong coffee"}, index=["text"])
    assert [item.key for item in store.search(ADA, query="strong coffee")] == ["b"]
    assert {item.key for item in store.search(ADA)} == {"a", "b"}
    assert store.get(ADA, "a") is not None


def test_filters_compare_as_the_library_says(store: RecordStore) -> None:
    for number in range(6):
        store.put(
            ADA,
            str(number),
            {"n": number, "even": number % 2 == 0, "in": {"x": [number]}, "s": "abc"[number // 2]},
        )

    def keys(**wanted: Any) -> set[str]:
        return {item.key for item in store.search(("users",), filter=wanted)}

    assert keys(even=True) == {"0", "2", "4"}
    assert keys(n={"$gt": 3}) == {"4", "5"}
    assert keys(n={"$gte": 3, "$lt": 5}) == {"3", "4"}
    assert keys(n={"$ne": 0, "$lte": 2}) == {"1", "2"}
    assert keys(**{"in": {"x": [2]}}) == {"2"}
    assert keys(s={"$gt": "a", "$eq": "b"}) == {"2", "3"}
    assert keys(s={"$gt": 1}) == set()
    assert keys(missing=1) == set()
    with pytest.raises(ValueError, match="Unsupported operator"):
        keys(n={"$near": 1})


def test_pages_do_not_overlap(store: RecordStore) -> None:
    for number in range(7):
        store.put(ADA, str(number), {"n": number})
    pages = [store.search(ADA, limit=3, offset=start) for start in (0, 3, 6)]
    assert [len(page) for page in pages] == [3, 3, 1]
    assert {item.key for page in pages for item in page} == set("0123456")


def test_a_label_can_have_a_scope_of_its_own(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    store = RecordStore(memory, scopes={"users": "global"})
    store.put(ADA, "prefs", {"theme": "dark"})
    store.put(("notes",), "n", {"text": "here"})
    assert {str(record.place.scope) for record in memory.list().records} == {"global", "project"}
    assert store.list_namespaces() == [("notes",), ADA]
    assert {item.key for item in store.search(())} == {"n", "prefs"}
    assert [item.key for item in store.search(ADA)] == ["prefs"]


def test_a_scope_without_an_id_is_refused_when_the_store_is_made(tmp_path: Path) -> None:
    with pytest.raises(ScopeUnresolved):
        RecordStore(opened(tmp_path), scope="session")


# -------------------------------------------------------------------- held against the library's own


def comparable(result: Any) -> Any:
    """A result without moments, and without an order where the library promises none."""
    if isinstance(result, list) and result and not isinstance(result[0], tuple):
        return sorted((item.namespace, item.key, json.dumps(item.value, sort_keys=True)) for item in result)
    return (result.namespace, result.key, result.value) if hasattr(result, "value") else result


def some_op(chance: random.Random) -> Any:
    namespace = tuple(chance.choice("abc") for _ in range(chance.randint(1, 3)))
    key, wildcard = chance.choice("xyz"), tuple(chance.choice("ab*") for _ in range(chance.randint(1, 2)))
    return chance.choice(
        [
            PutOp(namespace, key, {"n": chance.randint(0, 9), "t": chance.choice(["p", "q"])}),
            PutOp(namespace, key, {"n": chance.randint(0, 9), "t": {"deep": [1, None]}}),
            PutOp(namespace, key, None),
            GetOp(namespace, key),
            SearchOp(namespace[: chance.randint(0, 2)], None, 100),
            SearchOp(namespace[:1], {"t": "p"}, 100),
            SearchOp((), {"n": {"$gte": 5}}, 100),
            ListNamespacesOp((MatchCondition(chance.choice(["prefix", "suffix"]), wildcard),), None, 100),
            ListNamespacesOp(None, chance.randint(1, 3), chance.randint(0, 5), chance.randint(0, 2)),
        ]
    )


def run_beside(ours: BaseStore, theirs: BaseStore, seed: int, batches: int) -> None:
    chance = random.Random(seed)
    for _ in range(batches):
        ops = [some_op(chance) for _ in range(chance.randint(1, 4))]
        got, wanted = ours.batch(ops), theirs.batch(ops)
        # The library's own keeps the names of namespaces that became empty; ours are what items there are.
        for op, one, other in zip(ops, got, wanted, strict=True):
            if not isinstance(op, ListNamespacesOp):
                assert comparable(one) == comparable(other), op


@pytest.mark.parametrize("seed", range(4))
def test_any_operations_give_what_the_stores_own_give(tmp_path: Path, seed: int) -> None:
    run_beside(RecordStore(opened(tmp_path)), InMemoryStore(), seed, 20)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_operations_give_what_the_stores_own_give(tmp_path: Path, seed: int) -> None:
    run_beside(RecordStore(opened(tmp_path)), InMemoryStore(), seed, 100)


@pytest.mark.parametrize("seed", range(6))
def test_namespaces_are_listed_as_the_stores_own_list_them(tmp_path: Path, seed: int) -> None:
    chance, ours, theirs = random.Random(seed), RecordStore(opened(tmp_path)), InMemoryStore()
    for _ in range(12):
        namespace = tuple(chance.choice("abc") for _ in range(chance.randint(1, 4)))
        ours.put(namespace, "k", {"n": 1})
        theirs.put(namespace, "k", {"n": 1})
    for _ in range(60):
        path = tuple(chance.choice("abc*") for _ in range(chance.randint(1, 3)))
        condition = MatchCondition(chance.choice(["prefix", "suffix"]), path)
        op = ListNamespacesOp(
            (condition,), chance.choice([None, 1, 2]), chance.randint(1, 20), chance.randint(0, 3)
        )
        assert ours.batch([op]) == theirs.batch([op])


# -------------------------------------------------------------------- many at once


def test_async_calls_at_once_lose_nothing(tmp_path: Path) -> None:
    store = RecordStore(opened(tmp_path))

    async def work() -> list[Any]:
        await asyncio.gather(*(store.aput(ADA, str(number), {"n": number}) for number in range(24)))
        await asyncio.gather(*(store.aput(ADA, "same", {"n": number}) for number in range(8)))
        return list(await asyncio.gather(*(store.aget(ADA, str(number)) for number in range(24))))

    items = asyncio.run(work())
    assert [item.value["n"] for item in items] == list(range(24))
    found = asyncio.run(store.asearch(ADA, filter={"n": {"$lt": 100}}, limit=100))
    assert len(found) == 25


def test_threads_that_search_and_put_at_once_agree(tmp_path: Path) -> None:
    store = RecordStore(opened(tmp_path))

    def work(number: int) -> int:
        store.put(ADA, str(number), {"text": f"The lighthouse number {number} stands on a rock."})
        return len(store.search(ADA, query="lighthouse on a rock", limit=50))

    with ThreadPoolExecutor(6) as pool:
        assert all(count >= 1 for count in pool.map(work, range(18)))
    assert len(store.search(ADA, query="lighthouse on a rock", limit=50)) == 18


# -------------------------------------------------------------------- bad input


@pytest.mark.parametrize("namespace", [(), ("a", ""), ("a.b",), ("langgraph", "x"), ("a", 3), ("a\0",)])
def test_a_bad_namespace_is_told_as_the_library_tells_it(store: RecordStore, namespace: Any) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {"n": 1})
    assert store.list_namespaces() == []


def test_ops_given_directly_are_checked_too(store: RecordStore) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("a",), "k", {"n": 1}), PutOp(("a.b",), "k", {"n": 1})])
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp((), "k", {"n": 1})])
    with pytest.raises(ValueError, match="Unknown operation"):
        store.batch(["put"])  # type: ignore[list-item]  # what is tested
    assert store.list_namespaces() == [], "nothing of a batch is done when one operation cannot be"


def test_time_to_live_is_refused_and_says_so(store: RecordStore) -> None:
    assert not store.supports_ttl
    with pytest.raises(NotImplementedError, match="TTL is not supported by RecordStore"):
        store.put(ADA, "k", {"n": 1}, ttl=5)
    with pytest.raises(NotImplementedError, match="stay until they are deleted"):
        store.batch([PutOp(ADA, "k", {"n": 1}, ttl=5)])
    assert store.get(ADA, "k") is None


@pytest.mark.parametrize(
    "value", [["a"], "text", 3, {"n": float("nan")}, {"n": object()}, {1: 2}, {"b": b"bytes"}]
)
def test_a_value_that_json_cannot_say_is_refused_and_the_old_one_stays(
    store: RecordStore, value: Any
) -> None:
    store.put(ADA, "k", {"n": 1})
    with pytest.raises((TypeError, ValueError)):
        store.put(ADA, "k", value)
    item = store.get(ADA, "k")
    assert item is not None
    assert item.value == {"n": 1}


def test_a_huge_value_and_a_deep_one_are_refused_and_nothing_of_their_batch_is_done(
    store: RecordStore,
) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"in": deep}
    for value in ({"t": "x" * 2_000_000}, deep):
        with pytest.raises(ValueError, match=r"bytes|deep"):
            store.batch([PutOp(ADA, "small", {"n": 1}), PutOp(ADA, "k", value)])
    assert store.search(()) == []


def test_a_secret_in_a_value_is_replaced_and_the_value_stays_json(store: RecordStore) -> None:
    secret = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    store.put(ADA, "k", {"token": secret, "note": f'say "{secret}" twice', "n": 1})
    item = store.get(ADA, "k")
    assert item is not None
    assert item.value["n"] == 1
    assert secret not in json.dumps(item.value)
    assert "REDACTED" in item.value["note"]


def test_a_secret_in_a_name_is_refused_since_it_cannot_be_left_out(tmp_path: Path) -> None:
    secret = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    store = RecordStore(opened(tmp_path))
    for namespace, key in (((secret,), "k"), (("users",), secret)):
        with pytest.raises(ValueError, match="secret"):
            store.put(namespace, key, {"n": 1})
    assert store.list_namespaces() == []
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and secret in path.read_text(errors="ignore")
    ]


def test_a_record_that_a_hand_has_broken_is_told_and_hides_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = opened(tmp_path)
    store = RecordStore(memory)
    store.put(ADA, "good", {"n": 1})
    store.put(ADA, "bad", {"n": 2})
    path = memory.home.path / memory.show(record_key(ADA, "bad")).path
    path.write_text(path.read_text().replace('"value"', '"valu"'))
    assert [item.key for item in store.search(ADA)] == ["good"]
    assert "contains no item" in caplog.text
    with pytest.raises(Malformed, match="contains no item"):
        store.get(ADA, "bad")


def test_words_that_a_person_appended_do_not_hide_the_item(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    store = RecordStore(memory)
    store.put(ADA, "k", {"n": 1})
    memory.store("She said so on the phone.", key=record_key(ADA, "k"))
    item = store.get(ADA, "k")
    assert item is not None
    assert item.value == {"n": 1}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    labels=st.lists(
        st.text(min_size=1).filter(lambda x: "." not in x and "\0" not in x), min_size=1, max_size=3
    ),
    key=st.text(),
)
def test_any_name_makes_a_key_and_tags_that_every_system_takes(labels: list[str], key: str) -> None:
    from vademecum.text import names

    assert names.is_key(record_key(labels, key))
    assert record_key(labels, key) != record_key([*labels, "x"], key)
    assert tag_of(labels) != tag_of([*labels, "x"])
    assert tag_of(labels).isascii()
