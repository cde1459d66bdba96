"""Commands about the window: what is in it, how full it is, what it costs, and making room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.context.units import measure_schemas
from vademecum.interfaces.chat.commands.base import Command, first_of, parted, wrong
from vademecum.interfaces.present import output
from vademecum.tokens import Size, count, weigh
from vademecum.transcripts import views

if TYPE_CHECKING:
    from vademecum.index.sync import Survey
    from vademecum.interfaces.chat.state import Chat

_BAR = 24
FOOTERS = ("off", "tokens", "full")


def bar(part: int, whole: int) -> str:
    """How full something is."""
    share = min(part / whole, 1.0) if whole else 1.0
    full = round(share * _BAR)
    return f"[{'█' * full}{'░' * (_BAR - full)}] {share:.0%}"


def status(chat: Chat, rest: str) -> None:
    """How everything stands."""
    look, tokens = chat.engine.inspect(), chat.filled()
    found = chat.person.status()
    name = views.name(chat.log.events())
    rows = [
        ("model", chat.model_name or "none"),
        ("window", f"{bar(tokens.total, tokens.context)} {tokens.total:,} of {tokens.context:,} tokens"),
        ("compactions", f"{look.cycles:,}" + (f", last flush {look.outcome}" if look.outcome else "")),
        ("session", f"{chat.log.session}{f' ({name})' if name else ''}, {chat.said:,} messages"),
        ("memory", chat.mode),
        ("records", ", ".join(f"{n} {scope}" for scope, n in found.records.items()) or "none"),
        ("index", _coverage(found.coverage)),
        ("tools", "allowed: " + ", ".join(sorted(chat.allowed)) if chat.allowed else "each asks first"),
        ("used", spent(chat)),
    ]
    for title, told in rows:
        output.line(f"{title:<12}{told}")


def _coverage(found: Survey | None) -> str:
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
    look, tokens, offered = chat.engine.inspect(), chat.filled(), chat.offered()
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
        rows += [[f"  {each['name']}", f"{count(measure_schemas([each]), ratio):,}", ""] for each in offered]
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


COMMANDS = (
    Command("status", "", "model, window, session and memory at a glance", status),
    Command(
        "context",
        "list|detail",
        "what the model is sent, and what each part takes",
        context,
        first_of("list", "detail"),
    ),
    Command(
        "usage", "off|tokens|full", "what is said about tokens below each answer", usage, first_of(*FOOTERS)
    ),
    Command("compact", "[FOCUS]", "summarize all but the newest messages now", compact),
)
