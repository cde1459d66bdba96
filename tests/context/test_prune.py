"""Old results get shorter, the same way every time, and nothing else changes."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from cases import every_case
from steps import count_steps
from vademecum.context.prune import (
    PLACEHOLDER,
    PruneDecision,
    PruneKind,
    PruneMode,
    PruneSettings,
    apply,
    decide,
    from_json,
    to_json,
)
from vademecum.context.units import NO_READERS, ReaderTools, build_units, is_request
from vademecum.transcripts import Image, Message, Opaque, Role, Text, ToolCall, ToolResult

from .conversations import conversation, conversations, orphans

ALWAYS = PruneSettings(mode=PruneMode.ALWAYS)
LONG = "H" * 1500 + "x" * 7000 + "T" * 1500


def turn(number: int, text: str = LONG, tool: str = "bash") -> list[Message]:
    call = ToolCall(f"c{number}", tool, "{}")
    return [
        Message(Role.ASSISTANT, (call,), id=f"a{number}"),
        Message(Role.TOOL, (ToolResult(f"c{number}", (Text(text),)),), id=f"r{number}"),
    ]


def talk(turns: int, text: str = LONG) -> list[Message]:
    asked = Message(Role.USER, (Text("go"),), id="u")
    return [asked, *(message for number in range(turns) for message in turn(number, text))]


def prune(
    messages: list[Message], given: PruneSettings = ALWAYS, readers: ReaderTools = NO_READERS
) -> list[str]:
    pruned = apply(messages, decide(messages, given, now=1000, last_call=0, readers=readers), readers)
    return [each.text for message in pruned for each in message.results]


def test_a_long_result_keeps_head_and_tail_and_a_note() -> None:
    first, *rest = prune(talk(4))
    shown = "H" * 1500 + "\n...\n" + "T" * 1500 + "\n\n[Tool result trimmed: kept first 1500 chars and last"
    assert first == f"{shown} 1500 chars of 10000 chars; whole in the transcript]"
    named, *_ = prune(talk(4), readers=ReaderTools("s1", get="vade__session_get"))
    whole = "whole: vade__session_get session=s1 place=r0"
    assert named == f"{shown} 1500 chars of 10000 chars; {whole}]"
    assert rest == [LONG] * 3  # the last three assistant messages and all behind them


def test_a_result_of_4000_characters_is_left_alone() -> None:
    assert prune(talk(4, "x" * 4000))[0] == "x" * 4000
    assert prune(talk(4, "x" * 4001))[0] != "x" * 4001


def test_the_oldest_are_cleared_when_50000_characters_could_be_pruned() -> None:
    found = prune(talk(20 + 3, "x" * 3900))
    cleared = [text == PLACEHOLDER for text in found]
    left = 12  # 12 * 3,900 < 50,000 <= 13 * 3,900
    assert cleared == [True] * (20 - left) + [False] * (left + 3)
    assert prune(talk(12 + 3, "x" * 3900)) == ["x" * 3900] * 15
    assert prune(talk(20 + 3, "x" * 3900), ALWAYS._replace(hard_clear=False)) == ["x" * 3900] * 23


def test_with_fewer_than_three_answers_nothing_is_pruned() -> None:
    assert prune(talk(2)) == [LONG] * 2
    assert PLACEHOLDER not in prune(talk(2), ALWAYS._replace(keep_last_assistants=0))
    assert LONG not in prune(talk(2), ALWAYS._replace(keep_last_assistants=0))


def test_nothing_before_the_first_user_message_is_pruned() -> None:
    started = [*turn(90), *turn(91), *talk(4)]
    assert prune(started)[:2] == [LONG] * 2
    assert prune(started)[2] != LONG


def test_pictures_and_unknown_parts_keep_their_result_whole() -> None:
    for other in (Image(data="A"), Opaque({"type": "file"})):
        messages = talk(4)
        messages[2] = Message(Role.TOOL, (ToolResult("c0", (Text(LONG), other)),), id="r0")
        assert not decide(messages, ALWAYS, now=1000, last_call=0)


@every_case(
    ("allow", "deny", "pruned"),
    [
        ((), (), True),
        (("ba*",), (), True),
        (("BASH",), (), True),
        (("read",), (), False),
        ((), ("b?sh",), False),
        (("bash",), ("*",), False),
    ],
)
def test_the_lists_say_which_tools_are_pruned(
    allow: tuple[str, ...], deny: tuple[str, ...], pruned: bool
) -> None:
    given = ALWAYS._replace(tools_allow=allow, tools_deny=deny)
    assert (prune(talk(4), given)[0] != LONG) is pruned


@every_case(
    ("mode", "age", "trimming", "due"),
    [
        (PruneMode.OFF, 9999, True, False),
        (PruneMode.ALWAYS, 0, False, True),
        (PruneMode.CACHE_TTL, 299, False, False),
        (PruneMode.CACHE_TTL, 301, False, True),
        (PruneMode.CACHE_TTL, 1, True, True),
        (PruneMode.CACHE_TTL, -50, False, False),  # the clock went backwards
        (PruneMode.CACHE_TTL, None, False, True),  # after a restart nothing is known to be cached
    ],
)
def test_the_mode_says_when(mode: PruneMode, age: float | None, trimming: bool, due: bool) -> None:
    last = None if age is None else 1000 - age
    found = decide(talk(4), PruneSettings(mode=mode), now=1000, last_call=last, trimming=trimming)
    assert bool(found) is due


def test_what_cannot_be_pointed_at_is_left_alone() -> None:
    nameless = [message._replace(id="") for message in talk(4)]
    same = [message._replace(id="m") for message in talk(4)]
    assert not decide(nameless, ALWAYS, now=0, last_call=None)
    assert not decide(same, ALWAYS, now=0, last_call=None)


def test_a_decision_that_fits_nothing_changes_nothing() -> None:
    messages = talk(4)
    for odd in (
        PruneDecision("r0", 7, "c0", PruneKind.CLEAR, 1, placeholder="x"),
        PruneDecision("r0", 0, "other", PruneKind.CLEAR, 1, placeholder="x"),
        PruneDecision("r0", -1, "c0", PruneKind.CLEAR, 1, placeholder="x"),
        PruneDecision("r0", 0, "c0", PruneKind.TRIM, 77, 1, 1),
        PruneDecision("gone", 0, "c0", PruneKind.CLEAR, 1, placeholder="x"),
    ):
        assert apply(messages, [odd]) == tuple(messages)


SETTINGS = st.builds(
    PruneSettings,
    mode=st.just(PruneMode.ALWAYS),
    keep_last_assistants=st.integers(0, 4),
    min_prunable_chars=st.sampled_from([0, 500, 5_000, 50_000]),
    max_chars=st.sampled_from([0, 300, 4_000]),
    head_chars=st.sampled_from([0, 100, 1_500]),
    tail_chars=st.sampled_from([0, 100, 1_500]),
    hard_clear=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(conversations(), st.lists(SETTINGS, min_size=1, max_size=3))
def test_decisions_replay_byte_for_byte(messages: list[Message], given: list[PruneSettings]) -> None:
    """The window grows; each step decides on what it sees, and all decisions on the whole give the same."""
    made: list[PruneDecision] = []
    window: tuple[Message, ...] = ()
    step = max(len(messages) // len(given), 1)
    for number, each in enumerate(given):
        whole = messages[: step * (number + 1)]
        window = (*window, *apply(whole[len(window) :], made))
        found = decide(window, each, now=0, last_call=None)
        window = apply(window, found)
        made += found
        replayed = apply(whole, [from_json(json.loads(json.dumps(to_json(one)))) for one in made])
        assert replayed == window
        assert apply(window, made) == window


@settings(max_examples=150, deadline=None)
@given(conversations(), SETTINGS)
def test_only_old_results_change_and_they_get_shorter(messages: list[Message], given: PruneSettings) -> None:
    found = decide(messages, given, now=0, last_call=None)
    pruned = apply(messages, found)
    answers = [at for at, message in enumerate(messages) if message.role is Role.ASSISTANT]
    keep = given.keep_last_assistants
    safe = len(messages) if keep == 0 else answers[-keep] if len(answers) >= keep else 0
    first = next((at for at, message in enumerate(messages) if is_request(message)), len(messages))
    for at, (old, new) in enumerate(zip(messages, pruned, strict=True)):
        if not first <= at < safe:
            assert new == old
        assert new._replace(parts=()) == old._replace(parts=())
        for one, other in zip(old.parts, new.parts, strict=True):
            if one != other:
                assert isinstance(one, ToolResult)
                assert isinstance(other, ToolResult)
                assert other._replace(content=()) == one._replace(content=())
                assert len(other.text) < len(one.text)
    assert not orphans(build_units(pruned).messages)


@settings(max_examples=60, deadline=None)
@given(conversations(), SETTINGS)
def test_a_second_look_finds_nothing_new(messages: list[Message], given: PruneSettings) -> None:
    once = apply(messages, decide(messages, given, now=0, last_call=None))
    again = apply(once, decide(once, given, now=0, last_call=None))
    assert decide(again, given, now=0, last_call=None) == []


def test_pruning_takes_as_many_steps_for_each_message_of_a_long_conversation() -> None:
    def steps(turns: int) -> float:
        messages = conversation(3, turns=turns, broken=False, huge=6000)
        made = count_steps(lambda: apply(messages, decide(messages, ALWAYS, now=0, last_call=None)))
        return made / len(messages)

    assert steps(400) < 1.5 * steps(50)
