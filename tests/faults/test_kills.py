"""A hub that is killed under load: what it has confirmed is there, and offsets have no gap. `make soak` does more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from peers.client.journal import Committed
from tests.faults.hubs import DEADLINE_S, running_hub
from tests.faults.kills import Lives
from tests.faults.loads import frames_of

pytestmark = pytest.mark.slow

_KILLS = 2


@pytest.mark.parametrize("sync", ["normal", "full"])
async def test_killed_under_load(tmp_path: Path, sync: str) -> None:
    """Confirmed messages stand at their offsets; of each publisher a beginning is there, once; the next hub goes on."""
    lives = Lives(tmp_path / "journal", sync, Random(sync))  # noqa: S311 -- to be repeated
    for _ in range(_KILLS):
        life = await lives.live()
        assert life.confirmed
    lives.end()
    assert lives.ledger.confirmed_total > _KILLS


async def test_killed_while_a_batch_is_committed(tmp_path: Path) -> None:
    """All of it is there, or nothing; done again under the same number, it is there once."""
    lives = Lives(tmp_path / "journal", "normal", Random(3), writes=True)  # noqa: S311
    doubts = 0
    while doubts < _KILLS or not lives.writer.next_batch:
        await lives.live()
        doubts += lives.writer.in_doubt
    lives.end()
    assert lives.writer.recorded


async def test_killed_before_the_writer_hears_of_its_batch(tmp_path: Path) -> None:
    """The batch is done again: nothing is recorded, and the answer says so and where the batch stands."""
    path = tmp_path / "journal"
    async with running_hub(path) as hub, hub.connect() as writer, hub.connect() as reader:
        await writer.stage("t", 0, frames_of("q", range(1000)))
        commit = asyncio.create_task(writer.commit("t", [0], query="q", batch=0))
        async with asyncio.timeout(DEADLINE_S):
            while (await reader.journal()).head < 1000:
                pass
        hub.strike()
        commit.cancel()
    async with running_hub(path) as hub, hub.connect() as writer:
        await writer.stage("t", 0, frames_of("q", range(1000)))
        committed = await writer.commit("t", [0], query="q", batch=0)
        assert committed == Committed(0, 1000, again=True)
        assert (await writer.journal()).head == 1000
