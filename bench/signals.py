"""How well signals are told from chat, on the halves of two labelled sets that no rule was written from.

The second set is a hard one: months that are verbs, rules without "always", complaints that say it, German.
Its writer wrote the rules for it too; the third was written after these rules, about other things. The fourth
is German alone. The fifth was written last, in many voices: terse, polite, in small letters, with slips.

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

SETS = {
    name.strip("_") or "plain": Path(__file__).with_name(f"signals{name}.jsonl")
    for name in ("", "_hard", "_fresh", "_german", "_voices")
}


class Judged(NamedTuple):
    """What a message is labelled as, and what it was taken for."""

    label: str
    taken: str | None


def measure() -> list[dict[str, object]]:
    return [row for name, path in SETS.items() for row in _rows(name, path)]


def _rows(name: str, path: Path) -> list[dict[str, object]]:
    halves: dict[bool, list[Judged]] = {True: [], False: []}
    german: list[Judged] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        message = json.loads(line)
        found = signals.read_signals(message["text"]).signals
        judged = Judged(message["label"], str(found[0].kind) if found else None)
        half = held_out(message["text"])
        halves[half].append(judged)
        if half and message.get("language") == "de":
            german.append(judged)
    rows = [_row(name, "held out", "all", halves[True])]
    if german:
        rows.append(_row(name, "held out, German", "all", german))
    for label in sorted({each.label for each in halves[True]}):
        rows.append(_row(name, "held out", label, [each for each in halves[True] if each.label == label]))
    return [*rows, _row(name, "development", "all", halves[False])]


def held_out(text: str) -> bool:
    """Which half a message is in: by its own text, so that adding one moves no other."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 2 == 0


def _row(name: str, half: str, label: str, judged: list[Judged]) -> dict[str, object]:
    kinds = {str(kind) for kind in SignalKind}
    wanted = [each for each in judged if each.label in kinds]
    proposed = [each for each in judged if each.taken]
    right = [each for each in proposed if each.label in kinds]
    exact = [each for each in right if each.taken == each.label]
    whole = label == "all"
    return {
        "set": name,
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
