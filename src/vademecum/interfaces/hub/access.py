"""Who asks, and what they may do: addresses, tokens, codes to join with, roles, and the test of each fact.

Tokens are 256 random bits, so a fast keyed hash is enough: a slow one guards what can be guessed. The key of
that hash, and of the macs on stamps, is in a file of the server and never in the database.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vademecum.errors import ConfigError
from vademecum.interfaces.hub.rejections import Rejection, forbidden, propose, unknown_caller
from vademecum.interfaces.web.headers import is_from_here
from vademecum.memory.sync import trust

if TYPE_CHECKING:
    from pathlib import Path

    from psycopg import Connection
    from starlette.requests import Request

    from vademecum.interfaces.hub.streams import SyncFact

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: no I, L, O, U
PREFIX = "vade_"
ROLES = ("reader", "writer", "editor", "owner")
SCOPES = frozenset({"read", "write", "person"})
TOKEN_DAYS = 90
DEVICE_MINUTES, INVITE_DAYS, TRIES = 10, 7, 5
_FORMS = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")


@dataclass(frozen=True, slots=True)
class HubKeys:
    """The two keys of a hub, which no database and no backup of one holds."""

    pepper: bytes
    stamp: bytes

    def hash_token(self, token: str) -> bytes:
        """What the database keeps of a token or code."""
        return hmac.digest(self.pepper, token.encode(), "sha256")

    def sign(self, *parts: object) -> bytes:
        """The mac of a stamp."""
        return hmac.digest(self.stamp, json.dumps(parts, separators=(",", ":")).encode(), "sha256")


def derive_keys(secret: bytes) -> HubKeys:
    """Both keys from the one that a file holds."""
    pepper, stamp = (hmac.digest(secret, name, "sha256") for name in (b"tokens", b"stamps"))
    return HubKeys(pepper, stamp)


def read_keys(path: Path, *, make: bool) -> HubKeys:
    """The keys from a file that only its owner can read; a new one may be made."""
    if make and not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32) + "\n")
    try:
        text, mode = path.read_text("ascii", "replace").strip(), path.stat().st_mode
    except OSError as error:
        raise ConfigError(
            f"the hub's key cannot be read: {error.strerror}", hint="name its file with `--key-file`"
        ) from error
    if sys.platform != "win32" and mode & 0o077:
        raise ConfigError(f"{path} can be read by others", hint=f"run `chmod 600 {path}`")
    if len(text) < 32:
        raise ConfigError(f"{path} holds no key of at least 32 characters", hint="name another `--key-file`")
    return derive_keys(text.encode())


def check_address(request: Request) -> None:
    """Refuse another site's requests, and names of this machine that are not its own.

    In the clear only this machine is served, so a Host that is no name of it comes from a page that points a
    name of its own here. A form of any page can be sent here without being asked about, so none is taken.
    """
    host, path = request.headers.get("host", ""), request.url.path
    scheme = request.scope.get("scheme", "http")
    if scheme != "https" and not _is_local(host):
        raise Rejection(421, "host", "this is another address")
    reads = request.method == "GET" and not path.startswith("/v1/")
    if request.headers.get("origin") not in (None, f"{scheme}://{host}") or not (
        reads or is_from_here(request.headers)
    ):
        raise Rejection(403, "origin", "another site asked for this")
    if request.method != "GET" and request.headers.get("content-type", "").lower().startswith(_FORMS):
        raise Rejection(415, "form", "a form is not taken: send JSON")


def _is_local(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class HubCaller:
    """A member, through one of their tokens."""

    ws: int
    public: str
    kind: str
    token: str
    member: str
    name: str
    role: str
    scopes: frozenset[str]
    replica: str | None

    @property
    def person(self) -> bool:
        """Whether a person asks; a token without that scope is an agent's."""
        return "person" in self.scopes

    @property
    def sender(self) -> trust.FactSender:
        """Who they are to the rule about facts."""
        return trust.FactSender(self.name, self.role, self.person)

    @property
    def standing(self) -> str:
        """The role on stamps: an agent's is its own, whatever its member may do."""
        return self.role if self.person else "agent"

    def at_least(self, role: str) -> bool:
        """Whether the member's role allows what that role may do."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def need(self, role: str, *, scope: str = "write", person: bool = False) -> None:
        """Refuse unless role, scope and, where it says so, a person are there."""
        if scope not in self.scopes:
            raise forbidden(f"this token may not {scope}")
        if person and not self.person:
            raise propose("this needs a person")
        if not self.at_least(role):
            raise forbidden(f"this needs the role {role}, and yours is {self.role}")


def new_token() -> str:
    """A token, which is shown once and then known to its holder alone."""
    return PREFIX + secrets.token_urlsafe(32)


def new_code(*, strong: bool) -> tuple[str, str]:
    """The two parts of a code to type: what finds it, and what opens it."""
    finds, opens = (6, 26) if strong else (6, 8)
    return tuple("".join(secrets.choice(ALPHABET) for _ in range(n)) for n in (finds, opens))  # type: ignore[return-value]  # two


def read_code(code: str) -> tuple[str, str]:
    """A code as it was typed, in its two parts."""
    plain = "".join(each for each in code.upper() if each.isalnum())
    plain = plain.translate(str.maketrans("ILO", "110"))
    return plain[:6], plain[6:]


def authenticate(connection: Connection[Any], keys: HubKeys, header: str | None) -> HubCaller:
    """Who holds the token of a request; from here on the transaction sees that workspace alone."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token.startswith(PREFIX) or len(token) > 200:
        raise unknown_caller()
    row = connection.execute(
        "SELECT ws, public, kind, token, member, name, role, scopes, replica,"
        " set_config('hub.ws', ws::text, true) FROM hub.authenticate(%s)",
        (keys.hash_token(token),),
    ).fetchone()
    if row is None:
        raise unknown_caller()
    ws, public, kind, number, member, name, role, scopes, replica, _ = row
    return HubCaller(ws, str(public), kind, str(number), str(member), name, role, frozenset(scopes), replica)


def enter(connection: Connection[Any], ws: int) -> None:
    """Let this transaction see one workspace and no other."""
    connection.execute("SELECT set_config('hub.ws', %s, true)", (str(ws),))


@dataclass(frozen=True, slots=True)
class Replaced:
    """What the test of a fact needs to know of one that it replaces."""

    register: tuple[str, str, str]
    lam: int
    author: str
    role: str
    purged: bool


def check_right(fact: SyncFact, caller: HubCaller, about: trust.FactContext) -> None:
    """Refuse a fact that this caller may not add, whatever their client thinks."""
    refused = trust.why_not(fact, caller.sender, about)
    if refused is not None:
        code, why = refused
        raise (propose if code == trust.PROPOSE else forbidden)(why, n=fact.n)


def check_own_replica(caller: HubCaller, replica: str, owner: str | None) -> None:
    """Refuse to speak for the machine of another member."""
    if owner is not None and owner != caller.name:
        raise Rejection(
            409, "forked", "this replica's name is another machine's: take a new one", replica=replica
        )


def chain_after(chain: bytes, fact_hash: str) -> bytes:
    """The value of a stream's chain once a fact was added to it."""
    return hashlib.sha256(chain + bytes.fromhex(fact_hash)).digest()
