"""`TlsTransport`: TLS between a socket of a listener and what is spoken on it.

```
socket ◀─▶ the loop's transport ◀─▶ TlsTransport (TlsSession) ◀─▶ the protocol that `make` returns
```

To the loop it is a protocol, to what is spoken a transport. There is no buffer of its own for what is written: it is
encrypted at once, and the loop's transport says when that is too much, so that everything that holds for a connection
without TLS (pauses, limits, lingering) holds for one with it.

Owner: the event loop. Invariants: before the end of the handshake nothing is made of what is spoken; then nothing more
is read than one read brought, until its step is taken (`Handshakes`), so that a handshake that is slow or silent holds
20 KiB and what one read brings. Cost: two calls and one copy for a read or a write, beside OpenSSL's work.

Not here: how many handshakes there may be, for how long, and in which order (`peers.node.admission`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from peers.transport.tls import NO_TLS
from peers.transport.transport import NO_TRANSPORT, far_address, write_pieces

__all__ = [
    "KEPT_BYTES",
    "Handshakes",
    "TlsSession",
    "TlsTransport",
]

_RECORD_BYTES = 16 * 1024
"""The most that one record holds: OpenSSL returns no more with one call."""

_SLICE_BYTES = 2 * _RECORD_BYTES
"""What is given to OpenSSL at one time, so that its buffers grow to 64 KiB and not to the size of the largest read."""

_ENDED = (ssl.SSLZeroReturnError, ssl.SSLEOFError)


class TlsSession:
    """One connection.

    Args:
        context: Of the listener.
    """

    __slots__ = ("_incoming", "_largest_bytes", "_outgoing", "_unfed", "has_ended", "object")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._unfed = memoryview(b"")
        """What has come and OpenSSL has not been given yet; empty but within `feed` to `read`, and before the end of
        the handshake."""
        self.object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        """Says what was agreed on: `getpeercert`, `cipher`, `version`."""
        self.has_ended = False
        """Becomes True when the far side has said that nothing more comes (close_notify)."""
        self._largest_bytes = 0
        """The most that OpenSSL was given to encrypt at one time."""

    def feed(self, data: bytes) -> None:
        """Take what has come."""
        if not self._unfed and len(data) <= _SLICE_BYTES:
            self._incoming.write(data)
        else:
            self._unfed = memoryview(bytes(self._unfed) + data if self._unfed else data)

    def shake(self) -> bool:
        """Go on with the handshake as far as what has come allows; return whether it is done.

        Raises:
            ssl.SSLError: It has failed; `outgoing` tells the far side why.
        """
        while True:
            try:
                self.object.do_handshake()
            except ssl.SSLWantReadError:
                if not self._refill():
                    return False
            else:
                return True

    def read(self) -> bytes:
        """Return all that the far side has said and nobody has read; empty if that is nothing.

        Raises:
            ssl.SSLError: What has come is no TLS, or was changed on its way.
        """
        pieces: list[bytes] = []
        incoming, read = self._incoming, self.object.read
        while not self.has_ended:
            try:
                while piece := read(_RECORD_BYTES):
                    pieces.append(piece)
                    if not incoming.pending:  # asking OpenSSL would cost an exception, 2 µs
                        break
                else:
                    self.has_ended = True
            except ssl.SSLWantReadError:
                pass
            except _ENDED:
                self.has_ended = True
            if not self._refill():
                break
        if self.has_ended:
            self._unfed = memoryview(b"")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def write(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Return what says `data` to the far side: records of 16 KiB, in slices of a few."""
        if len(data) > self._largest_bytes:
            self._largest_bytes = min(len(data), _SLICE_BYTES)
        if len(data) <= _SLICE_BYTES:
            self.object.write(data)
            return [self._outgoing.read()]
        slices: list[bytes] = []
        whole = memoryview(data)
        for start in range(0, len(whole), _SLICE_BYTES):
            self.object.write(whole[start : start + _SLICE_BYTES])
            slices.append(self._outgoing.read())
        return slices

    @property
    def kept_bytes(self) -> int:
        """How large the buffer is that OpenSSL keeps of what was written: it has grown by thirds, and never shrinks."""
        return self._largest_bytes * 4 // 3

    def end(self) -> None:
        """Say that nothing more comes from this side; what comes from the other can still be read."""
        with suppress(ssl.SSLError):  # it wants to read the other side's word, which nobody waits for
            self.object.unwrap()

    def outgoing(self) -> bytes:
        """Return what is to be sent, beside what `write` returns."""
        return self._outgoing.read()

    def _refill(self) -> bool:
        """Give OpenSSL the next slice; return False if there is none."""
        if not self._unfed:
            return False
        self._incoming.write(self._unfed[:_SLICE_BYTES])
        self._unfed = self._unfed[_SLICE_BYTES:]
        return True


_TOLD_BY_SESSION: dict[str, Callable[[ssl.SSLObject], Any]] = {
    "ssl_object": lambda of: of,
    "sslcontext": lambda of: of.context,
    "peercert": lambda of: _certificate(of),  # noqa: PLW0108 -- it stands below
    "cipher": lambda of: of.cipher(),
}


KEPT_BYTES: Final = "kept_bytes"
"""What `get_extra_info` is asked for to learn how much OpenSSL keeps of what was written, beside what is unwritten."""

_UNREAD_ANSWERS_BYTES = 16 * 1024
"""How much OpenSSL may answer by itself to a far side that does not read: to hundreds of changes of keys."""


class Handshakes(Protocol):
    """Who may shake hands, and when."""

    def begin(self, one: TlsTransport) -> None:
        """A handshake begins; it calls `time_out` when its time is over, or `abort` if it must give way."""

    def is_due(self, one: TlsTransport) -> None:
        """Something has come for a handshake: `shake` is called when it is its turn."""

    def end(self, one: TlsTransport) -> None:
        """A handshake is over, however."""


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """One connection.

    Args:
        context: Of the listener.
        make: Called when the handshake is done; returns the protocol that is spoken.
        handshakes: Those that go on at this time.
        on_failure: Called with the address of the far side and the reason if there is no handshake.
    """

    __slots__ = (
        "_ends",
        "_handshakes",
        "_is_choked",
        "_make",
        "_on_failure",
        "_protocol",
        "_session",
        "_tcp",
        "_unread_answers_bytes",
        "address",
    )

    def __init__(
        self,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.BaseProtocol],
        handshakes: Handshakes,
        on_failure: Callable[[str, str], None],
    ) -> None:
        super().__init__()
        self._session = TlsSession(context)
        self._make = make
        self._handshakes = handshakes
        self._on_failure = on_failure
        self._tcp: asyncio.Transport = NO_TRANSPORT
        self._protocol: asyncio.Protocol | None = None
        """What is spoken; None before the end of the handshake and after that of the connection."""
        self._is_choked = False
        """Whether the loop's transport holds too much."""
        self._ends = False
        """Becomes True when this side has said that nothing more comes, or has closed."""
        self._unread_answers_bytes = 0
        """How many bytes OpenSSL has answered by itself since the loop's transport holds too much."""
        self.address = ""
        """Of the far side; known once the connection is made."""

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the far side's first word."""
        self._tcp = cast("asyncio.Transport", transport)
        self.address = far_address(transport)
        self._handshakes.begin(self)

    def data_received(self, data: bytes) -> None:
        """Go on with the handshake when it is its turn; after it, hand on what was said."""
        self._session.feed(data)
        if self._protocol is None:
            if not self._ends:
                self._tcp.pause_reading()
                self._handshakes.is_due(self)
        else:
            self._hand_on()

    def eof_received(self) -> bool:
        """The far side is gone, or says that nothing more comes."""
        if self._protocol is not None:
            self._hand_on_end()
        return False

    def pause_writing(self) -> None:
        """The loop's transport has too much to write."""
        self._is_choked = True
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """It takes more again."""
        self._is_choked = False
        self._unread_answers_bytes = 0
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(exc)
        elif not self._ends:
            self._fail("the far side went away")
        self._handshakes.end(self)
        self._ends = True

    # The handshake.

    def shake(self) -> None:
        """Take the next step, as what has come allows."""
        if self.is_closing():
            return
        try:
            is_done = self._session.shake()
        except (ssl.SSLError, OSError) as error:
            self._send_outgoing()
            self._fail(_why(error))
            self._close_unwatched()
            return
        self._send_outgoing()
        if is_done:
            self._open()
        if not self.is_closing() and not self._tcp.is_reading():
            self._tcp.resume_reading()

    def time_out(self) -> None:
        """The handshake has taken too long."""
        self._fail("the handshake has taken too long")
        self._tcp.abort()

    def _open(self) -> None:
        """The handshake is done: from now on the far side is somebody."""
        self._handshakes.end(self)
        self._protocol = protocol = cast("asyncio.Protocol", self._make())
        protocol.connection_made(self)
        if self._is_choked:
            protocol.pause_writing()
        self._hand_on()

    def _fail(self, reason: str) -> None:
        self._ends = True
        self._handshakes.end(self)
        self._on_failure(self.address, reason)

    # Reading.

    def _hand_on(self) -> None:
        """Hand on what was said."""
        try:
            said = self._session.read()
        except ssl.SSLError as error:
            self._answer()
            self._break(error)
            return
        if not self._answer():
            self._break(ConnectionAbortedError("asks for new keys again and again, and does not read the answers"))
            return
        if said and self._protocol is not None:
            self._protocol.data_received(said)
        if self._session.has_ended and self._protocol is not None:
            self._hand_on_end()

    def _hand_on_end(self) -> None:
        if self._protocol is not None and not self.is_closing() and not self._protocol.eof_received():
            self.close()

    def _answer(self) -> bool:
        """Send what OpenSSL answers by itself, to a change of keys; return False if that is more than may wait.

        Once this side has said that nothing more comes, there is no answer.
        """
        answer = self._session.outgoing()
        if not answer or self._ends or self._tcp.is_closing():
            return True
        self._tcp.write(answer)
        self._unread_answers_bytes += len(answer) if self._is_choked else 0
        return self._unread_answers_bytes <= _UNREAD_ANSWERS_BYTES

    def _break(self, error: OSError) -> None:
        """End a connection whose far side sends what is no TLS, or too much of it; what is spoken learns why."""
        protocol, self._protocol = self._protocol, None
        self._ends = True
        self._close_unwatched()
        if protocol is not None:
            protocol.connection_lost(error)

    def _close_unwatched(self) -> None:
        """Close what nobody looks after any more: at once, unless all was written.

        The loop's transport would wait for a far side that does not read, for good.
        """
        if self._tcp.get_write_buffer_size():
            self._tcp.abort()
        else:
            self._tcp.close()

    def pause_reading(self) -> None:
        """Read nothing from the socket."""
        self._tcp.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._tcp.resume_reading()

    def is_reading(self) -> bool:
        """Return whether anything is read."""
        return self._tcp.is_reading()

    # Writing.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and write."""
        if self._ends or not data:
            return
        written = self._session.write(data)
        if len(written) == 1:
            self._tcp.write(written[0])
        else:
            write_pieces(self._tcp, written)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write all of it as one, since each write makes a record."""
        self.write(b"".join(list_of_data))

    def _send_outgoing(self) -> None:
        outgoing = self._session.outgoing()
        if outgoing and not self._tcp.is_closing():
            self._tcp.write(outgoing)

    def can_write_eof(self) -> bool:
        """TLS 1.3 has ends of one direction, and OpenSSL has them for 1.2, too."""
        return True

    def write_eof(self) -> None:
        """Say that nothing more comes from this side, and read on."""
        if not self._ends:
            self._ends = True
            self._session.end()
            self._send_outgoing()
            self._tcp.write_eof()

    def close(self) -> None:
        """Write what is left, and close."""
        if not self._ends:
            self._ends = True
            self._session.end()
            self._send_outgoing()
        self._tcp.close()

    def abort(self) -> None:
        """Close now."""
        self._ends = True
        self._tcp.abort()

    def is_closing(self) -> bool:
        """Return whether it is closed, or about to be."""
        return self._tcp.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return how much is not written yet, bytes."""
        return self._tcp.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return when the protocol is told to go on and to pause, bytes."""
        return self._tcp.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Say how much may wait to be written, bytes."""
        self._tcp.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what TLS has agreed on (`peercert`, `cipher`, `ssl_object`), or what the socket's transport knows."""
        if name == KEPT_BYTES:
            return self._session.kept_bytes
        told = _TOLD_BY_SESSION.get(name)
        return self._tcp.get_extra_info(name, default) if told is None else told(self._session.object)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return what is spoken."""
        return self if self._protocol is None else self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Speak something else from now on."""
        self._protocol = cast("asyncio.Protocol", protocol)


def _certificate(of: ssl.SSLObject) -> Any:
    """Return what the far side's certificate says; None if it has shown none.

    One whose names are no text, though an authority has signed it, says nothing: so it is nobody's.
    """
    try:
        return of.getpeercert()
    except (ValueError, RuntimeError, ssl.SSLError):
        return {"subject": ()}


def _why(error: OSError) -> str:
    """Say why a handshake failed, in the words of OpenSSL where it has some."""
    reason = str(getattr(error, "reason", None) or error.strerror or error)
    if reason in NO_TLS:
        return f"{reason}: the far side speaks without TLS"
    return reason
