"""`LogSession`: the side of a logger (PULL), to which the log batches of Zeek nodes come as runs of messages.

```
log-write │ node id │ zeek-bin-serializer │ batch ──▶ frames of the hub: up to `RECORDS_AT_ONCE` records each
                                                      topic /zeek/LOG/PATH, label zeek-node=NODE
```

A batch has up to 1,000 records where Zeek is not told otherwise, and whoever sends it decides. So it is read a few
records at a time, each time one event of the session: a connection has its share of a turn as with all that comes.

Owner: one connection. Invariants: records come in their order; of a batch that cannot be read to its end those come
that stand before the fault, and the rest is counted as one rejected message and told. Cost: see
`peers.zeek.zmtp.log_batch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from hub.errors import CloseCode, HubError, RejectedError
from hub.frame import BATCH_COUNT, FLAG_BATCH, FLAG_TAGGED, HEADER, KIND_MESSAGES
from hub.stretch import Run
from hub.tags.envelope import tagged
from peers.wire.scanner import NEED_DATA, RouteTable
from peers.zeek.zmtp.event_head import node_labels
from peers.zeek.zmtp.event_reading import NoEvent
from peers.zeek.zmtp.frames import Command, Message
from peers.zeek.zmtp.log_batch import LogBatch
from peers.zeek.zmtp.mechanism import NULL, Mechanism
from peers.zeek.zmtp.session import Session, SocketType

__all__ = ["LOG_TOPICS", "RECORDS_AT_ONCE", "LogSession"]

LOG_TOPICS: Final = "/zeek/LOG/"
"""What topics of log records begin with; the path follows, which names the file that a logger would write."""

RECORDS_AT_ONCE: Final = 64
"""Records that are read as one event: about 2 ms, compiled 0.05 ms."""

_KIND: Final = b"log-write"
_SERIALIZER: Final = b"zeek-bin-serializer"
_PARTS: Final = 4
_FLAGS: Final = FLAG_BATCH | FLAG_TAGGED

R = TypeVar("R")
T = TypeVar("T")
Done = TypeVar("Done")


class LogSession(Session, Generic[R]):
    """One side of a connection.

    Args:
        limit_bytes: The longest batch, all its parts together.
        routes: Where the routes of messages are looked up.
        mechanism: See `Session`.
        waits: See `Session`.
    """

    __slots__ = ("_batch", "_key", "_routes")

    def __init__(
        self, limit_bytes: int, routes: RouteTable[R], mechanism: Mechanism = NULL, *, waits: bool = False
    ) -> None:
        super().__init__(SocketType.PULL, limit_bytes, mechanism=mechanism, waits=waits)
        self._routes = routes
        # The batch that is being read, and the routing key of its records; None between two.
        self._batch: LogBatch | None = None
        self._key = b""

    @property
    def has_more(self) -> bool:
        """Whether `next_event` may have something to say."""
        return self._batch is not None or super().has_more

    def _next(self) -> Any:
        if not self.is_open:
            return super()._next()
        if self._batch is not None:
            return self._guarded(self._records, self._batch)
        found = self._incoming.next_message()
        if found is None:
            return NEED_DATA
        if isinstance(found, Command):
            return self._obey(found)
        return self._guarded(self._take, found)

    def _guarded(self, do: Callable[[T], Done], what: T) -> Done | NoEvent:
        """Do something with a message, which may turn out to be no log batch."""
        try:
            return do(what)
        except HubError as error:
            self._batch = None
            self.rejected_messages += 1
            return NoEvent(error.text if isinstance(error, RejectedError) else str(error))

    def _take(self, message: Message) -> None:
        """Begin with a batch."""
        parts = message.parts
        if len(parts) != _PARTS or parts[0] != _KIND or parts[2] != _SERIALIZER:
            shown = [part[:40].decode("utf-8", "backslashreplace") for part in parts[:3]]
            raise RejectedError(CloseCode.BAD_DATA, f"no log batch: {len(parts)} parts, which begin with {shown}")
        batch = LogBatch(parts[3])
        try:
            key = tagged(LOG_TOPICS + batch.path, node_labels(parts[1])).encode()
        except UnicodeDecodeError as error:
            raise RejectedError(CloseCode.BAD_DATA, f"the id of a node is not UTF-8: {error.reason}") from error
        self._key = HEADER.pack(0, KIND_MESSAGES, _FLAGS, len(key))[4:] + key
        self._batch = batch if batch.left else None

    def _records(self, batch: LogBatch) -> Run[R]:
        """Return the next records of a batch as a run."""
        values, records = batch.take(RECORDS_AT_ONCE)
        if not batch.left:
            self._batch = None
        body = BATCH_COUNT.pack(records) + values
        route = self._routes.table.get(self._key)
        if route is None:
            route = self._routes.miss(self._key)
        return Run(route, len(body).to_bytes(4, "big") + self._key + body, records)
