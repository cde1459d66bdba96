"""Access tokens for `vade serve`: a person makes them, and each expires soon.

The secret of a token is shown only once; its hash is stored.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Collision, NotFound, UnknownName, UsageError
from vademecum.store import decisions
from vademecum.text import clock, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from vademecum.memory.core import Memory
    from vademecum.store import Home

SCOPES = ("read", "write", "review")
LONGEST = 3660  # days; a token without an end is forgotten while it still works
_KIND = "tokens"
_BEGIN = "vade_"
_SPAN = re.compile(r"(\d{1,5})([hdw]?)")
_HOURS = {"h": 1, "d": 24, "": 24, "w": 24 * 7}


class AccessToken(NamedTuple):
    """An access token as it is stored, without its secret."""

    name: str
    scopes: tuple[str, ...]
    created: str
    expires: str
    by: str = ""
    digest: str = ""

    def is_over(self, now: datetime) -> bool:
        """Whether the token has expired; a token whose expiry cannot be read counts as expired."""
        ends = clock.parse(self.expires)
        return ends is None or ends <= now


def add(memory: Memory, name: str, *, scopes: Iterable[str], expires: str) -> tuple[AccessToken, str]:
    """Make a token with this name, valid for the duration `expires`, such as `90d`.

    Return the token and its secret, which is stored nowhere.
    """
    work = memory.workspace
    work.may_write()
    work.may_decide("make a token", "vade token add")
    names.check_key(name)
    chosen = tuple(each for each in SCOPES if each in set(scopes))
    if not chosen or set(scopes) - set(SCOPES):
        raise UnknownName("a token needs a scope", hint=f"the scopes are {', '.join(SCOPES)}")
    if any(each.name == name for each in every(memory.home)):
        raise Collision(f"there is a token named {name} already", hint=f"run `vade token revoke {name}`")
    made = _BEGIN + secrets.token_urlsafe(32)
    now = work.now()
    token = AccessToken(
        name, chosen, clock.stamp(now), clock.stamp(now + parse_span(expires)), memory.caller.actor
    )
    with work.reported("keep the token"):
        token = token._replace(digest=_digest(made))
        decisions.put(memory.home, _KIND, token.digest, _fields(token))
        work.audit("add token")
    return token, made


def every(home: Home) -> Sequence[AccessToken]:
    """Return all tokens in the order of their names, expired ones too."""
    return sorted(_read(digest, found) for digest, found in decisions.every(home, _KIND))


def revoke(memory: Memory, name: str) -> AccessToken:
    """Delete a token, so that the server refuses it from the next request on."""
    work = memory.workspace
    work.may_write()
    work.may_decide("revoke a token", "vade token revoke")
    for each in every(memory.home):
        if each.name == name:
            with work.reported("revoke the token"):
                decisions.drop(memory.home, _KIND, each.digest)
                work.audit("revoke token")
            return each
    raise NotFound(f"there is no token named {names.shown(name)}", hint="run `vade token list`")


def find(home: Home, text: str) -> AccessToken | None:
    """Return the token that has this secret; None if it was revoked or has expired."""
    if not text.startswith(_BEGIN) or len(text) > 200:
        return None
    digest = _digest(text)  # looking up a hash reveals nothing about a nearly correct secret
    found = decisions.get(home, _KIND, digest)
    token = None if found is None else _read(digest, found)
    return None if token is None or token.is_over(clock.now()) else token


def parse_span(text: str) -> timedelta:
    """Return the duration that a text such as `12h`, `90d` or `6w` names; a number alone means days."""
    match = _SPAN.fullmatch(text.strip())
    hours = int(match[1]) * _HOURS[match[2]] if match else 0
    if not 0 < hours <= LONGEST * 24:
        raise UsageError(
            f"{names.shown(text)} is not a time that a token can last", hint="such as 12h, 90d or 6w"
        )
    return timedelta(hours=hours)


def _fields(token: AccessToken) -> dict[str, object]:
    return {name: value for name, value in token._asdict().items() if name != "digest"}


def _read(digest: str, found: dict[str, object]) -> AccessToken:
    given = found.get("scopes")
    scopes = tuple(each for each in SCOPES if isinstance(given, list) and each in given)
    fields = {each: str(found.get(each) or "") for each in ("name", "created", "expires", "by")}
    return AccessToken(**fields, scopes=scopes, digest=digest)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
