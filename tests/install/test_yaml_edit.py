"""YAML as text: an edit changes one entry of one mapping and no other byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import every_case
from vademecum.errors import Malformed
from vademecum.interfaces.install import yaml_edit

KEYS = ("extensions", "vade")
ENTRY: dict[str, Any] = {"cmd": "/opt/my tools/vade", "args": ["mcp"], "envs": {}}
LINES = "  vade:\n    cmd: /opt/my tools/vade\n    args:\n    - mcp\n    envs: {}\n"
COMMENTED = """\
# my goose
provider: x  # the cheap one
extensions:  # what it may do
  # my tools
  developer:
    enabled: true
    note: |
      two
      lines
  # not this one
  # other: {}

# the end
mode: auto
"""


def test_an_entry_comes_first_below_its_mapping_and_comments_stay() -> None:
    made = yaml_edit.put(COMMENTED, KEYS, ENTRY)
    opening = "extensions:  # what it may do\n"
    assert made == COMMENTED.replace(opening, opening + LINES)
    assert yaml_edit.put(made, KEYS, ENTRY) == made
    assert yaml_edit.value_at(made, KEYS) == ENTRY
    assert yaml_edit.remove(made, KEYS) == COMMENTED
    assert yaml_edit.remove(COMMENTED, KEYS) == COMMENTED


@every_case(
    ("text", "made"),
    [
        ("", "extensions:\n" + LINES),
        ("# nothing yet\n", "# nothing yet\nextensions:\n" + LINES),
        ("a: 1\n", "a: 1\nextensions:\n" + LINES),
        ("a:\n- 1\n\n# the end\n", "a:\n- 1\nextensions:\n" + LINES + "\n# the end\n"),
        ("---\na: |\n  x\n...\n", "---\na: |\n  x\nextensions:\n" + LINES + "...\n"),
        ("extensions: {other: {cmd: x}}  # mine\n", None),
        ('{"extensions": {"other": {"cmd": "x"}}}', None),
        ("extensions: &all\n    other: {cmd: x}\nsame: *all\n", ""),
        ("\ufeffextensions:\n    other:\n        cmd: x\nb: 1", None),
        ("extensions:\r\n  other:\r\n    cmd: x\r\n", None),
    ],
)
def test_an_entry_is_added_as_the_file_is_written_and_taken_out_without_a_trace(
    text: str, made: str | None
) -> None:
    if made == "":  # the edit would change another value, too
        with pytest.raises(Malformed, match="layout cannot be edited"):
            yaml_edit.put(text, KEYS, ENTRY)
        return
    found = yaml_edit.put(text, KEYS, ENTRY)
    assert made is None or found == made
    assert ("\r\n" in found) == ("\r\n" in text)
    assert yaml_edit.value_at(found, KEYS) == ENTRY
    assert yaml_edit.remove(found, KEYS) == text


@every_case("text", ["extensions:\n", "extensions: {}\n", "extensions: null  # none\n", "{}\n"])
def test_an_empty_mapping_is_filled_and_goes_with_its_last_entry(text: str) -> None:
    made = yaml_edit.put(f"{text}", KEYS, ENTRY)
    assert yaml_edit.value_at(made, KEYS) == ENTRY
    assert yaml_edit.parse(yaml_edit.remove(made, KEYS)) == {}


def test_another_value_is_written_in_the_same_place() -> None:
    for text in (COMMENTED, "extensions: {other: {cmd: x}}\n"):
        made = yaml_edit.put(text, KEYS, ENTRY)
        moved = yaml_edit.put(made, KEYS, {**ENTRY, "cmd": "/usr/bin/vade"})
        assert moved == made.replace("/opt/my tools/vade", "/usr/bin/vade")


@every_case(
    "text",
    [
        "extensions: [\n",
        "- a\n- b\n",
        "word\n",
        "extensions: [developer]\n",
        "extensions: developer\n",
        "a: 1\n---\nb: 2\n",
        "a: 2024-99-99\n",
        "a: *missing\n",
        "\tx: 1\n",
        "? a\n: b\nextensions:\n\tx: 1\n",
        "[" * 5000,
    ],
)
def test_what_cannot_be_edited_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        yaml_edit.put(text, KEYS, ENTRY)


# -------------------------------------------------------------------- any file

NAMES = st.sampled_from(["a", "b-c", "GOOSE_MODE", "é", "developer", "'1'", '"x y"'])
SCALARS = st.sampled_from(
    ["1", "true", "x # no", "'it''s'", '"a: b"', "null", "[1, 2]", "{k: v}", "|\n      t"]
)
COMMENTS = st.sampled_from(["", "# c\n", "\n", "  # deep\n"])


@st.composite
def mappings(draw: st.DrawFn, indent: int) -> str:
    """The lines of a block mapping with comments between them."""
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    lines = []
    for name in names:
        if indent < 4 and draw(st.booleans()):
            value = "\n" + draw(mappings(indent=indent + 2))
        else:
            value = f" {draw(SCALARS)}\n"
        lines.append(draw(COMMENTS) + f"{' ' * indent}{name}:{value}")
    return "".join(lines)


@st.composite
def files(draw: st.DrawFn) -> str:
    """A file that may have extensions, before or behind other keys."""
    parts = [draw(mappings(indent=0))]
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, 1)), f"extensions:\n{draw(mappings(indent=2))}")
    text = "".join(parts) + draw(COMMENTS)
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@given(files())
@settings(deadline=None)
def test_any_file_is_what_it_was_after_an_entry_came_and_went(text: str) -> None:
    made = yaml_edit.put(text, KEYS, ENTRY)
    before, after = yaml_edit.parse(text), yaml_edit.parse(made)
    assert after == {**before, "extensions": {**before.get("extensions", {}), "vade": ENTRY}}
    assert yaml_edit.remove(made, KEYS) == text
