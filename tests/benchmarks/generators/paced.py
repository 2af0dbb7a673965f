"""`pace`: messages one by one, each due at a time of its own, each a write of its own; how long does each take?

One process spins: it sends what is due and looks for what has come, so that neither its sleeping nor its waking is in
the figures, only the broker's. Times are counted from when a message was *due*, not from when it was sent: if sending
was late, the wait is measured whole (no coordinated omission). How late it was is told beside it.

Cost: one core, whole. Owner: the process.
"""

from __future__ import annotations

import select
import socket
import time
from array import array
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from generators.receiver import Receiver, WrongBytesError
from generators.stream import Stream

__all__ = ["Pace", "pace"]

SILENCE_LIMIT_NS = 10_000_000_000


class Pace(NamedTuple):
    """What one phase has measured, ns."""

    delivered: int
    wall_s: float
    latencies_ns: list[int]
    """The times from when a message was due until it was read, sorted."""
    late_ns: list[int]
    """The times from when it was due until it was about to be sent, sorted: the generator's own part."""


def pace(
    connection: socket.socket,
    stream: Stream,
    receiver: Receiver,
    messages: int,
    interval_ns: int,
    *,
    bystanders: Mapping[int, socket.socket],
) -> Pace:
    """Send `messages`, one every `interval_ns`, and receive them.

    Args:
        connection: The publisher's, not blocking.
        stream: Cut into chunks of one message.
        receiver: The one that gets them; it has got all that were sent before.
        messages: How many.
        interval_ns: Between two.
        bystanders: By descriptor, connections that get nothing but pings.

    Raises:
        WrongBytesError: Something was lost, repeated, exchanged or damaged.
        ConnectionError: The broker has closed a connection.
    """
    poll = select.epoll()
    awaited = receiver.socket.fileno()
    others = {connection.fileno(): connection, **bystanders}
    for descriptor in (awaited, *others):
        poll.register(descriptor, select.EPOLLIN)
    clock = time.perf_counter_ns
    wait, send, receive = poll.poll, connection.send, receiver.receive
    chunks = stream.chunks
    period = len(chunks)
    first = receiver.messages(0)
    due_ns = array("q", bytes(8 * messages))
    late_ns = array("q", bytes(8 * messages))
    latencies_ns = array("q", bytes(8 * messages))
    sent = got = 0
    start_ns = heard_ns = clock()
    next_ns = start_ns + interval_ns
    try:
        while got < messages:
            now_ns = clock()
            if sent < messages and now_ns >= next_ns:
                chunk = chunks[(first + sent) % period]
                due_ns[sent] = next_ns
                late_ns[sent] = now_ns - next_ns
                if send(chunk) != len(chunk):
                    raise ConnectionError("the broker does not read: a single message could not be written")
                sent += 1
                next_ns += interval_ns
            for descriptor, _ in wait(0):
                if descriptor != awaited:
                    _discard(others[descriptor])
                    continue
                receive()
                now_ns = heard_ns = clock()
                come = receiver.messages(0) - first
                if come > sent:
                    raise WrongBytesError("more messages came than were published")
                while got < come:
                    latencies_ns[got] = now_ns - due_ns[got]
                    got += 1
            if now_ns - heard_ns > SILENCE_LIMIT_NS:
                raise WrongBytesError(f"silence: {sent - got:,} of {sent:,} messages have not come")
    finally:
        poll.close()
    wall_s = (clock() - start_ns) / 1e9
    return Pace(messages, wall_s, sorted(latencies_ns), sorted(late_ns))


def _discard(connection: socket.socket) -> None:
    """Read what the broker says to those who expect nothing: pings, mostly, and tickets of TLS."""
    with suppress(BlockingIOError):
        if connection.recv(65536):
            return
        raise ConnectionError("the broker closed a connection")
