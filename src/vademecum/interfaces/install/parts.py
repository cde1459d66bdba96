"""How what an agent's description names gets into its files: a server, hooks, a word to the agent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.agents.base import (
    HOOKS,
    INSTRUCTION,
    NAME,
    SERVER,
    WORDS,
    HookList,
    JsonServer,
    OwnFile,
    TomlServer,
    Words,
)
from vademecum.errors import Collision, Malformed
from vademecum.interfaces.install import json_edit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from vademecum.agents.base import Agent, Part, Program

BEGIN, END = "<!-- vade:begin -->", "<!-- vade:end -->"


class ConfigEdit(NamedTuple):
    """One thing in one file: how it gets in, how it gets out again, and whether it is there."""

    what: str
    path: Path
    put: Callable[[str], str]
    take: Callable[[str], str]
    there: Callable[[str], bool]


def edit_of(part: Part, agent: Agent, program: Program) -> ConfigEdit:
    """A part of an agent's description, as it is put into its file."""
    match part:
        case JsonServer(path, entry):
            return _server(path, entry)
        case TomlServer(path, command):
            return _toml_server(path, command)
        case HookList():
            return _hooks(part, agent, program)
        case OwnFile(what, path, content):
            return _own_file(what, path, content)
        case Words(path):
            return _words(path)


# -------------------------------------------------------------------- the server


def _server(path: Path, value: Mapping[str, Any]) -> ConfigEdit:
    """Our server among an agent's, in JSON."""
    keys = ("mcpServers", NAME)

    def put(text: str) -> str:
        found = json_edit.find(json_edit.parse(text), keys) if text.strip() else None
        if found is not None and not _is_ours(found.value):
            raise Collision(
                f"{path} has another server named {NAME}", hint="rename it there, and install again"
            )
        return json_edit.put(text, keys, dict(value))

    def take(text: str) -> str:
        return _pruned(json_edit.take(text, keys), keys[:-1]) if there(text) else text

    def there(text: str) -> bool:
        found = json_edit.find(json_edit.parse(text), keys)
        return found is not None and _is_ours(found.value)

    return ConfigEdit(SERVER, path, put, take, there)


def _toml_server(path: Path, command: tuple[str, ...]) -> ConfigEdit:
    """Our server in Codex's `config.toml`."""

    def put(text: str) -> str:
        import tomlkit

        document = _toml(text)
        servers = _servers(document)
        own = servers.get(NAME)
        if own is not None and not _is_ours(own):
            raise Collision(
                f"{path} has another server named {NAME}", hint="rename it there, and install again"
            )
        if own is None and isinstance(servers, tomlkit.items.InlineTable):
            own = servers[NAME] = tomlkit.inline_table()
            own = servers[NAME]
        elif own is None:
            table = tomlkit.table()
            table["command"], table["args"] = command[0], [*command[1:]]
            table.add(tomlkit.nl())
            servers[NAME] = table
            return tomlkit.dumps(document)
        if own.get("command") != command[0] or own.get("args") != [*command[1:]]:
            own["command"], own["args"] = command[0], [*command[1:]]
        return tomlkit.dumps(document)

    def take(text: str) -> str:
        import tomlkit

        if not there(text):
            return text
        document = _toml(text)
        servers = _servers(document)
        del servers[NAME]
        if not servers and isinstance(servers, tomlkit.items.Table) and servers.is_super_table():
            del document["mcp_servers"]
        return tomlkit.dumps(document)

    def there(text: str) -> bool:
        servers: Any = _toml(text).get("mcp_servers")
        return isinstance(servers, dict) and _is_ours(servers.get(NAME))

    return ConfigEdit(SERVER, path, put, take, there)


def _servers(document: Any) -> Any:
    """The table of servers, made where there is none."""
    import tomlkit

    if "mcp_servers" not in document:
        document["mcp_servers"] = tomlkit.table(is_super_table=True)
    servers = document["mcp_servers"]
    if not isinstance(servers, dict):
        raise Malformed("mcp_servers is not a table")
    return servers


def _toml(text: str) -> Any:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        line = getattr(error, "line", "?")
        raise Malformed(
            f"line {line} is not TOML", hint="mend it with any editor; nothing was changed"
        ) from None


def _is_ours(value: object) -> bool:
    arguments = value.get("args") if isinstance(value, dict) else None
    return isinstance(arguments, list) and "mcp" in arguments


# -------------------------------------------------------------------- the hooks


def _hooks(part: HookList, agent: Agent, program: Program) -> ConfigEdit:
    """Our hooks among an agent's."""
    moments = agent.hooks.moments if agent.hooks is not None else {}
    wanted = {name: (event, part.wrapped(program.hook(agent.name, event))) for event, name in moments.items()}

    def put(text: str) -> str:
        for key, value in part.also.items():
            text = text if text.strip() else "{}\n"
            if json_edit.find(json_edit.parse(text), (key,)) is None:
                text = json_edit.put(text, (key,), value)
        for name, (event, entry) in wanted.items():
            own = _own(text, (HOOKS, name), agent.name, event)
            if [value for _, value in own] == [entry]:
                continue
            for at, _ in reversed(own):
                text = json_edit.take(text, (HOOKS, name), at)
            text = json_edit.append(text, (HOOKS, name), entry)
        return text

    def take(text: str) -> str:
        for name, (event, _) in wanted.items():
            for at, _ in reversed(_own(text, (HOOKS, name), agent.name, event)):
                text = json_edit.take(text, (HOOKS, name), at)
            text = _pruned(text, (HOOKS, name))
        return text

    def there(text: str) -> bool:
        return all(_own(text, (HOOKS, name), agent.name, event) for name, (event, _) in wanted.items())

    return ConfigEdit(HOOKS, part.path, put, take, there)


def _own(text: str, path: tuple[str, ...], agent: str, event: str) -> list[tuple[int, Any]]:
    """Our entries in a list, by the command they run."""
    found = json_edit.find(json_edit.parse(text), path) if text.strip() else None
    if found is None:
        return []
    if not isinstance(found.value, list):
        raise Malformed(f"{'.'.join(path)} is not a list", hint="mend it with any editor")
    ours = re.compile(rf"vade.* hook {agent} {event}(?:\s|$)")
    return [(at, value) for at, value in enumerate(found.value) if _runs(value, ours)]


def _runs(value: object, ours: re.Pattern[str]) -> bool:
    if isinstance(value, dict):
        command = value.get("command")
        return (isinstance(command, str) and bool(ours.search(command))) or any(
            _runs(each, ours) for each in value.get("hooks", ()) if isinstance(value.get("hooks"), list)
        )
    return False


def _pruned(text: str, path: tuple[str, ...]) -> str:
    """Without what is empty now, from the inside out."""
    for depth in range(len(path), 0, -1):
        found = json_edit.find(json_edit.parse(text), path[:depth])
        if found is None or found.value:
            return text
        text = json_edit.take(text, path[:depth])
    return text


# -------------------------------------------------------------------- files of our own, and words in others'


def _own_file(what: str, path: Path, content: str) -> ConfigEdit:
    """A file that is ours alone."""

    def put(text: str) -> str:
        if text.strip() and not there(text):
            raise Collision(f"{path} is somebody's own file", hint="move it away, and install again")
        return content

    def there(text: str) -> bool:
        return "memory_search" in text or bool(re.search(r"vade.* hook ", text))

    return ConfigEdit(what, path, put, lambda text: "" if there(text) else text, there)


def _words(path: Path) -> ConfigEdit:
    """The instruction in a file the agent reads, between two marks."""
    block = f"{BEGIN}\n{INSTRUCTION}{END}\n"
    marked = rf"^{re.escape(BEGIN)}\r?\n.*?^{re.escape(END)}[ \t]*(?:\r?\n|\Z)"
    pair = re.compile(marked, re.MULTILINE | re.DOTALL)
    with_gap = rf"(?:^[ \t]*\r?\n)?{marked}"  # the empty line before it came with it
    apart = re.compile(with_gap, re.MULTILINE | re.DOTALL)

    def put(text: str) -> str:
        newline = "\r\n" if "\r\n" in text else "\n"
        made = block.replace("\n", newline)
        if pair.search(text):
            first = True

            def once(_: re.Match[str]) -> str:
                nonlocal first
                kept, first = (made if first else ""), False
                return kept

            return pair.sub(once, text)
        lead = newline if text and not text.endswith("\n") else ""
        gap = newline if text and not text.endswith(newline * 2) else ""
        return f"{text}{lead}{gap}{made}"

    def take(text: str) -> str:
        return apart.sub("", text)

    def there(text: str) -> bool:
        return bool(pair.search(text))

    return ConfigEdit(WORDS, path, put, take, there)
