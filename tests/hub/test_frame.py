"""The layout of a frame."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hub.frame import (
    FLAG_BATCH,
    FLAG_TAGGED,
    HEADER,
    HEADER_BYTES,
    KIND_MESSAGES,
    Encoding,
    Frame,
    encode_frame,
    iterate_frames,
)

frames = st.builds(Frame, st.integers(0, 255), st.integers(0, 255), st.binary(max_size=40), st.binary(max_size=40))


def test_layout() -> None:
    raw = encode_frame(KIND_MESSAGES, b"\xc0", key=b"/a", flags=FLAG_BATCH)
    assert raw == bytes([0, 0, 0, 1, 2, 1, 0, 2]) + b"/a" + b"\xc0"
    assert HEADER_BYTES == 8


@given(st.lists(frames, max_size=6))
def test_frames_back_to_back_come_out_as_they_went_in(parts: list[Frame]) -> None:
    raw = b"".join(encode_frame(part.kind, part.body, key=part.key, flags=part.flags) for part in parts)
    assert list(iterate_frames(raw)) == parts


@given(frames)
def test_the_routing_key_is_cut_from_the_frame(part: Frame) -> None:
    raw = encode_frame(part.kind, part.body, key=part.key, flags=part.flags)
    assert part.routing_key == raw[4 : HEADER_BYTES + len(part.key)]
    assert HEADER.unpack_from(raw) == (len(part.body), part.kind, part.flags, len(part.key))


def test_the_topic_of_a_key() -> None:
    assert Frame(KIND_MESSAGES, FLAG_BATCH, b"\0\x02/a", b"").topic == b"\0\x02/a"
    assert Frame(KIND_MESSAGES, FLAG_BATCH | FLAG_TAGGED, b"\0\x02/a\0\0\x01b", b"").topic == b"/a"


def test_messages_counts_values() -> None:
    assert Frame(KIND_MESSAGES, 0, b"", b"\0\0\0\x05").messages == 1
    assert Frame(KIND_MESSAGES, FLAG_BATCH, b"", b"\0\0\0\x05").messages == 5


def test_encoding_is_bits_one_and_two() -> None:
    found = [Frame(KIND_MESSAGES, flags, b"", b"").encoding for flags in (0b1, 0b11, 0b101, 0b111, 0b11111001)]
    assert found == [Encoding.MSGPACK, Encoding.BROKER, 2, 3, Encoding.MSGPACK]
