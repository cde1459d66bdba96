"""Judge whether a user's message holds something worth saving, by a small fitted model.

The features of a text are hashed words and pairs of words, the phrases of `judge_phrases.txt`, and counts.
Three sums of weights stand on them: for a whole message with the turn before it, for one sentence, and for
one paragraph, which tells pasted prose from typed prose. `tools/fit_judge.py` writes the weights. The module
runs in hooks: it needs no numpy and compiles few patterns.

Proposes and never saves. A message in another language than English is read by the cues of `signals.py`.
"""

from __future__ import annotations

import json
import math
import re
from binascii import crc32
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.knowledge import typed
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.text import sentence_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MOST = 3  # proposals of one message


class SignalKind(StrEnum):
    """The kind of a statement worth saving."""

    PREFERENCE = "preference"
    RULE = "rule"
    CORRECTION = "correction"
    DECISION = "decision"
    FACT = "fact"


class DeclineReason(StrEnum):
    """The reason why a sentence is not worth saving."""

    QUESTION = "question"
    SPECULATION = "speculation"
    TRANSIENT = "transient"
    UNCERTAIN = "uncertain"
    REQUEST = "request"
    CHAT = "chat"
    SECRET = "secret"


class Signal(NamedTuple):
    """A sentence worth saving, its kind, the confidence, and the words that show the kind."""

    kind: SignalKind
    text: str
    confidence: float
    why: str


class SignalReading(NamedTuple):
    """The sentences of a message that are worth saving, the surest first, or the reason why
    there are none.
    """

    signals: tuple[Signal, ...]
    declined: DeclineReason | None = None
    why: str = ""


SIZES = {"word": 17, "pair": 16}  # bits of a hash: the tables of weights
_MOST_SENTENCES = 200
_LONGEST = 600  # characters of a sentence; a longer one is no statement

# ---------------------------------------------------------------- words

_TOKEN = re.compile(
    r"(?P<image>\[[Ii][Mm][Aa][Gg][Ee][^\]\n]{0,200}\])|(?P<link>[Hh][Tt][Tt][Pp][Ss]?://\S+)|(?P<code>`[^`\n]{1,300}`)"
    r"|(?P<quote>\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|„[^“”\n]{1,300}[“”]|«[^»\n]{1,300}»|「[^」\n]{1,300}」)"
    r"|(?P<option>(?<!\w)--?[A-Za-z][\w-]+)|(?P<chunk>@?[\w~][\w'’./\\:~@-]*)|(?P<sign>==|[?!,;])"
)
_FILE = lazy_pattern(
    r".+\.(?:go|mdc?|tsx?|jsx?|py|json|toml|sh|ya?ml|log|txt|rs|java|css|html|sql|lock|cfg|ini)(?::[\d:-]*)?"
)
_SPELLED = {
    word.replace("'", ""): word
    for word in "don't doesn't can't won't isn't aren't didn't shouldn't wouldn't couldn't haven't hasn't "
    "wasn't weren't that's i'm i've let's you're they're what's there's".split()
}


class JudgeToken(NamedTuple):
    """A word in lower case, a sign, or a placeholder such as `<path>`, and where it starts in the text."""

    word: str
    start: int


def read_tokens(text: str) -> list[JudgeToken]:
    """Return the words and signs of a text; placeholders replace code, paths, links and names."""
    found: list[JudgeToken] = []
    for match in _TOKEN.finditer(text):
        kind, start = match.lastgroup, match.start()
        if kind == "chunk":
            found += [JudgeToken(word, start) for word in _words_of(match[0])]
        elif kind == "sign":
            found.append(JudgeToken(match[0], start))
        else:
            found.append(JudgeToken(f"<{kind}>", start))
    return found


def _words_of(chunk: str) -> Iterable[str]:
    chunk = chunk.rstrip("'’./\\:~@-")
    if not chunk:
        return ()
    if chunk[0] == "@" or "/" in chunk or "\\" in chunk or _FILE.fullmatch(chunk):
        return ("<path>",)
    if "_" in chunk or "::" in chunk or (chunk[1:] != chunk[1:].lower() and not chunk.isupper()):
        return ("<name>",)
    words = []
    for part in re.split(r"[-.:~@]+", chunk.replace("’", "'").lower()):
        if part.isdigit():
            words.append("<number>")
        elif len(part) >= 7 and part.isalnum() and any(map(str.isdigit, part)):
            words.append("<name>")
        elif part:
            words.append(_SPELLED.get(part, part))
    return words


# ---------------------------------------------------------------- phrases


class WordPattern(NamedTuple):
    """A phrase of a group: for each position the allowed words, or None for any word."""

    group: str
    words: tuple[tuple[frozenset[str] | None, bool], ...]  # with whether the word may be missing


class Phrases(NamedTuple):
    """All phrases by their first word, those that open a sentence, and the reason of each group."""

    anywhere: Mapping[str, Sequence[WordPattern]]
    opening: Sequence[WordPattern]
    reasons: Mapping[str, str]


@cache
def read_phrases() -> Phrases:
    """Return the phrases in `judge_phrases.txt`."""
    text = Path(__file__).with_name("judge_phrases.txt").read_text(encoding="utf-8")
    anywhere: dict[str, list[WordPattern]] = {}
    opening: list[WordPattern] = []
    reasons: dict[str, str] = {}
    group = ""
    for line in text.splitlines():
        if line.startswith("["):
            group, _, reason = line[1:].partition("] ")
            reasons[group] = reason
        elif line and not line.startswith("#"):
            first, *rest = line.split()
            if first == "^":
                opening.append(WordPattern(group, tuple(map(_alternatives, rest))))
                continue
            phrase = WordPattern(group, tuple(map(_alternatives, rest)))
            for word in first.split("|"):
                anywhere.setdefault(word, []).append(phrase)
    return Phrases(anywhere, opening, reasons)


def _alternatives(word: str) -> tuple[frozenset[str] | None, bool]:
    optional = word.endswith("?")
    word = word[:-1] if optional else word
    return None if word == "*" else frozenset(word.split("|")), optional


def match_end(words: Sequence[str], at: int, wanted: Sequence[tuple[frozenset[str] | None, bool]]) -> int:
    """Return where the words from position `at` end that match the phrase `wanted`; -1 without a match."""
    for number, (choices, optional) in enumerate(wanted):
        if optional and (end := match_end(words, at, wanted[number + 1 :])) >= 0:
            return end
        if at >= len(words) or (choices is not None and words[at] not in choices):
            return -1
        at += 1
    return at


def find_phrases(words: Sequence[str], openings: Iterable[int]) -> Iterator[tuple[str, int, int]]:
    """Yield the group, start and end of each phrase in these words; sentences begin at `openings`."""
    phrases = read_phrases()
    for at, word in enumerate(words):
        for phrase in phrases.anywhere.get(word, ()):
            end = match_end(words, at + 1, phrase.words)
            if end >= 0:
                yield phrase.group, at, end
    for at in openings:
        for phrase in phrases.opening:
            end = match_end(words, at, phrase.words)
            if end >= 0:
                yield phrase.group, at, end


# ---------------------------------------------------------------- features


class Features(NamedTuple):
    """What the model knows of a text: hashes of its words and pairs, and named numbers."""

    words: frozenset[int]
    pairs: frozenset[int]
    numbers: dict[str, float]


def read_features(text: str, tokens: Sequence[JudgeToken], starts: Sequence[int]) -> Features:
    """Return the features of a text, given its tokens and the positions at which its sentences start."""
    words = [token.word for token in tokens]
    openings = _openings(tokens, starts)
    groups: dict[str, int] = {}
    for group, _, _ in find_phrases(words, openings):
        groups[group] = groups.get(group, 0) + 1
    numbers = {group: min(math.log1p(count), 2.0) for group, count in groups.items()}
    numbers |= _counts(text, words, len(starts))
    rule = any(groups.get(each) for each in ("duty", "ban", "standing", "stop"))
    asks = "?" in words
    if rule and not asks:
        numbers["=rule, not asked"] = 1.0
    if rule and groups.get("reason"):
        numbers["=rule, reason"] = 1.0
    if groups.get("negation") and (groups.get("wants") or groups.get("liking")):
        numbers["=unwanted"] = 1.0
    if groups.get("defines") and not asks:
        numbers["=defined, not asked"] = 1.0
    return Features(
        frozenset(_hash(word, "word") for word in words),
        frozenset(_hash(f"{one} {other}", "pair") for one, other in pairwise(words)),
        numbers,
    )


def _openings(tokens: Sequence[JudgeToken], starts: Sequence[int]) -> list[int]:
    """Return the numbers of the tokens with which the sentences open."""
    found, at = [], 0
    for start in starts:
        while at < len(tokens) and tokens[at].start < start:
            at += 1
        found.append(at)
    return found


def _hash(word: str, table: str) -> int:
    return crc32(word.encode("utf-8", "replace")) & ((1 << SIZES[table]) - 1)


_ITEM = lazy_pattern(r"^[ \t]*(?:[-*•]|\d{1,4}[.):])[ \t]", re.MULTILINE)


def _counts(text: str, words: Sequence[str], sentences: int) -> dict[str, float]:
    """Return the features that count words, signs, lines and other properties of a text."""
    spelled = [word for word in words if word[0].isalpha()]
    length = math.log1p(len(spelled)) / 3
    said = text.strip()
    lines = [line for line in said.split("\n") if line.strip()]
    solid = "".join(text.split())
    asked = words.count("?")
    shouted = len([each for each in text.split() if len(each) > 2 and each.isalpha() and each.isupper()])
    return {
        "#words": length,
        "#words squared": length * length,
        "#few words": float(len(spelled) <= 3),
        "#some words": float(4 <= len(spelled) <= 12),
        "#many words": float(len(spelled) > 120),
        "#sentences": math.log1p(sentences),
        "#statements": math.log1p(max(0, sentences - asked)),
        "#asked": min(asked / max(1, sentences), 1.0),
        "#asks": math.log1p(asked),
        "#ends asking": float(said.endswith("?")),
        "#ends with a stop": float(said.endswith(".")),
        "#begins high": float(said[:1].isupper()),
        "#lines begin low": sum(line.lstrip(" -*•\t")[:1].islower() for line in lines) / max(1, len(lines)),
        "#lines": math.log1p(said.count("\n")) / 2,
        "#items": min(math.log1p(len(_ITEM.findall(text))), 2.0),
        "#paths": min(math.log1p(words.count("<path>")), 2.0),
        "#names": min(math.log1p(words.count("<name>")), 2.5),
        "#code": min(math.log1p(words.count("<code>")), 2.0),
        "#long words": sum(map(len, spelled)) / max(1, len(spelled)) / 5,
        "#signs": sum(not each.isalnum() for each in solid) / max(1, len(solid)),
        "#shouted": min(shouted, 3) / 3,
        "#exclaims": min(text.count("!"), 3) / 3,
        "#brackets": min(text.count("("), 3) / 3,
        "#dots": float("..." in text or "…" in text),
        "#colons": min(text.count(":"), 4) / 4,
    }


_BEFORE = {
    "~asks me": "want me to|would you like|should i|shall i|do you want|ready to|let me know|which one"
    "|which option|which approach|your call|your preference|your thoughts|what do you think|sound good",
    "~has options": "1. |2. |a) |b) |option|**a|**1|alternative| or ",
    "~is done": "done|fixed|committed|pushed|all tests pass|complete|updated|removed|added|created|renamed",
    "~announces": "let me |i'll |now i|i need to|i will",
    "~proposes": "recommend|suggest|trade-off|tradeoff|pros|cons|instead|approach",
    "~is sorry": "sorry|apologi|you're right|my mistake",
    "~has code": "`",
    "~is open": "open question|decision|decide|lock|resolve|clarif",
}


def before_features(before: str, words: Iterable[str]) -> dict[str, float]:
    """Return the features of the turn before a message, and the share of the message's words found in it."""
    low = before.lower().replace("’", "'")
    found = {name: 1.0 for name, marks in _BEFORE.items() if any(mark in low for mark in marks.split("|"))}
    found["~none"] = float(not low.strip())
    found["~length"] = math.log1p(len(before)) / 6
    found["~ends asking"] = float(low.rstrip().endswith("?"))
    content = {word for word in words if len(word) > 3 and word.isalpha()}
    known = {token.word for token in read_tokens(before)}
    found["~repeated"] = len(content & known) / max(1, len(content))
    return found


# ---------------------------------------------------------------- a message


class Sentence(NamedTuple):
    """A sentence that a person typed, its place in the message, and its features."""

    text: str
    start: int
    end: int
    features: Features


class MessageFeatures(NamedTuple):
    """A message as the model sees it: the typed words, and the features of the whole and of each sentence."""

    own: str
    features: Features
    sentences: tuple[Sentence, ...]
    words: tuple[str, ...]


PARAGRAPH = 100  # characters from which on a paragraph may be pasted prose by itself
BESIDE = 20  # characters from which on it may be beside a pasted paragraph
_SPOKEN = ("i", "spoken", "together", "swearing")  # groups that pasted prose seldom has
_BESIDE = 0.5  # what is taken from a bar of zero where another paragraph of the message is pasted
_SPOKEN_BAR = 1.5  # what is added to the bar where one of them is


def text_features(text: str) -> Features:
    """Return the features of a text that stands alone."""
    starts = [start for start, _ in sentence_spans(text, lines=True)]
    return read_features(text, read_tokens(text), starts)


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each run of lines that are not blank."""
    begun, at = -1, 0
    for line in text.split("\n"):
        if line.strip():
            begun = at if begun < 0 else begun
        elif begun >= 0:
            yield begun, at - 1
            begun = -1
        at += len(line) + 1
    if begun >= 0:
        yield begun, len(text)


def pasted_paragraphs(own: str, model: JudgeModel) -> list[tuple[int, int]]:
    """Return the places of pasted prose: long paragraphs by themselves, short ones beside a pasted one."""
    spans = [(start, end) for start, end in _paragraphs(own) if len(own[start:end].strip()) >= BESIDE]
    excess = []
    for start, end in spans:
        features = text_features(own[start:end])
        spoken = any(features.numbers.get(group) for group in _SPOKEN)
        excess.append(model.pasted.weigh(features) - model.pasted_bar - _SPOKEN_BAR * spoken)
    alone = [
        value >= 0 and end - start >= PARAGRAPH for value, (start, end) in zip(excess, spans, strict=True)
    ]
    found = []
    for number, span in enumerate(spans):
        if alone[number] or (any(alone) and excess[number] >= -model.pasted_bar - _BESIDE):
            found.append(span)
    return found


def without_pasted(own: str, before: str, model: JudgeModel) -> str:
    """Return a message's own words with blanks in place of pasted prose.

    Long lines that repeat the turn before (`before`) are blanked too.
    """
    for start, end in pasted_paragraphs(own, model):
        own = own[:start] + typed.blank(own[start:end]) + own[end:]
    lines = own.split("\n")
    for number, line in enumerate(lines):
        if len(said := line.strip()) >= 40 and said in before:
            lines[number] = " " * len(line)
    return "\n".join(lines)


def read_message(text: str, before: str, model: JudgeModel) -> MessageFeatures:
    """Return the typed words of a message, with the features of the message and of each sentence.

    `before` is the turn before the message.
    """
    own = without_pasted(typed.own_words(text), before, model)
    spans = [span for span in sentence_spans(own, lines=True) if span[1] - span[0] <= _LONGEST]
    spans = spans if len(spans) <= _MOST_SENTENCES else [*spans[:100], *spans[-100:]]
    tokens = read_tokens(own)
    features = read_features(own, tokens, [start for start, _ in spans])
    features.numbers["#typed"] = len(own.split()) / max(1, len(text.split()))
    features.numbers["#has fence"] = float("```" in text)
    words = tuple(token.word for token in tokens)
    features.numbers.update(before_features(before[-2000:], words))
    sentences = tuple(
        Sentence(text[start:end], start, end, read_features(own[start:end], read_tokens(own[start:end]), [0]))
        for start, end in spans
    )
    return MessageFeatures(own, features, sentences, words)


# ---------------------------------------------------------------- the model


class FeatureWeights(NamedTuple):
    """The weights of one sum over features."""

    word: Sequence[int]
    pair: Sequence[int]
    scale: float
    numbers: Mapping[str, float]
    bias: float

    def weigh(self, features: Features) -> float:
        """Return the weighted sum of a text's features, as a logit."""
        hashed = sum(map(self.word.__getitem__, features.words)) + sum(
            map(self.pair.__getitem__, features.pairs)
        )
        weight = self.numbers.get
        return (
            self.bias
            + self.scale * hashed
            + sum(weight(name, 0.0) * value for name, value in features.numbers.items())
        )


class JudgeModel(NamedTuple):
    """All weights, the bars, and how sums become a probability."""

    message: FeatureWeights
    sentence: FeatureWeights
    pasted: FeatureWeights
    pasted_bar: float
    shares: tuple[float, float]  # of message and best sentence in the score
    bar: float  # of the score, from which on a message is proposed
    calibration: tuple[float, float]  # slope and intercept of the probability
    kinds: Mapping[str, tuple[Mapping[str, float], float]]


FILE = "judge.model"
TABLES = ("message", "sentence", "pasted")


@cache
def load_model() -> JudgeModel:
    """Return the shipped model."""
    return parse_model(Path(__file__).with_name(FILE).read_bytes())


def parse_model(content: bytes) -> JudgeModel:
    """Return the model in a file: one line of JSON, and the tables of hashed words and pairs as bytes."""
    head, _, body = content.partition(b"\n")
    about = json.loads(head)
    tables: dict[str, FeatureWeights] = {}
    weights = memoryview(body).cast("b")
    at = 0
    for name in TABLES:
        parts = {}
        for table, bits in SIZES.items():
            parts[table] = weights[at : at + (1 << bits)]
            at += 1 << bits
        sums = about[name]
        tables[name] = FeatureWeights(
            parts["word"], parts["pair"], sums["scale"], sums["numbers"], sums["bias"]
        )
    return JudgeModel(
        message=tables["message"],
        sentence=tables["sentence"],
        pasted=tables["pasted"],
        pasted_bar=about["pasted_bar"],
        shares=(about["shares"][0], about["shares"][1]),
        bar=about["bar"],
        calibration=(about["calibration"][0], about["calibration"][1]),
        kinds={name: (weights, bias) for name, (weights, bias) in about["kinds"].items()},
    )


# ---------------------------------------------------------------- judging


class Judged(NamedTuple):
    """A message with its score, the probability that it is worth a proposal, and the sentences' logits."""

    message: MessageFeatures
    score: float
    probability: float
    logits: tuple[float, ...]
    nudge: bool


def score_message(
    text: str, before: str = "", *, model: JudgeModel | None = None, shift: float = 0.0
) -> Judged:
    """Judge a message, with the end of the turn before it; `shift` raises the bar."""
    model = load_model() if model is None else model
    message = read_message(text, before, model)
    logits = tuple(model.sentence.weigh(sentence.features) for sentence in message.sentences)
    if not logits:
        return Judged(message, -math.inf, 0.0, (), nudge=False)
    whole, best = model.shares
    score = whole * model.message.weigh(message.features) + best * max(logits)
    explicit = any(is_explicit(sentence) for sentence in message.sentences)
    nudge = score >= model.bar + shift or explicit
    slope, intercept = model.calibration
    logit = slope * max(score, model.bar if explicit else score) + intercept
    return Judged(message, score, 1 / (1 + math.exp(-max(-30.0, min(30.0, logit)))), logits, nudge)


def is_explicit(sentence: Sentence) -> bool:
    """Whether a sentence says in set words that it is to last, without a doubt and without asking."""
    numbers = sentence.features.numbers
    return "explicit" in numbers and not (
        "passing" in numbers or "doubt" in numbers or "question mark" in numbers
    )


def read_signals(text: str, before: str = "", *, shift: float = 0.0) -> SignalReading:
    """Return the sentences of a user's message that are worth saving, or why none is.

    `before` is the turn before the message; `shift` is added to the judge's threshold. A message that is not
    English is read by cues.
    """
    judged = score_message(text, before, shift=shift)
    if not is_english(judged.message.words):
        from vademecum.knowledge import signals

        return signals.read_cues(text)
    if not judged.nudge:
        return _declined(text)
    found = signals_of(text, judged)
    return SignalReading(found) if found else SignalReading((), DeclineReason.SECRET, "holds a secret")


def _declined(text: str) -> SignalReading:
    """Return the reason why a message is declined, as the cues of `signals.py` tell it."""
    from vademecum.knowledge import signals

    cues = signals.read_cues(text)
    reason, why = cues.declined, cues.why
    return SignalReading((), reason or DeclineReason.CHAT, why or "resembles what was not worth saving")


def signals_of(text: str, judged: Judged) -> tuple[Signal, ...]:
    """Return at most three sentences to propose, explicit ones first; those with secrets are left out."""
    sentences = judged.message.sentences
    ranked = sorted(
        range(len(sentences)), key=lambda at: (-is_explicit(sentences[at]), -judged.logits[at], at)
    )
    best = judged.logits[ranked[0]]
    chosen = [
        at
        for number, at in enumerate(ranked)
        if number == 0 or is_explicit(sentences[at]) or judged.logits[at] >= max(0.0, best - 1.0)
    ]
    from vademecum.text import secrets, visible

    hidden = secrets.find(text)
    found: dict[str, Signal] = {}
    for at in chosen:
        start, end = _span(at, sentences)
        words = " ".join(visible(text[start:end]).split())
        if any(start < one.end and one.start < end for one in hidden) or secrets.find(words):
            continue
        features = sentences[at].features
        loss = max(0.0, best - judged.logits[at]) / 4
        signal = Signal(
            SignalKind(kind_of(features)),
            words,
            round(judged.probability / (1 + loss), 2),
            explain(judged.message.own[start:end], features),
        )
        found.setdefault(words, signal)
        if len(found) == MOST:
            break
    return tuple(found.values())


_POINTS_BACK = ("it", "they", "that", "those", "this", "its", "it's", "that's", "they're")


def _span(at: int, sentences: Sequence[Sentence]) -> tuple[int, int]:
    """Return where a statement begins and ends: "It is called accounts." needs the sentence before."""
    sentence = sentences[at]
    first = sentence.text.split(maxsplit=1)[0].lower().replace("’", "'")
    if at and first in _POINTS_BACK:
        before = sentences[at - 1]
        if not before.text.endswith("?") and sentence.end - before.start <= _LONGEST:
            return before.start, sentence.end
    return sentence.start, sentence.end


_ENGLISH = frozenset(
    "the a to of is it that this for with and or not be are we i you my our do don't can should if from have "
    "has it's let's what why how when please".split()
)
# Common words of German, Spanish and French that are no English words.
_FOREIGN = frozenset(
    "der das den dem des ein eine einen ist sind und oder wir ich du bei im nicht mit auf für bitte immer "
    "nie kein keine unsere wird werden haben hat zu von vom zum zur nur auch noch schon sich mir dir "
    "wenn jede el los las una es y que usamos nunca siempre por favor como está son le les du nous je "
    "est dans pour toujours jamais pas une sur avec vous".split()
)


def is_english(words: Sequence[str]) -> bool:
    """Whether a message is in English, so far as its letters and common words say."""
    spelled = [word for word in words if word[0].isalpha()]
    if sum(word[0] > "\u024f" for word in spelled) * 3 > len(spelled):
        return False
    foreign = sum(
        word in _FOREIGN or any("\u00df" <= letter <= "\u024f" for letter in word) for word in spelled
    )
    return foreign == 0 or foreign < sum(word in _ENGLISH for word in spelled)


def kind_of(features: Features) -> str:
    """Return the likeliest kind of a statement."""
    kinds = load_model().kinds

    def logit(kind: str) -> float:
        weights, bias = kinds[kind]
        return bias + sum(weights.get(name, 0.0) * value for name, value in features.numbers.items())

    return max(kinds, key=logit)


def explain(text: str, features: Features) -> str:
    """Return why a sentence is proposed: what its two weightiest phrases say, with their words."""
    weights = load_model().sentence.numbers
    words = [token.word for token in read_tokens(text)]
    reasons = read_phrases().reasons
    found: dict[str, str] = {}
    for group, start, end in find_phrases(words, [0]):
        if reasons[group] != "-":
            found.setdefault(group, " ".join(words[start:end]))

    def share(group: str) -> tuple[bool, float]:
        return group != "explicit", -weights.get(group, 0.0) * features.numbers.get(group, 0.0)

    said = [
        reasons[group] + ("" if group == "reason" else f" (“{found[group]}”)")
        for group in sorted(found, key=share)[:2]
    ]
    return ", ".join(said) or "resembles what was worth saving"
