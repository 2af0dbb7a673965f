"""Labels, rules, senders and destinations across links."""

from __future__ import annotations

from typing import Any

import msgpack

from hub.errors import CloseCode
from hub.labels.envelope import Envelope, tagged
from hub.labels.rules import check_rule
from hub.messages.batch import Batch, decode_values
from hub.messages.frame import FLAG_TAGGED, Frame, encode_frame
from hub.names.claim import Wish
from peers.wire.control import NameClaim, Notice, encode_claim, encode_rules
from peers.wire.kinds import Kind
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient

NAME = "org.example.Door"


def labelled(value: Any, *labels: str, topic: str = "/t", sender: str = "", to: str = "") -> bytes:
    return Batch.under(tagged(topic, labels, sender, to).encode(), [value], FLAG_TAGGED).frames


async def rule(client: RawClient, *labels: str, prefix: str = "", sender: str = "", kind: Kind = Kind.RULE) -> Notice:
    fields = (labels, prefix, sender)
    await client.send(encode_frame(kind, msgpack.packb((9, [fields]))))
    return await client.notice()


def values_of(frames: list[Frame]) -> list[Any]:
    assert all(frame.kind == Kind.MESSAGES for frame in frames)
    return [value for frame in frames for value in decode_values(frame)]


# Links.


async def linked(start_hub: StartHub) -> tuple[Hub, Hub]:
    north = await start_hub(name="north", hub_id=b"\1" * 16)
    south = await start_hub(name="south", hub_id=b"\2" * 16)
    north.dial(south)
    await eventually(lambda: len(north.server.links) == len(south.server.links) == 1)
    await eventually(lambda: {"north"} == {one.name for one in south.server.core.handlers.values()})
    await eventually(lambda: {"south"} == {one.name for one in north.server.core.handlers.values()})
    return north, south


async def test_rules_cross_several_links(start_hub: StartHub) -> None:
    north, south = await linked(start_hub)
    east = await start_hub(name="east", hub_id=b"\3" * 16)
    east.dial(south)
    by_rule, by_both, source = await north.client(), await north.client("/t"), await east.client()
    for client in (by_rule, by_both):
        await rule(client, "a", "b", prefix="/t")
    await eventually(lambda: len(east.server.core.rules) == 1)
    await eventually(lambda: "/t" in east.wanted_by(north))
    await source.send(
        labelled(1, "a", "b"), labelled(2, "a", "b", topic="/u"), labelled(3, "a", "b", "c", topic="/t/x")
    )
    assert values_of([await by_rule.frame(), await by_rule.frame()]) == [1, 3]
    assert values_of([await by_both.frame(), await by_both.frame()]) == [1, 3]
    assert south.handler("north").delivered_messages == 2


async def test_rules_that_were_there_before_the_link(start_hub: StartHub) -> None:
    north = await start_hub(name="north", hub_id=b"\1" * 16)
    south = await start_hub(name="south", hub_id=b"\2" * 16)
    clients = [await north.client() for _ in range(3)]
    rules = [check_rule([f"l{number}", "x" * 100]) for number in range(2_500)]
    for client, start in zip(clients, (0, 800, 1600), strict=True):
        await client.send(encode_rules(Kind.RULE, rules[start : start + 900], 1))
        await client.notice()
    north.dial(south)
    await eventually(lambda: len(south.server.core.rules) == 2_500)
    envelope = Envelope("/t", rules[0].labels)
    link = south.handler("north")
    assert south.server.core.routes.find_tagged(envelope).handlers == (link,)
    await north.stop_dialling()
    await eventually(lambda: link not in south.server.core.routes.find_tagged(envelope).handlers)
    source = await south.client()
    await source.send(labelled(1, *rules[0].labels))
    await eventually(lambda: south.server.core.mesh.statistics().unreached_messages_total == 1)


async def test_senders_and_destinations_cross_a_link(start_hub: StartHub) -> None:
    north, south = await linked(start_hub)
    door, reader, source = await north.client(), await south.client(), await south.client()
    await rule(reader, sender=NAME)
    await door.send(encode_claim(NameClaim(0, Wish(NAME))))
    await eventually(lambda: south.server.core.names.register.owner(NAME) is not None)
    await eventually(lambda: len(north.server.core.rules) == 1)
    await door.send(labelled(1, sender=NAME))
    assert values_of([await reader.frame()]) == [1]
    await source.send(labelled(2, to=NAME), labelled(3, sender=NAME))
    assert (await source.notice()).code == CloseCode.NOT_ALLOWED
    assert values_of([await door.frame()]) == [2]
