"""Journals and stores without room: who writes is told, what is missing is counted; with room all is well."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hub.errors import CloseCode, RejectedError, RequestError
from peers.cli.check import check
from peers.client import Store, connect
from tests.connections.broker.scripted import Endpointlike
from tests.daemon.hub_process import HubProcess
from tests.faults.full_disks import (
    FillableDisk,
    LimitedFiles,
    NotPermittedError,
    go_through,
    small_disk,
    wait_ready,
)
from tests.faults.kills import DEADLINE_S, running_hub

pytestmark = pytest.mark.slow

MASTER = "s/<$>/data/master"  # the topic of the master of a store, as Broker has it
VALUE = "x" * 60_000


@pytest.fixture
async def mounts() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def mounted(folder: Path, mounts: AsyncExitStack) -> FillableDisk:
    mount = folder / "disk"
    mount.mkdir()
    try:
        return await mounts.enter_async_context(small_disk(mount))
    except NotPermittedError as error:
        pytest.skip(f"mounting is not permitted here: {error}")


@pytest.mark.parametrize("kind", [FillableDisk, LimitedFiles])
async def test_full_and_room_again(
    kind: type[FillableDisk | LimitedFiles], tmp_path: Path, mounts: AsyncExitStack
) -> None:
    disk = LimitedFiles(tmp_path) if issubclass(kind, LimitedFiles) else await mounted(tmp_path, mounts)
    assert (await go_through(disk, tmp_path)).lost


async def test_a_hub_that_starts_without_room(tmp_path: Path, mounts: AsyncExitStack) -> None:
    """It carries live messages, says what is not there, and is not ready; with room all is well, and it says so."""
    disk = await mounted(tmp_path, mounts)
    disk.take_room()
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


async def test_a_hub_that_starts_again_without_room(tmp_path: Path, mounts: AsyncExitStack) -> None:
    """Positions and stores cannot be opened until there is room; Zeeks know the hub by another id until then."""
    disk = await mounted(tmp_path, mounts)
    flags = ("--listen", "zeek+tcp://127.0.0.1:0", "--store", f"s={disk.journal}.db", "--zeek-masters", "s")

    async def peered(process: HubProcess) -> Endpointlike:
        zeek = await Endpointlike.connect(process.endpoints[2])
        mounts.callback(zeek.close)
        return await zeek.peer("/")

    async with running_hub(disk.journal, *flags, wrap=disk.wrap) as hub, hub.connect() as client:
        await client.publish_confirmed("/a", 1)
        async with client.consume("c", "/a", from_offset=0) as messages:
            assert (await anext(messages)).value == 1
        before = await peered(hub.process)
        assert MASTER in before.hub_filter
        await hub.stop()
    disk.take_room()
    async with running_hub(disk.journal, *flags, wrap=disk.wrap) as hub, hub.connect() as client:
        with pytest.raises(RejectedError, match="the disk is full"):
            await client.publish_confirmed("/a", 2)
        meanwhile = await peered(hub.process)
        assert meanwhile.hub_id != before.hub_id
        assert MASTER not in meanwhile.hub_filter
        disk.free_room()
        await meanwhile.everything()  # the hub closes
        again = await peered(hub.process)
        assert (again.hub_id, MASTER in again.hub_filter) == (before.hub_id, True)
        await wait_ready(hub)
        assert await client.publish_confirmed("/a", 2) == 1
        async with client.consume("c", "/a") as messages:
            assert (await anext(messages)).offset == 0  # it was not acknowledged
        await hub.stop()


async def write_until_refused(store: Store) -> tuple[dict[int, int], str]:
    versions: dict[int, int] = {}
    while True:
        key = len(versions)
        try:
            version = await store.put(key, [key, VALUE])
        except RequestError as error:
            return versions, str(error)
        assert version is not None
        versions[key] = version


async def test_a_store(tmp_path: Path) -> None:
    disk = LimitedFiles(tmp_path)
    flags = ("--store", f"s={disk.journal}.db")
    async with (
        running_hub(tmp_path / "journal of its own", *flags, wrap=disk.wrap) as hub,
        hub.connect() as client,
        asyncio.timeout(DEADLINE_S),
    ):
        store = client.store("s")
        await store.put("first", 1)
        versions, text = await write_until_refused(store)
        assert "carried out, and it is unknown whether it will be kept" in text
        assert disk.reason in text or "full" in text or "I/O error" in text
        refused = len(versions)
        assert await store.get(refused) == [refused, VALUE]  # reads go on, and show it already
        disk.free_room(hub.process.pid)
        while True:
            try:
                await store.put("room", "again")
            except RequestError:
                await asyncio.sleep(0.05)
            else:
                break
        hub.strike()
    async with running_hub(tmp_path / "another", *flags) as hub, hub.connect() as client:
        found = {entry.key: entry async for entry in client.store("s").entries()}
        assert {key: found[key].version for key in versions} == versions
        assert all(found[key].value == [key, VALUE] for key in (*versions, refused))
        assert (found["first"].value, found["room"].value) == (1, "again")
