"""Messages go to every provider's shape and come back: exactly within one, without loss of meaning across."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cases import every_case
from vademecum.errors import UnknownName, UsageError
from vademecum.transcripts import (
    Image,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    from_json,
    to_json,
)
from vademecum.transcripts import shapes as carry
from vademecum.transcripts.shapes import NAMES, recognise, shape

FEW = settings(max_examples=80, deadline=None)

# Any character at all: lone surrogates and NUL are legal in JSON.
words = st.text(st.characters(exclude_categories=()), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
ids = st.sampled_from(["c1", "c2", "c3", ""])
argument_texts = (
    st.sampled_from(["{}", "", "{", "[1]", '{"a": 1.5, "b": [null]}', '{"INVALID_JSON": "{"}']) | words
)
data_urls = st.sampled_from(
    ["data:image/png;base64,AA+/", "data:image/png;base64,", "https://x/y.png", "data:,x"]
)


def loose(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with these fields as they should be, mostly: some are missing, some hold something else."""
    mostly = {key: st.one_of(field, field, field, field, field, values) for key, field in fields.items()}
    whole = st.fixed_dictionaries(dict(fields.items()))
    odd = st.fixed_dictionaries({}, optional={**mostly, "unknown": values})
    return st.one_of(whole, whole, whole, whole, odd, st.builds(lambda a, b: {**a, **b}, whole, odd))


def lists(*kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(*kinds, *kinds, values), max_size=4)


def content(*blocks: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return words | lists(*blocks) | st.none()


def typed(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return loose(type=st.just(kind), **fields)


cache = st.just({"type": "ephemeral"})

chat_blocks = [
    typed("text", text=words),
    typed("image_url", image_url=loose(url=data_urls, detail=st.just("low"))),
    typed("input_audio", input_audio=values),
    typed("refusal", refusal=words),
]
chat_calls = [
    loose(
        id=ids,
        type=st.just("function"),
        function=loose(name=words, arguments=argument_texts | st.just({"a": 1})),
    ),
    loose(id=ids, type=st.just("custom"), custom=loose(name=words, input=argument_texts)),
]
openai_chat = lists(
    loose(role=st.sampled_from(["system", "developer", "user"]), content=content(*chat_blocks), name=words),
    loose(
        role=st.just("assistant"),
        content=content(*chat_blocks),
        tool_calls=lists(*chat_calls),
        refusal=st.none() | words,
        function_call=st.none() | loose(name=words, arguments=argument_texts),
        reasoning_content=st.none() | words,
    ),
    loose(role=st.just("assistant"), content=content(*chat_blocks), tool_calls=lists(*chat_calls)),
    loose(role=st.just("tool"), content=content(*chat_blocks), tool_call_id=ids),
    loose(role=st.just("function"), content=content(*chat_blocks), name=words),
    loose(role=words, content=content(*chat_blocks)),
)

response_blocks = [
    typed("input_text", text=words),
    typed("output_text", text=words, annotations=st.just([])),
    typed("input_image", image_url=data_urls, detail=st.just("auto")),
    typed("refusal", refusal=words),
    typed("input_file", file_id=words),
]
roles = st.sampled_from(["system", "developer", "user", "assistant"])
openai_responses = lists(
    loose(role=roles, content=content(*response_blocks)),
    loose(role=st.just("assistant"), content=content(*response_blocks)),
    typed("message", role=roles, content=content(*response_blocks), id=words, status=st.just("completed")),
    typed("function_call", call_id=ids, name=words, arguments=argument_texts, id=words),
    typed("custom_tool_call", call_id=ids, name=words, input=argument_texts),
    typed("shell_call", call_id=ids, action=values),
    typed("function_call_output", call_id=ids, output=content(*response_blocks)),
    typed("computer_call_output", call_id=ids, output=values),
    typed("local_shell_call_output", id=ids, output=words),
    typed("reasoning", id=words, summary=lists(typed("summary_text", text=words)), encrypted_content=words),
    typed("web_search_call", id=words),
    loose(role=words, content=words),
)

anthropic_images = typed(
    "image",
    source=typed("base64", media_type=st.just("image/png"), data=st.sampled_from(["", "AA+/"]))
    | typed("url", url=words),
)
anthropic_inputs = st.dictionaries(words, values, max_size=2) | argument_texts.map(
    lambda text: {"INVALID_JSON": text}
)
anthropic_blocks = [
    typed("text", text=words, cache_control=cache),
    typed("text", text=words),
    anthropic_images,
    typed("tool_use", id=ids, name=words, input=anthropic_inputs),
    typed(
        "tool_result",
        tool_use_id=ids,
        content=content(typed("text", text=words), anthropic_images),
        is_error=st.booleans(),
    ),
    typed("tool_result", tool_use_id=ids, content=words),
    typed("thinking", thinking=words, signature=words),
    typed("redacted_thinking", data=words),
    typed("document", source=values, title=words),
    typed("server_tool_use", id=ids, name=words, input=values),
]
anthropic = lists(
    loose(role=st.sampled_from(["user", "assistant", "system"]), content=content(*anthropic_blocks)),
    loose(role=st.just("user"), content=content(*anthropic_blocks[4:6], anthropic_blocks[1])),
    loose(role=words, content=content(*anthropic_blocks)),
)


def part(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return loose(part_kind=st.just(kind), **fields)


stamps = st.sampled_from(["2026-11-15T07:37:05.476850Z", "2026-11-15T07:37:05Z", "2026-11-15T07:37:05+01:00"])
pydantic_blocks = [
    words,
    loose(kind=st.just("image-url"), url=words, media_type=st.just("image/png")),
    loose(
        kind=st.just("binary"), data=st.sampled_from(["", "AA-_", "AA+/"]), media_type=st.just("image/png")
    ),
    loose(kind=st.just("binary"), data=st.just("AA=="), media_type=st.just("audio/wav")),
    loose(kind=st.just("text-content"), content=words, metadata=values),
]
pydantic_asked = [
    part("system-prompt", content=words, timestamp=stamps),
    part("user-prompt", content=content(*pydantic_blocks), timestamp=stamps),
    part("user-prompt", content=content(*pydantic_blocks)),
    part("tool-return", tool_name=words, content=values | content(*pydantic_blocks), tool_call_id=ids),
    part(
        "tool-return",
        tool_name=words,
        content=words,
        tool_call_id=ids,
        outcome=st.sampled_from(["success", "failed", "denied"]),
    ),
    part("retry-prompt", content=words | values, tool_name=st.none() | words, tool_call_id=ids),
    part("retry-feedback", content=words | values, retry=values),
    part("instruction-delta", id=words, content=words),
]
pydantic_said = [
    part("text", content=words, id=st.none()),
    part("thinking", content=words, signature=words),
    part("tool-call", tool_name=words, args=argument_texts | st.none() | anthropic_inputs, tool_call_id=ids),
    part("file", content=pydantic_blocks[2]),
    part("builtin-tool-call", tool_name=words, args=values),
]
pydantic_ai = lists(
    loose(kind=st.just("request"), parts=lists(*pydantic_asked), instructions=st.none() | words),
    loose(kind=st.just("request"), parts=lists(*pydantic_asked)),
    loose(kind=st.just("response"), parts=lists(*pydantic_said), model_name=words, timestamp=stamps),
)

SHAPES = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "pydantic_ai": pydantic_ai,
}
every_shape = pytest.mark.parametrize("name", NAMES)


def exact(value: Any) -> str:
    """JSON text tells 1 from 1.0 and true, which Python's equality does not."""
    return json.dumps(value, sort_keys=True)


def only_objects(messages: list[Any]) -> list[Any]:
    return [each for each in messages if isinstance(each, dict)]


def through_a_transcript(messages: list[Message]) -> list[Message]:
    lines = [json.dumps(to_json(each), ensure_ascii=False) for each in messages]
    return [from_json(json.loads(line)) for line in lines]


# Within one provider


@every_shape
@FEW
@given(data=st.data())
def test_what_is_read_is_written_back_exactly(name: str, data: st.DataObject) -> None:
    theirs = only_objects(data.draw(SHAPES[name]))
    before = exact(theirs)
    ours = shape(name).read(theirs)
    assert exact(shape(name).write(ours)) == before
    assert exact(shape(name).write(through_a_transcript(ours))) == before
    assert exact(theirs) == before  # and reading changed nothing


def any_of(*options: Any) -> tuple[Any, ...]:
    return options


def asked(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "request", "parts": list(parts)}


def prompt(content: Any) -> dict[str, Any]:
    return {"part_kind": "user-prompt", "content": content}


def returned(content: Any, **more: Any) -> dict[str, Any]:
    return {"part_kind": "tool-return", "tool_name": "f", "content": content, "tool_call_id": "c1", **more}


def result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "c1", "content": content, **more}


def use(value: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": value}]}


CALLED = {
    "kind": "response",
    "parts": [{"part_kind": "tool-call", "tool_name": "f", "args": "", "tool_call_id": "c1"}],
}
# Where two ways of writing say the same and each must come back as it was.
TRICKY: dict[str, list[list[Any]]] = {
    "openai_chat": [
        [{"role": "user", "content": value}]
        for value in any_of(
            "",
            [],
            None,
            "x",
            [{"type": "text", "text": "x"}],
            [{"type": "text", "text": ""}],
            {},
            0,
        )
    ]
    + [
        [{"role": "assistant", "content": value, "tool_calls": calls}]
        for value in any_of("", [], None, "x", [{"type": "text", "text": "x"}])
        for calls in (None, [], [None], [{"id": "c1", "type": "function", "function": {"name": "f"}}])
    ]
    + [
        [{"role": "assistant", "content": "x", "refusal": "no", "reasoning": "a", "reasoning_content": "b"}],
        [{"role": "assistant", "function_call": {"name": "f", "arguments": {"a": 1}}, "tool_calls": []}],
        [
            {
                "role": "tool",
                "tool_call_id": "c1",
                "content": [{"type": "image_url", "image_url": {"url": "u"}}],
            }
        ],
        [{"role": "function", "content": "x"}, {"role": "function", "name": None, "content": "x"}],
    ],
    "openai_responses": [
        [{"role": "assistant", "content": "one"}, {"role": "assistant", "content": "two"}],
        [{"role": "assistant", "content": [{"type": "output_text", "text": each} for each in "ab"]}],
        [{"role": "assistant", "content": [{"type": "output_text", "text": "a"}]}] * 2,
        [{"role": "assistant", "content": [{"type": "input_file"}, None]}] * 2,
        [
            {"role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            {"role": "assistant", "content": "b"},
        ],
        [
            {"role": "assistant", "content": "a"},
            {"type": "web_search_call"},
            {"role": "assistant", "content": "b"},
        ],
        [{"role": "assistant", "content": value} for value in any_of("", [], None, "x", [None])],
        [{"role": "user", "content": value} for value in any_of("", [], None, "x", [None])],
        [{"type": "function_call", "call_id": "c1", "name": "f", "arguments": {"a": 1}}],
        [
            {"type": "function_call_output", "output": value}
            for value in any_of("", [], None, "x", [None], {})
        ],
    ],
    "anthropic": [
        [{"role": "user", "content": [result("a")]}, {"role": "user", "content": [result("b")]}],
        [{"role": "user", "content": [result("a"), result("b")]}, {"role": "user", "content": "x"}],
        [{"role": "user", "content": [result("a"), {"type": "text", "text": "x"}, result("b")]}],
        [
            {"role": "user", "content": [{"type": "text", "text": "x"}, result("a")]},
            {"role": "user", "content": "y"},
        ],
        [{"role": "user", "content": [result(value)]} for value in any_of("", [], None, "x", [None], {})],
        [
            {"role": "user", "content": [result("x", is_error=value)]}
            for value in any_of(True, False, 1, None)
        ],
        [
            use(value)
            for value in any_of({}, None, "", "x", [], {"a": 1}, {"a": 1.0}, {"a": True}, {"a": -0.0})
        ],
        [
            use({"INVALID_JSON": value})
            for value in any_of("", "{", "{}", '{"INVALID_JSON": "{"}', "[]", None, 1)
        ],
        [{"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}],
        [{"role": "critic", "content": [result("a")]}, {"role": "user", "content": [result("b")]}],
    ],
    "pydantic_ai": [
        [asked(prompt("x")), asked(prompt("y")), asked(), asked(prompt("z"))],
        [asked(prompt("x"), prompt("y"), prompt(["z"]), prompt([]), prompt("z"))],
        [asked(prompt([{"kind": "text-content", "content": "x"}]), prompt("y"))],
        [asked(prompt([{"kind": "audio-url", "url": "x"}]), prompt("y"), prompt([None]), prompt("y"))],
        [CALLED, asked(returned("x", tool_name="")), asked(returned("x", tool_name=None))],
        [
            asked(returned(value))
            for value in any_of("", [], None, "x", ["x"], [1], {}, 0, False, 1.0, -0.0, "{}", [[]])
        ],
        [
            asked(returned({"kind": "image-url", "url": "x"})),
            asked(returned([{"kind": "image-url", "url": "x"}])),
        ],
        [asked(returned("x", outcome=value)) for value in any_of("success", "failed", "denied", None)],
        [CALLED, CALLED, {"kind": "response", "parts": []}, asked({"part_kind": "new"}), asked(prompt("x"))],
    ],
}


@every_case(("name", "theirs"), [(name, each) for name in NAMES for each in TRICKY[name]])
def test_each_of_two_ways_to_say_the_same_comes_back_as_it_was(name: str, theirs: list[Any]) -> None:
    ours = shape(name).read(theirs)
    assert exact(shape(name).write(ours)) == exact(theirs)
    assert exact(shape(name).write(through_a_transcript(ours))) == exact(theirs)


@every_shape
@FEW
@given(theirs=st.lists(st.dictionaries(words, values, max_size=4), max_size=4))
@example(theirs=[{}])
@example(theirs=[{"role": [], "type": {}, "kind": [], "content": 1, "parts": {}}])
@example(theirs=[{"role": "user", "content": [None, 1, [], {"type": []}], "type": None}])
@example(
    theirs=[{"kind": "request", "parts": [None, 1, [], {"part_kind": []}, {"part_kind": "tool-return"}]}]
)
def test_any_objects_at_all_survive(name: str, theirs: list[dict[str, Any]]) -> None:
    assert exact(shape(name).write(shape(name).read(theirs))) == exact(theirs)
    recognise(theirs)


@FEW
@given(
    data=st.data(),
    origin=st.sampled_from(NAMES),
    reader=st.sampled_from(NAMES),
    target=st.sampled_from(NAMES),
)
def test_reading_one_shape_as_another_and_writing_a_third_never_raises(
    data: st.DataObject, origin: str, reader: str, target: str
) -> None:
    theirs = only_objects(data.draw(SHAPES[origin]))
    ours = shape(reader).read(theirs)
    assert exact(shape(reader).write(ours)) == exact(theirs)
    shape(target).read(shape(target).write(ours))


@pytest.mark.full(but=1)
@every_shape
def test_values_nested_beyond_all_reason_survive(name: str) -> None:
    deep: Any = {}
    for _ in range(200_000):
        deep = {"a": deep}
    theirs = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": deep}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": deep}}]},
        {"type": "shell_call", "call_id": "c", "action": deep},
        {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "f", "args": deep}]},
        {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_name": "f", "content": deep}]},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": "[" * 200_000}}]},
    ]
    back = shape(name).write(shape(name).read(theirs))
    assert carry.same(back, theirs)
    for other in NAMES:
        shape(other).write(shape(name).read(theirs))
    while deep:  # taken apart by hand: the interpreter would do it recursively
        deep = deep.pop("a")


@every_shape
@pytest.mark.parametrize("wrong", [None, 1, "text", {"role": "user"}, [1], [None], [{}, "text"]])
def test_what_is_not_a_list_of_objects_is_refused_in_one_line(name: str, wrong: Any) -> None:
    with pytest.raises(UsageError, match=f"^{name} message.* must be an? .*, not [a-zA-Z]+$") as refused:
        shape(name).read(wrong)
    assert refused.value.hint


# A change to our fields is never overruled by what was noted

RESULTS: dict[str, list[Any]] = {
    "openai_chat": [
        {"role": "tool", "tool_call_id": "c1", "content": "long", "x": 1},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "long", "x": 1}]},
        {"role": "tool", "tool_call_id": "c1", "content": None},
        {"role": "function", "name": "f", "content": "long"},
    ],
    "openai_responses": [
        {"type": "function_call_output", "call_id": "c1", "output": "long", "status": "completed"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "long"}]},
        {"type": "computer_call_output", "call_id": "c1", "output": {"type": "computer_screenshot"}},
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "long", "x": 1}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "x": 1}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": None}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "long"}]},
                {"type": "text", "text": "and"},
            ],
        },
    ],
    "pydantic_ai": [
        {
            "kind": "request",
            "parts": [{"part_kind": "tool-return", "tool_name": "f", "content": value, "tool_call_id": "c1"}],
            "instructions": None,
        }
        for value in any_of("long", {"long": 1}, ["long"], None, 3)
    ],
}


@every_case(("name", "given_message"), [(name, each) for name in NAMES for each in RESULTS[name]])
def test_a_result_that_was_cut_is_written_cut(name: str, given_message: Any) -> None:
    [ours, *rest] = shape(name).read([given_message])
    cut = ours._replace(parts=tuple(each._replace(content=(Text("CUT"),)) for each in ours.results))
    [theirs] = shape(name).write([cut, *rest])
    assert "CUT" in exact(theirs)
    assert "long" not in exact(theirs)
    assert shape(name).read([theirs])[0].results[0].text == "CUT"


def test_a_prompt_that_was_changed_stays_apart_from_the_next() -> None:
    [ours] = shape("pydantic_ai").read([asked(prompt("x"), prompt("y"))])
    changed = ours._replace(parts=(Text("CUT"), *ours.parts[1:]))
    assert shape("pydantic_ai").write([changed]) == [asked(prompt("CUT"), prompt("y"))]


@every_shape
def test_half_of_a_message_can_be_dropped(name: str) -> None:
    whole = [
        Message(Role.ASSISTANT, (ToolCall("c1", "f", "{}"),)),
        Message(Role.TOOL, (ToolResult("c1", (Text("result"),)),)),
        Message(Role.USER, (Text("and now?"),)),
    ]
    ours = shape(name).read(shape(name).write(whole))
    kept = [each for each in ours if each.role is Role.USER]
    assert [each.text for each in shape(name).read(shape(name).write(kept))] == ["and now?"]


# Across providers

said = st.text(st.characters(exclude_categories=()), min_size=1, max_size=8)
texts = said.map(Text)
images = st.sampled_from(
    [
        Image(media_type="image/png", data="AA+/"),
        Image(media_type="image/jpeg", data="AAAA"),
        Image(url="https://x/1.png"),
        Image(url="https://x/2"),
    ]
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """System, then turns: a user's words and pictures, an assistant's words and calls, the calls' results."""
    found = [Message(Role.SYSTEM, (draw(texts),))] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(0, 3))):
        found.append(Message(Role.USER, tuple(draw(st.lists(texts | images, min_size=1, max_size=3)))))
        names = draw(st.lists(st.sampled_from(["read", "run"]), max_size=2))
        calls = [ToolCall(f"c{turn}_{i}", each, draw(argument_texts)) for i, each in enumerate(names)]
        answer = draw(st.lists(texts, min_size=1, max_size=2))
        found.append(Message(Role.ASSISTANT, (*answer, *calls)))
        for call in calls:
            shown = tuple(draw(st.lists(texts | images, min_size=1, max_size=3)))
            found.append(Message(Role.TOOL, (ToolResult(call.id, shown, name=call.name),)))
    return found


def arguments_of(text: str) -> str:
    """What the arguments say, however they are spaced."""
    value = carry.loads(text)
    return exact(value) if isinstance(value, dict) else text or "{}"


def meaning(messages: list[Message]) -> dict[str, Any]:
    """What must survive; pictures in results may move, and are announced where they went."""
    shown = [part for each in messages for part in each.parts if isinstance(part, Image)]
    shown += [
        part
        for each in messages
        for result in each.results
        for part in result.content
        if isinstance(part, Image)
    ]
    spoken = [
        (each.role, part.text)
        for each in messages
        for part in each.parts
        if isinstance(part, Text) and not part.text.startswith("Shown by tool call")
    ]
    return {
        "spoken": spoken,
        "calls": [
            (call.id, call.name, arguments_of(call.arguments)) for each in messages for call in each.calls
        ],
        "results": [(result.id, result.name, result.text) for each in messages for result in each.results],
        "images": sorted(carry.image_url(image) for image in shown),
    }


@pytest.mark.full(but=6)
@pytest.mark.parametrize("first", NAMES)
@pytest.mark.parametrize("second", NAMES)
@settings(max_examples=25, deadline=None)
@given(ours=conversations())
def test_words_calls_results_and_pictures_survive_across(
    first: str, second: str, ours: list[Message]
) -> None:
    once = shape(first).read(shape(first).write(ours))
    assert meaning(once) == meaning(ours)
    twice = shape(second).read(shape(second).write(once))
    assert meaning(twice) == meaning(ours)


@given(
    st.recursive(
        words, lambda inner: inner.map(lambda text: json.dumps({"INVALID_JSON": text})), max_leaves=4
    )
)
def test_arguments_that_are_no_object_come_back_from_one(text: str) -> None:
    back = carry.from_object(carry.to_object(text))
    assert back is not None
    assert arguments_of(back) == arguments_of(text)


@every_case("inner", ["", "{", "{}", '{"INVALID_JSON": "{"}', '{"INVALID_JSON": "{}"}', "[]", 1, None])
def test_an_object_that_looks_like_such_arguments_stays_what_it_is(inner: Any) -> None:
    arguments = carry.from_object({"INVALID_JSON": inner})
    assert arguments is not None
    assert carry.to_object(arguments) == {"INVALID_JSON": inner}


@every_case("text", ['{"a": NaN}', '{"a": 1e999}', "null", "[]", '"x"', "{", "9" * 5000])
def test_arguments_json_has_no_object_for_are_carried_as_text(text: str) -> None:
    assert carry.to_object(text) == {"INVALID_JSON": text}


def test_the_results_of_one_turn_reach_anthropic_in_one_message() -> None:
    chat = [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "w", "arguments": '{"city": "Oslo"}'}},
                {"id": "b", "type": "function", "function": {"name": "w", "arguments": '{"city": "Rome"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "cold"},
        {"role": "tool", "tool_call_id": "b", "content": "warm"},
        {"role": "assistant", "content": "Rome."},
    ]
    assert shape("anthropic").write(shape("openai_chat").read(chat)) == [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "w", "input": {"city": "Oslo"}},
                {"type": "tool_use", "id": "b", "name": "w", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "cold"},
                {"type": "tool_result", "tool_use_id": "b", "content": "warm"},
            ],
        },
        {"role": "assistant", "content": "Rome."},
    ]


def test_a_result_from_elsewhere_joins_one_of_anthropics_that_has_fields_of_its_own() -> None:
    calls: list[dict[str, object]] = [
        {"type": "tool_use", "id": each, "name": "look", "input": {}} for each in ("a", "b")
    ]
    answer = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "b", "content": "seen"}],
        "x": 1,
    }
    ours = shape("anthropic").read([{"role": "assistant", "content": calls}, answer])
    repaired = Message(Role.TOOL, (ToolResult("a", (Text("no result"),)),))
    written = shape("anthropic").write([ours[0], repaired, ours[1]])
    assert [each["role"] for each in written] == ["assistant", "user"]
    assert [block["tool_use_id"] for block in written[1]["content"]] == ["a", "b"]
    written = shape("anthropic").write([*ours, repaired])
    assert [block["tool_use_id"] for block in written[1]["content"]] == ["b", "a"]
    assert written[1]["x"] == 1


def test_results_that_came_in_several_messages_go_back_in_several() -> None:
    for more in ({}, {"x": 1}):
        theirs = [
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": each, "content": each}],
                **more,
            }
            for each in ("a", "b", "c")
        ]
        assert shape("anthropic").write(shape("anthropic").read(theirs)) == theirs


def test_an_anthropic_message_of_results_and_words_is_two_of_ours() -> None:
    theirs = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "seen", "is_error": True},
                {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ]
    ours = shape("anthropic").read(theirs)
    assert [each.role for each in ours] == [Role.ASSISTANT, Role.TOOL, Role.USER]
    assert ours[1].results[0].name == "look"
    assert ours[1].results[0].error
    assert shape("openai_chat").write(ours)[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "seen"},
        {"role": "user", "content": "go on"},
    ]


def test_a_turn_of_several_response_items_is_one_message() -> None:
    theirs = [
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "one"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "two"}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "b", "name": "patch", "input": "*** Begin"},
        {"type": "function_call_output", "call_id": "a", "output": "x"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "y"},
    ]
    ours = shape("openai_responses").read(theirs)
    assert [each.role for each in ours] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL]
    assert ours[1].text == "one\ntwo"
    assert [call.id for call in ours[1].calls] == ["a", "b"]
    assert [each.results[0].name for each in ours[2:]] == ["f", "patch"]
    said_to_anthropic = shape("anthropic").write(ours)[1]["content"]
    assert said_to_anthropic[-1]["input"] == {"input": "*** Begin"}


def test_older_function_calls_become_pairs() -> None:
    theirs = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "x"},
    ]
    call, result = shape("openai_chat").read(theirs)
    assert call.calls[0].id == result.results[0].id != ""


def test_thoughts_go_only_to_those_who_thought_them() -> None:
    theirs = [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "hello"},
            ],
        },
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
    ]
    ours = shape("anthropic").read(theirs)
    assert isinstance(ours[0].parts[0], Thinking)
    assert isinstance(ours[0].parts[1], Opaque)
    assert shape("openai_chat").write(ours) == [{"role": "assistant", "content": "hello"}]


@pytest.mark.parametrize("target", [name for name in NAMES if name != "anthropic"])
def test_content_only_one_provider_has_is_named_where_it_is_left_out(target: str) -> None:
    theirs = [
        {"role": "user", "content": [{"type": "document", "source": {}}, {"type": "text", "text": "sum up"}]}
    ]
    written = exact(shape(target).write(shape("anthropic").read(theirs)))
    assert "[document left out: anthropic only]" in written
    assert "sum up" in written


# As pydantic-ai 2.66 writes it
PYDANTIC = [
    {
        "parts": [
            {
                "content": "s",
                "timestamp": "2026-11-15T07:37:05.476850Z",
                "dynamic_ref": None,
                "part_kind": "system-prompt",
            },
            {
                "content": [
                    "a",
                    {
                        "url": "http://x/y.png",
                        "force_download": False,
                        "kind": "image-url",
                        "media_type": "image/png",
                    },
                    {"data": "__8=", "media_type": "image/png", "vendor_metadata": None, "kind": "binary"},
                ],
                "timestamp": "2026-11-15T07:37:05.476898Z",
                "part_kind": "user-prompt",
            },
        ],
        "timestamp": None,
        "instructions": "be",
        "kind": "request",
        "state": "complete",
    },
    {
        "parts": [
            {"content": "t", "id": None, "signature": "x", "part_kind": "thinking"},
            {"content": "hello", "id": None, "part_kind": "text"},
            {"tool_name": "f", "args": {"a": 1}, "tool_call_id": "c2", "id": None, "part_kind": "tool-call"},
        ],
        "usage": {"input_tokens": 0, "details": {}},
        "model_name": "gpt",
        "timestamp": "2026-11-15T07:37:05.476949Z",
        "kind": "response",
        "finish_reason": None,
    },
    {
        "parts": [
            {
                "tool_name": "f",
                "content": {"x": 1},
                "tool_call_id": "c2",
                "outcome": "success",
                "part_kind": "tool-return",
            }
        ],
        "kind": "request",
    },
]


def test_pydantic_ai_history_is_understood() -> None:
    ours = shape("pydantic_ai").read(PYDANTIC)
    assert [each.role for each in ours] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL]
    pictures = [part for part in ours[1].parts if isinstance(part, Image)]
    assert [(each.data, each.url) for each in pictures] == [("", "http://x/y.png"), ("//8=", "")]
    assert (ours[2].time, ours[2].model, ours[2].text) == ("2026-11-15T07:37:05Z", "gpt", "hello")
    assert ours[3].results[0].text == '{"x": 1}'
    assert shape("pydantic_ai").write(ours) == PYDANTIC


# Which shape it is


@every_case(
    ("name", "theirs"),
    [
        ("pydantic_ai", PYDANTIC),
        ("openai_responses", [{"role": "user", "content": "hi"}, {"type": "reasoning", "summary": []}]),
        ("openai_responses", [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]),
        ("anthropic", [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}]),
        ("openai_chat", [{"role": "user", "content": "hi"}]),
        ("openai_chat", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
        (None, [{"kind": "request"}]),
        (None, []),
        (None, ["text"]),
        (None, {"role": "user"}),
    ],
)
def test_a_shape_is_recognised_by_its_marks(name: str | None, theirs: Any) -> None:
    found = recognise(theirs)
    assert (found.name if found else None) == name


def test_an_unknown_shape_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownName) as refused:
        shape("morse")
    assert all(name in refused.value.hint for name in NAMES)


def test_a_shape_is_loaded_when_it_is_asked_for() -> None:
    code = "from vademecum.transcripts.shapes import shape; shape('anthropic')"
    code = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.rpartition(".")[2] for name in done.stdout.split() if ".shapes." in name}
    assert loaded == {"anthropic"}
