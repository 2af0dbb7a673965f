"""Real hubs as a mesh: messages, requests, names, origins and news over several links; see `tests/mesh_simulation`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from hub.labels.envelope import Envelope
from hub.messages.batch import Batch, decode_values, encode_value
from hub.messages.frame import FLAG_TAGGED
from hub.messages.request_frame import FLAG_NAMED, Request, Status
from hub.names.claim import Wish
from hub.settings.settings import MeshSettings, Settings
from peers.client import Client, MessageStream, connect
from peers.server.traffic import LinkTraffic
from peers.wire.control import NameClaim, decode_origin, encode_claim
from peers.wire.hello import QueueWish
from peers.wire.kinds import Kind
from tests.connections.rights.conftest import recognise
from tests.connections.tcp.asking import answered, answering, asked, asking, serve, values_in
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import LOOPBACK, Hub
from tests.hubs.raw_client import RawClient, numbered, publication
from tests.links.meshes import know_each_other, row, settled

_POLICY = """
[roles.linked]
link = { bring = ["/brought", "/both"], take = ["/taken", "/both"] }

[users]
hub-1 = ["linked"]
"""
NAME = "org.example.Player"


# Messages.


async def test_each_message_reaches_each_subscriber_once(start_hub: StartHub) -> None:
    hubs = await row(start_hub, *(f"hub-{number}" for number in range(5)))
    hubs[4].dial(hubs[0])
    queue = QueueWish(messages=1_000_000, bytes=1 << 30)
    readers = [await hub.client("/from/", queue=queue) for hub in hubs]
    await eventually(lambda: all(len(hub.server.core.mesh.graph.links[hub.server.id]) == 2 for hub in hubs))
    await eventually(
        lambda: all(one.wanted_by(other) == {"/from/"} for one in hubs for other in hubs if one is not other)
    )
    await settled(hubs)
    publishers = [await hub.client() for hub in hubs]
    total = 1_000
    for first in range(0, total, 100):
        for number, publisher in enumerate(publishers):
            await publisher.send(numbered(f"/from/{number}", range(first, first + 100), together=1 + number))
    for reader in readers:
        seen: dict[str, list[int]] = {}
        for topic, (number, _) in await reader.values(total * len(hubs)):
            seen.setdefault(topic, []).append(number)
        assert seen == {f"/from/{number}": list(range(total)) for number in range(len(hubs))}
    for hub in hubs:
        assert hub.server.core.mesh.repeated_messages == hub.server.core.mesh.overtaken_messages == 0


async def test_messages_take_the_cheapest_way_there_is(start_hub: StartHub) -> None:
    first, last, third = hubs = [await start_hub(name=name) for name in ("first", "last", "third")]
    first.dial(last, cost=10)
    first.dial(third)
    third.dial(last)
    reader, writer = await last.client("/a"), await first.client()
    mesh = first.server.core.mesh

    def traffic(name: str) -> LinkTraffic:
        (found,) = [one for one in last.server.traffic.statistics(last.clock.time()) if one.hub == name]
        return found

    def moves() -> list[int]:
        return [traffic(name).carried.path_changes for name in ("first", "third")]

    await eventually(
        lambda: first.wanted_by(last) == {"/a"} and mesh.way_to(last.server.id) == (2, first.handler("third"))
    )
    await settled(hubs)
    await writer.publish("/a", 1)
    assert await reader.values(1) == [("/a", 1)]
    assert (last.handler("third").published_messages, last.handler("first").published_messages) == (1, 0)
    assert moves() == [0, 0]
    await third.stop()
    await eventually(lambda: mesh.way_to(last.server.id) == (10, first.handler("last")))
    await writer.publish("/a", 2)
    assert await reader.values(1) == [("/a", 2)]
    assert last.handler("first").published_messages == 1
    assert moves() == [1, 0]


async def test_what_a_link_in_the_middle_may_bring_and_take(start_hub: StartHub) -> None:
    hubs = [await start_hub(name=f"hub-{number}") for number in range(4)]
    guarded = hubs[2]
    recognise(
        guarded,
        policy_of(
            _POLICY.replace(
                "[users]", '[roles.free]\nlink = { bring = ["*"], take = ["*"] }\n[users]\nhub-3 = ["free"]'
            )
        ),
    )
    for near, far in pairwise(hubs):
        near.dial(far)
    await know_each_other(hubs)
    readers = {number: await hubs[number].client("/", name="reader") for number in (0, 3)}
    await eventually(lambda: all(one.wanted_by(other) for one, other in (hubs[::3], hubs[::-3])))
    await settled(hubs)
    for number, other in ((0, 3), (3, 0)):
        publisher = await hubs[number].client()
        for topic in ("/brought/", "/taken/", "/other/", "/both/"):
            await publisher.send(numbered(f"{topic}{number}", range(10)))
        found = {topic for topic, _ in await readers[other].values(20)}
        assert found == {f"/both/{number}", f"/taken/{number}" if number else f"/brought/{number}"}
        assert len(await readers[number].values(40)) == 40
    assert guarded.server.audit.refused_total == 20


async def test_everything_is_what_a_link_may_take(start_hub: StartHub) -> None:
    a, c = await start_hub(name="a", settings=Settings(mesh=MeshSettings(prefixes=1))), await start_hub(name="hub-1")
    recognise(a, policy_of(_POLICY))
    c.dial(a)
    await know_each_other([a, c])
    reader, publisher = await c.client("/taken/", "/other/"), await a.client()
    await eventually(lambda: a.wanted_by(c) == {""})
    await publisher.send(publication("/other/", 1), publication("/taken/", 2))
    assert await reader.values(1) == [("/taken/", 2)]
    assert a.handler("hub-1").delivered_messages == 1


# By which hub messages enter.


async def brought(stream: MessageStream, publisher: Client, value: object) -> tuple[object, bytes]:
    await publisher.publish("/a", value)
    message = await stream.receive()
    return message.value, message.origin


@pytest.mark.parametrize("scheme", ["tcp", "unix"])
async def test_clients_are_told_by_which_hub_messages_enter(start_hub: StartHub, tmp_path: Path, scheme: str) -> None:
    url = LOOPBACK if scheme == "tcp" else f"unix://{tmp_path}/near.sock"
    hubs = near, middle, far = [await start_hub(url, name="near"), *await row(start_hub, "middle", "far")]
    near.dial(middle)
    await know_each_other(hubs)
    websocket = await near.listen("ws://127.0.0.1:0")
    large = bytes(1 << 20)  # more than what travels as memory over a Unix socket
    async with (
        connect(near.url, origins=True) as reader,
        reader.subscribe("/a") as stream,
        connect(near.url) as at_near,
        connect(middle.url) as at_middle,
        connect(far.url) as at_far,
    ):
        await eventually(lambda: far.wanted_by(near) == middle.wanted_by(near) == {"/a"})
        publishers, entered = (at_near, at_far, at_middle, at_far, at_near), (near, far, middle, far, near)
        for value in (1, large):
            found = [await brought(stream, publisher, value) for publisher in publishers]
            assert found == [(value, hub.server.id) for hub in entered]
        async with connect(websocket.location, origins=True) as other, other.subscribe("/a") as untold:
            assert await brought(untold, other, 1) == (1, b"")
        async with reader.subscribe("$hub/client/") as joined, connect(near.url, name="another"):
            told = await joined.receive()
            assert (told.topic, told.origin) == ("$hub/client/joined", near.server.id)


async def test_a_client_that_takes_small_frames_is_told_too(start_hub: StartHub) -> None:
    near, far = await row(start_hub, "near", "far")
    reader = await near.raw()
    assert (await reader.greet(origins=True, frame=100)).origins
    await reader.subscribe("/a")
    await eventually(lambda: far.wanted_by(near) == {"/a"})
    await (await far.client()).publish("/a", bytes(60), bytes(61), bytes(62))
    origin, *messages = [await reader.frame() for _ in range(4)]
    assert origin.kind == Kind.ORIGIN
    assert decode_origin(origin.body).hub == far.server.id
    assert [decode_values(frame) for frame in messages] == [[bytes(size)] for size in (60, 61, 62)]


# News.


# Requests.


def services(hub: Hub) -> int:
    return hub.server.core.requests.statistics().services


async def test_requests_over_several_links(start_hub: StartHub) -> None:
    hubs = await row(start_hub, "north", "middle", "center", "south")
    service, requester = await hubs[3].client(), await hubs[0].client()
    await serve(service, "/a")
    await eventually(lambda: services(hubs[0]) == 1)
    await requester.send(asking("/a/x", 1, "one"), asking("/a/y", 5, "two", "three"))
    for answer in ("1", "2"):
        request = await asked(service)
        await service.send(answering(request.first, *[answer] * request.requests))
    replies = [await answered(requester), await answered(requester)]
    assert [(reply.first, reply.status, values_in(reply)) for reply in replies] == [
        (1, Status.OK, ["1"]),
        (5, Status.OK, ["2", "2"]),
    ]
    assert not any(hub.server.core.requests.statistics().pending for hub in hubs)
    service.close()
    await eventually(lambda: not services(hubs[0]))
    await requester.send(asking("/a/x", 9, "nobody is there"))
    assert (await answered(requester)).status == Status.NO_RESPONDER


async def test_the_nearest_hub_is_asked(start_hub: StartHub) -> None:
    hubs = await row(start_hub, "north", "middle", "south")
    own, near, far = [await hub.client() for hub in hubs]
    requester = await hubs[0].client()
    await serve(own, "/o")
    await serve(near, "/a", "/o")
    await serve(far, "/a", "/a/b")
    await eventually(
        lambda: services(hubs[0]) == 3 and len(hubs[0].server.core.remote_hubs.served_by(hubs[2].server.id)) == 2
    )
    await requester.send(asking("/a", 1, "near"), asking("/a/b", 2, "far"), asking("/o", 4, "own"))
    for service, value in ((near, "near"), (far, "far"), (own, "own")):
        assert values_in(await asked(service)) == [value]
    await hubs[1].stop_dialling()
    await eventually(lambda: hubs[2].server.id not in hubs[0].server.core.mesh.graph.reached)
    assert (await answered(requester)).status == Status.RESPONDER_GONE
    await requester.send(asking("/a/b", 3, "near, as far is gone"))
    assert values_in(await asked(near)) == ["near, as far is gone"]
    await eventually(lambda: not hubs[2].server.core.requests.statistics().pending)


async def test_a_link_takes_requests_as_far_as_it_may(start_hub: StartHub) -> None:
    hubs = await row(start_hub, "north", "middle", "south")
    service, requester = await hubs[2].client(), await hubs[0].client()
    await serve(service, "/taken", "/b")
    await eventually(lambda: services(hubs[0]) == 2)
    rights = policy_of(_POLICY.replace("hub-1", "south")).rights("south")
    hubs[1].server.core.authority.give_rights(hubs[1].handler("south"), rights)
    await requester.send(asking("/b/x", 1, "not granted"))
    assert (await answered(requester)).status == Status.NO_RESPONDER
    await requester.send(asking("/taken/x", 2, "granted", timeout_ms=1000))
    assert values_in(await asked(service)) == ["granted"]
    hubs[0].later(1.1)
    assert (await answered(requester)).status == Status.TIMED_OUT
    hubs[2].later(1.1)
    await eventually(lambda: hubs[0].server.core.requests.statistics().late_total == 1)


# Names.


async def claim(client: RawClient, *, queue: bool = False) -> None:
    await client.send(encode_claim(NameClaim(1, Wish(NAME, ("music",), queue))))
    assert (await client.notice()).kind == "confirmed"


def owners(*hubs: Hub) -> list[bytes | None]:
    claims = [hub.server.core.names.register.claim_of(NAME) for hub in hubs]
    return [None if found is None else found.hub for found in claims]


async def test_a_name_is_known_at_all_hubs_that_reach_its_owner(start_hub: StartHub) -> None:
    hubs = await row(start_hub, "north", "middle", "south")
    player, listener = await hubs[0].client("/unrelated"), await hubs[2].client()
    await claim(player)
    await eventually(lambda: owners(*hubs) == [hubs[0].server.id] * 3)
    await listener.send(Request(NAME.encode(), 7, 0, encode_value("play"), FLAG_NAMED).encode())
    request = await asked(player)
    assert values_in(request) == ["play"]
    await player.send(answering(request.first, "playing"))
    reply = await answered(listener)
    assert (reply.first, reply.status, values_in(reply)) == (7, Status.OK, ["playing"])
    key = Envelope("/t", destination=NAME).encode()
    await listener.send(Batch.under(key, ["for the player"], FLAG_TAGGED).frames)
    frame = await player.frame()
    assert (frame.kind, decode_values(frame)) == (Kind.MESSAGES, ["for the player"])
    await hubs[1].stop_dialling()
    await eventually(lambda: owners(*hubs) == [hubs[0].server.id, hubs[0].server.id, None])
    hubs[1].dial(hubs[2])
    await eventually(lambda: owners(*hubs) == [hubs[0].server.id] * 3)
    player.close()
    await eventually(lambda: owners(*hubs) == [None] * 3)
