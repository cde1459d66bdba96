"""An agent that remembers, with pydantic-ai: tools over memory, and a window that never overflows.

Needs no network: the model is a function. Put the name of a real one in its place.

    pip install "vademecum[pydantic-ai]"
    python examples/agent_with_pydantic_ai.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

try:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
except ModuleNotFoundError as error:
    raise SystemExit(f"{error.name} is not installed: pip install 'vademecum[pydantic-ai]'") from None

from vademecum import Memory
from vademecum.adapters.pydantic_ai import ContextWindow, memory_toolset


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Store what it is told to remember, look up what it is asked, and otherwise talk at length."""
    last = messages[-1].parts[-1]
    if any(tool.name == "journal_append" for tool in info.function_tools):
        return ModelResponse(parts=[TextPart("- The import reads every row twice.")])  # the flush
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"Memory says: {last.content}")])
    words = str(getattr(last, "content", ""))
    if words.startswith("Remember: "):
        text = words.removeprefix("Remember: ")
        return ModelResponse(parts=[ToolCallPart("memory_store", {"content": text, "key": "deploys"})])
    if words.endswith("?"):
        return ModelResponse(parts=[ToolCallPart("memory_search", {"query": words})])
    return ModelResponse(parts=[TextPart("It reads every row twice and logs each of them. " * 40)])


def main() -> None:
    """Three runs that share nothing but memory, and a conversation longer than its window."""
    with tempfile.TemporaryDirectory() as folder, Memory.open(Path(folder, "home"), cwd=folder) as memory:
        agent = Agent(
            FunctionModel(model),
            toolsets=[memory_toolset(memory)],
            capabilities=[ContextWindow(memory, window=6_000)],
        )
        agent.run_sync("Remember: Deploys happen on Fridays at noon.")
        print(memory.show("deploys").text)

        answer = agent.run_sync("When do deploys happen?").output
        print("found it again:", "Fridays at noon" in answer)

        history: list[ModelMessage] = []
        for number in range(12):
            done = agent.run_sync(f"Look at part {number} of the import.", message_history=history)
            history = done.all_messages()
        session = memory.sessions.list()[0]
        print("messages in the transcript:", session.messages)
        print("journal:", memory.notes_of_today().text.splitlines()[-2])


if __name__ == "__main__":
    main()
