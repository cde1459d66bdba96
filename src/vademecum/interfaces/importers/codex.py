"""Codex: instructions in `AGENTS.md`, and what it made of its sessions below `~/.codex/memories/`.

The instructions become `context.md`, the summary that is always loaded `MEMORY.md`, each group of the
registry a record, and the summary of each session a note of its day.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.interfaces.importers import tree as trees
from vademecum.interfaces.importers.parts import date_in, fronted, moment, titled, unmarked, whole
from vademecum.knowledge.intake import Notes, Section, Skipped, Topic
from vademecum.store import pinned
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.interfaces.importers.base import Here
    from vademecum.interfaces.importers.tree import File, Tree
    from vademecum.knowledge.intake import Piece

_ALWAYS = ("AGENTS.md", "AGENTS.override.md")
_GROUP = re.compile(r"^# ", re.MULTILINE)
_THREAD = re.compile(r"^## ", re.MULTILINE)
_UPDATED = re.compile(r"^\W*(?:updated_at|updated|date)\W*:\W*(\d{4}-\d\d-\d\d[T0-9:.Z+-]*)", re.MULTILINE)


class Codex:
    """Codex's memory."""

    name = "codex"

    def read(self, tree: Tree, here: Here) -> Iterator[Piece]:
        """Every piece of it."""
        for name in tree.names():
            parts, _ = whole(tree, name)
            if not name.endswith(".md"):
                continue
            inside = _inside(tree, name)
            if parts[-1] not in _ALWAYS and inside is None:
                continue
            file = trees.read(tree, name)
            if isinstance(file, Skipped):
                yield file
            elif inside is not None:
                yield from self._memories(file, inside)
            else:
                yield self._instructions(file, parts)

    def _instructions(self, file: File, parts: list[str]) -> Piece:
        text = unmarked(file.text)
        if not text.strip():
            return Skipped(file.name, "it holds nothing but what a memory wrote there")
        if parts[-2:-1] == [".codex"]:
            return Section(parts[-1], pinned.CONTEXT, text, Scope.GLOBAL)
        if "/" not in file.name:
            return Section(parts[-1], pinned.CONTEXT, text, Scope.PROJECT)
        title, body = titled(text)
        return Topic(
            file.name,
            file.name.removesuffix(".md").replace("/", " "),
            (Entry(body if body.strip() else text, file.changed),),
            Scope.PROJECT,
            named=False,
            type=RecordType.REFERENCE,
            title=title,
            heading=title,
        )

    def _memories(self, file: File, own: str) -> Iterator[Piece]:
        if own == "memory_summary.md":
            yield Section(f"memories/{own}", pinned.MEMORY, file.text, Scope.GLOBAL)
        elif own == "MEMORY.md":
            yield from self._registry(file)
        elif own.startswith("rollout_summaries/"):
            yield self._summary(file, own)
        elif own == "raw_memories.md":
            entries = tuple(
                Entry(each, _when(each) or file.changed) for each in _cut(_THREAD, titled(file.text)[1])
            )
            yield Topic(
                f"memories/{own}", "codex raw memories", entries, Scope.GLOBAL, type=RecordType.REFERENCE
            )
        else:
            part = fronted(file)
            if isinstance(part, Skipped):
                yield part
                return
            yield Topic(
                f"memories/{own}",
                own.removesuffix(".md").replace("/", " "),
                (Entry(part.body, file.changed),),
                Scope.GLOBAL,
                named=False,
                type=RecordType.REFERENCE,
                front=part.front,
                without=("type",),
            )

    def _registry(self, file: File) -> Iterator[Piece]:
        """One topic for each group of tasks."""
        for block in _cut(_GROUP, file.text):
            title, body = titled(block)
            name = title.removeprefix("Task Group:").strip() or "codex memory"
            yield Topic(
                f"memories/MEMORY.md#{name}",
                name,
                (Entry(body if body.strip() else block, _when(block) or file.changed),),
                Scope.GLOBAL,
                named=False,
                type=RecordType.REFERENCE,
                title=name,
            )

    def _summary(self, file: File, own: str) -> Piece:
        said = _when(file.text) or date_in(own) or file.changed
        return Notes(f"memories/{own}", said[:10], (Entry(file.text, said),), Scope.GLOBAL, "codex")


def _inside(tree: Tree, name: str) -> str | None:
    """The path of a file below `memories/`; None when it is not there."""
    parts, _ = whole(tree, name)
    at = next((index for index, part in enumerate(parts[:-1]) if part == "memories"), None)
    return None if at is None else "/".join(parts[at + 1 :])


def _cut(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    cuts = [match.start() for match in pattern.finditer(text)]
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        if text[start:end].strip():
            yield text[start:end]


def _when(text: str) -> str:
    match = _UPDATED.search(text)
    return moment(match[1]) if match else ""
