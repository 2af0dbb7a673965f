"""A tier that fails in the midst of what is written, or is damaged later. `make soak` does more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from hub.errors import StorageError
from peers.journal.tier import parquet
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.place import Patience, place_at
from tests.faults.tier_damage import WAYS, Outcome, TierSample, Way
from tests.faults.tiers import BucketTier, tier_of
from tests.journal.files import AT_US, everything
from tests.journal.tier.made import copied, fill_untidily, id_of

_PATIENCE = Patience(connect_s=2.0, request_s=2.0, attempts=1)

_FILES = 6


async def test_a_bucket_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails while files are written, read back and swept: in the end each record is there once."""
    pytest.importorskip("moto", reason="part of the extra `test`")
    monkeypatch.setattr(parquet, "FILE_BYTES", 400)
    path = tmp_path / "journal"
    fill_untidily(path, *[40] * _FILES)
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
        assert len(names) == _FILES


def _copy(path: Path, address: str) -> bool:
    copier = Copier(str(path), place_at(address, _PATIENCE), TierRetention(0, 0))
    try:
        while copier.step(AT_US):
            pass
    except StorageError:
        return True
    finally:
        copier.close()
    return False


def _name_of(way: Way) -> str:
    return way.name


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> TierSample:
    return TierSample(tmp_path_factory.mktemp("sample"), Random(1))  # noqa: S311 -- to be repeated


@pytest.mark.parametrize("way", WAYS, ids=_name_of)
def test_damage(sample: TierSample, way: Way) -> None:
    """It is an error that names the file, and costs what this file speaks of; everything else is read."""
    random = Random(way.name)  # noqa: S311 -- to be repeated
    with sample.hurt(way, random) as hurt:
        assert sample.examine(hurt) is Outcome.REPORTED
