"""Streams as a hub would send them, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Iterable

import msgpack

from hub.frame import FLAG_BATCH, KIND_MESSAGES, encode_frame
from peers.bench.messages import STAMP, Layout

Item = tuple[int, int]
"""A publisher and a sequence number."""


def value(layout: Layout, publisher: int, sequence: int, time_ns: int = 0) -> bytes:
    """One message's content."""
    return STAMP.pack(publisher, sequence, time_ns).ljust(layout.size_bytes, b"x")


def tcp(layout: Layout, items: Iterable[Item], time_ns: int = 0) -> bytes:
    """Frames of the hub's own protocol, one for each message, under the topics they belong to."""
    frames = []
    for publisher, sequence in items:
        key = layout.topic(layout.topic_of(sequence)).encode()
        body = msgpack.packb(value(layout, publisher, sequence, time_ns))
        frames.append(encode_frame(KIND_MESSAGES, body, key=key))
    return b"".join(frames)


def tcp_batch(layout: Layout, items: list[Item]) -> bytes:
    """One frame with several values."""
    key = layout.topic(layout.topic_of(items[0][1])).encode()
    body = len(items).to_bytes(4, "big") + b"".join(msgpack.packb(value(layout, *item)) for item in items)
    return encode_frame(KIND_MESSAGES, body, key=key, flags=FLAG_BATCH)


def websocket(body: bytes, opcode: int = 2) -> bytes:
    """A frame of a WebSocket server."""
    if len(body) < 126:
        size = bytes((len(body),))
    elif len(body) < 65_536:
        size = b"\x7e" + len(body).to_bytes(2, "big")
    else:
        size = b"\x7f" + len(body).to_bytes(8, "big")
    return bytes((0x80 | opcode,)) + size + body


def websocket_messages(layout: Layout, items: list[Item]) -> bytes:
    """A WebSocket frame with `messages` in it."""
    topic = layout.topic(layout.topic_of(items[0][1]))
    values = [value(layout, *item) for item in items]
    return websocket(msgpack.packb({"type": "messages", "topic": topic, "values": values}))
