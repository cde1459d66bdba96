"""A year of memory to look at: what a team and its agents would have saved, made up for `vade demo --web`."""

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
    """One thing that was saved, or archived when it has no text."""

    days: int
    who: str
    key: str
    type: str
    tags: tuple[str, ...]
    text: str


def read_year() -> list[SavedLine]:
    """What happened, the oldest first."""
    lines = files("vademecum.interfaces.cli").joinpath("demo_year.txt").read_text("utf-8").splitlines()
    told = []
    for line in lines:
        if line and not line.startswith("#"):
            days, who, key, kind, tags, text = (each.strip() for each in line.split("|", 5))
            named = tuple(each.strip() for each in tags.split(",") if each.strip())
            told.append(SavedLine(int(days), who, key, kind, named, "" if text == "-" else text))
    for index, name in enumerate(SERVICES):
        port = 7100 + 10 * index
        text = (
            f"{name.title()} listens on {port}, with a dashboard at grafana/{name}. See [[harbour-service]]."
        )
        told.append(
            SavedLine(355 - 9 * index, "codex 0.50", f"service-{name}", "reference", ("services",), text)
        )
    return sorted(told, key=lambda each: -each.days)


def fill(home: Path, project: Path, *, now: datetime | None = None) -> Counter[str]:
    """Fill a home with the year that ends now; how many of each thing were made."""
    end = now or clock.now()
    project.mkdir(parents=True, exist_ok=True)
    (project / ".git").mkdir(exist_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text('sweep = "off"\n', "utf-8")
    made: Counter[str] = Counter()
    moment = [end]
    doors: dict[str, Memory] = {}
    known: set[str] = set()
    try:
        for number, told in enumerate(read_year()):
            # Office hours, spread by the number of the line; never after now.
            moment[0] = min(end - timedelta(days=told.days) + timedelta(minutes=37 * number % 240), end)
            memory = doors.get(told.who)
            if memory is None:
                memory = doors[told.who] = _open(home, project, told.who, lambda: moment[0])
            made.update(_save(memory, told, known))
        notes = _open(home, project, YOU, lambda: moment[0])
        doors["notes"] = notes
        for days, text in _notes():
            moment[0] = end - timedelta(days=days)
            notes.note(text)
            made["notes"] += 1
    finally:
        for each in doors.values():
            each.close()
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


def _save(memory: Memory, told: SavedLine, known: set[str]) -> Iterator[str]:
    """Save or archive one thing; what an agent saved was said in a session."""
    if not told.text:
        memory.forget(told.key)
        yield "archived"
        return
    scope = "global" if told.type in ("user", "feedback") else "project"
    mode: Any = "replace" if told.key in known else "append"
    memory.store(told.text, key=told.key, type=told.type, tags=told.tags, scope=scope, mode=mode)
    yield "replaced" if told.key in known else "records"
    known.add(told.key)
    if told.who != YOU and told.days % 2 == 0:
        _say(memory, told)
        yield "sessions"


def _say(memory: Memory, told: SavedLine) -> None:
    from vademecum import Message, Role, Text

    at = memory.workspace.stamp()
    topic = told.key.replace("-", " ")
    log = memory.sessions.new(id=f"demo-{told.key}-{told.days}", name=topic.capitalize(), model=told.who)
    said = (
        (Role.USER, f"What do we know about {topic}? Please look, and save what matters."),
        (Role.ASSISTANT, f"{told.text} {_WHY[told.days % len(_WHY)]}"),
        (Role.USER, "Good. Save it."),
        (Role.ASSISTANT, f"Saved as {told.key}."),
    )
    memory.sessions.record(log, [Message(role, (Text(text),), time=at) for role, text in said])


def _notes() -> Iterator[tuple[float, str]]:
    """Notes of the journal: a line about every week, more of late."""
    week = (
        "Team call: nothing blocks.",
        "Paired with Ana on the queue.",
        "Read the alarms of the week: two, both known.",
    )
    for number, days in enumerate(range(357, 20, -7)):
        yield days + 0.1, week[number % len(week)]
    yield 12.1, "Kestrel asks for arrival times by e-mail; see [[eta-model]]."
    yield 3.1, "Santos: strike until Friday. SavedLine the customers."
    yield 1.1, "Release notes are half done."
    yield 0.02, "Looking through memory: deploys changed three times in a year."
