"""`Allowance`: how many prefixes, rules or served prefixes one handler may hold.

A plain dict of the caller holds them: item → how often. Memory, and the handler's user, are charged once for each item.
Many items are taken in steps, but charged to the user before the first: so a thousand connections of one user that each
want a thousand cannot all find room before one of them has taken any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Generic, TypeVar

from hub.errors import CloseCode, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.quotas import Resource
from hub.scheduling.memory import Memory

K = TypeVar("K", bound=Hashable)

# Memory of an item beside its text: 200 a prefix, 400 a served one, 600 a rule, measured over 50,000 of each
_BESIDE_TEXT_BYTES = 400

# A user is charged one more for each so many characters of an item, so that memory is bounded, too
_CHARACTERS_PER_UNIT = 256

_TEXTS = 2  # How often the text of an item is kept: as it was asked for, and in the index


class Allowance(Generic[K]):
    """How many different items of one kind a handler may hold; subscribers in this process may hold any number."""

    def __init__(  # noqa: PLR0913, PLR0917 -- all that is known of one kind
        self,
        what: str,
        resource: Resource,
        per_client: int,
        per_leaf: int,
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
            Role.LEAF: (per_leaf, "a peer"),
        }
        # How many items were refused so far; those of one frame are refused together.
        self.refused_total = 0

    def taking(self, handler: Handler, held: dict[K, int], wanted: Collection[K]) -> Iterator[K]:
        """Let a handler hold the wanted items beside `held`, all or none, in steps; new ones are yielded.

        The rest is not taken where the caller stops.

        Raises:
            RejectedError: With the first step: too many of the handler or of its user, or too little memory.
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
        """Charge a handler's user for items new to the handler; return the units."""
        if handler.share is None:  # nothing is charged
            return 0
        fresh = {item for item in wanted if item not in held}  # a difference of sets would walk over all that is held
        units = sum(map(self._units, fresh))
        handler.share[self._resource].require(units)
        return units

    def _charge(self, handler: Handler, units: int) -> None:
        if handler.share is None or not units:
            return
        usage = handler.share[self._resource]
        if units > 0:
            usage.add(units)
        else:
            usage.give_back(-units)

    def check(self, handler: Handler, held: dict[K, int], wanted: Collection[K]) -> None:
        """Check that a handler would not hold too many different items; `taking` does so itself.

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
        """Count an item once less; return whether it is gone. Items that are not held are passed over."""
        is_gone = give_back(held, item)
        if is_gone:
            self._account.charge(-self._size_bytes(item))
            self._charge(handler, -self._units(item))
        return is_gone

    def take_away(self, handler: Handler, held: dict[K, int], item: K) -> bool:
        """Remove an item, however often it is held; return whether it was."""
        if item not in held:
            return False
        held[item] = 1
        return self.give_back(handler, held, item)

    def give_back_any(self, handler: Handler, held: dict[K, int]) -> K:
        """Remove some item, however often it is held, as its handler has left; return it."""
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
    """Lower the count of an item by one; return whether it is gone. Items that are not held are passed over."""
    count = held.get(item, 0)
    if count > 1:
        held[item] = count - 1
    elif count:
        del held[item]
    return count == 1
