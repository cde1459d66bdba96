"""What messages that leave the window were about, without a model, and the block in their place.

A summary is a value; `render_summary` and `parse_summary` are its text in `<thread_summary>` and back, so
that each cycle adds to the one before. Every list has a cap and every text a length, so its size is bounded
whatever was said. All text stands on one line and cannot close the wrapper or begin a section of its own.

The words of the block are neutral on purpose: an agent that reads of loss announces it, re-reads documents,
and asks what to do next. When there is little room the git activity goes first, then what is done, then the
model's words (the log has them), and the extraction shrinks as `fit_summary` says; both tasks stay, cut at
worst.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vademecum.context import todo as todos
from vademecum.context.units import is_request, measure
from vademecum.tokens import count
from vademecum.transcripts import ASIDE, Message, OwnCalls, Role, Text, is_command, is_substantive, telling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.context.host import GitActivity
    from vademecum.context.todo import TodoList
    from vademecum.transcripts import ToolCall, ToolResult


_T = TypeVar("_T")


class SummaryCaps(NamedTuple):
    """How much of each is kept."""

    requests: int = 8  # the first one among them
    request_chars: int = 300
    discussion: int = 5
    discussion_chars: int = 1000
    commits: int = 15  # with their subjects; of older ones the bare hashes
    commit_chars: int = 120
    hashes: int = 150
    files: int = 30
    file_chars: int = 200
    decisions: int = 12
    decision_chars: int = 250
    tools: int = 30
    tool_chars: int = 64


CAPS = SummaryCaps()


class Commit(NamedTuple):
    """A commit: its hash and what it said."""

    hash: str
    subject: str


class Exchange(NamedTuple):
    """A question of the agent's and what the user answered."""

    question: str
    answer: str


class ThreadSummary(NamedTuple):
    """What is known of everything that has left the window; lists are oldest first, commits newest first."""

    task: str = ""
    original: str = ""
    discussion: tuple[Exchange, ...] = ()
    requests: tuple[str, ...] = ()  # without the original
    commits: tuple[Commit, ...] = ()
    hashes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    tools: tuple[tuple[str, int], ...] = ()


def summarize(
    dropped: Sequence[Message],
    previous: ThreadSummary | None = None,
    *,
    kept: Sequence[Message] = (),
    caps: SummaryCaps = CAPS,
) -> ThreadSummary:
    """Add what leaves the window to what was known; `kept`, which stays, only tells what the task is now."""
    known = _carried(dropped) if previous is None else previous
    merged = merge_summaries(known, _extract(dropped, caps), caps=caps)
    original = merged.original or _first(_requests(kept, caps))
    task = find_task([*dropped, *kept], merged.task, chars=caps.request_chars)
    return merged._replace(task=task or original, original=original)


def _carried(messages: Iterable[Message]) -> ThreadSummary:
    """The last summary that stands in the messages themselves, when nobody kept it apart."""
    found = [each.text for each in messages if each.role is Role.SYSTEM and _SUMMARY_OPEN in each.text]
    return parse_summary(found[-1]) if found else ThreadSummary()


def merge_summaries(older: ThreadSummary, newer: ThreadSummary, *, caps: SummaryCaps = CAPS) -> ThreadSummary:
    """Two summaries as one, within the caps: the newest stay, and the very first request always."""
    talks = _unique([*older.discussion, *newer.discussion])
    settled = talks[: -caps.discussion] if caps.discussion else talks
    told = [_clip(f"{each.question} → {each.answer}", caps.decision_chars) for each in settled]
    decisions = _unique([*older.decisions, *told, *newer.decisions])
    commits = _newest_commits(older.commits, newer.commits)
    hashes = [*(each.hash for each in commits[caps.commits :]), *newer.hashes, *older.hashes]
    shown = {each.hash for each in commits[: caps.commits]}
    original = older.original or newer.original
    asked = [each for each in _unique([*older.requests, *newer.requests]) if each != original]
    counts = Counter(dict(older.tools))
    counts.update(dict(newer.tools))
    return ThreadSummary(
        task=newer.task or older.task,
        original=original,
        discussion=tuple(talks[len(settled) :]),
        requests=_last(asked, caps.requests - 1),
        commits=tuple(commits[: caps.commits]),
        hashes=tuple(dict.fromkeys(each for each in hashes if each not in shown))[: caps.hashes],
        files=_last(_unique([*older.files, *newer.files]), caps.files),
        decisions=_last(decisions, caps.decisions),
        tools=tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0]))[: caps.tools]),
    )


# --- the task ------------------------------------------------------------------------------------------

_WRAPPED = re.compile(r"<([a-z][\w-]*)[\s>]")


def find_task(messages: Iterable[Message], previous: str = "", *, chars: int = CAPS.request_chars) -> str:
    """The current task: the newest message in which the user really asks for something.

    A short confirmation never is one. When no message qualifies, the task known before stays; when there is
    none, the newest request that is not small talk.
    """
    newest = ""
    for message in reversed(list(messages)):
        text = request_text(message)
        if not text or not telling(text):
            continue
        if is_substantive(text):
            return _clip(text, chars)
        newest = newest or text
    return previous or _clip(newest, chars)


def request_text(message: Message) -> str:
    """What the user says in it, on one line; nothing for commands and what a host wrapped in tags."""
    if not is_request(message):
        return ""
    text = message.text.replace(ASIDE, "").strip()
    wrapped = _WRAPPED.match(text)
    if is_command(text) or (wrapped and text.endswith(f"</{wrapped[1]}>")):
        return ""
    return _safe_line(text)


# --- extraction ----------------------------------------------------------------------------------------

_ASKING = frozenset(
    """interact ask ask_user askuserquestion ask_user_question ask_question ask_followup_question
    request_user_input user_collaboration""".split()
)
_SCAN = 100_000  # of a long text, what is looked at from each end
_COMMITTED = re.compile(
    r"^\[(?:[^\]\s]{1,100} (?:\(root-commit\) )?)?([0-9a-f]{7,40})\] (\S.*)$", re.MULTILINE
)
_LISTED = re.compile(r"^([0-9a-f]{7,40}) (\S.*)$", re.MULTILINE)
_PATH = re.compile(
    r'(?<!\\)"(?:path|new_path|old_path|file_path|filePath|notebook_path|filename)"\s{0,4}:\s{0,4}'
    r'("(?:[^"\\\n]|\\.){1,400}")'
)
_PATCHED = re.compile(r"\*\*\* (?:Update|Add|Delete) File: ([^\n\\\"]{1,400})")
_QUESTION = re.compile(r'"(?:question|message|prompt)"\s{0,4}:\s{0,4}("(?:[^"\\]|\\.){1,4000}")', re.DOTALL)
_DECIDED = re.compile(
    r"^[\s>*_#-]{0,12}((?:\[COLLABORATION\]|(?:key |final )?decision|decided|we(?:'ve| have)? decided|agreed"
    r"|entscheidung|entschieden)\b.{3,})$",
    re.IGNORECASE | re.MULTILINE,
)
_ENDS_ASKING = re.compile(r"([^.!?\n]{3,300}\?)[\s*_)\"']{0,8}$")


def _extract(messages: Sequence[Message], caps: SummaryCaps) -> ThreadSummary:
    calls: dict[str, ToolCall] = {}
    tools: Counter[str] = Counter()
    files: list[str] = []
    commits: dict[str, Commit] = {}  # by what git shows of a hash at least; oldest first
    talks: list[Exchange] = []
    own = OwnCalls()
    for message in map(own.without, messages):
        for call in message.calls:
            calls[call.id] = call
            tools[_safe_line(call.name)[: caps.tool_chars] or "unnamed"] += 1
            files += _paths(call.arguments, caps)
        for result in message.results:
            asked = calls.get(result.id)
            for commit in reversed(_commits(result, asked, caps)):
                commits.setdefault(commit.hash[:7], commit)
            if asked is not None and asked.name.lower() in _ASKING:
                talks.append(_exchange(_question(asked.arguments), result.text, caps))
    talks += _asked_in_words(messages, caps)
    requests = list(_requests(messages, caps))
    return ThreadSummary(
        original=_first(requests),
        discussion=tuple(each for each in talks if each.question and each.answer),
        requests=tuple(requests),
        commits=tuple(reversed(commits.values())),
        files=tuple(_unique(files)),
        decisions=tuple(_decisions(messages, caps)),
        tools=tuple(tools.items()),
    )


def _requests(messages: Iterable[Message], caps: SummaryCaps) -> Iterator[str]:
    for message in messages:
        text = request_text(message)
        if text and telling(text):
            yield _clip(text, caps.request_chars)


def _first(requests: Iterable[str]) -> str:
    """The request a session began with: the first substantive one, else the first."""
    found = list(requests)
    return next((each for each in found if is_substantive(each)), found[0] if found else "")


def _commits(result: ToolResult, call: ToolCall | None, caps: SummaryCaps) -> list[Commit]:
    """Commits in a result, newest first: git tells of one it made, or lists those there are."""
    if result.error:
        return []
    text = _ends(result.text)
    found = [Commit(*match.groups()) for match in _COMMITTED.finditer(text)][::-1]
    if call is None or "git" in call.name.lower() or "git" in call.arguments[:_SCAN]:
        found += [Commit(*match.groups()) for match in _LISTED.finditer(text)]
    return [Commit(each.hash, _clip(_safe_line(each.subject), caps.commit_chars)) for each in found]


def _newest_commits(older: Iterable[Commit], newer: Iterable[Commit]) -> list[Commit]:
    """Newest first; a commit seen again stays where it was, so that a listing does not reorder them."""
    known = list(older)
    hashes = {each.hash[:7] for each in known}
    fresh = {each.hash[:7]: each for each in reversed(list(newer)) if each.hash[:7] not in hashes}
    return [*reversed(fresh.values()), *known]


def _paths(arguments: str, caps: SummaryCaps) -> Iterator[str]:
    text = _ends(arguments)
    for match in _PATH.finditer(text):
        try:
            path = json.loads(match[1], strict=False)
        except ValueError:
            continue
        yield from _path(path, caps)
    for match in _PATCHED.finditer(text):
        yield from _path(match[1], caps)


def _path(text: str, caps: SummaryCaps) -> Iterator[str]:
    path = _safe_line(text).removeprefix("./")
    if path.strip("./") and len(path) <= caps.file_chars:
        yield path


def _question(arguments: str) -> str:
    match = _QUESTION.search(arguments[:_SCAN])
    try:
        return str(json.loads(match[1], strict=False)) if match else arguments[:_SCAN]
    except ValueError:
        return arguments[:_SCAN]


def _asked_in_words(messages: Sequence[Message], caps: SummaryCaps) -> Iterator[Exchange]:
    """An assistant's message that ends in a question, and the user's answer right behind it."""
    question = ""
    for message in messages:
        if message.role is Role.ASSISTANT and not message.calls:
            match = _ENDS_ASKING.search(message.text[-400:])
            question = match[1] if match else ""
        elif is_request(message):
            if question and message.text.strip():
                yield _exchange(question, message.text, caps)
            question = ""


def _exchange(question: str, answer: str, caps: SummaryCaps) -> Exchange:
    chars = caps.discussion_chars
    return Exchange(
        _clip(_safe_line(question[: chars * 4]), chars), _clip(_safe_line(answer[: chars * 4]), chars)
    )


def _decisions(messages: Sequence[Message], caps: SummaryCaps) -> Iterator[str]:
    for message in messages:
        if message.role in (Role.ASSISTANT, Role.USER):
            for match in _DECIDED.finditer(_ends(message.text)):
                yield _clip(_safe_line(match[1]), caps.decision_chars)


def _ends(text: str) -> str:
    """A text, or both ends of a very long one: a log of 50 MB must not stop the conversation."""
    return text if len(text) <= 2 * _SCAN else f"{text[:_SCAN]}\n{text[-_SCAN:]}"


# --- the text ------------------------------------------------------------------------------------------

_SUMMARY_OPEN, _SUMMARY_CLOSE = "<thread_summary>", "</thread_summary>"
_TAG = re.compile(r"<(?=/?\s*thread_summary)", re.IGNORECASE)
_ORIGINAL = "[original] "
_EARLIER = "earlier: "
_TASK = "Current task: "
_HEADINGS = {
    "Active discussion:": "discussion",
    "Recent user requests:": "requests",
    "Git commits:": "commits",
    "Files touched:": "files",
    "Key decisions:": "decisions",
    "Tool usage:": "tools",
}


def render_summary(summary: ThreadSummary) -> str:
    """The summary as the model reads it; a part with nothing in it is left out."""
    original = [_ORIGINAL + summary.original] if summary.original else []
    hashes = [_EARLIER + " ".join(summary.hashes)] if summary.hashes else []
    sections: dict[str, list[str]] = {
        "discussion": [line for each in summary.discussion for line in (f"Q: {each[0]}", f"A: {each[1]}")],
        "requests": original + list(summary.requests),
        "commits": [f"{each.hash} {each.subject}" for each in summary.commits] + hashes,
        "files": list(summary.files),
        "decisions": list(summary.decisions),
        "tools": [f"{name}: {count}" for name, count in summary.tools],
    }
    blocks = [_TASK + summary.task] if summary.task else []
    for heading, name in _HEADINGS.items():
        if sections[name]:
            blocks.append("\n".join([heading, *(f"- {line}" for line in sections[name])]))
    return "\n\n".join([_SUMMARY_OPEN, *blocks, _SUMMARY_CLOSE])


def parse_summary(text: str) -> ThreadSummary:
    """A summary from its text; what is no part of one is passed over."""
    start, end = text.find(_SUMMARY_OPEN), text.rfind(_SUMMARY_CLOSE)
    inside = text[start + len(_SUMMARY_OPEN) : end if end > start else len(text)] if start >= 0 else ""
    task, section = "", ""
    lines: dict[str, list[str]] = {name: [] for name in _HEADINGS.values()}
    for line in inside.splitlines():
        if line.startswith(_TASK):
            task = line.removeprefix(_TASK)
        elif line in _HEADINGS:
            section = _HEADINGS[line]
        elif line.startswith("- ") and section:
            lines[section].append(line[2:])
    originals = [each for each in lines["requests"] if each.startswith(_ORIGINAL)]
    earlier = [each for each in lines["commits"] if each.startswith(_EARLIER)]
    return ThreadSummary(
        task=task,
        original=originals[0].removeprefix(_ORIGINAL) if originals else "",
        discussion=tuple(_read_exchanges(lines["discussion"])),
        requests=tuple(each for each in lines["requests"] if not each.startswith(_ORIGINAL)),
        commits=tuple(Commit(*_halves(each, " ")) for each in lines["commits"] if each not in earlier),
        hashes=tuple(earlier[0].removeprefix(_EARLIER).split()) if earlier else (),
        files=tuple(lines["files"]),
        decisions=tuple(lines["decisions"]),
        tools=tuple(_read_tools(lines["tools"])),
    )


def fit_summary(summary: ThreadSummary, chars: int) -> ThreadSummary:
    """A summary whose text is no longer than that.

    What goes first is what the transcript gives back most easily: tool counts, files, answers already given,
    requests, old hashes, decisions, commits; the oldest of each first. Both tasks stay, cut at worst.
    """
    for name in ("tools", "files", "discussion", "requests", "hashes", "decisions", "commits"):
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
            task=_clip(summary.task, max(least, room - len(summary.original))),
            original=_clip(summary.original, max(least, room - len(summary.task))),
        )
    return summary


def _lighter(name: str, lines: tuple[_T, ...], excess: int) -> tuple[_T, ...]:
    """A list without its oldest, or least used, entries; what each takes is never overrated."""
    newest_first = name in ("commits", "hashes", "tools")
    left = list(lines) if newest_first else list(reversed(lines))
    while left and excess > 0:
        gone = left.pop()
        excess -= sum(len(str(each)) for each in gone) if isinstance(gone, tuple) else len(str(gone))
    return tuple(left if newest_first else reversed(left))


def _read_exchanges(lines: list[str]) -> Iterator[Exchange]:
    question = ""
    for line in lines:
        if line.startswith("Q: "):
            question = line[3:]
        elif line.startswith("A: ") and question:
            yield Exchange(question, line[3:])
            question = ""


def _read_tools(lines: list[str]) -> Iterator[tuple[str, int]]:
    for line in lines:
        name, _, number = line.rpartition(": ")
        if name and number.isdecimal():
            yield name, int(number)


def _halves(text: str, mark: str) -> tuple[str, str]:
    one, _, other = text.partition(mark)
    return one, other


def _safe_line(text: str) -> str:
    """A text on one line that cannot be taken for a part of the wrapper."""
    words = " ".join(text.split())
    while words.startswith((_ORIGINAL, _EARLIER)):
        words = words.removeprefix(_ORIGINAL).removeprefix(_EARLIER)
    return _TAG.sub("‹", words)


def _clip(text: str, chars: int) -> str:
    return text if len(text) <= chars + 3 else f"{text[:chars]}..."


def _unique(values: list[_T]) -> list[_T]:
    """Each value once, where it stood last."""
    return list(dict.fromkeys(reversed(values)))[::-1]


def _last(values: list[str], number: int) -> tuple[str, ...]:
    return tuple(values[-number:]) if number > 0 else ()


# ------------------------------------------------------------ what stands where older messages stood

_GIT_COMMITS = 10
_GIT_CHANGES = 20
_GIT_CHARS = 200

_BEGIN = "Older conversation history has been summarized."
_END = """\
Knowledge of this project is in the system prompt. Anything said earlier, in this session or in others, can be
found with session_search, and the checkpoint session_progress holds the state of the work.
Continue with the current task. There is no need to mention this note, to read hand-over documents again, or
to ask what to do next."""


def render_recovery(
    summary: ThreadSummary, *, todo: TodoList | None = None, git: GitActivity | None = None
) -> str:
    """The whole block."""
    blocks = [_BEGIN, render_summary(summary)]
    if summary.task:
        blocks.append(f"Current task: {summary.task}")
    if todo is not None and todo.items:
        blocks.append(f"Todo list:\n{todos.render(todo)}")
    if git is not None and (git.branch or git.commits or git.changes):
        blocks.append(_git_lines(git))
    return "\n\n".join([*blocks, _END])


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
    git: GitActivity | None = None


def render_block(
    known: ThreadSummary, words: str, *, todo: TodoList, git: GitActivity | None, tokens: int, ratio: float
) -> str:
    """The block in so many tokens; `words` are a model's summary, or empty."""
    short = todo._replace(items=todo.open[:_MOST_ITEMS])
    tame = _TAGS.sub("‹", words)
    head = f"{_OPEN}\n{tame}\n{_CLOSE}\n\n" if words else ""
    text = ""
    for frame in (
        _Frame(head, todo, git),
        _Frame(head, short),
        _Frame("", short),
        _Frame("", _few_items(todo)),
    ):
        text, fitted = _fitted(known, frame, tokens=tokens, ratio=ratio)
        whole = fitted.task == known.task and fitted.original == known.original
        if whole and _block_tokens(text, ratio) <= tokens:
            return text
    return text


def least_tokens(known: ThreadSummary, todo: TodoList, ratio: float) -> int:
    """How many tokens the smallest block needs in which both tasks are whole."""
    bare = ThreadSummary(task=known.task, original=known.original)
    return _block_tokens(render_recovery(bare, todo=_few_items(todo)), ratio)


def _few_items(todo: TodoList) -> TodoList:
    items = tuple(item._replace(title=item.title[:_TITLE_CHARS]) for item in todo.open[:_FEW_ITEMS])
    return todo._replace(items=items)


def _fitted(known: ThreadSummary, frame: _Frame, *, tokens: int, ratio: float) -> tuple[str, ThreadSummary]:
    """A block with so much of a summary as fits beside the rest, and what it holds of it."""
    fitted = known
    while True:
        text = frame.before + render_recovery(fitted, todo=frame.todo, git=frame.git)
        over = _block_tokens(text, ratio) - tokens
        size = len(render_summary(fitted))
        smaller = fit_summary(fitted, size - int(over * ratio) - 1) if over > 0 else fitted
        if over <= 0 or smaller == fitted:
            return text, fitted
        if smaller.task != fitted.task or smaller.original != fitted.original:
            bare = ThreadSummary(task=known.task, original=known.original)  # before a task is cut, all else
            smaller = bare if fitted != bare else smaller
        fitted = smaller


def _block_tokens(text: str, ratio: float) -> int:
    return count(measure(Message(Role.USER, (Text(text),))), ratio)


def model_words(block: str) -> str:
    """A model's summary in a block."""
    start, end = block.find(_OPEN), block.find(_CLOSE)
    return block[start + len(_OPEN) : end].strip() if 0 <= start < end else ""
