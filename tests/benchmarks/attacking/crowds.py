"""Very many connections at once, most of which do nothing."""

from __future__ import annotations

import math
import resource
import socket
import ssl
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from websockets.frames import Opcode

from attacking.line import Line
from peers.wire.control import encode_close, encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from tests.hubs.raw_websocket import frame, text, upgrade

__all__ = [
    "Until",
    "begun_handshakes",
    "clients_that_are_told",
    "clients_that_leave",
    "clients_that_say_goodbye",
    "event_streams_that_are_told",
    "idle_clients_and_metrics",
    "silent_handshakes",
    "silent_strangers",
    "websockets_that_are_told",
    "websockets_that_leave",
]

_SILENT = 10_500
_IDLE = 9_000
_LEAVING = 4_000
_WEBSOCKETS = 1_000
_TOLD = "/told/"
_TOLD_EACH_S = 0.1

Until = Callable[[], bool]


def _raise_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def silent_strangers(url: str, until: Until) -> None:
    """10,500 connections that say nothing, replaced as soon as the hub ends them."""
    _raise_limit()
    lines: list[Line] = []
    while not until():
        if len(lines) < _SILENT:
            with suppress(OSError):
                lines.append(Line(url, ""))
            continue
        alive = [line for line in lines if line.drain()]
        if len(alive) == len(lines):
            time.sleep(0.1)
        lines = alive


def silent_handshakes(url: str, until: Until) -> None:
    """10,500 connections of one address that never begin their TLS handshake; somebody of another address does."""
    _stall_handshakes(url, until, b"")


def begun_handshakes(url: str, until: Until) -> None:
    """The same, but each says its first word, which makes the hub compute, and no more."""
    said, heard = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(heard, said, server_hostname="localhost").do_handshake()
    _stall_handshakes(url, until, said.read())


def _stall_handshakes(url: str, until: Until, first: bytes) -> None:
    """Open connections from one address that stall after what they say first; let another address try to get in.

    What became of the latter is said at the end.
    """
    _raise_limit()
    _, secured, ca, source = url.split(" ")
    lines: list[Line] = []
    taken_ms: list[float] = []
    tried, due_s = 0, time.monotonic()
    while not until():
        for _ in range(100):
            with suppress(OSError):
                lines.append(Line(secured, "", source=source))
                lines[-1].socket.send(first)
        lines = lines[-_SILENT:]  # those that go are closed
        if time.monotonic() >= due_s:
            due_s += 0.2
            tried += 1
            begun_s = time.monotonic()
            with suppress(OSError):
                _shake(secured, ca)
                taken_ms.append((time.monotonic() - begun_s) * 1e3)
    longest_ms = max(taken_ms, default=math.nan)
    sys.stderr.write(f"{tried} of another address tried, {len(taken_ms)} got in, in {longest_ms:.0f} ms at most\n")


def _shake(url: str, ca: str) -> None:
    """Shake hands and leave.

    Raises:
        OSError: There was no handshake.
    """
    host, _, port = url.partition("://")[2].rpartition(":")
    context = ssl.create_default_context(cafile=ca)
    with (
        socket.create_connection((host, int(port)), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        connection.sendall(Hello(protocol=1, role="client").encode())
        if not connection.recv(1):
            raise ConnectionError("closed")


def idle_clients_and_metrics(url: str, until: Until) -> None:
    """9,000 idle clients of several addresses, and somebody who looks at the metrics twice a second."""
    _raise_limit()
    tcp, _, http = url.partition(" ")
    lines = crowd(tcp, _IDLE, until)
    while not until():
        with suppress(OSError):
            urllib.request.urlopen(http.replace("ws://", "http://") + "/metrics", timeout=5).read()  # noqa: S310 -- loopback
        time.sleep(0.5)
    for line in lines:
        line.close()


def clients_that_leave(url: str, until: Until) -> None:
    """4,000 clients with ten prefixes each come, and leave within a moment."""
    _raise_limit()
    while not until():
        lines = crowd(url, _LEAVING, until)
        for number, line in enumerate(lines):
            line.subscribe([f"/leaving/{number}/{n}" for n in range(10)])
        for line in lines:
            line.wait(0)
            line.close()
        time.sleep(0.5)


def clients_that_say_goodbye(url: str, until: Until) -> None:
    """The same 4,000, but each says CLOSE, all in one moment."""
    _raise_limit()
    while not until():
        lines = crowd(url, _LEAVING, until)
        for number, line in enumerate(lines):
            line.subscribe([f"/goodbye/{number}/{n}" for n in range(10)])
        time.sleep(1)
        for line in lines:
            line.send(encode_close(1000, "bye"))
        time.sleep(0.5)
        for line in lines:
            line.close()


def websockets_that_leave(url: str, until: Until) -> None:
    """A thousand WebSockets shake hands, ping 20 times, subscribe to ten prefixes, and close, all at the same time."""
    _raise_limit()
    _, _, ws = url.partition(" ")
    pings = b"".join(text({"type": "ping", "request": number}) for number in range(20))
    while not until():
        lines = crowd(ws, _WEBSOCKETS, until, role="")
        for line in lines:
            line.send(upgrade())
        for line in lines:
            line.send(pings)
        for number, line in enumerate(lines):
            prefixes = [f"/ws/{number}/{n}" for n in range(10)]
            line.send(text({"type": "subscribe", "prefixes": prefixes, "request": 30}))
        time.sleep(1)
        for line in lines:
            line.send(frame(Opcode.CLOSE, b"\x03\xe8"))
        for line in lines:
            line.close()


def clients_that_are_told(url: str, until: Until) -> None:
    """9,000 clients of several addresses get the same ten small messages a second."""
    _tell(url, url, until, encode_subscription(Kind.SUBSCRIBE, [_TOLD], 1), "client")


def websockets_that_are_told(url: str, until: Until) -> None:
    """The same, over WebSockets."""
    tcp, _, ws = url.partition(" ")
    _tell(tcp, ws, until, upgrade() + text({"type": "subscribe", "prefixes": [_TOLD], "request": 1}), "")


def event_streams_that_are_told(url: str, until: Until) -> None:
    """The same, as streams of server-sent events."""
    tcp, _, ws = url.partition(" ")
    _tell(tcp, ws, until, f"GET /v1/events?prefix={_TOLD} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(), "")


def _tell(tcp: str, url: str, until: Until, subscribe: bytes, role: Literal["client", ""]) -> None:
    """Let a crowd subscribe at `url`, and publish what all of it wants over TCP."""
    _raise_limit()
    publisher = Line(tcp)
    lines = crowd(url, _IDLE, until, role, subscribe)
    sys.stderr.write(f"{len(lines)} are told from now on\n")
    message = publisher.messages(_TOLD, b"\xc4\x40" + bytes(64), 1)
    while not until() and publisher.send(message):
        time.sleep(_TOLD_EACH_S)
    for line in lines:
        line.close()


def crowd(url: str, most: int, until: Until, role: Literal["client", ""] = "client", first: bytes = b"") -> list[Line]:
    """Connect so many clients, from 16 addresses of loopback, so that no limit for an address is met.

    Args:
        url: Where.
        most: How many.
        until: When to give up.
        role: As what they introduce themselves.
        first: What each says behind that.
    """
    lines: list[Line] = []
    while len(lines) < most and not until():
        try:
            lines.append(Line(url, role, source=f"127.0.1.{len(lines) % 16 + 1}"))
        except OSError:
            time.sleep(0.05)
        else:
            lines[-1].send(first)
    return lines
