"""Summarize messages that leave the window without a model, and render the block that replaces them.

A summary is a value; `render_summary` and `parse_summary` convert it to the text in `<thread_summary>` and
back, so that each cycle adds to the one before. Every list has a limit and every text a length, so the size
of a summary is bounded. Each text stands on one line and cannot close the wrapper or begin a section.

The wording of the block is neutral on purpose: an agent that reads of a loss announces it, reads documents
again, and asks what to do next. With little room, the git activity is dropped first, then finished to-do
items, then the model's summary (the log has it); then `fit_summary` shrinks the extraction: the oldest
details first, the user's rules and the tasks last.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vademecum.context import extraction
from vademecum.context import todo as todos
from vademecum.context.extraction import (
    Commit,
    Exchange,
    FailedCommand,
    Tasks,
    ToolCount,
    clip_line,
    request_text,
)
from vademecum.context.units import NO_READERS, measure
from vademecum.context.user_rules import is_lasting, is_replaced
from vademecum.text import similarity
from vademecum.tokens import count
from vademecum.transcripts import Message, Role, Text, content_words, is_substantive
from vademecum.transcripts.events import PROGRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.context.host import GitActivity
    from vademecum.context.todo import TodoList
    from vademecum.context.units import ReaderTools
    from vademecum.transcripts.events import Checkpoint

_T = TypeVar("_T")


class SummaryCaps(NamedTuple):
    """The largest number of items of each kind that a summary may hold."""

    rules: int = 60
    discussion: int = 8
    findings: int = 10
    commits: int = 15
    files: int = 30
    failures: int = 6
    tools: int = 12


CAPS = SummaryCaps()


class ThreadSummary(NamedTuple):
    """The summary of everything that has left the window; lists are oldest first, commits newest first."""

    task: str = ""
    before: str = ""  # the task before the current one
    original: str = ""  # the first task
    rules: tuple[str, ...] = ()  # the user's rules
    discussion: tuple[Exchange, ...] = ()
    findings: tuple[str, ...] = ()
    commits: tuple[Commit, ...] = ()
    files: tuple[str, ...] = ()
    failures: tuple[FailedCommand, ...] = ()
    tools: tuple[ToolCount, ...] = ()  # the most called first


def summarize(
    dropped: Sequence[Message],
    previous: ThreadSummary | None = None,
    *,
    kept: Sequence[Message] = (),
    caps: SummaryCaps = CAPS,
) -> ThreadSummary:
    """Return the previous summary, extended by the messages that leave the window.

    The `kept` messages only show how the work continues.
    """
    known = _summary_in_messages(dropped) if previous is None else previous
    pending = known.discussion[-1].question if known.discussion and not known.discussion[-1].answer else ""
    changes = extraction.find_changes(dropped, known.failures)
    every = [*dropped, *kept]
    tasks = extraction.follow_tasks(every, Tasks(known.task, known.before))
    merged = merge_summaries(
        known._replace(failures=(), discussion=known.discussion[:-1] if pending else known.discussion),
        ThreadSummary(
            original=_first_request(dropped),
            rules=tuple(extraction.find_user_rules(dropped)),
            discussion=tuple(extraction.find_exchanges(dropped, kept, pending)),
            findings=tuple(extraction.find_findings(dropped, kept)),
            commits=changes.commits,
            files=changes.files,
            failures=changes.failures,
            tools=tuple(extraction.count_tool_calls(dropped)),
        ),
        caps=caps,
    )
    original = merged.original or _first_request(kept)
    now = tasks.now or original
    return merged._replace(task=now, before="" if tasks.before == now else tasks.before, original=original)


def _summary_in_messages(messages: Iterable[Message]) -> ThreadSummary:
    """Return the last summary that a system message contains; an empty summary if there is none."""
    found = [each.text for each in messages if each.role is Role.SYSTEM and _SUMMARY_OPEN in each.text]
    return parse_summary(found[-1]) if found else ThreadSummary()


def _first_request(messages: Iterable[Message]) -> str:
    """Return the request that began the session: the first with enough content, else the first of all."""
    found = [text for text in map(request_text, messages) if text and content_words(text)]
    first = next((each for each in found if is_substantive(each)), found[0] if found else "")
    return clip_line(first, extraction.TASK_CHARS)


def merge_summaries(older: ThreadSummary, newer: ThreadSummary, *, caps: SummaryCaps = CAPS) -> ThreadSummary:
    """Merge two summaries within the limits; of repeated items, the newest wording stays.

    Exchanges that are no longer among the newest become rules if the answer settled the question.
    """
    talks = _unique([*older.discussion, *newer.discussion])
    settled = [each for each in talks[: -caps.discussion] if _decides(each.answer)]
    decided = [clip_line(f"{each.question} → {each.answer}", extraction.RULE_CHARS) for each in settled]
    return ThreadSummary(
        task=newer.task or older.task,
        before=newer.before or older.before,
        original=older.original or newer.original,
        rules=_newest_distinct(
            [*older.rules, *decided, *newer.rules], caps.rules, matters=is_lasting, replaces=is_replaced
        ),
        discussion=tuple(talks[-caps.discussion :]),
        findings=_newest_distinct(
            [*older.findings, *newer.findings],
            caps.findings,
            matters=extraction.is_cause,
            replaces=_is_same_finding,
        ),
        commits=tuple(_newest_commits(older.commits, newer.commits)[: caps.commits]),
        files=tuple(_unique([*older.files, *newer.files])[-caps.files :]),
        failures=_bounded_failures([*older.failures, *newer.failures], caps.failures),
        tools=tuple(extraction.add_tool_counts(older.tools, newer.tools)[: caps.tools]),
    )


_DECIDING_WORDS = 12


def _decides(answer: str) -> bool:
    """Whether an answer settles its question: the answer is short and is no question in return."""
    return bool(answer) and len(answer.split()) <= _DECIDING_WORDS and not answer.rstrip().endswith("?")


def _newest_distinct(
    texts: Sequence[str],
    most: int,
    *,
    matters: Callable[[str], bool],
    replaces: Callable[[str, str], bool],
) -> tuple[str, ...]:
    """Return at most `most` texts that no later text replaces; first those that matter, then the newest.

    The texts are read from the newest on, until there are enough: comparing all of a long session with each
    other would take minutes.
    """
    chosen: list[int] = []
    others: list[int] = []
    for at in reversed(range(len(texts))):
        if len(chosen) == most:
            break
        kind = chosen if matters(texts[at]) else others
        if kind is others and len(chosen) + len(others) >= most:
            continue
        if not any(replaces(texts[at], newer) for newer in texts[at + 1 :]):
            kind.append(at)
    return tuple(texts[at] for at in sorted([*chosen, *others[: most - len(chosen)]]))


def _is_same_finding(old: str, new: str) -> bool:
    """Whether two findings are one statement."""
    return old == new or similarity.same(old, new) is not None


def _bounded_failures(failures: list[FailedCommand], most: int) -> tuple[FailedCommand, ...]:
    """Return the newest failure of each command, at most `most`; solved failures are dropped first."""
    found = tuple({each.command: each for each in failures}.values())
    return _without(found, len(found) - most, [at for at, each in enumerate(found) if each.solved])


def _without(values: tuple[_T, ...], number: int, first: Sequence[int]) -> tuple[_T, ...]:
    """Return values with `number` removed: first those at the indexes `first`, then the oldest others."""
    if number <= 0:
        return values
    rest = [at for at in range(len(values)) if at not in set(first)]
    dropped = {*[*first, *rest][:number]}
    return tuple(each for at, each in enumerate(values) if at not in dropped)


def _newest_commits(older: Iterable[Commit], newer: Iterable[Commit]) -> list[Commit]:
    """Return the commits of both lists, newest first; a commit in both keeps its place in `older`."""
    known = list(older)
    hashes = {each.hash[:7] for each in known}
    return [*(each for each in newer if each.hash[:7] not in hashes), *known]


def _unique(values: list[_T]) -> list[_T]:
    """Return the values without repetitions, each at the position of its last occurrence."""
    return list(dict.fromkeys(reversed(values)))[::-1]


# --- the text ------------------------------------------------------------------------------------------

_SUMMARY_OPEN, _SUMMARY_CLOSE = "<thread_summary>", "</thread_summary>"
_TASK, _BEFORE, _ORIGINAL = "Current task: ", "Task before it: ", "First task: "
_SOLVED = " → works now"
_HEADINGS = {
    "Rules from the user:": "rules",
    "Questions and answers:": "discussion",
    "Findings:": "findings",
    "Commits made:": "commits",
    "Files written:": "files",
    "Commands that failed:": "failures",
    "Tool calls:": "tools",
}


def render_summary(summary: ThreadSummary) -> str:
    """Return the summary as text for a model; empty parts are left out."""
    tasks_by_label = [(_TASK, summary.task), (_BEFORE, summary.before)]
    if summary.original != summary.task:
        tasks_by_label.append((_ORIGINAL, summary.original))
    sections: dict[str, list[str]] = {
        "rules": list(summary.rules),
        "discussion": [line for each in summary.discussion for line in _exchange_lines(each)],
        "findings": list(summary.findings),
        "commits": [f"{each.hash} {each.subject}" for each in summary.commits],
        "files": list(summary.files),
        "failures": [_failure_line(each) for each in summary.failures],
        "tools": [", ".join(f"{each.name} {each.calls}" for each in summary.tools)] if summary.tools else [],
    }
    tasks = "\n".join(f"{label}{text}" for label, text in tasks_by_label if text)
    blocks = [tasks] if tasks else []
    for heading, name in _HEADINGS.items():
        if sections[name]:
            blocks.append("\n".join([heading, *(f"- {line}" for line in sections[name])]))
    return "\n\n".join([_SUMMARY_OPEN, *blocks, _SUMMARY_CLOSE])


def _exchange_lines(each: Exchange) -> Iterator[str]:
    yield f"Q: {each.question}"
    if each.answer:
        yield f"A: {each.answer}"


def _failure_line(each: FailedCommand) -> str:
    return f"`{each.command}`: {each.error}{_SOLVED if each.solved else ''}"


def parse_summary(text: str) -> ThreadSummary:
    """Read a summary from its text; unknown text is skipped."""
    start, end = text.find(_SUMMARY_OPEN), text.rfind(_SUMMARY_CLOSE)
    inside = text[start + len(_SUMMARY_OPEN) : end if end > start else len(text)] if start >= 0 else ""
    tasks_by_label = {_TASK: "", _BEFORE: "", _ORIGINAL: ""}
    lines: dict[str, list[str]] = {name: [] for name in _HEADINGS.values()}
    section = ""
    for line in inside.split("\n"):
        label = next((each for each in tasks_by_label if line.startswith(each)), "")
        if label and not section:
            tasks_by_label[label] = line.removeprefix(label)
        elif line.endswith(":") and not line.startswith("- "):
            section = _HEADINGS.get(line, "")
        elif line.startswith("- ") and section:
            lines[section].append(line[2:])
    return ThreadSummary(
        task=tasks_by_label[_TASK],
        before=tasks_by_label[_BEFORE],
        original=tasks_by_label[_ORIGINAL] or tasks_by_label[_TASK],
        rules=tuple(lines["rules"]),
        discussion=tuple(_read_exchanges(lines["discussion"])),
        findings=tuple(lines["findings"]),
        commits=tuple(Commit(*each.partition(" ")[::2]) for each in lines["commits"]),
        files=tuple(lines["files"]),
        failures=tuple(_read_failures(lines["failures"])),
        tools=tuple(_read_tool_counts(", ".join(lines["tools"]))),
    )


def fit_summary(summary: ThreadSummary, chars: int) -> ThreadSummary:
    """Return a summary shortened until its text has at most `chars` characters, as far as that is possible.

    Details that the transcript gives back most easily are dropped first: counts of tool calls, files, failed
    commands, findings, answered questions, commits; the rarest tools first, and the oldest of all others.
    Then the previous task is dropped, then rules: facts before prohibitions and manners. In the worst case
    tasks are cut.
    """
    for name in ("tools", "files", "failures", "findings", "discussion", "commits", "before", "rules"):
        excess = len(render_summary(summary)) - chars
        if excess <= 0:
            return summary
        lighter: dict[str, Any] = {name: _without_oldest(name, getattr(summary, name), excess)}
        summary = summary._replace(**lighter)
    excess = len(render_summary(summary)) - chars
    if excess > 0:
        room = max(len(summary.task) + len(summary.original) - excess - 6, 0)
        least = min(len(summary.task), len(summary.original), room // 2)
        summary = summary._replace(
            task=clip_line(summary.task, max(least, room - len(summary.original))),
            original=clip_line(summary.original, max(least, room - len(summary.task))),
        )
    return summary


# Entries for which this function is true are dropped last.
_LAST: dict[str, Callable[[str], bool]] = {"rules": is_lasting, "findings": extraction.is_cause}


def _without_oldest(name: str, values: str | tuple[Any, ...], excess: int) -> str | tuple[Any, ...]:
    """Return the part `name` of a summary, without its oldest entries, to save `excess` characters.

    A single text is removed whole; of tools, the least called go first; entries that matter go last.
    """
    if isinstance(values, str):
        return ""
    candidates = list(reversed(values)) if name in ("commits", "tools") else list(values)
    if name in _LAST:
        candidates.sort(key=_LAST[name])
    dropped: list[Any] = []
    while candidates and excess > 0:
        dropped.append(candidates.pop(0))
        last = dropped[-1]
        excess -= sum(len(str(each)) for each in last) if isinstance(last, tuple) else len(last) + len("- \n")
    return tuple(each for each in values if each not in dropped)


def _read_exchanges(lines: list[str]) -> Iterator[Exchange]:
    question = ""
    for line in lines:
        if line.startswith("Q: "):
            if question:
                yield Exchange(question)
            question = line[3:]
        elif line.startswith("A: ") and question:
            yield Exchange(question, line[3:])
            question = ""
    if question:
        yield Exchange(question)


def _read_failures(lines: list[str]) -> Iterator[FailedCommand]:
    for line in lines:
        command, mark, error = line.removeprefix("`").partition("`: ")
        if mark:
            yield FailedCommand(command, error.removesuffix(_SOLVED), error.endswith(_SOLVED))


def _read_tool_counts(line: str) -> Iterator[ToolCount]:
    for each in line.split(", "):
        name, _, calls = each.rpartition(" ")
        if name and calls.isascii() and calls.isdigit():
            yield ToolCount(name, int(calls))


# ------------------------------------------------------------ the block that replaces older messages

_GIT_COMMITS = 10
_GIT_CHANGES = 20
_GIT_CHARS = 200

_BEGIN = "Older conversation history has been summarized."
_KNOWN = "Knowledge of this project is in the system prompt."
_END = """\
What the user says below overrides this note. Unless it asks for something else, continue with the current
task. There is no need to mention this note, to read hand-over documents again, or to ask what to do next."""


def _closing_lines(readers: ReaderTools) -> str:
    """Return the last lines of the summary block: what to do now, and which of the host's tools read the
    rest.
    """
    sentences = [_KNOWN] if readers.knowledge else []
    if readers.search:
        sentences.append(
            f"Anything said earlier, in this session or in others, can be\nfound with {readers.search}."
        )
    if progress := readers.read(PROGRESS):
        sentences.append(f"The state of the work, at the last checkpoint:\n{progress}")
    return "\n".join([*([" ".join(sentences)] if sentences else []), _END])


def name_reader_tools(block: str, readers: ReaderTools) -> str:
    """Return a summary block with the names of this host's tools, whichever host it was made for."""
    before = block.removesuffix(_END)
    if before == block:
        return block
    start = before.rfind("\n\n") + 2  # the closing lines are a paragraph of their own
    return block[:start] + _closing_lines(readers)


def render_recovery(
    summary: ThreadSummary,
    *,
    todo: TodoList | None = None,
    git: GitActivity | None = None,
    readers: ReaderTools = NO_READERS,
) -> str:
    """Return the summary block in the form without a model's summary."""
    blocks = [_BEGIN, render_summary(summary)]
    if todo is not None and todo.items:
        blocks.append(f"Todo list:\n{todos.render(todo)}")
    if git is not None and (git.branch or git.commits or git.changes):
        blocks.append(_git_lines(git))
    return "\n\n".join([*blocks, _closing_lines(readers)])


def _git_lines(git: GitActivity) -> str:
    lines = ["Recent git activity:" + (f" (branch {_git_line(git.branch)})" if git.branch else "")]
    lines += [f"- {_git_line(each)}" for each in git.commits[:_GIT_COMMITS]]
    if git.changes:
        lines.append("Working tree:")
        lines += [f"- {_git_line(each)}" for each in git.changes[:_GIT_CHANGES]]
    if len(git.changes) > _GIT_CHANGES:
        lines.append(f"- and {len(git.changes) - _GIT_CHANGES} more")
    return "\n".join(lines)


def _git_line(text: str) -> str:
    return " ".join(text.split())[:_GIT_CHARS]


def render_checkpoint(checkpoint: Checkpoint) -> str:
    """Return a checkpoint as text for an agent: the task, the to-do list, and the newest calls."""
    todo = todos.from_items(checkpoint.todo)
    parts = [f"{_TASK}{checkpoint.task}"] if checkpoint.task else []
    if todo.items:
        parts.append(f"Todo list:\n{todos.render(todo)}")
    if checkpoint.tools:
        parts.append("\n".join(["Newest tool calls:", *(f"- {each}" for each in checkpoint.tools)]))
    return "\n\n".join(parts)


# ------------------------------------------------------------ fitting the block

_MOST_ITEMS = 20
_FEW_ITEMS = 5
_TITLE_CHARS = 60
_OPEN, _CLOSE = "<compacted_history>", "</compacted_history>"
_TAGS = re.compile(r"<(?=/?\s*(?:compacted_history|thread_summary))", re.IGNORECASE)


class _Frame(NamedTuple):
    """The parts of the summary block that stand around the summary."""

    before: str
    todo: TodoList
    readers: ReaderTools
    git: GitActivity | None = None


def render_block(
    known: ThreadSummary,
    words: str,
    *,
    todo: TodoList,
    git: GitActivity | None,
    tokens: int,
    ratio: float,
    readers: ReaderTools = NO_READERS,
) -> str:
    """Return the summary block, shortened to `tokens` tokens as far as possible.

    `words` is a model's summary, or empty.
    """
    short = todo._replace(items=todo.open[:_MOST_ITEMS])
    tame = _TAGS.sub("‹", words)
    head = f"{_OPEN}\n{tame}\n{_CLOSE}\n\n" if words else ""
    text = ""
    for frame in (
        _Frame(head, todo, readers, git),
        _Frame(head, short, readers),
        _Frame("", short, readers),
        _Frame("", _few_items(todo), readers),
    ):
        text, fitted = _fit_block(known, frame, tokens=tokens, ratio=ratio)
        if _fixed_parts(fitted) == _fixed_parts(known) and _block_tokens(text, ratio) <= tokens:
            return text
    return text


def least_tokens(
    known: ThreadSummary, todo: TodoList, ratio: float, readers: ReaderTools = NO_READERS
) -> int:
    """Return the tokens of the smallest block that holds the tasks and the user's rules in full."""
    least = render_recovery(_fixed_parts(known), todo=_few_items(todo), readers=readers)
    return _block_tokens(least, ratio)


def _fixed_parts(known: ThreadSummary) -> ThreadSummary:
    """Return a summary reduced to the parts that every block should hold: tasks and rules."""
    return ThreadSummary(task=known.task, original=known.original, rules=known.rules)


def _few_items(todo: TodoList) -> TodoList:
    items = tuple(item._replace(title=item.title[:_TITLE_CHARS]) for item in todo.open[:_FEW_ITEMS])
    return todo._replace(items=items)


def _fit_block(
    known: ThreadSummary, frame: _Frame, *, tokens: int, ratio: float
) -> tuple[str, ThreadSummary]:
    """Return a block with as much of a summary as fits into the tokens, and the shortened summary in the
    block.
    """
    fitted = known
    while True:
        text = frame.before + render_recovery(fitted, todo=frame.todo, git=frame.git, readers=frame.readers)
        excess = _block_tokens(text, ratio) - tokens
        size = len(render_summary(fitted))
        smaller = fit_summary(fitted, size - int(excess * ratio) - 1) if excess > 0 else fitted
        if excess <= 0 or smaller == fitted:
            return text, fitted
        if _fixed_parts(smaller) != _fixed_parts(fitted):
            bare = _fixed_parts(known)  # everything else is dropped before a rule is dropped or a task is cut
            smaller = bare if len(render_summary(bare)) < size and fitted != bare else smaller
        fitted = smaller


def _block_tokens(text: str, ratio: float) -> int:
    return count(measure(Message(Role.USER, (Text(text),))), ratio)


def model_words(block: str) -> str:
    """Return the text in a block that a model wrote as summary; empty if there is none."""
    start, end = block.find(_OPEN), block.find(_CLOSE)
    return block[start + len(_OPEN) : end].strip() if 0 <= start < end else ""
