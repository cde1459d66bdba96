"""Views of a session: replaying what was decided gives back exactly what was sent."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from cases import every_case
from vademecum.transcripts import (
    LONGEST_NAME,
    Message,
    Role,
    Text,
    ToolCall,
    ToolResult,
    asks_something,
)
from vademecum.transcripts.events import (
    Compacted,
    Ended,
    Event,
    MessageEvent,
    Pruned,
    Renamed,
    Started,
    Summary,
    TornLine,
    Trimmed,
    Unknown,
    Usage,
    Used,
    end_of,
    name_of,
    start_of,
    usage_of,
    window_of,
)
from vademecum.transcripts.log import Log, MemoryLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PLACEHOLDER = "[Old tool result content cleared]"


def said(text: str, role: Role = Role.USER, **given: Any) -> MessageEvent:
    return MessageEvent(Message(role, (Text(text),)), **given)


def spoken(events: Iterable[Event | TornLine]) -> list[MessageEvent]:
    return [each for each in events if isinstance(each, MessageEvent)]


def kept(*events: Event) -> list[Event]:
    """These events as a log has them."""
    log = Log("s", MemoryLog())
    return [log.append(event) for event in events]


def texts(found: Iterable[MessageEvent]) -> list[str]:
    return [each.message.text for each in found]


# -------------------------------------------------------------------- the window


def test_a_window_without_decisions_is_the_thread() -> None:
    events = kept(said("be kind", Role.SYSTEM), said("one"), Used(input=3), said("two", Role.ASSISTANT))
    assert texts(window_of(events)) == texts(spoken(events)) == ["be kind", "one", "two"]


def test_what_was_trimmed_has_left_the_window_and_not_the_thread() -> None:
    events = kept(said("one"), said("two"), said("three"))
    events += kept(Trimmed((events[0].id, "of nobody")))
    assert texts(window_of(events)) == ["two", "three"]
    assert texts(spoken(events)) == ["one", "two", "three"]


def test_a_summary_stands_behind_the_opening_and_takes_the_place_of_the_one_before() -> None:
    events = kept(said("be kind", Role.SYSTEM), said("one"), said("two"))
    events += kept(Trimmed((events[1].id,)), Summary("first summary"), said("three"), Summary("second"))
    assert texts(window_of(events)) == ["be kind", "second", "two", "three"]
    events += kept(Compacted("third", (events[2].id,), role="user"))
    found = window_of(events)
    assert texts(found) == ["be kind", "third", "three"]
    assert found[1].message.role is Role.USER
    assert found[1].id == events[-1].id


def test_a_compaction_without_a_list_covers_all_before_the_first_it_keeps() -> None:
    events = kept(said("be kind", Role.SYSTEM), said("one"), said("two"), said("three"))
    events += kept(Compacted("summary", first_kept=events[3].id))
    assert texts(window_of(events)) == ["be kind", "summary", "three"]
    assert texts(window_of([*events, *kept(Compacted("more", first_kept="of nobody"))])) == [
        "be kind",
        "more",
        "three",
    ]


def shorten(messages: Sequence[Message], decided: Sequence[Pruned | Trimmed]) -> list[Message]:
    """What some host does with its decisions: each names a message and what its results say from now on."""
    texts = {item["event"]: item["text"] for event in decided for item in event.decisions}
    return [
        message._replace(parts=(ToolResult(message.results[0].id, (Text(texts[message.name]),)),))
        if message.name in texts
        else message
        for message in messages
    ]


def test_decisions_are_replayed_by_who_made_them_on_the_messages_as_they_were_said() -> None:
    result = Message(Role.TOOL, (ToolResult("a", (Text("A" * 5000),)),), name="first")
    events = kept(said("one"), MessageEvent(result), said("two"))
    events += kept(Pruned((events[1].id,), "clear", ({"event": "first", "text": PLACEHOLDER},)))
    found = window_of(events, shorten)
    assert found[1].message.results[0].text == PLACEHOLDER
    assert found[1].id == events[1].id
    assert window_of(events)[1].message == spoken(events)[1].message == result
    events += kept(Trimmed((events[0].id,), decisions=({"event": "first", "text": "shorter"},)))
    assert [each.message.results[0].text for each in window_of(events, shorten)[:1]] == ["shorter"]


def test_a_host_that_gives_back_another_number_of_messages_is_refused() -> None:
    events = kept(said("one"), said("two"), Pruned(("x",)))
    with pytest.raises(ValueError, match="shorter"):
        window_of(events, lambda messages, decided: messages[:1])


def test_messages_can_be_named_by_their_own_ids_too() -> None:
    own = [MessageEvent(Message(Role.USER, (Text(f"line {n}"),), id=f"m{n}")) for n in range(4)]
    assert texts(window_of(kept(*own, Trimmed(("m0", "m2", ""))))) == ["line 1", "line 3"]
    assert texts(window_of(kept(*own, Compacted("sum", ("m0",), "m1")))) == ["sum", *texts(own[1:])]
    assert texts(window_of(kept(*own, Compacted("sum", first_kept="m3")))) == ["sum", "line 3"]


class Host:
    """An agent loop that decides at random, sends its window, and writes down what it decided."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log = Log("s", MemoryLog())
        self.opening: list[MessageEvent] = []
        self.summary: list[MessageEvent] = []
        self.body: list[MessageEvent] = []

    @property
    def sent(self) -> list[MessageEvent]:
        return [*self.opening, *self.summary, *self.body]

    def step(self, number: int) -> None:
        choice = self.chance.random()
        if number < 2:
            self.opening.append(self.say(said(f"system {number}", Role.SYSTEM)))
        elif choice < 0.5 or not self.body:
            self.body.append(
                self.say(said(f"user {number}", self.chance.choice([Role.USER, Role.ASSISTANT])))
            )
        elif choice < 0.7:
            call = f"call{number % 3}"  # ids of calls repeat
            self.body.append(self.say(MessageEvent(Message(Role.ASSISTANT, (ToolCall(call, "read", "{}"),)))))
            result = ToolResult(call, (Text(f"{number} " * self.chance.randrange(1, 2000)),))
            self.body.append(self.say(MessageEvent(Message(Role.TOOL, (result,), name=f"n{number}"))))
        elif choice < 0.8:
            self.prune()
        elif choice < 0.9:
            gone = {each.id for each in self.body[: self.chance.randrange(len(self.body))]}
            self.log.append(Trimmed(tuple(gone)))
            self.body = [each for each in self.body if each.id not in gone]
            if self.chance.random() < 0.5:
                self.summarise(self.log.append(Summary(f"summary {number}")), f"summary {number}")
        else:
            at = self.chance.randrange(len(self.body))
            covers = tuple(each.id for each in self.body[:at]) if self.chance.random() < 0.5 else ()
            made = self.log.append(Compacted(f"compact {number}", covers, self.body[at].id))
            self.body = self.body[at:]
            self.summarise(made, f"compact {number}")

    def say(self, event: MessageEvent) -> MessageEvent:
        found = self.log.append(event)
        assert isinstance(found, MessageEvent)
        return found

    def summarise(self, event: Event, text: str) -> None:
        message = Message(Role.SYSTEM, (Text(text),))
        self.summary = [MessageEvent(message, seq=event.seq, time=event.time, id=event.id)]

    def prune(self) -> None:
        at = self.chance.randrange(len(self.body))
        target = self.body[at]
        if not target.message.results:
            return
        text = self.chance.choice([PLACEHOLDER, "cut"])
        decision = {"event": target.message.name, "text": text}
        self.log.append(Pruned((target.id,), "clear", (decision,)))
        result = target.message.results[0]._replace(content=(Text(text),))
        self.body[at] = replace(target, message=target.message._replace(parts=(result,)))


@every_case("seed", range(40))
def test_replaying_any_course_gives_back_exactly_what_was_sent(seed: int) -> None:
    host = Host(seed)
    for number in range(80):
        host.step(number)
        if number % 8 == 0:
            assert list(window_of(host.log.events(), shorten)) == host.sent
    assert list(window_of(host.log.events(), shorten)) == host.sent


def test_torn_lines_and_unknown_events_count_for_nothing() -> None:
    events: list[Event | TornLine] = []
    for each in kept(said("mend it"), said("two")):
        events += [TornLine("cut", 3), each, Unknown(name="dreamt")]
    assert texts(window_of(events)) == ["mend it", "two"]
    assert name_of(events) == "mend it"
    assert usage_of(events) == Usage()


# -------------------------------------------------------------------- what is known of a session


def test_usage_is_the_sum_over_all_calls() -> None:
    events = kept(Used(input=10, output=5, cached=4, cost=0.5), said("x"), Used(input=1, total=9, cost=0.25))
    assert usage_of(events) == Usage(2, 11, 5, 4, 24, 0.75, priced=2)


def test_a_session_in_which_somebody_spoke_again_has_not_ended() -> None:
    events = kept(Started(agent="main"), said("one"), Ended("quit"), Renamed("later"))
    end, begin = end_of(events), start_of(events)
    assert end is not None
    assert begin is not None
    assert (end.why, begin.agent) == ("quit", "main")
    assert end_of([*events, *kept(said("two"))]) is None


@every_case(
    "text",
    [
        *(
            "hi",
            "Hello!",
            "hey there",
            "good morning",
            "yes",
            "Yes, please go ahead.",
            "ok",
            "OK, do it!",
            "👍",
        ),
        *(
            "thanks!",
            "continue",
            "y",
            "/new",
            "/model gpt",
            "",
            "  ",
            "…",
            "你好",
            "はい",
            "Danke!",
            "sounds good to me",
        ),
    ],
)
def test_greetings_consent_and_commands_are_no_requests(text: str) -> None:
    assert not asks_something(text)


@every_case(
    "text",
    [
        *("fix the login test", "yes, but first rename the module", "deploy", "修复登录错误", "Почини тест"),
        *("/etc/hosts is broken", "hi, can you look at the parser?", "ログインを直して"),
    ],
)
def test_a_request_says_something_of_its_own(text: str) -> None:
    assert asks_something(text)


def test_a_session_is_named_after_its_first_real_request_until_somebody_names_it() -> None:
    long = "# Please look at the parser of the journal, and find out why it drops the second entry of a day"
    events = kept(
        said("hi"), said("How can I help?", Role.ASSISTANT), said(f"hello\n\n{long}\nmore"), said("x y z")
    )
    name = name_of(events)
    assert name == "Please look at the parser of the journal, and find out why…"
    assert len(name) <= LONGEST_NAME
    assert name_of([*kept(Started(name="given")), *events]) == "given"
    assert name_of([*events, *kept(Renamed("better"))]) == "better"
    assert name_of(kept(said("hi"), said("yes"))) == ""
    machinery = Message(Role.USER, (Text("the environment is Linux"),), extra={"meta": "environment"})
    assert name_of(kept(MessageEvent(machinery), said("fix the parser"))) == "fix the parser"
    assert name_of(kept(said("很" * 200))) == "很" * 59 + "…"
