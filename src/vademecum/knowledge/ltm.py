"""`ltm.json`, the long-term memory of CLIO: read into records and written from them, without loss either way.

What a record can hold becomes its text and its labels. What it cannot (fields nobody here knows, a number
written as text, a time with a fraction) stands beside it under `ltm`: what the file `has`, and a mark of what
it `was` taken for. An export takes the file's own value wherever nothing has changed since, so a file that is
read and written comes out as it went in. What belongs to no entry is kept in a record of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, SecretFound, VadeError
from vademecum.knowledge import lessons as learned
from vademecum.store import Draft
from vademecum.store.merge import read_tags
from vademecum.text import clock, normalise, secrets
from vademecum.types import LEARNED, Finding, RecordType, SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.knowledge.lessons import Fields, Lesson
    from vademecum.store import Found, Records, Shelf
    from vademecum.types import Record

    Raw = dict[str, Any]
    Gate = Callable[[str], tuple[str, tuple[str, ...]]]

LARGEST = 64 * 1024 * 1024
SOURCE = "import:clio"
RULES = "context_rules"
OURS = "vademecum"  # what CLIO's shape has no room for: it keeps rules as bare lines
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
_FILE = "file"
_OPENING = "What an ltm.json held beside its entries, kept for its export.\n\n```json\n"
_CLOSING = "\n```"


@dataclass(frozen=True, slots=True)
class LtmItem:
    """An entry of the file, or a lesson, as both can say it."""

    kind: RecordType
    fields: Fields
    confidence: float
    examples: tuple[str, ...] = ()
    applied: int = 0
    times: int = 1
    first: str | None = None
    last: str | None = None
    tags: tuple[str, ...] = ()
    verified: bool = False


class LtmSlot(NamedTuple):
    """An entry as it stands in the file: where, and what."""

    category: str
    at: int
    raw: Raw


@dataclass(frozen=True, slots=True)
class LtmFile:
    """A file taken apart: its entries, and all that is none."""

    slots: tuple[LtmSlot, ...]
    rest: Raw  # the file without its entries
    shapes: Mapping[str, str]  # the categories it has, as lists or objects
    odd: Mapping[str, Any]  # what stands among the entries and cannot be one, by category


@dataclass(slots=True)
class LtmImport:
    """What an import did."""

    added: list[str] = field(default_factory=list)  # keys
    updated: list[str] = field(default_factory=list)
    known: int = 0
    secrets: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)


# -------------------------------------------------------------------- the file


def parse(content: bytes) -> Raw:
    """The JSON of a file; anything else is malformed."""
    if len(content) > LARGEST:
        raise Malformed(f"an ltm.json has at most {LARGEST // 1024**2} MiB", hint="is it the right file?")
    try:
        value = json.loads(content.decode("utf-8-sig"), parse_constant=_no_number, parse_float=_number)
        json.dumps(value)  # as deep as it can be read, it can be written
    except (ValueError, RecursionError) as error:
        hint = "an ltm.json has `patterns` and `metadata`; this file is unchanged"
        raise Malformed(f"not an ltm.json: {error}", hint=hint) from error
    if not isinstance(value, dict) or not isinstance(value.get("patterns", {}), dict):
        raise Malformed("not an ltm.json: it is not an object with `patterns`", hint="is it the right file?")
    return value


def holds_anything(value: Raw) -> bool:
    """Whether a file holds anything that was learned, or stands where such things do: else it has no use."""
    patterns = value.get("patterns", {})
    return any(patterns.values())


def take_apart(value: Raw) -> LtmFile:
    """A file's entries, and the rest of it."""
    patterns = dict(value.get("patterns", {}))
    rest = dict(value)
    extras = _extras(rest.get(OURS), patterns.get(RULES))
    if extras is not None:
        del rest[OURS]
    slots: list[LtmSlot] = []
    odd: dict[str, Any] = {}
    shapes: dict[str, str] = {}
    for name in CATEGORIES:
        listed = patterns.get(name)
        if isinstance(listed, list):
            shapes[name] = "list"
            del patterns[name]
            usable = [isinstance(each, dict) and name != RULES for each in listed]
            slots += [LtmSlot(name, at, each) for at, each in enumerate(listed) if usable[at]]
            odd[name] = [[at, each] for at, each in enumerate(listed) if not usable[at]]
        elif isinstance(listed, dict) and name == RULES:
            shapes[name] = "object"
            del patterns[name]
            odd[name] = {}
            for prefix, rules in listed.items():
                slots += _rules(prefix, rules, (extras or {}).get(prefix, []))
                if not isinstance(rules, list):
                    odd[name][prefix] = rules
                elif not rules or not all(isinstance(each, str) for each in rules):
                    odd[name][prefix] = [[at, e] for at, e in enumerate(rules) if not isinstance(e, str)]
    if "patterns" in rest:
        rest["patterns"] = patterns
    return LtmFile(tuple(slots), rest, shapes, {name: each for name, each in odd.items() if each})


def put_together(items: Iterable[tuple[str, int | None, Raw]], kept: Mapping[str, Any] | None) -> Raw:
    """The file from its entries, each with its place where it had one, and from what was kept of it."""
    shapes: Mapping[str, str] = {} if kept is None else kept.get("shapes", {})
    odd: Mapping[str, Any] = {} if kept is None else kept.get("odd", {})
    file: Raw = {} if kept is None else dict(kept.get(_FILE, {}))
    found: dict[str, list[tuple[float, int, Raw]]] = defaultdict(list)
    for number, (category, at, raw) in enumerate(items):
        found[category].append((float("inf") if at is None else at, number, raw))
    patterns = dict(file.get("patterns", {}))
    extras: dict[str, list[Raw]] = {}
    for name in CATEGORIES:
        if kept is not None and name not in shapes and not found[name]:
            continue
        ordered = sorted(found[name], key=lambda each: each[:2])
        if name == RULES and shapes.get(name, "object") == "object":
            patterns[name], extras = _rule_lists(ordered, odd.get(name, {}))
        else:
            listed = [(at, -1, value) for at, value in odd.get(name, [])]
            patterns[name] = [value for _, _, value in sorted([*listed, *ordered], key=lambda each: each[:2])]
    if kept is None or "patterns" in file or patterns:
        file["patterns"] = patterns
    if any(extra for some in extras.values() for extra in some):
        file[OURS] = {RULES: extras}
    return file


def render(file: Raw) -> str:
    """A file as CLIO writes it: three spaces, keys in order."""
    text = json.dumps(file, ensure_ascii=False, indent=3, sort_keys=True, separators=(",", " : ")) + "\n"
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair can only be written as an escape
        return json.dumps(file, indent=3, sort_keys=True, separators=(",", " : ")) + "\n"
    return text


def _rules(prefix: str, rules: object, extras: Sequence[Raw]) -> Iterator[LtmSlot]:
    for at, each in enumerate(rules if isinstance(rules, list) else ()):
        if isinstance(each, str):
            yield LtmSlot(RULES, at, {"path": prefix, "rule": each, **(extras[at] if extras else {})})


def _extras(ours: object, rules: object) -> dict[str, list[Raw]] | None:
    """What we wrote of the rules, if it fits them exactly; else it is a stranger's and stays as it is."""
    told = ours.get(RULES) if isinstance(ours, dict) and len(ours) == 1 else None
    if not isinstance(told, dict) or not told or not isinstance(rules, dict):
        return None
    listed = {prefix: each for prefix, each in rules.items() if isinstance(each, list) and each}
    if set(told) != set(listed) or not all(_fits(told[prefix], listed[prefix]) for prefix in told):
        return None
    return told if any(extra for some in told.values() for extra in some) else None


def _fits(some: object, rules: list[Any]) -> bool:
    """Whether a list says something of each of some rules; of one that is no text there is nothing to say."""
    if not isinstance(some, list) or len(some) != len(rules):
        return False
    return all(
        isinstance(extra, dict)
        and not {"path", "rule"} & set(extra)
        and (not extra or (isinstance(rule, str) and bool(rule.strip())))
        for rule, extra in zip(rules, some, strict=True)
    )


def _rule_lists(
    ordered: Iterable[tuple[float, int, Raw]], odd: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, list[Raw]]]:
    """The rules by path, and what there is to say of each beside its words."""
    by_path: dict[str, list[tuple[float, int, Any, Raw]]] = defaultdict(list)
    whole: dict[str, Any] = {}
    for prefix, some in odd.items():
        if isinstance(some, list):
            by_path[prefix] = [(at, -1, value, {}) for at, value in some]
        else:
            whole[prefix] = some
    for at, number, raw in ordered:
        more = {name: value for name, value in raw.items() if name not in ("path", "rule")}
        by_path[str(raw.get("path", ""))].append((at, number, raw.get("rule", ""), more))
    lists: dict[str, Any] = dict(whole)
    extras: dict[str, list[Raw]] = {}
    for path, some in by_path.items():
        # Where the file had something that is no list, that must not be written over.
        prefix = f"{path} " if path in whole else path
        ordered_here = sorted(some, key=lambda each: each[:2])
        lists[prefix] = [value for _, _, value, _ in ordered_here]
        if some:
            extras[prefix] = [more for *_, more in ordered_here]
    return lists, extras


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is too large")
    return value


# -------------------------------------------------------------------- entries


def item_from(slot: LtmSlot, *, now: str, largest: int) -> LtmItem:
    """An entry of the file as a lesson; refused when it lacks what its type is about."""
    kind, raw = CATEGORIES[slot.category], slot.raw
    labels = learned.SHAPES[kind].labels
    given = {name: raw[name] for name in labels if name in raw}
    if "success_rate" in given:
        given["success_rate"] = _share(given["success_rate"])
    for name in ("impact", "prevention", "path"):
        if not isinstance(given.get(name, ""), str) or not given.get(name, "").strip():
            given.pop(name, None)
    fields = learned.clean(kind, given, largest=largest)
    confidence = _share(raw.get("confidence"))
    first = _stamp(raw.get("timestamp")) or now
    return LtmItem(
        kind,
        fields,
        learned.SHAPES[kind].confidence if confidence is None else confidence,
        _paths(raw.get("examples")),
        _whole(raw.get(_APPLIED.get(kind, "applied"))),
        max(_whole(raw.get(_COUNTED.get(kind, "count"))), 1),
        first,
        _stamp(raw.get("updated")) or first,
        _tags(raw.get("tags")),
    )


def item_of(lesson: Lesson, *, verified: bool) -> LtmItem:
    """A lesson as the file can say it."""
    return LtmItem(
        lesson.type,
        lesson.fields,
        lesson.confidence,
        lesson.examples,
        lesson.applied,
        lesson.times,
        lesson.first,
        lesson.last,
        lesson.record.tags,
        verified,
    )


def derive(item: LtmItem) -> Raw:
    """An item in CLIO's shape; what the shape has no key for is there only when there is something to say."""
    kind = item.kind
    usual = learned.SHAPES[kind].confidence
    raw: Raw = dict(item.fields)
    for name, stamp in (("timestamp", item.first), ("updated", item.last)):
        moment = clock.parse(stamp)
        if moment is not None:
            raw[name] = int(moment.timestamp())
    if kind in (RecordType.DISCOVERY, RecordType.PATTERN) or item.confidence != usual:
        raw["confidence"] = item.confidence
    if kind is RecordType.DISCOVERY:
        raw["verified"] = item.verified
    if kind in (RecordType.SOLUTION, RecordType.PATTERN) or item.examples:
        raw["examples"] = list(item.examples)
    if kind is RecordType.SOLUTION or item.applied:
        raw[_APPLIED.get(kind, "applied")] = item.applied
    if kind in (RecordType.WORKFLOW, RecordType.FAILURE) or item.times > 1:
        raw[_COUNTED.get(kind, "count")] = item.times
    if item.tags:
        raw["tags"] = list(item.tags)
    return raw


def beside(raw: Raw, item: LtmItem) -> Raw:
    """What the file has that the item does not say, and marks of what the item says otherwise."""
    derived = derive(item)
    has = {
        name: value
        for name, value in raw.items()
        if name not in derived or _mark(value) != _mark(derived[name])
    }
    was = {name: _mark(value) for name, value in derived.items() if name not in raw or name in has}
    return {"has": has, "was": was, "all": _mark(derived)}


def restore_entry(item: LtmItem, kept: Mapping[str, Any]) -> Raw:
    """The entry for the file: as the file had it, but for what has changed since."""
    now = derive(item)
    has, was = kept.get("has", {}), kept.get("was", {})
    raw = dict(now)
    for name, mark in was.items():
        if name in now and _mark(now[name]) == mark:
            if name in has:
                raw[name] = has[name]
            else:
                del raw[name]
    return raw | {name: value for name, value in has.items() if name not in was and name not in now}


def _mark(value: object) -> str:
    """A short name for a JSON value; 1, 1.0 and true are three."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _share(value: object) -> float | None:
    """A number from 0 to 1, also one written as text, as Perl may."""
    try:
        number = (
            float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else -1.0
        )
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number <= 1 else None


def _whole(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15 else 0


def _stamp(value: object) -> str | None:
    """A time, in seconds since 1970 or in words."""
    if isinstance(value, str) and not value.isdecimal():
        moment = clock.parse(value)
        return None if moment is None else clock.stamp(moment)
    try:
        seconds = (
            float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
        )
        return None if seconds is None else clock.stamp(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def _paths(value: object) -> tuple[str, ...]:
    try:
        return learned.clean_examples(value)[: learned.MOST_EXAMPLES] if isinstance(value, list) else ()
    except VadeError:
        return ()


def _tags(value: object) -> tuple[str, ...]:
    listed = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
    plain = [each for each in listed if each == each.strip() and each.isprintable() and "," not in each]
    return (
        read_tags(plain) if plain == listed and len(plain) <= 50 and all(len(e) <= 200 for e in plain) else ()
    )


# -------------------------------------------------------------------- records


class LtmReader:
    """Brings the entries of a file into records, each once however often it is read."""

    def __init__(self, records: Records, shelves: Sequence[Shelf], *, gate: Gate, largest: int) -> None:
        self.records, self.shelves, self.gate, self.largest = records, shelves, gate, largest
        self.kinds: set[str] = set()
        self.used: set[str] = set()
        self.index: dict[tuple[str, str], list[Found]] = defaultdict(list)
        for found in records.typed(shelves, *map(str, LEARNED)):
            # Words that others have replaced since are known all the same.
            for entry in reversed(found.record.entries):
                self.index[found.record.type, normalise(entry.text)].append(found)

    def read(self, value: Raw) -> LtmImport:
        """Keep everything in a file: its entries as records, the rest in a record of its own."""
        done = LtmImport()
        if "patterns" not in value:
            why = "not an ltm.json: it has no `patterns`"
            raise Malformed(why, hint="is it the right file?")
        file = take_apart(value)
        slots, odd = [], dict(file.odd)
        for slot in file.slots:
            clean = self._gated(slot, done)
            if clean is None:
                continue
            why = self._unfit(clean)
            if why:
                done.findings.append(Finding("kept aside", _where(slot), why, severity="info"))
                _put_aside(odd, clean)
            else:
                slots.append(clean)
        rest = self._cleaned({_FILE: file.rest, "shapes": dict(file.shapes), "odd": odd})
        text = _OPENING + json.dumps(rest, indent=1, sort_keys=True) + _CLOSING
        draft = Draft(
            learned.clean(RecordType.DISCOVERY, {"fact": text}, largest=self.largest)["fact"],
            RecordType.REFERENCE,
            mode="replace",
            name="ltm json",
            labels=lambda values: {"source": SOURCE, "ltm": _FILE, "confirmed": None},
        )
        for slot in slots:
            self._keep(slot, done)
        self._keep_rest(draft)
        done.secrets = tuple(sorted(self.kinds))
        return done

    def _keep(self, slot: LtmSlot, done: LtmImport) -> None:
        now = clock.stamp(self.records.now())
        item = item_from(slot, now=now, largest=self.largest)
        text = self._text(item)
        found = self._known(slot, item, text)
        if found is None:
            aside = {**beside(slot.raw, item), "at": slot.at}
            draft = Draft(
                text,
                item.kind,
                item.tags,
                name=learned.title(item.kind, item.fields),
                labels=lambda values: _labels(item, aside),
            )
            with self.records.home.lock(f"place {self.shelves[0].place}"):
                done.added.append(self.records.begin(self.shelves, draft).key)
            return
        # What the file does not tell is what it was at the first reading.
        own = learned.read_lesson(found.record)
        item = item_from(slot, now=found.record.created or now, largest=self.largest)
        aside = {**beside(slot.raw, item), "at": slot.at}
        if _same_aside(aside, _aside(found.record)) or own is None:
            done.known += 1
            return
        self.records.revise(found, lambda values: _merged(values, item, aside), operation="import")
        done.updated.append(found.record.key)

    def _known(self, slot: LtmSlot, item: LtmItem, text: str) -> Found | None:
        """The record that holds this entry already, and no other entry of this file."""
        listed = self.index.get((str(item.kind), normalise(text)), [])
        free = [found for found in listed if found.record.path not in self.used]
        there = [found for found in free if _aside(found.record).get("at") == slot.at]
        alike = [found for found in free if _aside(found.record).get("has") == beside(slot.raw, item)["has"]]
        chosen = next(iter([*there, *alike, *free]), None)
        if chosen is not None:
            self.used.add(chosen.record.path)
        return chosen

    def _keep_rest(self, draft: Draft) -> None:
        for found in self.records.typed(self.shelves, str(RecordType.REFERENCE)):
            if found.record.fields.get("ltm") == _FILE:
                self.records.join(found, draft)
                return
        with self.records.home.lock(f"place {self.shelves[0].place}"):
            self.records.begin(self.shelves, draft)

    def _gated(self, slot: LtmSlot, done: LtmImport) -> LtmSlot | None:
        """The entry without its secrets; None when the policy is to refuse it."""
        try:
            return slot._replace(raw=self._cleaned(slot.raw))
        except SecretFound as error:
            done.findings.append(Finding("refused", _where(slot), str(error), severity="warning"))
            return None

    def _unfit(self, slot: LtmSlot) -> str:
        """Why an entry cannot be a record; empty when it can."""
        try:
            item = item_from(slot, now=clock.stamp(self.records.now()), largest=self.largest)
            self.records.check_purged(learned.render(item.kind, item.fields))
        except VadeError as error:
            return str(error)
        aside = json.dumps(beside(slot.raw, item))
        if len(aside) + len(json.dumps(item.examples)) > _LONGEST:
            return "its metadata is too long for a record's frontmatter"
        return ""

    def _text(self, item: LtmItem) -> str:
        text, kinds = self.gate(learned.render(item.kind, item.fields))
        self.kinds.update(kinds)
        return text

    def _cleaned(self, value: Any) -> Any:
        """A value with every text in it through the secret gate, which cuts text and must not cut JSON."""
        if isinstance(value, str):
            text, kinds = self.gate(value)
            self.kinds.update(kinds)
            return text
        if isinstance(value, list):
            return [self._cleaned(each) for each in value]
        if isinstance(value, dict):
            return {self._cleaned(name): self._cleaned(each) for name, each in value.items()}
        return value


def collect(lessons: Iterable[tuple[Lesson, bool]], rest: Record | None) -> Raw:
    """The file of these lessons, each with whether it is verified, and of what was kept of an earlier one."""
    kept, since = _kept(rest)
    categories = {kind: name for name, kind in CATEGORIES.items()}
    items: list[tuple[str, int | None, Raw]] = []
    first: list[int] = []
    changed: list[int] = []
    for lesson, verified in lessons:
        item, aside = item_of(lesson, verified=verified), _aside(lesson.record)
        at = aside.get("at")
        items.append((categories[item.kind], at if isinstance(at, int) else None, restore_entry(item, aside)))
        derived = derive(item)
        first += [derived[name] for name in ("timestamp",) if name in derived]
        last = int(derived.get("updated", 0))
        touched = _mark(derived) != aside["all"] if "all" in aside else last > since
        if touched or kept is None:
            changed.append(last)
    file = put_together(items, kept)
    if kept is None:
        created, updated = min(first, default=0), max(changed, default=0)
        file["metadata"] = {"created": created, "last_updated": updated, "version": "1.0"}
    elif changed and isinstance(file.get("metadata"), dict):
        known = file["metadata"].get("last_updated")
        if isinstance(known, int) and max(changed) > known:
            file["metadata"] = {**file["metadata"], "last_updated": max(changed)}
    return file


def check_secrets(file: Raw) -> None:
    """Refuse to let a secret out: an export goes where nobody watches it."""
    found = sorted({secret.kind for text in _texts(file) for secret in secrets.find(text)})
    if found:
        raise SecretFound(f"the export would contain what looks like a secret: {', '.join(found)}")


def redact_file(file: Raw) -> tuple[Raw, tuple[str, ...]]:
    """A file with its secrets cut out of every text, and their kinds; the JSON around them stays whole."""
    kinds: set[str] = set()

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            text, found = secrets.gate(value, SecretPolicy.REDACT)
            kinds.update(found)
            return text
        if isinstance(value, list):
            return [clean(each) for each in value]
        if isinstance(value, dict):
            return {clean(name): clean(each) for name, each in value.items()}
        return value

    return clean(file), tuple(sorted(kinds))


def rest_among(records: Iterable[Record]) -> Record | None:
    """The record that keeps what a file held beside its entries."""
    return next((each for each in records if each.fields.get("ltm") == _FILE), None)


def gate(policy: SecretPolicy) -> Gate:
    """The secret gate of a scope, as a function of a text."""
    return lambda text: secrets.gate(text, policy)


def _labels(item: LtmItem, aside: Raw) -> dict[str, Any]:
    return {
        "confidence": item.confidence,
        "examples": list(item.examples) or None,
        "applied": item.applied or None,
        "learned": item.times if item.times > 1 else None,
        "created": item.first,
        "updated": item.last,
        "source": SOURCE,
        "confirmed": None,  # a file is no session
        "ltm": json.dumps(aside, sort_keys=True),
    }


def _merged(values: Mapping[str, Any], item: LtmItem, aside: Raw) -> dict[str, Any]:
    """The labels of a record that a newer file speaks of: what either knows, and the higher count."""
    united = tuple(dict.fromkeys([*learned.read_examples(values), *item.examples]))[: learned.MOST_EXAMPLES]
    later = max((clock.parse(values.get("updated")), clock.parse(item.last)), key=_moment)
    times = max(learned.read_count(values, "learned"), item.times)
    return {
        "confidence": max(learned.read_confidence(values, item.kind), item.confidence),
        "examples": list(united) or None,
        "applied": max(learned.read_count(values, "applied"), item.applied) or None,
        "learned": times if times > 1 else None,
        "updated": None if later is None else clock.stamp(later),
        "ltm": json.dumps(aside, sort_keys=True),
    }


def _moment(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


def _aside(record: Record) -> Raw:
    """What is kept beside a record of the file it came from; nothing when that cannot be read."""
    try:
        aside = json.loads(str(record.fields.get("ltm") or "{}"))
    except (ValueError, RecursionError):
        return {}
    return aside if isinstance(aside, dict) and isinstance(aside.get("has", {}), dict) else {}


def _same_aside(one: Raw, other: Raw) -> bool:
    return all(_mark(one.get(name)) == _mark(other.get(name)) for name in ("has", "at"))


def _kept(rest: Record | None) -> tuple[Raw | None, float]:
    """What was kept of a file, and when."""
    if rest is None or not rest.text.startswith(_OPENING):
        return None, 0.0
    try:
        kept = json.loads(rest.text.removeprefix(_OPENING).removesuffix(_CLOSING))
    except (ValueError, RecursionError):
        return None, 0.0
    readable = isinstance(kept, dict) and all(isinstance(kept.get(n), dict) for n in (_FILE, "shapes", "odd"))
    return (kept, _moment(clock.parse(rest.updated))) if readable else (None, 0.0)


def _put_aside(odd: dict[str, Any], slot: LtmSlot) -> None:
    if slot.category == RULES:
        listed = odd.setdefault(RULES, {}).setdefault(slot.raw["path"], [])
        listed.append([slot.at, slot.raw["rule"]])
    else:
        odd.setdefault(slot.category, []).append([slot.at, slot.raw])


def _where(slot: LtmSlot) -> str:
    return (
        f"{slot.category}[{slot.raw['path']!r}][{slot.at}]"
        if slot.category == RULES
        else f"{slot.category}[{slot.at}]"
    )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield str(name)
            yield from _texts(each)
