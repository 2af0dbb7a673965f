"""Rates: from two looks at a hub's handlers to what each of them does per second.

```
`$hub/statistics` messages ─▶ Assembly ─▶ Snapshot, Snapshot ─▶ activities() ─▶ sorted rows and their total
```

A hub with many handlers spreads one look over several messages; `Assembly` puts them together. Counters only grow
while a handler lives, and ids are not used again, so a handler that was not there before began at 0.

Invariant: a part that lacks its others (lost by overflow) is dropped with the next look, never mixed into it.
No I/O and no clock: the time is the hub's own. Cost: O(handlers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from hub.errors import CloseCode, ProtocolError

__all__ = [
    "Activity",
    "Assembly",
    "HandlerCounters",
    "LinkFigures",
    "Snapshot",
    "Sort",
    "Total",
    "UserHoldings",
    "activities",
    "total",
]


class HandlerCounters(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub says of one handler (`hub.statistics.HandlerStatistics`). Fields of later versions are ignored."""

    id: int
    role: str
    name: str
    address: str
    prefixes: int
    sample: tuple[str, ...]
    published_messages: int
    delivered_messages: int
    delivered_bytes: int
    queued_messages: int
    queued_bytes: int
    dropped_messages: int
    overflow: str
    paused: bool


class UserHoldings(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub says of one user, or of several together (`hub.quotas.quotas.ShareStatistics`)."""

    user: str
    """Empty for several."""
    users: int
    held: dict[str, int]
    """By resource."""
    refused_total: int
    held_back_s: float


class LinkFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What the hub says of its links to hubs of one name (`peers.node.traffic.LinkTraffic`). Others are ignored."""

    hub: str
    """Empty for several names."""
    links: int
    """How many are up."""
    dropped: dict[str, int]
    """By reason."""
    waiting_s: float
    lag_s: float | None
    cost: int | None
    path_changes: int


class _State(msgspec.Struct, frozen=True):
    text: str = ""


class _Part(msgspec.Struct, frozen=True):
    hub: str
    at_s: float
    handlers: int
    first: int
    some: tuple[HandlerCounters, ...]
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    users: tuple[UserHoldings, ...] = ()
    links: tuple[LinkFigures, ...] = ()
    state: _State = _State()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All handlers of a hub at one moment of its clock."""

    hub: str
    at_s: float
    handlers: tuple[HandlerCounters, ...]
    memory_bytes: int = 0
    """How much memory the hub takes; 0 where it does not say."""
    memory_limit_bytes: int = 0
    users: tuple[UserHoldings, ...] = ()
    """Those who hold most, and the others together; empty where there are none, or the hub does not say."""
    links: tuple[LinkFigures, ...] = ()
    """By the name of the hub at their other end; empty where there are none, or the hub does not say."""
    state: str = ""
    """How the hub does, in one sentence of its own; empty where it does not say."""


class Assembly:
    """Puts the messages of one look at a hub together."""

    __slots__ = ("_handlers", "_head", "_links", "_state", "_users")

    def __init__(self) -> None:
        # The hub and the time of the look that is being put together.
        self._head: tuple[str, float] = ("", -1.0)
        # The handlers of that look so far, without a gap; a part that is not the next one is passed over.
        self._handlers: list[HandlerCounters] = []
        # The users, the links and the sentence of that look: its first part has them.
        self._users: tuple[UserHoldings, ...] = ()
        self._links: tuple[LinkFigures, ...] = ()
        self._state = ""

    def feed(self, value: Any) -> Snapshot | None:
        """Take the value of one `$hub/statistics` message; return the snapshot that it completes.

        Raises:
            ProtocolError: It is not what this version understands.
        """
        try:
            part = msgspec.convert(value, _Part)
        except msgspec.ValidationError as error:
            raise ProtocolError(CloseCode.BAD_DATA, f"$hub/statistics: {error}; hub and client differ") from error
        head = (part.hub, part.at_s)
        if head != self._head:
            self._head = head
            self._handlers = []
            self._users, self._links, self._state = part.users, part.links, part.state.text
        if part.first != len(self._handlers):
            return None
        self._handlers.extend(part.some)
        if len(self._handlers) < part.handlers:
            return None
        memory = part.memory_bytes, part.memory_limit_bytes
        return Snapshot(part.hub, part.at_s, tuple(self._handlers), *memory, self._users, self._links, self._state)


class Activity(NamedTuple):
    """One handler, and what it does per second; None where there was only one look."""

    handler: HandlerCounters
    in_per_s: float | None
    out_per_s: float | None
    out_bytes_per_s: float | None
    dropped_lately: int | None


class Total(NamedTuple):
    """What all handlers together do per second; None where one of them has no rate yet."""

    in_per_s: float | None
    out_per_s: float | None
    out_bytes_per_s: float | None
    queued_messages: int
    queued_bytes: int
    dropped_messages: int
    dropped_lately: int | None


class Sort(StrEnum):
    """What decides which handler comes first."""

    RATE = "rate"
    QUEUE = "queue"
    DROPPED = "dropped"
    NAME = "name"


def activities(before: Snapshot | None, now: Snapshot, sort: Sort = Sort.RATE) -> list[Activity]:
    """Compare two looks at one hub.

    Args:
        before: The earlier one; None, or one of another life of the hub, gives no rates.
        now: The later one.
        sort: The order; handlers that are equal in it come by id.
    """
    if before is None or before.hub != now.hub or before.at_s >= now.at_s:
        found = [Activity(handler, None, None, None, None) for handler in now.handlers]
    else:
        passed_s = now.at_s - before.at_s
        earlier = {handler.id: handler for handler in before.handlers}
        found = [_activity(earlier.get(handler.id), handler, passed_s) for handler in now.handlers]
    return sorted(found, key=_KEYS[sort])


def _activity(before: HandlerCounters | None, now: HandlerCounters, passed_s: float) -> Activity:
    published = now.published_messages - (before.published_messages if before else 0)
    delivered = now.delivered_messages - (before.delivered_messages if before else 0)
    size = now.delivered_bytes - (before.delivered_bytes if before else 0)
    dropped = now.dropped_messages - (before.dropped_messages if before else 0)
    # What waited in a queue counted as delivered, and no longer does once it is dropped.
    return Activity(now, published / passed_s, max(0, delivered) / passed_s, size / passed_s, dropped)


_KEYS = {
    Sort.RATE: lambda one: (-(one.in_per_s or 0) - (one.out_per_s or 0), one.handler.id),
    Sort.QUEUE: lambda one: (-one.handler.queued_messages, -one.handler.queued_bytes, one.handler.id),
    Sort.DROPPED: lambda one: (-(one.dropped_lately or 0), -one.handler.dropped_messages, one.handler.id),
    Sort.NAME: lambda one: (one.handler.name.casefold(), one.handler.id),
}


def total(rows: Sequence[Activity]) -> Total:
    """Return the sums of all rows; the sum of a rate is None if a row has none."""
    known = all(row.in_per_s is not None for row in rows)
    return Total(
        in_per_s=sum(row.in_per_s or 0 for row in rows) if known else None,
        out_per_s=sum(row.out_per_s or 0 for row in rows) if known else None,
        out_bytes_per_s=sum(row.out_bytes_per_s or 0 for row in rows) if known else None,
        queued_messages=sum(row.handler.queued_messages for row in rows),
        queued_bytes=sum(row.handler.queued_bytes for row in rows),
        dropped_messages=sum(row.handler.dropped_messages for row in rows),
        dropped_lately=sum(row.dropped_lately or 0 for row in rows) if known else None,
    )
