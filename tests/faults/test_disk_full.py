"""A journal without room: live delivery goes on, publishers are told, what is missing is counted; then all is well."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path

import pytest

from hub.errors import CloseCode, RejectedError
from peers.cli.check import check
from peers.client import connect
from tests.connections.broker.scripted import Endpointlike
from tests.daemon.hub_process import HubProcess
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

MASTER = "s/<$>/data/master"
"""The topic of the master of a store, as Broker has it."""


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


async def test_a_hub_that_starts_without_room(tmp_path: Path, mounts: AsyncExitStack) -> None:
    """It carries live messages, says what is not there, and is not ready; with room all is well, and it says so."""
    disk = await mounted(FillableDisk, tmp_path, mounts)
    await disk.fill()
    folder = Path(disk.journal).parent
    flags = ("--listen", "tcp://127.0.0.1:0", "--listen", "ws://127.0.0.1:0", "--journal", disk.journal)
    flags = (*flags, "--store", f"s={folder}/s.db", "--store", "m=:memory:", "--store-from", "s=/fed", "--log-format")
    hub = await HubProcess.start((*flags, "json"), {}, before=disk.wrap)
    mounts.push_async_callback(hub.kill)
    await hub.wait_up(2)
    tcp, web = (endpoint.location for endpoint in hub.endpoints)
    async with connect(tcp) as client, client.subscribe("/a") as messages:
        await hub.wait_logged("a store is not served")
        await client.publish("/a", 1)
        assert (await anext(messages)).value == 1
        await client.store("m").put("key", 1)
        with pytest.raises(RejectedError, match=r"the disk is full; make room: it is tried again") as refused:
            await client.publish_confirmed("/a", 2)
        assert refused.value.code == CloseCode.JOURNAL_FAILED
        assert await asyncio.to_thread(check, web) == 2
        disk.free_room()
        await hub.wait_logged("a store is served now")
        assert await asyncio.to_thread(check, web) == 0
        await client.publish_confirmed("/a", 2)
        await client.publish_confirmed("/fed", 3)
        assert await client.store("s").get("/fed") == 3
        assert [line["event"] for line in hub.log].count("nothing is recorded") == 1
        assert "the journal is open now" in [line["event"] for line in hub.log]
    hub.signal(signal.SIGTERM)
    assert (await hub.wait_ended())[0] == 0


async def test_a_hub_with_consumers_that_starts_without_room(tmp_path: Path, mounts: AsyncExitStack) -> None:
    """The journal is there, and the positions of its consumers cannot be opened: they are once there is room."""
    disk = await mounted(FillableDisk, tmp_path, mounts)
    async with running_hub(disk.journal, wrap=disk.wrap) as hub, hub.connect() as client:
        await client.publish_confirmed("/a", 1)
        async with client.consume("c", "/a", from_offset=0) as messages:
            assert (await anext(messages)).value == 1
        await hub.stop()
    await disk.fill()
    async with running_hub(disk.journal, wrap=disk.wrap) as hub, hub.connect() as client:
        with pytest.raises(RejectedError, match="the disk is full"):
            await client.publish_confirmed("/a", 2)
        disk.free_room()
        await wait_ready(hub)
        assert await client.publish_confirmed("/a", 2) == 1
        async with client.consume("c", "/a") as messages:
            assert (await anext(messages)).offset == 0  # it was not acknowledged
        await hub.stop()


async def test_zeeks_of_a_hub_that_starts_without_room(tmp_path: Path, mounts: AsyncExitStack) -> None:
    """They know it by the id that is in the file of its store, and of the store, once that is open."""
    disk = await mounted(FillableDisk, tmp_path, mounts)
    flags = ("--listen", "zeek+tcp://127.0.0.1:0", "--store", f"s={Path(disk.journal).parent}/s.db")
    flags = (*flags, "--zeek-masters", "s", "--log-format", "json")

    async def start() -> HubProcess:
        hub = await HubProcess.start(flags, {}, before=disk.wrap)
        mounts.push_async_callback(hub.kill)
        return await hub.wait_up()

    async def peered(hub: HubProcess) -> Endpointlike:
        zeek = await Endpointlike.connect(hub.endpoints[0])
        mounts.callback(zeek.close)
        return await zeek.peer("/")

    first = await start()
    before = await peered(first)
    assert MASTER in before.hub_filter
    first.signal(signal.SIGTERM)
    assert (await first.wait_ended())[0] == 0
    await disk.fill()
    hub = await start()
    meanwhile = await peered(hub)
    assert meanwhile.hub_id != before.hub_id
    assert MASTER not in meanwhile.hub_filter
    disk.free_room()
    await meanwhile.everything()  # the hub closes
    again = await peered(hub)
    assert (again.hub_id, MASTER in again.hub_filter) == (before.hub_id, True)
