"""`Body`: the body of one HTTP request, as its content: so many bytes, or chunks (RFC 9112, sections 6 and 7.1).

```
Content-Length: 5                  hello
Transfer-Encoding: chunked         5 CRLF hello CRLF  0 CRLF  trailers  CRLF
```

Strict: lines end with CRLF, sizes are hexadecimal digits and nothing else but an extension, which is passed over; so
are trailers. Whatever could be understood in two ways is an error. What is held is one line at most.

Owner: one session. No I/O. Not here: what the content means (`peers.websocket.http.content`), how large a body may be.
"""

from __future__ import annotations

import re
from enum import Enum
from http import HTTPStatus
from typing import Final

from peers.websocket.http.head import BadRequestError

__all__ = ["LINE_LIMIT_BYTES", "TRAILERS_LIMIT_BYTES", "Body"]

LINE_LIMIT_BYTES: Final = 256
"""Longest line in front of a chunk: its size takes 8 digits, the rest is for an extension, which nobody sends."""

TRAILERS_LIMIT_BYTES: Final = 8 * 1024
"""Most behind the last chunk."""

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")

_END = b"\r\n"


class _Part(Enum):
    SIZE = "the line with the size of a chunk"
    CONTENT = "content"
    CRLF = "the end of a chunk"
    TRAILERS = "what stands behind the last chunk"
    DONE = "nothing more"


class Body:
    """One body.

    Args:
        length: Its bytes; None for chunks.
    """

    __slots__ = ("_is_chunked", "_left", "_line", "_part", "_trailers_bytes", "size_bytes")

    def __init__(self, length: int | None) -> None:
        self._is_chunked = length is None
        self._left = length or 0
        """How much is to come of the body, or of the chunk."""
        self._part = _Part.SIZE if length is None else _Part.CONTENT if length else _Part.DONE
        self._line = bytearray()
        """What has come of a line; empty between lines."""
        self._trailers_bytes = 0
        self.size_bytes = 0
        """How much content has come."""

    @property
    def is_done(self) -> bool:
        """Whether all of it has come."""
        return self._part is _Part.DONE

    @property
    def held_bytes(self) -> int:
        """How much is held of a line that is not complete."""
        return len(self._line)

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Take what has come; return the content in it, and what stands behind the body.

        Raises:
            BadRequestError: The chunks make no sense.
        """
        content: list[bytes] = []
        at = 0
        while at < len(data) and self._part is not _Part.DONE:
            if self._part is _Part.CONTENT:
                piece = data[at : at + self._left]
                content.append(piece)
                at += len(piece)
                self._pass(len(piece))
            else:
                at = self._take_line(data, at)
        return b"".join(content), data[at:]

    def _pass(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        self._left -= size_bytes
        if not self._left:
            self._part = _Part.CRLF if self._is_chunked else _Part.DONE

    def _take_line(self, data: bytes, at: int) -> int:
        """Take a line, or a part of one; return where it ends."""
        end = data.find(b"\n", at) + 1
        self._line += data[at : end or len(data)]
        limit = TRAILERS_LIMIT_BYTES if self._part is _Part.TRAILERS else LINE_LIMIT_BYTES
        if len(self._line) > limit:
            raise _broken(f"{self._part.value} has more than {limit} bytes")
        if not end:
            return len(data)
        line = bytes(self._line)
        self._line.clear()
        if not line.endswith(_END):
            raise _broken("a line ends without CR LF")
        self._read_line(line[: -len(_END)])
        return end

    def _read_line(self, line: bytes) -> None:
        match self._part:
            case _Part.SIZE:
                found = _SIZE.fullmatch(line)
                if found is None:
                    raise _broken("the size of a chunk is no hexadecimal number")
                self._left = int(found[1], 16)
                self._part = _Part.CONTENT if self._left else _Part.TRAILERS
            case _Part.CRLF:
                if line:
                    raise _broken("a chunk is longer than it says")
                self._part = _Part.SIZE
            case _:
                self._trailers_bytes += len(line) + len(_END)
                if self._trailers_bytes > TRAILERS_LIMIT_BYTES:
                    raise _broken(f"{self._part.value} has more than {TRAILERS_LIMIT_BYTES} bytes")
                if not line:
                    self._part = _Part.DONE


def _broken(text: str) -> BadRequestError:
    return BadRequestError(HTTPStatus.BAD_REQUEST, f"chunked: {text}")
