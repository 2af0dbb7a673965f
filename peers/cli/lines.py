"""Lines of a file or of standard input, plain or gzip, recognised by the first bytes.

Standard input is read without a thread, so that lines leave as they come and Ctrl-C works at once. Memory is bounded:
a piece has at most 256 KiB, a line `LINE_LIMIT_BYTES` and a piece. A last line without its end counts.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Self

from hub.errors import UsageError

STDIN = "-"

LINE_LIMIT_BYTES = 16 * 1024 * 1024
"""The largest message that a hub takes by default."""

_PIECE_BYTES = 256 * 1024
"""A few milliseconds of work, so that the consumer can look after its socket in between."""

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31
"""The largest window, and a gzip header."""


class InputError(UsageError):
    """A file or standard input that cannot be read to its end."""


class Inflater:
    """Decompresses gzip where there is any, without I/O; several members back to back are one stream."""

    __slots__ = ("_held", "_is_plain", "_member")

    def __init__(self) -> None:
        self._held = b""  # a single first byte that may become gzip's magic
        self._is_plain: bool | None = None  # None until two bytes have come
        self._member = zlib.decompressobj(_GZIP_WINDOW)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the content of `chunk` in pieces; raise `InputError` for damaged gzip."""
        if self._is_plain is None:
            chunk, self._held = self._held + chunk, b""
            if chunk == _GZIP_MAGIC[:1]:
                self._held = chunk
                return
            self._is_plain = not chunk.startswith(_GZIP_MAGIC)
        if self._is_plain:
            yield chunk
            return
        try:
            yield from self._inflate(chunk)
        except zlib.error as error:
            raise InputError(f"damaged gzip: {error}") from error

    def finish(self) -> bytes:
        """Return the held byte at the end of input; raise `InputError` if gzip has not ended."""
        if self._is_plain is False and not self._member.eof:
            raise InputError("damaged gzip: it ends too early")
        return self._held

    def _inflate(self, chunk: bytes) -> Iterator[bytes]:
        while True:
            if self._member.eof:
                chunk = chunk.lstrip(b"\0")  # tapes and the like pad with zeros
                if not chunk:
                    return
                self._member = zlib.decompressobj(_GZIP_WINDOW)
            piece = self._member.decompress(chunk, _PIECE_BYTES)
            if piece:
                yield piece
            chunk = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if not chunk and len(piece) < _PIECE_BYTES:  # a full piece may have left more inside zlib
                return


class LineSplitter:
    """Cuts pieces of bytes into lines, without I/O."""

    __slots__ = ("_parts", "_size_bytes")

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of a line whose end has not come
        self._size_bytes = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that `piece` completes, without LF or CR LF; raise `InputError` for one too long."""
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts, self._size_bytes = [], 0
            if b"\r" in piece or lines[0].endswith(b"\r"):
                lines = [line.removesuffix(b"\r") for line in lines]
        if rest:
            self._parts.append(rest)
            self._size_bytes += len(rest)
        if self._size_bytes > LINE_LIMIT_BYTES:
            raise InputError(f"a line is longer than {LINE_LIMIT_BYTES // 2**20} MiB: too large for a message")
        return lines

    def finish(self) -> list[bytes]:
        last = b"".join(self._parts)
        self._parts, self._size_bytes = [], 0
        return [last] if last else []


class Input:
    """A file or standard input (`STDIN`), read once in a `with` statement; raises `InputError`."""

    def __init__(self, path: str) -> None:
        self.name = "standard input" if path == STDIN else path
        self.read_bytes = 0
        try:
            if path == STDIN and sys.stdin is None:  # closed by the parent process
                raise InputError("standard input is closed")
            self._descriptor = sys.stdin.fileno() if path == STDIN else os.open(path, os.O_RDONLY)
            status = os.fstat(self._descriptor)
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from error
        self._is_stdin = path == STDIN
        self.size_bytes = status.st_size if stat.S_ISREG(status.st_mode) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_stdin:
            os.close(self._descriptor)

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Yield the lines of one piece at a time; raise `InputError` if it cannot be read."""
        inflater, splitter = Inflater(), LineSplitter()
        try:
            while chunk := await self._read():
                self.read_bytes += len(chunk)
                for piece in inflater.feed(chunk):
                    if lines := splitter.feed(piece):
                        yield lines
            if lines := splitter.feed(inflater.finish()) + splitter.finish():
                yield lines
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from error
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from error

    async def _read(self) -> bytes:
        if self.size_bytes is None:
            await _wait_readable(self._descriptor)
        return os.read(self._descriptor, _PIECE_BYTES)


async def _wait_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except PermissionError:  # epoll takes no such device (/dev/null); reading it does not wait
        return
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
