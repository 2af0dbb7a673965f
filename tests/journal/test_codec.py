"""How blocks are stored: smaller where that is worthwhile, and never other bytes than those that were given."""

from __future__ import annotations

import gzip
import json
import random
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError, JournalUnavailableError
from peers.journal.segment import Codec, Compressor, decoded
from tests.journal.files import AT_US, everything, fill, frames, opened, segments

SAMPLE = Path(__file__).parents[2].parent / "shared" / "data" / "zeek-logs.ndjson.gz"

TEXT = b'{"id.orig_h": "10.0.0.%d", "proto": "tcp"}' * 200


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)  # noqa: S311 -- the same every time


@given(st.lists(st.one_of(st.binary(max_size=2000), st.just(TEXT), st.just(noise(1000))), max_size=40))
def test_what_is_stored_is_what_is_read(blocks: list[bytes]) -> None:
    compressor = Compressor(is_on=True)
    for block in blocks:
        codec, payload = compressor.encoded(block)
        assert decoded(payload, codec, len(block)) == block
        assert len(payload) <= len(block)


def test_what_repeats_becomes_small() -> None:
    codec, payload = Compressor(is_on=True).encoded(TEXT)
    assert codec is Codec.ZSTD
    assert len(payload) < len(TEXT) / 20


@pytest.mark.parametrize(
    ("is_on", "in_haste", "data"), [(False, False, TEXT), (True, True, TEXT), (True, False, b"a" * 99)]
)
def test_what_is_stored_as_it_is(is_on: bool, in_haste: bool, data: bytes) -> None:  # noqa: FBT001
    assert Compressor(is_on=is_on).encoded(data, in_haste=in_haste) == (Codec.NONE, data)


def test_noise_is_tried_now_and_then() -> None:
    """Behind a block that became no smaller fifteen are stored as they are; then one is tried again."""
    compressor = Compressor(is_on=True)
    assert compressor.encoded(noise(5000))[0] is Codec.NONE
    codecs = [compressor.encoded(TEXT)[0] for _ in range(20)]
    assert codecs == [Codec.NONE] * 15 + [Codec.ZSTD] * 5


@pytest.mark.parametrize(
    ("payload", "raw_bytes"),
    [
        (b"", 0),
        (b"nothing that was compressed", 9),
        (Compressor(is_on=True).encoded(TEXT)[1], len(TEXT) - 1),
        (Compressor(is_on=True).encoded(TEXT)[1], len(TEXT) + 1),
        (Compressor(is_on=True).encoded(TEXT)[1] + b"x", len(TEXT)),
        (Compressor(is_on=True).encoded(TEXT)[1][:-1], len(TEXT)),
    ],
    ids=["nothing", "something else", "longer", "shorter", "more behind it", "cut off"],
)
def test_what_cannot_be(payload: bytes, raw_bytes: int) -> None:
    with pytest.raises(JournalCorruptError):
        decoded(payload, Codec.ZSTD, raw_bytes)


def test_codecs_of_later_versions() -> None:
    with pytest.raises(JournalUnavailableError, match="codec 9"):
        decoded(b"", 9, 0)
    with pytest.raises(JournalCorruptError, match="3 bytes that should have 4"):
        decoded(b"abc", Codec.NONE, 4)


def test_a_journal_with_blocks_of_all_kinds(tmp_path: Path) -> None:
    """Compressed, in haste, noise: each is read, by who opens it after a crash too; and it takes little room."""
    path = tmp_path / "journal"
    journal = opened(path, compresses=True)
    for number in range(40):
        values = [TEXT if number % 20 else noise(2000), number]
        journal.add([(AT_US, frames("/a", *values))], in_haste=number % 5 == 0)
        journal.commit(now_us=AT_US)
    before = everything(path)
    assert [record.offset for record in before] == list(range(80))
    (file,) = segments(path)
    size_bytes = file.stat().st_size
    assert size_bytes < sum(len(record.body) for record in before) / 2
    again = opened(tmp_path / "copy", compresses=True)
    again.close()
    (tmp_path / "copy" / file.name).write_bytes(file.read_bytes())
    again = opened(tmp_path / "copy", compresses=True)
    assert again.next == 80
    fill(again, 5)
    assert everything(tmp_path / "copy")[:80] == before


@pytest.mark.skipif(not SAMPLE.exists(), reason="SAMPLE IS MISSING: how small real Zeek records become was NOT tested")
def test_real_zeek_records_take_a_quarter(tmp_path: Path) -> None:
    """Of the bytes that they take on the wire, at the most, in commits as a busy hub makes them."""
    with gzip.open(SAMPLE) as file:
        records = [json.loads(line) for line in islice(file, 20_000)]
    published = [frames(f"/zeek/{record['_path']}", record) for record in records]
    journal = opened(tmp_path / "journal", compresses=True)
    for start in range(0, len(published), 2_000):
        journal.add([(AT_US, b"".join(published[start : start + 2_000]))])
        journal.commit(now_us=AT_US)
    assert journal.size_bytes < sum(map(len, published)) / 4
    assert len(everything(tmp_path / "journal", "/zeek/dns")) == sum(record["_path"] == "dns" for record in records)
