"""How long an agent waits for each of its hooks, and how many hooks are answered on a busy machine.

Every session is a new one after a change to memory, as an agent begins it, and the limits are the default
ones. Times are ratios to a bare interpreter. The busy machine has two cores and eight processes that start
others, compute and write.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROUNDS = 25
COUNT = 25  # sessions on the busy machine; `python -m bench.hooks --count 200` for the published figures
RECORDS = 40
OLDER = 20  # records about which prompts ask: the block has no room for them
LOAD = 8  # busy processes
CORES = 2
BARE = "python -c pass"
RULE = "Never go back behind change number {} of this memory"
_GATEWAY = "The payment gateway number {} is retried {} times before it gives up."
_OLDER = "The export of depot {} runs {} minutes after midnight."
_QUESTION = "When does the export of depot {} run?"
_BUSY = """import os, subprocess, sys
path = os.path.join(sys.argv[1], str(os.getpid()))
while True:
    subprocess.run([sys.executable, "-c", "pass"], check=False)
    sum(number * number for number in range(500_000))
    with open(path, "wb") as file:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
"""


class Reply(NamedTuple):
    """What a hook answered, and how long that took."""

    text: str
    seconds: float


def measure() -> list[dict[str, object]]:
    return [*_ratios(), *answered(COUNT, 0), *answered(COUNT, LOAD)]


class Session:
    """A person's folder with a memory, and the hooks of an agent that works there."""

    def __init__(self, folder: Path, *, older: int = 0) -> None:
        self.folder, self.home = folder, folder / "home"
        self._memory = connect(home=self.home, cwd=folder, origin=Origin.USER, actor="human:bench")
        for number in range(older):
            self._memory.store(_OLDER.format(number, number % 7), key=f"depot-{number}")
        for number in range(RECORDS):
            self._memory.store(_GATEWAY.format(number, number % 7), key=f"gateway-{number}", tags=["payment"])
        self._memory.search("payment gateway")
        self._changes = 0
        self._transcript = folder / ".claude" / "projects" / "bench" / "session.jsonl"
        self._transcript.parent.mkdir(parents=True)
        self.talk(200)
        # Bytecode must be cached, as it is for anyone who has installed the package.
        environment = {
            name: value
            for name, value in os.environ.items()
            if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith("VADE_")
        }
        self._environment = {**environment, "HOME": str(folder), "VADE_HOME": str(self.home)}
        self._vade = str(Path(sys.executable).with_name("vade"))

    def change(self) -> str:
        """Change memory, and return the words by which the change is known."""
        self._changes += 1
        text = RULE.format(self._changes)
        self._memory.store(text, key="changes", mode="replace")
        return text

    def talk(self, turns: int) -> None:
        """Go on with the transcript."""
        with self._transcript.open("a") as file:
            for number in range(turns):
                role = "assistant" if number % 2 else "user"
                line = {
                    "type": role,
                    "uuid": uuid.uuid4().hex,
                    "sessionId": "bench",
                    "cwd": str(self.folder),
                    "timestamp": f"2026-11-15T10:{number // 60 % 60:02}:{number % 60:02}.000Z",
                    "message": {
                        "role": role,
                        "content": [{"type": "text", "text": f"Turn {number}. " * 20}],
                    },
                }
                file.write(json.dumps(line) + "\n")

    def call(self, event: str, session: str, prompt: str = "") -> Reply:
        """Call a hook as Claude Code does."""
        given = {"session_id": session, "cwd": str(self.folder), "prompt": prompt, "source": "startup"}
        given["transcript_path"] = str(self._transcript)
        return self.run([self._vade, "hook", "claude-code", event], json.dumps(given))

    def run(self, words: Sequence[str], given: str = "") -> Reply:
        begun = time.perf_counter()
        done = subprocess.run(
            words,
            check=False,
            env=self._environment,
            cwd=self.folder,
            input=given,
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - begun
        assert (done.returncode, done.stderr) == (0, ""), done
        text = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""
        return Reply(text, seconds)


@contextlib.contextmanager
def opened(*, older: int = 0) -> Iterator[Session]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a hook may go on by itself
        yield Session(Path(folder), older=older)


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Let this machine have two cores, and this many processes that start others, compute and write."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:CORES])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        running = [subprocess.Popen([sys.executable, "-c", _BUSY, folder]) for _ in range(count)]
        try:
            yield
        finally:
            for each in running:
                each.kill()
                each.wait()
            os.sched_setaffinity(0, cores)


def _ratios() -> list[dict[str, object]]:
    """How long an agent waits for each hook on a quiet machine."""
    times: dict[str, list[float]] = {}
    with opened(older=OLDER) as session:
        for round_ in range(ROUNDS + 2):
            id = f"s{round_}"
            session.change()
            replies = {
                BARE: session.run([sys.executable, "-c", "pass"]),
                "session-start": session.call("session-start", id),
                "user-prompt": session.call("user-prompt", id, _QUESTION.format(round_ % OLDER)),
            }
            session.talk(4)
            replies["stop"] = session.call("stop", id)
            time.sleep(0.5)  # what goes on by itself must not be in the way of the next
            replies["pre-compact"] = session.call("pre-compact", id)
            if round_ >= 2:
                for name, reply in replies.items():
                    times.setdefault(name, []).append(reply.seconds)
    bare = statistics.median(times[BARE])
    return [
        {
            "hook": name,
            "p50 ms": round(statistics.median(seconds) * 1000, 1),
            "max ms": round(max(seconds) * 1000, 1),
            "x bare interpreter": round(statistics.median(seconds) / bare, 1),
        }
        for name, seconds in times.items()
    ]


def answered(count: int, load: int) -> list[dict[str, object]]:
    """How many session starts and prompts were answered in time, and how many by the next prompt."""
    starts: list[Reply] = []
    prompts: list[Reply] = []
    made_up = {"session-start": 0, "user-prompt": 0}
    with opened(older=OLDER) as session, busy(load):
        for number in range(count):
            id, told = f"session-{number}", session.change()
            at = number % OLDER
            wanted = _OLDER.format(at, at % 7)
            start = session.call("session-start", id)
            assert wanted not in start.text, "the block had room for it, so the prompt need not bring it"
            prompt = session.call("user-prompt", id, _QUESTION.format(at))
            in_time = told in start.text, wanted in prompt.text
            starts.append(start._replace(text=start.text if in_time[0] else ""))
            prompts.append(prompt._replace(text=prompt.text if in_time[1] else ""))
            texts = start.text + prompt.text
            if not all(in_time):
                texts += session.call("user-prompt", id, "Thank you, now add a button there.").text
            made_up["session-start"] += told in texts and not in_time[0]
            made_up["user-prompt"] += wanted in texts and not in_time[1]
            assert texts.count(told) <= 1, "told twice"
    return [
        {
            "hook": f"{event}, {load} busy processes",
            "p50 ms": round(statistics.median(each.seconds for each in replies) * 1000, 1),
            "max ms": round(max(each.seconds for each in replies) * 1000, 1),
            "answered": f"{sum(bool(each.text) for each in replies)} of {count}",
            "by the next prompt": f"{sum(bool(each.text) for each in replies) + made_up[event]} of {count}",
        }
        for event, replies in (("session-start", starts), ("user-prompt", prompts))
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="sessions (default: %(default)s)")
    parser.add_argument("--load", type=int, default=LOAD, help="busy processes (default: %(default)s)")
    chosen = parser.parse_args()
    for row in answered(chosen.count, chosen.load):
        print(json.dumps(row))
