"""Who is told that a server is ready can stop it at that very moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

_OPEN = """
import asyncio, os, signal, time
from vademecum.interfaces.mcp import http

async def nothing(scope, receive, send):
    while (await receive())["type"] != "lifespan.shutdown":
        await asyncio.sleep(SLOW)
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})

http.run_server(nothing, http.listen(0), ready=lambda: os.kill(os.getpid(), signal.SIG_NAME))
time.sleep(SLOW)
print("ended")
"""


@pytest.mark.full(but=1)
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("slow", [0, 2], ids=["at once", "with a slow start and much to close"])
@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_server_that_is_stopped_as_soon_as_it_says_it_is_ready_ends_in_good_order(
    name: str, slow: int
) -> None:
    code = _OPEN.replace("SIG_NAME", f"SIG{name}").replace("SLOW", str(slow))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
