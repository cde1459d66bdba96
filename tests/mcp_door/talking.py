"""How the tests speak to the server: the SDK's own client over pipes, over sockets, or in one process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from vade_command import VADE
from vademecum.interfaces.mcp import sdk as serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

ERAS = ("legacy", "2026-07-28")
HANG = 60.0  # seconds after which something is stuck, on however slow a machine


def talk(conversation: Callable[[], Awaitable[None]]) -> None:
    """Hold a conversation; one that hangs fails."""

    async def bounded() -> None:
        with anyio.fail_after(2 * HANG):
            await conversation()

    anyio.run(bounded)


@contextlib.asynccontextmanager
async def over_stdio(folder: Path, *options: str, era: str = "legacy", **more: Any) -> AsyncIterator[Client]:
    """A client of `vade mcp`, whose project is the folder and whose home lies beside it."""
    started = StdioServerParameters(
        command=VADE,
        args=["mcp", "--home", str(home_of(folder)), *options],
        cwd=folder,
        env={"HOME": os.environ["HOME"], "PATH": os.environ["PATH"]},
    )
    async with Client(stdio_client(started), mode=era, **more) as client:
        yield client


@contextlib.asynccontextmanager
async def in_process(
    folder: Path, *, era: str = "legacy", tools: str = "all", session: str | None = "s1", **more: Any
) -> AsyncIterator[Client]:
    """A client of the same server without a process between them."""
    asking = more.pop("elicitation_callback", None)
    options = {"home": home_of(folder), "cwd": folder, "session": session, **more}
    server, seats = serving.make(options, tools=tools, own_session=True)
    async with Client(server, mode=era, elicitation_callback=asking) as client:
        yield client
    seats.close()


class Address(NamedTuple):
    """Where a server listens, and the token it wants."""

    url: str
    token: str
    process: subprocess.Popen[str]


@contextlib.contextmanager
def served(folder: Path, *options: str) -> Iterator[Address]:
    """`vade mcp --http` on a free port."""
    process = subprocess.Popen(
        [VADE, "mcp", "--http", "--port", "0", "--json", "--home", str(home_of(folder)), *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        told = ""
        while not told.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            told += line
        address_line = json.loads(told)
        token = Path(address_line["token_file"]).read_text().strip() if address_line["token_file"] else ""
        yield Address(address_line["url"], token, process)
    finally:
        process.terminate()
        process.communicate(timeout=HANG)


@contextlib.asynccontextmanager
async def over_http(address: Address, *, era: str = "legacy") -> AsyncIterator[Client]:
    """A client with the token."""
    headers = {"Authorization": f"Bearer {address.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=HANG) as sending,
        Client(streamable_http_client(address.url, http_client=sending), mode=era) as client,
    ):
        yield client


def home_of(folder: Path) -> Path:
    """The home that goes with a project's folder in these tests."""
    return folder.parent / f"{folder.name}-home"


async def call(client: Client, name: str, /, **given: Any) -> dict[str, Any]:
    """The data that a tool answers; an error fails."""
    result = await client.call_tool(name, given)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    content = result.content[0]
    assert content.type == "text"
    assert json.loads(content.text) == result.structured_content  # the same for clients that only read text
    return result.structured_content


async def refusal(client: Client, name: str, given: dict[str, Any]) -> str:
    """What a tool says that cannot do what was asked."""
    result = await client.call_tool(name, given)
    assert result.is_error
    content = result.content[0]
    assert content.type == "text"
    assert "Traceback" not in content.text
    assert "\ntry: " in content.text
    return content.text


def read_record(folder: Path, key: str) -> str:
    """The file of a project's record."""
    (path,) = home_of(folder).glob(f"memory/*/**/records/{key}.md")
    return path.read_text()
