"""`undisturbed`: nothing is collected while something large is made.

A policy of 100,000 rules is 300,000 objects, over which the collector would walk again and again while they are made:
half a second in all, up to 120 ms at once, in which nothing else runs, whichever thread makes them.

Owner: the process, as the collector is: not for hubs inside other programs. Invariant: the collector goes on when the
last of those blocks is left that overlap, as those of a reload and of a policy that is tried may. They are entered and
left in the event loop. Not here: what is collected otherwise, and when (`peers.daemon.memory`).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_entered = [0]
"""How many blocks are under way."""


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Collect nothing while the block makes something large, in whichever thread; freeze what is there then.

    Of what others make meanwhile, cycles stay until everything is walked over.
    """
    _entered[0] += 1
    gc.disable()
    try:
        yield
    finally:
        _entered[0] -= 1
        if not _entered[0]:
            gc.freeze()
            gc.enable()
