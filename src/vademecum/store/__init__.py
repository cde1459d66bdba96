"""Everything there is, in Markdown that a person can read; the one module that knows files from records.

These names are its front, loaded when asked for; what lies behind them may change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vademecum.store.backend import Backend, Directory
    from vademecum.store.catalogue import Catalogue, Fact
    from vademecum.store.copies import SecondCopy
    from vademecum.store.home import Home, Shelf
    from vademecum.store.journal import Journal
    from vademecum.store.merge import Draft
    from vademecum.store.pinned import Documents, Pinned
    from vademecum.store.records import Found, Listed, Records
    from vademecum.store.runs import Edit, Told
    from vademecum.store.scopes import Caller
    from vademecum.store.tombstones import Marks
    from vademecum.store.workspace import Workspace

__all__ = [
    "Backend",
    "Caller",
    "Catalogue",
    "Directory",
    "Documents",
    "Draft",
    "Edit",
    "Fact",
    "Found",
    "Home",
    "Journal",
    "Listed",
    "Marks",
    "Pinned",
    "Records",
    "SecondCopy",
    "Shelf",
    "Told",
    "Workspace",
]
_FROM = {
    "backend": (
        "Backend",
        "Directory",
    ),
    "catalogue": (
        "Catalogue",
        "Fact",
    ),
    "copies": ("SecondCopy",),
    "home": (
        "Home",
        "Shelf",
    ),
    "journal": ("Journal",),
    "merge": ("Draft",),
    "pinned": (
        "Documents",
        "Pinned",
    ),
    "records": (
        "Found",
        "Listed",
        "Records",
    ),
    "runs": (
        "Edit",
        "Told",
    ),
    "scopes": ("Caller",),
    "tombstones": ("Marks",),
    "workspace": ("Workspace",),
}


def __getattr__(name: str) -> Any:
    """A name of the front, from the module it stands in."""
    for module, names in _FROM.items():
        if name in names:
            return getattr(import_module(f"vademecum.store.{module}"), name)
    raise AttributeError(name)
