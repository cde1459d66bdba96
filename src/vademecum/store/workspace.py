"""Foundation of all parts of memory: the caller, settings and home, and checks of what the caller may do."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.errors import (
    IncognitoWrite,
    Malformed,
    NotFound,
    NotVisible,
    OutsideMemory,
    Refused,
    StorageFailed,
    UnknownName,
    VadeError,
)
from vademecum.store import audit, decisions, files, scopes, teams
from vademecum.store.catalogue import Catalogue
from vademecum.store.records import Found, Records
from vademecum.text import clock, filenames, names, secrets
from vademecum.types import Audience, Change, Finding, Origin, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from vademecum.config import Loaded, Settings
    from vademecum.store.copies import SecondCopy
    from vademecum.store.home import Home
    from vademecum.store.journal import Journal
    from vademecum.store.pending_writes import PendingRequest
    from vademecum.store.pinned import Documents, Pinned
    from vademecum.store.state import State
    from vademecum.types import Record, Swept


class Workspace:
    """The caller, the settings, the home and the permission checks that all parts of `Memory` share."""

    def __init__(
        self,
        home: Home,
        caller: scopes.Caller,
        loaded: Loaded,
        *,
        now: Callable[[], datetime] = clock.now,
        readonly: bool = False,
    ) -> None:
        self.home = home
        self.readonly = readonly
        self.caller = caller
        self.loaded = loaded
        self.now = now
        self.listeners: list[Callable[[Change], None]] = []
        self.index_trouble: list[str] = []
        self.has_unread = False  # whether the reader model may have something to read
        self.on_unread: Callable[[], None] = lambda: None
        self._told_hidden = False
        catalogue = Catalogue(home, keep=not loaded.settings.incognito)
        self.records = Records(home, caller, now, self.announce, catalogue)

    @functools.cached_property
    def journal(self) -> Journal:
        """Return the journals in the caller's reach."""
        from vademecum.store.journal import Journal

        return Journal(self.home, self.caller, self.now, self.announce)

    @functools.cached_property
    def documents(self) -> Documents:
        """Return the pinned documents in the caller's reach."""
        from vademecum.store.pinned import Documents

        return Documents(self.home, self.caller, self.settings.inject, self.now, self.announce)

    @property
    def settings(self) -> Settings:
        """Return the settings in force."""
        return self.loaded.settings

    @functools.cached_property
    def state(self) -> State:
        """Return the home's counters and caches; they may be lost without harm."""
        from vademecum.store.state import State

        return State(self.home)

    def outside(self, path: Path) -> None:
        """Raise an error for a path among the files of memory, where output would be taken for memory."""
        if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.home.path)):
            raise OutsideMemory(f"{path} is inside the memory folder", hint="choose a place outside of it")

    @property
    def root(self) -> Path | None:
        """Return the folder of the project; None when there is no project."""
        return None if self.caller.project is None else self.caller.project.root

    def announce(self, change: Change) -> None:
        """Send a change to the listeners; errors of listeners do not undo the change."""
        self.note_unread()
        for listener in self.listeners:
            try:
                listener(change)
            except (VadeError, OSError) as error:
                self.index_trouble.append(f"{change.path}: {error}")

    def note_unread(self) -> None:
        """Note that the reader model has something to read."""
        self.has_unread = True
        self.on_unread()

    def reported(self, doing: str) -> AbstractContextManager[None]:
        """Turn disk errors in the block into an error that names the task."""
        return files.reported(doing)

    def not_in_group(self, doing: str) -> None:
        """Raise an error when the caller is a group."""
        if self.caller.audience is Audience.GROUP:
            raise NotVisible(f"a group session cannot {doing}")

    def only_a_person(self, doing: str, command: str) -> None:
        """Raise an error for agents and groups, because only a person may ask for this."""
        self.not_in_group(doing)
        if self.caller.origin is not Origin.USER:
            why = f", and {self.caller.undecided}" if self.caller.undecided else ""
            raise NotVisible(f"only a person can {doing}{why}", hint=f"run `{command}` in a terminal")

    def may_decide(self, doing: str, command: str) -> None:
        """Raise an error unless the caller is a person: at a terminal, or in a script that the user allowed.

        Commands that verify, approve, reject, trust, protect, delete permanently, or forget a protected
        record call this first. `doing` completes "only a person can …"; `command` is the command to run
        instead.
        """
        self.only_a_person(doing, command)
        if self.caller.undecided:
            raise NotVisible(
                f"only a person can {doing}, and {self.caller.undecided}",
                hint=self.caller.undecided_hint or f"run `{command}` in a terminal",
            )

    def at_a_command_line(self, doing: str, command: str) -> None:
        """Raise an error unless the caller is at a command line or is a person; always raise it for a group.

        Commands that read or write local files call this first.
        """
        if not self.caller.command_line:
            self.only_a_person(doing, command)
        self.not_in_group(doing)

    def wait_for_a_person(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        scope: Scope,
        door: str = "",
        seen: str | None = None,
        once: bool = True,
    ) -> PendingRequest:
        """Save a request for exactly this change, to be decided by a person.

        With `once`, an equal request that is already pending is returned instead.
        """
        from vademecum.store import pending_writes

        caller, project = self.caller, self.caller.project
        request = pending_writes.Request(
            operation,
            arguments,
            scope=str(scope),
            door=door or ("command line" if caller.command_line else "a tool"),
            origin=str(caller.origin),
            actor=caller.actor,
            agent=self.settings.agent,
            at=self.stamp(),
            session=caller.session,
            project=project.id if project else None,
            root=str(project.root) if project else None,
            audience=str(caller.audience),
            seen=seen,
            once=once,
            client=caller.client or None,
            conversation=caller.conversation or None,
        )
        with self.reported("save this for review"):
            return pending_writes.put(self.home, request)

    def content_hash(self, found: Found) -> str:
        """Return the hash of a record's file as it is now."""

        return files.digest(found.scope_folder.read(filenames.RECORDS, found.name) or b"")

    def text_of(self, name: str | int, scope: str | Scope | None) -> tuple[str, str]:
        """Return path and text of a record's file as it is now."""
        from vademecum.text import document

        found = self.find(name, scope)
        content = found.scope_folder.read(filenames.RECORDS, found.name)
        return found.record.path, document.decode(content or b"")

    def may_write(self) -> None:
        """Raise an error where nothing may be saved: incognito, read-only, or a home of a newer version."""
        if self.settings.incognito:
            raise IncognitoWrite("this session is incognito: nothing is saved")
        if self.readonly:
            raise Refused("this session is read-only: nothing is saved", hint="run without `--readonly`")
        self.home.check()
        self.home.check_format()

    def notices(self) -> list[Swept]:
        """Return the automatic sweeps that moved more than ten records and that no person has seen yet."""
        if self.settings.incognito or self.caller.audience is Audience.GROUP:
            return []
        return decisions.unseen_notices(self.home)

    def settings_findings(self) -> Iterator[Finding]:
        """Yield findings for settings lines without effect: the user's, and a trusted repository's."""
        shared = self.loaded.shared
        trusted = shared.problems if shared is not None and shared.trusted else ()
        for problem in (*self.loaded.problems, *trusted):
            yield Finding("settings", problem.where, problem.why, problem.hint or "vade config")

    def gate(self, text: str, scope: Scope) -> tuple[str, tuple[str, ...]]:
        """Apply a scope's policy for secrets to a text; return the result and the kinds of secrets found."""
        return secrets.gate(text, self.settings.secrets.in_scope(scope))

    def scope(self, scope: str | Scope | None) -> Scope | None:
        """Return the scope with this name; None for None."""
        return None if scope is None else scopes.parse_scope(scope)

    def places(self, scope: str | Scope | None, *, all: bool = False) -> Sequence[Place]:
        """Return the visible places, or only that of a scope.

        With `all`, return also the places of all other sessions, agents and projects in this home.
        """
        if not all:
            wanted = self.scope(scope)
            return [scopes.place_for(self.caller, wanted)] if wanted else scopes.visible(self.caller)
        if self.caller.audience is Audience.GROUP:
            raise NotVisible("a group session sees only its own project")
        places = scopes.visible(self.caller)
        for each in (scope for scope in Scope if scope.rule.owner):
            places += [Place(each, name) for name in self.home.names("memory", str(each)) if name[:1] != "."]
        aliased = {alias for place in places for alias in scopes.aliases(self.home, place.id) if place.id}
        chosen = dict.fromkeys(place for place in places if place.id not in aliased)
        return [place for place in chosen if scope is None or place.scope is scopes.parse_scope(scope)]

    def streams_in_sight(self, scope: str | Scope | None) -> list[str]:
        """Return the hub's names of the visible places, or of one scope, with earlier ids of projects."""
        found = []
        for place in self.places(scope):
            known = scopes.aliases(self.home, place.id) if place.scope is Scope.PROJECT else []
            found += [str(place), *(str(Place(place.scope, each)) for each in known)]
        return found

    def find_team(self, name: str, scope: Scope) -> teams.Team:
        """Return the team with this name, for memory of a scope that teams share."""
        return teams.find_shared(self.home, name, scope)

    def team_ids(self) -> set[str]:
        """Return the ids of the teams whose memory is here."""
        return {each.workspace for each in teams.list_teams(self.home)}

    def everything(self, places: Iterable[Place]) -> Iterator[Found | Finding]:
        """Yield every record of these places and findings for unreadable files; nothing when incognito."""
        if self.settings.incognito:
            return iter(())
        return self.records.all(places)

    def folders(self) -> tuple[str, ...]:
        """Return the folders that the caller can see, as the beginnings of the paths of their files."""
        every = (scopes.scope_folders(self.home, self.caller, place) for place in self.places(None))
        return tuple(f"{scope_folder.label}/" for scope_folders in every for scope_folder in scope_folders)

    def copies(self, places: Iterable[Place]) -> list[SecondCopy]:
        """Return the second copies that sync tools left in these places; none when incognito."""
        from vademecum.store import copies

        if self.settings.incognito:
            return []
        private = self.caller.audience is Audience.PRIVATE
        scope_folders = (
            scope_folder
            for place in places
            for scope_folder in scopes.scope_folders(self.home, self.caller, place)
        )
        return [
            each for scope_folder in scope_folders for each in copies.on_folder(scope_folder, journal=private)
        ]

    def hidden(self, places: Iterable[Place]) -> list[Finding]:
        """Return findings about unread files in these places, for every command that shows records."""
        places = [*places]
        self._told_hidden = True
        return [*self._left_out(places), *(each.finding for each in self.copies(places))]

    def untold(self) -> list[str]:
        """Return notes about files that were not read and not reported yet."""
        if self._told_hidden or not files.cut_short:
            return []
        return [f"{each.where}: {each.why}" for each in self._left_out(scopes.visible(self.caller))]

    def _left_out(self, places: Iterable[Place]) -> Iterator[Finding]:
        """Yield a finding if the project's untrusted `.vade/` has files that are left out."""
        scope_folder = scopes.own_folder(self.home, self.caller.project)
        if (
            scope_folder is None
            or scope_folder.trusted
            or self.settings.incognito
            or scope_folder.place not in places
        ):
            return
        with contextlib.suppress(OutsideMemory, OSError):
            folder = scope_folder.open(filenames.RECORDS)
            if isinstance(folder, files.StrangersFolder):
                with folder:
                    folder.names(ordered=False)
                if folder.left_out.number:
                    yield files.told_left_out(scope_folder.name_of(filenames.RECORDS), folder.left_out)

    def hidden_note(self, places: Iterable[Place]) -> tuple[str, ...]:
        """Return a sentence about unread files, for commands on other subjects; empty when there are none."""
        from vademecum.store import copies

        found = self.hidden(places)
        left = tuple(f"{each.where}: {each.why}" for each in found if each.what == files.LEFT_OUT)
        copied = copies.sentence([each for each in found if each.what != files.LEFT_OUT])
        return (*left, copied) if copied else left

    def find(self, name: str | int, scope: str | Scope | None, *, only: bool = False) -> Found:
        """Return the visible record with this key, number or id; with `only`, raise an error for several."""
        if self.settings.incognito:
            raise NotFound("this session is incognito: nothing is read", hint="leave incognito mode")
        with self.reported(f"read {name}"):
            return self.records.find(str(name), scope=self.scope(scope), only=only)

    def mendable(self, name: str, scope: str | Scope | None) -> Found:
        """Return a record, or its unreadable file, so that a person can repair it."""
        try:
            return self.find(name, scope, only=True)
        except Malformed:
            found = self.records.raw(name, scope=self.scope(scope))
            if found is None:
                raise
            return found

    def project(self) -> scopes.Project:
        """Return the project of this folder; raise an error when there is none."""
        scopes.place_for(self.caller, Scope.PROJECT)
        if self.caller.project is None:
            raise StorageFailed("this folder has no project")
        return self.caller.project

    def audit(self, operation: str, *, scope: Scope | None = None, record: str | None = None) -> None:
        """Write a line to the audit."""
        audit.write(
            self.home,
            at=self.now(),
            actor=self.caller.actor,
            client=self.caller.client,
            operation=operation,
            scope=scope,
            record=record,
        )

    def stamp(self) -> str:
        """Return the current time as it is written in records."""
        return clock.stamp(self.now())

    def pinned(self, places: Iterable[Place]) -> tuple[list[Pinned], list[Finding]]:
        """Return the pinned documents of these places, and findings for unreadable and too large ones."""
        pinned: list[Pinned] = []
        findings: list[Finding] = []
        for each in self.documents.all(places):
            if isinstance(each, Finding):
                findings.append(each)
            else:
                pinned.append(each)
                if each.over:
                    why = f"{each.size:,} of {each.budget:,}: shorten it, or agents see only the beginning"
                    findings.append(Finding("over budget", each.path, why, f"vade edit {each.name}"))
        return pinned, findings


def parse_audience(name: str | Audience) -> Audience:
    """Return the audience with this name."""
    try:
        return Audience(name)
    except ValueError:
        raise UnknownName(
            f"{names.shown(str(name))} is not an audience", hint=f"the audiences are {', '.join(Audience)}"
        ) from None


def listing_order(record: Record) -> tuple[int, str, int, str]:
    """Return a sort key for listing records: the nearest scope first, then by number."""
    return list(Scope).index(record.place.scope), record.place.id, record.num or 0, record.key
