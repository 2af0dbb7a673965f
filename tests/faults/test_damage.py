"""Torn, hurt and tampered files, tiers that fail: what is read is what was published, or an error says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from hub.errors import StorageError
from peers.journal.store import Segmenting
from peers.journal.tier import parquet
from peers.journal.tier.place import Patience, place_at
from tests.daemon.hub_process import HubProcess
from tests.faults.damage import (
    WAYS,
    Found,
    Sample,
    TierSample,
    Way,
    cut_end,
    examine,
    flip_anywhere,
    flip_headers,
    zero_sector,
)
from tests.faults.tiers import BucketTier, tier_of
from tests.journal.files import everything, flip
from tests.journal.tier.made import copied, copy, fill_untidily, id_of

pytestmark = pytest.mark.slow

_TORN_BYTES = 64 * 1024
_STEP_BYTES = 1024
_WRITTEN_BYTES = 8192


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return Sample.made(tmp_path_factory.mktemp("damage") / "sample", Random(5), commits=60)  # noqa: S311 -- repeatable


def test_torn(tmp_path: Path) -> None:
    """However much of the end is missing: what was committed before that is there, and a writer goes on."""
    whole = Segmenting()
    sample = Sample.made(tmp_path / "sample", Random(6), commits=20, segmenting=whole)  # noqa: S311 -- repeatable
    size = max(sample.path.iterdir()).stat().st_size
    assert size > _TORN_BYTES
    for missing_bytes in range(0, _TORN_BYTES, _STEP_BYTES):
        copy = sample.copy(tmp_path / "journal")
        cut_end(copy, missing_bytes)
        found = examine(copy, sample, is_torn=True, writes=not missing_bytes % _WRITTEN_BYTES)
        assert found is (Found.PREFIX if missing_bytes else Found.ALL), missing_bytes


@pytest.mark.parametrize(("hurt", "times"), [(flip_anywhere, 12), (flip_headers, 10), (zero_sector, 5)])
def test_hurt(sample: Sample, tmp_path: Path, hurt: Callable[[Path, Random], str], times: int) -> None:
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
    copy = sample.whole_copy(tmp_path / "journal")
    sorted(copy.iterdir())[1].unlink()
    assert examine(copy, sample) is Found.REPORTED


async def test_a_hub_on_a_damaged_end(sample: Sample, tmp_path: Path) -> None:
    copy = sample.whole_copy(tmp_path / "journal")
    newest = max(copy.iterdir())
    flip(newest, 20)
    process = await HubProcess.start(["--listen", "tcp://127.0.0.1:0", "--journal", str(copy)], {})
    code, text = await process.wait_ended()
    assert code == 1
    assert text.startswith(f"hub: {newest}: ")
    assert "is damaged; see `hub journal verify`" in text
    assert text.count("\n") == 1


async def test_a_bucket_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("moto", reason="part of the extra `test`")
    monkeypatch.setattr(parquet, "FILE_BYTES", 400)
    path = tmp_path / "journal"
    fill_untidily(path, *[40] * 6)
    random = Random(1)  # noqa: S311 -- to be repeated
    async with tier_of("bucket", tmp_path, random) as tier:
        assert isinstance(tier, BucketTier)
        failures = 0
        for trouble in ("failing", "cut", "away", "failing", "cut"):
            tier.spoil(trouble, 0)
            failures += await asyncio.to_thread(_copy, path, tier.address)
        tier.heal()
        assert not await asyncio.to_thread(_copy, path, tier.address)
        assert failures >= 1
        found = await asyncio.to_thread(copied, tier.place, id_of(path))
        assert sorted(found) == everything(path)
        names = await asyncio.to_thread(tier.place.sizes, f"{id_of(path).hex()}/data")
        assert len(names) == 6


def _copy(path: Path, address: str) -> bool:
    try:
        copy(path, place_at(address, Patience(connect_s=2.0, request_s=2.0, attempts=1)))
    except StorageError:
        return True
    return False


@pytest.fixture(scope="module")
def tier_sample(tmp_path_factory: pytest.TempPathFactory) -> TierSample:
    return TierSample(tmp_path_factory.mktemp("sample"), Random(1))  # noqa: S311 -- to be repeated


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_tier(tier_sample: TierSample, way: Way) -> None:
    random = Random(way.name)  # noqa: S311 -- to be repeated
    with tier_sample.hurt(way, random) as hurt:
        assert not tier_sample.is_whole(hurt)
