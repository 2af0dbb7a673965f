"""ZeroMQ's wire protocol, ZMTP 3.0 with the NULL mechanism, as PUB and SUB sockets speak it.

```
greeting   FF 0*8 7F │ 3 0 │ "NULL" 0*16 │ as-server 0 │ 0*31          64 bytes, both sides
command    04 u8 length, body (READY and the socket's type)
message    00 u8 length, body  │  02 u64 length, body
```

A message is one frame: topic, NUL, payload; a subscription (a message 01 + prefix) matches its beginning. Frames are
made by hand, as for the other protocols: pyzmq costs about a microsecond a message, more than the proxy.

Nobody confirms a subscription in ZeroMQ. But the proxy passes each one on to every publisher (XPUB_VERBOSE), so one
more connection, as a publisher, hears when it has arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from generators.channel import Channel
from generators.dialect import Interest, Role, Topic

__all__ = ["ZeromqDialect"]

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
_U32 = Struct(">I")
_U64 = Struct(">Q")
_LONG = 0x02
_COMMAND = 0x04
_SHORT_LIMIT_BYTES = 255


class ZeromqDialect:
    """An XSUB/XPUB proxy.

    Args:
        port: Where publishers connect.
        subscriber_port: Where subscribers connect.
    """

    unit_messages = 1

    def __init__(self, port: int, subscriber_port: int) -> None:
        self._port = port
        self._subscriber_port = subscriber_port
        self._witness = self._open(port, b"PUB")

    def connect(self, role: Role) -> Channel:
        """Open a connection: greetings and READY."""
        if role == "publisher":
            return self._open(self._port, b"PUB")
        return self._open(self._subscriber_port, b"SUB")

    def _open(self, port: int, kind: bytes) -> Channel:
        channel = Channel(port)
        channel.send(_GREETING)
        channel.receive(len(_GREETING))
        channel.send(_frame(b"\x05READY\x0bSocket-Type" + _U32.pack(len(kind)) + kind, _COMMAND))
        flags, _ = _receive(channel)
        if not flags & _COMMAND:
            raise ConnectionError("READY expected")
        return channel

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """Subscribe, and wait until the last one has come through the proxy."""
        prefixes = [_name(one.topic) + (b"/" if one.below else b"\0") for one in interests]
        channel.send(b"".join(_frame(b"\x01" + prefix) for prefix in prefixes))
        for prefix in prefixes:
            flags, body = _receive(self._witness)
            if flags or body != b"\x01" + prefix:
                raise ConnectionError(f"the proxy passed {body!r} on, not {prefix!r}")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Return one message."""
        return _frame(_name(topic) + b"\0" + b"".join(payloads))

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        """Return the same."""
        return self.publication(topic, payloads)

    def control_bytes(self, data: bytes) -> int:  # noqa: ARG002
        """The proxy says nothing by itself."""
        return -1

    def content(self, message: memoryview) -> memoryview | bytes:
        """There are no WebSocket messages here."""
        return message


def _name(topic: Topic) -> bytes:
    return "/".join(topic).encode()


def _frame(body: bytes, flags: int = 0) -> bytes:
    if len(body) <= _SHORT_LIMIT_BYTES:
        return bytes((flags, len(body))) + body
    return bytes((flags | _LONG,)) + _U64.pack(len(body)) + body


def _receive(channel: Channel) -> tuple[int, bytes]:
    flags = channel.receive(1)[0]
    length = _U64.unpack(channel.receive(8))[0] if flags & _LONG else channel.receive(1)[0]
    return flags & ~_LONG, channel.receive(length)
