"""A connection to a Broker endpoint that is over is freed at once, as one of a client is."""

from __future__ import annotations

from peers.values import encode
from tests.connections.broker.conftest import PLAIN, StartHub
from tests.connections.broker.hubs import ZeekHub
from tests.connections.broker.scripted import HIGH, LOW, Endpointlike
from tests.garbage import leaves_nothing
from tests.hubs.eventually import eventually, settle


async def come_and_go(hub: ZeekHub) -> None:
    reader = await hub.client("/zeek/")
    far = await hub.zeek("/hub/")
    silent = await Endpointlike.connect(hub.zeek_endpoint)
    far.publish("/zeek/a", encode("one"))
    await reader.frame()
    publisher = await hub.client()
    await publisher.publish("/hub/x", 1)
    await far.data(1)
    for each in (far, silent, reader, publisher):
        each.close()
    await eventually(lambda: not hub.node.connections)
    for made in (hub.connections, hub.zeeks, hub._far_sides):
        made.clear()  # type: ignore[attr-defined]
    await settle()


async def test_endpoints_that_connect(hub: ZeekHub) -> None:
    await leaves_nothing(lambda: come_and_go(hub))


async def peer_and_part(near: ZeekHub, far: ZeekHub) -> None:
    near.dial_zeek(far.zeek_endpoint.location)
    await eventually(lambda: HIGH in near.peerings.registry and LOW in far.peerings.registry)
    await near.stop_dialling()
    for hub in (near, far):
        await eventually(lambda hub=hub: not hub.node.connections)  # type: ignore[misc]
        hub.zeeks.clear()
    await settle()


async def test_endpoints_that_are_dialled(start_hub: StartHub) -> None:
    near, far = await start_hub(PLAIN, hub_id=LOW), await start_hub(PLAIN, hub_id=HIGH)
    await leaves_nothing(lambda: peer_and_part(near, far))
