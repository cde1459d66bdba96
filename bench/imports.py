"""How fast transcripts are imported and in how much memory, beside a plain `json.loads` of their lines.

Of another system's memory, how long it takes to come in and, by `undo`, to go again.

Each round is a process of its own, so that the memory is its own too, and `cpu` is what it took of a
processor, whatever else the machine did. The text is what agents read and
print: source files of the standard library as results of tools, notes between them, ids as providers make
them. With `--data`, real transcripts as well, repeated under other ids until they are as many bytes.
"""

from __future__ import annotations

import json
import random
import re
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import notes
from vademecum.agents.registry import find_transcripts_in
from vademecum.memory import connect
from vademecum.store import scopes
from vademecum.store.home import Home
from vademecum.transcripts.importing import import_files
from vademecum.types import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    Rows = list[dict[str, object]]

ROUNDS = 3
FILE = 10_000_000  # bytes of one made-up session
_SESSION = re.compile(rb'"(?:sessionId|session_id|thread_id|id)":\s?"([0-9a-f-]{36})"')


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--megabytes", type=int, default=100, help="how much is imported")
    parser.add_argument("--data", type=Path, help="a folder of real transcripts")


def measure(chosen: argparse.Namespace) -> Rows:
    """Import, import again, and read as JSON; the best of a few rounds each."""
    size = chosen.megabytes * 1_000_000
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "made")
        made.mkdir()
        _make(made, size)
        sources = {"made up": made}
        if chosen.data is not None:
            sources["real, repeated"] = Path(folder, "real")
            _repeat(chosen.data, sources["real, repeated"], size)
        for name, source in sources.items():
            rows.append(_row(name, source))
    return rows


def measure_undo(count: int = 300) -> Rows:
    """How long a bundle of that many records takes to come in, indexed, and to go again."""
    rows: Rows = []
    for turn in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            bundle, project = Path(folder, "bundle"), Path(folder, "project")
            bundle.mkdir()
            project.mkdir()
            talk = notes.notes(10_000_000, seed=turn)
            for number in range(count):
                text = f"---\ntype: project\n---\n# note {number}\n\n{next(talk)}\n"
                (bundle / f"note-{number:04}.md").write_text(text, encoding="utf-8")
            memory = connect(home=Path(folder, "home"), cwd=project, origin=Origin.USER, environ={})
            begun = time.perf_counter()
            report = memory.transfer.import_from("okf", bundle, scope="global")
            come = time.perf_counter()
            _, outcome = memory.care.undo(report.run)
            gone = time.perf_counter()
            assert all(each.done for each in outcome)
        rows.append(
            {
                "records": len(outcome),
                "import s": round(come - begun, 2),
                "undo s": round(gone - come, 2),
                "undo / import": round((gone - come) / (come - begun), 2),
            }
        )
    return sorted(rows, key=lambda row: float(str(row["undo / import"])))[ROUNDS // 2 :][:1]


def _row(name: str, source: Path) -> dict[str, object]:
    runs = []
    for _ in range(ROUNDS):
        command = [sys.executable, "-m", "bench.imports", str(source)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append(json.loads(done.stdout))
    best = {key: min(run[key] for run in runs) for key in runs[0]}
    megabytes = best["bytes"] / 1e6
    return {
        "transcripts": name,
        "MB": round(megabytes),
        "files": round(best["files"]),
        "messages": round(best["messages"]),
        "MB/s": round(megabytes / best["import"], 1),
        "MB/s cpu": round(megabytes / best["import cpu"], 1),
        "again MB/s cpu": round(megabytes / best["again cpu"]),
        "json.loads MB/s cpu": round(megabytes / best["json cpu"], 1),
        "x json.loads": round(best["import cpu"] / best["json cpu"], 1),
        "peak MiB": round(max(run["peak"] for run in runs) / 1024, 1),
        "idle MiB": round(best["idle"] / 1024, 1),
    }


# ---------------------------------------------------------------- the texts


def _make(folder: Path, size: int) -> None:
    """Sessions as Claude Code writes them."""
    chance = random.Random(7)
    sources = _sources(chance)
    talk = notes.notes(10_000_000, seed=7)
    for _ in range(max(size // FILE, 1)):
        session = str(uuid.UUID(int=chance.getrandbits(128)))
        with (folder / f"{session}.jsonl").open("w", encoding="utf-8") as file:
            written = 0
            while written < min(FILE, size):
                for record in _turn(chance, session, next(talk), next(sources)):
                    line = json.dumps(record, ensure_ascii=False) + "\n"
                    file.write(line)
                    written += len(line.encode())


def _sources(chance: random.Random) -> Iterator[str]:
    library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    while True:
        text = chance.choice(library).read_text(encoding="utf-8", errors="replace")
        begin = chance.randrange(max(len(text) - 200, 1))
        yield text[begin : begin + int(chance.paretovariate(1.1) * 300)][:60_000]


def _turn(chance: random.Random, session: str, said: str, source: str) -> list[dict[str, Any]]:
    def line(kind: str, content: Any, **more: Any) -> dict[str, Any]:
        return {
            "parentUuid": str(uuid.UUID(int=chance.getrandbits(128))),
            "isSidechain": False,
            "cwd": "/nonexistent/project",
            "sessionId": session,
            "version": "2.1.0",
            "gitBranch": "main",
            "type": kind,
            "uuid": str(uuid.UUID(int=chance.getrandbits(128))),
            "timestamp": "2026-11-15T08:15:32.123Z",
            "message": {"role": kind, "content": content, **more},
        }

    call = f"toolu_{chance.getrandbits(120):030x}"
    usage = {"input_tokens": 3, "cache_read_input_tokens": chance.randrange(100_000), "output_tokens": 90}
    tool_use = {
        "type": "tool_use",
        "id": call,
        "name": "Read",
        "input": {"file_path": f"/nonexistent/{said[:9]}.py"},
    }
    answer = {"id": f"msg_{chance.getrandbits(96):024x}", "model": "made-up", "usage": usage}
    return [
        line("user", said),
        line("assistant", [{"type": "text", "text": said[::-1]}, tool_use], **answer),
        line("user", [{"type": "tool_result", "tool_use_id": call, "content": source}]),
    ]


def _repeat(data: Path, folder: Path, size: int) -> None:
    """Real transcripts, each time under another session's id."""
    chance = random.Random(8)
    samples = [path for path in sorted(data.rglob("*.jsonl")) if path.stat().st_size > 100_000]
    written = turn = 0
    while samples and written < size:
        turn += 1
        for path in samples:
            content = path.read_bytes()
            for old in {match[1] for match in _SESSION.finditer(content[:20_000])}:
                content = content.replace(old, str(uuid.UUID(int=chance.getrandbits(128))).encode())
            target = folder / str(turn) / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            written += len(content)
            if written >= size:
                return


# ---------------------------------------------------------------- one round, in a process of its own


def _round(source: Path) -> dict[str, float]:
    paths = sorted(path for path in source.rglob("*") if path.is_file())
    found = {"bytes": float(sum(path.stat().st_size for path in paths)), "files": float(len(paths))}
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        (base / "work").mkdir()
        project = scopes.find_project(base / "work", home=base / "home", override="bench")
        home = Home(base / "home", 5)
        caller = scopes.Caller(agent="main", project=project, origin=Origin.USER)
        found["idle"] = _peak()
        for name, outcomes in (("import", {"new", "grown"}), ("again", {"same"})):
            begun, cpu = time.perf_counter(), time.process_time()
            files = list(
                import_files(find_transcripts_in(source, without=home.path), home=home, caller=caller)
            )
            found[name], found[f"{name} cpu"] = time.perf_counter() - begun, time.process_time() - cpu
            found.setdefault("messages", float(sum(each.added for each in files)))
            assert {each.outcome for each in files} <= outcomes, files[0]
        found["peak"] = _peak()
    cpu = time.process_time()
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                json.loads(line)
    found["json cpu"] = time.process_time() - cpu
    return found


def _peak() -> float:
    """KiB; of this program alone, where the system tells: what getrusage gives may be its parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        return float(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1024 if sys.platform == "darwin" else float(most)


if __name__ == "__main__":
    print(json.dumps(_round(Path(sys.argv[1]))))
