"""The two forms of the journal's loops, frames to feed them with, and segments of records that tell their place."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from types import SimpleNamespace

import msgpack
import pytest
from hypothesis import strategies as st

from hub.journal import layout, packing
from hub.journal.block import Block, Record, pack
from hub.journal.segment import Head, Header, Kind, Mark, Write, encode_entry
from hub.journal.selection import listing
from hub.messages.batch import Batch, value_ends
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, KIND_MESSAGES, encode_frame, iterate_frames

PURE = SimpleNamespace(
    read_layout=layout.read_layout,
    pack=packing.pack,
    select=packing.select,
    merge=packing.merge,
    whole_checksum=packing.whole_checksum,
    to_frames=packing.to_frames,
    frames_of_columns=packing.frames_of_columns,
)

TWINS = [pytest.param(PURE, id="pure")]
if importlib.util.find_spec("hub.journal._packing") is not None:
    from hub.journal import _packing

    TWINS.append(pytest.param(_packing, id="compiled"))
else:
    skip = pytest.mark.skip(reason="the compiled twin is NOT BUILT here (no C compiler?): only the pure one is tested")
    TWINS.append(pytest.param(PURE, id="compiled", marks=skip))

both = pytest.mark.parametrize("twin", TWINS)
Parts = list[tuple[int, bytes]]


def batch(topic: bytes, count: int, body: bytes, *, encoding: int = 0) -> bytes:
    flags = FLAG_BATCH | encoding << 1
    return encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(count) + body, key=topic, flags=flags)


def single(topic: bytes, body: bytes, *, encoding: int = 0) -> bytes:
    return encode_frame(KIND_MESSAGES, body, key=topic, flags=encoding << 1)


def naive(parts: Parts, first: int) -> list[Record]:
    records: list[Record] = []
    for time_us, frames in parts:
        for frame in iterate_frames(frames):
            found = [frame.body]
            if frame.flags & FLAG_BATCH:
                ends = value_ends(frame)
                found = [frame.body[4:], *[b""] * (frame.messages - 1)]
                if ends is not None:
                    found = [frame.body[start:end] for start, end in pairwise([4, *ends])]
            for value in found:
                offset = first + len(records)
                records.append(Record(offset, time_us, frame.key.decode(), frame.encoding, value))
    return records


def records_of(*blocks: bytes) -> list[Record]:
    return [record for block in blocks for record in Block.parse(block).records()]


def _packed(seed: int) -> bytes:
    """Draw a value of any kind and encode it; a strategy of hypothesis for that was most of the work of these tests."""
    return msgpack.packb(_value(Random(seed), depth=3))  # type: ignore[no-any-return]  # noqa: S311 -- to be repeated


def _value(chance: Random, depth: int) -> object:
    kind = chance.randrange(9 if depth else 7)
    if kind < 2:
        return chance.choice((None, False, True, 0.0, -0.5, 1e300, math.inf, math.nan))
    if kind < 4:  # as near to where the encoding changes as anywhere else
        power = 1 << chance.randrange(65)
        return max(-(2**63), min(chance.choice((-1, 1)) * power + chance.randrange(-2, 3), 2**64 - 1))
    size = chance.choice((0, 1, 2, 3, chance.randrange(20), chance.randrange(300)))
    if kind < 6:
        return "".join(chance.choices("aé\0z€😀", k=size))
    if kind == 6:
        return chance.randbytes(size)
    inner = [_value(chance, depth - 1) for _ in range(min(size, 20))]
    return inner if kind == 7 else {f"{number}": one for number, one in enumerate(inner)}


topics = st.sampled_from([b"/a", b"/b", "/ä/ö".encode(), b"", b"/zeek/conn"])
packed = st.integers(0, 2**32 - 1).map(_packed)
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
parts_lists: st.SearchStrategy[Parts] = st.lists(
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.lists(frames, max_size=4).map(b"".join)), max_size=5
)
some_parts = parts_lists.filter(lambda parts: any(data for _, data in parts))
firsts = st.one_of(st.integers(0, 1_000), st.integers(0, 2**62 - 1_000))


ID = bytes(range(16))
START = [Write("start", 0, 0, 0)]  # What writers had committed when a segment was begun


def block_entry(first: int, count: int) -> bytes:
    frames = b"".join(Batch.of(f"/t/{number % 3}", [number]).frames for number in range(first, first + count))
    (data,) = pack([(1_000_000 + first, frames)], first)
    block = Block.parse(data)
    head = Head(
        Kind.BLOCK, 0, count, 0, len(data), 0, first, block.next, block.times[0], block.times[-1], listing(block.topics)
    )
    return encode_entry(head, data)


def mark_entry(following: int, synced_bytes: int = 0, writes: Sequence[Write] = (), before: int = 0) -> bytes:
    payload = Mark(synced_bytes, tuple(writes), before).encode()
    return encode_entry(Head(Kind.MARK, 0, 0, 0, len(payload), 0, following, following, 0, 0, b""), payload)


def segment(*commits: Sequence[int], first: int = 0, synced: Sequence[int] = ()) -> tuple[bytes, list[int]]:
    """A segment of commits, each of blocks with so many records; and where each commit ends.

    Args:
        commits: Records of each block of each commit.
        first: Offset of the first record.
        synced: How many bytes each mark says are on the disk; 0 where nothing is said.
    """
    data = Header(ID, first, 5).encode() + mark_entry(first, 0, START)
    ends = [len(data)]
    following = first
    for number, counts in enumerate(commits):
        for count in counts:
            data += block_entry(following, count)
            following += count
        data += mark_entry(
            following, synced[number] if number < len(synced) else 0, [Write("q", number, 0, following)], 1 + number
        )
        ends.append(len(data))
    return data, ends
