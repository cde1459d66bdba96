"""Projects: all projects with memory in this home."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.http.pages import PageView, ViewRequest

if TYPE_CHECKING:
    from vademecum.memory import Memory
    from vademecum.memory.values import KnownProject


def list_projects(memory: Memory) -> dict[str, Any]:
    """Return all projects with memory, the last written first."""
    memory.workspace.only_a_person("look into every project", "vade projects")
    here = memory.caller.project
    own = {here.id, *here.earlier} if here else set()
    found = [each for each in memory.projects.list() if not each.joined_to]
    return {
        "projects": [_row(each, here=each.id in own) for each in found],
        "records": sum(each.records for each in found),
        "here": here.root.name if here else "",
    }


def _row(project: KnownProject, *, here: bool) -> dict[str, Any]:
    return {
        "id": project.id,
        "name": project.name,
        "folder": str(project.root or ""),
        "present": project.present,
        "here": here,
        "records": project.records,
        "days": project.days,
        "updated": project.updated,
    }


def data(ask: ViewRequest) -> dict[str, Any]:
    """Return the page of all projects."""
    return list_projects(ask.memory)


VIEW = PageView("/projects", "Projects", data, "projects.html", icon="projects", key="o")
