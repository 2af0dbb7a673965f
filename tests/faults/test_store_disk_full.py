"""A store whose disk is full: who writes is told, who reads is not, and all is kept once there is room again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hub.errors import RequestError
from peers.client import Store
from tests.faults.full_disks import FillableDisk, LimitedFiles, NotPermittedError, ScarceDisk, small_disk
from tests.faults.hubs import DEADLINE_S, RunningHub, running_hub

pytestmark = pytest.mark.slow

_VALUE = "x" * 60_000


async def _write_until_refused(store: Store) -> tuple[dict[int, int], str]:
    """Put entries until one is not kept; return the versions of those that were, and what was said."""
    versions: dict[int, int] = {}
    async with asyncio.timeout(DEADLINE_S):
        while True:
            key = len(versions)
            try:
                version = await store.put(key, [key, _VALUE])
            except RequestError as error:
                return versions, str(error)
            assert version is not None
            versions[key] = version


async def _write_until_kept(store: Store) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                await store.put("room", "again")
            except RequestError:
                await asyncio.sleep(0.05)
            else:
                return


async def _go_through(disk: ScarceDisk, hub: RunningHub) -> tuple[dict[int, int], int]:
    """Fill the disk and give it room again; return what was confirmed, and the key of what was not."""
    async with hub.connect() as client:
        store = client.store("s")
        await store.put("first", 1)
        await disk.fill()
        versions, text = await _write_until_refused(store)
        assert "carried out, and it is unknown whether it will be kept" in text
        assert disk.reason in text or "full" in text or "I/O error" in text
        refused = len(versions)
        assert await store.get(refused) == [refused, _VALUE]  # reads go on, and show it already
        assert await store.get("first") == 1
        await disk.make_room(hub.process.pid)
        await _write_until_kept(store)
        return versions, refused


@pytest.mark.parametrize("kind", [FillableDisk, LimitedFiles])
async def test_full_and_room_again(kind: type[FillableDisk | LimitedFiles], tmp_path: Path) -> None:
    """What was confirmed is there after a kill, and so is what was refused: it was kept later, as was said."""
    async with AsyncExitStack() as stack:
        disk: ScarceDisk
        if issubclass(kind, LimitedFiles):
            disk = LimitedFiles(tmp_path)
        else:
            mount = tmp_path / "disk"
            mount.mkdir()
            try:
                disk = await stack.enter_async_context(small_disk(kind, mount))
            except NotPermittedError as error:
                pytest.skip(f"mounting is not permitted here: {error}")
        flags = ("--store", f"s={disk.journal}.db")
        async with running_hub(tmp_path / "journal of its own", *flags, wrap=disk.wrap) as hub:
            versions, refused = await _go_through(disk, hub)
            hub.strike()
        wrap = () if isinstance(disk, LimitedFiles) else disk.wrap
        async with running_hub(tmp_path / "another", *flags, wrap=wrap) as hub, hub.connect() as client:
            store = client.store("s")
            found = {entry.key: entry async for entry in store.entries()}
            assert {key: found[key].version for key in versions} == versions
            assert all(found[key].value == [key, _VALUE] for key in (*versions, refused))
            assert (found["first"].value, found["room"].value) == (1, "again")
