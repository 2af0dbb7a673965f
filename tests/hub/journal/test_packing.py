"""Blocks are made, cut and joined, pure and compiled: the same law for both."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from types import ModuleType

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.batch import value_ends
from hub.frame import BATCH_COUNT, FLAG_BATCH, KIND_MESSAGES, Encoding, encode_frame, iterate_frames
from hub.journal import packing
from hub.journal.block import Block, Record

TWINS = [pytest.param(packing, id="pure")]
if importlib.util.find_spec("hub.journal._packing") is not None:
    from hub.journal import _packing

    TWINS.append(pytest.param(_packing, id="compiled"))
else:
    skip = pytest.mark.skip(reason="the compiled twin is NOT BUILT here (no C compiler?): only the pure one is tested")
    TWINS.append(pytest.param(packing, id="compiled", marks=skip))

both = pytest.mark.parametrize("twin", TWINS)

Parts = list[tuple[int, bytes]]


def batch(topic: bytes, count: int, body: bytes, *, encoding: int = 0) -> bytes:
    """A BATCH frame that says it holds `count` values."""
    flags = FLAG_BATCH | encoding << 1
    return encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(count) + body, key=topic, flags=flags)


def single(topic: bytes, body: bytes, *, encoding: int = 0) -> bytes:
    """A frame with one value."""
    return encode_frame(KIND_MESSAGES, body, key=topic, flags=encoding << 1)


def naive(parts: Parts, first: int) -> list[Record]:
    """One record at a time, nothing clever."""
    records: list[Record] = []
    for time_us, frames in parts:
        for frame in iterate_frames(frames):
            values = [frame.body]
            if frame.flags & FLAG_BATCH:
                ends = value_ends(frame)
                values = [frame.body[4:], *[b""] * (frame.messages - 1)]
                if ends is not None:
                    values = [frame.body[start:end] for start, end in pairwise([4, *ends])]
            for value in values:
                offset = first + len(records)
                records.append(Record(offset, time_us, frame.key.decode(), frame.encoding, value))
    return records


def records_of(*blocks: bytes) -> list[Record]:
    """What stands in blocks."""
    return [record for block in blocks for record in Block.parse(block).records()]


topics = st.sampled_from([b"/a", b"/b", "/ä/ö".encode(), b"", b"/zeek/conn"])
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(), st.binary()),
    lambda inner: st.one_of(st.lists(inner, max_size=20), st.dictionaries(st.text(max_size=4), inner, max_size=20)),
    max_leaves=12,
)
packed = values.map(msgpack.packb)
bodies = st.one_of(packed, st.binary(max_size=12))
encodings = st.sampled_from([0, 0, 0, 1, 3])
single_frames = st.builds(
    lambda topic, body, encoding: single(topic, body, encoding=encoding), topics, bodies, encodings
)
sound_batches = st.builds(
    lambda topic, some: batch(topic, len(some), b"".join(some)), topics, st.lists(packed, min_size=1, max_size=9)
)
odd_batches = st.builds(
    lambda topic, count, some, encoding: batch(topic, count, some, encoding=encoding),
    topics,
    st.integers(1, 12),
    st.binary(max_size=12),
    encodings,
)
frames = st.one_of(single_frames, sound_batches, odd_batches)
parts_lists = st.lists(
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.lists(frames, max_size=4).map(b"".join)), max_size=5
)
firsts = st.one_of(st.integers(0, 1_000), st.integers(0, 2**62 - 1000))


@both
@given(parts=parts_lists, first=firsts, limit_records=st.integers(1, 20), limit_bytes=st.integers(1, 200))
def test_packs_what_a_naive_walk_finds(
    twin: ModuleType, parts: Parts, first: int, limit_records: int, limit_bytes: int
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
@given(parts=parts_lists, first=firsts, limit_records=st.integers(1, 20), limit_bytes=st.integers(1, 200))
def test_both_twins_write_the_same_bytes(
    twin: ModuleType, parts: Parts, first: int, limit_records: int, limit_bytes: int
) -> None:
    """A block does not tell who made it."""
    assert twin.pack(parts, first, limit_records, limit_bytes) == packing.pack(parts, first, limit_records, limit_bytes)


@both
def test_cuts_blocks_at_their_limits(twin: ModuleType) -> None:
    """A block ends with the record that reaches a limit: of records, of bytes of values, of bytes of topics."""
    parts = [(1, single(b"/a", b"x" * 10) + batch(b"/b", 7, b"\1" * 7) + single(b"/c", b"x" * 10))]
    counts = [Block.parse(block).count for block in twin.pack(parts, 0, 4)]
    assert counts == [4, 4, 1]
    counts = [Block.parse(block).count for block in twin.pack(parts, 0, 4096, 5)]
    assert counts == [1, 5, 3]
    counts = [Block.parse(block).count for block in twin.pack([(1, single(b"/long", b"") * 3)], 0, 4096, 5)]
    assert counts == [1, 1, 1]


@both
def test_packs_nothing_to_no_blocks(twin: ModuleType) -> None:
    """There is no empty block."""
    assert twin.pack([], 5) == []
    assert twin.pack([(1, b"")], 5) == []


@both
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(single(b"/a", b"xyz")[:-1], id="cut off in the body"),
        pytest.param(single(b"/a", b"xyz")[:7], id="cut off in the header"),
        pytest.param(encode_frame(3, b"xyz"), id="another kind"),
        pytest.param(batch(b"/a", 0, b"xyz"), id="a batch of nothing"),
        pytest.param(batch(b"/a", 65_537, b"xyz"), id="a batch of too many"),
        pytest.param(encode_frame(KIND_MESSAGES, b"\0\0\1", flags=FLAG_BATCH), id="half a count"),
        pytest.param(single(b"/\xff", b"xyz"), id="a topic that is not UTF-8"),
    ],
)
def test_refuses_what_no_batch_holds(twin: ModuleType, bad: bytes) -> None:
    """The hub never hands out such frames: an error, not a block that nobody can read."""
    with pytest.raises(ValueError, match=r"\w"):
        twin.pack([(1, single(b"/a", b"x") + bad)], 0)


@both
@pytest.mark.parametrize("arguments", [(-1,), (2**62,), (0, 0), (0, 65_537), (0, 1, 0), (0, 1, 2**30 + 1)], ids=str)
def test_refuses_limits_that_no_block_keeps(twin: ModuleType, arguments: tuple[int, ...]) -> None:
    """A block has 1 to 65,536 records, its sections stay below 2^31 bytes, its offsets below 2^62."""
    with pytest.raises(ValueError, match="within the limits"):
        twin.pack([(1, single(b"/a", b"x"))], *arguments)


@both
def test_a_batch_that_cannot_be_cut_keeps_its_number(twin: ModuleType) -> None:
    """Offsets advance by what the frame says; the first record has all of it."""
    malformed = batch(b"/a", 3, b"\xc1\1\2")
    broker = batch(b"/a", 2, b"\1\2", encoding=Encoding.BROKER)
    records = records_of(*twin.pack([(1, malformed + broker)], 0))
    assert [(record.body, record.encoding) for record in records] == [
        (b"\xc1\1\2", 0),
        (b"", 0),
        (b"", 0),
        (b"\1\2", 1),
        (b"", 1),
    ]


@both
def test_a_value_may_be_nested_deep(twin: ModuleType) -> None:
    """Deeper than any unpacker follows: what counts is where it ends."""
    deep = b"\x91" * 100_000 + b"\xc0"
    records = records_of(*twin.pack([(1, batch(b"/a", 2, deep + b"\1"))], 0))
    assert [record.body for record in records] == [deep, b"\1"]


@both
@given(parts=parts_lists.filter(any), first=st.integers(0, 50), data=st.data())
def test_selects_what_a_filter_selects(twin: ModuleType, parts: Parts, first: int, data: st.DataObject) -> None:
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
            assert chosen == packing.select(block, start, end, wanted)
            if not expected:
                assert chosen == b""
                break
            assert records_of(chosen) == expected
            result = Block.parse(chosen)
            assert (result.offsets is None) == (result.next - result.first == result.count)
            assert set(result.topics) == {record.topic for record in expected} or chosen is block
            block = chosen


@both
def test_selects_all_without_a_copy(twin: ModuleType) -> None:
    """Who wants all gets what is there."""
    (block,) = twin.pack([(1, single(b"/a", b"x") + single(b"/b", b"y"))], 7)
    assert twin.select(block, 0, 2**63 - 1, None) is block
    assert twin.select(block, 7, 9, b"\1\1") is block
    assert twin.select(block, 9, 7, None) == b""


@both
def test_selects_by_the_topics_of_the_block(twin: ModuleType) -> None:
    """Wishes for another number of topics were made for another block."""
    (block,) = twin.pack([(1, single(b"/a", b"x") + single(b"/b", b"y"))], 7)
    for wanted in (b"", b"\1", b"\1\1\1"):
        with pytest.raises(IndexError):
            twin.select(block, 0, 100, wanted)


@both
@given(parts=parts_lists.filter(lambda parts: any(part for _, part in parts)), first=firsts, limit=st.integers(1, 9))
def test_merges_what_was_cut(twin: ModuleType, parts: Parts, first: int, limit: int) -> None:
    """Small blocks together are, byte by byte, the block that was not cut."""
    assert [twin.merge(twin.pack(parts, first, limit))] == twin.pack(parts, first, 65_536)


@both
def test_merges_only_neighbours(twin: ModuleType) -> None:
    """A gap, another order, a sparse block, too many records, nothing at all: errors."""
    one, two, three = twin.pack([(1, single(b"/a", b"x") * 3)], 0, 1)
    assert twin.merge([two]) is two
    (dense,) = twin.pack([(1, single(b"/a", b"x") + single(b"/b", b"y") + single(b"/a", b"z"))], 0)
    sparse = twin.select(dense, 0, 3, b"\1\0")
    many = twin.pack([(1, batch(b"/a", 65_536, b"\1" * 65_536) + single(b"/a", b"x"))], 0, 65_536)
    for blocks in ([one, three], [two, one], [sparse], [sparse, three], many, []):
        with pytest.raises(ValueError, match=r"\w"):
            twin.merge(blocks)
