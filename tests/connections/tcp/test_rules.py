"""Labels and rules over sockets: of clients, and across a link."""

from __future__ import annotations

from typing import Any

import msgpack

from hub.batch import Batch, decode_values
from hub.errors import CloseCode
from hub.frame import FLAG_CONFIRM, FLAG_TAGGED, Frame, encode_frame
from hub.names.claim import Wish
from hub.tags.envelope import Envelope, tagged
from hub.tags.rules import check_rule
from peers.wire.control import Notice, decode_notice, encode_rules
from peers.wire.kinds import Kind
from peers.wire.names import NameClaim, encode_claim
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient
from tests.hubs.settings import settings_of

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


async def test_a_message_reaches_all_who_want_it_once(start_hub: StartHub) -> None:
    hub = await start_hub()
    source = await hub.client()
    by_topic = await hub.client("/t")
    by_rule, by_both = await hub.client(), await hub.client("/t", "/")
    for client in (by_rule, by_both):
        assert await rule(client, "low", "door") == Notice("confirmed", request=9)
    await source.send(labelled(1, "low", "door", "x"), labelled(2, "low"), Batch.of("/t", [3]).frames)
    await source.ping()
    assert [values_of(await client.ping()) for client in (by_topic, by_rule, by_both)] == [[1, 2, 3], [1], [1, 2, 3]]
    await rule(by_rule, "low", "door", kind=Kind.UNRULE)
    await source.send(labelled(4, "low", "door"))
    await source.ping()
    assert await by_rule.ping() == []
    statistics = hub.node.core.statistics()
    assert statistics.routing.rules == 1


async def test_a_prefix_and_a_sender_narrow_a_rule(start_hub: StartHub) -> None:
    hub = await start_hub()
    owner, other, reader = await hub.client(), await hub.client(), await hub.client()
    await owner.send(encode_claim(NameClaim(0, Wish(NAME))))
    await owner.ping()
    await rule(reader, sender=NAME)
    await rule(reader, "a", prefix="/door")
    await owner.send(labelled(1, sender=NAME), labelled(2, "a"), labelled(3, "a", topic="/door/1"))
    assert await owner.ping() == []
    await other.send(labelled(4, sender=NAME), labelled(5, "a", topic="/door"), labelled(6, sender=NAME))
    notices = [decode_notice(frame.body) for frame in await other.ping()]
    text = f"sender '{NAME}': that name is not yours"
    assert notices == [Notice("error", code=CloseCode.NOT_ALLOWED, text=text, count=2)]
    assert values_of(await reader.ping()) == [1, 3, 5]
    assert hub.node.rejected_messages == 2


async def test_one_refused_message_is_told_at_once(start_hub: StartHub) -> None:
    hub = await start_hub()
    client = await hub.client()
    for number in range(2):
        await client.send(labelled(number, sender=NAME))
        assert (await client.notice()).code == CloseCode.NOT_ALLOWED


async def test_a_destination_alone_gets_it(start_hub: StartHub) -> None:
    hub = await start_hub()
    source, owner, bystander = await hub.client(), await hub.client(), await hub.client("")
    await source.send(labelled(1, to=NAME))
    assert await source.notice() == Notice(
        "error", code=CloseCode.TRY_AGAIN_LATER, text=f"nobody has the name '{NAME}'", count=1
    )
    await owner.send(encode_claim(NameClaim(0, Wish(NAME))))
    await owner.ping()
    await source.send(labelled(2, to=NAME))
    await source.ping()
    assert values_of(await owner.ping()) == [2]
    assert all(frame.key.startswith(b"$hub/") for frame in await bystander.ping())


async def test_what_is_refused_goes_on(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(rules_per_client=2))
    client = await hub.client()
    assert (await rule(client, prefix="/a")).text.startswith("a rule has a label or a sender")
    assert (await rule(client, "a")).kind == "confirmed"
    assert (await rule(client, "b")).kind == "confirmed"
    refused = await rule(client, "c")
    assert (refused.request, refused.code) == (9, CloseCode.NOT_ALLOWED)
    assert refused.text == "3 rules, the limit for a client is 2"
    await client.send(encode_frame(Kind.RULE, msgpack.packb([7, [[["a"] * 33, "", ""]]])))
    refused = await client.notice()
    assert (refused.request, refused.code) == (7, CloseCode.BAD_DATA)
    await client.send(labelled(1, "a"))
    assert values_of([await client.frame()]) == [1]


async def test_bad_envelopes(start_hub: StartHub) -> None:
    hub = await start_hub()
    client = await hub.client("/")
    await client.send(
        encode_frame(Kind.MESSAGES, b"\1", key=b"\0\x02/a\0\0\x01b\x01a", flags=FLAG_TAGGED), labelled(2, "a")
    )
    assert (await client.notice()).text == "tagged: labels ascend in the order of their bytes, and none is there twice"
    assert values_of([await client.frame()]) == [2]


async def test_confirm_without_a_journal_and_a_name_that_is_not_ones_own(start_hub: StartHub) -> None:
    hub = await start_hub()
    client = await hub.client()
    key = tagged("/t", sender=NAME).encode()
    await client.send(encode_frame(Kind.MESSAGES, b"\1", key=key, flags=FLAG_TAGGED | FLAG_CONFIRM))
    notice = await client.notice()
    assert (notice.kind, notice.code, notice.count) == ("unrecorded", CloseCode.NOT_ALLOWED, 1)


async def test_a_client_that_goes_takes_its_rules_along(start_hub: StartHub) -> None:
    hub = await start_hub()
    client = await hub.client()
    await rule(client, "a")
    client.close()
    await eventually(lambda: len(hub.node.core.rules) == 0)


# Links.


async def linked(start_hub: StartHub) -> tuple[Hub, Hub]:
    north = await start_hub(name="north", hub_id=b"\1" * 16)
    south = await start_hub(name="south", hub_id=b"\2" * 16)
    north.dial(south)
    await eventually(lambda: len(north.node.links) == len(south.node.links) == 1)
    await eventually(lambda: {"north"} == {one.name for one in south.node.core.handlers.values()})
    await eventually(lambda: {"south"} == {one.name for one in north.node.core.handlers.values()})
    return north, south


async def test_rules_cross_a_link(start_hub: StartHub) -> None:
    north, south = await linked(start_hub)
    one, two, source = await north.client(), await north.client("/t"), await south.client()
    for client in (one, two):
        await rule(client, "a", "b")
    known = south.node.core.far_hubs
    await eventually(lambda: set(known.rules_of(north.node.id)) == {check_rule(["a", "b"])})
    await eventually(lambda: "/t" in south.wanted_by(north))
    await source.send(labelled(1, "a"), labelled(2, "a", "b", "c", topic="/u"), labelled(3, "a", "b"))
    assert values_of([await one.frame(), await one.frame()]) == [2, 3]
    assert values_of([await two.frame(), await two.frame(), await two.frame()]) == [1, 2, 3]
    await rule(one, "a", "b", kind=Kind.UNRULE)
    await settle()
    assert len(known.rules_of(north.node.id)) == 1
    two.close()
    await eventually(lambda: not known.rules_of(north.node.id))
    assert not north.node.core.far_hubs.rules_of(south.node.id)


async def test_rules_cross_several_links(start_hub: StartHub) -> None:
    north, south = await linked(start_hub)
    east = await start_hub(name="east", hub_id=b"\3" * 16)
    east.dial(south)
    by_rule, by_both, source = await north.client(), await north.client("/t"), await east.client()
    for client in (by_rule, by_both):
        await rule(client, "a", "b", prefix="/t")
    known = east.node.core.far_hubs
    await eventually(lambda: set(known.rules_of(north.node.id)) == {check_rule(["a", "b"], "/t")})
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
    await eventually(lambda: len(south.node.core.rules) == 2_500)
    assert set(south.node.core.far_hubs.rules_of(north.node.id)) == set(rules)
    envelope = Envelope("/t", rules[0].labels)
    link = south.handler("north")
    assert south.node.core.routes.find_tagged(envelope).handlers == (link,)
    await north.stop_dialling()
    await eventually(lambda: link not in south.node.core.routes.find_tagged(envelope).handlers)
    source = await south.client()
    await source.send(labelled(1, *rules[0].labels))
    await eventually(lambda: south.node.core.mesh.statistics().unreached_messages_total == 1)


async def test_senders_and_destinations_cross_a_link(start_hub: StartHub) -> None:
    north, south = await linked(start_hub)
    door, reader, source = await north.client(), await south.client(), await south.client()
    await rule(reader, sender=NAME)
    await door.send(encode_claim(NameClaim(0, Wish(NAME))))
    await eventually(lambda: south.node.core.names.register.owner(NAME) is not None)
    await eventually(lambda: len(north.node.core.rules) == 1)
    await door.send(labelled(1, sender=NAME))
    assert values_of([await reader.frame()]) == [1]
    await source.send(labelled(2, to=NAME), labelled(3, sender=NAME))
    assert (await source.notice()).code == CloseCode.NOT_ALLOWED
    assert values_of([await door.frame()]) == [2]
