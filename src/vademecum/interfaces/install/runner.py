"""Installing and taking away again: everything is worked out before anything is written.

What was there is kept in the home, with a receipt: as long as nobody has changed a file since, uninstalling
puts back the bytes it had. Where somebody has, only our own parts are taken out of it.
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
    NAME,
    PROJECT,
    SERVER,
    USER,
    WORDS,
    Agent,
    HookEvent,
    HookList,
    JsonServer,
    OwnFile,
    Part,
    Program,
    Setup,
    TomlServer,
    Where,
    Words,
)
from vademecum.agents.registry import find as find_agent
from vademecum.agents.registry import having
from vademecum.errors import Collision, Malformed, Refused, UnknownName
from vademecum.interfaces.install import json_edit
from vademecum.interfaces.install.program import this_program
from vademecum.store.files import delete, read, reported, sweep, update
from vademecum.store.folders import Folder
from vademecum.text.clock import now, stamp
from vademecum.text.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vademecum.memory import Memory
    from vademecum.memory.values import Home

BEGIN, END = "<!-- vade:begin -->", "<!-- vade:end -->"
RECEIPTS, BACKUPS = "installs", "backups"
_LARGEST = 64 * 1024 * 1024
_BARE: tuple[object, ...] = ({}, {"version": 1})  # what is left of a file that was ours

# -------------------------------------------------------------------- what a description names


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
        case JsonServer(path, entry, below):
            return _server(path, entry, below)
        case TomlServer(path, command):
            return _toml_server(path, command)
        case HookList():
            return _hooks(part, agent, program)
        case OwnFile(what, path, content):
            return _own_file(what, path, content)
        case Words(path):
            return _words(path)


# -------------------------------------------------------------------- the server


def _server(path: Path, value: Mapping[str, Any], below: str) -> ConfigEdit:
    """Our server among an agent's, in JSON."""
    keys = (below, NAME)

    def put(text: str) -> str:
        found = json_edit.find(json_edit.parse(text), keys) if text.strip() else None
        if found is not None and not _is_ours(found.value):
            raise Collision(
                f"{path} already has another server named {NAME}", hint="rename it there, and install again"
            )
        if found is None:
            return json_edit.put(text, keys, dict(value))
        for key, each in value.items():  # what the agent or a person added to it stays
            text = json_edit.put(text, (*keys, key), each)
        return text

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
            f"line {line} is not TOML", hint="fix it with any editor; nothing was changed"
        ) from None


def _is_ours(value: object) -> bool:
    words = (value.get("args"), value.get("command")) if isinstance(value, dict) else ()
    return any(isinstance(each, list) and "mcp" in each for each in words)


# -------------------------------------------------------------------- the hooks


def _hooks(part: HookList, agent: Agent, program: Program) -> ConfigEdit:
    """Our hooks among an agent's."""
    moments = agent.hooks.moments if agent.hooks is not None else {}
    wanted = {name: (event, part.wrapped(program.hook(agent.name, event))) for event, name in moments.items()}

    def put(text: str) -> str:
        text = _with_defaults(text, part.also)
        for name, (event, entry) in wanted.items():
            own = _own(text, (HOOKS, name), agent.name, event)
            if len(own) == 1 and _covers(own[0].value, _command(entry)):
                continue
            text = _without(text, own)
            text = json_edit.append(text, (HOOKS, name), entry)
        return text

    def take(text: str) -> str:
        for name, (event, _) in wanted.items():
            own = _own(text, (HOOKS, name), agent.name, event)
            text = _pruned(_without(text, own), (HOOKS, name))
        return text

    def there(text: str) -> bool:
        return all(_own(text, (HOOKS, name), agent.name, event) for name, (event, _) in wanted.items())

    return ConfigEdit(HOOKS, part.path, put, take, there)


def _with_defaults(text: str, wanted: Mapping[str, Any]) -> str:
    """With these keys, where there are none."""
    for key, value in wanted.items():
        text = text if text.strip() else "{}\n"
        if json_edit.find(json_edit.parse(text), (key,)) is None:
            text = json_edit.put(text, (key,), value)
    return text


class OwnHook(NamedTuple):
    """A command of ours in a list of hooks: the way to it, and what stands there."""

    path: tuple[str | int, ...]
    value: Mapping[str, Any]


def _own(text: str, path: tuple[str, ...], agent: str, event: str) -> list[OwnHook]:
    """Our commands in a list of hooks, whoever stands beside them in a group."""
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
    """The command of an entry, which some agents have in a group."""
    return entry[HOOKS][0] if HOOKS in entry else entry


def _covers(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether all that is wanted stands there; what an agent or a person added to it is theirs."""
    return all(found.get(name) == value for name, value in wanted.items())


def _without(text: str, own: Iterable[OwnHook]) -> str:
    """Without our commands, and without a group that held nothing else."""
    for path, _ in reversed(list(own)):
        *above, at = path
        text = json_edit.take(text, tuple(above), int(at))
        if above[-1] == HOOKS and len(above) > 1 and isinstance(above[-2], int):
            left = json_edit.find(json_edit.parse(text), tuple(above))
            if left is not None and not left.value:
                text = json_edit.take(text, tuple(above[:-2]), above[-2])
    return text


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
            raise Collision(f"{path} is a file of your own", hint="move it away, and install again")
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


# -------------------------------------------------------------------- one agent, one file


class Installation(NamedTuple):
    """Memory in one agent's configuration, for somebody."""

    agent: Agent
    setup: Setup
    where: Where
    program: Program

    @classmethod
    def of(cls, name: str, where: Where, program: Program) -> Installation:
        """That of the agent of that name."""
        agent = find_agent(name)
        if agent is None or agent.setup is None:
            known = ", ".join(having("setup"))
            raise UnknownName(f"{shown(name)} is not a known agent", hint=f"one of {known}")
        return cls(agent, agent.setup, where, program._replace(client=agent.name))

    @property
    def root(self) -> Path:
        """The folder that everything it gets lies in."""
        return self.setup.root(self.where)

    @property
    def without(self) -> Mapping[str, str]:
        """What cannot be installed there, and why."""
        return self.setup.without(self.where)


class FileEdit(NamedTuple):
    """What becomes of one file; None is a file that is not there."""

    path: Path
    before: bytes | None
    after: bytes | None
    change: Callable[[bytes | None], bytes | None]  # which can be made again, on top of a person's save

    @property
    def changed(self) -> bool:
        """Whether anything does."""
        return self.before != self.after


class AgentStatus(NamedTuple):
    """What there is of one agent on this machine."""

    agent: str
    program: str  # its path, or empty
    folder: Path
    there: bool
    installed: Mapping[str, Mapping[str, bool | None]]  # by scope and part; None where it cannot be
    without: Mapping[str, Mapping[str, str]]  # by scope and part: why not
    missing: Mapping[HookEvent, str]  # hooks it does not have, and why


class AgentPlace(NamedTuple):
    """Where memory is installed, and the program that is named there."""

    where: Where
    program: Program


def place_of(memory: Memory, scope: str) -> AgentPlace:
    """The place for a person everywhere, or for the project at hand."""
    project = memory.caller.project
    person = Path.home()
    root = project.root if project is not None else Path.cwd()
    home = "" if memory.home.path == person / ".vade" else str(memory.home.path)
    return AgentPlace(Where(scope, person, root, os.environ), this_program(home))


# -------------------------------------------------------------------- what would change


def installing(one: Installation) -> list[FileEdit]:
    """What an installation would change."""
    return [_edit(path, before, partial(_put, path, parts)) for path, parts, before in _files(one)]


def uninstalling(one: Installation, home: Home) -> list[FileEdit]:
    """What taking it away would change."""
    receipt = _receipt(home, one)
    return [
        _edit(path, before, partial(_taken, path, parts, receipt.get(str(path)), home))
        for path, parts, before in _files(one)
    ]


def _edit(path: Path, before: bytes | None, change: Callable[[bytes | None], bytes | None]) -> FileEdit:
    return FileEdit(path, before, change(before), change)


def diff(edits: Iterable[FileEdit]) -> str:
    """The changes as a person reads them."""
    told: list[str] = []
    for edit in edits:
        if not edit.changed:
            continue
        before, after = (_decoded(edit.path, each or b"").splitlines() for each in (edit.before, edit.after))
        old = str(edit.path) if edit.before is not None else os.devnull
        new = str(edit.path) if edit.after is not None else os.devnull
        told += difflib.unified_diff(before, after, old, new, lineterm="", n=1)
    return "\n".join(told)


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
    """The file itself; refuses one that a link leads out of the folder it belongs in."""
    top, real = os.path.realpath(root), os.path.realpath(path)
    if not real.startswith(top.rstrip(os.sep) + os.sep):
        raise Refused(
            f"{path} points outside {root}", hint="replace it with a regular file, and install again"
        )
    return Path(real)


def _put(path: Path, parts: Iterable[ConfigEdit], before: bytes | None) -> bytes | None:
    text = _decoded(path, before or b"")
    with _named(path):
        for part in parts:
            text = part.put(text)
    return text.encode()


def _taken(
    path: Path, parts: Iterable[ConfigEdit], entry: Mapping[str, Any] | None, home: Home, before: bytes | None
) -> bytes | None:
    if before is None:
        return None
    if entry is not None and entry.get("after") == _digest(before):
        if not entry.get("backup"):
            return None
        kept = home.read(BACKUPS, str(entry["backup"]))
        if kept is not None:
            return kept
    text = _decoded(path, before)
    with _named(path):
        for part in parts:
            text = part.take(text)
    if text.encode() == before:
        return before
    made = entry is not None and not entry.get("backup")
    return None if made and _is_bare(text) else text.encode()


def _is_bare(text: str) -> bool:
    try:
        return not text.strip() or json.loads(text) in _BARE
    except ValueError:
        return False


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Malformed(f"{path} is not UTF-8", hint="nothing was changed") from None


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except Malformed as error:
        raise Malformed(f"{path}: {error}", hint="fix it with any editor; nothing was changed") from error


# -------------------------------------------------------------------- doing it


def install(one: Installation, home: Home) -> list[FileEdit]:
    """Install, and say what changed; a second time nothing does."""
    with reported(f"install into {one.agent.name}"), home.lock(f"install {one.agent.name}"):
        edits = installing(one)
        changed = [edit for edit in edits if edit.changed]
        if changed:
            # First what it takes to undo it: whoever is killed between two files can be taken back whole.
            receipt = _receipt(home, one)
            made = [name for edit in changed for name in _missing(one.root, edit.path)]
            for edit in changed:
                receipt[str(edit.path)] = _entry(home, one, edit, receipt.get(str(edit.path)))
            kept = dict.fromkeys([*receipt.get("", {}).get("folders", ()), *made])
            receipt[""] = {"folders": list(kept)}
            _keep(home, one, receipt)
        for edit in changed:
            _write(one.root, edit)
        _sweep(one, home, edits)
    return edits


def uninstall(one: Installation, home: Home) -> list[FileEdit]:
    """Take away what was installed, and nothing else."""
    with reported(f"uninstall from {one.agent.name}"), home.lock(f"install {one.agent.name}"):
        edits = uninstalling(one, home)
        receipt = _receipt(home, one)
        for edit in edits:
            if edit.changed:
                (_delete if edit.after is None else _write)(one.root, edit)
        _sweep(one, home, edits)
        for name in sorted(receipt.get("", {}).get("folders", ()), key=len, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(name)
        _forget(home, one, receipt)
    return edits


def _sweep(one: Installation, home: Home, edits: Iterable[FileEdit]) -> None:
    """Clear what a killed installation left beside the files, also beside those that did not change."""
    for parent in {_inside(one.root, edit.path).parent for edit in edits}:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), Folder.at(parent) as folder:
            sweep(folder)
    for name in (BACKUPS, RECEIPTS):
        with contextlib.suppress(FileNotFoundError), home.disk(name) as kept:
            sweep(kept)


def _write(root: Path, edit: FileEdit) -> None:
    top, real = os.path.realpath(root), _inside(root, edit.path)
    *above, name = os.path.relpath(real, top).split(os.sep)
    # What was not there may hold keys of other servers one day; what was keeps the mode it has.
    mode = 0o600 if edit.before is None else 0o644
    with Folder.at(top, create=True) as start, start.enter(*above, create=True) as folder:
        update(folder, name, lambda now: edit.change(now) or b"", mode=mode, largest=_LARGEST)


def _delete(root: Path, edit: FileEdit) -> None:
    real = _inside(root, edit.path)
    with Folder.at(real.parent) as folder:
        if read(folder, real.name, largest=_LARGEST) == edit.before:
            delete(folder, real.name)


def _missing(root: Path, path: Path) -> list[str]:
    """The folders that have to be made for a file."""
    found, here = [], path.parent
    while not here.exists() and here != here.parent:
        found.append(str(here))
        if here == root:
            break
        here = here.parent
    return found


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
    """What to put back, as long as nobody changes the file: what was there before the first installation."""
    after = _digest(edit.after or b"")
    if earlier is not None and edit.before is not None and earlier.get("after") == _digest(edit.before):
        return {"after": after, "backup": earlier.get("backup")}
    if edit.before is None:
        return {"after": after, "backup": None}
    end = f"-{one.agent.name}-{_digest(edit.before)[:8]}-{edit.path.name.lstrip('.')}"
    with home.folder(BACKUPS, create=True) as folder:
        for name in folder.names():  # kept already, perhaps by one that was killed then
            if name.endswith(end) and folder.read(name, largest=_LARGEST) == edit.before:
                return {"after": after, "backup": name}
        name = f"{stamp(now()).replace(':', '')}{end}"
        folder.update(name, lambda _: edit.before or b"", largest=_LARGEST)
    return {"after": after, "backup": name}


def _keep(home: Home, one: Installation, receipt: Mapping[str, Any]) -> None:
    content = json.dumps(receipt, indent=1).encode()
    with home.folder(RECEIPTS, create=True) as folder:
        folder.update(_name(one), lambda _: content)


def _forget(home: Home, one: Installation, receipt: Mapping[str, Any]) -> None:
    if receipt:
        with contextlib.suppress(FileNotFoundError), home.folder(RECEIPTS) as folder:
            folder.delete(_name(one))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# -------------------------------------------------------------------- what there is


def look(where: Where, program: Program) -> list[AgentStatus]:
    """Every agent: whether it is on this machine, and what of ours it has."""
    return [_status(name, where, program) for name in having("setup")]


def _status(name: str, where: Where, program: Program) -> AgentStatus:
    scopes = {scope: Installation.of(name, where._replace(scope=scope), program) for scope in (USER, PROJECT)}
    mine = scopes[USER]
    folder = mine.setup.folder(mine.where)
    return AgentStatus(
        name,
        next(filter(None, map(shutil.which, mine.setup.programs)), ""),
        folder,
        folder.is_dir(),
        {scope: _installed(one) for scope, one in scopes.items()},
        {scope: one.without for scope, one in scopes.items()},
        mine.agent.hooks.missing if mine.agent.hooks is not None else {},
    )


def _installed(one: Installation) -> dict[str, bool | None]:
    try:
        return installed_parts(one)
    except (Malformed, Refused, OSError):
        return dict.fromkeys((SERVER, HOOKS, WORDS), False)


def installed_parts(one: Installation) -> dict[str, bool | None]:
    """Which parts of ours an agent's files have; None where it cannot have one."""
    found: dict[str, bool | None] = dict.fromkeys(one.without)
    for path, parts, before in _files(one):
        with _named(path):
            for part in parts:
                found[part.what] = before is not None and part.there(_decoded(path, before))
    return found


def texts_of(one: Installation) -> Iterator[tuple[Path, str]]:
    """The files of an agent that have something of ours, or would."""
    for path, _, before in _files(one):
        if before is not None:
            yield path, _decoded(path, before)


def names() -> list[str]:
    """The agents that memory can be installed into."""
    return list(having("setup"))


def has_receipt(home: Home, one: Installation) -> bool:
    """Whether it was installed from this home, and not taken away since."""
    return bool(_receipt(home, one))
