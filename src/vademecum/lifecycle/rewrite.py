"""One topic, many entries: a model merges them into one, and nothing it drops goes unnoticed.

The article becomes a new entry and the ones it covers are marked superseded, so that an older date still gets
its own answer. What a model returns is held against the entries without any model; what fails is refused with
the reason, and the record stays as it was.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import ModelFailed, ModelUnauthorised, OverBudget, VadeError
from vademecum.lifecycle import passes, statements
from vademecum.lifecycle.passes import Proposal
from vademecum.llm.base import Limits, read_prompt
from vademecum.store import audit, clock, document, frontmatter, secrets
from vademecum.store.document import decode
from vademecum.types import LEARNED, Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from vademecum.lifecycle.passes import RunOutcome, SeenRecord
    from vademecum.llm.base import Model
    from vademecum.store import Records
    from vademecum.types import Place

NAME = "rewrite"
LEAST_ENTRIES = 2
LONGEST = 32 * 1024  # bytes of entries that one call is given
_LONGEST_ANSWER = 8192  # tokens, which every model in use can give
_GROWTH = 1.5  # an article may be a little longer than what it merges, for the words between
_SHRINK = 0.1  # below this share of the text something is wrong, whatever the facts say
_MOST_REPLACED = 0.5  # of the facts: more than that is no tidying
_KEPT_WORDS = 0.25  # of the longer words of an entry: below it nothing of the entry is left
_OWN_WORDS = 0.6  # of the longer words of a sentence: above it no entry says that
_WORDS = 4  # longer words that a sentence needs to be judged by them
_SHOWN = 5
_MARK = re.compile(r"(?m)^(ENTRY\b|END[ \t]*$)")


@dataclass(frozen=True, slots=True)
class Article:
    """What a model is asked for."""

    text: str
    superseded: list[str] = field(default_factory=list)


class Refusal(NamedTuple):
    """A record that was left as it is, and why."""

    path: str
    why: str
    asked: bool = True  # whether a model had a say in it


class Rewritten(NamedTuple):
    """What became of the topics that had something to merge."""

    outcome: RunOutcome
    refused: tuple[Refusal, ...] = ()
    model: str = ""


def is_due(seen: SeenRecord, *, named: bool = False) -> bool:
    """Whether a record has anything to merge; one that a person protects only when it is `named`."""
    return not _barred(seen) and (named or not seen.record.protected)


def rewrite_places(
    records: Records,
    places: Iterable[Place],
    model: Model,
    *,
    path: str | None = None,
    apply: bool,
    progress: Callable[[str, int, int], None] | None = None,
) -> Rewritten:
    """Topics with several entries, or the one at a path, merged: only told, or done.

    A refusal leaves a line in the audit, whether or not anything was to be written.
    """
    seen, findings = passes.read_places(records, places)
    if path is None:
        chosen = [each for each in seen if is_due(each)]
    else:
        chosen = [each for each in seen if each.record.path == path]

    def step(done: int) -> None:
        if progress is not None:
            progress("topics", done, len(chosen))

    proposals, refused = rewrite_all(chosen, model, now=records.now, progress=step)
    for each, refusal in refused:
        if not refusal.asked:
            continue
        # A look at what would be done is worth its answer also where nothing can be written.
        with contextlib.suppress(*(() if apply else (VadeError, OSError))):
            audit.write(
                records.home,
                at=records.now(),
                actor=records.caller.actor,
                operation=f"{NAME} refused",
                scope=each.record.place.scope,
                record=each.record.id,
                num=each.record.num,
                before=each.content,
                after=each.content,
            )
    outcome = passes.RunOutcome(tuple(proposals), findings=tuple(findings))
    if apply and proposals:
        run, told = passes.apply_proposals(records, proposals, what="compact")
        outcome = outcome._replace(run=run, told=told)
    return Rewritten(outcome, tuple(refusal for _, refusal in refused), model.name)


def rewrite_all(
    chosen: Iterable[SeenRecord],
    model: Model,
    *,
    now: Callable[[], datetime],
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[list[Proposal], list[tuple[SeenRecord, Refusal]]]:
    """What a model makes of each of some records; once it cannot be asked at all, it is asked no more."""
    proposals: list[Proposal] = []
    refused: list[tuple[SeenRecord, Refusal]] = []
    silent = ""
    for done, seen in enumerate(chosen):
        progress(done)
        if silent:
            refused.append((seen, Refusal(seen.record.path, f"not asked: {silent}", asked=False)))
            continue
        try:
            found = _rewritten(seen, model, now=now())
        except (ModelUnauthorised, OverBudget) as error:
            silent = str(error)
            found = Refusal(seen.record.path, silent)
        except ModelFailed as error:
            found = Refusal(seen.record.path, str(error))
        if isinstance(found, Refusal):
            refused.append((seen, found))
        else:
            proposals.append(found)
    return proposals, refused


def rewrite(
    seen: SeenRecord, model: Model, *, now: datetime, limits: Limits | None = None
) -> Proposal | Refusal:
    """What a model makes of a record's entries, as a proposal; or why it was refused."""
    try:
        return _rewritten(seen, model, now=now, limits=limits)
    except ModelFailed as error:
        return Refusal(seen.record.path, str(error))


def article_of(proposal: Proposal) -> str:
    """The text that a proposal would put in the place of the entries."""
    after = proposal.edits[0].after or b""
    return document.parse(decode(after)).entries[-1].text


def _barred(seen: SeenRecord) -> str:
    """Why a record is none to be merged, in words; empty when it is one."""
    if not seen.shelf.trusted:
        return "its folder is not trusted"
    if seen.record.type in LEARNED:
        return f"a {seen.record.type} has a form of its own, which an article would lose"
    entries = _covered(seen)
    if len(entries) < LEAST_ENTRIES:
        return "it has one entry only: there is nothing to merge"
    if len(_asked(entries).encode()) > LONGEST:
        return f"its entries are longer than {LONGEST // 1024} KiB together"
    return ""


def _rewritten(
    seen: SeenRecord, model: Model, *, now: datetime, limits: Limits | None = None
) -> Proposal | Refusal:
    barred = _barred(seen)
    if barred:
        return Refusal(seen.record.path, barred, asked=False)
    entries = _covered(seen)
    if any(secrets.find(entry.text) for entry in entries):
        return Refusal(seen.record.path, "it holds a secret, which no model may see", asked=False)
    prompt = _asked(entries)
    if limits is None:  # a token has more than two bytes, so an article of that size fits
        limits = Limits(output=min(len(prompt.encode()) // 2 + 1024, _LONGEST_ANSWER))
    article = model.typed(prompt, Article, system=read_prompt(__package__, "rewrite"), limits=limits).value
    wrong = find_problem(entries, article)
    if wrong:
        return Refusal(seen.record.path, f"the model's text {wrong}")
    why = f"{len(entries)} entries become one; they stay, marked superseded"
    edit = seen.revised(_joined(seen, entries, article, now, by=model.name))
    return Proposal(NAME, seen.record.path, why, (edit,), seen.record.place)


def find_problem(entries: Sequence[Entry], article: Article) -> str:
    """What is wrong with an article, in the words that follow 'the model's text'; empty when nothing is."""
    text = article.text.strip()
    before = "\n\n".join(entry.text for entry in entries)
    if not text:
        return "is empty"
    if text.startswith("---"):
        return "brings front matter"
    if len(text) > max(len(before) * _GROWTH, 1024):
        return f"is {len(text):,} characters long, made from {len(before):,}"
    if len(text) < len(before) * _SHRINK:
        return f"is {len(text):,} characters long, made from {len(before):,}: it drops too much"
    missing = statements.find_headings(before) - statements.find_headings(text)
    if missing:
        return f"lost {_listed(missing, 'heading')}"
    for what, found in (
        ("link", statements.find_links),
        ("tag", statements.find_markup),
        ("heading", statements.find_headings),
    ):
        new = found(text) - found(before)
        if new:
            return f"brings {_listed(new, what)} that no entry has"
    if secrets.find(text):
        return "holds a secret"
    return _facts_problem(before, text, article.superseded) or _words_problem(entries, before, text)


def _facts_problem(before: str, text: str, replaced: Sequence[str]) -> str:
    wanted = statements.find_facts(before)
    listed = frozenset(each.strip().strip("`") for each in replaced)
    lost = frozenset(fact for fact in wanted if not statements.has_fact(text, fact))
    unlisted = lost - listed
    if unlisted:
        return f"dropped {_listed(unlisted, 'fact')}"
    if wanted and len(lost) > max(len(wanted) * _MOST_REPLACED, 1):
        return f"calls {len(lost)} of {len(wanted)} facts superseded"
    invented = frozenset(
        fact for fact in statements.find_facts(text) if not statements.has_fact(before, fact)
    )
    if invented:
        return f"brings {_listed(invented, 'fact')} that no entry has"
    turned = statements.find_turned(before, text) - listed
    return f"says the opposite of {_listed(turned, 'fact')}" if turned else ""


def _words_problem(entries: Sequence[Entry], before: str, text: str) -> str:
    """What the plain words tell: an entry that is gone, or a sentence that comes from nowhere."""
    said, known = statements.find_stems(text), statements.find_stems(before)
    for entry in entries:
        words = statements.find_stems(entry.text)
        if len(words) >= _WORDS and len(words & said) < len(words) * _KEPT_WORDS:
            return f"says nothing of the entry of {entry.time or 'no date'}"
    for sentence in statements.split_clauses(text):
        words = statements.find_stems(sentence)
        if len(words) >= _WORDS and len(words - known) > len(words) * _OWN_WORDS:
            return "has a sentence that no entry says"
    return ""


def _covered(seen: SeenRecord) -> list[Entry]:
    """The entries that hold and say something."""
    return [entry for entry in seen.record.entries if entry.live and entry.text.strip()]


def _joined(seen: SeenRecord, entries: Sequence[Entry], article: Article, now: datetime, *, by: str) -> str:
    """The file with the article at its end and the entries it covers marked."""
    at = clock.stamp(now)
    text = decode(seen.content)
    covered = {(entry.time, entry.text) for entry in entries}
    for index, entry in enumerate(document.parse(text).entries):
        if entry.live and (entry.time, entry.text) in covered:
            text = document.sign(document.parse(text), index, superseded=at)
    trust = list(Origin)
    lowest = max((entry.origin or Origin.USER for entry in entries), key=trust.index)
    # No article is a person's own words, even where all that it is made from is.
    origin = max(lowest, Origin.AGENT, key=trust.index)
    text = document.append(text, Entry(document.tidy(article.text), at, origin))
    fields: dict[str, Any] = {"updated": at, "generated": {"by": f"model:{by}", "at": at}}
    if not seen.record.fields.get("type"):
        fields["type"] = seen.record.type
    return frontmatter.edit(text, fields)


def _asked(entries: Sequence[Entry]) -> str:
    """The entries between marks; a line that looks like a mark is moved in, so that none can end early."""
    texts = [_MARK.sub(r" \1", entry.text) for entry in entries]
    pairs = zip(entries, texts, strict=True)
    return "\n".join(f"ENTRY {entry.time or 'undated'}\n{text}\nEND" for entry, text in pairs)


def _listed(things: frozenset[str], thing: str) -> str:
    shown = ", ".join(repr(each) for each in sorted(things)[:_SHOWN])
    more = f" and {len(things) - _SHOWN} more" if len(things) > _SHOWN else ""
    return f"{len(things)} {thing}{'s' if len(things) > 1 else ''} ({shown}{more})"
