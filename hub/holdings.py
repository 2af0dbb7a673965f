"""What a handler holds several times over and must give back as often: prefixes, rules, served prefixes.

A plain dict holds it: item → how often. `take` and `give_back` count one item, and say whether something follows from
that: whether it is held for the first time, or no more.

`Allowance` says how many different items one handler may hold, and charges memory for each of them.

Owner of the dict: the caller. Invariant: an account is charged once for each item of each dict that belongs to an
allowance. Cost: O(1) an item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

from hub.delivery import Role
from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.memory import Memory

__all__ = ["Allowance", "give_back", "take"]

K = TypeVar("K", bound=Hashable)

_BESIDE_TEXT_BYTES = 400
"""What an item takes beside its text: 200 a prefix, 400 a served one, 600 a rule, measured over 50,000 of each."""

_TEXTS = 2
"""How often the text of an item is kept: once as it was asked for, and once in the index."""


class Allowance(Generic[K]):
    """How many different items of one kind a handler may hold; subscribers in this process may hold any number.

    Args:
        what: What the items are, for people, such as "prefixes".
        per_client: Most items of a client.
        per_peer: Most items of a peer hub, or of an endpoint of a foreign network.
        memory: Must have room for them.
        characters: Tells how much text an item has.
    """

    __slots__ = ("_account", "_characters", "_limits", "_memory", "_what", "refused_total")

    def __init__(
        self, what: str, per_client: int, per_peer: int, memory: Memory, characters: Callable[[K], int]
    ) -> None:
        self._what = what
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

    def check(self, handler: Handler, held: dict[K, int], wanted: Collection[K]) -> None:
        """See to it that a handler does not hold too many different items.

        Args:
            handler: The one that wants them.
            held: The items that it holds.
            wanted: The items that it wants beside these.

        Raises:
            RejectedError: It would, or there is too little memory.
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

    def take(self, held: dict[K, int], item: K) -> bool:
        """Count an item once more; return whether it is new."""
        is_new = take(held, item)
        if is_new:
            self._account.charge(self._size_bytes(item))
        return is_new

    def give_back(self, held: dict[K, int], item: K) -> bool:
        """Count an item once less; return whether it is gone. What is not held is passed over."""
        is_gone = give_back(held, item)
        if is_gone:
            self._account.charge(-self._size_bytes(item))
        return is_gone

    def give_back_any(self, held: dict[K, int]) -> K:
        """Let go of some item, however often it is held, as its handler has left; return it."""
        item, _ = held.popitem()
        self._account.charge(-self._size_bytes(item))
        return item

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
