"""Heads of requests: what is read, and what could be understood in two ways."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.websocket.http_session import (
    LINE_LIMIT_BYTES,
    TRAILERS_LIMIT_BYTES,
    BadRequestError,
    Body,
    keeps_open,
    read_head,
)
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
