"""Whatever is done to records, in any order, their history has it once and in order, and no text is lost.

A sequence is drawn from a seed. Each step tells which events it makes, and which text it gives to a record.
"""

from __future__ import annotations

import itertools
import random
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from person import SyncedPerson
from tiers import few
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.memory import Memory

ME = "human:user"
AGENT = "process:main"
STEPS = 14


@dataclass
class Known:
    """What a record must tell: its events, and every text that was saved in it."""

    key: str
    scope: str = "global"
    events: list[tuple[str, str]] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)  # words that a change by hand took out of the file
    fixed: str = ""  # a word that is also in its first key, so no step changes it
    unseen: bool = False  # whether a change by hand is the file's last change: no program has seen it
    gone: bool = False
    synced: bool = (
        False  # then a record under its name is the same document, until a sync told that it is gone
    )


class Play:
    """Two machines of a person, and a sequence of steps on the first one."""

    def __init__(self, base: Path, seed: int) -> None:
        self.draw, self.count = random.Random(seed), itertools.count(1)
        (carrier := base / "carrier").mkdir()
        minutes = itertools.count(1)
        self.me = SyncedPerson(base / "me", minutes, carrier)
        self.other = SyncedPerson(base / "other", minutes, carrier, self.me.joined.key)
        self.known: dict[str, Known] = {}
        self.arrived: set[str] = set()  # words that a sync brought
        self.unkept: set[str] = (
            set()
        )  # such words that a change by hand took out of a file since the last sync
        self.purged: set[str] = set()
        self.steps: list[str] = []

    @property
    def memory(self) -> Memory:
        return self.me.memory

    def run(self) -> None:
        self.add()
        steps = [
            *(
                self.add,
                self.append,
                self.replace,
                self.edit,
                self.by_hand,
                self.rename,
                self.move,
                self.forget,
            ),
            *(self.restore, self.merge_and_split, self.sync, self.arrive, self.undo, self.purge, self.agent),
        ]
        for _ in range(STEPS):
            self.draw.choice(steps)()
        if self.unkept:
            self.sync()
        self.check()

    # ------------------------------------------------------------ steps

    def word(self) -> str:
        return f"quokka{next(self.count):04}zebra"

    def some(self, *, gone: bool = False, scope: str = "") -> tuple[str, Known] | None:
        found = [
            (id, each) for id, each in self.known.items() if each.gone is gone and scope in ("", each.scope)
        ]
        return self.draw.choice(found) if found else None

    def did(self, step: str, known: Known, *events: tuple[str, str], words: tuple[str, ...] = ()) -> None:
        self.steps.append(f"{step} {known.key}")
        known.events += events
        known.words |= {*words}
        known.unseen = False

    def add(self) -> None:
        freed = [each.key for each in self.known.values() if each.gone and not each.synced]
        taken = {each.key for each in self.known.values() if not each.gone}
        names = [key for key in freed if key not in taken and not self._answers(key)]
        key = self.draw.choice(names) if names and self.draw.random() < 0.5 else f"topic-{next(self.count)}"
        word = self.word()
        id = self.memory.store(f"The subject is {word}.", key=key, scope="global").id
        assert id is not None
        assert id not in self.known
        self.known[id] = Known(key)
        self.did("add", self.known[id], ("created", ME), words=(word,))

    def _answers(self, key: str) -> bool:
        return any(key in record.fields.get("aliases", ()) for record in self.memory.list(limit=100).records)

    def append(self) -> None:
        self._store("append", "appended", self.me.memory)

    def replace(self) -> None:
        self._store("replace", "replaced", self.me.memory, mode="replace")

    def agent(self) -> None:
        self._store("agent", "appended", self.me.opened(Origin.AGENT), by=AGENT)

    def _store(self, step: str, what: str, memory: Memory, *, by: str = ME, **given: Any) -> None:
        if (chosen := self.some()) is not None:
            word = self.word()
            memory.store(f"Then came {word}.", key=chosen[1].key, scope=chosen[1].scope, **given)
            self.did(step, chosen[1], (what, by), words=(word,))

    def _reword(self, known: Known) -> tuple[str, str]:
        """Return a word of the record's text as it stands, and a new one; nothing if it has none left."""
        text = self.memory.care.editable(known.key, scope=known.scope)[1]
        here = sorted(word for word in known.words if word in text)
        return (self.draw.choice(here), self.word()) if here else ("", "")

    def edit(self) -> None:
        if (chosen := self.some()) is not None:
            old, new = self._reword(chosen[1])
            if old:
                _, text = self.memory.care.editable(chosen[1].key, scope=chosen[1].scope)
                self.memory.care.edited(chosen[1].key, text, text.replace(old, new), scope=chosen[1].scope)
                self.did("edit", chosen[1], ("edit", ME), words=(new,))

    def by_hand(self) -> None:
        if (chosen := self.some()) is not None:
            old, new = self._reword(chosen[1])
            if old:
                self._change_by_hand(chosen[1], old, new)

    def _change_by_hand(self, known: Known, old: str, new: str) -> None:
        self.me.change_by_hand(known.key, old, new, scope=known.scope)
        again = known.unseen  # nobody looked in between: one change
        self._forget_change_by_hand(known)
        self.did("by hand", known, ("by hand", ""), words=(new,))
        known.unseen = True
        known.hidden.add(old)
        if old in self.arrived:
            self.unkept.add(old)
        elif again:
            known.words.discard(old)

    def _forget_change_by_hand(self, known: Known) -> None:
        """Take out the event of a change by hand that another change of the file follows unseen."""
        if known.unseen:
            last = max(at for at, each in enumerate(known.events) if each == ("by hand", ""))
            del known.events[last]

    def rename(self) -> None:
        if (chosen := self.some()) is not None:
            key = f"name-{next(self.count)}"
            self.memory.care.rename(chosen[1].key, key, scope=chosen[1].scope)
            self.did("rename", chosen[1], ("rename", ME))
            chosen[1].key = key

    def move(self) -> None:
        if (chosen := self.some()) is not None:
            to = "project" if chosen[1].scope == "global" else "global"
            self.memory.care.move([chosen[1].key], to=to, scope=chosen[1].scope)
            self.did("move", chosen[1], ("move", ME))
            chosen[1].scope = to

    def undo(self) -> None:
        if (chosen := self.some()) is None:
            return
        self.memory.care.tag([chosen[1].key], add=[f"tag-{next(self.count)}"], scope=chosen[1].scope)
        key = f"name-{next(self.count)}"
        self.memory.care.rename(chosen[1].key, key, scope=chosen[1].scope)
        for _ in range(2):
            self.memory.care.undo()
        self.did("tag, rename and undo", chosen[1], ("tag", ME), ("rename", ME), ("undo", ME), ("undo", ME))

    def forget(self) -> None:
        if (chosen := self.some()) is not None:
            self.memory.forget(chosen[1].key, scope=chosen[1].scope)
            self.did("forget", chosen[1], ("forget", ME))
            chosen[1].gone = True

    def restore(self) -> None:
        if (chosen := self.some(gone=True)) is not None:
            taken = {each.key for each in self.known.values() if not each.gone}
            if chosen[1].key not in taken and not self._answers(chosen[1].key):
                self.memory.restore(chosen[0])
                self.did("restore", chosen[1], ("restore", ME))
                chosen[1].gone = False

    def merge_and_split(self) -> None:
        word = self.word()
        one, two = f"The backup of {word} runs every night.", f"The backups of {word} run every night."
        stored = self.memory.store(one, scope="global")
        assert stored.id is not None
        known = self.known[stored.id] = Known(stored.key)
        self.did("merge", known, ("created", ME), ("consolidated", ME), ("split", ME))
        known.fixed = word
        self.memory.store(two, scope="global")
        self.memory.care.split(stored.key, scope="global")
        record = next(each for each in self.memory.list(limit=100).records if each.live and each.text == two)
        assert record.id is not None
        self.known[record.id] = Known(record.key, events=[("split", ME)], fixed=word)

    def sync(self) -> None:
        self.steps.append("sync")
        self.unkept.clear()
        for each in self.known.values():
            each.synced = each.synced or (each.scope == "global" and not each.gone)
        self.me.sync()
        self.other.sync()
        self.me.sync()

    def arrive(self) -> None:
        """The other machine edits a record, the edit arrives with its writer, and may be reworded by hand."""
        self.sync()
        if (chosen := self.some(scope="global")) is not None:
            old, new = self._reword(chosen[1])
            if old:
                self.other.edit(chosen[1].key, old, new, scope="global")
                self.other.sync()
                self.me.sync()
                self.did("arrive", chosen[1], ("arrived", ME), words=(new,))
                self.arrived.add(new)
                if self.draw.random() < 0.5:
                    self._change_by_hand(chosen[1], new, self.word())

    def purge(self) -> None:
        chosen = self.some()
        words = set() if chosen is None else chosen[1].words - chosen[1].hidden
        if chosen is not None and words:
            word = self.draw.choice(sorted(words))
            live = word in self.memory.care.editable(chosen[1].key, scope=chosen[1].scope)[1]
            self.memory.archive.purge_text(word)
            self.purged.add(word)
            self.me.memory = self.me.opened(Origin.USER)
            for each in self.known.values():
                if word in each.words:
                    # The sync's facts lose with a text also the edits of it.
                    each.words -= {word, *self.unkept}
                    unseen = each.unseen and not live
                    if live:
                        self._forget_change_by_hand(each)
                    self.did("purge", each, ("purge", ME))
                    each.unseen = unseen  # a purge that leaves the file as it is does not look at it

    # ------------------------------------------------------------ what must hold

    def check(self) -> None:
        for id, known in self.known.items():
            events = self.memory.archive.events(id)
            told = [(each.what, each.by) for each in events]
            assert told == known.events, (known.key, self.steps)
            times = [each.at for each in events]
            assert times == sorted(times), self.steps
            texts = [text for each in events for text in (each.before, each.after) if text]
            for word in self.purged:
                assert not any(word in text for text in texts), (word, self.steps)
            versions = self.memory.archive.history(id)
            reachable = "\n".join(each.text for each in versions)
            lost = {word for word in (*known.words, known.fixed) if word not in reachable}
            missed = " ".join(each.text for each in self._lost(known))
            assert all(word in missed for word in lost), (lost, self.steps)
        self._check_restoring()

    def _lost(self, known: Known) -> Iterator[Any]:
        """Yield the entries that `vade restore KEY` brings back into the record."""
        if not known.gone:
            yield from self.memory.archive.lost_entries(known.key, scope=known.scope)

    def _check_restoring(self) -> None:
        """Every version comes back into the record, under whichever name it was archived."""
        for id, known in self.known.items():
            if known.gone:
                continue
            for version in self.memory.archive.history(id)[:-1]:
                restored = self.memory.restore(version.id)
                assert (restored.id, restored.key) == (id, known.key), self.steps
                words = [word for word in known.words if word in version.text]
                text = self.memory.care.editable(id)[1]
                assert all(word in text for word in words), self.steps


@pytest.mark.scaled
def test_a_history_has_each_event_once_and_no_text_is_lost(tmp_path: Path) -> None:
    play_all(tmp_path, few(20, 200))


@pytest.mark.soak
def test_of_a_thousand_sequences_none_loses_a_text(tmp_path: Path) -> None:
    play_all(tmp_path, 1000)


def play_all(base: Path, count: int) -> None:
    for seed in range(count):
        (folder := base / str(seed)).mkdir()
        Play(folder, seed).run()
        shutil.rmtree(folder)
