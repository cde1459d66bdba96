"""What cannot both be true is found by rules, and what merely reads alike is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench import statements as labelled

from vademecum.lifecycle import contradictions, passes
from vademecum.store import scopes
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.stores import World
    from vademecum.lifecycle.contradictions import Clash

CLASHING = [
    ("The API timeout is 30 seconds.", "The API timeout is 60 seconds."),
    ("Use unittest for new tests.", "Always use pytest for testing in this project. Do not use unittest."),
    ("The database is PostgreSQL.", "The database is MySQL."),
    ("Port: 8080", "Port: 9090"),
    ("We deploy on Fridays.", "We deploy on Mondays."),
    ("Caching is enabled.", "Caching is disabled."),
    ("We use Redis for caching.", "We no longer use Redis for caching."),
    ("We use Redis for caching.", "We don't use Redis for caching."),
    ("Always commit lockfiles.", "Never commit lockfiles."),
    ("Use sudo for docker.", "Avoid using sudo for docker."),
    ("Python version is 3.11", "Python version = 3.12"),
    ("Use black for formatting.", "Use ruff for formatting."),
    ("The entry point is `main.py`.", "The entry point is `app.py`."),
    ("Tokens expire after 15 minutes.", "Tokens expire after 60 minutes."),
    ("The release branch is protected.", "The release branch is not protected."),
    ("- Two-factor login is required.", "- Two-factor login is optional."),
    ("The staging server has 8 cores.", "The staging server has 16 cores."),
]

PEACEFUL = [
    ("The build is fast.", "The build is reproducible."),
    ("The timeout is 30 seconds in staging.", "The timeout is 60 seconds in production."),
    ("Until 2024 we used MySQL.", "The database is PostgreSQL."),
    ("Until 2024 the port is 8080.", "The port is 9090."),
    ("The port was 8080.", "The port is 9090."),
    ("If the port is 8080, restart it.", "The port is 9090."),
    ("For example, the port is 8080.", "The port is 9090."),
    ("Is the port 8080?", "The port is 9090."),
    ("```\nport: 8080\n```", "Port: 9090"),
    ("> The port is 8080.", "The port is 9090."),
    ("The timeout may be 30 seconds.", "The timeout is 60 seconds."),
    ("We will use Redis for caching.", "We do not use Redis for caching."),
    ("Server 1 has 8 cores.", "Server 2 has 16 cores."),
    ("PR #12 is merged.", "PR #13 is merged."),
    ("Version 1.2 has 30 tests.", "Version 1.3 has 40 tests."),
    ("Use pytest for tests.", "Use hypothesis for tests with many inputs."),
    ("Fixed 3 bugs in the parser.", "Fixed 5 bugs in the parser."),
    ("On 2026-05-01 the queue has 30 messages.", "On 2026-05-02 the queue has 40 messages."),
    ("Do not use sudo for docker.", "Use sudo."),
    ("It is 30.", "It is 60."),
    ("Step 1: install", "Step 2: build"),
    ("Use tabs.", "Prefer short functions."),
    ("The suite takes about 30 seconds.", "The suite takes half a minute."),
    ("The limit is 1,000 rows.", "The limit is 1000 rows."),
    ("The timeout is 30 seconds.", "Timeouts are set to 30 seconds everywhere."),
    ("The API is at https://api.example.org/v1 today.", "The API is at https://api.example.org/v2."),
    ("Tests live in `tests/`.", "Fixtures live in `tests/data/`."),
    ("Use spaces, not tabs.", "Do not mix tabs and spaces."),
    ("The worker is written in Go.", "The worker is deployed by hand."),
    ("Alice reviews changes.", "Bob reviews changes."),
    ("## API\nPort: 8080\n\n## Metrics\nPort: 9090", "Port: 7070"),
]


def found(world: World) -> list[Clash]:
    memory = world.memory()
    seen, _ = passes.read_places(memory.workspace.records, scopes.visible(memory.caller))
    return contradictions.find_clashes(seen)


def said(world: World, *texts: str, origins: tuple[Origin, ...] = (), key: str = "topic") -> None:
    for number, text in enumerate(texts):
        origin = origins[number] if origins else Origin.USER
        world.clock.forward(hours=1)
        world.memory(origin=origin).store(text, key=key)


@pytest.mark.parametrize(("older", "newer"), CLASHING)
def test_two_entries_that_cannot_both_be_true_are_found(older: str, newer: str, world: World) -> None:
    said(world, older, newer)
    clash = found(world)[0]
    assert clash.older.entry.text == older
    assert clash.newer.entry.text == newer


@pytest.mark.parametrize(("older", "newer"), PEACEFUL)
def test_two_entries_that_can_both_be_true_are_left_in_peace(older: str, newer: str, world: World) -> None:
    said(world, older, newer)
    assert [clash.why for clash in found(world)] == []


def test_an_entry_that_was_superseded_contradicts_nobody(world: World) -> None:
    said(world, "The port is 8080.")
    world.clock.forward(hours=1)
    world.memory().store("The port is 9090.", key="topic", mode="replace")
    assert found(world) == []


def test_other_records_are_compared_where_a_tag_or_the_subject_joins_them(world: World) -> None:
    memory = world.memory()
    memory.store("The API timeout is 30 seconds.", key="first", tags=["api"])
    world.clock.forward(hours=1)
    memory.store("The API timeout is 60 seconds.", key="second", tags=["api"])
    memory.store("The API timeout is 90 seconds.", key="third", scope="global", tags=["api"])
    assert [(each.older.seen.record.key, each.newer.seen.record.key) for each in found(world)] == [
        ("first", "second")
    ]


def test_the_port_of_one_thing_says_nothing_of_the_port_of_another(world: World) -> None:
    memory = world.memory()
    memory.store("The default port is 8080.", key="web-frontend")
    memory.store("The default port is 5432.", key="postgres")
    memory.store("The port is 9090.", key="metrics")
    assert found(world) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The worker is new. The rest is in src/a.py.", "The parser is new. The rest is in src/b.py."),
        ("The worker is new. It costs 5 euros.", "The parser is new. It costs 9 euros."),
        ("Result: 12 s", "Result: 19 s"),
    ],
)
def test_what_leans_on_its_record_says_nothing_of_another(one: str, other: str, world: World) -> None:
    memory = world.memory()
    memory.store(one, key="amber")
    memory.store(other, key="basalt")
    assert found(world) == []


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The office is in Berlin.", "The office is in Hamburg."),
        ("If a build fails, it is retried 3 times.", "If a build fails, it is retried 5 times."),
        ("Guests may edit pages.", "Guests must not edit pages."),
        ("Port: 8080", "Port: 9090"),
        ("**License:** MIT", "**License:** AGPL-3.0"),
    ],
)
def test_what_is_not_certain_is_left_to_review(older: str, newer: str, world: World) -> None:
    said(world, older, newer)
    (clash,) = found(world)
    assert not clash.certain
    assert contradictions.needs_person(clash) == "they may be about two things"
    (finding,) = [each for each in world.memory().care.lint() if each.what == "contradiction"]
    assert (finding.severity, finding.mend) == ("warning", "vade review --kind contradiction")


def test_records_without_a_tag_in_common_are_compared_by_what_they_say(world: World) -> None:
    memory = world.memory()
    memory.store("The billing service is owned by Alice.", key="amber")
    world.clock.forward(hours=1)
    memory.store("Bob owns the billing service.", key="basalt")
    assert [clash.rule for clash in found(world)] == ["another owner of the same thing"]


def test_where_it_stands_is_told_by_the_line(world: World) -> None:
    said(world, "First things.\n\n- The port is 8080.", "The port is 9090.")
    clash = found(world)[0]
    lines = world.memory().get(clash.older.seen.record.path).text.split("\n")
    assert lines[clash.older.line - 1] == "- The port is 8080."
    assert lines[clash.newer.line - 1] == "The port is 9090."


def test_a_secret_is_not_repeated_by_what_is_told(world: World) -> None:
    token = "ghp_" + "x7Kq2Lm9Pz4Rt6Vw8Yb1Nc3Df5Gh0JkS1aQ2"
    world.settings["VADE_SECRETS_POLICY"] = "warn"
    said(world, f"The token is `{token}`.", "The token is `none`.")
    assert all(token not in clash.why for clash in found(world))


def test_many_statements_about_one_thing_do_not_make_a_pair_of_any_two(world: World) -> None:
    for number in range(100):
        stamp = f"2026-01-01T{number // 60:02}:{number % 60:02}:00Z"
        text = f"---\ntags: [api]\n---\n# r\n\n## {stamp}\nThe api worker limit is {number}.\n"
        world.write(f"r{number:03}.md", text)
    clashes = found(world)
    assert len(clashes) == 40 * 39 // 2
    assert clashes[0].newer.seen.record.key == "r099"


@pytest.mark.parametrize(
    "values",
    [
        ("**Stars:** 58,000+", "**Stars:** 4,000+", "**Stars:** 8,000+"),
        ("Contract: `0x064b8bfc`", "Contract: `0xAC023542`", "Contract: `0xd9B9b6c3`"),
        ("Phi = 0.65.", "Phi = 0.77.", "Phi = 0.82."),
    ],
)
def test_a_field_with_three_values_in_one_record_is_of_three_things(
    values: tuple[str, ...], world: World
) -> None:
    said(world, *values[:2])
    assert len(found(world)) == 1
    said(world, values[2])
    assert found(world) == []


def test_a_list_of_fields_excuses_no_sentence_and_no_other_field_of_its_record(world: World) -> None:
    said(world, "Stars: 100", "Stars: 200", "Stars: 300", "Port: 8080", "Port: 9090")
    said(world, *(f"The API timeout is {seconds} seconds." for seconds in (30, 60, 90)))
    told = {(clash.older.text, clash.newer.text) for clash in found(world)}
    assert ("Port: 8080", "Port: 9090") in told
    assert len(told) == 1 + 3


def test_a_value_that_gave_way_makes_no_list_of_a_field(world: World) -> None:
    said(world, "Port: 7070")
    world.clock.forward(hours=1)
    world.memory().store("Port: 8080", key="topic", mode="replace")
    said(world, "Port: 9090")
    assert [(clash.older.text, clash.newer.text) for clash in found(world)] == [("Port: 8080", "Port: 9090")]


# What once excused a sentence, or kept two records from being compared.
UNEXCUSED = [
    ("The audit of 2026-03-01 has 12 findings.", "The audit of 2026-03-01 has 15 findings."),
    ("The contract ends on 2026-03-01.", "The contract ends on 2026-09-01."),
    ("Run the linter before each commit.", "Never run the linter before each commit."),
    ("The old billing cluster has 8 nodes.", "The old billing cluster has 12 nodes."),
    ("The legacy exporter listens on port 9100.", "The legacy exporter listens on port 9200."),
    ("When a deploy fails, it is retried 3 times.", "When a deploy fails, it is retried 5 times."),
    ("If a token leaks, it is revoked within 1 hour.", "If a token leaks, it is revoked within 4 hours."),
    ("Contractors may merge pull requests.", "Contractors must not merge pull requests."),
    ("Always add a changelog line.", "Never add a changelog line."),
    ("Create release branches from main.", "Never create release branches from main."),
    ("The message broker is rabbitmq.", "The message broker is kafka."),
    ("The invoice parser is written in go.", "The invoice parser is written in rust."),
    ("Backups are kept for thirty days.", "Backups are kept for 90 days."),
    ("The payments team owns the ledger.", "The ledger is owned by the platform team."),
    ("Telemetry is turned off.", "Telemetry is enabled."),
    ("There is a staging cluster.", "There is no staging cluster."),
]


@pytest.mark.parametrize("keys", [("topic", "topic"), ("amber", "basalt")])
@pytest.mark.parametrize(("older", "newer"), UNEXCUSED)
def test_dates_conditions_and_small_letters_excuse_no_contradiction(
    older: str, newer: str, keys: tuple[str, str], world: World
) -> None:
    said(world, older, key=keys[0])
    said(world, newer, key=keys[1])
    assert [(clash.older.text, clash.newer.text) for clash in found(world)] == [(older, newer)]


def test_what_one_release_took_says_nothing_of_the_next(world: World) -> None:
    said(world, "Release 1.4 took 3 days.", "Release 1.5 took 5 days.")
    assert found(world) == []
    assert not world.memory().care.heal(apply=True).proposals


# -------------------------------------------------------------------- pinned documents and journals


def pinned(world: World, text: str, *, name: str = "context.md") -> None:
    project = world.memory().caller.project
    assert project is not None
    folder = world.home / "memory" / "project" / str(project.id)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_lint_tells_a_record_and_a_pinned_page_that_cannot_both_be_true_and_heal_leaves_both(
    world: World,
) -> None:
    world.memory().store("The staging database is PostgreSQL 15.", key="databases")
    pinned(world, "## Systems\n\n- The staging database is PostgreSQL 16.\n- Ines runs the warehouse.\n")
    memory = world.memory()
    (finding,) = [each for each in memory.care.lint() if each.what == "contradiction"]
    assert finding.severity == "warning"
    assert "context.md#L3" in finding.why
    assert "is in a pinned document" in finding.why
    before = world.tree()
    memory.care.heal(apply=True)
    assert world.tree() == before


def test_a_later_day_of_the_journal_is_told_and_an_earlier_one_is_not(world: World) -> None:
    world.memory().note("The search index lives on node-4.")
    world.clock.forward(days=1)
    world.memory().store("The search index lives on node-9.", key="hosts")
    assert [each for each in world.memory().care.lint() if each.what == "contradiction"] == []
    world.clock.forward(days=1)
    world.memory().note("The search index lives on node-2.")
    (finding,) = [each for each in world.memory().care.lint() if each.what == "contradiction"]
    assert "node-2" in finding.why
    assert "the other one is in the journal" in finding.why


@pytest.mark.parametrize(
    "page",
    [
        "## Staging\n\nThe API listens on port 9090.\n",
        "## History\n\nThe API listens on port 9090.\n",
        "> The API listens on port 9090.\n",
        "```\nThe API listens on port 9090.\n```\n",
        "It was moved. It listens on port 9090.\n",
        "## API\n\nThe port is 9090.\n",
    ],
)
def test_a_page_that_speaks_of_something_else_is_left_in_peace(page: str, world: World) -> None:
    world.memory().store("The API listens on port 8080.", key="api")
    pinned(world, page)
    assert [each for each in world.memory().care.lint() if each.what == "contradiction"] == []


def test_what_an_assistant_said_in_a_sessions_note_contradicts_nobody(world: World) -> None:
    world.memory().store("The standby host is build-3.", key="hosts")
    world.clock.forward(days=1)
    world.memory().note(
        "Session s1: the last 2 messages (claude s1).\n\n**User**: which host stands by?\n\n"
        "**Assistant**: The standby host is build-5."
    )
    assert [each for each in world.memory().care.lint() if each.what == "contradiction"] == []


def test_a_person_may_let_a_page_or_a_day_have_the_last_word_and_take_that_back(world: World) -> None:
    world.memory().store("Paula owns the importer.", key="owners")
    world.clock.forward(days=1)
    world.memory().note("Omar owns the importer.")
    memory = world.memory()
    before = world.tree()
    (item,) = memory.review.inbox(["contradiction"]).items
    assert item.text.startswith("in the record: Paula owns the importer.\nin memory/")
    _, (decided,) = memory.review.decide([item], yes=True)
    assert decided.done
    assert [each.text for each in memory.show("owners").live] == ["Omar owns the importer."]
    assert memory.review.inbox(["contradiction"]).items == ()
    memory.care.undo()
    assert world.tree() == before


def test_pages_and_days_are_not_held_against_each_other(world: World) -> None:
    pinned(world, "Paula owns the importer.\n")
    world.memory().note("Omar owns the importer.")
    assert [each for each in world.memory().care.lint() if each.what == "contradiction"] == []


REWORDED = [
    ("Our headquarters are in Hamburg.", "The office is in Berlin."),  # by the list
    ("The database listens on 5432.", "Postgres port is 6432."),  # a kind, and one of it
    ("CI runs on Jenkins.", "Our build pipeline uses CircleCI."),  # two of a kind
    ("The helpdesk replies within 4 hours.", "Support answers within 24 hours."),
    ("The attorney is in Bremen.", "The lawyer is in Kiel."),  # by vectors alone
    ("The film starts at 20:00.", "The movie starts at 21:00."),
    ("Die Sicherung läuft um 2:00.", "Das Backup startet um 4:00."),
    ("Invoices are due after 30 days.", "Rechnungen werden nach 14 Tagen fällig."),
]
NEIGHBOURS = [
    ("The frontend is written in TypeScript.", "The backend is written in Go."),
    ("Access tokens expire after 15 minutes.", "Refresh tokens expire after 30 days."),
    ("MySQL listens on 3306.", "Postgres listens on 5432."),
    ("The store opens at 8:00.", "The shop closes at 18:00."),
    ("Es gibt keinen Testserver.", "Es gibt einen Buildserver."),
    ("The attorney is in Bremen.", "The lawyer was in Kiel until 2023."),
    ("The film starts at 20:00.", "On Sundays the movie starts at 21:00."),
]


@pytest.mark.parametrize(("older", "newer"), REWORDED)
def test_a_contradiction_in_other_words_is_found_in_any_record_and_left_to_a_person(
    older: str, newer: str, world: World
) -> None:
    said(world, older, key="amber")
    said(world, newer, key="basalt")
    (clash,) = found(world)
    assert (clash.older.text, clash.newer.text, clash.certain) == (older, newer, False)
    assert contradictions.needs_person(clash) == "they may be about two things"


@pytest.mark.parametrize(("older", "newer"), NEIGHBOURS)
def test_words_that_are_near_each_other_do_not_stand_for_the_same(
    older: str, newer: str, world: World
) -> None:
    said(world, older, key="amber")
    said(world, newer, key="basalt")
    assert [clash.why for clash in found(world)] == []


def test_what_is_found_by_meaning_alone_waits_in_review_and_heal_changes_nothing(world: World) -> None:
    said(world, "The office is in Berlin.", key="amber")
    said(world, "Our headquarters are in Hamburg.", key="basalt")
    memory = world.memory()
    assert memory.care.heal().proposals == ()
    (finding,) = [each for each in memory.care.lint() if each.what == contradictions.CONTRADICTION]
    assert (finding.severity, finding.mend) == ("warning", "vade review --kind contradiction")


@pytest.mark.parametrize("half", [True, False])
def test_most_labelled_contradictions_in_other_words_are_found_and_few_neighbours_told(
    half: bool, tmp_path: Path
) -> None:
    clashes_of = labelled.finder(tmp_path)
    mine = [row for row in labelled.read("reworded") if labelled.held_out(row) is half]
    scores = labelled.scored([(row, clashes_of(row["one"], row["other"], False)) for row in mine])
    least = {True: 0.45, False: 0.65}[half]
    assert float(str(scores["recall"])) >= least
    assert float(str(scores["precision"])) >= 0.92
    assert scores["heal precision"] == 1.0
