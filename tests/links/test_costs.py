"""What links cost: who says it, and which way messages take then."""

from __future__ import annotations

import pytest

from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import LOOPBACK, Hub


def cost(hub: Hub, one: Hub, other: Hub) -> int | None:
    return hub.node.core.mesh.graph.links.get(one.node.id, {}).get(other.node.id)


@pytest.mark.parametrize(
    ("listened", "dialled", "counts"),
    [("", None, 1), ("", 5, 5), ("?cost=7", None, 7), ("?cost=7", 5, 7), ("?cost=7", 9, 9)],
)
async def test_the_larger_of_both_ends_counts(
    start_hub: StartHub, listened: str, dialled: int | None, counts: int
) -> None:
    near, far = await start_hub(name="near"), await start_hub(LOOPBACK + listened, name="far")
    near.dial(far, cost=dialled)
    await eventually(lambda: cost(near, near, far) and cost(far, near, far))
    assert (cost(near, near, far), cost(far, near, far)) == (counts, counts)


async def test_messages_take_the_cheapest_way_there_is(start_hub: StartHub) -> None:
    first, last, third = [await start_hub(name=name) for name in ("first", "last", "third")]
    first.dial(last, cost=10)
    first.dial(third)
    third.dial(last)
    reader, writer = await last.client("/a"), await first.client()
    mesh = first.node.core.mesh
    await eventually(
        lambda: first.wanted_by(last) == {"/a"} and mesh.traffic.way_to(last.node.id) == (2, first.handler("third"))
    )
    await eventually(lambda: all(hub.node.core.mesh.is_settled for hub in (first, last, third)))
    await writer.publish("/a", 1)
    assert await reader.values(1) == [("/a", 1)]
    assert (last.handler("third").published_messages, last.handler("first").published_messages) == (1, 0)
    await third.stop()
    await eventually(lambda: mesh.traffic.way_to(last.node.id) == (10, first.handler("last")))
    await writer.publish("/a", 2)
    assert await reader.values(1) == [("/a", 2)]
    assert last.handler("first").published_messages == 1
