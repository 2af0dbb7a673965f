"""The handshake: every message in every state, the bytes of the specification, and what is answered to others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ProtocolError
from peers.wire.scanner import NEED_DATA
from peers.zeek.broker import messages
from peers.zeek.broker.messages import (
    FILTER_LIMIT_PREFIXES,
    BrokerCode,
    Message,
    Tag,
    decode_filter,
    decode_message,
    encode_filter,
    encode_varbyte,
    minimal_prefixes,
    read_varbyte,
)
from peers.zeek.broker.session import Ended, PeerKnown, Role, Session, State
from tests.wire.pair import Table
from tests.zeek.broker.recorded import HIGH, LOW, split

A = bytes.fromhex("00000000000040008000000000000000")
NIL = bytes(16)

FRAMES = {
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
    session.feed(FRAMES[tag])
    event = session.next_event()
    if tag in ACCEPTED[state]:
        assert event is None or event is not NEED_DATA
        assert session.closed == (tag is Tag.DROP_CONN)
        return
    assert event == Ended(
        BrokerCode.UNEXPECTED_HANDSHAKE_MESSAGE, f"{tag.name.lower()} is not expected {state.value}", by_far_side=False
    )
    assert not session.has_outgoing


def test_the_originator_decides_before_it_says_anything() -> None:
    session = session_of(LOW, "acceptor")
    session.feed(messages.encode_hello(HIGH))
    assert session.next_event() == PeerKnown(HIGH, is_originator=True)
    assert said(session) == [Message(Tag.PROBE)]
    session.proceed()
    assert said(session) == [Message(Tag.VERSION_SELECT, LOW), Message(Tag.ORIGINATOR_SYN, filter=("/near",))]


def test_a_connection_to_oneself_ends() -> None:
    hello = messages.encode_hello(LOW)
    assert "the far side is this hub itself" in ended(session_of(LOW, "acceptor"), hello, hello).text


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
    assert FRAMES[message.tag] == frame
    assert decode_message(frame[4:], 10) == decode_message(frame[4:] + b"more", 10) == message
    for end in range(5, len(frame)):
        with pytest.raises(ProtocolError, match=r"failed to parse .*_msg") as raised:
            decode_message(frame[4:end], 10)
        assert raised.value.code == BrokerCode.INVALID_MESSAGE


def _changed(tag: Tag, at: int, byte: int) -> bytes:
    frame = bytearray(FRAMES[tag][4:])
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


@pytest.mark.parametrize(
    ("number", "raw"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16384, "808001"), (2**32 - 1, "ffffffff0f")],
)
def test_varbytes(number: int, raw: str) -> None:
    assert encode_varbyte(number).hex() == raw
    assert read_varbyte(b"x" + bytes.fromhex(raw) + b"x", 1) == (number, 1 + len(raw) // 2)


@pytest.mark.parametrize("raw", ["", "80", "ff" * 10, "80" * 10 + "01"])
def test_varbytes_without_an_end(raw: str) -> None:
    with pytest.raises(ValueError, match="has no end"):
        read_varbyte(bytes.fromhex(raw), 0)


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
    raw = b"\x03\x02/a" + encode_varbyte(len(prefix)) + prefix + b"\x02/b"
    assert decode_filter(raw, 0, 10)[0] == ("/a", "/b")


def test_a_filter_of_the_limit_is_read() -> None:
    prefixes = tuple(f"/topic/{number:06}" for number in range(FILTER_LIMIT_PREFIXES))
    raw = encode_filter(prefixes)
    assert decode_filter(raw, 0, FILTER_LIMIT_PREFIXES) == (prefixes, len(raw))
    with pytest.raises(ValueError, match="filter of 100001 prefixes, the limit is 100000"):
        decode_filter(encode_filter((*prefixes, "x")), 0, FILTER_LIMIT_PREFIXES)


def test_the_empty_filter_and_the_filter_of_everything() -> None:
    assert decode_filter(b"\x00", 0, 10)[0] == ()
    assert decode_filter(b"\x02\x00\x02/a", 0, 10)[0] == ("",)
