"""The tools that a chat offers to the model: memory, files and commands of the machine, a to-do list.

The arguments of a call are checked, and the person is asked before a tool touches the machine or writes to
memory. An error of any kind is returned to the model as the result of its call.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vademecum import Text, ToolResult
from vademecum.config import Consent
from vademecum.errors import NotFound, PendingReview, Refused, UsageError, VadeError
from vademecum.interfaces.chat.state import count_tools
from vademecum.interfaces.present.safe import clean_lines, clean_text, clean_value, gate_secrets
from vademecum.interfaces.tools import core, more, read_workspaces
from vademecum.interfaces.tools.declaration import (
    Span,
    Write,
    arguments_of,
    input_schema,
    parse_arguments,
)
from vademecum.text import spelled, visible
from vademecum.tokens import DEFAULT_RATIO
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vademecum import Call
    from vademecum.interfaces.chat.state import Chat
    from vademecum.interfaces.tools.declaration import Argument

LARGEST = 256 * 1024  # characters of a result
SECONDS = 60.0
GREP_SECONDS = 20.0
_ENTRIES = 2000
_READ = 8 * 1024 * 1024  # bytes of a file that are read
_PRINTED = 16 * 1024 * 1024  # bytes that a program may print
_PAUSE = 0.02  # seconds between two checks of the output size
Root = os.PathLike[str]
NO = Refused("the user declined this", hint="leave it unchanged, and do not ask again with other words")
STOPPED = "[stopped by the user before it finished]"
TODO = more.todo.name
_SHARE = 5  # schemas may take a fifth of the window; above that only the most needed tools are offered
_LEAST_SHARE = 2  # if those take half of the window, no tools are offered
_NEEDED = ("memory_store", "memory_search", "memory_get", "read_file", "run_command")
_LINE = 100
_TAKES = ("forget", "clear", "prune_knowledge")  # operations that remove something; each one is asked about
_OWN = ("slug", "scope")  # arguments that mean nothing to a person

# ---------------------------------------------------------------- the tools that touch the machine
# Each tool limits its time and its result, and is declared by its signature. The caller has asked the person.


class ProgramResult(NamedTuple):
    """The output of a program, and its exit code, or the reason why it was stopped."""

    output: str
    code: int | None
    stopped: str = ""


def is_inside(root: Root, path: str) -> bool:
    """Return whether a path leads into the project, after links are followed."""
    real = os.path.realpath(os.path.join(root, os.path.expanduser(path)))
    top = os.path.realpath(root)
    return real == top or real.startswith(top.rstrip(os.sep) + os.sep)


def read_file(
    root: Root,
    path: Annotated[str, "The file, relative to the project."],
    start: Annotated[int | None, "The first line; starts at 1.", Span(1)] = None,
    lines: Annotated[int | None, "The number of lines; default: all.", Span(1)] = None,
) -> str:
    """Return lines of a text file, each with its number."""
    found = _resolve_path(root, path)
    if not stat.S_ISREG(os.stat(found).st_mode):  # reading a pipe would wait, and a device never ends
        raise UsageError(f"{path} is not a regular file", hint="pass the path of a text file in the project")
    with open(found, "rb") as file:
        content = file.read(_READ + 1)
    if b"\0" in content[:8192]:
        raise UsageError(f"{path} is not a text file", hint="use a program for its format")
    first = (start or 1) - 1
    written = clean_lines(content[:_READ].decode(errors="replace")).splitlines()
    chosen = written[first : None if lines is None else first + lines]
    text = "\n".join(f"{number}\t{line}" for number, line in enumerate(chosen, first + 1))
    more = "\n[more lines follow]" if len(content) > _READ else ""
    return shorten_result(text + more) or "[no such lines]"


def list_files(
    root: Root,
    path: Annotated[str | None, "The folder, relative to the project; default: its root."] = None,
) -> str:
    """Return the names in a folder, one on each line; names of folders end with a slash."""
    found = _resolve_path(root, path or ".")
    if not os.path.isdir(found):
        raise UsageError(f"{path} is not a folder", hint="read it as a file")
    with os.scandir(found) as inside:
        names = sorted(each.name + ("/" if each.is_dir() else "") for each in inside)
    more = f"\n[{len(names) - _ENTRIES} more]" if len(names) > _ENTRIES else ""
    return ("\n".join(names[:_ENTRIES]) + more) or "[empty]"


def grep(
    root: Root,
    pattern: Annotated[str, "A Python regular expression."],
    path: Annotated[str | None, "A file or folder, relative to the project; default: all of it."] = None,
) -> str:
    """Return the lines of the project's files that match a regular expression.

    The search runs in a process of its own, since a pattern that runs forever cannot be stopped in this one.
    """
    _resolve_path(root, path or ".")
    # With -P nothing of the project is imported.
    program = [sys.executable, "-P", "-m", "vademecum.interfaces.chat.grep"]
    ran = run_program([*program, pattern, path or "."], root, seconds=GREP_SECONDS)
    if ran.code == 2:
        raise UsageError(ran.output.strip() or "the pattern cannot be used")
    note = f"[{ran.stopped}: not everything was searched]" if ran.stopped else ""
    return f"{ran.output.strip()}\n{note}".strip()


def run_command(
    root: Root,
    command: Annotated[str, "The command."],
    seconds: Annotated[int | None, "The timeout; default: 60.", Span(1, 600)] = None,
) -> str:
    """Run a shell command, and return its output with its exit code."""
    shell = ["cmd", "/c"] if sys.platform == "win32" else ["/bin/sh", "-c"]
    ran = run_program([*shell, command], root, seconds=seconds or SECONDS)
    ended = ran.stopped or f"exit code {ran.code}"
    return f"{ran.output.rstrip()}\n[{ended}]".lstrip()


def run_program(command: list[str], root: Root, *, seconds: float) -> ProgramResult:
    """Run a program; stop it with all its child processes after a time, or when it prints too much."""
    with tempfile.TemporaryFile() as out:  # not a pipe, which a process left behind would keep open
        process = subprocess.Popen(
            command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code, stopped = _wait_for(process, out.fileno(), seconds)
        finally:  # also after Ctrl-C
            _kill(process)
        size = out.tell() if out.seek(0, os.SEEK_END) else 0
        out.seek(0)
        head = out.read(LARGEST * 2)
        if size > len(head):
            out.seek(max(len(head), size - LARGEST // 2))
            head += b"\n" + out.read()
    return ProgramResult(shorten_result(head.decode(errors="replace")), code, stopped)


def _wait_for(process: subprocess.Popen[bytes], out: int, seconds: float) -> tuple[int | None, str]:
    """Wait for a program; return its exit code, or None and the reason why it has to be stopped.

    The size of the output is watched here, because a limit of the kernel would hold for every file it writes.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return process.wait(max(0.0, min(_PAUSE, end - time.monotonic()))), ""
        except subprocess.TimeoutExpired:
            if os.fstat(out).st_size > _PRINTED:
                return None, f"stopped: it printed more than {_PRINTED // (1024 * 1024)} MiB"
            if time.monotonic() >= end:
                return None, f"stopped after {seconds:g} s"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program with all processes that it started, and wait for its end."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def shorten_result(text: str) -> str:
    """Return a text without secrets, and without its middle part if it is too long."""
    text = clean_text(text)
    if len(text) <= LARGEST:
        return text
    half = LARGEST // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def _resolve_path(root: Root, path: str) -> str:
    found = os.path.join(root, os.path.expanduser(path))
    if "\0" in found or not os.path.exists(found):
        raise NotFound(f"there is no {path[:200]!r}", hint="list the parent folder first")
    return found


# ---------------------------------------------------------------- what is offered


@dataclass(frozen=True, slots=True)
class MachineTool:
    """A tool that reads the machine's files or runs commands, and needs the person's consent.

    Consent for the whole chat (the answer `a`) holds only for paths in the project.
    """

    run: Callable[..., str]
    description: str

    @property
    def name(self) -> str:
        """The name under which the model calls the tool."""
        return self.run.__name__

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that the model may send."""
        return arguments_of(self.run)

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that the model may send, as JSON Schema."""
        return input_schema(self.arguments)


MACHINE = (
    MachineTool(read_file, "Read a text file of the project, or lines of it. The user may be asked first."),
    MachineTool(list_files, "List a folder of the project. The user may be asked first."),
    MachineTool(
        grep,
        "Search the project's files for a regular expression. The user may be asked first.",
    ),
    MachineTool(
        run_command,
        "Run a shell command in the project and read its output. The user may be asked first.",
    ),
)
_MACHINE = {each.name: each for each in MACHINE}
_TODO = more.todo.without_retries()  # a chat never sends a call twice
_MEMORY = {each.name: each.without_retries() for each in core.CORE}


class ToolOffer(NamedTuple):
    """The definitions of the tools that are sent to a model, and their size in tokens."""

    schemas: tuple[Any, ...]
    tokens: int


def names() -> list[str]:
    """Return the names of all tools that a chat can offer."""
    return [*_MEMORY, *_MACHINE, TODO]


def schemas(chat: Chat) -> list[Any]:
    """Return the definitions of the tools for this model; in a small window only the most needed, or none."""
    if not chat.tools_on or chat.model is None:
        return []
    incognito = chat.settings.incognito
    offer = _make_offer(None if incognito else read_workspaces(chat.person.home.path))
    if offer.tokens * _SHARE <= chat.window:
        return list(offer.schemas)
    needed = [
        {**schema, "description": schema["description"].split("\n\n", 1)[0]}
        for schema in offer.schemas
        if schema["name"] in _NEEDED
    ]
    # Uses the assumed window, because a window that shrank after a refusal may be a server's error.
    return needed if count_tools(needed, DEFAULT_RATIO) * _LEAST_SHARE <= chat.assumed else []


@functools.lru_cache(maxsize=8)
def _make_offer(joined: tuple[tuple[str, str], ...] | None) -> ToolOffer:
    """Return the definitions of all tools; with None for the workspaces, without the tools of memory.

    The result is cached, since a chat asks for it before every request.
    """
    memory = [] if joined is None else [(each, each.parameters_where(joined)) for each in _MEMORY.values()]
    others = [(each, each.parameters) for each in (*MACHINE, _TODO)]
    made = tuple(
        {"name": each.name, "description": each.description, "parameters": parameters}
        for each, parameters in (*memory, *others)
    )
    return ToolOffer(made, count_tools(made, DEFAULT_RATIO))


# ---------------------------------------------------------------- a call


def run_call(chat: Chat, call: Call) -> ToolResult:
    """Run a tool call of the model and return its result; an error of the tool becomes the result, too."""
    chat.screen.dim(f"⚒ {call.name} {_one_line(call.arguments)}")
    try:
        return _result(call, _run_checked(chat, call))
    except VadeError as error:
        message = f"{error}: {error.hint}"
    except BrokenPipeError:  # the reader of the output has ended
        raise
    except OSError as error:
        message = f"system error: {error.strerror or error}"
    chat.screen.dim(f"  {_one_line(message)}")
    return _result(call, message, error=True)


def stopped_result(call: Call) -> ToolResult:
    """Return the result of a tool call that the person stopped."""
    return _result(call, STOPPED, error=True)


def _run_checked(chat: Chat, call: Call) -> str:
    arguments = _arguments(call.arguments)
    if call.name == TODO:
        return chat.engine.todo({name: value for name, value in arguments.items() if value is not None})
    if call.name in _MACHINE:
        return _on_machine(chat, _MACHINE[call.name], arguments)
    if call.name not in _MEMORY or chat.settings.incognito:
        offered = ", ".join(str(each["name"]) for each in chat.offered())
        raise UsageError(f"there is no tool {call.name[:60]!r}", hint=f"the tools are {offered or 'none'}")
    plan = _MEMORY[call.name].planned(arguments)
    if isinstance(plan, Write):
        return _to_text(_make_write(chat, call.name, plan))
    return shorten_result(_to_text(plan.do(chat.callers.reader())))


def _arguments(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the arguments are not JSON: {error}", hint="send one JSON object") from error
    if not isinstance(given, dict):
        raise UsageError("the arguments are not a JSON object", hint="send one JSON object")
    return given


def _result(call: Call, text: str, *, error: bool = False) -> ToolResult:
    return ToolResult(call.id, (Text(clean_text(text)),), name=call.name, error=error)


def _to_text(value: Mapping[str, Any]) -> str:
    return json.dumps(clean_value(value), ensure_ascii=False)


# ---------------------------------------------------------------- on the machine


def _on_machine(chat: Chat, tool: MachineTool, sent: Mapping[str, Any]) -> str:
    given = parse_arguments(tool.arguments, sent)
    project = chat.person.caller.project
    root = project.root if project is not None else Path.cwd()
    leads_out = "path" in given and not is_inside(root, given["path"] or ".")
    if leads_out or tool.name not in chat.allowed:
        _confirm(chat, tool, given, leads_out=leads_out)
    result = tool.run(root, **given)
    chat.screen.dim(f"  {len(result.splitlines()):,} lines, {len(result):,} characters")
    return result


def _confirm(chat: Chat, tool: MachineTool, given: Mapping[str, Any], *, leads_out: bool) -> None:
    """Ask the person whether a tool may run; raise Refused if not."""
    if not chat.screen.asks():
        raise Refused(
            f"{tool.name} needs confirmation, and this is not a terminal",
            hint=f"`--allow {tool.name}` allows it",
        )
    where = " outside the project" if leads_out else ""
    chat.screen.say(f"The model asks for {tool.name}{where}:")
    for name, value in given.items():
        if value is not None:
            chat.screen.say(_format_argument(name, value))
    letter = chat.screen.ask("Allow it?", "yn" if leads_out else "yna")
    if letter == "n":
        raise NO
    if letter == "a":
        chat.allowed.add(tool.name)


# ---------------------------------------------------------------- writes to memory


def _make_write(chat: Chat, name: str, write: Write) -> Mapping[str, Any]:
    """Carry out a write of the model if the settings or the person agree; queue it without a terminal.

    The person is shown exactly the text that is then saved.
    """
    scope = Scope(write.scope)
    consent = chat.settings.approval.before("chat", scope)
    if consent is Consent.DENY:
        raise Refused("an agent may not write in this chat", hint="the user can, with /remember")
    arguments = {key: _redact(chat, value, scope) for key, value in write.arguments.items()}
    others = (
        scope.rule.others or arguments.get("team") is not None
    )  # others read it, so each write is asked about
    always, letter = name in chat.allowed and not others, ""
    if consent is Consent.ASK and not always:
        if not chat.screen.asks():
            pending = chat.agent.requests.propose(write.operation, arguments, scope=scope, door="chat")
            message = f"pending: `vade review approve` lists it as {pending.id[:12]}"
            return {"outcome": "waiting", "approval": pending.id, "message": message}
        chat.screen.say(f"The model asks to {write.operation.replace('_', ' ')} ({scope} memory):")
        for key, value in arguments.items():
            if value not in (None, [], "", False) and key not in _OWN:
                chat.screen.say(_format_argument(key, value))
        if write.operation == "forget":
            record = chat.agent.show(str(arguments["name"]), scope=scope)
            chat.screen.say(_format_argument("text", record.text))
        takes = write.operation in _TAKES
        letter = chat.screen.ask("Forget it?" if takes else "Save it?", "yn" if takes else "yna")
        if letter == "n":
            raise NO
        if letter == "a":
            chat.allowed.add(name)
    done = _perform(chat, write, arguments, agreed=letter == "y")
    chat.screen.dim(f"  {done.get('outcome', 'done')} {done.get('key', done.get('path', ''))}".rstrip())
    return done


def _perform(chat: Chat, write: Write, arguments: Mapping[str, Any], *, agreed: bool) -> Mapping[str, Any]:
    """Carry out a write; a change of a person's own record is queued, or approved at once if `agreed`."""
    try:
        done = write.render(chat.agent.requests.perform(write.operation, arguments))
    except PendingReview as error:
        done = {"outcome": "waiting", "approval": error.approval, "message": f"{error}: {error.hint}"}
    if not agreed or done["outcome"] != "waiting" or not chat.person.caller.decides:
        return done
    chat.person.review.approve(str(done["approval"]))
    made = "forgotten" if write.operation == "forget" else "replaced"
    return {
        name: value
        for name, value in {**done, "outcome": made}.items()
        if name not in ("approval", "message")
    }


def _redact(chat: Chat, value: Any, scope: Scope) -> Any:
    """Return a value as it will be saved, with its secrets removed before the person is asked."""
    if isinstance(value, str):
        return gate_secrets(value, chat.settings.secrets.in_scope(scope))[0]
    if isinstance(value, list | tuple):
        return [_redact(chat, each, scope) for each in value]
    return value


def _format_argument(name: str, value: Any) -> str:
    """Return an argument's name and value as text, with hidden characters made visible."""
    text = spelled(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    first, *rest = f"{name}: {text}".split("\n")
    return "\n".join([f"  {first}", *(f"    {line}" for line in rest)])


def _one_line(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= _LINE else f"{line[:_LINE]} …"
