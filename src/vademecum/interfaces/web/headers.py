"""Headers of every page: what a browser may load, who set off a request, and the cookies it brings."""

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
    "referrer-policy": "same-origin",  # to ourselves alone, whose port counts here; a door never leaves
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_SIGHT = ("same-origin", "none")  # what a browser says of a request that no other site set off


def is_from_here(headers: Headers) -> bool:
    """Whether no other site set a request off, as far as the browser says."""
    return headers.get("sec-fetch-site", "none") in _SIGHT


def is_prefetch(headers: Headers) -> bool:
    """Whether a browser asks before its person does."""
    return "prefetch" in (headers.get("sec-purpose") or headers.get("purpose") or "").lower()


def read_cookies(lines: Iterable[str], name: str) -> Iterator[bytes]:
    """Every value of a cookie: another server of this machine may have set one of the same name."""
    for line in lines:
        for part in line.split(";"):
            try:
                found = SimpleCookie(part.strip()).get(name)
            except CookieError:
                continue
            if found is not None:
                yield found.value.encode("utf-8", "replace")
