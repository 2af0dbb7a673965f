"""Torn, hurt and tampered files: what is read is what was published, or there is an error that says so."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from random import Random

import pytest

from hub.errors import CloseCode, JournalCorruptError, RejectedError
from peers.journal.schema import PAGE_BYTES
from peers.journal.view import View
from tests.daemon.hub_process import HubProcess
from tests.faults.damage import Found, Sample, altered, cut_wal, examine, flip_anywhere, flip_headers, zero_sector
from tests.faults.hubs import running_hub

pytestmark = pytest.mark.slow

_TORN_BYTES = 64 * 1024
_SECTOR_BYTES = 512
_WRITTEN_BYTES = 4096


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """A journal of some thousands of records, as a killed hub has left it."""
    return Sample.made(tmp_path_factory.mktemp("damage") / "sample", Random(5), commits=60)  # noqa: S311 -- repeatable


def test_as_it_was_left(sample: Sample, tmp_path: Path) -> None:
    """Everything is there, and a writer goes on."""
    assert 2000 < len(sample.records) < 6000
    assert examine(sample.copy(tmp_path / "j.db"), sample) is Found.ALL


def test_torn(tmp_path: Path) -> None:
    """However much of the end of the log is missing: what was committed before that is there, and a writer goes on."""
    sample = Sample.made(tmp_path / "sample", Random(6), commits=20)  # noqa: S311 -- repeatable
    for missing_bytes in range(0, _TORN_BYTES, _SECTOR_BYTES):
        copy = sample.copy(tmp_path / "j.db")
        cut_wal(copy, missing_bytes)
        found = examine(copy, sample, is_torn=True, writes=not missing_bytes % _WRITTEN_BYTES)
        assert found is (Found.PREFIX if missing_bytes else Found.ALL), missing_bytes


@pytest.mark.parametrize(("hurt", "times"), [(flip_anywhere, 30), (flip_headers, 20), (zero_sector, 10)])
def test_hurt(sample: Sample, tmp_path: Path, hurt: Callable[[Path, Random], str], times: int) -> None:
    """What is read of a file that has changed somewhere is what was published; or it is refused."""
    random = Random(hurt.__name__)  # noqa: S311 -- to be repeated
    for _ in range(times):
        copy = sample.copy(tmp_path / "j.db")
        where = hurt(copy, random)
        try:
            examine(copy, sample)
        except BaseException as error:
            error.add_note(where)
            raise


@pytest.mark.parametrize("table", ["blocks", "data"])
def test_a_row_is_missing(sample: Sample, tmp_path: Path, table: str) -> None:
    """At the beginning, in the middle, at the end: it is noticed."""
    with altered(sample.whole_copy(tmp_path / "all.db")) as connection:
        firsts = [first for (first,) in connection.execute("SELECT first FROM blocks ORDER BY first")]
    for first, expected in [(0, Found.REFUSED), (firsts[1], Found.REPORTED), (firsts[-1], Found.REFUSED)]:
        copy = sample.whole_copy(tmp_path / "j.db")
        with altered(copy) as connection:
            connection.execute(f"DELETE FROM {table} WHERE first = ?", (first,))  # noqa: S608 -- one of two
        assert examine(copy, sample) is expected, first


def test_blocks_are_swapped(sample: Sample, tmp_path: Path) -> None:
    """Each is sound, and not what belongs there."""
    copy = sample.whole_copy(tmp_path / "j.db")
    with altered(copy) as connection:
        one, other = connection.execute("SELECT first, block FROM data ORDER BY first LIMIT 2").fetchall()
        connection.execute("UPDATE data SET block = ? WHERE first = ?", (other[1], one[0]))
        connection.execute("UPDATE data SET block = ? WHERE first = ?", (one[1], other[0]))
    assert examine(copy, sample) is Found.REPORTED


def test_the_index_of_times_is_lost(sample: Sample, tmp_path: Path) -> None:
    """Who asks by time is told so, and not that there is nothing."""
    copy = sample.whole_copy(tmp_path / "j.db")
    with altered(copy) as connection:
        page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'blocks_by_time'").get
    with copy.open("r+b") as file:
        file.seek(page * PAGE_BYTES - 512)  # the content of a page stands at its end
        file.write(bytes(512))
    assert examine(copy, sample, writes=False) is Found.REPORTED
    with closing(View(str(copy))) as view, pytest.raises(JournalCorruptError, match="the index of times is damaged"):
        view.offset_at(sample.records[-1].time_us)


async def test_a_hub_on_a_damaged_old_block(sample: Sample, tmp_path: Path) -> None:
    """The hub runs and records; who reads that block is told what is wrong, and who reads others gets them."""
    copy = sample.whole_copy(tmp_path / "j.db")
    with altered(copy) as connection:
        first, following = connection.execute("SELECT first, next FROM blocks ORDER BY first LIMIT 1 OFFSET 1").get
        connection.execute("UPDATE data SET block = zeroblob(length(block)) WHERE first = ?", (first,))
    end = len(sample.records)
    async with running_hub(copy, "--journal-keep-s", "3e9") as hub, hub.connect() as client:
        assert await client.publish_confirmed("/t/new", 1) == end
        read = [record.offset async for record in client.read(start=following)]
        assert read == list(range(following, end + 1))
        text = f"offsets {first} to {following - 1}: the block is damaged: its checksum does not match; see"
        with pytest.raises(RejectedError, match=text) as raised:
            read = [record.offset async for record in client.read()]
        assert raised.value.code == CloseCode.JOURNAL_FAILED
        assert (await hub.get("/readyz"))[0] == HTTPStatus.OK


async def test_a_hub_on_a_damaged_end(sample: Sample, tmp_path: Path) -> None:
    """It does not start, and says in one line which file is damaged and how to look at it."""
    copy = sample.whole_copy(tmp_path / "j.db")
    with altered(copy) as connection:
        connection.execute("UPDATE data SET block = zeroblob(100) WHERE first = (SELECT max(first) FROM data)")
    process = await HubProcess.start(["--listen", "tcp://127.0.0.1:0", "--journal", str(copy)], {})
    code, text = await process.wait_ended()
    assert code == 1
    assert text.startswith(f"hub: {copy}: ")
    assert "is damaged" in text
    assert text.count("\n") == 1
