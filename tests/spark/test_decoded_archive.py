"""`hub spark archive --decode`: typed columns that Spark, DuckDB and pandas read; with a real hub."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgpack
import msgspec
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from hub.errors import UsageError
from peers.spark.archiving import archive as writing
from peers.spark.archiving.archive import Archived
from peers.spark.archiving.folders import Selection
from peers.spark.archiving.iceberg import IcebergBatches
from peers.spark.archiving.state import CHECKPOINT, HUB, Format
from peers.spark.connector.options import Access
from peers.spark.findings import remarks
from peers.spark.progress import JobProgress
from peers.spark.replay import replay
from peers.spark.survey import Questions, survey
from tests.spark.archives import offsets_of
from tests.spark.hubs import HubWithJournal, lose_commit, packed_message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()

EXAMPLES = re.findall(r"^```python\n(.*?)^```", DOCUMENT.partition("archive --decode")[2], re.DOTALL | re.MULTILINE)
"""Of DuckDB, pandas and Spark SQL, for an archive in a folder of that name."""

TS = datetime(2018, 3, 5, 12, tzinfo=UTC).timestamp()

FIRST = [
    ("/zeek/conn", {"ts": TS, "uid": "C1", "id.orig_p": 80, "n": 1, "tags": ["a"], "topic": "mine"}),
    ("/zeek/conn", {"ts": TS + 86_400, "uid": "C2", "id.orig_p": "http", "n": 2, "nested": {"a": [1]}}),
    ("/app/x", 5),
]
SECOND = [
    ("/zeek/dns", {"ts": TS, "uid": "C3", "n": 2**40, "query": "a.example", "UID": 1}),
    ("/zeek/dns", {"uid": 7, "n": 1, "id.orig_p": 1.5}),
]

Run = Callable[..., Archived]


@pytest.fixture
def run(run_archive: Run) -> Run:
    return partial(run_archive, decode=True, event_time="ts")


def in_duckdb(path: Path) -> duckdb.DuckDBPyRelation:
    return duckdb.read_parquet(str(path / "date=*/**/*.parquet"), hive_partitioning=True, union_by_name=True)


def test_columns_grow_and_widen(run: Run, hub: HubWithJournal, path: Path, spark: SparkSession) -> None:
    """New fields are new columns, integers become larger or reals, and what does not fit stands in `_rest`."""
    hub.fill(FIRST)
    first = run().decoded
    assert first is not None
    assert first.added == ["ts", "uid", "id.orig_p", "n", "tags", "field_topic", "nested"]
    assert (first.rest, first.undated) == (2, 1)
    hub.fill(SECOND)
    second = run(compact=True).decoded
    assert second is not None
    assert (second.added, second.widened) == (["query"], [])
    assert (second.rest, second.undated) == (2, 1)

    expected = [
        (0, "C1", 80, 1, "mine", None, None, None),
        (1, "C2", None, 2, None, '{"a":[1]}', None, {"id.orig_p": "http"}),
        (2, None, None, None, None, None, None, 5),
        (3, "C3", None, 2**40, None, None, "a.example", {"UID": 1}),
        (4, None, None, 1, None, None, None, {"uid": 7, "id.orig_p": 1.5}),
    ]
    columns = ["offset", "uid", "id.orig_p", "n", "field_topic", "nested", "query", "_rest"]

    def checked(rows: list[Any]) -> None:
        assert [(*row[:-1], None if row[-1] is None else json.loads(row[-1])) for row in rows] == expected

    table = in_duckdb(path).order('"offset"')
    checked(table.select(*(duckdb.ColumnExpression(name) for name in columns)).fetchall())
    dates = table.filter("root = 'zeek'").select("CAST(date AS VARCHAR)").fetchall()
    assert dates[:3] == [("2018-03-05",), ("2018-03-06",), ("2018-03-05",)]

    frame = spark.read.parquet(str(path))
    checked([tuple(row) for row in frame.select(*(f"`{name}`" for name in columns)).orderBy("offset").collect()])
    assert frame.where("root = 'zeek' AND date = DATE '2018-03-05'").count() == 2

    table_of_pandas = pd.read_parquet(path, schema=pq.read_schema(path / "_common_metadata")).sort_values("offset")
    assert table_of_pandas["n"].dropna().tolist() == [1, 2, 2**40, 1]
    assert table_of_pandas["root"].tolist() == ["zeek", "zeek", "app", "zeek", "zeek"]

    names_of_examples: dict[str, Any] = {"spark": spark}
    for example in EXAMPLES:
        exec(re.sub(r"(?<=['\"])archive\b", str(path), example), names_of_examples)  # noqa: S102 -- our own
    assert names_of_examples["by_root"] == [("app", 1, None), ("zeek", 4, 2**40 + 4)]
    assert names_of_examples["per_root"].to_dict() == {"app": 1, "zeek": 4}
    assert sorted(row.uid for row in names_of_examples["conns"].collect()) == ["C1", "C2", "C3"]

    assert offsets_of(path, Selection(("/zeek/",), datetime(2018, 3, 6, tzinfo=UTC))) == [1, 4]
    findings = survey(spark, str(path), Questions(selection=Selection(("/zeek/",))), JobProgress())
    assert (findings.total.messages, findings.total.first_us) == (4, int(TS) * 1_000_000)
    assert remarks(findings)[0] == "times are those of the field ts, of the hub where a message has none"
    with pytest.raises(UsageError, match="was archived with --decode"):
        replay(Access(hub.url), str(path))
    with pytest.raises(UsageError, match="bear dates by the time ts"):
        run(event_time="other")


def test_times_are_timestamps(run: Run, hub: HubWithJournal, path: Path) -> None:
    text = "2018-03-24T17:15:20.5Z"
    zeek_s = struct.pack(">q", 1_521_911_720_500_000_005)
    messages = [
        {"ts": text, "start": msgpack.ExtType(5, zeek_s), "until": text, "all": [text]},
        {"ts": text, "until": "never", "nested": {"at": msgpack.ExtType(5, zeek_s)}},
    ]
    hub.stage(*(packed_message("/zeek/conn", msgpack.packb(message)) for message in messages))
    run()
    types = {field.name: str(field.type) for field in pq.read_schema(path / "_common_metadata")}
    assert {name: types[name].partition("[")[0] for name in ("ts", "start", "until")} == {
        "ts": "timestamp",
        "start": "timestamp",
        "until": "string",
    }
    moment = datetime(2018, 3, 24, 17, 15, 20, 500_000, UTC)
    table = in_duckdb(path).order('"offset"')
    assert table.project('epoch_us(ts), epoch_us("start"), until, "all"').fetchall() == [
        (moment.timestamp() * 1e6, moment.timestamp() * 1e6, text, [text]),
        (moment.timestamp() * 1e6, None, "never", None),
    ]
    assert table.project("nested").fetchall()[1] == ('{"at":"2018-03-24T17:15:20.500000005Z"}',)


def test_what_is_no_time_stands_in_the_rest(run: Run, hub: HubWithJournal, path: Path) -> None:
    """Numbers and other text in a column of times, unless the schema names it; so does an extension of nobody."""
    moment, text = datetime(2018, 3, 24, 17, tzinfo=UTC), "2018-03-24T17:00:00Z"
    seconds = int(moment.timestamp())
    hub.fill([("/a", {"at": moment, "until": text, "all": [moment], "own": text, "odd": "text"})])
    run(schema="own TIMESTAMP", event_time="")
    with hub.client() as client:
        client.publish("/a", {"at": seconds, "until": float(seconds), "all": [seconds], "own": seconds, "odd": "text"})
        client.publish_confirmed("/a", {"at": text, "until": "20180324", "odd": msgspec.msgpack.Ext(77, b"x")})
    run(event_time="")
    table = in_duckdb(path).order('"offset"')
    of_time = 'epoch("at"), epoch(until), list_transform("all", lambda each: epoch(each)), epoch(own), odd'
    assert table.project(of_time).fetchall() == [
        (seconds, seconds, [seconds], seconds, "text"),
        (None, None, None, seconds, "text"),
        (seconds, None, None, None, None),
    ]
    rests = [None if rest is None else json.loads(rest) for (rest,) in table.project("_rest").fetchall()]
    assert rests[:2] == [None, {"at": seconds, "until": float(seconds), "all": [seconds]}]
    body = msgpack.unpackb(base64.b64decode((rests[2] or {})["$msgpack"]), timestamp=3)
    assert (body["until"], body["odd"]) == ("20180324", msgpack.ExtType(77, b"x"))
    hub.fill([("/a", {"at": seconds})])
    run(schema="at TIMESTAMP", event_time="")
    assert in_duckdb(path).order('"offset"').project('epoch("at"), _rest').fetchall()[3] == (seconds, None)


def test_columns_that_were_written_down(run: Run, hub: HubWithJournal, path: Path) -> None:
    hub.fill(FIRST)
    first = run(schema="uid STRING, n INT, nested STRUCT<a: ARRAY<INT>>").decoded
    assert first is not None
    assert first.added == ["uid", "n", "nested", "ts", "id.orig_p", "tags", "field_topic"]
    rows = in_duckdb(path).order("uid").select("uid", "nested", "_rest").fetchall()
    assert rows[1][:2] == ("C2", {"a": [1]})
    assert json.loads(rows[1][2]) == {"id.orig_p": "http"}
    for schema, said in (
        ("uid INT", "column uid is STRING in this archive and cannot become INT"),
        ("topic STRING", "'topic' cannot be the name"),
        ("uid DECIMAL(5,2)", "a message has no values of type"),
        ("uid TEXTS", "columns expected such as"),
    ):
        with pytest.raises(UsageError, match=said):
            run(schema=schema)
    lose_commit(path / HUB / CHECKPOINT, 0)
    again = run(schema="uid STRING, n BIGINT, more BOOLEAN").decoded
    assert again is not None
    assert (again.added, again.widened) == (["more"], ["n"])
    rows = in_duckdb(path).order("uid").select("uid", "n", "more").fetchall()
    assert rows == [("C1", 1, None), ("C2", 2, None), (None, None, None)]  # written anew, in the same place


@pytest.mark.parametrize("kind", ["parquet", "iceberg"])
def test_a_table_for_each_topic(
    run: Run, hub: HubWithJournal, path: Path, kind: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Has columns of its own; what failed between two tables is repeated, and each record is there once."""
    hub.fill(FIRST)
    run(format=kind, table_by=2, schema="`id.orig_p` STRING, absent INT")
    hub.fill([*SECOND, ("/zeek/dns/7", {"n": "text"}), ("/zeek/conn", {"n": 3})])

    def fail(to: Any, *rest: Any) -> None:
        if "table=zeek_dns" in str(to if isinstance(to, Path) else vars(to)):
            raise OSError("broken")
        write(to, *rest)

    where: dict[Format, Any] = {"parquet": writing, "iceberg": IcebergBatches}
    name = "place" if kind == "parquet" else "write"
    write = getattr(where[kind], name)
    with monkeypatch.context() as patched:
        patched.setattr(where[kind], name, fail)
        with pytest.raises(StreamingQueryException, match="broken"):
            run(format=kind)
    done = run(format=kind, compact=kind == "parquet").decoded
    assert done is not None
    assert sorted(done.added) == []  # they were found by the run that failed
    assert sorted(one.name for one in path.glob("table=*")) == ["table=app_x", "table=zeek_conn", "table=zeek_dns"]
    assert offsets_of(path) == list(range(7))
    assert offsets_of(path, Selection(("/zeek/dns",))) == [3, 4, 5]
    if kind == "parquet":
        conns = in_duckdb(path / "table=zeek_conn")
        assert conns.order('"offset"').project("n, field_topic").fetchall() == [(1, "mine"), (2, None), (3, None)]
        assert "query" not in conns.columns
        assert "absent" not in conns.columns
        assert conns.project('"id.orig_p"').order('"id.orig_p"').fetchall() == [("http",), (None,), (None,)]
        dns = in_duckdb(path / "table=zeek_dns").order('"offset"')
        assert dns.project("n, query").fetchall() == [(2**40, "a.example"), (1, None), (None, None)]
        with pytest.raises(UsageError, match="--table-by: the tables of"):
            run(table_by=1)


def test_tables_are_bounded(  # noqa: PLR0917 -- fixtures
    run: Run,
    hub: HubWithJournal,
    path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Topics that come later share one, which is said once by each job; also where values stay as they came."""
    monkeypatch.setattr(writing, "TABLES_LIMIT", 2)
    hub.fill([(topic, 1) for topic in ("/b", "/a")])
    run(decode=False, event_time="", table_by=0)
    assert not capsys.readouterr().err
    hub.fill([(topic, 1) for topic in ("/c/d", "/c", "/c/d")])
    run(decode=False, event_time="")
    (said,) = capsys.readouterr().err.splitlines()
    assert said == (
        f"hub: {path} has 2 tables, which is the limit: the topics of all others go to table=_other; with fewer levels "
        "(--table-by) another archive has fewer tables"
    )
    names = ["table=_other", "table=a", "table=b"]
    assert sorted(one.name for one in path.glob("table=*")) == names
    assert sorted(row.offset for row in spark.read.parquet(str(path / "table=_other")).collect()) == [2, 3, 4]
    lose_commit(path / HUB / CHECKPOINT, 1)
    run(decode=False, event_time="")
    assert "which is the limit" in capsys.readouterr().err
    assert offsets_of(path) == list(range(5))
    with HubWithJournal(path.parent / "other") as other:
        replay(Access(other.url), str(path))
        assert other.records() == hub.records()


def test_the_queries_of_the_how_to(
    run_archive: Run, hub: HubWithJournal, path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.fill([(f"/plant/east/press-{number % 2}", {"celsius": 70.0 + number}) for number in range(4)])
    run_archive(decode=True)
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "archive.md").read_text()
    for example in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        exec(re.sub(r"(?<=['\"])archive\b", str(path), example), {"spark": spark})  # noqa: S102 -- our own
    said = capsys.readouterr().out
    assert [said.count(f"/plant/east/press-{number}") for number in range(2)] == [2, 2]
    assert {"71.0", "72.0", "73.0"} <= set(re.findall(r"\d+\.\d", said))
