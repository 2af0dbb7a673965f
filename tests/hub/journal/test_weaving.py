"""Blocks are taken apart by topic and put together again, pure and compiled: the same law for both."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError
from hub.journal import block as of_blocks
from hub.journal.block import Block
from hub.journal.layout import OFFSET_LIMIT
from tests.hub.journal.twins import PURE, Parts, batch, both, firsts, records_of, single, some_parts


@both
@given(parts=some_parts, first=firsts, data=st.data())
def test_splits_by_topic_and_weaves_again(twin: SimpleNamespace, parts: Parts, first: int, data: st.DataObject) -> None:
    """Each record is in the part of its topic's group; all of them make the very block that they came from."""
    for whole in twin.pack(parts, first, 60):
        block = Block.parse(whole)
        groups = data.draw(st.binary(min_size=len(block.topics), max_size=len(block.topics)))
        order, split = twin.split(whole, groups)
        assert (order, split) == PURE.split(whole, groups)
        assert len(order) == block.count
        for number, (part, group) in enumerate(zip(split, sorted(set(groups)), strict=True)):
            expected = [one for one in block.records() if groups[block.topics.index(one.topic)] == group]
            assert [one._replace(offset=0) for one in records_of(part)] == [one._replace(offset=0) for one in expected]
            assert [block.first + at for at, of in enumerate(order) if of == number] == [one.offset for one in expected]
        assert twin.weave(order, split, block.first) == whole


@both
@given(parts=some_parts, first=firsts, data=st.data())
def test_weaves_some_of_the_parts(twin: SimpleNamespace, parts: Parts, first: int, data: st.DataObject) -> None:
    """What comes out has the records of those that are there, at their offsets, and no others."""
    for whole in twin.pack(parts, first, 60):
        block = Block.parse(whole)
        groups = data.draw(st.binary(min_size=len(block.topics), max_size=len(block.topics)))
        order, split = twin.split(whole, groups)
        there = data.draw(st.sets(st.integers(0, len(split) - 1), min_size=1))
        some = [part if number in there else None for number, part in enumerate(split)]
        woven = twin.weave(order, some, block.first)
        assert woven == PURE.weave(order, some, block.first)
        expected = [one for one, number in zip(block.records(), order, strict=True) if number in there]
        assert records_of(woven) == expected
        is_dense = expected[-1].offset - expected[0].offset == len(expected) - 1
        assert (Block.parse(woven).offsets is None) == is_dense
        assert len(set(Block.parse(woven).topic_nos)) == len(Block.parse(woven).topics)


@both
def test_values_of_all_lengths(twin: SimpleNamespace) -> None:
    """None loses or gains a byte: short ones are copied in chunks, where there is room for them."""
    sizes = [0, 1, 31, 32, 33, 64, 479, 480, 481, 511, 512, 513, 2_000]
    frames = [single(b"/%d" % (size % 3), bytes([size % 251]) * size) for size in sizes * 2]
    (whole,) = twin.pack([(1, b"".join(frames))], 7)
    groups = bytes(range(len(Block.parse(whole).topics)))
    order, parts = twin.split(whole, groups)
    assert twin.weave(order, parts, 7) == whole


@both
def test_a_checksum_that_is_known(twin: SimpleNamespace) -> None:
    """It is set as it is told, and nothing is computed."""
    (whole,) = twin.pack([(1, single(b"/a", b"x") + single(b"/b", b"y"))], 7)
    order, parts = twin.split(whole, b"\0\1")
    assert twin.weave(order, parts, 7, int.from_bytes(whole[4:8], "little")) == whole
    assert twin.weave(order, parts, 7, 5) == whole[:4] + b"\5\0\0\0" + whole[8:]


@both
def test_the_same_topic_in_two_parts(twin: SimpleNamespace) -> None:
    """As nobody writes it: it stands in the dictionary once."""
    (one,) = twin.pack([(1, batch(b"/a", 2, b"\1\2"))], 0)
    woven = twin.weave(b"\1\0\0\1", [one, one], 5)
    assert [(record.offset, record.topic, record.body) for record in records_of(woven)] == [
        (5, "/a", b"\1"),
        (6, "/a", b"\1"),
        (7, "/a", b"\2"),
        (8, "/a", b"\2"),
    ]
    assert Block.parse(woven).topics == ["/a"]


@both
def test_what_cannot_be_split(twin: SimpleNamespace) -> None:
    """Other groups than topics, what is damaged, and what has gaps."""
    (block,) = twin.pack([(1, single(b"/a", b"x") + single(b"/b", b"y") + single(b"/a", b"z"))], 0)
    with pytest.raises(IndexError, match="1 topics have a group, the block has 2"):
        twin.split(block, b"\0")
    with pytest.raises(ValueError, match=r"\w"):
        twin.split(block[:-1], b"\0\0")
    with pytest.raises(ValueError, match="a sparse block is not split"):
        twin.split(twin.select(block, 0, 3, b"\1\0"), b"\0")


@both
def test_what_cannot_be_woven(twin: SimpleNamespace) -> None:
    """Parts that are not those of the order, or damaged, or none."""
    (whole,) = twin.pack([(1, single(b"/a", b"x") + single(b"/b", b"y") + single(b"/a", b"z"))], 0)
    order, parts = twin.split(whole, b"\0\1")
    with pytest.raises(ValueError, match="part 0 has other records than the order says"):
        twin.weave(order[:-1], parts, 0)
    with pytest.raises(ValueError, match="part 1 has other records than the order says"):
        twin.weave(order, [parts[0], parts[0]], 0)
    with pytest.raises(ValueError, match="nothing to weave"):
        twin.weave(order, [None, None], 0)
    with pytest.raises(ValueError, match="0 parts of 3 records cannot be"):
        twin.weave(order, [], 0)
    with pytest.raises(ValueError, match="1 parts of 65537 records cannot be"):
        twin.weave(bytes(65_537), [None], 0)
    with pytest.raises(ValueError, match="is not within the limits"):
        twin.weave(order, parts, OFFSET_LIMIT - 2)
    with pytest.raises(ValueError, match=r"\w"):
        twin.weave(order, [parts[0], parts[1][:-1]], 0)
    assert records_of(twin.weave(b"\0\5\0", [parts[0]], 0)) == [records_of(whole)[0], records_of(whole)[2]]


def test_blocks_that_are_damaged_are_told_as_such() -> None:
    """`hub.journal.block` says it as errors of the journal."""
    with pytest.raises(JournalCorruptError, match="a block of the journal is damaged"):
        of_blocks.split(b"HJB1", b"")
    with pytest.raises(JournalCorruptError, match="nothing to weave"):
        of_blocks.weave(b"\0", [None], 0)
