"""`HttpSession`: the rules of a connection on which requests follow one another. Bytes in, events out, no I/O.

```
HEAD ─Asked─▶ HELD ─ respond ───────────────────────────────▶ HEAD, or CLOSED where one of the sides wants that
                └─── receive ─▶ BODY ─ Part …, Done ─▶ HELD ┘     └─ Refused ─▶ HELD, to be answered and closed
                └─── stream ──▶ STREAM ─▶ CLOSED            input is thrown away
```

Input is read in pieces, so that the connection decides when: `Piece` says that there is one, until `read` was called. A
request behind another is not read before that is answered. At most a head of `head_limit_bytes`, or one value or line
of a body, is held; an unreadable request is answered once, and nothing behind it is taken for a request.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from enum import Enum
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from websockets.exceptions import HeaderLineTooLong, RequestLineTooLong, TooManyHeaders
from websockets.http11 import Request

from hub.errors import CloseCode
from peers.transport.fragments import pieces_of
from peers.websocket.http_content import Content, ContentError, Values
from peers.wire.scanner import NEED_DATA, NeedData

HEAD_END = b"\r\n\r\n"

_SHOWN_CHARACTERS = 200  # characters of the library's reason that are repeated, as it may quote a whole line

_FRAMING = re.compile(rb"(content-length|transfer-encoding):(.*)\r\n", re.IGNORECASE)

_DIGITS = re.compile(rb"[0-9]{1,18}")


class BadRequestError(Exception):
    """No request that can be answered otherwise."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


def _bad(text: str) -> BadRequestError:
    return BadRequestError(HTTPStatus.BAD_REQUEST, text)


class Head(NamedTuple):
    """The head of a request."""

    request: Request  # without the fields with the length of the body
    length: int | None  # bytes of the body; None if it comes in chunks
    has_length: bool  # whether the request gives the length of its body

    @property
    def has_body(self) -> bool:
        return self.length != 0


def read_head(head: bytes) -> Head:
    """Read the head of a request, up to the empty line at its end: the one place for all requests.

    A second parser beside the library's might read the same bytes in another way (request smuggling). So the library
    reads every head, except for the two fields with the length of the body, in the strict reading of RFC 9112.

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
    except (ValueError, EOFError) as error:  # UnicodeDecodeError is a ValueError, too
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
    if codings:
        if lengths:
            raise _bad("Transfer-Encoding and Content-Length exclude each other")
        if request.protocol != "HTTP/1.1":
            raise _bad("Transfer-Encoding needs HTTP/1.1")
        if len(codings) > 1 or codings[0].lower() != b"chunked":
            raise BadRequestError(HTTPStatus.NOT_IMPLEMENTED, "Transfer-Encoding: only `chunked` is accepted")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1:
        raise _bad("several Content-Length headers")
    if not _DIGITS.fullmatch(lengths[0]):
        raise _bad("Content-Length is not a number")
    return int(lengths[0])


def path_of(request: Request) -> str:
    """Return the path of a request without the query, not decoded."""
    return request.path.partition("?")[0]


def keeps_open(request: Request) -> bool:
    options = ",".join(request.headers.get_all("Connection")).lower().split(",")
    return request.protocol == "HTTP/1.1" and "close" not in {option.strip() for option in options}


LINE_LIMIT_BYTES: Final = 256  # longest line in front of a chunk: its size takes 8 digits, the rest is for an extension
TRAILERS_LIMIT_BYTES: Final = 8 * 1024  # most bytes behind the last chunk

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")

_END = b"\r\n"


class _Part(Enum):
    SIZE = "the line with the size of a chunk"
    CONTENT = "content"
    CRLF = "the end of a chunk"
    TRAILERS = "the data behind the last chunk"
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
        self.size_bytes = 0  # bytes of content so far

    @property
    def is_done(self) -> bool:
        return self._part is _Part.DONE

    @property
    def held_bytes(self) -> int:
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
            raise _bad(f"chunked: {self._part.value} has more than {limit} bytes")
        if not end:
            return len(data)
        line = bytes(self._line)
        self._line.clear()
        if not line.endswith(_END):
            raise _bad("chunked: a line ends without CR LF")
        self._read_line(line[: -len(_END)])
        return end

    def _read_line(self, line: bytes) -> None:
        match self._part:
            case _Part.SIZE:
                found = _SIZE.fullmatch(line)
                if found is None:
                    raise _bad("chunked: the size of a chunk is not a hexadecimal number")
                self._left = int(found[1], 16)
                self._part = _Part.CONTENT if self._left else _Part.TRAILERS
            case _Part.CRLF:
                if line:
                    raise _bad("chunked: a chunk is longer than it says")
                self._part = _Part.SIZE
            case _:
                self._trailers_bytes += len(line) + len(_END)
                if self._trailers_bytes > TRAILERS_LIMIT_BYTES:
                    raise _bad(f"chunked: {self._part.value} has more than {TRAILERS_LIMIT_BYTES} bytes")
                if not line:
                    self._part = _Part.DONE


# The session.

_BYTES_PER_EVENT = 512  # bytes of a body that are read at the cost of an event: 5 lines, about 5 µs
_HEAD_COST = 8  # events that a request costs: about 100 µs


class Piece(NamedTuple):
    """A piece is there to be read: call `read`."""

    cost: int


class Asked(NamedTuple):
    """A request has come. Answer it by `respond`, `receive` or `stream`."""

    head: Head


class Done(NamedTuple):
    """The body is complete."""


class Refused(NamedTuple):
    """A bad request: answer so, and close."""

    status: HTTPStatus
    code: CloseCode
    text: str
    line: int = 0  # the wrong line of the body, from 1; 0 for none


Event = Piece | Asked | Values | Done | Refused


class Phase(Enum):
    """Where a connection stands."""

    HEAD = "a request is expected"
    HELD = "a request is to be answered"
    BODY = "its body is read"
    STREAM = "events are written"
    CLOSED = "closed"


class PieceSession:
    """The part of a session that reads and writes: bytes are read in pieces, and a request up to its empty line."""

    __slots__ = ("_events", "_head", "_head_limit_bytes", "_outgoing", "_unread")

    has_more = True  # `next_event` has to be asked
    rejected_messages = 0

    def __init__(self, head_limit_bytes: int) -> None:
        self._head_limit_bytes = head_limit_bytes
        self._head = bytearray()  # the beginning of a request
        self._unread: list[bytes | memoryview] = []  # few: a deque takes 600 bytes in each idle client
        self._events: Iterator[Any] = iter(())  # the events in the piece that is being read
        self._outgoing: list[bytes] = []

    @property
    def has_outgoing(self) -> bool:
        return bool(self._outgoing)

    def take_outgoing(self) -> bytes:
        outgoing, self._outgoing = self._outgoing, []
        return b"".join(outgoing)

    @property
    def unfinished(self) -> int:
        """The number of the message whose last fragment has not come; 0 if there is none."""
        return 0

    @property
    def _unread_bytes(self) -> int:
        return len(self._head) + sum(map(len, self._unread))

    def _forget(self) -> None:
        """Drop all bytes. The iterator may be the caller, and then ends with its next event."""
        self._head = bytearray()
        self._unread.clear()
        self._events = iter(())

    def _cut_head(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Return a request and the bytes behind it, or None if it is not complete; a request over the limit as well."""
        head = self._head
        searched = max(0, len(head) - len(HEAD_END) + 1)
        head += data
        end = head.find(HEAD_END, searched)
        if end < 0 and len(head) <= self._head_limit_bytes:
            return None
        size = len(head) if end < 0 else end + len(HEAD_END)
        self._head = bytearray()
        return bytes(head[:size]), bytes(head[size:])


class HttpSession(PieceSession):
    """The hub's side of a connection."""

    __slots__ = ("_body", "_body_limit_bytes", "_content", "_is_head", "_is_last", "phase")

    _events: Iterator[Event]

    def __init__(self, head_limit_bytes: int, body_limit_bytes: int) -> None:
        super().__init__(head_limit_bytes)
        self._body_limit_bytes = body_limit_bytes
        self.phase = Phase.HEAD
        self._is_head = False  # whether the request is HEAD, whose answer has no body
        self._is_last = True  # whether the connection ends with this request
        self._body: Body | None = None
        self._content: Content | None = None  # the reader of the body; None outside of BODY

    # As a connection sees it.

    @property
    def closed(self) -> bool:
        return self.phase is Phase.CLOSED

    @property
    def held_bytes(self) -> int:
        body = 0 if self._body is None else self._body.held_bytes
        content = 0 if self._content is None else self._content.held_bytes
        return self._unread_bytes + body + content

    def feed(self, data: bytes) -> None:
        """Take a read, unless input is thrown away."""
        if self.phase is not Phase.STREAM and self.phase is not Phase.CLOSED:
            self._unread.extend(pieces_of(data))

    def next_event(self) -> Event | NeedData:
        """Return the next event. Bad input raises nothing: it leads to `Refused`."""
        for event in self._events:
            return event
        if not self._unread or self.phase is Phase.HELD:
            return NEED_DATA
        return Piece(_HEAD_COST if self.phase is Phase.HEAD else 1 + len(self._unread[0]) // _BYTES_PER_EVENT)

    def read(self) -> None:
        if self._unread:
            data = bytes(self._unread.pop(0))
            self._events = self._read_head(data) if self.phase is Phase.HEAD else self._read_body(data)

    # Requests.

    def begin(self, head: Head, rest: bytes) -> None:
        """Go on with a request that another session has read, and with the bytes behind it."""
        if rest:
            self._unread.insert(0, rest)
        self._events = iter((self._asked(head),))

    def _asked(self, head: Head) -> Asked:
        self.phase = Phase.HELD
        self._is_head = head.request.method == "HEAD"
        self._is_last = head.has_body or not keeps_open(head.request)  # after an early answer the body is unread
        return Asked(head)

    def _read_head(self, data: bytes) -> Iterator[Event]:
        cut = self._cut_head(data if self._head else data.lstrip(b"\r\n"))  # as RFC 9112 asks for, section 2.2
        if cut is None:
            return
        whole, rest = cut
        if len(whole) > self._head_limit_bytes:
            text = f"the request is over {self._head_limit_bytes} bytes"
            yield self._refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, CloseCode.TOO_BIG, text)
            return
        if rest:
            self._unread.insert(0, rest)
        try:
            found = read_head(whole)
        except BadRequestError as error:
            yield self._refused(error.status, CloseCode.PROTOCOL_ERROR, error.text)
            return
        yield self._asked(found)

    def receive(self, head: Head, content: Content) -> Refused | None:
        """Read the body of the request; return an answer instead if it is too large."""
        if head.length is not None and head.length > self._body_limit_bytes:
            return self._too_large()
        if head.request.headers.get_all("Expect"):
            self._outgoing.append(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._is_last = not keeps_open(head.request)
        self._body, self._content = Body(head.length), content
        self.phase = Phase.BODY
        if self._body.is_done:
            self._events = self._read_body(b"")
        return None

    def _read_body(self, data: bytes) -> Iterator[Event]:
        body, content = self._body, self._content
        if body is None or content is None:
            return
        try:
            plain, rest = body.take(data)
            if body.size_bytes > self._body_limit_bytes:
                yield self._too_large()
                return
            if rest:
                self._unread.insert(0, rest)
            yield from content.take(plain)
            if body.is_done:
                yield from content.finish()
                self._body = self._content = None
                self.phase = Phase.HELD
                yield Done()
        except BadRequestError as error:
            yield self._refused(error.status, CloseCode.PROTOCOL_ERROR, error.text)
        except ContentError as error:
            status = HTTPStatus.BAD_REQUEST
            if error.code == CloseCode.TOO_BIG:
                status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            yield self._refused(status, error.code, error.text, error.line)

    def _too_large(self) -> Refused:
        text = f"a body of more than {self._body_limit_bytes} bytes, which is http.body_bytes"
        return self._refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, CloseCode.TOO_BIG, text)

    def _refused(self, status: HTTPStatus, code: CloseCode, text: str, line: int = 0) -> Refused:
        """Read nothing more."""
        self._is_last = True
        self._forget()
        self.phase = Phase.HELD
        return Refused(status, code, text, line)

    def _forget(self) -> None:
        super()._forget()
        self._body = self._content = None

    # Answers.

    def respond(self, status: HTTPStatus, headers: Mapping[str, str], body: bytes = b"") -> bool:
        """Answer the request; return whether the client may ask again, which headers may deny."""
        is_last = self._is_last or self.phase is Phase.BODY or headers.get("Connection") == "close"
        fields = {"Content-Length": str(len(body))} if status is not HTTPStatus.NO_CONTENT else {}
        text = _encode_head(status, fields | dict(headers), is_last=is_last)
        self._outgoing.append(text if self._is_head else text + body)
        self._is_head = False
        if is_last:
            self.close()
        else:
            self._events = iter(())
            self._body = self._content = None
            self.phase = Phase.HEAD
        self._is_last = True
        return not is_last

    def stream(self, headers: Mapping[str, str]) -> None:
        self._outgoing.append(_encode_head(HTTPStatus.OK, headers, is_last=True))
        self._forget()
        self.phase = Phase.STREAM

    def say(self, text: bytes) -> None:
        if self.phase is Phase.STREAM:
            self._outgoing.append(text)

    def close(self) -> None:
        self._forget()
        self.phase = Phase.CLOSED


def _encode_head(status: HTTPStatus, headers: Mapping[str, str], *, is_last: bool) -> bytes:
    fields = dict(headers) | ({"Connection": "close"} if is_last else {})
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status.value} {status.phrase}\r\n{lines}\r\n".encode("latin-1")
