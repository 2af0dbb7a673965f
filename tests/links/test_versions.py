"""Hubs of a mesh are upgraded one after the other: a later version speaks the older one with an older hub."""

from __future__ import annotations

from peers.wire.hello import MESH_VERSION, PROTOCOL
from peers.wire.kinds import Kind
from tests.hubs.fixtures import StartHub
from tests.hubs.raw_client import publication


async def test_a_link_to_a_later_version(start_hub: StartHub) -> None:
    hub = await start_hub()
    later = await hub.peer("/to-later", protocol=PROTOCOL + 1, mesh=MESH_VERSION + 1)
    await later.ping()
    reader, publisher = await hub.client("/from-later"), await hub.client()
    await publisher.send(publication("/to-later", 1))
    assert (await later.frame()).kind == Kind.MESSAGES
    await later.send(publication("/from-later", 2))
    assert (await reader.frame()).kind == Kind.MESSAGES
