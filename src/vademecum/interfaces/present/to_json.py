"""Declare the JSON of every value, once for all interfaces.

A field is declared once, in the order of the output; the object and its schema are made from the declaration.
Names are snake_case. Search answers and lines of files are camelCase, because agents know them so from other
tools. This module prints nothing, and imports nothing that prints.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.fields import BY_NAME, FIELDS
from vademecum.interfaces.present.shape import (
    ANYTHING,
    COUNT,
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    VERSION,
    JsonShape,
    at,
    by_name,
    many,
    maybe,
    optional,
    prepared,
    some,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum import Answer
    from vademecum.memory import Memory
    from vademecum.memory.status import Status
    from vademecum.memory.values import DryRun, Graph, Line, Pinned, Source
    from vademecum.types import Finding

_WHERE = re.compile(r"(?s)(.*?)#L(\d+)(?:-L(\d+))?")

# Parts of several answers.

TEXTS = many(TEXT)
path_json = JsonShape("path", "path")
brief_json = JsonShape("record_brief", "key num:int? id? scope=place.scope path")
trust_json = JsonShape("trust", "level badge injectable:bool why")
swept_json = JsonShape("swept", "run moved:int into:list message")
merged_json = JsonShape("merged", "key superseded undo")
told_json = JsonShape("edit_made", "path done:bool why~")
unreadable_json = JsonShape("unreadable", "path=where why")
not_indexed_json = JsonShape("not_indexed", "path=where reason=why")


def place_of(finding: Finding) -> tuple[str, int | None, int | None]:
    """Return the path of a finding, and its first and last line; the lines are None for a whole file."""
    match = _WHERE.fullmatch(finding.where)
    if match is None:
        return finding.where, None, None
    return match[1], int(match[2]), int(match[3] or match[2])


finding_json = JsonShape(
    "finding",
    "what where path start_line end_line why severity mend scope scope_id",
    path=at(lambda found: place_of(found)[0]),
    start_line=at(lambda found: place_of(found)[1], maybe(COUNT)),
    end_line=at(lambda found: place_of(found)[2], maybe(COUNT)),
    scope=at(lambda found: found.place.scope if found.place else None, maybe(TEXT)),
    scope_id=at(lambda found: found.place.id if found.place else None, some(TEXT)),
)

# Search answers, in camelCase.

claim_json = JsonShape("claim", "cited standing why~")
passage_json = JsonShape(
    "passage",
    "path startLine:int=start endLine:int=end score:float relevance:float match snippet source",
    "scope=place.scope key? title! type? num:int? time? origin? superseded? role! group newer! heard!",
    "related claims stale team vouched",
    group=optional(COUNT),
    related=optional(by_name(TEXT)),
    claims=optional(many(claim_json)),
    stale=optional(TEXT),
    team=optional(TEXT),
    vouched=optional(many(TEXT)),
)
explained_json = JsonShape(
    "explained_passage",
    passage_json,
    components=by_name(NUMBER),
    arithmetic=at(
        lambda passage: {_camel_case(name): value for name, value in (passage.arithmetic or {}).items()},
        by_name(NUMBER),
    ),
)
_turn = JsonShape("turn", "line:int role time! text")
conversation_json = JsonShape(
    "conversation", "group:int path title! time! turns", turns=many(_turn)
)  # of an answer: what else was said around its results
_covered = JsonShape(
    "coverage",
    "files:int indexed:int pending:int failed:int vectorsPending:int=vectors_pending sessions",
    "sessionsRead sessionsUnread read:int unread:int",
    sessions=optional(COUNT),
    sessionsRead=at("sessions_read", optional(COUNT)),
    sessionsUnread=at("sessions_unread", optional(COUNT)),
)


def _answer_fields(name: str, passage: JsonShape) -> JsonShape:
    return JsonShape(
        name,
        "results conversations match hidden:int provider model mode coverage degraded:list notes:list hub",
        results=many(passage),
        conversations=optional(many(conversation_json)),
        hub=optional(TEXT),
        coverage=_covered,
    )


found_json, explained_found_json = (
    _answer_fields("answer", passage_json),
    _answer_fields("explained_answer", explained_json),
)
lines_json = JsonShape("lines", "path text startLine:int=start endLine:int=end lines:int")


def answer_json(answer: Answer, *, explain: bool) -> dict[str, Any]:
    """Return a search answer in camelCase; with `explain`, each result has the parts of its score."""
    return (explained_found_json if explain else found_json)(answer)


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


index_json = JsonShape(
    "index_report",
    "files:int indexed:int changed:int removed:int pending:int vectors_pending:int unread:int failed",
    "sessions_unread degraded:list",
    sessions_unread=optional(COUNT),
    failed=at("findings", many(not_indexed_json)),
)

# Saved records and notes.

stored_json = JsonShape(
    "stored",
    "outcome key num:int? id? scope=place.scope scope_id~=place.id path indexed:bool secrets:list swept",
    "approval merged purged team dropped:list!",
    team=optional(TEXT),
    swept=maybe(swept_json),
    approval=optional(TEXT),
    merged=maybe(merged_json),
    purged=optional(TEXT),
)
noted_json = JsonShape("noted", "path time secrets:list purged", purged=optional(TEXT))
notes_json = JsonShape("notes", "path text")
unchanged_json = JsonShape("unchanged", "path changed:bool")
edited_json = JsonShape("edited", "path changed:bool secrets:list dropped:list!")
protected_json = JsonShape("protected", "key num:int? protected:bool")
cleared_json = JsonShape("cleared", cleared=many(brief_json))
_purged = JsonShape("purged_place", "where count:int gone:bool why")
_proved = JsonShape("proved_place", _purged, "before? after?")
receipt_json = JsonShape(
    "receipt",
    "id at by what places texts:int records:list sessions:list tombstone audit",
    places=many(_proved),
    audit=many(OBJECT),
)
purged_json = JsonShape(
    "purged",
    "found dry_run:bool=dry receipt",
    found=many(_purged),
    receipt=optional(prepared(receipt_json)),
)
_tombstone = JsonShape(
    "tombstone",
    "id at by what done:bool texts:int=standing lifted:int records:list sessions:list",
    lifted=at(lambda stone: len(stone.lifted), COUNT),
)
tombstones_json = JsonShape("tombstones", tombstones=many(_tombstone))

# Listings and the status.

_TIMES = [BY_NAME["created"], BY_NAME["updated"]]
_record = JsonShape(
    "_record",
    *(field.json for field in FIELDS if field.json and field not in _TIMES),
    "trusted:bool",
    *(field.json for field in _TIMES),
    "path team",
    team=optional(TEXT),
)
listed_json = JsonShape("record_listed", _record, entries=at(lambda record: len(record.entries), COUNT))
listing_json = JsonShape(
    "listing",
    "records count limit:int counted written:list findings",
    records=many(listed_json),
    count=at(lambda listing: len(listing.records), COUNT),
    counted=by_name(COUNT),
    findings=many(finding_json),
)
_forgotten = JsonShape("forgotten_record", "key scope at why")
forgotten_json = JsonShape("forgotten", forgotten=many(prepared(_forgotten)))
entry_json = JsonShape(
    "entry",
    "time? text origin~ superseded? part? start_line:int=start end_line:int=end trust",
    trust=trust_json,
    sessions=optional(many(TEXT)),
)
related_json = JsonShape(
    "related_record",
    "key=record.key path=record.path scope=record.place.scope relation=edge.relation origin=edge.origin",
    "direction",
    direction=at(lambda related: "out" if related.outward else "in"),
)
_version = JsonShape("earlier_version", "id why path")
record_json = JsonShape(
    "record",
    _record,
    "entries trust related lost:int versions generated",
    entries=many(prepared(entry_json)),
    trust=trust_json,
    related=many(related_json),
    versions=many(_version),
    generated=at(lambda record: record.fields.get("generated") or {}, OBJECT),
)
project_here_json = JsonShape("project", "id root aliases:list")
_pinned = JsonShape("pinned_size", "path size:int budget:int over:bool")
_attached = JsonShape("source_attached", "name path scope=place.scope inject:bool problem~")
_survey = JsonShape(
    "survey",
    "files:int indexed:int pending:int stale:int gone:int vectors_pending:int unread:int chunks:int failed",
    "sessions_unread trouble~",
    sessions_unread=optional(COUNT),
    failed=many(not_indexed_json),
)
_hook_counts = JsonShape("hook_counts", "calls:int missed:int made_up:int lost:int")
standing_json = JsonShape(
    "status",
    "home project agent session? audience incognito:bool trusted:bool? records notes:int pinned sources",
    "index findings hooks warnings:list",
    project=at(
        lambda found: found.project and project_here_json(found.project, aliases=found.aliases),
        maybe(prepared(project_here_json)),
    ),
    records=by_name(COUNT),
    pinned=many(_pinned),
    sources=many(_attached),
    index=at("coverage", maybe(_survey)),
    findings=many(finding_json),
    hooks=by_name(_hook_counts),
)
shared_json = JsonShape(
    "repository_settings",
    "path trusted:bool settings problems:list",
    settings=at(lambda shared: {each.name: each.value for each in shared.wanted}, by_name(ANYTHING)),
)
status_whole_json = JsonShape("whole_status", standing_json, repository_settings=maybe(shared_json))


def status_json(found: Status, warnings: Sequence[str]) -> dict[str, Any]:
    """Return the status as a JSON document of its own."""
    return {"schemaVersion": VERSION, **standing_json(found, warnings=warnings)}


_setting = JsonShape("setting", "value from", value=ANYTHING)
settings_json = JsonShape("settings", settings=by_name(prepared(_setting)))
_audit_line = JsonShape(
    "audit_line",
    "at actor op scope? record? num:int? before? after? seq:int prev hash",
    client=optional(TEXT),
    run=optional(TEXT),
    since=optional(TEXT),
    made=optional(ANYTHING),
)
audit_json = JsonShape("audit", lines=many(prepared(_audit_line)))
audit_verified_json = JsonShape("audit_verified", "lines:int problems", problems=many(finding_json))

# Lessons, and the profile.

learned_json = JsonShape(
    "learned",
    "outcome key num:int? id? scope=place.scope scope_id~=place.id path confidence:float? trust",
    "secrets:list swept merged",
    swept=maybe(swept_json),
    merged=maybe(merged_json),
)
signal_json = JsonShape("signal", "kind text confidence:float why command")
suggested_json = JsonShape("suggested", "signals declined? why", signals=many(prepared(signal_json)))


def _lesson_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a lesson; `path` becomes `path_prefix`, because `path` is the lesson's file."""
    found = {name: value for name, value in fields.items() if name != "path"}
    return {**found, "path_prefix": fields["path"]} if "path" in fields else found


lesson_json = JsonShape(
    "lesson",
    "key=lesson.record.key num:int?=lesson.record.num id?=lesson.record.id",
    "scope=lesson.record.place.scope scope_id~=lesson.record.place.id type=lesson.type fields",
    "confidence:float=lesson.confidence examples:list=lesson.examples applied:int=lesson.applied",
    "learned:int=lesson.times first_confirmed?=lesson.first last_confirmed?=lesson.last",
    "path=lesson.record.path trust=trust.level badge=trust.badge injectable:bool=trust.injectable",
    "why=trust.why score:float=score.value components",
    fields=spread(
        lambda ranked: _lesson_fields(ranked.lesson.fields),
        fact=TEXT,
        error=TEXT,
        solution=TEXT,
        pattern=TEXT,
        sequence=TEXTS,
        success_rate=NUMBER,
        what=TEXT,
        impact=TEXT,
        prevention=TEXT,
        rule=TEXT,
        path_prefix=TEXT,
    ),
    components=at(
        lambda ranked: {name: value for name, value in ranked.score._asdict().items() if name != "value"},
        by_name(NUMBER),
    ),
)
lessons_json = JsonShape("lessons", lessons=many(lesson_json))


applied_json = JsonShape("applied", "key num:int? applied:int")
figures_json = JsonShape(
    "figures",
    "count:int confidence:float? oldest_days:float? newest_days:float? age_days:float? size:int",
    "applied:int learned:int by_trust",
    by_trust=by_name(COUNT),
)
stats_json = JsonShape(
    "lesson_stats",
    total=figures_json,
    by_scope=by_name(figures_json),
    by_type=by_name(figures_json),
    by_scope_and_type=by_name(by_name(figures_json)),
)
_import_finding = JsonShape("import_finding", "what where why")
lessons_imported_json = JsonShape(
    "lessons_imported",
    "added:list updated:list known:int secrets:list findings",
    findings=many(_import_finding),
)
_section = JsonShape("profile_section", "text origin~ trust injected:bool")
profile_json = JsonShape(
    "profile", "path? text updated? size:int budget:int sections", sections=many(prepared(_section))
)
no_profile_json = JsonShape("no_profile", "path? text sections", sections=many(ANYTHING))


def profile_sections(memory: Memory, found: Pinned) -> list[dict[str, Any]]:
    """Return the sections of a profile with their trust."""
    trusts = [memory.review.trust_of(section, document=found) for section in found.sections]
    return [
        _section(each, trust=trust.level, injected=trust.injectable)
        for each, trust in zip(found.sections, trusts, strict=True)
    ]


draft_json = JsonShape(
    "profile_draft",
    "lines:list text records:int new:bool notes:list applied:bool run~ why",
)
_node = JsonShape("graph_node", "path key scope=place.scope type title?")
_edge = JsonShape("graph_edge", "from to relation origin weight:float status from_path=source to_path=target")
_broken = JsonShape("graph_broken", "path=source line:int wanted")


def _edges(found: Graph) -> list[dict[str, Any]]:
    keys = {record.path: record.key for record in found.records}
    return [
        _edge(edge, **{"from": keys[edge.source]}, to=keys[edge.target], status=edge.status)
        for edge in found.edges
    ]


graph_json = JsonShape(
    "graph", nodes=at("records", many(_node)), edges=at(_edges, many(prepared(_edge))), broken=many(_broken)
)
graph_written_json = JsonShape("graph_written", "path format")
edge_decided_json = JsonShape("edge_decided", "records:list rejected:bool")


# Pending items.

_item = JsonShape("inbox_item", "kind id name path~ scope~ text why")
inbox_json = JsonShape(
    "inbox", "counts items notes:list refused:list", counts=by_name(COUNT), items=many(_item)
)
_request = JsonShape(
    "request",
    "id operation=request.operation arguments scope=request.scope project?=request.project",
    "session?=request.session agent=request.agent origin=request.origin door=request.door at=request.at",
    "client?=request.client conversation?=request.conversation",
    arguments=at("request.arguments", OBJECT),
)
_damaged = JsonShape("request_damaged", "id trouble")
waiting_json = JsonShape(
    "waiting",
    waiting=many(
        prepared(_request, _damaged, make=lambda each: (_damaged if each.request is None else _request)(each))
    ),
)
_decided = JsonShape("decision", "id operation scope decided", operation=optional(TEXT), scope=optional(TEXT))
decided_json = JsonShape("decided", decided=many(prepared(_decided)))
_vouched = JsonShape("vouched", "key verified:bool texts:list")
verified_json = JsonShape("verified", verified=many(prepared(_vouched)))
_verified_text = JsonShape("verified_text", "key=item.name path=item.path")
_left = JsonShape("left_text", "path=item.path why")
verified_many_json = JsonShape(
    "verified_many", "verified left run?", verified=many(_verified_text), left=many(_left)
)
_unverified = JsonShape("unverified_text", "name path text why")
unverified_json = JsonShape("unverified", waiting=many(_unverified))
postponed_json = JsonShape("postponed", "outcome approval message")

# Sessions.

usage_json = JsonShape(
    "session_usage",
    "calls:int input:int output:int cached:int total:int cost:float? priced:int estimated:int",
)
session_json = JsonShape(
    "session",
    "id project path name created updated messages:int agent audience cwd model ended:bool trouble usage",
    usage=usage_json,
)
sessions_json = JsonShape("sessions", sessions=many(session_json))
_line = JsonShape("session_line", "line:int event", event=OBJECT)
_torn = JsonShape("torn_line", "line:int torn size:int")


def line_json(line: Line) -> dict[str, Any]:
    """Return a line of a session: its number and its event as in the log, without secrets.

    A damaged line has the reason and its size instead of an event.
    """
    from vademecum.interfaces.present.safe import clean_value
    from vademecum.transcripts.events import TornLine, to_json

    if isinstance(line.event, TornLine):
        return {"line": line.number, "torn": line.event.why, "size": line.event.size}
    return {"line": line.number, "event": clean_value(to_json(line.event))}


session_line_json = prepared(_line, _torn)
SESSION_LINES = many(session_line_json._replace(convert=line_json))
session_lines_json = JsonShape("session_lines", lines=SESSION_LINES)
session_shown_json = JsonShape(
    "session_shown",
    "session path usage lines",
    usage=at(lambda log: log.usage(), usage_json),
    lines=SESSION_LINES,
)
distilled_json = JsonShape(
    "session_distilled",
    "session model~ proposed:int added:int tokens:int problem~ refused",
    refused=by_name(COUNT),
)
hit_json = JsonShape(
    "session_hit",
    "session_id=session session_title=title project role turn:int line:int time preview score:float",
    "relevance:float match~ keyword_hits:int exact:bool",
)
hits_json = JsonShape(
    "session_hits", "results sessions:int degraded:list notes:list", results=at("hits", many(hit_json))
)
imported_json = JsonShape("session_imported", "path outcome session project added:int unread:int why")
_joined_folder = JsonShape("joined_folder", "folder sessions:int project why")
sessions_imported_json = JsonShape(
    "sessions_imported",
    "run",
    imported=many(imported_json),
    joined=many(_joined_folder),
    left=many(_joined_folder),
)
session_renamed_json = JsonShape("session_renamed", "session name")
trimmed_json = JsonShape(
    "session_trimmed", "session window:int? before:int after:int trimmed:list cut:list applied:bool"
)


class Share(NamedTuple):
    """One section of a window, with its letter in a pipe and its colour on a terminal."""

    name: str
    tokens: int
    sign: str
    colour: str


def shares_of(found: DryRun) -> list[Share]:
    """Return the sections of a window as they are sent, then the free part, then the room for a reply."""
    tokens = found.window.tokens
    roles = {"user": 0, "assistant": 0, "tool": 0}
    for row in found.window.rows:
        if row.role in roles:
            roles[row.role] += row.tokens
    # Repairs and system notes in the middle have no role of their own.
    other = max(tokens.messages - sum(roles.values()), 0)
    used = tokens.schemas + tokens.system + tokens.summary + sum(roles.values()) + other
    return [
        Share("tool schemas", tokens.schemas, "#", "magenta"),
        Share("system prompt", tokens.system, "=", "blue"),
        Share("summary block", tokens.summary, "%", "yellow"),
        Share("user", roles["user"], "u", "cyan"),
        Share("assistant", roles["assistant"], "a", "green"),
        Share("tool results", roles["tool"], "t", "red"),
        Share("other", other, "o", "white"),
        Share("free", max(tokens.limit - used, 0), ".", "bright_black"),
        Share("reply reserve", max(tokens.context - tokens.limit, 0), "-", "bright_black"),
    ]


_points = JsonShape("window_points", "flush:int trim:int target:int limit:int")
_pruned = JsonShape("window_pruned", "results:int soft_trims:int hard_clears:int chars:int")


def _pruned_items(found: DryRun) -> dict[str, Any]:
    soft, all_ = sum(each.kind == "soft-trim" for each in found.pruned), len(found.pruned)
    return _pruned(results=all_, soft_trims=soft, hard_clears=all_ - soft, chars=found.pruned_chars)


trial_json = JsonShape(
    "window_trial",
    "source=source.name format=source.format model=source.model messages tokens:int",
    "window:int=window.tokens.context ratio:float=window.ratio points sections",
    "used:int=window.tokens.total limit:int=window.tokens.limit cycles:int=window.cycles pruned",
    "trimmed:int flushes:int steps rows summary=window.summary full",
    messages=at(lambda found: len(found.source.messages), COUNT),
    points=at("window.points", _points),
    sections=at(
        lambda found: {share.name.replace(" ", "_"): share.tokens for share in shares_of(found)},
        by_name(COUNT),
    ),
    pruned=at(_pruned_items, prepared(_pruned)),
    steps=at(lambda found: [step._asdict() for step in found.steps], many(OBJECT)),
    rows=at(lambda found: [row._asdict() for row in found.window.rows], many(OBJECT)),
)


# Runs that clean up.

_proposal = JsonShape(
    "proposal",
    "pass=what where why scope writes retires",
    scope=at(lambda proposal: proposal.place.scope if proposal.place else None, maybe(TEXT)),
    writes=at(lambda proposal: [each.path for each in proposal.edits if each.after is not None], TEXTS),
    retires=at(lambda proposal: [each.path for each in proposal.edits if each.after is None], TEXTS),
)
outcome_json = JsonShape(
    "outcome",
    "applied run~ large~ proposals files deleted:list unreadable",
    applied=at(lambda outcome: bool(outcome.run), FLAG),
    proposals=many(_proposal),
    files=at("results", many(told_json)),
    unreadable=at("findings", many(unreadable_json)),
)


_topic = JsonShape("topic", "path=where why article")
_refusal = JsonShape("refusal", "path why")
compacted_json = JsonShape(
    "compacted",
    ("outcome", outcome_json),
    "model topics refused",
    topics=at("outcome.proposals", many(_topic)),
    refused=many(_refusal),
)
_reworded_row = JsonShape("reworded_statement", "kind origin before after warning")
reworded_json = JsonShape(
    "reworded",
    "run~ waiting~ path=seen.record.path key=seen.record.key model statements refused",
    statements=at("rows", many(_reworded_row)),
    refused=at(lambda made: [made.refused] if made.refused else [], many(_refusal)),
)
edges_proposed_json = JsonShape("edges_proposed", ("outcome", outcome_json), "model refused:list")
_promotion = JsonShape("promotion", "text path scope=place.scope sources:list origin why")
promoted_json = JsonShape(
    "promoted", ("outcome", outcome_json), "promotions notes:list", promotions=many(_promotion)
)
undone_json = JsonShape("undone", "run files", files=many(told_json))
_run = JsonShape("run", "run what at edits:int undone:bool")
runs_json = JsonShape("runs", runs=many(_run))
lint_json = JsonShape("lint", "findings errors:int warnings:int", findings=many(finding_json))


# Imports, exports and agents.

_section_item = JsonShape("block_item", "path key~ chars:int=size")
_block_section = JsonShape(
    "block_section", "name title chars:int=size left_out:int items", items=many(_section_item)
)
block_json = JsonShape(
    "block", "text tokens:int waiting:int=pending warnings:list sections", sections=many(_block_section)
)
provider_file_json = JsonShape("agent_file", "path changed:bool warnings:list")
_installed_file = JsonShape(
    "agent_file_changed", "path changed:bool removed", removed=at(lambda edit: edit.after is None, FLAG)
)
installed_json = JsonShape("installed", "agent dry_run:bool files", files=many(_installed_file))
_installed_one = JsonShape(
    "agent_installed",
    agent=at(lambda found: found["agent"]),
    files=at(lambda found: found["files"], many(_installed_file)),
)
_trial = JsonShape("agent_tried", "agent what state said hint")
installed_all_json = JsonShape(
    "agents_installed", "dry_run:bool", agents=many(_installed_one), checks=many(_trial)
)
_seen = JsonShape(
    "agent",
    "agent program~ folder found installed without",
    found=at(lambda seen: bool(seen.program) or seen.there, FLAG),
    installed=by_name(by_name(maybe(FLAG))),
    without=by_name(by_name(TEXT)),
)
agents_json = JsonShape("agents", agents=many(_seen))
serving_json = JsonShape("serving", "url token_file")
serving_page_json = JsonShape("serving_page", "url page:bool")
_token = JsonShape("token", "name scopes:list created expires by expired:bool")
token_added_json = JsonShape("token_added", _token, "token")
tokens_json = JsonShape("tokens", tokens=many(prepared(_token)))
token_json = _token
_mapped = JsonShape("piece", "source kind path outcome added:int secrets:list dropped:list!")
_skipped = JsonShape("piece_skipped", "source why")
_over = JsonShape(
    "limit_exceeded",
    "scope=place.scope scope_id~=place.id records:int setting limit:int suggested:int=enough",
    setting=at(lambda _: "decay.max_count"),
)
memory_imported_json = JsonShape(
    "memory_imported",
    "system applied:bool run~ counts mapped skipped over verified",
    counts=by_name(COUNT),
    verified=at(lambda _: 0, COUNT),
    mapped=many(_mapped),
    skipped=many(_skipped),
    over=many(_over),
)
_left_out = JsonShape("file_skipped", path=at(lambda pair: pair[0]), why=at(lambda pair: pair[1]))
exported_json = JsonShape("exported", "path files:int secrets:list skipped", skipped=many(_left_out))

# The day, the history, and changed records.

_nudge = JsonShape("nudge", "text kind at=nudged outcome session program? record?")
today_json = JsonShape(
    "today",
    "date bar!",
    nudges=many(_nudge),
    journal=many(notes_json),
    records=many(listed_json),
    pending=by_name(COUNT),
    problems=many(finding_json),
)
_change = JsonShape("change", "at by what made~ replaced run~ diff")
history_json = JsonShape("history", "key versions:int", changes=many(prepared(_change)))
diff_json = JsonShape("diff", "key version diff")
arranged_json = JsonShape("arranged", "run~ records told", records=many(brief_json), told=many(told_json))
backup_json = JsonShape("backup", "path files:int size:int at problems:list")
tidied_json = JsonShape(
    "tidied",
    sweep=optional(outcome_json),
    heal=optional(outcome_json),
    promote=optional(promoted_json),
    prune=optional(outcome_json),
    compact=optional(compacted_json),
    reword=optional(prepared(reworded_json)),
)

# Projects, sources, hubs and sync.

trusted_json = JsonShape("trusted", "root trusted:bool settings", settings=maybe(by_name(ANYTHING)))
alias_json = JsonShape("alias", "alias project")
project_json = JsonShape(
    "known_project", "id name path?=root present:bool records:int days:int updated? joined_to?"
)
projects_json = JsonShape("projects", projects=many(project_json))
source_shape = JsonShape("source", _attached, "files:int folders_left_out:int")


def source_json(source: Source) -> dict[str, Any]:
    """Return a source as an object, with the number of its files; a source with a problem has 0."""
    files, left_out = (0, 0) if source.problem else source.count_files()
    return source_shape(source, files=files, folders_left_out=left_out)


sources_json = JsonShape("sources", sources=many(prepared(source_shape, make=source_json)))
source_removed_json = JsonShape("source_removed", "removed")
completion_json = JsonShape("completion", "shell script")
_check = JsonShape("check", "check=name state said hint")
checks_json = JsonShape("checks", checks=many(_check))
hub_migrated_json = JsonShape("hub_migrated", "schema:int ran:list")
hub_indexed_json = JsonShape("hub_indexed", "indexed:int")
hub_serving_json = JsonShape("hub_serving", "url")
hub_invited_json = JsonShape("hub_invited", "workspace name code minutes:int")
hub_exported_json = JsonShape("hub_exported", "path files:int workspaces:list")
hub_joined_json = JsonShape("hub_joined", "url workspace name kind member role replica key?")
_hub_state = JsonShape(
    "hub_state",
    "name workspace kind url member role streams:int facts:int passages:int unsent:int purges:list synced?"
    " problem search? refused:list problems:list"
    " background? background_problem?",
)
hub_status_json = JsonShape("hub_status", workspaces=many(prepared(_hub_state)))
_synced_place = JsonShape(
    "synced_place",
    "team place sent:int received:int written:list removed:list conflicts:list archived:list refused:list"
    " purged:int held:list",
    team=optional(TEXT),
)
synced_json = JsonShape(
    "synced",
    "folder? hub? workspace key? ignored:list",
    places=many(prepared(_synced_place)),
    findings=many(finding_json),
)
_hub_standing = JsonShape(
    "hub_standing",
    "name workspace kind unsent:int synced? refused:list problems:list background? background_problem?",
)
sync_status_json = JsonShape(
    "sync_status",
    "folder? workspace? reachable:bool? unsent:int purges:list problems:list background? background_problem?",
    hubs=many(prepared(_hub_standing)),
)
sync_off_json = JsonShape("sync_off", "folder")
_sync_key = JsonShape("sync_key", "name kind workspace key file generation:int")
sync_keys_json = JsonShape("sync_keys", keys=many(prepared(_sync_key)))
sync_key_paper_json = JsonShape("sync_key_paper", "path? page")
sync_key_rotated_json = JsonShape("sync_key_rotated", "name key generation:int")
_held_text = JsonShape("held_text", "id place path at text")
held_texts_json = JsonShape("held_texts", texts=many(_held_text))
_hub_member = JsonShape("hub_member", "member name role since")
hub_members_json = JsonShape("hub_members", members=many(prepared(_hub_member)))
hub_rules_json = JsonShape("hub_rules", "workspace name inject_from:list write care:bool")
hub_opened_json = JsonShape("hub_opened", "url workspace")
hub_token_json = JsonShape("hub_token", "workspace token id scopes:list days:int")
_hub_token = JsonShape(
    "hub_token_listed", "id member scopes:list label replica? since expires made_with? made:list"
)
hub_tokens_json = JsonShape("hub_tokens", tokens=many(prepared(_hub_token)))
_ended_token = JsonShape("ended_token", "id member label")
hub_revoked_json = JsonShape("hub_revoked", "revoked codes:int", also=many(prepared(_ended_token)))
_written_file = JsonShape("written_file", "place path what")
hub_undone_json = JsonShape(
    "hub_undone",
    "by since run~ files verifications:int purges:int told",
    files=many(prepared(_written_file)),
    told=many(told_json),
)
hub_left_json = JsonShape("hub_left", "workspace name archived:list")
_step = JsonShape("demo_step", "step shown")
demo_json = JsonShape("demo", "steps seconds:float", steps=many(prepared(_step)))
_failure = JsonShape("failure", "kind message hint")
error_json = JsonShape("error", error=prepared(_failure))

# The shapes of each command's answer. Every command can also answer `error`, and one that writes `postponed`.
_COMMANDS: dict[str, tuple[JsonShape, ...]] = {
    "vade": (standing_json,),
    "add": (stored_json, noted_json, learned_json),
    "tidy": (tidied_json,),
    "check": (lint_json,),
    "today": (today_json, notes_json),
    "log": (history_json,),
    "diff": (diff_json,),
    "open": (path_json, serving_page_json),
    "config path": (path_json,),
    "move, rename, tag": (arranged_json,),
    "backup": (backup_json,),
    "config get, config set": (settings_json,),
    "config edit": (edited_json, unchanged_json),
    "edit": (edited_json, unchanged_json),
    "protect": (protected_json,),
    "suggest": (suggested_json,),
    "knowledge, knowledge list": (lessons_json,),
    "knowledge applied": (applied_json,),
    "knowledge stats": (stats_json,),
    "knowledge prune, merge, split": (outcome_json,),
    "knowledge import": (lessons_imported_json,),
    "knowledge export, sessions export, init": (path_json,),
    "review": (inbox_json,),
    "review verify": (verified_json, verified_many_json, unverified_json),
    "profile, profile show": (profile_json, no_profile_json),
    "profile build": (draft_json,),
    "search": (found_json, explained_found_json),
    "index": (index_json,),
    "list": (listing_json, forgotten_json),
    "show": (record_json, lines_json),
    "graph": (graph_json, graph_written_json, edge_decided_json, edges_proposed_json),
    "status": (status_whole_json,),
    "audit": (audit_json,),
    "audit verify": (audit_verified_json,),
    "sessions, sessions list": (sessions_json,),
    "sessions show": (session_shown_json,),
    "sessions search": (hits_json,),
    "sessions get": (session_lines_json,),
    "sessions distill": (distilled_json,),
    "sessions import": (sessions_imported_json,),
    "sessions rename": (session_renamed_json,),
    "sessions trim": (trimmed_json,),
    "context inspect": (trial_json,),
    "inject": (block_json, provider_file_json),
    "install": (installed_json, agents_json, installed_all_json),
    "uninstall": (installed_json, installed_all_json),
    "mcp": (serving_json,),
    "serve": (serving_page_json,),
    "token add": (token_added_json,),
    "token, token list": (tokens_json,),
    "token revoke": (_token,),
    "review approve, review approve list": (waiting_json,),
    "review approve yes, review approve no": (decided_json,),
    "forget": (brief_json, cleared_json),
    "restore": (brief_json,),
    "purge": (purged_json, tombstones_json),
    "undo": (undone_json, runs_json),
    "import": (memory_imported_json,),
    "export": (exported_json,),
    "review trust": (trusted_json,),
    "project": (project_here_json,),
    "project alias": (alias_json,),
    "project list, projects": (projects_json,),
    "sources, sources list": (sources_json,),
    "sources add": (source_shape,),
    "sources remove": (source_removed_json,),
    "config": (settings_json,),
    "completion": (completion_json,),
    "doctor": (checks_json,),
    "demo": (demo_json, serving_page_json),
    "sync": (synced_json,),
    "sync status": (sync_status_json,),
    "sync off": (sync_off_json,),
    "sync key": (sync_keys_json,),
    "sync key paper": (sync_key_paper_json,),
    "sync key set": (synced_json,),
    "sync key rotate": (sync_key_rotated_json,),
    "sync held": (held_texts_json,),
    "hub migrate": (hub_migrated_json,),
    "hub index": (hub_indexed_json,),
    "hub serve": (hub_serving_json,),
    "hub create, hub invite": (hub_invited_json,),
    "hub demo": (demo_json,),
    "hub export": (hub_exported_json,),
    "hub join": (hub_joined_json,),
    "hub status": (hub_status_json,),
    "hub members": (hub_members_json,),
    "hub open": (hub_opened_json,),
    "hub revoke": (hub_revoked_json,),
    "hub rules": (hub_rules_json,),
    "hub share, hub unshare": (arranged_json,),
    "hub leave": (hub_left_json,),
    "hub undo": (hub_undone_json,),
    "hub token add": (hub_token_json,),
    "hub token, hub token list": (hub_tokens_json,),
    "error": (error_json, postponed_json),
}
OUTPUTS = {name: shapes for names, shapes in _COMMANDS.items() for name in names.split(", ")}
