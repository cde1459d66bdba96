"""Check and tidy page: problems, proposed clean-ups, and how to undo each run."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from vademecum.errors import NotFound
from vademecum.interfaces.http.api.care import run_pass, tag_of_proposals
from vademecum.interfaces.http.pages import PageView, ViewRequest
from vademecum.interfaces.http.views.query import read_number
from vademecum.interfaces.present.safe import clean_text
from vademecum.interfaces.present.to_json import finding_json
from vademecum.interfaces.present.to_text import diff_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.memory import Memory
    from vademecum.memory.values import Proposal

SECONDS = 10.0  # seconds that a full check may take
PAGE = 50  # findings, proposals or runs of a page
LINES = 60  # lines of one diff
EDITS = 10  # edits of one proposal that are shown
_LABELS = re.compile(r"\A---\n.*?\n---\n+", re.DOTALL)
PASSES: dict[str, str] = {
    "sweep": "Archive old, expired and duplicate memories",
    "heal": "Repair what needs no decision",
    "merge": "Merge second copies that sync tools left",
    "promote": "Save what the journal repeats",
}


def check(memory: Memory, *, severity: str = "", what: str = "", after: int = 0) -> dict[str, Any]:
    """Return a page of problems of memory, worst first; `severity` and `what` filter them."""
    found = [finding_json(each) for each in memory.care.lint(seconds=SECONDS)]
    fitting = [each for each in found if severity in ("", each["severity"]) and what in ("", each["what"])]
    for each in fitting[after : after + PAGE]:
        each["key"] = _key_of(each["path"])
    return {
        "show": "findings",
        "findings": fitting[after : after + PAGE],
        "matching": len(fitting),
        "total": len(found),
        "severities": _counted(each["severity"] for each in found),
        "kinds": _counted(each["what"] for each in found if severity in ("", each["severity"])),
        "severity": severity,
        "what": what,
        **_paged(after, len(fitting)),
    }


def _counted(names: Any) -> list[dict[str, Any]]:
    return [{"name": name, "count": count} for name, count in Counter(names).most_common()]


def _paged(after: int, total: int) -> dict[str, Any]:
    return {
        "after": after,
        "next": after + PAGE if after + PAGE < total else None,
        "previous": max(after - PAGE, 0) if after else None,
    }


def _key_of(path: str) -> str:
    """Return the key of the record in the file at a path; empty for any other file."""
    folder, _, name = path.rpartition("/")
    return name.removesuffix(".md") if folder.endswith("records") and name.endswith(".md") else ""


def tidy(memory: Memory, *, after: int = 0, only: str = "") -> dict[str, Any]:
    """Return the changes that a clean-up would make, as diffs, without making them."""
    name = only or next(iter(PASSES))
    if name not in PASSES:
        raise NotFound(f"there is no clean-up {name}", hint=f"one of {', '.join(PASSES)}")
    outcome, _ = run_pass(memory, name)
    return {
        "show": "tidy",
        "passes": [{"name": each, "title": title} for each, title in PASSES.items()],
        "only": name,
        "title": PASSES[name],
        "etag": tag_of_proposals(outcome.proposals),  # of all proposals, for the call that applies them
        "total": len(outcome.proposals),
        "large": outcome.large,
        "proposals": [_proposal(each) for each in outcome.proposals[after : after + PAGE]],
        "unreadable": [finding_json(each) for each in outcome.findings],
        **_paged(after, len(outcome.proposals)),
    }


def _proposal(proposal: Proposal) -> dict[str, Any]:
    edits = []
    for edit in proposal.edits[:EDITS]:
        whole = edit.before is not None and edit.after is not None
        before, after = (_text(each, whole=whole) for each in (edit.before, edit.after))
        diff = diff_lines(before, after)
        edits.append(
            {
                "path": edit.path,
                "archives": edit.after is None,
                "creates": edit.before is None,
                "diff": diff[:LINES],
                "cut": max(len(diff) - LINES, 0),
            }
        )
    return {
        "what": proposal.what,
        "where": proposal.where,
        "key": _key_of(proposal.where.partition("#")[0]),
        "why": proposal.why,
        "scope": str(proposal.place.scope) if proposal.place else "",
        "edits": edits,
        "more": max(len(proposal.edits) - EDITS, 0),
    }


def _text(content: bytes | None, *, whole: bool) -> str:
    """Return a file's text for a diff, without secrets; unless `whole`, without frontmatter fields."""
    text = clean_text((content or b"").decode(errors="replace"))
    return text if whole else _LABELS.sub("", text)


def list_runs(memory: Memory, *, after: int = 0) -> dict[str, Any]:
    """Return the runs that changed something, newest first."""
    found: Sequence[Any] = memory.care.runs()
    return {
        "show": "runs",
        "runs": [
            {
                "run": each.run,
                "what": each.what,
                "at": each.at,
                "edits": each.edits,
                "undone": each.undone,
                "tried": each.tried,
            }
            for each in found[after : after + PAGE]
        ],
        "total": len(found),
        **_paged(after, len(found)),
    }


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the page: `?show=findings|tidy|runs`, with `severity`, `what`, `only` and `after`."""
    query, after = ask.query, read_number(ask.query.get("after"))
    show = query.get("show", "findings")
    if show == "tidy":
        return tidy(ask.memory, after=after, only=query.get("only", ""))
    if show == "runs":
        return list_runs(ask.memory, after=after)
    return check(ask.memory, severity=query.get("severity", ""), what=query.get("what", ""), after=after)


VIEW = PageView("/check", "Check and tidy", data, "check.html", icon="check", key="c")
