"""`Connection`: one socket of a client; the thin shell between asyncio and a `Conversation`.

| it ended with | error | reconnect? |
|---|---|---|
| 1008, 4401, 4403 | `RejectedError`: a person must act | no; after 4401 yes, if there may be a fresh token |
| 1002, 1003, 1007, 1009 | `ProtocolError`: the same bytes would end the same way | no, see below |
| all others (1001, 1013, 4008, no CLOSE at all ...) | `ConnectionLostError` | yes |

A hub also closes with 1002 when its PING stayed unanswered. If this side had read nothing for so long, because the
process was stopped or the machine asleep, it reconnects. A sleep excuses no other code.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, NamedTuple, cast

from hub.errors import CloseCode, ConnectionLostError, PeerError, ProtocolError, RejectedError
from hub.messages.request_frame import Reply, Request
from hub.messages.stretch import Run
from peers.client.conversation import ABNORMAL, Conversation, Refusal, Unreadable, Verb
from peers.client.settings import ClientSettings
from peers.transport.timing import Act, Liveness
from peers.transport.transport import end_writing, pause_while_unwritten
from peers.wire.control import Notice, retry_after_s
from peers.wire.events import Closing
from peers.wire.hello import Hello
from peers.wire.records import Records

if TYPE_CHECKING:
    from peers.client.exchange import Exchange

_FINAL: dict[int, type[PeerError]] = {
    CloseCode.NOT_ALLOWED: RejectedError,
    CloseCode.NOT_RECOGNISED: RejectedError,
    CloseCode.FORBIDDEN: RejectedError,
    CloseCode.PROTOCOL_ERROR: ProtocolError,
    CloseCode.WRONG_KIND: ProtocolError,
    CloseCode.BAD_DATA: ProtocolError,
    CloseCode.TOO_BIG: ProtocolError,
}

_NOT_NOW = frozenset({CloseCode.GOING_AWAY, CloseCode.TRY_AGAIN_LATER})  # Codes whose text may say when to come back


class Ending(NamedTuple):
    """The way in which a connection ended."""

    code: int = ABNORMAL
    text: str = "the connection was lost"
    overslept: bool = False  # Whether this side had not read for so long that the hub could give it up
    renewable: bool = False
    """Whether the hub had accepted this connection, and there may be a fresh token or certificate."""

    @property
    def final(self) -> bool:
        """Whether another attempt makes no sense."""
        if self.code == CloseCode.PROTOCOL_ERROR:
            return not self.overslept
        if self.code == CloseCode.NOT_RECOGNISED:
            return not self.renewable
        return self.code in _FINAL

    @property
    def retry_after_s(self) -> float | None:
        """How long the hub asks to wait before the next attempt, seconds; None if it does not."""
        return retry_after_s(self.text) if self.code in _NOT_NOW else None

    def error(self) -> PeerError:
        kind = _FINAL.get(self.code, ConnectionLostError) if self.final else ConnectionLostError
        return kind(int(self.code), self.text)

    def __str__(self) -> str:
        return str(self.error())


Told = Notice | Records | Request | Reply | Refusal | Unreadable
"""Events of a conversation that is open, beside messages."""


class Connection(asyncio.Protocol):
    """One socket of a client, and the conversation over it."""

    def __init__(self, conversation: Conversation, settings: ClientSettings, exchange: Exchange) -> None:
        self._loop = asyncio.get_running_loop()
        self._exchange = exchange
        self._transport: asyncio.Transport | None = None
        self._liveness = Liveness(self._loop.time(), settings.ping_after_s, settings.ping_timeout_s)
        self._timer: asyncio.Handle | None = None
        self._due_s = 0.0  # of the timer: a handle of uvloop does not know it, if it was due at once
        # Whether the next connection may have another proof: files of certificates are read for each, too.
        self._has_fresh_proof = callable(settings.token) or bool(settings.certificate)
        self._reading = True
        # True if reading was paused since the last check: then silence is no sign that the hub is gone.
        self._paused = False
        self._leaving = False
        self._ending: Ending | None = None
        self.conversation = conversation
        # True while the operating system has taken everything that was written (the transport's high-water mark is 0,
        # so that messages wait where they are counted, in `Publications`); False for good after the end.
        self.writable = True
        # Done once: with the hub's HELLO, or with the end where that comes first.
        self.opened: asyncio.Future[Hello | Ending] = self._loop.create_future()
        self.lost: asyncio.Future[Ending] = self._loop.create_future()

    async def adopt(self, sock: socket.socket) -> None:
        """Use a connected Unix socket."""
        await self._loop.create_unix_connection(lambda: self, sock=sock)

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        pause_while_unwritten(self._transport)
        self.conversation.open()
        self.write_outgoing()

    def data_received(self, data: bytes) -> None:
        now_s = self._loop.time()
        overslept = self._liveness.has_overslept(now_s)
        self._liveness.heard_s = now_s
        on_run = self._exchange.subscriptions.receive
        for event in self.conversation.receive(data):
            if isinstance(event, Closing):
                renewable = self._has_fresh_proof and self.opened.done()
                self._end(Ending(event.code, event.text or "closed by the hub", overslept, renewable))
            elif self._leaving:
                continue
            elif type(event) is Run:
                on_run(event)
            elif isinstance(event, Hello):
                if not self.opened.done():
                    self.opened.set_result(event)
                self._watch(now_s)
            elif isinstance(event, Run):  # in shared memory
                on_run(event)
            else:
                self._exchange.receive(event)
        self._exchange.flush_replies()
        self.write_outgoing()
        if self._ending is not None and self._transport is not None:
            self._transport.close()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        if self._ending is None:
            self.writable = True
            self._exchange.write()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._end(
            Ending(text=f"the connection was lost: {exc}" if exc else "the hub closed the connection, not saying why")
        )
        if not self.lost.done():
            self.lost.set_result(cast("Ending", self._ending))

    def publish(self, frames: list[bytes]) -> None:
        self.conversation.publish(frames)
        self.write_outgoing()

    def say(self, verb: Verb) -> None:
        self.conversation.say(verb)
        self.write_outgoing()

    def write_outgoing(self) -> None:
        outgoing = self.conversation.take_outgoing()
        if outgoing and self._transport is not None and not self._transport.is_closing():
            self._transport.write(outgoing)
        self._exchange.subscriptions.regulate()  # the hub may owe an answer now, or none any more

    def read(self, reading: bool) -> None:  # noqa: FBT001 -- on or off
        """Read from the socket, or stop reading, so that the hub's queue fills and its policy decides."""
        if reading is self._reading or self._transport is None or self._transport.is_closing():
            return
        self._reading = reading
        if reading:
            self._transport.resume_reading()
            return
        self._transport.pause_reading()
        self._paused = True
        soon_s = self._loop.time() + self._liveness.check_after_pause_s
        if self._timer is not None and self._due_s > soon_s:
            self._watch(soon_s)

    def leave(self, ending: Ending) -> None:
        """Close because of `ending`."""
        self._leaving = True
        self._end(ending)
        self.conversation.close(CloseCode.DONE, "done")
        self.write_outgoing()
        if self._transport is not None:
            self._transport.close()

    async def wait_closed(self, code: int, text: str, timeout_s: float) -> None:
        """Close, and give the hub `timeout_s` to close its side.

        Data that the hub still sends is read and thrown away: closing a socket with unread bytes would reset the
        connection, and the hub might never read the last publications.
        """
        transport = self._transport
        self._leaving = True
        self.conversation.close(code, text)
        self.write_outgoing()
        if transport is not None and not transport.is_closing():
            if self.conversation.half_close:
                end_writing(transport)
            self.read(True)
        try:
            await asyncio.wait([self.lost], timeout=timeout_s)
        finally:
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _end(self, ending: Ending) -> None:
        self.writable = False  # later publications wait for the next connection
        if self._ending is None:
            self._ending = ending
        if not self.opened.done():
            self.opened.set_result(self._ending)

    def _watch(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due_s = self._loop.call_at(at_s, self._check), at_s

    def _check(self) -> None:
        if self.conversation.closed:
            return
        step = self._liveness.check(self._loop.time(), reading=not self._paused)
        self._paused = not self._reading
        match step.act:
            case Act.PING:
                self.conversation.ping()
            case Act.PONG:
                self.conversation.pong()
            case Act.LOST:
                self._end(Ending(text="the hub does not answer to PING"))
                self.abort()
                return
            case Act.NOTHING:
                pass
        self.write_outgoing()
        self._watch(step.next_s)
