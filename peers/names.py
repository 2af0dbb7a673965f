"""`NameClaims`: what one client does with service names, whatever it speaks.

```
claim, release ─▶ core.names ─▶ confirm, refuse; later tell
```

Owner: one connection. Invariants: what a client is told of a name later stands behind what it was told before; what is
to be told while the client does not read is merged, one change a name.

Not here: whose a name is (`hub.names`), frames and messages (`peers.tcp.names`, `peers.websocket.names`).
"""

from __future__ import annotations

from typing import Protocol

from hub.errors import CloseCode, InvalidNameError, RejectedError
from hub.handler import Handler
from hub.names.claim import Change, Standing, Wish
from peers.node import Node

__all__ = ["NameClaims", "Teller"]


class Teller(Protocol):
    """Says it in the words of the connection."""

    def confirm(self, request: int, text: str) -> None:
        """It is done; with the text "queued" the name is somebody else's for now."""

    def refuse(self, error: RejectedError, request: int) -> None:
        """It is not done."""

    def tell(self, change: Change) -> None:
        """A claim stands otherwise than it was told."""


class NameClaims:
    """The claims of one client.

    Args:
        node: The hub.
        handler: Of the client.
        teller: Its connection.
    """

    __slots__ = ("_changes", "_handler", "_node", "_teller")

    def __init__(self, node: Node, handler: Handler, teller: Teller) -> None:
        self._node = node
        self._handler = handler
        self._teller = teller
        self._changes: dict[str, Change] = {}  # not told yet

    def claim(self, request: int, wish: Wish) -> None:
        """Claim a name."""
        try:
            standing = self._node.core.names.claim(self._handler, wish, self._node.wall_us(), self._tell)
        except InvalidNameError as error:
            self._teller.refuse(RejectedError(CloseCode.BAD_DATA, str(error)), request)
        except RejectedError as error:
            self._teller.refuse(error, request)
        else:
            self._confirm(request, wish.name, "queued" if standing is Standing.QUEUED else "")

    def release(self, request: int, name: str) -> None:
        """Give a name up, or wait for it no longer."""
        try:
            self._node.core.names.release(self._handler, name)
        except RejectedError as error:
            self._teller.refuse(error, request)
        else:
            self._confirm(request, name)

    def _confirm(self, request: int, name: str, text: str = "") -> None:
        self._changes.pop(name, None)  # this is newer
        if request:
            self._teller.confirm(request, text)

    def _tell(self, change: Change) -> None:
        if self._handler.writable:
            self._teller.tell(change)
        else:
            self._changes[change.name] = change

    def write_more(self) -> None:
        """The client reads again."""
        changes, self._changes = self._changes, {}
        for change in changes.values():
            self._teller.tell(change)
