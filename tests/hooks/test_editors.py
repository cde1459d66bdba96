"""Agents whose hooks can copy a conversation but tell the model nothing, and one whose plugin can."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hooks.calls import HANG, wait_until
from vademecum.agents import cline
from vademecum.agents.base import InstallTarget, OwnFile, Program

if TYPE_CHECKING:
    from pathlib import Path

    from hooks.calls import World

EXPORTED = {
    "working_dir": "/home/ada/api",
    "session_type": "user",
    "name": "Cranes",
    "conversation": [
        {"id": "g1", "role": "user", "content": [{"type": "text", "text": "What colour has the crane?"}]},
        {"id": "g2", "role": "assistant", "content": [{"type": "text", "text": "Teal."}]},
    ],
}
# goose, as far as our hook needs it: `goose session export --session-id ID --format json --output FILE`
GOOSE = """\
#!/bin/sh
"exec" "{python}" "$0" "$@"  # a path with a space can stand in no first line
import json, sys
given = dict(zip(sys.argv[3::2], sys.argv[4::2]))
assert sys.argv[1:3] == ["session", "export"] and given["--format"] == "json", sys.argv
session = json.loads({session!r})
with open(given["--output"], "w") as file:
    json.dump({{"id": given["--session-id"], **session}}, file, indent=2)
"""


def with_goose(world: World) -> str:
    """A PATH with that goose first."""
    program = world.person / "bin" / "goose"
    program.parent.mkdir(exist_ok=True)
    program.write_text(GOOSE.format(python=sys.executable, session=json.dumps(EXPORTED)))
    program.chmod(0o755)
    return f"{program.parent}{os.pathsep}{os.environ['PATH']}"


def conversation(world: World) -> list[tuple[str, str]]:
    """What the one copied session says."""
    wait_until(lambda: bool([each for each in world.memory().sessions.list(all=True) if each.messages]))
    memory = world.memory()
    (session,) = memory.sessions.list(all=True)
    return [(each.role.value, each.text) for each in memory.sessions.messages(session.id, all=True)]


def test_goose_exports_a_session_after_a_turn_and_the_export_is_copied(world: World) -> None:
    world.memory().store("The crane is teal", key="crane")
    given = {"event": "Stop", "session_id": "20261115_1", "working_dir": str(world.project)}
    said = world.call("goose", "stop", given, PATH=with_goose(world), XDG_DATA_HOME="")
    assert (said.code, said.out, said.err) == (0, b"", b"")
    assert conversation(world) == [("user", "What colour has the crane?"), ("assistant", "Teal.")]
    (exported,) = (world.person / ".local" / "share" / "goose" / "vade").iterdir()
    assert exported.name == "20261115_1.json"


def test_goose_that_cannot_export_hinders_nothing(world: World, tmp_path: Path) -> None:
    world.memory().store("The crane is teal", key="crane")
    path = with_goose(world)
    for session, environ in (
        ("../../secret", {"PATH": path}),
        ("", {"PATH": path}),
        ("20261115_1", {"PATH": str(tmp_path)}),
        ("20261115_1", {"PATH": path, "XDG_DATA_HOME": "/dev/null"}),
    ):
        said = world.call("goose", "stop", {"event": "Stop", "session_id": session}, **environ)
        assert (said.code, said.out, said.err) == (0, b"", b"")
    given = {"event": "Stop", "session_id": "20261115_2", "working_dir": str(world.project)}
    world.call("goose", "stop", given, PATH=path, XDG_DATA_HOME="")
    assert len(conversation(world)) == 2, "only the session that was exported is copied"
    assert not list(tmp_path.rglob("secret*"))


def test_windsurf_names_a_transcript_which_is_copied(world: World) -> None:
    world.memory().store("The crane is teal", key="crane")
    path = world.person / ".windsurf" / "transcripts" / "t-1.jsonl"
    path.parent.mkdir(parents=True)
    steps = (
        {
            "status": "done",
            "type": "user_input",
            "user_input": {"user_response": "What colour has the crane?"},
        },
        {"status": "done", "type": "planner_response", "planner_response": {"response": "Teal."}},
    )
    path.write_text("".join(json.dumps(each) + "\n" for each in steps))
    given = {
        "agent_action_name": "post_cascade_response_with_transcript",
        "trajectory_id": "t-1",
        "tool_info": {"transcript_path": str(path)},
    }
    said = world.call("windsurf", "stop", given)
    assert (said.code, said.out, said.err) == (0, b"", b"")
    assert conversation(world) == [("user", "What colour has the crane?"), ("assistant", "Teal.")]
    outside = world.person / "t-2.jsonl"
    outside.write_text(path.read_text())
    for info in ({"transcript_path": str(outside)}, {"transcript_path": 7}, "nonsense", None):
        assert world.call("windsurf", "stop", {**given, "tool_info": info}).code == 0
    assert len(world.memory().sessions.list(all=True)) == 1


def test_clines_plugin_gets_plain_text_and_its_session_is_copied(world: World) -> None:
    world.memory().store("The crane is teal", key="crane")
    said = world.call("cline", "session-start", {"session_id": "1_a", "source": "startup"})
    assert said.out.decode() == world.memory().injection.block().text
    path = world.person / ".cline" / "data" / "sessions" / "1_a" / "1_a.messages.json"
    path.parent.mkdir(parents=True)
    prompt = '<user_input mode="act">What colour has the crane?</user_input>'
    messages = [
        {"id": "m1", "role": "user", "content": [{"type": "text", "text": prompt}]},
        {"id": "m2", "role": "assistant", "content": [{"type": "text", "text": "Teal."}]},
    ]
    path.write_text(json.dumps({"version": 1, "sessionId": "1_a", "messages": messages}, indent=2))
    assert world.call("cline", "stop", {"session_id": "1_a", "transcript_path": str(path)}).code == 0
    assert conversation(world) == [("user", "What colour has the crane?"), ("assistant", "Teal.")]


# A `vade` whose first hook waits for a file, and Cline, which sends prompts until it hears the block.
SLOW = """\
import pathlib, sys, time
event = sys.argv[3]
while event == "session-start" and not pathlib.Path("go").exists():
    time.sleep(0.05)
print({"session-start": "BLOCK", "user-prompt": "RECORD"}.get(event, ""), end="")
"""
PLAY = """\
import { writeFileSync } from "node:fs"
import plugin from "./vade.mjs"
plugin.setup({}, { session: { sessionId: "1_a" }, workspaceInfo: { rootPath: process.cwd() } })
const prompt = { role: "user", content: [{ type: "text", text: "<user_input mode=act>hello</user_input>" }] }
const told = []
const ask = async (more) => {
  const answer = await plugin.hooks.beforeRun({ snapshot: { messages: [prompt], ...more } })
  told.push(answer ?? null)
}
await ask()
writeFileSync("go", "")
while (!JSON.stringify(told).includes("BLOCK")) await ask()
await ask({ parentAgentId: "a" })
console.log(JSON.stringify(told))
"""


@pytest.mark.full
@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_an_answer_that_is_too_late_for_cline_comes_with_a_later_prompt_once(tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(SLOW)
    where = InstallTarget("user", tmp_path, tmp_path, {})
    assert cline.AGENT.setup is not None
    parts = cline.AGENT.setup.parts(where, tmp_path, Program((sys.executable, str(slow))))
    (plugin,) = [each for each in parts if isinstance(each, OwnFile) and each.path.name == "vade.js"]
    (tmp_path / "vade.mjs").write_text(plugin.content)
    (tmp_path / "play.mjs").write_text(PLAY)
    done = subprocess.run(
        ["node", "play.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=HANG, check=True
    )
    first, *later, side = json.loads(done.stdout)
    assert first is None, "the first prompt does not wait for a hook that hangs"
    told = "\n".join(each["appendContext"] for each in later if each)
    assert told.count("BLOCK") == 1
    assert "RECORD" in told
    assert side is None, "an agent that Cline's agent starts is told nothing"
