"""The manifest: what is written is read, what contradicts itself is told."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.manifest import Entry, Hole, Manifest, encode_manifest, parse_manifest, range_name, range_of

JOURNAL = bytes(range(16))


def entry(first: int, following: int, **changed: object) -> Entry:
    plain = Entry(
        first=first,
        next=following,
        records=following - first,
        earliest_us=1,
        latest_us=2,
        size_bytes=1000,
        raw_bytes=5000,
        sha256="00" * 32,
        tail_bytes=100,
        tail_crc=7,
        topics=(("/a", following - first),),
        are_topics_whole=True,
    )
    return msgspec.structs.replace(plain, **changed)


ENTRIES = st.lists(st.integers(1, 100), min_size=1, max_size=10).map(
    lambda sizes: [entry(sum(sizes[:at]), sum(sizes[: at + 1])) for at in range(len(sizes))]
)


@given(ENTRIES)
def test_what_is_written_is_read(entries: list[Entry]) -> None:
    manifest = Manifest(parse_manifest(encode_manifest(JOURNAL, entries), JOURNAL))
    assert manifest.entries == entries
    assert (manifest.first, manifest.next) == (entries[0].first, entries[-1].next)


@given(ENTRIES, st.integers(0, 1000))
def test_the_file_of_an_offset_is_found(entries: list[Entry], offset: int) -> None:
    expected = next((place for place, one in enumerate(entries) if one.next > offset), len(entries))
    assert Manifest(entries).place_of(offset) == expected


def test_an_empty_manifest() -> None:
    manifest = Manifest()
    assert (manifest.first, manifest.next, manifest.place_of(5)) == (None, None, 0)


def test_a_manifest_may_have_gaps() -> None:
    assert Manifest([entry(0, 5), entry(9, 12)]).place_of(6) == 1


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([entry(0, 5), entry(0, 6)], "overlap"),
        ([entry(0, 5), entry(0, 5, tail_crc=8)], "overlap"),
        ([entry(0, 5), entry(4, 6)], "overlap"),
    ],
)
def test_files_that_contradict_one_another(entries: list[Entry], text: str) -> None:
    with pytest.raises(JournalCorruptError, match=text):
        Manifest(entries)


def test_every_flipped_bit_of_a_manifest_is_noticed() -> None:
    text = encode_manifest(JOURNAL, [entry(0, 5), entry(5, 9, records=3, holes=(Hole(6, 7, "lost"),))])
    sound = parse_manifest(text, JOURNAL)
    for place in range(len(text) - 1):  # the last is a newline
        for bit in range(8):
            hurt = bytearray(text)
            hurt[place] ^= 1 << bit
            try:
                found = parse_manifest(bytes(hurt), JOURNAL)
            except (JournalCorruptError, JournalUnavailableError):
                continue
            assert found == sound  # a space became another one


def test_every_cut_of_a_manifest_is_noticed() -> None:
    text = encode_manifest(JOURNAL, [entry(0, 5)])
    for length in range(len(text) - 1):
        with pytest.raises(JournalCorruptError):
            parse_manifest(text[:length], JOURNAL)


def test_a_manifest_of_another_journal() -> None:
    with pytest.raises(JournalCorruptError, match="not of 0000"):
        parse_manifest(encode_manifest(JOURNAL, [entry(0, 5)]), bytes(16))


def test_a_manifest_of_a_later_version() -> None:
    text = encode_manifest(JOURNAL, []).replace(b"hub tier 1", b"hub tier 2")
    with pytest.raises(JournalUnavailableError, match="this version reads"):
        parse_manifest(text, JOURNAL)


@pytest.mark.parametrize("text", [b"hub uier 1", b"hub tier x", b"hub tier "])
def test_a_manifest_of_no_version(text: bytes) -> None:
    with pytest.raises(JournalCorruptError, match="no version"):
        parse_manifest(encode_manifest(JOURNAL, []).replace(b"hub tier 1", text), JOURNAL)


@pytest.mark.parametrize(
    "wrong",
    [
        entry(5, 5),
        entry(-1, 5),
        entry(0, 5, records=4),
        entry(0, 5, records=4, holes=(Hole(6, 7, "behind it"),)),
        entry(0, 5, records=6, holes=(Hole(3, 2, "backwards"),)),
        entry(0, 5, size_bytes=-1),
    ],
)
def test_entries_that_cannot_be(wrong: Entry) -> None:
    with pytest.raises(JournalCorruptError, match="cannot be"):
        parse_manifest(encode_manifest(JOURNAL, [wrong]), JOURNAL)


def test_names() -> None:
    assert range_of(range_name(5, 70)) == (5, 70)
    assert entry(5, 70).name == "00000000000000000005-00000000000000000070"
    for other in ("", "5-70", "a" * 41, "00000000000000000005", "٣" * 20 + "-" + "٣" * 20):
        assert range_of(other) is None
