"""Read a text with a transformer: all-MiniLM-L6-v2 in 8-bit integers, in numpy.

Static vectors add up words and miss paraphrases; this model reads words in context. A text is read in
windows. Windows of one length are read together and none is padded, so that a window's vector does not depend
on others.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
import threading
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.errors import EmbedderFailed
from vademecum.index.embed.base import gather, unit
from vademecum.index.embed.local import SHIPPED, Tokens, read_safetensors
from vademecum.lazy import LazyModule
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vademecum.index.embed.base import Part, Vectors

    Floats = NDArray[np.float32]
else:
    np = LazyModule("numpy")

WEIGHTS = Path(__file__).with_name("reader.safetensors")
NAME = "all-MiniLM-L6-v2-int8"
CHECKSUM = "e5d9219c"  # of all weights, as `tools/pack_reader.py` prints it
# Raised whenever this file makes other vectors from the same weights.
REVISION = 1
DIMENSION = 384
WINDOW = 128  # tokens of a window, including the two that mark its ends
_PART = 64  # texts after which other threads get a turn
_BATCH = 768  # tokens that are read at once: more do not fit into a core's caches
_EARLY = 0.8  # the share of a part's length after which it may end with a sentence
_WORD = re.compile(r"\S+\s*|\s+")
_ROWS = 32  # rows whose activations are computed at once, for the same reason
_HINT = "reinstall vademecum; keywords and static vectors still work"
# Abramowitz and Stegun, 7.1.26: the error function to 1.5e-7, which numpy lacks.
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def _is_ended(text: str) -> bool:
    """Return whether a text ends with the end of a sentence or of a line."""
    body = text.rstrip()
    space = text[len(body) :]
    return "\n" in space or bool(space and body.endswith((".", "!", "?", "。")))


class _Layer(NamedTuple):
    """The weights of one layer of the transformer: attention, feed-forward, and their normalizations."""

    look: tuple[Floats, Floats]
    looked: tuple[Floats, Floats]
    first: tuple[Floats, Floats]
    think: tuple[Floats, Floats]
    thought: tuple[Floats, Floats]
    second: tuple[Floats, Floats]


class Transformer:
    """The weights of the transformer, and the computation of vectors with them."""

    def __init__(self, path: Path = WEIGHTS) -> None:
        self._tensors = read_safetensors(path)
        about = _about(path)
        _check(path, about, self._tensors)
        try:
            self._heads, self._epsilon = int(about["heads"]), np.float32(about["epsilon"])
            self._words = self._tensors["words"], self._tensors["words.scale"]
            self._places = self._wide("places") + self._tensors["kind"]
            self._start = self._tensors["start.weight"], self._tensors["start.bias"]
            self._layers = [self._layer(f"{number}.") for number in range(int(about["layers"]))]
        except (KeyError, ValueError, TypeError) as error:
            raise EmbedderFailed(
                f"{path}: contains another model than {NAME}: {error}", hint=_HINT
            ) from error

    def _wide(self, name: str) -> Floats:
        """Return a matrix of weights as floats; the file has integers, and one scale for each row."""
        wide: Floats = self._tensors[name].astype(np.float32) * self._tensors[f"{name}.scale"][:, None]
        return wide

    def _layer(self, at: str) -> _Layer:
        tensors = self._tensors

        def dense(*names: str) -> tuple[Floats, Floats]:
            # Contiguous, for a fast product; query, key and value read the same states and are one matrix.
            whole = np.concatenate([self._wide(f"{at}{name}") for name in names])
            return np.ascontiguousarray(whole.T), np.concatenate([tensors[f"{at}{n}.bias"] for n in names])

        def norm(name: str) -> tuple[Floats, Floats]:
            return tensors[f"{at}{name}.weight"], tensors[f"{at}{name}.bias"]

        return _Layer(
            dense("query", "key", "value"),
            dense("looked"),
            norm("first"),
            dense("think"),
            dense("thought"),
            norm("second"),
        )

    def read(self, tokens: NDArray[np.int64]) -> Floats:
        """Return one vector for each of some equally long windows: the mean of its tokens' last states."""
        batch, length = tokens.shape
        flat = tokens.reshape(-1)
        rows, scale = self._words
        states = rows[flat] * scale[flat, None]
        states = states.reshape(batch, length, -1) + self._places[:length]
        states = self._sized(states.reshape(batch * length, -1), self._start)
        for layer in self._layers:
            seen = self._attend(states @ layer.look[0] + layer.look[1], batch, length)
            states = self._sized(states + seen @ layer.looked[0] + layer.looked[1], layer.first)
            inner = _apply_gelu(states @ layer.think[0] + layer.think[1])
            states = self._sized(states + inner @ layer.thought[0] + layer.thought[1], layer.second)
        mean: Floats = states.reshape(batch, length, -1).mean(axis=1)
        return mean

    def _attend(self, projected: Floats, batch: int, length: int) -> Floats:
        """Compute attention, by which each token of a window is changed by all tokens of the window."""
        split = projected.reshape(batch, length, 3, self._heads, -1).transpose(2, 0, 3, 1, 4)
        query, key, value = split
        shares = query @ key.transpose(0, 1, 3, 2)
        shares *= np.float32(1 / math.sqrt(query.shape[-1]))
        shares -= shares.max(-1, keepdims=True)
        np.exp(shares, out=shares)
        shares /= shares.sum(-1, keepdims=True)
        seen: Floats = (shares @ value).transpose(0, 2, 1, 3).reshape(batch * length, -1)
        return seen

    def _sized(self, states: Floats, norm: tuple[Floats, Floats]) -> Floats:
        centred: Floats = states - states.mean(-1, keepdims=True)
        spread = np.sqrt(np.einsum("ij,ij->i", centred, centred) / states.shape[-1] + self._epsilon)
        centred /= spread[:, None]
        centred *= norm[0]
        centred += norm[1]
        return centred


def _check(path: Path, about: dict[str, str], tensors: dict[str, Floats]) -> None:
    """Refuse the weights of another model, and weights that differ from the shipped ones."""
    if about.get("name") != NAME or about.get("checksum") != CHECKSUM:
        raise EmbedderFailed(f"{path}: is not the shipped {NAME}", hint=_HINT)
    if checksum(tensors) != CHECKSUM:
        raise EmbedderFailed(f"{path}: its numbers are damaged", hint=_HINT)


def checksum(tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return a checksum of all tensors of weights, with their names."""
    found = 0
    for name in sorted(tensors):
        found = zlib.crc32(np.ascontiguousarray(tensors[name]).data, zlib.crc32(name.encode(), found))
    return f"{found:08x}"


def _apply_gelu(values: Floats) -> Floats:
    """Apply the function GELU to an array in place, a few rows at a time to keep them in the cache."""
    for start in range(0, len(values), _ROWS):
        part = values[start : start + _ROWS]
        scaled = part * np.float32(math.sqrt(0.5))
        size = np.abs(scaled)
        step = 1 / (size * np.float32(0.3275911) + 1)
        sum_ = step * np.float32(_ERF[0])
        for coefficient in _ERF[1:]:
            sum_ += np.float32(coefficient)
            sum_ *= step
        size *= size
        np.negative(size, out=size)
        np.exp(size, out=size)
        sum_ *= size
        np.subtract(1, sum_, out=sum_)
        np.copysign(sum_, scaled, out=sum_)
        sum_ += 1
        sum_ *= np.float32(0.5)
        part *= sum_
    return values


class Reader:
    """The shipped transformer as an embedder; its vectors are costly and therefore stored."""

    provider = "minilm"
    model = NAME
    dimension = DIMENSION
    cached = True
    mean = None

    def __init__(self, weights: Path = WEIGHTS) -> None:
        self._path = weights
        self._lock = threading.Lock()
        self.identity = f"minilm:{NAME}:{CHECKSUM}:{WINDOW}:{REVISION}"

    @functools.cached_property
    def _model(self) -> Transformer:
        return Transformer(self._path)

    @functools.cached_property
    def _tokens(self) -> Tokens:
        return Tokens(SHIPPED / "vocab.txt")

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory already; if not, the first text has to wait for them."""
        return "_model" in self.__dict__

    def windows(self, texts: Sequence[str]) -> list[Vectors]:
        """Return the vectors of each text's windows; none for a text without a known word."""
        cut = [self._cut(text) for text in texts]
        flat = [window for windows in cut for window in windows]
        made = self._read(flat)
        ends = np.cumsum([len(windows) for windows in cut])
        return [made[end - len(windows) : end] for windows, end in zip(cut, ends, strict=True)]

    def cut(self, text: str) -> list[str]:
        """Cut a text into equally long parts of at most one window, after a sentence where possible."""
        room, total = WINDOW - 2, self._tokens.count(text)
        if total <= room:
            return [text]
        enough = _EARLY * total / math.ceil(total / room)
        parts, length = [""], 0
        for word in _WORD.findall(text):
            size = self._tokens.count(word)
            if length + size > room or (length >= enough and _is_ended(parts[-1])):
                parts.append("")
                length = 0
            parts[-1] += word
            length += size
        return [each for each in parts if each.strip()]

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return the unit vector of each text: the mean over its windows. `query` makes no difference."""
        return gather(self.parts(texts), len(texts), dimension=DIMENSION)

    def parts(
        self, texts: Sequence[str], *, query: bool = False, dimension: int | None = None
    ) -> Iterator[Part]:
        """Yield the rows of `embed`, a few at a time; `dimension` is ignored, as the model has only one."""
        for start in range(0, len(texts), _PART):
            windows = self.windows(texts[start : start + _PART])
            rows = {start + at: each.mean(axis=0) for at, each in enumerate(windows) if len(each)}
            if rows:
                yield list(rows), unit(np.stack(list(rows.values())))

    def forget_dimension(self) -> None:
        """Do nothing, because the model's file states the dimension."""

    def _cut(self, text: str) -> list[list[int]]:
        tokens, room = self._tokens(text), WINDOW - 2
        if not tokens:
            return []
        size = math.ceil(len(tokens) / math.ceil(len(tokens) / room))
        return [self._tokens.marked(tokens[at : at + size]) for at in range(0, len(tokens), size)]

    def _read(self, windows: Sequence[list[int]]) -> Vectors:
        vectors = np.zeros((len(windows), DIMENSION), np.float32)
        places: dict[int, list[int]] = {}
        for place, window in enumerate(windows):
            places.setdefault(len(window), []).append(place)
        for length, alike in places.items():
            most = max(1, _BATCH // length)
            for start in range(0, len(alike), most):
                part = alike[start : start + most]
                # Held for one batch only, so that a question need not wait for a long run.
                with self._lock:
                    vectors[part] = self._model.read(np.array([windows[each] for each in part]))
        if not np.isfinite(vectors).all():
            raise EmbedderFailed(f"{self._path}: returned a vector that is not a number", hint=_HINT)
        return unit(vectors)


def _about(path: Path) -> dict[str, str]:
    """Return the header of a file of weights without reading the numbers; {} for any other file."""
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(length, os.fstat(file.fileno()).st_size)))
            return {str(name): str(value) for name, value in header["__metadata__"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
