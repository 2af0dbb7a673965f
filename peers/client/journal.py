"""`JournalAccess`: what a client asks of its hub's journal, and the answers.

```
fetch, commit ─▶ numbered request ─▶ hub ─▶ RECORDS, NOTICE ─▶ whoever waits
```

Owner: one client, in its event loop. Invariants: each request is answered once. A FETCH that was lost with its
connection is sent again over the next one, since it changes nothing; a STAGE or COMMIT is not: whoever asks must know.
Nor is a FETCH of the hub's own journal where that is another one by then, of which the same offsets are other records.
Not here: reading a range piece by piece (`peers.client.history`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from hub.errors import CloseCode, ClosedError, ConnectionLostError, GoneError, HubError, RejectedError
from peers.client.connection import Connection
from peers.client.conversation import ABNORMAL, JOURNAL, Numbers
from peers.wire.control import Notice
from peers.wire.hello import Hello
from peers.wire.records import END_OF_TIME_US, REPLACED, Commit, Fetch, Records, Stage

__all__ = ["Committed", "JournalAccess", "JournalState", "journal_of", "replaced", "time_us"]

_AGAIN_S = (0.05, 0.2, 1.0)
"""Pauses before a FETCH that the hub could not answer now is sent again."""

_GIVE_UP = Fetch(1, time=END_OF_TIME_US, bytes=0)
"""What is asked under the number of a FETCH that waits, so that it waits no longer. Nobody looks at the answer."""

_ASK_AGAIN = frozenset({CloseCode.TRY_AGAIN_LATER, CloseCode.GOING_AWAY})


class JournalState(NamedTuple):
    """How far a hub's journal reaches."""

    id: bytes
    """Id of the journal, 16 bytes, made with it."""
    first: int
    """The oldest offset that is retained."""
    head: int
    """The offset behind the newest record that is committed."""
    epoch: int = 0
    """The epoch of the journal in which that is told: `read` takes it with an offset, and says where it does not hold
    any more, as records that were there are lost."""


class Committed(NamedTuple):
    """What has become of a COMMIT."""

    first: int
    """Offset of its first message."""
    messages: int
    again: bool
    """Whether it had been committed before, so that nothing was done."""


class _Request(NamedTuple):
    answer: asyncio.Future[Records | Notice | HubError]
    again: Callable[[Connection], None] | None
    """Sends it over another connection; None where it must not be repeated."""
    is_own: bool
    """Whether it is about the journal of the hub that is connected, not about that of another one."""
    patient: bool
    """Whether a full stream of the client may keep the answer from being read."""


class _Stream(Protocol):
    """A stream that reads the journal."""

    def finish(self, error: HubError | None) -> None:
        """End it: nothing more comes."""


class JournalAccess:
    """The requests of one client.

    Args:
        on_waiting: Called when `waiting` may have changed.
    """

    def __init__(self, on_waiting: Callable[[], None]) -> None:
        self.id = b""
        """Id of the journal of the hub that is connected, or was last; empty where it has none."""
        self.streams: set[_Stream] = set()
        """The streams that read it, which end with the client."""
        self._on_waiting = on_waiting
        self._loop = asyncio.get_running_loop()
        # The connection that is open; None from `disconnected` until the next one.
        self._connection: Connection | None = None
        # Requests that were not answered, by number; also those that wait for a connection.
        self._requests: dict[int, _Request] = {}
        self._numbers = Numbers(JOURNAL)
        # Why nothing is asked any more; None until `finish`.
        self._closed: HubError | None = None

    @property
    def waiting(self) -> bool:
        """Whether an answer is awaited: then the connection must be read."""
        return any(not request.patient for request in self._requests.values())

    async def fetch(self, fetch: Fetch, *, patient: bool = False) -> Records:
        """Read a piece.

        Cancellation: a FETCH that waits at the hub is given up there, too.

        Args:
            fetch: The order; its request is numbered here.
            patient: Whether a full stream of the client may keep the answer from being read.

        Raises:
            GoneError: The offset is not in the journal.
            RejectedError: The hub has no journal, or cannot read it.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        pauses = iter(_AGAIN_S)
        while True:
            answer = await self._ask(
                lambda number: fetch_sender(fetch, number),
                repeat=True,
                is_own=not fetch.hub,
                patient=patient,
                give_up=_GIVE_UP if fetch.wait_ms else None,
            )
            if isinstance(answer, Records):
                return answer
            pause_s = next(pauses, None) if answer.code in _ASK_AGAIN else None
            if pause_s is None:
                raise _error(answer)
            await asyncio.sleep(pause_s)

    async def stage(self, stage: Stage) -> None:
        """Bring messages that wait for their COMMIT.

        Raises:
            RejectedError: The hub refuses.
            ClosedError, PeerError: The connection is lost, or the client is closed.
        """
        await self._done(
            lambda number: lambda connection: connection.conversation.stage(stage._replace(request=number))
        )

    async def commit(self, commit: Commit) -> Committed:
        """Have what was staged become messages.

        Raises:
            RejectedError: The hub refuses, or cannot record it.
            ClosedError, PeerError: The connection is lost, or the client is closed: nobody knows; ask again.
        """
        notice = await self._done(lambda number: commit_sender(commit, number))
        return Committed(notice.offset or 0, notice.count, notice.again)

    async def _done(self, sender: Callable[[int], Callable[[Connection], None]]) -> Notice:
        answer = await self._ask(sender, repeat=False)
        if isinstance(answer, Notice) and answer.kind != "error":
            return answer
        raise _error(answer) if isinstance(answer, Notice) else RejectedError(CloseCode.BAD_DATA, "no answer to that")

    async def _ask(
        self,
        sender: Callable[[int], Callable[[Connection], None]],
        *,
        repeat: bool,
        is_own: bool = True,
        patient: bool = False,
        give_up: Fetch | None = None,
    ) -> Records | Notice:
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        if self._connection is None and not repeat:
            raise ConnectionLostError(ABNORMAL, "there is no connection now")
        number = self._numbers.next()
        send = sender(number)
        request = _Request(self._loop.create_future(), send if repeat else None, is_own, patient)
        self._requests[number] = request
        self._on_waiting()
        if self._connection is not None:
            self._send(send)
        try:
            outcome = await request.answer
        except asyncio.CancelledError:
            if give_up is not None:
                self._send(fetch_sender(give_up, number))
            raise
        finally:
            self._requests.pop(number, None)
            self._on_waiting()
        if isinstance(outcome, HubError):
            raise outcome.with_traceback(None)
        return outcome

    def _send(self, send: Callable[[Connection], None]) -> None:
        connection = self._connection
        if connection is not None:
            send(connection)
            connection.write_outgoing()

    # For the client.

    def receive(self, answer: Records | Notice) -> None:
        """Take an answer of the hub."""
        request = self._requests.get(answer.request)
        if request is not None and not request.answer.done():
            request.answer.set_result(answer)

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Ask a new connection for what the last one has not answered, if it reaches the same journal."""
        self._connection = connection
        if self.id not in {b"", hello.journal}:
            self._answer_all(replaced(), own_only=True)
        self.id = hello.journal
        for request in list(self._requests.values()):
            if request.again is not None and not request.answer.done():
                self._send(request.again)

    def disconnected(self, *, again: bool) -> None:  # noqa: ARG002 -- as all parts
        """Answer those requests that must not be repeated: their connection is lost."""
        self._connection = None
        error = ConnectionLostError(ABNORMAL, "the connection was lost before the hub answered")
        for request in self._requests.values():
            if request.again is None and not request.answer.done():
                request.answer.set_result(error)

    def finish(self, ended: HubError) -> None:
        """Tell everyone who waits that nothing more comes."""
        self._closed = ended
        self._connection = None
        self._answer_all(self._closed)
        for stream in list(self.streams):
            stream.finish(None if isinstance(ended, ClosedError) else ended)

    def _answer_all(self, error: HubError, *, own_only: bool = False) -> None:
        for request in self._requests.values():
            if (request.is_own or not own_only) and not request.answer.done():
                request.answer.set_result(error)


def replaced() -> RejectedError:
    """Make the exception for offsets that mean other records now."""
    return RejectedError(CloseCode.GONE, REPLACED)


def journal_of(found: Records, hub: str, own: bytes) -> bytes:
    """Return the id of the journal that a piece is of.

    Args:
        found: The piece, which was asked for with a journal, so that it tells.
        hub: Whose journal was asked for; empty for that of the hub that is connected.
        own: The id of the journal of the hub that is connected: one of an earlier version tells no other.

    Raises:
        RejectedError: The piece is of another hub's journal than was asked for.
    """
    if hub and not found.journal:
        text = f"the hub that is connected is of an earlier version, which cannot read the journal of {hub!r}"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    return found.journal or own


def fetch_sender(fetch: Fetch, number: int) -> Callable[[Connection], None]:
    """Return what sends a FETCH with that number."""
    numbered = msgspec.structs.replace(fetch, request=number)
    return lambda connection: connection.conversation.fetch(numbered)


def commit_sender(commit: Commit, number: int) -> Callable[[Connection], None]:
    """Return what sends a COMMIT with that number."""
    numbered = Commit(number, commit.transaction, commit.query, commit.batch, commit.parts, commit.abort)
    return lambda connection: connection.conversation.commit(numbered)


def _error(notice: Notice) -> RejectedError:
    """Make the exception for a refusal of the hub."""
    if notice.code == CloseCode.GONE and notice.offset is not None:
        return GoneError(notice.text, notice.offset)
    return RejectedError(notice.code, notice.text)


def time_us(time: datetime | None) -> int | None:
    """Return a time as the journal has it; without a zone it is local time."""
    return None if time is None else round(time.timestamp() * 1_000_000)
