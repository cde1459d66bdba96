"""Read CLIO's file `ltm.json` into records, and write lessons as such a file.

Each entry of the file becomes a record. A value that a record cannot hold (an unknown field, a number written
as text) is kept in the record's label `ltm`, and the rest of the file becomes a record of its own. So an
export has the JSON values of the imported file wherever nothing has changed since.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, SecretFound, VadeError
from vademecum.fields import read_tags
from vademecum.knowledge import lessons as learned
from vademecum.store import Draft
from vademecum.text import clock, normalise, secrets
from vademecum.types import LEARNED, Finding, RecordType, SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vademecum.knowledge.lessons import Fields, Lesson
    from vademecum.store import Found, Records, ScopeFolder
    from vademecum.types import Record

    Raw = dict[str, Any]
    Gate = Callable[[str], tuple[str, tuple[str, ...]]]

LARGEST = 64 * 1024 * 1024
RULES = "context_rules"
CATEGORIES: Mapping[str, RecordType] = {
    "discoveries": RecordType.DISCOVERY,
    "problem_solutions": RecordType.SOLUTION,
    "code_patterns": RecordType.PATTERN,
    "workflows": RecordType.WORKFLOW,
    "failures": RecordType.FAILURE,
    RULES: RecordType.RULE,
}
_COUNTED = {RecordType.FAILURE: "occurrences"}
_APPLIED = {RecordType.SOLUTION: "solved_count"}
_LONGEST = 30_000  # characters beside a record; labels longer than 64 KiB could not be read
SOURCE = "import:clio"
_FILE = "file"
_OPENING = "The rest of an imported ltm.json, kept for its export.\n\n```json\n"
_CLOSING = "\n```"


class LtmSlot(NamedTuple):
    """An entry of an `ltm.json`, with its category and its position in the list of that category."""

    category: str
    at: int
    raw: Raw


@dataclass(slots=True)
class LtmImport:
    """The result of importing an `ltm.json`."""

    added: list[str] = field(default_factory=list)  # keys
    updated: list[str] = field(default_factory=list)
    known: int = 0
    secrets: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)


# -------------------------------------------------------------------- the file


def parse(content: bytes) -> Raw:
    """Return the JSON object in the content of a file; raise Malformed for anything else."""
    if len(content) > LARGEST:
        raise Malformed(f"an ltm.json has at most {LARGEST // 1024**2} MiB", hint="is it the right file?")
    try:
        value = json.loads(content.decode("utf-8-sig"))
        json.dumps(value, allow_nan=False)  # a number such as 1e999 or NaN could not be written again
    except (ValueError, RecursionError) as error:
        hint = "an ltm.json has `patterns` and `metadata`; this file is unchanged"
        raise Malformed(f"not an ltm.json: {error}", hint=hint) from error
    if not isinstance(value, dict) or not isinstance(value.get("patterns", {}), dict):
        raise Malformed("not an ltm.json: it is not an object with `patterns`", hint="is it the right file?")
    return value


def holds_anything(value: Raw) -> bool:
    """Whether an `ltm.json` has any entry."""
    return any(value.get("patterns", {}).values())


def render(file: Raw) -> str:
    """Return the data of an `ltm.json` as JSON text with sorted keys."""
    return json.dumps(file, indent=3, sort_keys=True) + "\n"


def clean_texts(value: Any, gate: Gate) -> tuple[Any, tuple[str, ...]]:
    """Return a JSON value with every text in it passed through the secret gate, and the kinds of secrets
    found.
    """
    kinds: set[str] = set()

    def clean(part: Any) -> Any:
        if isinstance(part, str):
            text, found = gate(part)
            kinds.update(found)
            return text
        if isinstance(part, list):
            return [clean(item) for item in part]
        if isinstance(part, dict):
            return {clean(name): clean(item) for name, item in part.items()}
        return part

    return clean(value), tuple(sorted(kinds))


def redact_file(file: Raw) -> tuple[Raw, tuple[str, ...]]:
    """Return the data of an `ltm.json` with its secrets redacted, and their kinds."""
    return clean_texts(file, gate(SecretPolicy.REDACT))


def check_secrets(file: Raw) -> None:
    """Raise an error when an `ltm.json` contains a secret, since an export may be passed on unread."""
    kinds = clean_texts(file, gate(SecretPolicy.WARN))[1]
    if kinds:
        raise SecretFound(f"the export would contain what looks like a secret: {', '.join(kinds)}")


def gate(policy: SecretPolicy) -> Gate:
    """Return the secret gate of a scope's policy as a function of one text."""
    return lambda text: secrets.gate(text, policy)


# -------------------------------------------------------------------- entries


def read_entry(slot: LtmSlot, *, now: str, largest: int) -> tuple[Fields, Raw]:
    """Return the fields of an entry and the labels of its record; raise an error when its text is missing."""
    kind, raw = CATEGORIES[slot.category], slot.raw
    given = {name: raw[name] for name in learned.SHAPES[kind].labels if name in raw}
    if "success_rate" in given:
        given["success_rate"] = _share(given["success_rate"])
    for name in ("impact", "prevention", "path"):
        if not isinstance(given.get(name, ""), str) or not given.get(name, "").strip():
            given.pop(name, None)
    confidence, first = _share(raw.get("confidence")), _stamp(raw.get("timestamp")) or now
    return learned.clean(kind, given, largest=largest), {
        "confidence": learned.SHAPES[kind].confidence if confidence is None else confidence,
        "examples": _examples(raw.get("examples")),
        "applied": _whole(raw.get(_APPLIED.get(kind, "applied"))),
        "learned": max(_whole(raw.get(_COUNTED.get(kind, "count"))), 1),
        "created": first,
        "updated": _stamp(raw.get("updated")) or first,
        "tags": _tags(raw.get("tags")),
    }


def _read_lesson(lesson: Lesson) -> tuple[Fields, Raw]:
    """Return the fields of a lesson entry and the frontmatter labels of its record."""
    return lesson.fields, {
        "confidence": lesson.confidence,
        "examples": lesson.examples,
        "applied": lesson.applied,
        "learned": lesson.times,
        "created": lesson.first,
        "updated": lesson.last,
        "tags": lesson.record.tags,
    }


def write_entry(kind: RecordType, fields: Fields, labels: Raw, *, verified: bool = False) -> Raw:
    """Return a lesson as an entry in CLIO's form; optional values that are empty are left out."""
    raw: Raw = dict(fields)
    for name, stamp in (("timestamp", labels["created"]), ("updated", labels["updated"])):
        moment = clock.parse(stamp)
        if moment is not None:
            raw[name] = int(moment.timestamp())
    usual = learned.SHAPES[kind].confidence
    if kind in (RecordType.DISCOVERY, RecordType.PATTERN) or labels["confidence"] != usual:
        raw["confidence"] = labels["confidence"]
    if kind is RecordType.DISCOVERY:
        raw["verified"] = verified
    if kind in (RecordType.SOLUTION, RecordType.PATTERN) or labels["examples"]:
        raw["examples"] = list(labels["examples"])
    if kind is RecordType.SOLUTION or labels["applied"]:
        raw[_APPLIED.get(kind, "applied")] = labels["applied"]
    if kind in (RecordType.WORKFLOW, RecordType.FAILURE) or labels["learned"] > 1:
        raw[_COUNTED.get(kind, "count")] = labels["learned"]
    return raw | ({"tags": list(labels["tags"])} if labels["tags"] else {})


def compare_entry(raw: Raw, written: Raw) -> Raw:
    """Return the values in which an imported entry differs from the entry that its record would export.

    `has` are the imported values, `was` the values of the record.
    """
    has = {
        name: value for name, value in raw.items() if name not in written or not _same(value, written[name])
    }
    was = {name: value for name, value in written.items() if name not in raw or name in has}
    return {"has": has, "was": was, "updated": written.get("updated")}


def restore_entry(written: Raw, aside: Mapping[str, Any]) -> Raw:
    """Return an exported entry with the imported file's own values wherever the lesson has not
    changed since.
    """
    has, was = aside.get("has", {}), aside.get("was", {})
    new = {name: value for name, value in written.items() if name not in was or not _same(value, was[name])}
    restored: Raw = has | new
    return restored


def _same(one: object, other: object) -> bool:
    """Whether two JSON values are equal, where 1, 1.0 and true are three different values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _share(value: object) -> float | None:
    """Return a value as a number from 0 to 1, also when it is written as text; else None."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number <= 1 else None


def _whole(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15 else 0


def _stamp(value: object) -> str | None:
    """Return a value as a time stamp, given in seconds since 1970 or as text; else None."""
    if isinstance(value, str) and not value.isdecimal():
        moment = clock.parse(value)
        return None if moment is None else clock.stamp(moment)
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        return None
    try:
        return clock.stamp(datetime.fromtimestamp(float(value), UTC))
    except (ValueError, OverflowError, OSError):
        return None


def _examples(value: object) -> tuple[str, ...]:
    try:
        return learned.clean_examples(value)[: learned.MOST_EXAMPLES] if isinstance(value, list) else ()
    except VadeError:
        return ()


def _tags(value: object) -> tuple[str, ...]:
    """Return a list of tags if a record can hold all of them unchanged; otherwise no tags."""
    listed = value if isinstance(value, list) and len(value) <= 50 else []
    plain = [
        each
        for each in listed
        if isinstance(each, str) and each == each.strip() and each.isprintable() and "," not in each
    ]
    return read_tags(plain) if plain == listed and all(len(each) <= 200 for each in plain) else ()


# -------------------------------------------------------------------- import


class LtmReader:
    """Saves the entries of an `ltm.json` as records; an entry imported before gets no second record."""

    def __init__(
        self, records: Records, scope_folders: Sequence[ScopeFolder], *, gate: Gate, largest: int
    ) -> None:
        self.records, self.scope_folders, self.gate, self.largest = records, scope_folders, gate, largest
        self.kinds: set[str] = set()
        self.used: set[str] = set()
        self.index: dict[tuple[str, str], list[Found]] = defaultdict(list)
        for found in records.typed(scope_folders, *map(str, LEARNED)):
            # A superseded wording still names its record.
            for entry in reversed(found.record.entries):
                self.index[found.record.type, normalise(entry.text)].append(found)

    def read(self, value: Raw) -> LtmImport:
        """Save each entry of an `ltm.json` as a record, and the rest of the file as one more record."""
        if "patterns" not in value:
            raise Malformed("not an ltm.json: it has no `patterns`", hint="is it the right file?")
        result = LtmImport()
        rest = self._clean({name: part for name, part in value.items() if name != "patterns"})
        patterns: Raw = {}
        for name, listed in value["patterns"].items():
            if name == RULES and isinstance(listed, dict):
                patterns[name] = {
                    self._clean(path): self._save_list(name, rules, result, path)
                    for path, rules in listed.items()
                }
            else:
                patterns[self._clean(name)] = self._save_list(name, listed, result)
        text = _OPENING + json.dumps(rest | {"patterns": patterns}, indent=1, sort_keys=True) + _CLOSING
        draft = Draft(
            learned.clean(RecordType.DISCOVERY, {"fact": text}, largest=self.largest)["fact"],
            RecordType.REFERENCE,
            mode="replace",
            name="ltm json",
            labels=lambda values: {"source": SOURCE, "ltm": _FILE, "confirmed": None},
        )
        self._save_rest(draft)
        result.secrets = tuple(sorted(self.kinds))
        return result

    def _save_list(self, category: str, listed: Any, result: LtmImport, path: str | None = None) -> Any:
        """Save the entries of a list as records, and return the entries that no record can hold."""
        if category not in CATEGORIES or not isinstance(listed, list):
            return self._clean(listed)
        rest: list[Any] = []
        for at, raw in enumerate(listed):
            slot = LtmSlot(category, at, raw if path is None else {"path": path, "rule": raw})
            try:
                slot = slot._replace(raw=self._clean(slot.raw))
                problem = self._save(slot, result)
            except SecretFound as error:
                result.findings.append(Finding("refused", _where(slot), str(error), severity="warning"))
                continue
            if problem:
                result.findings.append(Finding("kept aside", _where(slot), problem, severity="info"))
                rest.append(slot.raw if path is None else slot.raw["rule"])
        return rest

    def _clean(self, value: Any) -> Any:
        cleaned, kinds = clean_texts(value, self.gate)
        self.kinds.update(kinds)
        return cleaned

    def _save(self, slot: LtmSlot, result: LtmImport) -> str:
        """Save an entry as a record; return the reason when it cannot be a record, else an empty text."""
        kind = CATEGORIES[slot.category]
        if not isinstance(slot.raw, dict) or (
            kind is RecordType.RULE and not isinstance(slot.raw.get("rule"), str)
        ):
            return "it is no entry"
        try:
            fields, labels = read_entry(slot, now=clock.stamp(self.records.now()), largest=self.largest)
            text = self._clean(learned.render(kind, fields))
            self.records.check_purged(text)
        except SecretFound:
            raise
        except VadeError as error:
            return str(error)
        found = self._find_known(slot, kind, text)
        if found is not None:  # an entry without a time has the time of its first import
            fields, labels = read_entry(slot, now=found.record.created or "", largest=self.largest)
        aside = {**compare_entry(slot.raw, write_entry(kind, fields, labels)), "at": slot.at}
        if len(json.dumps(aside)) + len(json.dumps(labels["examples"])) > _LONGEST:
            return "its metadata is too long for a record's frontmatter"
        if found is None:
            name = learned.title(kind, fields)
            own = {**_labels(labels, aside), "imported": clock.stamp(self.records.now())}
            draft = Draft(text, kind, labels["tags"], name=name, labels=lambda values: own)
            with self.records.home.lock(f"place {self.scope_folders[0].place}"):
                result.added.append(self.records.begin(self.scope_folders, draft).key)
        elif all(_same(aside[name], _read_aside(found.record).get(name)) for name in ("has", "at")):
            result.known += 1
        else:
            self.records.revise(
                found, lambda values: _merge_labels(kind, values, labels, aside), operation="import"
            )
            result.updated.append(found.record.key)
        return ""

    def _find_known(self, slot: LtmSlot, kind: RecordType, text: str) -> Found | None:
        """Return the record that holds this entry, and mark it as taken, so that no other entry gets it.

        Return None when every such record is taken already, or there is none.
        """
        listed = self.index.get((str(kind), normalise(text)), [])
        free = [found for found in listed if found.record.path not in self.used]
        free.sort(key=lambda found: _read_aside(found.record).get("at") != slot.at)
        if not free:
            return None
        self.used.add(free[0].record.path)
        return free[0]

    def _save_rest(self, draft: Draft) -> None:
        for found in self.records.typed(self.scope_folders, str(RecordType.REFERENCE)):
            if found.record.fields.get("ltm") == _FILE:
                self.records.join(found, draft)
                return
        with self.records.home.lock(f"place {self.scope_folders[0].place}"):
            self.records.begin(self.scope_folders, draft)


def _labels(labels: Raw, aside: Raw) -> dict[str, Any]:
    return {
        "confidence": labels["confidence"],
        "examples": list(labels["examples"]) or None,
        "applied": labels["applied"] or None,
        "learned": labels["learned"] if labels["learned"] > 1 else None,
        "created": labels["created"],
        "updated": labels["updated"],
        "source": SOURCE,
        "confirmed": None,  # a file is no session
        "ltm": json.dumps(aside, sort_keys=True),
    }


def _merge_labels(kind: RecordType, values: Mapping[str, Any], new: Raw, aside: Raw) -> dict[str, Any]:
    """Return the labels of a record updated from a newer file: the examples of both, and the
    higher counts.
    """
    stamps = [clock.parse(stamp) for stamp in (values.get("updated"), new["updated"])]
    known = [moment for moment in stamps if moment]
    examples = [*dict.fromkeys([*learned.read_examples(values), *new["examples"]])]
    changed = {
        "confidence": max(learned.read_confidence(values, kind), new["confidence"]),
        "examples": examples[: learned.MOST_EXAMPLES],
        "applied": max(learned.read_count(values, "applied"), new["applied"]),
        "learned": max(learned.read_count(values, "learned"), new["learned"]),
        "created": values.get("created"),
        "updated": clock.stamp(max(known)) if known else None,
    }
    kept = ("created", "source", "confirmed")
    return {name: value for name, value in _labels(changed, aside).items() if name not in kept}


def _where(slot: LtmSlot) -> str:
    rule = slot.category == RULES and isinstance(slot.raw, dict) and "path" in slot.raw
    path = f"[{slot.raw['path']!r}]" if rule else ""
    return f"{slot.category}{path}[{slot.at}]"


# -------------------------------------------------------------------- export


def collect(lessons: Iterable[tuple[Lesson, bool]], rest: Record | None) -> Raw:
    """Return the data of an `ltm.json` with these lessons (each with whether it is verified) and the file's
    rest.
    """
    imported = _read_rest(rest)
    file = imported or {"patterns": {name: {} if name == RULES else [] for name in CATEGORIES}}
    categories = {kind: name for name, kind in CATEGORIES.items()}
    entries: dict[str, list[tuple[float, Raw]]] = defaultdict(list)
    first: list[int] = []
    changed: list[int] = []
    for lesson, verified in lessons:
        written = write_entry(lesson.type, *_read_lesson(lesson), verified=verified)
        aside = _read_aside(lesson.record)
        at = aside.get("at")
        position = at if isinstance(at, int) else math.inf  # new lessons stand at the end
        entries[categories[lesson.type]].append((position, restore_entry(written, aside)))
        first.append(written.get("timestamp", 0))
        if imported is None or aside.get("updated") != written.get("updated"):
            changed.append(written.get("updated", 0))
    for name, listed in entries.items():
        ordered = [entry for _, entry in sorted(listed, key=lambda pair: pair[0])]
        kept = file["patterns"].get(name, {} if name == RULES else [])
        if name == RULES and isinstance(kept, dict):
            lists = defaultdict(list)
            for entry in ordered:
                lists[entry.get("path", "")].append(entry["rule"])
            kept = kept | {path: [*rules, *_as_list(kept.get(path, []))] for path, rules in lists.items()}
        else:
            kept = [*ordered, *_as_list(kept)]
        file["patterns"][name] = kept
    metadata = file.get("metadata")
    if imported is None:
        stamps = {"created": min(first, default=0), "last_updated": max(changed, default=0)}
        file["metadata"] = {**stamps, "version": "1.0"}
    elif changed and isinstance(metadata, dict) and isinstance(metadata.get("last_updated"), int):
        metadata["last_updated"] = max(metadata["last_updated"], *changed)
    return file


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def rest_among(records: Iterable[Record]) -> Record | None:
    """Return the record that holds the rest of an imported `ltm.json`; None if no record does."""
    return next((record for record in records if record.fields.get("ltm") == _FILE), None)


def _read_rest(record: Record | None) -> Raw | None:
    """Return the rest of an imported `ltm.json` from its record; None when there is none or it
    is unreadable.
    """
    if record is None or not record.text.startswith(_OPENING):
        return None
    try:
        rest = json.loads(record.text.removeprefix(_OPENING).removesuffix(_CLOSING))
    except (ValueError, RecursionError):
        return None
    return rest if isinstance(rest, dict) and isinstance(rest.get("patterns"), dict) else None


def _read_aside(record: Record) -> Raw:
    """Return the imported values kept in a record's label `ltm`; empty when they cannot be read."""
    try:
        aside = json.loads(str(record.fields.get("ltm") or "{}"))
    except (ValueError, RecursionError):
        return {}
    return aside if isinstance(aside, dict) and isinstance(aside.get("has", {}), dict) else {}
