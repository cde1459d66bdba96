"""Sixteen processes appending to one key, every append synced: none lost, and how long each waits."""

from __future__ import annotations

import itertools
import multiprocessing
import tempfile
import time
from pathlib import Path

from vademecum.memory import connect

WRITERS, APPENDS = 16, 50


def measure() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        begun = time.perf_counter()
        with multiprocessing.get_context("spawn").Pool(WRITERS) as pool:
            waits = pool.map(_write, [(folder, writer) for writer in range(WRITERS)])
        seconds = time.perf_counter() - begun
        taken = sorted(itertools.chain.from_iterable(waits))
        entries = len(connect(home=Path(folder, "home"), cwd=folder, environ={}).show("shared").entries)
    return [
        {
            "writers": WRITERS,
            "appends": WRITERS * APPENDS,
            "present": entries,
            "per second": round(len(taken) / seconds),
            "p50 ms": round(taken[len(taken) // 2] * 1000, 1),
            "p99 ms": round(taken[len(taken) * 99 // 100] * 1000, 1),
        }
    ]


def _write(job: tuple[str, int]) -> list[float]:
    folder, writer = job
    memory = connect(home=Path(folder, "home"), cwd=folder, environ={})
    seconds = []
    for number in range(APPENDS):
        begun = time.perf_counter()
        memory.store(f"Writer {writer} says {number}.", key="shared")
        seconds.append(time.perf_counter() - begun)
    return seconds
