"""Every view, in the order of the menu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.interfaces.http.views import memories, record, review, search, status

if TYPE_CHECKING:
    from vademecum.interfaces.http.pages import PageView

VIEWS: tuple[PageView, ...] = (memories.VIEW, search.VIEW, review.VIEW, record.VIEW, status.VIEW)
