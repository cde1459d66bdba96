"""The block for what has left the window, as rich as fits: recovery, and a model's summary before it.

Pure. When there is little room the git activity goes first, then what is done, then the model's words (the
log has them), and the extraction shrinks as `summary.fit` says; both tasks stay, cut at worst.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

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
_TITLE_CHARS = 60
_OPEN, _CLOSE = "<compacted_history>", "</compacted_history>"
_TAGS = re.compile(r"<(?=/?\s*(?:compacted_history|thread_summary))", re.IGNORECASE)


class _Frame(NamedTuple):
    """What stands around the summary."""

    before: str
    todo: Todo
    git: Git | None = None


def render(known: Summary, words: str, *, todo: Todo, git: Git | None, tokens: int, ratio: float) -> str:
    """The block in so many tokens; `words` are a model's summary, or empty."""
    short = todo._replace(items=todo.open[:_ITEMS])
    tame = _TAGS.sub("‹", words)
    head = f"{_OPEN}\n{tame}\n{_CLOSE}\n\n" if words else ""
    text = ""
    for frame in (_Frame(head, todo, git), _Frame(head, short), _Frame("", short), _Frame("", _few(todo))):
        text, fitted = _fitted(known, frame, tokens=tokens, ratio=ratio)
        whole = fitted.task == known.task and fitted.original == known.original
        if whole and _tokens(text, ratio) <= tokens:
            return text
    return text


def least(known: Summary, todo: Todo, ratio: float) -> int:
    """How many tokens the smallest block needs in which both tasks are whole."""
    bare = summary.Summary(task=known.task, original=known.original)
    return _tokens(recovery.render(bare, todo=_few(todo)), ratio)


def _few(todo: Todo) -> Todo:
    items = tuple(item._replace(title=item.title[:_TITLE_CHARS]) for item in todo.open[:_FEW_ITEMS])
    return todo._replace(items=items)


def _fitted(known: Summary, frame: _Frame, *, tokens: int, ratio: float) -> tuple[str, Summary]:
    """A block with so much of a summary as fits beside the rest, and what it holds of it."""
    fitted = known
    while True:
        text = frame.before + recovery.render(fitted, todo=frame.todo, git=frame.git)
        over = _tokens(text, ratio) - tokens
        size = len(summary.render(fitted))
        smaller = summary.fit(fitted, size - int(over * ratio) - 1) if over > 0 else fitted
        if over <= 0 or smaller == fitted:
            return text, fitted
        if smaller.task != fitted.task or smaller.original != fitted.original:
            bare = summary.Summary(task=known.task, original=known.original)  # before a task is cut, all else
            smaller = bare if fitted != bare else smaller
        fitted = smaller


def _tokens(text: str, ratio: float) -> int:
    return count(measure(Message(Role.USER, (Text(text),))), ratio)


def words_of(block: str) -> str:
    """A model's summary in a block."""
    start, end = block.find(_OPEN), block.find(_CLOSE)
    return block[start + len(_OPEN) : end].strip() if 0 <= start < end else ""
