"""Subscribing and unsubscribing by prefix. No state. Cost: about 12 µs a prefix."""

from __future__ import annotations

from collections.abc import Iterator

from hub.handler import Handler
from peers.node.node import Node
from peers.wire.session import SubscriptionChange

__all__ = ["change_subscription"]


def change_subscription(node: Node, handler: Handler, change: SubscriptionChange) -> Iterator[None]:
    """Add or remove prefixes. The iterator does one step each time that it is advanced.

    Raises:
        InvalidTopicError: One of the prefixes is invalid.
        RejectedError: The far side would have too many prefixes.
    """
    if change.subscribe:
        return node.core.subscribing(handler, change.prefixes)
    return node.core.unsubscribing(handler, change.prefixes)
