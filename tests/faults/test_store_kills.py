"""A hub that has a store is killed under load: what was confirmed is there, and copies equal it. See `make soak`."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.faults.store_kills import StoreKills

pytestmark = pytest.mark.slow


@pytest.mark.timeout(300)
async def test_nothing_confirmed_is_lost_and_nothing_is_done_twice(tmp_path: Path) -> None:
    """Neither for writers at the hub that has the store, nor for those at another one."""
    outcome = await StoreKills(tmp_path, Random(3)).run(3)  # noqa: S311 -- to be repeated
    assert outcome.kills == 3
    assert outcome.confirmed > 0
    assert outcome.entries > 0
    assert outcome.changes_told > 0
