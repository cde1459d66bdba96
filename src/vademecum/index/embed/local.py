"""Embed in this process, without a network: by a table of token vectors, or by a transformer in ONNX Runtime.

With a table, a text is the sum of its rows. Taking text apart is the cost, so words are what is kept: a
word's sum of rows is made once. A few hundred texts hold nearly all the words of the next thousand.

In ONNX Runtime (a person's own model by its folder) texts go through one by one. A quantised
model takes its scales from all that it is given at once, so that in a batch a text's vector would depend on
its neighbours; a batch of eight would be half as fast again.
"""

from __future__ import annotations

import functools
import json
import re
import threading
import unicodedata
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vademecum.errors import EmbedderFailed
from vademecum.index.embed.base import gather, unit
from vademecum.stand_ins import LazyModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vademecum.index.embed.base import Part, Vector, Vectors

    Numbers: TypeAlias = NDArray[Any]
    Tokenize: TypeAlias = Callable[[str], list[int]]
else:
    np = LazyModule("numpy")

SHIPPED = Path(__file__).parent / "model"
# Raised whenever this file makes other vectors from the same table, so that indexes are made anew.
STATIC_REVISION = 1

# 64 MiB of rows at 256 dimensions; when they are full, the kept words are dropped and met again.
MAX_WORDS = 1 << 16
# A text of any length is summed in parts: one row per word would be a gigabyte for a million words.
STATIC_PART = 1 << 13
# BERT takes a longer word for unknown, and looking for its pieces takes the square of its length.
LONGEST_WORD = 100
PAIR_TOKENS = 256  # of a question, a quarter at most, and a text together

_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
# These scripts write no spaces, so each character is a word, as it was when the model was trained.
_MARKS = ("[CLS]", "[SEP]", "[UNK]")
_CJK = re.compile("([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f])")


# Words and pieces.


def words_of(text: str) -> list[str]:
    """Split a text into the words a BERT vocabulary was made from: lower case, no accents."""
    text = text.lower()
    if _NOT_ASCII.search(text):
        decomposed = unicodedata.normalize("NFD", text)
        text = "".join(each for each in decomposed if unicodedata.category(each) != "Mn")
        text = _CJK.sub(r" \1 ", text)
    return _WORD.findall(text)


def read_vocabulary(path: Path) -> dict[str, int]:
    """Read one token a line; the line's number is the token's."""
    tokens = path.read_text(encoding="utf-8").split("\n")
    return {token: number for number, token in enumerate(tokens) if token}


def pieces(word: str, vocabulary: dict[str, int]) -> list[int]:
    """Cut a word into the longest known pieces from the left; an unknown word has none."""
    whole = vocabulary.get(word)
    if whole is not None:
        return [whole]
    if len(word) > LONGEST_WORD:
        return []
    found, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        for end in range(len(word), start, -1):
            piece = vocabulary.get(mark + word[start:end])
            if piece is not None:
                found.append(piece)
                start = end
                break
        else:
            return []
    return found


class _Characters(dict[int, str]):
    """What BERT makes of each character, found when it is first met.

    Control and format characters are nothing, accents are left out, and a sign or a Chinese character is a
    word of its own. What is no word and no sign, as "€" or an emoji, stays in its word.
    """

    def __missing__(self, code: int) -> str:
        self[code] = made = self._made(chr(code))
        return made

    def _made(self, character: str) -> str:
        kind = unicodedata.category(character)
        if character in "\t\n\r" or kind[0] == "Z":
            return " "
        if kind[0] == "C" or character == "\ufffd":
            return ""
        parts = [
            each for each in unicodedata.normalize("NFD", character) if unicodedata.category(each) != "Mn"
        ]
        made = "".join(f" {each} " if _is_sign(each) else each.lower() for each in parts)
        return f" {made} " if _CJK.match(character) else made


def _is_sign(character: str) -> bool:
    ascii_sign = character.isascii() and not character.isalnum()
    return ascii_sign or unicodedata.category(character)[0] == "P"


_CHARACTERS = _Characters()


class Tokens:
    """Texts as a BERT model takes them in: the numbers of their pieces, with one for unknown words."""

    def __init__(self, path: Path) -> None:
        try:
            self._vocabulary = read_vocabulary(path)
            self._start, self._end, self._unknown = map(self._vocabulary.__getitem__, _MARKS)
        except (OSError, ValueError, KeyError) as error:
            raise unreadable(path.parent, error) from error
        self._known: dict[str, list[int]] = {}

    def __call__(self, text: str, most: int = 1 << 20) -> list[int]:
        """The pieces of a text, so many at most; none when it holds no known word."""
        tokens: list[int] = []
        for word in text.translate(_CHARACTERS).split():
            tokens += self._of(word)
            if len(tokens) >= most:
                break
        return tokens[:most] if any(token != self._unknown for token in tokens) else []

    def count(self, text: str) -> int:
        """How many pieces a text has."""
        return sum(len(self._of(word)) for word in text.translate(_CHARACTERS).split())

    def _of(self, word: str) -> list[int]:
        found = self._known.get(word)
        if found is None:
            if len(self._known) > MAX_WORDS:
                self._known.clear()
            found = self._known[word] = pieces(word, self._vocabulary) or [self._unknown]
        return found

    def marked(self, tokens: list[int]) -> list[int]:
        """Tokens between the two that mark a beginning and an end."""
        return [self._start, *tokens, self._end]


# Folders.


def read_config(folder: Path) -> dict[str, Any]:
    """Read a model's config.json."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise unreadable(folder, error) from error
    if not isinstance(config, dict):
        raise EmbedderFailed(f"{folder}: config.json is not an object")
    return config


def unreadable(folder: Path, error: Exception) -> EmbedderFailed:
    """Say which model cannot be read, and why, on one line."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return EmbedderFailed(
        f"{folder}: cannot be read as a model: {why.splitlines()[0][:200] if why else error}"
    )


def stamp(folder: Path, *names: str) -> str:
    """Tell one state of a person's model from the next by its place and its files' sizes and times."""
    # Hashing the content would read hundreds of megabytes each time a command starts.
    try:
        states = [(folder / name).stat() for name in names]
    except OSError as error:
        raise unreadable(folder, error) from error
    times = ",".join(f"{state.st_size}-{state.st_mtime_ns}" for state in states)
    return f"{folder.resolve()}@{times}"


# The model we ship, and others of its format.


class Static:
    """A model of our own format: `table.npy`, `scale.npy`, `mean.npy`, `vocab.txt`, `config.json`."""

    provider = "local"
    cached = False  # made faster than read from disk

    def __init__(self, folder: Path = SHIPPED) -> None:
        self._folder = folder
        config = read_config(folder)
        try:
            self.model = str(config["name"])
            self.dimension = int(config["dimension"])
            # Only ours vouches for its fingerprint: a person may change a table and not think of the rest.
            mark = (
                str(config["fingerprint"])[:16]
                if folder == SHIPPED
                else stamp(folder, "table.npy", "vocab.txt")
            )
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(folder, error) from error
        self.identity = f"local:{self.model}:{mark}:{self.dimension}:{STATIC_REVISION}"
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._rows: Vectors | None = None

    @cached_property
    def mean(self) -> Vector:
        """The expected text under Zipf's law, as the distillation found it."""
        return self._load("mean.npy").astype(np.float32)

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        try:
            return read_vocabulary(self._folder / "vocab.txt")
        except (OSError, ValueError) as error:
            raise unreadable(self._folder, error) from error

    @cached_property
    def _table(self) -> tuple[Numbers, Numbers]:
        # Mapped, not read: a short run touches the pages of the few words it meets.
        rows = np.asarray(self._load("table.npy", mapped=True))
        scale = self._load("scale.npy")
        tokens = 1 + max(self._vocabulary.values(), default=-1)
        if rows.shape != (len(scale), self.dimension) or len(scale) != tokens:
            raise EmbedderFailed(f"{self._folder}: table, scale and vocabulary belong to different models")
        return rows, scale

    def _load(self, name: str, *, mapped: bool = False) -> Numbers:
        try:
            numbers: Numbers = np.load(
                self._folder / name, mmap_mode="r" if mapped else None, allow_pickle=False
            )
        except (OSError, ValueError, EOFError) as error:  # the last for a file without a byte
            raise unreadable(self._folder, error) from error
        return numbers

    def knows(self, word: str) -> bool:
        """Whether a word has a row of its own."""
        return word in self._vocabulary

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Sum the rows of each text's words; a question is a text like any other."""
        _ = self._table  # a vocabulary that lost its words would not ask for a single row of it
        sums = np.zeros((len(texts), self.dimension), np.float32)
        for number, text in enumerate(texts):
            words = words_of(text)
            for start in range(0, len(words), STATIC_PART):
                # Held for one part, so that a question need not wait for the end of a long indexing run.
                with self._lock:
                    sums[number] += self._sum(words[start : start + STATIC_PART])
        return unit(sums)

    def _sum(self, words: list[str]) -> Vector:
        if self._rows is None or len(self._numbers) > MAX_WORDS:
            self._numbers, self._rows = {}, np.zeros((4096, self.dimension), np.float32)
        known = self._numbers.get
        numbers = []
        for word in words:
            number = known(word)
            numbers.append(self._meet(word) if number is None else number)
        # Indexing by a list would cost a third of the speed.
        total: Vector = self._rows.take(numbers, axis=0).sum(axis=0)
        return total

    def _meet(self, word: str) -> int:
        """Make a new word's row and give it a number."""
        assert self._rows is not None
        number = len(self._numbers)
        if number == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        tokens = pieces(word, self._vocabulary)
        if tokens:
            rows, scale = self._table
            self._rows[number] = scale[tokens] @ rows[tokens].astype(np.float32)
        self._numbers[word] = number
        return number


@functools.cache
def _shipped() -> Static:
    return Static()


def near_words(words: Mapping[str, str], *, least: float) -> list[tuple[str, str]]:
    """The pairs of names whose words the shipped table knows whole, and puts near each other.

    Words in pieces are near because of the piece that they share: build server, test server in German.
    """
    model = _shipped()
    names = [name for name, word in words.items() if model.knows(word)]
    vectors = model.embed([words[name] for name in names])
    ones, others = np.nonzero(np.triu(vectors @ vectors.T >= least, 1))
    return [(names[one], names[other]) for one, other in zip(ones.tolist(), others.tolist(), strict=True)]


# Models of the model2vec format.


class Model2Vec:
    """A person's own model as model2vec saves it: `model.safetensors`, `tokenizer.json`, `config.json`."""

    provider = "local"
    cached = False
    mean = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.model = folder.name
        self._tensors = read_safetensors(folder / "model.safetensors")
        rows = self._tensors.get("embeddings")
        if rows is None or rows.ndim != 2:
            raise EmbedderFailed(f"{folder}: model.safetensors holds no table named embeddings")
        self.dimension = int(rows.shape[1])
        mark = stamp(folder, "model.safetensors", "tokenizer.json")
        self.identity = f"local:{self.model}:{mark}:{self.dimension}:{STATIC_REVISION}"

    @cached_property
    def _tokenizer(self) -> Any:
        return read_tokenizer(self._folder)

    @cached_property
    def _unknown(self) -> int | None:
        model = json.loads(self._tokenizer.to_str())["model"]
        token = model.get("unk_token")
        number = model.get("unk_id") if token is None else self._tokenizer.token_to_id(token)
        return None if number is None else int(number)

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Sum the weighted rows of each text's tokens; unknown ones are left out."""
        sums = np.zeros((len(texts), self.dimension), np.float32)
        for number, text in enumerate(texts):
            # A lone surrogate is no text to the tokenizer's library.
            readable = text.encode("utf-8", "replace").decode("utf-8")
            tokens = [
                token
                for token in self._tokenizer.encode(readable, add_special_tokens=False).ids
                if token != self._unknown
            ]
            for start in range(0, len(tokens), STATIC_PART):
                sums[number] += self._sum(tokens[start : start + STATIC_PART])
        return unit(sums)

    def _sum(self, tokens: list[int]) -> Vector:
        weights, mapping = self._tensors.get("weights"), self._tensors.get("mapping")
        try:
            chosen = tokens if mapping is None else mapping[tokens]
            rows = self._tensors["embeddings"][chosen].astype(np.float32)
            total: Vector = rows.sum(0) if weights is None else weights[tokens].astype(np.float32) @ rows
        except IndexError as error:
            raise EmbedderFailed(f"{self._folder}: table and tokenizer belong to different models") from error
        return total


def read_tokenizer(folder: Path) -> Any:
    """Read a tokenizer.json with the tokenizers library, which only such models need."""
    library = LazyModule("tokenizers")
    try:
        tokenizer = library.Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
    except ImportError as error:
        raise EmbedderFailed(
            f"{folder}: a model with a tokenizer.json needs the tokenizers library",
            hint="run `pip install tokenizers`, or choose another embedder; keyword search still works",
        ) from error
    # The library raises plain Exception for a file it cannot read.
    except Exception as error:
        raise unreadable(folder, error) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


_KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I8": "i1"}


def read_safetensors(path: Path) -> dict[str, Numbers]:
    """Map the tensors of a safetensors file: a length, a JSON header, and raw numbers."""
    try:
        content = np.memmap(path, dtype=np.uint8, mode="r")
        body = 8 + int.from_bytes(content[:8].tobytes(), "little")
        header = json.loads(content[8:body].tobytes())
        return {
            name: _tensor(content[body:], about) for name, about in header.items() if name != "__metadata__"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(path.parent, error) from error


def _tensor(body: Numbers, about: dict[str, Any]) -> Numbers:
    start, end = about["data_offsets"]
    numbers = np.asarray(body[start:end]).view(_KINDS[about["dtype"]]).reshape(about["shape"])
    if about["dtype"] != "BF16":
        return numbers
    # The upper half of a float32, which numpy has no type for.
    return (numbers.astype(np.uint32) << 16).view(np.float32)


# A transformer in ONNX Runtime.

# Raised whenever this file makes other vectors with the same model.
ONNX_REVISION = 2
BERT_TOKENS = 512
ONNX_PART = 16  # texts after which others get their turn: a fifth of a second

_MISSING = "ONNX Runtime is not installed: pip install 'vademecum[rerank]'"
_HINT = "or choose another embedder; keyword search still works"


def own(folder: Path) -> Onnx:
    """Make a person's own model: a folder with model.onnx and vocab.txt or tokenizer.json."""
    from importlib.util import find_spec

    if find_spec("onnxruntime") is None:
        raise EmbedderFailed(f"{folder}: {_MISSING}", hint=_HINT)
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


def onnx_session(path: Path) -> Any:
    """A model's file, ready to be run."""
    runtime = LazyModule("onnxruntime")
    try:
        options = runtime.SessionOptions()
        # The arena keeps the largest text's memory for good: gigabytes after one long batch.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        return runtime.InferenceSession(str(path), sess_options=options, providers=["CPUExecutionProvider"])
    except ImportError as error:
        raise EmbedderFailed(_MISSING, hint=_HINT) from error
    # The library's own errors share no class but this.
    except Exception as error:
        raise unreadable(path.parent, error) from error


class PairScorer:
    """A cross-encoder: question and text go in together, one number for the pair comes out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._session = onnx_session(path)
        self._tokens = Tokens(path.with_name("vocab.txt"))

    def __call__(self, question: str, texts: Sequence[str], *, seconds: float) -> list[float]:
        """How well each text answers; given up after so many seconds."""
        runtime = LazyModule("onnxruntime")
        running = runtime.RunOptions()
        timer = threading.Timer(seconds, setattr, (running, "terminate", True))
        timer.start()
        try:
            made = np.asarray(self._session.run(None, self._inputs(question, texts), running)[0], np.float64)
        except KeyError as error:
            raise EmbedderFailed(f"{self._path}: wants an input {error} that is not text") from error
        except Exception as error:  # the library's own errors share no class but this
            if running.terminate:
                raise EmbedderFailed(f"{self._path}: took longer than {seconds:g} s") from error
            raise unreadable(self._path.parent, error) from error
        finally:
            timer.cancel()
        if made.shape[:1] != (len(texts),):
            raise EmbedderFailed(f"{self._path}: gave {made.shape} numbers for {len(texts)} texts")
        scores: list[float] = made.reshape(len(texts), -1)[:, -1].tolist()
        return scores

    def _inputs(self, question: str, texts: Sequence[str]) -> dict[str, NDArray[np.int64]]:
        """Pairs side by side, padded to the longest."""
        asked = self._tokens.marked(self._tokens(question, PAIR_TOKENS // 4))
        pairs = [self._tokens.marked(self._tokens(text, PAIR_TOKENS - len(asked) - 1))[1:] for text in texts]
        longest = len(asked) + max(map(len, pairs))
        ids = np.zeros((len(texts), longest), np.int64)
        mask, kinds = np.zeros_like(ids), np.zeros_like(ids)
        for row, pair in enumerate(pairs):
            end = len(asked) + len(pair)
            ids[row, :end] = [*asked, *pair]
            mask[row, :end] = 1
            kinds[row, len(asked) : end] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}
        return {each.name: given[each.name] for each in self._session.get_inputs()}


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
        self.identity = f"{provider}:{model}:{mark}:{longest}:{ONNX_REVISION}"

    @property
    def dimension(self) -> int | None:
        """The length of a vector, where the model's file says it."""
        width = self._session.get_outputs()[0].shape[-1]
        return width if isinstance(width, int) else None

    @cached_property
    def _session(self) -> Any:
        return onnx_session(self._path)

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
        for start in range(0, len(texts), ONNX_PART):
            rows: dict[int, Vector] = {}
            # One at a time uses all cores already; two threads would only take turns.
            with self._lock:
                for number, text in enumerate(texts[start : start + ONNX_PART], start):
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
            raise EmbedderFailed(f"{self._path}: returned a vector that is not a number")
        return vector


def _by_vocabulary(path: Path, longest: int) -> Tokenize:
    tokens = Tokens(path)

    def tokenize(text: str) -> list[int]:
        found = tokens(text, longest - 2)
        return tokens.marked(found) if found else []

    return tokenize


def _by_tokenizer(folder: Path, longest: int) -> Tokenize:
    tokenizer = read_tokenizer(folder)
    tokenizer.enable_truncation(longest)

    def tokenize(text: str) -> list[int]:
        readable = text.encode("utf-8", "replace").decode("utf-8")
        return list(tokenizer.encode(readable).ids) if readable.strip() else []

    return tokenize
