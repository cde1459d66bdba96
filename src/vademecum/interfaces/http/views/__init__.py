"""Every view, in the order of the menu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.interfaces.http.views import (
    briefing,
    check,
    journal,
    memories,
    pinned,
    record,
    review,
    search,
    sessions,
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
    check.VIEW,
    status.VIEW,
    record.VIEW,
    sessions.ONE,
    pinned.ONE,
)
