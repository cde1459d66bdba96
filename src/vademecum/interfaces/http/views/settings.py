"""Settings: every one with its value, what it means, and where the value came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum import config
from vademecum.interfaces.http.pages import Ask, PageView

if TYPE_CHECKING:
    from vademecum.memory import Memory


def list_settings(memory: Memory, words: str = "", *, changed: bool = False) -> dict[str, Any]:
    """The settings by group, with all the words; with `changed`, only those not at their default."""
    loaded = memory.workspace.loaded
    wanted = words.lower().split()
    found = [
        _row(name, value, loaded.origins[name]) for name, value in config.flatten(loaded.settings).items()
    ]
    shown = [
        each
        for each in found
        if (not changed or each["changed"])
        and all(word in f"{each['name']} {each['meaning']}".lower() for word in wanted)
    ]
    groups: dict[str, list[dict[str, Any]]] = {}
    for each in shown:
        group, dot, _ = each["name"].rpartition(".")
        groups.setdefault(group if dot else "general", []).append(each)
    return {
        "file": str(memory.home.path / config.FILE_NAME),
        "groups": [{"name": name, "settings": rows} for name, rows in groups.items()],
        "total": len(found),
        "matching": len(shown),
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
        "from": origin,
        "changed": value != known.default,
        "default": known.render(known.default),
        "meaning": known.meaning,
        "environment": "" if known.only_file else known.environment,
    }


def _repository(shared: config.Shared | None) -> dict[str, Any] | None:
    """What the settings file of the repository sets, or would set if it were trusted."""
    if shared is None:
        return None
    return {
        "path": str(shared.path),
        "trusted": shared.trusted,
        "sets": [{"name": each.name, "value": str(each.value)} for each in shared.wanted],
        "ignored": [str(each) for each in shared.problems],
    }


def data(ask: Ask) -> dict[str, Any]:
    """Settings: `?q=WORDS` narrows them down, `?changed=yes` leaves those at their default out."""
    return list_settings(ask.memory, ask.query.get("q", "")[:200], changed=ask.query.get("changed") == "yes")


VIEW = PageView("/settings", "Settings", data, "settings.html", icon="settings", key=",")
