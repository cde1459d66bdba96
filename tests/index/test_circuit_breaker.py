"""A provider that failed is left alone for a while, and no search waits for a slow one longer than it may."""

from __future__ import annotations

import time
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vademecum.errors import EmbedderFailed
from vademecum.index.embed import remote as remote_module
from vademecum.index.embed import select
from vademecum.index.embed.select import REST, CircuitBreaker
from vademecum.memory import Memory, connect
from vademecum.types import Origin

from . import fake_providers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vademecum.index.embed.base import Vectors

    from .fake_providers import Provider


class Moody:
    """An embedder that fails when told to, and counts how often it was asked."""

    provider, model, identity, dimension, cached, mean = "openai", "moody", "moody:1", 4, False, None

    def __init__(self) -> None:
        self.asked = 0
        self.trouble: str | None = None

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        self.asked += 1
        if self.trouble is not None:
            raise EmbedderFailed(self.trouble, hint="wait")
        return np.full((len(texts), 4), 0.5, np.float32)


class Clock:
    """A clock that goes when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(select, "time", types.SimpleNamespace(monotonic=made.monotonic))
    return made


def test_a_provider_that_failed_is_not_asked_for_a_while_and_then_is(clock: Clock) -> None:
    moody = Moody()
    rested = CircuitBreaker(moody)
    assert rested.embed(["heron"]).shape == (1, 4)
    moody.trouble = "503, it has an internal error"
    with pytest.raises(EmbedderFailed, match="503"):
        rested.embed(["heron"])
    assert moody.asked == 2
    moody.trouble = None
    for _ in range(10):
        with pytest.raises(EmbedderFailed, match="503") as raised:
            rested.embed(["heron"], query=True)
        assert raised.value.hint == "wait"
    clock.now += REST - 0.01
    with pytest.raises(EmbedderFailed):
        rested.embed(["heron"])
    assert moody.asked == 2
    clock.now += 0.02
    assert rested.embed(["heron"]).shape == (1, 4)
    assert moody.asked == 3
    assert rested.embed(["heron"]).shape == (1, 4)
    assert moody.asked == 4


def test_each_failure_begins_the_rest_anew_and_tells_the_newest_reason(clock: Clock) -> None:
    moody = Moody()
    rested = CircuitBreaker(moody)
    for number in range(3):
        moody.trouble = f"trouble {number}"
        with pytest.raises(EmbedderFailed, match=f"trouble {number}"):
            rested.embed(["heron"])
        with pytest.raises(EmbedderFailed, match=f"trouble {number}"):
            rested.embed(["heron"])
        clock.now += REST + 1
    assert moody.asked == 3


def test_a_rest_does_not_make_its_message_longer_with_every_question(clock: Clock) -> None:
    moody = Moody()
    moody.trouble = "gone"
    rested = CircuitBreaker(moody)
    lengths = []
    for _ in range(20):
        with pytest.raises(EmbedderFailed) as raised:
            rested.embed(["heron"])
        trace, length = raised.value.__traceback__, 0
        while trace is not None:
            trace, length = trace.tb_next, length + 1
        lengths.append(length)
    assert lengths[-1] <= lengths[1]


def test_a_resting_embedder_says_what_the_one_behind_it_says() -> None:
    moody = Moody()
    rested = CircuitBreaker(moody)
    for name in ("provider", "model", "identity", "dimension", "cached", "mean"):
        assert getattr(rested, name) == getattr(moody, name)


# --- as a search meets it -----------------------------------------------------------------------------------


@pytest.fixture
def provider() -> Iterator[Provider]:
    with fake_providers.serving() as server:
        yield server


def opened(base: Path, provider: Provider, **given: str) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    environ = {
        "VADE_EMBEDDER": "ollama",
        "VADE_EMBED_ENDPOINT": provider.endpoint("ollama"),
        **{f"VADE_{name.upper()}": value for name, value in given.items()},
    }
    return connect(home=base / "home", cwd=base / "work", environ=environ, origin=Origin.USER)


def test_a_server_that_is_gone_is_asked_once_and_the_words_answer(tmp_path: Path, provider: Provider) -> None:
    provider.reset("500")
    with opened(tmp_path, provider, limits_open="0.5", embed_timeout="0.3") as memory:
        memory.store("The heron stands in the pond.", key="heron")
        first = memory.search("heron")
        assert len(provider.seen) >= 1
        for _ in range(5):
            answer = memory.search("heron")
            assert [each.key for each in answer.results] == ["heron"]
            assert (answer.mode, answer.coverage.vectors_pending) == ("bm25", 1)
            assert any("500" in said for said in answer.degraded)
        # The first search and, at the same time, the thread that indexes: each asks, and asks once more.
        assert len(provider.seen) <= 2 * 2
        assert first.mode == "bm25"


def test_after_the_rest_a_server_that_came_back_is_asked_and_the_vectors_made(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.reset("401")
    with opened(tmp_path, provider, limits_open="2", embed_timeout="2") as memory:
        memory.store("The heron stands in the pond.", key="heron")
        for _ in range(2):
            assert memory.search("heron").mode == "bm25"
        provider.reset()
        assert memory.search("heron").mode == "bm25"
        assert provider.seen == []
        later = time.monotonic() + REST + 1
        monkeypatch.setattr(select, "time", types.SimpleNamespace(monotonic=lambda: later))
        answer = memory.search("heron")
        assert (answer.mode, answer.coverage.vectors_pending) == ("hybrid", 0)
        assert answer.degraded == ()


def test_a_search_waits_for_a_slow_provider_no_longer_than_it_may(tmp_path: Path, provider: Provider) -> None:
    provider.reset("timeout")
    with opened(tmp_path, provider, limits_open="0.5", embed_timeout="0.4") as memory:
        for number in range(5):
            memory.store(f"The heron {number} stands in the pond.", key=f"heron-{number}")
        answer = memory.search("heron")
        assert not provider.waited
        assert len(answer.results) == 5
        assert answer.mode == "bm25"
        assert answer.coverage.vectors_pending == 5
        assert answer.degraded


def test_a_long_timeout_does_not_hold_a_search_beyond_the_time_it_has_for_the_index(
    tmp_path: Path, provider: Provider
) -> None:
    provider.reset("timeout")
    with opened(tmp_path, provider, limits_open="0.5", embed_timeout="30") as memory:
        memory.store("The heron stands in the pond.", key="heron")
        assert memory.search("heron").results  # the question itself is not sent: it has just failed
        assert not provider.waited


@pytest.mark.full
def test_a_provider_that_only_needs_longer_than_one_search_has_is_not_taken_for_a_broken_one(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some thousand texts take minutes to send; meanwhile each question can be asked by meaning already."""
    monkeypatch.setattr(remote_module, "CONCURRENT", 1)
    provider.reset("slow")  # 0.05 s an answer
    with opened(tmp_path, provider, limits_open="0.3", embed_timeout="5", embed_batch="1") as memory:
        folder = tmp_path / "vault"
        folder.mkdir()
        for number in range(30):
            (folder / f"{number}.md").write_text(f"The heron {number} stands in the pond.\n")
        memory.sources.add(folder)
        pending = []
        for _ in range(4):
            answer = memory.search("heron")
            pending.append(answer.coverage.vectors_pending)
            assert len(answer.results) == 6
        assert len(provider.seen) > 20, (pending, answer.degraded)


def test_a_store_is_not_held_up_by_a_slow_provider(tmp_path: Path, provider: Provider) -> None:
    with opened(tmp_path, provider, limits_open="0.5", embed_timeout="0.4") as memory:
        memory.store("The heron stands in the pond.", key="heron")
        assert memory.search("heron").mode == "hybrid"
        provider.reset("timeout")
        stored: Any = memory.store("The stork came by.", key="stork")
        assert not provider.waited
        assert stored.key == "stork"
        assert [each.key for each in memory.search("stork", mode="bm25").results] == ["stork"]
