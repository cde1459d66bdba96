"""A simulated month of a team: nothing lost, nothing back, no conflict without concurrent changes.

Three members on five machines. `MONTH_DOCUMENTS` and `MONTH_EDITS` make it larger; 10,000 and 100,000 are
the whole. What must hold is asserted by the oracle of `tests/sync`, which knows who wrote and removed what
without asking the machines.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Rows = list[dict[str, object]]

DOCUMENTS, EDITS = int(os.environ.get("MONTH_DOCUMENTS", "1000")), int(os.environ.get("MONTH_EDITS", "10000"))


def measure() -> Rows:
    """One month."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from sync import month  # noqa: PLC0415  (the oracle lies with the tests)

    gc.disable()  # the facts of five machines stay until the end: to look at them again finds nothing
    try:
        lived, seconds = month.live(DOCUMENTS, EDITS, tell=DOCUMENTS > 2_000), time.process_time()
    finally:
        gc.enable()
    return [
        {
            "documents": lived.documents,
            "edits": lived.edits,
            "syncs": lived.syncs,
            "kills": lived.kills,
            "lost answers": lived.lost_answers,
            "partitions": lived.parted,
            "copied homes": lived.clones,
            "rolled back": lived.rolled_back,
            **lived.counts,
            "seconds": round(lived.seconds, 1),
            "of processor": round(seconds, 1),
        }
    ]
