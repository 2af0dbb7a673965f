"""Conversations of two sessions over a pretend wire, and what one session does with what it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode
from hub.labels.envelope import tagged
from hub.messages.batch import Batch
from hub.messages.frame import FLAG_TAGGED, Frame, encode_frame
from hub.messages.stretch import Run
from peers.wire.control import (
    PING_LIMIT_BYTES,
    Notice,
    decode_notice,
    encode_close,
    encode_notice,
    encode_subscription,
)
from peers.wire.events import Closing, SubscriptionChange
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.scanner import NEED_DATA
from peers.wire.session import HANDSHAKE_LIMIT_BYTES
from tests.wire.pair import (
    CLIENT_HELLO,
    HUB_HELLO,
    Side,
    frames_of,
    message,
    packed,
    parts,
    runs_in,
    side_of,
)


def with_client() -> Side:
    side = side_of("hub")
    side.hear(CLIENT_HELLO.encode())
    side.events.clear()
    return side


def notices(side: Side) -> list[Notice]:
    return [decode_notice(frame.body) for frame in frames_of(side.session.take_outgoing())]


# The handshake.


def test_a_stranger_may_not_send_much() -> None:
    side = side_of("hub")
    side.hear(encode_frame(Kind.HELLO, bytes(HANDSHAKE_LIMIT_BYTES)))
    assert side.closings[0].text.startswith("HELLO: ")
    side = side_of("hub")
    side.hear(encode_frame(Kind.HELLO, bytes(HANDSHAKE_LIMIT_BYTES + 1))[:8])
    assert side.closings == [
        Closing(CloseCode.TOO_BIG, f"body of {HANDSHAKE_LIMIT_BYTES + 1} bytes, limit {HANDSHAKE_LIMIT_BYTES}", False)
    ]


def test_messages_before_hello_are_not_told() -> None:
    for frame in (message(b"/a"), message(b"!refused"), packed(b"/a", 0, b"")):
        side = side_of("hub")
        side.hear(frame + CLIENT_HELLO.encode())
        assert side.events == [Closing(CloseCode.PROTOCOL_ERROR, "MESSAGES is not expected before HELLO", False)]
        assert side.session.rejected_messages == 0


# PING.


@pytest.mark.parametrize("body", [b"", b"x", bytes(PING_LIMIT_BYTES)])
def test_ping_is_echoed(body: bytes) -> None:
    side = with_client()
    side.hear(encode_frame(Kind.PING, body) + encode_frame(Kind.PING, b"last"))
    assert frames_of(side.session.take_outgoing()) == [
        Frame(Kind.PONG, 0, b"", body),
        Frame(Kind.PONG, 0, b"", b"last"),
    ]
    assert not side.events


def test_a_large_ping_ends_it() -> None:
    side = with_client()
    side.hear(encode_frame(Kind.PING, bytes(PING_LIMIT_BYTES + 1)))
    assert side.closings == [Closing(CloseCode.TOO_BIG, "PING of 129 bytes, the limit is 128 bytes", False)]
    assert [frame.kind for frame in frames_of(side.session.take_outgoing())] == [Kind.CLOSE]


# Refused messages.


def test_refusals_of_a_read_are_merged() -> None:
    side = with_client()
    side.hear(message(b"!one") * 3 + message(b"/a") + packed(b"!one", 4) + message(b"!two") + message(b"/a"))
    assert side.topics == [b"/a", b"/a"]
    assert notices(side) == [
        Notice("error", count=7, code=CloseCode.BAD_DATA, text="topic b'!one' is refused"),
        Notice("error", count=1, code=CloseCode.BAD_DATA, text="topic b'!two' is refused"),
    ]
    assert side.session.rejected_messages == 8
    assert not side.session.closed


def test_refusals_are_told_before_a_pong() -> None:
    side = with_client()
    side.hear(message(b"!one") * 2 + encode_frame(Kind.PING, b"") + message(b"!one") * 3)
    kinds = [frame.kind for frame in frames_of(side.session.take_outgoing())]
    assert kinds == [Kind.NOTICE, Kind.PONG, Kind.NOTICE]
    assert side.session.rejected_messages == 5


def test_refusals_of_many_causes_are_summed_up() -> None:
    side = with_client()
    side.hear(b"".join(message(b"!%d" % number) for number in range(1000)))
    told = notices(side)
    assert len(told) <= 20
    assert sum(notice.count for notice in told) == 1000
    assert told[-1].text == "more was refused, for other reasons"


def test_a_client_keeps_refusals_to_itself() -> None:
    side = side_of("client")
    side.hear(HUB_HELLO.encode() + packed(b"/a", 0, b"") + message(b"/a"))
    assert not side.session.take_outgoing()
    assert side.session.rejected_messages == 1
    assert side.topics == [b"/a"]


# Subscriptions and notices.


def test_nothing_is_told_behind_the_end() -> None:
    side = with_client()
    side.session.tell(Notice("confirmed", request=5))
    assert notices(side) == [Notice("confirmed", request=5)]
    side.session.close(CloseCode.DONE, "that was all")
    side.session.tell(Notice("confirmed", request=6))
    (frame,) = frames_of(side.session.take_outgoing())
    assert frame.kind == Kind.CLOSE


# The end.


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"\x03\xe8", 1000, ""),
        (b"\x03\xe9going", 1001, "going"),
        (b"\x0f\xa8\xff\xfe", 4008, "\ufffd\ufffd"),
        (b"\x00\x00" + b"x" * 500, 0, "x" * 500),
    ],
)
def test_close_is_read(body: bytes, code: int, text: str) -> None:
    side = with_client()
    side.hear(encode_frame(Kind.CLOSE, body) + message(b"/late"))
    assert side.events == [Closing(code, text, by_far_side=True)]
    assert not side.session.take_outgoing()
    assert side.session.closed


def test_nothing_behind_an_end_in_the_middle_of_a_read() -> None:
    side = with_client()
    stream = message(b"/a") + encode_frame(Kind.PING, b"") + message(b"/a")
    stream += encode_subscription(Kind.SUBSCRIBE, ["/a"], 1) + message(b"!no")
    side.session.feed(stream)
    assert isinstance(side.session.next_event(), Run)
    side.session.close(CloseCode.OVERFLOW, "queue full")
    assert side.session.next_event() is NEED_DATA
    assert [frame.kind for frame in frames_of(side.session.take_outgoing())] == [Kind.CLOSE]


# Anything at all.

good = st.sampled_from(
    [
        CLIENT_HELLO.encode(),
        HUB_HELLO.encode(),
        Hello(protocol=2, role="client").encode(),
        message(b"/a"),
        message(b"!no"),
        packed(b"/a", 3),
        encode_subscription(Kind.SUBSCRIBE, ["/a"], 1),
        encode_notice(Notice("confirmed", request=1)),
        encode_frame(Kind.PING, b"x"),
        encode_close(CloseCode.DONE, "done"),
        encode_frame(200, b""),
    ]
)
odd = st.builds(
    encode_frame, st.integers(0, 255), st.binary(max_size=40), key=st.binary(max_size=10), flags=st.integers(0, 255)
)


@given(
    role=st.sampled_from(["client", "hub"]),
    opening=st.sampled_from([b"", CLIENT_HELLO.encode(), HUB_HELLO.encode()]),
    stream=st.lists(st.one_of(good, good, odd, st.binary(max_size=30)), max_size=10).map(b"".join),
    cuts=st.lists(st.integers(0, 400), max_size=5),
)
def test_anything_at_all(role: str, opening: bytes, stream: bytes, cuts: list[int]) -> None:
    side = side_of(role)
    for piece in parts(opening + stream, cuts):
        side.hear(piece)
    assert len(side.closings) <= 1
    if side.closings:
        assert side.events[-1] is side.closings[0]
        assert side.session.closed
    answered = [frame.kind for frame in frames_of(side.session.take_outgoing())]
    assert set(answered) <= {Kind.PONG, Kind.NOTICE, Kind.CLOSE}
    assert answered.count(Kind.CLOSE) == sum(not closing.by_far_side for closing in side.closings)
    assert Kind.CLOSE not in answered[:-1]


@given(stream=st.lists(st.one_of(good, good, odd), max_size=10).map(b"".join), cuts=st.lists(st.integers(0, 400)))
def test_cuts_change_nothing(stream: bytes, cuts: list[int]) -> None:
    whole, pieces = side_of("hub"), side_of("hub")
    whole.hear(stream)
    for piece in parts(stream, cuts):
        pieces.hear(piece)
    assert whole.topics == pieces.topics
    without_runs = [[event for event in side.events if not runs_in(event)] for side in (whole, pieces)]
    assert without_runs[0] == without_runs[1]
    assert whole.session.rejected_messages == pieces.session.rejected_messages


@given(stream=st.lists(st.one_of(good, good, odd), max_size=10).map(b"".join), cuts=st.lists(st.integers(0, 400)))
def test_nothing_is_behind_what_has_no_more(stream: bytes, cuts: list[int]) -> None:
    side = side_of("hub")
    for piece in parts(CLIENT_HELLO.encode() + stream, cuts):
        side.session.feed(piece)
        while side.session.next_event() is not NEED_DATA:
            if not side.session.has_more:
                assert side.session.next_event() is NEED_DATA
                break
        assert side.session.closed or not side.session.has_more


def test_it_is_known_whether_something_waits_to_be_written() -> None:
    side = with_client()
    side.session.take_outgoing()
    assert not side.session.has_outgoing
    side.session.tell(Notice("confirmed", request=3))
    assert side.session.has_outgoing
    assert notices(side) == [Notice("confirmed", request=3)]
    assert not side.session.has_outgoing
    side.session.refuse(CloseCode.NOT_ALLOWED, "no", 2)
    assert side.session.has_outgoing
    assert [notice.count for notice in notices(side)] == [2]
    assert not side.session.has_outgoing


def test_a_search_for_labels_is_counted() -> None:
    side = side_of("hub")
    side.hear(CLIENT_HELLO.encode())
    frames = [Batch.under(tagged("/t", [str(number)]).encode(), [number], FLAG_TAGGED).frames for number in range(3)]
    side.session.feed(b"".join(frames))
    kinds = []
    while (event := side.session.next_event()) is not NEED_DATA:
        kinds.append(type(event).__name__)
    assert kinds == ["NoneType", "Run", "NoneType", "Run", "NoneType", "Run"]


# Work that goes on in the next turn.


def test_what_is_put_back() -> None:
    session = side_of("hub").session
    session.feed(CLIENT_HELLO.encode())
    assert session.next_event() == CLIENT_HELLO
    first, second = (encode_subscription(Kind.SUBSCRIBE, [prefix]) for prefix in ("/a", "/b"))
    session.feed(first + second)
    event = session.next_event()
    session.put_back("the rest")
    assert session.next_event() == "the rest"
    assert event == SubscriptionChange(subscribe=True, prefixes=["/a"], request=0)
    assert session.next_event() == SubscriptionChange(subscribe=True, prefixes=["/b"], request=0)
    assert session.next_event() is NEED_DATA
    session.put_back("more")
    session.close(CloseCode.GOING_AWAY, "done")
    session.put_back("and more")
    assert session.next_event() is NEED_DATA
