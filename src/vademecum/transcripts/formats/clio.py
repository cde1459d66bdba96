"""CLIO: `.clio/sessions/<session>.json` in each project, or below `~/.clio`.

One JSON object. `history` is the conversation as CLIO last had it in its window; `yarn` is the archive of
everything said, `stm` the short-term memory. The three overlap, so they are laid over one another: what
`history` no longer has comes out before what followed it, with `archived` in `extra`. The messages are
OpenAI's, with ids and times.

Flagged: the `<thread_summary>` that CLIO puts in place of what it trimmed (`summary`). Told: the session
(its file's name), `session_name`, `working_directory`, `created_at`, the model. `billing.requests` are the
usage; they have no place among the messages and come at the end. Left out: settings, quota, the last
request as it was sent.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from vademecum.transcripts.formats.base import SUMMARY, Unread, Usage, unseen
from vademecum.transcripts.formats.chat import chat_message
from vademecum.transcripts.formats.lines import document
from vademecum.transcripts.formats.values import Found, Telling, count, listed, mapping, moment, text
from vademecum.transcripts.messages import Role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts.formats.base import Seen
    from vademecum.transcripts.messages import Json

_MARKS = (b'"yarn"', b'"stm"', b'"_stateful_markers"', b'"lastGitHubCopilotResponseId"')


class Clio:
    """CLIO's transcripts."""

    name = "clio"

    def folders(self, home: Path) -> Iterator[Path]:
        """Where they are kept below the home; those of a project are in its own `.clio/sessions`."""
        yield home / ".clio" / "sessions"
        yield home / ".clio" / "projects"

    def files(self, folder: Path) -> Iterator[Path]:
        """Every session."""
        yield from sorted(folder.glob("*.json" if folder.name == "sessions" else "*/sessions/*.json"))

    def recognises(self, head: bytes, path: Path) -> bool:
        """By fields that nobody else has, which Perl writes in any order, or by the folder it is in."""
        if path.suffix != ".json" or not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            return False
        kept = path.parent.name == "sessions" and ".clio" in path.parts
        return kept or any(mark in head for mark in _MARKS)

    def read(self, path: Path, seen: Seen = unseen) -> Iterator[Found]:
        """Everything in a file, in order."""
        value, problems = document(path)
        session = mapping(value)
        billing = mapping(session.get("billing"))
        yield from Telling().tell(
            id=text(session.get("session_id")) or path.stem,
            title=text(session.get("session_name")),
            folder=text(session.get("working_directory")),
            created=moment(session.get("created_at")),
            model=text(session.get("selected_model")) or text(billing.get("model")),
        )
        for said, archived in _laid_over(listed(session.get("history")), _archive(session)):
            yield (
                _read(said, archived=archived)
                if isinstance(said, dict)
                else Unread(0, "a message that is no object")
            )
        for request in listed(billing.get("requests")):
            yield from _usage(mapping(request))
        if not problems and not isinstance(value, dict):
            yield Unread(0, "not a session")
        yield from problems


def _archive(session: dict[str, Json]) -> list[Json]:
    """Everything said, from the threads and then whatever only the short-term memory has."""
    said: list[Json] = []
    threads = session.get("yarn")
    threads = mapping(mapping(threads).get("threads")) or threads
    for thread in threads.values() if isinstance(threads, dict) else listed(threads):
        said += listed(thread) or listed(mapping(thread).get("messages"))
    short = session.get("stm")
    short = listed(short) or listed(mapping(short).get("history"))
    known = {_key(each) for each in said}
    return said + [each for each in short if _key(each) not in known]


def _laid_over(history: list[Json], archive: list[Json]) -> Iterator[tuple[Json, bool]]:
    """Both in order, what they share once; with whether only the archive has it."""
    places: defaultdict[str, deque[int]] = defaultdict(deque)
    for at, each in enumerate(archive):
        places[_key(each)].append(at)
    shared = [places[_key(each)].popleft() if places.get(_key(each)) else -1 for each in history]
    met = set(shared)
    done = 0
    for each, at in zip(history, shared, strict=True):
        while done < at:
            if done not in met:
                yield archive[done], True
            done += 1
        yield each, False
    for at in range(done, len(archive)):
        if at not in met:
            yield archive[at], True


def _key(said: Json) -> str:
    """What makes two copies of a message the same; the short-term memory keeps neither ids nor times."""
    value = mapping(said)
    return json.dumps(
        [value.get(name) for name in ("role", "content", "tool_call_id", "tool_calls")], sort_keys=True
    )


def _read(said: dict[str, Json], *, archived: bool) -> Found:
    message = chat_message(said)
    extra = dict(message.extra)
    if archived:
        extra["archived"] = True
    if message.role is Role.SYSTEM and "<thread_summary>" in message.text:
        extra[SUMMARY] = "thread_summary"
    return message._replace(extra=extra)


def _usage(request: dict[str, Json]) -> Iterator[Usage]:
    given, output = count(request.get("prompt_tokens")), count(request.get("completion_tokens"))
    total = count(request.get("total_tokens")) or given + output
    model = text(request.get("model"))
    if total:
        model = "" if model == "unknown" else model
        yield Usage(given, output, total=total, model=model, time=moment(request.get("timestamp")))
