"""Five machines that edit, forget, restore, crash and part, held against an oracle outside of them.

Every bug that is planted here must be found by the same runs: an oracle that misses one proves nothing.
"""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import tiers
from sync import world
from sync.world import MemoryLog, World, failures
from vademecum.sync import blocks, diff, projection, purge_facts, stream_sync, stream_window
from vademecum.sync.facts import FactId, SyncFact
from vademecum.sync.projection import FactSet
from vademecum.sync.stream_sync import SyncStream
from vademecum.sync.stream_window import Logged, Remembered, StreamWindow, Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RUNS, PARTS, PURGES, SAME, ROTATIONS = 3_000, 6, 1_000, 300, 300
LIVES = tiers.few(80, RUNS // PARTS)  # of each part


@pytest.mark.full(but=1)
@pytest.mark.scaled
@pytest.mark.parametrize("part", range(PARTS))
def test_machines_agree_and_nothing_is_lost_doubled_or_brought_back(part: int) -> None:
    assert list(failures(range(part * RUNS // PARTS, part * RUNS // PARTS + LIVES))) == []


@pytest.mark.full(but=1)
@pytest.mark.scaled
@pytest.mark.parametrize("part", range(2))
def test_what_is_purged_on_one_machine_is_nowhere_and_nothing_else_is_lost(part: int) -> None:
    first, lives = part * PURGES // 2, tiers.few(50, PURGES // 2)
    assert list(failures(range(first, first + lives), more=world.PURGING)) == []


@pytest.mark.scaled
def test_a_changed_key_loses_nothing_and_a_thief_of_the_old_one_writes_nowhere() -> None:
    assert list(failures(range(tiers.few(40, ROTATIONS)), more=world.CHANGED_KEY_AWAY)) == []


@pytest.mark.full
def test_what_is_purged_is_nowhere_though_the_key_was_changed_since() -> None:
    assert list(failures(range(ROTATIONS), more={**world.CHANGED_KEY, **world.PURGING})) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_a_changed_key_loses_nothing_in_twenty_thousand_lives(part: int) -> None:
    seeds = range(10_000 + part * 1_000, 10_000 + (part + 1) * 1_000)
    assert list(failures(seeds, more=world.CHANGED_KEY_AWAY)) == []


@pytest.mark.full
def test_entries_of_two_documents_in_one_file_stay_where_they_belong() -> None:
    assert list(failures(range(SAME), more=world.SAME_NAMES)) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_entries_of_two_documents_in_one_file_stay_there_in_twenty_thousand_lives(part: int) -> None:
    seeds = range(10_000 + part * 1_000, 10_000 + (part + 1) * 1_000)
    assert list(failures(seeds, more=world.SAME_NAMES)) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_what_is_purged_is_nowhere_in_twenty_thousand_lives(part: int) -> None:
    assert list(failures(range(10_000 + part * 1_000, 10_000 + (part + 1) * 1_000), more=world.PURGING)) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(100))
def test_machines_agree_in_a_hundred_thousand_lives(part: int) -> None:
    assert list(failures(range(10_000 + part * 1_000, 10_000 + (part + 1) * 1_000))) == []


class Machines(RuleBasedStateMachine):
    """The same machines, with steps that Hypothesis chooses and makes as few as possible when one fails."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(random.Random(0))

    @rule(
        operation=st.sampled_from(sorted(world.WEIGHTS | world.PURGING)),
        at=st.integers(0, 4),
        seed=st.integers(0, 1_000),
    )
    def step(self, operation: str, at: int, seed: int) -> None:
        self.world.rnd.seed(seed * 31 + self.world.number)
        getattr(self.world, operation)(self.world.replicas[at])

    def teardown(self) -> None:
        self.world.check()


@pytest.mark.scaled
def test_machines_agree_whatever_steps_hypothesis_thinks_of() -> None:
    run_state_machine_as_test(
        Machines,
        settings=settings(
            max_examples=tiers.few(10, 150),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )


# ------------------------------------------------------------ planted bugs

Patch = pytest.MonkeyPatch


def last_writer_wins_on_an_entry(patch: Patch) -> None:
    real = projection.visible_heads
    patch.setattr(projection, "visible_heads", lambda state, facts: real(state, facts)[-1:])


def last_writer_wins_on_the_list_of_tags(patch: Patch) -> None:
    real = projection._merge_list

    def listed(sets: dict[str, list[SyncFact]], typed: Any) -> Any:
        newest = max((fact for facts in sets.values() for fact in facts), key=lambda fact: fact.order)
        own = {
            name: [each for each in facts if each.replica == newest.replica] for name, facts in sets.items()
        }
        return real({name: facts for name, facts in own.items() if facts}, typed)

    patch.setattr(projection, "_merge_list", listed)


def a_tombstone_is_lost_in_compaction(patch: Patch) -> None:
    real = FactSet.add

    def add(self: FactSet, fact: SyncFact) -> None:
        if fact.kind != "drop" or fact.n % 2:
            real(self, fact)

    patch.setattr(FactSet, "add", add)


def an_edit_brings_back_what_was_removed(patch: Patch) -> None:
    patch.setattr(projection, "is_removed_unseen", lambda put, drops: False)


def an_edit_is_a_new_entry(patch: Patch) -> None:
    real = diff.match

    def match(shown: Any, found: Any, is_old: Any = None) -> Any:
        matches, missing = real(shown, found, is_old)
        kept = []
        for each in matches:
            if each.base is not None and blocks.content(each.base.raw) != blocks.content(each.raw):
                missing.append(each.base)
                kept.append(
                    each._replace(base=None, block=each.block._replace(raw=blocks.sign(each.raw, id="")))
                )
            else:
                kept.append(each)
        return kept, missing

    patch.setattr(diff, "match", match)


def entries_of_one_second_are_one(patch: Patch) -> None:
    real = diff._write_new_block

    def new(ledger: Any, found: Any, doc: str, **given: Any) -> Any:
        mark = f"t{found.block.instant[:19]}".replace(":", "").replace("-", "").lower()
        block = found.block._replace(raw=blocks.sign(found.raw, id=mark))
        return real(ledger, found._replace(block=block), doc, **given)

    patch.setattr(diff, "_write_new_block", new)


def equal_places_are_in_no_order(patch: Patch) -> None:
    real = projection._merge_blocks

    def merged(shown: Any, signing: Any) -> Any:
        for each in real(shown, signing):
            yield each._replace(key=(each.key[0], each.key[1], "", 0))

    patch.setattr(projection, "_merge_blocks", merged)


def a_removal_kills_all_that_was_ever_replaced(patch: Patch) -> None:
    def drop(ledger: diff.FactWriter, stands: Any) -> None:
        for stand in stands:
            every = ledger.seen.with_replaced(stand.fact_ids)
            puts = tuple(fact_id for fact_id in every if ledger.seen.facts[fact_id].kind == "put")
            ledger.write(stand.doc, "drop", stand.target, based_on=every, removes=puts)

    patch.setattr(diff, "_drop", drop)


def an_edit_replaces_only_the_last_version(patch: Patch) -> None:
    patch.setattr(FactSet, "with_replaced", lambda self, fact_ids: tuple(sorted(set(fact_ids))))


def a_removal_takes_what_was_never_seen(patch: Patch) -> None:
    def drop(ledger: diff.FactWriter, stands: Any) -> None:
        for stand in stands:
            known = ledger.seen.of(stand.doc, "entry")[stand.target]
            heads = tuple(sorted(fact.id for fact in projection.visible_heads(ledger.seen, known)))
            if heads:
                ledger.write(
                    stand.doc, "drop", stand.target, based_on=ledger.seen.with_replaced(heads), removes=heads
                )

    real = SyncStream._make_writer

    def ledger(self: SyncStream, window: StreamWindow) -> Any:
        return dataclasses.replace(real(self, window), seen=window.every)

    patch.setattr(diff, "_drop", drop)
    patch.setattr(SyncStream, "_make_writer", ledger)
    _pull_first(patch, show=False)


def others_are_pulled_before_the_files_are_looked_at(patch: Patch) -> None:
    _pull_first(patch, show=True)


def _pull_first(patch: Patch, *, show: bool) -> None:
    real = SyncStream._read_changes

    def look(self: SyncStream, done: stream_sync.Synced, *, deletions: bool | None) -> StreamWindow:
        self._pull(Tail(self.log.read(), Remembered()), done)
        if show and isinstance(self.log, MemoryLog):
            self.log.count = len(self.log.lines)
        return real(self, done, deletions=deletions)

    patch.setattr(SyncStream, "_read_changes", look)


def what_was_not_answered_is_sent_again_under_another_name(patch: Patch) -> None:
    real = world._Reach.push

    def push(self: Any, stream: str, made: Any) -> None:
        before = {replica: len(log) for replica, log in self.folder.logs.items()}
        try:
            real(self, stream, made)
        except world.Killed:
            log = [fact for fact in made if fact.n > before.get(fact.replica, 0) and fact.kind == "put"]
            if log and self.folder.logs.get(log[-1].replica):
                again = f"{log[-1].replica[:1]}9{log[-1].hash[:8].replace('l', '0')}"
                ledger = diff.FactWriter(stream, again, FactSet(made), None, log[-1].lamport)
                ledger.write(log[-1].doc, "put", f"{log[-1].target}r", value=log[-1].value)
                self.folder.logs[again] = ledger.made
            raise

    patch.setattr(world._Reach, "push", push)


def files_hold_what_no_log_knows_yet(patch: Patch) -> None:
    real_append, real_finish, real_read = MemoryLog.append, MemoryLog.finish, MemoryLog.read
    waiting: dict[int, list[Any]] = {}

    def append(self: MemoryLog, made: Iterable[SyncFact], *, own: bool) -> None:
        if own:
            real_append(self, made, own=True)
        else:
            waiting.setdefault(id(self.fuse), []).extend(Logged(fact, own=False) for fact in made)

    def read(self: MemoryLog) -> Any:
        return [*real_read(self), *waiting.get(id(self.fuse), [])]

    def finish(self: MemoryLog, applied: int, left: Any = ()) -> None:
        self.lines += waiting.pop(id(self.fuse), [])
        real_finish(self, applied, left)

    real_sync = world.Replica.sync

    def sync(self: world.Replica, *, kill: int | None = None) -> Any:
        done = real_sync(self, kill=kill)
        if done is None:
            waiting.pop(id(self.fuse), None)
            self.log.paths = set()
        return done

    patch.setattr(MemoryLog, "append", append)
    patch.setattr(MemoryLog, "read", read)
    patch.setattr(MemoryLog, "finish", finish)
    patch.setattr(MemoryLog, "begin", lambda self, paths: self.fuse.burn())
    patch.setattr(world.Replica, "sync", sync)


def a_lost_base_is_read_as_removals(patch: Patch) -> None:
    real = SyncStream._read_changes

    def look(self: SyncStream, done: stream_sync.Synced, *, deletions: bool | None) -> StreamWindow:
        if isinstance(self.log, MemoryLog) and not self.log.count:
            self.log.count, self.log.paths = len(self.log.lines), set()
        return real(self, done, deletions=deletions)

    patch.setattr(SyncStream, "_read_changes", look)


def a_copied_home_keeps_its_name(patch: Patch) -> None:
    def push(self: Any, stream: str, made: Any) -> None:
        for fact in made:
            log = self.folder.logs.setdefault(fact.replica, [])
            if fact.n > len(log):
                log.append(fact)

    patch.setattr(world._Reach, "push", push)
    patch.setattr(MemoryLog, "renew", lambda self: None)


def a_changed_file_is_taken_for_what_was_shown(patch: Patch) -> None:
    patch.setattr(stream_window, "digest_text", lambda text: "")


def documents_of_one_name_are_looked_at_alone(patch: Patch) -> None:
    real = StreamWindow._load_facts
    patch.setattr(StreamWindow, "_load_facts", lambda self, docs: real(self, docs) and set())


def a_purge_leaves_the_edits_that_were_not_sent(patch: Patch) -> None:
    patch.setattr(FactSet, "is_purged", lambda self, fact: fact.id in self.purged)
    patch.setattr(purge_facts, "_find_texts", lambda state, texts: {})


def a_purge_takes_from_files_and_not_from_logs(patch: Patch) -> None:
    patch.setattr(MemoryLog, "blank", lambda self, fact_ids: None)


def a_purge_does_not_reach_the_archive(patch: Patch) -> None:
    real = world.MemoryFiles.purge

    def purge(self: world.MemoryFiles, removed: Any) -> None:
        kept, forgotten = list(self.kept), dict(self.forgotten)
        real(self, removed)
        self.kept = kept
        self.forgotten.update(forgotten)

    patch.setattr(world.MemoryFiles, "purge", purge)


def a_machine_that_lost_its_log_brings_back_what_was_purged(patch: Patch) -> None:
    patch.setattr(diff, "_is_doubtful", lambda ledger, doc, target, raw: False)


def an_edit_that_a_purge_shadows_is_not_kept(patch: Patch) -> None:
    patch.setattr(purge_facts, "_save_unseen", lambda *given: None)


def an_entry_is_looked_for_in_the_first_document_of_its_file_alone(patch: Patch) -> None:
    patch.setattr(diff, "_document_of", lambda ledger, block, docs: docs[0])


def a_file_under_the_name_of_one_that_was_renamed_is_taken_for_it(patch: Patch) -> None:
    patch.setattr(diff, "_find_replaced_paths", lambda base, files, shown: set())


BUGS: list[Callable[[Patch], None]] = [
    last_writer_wins_on_an_entry,
    last_writer_wins_on_the_list_of_tags,
    a_tombstone_is_lost_in_compaction,
    an_edit_brings_back_what_was_removed,
    an_edit_is_a_new_entry,
    entries_of_one_second_are_one,
    equal_places_are_in_no_order,
    a_removal_kills_all_that_was_ever_replaced,
    an_edit_replaces_only_the_last_version,
    a_removal_takes_what_was_never_seen,
    others_are_pulled_before_the_files_are_looked_at,
    what_was_not_answered_is_sent_again_under_another_name,
    files_hold_what_no_log_knows_yet,
    a_lost_base_is_read_as_removals,
    a_copied_home_keeps_its_name,
    a_changed_file_is_taken_for_what_was_shown,
    documents_of_one_name_are_looked_at_alone,
]
PURGE_BUGS: list[Callable[[Patch], None]] = [
    a_purge_leaves_the_edits_that_were_not_sent,
    a_purge_takes_from_files_and_not_from_logs,
    a_purge_does_not_reach_the_archive,
    a_machine_that_lost_its_log_brings_back_what_was_purged,
    an_edit_that_a_purge_shadows_is_not_kept,
]
SAME_NAME_BUGS: list[Callable[[Patch], None]] = [
    an_entry_is_looked_for_in_the_first_document_of_its_file_alone,
    a_file_under_the_name_of_one_that_was_renamed_is_taken_for_it,
]


def unsent_changes_keep_the_seal_of_the_old_key(patch: Patch) -> None:
    patch.setattr(MemoryLog, "seal_own", lambda self, key, record: None)


def a_changed_key_covers_whatever_its_machines_sent_since(patch: Patch) -> None:
    def covered(waiting: Any, last: Any, ends: Any) -> set[FactId]:
        return {fact.id for each in waiting for fact in each}

    patch.setattr(stream_sync, "find_covered", covered)


def a_changed_key_covers_nothing_of_the_time_before(patch: Patch) -> None:
    patch.setattr(stream_sync, "find_covered", lambda waiting, last, ends: set())


def a_machine_without_the_new_key_goes_on_sending(patch: Patch) -> None:
    patch.setattr(world.Replica, "has_right_key", lambda self: True)


KEY_BUGS: list[Callable[[Patch], None]] = [
    unsent_changes_keep_the_seal_of_the_old_key,
    a_changed_key_covers_whatever_its_machines_sent_since,
    a_changed_key_covers_nothing_of_the_time_before,
    a_machine_without_the_new_key_goes_on_sending,
]


@pytest.mark.full(but=1)
@pytest.mark.parametrize("plant", KEY_BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_of_a_changed_key_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    found = next(failures(range(ROTATIONS), more=world.CHANGED_KEY_AWAY), None)
    assert found is not None, "the oracle does not see this bug"


@pytest.mark.full
@pytest.mark.parametrize("plant", SAME_NAME_BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_of_documents_of_one_name_is_found(
    plant: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    found = next(failures(range(RUNS), more=world.SAME_NAMES), None)
    assert found is not None, "the oracle does not see this bug"


@pytest.mark.full(but=1)
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    assert next(failures(range(RUNS)), None) is not None, "the oracle does not see this bug"


@pytest.mark.full(but=1)
@pytest.mark.parametrize("plant", PURGE_BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_of_a_purge_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    found = next(failures(range(PURGES), more=world.PURGING), None)
    assert found is not None, "the oracle does not see this bug"


def test_a_dot_names_its_replica() -> None:
    assert str(FactId("aaaaaaaa", 3)) == "aaaaaaaa:3"
