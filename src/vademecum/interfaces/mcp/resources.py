"""What a client can attach: pinned documents, today's journal, how memory stands, and any file of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from mcp_types import Resource, ResourceTemplate, TextResourceContents

from vademecum.errors import NotFound
from vademecum.interfaces.present.to_json import status_json
from vademecum.store.outgoing import clean_text, clean_value
from vademecum.text.visible import visible
from vademecum.types import Audience

if TYPE_CHECKING:
    from vademecum.memory import Memory

STATUS, TODAY, FILE = "vade://status", "vade://journal/today", "vade://file/"
_MARKDOWN, _JSON = "text/markdown", "application/json"
TEMPLATE = ResourceTemplate(
    name="file",
    title="A file of memory",
    uri_template=FILE + "{+path}",
    description="A file by its path, as memory_search gives it.",
    mime_type=_MARKDOWN,
)


def every(memory: Memory) -> list[Resource]:
    """What there is to attach for whoever is listening."""
    found = [
        Resource(
            name=clean_text(each.path),
            title=each.name,
            uri=FILE + quote(clean_text(each.path)),
            description=f"Pinned, {each.place.scope}",
            mime_type=_MARKDOWN,
        )
        for each in memory.status().pinned
    ]
    if memory.caller.audience is Audience.PRIVATE:
        found.append(
            Resource(
                name="journal",
                title="Today's journal",
                uri=TODAY,
                description="What was noted today in this project.",
                mime_type=_MARKDOWN,
            ),
        )
    found.append(
        Resource(
            name="status",
            title="How memory stands",
            uri=STATUS,
            description="What is kept, what the index covers, and what needs a look.",
            mime_type=_JSON,
        )
    )
    return found


def read(memory: Memory, uri: str) -> TextResourceContents:
    """One of them; what is not in sight is not there."""
    if uri == STATUS:
        standing = clean_value(status_json(memory.status(), memory.loaded.warnings))
        return _text(uri, json.dumps(standing, ensure_ascii=False, indent=2), _JSON)
    if uri == TODAY:
        return _text(uri, memory.notes_of_today().text)
    if not uri.startswith(FILE):
        raise NotFound(f"there is no resource {uri}", hint="list the resources to see what is there")
    found = memory.get(unquote(uri.removeprefix(FILE)))
    if not found.lines:
        raise NotFound(f"there is no resource {uri}", hint="list the resources to see what is there")
    return _text(uri, found.text)


def _text(uri: str, text: str, kind: str = _MARKDOWN) -> TextResourceContents:
    return TextResourceContents(uri=uri, text=visible(clean_text(text)), mime_type=kind)
