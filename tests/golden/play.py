"""Play the script in an empty folder and write down everything that came out.

Started by the test as a process of its own, with `child/sitecustomize.py` before all else: one clock, ids
from a counter. Each command runs in a fork, so that nothing stays loaded or cached between two of them.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import re
import runpy
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

import script  # noqa: E402  # beside this file

BEGIN = script.BEGIN
HEAVY = ("vademecum.adapters", "vademecum.interfaces.chat")


class Stage:
    """A person's folder, a project and a home, and what was done in them so far."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.person, self.project, self.other = top / "person", top / "project", top / "other"
        for folder in (self.person, self.project, self.other):
            folder.mkdir()
        self.home = self.person / ".vade"
        self.steps = 0
        os.environ.update(
            HOME=str(self.person),
            VADE_HOME=str(self.home),
            USER="ada",
            TZ="UTC",
            LC_ALL="C.UTF-8",
            COLUMNS="100",
            NO_COLOR="1",
            PYTHONHASHSEED="0",
            VADE_LIMITS_HOOK_START="9s",
            VADE_LIMITS_HOOK_PROMPT="9s",
            GIT_CONFIG_GLOBAL="/dev/null",
            **script.SETTINGS,
        )
        os.chdir(self.project)

    def tick(self) -> None:
        """Time goes on between two steps and stands still within one."""
        self.steps += 1
        os.environ["GOLDEN_NOW"] = (BEGIN + timedelta(minutes=7 * self.steps)).isoformat()

    def command(self, words: list[str], given: str = "") -> dict[str, Any]:
        """One command line as a process: what it wrote, and its exit code."""
        self.tick()
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            return self._forked(words, given, files)

    def _forked(self, words: list[str], given: str, files: list[Any]) -> dict[str, Any]:
        files[0].write(given.encode())
        files[0].seek(0)
        child = os.fork()
        if not child:
            code = 70
            try:
                for number, file in enumerate(files):
                    os.dup2(file.fileno(), number)
                sys.stdin = os.fdopen(0, closefd=False)
                sys.stdout = os.fdopen(1, "w", closefd=False)
                sys.stderr = os.fdopen(2, "w", closefd=False)
                sys.argv = ["vade", *words]
                try:
                    runpy.run_module("vademecum", run_name="__main__", alter_sys=False)
                except SystemExit as leave:
                    code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        out, err = (self._read(file) for file in files[1:])
        return {"code": os.waitstatus_to_exitcode(status), "out": out, "err": err}

    def hook(self, agent: str, event: str, given: dict[str, Any]) -> dict[str, Any]:
        """One call of a hook, as the agent makes it."""
        self.tick()
        payload = json.dumps({"cwd": str(self.project), **given})
        done = subprocess.run(
            [sys.executable, "-m", "vademecum", "hook", agent, event],
            input=payload, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return {"code": done.returncode, "out": self.plain(done.stdout), "err": self.plain(done.stderr)}

    def mcp(self, requests: list[dict[str, Any]]) -> list[Any]:
        """A conversation with `vade mcp`, one request after the other."""
        self.tick()
        with subprocess.Popen(
            [sys.executable, "-m", "vademecum", "mcp", "--tools", "all", "--session", "golden"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ) as server:  # fmt: skip
            assert server.stdin
            assert server.stdout
            answers = []
            for number, request in enumerate(requests):
                notice = request["method"].startswith("notifications/")
                whole = {"jsonrpc": "2.0", **request, **({} if notice else {"id": number})}
                server.stdin.write(json.dumps(whole) + "\n")
                server.stdin.flush()
                while not notice:
                    answer = json.loads(server.stdout.readline())
                    if answer.get("id") == number:
                        answers.append(json.loads(self.plain(json.dumps(answer, sort_keys=True))))
                        break
            server.stdin.close()
            server.wait(60)
        return answers

    def tree(self) -> dict[str, str]:
        """Every file of the home and what is in it, but for what is made anew from the rest."""
        found = {}
        for path in sorted(self.home.rglob("*")):
            name = path.relative_to(self.home).as_posix()
            if path.is_file() and not script.DERIVED.match(name):
                found[self.plain(name)] = self.plain(path.read_bytes().decode("utf-8", "surrogateescape"))
        return found

    def _read(self, file: Any) -> str:
        file.seek(0)
        return self.plain(file.read().decode("utf-8", "surrogateescape"))

    def plain(self, text: str) -> str:
        """A text without the folder it was made in, and without what no clock can hold still."""
        for python in (f"'{sys.executable}'", sys.executable):  # quoted when there is a space in it
            text = text.replace(python, "<python>")
        text = text.replace(str(self.top), "<top>").replace(self.top.name, "<name>")
        text = re.sub(
            r"\b(repository|projects|trusted)/[0-9a-f]{12,24}\b", r"\1/<id>", text
        )  # from the folder
        text = re.sub(r'("mark":\[\d+),\d+\]', r"\1,0]", text)  # when the file was written
        text = re.sub(r"\b20\d\d-1\d-\d\dT[\d:.]+Z|\b20(?!26)[2-9]\d-\d\d-\d\dT[\d:.]+Z", "<now>", text)
        text = re.sub(r"\b20\d\d-\d\d-\d\d(?=  <top>)", "<today>", text)  # when a project's file was written
        text = re.sub(r'("above": \[)[^]]*', r"\1", text)  # the numbers of processes
        text = re.sub(r"\b\d+(\.\d+)? (ms|s)\b(?! ago)", "<time>", text)
        text = re.sub(r"\b[\d,]+(\.\d+)? (kB|KB|MB|KiB|MiB|bytes)\b", "<size>", text)
        return re.sub(r'"(seconds|took|ms|size|bytes|pid|mtime)": [\d.]+', r'"\1": 0', text)


def load() -> None:
    """Import the package once, so that a fork need not; what is an extra may be missing.

    Adapters and the chat load large libraries, which few commands need and which make each fork slower.
    """
    import vademecum

    for found in pkgutil.walk_packages(vademecum.__path__, "vademecum."):
        if not found.name.endswith("__main__") and not found.name.startswith(HEAVY):
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)


def play(top: Path) -> dict[str, Any]:
    """Everything the script does, with what came out, in order."""
    stage = Stage(top)
    load()
    script.prepare(stage)
    commands: dict[str, Any] = {}
    for number, (words, given) in enumerate(script.commands(stage)):
        commands[f"{number:03} {stage.plain(' '.join(words))}"] = stage.command(words, given)
    hooks = {
        f"{number:02} {agent} {event}": stage.hook(agent, event, given)
        for number, (agent, event, given) in enumerate(script.hooks(stage))
    }
    mcp = stage.mcp(script.requests())
    last: dict[str, Any] = {}
    for number, words in enumerate(script.LAST):
        last[f"{number:02} {' '.join(words)}"] = stage.command(words)
    return {"commands": commands, "hooks": hooks, "mcp": mcp, "last": last, "home": stage.tree()}


def _hit(passage: Any) -> list[Any]:
    return [passage.path, passage.start, passage.end, round(passage.score, 5), passage.match]


def rankings(top: Path) -> list[Any]:
    """What five hundred questions find, in which order, with which scores."""
    from vademecum import Memory

    home = top / "rankings"
    script.write_notes(home)
    os.environ["GOLDEN_NOW"] = script.ASKED
    os.environ["VADE_EMBEDDER"] = "static"  # reading so many notes would take longer than all the rest
    subprocess.run(
        [sys.executable, "-m", "vademecum", "index", "--home", str(home)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    found = []
    memory = Memory.open(home=home, cwd=top)
    for question in script.questions():
        answer = memory.search(question)
        found.append([question, answer.match, answer.hidden, [_hit(each) for each in answer.results]])
    memory.close()
    return found


if __name__ == "__main__":
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    made = {"runs": play(folder), "rankings": rankings(folder)}
    out.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        text = json.dumps(content, indent=1, ensure_ascii=True, sort_keys=name == "runs")
        (out / f"{name}.json").write_text(text + "\n", "utf-8")
