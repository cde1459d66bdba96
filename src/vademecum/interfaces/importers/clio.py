"""CLIO: `.clio/` in a project, with what it learned, its notes by key, and its sessions.

`ltm.json` becomes lessons, `memory/<key>.json` and `memory/*.md` records, `profile.md` the profile, and
`sessions/*.json` transcripts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vademecum.errors import VadeError
from vademecum.interfaces.importers import tree as trees
from vademecum.interfaces.importers.parts import below, moment, text_of
from vademecum.knowledge import ltm
from vademecum.knowledge.intake import Lessons, Section, Skipped, Topic, Transcripts
from vademecum.store import pinned
from vademecum.types import Entry, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.interfaces.importers.base import Here
    from vademecum.interfaces.importers.tree import Tree
    from vademecum.knowledge.intake import Piece

_FOLDER = ".clio"


class Clio:
    """CLIO's memory of one project."""

    name = "clio"

    def read(self, tree: Tree, here: Here) -> Iterator[Piece]:
        """Every piece of it."""
        inside = {name: below(name, _FOLDER) for name in tree.names()}
        if not any(inside.values()):  # the folder itself was named, or a file of it
            inside = {name: name for name in tree.names()}
        for name, own in inside.items():
            if own:
                yield from self._piece(tree, name, own)

    def _piece(self, tree: Tree, name: str, own: str) -> Iterator[Piece]:
        folder, _, last = own.rpartition("/")
        if own == "ltm.json":
            yield self._lessons(tree, name)
        elif own == "profile.md":
            file = trees.read(tree, name)
            yield (
                file
                if isinstance(file, Skipped)
                else Section("profile.md", pinned.PROFILE, file.text, Scope.GLOBAL)
            )
        elif folder == "memory" and last.endswith(".json"):
            yield self._note(tree, name, own)
        elif folder == "memory":
            file = trees.read(tree, name)
            if isinstance(file, Skipped):
                yield file
            else:
                yield Topic(own, last.removesuffix(".md"), (Entry(file.text, file.changed),), Scope.PROJECT)
        elif folder == "sessions":
            path = tree.top / name
            yield (
                Transcripts(own, path)
                if path.is_file()
                else Skipped(own, "a session in an archive: unpack it, and import the folder")
            )
        else:
            yield Skipped(own, "nothing that CLIO remembers by")

    def _lessons(self, tree: Tree, name: str) -> Piece:
        try:
            content = tree.content(name, largest=ltm.LARGEST)
            ltm.parse(content)
        except (VadeError, OSError) as error:
            return Skipped(name, f"malformed: {error}")
        return Lessons("ltm.json", content, Scope.PROJECT)

    def _note(self, tree: Tree, name: str, own: str) -> Piece:
        """A note under its key; its content may be anything that JSON can say."""
        file = trees.read(tree, name)
        if isinstance(file, Skipped):
            return file
        try:
            value = json.loads(file.text)
        except (ValueError, RecursionError) as error:
            return Skipped(own, f"malformed: not JSON: {error}")
        if not isinstance(value, dict) or value.get("content") in (None, ""):
            return Skipped(own, "malformed: a note has a `key` and a `content`")
        content = value["content"]
        text = content if isinstance(content, str) else _pretty(content)
        key = text_of(value.get("key")) or own.rpartition("/")[2].removesuffix(".json")
        said = moment(value.get("timestamp")) or file.changed
        return Topic(own, key, (Entry(text, said),), Scope.PROJECT, title=key)


def _pretty(content: object) -> str:
    return f"```json\n{json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True)}\n```"
