"""`Stores`: the masters of a hub, by name.

Owner: the node. Cost: nothing where there is none. Not here: what one does (`peers.stores.master`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from hub.core import Core
from hub.errors import StorageError, UsageError
from hub.settings.ranges import FOREVER_S
from hub.settings.stores import StoresSettings
from hub.stores.limits import StoreLimits
from hub.stores.naming import parse_feed, parse_store
from hub.topics import RESERVED
from peers.stores.feeding import Feed
from peers.stores.keeper import InMemory, Keeper
from peers.stores.keeping.database import NoRoomError
from peers.stores.keeping.in_file import InFile
from peers.stores.master import Clock, Master

__all__ = ["MEMORY", "STORES_TOPIC", "Stores"]

MEMORY = ":memory:"
"""What stands in place of a file for a store that is kept nowhere."""

STORES_TOPIC = RESERVED + "stores"


_SECOND_NS = 1_000_000_000


class Stores:
    """All stores of one hub.

    Args:
        core: Of the hub.
        clock: The event loop.
        now_ns: The time, ns since 1970.
    """

    def __init__(self, core: Core, clock: Clock, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._core = core
        self._clock = clock
        self._now_ns = now_ns
        self._masters: dict[str, Master] = {}
        self._keepers: list[Keeper] = []
        self.feeds: list[Feed] = []
        """What some of them are fed by; to be read."""
        # Why they could not be opened, by name; of those for which there was no room.
        self._unserved: dict[str, str] = {}
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")
        core.requests.hub_services.add(STORES_TOPIC, lambda _handler, _value: self.listed())

    def __iter__(self) -> Iterator[Master]:
        return iter(self._masters.values())

    def __len__(self) -> int:
        return len(self._masters)

    def get(self, name: str) -> Master | None:
        """Return the master of a store that this hub has."""
        return self._masters.get(name)

    @property
    def trouble(self) -> str:
        """Why one of them is not open, for want of room; empty if all are open."""
        reason = next(iter(self._unserved.values()), "")
        return reason and f"{reason}; make room: it is tried again every few seconds"

    def open(self, settings: StoresSettings) -> None:
        """Open the stores that the settings name; again, to open those for which there was no room.

        Raises:
            UsageError, RejectedError: A name is none.
            StorageError: What was kept cannot be used.
        """
        limits = StoreLimits(
            settings.entries,
            settings.bytes,
            settings.user_entries,
            settings.user_bytes,
            settings.entry_bytes,
            settings.changes,
            settings.changes_bytes,
        )
        for name, path in map(parse_store, settings.open):
            if name not in self._masters:
                self._try(name, limits, self._keeper(path, full_sync=settings.sync == "full"))
        expires_s = settings.feed_expires_s
        expiry_ns = None if expires_s >= FOREVER_S else round(expires_s * _SECOND_NS)
        for name, prefix in map(parse_feed, settings.feeds):
            if name not in self._masters and name not in self._unserved:
                raise UsageError(f"there is no store {name!r} to be fed from {prefix!r}")
            if name in self._masters and (name, prefix) not in [(feed.store, feed.prefix) for feed in self.feeds]:
                self.feeds.append(Feed(self._core, self._masters[name], prefix, expiry_ns))

    def _try(self, name: str, limits: StoreLimits, keeper: Keeper) -> None:
        """Open one store; where there is no room for it, the hub carries live messages all the same.

        Raises:
            As `open`.
        """
        before = self._unserved.pop(name, "")
        try:
            self.add(name, limits, keeper)
        except StorageError as error:
            if not (isinstance(error, NoRoomError) or before):
                raise
            self._unserved[name] = reason = str(error)
            if reason != before:
                self._log.error("a store is not served", store=name, reason=reason)
        else:
            if before:
                self._log.info("a store is served now", store=name)

    def add(self, name: str, limits: StoreLimits, keeper: Keeper) -> Master:
        """Open one more store; `stop` closes its keeper.

        Raises:
            As `open`.
        """
        if name in self._masters:
            raise UsageError(f"there are two stores {name!r}")
        master = self._masters[name] = Master(self._core, self._clock, self._now_ns, name, limits, keeper)
        self._keepers.append(keeper)
        return master

    def _keeper(self, path: str, *, full_sync: bool) -> Keeper:
        if path == MEMORY:
            return InMemory(self._now_us)
        return InFile(path, self._now_us, full_sync=full_sync)

    def _now_us(self) -> int:
        return self._now_ns() // 1_000

    async def stop(self) -> None:
        """Close all stores, once what they have taken is kept."""
        for feed in self.feeds:
            feed.stop()
        self.feeds.clear()
        for keeper in self._keepers:
            await keeper.close()
        for master in self._masters.values():
            master.stop()
        self._masters.clear()
        self._keepers.clear()

    def listed(self) -> list[dict[str, Any]]:
        """Return what the hub says of its stores."""
        return [
            {
                "name": master.name,
                "epoch": master.store.epoch,
                "fed_from": [feed.prefix for feed in self.feeds if feed.store == master.name],
                **master.statistics().store._asdict(),
                **{key: value for key, value in master.statistics()._asdict().items() if key != "store"},
            }
            for master in self
        ]
