"""Stores per second, synced to disk, beside a bare write and sync of the same bytes."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.memory import connect

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 300


def measure() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        quiet = {"VADE_SWEEP": "off"}  # or the oldest would be summed up in the middle of it
        memory = connect(home=Path(folder, "home"), cwd=folder, environ=quiet)
        for number in range(1000):
            memory.store(f"Something kept before, number {number}.", key=f"before-{number}")

        def bare(number: int) -> None:
            fd = os.open(Path(folder, f"bare-{number}"), os.O_CREAT | os.O_WRONLY)
            os.write(fd, b"x" * 600)
            os.fsync(fd)
            os.close(fd)

        actions: dict[str, Callable[[int], object]] = {
            "a file of 600 bytes, written and synced": bare,
            "new record (1,000 there)": lambda n: memory.store(f"New fact {n}.", key=f"new-{n}"),
            "append to a record": lambda n: memory.store(f"One more fact {n}.", key="grows"),
            "replace in a record": lambda n: memory.store(f"Now it is {n}.", key="changes", mode="replace"),
            "confirm a record": lambda _: memory.store("Now it is so.", key="same"),
            "without a key (1,000 there)": lambda n: memory.store(
                f"{n * 7919} herons and {n**3} owls at {n}."
            ),
            "journal note": lambda n: memory.note(f"Saw heron number {n}."),
            "show": lambda n: memory.show(f"before-{n}"),
        }
        return [_row(name, action) for name, action in actions.items()]


def _row(name: str, action: Callable[[int], object]) -> dict[str, object]:
    seconds = []
    for number in range(COUNT):
        begun = time.perf_counter()
        action(number)
        seconds.append(time.perf_counter() - begun)
    seconds.sort()
    return {
        "what": name,
        "per second": round(COUNT / sum(seconds)),
        "p50 ms": round(seconds[COUNT // 2] * 1000, 2),
        "p99 ms": round(seconds[COUNT * 99 // 100] * 1000, 2),
    }
