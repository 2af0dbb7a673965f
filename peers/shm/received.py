"""Messages, requests and replies whose values came in shared memory, as a client passes them on.

They are looked at when somebody reads them, not before: `peers.client.values` asks `SharedRun` for what to decode, and
`ViewValues` for the view.

Owner: whoever holds the object; with the last one the memory is let go.
"""

from __future__ import annotations

from typing import TypeVar

from hub.batch import BATCH_OVERHEAD_BYTES
from hub.errors import BlockGoneError
from hub.frame import BATCH_COUNT, FLAG_BATCH, Frame, encode_frame
from hub.stretch import Run
from peers.shm.views import Received, View, payload_of
from peers.wire.shared import plain_bytes

__all__ = ["SharedRun", "ViewValues", "copied", "is_bytes"]

R = TypeVar("R")


class SharedRun(Run[R]):
    """Messages whose values came in shared memory; they are looked at when somebody reads them.

    Args:
        route: The route of all messages.
        frame: The frame, taken apart, without SHARED.
        received: The memory that holds the values.
        views: Whether bytes are to be given as a `View`.
    """

    __slots__ = ("_bytes", "_frame", "_received", "_views")

    def __init__(self, route: R, frame: Frame, received: Received, *, views: bool) -> None:
        self.route = route
        self.messages = frame.messages
        self.frames_bytes = plain_bytes(frame, received.size_bytes)
        self.size_bytes = self.frames_bytes + BATCH_OVERHEAD_BYTES
        self.origin = None
        self._forms = None
        self._is_sound = False
        self._frame = frame
        self._received = received
        self._views = views
        # Empty until somebody asks for the values as bytes; from then on the frame that holds them.
        self._bytes = b""

    @property
    def frames(self) -> bytes:  # type: ignore[override]
        """The same messages as plain bytes.

        Raises:
            BlockGoneError: They were in a block, and its publisher has taken it back.
        """
        if not self._bytes:
            frame = self._frame
            body = copied(self._received, frame.body, frame.flags)
            self._bytes = encode_frame(frame.kind, body, key=frame.key, flags=frame.flags)
        return self._bytes

    @property
    def topic(self) -> str:
        """The topic of all these messages."""
        return self._frame.key.decode()

    @property
    def view(self) -> View | None:
        """The value as a view, if it is to be given as one and is bytes; else None."""
        return View(self._received) if self._views and not self._frame.flags and is_bytes(self._received) else None

    def payload(self) -> bytes | None:
        """Return a copy of the one value, if it is bytes; raises as `frames`."""
        return None if self._frame.flags else self._received.payload()

    @property
    def value(self) -> memoryview | None:
        """The one msgpack value, where it stands; None of several values and others, which are in `frames`."""
        return None if self._frame.flags else self._received.memory()


def copied(received: Received, body: bytes, flags: int) -> bytes:
    """Return values as bytes, with their count where there is one."""
    values = bytes(received.memory())
    received.check()
    return body[: BATCH_COUNT.size] + values if flags & FLAG_BATCH else values


def is_bytes(received: Received) -> bool:
    """Return whether the values are one value that is bytes; also where that cannot be told any more."""
    try:
        return payload_of(received.memory()) is not None
    except BlockGoneError:
        return True


class ViewValues(bytes):
    """A place-holder for values that are looked at where they came."""

    received: Received

    @classmethod
    def of(cls, received: Received) -> ViewValues:
        """Make the place-holder of what was received."""
        values = cls()
        values.received = received
        return values

    def value(self) -> View | None:
        """Return a view of the value; None if that is no bytes."""
        return View(self.received) if is_bytes(self.received) else None
