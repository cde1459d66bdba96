"""Words and values that the parser of sentences knows, and the stems of words.

English and German. Numbers, units, days, dates, versions, languages, states and names are values; everything
else is a word.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CACHE_SIZE = 8_192  # words that are remembered without their endings


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(text: str) -> dict[str, str]:
    return {word: line.split()[0] for line in text.strip().split("\n") for word in line.split()}


def _later(text: str) -> dict[str, str]:
    return {word: line.split()[0] for line in text.strip().split("\n") for word in line.split()[1:]}


# -------------------------------------------------------------------- words that are known

_WORDS_OF_NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen twenty""".split()
NUMBERS = {word: number for number, word in enumerate(_WORDS_OF_NUMBERS)}
NUMBERS |= {
    word: n * 10 for n, word in enumerate("thirty forty fifty sixty seventy eighty ninety".split(), 3)
}
NUMBERS |= {
    "hundred": 100,
    "thousand": 1000,
    "zwanzig": 20,
    "dreißig": 30,
    "hundert": 100,
}
NUMBERS |= {
    word: n
    for n, word in enumerate("null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split())
}
# Each unit with its dimension and how many of the smallest it is.
_UNITS: Final = {
    "time": (
        "ms:0.001 millisecond:0.001 s:1 sec:1 second:1 sekunde:1 sekunden:1 min:60 minute:60 minuten:60"
        " h:3600 hr:3600 hour:3600 stunde:3600 stunden:3600"
        " day:86400 tag:86400 tage:86400 tagen:86400 week:604800"
        " woche:604800 wochen:604800"
    ),
    "months": "month:1 monat:1 monate:1 monaten:1 year:12 jahr:12 jahre:12 jahren:12 quarter:3",
    "size": "byte:1 bytes:1 kb:1024 kib:1024 mb:1048576 mib:1048576 megabyte:1048576 gb:1073741824"
    " gib:1073741824"
    " gigabyte:1073741824 tb:1099511627776 kilobyte:1024",
    "share": "%:1 percent:1 prozent:1",
    "money": "€:1 euro:1 eur:1",
    "dollars": "$:1 dollar:1 usd:1",
    "heat": "degree:1 grad:1",
}
UNITS: Final = {
    pair.split(":")[0]: (dimension, float(pair.split(":")[1]))
    for dimension, listed in _UNITS.items()
    for pair in listed.split()
}
_PLAIN_UNITS: Final = _table("""second s sec sekunde sekunden
minute min minuten
hour h hr stunde stunden
day tag tage tagen
week woche wochen
month monat monate monaten
year jahr jahre jahren
percent % prozent
mb megabyte mib
gb gigabyte gib
kb kilobyte kib
euro eur €
dollar usd $
degree grad""")
DAYS: Final = _table("""tomorrow morgen
monday montag montags mondays
tuesday dienstag dienstags tuesdays
wednesday mittwoch mittwochs wednesdays
thursday donnerstag donnerstags thursdays
friday freitag freitags fridays
saturday samstag samstags saturdays
sunday sonntag sonntags sundays""")
MONTHS: Final = {
    name: number
    for number, line in enumerate(
        """january jan januar|february feb februar|march mar märz|april apr|may mai|june jun juni|july jul
        juli|august aug|september sep sept|october oct oktober okt
        |november nov|december dec dezember dez""".split("|"),
        1,
    )
    for name in line.split()
}
# Words for opposite states in both languages; a set also has words for the same state.
OPPOSITES: Final = (
    _set("enabled disabled aktiviert deaktiviert on off an aus active inactive aktiv inaktiv"),
    _set("true false"),
    _set("required mandatory optional pflicht verpflichtend freiwillig"),
    _set("allowed permitted forbidden prohibited erlaubt verboten"),
    _set("public private öffentlich privat"),
    _set("supported unsupported"),
    _set("synchronous asynchronous synchron asynchron"),
    _set("open closed offen geschlossen"),
    _set("paused running gestoppt"),
    _set("deprecated current"),
    _set("muted unmuted"),
)
SAME_STATE: Final = _table("""enabled on active aktiviert an aktiv
disabled off inactive deaktiviert aus inaktiv
required mandatory pflicht verpflichtend
optional freiwillig
allowed permitted erlaubt
forbidden prohibited verboten
public öffentlich
private privat
open offen
closed geschlossen
synchronous synchron
asynchronous asynchron
paused gestoppt""")
STATES: Final = {word: f"state{at}" for at, group in enumerate(OPPOSITES) for word in group}
TONGUES: Final = _table("""german deutsch
english englisch
french französisch
spanish spanisch
dutch niederländisch
italian italienisch
polish polnisch
portuguese portugiesisch
russian russisch
chinese chinesisch
japanese japanisch
korean koreanisch
turkish türkisch
swedish schwedisch""")
CODING: Final = _set(
    """python go golang rust java kotlin typescript javascript ruby php bash c c++
    c# scala swift perl elixir haskell lua dart clojure zig julia ocaml erlang nim groovy fortran cobol
    markdown asciidoc restructuredtext latex"""
)
# Values that only exclude others of their own kind: AWS is no answer to Linux.
KINDS: Final = {
    "cloud": _set("aws azure gcp hetzner digitalocean heroku"),
    "system": _set("linux windows macos ubuntu debian alpine fedora kubernetes docker"),
}
# Words of which a thing has one, although nothing marks them as values.
CONTRASTS: Final = {
    word: f"contrast{at}"
    for at, line in enumerate(
        """tab space|single double|dark light|snake_case camelcase kebab-case pascalcase|utc local
        |squash rebase|short long|brief detailed|kurz lang|knapp ausführlich""".split("|")
    )
    for word in line.split()
}

ARTICLES: Final = _set(
    """the a an our my your its their this that these those der die das den dem
    des ein eine einen einem eines einer unser unsere unserem unseren dieser diese dieses"""
)
FILLERS: Final = _set(
    """please just really also still here strictly currently now simply exactly
    now bitte auch nur noch derzeit jetzt whole entire all every each any always automatically by
    default about around roughly approx approximately ca etwa rund over as well later newer actually
    immer alle jede jeder jeden so zu to of of und and"""
)
PRONOUNS: Final = _set(
    "it they there he she we i you one which what who es er sie wir ich du man someone everybody everyone"
)
NEGATORS: Final = _set(
    "not never no none neither nor nobody nothing nie niemals nicht niemand nichts without ohne"
)
ADVERBS: Final = _set(
    "always immer please bitte all every each alle jede jeden jeder only just also currently"
)
NOBODY: Final = _set("nobody nothing none niemand nichts")
MODALS: Final = _table("""must muss müssen musst shall have-to need-to
should soll sollen sollte sollten ought
may might could can darf dürfen kann können könnte vielleicht maybe perhaps""")
TODAY: Final = _set("today tonight heute")
GROUPS: Final = _set("team group desk crew department")
EPISTEMIC: Final = _set("might could maybe perhaps vielleicht könnte")
PAST_WORDS: Final = _set(
    """was were had did formerly previously earlier originally initially
    yesterday ago war waren hatte hatten wurde wurden früher damals gestern ehemals vorher"""
)
FUTURE_WORDS: Final = _set("will shall tomorrow künftig bald demnächst soon someday eventually")
TERMS: Final = _set("if when whenever unless while once wenn falls sobald solange während")
SIDES: Final = _set("before after until during within without bevor nachdem vor nach bis ohne")
QUALIFIERS: Final = _set("in on for at during with bei für auf im am beim")
BE: Final = _set("is are be been being was were ist sind sei war waren wird werden = : equals beträgt am")
OWNING: Final = _set(
    "own maintain lead manage head handle approve leiten leitet verwaltet besitzt betreut approves"
)
STORED: Final = _set(
    """store keep live locate host save publish upload send find place lie lay
    serve run go deploy reside liegt liegen läuft laufen steht stehen sitzt sitzen put mount write log
    archive belong work encode"""
)
TOOLED: Final = _set(
    """do run build make deploy test hash indent merge install format lint log
    monitor write encrypt sign validate compile package generate render style manage schedule handle
    publish release ship implement work create serve send log in parse check deployen bauen testen
    formatieren"""
)
KEEPING: Final = _set("store keep host save publish upload put archive")
ATTRIBUTES: Final = _set(
    """timeout port version limit size ttl count length rate deadline
    endpoint url name owner path folder branch host address budget locale delay interval priority
    threshold quota color theme id memory password region zone seed"""
)
PAST_VERBS: Final = _later("""take took taken dauerte
leave left
buy bought
fix fixed
go went
become became
write wrote
meet met
run ran
send sent
make made
get got
begin began
have had
use nutzten nutzte
build built
keep kept
bear born
find found
say said
see saw
give gave
hold held
sell sold""")
VERBS: Final = _set(
    """is are be has have use run listen default expire take allow require deploy
    cost keep stay live start end close open need support return last happen release meet wait retry
    limit prefer target store accept set own maintain lead manage handle head belong go come call talk
    read write send check skip partition scrape rebuild hold get drop rotate flush block log commit push
    merge delete edit ask page restart sign pin pass access register review approve speak answer want
    like work exist contain include leave queue cache test hash build install rely move raise switch
    migrate put save weigh cap restrict die die lead show serve host ship archive land fail begin finish
    reject enable disable turn encode rebase squash indent add remove create make do see find update
    validate load connect bind fit shut reply guarantee promise attempt retain settle seat arrive depart
    läuft liegt gehört nutzen nutzt verwenden verwendet hat haben gibt
    braucht dauert leitet steht stehen befindet befinden sitzt sitzen endet beginnt laufen liegen deployen
    enthält ändern kostet startet antworte
    schreibe"""
)

# What has one of a kind: its name is a value even in small letters.
_ROLES: Final = _set(
    """database broker manager provider framework library runner format engine
    editor shell bundler orm backend formatter linter compiler registry scheduler store cache queue
    parser license convention strategy protocol system tool stack datenbank encoding theme font default"""
)
_QUALITIES: Final = (
    "ed",
    "able",
    "ible",
    "ive",
    "al",
    "ous",
    "ful",
    "less",
    "ic",
    "ing",
    "ant",
    "ent",
    "ary",
    "ly",
)
_ADJECTIVES: Final = _set(
    """fast slow old new big small large stable down up broken full empty
    ready done ok fine green red flaky good bad simple safe unsafe dead alive long short hot cold heavy
    light free busy complete wrong right late early easy hard low high dirty clean stale fresh better
    worse huge tiny"""
)
EMPTY: Final = frozenset({"", "default", "current", "own", "bitt", "zu", "to", "of", "is"})


def same_state(word: str) -> str:
    """Return the one word that stands for all words of the same state, such as "on" and "enabled"."""
    return SAME_STATE.get(word, word)


def is_thing(word: str, of: str) -> bool:
    """Whether a lower-case word names a thing, as in "the broker is kafka", and not a quality, as in "it is
    slow".
    """
    from vademecum.text import lexicon

    if word.endswith(_QUALITIES) or word in _ADJECTIVES or not word.isascii():
        return False
    return of in _ROLES or not lexicon.is_word(word)


# -------------------------------------------------------------------- the value


class Quantity(NamedTuple):
    """A value in a sentence: its kind, its text for comparison, its number and its unit."""

    kind: str  # number, version, date, time, day, language, a group of states, name, word
    text: str
    unit: str = ""
    number: float | None = None

    @property
    def plain(self) -> str:
        """The value in the words that a person reads: 30 second, friday, alice."""
        return f"{self.text} {self.unit}" if self.unit else self.text


class Word(NamedTuple):
    """A word of a sentence, and its value if it is one."""

    raw: str
    low: str
    kind: str = ""  # of a value; empty for a word
    text: str = ""  # the value as it is compared
    unit: str = ""
    number: float | None = None
    noun: bool = False  # an article stands before it, so that it is no verb


_TOKEN = lazy_pattern(
    r"`[^`\n]+`|\d{4}-\d\d(?:-\d\d)?(?![\w-])|\w[\w+.-]{0,30}://[^\s)>\]]+|[A-Za-z]:\\[\w\\.]+|[~.]{0,2}/[\w.@/+-]*\w/?|[$€£]?\d[\d,._:]*\d%?[a-zA-Z]{0,3}"
    r"|[$€£]?\d%?[a-zA-Z]{0,3}\b|\.?\w[\w@+#]*(?:(?:[./:@'+_-]|::)+[\w@+#]+)*/?|[:=?,;%]"
)
_NAMED = lazy_pattern(r"://|[/\\]|\w\.[a-z]|\w_\w|[a-z][A-Z]|::")
_DATE = lazy_pattern(r"\d{4}-\d\d(?:-\d\d)?")
_CLOCK = lazy_pattern(r"\d{1,2}:\d\d")
_VERSION = lazy_pattern(r"v?\d+(?:\.\d+){2,}|v\d+(?:\.\d+)*")
_PRICE = lazy_pattern(r"([$€£]?)v?(\d[\d,_]*(?:\.\d+)?)(%|[a-zA-Z]{1,3})?")


def split_words(text: str) -> list[Word]:
    """Return the words of a sentence; a number with its unit is one word, and a day with its month too."""
    found: list[Word] = []
    for match in _TOKEN.finditer(text):
        raw = match[0]
        if len(raw) > 1 and raw[0] != "`":
            raw = raw.rstrip(".,:;")
        found.append(_word(raw, first=not found))
    return [*_join_units(found)]


def _word(raw: str, *, first: bool) -> Word:
    low = raw.lower()
    if raw[0] == "`":
        inner = raw.strip("`").lower()
        return Word(raw, inner, "name", inner)
    if low[0].isdigit() or low[0] in "$€£" or (low[0] == "v" and low[1:2].isdigit()):
        return _number(raw, low)
    return _find_listed(raw, low) or _find_name(raw, low, first=first)


def _find_listed(raw: str, low: str) -> Word | None:
    """Return a word as a value if it is in the lists of values; else None."""
    if low in NUMBERS:
        return Word(raw, low, "number", str(NUMBERS[low]), "", float(NUMBERS[low]))
    if low in DAYS:
        return Word(raw, low, "day", DAYS[low])
    if low in TONGUES and (low != "polish" or raw[0] == "P"):
        return Word(raw, low, "language", TONGUES[low])
    return None


def _find_name(raw: str, low: str, *, first: bool) -> Word:
    """Return a word as a name if its spelling shows that it is a name; else as a plain word."""
    plain = raw.isalpha() and (raw.islower() or raw.istitle())
    if not plain and _NAMED.search(raw):
        return Word(raw, low, "name", low.rstrip("/") or low)
    if raw[0].isupper() and not first and low not in PRONOUNS and low not in MONTHS:
        return Word(raw, low, "name", low)
    return Word(raw, low)


def _number(raw: str, low: str) -> Word:
    if _DATE.fullmatch(low):
        return Word(raw, low, "date", low)
    if _CLOCK.fullmatch(low):
        return Word(raw, low, "time", low.removeprefix("0"))
    if _VERSION.fullmatch(low):
        return Word(raw, low, "version", low.removeprefix("v"))
    match = _PRICE.fullmatch(raw)
    unit = "" if match is None else (match[3] or match[1] or "").lower()
    if match is None or (unit and unit not in UNITS):
        return Word(raw, low, "name", low)
    plain = match[2].replace(",", "").replace("_", "")
    return Word(raw, low, "number", plain, _PLAIN_UNITS.get(unit, unit), float(plain))


def _join_units(words: Sequence[Word]) -> Iterator[Word]:
    """Yield words in which numbers are joined with their units, and days with their months."""
    at = 0
    while at < len(words):
        word, count = words[at], 1
        if word.kind == "number":
            word, count = _join_unit(words, at)
        elif word.low in MONTHS and word.raw[:1].isupper():
            word, count = _in_month(words, at)
        yield word
        at += count


def _join_unit(words: Sequence[Word], at: int) -> tuple[Word, int]:
    """Return a number joined with its unit or month, and how many words it was made of."""
    word, following = words[at], words[at + 1] if at + 1 < len(words) else None
    if following is None:
        return word, 1
    unit = stem_unit(following.low)
    if unit:
        per = stem_unit(words[at + 3].low) if at + 3 < len(words) and words[at + 2].low in _PER else ""
        return word._replace(unit=f"{unit} per {per}" if per else unit), 4 if per else 2
    if following.low in MONTHS:
        year = _year(words, at + 2)
        return _make_date(word, MONTHS[following.low], word.text, year), 3 if year else 2
    return word, 1


def _in_month(words: Sequence[Word], at: int) -> tuple[Word, int]:
    """Return a month joined with its day and year, and how many words it was made of."""
    word, following = words[at], words[at + 1] if at + 1 < len(words) else None
    if following is not None and following.kind == "number":
        year = _year(words, at + 1)
        if year:
            return _make_date(word, MONTHS[word.low], "", year), 2
        after = at + 3 if at + 2 < len(words) and words[at + 2].low == "," else at + 2
        year = _year(words, after)
        return _make_date(word, MONTHS[word.low], following.text, year), after + 1 - at if year else 2
    if at and words[at - 1].low in ("in", "by", "of", "im"):
        return _make_date(word, MONTHS[word.low], "", ""), 1
    return word, 1


def _year(words: Sequence[Word], at: int) -> str:
    word = words[at] if at < len(words) else None
    if word is None or word.kind != "number" or word.number is None or word.unit:
        return ""
    return word.text if _FIRST_YEAR <= word.number < _LAST_YEAR else ""


def _make_date(word: Word, month: int, day: str, year: str) -> Word:
    parts = (year, f"{month:02}", day.zfill(2) if day else "")
    return word._replace(kind="date", text="-".join(part for part in parts if part), number=None)


def stem_unit(word: str) -> str:
    """Return the plain name of a unit, such as "second" for "secs"; empty when the word is no unit."""
    if word in UNITS:
        return _PLAIN_UNITS.get(word, word)
    short = word.removesuffix("s")
    return _PLAIN_UNITS.get(short, short) if short in UNITS and len(short) > 1 else ""


# -------------------------------------------------------------------- without endings

_PER = ("per", "a", "an", "pro")
_FIRST_YEAR, _LAST_YEAR = 1900, 2100
_DOUBLED = frozenset(letter * 2 for letter in "bcdfgkmnprtv")
_SHORTEST = 3  # letters that are left of a word
_ENDINGS = ("ments", "ment", "ations", "ation", "ings", "ing", "ied", "ies", "ed", "es", "s")
_IRREGULAR = _later("""databas db
repositori repo
doc docs documentation
config config configuration settings
product prod production
environ env
postgr postgresql postgres
kubernet k8s
pullrequest pr prs
folder directory dir
javascript js
typescript ts
maximum max
minimum min
authent auth
go golang goes
write written
build built
send sent
keep kept aufbewahrt
run ran läuft
hold held
have has have hat haben
use using used nutzen nutzt verwenden verwendet benutzt benutzen
do does done
ship ships
own owner maintainer maintain maintains maintained
laufen laufen
member members
mitglied mitglieder
take dauert""")


@functools.lru_cache(maxsize=_CACHE_SIZE)
def stem(word: str) -> str:
    """Return a word without its endings, so that "logs", "logged" and "logging" become equal."""
    word = word.removesuffix("'s")
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if not word.isalpha() or len(word) <= _SHORTEST:
        return word
    found = _without_ending(word)
    if found != word and len(found) > _SHORTEST and found[-2:] in _DOUBLED:
        found = found[:-1]
    if found.endswith("y"):
        return found[:-1] + "i"
    return found[:-1] if found.endswith("e") and len(found) > _SHORTEST else found


def _without_ending(word: str) -> str:
    if word.endswith(("ss", "us", "is")):
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word[: -len(ending)] + ("i" if ending in ("ied", "ies") else "")
    return word


def verb_forms(word: str) -> tuple[str, ...]:
    """Return the verbs that a word may be a form of."""
    if word.endswith(("ies", "ied")):
        return (word[:-3] + "y",)
    if word.endswith("es"):
        return word[:-1], word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return (word[:-1],)
    if word.endswith("ed"):
        return word[:-2], word[:-1], word[:-3]
    return (word[:-3], word[:-3] + "e") if word.endswith("ing") else ()


def verb_base(word: str) -> str:
    """Return the verb that a word is a form of; the word's stem when no verb is known."""
    if word in PAST_VERBS:
        return PAST_VERBS[word]
    known = next((form for form in verb_forms(word) if form in VERBS), "")
    return known or (word if word in VERBS else stem(word))


def is_owning(word: str) -> bool:
    """Whether a verb says that its subject owns something, as "maintains" does."""
    return word in OWNING or any(form in OWNING for form in verb_forms(word))


WRITTEN = _set("written implemented coded geschrieben implementiert write")
WHERE = _set("in at under on to from into below beneath unter auf nach bei inside")
RUNNING = _set("host run stor keep serv liv deploi läuft")
NO_PLACE = _set(
    "night noon day weekend morning evening call charge progress time order port sync place line general use"
)
FUNCTION_WORDS = BE | FILLERS | PRONOUNS | QUALIFIERS
ALSO_WORDS = QUALIFIERS | {"on", "an"}
STORED_STEMS = frozenset(map(stem, STORED))
BEGINS = TERMS | SIDES | QUALIFIERS
