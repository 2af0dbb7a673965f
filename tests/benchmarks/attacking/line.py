"""`Line`: one TCP connection to a hub, blocking, that says whatever it is told to say."""

from __future__ import annotations

import select
import socket
import time
import uuid
from typing import Literal

from hub.frame import encode_frame
from peers.wire.control import encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind

__all__ = ["Line"]

_READ_BYTES = 1024 * 1024
_SEND_S = 0.2


class Line:
    """One connection.

    Args:
        url: `tcp://HOST:PORT`.
        role: "client" or "hub"; empty says nothing at all.
        source: The address that it comes from, where that matters.
    """

    def __init__(self, url: str, role: Literal["client", "hub", ""] = "client", source: str = "") -> None:
        host, _, port = url.partition("://")[2].rpartition(":")
        self.socket = socket.create_connection(
            (host, int(port)), timeout=10, source_address=(source, 0) if source else None
        )
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if role:
            own_id = uuid.uuid4().bytes if role == "hub" else b""
            self.socket.sendall(Hello(protocol=1, role=role, id=own_id).encode())
        self.socket.setblocking(False)
        self._writable = select.poll()  # `select` takes no descriptor over 1023
        self._writable.register(self.socket, select.POLLOUT)

    def subscribe(self, prefixes: list[str]) -> None:
        """Subscribe, and do not wait for the confirmation."""
        self.send(encode_subscription(Kind.SUBSCRIBE, prefixes, 1))

    def messages(self, topic: str, body: bytes, count: int) -> bytes:
        """Return so many MESSAGES frames."""
        return encode_frame(Kind.MESSAGES, body, key=topic.encode()) * count

    def send(self, data: bytes) -> bool:
        """Send, reading meanwhile whatever the hub answers; return whether the connection lives."""
        view = memoryview(data)
        while view:
            self._writable.poll(_SEND_S * 1000)
            try:
                view = view[self.socket.send(view) :]
            except BlockingIOError:
                pass
            except OSError:
                return False
            if not self.drain():
                return False
        return True

    def drain(self) -> bool:
        """Read what is there; return whether the connection lives."""
        try:
            while self.socket.recv(_READ_BYTES):
                pass
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def wait(self, seconds: float) -> bool:
        """Let time pass, reading what comes; return whether the connection lives."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            if not self.drain():
                return False
            time.sleep(0.02)
        return True

    def close(self) -> None:
        """End it without a word."""
        self.socket.close()
