"""A long session with large tool results in a small window: nothing that matters is lost."""

from __future__ import annotations

import json
import re
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from vademecum.context.units import estimate_request
from vademecum.interfaces.chat import conversation
from vademecum.llm.base import Call
from vademecum.llm.scripted import Scripted
from vademecum.transcripts import Role
from vademecum.transcripts.events import Compacted, Flushed, MessageEvent, Trimmed
from vademecum.transcripts.shapes import pydantic_ai as shape

if TYPE_CHECKING:
    from vademecum.llm.base import Limits, ModelAnswer, Prompt, Stream
    from vademecum.llm.scripted import ScriptedQuestion
    from vademecum.transcripts import Json

    from .conftest import Room

WINDOW = 32_000
TASK = "Port the billing importer from CSV to Parquet without changing what customers are charged."


class Worker:
    """A model that works through the turns: reads a large file, decides, and flushes what it decided."""

    name = "scripted:worker"

    def __init__(self) -> None:
        self.flushed: list[str] = []
        self.largest = 0
        self.schemas: list[Json] = []

    def _reply(self, asked: ScriptedQuestion) -> str | Call:
        prompt = json.dumps(asked.prompt)
        if asked.tools and asked.tools[0]["name"] == "journal_append":
            fact = f"Fact {len(self.flushed)}: the ledger rounds half even, case {len(self.flushed) * 7919}."
            self.flushed.append(fact)
            return f"- {fact}"
        if not asked.tools:
            return "nothing to say"  # no summary that could be used: the extraction takes over
        self.largest = max(self.largest, estimate_request(shape.read(list(asked.prompt)), asked.tools, 3.0))
        requests: list[Json] = list(asked.prompt)
        last = requests[-1]["parts"][-1]
        if last["part_kind"] == "user-prompt":
            (turn,) = re.findall(r"turn (\d+)", str(last["content"]))[-1:]
            return Call(f"call-{turn}", "read_file", json.dumps({"path": f"part-{int(turn) % 4}.csv"}))
        assert "part" in prompt
        return "I read it. The columns are fine, and the types are kept as they are."

    def text(
        self, prompt: Prompt, *, system: str = "", tools: tuple[Json, ...] = (), limits: Limits | None = None
    ) -> ModelAnswer:
        return Scripted(self._reply, name=self.name).text(prompt, system=system, tools=tools, limits=limits)

    def stream(
        self, prompt: Prompt, *, system: str = "", tools: tuple[Json, ...] = (), limits: Limits | None = None
    ) -> Stream:
        return Scripted(self._reply, name=self.name).stream(prompt, system=system, tools=tools, limits=limits)


def live_through(room: Room, turns: int) -> None:
    for number in range(4):
        row = f"part {number},2026-11-15,customer,12.50\n"
        (room.project / f"part-{number}.csv").write_text(row * (200_000 // len(row)))
    worker = Worker()
    chat = room.chat(worker, window=WINDOW, allow=("read_file",), session="long")  # type: ignore[arg-type]
    conversation.run_turn(chat, f"{TASK} Begin with turn 0.")
    decisions = []
    for turn in range(1, turns):
        said = f"Go on with turn {turn}: look at the next part."
        if turn % 25 == 5:
            decisions.append(f"Decision {turn}: we use snappy compression for table {turn}.")
            said += f" We decided: {decisions[-1]}"
        assert conversation.run_turn(chat, said).ok, f"turn {turn}"
        assert chat.engine.inspect().tokens.total <= WINDOW
    assert worker.largest <= WINDOW
    events = list(chat.log.events())

    # A cycle runs from one drop to the next, and has exactly one flush; a cut of what stays is a drop, too.
    flushes = drops = 0
    for event in events:
        if isinstance(event, Flushed):
            flushes += 1
        elif isinstance(event, Compacted) or (isinstance(event, Trimmed) and event.why != "taken back"):
            assert flushes == 1, f"{flushes} flushes before drop {drops}"
            flushes, drops = 0, drops + 1
    assert drops == chat.engine.inspect().cycles
    assert drops > turns // 20
    assert len(worker.flushed) in (drops, drops + 1)

    # The task, each decision and each flushed fact can be found.
    assert TASK[:60] in chat.engine.inspect().summary
    for fact in worker.flushed:
        found = chat.person.search(fact, max_results=5)
        assert any(fact in each.snippet for each in found.results), fact
    for decision in decisions:
        hits = chat.person.sessions.search(decision, max_results=3).hits
        assert any(decision in hit.preview for hit in hits), decision

    # The transcript has every turn once, whole, and gives the same window again.
    users = [
        event.message.text
        for event in events
        if isinstance(event, MessageEvent) and event.message.role is Role.USER
    ]
    assert [re.findall(r"turn (\d+)", text)[0] for text in users] == [str(number) for number in range(turns)]
    whole = [event for event in events if isinstance(event, MessageEvent) and event.message.results]
    assert all(len(event.message.results[0].text) > 190_000 for event in whole)
    before, window = chat.engine.inspect(), chat.engine._messages()
    room.close()
    again = room.chat(worker, window=WINDOW, session="long")  # type: ignore[arg-type]
    assert again.engine._messages() == window
    after = again.engine.inspect()
    assert (after.summary, after.cycles, after.flushed) == (before.summary, before.cycles, before.flushed)
    assert [row.id for row in after.rows] == [row.id for row in before.rows]


@pytest.mark.full
def test_a_long_session_keeps_task_decisions_and_facts_in_a_small_window(room: Room) -> None:
    live_through(room, 35)  # two decisions and a few cycles; the long run has ten times as many


@pytest.mark.soak
def test_a_session_of_400_turns_keeps_task_decisions_and_facts_and_stays_small(room: Room) -> None:
    tracemalloc.start()
    try:
        live_through(room, 400)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 400 results of 200 KB are 80 MB, which the thread holds once; nothing keeps copies of them.
    assert peak < 600_000_000, peak
