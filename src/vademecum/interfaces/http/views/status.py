"""Status: the content of memory, and what needs attention."""

from __future__ import annotations

from typing import Any

from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.present.to_json import standing_json


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the status of memory, as in `vade status --json`."""
    return standing_json(ask.memory.status(), warnings=[])


VIEW = PageView("/status", "Status", data, "status.html", icon="info")
