"""The parts together, as an engine will use them: a long session in a small window, trimmed over and over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steps import count_steps
from vademecum.context import prune, summary
from vademecum.context.budget import Move, Window, next_step
from vademecum.context.units import Unit, build_units, estimate_request, flatten, system_prompt, trim
from vademecum.context.user_rules import is_replaced
from vademecum.transcripts import Message, Role, Text

from .conversations import conversation, orphans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.context.summary import ThreadSummary

RATIO = 3.0
TASK = "Please rewrite the tokenizer so that it reads tables from a stream instead of a list."
SETTINGS = prune.PruneSettings()


class Session:
    """The least an engine does: what was logged, what of it is in the window, what is known of the rest."""

    def __init__(self, context: int) -> None:
        self.window = Window(context, context // 4)
        self.log: list[Message] = []
        self.units: tuple[Unit, ...] = ()
        self.known: ThreadSummary | None = None
        self.cycles = 0
        self.changes = 0
        self.flushes = 0
        self.flushed = False

    def send(self, new: Sequence[Message]) -> list[Message]:
        self.log += new
        units = build_units([*flatten(self.units), *new]).units
        trims = 0
        while True:
            self.units = units
            used = estimate_request(self.sent(), [], RATIO)
            step = next_step(self.window, used=used, flushed=self.flushed, trims=trims)
            if step.move is Move.SEND:
                return self.sent()
            assert step.move is not Move.FAIL
            if step.move is Move.FLUSH:
                self.flushes, self.flushed = self.flushes + 1, True
                continue
            messages = flatten(units)
            made = prune.decide(messages, SETTINGS, now=0, last_call=0, trimming=True)
            pruned = build_units(prune.apply(messages, made)).units
            found = trim(pruned, tokens=step.target - len(self.block()) // 3 - 200, ratio=RATIO)
            self.drop(found.dropped, found.kept)
            units, trims = found.kept, trims + 1
            self.changes += 1

    def drop(self, dropped: Sequence[Unit], kept: Sequence[Unit]) -> None:
        if dropped:
            known = summary.summarize(flatten(dropped), self.known, kept=flatten(kept))
            self.known = summary.fit_summary(known, self.window.context * 3 // 10)
            self.cycles, self.flushed = self.cycles + 1, False

    def block(self) -> str:
        return summary.render_recovery(self.known) if self.known else ""

    def sent(self) -> list[Message]:
        head = system_prompt(self.units)
        block = [Message(Role.USER, (Text(self.block()),))] if self.known else []
        return [*flatten(self.units[:head]), *block, *flatten(self.units[head:])]


@pytest.mark.full(but=2)
@pytest.mark.parametrize("context", [4_000, 16_000])
@pytest.mark.parametrize("seed", range(4))
def test_a_long_session_never_overflows_and_never_forgets(seed: int, context: int) -> None:
    session = Session(context)
    session.send([Message(Role.USER, (Text(TASK),), id="first")])
    talk = [m for m in conversation(seed, turns=250, huge=20_000) if m.role is not Role.SYSTEM]
    units = build_units(talk).units
    before: list[Message] = []
    changes = 0
    for at in range(0, len(units), 3):
        sent = session.send(flatten(units[at : at + 3]))
        assert not orphans(sent)
        assert estimate_request(sent, [], RATIO) <= session.window.limit
        if session.changes == changes:
            assert sent[: len(before)] == before  # the prefix is the same until something had to go
        before, changes = sent, session.changes
        if session.known:
            assert session.known.original == TASK
            assert session.known.task
            assert f"task: {TASK}" in sent[0].text or f"task: {TASK}" in sent[1].text
    assert session.cycles >= (50 if context == 4_000 else 10)
    assert session.cycles <= session.flushes <= session.cycles + 1


@pytest.mark.full
def test_four_times_the_turns_take_four_times_the_steps_to_prune_trim_and_summarize() -> None:
    def compact(messages: list[Message]) -> None:
        is_replaced.cache_clear()
        pruned = prune.apply(messages, prune.decide(messages, SETTINGS, now=0, last_call=None))
        found = trim(build_units(pruned).units, tokens=10_000, ratio=RATIO)
        summary.summarize(flatten(found.dropped), kept=flatten(found.kept))

    def steps(turns: int) -> int:
        messages = conversation(7, turns=turns, broken=False, huge=4000)
        return count_steps(lambda: compact(messages))

    assert steps(400) < 8 * steps(100)
