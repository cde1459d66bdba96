"""Two living entries that cannot both be true, found by rules: another value, a changed number, a negation.

Statements meet in buckets, so that all of a place are compared in one walk. A rule speaks only where it is
sure: the same subject, said of in the same words, with values of which one excludes the other. What a model
thinks of a pair may be asked for besides; it finds nothing by itself and mends nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vademecum.lifecycle import statements
from vademecum.lifecycle.passes import Proposal
from vademecum.llm.base import read_prompt
from vademecum.store import clock, document, secrets
from vademecum.store.consolidation import is_consolidation
from vademecum.store.merge import may_supersede
from vademecum.store.validate import decode
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.lifecycle.passes import SeenRecord
    from vademecum.llm.base import Limits, Model
    from vademecum.store import Edit
    from vademecum.types import Entry

NAME = "contradiction"
MOST = 200  # the newest pairs of one run
_CROWD = 40  # statements about one thing that are held against each other, the newest
_QUOTED = 100
_LONGEST = 400  # characters of a statement that a rule understands

_TOKEN = re.compile(r"`[^`]+`|[a-z]+://\S+|[$€£]?\d[\w.,:%/-]*\w%?|\d%?|\w[\w./@+'’-]*\w|\w|[=:]")
_NUMBER = re.compile(r"[$€£]?v?\d[\d.,:_]*(?:%|[a-z]{1,3})?")
_DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b")
_DAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
# States of which one excludes the others.
_OPPOSITES = (
    {"enabled", "disabled"},
    {"on", "off"},
    {"true", "false"},
    {"required", "mandatory", "optional"},
    {"allowed", "forbidden", "prohibited"},
    {"public", "private"},
    {"supported", "unsupported"},
    {"synchronous", "asynchronous"},
)
_STATES = {word: f"<state {at}>" for at, group in enumerate(_OPPOSITES) for word in group}
_FILLERS = frozenset(
    """the a an our my your its their this that these those always currently now please just really also
    still here strictly do does be to of""".split()
)
_PRONOUNS = frozenset("it this that they there he she we i you one which what who".split())
_NEGATORS = frozenset("not never no n't cannot without".split())
_VERBS = frozenset(
    """is has have use run listen default expire take allow require must should deploy cost keep stay live
    start end close open need support return last happen release meet wait retry limit prefer target store
    accept set""".split()
)
# Words that name a kind of value, and not whose value it is.
_GENERIC = frozenset(
    """default port timeout limit version size max min name path url host maximum minimum value number count
    current main new server service file folder branch key table config configuration setting test build
    status state type mode level interval database address user owner deadline total""".split()
)


class SaidEntry(NamedTuple):
    """One statement, and the entry that makes it."""

    seen: SeenRecord
    entry: Entry
    text: str
    line: int  # of the file, from 1
    share: float  # how much of its entry it is

    @property
    def where(self) -> str:
        """The line as shown."""
        return f"{self.seen.record.path}#L{self.line}"

    @property
    def quoted(self) -> str:
        """What it says, short and without secrets."""
        text = secrets.redact(self.text, secrets.find(self.text))
        return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"


class Clash(NamedTuple):
    """Two statements that cannot both be true, the older one first, and the rule that says so."""

    older: SaidEntry
    newer: SaidEntry
    rule: str

    @property
    def why(self) -> str:
        """One sentence for a person."""
        when = f" of {self.newer.entry.time[:10]}" if self.newer.entry.time else ""
        return f"“{self.older.quoted}” and “{self.newer.quoted}”{when} in {self.newer.where}: {self.rule}"


class _Reading(NamedTuple):
    """What a rule makes of a statement: whatever has the same key and another value contradicts it."""

    key: tuple[str, ...]
    value: tuple[str, ...]
    rule: str
    across: bool  # whether it also speaks for another record


# -------------------------------------------------------------------- finding


def find_clashes(seen: Iterable[SeenRecord]) -> list[Clash]:
    """All pairs of living entries of one place that contradict each other, the newest first."""
    buckets: dict[tuple[object, ...], dict[tuple[str, ...], list[tuple[_Reading, SaidEntry]]]] = {}
    for each in seen:
        if is_consolidation(each.record):
            continue  # it repeats what others said
        for said in _said(each):
            for reading in _readings(said.text):
                bucket = buckets.setdefault((each.record.place, reading.key), {})
                bucket.setdefault(reading.value, []).append((reading, said))
    found: dict[tuple[object, ...], Clash] = {}
    for bucket in buckets.values():
        if len(bucket) > 1:
            for clash in _pairs(bucket):
                both = sorted((_entry_key(clash.older), _entry_key(clash.newer)))
                found.setdefault(tuple(both), clash)
    order = sorted(found.values(), key=lambda clash: (clash.older.where, clash.newer.where))
    return sorted(order, key=lambda clash: clash.newer.entry.time or "", reverse=True)


def _pairs(bucket: dict[tuple[str, ...], list[tuple[_Reading, SaidEntry]]]) -> Iterator[Clash]:
    values: dict[tuple[object, ...], set[tuple[str, ...]]] = {}
    for value, listed in bucket.items():
        for _, said in listed:
            values.setdefault(_entry_key(said), set()).add(value)
    # An entry that gives two values itself speaks of two things.
    sure = [
        (value, reading, said)
        for value, listed in bucket.items()
        for reading, said in listed
        if len(values[_entry_key(said)]) == 1
    ]
    sure = sorted(sure, key=lambda each: _age(each[2]))[-_CROWD:]
    for at, (value, reading, said) in enumerate(sure):
        for other_value, other, also in sure[at + 1 :]:
            if value != other_value and _comparable(reading, said, other, also):
                first, second = sorted((said, also), key=_age)
                yield Clash(first, second, reading.rule)


def _comparable(reading: _Reading, said: SaidEntry, other: _Reading, also: SaidEntry) -> bool:
    if said.seen.record.path == also.seen.record.path:
        return _entry_key(said) != _entry_key(also)
    if not (reading.across and other.across):
        return False
    tags = {tag for tag in said.seen.record.tags if not tag.startswith("_")}
    shared = tags & set(also.seen.record.tags) or _topic(said) & _topic(also)
    return bool(shared) or len(set(reading.key) - _GENERIC - _VERBS - _FILLERS) >= 4


def _topic(said: SaidEntry) -> set[str]:
    return {word for word in said.seen.record.key.split("-") if len(word) > 3} - _GENERIC


def _entry_key(said: SaidEntry) -> tuple[str, int]:
    return said.seen.record.path, said.entry.start


def _age(said: SaidEntry) -> tuple[float, str, int]:
    moment = clock.parse(said.entry.time)
    return moment.timestamp() if moment else 0.0, said.seen.record.path, said.entry.start


def _said(seen: SeenRecord) -> Iterator[SaidEntry]:
    lines: list[str] | None = None
    for entry in seen.record.live:
        found = statements.split_statements(entry.text)
        for each in found:
            if each.present and len(each.text) <= _LONGEST and not _DATE.search(each.text):
                lines = decode(seen.content).split("\n") if lines is None else lines
                line = min(first_line(lines, entry) + each.line, entry.end)
                yield SaidEntry(seen, entry, each.text, line, 1 / len(found))


def first_line(lines: Sequence[str], entry: Entry) -> int:
    """The line of a file on which the text of an entry begins, counted from 1."""
    at = entry.start + (1 if entry.time else 0)
    while at < entry.end and not lines[at - 1].strip():
        at += 1
    return at


# -------------------------------------------------------------------- one statement


def _readings(text: str) -> Iterator[_Reading]:
    """What the rules make of a statement."""
    tokens = _tokens(text)
    if not 2 <= len(tokens) <= 40:
        return
    positive = [token for token in tokens if token not in _NEGATORS]
    denied = (len(tokens) - len(positive)) % 2 == 1
    content = [token for token in positive if token not in _FILLERS | {"must", "should", "can"}]
    telling = [token for token in content if token not in _PRONOUNS and token != "is"]
    if len(telling) >= 2:
        key = ("says", *content)
        yield _Reading(key, ("not",) if denied else (), "one denies the other", len(telling) >= 3)
    if len(content) >= 2 and content[0] in _VERBS and content[0] != "is":
        # “Do not use X” also denies “use X for Y”; “use X” says nothing against “do not use X for Y”.
        if not denied:
            yield _Reading(("may", *content[:2]), (), "one forbids what the other asks for", False)
        elif len(content) == 2:
            yield _Reading(("may", *content), ("not",), "one forbids what the other asks for", False)
    if not denied:
        yield from _valued(content)


def _valued(content: list[str]) -> Iterator[_Reading]:
    """A subject, a verb, and values that exclude others."""
    at = next((at for at, token in enumerate(content) if token in _VERBS), None)
    if at is None:
        return
    subject, verb, value = content[:at], content[at], content[at + 1 :]
    if not value or (verb == "is" and _PRONOUNS.issuperset(subject)):
        return
    own = [token for token in subject if token not in _PRONOUNS]
    across = len(own) >= 2 and not _GENERIC.issuperset(own)
    kinds = [_kind(token, last=n == len(value) - 1) for n, token in enumerate(value)]
    if any(kinds):
        key, given = _masked(value, kinds)
        yield _Reading(("value", *subject, verb, *key), given, "the same, with another value", across)
    elif verb == "is" and len(value) == 1 and _is_name(value[0]) and own == subject:
        yield _Reading(("name", *subject), (value[0],), "the same, with another value", across)
    elif verb == "use" and len(value) >= 3 and value[1] == "for" and not subject_of_many(subject):
        yield _Reading(("use", *subject, *value[2:]), (value[0],), "another choice for the same", False)


def _masked(value: list[str], kinds: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is said with its values left open, and the values."""
    pairs = list(zip(kinds, value, strict=True))
    return tuple(kind or token for kind, token in pairs), tuple(
        _plain(token) for kind, token in pairs if kind
    )


def subject_of_many(subject: Sequence[str]) -> bool:
    """Whether more than one thing may be used: `you can use`, `some use`."""
    return not _PRONOUNS.issuperset(subject) or "can" in subject


def _tokens(text: str) -> list[str]:
    """The words of a statement in their plainest form, values as they stand."""
    text = text.replace("’", "'").replace("**", "").replace("__", "")
    text = re.sub(r"(?i)\bcannot\b", "can not", text)
    text = re.sub(r"(?i)n't\b", " not", text)
    text = re.sub(r"(?i)\bno longer\b", "not", text)
    text = re.sub(r"(?i)\bavoid(?: using| use of)?\b", "not use", text)
    text = re.sub(r"(?i)\b(?:is|are) (?:now )?(?:set to|configured as)\b", "is", text)
    found = []
    for number, match in enumerate(_TOKEN.finditer(text)):
        token = match[0].rstrip(".,:;") if len(match[0]) > 1 else match[0]
        if token.startswith("`") or "://" in token:
            found.append(token)
            continue
        lower = token.lower()
        if lower in _FILLERS:
            continue
        # A capital inside a sentence is a name; at its beginning it may be anything.
        name = number > 0 and _looks_named(token)
        word = token if name else _stem(lower)
        if lower in ("=", ":", "are", "equals"):
            word = "is"
        found.append(word)
    return found


def _stem(word: str) -> str:
    if word in _STATES or len(word) <= 3 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return word[:-1]


def _looks_named(token: str) -> bool:
    return token[:1].isupper() or bool(re.search(r"[a-z][A-Z]|\w[_/]\w|\w\.[a-z]", token))


def _is_name(token: str) -> bool:
    return token.startswith("`") or "://" in token or _looks_named(token)


def _kind(token: str, *, last: bool) -> str:
    """The kind of value of which a thing has one; empty for whatever else."""
    lower = token.lower()
    if _NUMBER.fullmatch(lower):
        return "<number>"
    if lower.removesuffix("s") in _DAYS:
        return "<day>"
    if lower in _STATES and (last or lower not in ("on", "off")):
        return _STATES[lower]
    return ""


def _plain(token: str) -> str:
    """A value as it is compared."""
    lower = token.lower()
    if _NUMBER.fullmatch(lower):
        lower = lower.replace(",", "").replace("_", "").removeprefix("v")
        return lower.rstrip("0").rstrip(".") if re.fullmatch(r"\d+\.\d+", lower) else lower
    return lower.removesuffix("s") if lower.removesuffix("s") in _DAYS else lower


# -------------------------------------------------------------------- mending


@dataclass(frozen=True, slots=True)
class Contradictions:
    """The pass: the older entry is marked superseded by the newer, where that needs no person."""

    verified: Callable[[Entry], bool] = lambda entry: False
    name: str = NAME

    def propose(self, seen: Sequence[SeenRecord], *, now: datetime) -> Iterator[Proposal]:
        """Mark what a newer entry, trusted no less, says otherwise; both texts stay."""
        marks: dict[str, dict[int, Clash]] = {}
        files: dict[str, SeenRecord] = {}
        for clash in find_clashes(seen)[:MOST]:
            if needs_person(clash, self.verified):
                continue
            path = clash.older.seen.record.path
            files[path] = clash.older.seen
            chosen = marks.setdefault(path, {})
            known = chosen.get(clash.older.entry.start)
            if known is None or _age(clash.newer) < _age(known.newer):
                chosen[clash.older.entry.start] = clash
        for path, chosen in sorted(marks.items()):
            text = decode(files[path].content)
            for index, entry in enumerate(files[path].record.entries):
                mark = chosen.get(entry.start)
                if mark is not None:
                    parsed = document.parse(text)
                    signed = parsed.sections[index].signed is not None
                    text = document.sign(
                        parsed,
                        index,
                        origin=None if signed else entry.origin,
                        superseded=mark.newer.entry.time,
                    )
            first = min(chosen.values(), key=lambda clash: clash.older.line)
            more = f"; and {len(chosen) - 1} more" if len(chosen) > 1 else ""
            why = f"“{first.older.quoted}” gives way to “{first.newer.quoted}” in {first.newer.where}{more}"
            place = files[path].record.place
            yield Proposal(self.name, first.older.where, why, (files[path].revised(text),), place)


def settle_clash(clash: Clash, *, at: str) -> Edit:
    """The edit by which a person lets the newer statement hold: the older entry is marked superseded."""
    seen = clash.older.seen
    parsed = document.parse(decode(seen.content))
    index = next(n for n, entry in enumerate(seen.record.entries) if entry.start == clash.older.entry.start)
    signed = parsed.sections[index].signed is not None
    origin = None if signed else clash.older.entry.origin
    return seen.revised(document.sign(parsed, index, origin=origin, superseded=clash.newer.entry.time or at))


def needs_person(clash: Clash, verified: Callable[[Entry], bool] = lambda entry: False) -> str:
    """Why this contradiction is left to a person; empty when it is not."""
    older, newer = clash.older, clash.newer
    if not (older.seen.shelf.trusted and newer.seen.shelf.trusted):
        return "its folder is not trusted"
    # In one record entries follow each other; across records only the time tells.
    together = older.seen.record.path == newer.seen.record.path
    same_time = _age(older)[0] == _age(newer)[0] and not together
    if older.entry.time is None or newer.entry.time is None or same_time:
        return "nothing says which of them is newer"
    if verified(older.entry) and not verified(newer.entry):
        return "a person has verified the older one"
    if not may_supersede(older.seen.record, older.entry, origin=newer.entry.origin or Origin.USER):
        return "the older one is trusted more, or protected"
    if older.share < 0.5:
        return "the older entry says much more than this"
    return ""


# -------------------------------------------------------------------- a second opinion


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a model is asked for."""

    contradicts: bool
    why: str = ""


def ask_opinion(clash: Clash, model: Model, *, limits: Limits | None = None) -> bool:
    """Whether a model sees the contradiction too; raises a ModelFailed when it gives no verdict."""
    shown = "\n".join(
        f"STATEMENT {when or 'undated'}\n{secrets.redact(text, secrets.find(text))}\nEND"
        for when, text in (
            (clash.older.entry.time, clash.older.text),
            (clash.newer.entry.time, clash.newer.text),
        )
    )
    return model.typed(
        shown, Verdict, system=read_prompt(__package__, "contradiction"), limits=limits
    ).value.contradicts
