"""Import the rules that Cursor and Windsurf read from a project.

The files are `.cursor/rules/*.mdc` and `.cursorrules`, `.windsurf/rules/*.md` and `.windsurfrules`. A rule
that always applies becomes part of `context.md`; a rule for some files becomes a rule record for these files;
any other becomes a reference record.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from vademecum.agents.memory_files import (
    key_of,
    reference,
    remove_memory_blocks,
    split_frontmatter,
    word_list,
)
from vademecum.knowledge import SectionPiece, Skipped, TopicPiece, lessons
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from vademecum.agents.memory_files import FileTree, Importing, TextFile
    from vademecum.knowledge import Piece

_CONTEXT = Scope.PROJECT.rule.documents[0]  # the document that a project pins
_OURS = ("vade.mdc", "vade-memory.mdc", "vade.md", "vade-memory.md")
# The editors write patterns without quotes, which YAML misreads.
_BARE = re.compile(r"^(globs|description):[ \t]+(?![\"'\[>|])(.*\S)[ \t]*$", re.MULTILINE)


def read_cursor(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield every rule of Cursor in a project."""
    return _rules(tree, ".cursor", ".cursorrules", (".mdc", ".md"))


def read_windsurf(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield every rule of Windsurf in a project."""
    return _rules(tree, ".windsurf", ".windsurfrules", (".md",))


def _rules(tree: FileTree, folder: str, single: str, endings: tuple[str, ...]) -> Iterator[Piece]:
    for name in tree.names():
        parts, depth = tree.full_path(name)
        at = max((n for n in range(len(parts) - 1) if parts[n : n + 2] == [folder, "rules"]), default=None)
        if parts[-1] == single:
            at = len(parts) - 1
        elif at is None or not name.endswith(endings):
            continue
        if parts[-1] in _OURS:
            yield Skipped(name, "it was written by vade")
            continue
        file = tree.read(name)
        below = "/".join(parts[depth:at])
        yield file if isinstance(file, Skipped) else _rule(file, below)


def _rule(file: TextFile, below: str) -> Piece:
    part = split_frontmatter(file)
    if isinstance(part, Skipped):
        part = split_frontmatter(
            file._replace(text=_BARE.sub(lambda each: f"{each[1]}: {json.dumps(each[2])}", file.text))
        )
    if isinstance(part, Skipped):
        return part
    text = remove_memory_blocks(part.body).strip()
    if not text:
        return Skipped(file.name, "it contains only what a memory tool wrote")
    paths = [" ".join(each.split()) for each in word_list(part.values.get("globs")) if each.strip()]
    if _applies_always(part.values, paths):
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


def _applies_always(values: Mapping[str, Any], paths: list[str]) -> bool:
    """Return whether a rule applies to all files: by its fields, or by an old format without conditions."""
    if "trigger" in values:
        return str(values["trigger"]) == "always_on"
    return values.get("alwaysApply") is True or not (paths or values.keys() & {"description", "alwaysApply"})
