"""Authenticate callers and check their rights: addresses, tokens, join codes, roles, rights to facts.

Tokens are 256 random bits, so a fast keyed hash is enough; only secrets that can be guessed need a slow hash.
The keys of the hash and of the MACs on stamps are in a file of the server, never in the database.
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
from vademecum.interfaces.web.headers import is_from_here
from vademecum.sync import team_trust
from vademecum_hub.rejections import Rejection, forbidden, propose_only, unknown_caller

if TYPE_CHECKING:
    from pathlib import Path

    from psycopg import Connection
    from starlette.requests import Request

    from vademecum_hub.streams import SyncFact

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: no I, L, O, U
PREFIX = "vade_"
ROLES = ("reader", "writer", "editor", "owner")
SCOPES = frozenset({"read", "write", "person"})
TOKEN_DAYS = 90
DEVICE_MINUTES, INVITE_DAYS, TRIES = 10, 7, 5
_FORMS = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")


@dataclass(frozen=True, slots=True)
class HubKeys:
    """The two keys of a hub, which neither the database nor its backups have."""

    pepper: bytes
    stamp: bytes

    def hash_token(self, token: str) -> bytes:
        """Return the hash under which the database stores a token or code."""
        return hmac.digest(self.pepper, token.encode(), "sha256")

    def sign(self, *parts: object) -> bytes:
        """Return the MAC of a stamp's parts."""
        return hmac.digest(self.stamp, json.dumps(parts, separators=(",", ":")).encode(), "sha256")


def derive_keys(secret: bytes) -> HubKeys:
    """Return both keys of a hub, derived from the secret in the key file."""
    pepper, stamp = (hmac.digest(secret, name, "sha256") for name in (b"tokens", b"stamps"))
    return HubKeys(pepper, stamp)


def read_keys(path: Path, *, make: bool) -> HubKeys:
    """Return the hub's keys from the key file; with `make`, create a missing file.

    Raise ConfigError for a file that other users can read.
    """
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
    """Reject forms, requests that another website caused, and without TLS other host names.

    Without TLS the hub serves this machine alone, so another name in `Host` means DNS rebinding. Browsers
    send the forms of any page without a preflight request.
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
    """The member who sent a request, and the token that the request came with."""

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
        """Whether a person sent the request; a token without the scope `person` belongs to an agent."""
        return "person" in self.scopes

    @property
    def sender(self) -> team_trust.FactSender:
        """The caller as a `FactSender`, for the rules about adding facts."""
        return team_trust.FactSender(self.name, self.role, self.person)

    @property
    def standing(self) -> str:
        """The role that stamps name: `agent` for an agent's token, else the role of the member."""
        return self.role if self.person else "agent"

    def has_role(self, role: str) -> bool:
        """Return whether the member has this role or a higher one."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def require(self, role: str, *, scope: str = "write", person: bool = False) -> None:
        """Raise a rejection if the caller lacks the role, the scope or, with `person`, a person's token."""
        if scope not in self.scopes:
            raise forbidden(f"this token may not {scope}")
        if person and not self.person:
            raise propose_only("this needs a person")
        if not self.has_role(role):
            raise forbidden(f"this needs the role {role}, and yours is {self.role}")


def new_token() -> str:
    """Return a new random token; the hub shows it once, and stores only its hash."""
    return PREFIX + secrets.token_urlsafe(32)


def new_code(*, strong: bool) -> tuple[str, str]:
    """Return the two parts of a new join code: the part that finds the invitation, and the secret.

    With `strong`, the secret is longer.
    """
    finds, opens = (6, 26) if strong else (6, 8)
    return tuple("".join(secrets.choice(ALPHABET) for _ in range(n)) for n in (finds, opens))  # type: ignore[return-value]  # two


def read_code(code: str) -> tuple[str, str]:
    """Return the two parts of a typed join code, with similar letters and digits corrected."""
    plain = "".join(each for each in code.upper() if each.isalnum())
    plain = plain.translate(str.maketrans("ILO", "110"))
    return plain[:6], plain[6:]


def authenticate(connection: Connection[Any], keys: HubKeys, header: str | None) -> HubCaller:
    """Return the caller of a request, and limit the transaction to the caller's workspace.

    Raise a rejection for an invalid token.
    """
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
    """Limit the transaction to one workspace, by the setting that row-level security reads."""
    connection.execute("SELECT set_config('hub.ws', %s, true)", (str(ws),))


@dataclass(frozen=True, slots=True)
class PreviousFact:
    """Those columns of a replaced fact that are needed to check the fact that replaces it."""

    register: tuple[str, str, str]
    lamport: int
    author: str
    role: str
    purged: bool


def check_right(fact: SyncFact, caller: HubCaller, about: team_trust.FactContext) -> None:
    """Raise a rejection if this caller may not add the fact."""
    refused = team_trust.find_refusal(fact, caller.sender, about)
    if refused is not None:
        code, why = refused
        raise (propose_only if code == team_trust.PROPOSE else forbidden)(why, n=fact.n)


def check_own_replica(caller: HubCaller, replica: str, owner: str | None) -> None:
    """Raise a rejection if `owner`, the author of the replica's last fact, is another member."""
    if owner is not None and owner != caller.name:
        raise Rejection(
            409, "forked", "this replica's name is another machine's: take a new one", replica=replica
        )


def chain_after(chain: bytes, fact_hash: str) -> bytes:
    """Return the hash chain of a stream as it is after one more fact."""
    return hashlib.sha256(chain + bytes.fromhex(fact_hash)).digest()
