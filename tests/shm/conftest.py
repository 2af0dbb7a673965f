"""Every test here runs on asyncio's loop and on uvloop; a test that leaves a descriptor behind fails."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hub.settings.settings import Settings
from tests.garbage import set_aside
from tests.hubs.fixtures import kept_hubs, pytest_asyncio_loop_factories, uncaught
from tests.shm.hubs import SharingHub

__all__ = ["pytest_asyncio_loop_factories", "uncaught"]
StartHub = Callable[..., Awaitable[SharingHub]]


def memfds() -> int:
    found = 0
    for entry in os.scandir("/proc/self/fd"):
        try:
            found += "memfd:" in os.readlink(entry.path)  # noqa: PTH115 -- no file stands behind it
        except FileNotFoundError:
            continue
    return found


@pytest.fixture(scope="module", autouse=True)
def nothing_else_is_walked_over() -> None:
    set_aside()


@pytest.fixture
async def start_hub(tmp_path: Path, uncaught: None) -> AsyncIterator[StartHub]:  # noqa: ARG001 -- looks afterwards
    gc.collect()
    before = memfds()
    async with kept_hubs() as hubs:

        async def start(*, settings: Settings | None = None) -> SharingHub:
            hub = SharingHub(settings or Settings())
            await hub.listen(f"unix://{tmp_path}/{len(hubs)}.sock")
            hubs.append(hub)
            return hub

        yield start
    assert all(hub.server.shared.descriptors.open == 0 for hub in hubs)
    gc.collect()
    assert memfds() == before


@pytest.fixture
async def hub(start_hub: StartHub) -> SharingHub:
    return await start_hub()
