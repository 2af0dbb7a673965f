"""`hub spark archive --format iceberg`: a table that PyIceberg, DuckDB and our jobs read; with a real hub."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from hub.errors import UsageError
from peers.spark.archiving import iceberg
from peers.spark.archiving.archive import Archived
from peers.spark.archiving.folders import Selection
from peers.spark.archiving.state import CHECKPOINT, HUB
from tests.spark.archives import offsets_of
from tests.spark.hubs import HubWithJournal, lose_commit

DOCUMENT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()

EXAMPLES = [
    text for text in re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE) if "iceberg" in text
]

Run = Callable[..., Archived]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "an archive #1" / "archive"


@pytest.fixture
def run(run_archive: Run) -> Run:
    return partial(run_archive, format="iceberg")


@pytest.fixture
def table(path: Path) -> Iterator[Callable[[], Any]]:
    catalogs: list[SqlCatalog] = []

    def table() -> Any:
        catalogs.append(SqlCatalog("hub", uri=f"sqlite:///{path}/_hub/iceberg.db"))
        return catalogs[-1].load_table("hub.records")

    yield table
    for catalog in catalogs:
        catalog.close()


def test_each_batch_is_a_snapshot(
    hub: HubWithJournal, run: Run, path: Path, table: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on where it was, also after a lost commit; readers of Iceberg see what jobs read, and see it once."""
    topics = ["/zeek/dns", "/zeek/conn", "/a b%/x", "/", "//x"]
    hub.fill((topic, number) for number, topic in enumerate(topics))
    assert run(max_offsets=3).tally.batches == 2
    lose_commit(path / HUB / CHECKPOINT, 1)
    hub.fill([("/zeek/dns", 5)])
    run()
    assert len(table().snapshots()) == 3
    rows = sorted(table().scan().to_arrow().to_pylist(), key=lambda row: row["offset"])
    assert [(row["offset"], row["topic"], row["value"]) for row in rows] == [
        (number, topic, bytes([number])) for number, topic in enumerate([*topics, "/zeek/dns"])
    ]
    assert [row["root"] for row in rows] == ["zeek", "zeek", "a b%", "", "", "zeek"]
    assert offsets_of(path, Selection(["/zeek/"])) == [0, 1, 5]
    monkeypatch.chdir(path.parent)
    for example in EXAMPLES:
        found: dict[str, Any] = {}
        exec(example, found)  # noqa: S102 -- ours
        assert sorted(found["by_topic"].fetchall()) == [("/zeek/conn", 1), ("/zeek/dns", 2)]
        found["table"].catalog.close()
    monkeypatch.setattr(iceberg, "SNAPSHOTS_KEPT", 2)
    hub.fill_numbers(4)
    run(max_offsets=1)
    assert 2 <= len(table().snapshots()) <= 4
    assert sorted(table().scan(selected_fields=("offset",)).to_arrow()["offset"].to_pylist()) == list(range(10))


def test_new_columns(hub: HubWithJournal, run: Run, table: Callable[[], Any]) -> None:
    hub.fill([("/zeek/conn", {"n": 1, "tags": ["a"]})])
    run(decode=True)
    hub.fill([("/zeek/dns", {"n": 2**40, "query": "a.example"}), ("/zeek/dns", {"n": 1.5})])
    second = run(decode=True).decoded
    assert second is not None
    assert (second.added, second.widened) == (["query"], [])
    rows = sorted(table().scan().to_arrow().to_pylist(), key=lambda row: row["offset"])
    assert [(row["n"], row["query"], row["tags"], row["_rest"]) for row in rows] == [
        (1, None, ["a"], None),
        (2**40, "a.example", None, None),
        (None, None, None, '{"n":1.5}'),
    ]


def test_what_cannot_be(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert EXAMPLES
    with pytest.raises(UsageError, match="cannot merge"):
        run(compact=True)
    with pytest.raises(UsageError, match="an archive is a folder"):
        run(path="s3a://bucket/archive")
    with pytest.raises(UsageError, match="question mark"):
        run(path="what?")
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.sql", None)
    with pytest.raises(UsageError, match=r"pip install 'topichub\[iceberg\]'"):
        run()
