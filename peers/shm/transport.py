"""`UnixTransport`: an asyncio transport over a Unix socket that sends and receives descriptors.

The transports of asyncio and uvloop drop descriptors. A descriptor arrives with the first byte of its frame, since one
`recvmsg` never reads past data that came with one: it is in `descriptors` before its frame is complete. More than one
descriptor in a message ends the connection.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import warnings
from array import array
from collections import deque
from collections.abc import Iterable
from typing import Any

from peers.shm.memory import Descriptor

READ_BYTES = 256 * 1024  # Most bytes of one read, as in asyncio's transports
_READS = 8  # Most reads in one turn while each brings a descriptor: another one usually follows
_HIGH_BYTES = 64 * 1024  # Default of asyncio for pausing the protocol
_RETRY_S = 0.01  # Pause where the kernel has too many descriptors of this user in flight

# Room for one descriptor, and not for two.
_RIGHTS_BYTES = socket.CMSG_LEN(array("i").itemsize) if hasattr(socket, "CMSG_LEN") else 0
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class UnixTransport(asyncio.Transport):
    """One connected Unix socket, which the transport owns from now on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, protocol: asyncio.Protocol) -> None:
        super().__init__()
        sock.setblocking(False)
        self._extra = {"socket": sock, "sockname": sock.getsockname(), "peername": sock.getpeername()}
        self._loop = loop
        self._sock = sock
        self._number = sock.fileno()
        self._protocol = protocol
        # Bytes, a descriptor for the first of them, and their charge.
        self._buffer: deque[tuple[bytes | memoryview, Descriptor | None, int]] = deque()
        self._buffered_bytes = 0
        self._high, self._low = _HIGH_BYTES, _HIGH_BYTES // 4
        self._reading = self._started = False
        self._writing_paused = self._waits_to_write = False
        self._closing = self._eof = self._lost = False  # These never become False again
        self.descriptors: deque[Descriptor] = deque()  # Received descriptors, the oldest first

    def start(self) -> None:
        self._started = True
        self.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._extra.get(name, default)

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        if not isinstance(protocol, asyncio.Protocol):
            raise TypeError("a Unix transport takes an asyncio.Protocol")
        self._protocol = protocol

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            if not self._lost:
                self._loop.remove_reader(self._number)

    def resume_reading(self) -> None:
        if not self._reading and not self._closing and self._started:
            self._reading = True
            self._loop.add_reader(self._number, self._read)

    def _read(self) -> None:
        for _ in range(_READS):
            if not self._reading:
                return
            try:
                data, rights, flags, _ = self._sock.recvmsg(READ_BYTES, _RIGHTS_BYTES, _CLOEXEC)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._fail(error)
                return
            for _, _, raw in rights:
                self.descriptors.append(Descriptor(array("i", raw)[0]))
            if flags & socket.MSG_CTRUNC:
                self._fail(OSError(errno.EMFILE, "descriptors came in a bunch, or this process can open no more"))
                return
            if not data:
                if self._protocol.eof_received():
                    self.pause_reading()
                else:
                    self.close()
                return
            self._receive(data)
            if not rights:
                return

    def _receive(self, data: bytes) -> None:
        try:
            self._protocol.data_received(data)
        except Exception as error:  # noqa: BLE001 -- a bug of the protocol ends its connection, as asyncio does it
            self._loop.call_exception_handler(
                {"message": "data_received failed", "exception": error, "transport": self, "protocol": self._protocol}
            )
            self._fail(None)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._eof or self._closing:
            return
        self._eof = True
        if not self._buffer:
            self._sock.shutdown(socket.SHUT_WR)

    def get_write_buffer_size(self) -> int:
        return self._buffered_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high if high is not None else (_HIGH_BYTES if low is None else 4 * low)
        self._low = low if low is not None else self._high // 4
        self._regulate()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not data:
            return
        if self._refuses():
            return
        if not self._buffer:
            try:
                sent = self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._fail(error)
                return
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        # Mutable data is copied.
        kept = data if isinstance(data, bytes) or (isinstance(data, memoryview) and data.readonly) else bytes(data)
        self._keep(kept, None, len(kept))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def hand_over(self, frame: bytes, descriptor: Descriptor, charge_bytes: int = 0) -> None:
        """Write a frame, and a descriptor with its first byte; it is charged beside the frame while it is buffered."""
        if self._refuses():
            return
        if not self._buffer:
            try:
                sent = self._sock.sendmsg((frame,), descriptor.rights)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                if error.errno != errno.ETOOMANYREFS:
                    self._fail(error)
                    return
                sent = 0
            if sent == len(frame):
                return
            if sent:
                self._keep(memoryview(frame)[sent:], None, len(frame) - sent)
                return
        self._keep(frame, descriptor, len(frame) + charge_bytes)

    def _refuses(self) -> bool:
        if self._eof:
            raise RuntimeError("write behind the end of the stream")
        return self._closing

    def _keep(self, data: bytes | memoryview, descriptor: Descriptor | None, charge_bytes: int) -> None:
        self._buffer.append((data, descriptor, charge_bytes))
        self._buffered_bytes += charge_bytes
        self._wait_to_write()
        self._regulate()

    def _wait_to_write(self) -> None:
        if not self._waits_to_write:
            self._waits_to_write = True
            self._loop.add_writer(self._number, self._write_on)

    def _write_on(self) -> None:
        try:
            self._empty()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                self._fail(error)
                return
            self._stop_waiting()
            self._loop.call_later(_RETRY_S, self._retry)
        else:
            self._stop_waiting()
        self._regulate()
        if self._buffer or self._lost:
            return
        if self._closing:
            self._lose(None)
        elif self._eof:
            self._sock.shutdown(socket.SHUT_WR)

    def _empty(self) -> None:
        buffer = self._buffer
        while buffer:
            data, descriptor, charge_bytes = buffer[0]
            sent = self._sock.send(data) if descriptor is None else self._sock.sendmsg((data,), descriptor.rights)
            buffer.popleft()
            self._buffered_bytes -= charge_bytes
            if sent < len(data):
                rest = memoryview(data)[sent:]
                buffer.appendleft((rest, None, len(rest)))
                self._buffered_bytes += len(rest)

    def _retry(self) -> None:
        if self._buffer and not self._lost:
            self._wait_to_write()

    def _stop_waiting(self) -> None:
        if self._waits_to_write:
            self._waits_to_write = False
            self._loop.remove_writer(self._number)

    def _regulate(self) -> None:
        if not self._writing_paused and self._buffered_bytes > self._high:
            self._writing_paused = True
            self._protocol.pause_writing()
        elif self._writing_paused and self._buffered_bytes <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()

    def close(self) -> None:
        if self._closing:
            return
        self.pause_reading()
        self._closing = True
        if not self._buffer:
            self._lose(None)

    def abort(self) -> None:
        self._fail(None)

    def _fail(self, error: OSError | None) -> None:
        """End the connection; the buffer is dropped."""
        if self._lost:
            return
        self.pause_reading()
        self._closing = True
        self._stop_waiting()
        self._buffer.clear()
        self._buffered_bytes = 0
        self._lose(error)

    def _lose(self, error: OSError | None) -> None:
        if not self._lost:
            self._lost = True
            self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: OSError | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self.descriptors.clear()
            self._sock.close()

    def __del__(self) -> None:
        if not self._lost and self._sock.fileno() >= 0:
            warnings.warn(f"a Unix transport was not closed: {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._sock.close()
