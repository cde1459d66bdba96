"""A home's places in hubs: the address, the token, and the key of a personal workspace, which no hub sees.

`hub/<workspace>/` holds `workspace.json`, `token` and `key`. No backup takes the last two.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed, NotFound, Refused, UsageError
from vademecum.sync import facts as fact_rules
from vademecum.sync.remote import HubClient, check_address

if TYPE_CHECKING:
    from vademecum.store.files import DiskFolder
    from vademecum.store.home import Home

FOLDER, TOKEN, KEY, TOLD, REPLICA = "hub", "token", "key", "workspace.json", "replica"
SHARED = "folder"  # where `folder.py` keeps what it knows of a shared folder
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: no I, L, O, U
_KEY_LENGTH = 26


@dataclass(frozen=True, slots=True)
class Membership:
    """One workspace that this home has joined."""

    url: str
    workspace: str
    name: str
    kind: str
    member: str
    role: str
    replica: str


def new_key() -> str:
    """The key of a personal workspace: 130 bits that a person can type."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_KEY_LENGTH))


def read_key(typed: str) -> str:
    """A key as it was typed."""
    plain = "".join(each for each in typed.upper() if each.isalnum()).translate(str.maketrans("ILO", "110"))
    if len(plain) != _KEY_LENGTH or not set(plain) <= set(_ALPHABET):
        raise UsageError(
            f"a workspace's key has {_KEY_LENGTH} letters and digits", hint="type it as it was shown"
        )
    return plain


def spell_key(key: str) -> str:
    """A key as it is shown."""
    return "-".join(key[at : at + 5] for at in range(0, len(key), 5))


def replica_of(home: Home) -> str:
    """The name of this home among replicas, made once."""
    with home.disk(FOLDER, create=True) as folder:
        made = "".join(secrets.choice(_ALPHABET) for _ in range(16)).lower()
        with contextlib.suppress(FileExistsError):
            folder.create(REPLICA, made.encode() + b"\n")
        return (folder.read(REPLICA) or b"").decode("ascii", "replace").strip()


def join_hub(home: Home, url: str, code: str, *, label: str = "") -> Membership:
    """Enter a workspace with a code; what is written here says where and as whom."""
    home.check_format()
    address, replica = check_address(url), replica_of(home)
    client = HubClient(address)
    try:
        body = json.dumps({"code": code, "replica": replica, "label": label}).encode()
        told = client.ask("POST", "/v1/join", body).json()
    finally:
        client.close()
    names = ("workspace", "name", "kind", "member", "role")
    joined = Membership(url=address, replica=replica, **{name: str(told[name]) for name in names})
    if not set(joined.workspace) <= set("0123456789abcdef-"):
        raise Malformed("the hub's answer names no workspace", hint="check the hub's address")
    with home.disk(FOLDER, joined.workspace, create=True) as folder:
        folder.update(TOKEN, lambda _: str(told["token"]).encode() + b"\n")
        folder.update(TOLD, lambda _: json.dumps(asdict(joined), indent=1).encode() + b"\n")
    return joined


def list_memberships(home: Home) -> list[Membership]:
    """Every workspace that this home has joined."""
    found = []
    try:
        with home.disk(FOLDER) as top:
            names = [name for name in top.names() if name not in (REPLICA, SHARED)]
    except FileNotFoundError:
        return []
    for name in names:
        with contextlib.suppress(NotADirectoryError, FileNotFoundError), home.disk(FOLDER, name) as folder:
            found.append(_read(folder, name))
    return found


def _read(folder: DiskFolder, name: str) -> Membership:
    try:
        return Membership(**json.loads(folder.read(TOLD) or b""))
    except (ValueError, TypeError) as error:
        raise Malformed(
            f"hub/{name}/{TOLD} cannot be read", hint="join again with `vade hub join`"
        ) from error


def find_membership(home: Home, name: str = "", *, kind: str = "") -> Membership:
    """The workspace of that name or id; without a name, the only one (of a kind)."""
    joined = [each for each in list_memberships(home) if kind in ("", each.kind)]
    if not joined:
        what = f"no {kind} workspace of a hub" if kind else "no hub"
        raise NotFound(f"this home has joined {what}", hint="join one with `vade hub join URL`")
    meant = [each for each in joined if not name or name in (each.name, each.workspace)]
    if len(meant) != 1:
        known = ", ".join(sorted(each.name for each in joined))
        raise UsageError(
            f"which workspace is meant is not clear: {known}", hint="name one with `--workspace`"
        )
    return meant[0]


def client_of(home: Home, joined: Membership, *, patience: float = 60) -> HubClient:
    """A client with this home's token."""
    with home.disk(FOLDER, joined.workspace) as folder:
        token = (folder.read(TOKEN) or b"").decode("ascii", "replace").strip()
    return HubClient(joined.url, token, patience=patience)


def key_of(home: Home, joined: Membership) -> bytes | None:
    """The key of a personal workspace, if this home has it."""
    with home.disk(FOLDER, joined.workspace) as folder:
        return (folder.read(KEY) or b"").strip() or None


def keep_key(home: Home, joined: Membership, key: str) -> None:
    """Keep the key of a personal workspace, unless what is there was sealed with another."""
    if joined.kind != "personal":
        raise UsageError(
            "only a personal workspace has a key", hint="a team's texts are distinguished by author"
        )
    sealed = _any_fact(home, joined)
    if sealed is not None and not fact_rules.is_sealed(sealed, key.encode()):
        raise Refused(
            "this is not the key of that workspace", hint="type the one that the first machine showed"
        )
    with home.disk(FOLDER, joined.workspace, create=True) as folder:
        folder.update(KEY, lambda _: key.encode() + b"\n")


def is_empty(home: Home, joined: Membership) -> bool:
    """Whether nobody has left anything there yet."""
    return _any_fact(home, joined) is None


def _any_fact(home: Home, joined: Membership) -> fact_rules.SyncFact | None:
    client = client_of(home, joined)
    try:
        for each in client.ask("GET", "/v1/streams").json()["streams"]:
            if each["head"]:
                path = f"/v1/streams/{each['stream']}/facts?epoch={each['epoch']}&limit=1"
                line: dict[str, Any] = client.ask("GET", path).json()
                return fact_rules.parse(json.dumps(line["fact"], ensure_ascii=False))
        return None
    finally:
        client.close()
