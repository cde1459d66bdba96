"""Compare a file with the version that was last written, and write the changes as facts.

Pure, except for the writer that collects the new facts. Only an entry that the earlier version showed can be
removed, since a person can only remove a text that they saw.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed
from vademecum.fields import FIELDS
from vademecum.sync import blocks
from vademecum.sync.facts import NOTHING, FactId, SyncFact, heads
from vademecum.sync.projection import (
    APPLIED,
    CONFIRMED,
    LISTS,
    REGISTERS,
    TYPED,
    BlockSource,
    FactSet,
    ShownBlock,
    ShownFile,
    Signing,
    element,
    elements,
    fold_path,
    is_member,
    path_of,
    read_front,
    safe_path,
    session,
    show,
    sibling,
    visible_heads,
)
from vademecum.text import names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from vademecum.sync.blocks import CutText, TextBlock

MIN_SIMILARITY = 0.6
_LONGEST = 20_000  # characters of a block that are compared
# Keys that the store sets: for a new document the layout has them, so they need no fact of their own.
_LAID_OUT_KEYS = {field.name for field in FIELDS if field.automatic}
_FRACTION = "n"


@dataclass(slots=True)
class FactWriter:
    """A writer of a replica's new facts: numbers them, chains them and adds them to the known facts."""

    stream: str
    replica: str
    seen: FactSet  # the facts that its files show or have shown
    last: SyncFact | None = None
    lamport: int = 0  # the largest Lamport clock that it has seen
    interface: str = "file"
    signing: Signing = TYPED
    make: Callable[[SyncFact], SyncFact] = lambda fact: fact  # changes each new fact, such as to seal it
    moved: Callable[[ShownFile], str] = lambda file: ""  # the stream to which a file was moved, if known
    made: list[SyncFact] = field(default_factory=list)
    doubts: list[tuple[str, str, str]] = field(default_factory=list)  # (doc, entry, text), see `_is_doubtful`
    new_ids: Collection[FactId] = ()  # own facts since the files were last written
    _moved_to: str = ""
    _docs_by_path: dict[str, list[str]] | None = None

    def write(self, doc: str, kind: str, target: str = "", value: Any = None, **given: Any) -> SyncFact:
        """Make the replica's next fact, add it to the known facts, and return it."""
        if kind == "put":
            raw, given["origin"] = self.signing.read_block(value["raw"])
            value = {"raw": raw}
        if kind == "drop" and self._moved_to:
            value = {"to": self._moved_to}
        fact = SyncFact(
            stream=self.stream,
            replica=self.replica,
            n=self.last.n + 1 if self.last else 1,
            prev=self.last.hash if self.last else NOTHING,
            lamport=self.lamport + 1,
            doc=doc,
            kind=kind,
            target=target,
            value=_normalise_value(value),
            interface=self.interface,
            **given,
        )
        fact = self.make(fact)
        self.last, self.lamport = fact, fact.lamport
        self.seen.add(fact)
        self.made.append(fact)
        return fact

    def find_docs_by_path(self, path: str) -> list[str]:
        """Return the documents that ever had this path; facts added after the first call are not seen."""
        if self._docs_by_path is None:
            self._docs_by_path = {}
            for doc, groups in sorted(self.seen.docs.items()):
                named = (fact.value for fact in groups.get("name", {}).get("", ()))
                for name in {fold_path(safe_path(value)) for value in named if value}:
                    self._docs_by_path.setdefault(name, []).append(doc)
        return self._docs_by_path.get(fold_path(path), [])


def _normalise_value(value: Any) -> Any:
    """Return a fact's value with sorted names, just as other replicas will read it."""
    return json.loads(json.dumps(value, sort_keys=True)) if isinstance(value, dict | list) else value


class _Match(NamedTuple):
    """A block of a changed file, with the earlier shown block to which it belongs, or None."""

    block: TextBlock
    base: ShownBlock | None
    copied: bool = False  # a copy of another block, whose id was removed

    @property
    def raw(self) -> str:
        """The text of the matched block in the file."""
        return self.block.raw

    def signed(self, **changes: str) -> _Match:
        """Return the match with parts of its block's signature set; an empty value removes a part."""
        return self._replace(block=self.block._replace(raw=blocks.sign(self.raw, **changes)))


@dataclass(slots=True)
class _WrittenBlock:
    """A block of a changed file with the ids of the facts that now have its text."""

    raw: str
    doc: str
    target: str
    fact_ids: tuple[FactId, ...]
    exact: bool = True


def diff(
    writer: FactWriter,
    base: ShownFile | None,
    path: str,
    text: str | None,
    *,
    doc: str = "",
    uncertain: bool = False,
    older: ShownFile | None = None,
) -> None:
    """Write facts for the changes in one file, from `base`, the shown file, to its current `text`.

    `text` is None for a deleted file. `doc` is the file's document where it differs from the base's. A base
    is `uncertain` when it may never have been written to the file. Then nothing that is missing counts as
    removed, and no text that a fact already has counts as an edit. `older` is the version of the file that
    was shown before the base.
    """
    if text is None:
        if base is not None and not uncertain:
            _drop_file(writer, base)
        return
    page = blocks.cut(text, path)
    doc = doc or (base.doc if base is not None else "")
    named = path_of(writer.seen, doc)
    if uncertain and not named and writer.seen.of(doc, "name"):  # the document was purged
        writer.doubts += [(doc, block.id or block.derived(), block.raw) for block in page.blocks]
        return
    if named != path and not (uncertain and named):
        renamed = base.docs if base is not None and base.path != path else (doc,)
        for each in renamed:
            writer.write(each, "name", value=path, based_on=_register_ids(writer, each, "name"))
    if base is not None and base.text == text:
        return
    values = dict(read_front(page.front))
    known = writer.seen.docs.get(doc, {}).get("layout")
    if known is None:
        _write_layout(writer, doc, page, {})
    if uncertain:
        _diff_values(writer, doc, {}, _find_new_values(writer, doc, values))
    else:
        _diff_values(writer, doc, base.values if base is not None else _shown_values(writer, doc), values)
    docs = tuple(dict.fromkeys((doc, *(base.docs if base is not None else ()))))
    if uncertain:  # the file may show documents that have left it since
        docs = tuple(
            dict.fromkeys(
                (*docs, *(older.docs if older is not None else ()), *writer.find_docs_by_path(path))
            )
        )
    standing = _diff_blocks(writer, base, page, docs, uncertain=uncertain, older=older)
    if not uncertain:
        _make_exact(writer, base, page, doc, standing)


def identify(
    base: Mapping[str, ShownFile],
    files: Mapping[str, str],
    elsewhere: Collection[str] = (),
    unknown: Collection[str] = (),
    copies: Collection[str] = (),
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the document of each file, and the earlier path of each renamed file.

    When several files have the same id, one file keeps it: the file whose path had the id in the base, else
    the file named after its key, else the first file. The others get new ids. `elsewhere` has documents of
    other files. `unknown` has paths that are in the base, but whose files now are documents of their own.
    `copies` has paths whose files stay with their own documents although their ids belong to other documents.
    """
    # A file that was merged with others and not written since has its own id.
    path_by_id: dict[Any, str] = {
        doc: path for path, file in base.items() for doc in file.docs if names.is_id(doc)
    }
    path_by_id |= {
        file.values.get("id"): path for path, file in base.items() if names.is_id(str(file.values.get("id")))
    }
    given: dict[str, str] = {}
    moved: dict[str, str] = {}
    used_docs: set[str] = set()
    every = {doc for each in base.values() for doc in each.docs} | set(elsewhere)
    own_paths = set(files) - _find_replaced_paths(base, files, path_by_id)
    new = {read_front(text).get("id") for path, text in files.items() if path not in base}
    for path in sorted(
        files, key=lambda path: (path not in base, not _has_key_of_path(path, files[path]), path)
    ):
        front = read_front(files[path])
        home = path_by_id.get(front.get("id"))
        if path in base and path in own_paths and path not in unknown:
            given[path] = base[path].doc
            same = path in copies or base[path].values.get("id") == front.get("id")
            based_on = (
                home is not None and home != path and home not in own_paths and front.get("id") not in new
            )
            if home is not None and based_on and not same and base[home].doc not in used_docs:
                given[path], moved[path] = base[home].doc, home
        elif home is not None and home not in own_paths and base[home].doc not in used_docs:
            given[path], moved[path] = base[home].doc, home
        else:
            mark = blocks.document_id(path, front.get("id"))
            known = mark in used_docs or mark in path_by_id or mark in every
            given[path] = names.new_id() if known and names.is_id(mark) else mark
        used_docs.add(given[path])
    return given, moved


def find_unknown(
    writer: FactWriter, base: Mapping[str, ShownFile], files: Mapping[str, str]
) -> dict[str, str]:
    """Return the documents of files that have a path in the base but an id that no fact has, by path."""
    found: dict[str, str] = {}
    for path in set(base) & set(files):
        mark = blocks.document_id(path, read_front(files[path]).get("id"))
        docs = {*base[path].docs, *writer.find_docs_by_path(path)}
        if names.is_id(mark) and mark not in writer.seen.docs:
            known_docs = [doc for doc in docs if not _find_new_values(writer, doc, {"id": mark})]
            found |= {} if known_docs else {path: mark}
    return found


def find_copies(writer: FactWriter, base: Mapping[str, ShownFile], files: Mapping[str, str]) -> set[str]:
    """Return the paths of shown files whose id is an id that their document has, or once had, in a fact."""
    ids = {path: read_front(files[path]).get("id") for path in set(base) & set(files)}
    return {
        path
        for path, mark in ids.items()
        if mark and not _find_new_values(writer, base[path].doc, {"id": mark})
    }


def find_leftovers(
    base: Mapping[str, ShownFile], files: Mapping[str, str], begun: Collection[str]
) -> dict[str, str]:
    """Return the documents of files that an interrupted sync has renamed but not removed, by old path.

    `begun` has the paths that this sync was writing.
    """
    path_by_doc = {doc: path for path, file in base.items() for doc in file.docs}
    found: dict[str, str] = {}
    for path in (set(files) & set(begun)) - set(base):
        mark = blocks.document_id(path, read_front(files[path]).get("id"))
        if path_by_doc.get(mark) in files and path_by_doc.get(mark) in begun:
            found[path] = mark
    return found


def _find_replaced_paths(
    base: Mapping[str, ShownFile], files: Mapping[str, str], path_by_id: Mapping[Any, str]
) -> set[str]:
    """Return the earlier paths of renamed files at which there is a new file with an unknown id."""
    ids = {path: read_front(text).get("id") for path, text in files.items()}
    renamed = {path_by_id[each] for path, each in ids.items() if path not in base and each in path_by_id}
    return {
        path for path in renamed & set(files) if ids[path] not in path_by_id and names.is_id(str(ids[path]))
    }


def _has_key_of_path(path: str, text: str) -> bool:
    return read_front(text).get("key") == path.rpartition("/")[2].removesuffix(".md")


def _register_ids(writer: FactWriter, doc: str, kind: str, target: str = "") -> tuple[FactId, ...]:
    """Return the ids of all known facts of a register, except purged facts."""
    return _unpurged_ids(writer, writer.seen.of(doc, kind).get(target, ()))


def _unpurged_ids(writer: FactWriter, facts: Iterable[SyncFact]) -> tuple[FactId, ...]:
    return tuple(sorted(fact.id for fact in facts if not writer.seen.is_purged(fact)))


def _shown_values(writer: FactWriter, doc: str) -> dict[str, Any]:
    return show(writer.seen, [doc], writer.signing).values if doc in writer.seen.docs else {}


def _drop_file(writer: FactWriter, base: ShownFile) -> None:
    """Write facts that remove all blocks of a deleted file, or the name of a file without blocks.

    If the file was moved to another stream, the facts about blocks name that stream.
    """
    writer._moved_to = writer.moved(base)
    for block in base.blocks:
        _drop(writer, block.sources)
    writer._moved_to = ""
    if not base.blocks:
        writer.write(base.doc, "name", value="", based_on=_register_ids(writer, base.doc, "name"))


def _drop(writer: FactWriter, sources: Iterable[BlockSource]) -> None:
    for source in sources:
        writer.write(
            source.doc,
            "drop",
            source.target,
            based_on=writer.seen.with_replaced(source.fact_ids),
            removes=tuple(sorted(source.fact_ids)),
        )


# ------------------------------------------------------------ frontmatter


def _write_layout(writer: FactWriter, doc: str, page: CutText, marks: Mapping[int | str, str]) -> None:
    known = {blocks.END: blocks.END, **marks}
    gaps = {known[place]: gap for place, gap in page.gaps.items() if place in known}
    value = {"front": page.front, "head": page.head, "eol": page.eol, "gaps": gaps}
    writer.write(doc, "layout", value=value)


def _diff_values(writer: FactWriter, doc: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    born = not writer.seen.docs.get(doc, {}).get("entry")
    for key in (*now, *(key for key in before if key not in now)):
        was, is_now = before.get(key), now.get(key)
        if key in LISTS:
            _diff_list(writer, doc, key, was, is_now, born=born)
        elif was == is_now and not (born and key not in _LAID_OUT_KEYS):
            continue
        elif key in REGISTERS:
            if not born or not writer.seen.of(doc, key):
                writer.write(doc, key, value=is_now, based_on=_register_ids(writer, doc, key))
        elif key == CONFIRMED and isinstance(is_now, list):
            _diff_confirmed(writer, doc, was, is_now)
        elif key == APPLIED and all(type(each or 0) is int for each in (was, is_now)):
            known = sum(fact.value or 0 for fact in writer.seen.of(doc, APPLIED).get("", ()))
            writer.write(doc, APPLIED, value=(is_now or 0) - known)
        elif was != is_now or not writer.seen.of(doc, "front").get(key):
            writer.write(doc, "front", key, value=is_now)


def _find_new_values(writer: FactWriter, doc: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those frontmatter values that no fact of the document has ever had.

    The other values may come from an old version of the file. Confirmations and counters are left out.
    """
    facts = writer.seen.docs.get(doc, {})
    typed = (fact.value["front"] for each in facts.get("layout", {}).values() for fact in each if fact.value)
    fronts = [read_front(front) for front in typed]
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key in LISTS:
            old_values = {element(each) for front in fronts for each in elements(front.get(key))}
            old_values |= set(facts.get(LISTS[key], ()))
            new: Any = [each for each in elements(value) if element(each) not in old_values]
        elif key in (CONFIRMED, APPLIED):
            continue  # these only grow; new ones are written with the next change
        else:
            named = (
                facts.get(key, {}).get("", []) if key in REGISTERS else facts.get("front", {}).get(key, [])
            )
            known = [*(front.get(key) for front in fronts), *(fact.value for fact in named)]
            new = None if value in known else value
        if new not in (None, []):
            found[key] = new
    return found


def _diff_list(writer: FactWriter, doc: str, key: str, was: Any, now: Any, *, born: bool) -> None:
    kind = LISTS[key]
    before, after = {element(each) for each in elements(was)}, {element(each) for each in elements(now)}
    for each in sorted(after - before if not born else after):
        facts = writer.seen.of(doc, kind).get(each, [])
        if not is_member(facts):
            writer.write(doc, kind, each, value=True, based_on=_unpurged_ids(writer, facts))
    for each in sorted(before - after):
        facts = writer.seen.of(doc, kind).get(each, [])
        writer.write(doc, kind, each, value=False, based_on=_unpurged_ids(writer, facts))


def _diff_confirmed(writer: FactWriter, doc: str, was: Any, now: list[Any]) -> None:
    before = {session(each): each for each in was or () if isinstance(each, dict)}
    after = {session(each): each for each in now if isinstance(each, dict)}
    for target, each in after.items():
        if before.get(target) != each:
            writer.write(doc, CONFIRMED, target, value=each)
    if len(after) < len(before):  # not only shortened to the newest few
        for target in sorted(set(before) - set(after)):
            writer.write(doc, CONFIRMED, target, value={})


# ------------------------------------------------------------ blocks


def _diff_blocks(
    writer: FactWriter,
    base: ShownFile | None,
    page: CutText,
    docs: Sequence[str],
    *,
    uncertain: bool,
    older: ShownFile | None,
) -> list[_WrittenBlock]:
    base_blocks = base.blocks if base is not None else ()

    def is_old(block: TextBlock) -> bool:
        return any(_is_known(writer, each, block.id, block.raw) for each in docs)

    matches, missing = match(base_blocks, page.blocks, is_old if uncertain else None)
    # The text of another block in the file is no edit of this block.
    there = {block.words for block in page.blocks}
    known = older.blocks if older is not None else ()
    before = {each.id: each for each in known if _words(each) not in there}
    matches = _with_pending_marks(writer, matches) if writer.new_ids else matches
    standing = [_diff_block(writer, each, docs, uncertain=uncertain, before=before) for each in matches]
    for each in missing if not uncertain else ():
        _drop(writer, each.sources)
    return standing


def _diff_block(
    writer: FactWriter,
    found: _Match,
    docs: Sequence[str],
    *,
    uncertain: bool,
    before: Mapping[str, ShownBlock],
) -> _WrittenBlock:
    base_block = found.base
    if base_block is None:
        doc = _document_of(writer, found.block, docs) if uncertain else docs[0]
        if (
            uncertain
            and not found.block.id
            and not found.copied
            and _is_earlier_text(writer, found.block, docs)
        ):
            return _WrittenBlock(found.raw, doc, "", (), exact=False)
        return _write_new_block(writer, found, doc, uncertain=uncertain, before=before)
    first = base_block.sources[0]
    found = _undo_signature_changes(writer, found, base_block, uncertain=uncertain)
    settled = base_block.conflict and "~" in base_block.id and not blocks.parts(found.raw).get("contradicts")
    if settled and blocks.parts(base_block.raw).get("contradicts"):
        return _separate_version(writer, found, base_block)
    if writer.signing.content(found.raw) == writer.signing.content(base_block.raw):
        _diff_marks(writer, first, base_block.raw, found.raw, uncertain=uncertain)
        return _WrittenBlock(
            found.raw, first.doc, first.target, first.fact_ids, exact=not base_block.conflict
        )
    if uncertain and _is_known(writer, first.doc, first.target, found.raw, version=base_block.conflict):
        return _WrittenBlock(found.raw, first.doc, first.target, first.fact_ids, exact=False)
    if uncertain and _is_doubtful(writer, first.doc, first.target, found.raw):
        return _WrittenBlock(found.raw, first.doc, first.target, (), exact=False)
    _drop(writer, base_block.sources[1:])
    _diff_marks(writer, first, base_block.raw, found.raw, uncertain=uncertain)
    raw = _strip_version_id(found.raw, base_block)
    fact = writer.write(
        first.doc,
        "put",
        first.target,
        value={"raw": raw},
        based_on=_base_of_edit(writer, first, before.get(base_block.id))
        if uncertain
        else writer.seen.with_replaced(first.fact_ids),
    )
    return _WrittenBlock(raw, first.doc, first.target, (fact.id,), exact=not base_block.conflict)


def _undo_signature_changes(
    writer: FactWriter, found: _Match, base_block: ShownBlock, *, uncertain: bool
) -> _Match:
    """Return the match without those differences in the signature that no person made."""
    signature = blocks.parts(base_block.raw)
    if _is_version(found.block.id, base_block.id):  # another version of the entry comes first now
        found = found.signed(id=signature.get("id", ""), contradicts=signature.get("contradicts", ""))
    second = "~" in base_block.id
    if uncertain and second and "contradicts" not in signature:  # the conflict was settled elsewhere
        found = found.signed(contradicts="")
    if found.copied:
        found = found.signed(id=base_block.id)
    own = writer.signing.exact or (second and base_block.conflict)  # where removing a signature is a change
    if not own and found.raw == blocks.unsigned(base_block.raw):
        # Deleting the signature of another member's text changes nothing but its marks.
        found = found.signed(**{name: value for name, value in signature.items() if name not in blocks.MARKS})
    return found


def _base_of_edit(writer: FactWriter, latest: BlockSource, before: ShownBlock | None) -> tuple[FactId, ...]:
    """Return the facts that an edit replaces when the version that was edited is not certain.

    These are the facts of `before`, else the facts that `latest` replaced, else the facts of `latest`, so
    that the edit replaces no fact that its author may not have seen.
    """
    if before is not None:
        return writer.seen.with_replaced(before.sources[0].fact_ids)
    earlier = {fact_id for each in latest.fact_ids for fact_id in writer.seen.facts[each].based_on}
    return tuple(sorted(earlier)) or writer.seen.with_replaced(latest.fact_ids)


def _is_version(mark: str, other: str) -> bool:
    """Return whether two different ids belong to versions of the same entry."""
    return mark != other and mark.partition("~")[0] == other.partition("~")[0]


def _separate_version(writer: FactWriter, found: _Match, base_block: ShownBlock) -> _WrittenBlock:
    """Write facts that turn one version of an entry into an entry of its own."""
    _drop(writer, base_block.sources)
    doc = base_block.sources[0].doc
    based_on = _register_ids(writer, doc, "entry", base_block.id)
    raw = found.raw
    if not writer.signing.exact and not blocks.parts(raw):  # removing a name does not make anybody the author
        raw = blocks.sign(raw, origin=blocks.parts(base_block.raw).get("origin", ""))
    fact = writer.write(doc, "put", base_block.id, value={"raw": raw}, based_on=based_on)
    return _WrittenBlock(raw, doc, base_block.id, (fact.id,))


def _strip_version_id(raw: str, base_block: ShownBlock) -> str:
    """Return an entry's text without the version id and the mark `contradicts` that a conflict gave it."""
    if base_block.conflict and "~" in base_block.id:
        return blocks.sign(raw, id=base_block.sources[0].target, contradicts="")
    return raw


def _write_new_block(
    writer: FactWriter, found: _Match, doc: str, *, uncertain: bool, before: Mapping[str, ShownBlock]
) -> _WrittenBlock:
    """Write a fact for a block that the shown file did not have: a new or a restored block.

    If the shown file is `uncertain`, a text that is old or may be purged gets no fact.
    """
    target = found.block.id or _derive_id(writer, doc, found)
    known = writer.seen.of(doc, "entry").get(target, [])
    if uncertain and not known and (second := _find_version(writer, doc, target)):
        return _write_version(writer, found, second)
    if uncertain and _is_known(writer, doc, target, found.raw):
        return _WrittenBlock(found.raw, doc, target, (), exact=False)
    if uncertain and _is_doubtful(writer, doc, found.block.id or found.block.derived(), found.raw):
        return _WrittenBlock(found.raw, doc, target, (), exact=False)
    raw = blocks.sign(found.raw, id=target) if found.copied else found.raw
    based_on = _unpurged_ids(writer, known)
    if uncertain:  # if it was removed since, this edit goes to the archive
        based_on = _base_of_hidden_text(writer, known, before.get(target))
    fact = writer.write(doc, "put", target, value={"raw": raw}, based_on=based_on)
    return _WrittenBlock(raw, doc, target, (fact.id,))


def _document_of(writer: FactWriter, block: TextBlock, docs: Sequence[str]) -> str:
    """Return the document that has an entry with the block's id, else the first document."""
    mark = block.id or block.derived()
    known = (doc for doc in docs if mark in writer.seen.of(doc, "entry") or _find_version(writer, doc, mark))
    return next(known, docs[0])


def _is_earlier_text(writer: FactWriter, block: TextBlock, docs: Sequence[str]) -> bool:
    """Return whether any entry of these documents ever had the time and the words of this block."""
    puts = (
        fact
        for doc in docs
        for facts in writer.seen.of(doc, "entry").values()
        for fact in facts
        if fact.kind == "put" and fact.value
    )
    content = (block.instant, block.words)
    return any(
        (blocks.instant_of(raw), blocks.words_of(raw)) == content
        for raw in (each.value["raw"] for each in puts)
    )


def _base_of_hidden_text(
    writer: FactWriter, known: list[SyncFact], before: ShownBlock | None
) -> tuple[FactId, ...]:
    """Return the facts that an edit replaces when its entry is not shown any more.

    These are the facts of `before`, else the entry's texts that are not shown, else all texts of the entry.
    """
    if before is not None:
        return writer.seen.with_replaced(before.sources[0].fact_ids)
    there = {fact.id for fact in visible_heads(writer.seen, known)}
    puts = [fact for fact in known if fact.kind == "put"]
    return _unpurged_ids(writer, [fact for fact in puts if fact.id not in there] or puts)


def _find_version(writer: FactWriter, doc: str, mark: str) -> SyncFact | None:
    """Return the fact whose text was shown as a version with the id `mark`; None if there is none."""
    name, second, _ = mark.partition("~")
    for target, facts in writer.seen.of(doc, "entry").items() if second else ():
        for fact in facts if target.partition("~")[0] == name else ():
            value = fact.value if fact.kind == "put" else None
            if value and sibling(target, writer.signing.content(value["raw"])) == mark:
                return fact
    return None


def _write_version(writer: FactWriter, found: _Match, was: SyncFact) -> _WrittenBlock:
    """Write a fact for an edit of a version that is no longer shown, unless its text is unchanged."""
    raw = blocks.sign(found.raw, id=was.target, contradicts="")
    if blocks.unsigned(raw) == blocks.unsigned(was.value["raw"]):
        return _WrittenBlock(found.raw, was.doc, was.target, (), exact=False)
    based_on = writer.seen.with_replaced([was.id])
    fact = writer.write(was.doc, "put", was.target, value={"raw": raw}, based_on=based_on)
    return _WrittenBlock(raw, was.doc, was.target, (fact.id,))


def _is_doubtful(writer: FactWriter, doc: str, target: str, raw: str) -> bool:
    """Return whether a fact of a text's entry was purged, so that the text itself may be purged.

    If so, add the text to the writer's `doubts`.
    """
    facts = writer.seen.of(doc, "entry").get(target, ())
    purged = any(writer.seen.is_purged(fact) for fact in facts)
    if purged:
        writer.doubts.append((doc, target, raw))
    return purged


def _derive_id(writer: FactWriter, doc: str, found: _Match) -> str:
    """Return an id for a block that has none, derived so that every machine finds the same id."""
    mark = found.block.derived()
    entries = writer.seen.of(doc, "entry")
    number = 1
    while visible_heads(writer.seen, entries.get(mark if number == 1 else f"{mark}-{number}", [])):
        number += 1
    return mark if number == 1 else f"{mark}-{number}"


def _is_known(writer: FactWriter, doc: str, target: str, raw: str, *, version: bool = False) -> bool:
    """Return whether an entry ever had this text; for a `version`, compare without the signature."""
    content = blocks.unsigned if version else writer.signing.content
    wanted, facts = content(raw), writer.seen.of(doc, "entry").get(target, ())
    return any(fact.kind == "put" and fact.value and content(fact.value["raw"]) == wanted for fact in facts)


def _diff_marks(writer: FactWriter, source: BlockSource, was: str, now: str, *, uncertain: bool) -> None:
    """Write facts for the marks in a signature that were added or removed.

    If the version before is `uncertain`, no mark counts as removed.
    """
    before, after = blocks.parts(was), blocks.parts(now)
    marks = writer.seen.of(source.doc, "mark")
    for name in blocks.MARKS:
        if before.get(name, "") == after.get(name, ""):
            continue
        begin = f"{source.target} {name}: "
        new_marks = {begin + after[name]} if name in after else set()
        gone = {each for each, facts in marks.items() if each.startswith(begin) and is_member(facts)}
        if name in before:
            gone.add(begin + before[name])
        if uncertain:  # a former version was shown with the marks of its entry
            first = f"{source.target.partition('~')[0]} {name}: {after.get(name)}"
            gone, new_marks = set(), {each for each in new_marks if each not in marks and first not in marks}
        for each, there in [
            *((each, False) for each in sorted(gone - new_marks)),
            *((each, True) for each in new_marks),
        ]:
            based_on = _register_ids(writer, source.doc, "mark", each)
            writer.write(source.doc, "mark", each, value=there, based_on=based_on)


def _with_pending_marks(writer: FactWriter, matches: list[_Match]) -> list[_Match]:
    """Return the matches with each unwritten change of a mark copied to all versions of its entry.

    Marks belong to the entry. The file shows a new mark in the other versions only after its next write, so a
    version without the mark does not remove the mark.
    """
    texts: dict[tuple[str, str], list[int]] = {}
    signatures: dict[tuple[str, str], Mapping[str, str]] = {}
    for place, (_, base_block, _) in enumerate(matches):
        if base_block is not None and base_block.conflict:
            entry = base_block.sources[0][:2]
            texts.setdefault(entry, []).append(place)
            signatures[entry] = blocks.parts(base_block.raw)
    for entry, places in texts.items():
        for name in blocks.MARKS:
            mark = signatures[entry].get(name, "")
            found = {blocks.parts(matches[place].raw).get(name, "") for place in places}
            for place in places if mark in found and _is_pending(writer, *entry, name) else ():
                block = matches[place].block
                marked = block._replace(raw=blocks.sign(block.raw, **{name: mark}))
                matches[place] = matches[place]._replace(block=marked)
    return matches


def _is_pending(writer: FactWriter, doc: str, target: str, name: str) -> bool:
    begin = f"{target} {name}: "
    mark_facts = (facts for mark, facts in writer.seen.of(doc, "mark").items() if mark.startswith(begin))
    return any(all(fact.id in writer.new_ids for fact in heads(facts)) for facts in mark_facts)


# ------------------------------------------------------------ matching blocks


def match(
    base_blocks: Sequence[ShownBlock],
    found: Sequence[TextBlock],
    is_old: Callable[[TextBlock], bool] | None = None,
) -> tuple[list[_Match], list[ShownBlock]]:
    """Return the blocks of a file with their shown blocks, and the shown blocks that are left over.

    Blocks are matched by id, text, time, or position and similarity; a block with an id that a shown block
    has is matched by that id alone. `is_old` is given only for an uncertain base, and tells whether an entry
    once had a block's text. Then time and similarity do not count, since other people may have written at the
    same time.
    """
    left = dict(enumerate(base_blocks))
    pairs: dict[int, int] = {}

    def take(place: int, number: int) -> None:
        pairs[place] = number
        del left[number]

    doubled = _pair_by_id(found, left, take, is_old)
    found = [
        block._replace(raw=_without_id(block)) if place in doubled else block
        for place, block in enumerate(found)
    ]
    for place, number in _pair_equal(found, pairs, left, lambda block: block.words, _words):
        take(place, number)
    if is_old is None:
        known = {*pairs, *doubled}  # a copy is always a new block
        for place, number in _pair_equal(
            found, known, left, lambda block: block.instant, _instant, unique=True
        ):
            take(place, number)
        for place, number in _pair_by_neighbours(found, pairs, left, len(base_blocks), but=doubled):
            take(place, number)
    matches = [
        _Match(block, base_blocks[pairs[place]] if place in pairs else None, place in doubled)
        for place, block in enumerate(found)
    ]
    return matches, list(left.values())


def _without_id(block: TextBlock) -> str:
    """Return the text of a copied block without its id; for a copied version also without `contradicts`."""
    return blocks.sign(block.raw, id="", **({"contradicts": ""} if "~" in block.id else {}))


def _words(block: ShownBlock) -> str:
    return blocks.words_of(block.raw)


def _instant(block: ShownBlock) -> str:
    return blocks.instant_of(block.raw)


def _pair_by_id(
    found: Sequence[TextBlock],
    left: dict[int, ShownBlock],
    take: Callable[[int, int], None],
    is_old: Callable[[TextBlock], bool] | None,
) -> set[int]:
    """Match blocks with shown blocks by id, and return the positions of copied blocks.

    `take` is called for each match, with the positions of the block and of the shown block in `left`.
    """
    marks: dict[str, list[int]] = {}
    for place, block in enumerate(found):
        if block.id:
            marks.setdefault(block.id, []).append(place)
    id_by_words = {_words(base_block): base_block.id for base_block in left.values()}
    every = _BlockIds(left, sure=is_old is None)
    doubled: set[int] = set()
    used: set[int] = set()
    for mark in sorted(marks, key=every.rank):
        places = marks[mark]
        number = every.find(mark, {found[place].words for place in places})
        content = blocks.content(left[number].raw) if number is not None else ""
        same = [place for place in places if blocks.content(found[place].raw) == content]
        words = _words(left[number]) if number is not None else None
        like = [place for place in places if found[place].words == words]  # only the signature differs
        # A text that is also shown as another block is a copy with facts of its own.
        own = [place for place in places if id_by_words.get(found[place].words, mark) == mark]
        old = [place for place in places if len(places) > 1 and is_old is not None and is_old(found[place])]
        # If the same text is there without the id, the block with the id is an edited copy.
        bare: list[int] = []
        if number is not None and not (same or like or old):
            bare = _find_unsigned_copies(found, left, number, used, sure=is_old is None)
        keeper = (same or like or old or bare or own or places)[0]
        doubled.update(place for place in places if place != keeper)
        if number is not None:
            take(keeper, number)
            used.add(keeper)
    return doubled


def _find_unsigned_copies(
    found: Sequence[TextBlock],
    left: Mapping[int, ShownBlock],
    number: int,
    used: Collection[int],
    *,
    sure: bool,
) -> list[int]:
    """Return the positions of blocks without an id that have the time and the words of a shown block.

    The first such blocks are skipped if other shown blocks without an id have the same time and words: one
    for each of them. If `sure`, a shown block without an id has no such copies.
    """
    key = (_instant(left[number]), _words(left[number]))
    if not all(key) or (sure and not _has_id(left[number])):
        return []
    alike = [place for place, block in enumerate(found) if block.words == key[1] and not block.id]
    alike = [place for place in alike if found[place].instant == key[0] and place not in used]
    others = [each for each in left.values() if not _has_id(each)]
    return alike[sum((_instant(each), _words(each)) == key for each in others if each is not left[number]) :]


class _BlockIds:
    """An index of shown blocks by id, which also knows the ids of an entry's other versions."""

    def __init__(self, left: Mapping[int, ShownBlock], *, sure: bool) -> None:
        self.left, self.sure = left, sure
        self.exact = {block.id: number for number, block in left.items()}
        self.second = {block.second: number for number, block in left.items()}
        self.texts: dict[str, list[int]] = {}
        for number, block in left.items():
            self.texts.setdefault(block.sources[0].target, []).append(number)

    def rank(self, mark: str) -> int:
        """Return the order in which to look up an id.

        First come known ids of versions, then ids of entries, then unknown ids of versions.
        """
        if "~" not in mark:
            return 1
        return 0 if mark in self.exact or mark in self.second else 2

    def find(self, mark: str, words: Collection[str]) -> int | None:
        """Return the number of the shown block with this id, or None.

        Among the versions of an entry the version with these words is preferred, else the newest version.
        Unless `sure`, an unknown id of a version does not find the newest version.
        """
        exact, texts = self.exact.get(mark), self.texts.get(mark.partition("~")[0], [])
        same = [number for number in texts if number in self.left and _words(self.left[number]) in words]
        if "~" in mark:
            listed = [exact, self.second.get(mark), *same, *(reversed(texts) if self.sure else ())]
        else:
            listed = [*(same if exact not in same else ()), exact, *reversed(texts)]
        return next((number for number in listed if number in self.left), None)


def _pair_equal(
    found: Sequence[TextBlock],
    pairs: Collection[int],
    left: Mapping[int, ShownBlock],
    one: Callable[[TextBlock], str],
    other: Callable[[ShownBlock], str],
    *,
    unique: bool = False,
) -> list[tuple[int, int]]:
    """Return pairs of positions: a block in the file and a shown block with an equal key.

    `one` and `other` return the keys. The first block with a key is paired with the first shown block with
    that key, and so on. With `unique`, only keys count that one block on each side has. A block with an id is
    paired only without `unique`, and only with a shown block that has no id.
    """
    numbers: dict[str, list[int]] = {}
    for number, base_block in left.items():
        if key := other(base_block):
            numbers.setdefault(key, []).append(number)
    places: dict[str, list[int]] = {}
    for place, block in enumerate(found):
        if place not in pairs and (key := one(block)):
            places.setdefault(key, []).append(place)
    return [
        (place, number)
        for key, here in places.items()
        if key in numbers and not (unique and (len(here) > 1 or len(numbers[key]) > 1))
        for place, number in zip(here, numbers[key], strict=False)
        if not (found[place].id and (unique or _has_id(left[number])))
    ]


def _has_id(block: ShownBlock) -> bool:
    """Return whether a shown block has an id; it never matches a block with a different id."""
    return "id" in blocks.parts(block.raw)


def _pair_by_neighbours(
    found: Sequence[TextBlock],
    pairs: Mapping[int, int],
    left: Mapping[int, ShownBlock],
    count: int,
    *,
    but: Collection[int],
) -> list[tuple[int, int]]:
    """Return pairs of similar blocks that lie between the same matched neighbours.

    Blocks with an id, and those at the positions in `but`, are left out.
    """
    paired = []
    pair_numbers: set[int] = set()
    for place, block in enumerate(found):
        if place in pairs or place in but or block.id:
            continue
        above = next((pairs[each] for each in range(place - 1, -1, -1) if each in pairs), -1)
        below = next((pairs[each] for each in range(place + 1, len(found)) if each in pairs), count)
        likely = [number for number in left if above < number < below and number not in pair_numbers]
        scores = [(_similarity(block, left[number]), -number) for number in likely]
        score, number = max(scores, default=(0.0, 0))
        if score >= MIN_SIMILARITY:
            paired.append((place, -number))
            pair_numbers.add(-number)
    return paired


def _similarity(block: TextBlock, base_block: ShownBlock) -> float:
    one, other = block.words[:_LONGEST], _words(base_block)[:_LONGEST]
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= MIN_SIMILARITY else 0.0


# ------------------------------------------------------------ exact bytes


def _make_exact(
    writer: FactWriter, base: ShownFile | None, page: CutText, doc: str, standing: list[_WrittenBlock]
) -> None:
    """Write further facts so that the facts make the file as it is: its blocks, their order, its layout.

    The texts of conflicting versions are left out.
    """
    docs = base.docs if base is not None else (doc,)
    now, before = show(writer.seen, docs, writer.signing), len(writer.made)
    block_by_fact = {fact_id: each for each in now.blocks for fact_id in each.fact_ids}
    for each in standing:
        there = next((block_by_fact[fact_id] for fact_id in each.fact_ids if fact_id in block_by_fact), None)
        if not each.exact or there is None or there.conflict:
            continue
        if there.raw != each.raw if writer.signing.exact else _is_different(writer, there.raw, each.raw):
            based_on = writer.seen.with_replaced(each.fact_ids)
            fact = writer.write(each.doc, "put", each.target, value={"raw": each.raw}, based_on=based_on)
            each.fact_ids = (fact.id,)
    if len(writer.made) > before:
        now = show(writer.seen, docs, writer.signing)
        block_by_fact = {fact_id: each for each in now.blocks for fact_id in each.fact_ids}
    ordered = [
        block_by_fact[each.fact_ids[0]]
        for each in standing
        if each.fact_ids and each.fact_ids[0] in block_by_fact
    ]
    if [each.key[:3] for each in ordered] != [each.key[:3] for each in now.blocks]:
        _write_positions(writer, ordered)
        now = show(writer.seen, docs, writer.signing)
    if now.text != blocks.join(page) and not _is_laid_out(now, page):
        marks: dict[int | str, str] = {place: each.id for place, each in enumerate(ordered)}
        _write_layout(writer, doc, page, marks)


def _is_different(writer: FactWriter, one: str, other: str) -> bool:
    return writer.signing.content(one) != writer.signing.content(other)


def _is_laid_out(now: ShownFile, page: CutText) -> bool:
    """Return whether the shown and the typed file have the same frontmatter, head, gaps and line ends."""
    try:
        new = blocks.cut(now.text, now.path)
    except Malformed:  # without its layout the text may look like frontmatter
        return False
    if [each.raw for each in new.blocks] != [each.raw for each in now.blocks]:
        return False  # the head runs into the first block
    return (new.front, new.head, new.eol, new.gaps) == (page.front, page.head, page.eol, page.gaps)


def _write_positions(writer: FactWriter, ordered: Sequence[ShownBlock]) -> None:
    """Write position facts so that the blocks sort in this order, for as few blocks as possible."""
    ordered_places = _longest_increasing([each.key for each in ordered])
    above: tuple[str, str, str, int] = ("", "", "", 0)
    for place, each in enumerate(ordered):
        key = each.key
        if place not in ordered_places or key <= above:
            below = next(
                (ordered[later].key for later in range(place + 1, len(ordered)) if later in ordered_places),
                None,
            )
            room = below[1] if below is not None and below[0] == above[0] and below[1] > above[1] else None
            where = [above[0], between(above[1], room)]
            source = each.sources[0]
            writer.write(source.doc, "pos", source.target, value=where)
            key = (where[0], where[1], source.target, each.key[3])
        above = max(above, key)


def between(low: str, high: str | None) -> str:
    """Return a text that sorts after `low` and before `high`, or only after `low` if `high` is None.

    The text has letters from a to z and never ends with `a`, so there is always room for a further text.
    """
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
    # `high` is `low` with an `a` or `b` after it: a smaller text continues with `a`.
    return low + "a" + between("", high[at + 1 :] if high[at] == "a" else None)


def _longest_increasing(keys: Sequence[tuple[str, str, str, int]]) -> set[int]:
    """Return the positions of a longest increasing subsequence, whose blocks need not move."""
    import bisect

    tails: list[tuple[str, str, str, int]] = []
    last: list[int] = []
    before: list[int] = []
    for place, key in enumerate(keys):
        at = bisect.bisect_left(tails, key)
        before.append(last[at - 1] if at else -1)
        tails[at : at + 1] = [key]
        last[at : at + 1] = [place]
    places: set[int] = set()
    place = last[-1] if last else -1
    while place >= 0:
        places.add(place)
        place = before[place]
    return places
