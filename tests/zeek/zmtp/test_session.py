"""One side of a ZMTP connection: recordings, both roles, and what does not fit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode
from peers.wire.scanner import NEED_DATA
from peers.zeek.zmtp.frames import PARTS_LIMIT, Command, Incoming, Message, encode_command, encode_frame, encode_message
from peers.zeek.zmtp.session import (
    HANDSHAKE_LIMIT_BYTES,
    TOPIC_LIMIT_BYTES,
    Ended,
    Greeting,
    Ready,
    Session,
    SocketType,
    Subscribed,
    Unsubscribed,
    encode_properties,
    encode_subscription,
)
from tests.zeek.zmtp.recordings import TO_BROKER, TO_NODE, wire

LIMIT = 1 << 20

GREETING = Greeting("NULL").encode()


def ready(kind: str) -> bytes:
    return encode_command(Command(b"READY", encode_properties({"Socket-Type": kind.encode()})))


def events(session: Session) -> list[Any]:
    found = []
    while (event := session.next_event()) is not NEED_DATA:
        if event is not None:
            found.append(event)
    return found


def opened(own: SocketType, far: str, limit_bytes: int = LIMIT) -> Session:
    session = Session(own, limit_bytes)
    session.feed(GREETING + ready(far))
    assert events(session) == [Ready(far, 1)]
    session.take_outgoing()
    return session


# Recordings. A node's XSUB talks with the broker's XPUB, its XPUB with the broker's XSUB.

WIRE = wire("z01-null-wire.jsonl")
CONNECTIONS = sorted({connection for connection, _ in WIRE})


@pytest.mark.parametrize("connection", CONNECTIONS)
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_what_was_recorded_is_understood_by_either_side(connection: str, piece: int) -> None:
    node_is_xsub = "worker-1 XSUB" in connection
    for direction in (TO_BROKER, TO_NODE):
        own_is_xpub = node_is_xsub == (direction == TO_BROKER)
        own = SocketType.XPUB if own_is_xpub else SocketType.XSUB
        session = Session(own, LIMIT)
        stream = b"".join(WIRE[connection, direction])
        found = []
        for start in range(0, len(stream), piece):
            session.feed(stream[start : start + piece])
            found += events(session)
        assert found[0] == Ready("XSUB" if own_is_xpub else "XPUB", 1)
        assert session.held_bytes == 0
        assert not session.rejected_messages
        kinds = {type(event) for event in found[1:]}
        assert kinds <= ({Subscribed, Unsubscribed} if own_is_xpub else {Message})
        far = b"".join(WIRE[connection, TO_NODE if direction == TO_BROKER else TO_BROKER])
        said = session.take_outgoing()
        assert far.startswith(said)


def test_both_forms_of_subscriptions() -> None:
    session = opened(SocketType.XPUB, "SUB")
    session.feed(
        encode_subscription(b"a", is_wanted=True)
        + encode_command(Command(b"SUBSCRIBE", b"b"))
        + encode_command(Command(b"CANCEL", b"b"))
        + encode_subscription(b"", is_wanted=True)
        + encode_subscription(b"a", is_wanted=False)
    )
    assert events(session) == [
        Subscribed(b"a"),
        Subscribed(b"b"),
        Unsubscribed(b"b"),
        Subscribed(b""),
        Unsubscribed(b"a"),
    ]


def test_what_is_no_subscription_is_counted() -> None:
    session = opened(SocketType.XPUB, "XSUB")
    long = b"x" * (TOPIC_LIMIT_BYTES + 1)
    session.feed(encode_message([b"\x01a", b""]) + encode_frame(b"") + encode_frame(b"\x02a"))
    session.feed(encode_subscription(long, is_wanted=True) + encode_command(Command(b"SUBSCRIBE", long)))
    session.feed(encode_subscription(long[1:], is_wanted=True))
    found = events(session)
    assert found.pop() == Subscribed(long[1:])
    assert [one.is_subscription for one in found] == [False, False, False, True, True]
    assert {one.reason for one in found if one.is_subscription} == {"a topic of 1025 bytes, the limit is 1024"}
    assert found[0].reason == "a message of 2 parts, where subscriptions are expected"
    assert session.rejected_messages == 3


def test_pings_are_answered_and_other_commands_ignored() -> None:
    session = opened(SocketType.PULL, "PUSH")
    session.feed(encode_command(Command(b"PING", b"\0\x07" + b"c" * 20)) + encode_command(Command(b"WHAT", b"ever")))
    session.feed(encode_command(Command(b"SUBSCRIBE", b"a")))
    assert events(session) == []
    assert session.take_outgoing() == encode_command(Command(b"PONG", b"c" * 16))


def test_each_talks_with_its_counterparts_only() -> None:
    for own in SocketType:
        for far in ("PUB", "SUB", "XPUB", "XSUB", "PUSH", "PULL", "REQ", ""):
            session = Session(own, LIMIT)
            session.feed(GREETING + ready(far))
            (event,) = events(session)
            if far in own.counterparts:
                assert event == Ready(far, 1)
            else:
                assert isinstance(event, Ended)
                assert f"type {far!r}" in event.text
                assert session.closed


def test_the_older_version_is_what_both_speak() -> None:
    session = Session(SocketType.XPUB, LIMIT)
    session.feed(Greeting("NULL", minor=0).encode() + ready("XSUB"))
    assert events(session) == [Ready("XSUB", 0)]


def test_a_side_that_waits_does_not_tell_its_mechanism_first() -> None:
    session = Session(SocketType.XPUB, LIMIT, waits=True)
    assert session.take_outgoing() == GREETING[:11]
    session.feed(GREETING + ready("XSUB"))
    assert events(session) == [Ready("XSUB", 1)]
    assert session.take_outgoing() == GREETING[11:] + ready("XPUB")
    session = Session(SocketType.XPUB, LIMIT, waits=True)
    session.feed(Greeting("CURVE").encode())
    assert [type(event) for event in events(session)] == [Ended]
    assert session.take_outgoing() == GREETING[:11]


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (b"\x01\x00", "the first byte is 0x01: this is not ZMTP 3"),
        (b"GET / HTTP/1.1", "the first byte is 0x47: this is not ZMTP 3"),
        (b"\xff" + bytes(8) + b"\x7e", "byte 9 is 0x7e: this is not ZMTP 3"),
        (b"\xff" + bytes(8) + b"\x7f\x01", "the other side speaks ZMTP 1, this side speaks 3"),
        (Greeting("CURVE").encode(), "ZMTP: the other side uses the mechanism CURVE, this side NULL"),
        (GREETING[:12] + bytes(52), "ZMTP: b'' is not a name of a mechanism"),
        (GREETING + encode_frame(b"x"), "ZMTP: a message before READY"),
        (GREETING + encode_command(Command(b"HELLO", b"")), "ZMTP: b'HELLO' before READY"),
        (GREETING + encode_command(Command(b"ERROR", b"\x03400")), "ZMTP: the other side rejects this one: '400'"),
        (GREETING + encode_frame(b"", 4), "ZMTP: a command without a name"),
        (GREETING + encode_frame(b"\x05ab", 4), "ZMTP: a command without a name"),
        (GREETING + b"\x08", "ZMTP: a frame with the flags 0x08, which there are none of"),
        (GREETING + b"\x05\x00", "ZMTP: a frame with the flags 0x05, which there are none of"),
        (
            GREETING + encode_command(Command(b"READY", b"\x0bSocket-Type\0\0\0\x09XSUB")),
            "ZMTP: READY ends within a property",
        ),
        (GREETING + encode_command(Command(b"READY", b"\xffS")), "ZMTP: READY ends within a property"),
    ],
)
def test_a_handshake_that_does_not_fit(stream: bytes, text: str) -> None:
    session = Session(SocketType.XPUB, LIMIT)
    session.feed(stream)
    (event,) = events(session)
    assert event == Ended(CloseCode.PROTOCOL_ERROR, text, by_far_side=False)
    said = session.take_outgoing()
    assert said in (GREETING, GREETING + ready("XPUB"))
    session.feed(ready("XSUB"))
    assert events(session) == []


def test_a_stranger_is_not_listened_to_for_long() -> None:
    session = Session(SocketType.XPUB, LIMIT)
    session.feed(GREETING + b"\x06" + (HANDSHAKE_LIMIT_BYTES + 1).to_bytes(8, "big"))
    (event,) = events(session)
    assert event.code == CloseCode.TOO_BIG


@pytest.mark.parametrize(
    "large", [encode_message([bytes(LIMIT // 2)]), encode_command(Command(b"X", bytes(LIMIT // 2)))]
)
def test_a_large_message_is_let_go_of_once_it_was_taken(large: bytes) -> None:
    incoming = Incoming(LIMIT)
    incoming.feed(large + b"\x00")
    assert incoming.next_message() is not None
    assert (len(incoming.held), incoming.held_bytes) == (1, 1)
    incoming.feed(b"\x01a")
    assert incoming.next_message() == Message(b"\x00\x01a", (3,), (2,))


def test_a_message_that_is_too_long_is_refused_before_it_comes() -> None:
    session = opened(SocketType.PULL, "PUSH", 1000)
    session.feed(encode_message([b"a" * 400, b"b" * 582]))
    assert [len(event.frames) for event in events(session)] == [1000]
    session.feed(encode_message([b"a" * 400, b"b" * 583])[:418])
    (event,) = events(session)
    assert event == Ended(
        CloseCode.TOO_BIG, "ZMTP: a message of 1001 bytes or more, the limit is 1000", by_far_side=False
    )


def test_a_message_of_very_many_parts() -> None:
    session = opened(SocketType.PULL, "PUSH")
    session.feed(b"\x01\x00" + encode_command(Command(b"PING", b"\0\0")))
    (ended,) = events(session)
    assert ended.text == "ZMTP: a command between the parts of a message"
    session = opened(SocketType.PULL, "PUSH")
    session.feed(encode_message([b""] * PARTS_LIMIT) + b"\x01\x00" * PARTS_LIMIT)
    (message,) = events(session)
    assert len(message.parts) == PARTS_LIMIT
    session.feed(b"\x01\x00")
    (ended,) = events(session)
    assert ended.text == f"ZMTP: a message of more than {PARTS_LIMIT} parts"


def test_the_end_of_a_stream_behind_its_last_message() -> None:
    session = opened(SocketType.PULL, "PUSH")
    session.feed(encode_message([b"a"]) + b"\x00")
    session.feed_eof()
    message, ended = events(session)
    assert message.parts == [b"a"]
    assert ended == Ended(CloseCode.DONE, "the stream ended", by_far_side=True)
    early = Session(SocketType.PULL, LIMIT)
    early.feed(GREETING[:11])
    early.feed_eof()
    text = "the stream ended in the handshake: it may use another mechanism than NULL"
    assert events(early) == [Ended(CloseCode.DONE, text, by_far_side=True)]
    unsaid = Session(SocketType.PULL, LIMIT, waits=True)
    unsaid.feed_eof()
    assert events(unsaid) == [Ended(CloseCode.DONE, "the stream ended in the handshake", by_far_side=True)]


@given(st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=6), max_size=8), st.integers(1, 600))
def test_messages_come_as_they_were_sent_however_the_stream_is_cut(messages: list[list[bytes]], piece: int) -> None:
    session = opened(SocketType.XSUB, "PUB")
    stream = b"".join(map(encode_message, messages))
    found = []
    for start in range(0, len(stream), piece):
        session.feed(stream[start : start + piece])
        found += events(session)
    assert [message.parts for message in found] == messages
    assert b"".join(message.frames for message in found) == stream


@given(st.sampled_from(list(SocketType)), st.lists(st.binary(max_size=80), max_size=20), st.booleans())
def test_any_bytes_end_a_session_at_most(own: SocketType, reads: list[bytes], is_open: bool) -> None:  # noqa: FBT001
    session = opened(own, own.counterparts[0], 500) if is_open else Session(own, 500)
    for read in reads:
        session.feed(read)
        found = events(session)
        assert not any(isinstance(event, Ended) for event in found[:-1])
        assert session.held_bytes <= 80 + HANDSHAKE_LIMIT_BYTES
    was_closed = session.closed
    session.feed_eof()
    assert [type(event) for event in events(session)] == ([] if was_closed else [Ended])
    assert session.held_bytes == 0
