"""`python -m bench [cold|stores|contention] [--json]`: run one measurement or all."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from bench import cold, contention, stores

if TYPE_CHECKING:
    from collections.abc import Callable

BENCHES: dict[str, Callable[[], list[dict[str, object]]]] = {
    "cold": cold.measure,
    "stores": stores.measure,
    "contention": contention.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=sorted(BENCHES), help="which one; all when left out")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args()
    results = {name: BENCHES[name]() for name in ([chosen.name] if chosen.name else BENCHES)}
    if chosen.json:
        json.dump(results, sys.stdout, indent=2)
        print()
        return
    for name, rows in results.items():
        print(f"\n{name}")
        headings = list(rows[0])
        cells = [headings, *[[str(row[heading]) for heading in headings] for row in rows]]
        widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
        for row in cells:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":  # workers of a pool import this file too
    main()
