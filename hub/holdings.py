"""What a handler holds several times over and must give back as often: prefixes, rules, served prefixes.

A plain dict holds it: item → how often. `take` and `give_back` count one item, and say whether something follows from
that: whether it is held for the first time, or no more.

`Allowance` says how many different items one handler may hold, and charges memory, and the handler's user, for each of
them. What is wanted in one go is taken in steps, but charged to the user before the first: so that a thousand
connections of one user that each want a thousand cannot all find room before one of them has taken any.

Owner of the dict: the caller. Invariant: an account, and the user, are charged once for each item of each dict that
belongs to an allowance. Cost: O(1) an item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Generic, TypeVar

from hub.delivery import Role
from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.memory import Memory
from hub.quotas.resource import Resource

__all__ = ["Allowance", "give_back", "take"]

K = TypeVar("K", bound=Hashable)

_BESIDE_TEXT_BYTES = 400
"""What an item takes beside its text: 200 a prefix, 400 a served one, 600 a rule, measured over 50,000 of each."""

_CHARACTERS_PER_UNIT = 256
"""A user is charged one for an item, and one more for each so many characters of it: so what he can hold is known in
memory, too, less than 1 KiB each."""

_TEXTS = 2
"""How often the text of an item is kept: once as it was asked for, and once in the index."""


class Allowance(Generic[K]):
    """How many different items of one kind a handler may hold; subscribers in this process may hold any number.

    Args:
        what: What the items are, for people, such as "prefixes".
        resource: What users are charged for them.
        per_client: Most items of a client.
        per_peer: Most items of a peer hub, or of an endpoint of a foreign network.
        memory: Must have room for them.
        characters: Tells how much text an item has.
    """

    __slots__ = ("_account", "_characters", "_limits", "_memory", "_resource", "_what", "refused_total")

    def __init__(  # noqa: PLR0913, PLR0917 -- all that is known of one kind
        self,
        what: str,
        resource: Resource,
        per_client: int,
        per_peer: int,
        memory: Memory,
        characters: Callable[[K], int],
    ) -> None:
        self._what = what
        self._resource = resource
        self._characters = characters
        self._memory = memory
        self._account = memory.account("subscriptions")
        self._limits = {
            Role.CLIENT: (per_client, "a client"),
            Role.LINK: (per_peer, "a peer"),
            Role.LEAF: (per_peer, "a peer"),
        }
        # How many items were refused so far; those of one frame are refused together.
        self.refused_total = 0

    def taking(self, handler: Handler, held: dict[K, int], wanted: Collection[K]) -> Iterator[K]:
        """Let a handler hold items, all or none, one with each step; those that are new to it are yielded.

        The rest is not taken where the caller stops.

        Args:
            handler: The one that wants them.
            held: The items that it holds; they are counted there.
            wanted: The items that it wants beside these.

        Raises:
            RejectedError: With the first step: there would be too many of the handler or of its user, or there is too
                little memory.
        """
        self.check(handler, held, wanted)
        reserved = self._reserve(handler, held, wanted)
        try:
            for item in wanted:
                if take(held, item):
                    self._account.charge(self._size_bytes(item))
                    units = self._units(item)
                    if units <= reserved:
                        reserved -= units
                    else:  # something was held when there was reserved, and was given back since
                        self._charge(handler, units)
                    yield item
        finally:
            self._charge(handler, -reserved)

    def _reserve(self, handler: Handler, held: dict[K, int], wanted: Collection[K]) -> int:
        """Charge a handler's user for what is new to the handler; return how much that is."""
        if handler.share is None:  # nothing is charged, whatever it is
            return 0
        fresh = {item for item in wanted if item not in held}  # a difference of sets would walk over all that is held
        units = sum(map(self._units, fresh))
        handler.share[self._resource].require(units)
        return units

    def _charge(self, handler: Handler, units: int) -> None:
        """Charge a handler's user for so much more, or less."""
        if handler.share is None or not units:
            return
        usage = handler.share[self._resource]
        if units > 0:
            usage.add(units)
        else:
            usage.give_back(-units)

    def check(self, handler: Handler, held: dict[K, int], wanted: Collection[K]) -> None:
        """See to it that a handler would not hold too many different items; `taking` does so itself.

        Raises:
            RejectedError: There would be too many, or there is too little memory.
        """
        role = handler.delivery.role
        if self._memory.is_over and role is not Role.LOCAL:
            raise self._memory.rejection()
        limit, whose = self._limits.get(role, (None, ""))
        if limit is None or len(held) + len(wanted) <= limit:
            return
        total = len(held.keys() | set(wanted))
        if total > limit:
            self.refused_total += len(wanted)
            raise RejectedError(CloseCode.NOT_ALLOWED, f"{total} {self._what}, the limit for {whose} is {limit}")

    def give_back(self, handler: Handler, held: dict[K, int], item: K) -> bool:
        """Count an item once less; return whether it is gone. What is not held is passed over."""
        is_gone = give_back(held, item)
        if is_gone:
            self._account.charge(-self._size_bytes(item))
            self._charge(handler, -self._units(item))
        return is_gone

    def take_away(self, handler: Handler, held: dict[K, int], item: K) -> bool:
        """Let go of an item, however often it is held; return whether it was."""
        if item not in held:
            return False
        held[item] = 1
        return self.give_back(handler, held, item)

    def give_back_any(self, handler: Handler, held: dict[K, int]) -> K:
        """Let go of some item, however often it is held, as its handler has left; return it."""
        item, _ = held.popitem()
        self._account.charge(-self._size_bytes(item))
        self._charge(handler, -self._units(item))
        return item

    def _units(self, item: K) -> int:
        return 1 + self._characters(item) // _CHARACTERS_PER_UNIT

    def _size_bytes(self, item: K) -> int:
        return _TEXTS * self._characters(item) + _BESIDE_TEXT_BYTES


def take(held: dict[K, int], item: K) -> bool:
    """Raise the count of an item by one; return whether it is new."""
    count = held.get(item, 0)
    held[item] = count + 1
    return not count


def give_back(held: dict[K, int], item: K) -> bool:
    """Lower the count of an item by one; return whether it is gone. What is not held is passed over."""
    count = held.get(item, 0)
    if count > 1:
        held[item] = count - 1
    elif count:
        del held[item]
    return count == 1
