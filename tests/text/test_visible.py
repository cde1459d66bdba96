"""Text that says what it shows."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from cases import every_case
from vademecum.text import visible

# The property Default_Ignorable_Code_Point as Unicode lists it, range by range.
IGNORABLE = [
    *(0xAD, 0x34F, 0x61C, 0x3164, 0xFEFF, 0xFFA0),
    *(
        code
        for first, last in ((0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F))
        for code in range(first, last + 1)
    ),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),
    *range(0xFFF0, 0xFFF9),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
]


def test_every_ignorable_character_is_taken_out_wherever_it_stands() -> None:
    assert len(IGNORABLE) == 4174
    for code in IGNORABLE:
        char = chr(code)
        assert visible(f"{char}before") == "before"
        assert visible(f"with{char}in") == "within"
        assert visible(f"after{char}") == "after"


@every_case(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("one\r\ntwo\rthree\u2028four\x85five\x0bsix", "one\ntwo\nthree\nfour\nfive\nsix"),
        ("right\u202eto left", "rightto left"),
        ("half \ud800 and private \ue000", "half  and private "),
        ("tab\tstays\nand lines", "tab\tstays\nand lines"),
        ("Übergröße 価格 цена", "Übergröße 価格 цена"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_nothing_hidden_is_left_and_nothing_is_left_to_take_out(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert not any(
        (unicodedata.category(char) in ("Cc", "Cs", "Co") and char not in "\n\t") or ord(char) in IGNORABLE
        for char in shown
    )
