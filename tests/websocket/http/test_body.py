"""Bodies: so many bytes, or chunks, and nothing that could be understood in two ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.websocket.http.head import LINE_LIMIT_BYTES, TRAILERS_LIMIT_BYTES, BadRequestError, Body


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


def test_an_extension_is_passed_over() -> None:
    assert read(Body(None), b'3 ;x="y"\r\nabc\r\n000\r\n\r\nrest') == (b"abc", b"rest")


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


def test_little_is_held() -> None:
    body = Body(None)
    body.take(b"ffffffff\r\n")
    for _ in range(100):
        body.take(bytes(10_000))
        assert body.held_bytes == 0
    assert (body.size_bytes, body.is_done) == (1_000_000, False)
