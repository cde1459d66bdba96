"""`vade purge` of what a team shares: by its owner, for all; what is private or another's stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hub.test_team import Pair, meet, pair, values_of
from sync.test_purges import holding
from vademecum.errors import Refused
from vademecum.memory import sync as syncing
from vademecum.sync import purge_orders

if TYPE_CHECKING:
    from hub.hubs import World

__all__ = ["pair"]
WORDS = "The vault opens with heron."


def test_an_owner_purges_a_record_on_every_machine_and_from_the_database(pair: Pair, world: World) -> None:
    anna, bert = pair
    anna.memory().store(WORDS, key="vault", team="ours")
    meet(anna, bert)
    assert holding(bert.base / "home", WORDS)
    anna.memory().archive.purge("vault")
    meet(anna, bert)
    for member in pair:
        assert holding(member.base / "home", WORDS) == []
    assert not any(WORDS in each for each in values_of(world, "true"))


@pytest.mark.full
def test_an_owner_purges_a_text_from_what_another_member_wrote(pair: Pair, world: World) -> None:
    anna, bert = pair
    bert.memory().store(f"{WORDS} Ask Bert.", key="vault", team="ours")
    bert.memory().store(f"My own note: {WORDS}", key="note")
    meet(bert, anna)
    anna.memory().archive.purge_text(WORDS)
    meet(anna, bert)
    assert holding(anna.base / "home", WORDS) == []
    assert not any(WORDS in each for each in values_of(world, "true"))
    assert "Ask Bert." in bert.text("vault")
    assert WORDS not in bert.text("vault")
    # An owner decides about what is the team's, and about nothing else on others' machines.
    assert bert.memory().show("note").text == f"My own note: {WORDS}"
    assert holding(bert.base / "home/memory", WORDS) == ["project/api/records/note.md"]


def test_a_purge_of_a_private_record_leaves_the_teams_of_that_name_and_the_other_way_round(
    pair: Pair, world: World
) -> None:
    anna, bert = pair
    anna.memory().store("Ours alone.", key="vault", team="ours")
    meet(anna, bert)
    private = anna.base / "home/memory/project/api/records/vault.md"
    private.parent.mkdir(parents=True, exist_ok=True)
    private.write_text(f"---\nkey: vault\n---\n\n## 2026-01-01T10:00:00Z\n{WORDS}\n")
    anna.memory().archive.purge(f"memory/project/api/records/{private.name}")
    assert purge_orders.list_orders(anna.home) == []
    meet(anna, bert)
    assert not private.exists()
    assert "Ours alone." in bert.text("vault")
    assert any("Ours alone." in each for each in values_of(world, "true"))
    assert world.sql("SELECT count(*) FROM hub.fact WHERE kind = 'purge' OR purged_at IS NOT NULL") == [(0,)]


@pytest.mark.full
def test_who_does_not_own_the_team_cannot_purge_its_records_and_is_told_where_a_text_stays(
    pair: Pair, world: World
) -> None:
    anna, bert = pair
    anna.memory().store(f"{WORDS} Ask Anna.", key="vault", team="ours")
    meet(anna, bert)
    before = bert.text("vault")
    with pytest.raises(Refused, match="only an owner of ours can purge its records"):
        bert.memory().archive.purge("vault")
    assert bert.text("vault") == before
    done = bert.memory().archive.purge_text(WORDS)
    kept = [each for each in done if not each.gone]
    assert [(each.where, each.count) for each in kept] == [("team:ours", 1)]
    assert syncing.spread_purge(bert.memory(), WORDS, found=done) == []  # that it stays there is said already
    assert any(WORDS in each for each in values_of(world, "true"))


@pytest.mark.full
def test_a_teams_purge_that_was_cut_short_is_finished_in_the_teams_files(pair: Pair) -> None:
    anna, bert = pair
    anna.memory().store(WORDS, key="vault", team="ours")
    meet(anna, bert)
    scope_folder = anna.memory().workspace.find("vault", None).scope_folder
    from vademecum.sync import purge_facts

    placed = purge_orders.place_orders(
        anna.home,
        lambda state: purge_facts.find_record(state, "records/vault.md", None),
        scope_folder=scope_folder,
    )
    assert len(placed) == 1
    purge_orders.finish(anna.home, "human:anna", anna.now)
    meet(anna, bert)
    for member in pair:
        assert holding(member.base / "home", WORDS) == []
