"""The fields of a record: a table with one row for each key of the frontmatter.

A row tells how the value of a key is read, and which parts of the program use it. Frontmatter, merges, sync,
purges, imports, JSON, lists, the page and the table in docs/format.md are made from these rows: a new field
needs a new row and an attribute of `types.Record`. This module knows no files and none of the parts that use
it.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from vademecum.errors import UsageError
from vademecum.named_tuple import NamedTuple
from vademecum.types import RecordType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vademecum.types import Record


class FieldKind(NamedTuple):
    """The kind of values that a key of the frontmatter may have."""

    read: Callable[[Any], Any]  # the value for `Record`; its default for a value that is not of this kind
    fits: Callable[[Any], bool] = lambda value: True
    expects: str = ""  # a valid value in words; empty where any value is valid
    least: int = 0  # of a number
    most: int = 0
    whole: bool = False


class MergeRule(StrEnum):
    """The rule for which value is kept when two versions of a record differ."""

    NEWEST = "the newest"
    EARLIEST = "the earliest"
    LATEST = "the latest"
    LEAST = "the smallest"
    RANKED = "the first of a fixed order"
    EITHER = "true if any is"
    UNION = "all elements"
    BY_SESSION = "one of each session, the newest five"
    SUM = "the sum"


class Guard(StrEnum):
    """When an agent is forbidden to change the field in a record that belongs to a person."""

    NEVER = "no"
    WHEN_SET = "when it is set"
    ALWAYS = "always"


class Column(StrEnum):
    """When a field is shown as a column of `vade list`, and as a badge in the list on the page."""

    NEVER = "no"
    WHEN_SET = "when a record has a value"
    ALWAYS = "always"


FRONT = "front"  # the kind of fact that carries any key; a peer keeps keys that it does not know


class RecordField(NamedTuple):
    """A key of the frontmatter, and how each part of the program uses it."""

    name: str
    meaning: str
    kind: FieldKind
    typed: bool = False  # it is an attribute of `Record`
    json: str = ""  # its place in the JSON of a record, in the words of `present.shape`
    option: str = ""  # the help of its option of `vade add`; its kind is a number
    order: str = ""  # its name in `--sort` and on the page
    newest_first: bool = False  # its order begins with the largest value
    column: Column = Column.NEVER
    placed: bool = False  # the page of a record has a place of its own for it
    merge: MergeRule = MergeRule.NEWEST
    ranks: tuple[str, ...] = ()  # for MergeRule.RANKED
    fact: str = FRONT  # the kind of the facts by which it is synced
    guard: Guard = Guard.NEVER
    fixed: bool = False  # an edit must not change it
    automatic: bool = False  # the store sets it, in every record
    inherited: bool = False  # a record that is split off another one has its value
    indexed: bool = False  # the index has a column of it
    words: bool = True  # a purge of a text looks into the value
    imported: bool = True  # an import keeps the value that another system or home gave it
    personal: bool = (
        False  # only a person or memory itself sets the value: a person's decision, or the writer
    )

    def value_of(self, record: Record) -> Any:
        """Return the value that a record has in this field."""
        return getattr(record, self.name) if self.typed else record.fields.get(self.name)

    def check(self, value: object) -> str:
        """Return the reason why a value is not valid; '' for a valid value and for None."""
        if value is None or self.kind.fits(value):
            return ""
        shown = " ".join(str(value).split())[:60]
        return f"{self.name} must be {self.kind.expects}, not {shown}"


# ------------------------------------------------------------ kinds of values


def _read_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _read_words(value: Any) -> str:
    return str(value or "")


def _read_type(value: Any) -> str:
    return str(value or RecordType.PROJECT)


def _read_integer(value: Any) -> int | None:
    return value if type(value) is int else None


def _read_number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _read_flag(value: Any) -> bool:
    return value is True


def read_tags(value: Any) -> tuple[str, ...]:
    """Return the tags in a value, which may be a list or words between commas."""
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    cleaned = (str(tag).strip() for tag in listed if tag is not None)
    return tuple(dict.fromkeys(tag for tag in cleaned if tag))


def _read_any(value: Any) -> Any:
    return value


def _is_share(value: Any) -> bool:
    number = _read_number(value)
    return number is not None and math.isfinite(number) and 0 <= number <= 1


def whole_number(least: int, most: int) -> FieldKind:
    """Return the kind of whole numbers between two bounds; any other value counts as missing."""

    def fits(value: Any) -> bool:
        return type(value) is int and least <= value <= most

    expects = f"a whole number from {least} to {most}"
    return FieldKind(lambda value: value if fits(value) else None, fits, expects, least, most, whole=True)


ANY = FieldKind(_read_any)
TEXT = FieldKind(_read_text)
WORDS = FieldKind(_read_words)
TYPE = FieldKind(_read_type)
INTEGER = FieldKind(_read_integer)
SHARE = FieldKind(_read_number, _is_share, "a number from 0 to 1", 0, 1)
FLAG = FieldKind(_read_flag, lambda value: isinstance(value, bool), "true or false")
TAGS = FieldKind(read_tags)

# ------------------------------------------------------------ the rows

# A person's preference outlives a fact about a project, so it wins where two machines disagree.
_TYPES = ("user", "feedback", "rule", "failure", "workflow", "pattern", "solution", "discovery", "reference", "project")  # fmt: skip # noqa: E501

FIELDS = (
    RecordField(
        "key",
        "the name of its file; the key in the frontmatter repeats it",
        WORDS,
        json="key",
        order="key",
        placed=True,
        guard=Guard.WHEN_SET,
        fixed=True,
        automatic=True,
        words=False,
    ),
    RecordField(
        "num",
        "a small number, never given twice in a home",
        INTEGER,
        typed=True,
        indexed=True,
        json="num:int?",
        order="number",
        placed=True,
        fixed=True,
        automatic=True,
        words=False,
        imported=False,
    ),
    RecordField(
        "id",
        "a UUID, made once",
        TEXT,
        typed=True,
        json="id?",
        placed=True,
        fixed=True,
        automatic=True,
        words=False,
    ),
    RecordField(
        "scope",
        "the scope of its folder",
        TEXT,
        json="scope=place.scope",
        placed=True,
        guard=Guard.WHEN_SET,
        automatic=True,
        words=False,
        imported=False,
    ),
    RecordField(
        "scope_id",
        "the session, project or agent that it belongs to",
        TEXT,
        json="scope_id~=place.id",
        placed=True,
        automatic=True,
        words=False,
        imported=False,
    ),
    RecordField(
        "type",
        "the kind of knowledge; `project` when missing",
        TYPE,
        typed=True,
        indexed=True,
        json="type",
        column=Column.ALWAYS,
        placed=True,
        merge=MergeRule.RANKED,
        ranks=_TYPES,
        fact="type",
        guard=Guard.ALWAYS,
        words=False,
    ),
    RecordField(
        "title",
        "its title; else that of the body, else the key",
        WORDS,
        typed=True,
        indexed=True,
        json="title?",
        placed=True,
        guard=Guard.WHEN_SET,
        automatic=True,
    ),
    RecordField(
        "tags",
        "a list, or words between commas",
        TAGS,
        typed=True,
        indexed=True,
        json="tags:list",
        placed=True,
        merge=MergeRule.UNION,
        fact="tag",
        guard=Guard.ALWAYS,
        inherited=True,
    ),
    RecordField(
        "category",
        "the signal that it was detected by, such as `decision`",
        TEXT,
        typed=True,
        json="category?",
        column=Column.ALWAYS,
        inherited=True,
        words=False,
    ),
    RecordField(
        "source",
        "how it came into memory, such as `detected`",
        TEXT,
        typed=True,
        json="source?",
        inherited=True,
        words=False,
        personal=True,
    ),
    RecordField(
        "confidence",
        "how reliable a lesson is",
        SHARE,
        typed=True,
        json="confidence:float?",
        option="The confidence, from 0 to 1.",
        merge=MergeRule.LEAST,
        fact="confidence",
        inherited=True,
        words=False,
    ),
    RecordField(
        "protected",
        "whether it is never archived unasked",
        FLAG,
        typed=True,
        json="protected:bool",
        placed=True,
        merge=MergeRule.EITHER,
        fact="protected",
        guard=Guard.ALWAYS,
        inherited=True,
        words=False,
        personal=True,
    ),
    RecordField(
        "priority",
        "how much it matters, 1 before 5",
        whole_number(1, 5),
        typed=True,
        json="priority:int!",
        option="The priority, from 1 (most important) to 5.",
        order="priority",
        column=Column.WHEN_SET,
        guard=Guard.WHEN_SET,
        inherited=True,
    ),
    RecordField("protected_by", "`agent` where no person protected it", TEXT, personal=True),
    RecordField(
        "aliases",
        "earlier keys",
        TAGS,
        json="aliases:list",
        merge=MergeRule.UNION,
        fact="alias",
    ),
    RecordField(
        "created",
        "the time of its first entry",
        TEXT,
        typed=True,
        json="created?",
        order="created",
        newest_first=True,
        placed=True,
        merge=MergeRule.EARLIEST,
        automatic=True,
        words=False,
    ),
    RecordField(
        "updated",
        "the time of its newest entry",
        TEXT,
        typed=True,
        indexed=True,
        json="updated?",
        order="updated",
        newest_first=True,
        placed=True,
        merge=MergeRule.LATEST,
        automatic=True,
        words=False,
    ),
    RecordField(
        "generated",
        "`{by, client, at}` of the last entry",
        ANY,
        placed=True,
        automatic=True,
        words=False,
        personal=True,
    ),
    RecordField(
        "confirmed",
        "`[{by, session, at}]`: who said it again",
        ANY,
        merge=MergeRule.BY_SESSION,
        fact="confirmed",
        words=False,
        imported=False,
        personal=True,
    ),
    RecordField("verified", "a person verified its text", ANY, imported=False, personal=True),
    RecordField(
        "status",
        "`stable`, `draft` or `deprecated`",
        TEXT,
        merge=MergeRule.RANKED,
        ranks=("deprecated", "draft", "stable"),
        fact="status",
        guard=Guard.WHEN_SET,
    ),
    RecordField(
        "stale_after",
        "a time, or a duration such as `90 days` since it was last confirmed: then it is archived",
        ANY,
        merge=MergeRule.LEAST,
        fact="stale_after",
        guard=Guard.WHEN_SET,
    ),
    RecordField("related", "keys of other records", ANY, merge=MergeRule.UNION, fact="related"),
    RecordField("parts", "the records that a consolidation holds", ANY, merge=MergeRule.UNION),
    RecordField("imported", "the time of an import", ANY),
    RecordField(
        "sources",
        "`[{resource, id}]`: where it came from",
        ANY,
        merge=MergeRule.UNION,
        fact="source",
    ),
    RecordField("examples", "the paths of examples of a lesson", ANY, merge=MergeRule.UNION, fact="example"),
    RecordField("applied", "how often a lesson was applied", ANY, merge=MergeRule.SUM, fact="applied"),
    RecordField("learned", "how often a lesson was learned", ANY),
)

BY_NAME = {row.name: row for row in FIELDS}
DEFAULT_ORDER = "updated"  # of the page's list
_SORTED = sorted(FIELDS, key=lambda row: (row.order != DEFAULT_ORDER, not row.newest_first))
ORDERS = {row.order: row for row in _SORTED if row.order}
OPTIONS = tuple(row for row in FIELDS if row.option)
BADGES = tuple(row for row in FIELDS if row.column is Column.WHEN_SET)
COLUMNS = tuple(row for row in FIELDS if row.column is not Column.NEVER)
_TYPED = tuple((row.name, row.kind.read) for row in FIELDS if row.typed)
_INDEXED = tuple((row.name, row.kind.read) for row in FIELDS if row.indexed)
_INHERITED = tuple(row.name for row in FIELDS if row.inherited)
# Attributes of `Record` that hold free text; the store writes the others among them itself.
TYPED_TEXTS = tuple(
    row.name
    for row in FIELDS
    if row.typed and row.kind in (TEXT, WORDS) and (row.name == "title" or not row.automatic)
)
_LAST = 1 << 62  # larger than any number that is sorted
_LAST_TEXT = "\U0010ffff"  # and than any text

# ------------------------------------------------------------ records


def read_typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a frontmatter that are attributes of `Record`."""
    return {name: read(values.get(name)) for name, read in _TYPED}


def read_indexed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a frontmatter for which the index has columns."""
    return {name: read(values.get(name)) for name, read in _INDEXED}


def inherited_values(record: Record) -> dict[str, Any]:
    """Return the frontmatter values that a new record gets when it is split off this record."""
    found = {name: getattr(record, name) for name in _INHERITED}
    found = {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
    return {name: value for name, value in found.items() if value or (value == 0 and value is not False)}


def find_invalid(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each key of a frontmatter whose value is not valid, with the reason."""
    for row in FIELDS:
        why = row.check(values.get(row.name))
        if why:
            yield row.name, why


def check_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values given for fields with an option; raise UsageError for an unknown or invalid one."""
    for name, value in values.items():
        row = BY_NAME.get(name)
        if row is None or not row.option:
            known = ", ".join(each.name for each in OPTIONS) or "none"
            raise UsageError(f"there is no field {name} to set", hint=f"the fields are: {known}")
        why = row.check(value)
        if why:
            raise UsageError(why)
    return {name: value for name, value in values.items() if value is not None}


def sort_values(record: Record) -> tuple[str | int | float, ...]:
    """Return the sort values of a record for each of `ORDERS`, which the catalogue stores."""
    return tuple(_sort_value(row, record) for row in ORDERS.values())


def _sort_value(row: RecordField, record: Record) -> str | int | float:
    value: str | int | float | None = getattr(record, row.name)
    if value is None and row.name == "updated":
        value = record.created
    if value is not None:
        return value
    if row.kind in (TEXT, WORDS):  # a record without a value comes last
        return "" if row.newest_first else _LAST_TEXT
    return -_LAST if row.newest_first else _LAST


def parse_order(name: str) -> tuple[int, bool]:
    """Return the index of an order in `sort_values`, and whether it begins with the largest value."""
    if name not in ORDERS:
        raise UsageError(f"records cannot be sorted by {name}", hint=f"use one of {', '.join(ORDERS)}")
    return [*ORDERS].index(name), ORDERS[name].newest_first
