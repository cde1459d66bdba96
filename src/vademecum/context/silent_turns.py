"""The silent turns of the host's model: the flush before messages leave the window, and their compaction.

In a flush, the model writes notes that should outlive the messages; notes are only appended. Its outcome is a
word for the transcript: `written`, `nothing`, `skipped:<why>` or `failed:<why>`; a flush never raises and
never stops the next step. A compaction's summary is checked before it is used: a summary that lacks a
section, an identifier or an open request is sent back once; if that fails, the caller uses the extraction
(`summary`) and has lost nothing.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from vademecum.context.budget import FLUSH, FlushSettings
from vademecum.context.host import call_host, call_with_timeout, reply_of
from vademecum.context.units import clip
from vademecum.errors import HostFailed
from vademecum.llm.base import read_prompt
from vademecum.text import is_silent
from vademecum.tokens import weigh
from vademecum.transcripts import Message, Role, Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vademecum.context.host import Host
    from vademecum.context.summary import ThreadSummary
    from vademecum.transcripts import Json

WRITTEN = "written"
NOTHING_NEW = "skipped:nothing new since the last flush"
FLUSH_SECONDS = 60.0
_WRITE_SECONDS = 20.0
_NOTES = 50  # notes of one flush
_NOTE_CHARS = 2000
_READ_CHARS = 4 * _NOTES * _NOTE_CHARS  # characters of a reply

JOURNAL_TOOL = "journal_append"
RECORD_TOOL = "memory_store"


def _tool(name: str, description: str) -> dict[str, Json]:
    text = {"type": "string", "description": "One line that can be understood alone."}
    parameters = {"type": "object", "properties": {"text": text}, "required": ["text"]}
    return {"name": name, "description": description, "parameters": parameters}


TOOLS: tuple[Json, ...] = (
    _tool(JOURNAL_TOOL, "Append to today's journal."),
    _tool(RECORD_TOOL, "Keep one durable fact on its own."),
)


class FlushNotes(NamedTuple):
    """The notes that a model's reply asks to save."""

    journal: tuple[str, ...] = ()
    records: tuple[str, ...] = ()


def flush(
    messages: Sequence[Message],
    host: Host,
    *,
    settings: FlushSettings = FLUSH,
    seconds: float = FLUSH_SECONDS,
) -> str:
    """Ask the host's model for notes on the messages of a window, save them, and return the outcome."""
    try:
        barred = call_with_timeout(lambda: host.barred, seconds=_WRITE_SECONDS)
        complete = call_with_timeout(lambda: host.complete, seconds=_WRITE_SECONDS)
        if barred:
            return f"skipped:{barred}"
        if complete is None:
            return "skipped:no model"
        return _turn(messages, host, complete, settings, seconds)
    except HostFailed as error:
        return f"failed:{error}"


def _turn(
    messages: Sequence[Message],
    host: Host,
    complete: Callable[..., Message | str],
    settings: FlushSettings,
    limit: float,
) -> str:
    now = call_host(host, "now", seconds=_WRITE_SECONDS)
    if not isinstance(now, datetime):
        raise HostFailed(f"the clock callback gave {type(now).__name__}, not a time")
    # `format` is not used, because a person's own prompt may contain braces.
    question = settings.prompt or read_prompt(__package__, "flush_user")
    question = question.replace("{date}", f"{now:%Y-%m-%d}")
    question = question.replace("{time}", f"{now:%Y-%m-%d %H:%M %Z}".strip())
    prompt = [*messages, Message(Role.USER, (Text(question),))]
    system = settings.system_prompt or read_prompt(__package__, "flush_system")
    reply = reply_of(call_with_timeout(complete, prompt, system, TOOLS, limit, seconds=limit))
    found = read_reply(reply)
    if found is None:
        return "nothing"
    # The journal is read as late as possible, because another process may have written the same notes.
    journal = call_host(host, "journal", seconds=_WRITE_SECONDS)
    if not isinstance(journal, str):
        raise HostFailed(f"the journal callback gave {type(journal).__name__}, not a text")
    new_notes = drop_known_notes(found, journal)
    if new_notes.journal:
        text = "\n".join(f"- {each}" for each in new_notes.journal)
        call_host(host, "note", text, seconds=_WRITE_SECONDS)
    for each in new_notes.records:
        call_host(host, "remember", each, seconds=_WRITE_SECONDS)
    return WRITTEN if new_notes.journal or new_notes.records else "nothing"


def read_reply(reply: Message | str) -> FlushNotes | None:
    """Return the notes in a reply; None when the reply says that there are none; raise HostFailed for other
    replies.
    """
    text = (reply if isinstance(reply, str) else reply.text)[:_READ_CHARS]
    calls = () if isinstance(reply, str) else reply.calls
    journal = [_argument(call) for call in calls if call.name == JOURNAL_TOOL]
    records = [_argument(call) for call in calls if call.name == RECORD_TOOL]
    if calls and not journal and not records:
        raise HostFailed(f"the reply asked for {calls[0].name!r}, which a flush does not have")
    if not calls:
        if is_silent(text):
            return None
        journal = _bullets(text)
        if not journal:
            raise HostFailed("the reply held no notes" if text.strip() else "the reply was empty")
    return FlushNotes(_tidy(journal), _tidy(records))


def drop_known_notes(notes: FlushNotes, journal: str) -> FlushNotes:
    """Return the notes without repetitions and without those that are in the journal already."""
    known = {_compare_key(line) for line in journal.splitlines()}
    whole = _compare_key(" ".join(journal.split()))

    def fresh(texts: Iterable[str]) -> tuple[str, ...]:
        found = []
        for text in texts:
            bare = _compare_key(text)
            if bare and bare not in known and not (len(bare) >= 40 and bare in whole):
                known.add(bare)
                found.append(text)
        return tuple(found)

    return FlushNotes(fresh(notes.journal), fresh(notes.records))


_BULLET = re.compile(r"[ \t]{0,8}(?:[-*+•]|\d{1,3}[.)])[ \t]+(\S.*)")


def _bullets(text: str) -> list[str]:
    """Return the items of a Markdown list; an indented line continues the item above."""
    found: list[str] = []
    for line in text.splitlines():
        match = _BULLET.match(line)
        if match:
            found.append(match[1])
        elif found and line.startswith((" ", "\t")) and line.strip():
            found[-1] += " " + line.strip()
    return found


def _argument(call: ToolCall) -> str:
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError) as error:
        raise HostFailed(f"the arguments of {call.name} are not JSON") from error
    text = value.get("text") if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise HostFailed(f"{call.name} was asked for without a text")
    return text


def _tidy(texts: Iterable[str]) -> tuple[str, ...]:
    lines = (" ".join(text.split()).removeprefix("- ") for text in texts)
    return tuple(line[:_NOTE_CHARS] for line in lines if line and not is_silent(line))[:_NOTES]


def _compare_key(text: str) -> str:
    """Return a line reduced to its words in lower case, so that lines can be compared."""
    return " ".join(re.findall(r"\w+", text.casefold()))


# ------------------------------------------------------------ compaction

HEADINGS = (
    "## Decisions",
    "## Open TODOs",
    "## Constraints/Rules",
    "## Pending user asks",
    "## Exact identifiers",
)
IDENTIFIERS = 12
NO_MODEL = "no model"
COMPACTION_SECONDS = 120.0
FAILURES = 3  # after so many failures in a row the model is no longer asked
_RESULT_CHARS = 1500
_TEXT_CHARS = 6000
# messages between two compactions; with fewer, the window is too small for what a compaction keeps
_LEAST_DISTANCE = 3
_LEAST_GAIN = 0.1  # the smallest share that a compaction must free


class CompactionTask(NamedTuple):
    """The material that a model is to summarize, and the names and requests that the summary must contain."""

    record: str
    identifiers: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    focus: str = ""
    chars: int = 12_000


class Compaction(NamedTuple):
    """A model's summary that passed the checks; an empty text, with the reason, when there is none."""

    text: str = ""
    why: str = ""


class CompactionRecord(NamedTuple):
    """The results of earlier compactions, by which the engine decides whether to compact again."""

    failures: int = 0  # failures in a row
    stalled: bool = False  # the last compaction freed too little
    since: int | None = None  # how many messages came after the last compaction


def skip_reason(record: CompactionRecord, *, manual: bool = False) -> str:
    """Return why the model must not be asked for a summary now; empty if it may be, and for `manual`."""
    if manual:
        return ""
    if record.failures >= FAILURES:
        return f"{record.failures} failures in a row"
    if record.since is not None and record.since < _LEAST_DISTANCE:
        return "no progress" if record.stalled else "thrash"
    return ""


def is_worthwhile(before: int, after: int) -> bool:
    """Whether a compaction from `before` to `after` tokens frees at least a tenth."""
    return after <= before * (1 - _LEAST_GAIN)


def compact(task: CompactionTask, host: Host, *, seconds: float = COMPACTION_SECONDS) -> Compaction:
    """Ask the model for a summary, a second time if the first has defects; the result says why it failed."""
    try:
        complete = call_with_timeout(lambda: host.complete, seconds=seconds)
        if complete is None:
            return Compaction(why=NO_MODEL)
        messages = [Message(Role.USER, (Text(_question(task)),))]
        defects: list[str] = []
        for _ in range(2):
            answer = call_with_timeout(
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
            reply_message = Message(Role.ASSISTANT, (Text(clip(text, task.chars) or "(nothing)"),))
            messages += [reply_message, Message(Role.USER, (Text(again),))]
        return Compaction(why=defects[0])
    except HostFailed as error:
        return Compaction(why=str(error))


def find_defects(text: str, task: CompactionTask) -> list[str]:
    """Return the faults that make a model's summary unusable, in words that the model understands."""
    if not text or is_silent(text):
        return ["it is empty"]
    if len(text) > task.chars * 4:  # such a text is not checked further, which would only take time
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
    """Return up to twelve exact names that a summary must keep: newest mentions first, then commits and
    files.
    """
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
    """Return messages as one text to summarize, after the summary `before`; long messages are shortened.

    The text is cut to about `chars` bytes.
    """
    blocks = [f"Summary of what came before:\n{before}"] if before else []
    blocks += [block for message in messages if (block := _block(message))]
    text = "\n\n".join(blocks).replace("</record", "‹/record")
    limit = min(len(text), max(chars, 0))
    while limit > 1000 and weigh(clip(text, limit)) > chars:
        limit = limit * 3 // 4
    return clip(text, limit)


def _block(message: Message) -> str:
    lines: list[str] = []
    for part in message.parts:
        if isinstance(part, Text) and part.text.strip():
            lines.append(f"{message.role.capitalize()}: {clip(part.text, _TEXT_CHARS)}")
        elif isinstance(part, ToolCall):
            lines.append(f"Call: {part.name} {clip(part.arguments, _RESULT_CHARS)}")
        elif isinstance(part, ToolResult):
            failed = " (error)" if part.error else ""
            lines.append(f"Result{failed}: {clip(part.text, _RESULT_CHARS)}")
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
    """Whether a text contains at least half of the longer words of a request, in any order."""
    if request in text:
        return True
    words = set(re.findall(r"\w{4,}", request.casefold()))
    have = set(re.findall(r"\w{4,}", text.casefold()))
    return len(words & have) * 2 >= len(words) if words else True
