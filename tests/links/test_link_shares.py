"""Rates where several hubs lie between a publisher and who reads him."""

from __future__ import annotations

from hub.mesh.announcement import Announcement
from hub.origin import Origin
from hub.quotas.quotas import QuotaLimits, RateLimits, SetLimits
from peers.wire.control import encode_origin
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import KnownTokens
from tests.hubs.mesh_peer import told
from tests.hubs.raw_client import publication

PEER, BEYOND = b"peer" * 4, b"ends" * 4


def slow(hub: Hub, user: str) -> None:
    hub.node.core.quotas.adopt(QuotaLimits(users={user: SetLimits(rate=RateLimits(messages_per_s=10))}))


def held_back(hub: Hub) -> int:
    return hub.node.core.quotas.held_back_total


async def test_a_publisher_is_held_back_where_he_is_connected(start_hub: StartHub) -> None:
    near, far = await start_hub(name="near"), await start_hub(name="far")
    slow(far, "alice")
    reader = await far.client("/a")
    far.dial(near)
    await eventually(lambda: near.wanted_by(far) == {"/a"})
    known = KnownTokens(near)
    slow(near, "alice")
    writer = await near.client(token=known.token("alice"))
    await writer.publish("/a", *range(15))
    await eventually(lambda: held_back(near) > 0)
    assert [value for _, value in await reader.values(15)] == list(range(15))
    assert held_back(far) == 0


async def test_the_rate_of_a_links_user_is_that_of_all_behind_it(start_hub: StartHub) -> None:
    hub = await start_hub()
    token = KnownTokens(hub).token("far")
    slow(hub, "far")
    peer = await hub.peer(id=PEER, token=token)
    near, far = ((hub.node.id, 1), (BEYOND, 1)), ((PEER, 1),)
    await peer.send(*told(Announcement(PEER, 0, 2, "peer", near), Announcement(BEYOND, 0, 1, "ends", far)))
    await eventually(lambda: BEYOND in hub.node.core.mesh.graph.reached)
    for origin in (PEER, BEYOND):
        before = held_back(hub)
        await peer.send(encode_origin(Origin(origin, 1)), publication("/a", *range(15)))
        await eventually(lambda before=before: held_back(hub) > before)  # type: ignore[misc]
