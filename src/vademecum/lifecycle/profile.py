"""A profile drafted from what a person said: counted habits, and what a model adds if one is asked."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import ModelFailed, NotVisible, OutsideMemory, StorageFailed, UsageError
from vademecum.knowledge import signals
from vademecum.lifecycle import rewrite, statements
from vademecum.lifecycle.rewrite import PlannedGroup, TopicPlan, TopicUnit
from vademecum.llm.base import Limits, read_prompt
from vademecum.store import Edit, archive, decisions, document, frontmatter, pinned
from vademecum.store.document import decode
from vademecum.store.runs import Run
from vademecum.text import (
    LETTERS,
    SPOKEN,
    clock,
    conflict,
    fences,
    is_command,
    meaning,
    secrets,
    similarity,
    visible,
)
from vademecum.text.vocabulary import EMPTY
from vademecum.transcripts import ASIDE, Role, is_aside
from vademecum.transcripts.events import Said, Started
from vademecum.transcripts.importing import without_injected
from vademecum.transcripts.sessions import IMPORT
from vademecum.types import Audience, Entry, Origin, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, tzinfo

    from vademecum.llm.base import Model
    from vademecum.store import Documents, Home, Told
    from vademecum.transcripts.log import Log


# ------------------------------------------------------------ habits, counted

LEAST = 10  # messages: below it nothing is a habit
SEVERAL = 3  # messages that show one
_NAMED = 4  # names on one line
_SHORT, _LONG = 12, 40  # words
_MOSTLY = 0.5
_ALSO = 0.1
_ALSO_OPPOSITE = 0.3  # of the messages that show a habit, so many that show its opposite make it mixed
_HOURS = ((0, "at night"), (6, "in the morning"), (12, "in the afternoon"), (18, "in the evening"))
_SATURDAY = 5


class Spoken(NamedTuple):
    """A message of a person's, and the same without code, quotes, logs and what memory told."""

    text: str
    own: str
    at: datetime | None = None  # in the time zone of whoever asks
    session: str = ""


class Habit(NamedTuple):
    """Something a message may show; worth a line from a share of the messages on."""

    line: str
    share: float
    shows: Callable[[Spoken], bool]


class StyleAxis(NamedTuple):
    """Two habits of which one says the opposite of the other, and what is said of somebody who has both."""

    one: str
    other: str
    mixed: str


def habit_lines(messages: Sequence[Spoken]) -> list[str]:
    """What these messages have in common, the most telling first; nothing when there are too few."""
    if len(messages) < LEAST:
        return []
    return [
        *_languages(messages),
        _length(messages),
        *_counted(messages),
        *_names(messages),
        *_times(messages),
        *_sessions(messages),
    ]


def count_line(line: str, count: int, total: int) -> str:
    """A line of the profile with the number of messages that it comes from."""
    return f"- {line} ({count} of {total} messages)"


def _over_all(line: str, total: int) -> str:
    return f"- {line} (from {total} messages)"


# The end of every line that was counted: what has none was written by hand.
COUNTED = re.compile(r"- \S.* \((?:\d+ of|from) \d+ messages\)")


# -------------------------------------------------------------------- yes or no


def _any(patterns: str) -> str:
    """One pattern of several, a line each."""
    return "|".join(line.strip() for line in patterns.strip().split("\n"))


def _said_in(patterns: str) -> Callable[[Spoken], bool]:
    """Whether one of these stands among a person's own words."""
    compiled = re.compile(_any(patterns), re.IGNORECASE)
    return lambda each: compiled.search(each.own) is not None


def _asked_for(patterns: str) -> Callable[[Spoken], bool]:
    """Whether one of these stands among a person's own words, other than to say no to it."""
    compiled = re.compile(_any(patterns), re.IGNORECASE)
    return lambda each: _affirms(each.own, compiled)


def _written(patterns: str) -> Callable[[Spoken], bool]:
    """Whether one of these stands anywhere in a message, letter by letter."""
    compiled = re.compile(_any(patterns), re.MULTILINE)
    return lambda each: compiled.search(each.text) is not None


def _orders(each: Spoken) -> bool:
    """Whether a message begins with what is to be done, after words like `ok` and `please`."""
    for word in SPOKEN.findall(each.own[:200]):
        lowered = word.lower()
        if lowered in signals.read_words("verbs"):
            return True
        if lowered not in signals.read_words("leads"):
            return False
    return False


def _lower(each: Spoken) -> bool:
    return next((char.islower() for char in each.own if char.isalpha()), False)


def _open_ended(each: Spoken) -> bool:
    return each.own.rstrip()[-1:].isalnum()


def _confirms(each: Spoken) -> bool:
    words = LETTERS.findall(each.own.lower())
    return bool(words) and len(words) <= _FEW and words[0] in _YES


_FEW = 3
_YES = frozenset(
    """yes yep yeah yup ok okay sure go continue proceed lgtm perfect great good fine right exactly agreed
    ja genau passt gut weiter sí claro vale oui parfait bien sim certo""".split()
)
HABITS = (
    Habit(
        "Asks for brevity",
        0.02,
        _asked_for(r"""
            \b(?:brief(?:ly)?|concise(?:ly)?|tl;?dr|keep it short|short answer)\b
            \b(?:less verbose|too (?:long|verbose))\b
            \bin (?:one|two|a few) (?:sentences?|lines?|words)\b
            \b(?:kurz|bref|brève(?:ment)?|breve)\b
        """),
    ),
    Habit(
        "Asks for detail, or for one step after the other",
        0.03,
        _asked_for(r"""
            \b(?:in (?:more )?detail|detailed|step by step|thorough(?:ly)?|in depth|elaborate)\b
            \b(?:ausführlich|schritt für schritt|en détail|paso a paso)\b
        """),
    ),
    Habit(
        "Asks for reasons and explanations",
        0.1,
        _said_in(r"""
            \b(?:why|explain|how (?:does|do|did|come)|what does .{1,40} mean)\b
            \b(?:warum|wieso|erkläre?|pourquoi|explique|explica|por qué)\b
        """),
    ),
    Habit(
        "Asks for a plan before anything is changed",
        0.03,
        _said_in(r"""
            \b(?:plan first|(?:make|propose|write|show me) a plan|outline first|erst (?:einen )?plan)\b
            \bbefore (?:you )?(?:chang|cod|implement|writ|start|edit|touch)(?:e|ing)?\b
            \b(?:don't|do not) (?:change|code|edit|implement|touch) (?:anything|it yet|any)\b
        """),
    ),
    Habit(
        "Asks for tests",
        0.05,
        _asked_for(r"""
            \b(?:add|write|run|with|needs?|missing|unit|failing|regression|update) (?:\w+ ){0,2}tests?\b
            \btest (?:it|this|that|coverage)\b
            \b(?:schreib|ergänze)\w* .{0,20}tests?\b
        """),
    ),
    Habit("Asks for commits", 0.04, _asked_for(r"\b(?:commit|push|open a (?:pr|pull request)|committe)\b")),
    Habit(
        "Corrects what was done or understood",
        0.05,
        _said_in(r"""
            ^\s*(?:no|nope|nein|non)\b[,.! ]
            \bthat(?:'s| is) (?:wrong|not)\b|\bnot what i\b|\bi (?:meant|said|asked)\b
            \byou (?:forgot|missed|broke|misunderstood|ignored)\b|\b(?:undo|revert) (?:that|this|it)\b
            \b(?:das ist falsch|so nicht|ich meinte)\b
        """),
    ),
    Habit(
        "Says what must not be done",
        0.05,
        _said_in(r"""
            \b(?:don't|do not|never|must not|no more|stop \w+ing|avoid)\b
            \b(?:nicht|niemals|keine?n?|ne .{1,20} pas|nunca)\b
        """),
    ),
    Habit(
        "Gives reasons",
        0.08,
        _said_in(r"\b(?:because|since (?:we|i|it|the)|so that|otherwise|weil|damit|parce que|porque)\b"),
    ),
    Habit("Gives orders rather than asking", 0.4, _orders),
    Habit("Asks questions", 0.3, _said_in(r"[?？](?:\s|$)")),
    Habit("Confirms in a word or two", 0.1, _confirms),
    Habit(
        "Says please",
        0.1,
        _said_in(r"""
            \b(?:please|pls|plz|bitte|s'il (?:te|vous) pla[iî]t|svp|por favor|per favore|alsjeblieft)\b
            お願いします|请|пожалуйста
        """),
    ),
    Habit(
        "Says thanks",
        0.08,
        _said_in(r"""
            \b(?:thanks?|thx|ty|cheers|danke\w*|merci|gracias|grazie|obrigad[oa]|bedankt)\b
            ありがとう|谢谢|спасибо
        """),
    ),
    Habit(
        "Opens with a greeting",
        0.08,
        _said_in(r"""
            ^\s*(?:hi|hello|hey|good (?:morning|afternoon|evening)|hallo|moin|guten (?:morgen|tag|abend))\b
            ^\s*(?:servus|bonjour|salut|hola|buenos días|ciao|olá|你好|こんにちは|привет)
        """),
    ),
    Habit("Puts code into messages", 0.1, _written(r"^[ \t]*(?:```|~~~)|(?<!`)`[^`\n]+`(?!`)")),
    Habit(
        "Pastes errors and logs",
        0.05,
        _written(r"""
            ^(?:Traceback \(most recent|\s*File ".*", line \d+|\s+at \S+ ?\(|[A-Z]\w*(?:Error|Exception): )
            ^(?:(?:ERROR|FATAL|WARN(?:ING)?)\b|error(?:\[\w+\])?: |npm ERR!|panic: )
        """),
    ),
    Habit(
        "Names files and paths",
        0.15,
        _written(r"""
            (?<![\w/:.@-])~?(?:[\w.@-]{1,80}/)+[\w.@-]
            \b[\w-]{1,80}\.(?:py|jsx?|tsx?|rs|go|java|rb|md|toml|ya?ml|json|c|h|cpp|sh|sql|html|css)\b
        """),
    ),
    Habit(
        "Writes lists",
        0.08,
        _written(r"^[ \t]*(?:[-*•+]|\d{1,2}[.)])[ \t]+\S.*\n[ \t]*(?:[-*•+]|\d{1,2}[.)])[ \t]"),
    ),
    Habit("Uses emoji", 0.04, _written("[\U0001f300-\U0001faff\u2600-\u27bf\U0001f1e6-\U0001f1ff]")),
    Habit("Uses exclamation marks", 0.1, _said_in(r"[^\s!]!+(?:\s|$)")),
    Habit(
        "Writes words in capitals for weight",
        0.04,
        _written(r"\b(?:NOT|NEVER|ALWAYS|MUST|ALL|ONLY|STOP|DON'T|IMPORTANT|EVERY|NICHT|NO)\b(?=.*[a-z])"),
    ),
    Habit("Begins in lower case", 0.4, _lower),
    Habit("Leaves out the full stop at the end", 0.5, _open_ended),
)


AXES = (
    StyleAxis(
        "Gives orders rather than asking",
        "Asks questions",
        "Gives orders in {} messages and asks questions in {}",
    ),
    StyleAxis(
        "Asks for brevity",
        "Asks for detail, or for one step after the other",
        "Asks for brevity in {} messages and for detail in {}",
    ),
)
_OPPOSITE = {one: other for axis in AXES for one, other in ((axis.one, axis.other), (axis.other, axis.one))}


def _counted(messages: Sequence[Spoken]) -> Iterator[str]:
    total = len(messages)
    counts = {habit.line: sum(habit.shows(each) for each in messages) for habit in HABITS}
    shown = [each.line for each in HABITS if counts[each.line] >= max(SEVERAL, each.share * total)]
    told: set[StyleAxis] = set()
    for line in shown:
        axis = next((each for each in AXES if line in each[:2]), None)
        other = _OPPOSITE.get(line, "")
        # What shows in a few messages among many of the opposite makes nobody mixed.
        few = counts.get(other, 0) < max(SEVERAL, counts[line] * _ALSO_OPPOSITE)
        if axis is None or (few and other not in shown):
            yield count_line(line, counts[line], total)
        elif axis not in told:
            told.add(axis)
            yield _over_all(axis.mixed.format(counts[axis.one], counts[axis.other]), total)


# -------------------------------------------------------------------- how much, when, and in which language


def _length(messages: Sequence[Spoken]) -> str:
    middle = int(median(_words(each.text) for each in messages))
    kind = "short" if middle <= _SHORT else "long" if middle > _LONG else "of middling length"
    words = "1 word" if middle == 1 else f"{middle} words"
    return _over_all(f"Writes messages that are {kind}: half of them have {words} or fewer", len(messages))


def _words(text: str) -> int:
    """Words, and for scripts that do not part them, signs by twos."""
    signs = len(_SIGNS.findall(text))
    return len(SPOKEN.findall(_SIGNS.sub(" ", text))) + (signs + 1) // 2


_SIGNS = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_SCRIPTS = (
    ("Japanese", re.compile("[\u3040-\u30ff]")),
    ("Korean", re.compile("[\uac00-\ud7af\u1100-\u11ff]")),
    ("Chinese", re.compile("[\u3400-\u9fff]")),
    ("Russian or its kin", re.compile("[\u0400-\u04ff]")),
    ("Greek", re.compile("[\u0370-\u03ff]")),
    ("Arabic", re.compile("[\u0600-\u06ff]")),
    ("Hebrew", re.compile("[\u0590-\u05ff]")),
    ("Hindi or its kin", re.compile("[\u0900-\u097f]")),
    ("Thai", re.compile("[\u0e00-\u0e7f]")),
)
# Small words that one language has and its neighbours here have not.
_SMALL = {
    "English": "the and is are to of it this that with you please should can what how not does don't we i",
    "German": "der die das und ist nicht ein eine mit auf für wir ich bitte kannst wie was dass auch noch",
    "French": "le les des est une pour dans pas vous je nous avec sur cette peux fais c'est qui il être",
    "Spanish": "el los las una por para con está esto puedes cómo qué hay pero más y muy esta favor del",
    "Italian": "il gli della che di non per sono questo come puoi è anche nel fare una più ma ciao dei",
    "Portuguese": "o os as uma não para com você isso está como pode fazer por são mas em ao do da",
    "Dutch": "de het een en niet dat met voor van zijn kun je dit op ook naar maar hoe wat graag",
}
_VOCABULARY = {name: frozenset(words.split()) for name, words in _SMALL.items()}


def language(text: str) -> str | None:
    """The language of a text, told by its script or its small words; None when they do not tell."""
    letters = sum(char.isalpha() for char in text)
    for name, script in _SCRIPTS:
        if letters and len(script.findall(text)) > letters * (0.1 if name == "Japanese" else 0.4):
            return name
    words = SPOKEN.findall(text.lower().replace("’", "'"))
    hits = {name: sum(word in small for word in words) for name, small in _VOCABULARY.items()}
    (first, most), (_, second) = Counter(hits).most_common(2)
    return first if most > second and (most > 1 or len(words) <= 4) else None


def _languages(messages: Sequence[Spoken]) -> Iterator[str]:
    total = len(messages)
    found = Counter(name for each in messages if (name := language(each.own)) is not None)
    for at, (name, count) in enumerate(found.most_common(2)):
        if count >= max(SEVERAL, _ALSO * total):
            yield count_line(f"{'Also writes' if at else 'Writes'} {name}", count, total)


def _times(messages: Sequence[Spoken]) -> Iterator[str]:
    moments = [each.at for each in messages if each.at is not None]
    # The hours of one long evening are no habit.
    if len(moments) < LEAST or len({moment.date() for moment in moments}) < SEVERAL:
        return
    parts = Counter(max(each for each in _HOURS if each[0] <= moment.hour) for moment in moments)
    (start, part), count = parts.most_common(1)[0]
    if count > _MOSTLY * len(moments):
        yield count_line(f"Works mostly {part}, from {start} to {start + 6} o'clock", count, len(moments))
    free = sum(moment.weekday() >= _SATURDAY for moment in moments)
    if free > 0.25 * len(moments):
        yield count_line("Works at weekends too", free, len(moments))


def _sessions(messages: Sequence[Spoken]) -> Iterator[str]:
    sizes = Counter(each.session for each in messages)
    if len(sizes) >= SEVERAL:
        middle = int(median(sizes.values()))
        many = "1 message" if middle == 1 else f"{middle} messages"
        yield _over_all(f"Speaks {many} or fewer in half of {len(sizes)} sessions", len(messages))


# -------------------------------------------------------------------- what is named

# Names that are no plain words; those that are have a pattern of their own.
_TOOL_NAMES = {
    "Programming languages": """Python TypeScript JavaScript Rust Java Kotlin Ruby PHP SQL Bash Haskell Scala
        Elixir Lua Perl""",
    "Test tools": "pytest unittest tox nox jest vitest mocha playwright cypress selenium junit rspec phpunit",
    "Tools": """git docker kubectl terraform ansible uv pip poetry conda npm pnpm yarn cargo ruff mypy pyright
        eslint prettier tmux vim neovim emacs vscode postgres sqlite mysql redis kafka github gitlab jira
        grafana bazel cmake gradle maven webpack vite ripgrep fastapi django flask svelte pandas numpy
        pytorch""",
}
_PATTERNS = {
    "Python": r"\bpython\b|\w\.py\b",
    "TypeScript": r"\btypescript\b|\w\.tsx?\b",
    "JavaScript": r"\bjavascript\b|\w\.jsx?\b",
    "Rust": r"\brust\b|\w\.rs\b",
    "Ruby": r"\bruby\b|\w\.rb\b",
    "Go": r"\bgolang\b|\w\.go\b",
    "C++": r"(?<!\w)c\+\+|\w\.cpp\b",
    "C#": r"(?<!\w)c#",
    "make": r"`make\b|\bmake (?:test|build|install|all|lint|run|clean|check|deploy)\b|\bmakefile\b",
}
_GROUPS = {
    "Programming languages": (*_TOOL_NAMES["Programming languages"].split(), "Go", "C++", "C#"),
    "Test tools": (*_TOOL_NAMES["Test tools"].split(), "cargo test", "go test"),
    "Tools": (*_TOOL_NAMES["Tools"].split(), "make"),
}
_NOT = re.compile(
    r"(?:\b(?:not|never|instead of|without|rather than|no|avoid|nicht|kein\w*)|n't)\b[\w \t`'\"]{0,20}$",
    re.IGNORECASE,
)


def _names(messages: Sequence[Spoken]) -> Iterator[str]:
    for title, group in _GROUPS.items():
        found = Counter({name: _count_named(messages, _pattern(name)) for name in group})
        most = [(name, count) for name, count in found.most_common(_NAMED) if count >= SEVERAL]
        if most:
            listed = ", ".join(f"{name} {count}" for name, count in most)
            yield _over_all(f"{title} named most: {listed}", len(messages))


def _count_named(messages: Sequence[Spoken], name: re.Pattern[str]) -> int:
    """In how many messages a tool is named other than to say no to it; none if no is said as often."""
    named = [each for each in messages if name.search(each.text)]
    count = sum(_affirms(each.text, name) for each in named)
    return count if 2 * count > len(named) else 0


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS.get(name, rf"\b{re.escape(name)}\b"), re.IGNORECASE)


def _affirms(text: str, name: re.Pattern[str]) -> bool:
    """Whether a text names something other than to say no to it."""
    found = name.finditer(text)
    return any(not _NOT.search(text[max(match.start() - 40, 0) : match.start()]) for match in found)


# ------------------------------------------------------------ the draft

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
_LONGEST_QUOTE = 120
_QUOTES = 180  # characters of all on a line
_LONGEST_LINE = 240
_LEAST_WORDS = 3
_SHOWN_BY = 2  # messages
_ANSWER = 1500  # tokens

_QUOTE = re.compile("“([^”]*)”")
_SECTION = re.compile(r"(?m)^##[ \t]+Observed style[ \t#]*\r?$")
_ANY_HEADING = re.compile(r"(?m)^#{1,6}[ \t]")
_SIGNATURE = re.compile(r"<!--[ \t]*origin:[^\n]*-->[ \t]*")
_ADDRESS = re.compile(r"://|\bwww\.|@[\w-]+\.\w")


@dataclass(frozen=True, slots=True)
class Portrait:
    """What a model is asked for: statements that tell of a person, by number, those of one habit together."""

    groups: list[PlannedGroup] = field(default_factory=list)


class SampledStatement(NamedTuple):
    """Something a person said, word for word, and in which of the messages."""

    unit: TopicUnit
    text: str
    message: int


class HeardMessages(NamedTuple):
    """The messages of a person's that could be read, the newest session first, and what could not."""

    messages: tuple[Spoken, ...] = ()
    sessions: int = 0
    notes: tuple[str, ...] = ()


class ProfileDraft(NamedTuple):
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


def read_messages(home: Home, logs: Iterable[Log], *, imported: bool, zone: tzinfo | None) -> HeardMessages:
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
    return HeardMessages(tuple(found[:MESSAGES]), sessions, tuple(notes))


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
        elif isinstance(event, Said) and event.message.role is Role.USER and not is_aside(event.message):
            text = without_injected(event.message).text.replace(ASIDE, " ")[:_LOOKED_AT]
            own = signals.own_words(text).replace("’", "'")
            if own.strip() and not is_command(text):
                moment = clock.parse(event.message.time or event.time)
                yield Spoken(text, own, moment and moment.astimezone(zone), log.session)


# -------------------------------------------------------------------- drafting


def draft_profile(
    documents: Documents, told: HeardMessages, *, budget: int, model: Model | None = None
) -> ProfileDraft:
    """What the profile could say of these messages, as far as there is room beside what is there."""
    _, _, before = documents.find(pinned.PROFILE, scope=Scope.GLOBAL)
    found = ProfileDraft((), len(told.messages), told.sessions, told.notes, before=before)
    if len(told.messages) < LEAST:
        few = f"too few messages to draft from: {len(told.messages)}, and it takes {LEAST}"
        return found._replace(notes=(*told.notes, few))
    lines, notes = habit_lines(told.messages), [*told.notes]
    if model is not None:
        traits, why = _asked(model, told.messages, lines)
        lines, notes = [*traits, *lines], [*notes, *why]
    kept = _fitting(lines, budget - _taken("" if before is None else decode(before)))
    if len(kept) < len(lines):
        notes.append(f"{len(lines) - len(kept)} of {len(lines)} lines did not fit in {budget} characters")
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


def _asked(model: Model, messages: Sequence[Spoken], counted: Sequence[str]) -> tuple[list[str], list[str]]:
    """The lines that a model chose, and why others do not stand; one that fails leaves what was counted."""
    samples = sample_statements(messages)
    if not samples:
        return [], ["no message could be shown to a model"]
    units = [each.unit for each in samples]
    try:
        given = model.typed(
            rewrite.ask_about(units),
            Portrait,
            system=read_prompt(__package__, "profile"),
            limits=Limits(output=_ANSWER),
        ).value
    except ModelFailed as error:
        return [], [f"the model added nothing: {error}"]
    wrong = rewrite.find_problem(units, TopicPlan(given.groups), whole=False)
    if wrong:
        return [], [f"the model added nothing: its plan {wrong}"]
    return write_quotes(samples, given.groups[:_TRAITS], counted)


def sample_statements(messages: Sequence[Spoken]) -> list[SampledStatement]:
    """What was said in messages from the whole time: whole statements of one line, none with a secret."""
    found: list[SampledStatement] = []
    for at, each in enumerate(_spread([each for each in messages if _words(each.own) >= _LEAST_WORDS])):
        if secrets.find(each.text):
            continue
        time = clock.stamp(each.at) if each.at else None
        for unit in rewrite.split_units([Entry(each.own, time, Origin.USER)]):
            text = unit.text[unit.text.index(unit.parts[0]) :].rstrip()
            if unit.end <= _SAMPLE and _is_line(text):
                found.append(SampledStatement(unit, text, at))
    return found


def _spread(messages: Sequence[Spoken]) -> list[Spoken]:
    """As many as a model may see, from the whole time."""
    step = max(len(messages) / SAMPLES, 1.0)
    return [messages[int(at * step)] for at in range(min(len(messages), SAMPLES))]


def _is_line(text: str) -> bool:
    """Whether a statement can be quoted on a line."""
    fits = _words(text) >= _LEAST_WORDS and len(text) <= _LONGEST_QUOTE
    return fits and "\n" not in text and not _unfit(text)


class _Heard(NamedTuple):
    """The samples, what each tells of, which others deny it, and what was counted."""

    samples: Sequence[SampledStatement]
    topics: Sequence[frozenset[str]]
    opposed: Mapping[int, int]
    counted: Sequence[str]

    def says_same(self, at: int, other: int) -> bool:
        if at == other:
            return True
        one, two = self.samples[at].text, self.samples[other].text
        return bool(self.topics[at] & self.topics[other]) and similarity.same(one, two) is not None


def write_quotes(
    samples: Sequence[SampledStatement], groups: Iterable[PlannedGroup], counted: Sequence[str]
) -> tuple[list[str], list[str]]:
    """A line for each group, its statements word for word, and why others are left out.

    How many messages say it is counted here. What another message denies, or what was counted, is no habit.
    """
    opposed = conflict.find_opposed([each.text for each in samples])
    topics = [(meaning.read(each.text).everything - EMPTY) | _pairs(each.text) for each in samples]
    heard = _Heard(samples, topics, opposed, counted)
    total = len({each.message for each in samples})
    lines: list[str] = []
    notes: list[str] = []
    for group in groups:
        quoted, why = _quotable(heard, [number - 1 for number in group.statements])
        notes += why
        alike = [other for at in quoted for other in range(len(samples)) if heard.says_same(at, other)]
        shown = {samples[at].message for at in alike}
        if len(shown) >= _SHOWN_BY:
            title = rewrite.choose_heading(group.heading, [samples[at].unit for at in quoted]) or "Says"
            said = ", ".join(f"“{samples[at].text}”" for at in quoted)
            lines.append(count_line(f"{title}: {said}", len(shown), total))
        elif quoted:
            notes.append(f"left out “{samples[quoted[0]].text}”: one message is not a habit")
    return lines, notes


def _quotable(heard: _Heard, numbers: Iterable[int]) -> tuple[list[int], list[str]]:
    """Which statements of a group stand on its line, as far as there is room, and why others do not."""
    quoted: list[int] = []
    notes: list[str] = []
    room = _QUOTES
    for at in numbers:
        text = heard.samples[at].text
        wrong = _denied(heard, at)
        if not wrong and quoted and not heard.topics[at] & heard.topics[quoted[0]]:
            wrong = "it is about something else than its group"
        if wrong:
            notes.append(f"left out “{text}”: {wrong}")
        elif len(text) + 4 <= room and not any(heard.says_same(at, each) for each in quoted):
            quoted.append(at)
            room -= len(text) + 4
    return quoted, notes


def _denied(heard: _Heard, at: int) -> str:
    """What says the opposite of a statement; nothing when nothing does."""
    if at in heard.opposed:
        return f"“{heard.samples[heard.opposed[at]].text}” says the opposite"
    against = _counted_against(heard.samples[at], heard.counted)
    return f"the messages show: {against}" if against else ""


def _counted_against(said: SampledStatement, counted: Sequence[str]) -> str:
    """The counted line whose opposite a statement shows; nothing when there is none."""
    spoken = Spoken(said.text, said.text)
    for habit in HABITS:
        other = _OPPOSITE.get(habit.line)
        # An order or a question is how something is said, and not what is wanted.
        if other and habit.shows is not _orders and other != AXES[0].one and habit.shows(spoken):
            found = [line for line in counted if line.startswith((f"- {other} (", f"- {habit.line} in "))]
            return found[0][2:] if found else ""
    return ""


def _pairs(text: str) -> frozenset[str]:
    """Signs by twos, in scripts that do not part their words."""
    signs = re.findall("[\u0530-\uffff]{2,}", text)
    return frozenset(run[at : at + 2] for run in signs for at in range(len(run) - 1))


def _unfit(text: str) -> str:
    """Why a line has no place in a profile, whoever wrote it."""
    if visible(text) != text:
        return "contains invisible characters"
    if statements.find_links(text) or statements.find_markup(text) or _ADDRESS.search(text) or "<" in text:
        return "contains a link, an address or markup"
    if text.lstrip("- ").startswith(("#", "```", "~~~", "---", "|")):
        return "is more than a sentence"
    return "holds a secret" if secrets.find(text) else ""


# -------------------------------------------------------------------- keeping


def find_unshown(lines: Sequence[str], messages: Sequence[Spoken]) -> list[str]:
    """The lines that these messages do not show: neither counted in them, nor quoted from them."""
    counted = habit_lines(messages)
    samples = sample_statements(messages)
    numbers = {each.text: at for at, each in reversed([*enumerate(samples, 1)])}
    return [line for line in lines if line not in counted and not _is_quoted(line, samples, numbers, counted)]


def _is_quoted(
    line: str, samples: Sequence[SampledStatement], numbers: Mapping[str, int], counted: Sequence[str]
) -> bool:
    """Whether a line is what would be written for the statements that it quotes."""
    quotes = _QUOTE.findall(line)
    if not quotes or not numbers.keys() >= {*quotes}:
        return False
    group = PlannedGroup([numbers[text] for text in quotes], line[2:].partition(": “")[0])
    return line in write_quotes(samples, [group], counted)[0]


def _opposed(lines: Sequence[str]) -> str:
    """A line of which another says the opposite; nothing when there is none."""
    said = [line[2:].rpartition(" (")[0] for line in lines]
    found = [line for line in said if _OPPOSITE.get(line) in said]
    found += [said[at] for at in conflict.find_opposed(said)]
    return found[0] if found else ""


def keep_draft(
    documents: Documents, given: ProfileDraft, *, heard: Callable[[], Iterable[Sequence[Spoken]]] = tuple
) -> tuple[str, Told]:
    """Put a draft into the profile as one run, signed with what its keeper's word is worth.

    Through a person's door it is the person's word, since it was shown; through any other it is what it was
    made from, and waits until a person verifies it. So each of its lines must be shown by what was `heard`.
    """
    if not given.lines:
        raise UsageError("this draft has no lines", hint="draft one with `profile_draft` first")
    for line in given.lines:
        wrong = "has no count" if not COUNTED.fullmatch(line) else _unfit(line)
        if wrong or len(line) > _LONGEST_LINE:
            raise UsageError(f"a line of the draft cannot be saved: it {wrong or 'is too long'}")
    opposed = _opposed(given.lines)
    if opposed:
        raise UsageError(f"the draft says “{opposed}” and the opposite", hint="draft it again")
    if documents.caller.origin is not Origin.USER:
        unshown = [find_unshown(given.lines, messages) for messages in heard()]
        if all(unshown):
            raise UsageError(
                f"the messages do not show this line of the draft: {min(unshown, key=len)[0][2:]}"
                if unshown
                else "there are no messages that show this draft",
                hint="save what `draft_profile` returns, unchanged",
            )
    shelf, name, _ = documents.find(pinned.PROFILE, scope=Scope.GLOBAL)
    origin = Origin.USER if documents.caller.origin is Origin.USER else Origin.TOOL
    text = "" if given.before is None else decode(given.before)
    if origin is not Origin.USER and _is_a_persons(documents.home, text):
        raise NotVisible(
            "you already saved an observed style, which only you can replace",
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
