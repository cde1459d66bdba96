"""The files that agents read by themselves, and the block that is kept in them between two marks.

Everything outside of the marks is the user's and stays byte for byte. A mark without its other half is taken
out, and nothing else with it: whoever broke the pair may have typed between them.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.agents import registry
from vademecum.errors import OutsideMemory, UnknownName
from vademecum.inject.render import CLOSE, OPEN
from vademecum.store import files, names
from vademecum.store.folders import Folder
from vademecum.store.validate import decode

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.store import Home

BEGIN, END = "<!-- vade-memory:begin -->", "<!-- vade-memory:end -->"
_LINE = re.compile(rf"(?m)^[ \t]*(?:{re.escape(BEGIN)}|{re.escape(END)})[ \t]*\r?\n?")
_PAIR = re.compile(
    rf"(?m)^[ \t]*{re.escape(BEGIN)}[ \t]*\r?\n(?P<inner>(?:(?![ \t]*{re.escape(BEGIN)}).*\n)*?)"
    rf"[ \t]*{re.escape(END)}[ \t]*(?:\r?\n|\Z)"
)


class ProviderFile(NamedTuple):
    """What became of a provider's file."""

    path: Path
    changed: bool
    warnings: tuple[str, ...] = ()  # what is to be known of what was written


def write(home: Home, root: Path, agent: str, block: str) -> ProviderFile:
    """Keep a block in the file that an agent reads; an empty one takes what was there away again."""
    found = registry.find(agent)
    if found is None or found.instructions is None:
        listed = ", ".join(registry.having("instructions"))
        raise UnknownName(
            f"{names.shown(agent)} is not an agent whose file is known", hint=f"one of {listed}"
        )
    known = found.instructions
    parts = _real(root, known.parts)
    path = root.joinpath(*parts)

    def put(content: bytes | None) -> bytes:
        return placed(decode(content or b""), block, opening=known.opening).encode()

    with home.lock(f"provider {path}"), Folder.at(root) as top:
        if not block and not os.path.lexists(path):
            return ProviderFile(path, False)
        with top.enter(*parts[:-1], create=True, mode=0o755) as folder:
            written = files.update(folder, parts[-1], put, mode=0o644)
    return ProviderFile(path, written.changed)


def placed(text: str, block: str, *, opening: str = "") -> str:
    """A file's text with the block between its marks: where they are, or else at its end."""
    newline = "\r\n" if text.count("\n") == text.count("\r\n") > 0 else "\n"
    body = f"{BEGIN}\n{block}{END}\n".replace("\n", newline) if block else ""
    pairs = list(_PAIR.finditer(text))
    if not pairs:
        rest = _LINE.sub("", text)
        if not body:
            return rest
        gap = "" if not rest or rest.endswith(newline * 2) else newline
        lead = "" if not rest or rest.endswith("\n") else newline
        return f"{rest or opening.replace(chr(10), newline)}{lead}{gap}{body}"
    made = []
    at = 0
    for number, pair in enumerate(pairs):
        made.append(_LINE.sub("", text[at : pair.start()]))
        if number == 0:
            made.append(body)
        elif not _is_ours(pair["inner"]):
            made.append(pair["inner"])  # somebody's text between a copy of our marks
        at = pair.end()
    return "".join([*made, _LINE.sub("", text[at:])])


def _is_ours(inner: str) -> bool:
    told = inner.strip()
    return not told or (told.startswith(OPEN) and told.endswith(CLOSE))


def _real(root: Path, parts: tuple[str, ...]) -> tuple[str, ...]:
    """The file itself where its name is a link to another file of the same project, as many have it."""
    path = root.joinpath(*parts)
    if not path.is_symlink():
        return parts
    top, target = os.path.realpath(root), os.path.realpath(path)
    if not target.startswith(top + os.sep):
        raise OutsideMemory(f"{path} leads out of the project", hint="put a file of its own in its place")
    return tuple(os.path.relpath(target, top).split(os.sep))
