"""`History`: a journal as who reads it sees it: what is here, and before that what is in its tier.

```
offset   0 ............................. 70 ....................... 95 .......... 100
tier     [file][file][file][file]  ...   [file][file][file]
here                                     [segment][segment][segment][newest]
reads    from the tier ────────────────▶ from here ─────────────────────────────▶
```

What is here is read here, so that what is new never waits for the tier. Where both have something, it is the same.

Owner: one thread or process. Invariants: as those of `peers.journal.view`; nobody can tell where a piece comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hub.errors import GoneError
from hub.journal.wanted import Wanted
from peers.journal.view import Extent, Fetched, View

if TYPE_CHECKING:
    from peers.journal.tier.tier_view import TierView

__all__ = ["History"]


class History:
    """A journal and its tier, open for reading.

    Args:
        path: Path of the journal.
        tier: Where its tier stands; empty if it has none.

    Raises:
        JournalCorruptError: It is no journal, or damaged.
        JournalUnavailableError: There is none, or it cannot be read.
        UsageError: The tier's address is none, or what it needs is not installed.
    """

    def __init__(self, path: str, tier: str = "") -> None:
        self._view = View(path)
        self._tier = _tier_view(tier, self._view.id) if tier else None

    def close(self) -> None:
        """Close the files."""
        self._view.close()

    def fetch(  # noqa: PLR0913 -- what one answer depends on
        self,
        start: int,
        end: int | None,
        prefixes: tuple[str, ...],
        limit_bytes: int,
        *,
        time_us: int | None = None,
        may_read: Callable[[str], bool] | None = None,
    ) -> Fetched:
        """Read from `start` on: as `peers.journal.view.View.fetch`."""
        view = self._view
        if self._tier is None:
            return view.fetch(start, end, prefixes, limit_bytes, time_us=time_us, may_read=may_read)
        if time_us is not None:
            start = self._offset_at(self._tier, time_us)
        try:
            found = view.fetch(start, end, prefixes, limit_bytes, may_read=may_read)
        except GoneError:
            if start >= view.extent.first:
                raise
            with self._tier.attempt():
                return self._from_tier(self._tier, start, end, Wanted(prefixes, may_read), limit_bytes)
        if not limit_bytes:
            self._tier.look()  # who asks for nothing asks how far it reaches
        return found._replace(extent=self._extent(self._tier))

    def _extent(self, tier: TierView) -> Extent:
        """Return how far it reaches, as far as is known."""
        first, following = self._view.extent
        return Extent(first if tier.first is None else min(first, tier.first), following)

    def _offset_at(self, tier: TierView, time_us: int) -> int:
        """Return the offset of the first record that is not older; the end if all are."""
        here = self._view.offset_at(time_us)
        if here > self._view.extent.first:
            return here
        with tier.attempt():
            there = tier.offset_at(time_us)
        return here if there is None else min(here, there)

    def _from_tier(self, tier: TierView, start: int, end: int | None, wanted: Wanted, limit_bytes: int) -> Fetched:
        """Read what is not here any more.

        Raises:
            GoneError: It is not there either.
        """
        if not tier.holds(start):
            raise self._gone(tier, start)
        blocks: list[bytes] = []
        following = self._view.extent.next
        end = following if end is None else min(end, following)
        position = start
        if not limit_bytes:
            tier.look()
        elif start < end:
            try:
                position = tier.fetch(blocks, start, end, wanted, limit_bytes)
            except GoneError as error:
                raise self._gone(tier, start) from error
        return Fetched(start, position, self._extent(tier), blocks)

    def _gone(self, tier: TierView, start: int) -> GoneError:
        here = self._view.extent.first
        first = min(here, tier.following(start) or here)
        return GoneError(f"offset {start} was deleted; the oldest that is kept from there on is {first}", first)


def _tier_view(address: str, journal: bytes) -> TierView:
    """Return the tier of a journal. What it needs is loaded only now: it is an extra, and takes 0.3 s and 60 MiB."""
    from peers.journal.tier.place import HASTY, check_installed, place_at  # noqa: PLC0415 -- as said

    check_installed()
    from peers.journal.tier.tier_view import TierView  # noqa: PLC0415 -- the same

    return TierView(place_at(address, HASTY), journal)
