"""`History`: a journal with its tier.

```
offset   0 ............................. 70 ....................... 95 .......... 100
tier     [file][file][file][file]  ...   [file][file][file]
here                                     [segment][segment][segment][newest]
reads    from the tier ────────────────▶ from here ─────────────────────────────▶
```

New records never wait for the tier, which is opened when a record is wanted that is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hub.errors import GoneError
from hub.journal.selection import Selection
from peers.journal.tier.place import HASTY, Patience, check_address, check_installed, place_at
from peers.journal.view import Damage, Extent, Fetched, View

if TYPE_CHECKING:
    from hub.journal.manifest import Entry
    from peers.journal.tier.tier_view import TierView


class History:
    """A journal and its tier, open for reading. Raises as `View`, and `UsageError` for an invalid address of a tier."""

    def __init__(self, path: str, tier: str = "", patience: Patience = HASTY) -> None:
        check_address(tier)
        self.view = View(path)
        self.address = tier
        self._patience = patience
        self._tier: TierView | None = None

    @property
    def tier(self) -> TierView:
        """The tier. Its packages are an extra and take 0.3 s and 60 MiB, so they are loaded only now."""
        if self._tier is None:
            check_installed()
            from peers.journal.tier.tier_view import TierView  # noqa: PLC0415 -- as said

            self._tier = TierView(place_at(self.address, self._patience), self.view.id)
        return self._tier

    def close(self) -> None:
        self.view.close()

    def refresh(self) -> None:
        self.view.refresh()

    @property
    def extent(self) -> Extent:
        """The range of offsets of journal and tier."""
        if not self.address or not self.view.extent.first:
            return self.view.extent
        self.tier.look()
        return self._known_extent()

    def files(self) -> Iterator[Entry]:
        first = self.view.extent.first
        if self.address and first:
            yield from self.tier.entries(first)

    def offset_at(self, time_us: int) -> int:
        here = self.view.offset_at(time_us)
        if not self.address or not self.view.extent.first or here > self.view.extent.first:
            return here
        with self.tier.attempt():
            there = self.tier.offset_at(time_us)
        return here if there is None else min(here, there)

    def damage_at(self, position: int) -> Damage | None:
        if not self.address or position >= self.view.extent.first:
            return self.view.damage_at(position)
        with self.tier.attempt():
            damage = self.tier.damage_at(position)
        if damage is None or damage.next is not None:
            return damage
        return damage._replace(next=self.view.extent.first)  # the manifest is damaged: so far, nothing is known

    def fetch(  # noqa: PLR0913 -- as `View.fetch`
        self,
        start: int,
        end: int | None,
        prefixes: tuple[str, ...],
        limit_bytes: int,
        *,
        time_us: int | None = None,
        may_read: Callable[[str], bool] | None = None,
    ) -> Fetched:
        view = self.view
        if not self.address:
            return view.fetch(start, end, prefixes, limit_bytes, time_us=time_us, may_read=may_read)
        if time_us is not None:
            start = self.offset_at(time_us)
        try:
            found = view.fetch(start, end, prefixes, limit_bytes, may_read=may_read)
        except GoneError:
            if start >= view.extent.first:
                raise
            with self.tier.attempt():
                return self._from_tier(self.tier, start, end, Selection(prefixes, may_read), limit_bytes)
        # A FETCH of no bytes asks for the extent.
        return found._replace(extent=self._known_extent() if limit_bytes else self.extent)

    def _known_extent(self) -> Extent:
        first, following = self.view.extent
        there = None if self._tier is None else self._tier.files.first
        return Extent(first if there is None else min(first, there), following)

    def _from_tier(self, tier: TierView, start: int, end: int | None, wanted: Selection, limit_bytes: int) -> Fetched:
        if not tier.holds(start):
            raise self._gone(tier, start)
        blocks: list[bytes] = []
        following = self.view.extent.next
        end = following if end is None else min(end, following)
        position = start
        if not limit_bytes:
            tier.look()
        elif start < end:
            try:
                position = tier.fetch(blocks, start, end, wanted, limit_bytes)
            except GoneError as error:
                raise self._gone(tier, start) from error
        return Fetched(start, position, self._known_extent(), blocks)

    def _gone(self, tier: TierView, start: int) -> GoneError:
        here = self.view.extent.first
        first = min(here, tier.files.following(start) or here)
        return GoneError(f"offset {start} was deleted; the oldest that is kept from there on is {first}", first)
