"""Commands by which a person keeps, finds, takes away and mends what is remembered; it is their own word."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vademecum import Ambiguous, NotFound, UsageError, VadeError
from vademecum.interfaces.chat.commands import SlashCommand, below, first_of, keys, nothing, parted, wrong
from vademecum.interfaces.present import output
from vademecum.interfaces.present.editor import discard, from_editor
from vademecum.interfaces.present.to_text import (
    figures_row,
    show_lessons,
    show_lint,
    show_merged,
    show_outcome,
    show_waiting,
)
from vademecum.interfaces.tools.core import LESSONS
from vademecum.interfaces.tools.declaration import quoted
from vademecum.store.approvals import SHOWN, whose
from vademecum.text.words import spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum import Stored
    from vademecum.interfaces.chat.state import Chat

PROFILE = "profile.md"
_MEMORY = "list|search QUERY|show KEY|stats|prune [--yes]"
_KNOWLEDGE = "list [TYPE]|stats|prune [--yes]"
# What a person prefers holds everywhere, the rest in the project it was said of.
_PLACES = {"preference": ("user", "global"), "correction": ("feedback", "project")}
_SHORT = 100
_ID = 4  # characters of an id


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
        output.line("nothing is remembered yet: /remember TEXT keeps the first")


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
        output.line("nothing was learned yet")


def prune(chat: Chat, rest: str) -> None:
    """What was learned and is too old or doubtful; it goes once the person agrees."""
    outcome = chat.person.knowledge.prune()
    if not outcome.proposals:
        output.line("nothing is too old or too doubtful")
        return
    for each in outcome.proposals:
        output.line(f"  {each.where}: {each.why}")
    if outcome.large:
        output.line(outcome.large)
    if not _agreed(chat, f"Put {output.plural(len(outcome.proposals), 'lesson')} into the archive?", rest):
        output.line("nothing was changed")
        return
    done = chat.person.knowledge.prune(apply=True, large=True)
    output.line(f"put away; `vade undo {done.run}` brings it back")


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
    output.line(f"forgot {record.key}; `vade restore {record.key}` brings it back")


def protect(chat: Chat, rest: str) -> None:
    """Keep a record from being removed by age or number."""
    name, how = parted(rest)
    if not name or how not in ("", "off"):
        raise wrong("protect", "KEY|NUM [off]")
    record = chat.person.review.protect(name, on=not how)
    output.line(f"{record.key} is {'no longer ' if how else ''}protected")


def remember(chat: Chat, rest: str) -> None:
    """Keep what was proposed, or a text of the person's own."""
    if rest and not (rest.isdecimal() and chat.proposed):
        kept(chat.person.store(rest))
        return
    if not chat.proposed:
        raise UsageError("nothing is proposed", hint="/remember TEXT keeps a text of your own")
    number = int(rest) if rest else 0
    if number > len(chat.proposed):
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
        output.line(f"{chat.person.review.reject(which).id[:SHOWN]}: refused")
    else:
        asked = {each.id: each for each in chat.person.review.approvals()}
        found = asked[_chosen(asked, which)]
        if how != "yes":
            show_waiting([found], as_json=False)
        if not found.trouble and not _agreed(chat, "Write it?", how, word="yes"):
            output.line(f"nothing was changed; `/approve {found.id[:SHOWN]} no` refuses it for good")
            return
        request, _ = chat.person.review.approve(found.id)
        output.line(f"{request.operation} was done, as {whose(request)}")


def _chosen(ids: Iterable[str], which: str) -> str:
    """The one that begins so; four characters are the least, so that nobody approves by a slip."""
    found = [each for each in ids if each.startswith(which.lower())]
    if len(which) < _ID or not found:
        raise NotFound(f"nothing waits under {quoted(which)}", hint="/approve shows what waits")
    if len(found) > 1:
        raise Ambiguous(f"{len(found)} writes begin with {quoted(which)}", hint="give more of the id")
    return found[0]


def waiting(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """The writes that wait."""
    if len(words) == 1:
        return ("yes", "no")
    return () if words else [each.id[:SHOWN] for each in chat.person.review.approvals()]


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
        raise UsageError("nobody can be asked here", hint=f"add {word} to say so")
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


COMMANDS = (
    SlashCommand(
        "memory",
        _MEMORY,
        "what is remembered: list, find, read, count, tidy up",
        memory,
        below(list=nothing, search=nothing, show=keys, stats=nothing, prune=first_of("--yes")),
    ),
    SlashCommand("remember", "[TEXT|NUM]", "keep a text, or what was proposed", remember),
    SlashCommand("forget", "KEY|NUM [--yes]", "move a record to the archive", forget, keys),
    SlashCommand("protect", "KEY|NUM [off]", "keep a record from being removed by age", protect, keys),
    SlashCommand("approve", "[ID [yes|no]]", "decide about writes that wait", approve, waiting),
    SlashCommand(
        "profile", "show|edit|add TEXT", "what is known of you", profile, first_of("show", "edit", "add")
    ),
    SlashCommand(
        "knowledge",
        _KNOWLEDGE,
        "what was learned",
        knowledge,
        below(list=first_of(*LESSONS), stats=nothing, prune=first_of("--yes")),
    ),
    SlashCommand("lint", "", "look for what is wrong with memory", lint),
    SlashCommand(
        "heal",
        "[apply]",
        "mend what takes no person; without `apply` it is only told",
        heal,
        first_of("apply"),
    ),
)
