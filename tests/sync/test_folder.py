"""`vade sync --folder`: homes of one person that meet in a folder, with real files."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from cases import every_case
from vademecum.errors import Refused, StorageFailed, UsageError
from vademecum.interfaces.cli.app import run
from vademecum.memory import connect
from vademecum.store import archive, audit, files
from vademecum.sync import folder_sync as shared
from vademecum.sync import stream_log as logs
from vademecum.sync.projection import safe_path
from vademecum.sync.stream_sync import MassDeletion
from vademecum.sync.stream_window import digest_text
from vademecum.sync.workspace_key import WrongKey
from vademecum.text import document
from vademecum.types import Origin, Place, Scope

if TYPE_CHECKING:
    from vademecum.memory import Memory

SCHEMA = Path(__file__).parents[2] / "docs/schemas/sync.json"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Machine:
    """A home that is synced through a folder."""

    def __init__(self, base: Path, name: str, carrier: Path, key: str | None = None) -> None:
        self.base, self.carrier = base / name, carrier
        self.base.mkdir()
        (self.base / "project").mkdir()
        self.count = itertools.count()
        self.memory().store(f"{name} is here.", key=f"machine-{name}", scope="global")
        self.joined, self.made = shared.join_folder(self.memory().home, carrier, key)

    def memory(self, origin: Origin = Origin.USER) -> Memory:
        return connect(
            home=self.base / "home", cwd=self.base / "project", origin=origin, environ={}, now=self.now
        )

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=next(self.count))

    def sync(self, **given: Any) -> list[shared.PlaceSynced]:
        found, self.ignored = shared.sync_folder(
            self.memory().home, self.joined, actor="human:ada", now=self.now, **given
        )
        return found

    @property
    def top(self) -> Path:
        return self.base / "home/memory/global"

    def files(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.top)): path.read_bytes() for path in sorted(self.top.rglob("*.md"))}


@pytest.fixture
def carrier(tmp_path: Path) -> Path:
    (tmp_path / "carrier").mkdir()
    return tmp_path / "carrier"


@pytest.fixture
def two(tmp_path: Path, carrier: Path) -> tuple[Machine, Machine]:
    one = Machine(tmp_path, "one", carrier)
    return one, Machine(tmp_path, "two", carrier, one.joined.key)


def meet(*machines: Machine) -> None:
    for _ in range(2):
        for machine in machines:
            machine.sync()


def test_records_journals_and_pinned_documents_are_the_same_on_both(two: tuple[Machine, Machine]) -> None:
    one, two_ = two
    one.memory().note("A note.", scope="global")
    one.memory().care.edited("MEMORY.md", "", "# Me\n\nI like tea.\n")
    two_.memory().note("Another note.", scope="global")
    two_.memory().store("Use pytest.", key="testing", scope="global")
    meet(one, two_)
    assert one.files() == two_.files()
    assert set(one.files()) >= {
        "records/machine-one.md",
        "records/machine-two.md",
        "records/testing.md",
        "MEMORY.md",
    }
    assert two_.memory().show("machine-one", scope="global").text == "one is here."
    [day] = [text for path, text in one.files().items() if path.startswith("journal/")]
    assert {each.text for each in document.parse(day.decode()).entries} == {"A note.", "Another note."}
    assert [(each.done.sent, each.done.received) for each in (*one.sync(), *two_.sync())] == [(0, 0)] * 2


def test_my_own_text_stays_mine_on_my_other_machine(two: tuple[Machine, Machine]) -> None:
    meet(*two)
    [entry] = two[1].memory().show("machine-one", scope="global").entries
    assert entry.origin is Origin.USER


def test_a_wrong_key_for_a_new_folder_is_to_be_typed_again(tmp_path: Path) -> None:
    (tmp_path / "carrier").mkdir()
    Machine(tmp_path, "one", tmp_path / "carrier")
    with pytest.raises(WrongKey) as wrong:
        Machine(tmp_path, "two", tmp_path / "carrier", "0" * 26)
    assert "run this again" in wrong.value.hint
    assert "key set" not in wrong.value.hint  # it needs a folder that this home has joined


def test_who_can_write_to_the_folder_but_has_no_key_cannot_make_up_a_text(
    two: tuple[Machine, Machine], tmp_path: Path
) -> None:
    meet(*two)
    forger = Machine(tmp_path, "forger", tmp_path / "carrier", two[0].joined.key)
    record = shared.check_folder_key(forger.memory().home, forger.joined)[1]
    forger.joined = shared.FolderSync(forger.joined.path, forger.joined.workspace, "0" * 26)
    with pytest.raises(WrongKey):
        forger.sync()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "check_folder_key", lambda *given: (forger.joined, record))
        forger.sync()
    [done] = [each for each in two[0].sync() if each.stream == "global"]
    assert "another key" in done.done.refused[0]
    assert "records/machine-forger.md" not in two[0].files()


def test_a_wrong_key_and_none_are_refused(tmp_path: Path, carrier: Path) -> None:
    one = Machine(tmp_path, "one", carrier)
    home = connect(home=tmp_path / "other", cwd=tmp_path, environ={}).home
    with pytest.raises(UsageError, match="has a key"):
        shared.join_folder(home, carrier, None)
    with pytest.raises(Refused, match="not the key"):
        shared.join_folder(home, carrier, "1" * 26)
    assert one.made


def test_a_forgotten_record_stays_forgotten_and_a_restored_one_is_back(two: tuple[Machine, Machine]) -> None:
    one, other = two
    meet(one, other)
    other.memory().forget("machine-one", scope="global")
    meet(other, one)
    assert "records/machine-one.md" not in one.files()
    assert one.memory().archive.lost_entries("machine-two") == []
    one.memory().restore("machine-one", scope="global")
    meet(one, other)
    assert one.files() == other.files()
    assert other.memory().show("machine-one", scope="global").text == "one is here."


def test_two_edits_of_one_entry_are_both_kept_and_wait_for_a_person(two: tuple[Machine, Machine]) -> None:
    one, other = two
    meet(one, other)
    for machine, words in ((one, "One says so."), (other, "Two says so.")):
        path = machine.top / "records/machine-one.md"
        path.write_text(path.read_text().replace("one is here.", words))
    meet(one, other)
    assert one.files() == other.files()
    record = one.memory().show("machine-one", scope="global")
    assert {each.text for each in record.entries} == {"One says so.", "Two says so."}
    assert len(record.agreed) == 1


def test_two_versions_of_an_entry_that_was_replaced_ask_nobody(two: tuple[Machine, Machine]) -> None:
    one, other = two
    one.memory().store("one was moved.", key="machine-one", scope="global", mode="replace")
    meet(one, other)
    for machine, words in ((one, "One said so."), (other, "Two said so.")):
        path = machine.top / "records/machine-one.md"
        path.write_text(path.read_text().replace("one is here.", words))
    one.sync()
    found = [place.done for machine in (other, one) for place in machine.sync()]
    assert one.files() == other.files()
    text = one.files()["records/machine-one.md"]
    assert (text.count(b"One said so."), text.count(b"Two said so.")) == (1, 1)
    assert [done.conflicts for done in found if done.received] == [[], []]
    assert not one.memory().review.inbox(["version"]).items


def test_a_folder_that_vanished_is_asked_about_and_can_be_brought_back(
    two: tuple[Machine, Machine], tmp_path: Path
) -> None:
    one, other = two
    for number in range(30):
        one.memory().store(f"Fact {number}.", key=f"fact-{number}", scope="global")
    meet(one, other)
    shutil.rmtree(one.top / "records")
    with pytest.raises(MassDeletion, match="32 of 32"):
        one.sync()
    assert len(other.files()) == 32
    one.sync(deletions=False)
    assert one.files() == other.files()
    shutil.rmtree(one.top / "records")
    one.sync(deletions=True)
    other.sync(deletions=True)
    assert other.files() == {}


class MachineOfToday(Machine):
    """A machine whose clock is that of its disk."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def old_records(machine: Machine, count: int, day: datetime) -> None:
    """Write records that are dated on a day of long ago, files and all."""
    (machine.top / "records").mkdir(parents=True, exist_ok=True)
    at = f"{day:%Y-%m-%dT%H:%M:%SZ}"
    for number in range(count):
        path = machine.top / f"records/{machine.base.name}-{number:03}.md"
        path.write_text(
            f"---\ntype: project\ncreated: {at}\nupdated: {at}\n---\n# {path.stem}\n\n## {at}\n"
            f"Fact {number} of machine {machine.base.name}.\n<!-- origin: user -->\n"
        )
        os.utime(path, (day.timestamp(), day.timestamp()))


def test_a_join_that_brings_a_place_over_its_cap_moves_nothing_and_asks_nothing(
    tmp_path: Path, carrier: Path
) -> None:
    one = MachineOfToday(tmp_path, "one", carrier)
    two_ = MachineOfToday(tmp_path, "two", carrier, one.joined.key)
    for machine in (one, two_):
        old_records(machine, 149, datetime(2025, 1, 1, tzinfo=UTC))
    meet(one, two_)
    assert len(one.files()) == 300
    assert one.memory().store("One more fact of today.", key="today", scope="global").swept is None
    one.sync()
    assert len(one.files()) == 301


def test_what_automatic_sweeps_archived_needs_no_answer_and_goes_everywhere(
    two: tuple[Machine, Machine],
) -> None:
    one, other = two
    (one.base / "home/config.toml").write_text("decay.max_count = 20\n")
    old_records(one, 100, BEGIN - timedelta(days=30))
    meet(one, other)
    for path in one.files():  # what one wrote and received itself is of the day before, too
        os.utime(one.top / path, ((BEGIN - timedelta(days=1)).timestamp(),) * 2)
    found = []
    for day in range(1, 4):
        one.count = itertools.count(day * 90_000)
        found += [each for each in [one.memory().care.moved_if_due()] if each is not None]
        assert one.memory().care.moved_if_due() is None
    home = one.memory().home
    synced = logs.HomeFiles(home, home.scope_folder(Place(Scope.GLOBAL)), "human:ada", one.now)
    texts = {path: content.decode() for path, content in other.files().items()}
    assert [each.moved for each in found] == [20, 20, 20]
    assert len(synced.archived_automatically(texts)) == 60
    one.memory().care.undo(found[-1].run)
    assert len(synced.archived_automatically(texts)) == 40
    assert not synced.archived_automatically({path: f"{text}\n" for path, text in texts.items()})
    one.sync()
    other.sync()
    assert one.files() == other.files()
    assert len(one.files()) == 102 - 40 + 2
    assert "Fact 0 of machine one." in other.memory().show("one-000", scope="global").text
    for path in sorted(one.files())[-25:]:  # what a person removes in such numbers is asked about, as ever
        (one.top / path).unlink()
    with pytest.raises(MassDeletion, match="25 of 64"):
        one.sync()


def test_what_is_not_utf8_or_holds_a_secret_is_told_and_never_read_as_a_deletion(
    two: tuple[Machine, Machine],
) -> None:
    one, other = two
    meet(one, other)
    (one.top / "records/machine-two.md").write_bytes(b"\xff\xfe broken")
    path = one.top / "records/machine-one.md"
    path.write_text(path.read_text().replace("is here", "has ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"))
    [done] = one.sync()
    assert sorted(each.where for each in done.findings) == [
        "memory/global/records/machine-one.md",
        "memory/global/records/machine-two.md",
    ]
    other.sync()
    assert b"ghp_" not in b"".join(other.files().values())
    assert b"ghp_" not in b"".join(p.read_bytes() for p in one.carrier.rglob("*") if p.is_file())
    assert "records/machine-two.md" in other.files()


def test_half_a_file_and_a_copy_that_a_carrier_made_do_no_harm(two: tuple[Machine, Machine]) -> None:
    one, other = two
    one.memory().store("Second.", key="second", scope="global")
    one.sync()
    [segment] = one.carrier.rglob("*.jsonl")
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2])
    shutil.copy(segment, segment.with_name(f"{segment.stem}.sync-conflict-20260101-000000.jsonl"))
    other.sync()
    assert other.ignored
    segment.write_bytes(whole)
    meet(other, one)
    assert one.files() == other.files()


def test_what_is_known_of_a_file_is_not_read_again_and_what_lacks_a_line_waits(
    two: tuple[Machine, Machine],
) -> None:
    one, other = two
    meet(one, other)
    one.memory().store("Second.", key="second", scope="global")
    one.sync()
    segment = next(each for each in one.carrier.rglob("*.jsonl") if b"Second." in each.read_bytes())
    _, *lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines))
    [done] = other.sync()
    assert (done.done.received, done.done.refused) == (0, [])
    segment.write_bytes(b"".join([b"damaged\n", *lines]))
    [done] = other.sync()
    assert done.done.received > 0
    assert one.files() == other.files()


def test_a_text_that_was_shown_is_known_to_fit_and_any_other_is_looked_at(
    two: tuple[Machine, Machine],
) -> None:
    home = two[0].memory().home
    kept = logs.HomeFiles(home, home.scope_folder(Place(Scope.GLOBAL)), "human:ada", two[0].now)
    text = f"---\nkey: odd\n---\n\nIt has ghp_{'a1B2c3D4e5' * 3}f6G7h8\n"
    (two[0].top / "records/odd.md").write_text(text)
    assert kept.read(["records/odd.md"], {"records/odd.md": digest_text(text)}) == {"records/odd.md": text}
    assert kept.held() == set()
    assert kept.read(["records/odd.md"], {"records/odd.md": digest_text("another")}) == {}
    assert kept.held() == {"records/odd.md"}


def test_a_folder_that_is_not_there_is_told_and_memory_works_on(two: tuple[Machine, Machine]) -> None:
    one, _ = two
    one.carrier.rename(one.carrier.with_name("away"))
    with pytest.raises(StorageFailed, match="is missing"):
        one.sync()
    one.memory().store("Meanwhile.", key="meanwhile", scope="global")
    one.carrier.with_name("away").rename(one.carrier)
    one.sync()


def test_a_backup_that_is_brought_back_goes_on_as_another_machine(
    two: tuple[Machine, Machine], tmp_path: Path
) -> None:
    one, other = two
    meet(one, other)
    shutil.copytree(one.base / "home", tmp_path / "kept")
    one.memory().store("After the copy.", key="after", scope="global")
    meet(one, other)
    shutil.rmtree(one.base / "home")
    shutil.copytree(tmp_path / "kept", one.base / "home")  # a backup is brought back
    one.memory().store("After the restore.", key="restored", scope="global")
    meet(one, other)
    assert one.files() == other.files()
    assert {"records/after.md", "records/restored.md"} <= set(one.files())


def test_a_home_that_lost_its_state_joins_again_without_doubling_or_deleting_anything(
    two: tuple[Machine, Machine],
) -> None:
    one, other = two
    meet(one, other)
    shutil.rmtree(one.base / "home/hub/folder" / one.joined.workspace)
    other.memory().store("New there.", key="new", scope="global")
    meet(other, one)
    assert one.files() == other.files()
    assert len(one.files()) == 3


def _lay(machine: Machine, words: str, count: int = 140) -> None:
    """So many records, written by hand: more than are replaced at once."""
    folder = machine.top / "records"
    for number in range(count):
        text = f"---\nkey: n-{number}\n---\n\n## 2026-01-01T10:00:00Z\n\n{number} {words}\n"
        (folder / f"n-{number}.md").write_text(text)


def test_each_of_many_replaced_files_has_its_old_version_and_its_line_in_the_audit(
    two: tuple[Machine, Machine],
) -> None:
    one, other = two
    _lay(one, "is old.")
    meet(one, other)
    before = len(list(audit.lines(other.memory().home)))
    _lay(one, "is new.")
    (one.top / "records/n-7.md").unlink()
    meet(one, other)
    assert one.files() == other.files()
    told = list(audit.lines(other.memory().home))[before:]
    assert [each["op"] for each in told] == ["sync"] * 140
    assert sum(each["after"] is None for each in told) == 1
    assert audit.verify(other.memory().home).problems == ()
    kept = other.base / "home/archive/global/_/records"
    for number in range(140):
        images = [each.read_text() for each in (kept / f"n-{number}.md").iterdir()]
        assert [f"{number} is old.\n" in each for each in images] == [True]
    other.memory().restore("n-7", scope="global")
    assert "7 is old." in other.memory().show("n-7", scope="global").text


def test_what_is_saved_while_many_files_are_replaced_is_never_written_over(
    two: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    _lay(one, "is old.")
    meet(one, other)
    _lay(one, "is new.")
    one.sync()
    real, edited = archive._bring_in, other.top / "records/n-3.md"
    made = other.top / "records/machine-three.md"

    def saving(*given: Any) -> None:
        real(*given)
        edited.write_text(
            edited.read_text().replace("3 is old.", "3 is old.\n\n## 2026-01-02T10:00:00Z\n\nMine.")
        )
        made.write_text("# Mine\n\n## 2026-01-02T10:00:00Z\n\nNew and mine.\n")

    with monkeypatch.context() as patch:
        patch.setattr(archive, "_bring_in", saving)
        [done] = other.sync()
    assert "Mine." in edited.read_text()
    assert "records/n-3.md" not in done.done.written
    assert len(done.done.written) == 139
    meet(other, one)
    assert one.files() == other.files()
    said = one.files()["records/n-3.md"].decode()
    assert "3 is new." in said
    assert "Mine." in said
    assert not list(other.top.rglob("*conflict*"))
    assert not list(other.top.rglob(".vade-*"))
    assert audit.verify(other.memory().home).problems == ()


def test_a_file_that_somebody_else_writes_is_waited_for_and_no_other_is(two: tuple[Machine, Machine]) -> None:
    one, other = two
    _lay(one, "is old.", 5)
    meet(one, other)
    _lay(one, "is new.", 5)
    one.sync()
    held, done, home = threading.Event(), threading.Event(), other.memory().home
    busy = logs.HomeFiles(home, home.scope_folder(Place(Scope.GLOBAL)), "human:ada", other.now)._lock(
        "records", "n-2.md"
    )

    def hold() -> None:
        with home.lock(busy):
            held.set()
            done.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)
    syncing = threading.Thread(target=other.sync)
    syncing.start()
    while b"4 is new." not in other.files()["records/n-4.md"]:
        assert syncing.is_alive()
    assert b"2 is old." in other.files()["records/n-2.md"]
    done.set()
    holder.join()
    syncing.join()
    assert one.files() == other.files()


# What is done when many files are replaced together.
STEPS: tuple[tuple[Any, str], ...] = (
    *((files.Drafts, each) for each in ("write", "sync", "create", "exchange", "take")),
    *((archive, each) for each in ("_write_images", "_bring_in", "replace_all")),
    (audit, "write_all"),
)


class Dead(BaseException):
    """The process died."""


def test_killed_at_any_write_it_loses_nothing_and_claims_no_text_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every durable act of a sync is a point to die at; after each, both machines still come together."""
    points = 0
    for point in range(400):
        base = tmp_path / f"p{point}"
        (base / "carrier").mkdir(parents=True)
        one = Machine(base, "one", base / "carrier")
        other = Machine(base, "two", base / "carrier", one.joined.key)
        one.sync()
        dying = _dying(point)
        with monkeypatch.context() as patch:
            patch.setattr(logs.DiskLog, "_write", dying(_torn(dying, logs.DiskLog._write)))
            patch.setattr(logs.DiskLog, "_save", dying(logs.DiskLog._save))
            patch.setattr(logs.DiskLog, "remember", dying(logs.DiskLog.remember))
            patch.setattr(logs.HomeFiles, "write", dying(logs.HomeFiles.write))
            patch.setattr(logs.HomeFiles, "_log", dying(logs.HomeFiles._log))
            for holder, step in STEPS:
                patch.setattr(holder, step, dying(getattr(holder, step)))
            patch.setattr(shared.FolderTransport, "push", dying(shared.FolderTransport.push))
            try:
                other.sync()
            except Dead:
                points += 1
            else:
                break
        meet(other, one)
        assert one.files() == other.files()
        assert set(one.files()) == {"records/machine-one.md", "records/machine-two.md"}
        claimed = [
            each.fact
            for each in _log_of(other)
            if each.own and each.fact.kind == "put" and "one is here" in str(each.fact.value)
        ]
        assert claimed == []
    assert points > 10


def test_a_home_that_lost_how_far_its_files_are_claims_no_text_of_others(
    two: tuple[Machine, Machine],
) -> None:
    one, other = two
    meet(one, other)
    other.memory().store("Other has more.", key="machine-two", scope="global")
    meet(one, other)
    [state] = (other.base / "home/hub/folder").rglob("global/state.json")
    for damage in (None, b"", b"{"):
        state.unlink() if damage is None else state.write_bytes(damage)
        meet(other, one)
        assert one.files() == other.files()
        own = [each.fact for each in _log_of(other) if each.own and each.fact.kind == "put"]
        assert not [each for each in own if "one is here" in str(each.value)]


def test_a_record_renamed_on_a_home_that_lost_how_far_its_files_are_is_not_taken_for_deleted(
    two: tuple[Machine, Machine],
) -> None:
    one, other = two
    meet(one, other)
    [state] = (one.base / "home/hub/folder").rglob("global/state.json")
    state.unlink()
    [mine] = (one.base / "home/memory/global/records").glob("*one*.md")
    mine.rename(mine.with_name("renamed.md"))
    meet(one, other)
    assert one.files() == other.files()
    for machine in two:
        assert sum(b"one is here" in content for content in machine.files().values()) == 1


def _torn(dying: Any, write: Any) -> Any:
    """What can die in the middle of several lines as well."""

    def torn(self: logs.DiskLog, line: bytes) -> None:
        half = line[: line.find(b"\n", len(line) // 2) + 9]
        try:
            dying(lambda: None)()
        except Dead:
            self._folder.update(logs.LINES, lambda before: (before or b"") + half)
            raise
        write(self, line)

    return torn


def _dying(after: int) -> Any:
    """What lets so many acts happen and dies before the next."""
    left = itertools.count(after, -1)

    def wrap(call: Any) -> Any:
        def act(*given: Any, **named: Any) -> Any:
            if next(left) <= 0:
                raise Dead
            return call(*given, **named)

        return act

    return wrap


def _log_of(machine: Machine) -> Any:
    with machine.memory().home.disk("hub", "folder", machine.joined.workspace, "global") as folder:
        return list(logs.DiskLog(folder).read())


@every_case(
    ("given", "safe"),
    [
        ("records/plain.md", True),
        ("records/Made By Hand.md", True),
        ("records/../../etc.md", False),
        ("records/con.md", False),
        ("records/.hidden.md", False),
        ("records/a\nb.md", False),
        ("records/index.md", False),
        ("records/outside", False),
        ("journal/2026-01-01.md", True),
    ],
)
def test_a_name_from_another_machine_stays_in_its_place(given: str, safe: bool) -> None:
    assert (safe_path(given) == given) is safe
    assert "/../" not in safe_path(given)


@every_case("given", ["journal/../x.md", "other/x.md", "config.toml", "", "records/"])
def test_a_name_of_no_kind_is_none(given: str) -> None:
    assert safe_path(given) == ""


def test_the_command_shows_the_key_once_and_says_what_is_to_be_sent(
    tmp_path: Path, carrier: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        monkeypatch.setenv("VADE_HOME", str(tmp_path / name))
        assert run(["add", f"{name} is here.", "--key", name, "--scope", "global"]) == 0
        capsys.readouterr()
        assert run(["sync", "--folder", str(carrier), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["places"][0]["place"] == "global"
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(told)
        if name == "one":
            monkeypatch.setenv("VADE_SYNC_KEY", told["key"])
        else:
            assert told.get("key") is None
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "one"))
    assert run(["sync"]) == 0
    assert "received" in capsys.readouterr().out
    assert run(["show", "two", "--scope", "global"]) == 0
    assert run(["sync", "status"]) == 0
    assert "everything was sent" in capsys.readouterr().out
    assert run(["sync", "off"]) == 0
    assert run(["sync"]) != 0
    assert "vade sync --folder" in capsys.readouterr().err


@pytest.mark.full
def test_watch_syncs_what_comes_into_the_folder_and_what_changes_here(two: tuple[Machine, Machine]) -> None:
    one, other = two
    log = one.base / "watch.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "vademecum", "sync", "--watch", "--every", "3600"],
            env={**os.environ, "PYTHONUNBUFFERED": "1", "VADE_HOME": str(one.base / "home")},
            stdout=out,
            stderr=subprocess.STDOUT,
        )

    def until(path: str, text: bytes, *, there: bool = False) -> None:
        while text not in (other if there else one).files().get(path, b""):
            assert process.poll() is None, log.read_text("utf-8")
            time.sleep(0.1)
            if there:
                other.sync()

    try:
        while not one.joined.path.joinpath("vade-sync/global").is_dir():
            time.sleep(0.1)
        time.sleep(2)
        other.sync()
        until("records/machine-two.md", b"two is here.")
        until("records/machine-one.md", b"one is here.", there=True)
        file = one.top / "records/machine-one.md"
        file.write_bytes(file.read_bytes().replace(b"one is here.", b"one is watched."))
        until("records/machine-one.md", b"one is watched.", there=True)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert "Traceback" not in log.read_text("utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="sparse files")
def test_a_file_of_eight_gigabytes_is_named_and_skipped_until_its_machine_repairs_it(
    two: tuple[Machine, Machine],
) -> None:
    one, other = two
    folder = one.carrier / "vade-sync" / "global"
    one.sync()
    before = {*folder.iterdir()}
    other.sync()
    [theirs] = {*folder.iterdir()} - before
    os.truncate(theirs, 8 << 30)
    one.memory().store("Coffee at nine.", key="coffee", scope="global")
    [done] = [each.done for each in one.sync() if each.stream == "global"]
    assert done.sent
    assert one.ignored == [theirs.name]
    other.memory().store("Rolls at seven.", key="rolls", scope="global")
    meet(other, one)
    assert theirs.stat().st_size < 1 << 20
    assert one.ignored == []
    assert one.files() == other.files()
    assert {"records/coffee.md", "records/rolls.md", "records/machine-two.md"} <= {*one.files()}
