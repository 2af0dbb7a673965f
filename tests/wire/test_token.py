"""TOKEN: what is written is what is read; a token is in no representation and in no error."""

from __future__ import annotations

import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.frame import encode_frame
from peers.wire.control import (
    TOKEN_LIMIT_BYTES,
    Notice,
    Renewal,
    check_token,
    decode_notice,
    decode_token,
    encode_notice,
    encode_token,
)
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from tests.wire.pair import CLIENT_HELLO, frames_of, side_of

SECRET = "hub_c2VjcmV0"
CLIENT = {"protocol": 1, "role": "client"}


@given(st.builds(Renewal, st.integers(0, 2**63), st.text(max_size=50)))
def test_round_trip(renewal: Renewal) -> None:
    (frame,) = frames_of(encode_token(renewal))
    assert frame.kind == Kind.TOKEN
    assert msgpack.unpackb(frame.body) == list(renewal)
    assert decode_token(frame.body) == renewal


BAD = {
    "empty": (b"", 0, ""),
    "a map": (msgpack.packb({"token": SECRET}), 0, "array"),
    "no number": (msgpack.packb([SECRET]), 0, "array"),
    "a number below 0": (msgpack.packb([-1, SECRET]), 0, "$[0]"),
    "numbers alone": (msgpack.packb([7, 8]), 7, "str"),
    "binary": (msgpack.packb([7, SECRET.encode()]), 7, "str"),
    "not UTF-8": (b"\x92\x07\xa4hub\xff", 7, "not UTF-8"),
    "three": (msgpack.packb([7, SECRET, SECRET]), 7, "array"),
    "cut off": (msgpack.packb([7, SECRET])[:-1], 7, ""),
    "huge": (msgpack.packb([7, SECRET * TOKEN_LIMIT_BYTES]), 7, f"the limit is {TOKEN_LIMIT_BYTES} bytes"),
    "a text of four billion": (b"\x92\x07\xdb\xff\xff\xff\xff", 7, ""),
}


@pytest.mark.parametrize(("body", "request_", "cause"), BAD.values(), ids=BAD.keys())
def test_a_bad_token_is_refused(body: bytes, request_: int, cause: str) -> None:
    side = side_of("hub")
    side.hear(CLIENT_HELLO.encode() + encode_frame(Kind.TOKEN, body) + encode_token(Renewal(9, SECRET)))
    assert side.events == [CLIENT_HELLO, Renewal(9, SECRET)]
    (frame,) = frames_of(side.session.take_outgoing())
    notice = decode_notice(frame.body)
    assert (notice.kind, notice.request) == ("error", request_)
    assert notice.code in {CloseCode.BAD_DATA, CloseCode.TOO_BIG}
    assert cause in notice.text
    assert SECRET not in notice.text


def test_the_longest_token() -> None:
    assert check_token("x" * TOKEN_LIMIT_BYTES)
    for token in ("x" * (TOKEN_LIMIT_BYTES + 1), "é" * (TOKEN_LIMIT_BYTES // 2 + 1)):
        with pytest.raises(RejectedError, match="bytes, the limit is"):
            check_token(token)
        with pytest.raises(ProtocolError, match=r"HELLO: a token of \d+ bytes"):
            Hello.decode(msgpack.packb(CLIENT | {"token": token}))


def test_hello_before_and_behind() -> None:
    for stream in (encode_token(Renewal(1, SECRET)), CLIENT_HELLO.encode() + CLIENT_HELLO.encode()):
        side = side_of("hub")
        side.hear(stream)
        (closing,) = side.closings
        assert closing.code == CloseCode.PROTOCOL_ERROR
        assert closing.text in {"TOKEN is not expected before HELLO", "HELLO is not expected with a client"}


def test_a_token_is_not_remembered() -> None:
    side = side_of("hub")
    side.hear(Hello(protocol=1, role="client", name="me", token=SECRET, narrow=True).encode())
    (hello,) = side.events
    assert isinstance(hello, Hello)
    assert hello.token == SECRET
    assert side.session.far == Hello(protocol=1, role="client", name="me", narrow=True)
    assert SECRET not in f"{hello} {hello!r} {Renewal(7, SECRET)} {Renewal(7, SECRET)!r}"


@pytest.mark.parametrize("token", [7, None, SECRET.encode(), [SECRET], {"token": SECRET}])
def test_a_hello_with_a_token_that_is_no_text(token: object) -> None:
    with pytest.raises(ProtocolError) as refused:
        Hello.decode(msgpack.packb(CLIENT | {"token": token}))
    assert "token" in refused.value.text
    assert SECRET not in refused.value.text


@given(st.binary(max_size=60))
def test_a_token_of_noise(noise: bytes) -> None:
    head = msgpack.packb(CLIENT)
    body = bytes((head[0] + 1,)) + head[1:] + b"\xa5token" + b"\xd9" + bytes((len(noise),)) + noise
    with contextlib.suppress(ProtocolError):
        assert Hello.decode(body).token.encode() == noise


def test_until() -> None:
    hello = Hello(protocol=1, role="hub", id=bytes(16), until=59.5)
    assert Hello.decode(frames_of(hello.encode())[0].body).until == 59.5
    assert Hello.decode(frames_of(Hello(protocol=1, role="hub", id=bytes(16)).encode())[0].body).until is None
    confirmed = Notice("confirmed", request=7, until=0.5)
    assert decode_notice(frames_of(encode_notice(confirmed))[0].body) == confirmed
