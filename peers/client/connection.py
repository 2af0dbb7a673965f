"""`Connection`: one socket of a client; the thin shell between asyncio and a `Conversation`.

```
socket ─ data_received ─▶ conversation.receive ─▶ runs, notices ─▶ client
client ─ publish, subscribe ... ─▶ conversation ─▶ write_outgoing ─▶ one write
```

| it ended with | error | again? |
|---|---|---|
| 1008, 4401, 4403 | `RejectedError`: a person must act | no, but for 4401 where the next one may show something else |
| 1002, 1003, 1007, 1009 | `ProtocolError`: the same bytes would end the same way | no, see below |
| all others (1001, 1013, 4008, no CLOSE at all ...) | `ConnectionLostError` | yes |

A hub also closes with 1002 when its PING stayed unanswered. Where this side had heard nothing for as long as that
takes, because the process was stopped or the machine asleep, it is taken for what it is and tried again. That says
nothing of the other codes: whoever was sent away while he slept is not to come back.

Owner: the event loop. Invariants: `opened` and `lost` are both set in the end, and never to an exception; nothing is
handed on after the end. `writable` means that the operating system has taken all that was written (the transport's
high-water mark is 0), so that what waits, waits where it is counted: in `peers.client.publications`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, cast

from hub.errors import CloseCode, ConnectionLostError, PeerError, ProtocolError, RejectedError
from hub.request_frame import Reply, Request
from hub.stretch import Run
from peers.client.conversation import ABNORMAL, Conversation, Refusal, Unreadable
from peers.client.routes import Route
from peers.client.settings import ClientSettings
from peers.transport.liveness import Act, Liveness
from peers.transport.transport import end_writing, pause_while_unwritten
from peers.wire.control import Notice
from peers.wire.events import Closing
from peers.wire.hello import Hello
from peers.wire.reasons import retry_after_s
from peers.wire.records import Records

__all__ = ["Connection", "Ending", "Told"]

_FINAL: dict[int, type[PeerError]] = {
    CloseCode.NOT_ALLOWED: RejectedError,
    CloseCode.NOT_RECOGNISED: RejectedError,
    CloseCode.FORBIDDEN: RejectedError,
    CloseCode.PROTOCOL_ERROR: ProtocolError,
    CloseCode.WRONG_KIND: ProtocolError,
    CloseCode.BAD_DATA: ProtocolError,
    CloseCode.TOO_BIG: ProtocolError,
}


_NOT_NOW = frozenset({CloseCode.GOING_AWAY, CloseCode.TRY_AGAIN_LATER})
"""Codes of a hub that may say when to come back."""


class Ending(NamedTuple):
    """The way in which a connection ended."""

    code: int = ABNORMAL
    text: str = "the connection was lost"
    overslept: bool = False
    """Whether this side had not read for so long that the hub could take it for dead."""
    renewable: bool = False
    """Whether the hub had let this connection in, and there may be a fresh token, or certificate, for the next."""

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
        """How long the hub asks to wait before coming back, seconds; None if it does not."""
        return retry_after_s(self.text) if self.code in _NOT_NOW else None

    def error(self) -> PeerError:
        """Make the exception for those who wait."""
        kind = _FINAL.get(self.code, ConnectionLostError) if self.final else ConnectionLostError
        return kind(int(self.code), self.text)

    def __str__(self) -> str:
        return str(self.error())


Told = Notice | Records | Request | Reply | Refusal | Unreadable
"""What a hub says beside messages, once the conversation is open."""


class Connection(asyncio.Protocol):
    """One socket of a client, and the conversation over it.

    Args:
        conversation: The protocol state, new.
        settings: Settings of the client, for the times.
        on_run: Called with messages.
        on_notice: Called with answers, losses and requests.
        on_writable: Called when the operating system has taken everything.
        on_read: Called at the end of what a read brought, before what it makes the client say is written.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- what comes, each to whom it is for
        self,
        conversation: Conversation,
        settings: ClientSettings,
        on_run: Callable[[Run[Route]], None],
        on_notice: Callable[[Told], None],
        on_writable: Callable[[], None],
        on_read: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        # None before asyncio has made the connection.
        self._transport: asyncio.Transport | None = None
        self._on_run = on_run
        self._on_notice = on_notice
        self._on_writable = on_writable
        self._on_read = on_read
        self._liveness = Liveness(self._loop.time(), settings.ping_after_s, settings.ping_timeout_s)
        self._timer: asyncio.Handle | None = None
        self._due_s = 0.0  # when it fires: a handle of uvloop does not tell, if that was at once
        # Whether the next connection may show something else: files of certificates are read for each, too.
        self._has_fresh_proof = callable(settings.token) or bool(settings.certificate)
        # True while the socket is read: `read` says whether.
        self._reading = True
        # True if reading was paused since the last check: then silence is no sign that the hub is gone.
        self._paused = False
        # True once this side has begun to close.
        self._leaving = False
        # How the connection ends, once that is known; the first reason stays, and `lost` gets it.
        self._ending: Ending | None = None
        self.conversation = conversation
        # True while the operating system has taken all that was written; False for good after the end.
        self.writable = True
        # Done once: with the hub's HELLO, or with the end where that comes first.
        self.opened: asyncio.Future[Hello | Ending] = self._loop.create_future()
        # Done once, at the end, with the way in which the connection ended.
        self.lost: asyncio.Future[Ending] = self._loop.create_future()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce the client to the hub."""
        self._transport = cast("asyncio.Transport", transport)
        pause_while_unwritten(self._transport)
        self.conversation.open()
        self.write_outgoing()

    def data_received(self, data: bytes) -> None:
        """Hand on what the hub has said."""
        now_s = self._loop.time()
        overslept = self._liveness.has_overslept(now_s)
        self._liveness.heard_s = now_s
        on_run = self._on_run
        for event in self.conversation.receive(data):
            if isinstance(event, Closing):
                self._end(Ending(event.code, event.text or "closed by the hub", overslept, self._is_renewable))
            elif self._leaving:
                continue
            elif type(event) is Run:
                on_run(event)
            elif isinstance(event, Hello):
                self._open(event)
            elif isinstance(event, Run):  # in shared memory
                on_run(event)
            else:
                self._on_notice(event)
        self._on_read()
        self.write_outgoing()
        if self._ending is not None and self._transport is not None:
            self._transport.close()

    def pause_writing(self) -> None:
        """Take note that the operating system takes no more."""
        self.writable = False

    def resume_writing(self) -> None:
        """Take note that the operating system has taken everything."""
        if self._ending is None:
            self.writable = True
            self._on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell those who wait for the connection that it is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._end(
            Ending(text=f"the connection was lost: {exc}" if exc else "the hub closed the connection, not saying why")
        )
        if not self.lost.done():
            self.lost.set_result(cast("Ending", self._ending))

    # What the client calls.

    def publish(self, frames: list[bytes]) -> None:
        """Write MESSAGES frames."""
        self.conversation.publish(frames)
        self.write_outgoing()

    def write_outgoing(self) -> None:
        """Write what the conversation has to say."""
        outgoing = self.conversation.take_outgoing()
        if outgoing and self._transport is not None and not self._transport.is_closing():
            self._transport.write(outgoing)

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
        """Close because of `ending`, which becomes the reason that `lost` gets."""
        self._leaving = True
        self._end(ending)
        self.conversation.close(CloseCode.DONE, "done")
        self.write_outgoing()
        if self._transport is not None:
            self._transport.close()

    async def wait_closed(self, code: int, text: str, timeout_s: float) -> None:
        """Close: say so, let the hub close its side, give it `timeout_s` for that.

        What the hub still sends is read and thrown away: a socket that is closed with unread bytes resets the
        connection, and the hub might never read what was published last.
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
        """End the connection now."""
        if self._transport is not None:
            self._transport.abort()

    # Inside.

    @property
    def _is_renewable(self) -> bool:
        return self._has_fresh_proof and self.opened.done()

    def _open(self, hello: Hello) -> None:
        if not self.opened.done():
            self.opened.set_result(hello)
        self._watch(self._loop.time())

    def _end(self, ending: Ending) -> None:
        self.writable = False  # what is published from now on waits for the next connection
        if self._ending is None:
            self._ending = ending
        if not self.opened.done():
            self.opened.set_result(self._ending)

    def _watch(self, at_s: float) -> None:
        """Look at the silence again at that time."""
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
