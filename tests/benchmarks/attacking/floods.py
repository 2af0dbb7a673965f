"""Clients that keep the hub busy with work that is allowed: each frame costs it more than it costs them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable

from attacking.line import Line
from hub.frame import encode_frame
from hub.request_frame import KIND_REQUEST
from peers.wire.kinds import Kind

__all__ = ["copies_for_many", "new_topics", "pings", "refused_topics", "unserved_requests"]

_CHUNK_FRAMES = 1_000
_READERS = 100
_PADDING = b"\xc4\xff" + bytes(255)

Until = Callable[[], bool]


def _flood(url: str, until: Until, chunk: Callable[[int], bytes]) -> None:
    line = Line(url)
    for number in itertools.count():
        if until():
            return
        if not line.send(chunk(number * _CHUNK_FRAMES)):
            line = Line(url)


def new_topics(url: str, until: Until) -> None:
    """Each message bears a topic that was never seen before."""
    word = os.urandom(4).hex()
    _flood(
        url, until, lambda start: b"".join(_message(f"/flood/{word}/{start + n:0200}") for n in range(_CHUNK_FRAMES))
    )


def refused_topics(url: str, until: Until) -> None:
    """Each message bears a topic that nobody may publish to."""
    _flood(url, until, lambda start: b"".join(_message(f"$hub/{start + n:0200}") for n in range(_CHUNK_FRAMES)))


def unserved_requests(url: str, until: Until) -> None:
    """Each request is for a topic that nobody serves."""

    def chunk(start: int) -> bytes:
        numbers = range(start, start + _CHUNK_FRAMES)
        return b"".join(
            encode_frame(KIND_REQUEST, n.to_bytes(4) + bytes(4) + _PADDING, key=f"/nobody/{n:0150}".encode())
            for n in numbers
        )

    _flood(url, until, chunk)


def pings(url: str, until: Until) -> None:
    """Sixteen clients ask for nothing but answers, and never read them."""
    lines = [Line(url) for _ in range(16)]
    data = encode_frame(Kind.PING, bytes(128)) * _CHUNK_FRAMES
    while not until():
        for line in lines:
            try:
                line.socket.send(data)
            except OSError:
                continue
        time.sleep(0.001)


def copies_for_many(url: str, until: Until) -> None:
    """A publisher sends 4 KiB messages as quickly as it can, and a hundred subscribers read them all."""
    readers = [Line(url) for _ in range(_READERS)]
    for reader in readers:
        reader.subscribe(["/copies/"])
    publisher = Line(url)
    data = publisher.messages("/copies/x", b"\xc5\x10\x00" + bytes(4096), 64)
    while not until():
        if not publisher.send(data):
            publisher = Line(url)
        for reader in readers:
            reader.drain()


def _message(topic: str) -> bytes:
    return encode_frame(Kind.MESSAGES, _PADDING, key=topic.encode())
