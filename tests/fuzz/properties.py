"""What must hold of every parser for any bytes at all, for Atheris and the seeded runs alike."""

from __future__ import annotations

import contextlib
import functools
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.errors import Malformed
from vademecum.index import words
from vademecum.index.base import EVERYTHING
from vademecum.index.chunk import LONGEST_HEADING, chunks
from vademecum.index.sqlite import SqliteIndex
from vademecum.search.base import parse as parse_query
from vademecum.search.legs import SNIPPET, snippet
from vademecum.text import document, frontmatter
from vademecum.types import Entry, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KINDS = ("record", "journal", "pinned", "markdown")
DECODINGS = (("utf-8", "replace"), ("utf-8", "surrogateescape"), ("latin-1", "strict"), ("utf-16", "replace"))
STAMP = "2026-11-15T08:00:00Z"


def text_of(content: bytes) -> str:
    """Bytes as some text: the first byte says how they are read."""
    encoding, errors = DECODINGS[content[0] % len(DECODINGS)] if content else DECODINGS[0]
    return content[1:].decode(encoding, errors)


def kept(text: str) -> str:
    """A text as it comes out of a file: UTF-8 without NULs, or it is not read at all."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


# --- the properties -----------------------------------------------------------------------------------------


def query(content: bytes) -> None:
    """Any text is a question whose words and phrases FTS5 takes as they are."""
    parsed = parse_query(text_of(content))
    parsed.text.encode()
    assert "\0" not in parsed.text
    found = words.terms(parsed.text)
    assert len(found.phrases) <= words.MOST_PHRASES
    assert all(0 < len(phrase.words) <= words.LONGEST_PHRASE for phrase in found.phrases)
    assert all(word and word == word.strip() for word in found.words)
    index = _index()
    index.match([(word,) for word in found.words[:64]], EVERYTHING, 10)
    for phrase in found.phrases:
        index.match([phrase.words], EVERYTHING, 10)
    again = parse_query(parsed.text)
    assert again.text.split() == parsed.text.split() or again.text != parsed.text


def chunk(content: bytes) -> None:
    """Every line of a text lies in some chunk, in order, and no chunk reaches beyond the text."""
    text = kept(text_of(content))
    lines = text.removeprefix("\ufeff").split("\n")
    last = len(lines) - (not lines[-1])
    for kind in KINDS:
        reached = start = 0
        for each in chunks(text, kind=kind, tokens=32, overlap=8):
            assert start <= each.start <= reached + 1, (kind, each)
            assert each.start <= each.end <= last, (kind, each)
            assert each.text or each.hidden, (kind, each)
            assert all(len(part) <= LONGEST_HEADING for part in each.heading.split(" › ")), (kind, each)
            start, reached = each.start, max(reached, each.end)
        assert reached == last, kind


def front(content: bytes) -> None:
    """Frontmatter is read or refused; an edit sets its key and leaves every other one alone."""
    text = kept(text_of(content))
    for whole in (text, f"---\n{text}\n---\nbody\n"):
        with contextlib.suppress(Malformed):
            before = frontmatter.parse(whole)
            assert 0 <= before.body <= len(whole)
            assert before.lines == whole.count("\n", 0, before.body)
            edited = frontmatter.edit(whole, {"num": 7})
            after = frontmatter.parse(edited)
            assert dict(after.values) == {**before.values, "num": 7}
            assert edited[after.body :] == whole[before.body :]


def record(content: bytes) -> None:
    """A document is read or refused; an entry that is added comes back as it was given."""
    text = kept(text_of(content))
    for whole in (text, f"# Title\n\n## {STAMP}\n{text}\n<!-- origin: user -->\n"):
        with contextlib.suppress(Malformed):
            parsed = document.parse(whole)
            lines = whole.count("\n") + 1
            assert all(1 <= each.start <= each.end <= lines for each in parsed.entries)
            given = document.tidy(text)
            if given:
                grown = document.append(whole, Entry(given, STAMP, Origin.AGENT))
                entry = document.parse(grown).entries[-1]
                assert entry.text.replace("\r\n", "\n") == given.replace("\r\n", "\n").strip("\n")
                assert (entry.time, entry.origin) == (STAMP, Origin.AGENT)


def shown(content: bytes) -> None:
    """A snippet is a part of its text, of bounded length, and shows a word for which it was found."""
    text = kept(text_of(content))
    body = text * (1 + 3 * SNIPPET // max(1, len(text))) if len(content) % 2 else text
    middle = body[len(body) // 2 :].split()
    wanted = [word.lower() for word in middle[1:2] if len(word) < SNIPPET // 2]
    cut = snippet(body, wanted)
    inner = cut if cut == body else cut.removeprefix("… ").removesuffix(" …")
    assert inner.strip() in body
    assert len(inner) <= SNIPPET
    if wanted and len(body.lower()) == len(body):
        assert wanted[0] in cut.lower(), (wanted, cut)


PROPERTIES: dict[str, Callable[[bytes], None]] = {
    "query": query,
    "chunk": chunk,
    "frontmatter": front,
    "document": record,
    "snippet": shown,
}


@functools.cache
def _index() -> SqliteIndex:
    return SqliteIndex(":memory:")


# --- seeded bytes -------------------------------------------------------------------------------------------

_PIECES = [
    *"""scope: type:rule tag: tag:x after:2025-01-01 after:9999-12-31T23:59:59-23:59 before: path: " ' AND OR
    NOT NEAR( NEAR/3 * ^ : { } ( ) [ ] + - -- ; {body}: rowid E4017 C++ GB/s don't pre-edit src/app/main.py
    東京都 田中さん 한국어 🦩 👩‍👩‍👧 שלום مرحبا é e\u0301 İstanbul ß ﬁ ## # ### - * 1. > ``` ~~~ | === --- ...
    <!-- --> \\## %s $x &amp; null true 0x1F 1e999 .inf ~ ! !!python/object &a *a << ? @ `""".split(),
    "---\n",
    "\n---\n",
    "...\n",
    "key: value\n",
    "tags: [a, b]\n",
    "tags:\n  - a\n",
    "num: 3 # three\n",
    "'",
    '"',
    "# Title\n",
    f"## {STAMP}\n",
    "## 2026-11-15\n",
    "<!-- origin: user -->\n",
    "<!-- origin: agent | superseded: 2026-01-01T00:00:00Z -->\n",
    "\\## 2026-11-15\n",
    "```python\n",
    "```\n",
    "- item\n",
    "  - below\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    "\0",
    "\ud800",
    "\udcff",
    "\ufeff",
    "\u202e",
    "\u2028",
    "\x85",
    "\x1b[31m",
    "\u200d",
    "[" * 40,
    "{a: " * 20,
    "word " * 60,
    "字" * 120,
    "x" * 300,
    " ",
    " ",
    " ",
]
_FIELDS = """num: 3 # three|key: value|title: "a: b"|tags: [a, b]|tags: []|when: 2026-11-15|a: 'it''s'
b: {c: d}|e: |f: ~|g: true|h: 1.5e3|"quoted key": 1|é: ü|i: [1, [2, {x: y}]]|# comment||  indented: 1|- item
j: a  # b|num: 4|k: "\\u00e9"|l: >-|m: &a 1|n: *a|<<: x|? o|p: !!int 3|q: "\\ud800"|r: 0000-00-00|s: [|t: }
u: 99999999999999999999|key: "1"|v: | |--- |...|w: @x|x: `y`|y: %z|type: rule|protected: yes""".replace(
    "\n", "|"
).split("|")


def samples(seed: int, count: int) -> Iterator[bytes]:
    """Bytes that look like what each parser knows, mixed with bytes that look like nothing."""
    chance = random.Random(seed)
    for _ in range(count):
        kind = chance.randrange(10)
        if kind == 0:
            yield chance.randbytes(chance.randrange(200))
            continue
        text = "".join(chance.choices(_PIECES, k=chance.randrange(1, 30)))
        if kind in (3, 4):
            fields = "\n".join(chance.choices(_FIELDS, k=chance.randrange(1, 6)))
            text = f"---\n{fields}\n---\n{text}" if kind == 3 else fields
        if kind == 1:
            text = "".join(chr(chance.randrange(0x110000)) for _ in range(chance.randrange(60))) + text
        content = bytearray(text.encode("utf-8", "surrogatepass"))
        if kind == 2:
            for _ in range(chance.randrange(1, 6)):
                content[chance.randrange(len(content))] = chance.randrange(256)
        yield bytes([chance.choice((0, 0, 0, 1, 2, 3))]) + content


@contextlib.contextmanager
def corpus(count: int = 300) -> Iterator[str]:
    """A folder of seeded bytes for a fuzzer to begin with."""
    with tempfile.TemporaryDirectory() as folder:
        for number, content in enumerate(samples(0, count)):
            Path(folder, str(number)).write_bytes(content)
        yield folder
