"""`Form`: a batch as a kind of client takes it, made once and written to every connection that wants it.

A form belongs to its batch (`Batch.form`). Its frames may be larger than the queue was charged for the batch, so only
the last forms are kept, up to `KEPT_LIMIT_BYTES` for each event loop; older ones are made again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from hub.messages.batch import Batch

KEPT_LIMIT_BYTES = 8 * 1024 * 1024
"""Frames kept for sharing: 32 writes of 256 KiB, the spread of clients that lag a little behind each other."""

Made = tuple[bytes, int]  # Ready frames, and how many messages have none of them


class Form:
    """One batch in one encoding."""

    __slots__ = ("_frames", "_make", "lost_messages")

    def __init__(self, make: Callable[[Batch], Made]) -> None:
        self._make = make
        self._frames: bytes | None = None
        self.lost_messages = 0  # Messages of the batch without a form, once `frames` was called

    @classmethod
    def ready(cls, make: Callable[[Batch], Made], frames: bytes) -> Form:
        """Return the form in which a batch came; `make` makes it again once it is not kept any more."""
        form = cls(make)
        form._frames = frames
        _KEPT.add(form, len(frames))
        return form

    def frames(self, batch: Batch) -> bytes:
        """Return one or more ready frames of the batch that this form belongs to."""
        frames = self._frames
        if frames is None:
            frames, self.lost_messages = self._make(batch)
            self._frames = frames
            _KEPT.add(self, len(frames))
        return frames

    @property
    def held_bytes(self) -> int:
        """Size of the frames now."""
        return len(self._frames or b"")

    def forget(self) -> int:
        """Drop the frames, which are made again when needed; return their size, bytes."""
        held_bytes = self.held_bytes
        self._frames = None
        return held_bytes


class _Kept(threading.local):
    """The forms made last, by this thread's event loop."""

    def __init__(self) -> None:
        self._forms: deque[Form] = deque()
        self._size_bytes = 0

    def add(self, form: Form, size_bytes: int) -> None:
        self._forms.append(form)
        self._size_bytes += size_bytes
        while self._size_bytes > KEPT_LIMIT_BYTES and len(self._forms) > 1:
            self._size_bytes -= self._forms.popleft().forget()


_KEPT = _Kept()
