"""What the connections of one hub share: the limit on their number, the hub's identity, the end of a turn."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from structlog.testing import capture_logs

from hub.batch import Batch
from hub.delivery import Role
from hub.handler import Handler
from hub.limits import CoreLimits
from hub.mesh.announcement import Announcement
from hub.overflow import QueueLimits
from hub.settings.sections import Limits
from hub.settings.settings import Settings
from peers.node.node import MINUTE_S, Node, core_limits
from tests.hub.fakes import FakeOutlet, handler_of, publish
from tests.hubs.clock import ShiftedLoop


@pytest.fixture
async def node() -> Node:
    return Node(Settings(limits=Limits(connections=2, frame_bytes=5000)), name="north")


async def test_the_end_of_a_turn(node: Node) -> None:
    outlet = FakeOutlet()
    handler = Handler(outlet, role=Role.LOCAL, limits=QueueLimits())
    node.core.attach(handler)
    node.core.subscribe(handler, ["/a"])
    publish(node.core, "/a", 1)
    publish(node.core, "/a", 2)
    order: list[str] = []
    node.after_turn(lambda: order.append(f"{outlet.writes} writes"))
    assert outlet.writes == 0
    await asyncio.sleep(0)
    assert outlet.writes == 1
    assert outlet.values == [1, 2]
    assert order == ["1 writes"]
    assert isinstance(outlet.told[0], Batch)


async def test_limits_reach_the_core() -> None:
    node = Node(Settings(limits=Limits(routes=7, prefixes_per_client=3)))
    assert node.core.routes.limit == 7
    assert core_limits(Settings(limits=Limits(prefixes_per_client=3)), 1 << 40).client.prefixes == 3
    assert core_limits(Settings(), 1 << 40) == CoreLimits()
    assert core_limits(Settings(), 256 << 20).mesh.prefixes_total == 32_768


async def test_the_id_is_a_uuid() -> None:
    ids = {Node(Settings()).id for _ in range(64)}
    assert len(ids) == 64
    for hub_id in ids:
        parsed = uuid.UUID(bytes=hub_id)
        assert (parsed.version, parsed.variant) == (4, uuid.RFC_4122)


async def test_another_hub_with_the_same_id_is_logged_once_a_minute() -> None:
    node, clock = Node(Settings(), name="north"), ShiftedLoop()
    node.loop = clock  # type: ignore[assignment]
    link = handler_of(role=Role.LINK)
    node.core.attach(link)
    node.core.link(link, b"\x01" * 16, lambda: None)
    with capture_logs() as lines:
        for ahead_s in (0.0, 1.0, MINUTE_S + 1, 1.0):
            clock.ahead_s += ahead_s
            node.core.mesh.hear(link, Announcement(node.id, 0, 1000, "twin", ()))
    told = [line["hub"] for line in lines if line["event"].startswith("another hub has the id of this one")]
    assert told == [node.id.hex()] * 2
    assert node.core.mesh.statistics().clashes_total == 4
