"""`TlsTransport`: TLS between the loop's transport of a listener's socket and a protocol.

Written bytes are encrypted at once and handed to the loop's transport, so pauses, limits and lingering work as without
TLS. Before the end of the handshake there is no protocol, and no more than one read is buffered until its step is due
(`Handshakes`): a slow handshake holds 20 KiB and one read. ADR 47 says why uvloop's TLS is not used.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from peers.transport.tls import NO_TLS
from peers.transport.transport import NO_TRANSPORT, far_address, write_pieces

_RECORD_BYTES = 16 * 1024  # Most bytes of one record
_SLICE_BYTES = 2 * _RECORD_BYTES  # Most bytes given to OpenSSL at once, so that its buffers stay at 64 KiB
_ENDED = (ssl.SSLZeroReturnError, ssl.SSLEOFError)


class TlsSession:
    """The TLS state of one connection, without I/O."""

    __slots__ = ("_incoming", "_largest_bytes", "_outgoing", "_unfed", "has_ended", "object")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._unfed = memoryview(b"")  # Received and not given to OpenSSL yet
        # Has `getpeercert`, `cipher`, `version`.
        self.object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.has_ended = False  # Whether the far side has sent close_notify
        self._largest_bytes = 0  # Most bytes encrypted at once

    def feed(self, data: bytes) -> None:
        if not self._unfed and len(data) <= _SLICE_BYTES:
            self._incoming.write(data)
        else:
            self._unfed = memoryview(bytes(self._unfed) + data if self._unfed else data)

    def shake(self) -> bool:
        """Continue the handshake; return whether it is done. After an error, `outgoing` has the alert."""
        while True:
            try:
                self.object.do_handshake()
            except ssl.SSLWantReadError:
                if not self._refill():
                    return False
            else:
                return True

    def read(self) -> bytes:
        """Return all decrypted bytes, or raise an `ssl.SSLError`."""
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
        """Return encrypted records of `data`."""
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
        """Size of OpenSSL's write buffer, which grows by thirds and never shrinks."""
        return self._largest_bytes * 4 // 3

    def end(self) -> None:
        """Send close_notify; reading goes on."""
        with suppress(ssl.SSLError):  # it wants to read the other side's word, which is not waited for
            self.object.unwrap()

    def outgoing(self) -> bytes:
        """Return what is to be sent beside the result of `write`."""
        return self._outgoing.read()

    def _refill(self) -> bool:
        """Give OpenSSL the next slice; return False if there is none."""
        if not self._unfed:
            return False
        self._incoming.write(self._unfed[:_SLICE_BYTES])
        self._unfed = self._unfed[_SLICE_BYTES:]
        return True


_SESSION_INFO: dict[str, Callable[[ssl.SSLObject], Any]] = {
    "ssl_object": lambda of: of,
    "sslcontext": lambda of: of.context,
    "peercert": lambda of: _certificate(of),  # noqa: PLW0108 -- it stands below
    "cipher": lambda of: of.cipher(),
}
KEPT_BYTES: Final = "kept_bytes"  # Name for `get_extra_info`: memory that OpenSSL keeps for writing
_UNREAD_ANSWERS_BYTES = 16 * 1024  # Most bytes that OpenSSL may answer by itself while the far side does not read


class Handshakes(Protocol):
    """Admission of handshakes: see `peers.server.admission`."""

    def begin(self, one: TlsTransport) -> None:
        """Calls `time_out` when a handshake takes too long, or `abort` if it must give way."""

    def is_due(self, one: TlsTransport) -> None:
        """Bytes have arrived: `shake` is called in its turn."""

    def end(self, one: TlsTransport) -> None:
        pass


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """One connection; `make` returns the protocol after the handshake."""

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
        # None before the handshake is done and after the connection is lost.
        self._protocol: asyncio.Protocol | None = None
        self._is_choked = False
        self._ends = False  # Whether this side has ended its direction or closed
        self._unread_answers_bytes = 0
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tcp = cast("asyncio.Transport", transport)
        self.address = far_address(transport)
        self._handshakes.begin(self)

    def data_received(self, data: bytes) -> None:
        self._session.feed(data)
        if self._protocol is None:
            if not self._ends:
                self._tcp.pause_reading()
                self._handshakes.is_due(self)
        else:
            self._hand_on()

    def eof_received(self) -> bool:
        if self._protocol is not None:
            self._hand_on_end()
        return False

    def pause_writing(self) -> None:
        self._is_choked = True
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._is_choked = False
        self._unread_answers_bytes = 0
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(exc)
        elif not self._ends:
            self._fail("the other side closed the connection")
        self._handshakes.end(self)
        self._ends = True

    def shake(self) -> None:
        if self.is_closing():
            return
        try:
            is_done = self._session.shake()
        except (ssl.SSLError, OSError) as error:
            self._send_outgoing()
            reason = str(getattr(error, "reason", None) or error.strerror or error)
            self._fail(f"{reason}: the other side speaks without TLS" if reason in NO_TLS else reason)
            self._close_unwatched()
            return
        self._send_outgoing()
        if is_done:
            self._handshakes.end(self)
            self._protocol = protocol = cast("asyncio.Protocol", self._make())
            protocol.connection_made(self)
            if self._is_choked:
                protocol.pause_writing()
            self._hand_on()
        if not self.is_closing() and not self._tcp.is_reading():
            self._tcp.resume_reading()

    def time_out(self) -> None:
        self._fail("the handshake has taken too long")
        self._tcp.abort()

    def _fail(self, reason: str) -> None:
        self._ends = True
        self._handshakes.end(self)
        self._on_failure(self.address, reason)

    def _hand_on(self) -> None:
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
        """Send OpenSSL's own answers; return False if too many are unread."""
        answer = self._session.outgoing()
        if not answer or self._ends or self._tcp.is_closing():
            return True
        self._tcp.write(answer)
        self._unread_answers_bytes += len(answer) if self._is_choked else 0
        return self._unread_answers_bytes <= _UNREAD_ANSWERS_BYTES

    def _break(self, error: OSError) -> None:
        """End a connection with invalid or excessive TLS records."""
        protocol, self._protocol = self._protocol, None
        self._ends = True
        self._close_unwatched()
        if protocol is not None:
            protocol.connection_lost(error)

    def _close_unwatched(self) -> None:
        """Close without a protocol that would wait for a far side that does not read."""
        if self._tcp.get_write_buffer_size():
            self._tcp.abort()
        else:
            self._tcp.close()

    def pause_reading(self) -> None:
        self._tcp.pause_reading()

    def resume_reading(self) -> None:
        self._tcp.resume_reading()

    def is_reading(self) -> bool:
        return self._tcp.is_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._ends or not data:
            return
        written = self._session.write(data)
        if len(written) == 1:
            self._tcp.write(written[0])
        else:
            write_pieces(self._tcp, written)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def _send_outgoing(self) -> None:
        outgoing = self._session.outgoing()
        if outgoing and not self._tcp.is_closing():
            self._tcp.write(outgoing)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._ends:
            self._ends = True
            self._session.end()
            self._send_outgoing()
            self._tcp.write_eof()

    def close(self) -> None:
        if not self._ends:
            self._ends = True
            self._session.end()
            self._send_outgoing()
        self._tcp.close()

    def abort(self) -> None:
        self._ends = True
        self._tcp.abort()

    def is_closing(self) -> bool:
        return self._tcp.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._tcp.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._tcp.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._tcp.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == KEPT_BYTES:
            return self._session.kept_bytes
        get = _SESSION_INFO.get(name)
        return self._tcp.get_extra_info(name, default) if get is None else get(self._session.object)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol", protocol)


def _certificate(of: ssl.SSLObject) -> Any:
    """Return the far side's certificate, or None. One with names that are not text names no user."""
    try:
        return of.getpeercert()
    except (ValueError, RuntimeError, ssl.SSLError):
        return {"subject": ()}
