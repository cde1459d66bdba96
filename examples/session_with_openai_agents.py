"""A session of the OpenAI Agents SDK that is a transcript: it outlives the process and loses nothing.

Needs no network: the model is a class of a few lines. Leave it out to use OpenAI's.

    pip install "vademecum[openai-agents]"
    python examples/session_with_openai_agents.py
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from agents import Agent, RunConfig, Runner
    from agents.items import ModelResponse
    from agents.models.interface import Model
    from agents.usage import Usage
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText
except ModuleNotFoundError as error:
    raise SystemExit(f"{error.name} is not installed: pip install 'vademecum[openai-agents]'") from None

from vademecum import Memory
from vademecum.adapters.openai_agents import TranscriptSession

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Echo(Model):
    """A model that says how much it was given, and what came first."""

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        """Answer without a network."""
        items = input if isinstance(input, list) else [{"role": "user", "content": input}]
        words = f"{len(items)} items; the first was: {items[0]['content']}"
        text = ResponseOutputText(type="output_text", text=words, annotations=[])
        message = ResponseOutputMessage(
            id="msg", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Not used here."""
        raise NotImplementedError


async def talk(home: Path, words: str) -> None:
    """One process: open memory, continue the session, and leave."""
    with Memory.open(home, cwd=home.parent) as memory:
        session = TranscriptSession(memory, "support-42")
        done = await Runner.run(
            Agent(name="support", model=Echo()),
            words,
            session=session,
            run_config=RunConfig(tracing_disabled=True),
        )
        print(done.final_output)


async def main() -> None:
    """Two turns in two processes' worth of memory, one undone, and all of it still in the log."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        await talk(home, "My order is late.")
        await talk(home, "It is number 1234.")
        with Memory.open(home, cwd=folder) as memory:
            session = TranscriptSession(memory, "support-42")
            await session.pop_item()
            print("items now:", len(await session.get_items()))
            print("lines in the log:", sum(1 for _ in memory.sessions.open("support-42").lines()))
            print("found:", memory.sessions.search("late order").hits[0].preview)


if __name__ == "__main__":
    asyncio.run(main())
