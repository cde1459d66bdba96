"""Find the turns of a text that surely is a conversation, such as an exported chat.

A wrong guess would cut a note into lines, so several signs must agree: all speakers are written in one form,
at least two of them return, their turns make up nearly the whole text, and they ask, or say "I" and "you".
Lists of terms, questions with answers, minutes and logs lack one of these signs. This module knows text
alone.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from vademecum.index import words
from vademecum.lazy import lazy_pattern
from vademecum.text import fences

if TYPE_CHECKING:
    from collections.abc import Sequence

FEWEST = 4  # turns of a conversation
COVERED = 0.8  # the share of the lines that belong to turns
_ADDRESSED = {True: 0.2, False: 0.25}  # the share of turns with a sign of talk; roles are a sign of their own
_SAMPLED = 100  # turns that are read for signs of talk
_READ = 2_000  # characters of a turn that are read
_SENTENCE, _WORD_OR_TWO = 200, 15  # characters
_DISTINCT = 0.8  # the share of sentences that are said once
_LONGEST_TURN = 0.5  # the share of the lines that one turn of named people may have at most
_FEW_LINES = 20  # a text with fewer lines may have a longer turn
_PREAMBLE = 30  # lines above the first turn that may say that this is no conversation

_NAME = r"[^\W\d_][^\n:：<>\[\]|=*#/\\(){}\"]{0,39}?"
_ANY_NAME = r"[^\s:：<>\[\]][^\n:：<>\[\]]{0,39}?"
_DAY = r"(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|(?:Today|Yesterday)(?: at)?)"
_TIME = (
    rf"(?:\[?(?:{_DAY}[,T]?[ ]*)?\d{{1,2}}[:.]\d{{2}}(?:[:.]\d{{2}}(?:[.,]\d+)?)?"
    r"(?:[ \u202f]?[APap]\.?[Mm]\.?)?(?:Z|[+-]\d\d:?\d\d)?\]?)"
)
_BOLD = r"(?:_?\*\*|__|\*)?"
_BOLD_END = r"(?:\*\*_?|__|\*)?"
_ICON = r"(?:[^\w\s\n*_#<>\[\](){}|`~'\"=+.,:;!?/\\-]+[ ]*)?"
# Each form has the speaker in its first group; `timed` forms let a speaker have any name.
_FORMS = {
    "said": rf"^{_BOLD}{_ICON}({_NAME}){_BOLD_END}(?:[ ][\[(]{_TIME}[\])])?(?::{_BOLD_END}(?=\s|\Z)|：)",
    "timed": rf"^\u200e?{_TIME}[ ]*[-–—]?[ ]*{_BOLD}({_ANY_NAME}){_BOLD_END}(?::{_BOLD_END}(?=\s|\Z)|：)",
    "nick": rf"^(?:{_TIME}[ ]+)?<[ @+%&~]?({_ANY_NAME})>(?=[ ])",
    "heading": rf"^(?:#{{1,6}}[ ]+{_BOLD}|{_BOLD}(?<=[*_])){_ICON}(?:Turn \d+[:,]? )?({_NAME}){_BOLD_END}"
    rf"(?:[ ]said)?(?:[ ]*[-–—,(\[]*[ ]*{_TIME}[)\]]?)?:?{_BOLD_END}[ ]*#*[ ]*$",
    "above": rf"^{_BOLD}({_ANY_NAME}){_BOLD_END}(?:,[ ]|[ ]+[-–—][ ]+|[ ]+)\[?\(?{_TIME}\)?\]?[ ]*$",
}
_PATTERNS = {name: lazy_pattern(form, re.MULTILINE) for name, form in _FORMS.items()}
_HEADING = lazy_pattern(r"^ {0,3}(#{1,6})[ \t]", re.MULTILINE)

# Speakers of a conversation with a program, by the role that ranking knows.
_ROLES = {
    **dict.fromkeys("user human me you prompter nutzer benutzer utilisateur usuario utente".split(), "user"),
    **dict.fromkeys(
        """assistant ai agent bot model chatgpt gpt gpt-4 gpt-4o gpt-5 claude gemini copilot codex cursor llm
        chatbot asistente assistente""".split(),
        "assistant",
    ),
    **dict.fromkeys("system tool".split(), ""),
    "用户": "user",
    "助手": "assistant",
    "пользователь": "user",
    "ассистент": "assistant",
    "ユーザー": "user",
    "アシスタント": "assistant",
}
# What stands before a colon in lists of facts, in forms and in logs.
_LABELS = words.LABELS | frozenset(
    """abbreviation acronym added address advantage advantages after aliases also answer antonym api area
    author background before benefit benefits bugfix build calls category cause class code color colour
    comment comments commit con cons contact country critical customer-id day debug definition
    deliverable department depends deprecated do don't dose duration email english ergebnis error
    expected explanation fatal field file finding first fixed format french frequency front function
    german given goal hint id improved incident ingredients installation item job keyword kind label
    language last left level license line location login mail measure meaning module month mood need
    notice number object observed off origin page parameter parameters part participants password person
    phone place platform pre present price priority pro problem product project pronunciation pros
    purpose quantity question reported reporter requirement response returns returned reviewer right
    role room runtime second security see severity shall should spanish speaker stage state subject
    success synonym target term test then theme third threat time to topic trace translation trigger
    type unit user-agent verdict vendor verb warn week when where who word year antwort frage hinweis
    warnung fehler begriff bedeutung beispiel thema datum ort zeit beschluss aufgabe réponse terme
    définition respuesta pregunta término definición ejemplo domanda risposta вопрос
    ответ термин определение пример 問 答 问 質問 回答 问题 答案 用語 意味""".split()
)
_NO_TALK = lazy_pattern(
    r"\b(?:faqs?|frequently asked|q ?& ?a|questions and answers|glossary|minutes of|minutes|agenda|attendees"
    r"|apologies|absent|action items|stand-?ups?|retrospective|meeting notes|change ?log|release notes"
    r"|protokoll|tagesordnung|teilnehmer|glossar|compte[- ]rendu|ordre du jour|glossaire|actas?|glosario"
    r"|verbale|протокол|глоссарий|議事録|用語集|会议纪要|术语)\b|^(?:present|from|subject|host|date)[ ]*:",
    re.IGNORECASE | re.MULTILINE,
)
_TALK = lazy_pattern(
    r"[?？؟]|(?<![\w/.-])(?:i|me|my|mine|we|our|ours|you|your|yours|let's|hi|hello|hey|thanks|thank|lol|haha"
    r"|ich|mir|mich|mein|meine|du|dir|dich|wir|uns|euch|hallo|danke|je|tu|vous|nous|moi|toi|merci|bonjour|salut"
    r"|yo|tú|usted|nosotros|hola|gracias|io|noi|voi|ciao|grazie|eu|você|vocês|obrigado|obrigada|ik|jij|wij|dank"
    r"|я|ты|вы|мы|меня|тебя|мне|тебе|вас|вам|нам|привет|спасибо|cześć|dzięki|mnie|ciebie|sen|siz|merhaba)"
    r"(?![\w/-])|[我你您咱私僕俺]|です|ます|あなた|ください|[나저]는|습니|세요|أنا|أنت|मैं|आप",
    re.IGNORECASE,
)
_PARTICLES = frozenset("van von der den de da di del la le bin al el the of dos zu ter".split())


class SpokenLines(NamedTuple):
    """The lines of a turn, counted from 1, and who says them; None for lines between turns."""

    first: int
    last: int
    speaker: str | None


class _Opening(NamedTuple):
    """The beginning of a turn: its line, where line and text begin, and its speaker in lower case."""

    line: int
    at: int
    body: int
    speaker: str


def find_turns(text: str) -> list[SpokenLines]:
    """Return the turns of a conversation and the lines between them, in order; [] for any other text.

    The lines of the text must end with a line feed alone.
    """
    prose: str | None = None
    if text.count("\n") < FEWEST - 1:
        return []
    for form, pattern in _PATTERNS.items():
        if not _may_hold(form, text) or not _has_enough(pattern, text):
            continue
        prose = fences.blank(text) if prose is None else prose
        found = _turns_of_form(form, pattern, prose)
        if found:
            return found
    return []


def _may_hold(form: str, text: str) -> bool:
    """Return whether a text can have turns of this form; most notes lack a character that the form needs."""
    if form == "nick":
        return "<" in text and "> " in text
    if form == "heading":
        return "#" in text or "**" in text or "__" in text
    return ":" in text or "：" in text


def _has_enough(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether as many lines begin with a speaker as a conversation needs.

    Only the beginnings of lines are tried: to search a long line for a beginning takes ten times as long.
    """
    found = at = 0
    while True:
        found += pattern.match(text, at) is not None
        at = text.find("\n", at) + 1
        if not at or found == FEWEST:
            return found == FEWEST


def _turns_of_form(form: str, pattern: re.Pattern[str], text: str) -> list[SpokenLines]:
    openings, others = _openings(pattern, text)
    counts = Counter(each.speaker for each in openings)
    # Of each role, its most frequent name: an answer may have lines such as "Model: …" of its own.
    roles = {_ROLES[name]: name for name, count in reversed(counts.most_common()) if name in _ROLES}
    if all(counts[roles.get(role, "")] > 1 for role in ("user", "assistant")):
        by_role = [each for each in openings if each.speaker in roles.values()]
        return _checked(text, by_role, roles=True)
    if form == "heading":
        return []  # headings that return are those of a manual, unless they are roles
    returning = [each for each in openings if counts[each.speaker] > 1]
    if len(returning) < COVERED * (len(openings) + others) or _is_form(returning):
        return []
    return _checked(text, returning, roles=False)


def _openings(pattern: re.Pattern[str], text: str) -> tuple[list[_Opening], int]:
    """Return the lines that begin with a speaker, and how many begin with something else in that form."""
    found = []
    others = 0
    line, at = 1, 0
    for match in pattern.finditer(text):
        name = " ".join(match[1].split()).strip("*_ ")
        if not _is_name(name, free=pattern is not _PATTERNS["said"]):
            others += 1
            continue
        line, at = line + text.count("\n", at, match.start()), match.start()
        found.append(_Opening(line, match.start(), match.end(), name.lower()))
    return found, others


def _is_name(name: str, *, free: bool) -> bool:
    """Return whether this can be the name of a speaker; `free` names need no capital letters."""
    small = name.lower()
    if small in _ROLES:
        return True
    parts = name.split()
    if not parts or len(name) < 2 or len(parts) > 4:
        return False
    if any(each.strip(".,-").lower() in _LABELS for each in (small, parts[0], parts[-1])):
        return False
    if free:
        return True
    return all(part[0].isupper() or part in _PARTICLES or part.lower() == part.upper() for part in parts)


def _is_form(openings: Sequence[_Opening]) -> bool:
    """Return whether three or more names always recur in the same order, as the fields of a form do."""
    names = [each.speaker for each in openings]
    period = len(set(names))
    return period > 2 and all(one == other for one, other in zip(names, names[period:], strict=False))


def _checked(text: str, openings: list[_Opening], *, roles: bool) -> list[SpokenLines]:
    """Return the turns that these openings make; [] unless the text surely is a conversation.

    With `roles`, the speakers are user and assistant, and fewer signs of a conversation are needed.
    """
    counts = Counter(each.speaker for each in openings)
    if len(openings) < FEWEST or sum(count > 1 for count in counts.values()) < 2:
        return []
    above = text[: openings[0].at]
    if _NO_TALK.search("\n".join(above.split("\n")[-_PREAMBLE:])):
        return []
    found = _with_gaps(text, openings, above, roles=roles)
    lines = text.split("\n")
    filled = [0]
    for line in lines:
        filled.append(filled[-1] + bool(line and not line.isspace()))
    sizes = [filled[each.last] - filled[each.first - 1] for each in found if each.speaker is not None]
    if sum(sizes) < COVERED * filled[-1]:
        return []
    if not roles and filled[-1] > _FEW_LINES and max(sizes) > _LONGEST_TURN * filled[-1]:
        return []
    return found if _is_talk(text, openings, roles=roles) else []


def _with_gaps(text: str, openings: list[_Opening], above: str, *, roles: bool) -> list[SpokenLines]:
    """Return the turns and the lines between them, in order.

    A turn ends at the next turn, or at a heading that cannot be part of what was said. With `roles`, a turn
    may have headings below those above the first turn.
    """
    total = text.count("\n") + (not text.endswith("\n"))
    found = [SpokenLines(1, openings[0].line - 1, None)] if openings[0].line > 1 else []
    levels = [len(match[1]) for match in _HEADING.finditer(above)]
    # An answer of a program has headings of its own, below that of the file; behind the last answer, a
    # heading of the highest level is one of the file.
    deepest = min(levels, default=0) if roles else 6
    starts = {each.at for each in openings}
    breaks = [
        match.start()
        for match in _HEADING.finditer(text)
        if match.start() not in starts and len(match[1]) <= (deepest or (match.start() > openings[-1].at))
    ]
    at = 0
    ends = [*(each.at for each in openings[1:]), len(text)]
    for opening, end in zip(openings, ends, strict=True):
        last = total if end == len(text) else opening.line + text.count("\n", opening.at, end) - 1
        while at < len(breaks) and breaks[at] < opening.at:
            at += 1
        broken = breaks[at] if at < len(breaks) and breaks[at] < end else None
        speaker = _ROLES.get(opening.speaker) or opening.speaker
        if broken is None:
            found.append(SpokenLines(opening.line, last, speaker))
            continue
        line = opening.line + text.count("\n", opening.at, broken)
        found += [SpokenLines(opening.line, line - 1, speaker), SpokenLines(line, last, None)]
    return found


def _is_talk(text: str, openings: list[_Opening], *, roles: bool) -> bool:
    """Return whether enough turns ask or address somebody, from two speakers at least without `roles`.

    Without `roles`, a text that often repeats whole sentences is no talk: programs do that in a log, but
    people seldom do.
    """
    talking: set[str] = set()
    count = 0
    sample = openings[:_SAMPLED]
    said = [text[each.body : each.body + _SENTENCE].split("\n", 1)[0].strip() for each in sample]
    sentences = [each for each in said if len(each) > _WORD_OR_TWO]
    if not roles and len(set(sentences)) < _DISTINCT * len(sentences):
        return False
    for one, following in pairwise([*sample, None]):
        assert one is not None
        end = len(text) if following is None else following.at
        if _TALK.search(text, one.body, min(end, one.body + _READ)):
            talking.add(one.speaker)
            count += 1
            if len(talking) >= (1 if roles else 2) and count >= _ADDRESSED[roles] * len(sample):
                return True
    return False
