"""`Keeper`: where the entries of a store are when the hub is not running; `InMemory` is nowhere.

A master applies commands first, and hands their changes to its keeper; it tells nobody of a change, and confirms no
command, before the keeper says that they are kept. (Reads at the master may see them before.) Whatever else is made of
what the store holds, and outlives the hub elsewhere, waits for the same word: to keep no changes is to wait for those
before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from hub.errors import HubError
from hub.stores.change import Change
from hub.stores.store import Store

__all__ = ["NO_NOTES", "InMemory", "Keeper", "Notes", "Then"]

Then: TypeAlias = Callable[[HubError | None], object]
"""Called in a turn of the loop once changes are kept, or with the reason why they are not yet. In that case the master
answers that the outcome is unknown, and goes on with entries that are not kept; the keeper tries again."""

Notes: TypeAlias = Mapping[str, bytes | None]
"""What those who serve a store elsewhere must know of it after a restart, by a name; None takes a note away."""

NO_NOTES: Final[Notes] = MappingProxyType({})


class Keeper(Protocol):
    """Keeps the changes of one store."""

    @property
    def failures_total(self) -> int:
        """How often changes could not be kept."""

    @property
    def notes(self) -> Mapping[str, bytes] | None:
        """The notes as they were kept when the store was loaded; None if none are kept over a restart."""

    @property
    def is_certain(self) -> bool:
        """Whether all that anybody was ever told of the store was in it when it was opened."""

    def open(self, name: str) -> tuple[int, int]:
        """Get ready; return epoch and number of the store, see `hub.stores.store.Store`.

        Raises:
            StorageError: What was kept cannot be used.
        """

    def load(self, store: Store) -> None:
        """Put what was kept into a store that is empty (`Store.restore`); called once, behind `open`."""

    def keep(self, changes: Sequence[Change], then: Then, notes: Notes = NO_NOTES) -> None:
        """Keep changes, behind all those that came before, and call `then`: at once, or in a later turn.

        Calls of `then` are in the order of `keep`. Changes of one call are kept together or not at all, and so are
        they and their notes. Where there is neither, `then` is called once all that came before is kept, also what
        could not be kept at first.
        """

    async def close(self) -> None:
        """Keep what was handed over, tell it, and let go of all."""


class InMemory:
    """Keeps nothing.

    Args:
        now_us: The time, µs since 1970. A store in memory begins with it as epoch and number: so no version of one
            that was there before comes again, as long as it has fewer than a million changes a second.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us

    @property
    def failures_total(self) -> int:
        """None: there is nothing that could fail."""
        return 0

    @property
    def notes(self) -> None:
        """None: they would be forgotten."""
        return

    @property
    def is_certain(self) -> bool:
        """It is not: it has forgotten all."""
        return False

    def open(self, _: str) -> tuple[int, int]:
        """Begin anew."""
        now_us = self._now_us()
        return now_us, now_us

    def load(self, store: Store) -> None:
        """Do nothing: there is nothing."""

    def keep(self, _: Sequence[Change], then: Then, __: Notes = NO_NOTES) -> None:
        """Say that all is well."""
        then(None)

    async def close(self) -> None:
        """Do nothing."""
