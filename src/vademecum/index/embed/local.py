"""Embed in this process, without a network: by a table of token vectors, or a transformer in ONNX Runtime.

With a table, a text's vector is the sum of its tokens' rows. Cutting texts into tokens takes most of the
time, so the sum of each word is cached. A few hundred texts contain nearly all words of the next thousand.

In ONNX Runtime (a person's own model, named by its folder) texts run one by one. A quantised model scales by
its whole input, so in a batch a text's vector would depend on its neighbours; a batch of eight would be half
as fast again.
"""

from __future__ import annotations

import functools
import json
import threading
import unicodedata
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vademecum.errors import EmbedderFailed
from vademecum.index.embed.base import gather, unit
from vademecum.lazy import LazyModule, lazy_pattern

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
# Raised whenever this file makes other vectors from the same table: then indexes are made anew.
STATIC_REVISION = 1

# 64 MiB of rows at 256 dimensions; a full cache of words is emptied.
MAX_WORDS = 1 << 16
# A text of any length is summed in parts: one row per word would be a gigabyte for a million words.
STATIC_PART = 1 << 13
# A longer word is unknown to BERT, and finding its pieces takes quadratic time.
LONGEST_WORD = 100
SHORTEST_PIECES = 2.0  # letters of a word's pieces, on average
PAIR_TOKENS = 256  # tokens of question and text together; the question has a quarter at most

_WORD = lazy_pattern(r"[^\W_]+|[^\w\s]|_")
_NOT_ASCII = lazy_pattern(r"[^\x00-\x7f]")
# These scripts write no spaces, so each character is a word, as it was when the model was trained.
_MARKS = ("[CLS]", "[SEP]", "[UNK]")
_CJK = lazy_pattern("([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f])")


# Words and pieces.


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case and without accents, as a BERT vocabulary contains them."""
    text = text.lower()
    if _NOT_ASCII.search(text):
        text = unicodedata.normalize("NFD", text).translate(_ACCENTS)
        text = _CJK.sub(r" \1 ", text)
    return _WORD.findall(text)


class _Accents(dict[int, int | None]):
    """A table that drops accents (`Mn`) and leaves all other characters; filled in as characters occur."""

    def __missing__(self, code: int) -> int | None:
        self[code] = kept = None if unicodedata.category(chr(code)) == "Mn" else code
        return kept


_ACCENTS = _Accents()


def read_vocabulary(path: Path) -> dict[str, int]:
    """Return the number of each token in a vocabulary file, which has one token a line, in order."""
    tokens = path.read_text(encoding="utf-8").split("\n")
    return {token: number for number, token in enumerate(tokens) if token}


def pieces(word: str, vocabulary: dict[str, int]) -> list[int]:
    """Split a word into the longest known pieces, from the left; return [] when a part of it is unknown."""
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
    """A table of how BERT treats each character, filled in as characters occur.

    Control and format characters are dropped, and accents are removed. A sign or a Chinese character is a
    word of its own. Another character that is neither letter nor sign, such as "€" or an emoji, stays in its
    word.
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
    """A tokenizer that turns a text into the numbers of its word pieces, as a BERT model reads them.

    Every unknown word gets the same number.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._vocabulary = read_vocabulary(path)
            self._start, self._end, self._unknown = map(self._vocabulary.__getitem__, _MARKS)
        except (OSError, ValueError, KeyError) as error:
            raise unreadable(path.parent, error) from error
        self._known: dict[str, list[int]] = {}

    def __call__(self, text: str, most: int = 1 << 20) -> list[int]:
        """Return the numbers of a text's first word pieces, at most `most`; [] when no word is known."""
        tokens: list[int] = []
        for word in text.translate(_CHARACTERS).split():
            tokens += self._of(word)
            if len(tokens) >= most:
                break
        return tokens[:most] if any(token != self._unknown for token in tokens) else []

    def count(self, text: str) -> int:
        """Return the number of word pieces in a text."""
        return sum(len(self._of(word)) for word in text.translate(_CHARACTERS).split())

    def _of(self, word: str) -> list[int]:
        found = self._known.get(word)
        if found is None:
            if len(self._known) > MAX_WORDS:
                self._known.clear()
            found = self._known[word] = pieces(word, self._vocabulary) or [self._unknown]
        return found

    def marked(self, tokens: list[int]) -> list[int]:
        """Return the tokens between the special tokens for the beginning and the end of a text."""
        return [self._start, *tokens, self._end]


# Folders.


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json in a model's folder; raise EmbedderFailed when it is no readable JSON object."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise unreadable(folder, error) from error
    if not isinstance(config, dict):
        raise EmbedderFailed(f"{folder}: config.json is not an object")
    return config


def unreadable(folder: Path, error: Exception) -> EmbedderFailed:
    """Return the error for a model that cannot be read, with the reason on one line."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return EmbedderFailed(
        f"{folder}: cannot be read as a model: {why.splitlines()[0][:200] if why else error}"
    )


def stamp(folder: Path, *names: str) -> str:
    """Return a text that changes when a person's model does: its folder, and its files' sizes and times."""
    # Hashing the content would read hundreds of megabytes at each start of a command.
    try:
        states = [(folder / name).stat() for name in names]
    except OSError as error:
        raise unreadable(folder, error) from error
    times = ",".join(f"{state.st_size}-{state.st_mtime_ns}" for state in states)
    return f"{folder.resolve()}@{times}"


# The model we ship, and others of its format.


class Static:
    """A static model in our own format: `table.npy`, `scale.npy`, `mean.npy`, `vocab.txt`, `config.json`."""

    provider = "local"
    cached = False  # making a vector is faster than reading it from disk

    def __init__(self, folder: Path = SHIPPED) -> None:
        self._folder = folder
        config = read_config(folder)
        try:
            self.model = str(config["name"])
            self.dimension = int(config["dimension"])
            # Only the shipped fingerprint is trusted: a person may change a table and nothing else.
            mark = (
                str(config["fingerprint"])[:16]
                if folder == SHIPPED
                else stamp(folder, "table.npy", "vocab.txt")
            )
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(folder, error) from error
        self.identity = f"local:{self.model}:{mark}:{self.dimension}:{STATIC_REVISION}"
        self._lock = threading.Lock()
        self._numbers = _Numbers(self._add_row)
        self._rows: Vectors | None = None

    @cached_property
    def mean(self) -> Vector:
        """The mean vector of texts whose words follow Zipf's law, computed when the model was distilled."""
        return self._load("mean.npy").astype(np.float32)

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        try:
            return read_vocabulary(self._folder / "vocab.txt")
        except (OSError, ValueError) as error:
            raise unreadable(self._folder, error) from error

    @cached_property
    def _table(self) -> tuple[Numbers, Numbers]:
        # Mapped, not read: a short run touches only the pages of its few words.
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
        except (OSError, ValueError, EOFError) as error:  # EOFError for an empty file
            raise unreadable(self._folder, error) from error
        return numbers

    def knows(self, word: str) -> bool:
        """Return whether a word as a whole has its own row in the table."""
        return word in self._vocabulary

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return the unit vector of each text: the sum of its words' rows. `query` makes no difference."""
        _ = self._table  # a damaged vocabulary would never read a row
        sums = np.zeros((len(texts), self.dimension), np.float32)
        for number, text in enumerate(texts):
            words = words_of(text)
            for start in range(0, len(words), STATIC_PART):
                # Held for one part only, so that a question need not wait for a long indexing run.
                with self._lock:
                    sums[number] += self._sum(words[start : start + STATIC_PART])
        return unit(sums)

    def _sum(self, words: list[str]) -> Vector:
        if self._rows is None or len(self._numbers) > MAX_WORDS:
            self._numbers.clear()
            self._rows = np.zeros((4096, self.dimension), np.float32)
        # A loop in Python over the words of a text would take as long as the rest.
        numbers = [*map(self._numbers.__getitem__, words)]
        # Indexing by a list would cost a third of the speed.
        total: Vector = self._rows.take(numbers, axis=0).sum(axis=0)
        return total

    def _add_row(self, word: str, number: int) -> None:
        """Compute the row of a word that occurs for the first time."""
        assert self._rows is not None
        if number == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        tokens = pieces(word, self._vocabulary)
        if tokens:
            rows, scale = self._table
            self._rows[number] = scale[tokens] @ rows[tokens].astype(np.float32)


class _Numbers(dict[str, int]):
    """The numbers of words in the order in which they first occur; `announce` is called for each new word."""

    def __init__(self, announce: Callable[[str, int], None]) -> None:
        super().__init__()
        self._announce = announce

    def __missing__(self, word: str) -> int:
        number = len(self)
        self._announce(word, number)
        self[word] = number
        return number


@functools.cache
def _shipped() -> Static:
    return Static()


def is_word(word: str) -> bool:
    """Return whether a word consists of pieces of words, and not mostly of single letters.

    The vocabulary of the shipped table cuts "hamster" into "ham" and "ster", and "zzqqxx" into letters.
    """
    parts = len(pieces(word, _shipped()._vocabulary))
    return parts > 0 and len(word) / parts >= SHORTEST_PIECES


def near_words(words: Mapping[str, str], *, least: float) -> list[tuple[str, str]]:
    """Return the pairs of names whose words have a similarity of at least `least` in the shipped table.

    Words that the table knows only in pieces are skipped: they are near each other whenever they share a
    piece, such as the German words for build server and test server.
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
        """Return the unit vector of each text: the weighted sum of its known tokens' rows."""
        sums = np.zeros((len(texts), self.dimension), np.float32)
        for number, text in enumerate(texts):
            # The tokenizer's library refuses a lone surrogate.
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
    """Read a tokenizer.json with the library `tokenizers`, which is only needed for such models."""
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
    """Map the tensors of a safetensors file into memory.

    The file has a length, a JSON header and raw numbers.
    """
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
    # bfloat16 is the upper half of a float32; numpy has no type for it.
    return (numbers.astype(np.uint32) << 16).view(np.float32)


# A transformer in ONNX Runtime.

# Raised whenever this file makes other vectors with the same model.
ONNX_REVISION = 2
BERT_TOKENS = 512
ONNX_PART = 16  # texts after which other threads get a turn: a fifth of a second

_MISSING = "ONNX Runtime is not installed: pip install 'vademecum[rerank]'"
_HINT = "or choose another embedder; keyword search still works"


def own(folder: Path) -> Onnx:
    """Return a person's own model from a folder with model.onnx and either vocab.txt or tokenizer.json."""
    from importlib.util import find_spec

    if find_spec("onnxruntime") is None:
        raise EmbedderFailed(f"{folder}: {_MISSING}", hint=_HINT)
    # A tokenizer comes first: a vocabulary says nothing of case and accents.
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
    """Load a model's file into ONNX Runtime."""
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
    # The library's errors have no common class but this one.
    except Exception as error:
        raise unreadable(path.parent, error) from error


class PairScorer:
    """A cross-encoder: a model that reads a question and a text together and returns one score."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._session = onnx_session(path)
        self._tokens = Tokens(path.with_name("vocab.txt"))

    def __call__(self, question: str, texts: Sequence[str], *, seconds: float) -> list[float]:
        """Return a score for how well each text answers a question; give up after this many seconds."""
        runtime = LazyModule("onnxruntime")
        running = runtime.RunOptions()
        timer = threading.Timer(seconds, setattr, (running, "terminate", True))
        timer.start()
        try:
            made = np.asarray(self._session.run(None, self._inputs(question, texts), running)[0], np.float64)
        except KeyError as error:
            raise EmbedderFailed(f"{self._path}: wants an input {error} that is not text") from error
        except Exception as error:  # the library's errors have no common class but this one
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
        """Return the model's inputs for the pairs of a question and each text, padded to the longest pair."""
        question_tokens = self._tokens.marked(self._tokens(question, PAIR_TOKENS // 4))
        pairs = [
            self._tokens.marked(self._tokens(text, PAIR_TOKENS - len(question_tokens) - 1))[1:]
            for text in texts
        ]
        longest = len(question_tokens) + max(map(len, pairs))
        ids = np.zeros((len(texts), longest), np.int64)
        mask, kinds = np.zeros_like(ids), np.zeros_like(ids)
        for row, pair in enumerate(pairs):
            end = len(question_tokens) + len(pair)
            ids[row, :end] = [*question_tokens, *pair]
            mask[row, :end] = 1
            kinds[row, len(question_tokens) : end] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}
        return {each.name: given[each.name] for each in self._session.get_inputs()}


class Onnx:
    """A transformer in ONNX Runtime; a text's vector is the mean of the model's last hidden states."""

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
        """The number of components of a vector, where the model's file states it; else None."""
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
        """Return the unit vector of each text, made by the model one by one. `query` makes no difference."""
        parts = list(self.parts(texts))
        width = parts[0][1].shape[1] if parts else self.dimension or 0
        return gather(parts, len(texts), dimension=width)

    def forget_dimension(self) -> None:
        """Do nothing, because the model's file states the dimension."""

    def parts(
        self, texts: Sequence[str], *, query: bool = False, dimension: int | None = None
    ) -> Iterator[Part]:
        """Yield the rows of `embed`, a few at a time; the argument `dimension` is ignored."""
        for start in range(0, len(texts), ONNX_PART):
            rows: dict[int, Vector] = {}
            # One text uses all cores already; two threads would only take turns.
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
