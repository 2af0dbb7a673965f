"""`Flood`: full speed, one process, one loop: publishers write while their windows have room, receivers read and check.

One process does both, so the lag is bounded exactly and without a word between processes: a publisher knows what the
slowest receiver has. No broker sees more than a window of unread messages, so none has a reason to drop or disconnect.

Owner: the process. Cost: two system calls a chunk of 64 KiB and one wait, for each connection that has something to do.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import NamedTuple

from generators.publisher import Publisher
from generators.receiver import Receiver, WrongBytesError

__all__ = ["Flood", "Flow"]

SILENCE_LIMIT_S = 10.0
"""When nothing has come for so long, what is missing is lost."""

_STRAY_S = 0.02
"""For so long after the last message, more than was published may come, which is an error."""


class Flow(NamedTuple):
    """What one phase has moved."""

    published: int
    delivered: int
    wall_s: float


class Flood:
    """Publishers and receivers at full speed.

    Args:
        publishers: Each has its window.
        receivers: Each gets the messages of all publishers, or an equal share of them.
        shares: 1, or so many receivers that each gets every so manieth message, in turn.
    """

    def __init__(self, publishers: Sequence[Publisher], receivers: Sequence[Receiver], shares: int = 1) -> None:
        self._publishers = publishers
        self._receivers = {receiver.socket.fileno(): receiver for receiver in receivers}
        self._by_descriptor = {publisher.connection.fileno(): publisher for publisher in publishers}
        self._shares = shares
        self._only = receivers[0] if len(receivers) == 1 else None
        self._poll = select.epoll()
        for descriptor in (*self._receivers, *self._by_descriptor):
            self._poll.register(descriptor, select.EPOLLIN)

    def run(self, duration_s: float) -> Flow:
        """Publish for a while, then wait until everything has come.

        Raises:
            WrongBytesError: Something was lost, repeated, exchanged or damaged.
            ConnectionError: The broker has closed a connection.
        """
        begun = sum(publisher.begun_messages for publisher in self._publishers)
        start_s = now_s = heard_s = time.perf_counter()
        while True:
            publishing = now_s - start_s < duration_s
            busy = self._publish(publishing=publishing)
            if not publishing and self._complete():
                break
            events = self._poll.poll(0 if busy else 1.0)
            now_s = time.perf_counter()
            if self._take(events) or busy:
                heard_s = now_s
            elif now_s - heard_s > SILENCE_LIMIT_S:
                raise WrongBytesError(f"silence for {SILENCE_LIMIT_S:.0f} s: {self._missing()}")
        wall_s = time.perf_counter() - start_s
        self._refuse_strays()
        published = sum(publisher.begun_messages for publisher in self._publishers) - begun
        return Flow(published, published * len(self._receivers) // self._shares, wall_s)

    def _publish(self, *, publishing: bool) -> bool:
        """Let every publisher write once, if it may; return whether one could write on at once."""
        busy = False
        for number, publisher in enumerate(self._publishers):
            if not publisher.unfinished:
                if not publishing or not publisher.may_begin(self._received(number)):
                    continue
                publisher.begin()
            elif not publisher.writable:
                continue
            publisher.send()
            if publisher.writable:
                busy = True
            else:
                self._poll.modify(publisher.connection, select.EPOLLIN | select.EPOLLOUT)
        return busy

    def _take(self, events: list[tuple[int, int]]) -> bool:
        """Act on what the wait has brought; return whether it was anything."""
        receivers = self._receivers
        for descriptor, event in events:
            receiver = receivers.get(descriptor)
            if receiver is not None:
                receiver.receive()
                continue
            publisher = self._by_descriptor[descriptor]
            if event & select.EPOLLOUT:
                publisher.writable = True
                self._poll.modify(descriptor, select.EPOLLIN)
            if event & ~select.EPOLLOUT:
                publisher.discard_incoming()
        return bool(events)

    def _received(self, publisher: int) -> int:
        """Return how many of this publisher's messages everybody has who gets them."""
        if self._only is not None:
            return self._only.messages(publisher)
        return min(receiver.messages(publisher) for receiver in self._receivers.values()) * self._shares

    def _complete(self) -> bool:
        return all(
            not publisher.unfinished and self._received(number) >= publisher.begun_messages
            for number, publisher in enumerate(self._publishers)
        )

    def _missing(self) -> str:
        for number, publisher in enumerate(self._publishers):
            for receiver in self._receivers.values():
                missing = publisher.begun_messages // self._shares - receiver.messages(number)
                if missing > 0:
                    return f"{missing:,} of {publisher.begun_messages:,} messages of a publisher have not come"
        return "a publisher cannot write"

    def _refuse_strays(self) -> None:
        """See to it that nothing comes that was not published."""
        received = self._totals()
        self._take(self._poll.poll(_STRAY_S))
        if self._totals() != received:
            raise WrongBytesError("more messages came than were published")

    def _totals(self) -> list[int]:
        publishers = range(len(self._publishers))
        return [receiver.messages(number) for receiver in self._receivers.values() for number in publishers]
