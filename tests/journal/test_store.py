"""The journal's folder, open for writing: commits are all or nothing, offsets are dense, and old records go."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from traceback import walk_stack
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.segment import Row, Write
from peers.journal import active
from peers.journal import store as store_module
from peers.journal.active import is_untidy
from peers.journal.segment import Codec, Compressor, Segment, decoded
from peers.journal.store import Retention, Segmenting, Store
from peers.journal.view import View
from tests.journal.files import (
    ALL,
    AT_US,
    block_rows,
    crashed,
    everything,
    failing,
    fill,
    flip,
    frames,
    hurt_block,
    lose_power,
    opened,
    segments,
    small_blocks,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> object:
    with small_blocks(monkeypatch):
        yield


_READ = Path("/proc/self/io")  # what this process has read so far, mapped memory apart


def _read_bytes() -> int:
    return int(_READ.read_text().split()[1])


def test_epochs_begin_with_each_life_and_stay(path: Path) -> None:
    for number in range(4):
        journal = opened(path, segment_bytes=1_000)
        assert [one.first for one in journal.epochs] == [0, 30, 60, 90][: number + 1]
        fill(journal, 10, 10, 10)
        if number < 3:
            journal.close()
    killed = crashed(path, path.with_name("killed"))
    fill(journal, 5)
    before = crashed(path, path.with_name("before"))
    size = segments(path)[-1].stat().st_size
    fill(journal, 5)
    epochs = journal.epochs
    cut = crashed(path, path.with_name("cut"))
    journal.close()
    if segments(cut)[-1].name == segments(before)[-1].name:
        lose_power(cut, size)
    for folder in (killed, before, cut):
        journal = opened(folder)
        assert journal.epochs[:-1] == epochs
        assert journal.epochs[-1].first == journal.next
        assert journal.epochs[-1].number > epochs[-1].number
        journal.close()


@pytest.mark.parametrize("full_sync", [False, True])
def test_sync(path: Path, monkeypatch: pytest.MonkeyPatch, *, full_sync: bool) -> None:
    """With `full_sync` each commit waits for the disk; without, it is brought there once a second, and at the end."""
    synced: list[int] = []
    true = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: (synced.append(descriptor), true(descriptor))[1])
    journal = opened(path, full_sync=full_sync)
    monkeypatch.setattr(store_module, "_SYNC_S", 1e9)
    synced.clear()
    fill(journal, 1, 1, 1)
    assert len(synced) == (3 if full_sync else 0)
    monkeypatch.setattr(store_module, "_SYNC_S", 0.0)
    fill(journal, 1)
    assert len(synced) == (4 if full_sync else 1)


@pytest.mark.parametrize("full_sync", [False, True])
def test_a_sync_that_fails(path: Path, monkeypatch: pytest.MonkeyPatch, *, full_sync: bool) -> None:
    monkeypatch.setattr(store_module, "_SYNC_S", 0.0)
    journal = opened(path, full_sync=full_sync)
    with failing(monkeypatch, "fdatasync"):
        if full_sync:
            with pytest.raises(JournalUnavailableError, match="the disk is full"):
                fill(journal, 3)
        else:
            fill(journal, 3)
    assert journal.next == (0 if full_sync else 3)
    if not full_sync:
        with failing(monkeypatch, "fdatasync"), pytest.raises(JournalUnavailableError):
            fill(journal, 2)
        assert journal.next == 3
    fill(journal, 3)
    assert [record.offset for record in everything(path)] == list(range(journal.next))


def test_one_hub_at_a_time(path: Path, tmp_path: Path) -> None:
    journal = opened(path)
    (tmp_path / "link").symlink_to(path)
    for name in (path, tmp_path / "link", tmp_path / "." / "journal"):
        with pytest.raises(JournalUnavailableError, match="another hub has this journal open"):
            opened(name)
    journal.close()
    opened(tmp_path / "link").close()


def test_what_is_no_journal(path: Path) -> None:
    with pytest.raises(JournalUnavailableError, match="journal/nowhere: No such file or directory"):
        opened(path / "nowhere")
    path.write_bytes(b"dear diary")
    with pytest.raises(JournalCorruptError, match="a journal is a folder, choose another path"):
        opened(path)
    path.unlink()
    (path / "lost+found").mkdir(parents=True)
    (path / "photos").mkdir()
    for _ in range(2):
        with pytest.raises(JournalCorruptError, match="a folder, but not a journal"):
            opened(path)
    (path / "photos").rmdir()
    opened(path).close()
    (path / f"{7:020}.seg.new").write_bytes(b"half")
    opened(path).close()
    assert {file.name for file in path.iterdir()} == {f"{0:020}.seg", "lost+found"}


def test_permissions(path: Path) -> None:
    journal = opened(path, segment_bytes=1)
    fill(journal, 1, 1)
    assert path.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in segments(path)} == {0o600}


def test_a_folder_that_this_account_may_not_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "mkdir", Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(JournalUnavailableError, match="journal: this account may not write there; choose a folder"):
        opened(tmp_path / "journal")


@pytest.mark.usefixtures("small")
def test_damage_in_the_newest_segment(path: Path) -> None:
    """What was on the disk stays at its offset, and the rest goes on in a new segment."""
    journal = opened(path, full_sync=True)
    fill(journal, 16, 16, 16)
    journal.commit([Write("q", 1, 0, 5)], now_us=AT_US)
    journal.close()
    hurt_block(path, 20)
    journal = opened(path)
    assert (journal.first, journal.next, journal.writes) == (0, 48, [Write("q", 1, 0, 5)])
    fill(journal, 5)
    assert len(segments(path)) == 2
    journal.close()
    journal = opened(path)
    assert journal.next == 53
    view = View(str(path))
    assert [row.first for row in view.rows()] == [0, 16, 32, 48]
    view.close()


@pytest.mark.parametrize("place", [0, 20, 40, 129, "mark"])
def test_damage_that_is_refused(path: Path, place: int | str) -> None:
    journal = opened(path)
    fill(journal, 3)
    journal.commit([Write("q", 1, 0, 3)], now_us=AT_US)
    fill(journal, 3)
    journal.commit([Write("q", 2, 3, 6)], now_us=AT_US)
    journal.close()
    (file,) = segments(path)
    flip(file, file.read_bytes().rindex(b"\xa1q\x01") if isinstance(place, str) else place)
    text = (
        r"00\.seg: .*see `hub journal verify`"
        if place in {0, 20, 40}
        else "the list of committed batches is damaged; see"
    )
    for _ in range(2):
        with pytest.raises(JournalCorruptError, match=text):
            opened(path)


def test_damage_of_what_the_segment_before_says(path: Path) -> None:
    journal = opened(path, segment_bytes=1)
    fill(journal, 3)
    journal.commit([Write("q", 1, 0, 3)], now_us=AT_US)
    fill(journal, 3)
    journal.close()
    *others, newest = segments(path)
    assert others
    flip(newest, 129)
    assert opened(path).writes == [Write("q", 1, 0, 3)]


def test_a_segment_with_another_name(path: Path) -> None:
    opened(path).close()
    segments(path)[0].rename(path / f"{5:020}.seg")
    with pytest.raises(JournalCorruptError, match="it begins at 0, its name says 5"):
        opened(path)
    os.truncate(segments(path)[0], 10)
    with pytest.raises(JournalCorruptError, match="it is cut off; see `hub journal verify`"):
        opened(path)


def test_one_commit_is_cut_into_full_blocks(path: Path) -> None:
    journal = opened(path)
    fill(journal, 20_000)
    assert block_rows(path) == [(0, 8192), (8192, 16384), (16384, 20000)]


def test_a_write_that_ends_half_way(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(path)
    true = os.pwritev

    def half(file: int, parts: list[memoryview], place: int) -> int:
        return true(file, [parts[0][: max(1, len(parts[0]) // 2)]], place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", half)
        fill(journal, 100)
    assert [record.offset for record in everything(path)] == list(range(100))


def test_what_is_no_frame_has_no_effect(path: Path) -> None:
    journal = opened(path)
    journal.add([(AT_US, frames("/a", 1))])
    with pytest.raises(ValueError, match="cut off"):
        journal.add([(AT_US, b"no frame")])
    assert journal.next == 0
    journal.commit(now_us=AT_US)
    assert everything(path) == []


def test_a_probe(path: Path) -> None:
    journal = opened(path)
    fill(journal, 5)
    older, later, another = (path.with_name(name) for name in ("older", "later", "another"))
    opened(crashed(path, older)).close()
    fill(journal, 5)
    other = opened(crashed(path, later))
    fill(other, 3)
    other.commit([Write("q", 1, 10, 13)], now_us=AT_US)
    other.close()
    other = opened(another)
    fill(other, 50)
    other.close()
    before = (journal.id, journal.first, journal.next)
    segments(path)[0].unlink()
    empty = path.with_name("empty")
    empty.mkdir()
    for stands_there in (path, empty, another, older):
        if stands_there != path:
            shutil.rmtree(path)
            shutil.copytree(stands_there, path)
        found = list(path.iterdir())
        if not found:
            with pytest.raises(JournalUnavailableError, match="deleted or moved while the hub had it open"):
                fill(journal, 1)
        with pytest.raises((JournalCorruptError, JournalUnavailableError)):
            journal.probe()
        assert (journal.id, journal.first, journal.next) == before
        assert list(path.iterdir()) == found
    shutil.rmtree(path)
    with pytest.raises(JournalUnavailableError):
        journal.probe()
    later.rename(path)
    journal.probe()
    assert (journal.next, journal.writes) == (13, [Write("q", 1, 10, 13)])
    fill(journal, 1)
    assert len(everything(path)) == 14


def test_an_old_segment_is_sealed(path: Path) -> None:
    journal = opened(path, retention=Retention(1 << 50, 80_000_000))
    fill(journal, 1, 1)  # a second apart
    for later_us, count, first in ((9_999_999, 1, 0), (11_000_000, 2, 0), (81_000_000, 2, 0), (82_000_000, 1, 2)):
        journal.commit(now_us=AT_US + later_us)
        assert (len(segments(path)), journal.first) == (count, first)
    assert everything(path) == []
    journal.close()
    journal = opened(path)
    assert (journal.first, journal.next) == (2, 2)


@pytest.mark.parametrize("call", ["pwritev", "fdatasync", "fsync", "rename", "open"])
def test_sealing_fails(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    journal = opened(path, segment_bytes=400)
    fill(journal, 1)
    with failing(monkeypatch, call, at=2 if call == "pwritev" else 1):
        fill(journal, 20)
    assert (journal.next, len(segments(path))) == (21, 1)
    assert len(everything(path)) == 21
    with failing(monkeypatch, call), pytest.raises(JournalUnavailableError):
        fill(journal, 1)
    assert journal.next == 21
    fill(journal, 1)
    assert len(segments(path)) == 2
    assert [record.offset for record in everything(path)] == list(range(22))
    journal.close()
    journal = opened(path)
    assert journal.next == 22


def test_a_crash_after_sealing(path: Path) -> None:
    journal = opened(path, segment_bytes=400)
    fill(journal, 1)
    journal.commit([Write("q", 1, 0, 1)], now_us=AT_US)
    fill(journal, 20)
    copy = crashed(path, path.with_name("copy"))
    segments(copy)[-1].unlink()
    journal.close()
    journal = opened(copy)
    assert (journal.next, journal.writes) == (21, [Write("q", 1, 0, 1)])
    fill(journal, 1)
    assert [record.offset for record in everything(copy)] == list(range(22))


@pytest.mark.skipif(not _READ.exists(), reason="the system does not count what a process reads")
def test_opening_reads_the_end_of_a_sealed_segment(path: Path) -> None:
    journal = opened(path, segment_bytes=4 << 20)
    fill(journal, *[100] * 50, padding=1000)
    journal.close()
    sealed_bytes = sum(file.stat().st_size for file in segments(path)[:-1])
    assert sealed_bytes > 4 << 20
    read_bytes = _read_bytes()
    journal = opened(path)
    assert _read_bytes() - read_bytes < 64 << 10
    assert journal.next == 5000


@pytest.mark.usefixtures("small")
def test_retention_by_bytes(path: Path) -> None:
    journal = opened(path, retention=Retention(50_000, 1 << 60))
    for _ in range(150):
        fill(journal, 16)
        assert journal.size_bytes <= 50_000
    assert journal.size_bytes > 40_000
    assert journal.size_bytes == sum(file.stat().st_size for file in segments(path))
    assert [record.offset for record in everything(path)] == list(range(journal.first, 2_400))


def test_a_segment_that_cannot_be_deleted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(path, retention=Retention(4_000, 1 << 60))
    with failing(monkeypatch, "unlink", error=PermissionError(1, "Operation not permitted")):
        while not journal._is_overdue:
            fill(journal, 16)
    assert journal.size_bytes > 4_000
    fill(journal, 16)
    assert journal.size_bytes <= 4_000
    assert [record.offset for record in everything(path)] == list(range(journal.first, journal.next))


def test_writers_are_forgotten_where_there_are_too_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "WRITERS_LIMIT", 3)
    journal = opened(path)
    for number in range(5):
        fill(journal, 1)
        journal.commit([Write(f"q{number}", 1, number, number + 1)], now_us=AT_US)
    fill(journal, 1)
    journal.commit([Write("q2", 2, 5, 6)], now_us=AT_US)
    journal.close()
    journal = opened(path)
    assert [write.query for write in journal.writes] == ["q3", "q4", "q2"]


def test_an_empty_commit_writes_nothing(path: Path) -> None:
    journal = opened(path)
    fill(journal, 1)
    size = segments(path)[0].stat().st_size
    journal.commit(now_us=AT_US)
    assert segments(path)[0].stat().st_size == size


def test_what_trickles_is_tidied(path: Path) -> None:
    journal = opened(path, segment_bytes=20_000)
    fill(journal, *[1] * 1_000)
    journal.close()
    assert [record.offset for record in everything(path)] == list(range(1_000))
    *sealed, newest = segments(path)
    for file in sealed:
        segment = Segment(str(path), int(file.stem))
        assert len(list(segment.rows)) == 1
        segment.close()
    assert sum(file.stat().st_size for file in sealed) < 100_000
    assert newest.stat().st_size <= 21_000


@pytest.mark.parametrize("call", ["rename", "fsync"])
def test_tidying_fails(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    journal = opened(path, segment_bytes=5_000)
    true, calls = getattr(os, call), 0

    def fail(*arguments: object) -> object:
        nonlocal calls
        if any(frame.f_code is active.write_again.__code__ for frame, _ in walk_stack(None)):
            calls += 1
            raise OSError(5, "Input/output error")
        return true(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        fill(journal, *[1] * 200)
    assert calls
    assert [record.offset for record in everything(path)] == list(range(200))
    assert not list(path.glob("*.new"))
    fill(journal, *[1] * 200)
    journal.close()
    journal = opened(path)
    assert journal.next == 400
    assert [record.offset for record in everything(path)] == list(range(400))


def test_what_is_not_copied_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    retention = Retention(bytes=1, age_us=1, behind_bytes=10_000)
    store = opened(path, retention=retention, segment_bytes=1)
    fill(store, 10, 10, 10, padding=50)
    assert store.first == 0
    store.copied = 30
    fill(store, 10, padding=50)
    assert store.first == 30
    fill(store, *[10] * 20, padding=50)
    assert store.first > 30
    assert store.size_bytes < 10_000 + 2_000


def test_a_segment_of_many_blocks_is_sealed(path: Path) -> None:
    segmenting = Segmenting(1 << 30, 1 << 60, blocks=20)
    journal = Store(str(path), full_sync=False, retention=ALL, segmenting=segmenting)
    fill(journal, *[1] * 50)
    assert [Segment(str(path), int(file.stem)).next for file in segments(path)] == [20, 40, 50]
    journal.close()


def test_what_is_long_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Row(0, 200, 150, number, number + 1, 5, 6, b"") for number in range(100)]
    assert is_untidy(rows)
    monkeypatch.setattr(active, "_TIDIED_BYTES", 100 * 150 - 1)
    assert not is_untidy(rows)


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
    compressor = Compressor(is_on=True)
    assert compressor.encoded(noise(5000))[0] is Codec.NONE
    codecs = [compressor.encoded(TEXT)[0] for _ in range(20)]
    assert codecs == [Codec.NONE] * 15 + [Codec.ZSTD] * 5


_PACKED = Compressor(is_on=True).encoded(TEXT)[1]


@pytest.mark.parametrize(
    ("payload", "codec", "raw_bytes", "text"),
    [
        (b"", Codec.ZSTD, 0, None),
        (b"nothing that was compressed", Codec.ZSTD, 9, None),
        (_PACKED, Codec.ZSTD, len(TEXT) - 1, None),
        (_PACKED, Codec.ZSTD, len(TEXT) + 1, None),
        (_PACKED + b"x", Codec.ZSTD, len(TEXT), None),
        (_PACKED[:-1], Codec.ZSTD, len(TEXT), None),
        (b"abc", Codec.NONE, 4, "3 bytes that should have 4"),
    ],
    ids=["nothing", "something else", "longer", "shorter", "more behind it", "cut off", "not compressed"],
)
def test_what_cannot_be(payload: bytes, codec: Codec, raw_bytes: int, text: str | None) -> None:
    with pytest.raises(JournalCorruptError, match=text):
        decoded(payload, codec, raw_bytes)


def test_codecs_of_later_versions() -> None:
    with pytest.raises(JournalUnavailableError, match="codec 9"):
        decoded(b"", 9, 0)
