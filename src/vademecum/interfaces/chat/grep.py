"""`python -m vademecum.interfaces.chat.grep PATTERN PATH`: print the lines of text files that match.

This is a program of its own so that the chat can kill it, since a regular expression may run forever.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SKIPPED = frozenset((".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__", ".mypy_cache"))
_LARGEST = 4 * 1024 * 1024
_LINE = 400
_MOST = 500


def list_files(path: str) -> Iterator[str]:
    """Yield a file itself, or the regular files below a folder, without links and skipped folders."""
    if os.path.isfile(path):
        yield path
    for folder, below, names in os.walk(path):
        below[:] = sorted(each for each in below if each not in _SKIPPED)
        for name in sorted(names):
            found = os.path.join(folder, name)
            if os.path.isfile(found) and not os.path.islink(found):
                yield found


def find_matches(pattern: re.Pattern[str], path: str, large: list[str]) -> Iterator[str]:
    """Yield each matching line as `path:number: line`; add the paths of too large files to `large`."""
    for found in list_files(path):
        try:
            if os.path.getsize(found) > _LARGEST:
                large.append(found)
                continue
            with open(found, "rb") as file:
                content = file.read()
        except OSError:
            continue
        if b"\0" in content[:8192]:
            continue
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
            if pattern.search(line):
                yield f"{os.path.relpath(found)}:{number}: {line.strip()[:_LINE]}"


def main(pattern: str, path: str) -> int:
    """Print the first matching lines; return 0, or 2 if the pattern is no regular expression."""
    try:
        wanted = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        print(f"the pattern is not a regular expression: {error}")
        return 2
    count, large = 0, list[str]()
    for count, line in enumerate(find_matches(wanted, os.path.expanduser(path), large), 1):
        if count > _MOST:
            print(f"[more than {_MOST} lines match]")
            break
        print(
            line.encode(errors="replace").decode(), flush=True
        )  # printed lines survive when this program is ended
    if not count:
        print("[no matches]")
    if large:
        print(f"[{len(large)} file{'s' if len(large) > 1 else ''} too large, skipped]")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
