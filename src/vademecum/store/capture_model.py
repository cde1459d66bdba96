"""The language model that reads sessions after their end: a person's consent to it, and its spent tokens.

Each is a small file in `heard/` of the home. The consent names the model and its address: another model, or
the same model at another address, needs another consent.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from vademecum.store.heard import FOLDER
from vademecum.text import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.store.home import Home

_CONSENT, _SPENT = "model-consent.json", "model-spent.json"


def give_consent(home: Home, model: str, *, at: str, by: str) -> None:
    """Save that a person allowed a model, named with its address, to read sessions; '' allows none."""
    _write(home, _CONSENT, {"model": model, "at": at, "by": by})


def has_consent(home: Home, model: str) -> bool:
    """Whether a person allowed this model, named with its address, to read sessions."""
    return bool(model) and _read(home, _CONSENT).get("model") == model


def tokens_spent(home: Home, day: str) -> int:
    """Return how many tokens were spent on a day."""
    found = _read(home, _SPENT)
    spent = found.get("tokens")
    return spent if found.get("day") == day and isinstance(spent, int) else 0


@contextlib.contextmanager
def spending(home: Home, tokens: int, *, limit: int) -> Iterator[list[int]]:
    """Reserve tokens of the day's limit, and yield a list with their number, empty when too few are left.

    The caller replaces the number by the tokens that were really spent. After a failure the whole reservation
    counts, since the provider may have counted it.
    """
    day = clock.stamp(clock.now())[:10]
    with home.lock(f"{FOLDER}/{_SPENT}"):
        spent = tokens_spent(home, day)
        reserved = [tokens] if spent + tokens <= limit else []
        if reserved:
            _write(home, _SPENT, {"day": day, "tokens": spent + tokens})
    try:
        yield reserved
    finally:
        if reserved and reserved[0] != tokens:
            with home.lock(f"{FOLDER}/{_SPENT}"):
                if _read(home, _SPENT).get("day") == day:  # else another day has begun, with its own count
                    spent = max(0, tokens_spent(home, day) + reserved[0] - tokens)
                    _write(home, _SPENT, {"day": day, "tokens": spent})


def _read(home: Home, name: str) -> dict[str, Any]:
    try:
        found = json.loads(home.read(FOLDER, name) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(home: Home, name: str, content: dict[str, Any]) -> None:
    with home.folder(FOLDER, create=True) as folder:
        folder.update(name, lambda _: json.dumps(content).encode())
