"""Storage of writes that need a person's approval, and of answers to calls that are retried.

A waiting write is a file in `decisions/approvals/`, named by the hash of its bytes. A person approves exactly
these bytes: with any change, be it in text, scope or origin, the hash differs, and the approval is void.
The file is deleted when the request is decided, so an approval is used once.

The answer to a call with a key is saved in a small file in `retries/`, and a retry gets the same answer. The
file is created before the work begins and gets the answer afterwards. So after a crash a retry can tell work
that may have been done from work that never began. These files hold no text of memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import (
    Ambiguous,
    Conflict,
    InvalidText,
    Malformed,
    NotFound,
    Refused,
    StorageFailed,
    UsageError,
    VadeError,
)
from vademecum.text import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vademecum.store.backend import Directory
    from vademecum.store.home import Home

MOST = 1000  # that wait at once: nobody reads more, and an agent must not fill the disk
SHORT_ID_CHARS = 12  # characters of an id that a person types
_WHERE = ("decisions", "approvals")
_ENDING = ".json"
_LIST = "vade review approve list"


@dataclass(frozen=True, slots=True)
class Request:
    """A requested write: its operation, arguments, scope, agent and interface."""

    operation: str
    arguments: Mapping[str, Any]
    scope: str
    door: str
    origin: str
    actor: str
    agent: str
    at: str
    session: str | None = None
    project: str | None = None
    root: str | None = None
    audience: str = "private"
    seen: str | None = None  # the hash of the file that it takes away
    once: bool = False  # asked for again while it waits, it is the same request
    client: str | None = None  # the program it came through
    conversation: str | None = None  # the agent's own session, where a hook has told it
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))  # so that no two are ever the same

    @property
    def whose(self) -> str:
        """Return "yours" for a removal, archiving or rewording, else the origin that the request names."""
        return (
            "yours" if self.operation in ("forget", "archive", "prune_knowledge", "reword") else self.origin
        )


class PendingRequest(NamedTuple):
    """A pending request and its id; `request` is None if it cannot be approved, and `trouble` says why."""

    id: str
    request: Request | None
    trouble: str = ""

    @property
    def short(self) -> str:
        """Return the beginning of the id, as a person types it."""
        return self.id[:SHORT_ID_CHARS]


def digest(content: bytes) -> str:
    """Return the id of a request: a hash of its bytes, so that an approval counts for these bytes only."""
    return hashlib.sha256(content).hexdigest()


def render(request: Request) -> bytes:
    """Render a request as JSON; unknown program and session are left out."""
    content = {
        name: value
        for name, value in asdict(request).items()
        if value is not None or name not in ("client", "conversation")
    }
    return json.dumps(content, ensure_ascii=True, indent=1, sort_keys=True).encode() + b"\n"


def parse(content: bytes) -> Request:
    """Parse a request; raise Malformed when the content is no request."""
    try:
        value = json.loads(content)
        request = Request(**value)
    except (ValueError, TypeError) as error:
        raise Malformed("this is not a request for a write", hint=f"run `{_LIST}`") from error
    texts = [
        getattr(request, each.name) for each in fields(Request) if each.name not in ("arguments", "once")
    ]
    if not isinstance(request.arguments, dict) or any(not isinstance(each, str | None) for each in texts):
        raise Malformed("this is not a request for a write", hint=f"run `{_LIST}`")
    return request


def put(home: Home, request: Request) -> PendingRequest:
    """Save a pending request to disk, and return it with its id; refuse it if `MOST` requests are pending.

    With `request.once`, save nothing if an equal request is already pending, but return that request.
    """
    content = render(request)
    id = digest(content)
    with home.lock("/".join(_WHERE)), home.folder(*_WHERE, create=True) as folder:
        for each in every(home) if request.once else ():
            if each.request is not None and _asks_the_same(each.request, request):
                return each
        if sum(name.endswith(_ENDING) for name in folder.names()) >= MOST:
            raise Refused(
                f"{MOST:,} writes are already pending",
                hint="ask the person to decide about them with `vade review approve`",
            )
        folder.create(f"{id}{_ENDING}", content)
    return PendingRequest(id, request)


def _asks_the_same(one: Request, other: Request) -> bool:
    blank: dict[str, Any] = dict.fromkeys(("session", "client", "conversation")) | {"at": "", "nonce": ""}
    return replace(one, **blank) == replace(other, **blank)


def put_back(home: Home, content: bytes) -> None:
    """Make a rejected request pending again, under its id."""
    parse(content)
    with home.lock("/".join(_WHERE)), home.folder(*_WHERE, create=True) as folder:
        folder.update(f"{digest(content)}{_ENDING}", lambda _: content)


def count(home: Home) -> int:
    """Return the number of pending requests."""
    return len(_names(home))


def every(home: Home) -> Sequence[PendingRequest]:
    """Return all pending requests, oldest first; changed and unreadable ones come last."""
    found = [_read(home, name.removesuffix(_ENDING)) for name in _names(home)]
    return sorted(
        found, key=lambda each: (each.request is None, each.request.at if each.request else each.id)
    )


@contextlib.contextmanager
def held(home: Home, which: str) -> Iterator[PendingRequest]:
    """Yield the request whose id begins with `which`, under a lock; delete it unless the block fails."""
    id = _find(home, which)
    with home.lock(f"decisions/approvals/{id}"):
        waiting = _read(home, id)
        if waiting.request is None and waiting.trouble == _GONE:
            raise NotFound(f"no pending write {names.shown(which)}", hint=f"run `{_LIST}`")
        yield waiting
        with home.folder(*_WHERE) as folder:
            folder.delete(f"{id}{_ENDING}")


def unchanged(waiting: PendingRequest) -> Request:
    """Return the request; raise an error if its file was changed, is gone or cannot be read."""
    if waiting.request is None:
        raise Conflict(
            f"the request {waiting.short} {waiting.trouble}", hint="nothing was written; reject it"
        )
    return waiting.request


def purge(home: Home, text: str, *, dry: bool = False) -> Iterator[tuple[str, int]]:
    """Delete the requests that hold a text; yield the path of each, and how often it has the text.

    A `dry` run deletes none.
    """
    for name in _names(home):
        content = home.read(*_WHERE, name) or b""
        try:
            found = _count(json.loads(content), text)
        except ValueError:
            found = content.decode(errors="replace").count(text)
        if found and dry:
            yield "/".join((*_WHERE, name)), found
        elif found:
            with (
                home.lock(f"decisions/approvals/{name.removesuffix(_ENDING)}"),
                home.folder(*_WHERE) as folder,
            ):
                folder.delete(name)
            yield "/".join((*_WHERE, name)), found


def _count(value: Any, text: str) -> int:
    if isinstance(value, str):
        return value.count(text)
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(_count(each, text) for each in inside)


_GONE = "is gone"


def _read(home: Home, id: str) -> PendingRequest:
    content = home.read(*_WHERE, f"{id}{_ENDING}")
    if content is None:
        return PendingRequest(id, None, _GONE)
    if digest(content) != id:
        return PendingRequest(id, None, "was changed after it was asked for")
    try:
        return PendingRequest(id, parse(content))
    except Malformed as error:
        return PendingRequest(id, None, f"cannot be read: {error}")


def _find(home: Home, which: str) -> str:
    """Return the only pending id that begins with `which`; fewer than four characters match no id."""
    word = which.strip().lower()
    found = [id for name in _names(home) if (id := name.removesuffix(_ENDING)).startswith(word)]
    if len(word) < 4 or not found:
        raise NotFound(f"no pending write {names.shown(which)}", hint=f"run `{_LIST}`")
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} pending writes start with {names.shown(which)}",
            hint="use more characters of the id",
        )
    return found[0]


def _names(home: Home) -> list[str]:
    return [name for name in home.names(*_WHERE) if name.endswith(_ENDING) and not name.startswith(".")]


MOST_ANSWERS = 10_000  # keys that are remembered, the newest; nobody retries a call that long ago
LONGEST = 200  # characters of a key
FOLDER = "retries"
_LOOK = 128  # keys between two looks whether there are too many


def check_key(key: str) -> str:
    """Return a call's key; raise an error if it cannot be a key."""
    if not key.strip() or len(key) > LONGEST:
        raise InvalidText(
            f"an idempotency key has 1 to {LONGEST} characters", hint="use a new random key for each write"
        )
    return key


def once(
    home: Home,
    key: str,
    *,
    request: Mapping[str, Any],
    at: str,
    do: Callable[[str | None], Mapping[str, Any]],
) -> Mapping[str, Any]:
    """Run `do` once for a key; later calls with the same key and request get the saved answer.

    `do` gets the time of an earlier attempt that left no answer, else None. If the first attempt ends in a
    VadeError other than StorageFailed, the key can be used again. A key of a different request raises an
    error.
    """
    name, mark = _name(key), {"asked": _print(request), "at": at}
    with home.lock(f"{FOLDER}/{name}"), home.folder(FOLDER, create=True) as folder:
        known = _known(folder, name, key, mark["asked"])
        if known and isinstance(known.get("answer"), dict):
            return dict(known["answer"])
        begun = str(known["at"]) if known else None
        mark = {**mark, "at": begun or at}
        folder.update(name, lambda _: _bytes(mark))
        try:
            answer = do(begun)
        except StorageFailed:
            raise  # it may or may not have been done: the mark stays
        except VadeError:
            if begun is None:
                folder.delete(name)
            raise
        folder.update(name, lambda _: _bytes({**mark, "answer": answer}))
        if int(name[:4], 16) % _LOOK == 0:
            _bound(folder)
    return answer


def answer(home: Home, key: str, *, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the saved answer for a key, else None; raise an error if the key belongs to another request."""
    try:
        with home.folder(FOLDER) as folder:
            known = _known(folder, _name(key), key, _print(request))
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = known.get("answer") if known else None
    return found if isinstance(found, dict) else None


def clear_answers(home: Home) -> None:
    """Delete the saved answers of all keys."""
    for name in home.names(FOLDER):
        with home.folder(FOLDER) as folder:
            folder.delete(name)


def _bound(folder: Directory) -> None:
    ages = []
    for name in folder.names():
        state = folder.stat(name)
        if name.endswith(".json") and state is not None:
            ages.append((state.st_mtime_ns, name))
    for _, name in sorted(ages)[: max(0, len(ages) - MOST_ANSWERS)]:
        folder.delete(name)


def _name(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:40] + ".json"


def _print(request: Mapping[str, Any]) -> str:
    return hashlib.sha256(_bytes(request)).hexdigest()


def _known(folder: Directory, name: str, key: str, request_digest: str) -> dict[str, Any] | None:
    known = _load(folder.read(name))
    if known and known["asked"] != request_digest:
        raise UsageError(
            f"the idempotency key {names.shown(key.rpartition('/')[2])} belongs to another call",
            hint="use a new key for each write; repeat one only to retry the same write",
        )
    return known


def _bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True).encode() + b"\n"


def _load(content: bytes | None) -> dict[str, Any] | None:
    """Return the saved state of a key; None for a missing or unreadable file."""
    if content is None:
        return None
    try:
        value = json.loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "asked" in value and "at" in value else None
