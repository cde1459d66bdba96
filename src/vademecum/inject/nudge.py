"""Find the words of a prompt that may be worth saving, and write the line that tells the agent.

The agent has read everything and decides. The line quotes words that the user typed, as data, and names the
call that saves them. This module knows texts; it knows no search and no sessions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.inject.render import CLOSE, OPEN, safe
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.text import is_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.knowledge import Signal
    from vademecum.store.heard import HeardStatement

MOST = 5  # of a session
LONGEST = 100_000  # characters of a prompt; a longer one is no message that somebody typed
_QUOTED = 300  # characters of a statement that are quoted
_LINE = (
    "The user typed: “{quote}”. If it holds beyond this task and is not saved yet,"
    " save it: memory_store({call})."
)
_COMPACTED = "The user typed this before the conversation was compacted, and it is not saved:"
_ENDING = "Before this turn ends: the user typed this in the session, and it is not saved:"
_DECIDE = (
    "Save what holds beyond this task, one call for each. Drop the rest, without a word about it to the user."
)
MOST_LISTED = 5  # statements that are listed together
# What `memory_store` gets for a kind of statement; the default is a fact about the project.
_CALLS = {
    "preference": 'content=…, type="user", scope="global"',
    "correction": 'content=…, type="feedback"',
}
_OTHER_CALL = 'content=…, type="project"'
# Prompts that no person typed: a command that was expanded, and messages of the agent's program.
_MADE = lazy_pattern(
    r"\s*(?:<[a-z][\w-]*>|\[SYSTEM|\[Request interrupted|Caveat: The messages below)"
    r"|[\s\S]{0,2000}<command-(?:name|message|args)>"
)
# Orders to memory itself: the agent reads them in the prompt, so it needs no line about them.
_ORDER = lazy_pattern(
    r"\b(?:remember|memori[sz]e|memory_\w+|(?:store|save) (?:this|that|it)\b)", re.IGNORECASE
)


class Nudge(NamedTuple):
    """A line for the agent about a statement of the user's."""

    text: str
    mark: str  # by which the session remembers it
    signal: Signal


def is_typed(prompt: str) -> bool:
    """Whether a person may have typed a prompt: no command, no message of a program, no order to memory."""
    from vademecum.knowledge import typed

    if not prompt.strip() or len(prompt) > LONGEST or is_command(prompt):
        return False
    return not (_MADE.match(prompt) or _ORDER.search(prompt) or typed.is_planted(prompt))


def find_signal(prompt: str, *, shift: float) -> Signal | None:
    """Return the statement of a prompt that is most likely worth saving; None for most prompts.

    `shift` moves the threshold. Only English prompts are judged, because the cues of other languages take
    longer to load than a prompt waits.
    """
    from vademecum.knowledge import judge

    judged = judge.score_message(prompt, shift=shift)
    if not judged.nudge or not judge.is_english(judged.message.words):
        return None
    typed = " ".join(judged.message.own.split())
    return next((each for each in judge.signals_of(prompt, judged) if _is_quotable(each.text, typed)), None)


def _is_quotable(text: str, typed: str) -> bool:
    """Whether a statement has only words that the user typed, and no secret was redacted in it."""
    return text in typed and "[REDACTED" not in text


def render(signal: Signal) -> str:
    """Return the block with the line about a statement."""
    return f"{OPEN}\n{_LINE.format(quote=_quote(signal.text), call=_call(signal.kind))}\n{CLOSE}\n"


def render_unsaved(statements: Sequence[HeardStatement], *, at_end: bool = False) -> str:
    """Return the block that lists statements which were heard and not saved.

    It is for an agent whose conversation was compacted or, with `at_end`, whose turn ends.
    """
    lines = [f"- “{_quote(each.text)}”: memory_store({_call(each.kind)})" for each in statements]
    return "\n".join((OPEN, _ENDING if at_end else _COMPACTED, *lines, _DECIDE, CLOSE, ""))


def _quote(text: str) -> str:
    """Return a statement as one line, cut and safe to stand between quotation marks."""
    short = text if len(text) <= _QUOTED else text[: _QUOTED - 1].rstrip() + "…"
    return " ".join(safe(short).split()).replace("“", '"').replace("”", '"').rstrip(".")


def _call(kind: str) -> str:
    """Return the arguments of `memory_store` for a kind of statement."""
    return _CALLS.get(str(kind), _OTHER_CALL)
