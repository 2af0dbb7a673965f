"""What of the project's own objects only the garbage collector can free, and what it need not walk over."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

__all__ = ["leaves_nothing", "left_for_the_collector", "set_aside"]


@contextmanager
def left_for_the_collector() -> Iterator[list[str]]:
    """Yield a list that, at the end of the block, names the types of objects that it has left behind in circles."""
    found: list[str] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = [type(one) for one in gc.garbage]
        found += sorted(kind.__qualname__ for kind in kinds if kind.__module__.startswith(("hub.", "peers.")))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def leaves_nothing(act: Callable[[], Awaitable[None]]) -> None:
    """Do something twice: the second time leaves nothing that only the collector can free."""
    await act()
    with left_for_the_collector() as left:
        await act()
    assert left == []


def set_aside() -> None:
    """Have the collector walk over nothing that is alive now.

    All that pytest has collected stays to the end of a run: a walk over it takes a third of a second, and some tests
    ask for several.
    """
    gc.collect()
    gc.freeze()
