"""Tell the language of a passage, and find the stems of its words.

This module knows text alone. Script, small words and rare letters tell a language; an undecided text counts
as English. Every text is also stemmed by the English rules. Trained detectors recognise a few more short
notes, but need a second and a hundred megabytes to load (docs/retrieval.md).
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from vademecum.index.words import ENGLISH, STOP
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

MOST_ASKED = 4  # languages in which a question is stemmed,
LEAST_HELD = 0.01  # the share of passages that a language needs: a few strays are not worth slower questions
# Languages with compound words: the end of a long word is also searched alone.
COMPOUNDING = frozenset("de nl sv da no fi hu he".split())

_STEMMERS = dict(
    each.split("=")
    for each in """ar=arabic ca=catalan cs=czech da=danish de=german el=greek es=spanish fa=persian fi=finnish
    fr=french hi=hindi hu=hungarian hy=armenian id=indonesian it=italian nl=dutch no=norwegian pl=polish
    pt=portuguese ro=romanian ru=russian sv=swedish ta=tamil tr=turkish""".split()
)

_SMALL_WORDS = {
    "ca": """el la els les un una uns unes i o però que qui com quan on per amb sense de del dels al als
    en és són era ha han hem no més molt aquest aquesta això meu meva seva nostre fins des també ja hi ens""",
    "cs": """a i nebo ale že aby když kde jak co kdo který která je jsou byl byla bylo byli jsem jsme
    není má mám máme v ve na do z ze s se si k ke o u od po pro při za před pod nad mezi vedle podle každý
    každé už jen jako tak také můj moje náš naše svůj jeho její jejich ten ta to tento tato toto musí může
    nás nám""",
    "da": """og i på til af for med er var har havde ikke en et den det de der som jeg du han hun vi de
    mig min mit mine vores os at om fra ved efter men eller kun også når hvor hvad kan skal må vil blev
    bliver være været hos under over mellem uden siden denne dette""",
    "de": """der die das den dem des ein eine einen einem einer eines und oder aber nicht kein keine ist
    sind war waren wird werden wurde wurden hat haben hatte hatten ich du er sie es wir ihr mich mir uns
    mein meine meinen meiner unser unsere sein seine ihre im in am an auf aus bei mit nach von vom zu zum
    zur für über unter vor durch um als wie wenn dass weil ob auch noch nur schon sehr mehr immer sich man
    wo wer was wann warum welche muss kann soll gibt bis seit beim ins neue alle""",
    "es": """el la los las un una unos unas y o pero que quien quién como cómo cuando cuándo donde dónde
    por para con sin de del al en es son era fue fueron ha han hemos he no más muy este esta esto ese esa
    mi mis tu su sus nuestro nuestra se me nos le les lo ya también hasta desde sobre entre cada hay está
    están qué cuál todo todos si porque antes después hace""",
    "fi": """ja tai mutta ei en on ovat oli olivat ole olen olemme että kun jos missä mikä kuka minun
    sinun hänen meidän teidän heidän minä sinä hän me te he se ne tämä nämä joka jotka kanssa ennen
    jälkeen vain myös aina usein nyt jo vielä kuin mitä miten milloin vasta pitää voi täytyy""",
    "fr": """le la les un une des du de au aux et ou mais que qui quoi dont où quand comme comment pour
    par avec sans dans sur sous chez est sont était étaient a ont avait avons ai ne pas plus très ce cet
    cette ces mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs je tu il elle nous vous ils
    elles on se me en y aussi déjà encore jusqu depuis entre chaque faut été être fait tout tous avant
    après quel quelle combien pourquoi""",
    "hu": """a az és vagy de hogy nem van vannak volt voltak lesz egy ez ezt azt aki ami ahol mikor
    amikor mert ha csak már még is nagyon minden mint meg el ki be fel le én te ő mi ti ők nekem neki után
    előtt alatt között mellett nélkül szerint kell lehet hol mit itt ott""",
    "id": """yang dan di ke dari untuk dengan pada adalah ini itu tidak ada akan sudah telah bisa harus
    saya kami kita mereka dia anda atau tetapi karena jika juga oleh dalam setiap lebih sangat sebelum
    setelah para bukan belum hanya siapa apa kapan mana""",
    "it": """il lo la i gli le un uno una e o ma che chi cui come quando dove per con senza di del dello
    della dei degli delle al allo alla ai agli alle dal dalla dai nel nella nei nelle sul sulla in da su
    tra fra è sono era erano ha hanno abbiamo ho non più molto questo questa questi mio mia miei mie suo
    sua nostro nostra si mi ci ne anche già ogni fino dopo prima perché solo cosa quale""",
    "nl": """de het een en of maar dat die wie wat waar wanneer hoe voor met zonder van naar bij op in
    uit over onder tussen door is zijn was waren wordt worden werd heeft hebben had niet geen meer zeer
    dit deze mijn jouw zijn haar ons onze hun ik jij hij zij wij we ze er ook nog al alleen elke moet kan
    zal tot sinds om te als omdat aan na""",
    "no": """og i på til av for med er var har hadde ikke en et ei den det de der som jeg du han hun vi
    dere meg min mitt mine vår vårt våre oss at om fra ved etter men eller bare også når hvor hva kan skal
    må vil ble blir være vært hos under over mellom uten siden denne dette fra""",
    "pl": """i lub ale że aby gdy gdzie jak co kto który która które jest są był była było byli mam ma
    mamy nie w we na do z ze się o u od po dla przy za przed pod nad między obok według każdy każdą już
    tylko też jako tak mój moja moje nasz nasza swój jego jej ich ten ta to tym tego musi może nas nam
    przez""",
    "pt": """o a os as um uma uns umas e ou mas que quem como quando onde por para com sem de do da dos
    das no na nos nas ao aos à às pelo pela em é são era foi foram tem têm temos não mais muito este esta
    isto esse essa meu minha meus minhas seu sua nosso nossa se me lhe já também até desde sobre entre
    cada há está estão qual quais só porque antes depois ontem""",
    "ro": """și sau dar că să care cine ce cum când unde pentru cu fără de din la pe în este sunt era au
    am are ai nu mai foarte acest această acesta meu mea mei mele său sa nostru noastră se îmi ne le îi a
    al ale ai un o unei unui lui către după înainte până doar numai deja fiecare trebuie poate""",
    "sv": """och i på till av för med är var har hade inte en ett den det de där som jag du han hon vi ni
    mig min mitt mina vår vårt våra oss att om från vid efter men eller bara också när hur vad kan ska
    måste vill blev blir vara varit hos under över mellan utan sedan denna detta dessa alla varje inom
    bredvid""",
    "tr": """ve veya ama için ile bir bu şu o değil var yok çok daha en mi mı mu mü ne nasıl neden nerede
    kim hangi gibi kadar sonra önce her hiç sadece ben sen biz siz onlar benim senin bizim onun ki de da
    olarak olan oldu ise göre""",
    "vi": """và là của có không cho với trong trên dưới ở tại từ đến một các những này đó tôi bạn anh chị
    em chúng ta họ đã đang sẽ được bị thì mà nhưng hoặc nếu khi vì ai gì nào đâu lúc mỗi""",
    "ru": """и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее
    мне было от меня еще о из ему теперь когда даже ну если уже или быть был него до нас для мы их где
    есть надо чтобы этот эта это под без через при после перед мой моя наш наша""",
    "uk": """і й в у не що він на я з із зі як а то все вона так його але та ти до ж ви за би по тільки
    її мені було від мене ще про коли навіть якщо вже або бути був нас для ми їх де є треба щоб цей ця це
    під без через при після перед мій моя наш наша біля""",
    "bg": """и в във не че той на аз с със как а то всички тя така го но да ти към у вие за по само ми
    беше от още когато дори ако вече или бъде него до нас ние ги къде има трябва този тази това под без
    през при след преди моят моята нашият който която са съм е""",
    "ar": "في من على إلى عن مع هذا هذه ذلك التي الذي كان كانت لا لم لن ما هل أن إن قد كل بعد قبل بين أو ثم",
    "fa": "در از به با که این آن را است بود شد می برای تا هم یا اما نیست هر چه کجا من ما او های شود کرد",
}
# Everyday words of short notes, which often have no small words.
_EVERYDAY = {
    "cs": """dva tři čtyři pět šest sedm osm devět deset pondělí úterý středa středu čtvrtek pátek sobota
    sobotu neděle neděli den rok dnes včera zítra dům dítě děti práce bez kávu pes kočka škola""",
    "da": """to tre fire fem seks syv otte ni ti mandag tirsdag onsdag torsdag fredag lørdag søndag dag
    år uge i dag hus barn børn arbejde hund kat skole bil klokken""",
    "de": """zwei drei vier fünf sechs sieben acht neun zehn elf zwölf montag dienstag mittwoch
    donnerstag freitag samstag sonntag tag tage jahr jahre woche heute gestern morgen haus kind kinder
    arbeit hund katze schule uhr auto frau herr mutter vater ohne gegen viele neuer neues alte wieder
    jetzt geht habe""",
    "es": """dos tres cuatro cinco seis siete ocho nueve diez lunes martes miércoles jueves viernes
    sábado domingo día días año años semana hoy ayer casa niño niños hija hijo trabajo perro gato escuela
    cerca lago""",
    "fi": """yksi kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän kymmenen maanantai tiistai
    keskiviikko torstai perjantai lauantai sunnuntai päivä vuosi vuotta viikko tänään eilen talo lapsi
    lapset työ koira kissa koulu auto ilman kello ollut""",
    "fr": """deux trois quatre cinq six sept huit neuf dix onze douze seize lundi mardi mercredi jeudi
    vendredi samedi dimanche jour jours an ans année semaine aujourd hier demain maison enfant enfants
    travail chien chat école heure heures voiture à d l j c n qu s""",
    "hu": """két kettő három négy öt hat hét nyolc kilenc tíz hétfő kedd szerda csütörtök péntek szombat
    vasárnap nap év hét ma tegnap holnap ház gyerek munka kutya macska iskola autó óra nélkül péntekre
    télen""",
    "id": """satu dua tiga empat lima enam tujuh delapan sembilan sepuluh senin selasa rabu kamis jumat
    sabtu minggu hari tahun rumah anak kerja anjing kucing sekolah mobil jam meja dapur tanpa kunci""",
    "it": """due tre quattro cinque sei sette otto nove dieci lunedì martedì mercoledì giovedì venerdì
    sabato domenica giorno giorni anno anni settimana oggi ieri domani casa bambino bambini figlia figlio
    lavoro cane gatto scuola ore d l dell all nell cucina fine""",
    "nl": """twee drie vier vijf zes zeven acht negen tien elf twaalf maandag dinsdag woensdag donderdag
    vrijdag zaterdag zondag dag dagen jaar week vandaag gisteren morgen huis kind kinderen werk hond kat
    school auto uur zonder half januari februari maart juni juli augustus""",
    "no": """to tre fire fem seks sju åtte ni ti mandag tirsdag onsdag torsdag fredag lørdag søndag dag
    år uke hus barn arbeid hund katt skole bil klokka""",
    "pl": """dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć poniedziałek wtorek środa środę
    czwartek piątek sobota sobotę niedziela niedzielę dzień rok dziś wczoraj jutro dom dziecko dzieci
    praca pies kot szkoła bez kawę""",
    "pt": """dois duas três quatro cinco seis sete oito nove dez segunda terça quarta quinta sexta sábado
    domingo dia dias ano anos semana hoje amanhã casa criança crianças filha filho trabalho cachorro gato
    escola hora""",
    "ro": """doi două trei patru cinci șase șapte opt nouă zece luni marți miercuri joi vineri sâmbătă
    duminică zi an ani azi ieri mâine casă copil copii câine pisică școală ora""",
    "sv": """två tre fyra fem sex sju åtta nio tio måndag tisdag onsdag torsdag fredag lördag söndag dag
    år vecka idag igår hus barn arbete hund katt skola bil klockan ut går""",
    "tr": """iki üç dört beş altı yedi sekiz dokuz pazartesi salı çarşamba perşembe cuma cumartesi pazar
    gün yıl hafta bugün dün yarın ev çocuk iş köpek kedi okul saat annem babam""",
    "vi": "hai ba bốn năm sáu bảy tám chín mười ngày nhà con chó mèo trường giờ tháng vào đầu trả cửa",
}
# Beginnings, endings and pairs of letters that are common in one language and rare in others.
_SHAPES = {
    "cs": "ou ost ení ího ách ům ství",
    "de": "ung sch cht keit heit lich tz eit",
    "es": "ción amos ieron aba dad ismo mos",
    "fi": "ää yy uu aa ssa ssä sta lla llä tta lta ltä nen kk ii sto uo yö",
    "fr": "eau eux tion ment aire eur oir ouv oi",
    "hu": "sz gy ny ek ok ban ben nak nek ás és cs tt",
    "id": "ng ber men kan pen di nya ah",
    "it": "zione gli cch zz ato are ere ione iamo tto",
    "nl": "ij oe aa ee oo uu sch ijk eur zek ven",
    "pl": "cz sz rz ść ów ego ie ny wa",
    "pt": "ção ões nh lh ou eir amos",
    "ro": "ul ului ilor ea ți re",
    "sv": "ör är ck ning et ar na",
    "da": "ør ej hed ning et ede",
    "no": "øy ei het ning et en",
    "tr": "lar ler yor mak mek dan den",
    "vi": "ng nh ươ iề ạ ờ ậ",
}
# Rare letters, by the languages that have them.
_LETTERS = {
    "de": "ß",
    "de sv fi": "ä",
    "de sv fi hu tr": "ö",
    "de hu tr": "ü",
    "sv da no": "å",
    "da no": "æø",
    "es": "ñ¿¡",
    "fr": "œ",
    "fr pt": "ê",
    "fr it ca": "è",
    "fr it": "ù",
    "pt": "ãõ",
    "fr pt tr ca": "ç",
    "it ca": "ò",
    "pl": "łąężźśćń",
    "cs": "řěůčšžý",
    "hu": "őű",
    "tr": "ğış",
    "ro vi": "ă",
    "ro": "țș",
    "ro fr": "î",
    "vi": "đơư",
    "ru": "ыэё",
    "uk": "іїєґ",
    "fa": "پچژگیک",
    "ar": "ةيك",
}
# Letters of one or a few languages; the Latin ones are told apart by their words.
_SCRIPTS = (
    ("[а-яіїєґё]", "ru uk bg"),
    ("[\u0370-\u03ff\u1f00-\u1fff]", "el"),
    ("[\u3040-\u30ff]", "ja"),
    ("[\uac00-\ud7af]", "ko"),
    ("[\u4e00-\u9fff]", "zh"),
    ("[\u0600-\u06ff]", "ar fa"),
    ("[\u0900-\u097f]", "hi"),
    ("[\u0590-\u05ff]", "he"),
    ("[\u0e00-\u0e7f]", "th"),
    ("[\u0980-\u09ff]", "bn"),
    ("[\u0b80-\u0bff]", "ta"),
    ("[\u0530-\u058f]", "hy"),
)
# The order that decides between languages with equal evidence.
_LATIN = tuple("de es fr pt it nl pl sv no da fi tr cs hu ro id vi ca".split())
_LETTER = 0.8  # the weight of a letter of one language
_SHAPE = 0.25  # the weight of a common pair or ending
_ENOUGH = 0.9  # the evidence that a language needs
_MORE = 1.2  # how many times the evidence for English a language needs


class _Signs(NamedTuple):
    """The words and letters that point to each language, and the words that only English has."""

    words: dict[str, tuple[tuple[str, ...], float]]
    letters: dict[str, tuple[tuple[str, ...], float]]
    english: frozenset[str]


def language_of(text: str, words: Collection[str]) -> str:
    """Return the language of a passage with these `words` in lower case; English when nothing decides."""
    if not text.isascii():
        script = _script(text)
        if script is not None:
            return script[0] if len(script) == 1 else _clearest(text, words, script, 0.0) or script[0]
    small = STOP.intersection(words)
    own = len(_signs().english.intersection(small))
    if text.isascii() and own * 8 >= len(words):  # true of nearly every English text
        return ENGLISH
    return _clearest(text, words, _LATIN, own + (len(small) - own) / 2) or ENGLISH


def is_english(words: Collection[str]) -> bool:
    """Return whether a text has a common small word that only English has; `words` are in lower case."""
    return not _signs().english.isdisjoint(words)


def has_stems(language: str) -> bool:
    """Return whether a language has a stemmer here; the tokenizer of the index stems English words."""
    return language in _STEMMERS


def stems(words: Sequence[str], language: str) -> list[str]:
    """Return the stems of words; for a language without a stemmer, return the words unchanged."""
    name = _STEMMERS.get(language)
    return list(words) if name is None else _stemmer(name)(words)


def asked_in(counts: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Return the languages in which words of a question are stemmed: the most frequent ones with a stemmer.

    `counts` has the number of passages in each language; a language of very few passages is left out.
    """
    by_count = sorted((pair for pair in counts if pair[1] > 0), key=lambda pair: (-pair[1], pair[0]))
    enough = LEAST_HELD * sum(count for _, count in by_count)
    return tuple(
        language for language, count in by_count[:MOST_ASKED] if count >= enough and language in _STEMMERS
    )


def stemmer_version() -> str:
    """Return the version of the stemming library; another version may make other stems."""
    import Stemmer

    return str(Stemmer.version())


@functools.cache
def _stemmer(name: str) -> Callable[[Sequence[str]], list[str]]:
    import Stemmer  # an English home never needs this library

    made: Callable[[Sequence[str]], list[str]] = Stemmer.Stemmer(name).stemWords
    return made


def _script(text: str) -> tuple[str, ...] | None:
    """Return the languages written in the main script of a text; None for Latin or mixed scripts."""
    letters = sum(map(str.isalpha, text))
    lower = text.lower()
    for letters_of, languages in _SCRIPTS:
        found = len(re.findall(letters_of, lower))
        # Japanese and Korean are written with Chinese characters as well.
        if found * 2 > letters or (found and languages in ("ja", "ko") and found * 8 >= letters):
            return tuple(languages.split())
    return None


def _clearest(text: str, words: Collection[str], among: Sequence[str], english: float) -> str | None:
    """Return the language in `among` for which the text has the most evidence.

    Return None if that is too little, or not clearly more than `english`, the evidence for English.
    """
    signs = _signs()
    scores = dict.fromkeys(among, 0.0)
    found = [signs.words[word] for word in signs.words.keys() & words]
    found += [signs.letters[letter] for letter in signs.letters.keys() & {*text.lower()}]
    for languages, weight in found:
        for language in languages:
            if language in scores:
                scores[language] += weight
    if max(scores.values()) < _ENOUGH and among is _LATIN:
        _add_shapes(scores, " ".join(words))
        english += _SHAPE * 3  # as English has some of these letters too
    best = max(scores, key=scores.__getitem__)
    return best if scores[best] >= _ENOUGH and scores[best] > _MORE * english else None


def _add_shapes(scores: dict[str, float], words: str) -> None:
    """Add to the scores the evidence from endings and pairs of letters that are common in a language."""
    for language, shapes in _SHAPES.items():
        scores[language] += sum(_SHAPE for shape in shapes.split() if shape in words)


@functools.cache
def _signs() -> _Signs:
    """Return the evidence for languages: a word weighs more, the fewer languages it occurs in."""
    words: dict[str, list[str]] = {}
    for known in (_SMALL_WORDS, _EVERYDAY):
        for language, some in known.items():
            for word in some.split():
                languages = words.setdefault(word, [])
                languages += [] if language in languages else [language]
    weighed = {
        word: (tuple(of), (0.5 if word in STOP else 1.0) * (0.5 if len(word) == 1 else 1.0) / len(of) ** 0.5)
        for word, of in words.items()
    }
    letters = {
        letter: (tuple(of.split()), _LETTER / len(of.split()) ** 0.5)
        for of, some in _LETTERS.items()
        for letter in some
    }
    return _Signs(weighed, letters, STOP.difference(words))
