"""Generated sessions: whatever is said and whenever the window is full, the same promises hold."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import tiers
from vademecum.context.budget import TrimSettings
from vademecum.context.window import WindowSettings
from vademecum.errors import WindowFull
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import Compacted, Trimmed, Used

from .conversations import conversation
from .hosting import Hosting
from .hosts import FACT, is_flush, obedient

if TYPE_CHECKING:
    from .hosts import Asked

TASK = "Please rewrite the tokenizer so that it reads tables from a stream instead of a list."
SYSTEM = Message(Role.SYSTEM, (Text("You are a careful engineer."),), id="system")
MODELS: tuple[Any, ...] = (None, obedient, lambda _: FACT, lambda _: "NO_REPLY", lambda _: 7)


def user(text: str) -> Message:
    return Message(Role.USER, (Text(text),))


def talk_of(seed: int, turns: int) -> tuple[int, int]:
    """One generated conversation with everything that can happen to it.

    Returns how many cycles it had, and in how many windows after the first the current task was clear."""
    chance = random.Random(seed)
    reply = chance.choice(MODELS)
    hosting = Hosting(chance.choice((4_000, 8_000, 16_000)), reply)
    made = conversation(seed, turns=turns, huge=20_000)
    talk = [SYSTEM, user(TASK), *(each for each in made if each.role is not Role.SYSTEM)]
    at = 0
    while at < len(talk):
        more = talk[at : at + chance.randint(1, 6)]
        at += len(more)
        for message in more:
            hosting.hear(message)
        cost = Used(input=int(hosting.window * chance.uniform(0.3, 0.6)), output=10)
        sent = hosting.call(cost, deep=chance.random() < 0.25)
        what = chance.random()
        if what < 0.08:
            for _ in range(chance.randint(1, 3)):
                hosting.look(hosting.engine.overflowed("prompt is too long"))
        elif what < 0.14:
            hosting.look(hosting.engine.compact())
        elif what < 0.2:
            hosting.restart()
            assert hosting.engine.prepare(hosting.thread).messages[0] == SYSTEM
            hosting.sent = None
        assert sent.messages[0] == SYSTEM
    return len(hosting.look_back()) - 1, hosting.judged


@pytest.mark.full(but=1)
@pytest.mark.scaled
@pytest.mark.parametrize("part", range(4))
def test_over_generated_conversations_nothing_is_lost_split_or_too_large(part: int) -> None:
    made = [talk_of(seed, turns=8) for seed in range(part * 50, part * 50 + tiers.few(10, 50))]
    assert sum(cycles for cycles, _ in made) > 2 * len(made)
    assert sum(judged for _, judged in made) > 4 * len(made)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_over_two_thousand_conversations_too(part: int) -> None:
    for seed in range(1_000 + part * 100, 1_100 + part * 100):
        talk_of(seed, turns=10)


# -------------------------------------------------------------------- when the flush runs


def schedule(seed: int) -> Counter[str]:
    """One session in which the window gets full in every way; returns how its cycles ended."""
    chance = random.Random(seed)
    reply = chance.choice(MODELS)
    trim = TrimSettings(proactive=chance.choice((0.6, 0.75, 0.9)))
    settings = WindowSettings(trim=trim, compaction=chance.random() < 0.5)
    hosting = Hosting(chance.choice((4_000, 8_000, 20_000)), reply, settings=settings)
    for message in (SYSTEM, user(TASK)):
        hosting.hear(message)
    hosting.call()
    for step in range(chance.randint(8, 24)):
        what = chance.random()
        if what < 0.65:
            for message in _said(chance, step, hosting.window):
                hosting.hear(message)
            hosting.call(deep=False)
        elif what < 0.75:
            hosting.restart()
        elif what < 0.85:
            hosting.look(hosting.engine.compact(chance.choice((None, "the tokenizer"))), deep=False)
        else:
            _overflow(hosting, chance)
    ended = hosting.look_back()
    asked = [each for each in hosting.host.asked if is_flush(each)]
    assert len(asked) == sum(not outcome.startswith("skipped") for each in ended for outcome in each)
    whys = Counter(
        "compaction" if isinstance(event, Compacted) else event.why
        for event in hosting.log.events()
        if isinstance(event, Compacted) or (isinstance(event, Trimmed) and event.ids)
    )
    assert sum(whys.values()) == hosting.drops
    return whys


def _said(chance: random.Random, step: int, window: int) -> list[Message]:
    """A turn of a size from a few words to a third of the window."""
    words = "word " * int(window * 3 / 5 * chance.choice((0.01, 0.1, 0.3)))
    if chance.random() < 0.5:
        answer = Message(Role.ASSISTANT, (Text(words),))
        return [user(f"Please inspect module number {step} for leaks now"), answer]
    call = Message(Role.ASSISTANT, (ToolCall(f"c{step}", "bash", "{}"),))
    return [user("go on"), call, Message(Role.TOOL, (ToolResult(f"c{step}", (Text(words),)),))]


def _overflow(hosting: Hosting, chance: random.Random) -> None:
    try:
        for _ in range(chance.randint(1, 4)):
            hosting.look(hosting.engine.overflowed("prompt is too long"), deep=False)
    except WindowFull:
        hosting.engine.observe(Used(input=100))
        hosting.sent = None


@pytest.mark.full
@pytest.mark.scaled
def test_each_cycle_has_one_flush_however_it_ends() -> None:
    lives = tiers.few(25, 200)
    found = sum((schedule(seed) for seed in range(lives)), Counter[str]())
    assert min(found[each] for each in ("proactive", "half", "compaction")) > lives / 4


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_each_cycle_of_a_thousand_schedules_has_one_flush(part: int) -> None:
    for seed in range(10_000 + part * 100, 10_100 + part * 100):
        schedule(seed)


def test_a_model_that_answers_the_flush_with_another_call_is_asked_once() -> None:
    def eager(asked: Asked) -> Message | str:
        return Message(Role.ASSISTANT, (ToolCall("x", "bash", "{}"),)) if is_flush(asked) else "no"

    hosting = Hosting(4_000, eager)
    for at in range(30):
        hosting.hear(user(f"Please inspect module number {at} for leaks now: " + "word " * 80))
        hosting.call()
    outcomes = {outcome for each in hosting.look_back() for outcome in each}
    assert outcomes == {"failed:the reply asked for 'bash', which a flush does not have"}
