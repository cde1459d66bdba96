"""Settings: each with its value, its meaning, and the origin of the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum import config
from vademecum.interfaces.http.pages import PageView, ViewRequest

if TYPE_CHECKING:
    from vademecum.memory import Memory


def list_settings(memory: Memory, words: str = "", *, changed: bool = False) -> dict[str, Any]:
    """Return the settings by group that match all the words; with `changed`, only those that differ from
    their default.
    """
    loaded = memory.workspace.loaded
    wanted = words.lower().split()
    found = [
        _row(name, value, loaded.origins[name]) for name, value in config.flatten(loaded.settings).items()
    ]
    rows = [
        each
        for each in found
        if (not changed or each["changed"])
        and all(word in f"{each['name']} {each['meaning']}".lower() for word in wanted)
    ]
    groups: dict[str, list[dict[str, Any]]] = {}
    for each in rows:
        group, dot, _ = each["name"].rpartition(".")
        groups.setdefault(group if dot else "general", []).append(each)
    return {
        "file": str(memory.home.path / config.FILE_NAME),
        "own": [each for each in rows if each["changed"]],
        "groups": [{"name": name, "settings": rows} for name, rows in groups.items()],
        "total": len(found),
        "matching": len(rows),
        "changed": sum(each["changed"] for each in found),
        "words": words,
        "only_changed": changed,
        "warnings": list(loaded.warnings),
        "repository": _repository(loaded.shared),
    }


def _row(name: str, value: object, origin: str) -> dict[str, Any]:
    known = config.SETTINGS[name]
    return {
        "name": name,
        "value": known.render(value),
        "from": _origin(origin),
        "from_file": config.FILE_NAME in origin,
        "changed": value != known.default,
        "default": known.render(known.default),
        "meaning": known.meaning,
        "environment": "" if known.only_file else known.environment,
    }


def _origin(origin: str) -> str:
    """Return the source of a value in words; flags are those with which the server was started."""
    return "how the server was started" if origin.startswith("flag ") else origin


def _repository(shared: config.Shared | None) -> dict[str, Any] | None:
    """Return the settings that the repository's file sets, or would set if the project were trusted."""
    if shared is None:
        return None
    return {
        "path": str(shared.path),
        "trusted": shared.trusted,
        "sets": [{"name": each.name, "value": str(each.value)} for each in shared.wanted],
        "ignored": [str(each) for each in shared.problems],
    }


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the page: `?q=WORDS` filters the settings, `?changed=yes` leaves out those at their default."""
    return list_settings(ask.memory, ask.query.get("q", "")[:200], changed=ask.query.get("changed") == "yes")


VIEW = PageView("/settings", "Settings", data, "settings.html", icon="settings", key=",")
