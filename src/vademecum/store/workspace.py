"""What every part of memory stands on: who calls, what is set, where things are, and what is refused."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.errors import (
    IncognitoWrite,
    Malformed,
    ModelFailed,
    NotFound,
    NotVisible,
    OutsideMemory,
    Refused,
    StorageFailed,
    UnknownName,
    VadeError,
)
from vademecum.store import archive, audit, files, scopes, teams
from vademecum.store.catalogue import Catalogue
from vademecum.store.records import Found, Records
from vademecum.text import clock, names, secrets
from vademecum.types import Audience, Change, Finding, Origin, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from vademecum.config import Loaded, Settings
    from vademecum.llm.base import Model
    from vademecum.store.copies import SecondCopy
    from vademecum.store.home import Home
    from vademecum.store.journal import Journal
    from vademecum.store.pinned import Documents, Pinned
    from vademecum.store.requests import Waiting
    from vademecum.store.state import State
    from vademecum.types import Record


class Workspace:
    """Who calls, what is set, where things are, and what is refused: what `Memory` and its nouns share."""

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
        self._told_hidden = False
        catalogue = Catalogue(home, keep=not loaded.settings.incognito)
        self.records = Records(home, caller, now, self.announce, catalogue)

    @functools.cached_property
    def journal(self) -> Journal:
        """The journals in reach."""
        from vademecum.store.journal import Journal

        return Journal(self.home, self.caller, self.now, self.announce)

    @functools.cached_property
    def documents(self) -> Documents:
        """The pinned documents in reach."""
        from vademecum.store.pinned import Documents

        return Documents(self.home, self.caller, self.settings.inject, self.now, self.announce)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.loaded.settings

    @functools.cached_property
    def state(self) -> State:
        """Counters and caches of this home, which nothing depends on."""
        from vademecum.store.state import State

        return State(self.home)

    def one_look(self) -> AbstractContextManager[None]:
        """Look at each folder of records once in this block, for several answers about one moment."""
        return self.records.catalogue.one_look()

    def outside(self, path: Path) -> None:
        """Refuse to write among the files of memory, where it would be taken for one of them."""
        if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.home.path)):
            raise OutsideMemory(f"{path} is inside the memory folder", hint="choose a place outside of it")

    def language_model(self, model: str | Model | None) -> Model:
        """The model given, or named by the call or the settings; having none is told in one sentence."""
        from vademecum.llm.guarded import guarded
        from vademecum.llm.select import resolve

        if model is not None and not isinstance(model, str):
            return guarded(model)
        found = resolve(self.settings.model, self.settings.llm, flag=model)
        if found is None:
            raise ModelFailed(
                "no language model is configured, so nothing was changed",
                hint="name one with `--model provider:name`, VADE_MODEL, or `model` in config.toml",
            )
        return guarded(found)

    @property
    def root(self) -> Path | None:
        """The folder of the project, where there is one."""
        return None if self.caller.project is None else self.caller.project.root

    def announce(self, change: Change) -> None:
        """Tell who keeps a shadow of the files; their trouble does not undo what is on disk."""
        for listener in self.listeners:
            try:
                listener(change)
            except (VadeError, OSError) as error:
                self.index_trouble.append(f"{change.path}: {error}")

    def reported(self, doing: str) -> AbstractContextManager[None]:
        """Tell trouble of the disk as an error that names what was being done."""
        return files.reported(doing)

    def not_in_group(self, doing: str) -> None:
        """Refuse to a group what it may not."""
        if self.caller.audience is Audience.GROUP:
            raise NotVisible(f"a group session cannot {doing}")

    def only_a_person(self, doing: str, command: str) -> None:
        """Refuse to agents and groups what is a person's to ask for."""
        self.not_in_group(doing)
        if self.caller.origin is not Origin.USER:
            why = f", and {self.caller.undecided}" if self.caller.undecided else ""
            raise NotVisible(f"only a person can {doing}{why}", hint=f"run `{command}` in a terminal")

    def may_decide(self, doing: str, command: str) -> None:
        """Refuse a decision unless a person makes it: at a terminal, or by a script that the user allowed.

        What verifies, approves, rejects, trusts, protects or deletes for good, and what forgets a protected
        record, passes this first. `doing` completes "only a person can …"; `command` is what to run instead.
        """
        self.only_a_person(doing, command)
        if self.caller.undecided:
            raise NotVisible(
                f"only a person can {doing}, and {self.caller.undecided}",
                hint=self.caller.undecided_hint or f"run `{command}` in a terminal",
            )

    def at_a_command_line(self, doing: str, command: str) -> None:
        """Refuse what reads or writes files of this machine where there is no command line to do it at."""
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
    ) -> Waiting:
        """Let what was asked for wait until a person has decided about exactly this."""
        from vademecum.store import requests

        caller, project = self.caller, self.caller.project
        request = requests.Request(
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
            return requests.put(self.home, request)

    def content_hash(self, found: Found) -> str:
        """The hash of a record's file, as it is now."""
        from vademecum.store import reading

        return files.digest(reading.from_shelf(found.shelf, archive.RECORDS, found.name) or b"")

    def text_of(self, name: str | int, scope: str | Scope | None) -> tuple[str, str]:
        """The path and the text of a record's file, as it is now."""
        from vademecum.store import document, reading

        found = self.find(name, scope)
        content = reading.from_shelf(found.shelf, archive.RECORDS, found.name)
        return found.record.path, document.decode(content or b"")

    def may_write(self) -> None:
        """Refuse to write where nothing is saved: incognito, read-only, or a home of a newer version."""
        if self.settings.incognito:
            raise IncognitoWrite("this session is incognito: nothing is saved")
        if self.readonly:
            raise Refused("this session is read-only: nothing is saved", hint="run without `--readonly`")
        self.home.check()
        self.home.check_format()

    def settings_findings(self) -> Iterator[Finding]:
        """Lines of settings files that set nothing: the user's own, and those of a trusted repository."""
        shared = self.loaded.shared
        trusted = shared.problems if shared is not None and shared.trusted else ()
        for problem in (*self.loaded.problems, *trusted):
            yield Finding("settings", problem.where, problem.why, problem.hint or "vade config")

    def gate(self, text: str, scope: Scope) -> tuple[str, tuple[str, ...]]:
        """A text that passed the secret gate, and the kinds of secrets that were in it."""
        return secrets.gate(text, self.settings.secrets.in_scope(scope))

    def scope(self, scope: str | Scope | None) -> Scope | None:
        """The scope of that name; None for none."""
        return None if scope is None else scopes.parse_scope(scope)

    def places(self, scope: str | Scope | None, *, all: bool = False) -> Sequence[Place]:
        """The places that a call means: all in sight, those of a scope, or with `all` every one there is."""
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
        """The places in sight as a hub calls them, and the ids that projects among them had before."""
        found = []
        for place in self.places(scope):
            known = scopes.aliases(self.home, place.id) if place.scope is Scope.PROJECT else []
            found += [str(place), *(str(Place(place.scope, each)) for each in known)]
        return found

    def find_team(self, name: str, scope: Scope) -> teams.Team:
        """The team of that name, for memory of a scope that teams share."""
        return teams.find_shared(self.home, name, scope)

    def team_ids(self) -> set[str]:
        """The workspaces of the teams whose memory is here."""
        return {each.workspace for each in teams.list_teams(self.home)}

    def everything(self, places: Iterable[Place]) -> Iterator[Found | Finding]:
        """Every record of these places, and what cannot be read as one; nothing when incognito."""
        if self.settings.incognito:
            return iter(())
        return self.records.all(places)

    def folders(self) -> tuple[str, ...]:
        """Where the files lie that the caller sees, as their paths begin."""
        every = (scopes.shelves(self.home, self.caller, place) for place in self.places(None))
        return tuple(f"{shelf.label}/" for shelves in every for shelf in shelves)

    def copies(self, places: Iterable[Place]) -> list[SecondCopy]:
        """The second copies that sync tools left in these places; nothing when incognito."""
        from vademecum.store import copies

        if self.settings.incognito:
            return []
        private = self.caller.audience is Audience.PRIVATE
        shelves = (shelf for place in places for shelf in scopes.shelves(self.home, self.caller, place))
        return [each for shelf in shelves for each in copies.on_shelf(shelf, journal=private)]

    def hidden(self, places: Iterable[Place]) -> list[Finding]:
        """What of these places is kept out of sight; every door that shows something tells of it."""
        places = [*places]
        self._told_hidden = True
        return [*self._left_out(places), *(each.finding for each in self.copies(places))]

    def untold(self) -> list[str]:
        """What was left out of what was looked at, where nothing has told of it."""
        if self._told_hidden or not files.cut_short:
            return []
        return [f"{each.where}: {each.why}" for each in self._left_out(scopes.visible(self.caller))]

    def _left_out(self, places: Iterable[Place]) -> Iterator[Finding]:
        """What of a repository's folder is not looked at before somebody trusts it."""
        shelf = scopes.own_shelf(self.home, self.caller.project)
        if shelf is None or shelf.trusted or self.settings.incognito or shelf.place not in places:
            return
        with contextlib.suppress(OutsideMemory, OSError):
            folder = shelf.open(archive.RECORDS)
            if isinstance(folder, files.StrangersFolder):
                with folder:
                    folder.names(ordered=False)
                if folder.left_out.number:
                    yield files.told_left_out(shelf.name_of(archive.RECORDS), folder.left_out)

    def hidden_note(self, places: Iterable[Place]) -> tuple[str, ...]:
        """The same in a sentence, for who asked for something else; nothing where nothing is hidden."""
        from vademecum.store import copies

        found = self.hidden(places)
        left = tuple(f"{each.where}: {each.why}" for each in found if each.what == files.LEFT_OUT)
        copied = copies.sentence([each for each in found if each.what != files.LEFT_OUT])
        return (*left, copied) if copied else left

    def find(self, name: str | int, scope: str | Scope | None, *, only: bool = False) -> Found:
        """One record in sight, by key, number or id."""
        if self.settings.incognito:
            raise NotFound("this session is incognito: nothing is read", hint="leave incognito mode")
        with self.reported(f"read {name}"):
            return self.records.find(str(name), scope=self.scope(scope), only=only)

    def mendable(self, name: str, scope: str | Scope | None) -> Found:
        """A record, or the file of one that cannot be read."""
        try:
            return self.find(name, scope, only=True)
        except Malformed:
            found = self.records.raw(name, scope=self.scope(scope))
            if found is None:
                raise
            return found

    def project(self) -> scopes.Project:
        """The project of this folder; an error where there is none."""
        scopes.place_for(self.caller, Scope.PROJECT)
        if self.caller.project is None:
            raise StorageFailed("this folder has no project")
        return self.caller.project

    def audit(self, operation: str, *, scope: Scope | None = None, record: str | None = None) -> None:
        """Write a line of the audit."""
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
        """Now, as it is written down."""
        return clock.stamp(self.now())

    def pinned(self, places: Iterable[Place]) -> tuple[list[Pinned], list[Finding]]:
        """The pinned documents of these places, and what is wrong with any."""
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
    """The audience of that name."""
    try:
        return Audience(name)
    except ValueError:
        raise UnknownName(
            f"{names.shown(str(name))} is not an audience", hint=f"the audiences are {', '.join(Audience)}"
        ) from None


def listing_order(record: Record) -> tuple[int, str, int, str]:
    """The order in which records are listed: the nearest scope first, then by number."""
    return list(Scope).index(record.place.scope), record.place.id, record.num or 0, record.key
