"""Find the embedder that the settings name; nothing heavy is imported for one that is not."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.errors import EmbedderFailed, UnknownName
from vademecum.types import Provider

if TYPE_CHECKING:
    from vademecum.index.embed.base import Embedder
    from vademecum.index.embed.static import Static
    from vademecum.store.state import State

NAMES = tuple(map(str, Provider))
REMOTE = tuple(name for name in NAMES if name not in ("local", "minilm", "none"))


def select_embedder(
    name: str,
    *,
    model: str | None = None,
    endpoint: str | None = None,
    path: str | os.PathLike[str] | None = None,
    key_env: str | None = None,
    batch: int | None = None,
    timeout: float | None = None,
    state: State | None = None,
    largest: int = 0,
) -> Embedder | None:
    """Make the named embedder, or None for `none`; what is not given has the provider's own default.

    With a state, vectors that are dear are kept there, up to so many bytes.
    """
    if name == "none":
        return None
    if name == "local":
        return _kept(_by_path(Path(os.path.expanduser(path))) if path else shipped(), state, largest)
    if name == "minilm":
        from vademecum.index.embed.onnx import minilm

        return _kept(minilm(), state, largest)
    if name in REMOTE:
        from vademecum.index.embed.remote import make_remote

        made = make_remote(
            name, model=model, endpoint=endpoint, key_env=key_env, batch=batch, timeout=timeout
        )
        return _kept(made, state, largest)
    raise UnknownName(f"no embedder is called {name!r}", hint="choose one of " + ", ".join(NAMES))


def _kept(embedder: Embedder, state: State | None, largest: int) -> Embedder:
    from vademecum.index.embed.base import is_dear

    if state is None or not is_dear(embedder):
        return embedder
    from vademecum.index.embed.cached import Cached

    return Cached(embedder, state, largest)


@functools.cache
def shipped() -> Static:
    """One for the whole process: its cache of words serves every memory that is opened."""
    from vademecum.index.embed.static import Static

    return Static()


def _by_path(folder: Path) -> Embedder:
    """Tell a person's own model by the files in its folder."""
    if (folder / "table.npy").is_file():
        from vademecum.index.embed.static import Static

        return Static(folder)
    if (folder / "model.onnx").is_file():
        from vademecum.index.embed.onnx import own

        return own(folder)
    if (folder / "model.safetensors").is_file():
        from vademecum.index.embed.static import Model2Vec

        return Model2Vec(folder)
    raise EmbedderFailed(
        f"{folder}: holds no table.npy, model.onnx or model.safetensors",
        hint="give `embed.path` the folder of a static or ONNX model; keyword search still answers",
    )
