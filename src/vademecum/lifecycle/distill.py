"""Ask a language model what to remember of a session, and add the supported proposals to the heard list.

`proposals` compares each proposal with the session, and this module compares it with memory. The proposals
that pass are pending like the user's own statements; no record is made. If the model fails or its answer is
invalid, only the reason is noted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import ConfigError, ModelFailed, NotFound
from vademecum.lifecycle import proposals
from vademecum.lifecycle.proposals import AGENT, USER, ConversationTurn, ProposalRefusal, Supported
from vademecum.llm.base import InvalidAnswer, Limits, estimate, read_prompt, shorten_problems
from vademecum.llm.redacting import without_secrets
from vademecum.store import Marks, capture_model, decisions, heard
from vademecum.store.heard import Distilled, HeardSession, HeardStatement
from vademecum.text import clock, names, visible
from vademecum.types import Audience, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vademecum.config import Settings
    from vademecum.lifecycle.heard_list import HeardList
    from vademecum.llm.base import Model
    from vademecum.search import Finder
    from vademecum.store import Workspace
    from vademecum.transcripts import Log

_PARTS = 4  # the most parts of a session that are sent, the newest ones
_PART_TOKENS = 8_000
_OUTPUT_TOKENS = 1_500
_SHORTEST_PART = 200  # tokens that a model's window must leave for a part
_LONGEST_TURN = 4_000  # characters of a message that are sent
_CANDIDATES = 8  # records with which a proposal is compared
_CONFIDENCE = {USER: 0.5, AGENT: 0.4}


class Destination(NamedTuple):
    """The model that gets the text of sessions, with its address, and whether it runs on this machine."""

    name: str
    is_local: bool


class _Room(NamedTuple):
    part: int  # tokens of a session in one question
    output: int  # tokens of the answer


def find_destination(settings: Settings) -> Destination | None:
    """Return where `capture.model` sends sessions; None if it is not set."""
    name = (settings.capture.model or "none").strip()
    if name.lower() == "none":
        return None
    from vademecum.agents import model_command

    if name.startswith(model_command.PREFIX):
        words = model_command.find_command(name).words
        return Destination(f"{name} through its command `{words[0]}`", False)
    from vademecum.llm.providers import find_model

    place = find_model(name, endpoint=settings.llm.endpoint, key_env=settings.llm.key_env)
    return Destination(place.where, place.local)


class Distiller:
    """Asks one model about the sessions of one caller's project."""

    def __init__(self, workspace: Workspace, finder: Callable[[], Finder], heard_list: HeardList) -> None:
        self._work, self._open_finder, self._heard = workspace, finder, heard_list

    def distill(self, session: str, model: Model | None = None) -> Distilled:
        """Ask about the messages of a session that no model has read, and note the result."""
        work, project = self._work, self._work.caller.project
        if project is None or work.settings.incognito or work.caller.audience is Audience.GROUP:
            raise NotFound("no session of this place may be read", hint="run it in a project")
        log = self._log(project.id, session)
        chosen = without_secrets(model if model is not None else self._model())
        earlier = heard.read_distilled(work.home, project.id, session)
        turns = [*_read_turns(log)]
        number = min(earlier.messages, len(turns)) if earlier is not None else 0
        result = Distilled(at=work.stamp(), model=chosen.name, messages=number)
        if heard.is_taken_back(work.home, project.id, session) or number == len(turns):
            return result
        result = self._ask_about(chosen, log, turns, number, result)
        heard.note_distilled(work.home, self._session(log), result)
        return result

    def _log(self, project: str, session: str) -> Log:
        from vademecum.transcripts import Log
        from vademecum.transcripts.log import LogFile
        from vademecum.transcripts.paths import ENDING, FOLDER

        if session + ENDING not in self._work.home.names(FOLDER, project):
            hint = "`vade sessions list` shows the sessions of this project"
            raise NotFound(f"there is no session {names.shown(session)}", hint=hint)
        return Log(session, LogFile(self._work.home, project, session))

    def _model(self) -> Model:
        """Return the model of `capture.model`, which a person must have confirmed."""
        from vademecum.agents import model_command
        from vademecum.llm.providers import resolve

        settings = self._work.settings
        where = find_destination(settings)
        name = settings.capture.model or ""
        if where is None:
            raise ConfigError(
                "no model reads sessions", hint="`vade config set capture.model provider:model` chooses one"
            )
        if not capture_model.has_consent(self._work.home, where.name):
            raise ConfigError(
                f"nobody confirmed that {where.name} may read sessions",
                hint=f"`vade config set capture.model {name}` asks you",
            )
        if name.startswith(model_command.PREFIX):
            return model_command.AgentModel(name, seconds=settings.llm.timeout)
        found = resolve(name, settings.llm)
        assert found is not None
        return found

    def _session(self, log: Log) -> HeardSession:
        project = self._work.caller.project
        assert project is not None
        return HeardSession(project.id, log.session, agent=self._work.settings.agent)

    def _ask_about(
        self, model: Model, log: Log, turns: Sequence[ConversationTurn], number: int, result: Distilled
    ) -> Distilled:
        """Ask about the turns from `number` on, part by part, and return `result` with the outcome."""
        refused: Counter[str] = Counter()
        room = self._room()
        parts = [*_split(turns[number:], room.part)]
        number = len(turns) - sum(map(len, parts[-_PARTS:]))
        for part in parts[-_PARTS:]:
            try:
                proposed, tokens = self._propose(model, part, room.output)
            except (ModelFailed, InvalidAnswer) as error:
                problem = shorten_problems(str(error)) if isinstance(error, InvalidAnswer) else str(error)
                return result._replace(problem=problem, refused=dict(refused))
            statements = []
            for each in proposed:
                found = proposals.check(each, turns)
                found = self._compare(found) if isinstance(found, Supported) else found
                if isinstance(found, Supported):
                    statements.append(_statement(found, model.name))
                else:
                    refused[str(found)] += 1
            number += len(part)
            result = result._replace(
                messages=number,
                proposed=result.proposed + len(proposed),
                added=result.added + self._heard.add(self._session(log), statements),
                tokens=result.tokens + tokens,
            )
        return result._replace(refused=dict(refused))

    def _propose(
        self, model: Model, part: Sequence[ConversationTurn], output: int
    ) -> tuple[list[proposals.ModelProposal], int]:
        """Return a model's proposals about a part of a session, and the number of tokens spent."""
        system = read_prompt(__package__, "distill")
        prompt = "\n\n".join(f"[{each.role}]\n{each.text[:_LONGEST_TURN]}" for each in part)
        limits = Limits(seconds=self._work.settings.llm.timeout, output=output)
        needed = estimate(prompt, system=system) + output
        limit = self._work.settings.capture.model_tokens
        with capture_model.spending(self._work.home, needed, limit=limit) as reserved:
            if not reserved:
                raise ModelFailed(f"the {limit} tokens of today (capture.model_tokens) are used up")
            answer = model.text(prompt, system=system, limits=limits)
            reserved[0] = answer.usage.tokens or needed
        return proposals.parse_proposals(answer.text), reserved[0]

    def _room(self) -> _Room:
        """Return how many tokens a part of a session and the answer about it may have."""
        from vademecum.agents import model_command
        from vademecum.llm.providers import find_model, find_window

        settings = self._work.settings
        name, window = settings.capture.model or "", None
        if name and not name.startswith(model_command.PREFIX):
            place = find_model(name, endpoint=settings.llm.endpoint, key_env=settings.llm.key_env)
            window = find_window(place)
        if window is None:
            return _Room(_PART_TOKENS, _OUTPUT_TOKENS)
        output = min(_OUTPUT_TOKENS, window // 4)
        left = window - output - estimate(read_prompt(__package__, "distill"))
        return _Room(max(_SHORTEST_PART, min(_PART_TOKENS, left)), output)

    def _compare(self, found: Supported) -> Supported | ProposalRefusal:
        """Return a proposal, unless memory has it, a person declined it, or it contradicts a person."""
        from vademecum.search import base as searching

        text, home, project = found.proposal.text, self._work.home, self._work.caller.project
        assert project is not None
        purged = Marks.of(home)
        if decisions.mark_of("signal", text) in decisions.declined(home):
            return ProposalRefusal.REPEATED
        if purged is not None and any(purged.find(each) is not None for each in (text, found.sentences)):
            return ProposalRefusal.REPEATED
        for each in heard.read_projects(home, [project.id]):
            if heard.says_same(text, each.text):
                return ProposalRefusal.REPEATED
            is_users = each.found_by == heard.JUDGE and (
                found.turn.role == AGENT or each.at > found.turn.time
            )
            if is_users and proposals.contradicts(text, each.text):
                return ProposalRefusal.TAKEN_BACK
        query = searching.parse(text)._replace(sources=("memory",), phrases=())
        finder = self._open_finder()
        options = finder.options(max_results=_CANDIDATES, mode="bm25")
        results = finder.searcher.search(query, options, seconds=self._work.settings.limits.open).results
        for passage in results:
            if passage.superseded is not None:
                continue
            for line in passage.snippet.split("\n"):
                if line.strip() and heard.says_same(text, line):
                    return ProposalRefusal.REPEATED
                if passage.origin == Origin.USER and proposals.contradicts(text, line):
                    return ProposalRefusal.CONTRADICTS
        return found


def _read_turns(log: Log) -> Iterator[ConversationTurn]:
    """Yield what the user and the agent said in a session; no tool results, and no summaries."""
    from vademecum.transcripts import MessageEvent, Role, is_aside

    for event in log.events():
        if not isinstance(event, MessageEvent) or is_aside(event.message):
            continue
        role = {Role.USER: USER, Role.ASSISTANT: AGENT}.get(event.message.role)
        text = visible(event.message.text).strip()
        if role is not None and text:
            yield ConversationTurn(event.id, role, text, event.time)


def _split(turns: Sequence[ConversationTurn], tokens: int) -> Iterator[list[ConversationTurn]]:
    """Yield turns in parts of about `tokens`."""
    part: list[ConversationTurn] = []
    size = 0
    for each in turns:
        weight = estimate(each.text[:_LONGEST_TURN])
        if part and size + weight > tokens:
            yield part
            part, size = [], 0
        part.append(each)
        size += weight
    if part:
        yield part


def _statement(found: Supported, model: str) -> HeardStatement:
    proposal, turn = found.proposal, found.turn
    return HeardStatement(
        heard.statement_id(proposal.text),
        proposal.text,
        proposal.kind,
        turn.time or clock.stamp(clock.now()),
        place=turn.place,
        why=f"{model} proposed it",
        confidence=_CONFIDENCE[turn.role],
        found_by=heard.MODEL + model,
        evidence=(f"{turn.role}: {found.sentences}"[: heard.LONGEST],),
    )
