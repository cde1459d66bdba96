"""JSON as text: an edit changes what it says and no other byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import every_case
from vademecum.errors import Malformed
from vademecum.interfaces.install import json_edit

COMMENTED = """\
{
    // what I like
    "theme": "dark", // not light
    "servers": {
        "mine": {"command": "x"} /* keep */
    },
    "empty": {}
}
"""


def test_a_new_key_comes_last_in_the_indent_of_the_others_and_comments_stay() -> None:
    made = json_edit.put(COMMENTED, ("servers", "vade"), {"command": "v", "args": ["mcp"]})
    assert made == COMMENTED.replace(
        '{"command": "x"} /* keep */',
        '{"command": "x"}, /* keep */\n'
        '        "vade": {\n            "command": "v",\n            "args": [\n'
        '                "mcp"\n            ]\n        }',
    )
    assert json_edit.remove(made, ("servers", "vade")) == COMMENTED


@every_case(
    ("text", "path", "made"),
    [
        ("", ("a",), '{\n  "a": 1\n}\n'),
        ("{}", ("a",), '{\n  "a": 1\n}'),
        ('{"b": 2}', ("a",), '{"b": 2, "a": 1}'),
        ('{\n\t"b": 2\n}\n', ("a",), '{\n\t"b": 2,\n\t"a": 1\n}\n'),
        ('{\r\n "b": 2\r\n}\r\n', ("a",), '{\r\n "b": 2,\r\n "a": 1\r\n}\r\n'),
        ('{\n  "b": 2,\n}\n', ("a",), '{\n  "b": 2,\n  "a": 1,\n}\n'),
        ('{\n  "a": [2, 3]\n}\n', ("a",), '{\n  "a": 1\n}\n'),
        ('{\n  "b": {}\n}\n', ("b", "a"), '{\n  "b": {\n    "a": 1\n  }\n}\n'),
        ("{\n  // nothing yet\n}\n", ("a",), '{\n  // nothing yet\n  "a": 1\n}\n'),
        ('\ufeff{"b": 2}', ("a",), '\ufeff{"b": 2, "a": 1}'),
    ],
)
def test_a_key_is_put_as_the_file_is_written(text: str, path: tuple[str, ...], made: str) -> None:
    assert json_edit.put(text, path, 1) == made
    assert json_edit.put(made, path, 1) == made


@every_case(
    "text",
    [
        "{",
        '{"a" 1}',
        "{'a': 1}",
        '{"a": 1} x',
        "[1, 2",
        '{"a": 01}',
        '{"a": tru}',
        "nothing",
        '{"a": 1 "b": 2}',
        "[" * 5000,
    ],
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        json_edit.put(text, ("a",), 1)


def test_a_place_that_holds_something_else_is_refused() -> None:
    with pytest.raises(Malformed):
        json_edit.put('{"a": 7}', ("a", "b"), 1)
    with pytest.raises(Malformed):
        json_edit.append('{"a": {}}', ("a",), 1)


scalars = st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5)
keys = st.sampled_from(["a", "b", "hooks", 'quo"te', "é", ""])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(keys, values, max_size=4)
styles = st.sampled_from([None, 1, 2, 4, "\t"])


@settings(max_examples=300)
@given(documents, styles, st.lists(keys, min_size=1, max_size=3), values, st.booleans())
def test_any_edit_means_what_it_says_and_can_be_taken_back(
    document: dict[str, Any], indent: Any, path: list[str], value: Any, ascii: bool
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii) + "\n"
    way = tuple(path)
    here: Any = document
    for key in way[:-1]:
        here = here.get(key, {}) if isinstance(here, dict) else None
    if not isinstance(here, dict):
        with pytest.raises(Malformed):
            json_edit.put(text, way, value)
        return
    made = json_edit.put(text, way, value)
    expected = json.loads(json.dumps(document))
    inner = expected
    for key in way[:-1]:
        inner = inner.setdefault(key, {})
    before = inner.get(way[-1], ...)
    inner[way[-1]] = value
    assert json.loads(made) == expected
    assert list(json.loads(made)) == list(expected)
    del inner[way[-1]]
    assert json.loads(json_edit.remove(made, way)) == expected
    if before is not ...:
        assert json.loads(json_edit.put(made, way, before))


@settings(max_examples=300)
@given(st.lists(values, max_size=4), styles, values)
def test_an_item_is_added_at_the_end_and_any_item_can_be_taken_away(
    items: list[Any], indent: Any, value: Any
) -> None:
    text = json.dumps({"before": 1, "list": items, "after": 2}, indent=indent)
    made = json_edit.append(text, ("list",), value)
    assert json.loads(made) == {"before": 1, "list": [*items, value], "after": 2}
    if items:
        assert json_edit.remove(made, ("list",), len(items)) == text
    for at in range(len(items) + 1):
        rest = [*items, value]
        del rest[at]
        assert json.loads(json_edit.remove(made, ("list",), at))["list"] == rest
