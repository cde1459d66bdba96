"""Whether two statements cannot both be true.

A sentence makes claims: a topic with one value, or a topic that is so or not so. Two claims about one topic,
on the same terms, exclude each other when their values do. What was, will be, may be or is asked claims
nothing; another condition makes another claim, and the same condition the same one.
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

ANOTHER_VALUE = "the same, with another value"
ANOTHER_CHOICE = "another choice for the same"
DENIED = "one denies the other"
OTHER_OWNER = "another owner of the same"
OTHER_PLACE = "another place of the same"
OTHER_LANGUAGE = "another language of the same"
OTHER_STATE = "the opposite state of the same"
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
_OPEN: Final = frozenset({"contrast", "nobody", "never", "using"})  # said of more than their words name
_NAMED: Final = frozenset({"choice", "name"})
_NAMES: Final = _NAMED | {"place", "run"}
_VERBAL: Final = frozenset("call talk read send check skip like want access edit accept return".split())


class Assertion(NamedTuple):
    """What a statement holds: whatever has the same key and a value that excludes this one contradicts it."""

    key: tuple[object, ...]
    value: Quantity
    rule: str
    specific: bool  # whether its words alone tell what it is about
    certain: bool  # whether nobody needs to look at it
    field: bool = False  # whether it is one of what it stands in, and does not say whose: "Stars: 400"

    @property
    def topic(self) -> frozenset[str]:
        """What it is about."""
        topic = self.key[-2]
        assert isinstance(topic, frozenset)
        return topic


def excludes(one: Quantity, other: Quantity) -> bool:
    """Whether of two values of one thing only one can be right."""
    if one.kind != other.kind or (one.text, one.unit) == (other.text, other.unit):
        return False
    if one.number is not None and other.number is not None:
        return _amount(one) != _amount(other)
    if one.kind == "date":
        return not (one.text.endswith(other.text) or other.text.endswith(one.text))
    return one.kind != "name" or _are_two_names(one.text, other.text)


def _are_two_names(one: str, other: str) -> bool:
    """Whether neither is a part of the other: a folder and one inside it, a name and a longer one."""
    mine, theirs = one.rstrip("/"), other.rstrip("/")
    if f"{mine}/".startswith(f"{theirs}/") or f"{theirs}/".startswith(f"{mine}/"):
        return False
    first, second = {stem(word) for word in mine.split()}, {stem(word) for word in theirs.split()}
    return not (first <= second or second <= first)


def claims(said: Reading) -> Iterator[Assertion]:
    """What a statement claims of the present."""
    if not said.said or said.tense != PRESENT or not said.everything:
        return
    if said.labelled and (said.attribute == "do" or said.topic & _LOGGED):
        return
    if said.polarity and said.modality != MAY:
        yield from _values(said)
        yield from _contrasts(said)
    if _is_denial(said):
        yield from _denials(said)


def reworded(said: Reading) -> Iterator[Assertion]:
    """What a statement claims in the plainest words, to be held against what is worded otherwise.

    No such claim is certain: words that stand for the same mostly, do not always.
    """
    left = _OPEN | {"says"} if said.loose else _OPEN
    found = [claim for claim in claims(said) if not claim.field and claim.key[0] not in left]
    return map(_plainest, [*found, *_loose(said)])


def _loose(said: Reading) -> Iterator[Assertion]:
    """What is claimed of the only value of a sentence that no rule took apart."""
    value = said.loose
    affirmed = said.said and said.polarity and said.tense == PRESENT and said.modality != MAY
    if value is None or not affirmed:
        return
    stood = f"{value.text} {value.unit}".strip() if value.kind == "number" else stem(value.text)
    kind: tuple[object, ...] = ("language",) if value.kind == "language" else ("choice",)
    if value.kind in _MEASURED:
        kind = (_dimension(value) if value.kind == "number" else value.kind, said.bound)
    yield from _made(kind, said.everything - {stood, value.text}, said, value, ANOTHER_VALUE)


def _plainest(claim: Assertion) -> Assertion:
    """A claim by the plainest words; what is used and what it is called are both a name of the same."""
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


def _is_denial(said: Reading) -> bool:
    """Whether the opposite would contradict it: not what may be so, and no mere heading ("no clear path")."""
    fact = said.attribute in ("is", "state") or (said.value is not None and said.value.kind == "number")
    open_ = said.modality == MAY and said.polarity and fact
    return not open_ and (said.attribute != "do" or bool(said.modality))


def contradiction(one: str, other: str) -> str:
    """The rule by which two sentences about the same contradict each other; nothing when they do not."""
    theirs = {claim.key: claim for claim in claims(meaning.read(other))}
    for claim in claims(meaning.read(one)):
        found = theirs.get(claim.key)
        if found is not None and excludes(claim.value, found.value):
            return claim.rule
    return ""


def find_opposed(texts: Sequence[str]) -> dict[int, int]:
    """The texts, from 0, of which another one says the opposite, each with one that does."""
    held: dict[tuple[object, ...], dict[Quantity, list[int]]] = {}
    for at, text in enumerate(texts):
        for key, value in _stated(text):
            held.setdefault(key, {}).setdefault(value, []).append(at)
    found: dict[int, int] = {}
    for values in held.values():
        for one, other in itertools.combinations([*values][:_VALUES], 2):
            if excludes(one, other):
                for mine, theirs in ((values[one], values[other]), (values[other], values[one])):
                    for at in mine:
                        # A text that says both itself speaks of two things.
                        if at not in theirs:
                            found.setdefault(at, theirs[0])
    return found


def _stated(text: str) -> Iterator[tuple[tuple[object, ...], Quantity]]:
    """What a text claims, in its own words and in the plainest."""
    for said in statement.split(text):
        read = meaning.read(said.text)
        yield from ((claim.key, claim.value) for claim in claims(read))
        yield from ((("reworded", *claim.key), claim.value) for claim in reworded(read))


# -------------------------------------------------------------------- values


def _values(said: Reading) -> Iterator[Assertion]:
    value = said.value
    if value is None or said.many:
        return
    if value.kind in _MEASURED:
        kind = _dimension(value) if value.kind == "number" else value.kind
        yield from _made((kind, said.bound), said.topic - _LINKING, said, value, ANOTHER_VALUE)
    elif value.kind.startswith("state"):
        state = value._replace(text=known.same_state(value.text))
        yield from _made((value.kind,), said.topic, said, state, OTHER_STATE)
    elif said.attribute in _CLASSES or value.kind == "name":
        yield from _named(said, value)


def _named(said: Reading, value: Quantity) -> Iterator[Assertion]:
    words = len(value.text.split())
    if said.attribute in _VERBAL or words > _LONGEST_NAME or not _is_name(said, value):
        return
    name, rule = _CLASSES.get(said.attribute, (said.attribute, ANOTHER_VALUE))
    topic = said.topic - _CHOOSING if said.attribute in ("use", "is") else _subject(said)
    if said.attribute not in _CLASSES:
        topic |= {stem(said.attribute)}
    exact = said.attribute != "place" or "/" in value.text or "." in value.text
    value = value._replace(kind="name") if value.kind == "word" else value
    yield from _made((name,), topic, said, value, rule, certain=words <= 2 and exact)


def _is_name(said: Reading, value: Quantity) -> bool:
    """Whether a value is the name of a thing; small letters name one only where there is one of a kind."""
    return value.kind != "words" and (
        value.kind != "word" or known.is_thing(value.text, said.subject.split(" ")[-1])
    )


def _contrasts(said: Reading) -> Iterator[Assertion]:
    """Words that exclude each other wherever they stand: tabs and spaces, dark and light."""
    found = [word for word in said.everything if word in _CONTRAST_STEMS]
    if len(found) == 1:
        value = Quantity(_CONTRAST_STEMS[found[0]], found[0])
        topic = said.everything - {found[0]}
        yield from _made(("contrast",), topic, said, value, ANOTHER_CHOICE, certain=False)


# -------------------------------------------------------------------- yes and no


def _denials(said: Reading) -> Iterator[Assertion]:
    value = Quantity("truth", "yes" if said.polarity else "no")
    every = said.everything - {"do"}
    if len(every) > 1:
        yield from _made(("says",), every, said, value, DENIED, certain=said.modality != MAY)
    rest = every - _HAVING
    if said.attribute == "presence" or (len(rest) > 1 and rest != every):
        yield from _made(("has",), rest, said, value, NOT_THERE, certain=False)
    yield from _nobody(said, every, value)
    yield from _wider(said, every, value)
    yield from _using(said, every, value)


def _nobody(said: Reading, every: frozenset[str], value: Quantity) -> Iterator[Assertion]:
    """What "nobody may do it" denies: that anyone does."""
    if said.denied in known.NOBODY:
        yield from _made(("nobody",), every, said, value, DENIED, certain=False)
    elif said.polarity and said.subject and said.attribute not in ("do", "is", "state"):
        acts = every - _subject(said)
        yield from _made(("nobody",), acts, said, value, DENIED, certain=False) if len(acts) > 1 else ()


def _subject(said: Reading) -> frozenset[str]:
    return frozenset(stem(word) for word in said.subject.split())


def _wider(said: Reading, every: frozenset[str], value: Quantity) -> Iterator[Assertion]:
    """What "never" also denies: "rotate the keys every month"."""
    timed = said.value is not None and said.value.kind == "number"
    never = said.denied in ("never", "nie", "niemals") and said.value is None
    topic = said.topic if said.polarity and timed else every if never else frozenset[str]()
    if len(topic) > 1:
        yield from _made(("never",), topic, said, value, DENIED, certain=False)


def _using(said: Reading, every: frozenset[str], value: Quantity) -> Iterator[Assertion]:
    """What "do not use X" also denies: "use X for Y"; "use X" says nothing against "do not use X for Y"."""
    used = frozenset[str]()
    if said.polarity and said.attribute == "use" and said.value is not None:
        used = frozenset(stem(word) for word in said.value.text.split())
    elif not said.polarity and "use" in every and not said.terms and said.value is None:
        used = every - {"use"}
    for made in _made(("using",), used, said, value, DENIED):
        yield made._replace(key=(*made.key[:-1], frozenset()), specific=False)


def _made(
    kind: tuple[object, ...],
    topic: frozenset[str],
    said: Reading,
    value: Quantity,
    rule: str,
    *,
    certain: bool = True,
) -> Iterator[Assertion]:
    """The claim, if there is anything that it is about."""
    topic = topic - known.EMPTY
    if topic or kind == ("owner",):
        # A field ("Result: 12 s") tells nothing of another record's, nor whose it is in its own.
        specific = not said.labelled and bool(topic - GENERIC)
        terms = said.terms - known.EMPTY
        certain = certain and not terms and not said.labelled
        yield Assertion((*kind, topic, terms), value, rule, specific, certain, said.labelled)


def _dimension(value: Quantity) -> str:
    first = value.unit.split(" ")[0]
    return f"number {UNITS[first][0]}" if first in UNITS else "number"


def _amount(value: Quantity) -> tuple[float, str]:
    first, _, per = value.unit.partition(" ")
    factor = UNITS[first][1] if first in UNITS else 1.0
    return (value.number or 0.0) * factor, per if first in UNITS else ""
