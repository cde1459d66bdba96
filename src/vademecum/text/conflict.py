"""Decide whether two statements cannot both be true.

A sentence makes claims: a topic with a value, or a topic that is or is not so. Two claims about one topic, on
the same condition, exclude each other when their values do. A question and a statement about the past, the
future or a possibility claim nothing.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

from vademecum.text import meaning, statement, synonyms
from vademecum.text import vocabulary as known
from vademecum.text.meaning import MAY, PRESENT, Reading
from vademecum.text.vocabulary import CONTRASTS, UNITS, Quantity, stem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ANOTHER_VALUE = "the same thing, with another value"
ANOTHER_CHOICE = "another choice for the same thing"
DENIED = "one denies the other"
OTHER_OWNER = "another owner of the same thing"
OTHER_PLACE = "another place of the same thing"
OTHER_LANGUAGE = "another language of the same thing"
OTHER_STATE = "the opposite state of the same thing"
NOT_THERE = "one says that it is there, the other that it is not"

# Words that name a kind of value or an everyday act, and not whose value it is.
GENERIC: Final = frozenset(
    stem(word)
    for word in """default port timeout limit version size max min name path url host maximum minimum
    value number count current main new server service file folder branch key table config configuration
    setting test build status state type mode level interval database address user owner deadline total
    length rate line time run use take have make do set go need keep start end stay get work live last
    code project job system tool thing command script page item old expire install answer
    write call rest other same former latter fix bug problem issue reason idea goal plan next cause solution
    workaround change error function method class module part section step task entry record note document
    first second following example one""".split()
)
_LINKING: Final = frozenset(
    stem(word)
    for word in "listen run use default set bind have exist do current need hold restrict cap most".split()
)
_HAVING: Final = frozenset(
    stem(word)
    for word in "have need use support contain include exist require offer provide work us there".split()
)
_CHOOSING: Final = frozenset(
    stem(word) for word in "use us prefer rely run do make with using via on".split()
)
_CONTRAST_STEMS: Final = {stem(word): group for word, group in CONTRASTS.items()}
_CLASSES: Final = {
    "owner": ("owner", OTHER_OWNER),
    "place": ("place", OTHER_PLACE),
    "language": ("language", OTHER_LANGUAGE),
    "use": ("choice", ANOTHER_CHOICE),
    "name": ("name", ANOTHER_VALUE),
    "is": ("choice", ANOTHER_CHOICE),
}
# Fields that every page has of its own.
_LOGGED: Final = frozenset(
    stem(word)
    for word in """result note notes source detail design effort status research see reference summary
    output log elapsed duration score step task date time updated created author title tags total
    priority goal context""".split()
)
_VALUES = 40  # of one thing that are held against each other
_LONGEST_NAME = 4  # words of a value; more is a description
_MEASURED: Final = frozenset({"number", "version", "date", "time", "day"})
_OPEN: Final = frozenset({"contrast", "nobody", "never", "using"})  # of more than their words name
_NAMED: Final = frozenset({"choice", "name"})
_NAMES: Final = _NAMED | {"place", "run"}
_VERBAL: Final = frozenset("call talk read send check skip like want access edit accept return".split())


class Assertion(NamedTuple):
    """A claim of a statement: a key (with the topic) and a value.

    Claims with the same key conflict if their values exclude each other.
    """

    key: tuple[object, ...]
    value: Quantity
    rule: str
    specific: bool  # whether its words alone tell what it is about
    certain: bool  # whether nobody needs to look at it
    field: bool = False  # whether it is one of what it stands in, and does not say whose: "Stars: 400"

    @property
    def topic(self) -> frozenset[str]:
        """The word stems that say what the claim is about."""
        topic = self.key[-2]
        assert isinstance(topic, frozenset)
        return topic


def excludes(one: Quantity, other: Quantity) -> bool:
    """Whether two values of the same thing cannot both be right."""
    if one.kind != other.kind or (one.text, one.unit) == (other.text, other.unit):
        return False
    if one.number is not None and other.number is not None:
        return _amount(one) != _amount(other)
    if one.kind == "date":
        return not (one.text.endswith(other.text) or other.text.endswith(one.text))
    return one.kind != "name" or _are_two_names(one.text, other.text)


def _are_two_names(one: str, other: str) -> bool:
    """Whether two names mean different things: neither is a part of the other, as a folder is of a path."""
    mine, theirs = one.rstrip("/"), other.rstrip("/")
    if f"{mine}/".startswith(f"{theirs}/") or f"{theirs}/".startswith(f"{mine}/"):
        return False
    first, second = {stem(word) for word in mine.split()}, {stem(word) for word in theirs.split()}
    return not (first <= second or second <= first)


def claims(reading: Reading) -> Iterator[Assertion]:
    """Yield the claims of a parsed statement about the present; other statements claim nothing."""
    if not reading.stated or reading.tense != PRESENT or not reading.everything:
        return
    if reading.labelled and (reading.attribute == "do" or reading.topic & _LOGGED):
        return
    if reading.polarity and reading.modality != MAY:
        yield from _value_claims(reading)
        yield from _contrast_claims(reading)
    if _is_denial(reading):
        yield from _denial_claims(reading)


def plain_claims(reading: Reading) -> Iterator[Assertion]:
    """Yield the claims of a statement with synonyms replaced, to compare them with other wordings.

    No such claim is certain, because synonyms do not always mean the same.
    """
    left = _OPEN | {"says"} if reading.loose else _OPEN
    found = [claim for claim in claims(reading) if not claim.field and claim.key[0] not in left]
    return map(_plainest, [*found, *_loose_claims(reading)])


def _loose_claims(reading: Reading) -> Iterator[Assertion]:
    """Yield a claim about the only value of a sentence, where no other rule understood the sentence."""
    value = reading.loose
    affirmed = reading.stated and reading.polarity and reading.tense == PRESENT and reading.modality != MAY
    if value is None or not affirmed:
        return
    stood = f"{value.text} {value.unit}".strip() if value.kind == "number" else stem(value.text)
    kind: tuple[object, ...] = ("language",) if value.kind == "language" else ("choice",)
    if value.kind in _MEASURED:
        kind = (_dimension(value) if value.kind == "number" else value.kind, reading.bound)
    yield from _make_claim(kind, reading.everything - {stood, value.text}, reading, value, ANOTHER_VALUE)


def _plainest(claim: Assertion) -> Assertion:
    """Return a claim with its synonyms replaced; a choice and a name become claims of the same kind."""
    *kind, topic, terms = claim.key
    lasting = str(kind[0]) in ("number time", "number months")
    topic = synonyms.plain(topic, lasting=lasting)
    of = synonyms.kind_of(claim.value.text) if kind[0] in _NAMES else None
    if of is not None:
        kind, topic = ["named", of.line], (topic - of.about) or frozenset({of.name})
    elif kind[0] in _NAMED:
        kind = ["named"]
    specific = claim.specific or len(topic) > 1 or of is not None
    return claim._replace(key=(*kind, topic, synonyms.plain(terms)), certain=False, specific=specific)


def _is_denial(reading: Reading) -> bool:
    """Whether a statement, denied or not, excludes its opposite: a possibility and a heading do not."""
    fact = reading.attribute in ("is", "state") or (
        reading.value is not None and reading.value.kind == "number"
    )
    open_ = reading.modality == MAY and reading.polarity and fact
    return not open_ and (reading.attribute != "do" or bool(reading.modality))


def contradiction(one: str, other: str) -> str:
    """Return the rule by which two sentences contradict each other; empty when they do not."""
    theirs = {claim.key: claim for claim in claims(meaning.read(other))}
    for claim in claims(meaning.read(one)):
        found = theirs.get(claim.key)
        if found is not None and excludes(claim.value, found.value):
            return claim.rule
    return ""


def find_opposed(texts: Sequence[str]) -> dict[int, int]:
    """Return the numbers, from 0, of texts that another text contradicts, each with that other
    text's number.
    """
    values_by_key: dict[tuple[object, ...], dict[Quantity, list[int]]] = {}
    for at, text in enumerate(texts):
        for key, value in _read_claims(text):
            values_by_key.setdefault(key, {}).setdefault(value, []).append(at)
    found: dict[int, int] = {}
    for values in values_by_key.values():
        for one, other in itertools.combinations([*values][:_VALUES], 2):
            if excludes(one, other):
                for mine, theirs in ((values[one], values[other]), (values[other], values[one])):
                    for at in mine:
                        # A text that says both itself speaks of two things.
                        if at not in theirs:
                            found.setdefault(at, theirs[0])
    return found


def _read_claims(text: str) -> Iterator[tuple[tuple[object, ...], Quantity]]:
    """Yield the keys and values of a text's claims, in its own words and with synonyms replaced."""
    for reading in statement.split(text):
        read = meaning.read(reading.text)
        yield from ((claim.key, claim.value) for claim in claims(read))
        yield from ((("reworded", *claim.key), claim.value) for claim in plain_claims(read))


# -------------------------------------------------------------------- values


def _value_claims(reading: Reading) -> Iterator[Assertion]:
    value = reading.value
    if value is None or reading.many:
        return
    if value.kind in _MEASURED:
        kind = _dimension(value) if value.kind == "number" else value.kind
        yield from _make_claim((kind, reading.bound), reading.topic - _LINKING, reading, value, ANOTHER_VALUE)
    elif value.kind.startswith("state"):
        state = value._replace(text=known.same_state(value.text))
        yield from _make_claim((value.kind,), reading.topic, reading, state, OTHER_STATE)
    elif reading.attribute in _CLASSES or value.kind == "name":
        yield from _name_claims(reading, value)


def _name_claims(reading: Reading, value: Quantity) -> Iterator[Assertion]:
    words = len(value.text.split())
    if reading.attribute in _VERBAL or words > _LONGEST_NAME or not _is_name(reading, value):
        return
    name, rule = _CLASSES.get(reading.attribute, (reading.attribute, ANOTHER_VALUE))
    topic = reading.topic - _CHOOSING if reading.attribute in ("use", "is") else _subject(reading)
    if reading.attribute not in _CLASSES:
        topic |= {stem(reading.attribute)}
    exact = reading.attribute != "place" or "/" in value.text or "." in value.text
    value = value._replace(kind="name") if value.kind == "word" else value
    yield from _make_claim((name,), topic, reading, value, rule, certain=words <= 2 and exact)


def _is_name(reading: Reading, value: Quantity) -> bool:
    """Whether a value is a name: a word in lower case may be one, as in "the broker is kafka", but not a
    quality, as in "it is slow".
    """
    return value.kind != "words" and (
        value.kind != "word" or known.is_thing(value.text, reading.subject.split(" ")[-1])
    )


def _contrast_claims(reading: Reading) -> Iterator[Assertion]:
    """Yield claims of words that always exclude each other, such as tabs and spaces, or dark and light."""
    found = [word for word in reading.everything if word in _CONTRAST_STEMS]
    if len(found) == 1:
        value = Quantity(_CONTRAST_STEMS[found[0]], found[0])
        topic = reading.everything - {found[0]}
        yield from _make_claim(("contrast",), topic, reading, value, ANOTHER_CHOICE, certain=False)


# -------------------------------------------------------------------- yes and no


def _denial_claims(reading: Reading) -> Iterator[Assertion]:
    value = Quantity("truth", "yes" if reading.polarity else "no")
    every = reading.everything - {"do"}
    if len(every) > 1:
        yield from _make_claim(("says",), every, reading, value, DENIED, certain=reading.modality != MAY)
    rest = every - _HAVING
    if reading.attribute == "presence" or (len(rest) > 1 and rest != every):
        yield from _make_claim(("has",), rest, reading, value, NOT_THERE, certain=False)
    yield from _nobody_claims(reading, every, value)
    yield from _never_claims(reading, every, value)
    yield from _usage_claims(reading, every, value)


def _nobody_claims(reading: Reading, every: frozenset[str], value: Quantity) -> Iterator[Assertion]:
    """Yield the claim that lets "nobody may do it" conflict with a statement that anyone does it."""
    if reading.denied in known.NOBODY:
        yield from _make_claim(("nobody",), every, reading, value, DENIED, certain=False)
    elif reading.polarity and reading.subject and reading.attribute not in ("do", "is", "state"):
        acts = every - _subject(reading)
        yield from (
            _make_claim(("nobody",), acts, reading, value, DENIED, certain=False) if len(acts) > 1 else ()
        )


def _subject(reading: Reading) -> frozenset[str]:
    return frozenset(stem(word) for word in reading.subject.split())


def _never_claims(reading: Reading, every: frozenset[str], value: Quantity) -> Iterator[Assertion]:
    """Yield the claim that lets "never rotate the keys" conflict with "rotate the keys every month"."""
    timed = reading.value is not None and reading.value.kind == "number"
    never = reading.denied in ("never", "nie", "niemals") and reading.value is None
    topic = reading.topic if reading.polarity and timed else every if never else frozenset[str]()
    if len(topic) > 1:
        yield from _make_claim(("never",), topic, reading, value, DENIED, certain=False)


def _usage_claims(reading: Reading, every: frozenset[str], value: Quantity) -> Iterator[Assertion]:
    """Yield the claim that lets "do not use X" conflict with "use X for Y".

    "Use X" does not conflict with "do not use X for Y".
    """
    used = frozenset[str]()
    if reading.polarity and reading.attribute == "use" and reading.value is not None:
        used = frozenset(stem(word) for word in reading.value.text.split())
    elif not reading.polarity and "use" in every and not reading.terms and reading.value is None:
        used = every - {"use"}
    for made in _make_claim(("using",), used, reading, value, DENIED):
        yield made._replace(key=(*made.key[:-1], frozenset()), specific=False)


def _make_claim(
    kind: tuple[object, ...],
    topic: frozenset[str],
    reading: Reading,
    value: Quantity,
    rule: str,
    *,
    certain: bool = True,
) -> Iterator[Assertion]:
    """Yield a claim made of these parts, or nothing if its topic is empty."""
    topic = topic - known.EMPTY
    if topic or kind == ("owner",):
        # A field ("Result: 12 s") tells nothing of another record's, nor whose it is in its own.
        specific = not reading.labelled and bool(topic - GENERIC)
        terms = reading.terms - known.EMPTY
        certain = certain and not terms and not reading.labelled
        yield Assertion((*kind, topic, terms), value, rule, specific, certain, reading.labelled)


def _dimension(value: Quantity) -> str:
    first = value.unit.split(" ")[0]
    return f"number {UNITS[first][0]}" if first in UNITS else "number"


def _amount(value: Quantity) -> tuple[float, str]:
    first, _, per = value.unit.partition(" ")
    factor = UNITS[first][1] if first in UNITS else 1.0
    return (value.number or 0.0) * factor, per if first in UNITS else ""
