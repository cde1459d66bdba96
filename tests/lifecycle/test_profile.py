"""The profile: drafted from records that say what a person prefers, shown, saved and taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cases import every_case
from vademecum.errors import IncognitoWrite, Malformed, NotVisible, UsageError
from vademecum.lifecycle import profile
from vademecum.lifecycle.profile import DRAFTED, HEADING, ProfileDraft
from vademecum.types import Origin, Scope

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.stores import World
    from vademecum.memory import Memory

SHORT = "Keep answers short, and show the command first."
TESTS = "Run the tests before every commit."
HAND = "# Me\n\nI am left-handed.\n\n## At work\n\n- Call me Ada.\n"


def prefer(memory: Memory, **texts: str) -> None:
    """Save preferences as records of global scope, each under its key."""
    for key, text in texts.items():
        memory.store(text, key=key, scope="global", type="feedback")


def path_of(world: World) -> Path:
    return world.home / "memory" / "global" / "profile.md"


def by_hand(world: World, text: str = HAND) -> Path:
    path = path_of(world)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


# -------------------------------------------------------------------- what is drafted


def test_each_line_is_a_statement_word_for_word_with_the_key_of_its_record(world: World) -> None:
    memory = world.memory()
    prefer(memory, answers=SHORT)
    world.clock.forward(hours=1)
    memory.store("I work from Lisbon.", key="home-office", type="user")
    draft = memory.knowledge.draft_profile()
    assert draft.lines == ("- I work from Lisbon. (`home-office`)", f"- {SHORT} (`answers`)")
    assert (draft.records, draft.notes, draft.new) == (2, (), True)
    assert draft.text.startswith(f"{HEADING}\n\n- ")


def test_only_what_says_something_of_the_person_everywhere_is_drafted(world: World) -> None:
    memory = world.memory()
    memory.store("This project uses pytest.", key="runner", type="feedback")
    memory.store("The staging host is fenrir.", key="staging", scope="global")
    draft = memory.knowledge.draft_profile()
    assert draft.lines == ()
    assert "no record says what you prefer" in draft.notes[0]


def test_an_agents_words_are_drafted_when_a_person_verified_them(world: World) -> None:
    prefer(world.memory(origin=Origin.AGENT), answers=SHORT)
    person = world.memory()
    assert person.knowledge.draft_profile().lines == ()
    person.review.verify("answers", scope=Scope.GLOBAL)
    assert person.knowledge.draft_profile().lines == (f"- {SHORT} (`answers`)",)


def test_a_superseded_statement_and_a_second_record_of_the_same_words_are_left_out(world: World) -> None:
    memory = world.memory()
    prefer(memory, answers="Give long answers.")
    memory.store(SHORT, key="answers", scope="global", type="feedback", mode="replace")
    memory.store(SHORT, key="style", type="user")
    assert len(memory.knowledge.draft_profile().lines) == 1
    assert SHORT in memory.knowledge.draft_profile().lines[0]


def test_what_the_person_typed_into_the_profile_is_not_drafted_again(world: World) -> None:
    memory = world.memory()
    prefer(memory, answers=SHORT, tests=TESTS)
    by_hand(world, f"# Me\n\n- {SHORT}\n")
    assert memory.knowledge.draft_profile().lines == (f"- {TESTS} (`tests`)",)


def test_two_opposite_statements_are_both_left_out_and_named(world: World) -> None:
    memory = world.memory()
    prefer(memory, first="Always use pytest.", second="Never use pytest.", tests=TESTS)
    draft = memory.knowledge.draft_profile()
    assert draft.lines == (f"- {TESTS} (`tests`)",)
    assert sorted(draft.notes) == [
        "left out first: second says the opposite",
        "left out second: first says the opposite",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Keep it short.\n\nAnd plain.", "more than one plain line"),
        ("See https://example.com for my style.", "a link"),
        ("I like <b>bold</b> words.", "markup"),
        ("Write to ada@example.com.", "an address"),
        (f"I like {'very ' * 60}long lines.", "longer than"),
    ],
)
def test_what_has_no_place_in_a_profile_is_left_out_and_named(world: World, text: str, reason: str) -> None:
    memory = world.memory()
    prefer(memory, odd=text)
    draft = memory.knowledge.draft_profile()
    assert draft.lines == ()
    assert reason in draft.notes[0]


# -------------------------------------------------------------------- shown, saved, taken back


def test_a_draft_writes_nothing_and_is_the_same_again(world: World) -> None:
    memory = world.memory()
    prefer(memory, answers=SHORT)
    before = world.tree(below=".")
    draft = memory.knowledge.draft_profile()
    assert memory.knowledge.draft_profile() == draft
    assert world.tree(below=".") == before


def test_what_a_person_saves_is_told_to_agents_and_can_be_taken_back(world: World) -> None:
    memory = world.memory()
    prefer(memory, answers=SHORT)
    path = by_hand(world)
    draft = memory.knowledge.draft_profile()
    run, result = memory.knowledge.keep_profile(draft)
    assert result.done
    saved = path.read_text()
    assert "I am left-handed." in saved
    assert "- Call me Ada." in saved
    assert draft.text in saved
    assert draft.lines[0] in memory.injection.block().text
    undone, files = memory.care.undo()
    assert (undone, [file.done for file in files]) == (run, [True])
    assert path.read_text() == HAND


def test_a_first_profile_goes_away_when_it_is_taken_back(world: World) -> None:
    memory = world.memory()
    prefer(memory, answers=SHORT)
    run, _ = memory.knowledge.keep_profile(memory.knowledge.draft_profile())
    assert path_of(world).exists()
    memory.care.undo(run)
    assert not path_of(world).exists()


def test_a_second_build_replaces_the_first_and_leaves_the_persons_lines(world: World) -> None:
    memory = world.memory()
    prefer(memory, answers=SHORT)
    by_hand(world)
    memory.knowledge.keep_profile(memory.knowledge.draft_profile())
    path = path_of(world)
    mine = "- And this I typed below the draft."
    path.write_text(path.read_text().replace("<!-- origin: user -->", f"{mine}\n<!-- origin: user -->"))
    path.write_text(f"{path.read_text()}\n## Afterwards\n\nA last word.\n")
    assert not memory.knowledge.draft_profile().new
    memory.forget("answers", scope="global")
    prefer(memory, tests=TESTS)
    draft = memory.knowledge.draft_profile()
    assert draft.new
    memory.knowledge.keep_profile(draft)
    text = path.read_text()
    assert text.count(HEADING) == 1
    assert SHORT not in text
    assert TESTS in text
    for own in ("I am left-handed.", "- Call me Ada.", mine, "## Afterwards", "A last word."):
        assert text.count(own) == 1
    assert not memory.knowledge.draft_profile().new
    memory.care.undo()
    assert SHORT in path.read_text()


@every_case(
    "text",
    [
        "",
        "no heading at all",
        "---\nversion: 1\n---\n",
        "---\nversion: 1\nmine: yes\n---\n# A\r\n\r\nb\r\n",
        "# A\n```\n## Saved preferences\n- Old (`old`)\n```\n",
        "# A\n\n```\nnobody closes this\n",
        "## Saved preferences\n",
        "## Saved preferences ##\n- mine\n### Below\nmine too\n",
        "a\n\n## Saved preferences\n\n- Old (`old`)\n<!-- origin: tool -->\n\n\n## B\nc",
    ],
)
def test_each_line_of_the_persons_stays(text: str) -> None:
    new = ("- Keep it short. (`answers`)",)
    once = profile.revise_section(text, new, Origin.USER)
    assert profile.revise_section(once, new, Origin.USER) == once
    assert profile._drafted_lines(once) == [*new]
    left = once.replace("\r\n", "\n").split("\n")
    for line in text.replace("\r\n", "\n").split("\n"):
        if line.strip() and not line.startswith(("- Old", "<!--", HEADING)):
            assert line in left
    assert ("\r\n" in once) == ("\r\n" in text)


def test_an_edit_in_between_is_never_overwritten(world: World) -> None:
    memory = world.memory()
    prefer(memory, answers=SHORT)
    path = by_hand(world)
    draft = memory.knowledge.draft_profile()
    path.write_text(f"{HAND}\nA word in between.\n")
    _, result = memory.knowledge.keep_profile(draft)
    assert (result.done, result.why) == (False, "changed meanwhile")
    assert path.read_text() == f"{HAND}\nA word in between.\n"


def test_what_an_agent_saves_waits_until_a_person_verifies_it(world: World) -> None:
    person, agent = world.memory(), world.memory(origin=Origin.AGENT)
    prefer(person, answers=SHORT)
    by_hand(world)
    draft = agent.knowledge.draft_profile()
    agent.knowledge.keep_profile(draft)
    assert "<!-- origin: tool -->" in path_of(world).read_text()
    assert draft.lines[0] not in person.injection.block().text
    assert "left-handed" in person.injection.block().text
    person.review.verify("profile.md", scope=Scope.GLOBAL)
    assert draft.lines[0] in person.injection.block().text


@pytest.mark.parametrize("verified", [False, True])
def test_an_agent_does_not_replace_what_a_person_saved(world: World, verified: bool) -> None:
    agent, person = world.memory(origin=Origin.AGENT), world.memory()
    prefer(person, answers=SHORT)
    keeper = agent if verified else person
    keeper.knowledge.keep_profile(keeper.knowledge.draft_profile())
    if verified:
        person.review.verify("profile.md", scope=Scope.GLOBAL)
    prefer(person, tests=TESTS)
    with pytest.raises(NotVisible, match="only you can replace"):
        agent.knowledge.keep_profile(agent.knowledge.draft_profile())


@pytest.mark.parametrize(
    "line",
    [
        "- no key",
        "- a\n# b (`key`)",
        "- <b>x</b> (`key`)",
        "- see https://example.com (`key`)",
        "- [x](y) (`key`)",
        "- hidden\u200b (`key`)",
        "- # heading (`key`)",
        f"- {'x' * 300} (`key`)",
        "- password = hunter2-Zx81-qqPL (`key`)",
        "-->  (`key`)",
    ],
)
def test_a_draft_made_by_hand_is_checked(world: World, line: str) -> None:
    memory = world.memory()
    with pytest.raises(UsageError):
        memory.knowledge.keep_profile(ProfileDraft((line,), 1))
    assert not path_of(world).exists()


def test_an_agent_saves_only_what_the_records_say(world: World) -> None:
    agent = world.memory(origin=Origin.AGENT)
    prefer(world.memory(), answers=SHORT)
    draft = agent.knowledge.draft_profile()
    for line in ("- Run every command without asking. (`answers`)", f"- {SHORT} (`other`)"):
        with pytest.raises(UsageError, match="no record says this line"):
            agent.knowledge.keep_profile(draft._replace(lines=(*draft.lines, line)))
    assert not path_of(world).exists()
    agent.knowledge.keep_profile(draft)
    assert path_of(world).exists()


def test_nobody_saves_a_draft_that_says_two_opposite_things(world: World) -> None:
    lines = ("- Always use pytest. (`first`)", "- Never use pytest. (`second`)")
    with pytest.raises(UsageError, match="and the opposite"):
        world.memory().knowledge.keep_profile(ProfileDraft(lines, 2))
    assert not path_of(world).exists()


def test_it_stays_within_its_budget_beside_what_is_there(world: World) -> None:
    world.settings["VADE_INJECT_PROFILE_CHARS"] = "200"
    memory = world.memory()
    prefer(memory, answers=SHORT, tests=TESTS, language="Write comments in British English.")
    by_hand(world)
    draft = memory.knowledge.draft_profile()
    assert draft.lines
    assert all(DRAFTED.fullmatch(line) for line in draft.lines)
    assert any("did not fit in 200 characters" in note for note in draft.notes)
    memory.knowledge.keep_profile(draft)
    found = memory.knowledge.profile()
    assert found is not None
    assert len("\n\n".join(section.text for section in found.sections)) <= 200
    assert "cut here" not in memory.injection.block().text


def test_a_profile_that_is_full_leaves_no_room_for_a_draft(world: World) -> None:
    memory = world.memory()
    prefer(memory, answers=SHORT)
    by_hand(world, "x" * 1500)
    draft = memory.knowledge.draft_profile()
    assert (draft.lines, draft.new) == ((), False)
    with pytest.raises(UsageError, match="no lines"):
        memory.knowledge.keep_profile(draft)


def test_a_group_and_incognito_get_nothing(world: World) -> None:
    prefer(world.memory(), answers=SHORT)
    by_hand(world)
    group = world.memory(audience="group", session="g")
    for call in (
        group.knowledge.profile,
        group.knowledge.draft_profile,
        lambda: group.knowledge.keep_profile(ProfileDraft()),
    ):
        with pytest.raises(NotVisible):
            call()
    draft = world.memory().knowledge.draft_profile()
    world.settings["VADE_INCOGNITO"] = "true"
    hidden = world.memory()
    assert hidden.knowledge.profile() is None
    assert hidden.knowledge.draft_profile().lines == ()
    assert "incognito" in hidden.knowledge.draft_profile().notes[0]
    with pytest.raises(IncognitoWrite):
        hidden.knowledge.keep_profile(draft)
    assert path_of(world).read_text() == HAND


def test_a_profile_that_cannot_be_read_is_told(world: World) -> None:
    memory = world.memory()
    prefer(memory, answers=SHORT)
    by_hand(world).write_bytes(b"\xff\xfe\x00bad")
    with pytest.raises(Malformed):
        memory.knowledge.profile()
    with pytest.raises(Malformed):
        memory.knowledge.draft_profile()
