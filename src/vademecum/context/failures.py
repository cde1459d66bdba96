"""Find what a session teaches by its failures, without a model.

Three kinds of lessons. A command was called wrongly, and a corrected form of it worked soon after. A test or
build failed, the agent named the cause and edited files, and the same command passed. The user refused an
action of the agent, or corrected it right afterwards, in words that hold beyond that action.

The first two are solutions, the last are rules. All are proposals: each names its place in the session and
quotes what it stands on, and nothing here is saved. The thresholds prefer silence to a wrong proposal.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from vademecum.context.extraction import clip_line, safe_line, written_paths
from vademecum.text import fences, sentence_spans
from vademecum.transcripts import OpenMemoryCalls, Role, is_aside
from vademecum.types import RecordType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.store.heard import HeardStatement
    from vademecum.transcripts import Message, MessageEvent, ToolCall, ToolResult

COMMAND_CHARS = 240
ERROR_CHARS = 200
CAUSE_CHARS = 300
FILES = 3  # changed files that a solution names
_ARGUMENT_CHARS = 60  # a longer argument, such as the text of a comment, is shortened
_AHEAD = 6  # commands after a failure among which its correction is sought
_SHARED = 0.3  # the least share of arguments that a failed and a corrected command have in common


class FailureLesson(NamedTuple):
    """A lesson that a session proposes: its type and fields, the quoted evidence, and its place."""

    type: RecordType
    fields: dict[str, str]  # those of the type, as `Memory.knowledge.learn` takes them
    evidence: tuple[str, ...]  # command lines, or the user's words
    why: str
    message: str = ""  # the id of the message that completed the lesson


def find_lessons(messages: Sequence[Message]) -> list[FailureLesson]:
    """Return what the failures in a session teach, each lesson once, in the order of the session."""
    steps = list(_read_steps(messages))
    order = {step.message: at for at, step in enumerate(steps)}
    found = [*_find_corrected(steps), *_find_repaired(steps), *_find_rules(steps)]
    unique = {(each.type, *each.fields.values()): each for each in found}
    return sorted(unique.values(), key=lambda each: order[each.message])


def find_statements(events: Sequence[MessageEvent]) -> list[HeardStatement]:
    """Return the lessons from failures in a session, as statements that were heard in the session."""
    from vademecum.knowledge import lessons
    from vademecum.store import heard

    places = {each.message.id: each for each in events}
    found = []
    for lesson in find_lessons([each.message for each in events]):
        event = places[lesson.message]
        text = lessons.render(lesson.type, lesson.fields)
        found.append(
            heard.HeardStatement(
                heard.statement_id(text),
                text,
                str(lesson.type),
                event.time,
                place=event.id,
                why=lesson.why,
                found_by="failure",
                evidence=lesson.evidence,
                fields=tuple(lesson.fields.items()),
            )
        )
    return found


# ------------------------------------------------------------ what happened, step by step


class _Step(NamedTuple):
    """A command, an edit, a text of the agent, or a message of the user."""

    kind: str  # command, edit, agent or user
    text: str  # the command, the path, or the words
    message: str
    output: str = ""
    failed: bool = False
    action: str = ""  # what the agent did or wanted to do, in a few words


_SHELLS = frozenset("bash shell run_shell_command run_command execute terminal exec_command".split())
_EXIT = re.compile(r"(?:exit(?:ed with)? (?:code|status):?|exited with) [1-9]", re.IGNORECASE)
_RED = re.compile(r"^(?:--- FAIL|FAIL\b|FAILED\b)|\b[1-9]\d* failed\b", re.MULTILINE)
# Claude Code puts the words of a user who refuses a call into its result.
_REFUSED = re.compile(r"\A[^\n]{0,60}user doesn't want to (?:proceed|take this action)")
_SAID = re.compile(r"the user said:\s*(.+)", re.DOTALL)
_INTERRUPTED = "[Request interrupted by user"


def _read_steps(messages: Iterable[Message]) -> Iterator[_Step]:
    calls: dict[str, ToolCall] = {}
    own = OpenMemoryCalls()
    for message in map(own.without, messages):
        if message.role is Role.USER and message.text.strip() and not is_aside(message):
            if not message.text.startswith(_INTERRUPTED):
                yield _Step("user", message.text.strip(), message.id)
        elif message.role is Role.ASSISTANT and message.text.strip():
            yield _Step("agent", message.text, message.id)
        calls |= {call.id: call for call in message.calls}
        for result in message.results:
            call = calls.pop(result.id, None)
            if call is not None:
                yield from _read_result(call, result, message.id)


def _read_result(call: ToolCall, result: ToolResult, message: str) -> Iterator[_Step]:
    command = _command_of(call)
    if result.error and _REFUSED.match(result.text):
        said = _SAID.search(result.text)
        yield _Step("user", said[1].strip() if said else "", message, action=_name_action(call, command))
    elif command:
        failed = result.error or bool(_EXIT.search(result.text[:200]) or _EXIT.search(result.text[-200:]))
        action = _name_action(call, command)
        yield _Step("command", command, message, result.text, failed=failed, action=action)
    elif not result.error:
        for path in written_paths(call):
            yield _Step("edit", path, message, action=_name_action(call, ""))


def _command_of(call: ToolCall) -> str:
    """Return the shell command of a call; empty for other tools."""
    if call.name.lower() not in _SHELLS:
        return ""
    try:
        arguments = json.loads(call.arguments, strict=False)
    except (ValueError, RecursionError):
        return ""
    value = (arguments.get("command") or arguments.get("cmd")) if isinstance(arguments, dict) else ""
    if isinstance(value, list):  # such as ["bash", "-lc", "make test"]
        words = [str(each) for each in value]
        return words[2] if words[1:2] in (["-c"], ["-lc"]) and len(words) > 2 else shlex.join(words)
    return value if isinstance(value, str) else ""


def _name_action(call: ToolCall, command: str) -> str:
    """Return an action in a few words: program, subcommand and long options, or the tool's name."""
    if not command:
        return call.name.rpartition("__")[2]
    words = next((each for each in reversed(_split(command)) if each[0] not in _LOOKING), [])
    named = [each for each in words[1:2] if _WORD.fullmatch(each)]
    return " ".join(
        [*words[:1], *named, *(each for each in words[1:] if _OPTION.fullmatch(each))][:_ACTION_WORDS]
    )


# ------------------------------------------------------------ a command that was called wrongly

# Programs that only look or print: that they find nothing teaches nothing.
_LOOKING = frozenset(
    "ls cat head tail grep egrep rg find test diff which type stat file wc sort uniq echo printf true false"
    " sleep cd pwd rm mkdir cp mv touch chmod source export set kill pkill sed awk tr cut xargs tee"
    " jq".split()
)
_PUNCTUATION = ";|&"
_REDIRECTION = re.compile(r"(?<![\w=])[\d&]?>{1,2}\s?(?:&\d|[\w./-]+)")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_WORD = re.compile(r"[a-z][\w:-]*")
_OPTION = re.compile(r"--[a-z][\w-]*")
_ACTION_WORDS = 5
_LONGEST = 10_000  # characters of a command that is read
_MISSING = re.compile(
    r"command not found: ([\w.+-]+)|(?:^|[\s:])([\w.+-]+): (?:command )?not found$", re.MULTILINE
)
_CALLED_WRONGLY = re.compile(
    r"unknown (?:flag|option|shorthand flag|argument|command|subcommand|task)"
    r"|unrecognized (?:argument|option|subcommand)|flag provided but not defined|unexpected argument"
    r"|no such (?:option|command|subcommand)|(?:invalid|illegal) option|is not a \w+ command"
    r"|no task \S+ found|missing script|no rule to make target|must be provided"
    r"|requires (?:an?|at least|one|the) |missing required|accepts \d+ arg|is not a permitted key|HTTP 422"
    r"|no module named|cannot find module|build constraints exclude|no required module"
    r"|cannot be used with|mutually exclusive",
    re.IGNORECASE,
)


_TELLER = re.compile(r"([\w.+-]+): ")  # the program that reports an error


def _find_corrected(steps: Sequence[_Step]) -> Iterator[FailureLesson]:
    for at, step in enumerate(steps):
        if step.kind != "command" or not step.failed:
            continue
        missing = _MISSING.search(step.output)
        wrong = missing or _CALLED_WRONGLY.search(step.output)
        if wrong is None:
            continue
        error = _line_at(step.output, wrong.start())
        program = next(filter(None, missing.groups()), "") if missing else ""
        if not missing and (teller := _TELLER.match(error)) and teller[1] in _LOOKING:
            continue
        for later in _next_commands(steps, at):
            if not later.failed and (pair := _pair(step.text, later.text, program)):
                fields = {"error": f"`{pair[0]}` fails: {error}", "solution": f"Run `{pair[1]}`."}
                why = "the command failed and its corrected form worked"
                yield FailureLesson(RecordType.SOLUTION, fields, pair, why, later.message)
                break


def _next_commands(steps: Sequence[_Step], at: int) -> Iterator[_Step]:
    """Yield up to six commands after the step at `at`, until the user speaks or a file is edited."""
    left = _AHEAD
    for step in steps[at + 1 :]:
        if step.kind in ("user", "edit") or not left:
            return
        if step.kind == "command":
            left -= 1
            yield step


def _pair(failed: str, worked: str, missing: str) -> tuple[str, str] | None:
    """Return a failed command and its corrected form, taken from two shell lines; None without a correction.

    `missing` is the program that was not found, or empty. A correction that only adds a command before the
    failed command is returned as the whole line.
    """
    olds, news = _split(failed), _split(worked)
    for old in olds:
        if old[0] in _LOOKING or (missing and old[0] != missing):
            continue
        for new in news:
            if new[0] in _LOOKING or not _corrects(old, new, missing):
                continue
            if not set(new) <= set(old):
                return _show(old), _show(new)
            if news.index(new) > olds.index(old):  # it gets its input from the command before it
                return _show(old), clip_line(safe_line(worked), COMMAND_CHARS)
    return None


def _corrects(old: Sequence[str], new: Sequence[str], missing: str) -> bool:
    if missing:
        return missing in new[1:] or any(each.endswith(f"/{missing}") for each in new)
    if new[0] != old[0] or _subcommand(new) != _subcommand(old):
        return False
    first, second = set(old[1:]), set(new[1:])
    return len(first & second) >= _SHARED * max(len(first | second), 1) and list(old) != list(new)


def _subcommand(words: Sequence[str]) -> str:
    return next((each for each in words[1:] if _WORD.fullmatch(each)), "")


def _split(command: str) -> list[list[str]]:
    """Return the simple commands of a shell line, each as words without redirections and assignments."""
    plain = _REDIRECTION.sub(" ", command[:_LONGEST].replace("\\\n", " "))
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # a quotation that does not end
        return []
    found: list[list[str]] = [[]]
    for word in words:
        if word and not word.strip(_PUNCTUATION):
            found.append([])
        elif found[-1] or not _ASSIGNED.match(word):
            found[-1].append(word)
    return [each for each in found if each and each[0]]


def _show(words: Sequence[str]) -> str:
    shown = (
        each if len(each) <= _ARGUMENT_CHARS else f"{each[: _ARGUMENT_CHARS // 2].rstrip()}…"
        for each in words
    )
    return clip_line(
        safe_line(" ".join(each if _PLAIN.fullmatch(each) else shlex.quote(each) for each in shown)),
        COMMAND_CHARS,
    )


_PLAIN = re.compile(r"[\w@%+=:,./\[\]{}…-]+")


def _line_at(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    return clip_line(safe_line(text[start : start + 4 * ERROR_CHARS].split("\n", 1)[0]), ERROR_CHARS)


# ------------------------------------------------------------ a failure whose cause was found

_CHECKS = re.compile(r"\b(?:test\w*|pytest|jest|vitest|rspec|build|check|tsc|make|run)\b")
_STYLE = re.compile(r"\b(?:lint|fmt|format|vet|prettier|ruff|eslint)\b")
_CAUSE = re.compile(
    r"\b(?:the (?:\w+ )?(?:issue|problem|bug|cause|reason|failure|error) (?:is|was|comes)|root cause"
    r"|because|turns out|due to|caused by|happens? (?:when|since))\b",
    re.IGNORECASE,
)
_UNSURE = re.compile(
    r"^(?:let me|let's|i'll|i will|i need|now |first|actually, i|wait|hmm)|\b(?:if the|whether|might|maybe"
    r"|probably|could be|may be|perhaps|seems?|likely|i should|not related|pre-existing|expected)\b|[?:]$",
    re.IGNORECASE,
)
_CAUSE_WORDS = 10  # the least words of a sentence that explains something
_TELLS = re.compile(
    r"error|exception|\b(?:fail\w*|panic|expected|want|undefined|cannot|not)\b", re.IGNORECASE
)
_BARE = re.compile(
    r"^\W{0,9}(?:FAIL(?:ED)?|ok|error:?|exit (?:code|status) \d+|\S{1,80} ERROR task failed)\W{0,9}$",
    re.IGNORECASE,
)


class _Open(NamedTuple):
    """A check that failed: its output, the causes that the agent named since, and the files it edited."""

    output: str
    causes: list[str]
    paths: list[str]


def _find_repaired(steps: Sequence[_Step]) -> Iterator[FailureLesson]:
    failing: dict[str, _Open] = {}
    for step in steps:
        if step.kind == "agent":
            causes = list(_find_causes(step.text)) if failing else []
            for each in failing.values():
                each.causes.extend(causes)
        elif step.kind == "edit":
            for each in failing.values():
                each.paths.append(step.text)
        elif step.kind == "command" and (check := _check_in(step.text)):
            if step.failed or _RED.search(step.output):
                failing[check] = _Open(step.output, [], [])
            elif (opened := failing.pop(check, None)) and opened.causes and opened.paths:
                yield from _repaired(check, opened, step.message)


def _check_in(command: str) -> str:
    """Return the test or build that a shell line runs; empty if it runs none."""
    shown = [_show(each) for each in _split(command) if each[0] not in _LOOKING]
    return next((each for each in shown if _CHECKS.search(each) and not _STYLE.search(each)), "")


def _find_causes(text: str) -> Iterator[str]:
    own = fences.blank(text)
    for start, end in sentence_spans(own, lines=True):
        line = safe_line(" ".join(text[start:end].replace("**", "").split()).lstrip("#>*-0123456789. "))
        if len(line.split()) >= _CAUSE_WORDS and _CAUSE.search(line) and not _UNSURE.search(line):
            yield line


def _repaired(check: str, opened: _Open, message: str) -> Iterator[FailureLesson]:
    lines = [line.strip() for line in opened.output.splitlines()]
    telling = [each for each in lines if _TELLS.search(each) and not _BARE.match(each)]
    if not telling:
        return
    names = list(dict.fromkeys(path.rpartition("/")[2] for path in opened.paths))
    more = f" and {len(names) - FILES} more" if len(names) > FILES else ""
    fields = {
        "error": f"`{check}`: {clip_line(safe_line(telling[0]), ERROR_CHARS)}",
        "solution": f"{clip_line(opened.causes[-1], CAUSE_CHARS)} Changed: {', '.join(names[:FILES])}{more}.",
    }
    why = "it failed, the agent named the cause and changed files, and it passed"
    yield FailureLesson(RecordType.SOLUTION, fields, (check,), why, message)


# ------------------------------------------------------------ what the user refused or corrected

_RULE_WORDS = 30
_DIRECTS = re.compile(
    r"(?:(?:no|ok|okay|hey|please|and|but|also|sorry|hm+)\b[,.! ]*)*"
    r"(?:i (?:did not|didn't|never) (?:say|ask|tell|want)|do not\b|don't\b|never\b|let's not\b|stop \w+ing"
    r"|prefer\b|always\b|please always|we (?:should (?:be|always|never|not)|shouldn't|never|always)\b"
    r"|use .{2,60} (?:instead|not)\b|you (?:should (?:always|never|not)|shouldn't|must|can't|forgot to)\b)",
    re.IGNORECASE,
)
_FIRST = re.compile(r"(?:[\w'-]+ ){1,6}first[.!]*", re.IGNORECASE)  # of an action that was refused
_PASSING = re.compile(
    r"\?|\b(?:this|that|it|these|those|them|maybe|let's see|can (?:we|you)|for now|later|never ?mind|wait"
    r"|discuss|talk|worry|moment|try again|keep going|continue|yet|today|right now|i've|i have|anymore"
    r"|know)\b",
    re.IGNORECASE,
)


def _find_rules(steps: Sequence[_Step]) -> Iterator[FailureLesson]:
    action = ""
    for step in steps:
        if step.kind != "user":
            action = step.action or action
            continue
        words, refused = safe_line(step.text), bool(step.action)
        done = step.action or action
        action = "" if words else done  # a refusal without words is explained by the next message
        if not words or not done or len(words.split()) > _RULE_WORDS or _PASSING.search(words):
            continue
        if _DIRECTS.match(words) or (refused and _FIRST.fullmatch(words)):
            fields = {"rule": f"{words} (said about `{done}`)"}
            why = f"you {'refused' if refused else 'corrected'} what the agent did"
            yield FailureLesson(RecordType.RULE, fields, (words,), why, step.message)
