"""Frontmatter: any text is read or refused, and an edit touches the lines of its keys and no other byte."""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tiers
from cases import every_case
from vademecum.errors import Malformed
from vademecum.text import frontmatter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 20261115

# --- blocks that people write -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lines of a block: those of one key, or (without a key) a comment or a blank line."""

    text: str
    key: str | None = None


VALUES = (
    "pytest",
    "plain words, and a comma",
    '"quoted: # not a comment"',
    "'single ''quoted'' text'",
    "41",
    "0.9",
    "true",
    "null",
    "~",
    "",
    "2026-04-16T10:30:00Z",
    "[testing, pytest]",
    "{by: process:main, at: 2026-05-02T08:00:00Z}",
    "!!str tagged",
    "&anchor anchored",
    "tab\tinside",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 🧠 e\u0301",
    '"\\u00e9 \\x41"',
    '"line\u2028separator"',
)
LONG_VALUES = (
    "\n  - one\n  - two # second",
    "\n- flush\n- left",
    "\n  nested:\n    deeper: [1, 2]\n  other: 🙂",
    "|\n  literal\n    text # no comment here\n\n  after a blank",
    "|-\n  literal",
    "|+\n  keeping\n",
    ">\n  folded\n  lines",
    "one\n  plain scalar\n  over lines",
    '"one\n  quoted scalar\n  over lines"',
    "[a,\n  b, # inside\n  c]",
    "{a: b,\n  c: {d: e}}",
    "# a comment before the value\n  - item",
)
BETWEEN = ("# a full-line comment\n", "\n", "  # indented comment\n", "#\ttab comment 🧷\n", "   \n")
KEYS = ("type", "id", "num", "key", "title", "tags", "created", "updated", "x-custom", "Überschrift", "ключ")


def block(rng: random.Random) -> list[Piece]:
    """The lines between the two `---`, as a person could have written them."""
    indent = " " * rng.choice((0, 0, 0, 2))
    newlines = rng.choice((("\n",), ("\r\n",), ("\n", "\r\n"), ("\n",)))
    pieces = []
    for key in rng.sample(KEYS, rng.randrange(len(KEYS))):
        pieces += [Piece(rng.choice(BETWEEN)) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
        if rng.random() < 0.25:
            value = rng.choice(LONG_VALUES)
            if indent and value.startswith("\n- "):
                continue
            comment = ""
        else:
            value = rng.choice(VALUES)
            comment = rng.choice(("", "", "  # why", " \t# note: 🙂", "   "))
        spelled = rng.choice((key, key, key, f'"{key}"'))
        gap = " " if value[:1] not in ("", "\n") else ""
        lines = f"{spelled}:{gap}{value}{comment}\n"
        pieces.append(
            Piece("".join(f"{indent}{line}\n" if line else "\n" for line in lines[:-1].split("\n")), key)
        )
    pieces += [Piece(rng.choice(BETWEEN)) for _ in range(rng.choice((0, 0, 1)))]
    return [Piece(_with_endings(rng, text, newlines), key) for text, key in _below_literals(pieces)]


def _below_literals(pieces: list[Piece]) -> Iterator[tuple[str, str | None]]:
    """Lines below a literal that would be part of it become comments that are not."""
    literal = ""
    for piece in pieces:
        if piece.key:
            literal = piece.text if re.search(r": [|>]", piece.text) else literal
            yield piece.text, piece.key
        elif literal and (piece.text.startswith(" ") or ("|+" in literal and not piece.text.strip())):
            yield "# left of it\n", None
        else:
            yield piece.text, None


def _with_endings(rng: random.Random, text: str, newlines: tuple[str, ...]) -> str:
    return "".join(line + rng.choice(newlines) for line in text.split("\n")[:-1])


def whole(rng: random.Random, pieces: list[Piece]) -> tuple[str, str, str]:
    """A text around a block: what stands before, between and behind."""
    bom = rng.choice(("", "", "\ufeff"))
    newline = rng.choice(("\n", "\r\n"))
    opening = f"{bom}---{rng.choice(('', '', ' '))}{newline}"
    closing = rng.choice(("---\n", "---\r\n", "...\n", "---"))
    body = "" if closing == "---" else rng.choice(("", "# Title\n\nText\n", "no newline", "\r\n\tx\r\n---\n"))
    return opening, "".join(piece.text for piece in pieces), closing + body


def edit_problems(rng: random.Random, editor: Callable[[str, dict[str, Any]], str]) -> list[str]:
    """Edit a few keys of one generated block; what else changed, and what did not read back."""
    pieces = block(rng)
    before, inner, after = whole(rng, pieces)
    source = before + inner + after
    old = dict(frontmatter.parse(source).values)
    wanted = rng.sample((*KEYS, "confidence"), rng.randrange(1, 4))
    values = (
        "2026-11-15T08:00:00Z",
        7,
        0.5,
        True,
        None,
        ["a", "b, c"],
        {"by": "me", "at": "x: y"},
        "🧠 # no",
    )
    changes = {key: rng.choice(values) for key in wanted}
    edited = editor(source, changes)
    problems = []
    if not _framed(edited, before, pieces, after, changes):
        problems.append(f"other bytes changed: {source!r} -> {edited!r} by {changes}")
    new = dict(frontmatter.parse(edited).values)
    expected = {
        key: value for key, value in {**old, **changes}.items() if not (key in changes and value is None)
    }
    if new != expected:
        problems.append(f"read back {new} instead of {expected} from {edited!r}")
    for piece in pieces:
        comment = re.search(r"[ \t]+#[^\n\r]*(?=\r?\n\Z)", piece.text)
        kept = piece.key in changes and changes[piece.key] is not None and piece.text.count("\n") == 1
        if kept and comment and '"quoted' not in piece.text and comment[0] not in edited:
            problems.append(f"a comment behind a value is gone: {piece.text!r} -> {edited!r}")
    return problems


def _framed(edited: str, before: str, pieces: list[Piece], after: str, changes: dict[str, Any]) -> bool:
    """Whether everything but the changed keys stands where it stood."""
    if not edited.startswith(before):
        return False
    at = len(before)
    for piece in pieces:
        if piece.key in changes:
            if changes[piece.key] is not None:
                line = re.compile(rf" *{re.escape(piece.key)}: [^\n]*\n").match(edited, at)
                if line is None:
                    return False
                at = line.end()
        elif edited.startswith(piece.text, at):
            at += len(piece.text)
        else:
            return False
    known = {piece.key for piece in pieces}
    for key, value in changes.items():
        if key not in known and value is not None:
            line = re.compile(rf" *{re.escape(key)}: [^\n]*\n").match(edited, at)
            if line is None:
                return False
            at = line.end()
    return edited[at:] == after


@pytest.mark.scaled
def test_an_edit_leaves_every_other_byte_of_many_blocks_alone() -> None:
    rng = random.Random(SEED)
    problems = [
        problem for _ in range(tiers.few(1_500, 10_000)) for problem in edit_problems(rng, frontmatter.edit)
    ]
    assert problems == []


@pytest.mark.soak
def test_an_edit_leaves_every_other_byte_of_a_hundred_thousand_blocks_alone() -> None:
    rng = random.Random()
    problems = [problem for _ in range(100_000) for problem in edit_problems(rng, frontmatter.edit)]
    assert problems == []


@every_case(
    "spoil",
    [
        lambda text: text.replace("\r\n", "\n"),
        lambda text: text.removeprefix("\ufeff"),
        lambda text: text.replace("\t", " "),
        lambda text: re.sub(r"(?m)^# a full-line comment\r?\n", "", text),
    ],
    ids=["line endings", "byte-order mark", "tabs", "comments"],
)
def test_the_checker_sees_an_editor_that_normalises(spoil: Callable[[str], str]) -> None:
    rng = random.Random(SEED)
    problems = [
        problem
        for _ in range(300)
        for problem in edit_problems(rng, lambda text, changes: spoil(frontmatter.edit(text, changes)))
    ]
    assert problems


# --- values -------------------------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**17), max_value=10**17)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(values)
@settings(max_examples=600, deadline=None)
@example(1e-07)
@example(0.00012345678901234567)
@example(1.7976931348623157e308)
@example("2026-11-15")
@example("NO")
@example("12:30")
@example("\u2028 \x85 \x0b \x0c \x7f \ufeff \ufffe")
@example({"": [], "a b": {"": ""}, "yes": "no"})
@example("- a: b # c")
def test_a_value_reads_back_as_it_was_rendered(value: Any) -> None:
    text = frontmatter.edit("# body\n", {"key": value, "other": 1})
    read = frontmatter.parse(text).values
    assert read.get("key") == value
    assert type(read.get("key")) is type(value)
    assert "\n" not in frontmatter.render(value)
    assert read["other"] == 1


@given(st.text(), st.dictionaries(st.sampled_from(("type", "num", "tags", "x")), values, max_size=3))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example("", {"type": "project"})
@example("\ufeff", {"type": "project"})
@example("\r\n", {"type": "project"})
@example("- a list\n", {"type": "project"})
def test_a_text_without_frontmatter_gets_a_block_and_keeps_its_own_bytes(text: str, changes: Any) -> None:
    try:
        front = frontmatter.parse(text)
    except Malformed:
        return
    if front.lines:
        return
    edited = frontmatter.edit(text, changes)
    assert edited.endswith(text.removeprefix("\ufeff"))
    assert edited.startswith("\ufeff") == text.startswith("\ufeff")
    again = frontmatter.parse(edited)
    assert edited[again.body :] == text.removeprefix("\ufeff")
    assert again.values == {key: value for key, value in changes.items() if value is not None}


@every_case(
    ("text", "value"),
    [
        ("NO", "NO"),
        ("yes", "yes"),
        ("12:30", "12:30"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        ("007", "007"),
        ("2026-11-15", "2026-11-15"),
        ("0000-00-00", "0000-00-00"),
        ("1e5", "1e5"),
        (".inf", ".inf"),
        ("=", "="),
        ("true", True),
        ("null", None),
        ("-41", -41),
        ("0.90", 0.9),
        ('"41"', "41"),
        ("!!python/object:os.system x", "x"),
    ],
)
def test_a_plain_scalar_is_text_unless_it_is_plainly_something_else(text: str, value: object) -> None:
    read = frontmatter.parse(f"---\nkey: {text}\n---\n").values["key"]
    assert (read, type(read)) == (value, type(value))


# --- hostile text -------------------------------------------------------------------------------------------

BOMBS = {
    "aliases": "a: &a [x]\nb: *a",
    "a billion laughs": "a: &a [x,x]\n"
    + "\n".join(f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)},*{chr(97 + n)}]" for n in range(20)),
    "a merge of itself": "a: &a {<<: *a}",
    "five thousand open brackets": "a: " + "[" * 5_000,
    "five thousand nested brackets": "a: " + "[" * 5_000 + "]" * 5_000,
    "five thousand nested maps": "a: " + "{a: " * 5_000 + "}" * 5_000,
    "deep indentation": "\n".join(" " * n + "a:" for n in range(300)),
    "deep dashes": "a:\n  " + "- " * 5_000 + "x",
    "a complex key": "? [a, b]\n: c",
    "deep complex keys": "? " * 3_000 + "a",
    "a lone surrogate escape": 'a: "\\ud800"',
    "a pair of surrogate escapes": 'a: "\\ud83d\\ude00"',
    "an escape beyond Unicode": 'a: "\\UFFFFFFFF"',
    "a key twice": "a: 1\nb: 2\na: 3",
    "a quoted key twice": 'a: 1\n"a": 3',
    "a tab as indentation": "a:\n\tb: c",
    "a tab before the key": "\ta: b",
    "a list": "- a\n- b",
    "one word": "word",
    "a flow map": "{a: b}",
    "an open quote": 'a: "never closed',
    "an open bracket": "a: [b",
    "a directive": "%YAML 9.9\na: b",
    "a control character": "a: \x01",
    "an escape character": "a: \x1b[31m",
    "a delete character": "a: \x7f",
    "a second document": "a: b\n--- c\nd: e",
    "a document end in the middle": "a: b\n... # end\nd: e",
    "a second document behind a line separator": "a: b\u2028---\u2028c: d",
    "seventy kilobytes": "a: " + "x" * 70_000,
    "ten thousand keys": "\n".join(f"k{n}: v" for n in range(10_000)),
    "an unknown tag on a key": "!<tag:x,2000:y> ? a\n: b\nc",
    "colons": ":" * 3_000 + " a: b: c",
    "percent": "a: %b\n%c",
    "reserved": "a: @b",
    "backtick": "a: `b`",
}


@every_case("name", BOMBS)
def test_a_hostile_block_is_malformed_and_takes_no_forever(name: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(Malformed):
        frontmatter.parse(f"---\n{BOMBS[name]}\n---\n# Title\n")
    with pytest.raises(Malformed):
        frontmatter.edit(f"---\n{BOMBS[name]}\n---\n# Title\n", {"a": 1})
    assert time.perf_counter() - begun < 30  # what doubles with each alias takes for ever


HARMLESS = {
    "five thousand digits": ("a: " + "9" * 5_000, "9" * 5_000),
    "a date that is none": ("a: 0000-00-00", "0000-00-00"),
    "a date beyond the calendar": ("a: 2026-13-45", "2026-13-45"),
    "base sixty": ("a: 1:1:1:1:1:1:1:1", "1:1:1:1:1:1:1:1"),
    "an anchor without alias": ("a: &x y", "y"),
    "a python tag": ("a: !!python/object/apply:os.system [ls]", ["ls"]),
    "binary": ("a: !!binary gIGC", "gIGC"),
    "a large float": ("a: 1.0e999", float("inf")),
}


@every_case("name", HARMLESS)
def test_an_odd_value_is_only_text(name: str) -> None:
    block, value = HARMLESS[name]
    assert frontmatter.parse(f"---\n{block}\n---\n").values["a"] == value


def test_a_block_that_is_never_closed_is_malformed() -> None:
    for text in ("---\n", "---\ntype: x\n", "---\ntype: x\n----\n", "\ufeff---\r\na: b\r\n --- \r\n"):
        with pytest.raises(Malformed):
            frontmatter.parse(text)


MARKS = [
    *("---", "...", "\n", "\r\n", "\r", "\u2028", "\x85", ": ", ":", "- ", "? ", "|", ">", "|+", ">-2", "#"),
    *(
        " #",
        "&a ",
        "*a",
        "!!str ",
        "!",
        "%YAML 1.1",
        "[",
        "]",
        "{",
        "}",
        ",",
        '"',
        "'",
        "\\",
        "\\u",
        "\\ud800",
    ),
    *(
        " ",
        "  ",
        "\t",
        "a",
        "key",
        "type",
        "num",
        "1",
        "~",
        "<<",
        "=",
        "\ufeff",
        "🧠",
        "\x00",
        "\x07",
        "\ud800",
    ),
]
pieces_of_yaml = st.lists(
    st.sampled_from(MARKS) | st.text(max_size=4),
    max_size=40,
).map("".join)


def _read_or_refused(text: str) -> None:
    try:
        front = frontmatter.parse(text)
    except Malformed:
        with pytest.raises(Malformed):
            frontmatter.edit(text, {"type": "x"})
        return
    assert 0 <= front.body <= len(text)
    assert front.lines == text.count("\n", 0, front.body)
    edited = frontmatter.edit(text, {"type": "x", "zz": [1]})
    again = frontmatter.parse(edited)
    assert again.values == {**front.values, "type": "x", "zz": [1]}
    assert edited[again.body :] == text[front.body :]


@given(st.text(st.characters()) | st.text())
@settings(max_examples=300, deadline=1000)
def test_any_text_is_read_or_malformed(text: str) -> None:
    _read_or_refused(text)


@given(
    pieces_of_yaml,
    st.sampled_from(["---\n", "---\r\n", "\ufeff---\n"]),
    st.sampled_from(["\n---\n", "\r\n...\r\n"]),
)
@settings(max_examples=1500, deadline=1000, suppress_health_check=[HealthCheck.too_slow])
@example("  type: a\n  b: c", "---\n", "\n---\n")
@example("title: a\x85type: b\u2028tags: c\rnum: 1", "---\n", "\n---\n")
@example("type: a\n--- b\nc: d", "---\n", "\n---\n")
@example("a: \ud800", "---\n", "\n---\n")
@example("type: |\n  a\n \n", "---\n", "\n---\n")
@example("type:\n# c", "---\n", "\n---\n")
@example('!\n""', "---\n", "\n---\n")
@example("&a", "---\n", "\n---\n")
@example("a: b\n  \ttype: c", "---\n", "\n---\n")
def test_any_block_is_read_or_malformed_and_an_edit_of_it_reads_back(
    block: str, opening: str, closing: str
) -> None:
    _read_or_refused(f"{opening}{block}{closing}# Title\n")


@pytest.mark.soak
@given(
    pieces_of_yaml,
    st.sampled_from(["---\n", "---\r\n", "\ufeff---\n"]),
    st.sampled_from(["\n---\n", "\r\n...\r\n"]),
)
@settings(max_examples=60_000, deadline=1000, suppress_health_check=[HealthCheck.too_slow])
def test_many_more_blocks_are_read_or_malformed(block: str, opening: str, closing: str) -> None:
    _read_or_refused(f"{opening}{block}{closing}# Title\n")


# -------------------------------------------------------------------- read without a reader of YAML

_WORDS = (
    "a type null true No 12 -3 0.5 1. human:user 2026-11-15T10:03:33Z 2026-11-15 /a/b a:b a::b 1e5 +1 007 ~ _"
    " [ ] { } : - ' # @x a@b a.b. a- a: 752f064762a9 % & * ! | > ? ---"
)
_PIECES = [
    *_WORDS.split(),
    '"a, b"',
    '"x: y"',
    '""',
    '"',
    "x y",
    ", ",
    ": ",
    " ",
    "  ",
    "\t",
    "\n",
    "\\",
    "é",
]


_SHAPES = (
    "{0}",
    "[{0}, {1}]",
    "{{a: {0}, b: {1}}}",
    "[{{a: {0}}}, {{a: {1}, b: {2}}}]",
    "[]",
    "{0}{1}{2}",
)


def test_what_is_read_the_easy_way_is_what_yaml_would_read() -> None:
    chosen = random.Random(6)
    easy = 0
    for _ in range(20_000):
        lines = []
        for _ in range(chosen.randint(1, 3)):
            atoms = ["".join(chosen.choices(_PIECES, k=chosen.choice((1, 1, 1, 2)))) for _ in range(3)]
            shape = chosen.choice(_SHAPES)
            lines.append(f"{chosen.choice(('type', 'id', 'true', 'k-1'))}: {shape.format(*atoms)}")
        block = "\n".join(lines) + "\n"
        found = frontmatter._easily(block)
        if found is not None:
            easy += 1
            read = {key.value: (value, (key, last)) for key, value, last in frontmatter._items(block)}
            assert repr(found) == repr({key: value for key, (value, _) in read.items()})
            assert frontmatter._pairs(block) == {
                key: frontmatter._pair(block, of, value, last) for key, (value, (of, last)) in read.items()
            }
    assert easy > 1000


def test_a_record_as_we_write_it_needs_no_reader_of_yaml() -> None:
    values = {
        "type": "feedback",
        "id": "0198c9b2-6f4e-7c1a-9a52-3d1c5b7e9f10",
        "num": 41,
        "title": "Testing framework",
        "scope_id": "752f064762a9",
        "tags": ["testing", "pytest"],
        "created": "2026-04-16T10:30:00Z",
        "generated": {"by": "process:main", "at": "2026-05-02T08:00:00Z"},
        "confidence": 0.9,
        "protected": True,
        "confirmed": [{"by": "human:sam", "session": "", "at": "2026-05-02T08:00:00Z"}, {"by": "human:kim"}],
    }
    text = frontmatter.edit("", values)
    assert frontmatter._easily(text.removeprefix("---\n").removesuffix("---\n")) == values
