"""What several readers need: frontmatter taken from its body, times from names, ids from paths."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed
from vademecum.interfaces.importers import tree as trees
from vademecum.knowledge.intake import Skipped
from vademecum.store import clock, frontmatter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vademecum.interfaces.importers.tree import File, Tree

_BLOCKS = re.compile(
    r"^[ \t]*<!-- *((?:vade|cao)(?:-[a-z]+)*)(?::(?!end)[a-z]+)? *-->[ \t]*\n"
    r".*?^[ \t]*<!-- *(?:/\1(?::[a-z]+)?|\1:end) *-->[ \t]*(?:\n|\Z)"
    r"|^<(vade|cao)-memory>\n.*?^</\2-memory>(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_DATE = re.compile(r"(?<!\d)(\d{4}-\d\d-\d\d)(?!\d)")
_TITLE = re.compile(r"\s*# +(\S[^\n]*)(?:\n|\Z)")


class Fronted(NamedTuple):
    """A file with frontmatter: the block as it stands, what it says, and what stands below it."""

    front: str
    values: Mapping[str, Any]
    body: str


def fronted(file: File) -> Fronted | Skipped:
    """A file taken apart; one whose frontmatter cannot be read is left."""
    try:
        found = frontmatter.parse(file.text)
    except Malformed as error:
        return Skipped(file.name, f"malformed: {error}")
    front = file.text[: found.body]
    if front and not front.endswith("\n"):
        front += "\n"
    return Fronted(front if found.values else "", found.values, file.text[found.body :])


def texts(tree: Tree, names: Iterable[str]) -> Iterator[File | Skipped]:
    """These files, and those that are no text."""
    for name in names:
        yield trees.read(tree, name)


def titled(body: str) -> tuple[str, str]:
    """The title of a text, if its first line is one, and what follows it."""
    match = _TITLE.match(body)
    return (match[1].strip(), body[match.end() :]) if match else ("", body)


def date_in(name: str) -> str:
    """The date in a file's name; empty when there is none."""
    match = _DATE.search(name.rpartition("/")[2])
    return match[1] if match else ""


def below(name: str, folder: str) -> str | None:
    """A path from a folder of that name on, wherever that lies; None when it is not on the path."""
    parts = name.split("/")
    wanted = folder.split("/")
    for at in range(len(parts) - len(wanted)):
        if parts[at : at + len(wanted)] == wanted:
            return "/".join(parts[at + len(wanted) :])
    return None


def whole(tree: Tree, name: str) -> tuple[list[str], int]:
    """The parts of a file's path, and how many of them lead to the tree.

    What the user named may lie deep in a system's folder; where an archive lies says nothing of its files.
    """
    own = name.split("/")
    above = [*tree.top.parts] if tree.top.is_dir() else []
    return [*above, *own], len(above)


def listed(value: object) -> tuple[str, ...]:
    """Tags or other words, as a list or between commas."""
    if isinstance(value, str):
        value = value.split(",")
    return tuple(str(each).strip() for each in value if each is not None) if isinstance(value, list) else ()


def moment(value: object) -> str:
    """A time in seconds since 1970, or in words, as a stamp; empty when it is neither."""
    if isinstance(value, str) and not value.strip().isdecimal():
        found = clock.parse(value.strip())
        return "" if found is None else clock.stamp(found)
    try:
        seconds = float(value) if isinstance(value, (int, float, str)) else -1.0
        return clock.stamp(datetime.fromtimestamp(seconds, UTC)) if seconds > 0 else ""
    except (ValueError, OverflowError, OSError):
        return ""


def unmarked(text: str) -> str:
    """A text without the blocks that memories write into the files of others: theirs is not to be learned."""
    return _BLOCKS.sub("", text)


def text_of(value: object) -> str:
    """A value as text; nothing for none."""
    return "" if value is None else str(value)
