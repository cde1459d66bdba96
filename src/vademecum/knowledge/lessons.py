"""The six learned types: their fields, the readable text that holds them, and when two of them are one.

A lesson is kept as an ordinary record. Its fields are in the text of an entry, so that a person can read and
edit them anywhere; what is counted stands in the frontmatter. `parse(render(fields)) == fields`, and any text
can be parsed: what has no label belongs to the field that the type is about.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import InvalidText, UnknownName, UsageError
from vademecum.store import Draft, document
from vademecum.store.merge import Known, is_consolidation, may_supersede
from vademecum.text import clock, is_same_text, names, similarity
from vademecum.types import LEARNED, Entry, RecordType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vademecum.types import Origin, Record

    Fields = dict[str, Any]

MOST_EXAMPLES = 100
_LONGEST_PATH = 1000
# How much of what is missing to certainty each confirmation adds. Small, since the same agent may repeat
# itself: it takes three confirmations to halve the doubt.
STEP = 0.2


class LessonShape(NamedTuple):
    """What a type is made of: its fields with their labels, which of them it is about, how sure it begins."""

    labels: Mapping[str, str]
    main: str
    confidence: float
    needed: tuple[str, ...]


SHAPES: Mapping[RecordType, LessonShape] = {
    RecordType.DISCOVERY: LessonShape({"fact": ""}, "fact", 0.8, ("fact",)),
    RecordType.SOLUTION: LessonShape(
        {"error": "Error", "solution": "Solution"}, "error", 0.8, ("error", "solution")
    ),
    RecordType.PATTERN: LessonShape({"pattern": ""}, "pattern", 0.7, ("pattern",)),
    RecordType.WORKFLOW: LessonShape(
        {"sequence": "", "success_rate": "Success rate"}, "sequence", 0.7, ("sequence",)
    ),
    RecordType.FAILURE: LessonShape(
        {"what": "What", "impact": "Impact", "prevention": "Prevention"}, "what", 0.8, ("what",)
    ),
    RecordType.RULE: LessonShape({"path": "Path", "rule": "Rule"}, "rule", 0.8, ("rule",)),
}

_LABELS = "|".join(label for shape in SHAPES.values() for label in shape.labels.values() if label)
_LABEL = re.compile(rf"^\*\*({_LABELS}):\*\*(?: |$)", re.MULTILINE)
_MARKUP = re.compile(rf"^(\\*)(?=\*\*(?:{_LABELS}):\*\*)", re.MULTILINE)
_ESCAPED = re.compile(rf"^\\(?=\\*\*\*(?:{_LABELS}):\*\*)", re.MULTILINE)
_TELLING = 5  # words; with fewer, one that is spelled otherwise could be all of them
_BELOW = math.nextafter(100.0, 0)
_STEP = re.compile(r"^(\d{1,9}[.)] )", re.MULTILINE)


class Lesson(NamedTuple):
    """What a record of a learned type says, and how it has fared."""

    record: Record
    type: RecordType
    entry: Entry
    fields: Fields
    confidence: float
    examples: tuple[str, ...] = ()
    applied: int = 0
    times: int = 1  # how often it was learned
    first: str | None = None
    last: str | None = None

    @property
    def text(self) -> str:
        """What the lesson says, as it stands in its file."""
        return self.entry.text


def parse_type(name: str) -> RecordType:
    """The learned type of that name."""
    found = next((each for each in LEARNED if each == name), None)
    if found is None:
        hint = f"the types are: {', '.join(LEARNED)}"
        raise UnknownName(f"{names.shown(str(name))} is not a type of lesson", hint=hint)
    return found


# -------------------------------------------------------------------- fields and their text


def clean(kind: RecordType, given: Mapping[str, object], *, largest: int) -> Fields:
    """The fields of a lesson as they will be kept; refused when one is missing, unknown or no such thing."""
    shape = SHAPES[kind]
    given = {name: value for name, value in given.items() if value not in (None, "", [], ())}
    for name in given:
        if name not in shape.labels:
            raise UsageError(
                f"a {kind} has no field {names.shown(name)}", hint=f"its fields: {', '.join(shape.labels)}"
            )
    for name in shape.needed:
        if name not in given:
            raise UsageError(f"a {kind} needs its {name}", hint=f"its fields: {', '.join(shape.labels)}")
    fields: Fields = {}
    for name in shape.labels:
        if name not in given:
            continue
        if name == "sequence":
            fields[name] = _clean_steps(given[name], largest=largest)
        elif name == "success_rate":
            fields[name] = check_share(given[name], "a success rate")
        else:
            fields[name] = _clean_text(given[name], largest=largest)
    if "\n" in fields.get("path", ""):
        raise InvalidText("the path of a rule must be one line")
    return fields


def check_share(value: object, what: str) -> float:
    """A number from 0 to 1."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise UsageError(f"{what} must be between 0 and 1, not {names.shown(str(value))}")
    return float(value)


def clean_examples(given: Iterable[object]) -> tuple[str, ...]:
    """Paths that show what is meant, each once."""
    if isinstance(given, (str, bytes)):
        raise UsageError("examples are a list of paths", hint="pass a list with one path")
    found = []
    for each in given:
        path = _clean_text(each, largest=_LONGEST_PATH)
        if "\n" in path:
            raise InvalidText("an example must be a path on one line")
        found.append(path.strip())
    return tuple(dict.fromkeys(found))


def render(kind: RecordType, fields: Mapping[str, Any]) -> str:
    """A lesson as Markdown."""
    shape = SHAPES[kind]
    parts = []
    for name, label in shape.labels.items():
        if name not in fields:
            continue
        value = fields[name]
        if name == "sequence":
            parts.append("\n".join(_item(number, step) for number, step in enumerate(value, 1)))
        elif not label:
            parts.append(str(value))
        else:
            said = repr(value) if isinstance(value, float) else _MARKUP.sub(r"\\\1", value)
            parts.append(f"**{label}:** {said}")
    return "\n\n".join(parts)


def parse(kind: RecordType, text: str) -> Fields:
    """The fields of a lesson from its text, whoever wrote it."""
    shape = SHAPES[kind]
    if kind in (RecordType.DISCOVERY, RecordType.PATTERN):
        return {shape.main: text}
    names_of = {label: name for name, label in shape.labels.items() if label}
    fields: Fields = {}
    pieces = [match for match in _LABEL.finditer(text) if match[1] in names_of]
    opening = text[: pieces[0].start()] if pieces else text
    ends = [*(each.start() for each in pieces[1:]), len(text)]
    for match, after in zip(pieces, ends, strict=False):
        name = names_of[match[1]]
        value = _ESCAPED.sub("", text[match.end() : after]).rstrip().strip("\n")
        fields[name] = f"{fields[name]}\n{value}" if name in fields else value
    if kind is RecordType.WORKFLOW:
        return _workflow(opening, fields)
    if opening.strip():
        main = fields.get(shape.main, "")
        fields[shape.main] = _ESCAPED.sub("", opening).strip("\n").rstrip() + (f"\n{main}" if main else "")
    return {name: fields[name] for name in shape.labels if fields.get(name)}


def title(kind: RecordType, fields: Mapping[str, Any]) -> str:
    """The words a lesson is called by."""
    value = fields[SHAPES[kind].main]
    said = " ".join(value) if isinstance(value, list) else str(value)
    return f"{fields['path']} {said}" if fields.get("path") else said


def _clean_text(value: object, *, largest: int) -> str:
    """A text that stays as it is, however often it is kept."""
    kept = document.accept_text(value, largest=largest)  # type: ignore[arg-type]  # it refuses what is no text
    while (again := document.accept_text(kept, largest=largest)) != kept:
        kept = again
    return kept


def _clean_steps(value: object, *, largest: int) -> list[str]:
    if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple)):
        raise UsageError("a sequence is a list of steps", hint="pass each step separately")
    return [_clean_text(step, largest=largest) for step in value]


def _item(number: int, step: str) -> str:
    """One step of a list; its further lines are set in, so that none of them can begin another step."""
    marker = f"{number}. "
    first, *rest = step.split("\n")
    return "\n".join([marker + first, *(" " * len(marker) + line if line else "" for line in rest)])


def _workflow(opening: str, fields: Fields) -> Fields:
    starts = [*_STEP.finditer(opening)]
    if not starts:
        whole = opening.strip("\n").rstrip()
        steps = [whole] if whole else []
    else:
        before = opening[: starts[0].start()].strip("\n").rstrip()
        steps = [before] if before.strip() else []
        ends = [*(each.start() for each in starts[1:]), len(opening)]
        steps += [_unindented(opening[s.end() : end], len(s[1])) for s, end in zip(starts, ends, strict=True)]
    found: Fields = {"sequence": steps} if steps else {}
    rate = _share(fields.get("success_rate"))
    return found if rate is None else found | {"success_rate": rate}


def _unindented(text: str, width: int) -> str:
    lines = text.split("\n")
    return "\n".join([lines[0], *(line.removeprefix(" " * width) for line in lines[1:])]).rstrip()


def _share(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value <= 1 else None


# -------------------------------------------------------------------- lessons


def read_lesson(record: Record) -> Lesson | None:
    """What a record teaches; None when it is of another type or says nothing any more."""
    kind = next((each for each in LEARNED if each == record.type), None)
    entry = next(reversed(record.live), None)
    # What earlier versions consolidated may be of a learned type, and is no lesson.
    if kind is None or entry is None or is_consolidation(record):
        return None
    values = record.fields
    times = [record.updated, *(str(each.get("at") or "") for each in confirmations(values))]
    return Lesson(
        record,
        kind,
        entry,
        parse(kind, entry.text),
        read_confidence(values, kind),
        read_examples(values),
        read_count(values, "applied"),
        max(read_count(values, "learned"), 1),
        record.created or entry.time,
        _latest(times) or record.created or entry.time,
    )


def confirmations(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Who has confirmed a record, of what its frontmatter lists."""
    listed = values.get("confirmed")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def read_confidence(values: Mapping[str, Any], kind: RecordType) -> float:
    """How sure a record says it is; what is no number from 0 to 1 says nothing."""
    value = values.get("confidence")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    return SHAPES[kind].confidence


def read_examples(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths that a record lists as examples."""
    listed = values.get("examples")
    if isinstance(listed, str):
        return (listed,)
    return tuple(each for each in listed if isinstance(each, str)) if isinstance(listed, list) else ()


def read_count(values: Mapping[str, Any], name: str) -> int:
    """A counter of a record; what is no whole number counts nothing."""
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def raise_confidence(confidence: float, given: float) -> float:
    """The confidence after another confirmation: nearer to 1, and never lower than either."""
    best = max(confidence, given)
    return min(1.0, max(best, round(best + (1 - best) * STEP, 4)))


def labels(
    kind: RecordType, *, confidence: float | None, examples: Sequence[str]
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """How the labels of a lesson join those of the record it begins or confirms."""

    def join(values: Mapping[str, Any]) -> dict[str, Any]:
        begins = not values
        own = SHAPES[kind].confidence if confidence is None else confidence
        old = read_examples(values)
        changes: dict[str, Any] = {
            # Without a word on how sure it is, a confirmation only adds to what was known.
            "confidence": own
            if begins
            else raise_confidence(read_confidence(values, kind), confidence or 0.0),
        }
        united = tuple(dict.fromkeys([*old, *examples]))[:MOST_EXAMPLES]
        if united != old:
            changes["examples"] = list(united)
        if not begins:
            changes["learned"] = max(read_count(values, "learned"), 1) + 1
        return changes

    return join


class DraftedLesson(NamedTuple):
    """A lesson on its way into a record: the draft, its fields, and the kinds of secrets found in it."""

    draft: Draft
    fields: Fields
    secrets: tuple[str, ...]


def draft(
    kind: RecordType,
    given: Mapping[str, object],
    *,
    confidence: float | None,
    examples: Iterable[object],
    tags: tuple[str, ...],
    gate: Callable[[str], tuple[str, tuple[str, ...]]],
    largest: int,
) -> DraftedLesson:
    """A lesson as it will be kept, without secrets."""
    found: set[str] = set()

    def gated(text: str) -> str:
        kept, kinds = gate(text)
        found.update(kinds)
        return kept

    sure = None if confidence is None else check_share(confidence, "a confidence")
    fields = clean(kind, given, largest=largest)
    for name, value in fields.items():
        if isinstance(value, list):
            fields[name] = [gated(step) for step in value]
        elif isinstance(value, str):
            fields[name] = gated(value)
    paths = tuple(gated(path) for path in clean_examples(examples))
    # Once more as a whole: what stands in two fields may be a secret together.
    text = gated(document.accept_text(render(kind, fields), largest=largest))
    kept = Draft(
        text,
        kind,
        tags,
        name=title(kind, fields),
        labels=labels(kind, confidence=sure, examples=paths),
    )
    return DraftedLesson(kept, parse(kind, text), tuple(sorted(found)))


class LessonMatch(NamedTuple):
    """How two lessons compare: how alike they are, and whether the new one leaves something unsaid."""

    likeness: float
    less: bool = False


def match(
    kind: RecordType, new: Mapping[str, Any], known: Mapping[str, Any], *, threshold: float
) -> LessonMatch | None:
    """Whether two lessons of a type are one, field by field; None when they say different things."""
    found, more, less = 100.0, False, False
    for name in SHAPES[kind].labels:
        one, other = new.get(name), known.get(name)
        if one is None or other is None:
            more, less = more or one is not None, less or other is not None
        elif name == "success_rate":
            more = more or one != other
        else:
            likeness = _likeness(name, one, other, threshold)
            if likeness is None:
                return None
            found = min(found, likeness)
    if kind is RecordType.RULE and new.get("path") != known.get("path"):
        return None
    if more and less:
        return None  # each says something the other does not: neither can stand for both
    return LessonMatch(_BELOW if more and found == 100 else found, less)


def may_hold(text: str) -> Callable[[bytes], bool]:
    """Whether a file may hold a wording of this text: it has a third of its words.

    Most files of a large memory have none of them, and are not worth being parsed. What is so alike and yet
    shares so few words would have a typing error in nearly each of them.
    """
    words = {word.lower().encode() for word in re.findall(r"[A-Za-z0-9]{3,}", text)}

    def look(content: bytes) -> bool:
        if len(words) < _TELLING:
            return True
        lower = content.lower()
        return sum(word in lower for word in words) * 3 >= len(words)

    return look


def find_known(
    kind: RecordType,
    fields: Mapping[str, Any],
    *,
    origin: Origin,
    threshold: float,
    distinct: Callable[[str], bool] = lambda text: False,
) -> Callable[[Iterable[Record]], Known | None]:
    """How to find, among the records of a type, the one that already teaches this: the most alike wins.

    `distinct` tells of a text, however alike, that somebody decided that it is another lesson.
    """

    def pick(records: Iterable[Record]) -> Known | None:
        best: tuple[float, Known] | None = None
        for record in records:
            for entry in record.live:
                found = match(kind, fields, parse(kind, entry.text), threshold=threshold)
                if found is None or distinct(entry.text):
                    continue
                if best is None or found.likeness > best[0]:
                    stays = found.less or not may_supersede(record, entry, origin=origin)
                    best = found.likeness, Known(record, entry, stays)
        return None if best is None else best[1]

    return pick


def _likeness(name: str, new: Any, known: Any, threshold: float) -> float | None:
    """How alike two values of a field are."""
    if name == "sequence":
        # Step by step: the same steps in another order are another workflow.
        if len(new) != len(known):
            return None
        each = [_likeness("", one, other, threshold) for one, other in zip(new, known, strict=True)]
        return None if None in each else min((found for found in each if found is not None), default=100.0)
    found = similarity.same(new, known, threshold=threshold)
    if found is not None and is_same_text(new, known):
        return 100.0
    if name == "path":
        return None
    # Exactly 100 is kept for what is the same: other words must leave their own entry behind.
    return None if found is None else min(found, _BELOW)


def _latest(stamps: Iterable[str | None]) -> str | None:
    moments = [(moment, stamp) for stamp in stamps if stamp and (moment := clock.parse(stamp))]
    return max(moments)[1] if moments else None
