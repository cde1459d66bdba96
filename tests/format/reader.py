"""A second reader of the format, written from `docs/format.md` alone: it imports nothing of the package.

It is small on purpose. Where it and the package disagree about a file, one of them or the page is wrong.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORIGINS = ["user", "agent", "external", "tool", "import"]
STAMP = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
HEADING = re.compile(rf"## ({STAMP})[ \t]*\r?")
SIGNATURE = re.compile(r"<!-- (origin: .*?) -->\s*")
ESCAPED = re.compile(rf"\\\\*(?:## {STAMP}[ \t]*\r?|<!--[ \t]*/?(?:origin:|vade:).*)")
NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
FRACTION = re.compile(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,24}|\.[0-9]{1,24})(?:[eE][-+]?[0-9]{1,3})?")


class MalformedSample(Exception):
    """The file is not of this format."""


def same(text: str) -> str:
    """A text as it is compared."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def decoded(content: bytes) -> str:
    """The text of a file."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise MalformedSample from error
    if "\0" in text:
        raise MalformedSample
    return text


def split_front(text: str) -> tuple[dict[str, Any], list[str], int]:
    """The values of the frontmatter, the lines of the body, and how many lines stand before those."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].rstrip(" \t\r") != "---" or not lines[0].startswith("---"):
        return {}, lines, 0
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip(" \t\r") in ("---", "..."):
            block = "".join(each.removesuffix("\r") + "\n" for each in lines[1:number])
            return read_yaml(block), lines[number + 1 :], number + 1
    raise MalformedSample


def read_yaml(block: str) -> dict[str, Any]:
    """Block YAML of `key: value`, with the scalars that the page knows."""
    try:
        if any(isinstance(each, yaml.AliasEvent) for each in yaml.parse(block)):
            raise MalformedSample
        nodes = [*yaml.compose_all(block)]
    except yaml.YAMLError as error:
        raise MalformedSample from error
    if not nodes or nodes == [None]:
        return {}
    if len(nodes) > 1 or not isinstance(nodes[0], yaml.MappingNode) or nodes[0].flow_style:
        raise MalformedSample
    keys = [key.value for key, _ in nodes[0].value]
    if len({*keys}) < len(keys):
        raise MalformedSample
    return {key.value: plain(value) for key, value in nodes[0].value}


def plain(node: yaml.Node) -> Any:
    """A value of the frontmatter."""
    if isinstance(node, yaml.SequenceNode):
        return [plain(each) for each in node.value]
    if isinstance(node, yaml.MappingNode):
        return {key.value: plain(value) for key, value in node.value}
    text = node.value
    if getattr(node, "style", None):
        return text
    fixed = {"": None, "~": None, "true": True, "false": False}
    for word, value in (("null", None), ("true", True), ("false", False)):
        fixed |= {word: value, word.capitalize(): value, word.upper(): value}
    if text in fixed:
        return fixed[text]
    if NUMBER.fullmatch(text):
        return int(text)
    return float(text) if FRACTION.fullmatch(text) else text


def read_document(content: bytes) -> dict[str, Any]:
    """A record or a day of the journal."""
    values, lines, above = split_front(decoded(content))
    heads = [at for at, line in enumerate(lines) if HEADING.fullmatch(line)]
    first = heads[0] if heads else len(lines)
    at = next((at for at, line in enumerate(lines[:first]) if line.strip(" \t\r")), first)
    title = re.fullmatch(r"# +(\S.*)", lines[at].strip("\r")) if at < first else None
    entries: list[dict[str, Any]] = []
    start = at + 1 if title else 0
    spans: list[tuple[int, int, int, str | None]] = [(start, start, first, None)]
    ends = [*heads, len(lines)][1:]
    for head, end in zip(heads, ends, strict=True):
        found = HEADING.fullmatch(lines[head])
        spans.append((head, head + 1, end, found[1] if found else None))
    for head, begin, end, time in spans:
        entries += read_entries(lines, above, head, begin, end, time=time)
    return {"front": values, "title": title[1].strip() if title else None, "entries": entries}


def read_entries(
    lines: list[str], above: int, head: int, start: int, end: int, *, time: str | None
) -> Iterator[dict[str, Any]]:
    """An entry, and what was typed below its signature."""
    while time is None and start < end and not lines[start].strip("\r"):
        start, head = start + 1, start + 1
    if time is None and not "".join(lines[start:end]).strip():
        return
    for at in range(start, end):
        signed = SIGNATURE.fullmatch(lines[at])
        if signed:
            yield entry(lines[start:at], signed[1], time, head + above + 1, at + above + 1)
            yield from read_entries(lines, above, at + 1, at + 1, end, time=None)
            return
    last = max((at for at in range(start, end) if lines[at].strip()), default=head + 1)
    yield entry(lines[start:end], "", time, head + above + 1, last + above + 1)


def entry(lines: list[str], signed: str, time: str | None, start: int, end: int) -> dict[str, Any]:
    """One entry from its lines."""
    parts = [part.partition(":") for part in signed.split("|") if ":" in part]
    fields = {name.strip(): value.strip() for name, _, value in parts}
    text = [line.removesuffix("\r") for line in lines]
    if not signed and text:
        text = "\n".join(text).rstrip().split("\n")
    if fields.get("of") and text[:1] == [f"### {fields['of']}"]:
        text = text[1:]
    text = [line[1:] if ESCAPED.fullmatch(line) else line for line in text]
    named = [value.strip() for name, _, value in parts if name.strip() == "origin"]
    ranks = [ORIGINS.index(each) if each in ORIGINS else len(ORIGINS) - 1 for each in named]
    marks = {name: fields.get(name) for name in ("superseded", "contradicts", "cites", "stale")}
    return {
        "text": "\n".join(text).strip("\n"),
        "time": time,
        "origin": ORIGINS[max(ranks, default=0)],
        **marks,
        "of": fields.get("of"),
        "start": start,
        "end": end,
    }


def read_pinned(content: bytes) -> dict[str, Any]:
    """A pinned document."""
    values, lines, above = split_front(decoded(content))
    heads = [at for at, line in enumerate(lines) if re.match(r"#{1,6} ", line)]
    starts = heads if heads and not "".join(lines[: heads[0]]).strip() else [0, *heads]
    sections = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        filled_lines = [at for at in range(start, end) if lines[at].strip()]
        if not filled_lines:
            continue
        signed = SIGNATURE.fullmatch(lines[filled_lines[-1]])
        inner = lines[start : filled_lines[-1]] if signed else lines[start : filled_lines[-1] + 1]
        found = entry(
            inner, signed[1] if signed else "", None, start + above + 1, filled_lines[-1] + above + 1
        )
        if found["text"].strip():
            sections.append({name: found[name] for name in ("text", "origin", "start", "end")})
    return {"front": values, "sections": sections}


EVENTS = {"started", "message", "usage", "pruned", "trimmed", "flushed", "checkpoint", "summary"} | {
    *("compacted", "todo", "renamed", "ended"),
}


def objects(content: bytes) -> Iterator[dict[str, Any] | None]:
    """The objects of a log; None for the stump of a crash."""
    for line in content.split(b"\n"):
        if line.strip():
            try:
                value = json.loads(line)
            except ValueError:
                value = None
            yield value if isinstance(value, dict) else None


def read_transcript(content: bytes) -> dict[str, Any]:
    """The events of a session, and how many lines are none."""
    found = [*objects(content)]
    described = [
        {"seq": each["seq"], "kind": each["kind"], "time": each["time"], "id": each["id"]}
        for each in found
        if each is not None
    ]
    return {"events": described, "torn": found.count(None)}


def read_kept(content: bytes) -> dict[str, Any]:
    """What was kept for a file, each entry as it was last told."""
    known: dict[Any, dict[str, Any]] = {}
    for each in objects(content):
        if each is None:
            continue
        mark = each["record"], each["time"], same(each["text"])
        texts_said = [*known.get(mark, {}).get("said", ()), *each.get("said", ())]
        known[mark] = {
            "record": each["record"],
            "time": each["time"],
            "text": each["text"],
            "origin": each["origin"] if each["origin"] in ORIGINS else ORIGINS[-1],
            "superseded": each.get("superseded"),
            "taken": each.get("taken") is True,
            "said": [*dict.fromkeys(texts_said)],
        }
    return {"entries": [*known.values()]}


def read_audit(folder: Path) -> dict[str, Any]:
    """How many lines the chain has, and whether it is whole."""
    seq, prev, sound, lines = 0, "0" * 64, True, 0
    for path in sorted(folder.glob("*.jsonl")):
        for line in objects(path.read_bytes()):
            if line is None:
                continue
            inner = {name: value for name, value in line.items() if name != "hash"}
            body = json.dumps(inner, sort_keys=True, separators=(",", ":")).encode()
            whole = hashlib.sha256(body).hexdigest() == line["hash"]
            sound = sound and whole and line["seq"] == seq + 1 and line["prev"] == prev
            seq, prev, lines = line["seq"], line["hash"], lines + 1
    head = json.loads((folder / "head").read_bytes())
    return {"lines": lines, "sound": sound and head == {"seq": seq, "hash": prev}}


def is_purged(folder: Path, text: str) -> bool:
    """Whether the tombstones of a folder refuse a text."""
    key = bytes.fromhex((folder / "key").read_text().strip())

    def mark(kind: str, form: str) -> str:
        return hmac.new(key, f"{kind}\0{form}".encode(), "sha256").hexdigest()

    lines = [re.sub(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+", "", line) for line in text.split("\n")]
    forms = {same(each) for each in (text, *re.split(r"\n[ \t]*\n", text), *lines)}
    whole = same(text)
    for path in sorted(folder.glob("2*.json")):
        stone = json.loads(path.read_text())
        if {mark("text", each) for each in forms} & {*stone["entries"]} - stone["lifted"].keys():
            return True
        for part in stone["parts"]:
            pieces = (whole[at : at + part["chars"]] for at in range(len(whole)))
            if part["mark"] not in stone["lifted"] and part["mark"] in (
                mark("text", each) for each in pieces
            ):
                return True
    return False
