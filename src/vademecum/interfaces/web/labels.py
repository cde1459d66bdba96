"""Words of the page for scopes, types and origins; no word stands for two of them.

On the command line a column says which of them a word is; a badge on the page has no such heading.
"""

from __future__ import annotations

from vademecum.types import RecordType, Scope

SCOPES = {
    str(Scope.PROJECT): "this project",
    str(Scope.GLOBAL): "every project",
    str(Scope.AGENT): "this agent",
    str(Scope.SESSION): "this session",
    str(Scope.FEDERATED): "this machine",
}
SCOPES |= {str(each): str(each) for each in Scope if each not in SCOPES}
TYPES = {str(each): str(each) for each in RecordType} | {
    str(RecordType.PROJECT): "fact",
    str(RecordType.USER): "about you",
}
ORIGINS = {"user": "you", "import": "imported"}
TRUST = {"user": "yours", "waiting": "pending"}
FACETS = {"scope": SCOPES, "type": TYPES, "origin": ORIGINS, "trust": TRUST}


def of(facet: str, value: str) -> str:
    """Return the word for a value of a facet; most values are words already."""
    return FACETS.get(facet, {}).get(value, value)
