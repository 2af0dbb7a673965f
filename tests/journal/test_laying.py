"""Segments that are laid anew: the same records, offsets and times, in large blocks whose topics stand apart."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.errors import JournalCorruptError
from hub.journal.segment.mark import Write
from peers.journal import view as view_module
from peers.journal.segments import grouping, laying, stored_block
from peers.journal.segments.codec import Codec, Compressor
from peers.journal.segments.laying import FORM, check_laid, lay_anew
from peers.journal.segments.segment import Segment
from peers.journal.view import View
from tests.journal.files import (
    AT_US,
    block_rows,
    everything,
    fill,
    flip,
    frames,
    opened,
    place_of,
    records,
    segments,
)
from tests.journal.laid import codecs, lay, lay_all, mixed, untidied


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Topics are told apart where they have less than they need elsewhere, so that few records do."""
    with monkeypatch.context() as patch:
        patch.setattr(grouping, "GROUP_BYTES", 64)
        patch.setattr(stored_block, "_LOOK_BYTES", 128)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sealed segments, and the newest one, with records of many topics."""
    path = tmp_path / "journal"
    store = untidied(path)
    mixed(store, 300, 200)
    store.skip(store.next)
    mixed(store, 400)
    store.skip(store.next)
    mixed(store, 30)
    store.close()
    return path


def pieces(folder: Path, prefixes: tuple[str, ...], limit_bytes: int) -> list[bytes]:
    """All that is wanted, read in pieces of about that size."""
    view = View(str(folder))
    try:
        blocks: list[bytes] = []
        start, end = view.extent
        while start < end:
            piece = view.fetch(start, None, prefixes, limit_bytes)
            assert piece.next > start
            blocks += piece.blocks
            start = piece.next
        return blocks
    finally:
        view.close()


@pytest.mark.parametrize("compresses", [True, False])
def test_the_same_records(folder: Path, compresses: bool) -> None:  # noqa: FBT001
    """In the same order, with the same offsets and times; neighbours make one block."""
    before = everything(folder)
    assert block_rows(folder) == [(0, 300), (300, 500), (500, 900), (900, 930)]
    lay_all(folder, compresses=compresses)
    assert everything(folder) == before
    assert block_rows(folder) == [(0, 500), (500, 900), (900, 930)]
    assert codecs(folder) == [Codec.PARTS, Codec.PARTS, Codec.NONE]


@pytest.mark.parametrize("limit_bytes", [1, 300, 5_000, 1 << 20])
@pytest.mark.parametrize(
    "prefixes", [("",), ("/zeek/site/3",), ("/zeek/site/1",), ("/zeek/site/2", "/zeek/site/7"), ("/none",)]
)
def test_any_piece_of_any_topics(folder: Path, prefixes: tuple[str, ...], limit_bytes: int) -> None:
    """What is read by topics is what was read before, in pieces of whatever size."""
    before = records(pieces(folder, prefixes, 1 << 20))
    assert before or prefixes == ("/none",)
    lay_all(folder)
    assert records(pieces(folder, prefixes, limit_bytes)) == before


def test_a_part_is_read_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants one topic of twelve reads a small part of the bytes."""
    lay_all(folder)
    read = []
    true = os.pread

    def pread(descriptor: int, size: int, place: int) -> bytes:
        data = true(descriptor, size, place)
        read.append(len(data))
        return data

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", pread)
        view = View(str(folder))
        assert records(view.fetch(0, 500, ("",), 1 << 20).blocks) == everything(folder)[:500]
        read.clear()
        found = records(view.fetch(0, 500, ("/zeek/site/3",), 1 << 20).blocks)
        view.close()
    assert {record.topic for record in found} == {"/zeek/site/3"}
    row_bytes = next(iter(View(str(folder)).rows())).row.stored_bytes
    assert sum(read) < row_bytes / 3


def test_a_damaged_part_costs_those_who_read_it(folder: Path) -> None:
    """Who reads another topic notices nothing; who reads all is told."""
    before = records(pieces(folder, ("/zeek/site/0",), 1 << 20))
    lay_all(folder)
    row = next(iter(View(str(folder)).rows())).row
    file, place = place_of(folder, 0)
    flip(file, place + row.stored_bytes - 12)  # in the last part
    assert records(pieces(folder, ("/zeek/site/0",), 1 << 20)) == before
    view = View(str(folder))
    for prefixes in [("",), ("/zeek/site/9",)]:
        with pytest.raises(JournalCorruptError, match="offsets 0 to 499: the block is damaged: "):
            view.fetch(0, None, prefixes, 1 << 20)
    assert records(view.fetch(500, None, ("",), 1 << 20).blocks) == everything_from(folder, 500)
    damage = view.damage_at(0)
    assert damage is not None
    assert (damage.first, damage.next) == (0, 500)
    view.close()


def everything_from(folder: Path, start: int) -> list[object]:
    """All records from an offset on."""
    view = View(str(folder))
    try:
        return [*records(view.fetch(start, None, ("",), 1 << 20).blocks)]
    finally:
        view.close()


def test_every_byte_is_under_a_checksum(folder: Path) -> None:
    """Whatever bit is turned in a block in parts: nobody reads other records, of one topic or of all."""
    wants = [("",), ("/zeek/site/3",)]
    before = [records(pieces(folder, prefixes, 1 << 20)) for prefixes in wants]
    lay_all(folder)
    file, place = place_of(folder, 500)
    data = file.read_bytes()
    draw = random.Random(3)  # noqa: S311 -- the same every time
    for _ in range(150):
        flip(file, draw.randrange(place, len(data) - 500))
        view = View(str(folder))
        for prefixes, expected in zip(wants, before, strict=True):
            try:
                found = records(view.fetch(500, 900, prefixes, 1 << 20).blocks)
            except JournalCorruptError:
                continue
            assert found == [record for record in expected if 500 <= record.offset < 900]
        view.close()
        file.write_bytes(data)


def test_rows_known_before_lead_to_the_same_records(folder: Path) -> None:
    """A reader that has looked at a segment before it was laid anew goes on with what it knows."""
    view = View(str(folder))
    rows = list(view.rows())
    before = [list(view.block(row).records()) for row in rows]
    lay_all(folder)
    assert [list(view.block(row).records()) for row in rows] == before  # the old file is still open
    view.refresh()
    assert [list(view.block(row).records()) for row in rows] == before
    assert [(row.first, row.next) for row in view.rows()] == [(0, 500), (500, 900), (900, 930)]
    view.close()


def test_reading_on_within_a_block(folder: Path) -> None:
    """Who is given a block piece by piece has it unpacked once; so have some others at the same time."""
    lay_all(folder)
    view = View(str(folder))
    starts = [0, 0, 500, 500]
    wants = [("",), ("/zeek/site/1", "/zeek/site/3"), ("",), ("/zeek/site/4", "/zeek/site/5")]
    found: list[list[bytes]] = [[], [], [], []]
    reads = 0
    true = Segment.parts

    def parts(self: Segment, *arguments: object) -> object:
        nonlocal reads
        reads += 1
        return true(self, *arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Segment, "parts", parts)
        while any(start < 900 for start in starts):
            for number, prefixes in enumerate(wants):
                if starts[number] < 900:
                    piece = view.fetch(starts[number], 900, prefixes, 100)
                    starts[number] = piece.next
                    found[number] += piece.blocks
    view.close()
    for start, prefixes, blocks in zip([0, 0, 500, 500], wants, found, strict=True):
        expected = [one for one in records(pieces(folder, prefixes, 1 << 20)) if start <= one.offset < 900]
        assert records(blocks) == expected
    assert reads <= 12


def test_it_is_said_in_the_header(folder: Path) -> None:
    """And forgotten when the segment is joined with others, in which blocks stand as they came."""
    lay_all(folder)
    first, second, newest = [Segment(str(folder), int(file.stem)) for file in segments(folder)]
    assert [one.header.form for one in (first, second, newest) if one.header] == [FORM, FORM, 0]
    for segment in (first, second, newest):
        segment.close()
    store = opened(folder)
    mixed(store, 400)
    store.skip(store.next)
    store.close()
    joined = Segment(str(folder), 0)
    assert joined.next > 500
    assert joined.header is not None
    assert joined.header.form == 0
    joined.close()


def test_what_writers_have_committed_is_kept(tmp_path: Path) -> None:
    """The last batch of each, as of the end of the segment."""
    store = untidied(tmp_path)
    mixed(store, 300)
    store.commit([Write("query", 3, 0, 300)], now_us=AT_US)
    store.skip(store.next)
    store.close()
    lay_all(tmp_path)
    segment = Segment(str(tmp_path), 0)
    assert segment.writes() == [Write("query", 3, 0, 300)]
    segment.close()


def test_rows_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In records, and in bytes."""
    monkeypatch.setattr(laying, "LAID_RECORDS", 499)
    lay(folder, segments(folder)[0])
    assert block_rows(folder)[:2] == [(0, 300), (300, 500)]
    monkeypatch.setattr(laying, "LAID_RECORDS", 500)
    monkeypatch.setattr(laying, "LAID_BYTES", 10_000)
    lay(folder, segments(folder)[0])
    assert block_rows(folder)[:2] == [(0, 300), (300, 500)]


def test_one_topic_needs_no_parts(tmp_path: Path) -> None:
    """What has one topic is stored whole, compressed though it came in haste."""
    store = untidied(tmp_path)
    for _ in range(3):
        store.add([(AT_US, frames("/a", *["text" * 9] * 200))], in_haste=True)
        store.commit(now_us=AT_US)
    store.skip(store.next)
    store.close()
    before = everything(tmp_path)
    lay_all(tmp_path)
    assert codecs(tmp_path) == [Codec.ZSTD]
    assert everything(tmp_path) == before


def test_damage_is_not_carried_on(folder: Path) -> None:
    """A segment with a damaged block, or without its footer, stays as it is."""
    first, second, _ = segments(folder)
    flip(*place_of(folder, 300))
    flip(second, second.stat().st_size - 3)
    for file in (first, second):
        before = file.read_bytes()
        with pytest.raises(JournalCorruptError):
            lay(folder, file)
        assert file.read_bytes() == before


def test_what_was_written_wrongly_is_noticed(folder: Path) -> None:
    """What is read back is compared, block by block, and so are offsets and writers."""
    segment = Segment(str(folder), 0)
    made = folder / "made.seg.new"
    lay_anew(segment, str(made), Compressor(is_on=True), lambda: None)
    check_laid(segment, str(made), lambda: None)
    flip(made, 5_000)
    with pytest.raises(JournalCorruptError):
        check_laid(segment, str(made), lambda: None)
    other = Segment(str(folder), 500)
    lay_anew(other, str(made), Compressor(is_on=True), lambda: None)
    with pytest.raises(JournalCorruptError, match="read back as something else"):
        check_laid(segment, str(made), lambda: None)
    segment.close()
    other.close()


topics = st.sampled_from(["/a", "/b", "/zeek/conn", "/zeek/dns", "/ä"])
commits = st.lists(st.lists(st.tuples(topics, st.binary(max_size=60)), min_size=1, max_size=60), min_size=1, max_size=5)


@settings(max_examples=60)
@given(commits, st.lists(topics, min_size=1, max_size=2), st.integers(1, 3000))
def test_whatever_was_recorded(
    tmp_path_factory: pytest.TempPathFactory,
    some: list[list[tuple[str, bytes]]],
    wanted: list[str],
    limit_bytes: int,
) -> None:
    """Is the same when it is laid anew, for who reads all and who reads some, piece by piece."""
    folder = tmp_path_factory.mktemp("journal")
    store = untidied(folder)
    for one in some:
        store.add([(AT_US + number, frames(topic, value)) for number, (topic, value) in enumerate(one)])
        store.commit(now_us=AT_US)
    store.skip(store.next)
    fill(store, 1)
    store.close()
    prefixes = tuple(wanted)
    before, before_some = everything(folder), everything(folder, *prefixes)
    lay_all(folder)
    assert everything(folder) == before
    assert records(pieces(folder, prefixes, limit_bytes)) == before_some


@pytest.mark.parametrize("limit_bytes", [1, 1_000])
def test_small_pieces_of_a_large_block_cost_no_more_than_they_hold(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit_bytes: int
) -> None:
    """What is left of a block is not copied for each answer: all copies together are a few times what it holds."""
    lay_all(folder)
    copied = 0
    true = view_module.select

    def select(*arguments: Any) -> bytes:
        nonlocal copied
        found = true(*arguments)
        copied += len(found)
        return found

    monkeypatch.setattr(view_module, "select", select)
    given = pieces(folder, ("",), limit_bytes)
    assert len(given) > 20
    assert copied <= 2 * sum(map(len, given))
