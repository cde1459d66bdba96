"""Write what `vade mcp` answers before memory is needed to `src/vademecum/interfaces/mcp/offer.json`.

python -m tools.offer            writes it
python -m tools.offer --check    fails when what is there is not what would be written
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from vademecum.interfaces.mcp.protocol import OFFER
from vademecum.interfaces.mcp.server import offer


def rendered() -> str:
    """The file as it should be: one line for each thing that is offered."""
    return f"{_lines(offer())}\n"


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
