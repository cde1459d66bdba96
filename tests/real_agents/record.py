"""`python -m real_agents.record RUN AGENT TRANSCRIPT`: what a run left, small enough to be a fixture.

RUN is the folder of a scenario (pytest's `--basetemp`). Paths of this machine become those of a made-up
person; long texts are cut, but for those that hold memory's own block.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[1] / "fixtures" / "agents"
_LONGEST = 300
_ASIDE = ("api-request", "world_state")  # large, and no part of a conversation
_HELD = ("vade-memory", "outcome")


def small(value: Any, top: str) -> Any:
    """A value with short texts and nobody's paths."""
    if isinstance(value, str):
        text = value.replace(top, "/home/ada").replace(top.replace("/", "-").replace("_", "-"), "-home-ada")
        kept = len(text) <= _LONGEST or any(each in text[:2000] for each in _HELD)
        return text if kept else f"{text[: _LONGEST // 2]} … {text[-40:]}"
    if isinstance(value, list):
        return [small(each, top) for each in value]
    if isinstance(value, dict):
        if str(value.get("type")).startswith(_ASIDE):
            value = {name: each for name, each in value.items() if len(json.dumps(each)) < _LONGEST}
        return {name: small(each, top) for name, each in value.items()}
    return value


def record(run: Path, agent: str, transcript: Path) -> None:
    """Write the transcript and what the hooks were given."""
    folder = FIXTURES / agent
    folder.mkdir(parents=True, exist_ok=True)
    text = transcript.read_text("utf-8")
    one = transcript.suffix == ".json"
    lines = [json.loads(text)] if one else [json.loads(each) for each in text.splitlines()]
    hooks = []
    for each in (run / "hooks.jsonl").read_text("utf-8").splitlines():
        call = json.loads(each)
        hooks.append({"event": call["words"][1], "in": json.loads(call["in"] or "{}")})
    for name, found in (("transcript.jsonl", lines), ("hooks.jsonl", hooks)):
        text = "".join(json.dumps(small(each, str(run)), ensure_ascii=False) + "\n" for each in found)
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
