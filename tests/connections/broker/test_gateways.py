"""One Zeek that is peered with several hubs of a mesh: one of them at a time is its gateway."""

from __future__ import annotations

import asyncio
from itertools import pairwise, permutations

import structlog

from hub.policy.language import read_policy
from peers.values import decode, encode
from peers.zeek.broker.messages import encode_hello, encode_version_select
from tests.connections.broker.conftest import StartHub
from tests.connections.broker.scripted import LOW, Data, Endpointlike, ZeekHub
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import RawClient

_IDS = [bytes([0xA0 + number]) * 16 for number in range(3)]
_PREFIX = "/zeek/"


async def row(start_hub: StartHub, count: int = 2) -> list[ZeekHub]:
    hubs = [await start_hub(hub_id=hub_id) for hub_id in _IDS[:count]]
    for near, far in pairwise(hubs):
        near.dial(far)
    await reached(*hubs)
    return hubs


async def reached(*hubs: ZeekHub) -> None:
    ids = {hub.server.id for hub in hubs}
    await eventually(lambda: all(hub.server.core.mesh.graph.reached >= ids for hub in hubs))


async def wanted(*hubs: ZeekHub) -> None:
    await eventually(lambda: all(_PREFIX in near.wanted_by(far) for near, far in permutations(hubs, 2)))


def gateways(hubs: list[ZeekHub], endpoint: bytes = LOW) -> set[bytes]:
    return {hub.server.core.leaves.gateway_of(endpoint) for hub in hubs}


def publish(count: int, *zeeks: Endpointlike, first: int = 0) -> None:
    for number in range(first, first + count):
        for zeek in zeeks:
            zeek.publish(_PREFIX, encode(number))


async def numbers(reader: RawClient, count: int) -> list[object]:
    got: list[object] = []
    async for frame in reader.frames():
        got.append(decode(frame.body))
        if len(got) == count:
            break
    return got


async def nothing_more(hub: ZeekHub, reader: RawClient) -> None:
    publisher = await hub.client()
    await publisher.publish(_PREFIX + "last", "last")
    async for frame in reader.frames():
        assert frame.key.decode() == _PREFIX + "last"
        break


async def test_the_first_hub_is_the_gateway(start_hub: StartHub) -> None:
    hubs = await row(start_hub, 3)
    readers = [await hub.client(_PREFIX) for hub in hubs]
    await wanted(*hubs)
    first = await hubs[2].zeek("/control/")
    second = await hubs[0].zeek("/control/")
    assert (first.hub_filter, second.hub_filter) == ((_PREFIX,), ())
    assert gateways(hubs) == {_IDS[2]}
    publish(5, first, second)  # the second one would not publish it to the hub, which has not asked for it
    for hub, reader in zip(hubs, readers, strict=True):
        assert await numbers(reader, 5) == [0, 1, 2, 3, 4]
        await nothing_more(hub, reader)
    await eventually(lambda: hubs[0].server.core.leaves.skipped_messages == 5)
    await eventually(lambda: "/control/" in hubs[0].wanted_by(hubs[2]))
    assert not hubs[2].wanted_by(hubs[0]) & {"/control/"}
    for number, hub in enumerate(hubs):
        await (await hub.client()).publish("/control/", number)
        assert await first.data(1) == [Data("/control/", encode(number))]
    await second.barrier()


async def test_another_hub_takes_over(start_hub: StartHub) -> None:
    hubs = await row(start_hub, 3)
    reader = await hubs[1].client(_PREFIX)
    await eventually(lambda: all(_PREFIX in hub.wanted_by(hubs[1]) for hub in (hubs[0], hubs[2])))
    with structlog.testing.capture_logs() as logs:
        zeeks = [await hub.zeek("/control/") for hub in hubs]
        assert [zeek.hub_filter for zeek in zeeks] == [(_PREFIX,), (), ()]
        zeeks[0].close()
        assert await zeeks[1].told() == (_PREFIX,)
        publish(3, zeeks[1])
        assert await numbers(reader, 3) == [0, 1, 2]
        back = await hubs[0].zeek("/control/")
        assert back.hub_filter == ()
    told = [(entry["event"], entry["hub"]) for entry in logs if "gateway" in entry["event"] or "left" in entry["event"]]
    left = "a Zeek is left to another hub"
    assert told == [
        (left, _IDS[0].hex()),
        (left, _IDS[0].hex()),
        ("this hub is the gateway of a Zeek now", _IDS[1].hex()),
        (left, _IDS[1].hex()),
    ]
    await hubs[0].stop_dialling()
    await hubs[1].stop_dialling()
    await hubs[1].stop()
    assert _PREFIX in await back.told()  # a hub that is gone is remembered for a while, with what was wanted there
    await eventually(lambda: [hub.server.core.leaves.left for hub in (hubs[0], hubs[2])] == [0, 0])


async def test_a_zeek_that_comes_to_two_hubs_at_once(start_hub: StartHub) -> None:
    hubs = await row(start_hub)
    for hub in hubs:
        await hub.client(_PREFIX)
    await wanted(*hubs)
    zeeks = await asyncio.gather(*(hub.zeek() for hub in hubs))
    assert sorted(zeek.hub_filter for zeek in zeeks) == [(), (_PREFIX,)]
    assert len(gateways(hubs)) == 1


async def test_meshes_that_become_one(start_hub: StartHub) -> None:
    hubs = [await start_hub(hub_id=hub_id) for hub_id in _IDS[:2]]
    readers = [await hub.client(_PREFIX) for hub in hubs]
    first, second = await hubs[1].zeek(), await hubs[0].zeek()
    assert first.hub_filter == second.hub_filter == (_PREFIX,)
    publish(1, first, second)
    assert [await numbers(reader, 1) for reader in readers] == [[0], [0]]
    hubs[0].dial(hubs[1])
    assert await second.told() == ()
    await wanted(*hubs)
    assert gateways(hubs) == {_IDS[1]}
    publish(3, first, second, first=1)
    for hub, reader in zip(hubs, readers, strict=True):
        assert await numbers(reader, 3) == [1, 2, 3]
        await nothing_more(hub, reader)


async def test_a_link_that_may_not_bring_everything(start_hub: StartHub) -> None:
    hubs = await row(start_hub)
    (link,) = hubs[0].server.core.mesh.links
    policy = {"roles": {"near": {"link": {"bring": ["/site"], "take": ["*"]}}}, "users": {"far": ["near"]}}
    hubs[0].server.core.authority.give_rights(link, read_policy(policy, "a test").rights("far"))
    await hubs[0].client(_PREFIX)
    await eventually(lambda: _PREFIX in hubs[1].wanted_by(hubs[0]))
    assert [(await hub.zeek()).hub_filter for hub in (hubs[1], hubs[0])] == [(_PREFIX,), (_PREFIX,)]


async def test_a_handshake_that_ends_while_others_are_asked(start_hub: StartHub) -> None:
    hubs = await row(start_hub)
    far = await Endpointlike.connect(hubs[0].zeek_endpoint)
    far.write(encode_hello(LOW), encode_version_select(LOW))
    await eventually(lambda: gateways(hubs) == {_IDS[0]})
    far.close()
    await eventually(lambda: gateways(hubs) == {b""})
