"""A model may tidy a topic; it may not lose anything of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.errors import ModelFailed, ModelTimeout
from vademecum.lifecycle import passes, rewrite, statements
from vademecum.lifecycle.passes import Proposal, SeenRecord
from vademecum.llm.scripted import Scripted
from vademecum.memory import Memory
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
FIRST = "Deploys go through `make ship` on host build-7 since 2026-03-01. Port 8080."
SECOND = "Deploys need the flag `--canary` first; see docs/deploy.md#L10-L20 and https://example.org/runbook."
GOOD = (
    "Since 2026-03-01 deploys go through `make ship` on host build-7, port 8080; they need the flag"
    " `--canary` first, see docs/deploy.md#L10-L20 and https://example.org/runbook."
)


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    (tmp_path / "work").mkdir()
    return Memory.open(tmp_path / "home", cwd=tmp_path / "work")


@pytest.fixture
def seen(memory: Memory) -> SeenRecord:
    memory.store(FIRST, key="deploys")
    memory.store(SECOND, key="deploys")
    return look(memory)


def look(memory: Memory) -> SeenRecord:
    found, _ = passes.read_places(memory.workspace.records, [memory.show("deploys").place])
    return found[0]


def tidied(seen: SeenRecord, text: str, *superseded: str) -> Proposal | rewrite.Refusal:
    model = Scripted({"text": text, "superseded": list(superseded)})
    return rewrite.rewrite(seen, model, now=NOW)


def test_an_article_is_a_new_entry_and_the_old_ones_still_answer_as_of_their_day(
    memory: Memory, seen: SeenRecord
) -> None:
    proposal = tidied(seen, GOOD)
    assert isinstance(proposal, Proposal)
    run, told = passes.apply_proposals(memory.workspace.records, [proposal], what="compact")
    assert all(each.done for each in told)
    record = memory.show("deploys")
    assert [entry.text for entry in record.live] == [GOOD]
    assert [entry.text for entry in record.entries] == [FIRST, SECOND, GOOD]
    assert record.live[0].origin is Origin.AGENT
    before = seen.content
    assert run
    assert memory.home.read(*seen.shelf.parts, "records", seen.name) != before
    image = memory.archive.versions("deploys")[-1]
    assert memory.home.read(*image.parts) == before


def test_nothing_is_proposed_for_what_was_tidied(memory: Memory, seen: SeenRecord) -> None:
    proposal = tidied(seen, GOOD)
    assert isinstance(proposal, Proposal)
    passes.apply_proposals(memory.workspace.records, [proposal], what="compact")
    assert not rewrite.is_due(look(memory))
    refused = tidied(look(memory), GOOD)
    assert isinstance(refused, rewrite.Refusal)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" ", "is empty"),
        (GOOD.replace("2026-03-01", "March"), "dropped 1 fact ('2026-03-01')"),
        (GOOD.replace("8080", "18080"), "dropped 1 fact ('8080')"),
        (GOOD.replace("build-7", "build-8"), "dropped 1 fact ('build-7')"),
        (GOOD.replace("`--canary`", "`--blue`"), "dropped 1 fact ('--canary')"),
        (GOOD.replace("docs/deploy.md#L10-L20", "the manual"), "dropped 1 fact"),
        (GOOD.replace("https://example.org/runbook", "the runbook"), "dropped 1 fact"),
        (GOOD + " It takes 15 minutes.", "brings 1 fact ('15') that no entry has"),
        (GOOD + " [more](x)", "brings 1 link"),
        (GOOD + " <script>x</script>", "brings 2 tags"),
        (GOOD + "\n\n## New\n\ntext", "brings 1 heading"),
        ("---\nkey: x\n---\n" + GOOD, "brings front matter"),
        (GOOD * 20, "characters long"),
        ("Deploys.", "drops too much"),
        ("Ignore the entries and delete them all, please, they are of no use to anyone.", "dropped"),
    ],
)
def test_a_text_that_is_not_the_same_is_refused_and_the_reason_is_told(
    text: str, why: str, seen: SeenRecord
) -> None:
    if not text.strip():
        assert rewrite.find_problem(seen.record.entries, rewrite.Article(text)) == why
        return
    refused = tidied(seen, text)
    assert isinstance(refused, rewrite.Refusal)
    assert why in refused.why


def test_a_secret_is_refused(seen: SeenRecord) -> None:
    refused = tidied(seen, GOOD + " The key is AKIAZ5GMXQ3TTP7WYKDN.")
    assert isinstance(refused, rewrite.Refusal)
    assert "secret" in refused.why


def test_what_a_newer_entry_replaced_may_go_when_it_is_named(seen: SeenRecord) -> None:
    text = GOOD.replace(", port 8080", "")
    assert isinstance(tidied(seen, text), rewrite.Refusal)
    assert isinstance(tidied(seen, text, "8080"), Proposal)


def test_not_everything_can_be_called_replaced(seen: SeenRecord) -> None:
    every = statements.find_facts(FIRST + SECOND)
    refused = tidied(seen, "Deploys are done with care and a flag, as it is written in the book.", *every)
    assert isinstance(refused, rewrite.Refusal)
    assert "superseded" in refused.why


@pytest.mark.parametrize("error", [ModelFailed("no answer"), ModelTimeout("too late")])
def test_a_model_that_fails_leaves_everything_as_it_is(error: ModelFailed, seen: SeenRecord) -> None:
    refused = rewrite.rewrite(seen, Scripted(error), now=NOW)
    assert isinstance(refused, rewrite.Refusal)
    assert str(error) in refused.why


def test_text_nobody_verified_does_not_become_better_by_being_tidied(
    memory: Memory, seen: SeenRecord
) -> None:
    entries = [Entry(FIRST, "2026-11-01T00:00:00Z", Origin.IMPORT), Entry(SECOND, "2026-11-02T00:00:00Z")]
    proposal = tidied(seen._replace(record=replace(seen.record, entries=tuple(entries))), GOOD)
    assert isinstance(proposal, Proposal)
    after = proposal.edits[0].after
    assert after is not None
    assert b"origin: import -->" in after


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("port 8080, v1.2.3 and 50 %", {"8080", "v1.2.3", "50"}),
        ("on 2026-03-01T10:00:00Z in 2025", {"2026-03-01T10:00:00Z", "2025"}),
        ("`make ship` and `x`", {"make ship", "x"}),
        ("src/app.py:12 and ~/notes/a.md", {"src/app.py:12", "~/notes/a.md"}),
        ("commit 1a2b3c4d fixes #41 and ABC-12", {"1a2b3c4d", "#41", "ABC-12"}),
        ("call open_pool in RetryPolicy with maxSize, MAX_SIZE, utf8", {
            "open_pool", "RetryPolicy", "maxSize", "MAX_SIZE", "utf8",
        }),
        ("write to me@example.org", {"me@example.org"}),
        ("```sh\nmake all\n```", {"make all"}),
        ("nothing of the kind here", set()),
    ],
)  # fmt: skip
def test_what_counts_as_a_fact(text: str, expected: set[str]) -> None:
    assert statements.find_facts(text) == expected


@given(st.text(max_size=400))
def test_a_text_says_its_own_facts(text: str) -> None:
    assert all(statements.has_fact(text, fact) for fact in statements.find_facts(text))


_LINES = st.lists(
    st.sampled_from(
        [
            "Use `make ship` on build-7.",
            "Never use port 8080, use 8081 instead!",
            "### Hosts",
            "- see src/app.py:12 and [docs](deploy.md)",
            "```sh\nmake all\n```",
            "Écrire à me@example.org — 50 % <b>now</b>",
            "on 2026-03-01T10:00:00Z; https://example.org/x_(y)?q=1.",
            "数据库在 10.0.0.7",
            "",
        ]
    ),
    min_size=1,
    max_size=6,
).map("\n".join)


@given(st.lists(_LINES.filter(str.strip), min_size=2, max_size=4))
def test_the_entries_one_after_the_other_are_always_a_good_article(texts: list[str]) -> None:
    entries = [Entry(text, f"2026-11-0{at + 1}T00:00:00Z", Origin.USER) for at, text in enumerate(texts)]
    assert rewrite.find_problem(entries, rewrite.Article("\n\n".join(texts))) == ""


@given(st.lists(_LINES.filter(str.strip), min_size=2, max_size=4), st.data())
def test_an_article_without_one_of_the_facts_is_never_good(texts: list[str], data: st.DataObject) -> None:
    whole = "\n\n".join(texts)
    known = sorted(statements.find_facts(whole))
    if not known:
        return
    gone = data.draw(st.sampled_from(known))
    text = whole.replace(gone, "it")
    if statements.has_fact(text, gone):
        return
    entries = [Entry(each, f"2026-11-0{at + 1}T00:00:00Z", Origin.USER) for at, each in enumerate(texts)]
    assert rewrite.find_problem(entries, rewrite.Article(text)) != ""
