"""What the model may ask for: memory, the machine, a to-do list; and who is asked before that.

Nothing a model asks for is trusted: arguments are checked, and a failure of any kind is told to the model as
the result of its call.
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
from vademecum.interfaces.tools import core, read_joined
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
_READ = 8 * 1024 * 1024  # bytes of a file that are looked at
_PRINTED = 16 * 1024 * 1024  # bytes that a program may print
_PAUSE = 0.02  # seconds between two looks at how much that is
Root = os.PathLike[str]
NO = Refused("the user declined this", hint="leave it unchanged, and do not ask again with other words")
STOPPED = "[stopped by the user before it finished]"
TODO = core.todo.name
_SHARE = 5  # of the window, which the schemas may take before only the most needed tools are offered
_LEAST_SHARE = 2  # of a window so small that even those leave no room for a conversation
_NEEDED = ("memory_store", "memory_search", "memory_get", "read_file", "run_command")
_LINE = 100
_TAKES = ("forget", "clear", "prune_knowledge")  # operations that take away, each of which is asked about
_OWN = ("slug", "scope")  # arguments of ours that say nothing to a person

# ---------------------------------------------------------------- the tools that touch the machine
# Each has a time limit and a limit to what it gives back, is declared by its signature, and asks nobody:
# whoever calls has.


class Ran(NamedTuple):
    """What a program printed, and its exit code or why it was stopped."""

    said: str
    code: int | None
    stopped: str = ""


def inside(root: Root, path: str) -> bool:
    """Whether a path leads into the project, links followed."""
    real = os.path.realpath(os.path.join(root, os.path.expanduser(path)))
    top = os.path.realpath(root)
    return real == top or real.startswith(top.rstrip(os.sep) + os.sep)


def read_file(
    root: Root,
    path: Annotated[str, "The file, relative to the project."],
    start: Annotated[int | None, "The first line; starts at 1.", Span(1)] = None,
    lines: Annotated[int | None, "The number of lines; default: all.", Span(1)] = None,
) -> str:
    """Lines of a text file with their numbers."""
    found = _found(root, path)
    if not stat.S_ISREG(os.stat(found).st_mode):  # a pipe would be waited for, a device never ends
        raise UsageError(f"{path} is not a regular file", hint="pass the path of a text file in the project")
    with open(found, "rb") as file:
        content = file.read(_READ + 1)
    if b"\0" in content[:8192]:
        raise UsageError(f"{path} is not a text file", hint="use a program for its format")
    first = (start or 1) - 1
    written = clean_lines(content[:_READ].decode(errors="replace")).splitlines()
    chosen = written[first : None if lines is None else first + lines]
    told = "\n".join(f"{number}\t{line}" for number, line in enumerate(chosen, first + 1))
    more = "\n[more lines follow]" if len(content) > _READ else ""
    return capped(told + more) or "[no such lines]"


def list_files(
    root: Root,
    path: Annotated[str | None, "The folder, relative to the project; default: its root."] = None,
) -> str:
    """The names in a folder, folders with a slash."""
    found = _found(root, path or ".")
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
    """Lines that match a regular expression.

    In a process of its own: a pattern that never ends cannot be stopped in this one.
    """
    _found(root, path or ".")
    # -P: what lies in the project is looked through, never imported.
    program = [sys.executable, "-P", "-m", "vademecum.interfaces.chat.grep"]
    ran = run([*program, pattern, path or "."], root, seconds=GREP_SECONDS)
    if ran.code == 2:
        raise UsageError(ran.said.strip() or "the pattern cannot be used")
    note = f"[{ran.stopped}: not everything was searched]" if ran.stopped else ""
    return f"{ran.said.strip()}\n{note}".strip()


def run_command(
    root: Root,
    command: Annotated[str, "The command."],
    seconds: Annotated[int | None, "The timeout; default: 60.", Span(1, 600)] = None,
) -> str:
    """What a shell command prints, and how it ended."""
    shell = ["cmd", "/c"] if sys.platform == "win32" else ["/bin/sh", "-c"]
    ran = run([*shell, command], root, seconds=seconds or SECONDS)
    ended = ran.stopped or f"exit code {ran.code}"
    return f"{ran.said.rstrip()}\n[{ended}]".lstrip()


def run(command: list[str], root: Root, *, seconds: float) -> Ran:
    """Run a program, and everything it starts, for so long and until it has printed so much at most."""
    with tempfile.TemporaryFile() as out:  # not a pipe: who leaves a process behind would keep it open
        process = subprocess.Popen(
            command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code, stopped = _waited(process, out.fileno(), seconds)
        finally:  # also when a person presses Ctrl-C
            _end(process)
        size = out.tell() if out.seek(0, os.SEEK_END) else 0
        out.seek(0)
        head = out.read(LARGEST * 2)
        if size > len(head):
            out.seek(max(len(head), size - LARGEST // 2))
            head += b"\n" + out.read()
    return Ran(capped(head.decode(errors="replace")), code, stopped)


def _waited(process: subprocess.Popen[bytes], out: int, seconds: float) -> tuple[int | None, str]:
    """The exit code, or why there is none yet and the program has to be stopped.

    How much is printed is looked at, not limited by the kernel: its limit would hold for every file.
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


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program with all that it started."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def capped(text: str) -> str:
    """A text of bearable length: its beginning and its end, without what looks like a secret."""
    text = clean_text(text)
    if len(text) <= LARGEST:
        return text
    half = LARGEST // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def _found(root: Root, path: str) -> str:
    found = os.path.join(root, os.path.expanduser(path))
    if "\0" in found or not os.path.exists(found):
        raise NotFound(f"there is no {path[:200]!r}", hint="list the parent folder first")
    return found


# ---------------------------------------------------------------- what is offered


@dataclass(frozen=True, slots=True)
class MachineTool:
    """A tool that touches the machine; `a` allows it for what lies in the project alone."""

    run: Callable[..., str]
    description: str

    @property
    def name(self) -> str:
        """How it is called."""
        return self.run.__name__

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What may be sent."""
        return arguments_of(self.run)

    @property
    def parameters(self) -> dict[str, Any]:
        """What may be sent, as JSON Schema."""
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
_TODO = core.todo.without_retries()  # a chat never sends a call twice
_MEMORY = {each.name: each.without_retries() for each in core.CORE if each is not core.todo}


class ToolOffer(NamedTuple):
    """Tools as a model is sent them, and about how many tokens they are."""

    schemas: tuple[Any, ...]
    tokens: int


def names() -> list[str]:
    """Every tool there is."""
    return [*_MEMORY, *_MACHINE, TODO]


def schemas(chat: Chat) -> list[Any]:
    """The tools that are offered to this model: all, or in a small window the most needed ones."""
    if not chat.tools_on or chat.model is None:
        return []
    incognito = chat.settings.incognito
    offer = _offer(None if incognito else read_joined(chat.person.home.path))
    if offer.tokens * _SHARE <= chat.window:
        return list(offer.schemas)
    needed = [
        {**each, "description": each["description"].split("\n\n", 1)[0]}
        for each in offer.schemas
        if each["name"] in _NEEDED
    ]
    # By what is said of the window: one that a refusal makes that small may be a server's error.
    return needed if count_tools(needed, DEFAULT_RATIO) * _LEAST_SHARE <= chat.assumed else []


@functools.lru_cache(maxsize=8)
def _offer(joined: tuple[tuple[str, str], ...] | None) -> ToolOffer:
    """Made once for the workspaces that were joined, or without memory: a chat offers its tools each time."""
    memory = [] if joined is None else [(each, each.parameters_where(joined)) for each in _MEMORY.values()]
    others = [(each, each.parameters) for each in (*MACHINE, _TODO)]
    made = tuple(
        {"name": each.name, "description": each.description, "parameters": parameters}
        for each, parameters in (*memory, *others)
    )
    return ToolOffer(made, count_tools(made, DEFAULT_RATIO))


# ---------------------------------------------------------------- a call


def call(chat: Chat, asked: Call) -> ToolResult:
    """Do what one call asks for; whatever goes wrong is the result."""
    chat.screen.dim(f"⚒ {asked.name} {_line(asked.arguments)}")
    try:
        return _result(asked, _done(chat, asked))
    except VadeError as error:
        said = f"{error}: {error.hint}"
    except BrokenPipeError:  # nobody reads any more
        raise
    except OSError as error:
        said = f"system error: {error.strerror or error}"
    chat.screen.dim(f"  {_line(said)}")
    return _result(asked, said, error=True)


def stopped(asked: Call) -> ToolResult:
    """The result of a call that a person stopped."""
    return _result(asked, STOPPED, error=True)


def _done(chat: Chat, asked: Call) -> str:
    given = _arguments(asked.arguments)
    if asked.name == TODO:
        return chat.engine.todo({name: value for name, value in given.items() if value is not None})
    if asked.name in _MACHINE:
        return _on_machine(chat, _MACHINE[asked.name], given)
    if asked.name not in _MEMORY or chat.settings.incognito:
        offered = ", ".join(str(each["name"]) for each in chat.offered())
        raise UsageError(f"there is no tool {asked.name[:60]!r}", hint=f"the tools are {offered or 'none'}")
    plan = _MEMORY[asked.name].planned(given)
    if isinstance(plan, Write):
        return _told(_written(chat, asked.name, plan))
    return capped(_told(plan.do(chat.callers.reader())))


def _arguments(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the arguments are not JSON: {error}", hint="send one JSON object") from error
    if not isinstance(given, dict):
        raise UsageError("the arguments are not a JSON object", hint="send one JSON object")
    return given


def _result(asked: Call, text: str, *, error: bool = False) -> ToolResult:
    return ToolResult(asked.id, (Text(clean_text(text)),), name=asked.name, error=error)


def _told(value: Mapping[str, Any]) -> str:
    return json.dumps(clean_value(value), ensure_ascii=False)


# ---------------------------------------------------------------- on the machine


def _on_machine(chat: Chat, tool: MachineTool, sent: Mapping[str, Any]) -> str:
    given = parse_arguments(tool.arguments, sent)
    project = chat.person.caller.project
    root = project.root if project is not None else Path.cwd()
    leads_out = "path" in given and not inside(root, given["path"] or ".")
    if leads_out or tool.name not in chat.allowed:
        _agreed(chat, tool, given, leads_out=leads_out)
    said = tool.run(root, **given)
    chat.screen.dim(f"  {len(said.splitlines()):,} lines, {len(said):,} characters")
    return said


def _agreed(chat: Chat, tool: MachineTool, given: Mapping[str, Any], *, leads_out: bool) -> None:
    """Ask a person; raises for a no."""
    if not chat.screen.asks():
        raise Refused(
            f"{tool.name} needs confirmation, and this is not a terminal",
            hint=f"`--allow {tool.name}` allows it",
        )
    where = " outside the project" if leads_out else ""
    chat.screen.say(f"The model asks for {tool.name}{where}:")
    for name, value in given.items():
        if value is not None:
            chat.screen.say(_shown(name, value))
    said = chat.screen.ask("Allow it?", "yn" if leads_out else "yna")
    if said == "n":
        raise NO
    if said == "a":
        chat.allowed.add(tool.name)


# ---------------------------------------------------------------- writes to memory


def _written(chat: Chat, name: str, write: Write) -> Mapping[str, Any]:
    """Make a write once the settings or a person agree to exactly what is then kept."""
    scope = Scope(write.scope)
    consent = chat.settings.approval.before("chat", scope)
    if consent is Consent.DENY:
        raise Refused("an agent may not write in this chat", hint="the user can, with /remember")
    arguments = {key: _gated(chat, value, scope) for key, value in write.arguments.items()}
    others = scope.rule.others or arguments.get("team") is not None  # who read it: each time is asked
    always, said = name in chat.allowed and not others, ""
    if consent is Consent.ASK and not always:
        if not chat.screen.asks():
            pending = chat.agent.requests.propose(write.operation, arguments, scope=scope, door="chat")
            told = f"pending: `vade approve` lists it as {pending.id[:12]}"
            return {"outcome": "waiting", "approval": pending.id, "message": told}
        chat.screen.say(f"The model asks to {write.operation.replace('_', ' ')} ({scope} memory):")
        for key, value in arguments.items():
            if value not in (None, [], "", False) and key not in _OWN:
                chat.screen.say(_shown(key, value))
        if write.operation == "forget":
            record = chat.agent.show(str(arguments["name"]), scope=scope)
            chat.screen.say(_shown("text", record.text))
        takes = write.operation in _TAKES
        said = chat.screen.ask("Forget it?" if takes else "Save it?", "yn" if takes else "yna")
        if said == "n":
            raise NO
        if said == "a":
            chat.allowed.add(name)
    done = _performed(chat, write, arguments, agreed=said == "y")
    chat.screen.dim(f"  {done.get('outcome', 'done')} {done.get('key', done.get('path', ''))}".rstrip())
    return done


def _performed(chat: Chat, write: Write, arguments: Mapping[str, Any], *, agreed: bool) -> Mapping[str, Any]:
    """Make a write; what it would take of a person's waits, unless they agreed to it right here."""
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


def _gated(chat: Chat, value: Any, scope: Scope) -> Any:
    """A value as it will be kept: what is secret in it is gone before anybody is asked."""
    if isinstance(value, str):
        return gate_secrets(value, chat.settings.secrets.in_scope(scope))[0]
    if isinstance(value, list | tuple):
        return [_gated(chat, each, scope) for each in value]
    return value


def _shown(name: str, value: Any) -> str:
    """An argument with everything written out that could hide in it."""
    text = spelled(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    first, *rest = f"{name}: {text}".split("\n")
    return "\n".join([f"  {first}", *(f"    {line}" for line in rest)])


def _line(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= _LINE else f"{line[:_LINE]} …"
