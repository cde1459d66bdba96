"""Anthropic's memory tool, `memory_20250818`: the records of one scope as files under `/memories`.

A model's path never becomes a path of this machine: it is looked up among the names of records, and a record
is accessed by its id. A file's text is the current text of its record.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

try:
    from anthropic.lib.tools import ToolError
    from anthropic.tools.memory import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool
except ModuleNotFoundError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'vademecum[anthropic]'") from error

from vademecum import Audience, Finding, PersonsText, Scope, VadeError
from vademecum.adapters.base import as_agent, describe_error, locked
from vademecum.interfaces.present.safe import clean_text
from vademecum.text.document import rewrite
from vademecum.text.names import is_new_key, numbered, slug

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818Command,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

    from vademecum import Memory, Record

ROOT = "/memories"
READ_ONLY = ("journal", "pinned")  # folders of content that is not stored as records
FILE_TAG = "file:"  # the prefix of a tag that holds a file name different from the key
_PENDING_NOTE = (
    "\nNote: the user wrote this file, so your version is saved next to theirs and is pending"
    " review; their text is unchanged."
)
DAYS = 14  # days of the journal that are listed
MOST_LINES = 999_999

_LONGEST_PATH = 160
_COMMANDS: Mapping[str, Mapping[str, type]] = {
    "view": {"path": str},
    "create": {"path": str, "file_text": str},
    "str_replace": {"path": str, "old_str": str, "new_str": str},
    "insert": {"path": str, "insert_line": int, "insert_text": str},
    "delete": {"path": str},
    "rename": {"old_path": str, "new_path": str},
}
_PARAMETERS = ("command", *dict.fromkeys(name for needed in _COMMANDS.values() for name in needed))


class MemoryFile(NamedTuple):
    """A file as the model sees it; a file that belongs to no record is read-only."""

    text: str
    record: Record | None = None


# -------------------------------------------------------------------- names


def relative(path: str) -> str:
    """Return a path relative to `/memories`; raises ToolError for an unsafe name or a path elsewhere."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Error: Path must start with {ROOT}, got: {path}")
    plain = unicodedata.normalize("NFKC", path)
    parts = path.strip("/").split("/")[1:]
    escapes = any(part in ("", ".", "..") for part in parts) or ".." in plain.split("/")
    if escapes or "\\" in plain or unquote(path) != path or plain.count("/") != path.count("/"):
        raise ToolError(f"Error: Path {path} would escape {ROOT} directory")
    if any(part.startswith(".") or part != part.strip() for part in parts) or not path.isprintable():
        raise ToolError(f"Error: Path {path} has a hidden or unreadable name")
    if "," in path or len(path) > _LONGEST_PATH:
        raise ToolError(
            f"Error: Path {path[:_LONGEST_PATH]} is too long or contains a comma; choose a simpler name"
        )
    return "/".join(parts)


def name_of(record: Record) -> str:
    """Return a record's file name: the one in its tag, else one made from its key."""
    own = (tag.removeprefix(FILE_TAG) for tag in record.tags if tag.startswith(FILE_TAG))
    return next((name for name in own if _is_safe(name)), f"{record.key}.md")


def _is_safe(name: str) -> bool:
    """Return whether a name from a tag, which anybody may have written, is a valid file name."""
    with contextlib.suppress(ToolError):
        return relative(f"{ROOT}/{name}") == name and not _is_read_only(name)
    return False


def _is_read_only(name: str) -> bool:
    return name.partition("/")[0] in READ_ONLY


def key_for(name: str, taken: set[str]) -> str:
    """Return the key for a new file's record, made from its name; keys in `taken` get a number added."""
    stem = name.removesuffix(".md")
    key = stem if name.endswith(".md") and is_new_key(stem) else slug(name)
    number, free = 2, key
    while free in taken:
        free, number = numbered(key, number), number + 1
    return free


# -------------------------------------------------------------------- texts


def text_of(record: Record) -> str:
    """Return the current text of a record, oldest entry first."""
    return "\n\n".join(entry.text for entry in record.live or record.entries[-1:])


def with_numbers(lines: Sequence[str], first: int = 1) -> str:
    """Return lines, each with its line number in front."""
    return "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(lines, first))


def size_of(size: float) -> str:
    """Return a size in bytes in a short form, such as `512B` or `1.5K`."""
    for unit in ("B", "K"):
        if size < 1024:
            return f"{size:.0f}B" if unit == "B" else f"{size:.1f}K"
        size /= 1024
    return f"{size:.1f}M"


# -------------------------------------------------------------------- the tool


class MemoryTool(BetaAbstractMemoryTool):
    """The memory tool over the records of one scope.

    It is passed to `client.beta.messages.tool_runner`, or called directly.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        scope: str | Scope = Scope.PROJECT,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._memory = as_agent(memory)
        self._place = memory.caller.place(scope)
        self._scope = self._place.scope
        self._turn = threading.Lock()

    def call(self, input: object) -> str:
        """Run the model's command; raises ToolError, whose text the model reads, if the command fails."""
        return str(super().call(check_input(input)))

    def execute(self, command: BetaMemoryTool20250818Command) -> str:
        """Check and run one command; all commands but `view` lock out other users of this memory."""
        check_input({name: getattr(command, name) for name in _PARAMETERS if hasattr(command, name)})
        try:
            with contextlib.nullcontext() if command.command == "view" else self._locked():
                return clean_text(str(super().execute(command)))
        except VadeError as error:
            raise ToolError(f"Error: {describe_error(error)}") from error

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return a file with line numbers, or the content of a folder."""
        name, files = relative(command.path), self._files()
        if name in files:
            return _file_view(command.path, files[name].text, command.view_range)
        inside = _below(files, name)
        if name and not inside:
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        return _folder_listing(command.path.rstrip("/"), inside)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file."""
        name = self._writable(command.path)
        files = self._files()
        if name in files or _below(files, name):
            raise ToolError(f"Error: File {command.path} already exists")
        noted = self._create(name, command.file_text, files)
        return f"File created successfully at: {command.path}{noted}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs exactly once."""
        missing = f"Error: The path {command.path} does not exist. Please provide a valid path."
        file = self._file(command.path, missing)
        old, text = command.old_str, file.text
        at = _places(text, old)
        if not at:
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {command.path}."
            )
        if len(at) > 1:
            lines = ", ".join(str(text.count("\n", 0, index) + 1) for index in at)
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}."
                " Please ensure it is unique"
            )
        noted = self._edit(file, f"{text[: at[0]]}{command.new_str}{text[at[0] + len(old) :]}")
        lines_now = self._files()[relative(command.path)].text.split("\n")
        first = max(text.count("\n", 0, at[0]) - 2, 0)
        last = first + 5 + command.new_str.count("\n")
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            f"{with_numbers(lines_now[first:last], first + 1)}{noted}"
        )

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text after a line, or at the beginning."""
        file = self._file(command.path, f"Error: The path {command.path} does not exist")
        lines = file.text.split("\n")
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Error: Invalid `insert_line` parameter: {command.insert_line}."
                f" It should be within the range of lines of the file: [0, {len(lines)}]"
            )
        lines.insert(command.insert_line, command.insert_text.removesuffix("\n"))
        return f"The file {command.path} has been edited.{self._edit(file, chr(10).join(lines))}"

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Move a file, or all files of a folder, to the archive."""
        name = self._writable(command.path)
        for file in self._matching_files(name, command.path).values():
            self._forget(file)
        return f"Successfully deleted {command.path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Save a file, or all files of a folder, under another name; the old ones go to the archive."""
        old, new = self._writable(command.old_path), self._writable(command.new_path)
        moving = self._matching_files(old, command.old_path)
        files = self._files()
        if new in files or _below(files, new):
            raise ToolError(f"Error: The destination {command.new_path} already exists")
        if f"{new}/".startswith(f"{old}/"):
            raise ToolError(f"Error: {command.old_path} cannot be moved into itself")
        noted = ""
        for name, file in moving.items():
            noted = (
                self._create(f"{new}{name.removeprefix(old)}", file.text, files, like=file.record) or noted
            )
            self._forget(file)  # done last, because a text saved twice is better than a lost one
        return f"Successfully renamed {command.old_path} to {command.new_path}{noted}"

    def clear_all_memory(self) -> str:
        """Move all records of the scope to the archive, except protected ones."""
        with self._locked():
            self._memory.archive.clear(scope=self._scope)
        return "All memory cleared"

    # ---------------------------------------------------------------- files and records

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold a lock while one command runs, because finding a free name and taking it are two steps."""
        with self._turn, contextlib.ExitStack() as stack:
            if not self._memory.settings.incognito:
                what = f"memory files of {self._place}"
                stack.enter_context(locked(self._memory, what, doing="take the lock on memory files"))
            yield

    def _files(self) -> dict[str, MemoryFile]:
        """Return files by name below `/memories`: records, pinned documents and the newest journal days."""
        listing = self._memory.list(scope=self._scope)
        found: dict[str, MemoryFile] = {}
        for record in listing.records:
            name = name_of(record)
            found[f"{record.key}.md" if name in found else name] = MemoryFile(text_of(record), record)
        return {**found, **self._read_only()}

    def _read_only(self) -> dict[str, MemoryFile]:
        memory = self._memory
        if memory.caller.audience is Audience.GROUP or memory.settings.incognito:
            return {}
        days = [day for day in memory.workspace.journal.days([self._place]) if not isinstance(day, Finding)]
        pinned = [
            each for each in memory.workspace.documents.all([self._place]) if not isinstance(each, Finding)
        ]
        return {
            **{
                f"journal/{day.path.rpartition('/')[2]}": MemoryFile(memory.get(day.path).text)
                for day in days[-DAYS:]
            },
            **{f"pinned/{each.name}": MemoryFile(clean_text(each.text)) for each in pinned},
        }

    def _file(self, path: str, missing: str) -> MemoryFile:
        found = self._files().get(self._writable(path))
        if found is None:
            raise ToolError(missing)
        return found

    def _matching_files(self, name: str, path: str) -> dict[str, MemoryFile]:
        """Return the file with this name, or all files of the folder with this name."""
        if not name:
            raise ToolError(f"Error: The {ROOT} directory itself cannot be deleted or renamed")
        files = self._files()
        found = {name: files[name]} if name in files else _below(files, name)
        if not found:
            raise ToolError(f"Error: The path {path} does not exist")
        return found

    def _writable(self, path: str) -> str:
        name = relative(path)
        if _is_read_only(name):
            raise ToolError(f"Error: {path} is read-only")
        return name

    def _create(
        self, name: str, text: str, files: Mapping[str, MemoryFile], like: Record | None = None
    ) -> str:
        if not name:
            raise ToolError(f"Error: {ROOT} is a directory")
        parts = name.split("/")
        above = next((each for n in range(1, len(parts)) if (each := "/".join(parts[:n])) in files), None)
        if above is not None:
            raise ToolError(f"Error: {ROOT}/{above} is a file, not a directory")
        key = key_for(name, {file.record.key for file in files.values() if file.record})
        tags = [tag for tag in (like.tags if like else ()) if not tag.startswith(FILE_TAG)]
        stored = self._memory.store(
            text,
            key=key,
            scope=self._scope,
            type=like.type if like else None,
            tags=[*tags, *([] if name == f"{key}.md" else [f"{FILE_TAG}{name}"])],
            confidence=like.confidence if like else None,
            lasting=like is not None and like.protected,
        )
        return _redaction_note(stored.secrets)

    def _edit(self, file: MemoryFile, text: str) -> str:
        name = _record_name(file)
        _, raw = self._memory.care.editable(name, scope=self._scope)
        changed = rewrite(raw, text, at=self._memory.workspace.now())
        try:
            return _redaction_note(self._memory.care.edited(name, raw, changed, scope=self._scope).secrets)
        except PersonsText:
            if file.record is None:
                raise
            stored = self._memory.store(text, key=file.record.key, scope=self._scope, mode="replace")
            return f"{_redaction_note(stored.secrets)}{_PENDING_NOTE if stored.approval else ''}"

    def _forget(self, file: MemoryFile) -> None:
        self._memory.forget(_record_name(file), scope=self._scope)


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for an async client: each command runs in a worker thread."""

    def __init__(
        self,
        memory: Memory,
        *,
        scope: str | Scope = Scope.PROJECT,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = MemoryTool(memory, scope=scope)

    async def call(self, input: object) -> str:
        """Run the model's command; raises ToolError, whose text the model reads, if the command fails."""
        return await asyncio.to_thread(self._tool.call, input)

    async def execute(self, command: BetaMemoryTool20250818Command) -> str:
        """Run one command."""
        return await asyncio.to_thread(self._tool.execute, command)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return a file with line numbers, or the content of a folder."""
        return await self.execute(command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file."""
        return await self.execute(command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs exactly once."""
        return await self.execute(command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text after a line, or at the beginning."""
        return await self.execute(command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Move a file, or all files of a folder, to the archive."""
        return await self.execute(command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Save a file, or all files of a folder, under another name."""
        return await self.execute(command)

    async def clear_all_memory(self) -> str:
        """Move all records of the scope to the archive, except protected ones."""
        return await asyncio.to_thread(self._tool.clear_all_memory)


def check_input(input: object) -> Mapping[str, Any]:
    """Return a command after checking its parameters, because the SDK accepts any input of a model."""
    if not isinstance(input, Mapping):
        raise ToolError(f"Error: the input is a {type(input).__name__}, not an object")
    command = input.get("command")
    needed = _COMMANDS.get(command) if isinstance(command, str) else None
    if needed is None:
        raise ToolError(f"Error: Unknown command: {command}. The commands are: {', '.join(_COMMANDS)}")
    for name, kind in needed.items():
        if name not in input:
            raise ToolError(f"Error: {command} needs the parameter `{name}`")
        if type(input[name]) is not kind:
            raise ToolError(f"Error: the parameter `{name}` must be of type {kind.__name__}")
    return input


def _record_name(file: MemoryFile) -> str:
    """Return a name for a file's record: its id, or its key if a record made by hand has no id."""
    if file.record is None:  # a read-only file has been refused earlier
        raise ToolError("Error: this file is read-only")
    return file.record.id or file.record.key


def _below(files: Mapping[str, MemoryFile], name: str) -> dict[str, MemoryFile]:
    """Return the files in a folder; all files for the root."""
    return {each: file for each, file in files.items() if not name or each.startswith(f"{name}/")}


def _places(text: str, part: str) -> list[int]:
    """Return the positions at which a text contains a part, including overlapping ones."""
    found = []
    at = text.find(part) if part else -1
    while at >= 0:
        found.append(at)
        at = text.find(part, at + 1)
    return found


def _file_view(path: str, text: str, view_range: Sequence[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, last = 1, len(lines)
    if view_range is not None:
        if not isinstance(view_range, list) or [type(each) for each in view_range] != [int, int]:
            raise ToolError(
                f"Error: Invalid `view_range` parameter: {view_range}. It should be two line numbers"
            )
        first, last = view_range[0], len(lines) if view_range[1] == -1 else view_range[1]
        if not 1 <= first <= len(lines) or last < first:
            raise ToolError(
                f"Error: Invalid `view_range` parameter: {view_range}."
                f" It should be within the range of lines of the file: [1, {len(lines)}]"
            )
    return f"Here's the content of {path} with line numbers:\n{with_numbers(lines[first - 1 : last], first)}"


def _folder_listing(path: str, files: Mapping[str, MemoryFile]) -> str:
    """Return the content of a folder, two levels deep, with sizes."""
    top = relative(path)
    sizes: dict[str, int] = {}
    for name, file in files.items():
        parts = name.removeprefix(f"{top}/" if top else "").split("/")
        for depth in range(1, min(len(parts), 2) + 1):
            folder = depth < len(parts)
            path_shown = "/".join(parts[:depth]) + ("/" if folder else "")
            sizes[path_shown] = sizes.get(path_shown, 0) + len(file.text.encode())
    rows = [f"{size_of(sizes[name])}\t{path}/{name}" for name in sorted(sizes)]
    whole = size_of(sum(len(file.text.encode()) for file in files.values()))
    header = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items"
    return "\n".join((f"{header} and node_modules:", f"{whole}\t{path}", *rows))


def _redaction_note(kinds: Sequence[str]) -> str:
    return f"\nNote: secrets in it were replaced ({', '.join(kinds)})." if kinds else ""
