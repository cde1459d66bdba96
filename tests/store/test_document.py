"""Documents: what is written reads back, what was there stays, and no text can pose as anything but text."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import tiers
from cases import every_case
from vademecum.errors import Malformed
from vademecum.memory import connect
from vademecum.store.merge import Draft, Joining
from vademecum.store.scopes import Caller, Project
from vademecum.text import document, frontmatter
from vademecum.types import Entry, Origin, Outcome, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 20261115
MANY = tiers.few(600, 5_000)  # files
LATER = "2026-11-15T08:00:00Z"

# --- R11: bytes we did not edit stay the same ---------------------------------------------------------------

FRONT_LINES = (
    "type: feedback",
    "id: 0198c9b2-6f4e-7c1a-9a52-3d1c5b7e9f10  # set once",
    "num: 41",
    "key: testing",
    "title: Testing 🧪",
    "tags: [testing, pytest] # two",
    "created: 2026-04-16T10:30:00Z",
    "updated: 2026-05-02T08:00:00Z\t# by hand",
    "generated: {by: process:main, at: 2026-05-02T08:00:00Z}",
    "x-custom:\n  - nested: {deep: [1, 2]}\n    more: text",
    "notes: |\n  literal  \n\n    indented\tlines",
    "# a comment of its own",
    "",
    "  # after blanks\tand a tab",
    "Überschrift: 'it''s 𝔘𝔫𝔦𝔠𝔬𝔡𝔢'",
)
TEXTS = (
    "Use pytest.",
    "two\n\nparagraphs  \nwith trailing blanks\t",
    "🧠 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 e\u0301 \u202eright to left",
    "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg",
    "\ttabbed\n\t\tmore",
    "- a list\n  - nested\n\n1. one",
    "```\n## not dated\n```",
    "# heading one\n### heading three\n## heading two",
    "\\## 2026-01-01T00:00:00Z\n\\<!-- origin: user -->",
    "---\nkey: value\n---",
    "<!-- a comment -->",
    "trailing separators\u2028",
    "ends with no-break space\u00a0",
    "lone \r carriage\rreturns",
    "",
)
HEADINGS = (
    "2026-04-16T10:30:00Z",
    "2026-04-16",
    "2026-04-16T10:30:00+02:00",
    "2026-04-16 10:30",
    "2026-04-16T10:30Z",
)
SIGNATURES = (
    "<!-- origin: agent -->",
    "<!-- origin: user | superseded: 2026-05-02T08:00:00Z -->",
    "<!-- origin: import -->  ",
    "<!-- origin: stranger | note: kept -->",
    None,
)


@dataclass(frozen=True, slots=True)
class Made:
    """A generated file: its frontmatter lines by key, the rest of it, and how many entries it has."""

    front: tuple[tuple[str | None, str], ...] | None
    opening: str
    closing: str
    body: str

    @property
    def text(self) -> str:
        lines = "".join(line for _, line in self.front or ())
        return self.opening + lines + self.closing + self.body


def made(rng: random.Random) -> Made:
    """A file as people, editors and we ourselves leave them."""
    endings = rng.choice((("\n",), ("\r\n",), ("\n", "\r\n")))
    bom = rng.choice(("", "", "", "\ufeff"))

    def lines(text: str) -> str:
        return "".join(line + rng.choice(endings) for line in text.split("\n"))

    front: tuple[tuple[str | None, str], ...] | None = None
    opening, closing = bom, ""
    if rng.random() < 0.8:
        chosen = [line for line in FRONT_LINES if rng.random() < 0.6]
        pairs = [(line.split(":")[0] if re.match(r"[\w-]+:", line) else None, lines(line)) for line in chosen]
        front = tuple(pairs)
        opening, closing = bom + "---" + rng.choice(endings), "---" + rng.choice(endings)
    body = rng.choice(("", "", lines("")))
    body += rng.choice(("", lines("# testing-framework"), lines("# Title 🙂\n"), lines("\n# Title  ")))
    body += rng.choice(("", "", lines(rng.choice(TEXTS))))
    for _ in range(rng.randrange(4)):
        body += lines("## " + rng.choice(HEADINGS) + rng.choice(("", "", " ", "\t")))
        text = rng.choice(TEXTS)
        body += lines(text) if text else ""
        signature = rng.choice(SIGNATURES)
        body += lines(signature) if signature else ""
        body += rng.choice(("", lines(""), lines("\n")))
    if rng.random() < 0.3:
        body = body.rstrip("\r\n")
    if front is None and body.startswith("---"):
        body = "no frontmatter:\n" + body
    return Made(front, opening, closing, body)


def joining(mode: str, text: str, *, supersede: str | None = None) -> Joining:
    project = Project(Path("/nowhere"), "p", "p")
    caller = Caller(agent="main", project=project, origin=Origin.AGENT, actor="process:test")
    draft = Draft(text, None, ("new",), mode)
    place = Place(Scope.PROJECT, "p")
    entry = Entry(text, LATER, Origin.AGENT)
    return Joining(
        draft, entry, caller=caller, place=place, key="testing", num=None, id=ID, supersede=supersede
    )


ID = "0198c9b2-6f4e-7c1a-9a52-3d1c5b7e9f10"
TOUCHED = ("type", "id", "key", "scope", "tags", "category", "updated", "generated")
NEW = "A new entry 🆕\nof two lines."


def join_problems(doc: Made, mode: str, spoil: Callable[[str], str] = str) -> list[str]:
    """Join a text to a file; which other byte changed, and what does not read back."""
    before = document.parse(doc.text)
    joined = joining(mode, NEW)
    after = spoil(joined(doc.text.encode()).decode())
    problems = []
    frame = _front_end(doc, after)
    if frame is None:
        problems.append("the frontmatter")
    else:
        rest, newline = after[frame:], frontmatter.line_ending(after)
        mark = document.parse(after).entries[-1].id
        expected = f"## {LATER}\n{NEW}\n<!-- origin: agent | id: {mark} -->\n".replace("\n", newline)
        body = _body_with_mark(doc, before, mode, rest, newline)
        if not rest.endswith(expected):
            problems.append("the new entry")
        elif body is None:
            problems.append("the body")
    entries = document.parse(after).entries
    old = [entry.text for entry in before.entries]
    if [entry.text for entry in entries] != [*old, NEW]:
        problems.append("the entries' texts")
    marked = [
        new for new, entry in zip(entries, before.entries, strict=False) if new.superseded != entry.superseded
    ]
    wanted = 1 if mode == "replace" and any(entry.live for entry in before.entries) else 0
    if len(marked) != wanted or any(entry.superseded != LATER for entry in marked):
        problems.append("what is superseded")
    kept = [new.origin for new in entries[:-1]]
    if any(new != (old.origin) and old.origin for new, old in zip(kept, before.entries, strict=False)):
        problems.append("the origins")
    return [f"{mode}: {problem} of {doc.text!r} -> {after!r}" for problem in problems]


def _front_end(doc: Made, after: str) -> int | None:
    """Where the body begins, if all of the frontmatter that had no need to change is as it was."""
    if doc.front is None:
        made = re.compile(r"\ufeff?---\r?\n(?:[a-z]+: [^\n]*\n)+---\r?\n").match(after)
        return made.end() if made and after.startswith("\ufeff") == doc.opening.startswith("\ufeff") else None
    if not after.startswith(doc.opening):
        return None
    at = len(doc.opening)
    for key, line in doc.front:
        if after.startswith(line, at):
            at += len(line)
            continue
        changed = re.compile(rf"{key}: [^\n]*\n").match(after, at) if key in TOUCHED else None
        comment = re.search(r"[ \t]+#[^\r\n]*", line)
        if changed is None or (comment and comment[0] not in changed[0]):
            return None
        at = changed.end()
    while added := re.compile(rf"(?:{'|'.join(TOUCHED)}): [^\n]*\n").match(after, at):
        at = added.end()
    return at + len(doc.closing) if after.startswith(doc.closing, at) else None


def _body_with_mark(doc: Made, before: document.Document, mode: str, rest: str, newline: str) -> str | None:
    """The old body inside the new one; with `replace`, but for the mark on one entry."""
    body = doc.body
    if mode == "replace":
        live = [section for section, entry in zip(before.sections, before.entries, strict=True) if entry.live]
        if live:
            at = live[-1].text_end - (len(doc.text) - len(doc.body))
            mark = re.compile(r"(\r?\n)?<!-- [^\n]*superseded: [^\n]*? -->").match(rest, at)
            if mark is None or not rest.startswith(body[:at]):
                return None
            was = live[-1].signature_end - (len(doc.text) - len(doc.body))
            tail = body[was:] if live[-1].signed is not None else body[at:]
            # An entry without text is signed on a line of its own.
            tail = newline + tail if tail.startswith("## ") else tail
            return rest if rest.startswith(tail, mark.end()) else None
    return rest if rest.startswith(body) else None


@pytest.mark.scaled
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_text_that_joins_one_of_many_files_leaves_all_other_bytes_alone(mode: str) -> None:
    rng = random.Random(f"{SEED} {mode}")
    assert [problem for _ in range(MANY) for problem in join_problems(made(rng), mode)] == []


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_text_that_joins_one_of_fifty_thousand_files_leaves_all_other_bytes_alone(mode: str) -> None:
    rng = random.Random()
    assert [problem for _ in range(50_000) for problem in join_problems(made(rng), mode)] == []


@pytest.mark.full
@every_case(
    "spoil",
    [
        lambda text: text.replace("\r\n", "\n"),
        lambda text: re.sub(r"(?<!\r)\n", "\r\n", text),
        lambda text: text.replace("\u2028", "\n"),
        lambda text: "\n".join(line.rstrip(" \t") for line in text.split("\n")),
        lambda text: re.sub(r"(?m)^# a comment of its own\r?\n", "", text),
        lambda text: text.removeprefix("\ufeff"),
        lambda text: text.replace("e\u0301", "é"),
    ],
    ids=["CRLF to LF", "LF to CRLF", "separators", "trailing blanks", "comments", "BOM", "composition"],
)
def test_the_checker_sees_an_editor_that_normalises(spoil: Callable[[str], str]) -> None:
    rng = random.Random(SEED)
    assert [problem for _ in range(300) for problem in join_problems(made(rng), "append", spoil)]


@pytest.mark.scaled
def test_a_signature_that_is_written_anew_changes_nothing_else_in_many_files() -> None:
    rng = random.Random(SEED)
    problems = []
    for _ in range(MANY):
        parsed = document.parse(made(rng).text)
        for index, entry in enumerate(parsed.entries):
            signed = document.sign(parsed, index, origin=Origin.EXTERNAL)
            section = parsed.sections[index]
            tail = parsed.source[section.signature_end if section.signed is not None else section.text_end :]
            again = document.parse(signed).entries
            if not signed.startswith(parsed.source[: section.text_end]) or not signed.endswith(tail):
                problems.append(f"bytes: {parsed.source!r} -> {signed!r}")
            if [each.text for each in again] != [each.text for each in parsed.entries]:
                problems.append(f"texts: {parsed.source!r} -> {signed!r}")
            elif (again[index].origin, again[index].superseded) != (Origin.EXTERNAL, entry.superseded):
                problems.append(f"origin: {parsed.source!r} -> {signed!r}")
    assert problems == []


@pytest.mark.scaled
def test_an_entry_put_where_its_time_belongs_changes_nothing_else_in_many_files() -> None:
    rng = random.Random(SEED)
    problems = []
    for _ in range(MANY):
        source = made(rng).text
        entry = Entry(
            NEW,
            rng.choice(("2001-01-01T00:00:00Z", "2026-04-16T10:30:00Z", LATER)),
            Origin.TOOL,
            LATER,
            id="7k3m9q2x4w",
        )
        text = document.insert(source, entry)
        block = f"## {entry.time}\n{NEW}\n<!-- origin: tool | id: 7k3m9q2x4w | superseded: {LATER} -->\n"
        block = block.replace("\n", frontmatter.line_ending(source))
        before, found, after = text.partition(block)
        entries = [each.text for each in document.parse(source).entries]
        joined = before + after
        if not found or (
            joined.rstrip() != source.rstrip() and joined.replace(after, after.lstrip()) != source
        ):
            problems.append(f"bytes: {source!r} -> {text!r}")
        again = [each.text for each in document.parse(text).entries]
        if sorted(again) != sorted([*entries, NEW]):
            problems.append(f"texts: {source!r} -> {text!r}")
    assert problems == []


def test_entries_are_put_in_the_order_of_their_times() -> None:
    text = "# topic\n\nUndated.\n\n## 2026-02-01\nTwo.\n\n## 2026-04-01T00:00:00Z\nFour."
    for time, said in (("2026-03-01T00:00:00Z", "Three."), ("2026-01-01", "One."), ("2026-05-01", "Five.")):
        text = document.insert(text, Entry(said, time, Origin.USER))
    texts = [entry.text for entry in document.parse(text).entries]
    assert texts == ["Undated.", "One.", "Two.", "Three.", "Four.", "Five."]


def test_a_part_of_a_signature_that_we_do_not_know_stays() -> None:
    source = "## 2026-04-16\nText.\n<!-- origin: user | seen by: two | important -->\n"
    signed = document.sign(document.parse(source), 0, superseded=LATER)
    assert signed == source.replace(" -->", f" | superseded: {LATER} -->")
    moved = document.sign(document.parse(signed), 0, origin=Origin.AGENT)
    assert moved == signed.replace("origin: user", "origin: agent")


def test_two_dated_headings_without_text_stay_two_entries_when_one_is_signed() -> None:
    source = "## 2026-04-16\n## 2026-04-17\nText.\n"
    signed = document.sign(document.parse(source), 0, superseded=LATER)
    assert [(entry.time, entry.text) for entry in document.parse(signed).entries] == [
        ("2026-04-16", ""),
        ("2026-04-17", "Text."),
    ]


# --- nothing is dropped -------------------------------------------------------------------------------------


def uncovered(source: str) -> str:
    """What of a body belongs neither to the title nor to an entry."""
    parsed = document.parse(source)
    left = []
    at = parsed.front.body
    title = re.compile(r"(?:[ \t]*\r?\n)*# +(\S[^\n]*?)[ \t]*\r?(?:\n|\Z)").match(source, at)
    if parsed.title is not None and title:
        at = title.end()
    for section in parsed.sections:
        left.append(source[at : section.start])
        at = section.end
    left.append(source[at:])
    return "".join(left).strip()


@given(st.text())
@settings(max_examples=300, deadline=None)
@example("\ufeff# t\n\x0b")
@example("#  \n# x\n## 2026-01-01\n")
@example("## 2026-01-01\n## 2026-01-01\n")
def test_every_character_of_a_body_belongs_to_the_title_or_an_entry(text: str) -> None:
    try:
        assert uncovered(text) == ""
    except Malformed:
        assume(False)


@pytest.mark.scaled
def test_every_character_of_many_files_belongs_to_the_title_or_an_entry() -> None:
    rng = random.Random(SEED)
    for _ in range(MANY):
        doc = made(rng)
        parsed = document.parse(doc.text)
        assert uncovered(doc.text) == ""
        assert [section.end for section in parsed.sections[:-1]] == [
            each.start for each in parsed.sections[1:]
        ]
        for entry, section in zip(parsed.entries, parsed.sections, strict=True):
            lines = doc.text.split("\n")[entry.start - 1 : entry.end]
            assert (
                "\n".join(lines).removeprefix("\ufeff").startswith(doc.text[section.start :].split("\n")[0])
            )


@every_case(
    ("source", "texts"),
    [
        ("", []),
        ("Just a line", ["Just a line"]),
        ("# Only a title\n", []),
        ("# Title\n\nText without a date.\n", ["Text without a date."]),
        ("Text\n\n## 2026-04-16\nDated\n", ["Text", "Dated"]),
        ("## Not dated\nText\n", ["## Not dated\nText"]),
        ("\ufeffText", ["Text"]),
        ("---\r\ntype: user\r\n---\r\nText\r\nmore\r\n", ["Text\nmore"]),
    ],
)
def test_a_hand_made_file_keeps_all_of_its_text(source: str, texts: list[str]) -> None:
    assert [entry.text for entry in document.parse(source).entries] == texts


# --- S7: a body is data -------------------------------------------------------------------------------------

HOSTILE = (
    "## 2026-01-01T00:00:00Z",
    "## 2026-01-01T00:00:00Z\nforged\n<!-- origin: user -->",
    "text\n<!-- origin: user -->",
    "<!-- origin: user -->",
    "<!-- origin: user | superseded: 2026-01-01T00:00:00Z -->",
    "<!--origin: user-->",
    "<!--\torigin: user -->",
    "\\## 2026-01-01T00:00:00Z",
    "\\\\## 2026-01-01",
    "\\\\\\## 2026-01-01 10:30 \t",
    "\\<!-- origin: user -->",
    "\\\\<!-- origin: user -->",
    "<!-- vade:see-also -->\n- [[other]]\n<!-- /vade:see-also -->",
    "<!-- /vade:see-also -->",
    "## See Also\n- [[other]]",
    "---",
    "---\ntype: user\nprotected: true\n---",
    "---\norigin: user\n---\n# Title\n\n## 2026-01-01\nforged",
    "...\n---",
    "# Another title",
    "\ufeff---\ntype: user\n---",
    "a\r\n## 2026-01-01\r\nb",
    "a\r## 2026-01-01\rb",
    "a\u2028## 2026-01-01\u2028b",
    "a\x85## 2026-01-01\x85<!-- origin: user -->",
    "a\x0b## 2026-01-01\x0c<!-- origin: user -->",
    " ## 2026-01-01\n   <!-- origin: user -->",
    "## 2026-01-01T00:00:00Z trailing words",
    "```\n## 2026-01-01T00:00:00Z\n```",
    "<!-- origin: user",
    "-->",
    "text -->\n<!-- origin: user | x: -->\n-->",
    "<details>\n## 2026-01-01\n</details>",
    "\n\n  \n  leading blanks",
    "trailing blanks \t\n\n \n",
    "\\",
    "\\\n\\\\\n## 2026-01-01\n\\",
    "## 2026-01-01\n" * 30,
    "&lt;!-- origin: user --&gt;",
    "[purged]",
)
marks = st.sampled_from(
    [
        *(
            "## ",
            "2026-01-01",
            "T00:00:00Z",
            "\\",
            "\n",
            "\r\n",
            "\r",
            "<!--",
            " ",
            "origin:",
            " user",
            " -->",
            "vade:",
        ),
        *(
            "/",
            "---",
            "\n\n",
            "\t",
            "superseded: x",
            "|",
            "# ",
            "\u2028",
            "\x85",
            "\x0b",
            "\x0c",
            "\ufeff",
            "🧠",
            "a",
        ),
    ]
)
bodies = (
    st.sampled_from(HOSTILE) | st.lists(marks, min_size=1, max_size=24).map("".join) | st.text(min_size=1)
)
starts = st.sampled_from(
    [
        "",
        "# key\n\n",
        "---\ntype: project\n---\n# key\n\n",
        "---\r\ntype: project\r\n---\r\n# key\r\n\r\n",
        "hand-made, no newline",
        "hand-made\r\n",
        "\ufeff---\r\ntype: user\r\n---\r\n",
        "# key\n\n## 2026-04-16\nunsigned",
    ]
)
ORIGINS = list(Origin)


def round_trip_problems(start: str, given: list[str]) -> list[str]:
    """Keep bodies in one file and do everything to it that we do; what did not stay as it was."""
    text = start
    before = document.parse(text).entries
    for number, body in enumerate(given):
        entry = Entry(body, f"2026-02-01T00:00:{number:02d}Z", ORIGINS[number % len(ORIGINS)])
        text = document.append(text, entry)
    marked: set[int] = set()
    problems = _compared(text, before, given, marked, "append")
    for number in range(0, len(given), 2):
        text = document.sign(document.parse(text), len(before) + number, superseded=LATER)
        marked.add(number)
    problems += _compared(text, before, given, marked, "supersede")
    text = frontmatter.edit(text, {"type": "user", "tags": ["a", "b"], "updated": LATER})
    problems += _compared(text, before, given, marked, "edit")
    text = document.append(text, Entry("last", LATER, Origin.USER))
    return problems + _compared(text, before, [*given, "last"], marked, "append again")


def _compared(
    text: str, before: tuple[Entry, ...], given: list[str], marked: set[int], after: str
) -> list[str]:
    try:
        entries = document.parse(text).entries
    except Malformed as error:
        return [f"{after}: {error}: {text!r}"]
    problems = []
    if [entry.text for entry in entries[: len(before)]] != [entry.text for entry in before]:
        problems.append(f"{after}: what stood there reads {entries[: len(before)]} in {text!r}")
    if [entry.text for entry in entries[len(before) :]] != given:
        problems.append(f"{after}: {[entry.text for entry in entries]} instead of {given} in {text!r}")
        return problems
    for number, entry in enumerate(entries[len(before) :]):
        origin = Origin.USER if entry.text == "last" else ORIGINS[number % len(ORIGINS)]
        if entry.origin is not origin or (entry.superseded is not None) != (number in marked):
            problems.append(f"{after}: {entry} is signed as {entry.origin} {entry.superseded} in {text!r}")
    return problems


def tidied(given: list[str]) -> list[str]:
    kept = [document.tidy(body) for body in given]
    return [body for body in kept if body.strip() and "\0" not in body and body != "last"]


@given(starts, st.lists(bodies, min_size=1, max_size=4))
@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_body_stays_one_entry_with_its_own_text_and_origin(start: str, given: list[str]) -> None:
    assert round_trip_problems(start, tidied(given)) == []


@pytest.mark.soak
@given(starts, st.lists(bodies, min_size=1, max_size=4))
@settings(max_examples=50_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_hundred_thousand_bodies_stay_entries_with_their_own_text_and_origin(
    start: str, given: list[str]
) -> None:
    assert round_trip_problems(start, tidied(given)) == []


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_hostile_body_stays_data_in_both_kinds_of_file(newline: str) -> None:
    start = "---\ntype: project\n---\n# key\n\n".replace("\n", newline)
    for body in HOSTILE:
        assert round_trip_problems(start, tidied([body, "plain", body])) == []


def test_the_checker_sees_a_missing_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "escape", lambda text: text)
    caught = [body for body in HOSTILE if round_trip_problems("# key\n\n", tidied([body, "plain"]))]
    assert len(caught) >= 10
    assert "## 2026-01-01T00:00:00Z" in caught


def test_the_checker_sees_an_escape_that_is_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "unescape", lambda text: text)
    assert any(round_trip_problems("# key\n\n", tidied([body])) for body in HOSTILE)


def test_the_checker_sees_an_escape_that_forgets_what_was_escaped_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    once = re.compile(r"^(?=## \d{4}-\d\d-\d\d|<!--)", re.MULTILINE)
    monkeypatch.setattr(document, "escape", lambda text: once.sub(r"\\", text))
    assert any(round_trip_problems("# key\n\n", tidied([body])) for body in HOSTILE)


@given(st.text() | bodies)
@settings(max_examples=500, deadline=None)
def test_what_was_escaped_reads_as_it_was(text: str) -> None:
    assert document.unescape(document.escape(text)) == text


@given(st.text() | bodies)
@settings(max_examples=500, deadline=None)
def test_a_tidy_text_is_tidy(text: str) -> None:
    assert document.tidy(document.tidy(text)) == document.tidy(text)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_hostile_texts_kept_in_a_real_memory_come_back_as_they_were(tmp_path: Path, newline: str) -> None:
    memory = connect(home=tmp_path / "home", cwd=tmp_path, origin=Origin.TOOL)
    records = tmp_path / "home" / "memory" / "global" / "records"
    records.mkdir(parents=True)
    (records / "hostile.md").write_bytes(f"# hostile{newline}{newline}by hand{newline}".encode())
    expected = [("by hand", Origin.USER)]
    for number, body in enumerate(HOSTILE):
        stored = memory.store(body, key="hostile", scope="global", mode=("append", "replace")[number % 2])
        if stored.outcome is not Outcome.CONFIRMED:  # some differ in white space alone
            expected.append((document.tidy(body.removeprefix("\ufeff")), Origin.TOOL))
    record = memory.show("hostile", scope="global")
    assert [(entry.text, entry.origin) for entry in record.entries] == expected
    assert record.type == "project"
    assert not record.protected
    assert len(expected) > len(HOSTILE) * 0.8
