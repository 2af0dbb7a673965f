"""`Reports`: a hub is told how far a query is, and a query is never held up or ended by that. Without Spark."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from peers.spark.connector.columns import default_schema
from peers.spark.connector.options import Access, read_source_options
from peers.spark.connector.reports import Reports
from peers.spark.connector.source import StreamReader
from tests.spark.hubs import HubWithJournal


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubWithJournal]:
    with HubWithJournal(tmp_path / "journal") as hub:
        hub.fill_numbers(10)
        yield hub


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peers.spark.connector.reports.STOP_S", 60.0)


def rows(hub: HubWithJournal) -> list[dict[str, Any]]:
    with hub.client() as client:
        found: list[dict[str, Any]] = client.request("$hub/consumers", None)
        return found


def test_the_newest_position_is_told(hub: HubWithJournal) -> None:
    reports = Reports(Access(hub.url), "q", ("/n/",), every_s=3_600.0)
    reports.tell(1)
    reports.flush()
    assert [row["position"] for row in rows(hub)] == [1]
    for position in range(2, 8):
        reports.tell(position)
    reports.stop()
    assert [(row["name"], row["position"], row["lag"]) for row in rows(hub)] == [("q", 7, 3)]


def test_a_hub_that_refuses_is_one_warning(hub: HubWithJournal, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "peers.spark")
    reports = Reports(Access(hub.url), "q", ("/n/",), every_s=0.0)
    for position in (11, 12):
        reports.tell(position)
        reports.flush()
    assert rows(hub) == []
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "peers.spark"]
    assert "is not told how far consumer q is: position 11 is behind the end" in warning
    reports.tell(10)
    reports.stop()
    assert [row["position"] for row in rows(hub)] == [10]


def test_a_hub_that_is_away_ends_nothing(hub: HubWithJournal, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "peers.spark")
    reports = Reports(Access(hub.url), "q", ("/n/",), every_s=0.0)
    reports.tell(1)
    reports.flush()
    hub.stop()
    reports.tell(2)
    reports.flush()
    assert [record.name for record in caplog.records].count("peers.spark") == 1
    hub.start()
    reports.tell(3)
    reports.stop()
    assert [row["position"] for row in rows(hub)] == [3]


def test_a_stream_tells_what_spark_asks_on_from(hub: HubWithJournal) -> None:
    options = read_source_options({"url": hub.url, "startingOffsets": "earliest", "consumer": "q"}, streaming=True)
    reader = StreamReader(default_schema("raw"), options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    copy: StreamReader = pickle.loads(pickle.dumps(reader))  # noqa: S301 -- our own
    copy.stop()
    reader.stop()
    assert [row["position"] for row in rows(hub)] == [0]
    again = StreamReader(default_schema("raw"), options)
    again.commit(end)
    again.stop()
    assert [row["position"] for row in rows(hub)] == [10]
