"""Blocks and columns become frames again, pure and compiled: the same law for both."""

from __future__ import annotations

from array import array
from itertools import accumulate
from types import SimpleNamespace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.frame import KIND_MESSAGES, encode_frame, iterate_frames
from hub.journal.unpacking import FRAME_BYTES, FRAME_MESSAGES, FRAMES_BYTES
from tests.hub.journal.twins import PURE, Parts, batch, bodies, both, records_of, single, some_parts, topics

Columns = tuple[bytes, bytes, bytes, bytes]


def columns(rows: list[tuple[bytes, bytes]]) -> Columns:
    """Rows of topic and value, as Arrow has them."""
    ends = [array("i", accumulate((len(row[place]) for row in rows), initial=0)).tobytes() for place in (0, 1)]
    return ends[0], b"".join(topic for topic, _ in rows), ends[1], b"".join(value for _, value in rows)


def messages_of(made: list[tuple[bytes, int]]) -> list[tuple[str, int, bytes]]:
    """What the frames hold, as the journal reads them."""
    blocks = PURE.pack([(0, frames) for frames, _ in made], 0, 65_536)
    return [(record.topic, record.encoding, record.body) for record in records_of(*blocks)]


@both
@given(parts=some_parts, limit_bytes=st.integers(0, 100), wanted=st.integers(0, 255))
def test_frames_hold_the_records_of_the_block(
    twin: SimpleNamespace, parts: Parts, limit_bytes: int, wanted: int
) -> None:
    """Whatever is in it, dense or sparse: packed again, they are the same messages in the same order."""
    for dense in PURE.pack(parts, 0, 65_536):
        mask = bytes(wanted >> number & 1 for number in range(PURE.read_layout(dense).topics))
        for block in (dense, PURE.select(dense, 0, 100_000, mask)):
            if block:
                made = twin.to_frames(block, limit_bytes)
                assert made == PURE.to_frames(block, limit_bytes)
                records = records_of(block)
                assert messages_of(made) == [(record.topic, record.encoding, record.body) for record in records]
                assert sum(messages for _, messages in made) == len(records)


@both
@given(rows=st.lists(st.tuples(topics, bodies), max_size=30), data=st.data())
def test_frames_hold_the_rows_of_the_columns(
    twin: SimpleNamespace, rows: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    """Any rows of two columns; a value that is no msgpack goes as it is."""
    start = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows) - start))
    made = twin.frames_of_columns(*columns(rows), start, count)
    assert made == PURE.frames_of_columns(*columns(rows), start, count)
    chosen = rows[start : start + count]
    assert messages_of(made) == [(topic.decode(), 0, value) for topic, value in chosen]


@both
def test_joins_neighbours_of_one_topic(twin: SimpleNamespace) -> None:
    """One frame for each run of a topic; a lone value needs no count."""
    frames = batch(b"/a", 3, b"\1\2\3") + single(b"/b", b"\4") + single(b"/a", b"\5") + single(b"/a", b"\6")
    (block,) = PURE.pack([(0, frames)], 0)
    expected = batch(b"/a", 3, b"\1\2\3") + single(b"/b", b"\4") + batch(b"/a", 2, b"\5\6")
    assert twin.to_frames(block) == [(expected, 6)]
    rows = [(b"/a", b"\1"), (b"/a", b"\2"), (b"/a", b"\3"), (b"/b", b"\4"), (b"/a", b"\5"), (b"/a", b"\6")]
    assert twin.frames_of_columns(*columns(rows), 0, 6) == [(expected, 6)]


@both
@pytest.mark.parametrize("broken", [b"", b"\xc1", b"\1\2", b"\x92\1"], ids=["empty", "no tag", "two", "half"])
def test_a_broken_value_stays_alone(twin: SimpleNamespace, broken: bytes) -> None:
    """Its neighbours can still be read."""
    rows = [(b"/a", b"\1"), (b"/a", b"\2"), (b"/a", broken), (b"/a", b"\3"), (b"/a", b"\4")]
    expected = batch(b"/a", 2, b"\1\2") + single(b"/a", broken) + batch(b"/a", 2, b"\3\4")
    assert twin.frames_of_columns(*columns(rows), 0, 5) == [(expected, 5)]
    (block,) = PURE.pack([(0, b"".join(single(*row) for row in rows))], 0)
    assert twin.to_frames(block) == [(expected, 5)]


@both
def test_another_encoding_stays_alone(twin: SimpleNamespace) -> None:
    """Several values of it in one frame could not be told apart."""
    frames = single(b"/a", b"\1", encoding=1) + single(b"/a", b"\1", encoding=1) + single(b"/a", b"\1")
    (block,) = PURE.pack([(0, frames)], 0)
    assert twin.to_frames(block) == [(frames, 3)]


@both
def test_frames_keep_their_limits(twin: SimpleNamespace) -> None:
    """So many values, so many bytes of body; only a lone value may be larger."""
    (block,) = PURE.pack([(0, batch(b"/a", 10_000, b"\1" * 10_000))], 0, 65_536)
    ((frames, messages),) = twin.to_frames(block)
    assert [frame.messages for frame in iterate_frames(frames)] == [FRAME_MESSAGES, FRAME_MESSAGES, 1_808]
    assert messages == 10_000
    value = msgpack.packb(b"x" * 98)
    rows = [(b"/a", value)] * 2_000 + [(b"/a", msgpack.packb(b"x" * FRAME_BYTES)), (b"/a", value)]
    frames = b"".join(piece for piece, _ in twin.frames_of_columns(*columns(rows), 0, len(rows)))
    assert [frame.messages for frame in iterate_frames(frames)] == [655, 655, 655, 35, 1, 1]
    assert [len(frame.body) <= FRAME_BYTES for frame in iterate_frames(frames)] == [True] * 4 + [False, True]


@both
def test_frames_are_handed_out_in_pieces(twin: SimpleNamespace) -> None:
    """As much as one read brings, or one frame if that is more."""
    small, large = msgpack.packb(b"x" * 90_000), msgpack.packb(b"x" * 300_000)
    rows = [(b"/a", value) for value in (small, small, small, large, small, large)]
    made = twin.frames_of_columns(*columns(rows), 0, len(rows))
    assert [messages for _, messages in made] == [2, 1, 1, 1, 1]
    assert [len(frames) > FRAMES_BYTES for frames, _ in made] == [False, False, True, False, True]
    assert b"".join(frames for frames, _ in made) == b"".join(single(*row) for row in rows)


@both
def test_takes_any_buffers(twin: SimpleNamespace) -> None:
    """Buffers of other item sizes and at odd addresses; none at all where nothing is in them."""
    topic_ends, topic_text, value_ends, value_bytes = columns([(b"/a", b"\1"), (b"/b", b"\2")])
    odd = memoryview(b"x" + topic_ends)[1:]
    as_ints = memoryview(value_ends).cast("i")
    expected = [(single(b"/b", b"\2"), 1)]
    assert twin.frames_of_columns(odd, memoryview(topic_text), as_ints, value_bytes, 1, 1) == expected
    assert twin.frames_of_columns(b"", None, b"", None, 0, 0) == []
    nothing = bytes(8)
    assert twin.frames_of_columns(nothing, None, nothing, None, 0, 1) == [(encode_frame(KIND_MESSAGES, b""), 1)]


@both
@pytest.mark.parametrize(("start", "count"), [(0, 3), (2, 1), (3, 0), (-1, 1), (0, -1), (1, 2**62)])
def test_refuses_rows_that_are_not_there(twin: SimpleNamespace, start: int, count: int) -> None:
    """An error, not a read beside the buffers."""
    made = columns([(b"/a", b"\1"), (b"/b", b"\2")])
    with pytest.raises(ValueError, match="there are 2"):
        twin.frames_of_columns(*made, start, count)


@both
@pytest.mark.parametrize("ends", [(-1, 1, 2), (0, 2, 1), (0, 1, 3), (0, 2**31 - 1, 2)], ids=str)
def test_refuses_offsets_that_lead_out(twin: SimpleNamespace, ends: tuple[int, ...]) -> None:
    """Of topics and of values."""
    good, bad = array("i", [0, 1, 2]).tobytes(), array("i", ends).tobytes()
    with pytest.raises(ValueError, match="offsets of topics"):
        twin.frames_of_columns(bad, b"/a", good, b"\1\2", 0, 2)
    with pytest.raises(ValueError, match="offsets of values"):
        twin.frames_of_columns(good, b"/a", bad, b"\1\2", 0, 2)


@both
def test_refuses_a_topic_that_no_frame_bears(twin: SimpleNamespace) -> None:
    """The length of a topic has 16 bits."""
    long = b"/" * 65_535
    assert twin.frames_of_columns(*columns([(long, b"\1")]), 0, 1) == [(single(long, b"\1"), 1)]
    with pytest.raises(ValueError, match="longer than a frame can bear"):
        twin.frames_of_columns(*columns([(long + b"/", b"\1")]), 0, 1)
