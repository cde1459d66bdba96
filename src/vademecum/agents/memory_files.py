"""Reader of the files of an agent's memory, in place and without ever writing.

The files are in a folder or an archive, or a single file. Links, pipes and devices are skipped, and so are
hidden folders, except those in which agents keep their memory. An archive with a path that leads outside of
it is refused as a whole, because such an archive is never made by accident.
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
from vademecum.knowledge import Skipped, TopicPiece, TranscriptPiece
from vademecum.progress import counted_up
from vademecum.store import Folder, files
from vademecum.text import clock, frontmatter
from vademecum.text.document import decode
from vademecum.types import Entry, RecordType

if TYPE_CHECKING:
    import tarfile
    import zipfile
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vademecum.knowledge import Conversation, Piece
    from vademecum.transcripts import Json
    from vademecum.types import Scope

LARGEST = 8 * 1024 * 1024  # bytes of one text file
_LARGEST_ARCHIVE = 256 * 1024 * 1024  # bytes of all files in an archive, unpacked
_MOST = 100_000  # files
_AGENTS = {".clio", ".claude", ".codex", ".co-cli", ".openclaw", ".clawdbot", ".aws", ".config"}
_NEVER = {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"}
_TEXTS = (".md", ".markdown", ".json")
_TARS, _ZIP = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2"), ".zip"
_UNSUPPORTED = (".7z", ".rar", ".gz", ".bz2", ".xz", ".zst", ".lz", ".lz4", ".br", ".iso", ".dmg", ".cpio")
_UNIX = 3  # the system that made a zip file and stored Unix modes in it
_BLOCKS = re.compile(
    r"^[ \t]*<!-- *((?:vade|cao)(?:-[a-z]+)*)(?::(?!end)[a-z]+)? *-->[ \t]*\n"
    r".*?^[ \t]*<!-- *(?:/\1(?::[a-z]+)?|\1:end) *-->[ \t]*(?:\n|\Z)"
    r"|^<(vade|cao)-memory>\n.*?^</\2-memory>(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_DATE = re.compile(r"(?<!\d)(\d{4}-\d\d-\d\d)(?!\d)")
_TITLE = re.compile(r"\s*# +(\S[^\n]*)(?:\n|\Z)")


class Importing(NamedTuple):
    """The options of an import: the root of the user's project, and whether the user named a scope."""

    root: Path | None = None
    scoped: bool = False


def read(system: str, path: Path, here: Importing = Importing()) -> Iterator[Piece]:  # noqa: B008  # a frozen value
    """Yield everything that a system stores at a path, and what was skipped."""
    agent = registry.find(system)
    if agent is None or agent.memories is None:
        systems = ", ".join(registry.having("memories"))
        raise UnknownName(
            f"{system!r} is not a system that can be imported", hint=f"the systems are {systems}"
        )
    tree = open_tree(path, agent.keeps)
    yield from tree.skipped
    found_any = False
    for piece in agent.memories(tree, here):
        found_any = found_any or not isinstance(piece, Skipped)
        yield piece
    if not found_any:
        yield Skipped(str(path), f"no memory of {system} found")


def check_outside(path: str | os.PathLike[str], home: Path) -> None:
    """Raise an error for an import from inside the memory folder."""
    if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(home)):
        raise OutsideMemory(
            f"{os.fspath(path)} is inside the memory folder", hint="it is already part of this memory"
        )


# -------------------------------------------------------------------- trees of files


class TextFile(NamedTuple):
    """A text file: its path in the tree, its text, and the time of its last change."""

    name: str
    text: str
    changed: str


class FileTree(abc.ABC):
    """Files by their paths below one top folder, with `/` between names."""

    def __init__(self, top: Path, also: tuple[str, ...] = ()) -> None:
        self.top = top  # the folder or the archive
        self._endings = (*_TEXTS, *also)
        self._shown_names = {*_AGENTS, *also}  # hidden names that are read anyway
        self.skipped: list[Skipped] = []  # files that must not be read, with the reason

    @abc.abstractmethod
    def names(self) -> list[str]:
        """Return the paths of all readable files, sorted."""

    @abc.abstractmethod
    def content(self, name: str, *, largest: int = LARGEST) -> bytes:
        """Return the bytes of a file; raise an error for a file that is too large."""

    @abc.abstractmethod
    def changed(self, name: str) -> str:
        """Return the time of a file's last change."""

    def read(self, name: str) -> TextFile | Skipped:
        """Return a text file, or the reason why it cannot be read."""
        try:
            text = decode(self.content(name)).removeprefix("\ufeff").replace("\r\n", "\n")
            return TextFile(name, text, self.changed(name))
        except Malformed as error:
            binary = "NUL" in str(error) or "UTF-8" in str(error)
            return Skipped(name, f"not a text: {error}" if binary else str(error))
        except (VadeError, OSError) as error:
            return Skipped(name, f"cannot be read: {error}")

    def full_path(self, name: str) -> tuple[list[str], int]:
        """Return the parts of a file's full path, and how many of them lead to the tree's top.

        The full path shows whether the named folder lies inside a system's folder. An archive's own path is
        left out.
        """
        above = [*self.top.parts] if self.top.is_dir() else []
        return [*above, *name.split("/")], len(above)

    def _skip(self, name: str, why: str) -> None:
        self.skipped.append(Skipped(name, why))


def open_tree(path: Path, also: tuple[str, ...] = ()) -> FileTree:
    """Return the tree at a path that the user named; links on the way to the path are followed.

    `also` names further endings and hidden names that are read.
    """
    real = Path(os.path.realpath(path))
    if real.is_dir():
        return FolderTree(real, also=also)
    if not real.is_file():
        raise NotFound(f"{path} does not exist", hint="give a folder, a file or a .tar.gz archive")
    name = real.name.lower()
    if name.endswith((*_TARS, _ZIP)):
        return ArchiveTree(real, also)
    if name.endswith(_UNSUPPORTED):
        raise Malformed(
            f"{path} is an unsupported archive",
            hint="unpack it and import the folder, or pack it as .zip or .tar.gz",
        )
    return FolderTree(real.parent, real.name)


class FolderTree(FileTree):
    """A folder as a tree, or a single file of the folder."""

    def __init__(self, top: Path, only: str = "", also: tuple[str, ...] = ()) -> None:
        super().__init__(top, also)
        self._names: list[str] = [only] if only else []
        if not only:
            self._walk()

    def names(self) -> list[str]:
        """Return the paths of all readable files, sorted."""
        return self._names

    def content(self, name: str, *, largest: int = LARGEST) -> bytes:
        """Return the bytes of a file; raise an error for a file that is too large."""
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
        """Return the time of a file's last change."""
        return _stamp(self.top.joinpath(name).lstat().st_mtime)

    def _walk(self) -> None:
        def unreadable(error: OSError) -> None:
            where = os.path.relpath(str(error.filename), self.top)
            self._skip(where, f"cannot be read: {error.strerror}")

        for above, folders, found in os.walk(self.top, onerror=unreadable):
            inside = os.path.relpath(above, self.top)
            prefix = "" if inside == "." else f"{Path(inside).as_posix()}/"
            subfolders = []
            for name in sorted(folders):
                if os.path.islink(os.path.join(above, name)):
                    self._skip(f"{prefix}{name}", "a link, which is not followed")
                elif name.startswith(".") and name not in self._shown_names | _NEVER:
                    self._skip(f"{prefix}{name}", "a hidden folder")
                elif name not in _NEVER:
                    subfolders.append(name)
            folders[:] = subfolders
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
            self._skip(name, "a link, which is not followed")
        elif not stat.S_ISREG(mode):
            self._skip(name, "not a regular file")
        elif (last := name.rpartition("/")[2]).startswith(".") and last not in self._shown_names:
            self._skip(name, "a hidden file")
        else:
            self._names.append(name)


class ArchiveTree(FileTree):
    """An archive as a tree, unpacked only into memory."""

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
                    self._unpack(map(functools.partial(_zip_member, packed), packed.infolist()))
            else:
                with tarfile.open(top) as archive:
                    self._unpack(map(functools.partial(_tar_member, archive), archive))
        except (*broken, OSError, RuntimeError) as error:  # RuntimeError: a zip file needs a password
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise Malformed(f"{top} is not an archive that can be read: {error}") from error
        self._drop_common_top()

    def names(self) -> list[str]:
        """Return the paths of all readable files, sorted."""
        return sorted(self._files)

    def content(self, name: str, *, largest: int = LARGEST) -> bytes:
        """Return the bytes of a file; raise an error for a file that is too large."""
        content = self._files[name][0]
        if len(content) > largest:
            raise Malformed(_too_large(len(content), largest))
        return content

    def changed(self, name: str) -> str:
        """Return the time of a file's last change."""
        return self._files[name][1]

    def _unpack(self, members: Iterable[_Member]) -> None:
        total = 0
        for number, member in enumerate(counted_up(members, "files of the archive")):
            name = _safe_path(member)
            total += member.size
            if number >= _MOST or total > _LARGEST_ARCHIVE:
                raise Malformed(f"{self.top} unpacks to more than the limit", hint="unpack it, and import it")
            if member.kind != "file" or not name.lower().endswith(self._endings):
                continue
            if any(map(self._is_hidden, name.split("/"))):
                self._skip(name, "a hidden file")
            elif member.size > LARGEST and name.lower().endswith(_TEXTS[:2]):
                self._skip(name, _too_large(member.size, LARGEST))
            else:
                content = member.read()
                if len(content) > member.size:
                    raise Malformed(f"{self.top} contains more than it declares", hint="do not trust it")
                self._files[name] = (content, member.changed)

    def _drop_common_top(self) -> None:
        tops = {name.partition("/")[0] for name in self._files}
        if len(tops) == 1 and all("/" in name for name in self._files) and not tops & self._shown_names:
            self._files = {name.partition("/")[2]: each for name, each in self._files.items()}

    def _is_hidden(self, name: str) -> bool:
        return name in _NEVER or (name.startswith(".") and name not in self._shown_names)


class _Member(NamedTuple):
    """An entry of an archive; its content is read on demand."""

    name: str
    size: int
    kind: str  # file, folder, link or other
    changed: str
    read: Callable[[], bytes]


def _tar_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> _Member:
    def content() -> bytes:
        file = archive.extractfile(member)
        return file.read() if file else b""

    kinds = {"file": member.isreg(), "folder": member.isdir(), "link": member.issym() or member.islnk()}
    kind = next((kind for kind, is_one in kinds.items() if is_one), "other")
    return _Member(member.name, member.size, kind, _stamp(member.mtime), content)


def _zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Member:
    def content() -> bytes:
        with archive.open(member) as file:
            return file.read(member.file_size + 1)  # the declared size may be wrong

    mode = stat.S_IFMT(member.external_attr >> 16) if member.create_system == _UNIX else 0
    kind = {0: "file", stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}.get(mode, "other")
    try:
        # local time, because a zip stores no zone
        changed = datetime(*member.date_time).astimezone().timestamp()
    except (ValueError, OverflowError):  # some programs write an invalid day
        changed = 0.0
    kind = "folder" if member.is_dir() else kind
    return _Member(member.filename, member.file_size, kind, _stamp(changed), content)


def _safe_path(member: _Member) -> str:
    """Return the path of an archive's entry; raise an error for a link, or a path out of the archive."""
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


# -------------------------------------------------------------------- helpers of the readers


class FrontmatterFile(NamedTuple):
    """A file with frontmatter: the frontmatter block, its values, and the body."""

    front: str
    values: Mapping[str, Any]
    body: str


def split_frontmatter(file: TextFile) -> FrontmatterFile | Skipped:
    """Split a file into frontmatter and body; return `Skipped` if the frontmatter is invalid."""
    try:
        found = frontmatter.parse(file.text)
    except Malformed as error:
        return Skipped(file.name, f"malformed: {error}")
    front = file.text[: found.body]
    if front and not front.endswith("\n"):
        front += "\n"
    return FrontmatterFile(front if found.values else "", found.values, file.text[found.body :])


def split_title(body: str) -> tuple[str, str]:
    """Return the title in a text's first line (empty if the line is no title), and the rest of the text."""
    match = _TITLE.match(body)
    return (match[1].strip(), body[match.end() :]) if match else ("", body)


def reference(source: str, key: str, text: str, scope: Scope, *, when: str, front: str = "") -> TopicPiece:
    """Return a text that agents load on demand as a reference record."""
    title, body = split_title(text)
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
    """Return a key made from a file's path, in words."""
    return name.removesuffix(".md").replace("/", " ")


def value_in(tree: FileTree, name: str) -> tuple[Json, list[Skipped]]:
    """Return the value of a JSON file, which may be large, and the problems found.

    Of a damaged file, the part before the damage is returned.
    """
    from vademecum.transcripts import foreign

    try:
        value, problems = foreign.document_in(tree.content(name, largest=foreign.LARGEST))
    except (VadeError, OSError) as error:
        return None, [Skipped(name, str(error))]
    messages = [f"line {each.line}: {each.why}" if each.line else each.why for each in problems]
    return value, [Skipped(name, f"malformed: {each}; everything before it was read") for each in messages]


def session_in(tree: FileTree, name: str, source: str, known: Conversation) -> Piece:
    """Return a session from a file of the tree; a session without messages is returned as skipped."""
    from vademecum.transcripts import Message

    path = tree.top / name if tree.top.is_dir() else tree.top
    has_messages = any(isinstance(each, Message) for each in known.read(path))
    return (
        TranscriptPiece(source, path, known) if has_messages else Skipped(source, "it contains no messages")
    )


def date_in(name: str) -> str:
    """Return the date in a file's name; empty if there is none."""
    match = _DATE.search(name.rpartition("/")[2])
    return match[1] if match else ""


def word_list(value: object) -> tuple[str, ...]:
    """Return tags or other words, from a list or a comma-separated text."""
    if isinstance(value, str):
        value = value.split(",")
    return tuple(str(each).strip() for each in value if each is not None) if isinstance(value, list) else ()


def stamp_of(value: object) -> str:
    """Return a time (seconds since 1970, or text) as a stamp; empty if the value is no time."""
    if isinstance(value, str) and not value.strip().isdecimal():
        found = clock.parse(value.strip())
        return "" if found is None else clock.stamp(found)
    try:
        seconds = float(value) if isinstance(value, (int, float, str)) else -1.0
    except (ValueError, OverflowError):
        return ""
    return _stamp(seconds) if seconds > 0 else ""


def remove_memory_blocks(text: str) -> str:
    """Return a text without blocks of memory that programs injected and that must not be imported."""
    return _BLOCKS.sub("", text)


def text_of(value: object) -> str:
    """Return a value as text; empty for None."""
    return "" if value is None else str(value)
