"""The way from any thread to a loop: bounded, woken once, never stuck."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hub.errors import BusyError, ClosedError
from peers.client.blocking.client import Mailbox


async def test_woken_once() -> None:
    woken: list[int] = []
    mailbox: Mailbox[int] = Mailbox(asyncio.get_running_loop(), lambda: woken.append(1))
    for number in range(100):
        mailbox.put_nowait(number, 1)
    await asyncio.sleep(0)
    assert woken == [1]
    assert mailbox.take() == list(range(100))
    assert mailbox.take() == []
    mailbox.put_nowait(100, 1)
    await asyncio.sleep(0)
    assert woken == [1, 1]


async def test_bound() -> None:
    mailbox: Mailbox[str] = Mailbox(asyncio.get_running_loop(), lambda: None, limit_bytes=1000)
    mailbox.put_nowait("large", 5000)
    with pytest.raises(BusyError, match="the limit is 1000"):
        mailbox.put_nowait("small", 1)
    assert mailbox.take() == ["large"]
    for _ in range(3):
        mailbox.put_nowait("small", 200)
    with pytest.raises(BusyError):
        mailbox.put_nowait("small", 200)
    with pytest.raises(BusyError, match="within 0 s"):
        mailbox.put("small", 200, timeout_s=0)
    assert len(mailbox.take()) == 3


async def test_waiting_for_room() -> None:
    loop = asyncio.get_running_loop()
    got: list[int] = []
    done = asyncio.Event()

    def take() -> None:
        got.extend(mailbox.take())
        if len(got) == 4000:
            done.set()

    mailbox: Mailbox[int] = Mailbox(loop, take, limit_bytes=1000)

    def put(first: int) -> None:
        for number in range(first, first + 1000):
            mailbox.put(number, 100)

    with ThreadPoolExecutor() as pool:
        threads = [loop.run_in_executor(pool, put, first) for first in range(0, 4000, 1000)]
        await done.wait()
        await asyncio.gather(*threads)
    assert sorted(got) == list(range(4000))
    for first in range(0, 4000, 1000):
        own = [number for number in got if first <= number < first + 1000]
        assert own == sorted(own)


async def test_closing() -> None:
    mailbox: Mailbox[int] = Mailbox(asyncio.get_running_loop(), lambda: None, limit_bytes=100)
    mailbox.put_nowait(1, 100)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(mailbox.put, 2, 100)
        mailbox.close(ClosedError("over"))
        assert isinstance(waiting.exception(), ClosedError)
    with pytest.raises(ClosedError, match="over"):
        mailbox.put_nowait(3, 1)
    assert mailbox.take() == [1]
    with pytest.raises(ClosedError, match="over"):
        mailbox.put(3, 1)


def test_a_loop_that_has_ended() -> None:
    loop = asyncio.new_event_loop()
    mailbox: Mailbox[int] = Mailbox(loop, threading.Event().set)
    loop.close()
    with pytest.raises(ClosedError, match="the event loop is closed"):
        mailbox.put_nowait(1, 1)
