"""`Connection`: one socket of a client; the thin shell between asyncio and a `Conversation`.

```
socket ─ data_received ─▶ conversation.receive ─▶ runs, notices ─▶ client
client ─ publish, subscribe ... ─▶ conversation ─▶ write_outgoing ─▶ one write
```

Owner: the event loop. Invariants: `opened` and `lost` are both set in the end, and never to an exception; nothing is
handed on after the end. `writable` means that the operating system has taken all that was written (the transport's
high-water mark is 0), so that what waits, waits where it is counted: in `peers.client.publications`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from hub.errors import CloseCode
from hub.requests.layout import Reply, Request
from hub.stretch import Run
from peers.client.conversation import Conversation, Refusal, Unreadable
from peers.client.endings import Ending
from peers.client.routes import Route
from peers.client.settings import ClientSettings
from peers.silence import Act, Silence
from peers.transport import end_writing
from peers.wire.control import Notice
from peers.wire.hello import Hello
from peers.wire.records import Records
from peers.wire.session import Closing

__all__ = ["Connection", "Told"]

Told = Notice | Records | Request | Reply | Refusal | Unreadable
"""What a hub says beside messages, once the conversation is open."""


class Connection(asyncio.Protocol):
    """One socket.

    Args:
        conversation: New.
        settings: For the times.
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
        self._transport: asyncio.Transport | None = None
        self._on_run = on_run
        self._on_notice = on_notice
        self._on_writable = on_writable
        self._on_read = on_read
        self._silence = Silence(self._loop.time(), settings.ping_after_s, settings.ping_timeout_s)
        self._timer: asyncio.TimerHandle | None = None
        self._reading = True
        self._paused = False  # whether reading was paused since the last check
        self._leaving = False
        self._ending: Ending | None = None
        self.conversation = conversation
        self.writable = True
        self.opened: asyncio.Future[Hello | Ending] = self._loop.create_future()
        self.lost: asyncio.Future[Ending] = self._loop.create_future()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce the client."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self.conversation.open()
        self.write_outgoing()

    def data_received(self, data: bytes) -> None:
        """Hand on what the hub says."""
        now_s = self._loop.time()
        overslept = self._silence.overslept(now_s)
        self._silence.heard_s = now_s
        on_run = self._on_run
        for event in self.conversation.receive(data):
            if isinstance(event, Closing):
                self._end(Ending(event.code, event.text or "closed by the hub", overslept=overslept))
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
        """The operating system takes no more."""
        self.writable = False

    def resume_writing(self) -> None:
        """The operating system has taken everything."""
        if self._ending is None:
            self.writable = True
            self._on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell those who wait."""
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
        soon_s = self._loop.time() + self._silence.pause_check_s
        if self._timer is not None and self._timer.when() > soon_s:
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
        """End it now."""
        if self._transport is not None:
            self._transport.abort()

    # Inside.

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
        self._timer = self._loop.call_at(at_s, self._check)

    def _check(self) -> None:
        if self.conversation.closed:
            return
        step = self._silence.check(self._loop.time(), reading=not self._paused)
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
