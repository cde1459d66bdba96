"""Obsidian: a vault of Markdown notes with properties, tags, wikilinks and daily notes.

A note becomes a record with its text unchanged; links in the text are edges, and links in its properties
become `related`. A daily note, by the vault's settings or by a date as its name, becomes the journal of its
day. Settings, templates, drawings, canvases and attachments are left out, and the report says so.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date
from typing import TYPE_CHECKING, Any

from vademecum.agents.base import Agent
from vademecum.agents.memory_files import key_of, split_frontmatter, split_title, stamp_of, text_of, word_list
from vademecum.agents.openclaw import entries_of_day
from vademecum.errors import Malformed
from vademecum.knowledge import NotesPiece, Skipped, TopicPiece
from vademecum.text import fences, frontmatter, names
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memory_files import FileTree, FrontmatterFile, Importing, TextFile
    from vademecum.knowledge import Piece

_SETTINGS = ".obsidian"
_DRAWINGS = {
    ".canvas": "a canvas, not a note",
    ".excalidraw": "a drawing, not a note",
    ".base": "a view of notes",
}
# Attachments that a vault shows besides notes.
_ATTACHMENTS = (
    *(".avif", ".bmp", ".gif", ".jpeg", ".jpg", ".png", ".svg", ".webp", ".pdf"),
    *(".3gp", ".flac", ".m4a", ".mkv", ".mov", ".mp3", ".mp4", ".ogg", ".ogv", ".wav", ".webm"),
)
_CODE = re.compile(r"`[^`\n]{1,300}`")
_TAG = re.compile(r"(?<!\S)#(?=[\d/_-]*[^\W\d])([\w/-]{1,100})(?![\w/-])")
_EMBED = re.compile(r"!\[\[([^\]|#\n]{1,200})")
_LINK = re.compile(r"\[\[([^\]|#\n]{1,200})[^\]\n]{0,200}\]\]")
_DATES = ("modified", "updated", "created", "date")
# Properties with another meaning in a record; they are stored separately, unchanged.
_RESERVED = frozenset(
    "aliases related source sources key id num scope scope_id imported generated confidence protected"
    " category verified confirmed claims obsidian".split()
)
_LONGEST = 900_000  # bytes of one part of a note that is longer than an entry may be
_TOO_LONG = 1024 * 1024


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield every note of the vault, and the files that were skipped."""
    vault = _Vault(tree.names())
    yield from vault.read_settings(tree)
    others: Counter[str] = Counter()
    for name in vault.files:
        folder, _, last = name.rpartition("/")
        kind = next(
            (_DRAWINGS[each] for each in _DRAWINGS if last.lower().removesuffix(".md").endswith(each)), ""
        )
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


# -------------------------------------------------------------------- vault


class _Vault:
    """The files of a vault, and its settings."""

    def __init__(self, paths: list[str]) -> None:
        self.settings = [name for name in paths if _SETTINGS in name.split("/")[:-1]]
        hidden = {*self.settings}
        self.files = [name for name in paths if name not in hidden]
        self.notes = {name for name in self.files if name.lower().endswith((".md", ".markdown"))}
        self.stems = Counter(names.slug(_stem(name)) for name in self.notes)
        self.nearest = {_stem(name): name for name in sorted(self.notes, key=lambda each: (-len(each), each))}
        self.days: list[re.Pattern[str]] = []
        self.templates: list[str] = []

    def read_settings(self, tree: FileTree) -> Iterator[Skipped]:
        """Read the vault's folders of daily notes and templates; yield unreadable and skipped files."""
        tops = dict.fromkeys(name.partition(f"{_SETTINGS}/")[0] for name in self.settings)
        for top in tops:
            yield Skipped(f"{top}{_SETTINGS}/", "Obsidian's own settings")
        for name in self.settings:
            top, _, own = name.partition(f"{_SETTINGS}/")
            if own not in ("daily-notes.json", "templates.json"):
                continue
            try:
                value = json.loads(tree.content(name))
                raw = value if isinstance(value, dict) else {}
                folder = "".join(f"{part}/" for part in text_of(raw.get("folder")).split("/") if part)
                if own == "daily-notes.json":
                    self.days.append(_pattern(top + folder, text_of(raw.get("format")) or "YYYY-MM-DD"))
                elif folder:
                    self.templates.append(top + folder)
            except (Malformed, ValueError, RecursionError, OSError) as error:
                yield Skipped(name, f"cannot be read: {error}; only notes named by a date are daily notes")

    def day_of(self, name: str) -> str:
        """Return the day of a daily note; empty for any other note."""
        for pattern in self.days:
            match = pattern.fullmatch(name)
            found = _day(match.groupdict()) if match else ""
            if found:
                return found
        match = _DATED.fullmatch(_stem(name))
        return _day(match.groupdict()) if match else ""

    def key_for(self, link: str, own: str) -> str:
        """Return the key of the note to which a property's link leads; empty if that note is no record."""
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
_MOST_LOOSE = 4  # parts of a name that match anything, such as the name of a weekday
_LONGEST_FORMAT = 100


def _pattern(folder: str, form: str) -> re.Pattern[str]:
    """Return a pattern for paths of daily notes in the vault's date format, which is that of Moment.js."""
    made, groups, wildcards = re.escape(folder), set[str](), 0
    for match in _TOKEN.finditer(form[: _LONGEST_FORMAT + 1]):
        whole = match[0]
        known = _PARTS.get(whole)
        group = known[4 : known.index(">")] if known else ""
        if match[1] is not None or match[3]:
            made += re.escape(match[1] if match[1] is not None else match[3])
        elif known and group not in groups:
            made += known
            groups.add(group)
        else:
            made += r"[^/]{1,20}?"
            wildcards += 1
    is_day = groups >= {"day"} and groups & {"year", "short"} and groups & {"month", "named"}
    if not is_day or wildcards > _MOST_LOOSE or len(form) > _LONGEST_FORMAT:
        raise Malformed(f"the date format {names.shown(form)} does not name a day")
    return re.compile(made + r"\.(?:md|markdown)")


def _day(found: dict[str, Any]) -> str:
    """Return the day in the matched parts of a name; empty if there is no such day."""
    month_name = str(found.get("named") or "").lower()
    month = next((n for n, each in enumerate(_MONTHS, 1) if month_name in (each, each[:3])), 0)
    try:
        year = int(found.get("year") or f"20{found['short']}")
        return date(year, int(found.get("month") or month), int(found["day"])).isoformat()
    except (ValueError, KeyError):
        return ""


# -------------------------------------------------------------------- notes


def _note(file: TextFile, vault: _Vault) -> Iterator[Piece]:
    part = split_frontmatter(file)
    if isinstance(part, Skipped):
        yield part
        return
    if "excalidraw-plugin" in part.values:
        yield Skipped(file.name, _DRAWINGS[".excalidraw"])
        return
    if not part.body.strip():
        yield Skipped(file.name, "it holds properties and no text" if part.values else "it holds no text")
        return
    plain = _CODE.sub("", fences.blank(part.body))
    embeds = [each.strip() for each in _EMBED.findall(plain)]
    attachments = [
        *dict.fromkeys(each for each in embeds if each.lower().endswith((*_ATTACHMENTS, *_DRAWINGS)))
    ]
    day = vault.day_of(file.name)
    try:
        yield _daily(file, part, day) if day else _topic(file, part, vault, plain)
    except Malformed as error:
        yield Skipped(file.name, f"malformed: {error}")
        return
    if attachments:
        shown_names = ", ".join(attachments[:5]) + (" …" if len(attachments) > 5 else "")
        yield Skipped(f"{file.name} ![[…]]", f"what it shows stays in the vault: {shown_names}")


def _daily(file: TextFile, part: FrontmatterFile, day: str) -> NotesPiece:
    """Return the notes of a daily note; its properties are put above the text, as a journal has none."""
    above = [Entry(fences.wrap(_inner(part.front), "yaml"), day)] if part.front else []
    entries = [
        each
        for entry in entries_of_day(day, part.body)
        for each in _split_entries(entry.text, entry.time or day)
    ]
    return NotesPiece(file.name, day, (*above, *entries), Scope.GLOBAL)


def _inner(front: str) -> str:
    return "\n".join(front.strip().split("\n")[1:-1])


def _topic(file: TextFile, part: FrontmatterFile, vault: _Vault, plain: str) -> TopicPiece:
    heading, body = split_title(part.body)
    body = body if body.strip() else part.body
    values = part.values
    when = [stamp for each in _DATES if (stamp := stamp_of(values.get(each)))]
    reserved = {name: each for name, each in values.items() if _needs_own_field(name, each)}
    front = frontmatter.edit(part.front, dict.fromkeys(reserved)) if reserved else part.front
    raw = [*word_list(values.get("tags")), *word_list(values.get("tag"))]
    return TopicPiece(
        file.name,
        _key(file.name),
        tuple(_split_entries(body, max(when, default=file.changed))),
        Scope.GLOBAL,
        named=False,
        type=RecordType.REFERENCE,
        title=text_of(values.get("title")) or _stem(file.name),
        heading=heading,
        tags=tuple(dict.fromkeys(each.lstrip("#") for each in [*raw, *_tags(plain)] if each.strip("# "))),
        created=min(when, default=""),
        front=front,
        fields={
            **_aliases(file.name, values, vault),
            **_related(file.name, values, vault),
            **({"obsidian": reserved} if reserved else {}),
        },
    )


def _needs_own_field(name: str, value: object) -> bool:
    """Return whether a property has to be stored in a record under a name of its own."""
    if name in ("created", "updated"):
        return not stamp_of(value)
    return name in _RESERVED or (name in ("type", "title") and not isinstance(value, str))


def _tags(plain: str) -> list[str]:
    return [each.rstrip("/") for each in _TAG.findall(plain)]


def _aliases(name: str, values: Any, vault: _Vault) -> dict[str, Any]:
    """Return the aliases of a note, with its file name if no other note has the same."""
    stem = names.slug(_stem(name))
    called = [*word_list(values.get("aliases")), *word_list(values.get("alias"))]
    found = dict.fromkeys(names.slug(each) for each in called if each.strip())
    if vault.stems[stem] == 1:
        found = {stem: None, **found}
    found.pop(names.slug(_key(name)), None)
    return {"aliases": list(found)} if found else {}


def _related(name: str, values: Any, vault: _Vault) -> dict[str, Any]:
    """Return the links in the properties of a note, each with the property's name."""
    found: dict[str, dict[str, str]] = {}
    for property_name, value in values.items():
        for link in _LINK.findall(" ".join(_texts(value))):
            key = vault.key_for(link, name)
            type_field = {} if property_name == "related" else {"type": property_name}
            if key:
                found.setdefault(key, {"key": key, "rel": "relates_to", **type_field})
    return {"related": [*found.values()]} if found else {}


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a property; a link without quotes is a list in a list, as YAML reads it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        inner = value[0] if len(value) == 1 else None
        if isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], str):
            yield f"[[{inner[0]}]]"
        else:
            for each in value:
                yield from _texts(each)


# -------------------------------------------------------------------- splitting long notes


def _split_entries(text: str, when: str) -> Iterator[Entry]:
    """Yield a text as an entry, or as several entries if it is longer than an entry may be."""
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
    """Yield the lines of a text; lines that are too long for an entry are cut."""
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), _LONGEST // 4):
            yield line[at : at + _LONGEST // 4]


AGENT = Agent("obsidian", memories=memories, keeps=(_SETTINGS, *_DRAWINGS, *_ATTACHMENTS))
