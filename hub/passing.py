"""`Passing`: a frame that travels among messages, in their order, and is none itself.

It waits in a link's queue where a message would wait, and is made as it is written, so that it can say how long that
took. `hub.prospect` says where it goes.

Invariant: it holds no message, so that no account and no gap knows of it; it is never cut, and dropped as a whole.
Owner: whoever offers it (`peers.node.probes`), then the queue that it waits in. Cost: nothing for the batches that are
messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hub.batch import BATCH_OVERHEAD_BYTES, Batch
from hub.origin import Origin

__all__ = ["Passing"]

T = TypeVar("T")


class Passing(Batch):
    """One frame.

    Args:
        make: Returns the frame; called as it is written.
        size_bytes: The most that the frame takes.
        origin: Where it has entered the mesh.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], bytes], size_bytes: int, origin: Origin) -> None:
        super().__init__(b"", 0)
        self.size_bytes = size_bytes + BATCH_OVERHEAD_BYTES
        self.origin = origin
        self._make = make

    @property
    def frames(self) -> bytes:
        """The frame, as it is at this time."""
        return self._make()

    @frames.setter
    def frames(self, _: bytes) -> None:
        """Nothing is kept: it is made each time."""

    def split(self, _: int) -> tuple[Batch, Batch | None]:
        """Return it whole."""
        return self, None

    def messages_within(self, _: int, __: int) -> int:
        """Return 0: no part of it fits where it does not fit itself."""
        return 0

    def messages_beyond(self, _: int) -> int:
        """Return 0: none of it is left where there is no room for it."""
        return 0
