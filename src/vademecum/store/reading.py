"""Reading lines of memory by path: only files that the caller can see are there to be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from vademecum.errors import OutsideMemory
from vademecum.store import archive, names, outgoing, scopes, sources, validate
from vademecum.types import Audience

if TYPE_CHECKING:
    from vademecum.store.home import Home, Shelf


MOST = 8 * 1024 * 1024  # bytes of a log that one answer holds
BLOCK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Text:
    """Lines of a file: what `get` returns; a file that is not there is an empty text."""

    path: str
    text: str
    start: int = 1
    end: int = 0
    lines: int = 0


def lines_of(path: str, content: bytes | None, *, start: int = 1, count: int | None = None) -> Text:
    """A range of a file's lines, counted from 1."""
    if content is None:
        return Text(path, "")
    every = validate.decode(content).split("\n")
    if every[-1] == "":
        every.pop()
    chosen = every[start - 1 :] if count is None else every[start - 1 : start - 1 + count]
    return Text(path, "\n".join(chosen), start, start + len(chosen) - 1, len(every))


def clean_lines_of(path: str, content: bytes | None, *, start: int = 1, count: int | None = None) -> Text:
    """The same as they may leave: cleaned as a whole, since a secret may go over several lines."""
    if content is not None:
        content = outgoing.clean_lines(validate.decode(content)).encode()
    return lines_of(path, content, start=start, count=count)


def streamed(path: str, file: BinaryIO, *, start: int = 1, count: int | None = None) -> Text:
    """A range of the lines of a file of any length; what does not fit into one answer is left for the next.

    An answer holds at least a whole line, and `lines` is the count of all.
    """
    chosen: list[bytes] = []
    held = number = 0
    full = False
    while piece := file.readline(BLOCK):
        number += 1
        wanted = number >= start and not full and (count is None or len(chosen) < count)
        line = [piece] if wanted else []
        while not piece.endswith(b"\n") and (piece := file.readline(BLOCK)):
            if wanted:
                line.append(piece)
        if wanted:
            whole = b"".join(line).removesuffix(b"\n")
            held += len(whole)
            full = bool(chosen) and held > MOST
            chosen += [] if full else [whole]
    text = "\n".join(each.decode(errors="replace") for each in chosen)
    return Text(path, text, start, start + len(chosen) - 1, number)


def from_shelf(shelf: Shelf, *names_below: str) -> bytes | None:
    """A file below a shelf, or None."""
    try:
        folder = shelf.open(*names_below[:-1])
    except NotADirectoryError:
        return None
    if folder is None:
        return None
    with folder:
        return folder.read(names_below[-1])


def from_source(top: str, names_below: tuple[str, ...]) -> bytes | None:
    """A file of an attached source, entered from its top without following links."""
    try:
        with sources.entered(top, names_below[:-1]) as inside:
            return inside.read(names_below[-1])
    except (FileNotFoundError, NotADirectoryError):
        return None


def by_path(home: Home, caller: scopes.Caller, path: str) -> tuple[str, bytes | None]:
    """A file of memory by the path it is shown with."""
    clean = path.removeprefix(f"{home.path}/")
    for place in scopes.visible(caller):
        for shelf in scopes.shelves(home, caller, place):
            if clean.startswith(f"{shelf.label}/"):
                parts = clean.removeprefix(f"{shelf.label}/").split("/")
                if _readable(caller, parts):
                    return clean, from_shelf(shelf, *parts)
    for source in sources.visible(home, caller):
        inside = source.holds(path)
        if inside is not None:
            return path, from_source(*inside)
    raise OutsideMemory(f"{names.shown(path)} is not a file of this memory")


def _readable(caller: scopes.Caller, parts: list[str]) -> bool:
    """Whether names below a shelf are those of a record, a journal or a pinned document."""
    if caller.audience is Audience.GROUP and parts[0] == archive.JOURNAL:
        return False
    hidden = any(not part or part.startswith(".") for part in parts)
    return not hidden and parts[-1].endswith(".md") and len(parts) <= 2
