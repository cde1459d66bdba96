"""OpenClaw, once Clawdbot: a workspace of Markdown with a log for each day.

`memory/<day>.md` becomes the journal, `MEMORY.md` the pinned one, who the agent is and how it works
`context.md`, whom it serves `profile.md`; all else below `memory/` becomes records.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.interfaces.importers import tree as trees
from vademecum.interfaces.importers.parts import date_in, fronted, titled
from vademecum.knowledge.intake import Notes, Section, Skipped, Topic
from vademecum.store import pinned
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.interfaces.importers.base import Here
    from vademecum.interfaces.importers.tree import File, Tree
    from vademecum.knowledge.intake import Piece

_DOCUMENTS = {
    "memory.md": pinned.MEMORY,
    "soul.md": pinned.CONTEXT,
    "agents.md": pinned.CONTEXT,
    "tools.md": pinned.CONTEXT,
    "identity.md": pinned.CONTEXT,
    "user.md": pinned.PROFILE,
}
_ITS_OWN = {"heartbeat.md", "bootstrap.md", "boot.md", "dreams.md"}
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)(?:-([^/]+))?\.md")
_CUT = re.compile(r"^## ", re.MULTILINE)
_TIME = re.compile(r"(?<![\d:.])([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?(?![\d:])(?: ?(UTC|Z|GMT)\b)?")


class OpenClaw:
    """OpenClaw's workspace."""

    name = "openclaw"

    def read(self, tree: Tree, here: Here) -> Iterator[Piece]:
        """Every piece of it, and how much beside it is none."""
        top = _workspace(tree.names())
        if top is None:
            return
        others: dict[str, int] = {}
        for name in tree.names():
            own = name.removeprefix(top)
            wanted = name.startswith(top) and own.endswith((".md", ".markdown"))
            if not wanted:
                continue
            if own.startswith("memory/") or "/" not in own:
                yield from self._piece(tree, name, own)
            else:
                folder = own.partition("/")[0]
                others[folder] = others.get(folder, 0) + 1
        for folder, count in sorted(others.items()):
            yield Skipped(f"{folder}/", f"no part of its memory: {count} of its files are Markdown")

    def _piece(self, tree: Tree, name: str, own: str) -> Iterator[Piece]:
        last = own.lower()
        if "/" not in own and last not in _DOCUMENTS:
            why = "instructions for its own schedule" if last in _ITS_OWN else "no part of its memory"
            yield Skipped(own, why)
            return
        file = trees.read(tree, name)
        if isinstance(file, Skipped):
            yield file
            return
        if last in _DOCUMENTS:
            part = fronted(file)
            yield (
                part if isinstance(part, Skipped) else Section(own, _DOCUMENTS[last], part.body, Scope.GLOBAL)
            )
            return
        day = _DAY.fullmatch(own.removeprefix("memory/"))
        if day:
            yield Notes(own, day[1], tuple(_entries(day[1], file.text)), Scope.GLOBAL, day[2] or "")
        else:
            yield self._topic(file, own)

    def _topic(self, file: File, own: str) -> Piece:
        part = fronted(file)
        if isinstance(part, Skipped):
            return part
        title, body = titled(part.body)
        key = own.removeprefix("memory/").rpartition(".")[0].replace("/", " ")
        text = body if body.strip() else part.body
        return Topic(
            own,
            key,
            (Entry(text, date_in(own) or file.changed),),
            Scope.GLOBAL,
            named=False,
            type=RecordType.REFERENCE,
            title=title,
            front=part.front,
            without=("type",),
            heading=title,
        )


def _workspace(names: list[str]) -> str | None:
    """The folder of the workspace, with a slash behind it: the nearest one that looks like it."""
    found = []
    for name in names:
        folder, _, last = name.rpartition("/")
        if last.lower() in _DOCUMENTS and not folder.endswith("memory"):
            found.append(f"{folder}/" if folder else "")
        elif _DAY.fullmatch(last) and (folder == "memory" or folder.endswith("/memory")):
            found.append(folder.removesuffix("memory"))
    return min(found, key=lambda each: (each.count("/"), each), default=None)


def _entries(day: str, text: str) -> Iterator[Entry]:
    """The sections of a day, each under the time its heading names, or else that of the one before."""
    cuts = [match.start() for match in _CUT.finditer(text)]
    time = day
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        section = text[start:end]
        if start == 0:
            title, rest = titled(section)
            section = rest if title.strip("# ") == day else section
        if not section.strip():
            continue
        named = _TIME.search(section.split("\n", 1)[0])
        if named:
            zone = "Z" if named[4] else ""
            later = f"{day}T{int(named[1]):02}:{named[2]}:{named[3] or '00'}{zone}"
            time = later
        yield Entry(section, time)
