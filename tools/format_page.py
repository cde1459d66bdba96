"""Write the table of keys in `docs/format.md` from `vademecum.fields`: `python -m tools.format_page`."""

from __future__ import annotations

import re
from pathlib import Path

from vademecum.fields import FIELDS, MergeRule, RecordField

PAGE = Path(__file__).parent.parent / "docs" / "format.md"
_TABLE = re.compile(r"\| key \| meaning \|.*\n\|[-|]+\|\n(?:\|.*\n)*")


def made(page: str) -> str:
    """The page with the table as it should be."""
    rows = ["| key | meaning | of two versions holds | synced as |", "|---|---|---|---|"]
    rows += [_row(field) for field in FIELDS]
    return _TABLE.sub(lambda _: "".join(f"{row}\n" for row in rows), page, count=1)


def _row(field: RecordField) -> str:
    holds = f"the first of {', '.join(field.ranks)}" if field.merge is MergeRule.RANKED else str(field.merge)
    expects = f"; {field.kind.expects}" if field.kind.expects else ""
    return f"| `{field.name}` | {field.meaning}{expects} | {holds} | `{field.fact}` |"


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text()))
