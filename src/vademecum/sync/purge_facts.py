"""Purge texts on every machine: a fact names the facts to purge, and each replica deletes their content.

A purge has the positions (`cuts`) of the text in each fact, as numbers of characters: a machine that still
has the content finds the text there, and nobody else learns it. A fact without a cut is purged whole. An edit
that replaces a purged fact is hidden everywhere and loses its content, too; its author finds the text in
`held/`. All work of a purge follows from the log, so an interrupted purge is repeated.
"""

from __future__ import annotations

import contextlib
import functools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.store import archive, tombstones
from vademecum.store import purge as purging
from vademecum.store import purge_origin as origins
from vademecum.sync import blocks
from vademecum.sync import facts as fact_rules
from vademecum.sync.diff import FactWriter
from vademecum.sync.facts import PURGE, SETS, FactId, SyncFact, heads
from vademecum.sync.projection import FactSet, path_of, project
from vademecum.text import document, filenames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.sync.stream_sync import Synced, SyncLog, SyncStream
    from vademecum.sync.stream_window import Logged, StreamWindow
    from vademecum.types import Entry

MOST = 5_000  # facts named in one purge
_WORDED = SETS - {"mark", "vouch"}  # sets whose elements are words of a person
Cut = tuple[int, int]


class Removed(NamedTuple):
    """The texts, entries and records that a purge deletes from the files of a home."""

    texts: tuple[str, ...] = ()  # texts, wherever they are
    entries: tuple[Entry, ...] = ()  # whole entries
    paths: tuple[str, ...] = ()  # paths of whole records

    def clean(self, path: str, text: str) -> str | None:
        """Return the text of a file without the purged content; None when nothing is left."""
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
    """A text in a file that may have been purged.

    Its entry was purged, and this home has lost the log that would show which of the entry's texts were.
    """

    path: str
    target: str
    raw: str
    whole: bool = False  # the whole record was purged


def kind_of(path: str) -> str:
    """Return the kind of file, as the archive names it, for a path: its folder, or that of pinned files."""
    return path.rpartition("/")[0] or filenames.PINNED


# ------------------------------------------------------------------------------- finding facts


def find_text(facts: Iterable[SyncFact], wanted: str) -> dict[FactId, Cut | None]:
    """Return the facts that contain a text, old versions included, with its position in each fact.

    Facts with names, labels and times are left out, since a purge of files keeps these, too.
    """
    found: dict[FactId, Cut | None] = {}
    where = purging.finder(wanted)
    for fact in facts:
        if fact.purged or fact.value is None or not _is_worded(fact):
            continue
        text = _text_of(fact)
        cut = where(text)
        if cut is not None and (
            fact.kind in _WORDED or purging.without_text(text.encode(), wanted) != text.encode()
        ):
            found[fact.id] = cut
    return found


def find_record(state: FactSet, path: str, record: str | None) -> dict[FactId, Cut | None]:
    """Return all facts about a record, and the facts of consolidated entries that were taken from it.

    The record is the document with the id `record`, or with this path.
    """
    docs = {doc for doc in state.docs if doc and (doc == record or path_of(state, doc) == path)}
    key = path.rpartition("/")[2].removesuffix(".md")
    return {
        fact.id: None
        for fact in state.facts.values()
        if not fact.purged and (fact.doc in docs or (fact.kind == "put" and _source_of(fact) == key))
    }


def find_entries(state: FactSet, entries: Iterable[Entry]) -> dict[FactId, Cut | None]:
    """Return the facts with the same time and words as one of these entries."""
    marks = {archive.fingerprint(each) for each in entries}
    return {
        fact.id: None
        for fact in state.facts.values()
        if fact.kind == "put"
        and not fact.purged
        and any(archive.fingerprint(each) in marks for each in _read_entries(fact))
    }


def values_of(named: Mapping[FactId, Cut | None], **more: Any) -> Iterator[dict[str, Any]]:
    """Yield the values of purge facts that name the given facts, a limited number in each.

    `more` has further fields for each value.
    """
    listed = sorted(named)
    for first in range(0, len(listed), MOST):
        part = listed[first : first + MOST]
        cuts = {str(fact_id): list(cut) for fact_id in part if (cut := named[fact_id]) is not None}
        yield {"dots": [str(fact_id) for fact_id in part], "cuts": cuts, **more}


def _source_of(fact: SyncFact) -> str:
    return blocks.parts(fact.value["raw"]).get("of", "")


def _is_worded(fact: SyncFact) -> bool:
    """Return whether a fact has words of a person, and not merely a name or a label."""
    if fact.kind == "front":
        return not purging.is_label(fact.target)
    return fact.kind in ("put", "layout") or fact.kind in _WORDED


def _text_of(fact: SyncFact) -> str:
    """Return the text of a fact in which the positions of a purge are counted."""
    if fact.kind == "put":
        return str(fact.value["raw"])
    if fact.kind == "layout":
        return f"{fact.value.get('front', '')}{fact.value.get('head', '')}"
    return fact.target if fact.kind in SETS else json.dumps(fact.value, ensure_ascii=False)


def _cut_out(fact: SyncFact, cut: Cut) -> set[str]:
    """Return a fact's text at these positions, in each form in which a file may have it.

    A form that is too short to be purged is left out.
    """
    text = _text_of(fact)[cut[0] : cut[1]]
    found = {text, document.unescape(text)}
    if fact.kind not in ("put", "layout"):
        with contextlib.suppress(ValueError):
            found.add(str(json.loads(f'"{text}"')))
    return {each for each in found if purging.is_long_enough(each)}


def _read_entries(fact: SyncFact) -> Sequence[Entry]:
    """Return the entries in a fact's text.

    The fact's document tells the kind of file, since the path may be purged already.
    """
    kind = filenames.PINNED if fact.doc in _pinned() else filenames.RECORDS
    return tombstones.read_entries(fact.value["raw"].encode(), kind)


@functools.cache
def _pinned() -> frozenset[str]:
    return frozenset(blocks.document_id(name, None) for name in filenames.DOCUMENTS)


# ------------------------------------------------------------------------------- carrying out


def carry_out(stream: SyncStream, window: StreamWindow, done: Synced) -> StreamWindow:
    """Carry out the purges in the log; return a new window if the log or the files have changed."""
    window.take(stream.signing)
    aside = list(stream.log.aside())
    old = bool(window.every.purged) or any(fact.kind == PURGE for fact in aside)
    if not ((aside and old) or stream.doubts or _is_needed(stream, window)):
        return window
    window.widen(stream.signing)
    _repeat_orders(stream, aside, done)
    state = _read_state(stream)
    gone = _find_content(state, aside)
    files = window.files
    if gone or stream.doubts:
        named: dict[FactId, Cut | None] = {}
        texts: set[str] = set()
        for fact_id, cut in _read_named(state):
            named[fact_id] = named.get(fact_id, cut) and cut  # a purge of the whole fact wins over a cut
            texts |= _cut_out(gone[fact_id], cut) if cut and fact_id in gone else set()
        more = {fact_id: cut for fact_id, cut in _find_texts(state, texts).items() if fact_id not in gone}
        if more and stream.may_purge:
            _write_purges(stream, values_of(more), done)
            gone = _find_content(_read_state(stream), aside)
        removed = _make_removed(gone, named | more, texts, stream.doubts)
        _save_unseen(stream, gone, files, removed, done)
        for doubt in stream.doubts:
            stream.files.set_aside(f"x-{doubt.target}", doubt.path, doubt.raw)
            done.held.append(doubt.path)
        files = _purge_files(stream, files, removed)
        stream.log.blank(gone)
        stream.doubts.clear()
        done.purged += len(gone)
    if stream.acks:
        _acknowledge(stream, done)
    return window.renewed(stream.log.read(), stream.log.applied(), files)


def _read_state(stream: SyncStream) -> FactSet:
    return FactSet(each.fact for each in stream.log.read())


def _is_needed(stream: SyncStream, window: StreamWindow) -> bool:
    """Return whether the new facts have a purge, or content that an earlier purge names."""
    new = window.tail.logged[window.cache.lines :]
    return any(fact.kind == PURGE or _must_go(window.every, fact) for fact, _ in new)


def _find_content(state: FactSet, aside: Iterable[SyncFact]) -> dict[FactId, SyncFact]:
    """Return the facts whose content must be deleted here, in the log or in replaced logs (`aside`)."""
    found = {fact_id: fact for fact_id, fact in state.facts.items() if _must_go(state, fact)}
    for fact in aside:
        there = state.facts.get(fact.id)
        if there is not None and there.purged and there.hash == fact.hash and not fact.purged:
            found[fact.id] = fact
    return found


def _repeat_orders(stream: SyncStream, aside: Sequence[SyncFact], done: Synced) -> None:
    """Write the purge orders of replaced logs again, unless the current log has them."""
    facts = {each.fact.id: each.fact for each in stream.log.read()}
    known = {order for fact in facts.values() if (order := _order_id(fact))}
    hashes = {fact.id: fact.hash for fact in aside}
    values = []
    for fact in aside:
        if (order := _order_id(fact)) and order not in known:
            named = dict(_read_named(FactSet([fact])))
            same = {
                fact_id: cut
                for fact_id, cut in named.items()
                if fact_id in facts and facts[fact_id].hash == hashes.get(fact_id)
            }
            values += list(values_of(same, order=order))
    if values:
        _write_purges(stream, values, done)


def _order_id(fact: SyncFact) -> str:
    return str(fact.value.get("order") or "") if fact.kind == PURGE and fact.value else ""


def enact(
    stream: str,
    log: SyncLog,
    make: Callable[[SyncFact], SyncFact],
    named: Mapping[FactId, Cut | None],
    order: str = "",
) -> None:
    """Write an order's purge facts into a log, unless the log has them, and purge the facts they name."""
    if not order or all(_order_id(each.fact) != order for each in log.read()):
        _append_purges(stream, log, make, values_of(named, **({"order": order} if order else {})))
    state = FactSet(each.fact for each in log.read())
    log.blank([fact_id for fact_id, fact in state.facts.items() if _must_go(state, fact)])


def _must_go(state: FactSet, fact: SyncFact) -> bool:
    return not fact.purged and fact.kind != PURGE and state.is_purged(fact)


def _read_named(state: FactSet) -> Iterator[tuple[FactId, Cut | None]]:
    """Yield the ids of the facts that purges name, with the positions of the text in each fact."""
    for fact in state.of("", PURGE).get("", ()):
        cuts = fact.value.get("cuts") if fact.value else None
        for name in (fact.value or {}).get("dots", ()):
            given = cuts.get(name) if isinstance(cuts, dict) else None
            usable = isinstance(given, list) and len(given) == 2 and all(type(each) is int for each in given)
            yield fact_rules.parse_fact_id(name), (given[0], given[1]) if usable and given else None


def _find_texts(state: FactSet, texts: Iterable[str]) -> dict[FactId, Cut | None]:
    found: dict[FactId, Cut | None] = {}
    for text in texts:
        found |= find_text(state.facts.values(), text)
    return found


def _write_purges(stream: SyncStream, values: Iterable[dict[str, Any]], done: Synced) -> None:
    """Write purge facts with these values, and count them as sent."""
    done.sent += _append_purges(stream.name, stream.log, stream.make, values)


def _append_purges(
    stream: str, log: SyncLog, make: Callable[[SyncFact], SyncFact], values: Iterable[dict[str, Any]]
) -> int:
    facts = [each.fact for each in log.read()]
    mine = [fact for fact in facts if fact.replica == log.replica]
    largest = max((fact.lamport for fact in facts), default=0)
    writer = FactWriter(stream, log.replica, FactSet(facts), mine[-1] if mine else None, largest, make=make)
    for value in values:
        writer.write("", PURGE, value=value)
    log.append(writer.made, own=True)
    return len(writer.made)


def _make_removed(
    gone: Mapping[FactId, SyncFact],
    named: Mapping[FactId, Cut | None],
    texts: Iterable[str],
    doubts: Iterable[Doubt],
) -> Removed:
    whole = {fact_id for fact_id, cut in named.items() if cut is None}
    entries = [
        entry
        for fact_id, fact in gone.items()
        if fact.kind == "put" and (fact_id in whole or not whole.isdisjoint(fact.based_on))
        for entry in _read_entries(fact)
    ]
    entries += [
        entry
        for doubt in doubts
        for entry in tombstones.read_entries(doubt.raw.encode(), kind_of(doubt.path))
    ]
    paths = {str(fact.value) for fact in gone.values() if fact.kind == "name" and fact.value}
    paths |= {doubt.path for doubt in doubts if doubt.whole}
    return Removed(tuple(sorted(texts, key=len, reverse=True)), tuple(entries), tuple(sorted(paths)))


def removed_by(named: Mapping[FactId, Cut | None], facts: Iterable[SyncFact]) -> Removed:
    """Return the content that a purge order deletes from files, if the named facts still have it."""
    gone = {fact.id: fact for fact in facts if fact.id in named and not fact.purged}
    texts = {
        text for fact_id, fact in gone.items() if (cut := named[fact_id]) for text in _cut_out(fact, cut)
    }
    return _make_removed(gone, named, texts, ())


def _save_unseen(
    stream: SyncStream,
    gone: Mapping[FactId, SyncFact],
    files: Mapping[str, str],
    removed: Removed,
    done: Synced,
) -> None:
    """Save the texts that are newer than a purge and that no file shows any more, without purged text.

    Texts of this home are held for the person; if the home has lost its log, texts in its files count as its
    own. Texts of others are archived, unless they replace a fact that was purged whole.
    """
    logged = list(stream.log.read())
    bodies = [] if stream.log.applied() else [text.replace("\r\n", "\n") for text in files.values()]
    own = {each.fact.id for each in logged if each.own}
    named = dict(_read_named(FactSet(each.fact for each in logged)))
    hidden = {fact_id for fact_id, cut in named.items() if cut is None or fact_id not in gone}
    for fact, path in _find_unseen(stream, logged, gone):
        raw = fact.value["raw"]
        rest = Removed(removed.texts).clean(path, raw) or ""
        if fact.id in own or any(raw in each for each in bodies):
            stream.files.set_aside(str(fact.id).replace(":", "-"), path, rest)
            done.held.append(path)
        elif hidden.isdisjoint(fact.based_on):
            stream.files.archive(path, rest)


def _find_unseen(
    stream: SyncStream, logged: Sequence[Logged], gone: Mapping[FactId, SyncFact]
) -> Iterator[tuple[SyncFact, str]]:
    state = FactSet(each.fact for each in logged)
    after = FactSet(fact_rules.blank(each.fact) if each.fact.id in gone else each.fact for each in logged)
    file = project(after, stream.signing).values()
    contents = {blocks.content(block.raw) for each in file for block in each.blocks}
    purged = {fact_id for fact_id, _ in _read_named(state)}
    nameless = {fact.doc for fact in gone.values() if fact.kind == "name"}
    for doc in sorted({fact.doc for fact in gone.values()}):
        for facts in state.of(doc, "entry").values():
            for fact in heads(facts):
                lost = (fact.id in gone or doc in nameless) and fact.id not in purged
                put = fact.kind == "put" and fact.value is not None
                if put and lost and blocks.content(fact.value["raw"]) not in contents:
                    yield fact, _last_path(state, doc)


def _last_path(state: FactSet, doc: str) -> str:
    facts = [fact for each in state.of(doc, "name").values() for fact in each if fact.value]
    return str(max(facts, key=lambda fact: fact.order).value) if facts else ""


def _purge_files(stream: SyncStream, files: Mapping[str, str], removed: Removed) -> dict[str, str]:
    """Delete purged content from all files of a place, and return their remaining texts.

    The changed files are noted as being written, so that the next sync does not take them for edits.
    """
    after = {path: removed.clean(path, text) for path, text in files.items()}
    changed = {path for path, text in after.items() if text != files[path]}
    if changed:
        stream.log.begin({*changed, *stream.log.applying()})
    stream.files.purge(removed)
    return {path: text for path, text in after.items() if text is not None}


# ------------------------------------------------------------------------------- acknowledgements


def _acknowledge(stream: SyncStream, done: Synced) -> None:
    """Write a fact that names the purges by others that this machine has carried out, once for each."""
    logged = list(stream.log.read())
    mine = {each.fact.replica for each in logged if each.own} | {stream.log.replica}
    every = purges_of(each.fact for each in logged)
    waiting = [fact_id for fact_id, (maker, acks) in every.items() if not mine & {maker, *acks}]
    if waiting:
        receipt = {"dots": [], "done": [str(fact_id) for fact_id in sorted(waiting)], "as": sorted(mine)}
        _write_purges(stream, [receipt], done)


def purges_of(facts: Iterable[SyncFact]) -> dict[FactId, tuple[str, set[str]]]:
    """Return each purge with the replica that made it and the replicas that have acknowledged it."""
    found: dict[FactId, tuple[str, set[str]]] = {}
    purges: list[tuple[SyncFact, list[str]]] = []
    for fact in facts:
        if fact.kind == PURGE and fact.value:
            if fact.value["dots"]:
                found[fact.id] = (fact.replica, set())
            if isinstance(fact.value.get("done"), list):
                purges.append((fact, fact.value["done"]))
    for fact, names in purges:
        for name in names:
            try:
                there = found.get(fact_rules.parse_fact_id(name))
            except (ValueError, TypeError):
                continue
            if there is not None:
                there[1].update({fact.replica, *map(str, fact.value.get("as") or ())})
    return found


def reach(facts: Iterable[SyncFact], own: Iterable[str]) -> list[tuple[int, int]]:
    """Return for each purge the number of machines that have carried it out, and the number of all machines.

    `own` has this machine's replica names. A machine with several names counts once; another machine without
    facts does not count.
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
