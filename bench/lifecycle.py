"""Time of each pass over 1,000 and 10,000 records, and how well near-duplicates are told apart."""

from __future__ import annotations

import gc
import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.lifecycle import passes
from vademecum.lifecycle.passes import CountCap, Expiry, PruningPass, RecordFile, RetentionPass
from vademecum.lifecycle.sweep import Duplicates
from vademecum.memory import connect
from vademecum.text import document, frontmatter
from vademecum.types import Entry, Origin, Place, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vademecum.lifecycle.passes import Pass
    from vademecum.memory import Memory

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
SIZES = (1_000, 10_000)
SEED = 7

_TEMPLATES = (
    "The {noun} service {verb} its {thing} from the {place} every {number} minutes, because {why}.",
    "{name} decided that {thing}s of the {noun} {verb} only after {name2} has looked at them.",
    "When the {noun} fails with error {number}, restart the {thing} worker and clear the {place}.",
    "Never {verb2} the {thing} of the {noun} without a backup; {why}.",
    "The {place} for {noun} {thing}s is {number} GB large, and {name} looks after it.",
    "In the {noun} module the {thing} is read by {name}'s script, which {verb} it into the {place}.",
    "We {verb2} the {noun} with `{thing}-{number}` and keep the {place} for {name2}.",
    "Tests of the {noun} need the {thing} fixture, they {verb2} the {place} before {number} runs.",
)
_NOUNS = """billing checkout search inventory login payment shipping catalogue invoice profile session
    gateway scheduler mailer exporter importer dashboard reporting archive ledger refund coupon wishlist
    review rating currency tax address webhook upload thumbnail transcript calendar reminder roster payroll
    survey""".split()
_THINGS = """token cursor snapshot manifest digest cache lease queue topic shard replica cookie header
    template schema migration fixture certificate counter histogram trace span alert budget quota ticket
    report timer""".split()
_PLACES = """bucket warehouse cluster registry mirror vault gateway partition namespace region volume proxy
    sandbox staging mainframe datacentre broker""".split()
_VERBS = "copies reads moves compresses validates rotates publishes verifies restores streams merges".split()
_DOING = "delete rotate rebuild migrate drain resize rename publish restart archive".split()
_WHYS = """the provider drops idle connections|auditors ask for it twice a year|
    an outage in spring taught us so|
    the old format cannot be read by partners|customers in Brazil see stale prices otherwise|
    the night batch holds a lock until morning|nobody else has the password to the console|
    disks of that generation fail without warning""".replace("\n    ", "").split("|")
_NAMES = """Alice Berta Carlos Daniela Erik Fatima Goran Helga Ivan Jolanda Kenji Leila Marek Nadia Olga Pavel
    Quentin Rosa Stefan Tamara Ulrich Vera Walter Xenia Yusuf Zora""".split()
_FILLERS = ("Please note that ", "By the way, ", "Remember that ", "For the record, ", "FYI ")
_LEADS = ("The", "When", "In", "We", "Never", "Tests")


class Pair(NamedTuple):
    """Two texts, whether they say the same, and in what they differ."""

    one: str
    other: str
    same: bool
    kind: str


def statement(chance: random.Random) -> str:
    """One fact about a system that does not exist."""
    return chance.choice(_TEMPLATES).format(
        noun=chance.choice(_NOUNS),
        verb=chance.choice(_VERBS),
        verb2=chance.choice(_DOING),
        thing=chance.choice(_THINGS),
        place=chance.choice(_PLACES),
        why=chance.choice(_WHYS),
        number=chance.randint(2, 990),
        name=chance.choice(_NAMES),
        name2=chance.choice(_NAMES),
    )


def pairs(count: int, *, seed: int = SEED) -> list[Pair]:
    """Pairs of which half say the same, of every kind in turn."""
    chance = random.Random(seed)
    half = {True: [*_SAME.items()], False: [*_OTHER.items()]}
    found: list[Pair] = []
    known: set[str] = set()
    while len(found) < count:
        same = len(found) % 2 == 0
        name, way = half[same][len(found) // 2 % len(half[same])]
        one = statement(chance)
        other = way(one, chance)
        if other is None or other == one or one in known or other in known:
            continue
        known |= {one, other}
        found.append(Pair(one, other, same, name))
    return found


def _reordered(text: str, chance: random.Random) -> str | None:
    if ", because " in text:  # two main clauses may be two steps, so only what depends on another moves
        first, second = text.rstrip(".").split(", because ", 1)
        return f"Because {second}, {first}."
    if text.startswith("When the"):
        first, second = text.rstrip(".").split(", ", 1)
        return f"{second[0].upper()}{second[1:]}, {first[0].lower()}{first[1:]}."
    return None


def _cased(text: str, chance: random.Random) -> str:
    return chance.choice((str.lower, str.upper))(text) if "`" not in text else text.replace("We ", "WE ")


def _punctuated(text: str, chance: random.Random) -> str:
    return text.replace(", ", chance.choice((" - ", "; "))).rstrip(".") + chance.choice(("", "!", " ..."))


def _mistyped(text: str, chance: random.Random) -> str | None:
    spots = [word for word in text.rstrip(".").split() if word.isalpha() and word.islower() and len(word) > 5]
    if not spots:
        return None
    word = chance.choice(spots)
    at = chance.randrange(1, len(word) - 2)
    slip = chance.choice(
        (
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
            word[:at] + chance.choice("aeiounrst") + word[at + 1 :],
        )
    )
    return text.replace(word, slip, 1)


def _filled(text: str, chance: random.Random) -> str:
    lead = chance.choice(_FILLERS)
    return lead + (text[0].lower() + text[1:] if text.startswith(_LEADS) else text)


def _renumbered(text: str, chance: random.Random) -> str | None:
    digits = [word for word in text.replace("`", " ").replace(",", " ").split() if word.isdigit()]
    if not digits:
        return None
    return text.replace(digits[0], str(int(digits[0]) + chance.choice((1, 10, 100))), 1)


def _negated(text: str, chance: random.Random) -> str | None:
    for word in (*_VERBS, "is", "has"):
        if f" {word} " in text:
            return text.replace(f" {word} ", f" {chance.choice(('never', 'no longer'))} {word} ", 1)
    return text.replace("Never ", "Always ", 1) if "Never " in text else None


def _swapped(words: Iterable[str]) -> Callable[[str, random.Random], str | None]:
    known = list(words)

    def swap(text: str, chance: random.Random) -> str | None:
        here = [word for word in known if f" {word} " in f" {text} " or f"{word}'" in text]
        if not here:
            return None
        return text.replace(here[0], chance.choice([each for each in known if each not in here]), 1)

    return swap


def _reversed(text: str, chance: random.Random) -> str | None:
    here = [word for word in _NAMES if word in text]
    if len(here) != 2:
        return None
    one, other = here
    return text.replace(one, "\0").replace(other, one).replace("\0", other)


_SAME: dict[str, Callable[[str, random.Random], str | None]] = {
    "order": _reordered,
    "case": _cased,
    "punctuation": _punctuated,
    "typo": _mistyped,
    "filler": _filled,
}
_OTHER: dict[str, Callable[[str, random.Random], str | None]] = {
    "number": _renumbered,
    "negation": _negated,
    "name": _swapped(_NAMES),
    "place": _swapped(_PLACES),
    "noun": _swapped(_NOUNS),
    "names the other way": _reversed,
}


def seen(memory: Memory, texts: Iterable[str], *, type: str = "project", days: int = 0) -> list[RecordFile]:
    """Records with these texts, as a pass would see them."""
    place = Place(Scope.PROJECT, "bench")
    scope_folder = memory.home.scope_folder(place)
    found = []
    for number, text in enumerate(texts):
        at = f"{NOW - timedelta(days=days, minutes=number):%Y-%m-%dT%H:%M:%SZ}"
        values = {"type": type, "created": at, "updated": at, "tags": [f"t{number % 7}"]}
        values |= {"stale_after": "30d"} if number % 10 == 3 else {}
        whole = document.append(frontmatter.edit("# a\n\n", values), Entry(text, at, Origin.AGENT)).encode()
        name = f"r{number:06}.md"
        found.append(
            RecordFile(memory.workspace.records.parse(scope_folder, name, whole), scope_folder, name, whole)
        )
    return found


def quality(memory: Memory, count: int, *, seed: int = SEED) -> dict[str, object]:
    """Precision and recall over pairs with a known answer, all of them in one store."""
    made = pairs(count, seed=seed)
    records = seen(memory, (text for pair in made for text in (pair.one, pair.other)))
    together = {}
    for proposal in Duplicates().propose(records, now=NOW):
        kept_key = proposal.why.rpartition(" as ")[2].partition(",")[0]
        for edit in proposal.edits:
            if edit.after is None:
                together[edit.name] = f"{kept_key}.md"
    right = wrong = 0
    missed: dict[str, int] = {}
    mistaken: dict[str, int] = {}
    for number, pair in enumerate(made):
        names = {records[2 * number].name, records[2 * number + 1].name}
        merged = any(name in together and together[name] in names for name in names)
        if pair.same and merged:
            right += 1
        elif pair.same:
            missed[pair.kind] = missed.get(pair.kind, 0) + 1
        elif merged:
            mistaken[pair.kind] = mistaken.get(pair.kind, 0) + 1
    wrong = len(together) - right  # also those merged with a text of another pair
    known = sum(pair.same for pair in made)
    return {
        "records": len(records),
        "duplicates": known,
        "found": right,
        "wrong": wrong,
        "precision": round(right / max(right + wrong, 1), 4),
        "recall": round(right / known, 4),
        "missed": missed or "-",
        "mistaken": mistaken or "-",
    }


def measure(sizes: tuple[int, ...] = SIZES) -> dict[str, list[dict[str, object]]]:
    """Both tables."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        memory = connect(home=Path(folder, "home"), cwd=folder, environ={}, now=lambda: NOW)
        times = [_times(memory, size) for size in sizes]
        rows: list[dict[str, object]] = []
        for name in times[0]:
            row: dict[str, object] = {"pass": name}
            for size, seconds in zip(sizes, times, strict=True):
                row[f"{size:,} records, CPU s"] = round(seconds[name], 3)
            row["ratio"] = round(times[-1][name] / times[0][name], 1)
            rows.append(row)
        return {
            "lifecycle": rows,
            "lifecycle duplicates": [quality(memory, 1000), quality(memory, 4000, seed=SEED + 1)],
        }


def _times(memory: Memory, size: int) -> dict[str, float]:
    """How long each pass takes over so many records, a tenth of them near-duplicates; the best of three."""
    chance = random.Random(SEED)
    texts = [statement(chance) for _ in range(size * 9 // 10)]
    texts += [_filled(text, chance) for text in texts[: size - len(texts)]]
    records = seen(memory, texts, days=100)
    learned = seen(memory, texts, type=str(RecordType.DISCOVERY), days=100)
    chosen: dict[str, tuple[Pass, list[RecordFile]]] = {
        "near-duplicates": (Duplicates(), records),
        "count cap, summarize": (CountCap(), records),
        "count cap, cut": (CountCap(strategy="cut"), records),
        "retention": (RetentionPass(), records),
        "knowledge pruning": (PruningPass(), learned),
        "expiry": (Expiry(), records),
    }
    seconds = {}
    gc.collect()
    gc.freeze()  # the records are ours: looking through them again and again is not the pass's work
    for name, (one, shown) in chosen.items():
        best = 1e9
        for _ in range(3):
            begun = time.process_time()
            made = list(one.propose(shown, now=NOW))
            best = min(best, time.process_time() - begun)
        assert made, name
        seconds[name] = best
    seconds["all of a sweep, with reading the files"] = _sweep(memory, records)
    gc.unfreeze()
    return seconds


def _sweep(memory: Memory, records: list[RecordFile]) -> float:
    place = Place(Scope.PROJECT, f"bench-{len(records)}")
    folder = memory.home.path.joinpath("memory", "project", place.id, "records")
    folder.mkdir(parents=True)
    for each in records:
        (folder / each.name).write_bytes(each.content)
    every: list[Pass] = [Expiry(), RetentionPass(120, 14), Duplicates(), CountCap()]
    begun = time.process_time()
    outcome = passes.propose(memory.workspace.records, [place], every)
    assert outcome.proposals
    return time.process_time() - begun
