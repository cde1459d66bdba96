"""Kept vectors: the same as those made anew, sent once, and never in the way; over a real socket."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index import fake_providers
from index.fake_providers import DIMENSION, KEY, Provider, vector_of
from vademecum.errors import EmbedderChanged, EmbedderFailed
from vademecum.index.embed import remote as remote_module
from vademecum.index.embed.base import PROBES, Embedder, common_direction, unit
from vademecum.index.embed.local import ONNX_PART, Onnx
from vademecum.index.embed.select import REMOTE, Cached, pack, select_embedder, unpack
from vademecum.llm import net
from vademecum.store.home import Home
from vademecum.store.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vademecum.index.embed.base import Part, Vectors

KEY_ENV = "TEST_EMBED_KEY"
ROOM = 10**7


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)
    monkeypatch.setattr(net, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(remote_module, "PATIENCE", {True: 1, False: 1.5})


@pytest.fixture
def provider() -> Iterator[Provider]:
    with fake_providers.serving() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def agent(home: Home, provider: Provider, name: str = "openai", **options: Any) -> Embedder:
    """What one more process of the same home would use."""
    defaults: dict[str, Any] = {
        "endpoint": provider.endpoint(name),
        "key_env": KEY_ENV,
        "timeout": 2.0,
        "state": State(home),
        "largest": ROOM,
    }
    made = select_embedder(name, **(defaults | options))
    assert made is not None
    return made


def sent(provider: Provider) -> list[str]:
    """Every text the server was asked for, in the order of asking."""
    texts = []
    for seen in provider.seen:
        if "requests" in seen.body:
            texts += [each["content"]["parts"][0]["text"] for each in seen.body["requests"]]
        else:
            texts += seen.body["input"]
    return texts


def true(texts: list[str]) -> Vectors:
    return unit(np.array([vector_of(text) for text in texts], np.float32))


def names(start: int, end: int) -> list[str]:
    return [f"text {number}" for number in range(start, end)]


class Counting:
    """An embedder that notes what it was asked for."""

    provider, model, identity = "openai", "counting", "openai:counting:1"
    cached, mean, dimension = True, None, DIMENSION

    def __init__(self, *, batch: int = 3) -> None:
        self.asked: list[str] = []
        self.answer: Any = None
        self.batch = batch

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        raise AssertionError("parts are asked for")

    def forget_dimension(self) -> None: ...

    def parts(
        self, texts: Sequence[str], *, query: bool = False, dimension: int | None = None
    ) -> Iterator[Part]:
        self.asked += texts
        wanted = [place for place, text in enumerate(texts) if text.strip()]
        for start in range(0, len(wanted), self.batch):
            places = wanted[start : start + self.batch]
            rows = true([texts[place] for place in places])
            yield places, rows if self.answer is None else self.answer(rows)


# What is kept is what was made.


TEXTS = st.lists(
    st.sampled_from(["one", "two", " ", "", "three", "日本", "\ud800", "four " * 40]), max_size=12
)


@settings(max_examples=30, deadline=None)
@given(st.lists(TEXTS, max_size=6))
def test_the_cache_gives_what_the_embedder_gives_and_asks_for_nothing_twice(calls: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        asked: list[str] = []
        answers: dict[str, bytes] = {}
        for texts in calls:
            inner = Counting()
            state = State(Home(Path(scratch)))
            vectors = Cached(inner, state, ROOM).embed(texts)
            assert vectors.dtype == np.float32
            assert vectors.shape == (len(texts), DIMENSION)
            for text, row in zip(texts, vectors, strict=True):
                if text.strip():
                    assert np.allclose(row, true([text])[0], atol=5e-4)
                    assert abs(np.linalg.norm(row) - 1) < 1e-5
                    # Warm or cold, it is the same to the last bit.
                    assert answers.setdefault(text, row.tobytes()) == row.tobytes()
                else:
                    assert not row.any()
            asked += inner.asked
            state.close()
        assert sorted(asked) == sorted(answers)


def test_the_rounding_is_far_below_that_of_an_index(home: Home) -> None:
    chance = np.random.default_rng(7)
    for dimension in (256, 1536, 3072):
        rows = unit(chance.normal(size=(200, dimension)).astype(np.float32))
        kept = unit(rows.astype(np.float16).astype(np.float32))
        byte = unit(np.rint(rows * (127 / np.abs(rows).max(axis=1, keepdims=True))).astype(np.float32))
        exact = rows @ rows.T
        assert np.abs(kept @ kept.T - exact).max() < 2e-4
        assert np.abs(kept @ kept.T - exact).max() * 10 < np.abs(byte @ byte.T - exact).max()


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.integers(1, 40), st.integers(0, 10**6), st.data())
def test_a_damaged_vector_is_none(key: bytes, dimension: int, seed: int, data: st.DataObject) -> None:
    row = unit(np.random.default_rng(seed).normal(size=(1, dimension)).astype(np.float32))[0]
    blob = pack(key, row)
    found = unpack(key, blob)
    assert found is not None
    assert np.array_equal(found, row.astype(np.float16).astype(np.float32))
    at = data.draw(st.integers(0, len(blob) - 1))
    damaged = bytearray(blob)
    damaged[at] ^= data.draw(st.integers(1, 255))
    assert unpack(key, bytes(damaged)) is None
    assert unpack(bytes(32) if any(key) else b"\1" * 32, blob) is None
    assert unpack(key, blob[:-1]) is None
    assert unpack(key, b"") is None


# Over a socket.


@pytest.mark.parametrize("name", REMOTE)
def test_a_text_that_one_agent_embedded_is_not_sent_by_another(
    provider: Provider, home: Home, name: str
) -> None:
    texts = names(0, 20)
    first = agent(home, provider, name, batch=4).embed(texts)
    assert sorted(sent(provider)) == sorted(texts)
    provider.reset("401")
    second = agent(home, provider, name, batch=4)
    assert np.array_equal(second.embed(texts[::-1]), first[::-1])
    assert second.dimension == DIMENSION
    assert provider.seen == []
    provider.reset()
    assert np.allclose(second.embed([*texts, "new"]), true([*texts, "new"]), atol=5e-4)
    assert sent(provider) == ["new"]


def test_a_text_that_stands_there_many_times_is_sent_once(provider: Provider, home: Home) -> None:
    vectors = agent(home, provider).embed(["one", "two", "one", "", "one"])
    assert sent(provider) == ["one", "two"]
    assert np.allclose(vectors[[0, 2, 4]], true(["one"] * 3), atol=5e-4)


def test_another_model_or_endpoint_shares_nothing(provider: Provider, home: Home) -> None:
    agent(home, provider).embed(["one"])
    agent(home, provider, model="another").embed(["one"])
    agent(home, provider, endpoint=provider.endpoint("openai") + "/../v1").embed(["one"])
    assert sent(provider) == ["one"] * 3


def test_the_common_direction_is_asked_for_once(provider: Provider, home: Home) -> None:
    mean = common_direction(agent(home, provider))
    assert len(provider.seen) == 1
    assert np.allclose(mean, true(list(PROBES)).mean(axis=0), atol=5e-4)
    assert np.array_equal(common_direction(agent(home, provider)), mean)
    assert len(provider.seen) == 1


def test_a_question_goes_through_unchanged(provider: Provider, home: Home) -> None:
    embedder = agent(home, provider, "gemini")
    embedder.embed(["one"])
    for _ in range(2):
        assert np.array_equal(embedder.embed(["one"], query=True), true(["one"]))
    tasks = [seen.body["requests"][0]["taskType"] for seen in provider.seen]
    assert tasks == ["RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY", "RETRIEVAL_QUERY"]
    assert embedder.embed([" "], query=True).shape == (1, DIMENSION)


def test_what_came_before_a_failure_is_kept(provider: Provider, home: Home) -> None:
    texts = names(0, 20)
    provider.reset("ok", "ok", "ok", "401")
    with pytest.raises(EmbedderFailed, match="401"):
        agent(home, provider, batch=2).embed(texts)
    provider.reset()
    vectors = agent(home, provider, batch=2).embed(texts)
    assert np.allclose(vectors, true(texts), atol=5e-4)
    assert len(sent(provider)) == 14  # three answers of two texts were good


def test_a_failure_does_not_cost_those_that_are_under_way(provider: Provider) -> None:
    embedder = remote_module.make_remote(
        "openai", endpoint=provider.endpoint("openai"), key_env=KEY_ENV, batch=1
    )
    provider.reset("ok", "401", "slow", "slow", "slow", "ok")
    given: list[Part] = []
    with pytest.raises(EmbedderFailed, match="401"):
        given.extend(embedder.parts(names(0, 60)))
    assert len(given) == len(provider.seen) - 1 < 30
    for places, rows in given:
        assert np.allclose(rows, true([f"text {place}" for place in places]), atol=1e-6)


def test_a_cache_without_room_still_embeds(provider: Provider, home: Home) -> None:
    for _ in range(2):
        vectors = agent(home, provider, largest=0).embed(["one", "two"])
        assert np.allclose(vectors, true(["one", "two"]), atol=5e-4)
    assert sent(provider) == ["one", "two"] * 2


def test_models_that_are_cheap_are_not_kept(home: Home) -> None:
    made = select_embedder("local", state=State(home), largest=ROOM)
    assert made is select_embedder("local")
    assert not home.path.exists()


# Answers that would spoil what is kept.


@pytest.mark.parametrize("query", [False, True])
def test_another_dimension_than_what_is_kept_is_a_failure(
    provider: Provider, home: Home, query: bool
) -> None:
    agent(home, provider).embed(["one"])
    provider.reset("wrong-dimension")
    other = agent(home, provider)
    says = f"{DIMENSION + 1} dimensions instead of {DIMENSION}"
    with pytest.raises(EmbedderChanged, match=says) as caught:
        other.embed(["two"], query=query)
    assert caught.value.dimension == DIMENSION + 1
    assert "keyword search still works" in caught.value.hint
    provider.reset()
    # The wrong answer was not taken for the right one, neither here nor by the next.
    for embedder in (other, agent(home, provider)):
        assert np.allclose(embedder.embed(["one", "two"]), true(["one", "two"]), atol=5e-4)
    assert sent(provider) == ["two"]


def test_a_dimension_that_is_given_again_is_the_new_one_and_nothing_old_is_handed_out(
    provider: Provider, home: Home
) -> None:
    agent(home, provider).embed(["one", "two"])
    provider.reset("wrong-dimension")
    other, third = agent(home, provider), agent(home, provider)
    assert third.dimension == DIMENSION
    with pytest.raises(EmbedderChanged):
        other.embed(["three"])
    assert isinstance(other, Cached)
    assert other.renew(DIMENSION + 1)
    assert other.embed(["one", "three"]).shape == (2, DIMENSION + 1)
    asked = len(provider.seen)
    assert agent(home, provider).embed(["one", "three"]).shape == (2, DIMENSION + 1)  # kept, and whole
    assert len(provider.seen) == asked
    assert isinstance(third, Cached)  # another process that still believes in the old one
    with pytest.raises(EmbedderFailed):
        third.embed(["four"])
    assert third.renew(DIMENSION + 1)
    assert third.embed(["one", "three"]).shape == (2, DIMENSION + 1)


def test_a_dimension_that_was_given_once_by_mistake_changes_nothing(provider: Provider, home: Home) -> None:
    agent(home, provider).embed(["one"])
    provider.reset("wrong-dimension", "ok")
    other = agent(home, provider)
    with pytest.raises(EmbedderChanged):
        other.embed(["two"])
    assert isinstance(other, Cached)
    assert not other.renew(DIMENSION + 1)
    assert np.allclose(other.embed(["one", "two"]), true(["one", "two"]), atol=5e-4)
    assert "one" not in sent(provider)


@pytest.mark.parametrize(
    "fault", ["wrong-dimension", "ragged", "empty-rows", "nan", "infinite", "wrong-count"]
)
def test_nothing_of_a_wrong_answer_is_kept(provider: Provider, home: Home, fault: str) -> None:
    provider.reset("ok", fault)
    with pytest.raises(EmbedderFailed):
        agent(home, provider, batch=2).embed(names(0, 4))
    provider.reset()
    vectors = agent(home, provider, batch=2).embed(names(0, 4))
    assert np.allclose(vectors, true(names(0, 4)), atol=5e-4)
    assert sent(provider) == names(2, 4)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda rows: rows[:-1], "instead of 3 × 12"),
        (lambda rows: rows[:, :-1], "3 × 11 numbers instead of 3 × 12"),
        (lambda rows: rows * np.nan, "not a finite number"),
        (lambda rows: rows / 0.0, "not a finite number"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_no_embedder_is_believed(home: Home, answer: Any, says: str) -> None:
    inner, state = Counting(), State(home)
    embedder = Cached(inner, state, ROOM)
    embedder.embed(["one"])
    inner.answer = answer
    for query in (False, True):
        with pytest.raises(EmbedderFailed, match=says):
            embedder.embed(["two", "three", "four"], query=query)
    inner.answer = None
    inner.asked.clear()
    embedder.embed(["one", "two", "three", "four"])
    assert inner.asked == ["two", "three", "four"]


def test_zeros_for_a_text_are_not_kept(home: Home) -> None:
    inner = Counting()
    embedder = Cached(inner, State(home), ROOM)
    inner.answer = lambda rows: rows * 0
    assert not embedder.embed(["one"]).any()
    inner.answer = None
    assert embedder.embed(["one"]).any()
    assert inner.asked == ["one", "one"]


# When the database is not to be had.


def spoil(home: Home, how: str) -> None:
    path = home.path / "state.db"
    if how == "deleted":
        path.unlink()
    elif how == "damaged":
        path.write_bytes(b"\xff" * 10_000)
        (home.path / "state.db-wal").unlink()
    elif how == "newer":
        with contextlib.closing(apsw.Connection(str(path))) as other:
            other.execute("pragma user_version = 99")
    elif how == "a folder":
        path.unlink()
        path.mkdir()
    elif how == "a link":
        path.rename(home.path / "elsewhere.db")
        os.symlink(home.path / "elsewhere.db", path)
    elif how == "no home":
        home.path.rename(home.path.with_name("gone"))
        home.path.write_text("a file")


@pytest.mark.parametrize("how", ["deleted", "damaged", "newer", "a folder", "a link", "no home"])
@pytest.mark.parametrize("warm", [False, True])
def test_without_the_database_it_still_embeds(provider: Provider, home: Home, how: str, warm: bool) -> None:
    embedder = agent(home, provider)
    before = embedder.embed(["one", "two"])
    if not warm:
        embedder = agent(home, provider)
    spoil(home, how)
    for _ in range(2):
        assert np.array_equal(embedder.embed(["one", "two"]), before)
        assert np.array_equal(embedder.embed(["one"], query=True), true(["one"]))


def test_while_another_process_writes_it_still_embeds(
    provider: Provider, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vademecum.store.state.PATIENTLY", 0.05)
    agent(home, provider).embed(["one"])
    with contextlib.closing(apsw.Connection(str(home.path / "state.db"))) as other:
        other.execute("begin immediate")
        vectors = agent(home, provider).embed(["one", "two"])
        other.execute("rollback")
    assert np.allclose(vectors, true(["one", "two"]), atol=5e-4)
    assert sent(provider) == ["one", "two"]


# Models on this machine.


class FakeSession:
    """A transformer of three dimensions that counts its runs, and breaks when told to."""

    def __init__(self) -> None:
        self.runs = 0
        self.breaks_at = -1

    def get_inputs(self) -> list[Any]:
        return [type("Input", (), {"name": "input_ids"})]

    def get_outputs(self) -> list[Any]:
        return [type("Output", (), {"shape": [1, 3]})]

    def run(self, _: None, given: dict[str, Any]) -> list[Any]:
        self.runs += 1
        if self.runs == self.breaks_at:
            raise RuntimeError("out of memory")
        total = float(given["input_ids"].sum())
        return [np.array([[np.sin(total), np.cos(total), 1.0]])]


def transformer(folder: Path, session: FakeSession) -> Onnx:
    words = ["[UNK]", "[CLS]", "[SEP]", "text", *(str(number) for number in range(100))]
    (folder / "vocab.txt").write_text("\n".join(words))
    made = Onnx(
        folder / "model.onnx",
        provider="local",
        model="tiny",
        vocabulary=folder / "vocab.txt",
        longest=64,
        mark="mark",
    )
    vars(made)["_session"] = session
    return made


def test_a_transformer_runs_once_for_a_text_and_keeps_what_it_made_before_it_broke(
    home: Home, tmp_path: Path
) -> None:
    session = FakeSession()
    plain = transformer(tmp_path, session).embed([*names(0, 40), "unknown", ""])
    assert session.runs == 40
    session.runs, session.breaks_at = 0, ONNX_PART + 5
    with pytest.raises(EmbedderFailed, match="out of memory"):
        Cached(transformer(tmp_path, session), State(home), ROOM).embed(names(0, 40))
    session.runs, session.breaks_at = 0, -1
    kept = Cached(transformer(tmp_path, session), State(home), ROOM).embed([*names(0, 40), "unknown", ""])
    assert session.runs == 40 - ONNX_PART
    assert np.allclose(kept, plain, atol=1e-3)
    assert not kept[40:].any()


def test_a_warm_cache_does_not_load_the_model(home: Home, tmp_path: Path) -> None:
    first = Cached(transformer(tmp_path, FakeSession()), State(home), ROOM).embed(names(0, 5))
    unloaded = transformer(tmp_path, FakeSession())
    del vars(unloaded)["_session"]  # now it would be loaded from a file that is not there
    embedder = Cached(unloaded, State(home), ROOM)
    assert np.array_equal(embedder.embed(names(0, 5)), first)
    assert embedder.dimension == 3
