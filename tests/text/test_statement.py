"""A text is split into statements without loss, and each knows where it stands and what it needs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import every_case
from vademecum.text import statement
from vademecum.text.statement import CODE, QUOTE, SENTENCE, TABLE

LINES = st.lists(
    st.sampled_from(
        [
            "One thing. Another thing.",
            "It runs nightly.",
            "- an item: with approx. five words",
            "  - below it",
            "1. first",
            "2. second, done.",
            "For this:",
            "| a | b |",
            "> quoted. Twice.",
            "<!-- aside -->",
            "```py",
            "```",
            "    indented code",
            "\ttab",
            "---",
            "",
            "ends without a mark",
            "Wie geht es? Gut. Über alles.",
            "[ ] open",
            "「はい。」そうです。",
        ]
    ),
    max_size=14,
).map("\n".join)


def texts(text: str) -> list[str]:
    return [each.text for each in statement.split(text)]


@given(LINES)
def test_every_word_stands_in_exactly_one_statement_in_its_order(text: str) -> None:
    found = statement.split(text)
    at = 0
    for each in found:
        assert text[each.start : each.end] == each.text
        between = text[at : each.start]
        assert re.fullmatch(r"(?:\s|[-*+](?=\s)|\d+[.)](?=\s)|\[ \](?=\s)|---)*", between), between
        at = each.end
    assert re.fullmatch(r"(?:\s|---|-)*", text[at:])


@given(LINES)
def test_each_statement_is_on_the_lines_that_it_names(text: str) -> None:
    lines = text.split("\n")
    for each in statement.split(text):
        assert each.text in "\n".join(lines[each.line - 1 : each.last])


def test_a_paragraph_is_its_sentences_and_a_list_its_items() -> None:
    text = "The API is old. Alice\nowns it, e.g. the docs.\n\n- Use tabs.\n- Run approx. five tests"
    assert texts(text) == [
        "The API is old.",
        "Alice\nowns it, e.g. the docs.",
        "Use tabs.",
        "Run approx. five tests",
    ]


def test_headings_are_no_statements_but_are_known_to_those_below() -> None:
    found = statement.split("# API\n\n## Ports\n\nThe port is 80.\n\n## Times\n\nIt takes 3 s.")
    assert [(each.headings, each.text) for each in found] == [
        (("API", "Ports"), "The port is 80."),
        (("API", "Times"), "It takes 3 s."),
    ]


def test_code_tables_and_quotations_are_one_statement_each() -> None:
    text = (
        "Run:\n\n```sh\nmake. Now.\n\nmake test\n```\n\n| a | b |\n| 1 | 2 |\n\n> Said. Twice.\n\n    x = 1"
    )
    assert [each.kind for each in statement.split(text)] == [SENTENCE, CODE, TABLE, QUOTE, CODE]


@every_case(
    ("text", "follows"),
    [
        ("The API is old. It is slow.", [False, True]),
        ("The API is old. The worker is slow.", [False, False]),
        ("Der Dienst ist alt. Dieser läuft nachts.", [False, True]),
        ("Stop it. Then start it.", [False, True]),
        ("There are two. There is one more.", [False, False]),
        ("To release:\n- tag\n- push", [False, True, True]),
        ("1. tag\n2. push", [False, True]),
        ("- tag\n- push", [False, False]),
        ("- tag\n  - with a name\n- push", [False, True, False]),
        ("Run:\n\n```\nmake\n```", [False, True]),
        ("Ports:\n- 80\n\nNo more.", [False, True, False]),
    ],
)
def test_what_says_nothing_without_the_one_before_it_is_marked(text: str, follows: list[bool]) -> None:
    assert [each.follows for each in statement.split(text)] == follows


@pytest.mark.full(but=1)
@pytest.mark.parametrize("piece", ["One thing. ", "one line\n", "- item\n", "Is it so? (No.) ", "a. "])
def test_a_text_of_a_mebibyte_is_split(piece: str) -> None:
    text = piece * (1_048_576 // len(piece))
    found = statement.split(text)
    assert sum(len("".join(each.text.split())) for each in found) == sum(
        len("".join(line.removeprefix("- ").split())) for line in text.split("\n")
    )


def test_a_mark_of_a_list_is_kept_beside_the_words() -> None:
    found = statement.split("- [x] done. And more.\n  2) nested")
    assert [(each.marker, each.text) for each in found] == [
        ("- [x] ", "done."),
        ("", "And more."),
        ("  2) ", "nested"),
    ]
