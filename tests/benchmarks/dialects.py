"""How clients of each broker spell what they send and get, by hand: no code of the hub is used here.

The generator knows topics as components and interests as topics or prefixes; a dialect makes of them what people who
use that broker would write. It talks only while connections are set up (blocking); then the generator takes the socket.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from struct import Struct
from typing import Any, Literal, NamedTuple

import msgpack

WRITE_BYTES = 64 * 1024
"""What a publisher writes at once at full speed, bytes, which is the write buffer of a client library."""

SETUP_LIMIT_S = 20.0
"""A broker that is silent for so long during set-up is taken for broken."""

_STEP_BYTES = 64 * 1024
_U16, _U32, _U64 = Struct(">H"), Struct(">I"), Struct(">Q")


class WrongBytesError(Exception):
    """A message was lost, came twice, in the wrong order, or damaged."""


class Channel:
    """A connection while it is set up."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SETUP_LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = bytearray()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _fill(self) -> None:
        data = self.socket.recv(_STEP_BYTES)
        if not data:
            raise ConnectionError(f"the broker closed the connection; unread: {bytes(self._unread[:200])!r}")
        self._unread += data

    def receive(self, size_bytes: int) -> bytes:
        while len(self._unread) < size_bytes:
            self._fill()
        data = bytes(self._unread[:size_bytes])
        del self._unread[:size_bytes]
        return data

    def receive_to(self, end: bytes) -> bytes:
        while (place := self._unread.find(end)) < 0:
            self._fill()
        return self.receive(place + len(end))

    def release(self, *, listening: bool) -> socket.socket:
        if listening and self._unread:
            raise ConnectionError(f"not expected before the first message: {bytes(self._unread[:200])!r}")
        self.socket.setblocking(False)
        return self.socket


Role = Literal["publisher", "subscriber"]
Topic = tuple[str, ...]
"""The components of a topic."""


class Interest(NamedTuple):
    topic: Topic
    below: bool = False
    """Whether it is all topics with further components below this one, not this one itself."""


class Dialect:
    """What one broker's clients say."""

    unit_messages = 1
    """How many messages one frame has; more than 1 only for a protocol that has batches."""

    def __init__(self, port: int) -> None:
        self._port = port

    def connect(self, role: Role) -> Channel:
        """Open a connection and shake hands."""
        raise NotImplementedError

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """Subscribe, and return when the broker has done so."""
        raise NotImplementedError

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Return what a publisher sends; `payloads` are `unit_messages` many."""
        raise NotImplementedError

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        """Return what a subscriber then gets."""
        return self.publication(topic, payloads)

    def control_bytes(self, data: bytes) -> int:  # noqa: ARG002
        """Return how long what stands at the start of `data` is, which may stand between messages.

        0: more must come to know; -1: it may not stand there.
        """
        return -1


_HEADER = Struct(">IBBH")
_HELLO, _MESSAGES, _SUBSCRIBE, _PING, _NOTICE = 1, 2, 3, 7, 9

QUEUE_WISH = {"messages": 200_000}
"""Room for the window of any workload, as every client may ask for. The other brokers are configured to that end."""


def _hub_name(topic: Topic, *, below: bool = False) -> str:
    return "/" + "/".join(topic) + ("/" if below else "")


def _pack(value: object) -> bytes:
    data: bytes = msgpack.packb(value)
    return data


def _frame(kind: int, body: bytes, key: bytes = b"", flags: int = 0) -> bytes:
    return _HEADER.pack(len(body), kind, flags, len(key)) + key + body


class HubDialect(Dialect):
    def __init__(self, port: int, batched_bytes: int = 0) -> None:
        super().__init__(port)
        self.unit_messages = WRITE_BYTES // len(_pack(bytes(batched_bytes))) if batched_bytes else 1

    def connect(self, role: Role) -> Channel:
        channel = Channel(self._port)
        hello = {"protocol": 1, "role": "client", "name": f"bench {role}", "software": "bench", "queue": QUEUE_WISH}
        channel.send(_frame(_HELLO, _pack(hello)))
        self._expect(channel, _HELLO)
        return channel

    def _expect(self, channel: Channel, expected: int) -> Any:
        length, kind, _, key_length = _HEADER.unpack(channel.receive(_HEADER.size))
        body = msgpack.unpackb(channel.receive(key_length + length)[key_length:])
        if kind != expected:
            raise ConnectionError(f"kind {expected} expected: kind {kind}, {body!r}")
        return body

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        channel.send(_frame(_SUBSCRIBE, _pack([1, [_hub_name(one.topic, below=one.below) for one in interests]])))
        if (notice := self._expect(channel, _NOTICE)).get("kind") != "confirmed":
            raise ConnectionError(f"not subscribed: {notice!r}")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        body = b"".join(_pack(payload) for payload in payloads)
        if self.unit_messages > 1:
            return _frame(_MESSAGES, _U32.pack(len(payloads)) + body, _hub_name(topic).encode(), flags=1)
        return _frame(_MESSAGES, body, _hub_name(topic).encode())

    def control_bytes(self, data: bytes) -> int:
        if len(data) < _HEADER.size:
            return 0
        length, kind, _, key_length = _HEADER.unpack_from(data)
        return _HEADER.size + length + key_length if kind == _PING else -1


class MqttDialect(Dialect):
    _filters_at_once = 100

    def connect(self, role: Role) -> Channel:  # noqa: ARG002
        channel = Channel(self._port)
        channel.send(_packet(0x10, _text("MQTT") + bytes((4, 2, 0, 0)) + _text(f"bench-{os.urandom(6).hex()}")))
        self._expect(channel, 0x20)
        return channel

    def _expect(self, channel: Channel, expected: int) -> None:
        """Receive a packet of this kind whose return codes are none of a refusal (0x80; of CONNACK: not 0)."""
        kind = channel.receive(1)[0]
        length = shift = 0
        while True:
            part = channel.receive(1)[0]
            length |= (part & 0x7F) << shift
            shift += 7
            if part < 0x80:
                break
        body = channel.receive(length)
        if kind != expected or any(
            code == 0x80 or (kind == 0x20 and code) for code in body[1 if kind == 0x20 else 2 :]
        ):
            raise ConnectionError(f"{expected:#x} expected: {kind:#x} {body!r}")

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        for start in range(0, len(interests), self._filters_at_once):
            part = interests[start : start + self._filters_at_once]
            filters = b"".join(_text("/".join(one.topic) + ("/#" if one.below else "")) + b"\0" for one in part)
            channel.send(_packet(0x82, _U16.pack(1) + filters))
            self._expect(channel, 0x90)

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        return _packet(0x30, _text("/".join(topic)) + b"".join(payloads))


def _text(text: str) -> bytes:
    return _U16.pack(len(text)) + text.encode()


def _packet(kind: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((kind, *length, left)) + body


class NatsDialect(Dialect):
    _control = (b"PING\r\n", b"PONG\r\n", b"INFO ")
    _first_id = 1000
    """Ids begin here, so that all of a connection are equally long."""

    def connect(self, role: Role) -> Channel:  # noqa: ARG002
        channel = Channel(self._port)
        channel.receive_to(b"\r\n")
        channel.send(b'CONNECT {"verbose":false,"pedantic":false,"lang":"bench","version":"1","protocol":1}\r\n')
        self._wait(channel)
        return channel

    def _wait(self, channel: Channel) -> None:
        channel.send(b"PING\r\n")
        while (line := channel.receive_to(b"\r\n")) != b"PONG\r\n":
            if not line.startswith(self._control):
                raise ConnectionError(f"PONG expected: {line!r}")

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        channel.send(
            b"".join(
                b"SUB %b %d\r\n" % (_subject(one.topic) + (b".>" if one.below else b""), self._first_id + place)
                for place, one in enumerate(interests)
            )
        )
        self._wait(channel)

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        (payload,) = payloads
        return b"PUB %b %d\r\n%b\r\n" % (_subject(topic), len(payload), payload)

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        (payload,) = payloads
        return b"MSG %b %d %d\r\n%b\r\n" % (_subject(topic), self._first_id + place, len(payload), payload)

    def control_bytes(self, data: bytes) -> int:
        if not any(data.startswith(word) or word.startswith(data) for word in self._control):
            return -1
        return data.find(b"\r\n") + 2 if b"\r\n" in data else 0


def _subject(topic: Topic) -> bytes:
    return ".".join(topic).encode()


class RedisDialect(Dialect):
    def connect(self, role: Role) -> Channel:
        channel = Channel(self._port)
        channel.send(_array(b"PING"))
        if channel.receive_to(b"\r\n") != b"+PONG\r\n":
            raise ConnectionError("PONG expected")
        if role == "publisher":
            channel.send(_array(b"CLIENT", b"REPLY", b"OFF"))
        return channel

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        for command, below in ((b"SUBSCRIBE", False), (b"PSUBSCRIBE", True)):
            names = [_redis_name(one) for one in interests if one.below is below]
            if names:
                channel.send(_array(command, *names))
            for name in names:
                channel.receive_to(b"\r\n" + name + b"\r\n")
                channel.receive_to(b"\r\n")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        return _array(b"PUBLISH", "/".join(topic).encode(), *payloads)

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        head = [b"pmessage", _redis_name(interest)] if interest.below else [b"message"]
        return _array(*head, "/".join(topic).encode(), *payloads)


def _redis_name(interest: Interest) -> bytes:
    return "/".join(interest.topic).encode() + (b"/*" if interest.below else b"")


def _array(*parts: bytes) -> bytes:
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


class ZeromqDialect(Dialect):
    """ZMTP to a proxy of XSUB and XPUB; a publisher beside it sees when a subscription has passed through."""

    _greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)

    def __init__(self, port: int, subscriber_port: int) -> None:
        super().__init__(port)
        self._subscriber_port = subscriber_port
        self._witness = self.connect("publisher")

    def connect(self, role: Role) -> Channel:
        publishes = role == "publisher"
        channel = Channel(self._port if publishes else self._subscriber_port)
        channel.send(self._greeting)
        channel.receive(len(self._greeting))
        channel.send(_zmtp(b"\x05READY\x0bSocket-Type\0\0\0\x03" + (b"PUB" if publishes else b"SUB"), flags=4))
        self._receive(channel, 4)
        return channel

    def _receive(self, channel: Channel, expected: int) -> bytes:
        flags = channel.receive(1)[0]
        length = _U64.unpack(channel.receive(8))[0] if flags & 2 else channel.receive(1)[0]
        body = channel.receive(length)
        if flags & ~2 != expected:
            raise ConnectionError(f"flags {expected} expected: {flags} {body!r}")
        return body

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        prefixes = [b"\x01" + "/".join(one.topic).encode() + (b"/" if one.below else b"\0") for one in interests]
        channel.send(b"".join(map(_zmtp, prefixes)))
        for prefix in prefixes:
            if (passed := self._receive(self._witness, 0)) != prefix:
                raise ConnectionError(f"the proxy passed {passed!r} on, not {prefix!r}")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        return _zmtp("/".join(topic).encode() + b"\0" + b"".join(payloads))


def _zmtp(body: bytes, flags: int = 0) -> bytes:
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return bytes((flags | 2,)) + _U64.pack(len(body)) + body


def dialect_of(name: str, ports: Sequence[int], size_bytes: int) -> Dialect:
    port, second = ports
    if name == "zeromq":
        return ZeromqDialect(port, second)
    if name == "hub-batch":
        return HubDialect(port, batched_bytes=size_bytes)
    kinds: dict[str, type[Dialect]] = {"nats": NatsDialect, "mosquitto": MqttDialect, "redis": RedisDialect}
    return kinds.get(name, HubDialect)(port)
