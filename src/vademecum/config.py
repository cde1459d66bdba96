"""Read every setting once, from all its layers, into one frozen tree.

    defaults < <home>/config.toml < <repository>/.vade/config.toml < VADE_* < flags

A setting is declared in one place: a field of the tree below, with its default, its meaning, the kind of
value that it takes, and how a repository may change it. A repository's file was written by strangers. It has
no effect until the user trusts it, and then it may only narrow what the user's own file and the defaults
allow. A wrong line in a file is reported and has no effect, while the other lines count, so no file can
switch memory off. A wrong value in the environment or on the command line is refused. This module knows no
store, and writes nothing to the disk.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import FrozenInstanceError
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

from vademecum.errors import ConfigError
from vademecum.named_tuple import NamedTuple
from vademecum.types import Fusion, Provider, Scope, SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Self

T = TypeVar("T")

PREFIX = "VADE_"
FILE_NAME = "config.toml"
REPOSITORY_FOLDER = ".vade"
MAX_FILE_BYTES = 256 * 1024
# A real key has two parts. The time tomllib takes grows with the square of that number, and 128,000 parts fit
# into the largest file: a stranger's repository could hold every command up for minutes.
MAX_KEY_PARTS = 16
LONGEST_HOOK = 9.0  # seconds; less than agents wait for a hook
_STEPS_BACK = 64  # lines that one value may span and still be cut off whole
# Variables that begin like settings and are read elsewhere.
NOT_SETTINGS = frozenset(
    {
        "VADE_HOME",
        "VADE_SESSION",
        "VADE_AUDIENCE",
        "VADE_CLIENT",
        "VADE_SCRIPT",
        *(scope.rule.variable for scope in Scope),
    }
)

KIB, MIB, GIB = 1024, 1024**2, 1024**3
_SIZES = {"gib": GIB, "mib": MIB, "kib": KIB, "b": 1, "": 1}
_WORDS_FOR = {True: ("1", "true", "yes", "on"), False: ("0", "false", "no", "off")}


# Kinds of values.


class Kind(NamedTuple):
    """The kind of value that a setting takes.

    `parse` raises ValueError for a value of another kind; `plain` first converts the text of a variable or
    flag.
    """

    word: str
    wanted: str
    parse: Callable[[object], object]
    plain: Callable[[str], object] = str
    render: Callable[[Any], str] = str


def parse_size(text: str) -> int:
    """Return the number of bytes that a text such as "512KiB" or "4096" names."""
    match = re.fullmatch(r"([0-9]+) ?(b|kib|mib|gib|)", text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _SIZES[match[2]]


def render_size(size: int) -> str:
    """Write a number of bytes in the largest unit that keeps it a whole number."""
    for unit, scale in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size and size % scale == 0:
            return f"{size // scale}{unit}"
    return str(size)


def parse_duration(text: str) -> float:
    """Return the seconds that a text such as "500ms", "10s", "5m" or "2h" names.

    A plain number is a number of seconds.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?) ?(ms|s|m|h|)", text.strip())
    if match is None:
        raise ValueError(text)
    number, unit = float(match[1]), match[2]
    # Dividing keeps 100ms equal to 0.1; multiplying by 0.001 would not.
    return number / 1000 if unit == "ms" else number * {"h": 3600, "m": 60}.get(unit, 1)


def render_duration(seconds: float) -> str:
    """Write a number of seconds in the largest unit that keeps it whole, or else in seconds."""
    for unit, scale in (("h", 3600), ("m", 60), ("s", 1)):
        if seconds and seconds % scale == 0:
            return f"{seconds / scale:.0f}{unit}"
    thousandths = round(seconds * 1000)
    return f"{thousandths}ms" if seconds and thousandths / 1000 == seconds else f"{seconds or 0}s"


def _within(number: float, low: float, high: float) -> None:
    if not low <= number <= high:  # also refuses nan, which compares false to everything
        raise ValueError(number)


def whole(low: int, high: int) -> Kind:
    """Return the kind of setting whose value is a whole number between two bounds."""

    def parse(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(value)
        _within(value, low, high)
        return value

    def plain(text: str) -> int:
        if not re.fullmatch(
            r"[+-]?[0-9]+", text.strip()
        ):  # int() alone would take 1_0 and digits of other scripts
            raise ValueError(text)
        return int(text)

    return Kind("whole number", f"a whole number from {low} to {high}", parse, plain)


def size(low: int, high: int) -> Kind:
    """Return the kind of setting whose value is a size in bytes between two bounds."""

    def parse(value: object) -> int:
        number = parse_size(value) if isinstance(value, str) else value
        if not isinstance(number, int) or isinstance(number, bool):
            raise ValueError(value)
        _within(number, low, high)
        return number

    wanted = f"bytes or a size such as 512KiB, from {render_size(low)} to {render_size(high)}"
    return Kind("size", wanted, parse, render=render_size)


def duration(low: float, high: float) -> Kind:
    """Return the kind of setting whose value is a duration in seconds between two bounds."""

    def parse(value: object) -> float:
        number = parse_duration(value) if isinstance(value, str) else value
        if not isinstance(number, int | float) or isinstance(number, bool):
            raise ValueError(value)
        _within(number, low, high)
        return float(number)

    bounds = f"from {render_duration(low)} to {render_duration(high)}"
    wanted = f"seconds or a duration such as 500ms, 10s or 5m, {bounds}"
    return Kind("duration", wanted, parse, render=render_duration)


def share(low: float, high: float) -> Kind:
    """Return the kind of setting whose value is a number between two bounds."""

    def parse(value: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(value)
        _within(value, low, high)
        return float(value)

    def plain(text: str) -> float:
        if not re.fullmatch(r"[+-]?[0-9]*\.?[0-9]+", text.strip()):
            raise ValueError(text)
        return float(text)

    return Kind("number", f"a number from {low:g} to {high:g}", parse, plain, lambda value: f"{value:g}")


def choice(names: type[StrEnum]) -> Kind:
    """Return the kind of setting whose value is a member of an enumeration."""

    def parse(value: object) -> StrEnum:
        if not isinstance(value, str):
            raise ValueError(value)
        return names(value)

    return Kind("choice", "one of " + ", ".join(names), parse, lambda text: text.strip().lower())


def _parse_boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _plain_boolean(text: str) -> bool:
    for meaning, words in _WORDS_FOR.items():
        if text.strip().lower() in words:
            return meaning
    raise ValueError(text)


def _parse_name(value: object) -> str:
    name = value.strip() if isinstance(value, str) else ""
    if not name or len(name) > 200 or not name.isprintable():
        raise ValueError(value)
    return name


def _parse_moment(value: object) -> str:
    from datetime import datetime  # most commands ask for no moment

    datetime.fromisoformat(_parse_name(value))
    return _parse_name(value)


def _parse_reset(value: object) -> str:
    words = value.strip().lower() if isinstance(value, str) else ""
    kind, colon, rest = words.partition(":")
    if kind == "idle" and colon:
        _within(parse_duration(rest), 1, 30 * 86_400)
    elif words not in ("daily", "never"):
        raise ValueError(value)
    return words


def _parse_text(value: object) -> str:
    text = value.strip() if isinstance(value, str) else ""
    shown = text.replace("\n", "").replace("\t", "")
    if not text or len(text) > 20_000 or not all(char.isprintable() for char in shown):
        raise ValueError(value)
    return text


def _parse_patterns(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > 200:
        raise ValueError(value)
    return tuple(_parse_name(each) for each in value)


def _plain_patterns(text: str) -> list[str]:
    return [] if text.strip() == "none" else [each for each in text.split(",") if each.strip()]


BOOLEAN = Kind("boolean", "true or false", _parse_boolean, _plain_boolean, lambda value: str(value).lower())
NAME = Kind("name", "a name: one line of printable text, at most 200 characters", _parse_name)
MOMENT = Kind("moment", "a date or time as 2026-11-15 or 2026-11-15T08:00", _parse_moment)
TEXT = Kind("text", "a text of at most 20,000 printable characters, on one line or several", _parse_text)
PATTERNS = Kind(
    "list",
    "a list of at most 200 names or patterns such as read_*",
    _parse_patterns,
    _plain_patterns,
    lambda value: ", ".join(value) or "none",
)
RESET = Kind("choice", "daily, never, or a duration as in idle:30m", _parse_reset)


RESULT_CHARS = 400  # characters of a result of a search, on average
RESULTS = 6  # passages of an answer: of the setting, `vade search`, `memory_search` and hub search

# Declaring a setting.


class Repository(StrEnum):
    """How a repository's settings file may change a setting: not at all, or only in one direction."""

    NEVER = "no"
    LOWER = "to lower it"
    HIGHER = "to raise it"
    STRICTER = "to a stricter one"
    ON = "to turn it on"


NEVER, LOWER, HIGHER, STRICTER, ON = Repository


class Setting(NamedTuple):
    """A setting: its name, default, meaning, kind of value, and how a repository may change it.

    A setting without a value of its own has the value of the setting that it `follows`.
    """

    name: str
    default: Any
    meaning: str
    kind: Kind
    repository: Repository
    follows: str | None
    only_file: bool

    @property
    def environment(self) -> str:
        """The name of the environment variable that sets the setting."""
        return _variable(self.name)

    @property
    def flag(self) -> str:
        """The name of the command-line option that sets the setting, where a command has this option."""
        return "--" + self.name.replace(".", "-").replace("_", "-")

    def render(self, value: object) -> str:
        """Write a value of this setting as a person would write it in the settings file."""
        if value is None:
            return f"as {self.follows}" if self.follows else "not set"
        return self.kind.render(value)


def setting(
    default: T,
    meaning: str,
    kind: Kind,
    repository: Repository,
    *,
    follows: str | None = None,
    only_file: bool = False,
) -> T:
    """Declare a setting as a field of a group; with `only_file`, no environment variable can set it."""
    # To a type checker the field has the type of its default.
    made: Any = Setting("", default, meaning, kind, repository, follows, only_file)
    return made  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, kw_only_default=True)
class SettingsGroup:
    """A group of settings that belong together, with values that cannot be changed.

    This is no dataclass, because a dataclass writes and compiles six functions: for twenty groups, that took
    longer than all else that is done before a command begins.
    """

    declared: ClassVar[dict[str, Setting | SettingsGroup]]

    def __init_subclass__(cls) -> None:
        cls.declared = {
            name: each._replace(name=name.rstrip("_")) if isinstance(each, Setting) else each
            for name, each in vars(cls).items()
            if isinstance(each, Setting | SettingsGroup)
        }

    def __init__(self, **given: Any) -> None:
        if unknown := given.keys() - self.declared.keys():
            raise TypeError(f"{type(self).__name__} has no setting {', '.join(sorted(unknown))}")
        for name, each in self.declared.items():
            default = each.default if isinstance(each, Setting) else each
            self.__dict__[name] = given.get(name, default)

    def replace(self, **changes: Any) -> Self:
        """Return a copy of the group in which some settings have other values."""
        return type(self)(**{**vars(self), **changes})

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))


# The settings.


class Dedup(SettingsGroup):
    """Settings of when a text saved without a key counts as already known."""

    window_days: int = setting(7, "How many days back to look for near-duplicates.", whole(1, 36_500), LOWER)
    newest: int = setting(10, "How many of the scope's newest records are compared.", whole(1, 10_000), LOWER)
    # A match supersedes what it matches, so raising is what narrows: at 0 every text would replace another.
    threshold: int = setting(
        85,
        "The minimum text similarity, out of 100, for a duplicate.",
        whole(0, 100),
        HIGHER,
    )


class Sweeping(StrEnum):
    """Whether memory archives old records automatically."""

    AUTO = "auto"
    OFF = "off"


class Strategy(StrEnum):
    """What is done with the oldest records of a scope that has too many records."""

    SUMMARIZE = "summarize"
    CUT = "cut"


# What may be put away, and when, is the person's to say: none of it is a repository's, not even to narrow it.


class Decay(SettingsGroup):
    """Settings of how many records a scope may hold."""

    # Not even to lower it: a lower cap sends a person's records to the archive.
    max_count: int = setting(200, "The maximum number of records in one scope.", whole(1, 1_000_000), NEVER)
    percentage: float = setting(
        0.2,
        "The share of the oldest records to archive when a scope has too many.",
        share(0.01, 1),
        NEVER,
    )
    strategy: Strategy = setting(
        Strategy.SUMMARIZE,
        "How to archive them: `summarize` merges their text into one record, `cut` does not.",
        choice(Strategy),
        NEVER,
    )


class Retention(SettingsGroup):
    """Settings of how long records are kept; 0 days means for ever."""

    project_days: int = setting(
        90,
        "Days after its last change until a project's record is archived; 0 never.",
        whole(0, 36_500),
        NEVER,
    )
    session_days: int = setting(
        14,
        "Days after its last change until a session's record is archived; 0 never.",
        whole(0, 36_500),
        NEVER,
    )
    archive_days: int = setting(
        0, "Days until a sweep permanently deletes archived versions; 0 never.", whole(0, 36_500), NEVER
    )
    audit_days: int = setting(0, "Days until a sweep deletes audit lines; 0 never.", whole(0, 36_500), NEVER)


class LimitSettings(SettingsGroup):
    """Limits on the size of an entry and of an answer, and on how long a call may wait."""

    content_bytes: int = setting(MIB, "The maximum size of one entry.", size(1, GIB), LOWER)
    lock: float = setting(
        10.0, "How long a write waits for another process; 0 tries once.", duration(0, 3600), LOWER
    )
    hook_start: float = setting(
        3.0,
        "The time limit of a hook at a session's start or a compaction; what is late comes with the next"
        " prompt.",
        duration(0.005, LONGEST_HOOK),
        LOWER,
    )
    hook_prompt: float = setting(
        2.0,
        "The time limit of a prompt's hook; what is late comes with the next prompt.",
        duration(0.005, LONGEST_HOOK),
        LOWER,
    )
    open: float = setting(
        2.0, "The time limit for updating the index before a search.", duration(0, 3600), LOWER
    )
    answer_chars: int = setting(
        20_000,
        "The most characters that a tool answers an agent with; the answer says how to read on.",
        whole(1_000, 1_000_000),
        LOWER,
    )


class Search(SettingsGroup):
    """Settings of how questions are answered."""

    hybrid: bool = setting(True, "Search by meaning as well as by words.", BOOLEAN, NEVER)
    fusion: Fusion = setting(
        Fusion.WEIGHTED,
        "How keyword and vector results are merged: `weighted` or `rrf`.",
        choice(Fusion),
        NEVER,
    )
    vector_weight: float = setting(0.35, "The weight of vector results.", share(0, 1), NEVER)
    text_weight: float = setting(0.65, "The weight of keyword results.", share(0, 1), NEVER)
    candidate_multiplier: int = setting(
        4,
        "Candidates per result from each of the two rankings; at least 12.5 per result in all.",
        whole(1, 1000),
        NEVER,
    )
    max_results: int = setting(RESULTS, "How many passages are returned.", whole(1, 1000), LOWER)
    result_chars: int = setting(
        RESULT_CHARS,
        "The characters of a result on average; the first results get most. 0 cuts nothing.",
        whole(0, 100_000),
        NEVER,
    )
    min_score: float = setting(
        0.0, "The relevance below which a match is hidden; 0 hides nothing.", share(0, 1), HIGHER
    )
    now: str | None = setting(
        None,
        "The time that relative dates such as `yesterday` refer to, unless a call sets one; default: now.",
        MOMENT,
        NEVER,
    )
    rerank: str = setting(
        "none",
        "The reranker of the 20 best results: `none`, a cross-encoder's `.onnx` file, the URL of a"
        " `/rerank` API, or `llm`.",
        NAME,
        NEVER,
    )
    rerank_model: str | None = setting(
        None, "The model at that address, instead of the provider's usual one.", NAME, NEVER
    )
    rerank_key_env: str | None = setting(
        None, "The variable that holds the key for that address.", NAME, NEVER
    )
    rerank_seconds: float = setting(
        3.0, "The time limit for reranking; after it the order stays unchanged.", duration(0.1, 600), NEVER
    )
    cache_max_mb: int = setting(
        256,
        "How large the cache of vectors from other models may grow, in MB.",
        whole(0, 1_000_000),
        NEVER,
    )
    background_reading: bool = setting(
        True,
        "Read new texts in the background, so that they are found in other words.",
        BOOLEAN,
        LOWER,
    )


class ChunkSettings(SettingsGroup):
    """Settings of how texts are split into passages for the index."""

    tokens: int = setting(400, "The approximate number of tokens in a chunk.", whole(50, 10_000), NEVER)
    overlap: int = setting(80, "How many tokens consecutive chunks share.", whole(0, 5_000), NEVER)


class Embed(SettingsGroup):
    """Settings of the embedder, which makes the vectors of texts."""

    model: str | None = setting(None, "The model, instead of the provider's usual one.", NAME, NEVER)
    endpoint: str | None = setting(None, "The address of the provider.", NAME, NEVER)
    path: str | None = setting(None, "The folder of a model of your own.", NAME, NEVER)
    key_env: str | None = setting(None, "The variable that holds the provider's key.", NAME, NEVER)
    batch: int = setting(64, "How many texts are sent at once.", whole(1, 2048), NEVER)
    timeout: float = setting(30.0, "How long a provider may take to answer.", duration(0.1, 3600), NEVER)


class Llm(SettingsGroup):
    """Settings of the language model and of requests to it."""

    endpoint: str | None = setting(None, "The address of the model's server.", NAME, NEVER)
    key_env: str | None = setting(None, "The variable that holds the model's key.", NAME, NEVER)
    timeout: float = setting(
        120.0, "The time limit for a model's answer, including retries.", duration(0.1, 3600), NEVER
    )
    budget: int = setting(
        0, "How many tokens one process may use; 0 is no limit.", whole(0, 1_000_000_000), NEVER
    )
    window: int = setting(
        0,
        "The model's context window, in tokens; 0 uses the provider's usual size.",
        whole(0, 100_000_000),
        NEVER,
    )


class Inject(SettingsGroup):
    """Settings of how much memory an agent gets at the start of a session."""

    enabled: bool = setting(True, "Add memory to agents' context at session start.", BOOLEAN, NEVER)
    knowledge: bool = setting(True, "Include lessons.", BOOLEAN, NEVER)
    max_per_scope: int = setting(40, "How many records of a scope are shown.", whole(0, 10_000), LOWER)
    scope_chars: int = setting(
        4000, "How much of a scope's records is shown, in characters.", whole(0, 1_000_000), LOWER
    )
    global_context_kib: int = setting(
        3, "The budget of the global `context.md`, in KiB.", whole(1, 1024), LOWER
    )
    project_context_kib: int = setting(
        7, "The budget of the project's `context.md`, in KiB.", whole(1, 1024), LOWER
    )
    warn_kib: int = setting(
        10, "How large both `context.md` may be together without a warning, in KiB.", whole(1, 1024), LOWER
    )
    cut_kib: int = setting(
        20, "How large both may be together before they are cut, in KiB.", whole(1, 1024), LOWER
    )
    memory_chars: int = setting(4000, "The budget of `MEMORY.md`, in characters.", whole(1, 1_000_000), LOWER)
    profile_chars: int = setting(
        1500, "The budget of `profile.md`, in characters.", whole(1, 1_000_000), LOWER
    )
    journal_chars: int = setting(
        2000, "How much of a day's notes is shown, in characters.", whole(0, 1_000_000), LOWER
    )
    discoveries: int = setting(15, "How many discoveries are shown.", whole(0, 10_000), LOWER)
    solutions: int = setting(15, "How many solutions are shown.", whole(0, 10_000), LOWER)
    patterns: int = setting(10, "How many patterns are shown.", whole(0, 10_000), LOWER)
    sessions: int = setting(
        3,
        "How many of the project's recent sessions are listed at session start; 0 for none.",
        whole(0, 3),
        LOWER,
    )
    total_tokens: int = setting(10_000, "The token budget for all of it.", whole(100, 10_000_000), LOWER)


class Trim(SettingsGroup):
    """Settings of when a context window is trimmed, and how much is removed."""

    proactive: float = setting(
        0.75, "The share of the context window at which older messages are trimmed.", share(0.1, 1), NEVER
    )
    target: float = setting(0.5, "The share of the context window to trim down to.", share(0.05, 1), NEVER)
    keep_recent_tokens: int = setting(
        20_000,
        "How many of the newest tokens a compaction keeps; at most a quarter of the context window.",
        whole(0, 10_000_000),
        NEVER,
    )


class Flush(SettingsGroup):
    """Settings of the hidden turn in which an agent saves notes before messages are trimmed."""

    enabled: bool = setting(True, "Let the agent save notes before messages are trimmed.", BOOLEAN, NEVER)
    reserve_tokens: int = setting(
        20_000,
        "How many tokens before the end of the context window it runs; at most a fifth of the window.",
        whole(0, 10_000_000),
        NEVER,
    )
    soft_tokens: int = setting(
        4_000,
        "How many tokens earlier still; at most a twentieth of the context window.",
        whole(0, 10_000_000),
        NEVER,
    )
    system_prompt: str | None = setting(
        None, "The system prompt of that turn, instead of the default.", TEXT, NEVER
    )
    prompt: str | None = setting(
        None, "Its user prompt, instead of the default; `{date}` and `{time}` are filled in.", TEXT, NEVER
    )


class Pruning(StrEnum):
    """When old results of tools are shortened in the context window."""

    OFF = "off"
    CACHE_TTL = "cache-ttl"
    ALWAYS = "always"


class Prune(SettingsGroup):
    """Settings of how old tool results are shortened in the window; the transcript keeps them whole."""

    mode: Pruning = setting(
        Pruning.CACHE_TTL,
        "When to prune: `off`, `cache-ttl` (the provider's cache has expired, or a trim is due) or `always`.",
        choice(Pruning),
        NEVER,
    )
    ttl: float = setting(
        300.0, "How long the provider's cache is valid after a call.", duration(0, 30 * 86_400), NEVER
    )
    keep_last_assistants: int = setting(
        3, "How many of the last answers are never pruned.", whole(0, 10_000), NEVER
    )
    # A repository may ask for shorter ones, since it knows what its tools print: the whole stays readable.
    min_prunable_chars: int = setting(
        50_000,
        "Clear the oldest results until fewer prunable characters than this remain.",
        whole(0, 1_000_000_000),
        LOWER,
    )
    max_chars: int = setting(
        4_000, "A result longer than this is cut to head and tail.", whole(0, 1_000_000_000), LOWER
    )
    head_chars: int = setting(
        1_500, "How many characters of its beginning to keep.", whole(0, 1_000_000_000), LOWER
    )
    tail_chars: int = setting(
        1_500, "How many characters of its end to keep.", whole(0, 1_000_000_000), LOWER
    )
    hard_clear: bool = setting(True, "Clear results, instead of only cutting them.", BOOLEAN, NEVER)
    placeholder: str = setting(
        "[Old tool result content cleared]", "The placeholder for a cleared result.", NAME, NEVER
    )
    tools_allow: tuple[str, ...] = setting(
        (),
        "Prune only results of these tools, such as `read_*`; empty: all tools.",
        PATTERNS,
        NEVER,
    )
    tools_deny: tuple[str, ...] = setting((), "Never prune results of these tools.", PATTERNS, NEVER)


class SessionSettings(SettingsGroup):
    """Settings of when a session ends, and of the notes about it in the journal."""

    reset: str = setting(
        "daily", "When a new session starts automatically: `daily`, `idle:30m` or `never`.", RESET, NEVER
    )
    note_messages: int = setting(
        15,
        "How many of its last messages a session saves to the journal; 0 for none.",
        whole(0, 1000),
        LOWER,
    )


class Knowledge(SettingsGroup):
    """Settings of how long lessons count."""

    # Not even to narrow them: a repository could send what a person learned to the archive.
    max_age_days: int = setting(
        90, "Days until an unconfirmed lesson is archived; 0 never.", whole(0, 36_500), NEVER
    )
    min_confidence: float = setting(0.3, "Archive lessons with a lower confidence.", share(0, 1), NEVER)
    half_life_days: int = setting(
        60, "Days without confirmation after which a lesson's score halves.", whole(1, 36_500), NEVER
    )


def _secrets_in(scope: Scope) -> SecretPolicy | None:
    meaning = f"The same for {scope} scope alone."
    return setting(None, meaning, choice(SecretPolicy), STRICTER, follows="secrets.policy")


class Secrets(SettingsGroup):
    """Settings of what happens to a text that contains a secret."""

    policy: SecretPolicy = setting(
        SecretPolicy.REDACT,
        "What to do with a text that contains a secret: `warn`, `redact` or `refuse`.",
        choice(SecretPolicy),
        STRICTER,
    )
    session: SecretPolicy | None = _secrets_in(Scope.SESSION)
    project: SecretPolicy | None = _secrets_in(Scope.PROJECT)
    agent: SecretPolicy | None = _secrets_in(Scope.AGENT)
    global_: SecretPolicy | None = _secrets_in(Scope.GLOBAL)  # set as `global`, a word that Python keeps

    def in_scope(self, scope: Scope) -> SecretPolicy:
        """Return the policy for secrets in a scope; a scope that others can read always refuses them."""
        if scope.rule.others:
            return SecretPolicy.REFUSE
        own: SecretPolicy | None = getattr(self, scope, None) or getattr(self, f"{scope}_", None)
        return own or self.policy


class Consent(StrEnum):
    """Whether an agent's write is made, asked about or refused; listed from loosest to strictest."""

    AUTO = "auto"
    ASK = "ask"
    DENY = "deny"


class Approval(SettingsGroup):
    """Settings of when a person is asked before an agent writes."""

    chat: Consent = setting(
        Consent.ASK,
        "Before an agent writes in a chat: `ask` the user, `auto` (write without asking) or `deny`.",
        choice(Consent),
        NEVER,
    )
    mcp: Consent = setting(
        Consent.AUTO, "The same for agents that write through `vade mcp`.", choice(Consent), NEVER
    )
    federated: Consent = setting(
        Consent.ASK,
        "The same for what any agent writes to `federated` scope; the stricter of the two counts.",
        choice(Consent),
        NEVER,
    )
    scripts: tuple[str, ...] = setting(
        (),
        "Scripts that may decide for you without a terminal, by their name in `VADE_SCRIPT`.",
        PATTERNS,
        NEVER,
        only_file=True,
    )

    def before(self, door: str, scope: Scope) -> Consent:
        """Return the consent that an agent's write through an interface needs.

        For a scope that others read, the stricter of this consent and `federated` counts.
        """
        own = Consent(getattr(self, door))
        strictness = tuple(Consent)
        return max(own, self.federated, key=strictness.index) if scope.rule.others else own


class SyncSettings(SettingsGroup):
    """Settings of when memory is synced with other machines."""

    after_session: bool = setting(
        True,
        "Sync in the background when an agent's session ends, where a hub or a folder was joined.",
        BOOLEAN,
        NEVER,
    )


class Asking(StrEnum):
    """The moment at which an agent is asked about statements that were heard and not saved."""

    OFF = "off"
    END = "end"


class CaptureSettings(SettingsGroup):
    """Settings of what is noticed in sessions without being asked for."""

    nudge: bool = setting(
        True,
        "Tell agents which words of a prompt may be worth saving, at most five times a session; after a"
        " compaction, list for them the statements that were heard and not saved.",
        BOOLEAN,
        NEVER,
    )
    hear: bool = setting(
        True,
        "Collect for your review what you say in sessions and may want to save. When this is off, nothing is"
        " heard, and statements heard before are not shown.",
        BOOLEAN,
        NEVER,
    )
    tell: bool = setting(
        True,
        "Show agents, when a session starts, up to three things that you said in recent sessions and have not"
        " accepted yet.",
        BOOLEAN,
        NEVER,
    )
    ask: Asking = setting(
        Asking.OFF,
        "Ask the agent, once a session at the end of a turn, about statements that were heard and not saved:"
        " `end`, or `off` for never.",
        choice(Asking),
        NEVER,
        only_file=True,
    )
    model: str | None = setting(
        None,
        "The language model that reads your sessions after their end and proposes what to remember, such as"
        " `ollama:qwen3` or `agent:claude-code`. You have to confirm it: `vade config set capture.model …`.",
        NAME,
        NEVER,
        only_file=True,
    )
    model_tokens: int = setting(
        200_000,
        "How many tokens this model may use in a day; 0 is none.",
        whole(0, 1_000_000_000),
        NEVER,
        only_file=True,
    )
    fade_days: int = setting(
        30, "After how many days statements that were noticed in sessions are deleted.", whole(1, 3650), NEVER
    )


class Settings(SettingsGroup):
    """All settings, as a tree of groups."""

    project_id: str | None = setting(
        None, "The project's id, instead of the one made from its remote or folder.", NAME, NEVER
    )
    agent: str = setting("main", "The agent whose memory is used.", NAME, NEVER)
    incognito: bool = setting(False, "Do not read or write memory.", BOOLEAN, ON)
    sweep: Sweeping = setting(
        Sweeping.AUTO,
        "Archive old and surplus records automatically, once a day: `auto` or `off`.",
        choice(Sweeping),
        NEVER,
    )
    embedder: Provider = setting(
        Provider.LOCAL,
        "Where vectors come from: "
        + ", ".join(f"`{each}`" for each in Provider if each != "none")
        + " or `none`.",
        choice(Provider),
        NEVER,
    )
    model: str | None = setting(
        None, "The language model, such as `openai:gpt-5-mini`; empty or `none` for no model.", NAME, NEVER
    )
    dedup: Dedup = Dedup()
    decay: Decay = Decay()
    retention: Retention = Retention()
    limits: LimitSettings = LimitSettings()
    search: Search = Search()
    chunk: ChunkSettings = ChunkSettings()
    embed: Embed = Embed()
    llm: Llm = Llm()
    inject: Inject = Inject()
    trim: Trim = Trim()
    flush: Flush = Flush()
    prune: Prune = Prune()
    session: SessionSettings = SessionSettings()
    sync: SyncSettings = SyncSettings()
    capture: CaptureSettings = CaptureSettings()
    knowledge: Knowledge = Knowledge()
    secrets: Secrets = Secrets()
    approval: Approval = Approval()

    @property
    def reader_is_shipped(self) -> bool:
        """Whether the packaged reader model is used: for hybrid search with the packaged local embedder."""
        return self.search.hybrid and self.embedder is Provider.LOCAL and not self.embed.path


def _declared(part: type[SettingsGroup] | SettingsGroup, section: str = "") -> Iterator[Setting]:
    for name, each in part.declared.items():
        if isinstance(each, SettingsGroup):
            yield from _declared(each, f"{name}.")
        else:
            yield each._replace(name=section + each.name)


SETTINGS: Mapping[str, Setting] = MappingProxyType({each.name: each for each in _declared(Settings)})
SECTIONS = frozenset(name.partition(".")[0] for name in SETTINGS if "." in name)
# Settings of earlier releases, each with what does it now; a file or variable that has one gets this text.
REMOVED_SETTINGS = {
    "limits.hook": "set limits.hook_start or limits.hook_prompt",
    "output.json_shape": "`--json` has one shape, described in docs/cli.md",
    "search.session_vectors_mb": "to search sessions by words alone, set search.hybrid to false",
}


class SettingRow(NamedTuple):
    """A setting as a row of the table in docs/settings.md."""

    name: str
    type: str
    default: str
    meaning: str
    repository: str
    environment: str


def describe() -> list[SettingRow]:
    """Return a row for each setting, in the order of the tree of settings."""
    return [
        SettingRow(
            name=each.name,
            type=each.kind.word,
            default=each.render(each.default),
            meaning=each.meaning,
            repository=each.repository,
            environment="only in config.toml" if each.only_file else each.environment,
        )
        for each in SETTINGS.values()
    ]


def flatten(part: SettingsGroup, section: str = "") -> dict[str, object]:
    """Return the values of a tree of settings, each under the full name of its setting."""
    flat: dict[str, object] = {}
    for name, each in part.declared.items():
        value = getattr(part, name)
        flat |= (
            flatten(value, f"{name}.") if isinstance(each, SettingsGroup) else {section + each.name: value}
        )
    return flat


def _gather(part: SettingsGroup, values: Mapping[str, object], section: str = "") -> Any:
    """Build the tree of settings from values under their full names, as `flatten` returns them."""
    return part.replace(
        **{
            name: _gather(each, values, f"{name}.")
            if isinstance(each, SettingsGroup)
            else values[section + each.name]
            for name, each in part.declared.items()
        }
    )


# Reading the layers.


class Problem(NamedTuple):
    """A line of a settings file, or a variable, that has no effect, with the reason."""

    where: str  # the file, with the line where one is to blame, or the variable
    why: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.why}"


class WantedSetting(NamedTuple):
    """A setting in a repository's settings file, with its value and its line."""

    name: str
    value: str
    where: str


class Shared(NamedTuple):
    """The settings file of a repository: its settings, whether they have effect, and its problems."""

    path: Path
    trusted: bool
    wanted: tuple[WantedSetting, ...] = ()
    problems: tuple[Problem, ...] = ()


class Loaded(NamedTuple):
    """The settings in force, the source of each value, and warnings about likely mistakes."""

    settings: Settings
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()  # in the user's own file, and variables of removed settings
    shared: Shared | None = None  # of the repository, if it has a file


class _Given(NamedTuple):
    """The value that a layer gives to a setting, and the place where it is written."""

    value: Any
    origin: str


_Layer = dict[str, _Given]


def home_from(environ: Mapping[str, str], flag: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the memory: that of the flag, else of VADE_HOME, else ~/.vade."""
    # An empty flag is a script's empty variable: falling back would write into the person's real memory.
    if flag is not None and not os.fspath(flag):
        raise ConfigError("--home is empty", hint="name a folder, or leave the option out to use ~/.vade")
    said = os.fspath(flag) if flag is not None else environ.get("VADE_HOME") or "~/.vade"
    where = os.path.expanduser(said)
    if where.startswith("~") or "\0" in where:
        raise ConfigError(f"{said!r} cannot be a memory folder", hint="pass the path of a folder")
    return Path(os.path.abspath(where))


def load(
    *,
    home: Path,
    project_root: Path | None = None,
    trusted: bool = False,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Return the settings: flags win over variables, then come a repository's file and the user's own file.

    A flag with the value None counts as not given. The file of a repository that is not `trusted` has no
    effect.
    """
    environ = os.environ if environ is None else environ
    below: _Layer = {name: _Given(each.default, "default") for name, each in SETTINGS.items()}
    own, wrong = _from_file(home / FILE_NAME)
    below |= own
    problems = (*_removed_variables(environ), *wrong)
    repository, shared = _from_repository(project_root, home, below, trusted=trusted)
    above = _from_environment(environ) | _from_flags(flags or {})
    values = below | _without_looser(repository if trusted else {}, below | above) | above
    return Loaded(
        settings=_gather(Settings(), {name: given.value for name, given in values.items()}),
        origins=MappingProxyType({name: given.origin for name, given in values.items()}),
        warnings=(*_mistaken(environ), *map(str, problems)),
        problems=problems,
        shared=shared,
    )


def _from_environment(environ: Mapping[str, str]) -> _Layer:
    for each in SETTINGS.values():
        if each.only_file and environ.get(each.environment):
            raise ConfigError(
                f"{each.environment}: {each.name} cannot be set by a variable",
                hint=f"set it in your own {FILE_NAME}, and unset the variable",
            )
    return {
        name: _Given(_parsed(each, environ[each.environment], each.environment), each.environment)
        for name, each in SETTINGS.items()
        if environ.get(each.environment)
    }


def _from_flags(flags: Mapping[str, object]) -> _Layer:
    layer = {}
    for name, value in flags.items():
        if name not in SETTINGS:
            raise ConfigError(f"flags: unknown setting {name}{_meant(name, SETTINGS)}")
        if value is not None:
            flag = SETTINGS[name].flag
            layer[name] = _Given(_parsed(SETTINGS[name], value, flag), f"flag {flag}")
    return layer


def _parsed(each: Setting, value: object, where: str) -> object:
    """Return the value that a variable or flag gives to a setting; raise ConfigError if it is invalid."""
    try:
        return each.kind.parse(each.kind.plain(value) if isinstance(value, str) else value)
    except ValueError as error:
        raise ConfigError(f"{where}: must be {each.kind.wanted}, not {_shown(value)}") from error


def _from_file(
    path: Path, *, within: Path | None = None, trusted: bool = True
) -> tuple[_Layer, list[Problem]]:
    """Return the settings in a file and the problems with its lines; nothing if the file does not exist."""
    try:
        text = _read(path, within=within)
        document, lines, problems = ({}, {}, []) if text is None else _document(path, text, trusted=trusted)
    except ConfigError as error:
        return {}, [_problem(path, error)]
    layer, wrong = _layer_of(path, document, lines)
    return layer, [*problems, *wrong]


def _layer_of(
    path: Path, document: dict[str, Any], lines: Mapping[tuple[str, ...], int]
) -> tuple[_Layer, list[Problem]]:
    """Return the settings in a parsed file, and a problem for each line that has no effect."""
    layer: _Layer = {}
    problems: list[Problem] = []
    for keys, value in _leaves(document):
        line = f"{path}:{lines.get(keys, 1)}"
        try:
            each = _known(keys, value, line)
            layer[each.name] = _Given(each.kind.parse(value), line)
        except ConfigError as error:
            problems.append(_problem(path, error))
        except ValueError:
            problems.append(Problem(line, f"{each.name} must be {each.kind.wanted}, not {_shown(value)}"))
    return layer, problems


def _document(
    path: Path, text: str, *, trusted: bool
) -> tuple[dict[str, Any], dict[tuple[str, ...], int], list[Problem]]:
    """Parse a settings file; return its content, the line of each key, and its problems.

    Of a file with a syntax error, only the part before the error counts. A stranger's file with an error
    counts for nothing, because the search for its last valid line could be made slow.
    """
    import tomllib

    try:
        lines = _lines_of_keys(path, text)
        return tomllib.loads(text), lines, []
    except ValueError as error:  # TOMLDecodeError, and the plain one for a number of thousands of digits
        message, bad = _syntax_message(path, text, error)
        wrong = ConfigError(f"{message}; everything after it is ignored")
        wrong.__cause__ = error
    except RecursionError as error:
        raise ConfigError(f"{path}:1: brackets are nested too deeply") from error
    rows = text.split("\n")
    for end in range(bad - 1, max(0, bad - 1 - _STEPS_BACK), -1) if trusted else ():
        try:
            return tomllib.loads("\n".join(rows[:end])), lines, [_problem(path, wrong)]
        except (ValueError, RecursionError):
            continue  # a value of several lines was cut in two
    return {}, {}, [_problem(path, wrong)]


def check_text(path: Path, text: str) -> list[Problem]:
    """Return the problems in a text that somebody wants to write as the user's own settings file."""
    document, lines, problems = _document(path, text, trusted=True)
    return [*problems, *_layer_of(path, document, lines)[1]]


def meant(name: str) -> str:
    """Return a hint with the setting whose name resembles a mistyped name; '' if none does."""
    return _meant(name, SETTINGS)


def _problem(path: Path, error: ConfigError) -> Problem:
    """Return an error as a problem, with the file and, if it is known, the line."""
    at = re.match(rf"{re.escape(str(path))}(?::\d+)?(?=: )", str(error))
    where = at[0] if at else str(path)
    hint = error.hint if error.hint != ConfigError.hint else ""
    return Problem(where, str(error).removeprefix(f"{where}: "), hint)


def _leaves(document: dict[str, object]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the key and value of each setting in a parsed file, those inside sections too."""
    sections = {*SECTIONS, *(name.partition(".")[0] for name in REMOVED_SETTINGS if "." in name)}
    for key, value in document.items():
        if key in sections and isinstance(value, dict):
            yield from (((key, inner), deep) for inner, deep in value.items())
        else:
            yield (key,), value


def _known(keys: tuple[str, ...], value: object, line: str) -> Setting:
    """Return the setting with exactly this name; raise ConfigError for any other name."""
    name = ".".join(keys)
    # A quoted key may hold a dot: "dedup.newest" = 5 at the top is one strange key, not a setting.
    if name in SETTINGS and name.count(".") == len(keys) - 1:
        return SETTINGS[name]
    if name in REMOVED_SETTINGS:
        raise ConfigError(f"{line}: {explain_removed(name)}")
    if len(keys) == 1 and name in SECTIONS:
        raise ConfigError(f"{line}: {name} is a section: write [{name}], not a value")
    if len(keys) == 1 and isinstance(value, dict):
        raise ConfigError(f"{line}: unknown section {_spelled(keys)}{_meant(name, SECTIONS)}")
    raise ConfigError(f"{line}: unknown setting {_spelled(keys)}{_meant(name, SETTINGS)}")


# What a repository may do.


def _from_repository(
    root: Path | None, home: Path, below: _Layer, *, trusted: bool
) -> tuple[_Layer, Shared | None]:
    """Return the settings in a repository's file; a setting that loosens the user's own is a problem."""
    if root is None or is_a_home(root / REPOSITORY_FOLDER, home):
        return {}, None
    path = root / REPOSITORY_FOLDER / FILE_NAME
    if not os.path.lexists(path):
        return {}, None
    layer, problems = _from_file(path, within=root, trusted=trusted)
    for name, given in [*layer.items()]:
        problem = _forbidden(name, given, below, own_file=home / FILE_NAME)
        if problem is not None:
            problems.append(problem)
            del layer[name]
    wanted = (
        WantedSetting(name, SETTINGS[name].kind.render(given.value), given.origin)
        for name, given in layer.items()
    )
    return layer, Shared(path, trusted, tuple(wanted), tuple(problems))


def _forbidden(name: str, given: _Given, below: _Layer, *, own_file: Path) -> Problem | None:
    """Return the problem that a repository may not set this value; None when it may."""
    each, own = SETTINGS[name], _effective(name, below)
    if each.repository is NEVER:
        hint = f"remove the line; your own settings belong in {own_file}"
        return Problem(given.origin, f"a repository may not set {name}", hint)
    if widens(each.repository, given.value, own):
        return Problem(
            given.origin,
            f"a repository may set {name} only {each.repository}:"
            f" yours is {each.kind.render(own)}, this is {each.kind.render(given.value)}",
            f"remove the line, or change your own setting in {own_file}",
        )
    return None


def widens(rule: Repository, value: Any, own: Any) -> bool:
    """Return whether a repository's value would allow more than the user's own value."""
    match rule:
        case Repository.LOWER:
            return bool(value > own)
        case Repository.HIGHER:
            return bool(value < own)
        case Repository.STRICTER:
            strictness = tuple(SecretPolicy)
            return strictness.index(value) < strictness.index(own)
        case Repository.ON:
            return value is not True
    return True


def _effective(name: str, layer: _Layer) -> Any:
    """Return the value of a setting; without a value, that of the setting that it follows."""
    value, leader = layer[name].value, SETTINGS[name].follows
    return layer[leader].value if value is None and leader else value


def _without_looser(repository: _Layer, own: _Layer) -> _Layer:
    """Return a repository's settings without those for one scope that are looser than the user's.

    Where the user has no value for a scope, the user's value for all scopes is compared.
    """
    return {
        name: given
        for name, given in repository.items()
        if not (
            SETTINGS[name].follows
            and own[name].value is None
            and widens(SETTINGS[name].repository, given.value, _effective(name, own))
        )
    }


def is_a_home(folder: Path, home: Path) -> bool:
    """Return whether a folder is this home or the usual home `~/.vade`, and so no part of a repository."""
    # The usual home counts even when VADE_HOME points elsewhere: it lies above every folder of that person.
    homes = {os.path.realpath(home), os.path.realpath(os.path.expanduser("~/.vade"))}
    return os.path.realpath(folder) in homes


# Reading a file.


def _read(path: Path, *, within: Path | None = None) -> str | None:
    """Return the text of a settings file, or None if there is no file.

    Raise ConfigError for a file that is too large or not regular; a repository's file must not be a link.
    """
    if within is not None and os.path.lexists(path):
        straight = os.path.join(os.path.realpath(within), *path.relative_to(within).parts)
        if os.path.realpath(path) != straight:
            raise ConfigError(f"{path}: is a link", hint="replace it with a regular file, or remove it")
    try:
        content = _bytes_of(path, follow=within is None)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: is larger than {render_size(MAX_FILE_BYTES)}")
    try:
        # tomllib takes a mark at the start for part of the first key; editors on Windows write one.
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text") from error


def _bytes_of(path: Path, *, follow: bool) -> bytes:
    """Return the content of a file, cut one byte beyond the size that a settings file may have."""
    # O_NONBLOCK, because a FIFO of that name would hang every command. A flag the system lacks counts as 0.
    names = ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY", "" if follow else "O_NOFOLLOW")
    handle = os.open(path, os.O_RDONLY | sum(getattr(os, name, 0) for name in names))
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ConfigError(f"{path}: is not a regular file")
        with open(handle, "rb", closefd=False) as file:
            return file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(handle)


# Finding the line of a key, which tomllib does not tell.

# Compiled when the first file is read: most runs have none, and every command pays for this import.
_TOKEN = r"""
  (?P<space>   [ \t]++ | \#[^\n]*+ )
| (?P<newline> \n )
| (?P<block>   "{3}(?: [^\\"] | \\. | "(?!"") )* "{3,5} | '{3}(?: [^'] | '(?!'') )* '{3,5} )
| (?P<quoted>  (?!"{3}|'{3}) (?: "(?: [^"\\\n] | \\[^\n] )*" | '[^'\n]*' ) )
| (?P<open>    ["'] )
| (?P<bare>    [A-Za-z0-9_-]++ )
| (?P<mark>    . )
"""


def _lines_of_keys(path: Path, text: str) -> dict[tuple[str, ...], int]:
    """Return for each key and table of a TOML text the number of the line that first names it."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()  # the last [header]
    key: tuple[str, ...] = ()  # the full key whose value is being read
    opened: list[tuple[str, tuple[str, ...]]] = []  # the brackets of that value, each with its key
    parts: list[str] = []  # the key being spelled
    spelling, in_header = True, False
    for kind, token, line in _tokens(text):
        if kind in {"bare", "quoted"} and spelling:
            parts.append(_unquoted(token))
            key = (opened[-1][1] if opened else () if in_header else table) + tuple(parts)
            if len(key) > MAX_KEY_PARTS:
                raise ConfigError(f"{path}:{line}: a key of more than {MAX_KEY_PARTS} parts")
        elif kind == "newline" and not opened:
            parts, spelling, in_header = [], True, False
        elif token == "[" and spelling and not opened and not parts:
            in_header = True
        elif token == "]" and in_header:
            table, spelling, in_header = tuple(parts), False, False
            _note(lines, table, line)
        elif token == "=" and spelling:
            parts, spelling = [], False
            _note(lines, key, line)
        elif token in {"[", "{"} and not spelling:
            opened.append((token, key))
            spelling = token == "{"
        elif token in {"]", "}"} and opened:
            key = opened.pop()[1]
            parts, spelling = [], False
        elif token == "," and opened and opened[-1][0] == "{":
            parts, spelling = [], True
    return lines


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    line = 1
    for match in re.compile(_TOKEN, re.VERBOSE | re.DOTALL).finditer(text):
        kind, token = str(match.lastgroup), match[0]
        if kind == "open":  # a string without an end: the rest would be a guess, and tomllib refuses it
            return
        if kind != "space":
            yield kind, token, line
        line += token.count("\n")


def _note(lines: dict[tuple[str, ...], int], key: tuple[str, ...], line: int) -> None:
    for end in range(1, len(key) + 1):
        lines.setdefault(key[:end], line)


def _unquoted(token: str) -> str:
    if "\\" not in token:
        return token[1:-1] if token[0] in "\"'" else token
    import tomllib

    try:
        return str(tomllib.loads(f"key={token}")["key"])
    except ValueError:  # an escape that does not exist; the whole file is refused for it in a moment
        return token


# Words for errors.


def _syntax_message(path: Path, text: str, error: ValueError) -> tuple[str, int]:
    """Change "message (at line 3, column 5)" to "path:3: message"; return that with the line's number."""
    what, _, where = str(error).rpartition(" (at ")
    at = re.match(r"line ([0-9]+)", where)
    line = int(at[1]) if at else text.rstrip("\n").count("\n") + 1
    return f"{path}:{line}: not valid TOML: {what[:200] or 'a number of too many digits'}", line


def _meant(name: str, names: Iterable[str], *, likeness: float = 0.6) -> str:
    """Return a hint with the name that most resembles a mistyped one; '' if none does."""
    from difflib import get_close_matches

    # The length is a stranger's choice, and the comparison's time grows with it.
    close = get_close_matches(name[:60], list(names), n=1, cutoff=likeness)
    return f" (did you mean {close[0]}?)" if close else ""


def _mistaken(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings about variables with nearly the name of a setting; others may be other programs'."""
    known = {each.environment for each in SETTINGS.values()}
    removed = {_variable(name) for name in REMOVED_SETTINGS}
    for name in sorted(environ.keys() - known - removed - NOT_SETTINGS):
        if name.startswith(PREFIX):
            guess = _meant(name, known, likeness=0.85)
            if guess:
                yield f"{_spelled([name])} has no effect{guess}"


def _removed_variables(environ: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each variable of a removed setting."""
    for name in REMOVED_SETTINGS:
        if environ.get(_variable(name)):
            yield Problem(_variable(name), explain_removed(name))


def _variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"{PREFIX}{name.replace('.', '_').upper()}"


def explain_removed(name: str) -> str:
    """Return the message for a removed setting, which says what does it now."""
    return f"the setting {name} was removed: {REMOVED_SETTINGS[name]}"


def _spelled(keys: Iterable[str]) -> str:
    """Write a key on one line and without control characters, as a stranger may have written it."""
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", key) else _shown(key) for key in keys)


def _shown(value: object) -> str:
    """Write an invalid value on one line, shortened and without control characters."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    if isinstance(value, int) and abs(value) >= 10**40:
        return "something far larger"
    return str(value) if isinstance(value, int | float) else "a date or a time"
