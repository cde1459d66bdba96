"""`vade purge` in a home that is synced with a hub: gone on every machine, and from the database."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
import pytest

from hub.databases import GIVEN
from hub.test_commands import vade
from hub.test_sync import Machine, meet, two
from sync.test_purges import SECRET, holding
from vademecum.memory import sync as syncing
from vademecum.sync import hub_sync
from vademecum.sync.hub_client import HubRefused

if TYPE_CHECKING:
    from hub.databases import Server
    from hub.hubs import World

__all__ = ["two"]
Pair = tuple[Machine, Machine]


def rows(world: World) -> bytes:
    """Every row of every table of the hub, as a dump would have it."""
    with psycopg.connect(world.database) as admin:
        tables = admin.execute(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'hub' AND c.relkind = 'r'"
        ).fetchall()
        found = []
        for (name,) in tables:
            with admin.cursor().copy(f'COPY (SELECT t::text FROM hub."{name}" t) TO STDOUT') as copy:
                found += [bytes(each) for each in copy]
    return b"\n".join(found)


def nowhere(world: World, pair: Pair, words: str) -> None:
    for machine in pair:
        assert holding(machine.base / "home", words) == []
    dump = rows(world)
    assert words.encode() not in dump
    assert words.encode().hex().encode() not in dump  # as a bytea shows it


def test_a_purged_text_is_nowhere_not_even_in_the_database(two: Pair, world: World) -> None:
    one, other = two
    one.memory().store(f"The safe: {SECRET}, says Ada.", key="safe", scope="global")
    meet(one, other)
    other.memory().note(f"She said {SECRET} again.")
    meet(one, other)
    assert SECRET.encode().hex().encode() in rows(world)
    one.memory().archive.purge_text(SECRET)
    one.sync()
    assert SECRET.encode().hex().encode() not in rows(world)  # the hub lets go of it at once
    meet(other, one)
    nowhere(world, two, SECRET)
    assert one.files() == other.files()
    assert other.memory().show("safe", scope="global").text == "The safe: [purged], says Ada."
    for machine in two:
        assert not any(each.done.sent or each.done.received for each in machine.sync())
        assert machine.requests == 1


@pytest.mark.full
def test_the_command_says_on_how_many_machines_and_finds_what_was_not_known_here(
    two: Pair, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = two
    one.memory().store(f"The safe: {SECRET}.", key="safe", scope="global")
    meet(one, other)
    other.memory().store(f"I know that {SECRET}.", key="known", scope="global")
    other.sync()
    told = syncing_purge(capsys, one, SECRET)
    assert "purged on 1 of 2 machines; the others follow when they sync" in told
    assert SECRET.encode().hex().encode() not in rows(world)
    other.sync()
    meet(one, other)
    nowhere(world, two, SECRET)
    assert other.memory().show("known", scope="global").text == "I know that [purged]."
    assert hub_sync.count_purged(one.home, one.joined) == {"global": (2, 2)}


def syncing_purge(capsys: pytest.CaptureFixture[str], machine: Machine, words: str) -> str:
    from vademecum.interfaces.cli.app import run

    capsys.readouterr()
    assert run(["purge", "--text", words, "--yes", "--home", str(machine.base / "home")]) == 0
    return capsys.readouterr().err


@pytest.mark.full
def test_an_edit_over_what_was_purged_is_held_and_never_sent(two: Pair, world: World) -> None:
    one, other = two
    one.memory().store(f"Open with {SECRET}.", key="safe", scope="global")
    meet(one, other)
    other.change("global/records/safe.md", "Open with", "Always open with")
    one.memory().archive.purge_text(SECRET)
    one.sync()
    other.sync()
    meet(one, other)
    nowhere(world, two, SECRET)
    [held] = other.memory().archive.held_texts()
    assert "Always open with [purged]." in held.text
    assert b"Always" not in b"".join(one.files().values())
    other.memory().archive.drop_held(held.id)
    assert other.memory().archive.held_texts() == []


@pytest.mark.full
def test_a_purge_between_reading_and_sending_is_carried_out_in_the_same_sync(
    two: Pair, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    one.memory().store(f"Open with {SECRET}.", key="safe", scope="global")
    meet(one, other)
    other.change("global/records/safe.md", "Open with", "Always open with")
    one.memory().archive.purge_text(SECRET)
    real = hub_sync.HubSide.push
    said: list[str] = []

    def push(self: hub_sync.HubSide, stream: str, facts: object) -> None:
        if not said and self.log.replica == other.joined.replica:
            said.append(stream)
            one.sync()
        real(self, stream, facts)  # type: ignore[arg-type]

    monkeypatch.setattr(hub_sync.HubSide, "push", push)
    other.sync()
    assert said
    meet(one, other)
    nowhere(world, two, SECRET)
    assert one.files() == other.files()


@pytest.mark.full
def test_a_hub_that_is_away_gets_the_purge_with_the_next_sync(
    two: Pair, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    one.memory().store(f"Open with {SECRET}.", key="safe", scope="global")
    meet(one, other)
    with monkeypatch.context() as patch:

        def away(*given: object, **named: object) -> None:
            raise HubRefused(503, {"message": "it is away"})

        patch.setattr(hub_sync.HubSync, "run", away)
        one.memory().archive.purge_text(SECRET)
        [told] = syncing.spread_purge(one.memory(), SECRET)
        assert told == f"not sent to {one.joined.name} yet: the hub says: it is away"
    assert holding(one.base / "home", SECRET) == []
    meet(one, other)
    nowhere(world, two, SECRET)


@pytest.mark.full
@pytest.mark.skipif(bool(GIVEN), reason="pg_dump is known of our own PostgreSQL alone")
def test_a_dump_of_the_database_does_not_hold_it(two: Pair, world: World, postgres: Server) -> None:
    assert postgres.cluster is not None
    one, other = two
    one.memory().store(f"Open with {SECRET}.", key="safe", scope="global")
    meet(one, other)
    one.memory().archive.purge_text(SECRET)
    meet(one, other)
    file = postgres.cluster.folder / "purged.sql"
    postgres.cluster.run("pg_dump", "-f", str(file), world.database)
    content = file.read_bytes()
    assert b"COPY hub.fact_" in content
    assert SECRET.encode() not in content
    assert SECRET.encode().hex().encode() not in content


def test_a_dry_run_counts_what_the_hub_holds_without_asking_it(
    two: Pair, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = two
    one.memory().store(f"The safe: {SECRET}, says Ada.", key="safe", scope="global")
    meet(one, other)
    home = one.base / "home"
    world.app.state.hub.pool.close()  # it cannot answer
    told = vade(capsys, home, "purge", "--text", SECRET, "--dry-run")
    counts = {each["where"]: each["count"] for each in told["found"]}
    assert counts[f"{one.joined.url} {one.joined.name} global"] == 1
    assert counts[f"hub/{one.joined.workspace}/logs/global"] == 1
    assert SECRET in str(one.files())


@pytest.mark.full
def test_whoever_runs_the_hub_is_told_what_removes_the_dead_rows_of_a_purge(
    two: Pair, world: World, postgres: Server, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = two
    one.memory().store(f"The safe: {SECRET}, says Ada.", key="safe", scope="global")
    meet(one, other)
    assert not [each for each in caplog.records if each.levelname == "WARNING"]
    there = _in_files(postgres, world)
    one.memory().archive.purge_text(SECRET)
    meet(one, other)
    [said] = {
        each.getMessage() for each in caplog.records if each.name == "vademecum.hub" and each.levelno > 20
    }
    assert "VACUUM (FULL, ANALYZE)" in said
    assert SECRET not in said
    if postgres.cluster is None:
        return
    assert there
    for statement in re.findall(r"`(VACUUM [^`]*)`", said):
        for each in statement.split("; "):
            world.sql(each)
    assert not _in_files(postgres, world)


def test_the_statement_that_the_hub_logs_takes_a_purged_tag_out_of_the_statistics(
    two: Pair, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = two
    for number in range(3):
        one.memory().store(f"Text {number}.", key=f"k{number}", scope="global", tags=["vorple42"])
    meet(one, other)
    world.sql("ANALYZE")
    assert _in_statistics(world, "vorple42")
    one.memory().archive.purge_text("vorple42")
    meet(one, other)
    said = " ".join(each.getMessage() for each in caplog.records if each.name == "vademecum.hub")
    for statement in {*re.findall(r"`(VACUUM [^`]*)`", said)}:
        world.sql(statement)
    assert not _in_statistics(world, "vorple42")


def _in_statistics(world: World, text: str) -> list[tuple[object, ...]]:
    """The columns whose statistics hold a text."""
    held = "coalesce(most_common_vals::text, '') || coalesce(histogram_bounds::text, '')"
    held += " || coalesce(most_common_elems::text, '')"
    return world.sql(f"SELECT tablename, attname FROM pg_stats WHERE {held} LIKE %s", f"%{text}%")


def _in_files(postgres: Server, world: World) -> list[str]:
    """The files of all tables that hold the text."""
    world.sql("CHECKPOINT")
    top = postgres.cluster.data / "base" if postgres.cluster is not None else None
    files = [path for path in top.rglob("*") if path.is_file()] if top is not None else []
    return [path.name for path in files if SECRET.encode() in path.read_bytes()]
