"""Edit entries where there are facts but no files, such as on a hub's page.

This module makes the text that a file would have after the edit. `diff` then makes the facts from that text,
as it does when a person edits the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Conflict, NotFound, UsageError
from vademecum.sync import blocks
from vademecum.sync.diff import FactWriter, diff
from vademecum.sync.projection import FactSet, ShownBlock, ShownFile, is_member, project
from vademecum.text import clock, document, names
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from vademecum.sync.facts import SyncFact

__all__ = [
    "ALL", "DOOR", "EditPlace", "FactSet", "ShownBlock", "ShownFile", "add_entry", "append_entry", "blocks",
    "change_entry", "edit_facts", "group_versions", "project", "settle", "verified_by",
    "vouch_facts",
]  # fmt: skip

ALL = "all"  # keep all versions: each becomes an entry of its own
DOOR = "page"


class EditPlace(NamedTuple):
    """The place to which an edit adds its facts: the stream and the replica that writes.

    `last` is the replica's last fact, `lamport` the largest Lamport clock in the stream.
    """

    stream: str
    replica: str
    last: SyncFact | None
    lamport: int

    def writer(self, seen: FactSet) -> FactWriter:
        """Return a writer that knows the facts in `seen` and continues after the replica's last fact."""
        return FactWriter(self.stream, self.replica, seen, self.last, self.lamport, interface=DOOR)


def group_versions(file: ShownFile) -> list[list[ShownBlock]]:
    """Return the versions of each entry that has several conflicting versions, one list for each entry."""
    groups: dict[tuple[str, str], list[ShownBlock]] = {}
    for each in file.blocks:
        if each.conflict:
            groups.setdefault(each.sources[0][:2], []).append(each)
    return [group for group in groups.values() if len(group) > 1]


def verified_by(state: FactSet, file: ShownFile, block: ShownBlock) -> dict[str, tuple[SyncFact, ...]]:
    """Return the members who vouch for exactly this block's text, each with the facts about the vouch."""
    begin = f"{blocks.name_of(block.raw)} "
    found: dict[str, tuple[SyncFact, ...]] = {}
    for doc in file.docs:
        for target, facts in state.of(doc, "vouch").items():
            if target.startswith(begin) and is_member(facts):
                found[target.removeprefix(begin)] = tuple(facts)
    return found


# ------------------------------------------------------------ the text of the file


def change_entry(file: ShownFile, entry: str, text: str) -> str:
    """Return the file's text with a new text for the entry with this id; an empty text removes the entry."""
    number = _find_block(file, entry)
    if not text.strip():
        return _replace_blocks(file, {number: None})
    return _replace_blocks(file, {number: _reword_block(file, number, text)})


def add_entry(file: ShownFile, text: str, at: datetime) -> str:
    """Return the file's text with a new entry or section at its end; refuse an empty text."""
    if not text.strip():
        raise UsageError("an entry needs a text")
    return append_entry(file.text, file.path, text, at)


def append_entry(whole: str, path: str, text: str, at: datetime) -> str:
    """Return the text of a file, `whole`, with a new entry or section at its end."""
    if blocks.is_pinned(path):
        return f"{whole.rstrip()}\n\n{document.tidy(text)}\n".lstrip("\n")
    entry = Entry(document.tidy(text), clock.stamp(at), Origin.USER, id=names.new_mark())
    return document.append(whole, entry)


def settle(file: ShownFile, entry: str, keep: str, text: str = "") -> str:
    """Return the file's text after a person has settled the conflict between an entry's versions.

    A `text` that is not empty replaces all versions. Otherwise `keep` is the id of the only version to keep,
    or `ALL`, by which each version becomes an entry.
    """
    group = next((each for each in group_versions(file) if each[0].id == entry), None)
    if group is None:
        raise Conflict("there are no two versions of this entry any more", hint="look at it again")
    ids = [each.id for each in group]
    numbers = [_find_block(file, each) for each in ids]
    if text.strip():
        rest: dict[int, str | None] = dict.fromkeys(numbers[1:])
        return _replace_blocks(file, {numbers[0]: _reword_block(file, numbers[0], text), **rest})
    if keep == ALL:
        lifted: dict[int, str | None] = {
            number: blocks.sign(file.blocks[number].raw, contradicts="") for number in numbers[1:]
        }
        return _replace_blocks(file, lifted)
    if keep not in ids:
        raise UsageError("this is no version of that entry")
    return _replace_blocks(
        file, {number: None for number, each in zip(numbers, ids, strict=True) if each != keep}
    )


def _find_block(file: ShownFile, entry: str) -> int:
    for number, each in enumerate(file.blocks):
        if each.id == entry:
            return number
    raise NotFound("this entry does not exist any more", hint="look at the document again")


def _replace_blocks(file: ShownFile, changes: dict[int, str | None]) -> str:
    """Return the file's text with changed blocks, given by number; a change to None removes a block."""
    page = blocks.cut(file.text, file.path)
    if [each.raw for each in page.blocks] != [each.raw for each in file.blocks]:
        raise Conflict("this document can only be edited as a file", hint="edit it on a machine, and sync")
    made = [
        block._replace(raw=raw)
        for number, block in enumerate(page.blocks)
        if (raw := changes.get(number, block.raw)) is not None
    ]
    return blocks.join(page._replace(blocks=tuple(made)))


def _reword_block(file: ShownFile, number: int, text: str) -> str:
    """Return a block with its text replaced by a person's new text.

    An entry keeps its time heading and its id; a section of a pinned document loses its old heading.
    """
    raw, new_text = file.blocks[number].raw, document.tidy(text)
    signed = {name: value for name, value in blocks.parts(raw).items() if name not in ("by", "cites")}
    if blocks.is_pinned(file.path):
        return blocks.sign(new_text, **signed)
    sections = document.parse(raw).sections
    if len(sections) != 1:
        raise Conflict("this entry can only be edited as a file", hint="edit it on a machine, and sync")
    inner = raw[sections[0].text_start : sections[0].text_end]
    lead = raw[: sections[0].text_start] + inner[: len(inner) - len(inner.lstrip("\r\n"))]
    own = file.blocks[number].id.partition("~")[0]
    signature = {**signed, "origin": str(Origin.USER), "id": own, "contradicts": ""}
    return blocks.sign(lead + document.escape(new_text), **signature)


# ------------------------------------------------------------ facts


def edit_facts(
    place: EditPlace, seen: FactSet, base: ShownFile | None, path: str, text: str
) -> Sequence[SyncFact]:
    """Return the facts that change the file `base` to this text; `base` is None for a new file."""
    writer = place.writer(seen)
    doc = "" if base is not None else blocks.document_id(path, None)
    diff(writer, base, path, text, doc=doc)
    return writer.made


def vouch_facts(
    place: EditPlace, seen: FactSet, file: ShownFile, block: ShownBlock, member: str, *, yes: bool
) -> Sequence[SyncFact]:
    """Return the facts by which a member vouches for a block's text, or without `yes` withdraws the vouch."""
    writer = place.writer(seen)
    target = f"{blocks.name_of(block.raw)} {member}"
    docs = file.docs if not yes else (block.sources[0].doc,)
    for doc in docs:
        known = seen.of(doc, "vouch").get(target, [])
        if is_member(known) is not yes:
            based_on = tuple(sorted(fact.id for fact in known))
            writer.write(doc, "vouch", target, value=yes, based_on=based_on, origin=str(Origin.USER))
    return writer.made
