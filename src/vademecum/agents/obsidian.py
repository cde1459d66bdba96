"""Obsidian: a vault of Markdown notes with properties, tags, wikilinks and daily notes.

A note is a record with its text as it stands; its links are edges by themselves, those in its properties
become `related`. A daily note, by the vault's own settings or a name that is a date, becomes the journal of
its day. Settings, templates, drawings, canvases and attachments stay where they are, and the report says so.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date
from typing import TYPE_CHECKING, Any

from vademecum.agents.base import Agent
from vademecum.agents.memories import fronted, key_of, stamp_of, text_of, titled, words_of
from vademecum.agents.openclaw import entries_of_day
from vademecum.errors import Malformed
from vademecum.knowledge.intake import NotesPiece, Skipped, TopicPiece
from vademecum.store import frontmatter
from vademecum.text import fences, names
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memories import FileTree, Fronted, Importing, TextFile
    from vademecum.knowledge.intake import Piece

_SETTINGS = ".obsidian"
_DRAWN = {
    ".canvas": "a canvas, not a note",
    ".excalidraw": "a drawing, not a note",
    ".base": "a view of notes",
}
# What a vault shows beside notes.
_ATTACHED = (
    *(".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".svg", ".webp", ".pdf"),
    *(".3gp", ".flac", ".m4a", ".mkv", ".mov", ".mp3", ".mp4", ".ogg", ".ogv", ".wav", ".webm"),
)
_CODE = re.compile(r"`[^`\n]{1,300}`")
_TAG = re.compile(r"(?<!\S)#(?=[\d/_-]*[^\W\d])([\w/-]{1,100})(?![\w/-])")
_EMBED = re.compile(r"!\[\[([^\]|#\n]{1,200})")
_LINK = re.compile(r"\[\[([^\]|#\n]{1,200})[^\]\n]{0,200}\]\]")
_DATES = ("modified", "updated", "created", "date")
# Properties that mean something else in a record; they are kept aside, as they were.
_ASIDE = frozenset(
    "aliases related source sources key id num scope scope_id imported generated confidence protected"
    " category verified confirmed claims obsidian".split()
)
_LONGEST = 900_000  # bytes of one part of a note that is longer than an entry may be
_TOO_LONG = 1024 * 1024


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every note, and what beside them is none."""
    vault = _Vault(tree.names())
    yield from vault.read_settings(tree)
    others: Counter[str] = Counter()
    for name in vault.files:
        folder, _, last = name.rpartition("/")
        kind = next((_DRAWN[each] for each in _DRAWN if last.lower().removesuffix(".md").endswith(each)), "")
        if kind:
            yield Skipped(name, kind)
        elif name not in vault.notes:
            others[folder] += 1
        elif any(name.startswith(each) for each in vault.templates):
            yield Skipped(name, "a template, by the vault's settings")
        else:
            file = tree.read(name)
            yield from [file] if isinstance(file, Skipped) else _note(file, vault)
    for folder, count in sorted(others.items()):
        yield Skipped(f"{folder}/" if folder else "./", f"attachments, which are no notes: {count}")


# -------------------------------------------------------------------- the vault


class _Vault:
    """The files of a vault, and what its settings say of them."""

    def __init__(self, listed: list[str]) -> None:
        self.settings = [name for name in listed if _SETTINGS in name.split("/")[:-1]]
        hidden = {*self.settings}
        self.files = [name for name in listed if name not in hidden]
        self.notes = {name for name in self.files if name.lower().endswith((".md", ".markdown"))}
        self.stems = Counter(names.slug(_stem(name)) for name in self.notes)
        self.nearest = {_stem(name): name for name in sorted(self.notes, key=lambda each: (-len(each), each))}
        self.days: list[re.Pattern[str]] = []
        self.templates: list[str] = []

    def read_settings(self, tree: FileTree) -> Iterator[Skipped]:
        """Learn where daily notes and templates are; tells of what cannot be read, and of the rest."""
        tops = dict.fromkeys(name.partition(f"{_SETTINGS}/")[0] for name in self.settings)
        for top in tops:
            yield Skipped(f"{top}{_SETTINGS}/", "Obsidian's own settings")
        for name in self.settings:
            top, _, own = name.partition(f"{_SETTINGS}/")
            if own not in ("daily-notes.json", "templates.json"):
                continue
            try:
                value = json.loads(tree.content(name))
                given = value if isinstance(value, dict) else {}
                folder = "".join(f"{part}/" for part in text_of(given.get("folder")).split("/") if part)
                if own == "daily-notes.json":
                    self.days.append(_pattern(top + folder, text_of(given.get("format")) or "YYYY-MM-DD"))
                elif folder:
                    self.templates.append(top + folder)
            except (Malformed, ValueError, RecursionError, OSError) as error:
                yield Skipped(name, f"cannot be read: {error}; only notes named by a date are daily notes")

    def day_of(self, name: str) -> str:
        """The day whose daily note it is; empty for any other note."""
        for pattern in self.days:
            match = pattern.fullmatch(name)
            found = _day(match.groupdict()) if match else ""
            if found:
                return found
        match = _DATED.fullmatch(_stem(name))
        return _day(match.groupdict()) if match else ""

    def key_for(self, link: str, own: str) -> str:
        """The key of the note that a link in a property leads to; empty when it is no record."""
        path = link.strip().removesuffix(".md")
        exact = next((each for each in (f"{path}.md", f"{path}.markdown") if each in self.notes), "")
        found = exact or self.nearest.get(path.rpartition("/")[2], "")
        return "" if found in ("", own) or self.day_of(found) else names.slug(_key(found))


def _stem(name: str) -> str:
    return re.sub(r"\.(md|markdown)$", "", name.rpartition("/")[2], flags=re.IGNORECASE)


def _key(name: str) -> str:
    return key_of(name.rpartition(".")[0])


# -------------------------------------------------------------------- dates in names

_MONTHS = "january february march april may june july august september october november december".split()
_TOKEN = re.compile(r"\[([^\]]{0,100})\]|(Do|D{1,4}o?|Mo|M{1,4}|Y{4}|YY|[a-zA-Z])\2*|([^a-zA-Z])")
_PARTS = {
    **{"YYYY": r"(?P<year>\d{4})", "YY": r"(?P<short>\d\d)"},
    **{"MM": r"(?P<month>\d\d)", "M": r"(?P<month>\d{1,2})", "MMMM": r"(?P<named>[^\W\d_]+)\.?"},
    **{"MMM": r"(?P<named>[^\W\d_]+)\.?", "DD": r"(?P<day>\d\d)", "D": r"(?P<day>\d{1,2})"},
    "Do": r"(?P<day>\d{1,2})(?:st|nd|rd|th)",
}
_DATED = re.compile("-".join(_PARTS[each] for each in ("YYYY", "MM", "DD")))
_MOST_LOOSE = 4  # parts of a name that may be anything, such as the name of a weekday
_LONGEST_FORMAT = 100


def _pattern(folder: str, form: str) -> re.Pattern[str]:
    """The paths of daily notes by the vault's date format, which is Moment's."""
    made, seen, loose = re.escape(folder), set[str](), 0
    for match in _TOKEN.finditer(form[: _LONGEST_FORMAT + 1]):
        whole = match[0]
        known = _PARTS.get(whole)
        group = known[4 : known.index(">")] if known else ""
        if match[1] is not None or match[3]:
            made += re.escape(match[1] if match[1] is not None else match[3])
        elif known and group not in seen:
            made += known
            seen.add(group)
        else:
            made += r"[^/]{1,20}?"
            loose += 1
    told = seen >= {"day"} and seen & {"year", "short"} and seen & {"month", "named"}
    if not told or loose > _MOST_LOOSE or len(form) > _LONGEST_FORMAT:
        raise Malformed(f"the date format {names.shown(form)} does not name a day")
    return re.compile(made + r"\.(?:md|markdown)")


def _day(found: dict[str, Any]) -> str:
    """The day that the parts of a name tell; empty when there is no such day."""
    named = str(found.get("named") or "").lower()
    month = next((n for n, each in enumerate(_MONTHS, 1) if named in (each, each[:3])), 0)
    try:
        year = int(found.get("year") or f"20{found['short']}")
        return date(year, int(found.get("month") or month), int(found["day"])).isoformat()
    except (ValueError, KeyError):
        return ""


# -------------------------------------------------------------------- one note


def _note(file: TextFile, vault: _Vault) -> Iterator[Piece]:
    part = fronted(file)
    if isinstance(part, Skipped):
        yield part
        return
    if "excalidraw-plugin" in part.values:
        yield Skipped(file.name, _DRAWN[".excalidraw"])
        return
    if not part.body.strip():
        yield Skipped(file.name, "it holds properties and no text" if part.values else "it holds no text")
        return
    plain = _CODE.sub("", fences.blank(part.body))
    embeds = [each.strip() for each in _EMBED.findall(plain)]
    attached = [*dict.fromkeys(each for each in embeds if each.lower().endswith((*_ATTACHED, *_DRAWN)))]
    day = vault.day_of(file.name)
    try:
        yield _daily(file, part, day) if day else _topic(file, part, vault, plain)
    except Malformed as error:
        yield Skipped(file.name, f"malformed: {error}")
        return
    if attached:
        told = ", ".join(attached[:5]) + (" …" if len(attached) > 5 else "")
        yield Skipped(f"{file.name} ![[…]]", f"what it shows stays in the vault: {told}")


def _daily(file: TextFile, part: Fronted, day: str) -> NotesPiece:
    """The notes of a day; a journal has no properties, so they stand above the text."""
    above = [Entry(fences.wrap(_inner(part.front), "yaml"), day)] if part.front else []
    entries = [
        each for entry in entries_of_day(day, part.body) for each in _fitting(entry.text, entry.time or day)
    ]
    return NotesPiece(file.name, day, (*above, *entries), Scope.GLOBAL)


def _inner(front: str) -> str:
    return "\n".join(front.strip().split("\n")[1:-1])


def _topic(file: TextFile, part: Fronted, vault: _Vault, plain: str) -> TopicPiece:
    heading, body = titled(part.body)
    body = body if body.strip() else part.body
    values = part.values
    when = [stamp for each in _DATES if (stamp := stamp_of(values.get(each)))]
    aside = {name: each for name, each in values.items() if _is_aside(name, each)}
    front = frontmatter.edit(part.front, dict.fromkeys(aside)) if aside else part.front
    given = [*words_of(values.get("tags")), *words_of(values.get("tag"))]
    return TopicPiece(
        file.name,
        _key(file.name),
        tuple(_fitting(body, max(when, default=file.changed))),
        Scope.GLOBAL,
        named=False,
        type=RecordType.REFERENCE,
        title=text_of(values.get("title")) or _stem(file.name),
        heading=heading,
        tags=tuple(dict.fromkeys(each.lstrip("#") for each in [*given, *_tags(plain)] if each.strip("# "))),
        created=min(when, default=""),
        front=front,
        fields={
            **_aliases(file.name, values, vault),
            **_related(file.name, values, vault),
            **({"obsidian": aside} if aside else {}),
        },
    )


def _is_aside(name: str, value: object) -> bool:
    """Whether a property cannot stand in a record as it is."""
    if name in ("created", "updated"):
        return not stamp_of(value)
    return name in _ASIDE or (name in ("type", "title") and not isinstance(value, str))


def _tags(plain: str) -> list[str]:
    return [each.rstrip("/") for each in _TAG.findall(plain)]


def _aliases(name: str, values: Any, vault: _Vault) -> dict[str, Any]:
    """The other names of a note; that of its file, unless another note has it too."""
    stem = names.slug(_stem(name))
    called = [*words_of(values.get("aliases")), *words_of(values.get("alias"))]
    found = dict.fromkeys(names.slug(each) for each in called if each.strip())
    if vault.stems[stem] == 1:
        found = {stem: None, **found}
    found.pop(names.slug(_key(name)), None)
    return {"aliases": list(found)} if found else {}


def _related(name: str, values: Any, vault: _Vault) -> dict[str, Any]:
    """The links in the properties of a note, each with the property that it stands in."""
    found: dict[str, dict[str, str]] = {}
    for said, value in values.items():
        for link in _LINK.findall(" ".join(_texts(value))):
            key = vault.key_for(link, name)
            told = {} if said == "related" else {"type": said}
            if key:
                found.setdefault(key, {"key": key, "rel": "relates_to", **told})
    return {"related": [*found.values()]} if found else {}


def _texts(value: object) -> Iterator[str]:
    """The texts in a property; a link without quotes is a list in a list for YAML."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        inner = value[0] if len(value) == 1 else None
        if isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], str):
            yield f"[[{inner[0]}]]"
        else:
            for each in value:
                yield from _texts(each)


# -------------------------------------------------------------------- notes that are too long


def _fitting(text: str, when: str) -> Iterator[Entry]:
    """A text as one entry, or as several where it is longer than an entry may be."""
    if len(text.encode()) <= _TOO_LONG:
        yield Entry(text, when)
        return
    part: list[str] = []
    size = 0
    for block in _blocks(text):
        length = len(block.encode())
        if part and size + length > _LONGEST:
            yield Entry("".join(part), when)
            part, size = [], 0
        part.append(block)
        size += length
    yield Entry("".join(part), when)


def _blocks(text: str) -> Iterator[str]:
    """The lines of a text, cut where one alone is too long."""
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), _LONGEST // 4):
            yield line[at : at + _LONGEST // 4]


AGENT = Agent("obsidian", memories=memories, keeps=(_SETTINGS, *_DRAWN, *_ATTACHED))
