"""What counts as saying the same thing twice."""

from __future__ import annotations

import re
from pathlib import Path

from bench import same as bench
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz import fuzz

import vademecum
from cases import every_case
from vademecum.text import lexicon, similarity
from vademecum.text.similarity import same

TEXT = Path(vademecum.__file__).parent / "text"
WORDS = sorted(word for word in (TEXT / "english.txt").read_text().split() if len(word) > 3)
PAIRS = bench.read()


def is_one(one: str, other: str, *, threshold: float = 85) -> bool:
    """Whether two texts are taken for one, whichever comes first."""
    found = {same(*pair, threshold=threshold) is not None for pair in ((one, other), (other, one))}
    assert len(found) == 1, "the order of two texts decides"
    return found.pop()


@every_case(
    ("one", "other"),
    [
        ("We deploy with fly.io every friday at noon", "We deploy with fly.io every Friday at noon!"),
        ("Always use pytest for testing in this project", "always use pytest for testing in this project."),
        ("The staging server is restarted every night", "The staging server is restarrted every night"),
        ("every night the staging server is rebuilt", "The staging server is rebuilt every night"),
        ("The backup runs at noon in the archive", "The backups ran at noon in the archive"),
        ("The worker is called by the API over the queue", "The API calls the worker over the queue"),
        ("The keys have been rotated by the ops team", "The ops team has rotated the keys"),
        ("Don't push to main on weekends", "Do not push to main on weekends"),
        ("The agent isn't allowed to change the schema", "The agent is not allowed to change the schema"),
        ("When the build fails, restart the runner.", "Restart the runner when the build fails."),
        ("The APIs of the shop are versioned by date", "The API of the shop is versioned by date"),
        ("Der Dienst läuft im zweiten Rechenzentrum.", "Der Dienst läuft in dem zweiten Rechenzentrum"),
        ("Quand le build échoue, relance le serveur.", "Relance le serveur quand le build échoue."),
        ("La copia corre cada noche en el servidor.", "Las copias corren cada noche en el servidor."),
        ("使用 Python 3.12 编写所有服务。", "使用Python 3.12编写所有服务"),
        ("ﾃｽﾄは毎晩ｻｰﾊﾞｰで実行します。", "テストは毎晩サーバーで実行します。"),
    ],
)
def test_other_forms_articles_clauses_contractions_and_voice_are_the_same_statement(
    one: str, other: str
) -> None:
    assert is_one(one, other)


@every_case(
    ("one", "other"),
    [
        ("Run make lint before every commit", "Run make test before every commit"),
        ("Alice owns the billing service", "Alice owns the mailing service"),
        ("Read access to the vault is granted by Ops", "Write access to the vault is granted by Ops"),
        ("Bob prefers tabs over spaces", "Rob prefers tabs over spaces"),
        ("We deploy on Tuesdays after lunch", "We deploy on Thursdays after lunch"),
        ("Query the orders table for it", "Query the users table for it"),
        ("Ticket PROJ-101 is assigned to Ann", "Ticket PROJ-102 is assigned to Ann"),
        ("Do use tabs in Makefiles", "Do not use tabs in Makefiles"),
        ("Never push to main on weekends", "Now push to main on weekends"),
        ("User prefers dark mode in the editor", "user prefers dark mode in the editor now"),
        ("The nightly build runs at two in the morning", "The nightly build runs at three in the morning"),
        ("Alice reports to Bob in Oslo", "Bob reports to Alice in Oslo"),
        ("The API is called by the worker", "The API calls the worker"),
        ("The queue is blocked by the worker", "The queue is blocking the worker"),
        ("The deleted users are listed here", "The deleting users are listed here"),
        ("Robert owns the release of the app", "Roberts owns the release of the app"),
        ("The quota is 10 MB for guests", "The quota is 10 Mb for guests"),
        ("Run ./setup.sh on the host", "Run ../setup.sh on the host"),
        ("The factor is 2*3*4 in the sheet", "The factor is 234 in the sheet"),
        ("The area is 10² km in the plan", "The area is 102 km in the plan"),
        ("Tests always pass here", "Always pass tests here"),
        ("No, deploy on Fridays after noon", "No deploy on Fridays after noon"),
        ("Der Hund beißt den Mann im Park", "Den Hund beißt der Mann im Park"),
        ("La tour est fermée le lundi", "Le tour est fermée le lundi"),
        ("Usa el tema oscuro en el editor", "Usas el tema oscuro en el editor"),
        ("部署在周一进行", "部署在周二进行"),
        ("아버지가 방에 들어가신다 지금", "아버지 가방에 들어가신다 지금"),
        ("Run tests on A and deploy on B", "On B run tests on A and deploy"),
        (
            "Stop the old server now. Delete the cache folder.",
            "Delete the cache folder. Stop the old server now.",
        ),
        ("The API is slow. It runs in Oslo now.", "It runs in Oslo now. The API is slow."),
        ("we use react for the frontend", "we use preact for the frontend"),
        ("Push it over http to the mirror", "Push it over https to the mirror"),
        ("The default port is 8080 in the lab", "The default port was 8080 in the lab"),
        ("The team has a budget for it", "The team had a budget for it"),
        ("A few tests of the suite fail", "Few tests of the suite fail"),
        ("Use the Polish style in the docs", "Use the polish style in the docs"),
    ],
)
def test_another_word_name_number_order_or_role_makes_another_statement(one: str, other: str) -> None:
    assert not is_one(one, other, threshold=60)


def test_of_the_labelled_set_no_two_facts_are_one_and_most_rewordings_are() -> None:
    merged = [pair.id for pair in PAIRS if not pair.same and bench.joined(pair)]
    assert merged == []
    within = [pair for pair in PAIRS if pair.same and bench.likeness(pair) >= 85]
    assert len([pair for pair in PAIRS if not pair.same]) >= 330
    assert len(within) >= 170
    for half in (True, False):
        mine = [pair for pair in within if bench.held_out(pair) is half]
        assert sum(map(bench.joined, mine)) >= 0.85 * len(mine)


def test_two_redacted_secrets_are_never_one() -> None:
    text = "The token of the bot is [REDACTED:github-token]"
    assert not is_one(text, text)
    assert not is_one(text, text.replace("github", "slack"))


def test_a_slip_of_the_hand_is_forgiven_only_where_it_makes_no_word() -> None:
    assert is_one("Keep the certificate in the vault", "Keep the certficate in the vault")
    for one, other in (
        ("trial", "trail"),
        ("united", "untied"),
        ("adapter", "adopter"),
        ("producer", "reducer"),
    ):
        assert not is_one(f"The {one} ends after the second week", f"The {other} ends after the second week")
    # A name may be spelled in any way, also where it begins the sentence.
    assert not is_one("Michael owns the vault of the team", "Micheal owns the vault of the team")


def test_which_text_comes_first_decides_nothing() -> None:
    for pair in PAIRS:
        is_one(pair.one, pair.other)


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=200))
def test_every_text_says_what_it_says_itself(text: str) -> None:
    if text.strip() and "[REDACTED:" not in text:
        assert is_one(text, text)
        assert is_one(text, f"  {text}\n")


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_text_with_one_word_replaced_by_another_is_another_statement(data: st.DataObject) -> None:
    pair = data.draw(st.sampled_from([pair for pair in PAIRS if pair.language == "en"]))
    spots = [*re.finditer(r"(?<![\w./-])[A-Za-z]{4,}(?![\w./-])", pair.one)]
    spot = data.draw(st.sampled_from(spots))
    word = data.draw(st.sampled_from(WORDS))
    if spot[0].lower() in ("that", "please") or word in ("that", "please"):
        return
    if lexicon.same_word(spot[0].lower(), word, language="en"):
        return
    changed = word.capitalize() if spot[0][0].isupper() else word
    assert not is_one(pair.one, pair.one[: spot.start()] + changed + pair.one[spot.end() :], threshold=50)


def test_the_store_knows_the_words_of_the_shipped_vocabulary() -> None:
    shipped = (
        (TEXT.parent / "index" / "embed" / "model" / "vocab.txt").read_text(encoding="utf-8").split("\n")
    )
    whole = {word for word in shipped if word.isascii() and word.isalpha() and len(word) > 2}
    assert set((TEXT / "english.txt").read_text().split()) == whole
    assert lexicon.is_word("lockfile")
    assert lexicon.is_word("unlinked")
    assert not lexicon.is_word("biuld")


@every_case(
    ("text", "language"),
    [
        ("The worker runs in the second region.", "en"),
        ("Der Dienst läuft in der zweiten Region.", "de"),
        ("Le service tourne dans la région.", "fr"),
        ("El servicio corre en la región.", "es"),
        ("Сервис работает ночью", ""),
        ("部署在周一进行", ""),
    ],
)
def test_the_language_of_a_text_is_told_by_its_commonest_words(text: str, language: str) -> None:
    assert similarity.read_statement(text).language == language


@settings(max_examples=300)
@given(*[st.text(st.sampled_from("abc \u00e9\t\u4e00"), max_size=60) for _ in range(2)], st.floats(0, 100))
def test_texts_are_as_alike_as_a_library_for_that_finds_them(one: str, other: str, cutoff: float) -> None:
    expected = fuzz.token_sort_ratio(one, other)
    assert similarity._ratio(one, other, 0.0) == expected
    found = similarity._ratio(one, other, cutoff)
    assert found == (expected if expected >= cutoff else 0.0)
