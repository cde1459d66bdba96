"""Status: what is here, and what needs attention."""

from __future__ import annotations

from typing import Any

from vademecum.interfaces.http.pages import Ask, PageView
from vademecum.interfaces.present.to_json import standing_json


def data(ask: Ask) -> dict[str, Any]:
    """The status of memory, as `vade status --json` tells it."""
    return standing_json(ask.memory.status(), warnings=[])


VIEW = PageView("/status", "Status", data, "status.html", icon="info")
