"""Every function of the package that takes text, and every pattern, over text made to slow them down.

They are found, not listed: what comes new is measured without anybody's having thought of it.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import importlib
import inspect
import itertools
import pkgutil
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import vademecum
from vademecum.lazy import LazyPattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

SIZES = (10_000, 20_000, 40_000)
GROWTH = 2.6  # of CPU time, for each doubling; quadratic is 4
NOTICED = 0.02  # seconds: less than this cannot be told from noise
UNITS = (
    "a", "A", "0", " ", "\n", "\t", "-", "_", ".", ",", ":", ";", "=", "#", "/", "\\", "\"", "'", "`",
    "|", "*", "+", "?", "!", "(", ")", "[", "]", "{", "}", "<", ">", "@", "$", "%", "&", "~", "^", "é",
    "ß", "漢", "字。", "\u200b", "😀", "\u0301", "\r", "\r\n", "a-", "a_", "a.", "a,", "a ", "a\n",
    "a:", "a=", "a/", "a'", "aA", "0a", "0.", "0,", "0-", "1:1 ", "a b ", "a. ", "A. ", "e.g. ", "[[a#",
    "[[a|", "[[", "]]", "[a](", "[a](b", "](", "![", "[a]: b\n", "<a", "<a ", "</a>", "<!-- ", "-->",
    "<!--a-->", "**", "**a", "`a", "```\n", "~~~\n", "    a\n", "# ", "# a\n", "## a\n\n", "- ",
    "- a\n", "- [ ] a\n", "1. a\n", "> ", "> a\n", "| a ", "|-|\n", "---\n", "a: b\n", "a: [", "{a: ",
    "- - ", "\"a\": {", "[1,", "{\"a\":", "\\n", "\\u00", "\\\"", "\"\\", "https://a", "://", "a@b.",
    "a/b.py:1 ", "a.b(", "--a ", "--a=b ", "$(", "${", "%20", "not ", "if ", "never ", "is ", "the ",
    "port is 1 ", "and ", "must not ", "2026-01-01 ", "10:00 ", "last ", "two weeks ago ", "nicht ",
    "password=", "key: ", "sk-", "eyJ", "-----BEGIN ", "## 10:00\n", "user: a\n", "\ud83d",
    "diff --git a b\n", "commit 0a\n", "Traceback (", "  File \"a\"\n", "a" * 99 + " ", "a" * 99 + "\n",
    "{{", "}}", "<hook_context>", "&lt;",
)  # fmt: skip

# What does something with a text beside reading it (files, processes, sockets), or cannot take any text.
OUTSIDE = {
    "adapters", "interfaces.cli", "interfaces.chat.grep", "index.pages", "index.embed.select",
    "index.embed.remote", "llm.providers", "lazy", "store.files", "store.folders", "store.hook_log",
    "store.short_numbers", "store.sources", "llm.scripted",
}  # fmt: skip
ALONE = {
    "interfaces.present.output.error": "writes to standard error and ends the process",
    "interfaces.hooks.deadline.answer": "starts the hook's own process",
    "interfaces.hooks.session_sync.run": "syncs the home that it is given the path of",
    "interfaces.hooks.session_sync.main": "syncs it, and ends the process after a while",
    "memory.background_reading.main": "reads the home that it is given the path of, at low priority",
    "memory.distilling.main": "asks a model about the home that it is given the path of",
    "lifecycle.proposals._find_unsupported": "gets a short text, beside sentences of any length",
    "agents.registry._agent_in": "imports a module by its name",
    "context.host._prefixes": "makes every beginning of a word of ours, of which there are few",
    "store.purge._forms": "makes a pattern as long as what a person typed",
    "text.vocabulary._later": "reads a list of our own",
    "text.vocabulary._table": "reads a list of our own",
    "interfaces.install.check._toml": "hands an agent's own file to the standard library",
    "search.base.nothing": "is no reader of text",
}


class Reader(NamedTuple):
    """Something that takes a text, and how it is called with one."""

    name: str
    call: Callable[[str], object]


def modules() -> Iterator[pkgutil.ModuleInfo]:
    """Every module of the package."""
    return iter(pkgutil.walk_packages(vademecum.__path__, "vademecum."))


def readers() -> list[Reader]:
    """Every function whose arguments are all texts, and every pattern, of every module."""
    found: dict[str, Reader] = {}
    for module in modules():
        inner = module.name.removeprefix("vademecum.")
        if module.name.endswith("__main__") or any(
            inner == out or inner.startswith(f"{out}.") for out in OUTSIDE
        ):
            continue
        with contextlib.suppress(ImportError):  # an extra that is not installed
            for each in _in_module(importlib.import_module(module.name), inner):
                found[each.name] = each
    return [found[name] for name in sorted(found)]


def _in_module(module: ModuleType, inner: str) -> Iterator[Reader]:
    for name, found in vars(module).items():
        label, value = f"{inner}.{name}", found.compiled if isinstance(found, LazyPattern) else found
        if isinstance(value, re.Pattern):
            if isinstance(value.pattern, str):
                once = _is_anchored(name, module)
                yield Reader(label, value.match if once else functools.partial(_sent_through, value))
        elif callable(value) and getattr(value, "__module__", "") == module.__name__ and label not in ALONE:
            count = _texts(value)
            if count:
                yield Reader(label, functools.partial(_called, value, count))


def _sent_through(pattern: re.Pattern[str], text: str) -> None:
    collections.deque(pattern.finditer(text), maxlen=0)


def _called(call: Callable[..., object], count: int, text: str) -> None:
    given = call(*[text] * count)
    if inspect.isgenerator(given):
        collections.deque(given, maxlen=0)


@functools.cache
def _sources() -> str:
    folder = Path(vademecum.__file__).parent
    return "\n".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.py")))


def _is_anchored(name: str, module: ModuleType) -> bool:
    """Whether a pattern is only ever asked about one place, never sent through a text."""
    methods = re.findall(rf"\b{name}\.(\w+)\(", inspect.getsource(module) if name[0] == "_" else _sources())
    return bool(methods) and set(methods) <= {"match", "fullmatch"}


def _texts(value: Callable[..., object]) -> int:
    """How many texts a function needs, when texts are all that it needs."""
    if inspect.isclass(value) or not inspect.isfunction(inspect.unwrap(value)):
        return 0
    needed = [
        each
        for each in inspect.signature(value).parameters.values()
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    fits = all(each.annotation == "str" and each.kind is not each.KEYWORD_ONLY for each in needed)
    return len(needed) if fits else 0


def seconds(reader: Reader, text: str) -> float:
    """CPU time of one call; what it says or raises is not looked at here."""
    gc.disable()  # a collection takes as long as all that a run of tests keeps is large
    try:
        begun = time.process_time()
        with contextlib.suppress(Exception):
            reader.call(text)
        return time.process_time() - begun
    finally:
        gc.enable()


def grows_too_fast(reader: Reader, unit: str, sizes: tuple[int, ...] = SIZES) -> str | None:
    """Say how time grew, when it did faster than with the text in three looks; each text is a new one."""
    message = None
    for look in range(3):
        took = []
        for size in sizes:
            text = unit * (size // len(unit))
            # What seemed slow is looked at more closely: others' work slows down one call, not all of them.
            took.append(min(seconds(reader, f"{text}{look}{turn}") for turn in range(1 + 2 * bool(look))))
            if took[-1] > 20:  # of a text that reads in half a page
                break
        steps = [later / max(earlier, NOTICED / 4) for earlier, later in itertools.pairwise(took)]
        if took[-1] <= 20 and not any(
            step > GROWTH and later > NOTICED for step, later in zip(steps, took[1:], strict=False)
        ):
            return None
        message = f"{reader.name} over {unit!r}: " + ", ".join(f"{each:.3f} s" for each in took)
    return message
