"""Rates where several hubs lie between a publisher and who reads him."""

from __future__ import annotations

from hub.mesh.announcement import Announcement, Digest
from hub.origin import Origin
from hub.quotas.quotas import QuotaLimits, RateLimits, SetLimits
from peers.wire.origin import encode_origin
from peers.wire.routing import encode_routing
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import KnownTokens
from tests.hubs.raw_client import publication

PEER, BEYOND = b"peer" * 4, b"ends" * 4


def slow(hub: Hub, user: str) -> None:
    """Let a user publish ten messages a second."""
    hub.node.core.quotas.adopt(QuotaLimits(users={user: SetLimits(rate=RateLimits(messages_per_s=10))}))


def held_back(hub: Hub) -> int:
    """How often somebody was not read on for his rate."""
    return hub.node.core.quotas.held_back_total


async def test_a_publisher_is_held_back_where_he_is_connected(start_hub: StartHub) -> None:
    """Whatever the same user may do at another hub: there he is not known."""
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
    """It is held back as a whole, for messages of whichever hub."""
    hub = await start_hub()
    token = KnownTokens(hub).token("far")
    slow(hub, "far")
    peer = await hub.client(role="hub", id=PEER, name="peer", mesh=1, token=token)
    near, far = ((hub.node.id, 1), (BEYOND, 1)), ((PEER, 1),)
    said = (Digest(()), Announcement(PEER, 0, 1, "peer", near), Announcement(BEYOND, 0, 1, "ends", far))
    await peer.send(*(frame for one in said for frame in encode_routing(one, 1 << 20)))
    await eventually(lambda: BEYOND in hub.node.core.mesh.graph.reached)
    for origin in (PEER, BEYOND):
        before = held_back(hub)
        await peer.send(encode_origin(Origin(origin, 1)), publication("/a", *range(15)))
        await eventually(lambda before=before: held_back(hub) > before)  # type: ignore[misc]
