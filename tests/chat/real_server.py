"""Serve a real, tiny model on loopback as llama.cpp does: `python real_server.py PACKAGES WINDOW`."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any


def main(packages: str, window: int) -> None:
    sys.path.insert(0, packages)
    llama: Any = import_module("xllamacpp")
    given = llama.CommonParams()
    given.model.path = str(next(Path(packages).rglob("SmolLM2*.gguf")))
    given.n_ctx, given.n_parallel, given.ctx_shift = window, 1, False
    given.hostnames, given.port = ["127.0.0.1"], 0
    server = llama.Server(given)
    print(server.listening_address, flush=True)
    time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
