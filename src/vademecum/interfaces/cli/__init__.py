"""The command line, `vade`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

AUDIENCES = ("private", "group")
FAMILIES = (
    "core",
    "cao",
    "clio",
    "co-cli",
    "openclaw",
    "all",
)  # the sets of tools that `vade mcp --tools` serves


def main() -> None:
    """Run the command line and end the process with its exit code."""
    import gc
    import sys

    # With the default, collecting takes a twentieth of a short command's time.
    gc.set_threshold(50_000, 20, 20)
    if sys.argv[1:2] == ["hook"]:
        call_hook(sys.argv[2:])
    if sys.argv[1:2] == ["mcp"]:
        serve_mcp(sys.argv[2:])
    if sys.argv[1:2] == ["--home"] and sys.argv[3:4] == ["mcp"]:  # as `vade install` writes it
        serve_mcp([*sys.argv[1:3], *sys.argv[4:]])
    from vademecum.interfaces.cli.app import run

    end_process(run())


def end_process(code: int) -> NoReturn:
    """End the process without freeing its memory, which takes a sixth of a short command's time.

    A process in which another thread runs, or whose output cannot be written, ends as usual.
    """
    import atexit
    import os
    import sys

    threading = sys.modules.get("threading")
    if threading is None or threading.active_count() == 1:
        try:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            raise SystemExit(code) from None
        os._exit(code)
    raise SystemExit(code)


def call_hook(words: list[str]) -> None:
    """Answer an agent's hook without loading the command tree, which takes longer than the answer."""
    agent, event, option, home = (*words, "", "", "", "")[:4]
    if len(words) in (2, 4) and option in ("", "--home") and "-" not in (agent[:1], event[:1]):
        from vademecum.interfaces.hooks.deadline import answer

        answer(agent, event, home=home or None)


def serve_mcp(words: list[str]) -> None:
    """Serve an agent without loading the command tree, because agents do not wait for a slow start.

    Words that are not simply one of these options, such as `--help` or a mistake, go to the command tree.
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
    if fits and not any(isinstance(option, str) and option[:1] in ("", "-") for option in options.values()):
        from vademecum.interfaces.mcp.stdio import serve

        serve(options, tools=family)
