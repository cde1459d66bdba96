"""Facts: one line each, never changed, refused when they claim what cannot be."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import every_case
from vademecum.errors import Malformed
from vademecum.sync import facts
from vademecum.sync.facts import FactId, SyncFact

DOC = "n-" + "0" * 32
ANNA, BERT = "aaaaaaaaaa", "bbbbbbbbbb"


def put(n: int = 1, **changes: Any) -> SyncFact:
    plain = SyncFact(
        stream="global",
        replica=ANNA,
        n=n,
        prev=facts.NOTHING,
        lamport=n,
        doc=DOC,
        kind="put",
        target="7k3m9q2x4w",
        value={"raw": f"## 2026-01-0{n}\nwords {n}\n"},
        origin="user",
        interface="file",
    )
    return replace(plain, **changes)


def test_a_fact_is_one_line_that_anybody_can_hash() -> None:
    line = facts.render(put())
    assert b"\n" not in line
    assert json.loads(line)["over"] == []
    assert facts.parse(line) == put()
    assert put().hash == hashlib.sha256(line).hexdigest()


def test_a_seal_is_outside_of_the_hash_and_proves_who_has_the_key() -> None:
    sealed = facts.seal(put(), b"key")
    assert sealed.hash == put().hash
    assert facts.parse(facts.render(sealed)) == sealed
    assert facts.is_sealed(sealed, b"key")
    assert not facts.is_sealed(sealed, b"another")
    assert not facts.is_sealed(put(), b"key")
    assert not facts.is_sealed(replace(sealed, value={"raw": "## 2026-01-01\nother words\n"}), b"key")


def test_a_purged_fact_has_no_content_and_keeps_its_hash_and_its_place_in_the_chain() -> None:
    first, second = put(), put(2, prev=put().hash)
    blank = facts.blank(first)
    assert b"words" not in facts.render(blank)
    assert facts.parse(facts.render(blank)).hash == first.hash
    assert facts.follows(second, blank)
    tag = put(kind="tag", target="a secret word", value=True)
    assert b"secret" not in facts.render(facts.blank(tag))


def test_union_is_the_same_in_any_order_and_prefers_what_was_purged() -> None:
    a, b = {put().id: put()}, {put(2).id: put(2)}
    blank = {put().id: facts.blank(put())}
    assert facts.join(a, b) == facts.join(b, a) == facts.join(a, b, a)
    assert facts.join(a, blank) == facts.join(blank, a) == blank


def test_two_facts_of_one_name_are_told() -> None:
    other = put(value={"raw": "## 2026-01-01\nwords of a rolled-back home\n"})
    with pytest.raises(Malformed, match="copied or rolled back"):
        facts.join({put().id: put()}, {other.id: other})


@every_case(
    "changes",
    [
        {"kind": "shout"},
        {"n": 0},
        {"n": True},
        {"n": 1.0},
        {"lam": -1},
        {"lam": 10**15},
        {"stream": "../x"},
        {"replica": "Anna"},
        {"prev": "x"},
        {"doc": ""},
        {"doc": "../../etc"},
        {"target": ""},
        {"target": ["7k3m9q2x4w"]},
        {"target": "a/b"},
        {"value": None},
        {"value": {"raw": 7}},
        {"value": {"raw": "\ud800"}},
        {"value": {"raw": "x" * 1_100_000}},
        {"kills": ["bbbbbbbbbb:1"]},
        {"over": ["aaaaaaaaaa:1"]},
        {"over": ["bbbbbbbbbb:2", "bbbbbbbbbb:1"]},
        {"over": ["bbbbbbbbbb:1", "bbbbbbbbbb:1"]},
        {"over": ["bbbbbbbbbb:01"]},
        {"over": [7]},
        {"over": None},
        {"kind": "drop", "value": None},
        {"kind": "drop", "value": None, "kills": ["bbbbbbbbbb:1"]},
        {"kind": "front", "target": "title", "over": ["bbbbbbbbbb:1"]},
        {"kind": "tag", "target": "x", "value": "yes"},
        {"kind": "applied", "target": "", "value": 1.5},
        {"kind": "purge", "doc": "", "target": "", "value": {"dots": ["x"]}},
        {"seal": "x"},
        {"purged": "0" * 64},
        {"author": "me"},
        {"origin": "user -->"},
    ],
)
def test_what_is_no_fact_is_refused(changes: dict[str, Any]) -> None:
    given = json.loads(facts.render(put())) | changes
    with pytest.raises(Malformed):
        facts.parse(json.dumps(given))


@every_case("line", [b"", b"[]", b"7", b"{", b"\xff", b"[" * 100_000, b'{"n":1}'])
def test_a_line_that_is_no_object_with_every_name_is_refused(line: bytes) -> None:
    with pytest.raises(Malformed):
        facts.parse(line)


def test_a_fact_may_replace_only_known_older_facts_about_the_same_thing() -> None:
    known = {put().id: put()}
    after = put(1, replica=BERT, lamport=2, based_on=(FactId(ANNA, 1),))
    facts.check(after, known.get)
    with pytest.raises(Malformed, match="not known"):
        facts.check(after, lambda fact_id: None)
    with pytest.raises(Malformed, match="something else"):
        facts.check(replace(after, target="other"), known.get)
    with pytest.raises(Malformed, match="something else"):
        facts.check(replace(after, stream="project/x"), known.get)
    with pytest.raises(Malformed, match="something else"):
        facts.check(replace(after, kind="tag", value=True), known.get)
    with pytest.raises(Malformed, match="not older"):
        facts.check(replace(after, lamport=1), known.get)
    drop = replace(after, kind="drop", value=None, removes=after.based_on)
    facts.check(drop, known.get)
    facts.check(replace(drop), {FactId(ANNA, 1): facts.blank(put())}.get)


def test_the_next_fact_of_a_replica_names_the_one_before_it() -> None:
    first = put()
    assert facts.follows(first, None)
    assert facts.follows(put(2, prev=first.hash), first)
    assert not facts.follows(put(2), first)
    assert not facts.follows(put(3, prev=first.hash), first)
    assert not facts.follows(put(2, prev=first.hash, lamport=1), first)
    assert not facts.follows(put(2, prev=first.hash), None)


def test_heads_are_what_nobody_replaced_in_the_one_order_there_is() -> None:
    one = put()
    two = put(1, replica=BERT, lamport=2, based_on=(one.id,))
    three = put(2, lamport=2, based_on=(one.id,))
    assert facts.heads([three, two, one]) == [three, two]
    assert facts.heads([]) == []


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(WORDS, WORDS, st.integers(1, 10**9), st.booleans())
def test_any_text_comes_back_from_its_line(words: str, target: str, n: int, there: bool) -> None:
    for fact in (
        put(n, value={"raw": words}, lamport=n),
        put(n, kind="tag", target=target, value=there),
        put(n, kind="front", target=target, value=[words, None, 1.5, {"a": n}]),
    ):
        again = facts.parse(facts.render(fact))
        assert again == fact
        assert again.hash == fact.hash
