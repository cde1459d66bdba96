"""`vade hub demo`: two machines sync through a real hub with a real PostgreSQL, and each step is checked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from vademecum.errors import NotFound, Refused
from vademecum.interfaces.cli.demo import StepFailed, Tour, expect, run_steps, show_result
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory.sync import PlaceSynced

_SECRET_PLAN = "The party for Mira is on Friday."


@click.command("demo")
@click.option(
    "--database",
    metavar="URL",
    envvar="VADE_TEST_DATABASE",
    help="A PostgreSQL to use as a superuser, instead of starting one; the demo's database is dropped.",
)
@common
def demo(database: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """Watch two machines sync through a hub.

    Starts a PostgreSQL, a hub and two memory folders of their own in temporary folders, and removes them at
    the end. Your own memory is not touched.
    """
    if not as_json:
        output.line("Starting PostgreSQL, a hub and two memory folders…")
        sys.stdout.flush()
    with _ended_by_signals(), tempfile.TemporaryDirectory(prefix="vade-hub-demo-") as folder:
        top = Path(folder)
        with _database(database) as databases, _served(databases, top) as url:
            tour = HubTour(top, databases, url, quiet=as_json)
            played = run_steps(TOUR, tour)
    show_result(played, "Hub, database and folders are gone.", as_json=as_json)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that the demo stops the processes that it has started."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Databases(NamedTuple):
    """The URLs of the demo's database, one for each role that uses it."""

    superuser: str
    operator: str
    application: str


@contextlib.contextmanager
def _database(given: str | None) -> Iterator[Databases]:
    """Create the demo's database in the given PostgreSQL or in a temporary server; yield its URLs."""
    from vademecum_hub.cluster import temporary_database

    with temporary_database(given) as address:
        yield Databases(address(""), address("hub_migrate"), address("hub_app"))


@contextlib.contextmanager
def _served(databases: Databases, top: Path) -> Iterator[str]:
    """Run `vade hub serve` as a process; yield its URL as soon as it accepts connections."""
    words = [sys.executable, "-m", "vademecum", "hub", "serve", "--port", "0", "--json", "--home", str(top)]
    server = subprocess.Popen(
        [*words, "--database", databases.application],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,  # Ctrl-C goes to the demo, which then stops the server
    )
    try:
        assert server.stdout is not None
        text = ""
        for line in server.stdout:
            text += line
            if line == "}\n":
                break
        expect(bool(text) and "url" in json.loads(text), "the hub to start")
        yield str(json.loads(text)["url"])
    finally:
        server.terminate()
        server.communicate()


class HubTour:
    """The demo's two machines of one person, and the hub between them."""

    def __init__(self, top: Path, databases: Databases, url: str, *, quiet: bool) -> None:
        self.databases, self.url, self.key = databases, url, ""
        self.top, self.key_file = top, top / "hub.key"
        for name in ("desktop", "laptop"):
            (top / name).mkdir()
        self.desktop = Tour(top / "desktop", quiet=quiet)
        self.laptop = Tour(top / "laptop", quiet=quiet)
        self.print_step = self.desktop.print_step

    def sync(self, *machines: Tour) -> list[PlaceSynced]:
        """Sync one machine after another; return the result of the last machine."""
        from vademecum.memory import sync as syncing

        done: list[PlaceSynced] = []
        for each in machines:
            _, done = syncing.run_hub(each.memory(), "", None)
        return done

    def path(self, machine: Tour, key: str) -> Path:
        """Return the path of a global record's file on a machine."""
        return machine.home / "memory/global/records" / f"{key}.md"

    def change(self, machine: Tour, key: str, old: str, new: str) -> None:
        """Replace a text in a record's file, as a person with an editor would."""
        path = self.path(machine, key)
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")

    def ask(self, query: str) -> Any:
        """Run a query as the database's superuser; return the first value of the result."""
        from vademecum_hub import listen

        with listen.connect(self.databases.superuser) as connection:
            row = connection.execute(query).fetchone()
        return row[0] if row else None

    def count(self, text: str) -> int:
        """Return the number of facts in the database that contain a text."""
        return int(
            self.ask(
                f"SELECT count(*) FROM hub.fact WHERE position('{text}' IN convert_from(value, 'UTF8')) > 0"
            )
        )


def meet_at_a_hub(tour: HubTour) -> str:
    """Join a new workspace from two machines, with a code each and a key that the hub never sees."""
    from vademecum.memory import sync as syncing
    from vademecum_hub import administration, listen

    keys = listen.load_keys(tour.key_file, make=False)
    made = administration.create_workspace(
        tour.databases.operator, keys, "mine", kind="personal", owner="ada"
    )
    one, two = tour.desktop.memory().home, tour.laptop.memory().home
    joined = syncing.membership.join_hub(one, tour.url, made["code"], label="desktop")
    tour.key = syncing.new_key()
    syncing.hub_key.keep_hub_key(one, joined, tour.key)
    tour.desktop.memory().store("Deploys run on Fridays.", key="deploys", scope="global")
    tour.sync(tour.desktop)
    client = syncing.membership.client_of(one, joined)
    code = client.ask("POST", "/v1/invites", b"{}").json()["code"]
    client.close()
    there = syncing.membership.join_hub(two, tour.url, code, label="laptop")
    try:
        syncing.hub_key.keep_hub_key(two, there, syncing.new_key())
    except Refused as error:
        message = str(error)
    else:
        raise StepFailed("the demo expected a wrong key to be refused")
    syncing.hub_key.keep_hub_key(two, there, tour.key)
    return tour.print_step(
        "Join a hub from two machines, with a code each and one key",
        f"desktop: vade hub join {tour.url}, code {made['code']}",
        f"desktop shows the key: {syncing.spell_key(tour.key)}",
        f"laptop:  vade hub join {tour.url}, code {code}",
        f"laptop types a wrong key: {message}",
    )


def sync_a_record(tour: HubTour) -> str:
    """Sync a record from one machine to the other, byte for byte."""
    tour.sync(tour.laptop)
    one, two = (tour.path(each, "deploys").read_bytes() for each in (tour.desktop, tour.laptop))
    expect(one == two, "the same bytes on both machines")
    found = tour.laptop.memory().search("when do we deploy?").results
    expect(bool(found) and "deploys" in found[0].path, "the laptop to find it")
    again = tour.sync(tour.laptop)
    expect(not any(each.done.sent or each.done.received for each in again), "nothing new to be exchanged")
    return tour.print_step(
        "Save on the desktop, sync both: the laptop has the same file", f"{found[0].path}: {found[0].snippet}"
    )


def keep_both_versions(tour: HubTour) -> str:
    """Edit one entry on both machines between syncs: both versions stay on both machines."""
    tour.change(tour.desktop, "deploys", "on Fridays", "on Mondays")
    tour.change(tour.laptop, "deploys", "on Fridays", "every night")
    tour.sync(tour.desktop)
    done = tour.sync(tour.laptop)
    conflicts = [path for each in done for path in each.done.conflicts]
    tour.sync(tour.desktop)
    one, two = (tour.path(each, "deploys").read_text() for each in (tour.desktop, tour.laptop))
    expect(one == two and "on Mondays" in one and "every night" in one, "both versions on both machines")
    expect(conflicts == ["records/deploys.md"], "the conflict to be named")
    texts = [entry.text for entry in tour.laptop.memory().show("deploys").entries]
    return tour.print_step(
        "Edit the same entry on both: both versions are kept, one below the other",
        *texts,
        f"two versions: {conflicts[0]}; `vade review` decides",
    )


def stay_forgotten(tour: HubTour) -> str:
    """Forget a record on one machine while the other edits it: the record stays forgotten."""
    tour.desktop.memory().store("The old wiki is at wiki.example.", key="old-wiki", scope="global")
    tour.sync(tour.desktop, tour.laptop)
    tour.desktop.memory().forget("old-wiki")
    tour.sync(tour.desktop)
    tour.change(tour.laptop, "old-wiki", "wiki.example", "wiki2.example")
    done = tour.sync(tour.laptop)
    tour.sync(tour.desktop, tour.laptop)
    for each in (tour.desktop, tour.laptop):
        try:
            each.memory().show("old-wiki")
        except NotFound as error:
            message = str(error)
        else:
            raise StepFailed("the demo expected a forgotten record to stay forgotten")
    archived = [path for each in done for path in each.done.archived]
    expect(archived == ["records/old-wiki.md"], "the edited text in the archive")
    return tour.print_step(
        "Forget on the desktop what the laptop edits meanwhile: it stays forgotten, and the edit is archived",
        f"on both: {message}",
        f"in the laptop's archive: {archived[0]}",
    )


def purge_everywhere(tour: HubTour) -> str:
    """Purge a record on one machine: it is gone from the other machine and from the database."""
    tour.desktop.memory().store(_SECRET_PLAN, key="party", scope="global")
    tour.sync(tour.desktop, tour.laptop)
    expect(tour.path(tour.laptop, "party").exists(), "the record on the laptop")
    expect(tour.count(_SECRET_PLAN) == 1, "the text in the database")
    tour.desktop.memory().archive.purge("party")
    tour.sync(tour.desktop, tour.laptop, tour.desktop)
    words = _SECRET_PLAN.encode()
    for each in (tour.desktop, tour.laptop):
        leftovers = [path for path in each.home.rglob("*") if path.is_file() and words in path.read_bytes()]
        expect(not leftovers, "no file of either machine to hold it")
    expect(tour.count(_SECRET_PLAN) == 0, "the database not to hold it")
    return tour.print_step(
        "Purge on the desktop: the text is gone on the laptop, too, and from the database",
        "files of the desktop, files of the laptop, rows of the database with it: 0, 0, 0",
    )


def look_into_the_database(tour: HubTour) -> str:
    """Read the database: it has facts, and no key; an export has the same files as the machines."""
    facts = tour.ask("SELECT count(*) FROM hub.fact")
    size = tour.ask("SELECT pg_size_pretty(sum(length(value))) FROM hub.fact")
    with tempfile.TemporaryDirectory(prefix="vade-hub-demo-") as folder:
        from vademecum_hub import workspace_export

        made = workspace_export.export_hub(tour.databases.operator, Path(folder, "out"))
        top = Path(folder, "out", made.workspaces[0])
        exported = (top / "global/records/deploys.md").read_bytes()
    expect(exported == tour.path(tour.laptop, "deploys").read_bytes(), "an export to have the same bytes")
    expect(tour.count(tour.key) == 0, "the key not to be in the database")
    return tour.print_step(
        "Look into the database: facts that are only ever added, and never the key",
        f"{facts} facts with {size}; `vade hub export` gives the same files as the machines have",
    )


TOUR: tuple[Callable[[HubTour], str], ...] = (
    meet_at_a_hub,
    sync_a_record,
    keep_both_versions,
    stay_forgotten,
    purge_everywhere,
    look_into_the_database,
)
