"""Requests over links between hubs: how they find a service, and what becomes of them when a link is lost."""

from __future__ import annotations

from hub.request_frame import Status
from tests.connections.tcp.asking import answered, answering, asked, asking, serve, values_in
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.settings import settings_of
from tests.links.rows import row

_POLICY = """
[roles.linked]
link = { bring = ["*"], take = ["/a"] }

[users]
south = ["linked"]
"""


async def link(source: Hub, target: Hub) -> None:
    source.dial(target)
    await eventually(lambda: all(hub.node.core.statistics().links == 1 for hub in (source, target)))


def services(hub: Hub) -> int:
    return hub.node.core.requests.statistics().services


async def test_near_before_far(start_hub: StartHub) -> None:
    north, south = await start_hub(name="north"), await start_hub(name="south")
    far, near, requester = await south.client(), await north.client(), await north.client()
    await serve(far, "/a", "/a/b")
    await serve(near, "/a")
    await link(north, south)
    await eventually(lambda: services(north) == 2)
    await requester.send(asking("/a", 1, 1), asking("/a/b", 2, 2))
    assert values_in(await asked(near)) == [1]
    assert values_in(await asked(far)) == [2]


async def test_over_several_links(start_hub: StartHub) -> None:
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
    for hub in hubs:
        assert not hub.node.core.requests.statistics().pending
    service.close()
    await eventually(lambda: not services(hubs[0]))
    await requester.send(asking("/a/x", 9, "nobody is there"))
    assert (await answered(requester)).status == Status.NO_RESPONDER


async def test_the_nearest_hub_is_asked(start_hub: StartHub) -> None:
    hubs = await row(start_hub, "north", "middle", "south")
    near, far, requester = await hubs[1].client(), await hubs[2].client(), await hubs[0].client()
    await serve(near, "/a")
    await serve(far, "/a", "/a/b")
    await eventually(lambda: services(hubs[0]) == 2 and len(hubs[0].node.core.far_hubs.served_by(hubs[2].node.id)) == 2)
    await requester.send(asking("/a", 1, "near"), asking("/a/b", 2, "far"))
    assert values_in(await asked(near)) == ["near"]
    assert values_in(await asked(far)) == ["far"]
    await hubs[1].stop_dialling()
    await eventually(lambda: hubs[2].node.id not in hubs[0].node.core.mesh.graph.reached)
    assert (await answered(requester)).status == Status.RESPONDER_GONE
    await requester.send(asking("/a/b", 3, "near, as far is gone"))
    assert values_in(await asked(near)) == ["near, as far is gone"]


async def test_a_link_takes_requests_as_far_as_it_may(start_hub: StartHub) -> None:
    hubs = await row(start_hub, "north", "middle", "south")
    service, requester = await hubs[2].client(), await hubs[0].client()
    await serve(service, "/a", "/b")
    await eventually(lambda: services(hubs[0]) == 2)
    link = hubs[1].handler("south")
    hubs[1].node.core.authority.give_rights(link, policy_of(_POLICY).rights("south"))
    await requester.send(asking("/b/x", 1, "not granted"))
    assert (await answered(requester)).status == Status.NO_RESPONDER
    await requester.send(asking("/a/x", 2, "granted"))
    assert values_in(await asked(service)) == ["granted"]


async def test_a_link_that_is_lost(start_hub: StartHub) -> None:
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
    await requester.send(asking("/a", 5, 1))
    assert (await answered(requester)).status == Status.NO_RESPONDER


async def test_a_time_out_over_a_link(start_hub: StartHub) -> None:
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
    north = await start_hub(name="north", settings=settings_of(frame_bytes=4096))
    south = await start_hub(name="south", settings=settings_of(services_per_client=2000))
    service = await south.client()
    await serve(service, *(f"/prefix/{number}" for number in range(1500)))
    await link(north, south)
    await eventually(lambda: services(north) == 1500)
