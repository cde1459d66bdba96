"""A chat without a terminal: a scripted model, a person whose answers are a list, a home of its own."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.interfaces.chat import state
from vademecum.interfaces.chat.state import Chat, Flags
from vademecum.interfaces.chat.terminal import PlainScreen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.llm.base import Model


@dataclass
class Person:
    """Who answers questions, and what they were asked."""

    answers: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def answer(self, question: str) -> str:
        self.asked.append(question)
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)


@dataclass
class Room:
    """A home and a project in which chats are opened, one after another or at once."""

    home: Path
    project: Path
    person: Person = field(default_factory=Person)
    chats: list[Chat] = field(default_factory=list)

    def chat(self, model: Model | None = None, *, session: str | None = None, **given: Any) -> Chat:
        asks = given.pop("asks", True)
        opened = {name: given.pop(name) for name in ("incognito", "readonly", "audience") if name in given}
        fresh = given.pop("fresh", False)
        doors = state.open_callers(home=str(self.home), cwd=str(self.project), actor="human:ada", **opened)
        screen = PlainScreen(self.person.answer if asks else None)
        made = Chat(doors, screen, model=model, flags=Flags(**given), session=session, fresh=fresh)
        self.chats.append(made)
        return made

    def close(self) -> None:
        for each in self.chats:
            each.close()
        self.chats.clear()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    made = Room(tmp_path / "home", project)
    yield made
    made.close()
