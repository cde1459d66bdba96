"""Status, settings, projects, sources, and the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path
from pydantic import Field

from vademecum.errors import Refused
from vademecum.interfaces.http.api.base import Body, Calls, CursorQuery, LimitQuery, read_cursor, write_cursor
from vademecum.interfaces.present import to_json
from vademecum.interfaces.present.shape import COUNT, TEXT, JsonShape, maybe
from vademecum.types import Scope

if TYPE_CHECKING:
    from vademecum.interfaces.http.api.base import ApiCall

calls = Calls("about")
SettingName = Annotated[str, Path(min_length=1, max_length=100, description="A setting's name.")]
audit_json = JsonShape("audit_page", to_json.audit_json, total=COUNT, next=maybe(TEXT))


class NewValue(Body):
    """The value of a setting as a person writes it; null restores the default."""

    value: str | None = Field(max_length=10_000)


class NewSource(Body):
    """A folder of Markdown on the machine of the server."""

    path: str = Field(min_length=1, max_length=4096)
    name: str | None = Field(None, max_length=200)
    inject: bool = False
    scope: Scope = Scope.GLOBAL


@calls.add("GET", "/status", to_json.standing_json, scope="read")
def get_status(call: ApiCall) -> dict[str, Any]:
    """Read what is here, and what needs attention."""
    return to_json.standing_json(call.memory.status(), warnings=[])


@calls.add("GET", "/settings", to_json.settings_json, scope="read")
def get_settings(call: ApiCall) -> dict[str, Any]:
    """Read the settings in force, each with where its value comes from."""
    from vademecum import config

    loaded = call.memory.workspace.loaded
    values = config.flatten(loaded.settings)
    values_with_origin = {
        name: {"value": value, "from": loaded.origins[name]} for name, value in values.items()
    }
    return to_json.settings_json(settings=values_with_origin)


@calls.add("PUT", "/settings/{name}", to_json.settings_json, scope="review")
def change_setting(call: ApiCall, name: SettingName, body: NewValue) -> dict[str, Any]:
    """Change a setting in the user's own file, or remove it from the file; only a person on the page may."""
    from vademecum import config
    from vademecum.memory.settings_file import find_setting, write_setting

    if not call.is_person:
        raise Refused("only a person changes settings", hint="run `vade config set` in a terminal")
    found = find_setting(name)
    if name == "capture.model" and body.value:
        raise Refused(
            "a model that reads sessions is chosen where it can be said what it gets",
            hint="run `vade config set capture.model` in a terminal",
        )
    write_setting(call.memory, found, body.value)
    loaded = config.load(home=call.memory.home.path)
    now = {"value": config.flatten(loaded.settings)[name], "from": loaded.origins[name]}
    return to_json.settings_json(settings={name: now})


@calls.add("GET", "/projects", to_json.projects_json, scope="read")
def list_projects(call: ApiCall) -> dict[str, Any]:
    """List the projects with memory; `?project=ID` of any call asks another one than the one served."""
    return to_json.projects_json(projects=call.memory.projects.list())


@calls.add("GET", "/sources", to_json.sources_json, scope="read")
def list_sources(call: ApiCall) -> dict[str, Any]:
    """List the folders of Markdown that are attached."""
    return to_json.sources_json(sources=call.memory.sources.list())


@calls.add("POST", "/sources", to_json.source_shape, scope="review", status=201)
def add_source(call: ApiCall, body: NewSource) -> dict[str, Any]:
    """Attach a folder of Markdown, read in place."""
    given = body.model_dump()
    return to_json.source_json(call.memory.sources.add(given.pop("path"), **given))


@calls.add("POST", "/sources/{name}/remove", to_json.source_removed_json, scope="review")
def remove_source(call: ApiCall, name: Annotated[str, Path(min_length=1, max_length=200)]) -> dict[str, Any]:
    """Detach a folder; its files stay as they are."""
    call.memory.sources.remove(name)
    return to_json.source_removed_json(removed=name)


@calls.add("GET", "/audit", audit_json, scope="read")
def list_audit(call: ApiCall, limit: LimitQuery = 50, cursor: CursorQuery = None) -> dict[str, Any]:
    """List who changed what, and when, the newest first."""
    start, lines = read_cursor(cursor), [*call.memory.audit.lines()]
    lines.reverse()
    after = write_cursor(start + limit, len(lines))
    return {**to_json.audit_json(lines=lines[start : start + limit]), "total": len(lines), "next": after}


@calls.add("GET", "/audit/verify", to_json.audit_verified_json, scope="read")
def verify_audit(call: ApiCall) -> dict[str, Any]:
    """Check that nobody has changed the audit."""
    return to_json.audit_verified_json(call.memory.audit.verify())
