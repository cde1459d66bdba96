"""Edit JSON as text, so that everything else in the text stays byte for byte.

Comments, order and indentation stay, too. Comments and trailing commas are accepted, because the agents that
write these files accept them.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from vademecum.errors import Malformed

_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_PLAIN = re.compile(r"(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.+-])")
_REMARK = re.compile(r"[ \t]*(?://[^\n]*|/\*[^\n]*?\*/[ \t]*(?=\r?\n))")
_INDENT = re.compile(r"\n([ \t]+)\S")
_DEEPEST = 100


Path = tuple[str | int, ...]  # the keys of objects, and indexes of lists


class Node(NamedTuple):
    """A value in a JSON text: its position in the text and its parsed content."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] = ()  # the members of an object, or the items of a list


class Member(NamedTuple):
    """A member of an object or an item of a list, with its position in the text.

    An item has an empty key and starts at its value.
    """

    key: str
    start: int
    node: Node


def parse(text: str) -> Node:
    """Return the value in a JSON text; raise Malformed if the text is not JSON."""
    at = _skip(text, 0)
    node = _value(text, at, 0)
    if (rest := _skip(text, node.end)) != len(text):
        raise _malformed(text, rest)
    return node


def find(node: Node, path: Path) -> Node | None:
    """Return the value at a path of keys and indexes, or None; of a repeated key, return the last value."""
    for key in path:
        if isinstance(key, int):
            own = [member.node for member in node.members[key : key + 1] if isinstance(node.value, list)]
        else:
            own = [each.node for each in node.members if each.key == key and isinstance(node.value, dict)]
        if not own:
            return None
        node = own[-1]
    return node


def put(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text with the value at these keys set; missing objects on the way are created."""
    text = text if text.strip("\ufeff \t\r\n") else "{}\n"
    root = parse(text)
    found = find(root, path)
    if found is not None:
        if found.value == value:
            return text
        return text[: found.start] + _dumped(value, text, _line_indent(text, found.start)) + text[found.end :]
    depth = max(n for n in range(len(path)) if find(root, path[:n]) is not None)
    owner = find(root, path[:depth])
    assert owner is not None
    if not isinstance(owner.value, dict):
        raise Malformed(f"{'.'.join(path[:depth]) or 'the file'} is not an object")
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    return _insert(text, owner, f"{json.dumps(path[depth])}: ", value)


def append(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text with an item added to the list at these keys; a missing list is created."""
    text = text if text.strip("\ufeff \t\r\n") else "{}\n"
    found = find(parse(text), path)
    if found is None:
        return put(text, path, [value])
    if not isinstance(found.value, list):
        raise Malformed(f"{'.'.join(path)} is not a list")
    return _insert(text, found, "", value)


def remove(text: str, path: Path, at: int | None = None) -> str:
    """Return the text without the value at this path; with `at`, without that item of the list at this path.

    A missing value is not an error.
    """
    owner = find(parse(text), path if at is not None else path[:-1])
    if owner is None:
        return text
    if at is None:
        places = [n for n, member in enumerate(owner.members) if member.key == path[-1]]
        at = places[-1] if places and isinstance(owner.value, dict) else None
    if at is None or not 0 <= at < len(owner.members):
        return text
    member = owner.members[at]
    if len(owner.members) == 1:
        inner = text[owner.start + 1 : owner.end - 1]
        comment = inner.replace(text[member.start : member.node.end], "", 1).strip(" \t\r\n,")
        return text[: owner.start + 1] + (f" {comment} " if comment else "") + text[owner.end - 1 :]
    if at + 1 < len(owner.members):
        return text[: member.start] + text[owner.members[at + 1].start :]
    before = owner.members[at - 1].node.end
    comma = _skip(text, before)
    return text[:comma] + text[comma + 1 : member.start].rstrip() + text[member.node.end :]


# -------------------------------------------------------------------- reading


def _value(text: str, at: int, depth: int) -> Node:
    if depth > _DEEPEST:
        raise Malformed("the file is nested too deeply")
    letter = text[at : at + 1]
    if letter and letter in "{[":
        return _container(text, at, depth)
    match = _STRING.match(text, at) if letter == '"' else _PLAIN.match(text, at)
    if match is None:
        raise _malformed(text, at)
    return Node(at, match.end(), json.loads(match[0]))


def _container(text: str, start: int, depth: int) -> Node:
    is_object = text[start] == "{"
    closing = "}" if is_object else "]"
    members: list[Member] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing:
        key, member_start = "", at
        if is_object:
            match = _STRING.match(text, at)
            if match is None:
                raise _malformed(text, at)
            key = json.loads(match[0])
            at = _skip(text, match.end())
            if text[at : at + 1] != ":":
                raise _malformed(text, at)
            at = _skip(text, at + 1)
        node = _value(text, at, depth + 1)
        members.append(Member(key, member_start, node))
        at = _skip(text, node.end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise _malformed(text, at)
    values: Any = [member.node.value for member in members]
    if is_object:
        values = {member.key: member.node.value for member in members}
    return Node(start, at + 1, values, tuple(members))


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _malformed(text: str, at: int) -> Malformed:
    line = text.count("\n", 0, at) + 1
    return Malformed(f"line {line} is not JSON", hint="fix it with any editor; nothing was changed")


# -------------------------------------------------------------------- writing


def _insert(text: str, owner: Node, head: str, value: Any) -> str:
    """Return the text with a member inserted after an object's or list's last member.

    The new member gets its own line if the other members have their own lines.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _line_indent(text, owner.start)
    if not owner.members:
        indent = outer + _indent_unit(text)
        inner = text[owner.start + 1 : owner.end - 1].strip()
        comment = f"{newline}{indent}{inner}" if inner else ""  # a comment stays where it is
        new_text = f"{comment}{newline}{indent}{head}{_dumped(value, text, indent)}{newline}{outer}"
        return text[: owner.start + 1] + new_text + text[owner.end - 1 :]
    first, last = owner.members[0], owner.members[-1].node
    if "\n" not in text[owner.start : first.start]:  # all members are on one line
        return f"{text[: last.end]}, {head}{json.dumps(value, ensure_ascii=False)}{text[last.end :]}"
    indent = _line_indent(text, first.start)
    comma, new_text = ",", f"{newline}{indent}{head}{_dumped(value, text, indent)}"
    behind = _skip(text, last.end)
    if text[behind : behind + 1] == ",":  # there is a trailing comma, which stays at the end
        return text[: behind + 1] + new_text + "," + text[behind + 1 :]
    remark = _REMARK.match(text, last.end)
    end = remark.end() if remark else last.end
    return text[: last.end] + comma + text[last.end : end] + new_text + text[end:]


def _dumped(value: Any, text: str, indent: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = json.dumps(value, indent=_indent_unit(text), ensure_ascii=False).split("\n")
    return f"{newline}{indent}".join(lines)


def _indent_unit(text: str) -> str:
    """Return the white space by which the text indents one level."""
    match = _INDENT.search(text)
    return match[1] if match else "  "


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]
