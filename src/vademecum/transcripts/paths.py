"""Where the logs of sessions are, and the ids of sessions that were imported from agents."""

from __future__ import annotations

import hashlib
import json

FOLDER = "transcripts"
ENDING = ".jsonl"


def imported_id(format: str, id: str) -> str:
    """Return the id of an imported session, made from the agent's own id for it."""
    encoded = json.dumps([id]).encode()
    return f"{format}-{hashlib.sha256(format.encode() + encoded).hexdigest()[:16]}"
