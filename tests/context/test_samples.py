"""Real transcripts in windows they do not fit into: nothing is lost, split or too large, however often."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vademecum.agents import registry
from vademecum.context.units import estimate, is_request, measure_all
from vademecum.tokens import count
from vademecum.transcripts import LEFT, SIDE, Message, Role, Text
from vademecum.transcripts.events import Used
from vademecum.transcripts.foreign import TranscriptUsage

from .hosting import Hosting, renamed, responses
from .hosts import obedient

if TYPE_CHECKING:
    from collections.abc import Callable

    from .hosts import Asked

DATA = Path(os.environ.get("VADE_DATA", "")) / "transcripts"
pytestmark = pytest.mark.skipif(
    not os.environ.get("VADE_DATA") or not DATA.is_dir(),
    reason="VADE_DATA does not name a folder with real transcripts in it",
)
SAMPLES = sorted(DATA.glob("*/*.json*")) if os.environ.get("VADE_DATA") else []
CYCLES = 50


def read(path: Path) -> list[Message | TranscriptUsage]:
    """What a host would have had in its thread, and what its calls cost."""
    form = registry.recognise_transcript(path)
    assert form is not None
    return [
        each
        for each in form.read(path)
        if isinstance(each, TranscriptUsage)
        or (isinstance(each, Message) and not each.extra.get(SIDE) and not each.extra.get(LEFT))
    ]


def once(hosting: Hosting, sample: list[Message | TranscriptUsage]) -> None:
    """A sample as it was: a request before each answer, and what that answer cost where the file says so."""
    messages = [each for each in sample if isinstance(each, Message)]
    first = {id(message) for calls, message in responses(messages) if calls}
    costs = {id(before): each for before, each in pairwise(sample) if isinstance(each, TranscriptUsage)}
    for at, message in enumerate(messages):
        if id(message) in first and hosting.thread:
            cost = costs.get(id(message))
            usage = Used(input=cost.input, output=cost.output) if cost else None
            hosting.call(usage, deep=at % 20 == 0)
        hosting.hear(message)
    hosting.call()


def again(hosting: Hosting, sample: list[Message | TranscriptUsage]) -> None:
    """The same over and over, a request for each fifth of the window, until it was trimmed often."""
    messages = [each for each in sample if isinstance(each, Message) and each.role is not Role.SYSTEM]
    # A short sample gets an answer as long as half the window behind it, or it would take all day.
    room = hosting.window // 2 - count(measure_all(messages), 3.0)
    filler = Message(Role.ASSISTANT, (Text("So it is. " * (room * 3 // 10)),)) if room > 0 else None
    turn = added = 0
    while hosting.drops < CYCLES:
        turn += 1
        for message in renamed(messages, f"-{turn}"):
            if is_request(message) and added > hosting.window // 5:
                hosting.call(deep=False)
                added = 0
            added += estimate(message, 3.0)
            hosting.hear(message)
        if filler is not None:
            hosting.hear(filler)
        hosting.call(deep=hosting.drops % 10 == 0)
        assert turn < 20 * CYCLES


def run(path: Path, window: int, reply: Callable[[Asked], Message | str] | None) -> Hosting:
    sample = read(path)
    hosting = Hosting(window, reply)
    once(hosting, sample)
    hosting.look_back()
    again(hosting, sample)
    hosting.look_back()
    assert hosting.drops >= CYCLES
    before = hosting.call().messages
    hosting.restart()
    assert hosting.engine.prepare(hosting.thread).messages == before
    return hosting


@pytest.mark.full
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem[:24])
def test_a_real_session_in_a_small_window_keeps_all_its_promises(path: Path) -> None:
    run(path, 16_000, None)


@pytest.mark.soak
@pytest.mark.parametrize("reply", [None, obedient], ids=["extraction", "model"])
@pytest.mark.parametrize("window", [16_000, 32_000, 200_000])
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem[:24])
def test_every_real_session_keeps_them_in_every_window(
    path: Path, window: int, reply: Callable[[Asked], Message | str] | None
) -> None:
    run(path, window, reply)
