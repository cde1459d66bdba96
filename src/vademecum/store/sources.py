"""Sources: folders of Markdown from elsewhere, attached by name, read in place and never written."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.errors import Collision, NotFound, UsageError
from vademecum.named_tuple import NamedTuple
from vademecum.store import decisions, scopes
from vademecum.store.files import DiskFolder
from vademecum.text import names, outgoing
from vademecum.types import Audience, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from vademecum.store.home import Home
    from vademecum.store.workspace import Workspace

KINDS = ("memory", "journal", "pinned", "transcript")
_SUFFIXES = (".md", ".markdown")
# What programs fetch or make is nobody's notes: by the folder's name,
_FETCHED = frozenset(
    """node_modules bower_components jspm_packages __pycache__ __pypackages__ site-packages dist-packages venv
    Pods""".split()
)
# by its name beside a file that says what makes it,
_PYTHON = ("pyproject.toml", "setup.py", "setup.cfg")
_PACKAGES = ("package.json", "deno.json", *_PYTHON)
_JVM = ("pom.xml", "build.gradle", "build.gradle.kts", "build.sbt")
_MADE_BESIDE = {
    "target": ("Cargo.toml", *_JVM),
    "dist": _PACKAGES,
    "build": (*_PACKAGES, *_JVM, "CMakeLists.txt", "pubspec.yaml", "meson.build"),
    "out": ("package.json", *_JVM),
    "vendor": ("go.mod", "composer.json", "Gemfile"),
    "deps": ("mix.exs",),
    "_build": ("mix.exs", "dune-project"),
}
# or by a file inside: a Python environment, and what says of itself that it is a cache.
_MARKS = frozenset({"pyvenv.cfg", "CACHEDIR.TAG"})
_BEYOND = 8 * 1024  # bytes behind the beginning of a file that are looked through for secrets with it


class Source(NamedTuple):
    """An attached folder or file, and whether its text may be injected."""

    name: str
    path: Path
    place: Place
    inject: bool
    at: str

    def folders(
        self,
        unreadable: Callable[[OSError], None] | None = None,
        left_out: Callable[[str], None] | None = None,
    ) -> Iterator[tuple[str, tuple[str, ...], Callable[[str], bool]]]:
        """Yield the source's folders, as its top and the names below, with a test for Markdown file names.

        Links are not followed. Folders that are hidden, fetched by a package manager or made by a build are
        left out and passed to `left_out`; errors of unreadable folders go to `unreadable`.
        """
        if self.path.is_file():
            own = {self.path.name} if _is_markdown(self.path.name) else set()
            yield str(self.path.parent), (), own.__contains__
            return
        top = str(self.path)
        for folder, below, files in os.walk(top, onerror=unreadable):
            if folder != top and not _MARKS.isdisjoint(files):
                below.clear()
                if left_out is not None:
                    left_out(folder)
                continue
            foreign = {name for name in below if _is_foreign(name, files)}
            if left_out is not None:
                for name in foreign:
                    left_out(os.path.join(folder, name))
            below[:] = sorted(name for name in below if name not in foreign)
            inside = os.path.relpath(folder, top)
            yield top, () if inside == "." else tuple(inside.split(os.sep)), _is_markdown

    def markdown(self, left_out: Callable[[str], None] | None = None) -> Iterator[Path]:
        """Yield the paths of the source's Markdown files."""
        for top, below, wanted in self.folders(left_out=left_out):
            folder = Path(top, *below)
            for name in sorted(filter(wanted, os.listdir(folder))):
                path = folder / name
                # A pipe would keep its reader waiting for ever.
                if not path.is_symlink() and path.is_file():
                    yield path

    def count_files(self) -> tuple[int, int]:
        """Return the number of the source's Markdown files, and of the folders left out."""
        passed: list[str] = []
        return sum(1 for _ in self.markdown(passed.append)), len(passed)

    def newest(self, most: int, *, chars: int) -> Iterator[tuple[str, str]]:
        """Yield path and first `chars` characters of the `most` newest files, with secrets redacted."""
        aged = []
        for path in self.markdown():
            with contextlib.suppress(OSError):
                aged.append((-path.stat().st_mtime_ns, str(path)))
        for _, name in sorted(aged)[:most]:
            with contextlib.suppress(OSError), open(name, "rb") as file:
                # What is cut off is looked at as well: half a secret would not be known as one.
                text = file.read(4 * chars + _BEYOND).decode(errors="ignore")
                yield name, outgoing.clean_text(text)[:chars]

    def holds(self, path: str) -> tuple[str, tuple[str, ...]] | None:
        """Return the source's folder and the names below it on the path to a file; None for foreign files."""
        if self.path.is_file():
            return (str(self.path.parent), (self.path.name,)) if path == str(self.path) else None
        if not path.startswith(f"{self.path}{os.sep}"):
            return None
        names = tuple(path[len(str(self.path)) + 1 :].split(os.sep))
        if not all(names) or not _is_markdown(names[-1]):
            return None
        folder = str(self.path)
        for name in names[:-1]:
            if _is_foreign(name, _files_in(folder)):
                return None
            folder = os.path.join(folder, name)
            if not _MARKS.isdisjoint(_files_in(folder)):
                return None
        return str(self.path), names

    @property
    def problem(self) -> str:
        """Return why the source cannot be read now; empty when it can be read."""
        if not self.path.exists():
            return "is gone"
        if os.path.realpath(self.path) != str(self.path):
            return "is now a link: attach its target"
        return "" if os.access(self.path, os.R_OK) else "cannot be read"


def add(
    home: Home, caller: scopes.Caller, path: Path, *, name: str | None, inject: bool, scope: Scope, at: str
) -> Source:
    """Attach a folder or a file of Markdown as a source."""
    real = Path(os.path.realpath(path.expanduser()))
    if not real.exists():
        raise NotFound(f"{path} does not exist", hint="check the path; relative ones begin at this folder")
    own = Path(os.path.realpath(home.path))
    if real == own or own in real.parents or real in own.parents:
        raise UsageError(
            f"{path} and the memory folder {home.path} contain each other",
            hint="attach only other folders: memory is always searched",
        )
    source = Source(_name(home, name, real), real, scopes.place_for(caller, scope), inject, at)
    if next(source.markdown(), None) is None:
        raise UsageError(
            f"{path} contains no Markdown", hint="attach a folder with .md files, or one such file"
        )
    for other in every(home):
        if other.path == real and other.name != source.name:
            raise Collision(
                f"{path} is already attached as {other.name}", hint="remove it first to rename it"
            )
    decisions.put(
        home,
        "sources",
        source.name,
        {
            "path": str(real),
            "scope": str(source.place.scope),
            "scope_id": source.place.id,
            "inject": inject,
            "at": at,
        },
    )
    return source


def visible(home: Home, caller: scopes.Caller) -> list[Source]:
    """Return the sources attached to places that the caller can see; none for a group."""
    if caller.audience is Audience.GROUP:
        return []
    places = scopes.visible(caller)
    return [source for source in every(home) if source.place in places]


def every(home: Home) -> list[Source]:
    """Return all attached sources."""
    found = []
    for name, decision in decisions.every(home, "sources"):
        try:
            place = Place(Scope(decision["scope"]), str(decision.get("scope_id") or ""))
            path = Path(decision["path"])
        except (KeyError, ValueError, TypeError):
            continue
        found.append(Source(name, path, place, decision.get("inject") is True, str(decision.get("at") or "")))
    return found


def remove(home: Home, caller: scopes.Caller, name: str) -> None:
    """Detach a source; its files stay as they are."""
    seen = any(source.name == name for source in visible(home, caller))
    if not seen or not decisions.drop(home, "sources", name):
        raise NotFound(f"no source is called {names.shown(name)}", hint="run `vade sources list`")


def _name(home: Home, name: str | None, path: Path) -> str:
    """Return the requested name, or a free name made from the folder's name."""
    paths = {source.name: source.path for source in every(home)}
    if name is not None:
        names.without_secret(names.check_key(name), "the source's name")
        if name in KINDS:
            raise Collision(f"{name} is reserved", hint="choose another `--name`")
        if paths.get(name, path) != path:
            raise Collision(f"a source named {name} is already attached", hint="choose another `--name`")
        return name
    wanted = names.without_secret(names.slug(path.stem if path.is_file() else path.name), "its own name")
    candidates = [wanted, *(names.numbered(wanted, number) for number in range(2, 1000))]
    return next(each for each in candidates if each not in KINDS and paths.get(each, path) == path)


def entered(top: str, below: tuple[str, ...]) -> DiskFolder:
    """Open the folder `below` the top of a source; refuse a link as the top or as a folder below it."""
    above, name = os.path.split(top)
    if not name:  # the root of a file system cannot be a link
        with DiskFolder.at(top) as folder:
            return folder.enter(*below)
    with DiskFolder.at(above) as folder:
        return folder.enter(name, *below)


def _is_foreign(name: str, beside: Collection[str]) -> bool:
    """Return whether a folder of this name, beside these files, is hidden or fetched or made by programs."""
    made_by = _MADE_BESIDE.get(name, ())
    return name.startswith(".") or name in _FETCHED or any(each in beside for each in made_by)


def _files_in(folder: str) -> Collection[str]:
    """Return the names in a folder; none when the folder is unreadable."""
    with contextlib.suppress(OSError, ValueError):  # a name may hold a NUL
        return frozenset(os.listdir(folder))
    return ()


def _is_markdown(name: str) -> bool:
    return name.lower().endswith(_SUFFIXES)


class Sources:
    """Commands on attached sources: attach, list and detach."""

    def __init__(self, workspace: Workspace) -> None:
        self._work = workspace

    def add(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        inject: bool = False,
        scope: str | Scope = Scope.GLOBAL,
    ) -> Source:
        """Attach a folder or a file of Markdown, to be read in place."""
        self._work.may_write()
        self._work.only_a_person("attach a folder of this machine", "vade sources add")
        with self._work.reported(f"attach {path}"):
            source = add(
                self._work.home,
                self._work.caller,
                Path(path),
                name=name,
                inject=inject,
                scope=scopes.parse_scope(scope),
                at=self._work.stamp(),
            )
            self._work.audit("source")
        return source

    def list(self) -> Sequence[Source]:
        """Return the attached sources that the caller can see; none when incognito."""
        return [] if self._work.settings.incognito else visible(self._work.home, self._work.caller)

    def remove(self, name: str) -> None:
        """Detach a source; its files stay as they are."""
        self._work.may_write()
        self._work.only_a_person("detach a folder", "vade sources remove")
        with self._work.reported(f"detach {name}"):
            remove(self._work.home, self._work.caller, name)
            self._work.audit("source")
