"""The JSON of the version before shapes were declared, for programs that still read it.

Goes with the setting `output.json_shape`, in the next version.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# What was a bare list, or an object of names, has the one field that holds it.
_BARE = {
    "audit": "lines",
    "checks": "checks",
    "forgotten": "forgotten",
    "lessons": "lessons",
    "projects": "projects",
    "session_lines": "lines",
    "sessions": "sessions",
    "sessions_imported": "imported",
    "settings": "settings",
    "sources": "sources",
}
# What was camelCase beside snake_case.
_CAMEL = {
    "block": ("left_out",),
    "graph": ("from_path", "to_path"),
    "index_report": ("vectors_pending",),
    "installed": ("dry_run",),
    "lessons": ("first_confirmed", "last_confirmed"),
    "lint": ("start_line", "end_line", "scope_id"),
    "projects": ("joined_to",),
    "record": ("start_line", "end_line"),
    "source": ("folders_left_out",),
    "sources": ("folders_left_out",),
    "status": ("vectors_pending",),
    "whole_status": ("vectors_pending", "repository_settings"),
}
# Where a finding was told without its lines and scope.
_FINDINGS = {
    "audit_verified": "problems",
    "listing": "findings",
    "status": "findings",
    "whole_status": "findings",
}
_FINDING = ("what", "where", "why", "mend", "severity")


def to_old(name: str, made: dict[str, Any]) -> Any:
    """An object of the shape with that name, as it was before."""
    found: Any = dict(made)
    if name in _FINDINGS:
        field = _FINDINGS[name]
        found[field] = [{part: each[part] for part in _FINDING} for each in found[field]]
    if name in _CAMEL:
        found = _renamed(found, {each: _camel(each) for each in _CAMEL[name]})
    if name in _OTHERS:
        found = _OTHERS[name](found)
    return found[_BARE[name]] if name in _BARE else found


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(name, name): _renamed(each, names) for name, each in value.items()}
    return [_renamed(each, names) for each in value] if isinstance(value, list) else value


def _camel(name: str) -> str:
    return re.sub(r"_(.)", lambda found: found[1].upper(), name)


def _explained(found: dict[str, Any]) -> dict[str, Any]:
    """The names in the arithmetic were snake_case."""
    for each in found["results"]:
        each["arithmetic"] = {
            re.sub(r"([A-Z])", r"_\1", name).lower(): value for name, value in each["arithmetic"].items()
        }
    return found


def _trial(found: dict[str, Any]) -> dict[str, Any]:
    """The names of sections were words with spaces."""
    return {**found, "sections": {name.replace("_", " "): size for name, size in found["sections"].items()}}


def _verified(found: dict[str, Any]) -> Any:
    """What was verified alone stood alone."""
    return found["verified"][0] if len(found["verified"]) == 1 else found


def _verified_many(found: dict[str, Any]) -> dict[str, Any]:
    return found if found["run"] else {name: each for name, each in found.items() if name != "left"}


_OTHERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "explained_answer": _explained,
    "verified": _verified,
    "verified_many": _verified_many,
    "window_trial": _trial,
}
