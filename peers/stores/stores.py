"""`Stores`: the stores of a hub by name, and `Feed`: messages that fill them."""

from __future__ import annotations

import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import structlog

from hub.core import Core
from hub.errors import HubError, StorageError, StoreError, UsageError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch, value_ends
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, Encoding, Frame
from hub.settings.settings import FOREVER_S, StoresSettings
from hub.stores.command import Change, Command, StoreLimits, parse_feed, parse_store
from hub.topics import RESERVED
from peers.stores.keeping import InFile, InMemory, Keeper, NoRoomError
from peers.stores.master import Master
from peers.values.conversion import is_value, msgpack_of_broker

_pack = msgspec.msgpack.Encoder().encode


class Feed:
    """Puts the last message of each topic under a prefix into a store; entries expire `expiry_ns` later."""

    def __init__(self, core: Core, master: Master, prefix: str, expiry_ns: int | None) -> None:
        self._core, self._master, self._expiry_ns = core, master, expiry_ns
        self.prefix = prefix
        self.messages_total = self.lost_total = 0  # messages under the prefix; last messages not in the store
        self._handler = Handler(
            self, role=Role.LOCAL, limits=QueueLimits(), name=f"feed of store {master.name}", address="local"
        )
        core.attach(self._handler)
        core.subscribe(self._handler, [prefix])

    @property
    def store(self) -> str:
        return self._master.name

    def send(self, batches: list[Batch]) -> None:
        last: dict[bytes, Frame] = {}
        for batch in batches:
            self.messages_total += batch.messages
            for frame in batch.parts():
                last[frame.topic] = frame
        commands = []
        for topic, frame in last.items():
            value = _last_value(frame)
            if value is None:
                self.lost_total += 1
            else:
                commands.append(Command("put", _pack(topic.decode()), value, self._expiry_ns))
        if commands:
            self._master.apply(commands, self._put)

    def send_gap(self, lost_messages: int) -> None: ...
    def close(self, code: int, text: str) -> None: ...

    def _put(self, outcomes: Sequence[Change | StoreError | None], error: HubError | None) -> None:
        self.lost_total += sum(error is not None or isinstance(outcome, StoreError) for outcome in outcomes)

    def stop(self) -> None:
        self._core.detach(self._handler, "the store is closed")


def _last_value(frame: Frame) -> bytes | None:
    body = bytes(frame.body)
    if frame.encoding == Encoding.BROKER:
        return msgpack_of_broker(body)
    if frame.encoding != Encoding.MSGPACK:
        return None
    if frame.flags & FLAG_BATCH:
        ends = value_ends(frame)
        if ends is None:
            return None
        body = body[ends[-2] if len(ends) > 1 else BATCH_COUNT.size : ends[-1]]
    return body if is_value(body) else None


MEMORY = ":memory:"
STORES_TOPIC = RESERVED + "stores"
_SECOND_NS = 1_000_000_000


class Stores:
    """All stores of one hub."""

    def __init__(self, core: Core, clock: AbstractEventLoop, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._core = core
        self._clock = clock
        self._now_ns = now_ns
        self._masters: dict[str, Master] = {}
        self._keepers: list[Keeper] = []
        self.feeds: list[Feed] = []
        # Why they could not be opened, by name; of those for which there was no room.
        self._unserved: dict[str, str] = {}
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")
        core.requests.hub_services.add(STORES_TOPIC, lambda _handler, _value: self.listed())

    def __iter__(self) -> Iterator[Master]:
        return iter(self._masters.values())

    def __len__(self) -> int:
        return len(self._masters)

    def get(self, name: str) -> Master | None:
        return self._masters.get(name)

    @property
    def trouble(self) -> str:
        reason = next(iter(self._unserved.values()), "")
        return reason and f"{reason}; make room: it is tried again every few seconds"

    def open(self, settings: StoresSettings) -> None:
        """Open the stores of the settings; call it again for those without room. Raises `StorageError`, `HubError`."""
        limits = StoreLimits(
            settings.entries,
            settings.bytes,
            settings.user_entries,
            settings.user_bytes,
            settings.entry_bytes,
            settings.changes,
            settings.changes_bytes,
        )

        def now_us() -> int:
            return self._now_ns() // 1_000

        for name, path in map(parse_store, settings.open):
            if name not in self._masters:
                is_full = settings.sync == "full"
                keeper = InMemory(now_us) if path == MEMORY else InFile(path, now_us, full_sync=is_full)
                self._try(name, limits, keeper)
        expires_s = settings.feed_expires_s
        expiry_ns = None if expires_s >= FOREVER_S else round(expires_s * _SECOND_NS)
        for name, prefix in map(parse_feed, settings.feeds):
            if name not in self._masters and name not in self._unserved:
                raise UsageError(f"there is no store {name!r} to be fed from {prefix!r}")
            if name in self._masters and (name, prefix) not in [(feed.store, feed.prefix) for feed in self.feeds]:
                self.feeds.append(Feed(self._core, self._masters[name], prefix, expiry_ns))

    def _try(self, name: str, limits: StoreLimits, keeper: Keeper) -> None:
        """Open one store; without room for it, the hub serves everything else. Raises as `open`."""
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
        """Open one more store; `stop` closes its keeper. Raises as `open`."""
        if name in self._masters:
            raise UsageError(f"there are two stores {name!r}")
        master = self._masters[name] = Master(self._core, self._clock, self._now_ns, name, limits, keeper)
        self._keepers.append(keeper)
        return master

    async def stop(self) -> None:
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
