"""A prompt brings back the records that it is about, and a prompt about nothing brings none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cases import every_case
from vademecum.inject import prompt_match
from vademecum.inject.importance import Importance
from vademecum.inject.prompt_match import FoundText
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = {
    "flags": "Feature flags live in LaunchDarkly.",
    "redis": "Redis is used for caching only.",
    "deploys": "Deploys go out on Tuesdays.",
    "tests": "Tests run with `pytest -n 2`.",
    "mail": "Mails are sent by Postmark.",
    "account": "Fixed the mail worker: the retries were counted twice.",
}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    (tmp_path / "work").mkdir()
    found = connect(home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.AGENT, environ={})
    for key, text in RECORDS.items():
        found.store(text, key=key)
    return found


def test_words_with_their_stems_bring_the_record_and_words_of_requests_bring_none(memory: Memory) -> None:
    brought = {
        prompt: [
            item.key
            for section in memory.injection.remind(prompt, until=0.0).sections
            for item in section.items
        ]
        for prompt in (
            "put the new checkout behind a feature flag",
            "can I keep the shopping cart in redis?",
            "how do I run the tests here?",
            "when can I deploy?",
            *("go on", "yes", "fix the lint", "run it again", "commit", "rename the method", "", "?!"),
        )
    }
    assert [keys[:1] for keys in brought.values()] == [
        ["flags"],
        ["redis"],
        ["tests"],
        ["deploys"],
        *[[]] * 8,
    ]


EVIDENCE = [
    ("use launchdarkly for this", "Feature flags live in LaunchDarkly.", Importance.FACT, True),
    ("the caches are stale", "Redis is used for caching only.", Importance.RULE, True),
    ("make it new", "Make the new thing.", Importance.FACT, False),
    ("add one more", "Postmark sends the mails.", Importance.FACT, False),
    ("this is confusing, try another option", "Mei found the option confusing.", Importance.FACT, False),
    ("use a dict instead", "Say it to Mei instead of guessing.", Importance.FACT, False),
    ("look at the mail", "Fixed the mail worker.", Importance.REST, False),
    ("look at the launchdarkly outage", "The LaunchDarkly outage was short.", Importance.REST, True),
]


@every_case("prompt, text, importance, enough", EVIDENCE)
def test_a_record_is_about_a_prompt_by_the_words_that_say_what_it_is_about(
    prompt: str, text: str, importance: Importance, enough: bool
) -> None:
    found = FoundText("key", text, importance)
    value = prompt_match.evidence(prompt_match.weigh_words(prompt), found)
    assert (value >= prompt_match.ENOUGH) is enough, value


def test_only_records_near_the_best_come_and_no_more_than_four() -> None:
    assert prompt_match.choose([0.1, 0.9, 0.5, 0.44, 1.0]) == [4, 1, 2]
    assert prompt_match.choose([0.9] * 9) == [0, 1, 2, 3]
    assert prompt_match.choose([0.39]) == []
    assert prompt_match.choose([]) == []
