"""A hub, its database, a clock or a file is wrong, and everything is a process of its own.

`vade hub serve`, `vade sync` and PostgreSQL are those that a person starts; what is read is what they print.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from allowing import allow
from hub.databases import GIVEN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hub.databases import Server

KEPT = "nothing is lost, and what was not sent waits here"
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long off(void) { const char *said = getenv("SECONDS_OFF"); return said ? atol(said) : 0; }
int clock_gettime(clockid_t id, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += off();
    return done;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    int done = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return done;
}
"""
YEAR = 31_557_600  # seconds
FULL = "vade: the hub says: the hub's database does not take anything now; it is full or read-only"
JOIN = "vade: the hub says: this token is not valid any more; join again with `vade hub join`"


def vade(*words: str, folder: Path, environment: dict[str, str] | None = None) -> Any:
    """A command as a person types it; nobody is shown where in the program it failed."""
    done = subprocess.run(
        [sys.executable, "-m", "vademecum", *words],
        cwd=folder,
        env={**os.environ, "VADE_SCRIPT": "tests", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr + done.stdout
    return done


class Typist:
    """A machine on which somebody types commands."""

    def __init__(self, base: Path, name: str) -> None:
        self.base, self.environment = base / name, dict[str, str]()
        (self.base / "project").mkdir(parents=True)
        allow(self.base / "home")
        self.top = self.base / "home/memory/global/records"

    def vade(self, *words: str) -> Any:
        given = (*words, "--home", str(self.base / "home"))
        return vade(*given, folder=self.base / "project", environment=self.environment)

    def do(self, *words: str) -> str:
        """A command that must succeed, and what it says."""
        done = self.vade(*words)
        assert (done.returncode, done.stderr) == (0, "")
        return str(done.stdout)

    def fail(self, *words: str) -> str:
        """A command that must fail, and its one line."""
        done = self.vade(*words)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.endswith("\n")
        assert done.stderr.count("\n") == 1
        return str(done.stderr[:-1])

    def add(self, key: str) -> None:
        self.do("add", f"Said of {key}.", "--key", key, "--scope", "global")
        assert f"Said of {key}." in self.do("search", f"what was said of {key}")

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.top.glob("*.md"))}


def edit(path: Path, old: str, new: str) -> None:
    """Change a file as a person does, in an editor."""
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


class Office:
    """A hub as whoever runs it started it, and two machines of one person."""

    def __init__(self, postgres: Server, database: str, base: Path) -> None:
        self.postgres, self.database, self.base = postgres, database, base
        self.name = str(psycopg.conninfo.conninfo_to_dict(database)["dbname"])
        self.log = base / "server.log"
        self.key = base / "hub.key"
        self.key.write_text("a key for tests, of at least 32 characters")
        self.key.chmod(0o600)
        self.port, self.secret = "0", ""
        self.server: subprocess.Popen[str] | None = None
        self.one, self.other = Typist(base, "one"), Typist(base, "other")

    def open(self) -> None:
        """Both machines have joined, and each has what the other said."""
        self.serve()
        self.join(self.one, self.code())
        self.one.add("machine-one")
        self.one.do("sync")
        self.join(self.other, self.invite())
        self.other.add("machine-other")
        self.meet()

    def code(self) -> str:
        admin = self.postgres.as_role(self.database, "hub_migrate")
        words = ("hub", "create", "ours", "--kind", "personal", "--owner", "anna", "--json")
        made = vade(*words, "--key-file", str(self.key), "--database", admin, folder=self.base)
        assert made.returncode == 0, made.stderr
        return str(json.loads(made.stdout)["code"])

    def join(self, machine: Typist, code: str) -> None:
        given = ("--key", self.secret) if self.secret else ()
        told = json.loads(machine.do("hub", "join", self.url, "--code", code, "--json", *given))
        self.secret = self.secret or told["key"]

    def invite(self) -> str:
        return str(json.loads(self.one.do("hub", "invite", "--json"))["code"])

    def serve(self, **environment: str) -> None:
        """Start `vade hub serve`, and wait until it says that it listens."""
        words = ["hub", "serve", "--port", self.port, "--key-file", str(self.key), "--json"]
        words += ["--database", self.postgres.as_role(self.database, "hub_app")]
        with self.log.open("ab") as log:
            self.server = subprocess.Popen(
                [sys.executable, "-m", "vademecum", *words],
                cwd=self.base,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            )
        assert self.server.stdout is not None
        said = ""
        for line in self.server.stdout:
            said += line
            if line == "}\n":
                break
        self.url = str(json.loads(said)["url"])
        self.port = self.url.rpartition(":")[2]

    def stop(self) -> None:
        assert self.server is not None
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(60)
        assert self.server.stdout is not None
        self.server.stdout.close()
        assert "Traceback" not in self.log.read_text()

    def sql(self, query: str) -> None:
        with self.postgres.connect() as connection:
            connection.execute(query)

    def cut(self) -> None:
        """End all connections of the hub, as a server that is started anew does."""
        self.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}'")

    def meet(self) -> None:
        for machine in (self.one, self.other, self.one):
            machine.do("sync")
        assert self.one.files() == self.other.files()


@pytest.fixture
def office(postgres: Server, database: str, tmp_path: Path) -> Iterator[Office]:
    made = Office(postgres, database, tmp_path)
    try:
        made.open()
        yield made
    finally:
        made.stop()


# ------------------------------------------------------------------------------- the database


def test_a_read_only_database_gives_what_it_has_takes_nothing_and_everything_waits(office: Office) -> None:
    one, other = office.one, office.other
    one.add("sent-before")
    one.do("sync")
    other.add("meanwhile")
    office.sql(f"ALTER DATABASE {office.name} SET default_transaction_read_only = on")
    office.cut()
    for _ in range(2):
        assert other.fail("sync") == f"{FULL}: {KEPT}"
        office.stop()
        office.serve()  # a hub starts over it, too
    assert b"Said of sent-before." in other.files()["sent-before.md"]
    assert "Said of sent-before." in other.do("search", "sent before", "--hub", "ours")
    assert "6 changes to send" in other.do("hub", "status")
    other.add("later")
    office.sql(f"ALTER DATABASE {office.name} RESET default_transaction_read_only")
    office.cut()
    office.meet()
    assert {"sent-before.md", "meanwhile.md", "later.md"} <= set(one.files())
    assert other.do("sync") == "ours: nothing new\n"


def dump(office: Office) -> str:
    assert office.postgres.cluster is not None
    file = str(office.postgres.cluster.folder / f"{office.name}.dump")
    office.postgres.cluster.run("pg_dump", "-Fc", "-f", file, office.database)
    return file


def restore(office: Office, file: str) -> None:
    assert office.postgres.cluster is not None
    office.sql(f"DROP DATABASE {office.name} WITH (FORCE)")
    office.sql(f"CREATE DATABASE {office.name} TEMPLATE template0")
    office.postgres.cluster.run("pg_restore", "--exit-on-error", "-d", office.database, file)


@pytest.mark.skipif(bool(GIVEN), reason="pg_dump is known of our own PostgreSQL alone")
def test_a_database_that_was_restored_under_a_running_hub_gets_back_what_machines_have(
    office: Office,
) -> None:
    one, other = office.one, office.other
    file = dump(office)
    one.add("after-the-backup")
    edit(other.top / "machine-one.md", "Said of machine-one.", "Edited after the backup.")
    office.meet()
    third = Typist(office.base, "third")
    office.join(third, office.invite())
    third.add("third-sent")
    third.do("sync")
    third.add("third-unsent")
    restore(office, file)
    one.add("after-the-restore")
    # The hub knows nothing of a machine that joined after the backup.
    assert third.fail("sync") == f"{JOIN}: {KEPT}"
    third.add("third-later")
    office.meet()
    office.join(third, office.invite())
    third.do("sync")
    office.meet()
    third.do("sync")
    assert one.files() == third.files()
    named = ("after-the-backup", "after-the-restore", "third-sent", "third-unsent", "third-later")
    assert {path: text.count(b"Said of") for path, text in one.files().items()} == {
        **{f"{each}.md": 1 for each in (*named, "machine-other")},
        "machine-one.md": 0,
    }
    assert one.files()["machine-one.md"].count(b"Edited after the backup.") == 1
    for machine in (one, other, third):
        assert machine.do("sync") == "ours: nothing new\n"


# ------------------------------------------------------------------------------- a clock


@pytest.fixture(scope="session")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that makes the clock of one process wrong."""
    folder = tmp_path_factory.mktemp("clock")
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler that makes a library for LD_PRELOAD")
    (folder / "clock.c").write_text(CLOCK)
    made = folder / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, folder / "clock.c", "-ldl"], check=True)
    return made


@pytest.mark.parametrize("years", [-10, 10])
def test_a_clock_that_is_ten_years_off_decides_nothing_on_a_machine_or_at_the_hub(
    office: Office, clock: Path, years: int
) -> None:
    one, other = office.one, office.other
    wrong = {"LD_PRELOAD": str(clock), "SECONDS_OFF": str(years * YEAR)}
    other.environment = wrong
    other.add("off")
    assert f"## {2026 + years}-".encode() in other.files()["off.md"]
    edit(other.top / "machine-one.md", "Said of machine-one.", "Edited by a wrong clock.")
    office.meet()
    assert "this machine's clock is 3,652 days off" in other.do("hub", "status")
    assert "clock" not in one.do("hub", "status")
    edit(one.top / "machine-one.md", "Edited by a wrong clock.", "Edited once more.")
    office.meet()
    assert b"Edited once more." in other.files()["machine-one.md"]
    assert b"Said of off." in one.files()["off.md"]
    other.environment = {}
    office.stop()
    office.serve(**wrong)
    one.add("at-a-wrong-hub")
    edit(other.top / "off.md", "Said of off.", "Edited by a right clock.")
    office.meet()
    assert b"Edited by a right clock." in one.files()["off.md"]
    assert b"Said of at-a-wrong-hub." in other.files()["at-a-wrong-hub.md"]
    third = Typist(office.base, "third")
    office.join(third, office.invite())
    third.do("sync")
    assert third.files() == one.files()


# ------------------------------------------------------------------------------- a file


def test_a_file_in_latin_1_is_named_and_left_alone_and_the_rest_is_synced(office: Office) -> None:
    one, other = office.one, office.other
    path, new = other.top / "machine-one.md", other.top / "typed.md"
    whole, typed = path.read_bytes(), "# Schlüssel\n\nGrüße.\n"
    spoilt = whole.replace(b"Said of", "Gesagt für".encode("latin-1"))
    path.write_bytes(spoilt)
    new.write_bytes(typed.encode("latin-1"))
    left = "".join(
        f"  not synced: memory/global/records/{each}: not UTF-8 at byte {text.index(byte)}\n"
        for each, text, byte in (
            ("machine-one.md", spoilt, b"\xfc"),
            ("typed.md", new.read_bytes(), b"\xfc"),
        )
    )
    assert other.do("sync") == f"global: 0 changes sent, 0 received\n{left}"
    saved = other.vade("add", "Said of beside.", "--key", "beside", "--scope", "global")
    assert (saved.returncode, saved.stderr) == (0, "")
    edit(one.top / "machine-one.md", "Said of machine-one.", "Edited meanwhile.")
    one.add("from-one")
    one.do("sync")
    assert other.do("sync").endswith(left)
    assert (path.read_bytes(), new.read_bytes()) == (spoilt, typed.encode("latin-1"))
    assert b"Said of from-one." in other.files()["from-one.md"]
    one.do("sync")
    assert b"Said of beside." in one.files()["beside.md"]
    assert b"Edited meanwhile." in one.files()["machine-one.md"]
    assert "typed.md" not in one.files()
    found = other.vade("search", "what was said of beside")
    assert (found.returncode, "Said of beside." in found.stdout) == (0, True)
    assert found.stderr.startswith(
        "vade: 2 files could not be read, first memory/global/records/machine-one.md"
    )
    assert found.stderr.count("\n") == 1
    path.write_bytes(whole)
    new.write_text(typed, "utf-8")
    office.meet()
    assert b"Edited meanwhile." in other.files()["machine-one.md"]
    assert typed in one.files()["typed.md"].decode()
