"""Requests over sockets: asked, answered, refused, and lost with either side."""

from __future__ import annotations

import msgpack

from hub.frame import BATCH_COUNT, FLAG_BATCH
from hub.requests.layout import KIND_REPLY, KIND_REQUEST, Reply, Request, Status
from peers.wire.control import Notice, encode_subscription
from peers.wire.kinds import Kind
from tests.tcp.hubs import Hub
from tests.tcp.raw_client import RawClient


def asking(topic: str, first: int, *values: object, timeout_ms: int = 0) -> bytes:
    """One REQUEST frame: a batch, unless it is one value."""
    packed = b"".join(msgpack.packb(value) for value in values)
    if len(values) == 1:
        return Request(topic.encode(), first, timeout_ms, packed).encode()
    return Request(topic.encode(), first, timeout_ms, BATCH_COUNT.pack(len(values)) + packed, FLAG_BATCH).encode()


def answering(first: int, *values: object, status: int = Status.OK) -> bytes:
    """One REPLY frame: a batch, unless it is one value."""
    packed = b"".join(msgpack.packb(value) for value in values)
    if len(values) == 1:
        return Reply(first, status, packed).encode()
    return Reply(first, status, BATCH_COUNT.pack(len(values)) + packed, FLAG_BATCH).encode()


def values_in(item: Request | Reply) -> list[object]:
    """The values of a frame."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(item.values[BATCH_COUNT.size :] if item.flags & FLAG_BATCH else item.values)
    return list(unpacker)


async def asked(client: RawClient) -> Request:
    """The next frame, which must be a request."""
    frame = await client.frame()
    assert frame.kind == KIND_REQUEST, frame
    return Request.decode(frame)


async def answered(client: RawClient) -> Reply:
    """The next frame, which must be a reply."""
    frame = await client.frame()
    assert frame.kind == KIND_REPLY, frame
    return Reply.decode(frame)


async def serve(client: RawClient, *prefixes: str) -> None:
    """Serve, and wait until that is confirmed."""
    await client.send(encode_subscription(Kind.SERVE, list(prefixes), 99))
    assert await client.notice() == Notice("confirmed", request=99)


async def test_one_request(hub: Hub) -> None:
    """It reaches the service under an id of the hub's; the answer comes back under the requester's own."""
    requester, service = await hub.client(), await hub.client()
    await serve(service, "/add")
    await requester.send(asking("/add/ints", 4_000_000_000, [1, 2], timeout_ms=500))
    request = await asked(service)
    assert (request.target, request.timeout_ms, values_in(request)) == (b"/add/ints", 500, [[1, 2]])
    await service.send(answering(request.first, 3))
    reply = await answered(requester)
    assert (reply.first, reply.status, values_in(reply)) == (4_000_000_000, Status.OK, [3])


async def test_a_batch(hub: Hub) -> None:
    """It is one frame each way."""
    requester, service = await hub.client(), await hub.client()
    await serve(service, "/")
    await requester.send(asking("/square", 2**32 - 2, 1, 2, 3))
    request = await asked(service)
    assert values_in(request) == [1, 2, 3]
    await service.send(answering(request.first, 1, 4, 9))
    reply = await answered(requester)
    assert (reply.first, values_in(reply)) == (2**32 - 2, [1, 4, 9])


async def test_a_failure(hub: Hub) -> None:
    """A service may say that it has failed, and why."""
    requester, service = await hub.client(), await hub.client()
    await serve(service, "/")
    await requester.send(asking("/a", 1, None))
    await service.send(answering((await asked(service)).first, "no idea", status=Status.FAILED))
    reply = await answered(requester)
    assert (reply.status, values_in(reply)) == (Status.FAILED, ["no idea"])


async def test_nobody(hub: Hub) -> None:
    """The answer is there at once where nobody serves the topic."""
    requester = await hub.client()
    await requester.send(asking("/a", 7, 1, 2))
    reply = await answered(requester)
    assert (reply.first, reply.requests, reply.status) == (7, 2, Status.NO_RESPONDER)
