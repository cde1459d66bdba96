"""Security headers of every page, checks of a request's source, and cookies."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from starlette.datastructures import Headers

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
SAFE = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # sent only to this origin, including the port, so the URL prefix is never revealed
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_OWN_SITE = ("same-origin", "none")  # the values for a request that no other site caused


def is_from_here(headers: Headers) -> bool:
    """Whether no other site caused the request, as far as the browser says."""
    return headers.get("sec-fetch-site", "none") in _OWN_SITE


def is_prefetch(headers: Headers) -> bool:
    """Whether the browser only prefetches the page."""
    return "prefetch" in (headers.get("sec-purpose") or headers.get("purpose") or "").lower()


def read_cookies(lines: Iterable[str], name: str) -> Iterator[bytes]:
    """Yield all values of the cookie `name`; another server of this machine may have set one, too."""
    for line in lines:
        for part in line.split(";"):
            try:
                found = SimpleCookie(part.strip()).get(name)
            except CookieError:
                continue
            if found is not None:
                yield found.value.encode("utf-8", "replace")
