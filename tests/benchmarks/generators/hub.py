"""The hub's own frames over TCP (docs/protocol.md), written by hand: nothing of the project's own code is used here.

`HubDialect` sends each message as a frame of its own, or (`batched`) as many as fit into 64 KiB as one BATCH frame.
A payload is a msgpack `bin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

import msgpack

from generators.channel import Channel
from generators.dialect import Interest, Role, Topic
from generators.stream import WRITE_BYTES

__all__ = ["QUEUE_WISH", "HubDialect", "packed", "prefix", "topic_name"]

_HEADER = Struct(">IBBH")
_COUNT = Struct(">I")
_HELLO, _MESSAGES, _SUBSCRIBE, _PING, _NOTICE = 1, 2, 3, 7, 9
_BATCH = 1

QUEUE_WISH = {"messages": 200_000}
"""Room for the window of any workload, as every client may ask for. The other brokers are configured to that end."""


def topic_name(topic: Topic) -> str:
    """Spell a topic as the hub's users do."""
    return "/" + "/".join(topic)


def prefix(interest: Interest) -> str:
    """Spell an interest as a plain string prefix."""
    return topic_name(interest.topic) + ("/" if interest.below else "")


def packed(payload: bytes) -> bytes:
    """Return a payload as a msgpack `bin`."""
    data: bytes = msgpack.packb(payload)
    return data


class HubDialect:
    """The hub over TCP.

    Args:
        port: Of its TCP listener.
        batched_bytes: Size of a payload, to send batches; 0 for single frames.
        ca: PEM file of the hub's authority; empty without TLS.
    """

    def __init__(self, port: int, batched_bytes: int = 0, ca: str = "") -> None:
        self._port = port
        self._ca = ca
        self.unit_messages = WRITE_BYTES // len(packed(bytes(batched_bytes))) if batched_bytes else 1

    def connect(self, role: Role) -> Channel:
        """Open a connection; the hub answers HELLO with HELLO."""
        channel = Channel(self._port)
        channel.secure(self._ca)
        hello = {"protocol": 1, "role": "client", "name": f"bench {role}", "software": "bench", "queue": QUEUE_WISH}
        channel.send(_frame(_HELLO, msgpack.packb(hello)))
        kind, body = _receive(channel)
        if kind != _HELLO:
            raise ConnectionError(f"HELLO expected: kind {kind}, {body!r}")
        return channel

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """Subscribe and wait for the confirmation."""
        channel.send(_frame(_SUBSCRIBE, msgpack.packb([1, [prefix(interest) for interest in interests]])))
        kind, body = _receive(channel)
        if kind != _NOTICE or msgpack.unpackb(body).get("kind") != "confirmed":
            raise ConnectionError(f"not subscribed: kind {kind}, {body!r}")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Return a MESSAGES frame."""
        key = topic_name(topic).encode()
        body = b"".join(packed(payload) for payload in payloads)
        if self.unit_messages == 1:
            return _frame(_MESSAGES, body, key)
        return _frame(_MESSAGES, _COUNT.pack(len(payloads)) + body, key, _BATCH)

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        """Return the same: the hub forwards frames as they came."""
        return self.publication(topic, payloads)

    def control_bytes(self, data: bytes) -> int:
        """Let PING pass; a NOTICE would tell of lost messages."""
        if len(data) < _HEADER.size:
            return 0
        length, kind, _, key_length = _HEADER.unpack_from(data)
        return _HEADER.size + length + key_length if kind == _PING else -1

    def content(self, message: memoryview) -> memoryview | bytes:
        """There are no WebSocket messages here."""
        return message


def _frame(kind: int, body: bytes, key: bytes = b"", flags: int = 0) -> bytes:
    return _HEADER.pack(len(body), kind, flags, len(key)) + key + body


def _receive(channel: Channel) -> tuple[int, bytes]:
    length, kind, _, key_length = _HEADER.unpack(channel.receive(_HEADER.size))
    return kind, channel.receive(key_length + length)[key_length:]
