"""How large messages and tool schemas are, in the measure of the token estimator.

What rides along in `extra` is a provider's envelope and is not counted; pictures count as pictures, never as
the letters that carry them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from vademecum.tokens import (
    PER_CALL,
    PER_IMAGE,
    PER_MESSAGE,
    PER_NAME,
    PER_RESULT,
    PRIMING,
    Size,
    count,
    weigh,
)
from vademecum.transcripts.messages import Image, Opaque, Text, Thinking, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vademecum.transcripts.messages import Json, Message, Part

_BLOB = re.compile(r"(?:data:|[A-Za-z0-9+/_-]{256})")  # a picture or a file inside what we do not know


def measure(message: Message) -> Size:
    """What one message weighs."""
    chars = weigh(message.name)
    fixed = PER_MESSAGE + (PER_NAME if message.name else 0)
    for part in message.parts:
        more = _of_part(part)
        chars += more[0]
        fixed += more[1]
    return Size(chars, fixed)


def measure_all(messages: Iterable[Message]) -> Size:
    """What messages weigh together, without the priming of a request."""
    chars = fixed = 0
    for message in messages:
        size = measure(message)
        chars += size.chars
        fixed += size.fixed
    return Size(chars, fixed)


def measure_schemas(tools: Iterable[Json]) -> Size:
    """What tool definitions weigh: they are sent with every call, as JSON."""
    texts = [json.dumps(tool, ensure_ascii=False, separators=(",", ":"), default=str) for tool in tools]
    return Size(sum(map(weigh, texts)), PER_CALL * len(texts))


def estimate(message: Message, ratio: float) -> int:
    """How many tokens one message is."""
    return count(measure(message), ratio)


def estimate_request(messages: Iterable[Message], tools: Iterable[Json], ratio: float) -> int:
    """How many tokens a whole request is, with its schemas and the priming."""
    return count(measure_all(messages) + measure_schemas(tools), ratio) + PRIMING


def _of_part(part: Part) -> tuple[int, int]:
    if isinstance(part, Text | Thinking):
        return weigh(part.text), 0
    if isinstance(part, ToolCall):
        return weigh(part.name) + weigh(part.arguments), PER_CALL + PER_NAME
    if isinstance(part, Image):
        return 0, PER_IMAGE
    if isinstance(part, Opaque):
        return _of_json(part.value)
    pairs = [_of_part(each) for each in part.content]
    return sum(chars for chars, _ in pairs), PER_RESULT + sum(fixed for _, fixed in pairs)


def _of_json(value: Json) -> tuple[int, int]:
    """The letters of a JSON value, walked without recursion: a stranger chose how deep it is."""
    chars = fixed = 0
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            chars += sum(weigh(str(name)) for name in each)
            pending.extend(each.values())
        elif isinstance(each, list | tuple):
            pending.extend(each)
        elif isinstance(each, str) and _BLOB.match(each):
            fixed += PER_IMAGE
        elif each is not None:
            chars += weigh(str(each))
    return chars, fixed
