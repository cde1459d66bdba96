"""A home's side of a sync, on disk: the log of one stream, and the files of one place.

`log.jsonl` has the facts, each written and synced before anything depends on it; a line that a crash cut off
was never there. `state.json` says how much of it the files show, and which files were being written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed, OutsideMemory
from vademecum.store import archive, audit, document, journal, records
from vademecum.sync import blocks
from vademecum.sync import facts as fact_rules
from vademecum.sync.place import Logged
from vademecum.sync.project import safe_path
from vademecum.text import names, secrets
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.store.backend import Directory
    from vademecum.store.home import Home, Shelf
    from vademecum.sync.facts import SyncFact

LINES, STATE = "log.jsonl", "state.json"
_LARGEST = 1 << 31


class DiskLog:
    """The log of one stream in a folder of the home."""

    def __init__(self, folder: Directory, replica: str = "") -> None:
        self._folder, self._first = folder, replica
        self.replica = ""
        self._lines: list[Logged] = []
        self._load()

    def read(self) -> Sequence[Logged]:
        """All of it, in the order in which it came."""
        return self._lines

    def append(self, facts: Iterable[SyncFact], *, own: bool) -> None:
        """Add facts; they are on disk when this returns."""
        listed = list(facts)
        for fact in listed:
            self._write(
                json.dumps({"own": own}).encode()[:-1] + b', "fact": ' + fact_rules.render(fact) + b"}"
            )
        self._lines += [Logged(fact, own) for fact in listed]

    def applied(self) -> int:
        """How many lines the files show."""
        return int(self._state().get("applied") or 0)

    def applying(self) -> Collection[str]:
        """The paths that were being written."""
        return [str(each) for each in self._state().get("applying") or []]

    def begin(self, paths: Iterable[str]) -> None:
        """Write down which files are about to be written."""
        self._save({"applied": self.applied(), "applying": sorted(paths)})

    def finish(self, applied: int, left: Collection[str] = ()) -> None:
        """The files show so many lines, but for those that are `left`."""
        self._save({"applied": applied, "applying": sorted(left)})

    def renew(self) -> None:
        """Go on as another replica: a copy or a later state of this home has used the name."""
        self._go_on_as(names.new_mark(16))

    def _go_on_as(self, replica: str) -> None:
        self.replica = replica
        self._write(json.dumps({"replica": replica}).encode())

    def begin_anew(self) -> None:
        """Put the log aside; what others know decides from now on what is new here."""
        moment = names.new_mark(8)
        content = self._folder.read(LINES, largest=_LARGEST)
        if content is not None:
            self._folder.create(f"log.{moment}.aside", content)
            self._folder.delete(LINES)
        self._save({"applied": 0, "applying": []})
        self._lines.clear()
        self.renew()

    def _load(self) -> None:
        content = self._folder.read(LINES, largest=_LARGEST) or b""
        whole = content.split(b"\n")[:-1]  # what a crash cut off has no line end
        try:
            for line in whole:
                given = json.loads(line)
                if "replica" in given:
                    self.replica = str(given["replica"])
                else:
                    raw = line[line.index(b'"fact": ') + 8 : -1]
                    self._lines.append(Logged(fact_rules.parse(raw), given["own"] is True))
        except (ValueError, KeyError, TypeError, Malformed):
            self.begin_anew()
            return
        if content and not content.endswith(b"\n"):
            self._folder.update(LINES, lambda current: (current or b"")[: (current or b"").rfind(b"\n") + 1])
        if not self.replica:
            self._go_on_as(self._first or names.new_mark(16))

    def _write(self, line: bytes) -> None:
        self._folder.append_line(LINES, line)

    def _state(self) -> dict[str, Any]:
        try:
            given = json.loads(self._folder.read(STATE) or b"{}")
        except ValueError:
            return {}
        return given if isinstance(given, dict) else {}

    def _save(self, state: dict[str, Any]) -> None:
        self._folder.update(STATE, lambda _: json.dumps(state).encode() + b"\n")


@dataclass(slots=True)
class HomeFiles:
    """The records, journals and pinned documents of one place of a home."""

    home: Home
    shelf: Shelf
    actor: str
    now: Callable[[], datetime]
    findings: list[Finding] = field(default_factory=list)
    _held: set[str] = field(default_factory=set)

    def read(self) -> dict[str, str]:
        """The text of each file that is synced; the others are told and held."""
        self.findings.clear()
        self._held.clear()
        found: dict[str, str] = {}
        for kind, listed in self._listed():
            folder = self.shelf.open(*((kind,) if kind else ()))
            if folder is None:
                continue
            with folder:
                for name in listed(folder):
                    path = f"{kind}/{name}" if kind else name
                    text = self._text(folder, name, path)
                    if text is not None:
                        found[path] = text
        return found

    def held(self) -> Collection[str]:
        """What is there and not synced now."""
        return self._held

    def write(self, path: str, change: Callable[[str | None], str | None]) -> None:
        """Put `change(text)` in place of a text; the old one goes to the archive first."""
        kind, _, name = path.rpartition("/")
        shown = kind or archive.PINNED
        with (
            self.home.lock(self._lock(kind, name)),
            self.home.folder(*self.shelf.parts, *((kind,) if kind else ()), create=True) as folder,
        ):
            content = folder.read(name)
            text = change(_decoded(content))
            if text is None:
                if content is not None:
                    folder.remove(name, lambda current: self._keep(shown, name, change, current))
            else:
                if content is not None and content != text.encode():
                    archive.keep(self.home, self.shelf, shown, name, content, why="sync", at=self.now())
                folder.update(name, lambda current: (change(_decoded(current)) or "").encode(), mode=0o600)
            self._log(shown, name, content, None if text is None else text.encode())

    def archive(self, path: str, text: str) -> None:
        """Keep a text that is not shown."""
        kind, _, name = path.rpartition("/")
        where = (kind or archive.PINNED, name or "unnamed.md")
        archive.keep(self.home, self.shelf, *where, text.encode(), why="conflict", at=self.now())

    def _keep(self, kind: str, name: str, change: Callable[[str | None], str | None], current: bytes) -> None:
        change(_decoded(current))  # refuses what somebody saved meanwhile
        archive.keep(self.home, self.shelf, kind, name, current, why="forget", at=self.now())

    def _log(self, kind: str, name: str, before: bytes | None, after: bytes | None) -> None:
        """Say in the audit what changed, and in the log of kept entries what was taken out."""
        audit.write(
            self.home,
            at=self.now(),
            actor=self.actor,
            operation="sync",
            scope=self.shelf.place.scope,
            before=before,
            after=after,
        )
        if kind == archive.PINNED or before is None:
            return
        old = document.parse(document.decode(before))
        left = (
            {(each.time, each.text) for each in document.parse(document.decode(after)).entries}
            if after
            else set()
        )
        gone = [each for each in old.entries if (each.time, each.text) not in left]
        record = old.front.values.get("id")
        archive.log_taken(self.home, self.shelf, kind, name, gone, record=str(record) if record else None)

    def _lock(self, kind: str, name: str) -> str:
        if kind == archive.RECORDS:
            return f"record {self.shelf.name_of(kind, name)} in {self.shelf.top}"
        if kind == archive.JOURNAL:
            return f"journal {self.shelf.name_of(kind, name)}"
        return f"pinned {self.shelf.name_of(name)} in {self.shelf.top}"

    def _listed(self) -> Iterator[tuple[str, Callable[[Directory], list[str]]]]:
        yield archive.RECORDS, records.in_folder
        if self.shelf.place.scope.rule.journal:
            yield archive.JOURNAL, lambda folder: [name for name in folder.names() if journal.is_day(name)]
        pinned = self.shelf.place.scope.rule.documents
        yield "", lambda folder: [name for name in pinned if folder.stat(name) is not None]

    def _text(self, folder: Directory, name: str, path: str) -> str | None:
        try:
            content = folder.read(name)
            if content is None:
                return None
            text = document.decode(content)
            blocks.cut(text, path)
        except (Malformed, OutsideMemory, OSError) as error:
            self._hold(path, str(error))
            return None
        if safe_path(path) != path:
            self._hold(path, "its name cannot be used on every system")
            return None
        if secrets.find(text):
            self._hold(path, "it holds what looks like a secret, which stays on this machine")
            return None
        if len(text) > fact_rules.LARGEST_VALUE:
            self._hold(path, "it is too large")
            return None
        return text

    def _hold(self, path: str, why: str) -> None:
        self._held.add(path)
        where = self.shelf.name_of(path)
        self.findings.append(Finding("not synced", where, why, "fix it with any text editor"))


def _decoded(content: bytes | None) -> str | None:
    return None if content is None else document.decode(content)
