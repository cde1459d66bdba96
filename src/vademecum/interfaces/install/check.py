"""Whether what was installed works: its server and hooks are started as the agent starts them, and asked.

The commands are read back from the agent's own files, whatever has become of them since.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, Refused, VadeError
from vademecum.interfaces.install import json_edit
from vademecum.interfaces.install.runner import Installation, has_receipt, installed_parts, texts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vademecum.memory.values import Home

PATIENCE = 30.0  # seconds in which a server answers, on however busy a machine
_GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "vade-check", "version": "1"},
}
_HOOK = re.compile(r"vade.* hook (?P<agent>[\w-]+) (?P<event>[\w-]+)(?:\s|$)")
_REPORT = "run the command yourself to see what it says"


class Trial(NamedTuple):
    """One thing that was tried: how it went, and what to do when it went wrong."""

    agent: str
    what: str
    state: str  # ok, warning, error
    said: str
    hint: str = ""


class OwnCommands(NamedTuple):
    """The commands of ours that stand in an agent's files."""

    servers: list[tuple[tuple[str, ...], dict[str, str]]]
    hooks: dict[str, str]  # by event


def examine(one: Installation, home: Home) -> Iterator[Trial]:
    """Try what an agent has of ours; nothing when nothing was ever installed into it."""
    name, again = one.agent.name, f"vade install {one.agent.name}"
    again += "" if one.where.is_personal else " --scope project"
    known = has_receipt(home, one)
    try:
        parts = installed_parts(one)
        found = _found(one)
    except (Malformed, Refused, OSError) as error:
        if known:
            yield Trial(name, "files", "error", str(error), "fix it with any editor")
        return
    troubles = list(_missing(parts, name, again, known=known))
    yield from troubles
    if not any(parts.values()):
        return
    for words, environ in found.servers[:1]:
        yield Trial(name, "server", *_try_server(words, environ, again))
    for event, command in found.hooks.items():
        yield Trial(name, event, *_try_hook(command, again))


def _missing(parts: Mapping[str, bool | None], name: str, again: str, *, known: bool) -> Iterator[Trial]:
    """What should be in an agent's files and is not."""
    missing = sorted(what for what, state in parts.items() if state is False)
    if not any(parts.values()):
        said = "its files no longer contain what was installed"
        yield from (
            [Trial(name, "files", "warning", said, f"{again}, or vade uninstall {name}")] if known else []
        )
    elif missing:
        said = f"partly installed: no {' and no '.join(missing)} in its files"
        yield Trial(name, "files", "warning", said, again)


# -------------------------------------------------------------------- what stands in the files


def _found(one: Installation) -> OwnCommands:
    found = OwnCommands([], {})
    for path, text in texts_of(one):
        if path.suffix == ".toml":
            _walk(_toml(text), one.agent.name, found)
        elif path.suffix in (".json", ".jsonc"):
            _walk(json_edit.parse(text).value if text.strip() else {}, one.agent.name, found)
    return found


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Malformed(f"not TOML: {error}") from None


def _walk(value: object, agent: str, found: OwnCommands) -> None:
    """Find our commands, however deep an agent has them."""
    inside: Iterable[object] = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        _take(value, agent, found)
        inside = value.values()
    for each in inside:
        _walk(each, agent, found)


def _take(entry: Mapping[str, Any], agent: str, found: OwnCommands) -> None:
    """The command of one entry, if it is ours."""
    words = _words(entry)
    if "mcp" in words and any("vade" in each for each in words):
        found.servers.append((words, _texts(entry.get("env") or entry.get("environment"))))
    match = _HOOK.search(words[0]) if len(words) == 1 else None
    if match and match["agent"] == agent:
        found.hooks.setdefault(match["event"], words[0])


def _words(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The words of a server's command: a program with arguments, or a list of both."""
    command, more = entry.get("command"), entry.get("args")
    words = [command] if isinstance(command, str) else command
    given = more if isinstance(more, list) else []
    return tuple(map(str, [*words, *given])) if isinstance(words, list) else ()


def _texts(given: object) -> dict[str, str]:
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}


# -------------------------------------------------------------------- trying it


def _try_server(words: tuple[str, ...], environ: dict[str, str], again: str) -> tuple[str, str, str]:
    """Start the server, greet it, ask for its tools, and let it go."""
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environ},
        )
    except OSError as error:
        return "error", f"the server cannot be started: {error.strerror or error}", again
    late = threading.Timer(PATIENCE, process.kill)
    late.start()
    try:
        tools = _ask(process)
    except (OSError, ValueError, KeyError, TypeError):
        return "error", "the server gave no valid answer", _REPORT
    finally:
        late.cancel()
        process.kill()
        process.communicate()
    return "ok", f"the server works, {tools} tools", ""


def _ask(process: subprocess.Popen[bytes]) -> int:
    """How many tools a server names."""
    assert process.stdin is not None
    assert process.stdout is not None
    for line in (
        {"id": 1, "method": "initialize", "params": _GREETING},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
    process.stdin.flush()
    while True:
        answer = json.loads(process.stdout.readline())
        if answer.get("id") == 2:
            return len(answer["result"]["tools"])


def _try_hook(command: str, again: str) -> tuple[str, str, str]:
    """Run a hook as a shell of the agent does, for no session and without anything to keep."""
    given = json.dumps({"cwd": os.getcwd(), "hook_event_name": "check"}).encode()
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command, shell=True, input=given, capture_output=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "error", f"the hook does not finish: {type(error).__name__}", _REPORT
    if done.returncode in (126, 127):
        return "error", "the hook's program cannot be started", again
    if done.returncode or done.stderr:
        return "error", f"the hook failed with {done.returncode}", _REPORT
    slow = time.monotonic() - begun > 5
    return ("warning", "the hook works, but took more than 5 s", "") if slow else ("ok", "the hook works", "")


def tell(trial: Trial) -> str:
    """A trial in a line."""
    hint = f"  →  {trial.hint}" if trial.hint else ""
    return f"{trial.what}: {trial.said}{hint}"


def failed(error: VadeError, name: str) -> Trial:
    """What could not even be installed."""
    return Trial(name, "install", "error", str(error), error.hint)
