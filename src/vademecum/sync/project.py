"""From facts to files: what a set of facts shows, the same bytes wherever the same facts are known.

Pure: nothing is read or written, no clock is asked, and the order in which facts came does not matter.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import unicodedata
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed
from vademecum.store import decisions, frontmatter, journal, pinned, records
from vademecum.sync import blocks
from vademecum.sync.facts import PURGE, Dot, SyncFact, heads
from vademecum.text import names
from vademecum.types import UNDATED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

# Lists of the frontmatter that are sets, and the kinds of their facts.
LISTS = {"tags": "tag", "related": "related", "sources": "source", "examples": "example", "aliases": "alias"}
# Keys whose concurrent values are not decided by the larger number alone.
REGISTERS = ("protected", "type", "confidence", "stale_after", "status")
CONFIRMED, APPLIED = "confirmed", "applied"
_CONFIRMATIONS = 5
# The longer a type is kept, the earlier it stands.
_TYPES = ("user", "feedback", "rule", "failure", "workflow", "pattern", "solution", "discovery", "reference", "project")  # fmt: skip # noqa: E501
_STATUS = ("deprecated", "draft", "stable")


class FactSet:
    """Facts, found by what they speak of; it only ever grows."""

    def __init__(self, facts: Iterable[SyncFact] = ()) -> None:
        self.facts: dict[Dot, SyncFact] = {}
        self.docs: dict[str, dict[str, dict[str, list[SyncFact]]]] = {}
        self.purged: set[Dot] = set()
        self.shown: dict[str, Shows] = {}  # what documents show, while nothing is added to them
        self._shared: set[str] | None = None  # of documents that are another set's as well, those made own
        for fact in facts:
            self.add(fact)

    def fork(self) -> FactSet:
        """Another set of the same facts; what is added to one of the two is not in the other."""
        other = FactSet()
        other.facts, other.docs, other.purged = dict(self.facts), dict(self.docs), set(self.purged)
        other.shown = dict(self.shown)
        self._shared, other._shared = set(), set()
        return other

    def add(self, fact: SyncFact) -> None:
        """Take in a fact; one that is known already changes nothing."""
        dot = fact.dot
        if dot in self.facts:
            return
        self.facts[dot] = fact
        doc, group, target = fact.register
        self._own(doc).setdefault(group, {}).setdefault(target, []).append(fact)
        self.shown.pop(doc, None)
        if fact.purged:
            self.purged.add(dot)
        elif fact.kind == PURGE:
            self.purged |= {
                Dot(name.rpartition(":")[0], int(name.rpartition(":")[2])) for name in fact.value["dots"]
            }
        if fact.purged or fact.kind == PURGE:
            self.shown.clear()

    def _own(self, doc: str) -> dict[str, dict[str, list[SyncFact]]]:
        """The facts of a document, to be added to."""
        found = self.docs.setdefault(doc, {})
        if self._shared is not None and doc not in self._shared:
            self._shared.add(doc)
            found = self.docs[doc] = {
                group: {target: list(facts) for target, facts in targets.items()}
                for group, targets in found.items()
            }
        return found

    def of(self, doc: str, group: str) -> dict[str, list[SyncFact]]:
        """The facts of a document of one group, by their targets."""
        return self.docs.get(doc, {}).get(group, {})

    def closure(self, dots: Iterable[Dot]) -> tuple[Dot, ...]:
        """These dots and all that they replaced."""
        found = set(dots)
        for dot in tuple(found):
            found.update(self.facts[dot].over)
        return tuple(sorted(found))

    def is_gone(self, fact: SyncFact) -> bool:
        """Whether a fact was purged, or stands over one that was."""
        return bool(self.purged) and (fact.dot in self.purged or not self.purged.isdisjoint(fact.over))


class Stand(NamedTuple):
    """What a shown block stands for: dots of one entry of one document."""

    doc: str
    target: str
    dots: tuple[Dot, ...]


class ShownBlock(NamedTuple):
    """A block as a file shows it."""

    id: str
    raw: str
    stands: tuple[Stand, ...]
    key: tuple[str, str, str, int]  # where it stands
    conflict: bool = False
    second: str = ""  # the id that it has where another text of its entry is the first

    @property
    def dots(self) -> set[Dot]:
        """All dots that it stands for."""
        return {dot for stand in self.stands for dot in stand.dots}


class Shows(NamedTuple):
    """A file as the facts show it."""

    path: str
    docs: tuple[str, ...]
    text: str
    blocks: tuple[ShownBlock, ...]
    values: dict[str, Any]

    @property
    def doc(self) -> str:
        """The document whose frontmatter it has, and to which new entries belong."""
        return self.docs[0]


class Hidden(NamedTuple):
    """A text that was edited while somebody else removed it: it goes to the archive."""

    doc: str
    target: str
    raw: str
    dot: Dot


class Signing:
    """How blocks are signed in files, and what of a file is text: one's own stand as they were typed."""

    exact = True  # whether a block's last line is part of what somebody typed

    def shown(self, raw: str, facts: Sequence[SyncFact], mark: str) -> str:
        """A block as a file has it; `facts` say the same text, `mark` is the id it is shown under."""
        return raw

    def canvas(self, front: str, head: str) -> tuple[str, str]:
        """A frontmatter and what stands below it, as others laid them out."""
        return front, head

    def keeps(self, path: str) -> bool:
        """Whether the place has such a file at all."""
        return True

    def lay(
        self,
        path: str,
        front: str,
        head: str,
        found: Sequence[ShownBlock],
        *,
        gaps: Mapping[int | str, str],
        eol: str,
    ) -> str:
        """The text of a whole file."""
        return blocks.lay(front, head, [each.raw for each in found], gaps, eol)

    def content(self, raw: str) -> str:
        """What a person or a program changed if it differs."""
        return blocks.content(raw)

    def said(self, raw: str) -> tuple[str, str]:
        """A block of a file as a fact keeps it, and the origin that it claims."""
        return raw, blocks.parts(raw).get("origin", "user")[:120]


TYPED = Signing()


def project(state: FactSet, signing: Signing = TYPED, docs: Iterable[str] | None = None) -> dict[str, Shows]:
    """Every file that the facts show, by its path, or those of some documents."""
    named: dict[str, list[str]] = {}
    for doc in sorted(state.docs if docs is None else docs):
        path = path_of(state, doc) if doc else ""
        if path and signing.keeps(path) and is_live(state, doc):
            named.setdefault(folded_path(path), []).append(doc)
    shown = (show(state, docs, signing) for docs in named.values())
    return {each.path: each for each in shown}


@functools.lru_cache(maxsize=4096)
def folded_path(path: str) -> str:
    """A path by which those are one that some file system takes for one."""
    kind, _, name = path.rpartition("/")
    return f"{kind}/{names.folded(name)}"


def hidden(state: FactSet, doc: str) -> Iterator[Hidden]:
    """The texts of a document that were edited by who did not see that they were removed."""
    for target, facts in state.of(doc, "entry").items():
        drops = [fact for fact in facts if fact.kind == "drop"]
        for fact in heads(facts):
            if fact.kind == "put" and not state.is_gone(fact) and is_outlived(fact, drops):
                yield Hidden(doc, target, fact.value["raw"], fact.dot)


def path_of(state: FactSet, doc: str) -> str:
    """The name of a document's file, by the newest word on it."""
    return next((safe_path(fact.value) for fact in reversed(_standing(state, doc, "name"))), "")


@functools.lru_cache(maxsize=4096)
def safe_path(given: str) -> str:
    """A path that others gave, as one that stays in its place everywhere; nothing when it is of no kind."""
    kind, _, name = given.rpartition("/")
    if kind == blocks.JOURNAL:
        return given if journal.is_day(name) else ""
    if not kind:
        return given if given in pinned.NAMES else ""
    if kind != blocks.RECORDS or not name:
        return ""
    stem = name.removesuffix(".md")
    plain = unicodedata.is_normalized("NFC", name) and len(name.encode()) <= 120 and name.isprintable()
    usable = plain and records.is_record(name) and not set(name) & set('/\\:*?"<>|') and name == name.strip()
    own = name != stem and names.is_key(stem)  # without its ending it would be no record, and read as deleted
    if not own and (not usable or names.is_device(name)):
        return f"{kind}/memory-{hashlib.sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.md"
    return given


def is_live(state: FactSet, doc: str) -> bool:
    """Whether a document has a block to show, or never had one."""
    entries = state.of(doc, "entry")
    if not entries:
        return "layout" in state.docs.get(doc, ())
    return any(shown_heads(state, facts) for facts in entries.values())


def is_outlived(put: SyncFact, drops: Iterable[SyncFact]) -> bool:
    """Whether somebody removed what this text was made from, unseen by who made it."""
    over = set(put.over)
    return any(drop.dot not in over and not over.isdisjoint(drop.kills) for drop in drops)


def shown_heads(state: FactSet, facts: list[SyncFact]) -> list[SyncFact]:
    """Of the facts about one entry the texts that are shown, oldest first."""
    if len(facts) == 1:
        return facts[:1] if facts[0].kind == "put" and not state.is_gone(facts[0]) else []
    drops = [fact for fact in facts if fact.kind == "drop"]
    return [
        fact
        for fact in heads(facts)
        if fact.kind == "put" and not state.is_gone(fact) and not is_outlived(fact, drops)
    ]


def show(state: FactSet, docs: Collection[str], signing: Signing = TYPED) -> Shows:
    """The file of documents that have one name: the front of the first, the entries of all."""
    listed = sorted(docs)
    if len(listed) > 1 or signing is not TYPED:  # what another one shows depends on more than facts
        return _show(state, listed, signing)
    if listed[0] not in state.shown:
        state.shown[listed[0]] = _show(state, listed, signing)
    return state.shown[listed[0]]


def _show(state: FactSet, listed: Sequence[str], signing: Signing) -> Shows:
    first = listed[0]
    path = path_of(state, first)
    canvas = newest(state, first, "layout") or {}
    front, head = signing.canvas(str(canvas.get("front", "")), str(canvas.get("head", "")))
    front, values = _front(state, first, front)
    every = (shown for doc in listed for shown in _blocks(state, doc, signing))
    found = sorted(_merged(every, signing), key=lambda each: each.key)
    places = {each.id: place for place, each in enumerate(found)}
    kept = canvas.get("gaps") or {}
    gaps: dict[int | str, str] = {places[mark]: gap for mark, gap in kept.items() if mark in places}
    if blocks.END in kept:
        gaps[blocks.END] = kept[blocks.END]
    text = signing.lay(path, front, head, found, gaps=gaps, eol=str(canvas.get("eol", blocks.LF)))
    return Shows(path, tuple(listed), text, tuple(found), values)


def newest(state: FactSet, doc: str, kind: str, target: str = "") -> Any:
    """What the fact with the largest number says, of those that replace nothing by name."""
    facts = [fact for fact in state.of(doc, kind).get(target, ()) if not state.is_gone(fact)]
    return max(facts, key=lambda fact: fact.order).value if facts else None


def marks_of(state: FactSet, doc: str, target: str, raw: str) -> dict[str, str]:
    """The marks of a block: those it was written with and those set since, without those lifted since.

    They are the entry's: where two versions of it are shown, both have them.
    """
    own = blocks.parts(raw)
    told: dict[str, set[str]] = {name: {own[name]} if name in own else set() for name in blocks.MARKS}
    for marked, facts in state.of(doc, "mark").items():
        entry, _, element = marked.partition(" ")
        name, _, value = element.partition(": ")
        if entry == target and name in told:
            (told[name].add if is_in(facts) else told[name].discard)(value)
    return {name: min(values, default="") for name, values in told.items()}


def is_in(facts: Iterable[SyncFact]) -> bool:
    """Whether an element is in its set: somebody put it there whom nobody has contradicted knowingly."""
    return any(fact.value is True for fact in heads(facts))


def element(value: Any) -> str:
    """An element of a list as the target of its facts."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def elements(value: Any) -> list[Any]:
    """The elements of a list of the frontmatter; words between commas are one, too."""
    if isinstance(value, str):
        return [each.strip() for each in value.split(",") if each.strip()]
    return list(value) if isinstance(value, list) else []


def _standing(state: FactSet, doc: str, kind: str, target: str = "") -> list[SyncFact]:
    facts = state.of(doc, kind).get(target)
    return [fact for fact in heads(facts) if not state.is_gone(fact)] if facts else []


def _blocks(state: FactSet, doc: str, signing: Signing) -> Iterator[ShownBlock]:
    """The blocks of one document, each with where it stands."""
    for target, facts in state.of(doc, "entry").items():
        alike: dict[str, list[SyncFact]] = {}
        for fact in shown_heads(state, facts):
            alike.setdefault(signing.content(fact.value["raw"]), []).append(fact)
        several = len(alike) > 1
        for place, (said, same) in enumerate(alike.items()):
            raw = same[0].value["raw"]
            if place == 0:
                first = raw
            second = sibling(target, said)
            shown = target if place == 0 else second
            raw = _marked(state, doc, target, raw)
            if place:
                time = first.partition("\n")[0][3:].strip() if blocks.instant_of(first) else UNDATED
                raw = blocks.sign(raw, id=shown, contradicts=time)
            raw = signing.shown(raw, same, shown)
            where = newest(state, doc, "pos", target) or [blocks.instant_of(first), ""]
            stand = Stand(doc, target, tuple(sorted(fact.dot for fact in same)))
            yield ShownBlock(shown, raw, (stand,), (where[0], where[1], target, place), several, second)


def sibling(target: str, said: str) -> str:
    """The id under which a second text of one entry is shown below the first."""
    mark = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{target.partition('~')[0]}~{mark}"


def _marked(state: FactSet, doc: str, target: str, raw: str) -> str:
    if not state.of(doc, "mark"):
        return raw
    marks, own = marks_of(state, doc, target, raw), blocks.parts(raw)
    changed = {name: value for name, value in marks.items() if value != own.get(name, "")}
    return blocks.sign(raw, **changed) if changed else raw


def _merged(shown: Iterable[ShownBlock], signing: Signing) -> Iterator[ShownBlock]:
    """Blocks of several documents; the same entry in two of them is one block that stands for both."""
    found: dict[tuple[str, str], ShownBlock] = {}
    for each in shown:
        key = each.id, signing.content(each.raw)
        there = found.get(key)
        stands = each.stands if there is None else (*there.stands, *each.stands)
        found[key] = (there or each)._replace(stands=stands)
    yield from found.values()


def _front(state: FactSet, doc: str, canvas: str) -> tuple[str, dict[str, Any]]:
    """The frontmatter as it was typed last, with merged values set in it, and those values."""
    typed = dict(read_front(canvas))
    merged = _values(state, doc, typed)
    changes = {key: merged.get(key) for key in (*typed, *merged) if merged.get(key) != typed.get(key)}
    if changes:
        with contextlib.suppress(Malformed):
            canvas = frontmatter.edit(canvas, changes)
    return canvas, {key: value for key, value in merged.items() if value is not None}


@functools.lru_cache(maxsize=4096)
def read_front(text: str) -> Mapping[str, Any]:
    """The values of a frontmatter; none when it cannot be read."""
    try:
        return frontmatter.parse(text).values
    except Malformed:
        return {}


def _values(state: FactSet, doc: str, typed: dict[str, Any]) -> dict[str, Any]:
    """The values of all keys: what facts say of them, and where no fact does what was typed."""
    told: list[tuple[tuple[int, str, int], str, Any]] = []
    for key, facts in state.of(doc, "front").items():
        standing = [fact for fact in facts if not state.is_gone(fact)]
        if standing:
            first = min(fact.order for fact in standing)
            told.append((first, key, _plain(key, standing, typed.get(key))))
    there = state.docs.get(doc, {})
    for key in REGISTERS:
        standing = _standing(state, doc, key) if key in there else []
        if standing:
            told.append((standing[0].order, key, _register(key, standing)))
    for key, kind in LISTS.items():
        sets = there.get(kind)
        if sets:
            first = min(fact.order for facts in sets.values() for fact in facts)
            told.append((first, key, _listed(sets, typed.get(key))))
    told += _counted(state, doc, typed)
    said = {key: value for _, key, value in sorted(told, key=lambda each: (each[0], each[1]))}
    merged = {key: said.pop(key, value) for key, value in typed.items()} | said
    if names.is_id(doc) and isinstance(merged.get("id"), str):
        merged["id"] = doc  # a file that was copied still says the id of the other one
    return _aliased(state, doc, merged)


def _aliased(state: FactSet, doc: str, merged: dict[str, Any]) -> dict[str, Any]:
    """Of names given at the same time the other ones stay as aliases."""
    given = [fact.value for fact in _standing(state, doc, "name")]
    keys = [name.rpartition("/")[2].removesuffix(".md") for name in given]
    more = [key for key in keys[:-1] if key != keys[-1] and names.is_key(key)]
    if more:
        listed = elements(merged.get("aliases"))
        merged["aliases"] = [*listed, *(key for key in dict.fromkeys(more) if key not in listed)]
    return merged


def _plain(key: str, facts: list[SyncFact], typed: Any) -> Any:
    """The value of a key that anybody may set: the newest word, but for times, which only move outwards."""
    last = max(facts, key=lambda fact: fact.order).value
    known = [each for each in (*(fact.value for fact in facts), typed) if isinstance(each, str)]
    if key in ("created", "updated") and isinstance(last, str):
        return min(known) if key == "created" else max(known)
    return last


def _register(key: str, facts: list[SyncFact]) -> Any:
    """Which of several values that were set at the same time holds."""
    values = [fact.value for fact in facts]
    if key == "protected":
        return True if True in values else values[-1]
    if key in ("confidence", "stale_after"):
        return min(
            (each for each in values if each is not None),
            key=lambda each: (str(type(each)), each),
            default=None,
        )
    known = _TYPES if key == "type" else _STATUS
    return min(values, key=lambda each: known.index(each) if each in known else len(known))


def _listed(sets: Mapping[str, list[SyncFact]], typed: Any) -> Any:
    """A list with what was added and without what was taken out; as it was typed where nothing differs."""
    before = elements(typed)
    kept = [each for each in before if element(each) not in sets or is_in(sets[element(each)])]
    there = {element(each) for each in kept}
    added = sorted(
        (min(fact.order for fact in facts), name)
        for name, facts in sets.items()
        if name not in there and is_in(facts)
    )
    if len(kept) == len(before) and not added:
        return typed
    return [*kept, *(json.loads(name) for _, name in added)] or None


def _counted(
    state: FactSet, doc: str, typed: dict[str, Any]
) -> Iterator[tuple[tuple[int, str, int], str, Any]]:
    """Confirmations, one of each session, and how often something was applied."""
    sums = [fact for fact in state.of(doc, APPLIED).get("", ()) if not state.is_gone(fact)]
    if sums:
        yield min(fact.order for fact in sums), APPLIED, sum(fact.value for fact in sums) or None
    told = state.of(doc, CONFIRMED)
    if told:
        said = {session(each): each for each in typed.get(CONFIRMED) or () if isinstance(each, dict)}
        known = dict(said)
        for target, facts in told.items():
            known[target] = max(facts, key=lambda fact: fact.order).value
        listed = sorted(
            (each for each in known.values() if each), key=lambda each: (str(each.get("at")), session(each))
        )
        if listed[-_CONFIRMATIONS:] != sorted(
            said.values(), key=lambda each: (str(each.get("at")), session(each))
        ):
            first = min(fact.order for facts in told.values() for fact in facts)
            yield first, CONFIRMED, listed[-_CONFIRMATIONS:] or None


def session(confirmation: Mapping[str, Any]) -> str:
    """Who confirmed something in which session: each counts once."""
    return f"{confirmation.get('by')} {confirmation.get('session')}"


# ------------------------------------------------------------------------------- what a person should know


class FileNotice(NamedTuple):
    """What happened to which file, and what it says now."""

    what: str
    path: str
    text: str


def find_notices(
    seen: FactSet, every: FactSet, target: Mapping[str, Shows], changed: Iterable[str]
) -> list[FileNotice]:
    """What is to be told of files that a sync writes: `seen` is what they showed, `every` what is known."""
    found = []
    for path in changed:
        shows = target.get(path)
        if shows is None:
            continue
        text = "\n\n".join(block.raw for block in shows.blocks)
        if any(_came_back(seen, every, doc) for doc in shows.docs):
            found.append(FileNotice(decisions.REVIVED, path, text))
        if len(shows.docs) > 1 and not all(doc in seen.docs for doc in shows.docs):
            found.append(FileNotice(decisions.JOINED, path, text))
    return found


def _came_back(seen: FactSet, every: FactSet, doc: str) -> bool:
    """Whether a document that was gone is there again without anybody having restored it."""
    if doc not in seen.docs or is_live(seen, doc) or not is_live(every, doc):
        return False
    entries = every.of(doc, "entry").values()
    drops = {fact.dot for facts in entries for fact in facts if fact.kind == "drop"}
    shown = [fact for facts in entries for fact in shown_heads(every, facts)]
    return bool(shown) and all(drops.isdisjoint(fact.over) for fact in shown)
