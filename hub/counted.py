"""What a handler holds several times over and must give back as often: prefixes, rules, served prefixes.

A plain dict holds it: item → how often. Both functions yield an item as soon as it is counted, and count the next when
they are asked for it, so that whoever iterates does what follows from each in between.

Owner of the dict: the caller. Cost: O(1) an item.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import TypeVar

from hub.errors import CloseCode, RejectedError

__all__ = ["check_limit", "give_back", "take"]

K = TypeVar("K", bound=Hashable)


def check_limit(held: dict[K, int], wanted: Collection[K], limit: int, what: str) -> None:
    """See to it that a client does not hold too many different items.

    Args:
        held: What it holds.
        wanted: What it wants beside that.
        limit: Most different ones.
        what: What they are, for people, such as "prefixes".

    Raises:
        RejectedError: It would.
    """
    if len(held) + len(wanted) > limit:
        total = len(held.keys() | set(wanted))
        if total > limit:
            raise RejectedError(CloseCode.NOT_ALLOWED, f"{total} {what}, the limit for a client is {limit}")


def take(held: dict[K, int], wanted: Iterable[K]) -> Iterator[K]:
    """Count each item once more; yield those that are new."""
    for item in wanted:
        count = held.get(item, 0)
        held[item] = count + 1
        if not count:
            yield item


def give_back(held: dict[K, int], items: Iterable[K]) -> Iterator[K]:
    """Count each item once less; yield those that are gone. What is not held is passed over."""
    for item in items:
        count = held.get(item, 0)
        if count > 1:
            held[item] = count - 1
        elif count:
            del held[item]
            yield item
