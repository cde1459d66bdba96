"""Words by what they do in a sentence: articles, words that begin a clause, words that are short for two.

English, German, French and Spanish; nothing else is known here.
"""

from __future__ import annotations

from typing import Final

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
ASIAN_CONDITIONS: Final = tuple("如果 因为 因為 由于 由於 当 當 除非 为了 為了 虽然 雖然 もし".split())

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
