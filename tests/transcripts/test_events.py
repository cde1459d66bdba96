"""Events and their lines: what is written is what is read, and nothing that can be read is lost."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cases import every_case
from vademecum.transcripts import (
    Image,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    events,
)
from vademecum.transcripts.events import Event, MessageEvent, TornLine, Unknown, Used, parse, render

if TYPE_CHECKING:
    import pytest

words = st.text(max_size=20)
# Any character that a Python string can hold, halves of surrogate pairs too.
anything = st.text(st.characters(), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, values, max_size=3)
texts = st.builds(Text, anything, objects)
images = st.builds(Image, words, words, words, objects)
opaques = st.builds(Opaque, values)
results = st.builds(
    ToolResult,
    words,
    st.lists(texts | images | opaques, max_size=3).map(tuple),
    words,
    st.booleans(),
    objects,
)
parts = (
    texts
    | st.builds(Thinking, anything, objects)
    | images
    | st.builds(ToolCall, words, words, anything, objects)
    | results
    | opaques
)
messages = st.builds(
    Message,
    st.sampled_from(Role),
    st.lists(parts, max_size=4).map(tuple),
    words,
    words,
    words,
    words,
    objects,
)
_OF: dict[str, st.SearchStrategy[Any]] = {
    "str": words,
    "int": st.integers(0, 2**53),
    "float": st.floats(0, 1e9),
    "Message": messages,
    "tuple[str, ...]": st.lists(words, max_size=3).map(tuple),
    "Items": st.lists(objects, max_size=3).map(tuple),
}
names_of_fields = {each.name for kind in events._KINDS.values() for each in fields(kind)}
extras = st.dictionaries(
    words.filter(lambda name: name not in names_of_fields | {"kind"}), values, max_size=2
)


def built(kind: type[Event]) -> st.SearchStrategy[Event]:
    given = {
        each.name: extras if each.name == "extra" else _OF[str(each.type)]
        for each in fields(kind)
        if each.name != "seq"
    }
    return st.builds(kind, seq=st.integers(1, 10**9), **given)


known = st.one_of([built(kind) for kind in events._KINDS.values()])


@settings(max_examples=300, deadline=None)
@given(known)
def test_what_is_written_is_what_is_read(event: Event) -> None:
    line = render(event)
    assert b"\n" not in line
    assert parse(line) == event


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["seq", "kind", "time", "id", "message", "role", "x"]) | words, values)
)
def test_any_object_is_an_event_and_is_written_again_as_it_was(value: dict[str, Any]) -> None:
    event = parse(json.dumps(value).encode())
    assert isinstance(event, Event)
    assert parse(render(event)) == event
    for name, each in value.items():
        if name not in ("seq", "kind", "time", "id") and each is not None:
            assert json.loads(render(event)).get(name, each) == each


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), known, st.integers(0, 400))
def test_no_bytes_raise(noise: bytes, event: Event, at: int) -> None:
    line = render(event)
    for each in (noise, line[:at], line[:at] + noise, noise + line):
        assert isinstance(parse(each), Event | TornLine)
    if at < len(line):
        assert isinstance(parse(line[:at]), TornLine)


@every_case(
    "line",
    [b"", b"{", b"[1]", b"null", b"7", b"\x00" * 50, b"\xff\xfe", b'{"a":"\xff"}', b"[" * 100_000],
)
def test_what_is_no_event_is_torn(line: bytes) -> None:
    assert isinstance(parse(line), TornLine)


def test_a_kind_of_a_newer_version_survives() -> None:
    line = b'{"seq":4,"kind":"dreamt","time":"2030-01-01T00:00:00Z","id":"x","of":["sheep"]}'
    event = parse(line)
    assert event == Unknown(
        seq=4, time="2030-01-01T00:00:00Z", id="x", name="dreamt", fields={"of": ["sheep"]}
    )
    assert render(event) == line


def test_fields_of_a_newer_version_survive_in_events_messages_and_parts() -> None:
    line = (
        b'{"seq":1,"kind":"message","id":"e","mood":"calm","message":{"tone":"dry","role":"user",'
        b'"parts":[{"type":"text","text":"hi","font":"serif"},{"type":"hologram","d":3},{"type":"text","text":"x"}]}}'
    )
    event = parse(line)
    assert isinstance(event, MessageEvent)
    assert event.extra == {"mood": "calm", "message": {"tone": "dry"}}
    assert event.message.parts[1:] == (Opaque({"type": "hologram", "d": 3}), Text("x"))
    assert event.message.parts[0] == Opaque({"type": "text", "text": "hi", "font": "serif"})
    assert parse(render(event)) == event


@every_case(
    "message",
    [
        None,
        7,
        {"role": "wizard", "parts": []},
        {"role": ["user"], "parts": []},
        {"role": "user"},
        {"role": "user", "parts": 3},
        {"role": "user", "parts": [], "name": 5},
        {"role": "user", "parts": [], "extra": None},
    ],
)
def test_a_message_that_is_none_is_kept_as_unknown(message: Any) -> None:
    event = parse(json.dumps({"seq": 1, "kind": "message", "message": message}).encode())
    assert isinstance(event, Unknown)
    assert event.fields["message"] == message


@every_case(
    "part",
    [
        {"type": "text", "text": 5},
        {"type": "tool_call", "id": "a", "name": None, "arguments": {}},
        {"type": "tool_result", "id": 3},
        {"type": "tool_result", "id": "a", "content": "words"},
        {"type": "tool_result", "id": "a", "error": "yes"},
        "words",
    ],
)
def test_a_part_that_is_none_is_carried_and_the_others_are_read(part: Any) -> None:
    value = {"kind": "message", "message": {"role": "user", "parts": [{"type": "text", "text": "hi"}, part]}}
    event = parse(json.dumps(value).encode())
    assert isinstance(event, MessageEvent)
    assert event.message.text == "hi"
    assert event.message.parts[1] == Opaque(part)


def test_numbers_of_the_wrong_type_make_no_usage() -> None:
    assert isinstance(parse(b'{"seq":1,"kind":"usage","input":"many"}'), Unknown)
    assert parse(b'{"seq":1,"kind":"usage","input":3,"cost":1}') == Used(seq=1, input=3, cost=1.0)
    assert parse(b'{"seq":1,"kind":"usage","input":null}') == Used(seq=1)


def test_a_line_that_is_too_long_is_torn_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LARGEST", 100)
    assert parse(b'{"kind":"todo"}' + b" " * 100) == TornLine("longer than 100 bytes", 115)
