"""Commands for projects, sources, shell completion and `vade doctor`."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import stat
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from vademecum import __version__
from vademecum.errors import ScopeUnresolved, VadeError
from vademecum.interfaces.cli.options import SCOPES, common
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory
    from vademecum.memory.values import KnownProject, Source


@click.command()
@common
def init(as_json: bool, open_memory: OpenMemory) -> None:
    """Create .vade/ in this project, shared through git.

    Records are then versioned with the code.

    The folder is trusted at once. Records already saved for this project stay in your home and stay visible;
    new ones go to .vade/.
    """
    folder = open_memory().projects.init()
    output.show(as_json, f"created {folder}; commit it with your code", to_json.path_json, path=folder)


@click.group(invoke_without_command=True)
@common
@click.pass_context
def project(ctx: click.Context, as_json: bool, open_memory: OpenMemory) -> None:
    """Show which project this folder belongs to."""
    if ctx.invoked_subcommand is not None:
        return
    found = open_memory().status()
    if found.project is None:
        raise ScopeUnresolved("this folder is not in a project")
    if as_json:
        output.as_json(to_json.project_here_json, found.project, aliases=found.aliases)
        return
    output.line(f"{found.project.id}  {found.project.root}")
    for alias in found.aliases:
        output.line(f"also known as {alias}")


@project.command("alias")
@click.argument("old", metavar="ID")
@common
def project_alias(old: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Add another project id's memory to this project.

    Use it after a folder moved: an empty `vade list` names the old id.
    """
    now = open_memory().projects.alias(old)
    output.show(as_json, f"{old} now belongs to {now}", to_json.alias_json, alias=old, project=now)


@click.command()
@common
def projects(as_json: bool, open_memory: OpenMemory) -> None:
    """List all projects with memory on this machine.

    `vade search --all` and `vade list --all` look into all of them. Only a person can ask for this.
    """
    memory = open_memory()
    memory.workspace.only_a_person("look into every project", "vade projects")
    show_projects(list(memory.projects.list()), as_json=as_json)


@project.command("list")
@common
def project_list(as_json: bool, open_memory: OpenMemory) -> None:
    """List all projects with memory on this machine."""
    show_projects(list(open_memory().projects.list()), as_json=as_json)


def show_projects(found: Sequence[KnownProject], *, as_json: bool) -> None:
    """Print projects, or their JSON."""
    if as_json:
        output.as_json(to_json.projects_json, projects=found)
        return
    if not found:
        output.line("no projects yet")
        return
    rows = [
        [
            each.name,
            each.id,
            str(each.records),
            str(each.days),
            (each.updated or "-")[:10],
            _format_path(each),
        ]
        for each in found
    ]
    output.table(rows, ["name", "id", "records", "days", "changed", "path"])


def _format_path(project: KnownProject) -> str:
    """Return a project's path, and whether it is gone or joined to another."""
    path = "-" if project.root is None else str(project.root)
    if project.joined_to:
        return f"{path} (joined to {project.joined_to})"
    return path if project.root is None or project.present else f"{path} (gone)"


@click.group(invoke_without_command=True)
@common
@click.pass_context
def sources(ctx: click.Context, as_json: bool, open_memory: OpenMemory) -> None:
    """Attach folders of Markdown, read in place.

    A vault, a workspace, a CLAUDE.md.
    """
    if ctx.invoked_subcommand is None:
        list_sources(open_memory(), as_json=as_json)


@sources.command("add")
@click.argument("path", type=click.Path())
@click.option("--name", help="Its name.  [default: the folder's name]")
@click.option("--inject", is_flag=True, help="Allow its text in agents' context.")
@click.option("--scope", type=SCOPES, default="global", show_default=True, help="Who can see it.")
@common
def sources_add(
    *, path: str, name: str | None, inject: bool, scope: str, as_json: bool, open_memory: OpenMemory
) -> None:
    """Attach a folder or file of Markdown, read in place."""
    source = open_memory().sources.add(path, name=name, inject=inject, scope=scope)
    files, left_out = (0, 0) if source.problem else source.count_files()
    text = f"attached {source.path} as {source.name} ({_count_files(source, 'Markdown file')})"
    output.show(as_json, text, to_json.source_shape, source, files=files, folders_left_out=left_out)


@sources.command("list")
@common
def sources_list(as_json: bool, open_memory: OpenMemory) -> None:
    """List the attached folders."""
    list_sources(open_memory(), as_json=as_json)


@sources.command("remove")
@click.argument("name")
@common
def sources_remove(name: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Detach a folder; its files stay as they are."""
    open_memory().sources.remove(name)
    output.show(as_json, f"detached {name}", to_json.source_removed_json, removed=name)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common
def completion(shell: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Print shell completion for bash, zsh or fish.

    Load it with `eval "$(vade completion bash)"`.
    """
    from click.shell_completion import get_completion_class

    from vademecum.interfaces.cli.app import cli

    made = get_completion_class(shell)
    script = made(cli, {}, "vade", "_VADE_COMPLETE").source() if made else ""
    output.show(as_json, partial(click.echo, script), to_json.completion_json, shell=shell, script=script)


def list_sources(memory: Memory, *, as_json: bool) -> None:
    """Print the attached folders."""
    found = list(memory.sources.list())
    if as_json:
        output.as_json(to_json.sources_json, sources=found)
    elif found:
        rows = [
            [
                each.name,
                str(each.place),
                "yes" if each.inject else "no",
                each.problem or _count_files(each, "file"),
                str(each.path),
            ]
            for each in found
        ]
        output.table(rows, ["name", "scope", "injected", "holds", "path"])
    else:
        output.line("no sources: `vade sources add PATH` attaches a folder")


def _count_files(source: Source, what: str) -> str:
    """Return the number of a source's files, and of folders that are left out."""
    files, left_out = source.count_files()
    more = f", {output.plural(left_out, 'folder')} left out" if left_out else ""
    return output.plural(files, what) + more


_LITTLE_SPACE = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Check:
    """One check of `vade doctor`: its state, its text, and a hint when it fails."""

    name: str
    state: str
    said: str
    hint: str = ""


@click.command()
@common
def doctor(as_json: bool, open_memory: OpenMemory) -> int:
    """Check the installation, settings and files.

    Exits with 1 on errors.
    """
    checks = list(run_checks(open_memory))
    if as_json:
        output.as_json(to_json.checks_json, checks=checks)
    else:
        for each in checks:
            mark = {"ok": "✓", "warning": "!", "error": "✗"}[each.state]
            output.line(f"{mark} {each.name:<12}{each.said}{f'  →  {each.hint}' if each.hint else ''}")
    return 1 if any(each.state == "error" for each in checks) else 0


def run_checks(open_memory: OpenMemory) -> Iterator[Check]:
    """Yield each check; a failed check does not stop the next."""
    version = f"vademecum {__version__}, Python {platform.python_version()}, {platform.system()}"
    yield Check("version", "ok", version)
    try:
        memory = open_memory()
    except VadeError as error:
        yield Check("settings", "error", str(error), error.hint)
        return
    given = sum(origin != "default" for origin in memory.workspace.loaded.origins.values())
    differ = "differs" if given == 1 else "differ"
    yield Check("settings", "ok", f"{output.plural(given, 'setting')} {differ} from the defaults")
    for warning in memory.workspace.loaded.warnings:
        yield Check("settings", "warning", warning)
    for look in (_folder, _file_system, _audit, _decisions, _memory, _agents):
        try:
            yield from look(memory)
        except VadeError as error:
            yield Check(look.__name__.strip("_"), "error", str(error), error.hint)


def _folder(memory: Memory) -> Iterator[Check]:
    path = memory.home.path
    if not path.exists():
        yield Check("home", "ok", f"{path} is created when you save the first memory")
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if sys.platform != "win32" and mode & 0o077:
        yield Check(
            "home",
            "warning",
            f"{path} can be read by others ({mode:o})",
            f"chmod 700 {shlex.quote(str(path))}",
        )
    elif not os.access(path, os.W_OK):
        yield Check("home", "error", f"{path} cannot be written", "check its permissions")
    else:
        yield Check("home", "ok", str(path))
    free = shutil.disk_usage(path).free
    state = "warning" if free < _LITTLE_SPACE else "ok"
    yield Check("space", state, f"{free // (1024 * 1024):,} MiB free")


def _file_system(memory: Memory) -> Iterator[Check]:
    """Try the operations that safe writing needs on the home's file system."""
    writable = memory.home.path.exists() and os.access(memory.home.path, os.W_OK)
    if memory.settings.incognito or not writable:
        return
    with memory.workspace.reported("try the file system"), memory.home.disk("locks", create=True) as folder:
        names = (f"doctor-{os.getpid()}-1", f"doctor-{os.getpid()}-2")
        try:
            for name in names:
                folder.create(name, name.encode())
            exchanged = folder.exchange(*names)
        finally:
            for name in names:
                folder.unlink(name)
    if exchanged:
        yield Check("file system", "ok", "exclusive and exchanging renames, locks and syncs work")
    else:
        yield Check(
            "file system",
            "warning",
            "no exchanging rename here: an edit saved at the same moment as a write may be missed",
        )


def _audit(memory: Memory) -> Iterator[Check]:
    report = memory.audit.verify()
    if report.problems:
        first = report.problems[0]
        yield Check(
            "audit",
            "error",
            f"{output.plural(len(report.problems), 'problem')}, first at {first.where}: {first.why}",
            "vade audit verify",
        )
    else:
        yield Check("audit", "ok", f"{output.plural(report.lines, 'line')}, chain intact")


def _decisions(memory: Memory) -> Iterator[Check]:
    if not memory.settings.incognito:
        for path in memory.review.damaged():
            message = f"{path} cannot be read and is ignored"
            yield Check("decisions", "error", message, "fix it, or delete it and decide again")


def _agents(memory: Memory) -> Iterator[Check]:
    """Start each installed integration as its agent starts it."""
    from vademecum.interfaces.install import check, runner

    for scope in ("user", "project"):
        place = runner.place_of(memory, scope)
        for name in runner.names():
            for each in check.check_agent(runner.Installation.of(name, *place), memory.home):
                yield Check(each.agent, each.state, f"{each.what}: {each.said}", each.hint)


def _memory(memory: Memory) -> Iterator[Check]:
    found = memory.status()
    yield Check(
        "memory",
        "ok",
        f"{output.plural(sum(found.records.values()), 'record')}, {output.plural(found.notes, 'note')}",
    )
    for source in found.sources:
        if source.problem:
            yield Check(
                "source",
                "error",
                f"{source.name} at {source.path} {source.problem}",
                f"vade sources remove {source.name}",
            )
    for finding in found.findings:
        state = {"error": "error", "warning": "warning"}.get(finding.severity, "ok")
        yield Check(finding.what, state, f"{finding.where}: {finding.why}", finding.mend)
