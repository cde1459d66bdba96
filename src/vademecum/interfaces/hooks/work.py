"""Work for a hook, done in a child process that may take its time.

Every text from a hook has the origin `tool`: it may be read and stored as a transcript, but no agent sees it
until a person has verified it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from vademecum.agents.base import ANSWERED_EVENTS, HookEvent, HookInput, Hooks
from vademecum.agents.registry import find as find_agent
from vademecum.config import Asking
from vademecum.errors import InvalidKey
from vademecum.inject.render import OPEN
from vademecum.interfaces.present.safe import clean_text
from vademecum.memory import Memory, connect
from vademecum.store import hook_counts, hook_log, hook_sessions, request_view
from vademecum.store.hook_sessions import HookAnswer
from vademecum.text.names import check_id
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.agents.base import Agent
    from vademecum.inject.build import Block
    from vademecum.inject.nudge import Nudge
    from vademecum.interfaces.hooks.deadline import Channel, Job
    from vademecum.store.heard import HeardSession
    from vademecum.store.hook_sessions import HookSession, HookState

RESUMED, COMPACTED = "resume", "compact"  # reasons why a session starts
REMINDER = 600  # tokens of the block for one prompt
MISTAKEN = "answered, but config.toml has an error; see vade status"
LATE_START = "This is the memory for the start of the session. It was not ready then."
LATE_PROMPT = "This is about an earlier prompt. It was not ready then."


class HookFailed(Exception):
    """An error: a hook cannot be answered; `why` quotes no user's text."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def run(job: Job, channel: Channel) -> None:
    """Run a hook: answer its event through the channel, or save the session if the event has no answer."""
    agent = find_agent(job.agent)
    if agent is None or agent.hooks is None:
        raise HookFailed("unknown agent")
    if job.event not in tuple(agent.hooks.moments):
        raise HookFailed("unknown event for this agent")
    event, hook_input = HookEvent(job.event), agent.hooks.read(_parse_input(job.input), os.environ)
    memory = _open_memory(agent.name, hook_input, job.home)
    limit = memory.settings.limits.hook_prompt
    if event is not HookEvent.USER_PROMPT:
        limit = memory.settings.limits.hook_start
    channel.limit(limit)
    if memory.workspace.loaded.problems and event is HookEvent.SESSION_START:  # logged once per session
        hook_log.write(memory.home.path, agent=job.agent, event=job.event, why=MISTAKEN)
    if memory.settings.incognito:
        channel.finish()
    elif event in ANSWERED_EVENTS:
        if os.path.isdir(memory.home.path):
            hurried = _with_short_waits(memory, limit)
            _answer(hurried, job, channel, agent=agent, event=event, hook_input=hook_input)
        else:  # there is nothing to inject, and a hook does not create a home
            channel.finish()
    else:
        try:
            _record(memory, channel, agent=agent, event=event, hook_input=hook_input)
        finally:
            channel.finish()
            if event is _last_event(agent):
                from vademecum.interfaces.hooks import session_sync

                session_sync.start(memory)
                if memory.settings.capture.model and _has_reader(agent, hook_input):
                    from vademecum.memory import distilling

                    session = _heard_session(memory, agent, hook_input).session
                    distilling.ask(memory, session, is_over=event is HookEvent.SESSION_END)
                memory.workspace.note_unread()
                memory.reading.hand_over()


def _record(
    memory: Memory, channel: Channel, *, agent: Agent, event: HookEvent, hook_input: HookInput
) -> None:
    """Save the session at an event without an answer, or at the end of a turn, which may have one."""
    asks = event is HookEvent.STOP and memory.settings.capture.ask is Asking.END
    if event is HookEvent.STOP and not asks:
        channel.finish()  # `may_ask` was wrong, and the agent waits
    _save_session(memory, agent, event, hook_input)
    if asks:
        _ask(memory, agent, hook_input, channel)


def _answer(
    memory: Memory, job: Job, channel: Channel, *, agent: Agent, event: HookEvent, hook_input: HookInput
) -> None:
    """Answer the hook of a session's start or of a prompt, then count and log the answer."""
    hooks, home, session = agent.hooks, memory.home.path, memory.caller.session
    assert hooks is not None
    nudge: Nudge | None = None
    marks: frozenset[str] = frozenset()
    with hook_sessions.lock_session(home, agent=agent.name, session=hook_input.session) as file:
        answers = _Answers(file, hooks, event, channel)
        try:
            with request_view():
                if session:
                    hook_log.open_session(home, agent=agent.name, session=session, folder=hook_input.cwd)
                if event is HookEvent.SESSION_START:
                    _start(memory, hook_input, file, answers)
                else:
                    limit = memory.settings.limits.hook_prompt
                    until = None if job.started is None else job.started + limit
                    is_told = memory.settings.capture.nudge and _has_reader(agent, hook_input)
                    _prompt(memory, hook_input, file, answers, until)
                    if is_told:
                        nudge = _nudge(memory, hook_input.prompt, file, answers)
                # An answer to another start may come before the compaction is done, and be compacted away.
                is_start = event is HookEvent.SESSION_START
                is_due = hook_input.source == COMPACTED if is_start else file.state.is_compacted
                if is_due and memory.settings.capture.nudge and _has_reader(agent, hook_input):
                    session = _heard_session(memory, agent, hook_input).session
                    _list_unsaved(memory, session, file, answers, event)
        finally:
            if answers.has_offers or sys.exception() is None:  # what was offered before a failure counts
                hook_counts.add(home, answers.finish())
                marks = file.state.known_marks
    if answers.is_kept and job.started is not None:
        seconds = f"{time.monotonic() - job.started:.1f} s"
        hook_log.write(home, agent=agent.name, event=event, why=f"ready after {seconds} for the next prompt")
    if nudge is not None and nudge.mark in marks:  # the agent has it, or gets it with the next prompt
        memory.heard.note_nudge(_heard_session(memory, agent, hook_input), nudge.signal)
    if event is HookEvent.SESSION_START:
        hook_sessions.forget_old(home)


def _has_reader(agent: Agent, hook_input: HookInput) -> bool:
    """Return whether a person leads the conversation: no subagent and no script."""
    from vademecum.interfaces.hooks.headless import is_headless

    return bool(hook_input.session) and not hook_input.subagent and not is_headless(agent, os.environ)


def _last_event(agent: Agent) -> HookEvent:
    """Return the last event of an agent's session that its hooks tell."""
    has_end = agent.hooks is not None and HookEvent.SESSION_END in agent.hooks.moments
    return HookEvent.SESSION_END if has_end else HookEvent.STOP


def _heard_session(memory: Memory, agent: Agent, hook_input: HookInput) -> HeardSession:
    """Return the agent's session under the id that its imported log has or will have."""
    from vademecum.store.heard import HeardSession
    from vademecum.transcripts.paths import imported_id

    project = memory.caller.project
    format = agent.transcripts.name if agent.transcripts is not None else agent.name
    return HeardSession(
        project.id if project else "",
        imported_id(format, hook_input.session),
        hook_input.session,
        format,
        hook_input.transcript,
        memory.settings.agent,
        str(memory.caller.audience),
    )


def _save_session(memory: Memory, agent: Agent, event: HookEvent, hook_input: HookInput) -> None:
    """Import the session's transcript and the user's statements in it; close a session that has ended."""
    from vademecum.transcripts import importing

    announces = agent.hooks is not None and agent.hooks.announces
    if event is HookEvent.PRE_COMPACT and announces:
        _note_compaction(memory, agent, hook_input)
    if hook_input.transcript and agent.transcripts is not None:
        is_compaction = event is HookEvent.PRE_COMPACT if announces else None
        done = memory.sessions.import_transcript(
            hook_input.transcript, agent=agent.transcripts.name, checkpoint=is_compaction
        )
        if done.session:
            hook_log.record_session(memory.home.path, done.project, session=done.session, agent=agent.name)
            memory.injection.recent()  # cached now for the next session
            about = _heard_session(memory, agent, hook_input)
            about = about._replace(project=done.project, session=done.session)
            log = importing.imported_log(done, home=memory.home)
            if _has_reader(agent, hook_input):
                memory.heard.hear(about, log, lessons=event is _last_event(agent))
            elif not hook_input.subagent:
                memory.heard.skip(about, log)
            if done.compacted and not announces:
                _note_compaction(memory, agent, hook_input)
    if event is HookEvent.SESSION_END:
        hook_log.close_session(memory.home.path, agent=agent.name, session=hook_input.session)
    session = _heard_session(memory, agent, hook_input).session if hook_input.session else ""
    if session and event is _last_event(agent):
        memory.heard.settle_saved(session)
    memory.heard.settle_nudges(ended=session if event is HookEvent.SESSION_END else "")


def _parse_input(given: bytes) -> dict[str, Any]:
    """Return the object in standard input; empty when a person calls the command without input."""
    if not given.strip():
        return {}
    try:
        found = json.loads(given)
    except (ValueError, RecursionError):
        raise HookFailed("standard input is not JSON") from None
    if not isinstance(found, dict):
        raise HookFailed("standard input is not a JSON object")
    return found


def _open_memory(agent: str, hook_input: HookInput, home: str | None) -> Memory:
    cwd = hook_input.cwd if hook_input.cwd and os.path.isdir(hook_input.cwd) else None
    try:
        session = check_id(hook_input.session, "a session") if hook_input.session else None
    except InvalidKey:
        session = None
    return connect(
        home=home, cwd=cwd, session=session, origin=Origin.TOOL, actor=f"hook:{agent}", client=agent
    )


def _with_short_waits(memory: Memory, limit: float) -> Memory:
    """Return the memory with short waits for locks and the index, as a hook needs."""
    limits = memory.settings.limits
    soon = limits.replace(lock=min(limits.lock, limit / 4), open=min(limits.open, limit / 4))
    settings = memory.settings.replace(limits=soon)
    home = memory.home._replace(lock_seconds=soon.lock)
    return Memory(home, memory.caller, memory.workspace.loaded._replace(settings=settings))


def _start(memory: Memory, hook_input: HookInput, file: HookSession, answers: _Answers) -> None:
    """Offer the block for a session that begins."""
    # The window of a resumed session still holds the injected items, except those that a compaction removed.
    resumed = hook_input.source == RESUMED and bool(hook_input.session) and file.state.started
    state = file.state.owe_start(resumed=resumed, remembers=answers.agent_remembers)
    answers.restart(state)
    start = _make_start(memory, state, HookEvent.SESSION_START)
    if resumed and not answers.agent_remembers and state.records:
        again = memory.injection.records_again(state.records, without=start.marks)
        start = start._replace(text=start.text + again.text, marks=(*start.marks, *again.marks))
    answers.offer([start])


def _make_start(memory: Memory, state: HookState, event: HookEvent, *, query: str = "") -> HookAnswer:
    """Return the block for a session's start, without items that the session has already got."""
    block = memory.injection.block(query=query, notices=True, recent=True, without=state.marks)
    return HookAnswer(str(event), True, block.text, block.marks, time.time())


def _prompt(
    memory: Memory, hook_input: HookInput, file: HookSession, answers: _Answers, until: float | None
) -> None:
    """Offer late answers and the block for a prompt, without items that the session has.

    Records found by words are offered at once. A session without its start block gets that block first; if
    the agent has no hook for the start, it gets only that block.
    """
    state = file.state
    late = [each for each in state.late if each.is_recent]
    first = [each for each in late if each.is_start]
    if not first and (state.is_owed or not state.started):
        if not answers.has_start_hook:
            event, query = HookEvent.USER_PROMPT, hook_input.prompt
            answers.offer([_make_start(memory, state, event, query=query)])
            return
        first = [_make_start(memory, state, HookEvent.SESSION_START)]
    known = state.marks.union(*(each.marks for each in first))
    # Records that the session has got in the meantime are not given again.
    others = [each for each in late if not each.is_start]
    fitting = [each for each in others if known.isdisjoint(each.marks)]
    answers.drop([each for each in others if each not in fitting])
    earlier = [*first, *fitting]
    if earlier:
        answers.offer(earlier)

    def make(block: Block) -> list[HookAnswer]:
        paths = tuple(item.path for section in block.sections for item in section.items)
        event = str(HookEvent.USER_PROMPT)
        return [*earlier, HookAnswer(event, False, block.text, block.marks, time.time(), paths)]

    block = memory.injection.remind(
        hook_input.prompt,
        budget=REMINDER,
        without=known.union(*(each.marks for each in fitting)),
        until=until,
        meanwhile=lambda block: answers.offer(make(block)),
    )
    answers.offer(make(block))


def _nudge(memory: Memory, prompt: str, file: HookSession, answers: _Answers) -> Nudge | None:
    """Offer a line about words of the prompt that may be worth saving, below the offered records."""
    nudge = memory.injection.nudge(prompt, without=file.state.known_marks)
    if nudge is not None:
        answers.add(HookAnswer(str(HookEvent.USER_PROMPT), False, nudge.text, (nudge.mark,), time.time()))
    return nudge


def _note_compaction(memory: Memory, agent: Agent, hook_input: HookInput) -> None:
    """Note that a session is compacted, so that its unsaved statements are listed once."""
    home = memory.home.path
    with hook_sessions.lock_session(home, agent=agent.name, session=hook_input.session) as file:
        if not file.state.is_compacted:
            file.save(file.state._replace(is_compacted=True))


def _list_unsaved(
    memory: Memory, session: str, file: HookSession, answers: _Answers, event: HookEvent
) -> None:
    """Offer a list of the statements that were heard before a compaction and not saved, below all else."""
    from vademecum.inject import nudge as nudging

    answers.note_listed()
    start = len(hook_sessions.UNSAVED)
    listed = {mark[start:] for mark in file.state.known_marks if mark.startswith(hook_sessions.UNSAVED)}
    found = memory.heard.unsaved(session, without=listed, most=nudging.MOST_LISTED)
    if found:
        marks = tuple(hook_sessions.UNSAVED + each.id for each in found)
        answers.add(HookAnswer(str(event), False, nudging.render_unsaved(found), marks, time.time()))


def _ask(memory: Memory, agent: Agent, hook_input: HookInput, channel: Channel) -> None:
    """Ask the agent, once a session at the end of a turn, about statements that were heard and not saved.

    Ask nothing if the session cannot be marked as asked, or if a hook has kept the agent at work already.
    """
    keep_working = agent.hooks.keep_working if agent.hooks is not None else None
    if keep_working is None or hook_input.goes_on or not _has_reader(agent, hook_input):
        return
    from vademecum.inject import nudge as nudging

    home = memory.home.path
    with hook_sessions.lock_session(home, agent=agent.name, session=hook_input.session) as file:
        before = file.state
        if before.is_asked or not file.is_saved:
            return
        session = _heard_session(memory, agent, hook_input).session
        found = memory.heard.unsaved(session, most=nudging.MOST_LISTED)
        if found:
            file.save(before._replace(marks=before.marks | {hook_sessions.ASKED}))
            text = clean_text(nudging.render_unsaved(found, at_end=True))
            channel.offer(_encoded(keep_working(text)))
            if not channel.finish():  # the answer came too late; the end of another turn may ask
                file.save(before)


class _Answers:
    """The answers of one hook: those offered to the agent, and those that the agent got.

    Items are saved as given before they are offered, so a killed process gives nothing twice. An answer that
    comes too late is then saved as not given, and kept for the session's next prompt.
    """

    def __init__(self, file: HookSession, hooks: Hooks, event: HookEvent, channel: Channel) -> None:
        self._file, self._hooks, self._event, self._channel = file, hooks, event, channel
        self._before = file.state
        self._offers: list[Sequence[HookAnswer]] = []
        self._letters: list[str] = []
        self.has_start_hook = HookEvent.SESSION_START in hooks.moments
        self.agent_remembers = hooks.remembers
        self.is_kept = False  # whether an answer waits for the next prompt

    @property
    def has_offers(self) -> bool:
        """Whether anything was offered."""
        return bool(self._offers)

    def restart(self, state: HookState) -> None:
        """Save the state of a session that starts, and drop late answers that this state no longer has."""
        if self._before.is_owed:
            self._letters.append(hook_counts.made_up(HookEvent.SESSION_START))
        self._before = self._before._replace(is_owed=False)
        self.drop([each for each in self._before.late if not each.is_start and each not in state.late])
        self._before = state
        self._file.save(state)

    def note_listed(self) -> None:
        """Note that the statements from before a compaction are listed now, or that there are none."""
        self._before = self._before._replace(is_compacted=False)
        self._file.save(self._file.state._replace(is_compacted=False))

    def drop(self, answers: Sequence[HookAnswer]) -> None:
        """Drop late answers that are no longer needed."""
        self._letters += [hook_counts.made_up(each.event) for each in answers]
        late = tuple(each for each in self._before.late if each not in answers)
        self._before = self._before._replace(late=late)

    def offer(self, answers: Sequence[HookAnswer]) -> None:
        """Offer some answers together, in place of the earlier offer."""
        self._offers.append(answers)
        self._file.save(self._after(answers))
        text = clean_text("\n".join(self._text(each) for each in answers if each.text))
        rendered = self._hooks.render(self._hooks.moments[self._event], text) if text else ""
        self._channel.offer(_encoded(rendered))

    def add(self, answer: HookAnswer) -> None:
        """Offer an answer besides those of the last offer."""
        self.offer([*(self._offers[-1] if self._offers else ()), answer])

    def finish(self) -> list[str]:
        """Keep the answers that the agent did not get for the next prompt, and return what to count."""
        number = self._channel.finish()
        last = self._offers[-1] if self._offers else ()
        given = [*(self._offers[number - 1] if number else ()), *(each for each in last if not each.text)]
        had = frozenset(mark for each in given for mark in each.marks)
        # Of two offers the later one has more about the same prompt: a part of it was given.
        left = [each for each in last if each not in given and had.isdisjoint(each.marks)]
        if number != len(self._offers):
            state = self._after(given)
            new = tuple(each for each in left if each not in state.late)
            self._file.save(state._replace(late=(*state.late, *new)))
            self.is_kept = bool(new)
        letters = [
            *self._letters,
            *(hook_counts.made_up(each.event) for each in given if self._is_late(each)),
        ]
        if number is not None:
            return [*letters, hook_counts.answered(self._event)]
        if not self._channel.is_counted:
            letters.append(hook_counts.missed(self._event))
        if not any(each.event == self._event for each in left):
            letters.append(hook_counts.made_up(self._event))  # there was nothing to say
        return letters

    def _after(self, answers: Sequence[HookAnswer]) -> HookState:
        state = self._before
        for each in answers:
            state = state.give(each)
        return state

    def _is_late(self, answer: HookAnswer) -> bool:
        """Whether an answer belongs to an earlier hook, which missed its time limit."""
        makes_up = answer.is_start and self._before.is_owed and self._event is HookEvent.USER_PROMPT
        return makes_up or answer in self._before.late

    def _text(self, answer: HookAnswer) -> str:
        """Return an answer's text; one that belongs to an earlier hook says so."""
        is_earlier = answer.event != self._event or answer in self._before.late
        note = LATE_START if answer.is_start else LATE_PROMPT
        return answer.text.replace(OPEN, f"{OPEN}\n{note}", 1) if is_earlier else answer.text


def _encoded(text: str) -> bytes:
    """Return the text as bytes, without escape characters, which file names in it may hold."""
    return text.replace("\x1b", "").encode(errors="replace")
