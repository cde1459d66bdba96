"""From files to facts: what somebody did to a file since it was last shown, by hand or by a command.

Pure, but for the ledger that the new facts are written into. What the base did not show is never removed: a
person can only have meant what they saw.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed
from vademecum.sync import blocks
from vademecum.sync.facts import NOTHING, Dot, SyncFact
from vademecum.sync.project import (
    APPLIED,
    CONFIRMED,
    LISTS,
    REGISTERS,
    FactSet,
    ShownBlock,
    Shows,
    Stand,
    element,
    elements,
    everything,
    is_in,
    path_of,
    read_front,
    session,
    show,
    shown_heads,
)
from vademecum.text import names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from vademecum.sync.blocks import CutText, TextBlock

LIKENESS = 0.6
_LONGEST = 20_000  # characters of a block that are compared letter by letter
# Keys that ride with the layout when a document is born: one word on them is enough, and the store sets them.
_RIDING = ("id", "num", "key", "title", "scope", "scope_id", "created", "updated", "generated")
_FRACTION = "n"


@dataclass(slots=True)
class Ledger:
    """Where a replica writes its new facts: they are numbered, chained and known at once."""

    stream: str
    replica: str
    seen: FactSet  # what its files show or showed
    last: SyncFact | None = None
    lam: int = 0  # the largest that it has seen
    door: str = "file"
    trust: Callable[[SyncFact], bool] = everything
    made: list[SyncFact] = field(default_factory=list)

    def write(self, doc: str, kind: str, target: str = "", value: Any = None, **given: Any) -> SyncFact:
        """Make the next fact."""
        fact = SyncFact(
            stream=self.stream,
            replica=self.replica,
            n=self.last.n + 1 if self.last else 1,
            prev=self.last.hash if self.last else NOTHING,
            lam=self.lam + 1,
            doc=doc,
            kind=kind,
            target=target,
            value=value,
            door=self.door,
            **given,
        )
        self.last, self.lam = fact, fact.lam
        self.seen.add(fact)
        self.made.append(fact)
        return fact


class _Match(NamedTuple):
    """A block of a file, and what it was shown as before."""

    block: TextBlock
    shown: ShownBlock | None
    copied: bool = False  # with another one's id, which was taken out of it

    @property
    def raw(self) -> str:
        """The block as it should be kept."""
        return self.block.raw


@dataclass(slots=True)
class _Standing:
    """A block of a file with the facts that now say it."""

    raw: str
    doc: str
    target: str
    dots: tuple[Dot, ...]
    exact: bool = True


def diff(
    ledger: Ledger,
    base: Shows | None,
    path: str,
    text: str | None,
    *,
    doc: str = "",
    uncertain: bool = False,
    older: Shows | None = None,
) -> None:
    """Write down what was done to one file: `base` is what was shown of it, `text` what it holds now.

    `doc` is the document of a file that was not shown before. A base is `uncertain` when nobody knows whether
    it was ever written to the file: then nothing counts as removed, and what is known is no edit; `older` is
    what was shown before it.
    """
    if text is None:
        if base is not None and not uncertain:
            _remove(ledger, base)
        return
    page = blocks.cut(text, path)
    doc = base.doc if base is not None else doc
    named = path_of(ledger.seen, doc)
    if named != path and not (uncertain and named):
        ledger.write(doc, "name", value=path, over=_heads_of(ledger, doc, "name"))
    if base is not None and base.text == text:
        return
    values = dict(read_front(page.front))
    known = ledger.seen.docs.get(doc, {}).get("layout")
    if known is None:
        _lay_out(ledger, doc, page, {})
    if uncertain:
        values = {key: value for key, value in values.items() if not _was_ever(ledger, doc, key, value)}
        _diff_values(ledger, doc, {}, values)
    else:
        _diff_values(ledger, doc, base.values if base is not None else _shown_values(ledger, doc), values)
    standing = _diff_blocks(ledger, base, page, doc, uncertain=uncertain, older=older)
    if not uncertain:
        _make_exact(ledger, base, page, doc, standing)


def identify(base: Mapping[str, Shows], files: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The document of each file, and the path in the base of each that was renamed.

    A file that was copied with its id gets a new one; the path in the base keeps it, else the file that is
    called as its key says, else the first.
    """
    shown = {
        shows.values.get("id"): path
        for path, shows in base.items()
        if names.is_id(str(shows.values.get("id")))
    }
    given: dict[str, str] = {}
    moved: dict[str, str] = {}
    taken: dict[str, str] = {}
    for path in sorted(files, key=lambda path: (path not in base, not _is_called(path, files[path]), path)):
        front = read_front(files[path])
        home = shown.get(front.get("id"))
        if path in base:
            given[path] = base[path].doc
            if (
                home is not None
                and home != path
                and home not in files
                and base[home].doc not in taken.values()
            ):
                given[path], moved[path] = base[home].doc, home
        elif home is not None and home not in files and base[home].doc not in taken.values():
            given[path], moved[path] = base[home].doc, home
        else:
            mark = blocks.document_id(path, front.get("id"))
            known = (
                mark in taken.values() or mark in shown or any(mark in each.docs for each in base.values())
            )
            given[path] = names.new_id() if known and names.is_id(mark) else mark
        taken[path] = given[path]
    return given, moved


def _is_called(path: str, text: str) -> bool:
    return read_front(text).get("key") == path.rpartition("/")[2].removesuffix(".md")


def _heads_of(ledger: Ledger, doc: str, kind: str, target: str = "") -> tuple[Dot, ...]:
    """All that a register was ever told, as far as it was seen here."""
    return tuple(sorted(fact.dot for fact in ledger.seen.of(doc, kind).get(target, ())))


def _shown_values(ledger: Ledger, doc: str) -> dict[str, Any]:
    return show(ledger.seen, [doc], ledger.trust).values if doc in ledger.seen.docs else {}


def _remove(ledger: Ledger, base: Shows) -> None:
    """A file that is gone: every block that it showed is dropped."""
    for shown in base.blocks:
        _drop(ledger, shown.stands)
    if not base.blocks:
        ledger.write(base.doc, "name", value="", over=_heads_of(ledger, base.doc, "name"))


def _drop(ledger: Ledger, stands: Iterable[Stand]) -> None:
    for stand in stands:
        ledger.write(
            stand.doc,
            "drop",
            stand.target,
            over=ledger.seen.closure(stand.dots),
            kills=tuple(sorted(stand.dots)),
        )


# ------------------------------------------------------------ frontmatter


def _lay_out(ledger: Ledger, doc: str, page: CutText, marks: Mapping[int | str, str]) -> None:
    known = {blocks.END: blocks.END, **marks}
    gaps = {known[place]: gap for place, gap in page.gaps.items() if place in known}
    value = {"front": page.front, "head": page.head, "eol": page.eol, "gaps": gaps}
    ledger.write(doc, "layout", value=value)


def _diff_values(ledger: Ledger, doc: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    born = not ledger.seen.docs.get(doc, {}).get("entry")
    for key in (*now, *(key for key in before if key not in now)):
        was, is_now = before.get(key), now.get(key)
        if key in LISTS:
            _diff_list(ledger, doc, key, was, is_now, born=born)
        elif was == is_now and not (born and key not in _RIDING):
            continue
        elif key in REGISTERS:
            if not born or not ledger.seen.of(doc, key):
                ledger.write(doc, key, value=is_now, over=_heads_of(ledger, doc, key))
        elif key == CONFIRMED and isinstance(is_now, list):
            _diff_confirmed(ledger, doc, was, is_now)
        elif key == APPLIED and all(type(each or 0) is int for each in (was, is_now)):
            known = sum(fact.value for fact in ledger.seen.of(doc, APPLIED).get("", ()))
            ledger.write(doc, APPLIED, value=(is_now or 0) - known)
        elif was != is_now or not ledger.seen.of(doc, "front").get(key):
            ledger.write(doc, "front", key, value=is_now)


def _was_ever(ledger: Ledger, doc: str, key: str, value: Any) -> bool:
    """Whether a key ever said this: then a file that says it may only be old."""
    facts = ledger.seen.docs.get(doc, {})
    fronts = (fact.value["front"] for each in facts.get("layout", {}).values() for fact in each if fact.value)
    known = [read_front(front).get(key) for front in fronts]
    if key in LISTS:
        told = {element(each) for listed in known for each in elements(listed)} | set(
            facts.get(LISTS[key], ())
        )
        return {element(each) for each in elements(value)} <= told
    if key == CONFIRMED:
        return True  # those of other sessions are never taken away, and the newest come with the next
    named = facts.get(key, {}).get("", []) if key in REGISTERS else facts.get("front", {}).get(key, [])
    return value in known or key == APPLIED or any(fact.value == value for fact in named)


def _diff_list(ledger: Ledger, doc: str, key: str, was: Any, now: Any, *, born: bool) -> None:
    kind = LISTS[key]
    before, after = {element(each) for each in elements(was)}, {element(each) for each in elements(now)}
    for each in sorted(after - before if not born else after):
        facts = ledger.seen.of(doc, kind).get(each, [])
        if not is_in(facts):
            ledger.write(doc, kind, each, value=True, over=tuple(sorted(fact.dot for fact in facts)))
    for each in sorted(before - after):
        facts = ledger.seen.of(doc, kind).get(each, [])
        ledger.write(doc, kind, each, value=False, over=tuple(sorted(fact.dot for fact in facts)))


def _diff_confirmed(ledger: Ledger, doc: str, was: Any, now: list[Any]) -> None:
    before = {session(each): each for each in was or () if isinstance(each, dict)}
    after = {session(each): each for each in now if isinstance(each, dict)}
    for target, each in after.items():
        if before.get(target) != each:
            ledger.write(doc, CONFIRMED, target, value=each)
    if len(after) < len(before):  # not only cut to the newest few
        for target in sorted(set(before) - set(after)):
            ledger.write(doc, CONFIRMED, target, value={})


# ------------------------------------------------------------ blocks


def _diff_blocks(
    ledger: Ledger, base: Shows | None, page: CutText, doc: str, *, uncertain: bool, older: Shows | None
) -> list[_Standing]:
    shown = base.blocks if base is not None else ()
    matches, missing = match(shown, page.blocks, sure=not uncertain)
    before = {each.id: each for each in (older.blocks if older is not None else ())}
    standing = [_diff_block(ledger, each, doc, uncertain=uncertain, before=before) for each in matches]
    for each in missing if not uncertain else ():
        _drop(ledger, each.stands)
    return standing


def _diff_block(
    ledger: Ledger, found: _Match, doc: str, *, uncertain: bool, before: Mapping[str, ShownBlock]
) -> _Standing:
    shown = found.shown
    if shown is None:
        return _new(ledger, found, doc, uncertain=uncertain)
    first = shown.stands[0]
    settled = shown.conflict and "~" in shown.id and not blocks.parts(found.raw).get("contradicts")
    if settled and blocks.parts(shown.raw).get("contradicts"):
        return _settle(ledger, found, shown)
    if found.copied:
        found = found._replace(block=found.block._replace(raw=blocks.sign(found.raw, id=shown.id)))
    if blocks.content(found.raw) == blocks.content(shown.raw):
        _diff_marks(ledger, first, shown.raw, found.raw, uncertain=uncertain)
        return _Standing(found.raw, first.doc, first.target, first.dots, exact=not shown.conflict)
    if uncertain and _is_known(ledger, first.doc, first.target, found.raw):
        return _Standing(found.raw, first.doc, first.target, first.dots, exact=False)
    _drop(ledger, shown.stands[1:])
    raw = _without_sibling(found.raw, shown)
    fact = ledger.write(
        first.doc,
        "put",
        first.target,
        value={"raw": raw},
        over=_replaced(ledger, first, before.get(shown.id)) if uncertain else ledger.seen.closure(first.dots),
        origin=_origin(raw),
    )
    return _Standing(raw, first.doc, first.target, (fact.dot,), exact=not shown.conflict)


def _replaced(ledger: Ledger, latest: Stand, before: ShownBlock | None) -> tuple[Dot, ...]:
    """What an edit replaces of which nobody knows what it was made from: nothing that may be unseen."""
    if before is not None:
        return ledger.seen.closure(before.stands[0].dots)
    earlier = {dot for each in latest.dots for dot in ledger.seen.facts[each].over}
    return tuple(sorted(earlier)) or ledger.seen.closure(latest.dots)


def _settle(ledger: Ledger, found: _Match, shown: ShownBlock) -> _Standing:
    """Somebody decided that a second text of an entry stands for itself: it becomes an entry of its own."""
    _drop(ledger, shown.stands)
    doc = shown.stands[0].doc
    over = _heads_of(ledger, doc, "entry", shown.id)
    fact = ledger.write(doc, "put", shown.id, value={"raw": found.raw}, over=over, origin=_origin(found.raw))
    return _Standing(found.raw, doc, shown.id, (fact.dot,))


def _without_sibling(raw: str, shown: ShownBlock) -> str:
    """A second text of an entry as it is kept: its id and its mark are the projection's."""
    if shown.conflict and "~" in shown.id:
        return blocks.sign(raw, id=shown.id.partition("~")[0], contradicts="")
    return raw


def _new(ledger: Ledger, found: _Match, doc: str, *, uncertain: bool) -> _Standing:
    """A block that was not shown: new, or brought back over what removed it."""
    target = found.block.id or _derived(ledger, doc, found)
    known = ledger.seen.of(doc, "entry").get(target, [])
    if uncertain and _is_known(ledger, doc, target, found.raw):
        return _Standing(found.raw, doc, target, (), exact=False)
    raw = blocks.sign(found.raw, id=target) if found.copied else found.raw
    over = tuple(sorted(fact.dot for fact in known))
    if uncertain:  # it may have been dropped since: an edit that did not see that goes to the archive
        over = tuple(sorted(fact.dot for fact in known if fact.kind == "put"))
    fact = ledger.write(doc, "put", target, value={"raw": raw}, over=over, origin=_origin(raw))
    return _Standing(raw, doc, target, (fact.dot,))


def _derived(ledger: Ledger, doc: str, found: _Match) -> str:
    """The id of a block that says none: the same wherever the same block is first seen."""
    mark = found.block.derived()
    entries = ledger.seen.of(doc, "entry")
    number = 1
    while shown_heads(ledger.seen, entries.get(mark if number == 1 else f"{mark}-{number}", [])):
        number += 1
    return mark if number == 1 else f"{mark}-{number}"


def _is_known(ledger: Ledger, doc: str, target: str, raw: str) -> bool:
    """Whether a text is one that this entry ever had."""
    wanted = blocks.content(raw)
    facts = ledger.seen.of(doc, "entry").get(target, ())
    return any(
        fact.kind == "put" and fact.value and blocks.content(fact.value["raw"]) == wanted for fact in facts
    )


def _diff_marks(ledger: Ledger, stand: Stand, was: str, now: str, *, uncertain: bool) -> None:
    """Marks that were set or lifted; where the base is uncertain, what is missing was never lifted."""
    before, after = blocks.parts(was), blocks.parts(now)
    marks = ledger.seen.of(stand.doc, "mark")
    for name in blocks.MARKS:
        if before.get(name, "") == after.get(name, ""):
            continue
        begin = f"{stand.target} {name}: "
        told = {begin + after[name]} if name in after else set()
        gone = {each for each, facts in marks.items() if each.startswith(begin) and is_in(facts)}
        if name in before:
            gone.add(begin + before[name])
        if uncertain:
            gone, told = set(), {each for each in told if each not in marks}
        for each, there in [
            *((each, False) for each in sorted(gone - told)),
            *((each, True) for each in told),
        ]:
            over = _heads_of(ledger, stand.doc, "mark", each)
            ledger.write(stand.doc, "mark", each, value=there, over=over)


def _origin(raw: str) -> str:
    return blocks.parts(raw).get("origin", "user")[:120]


# ------------------------------------------------------------ which block is which


def match(
    shown: Sequence[ShownBlock], found: Sequence[TextBlock], *, sure: bool = True
) -> tuple[list[_Match], list[ShownBlock]]:
    """Find the shown block of each block of a file: by id, text, time, or place and likeness.

    Two blocks with ids of their own are the same by their ids alone. Where it is not `sure` what a file
    showed, time and likeness say nothing: others may have written at the same time.
    """
    left = dict(enumerate(shown))
    pairs: dict[int, int] = {}

    def take(place: int, number: int) -> None:
        pairs[place] = number
        del left[number]

    doubled = _by_id(found, left, take)
    found = [
        block._replace(raw=blocks.sign(block.raw, id="")) if place in doubled else block
        for place, block in enumerate(found)
    ]
    for place, number in _by(found, pairs, left, lambda block: block.words, _words):
        take(place, number)
    if sure:
        known = {*pairs, *doubled}  # a copy is a new block, wherever it is put
        for place, number in _by(found, known, left, lambda block: block.instant, _instant, unique=True):
            take(place, number)
        for place, number in _by_neighbours(found, pairs, left, len(shown), but=doubled):
            take(place, number)
    matches = [
        _Match(block, shown[pairs[place]] if place in pairs else None, place in doubled)
        for place, block in enumerate(found)
    ]
    return matches, list(left.values())


def _words(shown: ShownBlock) -> str:
    return blocks.words_of(shown.raw)


def _instant(shown: ShownBlock) -> str:
    return blocks.instant_of(shown.raw)


def _by_id(
    found: Sequence[TextBlock], left: dict[int, ShownBlock], take: Callable[[int, int], None]
) -> set[int]:
    """Pair what has the same id; of a block that was copied the copies are returned."""
    marks: dict[str, list[int]] = {}
    for place, block in enumerate(found):
        if block.id:
            marks.setdefault(block.id, []).append(place)
    numbers = {shown.id: number for number, shown in left.items()}
    doubled: set[int] = set()
    for mark, places in marks.items():
        number = numbers.get(mark)
        same = [place for place in places if number is not None and found[place].raw == left[number].raw]
        keeper = (same or places)[0]
        doubled.update(place for place in places if place != keeper)
        if number is not None:
            take(keeper, number)
    return doubled


def _by(
    found: Sequence[TextBlock],
    pairs: Collection[int],
    left: Mapping[int, ShownBlock],
    one: Callable[[TextBlock], str],
    other: Callable[[ShownBlock], str],
    *,
    unique: bool = False,
) -> list[tuple[int, int]]:
    """Pair the blocks that agree in something, in their order; with `unique` only where one of each does."""
    numbers: dict[str, list[int]] = {}
    for number, shown in left.items():
        if said := other(shown):
            numbers.setdefault(said, []).append(number)
    places: dict[str, list[int]] = {}
    for place, block in enumerate(found):
        if place not in pairs and (said := one(block)):
            places.setdefault(said, []).append(place)
    return [
        (place, number)
        for said, here in places.items()
        if said in numbers and not (unique and (len(here) > 1 or len(numbers[said]) > 1))
        for place, number in zip(here, numbers[said], strict=False)
        if not (found[place].id and blocks.parts(left[number].raw).get("id"))
    ]


def _by_neighbours(
    found: Sequence[TextBlock],
    pairs: Mapping[int, int],
    left: Mapping[int, ShownBlock],
    count: int,
    *,
    but: Collection[int],
) -> list[tuple[int, int]]:
    """Pair what stands between the same blocks and is worded alike."""
    paired = []
    taken: set[int] = set()
    for place, block in enumerate(found):
        if place in pairs or place in but or block.id:
            continue
        above = next((pairs[each] for each in range(place - 1, -1, -1) if each in pairs), -1)
        below = next((pairs[each] for each in range(place + 1, len(found)) if each in pairs), count)
        likely = [number for number in left if above < number < below and number not in taken]
        scores = [(_likeness(block, left[number]), -number) for number in likely]
        score, number = max(scores, default=(0.0, 0))
        if score >= LIKENESS:
            paired.append((place, -number))
            taken.add(-number)
    return paired


def _likeness(block: TextBlock, shown: ShownBlock) -> float:
    one, other = block.words[:_LONGEST], _words(shown)[:_LONGEST]
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= LIKENESS else 0.0


# ------------------------------------------------------------ byte for byte


def _make_exact(
    ledger: Ledger, base: Shows | None, page: CutText, doc: str, standing: list[_Standing]
) -> None:
    """What facts do not say yet of how a file looks: a block's very bytes, the order, and the layout."""
    docs = base.docs if base is not None else (doc,)
    now = show(ledger.seen, docs, ledger.trust)
    shown = {dot: each for each in now.blocks for dot in each.dots}
    for each in standing:
        there = next((shown[dot] for dot in each.dots if dot in shown), None)
        if each.exact and there is not None and not there.conflict and there.raw != each.raw:
            over = ledger.seen.closure(each.dots)
            fact = ledger.write(
                each.doc, "put", each.target, value={"raw": each.raw}, over=over, origin=_origin(each.raw)
            )
            each.dots = (fact.dot,)
    now = show(ledger.seen, docs, ledger.trust)
    shown = {dot: each for each in now.blocks for dot in each.dots}
    ordered = [shown[each.dots[0]] for each in standing if each.dots and each.dots[0] in shown]
    if [each.id for each in ordered] != [each.id for each in now.blocks]:
        _put_in_order(ledger, ordered)
        now = show(ledger.seen, docs, ledger.trust)
    if now.text != blocks.join(page) and not _is_laid_out(now, page):
        marks: dict[int | str, str] = {place: each.id for place, each in enumerate(ordered)}
        _lay_out(ledger, doc, page, marks)


def _is_laid_out(now: Shows, page: CutText) -> bool:
    """Whether only blocks differ, and all that is around them does not."""
    try:
        shown = blocks.cut(now.text, now.path)
    except Malformed:  # without its layout a text may begin with what looks like frontmatter
        return False
    if [each.raw for each in shown.blocks] != [each.raw for each in now.blocks]:
        return False  # the head of another text runs into the first block
    return (shown.front, shown.head, shown.eol, shown.gaps) == (page.front, page.head, page.eol, page.gaps)


def _put_in_order(ledger: Ledger, ordered: Sequence[ShownBlock]) -> None:
    """Give a place of its own to each block that does not stand where its time would put it."""
    kept = _longest_rising([each.key for each in ordered])
    above: tuple[str, str, str, int] = ("", "", "", 0)
    for place, each in enumerate(ordered):
        key = each.key
        if place not in kept or key <= above:
            below = next(
                (ordered[later].key for later in range(place + 1, len(ordered)) if later in kept), None
            )
            room = below[1] if below is not None and below[0] == above[0] and below[1] > above[1] else None
            where = [above[0], between(above[1], room)]
            stand = each.stands[0]
            ledger.write(stand.doc, "pos", stand.target, value=where)
            key = (where[0], where[1], stand.target, each.key[3])
        above = max(above, key)


def between(low: str, high: str | None) -> str:
    """A text that sorts after one and before another; letters a to z, never ending with `a`."""
    if high is None:
        return low + _FRACTION
    at = 0
    while at < len(low) and at < len(high) and low[at] == high[at]:
        at += 1
    floor = ord(low[at]) if at < len(low) else ord("a") - 1
    top = ord(high[at])
    if top - floor > 1 and (floor + top) // 2 > ord("a"):
        return high[:at] + chr((floor + top) // 2)
    if at < len(low):
        return low + _FRACTION
    # `high` goes on from `low` with an `a` or `b`: what is smaller than that begins with `a`.
    return low + "a" + between("", high[at + 1 :] if high[at] == "a" else None)


def _longest_rising(keys: Sequence[tuple[str, str, str, int]]) -> set[int]:
    """The places of a longest row of keys that rise: what has to be moved is the rest."""
    import bisect

    tails: list[tuple[str, str, str, int]] = []
    last: list[int] = []
    before: list[int] = []
    for place, key in enumerate(keys):
        at = bisect.bisect_left(tails, key)
        before.append(last[at - 1] if at else -1)
        tails[at : at + 1] = [key]
        last[at : at + 1] = [place]
    kept: set[int] = set()
    place = last[-1] if last else -1
    while place >= 0:
        kept.add(place)
        place = before[place]
    return kept
