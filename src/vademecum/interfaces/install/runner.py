"""Install memory into an agent, and uninstall it; all changes are computed before anything is written.

The earlier content of a file is saved in the home, with a receipt. If nobody has changed the file since,
uninstalling restores its earlier bytes; otherwise only the parts of vademecum are removed.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.agents.base import (
    HOOKS,
    INSTRUCTION,
    INSTRUCTION_KIND,
    NAME,
    PROJECT,
    SERVER,
    USER,
    Agent,
    HookEvent,
    HookList,
    InstallTarget,
    InstructionBlock,
    JsonServer,
    OwnFile,
    Part,
    Program,
    Setup,
    TomlServer,
    YamlServer,
)
from vademecum.agents.registry import find as find_agent
from vademecum.agents.registry import having
from vademecum.errors import Collision, Malformed, Refused, UnknownName
from vademecum.interfaces.install import json_edit, yaml_edit
from vademecum.interfaces.install.program import this_program
from vademecum.store import Folder, reported
from vademecum.store.files import delete, read, sweep, update
from vademecum.text.clock import now, stamp
from vademecum.text.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vademecum.memory import Memory
    from vademecum.memory.values import Home

BEGIN, END = "<!-- vade:begin -->", "<!-- vade:end -->"
RECEIPTS, BACKUPS = "installs", "backups"
_LARGEST = 64 * 1024 * 1024
_BARE: tuple[object, ...] = ({}, {"version": 1})  # the remaining content of a file that we created

# -------------------------------------------------------------------- edits


class ConfigEdit(NamedTuple):
    """A part of the installation in one file: functions that add, remove and look for this part."""

    what: str
    path: Path
    put: Callable[[str], str]
    take: Callable[[str], str]
    there: Callable[[str], bool]


def edit_of(part: Part, agent: Agent, program: Program) -> ConfigEdit:
    """Return the edit for a part that an agent's description names."""
    match part:
        case JsonServer(path, entry, below):
            return _server_edit(path, entry, below)
        case TomlServer(path, command):
            return _toml_server_edit(path, command)
        case YamlServer(path, entry, below):
            return _yaml_server_edit(path, entry, below)
        case HookList():
            return _hooks_edit(part, agent, program)
        case OwnFile(what, path, content):
            return _file_edit(what, path, content)
        case InstructionBlock(path):
            return _instruction_edit(path)


# -------------------------------------------------------------------- the server


def _server_edit(path: Path, value: Mapping[str, Any], below: str) -> ConfigEdit:
    """Return the edit for the entry of the MCP server in an agent's JSON file."""
    keys = (below, NAME)

    def put(text: str) -> str:
        found = json_edit.find(json_edit.parse(text), keys) if text.strip() else None
        if found is not None and not _is_ours(found.value):
            raise Collision(
                f"{path} already has another server named {NAME}", hint="rename it there, and install again"
            )
        if found is None:
            return json_edit.put(text, keys, dict(value))
        for key, each in value.items():  # keys that the agent or a person added stay
            text = json_edit.put(text, (*keys, key), each)
        return text

    def take(text: str) -> str:
        return _prune_empty(json_edit.remove(text, keys), keys[:-1]) if there(text) else text

    def there(text: str) -> bool:
        found = json_edit.find(json_edit.parse(text), keys)
        return found is not None and _is_ours(found.value)

    return ConfigEdit(SERVER, path, put, take, there)


def _toml_server_edit(path: Path, command: tuple[str, ...]) -> ConfigEdit:
    """Return the edit for the entry of the MCP server in Codex's `config.toml`."""

    def put(text: str) -> str:
        import tomlkit

        document = _toml(text)
        servers = _servers(document)
        own = servers.get(NAME)
        if own is not None and not _is_ours(own):
            raise Collision(
                f"{path} already has another server named {NAME}", hint="rename it there, and install again"
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
    """Return the table of servers in a TOML document; create a missing table."""
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
            f"line {line} is not TOML", hint="fix it with any editor; nothing was changed"
        ) from None


def _yaml_server_edit(path: Path, value: Mapping[str, Any], below: str) -> ConfigEdit:
    """Return the edit for the entry of the MCP server in an agent's YAML file."""
    keys = (below, NAME)

    def put(text: str) -> str:
        found = yaml_edit.value_at(text, keys)
        if found is not None and not _is_ours(found):
            raise Collision(
                f"{path} already has another server named {NAME}", hint="rename it there, and install again"
            )
        if isinstance(found, dict) and _covers(found, value):
            return text
        added = found if isinstance(found, dict) else {}  # keys that the agent or a person added stay
        return yaml_edit.put(text, keys, {**added, **value})

    def take(text: str) -> str:
        return yaml_edit.remove(text, keys) if there(text) else text

    def there(text: str) -> bool:
        return _is_ours(yaml_edit.value_at(text, keys))

    return ConfigEdit(SERVER, path, put, take, there)


def _is_ours(value: object) -> bool:
    words = (value.get("args"), value.get("command")) if isinstance(value, dict) else ()
    return any(isinstance(each, list) and "mcp" in each for each in words)


# -------------------------------------------------------------------- the hooks


def _hooks_edit(part: HookList, agent: Agent, program: Program) -> ConfigEdit:
    """Return the edit for the entries of vademecum in an agent's lists of hooks."""
    moments = agent.hooks.moments if agent.hooks is not None else {}
    wanted = {
        name: (event, part.entry(event, program.hook(agent.name, event))) for event, name in moments.items()
    }

    def put(text: str) -> str:
        text = _with_defaults(text, part.also)
        for name, (event, entry) in wanted.items():
            own = _own_hooks(text, (HOOKS, name), agent.name, event)
            if len(own) == 1 and _covers(own[0].value, _command(entry)):
                continue
            text = _remove_hooks(text, own)
            text = json_edit.append(text, (HOOKS, name), entry)
        return text

    def take(text: str) -> str:
        for name, (event, _) in wanted.items():
            own = _own_hooks(text, (HOOKS, name), agent.name, event)
            text = _prune_empty(_remove_hooks(text, own), (HOOKS, name))
        return text

    def there(text: str) -> bool:
        return all(_own_hooks(text, (HOOKS, name), agent.name, event) for name, (event, _) in wanted.items())

    return ConfigEdit(HOOKS, part.path, put, take, there)


def _with_defaults(text: str, wanted: Mapping[str, Any]) -> str:
    """Return the text of a JSON file with these keys added, as far as they are missing."""
    for key, value in wanted.items():
        text = text if text.strip() else "{}\n"
        if json_edit.find(json_edit.parse(text), (key,)) is None:
            text = json_edit.put(text, (key,), value)
    return text


class OwnHook(NamedTuple):
    """A hook of vademecum in an agent's file: the path to its entry, and the entry."""

    path: tuple[str | int, ...]
    value: Mapping[str, Any]


def _own_hooks(text: str, path: tuple[str, ...], agent: str, event: str) -> list[OwnHook]:
    """Return the hooks of vademecum in a list of hooks, also those in a group with other hooks."""
    found = json_edit.find(json_edit.parse(text), path) if text.strip() else None
    if found is None:
        return []
    if not isinstance(found.value, list):
        raise Malformed(f"{'.'.join(path)} is not a list", hint="fix it with any editor")
    ours = re.compile(rf"vade.* hook {agent} {event}(?:\s|$)")
    return list(_commands(found.value, path, ours))


def _commands(value: object, path: tuple[str | int, ...], ours: re.Pattern[str]) -> Iterator[OwnHook]:
    for at, each in enumerate(value if isinstance(value, list) else ()):
        if isinstance(each, dict):
            command = each.get("command")
            if isinstance(command, str) and ours.search(command):
                yield OwnHook((*path, at), each)
            else:
                yield from _commands(each.get(HOOKS), (*path, at, HOOKS), ours)


def _command(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the command in an entry; some agents put commands into groups."""
    return entry[HOOKS][0] if HOOKS in entry else entry


def _covers(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether an entry has all wanted values.

    Values that an agent or a person added to the entry are ignored.
    """
    return all(found.get(name) == value for name, value in wanted.items())


def _remove_hooks(text: str, own: Iterable[OwnHook]) -> str:
    """Return the text without these hooks, and without groups that become empty."""
    for path, _ in reversed(list(own)):
        *above, at = path
        text = json_edit.remove(text, tuple(above), int(at))
        if above[-1] == HOOKS and len(above) > 1 and isinstance(above[-2], int):
            left = json_edit.find(json_edit.parse(text), tuple(above))
            if left is not None and not left.value:
                text = json_edit.remove(text, tuple(above[:-2]), above[-2])
    return text


def _prune_empty(text: str, path: tuple[str, ...]) -> str:
    """Return the text without empty objects and lists on this path, from the inside out."""
    for depth in range(len(path), 0, -1):
        found = json_edit.find(json_edit.parse(text), path[:depth])
        if found is None or found.value:
            return text
        text = json_edit.remove(text, path[:depth])
    return text


# -------------------------------------------------------------------- own files, and instructions in others


def _file_edit(what: str, path: Path, content: str) -> ConfigEdit:
    """Return the edit for a file that only has content of vademecum."""

    def put(text: str) -> str:
        if text.strip() and not there(text):
            raise Collision(f"{path} is a file of your own", hint="move it away, and install again")
        return content

    def there(text: str) -> bool:
        return "memory_search" in text or bool(re.search(r"vade.* hook ", text))

    return ConfigEdit(what, path, put, lambda text: "" if there(text) else text, there)


def _instruction_edit(path: Path) -> ConfigEdit:
    """Return the edit for the instruction, which is between two marks in a file of the agent."""
    block = f"{BEGIN}\n{INSTRUCTION}{END}\n"
    marked = rf"^{re.escape(BEGIN)}\r?\n.*?^{re.escape(END)}[ \t]*(?:\r?\n|\Z)"
    pair = re.compile(marked, re.MULTILINE | re.DOTALL)
    with_gap = rf"(?:^[ \t]*\r?\n)?{marked}"  # the empty line before it was added with it
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

    return ConfigEdit(INSTRUCTION_KIND, path, put, take, there)


# -------------------------------------------------------------------- installations


class Installation(NamedTuple):
    """An installation in the configuration of one agent, for a person or for a project."""

    agent: Agent
    setup: Setup
    where: InstallTarget
    program: Program

    @classmethod
    def of(cls, name: str, where: InstallTarget, program: Program) -> Installation:
        """Return the installation for the agent with this name; raise UnknownName for another name."""
        agent = find_agent(name)
        if agent is None or agent.setup is None:
            known = ", ".join(having("setup"))
            raise UnknownName(f"{shown(name)} is not a known agent", hint=f"one of {known}")
        return cls(agent, agent.setup, where, program._replace(client=agent.name))

    @property
    def root(self) -> Path:
        """The folder in which all files of the installation are."""
        return self.setup.root(self.where)

    @property
    def without(self) -> Mapping[str, str]:
        """The parts that cannot be installed for this target, with the reason for each."""
        return self.setup.without(self.where)


class FileEdit(NamedTuple):
    """The change of one file, from content to content; None means a missing file."""

    path: Path
    before: bytes | None
    after: bytes | None
    change: Callable[[bytes | None], bytes | None]  # can be repeated on top of a change that a person saved

    @property
    def changed(self) -> bool:
        """Whether the edit changes the file."""
        return self.before != self.after


class AgentStatus(NamedTuple):
    """The status of one agent on this machine: whether it is here, and which parts are installed."""

    agent: str
    program: str  # its path, or empty
    folder: Path
    there: bool
    installed: Mapping[
        str, Mapping[str, bool | None]
    ]  # by scope and part; None if the part is not possible there
    without: Mapping[str, Mapping[str, str]]  # by scope and part: the reason
    missing: Mapping[HookEvent, str]  # unsupported hooks, and why


class AgentPlace(NamedTuple):
    """The target of installations (a person or a project), and the program that their files name."""

    where: InstallTarget
    program: Program


def place_of(memory: Memory, scope: str) -> AgentPlace:
    """Return the target for installations in this scope, and the program that their files name.

    The target is the person, or the current project; without a project, it is the current folder.
    """
    project = memory.caller.project
    person = Path.home()
    root = project.root if project is not None else Path.cwd()
    home = "" if memory.home.path == person / ".vade" else str(memory.home.path)
    return AgentPlace(InstallTarget(scope, person, root, os.environ), this_program(home))


# -------------------------------------------------------------------- planning


def plan_install(one: Installation) -> list[FileEdit]:
    """Return the changes of files that an installation would make."""
    return [_edit(path, before, partial(_add_parts, path, parts)) for path, parts, before in _files(one)]


def plan_uninstall(one: Installation, home: Home) -> list[FileEdit]:
    """Return the changes of files that an uninstallation would make."""
    receipt = _receipt(home, one)
    return [
        _edit(path, before, partial(_remove_parts, path, parts, receipt.get(str(path)), home))
        for path, parts, before in _files(one)
    ]


def _edit(path: Path, before: bytes | None, change: Callable[[bytes | None], bytes | None]) -> FileEdit:
    return FileEdit(path, before, change(before), change)


def diff(edits: Iterable[FileEdit]) -> str:
    """Return the changes of files as a unified diff."""
    lines: list[str] = []
    for edit in edits:
        if not edit.changed:
            continue
        before, after = (_decode(edit.path, each or b"").splitlines() for each in (edit.before, edit.after))
        old = str(edit.path) if edit.before is not None else os.devnull
        new = str(edit.path) if edit.after is not None else os.devnull
        lines += difflib.unified_diff(before, after, old, new, lineterm="", n=1)
    return "\n".join(lines)


def _files(one: Installation) -> Iterator[tuple[Path, list[ConfigEdit], bytes | None]]:
    grouped: dict[Path, list[ConfigEdit]] = {}
    for part in one.setup.parts(one.where, one.setup.folder(one.where), one.program):
        grouped.setdefault(part.path, []).append(edit_of(part, one.agent, one.program))
    for path, parts in grouped.items():
        inside = _inside(one.root, path)
        try:
            with Folder.at(inside.parent) as folder:
                before = read(folder, inside.name, largest=_LARGEST)
        except (FileNotFoundError, NotADirectoryError):
            before = None
        yield path, parts, before


def _inside(root: Path, path: Path) -> Path:
    """Return the real path of a file; raise Refused if this path is outside the root folder."""
    top, real = os.path.realpath(root), os.path.realpath(path)
    if not real.startswith(top.rstrip(os.sep) + os.sep):
        raise Refused(
            f"{path} points outside {root}", hint="replace it with a regular file, and install again"
        )
    return Path(real)


def _add_parts(path: Path, parts: Iterable[ConfigEdit], before: bytes | None) -> bytes | None:
    text = _decode(path, before or b"")
    with _naming_file(path):
        for part in parts:
            text = part.put(text)
    return text.encode()


def _remove_parts(
    path: Path, parts: Iterable[ConfigEdit], entry: Mapping[str, Any] | None, home: Home, before: bytes | None
) -> bytes | None:
    if before is None:
        return None
    if entry is not None and entry.get("after") == _digest(before):
        if not entry.get("backup"):
            return None
        backup = home.read(BACKUPS, str(entry["backup"]))
        # The backup of a second installation has our parts if the agent changed the file after the first.
        if backup is not None and not any(part.there(_decode(path, backup)) for part in parts):
            return backup
    text = _decode(path, before)
    with _naming_file(path):
        for part in parts:
            text = part.take(text)
    if text.encode() == before:
        return before
    was_created = entry is not None and not entry.get("backup")
    return None if was_created and _is_bare(text) else text.encode()


def _is_bare(text: str) -> bool:
    try:
        return not text.strip() or json.loads(text) in _BARE
    except ValueError:
        return False


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Malformed(f"{path} is not UTF-8", hint="nothing was changed") from None


@contextlib.contextmanager
def _naming_file(path: Path) -> Iterator[None]:
    """Add the path of a file to an error about its content."""
    try:
        yield
    except Malformed as error:
        raise Malformed(f"{path}: {error}", hint="fix it with any editor; nothing was changed") from error


# -------------------------------------------------------------------- applying


def install(one: Installation, home: Home) -> list[FileEdit]:
    """Install memory into an agent, and return the edits; a file that needs no change is not written."""
    with reported(f"install into {one.agent.name}"), home.lock(f"install {one.agent.name}"):
        edits = plan_install(one)
        changed = [edit for edit in edits if edit.changed]
        if changed:
            # The receipt is written first, so that an installation killed between two files can be undone.
            receipt = _receipt(home, one)
            new_folders = [name for edit in changed for name in _missing_folders(one.root, edit.path)]
            for edit in changed:
                receipt[str(edit.path)] = _entry(home, one, edit, receipt.get(str(edit.path)))
            folders = dict.fromkeys([*receipt.get("", {}).get("folders", ()), *new_folders])
            receipt[""] = {"folders": list(folders)}
            _save_receipt(home, one, receipt)
        for edit in changed:
            _write(one.root, edit)
        _sweep(one, home, edits)
    return edits


def uninstall(one: Installation, home: Home) -> list[FileEdit]:
    """Remove an installation from an agent's files, with the folders that it made; return the edits."""
    with reported(f"uninstall from {one.agent.name}"), home.lock(f"install {one.agent.name}"):
        edits = plan_uninstall(one, home)
        receipt = _receipt(home, one)
        for edit in edits:
            if edit.changed:
                (_delete if edit.after is None else _write)(one.root, edit)
        _sweep(one, home, edits)
        for name in sorted(receipt.get("", {}).get("folders", ()), key=len, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(name)
        _delete_receipt(home, one, receipt)
    return edits


def _sweep(one: Installation, home: Home, edits: Iterable[FileEdit]) -> None:
    """Remove temporary files that a killed installation has left, also beside unchanged files."""
    for parent in {_inside(one.root, edit.path).parent for edit in edits}:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), Folder.at(parent) as folder:
            sweep(folder)
    for name in (BACKUPS, RECEIPTS):
        with contextlib.suppress(FileNotFoundError), home.disk(name) as saved:
            sweep(saved)


def _write(root: Path, edit: FileEdit) -> None:
    top, real = os.path.realpath(root), _inside(root, edit.path)
    *above, name = os.path.relpath(real, top).split(os.sep)
    # A new file may later hold keys of other servers, so it is private; an existing file keeps its mode.
    mode = 0o600 if edit.before is None else 0o644
    with Folder.at(top, create=True) as start, start.enter(*above, create=True) as folder:
        update(folder, name, lambda now: edit.change(now) or b"", mode=mode, largest=_LARGEST)


def _delete(root: Path, edit: FileEdit) -> None:
    real = _inside(root, edit.path)
    with Folder.at(real.parent) as folder:
        if read(folder, real.name, largest=_LARGEST) == edit.before:
            delete(folder, real.name)


def _missing_folders(root: Path, path: Path) -> list[str]:
    """Return the folders that must be created for a file."""
    folders, folder = [], path.parent
    while not folder.exists() and folder != folder.parent:
        folders.append(str(folder))
        if folder == root:
            break
        folder = folder.parent
    return folders


# -------------------------------------------------------------------- receipts


def _name(one: Installation) -> str:
    place = hashlib.sha256(os.path.realpath(one.root).encode()).hexdigest()[:12]
    return f"{one.agent.name}-{one.where.scope}-{place}.json"


def _receipt(home: Home, one: Installation) -> dict[str, Any]:
    content = home.read(RECEIPTS, _name(one))
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _entry(
    home: Home, one: Installation, edit: FileEdit, earlier: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the receipt for a file: the backup of its first content, and the hash of its new content.

    The backup is made here unless there is one.
    """
    after = _digest(edit.after or b"")
    if earlier is not None and edit.before is not None and earlier.get("after") == _digest(edit.before):
        return {"after": after, "backup": earlier.get("backup")}
    if edit.before is None:
        return {"after": after, "backup": None}
    end = f"-{one.agent.name}-{_digest(edit.before)[:8]}-{edit.path.name.lstrip('.')}"
    with home.folder(BACKUPS, create=True) as folder:
        for name in folder.names():  # saved already, perhaps by an installation that was killed
            if name.endswith(end) and folder.read(name, largest=_LARGEST) == edit.before:
                return {"after": after, "backup": name}
        name = f"{stamp(now()).replace(':', '')}{end}"
        folder.update(name, lambda _: edit.before or b"", largest=_LARGEST)
    return {"after": after, "backup": name}


def _save_receipt(home: Home, one: Installation, receipt: Mapping[str, Any]) -> None:
    content = json.dumps(receipt, indent=1).encode()
    with home.folder(RECEIPTS, create=True) as folder:
        folder.update(_name(one), lambda _: content)


def _delete_receipt(home: Home, one: Installation, receipt: Mapping[str, Any]) -> None:
    if receipt:
        with contextlib.suppress(FileNotFoundError), home.folder(RECEIPTS) as folder:
            folder.delete(_name(one))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# -------------------------------------------------------------------- status


def list_agents(where: InstallTarget, program: Program) -> list[AgentStatus]:
    """Return the status of every agent that memory can be installed into."""
    return [_status(name, where, program) for name in having("setup")]


def _status(name: str, where: InstallTarget, program: Program) -> AgentStatus:
    scopes = {scope: Installation.of(name, where._replace(scope=scope), program) for scope in (USER, PROJECT)}
    mine = scopes[USER]
    folder = mine.setup.folder(mine.where)
    return AgentStatus(
        name,
        next(filter(None, map(shutil.which, mine.setup.programs)), ""),
        folder,
        folder.is_dir(),
        {scope: _installed_or_none(one) for scope, one in scopes.items()},
        {scope: one.without for scope, one in scopes.items()},
        mine.agent.hooks.missing if mine.agent.hooks is not None else {},
    )


def _installed_or_none(one: Installation) -> dict[str, bool | None]:
    try:
        return installed_parts(one)
    except (Malformed, Refused, OSError):
        return dict.fromkeys((SERVER, HOOKS, INSTRUCTION_KIND), False)


def installed_parts(one: Installation) -> dict[str, bool | None]:
    """Return for each part whether an agent's files have it; None if it is not possible there."""
    found: dict[str, bool | None] = dict.fromkeys(one.without)
    for path, parts, before in _files(one):
        with _naming_file(path):
            for part in parts:
                there = before is not None and part.there(_decode(path, before))
                found[part.what] = found.get(part.what, True) and there
    return found


def texts_of(one: Installation) -> Iterator[tuple[Path, str]]:
    """Yield path and text of each existing file of an agent that may hold parts of vademecum."""
    for path, _, before in _files(one):
        if before is not None:
            yield path, _decode(path, before)


def names() -> list[str]:
    """Return the names of the agents that memory can be installed into."""
    return list(having("setup"))


def has_receipt(home: Home, one: Installation) -> bool:
    """Return whether an installation was made from this home, and was not uninstalled since."""
    return bool(_receipt(home, one))
