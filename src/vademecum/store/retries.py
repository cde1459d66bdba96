"""Which calls were answered already, one small file per key in `retries/`: a retry is told the same again.

A key is marked before the work begins and gets its answer after it, so that who comes back after a crash
can tell work that may have been done from work that never began. Nothing here holds a text of memory.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from vademecum.errors import InvalidText, StorageFailed, UsageError, VadeError
from vademecum.store import names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vademecum.store.backend import Directory
    from vademecum.store.home import Home

MOST = 10_000  # keys that are remembered, the newest; nobody retries a call that long ago
LONGEST = 200  # characters of a key
FOLDER = "retries"
_LOOK = 128  # keys between two looks whether there are too many


def check(key: str) -> str:
    """Return the key of a call if it can be one."""
    if not key.strip() or len(key) > LONGEST:
        raise InvalidText(
            f"an idempotency key has 1 to {LONGEST} characters", hint="make a new random one for each write"
        )
    return key


def once(
    home: Home,
    key: str,
    *,
    asked: Mapping[str, Any],
    at: str,
    do: Callable[[str | None], Mapping[str, Any]],
) -> Mapping[str, Any]:
    """Do a thing once for a key, and give the same answer ever after.

    `do` is told when an earlier attempt began that left no answer. What it refuses may be tried again.
    """
    name, mark = _name(key), {"asked": _print(asked), "at": at}
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


def answer(home: Home, key: str, *, asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The answer that a key got before; None when there is none yet."""
    try:
        with home.folder(FOLDER) as folder:
            known = _known(folder, _name(key), key, _print(asked))
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = known.get("answer") if known else None
    return found if isinstance(found, dict) else None


def clear(home: Home) -> None:
    """Forget every key."""
    for name in home.names(FOLDER):
        with home.folder(FOLDER) as folder:
            folder.delete(name)


def _bound(folder: Directory) -> None:
    ages = []
    for name in folder.names():
        state = folder.stat(name)
        if name.endswith(".json") and state is not None:
            ages.append((state.st_mtime_ns, name))
    for _, name in sorted(ages)[: max(0, len(ages) - MOST)]:
        folder.delete(name)


def _name(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:40] + ".json"


def _print(asked: Mapping[str, Any]) -> str:
    return hashlib.sha256(_bytes(asked)).hexdigest()


def _known(folder: Directory, name: str, key: str, asked: str) -> dict[str, Any] | None:
    known = _load(folder.read(name))
    if known and known["asked"] != asked:
        raise UsageError(
            f"the idempotency key {names.shown(key.rpartition('/')[2])} belongs to another call",
            hint="make a new key for each write; use one again only to retry that same write",
        )
    return known


def _bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True).encode() + b"\n"


def _load(content: bytes | None) -> dict[str, Any] | None:
    """What is known of a key; a file that cannot be read says nothing."""
    if content is None:
        return None
    try:
        value = json.loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "asked" in value and "at" in value else None
