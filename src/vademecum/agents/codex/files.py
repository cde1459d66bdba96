"""Codex's files: its transcripts, its instructions, and the memories it made of its sessions.

Transcripts are `~/.codex/sessions/**/rollout-*.jsonl`, and the output of `codex exec --json`. A rollout has
most content twice: as `response_item` lines, which the model saw and wrote, and as `event_msg` lines, which
the screen showed. Items are read. Of the events, only content without an item is read: text that no item
within the neighbouring lines repeats, and tools whose call no item names. Items between two results are one
answer, so they become one message.

Flagged in `extra` are `developer` messages and blocks that Codex puts before the user's text, such as
`<environment_context>` (`meta`), the summary of a compaction (`summary`), errors, aborted turns and reviews
(`meta`), and messages between agents (`side`). Usage comes from `token_count` events, which are repeated when
only the rate limits changed: an event with the same total as before is not a call. The session facts come
from `session_meta`, the first `turn_context` (model) and `thread_name_updated`.

Left out are the replaced history inside `compacted` lines, which is in the file already, turn contexts, the
state of the world, snapshots, starts and ends of tasks, goals, assessments and settings.

In the output of `exec --json`, a tool's call is read when it starts and its result when it ends; plans and
to-do lists are read in their final state, flagged (`meta`). The prompt and the folder are not in this output.

Memory: the instructions in `AGENTS.md` become `context.md`. Of `~/.codex/memories/`, the summary that is
always loaded becomes `MEMORY.md`, each group of the registry a record, and the summary of each session a note
of its day.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

from vademecum.agents.memory_files import (
    date_in,
    key_of,
    reference,
    remove_memory_blocks,
    split_frontmatter,
    split_title,
)
from vademecum.knowledge import NotesPiece, SectionPiece, Skipped, TopicPiece
from vademecum.text import filenames
from vademecum.transcripts import (
    META,
    SIDE,
    SUMMARY,
    Image,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from vademecum.transcripts.foreign import (
    LONGEST,
    Fragment,
    NewFacts,
    TranscriptUsage,
    Unread,
    as_list,
    as_text,
    count,
    first_records,
    ignore_progress,
    join_answers,
    lines,
    mapping,
    moment,
    parts_of,
    result_parts,
    text,
    texts_of,
    without,
)
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.agents.memory_files import FileTree, Importing, TextFile
    from vademecum.knowledge import Piece
    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.foreign import FileItem, JsonLine, OnBytes, SessionFacts, Stream, StreamItem

    Result = tuple[Text | Image | Opaque, ...]

_NEAR = 32  # the largest distance in lines between an event and the item it shows
_CALLS = 4096  # calls that are remembered

_RECORDS = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"}
)
_ITEMS = frozenset(
    "message reasoning function_call function_call_output custom_tool_call custom_tool_call_output "
    "local_shell_call local_shell_call_output tool_search_call tool_search_output web_search_call "
    "image_generation_call tool_call tool_result agent_message".split()
)
_OUTPUTS = frozenset(
    "function_call_output custom_tool_call_output local_shell_call_output tool_search_output "
    "tool_result".split()
)
_PROVIDER_CALLS = {"web_search_call": "web_search", "image_generation_call": "image_generation"}
_ENDS = {
    "exec_command_end": "shell",
    "mcp_tool_call_end": "",
    "patch_apply_end": "apply_patch",
    "web_search_end": "web_search",
    "image_generation_end": "image_generation",
    "dynamic_tool_call_request": "",
    "dynamic_tool_call_response": "",
    "view_image_tool_call": "view_image",
    "collab_agent_spawn_end": "spawn_agent",
    "collab_agent_interaction_end": "send_input",
    "collab_waiting_end": "wait",
    "collab_close_end": "close_agent",
    "collab_resume_end": "resume_agent",
}
_NOTES = frozenset(
    {"error", "stream_error", "warning", "turn_aborted", "entered_review_mode", "exited_review_mode"}
)
_SILENT_RECORDS = frozenset(
    {
        *("world_state", "turn_context", "session_meta", "inter_agent_communication_metadata", "state"),
        "token_usage_record",  # `token_count` events hold the same
    }
)
_SILENT_ITEMS = frozenset(
    {"ghost_snapshot", "other", "compaction", "compaction_summary", "context_compaction"}
)
_SILENT_EVENTS = frozenset(
    "task_started task_complete turn_started turn_complete turn_diff thread_settings_applied "
    "ContextCompaction context_compacted sub_agent_activity thread_goal_updated guardian_assessment "
    "undo_completed undo_started thread_rolled_back exec_command_begin mcp_tool_call_begin patch_apply_begin "
    "web_search_begin image_generation_begin collab_agent_spawn_begin collab_agent_interaction_begin "
    "collab_waiting_begin collab_close_begin collab_resume_begin agent_reasoning_section_break "
    "plan_update background_event deprecation_notice agent_message_delta agent_reasoning_delta "
    "exec_command_output_delta session_configured model_reroute".split()
)
_CONTEXT_MARKS = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "# AGENTS.md instructions",
    "<turn_aborted>",
)
_EXEC_LINES = frozenset(
    "thread.started turn.started turn.completed turn.failed item.started item.updated item.completed "
    "error".split()
)
_KNOWN = "type id role content summary call_id name arguments input output message text".split()

_ALWAYS = ("AGENTS.md", "AGENTS.override.md")
_GROUP = re.compile(r"^# ", re.MULTILINE)
_THREAD = re.compile(r"^## ", re.MULTILINE)
_UPDATED = re.compile(
    r"^[^\w\n]{0,20}(?:updated_at|updated|date)[^\w\n]{0,10}:[^\w\n]{0,20}(\d{4}-\d\d-\d\d[T0-9:.Z+-]*)",
    re.MULTILINE,
)


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file begins with Codex's kinds of lines; the oldest need Codex's file name, too."""
    found = first_records(head)
    kinds = {text(record.get("type")) for record in found if "payload" in record} & _RECORDS
    is_exec = any(_is_exec_line(record) for record in found)
    bare = path.name.startswith("rollout-") and any(_is_bare(record) for record in found)
    return path.suffix in (".jsonl", ".json", ".txt", ".log") and bool(kinds or is_exec or bare)


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in a transcript, in order: messages, usage and session facts."""
    return join_answers(_RolloutReader().pieces(path, on_bytes))


def _is_exec_line(record: dict[str, Json]) -> bool:
    kind = text(record.get("type"))
    return kind in _EXEC_LINES and (
        kind.startswith(("thread.", "turn.")) or isinstance(record.get("item"), dict)
    )


def _is_bare(record: dict[str, Json]) -> bool:
    return text(record.get("type")) in _ITEMS or ("instructions" in record and "timestamp" in record)


class _Use(NamedTuple):
    """A tool call as an event shows it, with the result if it has ended."""

    call: ToolCall
    result: ToolResult | None = None


class _RolloutReader:
    """The state of reading one file: recent texts, and known calls."""

    def __init__(self) -> None:
        self._facts = NewFacts()
        self._recent_texts: deque[tuple[int, str, int]] = deque()  # line, speaker and hash of texts in items
        self._delayed: deque[tuple[int, str, int, StreamItem]] = deque()
        self._size = 0
        self._calls: OrderedDict[str, str] = OrderedDict()  # by id, the kind of line that named the call
        self._total: Json = None
        self._model = ""

    def pieces(self, path: Path, on_bytes: OnBytes) -> Stream:
        """Yield the content of the lines; an event's text is held back, since an item may repeat the text."""
        for line in lines(path, on_bytes):
            if isinstance(line, Unread):
                yield from self._queue(line.line, "", 0, line)
                continue
            yield from self._line(line)
        for *_, each in self._delayed:
            yield each

    def _line(self, line: JsonLine) -> Stream:
        kind = text(line.value.get("type"))
        for each in self._read(line, kind):
            if not isinstance(each, Fragment):
                yield from self._queue(line.number, "", 0, each)
            elif each.message.extra.get("shown") is True:
                speaker, words = _speaker(each.message), hash(_words(each.message))
                if not any(recent[1:] == (speaker, words) for recent in self._recent_texts):
                    yield from self._queue(line.number, speaker, words, _without_mark(each))
            else:
                speaker = _speaker(each.message)
                for words in _hashes(each.message) if speaker else ():
                    self._drop(speaker, words)
                    self._recent_texts.append((line.number, speaker, words))
                yield from self._queue(line.number, "", 0, each)
        while self._recent_texts and self._recent_texts[0][0] < line.number - _NEAR:
            self._recent_texts.popleft()

    def _queue(self, number: int, speaker: str, words: int, each: StreamItem) -> Stream:
        """Add an item to the queue of held-back items, and yield the items that need not wait longer.

        An event's text waits until enough lines follow or the queue is too long; items behind it wait too.
        """
        self._delayed.append((number, speaker, words, each))
        self._size += each.size if isinstance(each, Fragment) else 0
        while self._delayed and (
            not self._delayed[0][1] or self._delayed[0][0] < number - _NEAR or self._size > LONGEST
        ):
            *_, first = self._delayed.popleft()
            self._size -= first.size if isinstance(first, Fragment) else 0
            yield first

    def _drop(self, speaker: str, words: int) -> None:
        """Drop the held-back text of an event, because the item with this text was read."""
        for at, (_, who, what, each) in enumerate(self._delayed):
            if (who, what) == (speaker, words):
                self._size -= each.size if isinstance(each, Fragment) else 0
                del self._delayed[at]
                return

    # ---------------------------------------------------------------- reading lines

    def _read(self, line: JsonLine, kind: str) -> Stream:
        value, payload = line.value, mapping(line.value.get("payload"))
        time = moment(value.get("timestamp"))
        if kind in ("session_meta", "") or (kind == "turn_context"):
            yield from self._session_facts(payload if kind else value, time)
            if not kind and not _is_bare(value) and value.get("record_type") != "state":
                yield Unread(line.number, "a line without a kind")
        elif kind == "response_item" or kind in _ITEMS:
            yield from self._item(line, payload if kind == "response_item" else value, time)
        elif kind == "event_msg":
            yield from self._event(line, payload, time)
        elif kind == "compacted":
            words = text(payload.get("message"))
            extra = {SUMMARY: "compacted", **without(payload, (*_KNOWN, "replacement_history"))}
            yield Fragment(Message(Role.SYSTEM, parts_of(words), time=time, extra=extra), size=line.size)
        elif kind in _EXEC_LINES:
            yield from self._read_exec_line(line, kind)
        elif kind not in _SILENT_RECORDS:
            yield Unread(line.number, f"an unknown kind of line: {kind}")

    def _session_facts(self, payload: dict[str, Json], time: str) -> list[SessionFacts]:
        model = text(payload.get("model"))
        self._model = model or self._model
        git = mapping(payload.get("git"))
        return self._facts.add(
            id=text(payload.get("id")),
            folder=text(payload.get("cwd")),
            created=moment(payload.get("timestamp")) or time,
            model=model,
            branch=text(git.get("branch")),
            repository=text(git.get("repository_url")),
        )

    def _item(self, line: JsonLine, item: dict[str, Json], time: str) -> Stream:
        kind = text(item.get("type"))
        if kind in ("message", "agent_message"):
            yield Fragment(self._message(item, kind, time), size=line.size)
        elif kind == "reasoning":
            extra = without(item, ("type", "id", "summary", "content"))
            first, *rest = texts_of(item.get("summary")) or texts_of(item.get("content")) or [""]
            yield self._answer(item, (Thinking(first, extra), *map(Thinking, rest)), time, line.size)
        elif kind in _OUTPUTS:
            yield Fragment(
                Message(Role.TOOL, (_output(item),), id=text(item.get("id")), time=time), size=line.size
            )
        elif kind in _ITEMS:
            yield from self._read_call(item, kind, time, line.size)
        elif kind not in _SILENT_ITEMS:
            yield from _unknown(line, item, time)

    def _message(self, item: dict[str, Json], kind: str, time: str) -> Message:
        raw_role = text(item.get("role"))
        parts = parts_of(item.get("content"))
        extra = without(item, _KNOWN)
        role = {"assistant": Role.ASSISTANT, "user": Role.USER}.get(raw_role, Role.SYSTEM)
        if kind == "agent_message":
            role, extra[SIDE] = Role.ASSISTANT, text(item.get("author")) or True
        elif role is Role.SYSTEM:
            extra[META] = raw_role or "unknown"
        elif (
            role is Role.USER and parts and all(_is_context(part) for part in parts if isinstance(part, Text))
        ):
            extra[META] = "context"
        model = self._model if role is Role.ASSISTANT else ""
        return Message(role, parts, id=text(item.get("id")), time=time, model=model, extra=extra)

    def _answer(self, item: dict[str, Json], parts: tuple[Part, ...], time: str, size: int) -> Fragment:
        return Fragment(
            Message(Role.ASSISTANT, parts, id=text(item.get("id")), time=time, model=self._model), size=size
        )

    def _read_call(self, item: dict[str, Json], kind: str, time: str, size: int) -> Stream:
        """Yield a tool call; if the provider ran the tool, also the result, because no other line has it."""
        provider_call = _PROVIDER_CALLS.get(kind, "")
        call = _call(item, provider_call or kind)
        if provider_call and call.id and call.id in self._calls:
            return  # the event came first, with the result
        self._remember(call.id, "served" if provider_call else "item")
        yield self._answer(item, (call,), time, size)
        if kind == "image_generation_call" and text(item.get("result")):
            self._remember(call.id, "item")
            image = (Image(data=item["result"]),)
            yield Fragment(Message(Role.TOOL, (ToolResult(call.id, image, call.name),), time=time))

    def _remember(self, call: str, line_kind: str) -> None:
        self._calls[call] = line_kind
        if len(self._calls) > _CALLS:
            self._calls.popitem(last=False)

    def _event(self, line: JsonLine, event: dict[str, Json], time: str) -> Stream:
        kind = text(event.get("type"))
        if kind == "item_completed":
            event = mapping(event.get("item"))
            kind = text(event.get("type"))
        if kind == "token_count":
            yield from self._read_usage(mapping(event.get("info")), time)
        elif kind == "thread_name_updated":
            yield from self._facts.add(title=text(event.get("thread_name")))
        elif kind in _TEXT_EVENTS:
            parts = _text_event_parts(event, kind)
            if parts:
                role = Role.USER if _TEXT_EVENTS[kind] is Role.USER else Role.ASSISTANT
                extra = {**without(event, (*_TEXT_EVENT_FIELDS, *_KNOWN)), "shown": True}
                yield Fragment(Message(role, parts, text(event.get("id")), time, extra=extra), size=line.size)
        elif kind in _ENDS or kind in _COMPLETED_ITEMS:
            yield from self._read_use(_use(event, kind), kind, time, line.size)
        elif kind in _NOTES:
            words = text(event.get("message")) or as_text(without(event, ("type",)))
            yield Fragment(
                Message(Role.SYSTEM, (Text(words),), time=time, extra={META: kind}), size=line.size
            )
        elif kind not in _SILENT_EVENTS:
            yield Unread(line.number, f"an unknown kind of event: {kind or 'none'}")

    def _read_usage(self, info: dict[str, Json], time: str) -> Iterator[TranscriptUsage]:
        total, last = info.get("total_token_usage"), mapping(info.get("last_token_usage"))
        if total is not None and total == self._total:
            return
        self._total = total
        usage = _usage(last or mapping(total), self._model, time)
        if usage.total:
            yield usage

    def _read_use(self, use: _Use, kind: str, time: str, size: int) -> Stream:
        """Yield a tool call that an event shows, or the result of a known call."""
        known = self._calls.get(use.call.id, "") if use.call.id else ""
        if known == "item" or (known == "event" and use.result is None):
            return
        if not known:
            yield Fragment(Message(Role.ASSISTANT, (use.call,), time=time, extra={"event": kind}), size=size)
        self._remember(use.call.id, "event" if use.result is None else "item")
        if use.result is not None:
            yield Fragment(Message(Role.TOOL, (use.result,), time=time, extra={"event": kind}), size=size)

    def _read_exec_line(self, line: JsonLine, kind: str) -> Stream:
        """Yield the content of a line from `codex exec --json`."""
        value, item = line.value, mapping(line.value.get("item"))
        if kind == "thread.started":
            yield from self._facts.add(id=text(value.get("thread_id")))
        elif kind == "turn.completed":
            usage = _usage(mapping(value.get("usage")), self._model, "")
            if usage.total:
                yield usage
        elif kind in ("turn.failed", "error"):
            words = text(mapping(value.get("error")).get("message")) or text(value.get("message"))
            yield Fragment(Message(Role.SYSTEM, (Text(words),), extra={META: kind}), size=line.size)
        elif kind.startswith("item."):
            yield from self._read_exec_item(line, item, kind)

    def _read_exec_item(self, line: JsonLine, item: dict[str, Json], when: str) -> Stream:
        kind, words = text(item.get("type")), text(item.get("text"))
        over = when == "item.completed"
        if kind in _TOOLS:
            use = _use(item, kind)
            if when == "item.started" or self._calls.get(use.call.id) == "item":
                self._calls.pop(use.call.id, None)  # each run numbers its items from the start
            if over or when == "item.started":
                yield from self._read_use(use if over else use._replace(result=None), kind, "", line.size)
        elif not over:
            return
        elif kind == "agent_message":
            yield self._answer(item, (Text(words),), "", line.size)
        elif kind == "reasoning":
            yield self._answer(item, (Thinking(words),), "", line.size)
        elif kind in ("plan", "todo_list", "error"):
            words = words or text(item.get("message")) or as_text(item.get("items"))
            yield Fragment(
                Message(Role.SYSTEM, (Text(words),), text(item.get("id")), extra={META: kind}), size=line.size
            )
        else:
            yield from _unknown(line, item, "")


def _unknown(line: JsonLine, item: dict[str, Json], time: str) -> Stream:
    """Yield an item of unknown kind, unparsed and reported, since the file may be deleted one day."""
    kind = text(item.get("type")) or "none"
    yield Unread(line.number, f"an unknown kind of item: {kind}")
    if item:
        message = Message(Role.SYSTEM, (Opaque(item),), text(item.get("id")), time, extra={META: kind})
        yield Fragment(message, size=line.size)


_TOOLS = {
    "command_execution": "shell",
    "file_change": "apply_patch",
    "mcp_tool_call": "",
    "collab_tool_call": "",
    "web_search": "web_search",
}
_COMPLETED_ITEMS = {
    "CommandExecution": "shell",
    "McpToolCall": "",
    "FileChange": "apply_patch",
    "WebSearch": "web_search",
    "Extension": "",
    "ImageView": "view_image",
    "ImageGeneration": "image_generation",
    "CollabAgentToolCall": "",
}
_TEXT_EVENTS: dict[str, Role | None] = {
    "user_message": Role.USER,
    "UserMessage": Role.USER,
    "agent_message": Role.ASSISTANT,
    "AgentMessage": Role.ASSISTANT,
    "Plan": Role.ASSISTANT,
    "agent_reasoning": None,
    "agent_reasoning_raw_content": None,
    "Reasoning": None,
}
_TEXT_EVENT_FIELDS = ("images", "summary_text", "raw_content", "client_id")
_RESULTS = (
    "result stdout stderr aggregated_output formatted_output results content_items exit_code error "
    "status success statuses agent_statuses agents_states duration completed_at"
).split()


def _speaker(message: Message) -> str:
    if any(isinstance(part, Thinking) for part in message.parts):
        return "thinking"
    return str(message.role) if message.role in (Role.USER, Role.ASSISTANT) and _words(message) else ""


def _words(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text | Thinking)).strip()


def _hashes(message: Message) -> set[int]:
    """Return hashes of an item's text in the forms in which events may show it: whole, and part by part."""
    parts = [part.text.strip() for part in message.parts if isinstance(part, Text | Thinking)]
    return {hash(_words(message)), *map(hash, parts)}


def _without_mark(each: StreamItem) -> StreamItem:
    if not isinstance(each, Fragment) or "shown" not in each.message.extra:
        return each
    return each._replace(message=each.message._replace(extra=without(each.message.extra, ("shown",))))


def _is_context(part: Text) -> bool:
    return part.text.lstrip().startswith(_CONTEXT_MARKS)


def _text_event_parts(event: dict[str, Json], kind: str) -> tuple[Part, ...]:
    """Return the parts of a text that an event showed on the screen."""
    if _TEXT_EVENTS[kind] is None:
        texts = [*as_list(event.get("summary_text")), *as_list(event.get("raw_content"))]
        words = text(event.get("text")) or "\n".join(each for each in texts if isinstance(each, str))
        return (Thinking(words),) if words else ()
    if "content" in event:
        return parts_of(event["content"])
    words = text(event.get("message")) or text(event.get("text"))
    images = [{"type": "input_image", "image_url": each} for each in as_list(event.get("images"))]
    return (*parts_of(words), *parts_of(images))


def _call(item: dict[str, Json], kind: str) -> ToolCall:
    inner = mapping(item.get("function"))
    name = text(item.get("name")) or text(inner.get("name")) or kind.removesuffix("_call")
    raw = next(
        (item[each] for each in ("arguments", "input", "action", "revised_prompt") if item.get(each)), None
    )
    extra = without(item, (*_KNOWN, "function", "action", "revised_prompt", "result"))
    call_id = text(item.get("call_id")) or text(item.get("id"))
    if text(item.get("id")) and item["id"] != call_id:
        extra["id"] = item["id"]
    return ToolCall(call_id, name, as_text(raw if raw is not None else inner.get("arguments")), extra)


def _output(item: dict[str, Json]) -> ToolResult:
    raw = next((item[name] for name in ("output", "result", "tools") if name in item), None)
    failed = False
    if isinstance(raw, dict) and "content" in raw:
        failed = raw.get("success") is False
        raw = raw["content"]
    if isinstance(raw, dict) and "type" not in raw:
        raw = as_text(raw)
    call_id = text(item.get("call_id")) or text(item.get("id"))
    extra = without(item, (*_KNOWN, "result", "tools"))
    return ToolResult(call_id, result_parts(raw), text(item.get("name")), failed, extra)


def _use(event: dict[str, Json], kind: str) -> _Use:
    """Return the tool call that an event shows, whichever tool it is."""
    invocation = mapping(event.get("invocation")) or event
    name = (
        _ENDS.get(kind)
        or _COMPLETED_ITEMS.get(kind)
        or _TOOLS.get(kind)
        or text(invocation.get("tool"))
        or text(invocation.get("kind"))
    )
    raw = invocation.get("arguments")
    if raw is None:
        raw = without(
            event, (*_RESULTS, "type", "id", "call_id", "turn_id", "process_id", "parsed_cmd", "source")
        )
    extra = {
        name: invocation[name] for name in ("server", "namespace") if isinstance(invocation.get(name), str)
    }
    call_id = text(event.get("call_id")) or text(event.get("callId")) or text(event.get("id"))
    call = ToolCall(call_id, name or kind, as_text(raw), extra)
    if kind == "dynamic_tool_call_request":
        return _Use(call)
    more = without(event, [each for each in event if each not in ("exit_code", "status", "duration")])
    return _Use(call, ToolResult(call_id, _outcome(event), call.name, _failed(event), more))


def _outcome(event: dict[str, Json]) -> Result:
    """Return a tool's result from an event: its `result`, or else the first output or error that it has."""
    result = event.get("result")
    if isinstance(result, dict):
        inner = mapping(result.get("Ok")) or result
        return result_parts(inner.get("content") or result.get("Err") or as_text(inner))
    if isinstance(result, str) and result:
        return (Image(data=result),)  # only generated pictures are given as a string
    for name in (
        "aggregated_output",
        "formatted_output",
        "content_items",
        "results",
        "status",
        "agent_statuses",
    ):
        raw = event.get(name)
        if name == "status" and (text(event.get("stdout")) or text(event.get("stderr"))):
            raw = text(event.get("stdout")) + text(event.get("stderr"))
        if raw:
            blocks = name == "content_items" and isinstance(raw, list)
            return result_parts(raw if blocks else as_text(raw))
    message = text(mapping(event.get("error")).get("message")) or text(event.get("error"))
    return result_parts(message)


def _failed(event: dict[str, Json]) -> bool:
    result = mapping(event.get("result"))
    code = event.get("exit_code")
    return (
        (isinstance(code, int) and code != 0)
        or event.get("success") is False
        or event.get("status") in ("failed", "declined")
        or "Err" in result
        or mapping(result.get("Ok")).get("isError") is True
        or bool(event.get("error"))
    )


def _usage(counted: dict[str, Json], model: str, time: str) -> TranscriptUsage:
    prompt_tokens, output = count(counted.get("input_tokens")), count(counted.get("output_tokens"))
    total = count(counted.get("total_tokens")) or prompt_tokens + output
    return TranscriptUsage(
        prompt_tokens, output, count(counted.get("cached_input_tokens")), total, model=model, time=time
    )


# -------------------------------------------------------------------- memories


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield every piece of Codex's memory: instructions, summary, registry and session notes."""
    for name in tree.names():
        parts, _ = tree.full_path(name)
        if not name.endswith(".md"):
            continue
        inside = _inside(tree, name)
        if parts[-1] not in _ALWAYS and inside is None:
            continue
        file = tree.read(name)
        if isinstance(file, Skipped):
            yield file
        elif inside is not None:
            yield from _memories(file, inside)
        else:
            yield _instructions(file, parts)


def _instructions(file: TextFile, parts: list[str]) -> Piece:
    text = remove_memory_blocks(file.text)
    if not text.strip():
        return Skipped(file.name, "it contains only what a memory tool wrote")
    if parts[-2:-1] == [".codex"]:
        return SectionPiece(parts[-1], filenames.CONTEXT, text, Scope.GLOBAL)
    if "/" not in file.name:
        return SectionPiece(parts[-1], filenames.CONTEXT, text, Scope.PROJECT)
    return reference(file.name, key_of(file.name), text, Scope.PROJECT, when=file.changed)


def _memories(file: TextFile, own: str) -> Iterator[Piece]:
    if own == "memory_summary.md":
        yield SectionPiece(f"memories/{own}", filenames.MEMORY, file.text, Scope.GLOBAL)
    elif own == "MEMORY.md":
        yield from _registry(file)
    elif own.startswith("rollout_summaries/"):
        yield _summary(file, own)
    elif own == "raw_memories.md":
        entries = tuple(
            Entry(each, _when(each) or file.changed) for each in _cut(_THREAD, split_title(file.text)[1])
        )
        yield TopicPiece(
            f"memories/{own}", "codex raw memories", entries, Scope.GLOBAL, type=RecordType.REFERENCE
        )
    else:
        part = split_frontmatter(file)
        if isinstance(part, Skipped):
            yield part
            return
        yield TopicPiece(
            f"memories/{own}",
            key_of(own),
            (Entry(part.body, file.changed),),
            Scope.GLOBAL,
            named=False,
            type=RecordType.REFERENCE,
            front=part.front,
            without=("type",),
        )


def _registry(file: TextFile) -> Iterator[Piece]:
    """Yield a topic for each group of tasks in the registry of Codex's memories."""
    for block in _cut(_GROUP, file.text):
        title, body = split_title(block)
        name = title.removeprefix("Task Group:").strip() or "codex memory"
        yield TopicPiece(
            f"memories/MEMORY.md#{name}",
            name,
            (Entry(body if body.strip() else block, _when(block) or file.changed),),
            Scope.GLOBAL,
            named=False,
            type=RecordType.REFERENCE,
            title=name,
        )


def _summary(file: TextFile, own: str) -> Piece:
    time = _when(file.text) or date_in(own) or file.changed
    return NotesPiece(f"memories/{own}", time[:10], (Entry(file.text, time),), Scope.GLOBAL, "codex")


def _inside(tree: FileTree, name: str) -> str | None:
    """Return the path of a file below `memories/`; None for other files."""
    parts, _ = tree.full_path(name)
    at = next((index for index, part in enumerate(parts[:-1]) if part == "memories"), None)
    return None if at is None else "/".join(parts[at + 1 :])


def _cut(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    cuts = [match.start() for match in pattern.finditer(text)]
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        if text[start:end].strip():
            yield text[start:end]


def _when(text: str) -> str:
    match = _UPDATED.search(text)
    return moment(match[1]) if match else ""
