"""Word lists of English, German, French and Spanish, with rules for the forms of words.

English words are reduced to the words they can be forms of: "copies" and "copied" are of "copy", but not
"copier". Of the other languages only the endings of number and tense are known. In an unknown language no two
words are forms of the same word.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

# -------------------------------------------------------------------- what they do in a sentence


ENGLISH, GERMAN, FRENCH, SPANISH = "en", "de", "fr", "es"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEGATIONS: Final = _words(
    """not no never none nobody nothing nowhere neither nor without cannot cant dont doesnt didnt isnt arent
    wasnt werent wont wouldnt shouldnt couldnt mustnt stop avoid except unless instead"""
)

# -------------------------------------------------------------------- what may be left out or shortened

ARTICLES: Final = {
    ENGLISH: _words("a an the that"),
    GERMAN: _words("der die das den dem des ein eine einen einem eines einer"),
    FRENCH: _words("le la les un une l"),
    SPANISH: _words("el la los las un una unos unas"),
}
SHORT: Final = {  # one word that stands for several
    ENGLISH: {
        "can't": "can not",
        "cannot": "can not",
        "won't": "will not",
        "shan't": "shall not",
        "ain't": "is not",
        "let's": "let us",
        "i'm": "i am",
    },
    GERMAN: {
        "im": "in dem",
        "am": "an dem",
        "zum": "zu dem",
        "zur": "zu der",
        "vom": "von dem",
        "beim": "bei dem",
        "ins": "in das",
        "ans": "an das",
    },
    FRENCH: {"au": "à le"},
    SPANISH: {"al": "a el", "del": "de el"},
}
SHORT_ENDINGS: Final = {"n't": "not", "'re": "are", "'ve": "have", "'ll": "will"}
WITH_IS: Final = _words("it that there here he she what who where how this everything nothing something")
ELIDED: Final = dict(pair.split(":") for pair in "l:le d:de qu:que n:ne s:se j:je c:ce m:me t:te".split())

# -------------------------------------------------------------------- what begins a part that can be moved

CLAUSE_WORDS: Final = {
    ENGLISH: _words(
        """when whenever if because since while unless until till before after although though once as
        where"""
    ),
    GERMAN: _words("wenn falls weil da während bevor nachdem obwohl sobald solange bis damit"),
    FRENCH: _words("quand lorsque si parce car comme pendant avant après dès tant bien"),
    SPANISH: _words("cuando si porque como mientras antes después aunque desde hasta"),
}
PHRASE_WORDS: Final = {
    ENGLISH: _words(
        """in on at for with without during by from to under over above below within inside outside between
        through per via despite"""
    ),
    GERMAN: _words("in an auf bei mit ohne nach vor für zu seit unter über jeden jede jedes"),
    FRENCH: _words("en dans sur à avec sans pour depuis chaque sous"),
    SPANISH: _words("en con sin para por cada bajo sobre"),
}
MOVABLE: Final = {name: CLAUSE_WORDS[name] | PHRASE_WORDS[name] for name in CLAUSE_WORDS}
EACH: Final = _words("every each")
TIMES: Final = _words(
    """second minute hour day night morning evening noon week weekend month quarter year monday tuesday
    wednesday thursday friday saturday sunday sprint release spring summer autumn winter time"""
)
ADVERBS: Final = _words(
    """today tomorrow yesterday now currently always usually sometimes often nightly daily weekly monthly
    heute morgen"""
)
JOINING: Final = _words("and or but then und oder et ou y o")

# -------------------------------------------------------------------- what tells whether sentences can
# change places

SEQUENCE: Final = _words(
    """then next afterwards finally first second third last lastly later before after else otherwise dann
    danach zuerst schließlich puis ensuite enfin luego después entonces primero"""
)
REFERRING: Final = _words(
    "it its they them their he she his her this these those so but and or er sie es il elle ils él ella"
)
SUBJECTS: Final = _words(
    """we i you nobody somebody everybody everyone nothing everything all every each no some many most both
    wir ich niemand jeder alle nous je personne chaque tous nosotros yo nadie cada todos"""
)

# -------------------------------------------------------------------- around a verb

HELPING: Final = _words("can could may might must shall should will would have has had")
BETWEEN: Final = _words("not never always also only usually often still")
ANSWERS: Final = _words("no not yes nein ja non oui sí")  # alone before a comma they answer something

# -------------------------------------------------------------------- which language it is

QUANTITIES: Final = _words("few little most")  # before which an article says something: few, a few
# With a capital inside a sentence these are another word.
CAPITAL: Final = _words("may march will mark bill grant polish china turkey")
# In capitals these are another word: the US, an IT department, the WHO.
SHOUTED: Final = _words("us it who am pm as id")
COMMON: Final = {
    ENGLISH: _words(
        """the a an and or of to in on at for with without by from is are was were be not no do does never
        always we you they it its our this that every each all after before when if must may can will should
        use run has have had only as than"""
    ),
    GERMAN: _words(
        """der die das den dem des und oder nicht kein keine ist sind wird werden mit ohne für auf aus bei
        von vom zum zur im am ein eine einen wir ihr sie es jede jeden jeder nach vor wenn muss darf kann
        soll immer niemals nie alle einige um ab benutze nutze"""
    ),
    FRENCH: _words(
        """le la les des du de un une et ou est sont ne pas dans sur sous avec sans pour par au aux en nous
        vous il elle chaque tous après avant quand si doit peut ce cette son sa ses"""
    ),
    SPANISH: _words(
        """el la los las del de un una y o es son no en con sin para por al se su sus cada todos después
        antes cuando si debe puede este esta nunca siempre"""
    ),
}


# -------------------------------------------------------------------- which are forms of one word


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
    """Whether two words, in lower case, are forms of one word that differ only in number, person or tense."""
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
    """Whether a word names a day or a month, which is written with a capital and yet is no name."""
    return word in _DAYS or word.removesuffix("s") in _DAYS


# -------------------------------------------------------------------- English


@functools.lru_cache(maxsize=16_384)
def bases(word: str) -> frozenset[str]:
    """Return the words that an English word may be a form of; only the word itself when there is no other."""
    if word in _IRREGULAR:
        return frozenset({_IRREGULAR[word], *(_singular(word) if word in _OF_TWO else ())})
    if word in _OWN and word not in _OWN_PLURALS:
        return frozenset({word})
    found = {word, *_singular(word), *_present(word)}
    return frozenset({each for each in found if len(each) > 1 or each == word})


@functools.lru_cache(maxsize=4_096)
def gerund_bases(word: str) -> frozenset[str]:
    """Return the verbs that a word ending in -ing may be a form of."""
    if not word.endswith("ing") or len(word) < 5:
        return frozenset()
    return frozenset(_stems(word[:-3]))


def is_participle(word: str) -> bool:
    """Whether an English word may stand after "is" in a passive sentence, such as "called"."""
    return word in UNCHANGED or word in _IRREGULAR or (word.endswith("ed") and len(word) > 4)


def _singular(word: str) -> Iterable[str]:
    """Yield the possible forms of a word without the -s of a plural or a third person."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return
    yield word[:-1]
    if word.endswith("ies"):
        yield f"{word[:-3]}y"
    elif word.endswith("es") and word[:-2].endswith(_SIBILANT) and len(word) > 4:
        yield word[:-2]


def _present(word: str) -> Iterable[str]:
    """Yield the possible forms of a word without the -ed of the past tense."""
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
    """Yield the verbs that may end so before -ed or -ing: "us" for "use", "plann" for "plan", "cach" for
    "cache".
    """
    if len(stem) < 2 or not _VOWEL_GROUPS.search(stem):
        return
    if stem[-1] == stem[-2] and stem[-1] not in _VOWELS:
        # "planned" was "plan" and "filled" was "fill": a list of words tells which.
        if is_listed(stem) or not is_listed(stem[:-1]):
            yield stem
        if is_listed(stem[:-1]) or not is_listed(stem):
            yield stem[:-1]
        return
    yield f"{stem}e"
    if not _doubles(stem):
        yield stem


def _doubles(stem: str) -> bool:
    """Whether a verb doubles its last letter before -ed, as "plan" does; so "hoped" is no form of "hop"."""
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
    """Return a Spanish word without its accents, which change with the number: sesión, sesiones."""
    return word.translate(_ACUTE)


# -------------------------------------------------------------------- which there are in English
# `english.txt` holds the whole words of the shipped model's vocabulary, and `software.txt` words of the trade
# that it lacks. What stands here may not know the index, so it has a list of its own. Only what is no word
# can be a slip of the hand.

_FILES = ("english.txt", "software.txt")
_SHORTEST = 3
_PART = 4  # letters of half a compound; the lists hold too many names and scraps of three
_LONGEST = 80  # letters: no two listed words are longer together
_PREFIXES = """anti auto bi co counter de dis down em en ex extra hyper hypo il im in inter intra ir macro
    mega micro mid mini mis mono multi nano non off on out over poly post pre pro pseudo re semi sub super
    sur tele trans tri ultra un under up""".split()
_SUFFIXES = """able al ally ance ant ary ate ation ed ee eer en ence ent er ers es est ful hood ian ible ic
    ical ify ing ion ise ish ism ist ity ive ization ize less like ly ment ness or ors ous s ship sion some
    tion ty ward wards ware wise y""".split()


@functools.cache
def _lines() -> bytes:
    """Return all listed words as lines of one text, because searching a text is quicker than
    building a set.
    """
    folder = Path(__file__).parent
    return b"\n" + b"\n".join((folder / name).read_bytes() for name in _FILES) + b"\n"


@functools.lru_cache(maxsize=16_384)
def is_listed(word: str) -> bool:
    """Whether a word, in lower case, is in the lists."""
    return word.isalpha() and word.isascii() and f"\n{word}\n".encode() in _lines()


@functools.lru_cache(maxsize=16_384)
def is_word(word: str) -> bool:
    """Whether a word is listed, or is built from listed words: "unlink", "linter", "lockfile"."""
    if is_listed(word):
        return True
    if len(word) > _LONGEST:
        return False
    if any(word.startswith(each) and _is_stem(word[len(each) :]) for each in _PREFIXES):
        return True
    if any(word.endswith(each) and _is_stem(word[: -len(each)]) for each in _SUFFIXES):
        return True
    cuts = range(_PART, len(word) - _PART + 1)
    return any(is_listed(word[:at]) and is_listed(word[at:]) for at in cuts)


def _is_stem(rest: str) -> bool:
    """Whether the rest of a word without its prefix or suffix is listed, as it is or slightly changed."""
    if len(rest) < _SHORTEST:
        return False
    doubled = rest[:-1] if rest[-1] == rest[-2] else ""
    return any(map(is_listed, filter(None, (rest, f"{rest}e", f"{rest[:-1]}y", doubled))))
