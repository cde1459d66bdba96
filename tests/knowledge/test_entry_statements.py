"""Records, journals and pinned documents are split into statements that name their lines, origin and time."""

from __future__ import annotations

from vademecum.knowledge import entry_statements
from vademecum.types import Origin

RECORD = """---
type: project
key: api
---
# api

## 2026-01-01T10:00:00Z
The port is 8080. Alice
owns it.
<!-- origin: user -->

## 2026-01-02T10:00:00Z
Old words.
<!-- origin: agent | superseded: 2026-01-03T10:00:00Z -->

## 2026-01-03T10:00:00Z

- The port is 9090.
<!-- origin: agent -->
"""

CONSOLIDATED = """---
type: project
---
# Consolidated 1 old memory

## 2026-04-16T10:30:00Z
### testing-framework

Always use pytest.
<!-- origin: user | of: testing-framework -->
"""

PINNED = """---
updated: 2026-01-01
---
# Memory

We deploy on Fridays.

## Style

- Short answers.
"""


def test_a_record_says_what_its_living_entries_say() -> None:
    found = entry_statements.split_file(RECORD, path="records/api.md")
    lines = RECORD.split("\n")
    assert [(each.text, each.place, each.origin, each.time) for each in found] == [
        ("The port is 8080.", "records/api.md#L8", Origin.USER, "2026-01-01T10:00:00Z"),
        ("Alice\nowns it.", "records/api.md#L8-L9", Origin.USER, "2026-01-01T10:00:00Z"),
        ("The port is 9090.", "records/api.md#L18", Origin.AGENT, "2026-01-03T10:00:00Z"),
    ]
    assert lines[18 - 1] == "- The port is 9090."


def test_a_part_of_a_consolidation_stands_below_its_heading() -> None:
    (only,) = entry_statements.split_file(CONSOLIDATED)
    assert CONSOLIDATED.split("\n")[only.line - 1] == only.text == "Always use pytest."


def test_a_pinned_document_says_what_stands_below_its_headings() -> None:
    found = entry_statements.split_file(PINNED, path="MEMORY.md", pinned=True)
    assert [each.text for each in found] == ["We deploy on Fridays.", "Short answers."]
    assert [PINNED.split("\n")[each.line - 1].strip("- ") for each in found] == [each.text for each in found]
    assert found[1].headings[-1] == "Style"
