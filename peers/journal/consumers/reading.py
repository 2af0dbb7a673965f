"""`Reading`: the records that one consumer wants, piece by piece from the journal, as its readers give them.

```
more ─▶ FETCH ─▶ a reader process ─▶ piece ─▶ next_record, some of them a turn
            └─ nothing there yet: waits, for a commit ─▶ on_news
```

Owner: one `Served`. Invariants: one FETCH at a time; a piece is held until all of it was taken, and no further one is
asked for before that. Bound: one piece, of `PIECE_BYTES` or a single record. Cost: 0.6 µs a record, and
0.4 µs in the process that reads; what is not wanted
is left out by the process that reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from hub.errors import CloseCode, HubError, JournalCorruptError, ProtocolError, RejectedError
from hub.frame import HEADER_BYTES
from hub.journal.block import Block, Record
from peers.journal.readers import Deliver
from peers.journal.recording import Cancel, nothing
from peers.wire.control import decode_notice
from peers.wire.kinds import Kind
from peers.wire.records import FETCH_WAIT_LIMIT_MS, Fetch, decode_records

__all__ = ["PIECE_BYTES", "Reading", "first_offset"]

PIECE_BYTES = 128 * 1024
"""How much is read at a time: about a thousand messages."""

_PAUSE_S = 0.02
"""How long it pauses where what was recorded last is not wanted: a hub that records much else is not asked at each
commit."""

_AGAIN_S = 1.0
"""How long it waits after an error."""

_KIND = 4
"""Where in a frame its kind stands."""


class Reading:
    """The records of one consumer.

    Args:
        fetch: Asks the journal.
        prefixes: Those of the topics that are wanted.
        on_news: Called when there is something to take, or to skip to.
    """

    def __init__(
        self, fetch: Callable[[Fetch, Deliver], Cancel], prefixes: tuple[str, ...], on_news: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._fetch = fetch
        self._prefixes = prefixes
        self._on_news = on_news
        # What is left of the piece that came last.
        self._records: Iterator[Record] = iter(())
        # Where the piece behind that begins; None once the piece was taken whole.
        self._next: int | None = None
        # The oldest offset that there is, where what was asked for is deleted; None otherwise.
        self.gone_before: int | None = None
        # True from the moment when a piece is asked for until it, or an error, is there.
        self._is_asking = False
        # Ends the FETCH that is on its way.
        self._cancel: Cancel = nothing
        # The timer of a pause; None while there is none.
        self._pause: asyncio.TimerHandle | None = None
        self.error = ""
        """Why nothing could be read last; empty once something was."""

    def next_record(self) -> Record | None:
        """Return the next record of the piece that is here; None if there are no more of it."""
        return next(self._records, None)

    def finished(self) -> int | None:
        """Return the offset before which everything was taken, once a piece was taken whole; only once for each."""
        finished, self._next = self._next, None
        return finished

    def more(self, start: int) -> None:
        """Ask for the records from `start` on, if that is not done already."""
        if self._is_asking or self._pause is not None:
            return
        self._is_asking, self._cancel = True, nothing
        order = Fetch(1, start, None, None, self._prefixes, PIECE_BYTES, FETCH_WAIT_LIMIT_MS)
        cancel = self._fetch(order, lambda outcome: self._got(outcome, start))
        if self._is_asking:
            self._cancel = cancel

    def _got(self, outcome: bytes | bytearray | RejectedError, start: int) -> None:
        self._is_asking = False
        try:
            self._look_at(outcome, start)
        except (RejectedError, ProtocolError, JournalCorruptError) as error:
            self._fail(error, start)
        else:
            self.error = ""

    def _look_at(self, outcome: bytes | bytearray | RejectedError, start: int) -> None:
        """Take an answer.

        Raises:
            RejectedError, ProtocolError, JournalCorruptError: It is an error, or none that could be.
        """
        if isinstance(outcome, RejectedError):
            raise outcome
        body = bytes(outcome[HEADER_BYTES:])
        if outcome[_KIND] == Kind.NOTICE:
            notice = decode_notice(body)
            if notice.code == CloseCode.GONE and notice.offset is not None and notice.offset > start:
                self.gone_before = notice.offset
                self._on_news()
                return
            raise RejectedError(notice.code, notice.text)
        found = decode_records(body)
        self._records = (record for data in found.blocks for record in Block.parse(data, verify=False).records())
        self._next = found.next
        if not found.blocks and found.next >= found.head:
            self._rest(_PAUSE_S)
        self._on_news()

    def _fail(self, error: HubError, start: int) -> None:
        """Try again later."""
        self.error = f"nothing can be read from offset {start} on: {error}"
        self._rest(_AGAIN_S)

    def _rest(self, seconds: float) -> None:
        if self._pause is None:
            self._pause = self._loop.call_later(seconds, self._rested)

    def _rested(self) -> None:
        self._pause = None
        self._on_news()

    def stop(self) -> None:
        """Ask for nothing more."""
        self._cancel()
        self._is_asking = True  # what comes now is not looked at, and nothing else is asked for
        self._on_news = _ignore
        if self._pause is not None:
            self._pause.cancel()


def first_offset(outcome: bytes | bytearray | RejectedError) -> int:
    """Return where the answer to a FETCH begins.

    Raises:
        RejectedError, ProtocolError: It is an error, or none that could be.
    """
    if isinstance(outcome, RejectedError):
        raise outcome
    body = bytes(outcome[HEADER_BYTES:])
    if outcome[_KIND] == Kind.NOTICE:
        notice = decode_notice(body)
        raise RejectedError(notice.code, notice.text)
    return decode_records(body).start


def _ignore() -> None:
    """Tell nobody."""
