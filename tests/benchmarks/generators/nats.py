r"""NATS's client protocol: lines, and payloads of a told length. Over TCP, or inside WebSocket frames for subscribers.

```
PUB a.b 5\r\nhello\r\n          MSG a.b SID 5\r\nhello\r\n          PING\r\n
```

Pings are not answered: a run is over long before the second one.
"""

from __future__ import annotations

from collections.abc import Sequence

from generators.channel import Channel, WebSocketChannel
from generators.dialect import Interest, Role, Topic

__all__ = ["NatsDialect"]

_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"lang":"bench","version":"1","protocol":1}\r\n'
_FIRST_ID = 1000
"""Ids begin here, so that all of a connection are equally long."""

_CONTROL = (b"PING\r\n", b"PONG\r\n", b"INFO ")


class NatsDialect:
    """nats-server.

    Args:
        port: Of its client listener.
        websocket_port: Of its WebSocket listener, for subscribers; 0 to subscribe over TCP.
        ca: PEM file of its authority; empty without TLS.
    """

    unit_messages = 1

    def __init__(self, port: int, websocket_port: int = 0, ca: str = "") -> None:
        self._port = port
        self._websocket_port = websocket_port
        self._ca = ca

    def connect(self, role: Role) -> Channel:
        """Open a connection: INFO, CONNECT, and a PING to know that it was taken."""
        if role == "subscriber" and self._websocket_port:
            channel: Channel = WebSocketChannel(self._websocket_port, "/")
        else:
            channel = Channel(self._port)
        channel.receive_to(b"\r\n")
        channel.secure(self._ca)  # the line before comes without it
        channel.send(_CONNECT)
        self._wait(channel)
        return channel

    def _wait(self, channel: Channel) -> None:
        channel.send(b"PING\r\n")
        while (line := channel.receive_to(b"\r\n")) != b"PONG\r\n":
            if not line.startswith(_CONTROL):
                raise ConnectionError(f"PONG expected: {line!r}")

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """Subscribe, and wait for the answer to a PING behind it."""
        lines = [
            b"SUB %b %d\r\n" % (_subject(interest.topic) + (b".>" if interest.below else b""), _FIRST_ID + place)
            for place, interest in enumerate(interests)
        ]
        channel.send(b"".join(lines))
        self._wait(channel)

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Return PUB."""
        (payload,) = payloads
        return b"PUB %b %d\r\n%b\r\n" % (_subject(topic), len(payload), payload)

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        """Return MSG."""
        (payload,) = payloads
        return b"MSG %b %d %d\r\n%b\r\n" % (_subject(topic), _FIRST_ID + place, len(payload), payload)

    def control_bytes(self, data: bytes) -> int:
        """Let PING and INFO pass."""
        for control in _CONTROL:
            if data.startswith(control):
                return data.find(b"\r\n") + 2 if b"\r\n" in data else 0
            if control.startswith(data):
                return 0
        return -1

    def content(self, message: memoryview) -> memoryview | bytes:
        """Return the frame's payload: a piece of the stream of lines."""
        return message


def _subject(topic: Topic) -> bytes:
    return ".".join(topic).encode()
