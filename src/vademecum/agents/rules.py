"""The rules that Cursor and Windsurf read from a project.

`.cursor/rules/*.mdc` and `.cursorrules`, `.windsurf/rules/*.md` and `.windsurfrules`. What always applies
becomes `context.md`; what applies to some files becomes a rule for these; any other is a record to look up.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from vademecum.agents.memories import fronted, key_of, reference, unmarked, words_of
from vademecum.knowledge import lessons
from vademecum.knowledge.intake import SectionPiece, Skipped, TopicPiece
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from vademecum.agents.memories import FileTree, Importing, TextFile
    from vademecum.knowledge.intake import Piece

_CONTEXT = Scope.PROJECT.rule.documents[0]  # what a project pins
_OURS = ("vade.mdc", "vade-memory.mdc")
# The editors write patterns bare, which YAML takes for something else.
_BARE = re.compile(r"^(globs|description):[ \t]+(?![\"'\[>|])(.*\S)[ \t]*$", re.MULTILINE)


def of_cursor(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every rule of Cursor."""
    return _rules(tree, ".cursor", ".cursorrules", (".mdc", ".md"))


def of_windsurf(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every rule of Windsurf."""
    return _rules(tree, ".windsurf", ".windsurfrules", (".md",))


def _rules(tree: FileTree, folder: str, single: str, endings: tuple[str, ...]) -> Iterator[Piece]:
    for name in tree.names():
        parts, given = tree.whole(name)
        at = max((n for n in range(len(parts) - 1) if parts[n : n + 2] == [folder, "rules"]), default=None)
        if parts[-1] == single:
            at = len(parts) - 1
        elif at is None or not name.endswith(endings):
            continue
        if parts[-1] in _OURS:
            yield Skipped(name, "it was written by vade")
            continue
        file = tree.read(name)
        below = "/".join(parts[given:at])
        yield file if isinstance(file, Skipped) else _rule(file, below)


def _rule(file: TextFile, below: str) -> Piece:
    part = fronted(file)
    if isinstance(part, Skipped):
        part = fronted(
            file._replace(text=_BARE.sub(lambda each: f"{each[1]}: {json.dumps(each[2])}", file.text))
        )
    if isinstance(part, Skipped):
        return part
    text = unmarked(part.body).strip()
    if not text:
        return Skipped(file.name, "it contains only what a memory tool wrote")
    paths = [" ".join(each.split()) for each in words_of(part.values.get("globs")) if each.strip()]
    if _always(part.values, paths):
        if not below:
            return SectionPiece(file.name, _CONTEXT, text, Scope.PROJECT, part.front)
        paths = ["**"]
    if not paths:
        key = key_of(file.name.removesuffix(".mdc"))
        return reference(file.name, key, text, Scope.PROJECT, when=file.changed, front=part.front)
    holds_for = ", ".join(f"{below}/{each}" if below else each for each in paths)
    return TopicPiece(
        file.name,
        key_of(file.name.removesuffix(".mdc")),
        (Entry(lessons.render(RecordType.RULE, {"path": holds_for, "rule": text}), file.changed),),
        Scope.PROJECT,
        named=False,
        type=RecordType.RULE,
        front=part.front,
        without=("type",),
    )


def _always(values: Mapping[str, Any], paths: list[str]) -> bool:
    """Whether a rule applies to everything: it says so, or it is an old one that says nothing."""
    if "trigger" in values:
        return str(values["trigger"]) == "always_on"
    return values.get("alwaysApply") is True or not (paths or values.keys() & {"description", "alwaysApply"})
