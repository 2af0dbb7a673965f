"""Blocks are made, cut and joined, pure and compiled: the same law for both."""

from __future__ import annotations

import struct
from array import array
from itertools import accumulate
from types import SimpleNamespace
from zlib import crc32

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.journal import packing
from hub.journal.block import Block
from hub.journal.packing import FRAME_BYTES, FRAME_MESSAGES, FRAMES_BYTES, skip_value
from hub.labels.envelope import Envelope
from hub.messages.frame import FLAG_BATCH, FLAG_TAGGED, KIND_MESSAGES, Frame, encode_frame, iterate_frames
from tests.hub.journal.twins import (
    PURE,
    Parts,
    batch,
    bodies,
    both,
    firsts,
    naive,
    packed,
    parts_lists,
    records_of,
    single,
    some_parts,
    topics,
)


@both
@given(parts=parts_lists, first=firsts, limit_records=st.integers(1, 20), limit_bytes=st.integers(1, 200))
def test_packs_what_a_naive_walk_finds(
    twin: SimpleNamespace, parts: Parts, first: int, limit_records: int, limit_bytes: int
) -> None:
    """Whatever the frames hold: the records of a value-by-value walk, in dense blocks that go on from `first`."""
    blocks = twin.pack(parts, first, limit_records, limit_bytes)
    assert records_of(*blocks) == naive(parts, first)
    for block in map(Block.parse, blocks):
        assert block.offsets is None
        assert block.first == first
        assert len(set(block.topics)) == len(block.topics) == len(set(block.topic_nos))
        first = block.next


@both
def test_cuts_blocks_at_their_limits(twin: SimpleNamespace) -> None:
    """A block ends with the record that reaches a limit: of records, of bytes of values, of bytes of topics."""
    mixed = single(b"/a", b"x" * 10) + batch(b"/b", 7, b"\1" * 7) + single(b"/c", b"x" * 10)
    for frames, limits, counts in (
        (mixed, (4,), [4, 4, 1]),
        (mixed, (4096, 5), [1, 5, 3]),
        (single(b"/long", b"") * 3, (4096, 5), [1, 1, 1]),
    ):
        assert [Block.parse(block).count for block in twin.pack([(1, frames)], 0, *limits)] == counts


@both
@pytest.mark.parametrize(
    ("bad", "arguments", "text"),
    [
        pytest.param(single(b"/a", b"xyz")[:-1], (0,), r"\w", id="cut off in the body"),
        pytest.param(single(b"/a", b"xyz")[:7], (0,), r"\w", id="cut off in the header"),
        pytest.param(encode_frame(3, b"xyz"), (0,), r"\w", id="another kind"),
        pytest.param(batch(b"/a", 0, b"xyz"), (0,), r"\w", id="a batch of nothing"),
        pytest.param(batch(b"/a", 65_537, b"xyz"), (0,), r"\w", id="a batch of too many"),
        pytest.param(encode_frame(KIND_MESSAGES, b"\0\0\1", flags=FLAG_BATCH), (0,), r"\w", id="half a count"),
        pytest.param(single(b"/\xff", b"xyz"), (0,), r"\w", id="a topic that is not UTF-8"),
        *(
            pytest.param(
                encode_frame(KIND_MESSAGES, b"\1", key=key, flags=FLAG_TAGGED),
                (0,),
                f"a tagged key of {len(key)} bytes is shorter than its topic",
                id=f"tagged {key!r}",
            )
            for key in (b"", b"\0", b"\0\3/a", b"\xff\xff")
        ),
        *(
            pytest.param(b"", limits, "within the limits", id=str(limits))
            for limits in ((-1,), (2**62,), (0, 0), (0, 65_537), (0, 1, 0), (0, 1, 2**30 + 1))
        ),
    ],
)
def test_refuses_what_no_block_holds(twin: SimpleNamespace, bad: bytes, arguments: tuple[int, ...], text: str) -> None:
    """A block has 1 to 65,536 records, its sections stay below 2^31 bytes, its offsets below 2^62."""
    with pytest.raises(ValueError, match=text):
        twin.pack([(1, single(b"/a", b"x") + bad)], *arguments)


@both
def test_a_batch_that_cannot_be_cut_keeps_its_number(twin: SimpleNamespace) -> None:
    deep = b"\x91" * 100_000 + b"\xc0"  # a value may be nested as deep
    tricky = b"\xc1\1\2\3\xcc\xcf"  # from -1 on, where the first value does not end, a value would go up to \xcc
    frames = batch(b"/a", 3, b"\xc1\1\2") + batch(b"/a", 2, b"\1\2", encoding=1) + batch(b"/a", 2, deep + b"\1")
    records = records_of(*twin.pack([(1, frames + batch(b"/a", 3, tricky))], 0))
    bodies = [(b"\xc1\1\2", 0), (b"", 0), (b"", 0), (b"\1\2", 1), (b"", 1), (deep, 0), (b"\1", 0)]
    bodies += [(tricky, 0), (b"", 0), (b"", 0)]
    assert [(record.body, record.encoding) for record in records] == bodies


@both
@given(parts=parts_lists, limit_records=st.integers(1, 20), labels=st.sets(st.sampled_from("abé"), max_size=3))
def test_labels_and_names_are_not_kept(
    twin: SimpleNamespace, parts: Parts, limit_records: int, labels: set[str]
) -> None:
    def tag(frame: Frame, number: int) -> bytes:
        if not number % 3:
            return encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags)
        key = Envelope(frame.key.decode(), tuple(sorted(labels)), "a.b").encode()
        return encode_frame(frame.kind, frame.body, key=key, flags=frame.flags | FLAG_TAGGED)

    labelled = [
        (time_us, b"".join(tag(frame, number) for number, frame in enumerate(iterate_frames(some))))
        for time_us, some in parts
    ]
    assert twin.pack(labelled, 7, limit_records) == twin.pack(parts, 7, limit_records)


@both
@given(parts=some_parts, first=st.integers(0, 50), data=st.data())
def test_selects_what_a_filter_selects(twin: SimpleNamespace, parts: Parts, first: int, data: st.DataObject) -> None:
    """Any range of offsets, any topics, and again of what came out: the records that a filter would choose."""
    for whole in twin.pack(parts, first, 60):
        block, expected = whole, records_of(whole)
        for _ in range(2):
            seen = Block.parse(block)
            start = data.draw(st.integers(seen.first - 3, seen.next + 3))
            end = data.draw(st.integers(start - 3, seen.next + 3))
            wanted = data.draw(st.none() | st.binary(min_size=len(seen.topics), max_size=len(seen.topics)))
            expected = [
                record
                for record in expected
                if start <= record.offset < end and (wanted is None or wanted[seen.topics.index(record.topic)])
            ]
            chosen = twin.select(block, start, end, wanted)
            assert chosen == PURE.select(block, start, end, wanted)
            if not expected:
                assert chosen == b""
                break
            assert records_of(chosen) == expected
            result = Block.parse(chosen)
            assert (result.offsets is None) == (result.next - result.first == result.count)
            assert set(result.topics) == {record.topic for record in expected} or chosen is block
            block = chosen


@both
def test_selects_all_without_a_copy(twin: SimpleNamespace) -> None:
    (block,) = twin.pack([(1, single(b"/a", b"x") + single(b"/b", b"y"))], 7)
    assert twin.select(block, 0, 2**63 - 1, None) is block
    assert twin.select(block, 7, 9, b"\1\1") is block
    assert twin.select(block, 9, 7, None) == b""
    for wanted in (b"", b"\1", b"\1\1\1"):
        with pytest.raises(IndexError):
            twin.select(block, 0, 100, wanted)


@both
@given(parts=some_parts, first=firsts, limit=st.integers(1, 9))
def test_merges_what_was_cut(twin: SimpleNamespace, parts: Parts, first: int, limit: int) -> None:
    assert [twin.merge(twin.pack(parts, first, limit))] == twin.pack(parts, first, 65_536)


@both
def test_merges_only_neighbours(twin: SimpleNamespace) -> None:
    one, two, three = twin.pack([(1, single(b"/a", b"x") * 3)], 0, 1)
    assert twin.merge([two]) is two
    (dense,) = twin.pack([(1, single(b"/a", b"x") + single(b"/b", b"y") + single(b"/a", b"z"))], 0)
    sparse = twin.select(dense, 0, 3, b"\1\0")
    many = twin.pack([(1, batch(b"/a", 65_536, b"\1" * 65_536) + single(b"/a", b"x"))], 0, 65_536)
    for blocks in ([one, three], [two, one], [sparse], [sparse, three], many, []):
        with pytest.raises(ValueError, match=r"\w"):
            twin.merge(blocks)


def test_merges_no_more_than_a_section_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends have 31 bits: what is longer stays in several blocks. Here with a limit that a test can reach."""
    blocks = packing.pack([(1, single(b"/a", b"x" * 6) * 2)], 0, 1)
    assert packing.merge(blocks)
    monkeypatch.setattr(packing, "SECTION_LIMIT_BYTES", 11)
    with pytest.raises(ValueError, match="too many bytes"):
        packing.merge(blocks)


@both
@given(parts=some_parts, first=firsts, limit=st.integers(1, 20))
def test_the_checksum_of_all_of_a_block(twin: SimpleNamespace, parts: Parts, first: int, limit: int) -> None:
    for block in PURE.pack(parts, first, limit):
        assert twin.whole_checksum(block) == crc32(block)


@both
def test_the_checksum_of_long_blocks_and_of_none(twin: SimpleNamespace) -> None:
    for size in (2**20 - 7, 2**20, 2**20 + 1):
        (block,) = PURE.pack([(1, single(b"/a", b"\7" * size))], 3)
        assert twin.whole_checksum(block) == crc32(block)
    for size in (0, 7):
        with pytest.raises(ValueError, match=f"^{size} bytes are shorter than a header$"):
            twin.whole_checksum(bytes(size))


# Blocks and columns become frames again, pure and compiled: the same law for both.


Columns = tuple[bytes, bytes, bytes, bytes]


def columns(rows: list[tuple[bytes, bytes]]) -> Columns:
    ends = [array("i", accumulate((len(row[place]) for row in rows), initial=0)).tobytes() for place in (0, 1)]
    return ends[0], b"".join(topic for topic, _ in rows), ends[1], b"".join(value for _, value in rows)


def messages_of(made: list[tuple[bytes, int]]) -> list[tuple[str, int, bytes]]:
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
    start = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows) - start))
    made = twin.frames_of_columns(*columns(rows), start, count)
    assert made == PURE.frames_of_columns(*columns(rows), start, count)
    chosen = rows[start : start + count]
    assert messages_of(made) == [(topic.decode(), 0, value) for topic, value in chosen]


@both
def test_joins_neighbours_of_one_topic(twin: SimpleNamespace) -> None:
    frames = batch(b"/a", 3, b"\1\2\3") + single(b"/b", b"\4") + single(b"/a", b"\5") + single(b"/a", b"\6")
    (block,) = PURE.pack([(0, frames)], 0)
    expected = batch(b"/a", 3, b"\1\2\3") + single(b"/b", b"\4") + batch(b"/a", 2, b"\5\6")
    assert twin.to_frames(block) == [(expected, 6)]
    rows = [(b"/a", b"\1"), (b"/a", b"\2"), (b"/a", b"\3"), (b"/b", b"\4"), (b"/a", b"\5"), (b"/a", b"\6")]
    assert twin.frames_of_columns(*columns(rows), 0, 6) == [(expected, 6)]


@both
@pytest.mark.parametrize("broken", [b"", b"\xc1", b"\1\2", b"\x92\1"], ids=["empty", "no tag", "two", "half"])
def test_what_is_no_value_of_msgpack_stays_alone(twin: SimpleNamespace, broken: bytes) -> None:
    rows = [(b"/a", b"\1"), (b"/a", b"\2"), (b"/a", broken), (b"/a", b"\3"), (b"/a", b"\4")]
    expected = batch(b"/a", 2, b"\1\2") + single(b"/a", broken) + batch(b"/a", 2, b"\3\4")
    assert twin.frames_of_columns(*columns(rows), 0, 5) == [(expected, 5)]
    (block,) = PURE.pack([(0, b"".join(single(*row) for row in rows))], 0)
    assert twin.to_frames(block) == [(expected, 5)]
    encoded = single(b"/a", broken, encoding=1) * 2 + single(b"/a", b"\1")
    (block,) = PURE.pack([(0, encoded)], 0)
    assert twin.to_frames(block) == [(encoded, 3)]


@both
def test_frames_keep_their_limits(twin: SimpleNamespace) -> None:
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
def test_refuses_columns_that_lead_out(twin: SimpleNamespace) -> None:
    two = columns([(b"/a", b"\1"), (b"/b", b"\2")])
    for start, count in ((0, 3), (2, 1), (3, 0), (-1, 1), (0, -1), (1, 2**62)):
        with pytest.raises(ValueError, match="there are 2"):
            twin.frames_of_columns(*two, start, count)
    good = array("i", [0, 1, 2]).tobytes()
    for ends in ((-1, 1, 2), (0, 2, 1), (0, 1, 3), (0, 2**31 - 1, 2)):
        bad = array("i", ends).tobytes()
        with pytest.raises(ValueError, match="offsets of topics"):
            twin.frames_of_columns(bad, b"/a", good, b"\1\2", 0, 2)
        with pytest.raises(ValueError, match="offsets of values"):
            twin.frames_of_columns(good, b"/a", bad, b"\1\2", 0, 2)
    long = b"/" * 65_535
    assert twin.frames_of_columns(*columns([(long, b"\1")]), 0, 1) == [(single(long, b"\1"), 1)]
    with pytest.raises(ValueError, match="longer than a frame can bear"):
        twin.frames_of_columns(*columns([(long + b"/", b"\1")]), 0, 1)


# Where a value of msgpack ends.


EACH = [
    *(bytes([tag]) for tag in (0x00, 0x7F, 0xC0, 0xC2, 0xC3, 0xE0, 0xFF)),
    *(bytes([0xCA + place]) + bytes(size) for place, size in enumerate((4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 2, 3, 5, 9, 17))),
    *(b"\xa0", b"\xbf" + bytes(31), b"\x80", b"\x90", b"\x9f" + bytes(15), b"\x8f" + bytes(30)),
    *(
        struct.pack(form, first + place, 3) + rest
        for first, rest in ((0xC4, b"abc"), (0xD9, b"abc"), (0xC7, b"tabc"))
        for place, form in enumerate((">BB", ">BH", ">BI"))
    ),
    *(
        struct.pack(form, first + place, 3) + bytes(size)
        for first, size in ((0xDC, 3), (0xDE, 6))
        for place, form in enumerate((">BH", ">BI"))
    ),
]


@pytest.mark.parametrize("value", EACH, ids=lambda value: f"{value[0]:02x}")
def test_finds_the_end_of_each_kind(value: bytes) -> None:
    assert skip_value(b"??" + value + b"??", 2, len(value) + 4) == len(value) + 2
    assert skip_value(value, 0, len(value)) == len(value)
    assert skip_value(value + b"?", 0, len(value) - 1) == -1


@given(value=packed, after=st.binary(max_size=3))
def test_agrees_with_msgpack(value: bytes, after: bytes) -> None:
    assert skip_value(value + after, 0, len(value + after)) == len(value)


@given(data=st.binary(max_size=24))
def test_finds_no_end_where_msgpack_finds_none(data: bytes) -> None:
    unpacker = msgpack.Unpacker(max_buffer_size=100)
    unpacker.feed(data)
    try:
        unpacker.skip()
        end = unpacker.tell()
    except (msgpack.UnpackException, ValueError):
        end = -1
    assert skip_value(data, 0, len(data)) == end
