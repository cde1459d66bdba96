"""Search every other project: each is opened by its own folder, as a command in that folder would."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.memory.core import Memory
    from vademecum.search import Answer
    from vademecum.store import KnownProject

MOST = 30  # projects that are searched, the last written first
SOURCES = ("memory", "journal", "pinned")


class ProjectAnswer(NamedTuple):
    """What another project's memory answers."""

    project: KnownProject
    answer: Answer


def other_projects(memory: Memory) -> list[KnownProject]:
    """Return the other projects that have memory and a folder, the last written first; for a person only."""
    memory.workspace.only_a_person("look into every project", "vade search --all")
    here = memory.caller.project
    own = {here.id, *here.earlier} if here else set()
    return [
        each for each in memory.projects.list() if each.present and not each.joined_to and each.id not in own
    ]


def search_elsewhere(
    memory: Memory, query: str, *, max_results: int, explain: bool = False
) -> Iterator[ProjectAnswer]:
    """Yield the answers of other projects, without weak matches; only their project scope is searched."""
    for each in other_projects(memory)[:MOST]:
        with open_project(memory, each) as other:
            answer = other.search(
                query,
                max_results=max_results,
                max_weak=0,
                scope=Scope.PROJECT,
                sources=SOURCES,
                explain=explain,
            )
        sure = tuple(found for found in answer.results if found.match != "weak")
        if sure:
            yield ProjectAnswer(each, replace(answer, results=sure))


def open_project(memory: Memory, project: KnownProject) -> Memory:
    """Open the memory of another project for the same person."""
    from vademecum.memory.opening import connect

    caller = memory.caller
    return connect(
        home=memory.home.path,
        project=project.root,
        agent=caller.agent,
        audience=caller.audience,
        incognito=memory.settings.incognito,
        origin=caller.origin,
        actor=caller.actor,
    )
