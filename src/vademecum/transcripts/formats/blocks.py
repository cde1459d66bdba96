"""The content of a message as parts, whichever agent wrote it.

Takes the blocks of Anthropic, OpenAI, Google and pi; what it does not know it carries as `Opaque`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.transcripts.formats.values import listed, mapping, text, without, written
from vademecum.transcripts.messages import Image, Opaque, Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from vademecum.transcripts.messages import Json, Part

_TEXTS = frozenset(
    {"text", "input_text", "output_text", "summary_text", "reasoning_text", "inputText", "Text"}
)
_DATA = re.compile(r"data:(?P<media>[^;,]*);base64,", re.ASCII)


def parts_of(content: Json) -> tuple[Part, ...]:
    """A message's content as parts: words, one block, or a list of them."""
    if content is None or content == "":
        return ()
    if isinstance(content, list):
        return tuple(part_of(block) for block in content)
    return (part_of(content),)


def part_of(block: Json) -> Part:
    """One block as a part."""
    if isinstance(block, str):
        return Text(block)
    if not isinstance(block, dict):
        return Opaque(block)
    kind = text(block.get("type"))
    if kind in _TEXTS or not kind:
        return _text(block)
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        return Thinking(block["thinking"], without(block, ("type", "thinking")))
    if kind in ("image", "input_image", "image_url"):
        return image_of(block) or Opaque(block)
    if kind in ("tool_use", "toolCall"):
        arguments = block.get("input") if kind == "tool_use" else block.get("arguments")
        rest = without(block, ("type", "id", "name", "input" if kind == "tool_use" else "arguments"))
        return ToolCall(text(block.get("id")), text(block.get("name")), written(arguments), rest)
    if kind == "tool_result":
        return ToolResult(
            text(block.get("tool_use_id")),
            result_parts(block.get("content")),
            error=block.get("is_error") is True,
            extra=without(block, ("type", "tool_use_id", "content", "is_error")),
        )
    return Opaque(block)


def _text(block: dict[str, Json]) -> Part:
    """Words, or one of Google's parts, which have no type."""
    if isinstance(block.get("text"), str):
        rest = without(block, ("type", "text", "thought"))
        return (Thinking if block.get("thought") is True else Text)(block["text"], rest)
    call = block.get("functionCall")
    if isinstance(call, dict):
        rest = without({**block, **call}, ("functionCall", "id", "name", "args"))
        return ToolCall(text(call.get("id")), text(call.get("name")), written(call.get("args")), rest)
    answer = block.get("functionResponse")
    if isinstance(answer, dict):
        return ToolResult(text(answer.get("id")), answer_parts(answer), text(answer.get("name")))
    return image_of(block) or Opaque(block)


def answer_parts(answer: dict[str, Json]) -> tuple[Text | Image | Opaque, ...]:
    """What a Google function answered: its output when it is words, else all of it."""
    response = answer.get("response")
    words = mapping(response).get("output")
    if isinstance(words, str) and len(mapping(response)) == 1:
        return (Text(words), *result_parts(answer.get("parts")))
    return (*result_parts(written(response)), *result_parts(answer.get("parts")))


def result_parts(content: Json) -> tuple[Text | Image | Opaque, ...]:
    """A tool's result as the parts that a result may have."""
    found = (part if isinstance(part, Text | Image | Opaque) else None for part in parts_of(content))
    blocks = content if isinstance(content, list) else [content]
    return tuple(
        part if part is not None else Opaque(block) for part, block in zip(found, blocks, strict=False)
    )


def image_of(block: dict[str, Json]) -> Image | None:
    """A picture, however it is enclosed."""
    source = (
        mapping(block.get("source"))
        or mapping(block.get("inlineData"))
        or mapping(block.get("fileData"))
        or block
    )
    media = text(source.get("media_type")) or text(source.get("mimeType"))
    rest = without(
        block, ("type", "source", "inlineData", "fileData", "image_url", "data", "mimeType", "media_type")
    )
    if isinstance(source.get("data"), str):
        return Image(media, data=source["data"], extra=rest)
    where = source.get("image_url") or source.get("url") or source.get("fileUri")
    address = text(mapping(where).get("url")) or text(where)
    if not address:
        return None
    inline = _DATA.match(address)
    if inline:
        return Image(inline["media"], data=address[inline.end() :], extra=rest)
    return Image(media, url=address, extra=without(rest, ("url",)))


def texts_of(value: Json) -> list[str]:
    """The words in a list of blocks."""
    return [part.text for part in parts_of(listed(value)) if isinstance(part, Text)]
