"""The tables of docs/observability.md list what hubs tell Prometheus: every name, with its type and its labels."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hub.settings.sections import JournalSettings
from hub.settings.settings import Settings
from peers.journal.journal import Journal
from peers.node.metrics import HubCollector
from peers.node.node import Node
from peers.workers.merging import WorkerCounts, worker_metrics

_PAGE = Path(__file__).parents[2] / "docs" / "observability.md"
_TABLES = _PAGE.read_text().partition("\n## All metrics\n")[2].partition("\n## ")[0]
_ROW = re.compile(r"^\| (`hub_[^|]*) \| (\w+)[^|]* \| ([^|]*)\|", re.MULTILINE)
_BUCKETS = re.compile(r"^\| `(hub_\w+)` \| ([\d., ]+) \|$", re.MULTILINE)
_NAME = re.compile(r"`(\w+)`")


class Told(NamedTuple):
    kind: str
    labels: frozenset[str]


def documented() -> dict[str, Told]:
    return {
        name: Told(kind, frozenset(_NAME.findall(re.split("[:(]", labels)[0])))
        for names, kind, labels in _ROW.findall(_TABLES)
        for name in _NAME.findall(names)
    }


def told(families: Iterable[Any]) -> dict[str, Told]:
    return {
        family.name + ("_total" if family.type == "counter" else ""): Told(family.type, frozenset(family._labelnames))
        for family in families
    }


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(Settings(), name="one")
    settings = JournalSettings(path=str(tmp_path / "journal"), tier=str(tmp_path / "tier"))
    journal = node.journal = Journal(node.core, settings, node.settings.limits)
    yield node
    await journal.stop()


async def test_every_metric_stands_there_and_no_other(node: Node) -> None:
    workers = worker_metrics(WorkerCounts(up=1, limit=1, started_total=1, ended_total=0, silent_total=0))
    assert documented() == told(HubCollector(node).collect()) | told(workers)


async def test_buckets_stand_there(node: Node) -> None:
    bounds = {
        family.name: [float(sample.labels["le"]) for sample in family.samples if sample.name.endswith("_bucket")]
        for family in HubCollector(node).collect()
        if family.type == "histogram"
    }
    listed = {name: [*map(float, row.split(",")), math.inf] for name, row in _BUCKETS.findall(_TABLES)}
    assert listed == bounds


def test_names_stand_there_once() -> None:
    names = [name for row in _ROW.findall(_TABLES) for name in _NAME.findall(row[0])]
    assert len(names) == len(set(names)) > 200
