"""What the page says of settings, attached folders and the audit, and of memory as it was on a day."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import UsageError
from vademecum.interfaces.http.views import VIEWS
from vademecum.interfaces.http.views import audit as audits
from vademecum.interfaces.http.views.audit import read_audit
from vademecum.interfaces.http.views.journal import journal
from vademecum.interfaces.http.views.past import travel
from vademecum.interfaces.http.views.query import read_number
from vademecum.interfaces.http.views.settings import list_settings
from vademecum.interfaces.http.views.sources import list_sources
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)  # a Sunday


def opened(base: Path, *, at: datetime = NOON, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    options: dict[str, Any] = {"origin": Origin.USER, "actor": "human:ada", "environ": {}, **given}
    return connect(home=base / "home", cwd=base / "work", now=lambda: at, **options)


def plain(found: dict[str, Any]) -> dict[str, Any]:
    assert json.loads(json.dumps(found)) == found
    return found


# ---------------------------------------------------------------- settings


def settings_of(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for group in found["groups"] for each in group["settings"]}


def test_every_setting_is_told_with_its_value_and_where_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("[dedup]\nwindow_days = 3\n")
    found = plain(list_settings(opened(tmp_path, environ={"VADE_AGENT": "night"})))
    settings = settings_of(found)
    assert found["total"] == len(settings) > 50
    window = settings["dedup.window_days"]
    assert (window["value"], window["default"], window["changed"]) == ("3", "7", True)
    assert "config.toml" in window["from"]
    assert settings["agent"]["value"] == "night"
    assert "VADE_AGENT" in settings["agent"]["from"]
    assert settings["embedder"] | {"from": "default", "changed": False} == settings["embedder"]
    assert found["changed"] == 2


def test_settings_are_narrowed_down_by_words_and_to_those_that_were_changed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("[dedup]\nwindow_days = 3\n")
    memory = opened(tmp_path)
    assert [*settings_of(list_settings(memory, changed=True))] == ["dedup.window_days"]
    found = list_settings(memory, "DEDUP days")
    assert "dedup.window_days" in settings_of(found)
    assert found["matching"] < found["total"]
    assert list_settings(memory, "nothing like it")["groups"] == []


def test_a_repositorys_settings_that_are_not_trusted_are_told_as_such(tmp_path: Path) -> None:
    folder = tmp_path / "work" / ".vade"
    folder.mkdir(parents=True)
    (tmp_path / "work" / ".git").mkdir()
    (folder / "config.toml").write_text("incognito = true\n")
    told = plain(list_settings(opened(tmp_path)))["repository"]
    assert told["trusted"] is False
    assert [each["name"] for each in told["sets"]] == ["incognito"]


# ---------------------------------------------------------------- sources


def test_an_attached_folder_is_told_with_its_files_and_one_that_is_gone_with_why(tmp_path: Path) -> None:
    for name in ("notes", "wiki"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text("# A\n")
    memory = opened(tmp_path)
    assert plain(list_sources(memory))["sources"] == []
    memory.sources.add(tmp_path / "notes", inject=True)
    memory.sources.add(tmp_path / "wiki")
    (tmp_path / "wiki").rename(tmp_path / "elsewhere")
    found = plain(list_sources(memory))
    told = {each["name"]: each for each in found["sources"]}
    assert (told["notes"]["files"], told["notes"]["inject"], told["notes"]["problem"]) == (1, True, "")
    assert (told["wiki"]["files"], told["wiki"]["problem"]) == (0, "is gone")
    assert found["files"] == 1


# ---------------------------------------------------------------- audit


def test_the_audit_tells_the_newest_change_first_with_its_record_and_its_writer(tmp_path: Path) -> None:
    opened(tmp_path).store("Deploys go out on Tuesdays.", key="deploys")
    agent = opened(tmp_path, origin=Origin.AGENT, actor="mcp:main", client="claude-code 2.1")
    agent.store("The linter is ruff.", key="linter")
    found = plain(read_audit(opened(tmp_path)))
    told = [(each["key"], each["by"]) for each in found["lines"] if each["key"]]
    assert told == [("linter", "claude-code 2.1"), ("deploys", "you")]
    assert found["chain"] == {"state": "whole", "problems": []}
    assert found["total"] == len(found["lines"])


def test_the_audit_is_filtered_and_every_filter_is_counted_under_the_others(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("One.", key="one")
    memory.store("Everywhere.", key="two", scope="global")
    opened(tmp_path, origin=Origin.AGENT, actor="mcp:main", client="codex").store("Three.", key="three")
    found = plain(read_audit(memory, {"by": "you", "scope": ""}))
    assert {each["key"] for each in found["lines"]} == {"one", "two"}
    by = next(each for each in found["filters"] if each["name"] == "by")
    assert {each["value"]: (each["count"], each["on"]) for each in by["values"]} == {
        "you": (2, True),
        "codex": (1, False),
    }
    scopes = next(each for each in found["filters"] if each["name"] == "scope")
    assert {each["value"]: each["count"] for each in scopes["values"]} == {"project": 1, "global": 1}
    assert read_audit(memory, {"day": "2020-01-01"})["lines"] == []


def test_the_audit_comes_by_page_and_no_line_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "PAGE", 2)
    memory = opened(tmp_path)
    for number in range(5):
        memory.store(f"Text {number}.", key=f"key-{number}")
    seen: list[int] = []
    before = None
    while True:
        page = read_audit(memory, before=before)
        seen += [each["seq"] for each in page["lines"]]
        before = seen[-1]
        if not page["next_query"]:
            break
        assert f"before={before}" in page["next_query"]
    assert seen == [5, 4, 3, 2, 1]


def test_an_audit_that_was_tampered_with_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = opened(tmp_path)
    memory.store("One.", key="one")
    memory.store("Two.", key="two")
    (log,) = (tmp_path / "home" / "audit").glob("*.jsonl")
    log.write_text(log.read_text().replace("human:ada", "human:bob", 1))
    assert read_audit(memory)["chain"]["state"] == "broken"
    monkeypatch.setattr(audits, "VERIFIED_AT_ONCE", 1)
    assert read_audit(memory)["chain"]["state"] == "unchecked"
    assert read_audit(memory, verify=True)["chain"]["state"] == "broken"


# ---------------------------------------------------------------- time travel


@pytest.fixture
def year(tmp_path: Path) -> Memory:
    """A record that changed its mind, one that came late, and one that was archived."""
    past = NOON - timedelta(days=300)
    opened(tmp_path, at=past).store("Deploys go out on Mondays.", key="deploys")
    opened(tmp_path, at=past).store("The old wiki is at wiki.example.", key="wiki")
    later = opened(tmp_path, at=NOON - timedelta(days=100))
    later.store("Deploys go out on Tuesdays instead of Mondays.", key="deploys", mode="replace")
    opened(tmp_path, at=NOON - timedelta(days=50)).forget("wiki")
    opened(tmp_path, at=NOON - timedelta(days=10)).store("The linter is ruff.", key="linter")
    return opened(tmp_path)


def then(memory: Memory, days: int) -> dict[str, tuple[str, str]]:
    day = f"{NOON - timedelta(days=days):%Y-%m-%d}"
    found = plain(travel(memory, day))
    assert found["day"] == day
    return {each["key"]: (each["text"], each["standing"]) for each in found["records"]}


def test_a_day_shows_what_memory_said_then_and_what_became_of_it(year: Memory) -> None:
    monday, tuesday = "Deploys go out on Mondays.", "Deploys go out on Tuesdays instead of Mondays."
    wiki = "The old wiki is at wiki.example."
    assert then(year, 301) == {}
    assert then(year, 300) == {"deploys": (monday, "replaced"), "wiki": (wiki, "archived")}
    assert then(year, 100) == {"deploys": (tuesday, "same"), "wiki": (wiki, "archived")}
    assert then(year, 50) == {"deploys": (tuesday, "same")}
    assert then(year, 0) == {"deploys": (tuesday, "same"), "linter": ("The linter is ruff.", "same")}


def test_the_days_one_can_go_to_begin_with_the_first_entry_and_end_today(year: Memory) -> None:
    found = plain(travel(year, "2026-03-01"))
    assert (found["first"], found["today"]) == ("2026-01-19", "2026-11-15")
    assert (found["span"], found["at"]) == (300, 41)
    assert found["since"] == {"added": 1, "replaced": 1, "archived": 1}
    assert (found["total"], found["now"]) == (2, 2)
    assert sum(each["count"] for each in found["bars"]) == 3
    assert [each["day"] for each in found["steps"]] == ["2026-01-30", "2026-02-22", "2026-02-28"]
    assert travel(year)["day"] == "2026-11-15"


def test_what_is_not_a_day_is_refused_with_how_to_write_one(year: Memory) -> None:
    with pytest.raises(UsageError, match="not a date"):
        travel(year, "yesterday-")


def test_the_journal_of_this_month_in_another_year_opens_at_its_first_day(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    assert journal(memory, month="2026-11")["day"] == "2026-11-15"
    assert journal(memory, month="2025-11")["day"] == "2025-11-01"


def test_a_limit_of_thousands_of_digits_is_the_usual_limit() -> None:
    assert [read_number(text, 50) for text in ("20", "9" * 5_000, "²", "-1", "")] == [20, 50, 50, 50, 50]


def test_no_two_views_of_the_menu_have_one_key() -> None:
    keys = [each.key for each in VIEWS if each.menu and each.key]
    assert len(keys) == len(set(keys)) > 10
