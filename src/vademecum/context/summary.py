"""What messages that leave the window were about, without a model, and the block in their place.

A summary is a value; `render_summary` and `parse_summary` are its text in `<thread_summary>` and back, so
that each cycle adds to the one before. Every list has a cap and every text a length, so its size is bounded
whatever was said. All text stands on one line and cannot close the wrapper or begin a section of its own.

The words of the block are neutral on purpose: an agent that reads of loss announces it, re-reads documents,
and asks what to do next. When there is little room the git activity goes first, then what is done, then the
model's words (the log has them), and the extraction shrinks as `fit_summary` says: the oldest detail first,
what the user laid down and the tasks last.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vademecum.context import extraction
from vademecum.context import todo as todos
from vademecum.context.extraction import Commit, Exchange, FailedCommand, Tasks, clip_line, request_text
from vademecum.context.rules import add_rules, is_lasting
from vademecum.context.units import NO_READERS, measure
from vademecum.text import similarity
from vademecum.tokens import count
from vademecum.transcripts import Message, Role, Text, is_substantive, telling
from vademecum.transcripts.events import PROGRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.context.host import GitActivity
    from vademecum.context.todo import TodoList
    from vademecum.context.units import Readers

_T = TypeVar("_T")


class SummaryCaps(NamedTuple):
    """How many of each are kept."""

    rules: int = 60
    discussion: int = 8
    findings: int = 10
    commits: int = 15
    files: int = 30
    failures: int = 6


CAPS = SummaryCaps()


class ThreadSummary(NamedTuple):
    """What is known of everything that has left the window; lists are oldest first, commits newest first."""

    task: str = ""
    before: str = ""  # the task before it
    original: str = ""  # the first one
    rules: tuple[str, ...] = ()  # laid down by the user
    discussion: tuple[Exchange, ...] = ()
    findings: tuple[str, ...] = ()
    commits: tuple[Commit, ...] = ()
    files: tuple[str, ...] = ()
    failures: tuple[FailedCommand, ...] = ()


def summarize(
    dropped: Sequence[Message],
    previous: ThreadSummary | None = None,
    *,
    kept: Sequence[Message] = (),
    caps: SummaryCaps = CAPS,
) -> ThreadSummary:
    """Add what leaves the window to what was known; `kept`, which stays, only tells how it goes on."""
    known = _carried(dropped) if previous is None else previous
    pending = known.discussion[-1].question if known.discussion and not known.discussion[-1].answer else ""
    changes = extraction.find_changes(dropped, known.failures)
    every = [*dropped, *kept]
    tasks = extraction.follow_tasks(every, Tasks(known.task, known.before))
    merged = merge_summaries(
        known._replace(failures=(), discussion=known.discussion[:-1] if pending else known.discussion),
        ThreadSummary(
            original=_first_request(dropped),
            rules=tuple(extraction.find_said_rules(dropped)),
            discussion=tuple(extraction.find_exchanges(dropped, kept, pending)),
            findings=tuple(extraction.find_findings(dropped, kept)),
            commits=changes.commits,
            files=changes.files,
            failures=changes.failures,
        ),
        caps=caps,
    )
    original = merged.original or _first_request(kept)
    now = tasks.now or original
    return merged._replace(task=now, before="" if tasks.before == now else tasks.before, original=original)


def _carried(messages: Iterable[Message]) -> ThreadSummary:
    """The last summary that stands in the messages themselves, when nobody kept it apart."""
    found = [each.text for each in messages if each.role is Role.SYSTEM and _SUMMARY_OPEN in each.text]
    return parse_summary(found[-1]) if found else ThreadSummary()


def _first_request(messages: Iterable[Message]) -> str:
    """The request a session began with: the first substantive one, else the first."""
    found = [text for text in map(request_text, messages) if text and telling(text)]
    first = next((each for each in found if is_substantive(each)), found[0] if found else "")
    return clip_line(first, extraction.TASK_CHARS)


def merge_summaries(older: ThreadSummary, newer: ThreadSummary, *, caps: SummaryCaps = CAPS) -> ThreadSummary:
    """Two summaries as one, within the caps: what is said again counts once, the newest word on it stays.

    Exchanges that are no longer among the newest become what they decided.
    """
    talks = _unique([*older.discussion, *newer.discussion])
    settled = [each for each in talks[: -caps.discussion] if _decides(each.answer)]
    decided = [clip_line(f"{each.question} → {each.answer}", extraction.RULE_CHARS) for each in settled]
    return ThreadSummary(
        task=newer.task or older.task,
        before=newer.before or older.before,
        original=older.original or newer.original,
        rules=_bounded_rules(add_rules(older.rules, [*decided, *newer.rules]), caps.rules),
        discussion=tuple(talks[-caps.discussion :]),
        findings=_bounded_findings([*older.findings, *newer.findings], caps.findings),
        commits=tuple(_newest_commits(older.commits, newer.commits)[: caps.commits]),
        files=tuple(_unique([*older.files, *newer.files])[-caps.files :]),
        failures=_bounded_failures([*older.failures, *newer.failures], caps.failures),
    )


_DECIDING_WORDS = 12


def _decides(answer: str) -> bool:
    """Whether an answer settles its question: it is short and asks nothing back."""
    return bool(answer) and len(answer.split()) <= _DECIDING_WORDS and not answer.rstrip().endswith("?")


def _bounded_rules(rules: tuple[str, ...], most: int) -> tuple[str, ...]:
    """At most so many: of those that only say how something is the oldest go first."""
    return _without(rules, len(rules) - most, [at for at, each in enumerate(rules) if not is_lasting(each)])


def _bounded_findings(findings: list[str], most: int) -> tuple[str, ...]:
    """Each once, in its newest wording; what only says that something was done goes before what explains."""
    found: list[str] = []
    for each in findings:
        found = [old for old in found if old != each and similarity.same(old, each) is None]
        found.append(each)
    idle = [at for at, each in enumerate(found) if not extraction.is_cause(each)]
    return _without(tuple(found), len(found) - most, idle)


def _bounded_failures(failures: list[FailedCommand], most: int) -> tuple[FailedCommand, ...]:
    """The newest of each command; solved ones go first."""
    found = tuple({each.command: each for each in failures}.values())
    return _without(found, len(found) - most, [at for at, each in enumerate(found) if each.solved])


def _without(values: tuple[_T, ...], number: int, first: Sequence[int]) -> tuple[_T, ...]:
    """All but so many: those at the places named go first, oldest first, then the oldest of the others."""
    if number <= 0:
        return values
    rest = [at for at in range(len(values)) if at not in set(first)]
    gone = {*[*first, *rest][:number]}
    return tuple(each for at, each in enumerate(values) if at not in gone)


def _newest_commits(older: Iterable[Commit], newer: Iterable[Commit]) -> list[Commit]:
    """Newest first; a commit seen again stays where it was."""
    known = list(older)
    hashes = {each.hash[:7] for each in known}
    return [*(each for each in newer if each.hash[:7] not in hashes), *known]


def _unique(values: list[_T]) -> list[_T]:
    """Each value once, where it stood last."""
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
}
# Summaries of earlier versions, which logs still hold; what is not named here is passed over.
_EARLIER_HEADINGS = {
    "Active discussion:": "discussion",
    "Key decisions:": "rules",
    "Laid down by the user:": "rules",
    "Recent user requests:": "requests",
}
_EARLIER_ORIGINAL = "[original] "


def render_summary(summary: ThreadSummary) -> str:
    """The summary as the model reads it; a part with nothing in it is left out."""
    asked = [(_TASK, summary.task), (_BEFORE, summary.before)]
    if summary.original != summary.task:
        asked.append((_ORIGINAL, summary.original))
    sections: dict[str, list[str]] = {
        "rules": list(summary.rules),
        "discussion": [line for each in summary.discussion for line in _exchange_lines(each)],
        "findings": list(summary.findings),
        "commits": [f"{each.hash} {each.subject}" for each in summary.commits],
        "files": list(summary.files),
        "failures": [_failure_line(each) for each in summary.failures],
    }
    tasks = "\n".join(f"{label}{text}" for label, text in asked if text)
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
    """A summary from its text; what is no part of one is passed over."""
    start, end = text.find(_SUMMARY_OPEN), text.rfind(_SUMMARY_CLOSE)
    inside = text[start + len(_SUMMARY_OPEN) : end if end > start else len(text)] if start >= 0 else ""
    headings = {**_HEADINGS, **_EARLIER_HEADINGS}
    asked = {_TASK: "", _BEFORE: "", _ORIGINAL: ""}
    lines: dict[str, list[str]] = {name: [] for name in headings.values()}
    section = ""
    for line in inside.split("\n"):
        label = next((each for each in asked if line.startswith(each)), "")
        if label and not section:
            asked[label] = line.removeprefix(label)
        elif line.endswith(":") and not line.startswith("- "):
            section = headings.get(line, "")
        elif line.startswith("- ") and section:
            lines[section].append(line[2:])
    earlier = [each for each in lines["requests"] if each.startswith(_EARLIER_ORIGINAL)]
    original = asked[_ORIGINAL] or (earlier[0].removeprefix(_EARLIER_ORIGINAL) if earlier else asked[_TASK])
    return ThreadSummary(
        task=asked[_TASK],
        before=asked[_BEFORE],
        original=original,
        rules=tuple(lines["rules"]),
        discussion=tuple(_read_exchanges(lines["discussion"])),
        findings=tuple(lines["findings"]),
        commits=tuple(Commit(*each.partition(" ")[::2]) for each in lines["commits"]),
        files=tuple(lines["files"]),
        failures=tuple(_read_failures(lines["failures"])),
    )


def fit_summary(summary: ThreadSummary, chars: int) -> ThreadSummary:
    """A summary whose text is no longer than that.

    What goes first is what the transcript gives back most easily: files, failed commands, findings, answers
    already given, commits; the oldest of each first. Then the task before, then what the user laid down, of
    that what only says how something is before what forbids or asks for a manner. Tasks are cut at worst.
    """
    for name in ("files", "failures", "findings", "discussion", "commits", "before", "rules"):
        excess = len(render_summary(summary)) - chars
        if excess <= 0:
            return summary
        lighter: dict[str, Any] = {name: _lighter(name, getattr(summary, name), excess)}
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


# Of these, what a function says is so goes after the rest.
_LAST: dict[str, Callable[[str], bool]] = {"rules": is_lasting, "findings": extraction.is_cause}


def _lighter(name: str, values: str | tuple[Any, ...], excess: int) -> str | tuple[Any, ...]:
    """A part without its oldest entries; what each takes is never overrated."""
    if isinstance(values, str):
        return ""
    left = list(reversed(values)) if name == "commits" else list(values)
    if name in _LAST:
        left.sort(key=_LAST[name])
    gone: list[Any] = []
    while left and excess > 0:
        gone.append(left.pop(0))
        last = gone[-1]
        excess -= sum(len(str(each)) for each in last) if isinstance(last, tuple) else len(last) + len("- \n")
    return tuple(each for each in values if each not in gone)


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


# ------------------------------------------------------------ what stands where older messages stood

_GIT_COMMITS = 10
_GIT_CHANGES = 20
_GIT_CHARS = 200

_BEGIN = "Older conversation history has been summarized."
_KNOWN = "Knowledge of this project is in the system prompt."
_END = """\
What the user says below overrides this note. Unless it asks for something else, continue with the current
task. There is no need to mention this note, to read hand-over documents again, or to ask what to do next."""
_ENDS = (
    "\nWhat the user says below overrides",
    "\nWhat the user says below goes before",  # those of earlier versions
    "\nContinue with the current task.",
)


def _closing(readers: Readers) -> str:
    """What to do now, and where the rest is, as far as this host has tools that read it."""
    told = [_KNOWN]
    if readers.search:
        told.append(
            f"Anything said earlier, in this session or in others, can be\nfound with {readers.search}."
        )
    if progress := readers.read(PROGRESS):
        told.append(f"The state of the work, at the last checkpoint:\n{progress}")
    return f"{' '.join(told)}\n{_END}"


def name_readers(block: str, readers: Readers) -> str:
    """A block that was made with other tools, or by another host, with the words for these."""
    start = block.rfind(_KNOWN)
    known = start > 0 and block[start - 1] == "\n" and any(block.find(end, start) > 0 for end in _ENDS)
    return block[:start] + _closing(readers) if known else block


def render_recovery(
    summary: ThreadSummary,
    *,
    todo: TodoList | None = None,
    git: GitActivity | None = None,
    readers: Readers = NO_READERS,
) -> str:
    """The whole block."""
    blocks = [_BEGIN, render_summary(summary)]
    if todo is not None and todo.items:
        blocks.append(f"Todo list:\n{todos.render(todo)}")
    if git is not None and (git.branch or git.commits or git.changes):
        blocks.append(_git_lines(git))
    return "\n\n".join([*blocks, _closing(readers)])


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


# ------------------------------------------------------------ the block, as rich as fits

_MOST_ITEMS = 20
_FEW_ITEMS = 5
_TITLE_CHARS = 60
_OPEN, _CLOSE = "<compacted_history>", "</compacted_history>"
_TAGS = re.compile(r"<(?=/?\s*(?:compacted_history|thread_summary))", re.IGNORECASE)


class _Frame(NamedTuple):
    """What stands around the summary."""

    before: str
    todo: TodoList
    readers: Readers
    git: GitActivity | None = None


def render_block(
    known: ThreadSummary,
    words: str,
    *,
    todo: TodoList,
    git: GitActivity | None,
    tokens: int,
    ratio: float,
    readers: Readers = NO_READERS,
) -> str:
    """The block in so many tokens; `words` are a model's summary, or empty."""
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
        text, fitted = _fitted(known, frame, tokens=tokens, ratio=ratio)
        if _fixed_parts(fitted) == _fixed_parts(known) and _block_tokens(text, ratio) <= tokens:
            return text
    return text


def least_tokens(known: ThreadSummary, todo: TodoList, ratio: float, readers: Readers = NO_READERS) -> int:
    """How many tokens the smallest block needs in which the tasks and what the user laid down are whole."""
    least = render_recovery(_fixed_parts(known), todo=_few_items(todo), readers=readers)
    return _block_tokens(least, ratio)


def _fixed_parts(known: ThreadSummary) -> ThreadSummary:
    """What of a summary should be in every block."""
    return ThreadSummary(task=known.task, original=known.original, rules=known.rules)


def _few_items(todo: TodoList) -> TodoList:
    items = tuple(item._replace(title=item.title[:_TITLE_CHARS]) for item in todo.open[:_FEW_ITEMS])
    return todo._replace(items=items)


def _fitted(known: ThreadSummary, frame: _Frame, *, tokens: int, ratio: float) -> tuple[str, ThreadSummary]:
    """A block with so much of a summary as fits beside the rest, and what it holds of it."""
    fitted = known
    while True:
        text = frame.before + render_recovery(fitted, todo=frame.todo, git=frame.git, readers=frame.readers)
        over = _block_tokens(text, ratio) - tokens
        size = len(render_summary(fitted))
        smaller = fit_summary(fitted, size - int(over * ratio) - 1) if over > 0 else fitted
        if over <= 0 or smaller == fitted:
            return text, fitted
        if _fixed_parts(smaller) != _fixed_parts(fitted):
            bare = _fixed_parts(known)  # before a rule goes or a task is cut, all else does
            smaller = bare if len(render_summary(bare)) < size and fitted != bare else smaller
        fitted = smaller


def _block_tokens(text: str, ratio: float) -> int:
    return count(measure(Message(Role.USER, (Text(text),))), ratio)


def model_words(block: str) -> str:
    """A model's summary in a block."""
    start, end = block.find(_OPEN), block.find(_CLOSE)
    return block[start + len(_OPEN) : end].strip() if 0 <= start < end else ""
