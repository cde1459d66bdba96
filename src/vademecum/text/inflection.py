"""Which words are forms of one word: "copies", "copied" and "copy", but not "copier".

English words are taken back to the forms they can come from. For German, French and Spanish only the
endings of number and tense are known. Of a language that is not known here no two words are forms of one.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from vademecum.text import vocabulary
from vademecum.text.grammar import ENGLISH, FRENCH, GERMAN, SPANISH

if TYPE_CHECKING:
    from collections.abc import Iterable

_IRREGULAR: Final = {
    form: base
    for base, forms in (
        line.split(": ")
        for line in """be: am is are been being
was: were
have: has having
do: does did done doing
go: goes went gone
begin: began begun
bend: bent
bite: bit bitten
blow: blew blown
break: broke broken
bring: brought
build: built
burn: burnt
buy: bought
catch: caught
choose: chose chosen
come: came
creep: crept
deal: dealt
dig: dug
draw: drew drawn
drink: drank drunk
drive: drove driven
eat: ate eaten
fall: fell fallen
feed: fed
feel: felt
fight: fought
find: found
fly: flew flown
forbid: forbade forbidden
forget: forgot forgotten
freeze: froze frozen
get: got gotten
give: gave given
grow: grew grown
hang: hung
hear: heard
hide: hid hidden
hold: held
keep: kept
know: knew known
lead: led
learn: learnt
lend: lent
lose: lost
make: made
meet: met
pay: paid
rebuild: rebuilt
rerun: reran
rewrite: rewrote rewritten
ride: rode ridden
ring: rang rung
rise: rose risen
run: ran
say: said
see: saw seen
seek: sought
sell: sold
send: sent
resend: resent
shake: shook shaken
shoot: shot
show: shown
shrink: shrank shrunk
sing: sang sung
sink: sank sunk
sit: sat
sleep: slept
speak: spoke spoken
spend: spent
stand: stood
steal: stole stolen
stick: stuck
strike: struck
swear: swore sworn
sweep: swept
swim: swam swum
swing: swung
take: took taken
teach: taught
tear: tore torn
tell: told
think: thought
throw: threw thrown
understand: understood
undertake: undertook undertaken
wake: woke woken
wear: wore worn
win: won
withdraw: withdrew withdrawn
write: wrote written
overwrite: overwrote overwritten
override: overrode overridden
child: children
foot: feet
goose: geese
index: indices indexes
man: men
matrix: matrices
mouse: mice
person: people
tooth: teeth
vertex: vertices
woman: women
appendix: appendices
criterion: criteria
knife: knives
shelf: shelves
half: halves
leaf: leaves
life: lives
self: selves
wife: wives
hypothesis: hypotheses
analysis: analyses
basis: bases
crisis: crises""".splitlines()
    )
    for form in forms.split()
}
UNCHANGED = frozenset(
    "cut hit let put read rerun reset run set shut split spread cast cost hurt quit".split()
)
BE = frozenset("be am is are was were been being".split())

# The plural of a noun and the third person of a verb: it lives, two lives.
_OF_TWO = frozenset("lives leaves bases analyses halves shelves indexes".split())

# Words that look like a form of another word and are a word of their own.
_OWN = frozenset(
    """news means goods customs https windows rails pandas always perhaps besides afterwards towards thus
    plus bus gas lens series species analytics physics economics statistics logistics politics mathematics
    ethics kubernetes jenkins postgres keras aws dns css tls does its his hers ours yours theirs this less
    unless across pass process hundred sacred naked wicked red bed shed embed speed seed need feed breed
    indeed exceed proceed proceeds succeed bleed weed deed reed greed evening morning during nothing
    something anything everything string spring king ring thing wing ceiling building meeting training
    meaning setting settings bearing clothing wedding drawing painting housing being saying outing offspring
    sibling darling sterling pudding arms glasses spectacles works waters spirits colours colors
    headquarters premises savings earnings thanks odds looks stairs minutes seconds forces states united
    teams rights""".split()
)
# Of those, the ones that are forms of the other word as well, though not in every sentence.
_OWN_PLURALS = frozenset("minutes seconds forces states teams looks works settings colours colors".split())

_DAYS = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april june july august
    september october november december""".split()
)
_VOWELS = "aeiouy"
_VOWEL_GROUPS = re.compile(r"[aeiouy]+")
_SIBILANT = ("s", "x", "z", "ch", "sh", "o")


def same_word(one: str, other: str, *, language: str) -> bool:
    """Whether two words, in small letters, are one but for number, person and tense."""
    if one == other:
        return True
    if not (one.isalpha() and other.isalpha()):
        return False
    if language == ENGLISH:
        return bool(bases(one) & bases(other))
    if language == GERMAN:
        return _by_endings(one, other, _GERMAN_BE, _GERMAN_ENDINGS)
    if language == FRENCH:
        return _by_endings(one, other, _FRENCH_BE, _FRENCH_ENDINGS) and not {one, other} & _FRENCH_OWN
    if language == SPANISH:
        first, second = _bare(one), _bare(other)
        # An accent alone makes another word: está and esta, papá and papa.
        return first != second and _by_endings(first, second, _SPANISH_BE, _SPANISH_ENDINGS)
    return False


def is_calendar(word: str) -> bool:
    """Whether a word is a day or a month, or several of that day: written as a name, and yet no name."""
    return word in _DAYS or word.removesuffix("s") in _DAYS


# -------------------------------------------------------------------- English


@functools.lru_cache(maxsize=16_384)
def bases(word: str) -> frozenset[str]:
    """The words that an English word may be a form of; itself where it may be none."""
    if word in _IRREGULAR:
        return frozenset({_IRREGULAR[word], *(_singular(word) if word in _OF_TWO else ())})
    if word in _OWN and word not in _OWN_PLURALS:
        return frozenset({word})
    found = {word, *_singular(word), *_present(word)}
    return frozenset({each for each in found if len(each) > 1 or each == word})


@functools.lru_cache(maxsize=4_096)
def gerund_bases(word: str) -> frozenset[str]:
    """The verbs that a word ending in -ing may be a form of."""
    if not word.endswith("ing") or len(word) < 5:
        return frozenset()
    return frozenset(_stems(word[:-3]))


def is_participle(word: str) -> bool:
    """Whether an English word may stand after "is" in a passive."""
    return word in UNCHANGED or word in _IRREGULAR or (word.endswith("ed") and len(word) > 4)


def _singular(word: str) -> Iterable[str]:
    """The word without the -s of a plural or a third person."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return
    yield word[:-1]
    if word.endswith("ies"):
        yield f"{word[:-3]}y"
    elif word.endswith("es") and word[:-2].endswith(_SIBILANT) and len(word) > 4:
        yield word[:-2]


def _present(word: str) -> Iterable[str]:
    """The word without the -ed of a past."""
    if len(word) < 4 or not word.endswith("ed"):
        return
    if word.endswith("eed"):
        yield word[:-1]
    elif word.endswith("ied"):
        yield f"{word[:-3]}y"
        yield word[:-1]
    else:
        yield from _stems(word[:-2])


def _stems(stem: str) -> Iterable[str]:
    """What a verb was before -ed or -ing: "us" was "use", "plann" was "plan", "cach" was "cache"."""
    if len(stem) < 2 or not _VOWEL_GROUPS.search(stem):
        return
    if stem[-1] == stem[-2] and stem[-1] not in _VOWELS:
        # "planned" was "plan" and "filled" was "fill": a list of words tells which.
        if vocabulary.is_listed(stem) or not vocabulary.is_listed(stem[:-1]):
            yield stem
        if vocabulary.is_listed(stem[:-1]) or not vocabulary.is_listed(stem):
            yield stem[:-1]
        return
    yield f"{stem}e"
    if not _doubles(stem):
        yield stem


def _doubles(stem: str) -> bool:
    """Whether a verb would have doubled its last letter: else "hoped" would be of "hop"."""
    short = len(_VOWEL_GROUPS.findall(stem)) == 1
    closed = stem[-1] not in f"{_VOWELS}wx" and stem[-2] in _VOWELS
    return short and closed and (len(stem) < 3 or stem[-3] not in _VOWELS)


# -------------------------------------------------------------------- other languages

_GERMAN_BE = (
    frozenset("ist sind".split()),
    frozenset("war waren".split()),
    frozenset("hat haben".split()),
    frozenset("hatte hatten".split()),
    frozenset("wird werden".split()),
    frozenset("wurde wurden".split()),
    frozenset("läuft laufen lief liefen".split()),
    frozenset("kein keine keinen keinem keiner keines".split()),
)
_FRENCH_BE = (
    frozenset("est sont".split()),
    frozenset("était étaient".split()),
    frozenset("a ont".split()),
    frozenset("avait avaient".split()),
    frozenset("va vont allait allaient".split()),
    frozenset("fait font faisait faisaient".split()),
)
_SPANISH_BE = (
    frozenset("es son".split()),
    frozenset("era eran".split()),
    frozenset("esta estan".split()),
    frozenset("estaba estaban".split()),
    frozenset("ha han".split()),
    frozenset("habia habian".split()),
    frozenset("va van".split()),
)
# Endings that change into one another and leave the word the same. -er is not among the German ones (Arbeit
# and
# Arbeiter, schnell and schneller), nor gender among the others (hermano and hermana).
_GERMAN_ENDINGS = (
    frozenset({"", "e", "en", "n"}),
    frozenset({"e", "en", "em", "es"}),
    frozenset({"t", "en", "te", "ten"}),
    frozenset({"et", "en", "ete", "eten"}),
)
_FRENCH_ENDINGS = (
    frozenset({"", "s"}),
    frozenset({"", "x"}),
    frozenset({"al", "aux"}),
    frozenset({"e", "ent"}),
    frozenset({"ait", "aient"}),
)
_SPANISH_ENDINGS = (
    frozenset({"", "s"}),
    frozenset({"", "es"}),
    frozenset({"a", "an"}),
    frozenset({"e", "en"}),
)
_FRENCH_OWN = frozenset("cours temps corps fois mois vers sous plus moins après mars héros".split())
_STEM = 4
_ACUTE = str.maketrans("áéíóú", "aeiou")


def _by_endings(
    one: str, other: str, irregular: Iterable[frozenset[str]], endings: Iterable[frozenset[str]]
) -> bool:
    if any(one in forms and other in forms for forms in irregular):
        return True
    shared = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    shared = min(len(one), len(other)) if shared is None else shared
    return any(one[at:] in ends and other[at:] in ends for at in range(_STEM, shared + 1) for ends in endings)


def _bare(word: str) -> str:
    """A Spanish word without its accents, which come and go with the number: sesión, sesiones."""
    return word.translate(_ACUTE)
