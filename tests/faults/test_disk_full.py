"""A journal without room: live delivery goes on, publishers are told, what is missing is counted; then all is well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path

import pytest

from hub.errors import CloseCode, RejectedError
from tests.faults.full_disks import (
    FillableDisk,
    GrowingDisk,
    LimitedFiles,
    NotPermittedError,
    ScarceDisk,
    small_disk,
)
from tests.faults.hubs import DEADLINE_S, running_hub
from tests.faults.ledger import Ledger, topic_of, value_of
from tests.faults.shortage import Traffic, go_through, wait_ready

pytestmark = pytest.mark.slow


@pytest.fixture
async def mounts() -> AsyncIterator[AsyncExitStack]:
    """What is mounted, until the test is over."""
    async with AsyncExitStack() as stack:
        yield stack


async def mounted(
    kind: type[GrowingDisk | FillableDisk], folder: Path, mounts: AsyncExitStack
) -> GrowingDisk | FillableDisk:
    """A small disk, where mounting is permitted."""
    mount = folder / "disk"
    mount.mkdir()
    try:
        return await mounts.enter_async_context(small_disk(kind, mount))
    except NotPermittedError as error:
        pytest.skip(f"mounting is not permitted here: {error}")


@pytest.mark.parametrize("kind", [GrowingDisk, FillableDisk, LimitedFiles])
async def test_full_and_room_again(
    kind: type[GrowingDisk | FillableDisk | LimitedFiles], tmp_path: Path, mounts: AsyncExitStack
) -> None:
    """Confirmations become errors that say why, and nothing else changes for anybody; it is over by itself."""
    disk: ScarceDisk
    if issubclass(kind, LimitedFiles):
        disk = LimitedFiles(tmp_path)
    else:
        disk = await mounted(kind, tmp_path, mounts)
    shortage = await go_through(disk, tmp_path)
    assert shortage.lost


async def test_killed_on_a_full_disk(tmp_path: Path, mounts: AsyncExitStack) -> None:
    """The next hub starts on it, refuses what it cannot record, and recovers; what was confirmed is there."""
    disk = await mounted(FillableDisk, tmp_path, mounts)
    ledger = Ledger(may_lose=True)
    async with (
        running_hub(disk.journal, "--journal-compression", "none", wrap=disk.wrap) as hub,
        hub.connect() as client,
    ):
        traffic = Traffic(client, ledger)
        await traffic.round()
        await disk.fill()
        async with asyncio.timeout(DEADLINE_S):
            while not traffic.refusals:
                await traffic.round()
        hub.strike()
    ledger.sent["next"] = 1
    async with (
        running_hub(disk.journal, "--journal-compression", "none", wrap=disk.wrap) as hub,
        hub.connect() as client,
    ):
        with pytest.raises(RejectedError, match=disk.reason) as raised:
            await client.publish_confirmed("/load/large", bytes(100_000))  # more than the rest of a page
        assert raised.value.code == CloseCode.JOURNAL_FAILED
        assert (await hub.get("/readyz"))[0] == HTTPStatus.SERVICE_UNAVAILABLE
        await disk.make_room(hub.process.pid)
        await wait_ready(hub)
        ledger.confirmed["next", 0] = await client.publish_confirmed(topic_of("next", 0), value_of("next", 0))
        await hub.stop()
    ledger.read(disk.fetch(tmp_path))
    ledger.check_confirmed()
