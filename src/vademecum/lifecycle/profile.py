"""A profile drafted from what a person said: counted habits, and what a model adds if one is asked.

The draft stands under a heading of its own and is replaced by the next one; every other line is the person's
and stays. Nothing is kept here that was not handed back by somebody who could see it: `draft` only reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import ModelFailed, NotVisible, OutsideMemory, StorageFailed, UsageError
from vademecum.knowledge import signals
from vademecum.lifecycle import facts, habits
from vademecum.lifecycle.habits import COUNTED, Spoken
from vademecum.llm.base import Limits
from vademecum.store import archive, clock, decisions, document, frontmatter, pinned, secrets
from vademecum.store.runs import Edit, Run
from vademecum.store.texts import decode
from vademecum.text import fences
from vademecum.text.visible import visible
from vademecum.transcripts import echo, views
from vademecum.transcripts.events import Said, Started
from vademecum.transcripts.messages import Role
from vademecum.transcripts.sessions import IMPORT
from vademecum.transcripts.small_talk import is_command
from vademecum.types import Audience, Origin, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import tzinfo

    from vademecum.llm.base import Model
    from vademecum.store.home import Home
    from vademecum.store.pinned import Documents
    from vademecum.store.runs import Told
    from vademecum.transcripts.log import Log

NAME = "profile"
HEADING = "## Observed style"
SESSIONS = 500  # the newest
MESSAGES = 5000
LARGEST = 8 << 20  # bytes of a transcript; a larger one is mostly what tools printed
READ = 256 << 20  # bytes of all of them
SAMPLES = 200  # messages that a model sees
_LOOKED_AT = 4000  # characters of a message
_SAMPLE = 400  # characters of one that a model sees
_TRAITS = 6
_LONGEST_TRAIT = 160
_LONGEST_LINE = 240
_GROUNDED = 0.25  # of the longer words of a trait must stand in the messages that show it
_SHOWN_BY = 2  # messages
_ANSWER = 1500  # tokens

_SECTION = re.compile(r"(?m)^##[ \t]+Observed style[ \t#]*\r?$")
_ANY_HEADING = re.compile(r"(?m)^#{1,6}[ \t]")
_SIGNATURE = re.compile(r"<!--[ \t]*origin:[^\n]*-->[ \t]*")
_MARK = re.compile(r"(?m)^(MESSAGE\b|END[ \t]*$)")
_ADDRESS = re.compile(r"://|\bwww\.|@[\w-]+\.\w")
_NAME = re.compile(r"(?<=[^.!?:\s]\s)[A-ZÀ-ÞΑ-ΩА-Я][\w+#-]*(?:\.\w+)*")


@dataclass(frozen=True, slots=True)
class Trait:
    """Something that several messages show, and their numbers."""

    text: str
    messages: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Portrait:
    """What a model is asked for."""

    traits: list[Trait] = field(default_factory=list)


class Heard(NamedTuple):
    """The messages of a person's that could be read, the newest session first, and what could not."""

    messages: tuple[Spoken, ...] = ()
    sessions: int = 0
    notes: tuple[str, ...] = ()


class Draft(NamedTuple):
    """Lines for the profile, what they come from, and the document they were thought out for."""

    lines: tuple[str, ...] = ()
    messages: int = 0
    sessions: int = 0
    notes: tuple[str, ...] = ()
    model: str = ""
    before: bytes | None = None

    @property
    def text(self) -> str:
        """The part of the profile that these lines become; nothing when there are none."""
        return "\n".join([HEADING, "", *self.lines]) if self.lines else ""

    @property
    def new(self) -> bool:
        """Whether the profile does not say exactly this already."""
        text = "" if self.before is None else decode(self.before)
        return bool(self.lines) and _drafted(text) != [*self.lines]


# -------------------------------------------------------------------- listening


def heard(home: Home, logs: Iterable[Log], *, imported: bool, zone: tzinfo | None) -> Heard:
    """What a person said in these sessions; no group's, and no other agent's unless `imported`."""
    found: list[Spoken] = []
    notes: list[str] = []
    sessions = read = 0
    for log in logs:
        size = _size(home, log)
        if size > LARGEST:
            notes.append(f"{log.path} is larger than {LARGEST >> 20} MiB and was left out")
            continue
        if read + size > READ or len(found) >= MESSAGES:
            notes.append(f"only the newest {sessions} sessions were read")
            break
        read += size
        try:
            own = [*_spoken(log, imported=imported, zone=zone)]
        except (OutsideMemory, StorageFailed) as error:
            notes.append(f"{log.path} cannot be read: {error}")
            continue
        found += own
        sessions += bool(own)
    return Heard(tuple(found[:MESSAGES]), sessions, tuple(notes))


def _size(home: Home, log: Log) -> int:
    *folders, name = log.path.split("/")
    with home.folder(*folders) as folder:
        state = folder.stat(name)
    return 0 if state is None else state.st_size


def _spoken(log: Log, *, imported: bool, zone: tzinfo | None) -> Iterator[Spoken]:
    for raw in log.raw():
        if raw.kind not in ("", Started.kind, Said.kind) or (
            raw.kind == Said.kind and b'"user"' not in raw.content
        ):
            continue
        event = raw.read()
        if isinstance(event, Started):
            if event.audience == Audience.GROUP or (IMPORT in event.extra and not imported):
                return
        elif (
            isinstance(event, Said) and event.message.role is Role.USER and not views.is_aside(event.message)
        ):
            text = echo.without(event.message).text.replace(echo.ASIDE, " ")[:_LOOKED_AT]
            own = signals.own_words(text).replace("’", "'")
            if own.strip() and not is_command(text):
                moment = clock.parse(event.message.time or event.time)
                yield Spoken(text, own, moment and moment.astimezone(zone), log.session)


# -------------------------------------------------------------------- drafting


def draft(documents: Documents, told: Heard, *, budget: int, model: Model | None = None) -> Draft:
    """What the profile could say of these messages, as far as there is room beside what is there."""
    _, _, before = documents.find(pinned.PROFILE, scope=Scope.GLOBAL)
    found = Draft((), len(told.messages), told.sessions, told.notes, before=before)
    if len(told.messages) < habits.LEAST:
        few = f"too few messages to draft from: {len(told.messages)}, and it takes {habits.LEAST}"
        return found._replace(notes=(*told.notes, few))
    lines, notes = habits.lines(told.messages), [*told.notes]
    if model is not None:
        traits, why = _asked(model, told.messages)
        lines, notes = [*traits, *lines], [*notes, *why]
    kept = _fitting(lines, budget - _taken("" if before is None else decode(before)))
    if len(kept) < len(lines):
        notes.append(f"{len(lines) - len(kept)} of {len(lines)} lines found no room in {budget} characters")
    return found._replace(lines=tuple(kept), notes=tuple(notes), model=model.name if model else "")


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    """The lines that fit, in their order."""
    left, kept = room - len(HEADING) - 2, []
    for line in dict.fromkeys(lines):
        if len(line) + 1 <= left:
            kept.append(line)
            left -= len(line) + 1
    return kept


def _taken(text: str) -> int:
    """How many characters of a profile are a person's own, with the blank line behind them."""
    body = _revised(text, (), None)
    own = body[frontmatter.parse(body).body :].strip()
    return len(own) + 2 if own else 0


# -------------------------------------------------------------------- what a model adds


def _asked(model: Model, messages: Sequence[Spoken]) -> tuple[list[str], list[str]]:
    """The lines of a model that hold, and why others do not; a model that fails leaves what was counted."""
    samples = _samples(messages)
    if not samples:
        return [], ["no message could be shown to a model"]
    try:
        given = model.typed(
            _question(samples), Portrait, system=_prompt(), limits=Limits(output=_ANSWER)
        ).value
    except ModelFailed as error:
        return [], [f"the model added nothing: {error}"]
    lines, notes = [], []
    for trait in given.traits[:_TRAITS]:
        wrong = problem(trait, samples)
        if wrong:
            notes.append(f"left out a line of the model's: it {wrong}")
        else:
            text = " ".join(trait.text.split()).rstrip(".")
            lines.append(habits.counted(text, len(set(trait.messages)), len(samples)))
    return lines, notes


def _samples(messages: Sequence[Spoken]) -> list[str]:
    """Messages from the whole time, each cut, none with a secret."""
    some = [each for each in messages if len(each.own.split()) >= 3]
    step = max(len(some) / SAMPLES, 1.0)
    chosen = [some[int(at * step)] for at in range(min(len(some), SAMPLES))]
    texts = [re.sub(r"\n\s*\n+", "\n", visible(each.own)).strip()[:_SAMPLE] for each in chosen]
    return [text for each, text in zip(chosen, texts, strict=True) if text and not secrets.find(each.text)]


def _question(samples: Sequence[str]) -> str:
    """The samples between marks; a line that looks like a mark is moved in, so that none can end early."""
    texts = [_MARK.sub(r" \1", each) for each in samples]
    return "\n".join(f"MESSAGE {number}\n{text}\nEND" for number, text in enumerate(texts, 1))


def problem(trait: Trait, samples: Sequence[str]) -> str:
    """What is wrong with a trait, in the words that follow 'it'; empty when nothing is."""
    text = " ".join(trait.text.split())
    if not text:
        return "is empty"
    if len(text) > _LONGEST_TRAIT:
        return f"is {len(text)} characters long"
    wrong = _unfit(text)
    if wrong:
        return wrong
    shown = {number for number in trait.messages if 1 <= number <= len(samples)}
    if shown != set(trait.messages):
        return "names a message that there is not"
    if len(shown) < _SHOWN_BY:
        return f"names {len(shown)} messages that show it, and one is no habit"
    said = "\n".join(samples[number - 1] for number in sorted(shown)).casefold()
    names = {*facts.facts(text), *_NAME.findall(text)}
    invented = sorted(each for each in names if not facts.says(said, each.casefold()))
    if invented:
        return f"speaks of {invented[0]!r}, and the messages it names do not"
    words, known = _pieces(text), _pieces(said)
    if not words or len(words & known) < max(1, _GROUNDED * len(words)):
        return "says what the messages it names do not say"
    return ""


def _pieces(text: str) -> frozenset[str]:
    """The beginnings of longer words; in scripts that do not part their words, signs by twos."""
    signs = re.findall("[\u0530-\uffff]{2,}", text)
    return facts.stems(text) | {run[at : at + 2] for run in signs for at in range(len(run) - 1)}


def _unfit(text: str) -> str:
    """Why a line has no place in a profile, whoever wrote it."""
    if visible(text) != text:
        return "holds characters that cannot be seen"
    if facts.links(text) or facts.markup(text) or _ADDRESS.search(text) or "<" in text:
        return "holds a link, an address or markup"
    if text.lstrip("- ").startswith(("#", "```", "~~~", "---", "|")):
        return "is more than a sentence"
    return "holds a secret" if secrets.find(text) else ""


# -------------------------------------------------------------------- keeping


def keep(documents: Documents, given: Draft) -> tuple[str, Told]:
    """Put a draft into the profile as one run, signed with what its keeper's word is worth.

    Through a person's door it is the person's word, since it was shown; through any other it is what it was
    made from, and waits until a person verifies it.
    """
    if not given.lines:
        raise UsageError("this draft has no lines", hint="draft one with `profile_draft` first")
    for line in given.lines:
        wrong = "has no count" if not COUNTED.fullmatch(line) else _unfit(line)
        if wrong or len(line) > _LONGEST_LINE:
            raise UsageError(f"a line of the draft cannot be kept: it {wrong or 'is too long'}")
    shelf, name, _ = documents.find(pinned.PROFILE, scope=Scope.GLOBAL)
    origin = Origin.USER if documents.caller.origin is Origin.USER else Origin.TOOL
    text = "" if given.before is None else decode(given.before)
    if origin is not Origin.USER and _is_a_persons(documents.home, text):
        raise NotVisible(
            "a person has kept an observed style already, which only a person replaces",
            hint="run `vade profile build --apply` in a terminal",
        )
    stamped = {"version": pinned.VERSION, "updated": clock.stamp(documents.now())}
    after = frontmatter.edit(_revised(text, given.lines, origin), stamped)
    run = Run(documents.home, documents.caller, documents.now, documents.announce, NAME)
    told = run.do(Edit(shelf, archive.PINNED, name, given.before, after.encode()), NAME, replacing=True)
    return run.id, told


def _is_a_persons(home: Home, text: str) -> bool:
    """Whether the observed style that stands there is what a person kept or vouched for."""
    for section in document.blocks(text):
        if _SECTION.match(section.text):
            own = (section.origin or Origin.USER) is Origin.USER
            return own or decisions.verified(home, section.text)
    return False


# -------------------------------------------------------------------- the section in the document


def _span(text: str) -> tuple[int, int] | None:
    """Where the observed style stands, from its heading to the next one; what is in a fence is none."""
    # One that nobody closed would swallow what was drafted below it, and the next draft would not find it.
    plain = fences.blank(text, unclosed=False)
    begun = _SECTION.search(plain)
    if begun is None:
        return None
    after = _ANY_HEADING.search(plain, begun.end())
    return begun.start(), after.start() if after else len(text)


def _drafted(text: str) -> list[str]:
    """The counted lines that stand there now."""
    span = _span(text)
    lines = text[slice(*span)].split("\n") if span else []
    return [line.strip() for line in lines if COUNTED.fullmatch(line.strip())]


def _revised(text: str, lines: Sequence[str], origin: Origin | None) -> str:
    """The document with these lines in place of the counted ones; all else stays, byte for byte.

    A line below the heading that was not counted is a person's, and stays below the new ones.
    """
    newline = frontmatter.line_ending(text)
    span = _span(text)
    start, end = span or (len(text), len(text))
    own = [line.rstrip("\r") for line in text[start:end].split("\n")[1:]] if span else []
    own = [line for line in own if not COUNTED.fullmatch(line.strip()) and not _SIGNATURE.fullmatch(line)]
    hand = "\n".join(own).strip("\n")
    if not lines and not hand.strip():
        return text[:start] + text[end:]
    signed = [f"<!-- origin: {origin} -->"] if origin else []
    parts = [HEADING, "", *lines, *(["", hand] if hand.strip() else []), *signed]
    before = text[:start]
    if before and not before.endswith("\n"):
        before += newline
    gap = newline if before.strip() and not before.endswith((newline * 2, f"---{newline}")) else ""
    rest = text[end:]
    return (
        before + gap + newline.join("\n".join(parts).split("\n")) + newline + (newline + rest if rest else "")
    )


@cache
def _prompt() -> str:
    folder = resources.files(__package__).joinpath("prompts")
    return folder.joinpath("profile.txt").read_text(encoding="utf-8").strip()
