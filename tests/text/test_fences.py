"""One idea of fenced code, for all who must not take code for words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

import vademecum
from cases import every_case
from vademecum.text import fences

LINES = st.lists(
    st.sampled_from(
        [
            "```",
            "~~~",
            "````",
            "```py",
            "~~~ `x`",
            "text",
            "  ```",
            "    ```",
            "\t~~~",
            "- item",
            "- ```",
            "",
            "# h",
        ]
    )
)


def inside(text: str) -> list[str]:
    return [text[each.inner_start : each.inner_end] for each in fences.find(text)]


@every_case(
    ("text", "code"),
    [
        ("a\n```\nx\n```\nb", ["x\n"]),
        ("~~~\nx\n~~~", ["x\n"]),
        ("~~~\n```\n~~~", ["```\n"]),
        ("````\n```\nx\n````", ["```\nx\n"]),
        ("```\nx\n`````", ["x\n"]),
        ("```py\nx\n```py\ny\n```", ["x\n```py\ny\n"]),  # only bare marks close
        ("```\nx\n", ["x\n"]),
        ("```", [""]),
        ("```\n```", [""]),
        ("   ```\nx\n   ```", ["x\n"]),
        ("    ```\nx", []),  # code by its indentation, and no fence
        ("```\nx\n    ```\ny\n```", ["x\n    ```\ny\n"]),
        ("- a\n\n    ```\n    x\n    ```\nb", ["    x\n"]),
        ("- ```\n  x\n  ```\nb", ["  x\n"]),
        ("1. a\n- b\n\nc\n\n    ```\nd", []),  # the list is over
        ("- a\n\n```\nx\n```\n\n    ```\n    y\n    ```\nb", ["x\n", "    y\n"]),  # pasted into the list
        ("``` a`b\nx", []),  # a span of code in a line
        ("say ``` now\nx", []),
        ("```\r\nx\r\n```\r\nb", ["x\r\n"]),
        ("```a\n1\n```\n\n```b\n2\n```", ["1\n", "2\n"]),
    ],
)
def test_a_fence_is_what_commonmark_calls_one(text: str, code: list[str]) -> None:
    assert inside(text) == code


def test_the_info_string_tells_the_language() -> None:
    assert [each.info for each in fences.find("``` py title=x \nx\n```\n~~~\n~~~")] == ["py title=x", ""]


def test_what_is_never_closed_may_count_as_words() -> None:
    text = "```\na\n```\n# b\n```\n# c"
    assert fences.blank(text) == "   \n \n   \n# b\n   \n   "
    assert fences.blank(text, unclosed=False) == "   \n \n   \n# b\n```\n# c"
    assert fences.remove(text) == " \n# b\n "
    assert fences.is_open(text)
    assert not fences.is_open(text + "\n```")


@given(LINES.map("\n".join))
@example("- item\n\n```\n```\n    ```")  # blank, the first one would no longer end the list
def test_blanks_keep_the_length_the_lines_and_everything_outside(text: str) -> None:
    plain = fences.blank(text)
    assert [len(line) for line in plain.split("\n")] == [len(line) for line in text.split("\n")]
    assert not fences.find(plain)
    outside, at = [], 0
    for fence in fences.find(text):
        outside.append((at, fence.start))
        at = fence.end
    assert all(plain[start:end] == text[start:end] for start, end in [*outside, (at, len(text))])


@given(LINES.map("\n".join), st.sampled_from(["", "json"]))
def test_nothing_closes_the_fence_it_is_put_into(text: str, info: str) -> None:
    assert fences.unwrap(fences.wrap(text, info), info) == text


def test_more_than_one_fence_is_not_unwrapped() -> None:
    assert fences.unwrap("```json\n1\n```\n", "json") is None
    assert fences.unwrap("```json\n1\n```\n\n```json\n2\n```", "json") is None
    assert fences.unwrap("```\n1\n```", "json") is None


def test_no_other_module_has_an_idea_of_its_own() -> None:
    """A pattern with three marks in it is a second idea of a fence, unless it stands in this list."""
    known = {
        "text/fences.py",
        "text/similarity.py",  # a run of backticks inside a line is code as well when texts are compared
        "lifecycle/proposals.py",  # a proposal with any markup in it is refused
        "lifecycle/profile.py",  # counts who writes code at all, spans included
    }
    source = Path(vademecum.__file__).parent
    found = set()
    for path in source.rglob("*.py"):
        code = path.read_text("utf-8")
        if not re.search(r"`{3}|~{3}|`\{3|~\{3", code):
            continue
        for node in ast.walk(ast.parse(code)):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and re.search(r"(?:`{3}|~{3}|`\{3|~\{3)[^\n]*[)*|]", text):
                found.add(path.relative_to(source).as_posix())
    assert found <= known
