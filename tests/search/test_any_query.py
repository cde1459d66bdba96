"""Any string is a question, whatever it is made of, and it is never answered from somebody else's memory."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING, Any

import pytest

import tiers
from vademecum.errors import NotVisible, ScopeUnresolved, UsageError
from vademecum.memory import Memory, connect
from vademecum.types import Origin, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "zanzibar"
SHARED = "The heron nests by the pond, with E4017 frogs, 田中さん and don't-care pre-edit C++ at 3 GB/s."


def opened(base: Path, *, embedder: str = "local", work: str = "work", **given: Any) -> Memory:
    (base / work).mkdir(exist_ok=True)
    given.setdefault("environ", {"VADE_EMBEDDER": embedder})
    return connect(home=base / "home", cwd=base / work, origin=Origin.USER, **given)


def filled(base: Path) -> dict[str, Memory]:
    """One home with callers who may see little of each other; all share the index of one agent."""
    own = opened(base, agent="robin", session="monday")
    own.store(SHARED, key="heron", type="rule", tags=["bird", "a b"])
    own.store("The frog sleeps in the session.", key="frog", scope="session")
    own.store("The pond is deep.", key="pond", scope="global", tags=["bird"])
    for number, (agent, session, work) in enumerate(
        [
            ("robin", "tuesday", "work"),
            ("robin", "tuesday", "elsewhere"),
            ("wren", "friday", "elsewhere"),
            ("wren", "wednesday", "work"),
        ]
    ):
        other = opened(base, agent=agent, session=session, work=work)
        hidden = f"The {SECRET} heron sits by pond {number} with E4017 frogs and 田中さん in C++ at GB/s."
        scopes = ["session"]
        scopes += ["project"] if work == "elsewhere" else []
        scopes += ["agent"] if agent == "wren" else []
        for scope in scopes:
            other.store(hidden, key=f"hidden-{scope}-{number}", scope=scope, type="rule", tags=["bird"])
        if work == "elsewhere":
            other.note(hidden)
            vault = base / f"vault-{number}"
            vault.mkdir()
            (vault / "note.md").write_text(f"# Heron\n\n{hidden}\n")
            other.sources.add(vault, scope="project")
        # Its own caller finds it, so that it is in the index and could be found.
        assert SECRET in " ".join(each.snippet for each in other.search(SECRET, min_score=0.0).results)
    for agent, work in (("robin", "elsewhere"), ("robin", "work")):
        opened(base, agent=agent, session="tuesday", work=work).search("heron")
    return {
        "own": opened(base, agent="robin", session="monday"),
        "keywords": opened(base, agent="robin", session="monday", embedder="none"),
        "group": opened(base, agent="robin", session="monday", audience="group"),
    }


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Memory]]:
    found = filled(tmp_path_factory.mktemp("any"))
    yield found
    for memory in found.values():
        memory.care.searcher.close()


# --- questions ----------------------------------------------------------------------------------------------

FILTERS = ("scope", "type", "tag", "after", "before", "path", "SCOPE", "Tag", "source", "session", "agent")
VALUES = [
    *Scope,
    *RecordType,
    *"""2025-01-01 9999-12-31T23:59:59-23:59 0001-01-01T00:00:00+23:59 0000-00-00 2025-02-30 lunch bird "a b"
    "" " "" ' * % ../.. /etc/passwd memory/session tuesday elsewhere wren robin hidden-project-1 or:1=1
    );drop x'00' ?1 :a @b $c NULL null 1e999 -1 99999999999999999999 [] {} 東京 🦩""".split(),
    "\0",
    "\ud800",
    "\u202e",
    "v" * 300,
]
PIECES = [
    *f"""{SECRET} heron pond frog frogs E4017 田中さん 東京 don't pre-edit GB/s C++ C# .NET src/app/main.py
    AND OR NOT NEAR NEAR( NEAR/3 "NEAR" ( ) (( )) * ^ + - : :: {{body}} {{body: - rowid: rank: narrow wide
    match MATCH ' '' " "" " ' ; -- /* */ ' or 1=1 -- ') or (1=1 select * from files; \\ / | || && ! ? % _ $ @
    # < > = ~ ` é ß İ ﬁ Ⅷ שלום مرحبا हिन्दी ไทย 한국어 𠮷 🦩 👩‍👩‍👧 🇩🇪 the of
    and what is how many days ago""".split(),
    "\0",
    "\ud800",
    "\udfff",
    "\udce9",
    "\u202e",
    "\u200d",
    "\ufeff",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\r\n",
    "\t",
    "e\u0301",
]
DECODINGS = (("utf-8", "surrogateescape"), ("latin-1", "strict"), ("utf-8", "replace"), ("cp1252", "replace"))


def question(chance: random.Random) -> str:
    """One question: words, marks, filters, bytes read as text, or all of them, and now and then very long."""
    kind = chance.randrange(20)
    if kind < 3:
        encoding, errors = chance.choice(DECODINGS)
        return chance.randbytes(chance.randrange(80)).decode(encoding, errors)
    if kind == 3:
        return "".join(chr(chance.randrange(0x110000)) for _ in range(chance.randrange(40)))
    if kind == 4:
        return "".join(chance.choices("\"'()*:^-+ \t{}ab東", k=chance.randrange(60)))
    parts = chance.choices(PIECES, k=chance.randrange(9))
    if kind > 11:
        for _ in range(chance.randrange(1, 4)):
            value = chance.choice(VALUES)
            value = f'"{value}"' if chance.random() < 0.2 else value
            parts.insert(chance.randrange(len(parts) + 1), f"{chance.choice(FILTERS)}:{value}")
    text = chance.choice((" ", " ", " ", "")).join(parts)
    return text * (100_000 // len(text)) if text and chance.random() < 0.0005 else text


def options(chance: random.Random) -> dict[str, Any]:
    """What a call may be given besides its question."""
    given: dict[str, Any] = {"mode": chance.choice((None, "hybrid", "hybrid", "bm25", "bm25", "vector"))}
    if chance.random() < 0.3:
        given["min_score"] = chance.choice((0.0, 0.0, 0.35, 1.0, -1.0, 2.0))
    if chance.random() < 0.3:
        given["max_results"] = chance.choice((0, 1, 3, 50, 1000))
    if chance.random() < 0.15:
        given["scope"] = chance.choice(VALUES if chance.random() < 0.2 else list(Scope))
    if chance.random() < 0.15:
        given["type"] = chance.choice(VALUES if chance.random() < 0.2 else list(RecordType))
    if chance.random() < 0.15:
        given["sources"] = chance.choices([*VALUES, "memory", "journal", "vault-1"], k=chance.randrange(3))
    if chance.random() < 0.15:
        given["as_of"] = chance.choice(VALUES)
    return given


def ask(memory: Memory, chance: random.Random) -> int:
    """Ask one question and look at every answer; returns how many there were."""
    text = question(chance)
    given = options(chance) if chance.random() < 0.5 else {}
    try:
        if chance.random() < 0.1:
            known = {name: given[name] for name in ("scope", "type", "mode") if name in given}
            answer = memory.recall(text, limit=given.get("max_results", 10), **known)
        else:
            answer = memory.search(text, **given)
    except (ScopeUnresolved, NotVisible):  # said plainly to whoever asks for a scope that is not theirs
        asked = f"{text} scope:{given.get('scope')}".lower()
        assert any(f"scope:{scope}" in asked.replace('"', "") for scope in Scope), ascii((text, given))
        return 0
    except UsageError:
        assert {"scope", "type", "as_of", "sources"} & set(given), ascii((text, given))
        return 0
    except Exception as error:
        what = f"{type(error).__name__}: {error}".encode(errors="backslashreplace").decode()
        raise AssertionError(f"{what} for {text[:300]!a} with {given!a}") from error
    for each in answer.results:
        assert SECRET not in each.snippet, ascii((text, given))
        assert each.place.id in ("", "monday", "robin", PROJECT[0]), ascii((text, given, each.place))
    for said in answer.degraded:
        assert "rebuilt" not in said, f"{said} after {text[:300]!a} with {given!a}"
    return len(answer.results)


PROJECT = [""]


def run(callers: dict[str, Memory], seed: int, count: int) -> None:
    project = callers["own"].caller.project
    assert project is not None
    PROJECT[0] = project.id
    chance = random.Random(seed)
    found = dict.fromkeys(callers, 0)
    for _ in range(count):
        name = chance.choice(("own", "own", "keywords", "keywords", "group"))
        found[name] += ask(callers[name], chance)
    assert all(each > count // 50 for each in found.values()), "the questions were about nothing"


@pytest.mark.full(but=1)
@pytest.mark.scaled
@pytest.mark.parametrize("seed", range(5))
def test_any_string_is_a_question_about_what_is_ones_own(callers: dict[str, Memory], seed: int) -> None:
    """A part of the million below, with every kind of question hundreds of times."""
    run(callers, seed, tiers.few(200, 2_400))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_a_million_strings_are_questions_about_what_is_ones_own(
    callers: dict[str, Memory], seed: int
) -> None:
    run(callers, seed, 25_000)


# --- single cases, each of which was once thought of by a fuzzer --------------------------------------------


@pytest.mark.full(but=5)
@pytest.mark.parametrize(
    "text",
    [
        "heron after:9999-12-31T23:59:59-23:59",
        "heron before:0001-01-01T00:00:00+23:59",
        "tag:x " * 3_000 + "heron",
        "tag:bird " * 40_000,
        "path:a path:b " * 5_000,
        '"heron" ' * 10_000,
        '"' * 100_000,
        "(" * 100_000,
        "東" * 100_000,
        "\ud800" * 100_000,
        "a\u0301" * 50_000,
        "x:" * 50_000,
        "heron\0pond",
        "\0",
        "",
    ],
    ids=range(15),
)
def test_an_extreme_question_is_answered_quickly_and_spoils_nothing(
    callers: dict[str, Memory], text: str
) -> None:
    for memory in callers.values():
        for mode in ("hybrid", "bm25", "metadata"):
            answer = memory.search(text, mode=mode)
            assert not any("rebuilt" in said for said in answer.degraded)
        memory.recall(text)
    after = callers["own"].search("heron pond")
    assert after.results
    assert not any("rebuilt" in said for said in after.degraded)


@pytest.mark.parametrize(
    "given",
    [
        {"sources": ["\ud800"]},
        {"sources": ["a\0b"]},
        {"sources": ["x"] * 40_000},
        {"max_results": 10**20},
        {"max_results": -1},
        {"min_score": float("nan")},
        {"as_of": "9999-12-31T23:59:59-23:59"},
        {"as_of": "0001-01-01T00:00:00+23:59"},
        {"as_of": "x" * 100_000},
        {"as_of": "\ud800"},
        {"type": "\ud800"},
        {"scope": "\ud800"},
        {"mode": "\ud800"},
    ],
    ids=range(13),
)
def test_an_odd_option_is_answered_or_refused_in_a_line_and_spoils_nothing(
    callers: dict[str, Memory], given: dict[str, Any]
) -> None:
    refusals = []
    for text in ("heron", ""):
        try:
            answer = callers["own"].search(text, **given)
        except UsageError as error:
            refusals.append(str(error))
        else:
            assert not any("rebuilt" in said for said in answer.degraded)
            assert SECRET not in " ".join(each.snippet for each in answer.results)
    assert all(len(each) < 1_000 for each in refusals)
    after = callers["own"].search("heron pond")
    assert after.results
    assert not any("rebuilt" in said for said in after.degraded)


# --- the right note -----------------------------------------------------------------------------------------

NOTES = {
    "hook": "The pre-edit hook formats every file before it is saved.",
    "edit": "Edit the page before you publish it.",
    "care": "We don't deploy on Fridays.",
    "speed": "The disk reads 3 GB/s when it is cool.",
    "gigabyte": "A gigabyte is a billion bytes; GB is its sign.",
    "cpp": "The parser is written in C++ and speaks to Python.",
    "c": "The driver is written in C, by hand.",
    "csharp": "The game is written in C# for a console.",
    "tokyo": "東京支社の担当者は田中さんです。",
    "osaka": "大阪支社の担当者は鈴木さんです。",
    "korean": "회의는 화요일 아침에 있습니다.",
    "chinese": "数据库每天晚上备份一次。",
    "path": "The server starts in src/app/main_loop.py and reads its settings once.",
    "other-path": "The client starts in src/app/main_menu.py and asks for a name.",
    "windows": r"On Windows the log lies in C:\ProgramData\orders\log.txt for a week.",
    "code": "When the gateway answers E4017 the charge is tried again after ten minutes.",
    "other-code": "When the gateway answers E4018 the order is cancelled.",
    "exit": "The worker ends with SIGKILL (exit code 137) when memory runs out.",
    "hex": "The address 0xDEADBEEF marks freed memory.",
    "version": "We run PostgreSQL 16.2, and 17.1 on the test machine.",
    "flag": "Pass --no-verify to skip the check once.",
    "mail": "Write to ops@example.org when the site is down.",
    "emoji": "The release party 🦩 is in the garden.",
    "hebrew": "הפגישה ביום שלישי בבוקר.",
    "arabic": "الاجتماع صباح يوم الثلاثاء.",
    "accent": "Das Café öffnet früh, die Küche später.",
}
ASKED = {
    "pre-edit": "hook",
    "don't": "care",
    "don't deploy": "care",
    "GB/s": "speed",
    "C++": "cpp",
    "C#": "csharp",
    "田中": "tokyo",
    "鈴木さん": "osaka",
    "화요일": "korean",
    "备份": "chinese",
    "src/app/main_loop.py": "path",
    "main_menu.py": "other-path",
    r"C:\ProgramData\orders\log.txt": "windows",
    "E4017": "code",
    "E4018": "other-code",
    "exit code 137": "exit",
    "0xDEADBEEF": "hex",
    "PostgreSQL 16.2": "version",
    "--no-verify": "flag",
    "ops@example.org": "mail",
    "שלישי": "hebrew",
    "الثلاثاء": "arabic",
    "cafe": "accent",
    "KÜCHE": "accent",
}


def closed_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@pytest.fixture(scope="module", params=["local", "none", "ollama"])
def notes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """The same notes with embeddings on, off, and from a server that is not there."""
    environ = {"VADE_EMBEDDER": request.param}
    if request.param == "ollama":
        environ |= {
            "VADE_EMBED_ENDPOINT": f"http://127.0.0.1:{closed_port()}",
            "VADE_EMBED_MODEL": "missing",
            "VADE_EMBED_TIMEOUT": "0.2",
        }
    memory = opened(tmp_path_factory.mktemp(request.param), environ=environ)
    for key, text in NOTES.items():
        memory.store(text, key=key)
    yield memory
    memory.care.searcher.close()


@pytest.mark.parametrize(("text", "key"), ASKED.items())
def test_a_word_with_marks_finds_its_note_first(notes: Memory, text: str, key: str) -> None:
    broken = notes.settings.embedder == "ollama"  # which waits for its server before it answers
    for asked in (text,) if broken else (text, f"  {text}?", f'what about "{text}"'):
        answer = notes.search(asked)
        assert [each.key for each in answer.results][:1] == [key], ascii(asked)
        if notes.settings.embedder != "local":
            assert answer.mode == "bm25"
            assert any("keywords only" in said for said in answer.degraded)
