"""Export the workspaces of a hub as folders of Markdown.

All streams are read from one snapshot of the database, one stream at a time. The folder of a place has the
files that `memory/` has in a synced home.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import NotFound
from vademecum.memory.sync import write_folder
from vademecum.sync import projection as showing
from vademecum.sync.folder_sync import place_of
from vademecum.sync.team_signing import SHARED_DOCUMENTS, FactStamp, TeamSigning
from vademecum.text import names
from vademecum_hub import stream_documents
from vademecum_hub.administration import operating
from vademecum_hub.authorization import enter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from psycopg import Connection

OVERVIEW = "workspace.md"


class HubWorkspace(NamedTuple):
    """A workspace, with the columns that the export needs."""

    ws: int
    public: str
    name: str
    kind: str

    @property
    def folder(self) -> str:
        """The name of the workspace's folder, safe as a file name and made unique by the id."""
        return f"{names.slug(self.name) or 'workspace'}-{self.public}"


class HubExported(NamedTuple):
    """The result of an export: the written folders, and the number of files."""

    workspaces: list[str]
    files: int


def export_hub(database: str, path: Path, *, workspace: str = "", force: bool = False) -> HubExported:
    """Write all workspaces, or the workspace with this name or id, as folders of Markdown.

    With `force`, overwrite existing files.
    """
    folders: list[str] = []
    with operating(database, snapshot=True) as connection:
        chosen = [
            each
            for each in list_workspaces(connection)
            if not workspace or workspace in (each.name, each.public)
        ]
        if workspace and not chosen:
            raise NotFound(
                f"there is no workspace {names.shown(workspace)}",
                hint="leave out `--workspace` to export all",
            )

        def iter_files() -> Iterator[tuple[str, str]]:
            for each in chosen:
                folders.append(each.folder)
                enter(connection, each.ws)
                for name, text in _make_files(connection, each):
                    yield f"{each.folder}/{name}", text

        count = write_folder(path, iter_files(), force=force)
    return HubExported(folders, count)


def list_workspaces(connection: Connection[Any]) -> Iterator[HubWorkspace]:
    """Yield all workspaces; row-level security shows one at a time, even to the tables' owner."""
    row = connection.execute("SELECT last_value FROM hub.workspaces").fetchone()
    for ws in range(1, int(row[0] if row else 0) + 1):
        enter(connection, ws)
        found = connection.execute(
            "SELECT ws, public::text, name, kind FROM hub.workspace WHERE ws = %s", (ws,)
        ).fetchone()
        if found is not None:
            yield HubWorkspace(*found)


def _make_files(connection: Connection[Any], workspace: HubWorkspace) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file of a workspace."""
    rows = connection.execute(
        "SELECT stream, head FROM hub.stream WHERE ws = %s ORDER BY stream", (workspace.ws,)
    ).fetchall()
    folders: dict[str, str] = {}
    for stream, _ in rows:
        folders[stream] = _folder_of(stream, folders.values())
    yield (
        OVERVIEW,
        _make_overview(connection, workspace, [(stream, folders[stream], head) for stream, head in rows]),
    )
    for stream, folder in folders.items():
        for path, text in _render_stream(connection, workspace, stream):
            yield f"{folder}/{path}", text


def _folder_of(stream: str, streams: Any) -> str:
    """Return the folder for a stream: that of its place, or a hashed name if the place's is taken."""
    place = place_of(stream)
    known = {names.folded(each) for each in streams}
    if place is not None and names.folded(str(place)) not in known:
        return str(place)
    return f"other-{hashlib.sha256(stream.encode()).hexdigest()[:16]}"


def _make_overview(
    connection: Connection[Any], workspace: HubWorkspace, places: list[tuple[str, str, int]]
) -> str:
    rows = connection.execute(
        "SELECT name, role FROM hub.member WHERE ws = %s AND removed_at IS NULL ORDER BY name",
        (workspace.ws,),
    ).fetchall()
    lines = [f"# {names.shown(workspace.name)}", "", f"- id: {workspace.public}", f"- kind: {workspace.kind}"]
    lines += ["", "## Members", "", *(f"- {name} ({role})" for name, role in rows)]
    lines += ["", "## Places", ""]
    for stream, folder, head in places:
        named = "" if folder == stream else f" is {names.shown(stream)}"
        lines.append(f"- `{folder}`{named}: {head} changes")
    return "\n".join(lines) + "\n"


def _render_stream(
    connection: Connection[Any], workspace: HubWorkspace, stream: str
) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file of a stream; in a team, blocks name their authors."""
    if workspace.kind == "personal":
        files = stream_documents.show_documents(connection, workspace.ws, stream)
        yield from ((path, file.text) for path, file in sorted(files.items()))
        return
    state, stamps = showing.FactSet(), {}
    for fact, stamp in stream_documents.read_stamped(connection, workspace.ws, stream):
        state.add(fact)
        stamps[fact.id] = FactStamp(stamp.author, stamp.role, stamp.at, stamp.mac)
    # The export has no member of its own, so every text is signed as another member's.
    signing = TeamSigning("", SHARED_DOCUMENTS, lambda: stamps, lambda _: False)
    yield from ((path, file.text) for path, file in sorted(showing.project(state, signing).items()))
