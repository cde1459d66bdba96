"""The command line, `vade`."""

from __future__ import annotations


def main() -> None:
    """Run the command line and leave with its exit code."""
    import gc
    import sys

    gc.set_threshold(50_000, 20, 20)  # a twentieth of a short command's time went into looking for garbage
    if sys.argv[1:2] == ["hook"]:
        _hook(sys.argv[2:])
    from vademecum.interfaces.cli.app import run

    code = run()
    gc.freeze()  # nor is there any to look for when all of it goes at once
    raise SystemExit(code)


def _hook(words: list[str]) -> None:
    """Answer an agent's hook without the command tree, which would take longer than the answer."""
    agent, event, option, home = (*words, "", "", "", "")[:4]
    if len(words) in (2, 4) and option in ("", "--home") and "-" not in (agent[:1], event[:1]):
        from vademecum.interfaces.hooks.deadline import answer

        answer(agent, event, home=home or None)
