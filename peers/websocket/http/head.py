"""`read_head`: the one place where an HTTP request is read, for WebSockets, the page, publishing and events.

```
head ─▶ lines ─┬─ Content-Length, Transfer-Encoding ─▶ how long the body is, in the strict reading of RFC 9112
               └─ all other lines ─▶ websockets' `Request.parse`, which knows no bodies
```

The library that reads the handshake of a WebSocket refuses requests with bodies. A second parser beside it might read
the same bytes in another way, which is what request smuggling lives on. So the library reads every head, but for the
two fields that say how long the body is: these are withheld from it and read here, where whatever could be understood
in two ways is refused.

No state, no I/O. Cost: about 60 µs. Not here: bodies (`peers.websocket.http.body`), who may ask.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from http import HTTPStatus
from typing import NamedTuple

from websockets.exceptions import HeaderLineTooLong, RequestLineTooLong, TooManyHeaders
from websockets.http11 import Request

__all__ = ["HEAD_END", "BadRequestError", "Head", "keeps_open", "read_head"]

HEAD_END = b"\r\n\r\n"

_SHOWN_CHARACTERS = 200
"""How much of the library's reason is repeated, as it may quote a whole line of the request."""

_FRAMING = re.compile(rb"(content-length|transfer-encoding):(.*)\r\n", re.IGNORECASE)

_DIGITS = re.compile(rb"[0-9]{1,18}")


class BadRequestError(Exception):
    """What has come is no request that can be answered otherwise."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


class Head(NamedTuple):
    """The head of a request."""

    request: Request
    """Without the fields that say how long the body is."""
    length: int | None
    """Bytes of the body; None if it comes in chunks."""
    has_length: bool
    """Whether the request says how long its body is."""

    @property
    def has_body(self) -> bool:
        """Whether a body follows."""
        return self.length != 0


def read_head(head: bytes) -> Head:
    """Read the head of a request, up to the empty line at its end.

    Raises:
        BadRequestError: It is none; the text says why, and quotes nothing of a head that may hold a token.
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
    """Return the lines with their ends, as they are cut by LF alone: a line that ends otherwise is refused as one."""
    lines = [line + b"\n" for line in head.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _length(request: Request, lengths: list[bytes], codings: list[bytes]) -> int | None:
    """Return how long the body is; None for chunks."""
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
