"""Hubs in a ring under load, while one link after the other is cut and comes back: every message is accounted for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from tests.hubs.fixtures import StartHub
from tests.links.accounting import account_for_all
from tests.links.ledger import Ledger
from tests.links.load import Load
from tests.links.reader import Reader
from tests.links.shapes import RING, Shape

CUTS = 10


@pytest.fixture
async def ring(start_hub: StartHub) -> AsyncIterator[Shape]:
    shape = await Shape.start(start_hub, RING)
    await shape.settled()
    yield shape
    await shape.stop()


async def test_what_was_published_was_received_or_is_counted(ring: Shape) -> None:
    readers = [Reader(client) for client in await ring.subscribers("/from/")]
    ledger = Ledger(ring.hubs)
    load = Load([await hub.client() for hub in ring.hubs])
    random = Random("fire")  # noqa: S311 -- to be repeated
    for number in range(CUTS):
        await asyncio.sleep(random.random() * 0.2)
        await ring.whole()
        ring.ways[RING[number % len(RING)]].cut()
    await account_for_all(ring, load, readers, ledger)
