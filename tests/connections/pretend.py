"""Pretend sockets: what is read, and which callback runs, is decided by the test, step by step."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from peers.connections.connection import Connection


class PretendLoop:
    """Callbacks run when the test says so; the clock stands."""

    def __init__(self) -> None:
        self.ready: deque[Callable[[], object]] = deque()

    def time(self) -> float:
        """It is always the same moment."""
        return 1000.0

    def call_soon(self, act: Callable[..., object], *arguments: Any) -> None:
        """Put it behind the others."""
        self.ready.append(lambda: act(*arguments))

    def play_turn(self) -> None:
        """Run what is due in this turn; what that asks for is for the next one."""
        for _ in range(len(self.ready)):
            self.ready.popleft()()

    def call_at(self, _when_s: float, _act: Callable[..., object]) -> PretendTimer:
        """It is never later."""
        return PretendTimer()


class PretendTimer:
    """Never fires: the clock stands."""

    def cancel(self) -> None:
        """It would not have."""


class PretendTransport(asyncio.Transport):
    """One end of a pretend socket."""

    def __init__(self, loop: PretendLoop, connection: Connection) -> None:
        super().__init__()
        self.loop = loop
        self.connection = connection
        self.far: PretendTransport
        self.incoming: deque[bytes | None] = deque()  # None is the end of the stream
        self.closing = False
        self.finished = False
        self.reading = True

    def write(self, data: Any) -> None:
        """Put it on the wire."""
        assert not self.finished, "a write behind the end of the stream"
        if not self.closing:
            self.far.incoming.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        """Put it all on the wire."""
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """All is written at once."""

    def get_write_buffer_size(self) -> int:
        """All is written at once."""
        return 0

    def can_write_eof(self) -> bool:
        """As TCP can."""
        return True

    def write_eof(self) -> None:
        """End this direction."""
        if not self.finished and not self.closing:
            self.finished = True
            self.far.incoming.append(None)

    def is_closing(self) -> bool:
        """Whether this end is closed."""
        return self.closing

    def close(self) -> None:
        """Close this end; the connection hears of it a little later, as in asyncio."""
        if not self.closing:
            self.write_eof()
            self.closing = True
            self.loop.call_soon(self.connection.connection_lost, None)

    def abort(self) -> None:
        """The same."""
        self.close()

    def pause_reading(self) -> None:
        """Note it; what the test brings all the same is what the loop had read before."""
        self.reading = False

    def resume_reading(self) -> None:
        """Note it."""
        self.reading = True

    def is_reading(self) -> bool:
        """Whether the connection wants more."""
        return self.reading

    def receive(self) -> None:
        """Let the connection read the next piece."""
        data = self.incoming.popleft()
        if self.closing:
            return
        if data is None:
            self.connection.eof_received()
            self.close()
        else:
            self.connection.data_received(data)
