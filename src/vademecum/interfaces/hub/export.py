"""Every workspace of a hub as folders of Markdown, which can be read without it.

One snapshot of the database, a stream at a time. A place's folder holds what `memory/` of a synced home does.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import NotFound
from vademecum.interfaces.hub import documents
from vademecum.interfaces.hub.access import enter
from vademecum.interfaces.hub.operate import operating
from vademecum.memory.sync import SHARED_DOCUMENTS, FactStamp, TeamSigning, place_of, write_folder
from vademecum.memory.sync import project as showing
from vademecum.text import names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from psycopg import Connection

TOLD = "workspace.md"


class HubWorkspace(NamedTuple):
    """A workspace of the hub, as whoever runs it sees it."""

    ws: int
    public: str
    name: str
    kind: str

    @property
    def folder(self) -> str:
        """A name that stays in its folder, and is no other workspace's."""
        return f"{names.slug(self.name) or 'workspace'}-{self.public}"


class HubExported(NamedTuple):
    """What was written."""

    workspaces: list[str]
    files: int


def export_hub(database: str, path: Path, *, workspace: str = "", force: bool = False) -> HubExported:
    """Write every workspace, or the one of that name or id, as folders of Markdown."""
    folders: list[str] = []
    with operating(database, snapshot=True) as connection:
        meant = [
            each
            for each in list_workspaces(connection)
            if not workspace or workspace in (each.name, each.public)
        ]
        if workspace and not meant:
            raise NotFound(
                f"there is no workspace {names.shown(workspace)}",
                hint="leave out `--workspace` to export all",
            )

        def every() -> Iterator[tuple[str, str]]:
            for each in meant:
                folders.append(each.folder)
                enter(connection, each.ws)
                for name, text in _files(connection, each):
                    yield f"{each.folder}/{name}", text

        count = write_folder(path, every(), force=force)
    return HubExported(folders, count)


def list_workspaces(connection: Connection[Any]) -> Iterator[HubWorkspace]:
    """Every workspace, by its number: row-level security shows even their owner one at a time."""
    row = connection.execute("SELECT last_value FROM hub.workspaces").fetchone()
    for ws in range(1, int(row[0] if row else 0) + 1):
        enter(connection, ws)
        found = connection.execute(
            "SELECT ws, public::text, name, kind FROM hub.workspace WHERE ws = %s", (ws,)
        ).fetchone()
        if found is not None:
            yield HubWorkspace(*found)


def _files(connection: Connection[Any], workspace: HubWorkspace) -> Iterator[tuple[str, str]]:
    """The files of a workspace, by their paths in its folder."""
    rows = connection.execute(
        "SELECT stream, head FROM hub.stream WHERE ws = %s ORDER BY stream", (workspace.ws,)
    ).fetchall()
    folders: dict[str, str] = {}
    for stream, _ in rows:
        folders[stream] = _folder(stream, folders.values())
    yield TOLD, _told(connection, workspace, [(stream, folders[stream], head) for stream, head in rows])
    for stream, folder in folders.items():
        for path, text in _texts(connection, workspace, stream):
            yield f"{folder}/{path}", text


def _folder(stream: str, taken: Any) -> str:
    """The folder of a place; one for what is no place, or differs from another in letter case alone."""
    place = place_of(stream)
    known = {names.folded(each) for each in taken}
    if place is not None and names.folded(str(place)) not in known:
        return str(place)
    return f"other-{hashlib.sha256(stream.encode()).hexdigest()[:16]}"


def _told(connection: Connection[Any], workspace: HubWorkspace, places: list[tuple[str, str, int]]) -> str:
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


def _texts(connection: Connection[Any], workspace: HubWorkspace, stream: str) -> Iterator[tuple[str, str]]:
    """What a stream shows; in a team every block names its author."""
    if workspace.kind == "personal":
        shown = documents.show_documents(connection, workspace.ws, stream)
        yield from ((path, shows.text) for path, shows in sorted(shown.items()))
        return
    state, stamps = showing.FactSet(), {}
    for fact, stamp in documents.read_stamped(connection, workspace.ws, stream):
        state.add(fact)
        stamps[fact.dot] = FactStamp(stamp.author, stamp.role, stamp.at, stamp.mac)
    # Nobody's machine: every text is another member's.
    signing = TeamSigning("", SHARED_DOCUMENTS, lambda: stamps, lambda _: False)
    yield from ((path, shows.text) for path, shows in sorted(showing.project(state, signing).items()))
