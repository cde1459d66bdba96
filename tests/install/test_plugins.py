"""Plugins that are installed into agents, run by Node with the agent's side of the plugin's interface."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tools import claude_plugin

from hooks.calls import wait_until
from vademecum.interfaces.cli.app import run
from vademecum.memory import connect
from vademecum.transcripts import Role
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

# Amp, as far as the plugin knows it: two turns of one thread, of which it is given a page at a time.
AMP = """
import plugin from "./vade.mjs"
const handlers = {}
const system = { workspaceRoot: new URL(process.argv[2]) }
plugin({ on: (event, handler) => (handlers[event] = handler), system })
const thread = { id: "T-1" }
const said = (role, id, ...content) => ({ role, id, content })
const text = (text) => ({ type: "text", text })
const messages = []
const ctx = { thread: {
  id: thread.id, parentThreadID: async () => null, title: { get: async () => "Staging" },
  messages: async ({ offset, limit }) => messages.slice(offset, offset + limit),
} }
const answers = []
for (const prompt of ["Which port has staging?", "Which port has staging, again?"]) {
  const answer = await handlers["agent.start"]({ thread, message: prompt, id: messages.length }, ctx)
  answers.push(answer.message?.content || "")
  messages.push(said("user", messages.length, text(prompt), text(answers.at(-1))))
  for (let n = 0; n < 12; n++) messages.push(said("assistant", messages.length, text(`answer ${n}`)))
  await handlers["agent.end"]({ thread, message: prompt, id: 0, status: "done", messages }, ctx)
}
const subagent = { ...ctx.thread, parentThreadID: async () => "T-1" }
await handlers["agent.end"]({ thread: { id: "T-2" }, messages }, { thread: subagent })
console.log(JSON.stringify(answers))
"""


@pytest.mark.full
@pytest.mark.skipif(shutil.which("node") is None, reason="a plugin is JavaScript, which Node runs")
def test_amps_plugin_adds_memory_to_prompts_and_saves_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person, project = tmp_path / "person", tmp_path / "project"
    for folder in (person, project / ".git"):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.setenv("VADE_LIMITS_HOOK", "60s")
    monkeypatch.chdir(project)
    run(["add", "The staging database lives on port 5544", "--key", "staging"])
    run(["install", "amp"])
    shutil.copy(person / ".config/amp/plugins/vade.ts", tmp_path / "vade.mjs")
    (tmp_path / "amp.mjs").write_text(AMP)
    words = ["node", str(tmp_path / "amp.mjs"), project.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ})
    first, second = json.loads(done.stdout)
    assert "5544" in first
    assert "5544" not in second, "a thread gets a record once"
    saved: Any = json.loads((person / ".local/share/amp/vade/T-1.json").read_text())
    assert len(saved["messages"]) == 26
    assert all(each["time"] for each in saved["messages"])
    assert not (person / ".local/share/amp/vade/T-2.json").exists(), "a subagent's thread is not saved"
    memory = connect(cwd=project, origin=Origin.USER)
    wait_until(lambda: [each.messages for each in memory.sessions.list()] == [26])
    (session,) = memory.sessions.list()
    assert session.name == "Staging"
    messages = list(memory.sessions.messages(session.id))
    prompts = [each for each in messages if each.role is Role.USER]
    assert prompts[0].parts[0].text == "Which port has staging?"  # type: ignore[union-attr]  # a text
    assert not any("5544" in each.text for each in messages), "memory's own block is in the copy"


def test_the_plugin_of_claude_code_is_the_one_that_is_generated() -> None:
    for name, content in claude_plugin.rendered().items():
        path = claude_plugin.ROOT / name
        assert path.read_text("utf-8") == content, "run `python -m tools.claude_plugin`"
    made = {os.fspath(each.relative_to(claude_plugin.ROOT)) for each in _files(claude_plugin.ROOT)}
    assert made == set(claude_plugin.rendered())


def _files(root: Path) -> list[Path]:
    folders = (root / ".claude-plugin", root / claude_plugin.PLUGIN)
    return [each for folder in folders for each in folder.rglob("*") if each.is_file()]
