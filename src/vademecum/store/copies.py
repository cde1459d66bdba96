"""Finder and merger of second copies: duplicates that a sync tool left beside the original file.

Syncthing, Dropbox, iCloud, git and other tools keep two versions of a file under two names. Some names can
only be those of copies; others (`x 2.md`) people also choose themselves, and there the id in the file
decides. A merge keeps every entry of all versions. It depends on their contents, and not on names or order,
so two machines that merge the same versions write the same bytes.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import itertools
import re
import unicodedata
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed, OutsideMemory
from vademecum.fields import FIELDS, MergeRule
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.store import archive
from vademecum.text import clock, document, filenames, frontmatter, names
from vademecum.text.document import decode
from vademecum.text.filenames import is_day
from vademecum.types import Finding, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from vademecum.store.backend import Directory
    from vademecum.store.home import Home, ScopeFolder
    from vademecum.types import Entry

    Identity = Callable[[str], str | None]
    Mark = tuple[str, str, str]  # time, part, text

WHAT = "copy"
MEND = "vade merge"
_ENDING = ".md"
_CONTEXT = "context.md"
_HEAD = 1024  # bytes; the labels of a record stand at its beginning
_ID = lazy_pattern(rb"^id:[ \t]*[\"']?([^\s\"']+)", re.MULTILINE)

# What stands between the name of a file and its ending when a tool could not merge two versions of it.
_CERTAIN = (
    lazy_pattern(r"\.sync-conflict-\d{8}-\d{6}(?:-[A-Z0-9]{4,10})?"),  # Syncthing
    lazy_pattern(r"_conflict-\d{8}-\d{6}"),  # ownCloud, Nextcloud
    lazy_pattern(r"\.conflict\d{0,3}", re.IGNORECASE),  # Resilio, rclone
    lazy_pattern(r" ?\[conflict\]", re.IGNORECASE),  # Google Drive
    lazy_pattern(r"_[^_]+_[A-Z][a-z]{2}-\d\d-\d{4,6}-\d{4}_[A-Za-z]*Conflict(?:_\d{1,3})?"),  # Synology
    lazy_pattern(r"_(?:BACKUP|BASE|LOCAL|REMOTE)_\d+"),  # git mergetool
    lazy_pattern(r"\.conflict-\d{8}T\d{6}-[0-9a-f]{16}"),  # ours, of a save that nobody had seen
)
# The same in parentheses, which may hold a name with parentheses of its own.
_PARENTHESES = lazy_pattern(r" ?\(((?:[^()]|\([^()]*\))+)\)")
_INSIDE = lazy_pattern(
    r".*\bconflicted copy\b.*"  # Dropbox, Nextcloud, Obsidian
    r"|(?:case|unicode encoding|selective sync|white ?space) conflict(?: \d{1,3})?"  # Dropbox
    r"|in konflikt stehende kopie\b.*|copie en conflit\b.*|copia en conflicto\b.*|copia in conflitto\b.*"
    r"|c[oó]pia em conflito\b.*|conflicterende kopie\b.*|.*競合コピー.*"
    r"|sfconflict(?: \S+)? \d{4}(?:-\d\d){5}"  # Seafile
    r"|conflict_.+_\d{4}(?:-\d\d){5}",  # FileCloud
    re.IGNORECASE,
)
# What may as well be a name that somebody chose.
_NUMBERED = lazy_pattern(r"(?: \d{1,3}| ?\(\d{1,3}\)| - copy| copy| ?\(copy\))", re.IGNORECASE)
# A version whose name does not end as a record's does: git's when a folder came in the way, and rclone's.
_BEHIND = lazy_pattern(r"(.+\.md)(?:~[^~]+|\.conflict\d{0,3})")
_BREAK = lazy_pattern(r"[ ._()\[\]-]+")
_MOST_BREAKS = 12
_NAMES = ("created", "id", "num")
_LISTS = [field.name for field in FIELDS if field.merge in (MergeRule.UNION, MergeRule.BY_SESSION)]
_UNCLEAR = "its entries cannot be distinguished; compare both files by hand"


# -------------------------------------------------------------------- names


def find(listed: Collection[str], identity: Identity) -> dict[str, str]:
    """Return the second copies among a folder's records, each with its original.

    `identity` returns the id in a file; it is called only where names alone do not show whether it is a copy.
    """
    odd = [name for name in names.not_keys(listed) if not name.endswith("~")]  # an editor's backup is none
    if not odd:
        return {}
    here = _Folded(listed)
    found: dict[str, str] = {}
    for name in sorted(odd):
        original = _certain(name, here) or _other_spelling(name, here) or _by_id(name, here, identity)
        if original is not None:
            found[name] = original
    return {name: _root(name, found) for name in found}


def find_named(listed: Collection[str], wanted: Callable[[str], bool]) -> dict[str, str]:
    """Return the second copies of journal days or pinned documents, found by name, with their originals.

    `wanted` returns whether a name is that of an original.
    """
    return dict(_find_named(tuple(listed), wanted))


@functools.lru_cache(maxsize=16)
def _find_named(listed: tuple[str, ...], wanted: Callable[[str], bool]) -> tuple[tuple[str, str], ...]:
    # Each search asks this of every folder, and a journal of years has thousands of days.
    odd = sorted(name for name in listed if not wanted(name) and not name.endswith("~"))
    if not odd:
        return ()
    here = _Folded([name for name in listed if wanted(name)])
    originals = (
        (name, _certain(name, here) or _numbered(name, here) or _other_spelling(name, here)) for name in odd
    )
    return tuple((name, original) for name, original in originals if original is not None)


def hidden_in(folder: Directory, listed: Collection[str]) -> dict[str, str]:
    """Return the second copies among the records of a folder, each with its original."""
    return find(listed, lambda name: _read_id(folder, name))


class SecondCopy(NamedTuple):
    """A second copy of a file, and its original."""

    scope_folder: ScopeFolder
    kind: str  # as the archive calls it
    name: str
    original: str

    @property
    def path(self) -> str:
        """Return the path of the copy as users see it."""
        return self.scope_folder.name_of(*self.below, self.name)

    @property
    def below(self) -> tuple[str, ...]:
        """Return the subfolder of the scope folder in which the copy lies, as path parts."""
        return () if self.kind == filenames.PINNED else (self.kind,)

    @property
    def finding(self) -> Finding:
        """Return a finding that reports the copy to users."""
        why = f"a conflict copy of {self.original}, hidden from search and agents"
        mend = f"{MEND} --apply" if self.scope_folder.trusted else "vade review trust"
        what = "conflict" if filenames.is_conflict(self.name) else WHAT
        return Finding(what, self.path, why, mend, place=self.scope_folder.place)


def on_folder(scope_folder: ScopeFolder, *, journal: bool) -> Iterator[SecondCopy]:
    """Yield the second copies of records, pinned documents and (with `journal`) journal days in a folder."""
    for kind, wanted in _kinds_on(scope_folder, journal=journal):
        with contextlib.suppress(OutsideMemory, OSError):
            folder = scope_folder.open(*(() if kind == filenames.PINNED else (kind,)))
            if folder is None:
                continue
            with folder:
                listed = folder.names(ordered=False)
                found = hidden_in(folder, listed) if kind == filenames.RECORDS else find_named(listed, wanted)
            yield from (SecondCopy(scope_folder, kind, name, found[name]) for name in sorted(found))


def _kinds_on(scope_folder: ScopeFolder, *, journal: bool) -> list[tuple[str, Callable[[str], bool]]]:
    """Return the kinds of files in a scope folder, each with a test for names; `journal` adds the journal."""
    documents = {
        each
        for each in scope_folder.place.scope.rule.documents
        if not scope_folder.shared or each == _CONTEXT
    }
    kinds: list[tuple[str, Callable[[str], bool]]] = [(filenames.RECORDS, bool)]
    kinds += [(filenames.JOURNAL, is_day)] if journal and not scope_folder.shared else []
    kinds += [(filenames.PINNED, documents.__contains__)] if documents else []
    return kinds


def sentence(found: Sequence[Finding]) -> str:
    """Return one sentence about the hidden copies, for commands about something else; empty when none."""
    if not found:
        return ""
    count = "1 second copy is" if len(found) == 1 else f"{len(found):,} second copies are"
    return f"{count} hidden, first {found[0].where}; `{MEND}` shows the merge"


class _Folded:
    """A folder's names, indexed by their form on systems that ignore case and Unicode composition."""

    def __init__(self, listed: Iterable[str]) -> None:
        self._names: dict[str, list[str]] = {}
        for name in listed:
            self._names.setdefault(names.folded(name), []).append(name)

    def like(self, name: str) -> list[str]:
        """Return the names that equal this one except in case or composition, the preferred one first."""
        return sorted(self._names.get(names.folded(name), ()), key=_keeping)


def _keeping(name: str) -> tuple[bool, bool, str]:
    """Return the sort key of a spelling: a valid key first, then the Unicode form that most systems use."""
    return not names.is_key(name.removesuffix(_ENDING)), unicodedata.normalize("NFC", name) != name, name


def _certain(name: str, here: _Folded) -> str | None:
    """Return the file of which this name is certainly a copy, else None."""
    behind = _BEHIND.fullmatch(name)
    if behind:
        return next(iter(here.like(behind[1])), None)
    stem = name.removesuffix(_ENDING)
    sure = False
    while stem != name:
        shorter = _without_conflict(stem)
        # A copy of a copy is numbered again; a number alone says nothing.
        number = None if shorter else _cut(_NUMBERED, stem)
        if shorter is None and (number is None or _without_conflict(number) is None):
            break
        stem, sure = shorter or number or stem, sure or shorter is not None
    others = [each for each in here.like(f"{stem}{_ENDING}") if each != name] if sure else []
    return others[0] if others else None


def _without_conflict(stem: str) -> str | None:
    for each in _CERTAIN:
        shorter = _cut(each, stem)
        if shorter:
            return shorter
    at = stem.find("(")
    while at > 0:
        start = at - 1 if stem[at - 1] == " " else at
        match = _PARENTHESES.fullmatch(stem, start)
        if match and _INSIDE.fullmatch(match[1]):
            return stem[:start] or None
        at = stem.find("(", at + 1)
    return None


def _cut(pattern: re.Pattern[str], stem: str) -> str | None:
    """Return a file's stem without a match of the pattern at its end; None when nothing matches there."""
    for match in pattern.finditer(stem):
        if match.end() == len(stem) and match.start():
            return stem[: match.start()]
    return None


def _numbered(name: str, here: _Folded) -> str | None:
    shorter = _cut(_NUMBERED, name.removesuffix(_ENDING)) if name.endswith(_ENDING) else None
    return next(iter(here.like(f"{shorter}{_ENDING}")), None) if shorter else None


def _other_spelling(name: str, here: _Folded) -> str | None:
    first = next(iter(here.like(name)), name)
    return first if first != name else None


def _by_id(name: str, here: _Folded, identity: Identity) -> str | None:
    """Return a file with the same id whose name is a part of this name, else None."""
    stem = name.removesuffix(_ENDING)
    breaks = [match.span() for match in _BREAK.finditer(stem)]
    parts = [stem[:start] for start, _ in reversed(breaks[-_MOST_BREAKS:])]
    parts += [stem[end:] for _, end in breaks[:_MOST_BREAKS]]
    for part in parts:
        for other in here.like(f"{part}{_ENDING}") if part else ():
            own = identity(name)
            if own is not None and other != name and identity(other) == own:
                return other
    return None


def _root(name: str, found: Mapping[str, str]) -> str:
    seen = {name}
    while (above := found[name]) in found and above not in seen:
        seen.add(above)
        name = above
    return found[name]


def _read_id(folder: Directory, name: str) -> str | None:
    try:
        with folder.reader(name) as file:
            head = file.read(_HEAD).replace(b"\r\n", b"\n").removeprefix(b"\xef\xbb\xbf")
    except (OSError, Malformed):
        return None
    if not head.startswith(b"---\n"):
        return None
    match = _ID.search(head.partition(b"\n---")[0])
    return match[1].decode(errors="replace") if match else None


# -------------------------------------------------------------------- merging


class MergedFiles(NamedTuple):
    """A file and its second copies as they are, their merged content, and the texts that only copies have."""

    original: bytes
    copies: Mapping[str, bytes]
    merged: bytes
    new: tuple[str, ...]


def merge_files(home: Home, some: Sequence[SecondCopy]) -> MergedFiles:
    """Read a file and its second copies and merge their contents, without writing."""
    first = some[0]
    folder = first.scope_folder.open(*first.below)
    if folder is None:
        raise Malformed("its folder is gone")
    with folder:
        read = {name: folder.read(name) for name in (first.original, *(each.name for each in some))}
    there = {name: content for name, content in read.items() if content is not None}
    if there.keys() != read.keys():
        raise Malformed("it is gone")
    original = there.pop(first.original)
    if first.kind == filenames.PINNED:
        merged = merge_pinned([original, *there.values()])
    else:
        merged = merge([original, *there.values()], vouched=_vouched(home, first, original))
    known = set(_texts(first.kind, original))
    new = tuple(text for text in _texts(first.kind, merged) if text not in known)
    return MergedFiles(original, there, merged, new)


def _vouched(home: Home, copy: SecondCopy, original: bytes) -> Callable[[Entry], Origin] | None:
    """Return a function for the origin of a copy's entry in a shared folder; None for other folders.

    An entry has the origin that the original file or the log of acknowledged entries states; else it is
    external, because anybody can write such a copy.
    """
    if not copy.scope_folder.shared:
        return None
    known = {archive.fingerprint(each): each for each in document.parse(decode(original)).entries}
    log = archive.kept(home, copy.scope_folder, copy.kind, copy.original)
    logged = {archive.fingerprint(each): each.origin for _, each in log}

    def origin_of(entry: Entry) -> Origin:
        mark = archive.fingerprint(entry)
        if mark in known:  # as it is signed there, whatever that is worth
            return known[mark].origin or Origin.USER
        return logged.get(mark) or Origin.EXTERNAL

    return origin_of


def _texts(kind: str, content: bytes) -> list[str]:
    text = decode(content)
    if kind == filenames.PINNED:
        return [line for line in text.splitlines() if line.strip()]
    return [entry.text for entry in document.parse(text).entries]


class _Piece(NamedTuple):
    """An entry in a single version: the key that identifies it in all versions, its bytes and its marks."""

    mark: Mark
    time: str  # its own, or that of the entry before it
    raw: str
    signed: bool
    origin: Origin | None
    superseded: str | None
    stale: str | None
    contradicts: str | None


def merge(versions: Iterable[bytes], *, vouched: Callable[[Entry], Origin] | None = None) -> bytes:
    """Merge the versions of a file into one with every entry; the order of the versions does not matter.

    Each entry appears once, superseded if any version says so, with the least trusted of its origins. The
    order within each version is kept unless the versions contradict each other; else time, then text, decide.
    `vouched` returns an entry's origin where the file's own signature cannot be trusted.
    """
    read = sorted({decode(each) for each in versions})
    if len(read) == 1:
        return read[0].encode()
    parsed = [document.parse(each) for each in read]
    sequences = [[*_pieces(each)] for each in parsed]
    joined: dict[Mark, list[_Piece]] = {}
    for piece in itertools.chain.from_iterable(sequences):
        joined.setdefault(piece.mark, []).append(piece)
    order = _ordered([[each.mark for each in sequence] for sequence in sequences], _times(joined))
    base = _chosen(parsed)
    pieces = [joined[mark] for mark in order]
    text = _marked(_assembled(base, pieces), pieces, vouched)
    text = document.without_shared_ids(text)
    merged = frontmatter.edit(text, _fields(base.front.values, [each.front.values for each in parsed]))
    _check(merged, order)
    return merged.encode()


def _head(parsed: document.Document) -> str:
    """Return the text before the first entry."""
    end = parsed.sections[0].start if parsed.sections else len(parsed.source)
    return parsed.source[:end].replace("\r\n", "\n").rstrip()


def _chosen(parsed: Sequence[document.Document]) -> document.Document:
    """Return the base of the merge: of the newest versions, the one with fewest fields to change."""
    every = [each.front.values for each in parsed]
    newest = max(str(each.get("updated") or "") for each in every)
    last = [each for each in parsed if str(each.front.values.get("updated") or "") == newest]
    learns = {id(each): len(_fields(each.front.values, every)) for each in last}
    return max(last, key=lambda each: (-learns[id(each)], _head(each)))


def _assembled(base: document.Document, pieces: Sequence[Sequence[_Piece]]) -> str:
    """Return the start of the base version followed by the entries of all versions, not yet marked."""
    following = [*(each[0].mark for each in pieces[1:]), None]
    bodies = [_body(each, before=mark) for each, mark in zip(pieces, following, strict=False)]
    text = "\n\n".join([*filter(None, [_head(base)]), *bodies]) + "\n"
    return text.replace("\n", frontmatter.line_ending(base.source))


def _body(pieces: Sequence[_Piece], *, before: Mark | None) -> str:
    """Return an entry's longest wording, signed to separate it from a next entry (`before`) without time."""
    fullest = max(pieces, key=lambda each: (len(each.raw), each.raw))
    sign = not fullest.signed and before is not None and not before[0]
    return fullest.raw + (f"\n<!-- origin: {Origin.USER} -->" if sign else "")


def _pieces(parsed: document.Document) -> Iterator[_Piece]:
    time = ""
    for section, entry in zip(parsed.sections, parsed.entries, strict=True):
        time = entry.time or time
        yield _Piece(
            (entry.time or "", entry.part or "", entry.text),
            time,
            parsed.source[section.start : section.end].replace("\r\n", "\n").strip("\n").rstrip(),
            section.signed is not None,
            entry.origin,
            entry.superseded,
            entry.stale,
            entry.contradicts,
        )


def _times(joined: Mapping[Mark, Sequence[_Piece]]) -> dict[Mark, str]:
    def moment(time: str) -> str:
        found = clock.parse(time)
        return time if found is None else clock.stamp(found)

    return {mark: min(moment(each.time) for each in pieces) for mark, pieces in joined.items()}


def _ordered(
    sequences: Sequence[Sequence[Mark]], times: Mapping[Mark, str], *, in_runs: bool = False
) -> list[Mark]:
    """Return all marks, ordered as in each sequence, and else by time and text.

    If sequences contradict each other, only time and text decide. With `in_runs`, the successor in the same
    sequence comes first, so that the lines of a paragraph stay together.
    """
    from graphlib import CycleError, TopologicalSorter  # no other command merges copies

    graph: TopologicalSorter[Mark] = TopologicalSorter()
    for sequence in sequences:
        unique = [*dict.fromkeys(sequence)]
        for at, mark in enumerate(unique):
            graph.add(mark, *unique[at - 1 : at])
    try:
        graph.prepare()
    except CycleError:
        return sorted(times, key=lambda mark: (times[mark], mark))
    found: list[Mark] = []
    waiting: list[tuple[int, str, Mark]] = []
    while graph.is_active():
        for mark in graph.get_ready():
            heapq.heappush(waiting, (-len(found) if in_runs else 0, times[mark], mark))
        found.append(heapq.heappop(waiting)[-1])
        graph.done(found[-1])
    return found


def _marked(text: str, pieces: Sequence[Sequence[_Piece]], vouched: Callable[[Entry], Origin] | None) -> str:
    """Return the text with each entry's marks from all versions and its least trusted origin.

    With `vouched`, an entry has the origin that this function returns.
    """
    parsed = document.parse(text)
    entries = parsed.entries
    if len(entries) != len(pieces):
        raise Malformed(_UNCLEAR)
    for index, versions in reversed([*enumerate(pieces)]):  # from the end, so that earlier places stay
        entry = entries[index]
        own = {each.origin or Origin.USER for each in versions} if vouched is None else {vouched(entry)}
        marks: dict[str, Any] = {
            name: min((value for each in versions if (value := getattr(each, name))), default=None)
            for name in ("superseded", "stale", "contradicts")
        }
        changed = {name: value for name, value in marks.items() if value != getattr(entry, name)}
        lowest = max(own, key=lambda each: each.rank)
        if lowest != (entry.origin or Origin.USER):
            changed["origin"] = lowest
        if changed:
            parsed = parsed._replace(source=document.sign(parsed, index, **changed))
    return parsed.source


def _fields(own: Mapping[str, Any], versions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the changes to the frontmatter `own` that make it the merge of all versions' frontmatter."""
    changes: dict[str, Any] = {}
    for values in versions:
        changes |= {name: value for name, value in values.items() if name not in own and name not in changes}
    changes |= _first_names(versions) | _joined_lists(own, versions) | _protection(versions)
    if any(each.get("verified") != own.get("verified") for each in versions):
        changes["verified"] = None  # it was said of another text
    return {name: value for name, value in changes.items() if value != own.get(name)}


def _first_names(versions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `created` of the oldest version; if the versions have different ids, also its id and number."""
    older = min(versions, key=lambda each: [str(each.get(name) or "~") for name in _NAMES])
    apart = len({str(each["id"]) for each in versions if each.get("id")}) > 1
    return {name: older[name] for name in (_NAMES if apart else _NAMES[:1]) if older.get(name)}


def _joined_lists(own: Mapping[str, Any], versions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the merged lists of those fields to which another version adds elements."""
    found = {}
    for name in _LISTS:
        lists = [each[name] for each in (own, *versions) if isinstance(each.get(name), list)]
        joined = _union(lists)
        if joined and (not isinstance(own.get(name), list) or len(joined) > len(own[name])):
            found[name] = joined
    return found


def _protection(versions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the protection fields: protected if any version is; a person's protection wins."""
    guarded = [each for each in versions if each.get("protected") is True]
    if not guarded:
        return {}
    by_a_person = any(each.get("protected_by") is None for each in guarded)
    return {"protected": True, "protected_by": None if by_a_person else str(Origin.AGENT)}


def _union(lists: Iterable[Sequence[Any]]) -> list[Any]:
    found: dict[str, Any] = {}
    for each in lists:
        for value in each:
            found.setdefault(repr(value), value)
    return [*found.values()]


def _check(merged: str, order: Sequence[Mark]) -> None:
    """Raise an error if the merged text does not contain exactly the given entries in this order."""
    there = [(entry.time or "", entry.part or "", entry.text) for entry in document.parse(merged).entries]
    if there != [*order]:
        raise Malformed(_UNCLEAR)


def merge_pinned(versions: Iterable[bytes]) -> bytes:
    """Merge versions of a pinned document, section by section, into one with the lines of all versions."""
    read = sorted({decode(each) for each in versions})
    if len(read) == 1:
        return read[0].encode()
    fronts = [frontmatter.parse(each) for each in read]
    base, front = max(
        zip(read, fronts, strict=True),
        key=lambda each: (str(each[1].values.get("updated") or ""), each[0][: each[1].body], each[0]),
    )
    newline = frontmatter.line_ending(base)
    split = [_sections_of(each) for each in read]
    order = _ordered(
        [[("", "", heading) for heading in each] for each in split],
        {("", "", heading): "" for each in split for heading in each},
        in_runs=True,
    )
    sections = []
    for _, _, heading in order:
        blocks = [each[heading] for each in split if heading in each]
        sections.append("\n".join([*([heading] if heading else []), *_merge_lines(blocks)]).strip("\n"))
    body = "\n\n".join(each for each in sections if each)
    return (base[: front.body] + f"{body}\n".replace("\n", newline)).encode()


def _sections_of(text: str) -> dict[str, list[str]]:
    """Return the lines below each heading of a text; lines before the first heading have an empty heading."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in text[frontmatter.parse(text).body :].replace("\r\n", "\n").split("\n"):
        if re.match(r"#{1,6} ", line):
            heading = line.rstrip()
            found.setdefault(heading, [])
        else:
            found.setdefault(heading, []).append(line.rstrip())
    return found


def _merge_lines(blocks: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of all versions of a section, shared ones once, the least trusted signature last."""
    signatures = [line for block in blocks for line in block if document.signed_origin(line) is not None]
    plain = [[line for line in block if line not in signatures] for block in blocks]
    marked = [_numbered_lines(block) for block in plain]
    spaced = {mark for each in marked for mark, after_blank in each.items() if after_blank}
    order = _ordered(
        [[*each] for each in marked], {mark: "" for each in marked for mark in each}, in_runs=True
    )
    lines: list[str] = []
    for mark in order:
        lines += [""] * (mark in spaced) + [mark[-1]]
    if signatures:
        lines.append(max(signatures, key=lambda line: (document.signed_origin(line) or Origin.USER).rank))
    return lines


def _numbered_lines(block: Sequence[str]) -> dict[Mark, bool]:
    """Return a section's lines, equal ones numbered, each with whether a blank line precedes the line."""
    seen: dict[str, int] = {}
    found = {}
    blank = False
    for line in block:
        if line:
            seen[line] = seen.get(line, 0) + 1
            found["", f"{seen[line]:06d}", line] = blank
        blank = not line
    return found
