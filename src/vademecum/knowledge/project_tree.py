"""Look at the files of a project: which exist, where a name is used or defined, and its assigned values.

Nothing is run, nothing outside of the root is opened, and files made by tools do not count.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from functools import cached_property
from typing import TYPE_CHECKING

from vademecum.lazy import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

MOST_FILES = 50_000
LARGEST = 1_000_000  # bytes of a file in which names are looked for
SKIPPED = frozenset(
    """.git .hg .svn .vade .venv venv node_modules __pycache__ .mypy_cache .ruff_cache .pytest_cache .tox
    .idea .vscode dist build target .next .cache site-packages""".split()
)
_PROSE = (".md", ".markdown", ".rst", ".txt", ".adoc")  # files that speak of names and define none
_IDENTIFIER = lazy_pattern(rb"\w+")
_FEW = 8  # names that are looked for one by one before all words of a file are taken
_WORDS_BEFORE = rb"""def|class|func|fn|function|const|let|var|val|type|interface|struct|enum|trait|module|mod
|namespace|object|record|sub|proc|static|macro_rules!|\#define|TABLE|VIEW|FUNCTION|variable|resource"""
_DEFINED = rb"""(?mxi)
    \b(?:%(words)s)\s+(?:\([^)\n]{0,80}\)\s*)?["'`*&]*%(name)s\b
    | ^[ \t]*(?:export\s+|readonly\s+|local\s+)*(?:self\.|this\.)?["']?%(name)s["']?\s*
      (?:(?::(?!=)[^=\n(]{0,60})?=(?![=>])|:(?!:))
    | ^[ \t]*(?:(?:async|public|private|protected|static|final|override|inline|get|set|[\w<>\[\],.*&:]+)\s+)*
      %(name)s\s*\([^;\n]*\)\s*(?:->[^;{\n]*|:[^;{\n=]*)?\{
"""
# `limit = 3`, `limit: int = 3`, `limit := 3`, `"limit": 3`, `--limit 3` aside.
_ASSIGNED = lazy_pattern(
    rb"""(?mx) (?:^|[\s{(,;])["']?(?P<name>[A-Za-z_][\w.-]*)["']?[ \t]*
    (?: :(?![:=])[ \t]*[\w\[\], |.<>]{1,40}?[ \t]*=(?![=>]) | :?=(?![=>]) | :(?![:/]) )[ \t]*
    (?P<value>"[^"\n]*"|'[^'\n]*'|[^\s,;{}()\[\]#][^,;{}()\n#]*)"""
)

SOURCE = lazy_pattern(
    r"\.(?:py|pyi|go|rs|ts|tsx|js|jsx|mjs|c|h|cc|cpp|hpp|cs|java|kt|swift|rb|php|scala|exs?|lua|sh|sql|tf)$"
)
_PLAIN = lazy_pattern(r"""(?i)[-+]?\.?\d[\w.]*;?|"[^"]*"|'[^']*'|true|false|none|null|nil""")


def fingerprint(lines: Sequence[bytes]) -> str:
    """Return a hash of some lines that ignores indentation and blank lines."""
    told = b"\n".join(line.strip() for line in lines if line.strip())
    return hashlib.sha256(told).hexdigest()[:12]


def normal_value(text: str) -> str:
    """Return a value without quotation marks, and a number without separators such as 1_000."""
    bare = text.strip().rstrip(";").strip()
    for mark in "\"'`":
        if len(bare) > 1 and bare[0] == bare[-1] == mark:
            bare = bare[1:-1]
    grouped = re.fullmatch(r"\d{1,3}(?:[_,]\d{3})+|\d+(?:_\d+)*", bare)
    if grouped:
        bare = re.sub(r"[_,]", "", bare)
    return bare.lower() if bare.lower() in ("true", "false", "none", "null") else bare


class ProjectTree:
    """The files of a project, listed once and read when they are needed, within a time limit."""

    def __init__(self, root: Path, *, seconds: float | None = None) -> None:
        self.root = root
        self._seconds = seconds
        self.whole = True  # whether everything was looked at within the time
        self.proofs: set[str] = set()  # what was looked at of what is there
        self._with_name: dict[str, list[str]] = {}

    @cached_property
    def files(self) -> frozenset[str]:
        """The paths of the files below the root, except in folders such as `.git` and `build`.

        If there are too many files or the time is over, some are missing and `whole` is False.
        """
        found: list[str] = []
        for top, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in SKIPPED)
            below = os.path.relpath(top, self.root)
            prefix = "" if below == "." else f"{below.replace(os.sep, '/')}/"
            found += [prefix + name for name in names]
            if len(found) > MOST_FILES or self._late:
                self.whole = False
                break
        return frozenset(found)

    @cached_property
    def named(self) -> dict[str, list[str]]:
        """The paths of all files, by file name."""
        found: dict[str, list[str]] = {}
        for path in sorted(self.files):
            found.setdefault(path.rpartition("/")[2], []).append(path)
        return found

    def holds(self, path: str) -> bool:
        """Whether a path is a file or folder and no link; a path that exists is added to `proofs`."""
        try:
            state = os.lstat(os.path.join(self.root, path))
        except (OSError, ValueError):
            return False
        self.proofs.add(path)
        return stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)

    def has_folder(self, name: str) -> bool:
        """Whether the root has a folder of that name."""
        try:
            return stat.S_ISDIR(os.lstat(os.path.join(self.root, name)).st_mode)
        except (OSError, ValueError):
            return False

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None when it is missing, too large or outside of the root."""
        whole = os.path.join(self.root, path)
        try:
            state = os.lstat(whole)
            if not stat.S_ISREG(state.st_mode) or state.st_size > LARGEST:
                return None
            if not os.path.realpath(whole).startswith(os.path.realpath(self.root) + os.sep):
                return None
            with open(whole, "rb") as file:
                return file.read(LARGEST + 1)
        except (OSError, ValueError):
            return None

    def contents(self, *, ending: str = "") -> Iterator[tuple[str, bytes]]:
        """Yield the path and content of each readable file with this ending, until the time is over."""
        for path in sorted(self.files):
            if self._late:
                self.whole = False
                return
            content = self.read(path) if path.endswith(ending) else None
            if content is not None:
                yield path, content

    def holding(self, symbols: Iterable[str]) -> dict[str, str]:
        """Return the first file that contains each of these names; names found nowhere are left out."""
        wanted = {each.encode() for each in symbols}
        found: dict[str, str] = {}
        for path, content in self.contents() if wanted else ():
            if len(wanted) <= _FEW and not any(each in content for each in wanted):
                continue
            here = wanted.intersection(_IDENTIFIER.findall(content))
            found |= dict.fromkeys((each.decode() for each in here), path)
            wanted -= here
            if not wanted:
                break
        return found

    def look_for(self, names: Iterable[str]) -> None:
        """Find and remember the files that contain each of these names, in one walk over all files."""
        wanted = {each: each.encode() for each in names if each not in self._with_name}
        self._with_name |= {each: [] for each in wanted}
        for path, content in self.contents() if wanted else ():
            for name, word in wanted.items():
                if word in content:
                    self._with_name[name].append(path)

    def has_part(self, name: str) -> bool:
        """Whether a file or folder has that name; a file's ending does not count."""
        return name in self._parts

    @cached_property
    def _parts(self) -> frozenset[str]:
        return frozenset(part.partition(".")[0] for path in self.files for part in path.split("/"))

    def defines(self, path: str, name: str) -> bool:
        """Whether the file at a path defines a name, such as a function, class or variable."""
        content = self.read(path)
        if content is None or path.endswith(_PROSE) or name.encode() not in content:
            return False
        pattern = _DEFINED % {b"words": _WORDS_BEFORE, b"name": re.escape(name).encode()}
        return any(name.encode() in match[0] for match in re.finditer(pattern, content))

    def defining(self, name: str) -> list[str]:
        """Return the files that define a name."""
        self.look_for([name])
        return [path for path in self._with_name[name] if self.defines(path, name)]

    def assigned(self, path: str, *, plain: bool = False) -> list[tuple[str, str]]:
        """Return the names that a file assigns values to, with the values.

        With `plain`, only numbers, quoted texts and words such as `true` count in a source file: other text
        after a name may be its type, an expression, or words of a message.
        """
        content = self.read(path)
        if content is None or path.endswith(_PROSE):
            return []
        every = plain and SOURCE.search(path) is not None
        return [
            (match["name"].decode(), normal_value(value))
            for match in _ASSIGNED.finditer(content)
            if (value := match["value"].decode(errors="replace").split("//")[0])
            and (not every or _PLAIN.fullmatch(value.strip()))
        ]

    def assigning(self, name: str) -> dict[str, list[str]]:
        """Return the files that assign a value to a name, each with these values."""
        self.look_for([name])
        found: dict[str, list[str]] = {}
        for path in self._with_name[name]:
            values = [value for each, value in self.assigned(path) if each.rpartition(".")[2] == name]
            if values:
                found[path] = values
        return found

    def same_content(self, mark: str, *, ending: str) -> list[str]:
        """Return the files whose name has this ending and whose content has this fingerprint."""
        return [
            path
            for path, content in self.contents(ending=ending)
            if fingerprint(content.split(b"\n")) == mark
        ]

    @cached_property
    def _until(self) -> float | None:
        """The moment at which to stop; the time limit starts at the first access. None without a limit."""
        return None if self._seconds is None else time.monotonic() + self._seconds

    @property
    def _late(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until
