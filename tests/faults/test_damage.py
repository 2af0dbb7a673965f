"""Torn, hurt and tampered files: what is read is what was published, or there is an error that says so."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from random import Random

import pytest

from hub.errors import CloseCode, RejectedError
from peers.journal.store import Segmenting
from peers.journal.view import View
from tests.daemon.hub_process import HubProcess
from tests.faults.damage import Found, Sample, cut_end, examine, flip_anywhere, flip_headers, zero_sector
from tests.faults.hubs import running_hub
from tests.journal.files import flip, hurt_block

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
    assert examine(sample.copy(tmp_path / "journal"), sample) is Found.ALL


def test_torn(tmp_path: Path) -> None:
    """However much of the end is missing: what was committed before that is there, and a writer goes on."""
    whole = Segmenting()
    sample = Sample.made(tmp_path / "sample", Random(6), commits=20, segmenting=whole)  # noqa: S311 -- repeatable
    size = max(sample.path.iterdir()).stat().st_size
    assert size > _TORN_BYTES
    for missing_bytes in range(0, _TORN_BYTES, _SECTOR_BYTES):
        copy = sample.copy(tmp_path / "journal")
        cut_end(copy, missing_bytes)
        found = examine(copy, sample, is_torn=True, writes=not missing_bytes % _WRITTEN_BYTES)
        assert found is (Found.PREFIX if missing_bytes else Found.ALL), missing_bytes


@pytest.mark.parametrize(("hurt", "times"), [(flip_anywhere, 30), (flip_headers, 20), (zero_sector, 10)])
def test_hurt(sample: Sample, tmp_path: Path, hurt: Callable[[Path, Random], str], times: int) -> None:
    """What is read of a file that has changed somewhere is what was published; or it is refused."""
    random = Random(hurt.__name__)  # noqa: S311 -- to be repeated
    for _ in range(times):
        copy = sample.copy(tmp_path / "journal")
        where = hurt(copy, random)
        try:
            examine(copy, sample)
        except BaseException as error:
            error.add_note(where)
            raise


def test_a_segment_is_missing(sample: Sample, tmp_path: Path) -> None:
    """In the middle: it is noticed, and the rest is read."""
    copy = sample.whole_copy(tmp_path / "journal")
    sorted(copy.iterdir())[1].unlink()
    assert examine(copy, sample) is Found.REPORTED


async def test_a_hub_on_a_damaged_old_block(sample: Sample, tmp_path: Path) -> None:
    """The hub runs and records; who reads that block is told what is wrong, and who reads others gets them."""
    copy = sample.whole_copy(tmp_path / "journal")
    with closing(View(str(copy))) as view:
        row = list(view.rows())[1]
    first, following = row.first, row.next
    hurt_block(copy, first)
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
    """It does not start where nobody knows whose the newest segment is; one line says which, and how to look at it."""
    copy = sample.whole_copy(tmp_path / "journal")
    newest = max(copy.iterdir())
    flip(newest, 20)
    process = await HubProcess.start(["--listen", "tcp://127.0.0.1:0", "--journal", str(copy)], {})
    code, text = await process.wait_ended()
    assert code == 1
    assert text.startswith(f"hub: {newest}: ")
    assert "is damaged; see `hub journal verify`" in text
    assert text.count("\n") == 1
