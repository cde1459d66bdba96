"""What may be on the disk after a power cut: a weak model of a file system, fed with a trace of calls.

The data of a file is sure only after an fsync of that file; a name only after an fsync of its folder. Of what
was not synced, a folder keeps any first part of its changes, whatever other folders keep, and a file keeps
nothing, a part or all of what was written.
"""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from faults.operations import Tree
    from faults.syscalls import Call

MOST = 96  # states of one moment; where there are more, a fixed sample with all the corners

_Choice = TypeVar("_Choice")
_Change = tuple[str, str, str, int]  # what, name, other name, node


@dataclass(slots=True)
class File:
    """A file: what is surely on the disk, and what was written since, in order."""

    sure: bytes = b""
    writes: list[tuple[int, bytes | None]] = field(default_factory=list)  # where, what; None cuts it there
    synced: bool = False

    def now(self) -> bytes:
        """What a reader sees."""
        return _written(self.sure, self.writes)

    def sync(self) -> None:
        """All that was written is on the disk."""
        self.sure, self.writes, self.synced = self.now(), [], True

    def fail(self) -> None:
        """A sync failed: the system forgot what was to be written, and no later sync brings it back."""
        self.sure += bytes(max(0, len(self.now()) - len(self.sure)))
        self.writes = []

    def kept(self) -> list[bytes]:
        """What may be found after a power cut."""
        found = [_written(self.sure, self.writes[:count]) for count in range(len(self.writes) + 1)]
        for count, (where, what) in enumerate(self.writes):
            base = found[count]
            if what and where >= len(base):  # a block in place is old or new; what is added may come in part
                found += [base + what[: len(what) // 2], base + bytes(len(what))]
        return list(dict.fromkeys(found))


@dataclass(slots=True)
class Names:
    """A folder: the names that are surely on the disk, and the changes since, in order."""

    sure: dict[str, int] = field(default_factory=dict)
    changes: list[_Change] = field(default_factory=list)

    def now(self) -> dict[str, int]:
        """What a reader sees."""
        return self.kept(len(self.changes))

    def kept(self, count: int) -> dict[str, int]:
        """The names when only the first few changes reached the disk."""
        names = dict(self.sure)
        for what, name, other, node in self.changes[:count]:
            if what == "add":
                names[name] = node
            elif what == "remove":
                names.pop(name, None)
            elif what == "move":
                names[other] = names.pop(name)
            else:
                names[name], names[other] = names[other], names[name]
        return names

    def sync(self) -> None:
        """All changes are on the disk."""
        self.sure, self.changes = self.now(), []


class Disk:
    """A file system of which only what was synced is sure."""

    def __init__(self, top: str, tree: Tree) -> None:
        self.top = top
        self.nodes: list[File | Names] = [Names()]
        self._open: dict[int, tuple[int, bool]] = {}
        self._at: dict[int, int] = {}
        for name, content in tree.items():
            parent, last = self._parent(f"{top}/{name}")
            parent.sure[last] = self._new(Names() if content is None else File(content, synced=True))

    def do(self, call: Call) -> None:
        """Take one call into account."""
        if call.name == "close":
            self._open.pop(call.fd, None)
        elif call.error:
            node = self._opened(call.fd) if call.name == "fsync" else None
            if isinstance(node, File):
                node.fail()
        elif call.name == "open":
            self._do_open(call)
        elif call.name == "dup":
            self._open[call.result] = self._open[call.fd]
        elif call.name == "fsync":
            self._opened(call.fd).sync()
        elif call.name in ("write", "ftruncate"):
            self._do_write(call)
        elif call.name in ("mkdir", "unlink", "rmdir", "replace", "rename", "link", "place", "exchange"):
            self._do_names(call)

    def seen(self) -> Tree:
        """What a reader sees now."""
        return self._tree({}, {}, now=True)

    def worst(self) -> Tree:
        """What is there when nothing that was not synced has reached the disk."""
        return self._tree({}, {})

    def unsure(self) -> Tree:
        """What a reader sees, and below each name what of it is sure."""
        found: Tree = {}
        for name, content in self.seen().items():
            node = self.nodes[self._find(f"{self.top}/{name}") or 0]
            found[name] = content
            if isinstance(node, File):
                found[f"{name}/"] = node.sure
            else:
                found |= {f"{name}//{each}": b"sure" for each in node.sure}
        return found

    def crashes(self, chance: random.Random) -> Iterator[Tree]:
        """What may be there after a power cut at this moment."""
        folders = [
            number
            for number, node in enumerate(self.nodes)
            if isinstance(node, Names) and node.changes and number != self._find(f"{self.top}/home/locks")
        ]
        lengths = [range(len(self._names(number).changes) + 1) for number in folders]
        for chosen in _some(lengths, chance):
            counts = dict(zip(folders, chosen, strict=True))
            waiting = self._waiting(counts)
            contents = [self._file(number).kept() for number in waiting]
            for picked in _some(contents, chance):
                yield self._tree(counts, dict(zip(waiting, picked, strict=True)))

    # ---------------------------------------------------------------- parts

    def _do_open(self, call: Call) -> None:
        number = self._find(call.path)
        if number is None:
            parent, last = self._parent(call.path)
            number = self._new(File())
            parent.changes.append(("add", last, "", number))
        node = self.nodes[number]
        if isinstance(node, File) and call.flags & os.O_TRUNC:
            node.writes.append((0, None))
        self._open[call.result] = number, bool(call.flags & os.O_APPEND)
        self._at[call.result] = 0

    def _do_write(self, call: Call) -> None:
        number, appending = self._open[call.fd]
        node = self._file(number)
        if call.name == "ftruncate":
            node.writes.append((call.size, None))
            return
        where = len(node.now()) if appending else self._at[call.fd]
        node.writes.append((where, call.data[: call.result]))
        self._at[call.fd] = where + call.result

    def _do_names(self, call: Call) -> None:
        parent, last = self._parent(call.path)
        if call.name == "mkdir":
            parent.changes.append(("add", last, "", self._new(Names())))
        elif call.name in ("unlink", "rmdir"):
            parent.changes.append(("remove", last, "", 0))
        elif call.name == "link":
            parent.changes.append(("add", os.path.basename(call.other), "", parent.now()[last]))
        else:
            assert os.path.dirname(call.path) == os.path.dirname(call.other), "a rename between folders"
            what = "swap" if call.name == "exchange" else "move"
            parent.changes.append((what, last, os.path.basename(call.other), 0))

    def _new(self, node: File | Names) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _names(self, number: int) -> Names:
        node = self.nodes[number]
        assert isinstance(node, Names)
        return node

    def _file(self, number: int) -> File:
        node = self.nodes[number]
        assert isinstance(node, File)
        return node

    def _opened(self, fd: int) -> File | Names:
        return self.nodes[self._open[fd][0]]

    def _parent(self, path: str) -> tuple[Names, str]:
        above, last = os.path.split(path)
        number = self._find(above)
        assert number is not None, f"{path} lies in no folder"
        return self._names(number), last

    def _find(self, path: str) -> int | None:
        number: int | None = 0
        for part in path.removeprefix(self.top).split("/"):
            if part and number is not None:
                number = self._names(number).now().get(part)
        return number

    def _waiting(self, counts: dict[int, int]) -> list[int]:
        """Files that can be reached by the names kept, with something not yet on the disk."""
        found, folders = [], [0]
        while folders:
            number = folders.pop()
            for below in self._names(number).kept(counts.get(number, 0)).values():
                node = self.nodes[below]
                if isinstance(node, Names):
                    folders.append(below)
                elif node.writes:
                    found.append(below)
        return sorted(set(found))

    def _tree(self, counts: dict[int, int], contents: dict[int, bytes], *, now: bool = False) -> Tree:
        def below(number: int, path: str) -> Iterator[tuple[str, bytes | None]]:
            folder = self._names(number)
            names = folder.now() if now else folder.kept(counts.get(number, 0))
            for name, each in sorted(names.items()):
                node = self.nodes[each]
                if isinstance(node, Names):
                    yield path + name, None
                    yield from below(each, f"{path}{name}/")
                else:
                    yield path + name, node.now() if now else contents.get(each, node.sure)

        return dict(below(0, ""))


def _written(content: bytes, writes: Sequence[tuple[int, bytes | None]]) -> bytes:
    for where, what in writes:
        if what is None:
            content = content[:where].ljust(where, b"\0")
        else:
            content = content[:where].ljust(where, b"\0") + what + content[where + len(what) :]
    return content


def _some(choices: Sequence[Sequence[_Choice]], chance: random.Random) -> Iterator[tuple[_Choice, ...]]:
    """All combinations; of too many, those with none or all of one thing, and a sample of the rest."""
    if math.prod(map(len, choices)) <= MOST:
        yield from itertools.product(*choices)
        return
    first, last = [each[0] for each in choices], [each[-1] for each in choices]
    yield tuple(first)
    yield tuple(last)
    for place in range(len(choices)):
        yield (*first[:place], last[place], *first[place + 1 :])
        yield (*last[:place], first[place], *last[place + 1 :])
    for _ in range(MOST):
        yield tuple(chance.choice(each) for each in choices)
