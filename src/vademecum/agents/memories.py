"""The files an agent remembers by, read where they lie and never written.

A folder, one file, or an archive. Links, pipes and devices are passed over, hidden folders too but for those
in which agents keep their memory. An archive that names a path outside of itself is refused as a whole:
nobody makes one by accident.
"""

from __future__ import annotations

import abc
import functools
import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.agents import registry
from vademecum.errors import Malformed, NotFound, OutsideMemory, UnknownName, VadeError
from vademecum.knowledge.intake import Skipped, TopicPiece, TranscriptPiece
from vademecum.store import files, frontmatter
from vademecum.store.document import decode
from vademecum.store.folders import Folder
from vademecum.text import clock
from vademecum.types import Entry, RecordType

if TYPE_CHECKING:
    import tarfile
    import zipfile
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vademecum.knowledge.intake import Conversation, Piece
    from vademecum.transcripts import Json
    from vademecum.types import Scope

LARGEST = 8 * 1024 * 1024  # bytes of one file of text
_LARGEST_ARCHIVE = 256 * 1024 * 1024  # bytes of all files in an archive, unpacked
_MOST = 100_000  # files
_AGENTS = {".clio", ".claude", ".codex", ".co-cli", ".openclaw", ".clawdbot", ".aws", ".config"}
_NEVER = {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"}
_TEXTS = (".md", ".markdown", ".json")
_TARS, _ZIP = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2"), ".zip"
_NOT_TAKEN = (".7z", ".rar", ".gz", ".bz2", ".xz", ".zst", ".lz", ".lz4", ".br", ".iso", ".dmg", ".cpio")
_UNIX = 3  # the system that made a zip, and keeps modes in it
_BLOCKS = re.compile(
    r"^[ \t]*<!-- *((?:vade|cao)(?:-[a-z]+)*)(?::(?!end)[a-z]+)? *-->[ \t]*\n"
    r".*?^[ \t]*<!-- *(?:/\1(?::[a-z]+)?|\1:end) *-->[ \t]*(?:\n|\Z)"
    r"|^<(vade|cao)-memory>\n.*?^</\2-memory>(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_DATE = re.compile(r"(?<!\d)(\d{4}-\d\d-\d\d)(?!\d)")
_TITLE = re.compile(r"\s*# +(\S[^\n]*)(?:\n|\Z)")


class Importing(NamedTuple):
    """Who imports: the root of their project, and whether they named a scope for everything."""

    root: Path | None = None
    scoped: bool = False


def read(system: str, path: Path, here: Importing = Importing()) -> Iterator[Piece]:  # noqa: B008  # a frozen value
    """Everything a system keeps at a path, and what is passed over."""
    agent = registry.find(system)
    if agent is None or agent.memories is None:
        systems = ", ".join(registry.having("memories"))
        raise UnknownName(
            f"{system!r} is not a system that can be imported", hint=f"the systems are {systems}"
        )
    tree = open_tree(path, agent.keeps)
    yield from tree.passed
    anything = False
    for piece in agent.memories(tree, here):
        anything = anything or not isinstance(piece, Skipped)
        yield piece
    if not anything:
        yield Skipped(str(path), f"no memory of {system} found")


def check_outside(path: str | os.PathLike[str], home: Path) -> None:
    """Refuse to import what is inside the memory folder already."""
    if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(home)):
        raise OutsideMemory(
            f"{os.fspath(path)} is inside the memory folder", hint="it is already part of this memory"
        )


# -------------------------------------------------------------------- trees of files


class TextFile(NamedTuple):
    """A file of text: its path below the tree, what it says, and when it was last changed."""

    name: str
    text: str
    changed: str


class FileTree(abc.ABC):
    """Files by their paths below one top, with `/` between the names."""

    def __init__(self, top: Path, also: tuple[str, ...] = ()) -> None:
        self.top = top  # the folder or archive it is
        self._endings = (*_TEXTS, *also)
        self._shown = {*_AGENTS, *also}  # hidden names that are read all the same
        self.passed: list[Skipped] = []  # what is there and may not be read, with the reason

    @abc.abstractmethod
    def names(self) -> list[str]:
        """The paths of all files that may be read, sorted."""

    @abc.abstractmethod
    def content(self, name: str, *, largest: int = LARGEST) -> bytes:
        """The bytes of a file; refused when there are too many."""

    @abc.abstractmethod
    def changed(self, name: str) -> str:
        """When a file was last changed."""

    def read(self, name: str) -> TextFile | Skipped:
        """A file of text, or why it is none."""
        try:
            text = decode(self.content(name)).removeprefix("\ufeff").replace("\r\n", "\n")
            return TextFile(name, text, self.changed(name))
        except Malformed as error:
            binary = "NUL" in str(error) or "UTF-8" in str(error)
            return Skipped(name, f"not a text: {error}" if binary else str(error))
        except (VadeError, OSError) as error:
            return Skipped(name, f"cannot be read: {error}")

    def whole(self, name: str) -> tuple[list[str], int]:
        """The parts of a file's path, and how many of them lead to the tree.

        What the user named may lie deep in a system's folder; where an archive lies says nothing of them.
        """
        above = [*self.top.parts] if self.top.is_dir() else []
        return [*above, *name.split("/")], len(above)

    def _pass(self, name: str, why: str) -> None:
        self.passed.append(Skipped(name, why))


def open_tree(path: Path, also: tuple[str, ...] = ()) -> FileTree:
    """The tree at a path, which the user named: links on the way to it are their own."""
    real = Path(os.path.realpath(path))
    if real.is_dir():
        return FolderTree(real, also=also)
    if not real.is_file():
        raise NotFound(f"{path} does not exist", hint="give a folder, a file or a .tar.gz archive")
    name = real.name.lower()
    if name.endswith((*_TARS, _ZIP)):
        return ArchiveTree(real, also)
    if name.endswith(_NOT_TAKEN):
        raise Malformed(
            f"{path} is an unsupported archive",
            hint="unpack it and import the folder, or pack it as .zip or .tar.gz",
        )
    return FolderTree(real.parent, real.name)


class FolderTree(FileTree):
    """A folder, or one file of it."""

    def __init__(self, top: Path, only: str = "", also: tuple[str, ...] = ()) -> None:
        super().__init__(top, also)
        self._names: list[str] = [only] if only else []
        if not only:
            self._walk()

    def names(self) -> list[str]:
        """The paths of all files that may be read, sorted."""
        return self._names

    def content(self, name: str, *, largest: int = LARGEST) -> bytes:
        """The bytes of a file; refused when there are too many."""
        *above, last = name.split("/")
        with Folder.at(self.top) as top, top.enter(*above) as folder:
            state = folder.stat(last)
            if state is not None and state.st_size > largest:
                raise Malformed(_too_large(state.st_size, largest))
            content = files.read(folder, last, largest=largest)
        if content is None:
            raise NotFound(f"{name} is gone")
        return content

    def changed(self, name: str) -> str:
        """When a file was last changed."""
        return _stamp(self.top.joinpath(name).lstat().st_mtime)

    def _walk(self) -> None:
        def unreadable(error: OSError) -> None:
            where = os.path.relpath(str(error.filename), self.top)
            self._pass(where, f"cannot be read: {error.strerror}")

        for above, folders, found in os.walk(self.top, onerror=unreadable):
            inside = os.path.relpath(above, self.top)
            prefix = "" if inside == "." else f"{Path(inside).as_posix()}/"
            kept = []
            for name in sorted(folders):
                if os.path.islink(os.path.join(above, name)):
                    self._pass(f"{prefix}{name}", "a link, which is not followed")
                elif name.startswith(".") and name not in self._shown | _NEVER:
                    self._pass(f"{prefix}{name}", "a hidden folder")
                elif name not in _NEVER:
                    kept.append(name)
            folders[:] = kept
            for name in sorted(found):
                self._file(os.path.join(above, name), f"{prefix}{name}")
            if len(self._names) > _MOST:
                raise Malformed(f"{self.top} has more than {_MOST:,} files", hint="name a folder inside it")
        self._names.sort()

    def _file(self, path: str, name: str) -> None:
        if not name.lower().endswith(self._endings):
            return
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            self._pass(name, "a link, which is not followed")
        elif not stat.S_ISREG(mode):
            self._pass(name, "not a regular file")
        elif (last := name.rpartition("/")[2]).startswith(".") and last not in self._shown:
            self._pass(name, "a hidden file")
        else:
            self._names.append(name)


class ArchiveTree(FileTree):
    """An archive, unpacked into memory and nowhere else."""

    def __init__(self, top: Path, also: tuple[str, ...] = ()) -> None:
        import tarfile
        import zipfile
        import zlib

        super().__init__(top, also)
        self._files: dict[str, tuple[bytes, str]] = {}
        broken = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError)
        try:
            if top.name.lower().endswith(_ZIP):
                with zipfile.ZipFile(top) as packed:
                    self._unpack(map(functools.partial(_zipped, packed), packed.infolist()))
            else:
                with tarfile.open(top) as archive:
                    self._unpack(map(functools.partial(_tarred, archive), archive))
        except (*broken, OSError, RuntimeError) as error:  # the last: of a zip that needs a password
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise Malformed(f"{top} is not an archive that can be read: {error}") from error
        self._drop_common_top()

    def names(self) -> list[str]:
        """The paths of all files that may be read, sorted."""
        return sorted(self._files)

    def content(self, name: str, *, largest: int = LARGEST) -> bytes:
        """The bytes of a file; refused when there are too many."""
        content = self._files[name][0]
        if len(content) > largest:
            raise Malformed(_too_large(len(content), largest))
        return content

    def changed(self, name: str) -> str:
        """When a file was last changed."""
        return self._files[name][1]

    def _unpack(self, members: Iterable[_Member]) -> None:
        total = 0
        for number, member in enumerate(members):
            name = _inside(member)
            total += member.size
            if number >= _MOST or total > _LARGEST_ARCHIVE:
                raise Malformed(f"{self.top} unpacks to more than the limit", hint="unpack it, and import it")
            if member.kind != "file" or not name.lower().endswith(self._endings):
                continue
            if any(map(self._is_hidden, name.split("/"))):
                self._pass(name, "a hidden file")
            elif member.size > LARGEST and name.lower().endswith(_TEXTS[:2]):
                self._pass(name, _too_large(member.size, LARGEST))
            else:
                content = member.read()
                if len(content) > member.size:
                    raise Malformed(f"{self.top} contains more than it declares", hint="do not trust it")
                self._files[name] = (content, member.changed)

    def _drop_common_top(self) -> None:
        tops = {name.partition("/")[0] for name in self._files}
        if len(tops) == 1 and all("/" in name for name in self._files) and not tops & self._shown:
            self._files = {name.partition("/")[2]: each for name, each in self._files.items()}

    def _is_hidden(self, name: str) -> bool:
        return name in _NEVER or (name.startswith(".") and name not in self._shown)


class _Member(NamedTuple):
    """What an archive holds under one name; it is read when it is wanted."""

    name: str
    size: int
    kind: str  # file, folder, link or other
    changed: str
    read: Callable[[], bytes]


def _tarred(archive: tarfile.TarFile, member: tarfile.TarInfo) -> _Member:
    def content() -> bytes:
        file = archive.extractfile(member)
        return file.read() if file else b""

    kinds = {"file": member.isreg(), "folder": member.isdir(), "link": member.issym() or member.islnk()}
    kind = next((kind for kind, is_one in kinds.items() if is_one), "other")
    return _Member(member.name, member.size, kind, _stamp(member.mtime), content)


def _zipped(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Member:
    def content() -> bytes:
        with archive.open(member) as file:
            return file.read(member.file_size + 1)  # what it says of its size may be wrong

    mode = stat.S_IFMT(member.external_attr >> 16) if member.create_system == _UNIX else 0
    kind = {0: "file", stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}.get(mode, "other")
    try:
        changed = datetime(*member.date_time).astimezone().timestamp()  # of a clock on a wall, without a zone
    except (ValueError, OverflowError):  # some write no day at all
        changed = 0.0
    kind = "folder" if member.is_dir() else kind
    return _Member(member.filename, member.file_size, kind, _stamp(changed), content)


def _inside(member: _Member) -> str:
    """The path of a member; one that leads out of the archive, or elsewhere, ends the import."""
    name = member.name.replace("\\", "/")
    parts = [each for each in name.split("/") if each not in ("", ".")]
    if name.startswith("/") or ".." in parts or (parts and parts[0].endswith(":")):
        raise OutsideMemory(
            "the archive names a path outside of itself", hint="do not trust it; nothing of it was read"
        )
    if member.kind == "link":
        raise OutsideMemory("the archive contains a link", hint="repack it without links")
    if member.kind == "other":
        raise OutsideMemory("the archive contains something that is not a file", hint="repack it without it")
    return "/".join(parts)


def _too_large(size: int, largest: int) -> str:
    return f"too large: {size:,} bytes, and at most {largest:,} are read"


def _stamp(seconds: float) -> str:
    try:
        return clock.stamp(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


# -------------------------------------------------------------------- what several readers need


class Fronted(NamedTuple):
    """A file with frontmatter: the block as it stands, what it says, and what stands below it."""

    front: str
    values: Mapping[str, Any]
    body: str


def fronted(file: TextFile) -> Fronted | Skipped:
    """A file taken apart; one whose frontmatter cannot be read is left."""
    try:
        found = frontmatter.parse(file.text)
    except Malformed as error:
        return Skipped(file.name, f"malformed: {error}")
    front = file.text[: found.body]
    if front and not front.endswith("\n"):
        front += "\n"
    return Fronted(front if found.values else "", found.values, file.text[found.body :])


def titled(body: str) -> tuple[str, str]:
    """The title of a text, if its first line is one, and what follows it."""
    match = _TITLE.match(body)
    return (match[1].strip(), body[match.end() :]) if match else ("", body)


def reference(source: str, key: str, text: str, scope: Scope, *, when: str, front: str = "") -> TopicPiece:
    """A text that is loaded now and then, as a record to look things up in."""
    title, body = titled(text)
    return TopicPiece(
        source,
        key,
        (Entry(body if body.strip() else text, when),),
        scope,
        named=False,
        type=RecordType.REFERENCE,
        title=title,
        heading=title,
        front=front,
        without=("type",),
    )


def key_of(name: str) -> str:
    """A key made of a file's path."""
    return name.removesuffix(".md").replace("/", " ")


def value_in(tree: FileTree, name: str) -> tuple[Json, list[Skipped]]:
    """A file of JSON that may be large; of a damaged one what stands before the damage, and what is wrong."""
    from vademecum.transcripts import reading

    try:
        value, problems = reading.document_in(tree.content(name, largest=reading.LARGEST))
    except (VadeError, OSError) as error:
        return None, [Skipped(name, str(error))]
    told = [f"line {each.line}: {each.why}" if each.line else each.why for each in problems]
    return value, [Skipped(name, f"malformed: {each}; everything before it was read") for each in told]


def session_in(tree: FileTree, name: str, source: str, known: Conversation) -> Piece:
    """One of the sessions in a file of a tree; one in which nobody says anything is left."""
    from vademecum.transcripts import Message

    path = tree.top / name if tree.top.is_dir() else tree.top
    spoken = any(isinstance(each, Message) for each in known.read(path))
    return TranscriptPiece(source, path, known) if spoken else Skipped(source, "it contains no messages")


def date_in(name: str) -> str:
    """The date in a file's name; empty when there is none."""
    match = _DATE.search(name.rpartition("/")[2])
    return match[1] if match else ""


def words_of(value: object) -> tuple[str, ...]:
    """Tags or other words, as a list or between commas."""
    if isinstance(value, str):
        value = value.split(",")
    return tuple(str(each).strip() for each in value if each is not None) if isinstance(value, list) else ()


def stamp_of(value: object) -> str:
    """A time in seconds since 1970, or in words, as a stamp; empty when it is neither."""
    if isinstance(value, str) and not value.strip().isdecimal():
        found = clock.parse(value.strip())
        return "" if found is None else clock.stamp(found)
    try:
        seconds = float(value) if isinstance(value, (int, float, str)) else -1.0
    except (ValueError, OverflowError):
        return ""
    return _stamp(seconds) if seconds > 0 else ""


def unmarked(text: str) -> str:
    """A text without the blocks that memories write into the files of others: theirs is not to be learned."""
    return _BLOCKS.sub("", text)


def text_of(value: object) -> str:
    """A value as text; nothing for none."""
    return "" if value is None else str(value)
