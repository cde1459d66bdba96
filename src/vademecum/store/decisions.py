"""Storage of people's decisions: one small file per decision in `decisions/`, readable and removable by hand.

Kinds are, for example, a verified text, the decisions of one review (to undo them together), a declined
proposal, and a notice of an automatic change that no person has seen yet.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from vademecum.named_tuple import NamedTuple
from vademecum.store import hub_rules
from vademecum.text import names, normalise
from vademecum.types import Swept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from vademecum.store.home import Home


def put(home: Home, kind: str, name: str, decision: dict[str, Any]) -> None:
    """Save a decision under a name, replacing an earlier one."""
    content = json.dumps(decision, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n"
    with home.lock(f"decisions/{kind}/{name}"), home.folder("decisions", kind, create=True) as folder:
        folder.update(f"{name}.json", lambda _: content)


def get(home: Home, kind: str, name: str) -> dict[str, Any] | None:
    """Return the decision of that name; None for a missing or unreadable one."""
    return _load(home.read("decisions", kind, f"{name}.json"))


def drop(home: Home, kind: str, name: str) -> bool:
    """Delete a decision; return False when there was none."""
    if get(home, kind, name) is None:
        return False
    with home.lock(f"decisions/{kind}/{name}"), home.folder("decisions", kind) as folder:
        folder.delete(f"{name}.json")
    return True


def every(home: Home, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the readable decisions of a kind with their names, sorted by name."""
    for name in home.names("decisions", kind):
        if name.endswith(".json") and not name.startswith("."):
            decision = _load(home.read("decisions", kind, name))
            if decision is not None:
                yield name.removesuffix(".json"), decision


VERIFIED = "verified"


def verify(home: Home, text: str, *, at: str, by: str) -> None:
    """Record that a person verified exactly this text, and delete the note of an earlier withdrawal."""
    put(home, VERIFIED, exactly(text), {"at": at, "by": by})
    hub_rules.note_withdrawal(home, exactly(text), on=False)


def verified(home: Home, text: str) -> bool:
    """Return whether a person has verified exactly this text."""
    return get(home, VERIFIED, exactly(text)) is not None


def verdicts(home: Home) -> Callable[[str], bool]:
    """Return a function that tells by a text's hash whether the text is verified.

    The folder of verifications is listed only once, by this call.
    """
    listed = {*home.names("decisions", VERIFIED)}
    return lambda name: f"{name}.json" in listed and get(home, VERIFIED, name) is not None


def unverify(home: Home, text: str) -> bool:
    """Withdraw a verification; return False when there was none."""
    return unverify_name(home, exactly(text))


def unverify_name(home: Home, name: str) -> bool:
    """Withdraw the verification of the text with this hash, and note that for teams; return False if none."""
    hub_rules.note_withdrawal(home, name, on=True)
    return drop(home, VERIFIED, name)


def exactly(text: str) -> str:
    """Return the name under which decisions about exactly this text are saved: a hash."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


DISTINCT = "distinct"


def keep_distinct(home: Home, one: str, other: str, *, at: str, by: str, run: str) -> None:
    """Record that two texts are different statements; undoing the `run` drops the record."""
    put(home, DISTINCT, _pair(one, other), {"at": at, "by": by, "run": run})


def are_distinct(home: Home, one: str, other: str) -> bool:
    """Return whether a person decided that two similar texts are different statements."""
    return get(home, DISTINCT, _pair(one, other)) is not None


def drop_distinct(home: Home, run: str) -> None:
    """Delete the records of different statements that this run (a split of a record) made."""
    for name, decision in [*every(home, DISTINCT)]:
        if decision.get("run") == run:
            drop(home, DISTINCT, name)


def _pair(one: str, other: str) -> str:
    return exactly("\0".join(sorted((normalise(one), normalise(other)))))


def damaged(home: Home) -> Iterator[str]:
    """Yield the path of each decision file that cannot be read and so has no effect."""
    for kind in home.names("decisions"):
        for name in home.names("decisions", kind):
            if name.endswith(".json") and _load(home.read("decisions", kind, name)) is None:
                yield f"decisions/{kind}/{name}"


def _load(content: bytes | None) -> dict[str, Any] | None:
    try:
        decision = json.loads(content) if content else None
    except ValueError:
        return None
    return decision if isinstance(decision, dict) else None


NOTICES = "notices"
MANY_MOVED = 10  # records that may be moved without a notice


def keep_notice(home: Home, done: Swept) -> None:
    """Save a notice of a large automatic sweep until a person has seen it."""
    if done.moved > MANY_MOVED:
        fields = {"moved": done.moved, "into": list(done.into), "at": done.at, "where": done.where}
        put(home, NOTICES, done.run, fields)


def unseen_notices(home: Home) -> list[Swept]:
    """Return the unseen notices of large sweeps, oldest first."""
    found = []
    for run, notice in every(home, NOTICES):
        into, moved = notice.get("into"), notice.get("moved")
        listed = tuple(map(str, into)) if isinstance(into, list) else ()
        count = moved if isinstance(moved, int) else MANY_MOVED
        found.append(Swept(run, count, listed, str(notice.get("at", "")), str(notice.get("where", ""))))
    return sorted(found)


def drop_notice(home: Home, run: str) -> None:
    """Delete a notice that was seen, or whose run was undone."""
    drop(home, NOTICES, run)


SYNC_NOTICES = "sync-notices"
REVIVED, JOINED = "revived", "joined"
_WHY = {
    REVIVED: "it was removed on one machine while another one added to it: what was added is here",
    JOINED: "two machines each made one of that name: they are one file now, with the entries of both",
}


class SyncNotice(NamedTuple):
    """A notice for a person: a sync restored a file, or merged two files into one."""

    what: str
    place: str
    folder: str  # the folder's label
    path: str
    text: str
    at: str

    @property
    def why(self) -> str:
        """A sentence that says what happened."""
        return _WHY.get(self.what, "")


def keep_sync_notice(home: Home, notice: SyncNotice) -> None:
    """Save a notice of a sync until a person has seen it."""
    put(home, SYNC_NOTICES, _notice_name(notice), notice._asdict())


def sync_notices(home: Home) -> list[SyncNotice]:
    """Return the unseen notices of syncs, oldest first."""
    found = []
    for _, notice in every(home, SYNC_NOTICES):
        fields = {name: str(notice.get(name) or "") for name in SyncNotice._fields}
        if fields["what"] in _WHY:
            found.append(SyncNotice(**fields))
    return sorted(found, key=lambda each: (each.at, each.path))


def drop_sync_notice(home: Home, notice: SyncNotice) -> None:
    """Delete a notice that was seen."""
    drop(home, SYNC_NOTICES, _notice_name(notice))


def notice_file(notice: SyncNotice) -> str:
    """Return the name of a notice's file."""
    return f"{_notice_name(notice)}.json"


def _notice_name(notice: SyncNotice) -> str:
    return mark_of(notice.what, notice.folder, notice.path)


DECIDED = ".decided"  # behind the name of a held text about which a person has decided


def settle_held(home: Home, workspace: str, id: str) -> None:
    """Hide a held text from the review; `vade sync held --drop` deletes it permanently."""
    _rename_held(home, workspace, f"{id}.json", f"{id}.json{DECIDED}")


def reopen_held(home: Home, workspace: str, id: str) -> bool:
    """Show a hidden held text in the review again; return False when it no longer exists."""
    return _rename_held(home, workspace, f"{id}.json{DECIDED}", f"{id}.json")


def _rename_held(home: Home, workspace: str, old: str, new: str) -> bool:
    parts = ("hub", workspace, "held")
    content = home.read(*parts, old) if old in home.names(*parts) else None
    if content is None:
        return False
    with home.folder(*parts) as folder:
        folder.update(new, lambda _: content)
        folder.delete(old)
    return True


REVIEWS = "reviews"
REVIEW = "review"
_DECLINED = "declined"


class Sitting(NamedTuple):
    """The decisions of one review, in order, each with the way to undo it."""

    id: str
    at: str
    by: str
    done: tuple[dict[str, Any], ...] = ()
    undone: bool = False
    what: str = REVIEW  # what it is called among the runs


def new_sitting_id(moment: datetime, at: str) -> str:
    """Return a new name for a review, in the form of a run's name, so that `vade undo` accepts it."""
    return f"{re.sub('[-:]', '', at)}-{moment.microsecond:05x}{names.new_id()[-6:]}"


def put_sitting(home: Home, sitting: Sitting) -> None:
    """Save the decisions that a review has made so far."""
    value = {
        "at": sitting.at,
        "by": sitting.by,
        "done": list(sitting.done),
        "undone": sitting.undone,
        "what": sitting.what,
    }
    put(home, REVIEWS, sitting.id, value)


def sittings(home: Home) -> Sequence[Sitting]:
    """Return all saved reviews, newest first."""
    found = [_sitting(name, value) for name, value in every(home, REVIEWS)]
    return sorted(found, key=lambda each: each.id, reverse=True)


def _sitting(name: str, value: dict[str, Any]) -> Sitting:
    done = value.get("done")
    listed = tuple(each for each in done if isinstance(each, dict)) if isinstance(done, list) else ()
    return Sitting(
        name,
        str(value.get("at") or ""),
        str(value.get("by") or ""),
        listed,
        undone=value.get("undone") is True,
        what=str(value.get("what") or REVIEW),
    )


def mark_of(*parts: str) -> str:
    """Return a hash of exactly these texts, as the name of a proposal."""
    whole = "\0".join(parts)
    return hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()


def decline(home: Home, name: str, *, kind: str, at: str, by: str) -> None:
    """Record that a person declined the proposal with this hash."""
    put(home, _DECLINED, name, {"kind": kind, "at": at, "by": by})


def undecline(home: Home, name: str) -> bool:
    """Delete the record of a declined proposal; return False when there was none."""
    return drop(home, _DECLINED, name)


def declined(home: Home) -> frozenset[str]:
    """Return the hashes of all declined proposals."""
    return frozenset(
        name.removesuffix(".json") for name in home.names("decisions", _DECLINED) if name.endswith(".json")
    )
