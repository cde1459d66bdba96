"""The oracle over a real hub: homes that push and pull, lose answers, die of it, part and are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tiers
from hub.test_commands import invited
from sync.homes import HubShare, failures
from sync.world import CHANGED_KEY

if TYPE_CHECKING:
    from pathlib import Path

    from hub.hubs import World

LIVES = tiers.few(2, 12)


def share_of(world: World) -> HubShare:
    """A workspace of its own, with nobody in it."""
    return HubShare(world.url, invited(world, "personal"))


@pytest.mark.scaled
def test_machines_that_meet_at_a_hub_agree_and_nothing_is_lost_doubled_or_brought_back(
    world: World, tmp_path: Path
) -> None:
    assert list(failures(range(LIVES), tmp_path, lambda: share_of(world))) == []


@pytest.mark.scaled
def test_a_key_that_is_changed_at_a_hub_loses_nothing(world: World, tmp_path: Path) -> None:
    seeds = range(100, 100 + tiers.few(1, 8))
    assert list(failures(seeds, tmp_path, lambda: share_of(world), more=CHANGED_KEY)) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_machines_that_meet_at_a_hub_agree_in_a_thousand_lives(
    part: int, world: World, tmp_path: Path
) -> None:
    seeds = range(1_000 + part * 50, 1_000 + (part + 1) * 50)
    assert list(failures(seeds, tmp_path, lambda: share_of(world))) == []
