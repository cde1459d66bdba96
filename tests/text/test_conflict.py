"""Two statements about the same contradict each other when one excludes the other, on the same terms."""

from __future__ import annotations

from cases import every_case
from vademecum.text import conflict, meaning
from vademecum.text.conflict import contradiction

CONTRADICTORY = [
    ("The freeze starts on 2026-05-01.", "The freeze starts on 2026-05-08.", conflict.ANOTHER_VALUE),
    (
        "Old logs are deleted after thirty days.",
        "Old logs are deleted after 14 days.",
        conflict.ANOTHER_VALUE,
    ),
    ("The cache TTL is 5 min.", "The cache TTL is 600 seconds.", conflict.ANOTHER_VALUE),
    (
        "If a job fails it is retried 3 times.",
        "If a job fails it is retried 5 times.",
        conflict.ANOTHER_VALUE,
    ),
    ("The API listens on port 8080.", "The API port is 9090.", conflict.ANOTHER_VALUE),
    ("The message broker is rabbitmq.", "The message broker is kafka.", conflict.ANOTHER_CHOICE),
    ("The database is PostgreSQL.", "We use MySQL as the database.", conflict.ANOTHER_CHOICE),
    ("Run the linter before committing.", "Do not run the linter before committing.", conflict.DENIED),
    ("You may push to main.", "You must not push to main.", conflict.DENIED),
    ("Tests must pass before a merge.", "Tests need not pass before a merge.", conflict.DENIED),
    ("Developers may access production.", "Nobody may access production.", conflict.DENIED),
    ("Rotate the keys every month.", "Never rotate the keys.", conflict.DENIED),
    ("The billing service is owned by Alice.", "Bob owns the billing service.", conflict.OTHER_OWNER),
    ("The office is in Berlin.", "The office is in Hamburg.", conflict.OTHER_PLACE),
    ("Answer in German.", "Answer in English.", conflict.OTHER_LANGUAGE),
    ("The worker is written in Go.", "The worker is written in Rust.", conflict.OTHER_LANGUAGE),
    ("The cluster has a GPU node.", "There is no GPU node in the cluster.", conflict.NOT_THERE),
    ("Telemetry is turned off.", "Telemetry is enabled.", conflict.OTHER_STATE),
    (
        "Alice ist für die Abrechnung zuständig.",
        "Bob ist für die Abrechnung zuständig.",
        conflict.OTHER_OWNER,
    ),
    ("Das Timeout beträgt 30 Sekunden.", "Das Timeout beträgt 60 Sekunden.", conflict.ANOTHER_VALUE),
]

INNOCENT = [
    ("Release 1.4 took 3 days.", "Release 1.5 took 5 days."),
    ("The timeout is 60 seconds.", "The timeout is one minute."),
    ("The timeout is 30 seconds in staging.", "The timeout is 60 seconds in production."),
    ("Before 2024 the limit was 5.", "The limit is 20."),
    ("We will raise the limit to 50.", "The limit is 20."),
    ("The pool has at least 4 connections.", "The pool has at most 20 connections."),
    ("Production runs on AWS.", "Production runs on Linux."),
    ("Docs live in docs/.", "Docs live in docs/api/."),
    ("Alice and Bob own the parser.", "Alice owns the parser."),
    ("The database is PostgreSQL.", "The database is fast."),
    ("Answer in German when I write German.", "Answer in English."),
    ("Do not use sudo for docker.", "Use sudo."),
    ("Das Caching ist in der Entwicklung deaktiviert.", "Das Caching ist in der Produktion aktiviert."),
]


@every_case(("one", "other", "rule"), CONTRADICTORY)
def test_what_excludes_the_other_is_found_from_either_side(one: str, other: str, rule: str) -> None:
    assert contradiction(one, other) == contradiction(other, one) == rule


@every_case(("one", "other"), INNOCENT)
def test_what_can_both_be_true_is_no_contradiction(one: str, other: str) -> None:
    assert contradiction(one, other) == contradiction(other, one) == ""


@every_case(("one", "other"), [(one, other) for one, other, _ in CONTRADICTORY] + INNOCENT)
def test_nothing_contradicts_itself(one: str, other: str) -> None:
    assert contradiction(one, one) == contradiction(other, other) == ""


@every_case(
    ("text", "certain"),
    [
        ("The API timeout is 30 seconds.", True),
        ("If a job fails it is retried 3 times.", False),
        ("The office is in Berlin.", False),
        ("The config lives in config/app.toml.", True),
        ("You may push to main.", False),
    ],
)
def test_what_has_a_condition_a_permission_or_a_loose_place_needs_a_person(text: str, certain: bool) -> None:
    first = next(iter(conflict.claims(meaning.read(text))))
    assert first.certain is certain


def test_each_of_many_texts_that_another_denies_is_named_with_one_that_does() -> None:
    texts = ["I prefer tabs.", "Look at it. I prefer spaces.", "Write tests.", "I prefer tabs."]
    assert conflict.find_opposed(texts) == {0: 1, 1: 0, 3: 1}
    assert conflict.find_opposed(["The pool holds 20 threads. The pool holds 40 threads."]) == {}
