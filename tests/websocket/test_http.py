"""Heads of requests: what is read, and what could be understood in two ways."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode
from peers.websocket.http_content import Content, Values, content_of
from peers.websocket.http_session import (
    LINE_LIMIT_BYTES,
    TRAILERS_LIMIT_BYTES,
    Asked,
    BadRequestError,
    Body,
    Done,
    Event,
    HttpSession,
    Phase,
    Piece,
    Refused,
    keeps_open,
    read_head,
)
from peers.wire.scanner import NEED_DATA
from tests.hubs.raw_websocket import request


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        ((), 0),
        (("Content-Length: 0",), 0),
        (("Content-Length: 17",), 17),
        (("content-length:17  ",), 17),
        (("Transfer-Encoding: chunked",), None),
        (("TRANSFER-ENCODING: Chunked",), None),
    ],
)
def test_how_long_the_body_is(lines: tuple[str, ...], length: int | None) -> None:
    head = read_head(request("/v1/publish/a?x=1", "POST", "X-Other: 1", *lines))
    assert (head.length, head.has_length, head.has_body) == (length, bool(lines), length != 0)
    assert (head.request.method, head.request.path) == ("POST", "/v1/publish/a?x=1")
    assert head.request.headers["X-Other"] == "1"


SMUGGLED = [
    (("Content-Length: 5", "Transfer-Encoding: chunked"), HTTPStatus.BAD_REQUEST),
    (("Transfer-Encoding: chunked", "Content-Length: 5"), HTTPStatus.BAD_REQUEST),
    (("Content-Length: 5", "Content-Length: 5"), HTTPStatus.BAD_REQUEST),
    (("Content-Length: 5", "Content-Length: 6"), HTTPStatus.BAD_REQUEST),
    (("Content-Length: 5, 5",), HTTPStatus.BAD_REQUEST),
    (("Content-Length: +5",), HTTPStatus.BAD_REQUEST),
    (("Content-Length: -5",), HTTPStatus.BAD_REQUEST),
    (("Content-Length: 0x5",), HTTPStatus.BAD_REQUEST),
    (("Content-Length: 5_0",), HTTPStatus.BAD_REQUEST),
    (("Content-Length: \u0665",), HTTPStatus.BAD_REQUEST),
    (("Content-Length:",), HTTPStatus.BAD_REQUEST),
    (("Content-Length: " + "9" * 40,), HTTPStatus.BAD_REQUEST),
    (("Content-Length : 5",), HTTPStatus.BAD_REQUEST),
    ((" Content-Length: 5",), HTTPStatus.BAD_REQUEST),
    (("X-A: 1", " Content-Length: 5"), HTTPStatus.BAD_REQUEST),
    (("X-A: 1\nContent-Length: 5",), HTTPStatus.BAD_REQUEST),
    (("X-A: 1\rContent-Length: 5",), HTTPStatus.BAD_REQUEST),
    (("Content-Length: 5\n",), HTTPStatus.BAD_REQUEST),
    (("Content-Length: 5\r",), HTTPStatus.BAD_REQUEST),
    (("Content-Length: 5\0",), HTTPStatus.BAD_REQUEST),
    (("Transfer-Encoding: chunked, identity",), HTTPStatus.NOT_IMPLEMENTED),
    (("Transfer-Encoding: gzip, chunked",), HTTPStatus.NOT_IMPLEMENTED),
    (("Transfer-Encoding: xchunked",), HTTPStatus.NOT_IMPLEMENTED),
    (("Transfer-Encoding:\x0bchunked",), HTTPStatus.NOT_IMPLEMENTED),
    (("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), HTTPStatus.NOT_IMPLEMENTED),
    (("Transfer-Encoding : chunked",), HTTPStatus.BAD_REQUEST),
    (("Transfer-Encoding\t: chunked",), HTTPStatus.BAD_REQUEST),
    (("X: [\nTransfer-Encoding: chunked",), HTTPStatus.BAD_REQUEST),
]


@pytest.mark.parametrize(("lines", "status"), SMUGGLED)
def test_what_two_readers_could_understand_differently(lines: tuple[str, ...], status: HTTPStatus) -> None:
    head = "\r\n".join(("POST /v1/publish/a HTTP/1.1", "Host: a", *lines, "", "")).encode("utf-8")
    with pytest.raises(BadRequestError) as refused:
        read_head(head)
    assert refused.value.status is status


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/2.0\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET  / HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"Content-Length: 5\r\nGET / HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", HTTPStatus.REQUEST_URI_TOO_LONG),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 200 + b"\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"GET / HTTP/1.1\r\nContent-Length: " + b"5" * 9000 + b"\r\n\r\n", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ],
)
def test_no_requests(head: bytes, status: HTTPStatus) -> None:
    with pytest.raises(BadRequestError) as refused:
        read_head(head)
    assert refused.value.status is status


def test_a_line_that_may_hold_a_token_is_not_repeated() -> None:
    with pytest.raises(BadRequestError) as refused:
        read_head(b"GET / HTTP/1.1\r\nAuthorization Bearer secret\r\n\r\n")
    assert "secret" not in refused.value.text


@pytest.mark.parametrize(
    ("line", "version", "keeps"),
    [
        ("X: 1", "HTTP/1.1", True),
        ("Connection: close", "HTTP/1.1", False),
        ("Connection: TE, Close", "HTTP/1.1", False),
        ("Connection: keep-alive", "HTTP/1.1", True),
        ("Connection: keep-alive", "HTTP/1.0", False),
    ],
)
def test_who_may_ask_again(line: str, version: str, *, keeps: bool) -> None:
    assert keeps_open(read_head(request("/", "GET", line, version=version)).request) is keeps


def read(body: Body, *pieces: bytes) -> tuple[bytes, bytes]:
    content, rest = b"", b""
    for piece in pieces:
        assert not rest
        more, rest = body.take(piece)
        content += more
    return content, rest


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n" + trailers + b"\r\n"


def test_a_length() -> None:
    body = Body(5)
    assert read(body, b"he", b"lloGET") == (b"hello", b"GET")
    assert (body.is_done, body.size_bytes) == (True, 5)
    assert Body(0).is_done


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.integers(1, 30), st.binary(max_size=9))
def test_chunks_cut_anywhere(chunks: list[bytes], step: int, behind: bytes) -> None:
    stream = chunked(*chunks, trailers=b"X: 1\r\n") + behind
    body, content, rest = Body(None), b"", b""
    for at in range(0, len(stream), step):
        piece = stream[at : at + step]
        if body.is_done:
            rest += piece
            continue
        more, rest = body.take(piece)
        content += more
    assert (content, rest, body.is_done) == (b"".join(chunks), behind, True)
    assert body.size_bytes == len(content)


@pytest.mark.parametrize(
    "stream",
    [
        b"\r\n",
        b"g\r\n",
        b"-3\r\nabc\r\n",
        b"+3\r\nabc\r\n",
        b"0x3\r\nabc\r\n",
        b" 3\r\nabc\r\n",
        b"3_0\r\n",
        b"3\nabc\r\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n",
        b"3\r\nabcX\r\n",
        b"123456789\r\n",
        b"3;\x00\r\n",
        b"3;a\rb\r\n",
        b"0\r\nX: 1\n\r\n",
        b"1" * (LINE_LIMIT_BYTES + 1),
        b"0\r\n" + b"x" * (TRAILERS_LIMIT_BYTES + 1),
        b"0\r\n" + b"X: 1\r\n" * TRAILERS_LIMIT_BYTES,
    ],
)
def test_chunks_that_make_no_sense(stream: bytes) -> None:
    for pieces in ([stream], [stream[at : at + 1] for at in range(len(stream))]):
        with pytest.raises(BadRequestError):
            read(Body(None), *pieces)


HEAD_LIMIT = 4096
BODY_LIMIT = 100_000


def post(body: bytes, *lines: str, kind: str = "application/json") -> bytes:
    return request("/v1/publish/a", "POST", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *lines) + body


def content(kind: str) -> Content:
    found = content_of(kind, BODY_LIMIT)
    assert found is not None
    return found


class Talk:
    def __init__(self) -> None:
        self.session = HttpSession(HEAD_LIMIT, BODY_LIMIT)

    def say(self, data: bytes) -> list[Event]:
        self.session.feed(data)
        found = []
        while (event := self.session.next_event()) is not NEED_DATA:
            assert not isinstance(event, type(NEED_DATA))
            if isinstance(event, Piece):
                self.session.read()
                continue
            found.append(event)
            self._act(event)
        return found

    def _act(self, event: Event) -> None:
        session = self.session
        match event:
            case Asked() if event.head.request.method == "POST":
                kind = event.head.request.headers.get("Content-Type", "application/json")
                assert session.receive(event.head, content(kind)) is None
            case Asked() | Done():
                session.respond(HTTPStatus.OK, {}, b"ok")
            case Refused():
                session.respond(event.status, {}, event.text.encode())


def test_requests_behind_one_another() -> None:
    talk = Talk()
    found = talk.say(post(b"1") + post(b'"two"') + request("/v1/events"))
    assert [type(event) for event in found] == [Asked, Values, Done, Asked, Values, Done, Asked]
    assert talk.session.take_outgoing() == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" * 3
    assert (talk.session.phase, talk.session.held_bytes) == (Phase.HEAD, 0)


@given(st.integers(1, 70))
def test_cut_anywhere_the_events_are_the_same(step: int) -> None:
    lines = b'{"a":1}\n[2]\n'
    chunks = b"5\r\n" + lines[:5] + b"\r\n7\r\n" + lines[5:] + b"\r\n0\r\n\r\n"
    kind = "Content-Type: application/x-ndjson"
    stream = post(b"1") + request("/v1/publish/b", "POST", kind, "Transfer-Encoding: chunked") + chunks + post(b"3")

    def told(events: list[Event]) -> tuple[list[bytes], int]:
        values = [one for event in events if isinstance(event, Values) for one in event.packed]
        return values, sum(isinstance(event, Done) for event in events)

    pieces = Talk()
    found = [event for at in range(0, len(stream), step) for event in pieces.say(stream[at : at + step])]
    assert told(found) == told(Talk().say(stream)) == ([b"\x01", b"\x81\xa1a\x01", b"\x91\x02", b"\x03"], 3)


def test_a_client_that_waits_to_be_told() -> None:
    talk = Talk()
    head, body = post(b"1", "Expect: 100-continue")[:-1], b"1"
    talk.say(head)
    assert talk.session.take_outgoing() == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert [type(event) for event in talk.say(body)] == [Values, Done]


@pytest.mark.parametrize(
    ("stream", "status", "code"),
    [
        (b"GET / HTTP/1.1\r\nX: " + b"y" * HEAD_LIMIT, 431, CloseCode.TOO_BIG),
        (b"y" * (HEAD_LIMIT + 1), 431, CloseCode.TOO_BIG),
        (b"GET\r\n\r\n", 400, CloseCode.PROTOCOL_ERROR),
        (post(b"{"), 400, CloseCode.BAD_DATA),
        (request("/v1/publish/a", "POST", "Transfer-Encoding: chunked") + b"x\r\n", 400, CloseCode.PROTOCOL_ERROR),
        (
            request("/v1/publish/a", "POST", "Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")
            + (b"4\r\n1\r\n\n\r\n" * BODY_LIMIT),
            413,
            CloseCode.TOO_BIG,
        ),
    ],
)
def test_what_makes_no_sense_is_the_last(stream: bytes, status: int, code: CloseCode) -> None:
    talk = Talk()
    found = talk.say(stream + post(b"1"))
    (refused,) = [event for event in found if isinstance(event, Refused)]
    assert found[-1] == refused
    assert (refused.status, refused.code) == (status, code)
    answer = talk.session.take_outgoing()
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in answer
    assert talk.session.closed
    assert talk.say(post(b"1")) == []


def test_an_answer_before_the_body_closes() -> None:
    session = HttpSession(HEAD_LIMIT, BODY_LIMIT)
    session.feed(post(b"GET / HTTP/1.1\r\n\r\n"))
    session.next_event()
    session.read()
    assert isinstance(session.next_event(), Asked)
    assert not session.respond(HTTPStatus.UNAUTHORIZED, {})
    assert (session.closed, session.next_event()) == (True, NEED_DATA)


def test_a_stream() -> None:
    session = HttpSession(HEAD_LIMIT, BODY_LIMIT)
    session.feed(request("/v1/events") + b"more")
    session.next_event()
    session.read()
    session.next_event()
    session.stream({"Content-Type": "text/event-stream"})
    session.say(b"data: 1\n\n")
    session.feed(bytes(1000))
    assert session.next_event() is NEED_DATA
    assert session.take_outgoing().endswith(b"text/event-stream\r\nConnection: close\r\n\r\ndata: 1\n\n")
    session.close()
    session.say(b"data: 2\n\n")
    assert not session.has_outgoing


@given(
    st.lists(st.binary(max_size=60) | st.sampled_from([post(b"1"), b"\r\n\r\n", b"POST /v1/publish/a HTTP/1.1\r\n"]))
)
def test_any_input(pieces: list[bytes]) -> None:
    talk = Talk()
    for piece in pieces:
        talk.say(piece)
        assert talk.session.held_bytes <= HEAD_LIMIT + BODY_LIMIT
        talk.session.take_outgoing()


@pytest.mark.parametrize("end", ["closed", "answered", "refused", "stream"])
def test_a_session_that_is_over_holds_nothing(end: str) -> None:
    talk = Talk()
    session = talk.session
    talk.say(post(bytes(60_000))[:30_000])
    session.feed(bytes(1000))
    match end:
        case "closed":
            session.close()
        case "answered":
            session.respond(HTTPStatus.OK, {"Connection": "close"})
        case "refused":
            talk.say(bytes(BODY_LIMIT))
            session.respond(HTTPStatus.BAD_REQUEST, {})
        case _:
            session.stream({})
    session.feed(bytes(100_000))
    assert session.held_bytes == 0
