"""The block of memory for an agent's session start and prompts, and the instruction files that hold it.

Text outside our marks in an instruction file is the user's and stays byte for byte. A mark without its
counterpart is removed alone, because the user may have typed text between the two.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import time
from typing import TYPE_CHECKING

from vademecum.errors import OutsideMemory, UnknownName, VadeError
from vademecum.inject import build as injecting
from vademecum.inject import importance
from vademecum.inject.render import CLOSE, OPEN
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.store import Folder, files, heard, hook_sessions, parse_audience, request_view, scopes, spread
from vademecum.store import decisions as unseen
from vademecum.text import names, outgoing
from vademecum.text.document import decode
from vademecum.text.filenames import key_of
from vademecum.types import LEARNED, Audience, Origin, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from vademecum.inject import prompt_match
    from vademecum.inject.nudge import Nudge
    from vademecum.search import Answer, Finder, Passage, Query
    from vademecum.store import Found, Home, Workspace
    from vademecum.store.heard import HeardStatement
    from vademecum.transcripts import Pointer


class HookDelivery(NamedTuple):
    """The way in which a hook hands the block to an agent."""

    agent: str
    moment: str  # the agent's own name of the event
    at_start: bool  # whether the block comes when a session begins, or else with its first prompt
    at_prompt: bool  # whether each prompt brings back matching records


_MOST_HEARD = 3  # statements of recent sessions in a block
_CANDIDATES = 24  # hits that are considered for one prompt,
_ALIKE = 3  # and hits by a model
_NEAR = 0.3  # the likeness in meaning, as static vectors see it, that is enough
_REMINDER_TOKENS = 600
_AGAIN_TOKENS = 3_000  # of the records that the prompts of a continued session brought
_TO_READ = 0.5  # seconds that a new process needs to load the reading model and to read


class Injection:
    """`Memory.injection`: the block of memory for the start of a session and for prompts."""

    def __init__(self, workspace: Workspace, finder: Callable[[], Finder]) -> None:
        self._work = workspace
        self._open_finder = finder  # a block without a question needs no search

    @functools.cached_property
    def _finder(self) -> Finder:
        return self._open_finder()

    def block(
        self,
        *,
        query: str = "",
        budget: int | None = None,
        knowledge: bool = True,
        audience: str | Audience | None = None,
        session: bool = True,
        notices: bool = False,
        recent: bool = False,
        without: Collection[str] = (),
        tools: bool = True,
        explain: bool = False,
        exclude: Collection[str] = (),
    ) -> injecting.Block:
        """Return the block for the start of a session; empty if memory is incognito or injection is disabled.

        With `query`, matching records come first; `budget` limits the tokens. `knowledge` includes lessons,
        `session` the session's own records, and `recent` the last sessions of the project with what was heard
        in them. With `notices`, the agent is asked to report automatic changes. `audience` can narrow the
        caller's audience, never widen it. `without` are the marks of items to leave out, because they were
        injected already; with `tools` off, no tool is named.

        With `explain`, the block lists what it omits and why; `exclude` are paths to ignore.
        """
        if self._work.settings.incognito or not self._work.settings.inject.enabled:
            return injecting.Block("")
        listening = self._work.caller.audience if audience is None else parse_audience(audience)
        if self._work.caller.audience is Audience.GROUP:
            listening = Audience.GROUP
        places = scopes.visible(self._work.caller._replace(audience=listening))
        look = request_view()
        with self._work.reported("read the memory"), look, outgoing.noticing() as hidden:
            block = self._builder().build(
                injecting.BlockRequest(
                    places,
                    listening,
                    session=session,
                    knowledge=knowledge and self._work.settings.inject.knowledge,
                    tokens=budget,
                    relevant=functools.partial(self._relevant, query) if query.strip() else None,
                    attached=functools.partial(self._attached, query),
                    notices=unseen.unseen_notices(self._work.home) if notices else (),
                    recent=self.recent if recent else None,
                    heard=self.heard if recent else None,
                    without=without,
                    tools=tools,
                    explain=explain,
                    exclude=exclude,
                )
            )
        return _with_warning(block, hidden, *self._work.hidden_note(places))

    def _builder(self) -> injecting.Builder:
        work, half_life = self._work, self._work.settings.knowledge.half_life_days
        given = work.records, work.documents, work.journal, work.settings.inject
        return injecting.Builder(*given, half_life_days=half_life, now=work.now)

    def recent(self) -> Sequence[Pointer]:
        """Return the project's last sessions that hooks recorded here, without the caller's own session."""
        from vademecum.store import hook_log
        from vademecum.transcripts import pointers

        caller, most = self._work.caller, self._work.settings.inject.sessions
        if caller.project is None or caller.audience is Audience.GROUP or self._work.settings.incognito:
            return []
        recorded = hook_log.recorded_sessions(self._work.home.path, caller.project.id) if most else []
        if not recorded:
            return []
        given = self._work.home, self._work.records.catalogue, caller.project, recorded
        return pointers.recent(*given, most=most, without=caller.session or "")

    def heard(self) -> Sequence[HeardStatement]:
        """Return up to three statements that the user typed in recent sessions and nobody decided about.

        Left out are the caller's own session, statements of another agent's memory, lessons, and statements
        that a model proposed.
        """
        from vademecum.store import hook_log

        caller, settings = self._work.caller, self._work.settings
        allowed = settings.capture.tell and settings.capture.hear and not settings.incognito
        if not allowed or caller.project is None or caller.audience is Audience.GROUP:
            return []
        if not self._work.home.names(heard.FOLDER, caller.project.id):
            return []
        from vademecum.knowledge import typed
        from vademecum.transcripts.pointers import RECENT_SESSIONS, is_agent_session

        found: dict[str, HeardStatement] = {}
        days, now = settings.capture.fade_days, self._work.now()
        recorded = [id for id, _ in hook_log.recorded_sessions(self._work.home.path, caller.project.id)]
        for id in recorded[: -RECENT_SESSIONS - 1 : -1]:
            if is_agent_session(id, caller.session or ""):
                continue
            for each in reversed(heard.read_session(self._work.home, caller.project.id, id)):
                is_typed = (
                    not each.fields and each.found_by == heard.JUDGE and not typed.is_planted(each.text)
                )
                is_open = each.outcome in heard.UNDECIDED and not heard.is_faded(each, days=days, now=now)
                if is_typed and is_open and each.agent in ("", settings.agent):
                    found.setdefault(each.id, each)
        return [*found.values()][:_MOST_HEARD]

    def remind(
        self,
        prompt: str,
        *,
        budget: int | None = None,
        without: Collection[str] = (),
        until: float | None = None,
        meanwhile: Callable[[injecting.Block], None] = lambda block: None,
    ) -> injecting.Block:
        """Return the block of records that match a prompt; empty if none matches.

        `without` are the marks of items to skip. The search compares words first. If no record matches them
        well and there is time before `until` (on the monotonic clock), `meanwhile` gets the block found so
        far, and models compare the meaning.
        """
        from vademecum.inject import prompt_match

        words = injecting.extract_question(prompt)
        if not words or self._work.settings.incognito or not self._work.settings.inject.enabled:
            return injecting.Block("")
        weights = prompt_match.weigh_words(words)
        if not weights:
            return injecting.Block("")
        from vademecum.index.embed.base import within
        from vademecum.search import base as searching

        # Quotation marks in a prompt quote somebody; only in a search do they ask for a phrase.
        query = searching.parse(words)._replace(sources=("memory",), phrases=())
        search = functools.partial(self._finder.searcher.search, seconds=self._work.settings.limits.open)
        build = functools.partial(self._reminder, tokens=budget or _REMINDER_TOKENS, without=without)
        with self._work.reported("read the memory"), outgoing.noticing() as hidden:
            answer = search(query, self._finder.options(max_results=_CANDIDATES, mode="bm25"))
            evidences = [prompt_match.evidence(weights, _as_found(each)) for each in answer.results]
            chosen = [answer.results[at] for at in prompt_match.choose(evidences)]
            block = build(chosen)
            in_time = until is None or time.monotonic() + _TO_READ < until
            unsure = max(evidences, default=0.0) < prompt_match.SURE
            about = prompt_match.own_words(weights)
            if in_time and unsure and about:
                meanwhile(_with_warning(block, hidden))
                with within(until):
                    again = search(query, self._finder.options(max_results=_ALIKE, explain=True))
                known = {(each.path, each.start) for each in chosen}
                near = _NEAR if about >= prompt_match.ABOUT else math.inf
                alike = [each for each in again.results if _is_alike(each, read=again.read, near=near)]
                chosen += [each for each in alike if (each.path, each.start) not in known]
                block = build(chosen[: prompt_match.MOST])
        return _with_warning(block, hidden)

    def nudge(self, prompt: str, *, without: Collection[str] = ()) -> Nudge | None:
        """Return the line about words of a prompt that may be worth saving; None for most prompts.

        `without` are the marks of everything that the session has. Nothing is written.
        """
        from vademecum.inject import nudge as nudging

        settings, caller = self._work.settings, self._work.caller
        allowed = settings.capture.nudge and settings.inject.enabled and not settings.incognito
        if not allowed or caller.audience is Audience.GROUP or caller.project is None:
            return None
        if not nudging.is_typed(prompt):
            return None
        if sum(mark.startswith(hook_sessions.NUDGE) for mark in without) >= nudging.MOST:
            return None
        signal = nudging.find_signal(prompt, shift=heard.shift_bar(heard.read_counts(self._work.home)))
        if signal is None:
            return None
        mark = hook_sessions.NUDGE + heard.statement_id(signal.text)
        if mark in without or self._is_known(signal.text, caller.project.id):
            return None
        return nudging.Nudge(nudging.render(signal), mark, signal)

    def _is_known(self, text: str, project: str) -> bool:
        """Return whether memory has a statement, a person purged or declined it, or it was heard before."""
        from vademecum.search import base as searching
        from vademecum.store import Marks

        home = self._work.home
        if unseen.mark_of("signal", text) in unseen.declined(home):
            return True
        purged = Marks.of(home)
        if purged is not None and purged.find(text) is not None:
            return True
        if any(heard.says_same(text, each.text) for each in heard.read_projects(home, [project])):
            return True
        query = searching.parse(text)._replace(sources=("memory",), phrases=())
        options = self._finder.options(max_results=_CANDIDATES, mode="bm25")
        found = self._finder.searcher.search(query, options, seconds=self._work.settings.limits.open)
        lines = (line for each in found.results for line in (each.snippet, *each.snippet.split("\n")))
        return any(heard.says_same(text, line) for line in lines if line.strip())

    def records_again(self, paths: Iterable[str], *, without: Collection[str] = ()) -> injecting.Block:
        """Return the block with the present text of earlier records; `without` are marks of items to skip."""
        records: list[tuple[Found, str | None]] = []
        for path in paths:
            with contextlib.suppress(VadeError):
                found = self._work.find(key_of(path.rpartition("/")[2]), None)
                if found.record.path == path and found.record.live:
                    records.append((found, found.record.live[-1].time))
        with self._work.reported("read the memory"):
            return injecting.build_reminder(
                records, self._work.records, tokens=_AGAIN_TOKENS, without=without
            )

    def _reminder(self, hits: Iterable[Passage], *, tokens: int, without: Collection[str]) -> injecting.Block:
        """Return the block of the records that hold these results; lessons only if the settings say so."""
        with_lessons = self._work.settings.inject.knowledge
        records_found = (
            (self._record_of(each), each.time) for each in hits if with_lessons or each.type not in LEARNED
        )
        records = ((found, time) for found, time in records_found if found is not None)
        return injecting.build_reminder(records, self._work.records, tokens=tokens, without=without)

    def _record_of(self, hit: Passage) -> Found | None:
        """Return the record, or the part of it, that holds a passage; None if it was removed meanwhile."""
        if hit.key is None:
            return None
        with contextlib.suppress(VadeError):
            found = self._work.find(hit.key, hit.place.scope)
            lines = injecting.Lines(hit.path, hit.start, hit.end)
            for part in spread(found.record):
                if part is not found.record and injecting.overlaps(part, lines):
                    return found._replace(record=part, part=part.key)
            return found
        return None

    def deliveries(self) -> Sequence[HookDelivery]:
        """Return the agents that get the block by a hook, with the event of the hook."""
        from vademecum.agents import registry
        from vademecum.agents.base import HookEvent

        found = []
        for name, agent in registry.having("hooks").items():
            moments = agent.hooks.moments if agent.hooks else {}
            start, prompt = moments.get(HookEvent.SESSION_START, ""), moments.get(HookEvent.USER_PROMPT, "")
            if start or prompt:
                found.append(HookDelivery(name, start or prompt, bool(start), bool(prompt)))
        return found

    def deliver(self, agent: str, text: str) -> str:
        """Return a block in the format in which an agent expects the answer of a hook."""
        from vademecum.agents import registry

        found = registry.find(agent)
        moment = next((each.moment for each in self.deliveries() if each.agent == agent), "")
        if found is None or found.hooks is None or not moment:
            listed = ", ".join(each.agent for each in self.deliveries())
            raise UnknownName(f"{names.shown(agent)} has no hook that is answered", hint=f"one of {listed}")
        return found.hooks.render(moment, outgoing.clean_text(text)) if text else ""

    def write_file(
        self, agent: str, *, query: str = "", budget: int | None = None, audience: str | Audience = "group"
    ) -> InstructionFileResult:
        """Write the block into the instruction file that an agent reads here, with secrets redacted."""

        self._work.may_write()
        self._work.at_a_command_line("write files of a project", f"vade inject --write {agent}")
        project = self._work.project()
        with self._work.reported(f"write the file of {agent}"):
            with files.noticing_trouble() as troubles:
                block = self.block(query=query, budget=budget, audience=audience, session=False)
            # a block that a disk error made incomplete must not replace the one in the agent's file
            if troubles:
                raise troubles[0]
            written = write_provider_file(self._work.home, project.root, agent, block.text)
        return written._replace(warnings=block.warnings)

    def _relevant(self, query: str, place: Place) -> Sequence[injecting.Lines]:
        question = self._finder.question(query, scope=place.scope, sources=("memory",))
        found = self._answer(question, self._work.settings.inject.max_per_scope)
        return [injecting.Lines(each.path, each.start, each.end) for each in found.results]

    def _answer(self, query: Query, most: int) -> Answer:
        return self._finder.answer(query, self._finder.options(max_results=most))

    def _attached(self, query: str) -> Sequence[injecting.SourcePassage]:
        """Return passages of sources that match the query; without one, beginnings of the newest files."""
        from vademecum.store import sources

        allowed = [
            each
            for each in sources.visible(self._work.home, self._work.caller)
            if each.inject and not each.problem
        ]
        if not allowed:
            return []
        if query.strip():
            question = self._finder.question(query, sources=[each.name for each in allowed])
            found = self._answer(question, injecting.ATTACHED)
            return [
                injecting.SourcePassage(each.source, each.path, each.snippet)
                for each in found.results
                if each.match != "weak"
            ]
        return [
            injecting.SourcePassage(source.name, path, text)
            for source in allowed
            for path, text in source.newest(injecting.ATTACHED, chars=injecting.ATTACHED_CHARS)
        ]


def _as_found(hit: Passage) -> prompt_match.FoundText:
    """Return a search result in the form that `prompt_match` compares with a prompt."""
    from vademecum.inject import prompt_match

    own = hit.origin in (None, Origin.USER)
    level = importance.importance_of(hit.type or "", None, [hit.snippet], own=own)
    return prompt_match.FoundText(hit.key or "", hit.snippet, level)


def _is_alike(hit: Passage, *, read: bool, near: float) -> bool:
    """Return whether a model found a passage so similar to a prompt that it is shown.

    With `read`, a reading model has judged the passage, and its strong matches are shown. So is a passage
    whose likeness by static vectors is at least `near`. An account of one event is never shown, because it is
    similar to many prompts.
    """
    if _as_found(hit).importance is importance.Importance.REST:
        return False
    return (read and hit.match == "strong") or (hit.arithmetic or {}).get("sign_alike", 0.0) >= near


def _with_warning(block: injecting.Block, hidden: Collection[str], *messages: str) -> injecting.Block:
    """Return the block with these warnings added, and with one about redacted secrets if it shows any."""
    if hidden and "[REDACTED:" in block.text:
        kinds = ", ".join(sorted(hidden))
        messages = (*messages, f"what looks like a secret was redacted ({kinds}): `vade check` shows where")
    return block._replace(warnings=(*block.warnings, *messages)) if messages else block


# ------------------------------------------------------------ agents' instruction files

BEGIN, END = "<!-- vade-memory:begin -->", "<!-- vade-memory:end -->"
_LINE = lazy_pattern(rf"(?m)^[ \t]*(?:{re.escape(BEGIN)}|{re.escape(END)})[ \t]*\r?\n?")
_PAIR = lazy_pattern(
    rf"(?m)^[ \t]*{re.escape(BEGIN)}[ \t]*\r?\n(?P<inner>(?:(?![ \t]*{re.escape(BEGIN)}).*\n)*?)"
    rf"[ \t]*{re.escape(END)}[ \t]*(?:\r?\n|\Z)"
)


class InstructionFileResult(NamedTuple):
    """The result of writing the block into an agent's instruction file."""

    path: Path
    changed: bool
    warnings: tuple[str, ...] = ()  # warnings about the written block


def write_provider_file(home: Home, root: Path, agent: str, block: str) -> InstructionFileResult:
    """Write a block into an agent's instruction file; an empty block removes the previous block."""
    from vademecum.agents import registry

    found = registry.find(agent)
    if found is None or found.instructions is None:
        listed = ", ".join(registry.having("instructions"))
        raise UnknownName(
            f"{names.shown(agent)} is not an agent with a known instruction file", hint=f"one of {listed}"
        )
    known = found.instructions
    parts = _real_path(root, known.parts)
    path = root.joinpath(*parts)

    def put(content: bytes | None) -> bytes:
        return insert_block(decode(content or b""), block, opening=known.opening).encode()

    with home.lock(f"provider {path}"), Folder.at(root) as top:
        if not block and not os.path.lexists(path):
            return InstructionFileResult(path, False)
        with top.enter(*parts[:-1], create=True, mode=0o755) as folder:
            written = files.update(folder, parts[-1], put, mode=0o644)
    return InstructionFileResult(path, written.changed)


def insert_block(text: str, block: str, *, opening: str = "") -> str:
    """Return a file's text with the block between our marks, at the end if the file has no marks.

    An empty block removes the marks and the text between them.
    """
    newline = "\r\n" if text.count("\n") == text.count("\r\n") > 0 else "\n"
    body = f"{BEGIN}\n{block}{END}\n".replace("\n", newline) if block else ""
    pairs = list(_PAIR.finditer(text))
    if not pairs:
        rest = _LINE.sub("", text)
        if not body:
            return rest
        gap = "" if not rest or rest.endswith(newline * 2) else newline
        lead = "" if not rest or rest.endswith("\n") else newline
        return f"{rest or opening.replace(chr(10), newline)}{lead}{gap}{body}"
    parts = []
    at = 0
    for number, pair in enumerate(pairs):
        parts.append(_LINE.sub("", text[at : pair.start()]))
        if number == 0:
            parts.append(body)
        elif not _is_ours(pair["inner"]):
            parts.append(pair["inner"])  # somebody's text between a copy of our marks
        at = pair.end()
    return "".join([*parts, _LINE.sub("", text[at:])])


def _is_ours(inner: str) -> bool:
    text = inner.strip()
    return not text or (text.startswith(OPEN) and text.endswith(CLOSE))


def _real_path(root: Path, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts of a path, or of the file it links to; raises if that file is outside the project."""
    path = root.joinpath(*parts)
    if not path.is_symlink():
        return parts
    top, target = os.path.realpath(root), os.path.realpath(path)
    if not target.startswith(top + os.sep):
        raise OutsideMemory(f"{path} points outside the project", hint="replace it with a regular file")
    return tuple(os.path.relpath(target, top).split(os.sep))
