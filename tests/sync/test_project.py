"""The two laws: what is shown is no change, and what one person did alone is shown byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import every_case
from vademecum.errors import Malformed
from vademecum.sync import blocks, facts
from vademecum.sync.diff import FactWriter, between, diff
from vademecum.sync.projection import FactSet, ShownFile, hidden, project, show
from vademecum.text import document, frontmatter
from vademecum.types import Entry, Origin

SAMPLES = Path(__file__).parents[1] / "format/samples"
ANNA, BERT, CLEO = "aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"
PATH = "records/topic.md"
DOC = "0198c9b2-6f4e-7c1a-9a52-3d1c5b7e9f10"
START = f"---\nid: {DOC}\ntype: project\ntags: [a, b]\n---\n# topic\n\n"


class Machine:
    """One replica with one file."""

    def __init__(self, name: str, path: str = PATH) -> None:
        self.name, self.path, self.known, self.shown = name, path, FactSet(), ""

    def write(self, text: str | None) -> list[facts.SyncFact]:
        """Put a text into the file, and what that means into facts."""
        mine = [fact for fact in self.known.facts.values() if fact.replica == self.name]
        last = max(mine, key=lambda fact: fact.n, default=None)
        lamport = max((fact.lamport for fact in self.known.facts.values()), default=0)
        ledger = FactWriter("global", self.name, self.known, last, lamport)
        given = dict(frontmatter.parse(text or "").values).get("id") if text else None
        doc = blocks.document_id(self.path, given)
        diff(ledger, self.base, self.path, text, doc=doc)
        return ledger.made

    @property
    def base(self) -> ShownFile | None:
        return project(self.known).get(self.path)

    @property
    def text(self) -> str:
        return project(self.known)[self.path].text

    def meet(self, other: Machine) -> None:
        """Both know what either knew."""
        for fact in facts.join(self.known.facts, other.known.facts).values():
            self.known.add(fact)
            other.known.add(fact)


@given(st.lists(st.sampled_from(["one", "two", "three"]), min_size=1, max_size=6), st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_sets_that_were_one_know_nothing_of_each_others_facts(texts: list[str], parted: int) -> None:
    machine, apart, before = Machine(ANNA), FactSet(), []
    for number, text in enumerate(texts):
        if number == parted:
            apart, before = machine.known.fork(), list(machine.known.facts.values())
        machine.write(f"{START}## 2026-01-01T00:00:00Z\n{text}\n")
        every = list(machine.known.facts.values())
        assert show(machine.known, [DOC]) == show(FactSet(every), [DOC])  # what was shown before is not kept
    assert apart.docs == FactSet(before).docs
    for fact in machine.known.facts.values():
        apart.add(fact)
    assert apart.docs == machine.known.docs == FactSet(machine.known.facts.values()).docs
    assert project(apart) == project(machine.known)


def entry(words: str, mark: str, time: str = "2026-01-01T00:00:00Z") -> Entry:
    return Entry(words, time, Origin.USER, id=mark)


def readable() -> list[Any]:
    found = []
    for path in sorted(SAMPLES.rglob("*.md")):
        kind = {"records": "records/", "journal": "journal/", "pinned": ""}.get(path.parts[-2])
        if kind is not None or "records" in path.parts:
            try:
                text = path.read_bytes().decode()
                blocks.cut(text, f"{kind or 'records/'}{path.name}" if kind != "" else path.name)
            except (UnicodeDecodeError, Malformed):
                continue
            where = f"{kind if kind is not None else 'records/'}{path.name}"
            found.append(pytest.param(text, where, id=path.name))
    return found


@every_case(("text", "path"), readable())
def test_each_sample_of_the_format_is_shown_byte_for_byte(text: str, path: str) -> None:
    one = Machine(ANNA, path)
    assert blocks.join(blocks.cut(text, one.path)) == text
    if not text.strip():
        return
    one.write(text)
    assert one.text == text
    assert one.write(text) == []


LINES = st.lists(
    st.sampled_from(
        ["", "", "words", "## 2026-01-01", "## 2026-01-02T00:00:00Z", "# title", "<!-- origin: agent -->",
         "  ", "<!-- origin: user | id: 7k3m9q2x4w -->", "<!-- origin: user | superseded: 2026-01-02 -->",
         "\\## 2026-01-01", "## no time", "---", "- a list", "é\u2028",
         "<!-- origin: tool | stale: gone -->"]
    ),
    max_size=14,
)  # fmt: skip
FRONTS = st.sampled_from(["", "---\n---\n", START, "---\ntags: a, b  # mine\nodd: {x: 1}\n---\n", "\ufeff"])


@settings(max_examples=400, deadline=None)
@given(FRONTS, LINES, LINES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_whatever_one_person_types_is_shown_byte_for_byte(
    front: str, first: list[str], second: list[str], eol: str, ended: bool
) -> None:
    one = Machine(ANNA)
    said: dict[str, str] = {}
    for lines in (first, second, [*first, *second], second):
        text = (front + "\n".join(lines) + ("\n" if ended else "")).replace("\n", eol)
        try:
            page = blocks.cut(text, PATH)
        except Malformed:
            return
        marks = [block.id for block in page.blocks if block.id]
        if not page.blocks or len(set(marks)) < len(marks) or any("superseded" in each for each in lines):
            continue  # copies get ids of their own, and marks are kept apart from texts
        bare = {block.words for block in page.blocks if not block.id}
        if any(said.get(block.id, block.words) in bare - {block.words} for block in page.blocks if block.id):
            return  # nor can a text that lost its id be told from its copy that kept it
        said |= {block.id: block.words for block in page.blocks if block.id}
        one.write(text)
        assert one.text == text
        assert one.write(text) == []


def test_two_additions_both_stand_and_no_conflict_comes_of_them() -> None:
    one, two = Machine(ANNA), Machine(BERT)
    one.write(document.append(START, entry("First.", "1111111111")))
    one.meet(two)
    one.write(document.append(one.text, entry("By Anna.", "2222222222", "2026-01-02T00:00:00Z")))
    two.write(document.append(two.text, entry("By Bert.", "3333333333", "2026-01-03T00:00:00Z")))
    one.meet(two)
    assert one.text == two.text
    assert [each.text for each in document.parse(one.text).entries] == ["First.", "By Anna.", "By Bert."]
    assert "~" not in one.text


def test_two_edits_of_one_entry_both_stand_one_below_the_other_and_wait_for_a_person() -> None:
    one, two = Machine(ANNA), Machine(BERT)
    one.write(document.append(START, entry("The port is 80.", "1111111111")))
    one.meet(two)
    one.write(one.text.replace("80", "8080"))
    two.write(two.text.replace("80", "9090"))
    one.meet(two)
    first, second = document.parse(one.text).entries
    assert {first.text, second.text} == {"The port is 8080.", "The port is 9090."}
    assert second.contradicts == first.time
    assert (second.id or "").startswith("1111111111~")
    settled = one.text.replace(
        f"## {first.time}\n{first.text}\n<!-- origin: user | id: 1111111111 -->\n\n", ""
    )
    one.write(settled)
    one.meet(two)
    [left] = document.parse(two.text).entries
    assert left.text == second.text


def test_the_same_edit_on_two_machines_is_one() -> None:
    one, two = Machine(ANNA), Machine(BERT)
    one.write(document.append(START, entry("The port is 80.", "1111111111")))
    one.meet(two)
    for each in (one, two):
        each.write(each.text.replace("80", "8080"))
    one.meet(two)
    assert [each.text for each in document.parse(one.text).entries] == ["The port is 8080."]


def test_an_edit_that_did_not_see_the_removal_goes_to_the_archive() -> None:
    one, two = Machine(ANNA), Machine(BERT)
    text = document.append(
        document.append(START, entry("Stays.", "1111111111")), entry("Goes.", "2222222222")
    )
    one.write(text)
    one.meet(two)
    one.write(document.append(START, entry("Stays.", "1111111111")))
    two.write(two.text.replace("Goes.", "Goes, edited."))
    one.meet(two)
    assert [each.text for each in document.parse(one.text).entries] == ["Stays."]
    assert ["Goes, edited." in each.raw for each in hidden(one.known, DOC)] == [True]


def test_what_the_one_who_forgot_had_not_seen_survives_alone() -> None:
    one, two = Machine(ANNA), Machine(BERT)
    one.write(document.append(START, entry("Old.", "1111111111")))
    one.meet(two)
    two.write(document.append(two.text, entry("New.", "2222222222")))
    one.write(None)
    one.meet(two)
    assert [each.text for each in document.parse(one.text).entries] == ["New."]


def test_what_is_restored_is_alive_everywhere() -> None:
    one, two = Machine(ANNA), Machine(BERT)
    text = document.append(START, entry("Old.", "1111111111"))
    one.write(text)
    one.write(None)
    one.meet(two)
    assert project(two.known) == {}
    one.write(text)
    one.meet(two)
    assert two.text == text


def test_tags_are_united_without_those_that_somebody_took_out() -> None:
    one, two = Machine(ANNA), Machine(BERT)
    one.write(document.append(START, entry("First.", "1111111111")))
    one.meet(two)
    one.write(one.text.replace("[a, b]", "[a, b, c]"))
    two.write(two.text.replace("[a, b]", "[b, d]"))
    one.meet(two)
    assert frontmatter.parse(one.text).values["tags"] == ["b", "c", "d"]


@every_case(
    ("key", "mine", "theirs", "holds"),
    [
        ("type", "reference", "user", "user"),
        ("protected", "true", "false", True),
        ("confidence", "0.9", "0.4", 0.4),
        ("status", "stable", "deprecated", "deprecated"),
        ("stale_after", "2027-01-01", "2026-06-01", "2026-06-01"),
    ],
)
def test_of_two_values_the_safer_holds_and_a_later_one_may_change_it(
    key: str, mine: str, theirs: str, holds: object
) -> None:
    one, two = Machine(ANNA), Machine(BERT)
    one.write(document.append(START.replace("type: project\n", ""), entry("First.", "1111111111")))
    one.meet(two)
    one.write(one.text.replace("tags:", f"{key}: {mine}\ntags:"))
    two.write(two.text.replace("tags:", f"{key}: {theirs}\ntags:"))
    one.meet(two)
    assert one.text == two.text
    assert frontmatter.parse(one.text).values[key] == holds
    one.write(frontmatter.edit(one.text, {key: frontmatter.parse(f"---\nx: {mine}\n---\n").values["x"]}))
    one.meet(two)
    assert frontmatter.parse(two.text).values[key] == frontmatter.parse(f"---\nx: {mine}\n---\n").values["x"]


def test_a_count_is_the_sum_and_confirmations_are_one_a_session() -> None:
    one, two = Machine(ANNA), Machine(BERT)
    said = [{"by": "a", "session": "s", "at": "2026-01-01T00:00:00Z"}]
    one.write(
        frontmatter.edit(document.append(START, entry("x", "1111111111")), {"applied": 2, "confirmed": said})
    )
    one.meet(two)
    more = [*said, {"by": "b", "session": "t", "at": "2026-01-02T00:00:00Z"}]
    one.write(frontmatter.edit(one.text, {"applied": 3}))
    two.write(frontmatter.edit(two.text, {"applied": 4, "confirmed": more}))
    one.meet(two)
    values = frontmatter.parse(one.text).values
    assert values["applied"] == 5
    assert values["confirmed"] == more


def test_documents_of_one_name_made_apart_are_one_file_and_each_entry_stays_its_own() -> None:
    one, two = Machine(ANNA), Machine(BERT)
    other = START.replace(DOC, "1198c9b2-6f4e-7c1a-9a52-3d1c5b7e9f10")
    one.write(document.append(START, entry("By Anna.", "1111111111")))
    two.write(document.append(other, entry("By Bert.", "2222222222")))
    one.meet(two)
    assert [each.text for each in document.parse(one.text).entries] == ["By Anna.", "By Bert."]
    assert frontmatter.parse(one.text).values["id"] == DOC
    [made] = one.write(one.text.replace("By Bert.", "By Bert, edited."))
    assert made.doc == "1198c9b2-6f4e-7c1a-9a52-3d1c5b7e9f10"


def test_of_two_names_given_at_once_one_holds_and_the_other_still_finds_it() -> None:
    one, two = Machine(ANNA), Machine(BERT)
    one.write(document.append(START, entry("First.", "1111111111")))
    one.meet(two)
    for each, name in ((one, "left"), (two, "right")):
        text, shown = each.text, each.base
        lamport = max(fact.lamport for fact in each.known.facts.values())
        last = max(
            (f for f in each.known.facts.values() if f.replica == each.name), key=lambda f: f.n, default=None
        )
        diff(FactWriter("global", each.name, each.known, last, lamport), shown, f"records/{name}.md", text)
    one.meet(two)
    [shown] = project(one.known).values()
    assert shown.path in ("records/left.md", "records/right.md")
    assert len(shown.values["aliases"]) == 1


def test_what_was_purged_is_shown_nowhere_nor_what_was_made_from_it() -> None:
    one, two = Machine(ANNA), Machine(BERT)
    text = document.append(
        document.append(START, entry("Stays.", "1111111111")), entry("Secret.", "2222222222")
    )
    one.write(text)
    one.meet(two)
    two.write(two.text.replace("Secret.", "Secret, edited."))
    [fact_id] = [f.id for f in one.known.facts.values() if f.kind == "put" and f.target == "2222222222"]
    last = max((f for f in one.known.facts.values()), key=lambda f: f.n)
    FactWriter("global", ANNA, one.known, last, last.lamport).write(
        "", "purge", value={"dots": [str(fact_id)]}
    )
    one.meet(two)
    assert "Secret" not in one.text
    assert one.text == two.text


@given(st.lists(st.integers(0, 100), min_size=1, max_size=40))
def test_there_is_always_room_between_two_places(places: list[int]) -> None:
    row = [""]
    for place in places:
        at = place % len(row)
        row.insert(at + 1, between(row[at], row[at + 1] if at + 1 < len(row) else None))
    assert row == sorted(set(row))
