"""Find tasks, rules, answers, findings and changes in messages, without a model.

It reads the messages that leave the window; messages that stay only show how the work continues (the current
task, whether a question was answered). Every text found is put on one line of limited length.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from vademecum.context.units import is_request
from vademecum.context.user_rules import ORDER, find_rules
from vademecum.knowledge import DeclineReason
from vademecum.knowledge.signals import split_sentences, weigh
from vademecum.text import fences, is_command, sentence_spans
from vademecum.transcripts import ASIDE, OpenMemoryCalls, Role, content_words, is_substantive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vademecum.transcripts import Message, ToolCall, ToolResult

RULE_CHARS = 240
TASK_CHARS = 300
EXCHANGE_CHARS = 300
FINDING_CHARS = 220
SUBJECT_CHARS = 120
PATH_CHARS = 200
COMMAND_CHARS = 100
TOOL_CHARS = 60
_SCAN = 100_000  # characters of a long text that are read at each end
_OPENINGS = ("Q: ", "A: ", "`")  # line starts with a meaning in a summary
_NO_NAME = re.compile(r"[^\w.:/-]+")
_TAG = re.compile(r"<(?=/?\s*thread_summary)", re.IGNORECASE)


class Commit(NamedTuple):
    """A commit: its hash and its subject."""

    hash: str
    subject: str


class Exchange(NamedTuple):
    """A question of the agent and the user's answer; an empty answer means that the question is open."""

    question: str
    answer: str = ""


class FailedCommand(NamedTuple):
    """A command that failed, its error, and whether it works now."""

    command: str
    error: str = ""
    solved: bool = False


class ToolCount(NamedTuple):
    """A tool, and how often it was called."""

    name: str
    calls: int


class Tasks(NamedTuple):
    """The task that the user works on now, and the task before it."""

    now: str = ""
    before: str = ""


_NO_TASKS = Tasks()

# ------------------------------------------------------------ lines


def safe_line(text: str) -> str:
    """Return a text on one line that cannot close or imitate the tags around a summary."""
    words = " ".join(text.split())
    while words.startswith(_OPENINGS):
        words = words.removeprefix(next(each for each in _OPENINGS if words.startswith(each))).strip()
    return _TAG.sub("‹", words)


def clip_line(text: str, chars: int) -> str:
    """Return a line, cut to `chars` characters if it is longer."""
    return text if len(text) <= chars + 3 else f"{text[:chars]}..."


def _ends(text: str) -> str:
    """Return a text, or of a very long text its two ends, so that a log of 50 MB cannot stop the
    conversation.
    """
    return text if len(text) <= 2 * _SCAN else f"{text[:_SCAN]}\n{text[-_SCAN:]}"


# ------------------------------------------------------------ tasks

_WRAPPED = re.compile(r"<([a-z][\w-]*)[\s>]")
_ADDS = re.compile(
    r"(?:also|and|plus|but|with|without|only|additionally|besides|in|be|außerdem|auch|und|mit|ohne|aber)\b"
    r"|(?:please )?(?:make|keep|do|run|test|call|put|let|mach|lass) (?:it|them|that|this|es|das)\b",
    re.IGNORECASE,
)
_ADDED_WORDS = 12
_AGREES = re.compile(
    r"(?:and|but|und|in|be|also|with)\b.*\b(?:why|right back|the meantime|general)\b|.*\?\s*$"
)


def request_text(message: Message) -> str:
    """Return the text that a user wrote, on one line; empty for commands and for text that a host put in
    tags.
    """
    if not is_request(message):
        return ""
    text = message.text.replace(ASIDE, "").strip()
    wrapped = _WRAPPED.match(text)
    if is_command(text) or (wrapped and text.endswith(f"</{wrapped[1]}>")):
        return ""
    return safe_line(text)


def find_task(messages: Iterable[Message], previous: str = "", *, chars: int = TASK_CHARS) -> str:
    """Return the current task: the newest real request, with later additions to that request.

    Short confirmations and rules do not count. If there is no real request, the `previous` task stays;
    without a previous task, it is the newest message of the user that has content words.
    """
    return follow_tasks(messages, Tasks(previous), chars=chars).now


def follow_tasks(messages: Iterable[Message], known: Tasks = _NO_TASKS, *, chars: int = TASK_CHARS) -> Tasks:
    """Return the current task and the task before it, after these messages; `known` has both from earlier."""
    now, before = known
    fallback = ""
    for message in messages:
        text = request_text(message)
        if not text or not content_words(text):
            continue
        words = clip_line(text, chars)
        if now and (now == words or now.startswith(f"{words}; ") or f"; {words}" in now):
            continue
        if now and _is_addition(text):
            now = clip_line(f"{now}; {words}", chars)
        elif is_task(message):
            now, before = words, now or before
        else:
            fallback = words
    return Tasks(now or fallback, before)


def _is_addition(text: str) -> bool:
    """Whether a message adds to the current task, like "also make it idempotent"."""
    return len(text.split()) <= _ADDED_WORDS and bool(_ADDS.match(text)) and not _AGREES.match(text)


def is_task(message: Message) -> bool:
    """Whether a message asks for something, or is long and holds more than rules."""
    line, whole = request_text(message), message.text.replace(ASIDE, "")
    if not line or not content_words(line):
        return False
    rules = [" ".join(each.split()) for each in find_rules(whole)]
    rest = " ".join(whole.split())
    for rule in rules:
        rest = rest.replace(rule, " ")
    if any(_is_order(each) for each in (rest, *rules)):
        return True
    return is_substantive(line if not rules else rest)


_FEW_WORDS = 3  # content words of an order that names only a verb and its objects


def _is_order(text: str) -> bool:
    """Whether a text begins like an order of work, and has enough content words."""
    words = len(content_words(text))
    if not ORDER.match(text) or words < _FEW_WORDS - 1:
        return False
    return words > _FEW_WORDS or any(
        DeclineReason.REQUEST in weigh(each).reasons for each in split_sentences(text)[:3]
    )


# ------------------------------------------------------------ rules, answers, findings


def find_user_rules(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the user's rules, oldest first."""
    for message in messages:
        if request_text(message):
            for rule in find_rules(message.text.replace(ASIDE, "")):
                line = safe_line(rule)
                if line:
                    yield clip_line(line, RULE_CHARS)


_ASKING_TOOLS = frozenset(
    """interact ask ask_user askuserquestion ask_user_question ask_question ask_followup_question
    request_user_input user_collaboration""".split()
)
_QUESTION = re.compile(r'"(?:question|message|prompt)"\s{0,4}:\s{0,4}("(?:[^"\\]|\\.){1,4000}")', re.DOTALL)
_CLOSING = re.compile(r"[\s*_)\"'`]{0,8}$")
_IDLE = re.compile(
    r"(?i)(?:anything else|what(?:'s| is) next|what would you like|how can i help|ready\?|sounds good"
    r"|ok(?:ay)?\?|shall i (?:go on|continue|proceed)|does that (?:help|make sense)|noch etwas)"
)


def find_exchanges(dropped: Sequence[Message], kept: Sequence[Message], pending: str = "") -> list[Exchange]:
    """Return the agent's questions with the user's answers; a question without an answer is open.

    `pending` is a question that was asked earlier: the first request here answers it. In `kept`, only the
    first request counts, as an answer.
    """
    calls: dict[str, ToolCall] = {}
    found: list[Exchange] = []
    question = pending
    for at, message in enumerate((*dropped, *kept)):
        for call in message.calls:
            calls[call.id] = call
        for result in message.results:
            question_call = calls.get(result.id)
            if (
                question_call is not None
                and question_call.name.lower() in _ASKING_TOOLS
                and at < len(dropped)
            ):
                found.append(_exchange(_question_in(question_call.arguments), result.text))
        if message.role is Role.ASSISTANT and not message.calls and at < len(dropped):
            question = last_question(message.text)
        elif request_text(message) or (is_request(message) and message.text.strip()):
            if question:
                found.append(_exchange(question, message.text))
            question = ""
            if at >= len(dropped):
                break
    if question:
        found.append(_exchange(question, ""))
    return [each for each in found if each.question]


def last_question(text: str) -> str:
    """Return the question that ends a text; empty if there is none, or only one like "Anything else?"."""
    tail = _CLOSING.sub("", text[-2_000:])
    if not tail.endswith(("?", "？")):
        return ""
    line = tail.rstrip().splitlines()[-1]
    spans = [*sentence_spans(line)]
    start = spans[-1][0] if spans else 0
    while len(spans) > 1 and _is_broken(line, start):
        spans.pop()
        start = spans[-1][0]
    question = line[start:].strip(" -*>#")
    return "" if _IDLE.match(question) else question


_SHORTEST_QUESTION = 6  # words; a shorter question ("Which one?") refers to the sentence before it


def _is_broken(line: str, start: int) -> bool:
    """Whether no question can begin at `start`: inside brackets or code, in lower case, or too short."""
    before = line[:start]
    inside = before.count("(") > before.count(")") or before.count("`") % 2 == 1
    return inside or line[start : start + 1].islower() or len(line[start:].split()) < _SHORTEST_QUESTION


def _exchange(question: str, answer: str) -> Exchange:
    return Exchange(
        clip_line(safe_line(question[: EXCHANGE_CHARS * 4]), EXCHANGE_CHARS),
        clip_line(safe_line(answer[: EXCHANGE_CHARS * 4]), EXCHANGE_CHARS),
    )


def _question_in(arguments: str) -> str:
    match = _QUESTION.search(arguments[:_SCAN])
    try:
        return str(json.loads(match[1], strict=False)) if match else arguments[:_SCAN]
    except ValueError:
        return arguments[:_SCAN]


_CAUSE = re.compile(
    r"(?i)\b(?:because|caused?|causes|comes? from|due to|since|turns? out|root cause|happens? when"
    r"|whenever|disagree|the (?:bug|problem|reason|cause|fix|leak|answer) (?:is|was)|differs?|leaks?|missing"
    r"|not the|neither|instead of|found|measured|confirmed|weil|liegt an|komm(?:t|en) daher|ursache)\b"
)
_LEAST_WORDS = 6
_ROUTINE = re.compile(
    r"(?i)(?:done|ok|okay|sure|great|let me|i'll|i will|shall i|would you|all (?:tests|checks)"
    r"|tests (?:pass|are)|going on|next)\b|.*\?\s*$"
)


_DECIDED = re.compile(
    r"^[\s>*_#-]{0,12}((?:\[COLLABORATION\]|(?:key |final )?decision|decided|we(?:'ve| have)? decided|agreed"
    r"|entscheidung|entschieden)\b[^\n]{4,400})",
    re.IGNORECASE | re.MULTILINE,
)


def find_findings(dropped: Sequence[Message], kept: Sequence[Message]) -> Iterator[str]:
    """Yield the agent's last statement before each user message, and all statements it called decisions."""
    statement = ""
    for message in dropped:
        if message.role is Role.ASSISTANT:
            yield from _decisions(message.text)
        if request_text(message):
            yield from _finding(statement)
            statement = ""
        elif message.role is Role.ASSISTANT and message.text.strip() and not message.calls:
            statement = message.text
    if statement and any(request_text(message) for message in kept[:1]):
        yield from _finding(statement)


def _decisions(text: str) -> Iterator[str]:
    for match in _DECIDED.finditer(fences.blank(_ends(text))):
        if line := safe_line(" ".join(match[1].replace("**", "").split())):
            yield clip_line(line, FINDING_CHARS)


def _finding(text: str) -> Iterator[str]:
    own = fences.blank(text[-_SCAN // 10 :])
    sentences = [
        " ".join(own[start:end].split()).lstrip("#>*- ") for start, end in sentence_spans(own, lines=True)
    ]
    statements = [
        each for each in sentences if len(each.split()) >= _LEAST_WORDS and not _ROUTINE.match(each)
    ]
    causes = [each for each in statements if _CAUSE.search(each)]
    chosen = causes[-2:] or statements[-1:]
    line = safe_line(" ".join(chosen))
    if line:
        yield clip_line(line, FINDING_CHARS)


def is_cause(finding: str) -> bool:
    """Whether a finding states a reason or a decision, and not only that something was done."""
    return bool(_CAUSE.search(finding) or _DECIDED.match(finding))


# ------------------------------------------------------------ changes

_COMMITTED = re.compile(
    r"^\[(?:[^\]\n]{1,100} )?(?:\(root-commit\) )?([0-9a-f]{7,40})\] (\S.*)$", re.MULTILINE
)
_STAT = re.compile(r"^ \d+ files? changed|^ (?:create|delete|rename) |^ Date: |^ Author: ", re.MULTILINE)
_COMMITS = re.compile(r"\b(?:commit|merge|cherry-pick|revert|rebase|am|release|publish)\b")
_READING = re.compile(r"read|view|cat|grep|search|fetch|open|get|list|glob", re.IGNORECASE)
_WRITING = re.compile(
    r"write|edit|patch|create|replace|insert|delete|move|rename|update|save|notebook", re.IGNORECASE
)
_CONTENT = re.compile(
    r'(?<!\\)"(?:contents?|new_string|old_string|new_str|file_text|insert_text|edits|patch|diff|new_path)"'
    r"\s{0,4}:"
)
_PATH = re.compile(
    r'(?<!\\)"(?:path|new_path|old_path|file_path|filePath|notebook_path|filename)"\s{0,4}:\s{0,4}'
    r'("(?:[^"\\\n]|\\.){1,400}")'
)
_PATCHED = re.compile(r"\*\*\* (?:Update|Add|Delete) File: ([^\n\\\"]{1,400})")
_COMMAND = re.compile(
    r'(?<!\\)"(?:command|cmd|script)"\s{0,4}:\s{0,4}(\[[^\]]{1,4000}\]|"(?:[^"\\]|\\.){1,4000}")'
)
_FAILED = re.compile(
    r"exit (?:code|status):? [1-9]|exited with (?:code )?[1-9]|^Traceback|command not found|^make: \*\*\*"
    r"|\b[1-9]\d* failed\b|^(?:fatal|error)[:\[]",
    re.IGNORECASE | re.MULTILINE,
)
# these commands fail when they find nothing
_LOOKING = re.compile(r"(?:e?grep|rg|ls|test|diff|cat|which|find)\b")
_TELLS = re.compile(r"error|fail|exception|fatal|not found|denied|cannot|panic", re.IGNORECASE)


class Changes(NamedTuple):
    """The work done in a session: commits newest first, files and failed commands oldest first."""

    commits: tuple[Commit, ...] = ()
    files: tuple[str, ...] = ()
    failures: tuple[FailedCommand, ...] = ()


def find_changes(messages: Iterable[Message], failing: Sequence[FailedCommand] = ()) -> Changes:
    """Return commits reported by git, files written, and failed commands, with whether they work now.

    `failing` are commands that failed earlier.
    """
    calls: dict[str, ToolCall] = {}
    files: dict[str, None] = {}
    commits: dict[str, Commit] = {}
    failures = {each.command: each for each in failing}
    own = OpenMemoryCalls()
    for message in map(own.without, messages):
        for call in message.calls:
            calls[call.id] = call
        for result in message.results:
            call_ = calls.get(result.id)
            for commit in _commits(result, call_):
                commits.setdefault(commit.hash[:7], commit)
            if call_ is not None:
                if not result.error:
                    for path in written_paths(call_):
                        files.pop(path, None)
                        files[path] = None
                _note_outcome(failures, call_, result)
    return Changes(tuple(reversed(commits.values())), tuple(files), tuple(failures.values()))


def count_tool_calls(messages: Iterable[Message]) -> list[ToolCount]:
    """Return how often each tool was called, the most called first; memory's own tools do not count."""
    own = OpenMemoryCalls()
    names = Counter(_tool_name(call.name) for message in map(own.without, messages) for call in message.calls)
    return _in_order(names)


def add_tool_counts(older: Iterable[ToolCount], newer: Iterable[ToolCount]) -> list[ToolCount]:
    """Return the sums of two lists of tool counts, the most called tool first."""
    total = Counter[str]()
    for each in (*older, *newer):
        total[each.name] += each.calls
    return _in_order(total)


def _in_order(calls: Mapping[str, int]) -> list[ToolCount]:
    return [ToolCount(name, calls[name]) for name in sorted(calls, key=lambda name: (-calls[name], name))]


def _tool_name(name: str) -> str:
    """Return a tool's name as one word, so that a summary that lists it can be read back."""
    return clip_line(_NO_NAME.sub("_", name), TOOL_CHARS) or "unnamed"


def _commits(result: ToolResult, call: ToolCall | None) -> Iterator[Commit]:
    """Yield the commits that git reports as just made, oldest first; commits in a listing or file do not
    count.
    """
    if result.error or (call is not None and _READING.search(call.name)):
        return
    text = _ends(result.text)
    may_commit = call is not None and _COMMITS.search(call.arguments[:_SCAN]) is not None
    for match in _COMMITTED.finditer(text):
        following = text[match.end() : match.end() + 300].split("\n", 3)[1:3]
        if may_commit or any(_STAT.match(line) for line in following):
            yield Commit(match[1], clip_line(safe_line(match[2]), SUBJECT_CHARS))


def written_paths(call: ToolCall) -> Iterator[str]:
    """Yield the paths of the files that a tool call writes; a call that only reads yields none."""
    text = _ends(call.arguments)
    for match in _PATCHED.finditer(text):
        yield from _path(match[1])
    if not (_CONTENT.search(text) or (_WRITING.search(call.name) and not _READING.match(call.name))):
        return
    for match in _PATH.finditer(text):
        try:
            path = json.loads(match[1], strict=False)
        except ValueError:
            continue
        yield from _path(path)


def _path(text: str) -> Iterator[str]:
    path = safe_line(text).removeprefix("./")
    if path.strip("./") and len(path) <= PATH_CHARS:
        yield path


def _note_outcome(failures: dict[str, FailedCommand], call: ToolCall, result: ToolResult) -> None:
    """Record in `failures` that a command failed, or that an earlier failure has been solved."""
    command = _command(call.arguments)
    if not command:
        return
    failed = (result.error or bool(_FAILED.search(result.text[-4_000:]))) and not _LOOKING.match(command)
    known = failures.pop(command, None)
    if failed:
        failures[command] = FailedCommand(command, _error_line(result.text))
    elif known is not None:
        failures[command] = known._replace(solved=True)


def _command(arguments: str) -> str:
    match = _COMMAND.search(arguments[:_SCAN])
    if match is None:
        return ""
    try:
        value = json.loads(match[1], strict=False)
    except ValueError:
        return ""
    words = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return clip_line(safe_line(words.replace("`", "'").replace(": ", " ")), COMMAND_CHARS)


def _error_line(text: str) -> str:
    """Return the last line of a command's output that mentions an error; else the last line."""
    lines = [line for line in text[-8_000:].splitlines() if line.strip()]
    found = [line for line in lines if _TELLS.search(line)] or lines
    return clip_line(safe_line(found[-1]), SUBJECT_CHARS) if found else ""
