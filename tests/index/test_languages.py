"""In which language a passage is, and what its words are found by."""

from __future__ import annotations

from cases import every_case
from vademecum.index import languages, words
from vademecum.index.sqlite import SqliteIndex


def told(text: str) -> str:
    return languages.language_of(text, words.all_in(text))


@every_case(
    ("language", "text"),
    [
        ("de", "Wir treffen uns am Freitag vor dem Rathaus."),
        ("fr", "Le facteur passe toujours avant midi."),
        ("es", "Las llaves están debajo de la maceta."),
        ("it", "Il treno parte dal terzo binario."),
        ("pt", "A reunião foi adiada para amanhã."),
        ("nl", "De sleutel ligt onder de mat."),
        ("sv", "Nyckeln ligger under mattan vid dörren."),
        ("da", "Jeg har købt nye lygter af en ven."),
        ("fi", "Avain on maton alla, ei laatikossa."),
        ("pl", "Klucz leży pod wycieraczką, nie w szufladzie."),
        ("cs", "Klíč je pod rohožkou u dveří."),
        ("hu", "A kulcs nem a lábtörlő alatt van."),
        ("ro", "Cheia este sub preș, nu în sertar."),
        ("tr", "Anahtar paspasın altında değil."),
        ("id", "Kunci itu tidak ada di bawah keset."),
        ("ru", "Ключ лежит под ковриком."),
        ("uk", "Ключ лежить під килимком біля дверей."),
        ("el", "Το κλειδί είναι κάτω από το χαλάκι."),
        ("ar", "المفتاح تحت السجادة عند الباب."),
        ("fa", "کلید زیر فرش است."),
        ("he", "המפתח מתחת לשטיח."),
        ("hi", "चाबी चटाई के नीचे है।"),
        ("ja", "鍵はマットの下にある。"),
        ("zh", "钥匙在垫子下面。"),
        ("ko", "열쇠는 매트 밑에 있다."),
        ("th", "กุญแจอยู่ใต้พรม"),
    ],
)
def test_a_short_note_tells_its_language(language: str, text: str) -> None:
    assert told(text) == language


@every_case(
    "text",
    [
        "The key is under the mat.",
        "pip install uvicorn",
        "ERR_TLS_BAD_CERT_2210",
        "café opens at nine",
        "Standup moved to Thursday",
        "",
        "🎉🎉",
        "2026-11-15",
    ],
)
def test_what_is_english_or_unclear_counts_as_english(text: str) -> None:
    assert told(text) == "en"


def test_at_least_fifteen_languages_have_stems() -> None:
    pairs = [("de", "häuser", "haus"), ("fr", "maisons", "maison"), ("ru", "книги", "книга")]
    assert all(len(set(languages.stems(pair, language))) == 1 for language, *pair in pairs)
    named = "ar cs da de el es fi fr hi hu id it nl no pl pt ro ru sv tr".split()
    assert all(languages.has_stems(each) for each in named)
    assert not languages.has_stems("ja")


def test_a_question_is_stemmed_in_the_four_commonest_languages() -> None:
    counts = [("en", 90), ("de", 5), ("fr", 4), ("es", 3), ("it", 2), ("zh", 1), ("nl", 0)]
    assert languages.asked_in(counts) == ("de", "fr", "es")
    assert languages.asked_in([("pt", 1)]) == ("pt",)


@every_case(
    ("one", "other"),
    [
        ("Straße", "STRASSE"),
        ("sœur", "soeur"),
        ("ＡＢＣ", "abc"),
        ("ﾌﾟﾘﾝﾀｰ", "プリンター"),
        ("e\u0301te\u0301", "été"),
        ("Ñandú", "nandu"),
        ("smørrebrød", "smorrebrod"),
        ("łódź", "lodz"),
        ("أحمد", "احمد"),
        ("👩🏽‍🌾", "👩🌾"),
    ],
)
def test_ways_to_write_a_word_are_one(one: str, other: str) -> None:
    index = SqliteIndex(":memory:")
    assert index._stems.terms(one).split() == index._stems.terms(other).split() != []
    index.close()


def test_names_of_several_words_are_also_their_parts() -> None:
    assert words.parts_of_names("XMLFeedImporter and plain words, getUserName") == [
        "XML",
        "Feed",
        "Importer",
        "get",
        "User",
        "Name",
    ]
