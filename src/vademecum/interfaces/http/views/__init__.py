"""Every view, in the order of the menu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.interfaces.http.views import status

if TYPE_CHECKING:
    from vademecum.interfaces.http.pages import PageView

VIEWS: tuple[PageView, ...] = (status.VIEW,)
