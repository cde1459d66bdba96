"""The resources that a client can attach (documents, journal, files), and the prompts for a person."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from vademecum.errors import NotFound, UsageError
from vademecum.interfaces.present.safe import clean_text, clean_value, safe_text
from vademecum.store import request_view, scopes
from vademecum.types import Audience

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from vademecum.memory import Memory
    from vademecum.store import Pinned

STATUS, TODAY, FILE = "vade://status", "vade://journal/today", "vade://file/"
_MARKDOWN, _JSON = "text/markdown", "application/json"
TEMPLATE = {
    "name": "file",
    "title": "A memory file",
    "uriTemplate": FILE + "{+path}",
    "description": "A file by its path, as search returns it.",
    "mimeType": _MARKDOWN,
}
_JOURNAL = {
    "name": "journal",
    "title": "Today's journal",
    "uri": TODAY,
    "description": "Today's journal notes of this project.",
    "mimeType": _MARKDOWN,
}
_STATUS = {
    "name": "status",
    "title": "Memory status",
    "uri": STATUS,
    "description": "What is saved, what the index covers, and what needs attention.",
    "mimeType": _JSON,
}


def list_resources(memory: Memory) -> list[dict[str, Any]]:
    """Return the resources that this connection's audience may attach."""
    found: list[dict[str, Any]] = [
        {
            "name": clean_text(each.path),
            "title": each.name,
            "uri": FILE + quote(clean_text(each.path)),
            "description": f"Pinned, {each.place.scope}",
            "mimeType": _MARKDOWN,
        }
        for each in _pinned(memory)
    ]
    if memory.caller.audience is Audience.PRIVATE:
        found.append(_JOURNAL)
    return [*found, _STATUS]


def _pinned(memory: Memory) -> Iterable[Pinned]:
    """Return the pinned documents that the caller may see; none in incognito mode."""
    if memory.settings.incognito:
        return ()
    with memory.workspace.reported("read the memory"), request_view():
        return memory.workspace.pinned(scopes.visible(memory.caller))[0]


def read_resource(memory: Memory, uri: str) -> dict[str, Any]:
    """Return a resource; the error for a hidden resource is the same as for a missing resource."""
    if uri == STATUS:
        from vademecum.interfaces.present.to_json import status_json

        status = clean_value(status_json(memory.status(), memory.workspace.loaded.warnings))
        return _text(uri, json.dumps(status, ensure_ascii=False, indent=2), _JSON)
    if uri == TODAY:
        return _text(uri, memory.notes_of_today().text)
    if not uri.startswith(FILE):
        raise NotFound(f"there is no resource {uri}", hint="list the resources to see what exists")
    found = memory.get(unquote(uri.removeprefix(FILE)))
    if not found.lines:
        raise NotFound(f"there is no resource {uri}", hint="list the resources to see what exists")
    return _text(uri, found.text)


def _text(uri: str, text: str, kind: str = _MARKDOWN) -> dict[str, Any]:
    return {"uri": uri, "text": safe_text(text), "mimeType": kind}


# ---------------------------------------------------------------- prompts

_TOOL = re.compile(r"\b(?:memory|session)_[a-z]+\b|\btodo\b")
PROMPTS: tuple[dict[str, Any], ...] = (
    {
        "name": "remember",
        "title": "Remember this",
        "description": "Save something in the right scope, in words that are clear on their own.",
        "arguments": [{"name": "what", "description": "What to remember.", "required": True}],
    },
    {
        "name": "recall",
        "title": "What do you know about …",
        "description": "Start with what memory has about a topic.",
        "arguments": [{"name": "topic", "description": "What it is about.", "required": True}],
    },
    {
        "name": "handoff",
        "title": "Handoff",
        "description": "Save the state of the work for the next session or agent.",
        "arguments": [{"name": "focus", "description": "What matters most.", "required": False}],
    },
)


def offered_prompts(tools: Collection[str]) -> list[dict[str, Any]]:
    """Return those prompts that mention no other tools than these."""
    return [each for each in PROMPTS if {*_TOOL.findall(_prompt(each["name"]))} <= {*tools}]


def get_prompt(
    memory: Memory, name: str, given: Mapping[str, str], *, tools: Collection[str]
) -> dict[str, Any]:
    """Return a prompt, with the given arguments filled into its text."""
    prompt = next((each for each in offered_prompts(tools) if each["name"] == name), None)
    if prompt is None:
        raise NotFound(f"there is no prompt {name}", hint="list the prompts to see what exists")
    for each in prompt["arguments"]:
        if each["required"] and not given.get(each["name"], "").strip():
            raise UsageError(f"`{each['name']}` is missing", hint=f"pass `{each['name']}`")
    places = {each["name"]: safe_text(given.get(each["name"], "")) for each in prompt["arguments"]}
    if name == "recall":
        # The same code builds the injected block, so unverified text stays out.
        places["memory"] = memory.injection.block(query=places["topic"]).text or "No memories yet."
    if name == "handoff":
        places["focus"] = places["focus"] or "everything that is not finished"
    text = re.sub(r"\{(\w+)\}", lambda place: places[place[1]], _prompt(name))
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": prompt["description"], "messages": [message]}


def _prompt(name: str) -> str:
    return (Path(__file__).parent / "prompts" / f"{name}.md").read_text("utf-8").strip()
