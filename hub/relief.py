"""`relieve`: what is dropped when there is too little memory.

What the routes remember goes first, if it is worth it: it can be found again. Then topics that are counted, likewise,
the quietest of them, but for some: nobody loses more by that than a rate that is shown. Then messages that wait for
slow handlers go, by the policy of each, and those with the largest queues pay: all queues that are larger than the
largest that can stay are cut to that size. The queues of one user are one queue in this: so a thousand small ones of
his go before a large one of somebody else. Nothing else is dropped.

No state. Cost: one sort of all handlers, and what is dropped; it happens once for each sixteenth of the budget
(`hub.memory`).
"""

from __future__ import annotations

from hub.handler import Handler
from hub.quotas.quotas import Share
from hub.routes import Routes
from hub.topic_rates import TopicRates

__all__ = ["relieve"]

_WORTH_CLEARING = 8
"""Routes, and counted topics, are forgotten if they make up at least one of so many parts of what is wanted."""


def relieve(routes: Routes, topic_rates: TopicRates, handlers: dict[int, Handler], wanted_bytes: int) -> int:
    """Free memory, and return how many bytes were freed.

    Args:
        routes: What is remembered of them can go.
        topic_rates: Its counters can go, but for those of the busiest topics.
        handlers: By number; what waits for them can go. Some may leave within.
        wanted_bytes: How much should be freed.
    """
    freed = 0
    if routes.size_bytes > wanted_bytes // _WORTH_CLEARING:
        freed = routes.size_bytes
        routes.clear()
    if freed < wanted_bytes and topic_rates.size_bytes > wanted_bytes // _WORTH_CLEARING:
        freed += topic_rates.forget()
    of_users: dict[Share | Handler, list[tuple[int, int]]] = {}
    for handler in handlers.values():
        size = handler.droppable_bytes
        if size:
            of_users.setdefault(handler.share or handler, []).append((size, handler.id))
    sums = sorted(((sum(size for size, _ in queues), queues) for queues in of_users.values()), reverse=True)
    level = _level([together for together, _ in sums], wanted_bytes - freed)
    for together, queues in sums:
        if together <= level:
            break
        freed += _cut(handlers, queues, together - level)
    return freed


def _cut(handlers: dict[int, Handler], queues: list[tuple[int, int]], surplus: int) -> int:
    """Drop so much of the largest queues of one user, all of them down to one size; return how much that was.

    Args:
        handlers: By number. Some may leave within.
        queues: Sizes, with the numbers of their handlers.
        surplus: At most the sum of the sizes.
    """
    freed = 0
    queues.sort(reverse=True)
    level = _level([size for size, _ in queues], surplus)
    for size, number in queues:
        if size <= level:
            break
        handler = handlers.get(number)  # closing one may have made others leave
        if handler is not None:
            freed += handler.drop(size - level)
    return freed


def _level(sizes: list[int], surplus: int) -> int:
    """Return the size to which the largest ones are cut so that all together shrink by the surplus.

    Args:
        sizes: Descending.
        surplus: May be more than their sum, then nothing is left of them; or less than 0.
    """
    together = 0
    for place, size in enumerate(sizes, 1):
        together += size
        following = sizes[place] if place < len(sizes) else 0
        if together - place * following >= surplus:
            return max(0, (together - surplus) // place)
    return 0
