"""Parse one sentence into its subject, attribute, value, polarity, modality, tense and condition.

The rules know words of English and German and their positions. A part that no rule understands stays empty;
nothing is guessed.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.text import synonyms
from vademecum.text import vocabulary as known
from vademecum.text.vocabulary import Quantity, is_owning, split_words, stem, verb_base

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from vademecum.text.vocabulary import Word

PRESENT, PAST, FUTURE = "present", "past", "future"
MUST, SHOULD, MAY = "must", "should", "may"
LONGEST = 400  # characters of a sentence that a rule understands
_MOST, _CACHE_SIZE = 40, 8_192  # words of such a sentence, and sentences that are remembered


class Reading(NamedTuple):
    """A parsed sentence: the parts that the rules understood."""

    subject: str = ""
    attribute: str = ""
    value: Quantity | None = None
    polarity: bool = True
    modality: str = ""
    condition: str = ""
    tense: str = PRESENT
    stated: bool = True  # not asked, and no example
    topic: frozenset[str] = frozenset()  # what it is about, its value aside, in the plainest forms
    everything: frozenset[str] = frozenset()  # all that counts in it, its value too
    terms: frozenset[str] = frozenset()  # of the condition
    bound: str = ""  # least, most, or nothing
    denied: str = ""  # the word that turns it round
    many: bool = False  # whether it names several values
    labelled: bool = False  # whether it is a field of what it stands in: "Port: 80"
    loose: Quantity | None = (
        None  # the only value of a sentence that no rule took apart, or a name behind "in"
    )


class _Core(NamedTuple):
    """The subject, attribute and value of a sentence, and the words of the value."""

    subject: Sequence[Word]
    attribute: str
    value: Quantity | None = None
    rest: Sequence[Word] = ()


# -------------------------------------------------------------------- what is said before words are looked at

_CLEAN = (
    (re.compile(r"[*_]{2,}|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)"), ""),
    (re.compile(r"[’‘]"), "'"),
    (re.compile(r"(?i)\bcannot\b"), "can not"),
    (re.compile(r"(?i)\bcan't\b"), "can not"),
    (re.compile(r"(?i)\bwon't\b"), "will not"),
    (re.compile(r"(?i)n't\b"), " not"),
    (re.compile(r"(?i)\bno longer\b|\bnicht mehr\b"), "not"),
    (re.compile(r"(?i)\b(?:not have to|need not|not need to|not required to)\b"), "not must"),
    (re.compile(r"(?i)\b(?:ha(?:ve|s) to|needs? to(?= \w))\b"), "must"),
    (re.compile(r"(?i)\bavoid(?: using| use of| the use of)?\b|\bvermeide\b"), "never use"),
    (re.compile(r"(?i)\b(?:is|are) (?:now )?(?:set|capped|limited|pinned|configured) (?:to|at|as)\b"), "is"),
    (re.compile(r"(?i)\b(?:turned|switched) (?=on\b|off\b)"), ""),
    (re.compile(r"(?i)\b(?:make sure|ensure)(?: that)?\b"), "must"),
    (re.compile(r"(?i)\bkein(?:e|en|em|er|es)?\b"), "no"),
    (re.compile(r"(?i)\bno one\b"), "nobody"),
    (re.compile(r"(?i)\bplans? to\b|\b(?:is|are) going to\b|\bplanned to\b"), "will"),
    (re.compile(r"(?i)\bused to (?=[a-z])"), "formerly "),
    (re.compile(r"(?i)\bset up\b"), "setup"),
    (
        re.compile(
            r"(?i)\b(?:every|each|jede[nrs]?) (?=(?:hour|day|week|month|year|stunde|tag|woche|monat)\b)"
        ),
        "1 ",
    ),
)
_BOUNDS = (
    (
        re.compile(r"(?i)\b(?:at least|or more|no less than|above|minimum(?: of)?|mindestens|min\.?(?= ))\b"),
        "least",
    ),
    (
        re.compile(
            r"(?i)\b(?:at most|up to|no more than|below|under(?= \d)|maximum(?: of)?|höchstens|bis zu)\b"
        ),
        "most",
    ),
)
_EXAMPLE = re.compile(
    r"(?i)(?<!\s)\s*+(?:for example|for instance|e\.g|z\.\s?b|zum beispiel|suppose|imagine|todo|proposal)\b"
)
_PAST_TIME = re.compile(
    r"(?i)\b(?:(?:until|till|before|bis|vor|in|im jahr) (?:(?:early|late|mid) )?(?:19|20)\d\d"
    r"|last (?:week|month|year|sprint|time)|back then|at first|used to be|so far"
    r"|letzte[nrs]? (?:woche|monat|jahr))\b"
)
_FUTURE_TIME = re.compile(r"(?i)\bnext (?:week|month|year|sprint|quarter|release)\b|\bnächste[nrs]? \w+")
_SINCE = re.compile(
    r"\b(?i:since|as of|seit)\s+(?:\w+ )?(?:(?:19|20)\d\d(?:-\d\d){0,2}|[A-Z]\w+)\b,?"
    r"|\b(?i:from|ab) (?:19|20)\d\d(?:-\d\d){0,2}\b"
    r"|\b(?i:as of (?:today|now)|from (?:today|now) on|ab (?:heute|sofort|jetzt))\b,?"
)


# One look that tells whether any of the patterns above is worth trying.
_UNCLEAN = re.compile(
    r"(?i)\*|__|(?<!\w)_|_(?!\w)|[’‘]|n't|\b(?:cannot|every|each|jede|not|no|avoid|ha(?:ve|s) to"
    r"|need|capped|limited|pinned"
    r"|configured|set|turned|switched|make sure|ensure|kein|plan|going|used to|vermeide|nicht)"
)
_BOUNDED = re.compile(
    r"(?i)\b(?:at (?:least|most)|or more|no (?:less|more)|above|mind?e?|up to|below|under|maxim"
    r"|höch|bis zu)"
)
_TIMED = re.compile(
    r"(?i)\b(?:until|till|before|bis|vor|in|im|last|back|at first|so far|letzt\w*|next|nächst\w*|since|as of"
    r"|from|seit|ab|used)\b"
)


@functools.lru_cache(maxsize=_CACHE_SIZE)
def read(text: str) -> Reading:
    """Parse a sentence; return an empty reading if no rule understands the sentence."""
    if len(text) > LONGEST:
        return Reading(stated=False)
    plain, tense = _take_time(text.strip())
    plain, bound = _take_bound(_EXAMPLE.sub("", plain, count=1))
    if _UNCLEAN.search(plain):
        for pattern, other in _CLEAN:
            plain = pattern.sub(other, plain)
    words = split_words(plain)
    if not 1 <= len(words) <= _MOST:
        return Reading(stated=False)
    return _Reader(words, tense, bound, stated=_is_statement(text)).read()


def _is_statement(text: str) -> bool:
    """Whether a sentence is a statement, not a question, an example, a line above a list or a log line."""
    return not text.rstrip().endswith(("?", "？", ":")) and not _EXAMPLE.match(text) and text.count(": ") < 2


def _take_time(text: str) -> tuple[str, str]:
    """Return a text without its phrases of time, and the tense that these phrases imply."""
    if not _TIMED.search(text):
        return text, PRESENT
    tense = PAST if _PAST_TIME.search(text) else FUTURE if _FUTURE_TIME.search(text) else PRESENT
    for pattern in (_PAST_TIME, _FUTURE_TIME, _SINCE):
        text = pattern.sub(" ", text)
    return text, tense


def _take_bound(text: str) -> tuple[str, str]:
    """Return a text without words such as "at least", and the bound that those words imply."""
    bound = ""
    if _BOUNDED.search(text):
        for pattern, name in _BOUNDS:
            text, count = pattern.subn(" ", text)
            bound = name if count else bound
    return text, bound


# -------------------------------------------------------------------- one sentence


class _Reader:
    """The parser of one sentence."""

    def __init__(self, words: list[Word], tense: str, bound: str, *, stated: bool) -> None:
        self.words, self.tense, self.bound, self.stated = words, tense, bound, stated
        self.modality, self.denied = "", ""
        self.surely = False
        self.polarity = True
        self.condition: list[Word] = []

    def read(self) -> Reading:
        self.words = [word for at, word in enumerate(self.words) if not self._takes_mood(word, at)]
        self._take_terms()
        words = [*_without_articles(self.words)]
        core = self._core(words)
        self._finish_mood(words, core.attribute)
        value = {id(word) for word in core.rest} if core.value is not None else set[int]()
        topic = frozenset(_stems(word for word in words if id(word) not in value))
        if core.value is not None and core.attribute not in _PLAIN_ATTRIBUTES:
            topic |= {stem(core.attribute)}
        low = {word.low for word in words}
        return Reading(
            _join_low(core.subject),
            core.attribute,
            core.value,
            self.polarity,
            self.modality,
            " ".join(word.low for word in self.condition),
            self.tense,
            self.stated,
            topic,
            frozenset(_stems(words)),
            frozenset(_stems(self.condition)),
            self.bound,
            self.denied,
            any(word.low in _SEVERAL for word in core.rest),
            not low.isdisjoint((":", "=")),
            _only_value(words) if core.value is None or core.value.kind in ("word", "words") else None,
        )

    # -- whether, how surely, when

    def _takes_mood(self, word: Word, at: int) -> bool:
        """Note what a word says of polarity, modality or time; return whether it has no other meaning."""
        low = word.low
        if low in known.NEGATORS:
            return self._takes_denial(low, at)
        if low in known.MODALS and (word.raw != "May" or not at):
            self.modality = MAY if low in known.EPISTEMIC else self.modality or known.MODALS[low]
            return True
        if low in known.ADVERBS:
            self.surely = self.surely or low in ("always", "immer")
            return True
        if low in known.TODAY:
            self.condition.append(word)
            return True
        return self._takes_time(low, at)

    def _takes_denial(self, low: str, at: int) -> bool:
        if low in ("without", "ohne") and any(word.low in known.NEGATORS for word in self.words[:at]):
            return False  # "not without a token": on which terms
        if low != "nor":
            self.polarity = not self.polarity
            self.denied = self.denied or low
        return True

    def _takes_time(self, low: str, at: int) -> bool:
        following = self.words[at + 1].low if at + 1 < len(self.words) else ""
        if low in ("do", "does", "did") and following in known.NEGATORS:
            self.tense = PAST if low == "did" else self.tense
            return True
        if low in known.FUTURE_WORDS and self.tense == PRESENT:
            self.tense = PRESENT if low == "tomorrow" else FUTURE
            return low != "tomorrow"
        if low in known.PAST_WORDS:
            self.tense = PAST
            return low not in known.BE
        return False

    def _finish_mood(self, words: Sequence[Word], attribute: str) -> None:
        """Take a sentence without a subject, or with its verb first, as a request."""
        verb = _verb_at(words)
        may_be_order = attribute == "do" or not verb
        if may_be_order and not self.modality and self._is_imperative(words):
            self.modality = MUST
        if attribute in ("need", "require", "approval"):
            self.modality = self.modality or MUST

    def _is_imperative(self, words: Sequence[Word]) -> bool:
        if self.tense != PRESENT or not words:
            return False
        low = words[0].low
        if low in known.VERBS - known.BE or low in ("contact", "prefer") or self.surely:
            return True
        return self.denied in _FORBIDDING or (len(words) < 5 and words[-1].low.endswith(("en", "ern")))

    # -- on which terms

    def _take_terms(self) -> None:
        """Move the clauses and phrases that say when or where the statement holds into the condition."""
        words = self.words
        if words and words[0].low in known.BEGINS:
            end = _opening_end(words)
            if end is not None and 0 < end < len(words) - 1:
                self.condition += words[:end]
                words = words[end + (words[end].low == ",") :]
        at = _clause_start(words)
        if at is not None:
            german = words[at].low in ("vor", "nach") and at + 3 < len(words)
            end = at + 3 if german and words[at + 1].low in known.ARTICLES else len(words)
            self.condition += words[at:end]
            words = [*words[:at], *words[end:]]
        self.words = words

    def _take_condition(self, words: list[Word], at: int) -> None:
        """Move the words from this position into the condition if they begin with a qualifier."""
        if at < len(words) and words[at].low in known.QUALIFIERS:
            self.condition += words[at:]
            del words[at:]

    # -- subject, attribute, value

    def _core(self, words: list[Word]) -> _Core:
        if not words:
            return _Core((), "")
        low = [word.low for word in words]
        for rule in (
            _read_existence,
            _read_responsible,
            _read_owner,
            self._read_language,
            self._read_choice,
            _read_tool,
            self._read_place,
        ):
            found = rule(words, low)
            if found is not None:
                return found
        return self._read_state(words) or self._read_plain(words)

    def _read_language(self, words: list[Word], low: list[str]) -> _Core | None:
        """Parse which language people or programs use; return None for other sentences."""
        at = _index(low, _LANGUAGES, 1)
        if at is None:
            return None
        word, inside = words[at], low[at - 1] in ("in", "auf")
        program = low[at + 1 :] in (["app"], ["service"], ["project"])
        if word.kind == "language":
            fits = inside or low[at - 1].startswith("speak")
        else:
            fits = program or (inside and not known.WRITTEN.isdisjoint(low))
        if not fits:
            return None
        if not program:
            self._take_condition(words, at + 1)
        value = Quantity("language" if word.kind == "language" else "coding", word.text or word.low)
        return _Core(_subject_of_language(words, at - inside), "language", value, [word])

    def _read_choice(self, words: list[Word], low: list[str]) -> _Core | None:
        """Parse which thing is used for a purpose; return None for other sentences."""
        use = _index(low, _USING)
        if use is None or use + 1 >= len(words):
            return None
        if low[use] == "prefer" and use == 0:
            self.modality = self.modality or SHOULD
        start = use + 2 if low[use] == "rely" else use + 1
        goal = _index(low[:-1], _GOALS, start + 1)
        if goal is not None:
            return _Core(words[goal + 1 :], "use", _name(words[start:goal]), words[start:goal])
        if self.condition and self.condition[0].low in ("for", "für"):
            about, what = self.condition[1:], words[start:]
            self.condition = []
            words[:0] = about
            return _Core(about, "use", _name(what), what)
        return None

    def _read_place(self, words: list[Word], low: list[str]) -> _Core | None:
        """Parse where a thing is; return None for other sentences."""
        verb = _verb_at(words)
        for at in range(1, len(words) - 1):
            what = words[at + 1 :]
            if low[at] not in known.WHERE or what[0].kind in _NO_PLACE_KINDS or what[-1].low in known.STATES:
                continue
            if verb is not None and verb < at - 1 <= verb + 3 and verb_base(low[verb]) in known.KEEPING:
                return _Core(words[verb + 1 : at], "place", _name(what), what)
            start = _place_verb(low, at)
            if start:
                end = _index(low, known.QUALIFIERS, at + 2) or len(low)
                self._take_condition(words, end)
                if at + 2 < len(words) and _PARTICIPLE.fullmatch(words[-1].low):
                    del words[-1]  # "wird in Bern gehostet"
                return _Core(words[:start], "place", _name(words[at + 1 :]), words[at + 1 :])
        return None

    def _read_state(self, words: list[Word]) -> _Core | None:
        """Parse a state that excludes other states, such as on and off; return None for other sentences."""
        at = _index([word.low for word in words], known.BE)
        if at is None or at + 1 >= len(words):
            return None
        word = words[at + 1]
        following = words[at + 2].low if at + 2 < len(words) else "in"
        if word.low not in known.STATES or (word.low in _ALSO_PARTICLES and following not in _AFTER_STATE):
            return None
        self._take_condition(words, at + 2)
        return _Core(words[:at], "state", Quantity(known.STATES[word.low], word.low), [word])

    def _read_plain(self, words: list[Word]) -> _Core:
        """Parse a sentence that no other rule understands into subject, verb and the rest."""
        verb = _verb_at(words)
        if verb is None:
            return _Core([word for word in words if word.low not in known.PRONOUNS], "do")
        low = words[verb].low
        if self.tense == PRESENT and _is_past(words, verb):
            self.tense = PAST
        values = [at for at in range(verb + 1, len(words)) if words[at].kind in _EXCLUSIVE]
        if len(values) == 1:
            self._take_condition(words, values[0] + 1)
            return _read_value(words, verb, values[0])
        subject = [word for word in words[:verb] if word.low not in known.PRONOUNS]
        rest = words[verb + 1 :]
        if low in known.BE and rest:
            return _is(subject, rest)
        if verb == 0:
            return self._read_request(words)
        return _Core(subject, verb_base(low), Quantity("words", _join_words(rest)) if rest else None)

    def _read_request(self, words: list[Word]) -> _Core:
        """Parse a request, and move a phrase at its end into the condition."""
        end = _index([word.low for word in words], known.QUALIFIERS, 2)
        if end is not None and end + 1 < len(words) and words[end].low in ("in", "during", "on"):
            self.condition += words[end:]
            del words[end:]
        return _Core([word for word in words if word.low not in _MARKS], "do")


# Phrases after which stands what someone answers for, their length, and how such a sentence ends.
_ANSWERING = (
    (" responsible for ", 2, ""),
    (" in charge of ", 3, ""),
    (" für ", 1, " zuständig "),
)
_KIND_ATTRIBUTES = {"version": "version", "day": "time", "date": "time", "time": "time"}
_PARTICIPLE = re.compile(r"ge[a-zäöü]{3,}(?:e?t|en)|betrieben")
_LEADING = frozenset(
    """after within at on in to of for by through via with until every um nach binnen innerhalb auf mit bis
    über bei zu""".split()
)
_LANGUAGES = known.CODING | known.TONGUES.keys()
_USING = frozenset(
    "use uses used using rely prefer nutzen nutzt verwenden verwendet benutzt benutzen".split()
)
_PLAIN_ATTRIBUTES = frozenset({"is", "do", "have", "use", "place", "state", "presence"})
_MARKS = frozenset(",;?:=")
_SEVERAL = frozenset({"and", "or", "und", "oder", ","})
_FORBIDDING = frozenset({"never", "not", "nie", "nicht", "niemals"})
_GOALS = frozenset({"for", "as", "to", "für", "als"})
_EXCLUSIVE = frozenset({"number", "version", "date", "time", "day"})
_NO_PLACE_KINDS = _EXCLUSIVE | {"language"}
_ALSO_PARTICLES = frozenset({"on", "an", "off", "aus", "current"})
_AFTER_STATE = known.QUALIFIERS | {"by"}


def _without_articles(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the words that are no articles; a word after an article is marked as a noun."""
    after = False
    for word in words:
        article = word.low in known.ARTICLES
        if not article:
            yield word._replace(noun=True) if after else word
        after = article


def _index(low: Sequence[str], listed: Collection[str], start: int = 0) -> int | None:
    """Return the position, from `start` on, of the first word that is in a list; None if no word is."""
    return next((at for at in range(start, len(low)) if low[at] in listed), None)


def _stems(words: Iterator[Word] | Sequence[Word]) -> Iterator[str]:
    """Yield the stems of the words that carry meaning; numbers, dates and states in their normal form."""
    for word in words:
        if word.kind == "number":
            yield f"{word.text} {word.unit}".strip()
        elif word.kind and word.kind != "name":
            yield word.text
        elif word.low in known.STATES and word.low not in known.ALSO_WORDS:
            yield known.same_state(word.low)
        elif word.low not in known.FUNCTION_WORDS and word.low not in _MARKS:
            yield stem(word.text or word.low)


def _verb_at(words: Sequence[Word]) -> int | None:
    """Return the position of the verb: first a form of "to be", since most verbs can also be nouns."""
    for at in range(1, len(words)):
        if words[at].low in known.BE:
            return at
    return next((at for at, word in enumerate(words) if _is_verb(word, first=at == 0)), None)


def _is_verb(word: Word, *, first: bool) -> bool:
    if word.noun or word.kind not in ("", "name") or (first and word.kind):
        return False
    if word.low in known.VERBS or word.low in known.PAST_VERBS:
        return True
    return not first and any(form in known.VERBS for form in known.verb_forms(word.low))


def _is_past(words: Sequence[Word], verb: int) -> bool:
    low = words[verb].low
    if low in known.PAST_VERBS:
        return True
    ended = low.endswith("ed") and verb + 1 < len(words)
    return ended and (verb == 0 or words[verb - 1].low not in known.BE)


# -------------------------------------------------------------------- where a condition begins and ends


def _opening_end(words: Sequence[Word]) -> int | None:
    """Return where a clause or phrase at the beginning of a sentence ends; None when that is unclear."""
    low = [word.low for word in words]
    comma = _index(low, (",",))
    if comma is not None:
        return comma
    if low[0] in known.TERMS:  # at the pronoun that takes its subject up again
        return _index(low, ("it", "they", "we", "you"), 3)
    start = 2 if len(low) > 1 and low[1] in known.ARTICLES else 1
    found = _index(low, known.ARTICLES | known.PRONOUNS | known.BE, start + 1)
    return found if found is not None else start + 1 if len(low) > start + 2 else None


def _clause_start(words: Sequence[Word]) -> int | None:
    """Return where a clause or phrase after the main clause begins, or None; "after 30 days" is a value
    instead.
    """
    for at in range(1, len(words)):
        low = words[at].low
        if low in known.TERMS:
            return at
        if (
            low in known.SIDES
            and at + 1 < len(words)
            and words[at + 1].kind not in ("number", "date", "time")
        ):
            return at
    return None


# -------------------------------------------------------------------- presence, owners, tools, places


def _read_existence(words: list[Word], low: list[str]) -> _Core | None:
    """Parse a sentence which says that a thing exists; return None for other sentences."""
    ours = low[0] in ("we", "wir")
    thing = _existing_thing(words, low)
    if thing is None:
        return None
    numbers = [word for word in thing if word.kind == "number"]
    value = _quantity(numbers[0]) if len(numbers) == 1 else None
    left = known.QUALIFIERS.union(word.low for word in numbers)
    subject = [word for word in thing if word.low not in left]
    if ours and numbers:
        return _Core((), stem(subject[0].low) if subject else "have", value, numbers)
    return _Core(subject, "presence", value, numbers if value else ())


def _existing_thing(words: list[Word], low: list[str]) -> list[Word] | None:
    if " ".join(low[:2]) in ("es gibt", "there is", "there are", "there was", "there were", "there be"):
        return words[2:]
    if "exist" in map(stem, low[1:]):
        return [word for word in words if stem(word.low) != "exist"]
    if low[0] in ("we", "wir") and len(low) > 2 and low[1] in ("have", "haben", "do"):
        return [word for word in words[2:] if word.low != "have"]
    return None


def _read_responsible(words: list[Word], low: list[str]) -> _Core | None:
    """Parse who is responsible ("in charge of", "ask X about", "für … zuständig"); else return None."""
    joined = f" {' '.join(low)} "
    for phrase, length, tail in _ANSWERING:
        at = joined.find(phrase)
        if at > 0 and joined.endswith(tail):
            where = joined[:at].count(" ")
            who = [word for word in words[:where] if word.low not in known.BE]
            about = words[where + length : len(words) - len(tail.split())]
            return _Core(about, "owner", _name(who), who)
    topic = _index(low, ("about", "for"), 2) if low[0] in ("ask", "contact") else None
    return _Core(words[topic + 1 :], "owner", _name(words[1:topic]), words[1:topic]) if topic else None


def _read_owner(words: list[Word], low: list[str]) -> _Core | None:
    """Parse a sentence which names the owner of a thing; return None for other sentences."""
    at = _verb_at(words)
    if at is None or at + 1 >= len(words):
        return None
    if low[at] in known.BE:
        return _read_owned_by(words, low, at)
    if low[at] in ("belongs", "belong", "gehört", "gehören"):
        who = [word for word in words[at + 1 :] if word.low != "to"]
        return _Core(words[:at], "owner", _name(who), who)
    if at and _is_someone(words, low, at):
        return _Core(words[at + 1 :], "owner", _name(words[:at]), words[:at])
    return None


def _read_owned_by(words: list[Word], low: list[str], at: int) -> _Core | None:
    """Parse "the owner of X is Y" and "X is owned by Y"; return None for other sentences."""
    if "owner" in low[:at]:
        about = [word for word in words[:at] if word.low not in ("owner", "of")]
        return _Core(about, "owner", _name(words[at + 1 :]), words[at + 1 :])
    if "by" in low[at:] and is_owning(low[at + 1]):
        who = words[low.index("by") + 1 :]
        return _Core(words[:at], "owner", _name(who), who)
    return None


def _is_someone(words: Sequence[Word], low: Sequence[str], end: int) -> bool:
    """Whether the words at the beginning name a person or team that owns, leads or runs the object."""
    if not is_owning(low[end]) and not (low[end] in ("run", "runs") and "team" in low[:end]):
        return False
    named = words[0].raw[:1].isupper() and words[0].low not in known.PRONOUNS
    return named or words[end - 1].low in known.GROUPS


def _read_tool(words: list[Word], low: list[str]) -> _Core | None:
    """Parse a sentence which names the tool for a task; return None for other sentences."""
    tool = _index(low, ("with", "using", "via", "mit"), 1)
    if (
        tool is None
        or tool + 1 >= len(words)
        or not any(verb_base(each) in known.TOOLED for each in low[:tool])
    ):
        return None
    plain = ("run", "do", "make", "work")
    about = [word for word in words[:tool] if word.low not in known.BE and stem(word.low) not in plain]
    return _Core(_object_of(about), "use", _name(words[tool + 1 :]), words[tool + 1 :])


def _object_of(about: list[Word]) -> list[Word]:
    """Return the words for the task of a tool: "tests" of "tests are run", "deploy" of "we deploy"."""
    verb = _verb_at(about)
    if verb is None or len(about) < 2:
        return about
    if verb == 0:
        return about[1:]
    return about[verb:] if about[0].low in known.PRONOUNS else about[:verb]


def _subject_of_language(words: Sequence[Word], start: int) -> Sequence[Word]:
    """Return the words for what is in a language: "answers" of "wants answers in", "docs" of
    "write docs in".
    """
    verb = _verb_at(words)
    if verb is None:
        return words[:start]
    if verb == 0:
        return words[1:start] if start > 1 else words[:start]
    return words[verb + 1 : start] if stem(words[verb].low) == "want" and verb + 1 < start else words[:verb]


def _place_verb(low: Sequence[str], at: int) -> int:
    """Return where the verb before a phrase of place begins; 0 if the phrase at `at` names no place."""
    if low[at + 1] in known.NO_PLACE:
        return 0
    before = stem(low[at - 1])
    stored = before in known.STORED_STEMS or low[at - 1] in known.STORED
    if stored and low[at] in ("on", "from") and before not in known.RUNNING:
        return 0
    plain = low[at - 1] in known.BE and low[at] in ("in", "at", "under", "inside", "unter")
    start = _index(low[:at], known.BE)
    return (at - 1 if start is None else start) if stored or plain else 0


# -------------------------------------------------------------------- values


def _read_value(words: list[Word], verb: int, at: int) -> _Core:
    """Parse a sentence that has a number, day or date after its verb."""
    word, low = words[at], words[verb].low
    subject = [each for each in words[:verb] if each.low not in known.PRONOUNS]
    between = [each.low for each in words[verb + 1 : at] if each.low not in known.FUNCTION_WORDS]
    after = [each for each in words[at + 1 :] if each.low not in known.FILLERS]
    counted = word.kind == "number" and not word.unit and bool(after) and not after[0].kind
    if counted and (low in known.BE or low in ("hold", "holds")):
        word = word._replace(unit=" ".join(each.low for each in after))
    value = _quantity(word)
    if between[-1:] == ["port"] or low in ("listen", "listens"):
        return _Core(subject, "port", value, [words[at]])
    if low in known.BE:
        return _read_attribute(subject, between, value, words[at], at_hour=words[at - 1].low == "at")
    if counted and low not in ("hold", "holds"):
        return _Core(subject, after[0].low, value, [words[at]])
    if word.kind == "day" and not subject:
        return _Core([words[verb]], "time", value, [words[at]])
    return _Core(subject, verb_base(low), value, [words[at]])


def _read_attribute(
    subject: list[Word], between: list[str], value: Quantity, word: Word, *, at_hour: bool
) -> _Core:
    """Parse "X is V", and find which attribute of X the value V belongs to."""
    if between and verb_base(between[0]) in known.VERBS:
        return _Core(subject, verb_base(between[0]), value, [word])
    noun = subject[-1].low if subject else ""
    if noun.removesuffix("s") in known.ATTRIBUTES:
        return _Core(subject[:-1], noun, value, [word])
    if len(subject) > 2 and subject[0].low in known.ATTRIBUTES and subject[1].low in ("for", "of"):
        return _Core(subject[2:], subject[0].low, value, [word])
    attribute = "time" if at_hour and subject else _KIND_ATTRIBUTES.get(value.kind, "is")
    return _Core(subject, attribute, value, [word])


def _is(subject: list[Word], rest: list[Word]) -> _Core:
    first, noun = rest[0], subject[-1].low if subject else ""
    if first.low in ("called", "named", "known") and len(rest) > 1:
        named = [word for word in rest[1:] if word.low != "as"]
        return _Core(subject, "name", _name(named), named)
    if noun in known.ATTRIBUTES and len(rest) == 1:
        return _Core(subject[:-1], noun, _name(rest), rest)
    if (
        subject
        and not first.kind
        and first.low.endswith(("ed", "en", "t"))
        and verb_base(first.low) in known.VERBS
    ):
        return _passive(subject, verb_base(first.low), rest[1:])
    if len(rest) == 1 and subject:
        kind = "name" if first.kind == "name" else "word"
        return _Core(subject, "is", Quantity(kind, first.text or first.low), rest)
    return _Core(subject, "is", Quantity("words", _join_words(rest)))


def _passive(subject: list[Word], verb: str, more: list[Word]) -> _Core:
    if more and more[0].low == "by":
        return _Core(subject, verb, _name(more[1:]), more[1:])
    return _Core(subject, verb, Quantity("words", _join_words(more)) if more else None)


def _name(words: Sequence[Word]) -> Quantity:
    """Return some words as one value: the name of a person or thing, without articles."""
    terms = [word for word in words if word.low not in known.ARTICLES and word.low not in _MARKS]
    kind = next((name for name, listed in known.KINDS.items() if terms and terms[0].low in listed), "")
    return Quantity(kind or "name", " ".join(word.text or word.low for word in terms))


def _only_value(words: Sequence[Word]) -> Quantity | None:
    """Return the only value among some words, if a word such as "after", "at" or "in" stands before it.

    The name of a thing of a known kind, such as a database, is a value wherever it stands.
    """
    values = [at for at, word in enumerate(words) if word.kind in _NO_PLACE_KINDS]
    if not values:
        listed = [word for word in words if synonyms.kind_of(word.low)]
        if len(listed) == 1:
            return Quantity("name", listed[0].text or listed[0].low)
    fits = len(values) == 1 and values[0] > 1 and words[values[0] - 1].low in _LEADING
    return _quantity(words[values[0]]) if fits else None


def _join_low(words: Sequence[Word]) -> str:
    return " ".join(word.low for word in words if word.low not in _MARKS)


def _quantity(word: Word) -> Quantity:
    return Quantity(word.kind, word.text, word.unit, word.number)


def _join_words(words: Sequence[Word]) -> str:
    return " ".join(word.text or word.low for word in words if word.low not in _MARKS)
