"""The common types: immutable values that every part of the system passes around."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ScopeRule(NamedTuple):
    """The rules of a scope: who owns it, who may read it, and what is kept in it."""

    meaning: str
    owner: str = ""  # whose id names a folder of the scope; empty: one folder for everybody
    variable: str = ""  # of the environment, for an owner that is no session, project or agent
    group: bool = False  # whether a session of several people sees it
    others: bool = False  # whether others read it: secrets are refused, and agents ask before they write
    journal: bool = False
    documents: tuple[str, ...] = ()  # the pinned ones it keeps


class Scope(StrEnum):
    """Where a text is kept and who can read it; the members are listed in order of precedence.

    A new scope needs only a new member here, because nothing else lists the scopes.
    """

    rule: ScopeRule

    def __new__(cls, name: str, *rule: ScopeRule) -> Scope:
        """Make a member from its name, and attach the rules of the scope."""
        scope = str.__new__(cls, name)
        scope._value_ = name
        (scope.rule,) = rule
        return scope

    SESSION = "session", ScopeRule("this conversation only", owner="session", group=True)
    PROJECT = (
        "project",
        ScopeRule("this code base", owner="project", group=True, journal=True, documents=("context.md",)),
    )
    AGENT = (
        "agent",
        ScopeRule("this role everywhere", owner="agent", journal=True, documents=("MEMORY.md",)),
    )
    GLOBAL = (
        "global",
        ScopeRule(
            "the person, everywhere", journal=True, documents=("MEMORY.md", "context.md", "profile.md")
        ),
    )
    FEDERATED = "federated", ScopeRule("everyone on this machine", others=True)


class RecordType(StrEnum):
    """A label on a record, which never decides where the record is kept."""

    PROJECT = "project"
    USER = "user"
    FEEDBACK = "feedback"
    REFERENCE = "reference"
    DISCOVERY = "discovery"
    SOLUTION = "solution"
    PATTERN = "pattern"
    WORKFLOW = "workflow"
    FAILURE = "failure"
    RULE = "rule"


# What is learned from work: lessons, with fields of their own.
LEARNED = (
    RecordType.DISCOVERY,
    RecordType.SOLUTION,
    RecordType.PATTERN,
    RecordType.WORKFLOW,
    RecordType.FAILURE,
    RecordType.RULE,
)


MEMBER_NAME = "[a-z0-9][a-z0-9._-]{0,39}"  # what a member of a team may be called


class Origin(StrEnum):
    """The origin of a text; the members are listed from the most to the least trusted.

    A text that another member of a team wrote has the origin `member:NAME`, trusted less than any listed.
    """

    USER = "user"
    AGENT = "agent"
    EXTERNAL = "external"
    TOOL = "tool"
    IMPORT = "import"

    @classmethod
    def _missing_(cls, value: object) -> Origin | None:
        if not isinstance(value, str) or not re.fullmatch(f"member:{MEMBER_NAME}", value):
            return None
        made = str.__new__(cls, value)
        made._name_ = made._value_ = value
        return made

    @property
    def rank(self) -> int:
        """The position of the origin in the order of trust; a larger number means less trust."""
        return len(Origin) if self.is_member else list(Origin).index(self)

    @property
    def is_member(self) -> bool:
        """Whether another member of a team wrote the text."""
        return self.startswith("member:")


def parse_origin(name: str) -> Origin:
    """Return the origin with this name; an unknown name gives the least trusted origin."""
    try:
        return Origin(name)
    except ValueError:
        return list(Origin)[-1]


class Audience(StrEnum):
    """The readers of the output: one person, or a group that must not see anything private."""

    PRIVATE = "private"
    GROUP = "group"


class SecretPolicy(StrEnum):
    """What happens to a text that contains a secret; the members stand from loosest to strictest."""

    WARN = "warn"
    REDACT = "redact"
    REFUSE = "refuse"


class Provider(StrEnum):
    """The kind of embedder that makes vectors."""

    LOCAL = "local"
    STATIC = "static"
    MINILM = "minilm"
    OPENAI = "openai"
    GEMINI = "gemini"
    OLLAMA = "ollama"
    NONE = "none"


class Fusion(StrEnum):
    """How the results of the different ways to search are merged."""

    WEIGHTED = "weighted"
    RRF = "rrf"


UNDATED = "undated"  # how an entry without a time is named by one that contradicts it


class Place(NamedTuple):
    """A scope with the id of the session, project or agent whose texts are meant."""

    scope: Scope
    id: str = ""

    def __str__(self) -> str:
        return f"{self.scope}/{self.id}" if self.id else str(self.scope)


@dataclass(frozen=True, slots=True)
class Entry:
    """A dated text in a record or journal; `start` and `end` are its lines in the file, from 1."""

    text: str
    time: str | None = None
    origin: Origin | None = None
    superseded: str | None = None
    start: int = 1
    end: int = 1
    cites: str | None = None  # fingerprints of the lines of code it cites, as they were then
    stale: str | None = None  # what it cites that is no longer there
    part: str | None = None  # the record it was an entry of, when that was consolidated with others
    contradicts: str | None = None  # the time of a person's entry that it would have replaced
    id: str | None = field(default=None, compare=False)  # in its document; none of one typed by hand

    @property
    def live(self) -> bool:
        """Whether the entry still holds, which it does until a later entry supersedes it."""
        return self.superseded is None

    @property
    def is_version(self) -> bool:
        """Whether a sync put the entry here as a second version of the entry above it."""
        return self.contradicts is not None and "~" in (self.id or "")


def in_conflict(entry: Entry, among: Sequence[Entry]) -> bool:
    """Whether a sync found several versions of the entry and nobody has chosen one yet."""
    return any(entry in pair for pair in find_versions(among))


def find_versions(among: Sequence[Entry]) -> list[tuple[Entry, ...]]:
    """Return the groups of entries that are versions of one entry, each group with the original first."""
    found: list[tuple[Entry, ...]] = []
    for above, entry in pairwise(among):
        if not entry.is_version:
            continue
        own = str(entry.id).partition("~")[0]
        if found and found[-1][-1] == above and above.is_version and str(above.id).startswith(f"{own}~"):
            found[-1] = (*found[-1], entry)
        elif above.id == own or (above.time or UNDATED) == entry.contradicts:
            found.append((above, entry))
    return found


@dataclass(frozen=True, slots=True)
class Record:
    """The record of one topic, with all its entries, as read from its file."""

    key: str
    place: Place
    path: str
    type: str
    title: str
    entries: tuple[Entry, ...]
    id: str | None = None
    num: int | None = None
    tags: tuple[str, ...] = ()
    created: str | None = None
    updated: str | None = None
    category: str | None = None
    source: str | None = None
    confidence: float | None = None
    priority: int | None = None
    protected: bool = False
    trusted: bool = True
    team: str = ""  # the team that shares it
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Earlier keys by which the record is still found."""
        listed = self.fields.get("aliases")
        return tuple(str(each) for each in listed) if isinstance(listed, list) else ()

    @property
    def live(self) -> tuple[Entry, ...]:
        """The entries that still hold, which no later entry has superseded."""
        return tuple(entry for entry in self.entries if entry.live)

    @property
    def text(self) -> str:
        """The text of the newest entry that no person has to decide about; else of the newest entry."""
        return (self.agreed or self.entries or (Entry(""),))[-1].text

    @property
    def agreed(self) -> tuple[Entry, ...]:
        """The entries that still hold, without those about which a person must decide first.

        Such an entry contradicts an entry that a person wrote.
        """
        return tuple(entry for entry in self.live if not self.disputes(entry))

    def conflicts(self, entry: Entry) -> bool:
        """Whether a sync found several versions of the entry and nobody has chosen one yet."""
        return in_conflict(entry, self.live)

    def disputes(self, entry: Entry) -> bool:
        """Whether the entry would replace a person's entry that still holds, and nobody has decided yet."""
        mark = entry.contradicts
        return mark is not None and any((each.time or UNDATED) == mark for each in self.live if each != entry)


class Outcome(StrEnum):
    """What saving a text did to the record."""

    CREATED = "created"
    APPENDED = "appended"
    REPLACED = "replaced"
    CONFIRMED = "confirmed"
    CONSOLIDATED = "consolidated"
    WAITING = "waiting"  # kept beside what a person wrote; a person decides whether it takes its place


class Swept(NamedTuple):
    """The records that were archived automatically, and the run that `vade undo` can revert."""

    run: str
    moved: int
    into: tuple[str, ...] = ()  # the consolidations that hold it now
    at: str = ""
    where: str = ""  # the folder whose memory it was

    @property
    def message(self) -> str:
        """The sentence about the archived records that a person reads."""
        records = "1 old record was" if self.moved == 1 else f"{self.moved:,} old records were"
        held = f"; summarized in {' and '.join(self.into)}" if self.into else ""
        return f"{records} moved to the archive automatically{held}; undo with `vade undo {self.run}`"


class Merged(NamedTuple):
    """A merge of a text with an entry that says the same in other words, and the command that undoes it."""

    key: str
    superseded: str  # how the wording begins that no longer stands
    undo: str


class Stored(NamedTuple):
    """The confirmation that a text was saved: it is on disk under this key."""

    outcome: Outcome
    key: str
    num: int | None
    id: str | None
    place: Place
    path: str
    secrets: tuple[str, ...] = ()
    indexed: bool = False
    swept: Swept | None = None  # what went to the archive because the scope holds too much
    beside: Entry | None = None  # a person's entry that this text would have replaced
    approval: str = ""  # what a person decides about, when it waits
    merged: Merged | None = None  # what it was merged with, unasked
    purged: str = ""  # when a person purged this very text, which is stored again now
    team: str = ""  # the team that shares it
    dropped: tuple[str, ...] = ()  # given fields that were not saved, because only a person sets them


class Edited(NamedTuple):
    """The confirmation that an edited text was saved; secrets in it are named by kind."""

    secrets: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()  # changed fields that were not saved, because only a person sets them


class Noted(NamedTuple):
    """The confirmation that a note was saved: it is on disk in the journal."""

    path: str
    time: str
    secrets: tuple[str, ...] = ()
    purged: str = ""  # as of what is stored


class Finding(NamedTuple):
    """A problem in the user's data: what it is, where and why, and the command that repairs it."""

    what: str
    where: str
    why: str
    mend: str = ""
    severity: str = "warning"
    place: Place | None = None  # whose it is, where that is known


class ChangeKind(StrEnum):
    """The kind of a change: a file was written, or a file was removed."""

    WRITTEN = "written"
    REMOVED = "removed"


class Change(NamedTuple):
    """An event that the store sends to its listeners after it has written or removed a file."""

    kind: ChangeKind
    place: Place
    path: str


# How a call may name one: an editor offers these words; any other text may be given, as every call checks.
ScopeName = Scope | Literal["session", "project", "agent", "global", "federated"] | str
TypeName = (
    RecordType
    | Literal[
        "project",
        "user",
        "feedback",
        "reference",
        "discovery",
        "solution",
        "pattern",
        "workflow",
        "failure",
        "rule",
    ]
    | str
)
StoreMode = Literal["append", "replace"] | str
SearchMode = Literal["hybrid", "bm25", "vector", "metadata"] | str
SortOrder = Literal["recency", "score", "usage"] | str
