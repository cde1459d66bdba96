"""Make files from facts: the same facts make the same bytes on every machine.

Pure: this module reads and writes nothing, uses no clock, and makes the same files whatever the order in
which the facts arrived.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import unicodedata
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed
from vademecum.fields import BY_NAME, FIELDS, MergeRule, RecordField
from vademecum.store import decisions
from vademecum.sync import blocks
from vademecum.sync.facts import GROUPS, PURGE, SETS, FactId, SyncFact, heads
from vademecum.text import filenames, frontmatter, names
from vademecum.types import UNDATED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

# Lists of the frontmatter that are sets, and the kinds of their facts.
LISTS = {field.name: field.fact for field in FIELDS if field.fact in SETS}
# Keys of which several values may be set at the same time, and a rule of their own decides.
REGISTERS = {field.name: field for field in FIELDS if field.fact in GROUPS and field.fact not in SETS}
CONFIRMED, APPLIED = "confirmed", "applied"
_CONFIRMATIONS = 5


class FactSet:
    """A growing set of facts, indexed by their registers (document, kind, target)."""

    def __init__(self, facts: Iterable[SyncFact] = ()) -> None:
        self.facts: dict[FactId, SyncFact] = {}
        self.docs: dict[str, dict[str, dict[str, list[SyncFact]]]] = {}
        self.purged: set[FactId] = set()
        self.files: dict[str, ShownFile] = {}  # cached files of documents, until a fact is added to them
        self._shared: set[str] | None = None  # after a fork: documents with a copy of their own
        for fact in facts:
            self.add(fact)

    def fork(self) -> FactSet:
        """Return a copy of the set; a fact added to the copy is not added to the original, and vice versa."""
        other = FactSet()
        other.facts, other.docs, other.purged = dict(self.facts), dict(self.docs), set(self.purged)
        other.files = dict(self.files)
        self._shared, other._shared = set(), set()
        return other

    def add(self, fact: SyncFact) -> None:
        """Add a fact to the set, unless the set has it already."""
        fact_id = fact.id
        if fact_id in self.facts:
            return
        self.facts[fact_id] = fact
        doc, group, target = fact.register
        self._own_copy(doc).setdefault(group, {}).setdefault(target, []).append(fact)
        self.files.pop(doc, None)
        if fact.purged:
            self.purged.add(fact_id)
        elif fact.kind == PURGE:
            self.purged |= {
                FactId(name.rpartition(":")[0], int(name.rpartition(":")[2])) for name in fact.value["dots"]
            }
        if fact.purged or fact.kind == PURGE:
            self.files.clear()

    def _own_copy(self, doc: str) -> dict[str, dict[str, list[SyncFact]]]:
        """Return the facts of a document for a change; after a fork, make a copy of them first."""
        found = self.docs.setdefault(doc, {})
        if self._shared is not None and doc not in self._shared:
            self._shared.add(doc)
            found = self.docs[doc] = {
                group: {target: list(facts) for target, facts in targets.items()}
                for group, targets in found.items()
            }
        return found

    def of(self, doc: str, group: str) -> dict[str, list[SyncFact]]:
        """Return the facts of a document in a group of kinds, by their targets."""
        return self.docs.get(doc, {}).get(group, {})

    def with_replaced(self, fact_ids: Iterable[FactId]) -> tuple[FactId, ...]:
        """Return these ids of facts with the ids of all facts that they have replaced."""
        found = set(fact_ids)
        for fact_id in tuple(found):
            found.update(self.facts[fact_id].based_on)
        return tuple(sorted(found))

    def is_purged(self, fact: SyncFact) -> bool:
        """Return whether a fact was purged, or replaces a purged fact."""
        return bool(self.purged) and (fact.id in self.purged or not self.purged.isdisjoint(fact.based_on))


class BlockSource(NamedTuple):
    """The facts of one entry from which a block of a file was made."""

    doc: str
    target: str
    fact_ids: tuple[FactId, ...]


class ShownBlock(NamedTuple):
    """A block of a file, made from facts."""

    id: str
    raw: str
    sources: tuple[BlockSource, ...]
    key: tuple[str, str, str, int]  # the sort key of its position
    conflict: bool = False
    second: str = ""  # its id when another version of the entry comes first

    @property
    def fact_ids(self) -> set[FactId]:
        """The ids of all facts from which the block was made."""
        return {fact_id for source in self.sources for fact_id in source.fact_ids}


class ShownFile(NamedTuple):
    """A file, made from facts."""

    path: str
    docs: tuple[str, ...]
    text: str
    blocks: tuple[ShownBlock, ...]
    values: dict[str, Any]

    @property
    def doc(self) -> str:
        """The first document of the file, which gives the frontmatter and gets new entries."""
        return self.docs[0]


class UnseenEdit(NamedTuple):
    """An edit of a text that another person removed at the same time; its text goes to the archive."""

    doc: str
    target: str
    raw: str
    id: FactId


class Signing:
    """The rules for signatures in files; this base class keeps all blocks as they were typed."""

    exact = True  # whether a signature is part of the typed text

    def sign_block(self, raw: str, facts: Sequence[SyncFact], mark: str) -> str:
        """Return a block with the signature that its file shows.

        `facts` are the facts with this text, `mark` is the id that the file shows.
        """
        return raw

    def clean_layout(self, front: str, head: str) -> tuple[str, str]:
        """Return the frontmatter and the head (the text before the first block) that the file may have."""
        return front, head

    def has_file(self, path: str) -> bool:
        """Return whether facts make a file at this path; a team does not share all paths."""
        return True

    def render_file(
        self,
        path: str,
        front: str,
        head: str,
        found: Sequence[ShownBlock],
        *,
        gaps: Mapping[int | str, str],
        eol: str,
    ) -> str:
        """Return the text of a file, joined from its parts."""
        return blocks.lay(front, head, [each.raw for each in found], gaps, eol)

    def content(self, raw: str) -> str:
        """Return those parts of a block whose change counts as an edit."""
        return blocks.content(raw)

    def read_block(self, raw: str) -> tuple[str, str]:
        """Return a file's block in the form in which a fact stores it, and the origin in its signature."""
        return raw, blocks.parts(raw).get("origin", "user")[:120]


TYPED = Signing()


def project(
    state: FactSet, signing: Signing = TYPED, docs: Iterable[str] | None = None
) -> dict[str, ShownFile]:
    """Return by path the files that the facts make; with `docs`, the files of these documents alone."""
    named: dict[str, list[str]] = {}
    for doc in sorted(state.docs if docs is None else docs):
        path = path_of(state, doc) if doc else ""
        if path and signing.has_file(path) and has_file(state, doc):
            named.setdefault(fold_path(path), []).append(doc)
    files = (show(state, docs, signing) for docs in named.values())
    return {each.path: each for each in files}


@functools.lru_cache(maxsize=4096)
def fold_path(path: str) -> str:
    """Return a path with its name folded: equal for names that some file system takes for the same."""
    kind, _, name = path.rpartition("/")
    return f"{kind}/{names.folded(name)}"


def hidden(state: FactSet, doc: str) -> Iterator[UnseenEdit]:
    """Yield the edits of a document's entries that are not shown, because others removed the texts."""
    for target, facts in state.of(doc, "entry").items():
        drops = [fact for fact in facts if fact.kind == "drop"]
        for fact in heads(facts):
            if fact.kind == "put" and not state.is_purged(fact) and is_removed_unseen(fact, drops):
                yield UnseenEdit(doc, target, fact.value["raw"], fact.id)


def path_of(state: FactSet, doc: str) -> str:
    """Return the current path of a document; an empty text without one.

    If several paths were given at the same time, the newest counts.
    """
    return next((safe_path(fact.value) for fact in reversed(_current_facts(state, doc, "name"))), "")


@functools.lru_cache(maxsize=4096)
def safe_path(given: str) -> str:
    """Return the path under which a received file is stored.

    A name that some file system could not store is replaced; the result is empty for an unknown kind of file.
    """
    kind, _, name = given.rpartition("/")
    if kind == blocks.JOURNAL:
        return given if filenames.is_day(name) else ""
    if not kind:
        return given if given in filenames.DOCUMENTS else ""
    if kind != blocks.RECORDS or not name:
        return ""
    stem = name.removesuffix(".md")
    plain = unicodedata.is_normalized("NFC", name) and len(name.encode()) <= 120 and name.isprintable()
    usable = (
        plain and filenames.is_record(name) and not set(name) & set('/\\:*?"<>|') and name == name.strip()
    )
    # Without `.md` the file would be no record, and count as deleted.
    own = name != stem and names.is_key(stem)
    if not own and (not usable or names.is_device(name)):
        return f"{kind}/memory-{hashlib.sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.md"
    return given


def has_file(state: FactSet, doc: str) -> bool:
    """Return whether a document has a file: an entry is shown, or it has a layout and never an entry."""
    entries = state.of(doc, "entry")
    if not entries:
        return "layout" in state.docs.get(doc, ())
    return any(visible_heads(state, facts) for facts in entries.values())


def is_removed_unseen(put: SyncFact, drops: Iterable[SyncFact]) -> bool:
    """Return whether the text that an edit replaces was removed without the editor's knowledge."""
    based_on = set(put.based_on)
    return any(drop.id not in based_on and not based_on.isdisjoint(drop.removes) for drop in drops)


def visible_heads(state: FactSet, facts: list[SyncFact]) -> list[SyncFact]:
    """Return the facts whose texts are shown for an entry, oldest first; several in a conflict."""
    if len(facts) == 1:
        return facts[:1] if facts[0].kind == "put" and not state.is_purged(facts[0]) else []
    drops = [fact for fact in facts if fact.kind == "drop"]
    return [
        fact
        for fact in heads(facts)
        if fact.kind == "put" and not state.is_purged(fact) and not is_removed_unseen(fact, drops)
    ]


def show(state: FactSet, docs: Collection[str], signing: Signing = TYPED) -> ShownFile:
    """Return the file that documents with the same name make together.

    It has the entries of all documents, and the frontmatter of the first document.
    """
    listed = sorted(docs)
    if len(listed) > 1 or signing is not TYPED:  # a signed file depends on more than facts
        return _make_file(state, listed, signing)
    if listed[0] not in state.files:
        state.files[listed[0]] = _make_file(state, listed, signing)
    return state.files[listed[0]]


def _make_file(state: FactSet, listed: Sequence[str], signing: Signing) -> ShownFile:
    first = listed[0]
    path = path_of(state, first)
    canvas = newest(state, first, "layout") or {}
    front, head = signing.clean_layout(str(canvas.get("front", "")), str(canvas.get("head", "")))
    front, values = _merge_front(state, first, front)
    every = (block for doc in listed for block in _make_blocks(state, doc, signing))
    found = sorted(_merge_blocks(every, signing), key=lambda each: each.key)
    places = {each.id: place for place, each in enumerate(found)}
    gap_by_mark = canvas.get("gaps") or {}
    gaps: dict[int | str, str] = {places[mark]: gap for mark, gap in gap_by_mark.items() if mark in places}
    if blocks.END in gap_by_mark:
        gaps[blocks.END] = gap_by_mark[blocks.END]
    text = signing.render_file(path, front, head, found, gaps=gaps, eol=str(canvas.get("eol", blocks.LF)))
    return ShownFile(path, tuple(listed), text, tuple(found), values)


def newest(state: FactSet, doc: str, kind: str, target: str = "") -> Any:
    """Return the value of the newest fact of a kind and target that was not purged; None without one.

    This is for kinds of facts that do not name the facts they replace.
    """
    facts = [fact for fact in state.of(doc, kind).get(target, ()) if not state.is_purged(fact)]
    return max(facts, key=lambda fact: fact.order).value if facts else None


def read_marks(state: FactSet, doc: str, target: str, raw: str) -> dict[str, str]:
    """Return the current marks of a block: written in its signature or added later, and not removed.

    A mark that the block does not have is an empty text. Marks belong to the entry, so all its versions have
    them.
    """
    own = blocks.parts(raw)
    values_by_mark: dict[str, set[str]] = {
        name: {own[name]} if name in own else set() for name in blocks.MARKS
    }
    for marked, facts in state.of(doc, "mark").items():
        entry, _, element = marked.partition(" ")
        name, _, value = element.partition(": ")
        if entry == target and name in values_by_mark:
            (values_by_mark[name].add if is_member(facts) else values_by_mark[name].discard)(value)
    return {name: min(values, default="") for name, values in values_by_mark.items()}


def is_member(facts: Iterable[SyncFact]) -> bool:
    """Return whether an element is in its set, given its facts: some unreplaced fact has the value True."""
    return any(fact.value is True for fact in heads(facts))


def element(value: Any) -> str:
    """Return a list's element as text, which is the target of the facts about this element."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def elements(value: Any) -> list[Any]:
    """Return the elements of a list in the frontmatter, which may also be a text with commas."""
    if isinstance(value, str):
        return [each.strip() for each in value.split(",") if each.strip()]
    return list(value) if isinstance(value, list) else []


def _current_facts(state: FactSet, doc: str, kind: str, target: str = "") -> list[SyncFact]:
    facts = state.of(doc, kind).get(target)
    return [fact for fact in heads(facts) if not state.is_purged(fact)] if facts else []


def _make_blocks(state: FactSet, doc: str, signing: Signing) -> Iterator[ShownBlock]:
    """Yield the blocks of a document, each with the sort key of its position."""
    for target, facts in state.of(doc, "entry").items():
        alike: dict[str, list[SyncFact]] = {}
        for fact in visible_heads(state, facts):
            alike.setdefault(signing.content(fact.value["raw"]), []).append(fact)
        several = len(alike) > 1
        for place, (content, same) in enumerate(alike.items()):
            raw = same[0].value["raw"]
            if place == 0:
                first = raw
            second = sibling(target, content)
            block_id = target if place == 0 else second
            raw = _apply_marks(state, doc, target, raw)
            if place:
                time = first.partition("\n")[0][3:].strip() if blocks.instant_of(first) else UNDATED
                raw = blocks.sign(raw, id=block_id, contradicts=time)
            raw = signing.sign_block(raw, same, block_id)
            where = newest(state, doc, "pos", target) or [blocks.instant_of(first), ""]
            source = BlockSource(doc, target, tuple(sorted(fact.id for fact in same)))
            yield ShownBlock(block_id, raw, (source,), (where[0], where[1], target, place), several, second)


def sibling(target: str, content: str) -> str:
    """Return the id for another version of an entry, made from the entry's id and the version's text."""
    mark = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{target.partition('~')[0]}~{mark}"


def _apply_marks(state: FactSet, doc: str, target: str, raw: str) -> str:
    if not state.of(doc, "mark"):
        return raw
    marks, own = read_marks(state, doc, target, raw), blocks.parts(raw)
    changed = {name: value for name, value in marks.items() if value != own.get(name, "")}
    return blocks.sign(raw, **changed) if changed else raw


def _merge_blocks(all_blocks: Iterable[ShownBlock], signing: Signing) -> Iterator[ShownBlock]:
    """Merge the blocks of several documents; blocks with equal text and id become one block."""
    found: dict[tuple[str, str], ShownBlock] = {}
    for each in all_blocks:
        key = each.id, signing.content(each.raw)
        there = found.get(key)
        sources = each.sources if there is None else (*there.sources, *each.sources)
        found[key] = (there or each)._replace(sources=sources)
    yield from found.values()


def _merge_front(state: FactSet, doc: str, canvas: str) -> tuple[str, dict[str, Any]]:
    """Return the typed frontmatter, updated with the values from facts, and all values by key."""
    typed = dict(read_front(canvas))
    merged = _merge_values(state, doc, typed)
    changes = {key: merged.get(key) for key in (*typed, *merged) if merged.get(key) != typed.get(key)}
    if changes:
        with contextlib.suppress(Malformed):
            canvas = frontmatter.edit(canvas, changes)
    return canvas, {key: value for key, value in merged.items() if value is not None}


@functools.lru_cache(maxsize=4096)
def read_front(text: str) -> Mapping[str, Any]:
    """Return the values in a text's frontmatter; none if the frontmatter cannot be read."""
    try:
        return frontmatter.parse(text).values
    except Malformed:
        return {}


def _merge_values(state: FactSet, doc: str, typed: dict[str, Any]) -> dict[str, Any]:
    """Return the frontmatter's values: from facts where there are any, else as typed."""
    fields: list[tuple[tuple[int, str, int], str, Any]] = []
    for key, facts in state.of(doc, "front").items():
        standing = [fact for fact in facts if not state.is_purged(fact)]
        if standing:
            first = min(fact.order for fact in standing)
            fields.append((first, key, _choose_value(key, standing, typed.get(key))))
    there = state.docs.get(doc, {})
    for key, field in REGISTERS.items():
        standing = _current_facts(state, doc, key) if key in there else []
        if standing:
            fields.append((standing[0].order, key, _choose_register(field, standing)))
    for key, kind in LISTS.items():
        sets = there.get(kind)
        if sets:
            first = min(fact.order for facts in sets.values() for fact in facts)
            fields.append((first, key, _merge_list(sets, typed.get(key))))
    fields += _merge_counts(state, doc, typed)
    values = {key: value for _, key, value in sorted(fields, key=lambda each: (each[0], each[1]))}
    merged = {key: values.pop(key, value) for key, value in typed.items()} | values
    if names.is_id(doc) and isinstance(merged.get("id"), str):
        merged["id"] = doc  # a copied file still has the id of the original
    return _add_aliases(state, doc, merged)


def _add_aliases(state: FactSet, doc: str, merged: dict[str, Any]) -> dict[str, Any]:
    """If a document was given several names at the same time, add the other names to the aliases."""
    given = [fact.value for fact in _current_facts(state, doc, "name")]
    keys = [name.rpartition("/")[2].removesuffix(".md") for name in given]
    more = [key for key in keys[:-1] if key != keys[-1] and names.is_key(key)]
    if more:
        listed = elements(merged.get("aliases"))
        merged["aliases"] = [*listed, *(key for key in dict.fromkeys(more) if key not in listed)]
    return merged


def _choose_value(key: str, facts: list[SyncFact], typed: Any) -> Any:
    """Return a frontmatter key's value: the newest, or for certain times the earliest or latest."""
    last = max(facts, key=lambda fact: fact.order).value
    known = [each for each in (*(fact.value for fact in facts), typed) if isinstance(each, str)]
    rule = BY_NAME[key].merge if key in BY_NAME else MergeRule.NEWEST
    if rule in (MergeRule.EARLIEST, MergeRule.LATEST) and isinstance(last, str):
        return min(known) if rule is MergeRule.EARLIEST else max(known)
    return last


def _choose_register(field: RecordField, facts: list[SyncFact]) -> Any:
    """Return one of several values that were set at the same time, by the field's merge rule."""
    values = [fact.value for fact in facts]
    if field.merge is MergeRule.EITHER:
        return True if True in values else values[-1]
    if field.merge is MergeRule.LEAST:
        return min(
            (each for each in values if each is not None),
            key=lambda each: (str(type(each)), each),
            default=None,
        )
    known = field.ranks
    return min(values, key=lambda each: known.index(each) if each in known else len(known))


def _merge_list(sets: Mapping[str, list[SyncFact]], typed: Any) -> Any:
    """Return a typed list, changed by the facts that add or remove elements."""
    before = elements(typed)
    members = [each for each in before if element(each) not in sets or is_member(sets[element(each)])]
    there = {element(each) for each in members}
    added = sorted(
        (min(fact.order for fact in facts), name)
        for name, facts in sets.items()
        if name not in there and is_member(facts)
    )
    if len(members) == len(before) and not added:
        return typed
    return [*members, *(json.loads(name) for _, name in added)] or None


def _merge_counts(
    state: FactSet, doc: str, typed: dict[str, Any]
) -> Iterator[tuple[tuple[int, str, int], str, Any]]:
    """Yield the newest confirmations (one for each session) and the total of applications.

    Each item has the order of the first fact, the frontmatter's key, and the value.
    """
    sums = [fact for fact in state.of(doc, APPLIED).get("", ()) if not state.is_purged(fact)]
    if sums:
        yield min(fact.order for fact in sums), APPLIED, sum(fact.value for fact in sums) or None
    facts_by_session = state.of(doc, CONFIRMED)
    if facts_by_session:
        counts = {session(each): each for each in typed.get(CONFIRMED) or () if isinstance(each, dict)}
        known = dict(counts)
        for target, facts in facts_by_session.items():
            known[target] = max(facts, key=lambda fact: fact.order).value
        listed = sorted(
            (each for each in known.values() if each), key=lambda each: (str(each.get("at")), session(each))
        )
        if listed[-_CONFIRMATIONS:] != sorted(
            counts.values(), key=lambda each: (str(each.get("at")), session(each))
        ):
            first = min(fact.order for facts in facts_by_session.values() for fact in facts)
            yield first, CONFIRMED, listed[-_CONFIRMATIONS:] or None


def session(confirmation: Mapping[str, Any]) -> str:
    """Return a text that identifies a confirmation's session: its author and its session."""
    return f"{confirmation.get('by')} {confirmation.get('session')}"


# ------------------------------------------------------------------------------- notices for a person


class FileNotice(NamedTuple):
    """A notice for a person about a file: the kind of notice, the file's path and its current text."""

    what: str
    path: str
    text: str


def find_notices(
    seen: FactSet, every: FactSet, target: Mapping[str, ShownFile], changed: Iterable[str]
) -> list[FileNotice]:
    """Return notices about the files that a sync will write.

    `changed` has their paths, and `target` the new files. `seen` has the facts that the files show already,
    `every` has all facts.
    """
    found = []
    for path in changed:
        file = target.get(path)
        if file is None:
            continue
        text = "\n\n".join(block.raw for block in file.blocks)
        if any(_is_revived(seen, every, doc) for doc in file.docs):
            found.append(FileNotice(decisions.REVIVED, path, text))
        if len(file.docs) > 1 and not all(doc in seen.docs for doc in file.docs):
            found.append(FileNotice(decisions.JOINED, path, text))
    return found


def _is_revived(seen: FactSet, every: FactSet, doc: str) -> bool:
    """Return whether a removed document has a file again although nobody has restored it on purpose."""
    if doc not in seen.docs or has_file(seen, doc) or not has_file(every, doc):
        return False
    entries = every.of(doc, "entry").values()
    drops = {fact.id for facts in entries for fact in facts if fact.kind == "drop"}
    visible_facts = [fact for facts in entries for fact in visible_heads(every, facts)]
    return bool(visible_facts) and all(drops.isdisjoint(fact.based_on) for fact in visible_facts)
