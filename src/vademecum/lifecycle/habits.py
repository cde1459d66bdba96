"""How somebody writes, counted: each habit is a line that says in how many messages it shows.

Pure: messages in, lines out; no model has a say in it, and no word of a message is repeated but the names of
well-known tools.
"""

from __future__ import annotations

import re
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from vademecum.knowledge.cues import LEADS, VERBS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

LEAST = 10  # messages: below it nothing is a habit
SEVERAL = 3  # messages that show one
_NAMED = 4  # names on one line
_SHORT, _LONG = 12, 40  # words
_MOSTLY = 0.5
_ALSO = 0.1
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


def lines(messages: Sequence[Spoken]) -> list[str]:
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


def counted(line: str, count: int, total: int) -> str:
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


def _said(patterns: str) -> Callable[[Spoken], bool]:
    """Whether one of these stands among a person's own words."""
    compiled = re.compile(_any(patterns), re.IGNORECASE)
    return lambda each: compiled.search(each.own) is not None


def _written(patterns: str) -> Callable[[Spoken], bool]:
    """Whether one of these stands anywhere in a message, letter by letter."""
    compiled = re.compile(_any(patterns), re.MULTILINE)
    return lambda each: compiled.search(each.text) is not None


def _orders(each: Spoken) -> bool:
    """Whether a message begins with what is to be done, after words like `ok` and `please`."""
    for word in re.findall(r"[^\W\d_][\w'-]*", each.own[:200]):
        lowered = word.lower()
        if lowered in VERBS:
            return True
        if lowered not in LEADS:
            return False
    return False


def _lower(each: Spoken) -> bool:
    return next((char.islower() for char in each.own if char.isalpha()), False)


def _open_ended(each: Spoken) -> bool:
    return each.own.rstrip()[-1:].isalnum()


def _confirms(each: Spoken) -> bool:
    words = re.findall(r"[^\W\d_]+", each.own.lower())
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
        _said(r"""
            \b(?:brief(?:ly)?|concise(?:ly)?|tl;?dr|keep it short|short answer)\b
            \b(?:less verbose|too (?:long|verbose))\b
            \bin (?:one|two|a few) (?:sentences?|lines?|words)\b
            \b(?:kurz|bref|brève(?:ment)?|breve)\b
        """),
    ),
    Habit(
        "Asks for detail, or for one step after the other",
        0.03,
        _said(r"""
            \b(?:in (?:more )?detail|detailed|step by step|thorough(?:ly)?|in depth|elaborate)\b
            \b(?:ausführlich|schritt für schritt|en détail|paso a paso)\b
        """),
    ),
    Habit(
        "Asks for reasons and explanations",
        0.1,
        _said(r"""
            \b(?:why|explain|how (?:does|do|did|come)|what does .{1,40} mean)\b
            \b(?:warum|wieso|erkläre?|pourquoi|explique|explica|por qué)\b
        """),
    ),
    Habit(
        "Asks for a plan before anything is changed",
        0.03,
        _said(r"""
            \b(?:plan first|(?:make|propose|write|show me) a plan|outline first|erst (?:einen )?plan)\b
            \bbefore (?:you )?(?:chang|cod|implement|writ|start|edit|touch)(?:e|ing)?\b
            \b(?:don't|do not) (?:change|code|edit|implement|touch) (?:anything|it yet|any)\b
        """),
    ),
    Habit(
        "Asks for tests",
        0.05,
        _said(r"""
            \b(?:add|write|run|with|needs?|missing|unit|failing|regression|update) (?:\w+ ){0,2}tests?\b
            \btest (?:it|this|that|coverage)\b
            \b(?:schreib|ergänze)\w* .{0,20}tests?\b
        """),
    ),
    Habit("Asks for commits", 0.04, _said(r"\b(?:commit|push|open a (?:pr|pull request)|committe)\b")),
    Habit(
        "Corrects what was done or understood",
        0.05,
        _said(r"""
            ^\s*(?:no|nope|nein|non)\b[,.! ]
            \bthat(?:'s| is) (?:wrong|not)\b|\bnot what i\b|\bi (?:meant|said|asked)\b
            \byou (?:forgot|missed|broke|misunderstood|ignored)\b|\b(?:undo|revert) (?:that|this|it)\b
            \b(?:das ist falsch|so nicht|ich meinte)\b
        """),
    ),
    Habit(
        "Says what must not be done",
        0.05,
        _said(r"""
            \b(?:don't|do not|never|must not|no more|stop \w+ing|avoid)\b
            \b(?:nicht|niemals|keine?n?|ne .{1,20} pas|nunca)\b
        """),
    ),
    Habit(
        "Gives reasons",
        0.08,
        _said(r"\b(?:because|since (?:we|i|it|the)|so that|otherwise|weil|damit|parce que|porque)\b"),
    ),
    Habit("Gives orders rather than asking", 0.4, _orders),
    Habit("Asks questions", 0.3, _said(r"[?？](?:\s|$)")),
    Habit("Confirms in a word or two", 0.1, _confirms),
    Habit(
        "Says please",
        0.1,
        _said(r"""
            \b(?:please|pls|plz|bitte|s'il (?:te|vous) pla[iî]t|svp|por favor|per favore|alsjeblieft)\b
            お願いします|请|пожалуйста
        """),
    ),
    Habit(
        "Says thanks",
        0.08,
        _said(r"""
            \b(?:thanks?|thx|ty|cheers|danke\w*|merci|gracias|grazie|obrigad[oa]|bedankt)\b
            ありがとう|谢谢|спасибо
        """),
    ),
    Habit(
        "Opens with a greeting",
        0.08,
        _said(r"""
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
    Habit("Uses exclamation marks", 0.1, _said(r"[^\s!]!+(?:\s|$)")),
    Habit(
        "Writes words in capitals for weight",
        0.04,
        _written(r"\b(?:NOT|NEVER|ALWAYS|MUST|ALL|ONLY|STOP|DON'T|IMPORTANT|EVERY|NICHT|NO)\b(?=.*[a-z])"),
    ),
    Habit("Begins in lower case", 0.4, _lower),
    Habit("Leaves out the full stop at the end", 0.5, _open_ended),
)


def _counted(messages: Sequence[Spoken]) -> Iterator[str]:
    total = len(messages)
    for habit in HABITS:
        count = sum(habit.shows(each) for each in messages)
        if count >= max(SEVERAL, habit.share * total):
            yield counted(habit.line, count, total)


# -------------------------------------------------------------------- how much, when, and in which language


def _length(messages: Sequence[Spoken]) -> str:
    middle = int(median(_words(each.text) for each in messages))
    kind = "short" if middle <= _SHORT else "long" if middle > _LONG else "of middling length"
    words = "1 word" if middle == 1 else f"{middle} words"
    return _over_all(f"Writes messages that are {kind}: half of them have {words} or fewer", len(messages))


def _words(text: str) -> int:
    """Words, and for scripts that do not part them, signs by twos."""
    signs = len(_SIGNS.findall(text))
    return len(re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", _SIGNS.sub(" ", text))) + (signs + 1) // 2


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
    words = re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)?", text.lower().replace("’", "'"))
    hits = {name: sum(word in small for word in words) for name, small in _VOCABULARY.items()}
    (first, most), (_, second) = Counter(hits).most_common(2)
    return first if most > second and (most > 1 or len(words) <= 4) else None


def _languages(messages: Sequence[Spoken]) -> Iterator[str]:
    total = len(messages)
    found = Counter(name for each in messages if (name := language(each.own)) is not None)
    for at, (name, count) in enumerate(found.most_common(2)):
        if count >= max(SEVERAL, _ALSO * total):
            yield counted(f"{'Also writes' if at else 'Writes'} {name}", count, total)


def _times(messages: Sequence[Spoken]) -> Iterator[str]:
    moments = [each.at for each in messages if each.at is not None]
    # The hours of one long evening are no habit.
    if len(moments) < LEAST or len({moment.date() for moment in moments}) < SEVERAL:
        return
    parts = Counter(max(each for each in _HOURS if each[0] <= moment.hour) for moment in moments)
    (start, part), count = parts.most_common(1)[0]
    if count > _MOSTLY * len(moments):
        yield counted(f"Works mostly {part}, from {start} to {start + 6} o'clock", count, len(moments))
    free = sum(moment.weekday() >= _SATURDAY for moment in moments)
    if free > 0.25 * len(moments):
        yield counted("Works at weekends too", free, len(moments))


def _sessions(messages: Sequence[Spoken]) -> Iterator[str]:
    sizes = Counter(each.session for each in messages)
    if len(sizes) >= SEVERAL:
        middle = int(median(sizes.values()))
        many = "1 message" if middle == 1 else f"{middle} messages"
        yield _over_all(f"Speaks {many} or fewer in half of {len(sizes)} sessions", len(messages))


# -------------------------------------------------------------------- what is named

# Names that are no plain words; those that are have a pattern of their own.
_NAMES = {
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
    "Programming languages": (*_NAMES["Programming languages"].split(), "Go", "C++", "C#"),
    "Test tools": (*_NAMES["Test tools"].split(), "cargo test", "go test"),
    "Tools": (*_NAMES["Tools"].split(), "make"),
}
_NOT = re.compile(
    r"(?:\b(?:not|never|instead of|without|rather than|no|avoid|nicht|kein\w*)|n't)\b[\w \t`'\"]{0,20}$",
    re.IGNORECASE,
)


def _names(messages: Sequence[Spoken]) -> Iterator[str]:
    for title, group in _GROUPS.items():
        found = {name: sum(_affirms(each.text, _pattern(name)) for each in messages) for name in group}
        most = [(name, count) for name, count in Counter(found).most_common(_NAMED) if count >= SEVERAL]
        if most:
            listed = ", ".join(f"{name} {count}" for name, count in most)
            yield _over_all(f"{title} named most: {listed}", len(messages))


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS.get(name, rf"\b{re.escape(name)}\b"), re.IGNORECASE)


def _affirms(text: str, name: re.Pattern[str]) -> bool:
    """Whether a text names something other than to say no to it."""
    found = name.finditer(text)
    return any(not _NOT.search(text[max(match.start() - 40, 0) : match.start()]) for match in found)
