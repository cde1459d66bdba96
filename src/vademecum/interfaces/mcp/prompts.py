"""What a person can begin with: remember this, what do you know about that, hand over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from vademecum.errors import NotFound, UsageError
from vademecum.interfaces.mcp.tools import text
from vademecum.store.outgoing import clean_text
from vademecum.text.visible import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vademecum.memory import Memory

PROMPTS: tuple[Prompt, ...] = (
    Prompt(
        name="remember",
        title="Remember this",
        description="Have something kept in the right place, in words that stand on their own.",
        arguments=[PromptArgument(name="what", description="What to remember.", required=True)],
    ),
    Prompt(
        name="recall",
        title="What do you know about …",
        description="Begin with what memory holds about a topic.",
        arguments=[PromptArgument(name="topic", description="What it is about.", required=True)],
    ),
    Prompt(
        name="handoff",
        title="Hand over",
        description="Write down where the work stands, for whoever goes on with it.",
        arguments=[PromptArgument(name="focus", description="What matters most.", required=False)],
    ),
)


def get(memory: Memory, name: str, given: Mapping[str, str]) -> GetPromptResult:
    """A prompt with its places filled in."""
    prompt = next((each for each in PROMPTS if each.name == name), None)
    if prompt is None:
        raise NotFound(f"there is no prompt {name}", hint="list the prompts to see what is there")
    for argument in prompt.arguments or []:
        if argument.required and not given.get(argument.name, "").strip():
            raise UsageError(f"`{argument.name}` is missing", hint=f"pass `{argument.name}`")
    places = {each.name: visible(clean_text(given.get(each.name, ""))) for each in prompt.arguments or []}
    if name == "recall":
        # Built by the same hands as what is injected: what nobody verified stays out of it.
        places["memory"] = memory.inject(query=places["topic"]).text or "Nothing is remembered yet."
    if name == "handoff":
        places["focus"] = places["focus"] or "everything that is not finished"
    said = re.sub(r"\{(\w+)\}", lambda place: places[place[1]], text(f"prompt_{name}"))
    return GetPromptResult(
        description=prompt.description,
        messages=[PromptMessage(role="user", content=TextContent(text=said))],
    )
