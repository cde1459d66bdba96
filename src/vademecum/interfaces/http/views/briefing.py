"""What my agent is told: the block as it is sent, what each part takes, and why things are in or out."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from vademecum.errors import NotFound
from vademecum.interfaces.http.pages import Ask, PageView
from vademecum.interfaces.http.views.query import read_number
from vademecum.memory import connect
from vademecum.types import Audience, Origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.memory import Memory
    from vademecum.memory.values import Block, BlockItem, BlockSection, Delivery

PAGE = 100  # things left out that are named at once
LONGEST = 20_000  # characters of a prompt
REMINDER = 600  # tokens for what one prompt brings back, as in a hook
_REASONS = {
    "pending": "Waiting for review",
    "limit": "Over the number that is told",
    "room": "No room in its section",
    "budget": "No room in the block",
    "audience": "Not for a group",
    "setting": "Switched off in the settings",
    "excluded": "Switched off here",
}
_WHY = {
    "context": "pinned: told whenever a session begins",
    "memory": "pinned: told whenever a session begins",
    "profile": "pinned: told whenever a session begins",
    "knowledge": "among the best of what was learned, by confidence, age and use",
    "records": "among the newest of its scope",
    "attached": "the newest of an attached source",
    "journal": "a note of today or yesterday",
    "sessions": "one of the last sessions in this project",
    "notices": "memory moved this by itself, and you have not seen it yet",
}


class BriefingRequest(NamedTuple):
    """For whom a block is shown, and what is switched on and off to see what that does."""

    agent: str = ""
    prompt: str = ""
    tokens: int | None = None
    group: bool = False
    knowledge: bool = True
    sessions: bool = True
    without: tuple[str, ...] = ()
    after: int = 0  # things left out that come before this page

    @property
    def changes(self) -> bool:
        """Whether something is other than it is sent."""
        plain = BriefingRequest(self.agent, self.prompt, after=self.after)
        return self != plain


def briefing(memory: Memory, asked: BriefingRequest) -> dict[str, Any]:
    """What one agent is told in one project, and what becomes of that when something is switched off."""
    deliveries = memory.injection.deliveries()
    delivery = _chosen(deliveries, asked.agent)
    own = memory.caller.project
    with _opened(memory, delivery.agent) as agent:
        sent = _block(agent, delivery, BriefingRequest(prompt=asked.prompt))
        block = _block(agent, delivery, asked) if asked.changes else sent
        reminder = _reminder(agent, delivery, asked.prompt, block)
        budget = asked.tokens or agent.settings.inject.total_tokens
        enabled = agent.settings.inject.enabled and not agent.settings.incognito
        envelope = agent.injection.deliver(delivery.agent, block.text)
        trusts = _trusts(agent, block)
    return {
        "agent": delivery.agent,
        "moment": delivery.moment,
        "at_start": delivery.at_start,
        "at_prompt": delivery.at_prompt,
        "agents": [each.agent for each in deliveries],
        "project": own.id if own else "",
        "projects": _projects(memory),
        "asked": {**asked._asdict(), "without": [*asked.without]},
        "enabled": enabled,
        "text": block.text,
        "envelope": envelope,
        "tokens": block.tokens,
        "budget": budget,
        "sections": _sections(block, trusts, prompted=bool(asked.prompt) and not delivery.at_start),
        "plain_query": _query(BriefingRequest(asked.agent, asked.prompt), memory),
        "reminder": None if reminder is None else {"text": reminder.text, "tokens": reminder.tokens},
        "waiting": block.waiting,
        "warnings": [*block.warnings],
        **_left_out(block, asked, memory),
        "effect": _effect(sent, block) if asked.changes else None,
        "toggles": {
            path: _query(_toggled(asked, path), memory)
            for path in {item.path for section in block.sections for item in section.items} | {*asked.without}
        },
    }


def _chosen(deliveries: Sequence[Delivery], name: str) -> Delivery:
    for each in deliveries:
        if not name or each.agent == name:
            return each
    listed = ", ".join(each.agent for each in deliveries)
    raise NotFound(f"no hook tells {name} anything", hint=f"one of {listed}")


def _projects(memory: Memory) -> list[dict[str, Any]]:
    """The projects whose folder is there, the one that is looked at first."""
    own = memory.caller.project
    known = {each.id: each.name for each in memory.projects.list() if each.present and not each.joined_to}
    found = {own.id: own.root.name, **known} if own else known
    return [{"id": id, "name": name} for id, name in found.items()]


def _opened(memory: Memory, agent: str) -> Memory:
    """Memory as a hook of that agent opens it here."""
    own = memory.caller.project
    return connect(
        home=memory.home.path,
        project=own.root if own else False,
        agent=memory.settings.agent,
        audience=memory.caller.audience,
        origin=Origin.TOOL,
        actor=f"hook:{agent}",
        client=agent,
        readonly=True,
        now=memory.workspace.now,
    )


def _block(memory: Memory, delivery: Delivery, asked: BriefingRequest) -> Block:
    """The block that a hook would answer with, when a session begins or with its first prompt."""
    return memory.injection.block(
        query="" if delivery.at_start else asked.prompt,
        budget=asked.tokens,
        knowledge=asked.knowledge,
        audience=Audience.GROUP if asked.group else None,
        notices=True,
        recent=asked.sessions,
        explain=True,
        exclude=asked.without,
    )


def _reminder(memory: Memory, delivery: Delivery, prompt: str, block: Block) -> Block | None:
    """What a prompt brings back beside the block; None where no prompt was given or is heard."""
    if not prompt.strip() or not (delivery.at_start and delivery.at_prompt):
        return None
    until = time.monotonic() + memory.settings.limits.hook
    return memory.injection.remind(prompt, budget=REMINDER, without=block.marks, until=until)


def _trusts(memory: Memory, block: Block) -> Mapping[str, dict[str, str]]:
    """How far each record of a block is trusted, by the path of its file."""
    found: dict[str, dict[str, str]] = {}
    for item in (item for section in block.sections for item in section.items):
        if item.key and item.path not in found:
            found[item.path] = _trust(memory, item)
    return found


def _trust(memory: Memory, item: BlockItem) -> dict[str, str]:
    """How far one is trusted, and whose word it is; nothing when it went just now."""
    try:
        record = memory.show(item.path.rpartition("/")[2].removesuffix(".md"))
    except NotFound:
        return {}
    if record.path != item.path:
        return {}
    trust = memory.review.trust_of(record)
    last = record.live[-1] if record.live else None
    return {
        "trust": str(trust.level),
        "trust_why": trust.why,
        "scope": str(record.place.scope),
        "type": str(record.type),
        "origin": str(last.origin or "") if last else "",
        "updated": record.updated or record.created or "",
    }


def _query(asked: BriefingRequest, memory: Memory) -> str:
    """The words behind `?` that ask for this."""
    own = memory.caller.project
    pairs = [("agent", asked.agent), ("project", own.id if own else ""), ("prompt", asked.prompt)]
    pairs += [("tokens", str(asked.tokens or "")), ("audience", "group" if asked.group else "")]
    pairs += [("knowledge", "" if asked.knowledge else "off"), ("sessions", "" if asked.sessions else "off")]
    pairs += [("without", each) for each in asked.without]
    pairs += [("after", str(asked.after or ""))]
    return urlencode([(name, value) for name, value in pairs if value])


def _toggled(asked: BriefingRequest, path: str) -> BriefingRequest:
    """With something switched off, or on again."""
    kept = tuple(each for each in asked.without if each != path)
    return asked._replace(without=kept if path in asked.without else (*asked.without, path), after=0)


def _sections(block: Block, trusts: Mapping[str, dict[str, str]], *, prompted: bool) -> list[dict[str, Any]]:
    """The headings of a block with what stands below them."""
    total = block.tokens or 1
    made = []
    for section in block.sections:
        items = [_item(section, item, trusts, prompted=prompted) for item in section.items]
        tokens = sum(each["tokens"] for each in items)
        made.append(
            {
                "name": section.name,
                "title": section.title,
                "tokens": tokens,
                "share": round(100 * tokens / total, 1),
                "left_out": section.left_out,
                "items": items,
            }
        )
    around = max(total - sum(each["tokens"] for each in made), 0) if block.text else 0
    frame = {"name": "frame", "title": "Opening and headings", "left_out": 0, "items": []}
    return [*made, {**frame, "tokens": around, "share": round(100 * around / total, 1)}] if around else made


def _item(
    section: BlockSection, item: BlockItem, trusts: Mapping[str, dict[str, str]], *, prompted: bool
) -> dict[str, Any]:
    why = _WHY.get(section.name, "")
    if prompted and section.name == "records":
        why = "by how well it answers the prompt, then the newest of its scope"
    if item.lines and "[cut here:" in item.lines[-1]:
        why += "; cut at its budget"
    return {
        "path": item.path,
        "key": item.key,
        "lines": [*item.lines],
        "tokens": item.tokens,
        "why": why,
        **trusts.get(item.path, {}),
    }


def _left_out(block: Block, asked: BriefingRequest, memory: Memory) -> dict[str, Any]:
    """What is not told, a page of it, and how much for each reason."""
    counts = Counter(each.reason for each in block.left)
    after = asked.after
    following = asked._replace(after=after + PAGE)
    return {
        "left": [
            {**each._asdict(), "label": _REASONS.get(each.reason, each.reason)}
            for each in block.left[after : after + PAGE]
        ],
        "left_total": len(block.left),
        "left_next_query": _query(following, memory) if after + PAGE < len(block.left) else "",
        "left_counts": [
            {"reason": name, "label": _REASONS[name], "count": counts[name]}
            for name in _REASONS
            if counts[name]
        ],
    }


def _effect(sent: Block, shown: Block) -> dict[str, Any]:
    """What is other than it is sent: in tokens, and what went and came."""
    before, after = _told(sent), _told(shown)
    return {
        "tokens_sent": sent.tokens,
        "tokens_shown": shown.tokens,
        "gone": [each for name, each in before.items() if name not in after],
        "came": [each for name, each in after.items() if name not in before],
    }


def _told(block: Block) -> dict[tuple[str, str], dict[str, str]]:
    return {
        (item.path, item.key): {"path": item.path, "key": item.key, "section": section.title}
        for section in block.sections
        for item in section.items
    }


def data(ask: Ask) -> dict[str, Any]:
    """`?agent=&project=&prompt=`; to change: `tokens`, `audience`, `knowledge`, `sessions`, `without`."""
    query = ask.query
    tokens = read_number(query.get("tokens"))
    asked = BriefingRequest(
        agent=query.get("agent", ""),
        prompt=query.get("prompt", "")[:LONGEST],
        tokens=max(tokens, 100) if tokens else None,
        group=query.get("audience") == "group",
        knowledge=query.get("knowledge") != "off",
        sessions=query.get("sessions") != "off",
        without=tuple(dict.fromkeys(query.getlist("without"))),
        after=read_number(query.get("after")),
    )
    return briefing(ask.memory, asked)


VIEW = PageView("/briefing", "What my agent is told", data, "briefing.html", icon="told", key="w")
