"""Messages of the handshake: the bytes of the specification, and what is answered to others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import ProtocolError
from peers.zeek.broker import messages
from peers.zeek.broker.messages import BrokerCode, Filter

A = bytes.fromhex("00000000000040008000000000000000")

ENCODED = [
    (messages.encode_probe(), "00000005 07 5a45454b", messages.Probe()),
    (
        messages.encode_hello(A),
        "00000017 06 5a45454b 00000000000040008000000000000000 01 01",
        messages.Hello(A, 1, 1),
    ),
    (
        messages.encode_version_select(A),
        "00000016 08 5a45454b 00000000000040008000000000000000 01",
        messages.VersionSelect(A, 1),
    ),
    (
        messages.encode_originator_syn(("/foo/bar",)),
        "0000000b 0a 01 08 2f666f6f2f626172",
        messages.OriginatorSyn(Filter(("/foo/bar",))),
    ),
    (messages.encode_originator_syn(()), "00000002 0a 00", messages.OriginatorSyn(Filter(()))),
    (
        messages.encode_responder_syn_ack(("/test",)),
        "00000008 0b 01 05 2f74657374",
        messages.ResponderSynAck(Filter(("/test",))),
    ),
    (messages.encode_originator_ack(), "00000001 0c", messages.OriginatorAck()),
    (
        messages.encode_drop_conn(A, 39, "redundant connection"),
        "0000002b 09 5a45454b 00000000000040008000000000000000 27 14 726564756e64616e7420636f6e6e656374696f6e",
        messages.DropConn(A, BrokerCode.REDUNDANT_CONNECTION, "redundant connection"),
    ),
]
IDS = [raw for _, raw, _ in ENCODED]


@pytest.mark.parametrize(("frame", "raw", "message"), ENCODED, ids=IDS)
def test_messages_have_the_bytes_of_the_specification(
    frame: bytes, raw: str, message: messages.HandshakeMessage
) -> None:
    """Each is written and read as specified; bytes behind it are ignored."""
    assert frame == bytes.fromhex(raw)
    assert messages.decode_message(frame[4:], 10) == message
    assert messages.decode_message(frame[4:] + b"more", 10) == message


@pytest.mark.parametrize(("frame", "raw", "message"), ENCODED[:-2], ids=IDS[:-2])
def test_truncated_messages_are_named(frame: bytes, raw: str, message: messages.HandshakeMessage) -> None:
    """A message that ends too early has code 20 and Broker's name for it in the text."""
    del raw, message
    for end in range(1, len(frame) - 4):
        with pytest.raises(ProtocolError, match=r"failed to parse .*_msg") as raised:
            messages.decode_message(frame[4 : 4 + end], 10)
        assert raised.value.code == BrokerCode.INVALID_MESSAGE


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_wrong_magic_number(number: int) -> None:
    """Whoever is no ZEEK has code 38."""
    frame = bytearray((ENCODED[0], ENCODED[1], ENCODED[2], ENCODED[-1])[number][0][4:])
    frame[1] ^= 1
    with pytest.raises(ProtocolError, match="wrong magic number") as raised:
        messages.decode_message(bytes(frame), 10)
    assert raised.value.code == BrokerCode.WRONG_MAGIC_NUMBER


@pytest.mark.parametrize(("lowest", "highest", "is_taken"), [(1, 1, True), (0, 99, True), (2, 3, False), (0, 0, False)])
def test_versions_are_a_range(lowest: int, highest: int, *, is_taken: bool) -> None:
    """A range with 1 in it is taken, another one has code 2."""
    raw = ENCODED[1][0][4:-2] + bytes((lowest, highest))
    if is_taken:
        assert messages.decode_message(raw, 10) == messages.Hello(A, lowest, highest)
        return
    with pytest.raises(ProtocolError, match="unsupported versions offered") as raised:
        messages.decode_message(raw, 10)
    assert raised.value.code == BrokerCode.PEER_INCOMPATIBLE


@pytest.mark.parametrize("tag", [0, 1, 5, 13, 255])
def test_unknown_tags(tag: int) -> None:
    """Tags of envelopes and of nothing have code 20."""
    with pytest.raises(ProtocolError, match="invalid message type tag") as raised:
        messages.decode_message(bytes((tag,)) + b"ZEEK", 10)
    assert raised.value.code == BrokerCode.INVALID_MESSAGE


def test_a_truncated_drop_conn() -> None:
    """A text that is not complete is no message either."""
    with pytest.raises(ProtocolError, match="failed to parse drop_conn_msg"):
        messages.decode_message(ENCODED[-1][0][4:-1], 10)


def test_an_unknown_code_of_drop_conn() -> None:
    """A code over 41 is no message; the text is passed on."""
    with pytest.raises(ProtocolError, match="why not") as raised:
        messages.decode_message(messages.encode_drop_conn(A, 42, "why not")[4:], 10)
    assert raised.value.code == BrokerCode.UNSPECIFIED


def test_texts_are_fit_for_a_log() -> None:
    """What a far side says has no control characters, no invalid UTF-8, and ends somewhere."""
    raw = b"\x09ZEEK" + A + b"\x01\xac\x02" + b"\x1b[1m\xff" + b"x" * 295
    dropped = messages.decode_message(raw, 10)
    assert isinstance(dropped, messages.DropConn)
    assert dropped.text == "\ufffd[1m\ufffd" + "x" * 251


@given(st.binary(min_size=1, max_size=60), st.sampled_from([None, *messages.Tag]))
def test_any_bytes_are_a_message_or_an_error_of_broker(raw: bytes, tag: messages.Tag | None) -> None:
    """No bytes raise anything but a ProtocolError with one of Broker's codes."""
    payload = raw if tag is None else bytes((tag,)) + raw
    try:
        message = messages.decode_message(payload, 5)
    except ProtocolError as error:
        assert error.code in list(BrokerCode)  # noqa: PT017 -- often there is none
    else:
        assert isinstance(message, messages.HandshakeMessage)
