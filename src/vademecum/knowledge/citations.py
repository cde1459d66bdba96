"""What a text claims of the code it cites, paths, lines and symbols, and how that stands now.

Pure but for reading the tree: nothing is run, and no file outside of it is opened. For passages it is found
out for the hits that are shown and for nothing else.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import VadeError
from vademecum.store import document, reading
from vademecum.store.document import decode
from vademecum.text import fences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from vademecum.search.base import Passage
    from vademecum.store import Caller, Home
    from vademecum.types import Place


MOST_CLAIMS = 50  # of one text
MOST_FILES = 50_000
LARGEST = 1_000_000  # bytes of a file in which symbols are looked for
_SKIPPED = frozenset(
    """.git .hg .svn .vade .venv venv node_modules __pycache__ .mypy_cache .ruff_cache .pytest_cache .tox
    .idea .vscode dist build target .next .cache site-packages""".split()
)

# `src/app.py`, `src/app.py#L3-L9`, `src/app.py:12`; not part of an address.
_PATH = re.compile(
    r"(?<![\w/.:@~$%&=?#+-])(?P<path>(?:\./)?[\w.@+-]+(?:/[\w.@+-]+)+/?|[\w+-]+\.[A-Za-z]\w{0,7})"
    r"(?:(?:#L|:)(?P<first>\d{1,7})(?:-L?(?P<last>\d{1,7}))?)?(?![\w/@-])"
)
_ADDRESS = re.compile(r"(?i)\b[a-z][a-z0-9+.-]*://[^\s)>\]]+|\bwww\.[^\s)>\]]+|[^\s@]+@[^\s@]+\.\S+")
_RUN = re.compile(r"\S+")
_LONGEST = 300  # characters without a blank: more of them are no path, and take long to look at
_CODE = re.compile(r"(?<!`)`([^`\n]{1,200})`(?!`)")
_SYMBOL = re.compile(r"(?:[A-Za-z_]\w*(?:\.|::|#|->))*(?P<name>[A-Za-z_]\w{2,79})(?P<call>\(\s*\))?")
# `notes.md`, `config.yaml`: a file, and whether it is there is no matter of names in files.
_FILE = re.compile(r"\.[a-z]{1,2}$|\.(?:[a-z]{3}|json|yaml|toml|html|jsonl|lock|conf)$")
_IDENTIFIER = re.compile(rb"\w+")
_FEW = 8  # names that are looked for one by one before all words of a file are taken
_HUMPS = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[a-z]+[0-9]*(?:[A-Z][a-z0-9]*)+")


class Standing(StrEnum):
    """How a claim stands; listed from best to worst."""

    VERIFIED = "verified"
    MOVED = "moved"
    CHANGED = "changed"
    GONE = "gone"


class Claim(NamedTuple):
    """One thing that a text says there is."""

    kind: str  # path, lines or symbol
    cited: str  # as the text has it
    path: str = ""
    first: int = 0
    last: int = 0
    symbol: str = ""
    owner: str = ""  # what a symbol belongs to: `db` of `db.open_pool`


class CheckedClaim(NamedTuple):
    """A claim and how it stands."""

    claim: Claim
    standing: Standing
    why: str = ""


class ProjectTree:
    """The files of a project, listed once and read when needed; at most for so long."""

    def __init__(self, root: Path, *, seconds: float | None = None) -> None:
        self.root = root
        self._until = None if seconds is None else time.monotonic() + seconds
        self.whole = True  # whether everything was looked at within the time

    @cached_property
    def files(self) -> frozenset[str]:
        """Every file below the root by its path from there, without what tools put there."""
        found: list[str] = []
        for top, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED)
            below = os.path.relpath(top, self.root)
            prefix = "" if below == "." else f"{below.replace(os.sep, '/')}/"
            found += [prefix + name for name in names]
            if len(found) > MOST_FILES or self._late:
                self.whole = False
                break
        return frozenset(found)

    @cached_property
    def named(self) -> dict[str, list[str]]:
        """The paths of each file name."""
        found: dict[str, list[str]] = {}
        for path in sorted(self.files):
            found.setdefault(path.rpartition("/")[2], []).append(path)
        return found

    def holds(self, path: str) -> bool:
        """Whether a path is there, as a file or folder, without following a link out of the root."""
        try:
            state = os.lstat(os.path.join(self.root, path))
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)

    def has_folder(self, name: str) -> bool:
        """Whether a folder of that name lies at the root."""
        try:
            return stat.S_ISDIR(os.lstat(os.path.join(self.root, name)).st_mode)
        except (OSError, ValueError):
            return False

    def read(self, path: str) -> bytes | None:
        """A file of the tree; None for what is none, too large or somewhere else."""
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

    def holding(self, symbols: Iterable[str]) -> dict[str, str]:
        """The first file in which each of these names stands; those that stand nowhere are left out."""
        wanted = {each.encode() for each in symbols}
        found: dict[str, str] = {}
        for path in sorted(self.files) if wanted else ():
            if self._late:
                self.whole = False
                break
            content = self.read(path)
            if content is None or (len(wanted) <= _FEW and not any(each in content for each in wanted)):
                continue
            here = wanted.intersection(_IDENTIFIER.findall(content))
            found |= dict.fromkeys((each.decode() for each in here), path)
            wanted -= here
            if not wanted:
                break
        return found

    @property
    def _late(self) -> bool:
        return self._until is not None and time.monotonic() > self._until


def find_claims(text: str, *, tree: ProjectTree, bare: bool = True) -> list[Claim]:
    """What a text claims of this tree, in the order in which it does.

    Without `bare`, a name without a folder counts only at the root: anywhere else it takes a walk to know it.
    """
    plain = fences.remove(text)
    plain = _RUN.sub(lambda run: run[0] if len(run[0]) <= _LONGEST else " ", plain)
    if "@" in plain or "://" in plain or "www." in plain:
        plain = _ADDRESS.sub(" ", plain)
    found: dict[Claim, None] = {}
    for match in _PATH.finditer(plain):
        claim = _path_claim(match, tree, bare=bare)
        if claim is not None:
            found[claim] = None
    for code in _CODE.finditer(plain):
        claim = _symbol_claim(code[1].strip())
        if claim is not None:
            found[claim] = None
    return list(found)[:MOST_CLAIMS]


def check_claims(
    claims: Sequence[Claim], tree: ProjectTree, *, marks: dict[str, str] | None = None, symbols: bool = True
) -> list[CheckedClaim]:
    """How each claim stands; without `symbols` those are passed over: they take a walk over all files."""
    here = tree.holding(names_wanted(claims)) if symbols else {}
    checked = []
    for claim in claims:
        if claim.kind == "symbol":
            told = _symbol(claim, here) if symbols else None
        elif claim.kind == "lines":
            told = _lines(claim, tree, (marks or {}).get(claim.cited, ""))
        else:
            told = _path(claim, tree)
        # Nothing is missing before everything was looked at.
        if told is not None and (tree.whole or told.standing is not Standing.GONE):
            checked.append(told)
    return checked


def names_wanted(claims: Iterable[Claim]) -> set[str]:
    """The names that have to be looked for in the files."""
    return {name for claim in claims for name in (claim.symbol, claim.owner) if name}


def check_symbols(claims: Sequence[Claim], here: dict[str, str]) -> list[CheckedClaim]:
    """How the symbols among some claims stand, when it is known already where each name is."""
    told = (_symbol(claim, here) for claim in claims if claim.kind == "symbol")
    return [each for each in told if each is not None]


def mark_lines(text: str, tree: ProjectTree) -> dict[str, str]:
    """A fingerprint of each cited range of lines as it is now, to be kept beside the text."""
    found = {}
    for claim in find_claims(text, tree=tree):
        if claim.kind == "lines":
            lines = _cut(tree.read(claim.path), claim.first, claim.last)
            if lines:
                found[claim.cited] = fingerprint(lines)
    return found


def fingerprint(lines: Sequence[bytes]) -> str:
    """The fingerprint of some lines; their indentation and blank ones do not count."""
    told = b"\n".join(line.strip() for line in lines if line.strip())
    return hashlib.sha256(told).hexdigest()[:12]


# -------------------------------------------------------------------- one claim


def _path_claim(match: re.Match[str], tree: ProjectTree, *, bare: bool) -> Claim | None:
    path = match["path"].removeprefix("./").rstrip("/").rstrip(".")
    parts = path.split("/")
    if not path or ".." in parts or any(part.strip(".") == "" or part in _SKIPPED for part in parts):
        return None
    known = "#L" in match[0] or tree.holds(path)
    if len(parts) == 1:
        # A word with a dot is a file only where it is one, or where lines of it are named.
        if not known and not (bare and path in tree.named):
            return None
    elif not known and not tree.has_folder(parts[0]):
        # and/or, TCP/IP, owner/name, example.org/page.html, path/to/file.py; but a file of that name may
        # have come from another folder.
        dotted = "." in parts[-1].strip(".") and not ("." in parts[0] and not parts[0].startswith("."))
        if not dotted or parts[-1] not in tree.named:
            return None
    if match["first"]:
        first = int(match["first"])
        last = int(match["last"] or first)
        if 1 <= first <= last:
            return Claim("lines", match[0], path, first, last)
    return Claim("path", match["path"].rstrip("."), path)


def _symbol_claim(code: str) -> Claim | None:
    match = _SYMBOL.fullmatch(code)
    if match is None:
        return None
    name = match["name"]
    telling = match["call"] or "_" in name.strip("_") or _HUMPS.fullmatch(name) or match["name"] != code
    if not telling or _FILE.search(code):
        return None
    owner = re.match(r"[A-Za-z_]\w*(?=\.|::|#|->)", code)
    return Claim("symbol", code, symbol=name, owner=owner[0] if owner else "")


def _path(claim: Claim, tree: ProjectTree) -> CheckedClaim:
    if tree.holds(claim.path):
        return CheckedClaim(claim, Standing.VERIFIED)
    others = _elsewhere(claim.path, tree)
    if others and "/" not in claim.path:
        return CheckedClaim(claim, Standing.VERIFIED)  # a bare name, and there are files of that name
    if len(others) == 1:
        return CheckedClaim(claim, Standing.MOVED, f"{claim.path} is now {others[0]}")
    return CheckedClaim(claim, Standing.GONE, f"{claim.path} is not there")


def _lines(claim: Claim, tree: ProjectTree, known: str) -> CheckedClaim:
    others = [claim.path] if tree.holds(claim.path) else _elsewhere(claim.path, tree)
    if len(others) != 1:
        return CheckedClaim(claim, Standing.GONE, f"{claim.path} is not there")
    path = others[0]
    meant = path if "/" not in claim.path else claim.path  # a bare name means the file that has it
    content = tree.read(path)
    lines = content.split(b"\n") if content is not None else []
    here = _cut(content, claim.first, claim.last)
    if path == meant and here and (not known or fingerprint(here) == known):
        return CheckedClaim(claim, Standing.VERIFIED)
    if known:
        at = _find(lines, claim.last - claim.first + 1, known)
        if at:
            return CheckedClaim(claim, Standing.MOVED, f"{claim.cited} is now {path}#L{at[0]}-L{at[1]}")
        return CheckedClaim(claim, Standing.CHANGED, f"the lines {claim.cited} are no longer what was cited")
    if path != meant:
        return CheckedClaim(claim, Standing.MOVED, f"{claim.path} is now {path}")
    return CheckedClaim(claim, Standing.CHANGED, f"{claim.path} has only {len(lines)} lines")


def _symbol(claim: Claim, here: dict[str, str]) -> CheckedClaim | None:
    if claim.symbol in here:
        return CheckedClaim(claim, Standing.VERIFIED, here[claim.symbol])
    if claim.owner and claim.owner not in here:
        return None  # of a library, of which nothing is known here
    return CheckedClaim(claim, Standing.GONE, f"`{claim.symbol}` stands in no file of the project")


def _elsewhere(path: str, tree: ProjectTree) -> list[str]:
    """Files of the same name elsewhere, those with the longest common end alone."""
    parts = path.split("/")
    others = tree.named.get(parts[-1], [])

    def common(other: str) -> int:
        theirs = other.split("/")
        return next(
            (n for n in range(min(len(parts), len(theirs))) if parts[-1 - n] != theirs[-1 - n]),
            min(len(parts), len(theirs)),
        )

    best = max(map(common, others), default=0)
    return [other for other in others if common(other) == best]


def _cut(content: bytes | None, first: int, last: int) -> list[bytes]:
    lines = content.split(b"\n") if content is not None else []
    if lines and not lines[-1]:
        lines.pop()
    return lines[first - 1 : last] if last <= len(lines) else []


def _find(lines: Sequence[bytes], count: int, known: str) -> tuple[int, int] | None:
    """Where as many lines with that fingerprint stand now."""
    return next(
        (
            (at + 1, at + count)
            for at in range(len(lines) - count + 1)
            if lines[at].strip() and fingerprint(lines[at : at + count]) == known
        ),
        None,
    )


def render_marks(marks: dict[str, str]) -> str:
    """Fingerprints as they stand in an entry's signature."""
    return ", ".join(f"{where}@{value}" for where, value in sorted(marks.items()))


def parse_marks(text: str) -> dict[str, str]:
    """What `render` wrote; what cannot be read is left out."""
    found: dict[str, str] = {}
    for each in _pairs(text):
        found[each[0]] = each[1]
    return found


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for piece in text.split(","):
        where, at, value = piece.strip().rpartition("@")
        if at and re.fullmatch(r"[0-9a-f]{12}", value):
            yield where, value


SECONDS = 0.05
MEMORY = "memory"


def attach_standing(
    passages: Sequence[Passage], *, home: Home, caller: Caller, root: Path, project: Place
) -> tuple[Passage, ...]:
    """The passages, those of the project's records with the standing of what they cite."""
    tree = ProjectTree(root, seconds=SECONDS)
    return tuple(
        _with_claims(each, tree, home, caller)
        if each.source == MEMORY and each.place == project and each.superseded is None
        else each
        for each in passages
    )


def _with_claims(passage: Passage, tree: ProjectTree, home: Home, caller: Caller) -> Passage:
    if not any(mark in passage.snippet for mark in "/.`"):
        return passage
    try:
        _, content = reading.by_path(home, caller, passage.path)
        parsed = document.parse(decode(content or b""))
    except (VadeError, OSError):
        return passage  # it was found a moment ago, and is shown as it was
    entries = [each for each in parsed.entries if each.start <= passage.end and passage.start <= each.end]
    marks = {where: mark for each in entries for where, mark in parse_marks(each.cites or "").items()}
    lines = parsed.source.split("\n")[passage.start - 1 : passage.end]
    shown = "\n".join(line for line in lines if not line.startswith("<!-- origin:"))
    found = check_claims(find_claims(shown, tree=tree, bare=False), tree, marks=marks, symbols=False)
    from vademecum.search.base import Cited  # a store cites and answers nothing

    told = tuple(Cited(each.claim.cited, str(each.standing), each.why) for each in found)
    stale = "; ".join(each.stale for each in entries if each.stale and each.live)
    return passage._replace(claims=told, stale=stale or None)
