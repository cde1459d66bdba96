"""Claude Code: instructions in `CLAUDE.md`, and what it noted itself below `projects/<folder>/memory/`.

What is always loaded becomes `context.md`; notes and what is loaded only in some folder become records.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.interfaces.importers import tree as trees
from vademecum.interfaces.importers.parts import fronted, text_of, titled, unmarked, whole
from vademecum.knowledge.intake import Section, Skipped, Topic
from vademecum.store import pinned
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.interfaces.importers.base import Here
    from vademecum.interfaces.importers.tree import File, Tree
    from vademecum.knowledge.intake import Piece

_ALWAYS = ("CLAUDE.md", "CLAUDE.local.md")
_TYPES = ("user", "feedback", "project", "reference")
_LINK = re.compile(r"[-*] .*\]\([^)\s]+\.md\).*")


class _Noted(NamedTuple):
    project: str  # the folder, as it is written there
    at: int  # where on the path that stands
    own: str  # the path below it


class ClaudeCode:
    """Claude Code's memory."""

    name = "claude-code"

    def read(self, tree: Tree, here: Here) -> Iterator[Piece]:
        """Every piece of it."""
        for name in tree.names():
            parts, given = whole(tree, name)
            noted = _noted(parts)
            if not name.endswith(".md"):
                continue
            if noted is not None:
                yield self._note(tree, name, noted, noted.at < given, here)
            elif parts[-1] in _ALWAYS or parts[-3:-1] == [".claude", "rules"]:
                yield self._instructions(tree, name)

    def _instructions(self, tree: Tree, name: str) -> Piece:
        """What is loaded always is context; what is loaded in one folder of a project is a record."""
        file = trees.read(tree, name)
        part = file if isinstance(file, Skipped) else fronted(file)
        if isinstance(part, Skipped) or isinstance(file, Skipped):
            return Skipped(name, part.why) if isinstance(part, Skipped) else Skipped(name, "not a text")
        text = unmarked(part.body)
        if not text.strip():
            return Skipped(name, "it holds nothing but what a memory wrote there")
        folder = re.sub(r"(^|/)(?:\.claude(?:/rules)?|rules)$", "", name.rpartition("/")[0])
        if not folder:
            scope = Scope.GLOBAL if _is_a_persons(tree, name) else Scope.PROJECT
            return Section(name.removeprefix(".claude/"), pinned.CONTEXT, text, scope)
        title, body = titled(text)
        return Topic(
            name,
            name.removesuffix(".md").replace("/", " "),
            (Entry(body if body.strip() else text, file.changed),),
            Scope.PROJECT,
            named=False,
            type=RecordType.REFERENCE,
            title=title,
            heading=title,
            front=part.front,
            without=("type",),
        )

    def _note(self, tree: Tree, name: str, noted: _Noted, asked: bool, here: Here) -> Piece:
        """A note of one project; those of others are left, unless their folder was named."""
        own = "" if here.root is None else re.sub(r"[^A-Za-z0-9]", "-", str(here.root))
        if not asked and not here.scoped and noted.project != own:
            why = f"it belongs to the project in {noted.project}: import it in that folder, or with --scope"
            return Skipped(name, why)
        file = trees.read(tree, name)
        if isinstance(file, Skipped):
            return file
        return _index(file) if noted.own == "MEMORY.md" else _topic(file, noted.own)


def _index(file: File) -> Piece:
    lines = [line.strip() for line in file.text.split("\n") if line.strip()]
    if all(line.startswith("#") or _LINK.fullmatch(line) for line in lines):
        return Skipped(file.name, "a listing of the files beside it")
    return Section("memory/MEMORY.md", pinned.CONTEXT, unmarked(file.text), Scope.PROJECT)


def _topic(file: File, own: str) -> Piece:
    part = fronted(file)
    if isinstance(part, Skipped):
        return part
    about = part.values.get("metadata")
    told = part.values.get("type") or (about.get("type") if isinstance(about, dict) else None)
    kind = text_of(told)
    return Topic(
        f"memory/{own}",
        text_of(part.values.get("name")) or own.removesuffix(".md").replace("/", " "),
        (Entry(part.body, file.changed),),
        Scope.PROJECT,
        named=False,
        type=kind if kind in _TYPES else RecordType.PROJECT,
        title=text_of(part.values.get("name")),
        front=part.front,
        without=() if kind in _TYPES else ("type",),
    )


def _noted(parts: list[str]) -> _Noted | None:
    """Whose note a file is, by its path: `projects/<folder>/memory/…`, or what is left of it."""
    for at in range(len(parts) - 3):
        if parts[at] == "projects" and parts[at + 2] == "memory":
            return _Noted(parts[at + 1], at + 1, "/".join(parts[at + 3 :]))
    return None


def _is_a_persons(tree: Tree, name: str) -> bool:
    """Whether a `.claude` folder is a person's and not a project's: there the notes of projects are."""
    top = ".claude/" if name.startswith(".claude/") else ""
    inside = bool(top) or tree.top.name == ".claude"
    return inside and (
        any(each.startswith(f"{top}projects/") for each in tree.names())
        or (tree.top / top).resolve() == (Path.home() / ".claude").resolve()
    )
