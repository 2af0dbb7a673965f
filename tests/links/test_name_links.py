"""Service names over several links: whose a name is, who is reached by it, and what becomes of it when links go."""

from __future__ import annotations

from hub.batch import Batch, decode_values, encode_value
from hub.frame import FLAG_TAGGED
from hub.names.claim import Wish
from hub.request_frame import FLAG_NAMED, Request, Status
from hub.tags.envelope import Envelope
from peers.wire.kinds import Kind
from peers.wire.names import NameClaim, encode_claim
from tests.connections.tcp.asking import answered, answering, asked, values_in
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient
from tests.links.rows import know_each_other, row

NAME = "org.example.Player"


async def claim(client: RawClient, *, queue: bool = False) -> None:
    await client.send(encode_claim(NameClaim(1, Wish(NAME, ("music",), queue))))
    assert (await client.notice()).kind == "confirmed"


def owner(hub: Hub) -> bytes | None:
    found = hub.node.core.names.register.claim_of(NAME)
    return None if found is None else found.hub


async def test_a_name_is_known_at_all_hubs(start_hub: StartHub) -> None:
    hubs = await row(start_hub, "north", "middle", "center", "south")
    player, listener = await hubs[0].client("/unrelated"), await hubs[3].client()
    await claim(player)
    await eventually(lambda: [owner(hub) for hub in hubs] == [hubs[0].node.id] * 4)
    await listener.send(Request(NAME.encode(), 7, 0, encode_value("play"), FLAG_NAMED).encode())
    request = await asked(player)
    assert values_in(request) == ["play"]
    await player.send(answering(request.first, "playing"))
    reply = await answered(listener)
    assert (reply.first, reply.status, values_in(reply)) == (7, Status.OK, ["playing"])
    key = Envelope("/t", destination=NAME).encode()
    await listener.send(Batch.under(key, ["for the player"], FLAG_TAGGED).frames)
    frame = await player.frame()
    assert frame.kind == Kind.MESSAGES
    assert decode_values(frame) == ["for the player"]
    player.close()
    await eventually(lambda: [owner(hub) for hub in hubs] == [None] * 4)


async def test_the_first_claim_wins_when_parts_join(start_hub: StartHub) -> None:
    north, middle = await row(start_hub, "north", "middle")
    center, south = await row(start_hub, "center", "south")
    early, late = await south.client(), await north.client()
    await claim(early)
    await claim(late, queue=True)
    await eventually(lambda: owner(middle) == north.node.id and owner(center) == south.node.id)
    middle.dial(center)
    hubs = [north, middle, center, south]
    await know_each_other(hubs)
    told = await late.notice()
    assert (told.kind, told.name) == ("queued", NAME)
    await eventually(lambda: [owner(hub) for hub in hubs] == [south.node.id] * 4)
    early.close()
    assert (await late.notice()).kind == "owned"
    await eventually(lambda: [owner(hub) for hub in hubs] == [north.node.id] * 4)


async def test_a_hub_that_cannot_be_reached_owns_nothing(start_hub: StartHub) -> None:
    hubs = await row(start_hub, "north", "middle", "south")
    player = await hubs[2].client()
    await claim(player)
    await eventually(lambda: owner(hubs[0]) == hubs[2].node.id)
    await hubs[1].stop_dialling()
    await eventually(lambda: owner(hubs[0]) is None and owner(hubs[1]) is None)
    assert owner(hubs[2]) == hubs[2].node.id
    hubs[1].dial(hubs[2])
    await eventually(lambda: [owner(hub) for hub in hubs] == [hubs[2].node.id] * 3)
