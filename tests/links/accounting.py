"""The end of a test with losses: all that was published was received, or is counted where it was lost.

What was overtaken on its way to a hub is told to those who have subscribed to it there, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.links.ledger import Ledger
from tests.links.load import Load
from tests.links.reader import Reader
from tests.links.shapes import Shape

__all__ = ["account_for_all"]


async def account_for_all(shape: Shape, load: Load, readers: Sequence[Reader], ledger: Ledger) -> None:
    """End the load, let hubs settle, and compare: for each hub and each that publishes, and in the hubs' counters.

    Args:
        shape: The hubs.
        load: What publishes at each of them.
        readers: One at each hub, in their order, that wants all of it.
        ledger: Of these hubs.
    """
    await load.stop()
    await shape.settled()
    await load.publish(1)
    for reader in readers:
        for publisher, last in enumerate(load.published):
            await reader.reach(f"/from/{publisher}", last - 1)
    for number, reader in enumerate(readers):
        await reader.miss(ledger.refused(number, "overtaken"))
        await reader.stop()
    ledger.check_counters()
    assert not ledger.uncounted(), ledger.uncounted()
    fates = ledger.fates()
    for wanting, reader in enumerate(readers):
        for publisher, published in enumerate(load.published):
            received = len(reader.seen[f"/from/{publisher}"]) - 1
            assert published == received + sum(fates.get((publisher, wanting), {}).values())
