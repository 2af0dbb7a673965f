"""Envelopes: the bytes of the specification, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.zeek.broker.messages import (
    NIL_ID,
    Envelope,
    EnvelopeType,
    data_header,
    decode_envelope,
    encode_envelope,
    encode_ping,
    encode_pong,
    encode_routing_update,
)

A = bytes.fromhex("00000000000040008000000000000000")
B = bytes.fromhex("ffffffffffff4fffbfffffffffffffff")

ENVELOPES = st.builds(
    Envelope,
    sender=st.binary(min_size=16, max_size=16),
    receiver=st.binary(min_size=16, max_size=16),
    type=st.sampled_from(EnvelopeType),
    topic=st.binary(max_size=20),
    payload=st.binary(min_size=1, max_size=20),
    ttl=st.integers(0, 0xFFFF),
)


def test_data_has_the_bytes_of_the_specification() -> None:
    """The topic /test, the count 42, for everybody."""
    raw = bytes.fromhex("00000033" + A.hex() + "00" * 16 + "01 0010 0005 2f74657374 02 000000000000002a")
    envelope = Envelope(A, NIL_ID, EnvelopeType.DATA, b"/test", bytes.fromhex("02000000000000002a"))
    assert encode_envelope(envelope) == raw
    assert decode_envelope(raw[4:]) == envelope
    assert raw[4:39] == data_header(A)


def test_control_envelopes_have_the_bytes_of_the_specification() -> None:
    """Ping, pong and routing_update, between two endpoints."""
    assert encode_ping(A, B, b"foo").hex(" ", -4) == (
        bytes.fromhex("0000002b" + A.hex() + B.hex() + "04 0010 0003 3c243e 666f6f").hex(" ", -4)
    )
    assert encode_pong(B, A, b"foo") == bytes.fromhex("0000002b" + B.hex() + A.hex() + "05 0010 0003 3c243e 666f6f")
    assert encode_routing_update(A, B, ("/foo/bar", "/test")) == bytes.fromhex(
        "00000038" + A.hex() + B.hex() + "03 0010 0003 3c243e 02 08 2f666f6f2f626172 05 2f74657374"
    )


def test_brokers_own_vector() -> None:
    """The bytes that Broker tests itself with."""
    raw = bytes.fromhex(
        "5746d8ee36445bd29f54d5a44c26c2a1 c0551e8d392b509ba47bae46f75befac 01 0010 0006 666f6f626172"
        "05 0b 68656c6c6f20776f726c64"
    )
    envelope = decode_envelope(raw)
    assert (envelope.topic, envelope.payload) == (b"foobar", b"\x05\x0bhello world")
    assert encode_envelope(envelope)[4:] == raw


@given(ENVELOPES)
def test_envelopes_round_trip(envelope: Envelope) -> None:
    """What was put together is taken apart."""
    assert decode_envelope(encode_envelope(envelope)[4:]) == envelope


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "envelope of 0 bytes, the shortest has 37"),
        (bytes(36), "envelope of 36 bytes, the shortest has 37"),
        (bytes(38), "unknown type 0"),
        (bytes(32) + b"\x06\x00\x10\x00\x00x", "unknown type 6"),
        (bytes(32) + b"\x01\x00\x10\x00\x02/a", "with a topic of 2 has no payload"),
        (bytes(32) + b"\x01\x00\x10\xff\xff/a", "with a topic of 65535 has no payload"),
    ],
)
def test_what_is_no_envelope(raw: bytes, reason: str) -> None:
    """Too short, of no type, or without a payload: the text says which."""
    with pytest.raises(ValueError, match=reason):
        decode_envelope(raw)
