"""What counts as saying the same thing twice."""

from __future__ import annotations

import pytest

from vademecum.store.alike import likeness


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("We deploy with fly.io every friday at noon", "We deploy with fly.io every Friday at noon!"),
        ("Always use pytest for testing in this project", "always use pytest for testing in this project."),
        ("User prefers dark mode in the editor", "user prefers dark mode in the editor now"),
        ("The staging server is rebuilt every night", "The staging server is rebuild every night"),
        ("The nightly build runs at two in the morning", "The nightly build runs at three in the morning"),
        ("every night the staging server is rebuilt", "The staging server is rebuilt every night"),
    ],
)
def test_a_slip_another_order_or_another_word_is_the_same_statement(one: str, other: str) -> None:
    assert likeness(one, other, threshold=85) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ticket PROJ-101 is assigned to Ann", "Ticket PROJ-102 is assigned to Ann"),
        ("Do use tabs in Makefiles", "Do not use tabs in Makefiles"),
        ("Never push to main on weekends", "Now push to main on weekends"),
        ("The API listens on port 8080 in production", "The API listens on port 8081 in production"),
        ("Don't run the tests before a commit here", "Do run the tests before a commit here"),
        ("Something else altogether", "Nothing of that kind here"),
    ],
)
def test_another_number_or_a_negation_makes_another_statement(one: str, other: str) -> None:
    assert likeness(one, other, threshold=85) is None
