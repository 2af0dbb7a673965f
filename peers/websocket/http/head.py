"""`read_head`: the one place where an HTTP request is read, for WebSockets, the page, publishing and events.

```
head ─▶ lines ─┬─ Content-Length, Transfer-Encoding ─▶ length of the body, in the strict reading of RFC 9112
               └─ all other lines ─▶ websockets' `Request.parse`, which knows no bodies
```

A second parser beside the library's might read the same bytes in another way (request smuggling). So the library reads
every head, except for the two fields with the length of the body: these are read here, and rejected where they are
ambiguous. A head costs about 60 µs.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from enum import Enum
from http import HTTPStatus
from typing import Final, NamedTuple

from websockets.exceptions import HeaderLineTooLong, RequestLineTooLong, TooManyHeaders
from websockets.http11 import Request

HEAD_END = b"\r\n\r\n"

_SHOWN_CHARACTERS = 200
"""Characters of the library's reason that are repeated, as it may quote a whole line."""

_FRAMING = re.compile(rb"(content-length|transfer-encoding):(.*)\r\n", re.IGNORECASE)

_DIGITS = re.compile(rb"[0-9]{1,18}")


class BadRequestError(Exception):
    """No request that can be answered otherwise."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


class Head(NamedTuple):
    """The head of a request."""

    request: Request
    """Without the fields with the length of the body."""
    length: int | None
    """Bytes of the body; None if it comes in chunks."""
    has_length: bool
    """Whether the request gives the length of its body."""

    @property
    def has_body(self) -> bool:
        return self.length != 0


def read_head(head: bytes) -> Head:
    """Read the head of a request, up to the empty line at its end.

    Raises:
        BadRequestError: The text says why, and quotes nothing of a head that may hold a token.
    """
    lengths: list[bytes] = []
    codings: list[bytes] = []
    lines = iter(_lines(head))
    is_first = True

    def read_line(limit: int, too_long: type[Exception]) -> Generator[None, None, bytes]:
        nonlocal is_first
        for line in lines:
            if len(line) > limit:
                raise too_long(f"a line of {len(line)} bytes, the limit is {limit}")
            framing = None if is_first else _FRAMING.fullmatch(line)
            is_first = False
            if framing is None:
                return line
            (lengths if framing[1].lower() == b"content-length" else codings).append(framing[2].strip(b" \t"))
        raise EOFError("unfinished")
        yield  # the library wants a generator; this one never waits

    parser = Request.parse(read_line)
    try:
        next(parser)
    except StopIteration as end:
        request: Request = end.value
    except RequestLineTooLong as error:
        raise BadRequestError(HTTPStatus.REQUEST_URI_TOO_LONG, f"the request line is too long: {error}") from error
    except (HeaderLineTooLong, TooManyHeaders) as error:
        text = f"the headers are too large: {error}"
        raise BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text) from error
    except (ValueError, EOFError) as error:  # what is no ASCII is a ValueError, too
        reason = str(error)[:_SHOWN_CHARACTERS]
        if b"authorization" in head.lower():  # the line that is quoted may be the one with the token
            reason = "a line of it cannot be read"
        raise BadRequestError(HTTPStatus.BAD_REQUEST, f"no HTTP request: {reason}") from error
    return Head(request, _length(request, lengths, codings), bool(lengths or codings))


def _lines(head: bytes) -> list[bytes]:
    """Return the lines with their ends, cut at LF alone: a line without CR is rejected."""
    lines = [line + b"\n" for line in head.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _length(request: Request, lengths: list[bytes], codings: list[bytes]) -> int | None:
    """Return the length of the body; None for chunks."""
    if codings:
        if lengths:
            raise _ambiguous("Transfer-Encoding and Content-Length exclude each other")
        if request.protocol != "HTTP/1.1":
            raise _ambiguous("Transfer-Encoding needs HTTP/1.1")
        if len(codings) > 1 or codings[0].lower() != b"chunked":
            raise BadRequestError(HTTPStatus.NOT_IMPLEMENTED, "Transfer-Encoding: only `chunked` is taken")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1:
        raise _ambiguous("several Content-Length headers")
    if not _DIGITS.fullmatch(lengths[0]):
        raise _ambiguous("Content-Length is no number")
    return int(lengths[0])


def _ambiguous(text: str) -> BadRequestError:
    return BadRequestError(HTTPStatus.BAD_REQUEST, text)


def keeps_open(request: Request) -> bool:
    """Return whether the client may ask again on the same connection."""
    options = ",".join(request.headers.get_all("Connection")).lower().split(",")
    return request.protocol == "HTTP/1.1" and "close" not in {option.strip() for option in options}


# The body of one HTTP request, as its content: so many bytes, or chunks (RFC 9112, sections 6 and 7.1).


LINE_LIMIT_BYTES: Final = 256
"""Longest line in front of a chunk: its size takes 8 digits, the rest is for an extension."""

TRAILERS_LIMIT_BYTES: Final = 8 * 1024
"""Most bytes behind the last chunk."""

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")

_END = b"\r\n"


class _Part(Enum):
    SIZE = "the line with the size of a chunk"
    CONTENT = "content"
    CRLF = "the end of a chunk"
    TRAILERS = "what stands behind the last chunk"
    DONE = "nothing more"


class Body:
    """The body of one request: so many bytes, or chunks (RFC 9112, sections 6 and 7.1)."""

    __slots__ = ("_is_chunked", "_left", "_line", "_part", "_trailers_bytes", "size_bytes")

    def __init__(self, length: int | None) -> None:
        self._is_chunked = length is None
        self._left = length or 0
        self._part = _Part.SIZE if length is None else _Part.CONTENT if length else _Part.DONE
        self._line = bytearray()
        self._trailers_bytes = 0
        self.size_bytes = 0
        """Bytes of content so far."""

    @property
    def is_done(self) -> bool:
        """Whether all of it has come."""
        return self._part is _Part.DONE

    @property
    def held_bytes(self) -> int:
        """Bytes of an incomplete line."""
        return len(self._line)

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Take bytes; return their content, and the bytes behind the body.

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
