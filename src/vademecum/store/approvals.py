"""Writes that wait for a person, each in a file of `decisions/approvals/` named by the hash of its bytes.

What a person sees is what is written. A byte that changes afterwards, be it in the text, the scope or the
origin, makes it another request, and nobody has approved that one. It is used once: the file goes with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Ambiguous, Conflict, Malformed, NotFound, Refused
from vademecum.store import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vademecum.store.home import Home

MOST = 1000  # that wait at once: nobody reads more, and an agent must not fill the disk
SHOWN = 12  # characters of an id that a person types
_WHERE = ("decisions", "approvals")
_ENDING = ".json"
_LIST = "vade approve list"


@dataclass(frozen=True, slots=True)
class Request:
    """A write as it was asked for: what, where, by whom and through which door."""

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
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))  # so that no two are ever the same


class Waiting(NamedTuple):
    """A request and its id; `trouble` says why it cannot be approved."""

    id: str
    request: Request | None
    trouble: str = ""


def digest(content: bytes) -> str:
    """The id of a request: whoever approves it approves these bytes."""
    return hashlib.sha256(content).hexdigest()


def render(request: Request) -> bytes:
    """A request as it is kept."""
    return json.dumps(asdict(request), ensure_ascii=True, indent=1, sort_keys=True).encode() + b"\n"


def parse(content: bytes) -> Request:
    """A request from its bytes; `Malformed` when it is none."""
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


def whose(request: Request) -> str:
    """Whose it is once it is done: a text stays that of who asked, and taking away is the person's act."""
    return "yours" if request.operation in ("forget", "archive", "prune_knowledge") else request.origin


def put(home: Home, request: Request) -> Waiting:
    """Let a request wait; it is on disk when this returns."""
    content = render(request)
    id = digest(content)
    with home.lock("/".join(_WHERE)), home.folder(*_WHERE, create=True) as folder:
        for each in every(home) if request.once else ():
            if each.request is not None and _asks_the_same(each.request, request):
                return each
        if sum(name.endswith(_ENDING) for name in folder.names()) >= MOST:
            raise Refused(
                f"{MOST:,} writes wait for a person already",
                hint="ask the person to decide about them with `vade approve`",
            )
        folder.create(f"{id}{_ENDING}", content)
    return Waiting(id, request)


def _asks_the_same(one: Request, other: Request) -> bool:
    return replace(one, at="", nonce="", session=None) == replace(other, at="", nonce="", session=None)


def put_back(home: Home, content: bytes) -> None:
    """Let a request wait again that was decided about, under the id it had."""
    parse(content)
    with home.lock("/".join(_WHERE)), home.folder(*_WHERE, create=True) as folder:
        folder.update(f"{digest(content)}{_ENDING}", lambda _: content)


def count(home: Home) -> int:
    """How many wait."""
    return len(_names(home))


def every(home: Home) -> Sequence[Waiting]:
    """All that wait, oldest first; those that were changed come last and say so."""
    found = [_read(home, name.removesuffix(_ENDING)) for name in _names(home)]
    return sorted(
        found, key=lambda each: (each.request is None, each.request.at if each.request else each.id)
    )


@contextlib.contextmanager
def held(home: Home, which: str) -> Iterator[Waiting]:
    """Hold a request while it is decided about; afterwards it is gone, unless deciding failed."""
    id = _find(home, which)
    with home.lock(f"decisions/approvals/{id}"):
        waiting = _read(home, id)
        if waiting.request is None and waiting.trouble == _GONE:
            raise NotFound(f"nothing waits under {names.shown(which)}", hint=f"run `{_LIST}`")
        yield waiting
        with home.folder(*_WHERE) as folder:
            folder.delete(f"{id}{_ENDING}")


def unchanged(waiting: Waiting) -> Request:
    """The request, if it is still the one that its id names."""
    if waiting.request is None:
        raise Conflict(
            f"the request {waiting.id[:SHOWN]} {waiting.trouble}", hint="nothing was written; reject it"
        )
    return waiting.request


def purge(home: Home, text: str) -> Iterator[tuple[str, int]]:
    """Delete every request that holds a text; how often each did."""
    for name in _names(home):
        content = home.read(*_WHERE, name) or b""
        try:
            found = _count(json.loads(content), text)
        except ValueError:
            found = content.decode(errors="replace").count(text)
        if found:
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


def _read(home: Home, id: str) -> Waiting:
    content = home.read(*_WHERE, f"{id}{_ENDING}")
    if content is None:
        return Waiting(id, None, _GONE)
    if digest(content) != id:
        return Waiting(id, None, "was changed after it was asked for")
    try:
        return Waiting(id, parse(content))
    except Malformed as error:
        return Waiting(id, None, f"cannot be read: {error}")


def _find(home: Home, which: str) -> str:
    """The id that begins so; four characters are the least, so that nobody approves by a slip."""
    word = which.strip().lower()
    found = [id for name in _names(home) if (id := name.removesuffix(_ENDING)).startswith(word)]
    if len(word) < 4 or not found:
        raise NotFound(f"nothing waits under {names.shown(which)}", hint=f"run `{_LIST}`")
    if len(found) > 1:
        raise Ambiguous(f"{len(found)} requests begin with {names.shown(which)}", hint="give more of the id")
    return found[0]


def _names(home: Home) -> list[str]:
    return [name for name in home.names(*_WHERE) if name.endswith(_ENDING) and not name.startswith(".")]
