"""Anthropic's memory tool over Vademecum: what Claude keeps under `/memories` a person can read.

Needs no network: the commands are those that Claude sends. With a key, hand the tool to the SDK's runner:

    client.beta.messages.tool_runner(model=..., max_tokens=..., messages=[...], tools=[tool])

    pip install "vademecum[anthropic]"
    python examples/claude_memory_tool.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

try:
    from anthropic.lib.tools import ToolError
except ModuleNotFoundError as error:
    raise SystemExit(f"{error.name} is not installed: pip install 'vademecum[anthropic]'") from None

from vademecum import Memory
from vademecum.adapters.anthropic_memory import MemoryTool

COMMANDS = [
    {"command": "view", "path": "/memories"},
    {
        "command": "create",
        "path": "/memories/customers/acme.md",
        "file_text": "Acme pays by invoice.\nContact: Ione",
    },
    {
        "command": "str_replace",
        "path": "/memories/customers/acme.md",
        "old_str": "invoice",
        "new_str": "card since May",
    },
    {
        "command": "insert",
        "path": "/memories/customers/acme.md",
        "insert_line": 2,
        "insert_text": "Ships on Mondays.",
    },
    {"command": "view", "path": "/memories/customers/acme.md"},
    {"command": "view", "path": "/memories/../../etc/passwd"},
    {"command": "rename", "old_path": "/memories/customers/acme.md", "new_path": "/memories/acme.md"},
    {"command": "delete", "path": "/memories/acme.md"},
]


def main() -> None:
    """Do what Claude asks for, and show that nothing it deletes is gone."""
    with tempfile.TemporaryDirectory() as folder, Memory.open(Path(folder, "home"), cwd=folder) as memory:
        tool = MemoryTool(memory)
        for command in COMMANDS:
            try:
                print(tool.call(command))
            except ToolError as error:  # the SDK's runner sends it back with `is_error`
                print(error)
        print("restored:", memory.restore("acme").text.splitlines()[0])


if __name__ == "__main__":
    main()
