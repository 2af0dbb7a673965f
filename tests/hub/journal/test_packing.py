"""Blocks are made, cut and joined, pure and compiled: the same law for both."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.frame import FLAG_BATCH, FLAG_TAGGED, KIND_MESSAGES, Encoding, Frame, encode_frame, iterate_frames
from hub.journal import packing
from hub.journal.block import Block
from hub.tags.envelope import Envelope
from tests.hub.journal.twins import (
    PURE,
    Parts,
    batch,
    both,
    firsts,
    naive,
    parts_lists,
    records_of,
    single,
    some_parts,
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
@given(parts=parts_lists, first=firsts, limit_records=st.integers(1, 20), limit_bytes=st.integers(1, 200))
def test_both_twins_write_the_same_bytes(
    twin: SimpleNamespace, parts: Parts, first: int, limit_records: int, limit_bytes: int
) -> None:
    """A block does not tell who made it."""
    assert twin.pack(parts, first, limit_records, limit_bytes) == PURE.pack(parts, first, limit_records, limit_bytes)


@both
def test_cuts_blocks_at_their_limits(twin: SimpleNamespace) -> None:
    """A block ends with the record that reaches a limit: of records, of bytes of values, of bytes of topics."""
    parts = [(1, single(b"/a", b"x" * 10) + batch(b"/b", 7, b"\1" * 7) + single(b"/c", b"x" * 10))]
    counts = [Block.parse(block).count for block in twin.pack(parts, 0, 4)]
    assert counts == [4, 4, 1]
    counts = [Block.parse(block).count for block in twin.pack(parts, 0, 4096, 5)]
    assert counts == [1, 5, 3]
    counts = [Block.parse(block).count for block in twin.pack([(1, single(b"/long", b"") * 3)], 0, 4096, 5)]
    assert counts == [1, 1, 1]


@both
def test_packs_nothing_to_no_blocks(twin: SimpleNamespace) -> None:
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
def test_refuses_what_no_batch_holds(twin: SimpleNamespace, bad: bytes) -> None:
    """The hub never hands out such frames: an error, not a block that nobody can read."""
    with pytest.raises(ValueError, match=r"\w"):
        twin.pack([(1, single(b"/a", b"x") + bad)], 0)


@both
@pytest.mark.parametrize("arguments", [(-1,), (2**62,), (0, 0), (0, 65_537), (0, 1, 0), (0, 1, 2**30 + 1)], ids=str)
def test_refuses_limits_that_no_block_keeps(twin: SimpleNamespace, arguments: tuple[int, ...]) -> None:
    """A block has 1 to 65,536 records, its sections stay below 2^31 bytes, its offsets below 2^62."""
    with pytest.raises(ValueError, match="within the limits"):
        twin.pack([(1, single(b"/a", b"x"))], *arguments)


@both
def test_a_batch_that_cannot_be_cut_keeps_its_number(twin: SimpleNamespace) -> None:
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
@given(parts=parts_lists, limit_records=st.integers(1, 20), labels=st.sets(st.sampled_from("abé"), max_size=3))
def test_labels_and_names_are_not_kept(
    twin: SimpleNamespace, parts: Parts, limit_records: int, labels: set[str]
) -> None:
    """The journal keeps topics: the same blocks as of frames without labels."""

    def tag(frame: Frame) -> bytes:
        key = Envelope(frame.key.decode(), tuple(sorted(labels)), "a.b").encode()
        return encode_frame(frame.kind, frame.body, key=key, flags=frame.flags | FLAG_TAGGED)

    labelled = [
        (
            time_us,
            b"".join(
                [tag(frame) if number % 3 else _plain(frame) for number, frame in enumerate(iterate_frames(some))]
            ),
        )
        for time_us, some in parts
    ]
    assert twin.pack(labelled, 7, limit_records) == twin.pack(parts, 7, limit_records)


def _plain(frame: Frame) -> bytes:
    return encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags)


@both
@pytest.mark.parametrize("key", [b"", b"\0", b"\0\3/a", b"\xff\xff"])
def test_a_tagged_key_holds_its_topic(twin: SimpleNamespace, key: bytes) -> None:
    """Nothing behind it is read."""
    with pytest.raises(ValueError, match=f"a tagged key of {len(key)} bytes is shorter than its topic"):
        twin.pack([(1, encode_frame(KIND_MESSAGES, b"\1", key=key, flags=FLAG_TAGGED))], 0)


@both
def test_a_value_may_be_nested_deep(twin: SimpleNamespace) -> None:
    """Deeper than any unpacker follows: what counts is where it ends."""
    deep = b"\x91" * 100_000 + b"\xc0"
    records = records_of(*twin.pack([(1, batch(b"/a", 2, deep + b"\1"))], 0))
    assert [record.body for record in records] == [deep, b"\1"]


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
    """Who wants all gets what is there."""
    (block,) = twin.pack([(1, single(b"/a", b"x") + single(b"/b", b"y"))], 7)
    assert twin.select(block, 0, 2**63 - 1, None) is block
    assert twin.select(block, 7, 9, b"\1\1") is block
    assert twin.select(block, 9, 7, None) == b""


@both
def test_selects_by_the_topics_of_the_block(twin: SimpleNamespace) -> None:
    """Wishes for another number of topics were made for another block."""
    (block,) = twin.pack([(1, single(b"/a", b"x") + single(b"/b", b"y"))], 7)
    for wanted in (b"", b"\1", b"\1\1\1"):
        with pytest.raises(IndexError):
            twin.select(block, 0, 100, wanted)


@both
@given(parts=some_parts, first=firsts, limit=st.integers(1, 9))
def test_merges_what_was_cut(twin: SimpleNamespace, parts: Parts, first: int, limit: int) -> None:
    """Small blocks together are, byte by byte, the block that was not cut."""
    assert [twin.merge(twin.pack(parts, first, limit))] == twin.pack(parts, first, 65_536)


@both
def test_merges_only_neighbours(twin: SimpleNamespace) -> None:
    """A gap, another order, a sparse block, too many records, nothing at all: errors."""
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
def test_counts_the_records_of_each_topic(twin: SimpleNamespace, parts: Parts, first: int, limit: int) -> None:
    """In the order of the dictionary, which has none that nothing bears."""
    for data in PURE.pack(parts, first, limit):
        block = Block.parse(data)
        counts = Counter(record.topic for record in block.records())
        assert twin.count_topics(data) == [counts[topic] for topic in block.topics]


@both
def test_counts_nothing_in_what_is_damaged(twin: SimpleNamespace) -> None:
    """A number that is in no dictionary is no place to count at."""
    (block,) = PURE.pack([(1, single(b"/a", b"\1"))], 0)
    at = 48  # behind the header, and one time
    damaged = block[:at] + (2**31 - 1).to_bytes(4, "little") + block[at + 4 :]
    with pytest.raises(ValueError, match="dictionary"):
        twin.count_topics(damaged)


@both
@given(parts=some_parts, first=firsts, limit=st.integers(1, 20))
def test_the_checksum_of_all_of_a_block(twin: SimpleNamespace, parts: Parts, first: int, limit: int) -> None:
    """It is that of its bytes, whether they are read again or not."""
    for block in PURE.pack(parts, first, limit):
        assert twin.whole_checksum(block) == crc32(block)


@both
@pytest.mark.parametrize("size", [2**20 - 7, 2**20, 2**20 + 1])
def test_the_checksum_of_all_of_a_long_block(twin: SimpleNamespace, size: int) -> None:
    """Whatever bits its length has."""
    (block,) = PURE.pack([(1, single(b"/a", b"\7" * size))], 3)
    assert twin.whole_checksum(block) == crc32(block)


@both
@pytest.mark.parametrize("size", [0, 7])
def test_no_checksum_of_less_than_a_header(twin: SimpleNamespace, size: int) -> None:
    """What is that short has no checksum in it."""
    with pytest.raises(ValueError, match=f"^{size} bytes are shorter than a header$"):
        twin.whole_checksum(bytes(size))
