"""Commands that read: list, show, status, audit, search and index."""

from __future__ import annotations

import contextlib
import re
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from vademecum import fields
from vademecum.config import RESULTS
from vademecum.interfaces.cli.options import (
    TYPES,
    common,
    key_argument,
    one_view,
    scope_option,
    words_argument,
)
from vademecum.interfaces.cli.sessions import show_elsewhere, show_hits
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.safe import find_secrets, mark_secrets, redact_secrets
from vademecum.interfaces.present.to_text import shorten, show_answer, show_findings, show_passages
from vademecum.store import request_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum import Answer, Listing
    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory
    from vademecum.memory.elsewhere import ProjectAnswer
    from vademecum.memory.status import Status
    from vademecum.memory.values import Survey, SyncReport, Trust
    from vademecum.types import Entry, Record

NEARLY_FULL = 0.8  # of a scope's limit; from there on `list` shows the limit


@click.command("list")
@scope_option("Only this scope.")
@click.option("--type", "kind", type=TYPES, help="Only this type.")
@click.option("--tag", help="Only records with this tag.")
@click.option("--all", "everything", is_flag=True, help="Include every project, agent and session.")
@click.option(
    "--sort", type=click.Choice([*fields.ORDERS]), help="Sort by this instead of by scope and number."
)
@click.option("--limit", type=click.IntRange(0), help="The number of records to show.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Skip this many records first.")
@click.option("--forgotten", is_flag=True, help="List archived records that can be restored.")
@click.option("--write-index", is_flag=True, help="Also write index.md beside the records.")
@common
@one_view
def list_(
    *,
    scope: str | None,
    kind: str | None,
    tag: str | None,
    everything: bool,
    sort: str | None,
    limit: int | None,
    offset: int,
    forgotten: bool,
    write_index: bool,
    as_json: bool,
    open_memory: OpenMemory,
) -> None:
    """List records."""
    memory = open_memory()
    if forgotten:
        list_forgotten(memory, scope, as_json=as_json)
        return
    listing = memory.list(
        scope=scope, type=kind, tag=tag, all=everything, limit=limit, offset=offset, sort=sort
    )
    written = list(memory.care.write_listing(scope=scope)) if write_index else []
    if as_json:
        output.as_json(to_json.listing_json, listing, written=written)
        return
    if listing.records:
        columns = [column for column in fields.COLUMNS if is_shown(column, listing.records)]
        headings = ["#", "key", "scope", *(column.name for column in columns), "age", "", "text"]
        output.table([format_row(record, columns) for record in listing.records], headings)
        output.line()
    show_count(memory, listing, offset, counted=not (kind or tag), filtered=bool(scope or kind or tag))
    if scope in (None, "project") and not any(record.place.scope == "project" for record in listing.records):
        show_moved(memory)
    for path in written:
        output.line(f"wrote {path}")
    show_findings(listing.findings)


def show_count(memory: Memory, listing: Listing, offset: int, *, counted: bool, filtered: bool) -> None:
    """Print the number of records, or a hint when there is none."""
    counts = Counter(record.place for record in listing.records)
    if listing.total:
        last = offset + len(listing.records)
        output.line(f"{min(offset + 1, last):,} to {last:,} of {output.plural(listing.total, 'record')}")
    elif counts:
        for place, count in counts.items():
            near = counted and listing.counted[place] >= NEARLY_FULL * listing.limit
            limit = f", {listing.counted[place]:,} of {listing.limit:,} towards decay.max_count"
            output.line(f"{place}: {output.plural(count, 'record')}{limit if near else ''}")
    elif memory.settings.incognito:
        output.line("incognito: nothing is read")
    elif filtered or listing.findings:
        output.line("no record matches" if filtered else "no record can be read")
    else:
        output.line('Nothing is saved here yet. `vade add "…"` saves the first memory.')


def show_moved(memory: Memory) -> None:
    """Print the projects that may be this one under an earlier id or path."""
    for each in memory.projects.elsewhere():
        output.line(f"{each.why}: `{each.mend}` adds it to this project")


@click.command()
@key_argument(metavar="KEY|NUM|PATH")
@scope_option("The scope of the record.")
@click.option(
    "--lines", metavar="A-B", help="Only these lines of the file: 10-20, 10-, 10, or 10+5 for five lines."
)
@common
@one_view
def show(key: str, scope: str | None, lines: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """Show a record, or lines of a file.

    Prints its current and earlier entries, and its path. PATH is a path from search results.
    """
    memory = open_memory()
    if lines is not None or "/" in key or key.lower().endswith(".md"):
        start, count = _line_range(lines)
        show_lines(memory, key, start, count, as_json=as_json)
        return
    with request_view():
        record = memory.show(key, scope=scope, reveal=True)
        lost = list(memory.archive.lost_entries(key, scope=scope))
        versions = list(memory.archive.versions(key, scope=scope))
        trust = [memory.review.trust_of(entry, record=record) for entry in record.entries]
        related = memory.graph.related(key, scope=scope)
    sessions = memory.sessions.said_in(record)
    if as_json:
        output.as_json(
            to_json.record_json,
            record,
            entries=[
                to_json.entry_json(entry, trust=each, sessions=ids)
                for entry, each, ids in zip(record.entries, trust, sessions, strict=True)
            ],
            trust=memory.review.trust_of(record),
            related=related,
            lost=len(lost),
            versions=versions,
        )
        return
    show_heading(record)
    kinds = show_entries(memory, record, trust, sessions)
    if related:
        also = (f"{each.record.key} ({each.edge.relation}, {each.edge.origin})" for each in related)
        output.line(f"\nSee Also: {', '.join(also)}")
    if versions:
        output.line(f"\nearlier versions (`vade restore ID`): {', '.join(each.id for each in versions)}")
    if kinds:
        output.error(
            f"{record.key} holds what looks like a secret ({', '.join(sorted(kinds))}), hidden from agents;"
            f" remove it with `vade edit {record.key}`"
        )
    if lost:
        output.line(
            f"\n{output.plural(len(lost), 'entry')} changed or left by hand; `vade restore {record.key}`"
        )


def show_heading(record: Record) -> None:
    """Print a record's key, number, path and labels."""
    number = f" (#{record.num})" if record.num is not None else ""
    team = f" · team:{record.team}" if record.team else ""
    kind = f"{record.type}{' · 🔒' if record.protected else ''}"
    output.line(f"{record.key}{number} · {record.place}{team} · {kind}")
    output.line(f"{record.path}{'' if record.trusted else '  (not trusted)'}")
    if any(entry.part == record.key for entry in record.entries):
        output.line(f"merged into a summary; `vade restore {record.key}` makes it a record again")
    if record.tags:
        output.line(f"tags: {', '.join(record.tags)}")
    for field in fields.BADGES:
        if field.value_of(record) is not None:
            output.line(f"{field.name}: {field.value_of(record)}")
    made = record.fields.get("generated")
    if isinstance(made, dict) and made.get("client"):
        output.line(f"last saved through {made['client']}")


def show_entries(
    memory: Memory, record: Record, trust: Sequence[Trust], sessions: Sequence[Sequence[str]]
) -> set[str]:
    """Print each entry with its time and trust, and return the kinds of secrets in them."""
    kinds: set[str] = set()
    for entry, each, ids in zip(record.entries, trust, sessions, strict=True):
        output.line()
        of = f" · {entry.part}" if entry.part not in (None, record.key) else ""
        badge = f" · {each.badge} {each.why}" if entry.live and each.badge else ""
        output.line(f"{format_entry_heading(entry)}{of}{badge}")
        kinds |= show_text(entry.text, marked=output.is_for_person(memory))
        for session in ids:
            output.line(f"  from session: `vade sessions show {session}`")
    return kinds


def show_text(text: str, *, marked: bool) -> set[str]:
    """Print a text with its secrets marked for a person, else redacted, and return their kinds."""
    found = find_secrets(text)
    shown = mark_secrets(text, found) if marked else redact_secrets(text, found)
    with output.show_secrets() if marked and found else contextlib.nullcontext():
        output.line("\n".join(f"  {line}" for line in shown.split("\n")))
    return {each.kind for each in found}


def _line_range(text: str | None) -> tuple[int, int | None]:
    """Return the first line of a range and its number of lines; None means all that follow."""
    if text is None:
        return 1, None
    match = re.fullmatch(r"([1-9]\d{0,8})(?:(?P<sign>[-+])([1-9]\d{0,8})?)?", text)
    first, sign, number = (int(match[1]), match["sign"], match[3]) if match else (0, "", None)
    bad_end = sign == "-" and number is not None and int(number) < first
    if match is None or bad_end or (sign == "+" and number is None):
        raise click.UsageError(f"--lines takes 10-20, 10-, 10 or 10+5, not {text!r}.")
    if sign == "+":
        return first, int(number or 0)
    if sign == "-":
        return first, None if number is None else int(number) - first + 1
    return first, 1


def show_lines(memory: Memory, target: str, start: int, lines: int | None, *, as_json: bool) -> None:
    """Print lines of a memory file."""
    found = memory.get(target, start=start, lines=lines)
    if as_json:
        output.as_json(to_json.lines_json, found)
    elif found.text or found.lines:
        output.line(found.text)
    else:
        output.error(f"{found.path} is empty or missing")


@click.command()
@common
@one_view
def status(as_json: bool, open_memory: OpenMemory) -> None:
    """Show what is saved and its health."""
    memory = open_memory()
    found = memory.status()
    if as_json:
        shared = memory.workspace.loaded.shared
        output.as_json(
            to_json.status_whole_json,
            found,
            warnings=memory.workspace.loaded.warnings,
            repository_settings=shared,
        )
        return
    for name, value in format_status(found):
        output.line(f"{name:<10}{value}")
    elsewhere = 0 if found.incognito else memory.sessions.count_elsewhere()
    if elsewhere:
        output.line(f"{'elsewhere':<10}{output.plural(elsewhere, 'session')}: `vade sessions list --all`")
    for warning in memory.workspace.loaded.warnings:
        output.line(f"{'warning':<10}{warning}")
    show_findings(found.findings)
    memory.care.saw_notices()


@click.group(invoke_without_command=True)
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="How many lines.")
@common
@click.pass_context
def audit(ctx: click.Context, last: int, as_json: bool, open_memory: OpenMemory) -> None:
    """Show who changed what, and when.

    `vade audit verify` detects tampering.
    """
    if ctx.invoked_subcommand is not None:
        return
    lines = list(open_memory().audit.lines())[-last:]
    if as_json:
        output.as_json(to_json.audit_json, lines=lines)
    elif lines:
        cells = [
            [*(str(line.get(name) or "-") for name in ("at", "op", "scope", "num")), _format_actor(line)]
            for line in lines
        ]
        output.table(cells, ["time", "what", "scope", "#", "who"])
    else:
        output.line("no changes yet")


def _format_actor(line: Mapping[str, Any]) -> str:
    client = line.get("client")
    return f"{line.get('actor') or '-'}{f' ({client})' if client else ''}"


@audit.command()
@common
def verify(as_json: bool, open_memory: OpenMemory) -> int:
    """Check the audit log for tampering."""
    report = open_memory().audit.verify()
    if as_json:
        output.as_json(to_json.audit_verified_json, report)
    elif report.problems:
        show_findings(report.problems)
    else:
        output.line(f"{output.plural(report.lines, 'line')}, chain intact")
    return 1 if report.problems else 0


def list_forgotten(memory: Memory, scope: str | None, *, as_json: bool) -> None:
    """Print the records that can be restored."""
    found = [
        {
            "key": each.key,
            "scope": str(each.scope_folder.place.scope),
            "at": each.image.at,
            "why": each.why,
        }
        for each in memory.archive.forgotten(scope=scope)
    ]
    if as_json:
        output.as_json(to_json.forgotten_json, forgotten=found)
    elif found:
        output.table([[*each.values()] for each in found], ["key", "scope", "when", "why"])
        output.line("\n`vade restore KEY` restores one")
    else:
        output.line("nothing is archived")


def overview(memory: Memory, *, as_json: bool) -> None:
    """Print what `vade` alone shows: the project, the newest records, and the next step."""
    found = memory.status()
    if as_json:
        output.as_json(to_json.standing_json, found, warnings=memory.workspace.loaded.warnings)
        return
    for name, value in format_status(found):
        if name in ("home", "project", "memory"):
            output.line(f"{name:<10}{value}")
    records = sorted(memory.list().records, key=lambda each: each.updated or "", reverse=True)[:5]
    if records:
        output.line()
        output.table(
            [
                [
                    f"#{record.num}" if record.num is not None else "-",
                    record.key,
                    output.age(record.updated),
                    shorten(record.text, 60),
                ]
                for record in records
            ],
            ["", "newest", "age", ""],
        )
    problems = [finding for finding in found.findings if finding.severity != "info"]
    if problems:
        output.line(f"\n{output.plural(len(problems), 'thing')} found: `vade status`")
    hint = '`vade add "…"` saves a memory' if not records else "`vade show KEY` reads one"
    output.line(f"\n{hint}; `vade help` lists the commands")


def format_status(found: Status) -> list[tuple[str, str]]:
    """Return the status as rows of a name and a value."""
    count = sum(found.records.values())
    by_scope = ", ".join(f"{scope} {number}" for scope, number in found.records.items())
    rows = [("home", f"{found.home}{'  (incognito: nothing is read or written)' if found.incognito else ''}")]
    if found.project:
        known = f"  (also {', '.join(found.aliases)})" if found.aliases else ""
        rows.append(("project", f"{found.project.id}{known}  {found.project.root}"))
    rows.append(
        (
            "memory",
            f"{output.plural(count, 'record')}{f' ({by_scope})' if by_scope else ''}, "
            f"{output.plural(found.notes, 'note')}",
        )
    )
    rows.append(("agent", found.agent))
    if found.session:
        rows.append(("session", found.session))
    rows.append(("audience", str(found.audience)))
    if found.trusted is not None:
        trusted = "trusted" if found.trusted else "not trusted: read-only until you run `vade review trust`"
        rows.append((".vade/", trusted))
    rows += [("pinned", f"{each.path}  {each.size:,} of {each.budget:,}") for each in found.pinned]
    for source in found.sources:
        words = [
            str(source.place),
            *(["injected"] if source.inject else []),
            *([source.problem] if source.problem else []),
        ]
        rows.append(("source", f"{source.name}  {source.path}  ({', '.join(words)})"))
    if found.coverage is not None:
        rows.append(("index", format_coverage(found.coverage)))
        rows += [("", f"not indexed: {each.where}: {each.why}") for each in found.coverage.failed[:5]]
    return rows


def format_coverage(index: Survey) -> str:
    """Return what the index covers, in one line."""
    parts = [
        f"{count:,} {name}"
        for count, name in (
            (index.pending, "new"),
            (index.stale, "changed"),
            (index.gone, "gone"),
            (len(index.failed), "failed"),
            (index.vectors_pending, "without vectors"),
        )
        if count
    ]
    waiting = f" ({', '.join(parts)})" if parts else ""
    unread = f" ({index.unread:,} without reader vectors)" if index.unread else ""
    passages = f"{output.plural(index.chunks, 'passage')}{unread}"
    if index.sessions_unread:
        sessions = output.plural(index.sessions_unread, "passage")
        passages += f", {sessions} of sessions without reader vectors"
    trouble = f"; {index.trouble}" if index.trouble else ""
    return f"{index.indexed:,} of {output.plural(index.files, 'file')}{waiting}, {passages}{trouble}"


def is_shown(field: fields.RecordField, records: Sequence[Record]) -> bool:
    """Return whether a list of these records has a column for a field."""
    always = field.column is fields.Column.ALWAYS
    return always or any(field.value_of(record) is not None for record in records)


def format_row(record: Record, columns: Sequence[fields.RecordField]) -> list[str]:
    """Return a record as a row of the list; several entries show their span of days."""
    days = [entry.time[:10] for entry in record.entries if entry.time]
    span = f" [{days[0]} → {days[-1]}]" if len(record.entries) > 1 and days and days[0] != days[-1] else ""
    count = f" ({len(record.entries)})" if len(record.entries) > 1 else ""
    marks = ("🔒" if record.protected else "") + ("" if record.trusted else "?")
    return [
        str(record.num or "-"),
        record.key,
        f"{record.place.scope}{f' team:{record.team}' if record.team else ''}",
        *(str(field.value_of(record) or "-") for field in columns),
        output.age(record.updated or record.created),
        marks,
        shorten(record.text, 60) + count + span,
    ]


def format_entry_heading(entry: Entry) -> str:
    """Return an entry's time, origin, lines, and whether it is superseded."""
    state = f" · superseded {entry.superseded}" if entry.superseded else ""
    return f"{entry.time or 'undated'} · {entry.origin} · lines {entry.start}-{entry.end}{state}"


# ---------------------------------------------------------------- finding

MODES = click.Choice(["hybrid", "bm25", "vector", "metadata"])
ORDERS = click.Choice(["recency", "score", "usage"])


@click.command()
@words_argument(required=False)
@click.option("--records", is_flag=True, help="Only records, each once; without a query, the newest.")
@click.option("--type", "kind", type=TYPES, help="With --records: only this type.")
@click.option("--include-related", is_flag=True, help="With --records: also show related records.")
@click.option(
    "--max-results",
    type=click.IntRange(1, 1000),
    help=f"The number of passages.  [default: {RESULTS}; 10 records]",
)
@click.option(
    "--min-score",
    type=click.FloatRange(0, 1),
    help="Hide matches with a lower relevance.  [default: 0, which hides nothing]",
)
@click.option("--mode", type=MODES, help="The search mode.  [default: hybrid]")
@scope_option("Only this scope.")
@click.option(
    "--source", "sources", multiple=True, help="Only memory, journal, pinned, transcript, or a source's name."
)
@click.option("--as-of", metavar="DATE", help="Search memory as of this time.")
@click.option("--now", metavar="TIME", help="The time relative dates refer to.  [default: now]")
@click.option("--sort-by", type=ORDERS, help="Sort by this instead of the score.")
@click.option("--explain", is_flag=True, help="Show how each score was computed.")
@click.option("--full", is_flag=True, help="Show each result in full.")
@click.option("--all", "everything", is_flag=True, help="Also search every other project.")
@click.option("--hub", is_flag=True, help="Search a workspace of a hub instead; no copy is needed.")
@click.option("--workspace", metavar="NAME", help="With --hub: which one, where there are several.")
@common
@one_view
def search(
    query: str,
    *,
    hub: bool,
    workspace: str | None,
    records: bool,
    kind: str | None,
    include_related: bool,
    explain: bool,
    full: bool,
    everything: bool,
    as_json: bool,
    open_memory: OpenMemory,
    **given: Any,
) -> None:
    """Search memory by words and meaning.

    Prints the passages that answer a question or match words.

    QUERY needs no quotes. It can contain "phrases" and filters: scope:, type:, tag:,
    after:, before:, path:, by:. Put `--` before a query that begins with a dash. Without QUERY, the newest
    records are listed.

    Each match is strong, likely or weak. A weak match may be wrong; when all are weak, at most three are
    shown, or half of --max-results, unless messages of sessions are among them. Exits with 0 when nothing
    is found.
    """
    if (kind or include_related) and not records and query and not (hub and kind):
        raise click.UsageError(
            "--type and --include-related require --records; `type:` in the query filters."
        )
    plain = bool(query) and not (hub or workspace or records)
    if everything and (as_json or not plain):
        raise click.UsageError(
            "--all requires a QUERY, and no --json, --records or --hub; "
            "`vade sessions search --all --json` prints JSON."
        )
    memory = open_memory()
    if everything:
        memory.workspace.only_a_person("look into every project", "vade search --all")
    if hub or workspace:
        answer = _search_hub(
            memory, query, workspace, kind, hub=hub, explain=explain, records=records, **given
        )
    elif records or not query:
        unfit = [name for name in ("min_score", "sources") if given.pop(name)]
        if unfit or explain:
            option = "explain" if explain else unfit[0].rstrip("s").replace("_", "-")
            raise click.UsageError(f"--{option} requires a QUERY and no --records.")
        limit = min(given.pop("max_results") or 10, 100)
        answer = memory.recall(query, type=kind, limit=limit, include_related=include_related, **given)
    else:
        answer = memory.search(query, explain=explain, chars=0 if full else None, **given)
    others: list[ProjectAnswer] = []
    if everything:
        from vademecum.memory.elsewhere import search_elsewhere

        others = [*search_elsewhere(memory, query, max_results=3)]
    if others:  # none of their matches is weak
        from vademecum.search.relevance import ONLY_WEAK

        answer = replace(answer, notes=tuple(each for each in answer.notes if each != ONLY_WEAK))
    show_answer(answer, query, explain=explain, as_json=as_json)
    show_other_projects(others, query)
    if everything or (plain and not as_json and all(each.match == "weak" for each in answer.results)):
        now, found_here = given["now"], bool(answer.results)
        found = memory.sessions.search_elsewhere(query, max_results=5, now=now) if everything else ()
        if found:
            output.line("\nIn sessions of other projects:\n")
            show_hits(found)
        else:
            show_elsewhere(memory, query, "vade search --all", found_here=found_here, now=now)


def show_other_projects(others: Iterable[ProjectAnswer], query: str) -> None:
    """Print what the memory of each other project answers."""
    for project, answer in others:
        output.line(f"\nIn {project.name}:\n")
        show_passages(answer, query)


def _search_hub(
    memory: Memory,
    query: str,
    workspace: str | None,
    kind: str | None,
    *,
    hub: bool,
    records: bool,
    **given: Any,
) -> Answer:
    """Return the hub's answer to a question."""
    if not hub:
        raise click.UsageError("--workspace requires --hub.")
    if not query or records or given.pop("sources"):
        raise click.UsageError("--hub requires a QUERY, and no --records or --source.")
    return memory.search(query, hub=workspace or "", type=kind, **given)


@click.command()
@click.option("--rebuild", is_flag=True, help="Rebuild it from the files.")
@click.option("--check", is_flag=True, help="Compare it with every file, and repair it.")
@click.option(
    "--read",
    multiple=True,
    type=click.Choice(("sources", "sessions")),
    help="Also compute reader vectors for these, which find paraphrases; repeatable.",
)
@click.option("--read-all", is_flag=True, help="Also compute reader vectors for sources and sessions.")
@click.option("--watch", is_flag=True, help="Keep running, and update it when files change.")
@common
def index(watch: bool, as_json: bool, open_memory: OpenMemory, **given: Any) -> None:
    """Update the search index.

    It is built from the files and safe to delete.
    """
    if watch and any(given.values()):
        raise click.UsageError("--watch cannot be combined with --rebuild, --check, --read or --read-all")
    if watch:
        keep_watch(open_memory(), as_json=as_json)
        return
    with output.progress("what was indexed and read stays; run it again for the rest") as step:
        report = open_memory().care.index(**given, progress=step)
    show_index_report(report, as_json=as_json)


def keep_watch(memory: Memory, *, as_json: bool) -> None:
    """Print a line after each update of the index, until interrupted."""
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    for why, report in memory.care.watch(stop):
        if why not in ("opened", "changed", "due"):
            output.error(why)
        show_index_report(report, as_json=as_json)
        sys.stdout.flush()


def show_index_report(report: SyncReport, *, as_json: bool) -> None:
    """Print the result of an index update."""
    if report.unwritten and not as_json:
        output.error(f"nothing was indexed: {report.unwritten}")
        return
    if as_json:
        output.as_json(to_json.index_json, report)
        return
    output.line(
        f"{report.indexed} of {output.plural(report.files, 'file')} indexed"
        f" ({report.changed} changed, {report.removed} removed)"
    )
    if report.sessions_unread:
        unread = output.plural(report.sessions_unread, "passage")
        output.line(
            f"{unread} of sessions without reader vectors: `vade index --read sessions` computes them"
        )
    for finding in report.findings:
        output.line(f"not indexed: {finding.where}: {finding.why}")
    for message in report.degraded:
        output.error(message)
