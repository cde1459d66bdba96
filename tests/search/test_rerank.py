"""Reranking: another order from a file, a server or a model; else the order as it was, and why."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from cases import every_case
from search import tiny_onnx
from vademecum.index.embed import local
from vademecum.llm.scripted import Scripted
from vademecum.memory import Memory, connect
from vademecum.search import rerank
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts.events import MessageEvent
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vademecum.search.base import Answer

NOTES = {
    "pond": "The heron stands in the pond.",
    "frog": "The heron eats a frog in the pond.",
    "owl": "The owl and the heron meet at night by the pond.",
}
KEY = "co-test-0123456789-abcdef"
SECRET = "gh" + "p_" + "Ab3Xk9Qz7LmN4pRs8TuV2wYc6ZdE1fGh5JkB"


class Server:
    """What a server was asked, and what it says next."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.say: Callable[[dict[str, Any]], tuple[int, bytes]] = lambda asked: (200, b"{}")
        self.closing = threading.Event()
        self.url = ""


@contextmanager
def serving() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            state.headers.append(dict(self.headers))
            status, body = state.say(state.asked[-1])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1/rerank"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield state
    finally:
        state.closing.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as state:
        yield state


def opened(base: Path, setting: str, **more: str) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    environ = {"VADE_EMBEDDER": "local", "VADE_SEARCH_RERANK": setting, **more}
    memory = connect(home=base / "home", cwd=base / "work", environ=environ, origin=Origin.USER)
    for key, text in NOTES.items():
        memory.store(text, key=key)
    return memory


def keys(answer: Answer) -> list[str | None]:
    return [each.key for each in answer.results]


def owl_first(asked: dict[str, Any], name: str = "results") -> tuple[int, bytes]:
    """The passage with the owl, then the one with the frog; not in the order of their index."""
    scored = [(1.0 if "owl" in text else 0.5 if "frog" in text else 0.1) for text in asked["documents"]]
    rows = [{"index": at, "relevance_score": score} for at, score in enumerate(scored)]
    return 200, json.dumps({name: sorted(rows, key=lambda row: -row["relevance_score"])}).encode()


def shortest_first(asked: dict[str, Any]) -> tuple[int, bytes]:
    """The passage with the pond, which is the shortest, then the frog, then the owl."""
    order = sorted(range(len(asked["documents"])), key=lambda at: len(asked["documents"][at]))
    rows = [{"index": at, "relevance_score": 1.0 - 0.2 * place} for place, at in enumerate(order)]
    return 200, json.dumps({"results": rows}).encode()


# --- sessions -----------------------------------------------------------------------------------------------


def say_all(memory: Memory) -> None:
    """Have each text said in a session of its own."""
    for name, text in NOTES.items():
        log = memory.sessions.transcripts.new(name=name)
        log.append(MessageEvent(Message(Role.USER, (Text(f"{text} My key is {SECRET}."),))))
    memory.care.index()  # a question alone may not have the time for all vectors


def said(memory: Memory, **given: Any) -> list[str]:
    return [hit.title for hit in memory.sessions.search("heron in the pond", **given).hits]


def test_what_was_said_is_put_in_the_servers_order_and_no_secret_goes_out(
    tmp_path: Path, server: Server
) -> None:
    server.say = shortest_first
    with opened(tmp_path, "none") as plain:
        say_all(plain)
        before = said(plain)
        assert before != ["pond", "frog", "owl"]
    with opened(tmp_path, server.url) as memory:
        assert said(memory) == ["pond", "frog", "owl"]
        assert said(memory, max_results=1) == ["pond"]  # it was not on that page before
        scores = [hit.score for hit in memory.sessions.search("heron in the pond").hits]
        assert scores == sorted(scores, reverse=True)
        found = memory.search("heron in the pond", sources=("transcript",), explain=True)
        assert [each.title for each in found.results] == ["pond", "frog", "owl"]
        told = found.results[0].arithmetic or {}
        assert (told["reranked"], told["place_before"]) == (1.0, before.index("pond") + 1)
        assert SECRET not in json.dumps(server.asked)
        asked = len(server.asked)
        memory.search("heron", sources=("transcript",), sort_by="recency")
        memory.search("heron", sources=("transcript",), mode="metadata")
        assert len(server.asked) == asked  # an order of the caller's own is left alone


def test_a_server_that_fails_leaves_sessions_as_they_were_and_is_told_once(
    tmp_path: Path, server: Server
) -> None:
    server.say = lambda asked: (500, b"")
    with opened(tmp_path, "none") as plain:
        say_all(plain)
        before = said(plain)
    with opened(tmp_path, server.url) as memory:
        assert said(memory) == before
        found = memory.sessions.search("heron in the pond")
        assert [each.partition(":")[0] for each in found.degraded] == ["not reranked"]
        beside = memory.search("heron in the pond")
        assert sum(each.startswith("not reranked") for each in beside.degraded) == 1
        assert len(server.asked) == 1


# --- a server -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["results", "data"])  # Cohere and Jina, Voyage
def test_a_server_puts_the_best_in_its_order(tmp_path: Path, server: Server, name: str) -> None:
    server.say = lambda asked: owl_first(asked, name)
    with opened(tmp_path, "none") as plain:
        before = keys(plain.search("heron in the pond"))
    assert before != ["owl", "frog", "pond"]
    with opened(tmp_path, server.url, VADE_SEARCH_RERANK_MODEL="some-model") as memory:
        found = memory.search("heron in the pond", explain=True)
        assert keys(found) == ["owl", "frog", "pond"]
        assert found.degraded == ()
        assert [each.score for each in found.results] == sorted(
            (each.score for each in found.results), reverse=True
        )
        told = found.results[0].arithmetic
        assert told is not None
        assert (told["reranked"], told["place_before"]) == (1.0, before.index("owl") + 1)
        assert server.asked[0]["model"] == "some-model"
        assert server.asked[0]["query"] == "heron in the pond"
        assert sorted(server.asked[0]["documents"]) == sorted(each.snippet for each in found.results)


def test_what_was_not_on_the_page_can_come_onto_it_and_the_page_stays_as_long(
    tmp_path: Path, server: Server
) -> None:
    server.say = owl_first
    with opened(tmp_path, server.url) as memory:
        assert keys(memory.search("heron in the pond", max_results=1)) == ["owl"]
        assert keys(memory.search("heron", sort_by="recency", max_results=1)) != []
        assert len(server.asked) == 1  # an order of the caller's own is left alone


def test_a_key_goes_to_the_server_and_no_secret_with_it(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.say = owl_first
    monkeypatch.setenv("MY_RERANK_KEY", KEY)
    with opened(tmp_path, server.url, VADE_SEARCH_RERANK_KEY_ENV="MY_RERANK_KEY") as memory:
        path = tmp_path / "home" / memory.show("frog").path
        path.write_text(path.read_text().replace("eats a frog", f"eats a frog {SECRET}"))
        memory.search(f"heron in the pond {SECRET}")
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert "frog" in json.dumps(server.asked)
    assert SECRET not in json.dumps(server.asked)


def lie(kind: str) -> Callable[[dict[str, Any]], tuple[int, bytes]]:
    rows: dict[str, list[Any]] = {
        "too few": [{"index": 0, "relevance_score": 1}],
        "unknown index": [{"index": at + 7, "relevance_score": 1} for at in range(3)],
        "one twice": [{"index": 0, "relevance_score": 1}] * 3,
        "no number": [{"index": at, "relevance_score": "high"} for at in range(3)],
        "true": [{"index": at, "relevance_score": True} for at in range(3)],
        "infinite": [{"index": at, "relevance_score": float("nan")} for at in range(3)],
        "huge": [{"index": at, "relevance_score": 10**400} for at in range(3)],
        "not rows": [1, 2, 3],
    }
    bodies = {
        "html": (200, b"<html>Welcome to the hotel</html>"),
        "500": (500, b"{}"),
        "401": (401, b'{"message": "wrong key"}'),
        "list": (200, b"[]"),
        "moved": (302, b""),
    }
    return lambda asked: bodies.get(kind) or (200, json.dumps({"results": rows[kind]}).encode())


@pytest.mark.parametrize(
    "kind",
    "too few|unknown index|one twice|no number|true|infinite|huge|not rows|html|500|401|list|moved".split(
        "|"
    ),
)
def test_a_server_that_lies_or_fails_leaves_the_order_and_the_answer_says_so(
    tmp_path: Path, server: Server, kind: str
) -> None:
    server.say = lie(kind)
    with opened(tmp_path, "none") as plain:
        before = keys(plain.search("heron in the pond", max_results=2))
    with opened(tmp_path, server.url) as memory:
        found = memory.search("heron in the pond", max_results=2)
        assert keys(found) == before
        assert len(found.degraded) == 1
        assert found.degraded[0].startswith("not reranked: ")
        again = memory.search("heron in the pond", max_results=2)
        assert again.degraded[0].endswith("retried in 30 seconds")
        assert len(server.asked) == 1


def test_a_server_that_hangs_is_not_waited_for(tmp_path: Path, server: Server) -> None:
    def hang(asked: dict[str, Any]) -> tuple[int, bytes]:
        server.closing.wait(60)
        return 200, b"{}"

    server.say = hang
    with opened(tmp_path, server.url, VADE_SEARCH_RERANK_SECONDS="0.3s") as memory:
        begun = time.monotonic()
        found = memory.search("heron in the pond")
        assert time.monotonic() - begun < 50  # it did not wait for the server
        assert len(found.results) == 3
        assert "did not answer in time" in found.degraded[0]


@pytest.mark.parametrize(
    "setting",
    [
        "http://127.0.0.1:1/rerank",
        "https://user@host/rerank",
        "/nowhere/model.onnx",
        "https://api.jina.ai/v1/rerank",
    ],
)
def test_what_cannot_be_reached_is_told_and_the_answer_comes(tmp_path: Path, setting: str) -> None:
    with opened(tmp_path, setting, VADE_SEARCH_RERANK_KEY_ENV="SURELY_NOT_SET") as memory:
        found = memory.search("heron in the pond")
        assert len(found.results) == 3
        assert found.degraded[0].startswith("not reranked: ")


# --- a file -------------------------------------------------------------------------------------------------


def test_a_cross_encoder_of_ones_own_puts_the_best_in_its_order(tmp_path: Path) -> None:
    path = tiny_onnx.write(tmp_path / "model", {"owl": 2.0, "frog": 1.0, "heron": -0.5})
    with opened(tmp_path, str(path)) as memory:
        found = memory.search("heron in the pond", explain=True)
        assert keys(found) == ["owl", "frog", "pond"]
        assert found.degraded == ()
        made = [each.arithmetic["reranked"] for each in found.results if each.arithmetic]
        assert made == pytest.approx([1.5, 0.5, -0.5])  # the words of the question do not count


@pytest.mark.parametrize("fault", ["no vocabulary", "not a model", "another input", "no number"])
def test_a_damaged_or_foreign_model_is_told_and_the_answer_comes(tmp_path: Path, fault: str) -> None:
    weights = {"heron": float("nan") if fault == "no number" else 1.0}
    wants = "pixel_values" if fault == "another input" else "attention_mask"
    path = tiny_onnx.write(tmp_path / "model", weights, wants=wants)
    if fault == "no vocabulary":
        (path.parent / "vocab.txt").unlink()
    if fault == "not a model":
        path.write_bytes(b"not a model")
    with opened(tmp_path, str(path)) as memory:
        found = memory.search("heron in the pond")
        assert len(found.results) == 3
        assert found.degraded[0].startswith("not reranked: ")


def test_a_cross_encoder_that_takes_too_long_is_given_up_and_the_answer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        def __init__(self, real: Any) -> None:
            self.get_inputs = real.get_inputs

        def run(self, names: object, given: object, running: Any) -> None:
            while not running.terminate:
                time.sleep(0.01)
            raise RuntimeError("Exiting due to terminate flag being set to true.")

    real = local.onnx_session
    monkeypatch.setattr(local, "onnx_session", lambda path: Slow(real(path)))
    path = tiny_onnx.write(tmp_path / "model", {"owl": 2.0})
    with opened(tmp_path, str(path), VADE_SEARCH_RERANK_SECONDS="0.2s") as memory:
        found = memory.search("heron in the pond")
        assert len(found.results) == 3
        assert found.degraded[0].startswith("not reranked: ")
        assert found.degraded[0].endswith("took longer than 0.2 s")


# --- a language model ---------------------------------------------------------------------------------------


def by_llm(answer: str) -> rerank.Rerank:
    return rerank.make_rerank(
        "llm", model=None, key_env=None, seconds=5, language_model=lambda: Scripted(answer)
    )


def test_a_language_model_is_asked_for_an_order() -> None:
    scores = by_llm("Here it is: [3, 1]")("heron", ["a", "b", "c"])
    assert isinstance(scores, list)
    assert sorted(range(3), key=lambda at: -scores[at]) == [2, 0, 1]  # what it left out follows


@every_case("answer", ["I would rather not.", "[1, 1]", "[4]", "[0]", "[]", "[1, 2"])
def test_an_answer_that_is_no_order_is_none(answer: str) -> None:
    assert "not an order" in str(by_llm(answer)("heron", ["a", "b", "c"]))


def test_llm_without_a_model_is_told_and_the_answer_comes(tmp_path: Path) -> None:
    with opened(tmp_path, "llm") as memory:
        found = memory.search("heron in the pond")
        assert len(found.results) == 3
        assert "no language model" in found.degraded[0]
