"""How well signals are told from chat, on the half of the labelled set that no rule was written from.

Prints numbers alone. A proposal is right when the message is one of the five kinds; *exact* counts those of
them whose kind is the labelled one. The other half is shown below: how far the two differ is how much was
learned by heart.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from vademecum.knowledge import signals
from vademecum.knowledge.signals import SignalKind

SET = Path(__file__).with_name("signals.jsonl")


class Judged(NamedTuple):
    """What a message is labelled as, and what it was taken for."""

    label: str
    taken: str | None


def measure() -> list[dict[str, object]]:
    halves: dict[bool, list[Judged]] = {True: [], False: []}
    for line in SET.read_text(encoding="utf-8").splitlines():
        message = json.loads(line)
        found = signals.read_signals(message["text"]).signals
        halves[held_out(message["text"])].append(
            Judged(message["label"], str(found[0].kind) if found else None)
        )
    rows = [_row("held out", "all", halves[True])]
    for label in sorted({each.label for each in halves[True]}):
        rows.append(_row("held out", label, [each for each in halves[True] if each.label == label]))
    return [*rows, _row("development", "all", halves[False])]


def held_out(text: str) -> bool:
    """Which half a message is in: by its own text, so that adding one moves no other."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 2 == 0


def _row(half: str, label: str, judged: list[Judged]) -> dict[str, object]:
    kinds = {str(kind) for kind in SignalKind}
    wanted = [each for each in judged if each.label in kinds]
    proposed = [each for each in judged if each.taken]
    right = [each for each in proposed if each.label in kinds]
    exact = [each for each in right if each.taken == each.label]
    whole = label == "all"
    return {
        "half": half,
        "label": label,
        "messages": len(judged),
        "proposed": len(proposed),
        "precision": _share(len(right), len(proposed)) if whole else "-",
        "recall": _share(len(right), len(wanted)),
        "exact kind": _share(len(exact), len(right)),
    }


def _share(part: int, of: int) -> float | str:
    return round(part / of, 3) if of else "-"
