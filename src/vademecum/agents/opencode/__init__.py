"""opencode: `opencode.json`, a plugin that calls our hooks, `AGENTS.md`, and exported sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.agents import base

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


_FILES = "vademecum.agents.opencode.files"


def _parts(where: base.InstallTarget, folder: Path, program: base.Program) -> list[base.Part]:
    """Return the parts to install; a project has its configuration in its root, plugins in `.opencode`."""
    top = folder if where.is_personal else where.project
    plugins = (folder if where.is_personal else where.project / ".opencode") / "plugin"
    with_comments = top / "opencode.jsonc"
    config = with_comments if with_comments.exists() else top / "opencode.json"
    text = Path(__file__).with_name("plugin.js").read_text("utf-8")
    entry = {"type": "local", "command": list(program.server), "enabled": True}
    return [
        base.JsonServer(config, entry, "mcp"),
        base.OwnFile(base.HOOKS, plugins / "vade.js", base.fill_plugin(text, program)),
        base.InstructionBlock(top / "AGENTS.md"),
    ]


def _root(where: base.InstallTarget, folder: Path) -> Path:
    """Return the home folder (in which `.config` may not exist yet), or for a project the project's root."""
    return where.root


def _read(raw: Mapping[str, Any], environ: Mapping[str, str]) -> base.HookInput:
    """Return the hook's fields; quotes that `opencode run` puts around a prompt are removed."""
    found = base.read_common(raw, environ)
    prompt = found.prompt
    quoted = len(prompt) > 1 and prompt[0] == prompt[-1] == '"'
    return found._replace(prompt=prompt[1:-1] if quoted else prompt)


AGENT = base.Agent(
    "opencode",
    hooks=base.Hooks(
        {
            base.HookEvent.SESSION_START: "chat.message",
            base.HookEvent.USER_PROMPT: "chat.message",
            base.HookEvent.PRE_COMPACT: "experimental.session.compacting",
            base.HookEvent.STOP: "session.idle",
        },
        {base.HookEvent.SESSION_END: "opencode does not notify plugins when it exits"},
        read=_read,
        render=lambda event, text: text,
        remembers=False,  # the system prompt is made by our plugin, which begins anew with each process
    ),
    setup=base.Setup(
        ("opencode",),
        ".config/opencode",
        _parts,
        headless_words=("run",),
        root_of=_root,
        note="restart opencode: it loads plugins and servers at startup; tools need no permission,"
        " unless `permission` in opencode.json says `ask`; `opencode run --continue` continues a session",
    ),
    instructions=base.InstructionFile(("AGENTS.md",)),
    transcripts=base.TranscriptFormat(
        "opencode",
        {".local/share/opencode/vade": "*.json"},
        base.lazy_function(_FILES, "recognises"),
        base.lazy_function(_FILES, "read"),
        moved=("XDG_DATA_HOME", ("opencode/vade",)),
        rank=3,
    ),
    model_command=base.ModelCommand(
        ("opencode", "run", "--pure"),
        environ={"OPENCODE_CONFIG_CONTENT": '{"tools": {"*": false}, "share": "disabled"}'},
    ),
    environment=base.Environment("opencode", ("OPENCODE", "OPENCODE_CLIENT")),
)
