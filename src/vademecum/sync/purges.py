"""A purge on every machine: a fact names the facts whose content goes, and each replica lets it go at home.

A purge says where in each of them the purged text stands (`cuts`), by numbers that count characters: whoever
still has the content finds the text by them, and nobody else learns it. What has no cut goes as a whole. An
edit over something purged is shadowed everywhere and loses its content too; whoever made it finds it in
`held/`. What a purge has to do here is read from the log alone, so one that was cut short is done again.
"""

from __future__ import annotations

import contextlib
import functools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.store import archive, document, pinned, tombstones
from vademecum.store import purge as purging
from vademecum.store import purge_origin as origins
from vademecum.sync import blocks
from vademecum.sync import facts as fact_rules
from vademecum.sync.diff import Ledger
from vademecum.sync.facts import PURGE, SETS, Dot, SyncFact, heads
from vademecum.sync.project import FactSet, path_of, project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.sync.place import Synced, SyncLog, SyncStream
    from vademecum.sync.window import Logged, StreamWindow
    from vademecum.types import Entry

MOST = 5_000  # dots in one fact
_WORDED = SETS - {"mark", "vouch"}  # sets whose elements are a person's words
Cut = tuple[int, int]


class Removed(NamedTuple):
    """What a purge takes from the files of a home."""

    texts: tuple[str, ...] = ()  # wherever they stand
    entries: tuple[Entry, ...] = ()  # whole ones
    paths: tuple[str, ...] = ()  # whole records

    def clean(self, path: str, text: str) -> str | None:
        """A file without it; None when nothing is left."""
        if path in self.paths:
            return None
        content: bytes | None = text.encode()
        if self.entries:
            marks = {archive.fingerprint(each) for each in self.entries}
            content = origins.strip(
                text.encode(), kind=kind_of(path), doomed=lambda entry: archive.fingerprint(entry) in marks
            )
        for each in self.texts if content is not None else ():
            content = purging.without_text(content or b"", each)
        return None if content is None else content.decode()


class Doubt(NamedTuple):
    """A text in a file of which nobody knows whether it was purged: its entry was, and the log is lost."""

    path: str
    target: str
    raw: str
    whole: bool = False  # the whole record was purged


def kind_of(path: str) -> str:
    """What kind of file the archive takes it for."""
    return path.rpartition("/")[0] or archive.PINNED


# ------------------------------------------------------------------------------- what a purge names


def find_text(facts: Iterable[SyncFact], wanted: str) -> dict[Dot, Cut | None]:
    """The facts that hold a text, history included, and where in each it stands.

    What a purge leaves in a file (names, labels, times) is left in facts, too.
    """
    found: dict[Dot, Cut | None] = {}
    where = purging.finder(wanted)
    for fact in facts:
        if fact.purged or fact.value is None or not _is_worded(fact):
            continue
        said = _said(fact)
        cut = where(said)
        if cut is not None and (
            fact.kind in _WORDED or purging.without_text(said.encode(), wanted) != said.encode()
        ):
            found[fact.dot] = cut
    return found


def find_record(state: FactSet, path: str, record: str | None) -> dict[Dot, Cut | None]:
    """All facts about a record, and its entries where they were consolidated with others."""
    docs = {doc for doc in state.docs if doc and (doc == record or path_of(state, doc) == path)}
    key = path.rpartition("/")[2].removesuffix(".md")
    return {
        fact.dot: None
        for fact in state.facts.values()
        if not fact.purged and (fact.doc in docs or (fact.kind == "put" and _part(fact) == key))
    }


def find_entries(state: FactSet, entries: Iterable[Entry]) -> dict[Dot, Cut | None]:
    """The facts that are one of these entries, by time and words."""
    marks = {archive.fingerprint(each) for each in entries}
    return {
        fact.dot: None
        for fact in state.facts.values()
        if fact.kind == "put"
        and not fact.purged
        and any(archive.fingerprint(each) in marks for each in _entries(fact))
    }


def values_of(named: Mapping[Dot, Cut | None], **more: Any) -> Iterator[dict[str, Any]]:
    """The values of the purges that name these facts."""
    listed = sorted(named)
    for first in range(0, len(listed), MOST):
        part = listed[first : first + MOST]
        cuts = {str(dot): list(cut) for dot in part if (cut := named[dot]) is not None}
        yield {"dots": [str(dot) for dot in part], "cuts": cuts, **more}


def _part(fact: SyncFact) -> str:
    return blocks.parts(fact.value["raw"]).get("of", "")


def _is_worded(fact: SyncFact) -> bool:
    """Whether a fact says what people wrote, and not what a file is known by."""
    if fact.kind == "front":
        return not purging.is_label(fact.target)
    return fact.kind in ("put", "layout") or fact.kind in _WORDED


def _takes_out(said: str, wanted: str) -> bool:
    return purging.without_text(said.encode(), wanted) != said.encode()


def _said(fact: SyncFact) -> str:
    """The words of a fact as one text, in which a cut counts."""
    if fact.kind == "put":
        return str(fact.value["raw"])
    if fact.kind == "layout":
        return f"{fact.value.get('front', '')}{fact.value.get('head', '')}"
    return fact.target if fact.kind in SETS else json.dumps(fact.value, ensure_ascii=False)


def _cut_out(fact: SyncFact, cut: Cut) -> set[str]:
    """The text at a cut, as it may stand elsewhere."""
    said = _said(fact)[cut[0] : cut[1]]
    found = {said, document.unescape(said)}
    if fact.kind not in ("put", "layout"):
        with contextlib.suppress(ValueError):
            found.add(str(json.loads(f'"{said}"')))
    return {each for each in found if purging.is_long_enough(each)}


def _entries(fact: SyncFact) -> Sequence[Entry]:
    """The entry that a text is; the name of its file may be purged already."""
    kind = archive.PINNED if fact.doc in _pinned() else archive.RECORDS
    return tombstones.read_entries(fact.value["raw"].encode(), kind)


@functools.cache
def _pinned() -> frozenset[str]:
    return frozenset(blocks.document_id(name, None) for name in pinned.NAMES)


# ------------------------------------------------------------------------------- carrying one out


def carry_out(stream: SyncStream, window: StreamWindow, done: Synced) -> StreamWindow:
    """Let go of everything that the purges in the log name; the window is returned as it is then."""
    window.take(stream.signing)
    aside = list(stream.log.aside())
    old = bool(window.every.purged) or any(fact.kind == PURGE for fact in aside)
    if not ((aside and old) or stream.doubts or _is_waiting(stream, window)):
        return window
    window.widen(stream.signing)
    _order_again(stream, aside, done)
    state = _state(stream)
    gone = _going(state, aside)
    files = window.files
    if gone or stream.doubts:
        named: dict[Dot, Cut | None] = {}
        texts: set[str] = set()
        for dot, cut in _named(state):
            named[dot] = named.get(dot, cut) and cut  # whoever wants all of it gets that
            texts |= _cut_out(gone[dot], cut) if cut and dot in gone else set()
        more = {dot: cut for dot, cut in _holding(state, texts).items() if dot not in gone}
        if more and stream.may_purge:
            _order(stream, values_of(more), done)
            gone = _going(_state(stream), aside)
        removed = _removed(gone, named | more, texts, stream.doubts)
        _keep_unseen(stream, gone, files, removed, done)
        for doubt in stream.doubts:
            stream.files.set_aside(f"x-{doubt.target}", doubt.path, doubt.raw)
            done.held.append(doubt.path)
        files = _clean(stream, files, removed)
        stream.log.blank(gone)
        stream.doubts.clear()
        done.purged += len(gone)
    if stream.acks:
        _acknowledge(stream, done)
    return window.renewed(stream.log.read(), stream.log.applied(), files)


def _state(stream: SyncStream) -> FactSet:
    return FactSet(each.fact for each in stream.log.read())


def _is_waiting(stream: SyncStream, window: StreamWindow) -> bool:
    """Whether a purge came since the last sync, or something that an earlier one took away."""
    new = window.tail.logged[window.kept.lines :]
    return any(fact.kind == PURGE or _must_go(window.every, fact) for fact, _ in new)


def _going(state: FactSet, aside: Iterable[SyncFact]) -> dict[Dot, SyncFact]:
    """The facts whose content is here and must go; some may only be in a log that was put aside."""
    found = {dot: fact for dot, fact in state.facts.items() if _must_go(state, fact)}
    for fact in aside:
        there = state.facts.get(fact.dot)
        if there is not None and there.purged and there.hash == fact.hash and not fact.purged:
            found[fact.dot] = fact
    return found


def _order_again(stream: SyncStream, aside: Sequence[SyncFact], done: Synced) -> None:
    """Order once more what was ordered in a log that was put aside before anybody had read it."""
    facts = {each.fact.dot: each.fact for each in stream.log.read()}
    known = {order for fact in facts.values() if (order := _order_of(fact))}
    hashes = {fact.dot: fact.hash for fact in aside}
    values = []
    for fact in aside:
        if (order := _order_of(fact)) and order not in known:
            named = dict(_named(FactSet([fact])))
            same = {
                dot: cut for dot, cut in named.items() if dot in facts and facts[dot].hash == hashes.get(dot)
            }
            values += list(values_of(same, order=order))
    if values:
        _order(stream, values, done)


def _order_of(fact: SyncFact) -> str:
    return str(fact.value.get("order") or "") if fact.kind == PURGE and fact.value else ""


def enact(
    stream: str,
    log: SyncLog,
    make: Callable[[SyncFact], SyncFact],
    named: Mapping[Dot, Cut | None],
    order: str = "",
) -> None:
    """Write purges of these facts into a log, unless the order is carried out already, and blank them."""
    if not order or all(_order_of(each.fact) != order for each in log.read()):
        _write(stream, log, make, values_of(named, **({"order": order} if order else {})))
    state = FactSet(each.fact for each in log.read())
    log.blank([dot for dot, fact in state.facts.items() if _must_go(state, fact)])


def _must_go(state: FactSet, fact: SyncFact) -> bool:
    return not fact.purged and fact.kind != PURGE and state.is_gone(fact)


def _named(state: FactSet) -> Iterator[tuple[Dot, Cut | None]]:
    """What the purges name, and where in it the text stands."""
    for fact in state.of("", PURGE).get("", ()):
        cuts = fact.value.get("cuts") if fact.value else None
        for name in (fact.value or {}).get("dots", ()):
            given = cuts.get(name) if isinstance(cuts, dict) else None
            usable = isinstance(given, list) and len(given) == 2 and all(type(each) is int for each in given)
            yield fact_rules.read_dot(name), (given[0], given[1]) if usable and given else None


def _holding(state: FactSet, texts: Iterable[str]) -> dict[Dot, Cut | None]:
    found: dict[Dot, Cut | None] = {}
    for text in texts:
        found |= find_text(state.facts.values(), text)
    return found


def _order(stream: SyncStream, values: Iterable[dict[str, Any]], done: Synced) -> None:
    """Write purges of our own."""
    done.sent += _write(stream.name, stream.log, stream.make, values)


def _write(
    stream: str, log: SyncLog, make: Callable[[SyncFact], SyncFact], values: Iterable[dict[str, Any]]
) -> int:
    facts = [each.fact for each in log.read()]
    mine = [fact for fact in facts if fact.replica == log.replica]
    largest = max((fact.lam for fact in facts), default=0)
    ledger = Ledger(stream, log.replica, FactSet(facts), mine[-1] if mine else None, largest, make=make)
    for value in values:
        ledger.write("", PURGE, value=value)
    log.append(ledger.made, own=True)
    return len(ledger.made)


def _removed(
    gone: Mapping[Dot, SyncFact],
    named: Mapping[Dot, Cut | None],
    texts: Iterable[str],
    doubts: Iterable[Doubt],
) -> Removed:
    whole = {dot for dot, cut in named.items() if cut is None}
    entries = [
        entry
        for dot, fact in gone.items()
        if fact.kind == "put" and (dot in whole or not whole.isdisjoint(fact.over))
        for entry in _entries(fact)
    ]
    entries += [
        entry
        for doubt in doubts
        for entry in tombstones.read_entries(doubt.raw.encode(), kind_of(doubt.path))
    ]
    paths = {str(fact.value) for fact in gone.values() if fact.kind == "name" and fact.value}
    paths |= {doubt.path for doubt in doubts if doubt.whole}
    return Removed(tuple(sorted(texts, key=len, reverse=True)), tuple(entries), tuple(sorted(paths)))


def removed_by(named: Mapping[Dot, Cut | None], facts: Iterable[SyncFact]) -> Removed:
    """What an order takes from files, as far as the content of its facts is still there."""
    gone = {fact.dot: fact for fact in facts if fact.dot in named and not fact.purged}
    texts = {text for dot, fact in gone.items() if (cut := named[dot]) for text in _cut_out(fact, cut)}
    return _removed(gone, named, texts, ())


def _keep_unseen(
    stream: SyncStream,
    gone: Mapping[Dot, SyncFact],
    files: Mapping[str, str],
    removed: Removed,
    done: Synced,
) -> None:
    """Keep the texts that whoever purged had not seen and that are shown no longer.

    Our own wait for a person. In a home that lost its log nobody knows which are ours: there it is what
    stands in its files. Those of others go to the archive, if what was purged can be told from the rest.
    """
    logged = list(stream.log.read())
    bodies = [] if stream.log.applied() else [text.replace("\r\n", "\n") for text in files.values()]
    own = {each.fact.dot for each in logged if each.own}
    named = dict(_named(FactSet(each.fact for each in logged)))
    hidden = {dot for dot, cut in named.items() if cut is None or dot not in gone}
    for fact, path in _unseen(stream, logged, gone):
        raw = fact.value["raw"]
        rest = Removed(removed.texts).clean(path, raw) or ""
        if fact.dot in own or any(raw in each for each in bodies):
            stream.files.set_aside(str(fact.dot).replace(":", "-"), path, rest)
            done.held.append(path)
        elif hidden.isdisjoint(fact.over):
            stream.files.archive(path, rest)


def _unseen(
    stream: SyncStream, logged: Sequence[Logged], gone: Mapping[Dot, SyncFact]
) -> Iterator[tuple[SyncFact, str]]:
    state = FactSet(each.fact for each in logged)
    after = FactSet(fact_rules.blank(each.fact) if each.fact.dot in gone else each.fact for each in logged)
    shows = project(after, stream.signing).values()
    shown = {blocks.content(block.raw) for each in shows for block in each.blocks}
    purged = {dot for dot, _ in _named(state)}
    nameless = {fact.doc for fact in gone.values() if fact.kind == "name"}
    for doc in sorted({fact.doc for fact in gone.values()}):
        for facts in state.of(doc, "entry").values():
            for fact in heads(facts):
                lost = (fact.dot in gone or doc in nameless) and fact.dot not in purged
                put = fact.kind == "put" and fact.value is not None
                if put and lost and blocks.content(fact.value["raw"]) not in shown:
                    yield fact, _last_name(state, doc)


def _last_name(state: FactSet, doc: str) -> str:
    facts = [fact for each in state.of(doc, "name").values() for fact in each if fact.value]
    return str(max(facts, key=lambda fact: fact.order).value) if facts else ""


def _clean(stream: SyncStream, files: Mapping[str, str], removed: Removed) -> dict[str, str]:
    """Take it out of the files; those that change are uncertain until they are shown anew."""
    after = {path: removed.clean(path, text) for path, text in files.items()}
    changed = {path for path, text in after.items() if text != files[path]}
    if changed:
        stream.log.begin({*changed, *stream.log.applying()})
    stream.files.purge(removed)
    return {path: text for path, text in after.items() if text is not None}


# ------------------------------------------------------------------------------- who has carried one out


def _acknowledge(stream: SyncStream, done: Synced) -> None:
    """Say in a fact which purges were carried out here."""
    logged = list(stream.log.read())
    mine = {each.fact.replica for each in logged if each.own} | {stream.log.replica}
    every = purges_of(each.fact for each in logged)
    waiting = [dot for dot, (maker, acks) in every.items() if not mine & {maker, *acks}]
    if waiting:
        told = {"dots": [], "done": [str(dot) for dot in sorted(waiting)], "as": sorted(mine)}
        _order(stream, [told], done)


def purges_of(facts: Iterable[SyncFact]) -> dict[Dot, tuple[str, set[str]]]:
    """Every purge, who ordered it, and the replicas that said that they carried it out."""
    found: dict[Dot, tuple[str, set[str]]] = {}
    told: list[tuple[SyncFact, list[str]]] = []
    for fact in facts:
        if fact.kind == PURGE and fact.value:
            if fact.value["dots"]:
                found[fact.dot] = (fact.replica, set())
            if isinstance(fact.value.get("done"), list):
                told.append((fact, fact.value["done"]))
    for fact, names in told:
        for name in names:
            try:
                there = found.get(fact_rules.read_dot(name))
            except (ValueError, TypeError):
                continue
            if there is not None:
                there[1].update({fact.replica, *map(str, fact.value.get("as") or ())})
    return found


def reach(facts: Iterable[SyncFact], own: Iterable[str]) -> list[tuple[int, int]]:
    """For each purge on how many machines of how many it was carried out, as far as facts tell.

    A machine may have had several names; whoever never wrote anything is not known here.
    """
    listed = list(facts)
    groups: list[set[str]] = [set(own)]
    for fact in listed:
        also = fact.value.get("as") if fact.kind == PURGE and fact.value else None
        names = {fact.replica, *map(str, also if isinstance(also, list) else ())}
        joined = [each for each in groups if each & names]
        groups = [each for each in groups if not each & names] + [names.union(*joined)]
    return [
        (sum(bool(each & {maker, *acks}) for each in groups), len(groups))
        for maker, acks in purges_of(listed).values()
    ]
