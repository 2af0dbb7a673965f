"""`HandlerStatistics`: what one handler has done, and what it holds, at one moment.

Frozen values, made by the handler when somebody asks. Not here: the core as a whole (`hub.metrics`).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SAMPLE_PREFIXES", "HandlerStatistics", "HandlerSums"]

SAMPLE_PREFIXES = 5
"""How many of its prefixes are shown of a handler, which may have 100,000."""


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


class HandlerSums(NamedTuple):
    """What one handler adds to the sums over all of them."""

    delivered_messages: int
    dropped_messages: int
    queued_messages: int
    queued_bytes: int
