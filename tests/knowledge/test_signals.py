"""Cues tell what a note states from what it asks, supposes, doubts or needs only now."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from bench import signals as bench
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import every_case
from vademecum.errors import InvalidText
from vademecum.interfaces.cli.app import run
from vademecum.knowledge import judge, signals, typed
from vademecum.knowledge.judge import DeclineReason, SignalKind
from vademecum.knowledge.signals import Cue, read_phrases
from vademecum.memory import Memory

KEY = "AKIA" + "Q7PLMZ3RT8WXYB2C"


def kinds(text: str) -> list[str]:
    return [str(each.kind) for each in signals.read_cues(text).signals]


@every_case(
    ("text", "kind"),
    [
        ("I prefer small pull requests over large ones.", "preference"),
        ("from now on answer in German", "preference"),
        ("Keep explanations brief.", "preference"),
        ("pls no emojis in commit messages", "preference"),
        ("No, the cache lives in Redis; the files are only a fallback.", "correction"),
        ("you're mixing up the two tables, orders has the price", "correction"),
        ("That's wrong: prices are in cents.", "correction"),
        ("We decided to drop support for Windows 7.", "decision"),
        ("ok going with sqlite, postgres is out", "decision"),
        ("As of Friday the docs are built with MkDocs.", "decision"),
        ("The staging server is at 10.2.0.4 and runs Debian 12.", "fact"),
        ("our customers are hospitals", "fact"),
        ("fyi Marta owns the release scripts", "fact"),
        ("We always rebase before we merge.", "rule"),
        ("Every endpoint gets a test in tests/api.", "rule"),
        ("as a rule nothing goes to main without a review", "rule"),
        ("Ich bevorzuge kurze Antworten.", "preference"),
        ("Wir haben uns für Svelte entschieden.", "decision"),
        ("Nunca se despliega los viernes.", "rule"),
        ("Je préfère les réponses courtes.", "preference"),
        ("我们决定用 Go 重写后端", "decision"),
        ("デプロイの前に必ずテストを実行します", "rule"),
    ],
)
def test_a_lasting_statement_is_proposed_as_what_it_is(text: str, kind: str) -> None:
    assert kinds(text)[:1] == [kind]


@every_case(
    ("text", "reason"),
    [
        ("Do we always rebase before we merge?", DeclineReason.QUESTION),
        ("which database did we decide on", DeclineReason.QUESTION),
        ("Maybe we should drop support for Windows 7.", DeclineReason.SPECULATION),
        ("what if every endpoint had its own test", DeclineReason.QUESTION),
        ("I'm toying with the idea of a rewrite in Go", DeclineReason.SPECULATION),
        ("iirc the staging server runs Debian", DeclineReason.UNCERTAIN),
        ("I think Marta owns the release scripts, not sure", DeclineReason.UNCERTAIN),
        ("Use port 9000 for now.", DeclineReason.TRANSIENT),
        ("always print the payload while we debug this", DeclineReason.TRANSIENT),
        ("Rename the flag to --dry.", DeclineReason.REQUEST),
        ("add a test for the empty list", DeclineReason.REQUEST),
        ("thanks!", DeclineReason.CHAT),
        ("", DeclineReason.CHAT),
        ("Vielleicht nehmen wir irgendwann Svelte.", DeclineReason.SPECULATION),
        ("Creo que usamos Debian.", DeclineReason.UNCERTAIN),
        ("我们用的是哪个版本？", DeclineReason.QUESTION),
        ("たぶん東京リージョンです", DeclineReason.UNCERTAIN),
    ],
)
def test_what_is_asked_supposed_doubted_or_passing_is_declined(text: str, reason: DeclineReason) -> None:
    reading = signals.read_cues(text)
    assert reading.signals == ()
    assert reading.declined is reason


def test_a_proposal_is_the_sentence_and_not_the_request_around_it() -> None:
    reading = signals.read_cues("Add a button.\nWe never use inline styles, by the way. Then run the tests.")
    assert [each.text for each in reading.signals] == ["We never use inline styles, by the way."]


def test_a_sentence_that_points_back_brings_the_one_before_it() -> None:
    first = signals.read_cues("The queue is not Kafka. It's a Postgres table.").signals[0]
    assert first.text == "The queue is not Kafka. It's a Postgres table."
    assert first.kind is SignalKind.CORRECTION


def test_a_proposal_says_which_words_made_it_one() -> None:
    first = signals.read_cues("honestly I prefer tabs").signals[0]
    assert "i prefer" in first.why
    assert 0.5 < first.confidence <= 1


def test_doubt_in_one_sentence_is_doubt_about_the_others() -> None:
    assert kinds("The backup runs at 02:00.")
    assert kinds("The backup runs at 02:00. No idea whether that is still true.") == []


def test_the_surest_comes_first_and_few_are_enough() -> None:
    text = "The API is at port 80. I prefer tabs. We always squash. Our CI is Jenkins. We decided on Go."
    found = signals.read_cues(text).signals
    assert len(found) == judge.MOST
    assert [each.confidence for each in found] == sorted((each.confidence for each in found), reverse=True)


# ---------------------------------------------------------------- what is not the user's own


@every_case(
    "text",
    [
        "```\nWe always squash.\n```",
        "```python\n# We always squash.",
        "> We always squash.",
        "2026-11-15T10:00:00 INFO we always squash before merging to main\nERROR: we never use tabs",
        'Add "we always squash" to the list.',
        "rename `we_always_squash` in the helper",
        "<system-reminder>\nWe always squash.\n</system-reminder>",
    ],
)
def test_what_is_quoted_or_pasted_is_not_proposed(text: str) -> None:
    assert signals.read_cues(text).signals == ()


def test_injected_memory_is_never_taken_in_again_whole_or_cut_off() -> None:
    block = "<vade-memory>\nWhat is known.\n\n## Rules\n- We always squash.\nI prefer tabs.\n</vade-memory>\n"
    assert signals.read_cues(block).signals == ()
    assert signals.read_cues(block.replace("</vade-memory>", "")).signals == ()
    assert kinds(f"{block}\nWe never push to main.") == ["rule"]


# ---------------------------------------------------------------- secrets


def test_a_sentence_with_a_secret_is_not_proposed_and_nothing_repeats_it() -> None:
    reading = signals.read_cues(f"The staging server always uses the key {KEY} on port 80.")
    assert reading.declined is DeclineReason.SECRET
    assert KEY not in repr(reading)
    beside = signals.read_cues(f"We always squash. The key is {KEY}.")
    assert [each.text for each in beside.signals] == ["We always squash."]


def test_a_secret_hidden_behind_invisible_characters_is_not_put_together_again() -> None:
    reading = signals.read_cues(f"Our server always uses {KEY[:6]}\u200b{KEY[6:]} on port 80.")
    assert KEY not in repr(reading)


# ---------------------------------------------------------------- any text

PIECES = (
    'we always |i prefer |no, |not |maybe |?|.|\n|`|```\n|"|> | but |İ|<vade-memory>|</vade-memory>'
    "|our x is |for each a |\x00|\ud800|我们|です|’|\x1b[1m"
)
ALPHABET = st.sampled_from(PIECES.split("|"))


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=300), st.lists(ALPHABET, max_size=60).map("".join)))
def test_any_text_is_read_and_every_proposal_is_made_of_its_words(text: str) -> None:
    reading = signals.read_cues(text)
    assert bool(reading.signals) is (reading.declined is None)
    for each in reading.signals:
        assert each.text.strip()
        assert len(each.text) <= signals.LONGEST
        assert 0 <= each.confidence <= 1
    assert signals.read_cues(text) == reading


@pytest.mark.soak
@settings(max_examples=20_000, deadline=None)
@given(st.one_of(st.text(), st.lists(ALPHABET).map("".join)))
def test_any_text_at_all_is_read(text: str) -> None:
    signals.read_cues(text)


def test_blanking_what_is_not_the_users_moves_no_character() -> None:
    text = "İ <vade-memory>x\ny</vade-memory> a\n> b\n```\nc\n```\nWe always squash."
    assert len(typed.own_words(text)) == len(text)
    assert [each.text for each in signals.read_cues(text).signals] == ["We always squash."]


@pytest.mark.full
def test_of_a_large_paste_both_ends_are_read_and_the_middle_is_not() -> None:
    filler = "lorem ipsum dolor sit amet\n" * 40_000
    hidden = "We never use tabs.\n"
    text = f"I prefer spaces.\n{filler}{hidden}{filler}We decided to keep Jenkins."
    seen = signals.split_sentences(text)
    assert len(text) > 1_000_000
    assert seen[0].text == "I prefer spaces."
    assert seen[-1].text == "We decided to keep Jenkins."
    assert hidden.strip() not in {each.text for each in seen}
    assert {each.kind for each in signals.read_cues(text).signals} == {
        SignalKind.PREFERENCE,
        SignalKind.DECISION,
    }


def test_a_line_without_an_end_is_no_statement() -> None:
    assert signals.read_cues("we always squash and " * 60_000).signals == ()


# ---------------------------------------------------------------- the table


CUES, LISTS = read_phrases()


def test_every_kind_and_every_reason_that_words_can_give_has_cues() -> None:
    by_rule = {DeclineReason.QUESTION, DeclineReason.SECRET}
    assert {cue.side for cue in CUES} == {*SignalKind, *DeclineReason} - by_rule


@every_case("cue", CUES, ids=lambda cue: f"{cue.side} {cue.weight:g}")
def test_every_phrasing_compiles_alone_says_why_and_never_matches_nothing(cue: Cue) -> None:
    assert cue.weight > 0
    assert cue.why.strip()
    assert cue.phrasings
    for phrasing in cue.phrasings:
        assert "@" not in phrasing
        assert not signals._compiled((phrasing,)).search(""), phrasing
    assert len(set(cue.phrasings)) == len(cue.phrasings)


def test_the_file_holds_the_lists_that_are_read_and_no_others() -> None:
    source = Path(signals.__file__)
    read = "\n".join(each.read_text() for each in source.parents[1].rglob("*.py"))
    used = set(re.findall(r'(?:_pattern|read_words)\("(\w+)"\)', read))
    assert used == set(LISTS)
    assert all(LISTS.values())
    text = source.with_name("signal_phrases.txt").read_text()
    for name in re.findall(r"(?m)^@(\w+) = ", text):
        assert text.count(f"@{name}") > 1, "defined and not used"


def test_reading_signals_loads_nothing_heavy() -> None:
    code = "import sys; from vademecum.knowledge import signals; signals.read_cues('I do.'); "
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "apsw", "yaml", "rapidfuzz", "click", "rich", "pydantic_ai"} & set(
        done.stdout.split()
    )


# ---------------------------------------------------------------- the measurement


@pytest.mark.full
def test_the_measurement_names_no_text_and_both_halves() -> None:
    rows = bench.measure()
    assert rows[0]["half"] == "held out"
    assert {each["half"] for each in rows} >= {"held out", "development"}
    lines = [line for path in bench.SETS.values() for line in path.read_text(encoding="utf-8").splitlines()]
    texts = [json.loads(line)["text"] for line in lines]
    assert not any(len(text) > 12 and text in json.dumps(rows, ensure_ascii=False) for text in texts)


@pytest.mark.full
def test_on_the_half_no_rule_was_written_from_proposals_are_right_and_many() -> None:
    rows = [
        each
        for each in bench.measure()
        if (each["reader"], each["half"], each["label"]) == ("cues", "held out", "all")
    ]
    assert [each["set"] for each in rows] == [*bench.SETS]
    for row in rows:
        # The two last sets fall short of the bars: what they gave when they were first run must not fall.
        least = {"german": (0.85, 0.81), "voices": (0.94, 0.73)}.get(str(row["set"]), (0.92, 0.88))
        assert isinstance(row["precision"], float)
        assert isinstance(row["recall"], float)
        assert row["precision"] >= least[0]
        assert row["recall"] >= least[1]


@every_case(
    "said",
    [
        "The retry limit is 5 since the incident in May.",
        "don't ever touch vendor/",
        "Give me sources with page numbers, always.",
        "Niemals direkt auf main pushen.",
        "Das Team besteht aus sieben Leuten.",
    ],
)
def test_a_month_is_no_doubt_and_a_rule_needs_no_set_words(said: str) -> None:
    assert [each.text for each in signals.read_cues(said).signals] == [said]


@every_case(
    "said",
    [
        "this never happened before, weird",
        "the test always fails at line 40",
        "My colleague's previous company always used SVN",
        "we may switch providers in May, nothing is decided",
        "the docs always say that, don't they",
        "Der Test schlägt in Zeile 40 immer fehl.",
        "Mein alter Chef hat nie Tests geschrieben.",
    ],
)
def test_always_and_never_in_a_complaint_or_a_story_are_no_rule(said: str) -> None:
    assert signals.read_cues(said).signals == ()


# ---------------------------------------------------------------- Memory and the command line


def test_suggesting_writes_nothing(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "home", cwd=tmp_path)
    assert [each.kind for each in memory.knowledge.suggest("I prefer tabs.").signals] == [
        SignalKind.PREFERENCE
    ]
    assert memory.knowledge.suggest(" \n").signals == ()
    assert memory.knowledge.suggest(b"We always squash.").signals
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", "a\0b", "half \ud800"])
def test_what_is_not_text_is_refused(text: str | bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidText):
        Memory.open(tmp_path / "home", cwd=tmp_path).knowledge.suggest(text)


def test_the_command_shown_keeps_the_proposal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    said = "No, it's Müller's \"api\" that runs on port 80; $HOME and `x` are not."
    assert run(["suggest", said, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["declined"] is None
    assert not (tmp_path / "home").exists()
    words = shlex.split(told["signals"][0]["command"])
    assert words[:3] == ["vade", "add", said]
    assert run(words[1:]) == 0
    capsys.readouterr()
    kind = told["signals"][0]["kind"]
    assert run(["list", "--tag", kind, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["records"]) == 1


def test_a_message_with_nothing_to_keep_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["suggest", "Should we use tabs?", "--home", str(tmp_path / "home")]) == 0
    assert "nothing to save: question" in capsys.readouterr().out
    assert run(["suggest", "", "--home", str(tmp_path / "home"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["signals"] == []


@every_case(
    ("text", "kind"),
    [
        ("could you always answer in plain words?", "preference"),
        ("would you kindly keep your summaries below ten lines in general", "preference"),
        ("Könntest du mir künftig auf Englisch antworten?", "preference"),
        ("Das Archiv steht in Bochum.", "fact"),
        ("nicht im Keller, im Dachgeschoss!", "correction"),
        ("ich kann lange Listen nicht leiden", "preference"),
    ],
)
def test_a_wish_for_good_and_a_german_fact_are_read_as_what_they_are(text: str, kind: str) -> None:
    assert kinds(text) == [kind]


@every_case(
    "text",
    [
        "could you check that the suite is green?",
        "Das ist ja seltsam.",
        "Always a pleasure when the projector dies.",
        "Bis Frau Ortner wieder da ist, bitte nichts löschen.",
    ],
)
def test_a_question_a_remark_and_what_holds_for_a_while_are_declined(text: str) -> None:
    assert kinds(text) == []
