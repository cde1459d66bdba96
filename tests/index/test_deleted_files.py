"""Index files that are deleted under a running server come back, and no answer is missed meanwhile."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from mcp_door.talking import call, home_of, over_http, over_stdio, served, talk
from vademecum.index.sqlite import NOTES
from vademecum.index.upkeep import IndexFile
from vademecum.memory import connect
from vademecum.store.home import Home
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def delete_all(home: Path) -> None:
    for each in (home / "index").iterdir():
        each.unlink()


def delete_folder(home: Path) -> None:
    shutil.rmtree(home / "index")


def delete_logs(home: Path) -> None:
    for each in (home / "index").glob("*-*"):
        each.unlink()


def made_by_another(home: Path) -> None:
    delete_all(home)
    other = connect(home=home, cwd=home.parent / "project", agent="main", origin=Origin.USER)
    assert other.search("billing").results
    other.close()


DELETED: list[Callable[[Path], None]] = [delete_all, delete_folder, delete_logs, made_by_another]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / ".git").mkdir(parents=True)
    return made


async def checked(client: Any, home: Path) -> None:
    await call(client, "memory_store", content="The billing database is on port 5544.", key="billing")
    for number, delete in enumerate(DELETED):
        found = await call(client, "memory_search", query="billing port")
        assert "5544" in str(found), delete
        delete(home)
        await call(client, "memory_store", content=f"Train {number} leaves at noon.", key=f"train-{number}")
        found = await call(client, "memory_search", query=f"train {number} noon")
        assert f"Train {number} leaves" in str(found), delete
        assert "5544" in str(await call(client, "memory_search", query="billing port")), delete
        assert (home / "index/main.db").is_file(), delete
        await call(client, "memory_search", query="anything", sources=["transcript"])


@pytest.mark.full(but=1)
@pytest.mark.parametrize("http", [False, True], ids=["stdio", "http"])
def test_index_files_deleted_under_a_server_come_back(folder: Path, http: bool) -> None:
    async def conversation() -> None:
        if not http:
            async with over_stdio(folder) as client:
                await checked(client, home_of(folder))
            return
        with served(folder) as address:
            async with over_http(address) as client:
                await checked(client, home_of(folder))

    talk(conversation)
    memory = connect(home=home_of(folder), cwd=folder, agent="main", origin=Origin.USER)
    report = memory.care.index(check=True)
    assert (report.files, report.indexed, report.degraded) == (1 + len(DELETED), 1 + len(DELETED), [])


def test_letting_go_of_a_deleted_index_leaves_the_log_of_its_successor_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    stale = IndexFile(home, tmp_path / "home/index/main.db", NOTES)
    stale.open()
    delete_all(home.path)
    successor = IndexFile(home, tmp_path / "home/index/main.db", NOTES)
    made = successor.open().stats().settings["made"]
    log = (tmp_path / "home/index/main.db-wal").stat().st_ino
    assert stale.open().stats().settings["made"] == made
    assert (tmp_path / "home/index/main.db-wal").stat().st_ino == log
    stale.close()
    successor.close()
