"""Frames of requests and replies, and reading them."""

from __future__ import annotations

import msgpack

from hub.messages.frame import BATCH_COUNT, FLAG_BATCH
from hub.messages.request_frame import KIND_REPLY, KIND_REQUEST, Reply, Request, Status
from peers.wire.control import Notice, encode_subscription
from peers.wire.kinds import Kind
from tests.hubs.raw_client import RawClient


def asking(topic: str, first: int, *values: object, timeout_ms: int = 0) -> bytes:
    packed = b"".join(msgpack.packb(value) for value in values)
    if len(values) == 1:
        return Request(topic.encode(), first, timeout_ms, packed).encode()
    return Request(topic.encode(), first, timeout_ms, BATCH_COUNT.pack(len(values)) + packed, FLAG_BATCH).encode()


def answering(first: int, *values: object, status: int = Status.OK) -> bytes:
    packed = b"".join(msgpack.packb(value) for value in values)
    if len(values) == 1:
        return Reply(first, status, packed).encode()
    return Reply(first, status, BATCH_COUNT.pack(len(values)) + packed, FLAG_BATCH).encode()


def values_in(item: Request | Reply) -> list[object]:
    unpacker = msgpack.Unpacker()
    unpacker.feed(item.values[BATCH_COUNT.size :] if item.flags & FLAG_BATCH else item.values)
    return list(unpacker)


async def asked(client: RawClient) -> Request:
    frame = await client.frame()
    assert frame.kind == KIND_REQUEST, frame
    return Request.decode(frame)


async def answered(client: RawClient) -> Reply:
    frame = await client.frame()
    assert frame.kind == KIND_REPLY, frame
    return Reply.decode(frame)


async def serve(client: RawClient, *prefixes: str) -> None:
    await client.send(encode_subscription(Kind.SERVE, list(prefixes), 99))
    assert await client.notice() == Notice("confirmed", request=99)
