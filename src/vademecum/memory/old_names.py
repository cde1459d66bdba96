"""What calls of `Memory` were named before it had nouns; they answer in this version, and warn."""

from __future__ import annotations

from functools import reduce
from typing import Any

from vademecum.stand_ins import warn_of

# By the noun that they stand behind now; a name that has changed too is followed by the new one.
_BEHIND = {
    "archive": "clear forgotten lost_entries purge purge_text versions",
    "audit": "audit_lines:lines verify_audit:verify",
    "care": (
        "compact editable edited heal index lint notices promote runs saw_notices searcher split "
        "sweep sweep_if_due undo watch write_listing"
    ),
    "graph": "export_graph:export propose_edges:propose reject_edge:reject related",
    "injection": "inject:block remind write_provider_file:write_file",
    "knowledge": (
        "applied knowledge_stats:stats learn profile profile_apply:keep_profile "
        "profile_draft:draft_profile prune_knowledge:prune suggest"
    ),
    "projects": "alias elsewhere init moved_here trust",
    "requests": "answered once perform propose",
    "review": "approvals approve decide protect reject selected trust_of verifiable verify waiting",
    "sessions": (
        "context context_trial:trial current_session:current end_session:end export_session:export "
        "import_sessions:import_all import_transcript new_session:new rename_session:rename "
        "session:open session_get:get session_messages:messages session_search:search todo "
        "transcripts trim_session:trim"
    ),
    "sources": "add_source:add remove_source:remove",
    "transfer": "export_ltm export_memory:export import_ltm import_memory:import_pieces ltm",
    "workspace": "documents index_trouble journal listeners loaded may_decide now readonly records",
}
OLD_NAMES = {
    old: f"{noun}.{new or old}"
    for noun, names in _BEHIND.items()
    for old, _, new in (each.partition(":") for each in names.split())
}


def old_name(memory: object, name: str) -> Any:
    """What an old name stands for; there are no others."""
    new = OLD_NAMES.get(name)
    if new is None:
        raise AttributeError(f"{type(memory).__name__!r} object has no attribute {name!r}")
    warn_of(name, new, level=4)
    return reduce(getattr, new.split("."), memory)
