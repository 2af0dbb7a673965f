"""`JournalAccess`: what a client asks of its hub's journal, and the answers.

Each request is answered once. A FETCH that was lost with its connection is sent again over the next one, since it
changes nothing; a STAGE or COMMIT is not. Nor is a FETCH of the hub's own journal if the next hub has another journal,
where the same offsets are other records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hub.errors import CloseCode, ClosedError, ConnectionLostError, GoneError, HubError, RejectedError
from peers.client.conversation import ABNORMAL, JOURNAL, Numbers, Verb
from peers.wire.control import Notice
from peers.wire.hello import Hello
from peers.wire.records import END_OF_TIME_US, REPLACED, Commit, Fetch, Records, Stage

if TYPE_CHECKING:
    from peers.client.connection import Connection
    from peers.client.journal_stream import JournalStream

_AGAIN_S = (0.05, 0.2, 1.0)
"""Pauses before a FETCH that the hub could not answer now is sent again."""

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
    """The epoch of the journal: `read` takes it with an offset, and raises if records before that offset are lost."""


class Committed(NamedTuple):
    """The outcome of a COMMIT."""

    first: int
    """Offset of its first message."""
    messages: int
    again: bool
    """Whether it had been committed before, so that nothing was done."""


class _Request(NamedTuple):
    answer: asyncio.Future[Records | Notice | HubError]
    verb: Verb
    repeat: bool
    """Whether it is sent again over the next connection."""
    is_own: bool
    """Whether it is about the journal of the hub that is connected, not about that of another one."""
    patient: bool
    """Whether a full stream of the client may keep the answer from being read."""


class JournalAccess:
    """The requests of one client.

    Args:
        on_waiting: Called when `waiting` may have changed.
    """

    def __init__(self, on_waiting: Callable[[], None]) -> None:
        self.id = b""
        """Id of the journal of the hub that is connected, or was last; empty if it has none."""
        self.streams: set[JournalStream] = set()
        """End with the client."""
        self._on_waiting = on_waiting
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        # Requests that were not answered, by number; also those that wait for a connection.
        self._requests: dict[int, _Request] = {}
        self._numbers = Numbers(JOURNAL)
        self._closed: HubError | None = None

    @property
    def waiting(self) -> bool:
        return any(not request.patient for request in self._requests.values())

    async def fetch(self, fetch: Fetch, *, patient: bool = False) -> Records:
        """Read a piece. Cancellation: a FETCH that waits at the hub is given up there, too.

        Args:
            fetch: The request, which is numbered here.
            patient: Whether a full stream of the client may keep the answer from being read.

        Raises:
            GoneError: The offset is not in the journal.
            RejectedError: The hub has no journal, or cannot read it.
            ClosedError, PeerError: The client is closed, or has ended with an error.
        """
        pauses = iter(_AGAIN_S)
        while True:
            number = self._numbers.next()
            verb = msgspec.structs.replace(fetch, request=number)
            answer = await self._ask(verb, repeat=True, is_own=not fetch.hub, patient=patient)
            if isinstance(answer, Records):
                return answer
            pause_s = next(pauses, None) if answer.code in _ASK_AGAIN else None
            if pause_s is None:
                raise _error(answer)
            await asyncio.sleep(pause_s)

    async def stage(self, stage: Stage) -> None:
        """Send messages that wait for their COMMIT; raises as `Client.stage`."""
        await self._done(stage._replace(request=self._numbers.next()))

    async def commit(self, commit: Commit) -> Committed:
        """Publish and record the staged messages; raises as `Client.commit`."""
        notice = await self._done(msgspec.structs.replace(commit, request=self._numbers.next()))
        return Committed(notice.offset or 0, notice.count, notice.again)

    async def _done(self, verb: Stage | Commit) -> Notice:
        answer = await self._ask(verb, repeat=False)
        if isinstance(answer, Notice) and answer.kind != "error":
            return answer
        raise _error(answer) if isinstance(answer, Notice) else RejectedError(CloseCode.BAD_DATA, "no answer to that")

    async def _ask(
        self, verb: Fetch | Stage | Commit, *, repeat: bool, is_own: bool = True, patient: bool = False
    ) -> Records | Notice:
        if self._closed is not None:
            raise self._closed.with_traceback(None)
        if self._connection is None and not repeat:
            raise ConnectionLostError(ABNORMAL, "there is no connection now")
        request = _Request(self._loop.create_future(), verb, repeat, is_own, patient)
        self._requests[verb.request] = request
        self._on_waiting()
        self._send(verb)
        try:
            outcome = await request.answer
        except asyncio.CancelledError:
            if isinstance(verb, Fetch) and verb.wait_ms:
                self._send(
                    Fetch(verb.request, time=END_OF_TIME_US, bytes=0)
                )  # the hub waits no longer under its number
            raise
        finally:
            self._requests.pop(verb.request, None)
            self._on_waiting()
        if isinstance(outcome, HubError):
            raise outcome.with_traceback(None)
        return outcome

    def _send(self, verb: Verb) -> None:
        connection = self._connection
        if connection is not None:
            connection.conversation.say(verb)
            connection.write_outgoing()

    # For the client.

    def receive(self, answer: Records | Notice) -> None:
        request = self._requests.get(answer.request)
        if request is not None and not request.answer.done():
            request.answer.set_result(answer)

    def connected(self, connection: Connection, hello: Hello) -> None:
        """Send again what the last connection has not answered, if the hub has the same journal."""
        self._connection = connection
        if self.id not in {b"", hello.journal}:
            self._answer_all(replaced(), own_only=True)
        self.id = hello.journal
        for request in list(self._requests.values()):
            if request.repeat and not request.answer.done():
                self._send(request.verb)

    def disconnected(self, *, again: bool) -> None:  # noqa: ARG002 -- as all parts
        self._connection = None
        error = ConnectionLostError(ABNORMAL, "the connection was lost before the hub answered")
        for request in self._requests.values():
            if not request.repeat and not request.answer.done():
                request.answer.set_result(error)

    def finish(self, ended: HubError) -> None:
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
    return RejectedError(CloseCode.GONE, REPLACED)


def _error(notice: Notice) -> RejectedError:
    if notice.code == CloseCode.GONE and notice.offset is not None:
        return GoneError(notice.text, notice.offset)
    return RejectedError(notice.code, notice.text)


def time_us(time: datetime | None) -> int | None:
    """Return a time in µs since 1970; without a zone it is local time."""
    return None if time is None else round(time.timestamp() * 1_000_000)


def look_at(asking: asyncio.Future[Records]) -> None:
    """Retrieve the error of a request whose reader has stopped: else asyncio complains of it."""
    if not asking.cancelled():
        asking.exception()
