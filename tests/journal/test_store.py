"""The journal's file, open for writing: commits are all or nothing, offsets are dense, and old records go."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.block import Block
from peers.journal import store as store_module
from peers.journal.schema import Write
from peers.journal.store import Retention, Store
from peers.journal.view import View
from tests.journal.files import (
    ALL,
    AT_US,
    block_rows,
    change,
    crashed,
    everything,
    failing,
    fill,
    frames,
    numbered,
    opened,
    small_blocks,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where nothing is yet."""
    return tmp_path / "journal.db"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> object:
    """Blocks of 16 records, tails of 5 blocks."""
    with small_blocks(monkeypatch):
        yield


# Offsets.


def test_offsets_begin_at_0_and_are_dense(path: Path) -> None:
    """Each message has the next one, whatever frame it came in."""
    journal = opened(path)
    assert (journal.first, journal.next, journal.size_bytes) == (0, 0, 0)
    journal.add([(AT_US, frames("/a", 1, 2) + frames("/b", 3)), (AT_US + 1, frames("/a", 4))])
    journal.commit(now_us=AT_US)
    found = everything(path)
    assert [(record.offset, record.topic, record.body) for record in found] == [
        (0, "/a", b"\1"),
        (1, "/a", b"\2"),
        (2, "/b", b"\3"),
        (3, "/a", b"\4"),
    ]
    assert [record.time_us - AT_US for record in found] == [0, 0, 0, 1]
    journal.close()


def test_records_are_readable_at_their_commit(path: Path) -> None:
    """Not before, and not only once a block is full."""
    journal = opened(path)
    journal.add([(AT_US, frames("/a", 1))])
    assert everything(path) == []
    journal.commit(now_us=AT_US)
    assert len(everything(path)) == 1
    journal.close()


def test_goes_on_where_it_was(path: Path) -> None:
    """Another hub's offsets follow the ones before, and the id stays."""
    journal = opened(path)
    fill(journal, 10, 3)
    before = (journal.id, journal.first, journal.next, journal.size_bytes)
    journal.close()
    journal = opened(path)
    assert (journal.id, journal.first, journal.next, journal.size_bytes) == before
    fill(journal, 2)
    assert [record.offset for record in everything(path)] == list(range(15))
    journal.close()


def test_a_closed_journal_is_one_file(path: Path) -> None:
    """Nothing is left beside it that a copy would lack."""
    journal = opened(path)
    fill(journal, 100)
    journal.close()
    assert not Path(f"{path}-wal").exists()
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    assert len(everything(copy)) == 100


def test_a_killed_process_has_lost_nothing_committed(path: Path) -> None:
    """And nothing of what was not."""
    journal = opened(path)
    fill(journal, 10, 10)
    journal.add([(AT_US, numbered(range(5)))])
    other = opened(crashed(path, path.with_name("crashed.db")))
    assert other.next == 20
    other.close()
    journal.close()


@pytest.mark.parametrize("full_sync", [False, True])
def test_sync(path: Path, *, full_sync: bool) -> None:
    """FULL waits for the disk at each commit."""
    journal = opened(path, full_sync=full_sync)
    assert journal._connection.pragma("synchronous") == (2 if full_sync else 1)
    journal.close()


# Who may.


def test_one_hub_at_a_time(path: Path, tmp_path: Path) -> None:
    """However the file is called."""
    journal = opened(path)
    (tmp_path / "link").symlink_to(path)
    for name in (path, tmp_path / "link", tmp_path / "." / "journal.db"):
        with pytest.raises(JournalUnavailableError, match="another hub has this journal open"):
            opened(name)
    journal.close()
    opened(tmp_path / "link").close()


def test_no_journal(path: Path) -> None:
    """Refused, and free for others afterwards."""
    path.write_bytes(b"no database, but as long as a page" * 1000)
    for _ in range(2):
        with pytest.raises(JournalCorruptError, match="not a journal, or damaged"):
            opened(path)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE blocks SET next = next + 1 WHERE first = 32", "the index is damaged at offset 32"),
        ("UPDATE data SET block = x'00' WHERE first = 32", "offsets 32 to 47: the block is damaged: 1 bytes"),
        ("DELETE FROM data WHERE first = 0", "the index and the blocks do not agree"),
        ("UPDATE meta SET value = zeroblob(20)", "the id of the journal is missing or damaged"),
        ("UPDATE writes SET batch = 9", "what writers have committed is damaged"),
        ("DROP TABLE blocks", "no such table"),
    ],
)
@pytest.mark.usefixtures("small")
def test_a_damaged_journal_is_refused(path: Path, statement: str, text: str) -> None:
    """Where its edges are looked at; the rest is found when it is read."""
    journal = opened(path)
    fill(journal, 16, 16, 16)
    journal.commit([Write("q", 1, 0, 5)], now_us=AT_US)
    journal.close()
    change(path, statement)
    for _ in range(2):
        with pytest.raises(JournalCorruptError, match=text):
            opened(path)


# Blocks.


def test_one_commit_is_cut_into_full_blocks(path: Path) -> None:
    """By records."""
    journal = opened(path)
    fill(journal, 20_000)
    assert block_rows(path) == [(0, 8192), (8192, 16384), (16384, 20000)]
    journal.close()


def test_small_commits_become_large_blocks(path: Path) -> None:
    """The records stay as they are, and are written twice at most."""
    journal = opened(path)
    for _ in range(20):
        fill(journal, 1000)
    assert block_rows(path)[:2] == [(0, 8000), (8000, 16000)]
    assert [record.offset for record in everything(path)] == list(range(20_000))
    journal.close()


@pytest.mark.usefixtures("small")
def test_the_size_is_that_of_the_blocks(path: Path) -> None:
    """Also after merging, and when the file is opened again."""
    journal = opened(path)
    for count in (3, 5, 1, 9, 20, 2, 7, 7, 1, 1, 1, 1, 1, 1):
        fill(journal, count)
        view = View(str(path))
        assert journal.size_bytes == sum(len(view.block(row).data) for row in view.rows())
        view.close()
    size = journal.size_bytes
    journal.close()
    journal = opened(path)
    assert journal.size_bytes == size
    journal.close()


@pytest.mark.usefixtures("small")
def test_a_tail_is_merged_after_opening(path: Path) -> None:
    """What small commits had left before counts on."""
    journal = opened(path)
    fill(journal, 5, 5)
    journal.close()
    journal = opened(path)
    fill(journal, 6)
    assert block_rows(path) == [(0, 16)]
    journal.close()


def test_a_large_value_stands_in_a_block(path: Path) -> None:
    """Whatever comes before and behind it."""
    journal = opened(path)
    large = frames("/large", b"x" * (16 * 1024 * 1024 - 100))
    journal.add([(AT_US, frames("/a", 1) + large + frames("/a", 2))])
    journal.commit(now_us=AT_US)
    assert [len(record.body) for record in everything(path)] == [1, 16 * 1024 * 1024 - 95, 1]
    journal.close()


def test_topics_of_the_greatest_length(path: Path) -> None:
    """A thousand of 1024 bytes, all different, with values of one byte; they come back, filtered as well."""
    journal = opened(path)
    topics = [f"/{number:03}/{'x' * 1019}" for number in range(1000)]
    journal.add([(AT_US, b"".join(frames(topic, 1) for topic in topics))])
    journal.commit(now_us=AT_US)
    assert [record.topic for record in everything(path)] == topics
    assert [record.topic for record in everything(path, "/07")] == topics[70:80]
    journal.close()


def test_the_most_values_of_a_frame(path: Path) -> None:
    """65,536 of one byte: as many offsets."""
    journal = opened(path)
    journal.add([(AT_US, frames("/a", *[7] * 65_536))])
    journal.commit(now_us=AT_US)
    assert journal.next == 65_536
    assert {record.body for record in everything(path)} == {b"\7"}
    journal.close()


def test_times_out_of_order(path: Path) -> None:
    """Where the clock was set back between two parts, a block knows its earliest and its latest."""
    journal = opened(path)
    journal.add([(AT_US + 9, frames("/a", 1)), (AT_US, frames("/a", 2)), (AT_US + 5, frames("/a", 3))])
    journal.commit(now_us=AT_US)
    view = View(str(path))
    (row,) = view.rows()
    assert (row.earliest_us, row.latest_us) == (AT_US, AT_US + 9)
    view.close()
    journal.close()


# Failures.


@pytest.mark.parametrize("beginning", ["BEGIN", "INSERT INTO blocks", "INSERT INTO data"])
def test_adding_fails(path: Path, beginning: str) -> None:
    """Nothing has happened: what comes next gets the same offsets."""
    journal = opened(path)
    fill(journal, 5)
    with failing(journal, beginning), pytest.raises(JournalUnavailableError, match="the disk is full"):
        journal.add([(AT_US, numbered(range(5, 9)))])
    assert (journal.next, len(everything(path))) == (5, 5)
    fill(journal, 5)
    assert [record.offset for record in everything(path)] == list(range(10))
    journal.close()


@pytest.mark.parametrize(
    ("beginning", "at"),
    [
        ("INSERT OR REPLACE INTO writes", 1),
        ("DELETE FROM blocks", 1),
        ("DELETE FROM data", 2),
        ("INSERT INTO data", 1),
        ("SELECT latest_us", 1),
        ("COMMIT", 1),
    ],
)
@pytest.mark.usefixtures("small")
def test_committing_fails(path: Path, beginning: str, at: int) -> None:
    """At any step: nothing has happened, in the file and here, of what all `add` had brought."""
    journal = opened(path)
    fill(journal, 7)
    before = (journal.first, journal.next, journal.size_bytes)
    journal.add([(AT_US, numbered(range(7, 12)))])
    journal.add([(AT_US, numbered(range(12, 16)))])
    with failing(journal, beginning, at=at), pytest.raises(JournalUnavailableError):
        journal.commit([Write("q", 1, 7, 16)], now_us=AT_US)
    assert (journal.first, journal.next, journal.size_bytes) == before
    assert (block_rows(path), journal._connection.in_transaction) == ([(0, 7)], False)
    fill(journal, 5, 4)
    assert block_rows(path) == [(0, 16)]
    assert [record.offset for record in everything(path)] == list(range(16))
    journal.close()
    journal = opened(path)
    assert journal.writes == []
    journal.close()


def test_what_is_no_frame_has_no_effect(path: Path) -> None:
    """Not even on what was added before it in the same transaction: that is gone as well, and told so."""
    journal = opened(path)
    journal.add([(AT_US, frames("/a", 1))])
    with pytest.raises(ValueError, match="cut off"):
        journal.add([(AT_US, b"no frame")])
    assert (journal.next, journal._connection.in_transaction) == (0, False)
    journal.commit(now_us=AT_US)
    assert everything(path) == []
    journal.close()


def test_rolling_back(path: Path) -> None:
    """Also where there is nothing to roll back."""
    journal = opened(path)
    journal.roll_back()
    fill(journal, 2)
    journal.add([(AT_US, frames("/a", 1))])
    journal.roll_back()
    assert (journal.next, len(everything(path))) == (2, 2)
    journal.close()


def test_a_failed_rollback_is_none(path: Path) -> None:
    """SQLite may have done it by itself."""
    journal = opened(path)
    journal.add([(AT_US, frames("/a", 1))])
    with failing(journal, "ROLLBACK", error=apsw.SQLError("SQLError: no transaction is active")):
        journal.roll_back()
    journal._connection.execute("ROLLBACK")
    fill(journal, 1)
    assert len(everything(path)) == 1
    journal.close()


# Probing.


def test_a_probe_of_what_can_be_written(path: Path) -> None:
    """The file is opened anew, and all is as it was; an open transaction is gone."""
    journal = opened(path)
    fill(journal, 5)
    journal.commit([Write("q", 4, 0, 5)], now_us=AT_US)
    journal.add([(AT_US, frames("/a", 1))])
    journal.probe()
    assert (journal.first, journal.next, journal.writes) == (0, 5, [Write("q", 4, 0, 5)])
    fill(journal, 5)
    assert [record.offset for record in everything(path)] == list(range(10))
    journal.close()


def test_a_probe_finds_what_a_failed_commit_has_left(path: Path) -> None:
    """Where the disk has it after all, offsets go on behind it."""
    journal = opened(path)
    fill(journal, 5)
    other = opened(crashed(path, path.with_name("other.db")))
    fill(other, 3)
    other.commit([Write("q", 1, 5, 8)], now_us=AT_US)
    other.close()
    put(path, path.with_name("other.db"))
    journal.probe()
    assert (journal.next, journal.writes) == (8, [Write("q", 1, 5, 8)])
    journal.close()


def put(path: Path, other: Path | None) -> None:
    """Have another file stand there, or none."""
    for tail in ("-wal", "-shm"):
        Path(f"{path}{tail}").unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    if other is not None:
        shutil.copyfile(other, path)


@pytest.mark.parametrize("stands_there", ["nothing", "another journal", "an older state", "no journal"])
def test_a_probe_of_something_else(path: Path, stands_there: str) -> None:
    """What was told to be committed must not be given again: refused, until it is back."""
    journal = opened(path)
    fill(journal, 5)
    older = path.with_name("older.db")
    opened(crashed(path, older)).close()
    fill(journal, 5)
    kept = path.with_name("kept.db")
    opened(crashed(path, kept)).close()
    other: Path | None = None
    match stands_there:
        case "another journal":
            other = path.with_name("another.db")
            another = opened(other)
            fill(another, 50)
            another.close()
        case "an older state":
            other = older
        case "no journal":
            other = path.with_name("diary.txt")
            other.write_bytes(b"dear diary" * 5000)
    put(path, other)
    journal_id = journal.id
    with pytest.raises((JournalCorruptError, JournalUnavailableError)):
        journal.probe()
    assert (journal.id, journal.first, journal.next) == (journal_id, 0, 10)
    put(path, kept)
    journal.probe()
    assert (journal.id, journal.next) == (journal_id, 10)
    journal.close()


def test_a_probe_fails_while_there_is_no_room(path: Path) -> None:
    """It takes room for a few blocks."""
    journal = opened(path)
    journal._connection.close()
    change(path, "PRAGMA max_page_count = 10")
    real = store_module.connect

    def narrow(name: str, *, full_sync: bool) -> apsw.Connection:
        connection = real(name, full_sync=full_sync)
        connection.pragma("max_page_count", 20)
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "connect", narrow)
        with pytest.raises(JournalUnavailableError, match="the disk is full"):
            journal.probe()
    journal.probe()
    fill(journal, 1)
    journal.close()


# Retention.


@pytest.mark.usefixtures("small")
def test_retention_by_bytes(path: Path) -> None:
    """The oldest blocks go, whole ones; what is kept is no more than the limit."""
    journal = opened(path, retention=Retention(5_000, 1 << 60))
    for _ in range(20):
        fill(journal, 16)
        assert journal.size_bytes <= 5_000
    assert journal.next == 320
    assert journal.first % 16 == 0
    assert journal.size_bytes > 4_000
    assert [record.offset for record in everything(path)] == list(range(journal.first, 320))
    journal.close()
    journal = opened(path)
    assert len(everything(path)) == 320 - journal.first
    journal.close()


@pytest.mark.usefixtures("small")
def test_retention_by_age(path: Path) -> None:
    """A block goes when its newest record is too old; times are looked at while nothing is written, too."""
    journal = opened(path, retention=Retention(1 << 50, 60_000_000))
    fill(journal, 16, 16, 16, 16)  # at 0, 16, 32 and 48 s
    assert journal.first == 0
    journal.commit(now_us=AT_US + 61_000_000)
    assert journal.first == 16
    journal.commit(now_us=AT_US + 93_000_000)
    assert journal.first == 48
    assert [record.offset for record in everything(path)] == list(range(48, 64))
    journal.close()


@pytest.mark.usefixtures("small")
def test_the_newest_block_stays(path: Path) -> None:
    """However old or large: it says which offset is next."""
    journal = opened(path, retention=Retention(1, 1))
    fill(journal, 16, 16)
    journal.commit(now_us=AT_US + 10**12)
    assert (journal.first, journal.next) == (16, 32)
    journal.close()
    journal = opened(path)
    assert (journal.first, journal.next) == (16, 32)
    journal.close()


@pytest.mark.usefixtures("small")
def test_much_goes_in_several_commits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that none takes long."""
    monkeypatch.setattr(store_module, "_DELETED_PER_COMMIT", 3)
    journal = opened(path)
    fill(journal, 160)
    journal.close()
    journal = opened(path, retention=Retention(1, 1 << 60))
    firsts = []
    for _ in range(4):
        journal.commit(now_us=AT_US)
        firsts.append(journal.first)
    assert firsts == [48, 96, 144, 144]
    journal.close()


@pytest.mark.usefixtures("small")
def test_a_tail_that_is_deleted_is_not_merged(path: Path) -> None:
    """Small blocks may be too old as well."""
    journal = opened(path, retention=Retention(1 << 50, 60_000_000))
    fill(journal, 3, 3, 3)
    journal.commit(now_us=AT_US + 64_000_000)
    assert journal.first == 6
    fill(journal, 16)
    assert [record.offset for record in everything(path)] == list(range(6, 25))
    journal.close()


# Writers.


def test_the_last_batch_of_each_writer(path: Path) -> None:
    """Is committed with its records, and known when the file is opened."""
    journal = opened(path)
    journal.add([(AT_US, numbered(range(3)))])
    journal.commit([Write("q", 1, 0, 3), Write("r", 5, 0, 3)], now_us=AT_US)
    journal.commit([Write("q", 2, 3, 3)], now_us=AT_US)
    journal.close()
    journal = opened(path)
    assert sorted(journal.writes) == [Write("q", 2, 3, 3), Write("r", 5, 0, 3)]
    journal.close()


def test_writers_are_forgotten_where_there_are_too_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose last batch is the oldest."""
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
    journal.close()


@pytest.mark.parametrize("batch", [0, 2**63 - 1])
def test_numbers_of_batches(path: Path, batch: int) -> None:
    """Up to the largest that the wire takes."""
    journal = opened(path)
    journal.commit([Write("é" * 255, batch, 0, 0)], now_us=AT_US)
    journal.close()
    journal = opened(path)
    assert journal.writes == [Write("é" * 255, batch, 0, 0)]
    journal.close()


def test_an_empty_commit_writes_nothing(path: Path) -> None:
    """So that looking after retention costs nothing on an idle hub."""
    journal = opened(path)
    fill(journal, 1)
    size = Path(f"{path}-wal").stat().st_size
    journal.commit(now_us=AT_US)
    assert Path(f"{path}-wal").stat().st_size == size
    journal.close()


def test_blocks_are_checked_by_their_rows(path: Path) -> None:
    """What stands in the file is what `Block.parse` takes."""
    journal: Store = opened(path, retention=ALL)
    fill(journal, 3)
    ((block,),) = journal._connection.execute("SELECT block FROM data").fetchall()
    assert Block.parse(block).count == 3
    journal.close()


@pytest.mark.parametrize("gone", ["journal.db", "journal.db-wal"])
def test_a_file_that_is_gone(tmp_path: Path, gone: str) -> None:
    """What nobody would find again is not said to be committed."""
    journal = opened(tmp_path / "journal.db")
    fill(journal, 5)
    (tmp_path / gone).unlink()
    with pytest.raises(JournalUnavailableError, match="deleted or moved while the hub had it open"):
        fill(journal, 1)
    assert journal.next == 5
    journal.close()


def test_a_file_that_was_replaced(tmp_path: Path) -> None:
    """Another file of that name is not this journal; nothing is written there until that is put right."""
    path = tmp_path / "journal.db"
    journal = opened(path)
    fill(journal, 5)
    path.rename(tmp_path / "away.db")
    path.write_bytes(b"")
    with pytest.raises(JournalUnavailableError):
        fill(journal, 1)
    with pytest.raises(JournalUnavailableError):
        journal.probe()
    assert path.read_bytes() == b""
    path.unlink()
    (tmp_path / "away.db").rename(path)
    journal.probe()
    fill(journal, 5)
    assert journal.next == len(everything(path))
    journal.close()
