"""What a person can type instead of words, as `/status`: find the command, run it, offer what comes next.

First what all of them share, then those about the chat itself, then those about what is remembered, which is
the person's own word; each group has its table.
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
from vademecum.interfaces.present.output import discard, from_editor
from vademecum.interfaces.present.to_text import (
    figures_row,
    list_sessions,
    show_lessons,
    show_lint,
    show_merged,
    show_outcome,
    show_waiting,
)
from vademecum.interfaces.tools.core import LESSONS
from vademecum.interfaces.tools.declaration import quoted
from vademecum.text import spelled
from vademecum.tokens import Size, count, weigh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum import Status, Stored
    from vademecum.interfaces.chat.state import Chat
    from vademecum.memory.values import Sections

    Run = Callable[[Chat, str], None]
    Complete = Callable[[Chat, Sequence[str]], Iterable[str]]

_ALSO = {"exit": "quit", "q": "quit", "h": "help", "?": "help"}
_BAR = 24
_SESSION = "show|list|switch ID|rename NAME|trim|export FILE"
FOOTERS = ("off", "tokens", "full")
PROFILE = "profile.md"
_MEMORY = "list|search QUERY|show KEY|stats|prune [--yes]"
_KNOWLEDGE = "list [TYPE]|stats|prune [--yes]"
# What a person prefers holds everywhere, the rest in the project it was said of.
_PLACES = {"preference": ("user", "global"), "correction": ("feedback", "project")}
_SHORT = 100
_ID = 4  # characters of an id
_NUMBER = re.compile(r"#?(\d{1,9})[.)]?")  # of a proposal: never a text to keep


def nothing(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """Nothing to offer."""
    return ()


def first_of(*options: str) -> Complete:
    """Offer these words, and nothing behind them."""

    def complete(chat: Chat, words: Sequence[str]) -> Iterable[str]:
        return options if not words else ()

    return complete


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command: how it is called, what it does, and list the commands behind it.

    `run` is given what stands behind the name; `complete` the whole words before the one being typed.
    """

    name: str
    usage: str
    help: str
    run: Run
    complete: Complete = nothing

    @property
    def call(self) -> str:
        """How it is typed."""
        return f"/{self.name} {self.usage}".rstrip()


def parted(rest: str) -> tuple[str, str]:
    """The first word, and what stands behind it."""
    first, _, more = rest.strip().partition(" ")
    return first, more.strip()


def wrong(command: str, usage: str) -> UsageError:
    """The error for a call that is none."""
    return UsageError(f"/{command} is called as `/{command} {usage}`", hint="/help shows all commands")


def keys(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """The keys of the records in sight."""
    return () if words else sorted({record.key for record in chat.person.list().records})


def below(**options: Complete) -> Complete:
    """Offer these words first, and behind each what it offers itself."""

    def complete(chat: Chat, words: Sequence[str]) -> Iterable[str]:
        if not words:
            return [name.rstrip("_") for name in options]
        found = options.get(words[0])
        return found(chat, words[1:]) if found is not None else ()

    return complete


# ---------------------------------------------------------------- the window


def bar(part: int, whole: int) -> str:
    """How full something is."""
    share = min(part / whole, 1.0) if whole else 1.0
    full = round(share * _BAR)
    return f"[{'█' * full}{'░' * (_BAR - full)}] {share:.0%}"


def status(chat: Chat, rest: str) -> None:
    """How everything stands."""
    look, tokens = chat.engine.inspect(), filled(chat)
    found = chat.person.status()
    name = chat.log.title()
    rows = [
        ("model", chat.model_name or "none"),
        ("window", f"{bar(tokens.total, tokens.context)} {tokens.total:,} of {tokens.context:,} tokens"),
        ("compactions", f"{look.cycles:,}" + (f", last flush {look.outcome}" if look.outcome else "")),
        ("session", f"{chat.log.session}{f' ({name})' if name else ''}, {chat.said:,} messages"),
        ("memory", chat.mode),
        ("records", ", ".join(f"{n} {scope}" for scope, n in found.records.items()) or "none"),
        ("index", _coverage(found)),
        ("tools", "allowed: " + ", ".join(sorted(chat.allowed)) if chat.allowed else "each asks first"),
        ("used", spent(chat)),
    ]
    for title, told in rows:
        output.line(f"{title:<12}{told}")


def _coverage(status: Status) -> str:
    found = status.coverage
    if found is None:
        return "not checked"
    if found.trouble:
        return found.trouble
    waits = f", {found.pending + found.stale:,} pending" if found.pending + found.stale else ""
    return f"{found.indexed:,} of {found.files:,} files{waits}"


def spent(chat: Chat) -> str:
    """What this session took so far, also before this chat."""
    return chat.log.usage().tell()


def context(chat: Chat, rest: str) -> None:
    """What the model is sent."""
    which, more = parted(rest or "list")
    if which not in ("list", "detail") or more:
        raise wrong("context", "list|detail")
    look, tokens, offered = chat.engine.inspect(), filled(chat), chat.offered()
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
    said = [WindowPart(row.role, row.tokens, f"{row.state} {row.id}") for row in look.rows[head:]]
    parts.append(WindowPart("messages", tokens.messages, f"{len(said):,} in the window", said))
    rows = [row for part in parts for row in part.rows(detail=which == "detail")]
    output.table(rows, ["what", "tokens", "text"])
    output.line(f"{bar(tokens.total, tokens.context)} {tokens.total:,} of {tokens.context:,} tokens")
    for each in chat.block.warnings:
        output.line(each)
    if chat.block.waiting:
        output.line(f"{chat.block.waiting} hidden from the model until you verify them (`vade verify KEY`)")


class WindowPart(NamedTuple):
    """One part of what the model is sent, and what it consists of."""

    what: str
    tokens: int
    text: str = ""
    below: list[WindowPart] = []  # noqa: RUF012  never changed

    def rows(self, *, detail: bool) -> Iterator[list[str]]:
        """Its line, and in detail those below it, which add up to it: what frames them is a line as well."""
        yield [self.what, f"{self.tokens:,}", self.text]
        if not detail or not self.below:
            return
        around = self.tokens - sum(each.tokens for each in self.below)
        for each in [*self.below, *([WindowPart("around them", around)] if around else [])]:
            yield [f"  {each.what}", f"{each.tokens:,}", each.text]


def _system_parts(chat: Chat, tokens: int, ratio: float) -> list[WindowPart]:
    """The system prompt, and what of memory stands in it."""

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
        around = size(chat.block.text) - sum(each.tokens for each in memory)
        memory.append(WindowPart("memory: around it", around))
    return [WindowPart("system prompt", tokens - sum(each.tokens for each in memory)), *memory]


def filled(chat: Chat) -> Sections:
    """How full the window is, with the system prompt and the tools as they are now."""
    return chat.engine.filled(chat.thread[:1], chat.offered())


def usage(chat: Chat, rest: str) -> None:
    """What is said about tokens below each answer."""
    if rest and rest not in FOOTERS:
        raise wrong("usage", "|".join(FOOTERS))
    if rest:
        chat.footer = rest
    output.line(f"below each answer: {chat.footer}; so far {spent(chat)}")


def compact(chat: Chat, rest: str) -> None:
    """Make room now."""
    before = filled(chat).total
    with chat.screen.working("summarizing the older messages …"):
        made = chat.engine.compact(rest or None)
    if not made.trimmed and not made.cut:
        output.line("nothing to compact: the context window has only new messages")
        return
    how = "the model" if made.compacted == "model" else "extraction"
    flushed = f"; memory flush: {made.flushed}" if made.flushed else ""
    output.line(
        f"🧹 Compacted by {how}: {output.plural(len(made.trimmed), 'message')} left,"
        f" {before:,} → {filled(chat).total:,} tokens{flushed}; the transcript still has them"
    )


WINDOW = (
    SlashCommand("status", "", "show model, context window, session and memory", status),
    SlashCommand(
        "context",
        "list|detail",
        "show the context sent to the model, part by part",
        context,
        first_of("list", "detail"),
    ),
    SlashCommand(
        "usage", "off|tokens|full", "set the token line below each answer", usage, first_of(*FOOTERS)
    ),
    SlashCommand("compact", "[FOCUS]", "summarize all but the newest messages now", compact),
)

# ---------------------------------------------------------------- sessions


def new(chat: Chat, rest: str) -> None:
    """Another session, with a note of this one."""
    note = chat.begin(why="new", note=True)
    said = f"; the last one is noted in {note}" if "/" in note else ""
    output.line(f"a new session: {chat.log.session}{said}")


def reset(chat: Chat, rest: str) -> None:
    """Another session, without a note of this one."""
    chat.begin(why="reset", note=False)
    output.line(f"a new session: {chat.log.session}; the last one is in its transcript alone")


def session(chat: Chat, rest: str) -> None:
    """Look at sessions, and change between them."""
    which, more = parted(rest or "show")
    if which == "show" and not more:
        _show(chat)
    elif which == "list" and not more:
        list_sessions(chat.person.sessions.list(), as_json=False)
    elif which == "switch" and more:
        _switch(chat, more)
    elif which == "rename" and more:
        _written(chat)
        chat.person.sessions.rename(chat.log.session, more)
        output.line(f"this session is now called {more}")
    elif which == "trim" and not more:
        _trim(chat)
    elif which == "export" and more:
        _written(chat)
        output.line(f"wrote {chat.person.sessions.export(chat.log.session, more)}")
    else:
        raise wrong("session", _SESSION)


def _written(chat: Chat) -> None:
    if not chat.log.path:
        raise Refused("this session is not saved", hint="run without `--incognito` and `--readonly`")


def _show(chat: Chat) -> None:
    output.line(f"session     {chat.log.session}")
    output.line(f"name        {chat.log.title() or '-'}")
    output.line(f"started     {chat.log.begun() or '-'}")
    output.line(f"transcript  {chat.log.path or 'in memory only'}")
    output.line(f"messages    {chat.said:,}")
    output.line(f"used        {spent(chat)}")
    output.line(f"compactions {chat.engine.inspect().cycles:,}")


def _switch(chat: Chat, which: str) -> None:
    if chat.person.workspace.readonly or chat.settings.incognito:
        raise Refused(
            "this chat has no access to other sessions", hint="run without `--incognito` and `--readonly`"
        )
    newest = state.newest_session(chat.person) if which == state.LAST else None
    log = chat.person.sessions.open(newest.id if newest else which)
    if log.session == chat.log.session:
        output.line("already in this session")
        return
    chat.enter(log, state.hold_session(chat.person, log.session))
    chat.named = True
    name = chat.log.title()
    output.line(f"continuing {log.session}{f' ({name})' if name else ''}: {chat.said:,} messages")


def _trim(chat: Chat) -> None:
    """What leaves is flushed by the model, and summed up by extraction."""
    before = filled(chat).total
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
        f" {filled(chat).total:,}"
        f" tokens{flushed}; the transcript still has them"
    )


def todo(chat: Chat, rest: str) -> None:
    """The list of things to do."""
    which, more = parted(rest or "list")
    if which == "list" and not more:
        output.line(chat.engine.todo({"operation": "list"}))
    elif which == "add" and more:
        output.line(chat.engine.todo({"operation": "add", "title": more}))
    elif which == "done" and more:
        output.line(chat.engine.todo({"operation": "done", "id": more}))
    else:
        raise wrong("todo", "list|add TEXT|done NUM")


def ids(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """The sessions there are."""
    return () if words else [state.LAST, *(each.id for each in chat.person.sessions.list()[:50])]


SESSIONS = (
    SlashCommand("new", "", "save a note to the journal and start a new session", new),
    SlashCommand("reset", "", "start a new session without a note", reset),
    SlashCommand(
        "session",
        _SESSION,
        "list, switch, rename, trim or export sessions",
        session,
        below(show=nothing, list=nothing, switch=ids, rename=nothing, trim=nothing, export=nothing),
    ),
    SlashCommand(
        "todo",
        "list|add TEXT|done NUM",
        "show or change the to-do list",
        todo,
        first_of("list", "add", "done"),
    ),
)

# ---------------------------------------------------------------- the model, the end


def model(chat: Chat, rest: str) -> None:
    """Which model answers."""
    if rest == "list":
        _list_models()
        return
    if " " in rest:
        raise wrong("model", "[PROVIDER:NAME|list]")
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


def providers(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """The beginnings of names."""
    return () if words else ["list", *(f"{each}:" for each in known_providers())]


def quit_(chat: Chat, rest: str) -> None:
    """The end."""
    chat.over = True


TALK = (
    SlashCommand("model", "[PROVIDER:NAME|list]", "show or switch the model", model, providers),
    SlashCommand("quit", "", "end the session (or Ctrl-D)", quit_),
)


# ---------------------------------------------------------------- what is remembered


def memory(chat: Chat, rest: str) -> None:
    """What is remembered."""
    which, more = parted(rest or "list")
    if which == "list" and not more:
        _list(chat)
    elif which == "search" and more:
        _search(chat, more)
    elif which == "show" and more:
        record = chat.person.show(more)
        output.line(f"{record.key} (#{record.num}) · {record.place.scope} · {record.type}")
        output.line(chat.person.get(more).text)
    elif which == "stats" and not more:
        _stats(chat)
    elif which == "prune" and more in ("", "--yes"):
        prune(chat, more)
    else:
        raise wrong("memory", _MEMORY)


def _list(chat: Chat) -> None:
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


def _search(chat: Chat, query: str) -> None:
    answer = chat.person.search(query)
    for each in answer.results:
        output.line(f"{each.path}#L{each.start}-L{each.end} · {each.match}")
        output.line("\n".join(f"  {line}" for line in each.snippet.split("\n")))
    if not answer.results:
        output.line("nothing found")
    output.line(f"({answer.mode}, {answer.coverage.indexed} of {answer.coverage.files} files)")
    for said in (*answer.notes, *answer.degraded):
        output.line(said)


def _stats(chat: Chat) -> None:
    records = chat.person.list().records
    scopes = {str(record.place.scope) for record in records}
    for scope in sorted(scopes):
        own = [record for record in records if record.place.scope == scope]
        output.line(f"{scope}: {output.plural(len(own), 'record')}")
    knowledge_stats(chat)


def knowledge_stats(chat: Chat) -> None:
    """How much was learned."""
    found = chat.person.knowledge.stats()
    rows = [figures_row("all", kind, figures) for kind, figures in found.by_type.items() if figures.count]
    if rows:
        output.table(
            rows, ["scope", "type", "count", "sure", "newest", "oldest", "average", "bytes", "used", "trust"]
        )
    else:
        output.line("no lessons yet")


def prune(chat: Chat, rest: str) -> None:
    """What was learned and is too old or doubtful; it goes once the person agrees."""
    outcome = chat.person.knowledge.prune()
    if not outcome.proposals:
        output.line("nothing to archive")
        return
    for each in outcome.proposals:
        output.line(f"  {each.where}: {each.why}")
    if outcome.large:
        output.line(outcome.large)
    if not _agreed(chat, f"Put {output.plural(len(outcome.proposals), 'lesson')} to the archive?", rest):
        output.line("nothing was changed")
        return
    done = chat.person.knowledge.prune(apply=True, large=True)
    output.line(f"archived; `vade undo {done.run}` restores it")


def forget(chat: Chat, rest: str) -> None:
    """Move a record to the archive."""
    name, _, _ = rest.removesuffix("--yes").strip().partition(" ")
    if not name:
        raise wrong("forget", "KEY|NUM [--yes]")
    record = chat.person.show(name)
    output.line(f"{record.key} (#{record.num}, {record.place.scope}): {' '.join(record.text.split())[:300]}")
    if not _agreed(chat, "Forget it?", rest):
        output.line("nothing was changed")
        return
    chat.person.forget(name)
    output.line(f"forgot {record.key}; `vade restore {record.key}` restores it")


def protect(chat: Chat, rest: str) -> None:
    """Keep a record from being removed by age or number."""
    name, how = parted(rest)
    if not name or how not in ("", "off"):
        raise wrong("protect", "KEY|NUM [off]")
    record = chat.person.review.protect(name, on=not how)
    output.line(f"{record.key} is {'no longer ' if how else ''}protected")


def remember(chat: Chat, rest: str) -> None:
    """Keep what was proposed, or a text of the person's own."""
    numbered = _NUMBER.fullmatch(rest)
    if rest and not numbered:
        kept(chat.person.store(rest))
        return
    if not chat.proposed:
        raise UsageError("there are no proposals", hint="/remember TEXT saves your own text")
    number = int(numbered[1]) if numbered else 0
    if number > len(chat.proposed) or (numbered and not number):
        raise NotFound(f"there is no proposal {number}", hint=f"there are {len(chat.proposed)}")
    chosen = chat.proposed[number - 1 : number] if number else chat.proposed
    for each in chosen:
        kind, scope = _PLACES.get(str(each.kind), ("project", "project"))
        kept(chat.person.store(each.text, type=kind, scope=scope, tags=[str(each.kind)]))
    chat.proposed = tuple(each for each in chat.proposed if each not in chosen)


def kept(stored: Stored) -> None:
    """Say what became of a text."""
    hidden = f"; a secret was redacted: {', '.join(stored.secrets)}" if stored.secrets else ""
    output.line(f"{stored.outcome}: {stored.key} (#{stored.num}, {stored.place.scope}){hidden}")
    show_merged(stored.merged)
    if stored.swept is not None:
        output.line(stored.swept.message)


def approve(chat: Chat, rest: str) -> None:
    """Decide about writes that wait."""
    which, how = parted(rest)
    if how not in ("", "yes", "no"):
        raise wrong("approve", "[ID [yes|no]]")
    if not which:
        show_waiting(chat.person.review.approvals(), as_json=False)
    elif how == "no":
        output.line(f"{chat.person.review.reject(which).short}: rejected")
    else:
        asked = {each.id: each for each in chat.person.review.approvals()}
        found = asked[_chosen(asked, which)]
        if how != "yes":
            show_waiting([found], as_json=False)
        if not found.trouble and not _agreed(chat, "Write it?", how, word="yes"):
            output.line(f"nothing was changed; `/approve {found.short} no` rejects it permanently")
            return
        request, _ = chat.person.review.approve(found.id)
        output.line(f"{request.operation} was done, as {request.whose}")


def _chosen(ids: Iterable[str], which: str) -> str:
    """The one that begins so; four characters are the least, so that nobody approves by a slip."""
    found = [each for each in ids if each.startswith(which.lower())]
    if len(which) < _ID or not found:
        raise NotFound(f"no pending write {quoted(which)}", hint="/approve lists pending writes")
    if len(found) > 1:
        raise Ambiguous(f"{len(found)} pending writes start with {quoted(which)}", hint="give more of the id")
    return found[0]


def waiting(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """The writes that wait."""
    if len(words) == 1:
        return ("yes", "no")
    return () if words else [each.short for each in chat.person.review.approvals()]


def profile(chat: Chat, rest: str) -> None:
    """The person's profile: look at it, or change it."""
    which, more = parted(rest or "show")
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
        _edit(chat)
    else:
        raise wrong("profile", "show|edit|add TEXT")


def _edit(chat: Chat) -> None:
    path, before = chat.person.care.editable(PROFILE, scope="global")
    after, draft = from_editor(before, os.path.basename(path), quiet=False)
    if after is None or after == before:
        discard(draft)
        output.line("nothing changed")
        return
    try:
        chat.person.care.edited(PROFILE, before, after, scope="global")
    except VadeError as error:
        raise type(error)(f"{error}; your text is kept in {draft}", hint=error.hint) from error
    discard(draft)
    output.line(f"saved {path}; the next session is told")


def knowledge(chat: Chat, rest: str) -> None:
    """What was learned."""
    which, more = parted(rest or "list")
    if which == "list" and (not more or more in LESSONS):
        show_lessons(chat.person, more or None, None, as_json=False)
    elif which == "stats" and not more:
        knowledge_stats(chat)
    elif which == "prune" and more in ("", "--yes"):
        prune(chat, more)
    else:
        raise wrong("knowledge", _KNOWLEDGE)


def _agreed(chat: Chat, question: str, rest: str, *, word: str = "--yes") -> bool:
    """Whether the person agrees; where nobody can be asked, a word behind the command says so."""
    if rest.endswith(word):
        return True
    if not chat.screen.asks():
        raise UsageError("not a terminal", hint=f"add {word} to confirm")
    return chat.screen.ask(question, "yn") == "y"


def lint(chat: Chat, rest: str) -> None:
    """What is wrong."""
    if rest:
        raise wrong("lint", "")
    show_lint(chat.person.care.lint())


def heal(chat: Chat, rest: str) -> None:
    """What takes no person to mend."""
    if rest not in ("", "apply"):
        raise wrong("heal", "[apply]")
    outcome = chat.person.care.heal(apply=bool(rest))
    show_outcome(outcome, applied=bool(rest), command="vade heal")


MEMORY = (
    SlashCommand(
        "memory",
        _MEMORY,
        "list, search, show, count or prune memories",
        memory,
        below(list=nothing, search=nothing, show=keys, stats=nothing, prune=first_of("--yes")),
    ),
    SlashCommand("remember", "[TEXT|NUM]", "save a text, or a proposal", remember),
    SlashCommand("forget", "KEY|NUM [--yes]", "move a record to the archive", forget, keys),
    SlashCommand("protect", "KEY|NUM [off]", "protect a record from automatic removal", protect, keys),
    SlashCommand("approve", "[ID [yes|no]]", "approve or reject pending writes", approve, waiting),
    SlashCommand(
        "profile", "show|edit|add TEXT", "show or edit your profile", profile, first_of("show", "edit", "add")
    ),
    SlashCommand(
        "knowledge",
        _KNOWLEDGE,
        "show lessons",
        knowledge,
        below(list=first_of(*LESSONS), stats=nothing, prune=first_of("--yes")),
    ),
    SlashCommand("lint", "", "find problems in memory", lint),
    SlashCommand(
        "heal",
        "[apply]",
        "fix problems automatically; without `apply`, only show them",
        heal,
        first_of("apply"),
    ),
)


# ---------------------------------------------------------------- all of them


def help_(chat: Chat, rest: str) -> None:
    """What can be typed."""
    if rest:
        command = find(rest.lstrip("/"))
        output.line(f"{command.call}\n  {command.help}")
        return
    width = max(len(each.call) for each in every().values() if len(each.call) < 40)
    for each in every().values():
        gap = "\n" + " " * (width + 2) if len(each.call) > width else " " * (width - len(each.call) + 2)
        output.line(f"{each.call}{gap}{each.help}")
    output.line("Everything else goes to the model. Alt-Enter starts a new line, Ctrl-C stops an answer.")


def names(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """The names of all commands."""
    return () if words else list(every())


@functools.cache
def every() -> Mapping[str, SlashCommand]:
    """All commands by their names, in the order of the help."""
    groups = (WINDOW, SESSIONS, MEMORY, TALK)
    shown = SlashCommand("help", "[COMMAND]", "list the commands", help_, names)
    return {each.name: each for each in (shown, *(each for group in groups for each in group))}


def find(name: str) -> SlashCommand:
    """The command of that name; one that does not exist gets the nearest as a hint."""
    command = every().get(_ALSO.get(name, name))
    if command is None:
        near = get_close_matches(name, every(), 1)
        hint = f"did you mean /{near[0]}?" if near else "/help shows all commands"
        raise UnknownName(f"there is no command /{name[:40]}", hint=hint)
    return command


def run(chat: Chat, line: str) -> bool:
    """Do what a line says; whether it could be done."""
    name, rest = parted(line.strip().removeprefix("/"))
    try:
        find(name).run(chat, rest)
    except VadeError as error:
        chat.screen.error(f"{error}: {error.hint}")
        return False
    return True


def complete(chat: Chat, text: str) -> tuple[list[str], int]:
    """What the last word of a line could become, and how many characters of it are there."""
    if not text.startswith("/") or "\n" in text:
        return [], 0
    *before, last = text[1:].split(" ")
    before = [word for word in before if word]
    try:
        if not before:
            found: Iterable[str] = every()
        else:
            found = find(before[0]).complete(chat, before[1:])
        return [word for word in found if word.startswith(last)], len(last)
    except VadeError:
        return [], 0
