"""All views, in the order of the menu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.interfaces.http.views import (
    archive,
    audit,
    briefing,
    check,
    graph,
    journal,
    memories,
    past,
    pinned,
    projects,
    record,
    review,
    search,
    sessions,
    settings,
    sources,
    status,
    today,
)

if TYPE_CHECKING:
    from vademecum.interfaces.http.pages import PageView

VIEWS: tuple[PageView, ...] = (
    memories.VIEW,
    search.VIEW,
    review.VIEW,
    today.VIEW,
    briefing.VIEW,
    sessions.VIEW,
    journal.VIEW,
    pinned.VIEW,
    graph.VIEW,
    check.VIEW,
    past.VIEW,
    archive.VIEW,
    projects.VIEW,
    audit.VIEW,
    sources.VIEW,
    status.VIEW,
    settings.VIEW,
    record.VIEW,
    sessions.ONE,
    pinned.ONE,
)
