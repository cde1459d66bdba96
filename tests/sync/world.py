"""Replicas that edit the same memory, and an oracle that knows what must come of it without asking them.

The oracle keeps its own book: each text is unique, and it is written down who made it from which other, who
removed it, and what the remover saw at that moment. Nothing of it is computed from facts.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import random
import re
import uuid
import zlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from vademecum.errors import VadeError
from vademecum.sync import blocks, facts, purge_facts, stream_sync
from vademecum.sync.diff import FactWriter
from vademecum.sync.projection import FactSet
from vademecum.sync.stream_sync import Forked, SyncStream
from vademecum.sync.stream_window import Logged, OwnFacts, Remembered
from vademecum.sync.workspace_key import KeyRecord, find_ends, find_unsealed, make_record
from vademecum.text import document, frontmatter, names
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from vademecum.sync.facts import FactId, SyncFact

STREAM = "global"
TEXT = re.compile(r"\bx\d+\b")
TIMES = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z")
DAY = "journal/2026-01-01.md"
FIRST_KEY = "1" * 26
TWINS = 3  # every so many syncs of a machine are done a second time by one that remembers nothing


_LETTERS = str.maketrans("0123456789", "ghijklmnop")  # no text is found in another one's words


class Killed(Exception):
    """The process died here."""


class Away(Exception):
    """The others cannot be reached."""


def texts_in(what: object) -> list[str]:
    """The texts in whatever is printed, where a line end is two letters and would hide one."""
    return TEXT.findall(str(what).replace("\\n", "\n"))


def is_journal(path: str) -> bool:
    return path.startswith("journal/")


@contextlib.contextmanager
def same_ids(seed: str) -> Iterator[None]:
    """New ids in an order that is known, so that a sync can be done twice."""
    numbers = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "new_id", lambda: str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed} {next(numbers)}")))
        yield


class Fuse:
    """Kills at a step that was named; every durable act of a sync is one."""

    def __init__(self) -> None:
        self.left: int | None = None

    def burn(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed


class MemoryLog:
    """A log in memory that can be killed before and after each of its acts."""

    def __init__(self, replica: str, fuse: Fuse) -> None:
        self.replica, self.fuse = replica, fuse
        self.lines: list[Logged] = []
        self.put_aside: list[SyncFact] = []
        self.count = 0
        self.paths: set[str] = set()
        self.kept: tuple[Remembered, list[Logged]] | None = None

    def read(self) -> Sequence[Logged]:
        return self.lines

    def renew(self) -> None:
        """Go on under another name."""
        self.replica = f"{self.replica[0]}{int(self.replica[1:]) + 1_000:07d}"

    def append(self, made: Iterable[SyncFact], *, own: bool) -> None:
        self.fuse.burn()
        listed = list(made)
        half = self.fuse.left == 0 and len(listed) > 1
        self.lines += [Logged(fact, own) for fact in (listed[: len(listed) // 2] if half else listed)]
        self.fuse.burn()

    def applied(self) -> int:
        return self.count

    def applying(self) -> Collection[str]:
        return set(self.paths)

    def begin(self, paths: Iterable[str]) -> None:
        self.fuse.burn()
        self.paths = set(paths)
        self.fuse.burn()

    def finish(self, applied: int, left: Collection[str] = ()) -> None:
        self.fuse.burn()
        self.count, self.paths = applied, set(left)
        self.fuse.burn()

    def remembered(self) -> Remembered | None:
        if self.kept is None or self.kept[1] != self.lines[: len(self.kept[1])]:
            return None
        return Remembered.parse(json.loads(json.dumps(self.kept[0].render())))

    def remember(self, kept: Remembered) -> None:
        self.fuse.burn()
        self.kept = kept, list(self.lines)
        self.fuse.burn()

    def aside(self) -> Sequence[SyncFact]:
        return self.put_aside

    def blank(self, fact_ids: Collection[FactId]) -> None:
        self.fuse.burn()
        self.lines = [
            line._replace(fact=facts.blank(line.fact)) if line.fact.id in fact_ids else line
            for line in self.lines
        ]
        self.put_aside = [facts.blank(each) if each.id in fact_ids else each for each in self.put_aside]
        self.fuse.burn()

    def withdraw(self, fact_ids: Collection[FactId]) -> None:
        raise NotImplementedError  # nobody refuses anything here

    def seal_own(self, key: bytes, record: KeyRecord) -> None:
        """Seal own facts again that were sealed with another key."""
        changed = find_unsealed(self.lines, key, record.ends.get(STREAM, {}))
        self.lines = [line._replace(fact=changed.get(line.fact.id, line.fact)) for line in self.lines]


class MemoryFiles:
    """Files in memory."""

    def __init__(self, fuse: Fuse) -> None:
        self.texts: dict[str, str] = {}
        self.kept: list[str] = []
        self.forgotten: dict[str, str] = {}
        self.aside: dict[str, str] = {}
        self.fuse = fuse

    def stamps(self) -> dict[str, tuple[int, ...]]:
        return {path: (len(text), zlib.crc32(text.encode())) for path, text in self.texts.items()}

    def read(
        self, paths: Collection[str] | None = None, shown: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        return {path: text for path, text in self.texts.items() if paths is None or path in paths}

    def held(self) -> Collection[str]:
        return ()

    def hold(self, path: str, why: str) -> None:
        raise AssertionError(f"{path} is one's own: {why}")

    def write(self, changes: Sequence[stream_sync.FileChange]) -> Collection[str]:
        left = []
        for path, before, after in changes:
            self.fuse.burn()
            if self.texts.get(path) not in (before, after):
                left.append(path)
            elif after is None:
                self.texts.pop(path, None)
            else:
                self.texts[path] = after
            self.fuse.burn()
        return left

    def archive(self, path: str, text: str) -> None:
        self.kept.append(text)

    def archived_automatically(self, texts: Mapping[str, str]) -> Collection[str]:
        return ()

    def keep_replaced(self, earlier: str, change: stream_sync.FileChange) -> None:
        """Keep nothing: there is no history of these files."""

    def purge(self, removed: purge_facts.Removed) -> None:
        for texts in (self.texts, self.forgotten):
            for path, text in list(texts.items()):
                self.fuse.burn()
                rest = removed.clean(path, text)
                if rest is None:
                    del texts[path]
                else:
                    texts[path] = rest
        found = (removed.clean("records/kept.md", text) for text in self.kept)
        self.kept = [text for text in found if text is not None]
        self.fuse.burn()

    def set_aside(self, name: str, path: str, text: str) -> None:
        self.aside[name] = text


class MemoryFolder:
    """What all replicas reach: each one's facts, in their order."""

    def __init__(self) -> None:
        self.logs: dict[str, list[SyncFact]] = {}
        self.stolen: list[SyncFact] = []  # what a thief of an earlier key has written
        self.record = make_record(STREAM, FIRST_KEY)
        self.cut_off: set[str] = set()

    def reached_by(self, name: str, fuse: Fuse) -> _Reach:
        return _Reach(self, name, fuse)


@dataclass
class _Reach:
    """The shared folder as one machine sees it."""

    folder: MemoryFolder
    name: str
    fuse: Fuse

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterable[SyncFact]:
        if self.name in self.folder.cut_off:
            raise Away
        found = [
            fact for log in self.folder.logs.values() for fact in log if fact.n > known.get(fact.replica, 0)
        ]
        return [facts.parse(facts.render(fact)) for fact in (*found, *self.folder.stolen)]

    def push(self, stream: str, made: OwnFacts) -> None:
        self.fuse.burn()
        for fact in made:
            there = self.folder.logs.get(fact.replica, [])
            if fact.n <= len(there) and there[fact.n - 1].hash != fact.hash:
                raise Forked("the home was copied")
        for fact in made:
            log = self.folder.logs.setdefault(fact.replica, [])
            if fact.n > len(log):
                log.append(fact)
            elif fact.purged or fact.seal != log[fact.n - 1].seal:
                log[fact.n - 1] = fact
        self.fuse.burn()  # the answer is lost


@dataclass
class Replica:
    """One machine."""

    name: str
    folder: MemoryFolder
    fuse: Fuse = field(default_factory=Fuse)
    generation: int = 0
    syncs: int = 0
    lost: bool = False  # its log was lost: what was purged since cannot be told from the rest of its archive
    blind: bool = False  # its base is uncertain: what it removes now may have to be removed again
    stripped: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)  # texts removed here since the last whole sync
    edited: set[str] = field(default_factory=set)
    copied: dict[str, str] = field(default_factory=dict)  # since the last sync: a copy and what it is of
    loose: set[str] = field(default_factory=set)  # copies without an id since the last sync
    untold: dict[str, set[str]] = field(default_factory=dict)  # tags taken out of files since the last sync
    fresh: set[str] = field(default_factory=set)  # files of which nobody could say which one a third is
    forgotten: dict[str, str] = field(default_factory=dict)
    key: str = ""
    forked: Callable[[Replica], None] = lambda replica: None

    def __post_init__(self) -> None:
        self.files = MemoryFiles(self.fuse)
        self.files.forgotten = self.forgotten
        self.key = FIRST_KEY
        self.new_log()

    def new_log(self) -> None:
        self.generation += 1
        self.log = MemoryLog(f"{self.name}{self.generation:07d}", self.fuse)

    def sync(self, *, kill: int | None = None) -> stream_sync.Synced | None:
        """A sync, or one that is killed at an act of it."""
        if not self.has_right_key():
            return None
        self.fuse.left = kill
        own = (line.fact.n for line in reversed(self.log.lines) if line.fact.replica == self.log.replica)
        if len(self.folder.logs.get(self.log.replica, [])) > next(own, 0):
            self.log.renew()
        self.log.seal_own(self.key.encode(), self.folder.record)
        self.syncs += 1
        cold = self._cold_twin() if kill is None and self.syncs % self.twins == 0 else None
        stream = self.stream(self.log, self.files, self.folder.reached_by(self.name, self.fuse))
        try:
            with same_ids(f"{self.name}{self.generation} {self.syncs}"):
                done = stream.sync(deletions=True)
        except Killed:
            self.blind = True
            return None
        except Away:
            return None
        except Forked:
            self.forked(self)
            return self.sync()
        finally:
            self.fuse.left = None
        self.stripped.clear()
        self.pending.clear()
        self.copied.clear()
        self.loose.clear()
        self.fresh.clear()
        self.untold.clear()
        self.edited.clear()
        self.blind = False
        if cold is not None:
            found = (done, self.log.lines, self.log.replica, self.files.texts, self.files.kept)
            assert found == cold, "what was remembered changes what a sync does"
        return done

    twins = TWINS

    def stream(self, log: MemoryLog, files: MemoryFiles, reach: _Reach) -> SyncStream:
        key, ends = self.key.encode(), self.folder.record.ends.get(STREAM, {})
        return SyncStream(
            STREAM,
            log,
            files,
            reach,
            ends=ends,
            accept=lambda fact: facts.is_sealed(fact, key),
            make=lambda fact: facts.seal(fact, key),
            acks=True,
        )

    def has_right_key(self) -> bool:
        return self.folder.record.fits(self.key)

    def take_key(self, key: str) -> None:
        """A person types the new key."""
        self.key = key

    def rotate(self) -> str:
        """Change the key, and return the new one."""
        generation = self.folder.record.generation + 1
        self.key = f"{generation:026}"
        ends = {STREAM: find_ends(line.fact for line in self.log.lines)}
        self.folder.record = make_record(STREAM, self.key, generation, ends)
        return self.key

    def plant(self, made: Sequence[SyncFact]) -> None:
        """A thief writes facts where all machines read."""
        self.folder.stolen += made

    def _cold_twin(self) -> tuple[object, ...] | None:
        """What a sync would do that remembers nothing."""
        fuse, shared = Fuse(), type(self.folder)()
        log, files = MemoryLog(self.log.replica, fuse), MemoryFiles(fuse)
        log.lines, log.count, log.paths = list(self.log.lines), self.log.count, set(self.log.paths)
        log.put_aside = list(self.log.put_aside)
        files.texts, files.kept = dict(self.files.texts), list(self.files.kept)
        shared.logs = {name: list(made) for name, made in self.folder.logs.items()}
        shared.cut_off = set(self.folder.cut_off)
        shared.stolen, shared.record = self.folder.stolen, self.folder.record
        try:
            with same_ids(f"{self.name}{self.generation} {self.syncs}"):
                done = self.stream(log, files, shared.reached_by(self.name, fuse)).sync(deletions=True)
        except (Away, Forked):
            return None
        return done, log.lines, log.replica, files.texts, files.kept

    def visible(self) -> set[str]:
        return {text for body in self.files.texts.values() for text in TEXT.findall(body)}


@dataclass
class World:
    """The replicas, and the oracle's book."""

    rnd: random.Random
    count: int = 5
    weights: Mapping[str, int] = field(default_factory=lambda: WEIGHTS)
    made: dict[str, str] = field(default_factory=dict)  # each text and the one it was made from
    author: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    removals: list[tuple[str, set[str]]] = field(default_factory=list)  # what, and what was seen then
    unclear: set[str] = field(default_factory=set)  # families of which the rules leave more than one end open
    strips: list[str] = field(
        default_factory=list
    )  # texts whose comment was deleted: an edit without a child
    tags: set[str] = field(default_factory=set)
    untagged: set[str] = field(default_factory=set)
    marks: set[str] = field(default_factory=set)
    lifted: set[str] = field(default_factory=set)
    purged: set[str] = field(default_factory=set)
    doc_of: dict[str, str] = field(default_factory=dict)  # the document a text was written into
    purged_docs: set[str] = field(default_factory=set)
    orders: dict[str, set[str]] = field(default_factory=dict)  # what each purge took
    keys: list[str] = field(default_factory=list)  # of the generations, the newest last
    stolen: set[str] = field(default_factory=set)  # texts of a thief of an earlier key

    def __post_init__(self) -> None:
        self.folder = MemoryFolder()
        self.replicas = [
            Replica(letter, self.folder, forked=self.begin_anew) for letter in "abcde"[: self.count]
        ]
        self.number = 0

    # ------------------------------------------------------------ what people and programs do

    def text(self, at: Replica, parent: str = "") -> str:
        self.number += 1
        new = f"x{self.number}"
        self.made[new] = parent
        self.author[new] = at.name
        return new

    def words(self, at: Replica) -> str:
        """A text with words around it that are like no other's."""
        new = self.text(at)
        return f"{new} {hashlib.sha256(new.encode()).hexdigest()[:40].translate(_LETTERS)}"

    def mark(self) -> str:
        return "".join(self.rnd.choice("0123456789abcdefghjkmnpqrstvwyz") for _ in range(10))

    def uuid(self) -> str:
        return "-".join(
            "".join(self.rnd.choice("0123456789abcdef") for _ in range(n)) for n in (8, 4, 4, 4, 12)
        )

    def begin(self, at: Replica) -> None:
        """A new record, or a note in the journal of a day that others have, too."""
        if self.rnd.random() < 0.3:
            path, text = DAY, at.files.texts.get(DAY, "# 2026-01-01\n\n")
        else:
            key = f"k{self.number}{at.name}"
            path = f"records/{key}.md"
            if path in at.files.texts:
                return
            front = {"type": "project", "id": self.uuid(), "key": key, "updated": TIMES[0]}
            text = frontmatter.edit(f"# {key}\n\n", front)
        at.files.texts[path] = document.append(text, self._entry(at))
        self._belongs(at.files.texts[path])

    def begin_same(self, at: Replica) -> None:
        """A new record under a name that others choose, too: two documents, one file."""
        key = f"same{self.rnd.randrange(2)}"
        path = f"records/{key}.md"
        if path not in at.files.texts and path not in at.forgotten:
            front = {"type": "project", "id": self.uuid(), "key": key, "updated": TIMES[0]}
            text = frontmatter.edit(f"# {key}\n\n", front)
            for _ in range(self.rnd.randint(1, 3)):
                text = document.append(text, self._entry(at))
            at.files.texts[path] = text
            self.same_names = True
            self._belongs(text)

    def _belongs(self, body: str) -> None:
        """Write down which document the texts of a file were written into."""
        record = frontmatter.parse(body).values.get("id")
        for text in TEXT.findall(body):
            self.doc_of.setdefault(text, str(record))

    def _entry(self, at: Replica) -> Entry:
        return Entry(self.words(at), self.rnd.choice(TIMES), Origin.USER, id=self.mark())

    def append(self, at: Replica) -> None:
        """A program adds an entry at the end and sets `updated`."""
        path = self._path(at)
        if path:
            text = document.append(at.files.texts[path], self._entry(at))
            if not is_journal(path):
                text = frontmatter.edit(text, {"updated": self.rnd.choice(TIMES)})
            at.files.texts[path] = text
            self._belongs(text)

    def type_block(self, at: Replica) -> None:
        """A person types an entry without an id, somewhere."""
        path = self._path(at)
        if path:
            page = blocks.cut(at.files.texts[path], path)
            place = self.rnd.randrange(len(page.blocks) + 1)
            # Typed at the very time of a block that goes, it would be taken for an edit of that one.
            time = f"{datetime(2026, 1, 1, 1) + timedelta(seconds=self.number):%Y-%m-%dT%H:%M:%SZ}"
            raw = f"## {time}\n{self.words(at)}"
            new = blocks.TextBlock(raw, None, "")
            listed = [*page.blocks[:place], new, *page.blocks[place:]]
            self._save(at, path, page, listed)

    def edit(self, at: Replica) -> None:
        path, page, place = self._block(at, lambda text: bool(self.made[text]) or text in self.made.values())
        if page is None or not self._found_again(page, place):
            return
        block = page.blocks[place]
        [old] = TEXT.findall(block.raw)
        if old in at.stripped:
            return
        new = self.text(at, old)
        at.edited.add(new)
        self.gone.add(old)
        self._doubt(at, old)
        self._save(at, path, page, self._with(page, place, block._replace(raw=block.raw.replace(old, new))))

    def remove(self, at: Replica) -> None:
        path, page, place = self._block(at, lambda text: text in self.made.values())
        if page is None or len(page.blocks) < 2:
            return
        listed = [*page.blocks[:place], *page.blocks[place + 1 :]]
        self._save(at, path, page, listed)
        self._removed(at, TEXT.findall(page.blocks[place].raw))

    def forget(self, at: Replica) -> None:
        path = self._path(at)
        if path and path not in at.fresh:
            text = at.files.texts.pop(path)
            at.forgotten[path] = text
            self.untagged -= at.untold.pop(path, set())  # no sync has seen the file without them
            self._removed(at, TEXT.findall(text))

    def restore(self, at: Replica) -> None:
        """What was forgotten comes back, with its ids."""
        for path, text in list(at.forgotten.items())[:1]:
            del at.forgotten[path]
            if path not in at.files.texts:
                at.files.texts[path] = text
                for each in TEXT.findall(text):
                    self.unclear.add(self.root(each))

    def move(self, at: Replica) -> None:
        """A person moves a block to another place of its file."""
        path, page, place = self._block(at)
        if page is not None:
            listed = list(page.blocks)
            listed.insert(self.rnd.randrange(len(listed)), listed.pop(place))
            self._save(at, path, page, listed)

    def copy_block(self, at: Replica) -> None:
        """A person copies a block and writes something else into the copy."""
        path, page, place = self._block(at)
        if page is None:
            return
        block = page.blocks[place]
        [old] = TEXT.findall(block.raw)
        new = self.text(at)
        at.copied |= {old: new, new: old}
        if not block.id:  # by its time it may look like an edit of what is removed
            at.loose.add(new)
            self.unclear |= {self.root(new)} if at.pending else set()
        copy = block._replace(raw=block.raw.replace(old, new))
        self._save(at, path, page, [*page.blocks[: place + 1], copy, *page.blocks[place + 1 :]])

    def strip(self, at: Replica) -> None:
        """A person deletes the comment below an entry."""
        path, page, place = self._block(at)
        if page is None:
            return
        block = page.blocks[place]
        raw = re.sub(r"\n<!-- [^\n]* -->\Z", "", block.raw)
        at.stripped.update(TEXT.findall(raw))
        self.strips += TEXT.findall(raw)
        for each in TEXT.findall(raw):  # it is an edit of the same text
            self.unclear.add(self.root(each))
        for each in at.pending:  # by its time it may look like an edit of what was removed
            self.unclear.add(self.root(each))
        self._save(at, path, page, self._with(page, place, block._replace(raw=raw)))

    def reformat(self, at: Replica) -> None:
        """Line endings, blank lines and a comment in the frontmatter are a person's."""
        path = self._path(at)
        if path:
            text = at.files.texts[path]
            choice = self.rnd.randrange(3)
            if choice == 0:
                text = text.replace("\r\n", "\n").replace("\n", "\r\n")
            elif choice == 1:
                text = text.replace("\n\n## ", "\n\n\n## ", 1)
            elif text.startswith("---\n"):
                text = text.replace("---\n", f"---\n# a comment by {at.name}\n", 1)
            at.files.texts[path] = text

    def rename(self, at: Replica) -> None:
        path = self._path(at)
        if path and not is_journal(path) and path not in at.fresh:
            self.number += 1
            at.fresh.add(f"records/renamed{self.number}.md")
            at.files.texts[f"records/renamed{self.number}.md"] = at.files.texts.pop(path)

    def copy_file(self, at: Replica) -> None:
        """A person copies a file and writes something else into every entry of the copy."""
        path = self._path(at)
        if path and not is_journal(path) and path not in at.fresh:
            self.number += 1
            copy = f"records/copied{self.number}.md"
            at.fresh |= {path, copy}
            copied = {old: self.text(at) for old in TEXT.findall(at.files.texts[path])}
            text = TEXT.sub(lambda found: copied[found[0]], at.files.texts[path])
            self.copied_conflicts += text.count("~")
            at.files.texts[copy] = frontmatter.edit(text, {"tags": None})

    def tag(self, at: Replica) -> None:
        path = self._path(at)
        if path and not is_journal(path):
            self.number += 1
            self._retag(at, path, lambda tags: [*tags, f"t{self.number}"])
            self.tags.add(f"t{self.number}")

    def untag(self, at: Replica) -> None:
        path = self._path(at)
        tags = self.tags_of(at.files.texts[path]) if path else []
        if path and tags:
            chosen = self.rnd.choice(tags)
            self._retag(at, path, lambda there: [each for each in there if each != chosen])
            self.loose_sets |= at.blind
            if chosen not in self.untagged:
                at.untold.setdefault(path, set()).add(chosen)
            self.untagged.add(chosen)

    def purge_text(self, at: Replica) -> None:
        """A person deletes words for good, that stand in a file or stood there once."""
        _, page, place = self._block(at)
        if page is None:
            return
        [texts] = TEXT.findall(page.blocks[place].raw)
        text = self.rnd.choice(list(self.lineage(texts)))
        letters = re.search(rf"\b{texts} ([a-p]{{20}})", page.blocks[place].raw)
        if letters is None:
            return
        wanted = f"{text} {letters[1]}"
        named = purge_facts.find_text([line.fact for line in at.log.lines], wanted)
        self._purge(at, purge_facts.Removed((wanted,)), named, {text})

    def purge_record(self, at: Replica) -> None:
        """A person deletes a record for good, with all that it ever said."""
        path = self._path(at)
        if not path or path == DAY:
            return
        body = at.files.texts[path]
        record = str(frontmatter.parse(body).values["id"])
        named = purge_facts.find_record(FactSet(line.fact for line in at.log.lines), path, record)
        texts = {each for text in TEXT.findall(body) for each in self.lineage(text)}
        self.purged_docs.add(record)
        entries = [
            entry
            for raw in (body, *(line.fact.value["raw"] for line in at.log.lines if self._is_put(line, named)))
            for entry in document.parse(raw).entries
        ]
        self._purge(at, purge_facts.Removed(entries=tuple(entries), paths=(path,)), named, texts)

    @staticmethod
    def _is_put(line: Logged, named: Collection[FactId]) -> bool:
        return line.fact.kind == "put" and line.fact.id in named

    def _purge(
        self,
        at: Replica,
        removed: purge_facts.Removed,
        named: Mapping[FactId, purge_facts.Cut | None],
        texts: Collection[str],
    ) -> None:
        for text in texts:
            self.gone.add(text)
            if at.log.lines:  # else its log is lost: it purges again what comes back
                self.purged.add(text)
            self.unclear.add(self.root(text))
            if text in at.copied:
                self.unclear.add(self.root(at.copied[text]))
        at.files.purge(removed)
        self.loose_sets = True
        self.orders[f"o{len(self.orders)}"] = set(texts)
        order = f"o{len(self.orders) - 1}"
        if self.rnd.random() < 0.3:
            at.fuse.left = self.rnd.randrange(4)
        try:
            if named:
                purge_facts.enact(STREAM, at.log, lambda fact: fact, named, order=order)
        except Killed:
            at.fuse.left = None
            purge_facts.enact(STREAM, at.log, lambda fact: fact, named, order=order)
        finally:
            at.fuse.left = None

    def supersede(self, at: Replica) -> None:
        path, page, place = self._block(at)
        if page is None:
            return
        block = page.blocks[place]
        [old] = TEXT.findall(block.raw)
        if old in at.stripped:
            return
        there = "superseded" in blocks.parts(block.raw)
        if there and not blocks.parts(block.raw).get("id"):
            return
        raw = blocks.sign(block.raw, superseded="" if there else "2026-02-02T00:00:00Z")
        if there:
            self.lifted |= self.versions(page, block)
        else:
            self.marks.add(old)
        self._doubt(at, old)
        self._save(at, path, page, self._with(page, place, block._replace(raw=raw)))

    @staticmethod
    def versions(page: blocks.CutText, block: blocks.TextBlock) -> set[str]:
        """The texts of an entry, whose marks are one."""
        entry = block.id.partition("~")[0]
        same = [each.raw for each in page.blocks if entry and each.id.partition("~")[0] == entry]
        return {text for raw in (*same, block.raw) for text in TEXT.findall(raw)}

    def sync(self, at: Replica) -> None:
        at.sync()

    def cut_sync(self, at: Replica) -> None:
        """A sync that is killed at any of its acts; sometimes a person edits before the next."""
        at.sync(kill=self.rnd.randrange(self.acts))

    acts = 14  # of a sync, at any of which it may die

    def part(self, at: Replica) -> None:
        """A machine is away, or comes back."""
        self.folder.cut_off.symmetric_difference_update({at.name})

    def rotate(self, at: Replica) -> None:
        """A person changes the key on a machine that has synced."""
        self.keys = self.keys or [at.key]
        if at.name not in self.folder.cut_off and at.sync() is not None:
            self.keys.append(at.rotate())

    def take_key(self, at: Replica) -> None:
        """A person types the newest key on a machine that asks for it."""
        if self.keys:
            at.take_key(self.keys[-1])

    def steal(self, at: Replica) -> None:
        """Somebody who has an earlier key writes a record of their own."""
        if len(self.keys) < 2:
            return
        self.number += 1
        text = f"x{self.number}"
        self.stolen.add(text)
        key = self.rnd.choice(self.keys[:-1]).encode()
        thief = FactWriter(
            STREAM, f"t{self.number:07}", FactSet(), None, 0, make=lambda fact: facts.seal(fact, key)
        )
        doc = self.uuid()
        thief.write(doc, "name", "", value=f"records/stolen{self.number}.md")
        raw = f"## {TIMES[0]}\n{text} was never typed by a person."
        thief.write(doc, "put", self.mark(), value={"raw": raw})
        at.plant(thief.made)

    def settle_conflict(self, at: Replica) -> None:
        """A person deletes one of two versions of an entry."""
        for path, text in sorted(at.files.texts.items()):
            page = blocks.cut(text, path)
            second = [place for place, block in enumerate(page.blocks) if "~" in block.id]
            if second and len(page.blocks) > 1:
                place = max(0, second[0] - self.rnd.randrange(2))  # the first may be removed already
                self._save(at, path, page, [*page.blocks[:place], *page.blocks[place + 1 :]])
                self._removed(at, TEXT.findall(page.blocks[place].raw))
                return

    def clone(self, at: Replica) -> None:
        """A machine's home is replaced by a copy of another one's; both had sent all they knew."""
        other = self.rnd.choice(self.replicas)
        if other is at or at.sync() is None or other.sync() is None:
            return
        other.files.texts = dict(at.files.texts)
        other.files.kept += at.files.kept
        other.log.lines, other.log.count = list(at.log.lines), at.log.count
        other.log.put_aside, other.lost = list(at.log.put_aside), other.lost or at.lost
        other.log.paths, other.log.replica = set(at.log.paths), at.log.replica
        other.forgotten.clear()
        self.cloned = True

    cloned: bool = False

    def lose_log(self, at: Replica, *, aside: bool = False) -> None:
        """The state of a machine's sync is deleted; its files stay."""
        self.doubt_log(at, aside=aside)
        lost = [*at.log.put_aside, *(line.fact for line in at.log.lines)]
        at.lost |= not aside and any(line.fact.kind == "put" for line in at.log.lines)
        at.new_log()
        at.log.put_aside = lost if aside else []

    def doubt_log(self, at: Replica, *, aside: bool = False) -> None:
        """Nobody knows any longer what only this machine's log knew."""
        for text in at.pending | at.edited:
            self.unclear.add(self.root(text))
        at.pending.clear()
        sent = self.folder.logs.get(at.log.replica, [])
        only = [
            line for line in at.log.lines if line.own and line.fact.n > len(sent)
        ]  # what only this log knew
        self.unclear.update(self._families_of({line.fact.register for line in only}))
        for line in only:
            self.unclear.update(self.root(t) for t in texts_in(line.fact))
            if line.fact.kind in ("tag", "mark"):
                self.loose_sets = True
            if line.fact.kind == facts.PURGE and not aside:  # as an unsent removal, it has to be repeated
                self.purged -= self.orders.get(line.fact.value.get("order"), set())
        self.any_lost = at.blind = True

    def begin_anew(self, at: Replica) -> None:
        """A machine finds that its name is used by another one: it puts its log aside."""
        self.lose_log(at, aside=True)

    copied_conflicts: int = 0
    same_names: bool = False  # of two documents in one file the frontmatter of one is shown
    any_lost: bool = False
    loose_sets: bool = False

    def _families_of(self, registers: Collection[facts.Register]) -> set[str]:
        """The families that facts without a text are about."""
        return {
            self.root(text)
            for log in self.folder.logs.values()
            for fact in log
            if fact.kind == "put" and fact.register in registers
            for text in texts_in(fact.value)
        }

    def step(self) -> None:
        """One thing that happens on one machine."""
        operation = self.rnd.choices(list(self.weights), weights=list(self.weights.values()))[0]
        getattr(self, operation)(self.rnd.choice(self.replicas))

    # ------------------------------------------------------------ helpers

    def root(self, text: str) -> str:
        while self.made.get(text):
            text = self.made[text]
        return text

    def lineage(self, text: str) -> Iterator[str]:
        while text:
            yield text
            text = self.made.get(text, "")

    def _removed(self, at: Replica, texts: Iterable[str]) -> None:
        for text in texts:
            self.removals.append((text, self.visible(at)))
            self.gone.add(text)
            at.pending.add(text)
            self._doubt(at, text)
            if at.stripped:
                self.unclear.add(self.root(text))
            self.unclear |= {self.root(each) for each in at.loose}
            if text in at.copied:  # what is left of the two looks like an edit of it
                self.unclear |= {self.root(text), self.root(at.copied[text])}

    def visible(self, at: Replica) -> set[str]:
        """What whoever removes something sees of it."""
        return at.visible()

    def _doubt(self, at: Replica, text: str) -> None:
        """What is done while it is uncertain what a file showed may end in more than one way."""
        if at.blind:
            self.unclear.add(self.root(text))
            self.loose_sets = True

    def _path(self, at: Replica) -> str:
        return self.rnd.choice(sorted(at.files.texts)) if at.files.texts else ""

    def _block(
        self, at: Replica, wanted: Callable[[str], bool] | None = None
    ) -> tuple[str, blocks.CutText | None, int]:
        """A block of a machine; every other time one whose text is `wanted`, where there is one."""
        if wanted is not None and self.rnd.random() < 0.5:
            for path, text in sorted(at.files.texts.items()):
                whole = blocks.cut(text, path)
                for place, block in enumerate(whole.blocks):
                    if any(wanted(each) for each in TEXT.findall(block.raw)):
                        return path, whole, place
        path = self._path(at)
        page = blocks.cut(at.files.texts[path], path) if path else None
        text_places = (
            [place for place, each in enumerate(page.blocks) if TEXT.search(each.raw)] if page else []
        )
        if page is None or not text_places:
            return "", None, 0
        return path, page, self.rnd.choice(text_places)

    def _found_again(self, page: blocks.CutText, place: int) -> bool:
        """Whether a block that is edited can be told from all others: by its id, or by its time."""
        block = page.blocks[place]
        if block.id:
            return [each.id for each in page.blocks].count(block.id) == 1
        return False

    def _with(self, page: blocks.CutText, place: int, block: blocks.TextBlock) -> list[blocks.TextBlock]:
        return [*page.blocks[:place], block, *page.blocks[place + 1 :]]

    def _save(self, at: Replica, path: str, page: blocks.CutText, listed: Sequence[blocks.TextBlock]) -> None:
        fixed = [
            block._replace(gap=block.gap if "\n" in block.gap and place < len(listed) - 1 else "\n\n")
            for place, block in enumerate(listed)
        ]
        if fixed:
            fixed[-1] = fixed[-1]._replace(gap="\n")
        at.files.texts[path] = blocks.join(page._replace(blocks=tuple(fixed)))
        self._belongs(at.files.texts[path])

    def tags_of(self, text: str) -> list[str]:
        return list(frontmatter.parse(text).values.get("tags") or [])

    def _retag(self, at: Replica, path: str, change: Callable[[list[str]], list[str]]) -> None:
        text = at.files.texts[path]
        at.files.texts[path] = frontmatter.edit(text, {"tags": change(self.tags_of(text)) or None})

    # ------------------------------------------------------------ what must hold

    def settle(self) -> None:
        """Everybody is back and syncs until there is nothing more to say."""
        self.folder.cut_off.clear()
        for replica in self.replicas if self.keys else ():
            replica.take_key(self.keys[-1])
        for _ in range(3):
            for replica in self.replicas:
                replica.sync()

    def check(self) -> None:
        """Hold the replicas against the oracle's book."""
        self.settle()
        self._check_equal()
        for replica in self.replicas:
            before = dict(replica.files.texts)
            done = replica.sync()
            assert done is not None
            assert (done.sent, done.received) == (0, 0), "a quiet world still talks"
            assert replica.files.texts == before
            strangers = {why.partition(":")[0] for why in done.refused}
            assert all(name.startswith("t") for name in strangers), f"{strangers} are refused"
            texts = [*replica.files.texts.values(), *replica.files.kept]
            assert not self.stolen & {each for text in texts for each in TEXT.findall(text)}, "a thief wrote"
        self._check_purged()
        self._check_claims()
        self._check_texts()
        self._check_conflicts()
        self._check_sets()

    def _check_equal(self) -> None:
        first = self.replicas[0]
        for replica in self.replicas[1:]:
            assert replica.files.texts == first.files.texts, f"{replica.name} differs from {first.name}"

    def _check_purged(self) -> None:
        """What was purged is in no file, archive or log, here or where the machines meet."""
        if not self.purged:
            return
        # Each machine rewrites its own there; of one that lost its log, or is another's copy, nobody does.
        own = {line.fact.replica for at in self.replicas for line in at.log.lines if line.own}
        logs = self.folder.logs.items()
        places = {"the shared folder": [str(fact) for name, log in logs if name in own for fact in log]}
        for replica in self.replicas:
            files, log = replica.files, replica.log
            kept = [] if replica.lost else [*files.kept, *files.forgotten.values()]
            logged = [*(line.fact for line in log.lines), *log.put_aside]
            places[replica.name] = [*files.texts.values(), *kept, *map(str, logged)]
        for where, bodies in places.items():
            left = {text for body in bodies for text in texts_in(body)} & self.purged
            assert not left, f"{left} was purged and is in {where}"

    def _check_texts(self) -> None:
        shown = Counter(TEXT.findall("\n".join(self.replicas[0].files.texts.values())))
        removals: dict[str, list[tuple[str, set[str]]]] = {}
        for removed, seen in self.removals:
            removals.setdefault(self.root(removed), []).append((removed, seen))
        kept = {
            text for replica in self.replicas for body in replica.files.kept for text in TEXT.findall(body)
        }
        held = {
            text
            for each in self.replicas
            for body in each.files.aside.values()
            for text in TEXT.findall(body)
        }
        for text in self.made:
            if self.doc_of.get(text) in self.purged_docs:
                there = text in self.gone or text in shown or text in kept or text in held
                assert there or self.any_lost or self.cloned, f"{text} is lost"
                continue
            if self.root(text) in self.unclear:
                assert text in self.gone or text in shown or text in kept or text in held, f"{text} is lost"
                continue
            unseen = [removed for removed, seen in removals.get(self.root(text), ()) if text not in seen]
            if text in self.gone:
                assert text not in shown, f"{text} came back"
            elif set(unseen) & set(self.lineage(text)):
                assert text not in shown, f"an edit undid the removal: {text}"
                assert text in kept, f"{text} is neither shown nor archived"
            elif unseen:
                assert (text in shown) != (text in kept), f"{text} is nowhere or everywhere"
            else:
                assert shown[text] == 1, f"{text} stands {shown[text]} times"

    def _check_claims(self) -> None:
        """No machine gives out a text of another one as its own."""
        if self.cloned:
            return  # a copy speaks under the name of what it is a copy of until it notices
        for log in self.folder.logs.values():
            for fact in log:
                for text in texts_in(fact.value) if fact.kind == "put" and not fact.based_on else ():
                    if text in self.stolen:
                        continue  # no machine's own, and no machine shows it
                    assert self.root(text) in self.unclear or self.author[text] == self.owner_of(
                        fact.replica
                    ), f"{text} of another machine was made a new one"

    def owner_of(self, replica: str) -> str:
        """The machine that has, or had, this name among replicas."""
        return replica[0]

    def _check_conflicts(self) -> None:
        if self.any_lost:
            return
        children: dict[str, int] = {}
        for parent in (*self.made.values(), *self.strips):
            if parent:
                children[parent] = children.get(parent, 0) + 1
        most = sum(count - 1 for count in children.values())
        found = sum(body.count("~") for body in self.replicas[0].files.texts.values())
        assert found <= most + len(self.unclear) + self.copied_conflicts, (
            "a conflict without concurrent changes"
        )

    def _check_sets(self) -> None:
        texts = self.replicas[0].files.texts.values()
        there = {tag for text in texts for tag in self.tags_of(text)}
        if not self.any_lost and not self.loose_sets:
            assert not there & self.untagged, "a tag that somebody took out is back"
        bodies = "\n".join(texts)
        for tag in self.tags - self.untagged:
            if not (self.removals or self.unclear or self.purged_docs or self.same_names):
                assert tag in there, f"the tag {tag} is lost"
        marked = {
            text
            for body in texts
            for block in blocks.cut(body, "records/x.md").blocks
            if "superseded" in blocks.parts(block.raw)
            for text in TEXT.findall(block.raw)
        }
        if self.any_lost or self.loose_sets:
            return
        for text in self.marks - self.lifted:
            if text in TEXT.findall(bodies) and self.root(text) not in self.unclear:
                assert text in marked, f"the mark of {text} is lost"


WEIGHTS: dict[str, int] = {
    "begin": 10,
    "append": 14,
    "type_block": 5,
    "edit": 14,
    "remove": 8,
    "forget": 3,
    "restore": 2,
    "move": 3,
    "copy_block": 3,
    "strip": 2,
    "reformat": 4,
    "rename": 3,
    "copy_file": 2,
    "tag": 5,
    "untag": 3,
    "supersede": 4,
    "sync": 28,
    "cut_sync": 8,
    "part": 4,
    "settle_conflict": 8,
    "clone": 1,
    "lose_log": 1,
}


PURGING = {"purge_text": 12, "purge_record": 5}  # in lives of their own: a purge leaves other ends open

CHANGED_KEY = {"rotate": 6, "take_key": 25, "steal": 4}
CHANGED_KEY_AWAY = {**CHANGED_KEY, "part": 12, "cut_sync": 20}  # with changes that were not sent before

SAME_NAMES = {"begin_same": 25, "begin": 2, "cut_sync": 20, "lose_log": 4}


def run(seed: int, *, steps: int | None = None, more: Mapping[str, int] | None = None) -> World:
    """One life of a few machines, in which `more` happens, or something more often."""
    rnd = random.Random(seed)
    world = World(rnd, weights={**WEIGHTS, **(more or {})})
    for _ in range(steps or rnd.randint(5, 45)):
        world.step()
    world.check()
    return world


def failures(
    seeds: Iterable[int], *, more: Mapping[str, int] | None = None
) -> Iterator[tuple[int, BaseException]]:
    """The seeds with which the machines do what they must not, and what that was."""
    for seed in seeds:
        try:
            run(seed, more=more)
        except (AssertionError, KeyError, ValueError, VadeError) as wrong:
            yield seed, wrong
