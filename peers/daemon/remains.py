"""`Remains`: a policy that was replaced is let go of in steps, so that nobody waits for it.

To free 300,000 nodes at once takes 0.1 s, in which nothing else runs in this process, in whichever thread it is done.
So its pieces are listed while the new one is read; once nobody else holds the policy, a thread lets go of one piece
after the other, and the loop has its turns in between.

Owner: the process. Where somebody holds a policy for longer than `_PATIENCE_S`, it is freed at once when he lets go.
"""

from __future__ import annotations

import asyncio
import weakref

from hub.policy.policy import Policy

__all__ = ["Remains"]

_LOOK_S = 0.1
_PATIENCE_S = 60.0
"""How long routes and handlers may hold what was decided by the old policy, which they let go of in steps, too, s."""


class Remains:
    """One policy that is going to be replaced.

    Args:
        policy: The caller must not hold it for longer than until it is replaced.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = weakref.ref(policy)
        self._pieces: list[object] = []

    def collect(self) -> None:
        """List the pieces; in a thread."""
        policy = self._policy()
        if policy is not None:
            self._pieces = list(policy.pieces())
            self._pieces.reverse()

    async def let_go(self) -> None:
        """Wait until nobody else holds the policy, and let go of it."""
        looks = int(_PATIENCE_S / _LOOK_S)
        while self._policy() is not None and looks:
            looks -= 1
            await asyncio.sleep(_LOOK_S)
        await asyncio.to_thread(self._drop)

    def _drop(self) -> None:
        pieces = self._pieces
        while pieces:
            pieces.pop()
