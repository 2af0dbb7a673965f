"""A hub, and the process that copies its journal, are killed; the tier is away, and full. `make soak` does more."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.faults.tiered_lives import STAGES, TieredLives
from tests.faults.tiers import tier_of

pytestmark = pytest.mark.slow


async def test_killed_while_it_copies(tmp_path: Path) -> None:
    """Each record is read back once, from the tier and from here; what is confirmed is there; tools find it once."""
    random = Random(1)  # noqa: S311 -- to be repeated
    async with tier_of("folder", tmp_path, random) as tier:
        lives = TieredLives(tmp_path, tier, random)
        for trouble, stage in zip(tier.troubles, STAGES, strict=True):
            await lives.live(trouble, stage)
        await lives.end()
    assert lives.ledger.confirmed_total > len(STAGES)
