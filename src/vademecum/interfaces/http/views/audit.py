"""Audit: who changed what, and when, the newest first; and whether anybody has tampered with that list."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vademecum.errors import VadeError
from vademecum.interfaces.http.pages import Ask, PageView
from vademecum.interfaces.present.to_json import finding_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.memory import Memory

PAGE = 100  # lines at once
VERIFIED_AT_ONCE = 20_000  # lines; a longer chain is checked when it is asked for
FILTERS = ("op", "by", "scope", "day")
_SHOWN = 12  # values of a filter


def read_audit(
    memory: Memory,
    chosen: Mapping[str, str] | None = None,
    *,
    before: int | None = None,
    verify: bool = False,
) -> dict[str, Any]:
    """A page of the lines that have the values chosen, older than line `before`; with how the chain is."""
    chosen = {name: value for name, value in (chosen or {}).items() if value and name in FILTERS}
    lines = [_told(each) for each in memory.audit.lines()]
    matching = [each for each in lines if all(each[name] == value for name, value in chosen.items())]
    older = matching if before is None else [each for each in matching if each["seq"] < before]
    page = older[: -PAGE - 1 : -1]
    _name_records(memory, page)
    more = len(older) > len(page)
    return {
        "lines": page,
        "matching": len(matching),
        "total": len(lines),
        "chosen": chosen,
        "filters": [_filter(name, lines, chosen) for name in FILTERS[:3]],
        "days": _days(chosen),
        "next_query": _query(chosen, before=str(page[-1]["seq"])) if more else "",
        "chain": _chain(memory, len(lines), asked=verify),
        "verify_query": _query(chosen, verify="yes"),
    }


def _told(line: Mapping[str, Any]) -> dict[str, Any]:
    actor = str(line.get("actor") or "")
    kind, _, name = actor.partition(":")
    at = str(line.get("at") or "")
    return {
        "seq": int(line["seq"]) if isinstance(line.get("seq"), int) else 0,
        "at": at,
        "day": at[:10],
        "op": str(line.get("op") or ""),
        "actor": actor,
        "by": str(line.get("client") or "") or ("you" if kind == "human" else name or kind),
        "scope": str(line.get("scope") or ""),
        "record": line.get("record"),
        "num": line.get("num"),
        "key": "",
        "hash": str(line.get("hash") or ""),
    }


def _name_records(memory: Memory, page: Sequence[dict[str, Any]]) -> None:
    """Say which record a line is about, where it is still here: the audit itself holds no text and no key."""
    known: dict[str, str] = {}
    with memory.workspace.one_look():
        for id in {each["record"] for each in page if each["record"]}:
            try:
                known[id] = memory.show(id).key
            except VadeError:  # archived since, or of another project
                continue
    for each in page:
        each["key"] = known.get(each["record"] or "", "")


def _filter(name: str, lines: Sequence[Mapping[str, Any]], chosen: Mapping[str, str]) -> dict[str, Any]:
    """A filter with its most frequent values, counted as if only the others were chosen."""
    others = {other: value for other, value in chosen.items() if other != name}
    counts = Counter(
        each[name]
        for each in lines
        if each[name] and all(each[other] == value for other, value in others.items())
    )
    mine = chosen.get(name)
    values = [
        {
            "value": value,
            "count": count,
            "on": value == mine,
            "query": _query(others if value == mine else {**chosen, name: value}),
        }
        for value, count in counts.most_common(_SHOWN)
    ]
    return {"name": name, "values": values}


def _days(chosen: Mapping[str, str]) -> dict[str, str] | None:
    """The day that is chosen, and the address without it."""
    if "day" not in chosen:
        return None
    return {"day": chosen["day"], "query": _query({name: chosen[name] for name in chosen if name != "day"})}


def _chain(memory: Memory, lines: int, *, asked: bool) -> dict[str, Any]:
    """Whether the lines are the ones that were written."""
    if lines > VERIFIED_AT_ONCE and not asked:
        return {"state": "unchecked", "problems": []}
    report = memory.audit.verify()
    problems = [finding_json(each) for each in report.problems[:PAGE]]
    return {"state": "broken" if problems else "whole", "problems": problems}


def _query(chosen: Mapping[str, str], **more: str) -> str:
    return urlencode({**chosen, **more})


def data(ask: Ask) -> dict[str, Any]:
    """The audit: `?op=&by=&scope=&day=&before=&verify=yes`."""
    before = ask.query.get("before", "")
    return read_audit(
        ask.memory,
        {name: ask.query.get(name, "")[:200] for name in FILTERS},
        before=int(before) if before.isdecimal() and len(before) < 16 else None,
        verify=ask.query.get("verify") == "yes",
    )


VIEW = PageView("/audit", "Audit", data, "audit.html", icon="audit", key="a")
