"""Commands that only look: into memory, for what answers a question, and at the index behind that."""

from __future__ import annotations

import contextlib
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from vademecum.interfaces.cli.options import TYPES, common, key_argument, scope_option, words_argument
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.safe import find_secrets, mark_secrets, redact_secrets
from vademecum.interfaces.present.to_text import short, show_answer, show_findings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum import Answer, Listing
    from vademecum.interfaces.cli.options import Door
    from vademecum.memory import Memory
    from vademecum.memory.status import Status
    from vademecum.memory.values import Survey, SyncReport, Trust
    from vademecum.types import Entry, Record


@click.command("list")
@scope_option("Only this scope.")
@click.option("--type", "kind", type=TYPES, help="Only this type.")
@click.option("--tag", help="Only records with this tag.")
@click.option("--all", "everything", is_flag=True, help="Include every project, agent and session.")
@click.option("--limit", type=click.IntRange(0), help="The number of records to show.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Skip this many records first.")
@click.option("--forgotten", is_flag=True, help="List archived records that can be restored.")
@click.option("--write-index", is_flag=True, help="Also write index.md beside the records.")
@common
def list_(
    *,
    scope: str | None,
    kind: str | None,
    tag: str | None,
    everything: bool,
    limit: int | None,
    offset: int,
    forgotten: bool,
    write_index: bool,
    as_json: bool,
    door: Door,
) -> None:
    """List records."""
    memory = door()
    if forgotten:
        list_forgotten(memory, scope, as_json=as_json)
        return
    listing = memory.list(scope=scope, type=kind, tag=tag, all=everything, limit=limit, offset=offset)
    written = list(memory.care.write_listing(scope=scope)) if write_index else []
    if as_json:
        output.as_json(to_json.listing_json, listing, written=written)
        return
    if listing.records:
        output.table(
            [row(record) for record in listing.records],
            ["#", "key", "scope", "type", "category", "age", "", "text"],
        )
        output.line()
    show_count(memory, listing, offset, counted=not (kind or tag), filtered=bool(scope or kind or tag))
    if scope in (None, "project") and not any(each.place.scope == "project" for each in listing.records):
        show_moved(memory)
    for path in written:
        output.line(f"wrote {path}")
    show_findings(listing.findings)


def show_count(memory: Memory, listing: Listing, offset: int, *, counted: bool, filtered: bool) -> None:
    """How many records there are, or what to do when there is none."""
    counts = Counter(record.place for record in listing.records)
    if listing.total:
        last = offset + len(listing.records)
        output.line(f"{min(offset + 1, last):,} to {last:,} of {output.plural(listing.total, 'record')}")
    elif counts:
        for place, count in counts.items():
            towards = f", {listing.counted[place]:,} of {listing.limit:,} towards decay.max_count"
            output.line(f"{place}: {output.plural(count, 'record')}{towards if counted else ''}")
    elif memory.settings.incognito:
        output.line("incognito: nothing is read")
    elif filtered or listing.findings:
        output.line("no record matches" if filtered else "no record can be read")
    else:
        output.line('Nothing is saved here yet. `vade add "…"` saves the first memory.')


def show_moved(memory: Memory) -> None:
    """Name what is kept for a project that may be this one, under an id or a path that it had before."""
    for each in memory.projects.elsewhere():
        output.line(f"{each.why}: `{each.mend}` adds it to this project")


@click.command()
@key_argument(metavar="KEY|NUM|PATH")
@scope_option("The scope of the record.")
@click.option("--lines", metavar="A-B", help="Only these lines of the file, such as 10-20 or 10.")
@common
def show(key: str, scope: str | None, lines: str | None, as_json: bool, door: Door) -> None:
    """Show a record, or lines of a file.

    Prints its current and earlier entries, and its path. PATH is a path from search results.
    """
    memory = door()
    if lines is not None or "/" in key or key.lower().endswith(".md"):
        start, count = _line_range(lines)
        show_lines(memory, key, start, count, as_json=as_json)
        return
    with memory.workspace.one_look():
        record = memory.show(key, scope=scope, reveal=True)
        lost = list(memory.archive.lost_entries(key, scope=scope))
        versions = list(memory.archive.versions(key, scope=scope))
        trust = [memory.review.trust_of(entry, record=record) for entry in record.entries]
        related = memory.graph.related(key, scope=scope)
    heard = memory.sessions.said_in(record)
    if as_json:
        output.as_json(
            to_json.record_json,
            record,
            entries=[
                to_json.entry_json(entry, trust=each, sessions=said)
                for entry, each, said in zip(record.entries, trust, heard, strict=True)
            ],
            trust=memory.review.trust_of(record),
            related=related,
            lost=len(lost),
            versions=versions,
        )
        return
    show_heading(record)
    kinds = show_entries(memory, record, trust, heard)
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
    """What a record is called, where it is and what it is."""
    number = f" (#{record.num})" if record.num is not None else ""
    team = f" · team:{record.team}" if record.team else ""
    kind = f"{record.type}{' · 🔒' if record.protected else ''}"
    output.line(f"{record.key}{number} · {record.place}{team} · {kind}")
    output.line(f"{record.path}{'' if record.trusted else '  (not trusted)'}")
    if any(entry.part == record.key for entry in record.entries):
        output.line(f"merged into a summary; `vade restore {record.key}` makes it a record again")
    if record.tags:
        output.line(f"tags: {', '.join(record.tags)}")
    made = record.fields.get("generated")
    if isinstance(made, dict) and made.get("client"):
        output.line(f"last saved through {made['client']}")


def show_entries(
    memory: Memory, record: Record, trust: Sequence[Trust], heard: Sequence[Sequence[str]]
) -> set[str]:
    """Each entry with its time and how far it is trusted; returns the kinds of secrets in them."""
    kinds: set[str] = set()
    for entry, each, said in zip(record.entries, trust, heard, strict=True):
        output.line()
        of = f" · {entry.part}" if entry.part not in (None, record.key) else ""
        output.line(
            f"{heading(entry)}{of}{f' · {each.badge} {each.why}' if entry.live and each.badge else ''}"
        )
        kinds |= show_text(entry.text, marked=output.for_a_person(memory))
        for session in said:
            output.line(f"  from session: `vade sessions show {session}`")
    return kinds


def show_text(text: str, *, marked: bool) -> set[str]:
    """Print a text, and return the kinds of secrets in it: each is marked for a person, or else replaced."""
    found = find_secrets(text)
    shown = mark_secrets(text, found) if marked else redact_secrets(text, found)
    with output.revealed() if marked and found else contextlib.nullcontext():
        output.line("\n".join(f"  {line}" for line in shown.split("\n")))
    return {each.kind for each in found}


@click.command()
@click.argument("target", metavar="PATH|KEY|NUM")
@click.option(
    "--from", "start", type=click.IntRange(1), default=1, help="The first line to print.  [default: 1]"
)
@click.option("--lines", type=click.IntRange(0), help="The number of lines.  [default: all]")
@common
def get(target: str, start: int, lines: int | None, as_json: bool, door: Door) -> None:
    """Print lines of a memory file.

    By its path, key or number.
    """
    show_lines(door(), target, start, lines, as_json=as_json)


def _line_range(said: str | None) -> tuple[int, int | None]:
    """The first line of a range such as 10-20, and how many lines it has; None is all."""
    if said is None:
        return 1, None
    match = re.fullmatch(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8})?)?", said)
    if match is None or (match[2] and int(match[2]) < int(match[1])):
        raise click.UsageError(f"--lines takes 10-20, 10- or 10, not {said!r}.")
    first = int(match[1])
    last = int(match[2]) if match[2] else None if said.endswith("-") else first
    return first, None if last is None else last - first + 1


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
def status(as_json: bool, door: Door) -> None:
    """Show what is saved and its health."""
    memory = door()
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
    for name, value in summary(found):
        output.line(f"{name:<10}{value}")
    for warning in memory.workspace.loaded.warnings:
        output.line(f"{'warning':<10}{warning}")
    show_findings(found.findings)
    memory.care.saw_notices()


@click.group(invoke_without_command=True)
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="How many lines.")
@common
@click.pass_context
def audit(ctx: click.Context, last: int, as_json: bool, door: Door) -> None:
    """Show who changed what, and when.

    `vade audit verify` detects tampering.
    """
    if ctx.invoked_subcommand is not None:
        return
    lines = list(door().audit.lines())[-last:]
    if as_json:
        output.as_json(to_json.audit_json, lines=lines)
    elif lines:
        cells = [
            [*(str(each.get(name) or "-") for name in ("at", "op", "scope", "num")), _who(each)]
            for each in lines
        ]
        output.table(cells, ["time", "what", "scope", "#", "who"])
    else:
        output.line("no changes yet")


def _who(line: Mapping[str, Any]) -> str:
    client = line.get("client")
    return f"{line.get('actor') or '-'}{f' ({client})' if client else ''}"


@audit.command()
@common
def verify(as_json: bool, door: Door) -> int:
    """Check the audit log for tampering."""
    report = door().audit.verify()
    if as_json:
        output.as_json(to_json.audit_verified_json, report)
    elif report.problems:
        show_findings(report.problems)
    else:
        output.line(f"{output.plural(report.lines, 'line')}, chain intact")
    return 1 if report.problems else 0


def list_forgotten(memory: Memory, scope: str | None, *, as_json: bool) -> None:
    """Print what can be brought back."""
    found = [
        {
            "key": each.key,
            "scope": str(each.shelf.place.scope),
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
    """What `vade` alone prints: where one stands, the newest memories, and the next step."""
    found = memory.status()
    if as_json:
        output.as_json(to_json.standing_json, found, warnings=memory.workspace.loaded.warnings)
        return
    for name, value in summary(found):
        if name in ("home", "project", "memory"):
            output.line(f"{name:<10}{value}")
    records = sorted(memory.list().records, key=lambda each: each.updated or "", reverse=True)[:5]
    if records:
        output.line()
        output.table(
            [
                [
                    f"#{each.num}" if each.num is not None else "-",
                    each.key,
                    output.age(each.updated),
                    short(each.text, 60),
                ]
                for each in records
            ],
            ["", "newest", "age", ""],
        )
    problems = [each for each in found.findings if each.severity != "info"]
    if problems:
        output.line(f"\n{output.plural(len(problems), 'thing')} found: `vade status`")
    hint = '`vade add "…"` saves a memory' if not records else "`vade show KEY` reads one"
    output.line(f"\n{hint}; `vade help` lists the commands")


def summary(found: Status) -> list[tuple[str, str]]:
    """The status in a few lines."""
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
        trusted = "trusted" if found.trusted else "not trusted: read-only until you run `vade trust`"
        rows.append((".vade/", trusted))
    rows += [("pinned", f"{each.path}  {each.size:,} of {each.budget:,}") for each in found.pinned]
    for each in found.sources:
        words = [
            str(each.place),
            *(["injected"] if each.inject else []),
            *([each.problem] if each.problem else []),
        ]
        rows.append(("source", f"{each.name}  {each.path}  ({', '.join(words)})"))
    if found.coverage is not None:
        rows.append(("index", covered(found.coverage)))
        rows += [("", f"not indexed: {each.where}: {each.why}") for each in found.coverage.failed[:5]]
    return rows


def covered(index: Survey) -> str:
    """What the index covers, in one line."""
    parts = [
        f"{count:,} {name}"
        for count, name in (
            (index.pending, "new"),
            (index.stale, "changed"),
            (index.gone, "gone"),
            (len(index.failed), "failed"),
            (index.vectors_pending, "without vectors"),
            (index.unread, "passages without reader vectors"),
            (index.sessions_unread, "session passages without reader vectors"),
        )
        if count
    ]
    waiting = f" ({', '.join(parts)})" if parts else ""
    trouble = f"; {index.trouble}" if index.trouble else ""
    passages = output.plural(index.chunks, "passage")
    return f"{index.indexed:,} of {output.plural(index.files, 'file')}{waiting}, {passages}{trouble}"


def row(record: Record) -> list[str]:
    """One line of the list; a record made of several entries shows the days it spans."""
    days = [each.time[:10] for each in record.entries if each.time]
    span = f" [{days[0]} → {days[-1]}]" if len(record.entries) > 1 and days and days[0] != days[-1] else ""
    count = f" ({len(record.entries)})" if len(record.entries) > 1 else ""
    marks = ("🔒" if record.protected else "") + ("" if record.trusted else "?")
    return [
        str(record.num or "-"),
        record.key,
        f"{record.place.scope}{f' team:{record.team}' if record.team else ''}",
        record.type,
        record.category or "-",
        output.age(record.updated or record.created),
        marks,
        short(record.text, 60) + count + span,
    ]


def heading(entry: Entry) -> str:
    """When an entry was written, by whom, and whether it still holds."""
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
@click.option("--max-results", type=click.IntRange(1, 1000), help="The number of passages.  [default: 6]")
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
@click.option("--full", is_flag=True, help="Show each match in full, not just two lines.")
@click.option("--hub", is_flag=True, help="Search a workspace of a hub instead; no copy is needed.")
@click.option("--workspace", metavar="NAME", help="With --hub: which one, where there are several.")
@common
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
    as_json: bool,
    door: Door,
    **given: Any,
) -> None:
    """Search memory by words and meaning.

    Prints the passages that answer a question or match words.

    QUERY needs no quotes. It can contain "phrases" and filters: scope:, type:, tag:,
    after:, before:, path:. Put `--` before a query that begins with a dash. Without QUERY, the newest records
    are listed.

    Each match is strong, likely or weak. A weak match may be wrong; when all are weak, three are shown,
    or half of --max-results. Exits with 0 when nothing is found.
    """
    if (kind or include_related) and not records and query and not (hub and kind):
        raise click.UsageError(
            "--type and --include-related require --records; `type:` in the query filters."
        )
    if hub or workspace:
        answer = _search_hub(
            door(), query, workspace, kind, hub=hub, explain=explain, records=records, **given
        )
    elif records or not query:
        unfit = [name for name in ("min_score", "sources") if given.pop(name)]
        if unfit or explain:
            option = "explain" if explain else unfit[0].rstrip("s").replace("_", "-")
            raise click.UsageError(f"--{option} requires a QUERY and no --records.")
        limit = min(given.pop("max_results") or 10, 100)
        answer = door().recall(query, type=kind, limit=limit, include_related=include_related, **given)
    else:
        answer = door().search(query, explain=explain, **given)
    show_answer(answer, query, explain=explain, full=full, as_json=as_json)


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
    """What a hub answers."""
    if not hub:
        raise click.UsageError("--workspace requires --hub.")
    if not query or records or given.pop("sources"):
        raise click.UsageError("--hub requires a QUERY, and no --records or --source.")
    return memory.search(query, hub=workspace or "", type=kind, **given)


@click.command()
@words_argument(required=False)
@scope_option("Only this scope.")
@click.option("--type", type=TYPES, help="Only this type.")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many.")
@click.option("--mode", type=MODES, help="The search mode.  [default: hybrid]")
@click.option("--sort-by", type=ORDERS, help="Sort by newest, combined score or most used.")
@click.option("--include-related", is_flag=True, help="Also show related records.")
@click.option("--as-of", metavar="DATE", help="Search memory as of this time.")
@click.option("--now", metavar="TIME", help="The time relative dates refer to.  [default: now]")
@common
def recall(query: str, as_json: bool, door: Door, **given: Any) -> None:
    """Find records, or show the newest.

    Without QUERY, the newest.
    """
    answer = door().recall(query, **given)
    show_answer(answer, query, explain=False, full=True, as_json=as_json)


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
def index(watch: bool, as_json: bool, door: Door, **given: Any) -> None:
    """Update the search index.

    It is built from the files and safe to delete.
    """
    if watch and any(given.values()):
        raise click.UsageError("--watch cannot be combined with --rebuild, --check, --read or --read-all")
    if watch:
        keep_watch(door(), as_json=as_json)
        return
    with output.progress("what was indexed stays; the next search does the rest") as step:
        report = door().care.index(**given, progress=step)
    show_report(report, as_json=as_json)


def keep_watch(memory: Memory, *, as_json: bool) -> None:
    """Print a line for each time the index was brought up to date, until interrupted."""
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    for why, report in memory.care.watch(stop):
        if why not in ("opened", "changed", "due"):
            output.error(why)
        show_report(report, as_json=as_json)
        sys.stdout.flush()


def show_report(report: SyncReport, *, as_json: bool) -> None:
    """Print what a sync did; files that are in no index are not said to be."""
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
    for each in report.findings:
        output.line(f"not indexed: {each.where}: {each.why}")
    for said in report.degraded:
        output.error(said)
