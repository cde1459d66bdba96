"""Play labelled sessions in order, with two agents and a person: what is saved, and what in whose name.

    VADE_DATA=FOLDER python -m tools.play_heard [--tune]

Reads `heard/messages.jsonl` of `$VADE_DATA`. The judge is fitted on two thirds of the sessions of each
project, and the last third is played; `--tune` plays another third, with a judge that has not seen it. Each
prompt gets the line that the hook would add. One agent saves each line; another follows a stated rule and
sees no label; a third saves nothing. Each session is heard when it ends. At last a person opens the review
and accepts by a stated rule, without labels. What is saved is right if its message is labelled as worth a
proposal. The messages of `bench/sets/pasted.jsonl` are played as well, to count pasted words in the
person's name.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

from tools import fit_judge
from vademecum.knowledge import judge
from vademecum.memory import connect
from vademecum.store.heard import HeardSession
from vademecum.text import secrets
from vademecum.transcripts import Message, MessageEvent, Role, Text
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.memory.review import PendingItem

# What depends on the moment, asks, or points at something that only the conversation shows.
_PASSING = re.compile(
    r"\?|\b(?:this|that|these|those|it|its|them|now|today|current\w*|above|below|here|i think|maybe|let's"
    r"|can you|could you|please|go ahead|implement|fix)\b",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"\b(?:always|never|must|should|shouldn't|only|prefer|instead of|rather than|from now on|don't|do not"
    r"|want|use|convention|because|since)\b",
    re.IGNORECASE,
)


def saves_each(text: str) -> bool:
    """The first agent: it saves each line that it gets."""
    return bool(text)


def saves_by_rule(text: str) -> bool:
    """The second agent: 4 to 40 words that last and do not depend on the conversation."""
    return 4 <= len(text.split()) <= 40 and not _PASSING.search(text) and bool(_LASTING.search(text))


def accepts(item: PendingItem, confidence: float) -> bool:
    """The person's rule: the second agent's, and the judge is sure or two sessions have said it."""
    return saves_by_rule(item.text) and (item.about.confidence >= confidence or " more" in item.why)


class Play(NamedTuple):
    """What came of some messages: the lines, what was saved of them, and what the person accepted."""

    nudged: list[int]  # numbers of messages
    saved: list[int]
    pending: int
    accepted: list[tuple[str, str, float]]  # the text, its project, and the judge's confidence
    records: int  # in the person's name


def play(messages: Sequence[fit_judge.Heard], agent: Callable[[str], bool], *, confidence: float) -> Play:
    """Play sessions with one agent, and then the review of each project."""
    nudged, saved, accepted = [], [], []
    pending = records = 0
    numbers = {id(each): number for number, each in enumerate(messages)}
    with tempfile.TemporaryDirectory() as top:
        for project, rows in itertools.groupby(messages, key=lambda each: each.project):
            folder = Path(top) / project.replace("/", "-")
            folder.mkdir()
            home = Path(top) / f"{folder.name}-home"
            person = connect(home=home, cwd=folder, origin=Origin.USER, actor="human:x")
            by_hook = connect(home=home, cwd=folder, origin=Origin.TOOL, actor="hook:x")
            writer = connect(home=home, cwd=folder, origin=Origin.AGENT, actor="agent:x")
            assert person.caller.project is not None
            person.store("This project is played", key="played")
            for at, (_, turns) in enumerate(itertools.groupby(rows, key=lambda each: each.session)):
                log, marks = person.sessions.new(id=f"s{at}"), set[str]()
                for each in turns:
                    log.append(MessageEvent(Message(Role.ASSISTANT, (Text(each.before or "Done."),))))
                    log.append(MessageEvent(Message(Role.USER, (Text(each.text),))))
                    line = by_hook.injection.nudge(each.text, without=marks)
                    if line is None:
                        continue
                    marks.add(line.mark)
                    nudged.append(numbers[id(each)])
                    if agent(line.signal.text):
                        writer.store(line.signal.text)
                        saved.append(numbers[id(each)])
                session = HeardSession(person.caller.project.id, log.session, agent="main")
                by_hook.heard.hear(session, log)
                by_hook.heard.settle_saved(log.session)
            items = person.review.inbox(["signal"]).items
            pending += len(items)
            chosen = [each for each in items if accepts(each, confidence)]
            person.review.decide(chosen, yes=True)
            accepted += [(each.text, project, each.about.confidence) for each in chosen]
            records += sum(
                entry.origin is Origin.USER and record.key != "played"
                for record in person.list().records
                for entry in record.live
            )
    return Play(nudged, saved, pending, accepted, records)


def _is_right(text: str, project: str, messages: Sequence[fit_judge.Heard]) -> bool:
    """Whether a statement is in a message that is labelled as worth a proposal."""
    return any(
        each.nudge and each.project == project and text in " ".join(each.text.split()) for each in messages
    )


def _rows(messages: Sequence[fit_judge.Heard], name: str, played: Play, *, show_bars: bool) -> None:
    sure2, sure3 = (
        [number in played.nudged for number, each in enumerate(messages) if each.sure >= sure]
        for sure in (2, 3)
    )
    kept2 = [number in played.saved for number, each in enumerate(messages) if each.sure >= 2]
    right = sum(messages[number].nudge for number in played.nudged)
    saved = sum(messages[number].nudge for number in played.saved)
    good = sum(_is_right(text, project, messages) for text, project, _ in played.accepted)
    print(
        f"| {name} | {len(messages)} | {len(played.nudged) / len(messages):.3f}"
        f" | {fit_judge.wilson(right, len(played.nudged))} | {fit_judge.wilson(sum(sure2), len(sure2))}"
        f" | {fit_judge.wilson(sum(sure3), len(sure3))} | {fit_judge.wilson(saved, len(played.saved))}"
        f" | {fit_judge.wilson(sum(kept2), len(kept2))} | {played.pending}"
        f" | {fit_judge.wilson(good, len(played.accepted))} |"
    )
    hidden = sum(bool(secrets.find(text)) for text, *_ in played.accepted)
    print(f"  in the person's name: {played.records} records, {hidden} with secrets")
    for least in (0.5, 0.6, 0.7, 0.8) if show_bars else ():
        sure = [(text, project) for text, project, confidence in played.accepted if confidence >= least]
        good = sum(_is_right(*each, messages) for each in sure)
        print(f"  with a confidence of {least} or more: {fit_judge.wilson(good, len(sure))}")


def pasted_messages() -> tuple[list[fit_judge.Heard], list[str]]:
    """Return the held-out messages with pasted parts as one-message sessions, and their pasted texts."""
    found, pasted = [], []
    for at, row in enumerate(fit_judge.read_pasted("held")):
        parts = [text for part in row["parts"] for text in part.values()]
        pasted += [text for part in row["parts"] for kind, text in part.items() if kind != "typed"]
        found.append(fit_judge.Heard("pasted", str(at), "", "\n\n".join(parts), bool(row["worth"]), ()))
    return found, [" ".join(each.split()) for each in pasted]


def main() -> None:
    """Fit, play, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tune", action="store_true", help="play the third on which the rule was chosen")
    parser.add_argument("--confidence", type=float, default=0.5, help="from which the person accepts")
    chosen = parser.parse_args()
    os.environ["VADE_SEARCH_BACKGROUND_READING"] = "false"
    messages = fit_judge.read_heard(fit_judge.DATA)
    part = 1 if chosen.tune else 0
    if chosen.tune:
        chosen.confidence = 0.0
    model = judge.parse_model(
        fit_judge.fit_model([each for each in messages if fit_judge.part_of(each, "", 3) != part])[0]
    )
    patch.object(judge, "load_model", lambda: model).start()  # the shipped one has seen every session
    held = [each for each in messages if fit_judge.part_of(each, "", 3) == part]
    print("| agent | messages | nudged | right | sure ≥ 2 nudged | sure 3 nudged | saved right ", end="")
    print("| sure ≥ 2 saved | pending | accepted right |")
    for name, agent in (("saves each", saves_each), ("by the rule", saves_by_rule)):
        _rows(held, name, play(held, agent, confidence=chosen.confidence), show_bars=chosen.tune)
    _rows(held, "nobody", play(held, lambda _: False, confidence=chosen.confidence), show_bars=chosen.tune)
    composed, pasted = pasted_messages()
    played = play(composed, saves_by_rule, confidence=chosen.confidence)
    taken = sum(any(text in each for each in pasted) for text, *_ in played.accepted)
    print(f"pasted messages: {len(composed)}, accepted {len(played.accepted)}, of which pasted {taken}")


if __name__ == "__main__":
    main()
