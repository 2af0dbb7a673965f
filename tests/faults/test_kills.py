"""Hubs, workers, members and copying processes that are killed: nothing confirmed is lost, nothing is done twice."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.faults.group import Group
from tests.faults.kills import Lives
from tests.faults.store_kills import StoreKills
from tests.faults.tiers import STAGES, TieredLives, tier_of

pytestmark = pytest.mark.slow

_MESSAGES = 4_000


async def test_killed_under_load(tmp_path: Path) -> None:
    lives = Lives(tmp_path / "journal", "full", Random(4), most_messages=10_000)  # noqa: S311 -- to be repeated
    life = await lives.live()
    assert life.confirmed
    lives.end()


async def test_killed_while_a_batch_is_committed(tmp_path: Path) -> None:
    """All of it is there, or nothing; done again under the same number, it is there once, and the next hub goes on."""
    lives = Lives(tmp_path / "journal", "normal", Random(3), writes=True)  # noqa: S311
    doubts = 0
    while doubts < 2 or not lives.writer.next_batch:
        await lives.live()
        doubts += lives.writer.in_doubt
    lives.end()
    assert lives.writer.recorded


async def test_members_and_workers_are_killed(tmp_path: Path) -> None:
    outcome = await Group(tmp_path, _MESSAGES, Random(11), workers=2).run(1, 1, 2)  # noqa: S311
    assert outcome.worked >= _MESSAGES


async def test_members_are_killed(tmp_path: Path) -> None:
    outcome = await Group(tmp_path, _MESSAGES, Random(7)).run(2, 0)  # noqa: S311
    assert outcome.worked >= _MESSAGES
    assert outcome.again <= outcome.redelivered <= outcome.counted


async def test_a_hub_that_has_a_store(tmp_path: Path) -> None:
    outcome = await StoreKills(tmp_path, Random(3), most_confirmed=1_000).run(2)  # noqa: S311
    assert outcome.kills == 2
    assert min(outcome.confirmed, outcome.entries, outcome.changes_told) > 0


async def test_killed_while_it_copies(tmp_path: Path) -> None:
    random = Random(1)  # noqa: S311
    async with tier_of("folder", tmp_path, random) as tier:
        lives = TieredLives(tmp_path, tier, random, most_messages=5_000)
        for trouble, stage in zip(tier.troubles, STAGES, strict=True):
            await lives.live(trouble, stage)
        await lives.end()
    assert lives.ledger.confirmed_total > len(STAGES)
