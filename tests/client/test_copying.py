"""How a copy of a store is asked for, with a master that the test plays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hub.stores.replica import Replica
from peers.client import replica as copying
from peers.client.replica import StoreReplica
from tests.stores.packed import pack

PAGES = 9


class Silent:
    async def open(self) -> None:
        """It is open at once."""

    async def batch(self) -> Any:
        await asyncio.Event().wait()

    async def close(self) -> None:
        """There is nothing to close."""


class Master:
    def __init__(self) -> None:
        self.asked_pages = 0

    async def read(self, order: list[Any]) -> Any:
        if order[0] == "state":
            return 1, 0, 0, 0
        page = self.asked_pages
        self.asked_pages += 1
        await asyncio.sleep(0)
        return 1, 7 if page < PAGES - 1 else 0, 0, 0, [(pack(page), pack(page), page)] if page < PAGES else []


async def test_further_pages_are_on_their_way_while_one_is_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the hub would do nothing while a page is taken in, and the client nothing while the hub makes one."""
    master = Master()
    ahead: list[int] = []
    take = Replica.take_rows

    def taking(replica: Replica, rows: Any) -> None:
        ahead.append(master.asked_pages - len(ahead) - 1)
        take(replica, rows)

    monkeypatch.setattr(Replica, "take_rows", taking)
    stream: Any = Silent()
    made = StoreReplica(master.read, stream)
    await made.open()
    try:
        assert len(made) == PAGES
    finally:
        await made.close()
    assert ahead[: PAGES - copying._PAGES_AHEAD] == [copying._PAGES_AHEAD] * (PAGES - copying._PAGES_AHEAD)
