"""Two hundred texts that are no conversations, though names or labels stand before their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

_Row = TypeVar("_Row")

QUESTIONS = (
    (
        "How do I reset my password?",
        "Open the settings and choose a new one. You get a mail within a minute.",
    ),
    ("Can I change my plan later?", "Yes, you can change it at any time. We charge the difference."),
    ("Why is my build slow?", "Your cache is cold. Run it twice, and you will see the difference."),
    ("Where are my files kept?", "We keep them in the region that you chose."),
    ("Who can see my notes?", "Only you, and those you invite."),
    ("What happens when I cancel?", "You keep read access for thirty days."),
)
TERMS = (
    ("Shard", "a part of a table that lives on one server"),
    ("Replica", "a copy of your data that we keep up to date"),
    ("Quorum", "more than half of the voters; you need it to write"),
    ("Lease", "a lock that expires by itself, so I can crash and you can go on"),
    ("Shard", "in printing, a flake of ink"),
    ("Lease", "in law, a contract between us and you"),
)
PEOPLE = ("Anna Lima", "Ben", "Chiara", "Dr. Weber")
POINTS = (
    "reports that the release is on track; we wait for the signing key.",
    "asks who can take the on-call shift. Volunteers write to him.",
    "finished the import. Next week: the export, I will start on Monday.",
    "is blocked by the firewall. Can you help?",
    "suggests to move the meeting. We agreed on Tuesdays.",
    "will send you the numbers by Friday.",
)
EVENTS = (
    "started, listening on 8080",
    "you are using a deprecated flag, see the manual",
    "connection reset by peer, will retry in 5 s",
    "request took 120 ms",
    "could not open /etc/app.conf: is it readable?",
    "shut down",
)


def texts() -> Iterator[tuple[str, str]]:
    """Yield fifty texts of each kind, with a name."""
    for kind, make in (("faq", _faq), ("glossary", _glossary), ("minutes", _minutes), ("log", _log)):
        for number in range(50):
            yield f"{kind} {number}", make(number)


def _rotated(rows: tuple[_Row, ...], number: int) -> list[_Row]:
    by = number // 10 % len(rows)
    return [*rows[by:], *rows[:by]]


def _faq(number: int) -> str:
    ask, answer = (
        ("Q: {}", "A: {}"),
        ("**Q:** {}", "**A:** {}"),
        ("Question: {}", "Answer: {}"),
        ("## {}", "{}"),
        ("**{}**", "{}"),
        ("Frage: {}", "Antwort: {}"),
        ("Q{n}: {}", "A{n}: {}"),
        ("### Question\n{}", "### Answer\n{}"),
        ("Pregunta: {}", "Respuesta: {}"),
        ("User: {}", "Answer: {}"),
    )[number % 10]
    pairs = [
        f"{ask.format(question, n=n)}\n\n{answer.format(text, n=n)}"
        for n, (question, text) in enumerate(_rotated(QUESTIONS, number), 1)
    ]
    return ("# Help\n\n" if number % 2 else "") + "\n\n".join(pairs) + "\n"


def _glossary(number: int) -> str:
    line = (
        "{}: {}",
        "**{}:** {}",
        "- **{}**: {}",
        "## {}\n{}",
        "{} — {}",
        "Term: {}\nDefinition: {}",
        "Word: {}\nMeaning: {}\nExample: you and I use it.",
        "| {} | {} |",
        "**{}**\n: {}",
        "English: {}\nGerman: {}",
    )[number % 10]
    entries = [line.format(*pair) for pair in _rotated(TERMS, number)]
    return "# Terms we use\n\n" + "\n\n".join(entries) + "\n"


def _minutes(number: int) -> str:
    points = _rotated(POINTS, number * 10)
    titles = (
        "# Minutes of the team, 12 May",
        "# Standup",
        "# Weekly meeting\n\nAttendees: all",
        "# Protokoll vom 12. Mai",
        "Agenda: release, import",
    )
    title = titles[number % 5]
    if number % 10 < 5:  # a line of each point
        lines = [f"{PEOPLE[(at + number // 30) % 3]}: {point}" for at, point in enumerate([*points, *points])]
        return f"{title}\n\n" + "\n\n".join(lines) + "\n"
    days = []
    for day in range(3 + number // 30):  # who reported on which day, without a word that it is a meeting
        said = [f"{each}: {points[(day + at) % len(points)]}" for at, each in enumerate(PEOPLE)]
        days.append(f"## 2026-05-1{day}\n\n" + "\n".join(said))
    decided = "\n\n## Decided\n\n" + "\n".join(f"- {each}" for each in points[: number % 5 + 1])
    return "\n\n".join(days) + decided + "\n"


def _log(number: int) -> str:
    events = _rotated(EVENTS, number) * 3
    parts = ("Scheduler", "Worker", "api", "kernel")
    forms = (
        "2026-05-12 10:31:{s:02} INFO {e}",
        "[2026-05-12 10:31:{s:02}] INFO: {e}",
        "[10:31:{s:02}] {p}: {e}",
        "10:31:{s:02} ERROR: {e}\n10:31:{s:02} INFO: {e}",
        "May 12 10:31:{s:02} host {p}[123]: {e}",
        "{p}: {e}",
        "INFO:root:{e}",
        "2026-05-12T10:31:{s:02}Z - {p}: {e}",
        "Date: 2026-05-12\nAuthor: Ben\nCommit: {e}",
        "<{s}> {e}",
    )
    form = forms[number % 10]
    return "\n".join(form.format(s=at, p=parts[at % 4], e=event) for at, event in enumerate(events)) + "\n"
