"""What an agent is told before it begins, and with a question."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from vademecum.errors import VadeError
from vademecum.inject import build as injecting
from vademecum.store import consolidation, outgoing, scopes
from vademecum.store import decisions as unseen
from vademecum.store.workspace import parse_audience
from vademecum.types import LEARNED, Audience, Place

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vademecum.inject.provider_files import ProviderFile
    from vademecum.knowledge.finder import Finder
    from vademecum.search.answer import Answer, Passage
    from vademecum.search.query import Query
    from vademecum.store import Found, Workspace

_REMINDERS = 8  # hits that one prompt is held against
_REMINDER_TOKENS = 600


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
    ) -> injecting.Block:
        """What an agent is told before it begins: with a question, the records that answer it come first.

        `audience` may narrow who listens, never widen it; without `session` its own records stay out; with
        `notices` the agent is asked to pass on what memory moved by itself.
        """
        if self._work.settings.incognito or not self._work.settings.inject.enabled:
            return injecting.Block("")
        listening = self._work.caller.audience if audience is None else parse_audience(audience)
        if self._work.caller.audience is Audience.GROUP:
            listening = Audience.GROUP
        places = scopes.visible(replace(self._work.caller, audience=listening))
        own = self._work.settings.inject
        builder = injecting.Builder(
            self._work.records,
            self._work.documents,
            self._work.journal,
            own,
            half_life_days=self._work.settings.knowledge.half_life_days,
            now=self._work.now,
        )
        look = self._work.records.catalogue.one_look()
        with self._work.reported("read the memory"), look, outgoing.noticing() as hidden:
            block = builder.build(
                injecting.BlockRequest(
                    places,
                    listening,
                    session=session,
                    knowledge=knowledge and own.knowledge,
                    tokens=budget,
                    relevant=functools.partial(self._relevant, query) if query.strip() else None,
                    attached=functools.partial(self._attached, query),
                    notices=unseen.unseen_notices(self._work.home) if notices else (),
                )
            )
        return _with_warning(block, hidden)

    def remind(
        self, prompt: str, *, budget: int | None = None, without: Collection[str] = ()
    ) -> injecting.Block:
        """What one prompt brings back, by its words; an empty block when nothing answers it.

        `without` are the marks of what the session has been told already.
        """
        from vademecum.inject import remind as reminding
        from vademecum.search import query as querying

        words = reminding.extract_question(prompt)
        if not words or self._work.settings.incognito or not self._work.settings.inject.enabled:
            return injecting.Block("")
        # Quotation marks in a prompt quote somebody: only who searches asks for a phrase with them.
        asked = querying.parse(words)._replace(sources=("memory",), phrases=())
        options = self._finder.options(max_results=_REMINDERS, mode="bm25")
        with self._work.reported("read the memory"), outgoing.noticing() as hidden:
            answer = self._finder.searcher.search(asked, options, seconds=self._work.settings.limits.open)
            told = self._work.settings.inject.knowledge
            # Nobody asked: what may be no answer would only distract.
            likely = (each for each in answer.results if each.match != "weak")
            shown = (each for each in likely if told or each.type not in LEARNED)
            hits = ((self._behind(each), each.time) for each in shown)
            block = reminding.build_reminder(
                ((found, time) for found, time in hits if found is not None),
                self._work.records,
                tokens=budget or _REMINDER_TOKENS,
                without=without,
            )
        return _with_warning(block, hidden)

    def _behind(self, hit: Passage) -> Found | None:
        """The record a passage is from; None when it is gone since it was indexed."""
        if hit.key is None:
            return None
        with contextlib.suppress(VadeError):
            found = self._work.find(hit.key, hit.place.scope)
            lines = injecting.Lines(hit.path, hit.start, hit.end)
            for part in consolidation.spread(found.record):
                if part is not found.record and injecting.overlaps(part, lines):
                    return found._replace(record=part, part=part.key)
            return found
        return None

    def write_file(
        self, agent: str, *, query: str = "", budget: int | None = None, audience: str | Audience = "group"
    ) -> ProviderFile:
        """Keep the block in the file that an agent reads by itself, between marks; no secret goes with it."""
        from vademecum.inject import provider_files

        self._work.may_write()
        self._work.at_a_command_line("write files of a project", f"vade inject --write {agent}")
        project = self._work.project()
        block = self.block(query=query, budget=budget, audience=audience, session=False)
        with self._work.reported(f"write the file of {agent}"):
            kept = provider_files.write(self._work.home, project.root, agent, block.text)
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


def _with_warning(block: injecting.Block, hidden: Collection[str]) -> injecting.Block:
    """A block that says what was replaced in it, to whoever asked for it."""
    if not hidden or "[REDACTED:" not in block.text:
        return block
    said = f"what looks like a secret was redacted ({', '.join(sorted(hidden))}): `vade lint` says where"
    return block._replace(warnings=(*block.warnings, said))
