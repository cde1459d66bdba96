"""The block for what has left the window, as rich as fits: recovery, and a model's summary before it.

Pure. When there is little room the git activity goes first, then what is done, then the model's words (the
log has them), and the extraction shrinks as `summary.fit` says; both tasks stay, cut at worst.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.context import recovery, summary
from vademecum.context.sizes import measure
from vademecum.tokens import count
from vademecum.transcripts.messages import Message, Role, Text

if TYPE_CHECKING:
    from vademecum.context.recovery import Git
    from vademecum.context.summary import Summary
    from vademecum.context.todo import Todo

_ITEMS = 20
_FEW_ITEMS = 5
_OPEN, _CLOSE = "<compacted_history>", "</compacted_history>"
_TAGS = re.compile(r"<(?=/?\s*(?:compacted_history|thread_summary))", re.IGNORECASE)


def render(known: Summary, words: str, *, todo: Todo, git: Git | None, tokens: int, ratio: float) -> str:
    """The block in so many tokens; `words` are a model's summary, or empty."""
    short = todo._replace(items=todo.open[:_ITEMS])
    chars = max(int(tokens * ratio), 0)
    tame = _TAGS.sub("‹", words)
    head = f"{_OPEN}\n{tame}\n{_CLOSE}\n\n" if words else ""
    for before, things, activity in ((head, todo, git), (head, short, None), ("", short, None)):
        rest = before + recovery.render(summary.Summary(), todo=things, git=activity)
        fitted = summary.fit(known, max(chars - len(rest) - len(known.task), 0))
        text = before + recovery.render(fitted, todo=things, git=activity)
        whole = fitted.task == known.task and fitted.original == known.original
        if whole and count(measure(Message(Role.USER, (Text(text),))), ratio) <= tokens:
            return text
    few = short._replace(items=short.items[:_FEW_ITEMS])
    return recovery.render(summary.fit(known, chars // 2), todo=few)


def words_of(block: str) -> str:
    """A model's summary in a block."""
    start, end = block.find(_OPEN), block.find(_CLOSE)
    return block[start + len(_OPEN) : end].strip() if 0 <= start < end else ""
