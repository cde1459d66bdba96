"""Compaction by the host's model: a summary that is checked before anything depends on it.

Pure but for the one question to the host. A summary that lacks a section, an identifier or an open request is
sent back once; if that does not help, the caller has the extraction (`summary`) and has lost nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.context.host import ask, reply_of
from vademecum.context.no_reply import is_silent
from vademecum.context.units import clip
from vademecum.errors import HostFailed
from vademecum.llm.base import read_prompt
from vademecum.tokens import weigh
from vademecum.transcripts import Message, Role, Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum.context.host import Host
    from vademecum.context.summary import ThreadSummary

HEADINGS = (
    "## Decisions",
    "## Open TODOs",
    "## Constraints/Rules",
    "## Pending user asks",
    "## Exact identifiers",
)
IDENTIFIERS = 12
NO_MODEL = "no model"
SECONDS = 120.0
FAILURES = 3  # after so many in a row the model is no longer asked
_RESULT_CHARS = 1500
_TEXT_CHARS = 6000
_APART = 3  # messages between two compactions; fewer, and the window is too small for what is kept
_LEAST_GAIN = 0.1  # a compaction that frees less than this share was none


class CompactionTask(NamedTuple):
    """What a summary is made of, and what must be found in it."""

    record: str
    identifiers: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    focus: str = ""
    chars: int = 12_000


class Compaction(NamedTuple):
    """A summary that passed; without one, why not."""

    text: str = ""
    why: str = ""


class CompactionRecord(NamedTuple):
    """What is remembered of compactions, to know when to leave off."""

    failures: int = 0  # in a row
    stalled: bool = False  # the last one freed nothing worth it
    since: int | None = None  # how many messages came after the last one


def hindrance(record: CompactionRecord, *, manual: bool = False) -> str:
    """Why the model is not asked now; empty when it is. A person who asks for it is not refused."""
    if manual:
        return ""
    if record.failures >= FAILURES:
        return f"{record.failures} failures in a row"
    if record.since is not None and record.since < _APART:
        return "no progress" if record.stalled else "thrash"
    return ""


def gained(before: int, after: int) -> bool:
    """Whether a compaction was worth it."""
    return after <= before * (1 - _LEAST_GAIN)


def compact(task: CompactionTask, host: Host, *, seconds: float = SECONDS) -> Compaction:
    """Ask for a summary, and once more if it is not sound; never raises."""
    try:
        complete = ask(lambda: host.complete, seconds=seconds)
        if complete is None:
            return Compaction(why=NO_MODEL)
        messages = [Message(Role.USER, (Text(_question(task)),))]
        defects: list[str] = []
        for _ in range(2):
            answer = ask(
                complete, messages, read_prompt(__package__, "compact_system"), (), seconds, seconds=seconds
            )
            reply = reply_of(answer)
            text = (reply if isinstance(reply, str) else reply.text).strip()
            defects = find_defects(text, task)
            if not defects:
                return Compaction(text)
            again = read_prompt(__package__, "compact_again").format(
                defects="\n".join(f"- {each}" for each in defects)
            )
            said = Message(Role.ASSISTANT, (Text(clip(text, task.chars, "") or "(nothing)"),))
            messages += [said, Message(Role.USER, (Text(again),))]
        return Compaction(why=defects[0])
    except HostFailed as error:
        return Compaction(why=str(error))


def find_defects(text: str, task: CompactionTask) -> list[str]:
    """What keeps a summary from being used, in words its writer understands."""
    if not text or is_silent(text):
        return ["it is empty"]
    if len(text) > task.chars * 4:  # not even read: it would only take time
        return [_too_long(text, task)]
    lines = {line.strip().rstrip(":").lower() for line in text.splitlines()}
    found = [f"the heading `{each}` is missing" for each in HEADINGS if each.lower() not in lines]
    found += [f"the identifier `{each}` is missing" for each in task.identifiers if each not in text]
    found += [f"the request is missing: {each}" for each in task.requests if not _mentions(text, each)]
    if len(text) > task.chars:
        found.append(_too_long(text, task))
    return found


def _too_long(text: str, task: CompactionTask) -> str:
    return f"it has {len(text)} characters; at most {task.chars} fit"


_TOKEN = re.compile(
    r"https?://[^\s\"'<>)\]}\\]{4,120}"
    r"|(?<![\w/.])(?:\.{0,2}/)?(?:[\w.-]{1,60}/){1,8}[\w.-]{1,60}\.\w{1,8}(?![\w/])"
    r"|\b(?=[0-9a-f]{0,39}\d)(?=[0-9a-f]{0,39}[a-f])[0-9a-f]{7,40}\b"
    r"|\b[A-Z]{2,10}-\d{1,8}\b"
)
_SCAN = 20_000


def find_identifiers(messages: Iterable[Message], known: ThreadSummary) -> tuple[str, ...]:
    """Up to twelve exact names a summary must keep: what was said last first, then commits and files."""
    found: dict[str, None] = {}
    for message in reversed(list(messages)):
        if message.role in (Role.USER, Role.ASSISTANT):
            for match in _TOKEN.finditer(message.text[:_SCAN]):
                found.setdefault(match[0].rstrip(".,;:"))
        if len(found) >= IDENTIFIERS:
            break
    for each in (*(commit.hash for commit in known.commits), *reversed(known.files)):
        found.setdefault(each)
    return tuple(found)[:IDENTIFIERS]


def render_record(messages: Iterable[Message], *, before: str = "", chars: int) -> str:
    """Messages as a text to be summarized, long ones shortened, no longer than that in bytes."""
    blocks = [f"Summary of what came before:\n{before}"] if before else []
    blocks += [block for message in messages if (block := _block(message))]
    text = "\n\n".join(blocks).replace("</record", "‹/record")
    limit = min(len(text), max(chars, 0))
    while limit > 1000 and weigh(clip(text, limit, "")) > chars:
        limit = limit * 3 // 4
    return clip(text, limit, "")


def _block(message: Message) -> str:
    lines: list[str] = []
    for part in message.parts:
        if isinstance(part, Text) and part.text.strip():
            lines.append(f"{message.role.capitalize()}: {clip(part.text, _TEXT_CHARS, message.id)}")
        elif isinstance(part, ToolCall):
            lines.append(f"Call: {part.name} {clip(part.arguments, _RESULT_CHARS, message.id)}")
        elif isinstance(part, ToolResult):
            failed = " (error)" if part.error else ""
            lines.append(f"Result{failed}: {clip(part.text, _RESULT_CHARS, message.id)}")
        elif not isinstance(part, Thinking | Text):
            lines.append(f"{message.role.capitalize()}: [a picture or another part]")
    return "\n".join(lines)


def _question(task: CompactionTask) -> str:
    return read_prompt(__package__, "compact_user").format(
        words=max(task.chars // 8, 100),
        headings="\n".join(HEADINGS),
        identifiers=_list(task.identifiers),
        requests=_list(task.requests),
        focus=f"\nAbove all, keep what has to do with this: {task.focus}\n" if task.focus.strip() else "",
        record=task.record,
    )


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {each}" for each in lines) or "- (none)"


def _mentions(text: str, request: str) -> bool:
    """Whether most of what a request says is in a text, in whatever order."""
    if request in text:
        return True
    words = set(re.findall(r"\w{4,}", request.casefold()))
    have = set(re.findall(r"\w{4,}", text.casefold()))
    return len(words & have) * 2 >= len(words) if words else True
