"""Redis's protocol, RESP2: PUBLISH, SUBSCRIBE, and PSUBSCRIBE for what is below a topic.

A publisher says `CLIENT REPLY OFF`: the number of receivers that Redis would answer to each PUBLISH costs it work that
no other broker here does.
"""

from __future__ import annotations

from collections.abc import Sequence

from generators.channel import Channel
from generators.dialect import Interest, Role, Topic

__all__ = ["RedisDialect"]


class RedisDialect:
    """redis-server.

    Args:
        port: Of its listener.
    """

    unit_messages = 1

    def __init__(self, port: int) -> None:
        self._port = port

    def connect(self, role: Role) -> Channel:
        """Open a connection."""
        channel = Channel(self._port)
        channel.send(_array(b"PING"))
        if channel.receive_to(b"\r\n") != b"+PONG\r\n":
            raise ConnectionError("PONG expected")
        if role == "publisher":
            channel.send(_array(b"CLIENT", b"REPLY", b"OFF"))
        return channel

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """Subscribe, and wait for the answer to each."""
        exact = [_name(interest) for interest in interests if not interest.below]
        patterns = [_name(interest) for interest in interests if interest.below]
        for command, names in ((b"SUBSCRIBE", exact), (b"PSUBSCRIBE", patterns)):
            if names:
                channel.send(_array(command, *names))
            for name in names:
                channel.receive_to(b"\r\n" + name + b"\r\n")
                channel.receive_to(b"\r\n")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Return PUBLISH."""
        return _array(b"PUBLISH", _channel(topic), *payloads)

    def delivery(self, topic: Topic, payloads: Sequence[bytes], interest: Interest, place: int) -> bytes:  # noqa: ARG002
        """Return `message`, or `pmessage` with the pattern."""
        if interest.below:
            return _array(b"pmessage", _name(interest), _channel(topic), *payloads)
        return _array(b"message", _channel(topic), *payloads)

    def control_bytes(self, data: bytes) -> int:  # noqa: ARG002
        """Redis says nothing by itself."""
        return -1

    def content(self, message: memoryview) -> memoryview | bytes:
        """There are no WebSocket messages here."""
        return message


def _channel(topic: Topic) -> bytes:
    return "/".join(topic).encode()


def _name(interest: Interest) -> bytes:
    return _channel(interest.topic) + (b"/*" if interest.below else b"")


def _array(*parts: bytes) -> bytes:
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
