"""The command line, `vade`."""

from __future__ import annotations


def main() -> None:
    """Run the command line and leave with its exit code."""
    import gc

    gc.set_threshold(50_000, 20, 20)  # a twentieth of a short command's time went into looking for garbage
    from vademecum.interfaces.cli.app import run

    raise SystemExit(run())
