"""Ways on which bytes pass in one direction only, or in none, and nobody is told: others do not notice it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.hubs.fixtures import StartHub
from tests.links.accounting import account_for_all
from tests.links.ledger import Ledger
from tests.links.load import Load
from tests.links.quiet_pair import QuietPair
from tests.links.reader import Reader
from tests.links.shapes import Edges, Shape

SQUARE: Edges = ((0, 1), (1, 2), (2, 3), (3, 0))


@pytest.fixture
async def square(start_hub: StartHub) -> AsyncIterator[Shape]:
    shape = await Shape.start(start_hub, SQUARE)
    await shape.settled()
    yield shape
    await shape.stop()


@pytest.mark.parametrize(("of_near", "of_far"), [(True, False), (False, True), (True, True)])
async def test_a_way_that_swallows_what_one_side_sends(square: Shape, *, of_near: bool, of_far: bool) -> None:
    pair = await QuietPair.of(square.hubs[2], square.hubs[3])
    readers = [Reader(client) for client in await square.subscribers("/from/")]
    ledger = Ledger(square.hubs)
    load = Load([await hub.client() for hub in square.hubs])
    async with pair.busy():
        await square.silence(0, 1, of_near=of_near, of_far=of_far)
    await account_for_all(square, load, readers, ledger)
