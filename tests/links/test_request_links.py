"""Requests over a link between hubs: one hop, and what becomes of them when it is lost."""

from __future__ import annotations

from hub.request_frame import Request, Status
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind
from tests.connections.tcp.asking import answered, answering, asked, asking, serve, values_in
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.settings import settings_of


async def link(source: Hub, target: Hub) -> None:
    """Dial, and wait until both sides know of it."""
    source.dial(target)
    await eventually(lambda: all(hub.node.core.statistics().links == 1 for hub in (source, target)))


def services(hub: Hub) -> int:
    """How many prefixes are served, as this hub knows."""
    return hub.node.core.requests.statistics().services


async def test_over_a_link(start_hub: StartHub) -> None:
    """A service at a peer hub answers, whether it was there before the link or came later."""
    north, south = await start_hub(name="north"), await start_hub(name="south")
    early, late = await south.client(), await south.client()
    await serve(early, "/early")
    await link(north, south)
    await serve(late, "/late")
    await eventually(lambda: services(north) == 2)
    requester = await north.client()
    for number, (service, topic) in enumerate(((early, "/early"), (late, "/late"))):
        await requester.send(asking(topic, number, "question"))
        request = await asked(service)
        assert values_in(request) == ["question"]
        await service.send(answering(request.first, "answer"))
        reply = await answered(requester)
        assert (reply.first, reply.status, values_in(reply)) == (number, Status.OK, ["answer"])
    late.close()
    await eventually(lambda: services(north) == 1)


async def test_near_before_far(start_hub: StartHub) -> None:
    """A service of this hub is asked before one of a peer, but a longer prefix of a peer before both."""
    north, south = await start_hub(name="north"), await start_hub(name="south")
    far, near, requester = await south.client(), await north.client(), await north.client()
    await serve(far, "/a", "/a/b")
    await serve(near, "/a")
    await link(north, south)
    await eventually(lambda: services(north) == 2)
    await requester.send(asking("/a", 1, 1), asking("/a/b", 2, 2))
    assert values_in(await asked(near)) == [1]
    assert values_in(await asked(far)) == [2]


async def test_one_hop(start_hub: StartHub) -> None:
    """What came over a link goes to no other: of a service two hops away nobody knows."""
    north, middle, south = [await start_hub(name=name) for name in ("north", "middle", "south")]
    service = await south.client()
    await serve(service, "/a")
    middle.dial(north)
    middle.dial(south)
    await eventually(lambda: services(middle) == 1 and middle.node.core.statistics().links == 2)
    requester, neighbour = await north.client(), await middle.client()
    await neighbour.send(asking("/a", 1, 1))
    await asked(service)
    assert not services(north)
    await requester.send(asking("/a", 1, 1))
    assert (await answered(requester)).status == Status.NO_RESPONDER
    stray = await north.raw()
    await stray.greet(role="hub", id=b"\x55" * 16)
    await stray.send(encode_subscription(Kind.SERVE, ["/b"]))
    await eventually(lambda: services(north) == 1)
    link_of_middle = next(one for one in north.node.core.handlers.values() if one.name == "middle")
    refused = north.node.core.requests.ask(link_of_middle, Request(b"/b", 1, 0, b"\x01"), 0)
    assert refused is None
    assert north.node.core.requests.statistics().answered_total["no_responder"] == 2


async def test_a_link_that_is_lost(start_hub: StartHub) -> None:
    """What was asked over it is answered: gone. What had come over it is dropped."""
    north, south = await start_hub(name="north"), await start_hub(name="south")
    service, requester = await south.client(), await north.client()
    await serve(service, "/a")
    await link(north, south)
    await eventually(lambda: services(north) == 1)
    await requester.send(asking("/a", 1, 1, 2))
    await asked(service)
    await north.stop_dialling()
    reply = await answered(requester)
    assert (reply.first, reply.requests, reply.status) == (1, 2, Status.RESPONDER_GONE)
    await eventually(lambda: not south.node.core.requests.statistics().pending)
    assert not services(north)


async def test_a_time_out_over_a_link(start_hub: StartHub) -> None:
    """Each hub keeps the time; that the far one's word comes late is nobody's fault."""
    north, south = await start_hub(name="north"), await start_hub(name="south")
    service, requester = await south.client(), await north.client()
    await serve(service, "/a")
    await link(north, south)
    await eventually(lambda: services(north) == 1)
    await requester.send(asking("/a", 1, 1, timeout_ms=1000))
    await asked(service)
    north.later(1.1)
    assert (await answered(requester)).status == Status.TIMED_OUT
    south.later(1.1)
    await eventually(lambda: north.node.core.requests.statistics().late_total == 1)


async def test_many_prefixes_over_a_link(start_hub: StartHub) -> None:
    """They are told in pieces that fit into what the peer takes."""
    north = await start_hub(name="north", settings=settings_of(frame_bytes=4096))
    south = await start_hub(name="south", settings=settings_of(services_per_client=2000))
    service = await south.client()
    await serve(service, *(f"/prefix/{number}" for number in range(1500)))
    await link(north, south)
    await eventually(lambda: services(north) == 1500)
