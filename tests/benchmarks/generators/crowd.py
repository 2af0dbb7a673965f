"""Open all connections of a workload: the subscribers' with a receiver each, the bystanders', those that only exist.

Through WebSockets they are opened many at a time: mosquitto looks at new ones ten times a second only, so one after the
other would take minutes.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from workloads import Workload

from generators.channel import Channel
from generators.dialect import Dialect, Interest
from generators.interleaved import InterleavedReceiver
from generators.receiver import PlainReceiver, Receiver, WebSocketReceiver
from generators.traffic import Traffic

__all__ = ["open_bystanders", "open_channels", "open_receivers"]

_AT_ONCE = 128

T = TypeVar("T")


def open_receivers(workload: Workload, dialect: Dialect) -> list[Receiver]:
    """Connect and subscribe the subscribers."""
    traffic = Traffic(workload, dialect)
    streams = [
        [traffic.delivered(publisher, share) for publisher in range(workload.publishers)]
        for share in range(workload.shares)
    ]

    def open_one(number: int) -> Receiver:
        share = number % workload.shares
        channel = dialect.connect("subscriber")
        dialect.subscribe(channel, traffic.interests(share))
        connection = channel.release(listening=True)
        if workload.publishers > 1:
            return InterleavedReceiver(connection, streams[share], dialect)
        if workload.websocket:
            return WebSocketReceiver(connection, streams[share][0], dialect)
        return PlainReceiver(connection, streams[share][0], dialect)

    return _open_all(workload, open_one, workload.subscribers)


def open_bystanders(workload: Workload, dialect: Dialect) -> dict[int, socket.socket]:
    """Connect and subscribe those that get nothing; return their sockets by descriptor."""

    def open_one(number: int) -> socket.socket:
        channel = dialect.connect("subscriber")
        dialect.subscribe(channel, [Interest(("idle", f"{number:05}"))])
        return channel.release(listening=True)

    return {one.fileno(): one for one in _open_all(workload, open_one, workload.bystanders)}


def open_channels(workload: Workload, dialect: Dialect) -> list[Channel]:
    """Connect so many subscribers, and no more than that."""
    return _open_all(workload, lambda _: dialect.connect("subscriber"), workload.subscribers)


def _open_all(workload: Workload, open_one: Callable[[int], T], count: int) -> list[T]:
    if not workload.websocket:
        return [open_one(number) for number in range(count)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(open_one, range(count)))
