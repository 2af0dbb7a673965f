"""The hub's WebSocket protocol (docs/websocket.md) for subscribers; publishers use TCP, as programs do.

A message from the hub holds as many values of one topic as the hub has merged, and how many that is, is its affair:

```
msgpack   {type: messages, topic: T, values: [ value value value ]}      checked: head, count, every value
JSON      {"type":"messages","topic":T,"values":[ value,value,value ]}   checked: head, end, every value
```

`delivery` is one value (in JSON with a comma behind it), and `content` cuts the values out of a message.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgpack

from generators.channel import Channel, WebSocketChannel
from generators.dialect import Interest, Role, Topic
from generators.hub import QUEUE_WISH, HubDialect, packed, prefix, topic_name
from generators.receiver import WrongBytesError

__all__ = ["HubJsonDialect", "HubWebSocketDialect"]

_FIXARRAY = 0x90
_FIXARRAY_END = 0xA0
_ARRAY16 = 0xDC
_ARRAY32 = 0xDD
_PATH = "/v1/hub"


class HubWebSocketDialect(HubDialect):
    """Publishers over TCP, subscribers over WebSocket with msgpack.

    Args:
        port: Of the TCP listener.
        websocket_port: Of the WebSocket listener.
    """

    def __init__(self, port: int, websocket_port: int) -> None:
        super().__init__(port)
        self._websocket_port = websocket_port
        self._head = b""
        self._value_bytes = 0

    def connect(self, role: Role) -> Channel:
        """Open a connection and greet."""
        if role == "publisher":
            return super().connect(role)
        channel = self._open()
        self._expect(channel, "welcome")
        channel.send(self._pack({"type": "hello", "name": f"bench {role}", "queue": QUEUE_WISH}))
        self._expect(channel, "welcome")
        return channel

    def _open(self) -> WebSocketChannel:
        return WebSocketChannel(self._websocket_port, _PATH, "hub.v1.msgpack")

    def _pack(self, message: dict[str, Any]) -> bytes:
        data: bytes = msgpack.packb(message)
        return data

    def _unpack(self, message: bytes) -> dict[str, Any]:
        data: dict[str, Any] = msgpack.unpackb(message)
        return data

    def _expect(self, channel: Channel, kind: str) -> None:
        assert isinstance(channel, WebSocketChannel)  # this dialect opened it
        message = self._unpack(channel.receive_message())
        if message.get("type") != kind:
            raise ConnectionError(f"{kind} expected: {message}")

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """Subscribe and wait for the confirmation."""
        prefixes = [prefix(interest) for interest in interests]
        channel.send(self._pack({"type": "subscribe", "prefixes": prefixes, "request": 1}))
        self._expect(channel, "confirmed")

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        """Return one value."""
        value = packed(payloads[0])
        name: bytes = msgpack.packb(topic_name(topic))
        self._head = b"\x83\xa4type\xa8messages\xa5topic" + name + b"\xa6values"
        self._value_bytes = len(value)
        return value

    def control_bytes(self, data: bytes) -> int:  # noqa: ARG002
        """Nothing stands between values."""
        return -1

    def content(self, message: memoryview) -> memoryview | bytes:
        """Return the values of a message."""
        size = len(self._head)
        if bytes(message[:size]) != self._head:
            raise WrongBytesError(f"{bytes(message[:80])!r} is no message of this topic")
        mark = message[size]
        if _FIXARRAY <= mark < _FIXARRAY_END:
            count, start = mark - _FIXARRAY, size + 1
        elif mark == _ARRAY16:
            start = size + 3
            count = int.from_bytes(message[size + 1 : start], "big")
        elif mark == _ARRAY32:
            start = size + 5
            count = int.from_bytes(message[size + 1 : start], "big")
        else:
            raise WrongBytesError(f"{bytes(message[:80])!r} holds no array of values")
        values = message[start:]
        if len(values) != count * self._value_bytes:
            raise WrongBytesError(f"a message says it holds {count} values and has {len(values)} bytes of them")
        return values


class HubJsonDialect(HubWebSocketDialect):
    """The same with JSON, as browsers use it; payloads are texts."""

    def _open(self) -> WebSocketChannel:
        return WebSocketChannel(self._websocket_port, _PATH, "hub.v1.json", opcode=1)

    def _pack(self, message: dict[str, Any]) -> bytes:
        return json.dumps(message).encode()

    def _unpack(self, message: bytes) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(message)
        return data

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Return a MESSAGES frame with texts."""
        return super().publication(topic, [payload.decode() for payload in payloads])  # type: ignore[misc]

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        """Return one value and the comma behind it."""
        name = json.dumps(topic_name(topic))
        self._head = f'{{"type":"messages","topic":{name},"values":['.encode()
        return json.dumps(payloads[0].decode()).encode() + b","

    def content(self, message: memoryview) -> memoryview | bytes:
        """Return the values of a message, a comma behind each."""
        if bytes(message[: len(self._head)]) != self._head or bytes(message[-2:]) != b"]}":
            raise WrongBytesError(f"{bytes(message[:80])!r} is no message of this topic")
        return bytes(message[len(self._head) : -2]) + b","
