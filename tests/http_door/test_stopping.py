"""Who is told that a server is ready can stop it at that very moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

_OPEN = """
import os, signal
from vademecum.interfaces.mcp import http

async def nothing(scope, receive, send):
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})

http.run_guarded(nothing, http.listen(0), ready=lambda: os.kill(os.getpid(), signal.SIG_NAME))
print("ended")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_server_that_is_stopped_as_soon_as_it_says_it_is_ready_ends_in_good_order(name: str) -> None:
    code = _OPEN.replace("SIG_NAME", f"SIG{name}")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
