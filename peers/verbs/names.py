"""Service names: `NameClaims` claims and releases them for a client, `hear_names` takes what a peer hub announces.

```
claim, release ─▶ core.names ─▶ confirm, or the error is raised; later tell_name
```

Owner: the `Verbs` of one connection. Invariants: a client is told the changes of a name in their order; while it does
not read, only the last change of each name is kept for it, so that what is kept is bounded by its claims.

Not here: who owns a name (`hub.names`).
"""

from __future__ import annotations

from hub.handler import Handler
from hub.names.claim import Change, Standing
from peers.node.node import Node
from peers.verbs.far_side import FarSide
from peers.wire.names import NameClaim, NameRelease, NamesHeard

__all__ = ["NameClaims", "hear_names"]


class NameClaims:
    """The claims of one client.

    Args:
        node: The hub.
        handler: The handler of the client.
        far: The client, which is told of changes.
    """

    __slots__ = ("_changes", "_far", "_handler", "_node")

    _changes: dict[str, Change]
    """The last change of each name that the client was not told of, because it did not read. An entry is made by
    `_tell`, and removed by `write_more` when the client reads again, or by an answer about the same name."""

    def __init__(self, node: Node, handler: Handler, far: FarSide) -> None:
        self._node = node
        self._handler = handler
        self._far = far
        self._changes = {}

    def claim(self, claim: NameClaim) -> None:
        """Claim a name.

        Raises:
            InvalidNameError: The text is no service name.
            RejectedError: Somebody else owns the name and the client would not wait, or there would be too many claims.
        """
        wish = claim.wish
        standing = self._node.core.names.claim(self._handler, wish, self._node.wall_us(), self._tell)
        self._confirm(claim.request, wish.name, "queued" if standing is Standing.QUEUED else "")

    def release(self, release: NameRelease) -> None:
        """Give up a name that the client owns, or stop waiting for one.

        Raises:
            RejectedError: The client has not claimed it.
        """
        self._node.core.names.release(self._handler, release.name)
        self._confirm(release.request, release.name)

    def _confirm(self, request: int, name: str, text: str = "") -> None:
        self._changes.pop(name, None)  # the answer is newer than what was kept
        self._far.confirm(request, text=text)

    def _tell(self, change: Change) -> None:
        if self._handler.writable:
            self._far.tell_name(change)
            self._far.write_later()
        else:
            self._changes[change.name] = change

    def write_more(self) -> None:
        """Tell the client, which reads again, what was kept for it."""
        changes, self._changes = self._changes, {}
        for change in changes.values():
            self._far.tell_name(change)
        if changes:
            self._far.write_later()


def hear_names(node: Node, handler: Handler, heard: NamesHeard) -> None:
    """Take the names that a peer hub announces.

    Raises:
        RejectedError: Not all of it was taken; the text says why.
    """
    node.core.names.hear(handler, heard.held, heard.released)
