"""From files to facts: what somebody did to a file since it was last shown, by hand or by a command.

Pure, but for the ledger that the new facts are written into. What the base did not show is never removed: a
person can only have meant what they saw.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed
from vademecum.sync import blocks
from vademecum.sync.facts import NOTHING, Dot, SyncFact, heads
from vademecum.sync.project import (
    APPLIED,
    CONFIRMED,
    LISTS,
    REGISTERS,
    TYPED,
    FactSet,
    ShownBlock,
    Shows,
    Signing,
    Stand,
    element,
    elements,
    folded_path,
    is_in,
    path_of,
    read_front,
    safe_path,
    session,
    show,
    shown_heads,
    sibling,
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
    signing: Signing = TYPED
    make: Callable[[SyncFact], SyncFact] = lambda fact: fact  # what is done to each: a seal
    moved: Callable[[Shows], str] = lambda shows: ""  # where a file that is gone went, if that is known
    made: list[SyncFact] = field(default_factory=list)
    doubts: list[tuple[str, str, str]] = field(default_factory=list)  # (doc, entry, text), see `_doubt`
    unshown: Collection[Dot] = ()  # facts made here since files were last written
    _to: str = ""
    _called: dict[str, list[str]] | None = None

    def write(self, doc: str, kind: str, target: str = "", value: Any = None, **given: Any) -> SyncFact:
        """Make the next fact."""
        if kind == "put":
            raw, given["origin"] = self.signing.said(value["raw"])
            value = {"raw": raw}
        if kind == "drop" and self._to:
            value = {"to": self._to}
        fact = SyncFact(
            stream=self.stream,
            replica=self.replica,
            n=self.last.n + 1 if self.last else 1,
            prev=self.last.hash if self.last else NOTHING,
            lam=self.lam + 1,
            doc=doc,
            kind=kind,
            target=target,
            value=_as_read(value),
            door=self.door,
            **given,
        )
        fact = self.make(fact)
        self.last, self.lam = fact, fact.lam
        self.seen.add(fact)
        self.made.append(fact)
        return fact

    def called(self, path: str) -> list[str]:
        """The documents whose file ever had this name, as far as was known when this was first asked."""
        if self._called is None:
            self._called = {}
            for doc, groups in sorted(self.seen.docs.items()):
                named = (fact.value for fact in groups.get("name", {}).get("", ()))
                for name in {folded_path(safe_path(value)) for value in named if value}:
                    self._called.setdefault(name, []).append(doc)
        return self._called.get(folded_path(path), [])


def _as_read(value: Any) -> Any:
    """A value as every replica reads it: names in the order of a fact's line."""
    return json.loads(json.dumps(value, sort_keys=True)) if isinstance(value, dict | list) else value


class _Match(NamedTuple):
    """A block of a file, and what it was shown as before."""

    block: TextBlock
    shown: ShownBlock | None
    copied: bool = False  # with another one's id, which was taken out of it

    @property
    def raw(self) -> str:
        """The block as it should be kept."""
        return self.block.raw

    def signed(self, **changes: str) -> _Match:
        """The same with parts of its last line set, or taken away where they are empty."""
        return self._replace(block=self.block._replace(raw=blocks.sign(self.raw, **changes)))


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

    `doc` is the document of the file where it is not the base's. A base is `uncertain` when nobody knows
    whether it was ever written to the file: then nothing counts as removed, and what is known is no edit;
    `older` is what was shown before it.
    """
    if text is None:
        if base is not None and not uncertain:
            _remove(ledger, base)
        return
    page = blocks.cut(text, path)
    doc = doc or (base.doc if base is not None else "")
    named = path_of(ledger.seen, doc)
    if uncertain and not named and ledger.seen.of(doc, "name"):  # the whole document was purged
        ledger.doubts += [(doc, block.id or block.derived(), block.raw) for block in page.blocks]
        return
    if named != path and not (uncertain and named):
        renamed = base.docs if base is not None and base.path != path else (doc,)
        for each in renamed:
            ledger.write(each, "name", value=path, over=_heads_of(ledger, each, "name"))
    if base is not None and base.text == text:
        return
    values = dict(read_front(page.front))
    known = ledger.seen.docs.get(doc, {}).get("layout")
    if known is None:
        _lay_out(ledger, doc, page, {})
    if uncertain:
        _diff_values(ledger, doc, {}, _untold(ledger, doc, values))
    else:
        _diff_values(ledger, doc, base.values if base is not None else _shown_values(ledger, doc), values)
    docs = tuple(dict.fromkeys((doc, *(base.docs if base is not None else ()))))
    if uncertain:  # it may still show a document that left the file, or has nothing left to show
        docs = tuple(dict.fromkeys((*docs, *(older.docs if older is not None else ()), *ledger.called(path))))
    standing = _diff_blocks(ledger, base, page, docs, uncertain=uncertain, older=older)
    if not uncertain:
        _make_exact(ledger, base, page, doc, standing)


def identify(
    base: Mapping[str, Shows],
    files: Mapping[str, str],
    elsewhere: Collection[str] = (),
    unknown: Collection[str] = (),
    copies: Collection[str] = (),
) -> tuple[dict[str, str], dict[str, str]]:
    """The document of each file, and the path in the base of each that was renamed.

    A file that was copied with its id gets a new one; the path in the base keeps it, else the file that is
    called as its key says, else the first. Documents that are `elsewhere` are shown by other files; files
    that are `unknown` have a name that is in the base and are documents of their own; `copies` are the
    documents of their names although they say another's id.
    """
    # A file that was not written since it became one with others says its own id.
    shown: dict[Any, str] = {
        doc: path for path, shows in base.items() for doc in shows.docs if names.is_id(doc)
    }
    shown |= {
        shows.values.get("id"): path
        for path, shows in base.items()
        if names.is_id(str(shows.values.get("id")))
    }
    given: dict[str, str] = {}
    moved: dict[str, str] = {}
    taken: set[str] = set()
    every = {doc for each in base.values() for doc in each.docs} | set(elsewhere)
    kept = set(files) - _given_way(base, files, shown)
    new = {read_front(text).get("id") for path, text in files.items() if path not in base}
    for path in sorted(files, key=lambda path: (path not in base, not _is_called(path, files[path]), path)):
        front = read_front(files[path])
        home = shown.get(front.get("id"))
        if path in base and path in kept and path not in unknown:
            given[path] = base[path].doc
            same = path in copies or base[path].values.get("id") == front.get("id")
            over = home is not None and home != path and home not in kept and front.get("id") not in new
            if home is not None and over and not same and base[home].doc not in taken:
                given[path], moved[path] = base[home].doc, home
        elif home is not None and home not in kept and base[home].doc not in taken:
            given[path], moved[path] = base[home].doc, home
        else:
            mark = blocks.document_id(path, front.get("id"))
            known = mark in taken or mark in shown or mark in every
            given[path] = names.new_id() if known and names.is_id(mark) else mark
        taken.add(given[path])
    return given, moved


def find_unknown(ledger: Ledger, base: Mapping[str, Shows], files: Mapping[str, str]) -> dict[str, str]:
    """The documents of files that have a name which others gave, too, and an id that nobody ever knew."""
    found: dict[str, str] = {}
    for path in set(base) & set(files):
        mark = blocks.document_id(path, read_front(files[path]).get("id"))
        docs = {*base[path].docs, *ledger.called(path)}
        if names.is_id(mark) and mark not in ledger.seen.docs:
            told = [doc for doc in docs if not _untold(ledger, doc, {"id": mark})]
            found |= {} if told else {path: mark}
    return found


def find_copies(ledger: Ledger, base: Mapping[str, Shows], files: Mapping[str, str]) -> set[str]:
    """Files that say an id which their document was told: that of its original, until they are written."""
    said = {path: read_front(files[path]).get("id") for path in set(base) & set(files)}
    return {path for path, mark in said.items() if mark and not _untold(ledger, base[path].doc, {"id": mark})}


def find_leftovers(
    base: Mapping[str, Shows], files: Mapping[str, str], begun: Collection[str]
) -> dict[str, str]:
    """The documents of files that an interrupted sync was about to take away, having written another one."""
    shown = {doc: path for path, shows in base.items() for doc in shows.docs}
    found: dict[str, str] = {}
    for path in (set(files) & set(begun)) - set(base):
        mark = blocks.document_id(path, read_front(files[path]).get("id"))
        if shown.get(mark) in files and shown.get(mark) in begun:
            found[path] = mark
    return found


def _given_way(base: Mapping[str, Shows], files: Mapping[str, str], shown: Mapping[Any, str]) -> set[str]:
    """Paths whose file was renamed and has given way to a new one with an id that nobody knows."""
    ids = {path: read_front(text).get("id") for path, text in files.items()}
    renamed = {shown[each] for path, each in ids.items() if path not in base and each in shown}
    return {path for path in renamed & set(files) if ids[path] not in shown and names.is_id(str(ids[path]))}


def _is_called(path: str, text: str) -> bool:
    return read_front(text).get("key") == path.rpartition("/")[2].removesuffix(".md")


def _heads_of(ledger: Ledger, doc: str, kind: str, target: str = "") -> tuple[Dot, ...]:
    """All that a register was ever told, as far as it was seen here, without what was purged."""
    return _standing_dots(ledger, ledger.seen.of(doc, kind).get(target, ()))


def _standing_dots(ledger: Ledger, facts: Iterable[SyncFact]) -> tuple[Dot, ...]:
    return tuple(sorted(fact.dot for fact in facts if not ledger.seen.is_gone(fact)))


def _shown_values(ledger: Ledger, doc: str) -> dict[str, Any]:
    return show(ledger.seen, [doc], ledger.signing).values if doc in ledger.seen.docs else {}


def _remove(ledger: Ledger, base: Shows) -> None:
    """A file that is gone: every block that it showed is dropped, and where it went is said."""
    ledger._to = ledger.moved(base)
    for shown in base.blocks:
        _drop(ledger, shown.stands)
    ledger._to = ""
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
            known = sum(fact.value or 0 for fact in ledger.seen.of(doc, APPLIED).get("", ()))
            ledger.write(doc, APPLIED, value=(is_now or 0) - known)
        elif was != is_now or not ledger.seen.of(doc, "front").get(key):
            ledger.write(doc, "front", key, value=is_now)


def _untold(ledger: Ledger, doc: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What no key ever said: a file that says anything else may only be old."""
    facts = ledger.seen.docs.get(doc, {})
    typed = (fact.value["front"] for each in facts.get("layout", {}).values() for fact in each if fact.value)
    fronts = [read_front(front) for front in typed]
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key in LISTS:
            told = {element(each) for front in fronts for each in elements(front.get(key))}
            told |= set(facts.get(LISTS[key], ()))
            new: Any = [each for each in elements(value) if element(each) not in told]
        elif key in (CONFIRMED, APPLIED):
            continue  # those of other sessions are never taken away, and the newest come with the next
        else:
            named = (
                facts.get(key, {}).get("", []) if key in REGISTERS else facts.get("front", {}).get(key, [])
            )
            known = [*(front.get(key) for front in fronts), *(fact.value for fact in named)]
            new = None if value in known else value
        if new not in (None, []):
            found[key] = new
    return found


def _diff_list(ledger: Ledger, doc: str, key: str, was: Any, now: Any, *, born: bool) -> None:
    kind = LISTS[key]
    before, after = {element(each) for each in elements(was)}, {element(each) for each in elements(now)}
    for each in sorted(after - before if not born else after):
        facts = ledger.seen.of(doc, kind).get(each, [])
        if not is_in(facts):
            ledger.write(doc, kind, each, value=True, over=_standing_dots(ledger, facts))
    for each in sorted(before - after):
        facts = ledger.seen.of(doc, kind).get(each, [])
        ledger.write(doc, kind, each, value=False, over=_standing_dots(ledger, facts))


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
    ledger: Ledger,
    base: Shows | None,
    page: CutText,
    docs: Sequence[str],
    *,
    uncertain: bool,
    older: Shows | None,
) -> list[_Standing]:
    shown = base.blocks if base is not None else ()

    def is_old(block: TextBlock) -> bool:
        return any(_is_known(ledger, each, block.id, block.raw) for each in docs)

    matches, missing = match(shown, page.blocks, is_old if uncertain else None)
    # What stands in the file as another block was not edited into this one.
    there = {block.words for block in page.blocks}
    known = older.blocks if older is not None else ()
    before = {each.id: each for each in known if _words(each) not in there}
    matches = _with_pending_marks(ledger, matches) if ledger.unshown else matches
    standing = [_diff_block(ledger, each, docs, uncertain=uncertain, before=before) for each in matches]
    for each in missing if not uncertain else ():
        _drop(ledger, each.stands)
    return standing


def _diff_block(
    ledger: Ledger, found: _Match, docs: Sequence[str], *, uncertain: bool, before: Mapping[str, ShownBlock]
) -> _Standing:
    shown = found.shown
    if shown is None:
        doc = _document_of(ledger, found.block, docs) if uncertain else docs[0]
        if uncertain and not found.block.id and not found.copied and _was_said(ledger, found.block, docs):
            return _Standing(found.raw, doc, "", (), exact=False)
        return _new(ledger, found, doc, uncertain=uncertain, before=before)
    first, found = shown.stands[0], _as_shown(ledger, found, shown, uncertain=uncertain)
    settled = shown.conflict and "~" in shown.id and not blocks.parts(found.raw).get("contradicts")
    if settled and blocks.parts(shown.raw).get("contradicts"):
        return _settle(ledger, found, shown)
    if ledger.signing.content(found.raw) == ledger.signing.content(shown.raw):
        _diff_marks(ledger, first, shown.raw, found.raw, uncertain=uncertain)
        return _Standing(found.raw, first.doc, first.target, first.dots, exact=not shown.conflict)
    if uncertain and _is_known(ledger, first.doc, first.target, found.raw, version=shown.conflict):
        return _Standing(found.raw, first.doc, first.target, first.dots, exact=False)
    if uncertain and _doubt(ledger, first.doc, first.target, found.raw):
        return _Standing(found.raw, first.doc, first.target, (), exact=False)
    _drop(ledger, shown.stands[1:])
    _diff_marks(ledger, first, shown.raw, found.raw, uncertain=uncertain)
    raw = _without_sibling(found.raw, shown)
    fact = ledger.write(
        first.doc,
        "put",
        first.target,
        value={"raw": raw},
        over=_replaced(ledger, first, before.get(shown.id)) if uncertain else ledger.seen.closure(first.dots),
    )
    return _Standing(raw, first.doc, first.target, (fact.dot,), exact=not shown.conflict)


def _as_shown(ledger: Ledger, found: _Match, shown: ShownBlock, *, uncertain: bool) -> _Match:
    """A block without what differs in its last line although nobody changed it."""
    said = blocks.parts(shown.raw)
    if _is_version(found.block.id, shown.id):  # which of an entry's texts is the first has changed
        found = found.signed(id=said.get("id", ""), contradicts=said.get("contradicts", ""))
    second = "~" in shown.id
    if uncertain and second and "contradicts" not in said:  # settled elsewhere
        found = found.signed(contradicts="")
    if found.copied:
        found = found.signed(id=shown.id)
    own = ledger.signing.exact or (second and shown.conflict)  # where without a last line something was done
    if not own and found.raw == blocks.unsigned(shown.raw):
        # Who deletes the last line of another's text has changed nothing that it says, but for its marks.
        found = found.signed(**{name: told for name, told in said.items() if name not in blocks.MARKS})
    return found


def _replaced(ledger: Ledger, latest: Stand, before: ShownBlock | None) -> tuple[Dot, ...]:
    """What an edit replaces of which nobody knows what it was made from: nothing that may be unseen."""
    if before is not None:
        return ledger.seen.closure(before.stands[0].dots)
    earlier = {dot for each in latest.dots for dot in ledger.seen.facts[each].over}
    return tuple(sorted(earlier)) or ledger.seen.closure(latest.dots)


def _is_version(mark: str, other: str) -> bool:
    """Whether two ids are of two texts of one entry."""
    return mark != other and mark.partition("~")[0] == other.partition("~")[0]


def _settle(ledger: Ledger, found: _Match, shown: ShownBlock) -> _Standing:
    """Somebody decided that a second text of an entry stands for itself: it becomes an entry of its own."""
    _drop(ledger, shown.stands)
    doc = shown.stands[0].doc
    over = _heads_of(ledger, doc, "entry", shown.id)
    raw = found.raw
    if not ledger.signing.exact and not blocks.parts(raw):  # who takes a name away has not written the text
        raw = blocks.sign(raw, origin=blocks.parts(shown.raw).get("origin", ""))
    fact = ledger.write(doc, "put", shown.id, value={"raw": raw}, over=over)
    return _Standing(raw, doc, shown.id, (fact.dot,))


def _without_sibling(raw: str, shown: ShownBlock) -> str:
    """A second text of an entry as it is kept: its id and its mark are the projection's."""
    if shown.conflict and "~" in shown.id:
        return blocks.sign(raw, id=shown.stands[0].target, contradicts="")
    return raw


def _new(
    ledger: Ledger, found: _Match, doc: str, *, uncertain: bool, before: Mapping[str, ShownBlock]
) -> _Standing:
    """A block that was not shown: new, or brought back over what removed it."""
    target = found.block.id or _derived(ledger, doc, found)
    known = ledger.seen.of(doc, "entry").get(target, [])
    if uncertain and not known and (second := _second_text(ledger, doc, target)):
        return _new_version(ledger, found, second)
    if uncertain and _is_known(ledger, doc, target, found.raw):
        return _Standing(found.raw, doc, target, (), exact=False)
    if uncertain and _doubt(ledger, doc, found.block.id or found.block.derived(), found.raw):
        return _Standing(found.raw, doc, target, (), exact=False)
    raw = blocks.sign(found.raw, id=target) if found.copied else found.raw
    over = _standing_dots(ledger, known)
    if uncertain:  # it may have been dropped since: an edit that did not see that goes to the archive
        over = _unseen(ledger, known, before.get(target))
    fact = ledger.write(doc, "put", target, value={"raw": raw}, over=over)
    return _Standing(raw, doc, target, (fact.dot,))


def _document_of(ledger: Ledger, block: TextBlock, docs: Sequence[str]) -> str:
    """Of the documents that a file may have shown the one whose entry a block was, else the first."""
    mark = block.id or block.derived()
    known = (doc for doc in docs if mark in ledger.seen.of(doc, "entry") or _second_text(ledger, doc, mark))
    return next(known, docs[0])


def _was_said(ledger: Ledger, block: TextBlock, docs: Sequence[str]) -> bool:
    """Whether a block that lost its id says what an entry of these documents ever said."""
    puts = (
        fact
        for doc in docs
        for facts in ledger.seen.of(doc, "entry").values()
        for fact in facts
        if fact.kind == "put" and fact.value
    )
    said = (block.instant, block.words)
    return any(
        (blocks.instant_of(raw), blocks.words_of(raw)) == said for raw in (each.value["raw"] for each in puts)
    )


def _unseen(ledger: Ledger, known: list[SyncFact], before: ShownBlock | None) -> tuple[Dot, ...]:
    """What an edit replaces whose text is no longer shown: what the file showed, else all that went since."""
    if before is not None:
        return ledger.seen.closure(before.stands[0].dots)
    there = {fact.dot for fact in shown_heads(ledger.seen, known)}
    puts = [fact for fact in known if fact.kind == "put"]
    return _standing_dots(ledger, [fact for fact in puts if fact.dot not in there] or puts)


def _second_text(ledger: Ledger, doc: str, mark: str) -> SyncFact | None:
    """The text that was shown under the id of a second text; the id says which that was."""
    name, second, _ = mark.partition("~")
    for target, facts in ledger.seen.of(doc, "entry").items() if second else ():
        for fact in facts if target.partition("~")[0] == name else ():
            said = fact.value if fact.kind == "put" else None
            if said and sibling(target, ledger.signing.content(said["raw"])) == mark:
                return fact
    return None


def _new_version(ledger: Ledger, found: _Match, was: SyncFact) -> _Standing:
    """A second text of an entry that is no longer shown: it is what it was, or an edit of that."""
    raw = blocks.sign(found.raw, id=was.target, contradicts="")
    if blocks.unsigned(raw) == blocks.unsigned(was.value["raw"]):
        return _Standing(found.raw, was.doc, was.target, (), exact=False)
    over = ledger.seen.closure([was.dot])
    fact = ledger.write(was.doc, "put", was.target, value={"raw": raw}, over=over)
    return _Standing(raw, was.doc, was.target, (fact.dot,))


def _doubt(ledger: Ledger, doc: str, target: str, raw: str) -> bool:
    """Whether a text may be one that was purged: its entry was, and nobody knows what the file showed."""
    facts = ledger.seen.of(doc, "entry").get(target, ())
    purged = any(ledger.seen.is_gone(fact) for fact in facts)
    if purged:
        ledger.doubts.append((doc, target, raw))
    return purged


def _derived(ledger: Ledger, doc: str, found: _Match) -> str:
    """The id of a block that says none: the same wherever the same block is first seen."""
    mark = found.block.derived()
    entries = ledger.seen.of(doc, "entry")
    number = 1
    while shown_heads(ledger.seen, entries.get(mark if number == 1 else f"{mark}-{number}", [])):
        number += 1
    return mark if number == 1 else f"{mark}-{number}"


def _is_known(ledger: Ledger, doc: str, target: str, raw: str, *, version: bool = False) -> bool:
    """Whether a text is one that this entry ever had; of a `version` the last line is the projection's."""
    content = blocks.unsigned if version else ledger.signing.content
    wanted, facts = content(raw), ledger.seen.of(doc, "entry").get(target, ())
    return any(fact.kind == "put" and fact.value and content(fact.value["raw"]) == wanted for fact in facts)


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
        if uncertain:  # a second text that stands for itself now was shown with the marks of its entry
            first = f"{stand.target.partition('~')[0]} {name}: {after.get(name)}"
            gone, told = set(), {each for each in told if each not in marks and first not in marks}
        for each, there in [
            *((each, False) for each in sorted(gone - told)),
            *((each, True) for each in told),
        ]:
            over = _heads_of(ledger, stand.doc, "mark", each)
            ledger.write(stand.doc, "mark", each, value=there, over=over)


def _with_pending_marks(ledger: Ledger, matches: list[_Match]) -> list[_Match]:
    """Marks are the entry's: one set or lifted at one of its texts is there alone until files are written.

    That the other texts in the file still say otherwise is no change of its own.
    """
    texts: dict[tuple[str, str], list[int]] = {}
    said: dict[tuple[str, str], Mapping[str, str]] = {}
    for place, (_, shown, _) in enumerate(matches):
        if shown is not None and shown.conflict:
            entry = shown.stands[0][:2]
            texts.setdefault(entry, []).append(place)
            said[entry] = blocks.parts(shown.raw)
    for entry, places in texts.items():
        for name in blocks.MARKS:
            mark = said[entry].get(name, "")
            found = {blocks.parts(matches[place].raw).get(name, "") for place in places}
            for place in places if mark in found and _is_pending(ledger, *entry, name) else ():
                block = matches[place].block
                marked = block._replace(raw=blocks.sign(block.raw, **{name: mark}))
                matches[place] = matches[place]._replace(block=marked)
    return matches


def _is_pending(ledger: Ledger, doc: str, target: str, name: str) -> bool:
    begin = f"{target} {name}: "
    told = (facts for mark, facts in ledger.seen.of(doc, "mark").items() if mark.startswith(begin))
    return any(all(fact.dot in ledger.unshown for fact in heads(facts)) for facts in told)


# ------------------------------------------------------------ which block is which


def match(
    shown: Sequence[ShownBlock],
    found: Sequence[TextBlock],
    is_old: Callable[[TextBlock], bool] | None = None,
) -> tuple[list[_Match], list[ShownBlock]]:
    """Find the shown block of each block of a file: by id, text, time, or place and likeness.

    Two blocks with ids of their own are the same by their ids alone. Where it is not sure what a file showed,
    time and likeness say nothing: others may have written at the same time. Then `is_old` says of a block
    whether its entry ever had this text.
    """
    left = dict(enumerate(shown))
    pairs: dict[int, int] = {}

    def take(place: int, number: int) -> None:
        pairs[place] = number
        del left[number]

    doubled = _by_id(found, left, take, is_old)
    found = [
        block._replace(raw=_without_id(block)) if place in doubled else block
        for place, block in enumerate(found)
    ]
    for place, number in _by(found, pairs, left, lambda block: block.words, _words):
        take(place, number)
    if is_old is None:
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


def _without_id(block: TextBlock) -> str:
    """A copy as it stands for itself: one of a second text contradicts nothing by that."""
    return blocks.sign(block.raw, id="", **({"contradicts": ""} if "~" in block.id else {}))


def _words(shown: ShownBlock) -> str:
    return blocks.words_of(shown.raw)


def _instant(shown: ShownBlock) -> str:
    return blocks.instant_of(shown.raw)


def _by_id(
    found: Sequence[TextBlock],
    left: dict[int, ShownBlock],
    take: Callable[[int, int], None],
    is_old: Callable[[TextBlock], bool] | None,
) -> set[int]:
    """Pair what has the same id; of a block that was copied the copies are returned."""
    marks: dict[str, list[int]] = {}
    for place, block in enumerate(found):
        if block.id:
            marks.setdefault(block.id, []).append(place)
    said = {_words(shown): shown.id for shown in left.values()}
    every = _Ids(left, sure=is_old is None)
    doubled: set[int] = set()
    used: set[int] = set()
    for mark in sorted(marks, key=every.rank):
        places = marks[mark]
        number = every.find(mark, {found[place].words for place in places})
        content = blocks.content(left[number].raw) if number is not None else ""
        same = [place for place in places if blocks.content(found[place].raw) == content]
        words = _words(left[number]) if number is not None else None
        like = [place for place in places if found[place].words == words]  # signed otherwise since
        # What stands as another block, too, is a copy that was written down already.
        own = [place for place in places if said.get(found[place].words, mark) == mark]
        old = [place for place in places if len(places) > 1 and is_old is not None and is_old(found[place])]
        # Without its id the text itself is still what it was: what bears the id instead is an edited copy.
        bare: list[int] = []
        if number is not None and not (same or like or old):
            bare = _bare_places(found, left, number, used, sure=is_old is None)
        keeper = (same or like or old or bare or own or places)[0]
        doubled.update(place for place in places if place != keeper)
        if number is not None:
            take(keeper, number)
            used.add(keeper)
    return doubled


def _bare_places(
    found: Sequence[TextBlock],
    left: Mapping[int, ShownBlock],
    number: int,
    used: Collection[int],
    *,
    sure: bool,
) -> list[int]:
    """Where a dated block stands that was shown, without its last line, and is no other one.

    Where it is not sure what a file showed, the loss may be written down already.
    """
    said = (_instant(left[number]), _words(left[number]))
    if not all(said) or (sure and not _has_id(left[number])):
        return []
    alike = [place for place, block in enumerate(found) if block.words == said[1] and not block.id]
    alike = [place for place in alike if found[place].instant == said[0] and place not in used]
    others = [each for each in left.values() if not _has_id(each)]
    return alike[sum((_instant(each), _words(each)) == said for each in others if each is not left[number]) :]


class _Ids:
    """Shown blocks by their ids, also where another text of an entry has become its first one since."""

    def __init__(self, left: Mapping[int, ShownBlock], *, sure: bool) -> None:
        self.left, self.sure = left, sure
        self.exact = {shown.id: number for number, shown in left.items()}
        self.second = {shown.second: number for number, shown in left.items()}
        self.texts: dict[str, list[int]] = {}
        for number, shown in left.items():
            self.texts.setdefault(shown.stands[0].target, []).append(number)

    def rank(self, mark: str) -> int:
        """The id of a second text says which it was, until that is edited: then it is one of those left."""
        if "~" not in mark:
            return 1
        return 0 if mark in self.exact or mark in self.second else 2

    def find(self, mark: str, words: Collection[str]) -> int | None:
        """The block that had an id; one of several texts is known by its words, else the newest is it."""
        exact, texts = self.exact.get(mark), self.texts.get(mark.partition("~")[0], [])
        same = [number for number in texts if number in self.left and _words(self.left[number]) in words]
        if "~" in mark:
            listed = [exact, self.second.get(mark), *same, *(reversed(texts) if self.sure else ())]
        else:
            listed = [*(same if exact not in same else ()), exact, *reversed(texts)]
        return next((number for number in listed if number in self.left), None)


def _by(
    found: Sequence[TextBlock],
    pairs: Collection[int],
    left: Mapping[int, ShownBlock],
    one: Callable[[TextBlock], str],
    other: Callable[[ShownBlock], str],
    *,
    unique: bool = False,
) -> list[tuple[int, int]]:
    """Pair the blocks that agree in something, in their order; with `unique` only where one of each does.

    A block with an id that was not shown is known by its text alone: else it is a new one.
    """
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
        if not (found[place].id and (unique or _has_id(left[number])))
    ]


def _has_id(shown: ShownBlock) -> bool:
    """Whether a block shows an id of its own: what bears another is another one."""
    return "id" in blocks.parts(shown.raw)


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
    now, before = show(ledger.seen, docs, ledger.signing), len(ledger.made)
    shown = {dot: each for each in now.blocks for dot in each.dots}
    for each in standing:
        there = next((shown[dot] for dot in each.dots if dot in shown), None)
        if not each.exact or there is None or there.conflict:
            continue
        if there.raw != each.raw if ledger.signing.exact else _differ(ledger, there.raw, each.raw):
            over = ledger.seen.closure(each.dots)
            fact = ledger.write(each.doc, "put", each.target, value={"raw": each.raw}, over=over)
            each.dots = (fact.dot,)
    if len(ledger.made) > before:
        now = show(ledger.seen, docs, ledger.signing)
        shown = {dot: each for each in now.blocks for dot in each.dots}
    ordered = [shown[each.dots[0]] for each in standing if each.dots and each.dots[0] in shown]
    if [each.key[:3] for each in ordered] != [each.key[:3] for each in now.blocks]:
        _put_in_order(ledger, ordered)
        now = show(ledger.seen, docs, ledger.signing)
    if now.text != blocks.join(page) and not _is_laid_out(now, page):
        marks: dict[int | str, str] = {place: each.id for place, each in enumerate(ordered)}
        _lay_out(ledger, doc, page, marks)


def _differ(ledger: Ledger, one: str, other: str) -> bool:
    return ledger.signing.content(one) != ledger.signing.content(other)


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
