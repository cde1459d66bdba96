"""What leaves memory: the same bytes each time, no secret unasked, and everything when it comes back."""

from __future__ import annotations

import json
import tarfile
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from importers import samples
from vademecum.text import document, frontmatter

if TYPE_CHECKING:
    from pathlib import Path

    from importers.worlds import Vade

TOKEN = "ghp_" + "x7Kq2mZ9tR4vB8nL1pW6yD3sF5hJ0cGaEuQi"


def fill(vade: Vade) -> None:
    vade("add", "Use unittest.", "--key", "testing", "--tag", "testing", "--type", "feedback")
    vade("add", "Use pytest.", "--key", "testing", "--mode", "replace")
    vade("add", "Ada likes tea.", "--key", "tea", "--scope", "global", "--type", "user", "--protected")
    vade("add", "--type", "discovery", "Config uses YAML", "--confidence", "0.9")
    path = next((vade.home / "memory").rglob("tea.md"))
    text = path.read_text().replace("---\n# tea", "x-odd:   {a: [1,  2]}  # kept\n---\n# tea")
    path.write_text(text)
    hand = path.with_name("by-hand.md")
    hand.write_text("Written by hand, without any label.\n")


def files(top: Path) -> dict[str, bytes]:
    return {each.relative_to(top).as_posix(): each.read_bytes() for each in top.rglob("*") if each.is_file()}


def entries(path: Path) -> list[tuple[str | None, str, str | None]]:
    return [(e.time, e.text, e.superseded) for e in document.parse(path.read_text()).entries]


@pytest.mark.parametrize("form", ["okf", "ltm", "html"])
def test_the_same_memory_gives_the_same_bytes(form: str, vade: Vade, tmp_path: Path) -> None:
    fill(vade)
    for name in ("one", "two"):
        vade("export", form, tmp_path / name)
        assert vade.code == 0, vade.err
    if form != "okf":
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
        return
    assert files(tmp_path / "one") == files(tmp_path / "two")
    for name in ("one.tar.gz", "two.tar.gz"):
        vade("export", form, tmp_path / name)
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        assert {each.mtime for each in archive} == {0}
        assert {each.name for each in archive} == set(files(tmp_path / "one"))


def test_a_bundle_conforms_and_holds_the_very_bytes_of_each_record(vade: Vade, tmp_path: Path) -> None:
    fill(vade)
    made = vade.json("export", "okf", tmp_path / "bundle")
    found = files(tmp_path / "bundle")
    assert made["files"] == len(found) == 5
    assert frontmatter.parse(found["index.md"].decode()).values == {"okf_version": "0.2"}
    for name, content in found.items():
        if name != "index.md":
            assert frontmatter.parse(content.decode()).values["type"]
            assert f"]({name})" in found["index.md"].decode()
    assert found["global/tea.md"] == next((vade.home / "memory").rglob("tea.md")).read_bytes()


@pytest.mark.parametrize("name", ["bundle", "bundle.tar.gz"])
def test_what_is_exported_comes_back_whole_in_another_home(
    name: str, vade: Vade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(vade)
    vade("export", "okf", tmp_path / name)
    theirs = {each["key"]: each for each in vade.records()}
    places = {each["key"]: vade.home / each["path"] for each in theirs.values()}
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "other"))
    report = vade.json("import", "okf", tmp_path / name)
    assert report["counts"] == {"record": 4, "same": 0, "skipped": 0}
    ours = {each["key"]: each for each in vade.records()}
    assert ours.keys() == theirs.keys()
    for key, record in ours.items():
        path = tmp_path / "other" / record["path"]
        assert entries(path) == entries(places[key]), key
        labels = ("scope", "type", "tags", "confidence", "category")
        assert {each: record[each] for each in labels} == {each: theirs[key][each] for each in labels}
        assert not record["protected"]  # only the person of that home decided it
        if theirs[key]["id"]:
            assert [record[each] for each in ("id", "title", "created", "updated")] == [
                theirs[key][each] for each in ("id", "title", "created", "updated")
            ]
    assert "x-odd:   {a: [1,  2]}  # kept\n" in (tmp_path / "other" / ours["tea"]["path"]).read_text()
    assert vade.json("import", "okf", tmp_path / name)["run"] is None


def test_a_bundle_that_is_imported_where_it_came_from_adds_nothing(vade: Vade, tmp_path: Path) -> None:
    fill(vade)
    vade("export", "okf", tmp_path / "bundle")
    before = {each["key"]: each["entries"] for each in vade.records()}
    vade("import", "okf", tmp_path / "bundle")
    assert {each["key"]: each["entries"] for each in vade.records()} == before


def test_what_another_system_kept_goes_through_memory_and_out_as_a_bundle(vade: Vade, tmp_path: Path) -> None:
    vade("import", "okf", samples.okf(tmp_path / "theirs"))
    vade("export", "okf", tmp_path / "bundle", "--scope", "project")
    found = next((tmp_path / "bundle").rglob("tables-orders.md")).read_text()
    for line in ("resource: bq://shop.orders\n", "x-owner:\n  team: 'sales'\n", "type: BigQuery Table\n"):
        assert line in found


@pytest.mark.parametrize("form", ["okf", "ltm", "html"])
def test_a_secret_is_refused_unless_it_is_cut_out(
    form: str, vade: Vade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADE_SECRETS_POLICY", "warn")
    vade("add", "--type", "discovery", f"The token is {TOKEN} today")
    assert "secret" in vade.fails("export", form, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    made = vade.json("export", form, tmp_path / "out", "--redact")
    assert made["secrets"]
    target = tmp_path / "out"
    content = b"".join(files(target).values()) if target.is_dir() else target.read_bytes()
    assert TOKEN.encode() not in content
    assert b"The token is" in content


def test_nothing_is_written_over_unless_told_to_and_nothing_into_memory(vade: Vade, tmp_path: Path) -> None:
    fill(vade)
    target = tmp_path / "bundle"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    assert "already exists" in vade.fails("export", "okf", target)
    vade("export", "okf", target, "--force")
    assert vade.code == 0, vade.err
    assert (target / "mine.txt").read_text() == "mine"
    assert (target / "global" / "tea.md").is_file()
    assert "inside the memory folder" in vade.fails("export", "okf", vade.home / "bundle")
    for form in ("html", "ltm"):
        (tmp_path / form).write_text("mine")
        assert "already exists" in vade.fails("export", form, tmp_path / form)
        assert (tmp_path / form).read_text() == "mine"
    assert not [each for each in tmp_path.iterdir() if each.name.endswith(".part")]


def test_a_file_that_cannot_be_read_is_left_out_and_told(vade: Vade, tmp_path: Path) -> None:
    fill(vade)
    path = next((vade.home / "memory").rglob("tea.md"))
    path.write_text("---\ntags: [\n---\n")
    made = vade.json("export", "okf", tmp_path / "bundle")
    assert [each["path"] for each in made["skipped"]] == ["memory/global/records/tea.md"]
    assert not (tmp_path / "bundle/global/tea.md").exists()


def test_ltm_is_what_knowledge_export_writes(vade: Vade, tmp_path: Path) -> None:
    fill(vade)
    vade("export", "ltm", tmp_path / "ltm.json")
    vade("knowledge", "export", tmp_path / "other.json")
    assert (tmp_path / "ltm.json").read_bytes() == (tmp_path / "other.json").read_bytes()
    assert json.loads((tmp_path / "ltm.json").read_text())["patterns"]["discoveries"][0]["fact"] == (
        "Config uses YAML"
    )


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said += data


def test_the_page_shows_everything_runs_nothing_and_fetches_nothing(vade: Vade, tmp_path: Path) -> None:
    fill(vade)
    vade("add", "<script>alert(1)</script><img src=http://evil.test/x> & \u202eback", "--key", "hostile")
    vade("add", "--journal", "Noted today.")
    samples.write(vade.home / "memory/global", {"MEMORY.md": "# Always\n\nTea at four.\n"})
    vade("export", "html", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    page = _Page()
    page.feed(text)
    for said in (
        "Use pytest.",
        "Use unittest.",
        "Ada likes tea.",
        "Noted today.",
        "Tea at four.",
        "alert(1)",
    ):
        assert said in page.said
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not [tag for tag, _ in page.tags if tag in ("img", "link", "iframe", "a", "object")]
    assert not [each for _, attributes in page.tags for each in attributes if each in ("src", "href")]
    assert "\u202e" not in text
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags
    assert "default-src 'none'" in str([each for tag, each in page.tags if tag == "meta"])
