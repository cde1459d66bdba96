"""The model that reads: equal to ONNX Runtime with the same weights, and refused when damaged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import every_case
from vademecum.errors import EmbedderFailed
from vademecum.index.embed.local import SHIPPED, Tokens
from vademecum.index.embed.reader import DIMENSION, WEIGHTS, WINDOW, Reader

# Made by `python -m tools.pack_reader --reference`: texts, their tokens and what ONNX Runtime makes of them.
RECORDED = np.load(Path(__file__).parents[1] / "fixtures" / "reader.npz")
TEXTS = [str(text) for text in RECORDED["texts"]]
TOKENS = [json.loads(str(each)) for each in RECORDED["tokens"]]


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader()


def first_windows(reader: Reader) -> Any:
    """What the reader makes of the recorded tokens themselves."""
    return reader._read(TOKENS)


def test_vectors_are_those_of_onnx_runtime_with_the_same_weights(reader: Reader) -> None:
    assert np.abs(first_windows(reader) - RECORDED["int8"]).max() < 1e-5


def test_whole_numbers_of_eight_bits_cost_less_than_two_hundredths_of_a_cosine(reader: Reader) -> None:
    ours, original = first_windows(reader), RECORDED["fp32"]
    assert np.abs(ours @ ours.T - original @ original.T).max() < 2e-2
    assert (ours * original).sum(axis=1).min() > 0.99


@every_case(("text", "expected"), [*zip(TEXTS, TOKENS, strict=True)])
def test_texts_are_cut_into_the_pieces_that_bert_cuts_them_into(text: str, expected: list[int]) -> None:
    tokens = Tokens(SHIPPED / "vocab.txt")
    assert tokens.marked(tokens(text, WINDOW - 2)) == expected


def test_an_unknown_word_is_one_and_a_text_of_nothing_else_is_none() -> None:
    tokens = Tokens(SHIPPED / "vocab.txt")
    unknown = tokens("𐍈 car")
    assert len(unknown) == 2
    assert unknown[1:] == tokens("car")
    assert tokens("𐍈 𐍉") == []
    assert tokens("\u200b\u0007 \n") == []
    assert tokens("lone \ud800 half") == tokens("lone half")


def test_a_text_has_the_same_vector_alone_and_among_others(reader: Reader) -> None:
    together = reader.embed(TEXTS)
    alone = np.concatenate([reader.embed([text]) for text in TEXTS])
    assert np.abs(together - alone).max() < 1e-5


def test_a_long_text_is_read_to_its_end_in_windows(reader: Reader) -> None:
    long = "The kettle is on the stove. " * 60 + "The spare key lies under the third flower pot."
    (windows,) = reader.windows([long])
    assert len(windows) > 2
    asked = reader.embed(["Where is the spare key?"])[0]
    assert (windows @ asked).argmax() == len(windows) - 1
    assert np.allclose(np.linalg.norm(windows, axis=1), 1, atol=1e-5)


def test_what_says_the_same_in_other_words_is_nearer_than_what_shares_a_word(reader: Reader) -> None:
    asked, same, other = reader.embed(
        ["The physician treated her patient.", "A doctor helped the sick woman.", "Her patient cat got one."]
    )
    by_meaning, by_word = float(asked @ same), float(asked @ other)
    assert by_meaning > by_word


def test_nothing_is_loaded_before_the_first_text() -> None:
    reader = Reader()
    assert reader.dimension == DIMENSION
    assert reader.identity
    assert not reader.loaded
    assert reader.windows([""])[0].shape == (0, DIMENSION)
    assert not reader.loaded


def test_the_package_stays_below_forty_megabytes_and_the_weights_below_twenty_four() -> None:
    package = Path(sys.modules["vademecum"].__path__[0])
    files = [each for each in package.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    assert WEIGHTS.stat().st_size <= 24_000_000
    assert sum(each.stat().st_size for each in files) <= 40_000_000


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"",
        lambda content: b"\xff" * 64,
        lambda content: content[: len(content) // 2],
        lambda content: content[:-9000] + bytes([content[-9000] ^ 1]) + content[-8999:],
        lambda content: content.replace(b"all-MiniLM-L6-v2-int8", b"all-MiniLM-L9-v2-int8", 1),
        lambda content: content.replace(b'"0.looked"', b'"0.lacked"', 1),
    ],
    ids=["empty", "noise", "cut off", "one bit", "another model", "another name"],
)
def test_damaged_and_foreign_weights_are_refused_by_their_path(spoil: Any, tmp_path: Path) -> None:
    path = tmp_path / "reader.safetensors"
    path.write_bytes(spoil(WEIGHTS.read_bytes()))
    with pytest.raises(EmbedderFailed, match=str(tmp_path)):
        Reader(path).embed(["a text"])


def test_missing_weights_are_refused_when_they_are_needed(tmp_path: Path) -> None:
    missing = Reader(tmp_path / "gone.safetensors")
    with pytest.raises(EmbedderFailed, match="No such file"):
        missing.embed(["a text"])
