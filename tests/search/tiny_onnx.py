"""A real ONNX file, written by hand: a cross-encoder that adds up a weight for every piece of the text.

`python tests/search/tiny_onnx.py FOLDER` writes model.onnx and vocab.txt.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "heron",
    "pond",
    "frog",
    "owl",
    "night",
    "the",
    "stands",
    "in",
]
FLOAT, INT64 = 1, 7


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: int | bytes | str) -> bytes:
    """One field of a protocol buffer: a whole number, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def node(kind: str, inputs: list[str], output: str, **numbers: int) -> bytes:
    made = b"".join(field(1, each) for each in inputs) + field(2, output) + field(4, kind)
    for name, value in numbers.items():
        made += field(5, field(1, name) + field(3, value) + field(20, 2))
    return field(1, made)


def tensor(name: str, shape: list[int], kind: int, data: bytes) -> bytes:
    return field(
        5, b"".join(field(1, each) for each in shape) + field(2, kind) + field(8, name) + field(9, data)
    )


def value(number: int, name: str, kind: int, *axes: str) -> bytes:
    shape = b"".join(field(1, field(2, axis)) for axis in axes)
    return field(number, field(1, name) + field(2, field(1, field(1, kind) + field(2, shape))))


def model(weights: dict[str, float], *, wants: str = "attention_mask") -> bytes:
    """Each piece of the second text counts what it weighs."""
    numbers = [weights.get(word, 0.0) for word in VOCABULARY]
    graph = (
        node("Gather", ["weights", "input_ids"], "each")
        + node("Mul", ["token_type_ids", wants], "counted")
        + node("Cast", ["counted"], "share", to=FLOAT)
        + node("Unsqueeze", ["share", "last"], "column")
        + node("Mul", ["each", "column"], "weighed")
        + node("ReduceSum", ["weighed", "middle"], "logits", keepdims=0)
        + field(2, "tiny")
        + tensor("weights", [len(numbers), 1], FLOAT, struct.pack(f"<{len(numbers)}f", *numbers))
        + tensor("last", [1], INT64, struct.pack("<q", 2))
        + tensor("middle", [1], INT64, struct.pack("<q", 1))
        + b"".join(value(11, name, INT64, "n", "s") for name in ("input_ids", "token_type_ids", wants))
        + value(12, "logits", FLOAT, "n", "one")
    )
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def write(folder: Path, weights: dict[str, float], **given: str) -> Path:
    """The model and its vocabulary; the path of the model."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    path = folder / "model.onnx"
    path.write_bytes(model(weights, **given))
    return path


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), {"heron": 1.0}))
