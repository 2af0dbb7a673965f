"""Requests over sockets: asked, answered, refused, and lost with either side."""

from __future__ import annotations

import pytest

from hub.errors import CloseCode
from hub.frame import encode_frame, iterate_frames
from hub.limits import RequestLimits
from hub.overflow import QueueLimits
from hub.request_frame import Status
from hub.settings.settings import Settings
from peers.wire.control import Notice, decode_notice, encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from tests.connections.pretend import Stage
from tests.connections.tcp.asking import answered, answering, asked, asking, serve, values_in
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import publication
from tests.hubs.settings import settings_of


async def test_one_request(hub: Hub) -> None:
    requester, service = await hub.client(), await hub.client()
    await serve(service, "/add")
    await requester.send(asking("/add/ints", 4_000_000_000, [1, 2], timeout_ms=500))
    request = await asked(service)
    assert (request.target, request.timeout_ms, values_in(request)) == (b"/add/ints", 500, [[1, 2]])
    await service.send(answering(request.first, 3))
    reply = await answered(requester)
    assert (reply.first, reply.status, values_in(reply)) == (4_000_000_000, Status.OK, [3])


async def test_a_batch(hub: Hub) -> None:
    requester, service = await hub.client(), await hub.client()
    await serve(service, "/")
    await requester.send(asking("/square", 2**32 - 2, 1, 2, 3))
    request = await asked(service)
    assert values_in(request) == [1, 2, 3]
    await service.send(answering(request.first, 1, 4, 9))
    reply = await answered(requester)
    assert (reply.first, values_in(reply)) == (2**32 - 2, [1, 4, 9])


async def test_a_failure(hub: Hub) -> None:
    requester, service = await hub.client(), await hub.client()
    await serve(service, "/")
    await requester.send(asking("/a", 1, None))
    await service.send(answering((await asked(service)).first, "no idea", status=Status.FAILED))
    reply = await answered(requester)
    assert (reply.status, values_in(reply)) == (Status.FAILED, ["no idea"])


async def test_nobody(hub: Hub) -> None:
    requester = await hub.client()
    await requester.send(asking("/a", 7, 1, 2), asking("/\n", 9, 1), asking("", 10, 1), asking("$hub/nothing", 11, 1))
    reply = await answered(requester)
    assert (reply.first, reply.requests, reply.status) == (7, 2, Status.NO_RESPONDER)
    for first, text in ((9, "control character"), (10, "empty"), (11, "hub itself")):
        reply = await answered(requester)
        assert (reply.first, reply.status) == (first, Status.NO_RESPONDER)
        assert text in str(values_in(reply))


async def test_no_service_any_more(hub: Hub) -> None:
    requester, service = await hub.client(), await hub.client()
    await serve(service, "/a")
    await requester.send(asking("/a", 1, 1))
    request = await asked(service)
    await service.send(encode_subscription(Kind.UNSERVE, ["/a"], 5))
    assert await service.notice() == Notice("confirmed", request=5)
    await requester.send(asking("/a", 2, 2))
    assert (await answered(requester)).status == Status.NO_RESPONDER
    await service.send(answering(request.first, 1))
    assert (await answered(requester)).first == 1


async def test_a_service_that_is_lost(hub: Hub) -> None:
    requester, service = await hub.client(), await hub.client()
    await serve(service, "/a")
    await requester.send(asking("/a", 5, 1, 2, 3), asking("/a", 8, 4))
    await asked(service)
    service.close()
    reply = await answered(requester)
    assert (reply.first, reply.requests, reply.status) == (8, 1, Status.RESPONDER_GONE)
    reply = await answered(requester)
    assert (reply.first, reply.requests, reply.status) == (5, 3, Status.RESPONDER_GONE)


async def test_a_requester_that_is_lost(hub: Hub) -> None:
    requester, service = await hub.client(), await hub.client()
    await serve(service, "/a")
    await requester.send(asking("/a", 5, 1))
    request = await asked(service)
    requester.close()
    await eventually(lambda: not hub.node.core.requests.statistics().pending)
    await service.send(answering(request.first, 1))
    assert "too late" in (await service.notice()).text
    assert hub.node.core.requests.statistics().abandoned_total == 1


async def test_a_time_out(hub: Hub) -> None:
    requester, service = await hub.client(), await hub.client()
    await serve(service, "/a")
    await requester.send(asking("/a", 5, 1, 2, timeout_ms=3000), asking("/a", 7, 3, timeout_ms=20_000))
    first, _ = await asked(service), await asked(service)
    hub.later(2.9)
    assert await requester.ping() == []
    hub.later(0.2)
    reply = await answered(requester)
    assert (reply.first, reply.requests, reply.status) == (5, 2, Status.TIMED_OUT)
    await service.send(answering(first.first, 1), answering(first.first + 1, 1))
    notice = await service.notice()
    assert (notice.code, notice.count) == (CloseCode.BAD_DATA, 2)


@pytest.mark.parametrize(("timeout_s", "timed_out"), [(0.02, [5, 6]), (3600.0, [6])])
async def test_the_hub_keeps_the_time_itself(start_hub: StartHub, timeout_s: float, timed_out: list[int]) -> None:
    hub = await start_hub(settings=Settings(requests=RequestLimits(timeout_s=timeout_s)))
    requester, service = await hub.client(), await hub.client()
    await serve(service, "/a")
    await requester.send(asking("/a", 5, 1), asking("/a", 6, 1, timeout_ms=1))
    assert sorted([(await answered(requester)).first for _ in timed_out]) == timed_out


async def test_the_same_id_twice(hub: Hub) -> None:
    requester, other, service = await hub.client(), await hub.client(), await hub.client()
    await serve(service, "/a")
    await requester.send(asking("/a", 5, "first"), asking("/a", 4, "x", "y"), asking("/a", 5, "second"))
    await other.send(asking("/a", 5, "other"))
    notice = await requester.notice()
    assert (notice.kind, notice.code, notice.count) == ("error", CloseCode.BAD_DATA, 3)
    assert "pending already" in notice.text
    requests = [await asked(service), await asked(service)]
    assert [values_in(request) for request in requests] == [["first"], ["other"]]
    await service.send(*(answering(request.first, "done") for request in requests))
    assert (await answered(requester)).first == (await answered(other)).first == 5
    await requester.send(asking("/a", 5, "third"))
    assert values_in(await asked(service)) == ["third"]


async def test_a_reply_by_another(hub: Hub) -> None:
    requester, service, stranger = await hub.client(), await hub.client(), await hub.client()
    await serve(service, "/a")
    await requester.send(asking("/a", 5, 1))
    request = await asked(service)
    await stranger.send(answering(request.first, "mine"))
    assert "nothing of that kind was asked" in (await stranger.notice()).text
    await service.send(answering(request.first, "yours"), answering(77, 1), answering(request.first, 1, status=4))
    assert values_in(await answered(requester)) == ["yours"]
    told = [await service.notice() for _ in range(2)]
    assert ["nothing of that kind" in told[0].text, "status 4" in told[1].text] == [True, True]


async def test_services_take_turns(hub: Hub) -> None:
    requester, *services = [await hub.client() for _ in range(4)]
    for service in services:
        await serve(service, "/a")
    await requester.send(*(asking("/a", number, number) for number in range(6)))
    for service in services:
        assert [values_in(await asked(service))[0] % 3 for _ in range(2)] in ([0, 0], [1, 1], [2, 2])  # type: ignore[operator]


async def test_too_big_for_the_service(hub: Hub) -> None:
    requester, service = await hub.client(frame=2000), await hub.client(frame=1000)
    await serve(service, "/a")
    await requester.send(asking("/a", 5, bytes(1500)), asking("/a", 6, bytes(10)))
    assert (await answered(requester)).status == Status.TOO_BIG
    await service.send(answering((await asked(service)).first, bytes(3000)))
    reply = await answered(requester)
    assert (reply.first, reply.status) == (6, Status.TOO_BIG)


async def test_too_many_pending(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(requests=RequestLimits(pending=3, pending_total=5)))
    requester, other, service = await hub.client(), await hub.client(), await hub.client()
    await serve(service, "/a")
    await requester.send(asking("/a", 1, 1, 2, 3), asking("/a", 4, 4))
    assert (await answered(requester)).status == Status.OVERFLOW
    await other.send(asking("/a", 1, 1, 2), asking("/a", 3, 3))
    reply = await answered(other)
    assert (reply.first, reply.status) == (3, Status.OVERFLOW)
    assert "at this hub" in str(values_in(reply))


async def test_a_service_that_does_not_read(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(queue=QueueLimits(messages=3)))
    requester, service = await hub.client(), await hub.client(receive_bytes=4096, name="service")
    await serve(service, "/a")
    handler = hub.handler("service")
    number = 0
    while handler.writable:
        await requester.send(asking("/a", number, bytes(1 << 20)))
        number += 1
        assert await requester.ping() == []
    await requester.send(*(asking("/a", number, number) for number in range(100, 110)))
    replies = [await answered(requester) for _ in range(7)]
    assert {reply.status for reply in replies} == {Status.OVERFLOW}
    assert [reply.first for reply in replies] == list(range(103, 110))


async def test_prefixes_that_cannot_be_served(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(services_per_client=2))
    service = await hub.client()
    for number, prefixes, code in (
        (1, ["$hub/names"], CloseCode.NOT_ALLOWED),
        (2, ["/a\n"], CloseCode.BAD_DATA),
        (3, ["/a", "/b", "/c"], CloseCode.NOT_ALLOWED),
    ):
        await service.send(encode_subscription(Kind.SERVE, prefixes, number))
        notice = await service.notice()
        assert (notice.kind, notice.request, notice.code) == ("error", number, code)
    assert not hub.node.core.requests.statistics().services


async def test_order_with_messages(hub: Hub) -> None:
    requester, service = await hub.client(), await hub.client("/m")
    await serve(service, "/a")
    await requester.send(publication("/m", 1), asking("/a", 1, 1), publication("/m", 2), asking("/a", 2, 2))
    kinds = [(await service.frame()).kind for _ in range(4)]
    assert kinds == [Kind.MESSAGES, Kind.REQUEST, Kind.MESSAGES, Kind.REQUEST]


async def test_all_in_one_packet() -> None:
    stage = Stage()
    connection = stage.connect()
    frames = [
        Hello(protocol=1, role="client").encode(),
        encode_subscription(Kind.SUBSCRIBE, ["/a"], 1),
        encode_subscription(Kind.SERVE, ["/b"], 2),
        asking("/nobody", 3, 1),
        asking("/b", 4, 1),
        encode_frame(Kind.PING, b"x"),
    ]
    connection.data_received(b"".join(frames))
    (written,) = stage.transport_of(connection).far.incoming
    assert written is not None
    told = list(iterate_frames(written))
    kinds = [Kind.HELLO, Kind.NOTICE, Kind.NOTICE, Kind.PONG, Kind.REPLY, Kind.REQUEST]
    assert [frame.kind for frame in told] == kinds
    assert [decode_notice(frame.body).request for frame in told[1:3]] == [1, 2]


async def test_garbage(hub: Hub) -> None:
    client = await hub.client()
    await client.send(encode_frame(Kind.REQUEST, b"\0", key=b"/a"), encode_frame(Kind.REPLY, b"\0\0\0\0\0"))
    await client.send(encode_frame(Kind.SERVE, b"\xc1"))
    for text in ("REQUEST: 1 bytes", "REPLY: 5 bytes", "SERVE"):
        assert text in (await client.notice()).text
    assert await client.ping() == []
