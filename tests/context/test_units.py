"""Units are sound whatever they are made of, and are never split."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from cases import every_case
from steps import count_steps
from vademecum.context.units import (
    NO_RESULT,
    Cut,
    FixKind,
    ReaderTools,
    Unit,
    build_units,
    clip,
    cut,
    cut_for,
    flatten,
    is_request,
)
from vademecum.tokens import count
from vademecum.transcripts import (
    Image,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

from .conversations import conversations, orphans


def user(text: str, name: str = "u") -> Message:
    return Message(Role.USER, (Text(text),), id=name)


def calls(*names: str, message: str = "a") -> Message:
    return Message(Role.ASSISTANT, tuple(ToolCall(name, "bash", "{}") for name in names), id=message)


def result(name: str, text: str = "fine", message: str = "r") -> Message:
    return Message(Role.TOOL, (ToolResult(name, (Text(text),)),), id=message)


def kinds(messages: list[Message]) -> list[FixKind]:
    return [fix.kind for fix in build_units(messages).fixes]


def test_a_call_and_all_its_results_are_one_unit() -> None:
    messages = [user("go"), calls("1", "2"), result("1"), result("2"), user("next")]
    found = build_units(messages)
    assert [len(unit.messages) for unit in found.units] == [1, 3, 1]
    assert found.messages == tuple(messages)
    assert not found.fixes


def test_results_in_a_user_message_belong_to_the_unit_and_are_no_request() -> None:
    carrier = Message(Role.USER, (ToolResult("1", (Text("x"),)), ToolResult("2", (Text("y"),))), id="r")
    found = build_units([user("go"), calls("1", "2"), carrier])
    assert [len(unit.messages) for unit in found.units] == [1, 2]
    assert found.units[1].messages[1] == carrier._replace(role=Role.TOOL)
    assert not is_request(carrier)
    assert is_request(carrier._replace(parts=(*carrier.parts, Text("and hurry"))))


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    found = build_units([calls("1", "2"), result("2"), user("next")])
    assert [fix.kind for fix in found.fixes] == [FixKind.NO_RESULT]
    said = found.units[0].messages[1].results[0]
    assert (said.id, said.text, said.error) == ("1", NO_RESULT, True)
    assert not orphans(found.messages)


def test_a_result_without_a_call_leaves_the_window() -> None:
    found = build_units([user("go"), result("9"), user("next")])
    assert found.messages == (user("go"), user("next"))
    assert kinds([user("go"), result("9")]) == [FixKind.NO_CALL]


def test_a_second_result_for_the_same_call_leaves_the_window() -> None:
    found = build_units([calls("1"), result("1", "first"), result("1", "second")])
    assert [each.text for message in found.messages for each in message.results] == ["first"]


def test_a_result_that_comes_late_or_early_is_moved_behind_its_call() -> None:
    late = build_units([calls("1"), user("wait"), result("1", "late")])
    early = build_units([result("1", "early"), user("wait"), calls("1")])
    assert [message.id for message in late.messages] == ["a", "r", "u"]
    assert [message.id for message in early.messages] == ["u", "a", "r"]
    assert [fix.kind for fix in late.fixes] == [fix.kind for fix in early.fixes] == [FixKind.MOVED]


def test_calls_written_as_one_message_each_get_their_results_behind_them() -> None:
    found = build_units([calls("1", message="a1"), calls("2", message="a2"), result("1"), result("2")])
    assert not orphans(found.messages)
    assert [len(unit.messages) for unit in found.units] == [2, 2]


def test_an_id_used_again_is_renamed_with_its_result() -> None:
    found = build_units([calls("1"), result("1", "one"), calls("1"), result("1", "two")])
    assert not orphans(found.messages)
    assert [each.text for message in found.messages for each in message.results] == ["one", "two"]
    assert found.units[1].messages[0].calls[0].id == "1_2"


def test_a_result_belongs_to_the_nearest_call_before_it() -> None:
    found = build_units([calls("1", message="a1"), calls("1", message="a2"), result("1", "mine")])
    assert [unit.messages[1].results[0].text for unit in found.units] == [NO_RESULT, "mine"]


def test_a_result_in_the_message_of_its_call_must_come_after_it() -> None:
    call, given_ = ToolCall("1", "search", "{}"), ToolResult("1", (Text("found"),))
    fine = Message(Role.ASSISTANT, (call, given_, Text("There.")), id="a")
    assert build_units([fine]).messages == (fine,)
    found = build_units([fine._replace(parts=(given_, call))])
    assert [message.parts for message in found.messages] == [(call,), (given_,)]


def test_words_in_a_message_with_results_end_the_results() -> None:
    mixed = Message(Role.USER, (ToolResult("1", (Text("one"),)), Text("and hurry")), id="m")
    found = build_units([calls("1", "2"), mixed, result("2", "two")])
    assert [message.id for message in found.messages] == ["a", "r", "m", "m"]
    assert [len(unit.messages) for unit in found.units] == [3, 1]
    assert found.units[1].messages[0].parts == (Text("and hurry"),)


def test_missing_ids_are_paired_in_order() -> None:
    found = build_units([calls("", ""), result("", "one"), result("", "two")])
    assert not orphans(found.messages)
    assert [each.text for message in found.messages for each in message.results] == ["one", "two"]


def test_a_message_that_says_nothing_leaves_the_window() -> None:
    empty = [Message(Role.ASSISTANT, ()), Message(Role.USER, (Text(" \n"),))]
    signed = Message(Role.ASSISTANT, (Thinking("", {"signature": "s"}),))
    assert build_units([*empty, signed]).messages == (signed,)


@settings(max_examples=300, deadline=None)
@given(conversations())
def test_there_are_never_orphans(messages: list[Message]) -> None:
    found = build_units(messages)
    assert not orphans(found.messages)
    again = build_units(found.messages)
    assert again == (found.units, ())


@settings(max_examples=100, deadline=None)
@given(conversations(broken=False))
def test_what_is_sound_is_left_as_it_is(messages: list[Message]) -> None:
    found = build_units(messages)
    assert not found.fixes
    assert [p for m in found.messages for p in m.parts] == [p for m in messages for p in m.parts]
    users = [m.role is Role.USER and bool(m.results) for m in messages]
    assert any(users) or found.messages == tuple(messages)


@settings(max_examples=150, deadline=None)
@given(conversations())
def test_nothing_said_is_lost_but_loose_results(messages: list[Message]) -> None:
    found = build_units(messages).messages
    assert [m.text for m in found if m.text.strip()] == [m.text for m in messages if m.text.strip()]
    assert sum(len(m.calls) for m in found) == sum(len(m.calls) for m in messages)


@settings(max_examples=60, deadline=None)
@given(conversations(broken=False), st.integers(0, 100))
def test_adding_messages_changes_nothing_before_them(messages: list[Message], at: int) -> None:
    whole = build_units(messages).units
    messages = list(flatten(whole))
    ends = [0]
    for unit in whole:
        ends.append(ends[-1] + len(unit.messages))
    end = ends[at % len(ends)]
    assert build_units(messages[:end]).units == whole[: ends.index(end)]


def test_eight_times_as_many_calls_with_one_id_take_eight_times_the_steps() -> None:
    def steps(number: int) -> int:
        messages = [calls("1") for _ in range(number)] + [result("1") for _ in range(number)]
        return count_steps(lambda: build_units(messages))

    assert steps(1600) < 10 * steps(200)


def oversize(text: str = "x" * 40_000) -> Unit:
    return build_units([calls("1", "2"), result("1", text, "r1"), result("2", "short", "r2")]).units[0]


def test_an_oversize_unit_keeps_its_calls_and_cuts_the_longest_result() -> None:
    unit = oversize("HEAD" + "x" * 40_000 + "TAIL")
    readers = ReaderTools("s1", get="session_get")
    how = cut_for(unit, 1000, 3.0, readers)
    assert how is not None
    small = cut(unit, how, readers)
    assert count(small.size, 3.0) <= 1000
    assert small.messages[0] == unit.messages[0]
    assert small.messages[2] == unit.messages[2]
    text = small.messages[1].results[0].text
    assert text.startswith("HEAD")
    assert text.endswith("TAIL")
    assert "whole: session_get session=s1 place=r1" in text
    assert len(text) > 2500  # what fits is used


def test_arguments_are_cut_last_and_stay_json() -> None:
    arguments = json.dumps({"path": "src/a.py", "content": "x" * 40_000, "lines": list(range(9000))})
    call = Message(Role.ASSISTANT, (Text("Writing."), ToolCall("1", "write", arguments)), id="a")
    unit = build_units([call, result("1")]).units[0]
    how = cut_for(unit, 500, 3.0)
    assert how is not None
    assert how.deep
    small = cut(unit, how)
    assert count(small.size, 3.0) <= 500
    found = json.loads(small.messages[0].calls[0].arguments)
    assert found["path"] == "src/a.py"
    assert "whole in the transcript" in found["content"]


@every_case(
    "parts",
    [
        (Text("p" * 90_000),),
        (Thinking("t" * 90_000), ToolCall("1", "bash", "{}")),
        (ToolCall("1", "bash", "n" * 90_000),),
        (ToolCall("1", "bash", json.dumps({str(n): n for n in range(20_000)})),),
        (ToolCall("1", "bash", "[" * 90_000),),
        (Opaque({"text": "two words " * 9_000}), Text("x")),
    ],
)
def test_whatever_makes_a_unit_large_it_fits_after_the_cut(parts: tuple[Text, ...]) -> None:
    images = ToolResult("1", tuple(Image(data="A") for _ in range(100)))
    messages = [Message(Role.ASSISTANT, parts, id="a"), Message(Role.TOOL, (images,), id="r")]
    unit = build_units(messages).units[0]
    how = cut_for(unit, 400, 3.0)
    assert how is not None
    assert count(cut(unit, how).size, 3.0) <= 400


@settings(max_examples=150, deadline=None)
@given(conversations(turns=4), st.integers(0, 3000), st.floats(1.5, 4.0))
def test_a_cut_unit_fits_or_is_as_small_as_can_be(messages: list[Message], tokens: int, ratio: float) -> None:
    for unit in build_units(messages).units:
        how = cut_for(unit, tokens, ratio)
        if how is None:
            assert count(unit.size, ratio) <= tokens
            continue
        small = cut(unit, how)
        assert count(small.size, ratio) <= tokens or how == Cut(0, deep=True)
        assert cut(unit, how) == small
        assert not orphans(small.messages)
        names = [(each.id, each.name) for message in unit.messages for each in message.calls]
        assert [(each.id, each.name) for message in small.messages for each in message.calls] == names
        assert build_units(flatten([small])).units == (small,)


@given(st.text(max_size=3000), st.integers(0, 3000), st.text(max_size=100))
def test_a_clipped_text_is_never_longer_and_is_not_clipped_twice(text: str, limit: int, source: str) -> None:
    found = clip(text, limit, source)
    assert len(found) <= len(text)
    assert clip(found, limit, source) == found
