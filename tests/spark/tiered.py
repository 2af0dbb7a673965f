"""A hub whose first records stand in its tier alone, in small files, and queries of it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from peers.journal.store import Segmenting, Store
from peers.journal.tier import parquet
from peers.journal.tier.copier import Copier, TierRetention
from peers.journal.tier.place import place_at
from peers.spark.connector.columns import default_schema
from peers.spark.connector.options import read_source_options
from peers.spark.connector.source import BatchReader
from tests.journal.files import ALL, AT_US, segments
from tests.spark.hubs import HubWithJournal, message

SEALED = 240
COUNT = 300


@contextmanager
def small_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "FILE_BYTES", 600)
        patch.setattr(parquet, "STRIPE_RECORDS", 32)
        patch.setattr(parquet, "GROUP_RECORDS", 4)
        yield


def fill(path: Path, count: int, first: int = 0, *frames: bytes) -> None:
    """Record numbered maps, 20 of them in each segment, which is sealed; then some frames in one more."""
    segmenting = Segmenting(1, 1 << 60)
    store = Store(str(path), full_sync=False, retention=ALL, segmenting=segmenting)
    for begin in range(first, first + count, 20):
        rows = range(begin, begin + 20)
        store.add([(AT_US + number, message(f"/n/{number % 4}", {"number": number})) for number in rows])
        store.commit(now_us=AT_US)
    if frames:
        store.add([(AT_US, frame) for frame in frames])
        store.commit(now_us=AT_US)
    store.close()


def copy(path: Path, tier: Path) -> None:
    tier.mkdir(exist_ok=True)
    copier = Copier(str(path), place_at(str(tier)), TierRetention(0, 0))
    while copier.step(AT_US):
        pass
    copier.close()


class Tiered:
    def __init__(self, folder: Path, *frames: bytes) -> None:
        self.path, self.tier = folder / "journal", folder / "tier"
        fill(self.path, SEALED, 0, *frames)
        copy(self.path, self.tier)
        for file in segments(self.path)[:8]:
            file.unlink()
        self.hub = HubWithJournal(self.path, "--journal-tier", str(self.tier))

    def options(self, **given: str) -> dict[str, str]:
        return {"url": self.hub.url, "tier": str(self.tier), "numRetries": "0", **given}

    def batch(self, schema: StructType | None = None, **given: str) -> BatchReader:
        options = read_source_options(self.options(**given), streaming=False)
        reader = BatchReader(schema or default_schema(options.decode), options)
        made: BatchReader = pickle.loads(pickle.dumps(reader))  # noqa: S301 -- our own
        return made


def started(folder: Path) -> Iterator[Tiered]:
    tiered = Tiered(folder)
    with tiered.hub as hub:
        hub.fill_numbers(COUNT - SEALED, first=SEALED)
        yield tiered
