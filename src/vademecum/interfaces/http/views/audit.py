"""Audit page: who changed what and when, newest first, and whether the lines were tampered with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from vademecum.errors import VadeError
from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.present.safe import clean_text
from vademecum.interfaces.present.to_json import finding_json
from vademecum.store import request_view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.memory import Memory

PAGE = 100  # lines of a page
VERIFIED_AT_ONCE = 20_000  # lines; a longer chain is checked only on request
FILTERS = ("op", "by", "scope", "day")
_SHOWN = 12  # values shown of a filter


def read_audit(
    memory: Memory,
    chosen: Mapping[str, str] | None = None,
    *,
    before: int | None = None,
    verify: bool = False,
) -> dict[str, Any]:
    """Return a page of audit lines with the chosen values; with `before`, only lines older than that line.

    The page also says whether the audit is unchanged; a long audit is checked only with `verify`.
    """
    chosen = {name: value for name, value in (chosen or {}).items() if value and name in FILTERS}
    lines = [_row(each) for each in memory.audit.lines()]
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
        "chain": _chain(memory, len(lines), requested=verify),
        "verify_query": _query(chosen, verify="yes"),
    }


def _row(line: Mapping[str, Any]) -> dict[str, Any]:
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
        "title": "",
        "hash": str(line.get("hash") or ""),
    }


def _name_records(memory: Memory, page: Sequence[dict[str, Any]]) -> None:
    """Add to each line the key and title of its record, if it still exists; the audit holds neither."""
    known: dict[str, tuple[str, str]] = {}
    with request_view():
        for id in {each["record"] for each in page if each["record"]}:
            try:
                record = memory.show(id)
            except VadeError:  # archived since then, or in another project
                continue
            known[id] = record.key, clean_text(record.title)
    for each in page:
        each["key"], each["title"] = known.get(each["record"] or "", ("", ""))


def _filter(name: str, lines: Sequence[Mapping[str, Any]], chosen: Mapping[str, str]) -> dict[str, Any]:
    """Return a filter with its most frequent values, counted as if only the other filters were set."""
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
    """Return the chosen day, and the page's query without it; None when no day is chosen."""
    if "day" not in chosen:
        return None
    return {"day": chosen["day"], "query": _query({name: chosen[name] for name in chosen if name != "day"})}


def _chain(memory: Memory, lines: int, *, requested: bool) -> dict[str, Any]:
    """Return whether the audit's lines are unchanged; a long audit is checked only if `requested`."""
    if lines > VERIFIED_AT_ONCE and not requested:
        return {"state": "unchecked", "problems": []}
    report = memory.audit.verify()
    problems = [finding_json(each) for each in report.problems[:PAGE]]
    return {"state": "broken" if problems else "whole", "problems": problems}


def _query(chosen: Mapping[str, str], **more: str) -> str:
    return urlencode({**chosen, **more})


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the audit page's data for `?op=&by=&scope=&day=&before=&verify=yes`."""
    before = ask.query.get("before", "")
    return read_audit(
        ask.memory,
        {name: ask.query.get(name, "")[:200] for name in FILTERS},
        before=int(before) if before.isdecimal() and len(before) < 16 else None,
        verify=ask.query.get("verify") == "yes",
    )


VIEW = PageView("/audit", "Audit", data, "audit.html", icon="audit", key="a")
