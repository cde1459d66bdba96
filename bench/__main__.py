"""`python -m bench [NAME] [--json]`: run one measurement, or all that need no data."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from typing import TYPE_CHECKING

from bench import (
    block,
    catalogue,
    chat,
    claims,
    clone,
    cold,
    contention,
    context,
    copies,
    hooks,
    hub,
    hubsearch,
    imports,
    install,
    labels,
    lifecycle,
    lint,
    mcp,
    month,
    nothing,
    own,
    prompts,
    reading,
    realistic,
    retrieval,
    same,
    scale,
    serve,
    shapes,
    signals,
    small_sets,
    speed,
    start,
    statements,
    stores,
    summary,
    sync,
    times,
    tool_texts,
    updates,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Rows = list[dict[str, object]]

BENCHES: dict[str, Callable[[], Rows]] = {
    "cold": cold.measure,
    "stores": stores.measure,
    "contention": contention.measure,
    "signals": signals.measure,
    "same": same.measure,
    "copies": copies.measure,
    "times": times.measure,
    "claims": claims.measure,
    "updates": updates.measure,
    "summary": summary.measure,
    "mcp": mcp.measure,
    "start": start.measure,
    "hooks": hooks.measure,
    "hub": hub.measure,
    "sync": sync.measure,
    "month": month.measure,
    "chat": chat.measure,
}


# Those that are told something on the command line, and make tables of their own.
WITH_OPTIONS: dict[str, Callable[[argparse.Namespace], dict[str, Rows]]] = {
    "retrieval": retrieval.measure,
    "block": block.measure,
    "prompts": prompts.measure,
    "nothing": lambda chosen: {"nothing": nothing.measure(chosen)},
    "scale": scale.measure,
    "catalogue": catalogue.measure,
    "serve": serve.measure,
    "shapes": shapes.measure,
    "labels": labels.measure,
    "hubsearch": hubsearch.measure,
    "speed": speed.measure,
    "clone": clone.measure,
    "context": context.measure,
    "reading": reading.measure,
    "realistic": realistic.measure,
    "own": own.measure,
    "lifecycle": lambda _: lifecycle.measure(),
    "install": lambda _: install.measure(),
    "lint": lint.measure,
    "imports": lambda chosen: {"imports": imports.measure(chosen), "memories": imports.measure_undo()},
    "statements": statements.measure,
    "tools": tool_texts.measure,
    **dict.fromkeys(small_sets.SETS, small_sets.measure),
}


def main() -> None:
    os.environ["VADE_SEARCH_BACKGROUND_READING"] = "false"  # it would work beside what is measured
    chosen = _parser().parse_args()
    if chosen.name in WITH_OPTIONS:
        results = WITH_OPTIONS[chosen.name](chosen)
    else:
        results = {name: BENCHES[name]() for name in ([chosen.name] if chosen.name else BENCHES)}
    if chosen.json:
        json.dump(results, sys.stdout, indent=2)
        print()
        return
    for name, rows in results.items():
        _print(name, rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    names = parser.add_subparsers(
        dest="name", metavar="NAME", help="which one; those without data when left out"
    )
    common = argparse.ArgumentParser(add_help=False)
    # No default here: a subcommand's default would undo a `--json` that stands before its name.
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    for name in BENCHES:
        names.add_parser(name, parents=[common], help=sys.modules[BENCHES[name].__module__].__doc__)
    public = names.add_parser(
        "retrieval", parents=[common], description=retrieval.__doc__, help="quality and speed"
    )
    retrieval.arguments(public)
    started = names.add_parser(
        "block",
        parents=[common],
        description=block.__doc__,
        help="what must be in the block at session start",
    )
    block.arguments(started)
    prompted = names.add_parser(
        "prompts", parents=[common], description=prompts.__doc__, help="records that prompts bring back"
    )
    prompts.arguments(prompted)
    names.add_parser(
        "lifecycle",
        parents=[common],
        description=lifecycle.__doc__,
        help="time of each pass, and how well near-duplicates are told apart",
    )
    names.add_parser(
        "install",
        parents=[common],
        description=install.__doc__,
        help="size of an install, start of its commands, a new user's way",
    )
    asked = names.add_parser(
        "nothing", parents=[common], description=nothing.__doc__, help="questions about nothing in the store"
    )
    nothing.arguments(asked)
    slow = names.add_parser(
        "reading", parents=[common], description=reading.__doc__, help="what the model that reads costs"
    )
    reading.arguments(slow)
    shaped = names.add_parser(
        "shapes", parents=[common], description=shapes.__doc__, help="quality by the shape of people's text"
    )
    shapes.arguments(shaped)
    labelled = names.add_parser(
        "labels", parents=[common], description=labels.__doc__, help="how far strong, likely and weak hold"
    )
    labels.arguments(labelled)
    served = names.add_parser(
        "serve", parents=[common], description=serve.__doc__, help="the page and the API under load"
    )
    serve.arguments(served)
    searched = names.add_parser(
        "hubsearch", parents=[common], description=hubsearch.__doc__, help="search on the hub and locally"
    )
    hubsearch.arguments(searched)
    everyday = names.add_parser(
        "realistic", parents=[common], description=realistic.__doc__, help="one developer's memory, as asked"
    )
    realistic.arguments(everyday)
    large = names.add_parser(
        "scale",
        parents=[common],
        description=scale.__doc__,
        help="time and memory by number of notes",
    )
    scale.arguments(large)
    sizes = names.add_parser(
        "catalogue",
        parents=[common],
        description=catalogue.__doc__,
        help="everyday commands by number of records",
    )
    catalogue.arguments(sizes)
    quick = names.add_parser(
        "speed", parents=[common], description=speed.__doc__, help="ratios to plain FTS5, in one run"
    )
    speed.arguments(quick)
    hostile = names.add_parser(
        "clone", parents=[common], description=clone.__doc__, help="commands in a large, untrusted clone"
    )
    clone.arguments(hostile)
    prepared = names.add_parser(
        "context", parents=[common], description=context.__doc__, help="preparing a request, guessing tokens"
    )
    context.arguments(prepared)
    copied = names.add_parser(
        "imports", parents=[common], description=imports.__doc__, help="importing transcripts"
    )
    imports.arguments(copied)
    looked = names.add_parser(
        "lint", parents=[common], description=lint.__doc__, help="lint of a folder beside grep"
    )
    lint.arguments(looked)
    ours = names.add_parser(
        "own", parents=[common], description=own.__doc__, help="conversations and journals of our own"
    )
    own.arguments(ours)
    understood = names.add_parser(
        "statements",
        parents=[common],
        description=statements.__doc__,
        help="sentences read, contradictions found",
    )
    statements.arguments(understood)
    offered = names.add_parser(
        "tools", parents=[common], description=tool_texts.__doc__, help="MCP tools told apart by their texts"
    )
    tool_texts.arguments(offered)
    for name in small_sets.SETS:
        small = names.add_parser(
            name, parents=[common], description=small_sets.__doc__, help="notes of our own, beside plain FTS5"
        )
        small_sets.arguments(small)
    return parser


def _print(name: str, rows: Rows) -> None:
    print(f"\n{name}")
    for headings, alike in itertools.groupby(rows, key=list):  # rows with the same columns are one table
        cells = [headings, *[[str(row[heading]) for heading in headings] for row in alike]]
        widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
        for row in cells:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":  # workers of a pool import this file too
    main()
