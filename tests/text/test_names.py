"""Names: none overwrites another on any file system, and none leads out of the memory."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import stat
import subprocess
import sys
import threading
import time
import unicodedata
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tiers
from cases import every_case
from vademecum.errors import Collision, InvalidKey, OutsideMemory, VadeError
from vademecum.memory import Memory, connect
from vademecum.store import folders, lookup
from vademecum.text import names
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 20261115

# --- a file system that ignores case and composition --------------------------------------------------------


def alike(name: str) -> str:
    """What such a file system takes two names for: the same when this is the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def resolved(name: str, dir_fd: int | None) -> str:
    """The entry that a name opens there: itself, or one that differs only in case or composition."""
    if dir_fd is None or "/" in name:
        return name
    present = os.listdir(dir_fd)
    if name in present:
        return name
    return next((other for other in present if alike(other) == alike(name)), name)


class Insensitive:
    """The `os` module as a folder sees it on such a file system."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        return os.open(resolved(path, dir_fd), flags, mode, dir_fd=dir_fd)

    def stat(self, path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(resolved(path, dir_fd), dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def mkdir(self, path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        os.mkdir(resolved(path, dir_fd), mode, dir_fd=dir_fd)

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        os.unlink(resolved(path, dir_fd), dir_fd=dir_fd)

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        os.rmdir(resolved(path, dir_fd), dir_fd=dir_fd)

    def replace(self, old: str, new: str, *, src_dir_fd: int | None, dst_dir_fd: int | None) -> None:
        source, target = resolved(old, src_dir_fd), resolved(new, dst_dir_fd)
        os.replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def link(self, old: str, new: str, *, src_dir_fd: int | None, dst_dir_fd: int | None) -> None:
        source, target = resolved(old, src_dir_fd), resolved(new, dst_dir_fd)
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)


def _renaming() -> Callable[[int, bytes, bytes, int], int]:
    real = folders.renaming_call()
    assert real is not None

    def rename_with(fd: int, old: bytes, new: bytes, flag: int) -> int:
        source, target = (resolved(os.fsdecode(name), fd) for name in (old, new))
        return real(fd, os.fsencode(source), os.fsencode(target), flag)

    return rename_with


@pytest.fixture
def insensitive(monkeypatch: pytest.MonkeyPatch) -> None:
    call = _renaming()
    monkeypatch.setattr(folders, "os", Insensitive())
    monkeypatch.setattr(folders, "renaming_call", lambda: call)


@pytest.mark.usefixtures("insensitive")
def test_the_simulated_file_system_confuses_names(tmp_path: Path) -> None:
    (tmp_path / "Foo.md").write_text("by hand")
    with folders.Folder.at(tmp_path) as folder:
        state = folder.stat("foo.md")
        assert state is not None
        assert stat.S_ISREG(state.st_mode)
        os.close(folder.open("new", os.O_CREAT | os.O_WRONLY))
        with pytest.raises(FileExistsError):
            folder.place("new", "FOO.md")
        folder.rename("new", "FOO.md")
    assert [path.name for path in tmp_path.iterdir()] == ["Foo.md"]
    assert (tmp_path / "Foo.md").read_text() == ""


# --- R17: pairs of names ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pair:
    """Two names that some file system confuses, or that some system does not take at all."""

    kind: str
    one: str
    other: str


KINDS = ("key", "slug", "session", "agent", "project", "hand-made")


def pairs() -> Iterator[Pair]:
    """Five hundred and more."""
    odd = itertools.count()
    for kind in KINDS:
        for word in ("foo", "straße", "café", "ﬁle", "Ångström", "note", "İstanbul", "한글"):
            n = next(odd)
            forms = (
                (f"{word}{n}a", f"{word.upper()}{n}A"),
                (f"{word}{n}b", f"{word.capitalize()}{n}b"),
                (unicodedata.normalize("NFC", f"{word}{n}c"), unicodedata.normalize("NFD", f"{word}{n}c")),
                (unicodedata.normalize("NFKC", f"{word}{n}d"), f"{word}{n}d"),
                (f"{word}{n}e", f"{word}{n}e."),
                (f"{word}{n}f", f"{word}{n}f "),
                (f"{word}-{n}g", f"{word}_{n}g"),
                (f"{word}{n}h", f" {word}{n}h"),
            )
            yield from (Pair(kind, one, other) for one, other in forms)
        for device in ("CON", "con", "aux", "AUX.md", "nul", "prn", "com1", "COM1.md", "lpt9", "conin$"):
            yield Pair(kind, device, device.swapcase())
        for size in (1, 59, 60, 61, 127, 128, 129, 250, 251, 252, 255, 256, 300):
            n = next(odd)
            yield Pair(kind, f"l{n}".ljust(size, "x"), f"L{n}".ljust(size, "x"))


def test_there_are_five_hundred_pairs() -> None:
    assert len(list(pairs())) >= 500


def keep(base: Path, kind: str, name: str, text: str) -> Path | None:
    """Keep a text under a name; the file it is in, or None when the name was refused."""
    given: dict[str, Any] = {"home": base / "home", "cwd": base}
    try:
        if kind == "hand-made":
            path = base / "home" / "memory" / "global" / "records" / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            entry = resolved(path.name, fd := os.open(path.parent, os.O_RDONLY))
            os.close(fd)
            try:
                with open(path.parent / entry, "x", encoding="utf-8") as file:
                    file.write(text)
            except FileExistsError:
                return None  # the person sees that there is such a file
            return path
        if kind in ("key", "slug"):
            stored = connect(**given).store(text, key=name, scope="global", slug=kind == "slug")
        elif kind == "project":
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("VADE_PROJECT_ID", name)
                stored = connect(**given).store(text, key="note", scope="project")
        else:
            given[kind] = name
            stored = connect(**given).store(text, key="note", scope=kind)
    except VadeError:
        return None
    except OSError as error:
        if kind == "hand-made" and error.errno == errno.ENAMETOOLONG:
            return None
        raise
    return base / "home" / stored.path


def pair_problems(base: Path, pair: Pair) -> list[str]:
    one, other = f"first text {pair.one}", f"second text {pair.other}"
    first = keep(base, pair.kind, pair.one, one)
    second_kind = "slug" if pair.kind == "hand-made" else pair.kind
    second = keep(base, second_kind, pair.other, other)
    problems = []
    found = []
    for path, text in ((first, one), (second, other)):
        content = "" if path is None else _really(path).read_text()
        found.append(content)
        if path is not None and text.strip() not in content:
            problems.append(f"{pair}: an acknowledged text is gone")
    if first and second and one.strip() in found[1] and not _meant_alike(pair):
        problems.append(f"{pair}: two different names share one file")
    return problems


def _really(path: Path) -> Path:
    """The file that a path means on a file system that ignores case and composition."""
    for depth in range(1, len(path.parts)):
        here = Path(*path.parts[:depth])
        name = path.parts[depth]
        if not (here / name).exists():
            name = next(other for other in os.listdir(here) if alike(other) == alike(name))
            path = Path(here, name, *path.parts[depth + 1 :])
    return path


def _meant_alike(pair: Pair) -> bool:
    """Whether both names are the same one by intent: equal, or made into the same key as asked."""
    if pair.kind in ("slug", "hand-made"):
        same_key = names.slug(pair.one) == names.slug(pair.other)
        return same_key or alike(pair.one) == alike(pair.other)  # a file system may say that it is one name
    # Settings, and so the names of agents and projects, are read without the blanks around them.
    return pair.one.strip() == pair.other.strip()


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand writes whose durability is not what is looked at."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.mark.full
@pytest.mark.usefixtures("unsynced")
def test_no_name_overwrites_another(tmp_path: Path) -> None:
    assert [problem for pair in pairs() for problem in pair_problems(tmp_path, pair)] == []


@pytest.mark.scaled
@pytest.mark.usefixtures("insensitive", "unsynced")
def test_no_name_overwrites_another_where_case_and_composition_are_ignored(tmp_path: Path) -> None:
    assert [
        problem for pair in [*pairs()][:: tiers.few(5, 1)] for problem in pair_problems(tmp_path, pair)
    ] == []


@pytest.mark.usefixtures("insensitive")
def test_the_checker_sees_a_store_that_does_not_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vademecum.store import scopes

    monkeypatch.setattr(scopes, "check_new_folder", lambda scope_folder: None)
    chosen = [pair for pair in pairs() if pair.kind == "session"][:8]
    assert [problem for pair in chosen for problem in pair_problems(tmp_path, pair)]


def test_ids_that_differ_only_in_case_are_a_collision_everywhere(tmp_path: Path) -> None:
    for kind in ("session", "agent"):
        first: dict[str, Any] = {kind: "Foo"}
        second: dict[str, Any] = {kind: "foo"}
        connect(home=tmp_path / "home", cwd=tmp_path, **first).store("text", key="note", scope=kind)
        with pytest.raises(Collision):
            connect(home=tmp_path / "home", cwd=tmp_path, **second).store("text", key="note", scope=kind)


# --- S15: names that try to leave ---------------------------------------------------------------------------

HOSTILE = (
    *("..", ".", "", "/", "//", "../outside", "../../outside/secret", "..\\outside", "a/../../outside"),
    *("/etc/passwd", "\\\\server\\share", "C:\\x", "C:x", "c:", "a\0b", "\0", "a\nb", "a\r", "\n", "%2e%2e"),
    *(
        "%2e%2e%2foutside",
        "..%2f",
        "....//",
        ".git",
        ".vade-x",
        "-",
        "--",
        "-rf",
        "~",
        "~root",
        "$HOME",
        "`id`",
    ),
    *(
        "$(id)",
        "a" * 5_000,
        "é" * 300,
        "🧠",
        "🧠" * 100,
        "\u202e",
        "\u2024\u2024",
        "．．",
        "..\u200b",
        "a.",
        "a ",
    ),
    *(" a", "a:b", "a*", "a?", 'a"b', "a<b", "a|b", "con", "CON", "aux.md", "com1", "index", "log", "INDEX"),
    *("outside", "secret", "\ud800", "\udc80", "\ufffe", "\x7f"),
)


@dataclass(frozen=True, slots=True)
class Arena:
    """A memory with a canary outside of it."""

    base: Path

    @property
    def outside(self) -> Path:
        return self.base / "outside"

    @property
    def cwd(self) -> Path:
        return self.base / "inner" / "work"

    def open(self, **given: Any) -> Memory:
        return connect(home=self.base / "inner" / "home", cwd=self.cwd, **given)

    def surroundings(self) -> dict[str, tuple[int, bytes]]:
        """All that lies outside the home, and what it holds."""
        found = {}
        for top, folders_below, files in os.walk(self.base):
            own = ("home", ".vade") if top == str(self.cwd) else ("home",)
            folders_below[:] = [name for name in folders_below if name not in own]
            for name in (*files, *folders_below):
                path = os.path.join(top, name)
                content = Path(path).read_bytes() if stat.S_ISREG(os.lstat(path).st_mode) else b""
                found[path] = (os.lstat(path).st_mode, content)
        return found


CANARY = "CANARY-48151623"


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return built(tmp_path)


def built(base: Path) -> Arena:
    arena = Arena(base)
    arena.cwd.mkdir(parents=True)
    arena.outside.mkdir()
    for name in ("secret.md", "outside.md", "note.md", "2026-11-15.md", "context.md", "MEMORY.md"):
        (arena.outside / name).write_text(f"# {CANARY}\n\n{CANARY}\n")
    (base / "inner" / "secret.md").write_text(CANARY)
    arena.open().store("an honest note", key="note", scope="global")
    return arena


def doors(arena: Arena, name: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every door that takes a name from a caller."""
    memory = arena.open(origin=Origin.USER)
    yield "key", lambda: memory.store("text", key=name, scope="global")
    yield "slug", lambda: memory.store("text", key=name, scope="global", slug=True)
    yield "session", lambda: arena.open(session=name or None).store("text", key="k", scope="session")
    yield "agent", lambda: arena.open(agent=name).store("text", key="k", scope="agent")
    yield "agent's note", lambda: arena.open(agent=name).note("text", scope="agent")
    yield "source", lambda: memory.sources.add(arena.outside, name=name)
    yield "remove source", lambda: memory.sources.remove(name)
    yield "alias", lambda: memory.projects.alias(name)
    yield "show", lambda: memory.show(name)
    yield "forget", lambda: memory.forget(name, scope="session")
    yield "restore", lambda: memory.restore(name)
    yield "purge", lambda: memory.archive.purge(name, scope="agent")
    yield "versions", lambda: memory.archive.versions(name)
    yield "protect", lambda: memory.review.protect(name)
    yield "editable", lambda: memory.care.editable(name)
    yield "edited", lambda: memory.care.edited(name, "", "text")
    for path in (
        name,
        f"memory/global/records/{name}",
        f"memory/global/{name}",
        f".vade/{name}",
        f"{name}/a.md",
    ):
        yield f"get {path!r}", partial(memory.get, path)
    yield "get .md", lambda: memory.get(f"memory/global/records/{name}.md")
    yield "get lines", lambda: memory.get(f"{memory.home.path}/{name}.md", start=1, lines=3)
    for scope in ("session", "project"):
        yield f"list {scope}", partial(_listed, arena, name, scope)


def _listed(arena: Arena, name: str, scope: str) -> object:
    return arena.open(session=name or None).list(scope=scope)


def door_problems(arena: Arena, name: str) -> list[str]:
    before = arena.surroundings()
    problems = []
    for door, act in doors(arena, name):
        try:
            answer: object = act()
        except VadeError as error:
            answer = f"{error} {error.hint}"
        except Exception as error:
            problems.append(f"{door} of {name!r}: {type(error).__name__}: {error}")
            continue
        if CANARY in repr(answer):
            problems.append(f"{door} of {name!r} shows what is outside: {answer!r}")
    with contextlib.suppress(VadeError, UnicodeEncodeError, ValueError):
        arena.open(origin=Origin.USER).sources.remove(name)
    if arena.surroundings() != before:
        problems.append(f"{name!r} left something outside")
    return problems


@pytest.mark.full(but=20)
@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:30])
def test_a_name_that_tries_to_leave_is_refused_or_tamed_at_every_door(arena: Arena, name: str) -> None:
    assert door_problems(arena, name) == []


@every_case("name", [name for name in HOSTILE if name not in ("secret", "outside")])
def test_a_key_that_is_none_is_refused_and_slugged_when_asked(name: str) -> None:
    with pytest.raises(InvalidKey):
        names.check_key(name)
    assert names.is_key(names.slug(name))


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return built(tmp_path_factory.mktemp("arena"))


parts = st.sampled_from(
    ["..", ".", "/", "\\", "a", "outside", "secret.md", "memory", "global", "records", ".vade", "\0", "~"]
)
strings = (
    st.text(st.characters(), max_size=30)
    | st.lists(parts, max_size=8).map("".join)
    | st.sampled_from(HOSTILE)
)


@given(strings)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example("../../outside/secret")
@example("records/../../../../outside/secret.md")
def test_no_string_leads_out_of_the_memory(lasting: Arena, name: str) -> None:
    assert door_problems(lasting, name) == []


@given(st.text(st.characters()))
@settings(max_examples=500, deadline=None)
def test_every_text_makes_a_key(text: str) -> None:
    assert names.is_key(names.slug(text))
    assert names.is_key(names.auto_key(text))
    assert names.is_key(names.numbered(names.slug(text), 12345))
    assert names.folded(names.folded(text)) == names.folded(text)


def test_a_key_that_began_with_a_dash_before_is_read_and_forgotten_and_none_is_made(tmp_path: Path) -> None:
    memory = connect(home=tmp_path / "home", cwd=tmp_path, agent="main", origin=Origin.USER)
    memory.store("Made by a version that took it.", key="old", scope="global")
    records = tmp_path / "home/memory/global/records"
    text = (records / "old.md").read_text().replace("key: old", "key: -old")
    (records / "-old.md").write_text(text)
    (records / "old.md").unlink()
    assert memory.show("-old").text == "Made by a version that took it."
    assert [each.key for each in memory.list().records] == ["-old"]
    with pytest.raises(InvalidKey, match="begins with a dash"):
        memory.store("Another.", key="-new", scope="global")
    assert memory.store("Another.", key="--new", scope="global", slug=True).key == "new"
    memory.forget("-old")
    memory.restore("-old")
    assert memory.show("-old").text == "Made by a version that took it."


@given(st.text(st.sampled_from("ab1-_ Ä\n./"), min_size=1, max_size=12))
@settings(max_examples=300, deadline=None)
@example("a--b")
@example("a-")
@example("-a")
@example("--")
@example("index")
def test_what_is_a_key_stays_one_however_it_is_given(text: str) -> None:
    assert names.is_new_key(names.slug(text))
    if names.is_new_key(text):
        assert names.slug(text) == names.check_key(text) == text


def test_the_checker_sees_a_door_that_follows_names_outside(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_readable", lambda caller, parts: True)
    monkeypatch.setattr(folders.Folder, "_target", lambda self, name: name)
    assert door_problems(arena, "../../../../../outside/secret.md")


# --- links, pipes and devices -------------------------------------------------------------------------------

PLANTED = {
    "the records folder": ("memory/global/records", "outside"),
    "the place's folder": ("memory/global", "outside"),
    "the memory folder": ("memory", "outside"),
    "a record": ("memory/global/records/secret.md", "outside/secret.md"),
    "the journal folder": ("memory/global/journal", "outside"),
    "a journal": ("memory/global/journal/2026-11-15.md", "outside/secret.md"),
    "a pinned document": ("memory/global/MEMORY.md", "outside/MEMORY.md"),
    "a project's folder": ("memory/project", "outside"),
    "the archive": ("archive", "outside"),
    "the audit": ("audit", "outside"),
    "the decisions": ("decisions", "outside"),
    "the locks": ("locks", "outside"),
}


def looking(memory: Memory) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "list", memory.list
    yield "status", memory.status
    yield "show", lambda: memory.show("secret")
    yield "sources", memory.sources.list
    yield "audit", memory.audit.lines
    yield "verify", memory.audit.verify
    yield "versions", lambda: memory.archive.versions("secret")
    for path in (
        "memory/global/records/secret.md",
        "memory/global/journal/2026-11-15.md",
        "memory/global/MEMORY.md",
        "MEMORY.md",
        "context.md",
        ".vade/records/secret.md",
        ".vade/context.md",
        ".vade/secret.md",
    ):
        yield f"get {path}", partial(memory.get, path)


def writing(memory: Memory) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "store", lambda: memory.store("planted text", key="secret", scope="global")
    yield "store project", lambda: memory.store("planted text", key="secret")
    yield "keyless", lambda: memory.store("planted text of some length", scope="global")
    yield "note", lambda: memory.note("planted text", scope="global")
    yield "forget", lambda: memory.forget("secret", scope="global")
    yield "purge", lambda: memory.archive.purge("secret", scope="global")
    yield "purge text", lambda: memory.archive.purge_text(CANARY)
    yield "pinned", lambda: memory.care.edited("MEMORY.md", "", "planted text", scope="global")
    yield "listing", memory.care.write_listing
    yield "clear", lambda: memory.archive.clear(scope="global")


def link_problems(arena: Arena, memory: Memory) -> list[str]:
    before = arena.surroundings()
    problems = []
    for door, act in (*looking(memory), *writing(memory)):
        try:
            answer: object = act()
        except VadeError as error:
            answer = str(error)
        except Exception as error:
            problems.append(f"{door}: {type(error).__name__}: {error}")
            continue
        if CANARY in repr(answer):
            problems.append(f"{door} shows what is outside")
    if arena.surroundings() != before:
        problems.append("something outside changed")
    return problems


@pytest.mark.parametrize("what", PLANTED)
def test_a_link_planted_in_the_home_leads_nowhere(arena: Arena, what: str) -> None:
    inside, outside = PLANTED[what]
    path = arena.base / "inner" / "home" / inside
    if path.exists():
        path.rename(path.with_name(f"{path.name}-before"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(arena.base / outside)
    assert link_problems(arena, arena.open(session="s", origin=Origin.USER)) == []


@pytest.mark.parametrize(
    "inside", [".vade", ".vade/records", ".vade/records/secret.md", ".vade/context.md", ".vade/config.toml"]
)
@pytest.mark.parametrize("trusted", [False, True])
def test_a_link_planted_in_a_repository_leads_nowhere(arena: Arena, inside: str, trusted: bool) -> None:
    path = arena.cwd / inside
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(arena.outside / "secret.md" if path.suffix else arena.outside)
    if trusted:
        with contextlib.suppress(VadeError):
            arena.open(origin=Origin.USER).projects.trust()
    try:
        memory = arena.open(origin=Origin.USER)
    except VadeError as error:
        shown = str(error)
        assert CANARY not in shown
        return
    assert link_problems(arena, memory) == []


def test_a_link_among_the_records_does_not_hide_the_others(arena: Arena) -> None:
    records = arena.base / "inner" / "home" / "memory" / "global" / "records"
    (records / "evil.md").symlink_to(arena.outside / "secret.md")
    os.mkfifo(records / "pipe.md")
    (records / "folder.md").mkdir()
    listing = arena.open().list()
    assert [record.key for record in listing.records] == ["note"]
    assert sorted(Path(finding.where).name for finding in listing.findings) == [
        "evil.md",
        "folder.md",
        "pipe.md",
    ]
    status = arena.open().status()
    assert {Path(finding.where).name for finding in status.findings} == {"evil.md", "folder.md", "pipe.md"}


def test_a_link_in_place_of_a_repositorys_memory_does_not_hide_the_users_own(arena: Arena) -> None:
    (arena.cwd / ".vade").symlink_to(arena.outside)
    listing = arena.open().list()
    assert [record.key for record in listing.records] == ["note"]
    assert [finding.where for finding in listing.findings] == [".vade/records"]
    assert ".vade/records" in [finding.where for finding in arena.open().status().findings]


def test_pipes_and_devices_neither_hang_nor_answer(arena: Arena) -> None:
    home = arena.base / "inner" / "home"
    for path in (
        "memory/global/records/secret.md",
        "memory/global/MEMORY.md",
        "memory/global/journal/2026-11-15.md",
    ):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(home / path)
    with contextlib.suppress(PermissionError):
        os.mknod(home / "memory/global/records/zero.md", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    vault = arena.base / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("honest")
    os.mkfifo(vault / "pipe.md")
    script = f"""
from pathlib import Path
from vademecum.errors import VadeError
from vademecum.memory import connect
from vademecum.types import Origin
memory = connect(home={str(home)!r}, cwd={str(arena.cwd)!r}, origin=Origin.USER)
for act in (
    memory.list, memory.status, lambda: memory.get("memory/global/records/secret.md"),
    lambda: memory.get("MEMORY.md"), lambda: memory.show("zero"), lambda: memory.sources.add({str(vault)!r}),
    lambda: memory.store("text", key="secret", scope="global"), lambda: memory.store("text", scope="global"),
    lambda: memory.note("text", scope="global"), lambda: memory.archive.purge_text("no such text"),
    lambda: (Path({str(home)!r}, "last-number").unlink(), memory.store("more", key="more", scope="global")),
):
    try:
        print(act())
    except VadeError as error:
        print(type(error).__name__, error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=False
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("tries", [2_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_a_link_swapped_in_while_we_read_never_shows_what_is_outside(arena: Arena, tries: int) -> None:
    records = arena.base / "inner" / "home" / "memory" / "global" / "records"
    away, link = records.with_name("away"), records.with_name("link")
    link.symlink_to(arena.outside)
    done = threading.Event()
    call = folders.renaming_call()
    assert call is not None

    def swap() -> None:
        rng = random.Random(SEED)
        fd = os.open(records.parent, os.O_RDONLY)
        while not done.is_set():
            call(fd, b"records", b"link", 2)
            if rng.random() < 0.1:
                time.sleep(0)
        os.close(fd)

    thread = threading.Thread(target=swap)
    thread.start()
    memory = arena.open()
    answers = {"ours": 0, "refused": 0, "escaped": 0, "empty": 0}
    try:
        for _ in range(tries):
            try:
                text = memory.get("memory/global/records/note.md").text
            except OutsideMemory:
                answers["refused"] += 1
            else:
                answers["escaped" if CANARY in text else "ours" if "honest" in text else "empty"] += 1
    finally:
        done.set()
        thread.join()
    assert not away.exists()
    assert answers["escaped"] == 0
    assert answers["ours"] > 0
    assert answers["refused"] > 0
