"""The six types of lessons: their fields, the text that holds the fields, and when two lessons are equal.

A lesson is an ordinary record. Its fields are in the text of an entry, where a person can read and edit them;
its counters are in the frontmatter. `parse(render(fields)) == fields`, and any text can be parsed: a part
without a label belongs to the main field of the type.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from vademecum.errors import InvalidText, UnknownName, UsageError
from vademecum.lazy import LazyModule, lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.store import Draft, is_consolidation, may_supersede
from vademecum.store.merge import Known
from vademecum.text import clock, document, is_same_text, names
from vademecum.types import LEARNED, Entry, RecordType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vademecum.text import similarity
    from vademecum.types import Origin, Record

    Fields = dict[str, Any]
else:
    similarity = LazyModule("vademecum.text.similarity")  # word lists for texts that are not the same

MOST_EXAMPLES = 100
_LONGEST_PATH = 1000
# How much of what is missing to certainty each confirmation adds. Small, since the same agent may repeat
# itself: it takes three confirmations to halve the doubt.
STEP = 0.2


class LessonShape(NamedTuple):
    """The fields of a lesson type with their labels, the main field, and the confidence of a new lesson."""

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
_LABEL = lazy_pattern(rf"^\*\*({_LABELS}):\*\*(?: |$)", re.MULTILINE)
_MARKUP = lazy_pattern(rf"^(\\*)(?=\*\*(?:{_LABELS}):\*\*)", re.MULTILINE)
_ESCAPED = lazy_pattern(rf"^\\(?=\\*\*\*(?:{_LABELS}):\*\*)", re.MULTILINE)
_TELLING = 5  # words; with fewer, one that is spelled otherwise could be all of them
_BELOW = math.nextafter(100.0, 0)
_STEP = lazy_pattern(r"^(\d{1,9}[.)] )", re.MULTILINE)


class Lesson(NamedTuple):
    """A lesson: its fields, its confidence, and how often it was confirmed and of use."""

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
        """The text of the lesson as it stands in the record's file."""
        return self.entry.text


def parse_type(name: str) -> RecordType:
    """Return the lesson type with this name; raise UnknownName for any other name."""
    found = next((each for each in LEARNED if each == name), None)
    if found is None:
        hint = f"the types are: {', '.join(LEARNED)}"
        raise UnknownName(f"{names.shown(str(name))} is not a type of lesson", hint=hint)
    return found


# -------------------------------------------------------------------- fields and their text


def clean(kind: RecordType, given: Mapping[str, object], *, largest: int) -> Fields:
    """Return a lesson's fields in the form in which they are saved; raise for missing, unknown or invalid
    fields.
    """
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
    """Return a number from 0 to 1; raise an error for any other value."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1:
        raise UsageError(f"{what} must be between 0 and 1, not {names.shown(str(value))}")
    return float(value)


def clean_examples(given: Iterable[object]) -> tuple[str, ...]:
    """Return the paths of examples without repetitions."""
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
    """Return the fields of a lesson as Markdown."""
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
            value_text = repr(value) if isinstance(value, float) else _MARKUP.sub(r"\\\1", value)
            parts.append(f"**{label}:** {value_text}")
    return "\n\n".join(parts)


def parse(kind: RecordType, text: str) -> Fields:
    """Return the fields of a lesson, read from its text, whoever wrote the text."""
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
    """Return the title of a lesson: the words of its main field, after the path if the lesson has one."""
    value = fields[SHAPES[kind].main]
    value_text = " ".join(value) if isinstance(value, list) else str(value)
    return f"{fields['path']} {value_text}" if fields.get("path") else value_text


def _clean_text(value: object, *, largest: int) -> str:
    """Return a text in a form that does not change when the text is saved and read again."""
    kept = document.accept_text(value, largest=largest)  # type: ignore[arg-type]  # it refuses what is no text
    while (again := document.accept_text(kept, largest=largest)) != kept:
        kept = again
    return kept


def _clean_steps(value: object, *, largest: int) -> list[str]:
    if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple)):
        raise UsageError("a sequence is a list of steps", hint="pass each step separately")
    return [_clean_text(step, largest=largest) for step in value]


def _item(number: int, step: str) -> str:
    """Return one step of a numbered list; further lines are indented, so that none looks like
    another step.
    """
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
        steps += [
            _remove_indent(opening[s.end() : end], len(s[1])) for s, end in zip(starts, ends, strict=True)
        ]
    found: Fields = {"sequence": steps} if steps else {}
    rate = _share(fields.get("success_rate"))
    return found if rate is None else found | {"success_rate": rate}


def _remove_indent(text: str, width: int) -> str:
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
    """Return the lesson in a record; None when the record is of another type or has no current text."""
    kind = next((each for each in LEARNED if each == record.type), None)
    entry = next(reversed(record.live), None)
    # A consolidation holds several records and is no lesson, whatever its type.
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
    """Return who has confirmed a lesson and when, as its frontmatter says."""
    listed = values.get("confirmed")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def read_confidence(values: Mapping[str, Any], kind: RecordType) -> float:
    """Return the confidence in a record's frontmatter, or that of its type if it is not from 0 to 1."""
    value = values.get("confidence")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    return SHAPES[kind].confidence


def read_examples(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the example paths of a record."""
    listed = values.get("examples")
    if isinstance(listed, str):
        return (listed,)
    return tuple(each for each in listed if isinstance(each, str)) if isinstance(listed, list) else ()


def read_count(values: Mapping[str, Any], name: str) -> int:
    """Return a counter in a record's frontmatter; 0 when it is not a whole number."""
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def raise_confidence(confidence: float, given: float) -> float:
    """Return the confidence after one more confirmation: nearer to 1, and not lower than either
    number given.
    """
    best = max(confidence, given)
    return min(1.0, max(best, round(best + (1 - best) * STEP, 4)))


def labels(
    kind: RecordType, *, confidence: float | None, examples: Sequence[str]
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function that gives the frontmatter values to change when a lesson is saved or confirmed.

    The function takes the present values of the record; they are empty for a new record.
    """

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
    """A lesson that is ready to be saved: its draft, fields, and the kinds of secrets found in it."""

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
    """Return a lesson that is ready to be saved, with its secrets handled as the gate says."""
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
    """How similar two lessons are, and whether the new lesson leaves out something of the known one."""

    likeness: float
    less: bool = False


def match(
    kind: RecordType, new: Mapping[str, Any], known: Mapping[str, Any], *, threshold: float
) -> LessonMatch | None:
    """Return how similar two lessons of a type are, field by field; None when they say different things."""
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
    """Return a quick test of a file's bytes: whether a third of this text's words are in the file.

    Most files of a large memory fail the test, and need not be parsed.
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
    """Return a function that finds, among records, the lesson most similar to these fields.

    `distinct` tells whether somebody decided that a text is another lesson, however similar the two are.
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
    """Return how similar two values of a field are; None when they say different things."""
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
