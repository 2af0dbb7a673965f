"""MQTT 3.1.1 with QoS 0, over TCP, or inside WebSocket frames for subscribers.

```
 0   u8   packet type, flags
 1   1-4  length of what follows, 7 bits a byte
     PUBLISH: u16 topic length, topic, payload
```
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from struct import Struct

from generators.channel import Channel, WebSocketChannel
from generators.dialect import Interest, Role, Topic

__all__ = ["MqttDialect"]

_U16 = Struct(">H")
_CONNECT, _CONNACK, _PUBLISH, _SUBSCRIBE, _SUBACK = 0x10, 0x20, 0x30, 0x82, 0x90
_CLEAN_SESSION = 0x02
_REFUSED = 0x80
_FILTERS_AT_ONCE = 100


class MqttDialect:
    """mosquitto, or any MQTT broker.

    Args:
        port: Of its listener.
        websocket_port: Of its WebSocket listener, for subscribers; 0 to subscribe over TCP.
    """

    unit_messages = 1

    def __init__(self, port: int, websocket_port: int = 0) -> None:
        self._port = port
        self._websocket_port = websocket_port

    def connect(self, role: Role) -> Channel:
        """Open a connection; keep-alive is off."""
        if role == "subscriber" and self._websocket_port:
            channel: Channel = WebSocketChannel(self._websocket_port, "/mqtt", "mqtt")
        else:
            channel = Channel(self._port)
        name = _text(f"bench-{os.urandom(6).hex()}")
        channel.send(_packet(_CONNECT, _text("MQTT") + bytes((4, _CLEAN_SESSION, 0, 0)) + name))
        kind, body = _receive(channel)
        if kind != _CONNACK or body[1]:
            raise ConnectionError(f"not connected: {kind:#x} {body!r}")
        return channel

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """Subscribe and wait for SUBACK."""
        for start in range(0, len(interests), _FILTERS_AT_ONCE):
            part = interests[start : start + _FILTERS_AT_ONCE]
            filters = b"".join(_text(_name(one.topic) + ("/#" if one.below else "")) + b"\0" for one in part)
            channel.send(_packet(_SUBSCRIBE, _U16.pack(1) + filters))
            kind, body = _receive(channel)
            if kind != _SUBACK or any(code == _REFUSED for code in body[2:]):
                raise ConnectionError(f"not subscribed: {kind:#x} {body!r}")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Return PUBLISH."""
        return _packet(_PUBLISH, _text(_name(topic)) + b"".join(payloads))

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        """Return the same."""
        return self.publication(topic, payloads)

    def control_bytes(self, data: bytes) -> int:  # noqa: ARG002
        """The broker says nothing by itself."""
        return -1

    def content(self, message: memoryview) -> memoryview | bytes:
        """Return the frame's payload: a piece of the stream of packets."""
        return message


def _name(topic: Topic) -> str:
    return "/".join(topic)


def _text(text: str) -> bytes:
    data = text.encode()
    return _U16.pack(len(data)) + data


def _packet(kind: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    length.append(left)
    return bytes((kind,)) + length + body


def _receive(channel: Channel) -> tuple[int, bytes]:
    kind = channel.receive(1)[0]
    length = shift = 0
    while True:
        part = channel.receive(1)[0]
        length |= (part & 0x7F) << shift
        shift += 7
        if part < 0x80:
            return kind, channel.receive(length)
