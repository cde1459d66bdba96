"""What an agent is told before it begins and with a question, and the files that keep it for agents.

Everything outside of the marks in such a file is the user's and stays byte for byte. A mark without its other
half is taken out, and nothing else with it: whoever broke the pair may have typed between them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import OutsideMemory, UnknownName, VadeError
from vademecum.inject import build as injecting
from vademecum.inject.render import CLOSE, OPEN
from vademecum.store import decisions as unseen
from vademecum.store import files, merge, scopes
from vademecum.store.document import decode
from vademecum.store.folders import Folder
from vademecum.store.workspace import parse_audience
from vademecum.text import names, outgoing
from vademecum.types import LEARNED, Audience, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from vademecum.knowledge.finder import Finder
    from vademecum.search.base import Answer, Passage, Query
    from vademecum.store import Found, Home, Workspace
    from vademecum.transcripts.pointers import Pointer


class Delivery(NamedTuple):
    """How a hook hands the block to an agent."""

    agent: str
    moment: str  # the agent's own name for it
    at_start: bool  # when a session begins; else with its first prompt
    at_prompt: bool  # whether each prompt brings back what answers it


_REMINDERS = 8  # hits that one prompt is held against
_REMINDER_TOKENS = 600
_TO_READ = 0.5  # seconds in which a process that just began has loaded what reads, and read


class Injection:
    """What an agent is told before it begins, and with a question, as `Memory` offers it."""

    def __init__(self, workspace: Workspace, finder: Finder) -> None:
        self._work = workspace
        self._finder = finder

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
        """What an agent is told before it begins: with a question, the records that answer it come first.

        `audience` may narrow who listens, never widen it; without `session` its own records stay out; with
        `notices` the agent is asked to pass on what memory moved by itself; with `recent` it is told of the
        last sessions here. `without` are marks of what was told already; with `tools` off none is named.

        With `explain` it says what it leaves out and why; `exclude` are paths to treat as if not there.
        """
        if self._work.settings.incognito or not self._work.settings.inject.enabled:
            return injecting.Block("")
        listening = self._work.caller.audience if audience is None else parse_audience(audience)
        if self._work.caller.audience is Audience.GROUP:
            listening = Audience.GROUP
        places = scopes.visible(self._work.caller._replace(audience=listening))
        look = self._work.records.catalogue.one_look()
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
        """The last sessions of this project that hooks of this machine kept, but for the one that asks."""
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

    def remind(
        self,
        prompt: str,
        *,
        budget: int | None = None,
        without: Collection[str] = (),
        until: float | None = None,
        meanwhile: Callable[[injecting.Block], None] = lambda block: None,
    ) -> injecting.Block:
        """What one prompt brings back, by its words and by reading; an empty block when nothing answers it.

        `without` are the marks of what the session has been told already. A prompt whose words have no strong
        match is read if that can be done before `until` (of the monotonic clock); `meanwhile` gets what words
        alone bring back.
        """
        from vademecum.index.embed.base import within
        from vademecum.search import base as searching

        words = injecting.extract_question(prompt)
        if not words or self._work.settings.incognito or not self._work.settings.inject.enabled:
            return injecting.Block("")
        # Quotation marks in a prompt quote somebody: only who searches asks for a phrase with them.
        asked = searching.parse(words)._replace(sources=("memory",), phrases=())
        search = functools.partial(self._finder.searcher.search, seconds=self._work.settings.limits.open)
        build = functools.partial(self._reminder, tokens=budget or _REMINDER_TOKENS, without=without)
        with self._work.reported("read the memory"), outgoing.noticing() as hidden:
            answer = search(asked, self._finder.options(max_results=_REMINDERS, mode="bm25"))
            # Nobody asked: what may be no answer would only distract.
            likely = [each for each in answer.results if each.match != "weak"]
            block = build(likely)
            in_time = until is None or time.monotonic() + _TO_READ < until
            if in_time and answer.coverage.read and answer.match != "strong":
                meanwhile(_with_warning(block, hidden))
                with within(until):
                    again = search(asked, self._finder.options(max_results=_REMINDERS))
                known = {(each.path, each.start) for each in likely}
                # Near is soon called likely where no word is the same.
                sure = [each for each in again.results if again.read and each.match == "strong"]
                block = build([*likely, *(each for each in sure if (each.path, each.start) not in known)])
        return _with_warning(block, hidden)

    def _reminder(self, hits: Iterable[Passage], *, tokens: int, without: Collection[str]) -> injecting.Block:
        """The block of the records behind some hits."""
        told = self._work.settings.inject.knowledge
        shown = ((self._behind(each), each.time) for each in hits if told or each.type not in LEARNED)
        records = ((found, time) for found, time in shown if found is not None)
        return injecting.build_reminder(records, self._work.records, tokens=tokens, without=without)

    def _behind(self, hit: Passage) -> Found | None:
        """The record a passage is from; None when it is gone since it was indexed."""
        if hit.key is None:
            return None
        with contextlib.suppress(VadeError):
            found = self._work.find(hit.key, hit.place.scope)
            lines = injecting.Lines(hit.path, hit.start, hit.end)
            for part in merge.spread(found.record):
                if part is not found.record and injecting.overlaps(part, lines):
                    return found._replace(record=part, part=part.key)
            return found
        return None

    def deliveries(self) -> Sequence[Delivery]:
        """The agents that are told by a hook, and at which moment of theirs."""
        from vademecum.agents import registry
        from vademecum.agents.base import HookEvent

        found = []
        for name, agent in registry.having("hooks").items():
            moments = agent.hooks.moments if agent.hooks else {}
            start, prompt = moments.get(HookEvent.SESSION_START, ""), moments.get(HookEvent.USER_PROMPT, "")
            if start or prompt:
                found.append(Delivery(name, start or prompt, bool(start), bool(prompt)))
        return found

    def deliver(self, agent: str, text: str) -> str:
        """A block as the hook of an agent hands it over, with what that agent wants around it."""
        from vademecum.agents import registry

        found = registry.find(agent)
        moment = next((each.moment for each in self.deliveries() if each.agent == agent), "")
        if found is None or found.hooks is None or not moment:
            listed = ", ".join(each.agent for each in self.deliveries())
            raise UnknownName(f"{names.shown(agent)} has no hook that is answered", hint=f"one of {listed}")
        return found.hooks.render(moment, outgoing.clean_text(text)) if text else ""

    def write_file(
        self, agent: str, *, query: str = "", budget: int | None = None, audience: str | Audience = "group"
    ) -> ProviderFile:
        """Keep the block in the file that an agent reads by itself, between marks; no secret goes with it."""

        self._work.may_write()
        self._work.at_a_command_line("write files of a project", f"vade inject --write {agent}")
        project = self._work.project()
        with self._work.reported(f"write the file of {agent}"):
            with files.noticing_trouble() as troubles:
                block = self.block(query=query, budget=budget, audience=audience, session=False)
            if troubles:  # what a failing disk left out would be gone from the agent's file
                raise troubles[0]
            kept = write_provider_file(self._work.home, project.root, agent, block.text)
        return kept._replace(warnings=block.warnings)

    def _relevant(self, query: str, place: Place) -> Sequence[injecting.Lines]:
        asked = self._finder.question(query, scope=place.scope, sources=("memory",))
        found = self._answer(asked)
        return [injecting.Lines(each.path, each.start, each.end) for each in found.results]

    def _answer(self, asked: Query) -> Answer:
        most = self._work.settings.inject.max_per_scope
        return self._finder.answer(asked, self._finder.options(max_results=most))

    def _attached(self, query: str) -> Sequence[injecting.SourcePassage]:
        """Passages of the sources that may be shown: those that answer, or the beginnings of the newest."""
        from vademecum.store import sources

        allowed = [
            each
            for each in sources.visible(self._work.home, self._work.caller)
            if each.inject and not each.problem
        ]
        if not allowed:
            return []
        most = self._work.settings.inject.max_per_scope
        if query.strip():
            found = self._answer(self._finder.question(query, sources=[each.name for each in allowed]))
            return [
                injecting.SourcePassage(each.source, each.path, each.snippet)
                for each in found.results
                if each.match != "weak"
            ]
        return [
            injecting.SourcePassage(source.name, path, text)
            for source in allowed
            for path, text in source.newest(most, chars=self._work.settings.inject.scope_chars)
        ]


def _with_warning(block: injecting.Block, hidden: Collection[str], *said: str) -> injecting.Block:
    """A block that says what was replaced in it and what is out of sight, to whoever asked for it."""
    if hidden and "[REDACTED:" in block.text:
        kinds = ", ".join(sorted(hidden))
        said = (*said, f"what looks like a secret was redacted ({kinds}): `vade check` shows where")
    return block._replace(warnings=(*block.warnings, *said)) if said else block


# ------------------------------------------------------------ files that agents read by themselves

BEGIN, END = "<!-- vade-memory:begin -->", "<!-- vade-memory:end -->"
_LINE = re.compile(rf"(?m)^[ \t]*(?:{re.escape(BEGIN)}|{re.escape(END)})[ \t]*\r?\n?")
_PAIR = re.compile(
    rf"(?m)^[ \t]*{re.escape(BEGIN)}[ \t]*\r?\n(?P<inner>(?:(?![ \t]*{re.escape(BEGIN)}).*\n)*?)"
    rf"[ \t]*{re.escape(END)}[ \t]*(?:\r?\n|\Z)"
)


class ProviderFile(NamedTuple):
    """What became of a provider's file."""

    path: Path
    changed: bool
    warnings: tuple[str, ...] = ()  # what is to be known of what was written


def write_provider_file(home: Home, root: Path, agent: str, block: str) -> ProviderFile:
    """Keep a block in the file that an agent reads; an empty one takes what was there away again."""
    from vademecum.agents import registry

    found = registry.find(agent)
    if found is None or found.instructions is None:
        listed = ", ".join(registry.having("instructions"))
        raise UnknownName(
            f"{names.shown(agent)} is not an agent with a known instruction file", hint=f"one of {listed}"
        )
    known = found.instructions
    parts = _real(root, known.parts)
    path = root.joinpath(*parts)

    def put(content: bytes | None) -> bytes:
        return placed(decode(content or b""), block, opening=known.opening).encode()

    with home.lock(f"provider {path}"), Folder.at(root) as top:
        if not block and not os.path.lexists(path):
            return ProviderFile(path, False)
        with top.enter(*parts[:-1], create=True, mode=0o755) as folder:
            written = files.update(folder, parts[-1], put, mode=0o644)
    return ProviderFile(path, written.changed)


def placed(text: str, block: str, *, opening: str = "") -> str:
    """A file's text with the block between its marks: where they are, or else at its end."""
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
    made = []
    at = 0
    for number, pair in enumerate(pairs):
        made.append(_LINE.sub("", text[at : pair.start()]))
        if number == 0:
            made.append(body)
        elif not _is_ours(pair["inner"]):
            made.append(pair["inner"])  # somebody's text between a copy of our marks
        at = pair.end()
    return "".join([*made, _LINE.sub("", text[at:])])


def _is_ours(inner: str) -> bool:
    told = inner.strip()
    return not told or (told.startswith(OPEN) and told.endswith(CLOSE))


def _real(root: Path, parts: tuple[str, ...]) -> tuple[str, ...]:
    """The file itself where its name is a link to another file of the same project, as many have it."""
    path = root.joinpath(*parts)
    if not path.is_symlink():
        return parts
    top, target = os.path.realpath(root), os.path.realpath(path)
    if not target.startswith(top + os.sep):
        raise OutsideMemory(f"{path} points outside the project", hint="replace it with a regular file")
    return tuple(os.path.relpath(target, top).split(os.sep))
