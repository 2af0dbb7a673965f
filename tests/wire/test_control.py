"""The bodies of small frames: what is written is what is read, within their limits."""

from __future__ import annotations

import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ProtocolError, RejectedError
from hub.frame import Frame
from peers.wire.control import (
    CLOSE_TEXT_LIMIT_BYTES,
    PREFIXES_LIMIT,
    Notice,
    decode_close,
    decode_notice,
    decode_subscription,
    encode_close,
    encode_notice,
    encode_subscription,
)
from peers.wire.kinds import Kind
from tests.wire.pair import frames_of


def only(frame: bytes) -> Frame:
    (found,) = frames_of(frame)
    assert (found.flags, found.key) == (0, b"")
    return found


@given(
    notice=st.builds(
        Notice,
        kind=st.sampled_from(["confirmed", "dropped", "error"]),
        request=st.integers(0, 2**63),
        count=st.integers(0, 2**63),
        code=st.integers(0, 65_535),
        text=st.text(max_size=30),
    )
)
def test_notice_round_trip(notice: Notice) -> None:
    frame = only(encode_notice(notice))
    assert frame.kind == Kind.NOTICE
    assert decode_notice(frame.body) == notice


def test_a_notice_leaves_out_what_it_has_nothing_to_say_of() -> None:
    assert msgpack.unpackb(only(encode_notice(Notice("dropped", count=3))).body) == {"kind": "dropped", "count": 3}


@given(
    kind=st.sampled_from([Kind.SUBSCRIBE, Kind.UNSUBSCRIBE]),
    prefixes=st.lists(st.text(max_size=10)),
    request=st.integers(0, 2**63),
)
def test_subscription_round_trip(kind: Kind, prefixes: list[str], request: int) -> None:
    frame = only(encode_subscription(kind, prefixes, request))
    assert frame.kind == kind
    assert msgpack.unpackb(frame.body) == [request, prefixes]
    assert decode_subscription(kind, frame.body) == (request, prefixes)


def test_a_frame_of_too_many_prefixes() -> None:
    most = only(encode_subscription(Kind.SUBSCRIBE, ["/a"] * PREFIXES_LIMIT)).body
    assert len(decode_subscription(Kind.SUBSCRIBE, most)[1]) == PREFIXES_LIMIT
    for body in (
        only(encode_subscription(Kind.SUBSCRIBE, ["/a"] * (PREFIXES_LIMIT + 1))).body,
        b"\x92\x00\xdd\xff\xff\xff\xff" + b"\xa0" * 100,
    ):
        with pytest.raises(RejectedError, match="length <= 10000"):
            decode_subscription(Kind.SUBSCRIBE, body)


@given(body=st.binary(max_size=50))
def test_any_body_of_a_subscription(body: bytes) -> None:
    with contextlib.suppress(RejectedError):
        request, prefixes = decode_subscription(Kind.SUBSCRIBE, body)
        assert 0 <= request < 1 << 32
        assert all(isinstance(prefix, str) for prefix in prefixes)


@given(body=st.binary(max_size=50))
def test_any_body_of_a_notice(body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert decode_notice(body).kind in {"confirmed", "dropped", "error"}


@given(code=st.integers(0, 65_535), text=st.text(max_size=200))
def test_close_round_trip(code: int, text: str) -> None:
    frame = only(encode_close(code, text))
    assert frame.kind == Kind.CLOSE
    assert len(frame.body) <= 2 + CLOSE_TEXT_LIMIT_BYTES
    found_code, found = decode_close(frame.body)
    assert found_code == code
    assert text.startswith(found)
    if len(text.encode()) <= CLOSE_TEXT_LIMIT_BYTES:
        assert found == text
    else:
        assert len(found.encode()) > CLOSE_TEXT_LIMIT_BYTES - 4


def test_a_text_that_has_no_utf8_form() -> None:
    assert decode_close(only(encode_close(1002, "no \udcff")).body) == (1002, "no ?")


@pytest.mark.parametrize("body", [b"", b"\x03"])
def test_a_close_without_a_code(body: bytes) -> None:
    with pytest.raises(ProtocolError, match=f"{len(body)} bytes, a code has 2"):
        decode_close(body)
