"""Read YAML frontmatter strictly, and edit it line by line.

An edit touches the lines of the keys it sets and no other byte: comments, unknown keys, order, line endings
and a byte-order mark stay as the person left them. Aliases, deep nesting and huge blocks are refused, and a
plain scalar is a string unless it is plainly a number, `true`, `false` or `null`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LARGEST = 64 * 1024
DEEPEST = 12

_OPENING = lazy_pattern(r"\ufeff?---[ \t]*(?:\r?\n|\Z)")
_EXPLICIT = lazy_pattern(r"^[ \t]*\?", re.MULTILINE)
_CLOSING = lazy_pattern(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_INT = lazy_pattern(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = lazy_pattern(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,24}|\.[0-9]{1,24})(?:[eE][-+]?[0-9]{1,3})?")
# Where a line ends for YAML, which knows more line endings than Markdown.
_BREAK = lazy_pattern("\r\n|[\n\r\x85\u2028\u2029]")
# What every YAML reader takes as a plain string; everything else is quoted.
_PLAIN = lazy_pattern(r"[A-Za-z_/](?:[A-Za-z0-9_./+@-]|:(?=[A-Za-z0-9_./@-]))*(?: [A-Za-z0-9_./+@-]+)*")
_TIME = lazy_pattern(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))?")
_UUID = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"}


class Front(NamedTuple):
    """The frontmatter of a text: its values, the position of the body, and the lines before the body."""

    values: Mapping[str, Any]
    body: int
    lines: int


class _Pair(NamedTuple):
    """A top-level pair of key and value, with the positions of its lines, its indent, and a
    comment after it.
    """

    key: str
    value: Any
    start: int
    end: int
    indent: str
    comment: str


def parse(text: str) -> Front:
    """Return the frontmatter of a text; a text without frontmatter has no values and is all body."""
    block = _block(text)
    if block is None:
        return Front({}, 1 if text.startswith("\ufeff") else 0, 0)
    start, end, body = block
    values = _easily(text[start:end])
    if values is None:
        values = {key.value: value for key, value, _ in _items(text[start:end])}
    return Front(values, body, text.count("\n", 0, body))


def edit(text: str, changes: Mapping[str, Any]) -> str:
    """Return a text with these frontmatter keys set (None removes a key) and every other byte unchanged.

    A text without frontmatter gets a new block.
    """
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
    pairs = _pairs(inner)
    indent = next((pair.indent for pair in pairs.values()), "")
    added = ""
    for key, value in changes.items():
        if key not in pairs and value is not None:
            added += f"{indent}{key}: {render(value)}{newline}"
    for pair in sorted(pairs.values(), key=lambda pair: -pair.start):
        if pair.key in changes:
            value = changes[pair.key]
            line = "" if value is None else f"{indent}{pair.key}: {render(value)}{pair.comment}{newline}"
            inner = inner[: pair.start] + line + inner[pair.end :]
    edited = text[:start] + inner + added + text[end:]
    if _EXPLICIT.search(text, start, end):  # such a key may go over several lines
        rest = {key: value for key, value in parse(text).values.items() if key not in changes}
        if parse(edited).values != rest | {key: value for key, value in changes.items() if value is not None}:
            raise Malformed("the frontmatter has keys that cannot be edited line by line")
    return edited


def render(value: Any) -> str:
    """Return a value as it stands after `key: `, on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # YAML wants a point in a float, also before an exponent: 1.0e-07.
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    if isinstance(value, int):
        return repr(value)
    if isinstance(value, str):
        return _scalar(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{_scalar(str(key))}: {render(each)}" for key, each in value.items())
        return "{" + inner + "}"
    return "[" + ", ".join(render(each) for each in value) + "]"


def line_ending(text: str) -> str:
    """Return the line ending that a text uses, judged by its first line."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _block(text: str) -> tuple[int, int, int] | None:
    """Return the positions where the YAML begins, the YAML ends and the body begins; None without
    frontmatter.
    """
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


class _Hard(Exception):
    """Raised when a block is too complex for the simple reader, and needs a full YAML parser."""


def _easily(block: str) -> dict[str, Any] | None:
    """Return the values of a simple block, in ASCII and as `render` writes it; None for any other block.

    Loading a full YAML parser takes longer than reading most memories.
    """
    if not block.isascii() or not block.endswith("\n"):
        return None
    values: dict[str, Any] = {}
    try:
        for line in block[:-1].split("\n"):
            key, value = _easy_pair(line)
            if key in values:
                return None
            ends = value[:1] + value[-1:]
            if value.startswith("[{") and value.endswith("}]"):
                values[key] = [_easy_mapping(each) for each in value[2:-2].split("}, {")]
            elif ends == "[]":
                values[key] = [_easy(each) for each in value[1:-1].split(", ")] if value != "[]" else []
            elif ends == "{}":
                values[key] = _easy_mapping(value[1:-1])
            else:
                values[key] = _easy(value)
    except _Hard:
        return None
    return values


def _easy_pair(line: str) -> tuple[str, str]:
    key, mark, value = line.partition(": ")
    if not mark or len(key) > 60 or not key.replace("-", "_").isidentifier() or key[0] == "-":
        raise _Hard
    return key, value


def _easy_mapping(text: str) -> dict[str, Any]:
    return {name: _easy(each) for name, each in map(_easy_pair, text.split(", "))}


def _easy(text: str) -> Any:
    if text[:1] == '"':
        inner = text[1:-1]
        if len(text) < 2 or text[-1] != '"' or not inner.isprintable() or '"' in inner or "\\" in inner:
            raise _Hard
        return inner
    if any(kind.fullmatch(text) for kind in (_PLAIN, _TIME, _INT, _UUID, _FLOAT)):
        return _resolve(text)
    raise _Hard


def _items(block: str) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the YAML event of each top-level key, the value, and the last event of the value."""
    import yaml

    if block.startswith("\ufeff"):  # the reader would swallow it, and its positions would be off by one
        raise Malformed("line 2: frontmatter is not YAML: it begins with a byte-order mark")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from _mapping(yaml.parse(block, Loader=loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or "unreadable characters"
        raise Malformed(f"{where}frontmatter is not YAML: {problem}") from error
    except UnicodeEncodeError as error:
        raise Malformed("frontmatter is not YAML: it contains half a surrogate pair") from error


def _mapping(events: Iterator[Any]) -> Iterator[tuple[Any, Any, Any]]:
    import yaml

    next(events)  # the stream begins
    if isinstance(next(events), yaml.StreamEndEvent):
        return
    root = next(events)
    if isinstance(root, yaml.ScalarEvent) and root.value == "" and root.implicit[0] and not root.style:
        _check_end(events)
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
        yield event, value, last
    _check_end(events)


def _check_end(events: Iterator[Any]) -> None:
    """Raise Malformed when a second YAML document follows, which would be neither read nor edited."""
    import yaml

    if (end := next(events)).explicit or not isinstance(next(events), yaml.StreamEndEvent):
        raise Malformed(f"line {_line(end)}: the frontmatter contains more than one YAML document")


def _pairs(block: str) -> dict[str, _Pair]:
    """Return the top-level pairs of a block by their keys."""
    values = _easily(block)
    if values is None:
        return {key.value: _pair(block, key, value, last) for key, value, last in _items(block)}
    pairs: dict[str, _Pair] = {}
    end = 0
    for (key, value), line in zip(values.items(), block.split("\n"), strict=False):
        start, end = end, end + len(line) + 1
        pairs[key] = _Pair(key, value, start, end, "", "")
    return pairs


def _pair(block: str, key: Any, value: Any, last: Any) -> _Pair:
    """Return a pair with the positions of its lines; blank and comment lines below it are left out."""
    start = _line_start(block, key.start_mark.index)
    end = last.end_mark.index
    literal = getattr(last, "style", None) in ("|", ">")
    # A block ends where the next token begins, which may stand behind an indent of its own.
    inside = block[_line_start(block, end) : end].strip() != ""
    trailing = _rest_of_line(block, end) if inside else ""
    end = _line_end(block, end) if inside else _line_start(block, end)
    while end > start and not (literal and "+" in _rest_of_line(block, last.start_mark.index)):
        above = _line_start(block, end - 1)
        line = block[above:end].strip()
        if line and (literal or not line.startswith("#")):
            break
        end = above
    indent = block[start : start + len(block[start:]) - len(block[start:].lstrip(" "))]
    comment = trailing if trailing.lstrip().startswith("#") and not literal else ""
    return _Pair(key.value, value, start, end, indent, comment)


def _line(event: Any) -> int:
    """Return the line of a YAML event in the file; the block begins in line 2."""
    return int(event.start_mark.line) + 2


def _line_start(block: str, position: int) -> int:
    """Return the position at which the line around this position begins."""
    if position and block.startswith("\r\n", position - 1):
        position -= 1
    return 1 + max(block.rfind(ending, 0, position) for ending in "\n\r\x85\u2028\u2029")


def _line_end(block: str, position: int) -> int:
    """Return the position at which the next line begins."""
    found = _BREAK.search(block, position)
    return found.end() if found else len(block)


def _rest_of_line(block: str, position: int) -> str:
    found = _BREAK.search(block, position)
    return block[position:] if found is None else block[position : found.start()]


def _value(event: Any, events: Iterator[Any], depth: int) -> tuple[Any, Any]:
    """Return the value that YAML events describe, and the last of these events."""
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
    if _TIME.fullmatch(text) or _UUID.fullmatch(text):
        return text
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    # A JSON string is a YAML string, but for the few characters YAML wants escaped.
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(
        "[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]", lambda c: f"\\u{ord(c[0]):04x}", quoted
    )
