"""Fill a home with a made-up year of a team and its agents, for `vade demo --web`."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.text import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vademecum.memory import Memory

YOU = "you"
SERVICES = ("gateway", "tracking", "billing", "customs", "ports", "notices", "search", "reports")
_WHY = ("It came up while I worked on something else.", "That cost us an afternoon.", "I checked it twice.")


class SavedLine(NamedTuple):
    """A record that somebody saved; an empty text means that it was archived."""

    days: int
    who: str
    key: str
    type: str
    tags: tuple[str, ...]
    text: str


def read_year() -> list[SavedLine]:
    """Return the saved lines of the year, the oldest first."""
    lines = files("vademecum.interfaces.cli").joinpath("demo_year.txt").read_text("utf-8").splitlines()
    saved = []
    for line in lines:
        if line and not line.startswith("#"):
            days, who, key, kind, tags, text = (part.strip() for part in line.split("|", 5))
            named = tuple(tag.strip() for tag in tags.split(",") if tag.strip())
            saved.append(SavedLine(int(days), who, key, kind, named, "" if text == "-" else text))
    for index, name in enumerate(SERVICES):
        port = 7100 + 10 * index
        text = (
            f"{name.title()} listens on {port}, with a dashboard at grafana/{name}. See [[harbour-service]]."
        )
        saved.append(
            SavedLine(355 - 9 * index, "codex 0.50", f"service-{name}", "reference", ("services",), text)
        )
    return sorted(saved, key=lambda line: -line.days)


def fill(home: Path, project: Path, *, now: datetime | None = None) -> Counter[str]:
    """Fill a home with the year that ends now, and return how many records, sessions and notes it has."""
    end = now or clock.now()
    project.mkdir(parents=True, exist_ok=True)
    (project / ".git").mkdir(exist_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text('sweep = "off"\n', "utf-8")
    made: Counter[str] = Counter()
    moment = [end]
    memories: dict[str, Memory] = {}
    known: set[str] = set()
    try:
        for number, line in enumerate(read_year()):
            # Office hours, spread by the number of the line; never after now.
            moment[0] = min(end - timedelta(days=line.days) + timedelta(minutes=37 * number % 240), end)
            memory = memories.get(line.who)
            if memory is None:
                memory = memories[line.who] = _open(home, project, line.who, lambda: moment[0])
            made.update(_save(memory, line, known))
        notes = _open(home, project, YOU, lambda: moment[0])
        memories["notes"] = notes
        for days, text in _read_notes():
            moment[0] = end - timedelta(days=days)
            notes.note(text)
            made["notes"] += 1
    finally:
        for memory in memories.values():
            memory.close()
    return made


def _open(home: Path, project: Path, who: str, now: Callable[[], datetime]) -> Memory:
    from vademecum.memory import connect
    from vademecum.types import Origin

    given: dict[str, Any] = {
        "origin": Origin.AGENT,
        "client": who,
        "conversation": f"{who.partition(' ')[0]}-1",
    }
    if who == YOU:
        given = {"origin": Origin.USER, "actor": "human:demo"}
    return connect(home=home, cwd=project, environ={}, now=now, **given)


def _save(memory: Memory, line: SavedLine, known: set[str]) -> Iterator[str]:
    """Save or archive a record; about half of the records of agents get a session."""
    if not line.text:
        memory.forget(line.key)
        yield "archived"
        return
    scope = "global" if line.type in ("user", "feedback") else "project"
    mode: Any = "replace" if line.key in known else "append"
    memory.store(line.text, key=line.key, type=line.type, tags=line.tags, scope=scope, mode=mode)
    yield "replaced" if line.key in known else "records"
    known.add(line.key)
    if line.who != YOU and line.days % 2 == 0:
        _record_session(memory, line)
        yield "sessions"


def _record_session(memory: Memory, line: SavedLine) -> None:
    from vademecum import Message, Role, Text

    at = memory.workspace.stamp()
    topic = line.key.replace("-", " ")
    log = memory.sessions.new(id=f"demo-{line.key}-{line.days}", name=topic.capitalize(), model=line.who)
    turns = (
        (Role.USER, f"What do we know about {topic}? Please look, and save what matters."),
        (Role.ASSISTANT, f"{line.text} {_WHY[line.days % len(_WHY)]}"),
        (Role.USER, "Good. Save it."),
        (Role.ASSISTANT, f"Saved as {line.key}."),
    )
    memory.sessions.record(log, [Message(role, (Text(text),), time=at) for role, text in turns])


def _read_notes() -> Iterator[tuple[float, str]]:
    """Return journal notes with their ages in days: one a week, and more in the last two weeks."""
    week = (
        "Team call: nothing blocks.",
        "Paired with Ana on the queue.",
        "Read the alarms of the week: two, both known.",
    )
    for number, days in enumerate(range(357, 20, -7)):
        yield days + 0.1, week[number % len(week)]
    yield 12.1, "Kestrel asks for arrival times by e-mail; see [[eta-model]]."
    yield 3.1, "Santos: strike until Friday. Told the customers."
    yield 1.1, "Release notes are half done."
    yield 0.02, "Looking through memory: deploys changed three times in a year."
