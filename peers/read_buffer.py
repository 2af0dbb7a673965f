"""`READ`: the buffer that all connections of a loop read into, one after the other; it bounds a stretch of work.

Owner: the event loop's thread. Invariant: what a read left in the buffer is used up or copied before the next one.

Cost: `READ_LIMIT_BYTES` for each event loop, instead of for each connection.

Not here: hubs and programs, whose frames need no copy (`peers.stream`).
"""

from __future__ import annotations

import threading

__all__ = ["READ", "READ_LIMIT_BYTES"]

READ_LIMIT_BYTES = 16 * 1024
"""Most that one read takes, and so is worked on before others have their turn.

The smallest messages of a WebSocket client (7 bytes, answered by an error: 10 µs) make 24 ms of work of that. Events of
a Zeek cost 0.04 µs a byte; its smallest messages, all refused, make 120 ms.
"""


class _Read(threading.local):
    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(READ_LIMIT_BYTES))


READ = _Read()
"""Its `buffer` is the one of the thread that asks."""
