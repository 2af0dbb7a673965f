"""Those who wait: each is woken once, and who gives up is forgotten."""

from __future__ import annotations

import asyncio

import pytest

from peers.client.conversation import Waiters


async def test_all_who_wait_are_woken() -> None:
    """Together; who waits again waits for the next change."""
    waiters = Waiters()
    tasks = [asyncio.create_task(waiters.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    assert waiters
    waiters.wake()
    assert not waiters
    await asyncio.gather(*tasks)
    again = asyncio.create_task(waiters.wait())
    await asyncio.sleep(0)
    assert waiters
    waiters.wake()
    await again


async def test_who_gives_up_is_forgotten() -> None:
    """Before the change, or in the same turn."""
    waiters = Waiters()
    first, second = (asyncio.create_task(waiters.wait()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second.cancel()
    waiters.wake()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert not waiters
