"""`Connection`: a hub as a task of Spark sees it: calls that are repeated where that may help.

Spark ends a query with the first error of its source, so a lost connection or a busy hub must not become one. The
process keeps clients between calls, as a new connection would cost each task 5 ms.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hub.errors import CloseCode, ClosedError, ConnectionLostError, GoneError, PeerError, RejectedError
from hub.journal.block import Block
from hub.journal.layout import Column, whole_of
from peers.client.blocking import BlockingClient, connect
from peers.client.journal import JournalState
from peers.spark.connector.options import Access, DataLostError, JournalReplacedError
from peers.wire.records import Records

# Of the client, for `hub top`.
_NAME = "spark"

# Most to wait for a connection, unless `timeoutMs` is less.
_CONNECT_S = 5.0

# For questions where the records of the answer do not matter.
_SMALLEST_PIECE_BYTES = 1

PLANNED_LOST = (
    "records before offset {end}, which were planned to be read, were lost when the hub lost power; "
    "records that reuse their offsets are read next: continue without the lost ones by option failOnDataLoss=false"
)

_AGAIN = frozenset({CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY})

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_log = logging.getLogger("peers.spark")

T = TypeVar("T")

# By process, for a fork must not use its parent's.
_clients: dict[tuple[int, Access], BlockingClient] = {}


class Retries:
    """How often a call is repeated, and after which pause."""

    def __init__(self, access: Access, sleep: Callable[[float], None] = time.sleep) -> None:
        self._access = access
        self._sleep = sleep
        self._used = 0

    def reset(self) -> None:
        """Count from 0 again, after progress."""
        self._used = 0

    def pause(self, error: Exception) -> None:
        if not may_pass(error):
            raise error
        if self._used >= self._access.num_retries:
            raise ConnectionLostError(
                getattr(error, "code", CloseCode.GOING_AWAY),
                f"given up after {self._used + 1} attempts, see the options numRetries and retryIntervalMs: "
                f"{getattr(error, 'text', '') or 'the hub does not answer within timeoutMs'}",
            ) from error
        _log.warning("the hub at %s: %s; trying again", self._access.url, error or "no answer in time")
        self._sleep(self._access.retry_interval_s * 2**self._used)
        self._used += 1


def may_pass(error: Exception) -> bool:
    if isinstance(error, RejectedError):
        return error.code in _AGAIN
    return isinstance(error, ConnectionLostError | ClosedError | TimeoutError)


class Connection:
    """A hub with a journal."""

    def __init__(self, access: Access, sleep: Callable[[float], None] = time.sleep) -> None:
        self.access = access
        self._sleep = sleep

    def client(self) -> BlockingClient:
        key = (os.getpid(), self.access)
        client = _clients.get(key)
        if client is not None and client.ended:
            client.close()
            client = None
        if client is None:
            wait_s = min(_CONNECT_S, self.access.timeout_s)
            options = self.access.client_options()
            client = _clients[key] = connect(self.access.url, name=_NAME, connect_timeout_s=wait_s, **options)
        return client

    def retries(self) -> Retries:
        return Retries(self.access, self._sleep)

    def ask(self, work: Callable[[BlockingClient], T]) -> T:
        """Make a call that may be made twice."""
        retries = self.retries()
        while True:
            try:
                return work(self.client())
            except (PeerError, ClosedError, TimeoutError) as error:
                self.failed(error)
                retries.pause(error)

    def failed(self, error: Exception) -> None:
        if isinstance(error, TimeoutError):
            client = _clients.pop((os.getpid(), self.access), None)
            if client is not None:
                client.close()

    def state(self, expected: bytes = b"") -> JournalState:
        hub, timeout_s = self.access.hub, self.access.timeout_s
        state = self.ask(lambda client: client.journal(hub=hub, timeout_s=timeout_s))
        check_journal(state.id, expected)
        return state

    def offset_at(self, time_ms: int) -> int:
        """Return the offset of the first record that is not older; the end if all are."""
        moment = _EPOCH + timedelta(milliseconds=time_ms)
        return self.ask(lambda client: self._first_piece(client, start_time=moment).start)

    def held(self, offset: int, epoch: int) -> int:
        """Return up to which offset records are still there that were read in this earlier epoch.

        That is less than `offset` where the hub has lost power since.
        """

        def work(client: BlockingClient) -> int:
            try:
                self._first_piece(client, start=offset, epoch=epoch)
            except GoneError as error:  # or deleted: then `first` is larger
                return min(offset, error.first)
            return offset

        return self.ask(work)

    def _first_piece(self, client: BlockingClient, **place: Any) -> Records:
        """Return the first piece of a read; its records do not matter."""
        hub, timeout_s = self.access.hub, self.access.timeout_s
        history = client.read(piece_bytes=_SMALLEST_PIECE_BYTES, hub=hub, columns=(), timeout_s=timeout_s, **place)
        return next(iter(history.pieces()))

    def _still(self, end: int, epoch: int, *, lossy: bool) -> int:
        """Return how far records are still there that were planned in another epoch."""
        held = self.held(end, epoch)
        if held < end:
            if not lossy:
                raise DataLostError(PLANNED_LOST.format(end=end))
            _log.warning("the records %d to %d were lost when the hub lost power", held, end - 1)
        return held

    def blocks(  # noqa: PLR0913 -- the parts of a read
        self,
        prefixes: tuple[str, ...],
        start: int,
        end: int,
        *,
        journal: bytes,
        epoch: int = 0,
        lossy: bool = False,
        columns: Collection[Column] | None = None,
    ) -> Iterator[Block]:
        """Read a range, planned in `epoch` (0 if unknown); after a lost connection, reading continues.

        Raises:
            JournalReplacedError: The hub has another journal by now.
            DataLostError: The start was deleted, or planned records are lost; unless `lossy`.
            PeerError: The hub refuses, or cannot be reached.
        """
        told = epoch
        retries = self.retries()
        while start < end:
            try:
                hub, timeout_s = self.access.hub, self.access.timeout_s
                history = self.client().read(
                    *prefixes, start=start, end=end, hub=hub, columns=columns, epoch=told, timeout_s=timeout_s
                )
                for piece in history.pieces():
                    check_journal(piece.journal, journal)
                    if piece.epoch != (told or piece.epoch):
                        end, told = self._still(end, epoch, lossy=lossy), piece.epoch
                        break  # asked for again, up to there
                    told = piece.epoch
                    if piece.head < end:  # asked for more than there is, the hub would wait for it
                        ends = f"the journal ends at offset {piece.head} by now"
                        raise DataLostError(f"{ends}: it was replaced by an older copy")
                    for data in piece.blocks:
                        yield Block.parse(whole_of(data), verify=False)
                    start = piece.next
                    retries.reset()
            except GoneError as error:
                self.state(journal)  # else the offsets are those of another one
                if told and error.first < start:
                    end = self._still(end, epoch, lossy=lossy)
                    continue
                start = min(end, beyond_loss(start, error.first, lossy=lossy))
            except (PeerError, ClosedError, TimeoutError) as error:
                self.failed(error)
                retries.pause(error)


def check_journal(found: bytes, expected: bytes) -> None:
    if expected and found != expected:
        there = f"journal {found.hex()}" if found else "no journal"
        raise JournalReplacedError(
            f"the offsets are those of journal {expected.hex()}, the hub has {there}: start it with the journal that "
            "it had, or start again (a stream: with another checkpointLocation)"
        )


def beyond_loss(start: int, first: int, *, lossy: bool) -> int:
    """Return where to continue behind deleted records."""
    if start >= first:
        raise DataLostError(f"offset {start} is behind the end of the journal: it was replaced by an older copy")
    if not lossy:
        raise DataLostError(
            f"the records {start} to {first - 1} were deleted from the journal before they were read, the oldest that "
            f"is kept is {first}: start there, keep more (journal.keep_bytes, journal.keep_s of the hub), or go on "
            "without them by option failOnDataLoss=false"
        )
    _log.warning(
        "the records %d to %d were deleted before they were read; reading continues at %d", start, first - 1, first
    )
    return first


def close_all() -> None:
    for key in [key for key in _clients if key[0] == os.getpid()]:
        _clients.pop(key).close()


AGAIN_S = 2.0
"""Between two attempts of a continuous job that starts before its hub."""


def ask_journal(access: Access) -> None:
    """Check that there is a journal to read, before Java is started."""
    try:
        Connection(replace(access, num_retries=0)).client().journal(hub=access.hub, timeout_s=access.timeout_s)
    finally:
        close_all()


def wait_journal(
    access: Access, on_wait: Callable[[PeerError], object], sleep: Callable[[float], None] = time.sleep
) -> None:
    has_told = False
    while True:
        try:
            return ask_journal(access)
        except PeerError as error:
            if not may_pass(error):
                raise
            if not has_told:
                on_wait(error)
                has_told = True
            sleep(AGAIN_S)
