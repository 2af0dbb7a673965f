"""The body of ORIGIN, and what it means where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, ProtocolError
from hub.frame import encode_frame
from hub.origin import Origin
from peers.wire.control import decode_origin, encode_origin
from peers.wire.events import Closing
from peers.wire.kinds import Kind
from tests.wire.pair import HUB_HELLO, HUB_ID, Side, frames_of, message, runs_in, side_of


def linked() -> Side:
    side = side_of("hub")
    side.hear(HUB_HELLO.encode())
    side.events.clear()
    return side


@given(st.builds(Origin, st.binary(min_size=16, max_size=16), st.integers(0, 2**32 - 1), st.just(0)))
def test_round_trip(origin: Origin) -> None:
    (frame,) = frames_of(encode_origin(origin))
    assert (frame.kind, frame.flags, frame.key) == (Kind.ORIGIN, 0, b"")
    assert frame.body == origin.hub + origin.epoch.to_bytes(4, "big")
    assert decode_origin(frame.body) == origin


@given(st.builds(Origin, st.binary(min_size=16, max_size=16), st.integers(0, 2**32 - 1), st.integers(1, 2**64 - 1)))
def test_a_mark(origin: Origin) -> None:
    (frame,) = frames_of(encode_origin(origin))
    assert frame.body == origin.hub + origin.epoch.to_bytes(4, "big") + origin.mark.to_bytes(8, "big")
    assert decode_origin(frame.body) == origin


@pytest.mark.parametrize("size", [0, 16, 19, 21, 27, 29])
def test_another_size(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"ORIGIN: {size} bytes, expected 20") as error:
        decode_origin(bytes(size))
    assert error.value.code == CloseCode.PROTOCOL_ERROR
    side = linked()
    side.hear(encode_frame(Kind.ORIGIN, bytes(size)) + message(b"/a"))
    text = f"ORIGIN: {size} bytes, expected 20"
    assert side.events == [Closing(CloseCode.PROTOCOL_ERROR, text, by_far_side=False)]


def test_it_stands_between_messages() -> None:
    side = linked()
    origin = Origin(HUB_ID, 2**32 - 1)
    side.hear(message(b"/a") * 2 + encode_origin(origin) + message(b"/a") * 3)
    before, between, behind = side.events
    assert between == origin
    assert [run.messages for event in (before, behind) for run in runs_in(event)] == [2, 3]
    assert not side.session.closed
