"""The command line, `vade`."""

from __future__ import annotations


def main() -> None:
    """Run the command line and leave with its exit code."""
    from vademecum.interfaces.cli.app import run

    raise SystemExit(run())
