"""What must hold of every message, told by somebody who sees all hubs at once.

Always:
* a subscriber gets no message twice, and those of one publisher in their order;
* a hub takes no message twice, and none of its own: no message goes around;
* a hub takes a message as of the hub and the epoch in which it entered;
* what a hub says that it has lost, it has not taken.

Once the network has been quiet for a while (`expect` says from when):
* every subscriber that wants a message gets it;
* a message crosses each link at most once, and only towards somebody who wants it: it is taken wherever it is sent.

Owner: one history. Cost: a dictionary look-up for each message, hub and subscriber.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.mesh_simulation.network import Message

__all__ = ["BrokenPromiseError", "Counts", "Truth"]


class BrokenPromiseError(AssertionError):
    """The mesh has done what it must not do."""


class Counts(NamedTuple):
    published: int
    taken: int
    refused: int
    lost: int
    """Of those refused: the hub knows that it has lost them."""
    delivered: int


class Truth:
    """Who has got what.

    Args:
        useless: Whether messages may go where nobody wants them: where hubs do not keep all that others want.
    """

    def __init__(self, *, useless: bool = False) -> None:
        self._may_be_useless = useless
        # (hub or subscriber, publisher) → number of the last message; numbers of a publisher grow.
        self._last: dict[tuple[Any, int], int] = {}
        # (hub, publisher) → numbers of all messages that it has taken from links.
        self._taken_numbers: dict[tuple[bytes, int], set[int]] = {}
        # What each subscriber must get; from `expect` until it gets it.
        self._expected: dict[Message, set[Any]] = {}
        self._is_quiet = False
        self._published = self._taken = self._refused = self._lost = self._delivered = 0

    def publish(self, message: Message, hub: bytes) -> None:
        self._published += 1
        self._last[hub, message.publisher] = message.number

    def take(self, hub: bytes, message: Message, origin: bytes, epoch: int) -> None:
        self._taken += 1
        if (origin, epoch) != (message.origin, message.epoch):
            raise BrokenPromiseError(f"{_short(hub)} takes {_told(message)} for one of {_short(origin)}, epoch {epoch}")
        if hub == message.origin:
            raise BrokenPromiseError(f"{_told(message)} went around and came back to its origin")
        self._in_order(hub, f"hub {_short(hub)}", message)
        self._taken_numbers.setdefault((hub, message.publisher), set()).add(message.number)

    def refuse(self, hub: bytes, message: Message, *, is_lost: bool) -> None:
        self._refused += 1
        if is_lost:
            self._lost += 1
            if message.number in self._taken_numbers.get((hub, message.publisher), ()):
                raise BrokenPromiseError(f"{_short(hub)} says that it has lost {_told(message)}, which it has taken")
        if self._is_quiet and message in self._expected:
            raise BrokenPromiseError(
                f"{_told(message)} was sent to {_short(hub)}, which refuses it, on a quiet network"
            )

    def deliver(self, subscriber: Any, message: Message) -> None:
        self._delivered += 1
        self._in_order(subscriber, f"subscriber {subscriber}", message)
        if message in self._expected:
            self._expected[message].discard(subscriber)

    def useless(self, hub: bytes, message: Message) -> None:
        if message in self._expected and not self._may_be_useless:
            raise BrokenPromiseError(f"{_told(message)} was sent to {_short(hub)}, where nobody wants it")

    def expect(self, message: Message, subscribers: Iterable[Any]) -> None:
        self._is_quiet = True
        self._expected[message] = set(subscribers)

    def check(self) -> None:
        """Ask that whatever was expected has come.

        Raises:
            BrokenPromiseError: Somebody has not got a message.
        """
        for message, subscribers in self._expected.items():
            if subscribers:
                some = ", ".join(str(each) for each in sorted(subscribers, key=str)[:5])
                raise BrokenPromiseError(f"{_told(message)} has not come to {len(subscribers)} subscribers: {some}")

    def forget_expected(self) -> None:
        self._expected.clear()
        self._is_quiet = False

    def counts(self) -> Counts:
        return Counts(self._published, self._taken, self._refused, self._lost, self._delivered)

    def _in_order(self, who: Any, name: str, message: Message) -> None:
        key = (who, message.publisher)
        last = self._last.get(key, -1)
        if message.number <= last:
            what = "once more" if message.number == last else f"after number {last}"
            raise BrokenPromiseError(f"{name} gets {_told(message)} {what}")
        self._last[key] = message.number


def _short(hub: bytes) -> str:
    return hub.hex()[:8]


def _told(message: Message) -> str:
    return (
        f"message {message.number} of publisher {message.publisher}, {message.topic},"
        f" of {_short(message.origin)}, epoch {message.epoch}"
    )
