"""The learned types: their text, what confirms what, what is counted, and the order they are told in."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vademecum.errors import IncognitoWrite, InvalidText, NotFound, SecretFound, UnknownName, UsageError
from vademecum.knowledge import lessons
from vademecum.knowledge import trust as trusts
from vademecum.knowledge.trust import Level, Trust
from vademecum.memory import Memory, connect
from vademecum.text import frontmatter
from vademecum.types import LEARNED, Entry, Origin, Outcome, Place, Record, RecordType, Scope

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
TRUSTED = Trust(Level.USER, "", True, "")
DOUBTED = Trust(Level.UNVERIFIED, "[unverified]", True, "")
LARGEST = 1 << 20
SAMPLES: dict[RecordType, dict[str, Any]] = {
    RecordType.DISCOVERY: {"fact": "Config uses YAML, not JSON."},
    RecordType.SOLUTION: {
        "error": "Saving a session fails with permission denied",
        "solution": "Check who owns the folder; it must be the current user.",
    },
    RecordType.PATTERN: {"pattern": "All file writes go to a temporary file that is renamed."},
    RecordType.WORKFLOW: {"sequence": ["run the tests", "bump the version", "tag"], "success_rate": 0.9},
    RecordType.FAILURE: {
        "what": "The deploy ran before the migration",
        "impact": "orders were refused for an hour",
        "prevention": "let the deploy wait for the migration's job",
    },
    RecordType.RULE: {"path": "src/store/", "rule": "Nothing here imports the index."},
}


class Clock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at

    def forward(self, **spans: float) -> None:
        self.at += timedelta(**spans)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(base: Path, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", **given)


@pytest.fixture
def memory(tmp_path: Path, clock: Clock) -> Memory:
    return opened(tmp_path, now=clock, session="s1")


# --- text ---------------------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.text(min_size=1, max_size=80),
    st.lists(
        st.sampled_from(
            ["**Error:** x", "\\**Solution:** y", "**Success rate:** 0.3", "1. one", "   12) two", "", "  ",
             "## 2026-11-15T08:00:00Z", "<!-- origin: user -->", "```", "- a", "é\r", "\ufeff", "**What:**"]
        ),
        min_size=1,
        max_size=6,
    ).map("\n".join),
)  # fmt: skip


def cleaned(kind: RecordType, fields: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return lessons.clean(kind, fields, largest=LARGEST)
    except UsageError:
        return None


def any_fields(kind: RecordType, draw: st.DataObject) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in lessons.SHAPES[kind].labels:
        if name == "sequence":
            fields[name] = draw.draw(st.lists(TEXTS, min_size=1, max_size=12))
        elif name == "success_rate":
            fields[name] = draw.draw(st.one_of(st.none(), st.floats(0, 1)))
        else:
            fields[name] = draw.draw(TEXTS)
    return fields


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.sampled_from(LEARNED), st.data())
def test_fields_come_back_from_their_text(kind: RecordType, draw: st.DataObject) -> None:
    fields = cleaned(kind, any_fields(kind, draw))
    if fields is not None:
        assert lessons.parse(kind, lessons.render(kind, fields)) == fields


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.sampled_from(LEARNED), st.data())
def test_fields_come_back_from_their_file(
    tmp_path_factory: pytest.TempPathFactory, kind: RecordType, draw: st.DataObject
) -> None:
    fields = cleaned(kind, any_fields(kind, draw))
    if fields is None or any("[" in str(value) for value in fields.values()):
        return
    memory = opened(tmp_path_factory.mktemp("case"))
    stored = memory.knowledge.learn(kind, **fields)
    if not stored.secrets:
        lesson = lessons.read_lesson(memory.show(stored.id or ""))
        assert lesson is not None
        assert lesson.fields == fields


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(LEARNED), TEXTS)
def test_any_text_can_be_read_as_any_type(kind: RecordType, text: str) -> None:
    fields = lessons.parse(kind, text)
    assert set(fields) <= set(lessons.SHAPES[kind].labels)


def test_a_text_without_labels_belongs_to_what_the_type_is_about() -> None:
    assert lessons.parse(RecordType.SOLUTION, "just words") == {"error": "just words"}
    assert lessons.parse(RecordType.RULE, "be kind\n\n**Path:** src/") == {"path": "src/", "rule": "be kind"}
    assert lessons.parse(RecordType.WORKFLOW, "before\n1. one\n2) two") == {
        "sequence": ["before", "one", "two"]
    }


@pytest.mark.parametrize("kind", LEARNED)
def test_each_type_is_an_ordinary_record_that_a_person_can_read(
    tmp_path: Path, memory: Memory, kind: RecordType
) -> None:
    stored = memory.knowledge.learn(
        kind, **SAMPLES[kind], confidence=0.6, examples=["a.py", "b.py"], tags=["x"]
    )
    text = (tmp_path / "home" / stored.path).read_text()
    values = frontmatter.parse(text).values
    assert stored.outcome is Outcome.CREATED
    assert values["type"] == kind
    assert values["confidence"] == 0.6
    assert values["examples"] == ["a.py", "b.py"]
    assert [each["session"] for each in values["confirmed"]] == ["s1"]
    assert lessons.render(kind, SAMPLES[kind]) in text
    lesson = lessons.read_lesson(memory.show(stored.key))
    assert lesson is not None
    assert (lesson.fields, lesson.applied, lesson.times) == (SAMPLES[kind], 0, 1)
    assert (lesson.first, lesson.last) == ("2026-11-15T08:00:00Z", "2026-11-15T08:00:00Z")


def test_a_key_is_made_from_what_the_lesson_is_about(memory: Memory) -> None:
    keys = {kind: memory.knowledge.learn(kind, **SAMPLES[kind]).key for kind in LEARNED}
    assert keys[RecordType.SOLUTION] == "saving-a-session-fails-with-permission"
    assert keys[RecordType.RULE] == "src-store-nothing-here-imports-the"
    assert keys[RecordType.WORKFLOW] == "run-the-tests-bump-the-version"


# --- confirming ---------------------------------------------------------------------------------------------


def test_learning_the_same_again_confirms_it(memory: Memory, clock: Clock) -> None:
    first = memory.knowledge.learn(
        "pattern", pattern="Write to a temporary file, then rename.", examples=["a.py"]
    )
    clock.forward(days=3)
    again = memory.knowledge.learn(
        "pattern", pattern="Write to a  temporary file,\nthen rename.", examples=["b.py", "a.py"]
    )
    record = memory.show(first.key)
    lesson = lessons.read_lesson(record)
    assert lesson is not None
    assert again.outcome is Outcome.CONFIRMED
    assert again.id == first.id
    assert len(record.entries) == 1
    assert lesson.examples == ("a.py", "b.py")
    assert lesson.times == 2
    assert 0.7 < lesson.confidence < 1
    assert (lesson.first, lesson.last) == ("2026-11-15T08:00:00Z", "2026-11-18T08:00:00Z")


def test_a_newer_wording_stands_and_the_old_one_is_superseded(memory: Memory, clock: Clock) -> None:
    memory.knowledge.learn("discovery", fact="The billing service is deployed from Frankfurt every Friday")
    clock.forward(days=300)  # the window in which `store` looks for near-duplicates is of no matter here
    newer = memory.knowledge.learn(
        "discovery", fact="The billing services are deployed from Frankfurt every Friday"
    )
    record = memory.show(newer.key)
    assert newer.outcome is Outcome.CONSOLIDATED
    assert [entry.live for entry in record.entries] == [False, True]
    assert record.text.startswith("The billing services")
    assert record.confidence is not None
    assert record.confidence > 0.8
    assert len(memory.list().records) == 1


def test_saying_the_old_words_again_does_not_bring_them_back(memory: Memory) -> None:
    old, new = (
        "The cache lives in the state file of the home",
        "The cache lived in the state file of the home",
    )
    memory.knowledge.learn("discovery", fact=old)
    memory.knowledge.learn("discovery", fact=new)
    third = memory.knowledge.learn("discovery", fact=old)
    record = memory.show(third.key)
    assert third.outcome is Outcome.CONFIRMED
    assert [entry.text for entry in record.entries] == [old, new]
    assert record.text == new
    assert record.fields["learned"] == 3


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("discovery", {"fact": "Port 8080 is the admin port"}, {"fact": "Port 8081 is the admin port"}),
        ("discovery", {"fact": "Retries are safe here"}, {"fact": "Retries are not safe here"}),
        (
            "solution",
            {"error": "the build of the documentation fails in CI", "solution": "install graphviz"},
            {
                "error": "the build of the documentation fails in CI",
                "solution": "pin sphinx to the last release",
            },
        ),
        ("workflow", {"sequence": ["build", "deploy"]}, {"sequence": ["deploy", "build"]}),
        ("workflow", {"sequence": ["build", "deploy"]}, {"sequence": ["build", "deploy", "announce"]}),
        ("rule", {"path": "src/", "rule": "no prints"}, {"path": "tests/", "rule": "no prints"}),
        (
            "failure",
            {"what": "the disk was full", "impact": "writes failed"},
            {"what": "the disk was full", "prevention": "watch the free space"},
        ),
    ],
)
def test_what_differs_is_a_lesson_of_its_own(
    memory: Memory, kind: str, one: dict[str, Any], other: dict[str, Any]
) -> None:
    first, second = memory.knowledge.learn(kind, **one), memory.knowledge.learn(kind, **other)
    assert second.outcome is Outcome.CREATED
    assert first.id != second.id
    assert {first.key} != {second.key}


def test_lessons_are_compared_within_scope_and_type_only(memory: Memory) -> None:
    text = "Every write goes through one module"
    ids = {
        memory.knowledge.learn("discovery", fact=text).id,
        memory.knowledge.learn("pattern", pattern=text).id,
        memory.knowledge.learn("discovery", fact=text, scope="global").id,
        memory.knowledge.learn("discovery", fact=text, scope="session").id,
        memory.store(text, key="mine").id,
    }
    assert len(ids) == 5
    assert memory.show("mine").type == "project"


def test_a_lesson_that_says_less_leaves_the_fuller_one_standing(memory: Memory) -> None:
    memory.knowledge.learn("failure", **SAMPLES[RecordType.FAILURE])
    less = memory.knowledge.learn("failure", what="The deploy ran before the migration")
    lesson = lessons.read_lesson(memory.show(less.key))
    assert lesson is not None
    assert lesson.fields == SAMPLES[RecordType.FAILURE]
    assert lesson.times == 2
    assert len(memory.show(less.key).entries) == 2  # its words are kept all the same


def test_an_agent_does_not_reword_what_a_person_said(tmp_path: Path) -> None:
    person = opened(tmp_path, origin=Origin.USER)
    said = person.knowledge.learn("discovery", fact="The API answers in JSON and in CSV, by the header")
    opened(tmp_path, session="s1").knowledge.learn(
        "discovery", fact="The API answered in JSON and in CSV, by the header"
    )
    record = person.show(said.key)
    assert record.text == "The API answers in JSON and in CSV, by the header"
    assert [entry.origin for entry in record.entries] == [Origin.USER, Origin.AGENT]
    again = opened(tmp_path, session="s1").knowledge.learn(
        "discovery", fact="The API answered in JSON and in CSV, by the header"
    )
    assert len(person.show(again.key).entries) == 2


def test_confidence_rises_toward_one_and_never_falls() -> None:
    rng = random.Random(20261115)
    for _ in range(2000):
        old, given = rng.random(), rng.random()
        new = lessons.raise_confidence(old, given)
        assert max(old, given) <= new <= 1
    sure = 0.0
    for _ in range(200):
        sure = lessons.raise_confidence(sure, 0.0)
    assert sure > 0.99
    assert lessons.raise_confidence(1.0, 0.2) == 1


def test_a_doubtful_repetition_does_not_lower_the_confidence(memory: Memory) -> None:
    memory.knowledge.learn("pattern", pattern="Names are nouns", confidence=0.9)
    memory.knowledge.learn("pattern", pattern="Names are nouns", confidence=0.1)
    confidence = memory.show("names-are-nouns").confidence
    assert confidence is not None
    assert confidence >= 0.9


def test_the_use_of_a_solution_is_counted(memory: Memory) -> None:
    stored = memory.knowledge.learn("solution", **SAMPLES[RecordType.SOLUTION])
    before = memory.show(stored.key)
    for count in (1, 2, 3):
        assert memory.knowledge.applied(stored.key).fields["applied"] == count
    after = memory.show(stored.key)
    assert after.entries == before.entries or [e.text for e in after.entries] == [
        e.text for e in before.entries
    ]
    assert after.updated == before.updated
    with pytest.raises(UnknownName):
        memory.knowledge.applied(memory.store("not learned", key="plain").key)
    with pytest.raises(NotFound):
        memory.knowledge.applied("nothing-here")


def test_counters_that_a_hand_has_spoiled_count_from_nothing(tmp_path: Path, memory: Memory) -> None:
    stored = memory.knowledge.learn("solution", **SAMPLES[RecordType.SOLUTION])
    path = tmp_path / "home" / stored.path
    path.write_text(
        frontmatter.edit(
            path.read_text(), {"applied": "many", "confidence": 7, "examples": "a.py", "learned": -3}
        )
    )
    lesson = lessons.read_lesson(memory.show(stored.key))
    assert lesson is not None
    assert (lesson.applied, lesson.confidence, lesson.examples, lesson.times) == (0, 0.8, ("a.py",), 1)
    assert memory.knowledge.applied(stored.key).fields["applied"] == 1


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields", "error"),
    [
        ("hunch", {"fact": "x"}, UnknownName),
        ("project", {"fact": "x"}, UnknownName),
        ("discovery", {}, UsageError),
        ("discovery", {"fact": "  \n "}, InvalidText),
        ("discovery", {"fact": "a\0b"}, InvalidText),
        ("discovery", {"fact": 7}, InvalidText),
        ("discovery", {"fact": "x", "error": "y"}, UsageError),
        ("solution", {"error": "x"}, UsageError),
        ("workflow", {"sequence": "one step"}, UsageError),
        ("workflow", {"sequence": ["x"], "success_rate": 3}, UsageError),
        ("workflow", {"sequence": ["x"], "success_rate": math.nan}, UsageError),
        ("rule", {"path": "a\nb", "rule": "x"}, InvalidText),
        ("discovery", {"fact": "x", "confidence": 1.5}, UsageError),
        ("discovery", {"fact": "x", "confidence": math.nan}, UsageError),
        ("discovery", {"fact": "x", "examples": "a.py"}, UsageError),
        ("discovery", {"fact": "x", "examples": ["a\nb"]}, InvalidText),
        ("discovery", {"fact": "x", "scope": "nowhere"}, UnknownName),
    ],
)
def test_what_cannot_be_learned_is_refused_and_nothing_is_written(
    memory: Memory, kind: str, fields: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        memory.knowledge.learn(kind, **fields)
    assert not memory.list().records


def test_secrets_are_taken_out_of_every_field(tmp_path: Path, memory: Memory) -> None:
    secret = "AKIA" + "IOSFODNN7EXAMPLQ"
    stored = memory.knowledge.learn(
        "solution",
        error=f"the key {secret} is refused",
        solution="rotate it",
        examples=[f"dump/{secret}.txt"],
    )
    assert stored.secrets
    assert secret not in (tmp_path / "home" / stored.path).read_text()
    assert secret.lower() not in stored.key
    with pytest.raises(SecretFound):
        memory.knowledge.learn("discovery", fact=f"{secret} is the key", scope="federated")


def test_incognito_learns_nothing_and_knows_nothing(tmp_path: Path, memory: Memory) -> None:
    memory.knowledge.learn("discovery", fact="something")
    quiet = opened(tmp_path, incognito=True)
    with pytest.raises(IncognitoWrite):
        quiet.knowledge.learn("discovery", fact="else")
    assert not quiet.knowledge.list()
    assert quiet.knowledge.stats().total.count == 0


# --- the order ----------------------------------------------------------------------------------------------


def lesson(kind: RecordType = RecordType.DISCOVERY, **given: Any) -> lessons.Lesson:
    record = Record("k", Place(Scope.GLOBAL), "p", kind, "k", ())
    values: dict[str, Any] = {"confidence": 0.8, "last": "2026-11-15T08:00:00Z"} | given
    return lessons.Lesson(record, kind, Entry("x"), {}, **values)


def value(each: lessons.Lesson, trust: Trust = TRUSTED, *, now: datetime = START) -> float:
    return trusts.score_lesson(each, trust, now=now, half_life_days=60).value


def test_the_score_is_confidence_by_age_by_type_by_use() -> None:
    assert value(lesson()) == pytest.approx(0.8)
    assert value(lesson(), now=START + timedelta(days=60)) == pytest.approx(0.4)
    assert value(lesson(), now=START + timedelta(days=180)) == pytest.approx(0.1)
    assert value(lesson(RecordType.SOLUTION)) == pytest.approx(0.8 * 1.3)
    assert value(lesson(RecordType.WORKFLOW)) == pytest.approx(0.8 * 0.8)
    assert value(lesson(applied=9)) == pytest.approx(0.8 * (1 + 0.3 * math.log(10)))
    assert value(lesson(), DOUBTED) == pytest.approx(0.8 * 0.3)
    assert set(trusts.WEIGHTS) == set(LEARNED)


def test_a_time_to_come_or_none_is_no_advantage() -> None:
    assert value(lesson(last="2999-01-01T00:00:00Z")) == value(lesson())
    assert value(lesson(last=None)) == value(lesson())


def test_looking_changes_nothing_so_nothing_fades_twice(tmp_path: Path, memory: Memory, clock: Clock) -> None:
    for kind in LEARNED:
        memory.knowledge.learn(kind, **SAMPLES[kind])
    clock.forward(days=100)
    before = {path: path.read_bytes() for path in (tmp_path / "home" / "memory").rglob("*.md")}
    first = [each.score for each in memory.knowledge.list()]
    second = [each.score for each in memory.knowledge.list()]
    assert first == second
    assert {path: path.read_bytes() for path in (tmp_path / "home" / "memory").rglob("*.md")} == before


def test_lessons_are_told_best_first_and_in_a_stable_order(memory: Memory, clock: Clock) -> None:
    memory.knowledge.learn("discovery", fact="an old fact")
    clock.forward(days=200)
    memory.knowledge.learn("discovery", fact="a fresh one of another kind")
    memory.knowledge.learn("solution", error="it breaks", solution="mend it")
    told = [each.lesson.record.key for each in memory.knowledge.list()]
    assert told == ["it-breaks", "a-fresh-one-of-another-kind", "an-old-fact"]
    assert [each.lesson.record.key for each in memory.knowledge.list(type="discovery")] == told[1:]
    with pytest.raises(UnknownName):
        memory.knowledge.list(type="project")


def test_the_half_life_is_a_setting(tmp_path: Path, memory: Memory, clock: Clock) -> None:
    memory.knowledge.learn("discovery", fact="a fact", confidence=0.8)
    clock.forward(days=10)
    (tmp_path / "home" / "config.toml").write_text("[knowledge]\nhalf_life_days = 10\n")
    again = opened(tmp_path, now=clock)
    assert again.knowledge.list()[0].score.age == pytest.approx(0.5)


def test_figures_are_those_of_the_lessons(memory: Memory, clock: Clock) -> None:
    memory.knowledge.learn("discovery", fact="first fact", confidence=0.5)
    clock.forward(days=10)
    memory.knowledge.learn("discovery", fact="another thing entirely", confidence=0.9)
    memory.knowledge.learn("solution", error="it breaks", solution="mend it", scope="global")
    memory.knowledge.applied("it-breaks")
    found = memory.knowledge.stats()
    assert found.total.count == 3
    assert {name: each.count for name, each in found.by_scope.items()} == {"project": 2, "global": 1}
    assert {name: each.count for name, each in found.by_type.items()} == {"discovery": 2, "solution": 1}
    discoveries = found.by_scope_and_type["project"]["discovery"]
    assert discoveries.confidence == pytest.approx(0.7)
    assert (discoveries.oldest_days, discoveries.newest_days, discoveries.age_days) == (10, 0, 5)
    assert discoveries.size == len("first fact") + len("another thing entirely")
    assert found.by_type["solution"].applied == 1
    assert found.total.by_trust == {"unverified": 3}
    assert memory.knowledge.stats(scope="agent").total.count == 0
