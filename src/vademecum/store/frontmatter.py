"""YAML frontmatter, read strictly and edited line by line.

An edit touches the lines of the keys it sets and no other byte: comments, unknown keys, order, line endings
and a byte-order mark stay as the person left them. Aliases, deep nesting and huge blocks are refused, and a
plain scalar is a string unless it is plainly a number, `true`, `false` or `null`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LARGEST = 64 * 1024
DEEPEST = 12

_OPENING = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][-+]?[0-9]{1,3})?")
# What every YAML reader takes as a plain string; everything else is quoted.
_PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_./+@-]|:(?=[A-Za-z0-9_./@-]))*(?: [A-Za-z0-9_./+@-]+)*")
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))?")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"}


class Front(NamedTuple):
    """The frontmatter of a text: its values, and where the body after it begins."""

    values: Mapping[str, Any]
    body: int
    lines: int


class _Pair(NamedTuple):
    """One top-level pair: its value, the characters its lines span, and a comment after the value."""

    key: str
    value: Any
    start: int
    end: int
    comment: str


def parse(text: str) -> Front:
    """Read the frontmatter; a text without any has no values and is all body."""
    block = _block(text)
    if block is None:
        return Front({}, 1 if text.startswith("\ufeff") else 0, 0)
    start, end, body = block
    values = {pair.key: pair.value for pair in _pairs(text[start:end])}
    return Front(values, body, text.count("\n", 0, body))


def edit(text: str, changes: Mapping[str, Any]) -> str:
    """Set keys (None takes one away) and leave every other byte alone; adds a block where there is none."""
    newline = line_ending(text)
    block = _block(text)
    if block is None:
        bom = "\ufeff" if text.startswith("\ufeff") else ""
        fresh = "".join(
            f"{key}: {render(value)}{newline}" for key, value in changes.items() if value is not None
        )
        return f"{bom}---{newline}{fresh}---{newline}{text[len(bom) :]}"
    start, end, _ = block
    inner = text[start:end]
    pairs = {pair.key: pair for pair in _pairs(inner)}
    added = ""
    for key, value in changes.items():
        if key not in pairs and value is not None:
            added += f"{key}: {render(value)}{newline}"
    for pair in sorted(pairs.values(), key=lambda pair: -pair.start):
        if pair.key in changes:
            value = changes[pair.key]
            line = "" if value is None else f"{pair.key}: {render(value)}{pair.comment}{newline}"
            inner = inner[: pair.start] + line + inner[pair.end :]
    return text[:start] + inner + added + text[end:]


def render(value: Any) -> str:
    """A value as it stands after `key: `, on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _scalar(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{_scalar(str(key))}: {render(each)}" for key, each in value.items())
        return "{" + inner + "}"
    return "[" + ", ".join(render(each) for each in value) + "]"


def line_ending(text: str) -> str:
    """The line ending a text uses, by its first line."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _block(text: str) -> tuple[int, int, int] | None:
    """Where the YAML begins and ends and where the body begins; None without frontmatter."""
    opening = _OPENING.match(text)
    if opening is None:
        return None
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise Malformed("the frontmatter that begins in line 1 is never closed by `---`")
    if closing.start() - opening.end() > LARGEST:
        raise Malformed(f"the frontmatter is longer than {LARGEST // 1024} KiB")
    body = closing.end()
    return opening.end(), closing.start(), body + 1 if text[body : body + 1] == "\n" else body


def _pairs(block: str) -> Iterator[_Pair]:
    """Each top-level key with its value and its lines."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from _mapping(yaml.parse(block, Loader=loader), block)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or "unreadable characters"
        raise Malformed(f"{where}frontmatter is not YAML: {problem}") from error


def _mapping(events: Iterator[Any], block: str) -> Iterator[_Pair]:
    import yaml

    next(events)  # the stream begins
    if isinstance(next(events), yaml.StreamEndEvent):
        return
    root = next(events)
    if isinstance(root, yaml.ScalarEvent) and root.value == "" and root.implicit[0]:
        return
    if not isinstance(root, yaml.MappingStartEvent) or root.flow_style:
        raise Malformed("line 2: frontmatter must be `key: value` lines")
    seen: set[str] = set()
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        if not isinstance(event, yaml.ScalarEvent):
            raise Malformed(f"line {_line(event)}: a frontmatter key must be plain text")
        if event.value in seen:
            raise Malformed(f"line {_line(event)}: the frontmatter has `{event.value}` twice")
        seen.add(event.value)
        value, last = _value(next(events), events, 1)
        yield _pair(block, event, value, last)


def _pair(block: str, key: Any, value: Any, last: Any) -> _Pair:
    """Work out which lines a pair stands on; blank and comment lines below it are not its own."""
    start = block.rfind("\n", 0, key.start_mark.index) + 1
    end = last.end_mark.index
    literal = getattr(last, "style", None) in ("|", ">")
    trailing = "" if literal or _at_line_start(block, end) else _rest_of_line(block, end)
    if not _at_line_start(block, end):
        end += len(_rest_of_line(block, end)) + 1
    while not literal and end > start:
        above = block.rfind("\n", 0, end - 1) + 1
        line = block[above:end].strip()
        if line and not line.startswith("#"):
            break
        end = above
    comment = trailing.rstrip("\r") if trailing.lstrip().startswith("#") else ""
    return _Pair(key.value, value, start, min(end, len(block)), comment)


def _line(event: Any) -> int:
    """The line of the file an event stands on; the block begins in line 2."""
    return int(event.start_mark.line) + 2


def _at_line_start(block: str, position: int) -> bool:
    return position == 0 or block[position - 1 : position] == "\n"


def _rest_of_line(block: str, position: int) -> str:
    end = block.find("\n", position)
    return block[position:] if end < 0 else block[position:end]


def _value(event: Any, events: Iterator[Any], depth: int) -> tuple[Any, Any]:
    """Build one value from the events; returns it with the mark where it ends."""
    import yaml

    if isinstance(event, yaml.AliasEvent):
        raise Malformed(f"line {_line(event)}: frontmatter may not use aliases")
    if depth > DEEPEST:
        raise Malformed(f"line {_line(event)}: frontmatter is nested too deeply")
    if isinstance(event, yaml.ScalarEvent):
        plain = event.implicit[0] and event.style in (None, "")
        return (_resolve(event.value) if plain else event.value), event
    if isinstance(event, yaml.SequenceStartEvent):
        items = []
        while not isinstance(inner := next(events), yaml.SequenceEndEvent):
            items.append(_value(inner, events, depth + 1)[0])
        return items, inner
    mapping = {}
    while not isinstance(inner := next(events), yaml.MappingEndEvent):
        if not isinstance(inner, yaml.ScalarEvent):
            raise Malformed(f"line {_line(inner)}: a frontmatter key must be plain text")
        mapping[inner.value] = _value(next(events), events, depth + 1)[0]
    return mapping, inner


def _resolve(text: str) -> Any:
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _scalar(text: str) -> str:
    if _TIME.fullmatch(text):
        return text
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    # A JSON string is a YAML string, but for the few characters YAML wants escaped.
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]", lambda c: f"\\u{ord(c[0]):04x}", quoted
    )
