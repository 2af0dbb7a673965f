"""Waiting until a peer goes: woken at once, or when the time is up."""

from __future__ import annotations

import asyncio

from peers.node.links import Vacancies


async def test_a_peer_that_goes_wakes_all_that_wait() -> None:
    vacancies = Vacancies()
    waiting = [asyncio.ensure_future(vacancies.wait(3600.0)) for _ in range(2)]
    await asyncio.sleep(0)
    vacancies.tell()
    await asyncio.gather(*waiting)
    later = asyncio.ensure_future(vacancies.wait(3600.0))
    await asyncio.sleep(0)
    assert not later.done()
    vacancies.tell()
    await later


async def test_nobody_goes() -> None:
    vacancies = Vacancies()
    await vacancies.wait(0.0)
    assert not vacancies._waiting


async def test_whoever_gives_up_is_forgotten() -> None:
    vacancies = Vacancies()
    waiting = asyncio.ensure_future(vacancies.wait(3600.0))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not vacancies._waiting
    vacancies.tell()
