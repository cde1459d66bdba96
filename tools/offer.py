"""Write what `vade mcp` answers before memory is needed to `src/vademecum/interfaces/mcp/offer.json`.

python -m tools.offer            writes it
python -m tools.offer --check    fails when what is there is not what would be written
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from vademecum.agents import base, registry
from vademecum.interfaces.mcp.protocol import OFFER
from vademecum.interfaces.mcp.server import offer
from vademecum.interfaces.tools.declaration import read_text


def rendered() -> str:
    """The file as it should be: one line for each thing that is offered."""
    values = {"instructions": read_text("installed"), "clients": _instructed()}
    return f"{_lines({**offer(), 'installed': values})}\n"


def _instructed() -> list[str]:
    """The agents that are installed with an instruction file: what it says is not told them again."""
    setups = {name: each.setup for name, each in registry.having("setup").items()}
    return sorted(
        name for name, setup in setups.items() if setup and base.INSTRUCTION_KIND not in setup.missing
    )


def _lines(value: Any, depth: int = 0) -> str:
    if not isinstance(value, dict) or depth > 1:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    inner = ",\n".join(f"{json.dumps(name)}:{_lines(each, depth + 1)}" for name, each in value.items())
    return f"{{\n{inner}\n}}"


def main() -> None:
    """Write, or with `--check` only look."""
    path = Path(OFFER)
    there = path.read_text("utf-8") if path.exists() else ""
    if "--check" in sys.argv[1:]:
        sys.exit(there != rendered() and "offer.json is not what is offered: run `python -m tools.offer`")
    path.write_text(rendered(), "utf-8")


if __name__ == "__main__":
    main()
