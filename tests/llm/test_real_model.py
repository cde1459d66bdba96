"""Our side of the wire, with a real model at the other end: llama.cpp, as it speaks and as it refuses."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.test_distill import imported
from llm import real_model
from llm.real_model import NAME, WINDOW, Unavailable
from vademecum.errors import ModelOverflow
from vademecum.llm.base import Budget, Limits
from vademecum.llm.net import is_overflow
from vademecum.llm.providers import discover_servers, find_model
from vademecum.llm.remote_model import RemoteModel
from vademecum.memory import connect
from vademecum.store import heard
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llm.real_model import Server

SHORT = Limits(output=8)
TOO_LONG = "word " * (WINDOW * 2)


@pytest.fixture(scope="module")
def real() -> Iterator[Server]:
    try:
        with real_model.serving() as server:
            yield server
    except Unavailable as error:
        pytest.skip(f"no real model: {error}")


@pytest.fixture
def model(real: Server) -> RemoteModel:
    place = find_model(f"compatible:{NAME}", endpoint=real.endpoint)
    return RemoteModel(place, seconds=120, budget=Budget())


def test_a_real_server_is_found_and_called_by_the_name_it_gives(real: Server) -> None:
    closed = 1
    (found,) = discover_servers(ollama=closed, llama=real.port, seconds=20)
    assert (found.provider, found.endpoint) == ("compatible", real.endpoint)
    assert found.names == (f"compatible:{NAME}",)


def test_a_real_stream_comes_in_pieces_and_is_counted_by_the_server(model: RemoteModel) -> None:
    with model.stream("Count from one to ten.", system="Be brief.", limits=SHORT) as stream:
        pieces = list(stream)
        answer = stream.answer
    assert len(pieces) > 1
    assert "".join(pieces) == answer.text
    assert answer.text.strip()
    assert answer.usage.counted
    assert 0 < answer.usage.output <= 8
    assert answer.usage.input > 5
    record = model.budget.record[model.name]
    assert (record.calls, record.input, record.output) == (1, answer.usage.input, answer.usage.output)


def test_a_real_answer_that_reaches_its_limit_says_that_it_was_cut(model: RemoteModel) -> None:
    answer = model.text("Tell me a long story about the sea.", limits=Limits(output=4))
    assert answer.cut
    assert answer.usage.output == 4
    assert answer.attempts == 1


def test_a_longer_prompt_is_counted_as_longer(model: RemoteModel) -> None:
    few, many = (model.text("tea " * count, limits=Limits(output=1)).usage.input for count in (5, 50))
    assert many - few >= 45


def test_a_prompt_that_does_not_fit_is_told_as_an_overflow(model: RemoteModel) -> None:
    with pytest.raises(ModelOverflow):
        model.text(TOO_LONG, limits=SHORT)
    with pytest.raises(ModelOverflow), model.stream(TOO_LONG, limits=SHORT) as stream:
        list(stream)
    assert model.text("Still there?", limits=Limits(output=1)).usage.output == 1


def test_an_overflow_is_known_by_the_words_of_the_server_alone(real: Server) -> None:
    status, said = _asked(real, TOO_LONG)
    assert status == 400
    assert is_overflow(said)
    assert is_overflow(said["error"]["message"])
    status, said = _asked(real, 7)
    assert status >= 400
    assert not is_overflow(said)


def test_a_stream_that_is_left_early_stops_the_model(real: Server, model: RemoteModel) -> None:
    with model.stream("Tell me a long story about the sea.", limits=Limits(output=400)) as stream:
        next(iter(stream))
    decoded = 0
    while (slot := _got(real, "/slots")[0])["is_processing"]:
        decoded = max(decoded, slot["next_token"][0]["n_decoded"])
        assert decoded < 100
        time.sleep(0.02)
    assert model.text("Hello.", limits=Limits(output=1)).usage.output == 1


def test_packages_that_cannot_be_had_are_told_in_one_line_and_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no-such-package-of-ours==1 cannot be installed"):
        real_model.installed(tmp_path, ("no-such-package-of-ours==1",))
    assert [each.name for each in tmp_path.iterdir()] == ["lock"]


def _asked(real: Server, content: object) -> tuple[int, Any]:
    """The plain answer of the server to one message, without any of ours in between."""
    return _plain(real, "POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": content}]})


def _got(real: Server, path: str) -> Any:
    return _plain(real, "GET", path)[1]


def _plain(real: Server, method: str, path: str, body: object = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", real.port, timeout=60)
    try:
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_what_a_small_real_model_proposes_of_a_session_is_checked_like_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    said = "We never push to main, so open a branch. The API runs on port 8080."
    with (
        real_model.serving(4_096) as server,
        connect(home=tmp_path / "home", cwd=tmp_path / "project", origin=Origin.USER) as memory,
    ):
        session = imported(memory, ("user", said))
        place = find_model(f"compatible:{NAME}", endpoint=server.endpoint)
        result = memory.heard.distill(session, model=RemoteModel(place, seconds=120, budget=Budget()))
        assert result.problem or result.tokens
        assert memory.caller.project is not None
        for each in heard.read_session(memory.home, memory.caller.project.id, session):
            assert each.evidence[0].partition(": ")[2] in said
        assert not memory.list().records
