"""Hybrid search never loses what words alone find."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

# Words that notes are made of, by script; the rare ones are made up from its letters.
SCRIPTS = {
    "latin": (
        "the server keeps orders in a table and sends mail when payment fails on monday".split(),
        "abcdefghijklmnopqrstuvwxyz",
    ),
    "german": (
        "der Dienst schreibt Bestellungen in eine Tabelle und schickt Post wenn Zahlungen ausfallen".split(),
        "abdefghiklmnoprstuwzäöüß",
    ),
    "cyrillic": (
        "сервер хранит заказы в таблице и посылает письмо когда платёж не прошёл".split(),
        "абвгдежзиклмнопрстуфхцчшщыэюя",
    ),
    "greek": (
        "ο διακομιστής κρατά τις παραγγελίες σε πίνακα και στέλνει μήνυμα".split(),
        "αβγδεζηθικλμνξοπρστυφχψω",
    ),
    "han": (
        ["我们", "决定", "使用", "数据库", "保存", "订单", "因为", "团队", "规模", "扩大"],
        "龙龟麒麟凤凰鹤鹭鸳鸯",
    ),
    "kana": (["サーバ", "は", "注文", "を", "表", "に", "保存", "する", "メール"], "ぬめりゆよわんほへふひ"),
    "arabic": (
        "الخادم يحفظ الطلبات في جدول ويرسل بريدا عندما يفشل الدفع".split(),
        "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    ),
}


def stores(script: str, seed: int) -> tuple[list[str], list[tuple[str, int]]]:
    """Notes, and questions that one note each holds the rare word of."""
    chance = random.Random(f"{script} {seed}")
    usual, letters = SCRIPTS[script]
    joint = "" if script in ("han", "kana") else " "
    notes: list[str] = []
    questions: list[tuple[str, int]] = []
    for number in range(40):
        words = chance.choices(usual, k=chance.randint(4, 14))
        if number % 4 == 0:
            rare = "".join(chance.choices(letters, k=chance.randint(3, 9)))
            words.insert(chance.randrange(len(words)), rare)
            asked = [rare, *chance.choices(usual, k=chance.randint(0, 5))]
            chance.shuffle(asked)
            questions.append((joint.join(asked), number))
        notes.append(joint.join(words))
    return notes, questions


@pytest.mark.full(but=4)
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_first_by_words_through_a_rare_one_is_among_the_first_three_in_hybrid(
    tmp_path: Path, script: str, seed: int
) -> None:
    notes, questions = stores(script, seed)
    (tmp_path / "work").mkdir()
    environ = {"VADE_SWEEP": "off"}
    with connect(
        home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.USER, environ=environ
    ) as memory:
        for number, text in enumerate(notes):
            memory.store(text, key=f"n{number}")
        held = 0
        for question, number in questions:
            by_words = memory.search(question, mode="bm25").results
            if not by_words or by_words[0].key != f"n{number}":
                continue  # not first by words: nothing is promised
            held += 1
            hybrid = memory.search(question)
            assert f"n{number}" in [each.key for each in hybrid.results[:3]], (question, notes[number])
        assert held >= len(questions) // 2
