"""What a reader of foreign transcripts works with: JSON out of files in any state, and what it finds in them.

Knows bytes, lines and JSON, and no agent. Damage is told as `Unread` values with the line it is on, and what
is whole before and after it is still given; a value takes whatever is there and never raises.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vademecum.store import clock
from vademecum.transcripts.messages import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from vademecum.transcripts.messages import Json

    Seen = Callable[[int], object]

LONGEST = 64 * 1024 * 1024  # of a line, in bytes
LARGEST = 256 * 1024 * 1024  # of a file that is one JSON value and has to be held as a whole
DEEPEST = 200  # levels of nesting; Python's own limit is near 1,000, and others come after us
HEAD = 64 * 1024  # what is read of a file to recognise it

_LONG_HEAD = 8 * 1024 * 1024
_SKIP = 1024 * 1024

# Half a surrogate pair is no character, and no file, index or terminal takes it. JavaScript writes them when
# it cuts a text in the middle of an emoji. Every escape is matched, so that one that only looks like half a
# pair, behind an escaped backslash, is left alone.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.S,
)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_MILLISECONDS = 1e11  # a number of seconds as large as this is in the year 5138
_LARGEST_COUNT = 2**63 - 1
_STAMP = 100  # characters; a time is shorter, and nothing longer is remembered


class TranscriptUsage(NamedTuple):
    """What a call cost, as the provider counted it.

    `input` is the whole prompt, whichever way a provider splits it, and `cached` the part of it read from
    a cache; `output` has the thoughts in it. A reader tells it once for each call, and right after the answer
    it paid for where the file says which that is.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    total: int = 0
    cost: float = 0.0
    model: str = ""
    time: str = ""


class SessionFacts(NamedTuple):
    """What a file says of its session as a whole; later ones add to earlier ones."""

    id: str = ""
    title: str = ""
    folder: str = ""  # the working directory
    created: str = ""
    model: str = ""


class Unread(NamedTuple):
    """A line or a part that could not be understood: where, and why; everything else is read."""

    line: int
    why: str


def unseen(_bytes: int) -> None:
    """Nobody wants to know how far a reader is."""


Found: TypeAlias = Message | TranscriptUsage | SessionFacts | Unread


class FactsSoFar:
    """What was told of a session so far; each thing is told once, and a title again when it changes."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def tell(self, **found: str) -> list[SessionFacts]:
        """One `SessionFacts` with what is new in this, or none."""
        new = {
            name: value
            for name, value in found.items()
            if value and (name not in self._told or (name == "title" and self._told[name] != value))
        }
        self._told.update(new)
        return [SessionFacts(**new)] if new else []

    def __getitem__(self, name: str) -> str:
        return self._told.get(name, "")


# -------------------------------------------------------------------- lines and documents


class JsonLine(NamedTuple):
    """One record of a file: where it stands, what it is, and how many bytes it took."""

    number: int
    value: dict[str, Json]
    size: int


def lines(path: Path, seen: Seen = unseen) -> Iterator[JsonLine | Unread]:
    """Every record of a JSONL file, one line in memory at a time."""
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(LONGEST + 1):
            number += 1
            seen(file.tell())
            ended = raw.endswith(b"\n")
            if len(raw) > LONGEST and not ended:
                while (rest := file.readline(_SKIP)) and not rest.endswith(b"\n"):
                    pass
                yield Unread(number, f"the line is longer than {LONGEST // (1024 * 1024)} MiB")
                continue
            yield from _line(number, raw, ended=ended)
            if not ended:  # the end as we saw it: what its agent has written behind it by now is of this line
                return


def _line(number: int, raw: bytes, *, ended: bool) -> Iterator[JsonLine | Unread]:
    body = raw.strip(b"\0 \t\r\n")
    if number == 1:
        body = body.removeprefix(b"\xef\xbb\xbf")
    if not body:
        if b"\0" in raw:
            yield Unread(number, "nothing but NUL bytes")
        return
    decoded = body.decode("utf-8", "replace")
    try:
        value = parse(decoded)
    except ValueError as error:
        yield Unread(number, f"not JSON ({error})" if ended else f"the last line is torn ({error})")
        return
    if not isinstance(value, dict):
        yield Unread(number, "not an object")
        return
    yield JsonLine(number, value, len(raw))
    if "\ufffd" in decoded and not _valid(body):
        yield Unread(number, "not UTF-8; each damaged character is read as U+FFFD")


def _valid(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def parse(words: str) -> Json:
    """A JSON text, with control characters, NaN and half characters forgiven; ValueError when it is none."""
    try:
        value = _DECODER.decode(_whole(words))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if words.count("[") + words.count("{") > DEEPEST and _too_deep(value):
        raise ValueError("nested too deeply")
    return value


def _whole(words: str) -> str:
    if not _SURROGATE.search(words):
        return words
    return _ESCAPE.sub(lambda found: "\\ufffd" if found["half"] else found[0], words)


def _finite(digits: str) -> float | None:
    """A number; NaN and the infinities, which JSON has not, are nothing."""
    value = float(digits)
    return value if math.isfinite(value) else None


_DECODER = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=_finite)


def _too_deep(value: Json) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, list | dict)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def document(path: Path) -> tuple[Json, list[Unread]]:
    """A file that is one JSON value; of a damaged one, everything whole before the damage."""
    if path.stat().st_size > LARGEST:
        return None, [Unread(0, f"the file is larger than {LARGEST // (1024 * 1024)} MiB")]
    body = path.read_bytes().removeprefix(b"\xef\xbb\xbf").strip(b"\0 \t\r\n")
    problems = [] if _valid(body) else [Unread(0, "not UTF-8; each damaged character is read as U+FFFD")]
    words = body.decode("utf-8", "replace")
    if not words:
        return None, [*problems, Unread(0, "the file is empty")]
    try:
        return parse(words), problems
    except ValueError:
        words = _whole(words)
        value, where, why = _salvage(words)
        return value, [
            *problems,
            Unread(words.count("\n", 0, where) + 1, why or "something follows the end of it"),
        ]


_BLANK = re.compile(r"[ \t\r\n]*")


def _salvage(words: str) -> tuple[Json, int, str]:
    """What can be read of a torn list or object, and of lists right below it; where it stops, and why."""
    if words[0] == "[":
        return _salvage_list(words, 0)
    if words[0] != "{":
        return None, 0, "not JSON"
    found: dict[str, Json] = {}
    at = _after_blanks(words, 1)
    while at < len(words) and words[at] != "}":
        try:
            name, at = _value(words, at)
            at = _after_blanks(words, at)
            if not isinstance(name, str) or words[at : at + 1] != ":":
                return found, at, "not JSON from here on"
            at = _after_blanks(words, at + 1)
            if words[at : at + 1] == "[":
                items, end, why = _salvage_list(words, at)
                found[name] = items
                if why:
                    return found, end, why
                at = end
            else:
                found[name], at = _value(words, at)
        except ValueError as error:
            return found, at, str(error)
        at = _after_comma(words, at)
    return found, at, "" if at < len(words) else "the file is torn"


def _salvage_list(words: str, at: int) -> tuple[list[Json], int, str]:
    found: list[Json] = []
    at = _after_blanks(words, at + 1)
    while at < len(words) and words[at] != "]":
        try:
            value, at = _value(words, at)
        except ValueError as error:
            return found, at, str(error)
        found.append(value)
        at = _after_comma(words, at)
    return found, at + 1, "" if at < len(words) else "the file is torn"


def _value(words: str, at: int) -> tuple[Json, int]:
    try:
        value, end = _DECODER.raw_decode(words, at)
    except RecursionError:
        raise ValueError("nested too deeply from here on") from None
    except ValueError as error:
        raise ValueError(f"not JSON from here on ({error})") from None
    if _too_deep(value):
        raise ValueError("nested too deeply from here on")
    return value, end


def _after_blanks(words: str, at: int) -> int:
    found = _BLANK.match(words, at)
    return found.end() if found else at


def _after_comma(words: str, at: int) -> int:
    at = _after_blanks(words, at)
    return _after_blanks(words, at + 1) if words[at : at + 1] == "," else at


def head_of(path: Path) -> bytes:
    """The first bytes of a file, enough to recognise it by: of lines, at least one that is whole."""
    with path.open("rb") as file:
        head = file.read(HEAD)
        # An agent's first line may hold all its instructions, or what a person pasted.
        return head if path.suffix != ".jsonl" or b"\n" in head else head + file.readline(_LONG_HEAD)


def first_records(head: bytes, most: int = 50) -> list[dict[str, Json]]:
    """The records among the first lines of a file; a line that is none, or is cut off, is passed over."""
    found = []
    for raw in head.split(b"\n")[:most]:
        try:
            value = parse(raw.strip(b"\0 \t\r\n").removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def is_document(head: bytes) -> bool:
    """Whether a file is one JSON value, over several lines or on one that is longer than the head."""
    body = head.lstrip(b"\xef\xbb\xbf\0 \t\r\n")
    if first_records(head, most=1) or not body:
        return False
    return body.startswith(b"[") or (body.startswith(b"{") and not first_records(head))


# -------------------------------------------------------------------- values


def text(value: Json) -> str:
    """The string, or nothing."""
    return value if isinstance(value, str) else ""


def mapping(value: Json) -> dict[str, Json]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def listed(value: Json) -> list[Json]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []


def count(value: Json) -> int:
    """The number of something, or none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return min(max(int(value), 0), _LARGEST_COUNT)


def amount(value: Json) -> float:
    """The sum of money, or none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        return float(value) if math.isfinite(value) else 0.0
    except OverflowError:
        return 0.0


def written(value: Json) -> str:
    """A value as text: a string as it is, nothing as nothing, the rest as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def moment(value: Json) -> str:
    """A time as our stamps are written, from ISO text or (milli)seconds since 1970; else nothing."""
    if isinstance(value, str):
        return _stamped(value) if len(value) <= _STAMP else ""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value:
        return ""
    try:
        return clock.stamp(datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS else value, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


@lru_cache(maxsize=256)  # a reader asks for the time of a line several times
def _stamped(text: str) -> str:
    found = clock.parse(text)
    return clock.stamp(found) if found else ""


def without(value: Mapping[str, Json], names: Iterable[str]) -> dict[str, Json]:
    """What else an object holds and says; the empty and the false are left out."""
    known = frozenset(names)
    return {name: each for name, each in value.items() if name not in known and _says(each)}


def _says(value: Json) -> bool:
    return bool(value) or (
        value is not None and value is not False and not isinstance(value, str | list | dict)
    )
