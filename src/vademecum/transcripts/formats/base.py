"""What a foreign transcript's format is: something that knows its files, and reads them as our messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vademecum.transcripts.messages import Message

    Seen = Callable[[int], object]


# What a message's `extra` may say of its place in the conversation; a plain part of it has none of these.
META = "meta"  # the agent's machinery wrote it, nobody said it: the kind of line it was
SIDE = "side"  # it belongs to a subagent's conversation: the subagent's id, or True
LEFT = "left"  # it is on a branch that was left, or was taken back
SUMMARY = "summary"  # it stands for what a compaction took away


class Usage(NamedTuple):
    """What a call cost, as the provider counted it.

    `input` is the whole prompt, whichever way a provider splits it, and `cached` the part of it read from
    a cache; `output` has the thoughts in it. A reader tells it once for each call, and right after the answer
    it paid for where the file says which that is.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    total: int = 0
    cost: float = 0.0
    model: str = ""
    time: str = ""


class Told(NamedTuple):
    """What a file says of its session as a whole; later ones add to earlier ones."""

    id: str = ""
    title: str = ""
    folder: str = ""  # the working directory
    created: str = ""
    model: str = ""


class Unread(NamedTuple):
    """A line or a part that could not be understood: where, and why; everything else is read."""

    line: int
    why: str


def unseen(_bytes: int) -> None:
    """Nobody wants to know how far a reader is."""


class Format(Protocol):
    """One agent's way of keeping transcripts."""

    @property
    def name(self) -> str:
        """As it is called on the command line: `claude-code`, `codex`, `openclaw`, `gemini-cli`, `clio`."""

    def folders(self, home: Path) -> Iterator[Path]:
        """Where the agent keeps its transcripts below a person's home folder; they may not exist."""

    def files(self, folder: Path) -> Iterator[Path]:
        """The transcripts in one of these folders."""

    def recognises(self, head: bytes, path: Path) -> bool:
        """Whether a file is one of this format, by its first bytes and its name."""

    def read(self, path: Path, seen: Seen = unseen) -> Iterator[Message | Usage | Told | Unread]:
        """Everything in a file, in order, in bounded memory; never raises for what is in it.

        `seen` is told after each line how many bytes of the file have been read.
        """
