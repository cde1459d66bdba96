"""What leaves the window, what never does, and that the rest fits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from steps import count_steps
from vademecum.context.units import Cut, build_units, flatten, is_request, system_prompt, trim
from vademecum.tokens import count
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult

from .conversations import conversation, conversations, ids, orphans


def said(role: Role, name: str, length: int = 300) -> Message:
    return Message(role, (Text("x" * length),), id=name)


def test_the_newest_are_kept_and_the_oldest_leave() -> None:
    messages = [said(Role.SYSTEM, "s"), *(said(Role.USER, f"u{number}") for number in range(10))]
    found = trim(build_units(messages).units, tokens=4 * 103, ratio=3.0)
    assert ids(found.kept) == ["s", "u7", "u8", "u9"]
    assert ids(found.dropped) == [f"u{number}" for number in range(7)]
    assert found.tokens == 4 * 103


def test_the_last_request_is_kept_however_long_ago_it_was() -> None:
    messages = [
        said(Role.USER, "u1"),
        said(Role.USER, "u2"),
        *(said(Role.ASSISTANT, f"a{n}") for n in range(9)),
    ]
    found = trim(build_units(messages).units, tokens=3 * 103, ratio=3.0)
    assert ids(found.kept) == ["u2", "a7", "a8"]


def test_nothing_is_kept_behind_a_gap() -> None:
    messages = [
        said(Role.USER, "old"),
        said(Role.USER, "huge", 3000),
        said(Role.USER, "u1"),
        said(Role.USER, "u2"),
    ]
    found = trim(build_units(messages).units, tokens=3 * 103, ratio=3.0)
    assert ids(found.kept) == ["u1", "u2"]


def test_a_note_of_the_system_from_the_middle_does_not_become_part_of_the_prompt() -> None:
    messages = [
        said(Role.SYSTEM, "s"),
        said(Role.USER, "u1"),
        said(Role.SYSTEM, "note"),
        said(Role.USER, "u2"),
        said(Role.ASSISTANT, "a2"),
    ]
    assert ids(trim(build_units(messages).units, tokens=4 * 103, ratio=3.0).kept) == ["s", "u2", "a2"]


def test_a_newest_unit_larger_than_the_budget_is_cut_and_its_calls_kept() -> None:
    call = Message(Role.ASSISTANT, (ToolCall("1", "bash", "{}"),), id="a")
    result = Message(Role.TOOL, (ToolResult("1", (Text("x" * 90_000),)),), id="r")
    found = trim(build_units([said(Role.USER, "u"), call, result]).units, tokens=2000, ratio=3.0)
    assert ids(found.kept) == ["u", "a", "r"]
    assert found.tokens <= 2000
    (name, how), *none = found.cuts
    assert (name, how.deep, none) == ("a", False, [])
    assert found.kept[1].messages[0] == call


def test_what_fits_is_left_alone() -> None:
    units = build_units(conversation(5, broken=False)).units
    assert trim(units, tokens=10**9, ratio=3.0)[:3] == (units, (), ())
    assert trim([], tokens=0, ratio=3.0)[:3] == ((), (), ())


@settings(max_examples=250, deadline=None)
@given(conversations(), st.integers(0, 20_000), st.floats(1.5, 4.0))
def test_units_are_never_split_and_the_rest_fits(messages: list[Message], tokens: int, ratio: float) -> None:
    units = build_units(messages).units
    found = trim(units, tokens=tokens, ratio=ratio)
    assert sorted(ids([*found.kept, *found.dropped])) == sorted(ids(units))
    cut = {name for name, _ in found.cuts}
    whole = [unit for unit in found.kept if unit.messages[0].id not in cut]
    assert all(unit in units for unit in (*whole, *found.dropped))
    assert not orphans(flatten(found.kept))
    assert not orphans(flatten(found.dropped))
    assert found.tokens == sum(count(unit.size, ratio) for unit in found.kept)
    if found.tokens > tokens:  # only the system prompt, or what not even the strongest cut makes smaller
        head = sum(count(unit.size, ratio) for unit in units[: system_prompt(units)])
        assert head > tokens or any(how == Cut(0, deep=True) for _, how in found.cuts)
        assert len(found.kept) <= system_prompt(units) + 2


@settings(max_examples=250, deadline=None)
@given(conversations(), st.integers(0, 5_000))
def test_prompt_last_request_and_newest_unit_are_never_dropped(messages: list[Message], tokens: int) -> None:
    units = build_units(messages).units
    found = trim(units, tokens=tokens, ratio=3.0)
    gone = set(map(id, found.dropped))
    head = system_prompt(units)
    assert not gone & set(map(id, units[:head]))
    assert not units or id(units[-1]) not in gone
    asked = [unit for unit in units if any(is_request(message) for message in unit.messages)]
    assert not asked or id(asked[-1]) not in gone


@settings(max_examples=100, deadline=None)
@given(conversations(), st.integers(0, 20_000))
def test_trimming_again_changes_nothing(messages: list[Message], tokens: int) -> None:
    once = trim(build_units(messages).units, tokens=tokens, ratio=3.0)
    again = trim(build_units(flatten(once.kept)).units, tokens=tokens, ratio=3.0)
    if once.tokens <= tokens:
        assert again.kept == once.kept
        assert not again.dropped


def test_trimming_takes_as_many_steps_for_each_message_of_a_long_conversation() -> None:
    def steps(turns: int) -> float:
        messages = conversation(3, turns=turns, broken=False, huge=6000)
        made = count_steps(lambda: trim(build_units(messages).units, tokens=20_000, ratio=3.0))
        return made / len(messages)

    assert steps(400) < 1.5 * steps(50)
