"""A short month of a team: three members, five machines; bugs in whose a text is are found by it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from cases import every_case
from sync import month
from sync.world import TEXT
from vademecum.sync import blocks, team_signing
from vademecum.sync.team_signing import TeamSigning
from vademecum.types import Origin, parse_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.sync.facts import SyncFact

Patch = pytest.MonkeyPatch


def test_a_short_month_ends_with_the_same_files_everywhere_each_text_under_its_author() -> None:
    lived = month.live(30, 500, seed=3)
    assert lived.edits == 500
    assert lived.kills
    assert lived.counts["removed"]
    assert lived.counts["conflicts"]


def test_who_deletes_the_last_line_of_anothers_text_does_not_become_its_author() -> None:
    world = month.LargeWorld(random.Random(0), len(month.MEMBERS))
    anna, bert = world.replicas[0], world.replicas[2]
    world.fill(anna, 1)
    [path] = anna.files.texts
    for name in ("contradicts: 2026-01-01T00:00:03Z", "superseded: 2026-01-01T00:00:03Z"):
        anna.files.texts[path] = anna.files.texts[path].replace(" | id: ", f" | {name} | id: ")
    for at in (anna, bert):
        at.sync()
    bert.files.texts[path] = f"{bert.files.texts[path].rpartition('<!-- ')[0]}"
    for at in (bert, anna, bert):
        at.sync()
    said = blocks.parts(blocks.cut(bert.files.texts[path], path).blocks[0].raw)
    assert (said["origin"], said["contradicts"]) == ("member:anna", "2026-01-01T00:00:03Z")
    assert "superseded" not in said
    assert {fact.kind for fact in world.hub.logs[bert.log.replica]} == {"mark"}


@every_case("kill", range(24))
def test_a_copy_in_a_team_is_not_taken_for_its_original_that_was_renamed_elsewhere(kill: int) -> None:
    world = month.LargeWorld(random.Random(0), len(month.MEMBERS))
    anna, bert = world.replicas[0], world.replicas[2]
    world.fill(anna, 1)
    for at in (anna, bert):
        at.sync()
    [path] = anna.files.texts
    anna.files.texts["records/zebra.md"] = anna.files.texts.pop(path)
    anna.sync()
    bert.files.texts["records/goat.md"] = bert.files.texts[path].replace("x1 ", "x2 ")
    bert.sync(kill=kill)
    for at in (bert, anna, bert):
        at.sync()
    found = {path: TEXT.findall(text) for path, text in anna.files.texts.items()}
    assert found == {"records/zebra.md": ["x1"], "records/goat.md": ["x2"]}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_twenty_months_end_with_the_same_files_everywhere(seed: int) -> None:
    assert month.live(100, 3_000, seed=seed).edits == 3_000


def what_a_file_claims_is_believed(patch: Patch) -> None:
    """The origin in a text's last line counts as it stands."""
    patch.setattr(team_signing, "claimed_origin", parse_origin)
    patch.setattr(TeamSigning, "origin", lambda self, fact: parse_origin(fact.origin))


def everybody_is_oneself(patch: Patch) -> None:
    patch.setattr(TeamSigning, "origin", lambda self, fact: Origin.USER)


def a_signature_is_part_of_the_text(patch: Patch) -> None:
    """Files that are signed anew look edited: texts go out under the name of whoever syncs."""
    real = TeamSigning.content

    def content(self: TeamSigning, raw: str) -> str:
        return f"{real(self, raw)}\0{raw.rpartition('<!-- ')[2]}"

    patch.setattr(TeamSigning, "content", content)


def the_stamp_of_another_fact_counts(patch: Patch) -> None:
    real = TeamSigning.sign_block

    def sign_block(self: TeamSigning, raw: str, facts: Sequence[SyncFact], mark: str) -> str:
        first = next(iter(self.stamps()), facts[0].id)
        other = [self.__class__(self.me, (), lambda: {facts[0].id: self.stamps()[first]}, self.is_mine)]
        return real(other[0] if self.stamps() else self, raw, facts[:1], mark)

    patch.setattr(TeamSigning, "sign_block", sign_block)


BUGS: list[Callable[[Patch], None]] = [
    what_a_file_claims_is_believed,
    everybody_is_oneself,
    a_signature_is_part_of_the_text,
    the_stamp_of_another_fact_counts,
]


@pytest.mark.full
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_bug_planted_in_whose_a_text_is_is_found(
    plant: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        month.live(10, 150, seed=1)
