"""A simulated month of a team: three members on five machines edit many documents, part, die, are copied.

The oracle of `world.py` keeps the book; this chooses what happens and how much of it, and says whose each
text is. The hub is a book of facts that writes down who sent each; machines sign files by its word alone.
"""

from __future__ import annotations

import random
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sync.world import (
    STREAM,
    TEXT,
    TIMES,
    WEIGHTS,
    Away,
    Fuse,
    Killed,
    MemoryFiles,
    MemoryFolder,
    MemoryLog,
    Replica,
    World,
    _Reach,
    texts_in,
)
from vademecum.sync import blocks
from vademecum.sync.stream_sync import Forked, Synced, SyncStream
from vademecum.sync.team_signing import FactStamp, TeamSigning
from vademecum.text import document, frontmatter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vademecum.sync.facts import FactId, SyncFact
    from vademecum.sync.stream_window import Logged, OwnFacts, Remembered

DAYS = 30
MEMBERS = {"a": "anna", "b": "anna", "c": "bert", "d": "bert", "e": "carla"}  # whose each machine is
EDITS = {
    name: weight
    for name, weight in WEIGHTS.items()
    if name not in ("sync", "cut_sync", "part", "clone", "lose_log", "forget", "restore", "settle_conflict")
}
NAMES, KINDS = list(EDITS), list(EDITS.values())
# A sync is done a second time by one that remembers nothing: of each machine every so many, or fewer where
# there are many documents, since that one looks at all of them.
TWINS = 25
_SIGNED = re.compile(
    r"^<!-- origin: [a-z:]+((?: \| (?!by:)[^|\n]*)*?)(?: \| by: [a-z]+)?( \| id: )", re.MULTILINE
)


@dataclass
class Month:
    """What happened in it."""

    documents: int
    edits: int = 0
    syncs: int = 0
    kills: int = 0
    lost_answers: int = 0
    clones: int = 0
    parted: int = 0
    rolled_back: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)


class Hub(MemoryFolder):
    """Where the machines of a team meet; it knows who sent each fact."""

    def __init__(self) -> None:
        super().__init__()
        self.stamps: dict[FactId, FactStamp] = {}
        self.lost = 0

    def reached_by(self, name: str, fuse: Fuse) -> _Reach:
        return _HubReach(self, name, fuse)


class _HubReach(_Reach):
    """The hub, as one machine sees it: only what is new is looked at."""

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterable[SyncFact]:
        if self.name in self.folder.cut_off:
            raise Away
        return [fact for name, log in self.folder.logs.items() for fact in log[known.get(name, 0) :]]

    def push(self, stream: str, made: OwnFacts) -> None:
        self.fuse.burn()
        hub = self.folder
        assert isinstance(hub, Hub)
        counts = {replica: len(log) for replica, log in hub.logs.items()}
        for replica, places in made.places.items():  # each hash holds all before it
            both = min(counts.get(replica, 0), len(places))
            if both and made._logged[places[both - 1]].fact.hash != hub.logs[replica][both - 1].hash:
                raise Forked("the home was copied")
        for fact in made.since(counts):
            log = hub.logs.setdefault(fact.replica, [])
            assert fact.n == len(log) + 1
            log.append(fact)
            hub.stamps[fact.id] = FactStamp(MEMBERS[self.name], "editor", "", "")
        try:
            self.fuse.burn()
        except Killed:
            hub.lost += 1
            raise


class TeamLog(MemoryLog):
    """A log that is long: what was remembered is known by the line at which it ends."""

    def __init__(self, replica: str, fuse: Fuse) -> None:
        super().__init__(replica, fuse)
        self.names = {replica}
        self.known: tuple[Remembered, int, Logged] | None = None

    def renew(self) -> None:
        super().renew()
        self.names.add(self.replica)

    def remembered(self) -> Remembered | None:
        if self.known is None:
            return None
        kept, count, last = self.known
        return kept if len(self.lines) >= count and self.lines[count - 1] is last else None

    def remember(self, kept: Remembered) -> None:
        self.fuse.burn()
        self.known = (kept, len(self.lines), self.lines[-1]) if self.lines else None
        self.fuse.burn()


class Machine(Replica):
    """A machine of a member, whose files say whose each text is."""

    twins = TWINS

    def __post_init__(self) -> None:
        super().__post_init__()
        self.paths: list[str] | None = None  # of its files, as far as they are known
        self.retagged: set[str] = set()  # since its last whole sync
        self.remarked: set[str] = set()
        self.saved: tuple[Any, ...] | None = None

    def new_log(self) -> None:
        self.generation += 1
        self.log = TeamLog(f"{self.name}{self.generation:07d}", self.fuse)

    def stream(self, log: MemoryLog, files: MemoryFiles, reach: _Reach) -> SyncStream:
        mine, hub = self.log, self.folder
        assert isinstance(mine, TeamLog)
        assert isinstance(hub, Hub)
        stamps, names = hub.stamps, mine.names
        signing = TeamSigning(MEMBERS[self.name], (), lambda: stamps, lambda fact: fact.replica in names)
        return SyncStream(STREAM, log, files, reach, signing=signing, rules=signing.rules)

    def sync(self, *, kill: int | None = None) -> Synced | None:
        self.paths = None
        done = super().sync(kill=kill)
        if done is not None:
            self.retagged.clear()
            self.remarked.clear()
        return done


class LargeWorld(World):
    """Many documents: each edit looks at one of them, and not at all."""

    def __post_init__(self) -> None:
        self.folder = self.hub = Hub()
        self.replicas = [Machine(letter, self.folder, forked=self.begin_anew) for letter in MEMBERS]
        self.number = 0
        self.written = ""  # the file that was saved last
        self.tagged: dict[str, str] = {}  # the document of each tag
        self.loose_tags: set[str] = set()  # set or taken out on an uncertain base
        self.adopted: dict[str, set[str]] = {}  # who decided that a second version stands for itself
        self.copies: set[str] = set()  # texts that a person wrote into a copied file or block

    # ------------------------------------------------------------ what is looked at

    def _path(self, at: Replica) -> str:
        assert isinstance(at, Machine)
        paths = at.paths = sorted(at.files.texts) if at.paths is None else at.paths
        while paths:
            place = self.rnd.randrange(len(paths))
            if paths[place] in at.files.texts:
                return paths[place]
            paths[place] = paths[-1]
            paths.pop()
        return ""

    def _block(
        self, at: Replica, wanted: Callable[[str], bool] | None = None
    ) -> tuple[str, blocks.CutText | None, int]:
        return super()._block(at, None)

    def _save(self, at: Replica, path: str, page: blocks.CutText, listed: Sequence[blocks.TextBlock]) -> None:
        self.written = path
        super()._save(at, path, page, listed)

    def visible(self, at: Replica) -> set[str]:
        return set(TEXT.findall(at.files.texts[self.written]))  # an entry never leaves its file

    # ------------------------------------------------------------ what happens

    def begin(self, at: Replica) -> None:
        """A team has no journal."""
        self._begin_record(at, f"k{self.number}{at.name}")

    def _begin_record(self, at: Replica, key: str) -> None:
        front = {"type": "project", "id": self.uuid(), "key": key, "updated": TIMES[0]}
        text = document.append(frontmatter.edit(f"# {key}\n\n", front), self._entry(at))
        at.files.texts[f"records/{key}.md"] = text
        self._belongs(text)

    def copy_file(self, at: Replica) -> None:
        before = self.number
        super().copy_file(at)
        self.copies |= {f"x{number}" for number in range(before + 1, self.number + 1)}

    def copy_block(self, at: Replica) -> None:
        before = self.number
        super().copy_block(at)
        self.copies |= {f"x{number}" for number in range(before + 1, self.number + 1)}

    def strip(self, at: Replica) -> None:
        """In a team the comment is no part of a text; without it a second version is one no longer."""
        path, page, place = self._block(at)
        if page is None:
            return
        block = page.blocks[place]
        [text] = TEXT.findall(block.raw)
        if "~" in block.id:
            self.adopted.setdefault(text, set()).add(MEMBERS[at.name])
            self.unclear.add(self.root(text))
        if "superseded" in blocks.parts(block.raw):
            self.lifted |= self.versions(page, block)
        at.stripped.add(text)
        self.strips.append(text)
        raw = re.sub(r"\n<!-- [^\n]* -->\Z", "", block.raw)
        self._save(at, path, page, self._with(page, place, block._replace(raw=raw)))

    def _retag(self, at: Replica, path: str, change: Callable[[list[str]], list[str]]) -> None:
        before = set(self.tags_of(at.files.texts[path]))
        super()._retag(at, path, change)
        values = frontmatter.parse(at.files.texts[path]).values
        for tag in before ^ set(values.get("tags") or ()):
            self.tagged.setdefault(tag, str(values["id"]))
            at.retagged.add(tag)  # type: ignore[attr-defined]
            if at.blind or path in at.fresh:
                self.loose_tags.add(tag)

    def supersede(self, at: Replica) -> None:
        before = self.marks | self.lifted
        super().supersede(at)
        at.remarked |= (self.marks | self.lifted) - before  # type: ignore[attr-defined]

    def doubt_log(self, at: Replica, *, aside: bool = False) -> None:
        assert isinstance(at, Machine)
        self.loose_tags |= at.retagged
        self.unclear |= {self.root(text) for text in at.remarked}
        super().doubt_log(at, aside=aside)

    def clone(self, at: Replica) -> bool:  # type: ignore[override]
        """A member's other machine becomes a copy of this one; both had sent all they knew."""
        others = [each for each in self.replicas if MEMBERS[each.name] == MEMBERS[at.name] and each is not at]
        if not others or at.sync() is None or others[0].sync() is None:
            return False
        self._put(others[0], self._take(at))
        others[0].files.kept += at.files.kept
        return True

    def save(self, at: Replica) -> None:
        """A backup of a home that has nothing to send."""
        assert isinstance(at, Machine)
        if at.sync() is not None:
            at.saved = self._take(at)

    def roll_back(self, at: Replica) -> bool:
        """A home is as it was when it was saved; what it did since was sent."""
        assert isinstance(at, Machine)
        if at.saved is None or at.sync() is None:
            return False
        self._put(at, at.saved)
        return True

    def _take(self, at: Replica) -> tuple[Any, ...]:
        log = at.log
        assert isinstance(log, TeamLog)
        return dict(at.files.texts), list(log.lines), log.count, log.replica, set(log.names), log.known

    def _put(self, at: Replica, state: tuple[Any, ...]) -> None:
        log = at.log
        assert isinstance(at, Machine)
        assert isinstance(log, TeamLog)
        texts, lines, log.count, log.replica, names, log.known = state
        at.files.texts, log.lines, log.paths, log.names = dict(texts), list(lines), set(), set(names)
        at.forgotten.clear()
        at.paths = None
        self.cloned = True

    # ------------------------------------------------------------ what must hold

    def _check_equal(self) -> None:
        """Files differ in nothing but in who is oneself, and each says the true author of each text."""
        own: dict[str, dict[str, str]] = {}
        for at in self.replicas:
            me = MEMBERS[at.name]
            same = own.setdefault(me, at.files.texts)
            assert at.files.texts == same, f"{at.name} differs from another machine of {me}"
        plain = {me: {path: _unsigned(text) for path, text in texts.items()} for me, texts in own.items()}
        first = next(iter(plain))
        for me, texts in plain.items():
            assert texts == plain[first], f"the files of {me} differ from those of {first}"
            self._check_signed(me, own[me])

    def _check_signed(self, me: str, texts: Mapping[str, str]) -> None:
        """One's own is `user`, or `external` where it was typed over another's name; all else a member's."""
        for path, body in texts.items():
            for block in blocks.cut(body, path).blocks:
                parts = blocks.parts(block.raw)
                [text] = TEXT.findall(block.raw)
                author = MEMBERS[self.author[text]]
                allowed: set[tuple[str | None, str | None]]
                allowed = {("user", me)} if author == me else {(f"member:{author}", author)}
                if author == me and self._bore_other_name(text):
                    allowed.add(("external", None))
                for other in self.adopted.get(text, ()):
                    allowed.add(("external", None) if other == me else (f"member:{other}", other))
                signed = (parts.get("origin"), parts.get("by"))
                assert signed in allowed, f"{text} of {author} is signed {parts} at {me}"

    def _bore_other_name(self, text: str) -> bool:
        """Whether somebody wrote a text over one of another, whose name may have stayed below it."""
        line = list(self.lineage(text))
        return len({MEMBERS[self.author[each]] for each in line}) > 1 or not self.copies.isdisjoint(line)

    def _check_claims(self) -> None:
        """Nobody sends a text of another member."""
        for log in self.folder.logs.values():
            for fact in log:
                for text in texts_in(fact.value["raw"]) if fact.kind == "put" else ():
                    sender = self.hub.stamps[fact.id].author
                    wrote = {MEMBERS[self.author[text]], *self.adopted.get(text, ())}
                    assert sender in wrote, f"{sender} sent {text}"

    def _check_conflicts(self) -> None:
        """Of each family by itself: no more versions than were made of one text."""
        most: dict[str, int] = {}
        children: dict[str, int] = {}
        for parent in (*self.made.values(), *self.strips):
            if parent:
                children[parent] = children.get(parent, 0) + 1
        for parent, count in children.items():
            most[self.root(parent)] = most.get(self.root(parent), 0) + count - 1
        found: dict[str, int] = {}
        for path, body in self.replicas[0].files.texts.items():
            for block in blocks.cut(body, path).blocks if "~" in body else ():
                for text in TEXT.findall(block.raw) if "~" in block.id else ():
                    found[self.root(text)] = found.get(self.root(text), 0) + 1
        self.conflicts = sum(found.values())
        for root, count in found.items():
            if root not in self.unclear and root not in self.copies:
                assert count <= most.get(root, 0), f"a conflict without concurrent changes: {root}"

    def _check_sets(self) -> None:
        """Of each document by itself: the tags that somebody set, without those that somebody took out."""
        there: dict[str, set[str]] = {}
        for body in self.replicas[0].files.texts.values():
            values = frontmatter.parse(body).values
            there.setdefault(str(values.get("id")), set()).update(values.get("tags") or ())
        shown = set().union(*there.values())
        for tag in self.tags - self.loose_tags:
            if tag in self.untagged:
                assert tag not in shown, f"the tag {tag} is back"
            elif self.tagged[tag] in there:
                assert tag in there[self.tagged[tag]], f"the tag {tag} is lost"
        marked = {
            text
            for path, body in self.replicas[0].files.texts.items()
            for block in blocks.cut(body, path).blocks
            if "superseded" in blocks.parts(block.raw)
            for text in TEXT.findall(block.raw)
        }
        every = set(TEXT.findall("\n".join(self.replicas[0].files.texts.values())))
        for text in (self.marks - self.lifted) & every:
            assert text in marked or self.root(text) in self.unclear, f"the mark of {text} is lost"

    def fill(self, at: Replica, count: int) -> None:
        """So many records, before anybody else joins."""
        for number in range(count):
            self._begin_record(at, f"f{number}")


def _unsigned(text: str) -> str:
    """A file without what its last lines say of origin and author."""
    return _SIGNED.sub(r"<!-- \1\2", text)


def live(documents: int, edits: int, seed: int = 0, *, tell: bool = False) -> Month:
    """One month; what must hold is asserted at its end."""
    rnd, month, begun = random.Random(seed), Month(documents), time.perf_counter()
    world = LargeWorld(rnd, len(MEMBERS))
    world.fill(world.replicas[0], documents)
    for at in world.replicas:
        at.twins = max(TWINS, documents // 100)
        at.sync()
        month.syncs += 1
    for day in range(DAYS):
        if tell:
            print(f"day {day}: {month.edits} edits, {time.perf_counter() - begun:.0f} s", flush=True)
        _live_day(world, month, edits // DAYS + (day < edits % DAYS))
    if tell:
        print(f"the end: {month.edits} edits, {time.perf_counter() - begun:.0f} s", flush=True)
    world.check()
    month.seconds = time.perf_counter() - begun
    month.lost_answers = world.hub.lost
    texts_shown = sum(len(TEXT.findall(text)) for text in world.replicas[0].files.texts.values())
    roots = {world.root(text) for text in world.made}
    month.counts = {
        "facts": sum(len(log) for log in world.hub.logs.values()),
        "texts": len(world.made),
        "shown": texts_shown,
        "removed": len(world.removals),
        "conflicts": world.conflicts,
        "entries": len(roots),
        "unclear": len(roots & world.unclear),
    }
    return month


def _live_day(world: LargeWorld, month: Month, edits: int) -> None:
    """Members work in turn on their machines; each syncs a few times, and sometimes dies of it."""
    rnd = world.rnd
    for _ in range(edits):
        at = rnd.choice(world.replicas)
        getattr(world, rnd.choices(NAMES, KINDS)[0])(at)
        month.edits += 1
        if rnd.random() < 1 / 150:
            month.syncs += 1
            at.sync()
    for at in world.replicas:
        month.syncs += 1
        event = rnd.random()
        if event < 0.2:
            month.kills += 1
            at.sync(kill=rnd.randrange(rnd.choice((14, 14, 600))))
            if rnd.random() < 0.3:
                continue  # work goes on, and nobody knows what its files showed
        elif event < 0.3:
            month.parted += 1
            world.part(at)
        elif event < 0.31:
            month.clones += world.clone(at)
        elif event < 0.33:
            month.rolled_back += world.roll_back(at)
        elif event < 0.4:
            world.save(at)
        at.sync()
