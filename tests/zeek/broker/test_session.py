"""Sessions: the handshake in every state, decisions about a connection, filters, goodbyes, ends, and limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ProtocolError
from hub.messages.stretch import Run
from hub.prefixes import PrefixMultimap
from hub.routing.routes import Routes
from peers.values.binary import length_bytes
from peers.wire.scanner import NEED_DATA
from peers.zeek.broker import messages
from peers.zeek.broker.envelopes import Skipped
from peers.zeek.broker.messages import (
    LENGTH,
    NIL_ID,
    BrokerCode,
    Envelope,
    EnvelopeType,
    Message,
    Tag,
    decode_envelope,
    decode_filter,
    decode_message,
    encode_drop_conn,
    encode_envelope,
    encode_filter,
    encode_hello,
    encode_originator_ack,
    encode_originator_syn,
    encode_ping,
    encode_pong,
    encode_probe,
    encode_routing_update,
    encode_version_select,
    minimal_prefixes,
)
from peers.zeek.broker.session import (
    PING_LIMIT_BYTES,
    Drained,
    Ended,
    FilterChanged,
    Peered,
    PeerKnown,
    Role,
    Session,
    State,
)
from tests.wire.pair import Table, parts
from tests.zeek.broker.recorded import HIGH, LOW, Side, framed, side_of, split

STRANGER = bytes(range(16))
OPENING = encode_hello(LOW) + encode_version_select(LOW) + encode_originator_syn(("/b",)) + encode_originator_ack()
"""All that a connector with the smaller id says in the handshake."""

TOKEN = b"12345678"


def peered(**limits: int) -> Side:
    side = side_of(HIGH, "acceptor", ("/a",), **limits)
    side.hear([OPENING])
    assert side.of_type(Peered) == [Peered(LOW, ("/b",))]
    side.events.clear()
    side.outgoing = b""
    return side


def data(topic: bytes = b"/a/x", payload: bytes = b"\x00") -> bytes:
    return encode_envelope(Envelope(LOW, NIL_ID, EnvelopeType.DATA, topic, payload))


def envelopes(outgoing: bytes) -> list[Envelope]:
    return [decode_envelope(frame) for frame in split(outgoing)]


# Decisions.


def deciding(own_id: bytes) -> Side:
    side = side_of(own_id, "acceptor", ("/a",))
    side.decides = False
    side.hear([encode_hello(LOW) + encode_version_select(LOW) if own_id == HIGH else encode_hello(HIGH)])
    (known,) = side.events
    assert known == (PeerKnown(LOW, is_originator=False) if own_id == HIGH else PeerKnown(HIGH, is_originator=True))
    side.outgoing = b""
    return side


def test_a_decision_may_wait() -> None:
    side = deciding(HIGH)
    side.hear([encode_originator_syn(("/b",)), encode_originator_ack() + data()])
    assert (side.outgoing, len(side.events)) == (b"", 1)
    side.session.proceed()
    side.drain()
    assert side.of_type(Peered)
    assert side.messages() == [(b"/a/x", b"\x00")]


def test_a_far_side_that_does_not_wait_is_cut_off() -> None:
    side = deciding(LOW)
    side.hear([b"x" * 64 * 1024])
    assert not side.of_type(Ended)
    side.hear([b"x"])
    (ended,) = side.of_type(Ended)
    assert isinstance(ended, Ended)
    assert ended.code == BrokerCode.INVALID_HANDSHAKE_STATE


def test_shutting_down_in_the_handshake() -> None:
    side = deciding(LOW)
    side.session.drop(BrokerCode.SHUTTING_DOWN, "shutting_down")
    side.session.proceed()
    side.drain()
    assert side.outgoing == encode_drop_conn(LOW, 28, "shutting_down")


def test_an_end_while_peered_is_a_plain_one() -> None:
    side = peered()
    side.session.drop(BrokerCode.PEER_TIMEOUT, "too slow")
    side.hear([data()])
    assert (side.outgoing, side.events, side.session.closed) == (b"", [], True)


def test_the_stream_ends_in_the_handshake() -> None:
    for side in (side_of(), deciding(LOW)):
        side.session.feed_eof()
        side.drain()
        (ended,) = side.of_type(Ended)
        assert isinstance(ended, Ended)
        assert (ended.code, ended.by_far_side) == (BrokerCode.PEER_DISCONNECT_DURING_HANDSHAKE, True)


# Filters.


def test_announcements_are_complete_and_minimal() -> None:
    side = peered()
    side.session.announce(["/c", "/a", "/a/b"])
    side.session.announce(["/a/z", "/c", "/a"])
    side.session.announce([])
    side.drain()
    assert side.outgoing == encode_routing_update(HIGH, LOW, ("/a", "/c")) + encode_routing_update(HIGH, LOW, ())


@pytest.mark.parametrize("frames", [0, 1, 2, 3])
def test_announcements_in_the_handshake_are_not_lost(frames: int) -> None:
    side = side_of(HIGH, "acceptor", ("/a",))
    said = [framed(frame) for frame in split(OPENING)]
    side.hear(said[:frames])
    side.session.announce(["/later"])
    side.hear(said[frames:])
    update = encode_routing_update(HIGH, LOW, ("/later",))
    was_sent = frames == 3
    assert side.outgoing.endswith(update) == was_sent
    assert (b"\x0b" + encode_filter(("/a",) if was_sent else ("/later",))) in side.outgoing


def test_filters_of_the_far_side() -> None:
    side = peered()
    raw = b"\x03\x02/c\x02a\n\x04/c/d"
    side.hear(
        [
            encode_routing_update(LOW, HIGH, ("/b",)),
            encode_envelope(Envelope(LOW, NIL_ID, EnvelopeType.ROUTING_UPDATE, b"<$>", raw)),
            encode_routing_update(LOW, HIGH, ()),
        ]
    )
    assert side.events == [FilterChanged(("/c",)), FilterChanged(())]


@pytest.mark.parametrize(
    ("envelope", "reason"),
    [
        (Envelope(STRANGER, HIGH, EnvelopeType.ROUTING_UPDATE, b"<$>", b"\x01\x00"), "is not the other side"),
        (Envelope(LOW, STRANGER, EnvelopeType.ROUTING_UPDATE, b"<$>", b"\x01\x00"), "for another endpoint"),
        (Envelope(LOW, HIGH, EnvelopeType.ROUTING_UPDATE, b"<$>", b"\x01\x00x"), "1 bytes follow the filter"),
        (Envelope(LOW, HIGH, EnvelopeType.ROUTING_UPDATE, b"<$>", b"\x07\x00"), "is not complete at byte 2"),
        (Envelope(LOW, HIGH, EnvelopeType.ROUTING_UPDATE, b"<$>", b"\x0b"), "filter of 11 prefixes, the limit is 10"),
        (Envelope(STRANGER, HIGH, EnvelopeType.PING, b"<$>", b"x"), "is not the other side"),
        (Envelope(LOW, HIGH, EnvelopeType.PING, b"<$>", b"x" * (PING_LIMIT_BYTES + 1)), "ping of 65537 bytes"),
        (Envelope(NIL_ID, HIGH, EnvelopeType.PONG, b"<$>", b"x"), "is not the other side"),
    ],
    ids=["sender", "receiver", "trailing", "truncated", "too many", "ping of another", "long ping", "pong of nobody"],
)
def test_what_is_not_of_the_far_side_is_skipped(envelope: Envelope, reason: str) -> None:
    side = peered(filter_limit_prefixes=10)
    side.hear([encode_envelope(envelope) + data()])
    (skipped,) = side.of_type(Skipped)
    assert isinstance(skipped, Skipped)
    assert reason in skipped.reason
    assert side.session.rejected_messages == 1
    assert side.outgoing == b""
    assert len(side.messages()) == 1


def test_a_filter_over_the_limit_in_the_handshake() -> None:
    side = side_of(HIGH, "acceptor", filter_limit_prefixes=1)
    side.hear([encode_hello(LOW) + encode_version_select(LOW) + encode_originator_syn(("/a", "/b"))])
    assert side.outgoing.endswith(encode_drop_conn(HIGH, 20, "failed to parse v1::originator_syn_msg"))
    assert side.session.closed


# Pings and goodbyes.


def test_pings_are_answered_in_order() -> None:
    side = peered()
    side.hear(
        [encode_ping(LOW, HIGH, b"1") + encode_ping(LOW, NIL_ID, b"BYE but not one") + encode_ping(LOW, HIGH, b"2")]
    )
    assert [(each.sender, each.receiver, each.type, each.payload) for each in envelopes(side.outgoing)] == [
        (HIGH, LOW, EnvelopeType.PONG, payload) for payload in (b"1", b"BYE but not one", b"2")
    ]
    assert not side.session.far_said_goodbye


def test_only_the_matching_pong_is_the_answer_to_a_goodbye() -> None:
    side = peered()
    side.hear([encode_pong(LOW, HIGH, b"BYE" + TOKEN)])
    side.session.say_goodbye(TOKEN)
    side.hear([encode_pong(LOW, HIGH, b"BYE" + TOKEN[::-1])])
    assert not side.events
    side.hear([encode_pong(LOW, HIGH, b"BYE" + TOKEN) * 2])
    assert side.events == [Drained()]
    assert side.outgoing == encode_ping(HIGH, LOW, b"BYE" + TOKEN)


def test_messages_before_the_end_of_the_stream_are_reported_first() -> None:
    side = peered()
    side.session.feed(data() * 3 + data()[:-1])
    side.session.feed_eof()
    side.drain()
    assert len(side.messages()) == 3
    assert isinstance(side.events[-1], Ended)


def test_a_closed_session_decides_and_drops_nothing() -> None:
    side = peered()
    for _ in range(2):
        side.session.drop(BrokerCode.NONE, "")
        side.session.say_goodbye(TOKEN)
        side.session.announce(["/later"])
    side.drain()
    assert side.outgoing == b""
    assert not side.session.is_peered


@pytest.mark.parametrize(
    ("topic", "reason"),
    [(b"$hub/x", "the hub's own"), (b"a\nb", "control character"), (b"\xff", "not UTF-8"), (b"", "topic is empty")],
    ids=["reserved", "control character", "not UTF-8", "empty"],
)
def test_topics_that_the_hub_refuses_are_skipped(topic: bytes, reason: str) -> None:
    session = Session(HIGH, "acceptor", Routes(PrefixMultimap()))
    session.feed(OPENING + data(topic) + data())
    found: list[object] = []
    while (event := session.next_event()) is not NEED_DATA:
        if isinstance(event, PeerKnown):
            session.proceed()
        found += [event] if isinstance(event, Skipped | Run) else []
    skipped, run = found
    assert isinstance(skipped, Skipped)
    assert reason in skipped.reason
    assert isinstance(run, Run)
    assert (run.messages, session.rejected_messages) == (1, 1)


# Limits.


@pytest.mark.parametrize("role", ["acceptor", "connector"])
def test_long_frames_of_strangers_end_it(role: Role) -> None:
    side = side_of(HIGH, role, handshake_limit_bytes=100)
    side.outgoing = b""
    side.hear([LENGTH.pack(101)])
    assert side.session.closed
    assert b"\x09ZEEK" not in side.outgoing


def test_data_over_the_limit_ends_it() -> None:
    side = peered(frame_limit_bytes=100)
    side.hear([data() + LENGTH.pack(101) + b"x" * 101, b"x" * 1000])
    assert len(side.messages()) == 1
    assert isinstance(side.events[-1], Ended)
    assert side.session.held_bytes == 0


FRAMES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *map(framed, split(OPENING)),
                data(),
                data() * 3,
                encode_probe(),
                encode_hello(HIGH),
                encode_hello(STRANGER),
                encode_drop_conn(LOW, 39, "redundant connection"),
                encode_ping(LOW, HIGH, b"BYE" + TOKEN),
                encode_routing_update(LOW, HIGH, ("/c",)),
                framed(b""),
            ]
        ),
        st.binary(max_size=50).map(framed),
        st.binary(max_size=400),
    ),
    max_size=8,
).map(b"".join)


@given(
    stream=FRAMES,
    cuts=st.lists(st.integers(0, 500), max_size=6),
    role=st.sampled_from(["acceptor", "connector"]),
    after_handshake=st.booleans(),
)
def test_any_frames_at_all(stream: bytes, cuts: list[int], role: Role, *, after_handshake: bool) -> None:
    """Nothing raises, little is held, and how the stream is cut changes nothing."""
    opening = OPENING[27 * (role == "connector") :] if after_handshake else b""

    def heard(pieces: list[bytes]) -> Side:
        side = side_of(HIGH, role, frame_limit_bytes=200, handshake_limit_bytes=200)
        side.hear([opening])
        for piece in pieces:
            side.hear([piece])
            assert side.session.held_bytes <= 204
        return side

    whole, cut = heard([stream]), heard(parts(stream, cuts))
    assert cut.outgoing == whole.outgoing
    assert cut.messages() == whole.messages()
    assert cut.session.closed == whole.session.closed
    kinds = (Ended, Skipped, Peered, PeerKnown, FilterChanged)
    assert cut.of_type(*kinds) == whole.of_type(*kinds)


A = bytes.fromhex("00000000000040008000000000000000")
NIL = bytes(16)

MESSAGES = {
    Tag.PROBE: messages.encode_probe(),
    Tag.HELLO: messages.encode_hello(A),
    Tag.VERSION_SELECT: messages.encode_version_select(A),
    Tag.DROP_CONN: messages.encode_drop_conn(A, 39, "redundant connection"),
    Tag.ORIGINATOR_SYN: messages.encode_originator_syn(("/foo/bar",)),
    Tag.RESPONDER_SYN_ACK: messages.encode_responder_syn_ack(("/test",)),
    Tag.ORIGINATOR_ACK: messages.encode_originator_ack(),
}
SPECIFIED = [
    ("00000005 07 5a45454b", Message(Tag.PROBE)),
    (f"00000017 06 5a45454b {A.hex()} 01 01", Message(Tag.HELLO, A)),
    (f"00000016 08 5a45454b {A.hex()} 01", Message(Tag.VERSION_SELECT, A)),
    (
        f"0000002b 09 5a45454b {A.hex()} 27 14 726564756e64616e7420636f6e6e656374696f6e",
        Message(Tag.DROP_CONN, A, code=BrokerCode.REDUNDANT_CONNECTION, text="redundant connection"),
    ),
    ("0000000b 0a 01 08 2f666f6f2f626172", Message(Tag.ORIGINATOR_SYN, filter=("/foo/bar",))),
    ("00000008 0b 01 05 2f74657374", Message(Tag.RESPONDER_SYN_ACK, filter=("/test",))),
    ("00000001 0c", Message(Tag.ORIGINATOR_ACK)),
]

EARLY = {Tag.PROBE, Tag.DROP_CONN}
ACCEPTED = {
    State.CONNECTOR: EARLY | {Tag.HELLO, Tag.VERSION_SELECT},
    State.ACCEPTOR: EARLY | {Tag.HELLO},
    State.AWAIT_VERSION_SELECT: EARLY | {Tag.VERSION_SELECT},
    State.AWAIT_ORIGINATOR_SYN: {Tag.ORIGINATOR_SYN},
    State.AWAIT_RESPONDER_SYN_ACK: {Tag.RESPONDER_SYN_ACK},
    State.AWAIT_ORIGINATOR_ACK: {Tag.ORIGINATOR_ACK},
    State.DONE: set(),
}


def said(session: Session[object]) -> list[Message]:
    return [decode_message(frame, 10) for frame in split(session.take_outgoing())]


def ended(session: Session[object], *frames: bytes) -> Ended:
    for frame in frames:
        session.feed(frame)
        event = session.next_event()
    assert isinstance(event, Ended)
    return event


def session_of(own_id: bytes, role: Role) -> Session[object]:
    return Session(own_id, role, Table(), ("/near",))


@pytest.mark.parametrize("tag", Tag)
@pytest.mark.parametrize("state", ACCEPTED)
def test_every_message_in_every_state(state: State, tag: Tag) -> None:
    session = session_of(HIGH, "acceptor")
    session.take_outgoing()
    session.state = state
    session.feed(MESSAGES[tag])
    event = session.next_event()
    if tag in ACCEPTED[state]:
        assert event is None or event is not NEED_DATA
        assert session.closed == (tag is Tag.DROP_CONN)
        return
    assert event == Ended(
        BrokerCode.UNEXPECTED_HANDSHAKE_MESSAGE, f"{tag.name.lower()} is not expected {state.value}", by_far_side=False
    )
    assert not session.has_outgoing


@pytest.mark.parametrize("sender", [NIL, HIGH], ids=["nil", "own"])
def test_a_peer_has_an_id_of_its_own(sender: bytes) -> None:
    select = messages.encode_version_select(sender)
    assert "without an endpoint id" in ended(session_of(HIGH, "connector"), select).text


@pytest.mark.parametrize("role", ["acceptor", "connector"])
def test_a_hello_without_an_id_is_answered(role: Role) -> None:
    session = session_of(HIGH, role)
    text = "hello without an endpoint id"
    assert ended(session, messages.encode_hello(NIL)) == Ended(BrokerCode.PEER_INVALID, text, by_far_side=False)
    assert said(session)[-1] == Message(Tag.DROP_CONN, HIGH, code=BrokerCode.PEER_INVALID, text=text)


def test_a_peer_keeps_its_id() -> None:
    event = ended(session_of(HIGH, "acceptor"), messages.encode_hello(LOW), messages.encode_version_select(A))
    assert event.text == f"hello came from {LOW.hex()}, version_select from {A.hex()}"


@pytest.mark.parametrize(("raw", "message"), SPECIFIED)
def test_messages_have_the_bytes_of_the_specification(raw: str, message: Message) -> None:
    frame = bytes.fromhex(raw)
    assert MESSAGES[message.tag] == frame
    assert decode_message(frame[4:], 10) == decode_message(frame[4:] + b"more", 10) == message
    for end in range(5, len(frame)):
        with pytest.raises(ProtocolError, match=r"failed to parse .*_msg") as raised:
            decode_message(frame[4:end], 10)
        assert raised.value.code == BrokerCode.INVALID_MESSAGE


def _changed(tag: Tag, at: int, byte: int) -> bytes:
    frame = bytearray(MESSAGES[tag][4:])
    frame[at] = byte
    return bytes(frame)


@pytest.mark.parametrize(
    ("payload", "code", "text"),
    [
        *[(_changed(tag, 1, 0), 38, "wrong magic number") for tag in (*EARLY, Tag.HELLO, Tag.VERSION_SELECT)],
        (_changed(Tag.HELLO, 21, 2), 2, "unsupported versions offered"),
        (_changed(Tag.HELLO, 22, 0), 2, "unsupported versions offered"),
        (_changed(Tag.VERSION_SELECT, 21, 2), 2, "unsupported version selected"),
        *[(bytes((tag,)) + b"ZEEK", 20, "invalid message type tag") for tag in (0, 1, 5, 13, 255)],
        (messages.encode_drop_conn(A, 42, "why not")[4:], 1, "why not"),
    ],
)
def test_what_is_no_message(payload: bytes, code: int, text: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        decode_message(payload, 10)
    assert (raised.value.code, raised.value.text) == (code, text)


def test_versions_are_a_range() -> None:
    assert decode_message(_changed(Tag.HELLO, 22, 99), 10) == Message(Tag.HELLO, A)


def test_texts_are_fit_for_a_log() -> None:
    raw = b"\x09ZEEK" + A + b"\x01\xac\x02" + b"\x1b[1m\xff" + b"x" * 295
    assert decode_message(raw, 10).text == "\ufffd[1m\ufffd" + "x" * 251


@given(st.binary(min_size=1, max_size=60), st.sampled_from([None, *Tag]))
def test_any_bytes_are_a_message_or_an_error_of_broker(raw: bytes, tag: Tag | None) -> None:
    try:
        decode_message(raw if tag is None else bytes((tag,)) + raw, 5)
    except ProtocolError as error:
        assert error.code in list(BrokerCode)  # noqa: PT017 -- often there is none


PREFIXES = st.lists(st.text("/ab", max_size=5), max_size=8)


@pytest.mark.parametrize("raw", ["", "80", "ff" * 10, "80" * 10 + "01", "01", "0205"])
def test_a_filter_that_is_not_complete(raw: str) -> None:
    with pytest.raises(ValueError, match=r"not complete|takes more than 10 bytes|bytes, 0 are left"):
        decode_filter(bytes.fromhex(raw), 0, 5)


@given(PREFIXES, st.text("/ab", max_size=8))
def test_minimal_prefixes_mean_the_same(prefixes: list[str], topic: str) -> None:
    minimal = minimal_prefixes(prefixes)
    assert any(map(topic.startswith, minimal)) == any(map(topic.startswith, prefixes))
    assert list(minimal) == sorted(set(minimal))
    assert not any(one != other and one.startswith(other) for one in minimal for other in minimal)


@given(PREFIXES, st.binary(max_size=3), st.binary(max_size=3))
def test_filters_round_trip(prefixes: list[str], before: bytes, behind: bytes) -> None:
    minimal = minimal_prefixes(prefixes)
    raw = before + encode_filter(minimal)
    assert decode_filter(raw + behind, len(before), 10) == (minimal, len(raw))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_filter_or_not(raw: bytes) -> None:
    try:
        found, end = decode_filter(raw, 0, 5)
    except ValueError as error:
        assert str(error)  # noqa: PT017 -- often there is none
    else:
        assert end <= len(raw)
        assert len(found) <= 5


@pytest.mark.parametrize("prefix", [b"a\nb", b"\xff", b"x" * 1025, b"\x7f"])
def test_prefixes_that_the_hub_refuses_are_left_out(prefix: bytes) -> None:
    raw = b"\x03\x02/a" + length_bytes(len(prefix)) + prefix + b"\x02/b"
    assert decode_filter(raw, 0, 10)[0] == ("/a", "/b")


def test_the_empty_filter_and_the_filter_of_everything() -> None:
    assert decode_filter(b"\x00", 0, 10)[0] == ()
    assert decode_filter(b"\x02\x00\x02/a", 0, 10)[0] == ("",)
