"""How well what is worth saving is told from chat, on labelled sets of our own.

Each of the five old sets is read twice: by the judge, which reads people's messages, and by the cues, which
read notes and other languages. They hold single sentences that state something, and real messages are not
like that: `tools/fit_judge.py` measures on real ones. The set of pasted messages says how often a message is
proposed for words that its sender only pasted.

Prints numbers alone. A proposal is right when the message is one of the five kinds; *exact* counts those of
them whose kind is the labelled one.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from vademecum.knowledge import judge, signals
from vademecum.knowledge.judge import SignalKind

SETS = {
    name.strip("_") or "plain": Path(__file__).with_name(f"signals{name}.jsonl")
    for name in ("", "_hard", "_fresh", "_german", "_voices")
}


PASTED = Path(__file__).parent / "sets" / "pasted.jsonl"
KINDS = frozenset(map(str, SignalKind))  # the labels of what is worth saving
READERS = {"judge": judge.read_signals, "cues": signals.read_cues}


class Judged(NamedTuple):
    """What a message is labelled as, and what it was taken for."""

    label: str
    taken: str | None


def measure() -> list[dict[str, object]]:
    rows = [row for reader in READERS for name, path in SETS.items() for row in _rows(reader, name, path)]
    return [*rows, _pasted_row("held"), _pasted_row("tuned")]


def _pasted_row(half: str) -> dict[str, object]:
    """Return how messages with pasted parts are judged, and for whose words they are proposed."""
    messages = proposed = right = pasted = wanted = 0
    for row in map(json.loads, PASTED.read_text(encoding="utf-8").splitlines()):
        if row["half"] != half:
            continue
        found = judge.read_signals(
            "\n\n".join(text for part in row["parts"] for text in part.values())
        ).signals
        typed = " ".join(" ".join(part.get("typed", "") for part in row["parts"]).split())
        messages, wanted = messages + 1, wanted + row["worth"]
        proposed += bool(found)
        right += bool(found) and row["worth"]
        pasted += any(each.text not in typed for each in found)
    return {
        "reader": "judge",
        "set": "pasted",
        "half": "held out" if half == "held" else "development",
        "label": "all",
        "messages": messages,
        "proposed": proposed,
        "precision": _share(right, proposed),
        "recall": _share(right, wanted),
        "exact kind": "-",
        "pasted words": pasted,
    }


def _rows(reader: str, name: str, path: Path) -> list[dict[str, object]]:
    halves: dict[bool, list[Judged]] = {True: [], False: []}
    german: list[Judged] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        message = json.loads(line)
        found = READERS[reader](message["text"]).signals
        judged = Judged(message["label"], str(found[0].kind) if found else None)
        half = held_out(message["text"])
        halves[half].append(judged)
        if half and message.get("language") == "de":
            german.append(judged)
    rows = [_row(reader, name, "held out", "all", halves[True])]
    if german:
        rows.append(_row(reader, name, "held out, German", "all", german))
    for label in sorted({each.label for each in halves[True]}):
        rows.append(
            _row(reader, name, "held out", label, [each for each in halves[True] if each.label == label])
        )
    return [*rows, _row(reader, name, "development", "all", halves[False])]


def held_out(text: str) -> bool:
    """Which half a message is in: by its own text, so that adding one moves no other."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 2 == 0


def _row(reader: str, name: str, half: str, label: str, judged: list[Judged]) -> dict[str, object]:
    wanted = [each for each in judged if each.label in KINDS]
    proposed = [each for each in judged if each.taken]
    right = [each for each in proposed if each.label in KINDS]
    exact = [each for each in right if each.taken == each.label]
    whole = label == "all"
    return {
        "reader": reader,
        "set": name,
        "half": half,
        "label": label,
        "messages": len(judged),
        "proposed": len(proposed),
        "precision": _share(len(right), len(proposed)) if whole else "-",
        "recall": _share(len(right), len(wanted)),
        "exact kind": _share(len(exact), len(right)),
        "pasted words": "-",
    }


def _share(part: int, of: int) -> float | str:
    return round(part / of, 3) if of else "-"
