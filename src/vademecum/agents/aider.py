"""Aider: `.aider.chat.history.md`, and a file of memory that `.aider.conf.yml` names below `read`.

Aider has neither an MCP client nor hooks, so `vade inject --write aider` is how it gets memory. Its history
holds all sessions of a project: each begins with a title that has its local time; lines of a person begin
with `####` and lines of Aider itself with `>`, both with two spaces at the end. Everything else is an answer
of the model. Lines of Aider itself are left out.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from vademecum.agents import base

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.agents.memory_files import FileTree, Importing
    from vademecum.knowledge import Piece
    from vademecum.transcripts.foreign import FileItem

HISTORY = ".aider.chat.history.md"
_START = re.compile(r"^# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[ \t]*$", re.MULTILINE)
_PERSON = re.compile(r"^####(?: (?P<text>.*?))? {2}$")
_AIDER = re.compile(r"^>(?: .*)? {2}$")


class _Session(NamedTuple):
    """A session in a history: its time, as written, and its text."""

    started: str
    text: str


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield every session of every history in a project."""
    from vademecum.agents.memory_files import session_in
    from vademecum.knowledge import Conversation, Skipped

    for name in tree.names():
        if name.rpartition("/")[2] != HISTORY:
            continue
        file = tree.read(name)
        if isinstance(file, Skipped):
            yield file
            continue
        folder = str((tree.top / name).parent) if tree.top.is_dir() else ""
        for number, session in enumerate(_sessions(file.text), 1):

            def read(
                path: Path, *_: object, session: _Session = session, folder: str = folder
            ) -> Iterator[FileItem]:
                return read_session(session, folder)

            yield session_in(tree, name, f"{name}#{number}: {session.started}", Conversation("aider", read))


def _sessions(text: str) -> Iterator[_Session]:
    _, *rest = _START.split(text)
    for started, body in zip(rest[::2], rest[1::2], strict=True):
        yield _Session(started, body)


def read_session(session: _Session, folder: str) -> Iterator[FileItem]:
    """Yield the messages of a session; the same session has the same id after the history has grown."""
    from vademecum.text import clock
    from vademecum.transcripts import Message, Role, Text
    from vademecum.transcripts.foreign import SessionFacts

    try:
        created = clock.stamp(datetime.fromisoformat(session.started).astimezone())
    except (ValueError, OverflowError):
        created = ""
    first = next((text for kind, text in _blocks(session.text) if kind == "person"), "")
    own = hashlib.sha256(f"{session.started}\n{first}".encode()).hexdigest()[:32]
    yield SessionFacts(own, folder=folder, created=created)
    for kind, text in _blocks(session.text):
        role = Role.USER if kind == "person" else Role.ASSISTANT
        yield Message(role, (Text(text),), time=created)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield who speaks (`person` or `model`), and the text, for each part of a session."""
    for kind, lines in groupby(_lines(text), key=lambda line: line[0]):
        said = "\n".join(line for _, line in lines).strip("\n")
        if kind != "aider" and said.strip():
            yield kind, said


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the writer and the text of each line; until a person writes, the writer is Aider itself."""
    writer, is_open = "aider", False
    for line in text.split("\n"):
        person = _PERSON.match(line)
        if person:
            writer, is_open = "person", True
        elif is_open and _AIDER.match(line):
            writer = "aider"
        elif is_open and (writer == "person" or not line.strip()):
            writer = "model"
        yield writer, (person["text"] or "") if person else line


AGENT = base.Agent(
    "aider",
    instructions=base.InstructionFile((".aider.vade.md",)),
    memories=memories,
    keeps=(HISTORY,),
    environment=base.Environment("Aider", editor=("AIDER_MODEL",)),
)
