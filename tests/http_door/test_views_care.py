"""What the page says of a day, the journal, pinned documents, and what is wrong or could be tidied up."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import NotFound, UsageError
from vademecum.interfaces.http.views.check import check, list_runs, tidy
from vademecum.interfaces.http.views.journal import journal
from vademecum.interfaces.http.views.pinned import list_pinned, show_pinned
from vademecum.interfaces.http.views.today import WEEKS, today
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


def pin(memory: Memory, name: str, text: str, scope: str) -> None:
    _, before = memory.care.editable(name, scope=scope)
    memory.care.edited(name, before, text, scope=scope)


# ---------------------------------------------------------------- today


def test_today_says_what_was_added_and_by_which_agent(tmp_path: Path) -> None:
    opened(tmp_path, at=NOON - timedelta(days=1)).store("Of yesterday.", key="yesterday")
    memory = opened(tmp_path)
    memory.store("Deploys go out on Tuesdays.", key="deploys")
    agent = opened(tmp_path, origin=Origin.AGENT, actor="mcp:main", client="claude-code 2.1")
    agent.store("The linter is ruff.", key="linter")
    agent.store("And the formatter too.", key="linter")
    served = opened(tmp_path, client="vade-serve")  # the page: a person's own hand
    served.care.tag(["yesterday"], add=["old"])
    memory.note("Paired with Anna.")
    found = plain(today(memory))
    assert [(each["key"], each["by"], each["new"]) for each in found["changed"]] == [
        ("yesterday", ["you"], False),
        ("linter", ["claude-code 2.1"], True),
        ("deploys", ["you"], True),
    ]
    assert {each["name"]: each["value"] for each in found["by"]} == {"claude-code 2.1": "2", "you": "3"}
    assert [each["text"] for each in found["notes"]] == ["Paired with Anna."]
    assert found["heading"] == "Sunday, 15 November 2026"
    assert found["health"]["tone"] in ("good", "")


def test_today_says_what_waits_and_what_is_wrong(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    opened(tmp_path, origin=Origin.TOOL).store("The API moved to port 9.", key="from-a-page")
    (tmp_path / "home" / "memory" / "project").mkdir(parents=True, exist_ok=True)
    memory.store("Fine.", key="fine")
    path = tmp_path / "home" / memory.show("fine").path
    path.write_bytes(b"---\nnot: [closed\n---\n")
    found = today(memory)
    assert [(each["kind"], each["count"]) for each in found["pending"]] == [("text", 1)]
    assert found["health"]["tone"] in ("warn", "bad")
    assert found["problems"]


def test_today_says_that_a_file_of_an_attached_folder_cannot_be_read(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "broken.md").write_bytes(b"\xff\xfe\x00")
    memory.sources.add(tmp_path / "notes")
    answer = memory.search("anything")
    assert answer.degraded[0].startswith("1 file could not be read")
    assert today(memory)["health"] == {"tone": "warn", "text": "1 file could not be read"}


def test_a_year_of_activity_is_a_cell_for_every_day(tmp_path: Path) -> None:
    for back, count in ((400, 5), (200, 2), (3, 1), (0, 8)):
        memory = opened(tmp_path, at=NOON - timedelta(days=back))
        for number in range(count):
            memory.note(f"Note {number} of {back} days ago.")
    found = plain(today(opened(tmp_path)))["activity"]
    by_date = {each["date"]: each for each in found["cells"]}
    assert len(found["cells"]) == 7 * WEEKS  # today is a Sunday
    assert by_date["2026-11-15"]["level"] == 4
    assert by_date["2026-11-12"] == {
        **{"date": "2026-11-12", "count": 1, "level": 1},
        **{"week": WEEKS - 1, "weekday": 3},
    }
    assert (found["total"], found["days"], found["most"]) == (11, 3, 8)
    assert sum(each["count"] for each in found["by_month"]) == 11
    assert [each["name"] for each in found["months"]][-1] == "Nov"


def test_an_agent_is_not_told_what_waits(tmp_path: Path) -> None:
    opened(tmp_path, origin=Origin.TOOL).store("The API moved to port 9.", key="from-a-page")
    assert today(opened(tmp_path, origin=Origin.AGENT))["pending"] == []


# ---------------------------------------------------------------- journal


def test_a_month_counts_the_notes_of_each_day_and_shows_the_last_one(tmp_path: Path) -> None:
    for back in (0, 0, 2, 40):
        opened(tmp_path, at=NOON - timedelta(days=back)).note(f"{back} days ago.")
    memory = opened(tmp_path)
    memory.note("For every project.", scope="global")
    found = plain(journal(memory))
    counts = {each["date"]: each["count"] for week in found["weeks"] for each in week if each["count"]}
    assert counts == {"2026-11-13": 1, "2026-11-15": 3}
    assert (found["heading"], found["previous"], found["next"]) == ("November 2026", "2026-10", "2026-12")
    assert {each["text"] for each in found["notes"]} == {"0 days ago.", "For every project."}
    assert {each["scope"] for each in found["notes"]} == {"project", "global"}
    assert all(len(week) == 7 for week in found["weeks"])
    october = journal(memory, month="2026-10")
    assert (october["day"], [each["text"] for each in october["notes"]]) == ("2026-10-06", ["40 days ago."])
    assert journal(memory, day="2026-11-14")["notes"] == []
    assert journal(memory, month="2024-02")["total"] == 0


def test_a_note_of_a_tool_says_that_agents_are_not_told_it(tmp_path: Path) -> None:
    opened(tmp_path, origin=Origin.TOOL).note("Buy this now.")
    note = journal(opened(tmp_path))["notes"][0]
    assert (note["told"], note["origin"]) == (False, "tool")


@pytest.mark.parametrize("given", [{"day": "yesterday"}, {"month": "2026-13"}, {"day": "../../etc"}])
def test_what_is_no_date_is_refused(tmp_path: Path, given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is no date"):
        journal(opened(tmp_path), **given)


# ---------------------------------------------------------------- pinned


def test_pinned_documents_are_shown_with_their_budgets_and_what_is_missing(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    pin(memory, "context.md", "# Stack\nPython and Postgres.", "project")
    pin(memory, "MEMORY.md", "Anna owns billing. " * 400, "global")
    found = plain(list_pinned(memory))
    by_name = {(each["name"], each["scope"]): each for each in found["documents"]}
    context, notes = by_name["context.md", "project"], by_name["MEMORY.md", "global"]
    assert (context["unit"], context["over"]) == ("bytes", False)
    assert 0 < context["share"] < 2
    assert (notes["unit"], notes["over"]) == ("characters", True)
    assert notes["share"] > 100
    assert ("profile.md", "global") in {(each["name"], each["scope"]) for each in found["missing"]}
    assert ("context.md", "project") not in {(each["name"], each["scope"]) for each in found["missing"]}
    assert found["findings"][0]["path"] == notes["path"]


def test_a_pinned_document_is_handed_out_for_an_editor(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    pin(memory, "profile.md", "Prefers short answers.", "global")
    found = plain(show_pinned(memory, "profile.md", "global"))
    assert "Prefers short answers." in found["text"]
    assert (found["body"], found["size"]) == ("Prefers short answers.", 22)
    pin(memory, "profile.md", "Prefers long answers.", "global")
    again = show_pinned(memory, "profile.md", "global")
    assert again["versions"] == 2
    assert {"-Prefers short answers.", "+Prefers long answers."} <= {*again["history"][0]["diff"]}
    memory.restore(again["history"][0]["restores"])
    assert show_pinned(memory, "profile.md", "global")["body"] == "Prefers short answers."
    empty = show_pinned(memory, "MEMORY.md", "")
    assert (empty["scope"], empty["size"], empty["history"]) == ("global", 0, [])
    assert empty["budget"] == 4000
    with pytest.raises(NotFound, match="is no pinned document"):
        show_pinned(memory, "../secrets.md", "global")


# ---------------------------------------------------------------- check and tidy


def test_findings_come_by_kind_with_what_mends_them(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("See [[nowhere-at-all]] for more.", key="links")
    found = plain(check(memory))
    assert found["total"] == len(found["findings"]) == sum(each["count"] for each in found["kinds"])
    broken = [each for each in found["findings"] if "nowhere-at-all" in each["why"]]
    assert [each["key"] for each in broken] == ["links"]
    kind = broken[0]["what"]
    assert {each["what"] for each in check(memory, what=kind)["findings"]} == {kind}
    assert check(memory, severity="no-such")["findings"] == []


def test_what_would_be_tidied_is_shown_as_differences_and_changes_nothing(tmp_path: Path) -> None:
    old = opened(tmp_path, at=NOON - timedelta(days=900))
    old.store("The staging server is called falcon.", key="staging", type="project")
    memory = opened(tmp_path)
    before = (tmp_path / "home" / memory.show("staging").path).read_bytes()
    found = plain(tidy(memory))
    assert (found["only"], found["total"]) == ("sweep", 1)
    proposal = found["proposals"][0]
    assert (proposal["key"], proposal["edits"][0]["archives"]) == ("staging", True)
    assert any("falcon" in line for line in proposal["edits"][0]["diff"])
    assert (tmp_path / "home" / memory.show("staging").path).read_bytes() == before
    assert list_runs(memory)["runs"] == []
    memory.care.sweep(apply=True)
    runs = plain(list_runs(memory))["runs"]
    assert [(each["what"], each["undone"]) for each in runs] == [("sweep", False)]
    memory.care.undo(runs[0]["run"])
    assert list_runs(memory)["runs"][0]["undone"]
    assert (tmp_path / "home" / memory.show("staging").path).read_bytes() == before


def test_a_clean_up_is_run_alone_and_known_again_by_its_tag(tmp_path: Path) -> None:
    for back in (900, 3, 2, 1):
        opened(tmp_path, at=NOON - timedelta(days=back)).note("The build cache is on the second disk.")
    memory = opened(tmp_path)
    asked: list[str] = []

    def watched(name: str) -> None:
        real = getattr(memory.care, name)

        def called(**given: Any) -> Any:
            asked.append(name)
            return real(**given)

        setattr(memory.care, name, called)

    for name in ("sweep", "heal", "merge"):
        watched(name)
    found = tidy(memory, only="promote")
    assert found["total"] == 1
    assert asked == []
    later = opened(tmp_path, at=NOON + timedelta(minutes=7))
    assert tidy(later, only="promote")["etag"] == found["etag"]
    assert tidy(memory, only="heal")["etag"] != found["etag"]
    assert asked == ["heal"]
    with pytest.raises(NotFound, match="no clean-up everything"):
        tidy(memory, only="everything")
