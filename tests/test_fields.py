"""The table of fields: every part of the program reads it, and a new row is enough for a new field."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tools import format_page

from vademecum import fields
from vademecum.errors import UsageError
from vademecum.fields import BY_NAME, FIELDS, ORDERS, MergeRule
from vademecum.index.base import Labels
from vademecum.sync import facts, projection
from vademecum.sync.diff import FactWriter, diff
from vademecum.text.outgoing import clean_record
from vademecum.types import Place, Record, Scope

DOCS = Path(__file__).parent.parent / "docs"


def test_the_rows_fit_the_types_that_are_made_from_them() -> None:
    assert len(BY_NAME) == len(FIELDS)
    typed = {row.name for row in FIELDS if row.typed}
    assert typed <= {*Record.__dataclass_fields__}
    assert {*Labels._fields} == {row.name for row in FIELDS if row.indexed} | {"key"}
    for row in FIELDS:
        assert hasattr(Record, row.name) or not (row.order or row.inherited), row.name
        assert bool(row.ranks) is (row.merge is MergeRule.RANKED), row.name
        assert not row.option or row.kind.expects, f"an option needs a message for bad values: {row.name}"
        assert row.fact in facts.GROUPS or row.fact in facts.PLAIN, row.name


def test_the_table_in_the_docs_is_made_from_the_rows() -> None:
    page = (DOCS / "format.md").read_text()
    assert page == format_page.made(page), "run `python -m tools.format_page`"


def test_what_syncs_by_facts_of_its_own_is_what_always_did() -> None:
    """An older peer refuses a kind of fact that it does not know, so a new field is a `front` fact."""
    assert set(projection.REGISTERS) == {"protected", "type", "confidence", "stale_after", "status"}
    assert projection.LISTS == {
        "tags": "tag",
        "related": "related",
        "sources": "source",
        "examples": "example",
        "aliases": "alias",
    }
    assert {"mark", "vouch", *projection.LISTS.values()} == facts.SETS
    assert facts.GROUPS.keys() == {
        *("put", "drop", "mark", "vouch", "name"),
        *projection.LISTS.values(),
        *projection.REGISTERS,
    }


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [("confidence", [0, 0.5, 1], [-1, 1.5, "high", True, [1]]), ("protected", [True, False], ["yes", 1])],
)
def test_a_value_that_is_not_valid_is_told_with_what_is_expected(
    name: str, good: list[object], bad: list[object]
) -> None:
    row = BY_NAME[name]
    assert [row.check(value) for value in [None, *good]] == [""] * (len(good) + 1)
    for value in bad:
        assert row.check(value).startswith(f"{name} must be {row.kind.expects}, not ")


def test_only_fields_with_an_option_can_be_set() -> None:
    assert fields.check_values({"confidence": 0.5}) == {"confidence": 0.5}
    assert fields.check_values({"confidence": None}) == {}
    with pytest.raises(UsageError, match="no field verified to set"):
        fields.check_values({"verified": True})


def test_records_without_a_value_come_last_in_every_order() -> None:
    bare = Record("zz", Place(Scope.GLOBAL), "p", "project", "", ())
    full = Record(
        "aa",
        Place(Scope.GLOBAL),
        "p",
        "project",
        "",
        (),
        num=3,
        created="2026-01-01",
        updated="2026-01-02",
        priority=5,
    )
    for name in ORDERS:
        position, newest_first = fields.parse_order(name)
        ordered = sorted(
            [bare, full], key=lambda each: fields.sort_values(each)[position], reverse=newest_first
        )
        assert ordered == [full, bare], name


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_text_without_a_value_comes_last_too(monkeypatch: pytest.MonkeyPatch, newest_first: bool) -> None:
    category = BY_NAME["category"]._replace(order="category", newest_first=newest_first)
    monkeypatch.setitem(ORDERS, "category", category)
    position, largest_first = fields.parse_order("category")
    records = [
        Record(key, Place(Scope.GLOBAL), "p", "project", "", (), category=value)
        for key, value in (("none", None), ("some", "api"))
    ]
    records.sort(key=lambda record: fields.sort_values(record)[position], reverse=largest_first)
    assert [record.key for record in records] == ["some", "none"]


def test_every_text_of_a_record_leaves_memory_without_its_secrets() -> None:
    token = "gh" + "p_" + "0aB1" * 9
    texts: dict[str, Any] = dict.fromkeys(fields.TYPED_TEXTS, f"see {token}")
    record = replace(Record("a", Place(Scope.GLOBAL), "p", "project", "", ()), **texts)
    assert {"title", "category", "source"} <= set(texts)
    assert token not in str(clean_record(record))


# ------------------------------------------------------------ sync

DEPLOYS = """---
type: solution
id: 0190a3c4-0000-7000-8000-000000000001
num: 7
key: deploys
title: Deploys
scope: global
tags: [ops, release]
category: decision
source: detected
created: 2026-01-02T03:04:05Z
updated: 2026-02-02T03:04:05Z
generated: {by: "process:x", at: 2026-02-02T03:04:05Z}
confidence: 0.75
protected: true
confirmed: [{by: "process:x", session: s1, at: 2026-01-03T00:00:00Z}]
aliases: [releases]
related: [ports]
sources: [{resource: "mem0:x", id: "1"}]
examples: [ops/deploy.sh]
applied: 3
stale_after: 90 days
status: stable
mine: kept
---
# deploys

## 2026-01-02T03:04:05Z
Deploys run on Tuesdays.
<!-- origin: user | id: 0123456789 -->
"""
DOC, PATH = "0190a3c4-0000-7000-8000-000000000001", "records/deploys.md"


def ledger(replica: str, known: tuple[facts.SyncFact, ...] = ()) -> FactWriter:
    lamport = max((fact.lamport for fact in known), default=0)
    return FactWriter("global", replica, projection.FactSet(known), lamport=lamport)


def edited(author: FactWriter, before: str, after: str) -> list[facts.SyncFact]:
    """The facts that an edit of the record makes, after those of the record itself."""
    known = len(author.made)
    shown = projection.project(author.seen)[PATH]
    assert shown.text == before
    diff(author, shown, PATH, after)
    return author.made[known:]


def test_the_facts_of_a_record_have_the_bytes_that_they_had_before_the_table() -> None:
    author = ledger("0123456789")
    diff(author, None, PATH, DEPLOYS, doc=DOC)
    lines = b"\n".join(map(facts.render, author.made))
    digest = hashlib.sha256(lines).hexdigest()
    assert digest == "613f3022f4322e5f20b6dda8fb45061b5a4e27ed9f1601d6b282b6fb5e5848eb"


@pytest.mark.parametrize("value", ["3", "[a, b]", "{level: 2}", "soon"])
def test_a_peer_keeps_a_field_that_it_does_not_know(value: str) -> None:
    """A later version adds the field; this one shows it, edits around it, and sends no word on it."""
    later = ledger("0123456789")
    diff(later, None, PATH, DEPLOYS, doc=DOC)
    given = DEPLOYS.replace("mine: kept\n", f"mine: kept\nfrom_a_later_version: {value}\n")
    added = edited(later, DEPLOYS, given)
    assert [(fact.kind, fact.target) for fact in added if fact.kind != "layout"] == [
        ("front", "from_a_later_version")
    ]

    sent = tuple(facts.parse(facts.render(fact)) for fact in later.made)
    here = ledger("abcdefghjk", sent)
    changed = given.replace("confidence: 0.75", "confidence: 0.5")
    own = edited(here, given, changed)
    assert "from_a_later_version" not in {fact.target for fact in own}
    back = projection.FactSet((*later.made, *own))
    assert projection.project(back)[PATH].text == changed
