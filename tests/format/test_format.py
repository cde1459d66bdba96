"""The samples of the format are read as the page says, by the package and by a reader written from the page.

`PYTHONPATH=tests python -m format.test_format` writes what the package reads beside a new sample: read it.
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from format import reader
from vademecum.errors import Malformed, NewerFormat
from vademecum.memory import connect
from vademecum.store import archive, audit, tombstones
from vademecum.store.home import FORMAT, Home
from vademecum.text import document, filenames, frontmatter
from vademecum.transcripts import events
from vademecum.types import Origin, Place, Scope

HERE = Path(__file__).parent
SAMPLES = HERE / "samples"
HOME = HERE.parent / "fixtures" / "home" / "home"


# --- what the package makes of a file -----------------------------------------------------------------------


def told(entry: Any) -> dict[str, Any]:
    names = ("superseded", "contradicts", "cites", "stale")
    return {
        "text": entry.text,
        "time": entry.time,
        "origin": str(entry.origin or Origin.USER),
        **{name: getattr(entry, name) for name in names},
        "of": entry.part,
        "start": entry.start,
        "end": entry.end,
    }


def our_document(content: bytes) -> dict[str, Any]:
    parsed = document.parse(document.decode(content))
    return {
        "front": dict(parsed.front.values),
        "title": parsed.title,
        "entries": [told(each) for each in parsed.entries],
    }


def our_pinned(content: bytes) -> dict[str, Any]:
    text = document.decode(content)
    names = ("text", "origin", "start", "end")
    sections = [{name: told(each)[name] for name in names} for each in document.blocks(text)]
    return {"front": dict(frontmatter.parse(text).values), "sections": sections}


def our_transcript(content: bytes) -> dict[str, Any]:
    found = [events.parse(line) for line in content.split(b"\n") if line.strip()]
    names = [
        {
            "seq": each.seq,
            "kind": each.name if isinstance(each, events.Unknown) else each.kind,
            "time": each.time,
            "id": each.id,
        }
        for each in found
        if isinstance(each, events.Event)
    ]
    return {"events": names, "torn": sum(isinstance(each, events.TornLine) for each in found)}


def our_kept(content: bytes, base: Path) -> dict[str, Any]:
    home = Home(base / "kept-home")
    scope_folder = home.scope_folder(Place(Scope.GLOBAL))
    path = home.path / "archive/kept/global/_/records/topic.md.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    states = archive.states(home, scope_folder, filenames.RECORDS, "topic.md").values()
    return {
        "entries": [
            {
                "record": each.record,
                "time": each.entry.time,
                "text": each.entry.text,
                "origin": str(each.entry.origin),
                "superseded": each.entry.superseded,
                "taken": each.taken,
                "said": [*each.said],
            }
            for each in states
        ]
    }


def our_audit(folder: Path, base: Path) -> dict[str, Any]:
    shutil.copytree(folder, base / "audit-home/audit", dirs_exist_ok=True)
    found = audit.verify(Home(base / "audit-home"))
    lines = [*audit.lines(Home(base / "audit-home"))]
    shutil.rmtree(base / "audit-home")
    return {"lines": len(lines), "sound": not found.problems}


def ours(kind: str, path: Path, base: Path) -> dict[str, Any]:
    if kind == "audit":
        return our_audit(path, base)
    content = path.read_bytes()
    if kind == "kept":
        return our_kept(content, base)
    read = {"records": our_document, "journal": our_document, "pinned": our_pinned}.get(kind, our_transcript)
    try:
        return read(content)
    except Malformed:
        return {"malformed": True}


def theirs(kind: str, path: Path) -> dict[str, Any]:
    """What the reader from the page makes of it."""
    if kind == "audit":
        return reader.read_audit(path)
    read = {
        "records": reader.read_document,
        "journal": reader.read_document,
        "pinned": reader.read_pinned,
        "kept": reader.read_kept,
        "transcripts": reader.read_transcript,
    }[kind]
    try:
        return read(path.read_bytes())
    except reader.MalformedSample:
        return {"malformed": True}


def samples() -> list[tuple[str, Path]]:
    kinds = ("records", "journal", "pinned", "transcripts", "kept", "audit")
    every = [(kind, path) for kind in kinds for path in sorted((SAMPLES / kind).iterdir())]
    return [(kind, path) for kind, path in every if path.suffix != ".json"]


NAMED = [pytest.param(kind, path, id=f"{kind}/{path.name}") for kind, path in samples()]


def expected(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.with_name(f"{path.name}.json").read_text())
    return value


# --- the samples --------------------------------------------------------------------------------------------


def test_there_are_samples_of_every_kind_good_and_bad() -> None:
    assert len(NAMED) >= 35
    bad = [
        path.name for kind, path in samples() if kind == "records" and expected(path) == {"malformed": True}
    ]
    assert len(bad) >= 8


@pytest.mark.parametrize(("kind", "path"), NAMED)
def test_the_package_reads_a_sample_as_it_is_written_down(kind: str, path: Path, tmp_path: Path) -> None:
    assert ours(kind, path, tmp_path) == expected(path)


@pytest.mark.parametrize(("kind", "path"), NAMED)
def test_the_reader_from_the_page_reads_it_the_same(kind: str, path: Path) -> None:
    assert theirs(kind, path) == expected(path)


def test_the_reader_from_the_page_imports_nothing_of_the_package() -> None:
    source = (HERE / "reader.py").read_text()
    assert "vademecum" not in source.replace("# vademecum", "")


READABLE = [each for each in NAMED if each.values[0] == "records" and "bad-" not in str(each.id)]


@pytest.mark.parametrize(("kind", "path"), READABLE)
def test_writing_to_a_sample_keeps_every_byte_that_it_does_not_mean(
    kind: str, path: Path, tmp_path: Path
) -> None:
    content = path.read_bytes()
    text = content.decode()
    assert frontmatter.edit(text, {}) == text or "---" not in text[:4]
    folder = tmp_path / "home/memory/global/records"
    folder.mkdir(parents=True)
    (folder / path.name).write_bytes(content)
    memory = connect(home=tmp_path / "home", cwd=tmp_path, origin=Origin.USER, environ={})
    [record] = memory.list(scope="global").records
    memory.store("A new entry of a person.", key=record.key, scope="global")
    after = (folder / path.name).read_bytes().decode()
    body, now = text[frontmatter.parse(text).body :], after[frontmatter.parse(after).body :]
    assert now.startswith(body)
    assert "A new entry of a person." in now[len(body) :]
    mine = {"updated", "generated", "id", "key", "scope", "num", "type", "verified"}
    kept = frontmatter.parse(text).values
    assert {k: v for k, v in frontmatter.parse(after).values.items() if k in kept.keys() - mine} == {
        k: v for k, v in kept.items() if k not in mine
    }
    block = text[: frontmatter.parse(text).body].splitlines(keepends=True)
    left = [line for line in block if line.split(":")[0].strip() not in mine]
    rest = iter(after.splitlines(keepends=True))
    assert all(any(line == each for each in rest) for line in left)
    again = reader.read_document(after.encode())["entries"]
    assert [each["text"] for each in again[:-1]] == [each["text"] for each in expected(path)["entries"]]


@pytest.mark.parametrize(("kind", "path"), [each for each in NAMED if each.values[0] == "transcripts"])
def test_an_event_is_written_as_it_was_read(kind: str, path: Path) -> None:
    for line in path.read_bytes().split(b"\n"):
        event = events.parse(line) if line.strip() else None
        if isinstance(event, events.Event):
            assert json.loads(events.render(event)) == json.loads(line)  # an unknown field may move


def test_the_tombstones_of_the_sample_refuse_what_they_should_and_nothing_else(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "purges", tmp_path / "home/purges")
    (tmp_path / "home/purges/texts.json").unlink()
    texts = json.loads((SAMPLES / "purges/texts.json").read_text())
    for wanted, list_ in ((True, texts["refused"]), (False, texts["taken"])):
        for text in list_:
            assert (tombstones.find(Home(tmp_path / "home"), text) is not None) is wanted, text
            assert reader.is_purged(tmp_path / "home/purges", text) is wanted, text


# --- whole homes --------------------------------------------------------------------------------------------


def agree(home: Path, base: Path) -> int:
    """Read every file of a home in both ways; how many there were."""
    count = 0
    found = [("records", each) for each in home.glob("memory/**/records/*.md")]
    found += [("journal", each) for each in home.glob("memory/**/journal/*.md")]
    for name in ("MEMORY", "context", "profile"):
        found += [("pinned", each) for each in home.glob(f"memory/**/{name}.md")]
    found += [("records", each) for each in home.glob("archive/*/*/records/*/*.md")]
    found += [("transcripts", each) for each in home.glob("transcripts/*/*.jsonl")]
    found += [("kept", each) for each in home.glob("archive/kept/*/*/*/*.jsonl")]
    for kind, path in [*found, ("audit", home / "audit")]:
        assert ours(kind, path, base) == theirs(kind, path), path
        count += 1
    return count


def test_both_readers_agree_on_the_home_in_the_fixture(tmp_path: Path) -> None:
    assert agree(HOME, tmp_path) > 50


def test_both_readers_agree_on_a_home_made_now(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    moments = (datetime(2026, 5, 4, 8, 0, tzinfo=UTC) + timedelta(minutes=n) for n in range(10_000))
    given: dict[str, Any] = {"home": tmp_path / "home", "cwd": tmp_path / "work", "environ": {}}
    given["now"] = lambda: next(moments)
    person = connect(origin=Origin.USER, **given)
    agent = connect(origin=Origin.AGENT, session="s", client="codex", **given)
    odd = [
        "## 2026-01-01\nin a text",
        "<!-- origin: user -->",
        "\\<!-- vade:x -->",
        "a\r\nb",
        "  indented\n\ntail",
    ]
    for number, text in enumerate((*odd, "Plain words about the build.", "東京 😀")):
        person.store(text, key=f"odd-{number}", scope="global")
        agent.store(f"{text} again", key=f"odd-{number}", scope="global", mode="replace")
        agent.note(text)
    agent.knowledge.learn("discovery", fact="The cache is warm")
    person.forget("odd-0", scope="global")
    person.care.edited("MEMORY.md", "", "# Me\n\nText.\n\n## Two\n\nMore.\n")
    log = agent.sessions.new(id="s")
    log.append(events.Renamed("A name"))
    person.archive.purge("odd-1", scope="global", prove=True)
    assert agree(tmp_path / "home", tmp_path) > 20
    assert reader.is_purged(tmp_path / "home/purges", odd[1])
    assert not reader.is_purged(tmp_path / "home/purges", "Plain words about the build.")


def test_a_newer_number_is_read_and_not_written(tmp_path: Path) -> None:
    memory = connect(home=tmp_path / "home", cwd=tmp_path, origin=Origin.USER, environ={})
    memory.store("Use pytest.", key="testing", scope="global")
    (tmp_path / "home/format").write_text(f"{FORMAT + 1}\n")
    again = connect(home=tmp_path / "home", cwd=tmp_path, origin=Origin.USER, environ={})
    assert again.show("testing").text == "Use pytest."
    with pytest.raises(NewerFormat):
        again.store("Use tox.", key="testing", scope="global")


def main() -> None:
    """Write what the package reads beside every sample that has no reading yet."""
    import tempfile

    for kind, path in samples():
        at = path.with_name(f"{path.name}.json")
        if not at.exists():
            with tempfile.TemporaryDirectory() as base:
                value = ours(kind, path, Path(base))
            at.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
