"""The memberships of a home in workspaces: addresses, tokens, and keys of personal workspaces.

`hub/<workspace>/` has `workspace.json`, `token` and `key`; backups leave out token and key, and no hub sees
the key. The rules in `workspace.json` belong to this home: no hub sets them, and joining again keeps them.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed, NotFound, Refused, UsageError
from vademecum.store.teams import LEFT
from vademecum.sync.hub_client import HubClient, HubRefused, HubUnreachable, check_address
from vademecum.sync.key_files import KEY
from vademecum.text.names import new_mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vademecum.store import DiskFolder, Home

FOLDER, TOKEN, WORKSPACE_FILE, REPLICA = "hub", "token", "workspace.json", "replica"
LOGGED = "members.json"  # the last line of the hub's log of members that this home has seen
SHARED = "folder"  # the state of a shared folder
_NAMES = ("workspace", "name", "kind", "member", "role")
_ENTERED = (*_NAMES, "token")
_ID, _MEMBER = re.compile(r"[0-9a-f-]{1,64}"), re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


PRIVATE, TEAM = "private", "team"  # the place of new records of a project
ROLES = ("reader", "writer", "editor", "owner")
VOUCHING = ("editor", "owner")  # the roles whose verification counts for others


@dataclass(frozen=True, slots=True)
class LocalRules:
    """The decisions about a workspace that the person of this home has made."""

    inject_from: tuple[str, ...] = ()  # members whose verified texts are given to agents here
    write: str = PRIVATE
    care: bool | None = (
        None  # whether this machine archives automatically there; None is the default of the kind
    )
    known: tuple[str, ...] = ()  # reported members who may verify, as `name id`
    more: Mapping[str, Any] = field(default_factory=dict)  # fields of a later version


@dataclass(frozen=True, slots=True)
class Membership:
    """The membership of this home in a workspace."""

    url: str
    workspace: str
    name: str
    kind: str
    member: str
    role: str
    replica: str
    rules: LocalRules = LocalRules()
    agent: bool = False  # whether its token is an agent's, which can only add and propose

    @property
    def may_care(self) -> bool:
        """Whether this machine may archive in the workspace automatically: never if it is a team's."""
        return self.kind == "personal" and self.rules.care is not False


def replica_of(home: Home) -> str:
    """Return the replica name of this home; the first call makes the name."""
    with home.disk(FOLDER, create=True) as folder:
        with contextlib.suppress(FileExistsError):
            folder.create(REPLICA, new_mark(16).encode() + b"\n")
        return (folder.read(REPLICA) or b"").decode("ascii", "replace").strip()


def join_hub(home: Home, url: str, code: str, *, label: str = "") -> Membership:
    """Join a workspace with a join code, save the membership and return it."""
    home.check_format()
    address, replica = check_address(url), replica_of(home)
    answer = _first_request(
        address, "", "POST", "/v1/join", {"code": code, "replica": replica, "label": label}, names=_ENTERED
    )
    identity: dict[str, Any] = {name: str(answer[name]) for name in _NAMES}
    return _save(home, Membership(url=address, replica=replica, **identity), str(answer["token"]))


def join_with_token(home: Home, url: str, token: str) -> Membership:
    """Join a workspace with a token that was made at the hub, such as an agent's; return the membership."""
    home.check_format()
    address = check_address(url)
    answer = _first_request(address, token, "GET", "/v1/me", names=_NAMES)
    identity: dict[str, Any] = {name: str(answer[name]) for name in _NAMES}
    agent = "person" not in (answer.get("scopes") or ())
    return _save(home, Membership(url=address, replica=replica_of(home), agent=agent, **identity), token)


def _first_request(
    address: str,
    token: str,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    names: Iterable[str],
) -> Mapping[str, Any]:
    """Send the first request to a hub and return its answer.

    Errors tell the person to check the address or the token for typing mistakes.
    """
    client = HubClient(address, token)
    try:
        answer = client.ask(method, path, None if body is None else json.dumps(body).encode()).json()
        if not isinstance(answer, dict) or not set(names) <= answer.keys():
            raise Malformed("this is not an answer of a hub")
    except HubUnreachable as error:
        raise HubUnreachable(
            str(error), hint=f"check the address {address}, and that a hub runs there"
        ) from error
    except (HubRefused, Malformed) as error:
        code = getattr(error, "code", "")
        if not code:  # a hub names a code
            raise NotFound(
                f"no hub answers at {address}", hint="check the address, and that a hub runs there"
            ) from error
        if token and code == "token":
            raise Refused(
                "the hub does not take this token",
                hint="it is mistyped, revoked or too old: `vade hub token add` on a machine that has joined"
                " makes another",
            ) from error
        raise
    finally:
        client.close()
    return answer


def _save(home: Home, joined: Membership, token: str) -> Membership:
    # The member's name is written into files, so a name with other characters could be read as a text.
    fits = _ID.fullmatch(joined.workspace) and _MEMBER.fullmatch(joined.member) and joined.name.isprintable()
    if not fits or joined.kind not in ("personal", TEAM) or joined.role not in ROLES:
        raise Malformed("the hub's answer names no workspace", hint="check the hub's address")
    with home.disk(FOLDER, joined.workspace, create=True) as folder:
        folder.update(TOKEN, lambda _: token.encode() + b"\n")
        folder.update(WORKSPACE_FILE, lambda current: _render(joined, current))
    return find_membership(home, joined.workspace)


def list_memberships(home: Home) -> list[Membership]:
    """Return the memberships of this home."""
    found = []
    try:
        with home.disk(FOLDER) as top:
            names = [name for name in top.names() if name not in (REPLICA, SHARED)]
    except FileNotFoundError:
        return []
    for name in names:
        with contextlib.suppress(NotADirectoryError, FileNotFoundError), home.disk(FOLDER, name) as folder:
            if folder.stat(WORKSPACE_FILE) is not None or folder.stat(LEFT) is None:
                found.append(_read(folder, name))
    return found


def keep_rules(home: Home, joined: Membership, rules: LocalRules) -> Membership:
    """Save this home's rules for a workspace, and return the membership with these rules."""
    changed = replace(joined, rules=rules)
    with home.disk(FOLDER, joined.workspace) as folder:
        folder.update(WORKSPACE_FILE, lambda current: _render(changed, current, rules=rules))
    return changed


def keep_standing(home: Home, joined: Membership, standing: Mapping[str, Any]) -> Membership:
    """Save the member's current role at the hub, and whether the token is an agent's.

    Return the membership with these values.
    """
    role, scopes = standing.get("role"), standing.get("scopes")
    agent = "person" not in scopes if isinstance(scopes, list) else joined.agent
    changed = replace(joined, role=str(role) if role in ROLES else joined.role, agent=agent)
    if changed == joined:
        return joined
    with home.disk(FOLDER, joined.workspace) as folder:
        folder.update(WORKSPACE_FILE, lambda current: _render(changed, current))
    return changed


def check_inject_from(names: Iterable[str], members: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return these member names without repetitions; refuse a member who may not verify texts."""
    listed = tuple(dict.fromkeys(names))
    able = {str(each["name"]) for each in members if each["role"] in VOUCHING}
    if wrong := [name for name in listed if name not in able]:
        known = ", ".join(sorted(able)) or "nobody"
        raise UsageError(
            f"{wrong[0]} is not an editor or owner of this workspace",
            hint=f"these are: {known}; set it with `vade hub rules --inject-from NAME`",
        )
    return listed


def identify_vouching(members: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the members who may verify, each as `name id`, since another member may get the name later."""
    return tuple(sorted(f"{each['name']} {each['member']}" for each in members if each["role"] in VOUCHING))


def check_team(joined: Membership) -> None:
    """Raise UsageError unless the workspace is a team's."""
    if joined.kind != TEAM:
        raise UsageError(f"{joined.name} is a personal workspace: all of it is yours")


def check_personal(joined: Membership) -> None:
    """Raise UsageError if the workspace is a team's."""
    if joined.kind == TEAM:
        raise UsageError(f"{joined.name} is a team's: nothing of it is archived unless somebody asks for it")


def _render(joined: Membership, current: bytes | None, *, rules: LocalRules | None = None) -> bytes:
    """Return the new content of `workspace.json`.

    Unknown fields stay as they are, and so do the rules unless new rules are given.
    """
    try:
        there = json.loads(current or b"{}")
    except ValueError:
        there = {}
    there = there if isinstance(there, dict) else {}
    local_rules = there.get("rules", {})
    values = {each.name: getattr(joined, each.name) for each in fields(Membership) if each.name != "rules"}
    if rules is not None:
        own = asdict(rules)
        local_rules = {**own.pop("more"), **own}
    return (
        json.dumps({**there, **values, "rules": local_rules}, indent=1, ensure_ascii=False).encode() + b"\n"
    )


def read_rules(given: object) -> LocalRules:
    """Return the rules in JSON data from a file; unreadable rules trust nobody."""
    rest = dict(given) if isinstance(given, dict) else {}
    named = {name: rest.pop(name, None) for name in ("inject_from", "write", "care", "known")}
    lists = {
        name: tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
        for name, value in named.items()
        if name in ("inject_from", "known")
    }
    care = named["care"] if isinstance(named["care"], bool) else None
    return LocalRules(write=TEAM if named["write"] == TEAM else PRIVATE, care=care, more=rest, **lists)


def _read(folder: DiskFolder, name: str) -> Membership:
    try:
        values = json.loads(folder.read(WORKSPACE_FILE) or b"")
        named = {each: values[each] for each in ("url", *_NAMES, "replica")}
        agent = values.get("agent") is True
        return Membership(**named, rules=read_rules(values.get("rules")), agent=agent)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Malformed(
            f"hub/{name}/{WORKSPACE_FILE} cannot be read", hint="join again with `vade hub join`"
        ) from error


def find_membership(home: Home, name: str = "", *, kind: str = "") -> Membership:
    """Return the membership in the workspace with this name or id.

    Without a name, return the only membership; raise UsageError if there are several. With `kind`, only
    workspaces of this kind count.
    """
    joined = [each for each in list_memberships(home) if kind in ("", each.kind)]
    if not joined:
        what = f"no {kind} workspace of a hub" if kind else "no hub"
        raise NotFound(f"this home has joined {what}", hint="join one with `vade hub join URL`")
    meant = [each for each in joined if not name or name in (each.name, each.workspace)]
    known = ", ".join(sorted(each.name for each in joined))
    if name and not meant:
        raise UsageError(f"this home has not joined a workspace {name}", hint=f"it has joined {known}")
    if len(meant) != 1:
        raise UsageError(
            f"which workspace is meant is not clear: {known}", hint="name one with `--workspace`"
        )
    return meant[0]


def client_of(home: Home, joined: Membership, *, patience: float = 60, seconds: float = 30) -> HubClient:
    """Return a client of the workspace's hub, with this home's token.

    `seconds` limits the wait for an answer, `patience` the repetitions while the hub is busy.
    """
    with home.disk(FOLDER, joined.workspace) as folder:
        token = (folder.read(TOKEN) or b"").decode("ascii", "replace").strip()
    return HubClient(joined.url, token, patience=patience, seconds=seconds)


def check_log(home: Home, joined: Membership, client: HubClient) -> str:
    """Return a message if the hub's log of members was altered; an empty text if it was not.

    Only owners may read the log; for others the text is empty. Whoever can write to the database can cut off
    the end of the log and make a new hash chain, so this home keeps the hash of the last line that it has
    seen.
    """
    if joined.role != "owner" or joined.agent:
        return ""
    with home.disk(FOLDER, joined.workspace) as folder:
        try:
            seq, head = json.loads(folder.read(LOGGED) or b"null") or (0, "")
        except (ValueError, TypeError):
            seq, head = 0, ""
        answer = client.ask("GET", f"/v1/audit?seq={int(seq)}&head={head}").json()
        if not answer["whole"]:
            at = answer.get("broken") or "one of its lines"
            return f"somebody altered the hub's log of members (line {at}): tell whoever runs the hub"
        folder.update(LOGGED, lambda _: json.dumps([answer["seq"], answer["head"]]).encode())
    return ""


def key_of(home: Home, joined: Membership) -> bytes | None:
    """Return the key of a personal workspace; None if this home does not have it."""
    with home.disk(FOLDER, joined.workspace) as folder:
        return (folder.read(KEY) or b"").strip() or None


def find_joined(home: Home, url: str, *, keyless: bool) -> Membership | None:
    """Return the joined personal workspace at this address; None without one.

    With `keyless`, workspaces whose key is here are ignored: a wrong key that was typed leaves one without.
    """
    address = check_address(url)
    for each in list_memberships(home):
        is_wanted = each.kind == "personal" and each.url == address
        if is_wanted and not (keyless and key_of(home, each)):
            return each
    return None
