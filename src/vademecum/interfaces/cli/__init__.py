"""The command line, `vade`."""

from __future__ import annotations

AUDIENCES = ("private", "group")
FAMILIES = ("core", "co-cli", "clio", "all")  # of tools


def main() -> None:
    """Run the command line and leave with its exit code."""
    import gc
    import sys

    gc.set_threshold(50_000, 20, 20)  # a twentieth of a short command's time went into looking for garbage
    if sys.argv[1:2] == ["hook"]:
        _hook(sys.argv[2:])
    if sys.argv[1:2] == ["mcp"]:
        _mcp(sys.argv[2:])
    if sys.argv[1:2] == ["--home"] and sys.argv[3:4] == ["mcp"]:  # as `vade install` writes it
        _mcp([*sys.argv[1:3], *sys.argv[4:]])
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


def _mcp(words: list[str]) -> None:
    """Serve an agent without the command tree: agents send their first request to a model without waiting.

    What is not simply one of these options, help and mistakes too, is left to the command tree.
    """
    options: dict[str, str | bool | None] = dict.fromkeys(("home", "agent", "session", "audience", "client"))
    options["tools"] = "core"
    rest = iter(words)
    for word in rest:
        name, _, value = word.removeprefix("--").partition("=")
        if word == "--incognito":
            options["incognito"] = True
        elif word.startswith("--") and name in options:
            options[name] = value or next(rest, "")
        else:
            return
    family = str(options.pop("tools"))
    fits = options["audience"] in (None, *AUDIENCES) and family in FAMILIES
    if fits and not any(isinstance(each, str) and each[:1] in ("", "-") for each in options.values()):
        from vademecum.interfaces.mcp.stdio import serve

        serve(options, tools=family)
