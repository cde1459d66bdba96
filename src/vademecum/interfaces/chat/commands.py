"""The slash commands of the chat, such as `/status`: find a command, run it, and complete its words.

After the parts that all commands share come the commands about the context window, about sessions and about
memory. Commands about memory act in the person's own name. Each group of commands has its table.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from vademecum import Ambiguous, NotFound, Refused, UnknownName, UsageError, VadeError
from vademecum.interfaces.chat import state
from vademecum.interfaces.chat.state import NO_MODEL, count_tools, find_model, known_providers, local_models
from vademecum.interfaces.present import output
from vademecum.interfaces.present.output import discard_draft, edit_text
from vademecum.interfaces.present.to_text import (
    format_figures,
    list_sessions,
    show_lessons,
    show_lint,
    show_merged,
    show_outcome,
    show_pending,
)
from vademecum.interfaces.tools.core import LESSONS
from vademecum.interfaces.tools.declaration import quote_value
from vademecum.text import spelled
from vademecum.tokens import Size, count, weigh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum import Status, Stored
    from vademecum.interfaces.chat.state import Chat
    from vademecum.memory.values import Sections

    Run = Callable[[Chat, str], None]
    Complete = Callable[[Chat, Sequence[str]], Iterable[str]]

# Commands of earlier releases, and the command that each one was replaced by.
REPLACED = {"lint": "check", "heal": "tidy heal", "approve": "review"}
_ALSO = {"exit": "quit", "q": "quit", "h": "help", "?": "help"}
_BAR = 24
_SESSION = "show|list|switch ID|rename NAME|trim|export FILE"
FOOTERS = ("off", "tokens", "full")
PROFILE = "profile.md"
_MEMORY = "list|search QUERY|show KEY|stats|prune [--yes]"
_KNOWLEDGE = "list [TYPE]|stats|prune [--yes]"
# The type and scope of suggestions: a preference holds everywhere, the others in the project.
_PLACES = {"preference": ("user", "global"), "correction": ("feedback", "project")}
_SHORT = 100
_ID = 4  # characters of an id that a person must type at least
_NUMBER = re.compile(r"#?(\d{1,9})[.)]?")  # the number of a proposal, never a text to save


def complete_nothing(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """Offer no completions."""
    return ()


def complete_from(*options: str) -> Complete:
    """Return a completion that offers these words as the first word, and nothing after it."""

    def complete(chat: Chat, words: Sequence[str]) -> Iterable[str]:
        return options if not words else ()

    return complete


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A slash command: its name, its arguments, its line in the help, and its functions.

    `run` gets the text after the command's name. `complete` gets the complete words before the word being
    typed.
    """

    name: str
    usage: str
    help: str
    run: Run
    complete: Complete = complete_nothing

    @property
    def call(self) -> str:
        """The command as a person types it, with its arguments."""
        return f"/{self.name} {self.usage}".rstrip()


def split_word(rest: str) -> tuple[str, str]:
    """Split a command's text into its first word and the rest."""
    first, _, more = rest.strip().partition(" ")
    return first, more.strip()


def usage_error(command: str, usage: str) -> UsageError:
    """Return the error for a command with wrong arguments; it shows the right call."""
    return UsageError(f"/{command} is called as `/{command} {usage}`", hint="/help shows all commands")


def complete_keys(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """Return the keys of all visible records, as completions of a first word."""
    return () if words else sorted({record.key for record in chat.person.list().records})


def complete_nested(**options: Complete) -> Complete:
    """Return a completion that offers these words first, and after each word its own completions."""

    def complete(chat: Chat, words: Sequence[str]) -> Iterable[str]:
        if not words:
            return [name.rstrip("_") for name in options]
        found = options.get(words[0])
        return found(chat, words[1:]) if found is not None else ()

    return complete


# ---------------------------------------------------------------- the window


def format_bar(part: int, whole: int) -> str:
    """Return a bar and a percentage that show how large a part of the whole is."""
    share = min(part / whole, 1.0) if whole else 1.0
    full = round(share * _BAR)
    return f"[{'█' * full}{'░' * (_BAR - full)}] {share:.0%}"


def show_status(chat: Chat, rest: str) -> None:
    """Show the model, the context window, the session, memory and the tokens used."""
    look, tokens = chat.engine.inspect(), measure_window(chat)
    found = chat.person.status()
    name = chat.log.title()
    rows = [
        ("model", chat.model_name or "none"),
        (
            "window",
            f"{format_bar(tokens.total, tokens.context)} {tokens.total:,} of {tokens.context:,} tokens",
        ),
        ("compactions", f"{look.cycles:,}" + (f", last flush {look.outcome}" if look.outcome else "")),
        ("session", f"{chat.log.session}{f' ({name})' if name else ''}, {chat.message_count:,} messages"),
        ("memory", chat.mode),
        ("records", ", ".join(f"{n} {scope}" for scope, n in found.records.items()) or "none"),
        ("index", _coverage(found)),
        ("tools", "allowed: " + ", ".join(sorted(chat.allowed)) if chat.allowed else "each asks first"),
        ("used", format_usage(chat)),
    ]
    for title, value in rows:
        output.line(f"{title:<12}{value}")


def _coverage(status: Status) -> str:
    found = status.coverage
    if found is None:
        return "not checked"
    if found.trouble:
        return found.trouble
    waits = f", {found.pending + found.stale:,} pending" if found.pending + found.stale else ""
    return f"{found.indexed:,} of {found.files:,} files{waits}"


def format_usage(chat: Chat) -> str:
    """Return the tokens that this session has used so far, earlier chats included, as text."""
    return chat.log.usage().tell()


def show_context(chat: Chat, rest: str) -> None:
    """Show the parts of the context that is sent to the model, with their tokens."""
    which, more = split_word(rest or "list")
    if which not in ("list", "detail") or more:
        raise usage_error("context", "list|detail")
    look, tokens, offered = chat.engine.inspect(), measure_window(chat), chat.offered()
    parts = _system_parts(chat, tokens.system, look.ratio)
    parts.append(
        WindowPart(
            "tool schemas",
            tokens.schemas,
            f"{len(offered)} tools",
            [WindowPart(str(each["name"]), count_tools([each], look.ratio)) for each in offered],
        )
    )
    parts.append(WindowPart("summary", tokens.summary))
    head = next((at for at, row in enumerate(look.rows) if row.role != "system"), len(look.rows))
    messages = [WindowPart(row.role, row.tokens, f"{row.state} {row.id}") for row in look.rows[head:]]
    parts.append(WindowPart("messages", tokens.messages, f"{len(messages):,} in the window", messages))
    rows = [row for part in parts for row in part.rows(detail=which == "detail")]
    output.table(rows, ["what", "tokens", "text"])
    output.line(f"{format_bar(tokens.total, tokens.context)} {tokens.total:,} of {tokens.context:,} tokens")
    for warning in chat.block.warnings:
        output.line(warning)
    if chat.block.pending:
        output.line(
            f"{chat.block.pending} hidden from the model until you verify them (`vade review verify KEY`)"
        )


class WindowPart(NamedTuple):
    """A part of the context that is sent to the model, with the smaller parts in it."""

    what: str
    tokens: int
    text: str = ""
    below: list[WindowPart] = []  # noqa: RUF012  never changed

    def rows(self, *, detail: bool) -> Iterator[list[str]]:
        """Yield the table row of this part; with `detail`, also the rows of the smaller parts in it.

        The smaller rows add up to the first row: tokens around the parts get a row of their own.
        """
        yield [self.what, f"{self.tokens:,}", self.text]
        if not detail or not self.below:
            return
        rest = self.tokens - sum(each.tokens for each in self.below)
        for each in [*self.below, *([WindowPart("around them", rest)] if rest else [])]:
            yield [f"  {each.what}", f"{each.tokens:,}", each.text]


def _system_parts(chat: Chat, tokens: int, ratio: float) -> list[WindowPart]:
    """Return the system prompt as a part of the context, and the parts of memory that are in it."""

    def size(text: str) -> int:
        return count(Size(weigh(text)), ratio)

    memory = [
        WindowPart(
            f"memory: {section.title}",
            size("\n".join(line for item in section.items for line in item.lines)),
            f"{len(section.items)} items",
            [
                WindowPart(item.key or item.path, size("\n".join(item.lines)), item.path)
                for item in section.items
            ],
        )
        for section in chat.block.sections
        if section.items
    ]
    if memory:
        rest = size(chat.block.text) - sum(each.tokens for each in memory)
        memory.append(WindowPart("memory: around it", rest))
    return [WindowPart("system prompt", tokens - sum(each.tokens for each in memory)), *memory]


def measure_window(chat: Chat) -> Sections:
    """Return the tokens in the context window, with the current system prompt and tools."""
    return chat.engine.filled(chat.thread[:1], chat.offered())


def set_usage_line(chat: Chat, rest: str) -> None:
    """Set which line about tokens is shown below each answer, or show the current choice."""
    if rest and rest not in FOOTERS:
        raise usage_error("usage", "|".join(FOOTERS))
    if rest:
        chat.footer = rest
    output.line(f"below each answer: {chat.footer}; so far {format_usage(chat)}")


def compact_window(chat: Chat, rest: str) -> None:
    """Summarize the older messages now; `rest` says what the summary should focus on."""
    before = measure_window(chat).total
    with chat.screen.working("summarizing the older messages …"):
        made = chat.engine.compact(rest or None)
    if not made.trimmed and not made.cut:
        output.line("nothing to compact: the context window has only new messages")
        return
    how = "the model" if made.compacted == "model" else "extraction"
    flushed = f"; memory flush: {made.flushed}" if made.flushed else ""
    output.line(
        f"🧹 Compacted by {how}: {output.plural(len(made.trimmed), 'message')} left,"
        f" {before:,} → {measure_window(chat).total:,} tokens{flushed}; the transcript still has them"
    )


WINDOW = (
    SlashCommand("status", "", "show model, context window, session and memory", show_status),
    SlashCommand(
        "context",
        "list|detail",
        "show the context sent to the model, part by part",
        show_context,
        complete_from("list", "detail"),
    ),
    SlashCommand(
        "usage",
        "off|tokens|full",
        "set the token line below each answer",
        set_usage_line,
        complete_from(*FOOTERS),
    ),
    SlashCommand("compact", "[FOCUS]", "summarize all but the newest messages now", compact_window),
)

# ---------------------------------------------------------------- sessions


def start_new_session(chat: Chat, rest: str) -> None:
    """Start a new session, and save a note of the current session to the journal."""
    note = chat.begin(why="new", note=True)
    note_text = f"; the last one is noted in {note}" if "/" in note else ""
    output.line(f"a new session: {chat.log.session}{note_text}")


def reset_session(chat: Chat, rest: str) -> None:
    """Start a new session, without a note of the current session."""
    chat.begin(why="reset", note=False)
    output.line(f"a new session: {chat.log.session}; the last one is in its transcript alone")


def handle_session(chat: Chat, rest: str) -> None:
    """Show, list, switch, rename, trim or export sessions."""
    which, more = split_word(rest or "show")
    if which == "show" and not more:
        _show_session(chat)
    elif which == "list" and not more:
        list_sessions(chat.person.sessions.list(), as_json=False)
    elif which == "switch" and more:
        _switch_session(chat, more)
    elif which == "rename" and more:
        _require_saved(chat)
        chat.person.sessions.rename(chat.log.session, more)
        output.line(f"this session is now called {more}")
    elif which == "trim" and not more:
        _trim_session(chat)
    elif which == "export" and more:
        _require_saved(chat)
        output.line(f"wrote {chat.person.sessions.export(chat.log.session, more)}")
    else:
        raise usage_error("session", _SESSION)


def _require_saved(chat: Chat) -> None:
    """Refuse a session that is not saved."""
    if not chat.log.path:
        raise Refused("this session is not saved", hint="run without `--incognito` and `--readonly`")


def _show_session(chat: Chat) -> None:
    output.line(f"session     {chat.log.session}")
    output.line(f"name        {chat.log.title() or '-'}")
    output.line(f"started     {chat.log.created() or '-'}")
    output.line(f"transcript  {chat.log.path or 'in memory only'}")
    output.line(f"messages    {chat.message_count:,}")
    output.line(f"used        {format_usage(chat)}")
    output.line(f"compactions {chat.engine.inspect().cycles:,}")


def _switch_session(chat: Chat, which: str) -> None:
    if chat.person.workspace.readonly or chat.settings.incognito:
        raise Refused(
            "this chat has no access to other sessions", hint="run without `--incognito` and `--readonly`"
        )
    newest = state.newest_session(chat.person) if which == state.LAST else None
    log = chat.person.sessions.open(newest.id if newest else which)
    if log.session == chat.log.session:
        output.line("already in this session")
        return
    chat.enter(log, state.lock_session(chat.person, log.session))
    chat.named = True
    name = chat.log.title()
    output.line(f"continuing {log.session}{f' ({name})' if name else ''}: {chat.message_count:,} messages")


def _trim_session(chat: Chat) -> None:
    """Remove the older messages from the context window.

    The model is first asked to save to memory what it needs from them. Their summary is extracted without it.
    """
    before = measure_window(chat).total
    engine = chat.person.sessions.context(
        chat.log,
        window=max(chat.engine.inspect().tokens.total, 1),
        model=chat.model_name,
        complete=chat.complete if chat.model is not None else None,
        reply=chat.reply,
    )
    with chat.screen.working("making room …"):
        made = engine.compact(by_model=False)
    chat.renew()
    if not made.trimmed and not made.cut:
        output.line("nothing to trim: the context window has only new messages")
        return
    flushed = f"; memory flush: {made.flushed}" if made.flushed else ""
    output.line(
        f"{output.plural(len(made.trimmed), 'message')} removed from the context window: {before:,} →"
        f" {measure_window(chat).total:,}"
        f" tokens{flushed}; the transcript still has them"
    )


def handle_todo(chat: Chat, rest: str) -> None:
    """Show the session's to-do list, or add or complete an item."""
    which, more = split_word(rest or "list")
    if which == "list" and not more:
        output.line(chat.engine.todo({"operation": "list"}))
    elif which == "add" and more:
        output.line(chat.engine.todo({"operation": "add", "title": more}))
    elif which == "done" and more:
        output.line(chat.engine.todo({"operation": "done", "id": more}))
    else:
        raise usage_error("todo", "list|add TEXT|done NUM")


def complete_sessions(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """Return the ids of the newest sessions, as completions of a first word."""
    return () if words else [state.LAST, *(each.id for each in chat.person.sessions.list()[:50])]


SESSIONS = (
    SlashCommand("new", "", "save a note to the journal and start a new session", start_new_session),
    SlashCommand("reset", "", "start a new session without a note", reset_session),
    SlashCommand(
        "session",
        _SESSION,
        "list, switch, rename, trim or export sessions",
        handle_session,
        complete_nested(
            show=complete_nothing,
            list=complete_nothing,
            switch=complete_sessions,
            rename=complete_nothing,
            trim=complete_nothing,
            export=complete_nothing,
        ),
    ),
    SlashCommand(
        "todo",
        "list|add TEXT|done NUM",
        "show or change the to-do list",
        handle_todo,
        complete_from("list", "add", "done"),
    ),
)

# ---------------------------------------------------------------- the model, the end


def handle_model(chat: Chat, rest: str) -> None:
    """Show or switch the model that answers; with `list`, show the models on this machine."""
    if rest == "list":
        _list_models()
        return
    if " " in rest:
        raise usage_error("model", "[PROVIDER:NAME|list]")
    if rest:
        chosen = find_model(chat.settings, rest)
        chat.model, chat.tools_on = chosen, True
        chat.renew()
    if chat.model is None:
        output.line(NO_MODEL)
    else:
        output.line(f"{chat.model.name}, a window of {chat.window:,} tokens")


def _list_models() -> None:
    found = local_models()
    for endpoint, name in found:
        output.line(f"{name}  {endpoint}")
    if not found:
        output.line("no Ollama or llama.cpp server runs on this machine")
    output.line(f"providers: {', '.join(known_providers())}")


def complete_providers(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """Return the providers with which a model's name can begin, as completions."""
    return () if words else ["list", *(f"{provider}:" for provider in known_providers())]


def quit_chat(chat: Chat, rest: str) -> None:
    """End the chat."""
    chat.over = True


TALK = (
    SlashCommand(
        "model", "[PROVIDER:NAME|list]", "show or switch the model", handle_model, complete_providers
    ),
    SlashCommand("quit", "", "end the session (or Ctrl-D)", quit_chat),
)


# ---------------------------------------------------------------- what is remembered


def handle_memory(chat: Chat, rest: str) -> None:
    """List, search, show, count or prune the records in memory."""
    which, more = split_word(rest or "list")
    if which == "list" and not more:
        _list_records(chat)
    elif which == "search" and more:
        _search_memory(chat, more)
    elif which == "show" and more:
        record = chat.person.show(more)
        output.line(f"{record.key} (#{record.num}) · {record.place.scope} · {record.type}")
        output.line(chat.person.get(more).text)
    elif which == "stats" and not more:
        _show_stats(chat)
    elif which == "prune" and more in ("", "--yes"):
        prune_lessons(chat, more)
    else:
        raise usage_error("memory", _MEMORY)


def _list_records(chat: Chat) -> None:
    found = chat.person.list()
    rows = [
        [
            f"#{record.num or '-'}",
            record.key,
            str(record.place.scope),
            record.type + (" 🔒" if record.protected else ""),
            output.age(record.updated or record.created),
            " ".join(record.text.split())[:_SHORT],
        ]
        for record in found.records
    ]
    if rows:
        output.table(rows, ["num", "key", "scope", "type", "age", "text"])
    else:
        output.line("no memories yet: /remember TEXT saves one")


def _search_memory(chat: Chat, query: str) -> None:
    answer = chat.person.search(query)
    for result in answer.results:
        output.line(f"{result.path}#L{result.start}-L{result.end} · {result.match}")
        output.line("\n".join(f"  {line}" for line in result.snippet.split("\n")))
    if not answer.results:
        output.line("nothing found")
    output.line(f"({answer.mode}, {answer.coverage.indexed} of {answer.coverage.files} files)")
    for note in (*answer.notes, *answer.degraded):
        output.line(note)


def _show_stats(chat: Chat) -> None:
    records = chat.person.list().records
    scopes = {str(record.place.scope) for record in records}
    for scope in sorted(scopes):
        own = [record for record in records if record.place.scope == scope]
        output.line(f"{scope}: {output.plural(len(own), 'record')}")
    show_lesson_stats(chat)


def show_lesson_stats(chat: Chat) -> None:
    """Show a table of the saved lessons by type."""
    found = chat.person.knowledge.stats()
    rows = [format_figures("all", kind, figures) for kind, figures in found.by_type.items() if figures.count]
    if rows:
        output.table(
            rows, ["scope", "type", "count", "sure", "newest", "oldest", "average", "bytes", "used", "trust"]
        )
    else:
        output.line("no lessons yet")


def prune_lessons(chat: Chat, rest: str) -> None:
    """Archive lessons that are too old or doubtful, once the person agrees."""
    outcome = chat.person.knowledge.prune()
    if not outcome.proposals:
        output.line("nothing to archive")
        return
    for proposal in outcome.proposals:
        output.line(f"  {proposal.where}: {proposal.why}")
    if outcome.large:
        output.line(outcome.large)
    if not _is_confirmed(
        chat, f"Put {output.plural(len(outcome.proposals), 'lesson')} to the archive?", rest
    ):
        output.line("nothing was changed")
        return
    done = chat.person.knowledge.prune(apply=True, large=True)
    output.line(f"archived; `vade undo {done.run}` restores it")


def forget_record(chat: Chat, rest: str) -> None:
    """Move a record to the archive, once the person agrees."""
    name, _, _ = rest.removesuffix("--yes").strip().partition(" ")
    if not name:
        raise usage_error("forget", "KEY|NUM [--yes]")
    record = chat.person.show(name)
    output.line(f"{record.key} (#{record.num}, {record.place.scope}): {' '.join(record.text.split())[:300]}")
    if not _is_confirmed(chat, "Forget it?", rest):
        output.line("nothing was changed")
        return
    chat.person.forget(name)
    output.line(f"forgot {record.key}; `vade restore {record.key}` restores it")


def protect_record(chat: Chat, rest: str) -> None:
    """Protect a record from automatic removal, or with `off` end the protection."""
    name, how = split_word(rest)
    if not name or how not in ("", "off"):
        raise usage_error("protect", "KEY|NUM [off]")
    record = chat.person.review.protect(name, on=not how)
    output.line(f"{record.key} is {'no longer ' if how else ''}protected")


def save_memory(chat: Chat, rest: str) -> None:
    """Save a text of the person's own, or the texts that were proposed as worth saving."""
    numbered = _NUMBER.fullmatch(rest)
    if rest and not numbered:
        show_stored(chat.person.store(rest))
        return
    if not chat.proposed:
        raise UsageError("there are no proposals", hint="/remember TEXT saves your own text")
    number = int(numbered[1]) if numbered else 0
    if number > len(chat.proposed) or (numbered and not number):
        raise NotFound(f"there is no proposal {number}", hint=f"there are {len(chat.proposed)}")
    chosen = chat.proposed[number - 1 : number] if number else chat.proposed
    for each in chosen:
        kind, scope = _PLACES.get(str(each.kind), ("project", "project"))
        show_stored(chat.person.store(each.text, type=kind, scope=scope, tags=[str(each.kind)]))
    chat.proposed = tuple(each for each in chat.proposed if each not in chosen)


def show_stored(stored: Stored) -> None:
    """Show whether and where a text was saved."""
    hidden = f"; a secret was redacted: {', '.join(stored.secrets)}" if stored.secrets else ""
    output.line(f"{stored.outcome}: {stored.key} (#{stored.num}, {stored.place.scope}){hidden}")
    show_merged(stored.merged)
    if stored.swept is not None:
        output.line(stored.swept.message)


def review_writes(chat: Chat, rest: str) -> None:
    """List the pending writes, or decide about one of them."""
    which, how = split_word(rest)
    if how not in ("", "yes", "no"):
        raise usage_error("review", "[ID [yes|no]]")
    if not which:
        show_pending(chat.person.review.approvals(), as_json=False)
    elif how == "no":
        output.line(f"{chat.person.review.reject(which).short}: rejected")
    else:
        pending = {approval.id: approval for approval in chat.person.review.approvals()}
        found = pending[_find_id(pending, which)]
        if how != "yes":
            show_pending([found], as_json=False)
        if not found.trouble and not _is_confirmed(chat, "Write it?", how, word="yes"):
            output.line(f"nothing was changed; `/review {found.short} no` rejects it permanently")
            return
        request, _ = chat.person.review.approve(found.id)
        output.line(f"{request.operation} was done, as {request.whose}")


def _find_id(ids: Iterable[str], which: str) -> str:
    """Return the only id that begins with the given text.

    Raise an error for fewer than four characters, so that nobody approves a write by a slip.
    """
    found = [each for each in ids if each.startswith(which.lower())]
    if len(which) < _ID or not found:
        raise NotFound(f"no pending write {quote_value(which)}", hint="/review lists pending writes")
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} pending writes start with {quote_value(which)}", hint="give more of the id"
        )
    return found[0]


def complete_pending(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """Return the ids of the pending writes as completions, and after an id `yes` and `no`."""
    if len(words) == 1:
        return ("yes", "no")
    return () if words else [approval.short for approval in chat.person.review.approvals()]


def handle_profile(chat: Chat, rest: str) -> None:
    """Show or edit the person's profile, or add a line to it."""
    which, more = split_word(rest or "show")
    if which == "show" and not more:
        try:
            found = chat.person.get(PROFILE)
        except NotFound:
            found = None
        text = found.text if found and found.text else "no profile yet: /profile edit, or /profile add TEXT"
        output.line(text)
    elif which == "add" and more:
        _, before = chat.person.care.editable(PROFILE, scope="global")
        after = f"{before.rstrip()}\n- {more}\n".lstrip()
        chat.person.care.edited(PROFILE, before, after, scope="global")
        output.line(f"added to {PROFILE}: {spelled(more)}")
    elif which == "edit" and not more:
        _edit_profile(chat)
    else:
        raise usage_error("profile", "show|edit|add TEXT")


def _edit_profile(chat: Chat) -> None:
    path, before = chat.person.care.editable(PROFILE, scope="global")
    after, draft = edit_text(before, os.path.basename(path), quiet=False)
    if after is None or after == before:
        discard_draft(draft)
        output.line("nothing changed")
        return
    try:
        chat.person.care.edited(PROFILE, before, after, scope="global")
    except VadeError as error:
        raise type(error)(f"{error}; your text is kept in {draft}", hint=error.hint) from error
    discard_draft(draft)
    output.line(f"saved {path}; the next session is told")


def handle_knowledge(chat: Chat, rest: str) -> None:
    """List or count the lessons in memory, or archive old lessons."""
    which, more = split_word(rest or "list")
    if which == "list" and (not more or more in LESSONS):
        show_lessons(chat.person, more or None, None, as_json=False)
    elif which == "stats" and not more:
        show_lesson_stats(chat)
    elif which == "prune" and more in ("", "--yes"):
        prune_lessons(chat, more)
    else:
        raise usage_error("knowledge", _KNOWLEDGE)


def _is_confirmed(chat: Chat, question: str, rest: str, *, word: str = "--yes") -> bool:
    """Return whether the person agrees to an action.

    The confirming word at the end of the command, such as `--yes`, answers the question in advance.
    """
    if rest.endswith(word):
        return True
    if not chat.screen.asks():
        raise UsageError("not a terminal", hint=f"add {word} to confirm")
    return chat.screen.ask(question, "yn") == "y"


def check_memory(chat: Chat, rest: str) -> None:
    """Show the problems that were found in memory."""
    if rest:
        raise usage_error("check", "")
    show_lint(chat.person.care.lint())


def tidy_memory(chat: Chat, rest: str) -> None:
    """Fix the problems in memory that need no decision; without `apply`, only show the changes."""
    if rest not in ("heal", "heal apply"):
        raise usage_error("tidy", "heal [apply]")
    applied = rest.endswith("apply")
    outcome = chat.person.care.heal(apply=applied)
    show_outcome(outcome, applied=applied, command="vade tidy --only heal")


MEMORY = (
    SlashCommand(
        "memory",
        _MEMORY,
        "list, search, show, count or prune memories",
        handle_memory,
        complete_nested(
            list=complete_nothing,
            search=complete_nothing,
            show=complete_keys,
            stats=complete_nothing,
            prune=complete_from("--yes"),
        ),
    ),
    SlashCommand("remember", "[TEXT|NUM]", "save a text, or a proposal", save_memory),
    SlashCommand("forget", "KEY|NUM [--yes]", "move a record to the archive", forget_record, complete_keys),
    SlashCommand(
        "protect", "KEY|NUM [off]", "protect a record from automatic removal", protect_record, complete_keys
    ),
    SlashCommand(
        "review", "[ID [yes|no]]", "approve or reject pending writes", review_writes, complete_pending
    ),
    SlashCommand(
        "profile",
        "show|edit|add TEXT",
        "show or edit your profile",
        handle_profile,
        complete_from("show", "edit", "add"),
    ),
    SlashCommand(
        "knowledge",
        _KNOWLEDGE,
        "show lessons",
        handle_knowledge,
        complete_nested(list=complete_from(*LESSONS), stats=complete_nothing, prune=complete_from("--yes")),
    ),
    SlashCommand("check", "", "find problems in memory", check_memory),
    SlashCommand(
        "tidy",
        "heal [apply]",
        "fix problems automatically; without `apply`, only show them",
        tidy_memory,
        complete_nested(heal=complete_from("apply")),
    ),
)


# ---------------------------------------------------------------- all of them


def show_help(chat: Chat, rest: str) -> None:
    """Show the help for one command, or a line for each command."""
    if rest:
        command = find_command(rest.lstrip("/"))
        output.line(f"{command.call}\n  {command.help}")
        return
    width = max(len(each.call) for each in all_commands().values() if len(each.call) < 40)
    for each in all_commands().values():
        gap = "\n" + " " * (width + 2) if len(each.call) > width else " " * (width - len(each.call) + 2)
        output.line(f"{each.call}{gap}{each.help}")
    output.line("Everything else goes to the model. Alt-Enter starts a new line, Ctrl-C stops an answer.")


def complete_commands(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """Return the names of all commands, as completions of a first word."""
    return () if words else list(all_commands())


@functools.cache
def all_commands() -> Mapping[str, SlashCommand]:
    """Return all commands by their names, in the order of the help."""
    groups = (WINDOW, SESSIONS, MEMORY, TALK)
    shown = SlashCommand("help", "[COMMAND]", "list the commands", show_help, complete_commands)
    return {each.name: each for each in (shown, *(each for group in groups for each in group))}


def find_command(name: str) -> SlashCommand:
    """Return the command with this name; the error for an unknown name suggests the most similar name."""
    command = all_commands().get(_ALSO.get(name, name))
    if command is None:
        near = [REPLACED[name]] if name in REPLACED else get_close_matches(name, all_commands(), 1)
        hint = f"did you mean /{near[0]}?" if near else "/help shows all commands"
        raise UnknownName(f"there is no command /{name[:40]}", hint=hint)
    return command


def run_command(chat: Chat, line: str) -> bool:
    """Run the command in a line; return False after showing an error."""
    name, rest = split_word(line.strip().removeprefix("/"))
    try:
        find_command(name).run(chat, rest)
    except VadeError as error:
        chat.screen.error(f"{error}: {error.hint}")
        return False
    return True


def complete_line(chat: Chat, text: str) -> tuple[list[str], int]:
    """Return the possible completions of the last word in a line, and that word's length."""
    if not text.startswith("/") or "\n" in text:
        return [], 0
    *before, last = text[1:].split(" ")
    before = [word for word in before if word]
    try:
        if not before:
            found: Iterable[str] = all_commands()
        else:
            found = find_command(before[0]).complete(chat, before[1:])
        return [word for word in found if word.startswith(last)], len(last)
    except VadeError:
        return [], 0
