"""`review`: after a reload, everybody who is connected is looked at anew.

```
users adopted ─▶ every connection, some a turn ─┬─ is nobody any more ─▶ closed with 4403
                                               └─ still somebody ─────▶ new rights: what is not granted is taken away
```

Who comes meanwhile is recognised by the new users already. The core's routes forget at once what the old policy had
decided, and each handler is judged by its old rights until its turn comes.

Owner: the daemon, one for each reload. Cost: 5 to 30 µs a connection, `_STEP` of them a turn. Not here: what is taken
away of a handler, and in which steps (`hub.review`).
"""

from __future__ import annotations

import asyncio

from hub.errors import CloseCode
from peers.node.node import Connected, Node

__all__ = ["review"]

_STEP = 100
"""How many connections are looked at in a turn: 3 ms."""

_GONE = "your user is gone, or what you have shown is not known any more"
_NO_PEER = "your user may not be a peer hub any more"
_UNKNOWN = "this hub has users now: connect again, to be recognised"


async def review(node: Node, *, was_open: bool) -> int:
    """Look at all connections that are there now.

    Args:
        node: Whose users have changed.
        was_open: Whether it had none before: whoever came then was not asked, and comes again.

    Returns:
        How many were closed.
    """
    closed = 0
    for place, connection in enumerate(list(node.connections), 1):
        closed += _judge(node, connection, was_open=was_open)
        if not place % _STEP:
            await asyncio.sleep(0)
    return closed


def _judge(node: Node, connection: Connected, *, was_open: bool) -> bool:
    """Give one connection what it may do now; return whether it was closed instead."""
    identity, handler = connection.identity, connection.handler
    if identity is None:  # it has not said who it is, or this hub has dialled it
        return False
    if not node.access.is_current(identity):
        if was_open:
            connection.end(CloseCode.GOING_AWAY, _UNKNOWN)
        else:
            connection.end(CloseCode.FORBIDDEN, _GONE)
        return True
    if handler is not None:
        rights = node.access.rights(identity)
        if handler.is_link and rights is not None and not rights.may_link:
            connection.end(CloseCode.FORBIDDEN, _NO_PEER)
            return True
        node.core.authority.give_rights(handler, rights)
    return False
