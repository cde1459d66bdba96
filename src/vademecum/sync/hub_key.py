"""The key of a personal workspace at its hub: claim it, check it at each sync, and change it.

The hub has the record of the key from the first join on. A workspace of an earlier version has no record: the
first machine whose key fits the seals of other machines writes the record.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from vademecum.errors import Refused, UsageError
from vademecum.store.teams import LOGS
from vademecum.sync import facts as fact_rules
from vademecum.sync.hub_client import HubRefused, last_read
from vademecum.sync.key_files import read_own_key, save_key, settle_staged, stage_key
from vademecum.sync.membership import FOLDER, client_of
from vademecum.sync.stream_log import DiskLog
from vademecum.sync.workspace_key import (
    KeyRecord,
    WrongKey,
    find_ends,
    make_record,
    new_key,
    parse_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vademecum.store import Home
    from vademecum.sync.facts import SyncFact
    from vademecum.sync.hub_client import HubClient
    from vademecum.sync.membership import Membership

TRIES = 5  # to change the key while other machines send
_PATH = "/v1/key"
_NOT_THE_KEY = "this is not the key of that workspace"


def check_key(
    home: Home, joined: Membership, key: str, client: HubClient, at_hub: Mapping[str, Any] | None
) -> KeyRecord:
    """Return the record of the workspace's key; raise WrongKey if this home has another key.

    `at_hub` has check and generation of the hub's record; None from a hub of an earlier version.
    """
    with home.disk(FOLDER, joined.workspace) as folder:
        own = read_own_key(folder).record
        if at_hub is None:
            return own or make_record(joined.workspace, key)
        if at_hub.get("check") is None:
            return _claim(home, joined, key, client)
        if own is not None and (at_hub.get("generation"), at_hub["check"]) == (own.generation, own.check):
            return own
        record = _fetch(client)
        if own is not None and record.generation < own.generation:
            record = _send(client, own)  # the hub was restored from an older backup
        _check(record, joined, key, own)
        save_key(folder, key, record)
        return record


def _check(record: KeyRecord, joined: Membership, key: str, own: KeyRecord | None) -> None:
    """Raise WrongKey if a record is not that of this home's key."""
    if record.fits(key):
        record.verify(key)
        return
    if own is not None and record.generation > own.generation:
        raise WrongKey(f"another machine changed the key of {joined.name}: nothing is sent without it")
    raise WrongKey(f"this machine has another key than the workspace {joined.name}: nothing is sent")


def _fetch(client: HubClient) -> KeyRecord:
    return parse_record(client.ask("GET", _PATH).json()["record"])


def _send(client: HubClient, record: KeyRecord, heads: Mapping[str, int] | None = None) -> KeyRecord:
    """Offer a record to the hub, and return the one that holds now."""
    body = {"record": record.render(), **({"heads": dict(heads)} if heads is not None else {})}
    return parse_record(client.ask("POST", _PATH, json.dumps(body).encode()).json()["record"])


def _claim(home: Home, joined: Membership, key: str, client: HubClient) -> KeyRecord:
    """Write the record of this home's key, if the facts at the hub are sealed with this key."""
    sealed = None if _has_accepted(home, joined) else read_oldest_fact(client)
    if sealed is not None and not fact_rules.is_sealed(sealed, key.encode()):
        raise WrongKey(f"this machine has another key than the workspace {joined.name}: nothing is sent")
    record = _send(client, make_record(joined.workspace, key))
    _check(record, joined, key, None)
    with home.disk(FOLDER, joined.workspace) as folder:
        save_key(folder, key, record)
    return record


def _has_accepted(home: Home, joined: Membership) -> bool:
    """Return whether this home's key fits the seals of other machines."""
    return any(not each.own for log in _read_logs(home, joined).values() for each in log.read())


def _read_logs(home: Home, joined: Membership) -> dict[str, DiskLog]:
    """Return the logs of all streams of a workspace, by stream."""
    found = {}
    for name in home.names(FOLDER, joined.workspace, LOGS):
        with home.disk(FOLDER, joined.workspace, LOGS, name) as folder:
            found[unquote(name)] = DiskLog(folder, joined.replica)
    return found


def read_oldest_fact(client: HubClient) -> SyncFact | None:
    """Return the oldest of the first facts of all streams; None for a workspace without facts."""
    found: list[tuple[str, SyncFact]] = []
    for each in client.ask("GET", "/v1/streams").json()["streams"]:
        if each["head"]:
            path = f"/v1/streams/{quote(each['stream'])}/facts?epoch={each['epoch']}&limit=1"
            line: dict[str, Any] = client.ask("GET", path).json()
            fact = fact_rules.parse(json.dumps(line["fact"], ensure_ascii=False))
            found.append((str(line["stamp"]["at"]), fact))
    return min(found, key=lambda each: each[0])[1] if found else None


def keep_hub_key(home: Home, joined: Membership, key: str) -> None:
    """Save the key of a workspace; raise WrongKey if the workspace has another one.

    The first machine's key becomes that of the workspace before anything is sent.
    """
    if joined.kind != "personal":
        raise UsageError(
            "only a personal workspace has a key", hint="a team's texts are distinguished by author"
        )
    with contextlib.closing(client_of(home, joined)) as client:
        _keep_key(home, joined, key, client)


def _keep_key(home: Home, joined: Membership, key: str, client: HubClient) -> None:
    at_hub = client.ask("GET", "/v1/me").json().get("key")
    if at_hub is not None and at_hub.get("check") is not None:
        record = _fetch(client)
        if not record.fits(key):
            raise WrongKey(_NOT_THE_KEY)
        with home.disk(FOLDER, joined.workspace, create=True) as folder:
            save_key(folder, key, record.verify(key))
        return
    sealed = read_oldest_fact(client)
    if sealed is not None and not fact_rules.is_sealed(sealed, key.encode()):
        raise WrongKey(_NOT_THE_KEY)
    with home.disk(FOLDER, joined.workspace, create=True) as folder:
        before = read_own_key(folder)
        save_key(folder, key)  # before the hub knows it: a crash must not lose the key
        if at_hub is None:  # a hub of an earlier version
            return
        try:
            _claim(home, joined, key, client)
        except WrongKey:  # another machine was first
            save_key(folder, before.key, before.record)
            raise


def has_key(home: Home, joined: Membership) -> bool:
    """Return whether a workspace has a key already, which a joining machine must ask for."""
    with contextlib.closing(client_of(home, joined)) as client:
        at_hub = client.ask("GET", "/v1/me").json().get("key") or {}
        return at_hub.get("check") is not None or read_oldest_fact(client) is not None


def rotate_hub_key(home: Home, joined: Membership, sync: Callable[[], object] | None) -> str:
    """Change the key of a workspace and return the new key.

    `sync` is called first, so that the new generation covers all facts. It is None for a home that has lost
    the key: then the generation covers the facts in this home's logs.
    """
    with contextlib.closing(client_of(home, joined)) as client:
        for _ in range(TRIES):
            if sync is not None:
                sync()
            try:
                if key := _rotate(home, joined, client, all_known=sync is not None):
                    return key
            except HubRefused as error:
                if error.code != "moved":
                    raise
    raise Refused("other machines keep sending, so the key was not changed", hint="try again later")


def _rotate(home: Home, joined: Membership, client: HubClient, *, all_known: bool) -> str:
    """Change the key and return it; with `all_known`, return '' if the hub has unknown facts."""
    streams = client.ask("GET", "/v1/streams").json()["streams"]
    heads = {each["stream"]: each["head"] for each in streams} if all_known else None
    with home.lock(f"hub {joined.workspace}"), home.disk(FOLDER, joined.workspace) as folder:
        if heads is not None and any(last_read(folder, each) != head for each, head in heads.items()):
            return ""
        before = client.ask("GET", "/v1/me").json().get("key") or {}
        logs = _read_logs(home, joined)
        ends = {name: find_ends(each.fact for each in log.read()) for name, log in logs.items()}
        key = new_key()
        record = make_record(joined.workspace, key, int(before.get("generation") or 1) + 1, ends)
        stage_key(folder, key, record)
        settle_staged(folder, _send(client, record, heads))
        return key
