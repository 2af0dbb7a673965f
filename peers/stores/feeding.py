"""`Feed`: the last message of each topic under a prefix as the entries of a store.

```
messages of a write ─▶ the last frame of each topic ─▶ its last value ─▶ puts, one batch ─▶ Master
```

The key of an entry is the topic, its value that of the message, as msgpack: what Zeeks publish is converted, values in
shared memory are copied, labels and names are not kept. So who comes late watches the store: what is there first, and
then what comes.

Owner: `peers.stores.stores`. Invariant: after each write the entry of a topic is its last message that could be kept.
Cost: 1 µs a frame, and a put for each topic of a write, however many messages it has had; messages of other topics
cost nothing, nor do they where a store is not fed.

Not here: limits of the store and expiry (`hub.stores`), which refuse and take away as they do for all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hub.batch import Batch, value_ends
from hub.core import Core
from hub.delivery import Role
from hub.errors import HubError, StoreError
from hub.frame import BATCH_COUNT, FLAG_BATCH, Encoding, Frame
from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.stores.change import Change
from hub.stores.command import Command
from peers.stores.master import Master
from peers.values.conversion import is_value, msgpack_of_broker

__all__ = ["Feed", "FeedStatistics"]

_pack = msgspec.msgpack.Encoder().encode


class FeedStatistics(NamedTuple):
    """What has come for a store since its hub was started."""

    messages_total: int
    """Messages under the prefix."""
    lost_total: int
    """Last messages of a topic and a write that are not in the store: their values have no msgpack form, or the store
    has refused them."""


class Feed:
    """What feeds one store from one prefix.

    Args:
        core: Of the hub.
        master: Of the store.
        prefix: Topics that begin with it.
        expiry_ns: How long an entry lives after its last message, ns; None: until it is erased.

    Raises:
        InvalidTopicError: That is no prefix.
    """

    def __init__(self, core: Core, master: Master, prefix: str, expiry_ns: int | None) -> None:
        self._core, self._master, self._expiry_ns = core, master, expiry_ns
        self.prefix = prefix
        self._messages = self._lost = 0
        self._handler = Handler(
            self, role=Role.LOCAL, limits=QueueLimits(), name=f"feed of store {master.name}", address="local"
        )
        core.attach(self._handler)
        core.subscribe(self._handler, [prefix])

    @property
    def store(self) -> str:
        """The name of the store."""
        return self._master.name

    # As the outlet of its handler.

    def send(self, batches: list[Batch]) -> None:
        """Put the last message of each topic."""
        last: dict[bytes, Frame] = {}
        for batch in batches:
            self._messages += batch.messages
            for frame in batch.parts():
                last[frame.topic] = frame
        commands = []
        for topic, frame in last.items():
            value = _last_value(frame)
            if value is None:
                self._lost += 1
            else:
                commands.append(Command("put", _pack(topic.decode()), value, self._expiry_ns))
        if commands:
            self._master.apply(commands, self._put)

    def send_gap(self, lost_messages: int) -> None:
        """Do nothing: its queue never fills."""

    def close(self, code: int, text: str) -> None:
        """Do nothing: it has no connection."""

    def _put(self, outcomes: Sequence[Change | StoreError | None], error: HubError | None) -> None:
        refused = [outcome for outcome in outcomes if isinstance(outcome, StoreError)]
        self._lost += len(outcomes) if error is not None else len(refused)

    # Its end, and looking at it.

    def stop(self) -> None:
        """Put nothing more."""
        self._core.detach(self._handler, "the store is closed")

    def statistics(self) -> FeedStatistics:
        """Return what has come."""
        return FeedStatistics(self._messages, self._lost)


def _last_value(frame: Frame) -> bytes | None:
    """Return the last value of a frame in msgpack; None if it has no such form."""
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
