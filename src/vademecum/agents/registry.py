"""Every agent that is known: those with a module beside this one, and those that other packages bring.

One is loaded when it is asked for by its name, all only for a list. Another package names its agent as an
entry point in the group `vademecum.agents`; a name that is ours stays ours.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from vademecum import agents
from vademecum.agents.base import Agent
from vademecum.errors import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

GROUP = "vademecum.agents"
# In lists these come first, in the order people know; all others follow by name.
_FIRST = ("clio", "cao", "openclaw", "co-cli", "claude-code", "codex", "cursor", "gemini", "kiro", "okf")


def find(name: str) -> Agent | None:
    """The agent of that name, without a look at any other; None when nobody knows it."""
    module = name.replace("-", "_")
    if module.isidentifier() and find_spec(f"{agents.__name__}.{module}") is not None:
        found = _shipped(module)
        if found is not None and found.name == name:
            return found
    entry = _outside().get(name)
    return None if entry is None else _loaded(entry)


@cache
def known() -> tuple[Agent, ...]:
    """All of them; a package whose agent cannot be loaded is left out, and told of when it is named."""
    found = {each.name: each for each in map(_shipped, _modules()) if each is not None}
    for name, entry in _outside().items():
        try:
            found.setdefault(name, _loaded(entry))
        except Malformed:
            continue
    first = {name: place for place, name in enumerate(_FIRST)}
    return tuple(sorted(found.values(), key=lambda each: (first.get(each.name, len(first)), each.name)))


def having(part: str) -> dict[str, Agent]:
    """Those that have a part, such as `hooks`, by name."""
    return {each.name: each for each in known() if getattr(each, part) is not None}


def _modules() -> list[str]:
    import pkgutil  # a hook, which knows the name, does without

    return [each.name for each in pkgutil.iter_modules(agents.__path__)]


def _shipped(module: str) -> Agent | None:
    """The agent of a module here; the few that serve the others have none."""
    found = getattr(import_module(f"{agents.__name__}.{module}"), "AGENT", None)
    return found if isinstance(found, Agent) else None


def _outside() -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=GROUP)}


def _loaded(entry: EntryPoint) -> Agent:
    try:
        found = entry.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise Malformed(
            f"the package that brings the agent {entry.name} cannot be loaded: {error}",
            hint="install another version of it, or take it away",
        ) from error
    if not isinstance(found, Agent) or found.name != entry.name:
        raise Malformed(
            f"{entry.value} is not an agent named {entry.name}",
            hint="it has to be a value of vademecum.agents.base.Agent",
        )
    return found
