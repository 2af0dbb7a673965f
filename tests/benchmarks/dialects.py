"""The dialects of all brokers, written by hand: nothing of the project's own code is used here."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from struct import Struct
from typing import Any

import msgpack

from tests.benchmarks.channels import Channel, Interest, Role, Topic, WebSocketChannel
from tests.benchmarks.streams import WRITE_BYTES, WrongBytesError

_HEADER = Struct(">IBBH")
_COUNT = Struct(">I")
_HELLO, _MESSAGES, _SUBSCRIBE, _PING, _NOTICE = 1, 2, 3, 7, 9
_BATCH = 1

QUEUE_WISH = {"messages": 200_000}
"""Room for the window of any workload, as every client may ask for. The other brokers are configured to that end."""


def topic_name(topic: Topic) -> str:
    return "/" + "/".join(topic)


def prefix(interest: Interest) -> str:
    return topic_name(interest.topic) + ("/" if interest.below else "")


def packed(payload: bytes) -> bytes:
    data: bytes = msgpack.packb(payload)
    return data


class HubDialect:
    def __init__(self, port: int, batched_bytes: int = 0) -> None:
        self._port = port
        self.unit_messages = WRITE_BYTES // len(packed(bytes(batched_bytes))) if batched_bytes else 1

    def connect(self, role: Role) -> Channel:
        channel = Channel(self._port)
        hello = {"protocol": 1, "role": "client", "name": f"bench {role}", "software": "bench", "queue": QUEUE_WISH}
        channel.send(_frame(_HELLO, msgpack.packb(hello)))
        kind, body = _receive_frame(channel)
        if kind != _HELLO:
            raise ConnectionError(f"HELLO expected: kind {kind}, {body!r}")
        return channel

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        channel.send(_frame(_SUBSCRIBE, msgpack.packb([1, [prefix(interest) for interest in interests]])))
        kind, body = _receive_frame(channel)
        if kind != _NOTICE or msgpack.unpackb(body).get("kind") != "confirmed":
            raise ConnectionError(f"not subscribed: kind {kind}, {body!r}")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        key = topic_name(topic).encode()
        body = b"".join(packed(payload) for payload in payloads)
        if self.unit_messages == 1:
            return _frame(_MESSAGES, body, key)
        return _frame(_MESSAGES, _COUNT.pack(len(payloads)) + body, key, _BATCH)

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        return self.publication(topic, payloads)

    def control_bytes(self, data: bytes) -> int:
        if len(data) < _HEADER.size:
            return 0
        length, kind, _, key_length = _HEADER.unpack_from(data)
        return _HEADER.size + length + key_length if kind == _PING else -1

    def content(self, message: memoryview) -> memoryview | bytes:
        return message


def _frame(kind: int, body: bytes, key: bytes = b"", flags: int = 0) -> bytes:
    return _HEADER.pack(len(body), kind, flags, len(key)) + key + body


def _receive_frame(channel: Channel) -> tuple[int, bytes]:
    length, kind, _, key_length = _HEADER.unpack(channel.receive(_HEADER.size))
    return kind, channel.receive(key_length + length)[key_length:]


_FIXARRAY = 0x90
_FIXARRAY_END = 0xA0
_ARRAY16 = 0xDC
_ARRAY32 = 0xDD
_PATH = "/v1/hub"


class HubWebSocketDialect(HubDialect):
    """Publishers over TCP, subscribers over WebSocket with msgpack."""

    def __init__(self, port: int, websocket_port: int) -> None:
        super().__init__(port)
        self._websocket_port = websocket_port
        self._head = b""
        self._value_bytes = 0

    def connect(self, role: Role) -> Channel:
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
        prefixes = [prefix(interest) for interest in interests]
        channel.send(self._pack({"type": "subscribe", "prefixes": prefixes, "request": 1}))
        self._expect(channel, "confirmed")

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        value = packed(payloads[0])
        name: bytes = msgpack.packb(topic_name(topic))
        self._head = b"\x83\xa4type\xa8messages\xa5topic" + name + b"\xa6values"
        self._value_bytes = len(value)
        return value

    def control_bytes(self, data: bytes) -> int:  # noqa: ARG002
        return -1

    def content(self, message: memoryview) -> memoryview | bytes:
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
    def _open(self) -> WebSocketChannel:
        return WebSocketChannel(self._websocket_port, _PATH, "hub.v1.json", opcode=1)

    def _pack(self, message: dict[str, Any]) -> bytes:
        return json.dumps(message).encode()

    def _unpack(self, message: bytes) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(message)
        return data

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        return super().publication(topic, [payload.decode() for payload in payloads])  # type: ignore[misc]

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        name = json.dumps(topic_name(topic))
        self._head = f'{{"type":"messages","topic":{name},"values":['.encode()
        return json.dumps(payloads[0].decode()).encode() + b","

    def content(self, message: memoryview) -> memoryview | bytes:
        if bytes(message[: len(self._head)]) != self._head or bytes(message[-2:]) != b"]}":
            raise WrongBytesError(f"{bytes(message[:80])!r} is no message of this topic")
        return bytes(message[len(self._head) : -2]) + b","


_U16 = Struct(">H")
_MQTT_CONNECT, _CONNACK, _PUBLISH, _MQTT_SUBSCRIBE, _SUBACK = 0x10, 0x20, 0x30, 0x82, 0x90
_CLEAN_SESSION = 0x02
_REFUSED = 0x80
_FILTERS_AT_ONCE = 100


class MqttDialect:
    unit_messages = 1

    def __init__(self, port: int, websocket_port: int = 0) -> None:
        self._port = port
        self._websocket_port = websocket_port

    def connect(self, role: Role) -> Channel:
        if role == "subscriber" and self._websocket_port:
            channel: Channel = WebSocketChannel(self._websocket_port, "/mqtt", "mqtt")
        else:
            channel = Channel(self._port)
        name = _text(f"bench-{os.urandom(6).hex()}")
        channel.send(_packet(_MQTT_CONNECT, _text("MQTT") + bytes((4, _CLEAN_SESSION, 0, 0)) + name))
        kind, body = _receive_packet(channel)
        if kind != _CONNACK or body[1]:
            raise ConnectionError(f"not connected: {kind:#x} {body!r}")
        return channel

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        for start in range(0, len(interests), _FILTERS_AT_ONCE):
            part = interests[start : start + _FILTERS_AT_ONCE]
            filters = b"".join(_text(_mqtt_name(one.topic) + ("/#" if one.below else "")) + b"\0" for one in part)
            channel.send(_packet(_MQTT_SUBSCRIBE, _U16.pack(1) + filters))
            kind, body = _receive_packet(channel)
            if kind != _SUBACK or any(code == _REFUSED for code in body[2:]):
                raise ConnectionError(f"not subscribed: {kind:#x} {body!r}")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        return _packet(_PUBLISH, _text(_mqtt_name(topic)) + b"".join(payloads))

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        return self.publication(topic, payloads)

    def control_bytes(self, data: bytes) -> int:  # noqa: ARG002
        return -1

    def content(self, message: memoryview) -> memoryview | bytes:
        return message


def _mqtt_name(topic: Topic) -> str:
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


def _receive_packet(channel: Channel) -> tuple[int, bytes]:
    kind = channel.receive(1)[0]
    length = shift = 0
    while True:
        part = channel.receive(1)[0]
        length |= (part & 0x7F) << shift
        shift += 7
        if part < 0x80:
            return kind, channel.receive(length)


_NATS_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"lang":"bench","version":"1","protocol":1}\r\n'
_FIRST_ID = 1000
"""Ids begin here, so that all of a connection are equally long."""

_CONTROL = (b"PING\r\n", b"PONG\r\n", b"INFO ")


class NatsDialect:
    unit_messages = 1

    def __init__(self, port: int, websocket_port: int = 0) -> None:
        self._port = port
        self._websocket_port = websocket_port

    def connect(self, role: Role) -> Channel:
        if role == "subscriber" and self._websocket_port:
            channel: Channel = WebSocketChannel(self._websocket_port, "/")
        else:
            channel = Channel(self._port)
        channel.receive_to(b"\r\n")
        channel.send(_NATS_CONNECT)
        self._wait(channel)
        return channel

    def _wait(self, channel: Channel) -> None:
        channel.send(b"PING\r\n")
        while (line := channel.receive_to(b"\r\n")) != b"PONG\r\n":
            if not line.startswith(_CONTROL):
                raise ConnectionError(f"PONG expected: {line!r}")

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        lines = [
            b"SUB %b %d\r\n" % (_subject(interest.topic) + (b".>" if interest.below else b""), _FIRST_ID + place)
            for place, interest in enumerate(interests)
        ]
        channel.send(b"".join(lines))
        self._wait(channel)

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        (payload,) = payloads
        return b"PUB %b %d\r\n%b\r\n" % (_subject(topic), len(payload), payload)

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        (payload,) = payloads
        return b"MSG %b %d %d\r\n%b\r\n" % (_subject(topic), _FIRST_ID + place, len(payload), payload)

    def control_bytes(self, data: bytes) -> int:
        for control in _CONTROL:
            if data.startswith(control):
                return data.find(b"\r\n") + 2 if b"\r\n" in data else 0
            if control.startswith(data):
                return 0
        return -1

    def content(self, message: memoryview) -> memoryview | bytes:
        return message


def _subject(topic: Topic) -> bytes:
    return ".".join(topic).encode()


class RedisDialect:
    unit_messages = 1

    def __init__(self, port: int) -> None:
        self._port = port

    def connect(self, role: Role) -> Channel:
        channel = Channel(self._port)
        channel.send(_array(b"PING"))
        if channel.receive_to(b"\r\n") != b"+PONG\r\n":
            raise ConnectionError("PONG expected")
        if role == "publisher":
            channel.send(_array(b"CLIENT", b"REPLY", b"OFF"))
        return channel

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        exact = [_redis_name(interest) for interest in interests if not interest.below]
        patterns = [_redis_name(interest) for interest in interests if interest.below]
        for command, names in ((b"SUBSCRIBE", exact), (b"PSUBSCRIBE", patterns)):
            if names:
                channel.send(_array(command, *names))
            for name in names:
                channel.receive_to(b"\r\n" + name + b"\r\n")
                channel.receive_to(b"\r\n")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        return _array(b"PUBLISH", _channel(topic), *payloads)

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        if interest.below:
            return _array(b"pmessage", _redis_name(interest), _channel(topic), *payloads)
        return _array(b"message", _channel(topic), *payloads)

    def control_bytes(self, data: bytes) -> int:  # noqa: ARG002
        return -1

    def content(self, message: memoryview) -> memoryview | bytes:
        return message


def _channel(topic: Topic) -> bytes:
    return "/".join(topic).encode()


def _redis_name(interest: Interest) -> bytes:
    return _channel(interest.topic) + (b"/*" if interest.below else b"")


def _array(*parts: bytes) -> bytes:
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


class RelayDialect(HubDialect):
    def connect(self, role: Role) -> Channel:
        channel = Channel(self._port)
        channel.send(b"P" if role == "publisher" else b"S")
        channel.receive(1)
        return channel

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """There is nothing to choose from."""


_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
_U32 = Struct(">I")
_U64 = Struct(">Q")
_LONG = 0x02
_COMMAND = 0x04
_SHORT_LIMIT_BYTES = 255


class ZeromqDialect:
    unit_messages = 1

    def __init__(self, port: int, subscriber_port: int) -> None:
        self._port = port
        self._subscriber_port = subscriber_port
        self._witness = self._open(port, b"PUB")

    def connect(self, role: Role) -> Channel:
        if role == "publisher":
            return self._open(self._port, b"PUB")
        return self._open(self._subscriber_port, b"SUB")

    def _open(self, port: int, kind: bytes) -> Channel:
        channel = Channel(port)
        channel.send(_GREETING)
        channel.receive(len(_GREETING))
        channel.send(_zmtp_frame(b"\x05READY\x0bSocket-Type" + _U32.pack(len(kind)) + kind, _COMMAND))
        flags, _ = _receive_zmtp(channel)
        if not flags & _COMMAND:
            raise ConnectionError("READY expected")
        return channel

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        prefixes = [_zeromq_name(one.topic) + (b"/" if one.below else b"\0") for one in interests]
        channel.send(b"".join(_zmtp_frame(b"\x01" + prefix) for prefix in prefixes))
        for prefix in prefixes:
            flags, body = _receive_zmtp(self._witness)
            if flags or body != b"\x01" + prefix:
                raise ConnectionError(f"the proxy passed {body!r} on, not {prefix!r}")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        return _zmtp_frame(_zeromq_name(topic) + b"\0" + b"".join(payloads))

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        return self.publication(topic, payloads)

    def control_bytes(self, data: bytes) -> int:  # noqa: ARG002
        return -1

    def content(self, message: memoryview) -> memoryview | bytes:
        return message


def _zeromq_name(topic: Topic) -> bytes:
    return "/".join(topic).encode()


def _zmtp_frame(body: bytes, flags: int = 0) -> bytes:
    if len(body) <= _SHORT_LIMIT_BYTES:
        return bytes((flags, len(body))) + body
    return bytes((flags | _LONG,)) + _U64.pack(len(body)) + body


def _receive_zmtp(channel: Channel) -> tuple[int, bytes]:
    flags = channel.receive(1)[0]
    length = _U64.unpack(channel.receive(8))[0] if flags & _LONG else channel.receive(1)[0]
    return flags & ~_LONG, channel.receive(length)
