"""Commands about the chat itself: its window and what that costs, its sessions, its model, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum import Refused
from vademecum.interfaces.chat import callers
from vademecum.interfaces.chat.commands import SlashCommand, below, first_of, nothing, parted, wrong
from vademecum.interfaces.chat.state import NO_MODEL, count_tools, find_model, known_providers, local_models
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_text import list_sessions
from vademecum.tokens import Size, count, weigh

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum import Status
    from vademecum.interfaces.chat.state import Chat

_BAR = 24
_SESSION = "show|list|switch ID|rename NAME|trim|export FILE"
FOOTERS = ("off", "tokens", "full")

# ---------------------------------------------------------------- the window


def bar(part: int, whole: int) -> str:
    """How full something is."""
    share = min(part / whole, 1.0) if whole else 1.0
    full = round(share * _BAR)
    return f"[{'█' * full}{'░' * (_BAR - full)}] {share:.0%}"


def status(chat: Chat, rest: str) -> None:
    """How everything stands."""
    look, tokens = chat.engine.inspect(), chat.engine.filled(chat.thread[:1], chat.offered())
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
        return "not looked at"
    if found.trouble:
        return found.trouble
    waits = f", {found.pending + found.stale:,} waiting" if found.pending + found.stale else ""
    return f"{found.indexed:,} of {found.files:,} files{waits}"


def spent(chat: Chat) -> str:
    """What this chat took so far."""
    total = chat.spent.total
    about = "" if total.counted else "about "
    cost = f", ${total.cost:.4f}" if total.cost is not None else ""
    return f"{about}{total.input:,} tokens in, {total.output:,} out, {chat.spent.calls:,} calls{cost}"


def context(chat: Chat, rest: str) -> None:
    """What the model is sent."""
    which, more = parted(rest or "list")
    if which not in ("list", "detail") or more:
        raise wrong("context", "list|detail")
    look, tokens, offered = (
        chat.engine.inspect(),
        chat.engine.filled(chat.thread[:1], chat.offered()),
        chat.offered(),
    )
    ratio = look.ratio

    def size(text: str) -> int:
        return count(Size(weigh(text)), ratio)

    system = size(chat.thread[0].text)
    rows = [["system prompt", f"{system - size(chat.block.text):,}", ""]]
    for section in chat.block.sections:
        if section.items:
            lines = "\n".join(line for item in section.items for line in item.lines)
            rows.append([f"memory: {section.title}", f"{size(lines):,}", f"{len(section.items)} items"])
        if which == "detail":
            for item in section.items:
                rows.append([f"  {item.key or item.path}", f"{size(chr(10).join(item.lines)):,}", item.path])
    rows.append(["tool schemas", f"{tokens.schemas:,}", f"{len(offered)} tools"])
    if which == "detail":
        rows += [[f"  {each['name']}", f"{count_tools([each], ratio):,}", ""] for each in offered]
    rows.append(["summary", f"{tokens.summary:,}", ""])
    rows.append(["messages", f"{tokens.messages:,}", f"{len(look.rows):,} in the window"])
    if which == "detail":
        rows += [[f"  {row.role}", f"{row.tokens:,}", f"{row.state} {row.id}"] for row in look.rows]
    output.table(rows, ["what", "tokens", "text"])
    output.line(f"{bar(tokens.total, tokens.context)} of {tokens.context:,} tokens")
    for each in chat.block.warnings:
        output.line(each)
    if chat.block.waiting:
        output.line(f"{chat.block.waiting} not shown to the model until you verify them (`vade verify KEY`)")


def usage(chat: Chat, rest: str) -> None:
    """What is said about tokens below each answer."""
    if rest and rest not in FOOTERS:
        raise wrong("usage", "|".join(FOOTERS))
    if rest:
        chat.footer = rest
    output.line(f"below each answer: {chat.footer}; so far {spent(chat)}")


def compact(chat: Chat, rest: str) -> None:
    """Make room now."""
    before = chat.engine.inspect().tokens.total
    made = chat.engine.compact(rest or None)
    if not made.trimmed and not made.cut:
        output.line("nothing to compact: what is in the window is new")
        return
    how = "the model" if made.compacted == "model" else "extraction"
    flushed = f"; memory flush: {made.flushed}" if made.flushed else ""
    output.line(
        f"🧹 Compacted by {how}: {output.plural(len(made.trimmed), 'message')} left,"
        f" {before:,} → {made.tokens.total:,} tokens{flushed}; the transcript has all of them"
    )


WINDOW = (
    SlashCommand("status", "", "model, window, session and memory at a glance", status),
    SlashCommand(
        "context",
        "list|detail",
        "what the model is sent, and what each part takes",
        context,
        first_of("list", "detail"),
    ),
    SlashCommand(
        "usage", "off|tokens|full", "what is said about tokens below each answer", usage, first_of(*FOOTERS)
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
        raise Refused("this session is kept in memory only", hint="leave `--incognito` and `--readonly` away")


def _show(chat: Chat) -> None:
    used = chat.log.usage()
    output.line(f"session     {chat.log.session}")
    output.line(f"name        {chat.log.title() or '-'}")
    output.line(f"begun       {chat.log.begun() or '-'}")
    output.line(f"transcript  {chat.log.path or 'in memory only'}")
    output.line(f"messages    {chat.said:,}")
    cost = f", ${used.cost:.4f}" if used.cost else ""
    output.line(f"used        {used.total:,} tokens in {used.calls:,} calls{cost}")
    output.line(f"compactions {chat.engine.inspect().cycles:,}")


def _switch(chat: Chat, which: str) -> None:
    if chat.person.workspace.readonly or chat.settings.incognito:
        raise Refused("this chat keeps to itself", hint="leave `--incognito` and `--readonly` away")
    newest = callers.newest_session(chat.person) if which == callers.LAST else None
    log = chat.person.sessions.open(newest.id if newest else which)
    if log.session == chat.log.session:
        output.line("that is this session")
        return
    chat.enter(log, callers.hold_session(chat.person, log.session))
    chat.named = True
    name = chat.log.title()
    output.line(f"going on with {log.session}{f' ({name})' if name else ''}: {chat.said:,} messages")


def _trim(chat: Chat) -> None:
    """Without a model: what leaves is summed up by extraction."""
    before = chat.engine.inspect().tokens.total
    made = chat.person.sessions.context(
        chat.log, window=max(before, 1), model=chat.model_name, reply=chat.reply
    ).compact()
    chat.renew()
    if not made.trimmed and not made.cut:
        output.line("nothing to trim: what is in the window is new")
        return
    output.line(
        f"{output.plural(len(made.trimmed), 'message')} left the window: {before:,} → {made.tokens.total:,}"
        " tokens; the transcript has all of them"
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
    return () if words else [callers.LAST, *(each.id for each in chat.person.sessions.list()[:50])]


SESSIONS = (
    SlashCommand("new", "", "end this session with a note in the journal, and begin another", new),
    SlashCommand("reset", "", "begin another session, without a note of this one", reset),
    SlashCommand(
        "session",
        _SESSION,
        "look at sessions, go on with another, name, trim or export this one",
        session,
        below(show=nothing, list=nothing, switch=ids, rename=nothing, trim=nothing, export=nothing),
    ),
    SlashCommand(
        "todo", "list|add TEXT|done NUM", "the list of things to do", todo, first_of("list", "add", "done")
    ),
)

# ---------------------------------------------------------------- the model, the end


def model(chat: Chat, rest: str) -> None:
    """Which model answers."""
    if rest == "list":
        _list()
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


def _list() -> None:
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
    SlashCommand(
        "model", "[PROVIDER:NAME|list]", "which model answers; another one from now on", model, providers
    ),
    SlashCommand("quit", "", "end the session; Ctrl-D does the same", quit_),
)
