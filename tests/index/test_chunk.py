"""Chunks: every line is in one, ranges reproduce the text, nothing that fits is cut."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cases import every_case
from steps import count_steps
from vademecum.errors import Malformed
from vademecum.index.chunk import TextChunk, chunks, weight_of
from vademecum.text import document
from vademecum.types import Entry, Origin

KINDS = ("record", "journal", "pinned", "markdown")
SEED = 20261115
# About 20 tokens; ten of them are half a chunk.
SENTENCE = "The build server restarts every night at four and takes a backup of the day. "


def tokens_of(text: str) -> int:
    """About how many tokens a text has."""
    return (weight_of(text) + 3) // 4


def paragraph(words: str, *, lines: int = 1) -> str:
    return "\n".join(f"{words} {number}: {SENTENCE}" for number in range(lines))


def shown(text: str, *, kind: str = "markdown", tokens: int = 400, overlap: int = 80) -> list[TextChunk]:
    return [each for each in chunks(text, kind=kind, tokens=tokens, overlap=overlap) if not each.hidden]


# --- records and journals -----------------------------------------------------------------------------------

RECORD = """\
---
type: feedback
key: testing-framework
---
# testing-framework

## 2026-04-16T10:30:00Z
Use unittest for new tests.
<!-- origin: agent | superseded: 2026-05-02T08:00:00Z -->

## 2026-05-02T08:00:00Z
Always use pytest.
\\## 2026-01-01
Do not use unittest.
<!-- origin: user -->
"""


@pytest.mark.parametrize("kind", ["record", "journal"])
def test_each_entry_is_a_chunk_with_its_text_as_it_was_given(kind: str) -> None:
    front, first, second = chunks(RECORD, kind=kind)
    assert front == TextChunk(1, 4, "---\ntype: feedback\nkey: testing-framework\n---", hidden=True)
    assert first == TextChunk(
        5,
        10,
        "Use unittest for new tests.",
        "testing-framework",
        0,
        "2026-04-16T10:30:00Z",
        Origin.AGENT,
        "2026-05-02T08:00:00Z",
    )
    assert second == TextChunk(
        11,
        15,
        "Always use pytest.\n## 2026-01-01\nDo not use unittest.",
        "testing-framework",
        1,
        "2026-05-02T08:00:00Z",
        Origin.USER,
        None,
    )


def test_a_title_without_entries_is_shown() -> None:
    assert chunks("# 2026-11-15\n\n", kind="journal") == [TextChunk(1, 2, "# 2026-11-15\n", "2026-11-15")]


def test_text_before_the_first_dated_heading_is_an_undated_entry() -> None:
    first, second = chunks("# k\nloose words\n\n## 2026-11-15\ndated words\n", kind="record")
    assert (first.text, first.entry, first.time, first.start, first.end) == ("loose words", 0, None, 1, 3)
    assert (second.text, second.entry, second.time, second.start, second.end) == (
        "dated words",
        1,
        "2026-11-15",
        4,
        5,
    )


def test_a_long_entry_is_split_and_every_piece_keeps_its_date_and_origin() -> None:
    body = "\n\n".join(paragraph(f"part {number}", lines=3) for number in range(20))
    text = f"# k\n\n## 2026-11-15\nshort\n\n## 2026-11-16\n{body}\n<!-- origin: tool -->\n"
    first, *rest = chunks(text, kind="record")
    assert first.text == "short"
    assert len(rest) > 4
    assert {(each.entry, each.time, each.origin) for each in rest} == {(1, "2026-11-16", Origin.TOOL)}
    assert rest[0] == replace(rest[0], start=6, end=6, text="## 2026-11-16", hidden=True)
    assert rest[-1].text == "<!-- origin: tool -->"
    assert rest[-1].hidden
    assert all(each.heading == "k" for each in rest)
    assert not any("origin:" in each.text or "## 2026" in each.text for each in rest if not each.hidden)


def test_headings_inside_a_split_entry_join_its_heading_path() -> None:
    body = "\n".join(f"### Part {number}\n{paragraph('x', lines=18)}" for number in range(3))
    pieces = shown(f"# k\n\n## 2026-11-16\n{body}\n", kind="record")
    assert [each.heading for each in pieces] == ["k › Part 0", "k › Part 1", "k › Part 2"]


def test_a_record_of_one_long_line_hides_the_lines_that_only_frame_it() -> None:
    line = SENTENCE * 60
    pieces = shown(f"# k\n\n## 2026-11-16\n{line}\n<!-- origin: user -->\n", kind="record")
    assert "".join(each.text for each in pieces) == line
    assert {(each.start, each.end) for each in pieces} == {(4, 4)}


def test_an_entry_without_text_is_hidden() -> None:
    assert [each.hidden for each in chunks("## 2026-11-15\n\n## 2026-11-16\nx\n", kind="record")] == [
        True,
        False,
    ]


# --- pinned documents ---------------------------------------------------------------------------------------


def test_each_section_of_a_pinned_document_is_a_chunk_with_its_origin() -> None:
    text = """\
---
version: 1
---
# Memory

## People
- Ann likes tea.
- Bob does not.

## Tools
- `uv` everywhere
<!-- origin: agent -->
"""
    front, people, tools = chunks(text, kind="pinned")
    assert front.hidden
    assert people == TextChunk(
        4, 9, "# Memory\n\n## People\n- Ann likes tea.\n- Bob does not.", "Memory › People"
    )
    assert tools == TextChunk(10, 12, "## Tools\n- `uv` everywhere", "Memory › Tools", origin=Origin.AGENT)


def test_a_list_of_a_pinned_document_stays_together_while_it_fits() -> None:
    one = "\n".join(f"- one {number} {SENTENCE}" for number in range(14))
    two = "\n".join(f"- two {number} {SENTENCE}" for number in range(14))
    pieces = shown(f"## Habits\n\n{one}\n\nBut also:\n\n{two}\n", kind="pinned", overlap=0)
    assert [("- one 0" in each.text, "- one 13" in each.text) for each in pieces] == [
        (True, True),
        (False, False),
    ]
    assert [("- two 0" in each.text, "- two 13" in each.text) for each in pieces] == [
        (False, False),
        (True, True),
    ]


def test_a_signature_inside_a_fence_lowers_the_trust_of_the_whole_section() -> None:
    text = "## A\n```\n# x\n<!-- origin: import -->\n# y\n```\n<!-- origin: user -->\n"
    assert [each.origin for each in chunks(text, kind="pinned")] == [Origin.IMPORT]


def test_pinned_sections_read_as_the_store_reads_them() -> None:
    text = "intro \n\n# A\nx  \n<!-- origin: agent -->\n\n## B\n\\<!-- origin: user -->\ny\n## C\nz\n"
    assert [(each.text, each.origin) for each in chunks(text, kind="pinned")] == [
        (each.text, each.origin) for each in document.blocks(text)
    ]


# --- Markdown -----------------------------------------------------------------------------------------------


def test_a_small_file_is_one_chunk() -> None:
    text = "# Title\n\nIntro.\n\n## One\n\n1\n\n## Two\n\n2\n"
    assert chunks(text, kind="markdown") == [TextChunk(1, 11, text[:-1], "Title")]


def test_small_sections_stay_together_but_never_across_a_first_level_heading() -> None:
    text = "# A\n\n## A1\nx\n\n## A2\nx\n\n# B\n\n## B1\nx\n"
    assert [(each.start, each.end, each.heading) for each in chunks(text, kind="markdown")] == [
        (1, 8, "A"),
        (9, 12, "B"),
    ]


def test_sections_of_another_parent_do_not_join() -> None:
    large = paragraph("x", lines=22)
    text = f"# T\n\n## A\n{large}\n\n### Deep\nd\n\n## B\nb\n\n### Below\nc\n"
    assert [each.heading for each in chunks(text, kind="markdown")] == ["T", "T › A", "T › A › Deep", "T › B"]


def test_hundreds_of_tiny_sections_are_few_chunks() -> None:
    text = "# Changes\n" + "".join(f"\n## v{number}\n\n- a fix\n" for number in range(400))
    assert len(chunks(text, kind="markdown")) < 8


def test_a_split_section_is_cut_between_paragraphs_and_each_piece_knows_its_heading() -> None:
    text = "# T\n\n## S\n\n" + "\n\n".join(paragraph(f"p{number}", lines=4) for number in range(12)) + "\n"
    pieces = [each for each in shown(text, overlap=0) if each.heading == "T › S"]
    assert len(pieces) > 2
    assert all(each.text.lstrip().startswith("## S") or " 0: " in each.text.split("\n")[0] for each in pieces)


def test_pieces_of_one_section_share_their_last_lines_and_sections_share_none() -> None:
    text = f"## A\n\n{paragraph('a', lines=60)}\n\n# B\n\n{paragraph('b', lines=60)}\n"
    pieces = chunks(text, kind="markdown")
    for one, other in pairwise(pieces):
        shared = range(other.start, one.end + 1)
        if one.heading != other.heading:
            assert not shared
        else:
            assert shared
            assert tokens_of("\n".join(text.split("\n")[line - 1] for line in shared)) <= 80


def test_blank_lines_between_two_pieces_do_not_make_the_second_begin_before_the_first() -> None:
    text = f"# T\n{paragraph('a', lines=3)}\nend\n" + "\n" * 90 + f"last {SENTENCE}\n"
    check(text, "markdown", chunks(text, kind="markdown", tokens=20, overlap=8), tokens=20, overlap=8)


def test_a_fence_is_told_again_whole_or_not_at_all() -> None:
    for size in (2, 36):
        code = "\n".join(["```", *["let it be"] * size, "```"])
        text = f"## A\n\n{paragraph('x', lines=14)}\n\n{code}\n\n{paragraph('y', lines=14)}\n"
        holding = [each.text for each in chunks(text, kind="markdown") if "let it be" in each.text]
        assert all(code in each for each in holding)
        assert len(holding) == (2 if size == 2 else 1)


def test_what_exceeds_the_size_by_a_quarter_stays_whole() -> None:
    line = "x" * 79
    assert len(chunks("\n".join([line] * 25), kind="markdown")) == 1  # 500 tokens
    assert len(chunks("\n".join([line] * 26), kind="markdown")) == 2


@pytest.mark.parametrize("marker", ["```", "~~~~", "  ```"])
def test_a_code_fence_that_fits_is_never_cut(marker: str) -> None:
    code = "\n".join(f"# comment {number}\n\nvalue = {number}" for number in range(40))
    prose = paragraph("x", lines=12)
    text = f"# T\n\n{prose}\n\n{marker}python\n{code}\n{marker}\n\n{prose}\n"
    holding = [each for each in chunks(text, kind="markdown") if "# comment" in each.text]
    assert len(holding) == 1
    assert code in holding[0].text
    assert holding[0].heading == "T"


def test_a_fence_inside_a_list_item_is_not_cut_either() -> None:
    code = "\n".join(f"    # step {number}" for number in range(60))
    text = f"- first\n\n    ```\n{code}\n    ```\n\n{'  more ' + SENTENCE * 20}\n- second {SENTENCE}\n"
    holding = [each for each in chunks(text, kind="markdown") if "# step" in each.text]
    assert len(holding) == 1
    assert code in holding[0].text


def test_a_fence_that_is_never_closed_ends_with_the_file() -> None:
    assert [
        each.heading for each in chunks("# A\n\n```\n# not a heading\n\n# nor this\n", kind="markdown")
    ] == ["A"]


def test_a_fence_too_large_is_cut_between_lines() -> None:
    text = "```\n" + "\n".join(f"line {number} {SENTENCE}" for number in range(80)) + "\n```\n"
    pieces = chunks(text, kind="markdown")
    assert len(pieces) > 3
    check(text, "markdown", pieces, tokens=400, overlap=80)


def test_list_items_are_not_cut_where_they_fit() -> None:
    items = [f"- item {number}\n  - below {SENTENCE}\n\n  {SENTENCE}" for number in range(40)]
    pieces = shown("\n".join(items) + "\n", overlap=0)
    assert len(pieces) > 3
    assert all(each.text.startswith("- item") for each in pieces)


def test_underlined_headings_count() -> None:
    text = "Title\n=====\n\nintro\n\nPart\n---\n\nx\n\nOther\n=====\n\ny\n"
    assert [each.heading for each in chunks(text, kind="markdown")] == ["Title", "Other"]


def test_closing_number_signs_and_white_space_are_not_part_of_a_heading() -> None:
    assert [each.heading for each in chunks("#  A \t B ##\nx\n# C#\ny\n", kind="markdown")] == ["A B", "C#"]


def test_a_heading_alone_above_a_split_section_is_hidden_and_told_by_its_pieces() -> None:
    head, *pieces = chunks(f"## Notes\n\n{SENTENCE * 100}\n", kind="markdown")
    assert (head.text, head.hidden) == ("## Notes\n", True)
    assert {each.heading for each in pieces} == {"Notes"}


# --- long lines ---------------------------------------------------------------------------------------------


def test_a_long_line_is_cut_after_sentences() -> None:
    pieces = chunks(SENTENCE * 100, kind="markdown")
    assert len(pieces) > 3
    assert all(each.text.endswith(". ") for each in pieces)
    assert "".join(each.text for each in pieces) == SENTENCE * 100


def test_a_long_line_without_sentences_is_cut_at_spaces() -> None:
    line = "alpha beta " * 1000
    assert all(each.text.endswith(" ") for each in chunks(line, kind="markdown"))


@pytest.mark.parametrize(
    "cluster",
    ["e\u0301\u0302", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "\ud83d\ude00", "각", "é", "❤️"],
    ids=["marks", "zwj", "skin", "flag", "surrogates", "jamo", "composed", "selector"],
)
@pytest.mark.parametrize("before", range(12))
def test_a_long_line_is_never_cut_inside_a_character(cluster: str, before: int) -> None:
    line = "x" * before + cluster * 3000
    pieces = [each.text for each in chunks(line, kind="markdown")]
    assert "".join(pieces) == line
    assert len(pieces) > 1
    for piece in pieces[1:]:
        assert piece.startswith(cluster)


def test_marks_without_end_are_cut_all_the_same() -> None:
    line = "a" + "\u0301" * 9000
    pieces = [each.text for each in chunks(line, kind="markdown")]
    assert "".join(pieces) == line
    assert max(map(tokens_of, pieces)) <= 500


# --- what files look like in the wild -----------------------------------------------------------------------


def test_carriage_returns_and_byte_order_marks_are_not_shown() -> None:
    assert chunks("\ufeff# A\r\n\r\ntext\r\n", kind="markdown") == [TextChunk(1, 3, "# A\n\ntext", "A")]
    assert [each.hidden for each in chunks("\ufeff---\r\na: b\r\n---\r\nx", kind="markdown")] == [True, False]


def test_only_a_line_feed_ends_a_line() -> None:
    text = "one\u2028two\x0bthree\x0cfour\x85five\rsix\nseven"
    assert chunks(text, kind="markdown") == [TextChunk(1, 2, text)]


@every_case("kind", KINDS)
def test_frontmatter_that_cannot_be_read_is_plain_text(kind: str) -> None:
    for text in ("---\nnever closed\n", "---\n{]\n---\nx\n", "---\na: &x 1\nb: *x\n---\nbody"):
        with pytest.raises(Malformed):
            document.parse(text)
        pieces = chunks(text, kind=kind)
        assert not any(each.hidden for each in pieces)
        check(text, kind, pieces, tokens=400, overlap=80)


@every_case("kind", KINDS)
def test_an_empty_file_has_no_chunks_and_blank_lines_are_hidden(kind: str) -> None:
    assert chunks("", kind=kind) == []
    assert chunks("\ufeff", kind=kind) == []
    blank = chunks("\n \n\t\n" * 9000, kind=kind)
    assert [(each.start, each.end, each.hidden) for each in blank] == [(1, 27000, True)]


@every_case("kind", KINDS)
def test_frontmatter_alone_is_one_hidden_chunk(kind: str) -> None:
    for text in ("---\na: b\n---", "---\na: b\n---\n"):
        assert [(each.start, each.end, each.hidden) for each in chunks(text, kind=kind)] == [(1, 3, True)]


# --- the estimate -------------------------------------------------------------------------------------------


def test_four_characters_make_a_token_and_so_does_each_cjk_character() -> None:
    assert tokens_of("") == 0
    assert tokens_of("word") == 1
    assert tokens_of("words") == 2
    assert tokens_of("déjà vu.") == 2
    assert tokens_of("記憶") == 2
    assert tokens_of("한국어 text") == 5
    assert tokens_of("ひらがな、カタカナ") == 9


# --- properties ---------------------------------------------------------------------------------------------


def check(text: str, kind: str, pieces: list[TextChunk], *, tokens: int, overlap: int) -> None:
    """What must hold of the chunks of any text; names the first thing that does not."""
    lines = text.removeprefix("\ufeff").split("\n")
    lines = [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
    covered = {line for each in pieces for line in range(each.start, each.end + 1)}
    assert covered == set(range(1, len(lines) + 1)), "some line is in no chunk"
    wholes = whole_texts(text, kind)
    long: dict[int, str] = {}
    for each in pieces:
        joined = "\n".join(lines[each.start - 1 : each.end])
        if not each.hidden:
            assert tokens_of(each.text) <= 1.3 * tokens, "a chunk is too large"
            assert each.text.strip(), "an empty chunk is shown"
        if each.text == joined or each.text in wholes.get(each.end, ()):
            continue
        assert each.start == each.end, f"lines {each.start} to {each.end} do not reproduce the text"
        long[each.start] = long.get(each.start, "") + each.text
    for line, parts in long.items():
        assert parts == lines[line - 1], f"the pieces of line {line} do not make it up"
    for one, other in pairwise(pieces):
        assert one.start <= other.start, "out of order"
        assert one.end <= other.end, "out of order"
        shared = lines[other.start - 1 : one.end]
        if one.start == one.end == other.start == other.end:
            continue
        assert not shared or tokens_of("\n".join(shared)) <= overlap, "more overlap than asked for"
        assert not shared or one.entry == other.entry, "two entries overlap"
        assert not shared or one.heading == other.heading, "two sections overlap"


def whole_texts(text: str, kind: str) -> dict[int, set[str]]:
    """What an entry or pinned section may show, by the line its chunk ends with."""
    count = text.removeprefix("\ufeff").count("\n") + (not text.endswith("\n"))
    try:
        entries = document.blocks(text) if kind == "pinned" else document.parse(text).entries
    except Malformed:
        return {}
    if kind == "markdown":
        return {}
    if kind == "pinned":
        return dict.fromkeys(range(1, count + 1), Anything(document.unescape(text.replace("\r\n", "\n"))))
    ends = [each.start - 1 for each in entries[1:]] + [count]
    return {end: {each.text} for end, each in zip(ends, entries, strict=True)} if entries else {}


class Anything(set[str]):
    """Any run of lines of a text: pinned sections are compared with the store's in a test of their own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def __contains__(self, part: object) -> bool:
        return isinstance(part, str) and part in self.text


WORDS = (
    "alpha",
    "beta,",
    "x",
    "記憶を探す。",
    "한국어",
    "👩‍👩‍👧‍👦",
    "e\u0301",
    "🇩🇪",
    "a\u2028b",
    "\x0c",
    "end. Next",
    "`code`",
)


def random_line(dice: random.Random) -> str:
    words = (dice.choice(WORDS) for _ in range(dice.choice((1, 3, 9, 20))))
    return dice.choice((" ", " ", "", ". ")).join(words)


def random_block(dice: random.Random, line: str, more: list[str]) -> list[str]:
    marker = dice.choice(("-", "*", "1.", "  -", "    -"))
    return dice.choice(
        [
            ["#" * dice.randrange(1, 8) + " " + line],
            [f"## 2026-11-{dice.randrange(10, 30)}", line],
            ["<!-- origin: tool -->"],
            ["\\<!-- origin: user -->"],
            [line, dice.choice(("===", "---"))],
            [line, *more, ""],
            [f"{marker} {each}" for each in more],
            ["```", *more, "# in code", *more, dice.choice(("```", "```", "~~~", ""))],
            ["- item", "  ~~~", *("  " + each for each in more), "  ~~~"],
            ["| a | b |", "| - | - |", *(f"| {each} | |" for each in more)],
            [""] * dice.randrange(40),
            [dice.choice(("x", " ", "漢", "word ", "A b. ", "e\u0301")) * dice.randrange(3000)],
            ["> " + each for each in more],
        ]
    )


def random_markdown(dice: random.Random) -> str:
    """A file as they are found: every construct, some broken, in any order."""
    out = []
    if dice.random() < 0.3:
        out += ["---", "key: value", dice.choice(("---", "...", "--- ", "{]"))]
    for _ in range(dice.randrange(25)):
        out += random_block(dice, random_line(dice), [random_line(dice) for _ in range(dice.randrange(6))])
    text = dice.choice(("\n", "\n", "\r\n")).join(out)
    return dice.choice(("", "", "\ufeff")) + text + dice.choice(("", "\n", "\n\n"))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**9), tokens=st.sampled_from((20, 50, 400)), overlap=st.sampled_from((0, 8, 80)))
def test_random_markdown_keeps_every_promise(kind: str, seed: int, tokens: int, overlap: int) -> None:
    text = random_markdown(random.Random(seed))
    pieces = chunks(text, kind=kind, tokens=tokens, overlap=overlap)
    check(text, kind, pieces, tokens=tokens, overlap=overlap)
    assert pieces == chunks(text, kind=kind, tokens=tokens, overlap=overlap)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None)
@given(
    text=st.text(
        st.one_of(st.sampled_from("\n\r#-`~ \t=.a1\u2028\u0301\u200d漢\ud800\udc00"), st.characters())
    )
)
@example(text="---\n---\n\n")
@example(text="\ufeff## 2026-01-01\n")
@example(text="# \n## \n#\n")
@example(text="\r")
def test_any_text_keeps_every_promise(kind: str, text: str) -> None:
    check(text, kind, chunks(text, kind=kind, tokens=20, overlap=5), tokens=20, overlap=5)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text("ab \n#-`漢\\<!", min_size=1, max_size=300), min_size=1, max_size=6))
def test_entries_that_fit_come_back_as_they_were_stored(texts: list[str]) -> None:
    kept = [tidied for each in texts if (tidied := document.tidy(each)).strip()]
    text = "# k\n\n"
    for number, each in enumerate(kept):
        text = document.append(text, Entry(each, f"2026-11-{number + 10}T00:00:00Z", Origin.AGENT))
    found = [each for each in chunks(text, kind="record") if each.entry is not None]
    assert [each.text for each in found] == kept
    assert [each.entry for each in found] == list(range(len(kept)))


@pytest.mark.parametrize("tokens", [-1, 0, 1, 16, 10**9])
@pytest.mark.parametrize("overlap", [-1, 0, 10**9])
def test_no_setting_makes_it_fail(tokens: int, overlap: int) -> None:
    text = random_markdown(random.Random(SEED)) * 3
    assert chunks(text, kind="markdown", tokens=tokens, overlap=overlap)


def test_a_chunker_that_drops_changes_or_repeats_something_is_caught() -> None:
    text = "# T\n\n" + "\n\n".join(paragraph(f"p{number}", lines=8) for number in range(9)) + "\n"
    good = chunks(text, kind="markdown", overlap=0)
    check(text, "markdown", good, tokens=400, overlap=0)
    first, second, *rest = good
    planted = [
        good[:-1],
        [replace(first, end=first.end - 1), second, *rest],
        [first, replace(second, text=second.text[:-1]), *rest],
        [first, replace(second, start=second.start - 9), *rest],
        [second, first, *rest],
        [TextChunk(1, text.count("\n"), text[:-1])],
    ]
    for pieces in planted:
        with pytest.raises(AssertionError):
            check(text, "markdown", pieces, tokens=400, overlap=0)


# --- time ---------------------------------------------------------------------------------------------------

LARGE = {
    "prose": "\n\n".join([f"## Head\n\n{SENTENCE * 5}\n\n- item\n- item\n\n```\ncode\n```"] * 2000),
    "one line": "x" * 1_000_000,
    "one line of sentences": SENTENCE * 13_000,
    "one line of CJK": "漢字" * 250_000,
    "an open fence": "```\n" + "some code\n" * 100_000,
    "entries": "## 2026-01-01T00:00:00Z\nsome text\n<!-- origin: user -->\n\n" * 15_000,
}


@pytest.mark.soak
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("kind", ["record", "pinned", "markdown"])
def test_four_times_the_text_takes_about_four_times_the_steps(kind: str, name: str) -> None:
    text = LARGE[name]
    quarter = count_steps(lambda: chunks(text[: len(text) // 4], kind=kind))
    assert count_steps(lambda: chunks(text, kind=kind)) < 5 * quarter + 100
