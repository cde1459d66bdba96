"""Write the plugin of Claude Code, `plugins/claude-code`, and the marketplace that names it.

python -m tools.claude_plugin            writes the files
python -m tools.claude_plugin --check    fails when a file is not what would be written

The events, time limits, instruction and version come from the package, so that the plugin and `vade install
claude-code` are the same. Its commands name `vade` without a path, which therefore has to be on `PATH`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from vademecum import __version__
from vademecum.agents import base, claude_code

ROOT = Path(__file__).parents[1]
PLUGIN = "plugins/claude-code"
NAME = "vademecum"
_AUTHOR = {"name": "Vademecum contributors"}
_DESCRIPTION = "Long-term memory for Claude Code, in plain Markdown files that you can read and edit"
_SKILL = f"""\
---
name: memory
description: >-
  Long-term memory that outlives this session. Use it before you ask or guess about earlier decisions,
  preferences, fixes and places, and when something is worth remembering.
---

{base.INSTRUCTION}"""


def rendered() -> dict[str, str]:
    """Return the content of each file, by its path below the root of the repository."""
    program = base.Program(("vade",), client=claude_code.AGENT.name)
    assert claude_code.AGENT.hooks is not None
    hooks = {
        name: [base.wrapped_command(program.hook(claude_code.AGENT.name, event))]
        for event, name in claude_code.AGENT.hooks.moments.items()
    }
    described = {"name": NAME, "description": _DESCRIPTION}
    plugin = {**described, "version": __version__, "author": _AUTHOR, "license": "Apache-2.0"}
    marketplace = {
        "name": NAME,
        "description": _DESCRIPTION,
        "owner": _AUTHOR,
        "plugins": [{**described, "source": f"./{PLUGIN}"}],
    }
    return {
        ".claude-plugin/marketplace.json": _json(marketplace),
        f"{PLUGIN}/.claude-plugin/plugin.json": _json(plugin),
        f"{PLUGIN}/.mcp.json": _json({"mcpServers": {base.NAME: program.entry}}),
        f"{PLUGIN}/hooks/hooks.json": _json({"description": _DESCRIPTION, "hooks": hooks}),
        f"{PLUGIN}/skills/memory/SKILL.md": _SKILL,
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def main() -> None:
    """Write the files, or with `--check` only compare them."""
    for name, content in rendered().items():
        path = ROOT / name
        if "--check" not in sys.argv[1:]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, "utf-8")
        elif not path.exists() or path.read_text("utf-8") != content:
            sys.exit(f"{name} is not what the package says: run `python -m tools.claude_plugin`")


if __name__ == "__main__":
    main()
