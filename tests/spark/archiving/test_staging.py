"""What a task of an archive does, with a real hub and without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peers.spark.archiving import staging as module
from peers.spark.archiving.staging import Staged, Staging
from peers.spark.archiving.typed_columns import TypedColumns
from peers.spark.connector.connection import close_all
from peers.spark.connector.options import read_source_options
from peers.spark.connector.shares import OffsetRange
from tests.spark.hubs import HubWithJournal

COUNT = 30_000


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubWithJournal]:
    with HubWithJournal(tmp_path_factory.mktemp("hub") / "journal") as hub:
        hub.fill_numbers(COUNT, topics=3)
        yield hub
        close_all()


def staged(hub: HubWithJournal, folder: Path, **given: Any) -> Staged:
    with hub.client() as client:
        journal = client.journal().id.hex()
    shares = [OffsetRange(0, 20_000, journal), OffsetRange(20_000, COUNT, journal)]
    batch = pa.record_batch({"share": [pickle.dumps(share) for share in shares]})
    options = read_source_options({"url": hub.url}, streaming=True)
    done = Staging(options=options, folder=str(folder), **given).batches([batch])
    parts = [msgspec.json.decode(part["staged"][0].as_py(), type=Staged) for part in done]
    assert len(parts) == len(shares)
    return Staged.together(parts)


def test_what_is_held_is_bounded(hub: HubWithJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 50_000)
    monkeypatch.setattr(module, "FLUSHED_BYTES", 200_000)
    done = staged(hub, tmp_path, levels=0, known={"n_0": TypedColumns()}, room=2)
    assert (done.rows, done.is_whole, done.tables) == (COUNT, True, ["n_1", "n_2"])
    assert len(done.files) > 6
    found: dict[str, list[int]] = {}
    for file in sorted(done.files, key=lambda file: file.path):
        found.setdefault(file.table, []).extend(pq.read_table(file.path)["offset"].to_pylist())
    assert found == {f"n_{number}": list(range(number, COUNT, 3)) for number in range(3)}


def test_more_tables_than_there_is_room_for(hub: HubWithJournal, tmp_path: Path) -> None:
    """Nothing is written: whoever knows all names decides which of them are tables. Without any, they share one."""
    done = staged(hub, tmp_path, levels=0, room=1)
    assert (done.rows, done.is_whole, done.tables, done.files) == (COUNT, False, ["n_0", "n_1"], [])
    done = staged(hub, tmp_path, levels=0, known={"n_2": TypedColumns()})
    assert done.is_whole
    assert {file.table for file in done.files} == {"n_2", "_other"}
    assert sum(pq.read_metadata(file.path).num_rows for file in done.files) == COUNT
