"""Who asks, and what they may do: tokens, codes to join with, roles, and the test that each fact has to pass.

Tokens are 256 random bits, so a fast keyed hash is enough: a slow one guards what can be guessed. The key of
that hash, and of the macs on stamps, is in a file of the server and never in the database.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vademecum.errors import ConfigError
from vademecum.interfaces.hub.rejections import Rejection, forbidden, propose, unknown_caller

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from psycopg import Connection

    from vademecum.interfaces.hub.streams import SyncFact

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: no I, L, O, U
PREFIX = "vade_"
ROLES = ("reader", "writer", "editor", "owner")
SCOPES = frozenset({"read", "write", "person"})
TOKEN_DAYS = 90
DEVICE_MINUTES, INVITE_DAYS, TRIES = 10, 7, 5
_AGENTS_ORIGINS = frozenset({"agent", "tool", "import"})
_FOR_PERSONS = frozenset({"vouch", "protected", "purge"})
_FOR_EDITORS = frozenset({"vouch", "protected"})


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
        "SELECT ws, public, kind, token, member, name, role, scopes, replica FROM hub.authenticate(%s)",
        (keys.hash_token(token),),
    ).fetchone()
    if row is None:
        raise unknown_caller()
    ws, public, kind, number, member, name, role, scopes, replica = row
    enter(connection, ws)
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


def check_right(fact: SyncFact, caller: HubCaller, replaced: Iterable[Replaced], *, protected: bool) -> None:
    """Refuse a fact that this caller may not add, whatever their client thinks."""
    if fact.kind in _FOR_PERSONS and not caller.person:
        raise propose(f"a {fact.kind} needs a person")
    if fact.kind == "purge":
        caller.need("owner", person=True)
    if fact.kind in _FOR_EDITORS:
        caller.need("editor", person=True)
    if fact.kind == "vouch" and fact.target.split(" ", 1)[-1] != caller.name:
        raise forbidden("only the member can verify in their own name")
    if protected and fact.over and not (caller.person and caller.at_least("editor")):
        raise (forbidden if caller.person else propose)("this document is protected")
    if caller.person:
        return
    if fact.origin not in _AGENTS_ORIGINS:
        raise propose("a text with a person's origin needs a person")
    if any(each.author != caller.name or each.role != "agent" for each in replaced):
        raise propose("it would change what somebody else wrote")


def check_own_replica(caller: HubCaller, replica: str, owner: str | None) -> None:
    """Refuse to speak for the machine of another member."""
    if owner is not None and owner != caller.name:
        raise Rejection(
            409, "forked", "this replica's name is another machine's: take a new one", replica=replica
        )


def chain_after(chain: bytes, fact_hash: str) -> bytes:
    """The value of a stream's chain once a fact was added to it."""
    return hashlib.sha256(chain + bytes.fromhex(fact_hash)).digest()
