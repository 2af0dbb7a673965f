"""HELLO: what is said, what is taken, and what a queue's wish is granted."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode
from hub.limits import Overflow, QueueLimits
from hub.messages.frame import encode_frame
from peers.wire.hello import FRAME_LIMIT_BYTES, SOFTWARE, Hello, QueueWish, grant
from peers.wire.kinds import Kind
from tests.wire.pair import HUB_ID, frames_of, side_of

CLIENT = {"protocol": 1, "role": "client"}
HUB = {"protocol": 1, "role": "hub", "id": HUB_ID}


def nested(depth: int) -> bytes:
    return b"\x81\xa5token" + b"\x91" * depth + b"\xc0"


BAD = {
    "nil": (b"\xc0", "object"),
    "array": (b"\x90", "object"),
    "no role": (msgpack.packb({"protocol": 1}), "role"),
    "no protocol": (msgpack.packb({"role": "client"}), "protocol"),
    "protocol 0": (msgpack.packb(CLIENT | {"protocol": 0}), "protocol 0, this side speaks 1 to 1"),
    "bogus role": (msgpack.packb(CLIENT | {"role": "broker"}), "broker"),
    "hub without an id": (msgpack.packb({"protocol": 1, "role": "hub"}), "16 bytes"),
    "hub with a short id": (msgpack.packb(HUB | {"id": HUB_ID[:15]}), "16 bytes"),
    "long name": (msgpack.packb(CLIENT | {"name": "n" * 65}), "name is over 64 bytes"),
    "long name in bytes": (msgpack.packb(CLIENT | {"name": "é" * 33}), "name is over 64 bytes"),
    "name is not UTF-8": (b"\x81\xa4name\xa1\xff", ""),
    "queue of none": (msgpack.packb(CLIENT | {"queue": {"messages": 0}}), "queue.messages"),
    "queue of nothing": (msgpack.packb(CLIENT | {"queue": {"bytes": -1}}), "queue.bytes"),
    "unknown policy": (msgpack.packb(CLIENT | {"queue": {"overflow": "drop-all"}}), "queue.overflow"),
    "mesh below nothing": (msgpack.packb(HUB | {"mesh": -1}), "mesh"),
    "frame of nothing": (msgpack.packb(CLIENT | {"frame": 0}), "frame"),
    "nested 60,000 deep": (nested(60_000), ""),
    "a long token": (msgpack.packb(CLIENT | {"token": "é" * 8193}), "a token of 16386 bytes"),
    "trailing bytes": (msgpack.packb(CLIENT) + b"\x00", "trailing"),
    "cut off": (msgpack.packb(CLIENT)[:-1], ""),
}


@pytest.mark.parametrize(("body", "cause"), BAD.values(), ids=BAD.keys())
def test_a_bad_hello_ends_it(body: bytes, cause: str) -> None:
    side = side_of("hub")
    side.hear(encode_frame(Kind.HELLO, body))
    (closing,) = side.closings
    assert side.events == [closing]
    assert (closing.code, closing.by_far_side) == (CloseCode.PROTOCOL_ERROR, False)
    assert closing.text.startswith("HELLO: ")
    assert len(closing.text) > len("HELLO: ")
    assert cause in closing.text


def test_unknown_fields_are_passed_over() -> None:
    assert Hello.decode(msgpack.packb(CLIENT | {"later": [1, {"a": None}]})).role == "client"


def test_a_later_version_speaks_the_lower_one_of_both() -> None:
    for role in ("client", "hub"):
        side = side_of("hub")
        side.hear(Hello(protocol=7, role=role, id=HUB_ID, mesh=9, link=bytes(8)).encode())
        assert not side.closings


def test_what_may_be_left_out() -> None:
    hello = Hello.decode(msgpack.packb(CLIENT))
    assert (hello.id, hello.name, hello.token, hello.queue, hello.mesh) == (b"", "", "", None, 0)
    assert hello.frame == FRAME_LIMIT_BYTES


def test_what_is_said() -> None:
    (frame,) = frames_of(Hello(protocol=1, role="client").encode())
    assert (frame.kind, frame.flags, frame.key) == (Kind.HELLO, 0, b"")
    assert msgpack.unpackb(frame.body) == CLIENT | {"software": SOFTWARE}


wishes = st.builds(
    QueueWish,
    messages=st.none() | st.integers(1, 2**40),
    bytes=st.none() | st.integers(1, 2**40),
    overflow=st.none() | st.sampled_from(Overflow),
)
hellos: st.SearchStrategy[Hello] = st.one_of(
    st.builds(
        Hello,
        protocol=st.just(1),
        role=st.just("client"),
        id=st.binary(max_size=20),
        name=st.text(max_size=16),
        software=st.text(max_size=20),
        token=st.text(max_size=20),
        until=st.none() | st.floats(0, 1e9),
        queue=st.none() | wishes,
        frame=st.integers(1, 2**32),
    ),
    st.builds(
        Hello, protocol=st.just(1), role=st.just("hub"), id=st.binary(min_size=16, max_size=16), mesh=st.integers(0, 1)
    ),
)


@given(hello=hellos)
def test_round_trip(hello: Hello) -> None:
    (frame,) = frames_of(hello.encode())
    assert Hello.decode(frame.body) == hello


DEFAULT = QueueLimits(messages=100, bytes=10_000, overflow=Overflow.DROP_NEWEST)


@pytest.mark.parametrize(
    ("wish", "granted"),
    [
        (None, DEFAULT),
        (QueueWish(), DEFAULT),
        (QueueWish(messages=7), QueueLimits(7, 10_000, Overflow.DROP_NEWEST)),
        (QueueWish(messages=5000), QueueLimits(1000, 10_000, Overflow.DROP_NEWEST)),
        (QueueWish(bytes=5), QueueLimits(100, 5, Overflow.DROP_NEWEST)),
        (QueueWish(bytes=10**12), QueueLimits(100, 50_000, Overflow.DROP_NEWEST)),
        (QueueWish(1000, 50_000, Overflow.DISCONNECT), QueueLimits(1000, 50_000, Overflow.DISCONNECT)),
    ],
)
def test_wishes_are_granted_within_the_maximum(wish: QueueWish | None, granted: QueueLimits) -> None:
    assert grant(wish, DEFAULT, 1000, 50_000) == granted
