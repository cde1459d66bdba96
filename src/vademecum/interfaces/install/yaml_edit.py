"""Edit one entry of a mapping in a YAML file as text, so that everything else stays byte for byte.

The parser gives the positions of keys and values; an edit touches the lines of one entry only. After an edit
the text is parsed again, and an edit with any other effect than the wanted one is refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HINT = "fix it with any editor; nothing was changed"
_WIDEST = 1_000_000  # characters of a line; a line is never folded

Keys = tuple[str, str]  # the key of a mapping in the file, and the key of an entry in this mapping


class _Pair(NamedTuple):
    """A key with its value, as nodes of the parser, with their positions in the text."""

    key: Any
    value: Any


def parse(text: str) -> Any:
    """Return the value of a YAML text; raise Malformed if the text is not one YAML document."""
    return _parse(text)[1]


def value_at(text: str, keys: Keys) -> Any:
    """Return the value of an entry, or None if the entry is missing."""
    value = parse(text)
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def put(text: str, keys: Keys, value: Mapping[str, Any]) -> str:
    """Return the text with an entry added or replaced; a missing mapping is created."""
    root, _ = _parse(text)
    below, name = keys
    owner = _pair(root, below)
    entry = _pair(owner.value, name) if owner else None

    def change(document: Any) -> None:
        document[below] = {**(document.get(below) or {}), name: dict(value)}

    if root is None or (root.flow_style and not root.value):
        start, end = (len(text), len(text)) if root is None else (root.start_mark.index, root.end_mark.index)
        before = text[:start]
        gap = _newline(text) if before and not before.endswith(("\n", "\ufeff")) else ""
        made = before + gap + _block({below: {name: value}}, 0, text) + text[end:].lstrip("\r\n")
    elif owner is None:
        made = _insert(text, root, {below: {name: value}})
    elif entry is not None:
        made = _replace(text, owner, entry, {name: value})
    elif _is_empty(owner.value):
        made = _fill(text, root, owner, {name: value})
    else:
        made = _insert_below(text, owner, {name: value})
    return _checked(text, made, change)


def remove(text: str, keys: Keys) -> str:
    """Return the text without an entry, and without the mapping that becomes empty."""
    root, _ = _parse(text)
    below, name = keys
    owner = _pair(root, below)
    entry = _pair(owner.value, name) if owner else None
    if owner is None or entry is None:
        return text
    alone = len(owner.value.value) == 1

    def change(document: Any) -> None:
        del document[below][name]
        if alone:
            del document[below]

    return _checked(text, _cut(text, root, owner) if alone else _cut(text, owner.value, entry), change)


# -------------------------------------------------------------------- reading


def _parse(text: str) -> tuple[Any, Any]:
    """Return the root node of a YAML text, or None for an empty text, and the text's value."""
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        value = {} if root is None else loader.construct_document(root)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} is" if mark is not None else "it is"
        raise Malformed(f"{where} not YAML", hint=_HINT) from None
    finally:
        loader.dispose()
    if root is not None and not isinstance(value, dict):
        raise Malformed("it is not a YAML mapping", hint=_HINT)
    return root, value


def _pair(node: Any, name: str) -> _Pair | None:
    """Return the pair with a key; the last pair if the key is repeated."""
    if node is None or _is_empty(node):
        return None
    if not isinstance(node.value, list) or not all(isinstance(each, tuple) for each in node.value):
        raise Malformed("it has a list or a text where a mapping is expected", hint=_HINT)
    return next((_Pair(*each) for each in reversed(node.value) if each[0].value == name), None)


def _is_empty(node: Any) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null" or node.value == [])


def _last_line(node: Any) -> int:
    """Return the number of the last line with text of a value; comments behind the value do not count."""
    if isinstance(node.value, list) and node.value and not node.flow_style:
        inner = node.value[-1]
        return _last_line(inner[1] if isinstance(inner, tuple) else inner)
    end = node.end_mark
    return int(end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line)


def _line_start(text: str, line: int) -> int:
    """Return where a line starts; the text's length for a line behind the last line."""
    at = 0
    for _ in range(line):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at


# -------------------------------------------------------------------- writing


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _block(value: Mapping[str, Any], indent: int, text: str) -> str:
    """Return a mapping as lines of YAML with this indent."""
    import yaml

    plain = json.loads(json.dumps(value))
    lines = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=_WIDEST).splitlines()
    return "".join(f"{' ' * indent}{line}{_newline(text)}" for line in lines)


def _flow(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _insert_lines(text: str, line: int, block: str) -> str:
    at = _line_start(text, line)
    gap = _newline(text) if at == len(text) and text and not text.endswith("\n") else ""
    return text[:at] + gap + block + text[at:]


def _insert(text: str, root: Any, value: Mapping[str, Any]) -> str:
    """Return the text with a pair added behind the last pair of the file."""
    if root.flow_style:
        at = root.start_mark.index + 1
        return f"{text[:at]}{_flow(value)}, {text[at:]}"
    return _insert_lines(text, _last_line(root) + 1, _block(value, root.start_mark.column, text))


def _insert_below(text: str, owner: _Pair, value: Mapping[str, Any]) -> str:
    """Return the text with a pair added as the first pair of a mapping, directly below the mapping's key."""
    if owner.value.flow_style:
        at = owner.value.start_mark.index + 1
        return f"{text[:at]}{_flow(value)}, {text[at:]}"
    first = owner.value.value[0][0].start_mark
    return _insert_lines(text, owner.key.end_mark.line + 1, _block(value, first.column, text))


def _fill(text: str, root: Any, owner: _Pair, value: Mapping[str, Any]) -> str:
    """Return the text with a pair in a mapping that is empty, or null."""
    start, end = owner.value.start_mark.index, owner.value.end_mark.index
    if root.flow_style:
        return f"{text[:start]}{{{_flow(value)}}}{text[end:]}"
    without = text[:start].rstrip(" ") + text[end:] if end > start else text
    indent = owner.key.start_mark.column + 2
    return _insert_lines(without, owner.key.end_mark.line + 1, _block(value, indent, text))


def _replace(text: str, owner: _Pair, entry: _Pair, value: Mapping[str, Any]) -> str:
    """Return the text with another value of an entry, in the same place."""
    if owner.value.flow_style:
        return text[: entry.key.start_mark.index] + _flow(value) + text[entry.value.end_mark.index :]
    start, end = _lines_of(text, entry)
    return text[:start] + _block(value, entry.key.start_mark.column, text) + text[end:]


def _cut(text: str, owner: Any, entry: _Pair) -> str:
    """Return the text without a pair of a mapping."""
    if not owner.flow_style:
        start, end = _lines_of(text, entry)
        return text[:start] + text[end:]
    at = next(n for n, each in enumerate(owner.value) if each[0] is entry.key)
    start, end = entry.key.start_mark.index, entry.value.end_mark.index
    if at + 1 < len(owner.value):
        end = owner.value[at + 1][0].start_mark.index
    elif at:
        start = owner.value[at - 1][1].end_mark.index
    return text[:start] + text[end:]


def _lines_of(text: str, entry: _Pair) -> tuple[int, int]:
    """Return where the lines of an entry start and end."""
    last = max(entry.key.end_mark.line, _last_line(entry.value))
    return _line_start(text, entry.key.start_mark.line), _line_start(text, last + 1)


def _checked(text: str, made: str, change: Callable[[Any], None]) -> str:
    """Return an edited text if it has the wanted value; raise Malformed otherwise."""
    wanted = parse(text)
    change(wanted)
    try:
        found = parse(made)
    except Malformed:
        found = None
    if found != wanted:
        raise Malformed("its layout cannot be edited", hint="add the server with any editor")
    return made
