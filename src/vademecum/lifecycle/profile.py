"""Draft a profile of the user from records that say what they prefer, each statement word for word."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import NotVisible, UsageError
from vademecum.knowledge import Level
from vademecum.knowledge.trust import judge_text
from vademecum.store import Edit, Found, Run, decisions, pinned
from vademecum.text import (
    clock,
    conflict,
    document,
    fences,
    filenames,
    frontmatter,
    markup,
    normalise,
    secrets,
    visible,
)
from vademecum.text.document import decode
from vademecum.types import Origin, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.store import Documents, EditResult, Home, Records
    from vademecum.types import Record

NAME = "profile"
HEADING = "## Saved preferences"
# The profile is told in every project, so of a project's records only those about the person count.
SOURCES = {Scope.GLOBAL: (RecordType.USER, RecordType.FEEDBACK), Scope.PROJECT: (RecordType.USER,)}
_LONGEST_LINE = 240
_MOST_RECORDS = 200  # the newest; each is compared with each other for contradictions

# A drafted line ends with the key of its record; a line without one was written by hand.
DRAFTED = re.compile(r"- (\S.*) \(`([\w.-]+)`\)")
_SECTION = re.compile(r"(?m)^##[ \t]+Saved preferences[ \t#]*\r?$")
_ANY_HEADING = re.compile(r"(?m)^#{1,6}[ \t]")
_SIGNATURE = re.compile(r"<!--[ \t]*origin:[^\n]*-->[ \t]*")
_ADDRESS = re.compile(r"://|\bwww\.|@[\w-]+\.\w")


class Preference(NamedTuple):
    """A statement of what a person prefers, and the key of the record that contains the statement."""

    text: str
    key: str

    @property
    def line(self) -> str:
        """The statement as a line of the profile."""
        return f"- {self.text} (`{self.key}`)"


class ProfileDraft(NamedTuple):
    """Lines proposed for the profile, notes on statements left out, and the document the lines are for."""

    lines: tuple[str, ...] = ()
    records: int = 0
    notes: tuple[str, ...] = ()
    before: bytes | None = None

    @property
    def text(self) -> str:
        """The section of the profile that these lines become; empty without lines."""
        return "\n".join([HEADING, "", *self.lines]) if self.lines else ""

    @property
    def new(self) -> bool:
        """Whether the draft's lines differ from those that the profile has now."""
        text = "" if self.before is None else decode(self.before)
        return bool(self.lines) and _drafted_lines(text) != [*self.lines]


# -------------------------------------------------------------------- drafting


def find_preferences(found: Iterable[object], records: Records) -> tuple[list[Preference], list[str]]:
    """Return the preferences that a person wrote or verified, newest first, and a note on each
    one left out.
    """
    chosen = [each.record for each in found if isinstance(each, Found) and _is_source(each.record)]
    chosen.sort(key=lambda record: record.updated or "", reverse=True)
    preferences: list[Preference] = []
    notes: list[str] = []
    for record in chosen[:_MOST_RECORDS]:
        for text in _own_texts(record, records):
            preference = Preference(text, record.key)
            problem = _find_problem(preference.line)
            if problem:
                notes.append(f"left out {record.key}: it {problem}")
            else:
                preferences.append(preference)
    opposed = conflict.find_opposed([each.text for each in preferences])
    notes += [
        f"left out {preferences[at].key}: {preferences[other].key} says the opposite"
        for at, other in opposed.items()
    ]
    return [each for at, each in enumerate(preferences) if at not in opposed], notes


def draft_profile(
    documents: Documents, preferences: Sequence[Preference], notes: Sequence[str], *, budget: int
) -> ProfileDraft:
    """Return a draft of the preferences that the person's own part of the profile does not contain yet.

    Own part and draft together have at most `budget` characters; a note tells how many lines did not fit.
    """
    _, _, before = documents.find(filenames.PROFILE, scope=Scope.GLOBAL)
    own = _own_part("" if before is None else decode(before))
    known = {normalise(line.lstrip("-* ")) for line in own.splitlines()}
    wanted = {normalise(each.text): each for each in reversed(preferences)}
    lines = [wanted[name].line for name in reversed(wanted) if name not in known]
    fitting = _fit_lines(lines, budget - (len(own) + 2 if own else 0))
    notes = [*notes]
    if len(fitting) < len(lines):
        notes.append(f"{len(lines) - len(fitting)} of {len(lines)} lines did not fit in {budget} characters")
    if not lines:
        notes.append("no record says what you prefer: save one with `vade add TEXT --type user`")
    records = len({match[2] for match in map(DRAFTED.fullmatch, fitting) if match})
    return ProfileDraft(tuple(fitting), records, tuple(notes), before)


def _is_source(record: Record) -> bool:
    return record.type in SOURCES.get(record.place.scope, ())


def _own_texts(record: Record, records: Records) -> Iterator[str]:
    """Yield the texts of a record that a person wrote or verified; superseded entries are left out."""
    for entry in record.live:
        if judge_text(entry, records, record=record).level in (Level.USER, Level.VERIFIED):
            yield entry.text.strip()


def _fit_lines(lines: Sequence[str], room: int) -> list[str]:
    """Return the lines that fit into `room` characters below the heading; a line that does not is skipped."""
    left, fitting = room - len(HEADING) - 2, []
    for line in lines:
        if len(line) + 1 <= left:
            fitting.append(line)
            left -= len(line) + 1
    return fitting


def _own_part(text: str) -> str:
    """Return the text of a profile without the lines that this module drafted."""
    body = revise_section(text, (), None)
    return body[frontmatter.parse(body).body :].strip()


def _find_problem(line: str) -> str:
    """Return why a line may not stand in a profile, whoever wrote it; empty when it may."""
    text = line.removeprefix("- ")
    if "\n" in line or text.startswith(("#", "```", "~~~", "---", "|", "- ")):
        return "is more than one plain line"
    if len(line) > _LONGEST_LINE:
        return f"is longer than {_LONGEST_LINE} characters"
    if visible(line) != line:
        return "contains invisible characters"
    if markup.find_links(line) or markup.find_markup(line) or _ADDRESS.search(line) or "<" in line:
        return "contains a link, an address or markup"
    return "holds a secret" if secrets.find(line) else ""


# -------------------------------------------------------------------- saving


def save_draft(
    documents: Documents, draft: ProfileDraft, preferences: Sequence[Preference]
) -> tuple[str, EditResult]:
    """Write a draft into the profile as one run, and sign its section `user` for a person, else `tool`.

    The section that an agent saves is not used until a person verifies it; each of its lines must be one of
    `preferences`, and it cannot replace a person's section.
    """
    if not draft.lines:
        raise UsageError("this draft has no lines", hint="draft one with `draft_profile` first")
    for line in draft.lines:
        problem = _find_problem(line) if DRAFTED.fullmatch(line) else "does not end with the key of a record"
        if problem:
            raise UsageError(f"a line of the draft cannot be saved: it {problem}")
    texts = [match[1] for match in map(DRAFTED.fullmatch, draft.lines) if match]
    for at in conflict.find_opposed(texts):
        raise UsageError(f"the draft says “{texts[at]}” and the opposite", hint="draft it again")
    origin = Origin.USER
    if documents.caller.origin is not Origin.USER:
        origin = Origin.TOOL
        known = {each.line for each in preferences}
        for line in draft.lines:
            if line not in known:
                raise UsageError(
                    f"no record says this line of the draft: {line[2:]}",
                    hint="save what `draft_profile` returns, unchanged",
                )
    scope_folder, name, _ = documents.find(filenames.PROFILE, scope=Scope.GLOBAL)
    text = "" if draft.before is None else decode(draft.before)
    if origin is not Origin.USER and _belongs_to_person(documents.home, text):
        raise NotVisible(
            "you already saved preferences in the profile, which only you can replace",
            hint="run `vade profile build --apply` in a terminal",
        )
    stamped = {"version": pinned.VERSION, "updated": clock.stamp(documents.now())}
    after = frontmatter.edit(revise_section(text, draft.lines, origin), stamped)
    run = Run(documents.home, documents.caller, documents.now, documents.announce, NAME)
    result = run.do(
        Edit(scope_folder, filenames.PINNED, name, draft.before, after.encode()), NAME, replacing=True
    )
    return run.id, result


def _belongs_to_person(home: Home, text: str) -> bool:
    """Whether the drafted section that the profile has now was saved or verified by a person."""
    for section in document.blocks(text):
        if _SECTION.match(section.text):
            own = (section.origin or Origin.USER) is Origin.USER
            return own or decisions.verified(home, section.text)
    return False


# -------------------------------------------------------------------- the section in the document


def _find_section(text: str) -> tuple[int, int] | None:
    """Return where the drafted section begins and ends, or None; a heading inside a code fence does not
    count.
    """
    # A fence that nobody closed would swallow the section below it, and the next draft would not find it.
    plain = fences.blank(text, unclosed=False)
    begun = _SECTION.search(plain)
    if begun is None:
        return None
    after = _ANY_HEADING.search(plain, begun.end())
    return begun.start(), after.start() if after else len(text)


def _drafted_lines(text: str) -> list[str]:
    """Return the drafted lines that a profile has now."""
    span = _find_section(text)
    lines = text[slice(*span)].split("\n") if span else []
    return [line.strip() for line in lines if DRAFTED.fullmatch(line.strip())]


def revise_section(text: str, lines: Sequence[str], origin: Origin | None) -> str:
    """Return the profile with these lines in place of its drafted lines; all else stays, byte for byte.

    A line below the heading that was not drafted is a person's, and stays below the new lines. With an
    `origin`, the section is signed.
    """
    newline = frontmatter.line_ending(text)
    span = _find_section(text)
    start, end = span or (len(text), len(text))
    own = [line.rstrip("\r") for line in text[start:end].split("\n")[1:]] if span else []
    own = [line for line in own if not DRAFTED.fullmatch(line.strip()) and not _SIGNATURE.fullmatch(line)]
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
