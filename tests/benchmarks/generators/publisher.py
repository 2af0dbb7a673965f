"""`Publisher`: the sending end of one connection at full speed: whole chunks, never further ahead than its window.

What a broker sends to a publisher (pings, Redis's and ZeroMQ's greetings) is read and thrown away.
Owner: the engine. Invariant: `sent_messages` counts whole chunks once they are begun, so a run ends between messages.
"""

from __future__ import annotations

import socket
from contextlib import suppress

from generators.stream import Stream

__all__ = ["Publisher"]

_STEP_BYTES = 64 * 1024


class Publisher:
    """One connection that publishes.

    Args:
        connection: Not blocking.
        stream: Cut into chunks.
        window_messages: How far it may be ahead of the slowest of those that get its messages; at least one chunk.
    """

    __slots__ = ("_chunk", "_left", "_stream", "_window", "begun_messages", "connection", "writable")

    def __init__(self, connection: socket.socket, stream: Stream, window_messages: int) -> None:
        self.connection = connection
        self._stream = stream
        self._window = max(window_messages, stream.messages(len(stream.chunks[0])))
        self._chunk = 0
        self._left = memoryview(b"")
        self.begun_messages = 0
        self.writable = True

    @property
    def unfinished(self) -> bool:
        """Whether a chunk has been begun and not sent whole."""
        return bool(self._left)

    def may_begin(self, received_messages: int) -> bool:
        """Whether the window has room for a chunk."""
        chunk = self._stream.chunks[self._chunk]
        return self.begun_messages + self._stream.messages(len(chunk)) - received_messages <= self._window

    def begin(self) -> None:
        """Take the next chunk."""
        self._left = self._stream.chunks[self._chunk]
        self._chunk = (self._chunk + 1) % len(self._stream.chunks)
        self.begun_messages += self._stream.messages(len(self._left))

    def send(self) -> None:
        """Write what is left of the chunk, as far as the socket takes it."""
        try:
            self._left = self._left[self.connection.send(self._left) :]
        except BlockingIOError:
            self.writable = False
        else:
            self.writable = not self._left

    def discard_incoming(self) -> None:
        """Read what the broker says and forget it.

        Raises:
            ConnectionError: The broker has closed.
        """
        with suppress(BlockingIOError):
            if not self.connection.recv(_STEP_BYTES):
                raise ConnectionError("the broker closed a publisher's connection")
