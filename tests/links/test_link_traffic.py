"""What a hub tells of its links: what they carry, how late they are, which paths have moved."""

from __future__ import annotations

from hub.overflow import Overflow, QueueLimits
from peers.links.link import PING_EVERY_S
from peers.node.traffic import LinkTraffic
from tests.connections.tcp.asking import asked, asking, serve
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.settings import settings_of
from tests.links.shapes import Shape
from tests.links.way import Way


def traffic(hub: Hub, other: str) -> LinkTraffic:
    (found,) = [one for one in hub.node.traffic.statistics(hub.clock.time()) if one.hub == other]
    return found


async def test_what_goes_one_way(start_hub: StartHub) -> None:
    near, far = [await start_hub(name=name) for name in ("near", "far")]
    near.dial(far)
    reader = await far.client("/a")
    await eventually(lambda: near.wanted_by(far) == {"/a"})
    writer = await near.client()
    for number in range(10):
        await writer.publish("/a", "x" * 1000, number)
    await reader.values(20)
    out, arrived = traffic(near, "far"), traffic(far, "near")
    assert (out.links, out.carried.sent_messages, out.carried.received_messages) == (1, 20, 0)
    assert (arrived.links, arrived.carried.received_messages, arrived.carried.sent_messages) == (1, 20, 0)
    assert 10_000 < out.carried.sent_bytes <= arrived.carried.received_bytes < 20_000
    assert not any(out.dropped.values())
    await serve(reader, "/a")
    await eventually(lambda: near.node.core.requests.statistics().services == 1)
    await writer.send(asking("/a", 1, "y" * 30_000))
    await asked(reader)
    grown = traffic(near, "far").carried.sent_bytes - out.carried.sent_bytes
    assert 30_000 < grown < 31_000
    assert traffic(far, "near").carried.received_bytes - arrived.carried.received_bytes >= grown
    await far.crash()
    await eventually(lambda: far.wanted_by(near) == set() and traffic(near, "far").links == 1)
    assert traffic(near, "far").carried.sent_messages == 20


async def measured(hub: Hub, other: str) -> None:
    while traffic(hub, other).lag_s is None:
        hub.later(1.0)
        await settle()


async def test_a_link_is_measured_though_it_is_busy(start_hub: StartHub) -> None:
    near, far = [await start_hub(name=name) for name in ("near", "far")]
    way = await Way(far.endpoint).start()
    near.dial(way)
    reader = await far.client("/busy")
    await eventually(lambda: near.wanted_by(far) == {"/busy"})
    writer = await near.client()
    for hub, other in ((near, "far"), (far, "near")):
        await writer.publish("/busy", 1)
        await measured(hub, other)
        assert await reader.values(1) == [("/busy", 1)]
    way.hold()
    near.later(PING_EVERY_S + 1.0)
    near.clock.ahead_s += 100.0
    assert (traffic(near, "far").lag_s or 0.0) >= 99.9  # a difference of times: as exact as the clock's own figures
    await near.stop_dialling()
    await way.stop()


async def test_what_waits_for_a_link(start_hub: StartHub) -> None:
    settings = settings_of(queue=QueueLimits(messages=50, overflow=Overflow.DROP_OLDEST))
    near, far = [await start_hub(name=name, settings=settings) for name in ("near", "far")]
    near.dial(far)
    await far.client("/a")
    await eventually(lambda: near.wanted_by(far) == {"/a"})
    writer = await near.client()
    near.handler("far").pause()
    await writer.publish("/a", *range(40))
    await writer.ping()
    while traffic(near, "far").waiting_s < 4.0:
        near.later(1.0)
    assert traffic(near, "far").queued_messages == 40
    await writer.publish("/a", *range(40))
    await writer.ping()
    now = traffic(near, "far")
    assert now.dropped["queue_full"] == 30
    assert now.queued_messages == 50
    near.handler("far").resume()
    assert traffic(near, "far").waiting_s == 0.0


async def test_paths_that_move(start_hub: StartHub) -> None:
    shape = await Shape.start(start_hub, ((0, 1), (1, 2), (0, 2)))
    await shape.settled()
    first, _, last = shape.hubs
    (reader,) = await shape.subscribers("/", at=[2])
    writer = await first.client()

    def moves() -> dict[str, int]:
        return {name: traffic(last, name).carried.path_changes for name in ("hub-0", "hub-1")}

    await writer.publish("/a", 0)
    await reader.values(1)
    assert moves() == {"hub-0": 0, "hub-1": 0}
    way = shape.ways.pop((0, 2))
    await way.stop()
    await eventually(lambda: last.node.id not in first.node.core.mesh.graph.links[first.node.id])
    await shape.settled()
    await writer.publish("/a", 1)
    await reader.values(1)
    assert moves() == {"hub-0": 0, "hub-1": 1}
    await shape.stop()
