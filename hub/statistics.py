"""`HandlerStatistics`: what one handler has done, and what it holds, at one moment.

Frozen values, made by the handler when somebody asks. Not here: the core as a whole (`hub.metrics`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from hub.delivery import Role
    from hub.overflow import QueueLimits

__all__ = ["SAMPLE_PREFIXES", "HandlerStatistics", "HandlerSums"]

SAMPLE_PREFIXES = 5
"""How many of its prefixes are shown of a handler, which may have 100,000."""


class _Counted(Protocol):
    """A handler, as far as it is counted here."""

    id: int
    name: str
    address: str
    limits: QueueLimits
    writable: bool
    published_messages: int
    delivered_bytes: int

    @property
    def role(self) -> Role: ...
    @property
    def shown_prefixes(self) -> Collection[str]: ...
    @property
    def delivered_messages(self) -> int: ...
    @property
    def dropped_messages(self) -> int: ...
    @property
    def queued_messages(self) -> int: ...
    @property
    def queued_bytes(self) -> int: ...


class HandlerStatistics(NamedTuple):
    """What a handler has done, and what it holds, at one moment."""

    id: int
    role: str
    name: str
    address: str
    prefixes: int
    """How many different prefixes it subscribes to."""
    sample: tuple[str, ...]
    """The first few of these prefixes."""
    published_messages: int
    """How many messages were taken from it."""
    delivered_messages: int
    """How many messages were written to it."""
    delivered_bytes: int
    queued_messages: int
    queued_bytes: int
    """How much waits for it: messages, requests and replies."""
    dropped_messages: int
    overflow: str
    paused: bool
    """Whether its transport takes no bytes now."""

    @classmethod
    def of(cls, handler: _Counted) -> HandlerStatistics:
        """Return what a handler has done, and what it holds now."""
        return cls(
            id=handler.id,
            role=handler.role.value,
            name=handler.name,
            address=handler.address,
            prefixes=len(handler.shown_prefixes),
            sample=tuple(islice(handler.shown_prefixes, SAMPLE_PREFIXES)),
            published_messages=handler.published_messages,
            delivered_messages=handler.delivered_messages,
            delivered_bytes=handler.delivered_bytes,
            queued_messages=handler.queued_messages,
            queued_bytes=handler.queued_bytes,
            dropped_messages=handler.dropped_messages,
            overflow=handler.limits.overflow.value,
            paused=not handler.writable,
        )


class HandlerSums(NamedTuple):
    """What one handler adds to the sums over all of them."""

    delivered_messages: int
    dropped_messages: int
    queued_messages: int
    queued_bytes: int
