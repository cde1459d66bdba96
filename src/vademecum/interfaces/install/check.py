"""Check whether an installation works: start its server and hooks as the agent does, and read their answers.

The commands are read from the agent's own files, so that later changes to the files are checked, too.
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
from vademecum.interfaces.install import json_edit, yaml_edit
from vademecum.interfaces.install.runner import Installation, has_receipt, installed_parts, texts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vademecum.memory.values import Home

PATIENCE = 30.0  # seconds in which a server must answer, even on a busy machine
_GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "vade-check", "version": "1"},
}
_HOOK = re.compile(r"vade.* hook (?P<agent>[\w-]+) (?P<event>[\w-]+)(?:\s|$)")
_REPORT = "run the command yourself to see what it says"


class CheckResult(NamedTuple):
    """The result of one check, and the remedy if the check failed."""

    agent: str
    what: str
    state: str  # ok, warning, error
    said: str
    hint: str = ""


class OwnCommands(NamedTuple):
    """The commands of vademecum that are in an agent's files."""

    servers: list[tuple[tuple[str, ...], dict[str, str]]]
    hooks: dict[str, str]  # by event


def check_agent(one: Installation, home: Home) -> Iterator[CheckResult]:
    """Try the server and hooks of vademecum that an agent's files name, and yield the results.

    Yield nothing if nothing was ever installed into this agent.
    """
    name, install_command = one.agent.name, f"vade install {one.agent.name}"
    install_command += "" if one.where.is_personal else " --scope project"
    known = has_receipt(home, one)
    try:
        parts = installed_parts(one)
        commands = _read_commands(one)
    except (Malformed, Refused, OSError) as error:
        if known:
            yield CheckResult(name, "files", "error", str(error), "fix it with any editor")
        return
    troubles = list(_missing(parts, name, install_command, known=known))
    yield from troubles
    if not any(parts.values()):
        return
    for words, environ in commands.servers[:1]:
        yield CheckResult(name, "server", *_try_server(words, environ, install_command))
    for event, command in commands.hooks.items():
        yield CheckResult(name, event, *_try_hook(command, install_command))


def _missing(
    parts: Mapping[str, bool | None], name: str, again: str, *, known: bool
) -> Iterator[CheckResult]:
    """Yield a warning if parts of the installation are missing in an agent's files."""
    missing = sorted(what for what, state in parts.items() if state is False)
    if not any(parts.values()):
        message = "its files no longer contain what was installed"
        yield from (
            [CheckResult(name, "files", "warning", message, f"{again}, or vade uninstall {name}")]
            if known
            else []
        )
    elif missing:
        message = f"partly installed: no {' and no '.join(missing)} in its files"
        yield CheckResult(name, "files", "warning", message, again)


# -------------------------------------------------------------------- reading the files


def _read_commands(one: Installation) -> OwnCommands:
    found = OwnCommands([], {})
    for path, text in texts_of(one):
        if path.suffix == ".toml":
            _walk(_toml(text), one.agent.name, found)
        elif path.suffix in (".json", ".jsonc"):
            _walk(json_edit.parse(text).value if text.strip() else {}, one.agent.name, found)
        elif path.suffix == ".yaml":
            _walk(yaml_edit.parse(text), one.agent.name, found)
    return found


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Malformed(f"not TOML: {error}") from None


def _walk(value: object, agent: str, found: OwnCommands) -> None:
    """Add all commands of vademecum in a parsed file to `found`, at any depth of the file."""
    inside: Iterable[object] = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        _add_command(value, agent, found)
        inside = value.values()
    for each in inside:
        _walk(each, agent, found)


def _add_command(entry: Mapping[str, Any], agent: str, found: OwnCommands) -> None:
    """Add the command of an entry in an agent's file to `found` if it is a command of vademecum."""
    words = _words(entry)
    if "mcp" in words and any("vade" in each for each in words):
        environ = entry.get("env") or entry.get("environment") or entry.get("envs")
        found.servers.append((words, _texts(environ)))
    match = _HOOK.search(words[0]) if len(words) == 1 else None
    if match and match["agent"] == agent:
        found.hooks.setdefault(match["event"], words[0])


def _words(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a server's command as a list of words, whichever way its entry spells it."""
    command, more = entry.get("command", entry.get("cmd")), entry.get("args")
    words = [command] if isinstance(command, str) else command
    given = more if isinstance(more, list) else []
    return tuple(map(str, [*words, *given])) if isinstance(words, list) else ()


def _texts(given: object) -> dict[str, str]:
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}


# -------------------------------------------------------------------- running the commands


def _try_server(words: tuple[str, ...], environ: dict[str, str], again: str) -> tuple[str, str, str]:
    """Start a server, ask it for its tools, and stop it; return state, message and remedy."""
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
        tools = _count_tools(process)
    except (OSError, ValueError, KeyError, TypeError):
        return "error", "the server gave no valid answer", _REPORT
    finally:
        late.cancel()
        process.kill()
        process.communicate()
    return "ok", f"the server works, {tools} tools", ""


def _count_tools(process: subprocess.Popen[bytes]) -> int:
    """Do the handshake with a started server, and return the number of tools that it lists."""
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


_PATIENT = {"VADE_LIMITS_HOOK_START": "9s", "VADE_LIMITS_HOOK_PROMPT": "9s"}


def _try_hook(command: str, again: str) -> tuple[str, str, str]:
    """Run a hook in a shell as the agent does, but without a session; return state, message and remedy."""
    hook_input = json.dumps({"cwd": os.getcwd(), "hook_event_name": "check"}).encode()
    started = time.monotonic()
    try:
        completed = subprocess.run(
            command,
            shell=True,
            input=hook_input,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, **_PATIENT},  # a check at a busy moment does not count as a late hook
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "error", f"the hook does not finish: {type(error).__name__}", _REPORT
    if completed.returncode in (126, 127):
        return "error", "the hook's program cannot be started", again
    if completed.returncode or completed.stderr:
        return "error", f"the hook failed with {completed.returncode}", _REPORT
    slow = time.monotonic() - started > 5
    return ("warning", "the hook works, but took more than 5 s", "") if slow else ("ok", "the hook works", "")


def format_result(trial: CheckResult) -> str:
    """Return the result of a check as a line of text."""
    hint = f"  →  {trial.hint}" if trial.hint else ""
    return f"{trial.what}: {trial.said}{hint}"


def failed_install(error: VadeError, name: str) -> CheckResult:
    """Return the error of a failed installation as the result of a check."""
    return CheckResult(name, "install", "error", str(error), error.hint)
