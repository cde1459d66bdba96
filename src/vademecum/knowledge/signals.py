"""Find statements worth saving in notes, and in messages that are not English, by words alone.

Proposes and never saves. A text is split into sentences; quoted, pasted and generated text is left out.
Cues in a sentence speak for a kind of statement or against saving the sentence, and only a clear sentence
is proposed: a wrong memory costs more than a sentence that is said again. The cues are data:
`signal_phrases.txt`. Messages in English are read by `judge.py`.
"""

from __future__ import annotations

import math
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from vademecum.knowledge import typed
from vademecum.knowledge.judge import MOST, DeclineReason, Signal, SignalKind, SignalReading
from vademecum.text import SPOKEN, secrets, sentence_spans, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

THRESHOLD = 1.7
LONGEST = 600  # characters of a sentence; a longer one is no statement
_SENTENCES = 400  # of a message: people write before a paste and after it, so both ends are read


class UserSentence(NamedTuple):
    """A sentence of the user's, and its position in the message."""

    text: str
    masked: str  # as long, in lower case, without what is quoted in it
    start: int
    end: int


class WeighedSentence(NamedTuple):
    """A sentence with the cues for and against saving it."""

    sentence: UserSentence
    kinds: dict[SignalKind, float]
    reasons: dict[DeclineReason, float]
    words: dict[
        SignalKind | DeclineReason, tuple[str, str]
    ]  # what the strongest cue means, and the words it found


class Mood(NamedTuple):
    """How many sentences of a message doubt, ask or speculate; one such sentence casts doubt on all the
    others.
    """

    sentences: int
    uncertain: int
    asking: int
    speculating: int
    passing: int


def read_cues(text: str) -> SignalReading:
    """Return the sentences of a note that are worth saving by their cues, or why none is."""
    weighed = [weigh(each) for each in split_sentences(text)]
    mood = read_mood(weighed)
    found: list[tuple[float, Signal]] = []
    hidden: list[secrets.Secret] | None = None  # looked for in the whole text, once there is what may show it
    for at, each in enumerate(weighed):
        value = score(each, mood)
        if value < THRESHOLD:
            continue
        start, end = statement_span(at, weighed)
        words = " ".join(visible(text[start:end]).split())
        hidden = secrets.find(text) if hidden is None else hidden
        if any(start < one.end and one.start < end for one in hidden) or secrets.find(words):
            continue
        kind = _kind_in_place(at, weighed, joined=end > each.sentence.end)
        found.append((value, Signal(kind, words, _confidence(value), _why(each, kind))))
    if not found:
        return (
            _declined(weighed)
            if hidden is None
            else SignalReading((), DeclineReason.SECRET, "holds a secret")
        )
    found.sort(key=lambda pair: -pair[0])
    once = {signal.text: signal for _, signal in reversed(found)}
    return SignalReading(tuple(reversed(once.values()))[:MOST])


# ---------------------------------------------------------------- whose words, and which

_QUOTED = re.compile(
    r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|«[^»\n]{1,300}»|„[^“”\n]{1,300}[“”]|「[^」\n]{1,300}」"
)
_CODE = re.compile(r"`[^`\n]{1,300}`")


def split_sentences(text: str) -> list[UserSentence]:
    """Return the user's own sentences; of a long message only some from the beginning and the end."""
    own = typed.own_words(text)
    masked = _QUOTED.sub(_blur, _CODE.sub(_blur, own)).replace("’", "'").replace("‘", "'")
    lowered = masked.lower()
    if len(lowered) != len(masked):  # a few letters grow when they are lowered, and places would shift
        lowered = "".join(small if len(small := char.lower()) == 1 else char for char in masked)
    found = [
        UserSentence(text[start:end], lowered[start:end], start, end)
        for start, end in _spans(lowered)
        if end - start <= LONGEST
    ]
    half = _SENTENCES // 2
    return found if len(found) <= _SENTENCES else [*found[:half], *found[-half:]]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    for start, end in sentence_spans(text, lines=True):
        begun = end - len(text[start:end].lstrip(" \t\n-*•·"))
        if begun < end:
            yield begun, end


def _blur(match: re.Match[str]) -> str:
    """Return a replacement for a quotation: as many letters, without a meaning."""
    return f"{match[0][0]}{'x' * (len(match[0]) - 2)}{match[0][-1]}"


# ---------------------------------------------------------------- weighing

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# What names something of its own: a number, a path, a file, an acronym, a capital within a sentence.
_SPECIFIC = re.compile(
    r"\d|`|[\w-]/[\w-]|\w\.(?:md|py|ts|tsx|js|go|rs|c|json|ya?ml|toml|sql|sh|txt)\b"
    r"|\b[A-Z]{2,}\b|(?<=[a-zäöüß,] )[A-ZÄÖÜ][a-zäöü]|\"\w"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million)\b"
)
_NOUNISH = re.compile(
    r"(?:is|are|was|were|has|have|had|will|can|does|do|gets?|goes|lives?|runs?|uses?|sits?|must|never|always|comes?)$"
)
# What tells of this hour rather than of how things are: about the speaker, the listener, or "it".
_EPISODE = re.compile(
    r"(?:i|you|he|she|thanks|that|it|when i|by the way|as an?|ich|du"
    r"|das (?:ist|war|wars|sind|hat|hatte|geht|ging|klappt\w*|sieht|sah|macht|passt\w*|hilft|kann|wird|muss"
    r"|soll|funktioniert\w*|stimmt|reicht|heißt|klingt|dauert|liegt daran|kommt davon|ding)"
    r"|this(?! (?:repo|repository|project|service|package|code ?base|module|library|app|team|company)\b))\b"
)
_POINTS_BACK = re.compile(r"(?:it|they|that|those|this|he|she|its)\b")
_DENIES = re.compile(r"\bnot\b|n't\b")
_GOES_ON = re.compile(r"(?:it|they|its)\b")
_POLITE = re.compile(r"(?:\w+,? )?(?:can|could|would|will) (?:you|u)\b")
_WISH = re.compile(
    r"(?:\w+,? )?(?:(?:can|could|would|will) (?:you|u)|(?:kannst|könntest|würdest|magst) du) "
    r"(?:(?:please|pls|plz|kindly|bitte|be so kind (?:and|as to)) )*(.+)"
)
_FOR_GOOD = re.compile(
    r"\b(?:always|never|in general|generally|from now on|in (?:the )?future|going forward|every time"
    r"|by default|immer|nie|künftig|in zukunft|ab jetzt|ab sofort|grundsätzlich|generell)\b"
)
_PAUSE = re.compile(r"[,;:] | - ")
_TAG = re.compile(
    r"(?:, ?(?:right|correct|no|yes|eh|huh|oder|ne|non|verdad"
    r"|(?:is|are|do|does|did|was|were|has|have|ca|wo)n't \w+)"
    r"| or not| oder nicht)[.!]*$"
)
_BUT = re.compile(r"[,;.]? (?:but|aber|pero|mais) ")
_PASTED = 12  # sentences, from which on a message is a document more often than a statement


class Cue(NamedTuple):
    """Phrases that all speak for one kind of statement, or all against saving a sentence."""

    side: SignalKind | DeclineReason
    weight: float
    why: str
    opening: bool  # only at the beginning of a sentence, after words like "ok" and "so"
    phrasings: tuple[str, ...]


_HEADER = re.compile(r"\[(\w+)(?: ([\d.]+)( opening)?\] (.+)|\])$")
_NAME = re.compile(r"@[A-Z]+")
_DEFINED = re.compile(r"@([A-Z]+) = (.+)$")


@cache
def read_phrases() -> tuple[tuple[Cue, ...], dict[str, tuple[str, ...]]]:
    """Return the cues in `signal_phrases.txt`, and the other word lists of the file by name."""
    text = resources.files(__package__).joinpath("signal_phrases.txt").read_text(encoding="utf-8")
    defined: dict[str, str] = {}
    sections: list[tuple[re.Match[str], list[str]]] = []
    for line in text.splitlines():
        if header := _HEADER.match(line):
            sections.append((header, []))
        elif named := _DEFINED.match(line):
            defined[f"@{named[1]}"] = named[2]
        elif line and not line.startswith("#"):
            sections[-1][1].append(_NAME.sub(lambda name: defined[name[0]], line))
    cues = tuple(_cue(header, tuple(lines)) for header, lines in sections if header[2])
    return cues, {header[1]: tuple(lines) for header, lines in sections if not header[2]}


def _cue(header: re.Match[str], lines: tuple[str, ...]) -> Cue:
    name, weight, opening, why = header.groups()
    side = SignalKind(name) if name in set(SignalKind) else DeclineReason(name)
    return Cue(side, float(weight), why, opening is not None, lines)


@cache
def read_words(name: str) -> frozenset[str]:
    """Return a word list of `signal_phrases.txt`: `verbs` open a request, `leads` open any
    spoken sentence.
    """
    return frozenset(" ".join(read_phrases()[1][name]).split())


@cache
def _table() -> tuple[tuple[Cue, re.Pattern[str]], ...]:
    return tuple((cue, _compiled(cue.phrasings)) for cue in read_phrases()[0])


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return _compiled(read_phrases()[1][name])


def _compiled(phrasings: tuple[str, ...]) -> re.Pattern[str]:
    any_of = "|".join(phrasings).replace("~?", "~").replace("~", "'?")
    if _CJK.search(any_of):
        return re.compile(any_of)
    return re.compile(rf"(?:(?<![\w'])|(?=,))(?:{any_of})(?!(?<=[a-z])[a-z])")


def weigh(sentence: UserSentence) -> WeighedSentence:
    """Return a sentence with the weights of the cues in it.

    Where the part behind a "but" is clear, that part counts: "a mock is fine i guess, but I'd rather not".
    """
    whole = _weigh(sentence, sentence.masked)
    match = _BUT.search(sentence.masked)
    if match is None or not whole.reasons:
        return whole
    after = _weigh(sentence, sentence.masked[match.end() :])
    return after if not after.reasons and max(after.kinds.values(), default=0.0) >= 4 else whole


def _weigh(sentence: UserSentence, sentence_text: str) -> WeighedSentence:
    sentence_text = _without_request(sentence_text)
    rest = _after_leads(sentence_text)
    kinds: dict[SignalKind, float] = {}
    reasons: dict[DeclineReason, float] = {}
    words: dict[SignalKind | DeclineReason, tuple[str, str]] = {}
    strongest: dict[SignalKind | DeclineReason, float] = {}

    def count(side: SignalKind | DeclineReason, weight: float, why: str, found: str) -> None:
        best = strongest.get(side, 0.0)
        total = max(best, weight) + 0.3 * min(best, weight)
        if isinstance(side, SignalKind):
            kinds[side] = total
        else:
            reasons[side] = total
        if weight > best:
            strongest[side], words[side] = weight, (why, found)

    for cue, pattern in _table():
        match = pattern.match(rest) if cue.opening else pattern.search(sentence_text)
        if match:
            count(cue.side, cue.weight, cue.why, match[0])
    if _is_question(sentence_text, rest):
        count(DeclineReason.QUESTION, 20, "asks", rest[:20])
    elif (verb := _request(rest)) is not None:
        clear = _is_lasting(rest, kinds, words)  # "always write tests" asks for more than one thing
        count(DeclineReason.REQUEST, 1.0 if clear else 3.5, "asks for one thing", verb)
    elif _is_statement(rest):
        count(SignalKind.FACT, 0.7 if _EPISODE.match(rest) else 1.75, "states a fact", "")
        if _SPECIFIC.search(sentence.text):
            count(SignalKind.FACT, 1.0, "names something", "")
    if len(SPOKEN.findall(rest)) < 3 and not _CJK.search(rest):
        count(DeclineReason.CHAT, 4, "says too little", rest[:20])
    return WeighedSentence(sentence, kinds, reasons, words)


def score(weighed: WeighedSentence, mood: Mood) -> float:
    """Return how clearly a sentence is worth saving, lowered by doubts and questions in the whole message."""
    if not weighed.kinds:
        return -math.inf
    best, *others = sorted(weighed.kinds.values(), reverse=True)
    against = sorted(weighed.reasons.values(), reverse=True)
    value = best + 0.25 * sum(others)
    if against:
        value -= against[0] + 0.3 * sum(against[1:])
    own = read_mood([weighed])
    value -= 2.5 * (mood.uncertain > own.uncertain)
    value -= 1.0 * (mood.asking > own.asking)
    value -= 1.0 * (mood.speculating > own.speculating)
    value -= 0.5 * (mood.passing > own.passing)
    return value - 1.5 * (mood.sentences > _PASTED)


def read_mood(message: Sequence[WeighedSentence]) -> Mood:
    """Return how many sentences of a message doubt, ask, speculate or speak only of the moment."""

    def count(reason: DeclineReason) -> int:
        return sum(each.reasons.get(reason, 0) >= 5 for each in message)

    asking = sum(
        DeclineReason.QUESTION in each.reasons and not _is_polite(each.sentence.masked) for each in message
    )
    return Mood(
        len(message),
        count(DeclineReason.UNCERTAIN),
        asking,
        count(DeclineReason.SPECULATION),
        count(DeclineReason.TRANSIENT),
    )


def kind_of(weighed: WeighedSentence) -> SignalKind:
    """Return the kind of statement with the highest weight; of equal weights the most specific kind."""
    order = [
        SignalKind.CORRECTION,
        SignalKind.DECISION,
        SignalKind.PREFERENCE,
        SignalKind.RULE,
        SignalKind.FACT,
    ]
    return max(weighed.kinds, key=lambda kind: (weighed.kinds[kind], -order.index(kind)))


def _after_leads(sentence_text: str) -> str:
    """Return a sentence without its opening words, such as "ok so"."""
    for _ in range(6):
        match = SPOKEN.match(sentence_text)
        if match is None or match[0].strip("'") not in read_words("leads"):
            break
        rest = sentence_text[match.end() :].lstrip(" ,.:;!-–—…")
        if not rest:
            break
        sentence_text = rest
    return sentence_text


def _without_request(sentence_text: str) -> str:
    """Return a wish that is to hold permanently without its "could you"; other sentences stay.

    In these, "plz" becomes "pls".
    """
    asked = _WISH.match(sentence_text)
    return (
        asked[1].rstrip(" ?") if asked and _FOR_GOOD.search(asked[1]) else sentence_text.replace("plz", "pls")
    )


def _is_question(sentence_text: str, rest: str) -> bool:
    if sentence_text.rstrip("\"')”").endswith(("?", "？")):
        return True
    if _pattern("asking").search(sentence_text) or _TAG.search(sentence_text):
        return True
    match = _pattern("questions").match(rest)
    return match is not None and not rest.startswith(("what we ", "what you call ", "which is "))


def _is_polite(sentence_text: str) -> bool:
    return _POLITE.match(sentence_text) is not None


def _is_lasting(
    rest: str, kinds: dict[SignalKind, float], words: dict[SignalKind | DeclineReason, tuple[str, str]]
) -> bool:
    """Whether a request to do something also states a rule or preference that lasts."""
    if (
        max(
            kinds.get(kind, 0.0)
            for kind in (SignalKind.PREFERENCE, SignalKind.CORRECTION, SignalKind.DECISION)
        )
        >= 3
    ):
        return True
    if kinds.get(SignalKind.RULE, 0.0) < 3:
        return False
    at, pause = rest.find(words[SignalKind.RULE][1]), _PAUSE.search(rest)
    return at == 0 or (pause is not None and at > pause.start())  # "Log lines start with an id" is no request


def _request(rest: str) -> str | None:
    """Return the verb with which a request opens; None when the sentence is no request."""
    words: list[str] = SPOKEN.findall(rest[:80])
    if not words:
        return None
    first, *more = words
    if first in ("don't", "dont", "do", "let's", "lets", "please", "pls", "now", "not") and more:
        first, *more = more if more[0] != "not" else more[1:] or [""]
    if first not in read_words("verbs") or (more and _NOUNISH.match(more[0])):
        return None
    # "Test names describe behaviour" is of tests and asks for none.
    things = len(more) > 1 and more[0].endswith("s") and _pattern("finite").fullmatch(more[1])
    return None if things else first


def _is_statement(rest: str) -> bool:
    if _CJK.search(rest):
        return len(rest) >= 8
    return len(SPOKEN.findall(rest)) >= 4 and _pattern("finite").search(rest) is not None


# ---------------------------------------------------------------- wording


def statement_span(at: int, message: Sequence[WeighedSentence]) -> tuple[int, int]:
    """Return where the statement of a sentence begins and ends, with neighbouring sentences that it needs.

    "It is called accounts." needs the sentence before.
    """
    sentence = message[at].sentence
    start, end = sentence.start, sentence.end
    if at and _POINTS_BACK.match(sentence.masked):
        before = message[at - 1]
        if DeclineReason.QUESTION not in before.reasons and end - before.sentence.start <= LONGEST:
            start = before.sentence.start
    if at + 1 < len(message) and _DENIES.search(sentence.masked):
        after = message[at + 1].sentence
        if _GOES_ON.match(after.masked) and after.end - start <= LONGEST:
            end = after.end
    return start, end


def _confidence(value: float) -> float:
    return round(1 / (1 + math.exp(-(0.6 * (value - THRESHOLD) + 1.2))), 2)


def _kind_in_place(at: int, message: Sequence[WeighedSentence], *, joined: bool) -> SignalKind:
    """Return the kind of a sentence; a fact may count as a correction.

    It does if the statement is `joined` with the next sentence, or if a neighbour corrects something.
    """
    kind = kind_of(message[at])
    if kind is not SignalKind.FACT:
        return kind
    neighbours = [*message[max(at - 1, 0) : at], *message[at + 1 : at + 2]]
    corrects = any(each.kinds.get(SignalKind.CORRECTION, 0) >= 2.5 and _is_calm(each) for each in neighbours)
    return SignalKind.CORRECTION if joined or corrects else kind


def _is_calm(weighed: WeighedSentence) -> bool:
    return max(weighed.reasons.values(), default=0.0) < 3


def _why(weighed: WeighedSentence, kind: SignalKind) -> str:
    why, found = weighed.words.get(kind, ("contradicts what was said or done", ""))
    return f"{why} (“{' '.join(found.split())}”)" if found.strip() else why


def _declined(weighed: Sequence[WeighedSentence]) -> SignalReading:
    totals: dict[DeclineReason, tuple[float, str]] = {}
    for each in weighed:
        for reason, weight in each.reasons.items():
            if weight > totals.get(reason, (0.0, ""))[0]:
                totals[reason] = weight, each.words[reason][0]
    if not totals:
        return SignalReading((), DeclineReason.CHAT, "says nothing that lasts")
    reason = max(totals, key=lambda each: totals[each][0])
    return SignalReading((), reason, totals[reason][1])
