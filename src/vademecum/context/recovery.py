"""The block that stands where older messages stood, so that an agent goes on as if nothing had happened.

Its words are neutral on purpose: an agent that reads of loss announces it, re-reads documents, and asks
what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.context import summary as thread
from vademecum.context import todo as todos

if TYPE_CHECKING:
    from vademecum.context.summary import Summary
    from vademecum.context.todo import Todo

_COMMITS = 10
_CHANGES = 20
_CHARS = 200

_BEGIN = "Older conversation history has been summarized."
_END = """\
Knowledge of this project is in the system prompt. Anything said earlier, in this session or in others, can be
found with session_search, and the checkpoint session_progress holds the state of the work.
Continue with the current task. There is no need to mention this note, to read hand-over documents again, or
to ask what to do next."""


class Git(NamedTuple):
    """Recent activity in the repository: newest commits first, and what is changed but not committed."""

    branch: str = ""
    commits: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


def render(summary: Summary, *, todo: Todo | None = None, git: Git | None = None) -> str:
    """The whole block."""
    blocks = [_BEGIN, thread.render(summary)]
    if summary.task:
        blocks.append(f"Current task: {summary.task}")
    if todo is not None and todo.items:
        blocks.append(f"Todo list:\n{todos.render(todo)}")
    if git is not None and (git.branch or git.commits or git.changes):
        blocks.append(_git(git))
    return "\n\n".join([*blocks, _END])


def _git(git: Git) -> str:
    lines = ["Recent git activity:" + (f" (branch {_line(git.branch)})" if git.branch else "")]
    lines += [f"- {_line(each)}" for each in git.commits[:_COMMITS]]
    if git.changes:
        lines.append("Working tree:")
        lines += [f"- {_line(each)}" for each in git.changes[:_CHANGES]]
    if len(git.changes) > _CHANGES:
        lines.append(f"- and {len(git.changes) - _CHANGES} more")
    return "\n".join(lines)


def _line(text: str) -> str:
    return " ".join(text.split())[:_CHARS]
