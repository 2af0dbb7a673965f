"""The end of a test with losses: all that was published was received, or is counted where it was lost."""

from __future__ import annotations

from collections.abc import Sequence

from tests.links.ledger import Ledger
from tests.links.load import Load
from tests.links.reader import Reader
from tests.links.shapes import Shape

__all__ = ["account_for_all"]


async def account_for_all(shape: Shape, load: Load, readers: Sequence[Reader], ledger: Ledger) -> None:
    """End the load, let hubs settle, and compare: for each hub and each that publishes, and in the hubs' counters."""
    await load.stop()
    await shape.settled()
    await load.publish(1)
    for reader in readers:
        for publisher, last in enumerate(load.published):
            await reader.reach(f"/from/{publisher}", last - 1)
        await reader.stop()
    ledger.check_counters()
    assert ledger.uncounted() == []
    assert ledger.miscounted() == []
    fates = ledger.fates()
    for wanting, reader in enumerate(readers):
        for publisher, published in enumerate(load.published):
            received = len(reader.seen[f"/from/{publisher}"]) - 1
            assert published == received + sum(fates.get((publisher, wanting), {}).values())
