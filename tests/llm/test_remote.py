"""A model over a real socket: what is tried again, what is not, and what never leaves or shows."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
import traceback
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from llm.benches import DIALECTS, KEY_ENV, PROVIDERS, remote
from llm.wire_server import KEY, Cut, Drop, Fail, Hang, Refuse, Say, Send, Use, serving
from vademecum.errors import (
    ModelBusy,
    ModelFailed,
    ModelNonsense,
    ModelOverflow,
    ModelTimeout,
    ModelUnauthorised,
    UsageError,
    VadeError,
)
from vademecum.llm.base import Budget, Limits
from vademecum.llm.providers import find_model
from vademecum.llm.remote_model import RemoteModel, price

if TYPE_CHECKING:
    from llm.wire_server import Reply, WireServer

BOTH = ("openai", "anthropic")


@dataclass
class City:
    name: str
    people: int


def ask(model: RemoteModel, *, streamed: bool, seconds: float | None = None) -> str:
    limits = Limits(seconds=seconds)
    return (model.stream("?", limits=limits).answer if streamed else model.text("?", limits=limits)).text


# What is tried again.


@pytest.mark.full(but=8)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("fault", [Refuse("busy"), Refuse("fault"), Drop(), Send(503, b"{}"), Send(529, b"")])
@pytest.mark.parametrize("provider", DIALECTS)
def test_what_may_pass_is_tried_again(
    server: WireServer, provider: str, fault: Reply, streamed: bool
) -> None:
    server.script(fault, fault, Say("At last."))
    model = remote(server, provider)
    answer = model.stream("?").answer if streamed else model.text("?")
    assert answer.text == "At last."
    assert answer.attempts == len(server.seen) == 3
    assert model.budget.record[model.name].calls == 1


def test_a_whole_answer_that_is_cut_off_is_asked_for_again(server: WireServer) -> None:
    server.script(Cut("Half."), Say("Whole."))
    assert remote(server, "openai").text("?").text == "Whole."


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["key", "bad", "unknown", "overflow", "quota"])
@pytest.mark.parametrize("provider", BOTH)
def test_what_cannot_pass_is_not_tried_again(
    server: WireServer, provider: str, kind: str, streamed: bool
) -> None:
    server.script(Refuse(kind), Say("Never."))
    with pytest.raises(ModelFailed):
        ask(remote(server, provider), streamed=streamed)
    assert len(server.seen) == 1


def test_an_overflow_that_comes_as_a_fault_of_the_server_is_not_tried_again(server: WireServer) -> None:
    server.script(Refuse("overflow500"), Say("Never."))
    with pytest.raises(ModelOverflow, match="available context size"):
        remote(server, "compatible").text("?")
    assert len(server.seen) == 1


@pytest.mark.parametrize("provider", DIALECTS)
def test_a_server_that_stays_faulty_is_given_up_in_the_end(server: WireServer, provider: str) -> None:
    server.script(Refuse("fault"))
    with pytest.raises(ModelFailed, match="500, it has an internal error"):
        remote(server, provider).text("?")
    assert len(server.seen) == 6


@pytest.mark.full(but=1)
@pytest.mark.parametrize("provider", DIALECTS)
def test_a_server_that_says_when_to_come_back_is_waited_for(server: WireServer, provider: str) -> None:
    server.script(Refuse("busy", retry_after="1"), Say("Here."))
    started = time.monotonic()
    assert remote(server, provider).text("?").attempts == 2
    assert time.monotonic() - started >= 1


@pytest.mark.parametrize("provider", BOTH)
def test_nobody_waits_longer_than_the_time_limit_for_a_busy_server(server: WireServer, provider: str) -> None:
    server.script(Refuse("busy", retry_after="3600"))
    with pytest.raises(ModelBusy, match="429"):
        remote(server, provider, seconds=30).text("?")
    assert len(server.seen) == 1


def test_a_quota_that_is_used_up_is_told_from_too_many_requests(server: WireServer) -> None:
    server.script(Refuse("quota"))
    with pytest.raises(ModelBusy, match="credit is used up"):
        remote(server, "openai").text("?")


# What takes too long.


@pytest.mark.full(but=4)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("words", ["", "Well,"])
@pytest.mark.parametrize("provider", DIALECTS)
def test_a_server_that_hangs_is_left_when_the_time_is_up(
    server: WireServer, provider: str, words: str, streamed: bool
) -> None:
    server.script(Hang(words))
    with pytest.raises(ModelTimeout, match=r"within 0\.3 s"):
        ask(remote(server, provider), streamed=streamed, seconds=0.3)


def test_an_address_that_swallows_everything_ends_in_time() -> None:
    with socket.socket() as deaf:  # listens, and never takes a connection off its queue
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(1)
        place = find_model("compatible:x", endpoint=f"http://127.0.0.1:{deaf.getsockname()[1]}/v1")
        with pytest.raises(ModelTimeout):
            RemoteModel(place, seconds=0.3, budget=Budget()).text("?")


@pytest.mark.full
def test_mending_and_retries_share_one_time_limit(server: WireServer) -> None:
    server.script(Use("answer", {}), Refuse("busy"), Hang())
    with pytest.raises(ModelTimeout):
        remote(server, "openai", seconds=1).typed("?", City)
    assert len(server.seen) == 3


def test_nobody_there_is_told_as_such() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = find_model("ollama:qwen3", endpoint=f"http://127.0.0.1:{port}/v1")
    with pytest.raises(ModelFailed, match="cannot be reached"):
        RemoteModel(place, seconds=5, budget=Budget()).text("?")


# What breaks in the middle.


@pytest.mark.parametrize(
    "fault", [Cut("Once upon a time"), Cut("Once upon a time", clean=True), Fail("Once up")]
)
@pytest.mark.parametrize("provider", DIALECTS)
def test_a_stream_that_breaks_off_is_an_error_after_its_words_and_is_not_begun_again(
    server: WireServer, provider: str, fault: Reply
) -> None:
    server.script(fault, Say("Never."))
    model = remote(server, provider)
    stream = model.stream("?")
    said: list[str] = []
    with pytest.raises(ModelFailed, match="cut off after"):
        said.extend(stream)
    assert said
    assert "Once upon a time".startswith("".join(said))
    assert len(server.seen) == 1
    assert model.budget.spent > 0  # what was said has been paid for


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "body", [b"<html>welcome to the hotel network</html>", b"{}", b"[1", b"", b'{"choices": 3, "content": 3}']
)
@pytest.mark.parametrize("provider", BOTH)
def test_a_body_that_is_no_answer_is_nonsense(
    server: WireServer, provider: str, body: bytes, streamed: bool
) -> None:
    server.script(Send(200, body, "application/json" if body[:1] in (b"{", b"[") else "text/html"))
    with pytest.raises(ModelNonsense):
        ask(remote(server, provider), streamed=streamed)


@pytest.mark.parametrize("provider", DIALECTS)
def test_an_answer_that_a_filter_kept_back_is_told_as_such(server: WireServer, provider: str) -> None:
    server.script(Say("", finish="filter"))
    with pytest.raises(ModelFailed, match="declined"):
        remote(server, provider).text("?")


@pytest.mark.parametrize("provider", DIALECTS)
def test_an_answer_without_room_says_so(server: WireServer, provider: str) -> None:
    server.script(Say("Once upon", finish="length"))
    assert remote(server, provider).text("?", limits=Limits(output=3)).cut
    sent = server.seen[0].text
    assert '"max_tokens": 3' in sent or '"max_completion_tokens": 3' in sent or '"maxOutputTokens": 3' in sent


def test_a_typed_answer_without_room_is_not_asked_for_again(server: WireServer) -> None:
    server.script(Use("answer", '{"name": "Ro', finish="length"))
    with pytest.raises(ModelNonsense, match="ran out of tokens"):
        remote(server, "openai").typed("?", City)
    assert len(server.seen) == 1


def test_a_server_that_does_not_count_is_estimated(server: WireServer) -> None:
    server.script(Say("word " * 100, counted=False))
    usage = remote(server, "compatible").text("word " * 1_000).usage
    assert not usage.counted
    assert 1_000 < usage.input < 2_500
    assert 100 < usage.output < 250


# What never leaves, and what never shows.


def test_a_redirect_is_not_followed(server: WireServer) -> None:
    with serving() as elsewhere:
        where = f"{elsewhere.endpoint('openai')}/chat/completions"
        for status in (301, 302, 307, 308):
            server.script(Send(status, b"", headers=(("Location", where),)))
            with pytest.raises(ModelFailed, match="another address"):
                remote(server, "openai").text("?")
            assert len(server.seen) == 1
        assert not elsewhere.seen


@pytest.mark.full(but=1)
@pytest.mark.parametrize("provider", DIALECTS)
def test_the_key_goes_to_the_server_and_nowhere_else(
    server: WireServer, provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    model = remote(server, provider)
    shown = [repr(model), str(vars(model))]
    faults: list[Reply] = [Refuse("key"), Refuse("bad"), Cut("Once"), Drop(), Send(200, b"{}")]
    faults += [
        Send(status, f'{{"error": {{"message": "{KEY}"}}}}'.encode()) for status in (400, 404, 418, 500)
    ]
    faults += [Send(400, f'{{"error": {{"message": "of {KEY[:9]}"}}}}'.encode())]
    for fault in faults:
        server.script(fault)
        for streamed in (False, True):
            with pytest.raises(VadeError) as caught:
                ask(model, streamed=streamed, seconds=1)
            error = caught.value
            assert error.__cause__ is None
            assert error.__context__ is None
            shown += [str(error), repr(error), error.hint, *traceback.format_exception(error)]
        assert KEY in str(server.seen[0].headers)
    shown += [record.getMessage() for record in caplog.records]
    assert not [each for each in shown if KEY[:9] in each]


def test_a_provider_of_its_own_needs_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RemoteModel(find_model("openai:gpt-5-mini"), budget=Budget())
    with pytest.raises(ModelUnauthorised, match="needs a key, and OPENAI_API_KEY is not set"):
        model.text("?")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-\nnever-shown")
    with pytest.raises(ModelUnauthorised, match="not a valid key") as caught:
        model.text("?")
    assert "never-shown" not in str(caught.value)


def test_a_server_without_a_key_is_sent_none_of_ours(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OLLAMA_API_KEY", KEY_ENV):
        monkeypatch.setenv(name, KEY)
    for provider in ("ollama", "compatible"):
        server.script(Say("Yes."))
        place = find_model(f"{provider}:x", endpoint=server.endpoint(provider))
        RemoteModel(place, budget=Budget()).text("?")
        assert KEY not in str(server.seen[0].headers)


def test_an_address_in_the_environment_does_not_lead_elsewhere(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as elsewhere:
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_BASE_URL"):
            monkeypatch.setenv(name, elsewhere.endpoint("anthropic"))
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, elsewhere.endpoint("anthropic"))
        for provider in PROVIDERS:
            server.script(Say("Here."))
            assert remote(server, provider).text("?").text == "Here."
        assert not elsewhere.seen


# Where it may be called from.


def test_it_can_be_asked_inside_somebody_elses_event_loop(server: WireServer) -> None:
    server.script(Say("Here."))

    async def program() -> str:
        return remote(server, "openai").text("?").text

    assert asyncio.run(program()) == "Here."


def test_many_threads_may_ask_at_once(server: WireServer) -> None:
    server.script(Say("Here.", input=10, output=5))
    model = remote(server, "anthropic")
    model.text("?")  # the first import is not what is tested
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(model.text("?").text)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["Here."] * 8
    assert model.budget.spent == 9 * 15


def test_nothing_is_left_running(server: WireServer) -> None:
    server.script(Hang("Well,"))
    model = remote(server, "openai")
    with model.stream("?") as stream:
        assert next(iter(stream)) == "Well,"
    assert [each.name for each in threading.enumerate() if each.name == "vademecum-llm"] == []


# What is asked.


@pytest.mark.parametrize(
    "prompt",
    [
        [],
        [{"kind": "request"}],
        [{"no": "message"}],
        [3],
        [{"kind": "response", "parts": [{"part_kind": "text", "content": "x"}]}],
    ],
)
def test_a_conversation_that_is_none_is_refused(server: WireServer, prompt: Any) -> None:
    with pytest.raises(UsageError, match="the conversation"):
        remote(server, "openai").text(prompt)
    assert not server.seen


@pytest.mark.parametrize("tool", [{}, {"description": "x"}, "look", 3])
def test_a_tool_that_is_none_is_refused(server: WireServer, tool: Any) -> None:
    with pytest.raises(UsageError, match="a tool needs"):
        remote(server, "openai").text("?", tools=[tool])
    assert not server.seen


@pytest.mark.parametrize("provider", DIALECTS)
def test_text_that_is_no_text_is_sent_as_well_as_can_be(server: WireServer, provider: str) -> None:
    server.script(Say("Yes."))
    odd = "a lone \ud800 surrogate, \x00 and \x1b[31m, 東京"
    model = remote(server, provider)
    model.text(odd, system=odd)
    model.text([{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": odd}]}])
    assert all("東京" in each.text for each in server.seen)


# What it costs.


@pytest.fixture
def response() -> Any:
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.usage import RequestUsage

    return ModelResponse(
        [TextPart("x")],
        usage=RequestUsage(input_tokens=1_000_000, output_tokens=100_000),
        model_name="gpt-4o-mini",
    )


def test_a_known_model_has_a_price_and_an_unknown_one_has_none(response: Any) -> None:
    assert price("openai", "gpt-4o-mini", response) == Decimal("0.21")
    response.model_name = "parrot-1"
    assert price("openai", "parrot-1", response) is None


def test_a_server_of_ones_own_has_no_price_whatever_its_models_are_called(server: WireServer) -> None:
    server.script(Say("Yes."))
    place = find_model("openai:gpt-4o-mini", endpoint=server.endpoint("openai"), key_env=KEY_ENV)
    assert RemoteModel(place, budget=Budget()).text("?").usage.cost is None
