from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from cases import every_case
from vademecum.context import silent_turns as flushes
from vademecum.context.silent_turns import FlushNotes, drop_known_notes, flush
from vademecum.transcripts import Message, Role, Text, ToolCall

from .hosts import FACT, Asked, ScriptedHost

TALK = [Message(Role.USER, (Text("The staging database moved to db7."),), id="u")]


def calls(*pairs: tuple[str, str]) -> Message:
    made = (ToolCall(f"c{at}", name, arguments) for at, (name, arguments) in enumerate(pairs))
    return Message(Role.ASSISTANT, tuple(made))


def test_what_the_model_lists_lands_in_the_journal_of_the_local_day() -> None:
    zone = timezone(timedelta(hours=9))
    host = ScriptedHost(lambda _: FACT, time=datetime(2026, 11, 15, 20, 0, tzinfo=UTC).astimezone(zone))
    assert flush(TALK, host) == "written"
    assert host.days == {"2026-11-16": f"{FACT}\n"}
    assert "2026-11-16" in host.asked[0].messages[-1].text
    assert host.asked[0].messages[:-1] == TALK


def test_a_flush_that_crosses_midnight_writes_to_the_day_it_is_when_it_writes() -> None:
    def slow(_: Asked) -> str:
        host.time += timedelta(minutes=2)
        return FACT

    host = ScriptedHost(slow, time=datetime(2026, 11, 15, 23, 59, tzinfo=UTC))
    assert flush(TALK, host) == "written"
    assert list(host.days) == ["2026-11-16"]


@pytest.mark.parametrize("reply", ["NO_REPLY", "no_reply.", "**NO_REPLY** nothing to store"])
def test_a_silent_reply_writes_nothing(reply: str) -> None:
    host = ScriptedHost(lambda _: reply)
    assert flush(TALK, host) == "nothing"
    assert not host.days


def test_tools_write_to_the_journal_and_keep_facts() -> None:
    reply = calls(
        (flushes.JOURNAL_TOOL, json.dumps({"text": "- one\nline"})),
        (flushes.RECORD_TOOL, json.dumps({"text": "db7 is staging"})),
    )
    host = ScriptedHost(lambda _: reply)
    assert flush(TALK, host) == "written"
    assert host.journal() == "- one line\n"
    assert host.records == ["db7 is staging"]


def test_what_the_journal_already_says_is_not_written_again() -> None:
    host = ScriptedHost(lambda _: FACT)
    assert [flush(TALK, host) for _ in range(3)] == ["written", "nothing", "nothing"]
    assert host.journal() == f"{FACT}\n"
    notes = FlushNotes(("The staging  database moved to DB7", "Another thing", "another thing."))
    assert drop_known_notes(notes, host.journal()) == FlushNotes(("Another thing",))


@pytest.mark.parametrize("why", ["read-only", "incognito"])
def test_where_nothing_may_be_written_the_model_is_not_even_asked(why: str) -> None:
    host = ScriptedHost(lambda _: FACT, barred=why)
    assert flush(TALK, host) == f"skipped:{why}"
    assert not host.asked


def test_without_a_model_the_flush_is_skipped() -> None:
    assert flush(TALK, ScriptedHost()) == "skipped:no model"


@every_case(
    "reply",
    [
        None,
        42,
        b"- bytes",
        {"role": "assistant"},
        "",
        "I have nothing to add.",
        "NO_REPLYING is no word",
        calls(("bash", "{}")),
        calls((flushes.JOURNAL_TOOL, "not json")),
        calls((flushes.JOURNAL_TOOL, "[1]")),
        calls((flushes.JOURNAL_TOOL, '{"text": 3}')),
    ],
)
def test_nonsense_is_a_failure_and_writes_nothing(reply: Any) -> None:
    host = ScriptedHost(lambda _: reply)
    assert flush(TALK, host).startswith("failed:")
    assert not host.days
    assert not host.records


@every_case("name", ["complete", "barred", "journal", "note", "now"])
def test_a_callback_that_raises_is_a_failure(name: str) -> None:
    class Broken(ScriptedHost):
        def __getattribute__(self, asked: str) -> Any:
            if asked == name:
                raise RuntimeError("disk\nfull")
            return super().__getattribute__(asked)

    host = Broken()
    host.reply = lambda _: FACT
    assert flush(TALK, host) == "failed:RuntimeError: disk full"


def test_a_model_that_hangs_is_left_alone_after_its_time() -> None:
    done = threading.Event()

    def hang(_: Asked) -> str:
        done.wait(20)
        return FACT

    host = ScriptedHost(hang)
    assert flush(TALK, host, seconds=0.05) == "failed:no answer in 0.05 s"
    done.set()
    assert not host.days
