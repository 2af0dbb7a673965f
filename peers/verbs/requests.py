"""Requests, replies, and the prefixes under which a far side serves requests.

No state. Not here: who gets which request or reply (`hub.requests`).
"""

from __future__ import annotations

from collections.abc import Iterator

from hub.errors import RejectedError
from hub.frame import FLAG_BATCH
from hub.handler import Handler
from hub.request_frame import Item, Request
from peers.node.node import Node
from peers.verbs.far_side import FarSide
from peers.wire.session import ServiceChange

__all__ = ["change_service", "pass_on"]

_ITEMS_PER_EVENT = 64
"""How many requests or replies of one frame count as the work of another frame: each may be routed differently."""


def pass_on(node: Node, handler: Handler, item: Item, far: FarSide) -> int:
    """Pass a request or a reply of the far side to the core; return how much work that was, beyond the frame's own."""
    if isinstance(item, Request):
        refused = node.core.requests.ask(handler, item, node.now_ms())
        far.expect_answers()
    else:
        refused = node.core.requests.answer(handler, item)
    # A peer hub is told nothing: what it sends may come too late without anybody's fault. A client is not told the
    # number: another of its requests that is still pending may have the same.
    if refused is not None and not handler.is_link:
        far.refuse(RejectedError(refused.code, refused.text), refused.requests)
    return item.requests // _ITEMS_PER_EVENT if item.flags & FLAG_BATCH else 0


def change_service(node: Node, handler: Handler, change: ServiceChange) -> Iterator[None]:
    """Begin or end serving requests under prefixes. The iterator does one step each time that it is advanced.

    Raises:
        InvalidTopicError: One of the prefixes is invalid.
        RejectedError: One of them is reserved for the hub, or there would be too many.
    """
    if change.serve:
        return node.core.requests.serving(handler, change.prefixes)
    return node.core.requests.unserving(handler, change.prefixes)
