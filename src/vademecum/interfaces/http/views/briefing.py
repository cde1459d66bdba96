"""Briefing page: an agent's memory block as sent, the size of each part, and why items are in or out."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from vademecum.errors import NotFound
from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.http.views.query import read_number
from vademecum.memory import connect
from vademecum.types import Audience, Origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.memory import Memory
    from vademecum.memory.values import Block, BlockItem, BlockSection, HookDelivery

PAGE = 100  # omitted items of a page
LONGEST = 20_000  # characters of a prompt
REMINDER = 600  # tokens of the block for one prompt, as in a hook
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
    "heard": "what you said in recent sessions and have not accepted",
    "notices": "memory moved this by itself, and you have not seen it yet",
}


class BriefingRequest(NamedTuple):
    """A request to show an agent's block for a prompt, with the changes to the block that would be sent."""

    agent: str = ""
    prompt: str = ""
    tokens: int | None = None
    group: bool = False
    knowledge: bool = True
    sessions: bool = True
    without: tuple[str, ...] = ()
    after: int = 0  # the number of omitted items before this page

    @property
    def changes(self) -> bool:
        """Return whether the shown block differs from the block that is sent."""
        plain = BriefingRequest(self.agent, self.prompt, after=self.after)
        return self != plain


def briefing(memory: Memory, wanted: BriefingRequest) -> dict[str, Any]:
    """Return an agent's block in a project, and the effect of switching items off."""
    deliveries = memory.injection.deliveries()
    delivery = _chosen(deliveries, wanted.agent)
    own = memory.caller.project
    with _opened(memory, delivery.agent) as agent:
        sent = _block(agent, delivery, BriefingRequest(prompt=wanted.prompt))
        block = _block(agent, delivery, wanted) if wanted.changes else sent
        reminder = _reminder(agent, delivery, wanted.prompt, block)
        budget = wanted.tokens or agent.settings.inject.total_tokens
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
        "asked": {**wanted._asdict(), "without": [*wanted.without]},
        "enabled": enabled,
        "text": block.text,
        "envelope": envelope,
        "tokens": block.tokens,
        "budget": budget,
        "sections": _sections(block, trusts, prompted=bool(wanted.prompt) and not delivery.at_start),
        "plain_query": _query(BriefingRequest(wanted.agent, wanted.prompt), memory),
        "reminder": None if reminder is None else {"text": reminder.text, "tokens": reminder.tokens},
        "waiting": block.pending,
        "warnings": [*block.warnings],
        **_omitted(block, wanted, memory),
        "effect": _effect(sent, block) if wanted.changes else None,
        "toggles": {
            path: _query(_toggle(wanted, path), memory)
            for path in {item.path for section in block.sections for item in section.items}
            | {*wanted.without}
        },
    }


def _chosen(deliveries: Sequence[HookDelivery], name: str) -> HookDelivery:
    for each in deliveries:
        if not name or each.agent == name:
            return each
    listed = ", ".join(each.agent for each in deliveries)
    raise NotFound(f"no hook tells {name} anything", hint=f"one of {listed}")


def _projects(memory: Memory) -> list[dict[str, Any]]:
    """Return the projects whose folder exists, the current one first."""
    own = memory.caller.project
    known = {each.id: each.name for each in memory.projects.list() if each.present and not each.joined_to}
    found = {own.id: own.root.name, **known} if own else known
    return [{"id": id, "name": name} for id, name in found.items()]


def _opened(memory: Memory, agent: str) -> Memory:
    """Return the memory as a hook of that agent opens it here."""
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


def _block(memory: Memory, delivery: HookDelivery, wanted: BriefingRequest) -> Block:
    """Return the block that a hook would send at a session's start, or for the first prompt."""
    return memory.injection.block(
        query="" if delivery.at_start else wanted.prompt,
        budget=wanted.tokens,
        knowledge=wanted.knowledge,
        audience=Audience.GROUP if wanted.group else None,
        notices=True,
        recent=wanted.sessions,
        explain=True,
        exclude=wanted.without,
    )


def _reminder(memory: Memory, delivery: HookDelivery, prompt: str, block: Block) -> Block | None:
    """Return the block for a prompt; None without a prompt, or if the agent has no hook for prompts."""
    if not prompt.strip() or not (delivery.at_start and delivery.at_prompt):
        return None
    until = time.monotonic() + memory.settings.limits.hook_prompt
    return memory.injection.remind(prompt, budget=REMINDER, without=block.marks, until=until)


def _trusts(memory: Memory, block: Block) -> Mapping[str, dict[str, str]]:
    """Return the trust of each record in a block, by the path of its file."""
    found: dict[str, dict[str, str]] = {}
    for item in (item for section in block.sections for item in section.items):
        if item.key and item.path not in found:
            found[item.path] = _trust(memory, item)
    return found


def _trust(memory: Memory, item: BlockItem) -> dict[str, str]:
    """Return a record's trust and origin; empty if it was removed just now."""
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


def _query(wanted: BriefingRequest, memory: Memory) -> str:
    """Return the query string of an address for this request."""
    own = memory.caller.project
    pairs = [("agent", wanted.agent), ("project", own.id if own else ""), ("prompt", wanted.prompt)]
    pairs += [("tokens", str(wanted.tokens or "")), ("audience", "group" if wanted.group else "")]
    pairs += [
        ("knowledge", "" if wanted.knowledge else "off"),
        ("sessions", "" if wanted.sessions else "off"),
    ]
    pairs += [("without", each) for each in wanted.without]
    pairs += [("after", str(wanted.after or ""))]
    return urlencode([(name, value) for name, value in pairs if value])


def _toggle(wanted: BriefingRequest, path: str) -> BriefingRequest:
    """Return the request with an item switched off, or switched on if it was off."""
    others = tuple(each for each in wanted.without if each != path)
    return wanted._replace(without=others if path in wanted.without else (*wanted.without, path), after=0)


def _sections(block: Block, trusts: Mapping[str, dict[str, str]], *, prompted: bool) -> list[dict[str, Any]]:
    """Return the sections of a block with their items."""
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


def _omitted(block: Block, wanted: BriefingRequest, memory: Memory) -> dict[str, Any]:
    """Return a page of omitted items, and the number of items for each reason."""
    counts = Counter(each.reason for each in block.omitted)
    after = wanted.after
    following = wanted._replace(after=after + PAGE)
    return {
        "left": [
            {**each._asdict(), "label": _REASONS.get(each.reason, each.reason)}
            for each in block.omitted[after : after + PAGE]
        ],
        "left_total": len(block.omitted),
        "left_next_query": _query(following, memory) if after + PAGE < len(block.omitted) else "",
        "left_counts": [
            {"reason": name, "label": _REASONS[name], "count": counts[name]}
            for name in _REASONS
            if counts[name]
        ],
    }


def _effect(sent: Block, changed: Block) -> dict[str, Any]:
    """Return how the changed block differs from the sent one: in tokens, and the items removed and added."""
    before, after = _items_of(sent), _items_of(changed)
    return {
        "tokens_sent": sent.tokens,
        "tokens_shown": changed.tokens,
        "gone": [each for name, each in before.items() if name not in after],
        "came": [each for name, each in after.items() if name not in before],
    }


def _items_of(block: Block) -> dict[tuple[str, str], dict[str, str]]:
    return {
        (item.path, item.key): {"path": item.path, "key": item.key, "section": section.title}
        for section in block.sections
        for item in section.items
    }


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the page: `?agent=&project=&prompt=`, changed by `tokens`, `audience`, `knowledge`, `sessions`,
    `without`.
    """
    query = ask.query
    tokens = read_number(query.get("tokens"))
    wanted = BriefingRequest(
        agent=query.get("agent", ""),
        prompt=query.get("prompt", "")[:LONGEST],
        tokens=max(tokens, 100) if tokens else None,
        group=query.get("audience") == "group",
        knowledge=query.get("knowledge") != "off",
        sessions=query.get("sessions") != "off",
        without=tuple(dict.fromkeys(query.getlist("without"))),
        after=read_number(query.get("after")),
    )
    return briefing(ask.memory, wanted)


VIEW = PageView("/briefing", "What my agent is told", data, "briefing.html", icon="told", key="w")
