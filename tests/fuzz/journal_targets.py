"""Blocks of the journal, in both twins: what one refuses the other refuses, and what one makes the other makes.

The compiled twin checks no bounds by itself (`boundscheck=False`), so what `read_layout` lets through must be safe to
work on. Checksums are set right: they keep damage out, not malice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import msgspec

from hub.batch import Batch
from hub.errors import CloseCode, JournalCorruptError, RejectedError
from hub.frame import BATCH_COUNT, FLAG_BATCH, FLAG_TAGGED, KIND_MESSAGES, encode_frame
from hub.journal import layout, packing
from hub.journal.block import Block
from hub.journal.excerpt import excerpt_of, whole_of
from hub.journal.layout import CHECKED_FROM, COLUMNS, Column
from hub.tags.envelope import Envelope
from peers.journal.forms import Form, Order, decode_order, encode_order
from peers.wire.control import Notice, decode_notice, encode_notice
from peers.wire.kinds import Kind
from peers.wire.records import Fetch, Records, decode_records, encode_fetch, records_parts
from tests.fuzz.target import Target
from tests.journal.test_far_journals import Bench

__all__ = ["JOURNAL_TARGETS", "blocks"]

PURE = SimpleNamespace(
    read_layout=layout.read_layout,
    pack=packing.pack,
    select=packing.select,
    merge=packing.merge,
    whole_checksum=packing.whole_checksum,
    to_frames=packing.to_frames,
    frames_of_columns=packing.frames_of_columns,
)
"""The twin without a compiler."""

try:
    from hub.journal import _packing as COMPILED  # noqa: N812 -- stands for a namespace
except ImportError:
    COMPILED = PURE  # type: ignore[assignment]


def _parts() -> list[tuple[int, bytes]]:
    plain = b"".join(Batch.of(f"/t/{number % 3}", [number, {"a": "b" * number}]).frames for number in range(9))
    odd = encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(3) + b"\xc1\xc1", key=b"/odd", flags=FLAG_BATCH)
    json = encode_frame(KIND_MESSAGES, b"[1]", key="/ä".encode(), flags=2)
    tagged = encode_frame(KIND_MESSAGES, b"\x01", key=Envelope("/a", ("l",)).encode(), flags=FLAG_TAGGED)
    return [(5, plain), (6, odd + json), (7, tagged), (-8, Batch.of("", [None]).frames)]


def blocks() -> list[bytes]:
    """Sound blocks: dense and sparse, with and without other encodings, small and not."""
    parts = _parts()
    small = packing.pack(parts[:1], 0, 4)
    mixed = packing.pack(parts, 2**61)[0]
    topics = Block.parse(mixed).topics
    sparse = packing.select(mixed, 0, 2**62, bytes(number % 2 for number in range(len(topics))))
    return [mixed, sparse, *small]


def _sealed(data: bytes) -> bytes:
    return data[:4] + crc32(data[CHECKED_FROM:]).to_bytes(4, "little") + data[CHECKED_FROM:]


def _same(act: Callable[[Any], object]) -> Any:
    """Do it with both twins; return what both make of it, None where both refuse."""
    made = []
    for twin in (PURE, COMPILED):
        try:
            made.append(_plain(act(twin)))
        except (ValueError, IndexError):  # what they document
            made.append(None)
    assert made[0] == made[1], "the twins disagree"
    return made[0]


def _plain(made: object) -> object:
    return tuple(made) if isinstance(made, tuple) else made


def _run_blocks(data: bytes) -> None:
    how, block = data[:4].ljust(4, b"\0"), data[4:]
    if len(block) >= CHECKED_FROM:
        block = _sealed(block)
    found = _same(lambda twin: tuple(twin.read_layout(block)))
    _same(lambda twin: twin.whole_checksum(block))
    try:
        parsed = Block.parse(block)
        list(parsed.records())
    except JournalCorruptError:
        parsed = None
    if found is None:
        assert parsed is None
    if parsed is not None and len(set(parsed.topics)) == len(parsed.topics):  # else frames are cut in other places
        _same(lambda twin: twin.to_frames(block, 1 + how[0] * 8))
    records = parsed.count if parsed is not None else 8
    first = parsed.first if parsed is not None else 0
    start, end = first + how[1] * records // 200, first + how[2] * records // 200
    topics = found[1] if found is not None else how[3]
    wanted = bytes(how[3] >> number % 8 & 1 for number in range(topics))
    for choice in (None, wanted, wanted[1:]):
        selected = _same(lambda twin: twin.select(block, start, end, choice))  # noqa: B023 -- called at once
        if selected and parsed is not None:
            Block.parse(selected)
    if parsed is not None and parsed.offsets is None:
        follows = packing.pack(_parts(), parsed.next)[0]
        merged = _same(lambda twin: twin.merge([block, follows]))
        if merged:
            assert Block.parse(merged).count == parsed.count + Block.parse(follows).count
    _same(lambda twin: twin.merge([block, block]))


def _run_excerpt(data: bytes) -> None:
    if len(data) >= CHECKED_FROM:
        data = _sealed(data)
    try:
        block = Block.parse(whole_of(data))
    except JournalCorruptError:
        return
    list(block.records())
    for column in COLUMNS:
        assert Block.parse(whole_of(excerpt_of(bytes(block.data), (column,)))).count == block.count


def _run_pack(data: bytes) -> None:
    how, frames = data[:3].ljust(3, b"\0"), data[3:]
    half = len(frames) * how[2] // 255
    parts = [(how[2] - 128, frames[:half]), (2**62, frames[half:])]
    packed = _same(lambda twin: twin.pack(parts, how[0] * 2**54, 1 + how[1] % 64, 1 + how[1] * 64))
    for block in packed or ():
        _same(lambda twin: twin.read_layout(block))  # noqa: B023 -- called at once
        _same(lambda twin: twin.to_frames(block))  # noqa: B023 -- called at once


def _run_columns(data: bytes) -> None:
    how, columns = data[:8].ljust(8, b"\0"), data[8:]
    sizes = struct.unpack("<4H", how)
    cuts: Sequence[int] = [size % (len(columns) + 1) for size in sizes]
    topics, texts = columns[: cuts[0]], columns[cuts[0] : cuts[0] + cuts[1]]
    values, bodies = columns[: cuts[2]], columns[cuts[2] :]
    start, count = sizes[3] % 16, sizes[3] >> 4 & 31
    _same(lambda twin: twin.frames_of_columns(topics, texts or None, values, bodies or None, start, count))


def _run_order(data: bytes) -> None:
    with suppress(RejectedError):
        decode_order(data)


@cache
def _hubs() -> Bench:
    return Bench()


def _run_far_journal(data: bytes) -> None:
    """What another hub asks, and what it answers: the first byte says which, and in what form an answer is to be."""
    bench, how, rest = _hubs(), data[:1], data[1:]
    if how == b"q":
        bench.question(rest)
        asked = len(bench.journal.fetches)
        assert asked + len(bench.outlet.take()) == 1
        for fetch, deliver in bench.journal.fetches:
            assert fetch.bytes <= bench.link.frame_limit_bytes
            deliver(RejectedError(CloseCode.GONE, "gone"))
            bench.room.settle()
            bench.outlet.take()
        bench.journal.fetches.clear()
        return
    outcome = bench.answer(rest, form=_FORMS.get(how, "frame"))
    if isinstance(outcome, RejectedError):
        return
    assert outcome[4] in {Kind.RECORDS, Kind.NOTICE}
    if outcome[4] == Kind.NOTICE:
        assert decode_notice(outcome[8:]).request == 9
    elif how not in _FORMS:
        assert decode_records(outcome[8:]).request == 9


_FORMS: dict[bytes, Form] = {b"j": "json", b"m": "msgpack"}


def _far_seeds() -> list[bytes]:
    order = Order(9, prefixes=("/a",), form="json", granted=((("/a", True), ("/b", False)),))
    pack = msgspec.msgpack.encode
    heading = {"type": "records", "request": 9, "start": 0, "next": 1, "first": 0, "head": 1}
    notice = encode_notice(Notice("error", request=9, code=4011, text="gone", offset=3))
    frames = (
        (b"f", b"".join(records_parts(Records(9, 0, 1, 0, 1, blocks(), b"x" * 16)))),
        (b"j", msgspec.json.encode(heading | {"records": []})),
        (b"m", pack(heading | {"blocks": []})),
    )
    answers = [how + pack(encode_frame(Kind.RECORDS, body)) for how, body in frames]
    return [b"q" + encode_order(order), b"q" + encode_fetch(Fetch(3))[8:], b"f" + pack(notice), *answers]


def _block_seeds() -> list[bytes]:
    return [bytes(how) + block for block in blocks() for how in ((0, 0, 200, 255), (9, 50, 150, 0x55))]


def _excerpt_seeds() -> list[bytes]:
    wanted: list[tuple[Column, ...]] = [(), ("offset", "topic"), ("time", "value")]
    return [excerpt_of(block, columns) for block in blocks() for columns in wanted]


def _column_seeds() -> list[bytes]:
    ends = struct.pack("<4i", 0, 2, 4, 4)
    return [struct.pack("<4H", 16, 4, 16, 48) + ends + b"/a/b" + b"\x01\x02\xa1x"]


JOURNAL_TARGETS = (
    Target("blocks", _run_blocks, _block_seeds, [struct.pack("<i", -1), struct.pack("<q", 2**62), b"HJB1"]),
    Target("excerpt", _run_excerpt, _excerpt_seeds, [struct.pack("<i", -1), struct.pack("<q", 2**62), b"HJX1"]),
    Target("pack", _run_pack, lambda: [b"\0\x09\x80" + b"".join(frames for _, frames in _parts())]),
    Target("order", _run_order, lambda: [encode_fetch(Fetch(request=3, time=5, end=9, prefixes=("/a",)))[8:]]),
    Target("far_journal", _run_far_journal, _far_seeds, [b"\xc4", b"\xc5", b"q", b"granted"], runs=500),
    Target("columns", _run_columns, _column_seeds, [struct.pack("<i", -1), struct.pack("<i", 2**31 - 1)]),
)
